// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node as a graph of units, and the paths of messages through it. See docs/design/machine-model.md.
//!
//! Every machine has a [`Graph`]. Its file names the units and paths (`[unit.NAME]`, `[path.CLASS]`), or
//! [`super::derive`] makes them from the keys of `[host]` and `[nic]`.
//!
//! Invariants
//! 1. Every pass names a unit of the graph.
//! 2. A path has the passes for all stages of its class; an empty stage takes no time.

use selvedge_nic::tables::{Request, kind};

use crate::time::Time;

/// A part of a node that works on one item at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub name: String,
    /// Items that may wait before it; 0: any number.
    pub queue: u32,
    /// Whether it is the processor of a rank's program: the program continues after it.
    pub is_processor: bool,
}

/// Number of a unit in its graph.
pub type UnitId = u16;

/// One step of a path: a unit, and the costs of an item there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    pub unit: UnitId,
    /// Time before the item needs the unit.
    pub before: Time,
    /// Time through the unit.
    pub latency: Time,
    /// Time from the begin of an item to that of the next, without the time for its bytes.
    pub interval: Time,
    /// Bytes a second; 0: bytes take no time.
    pub bytes_per_s: u64,
    /// Whether it interrupts the processor.
    pub interrupts: bool,
    /// Whether the unit keeps the message until its last byte has left the node, and then for the interval.
    pub until_sent: bool,
    /// Whether the message's bytes pass through the unit, so that its latency also delays the last one.
    pub carries_data: bool,
}

impl Pass {
    /// Makes a pass that takes time and delays no other item.
    pub fn delay(unit: UnitId, latency: Time) -> Pass {
        Pass {
            unit,
            before: Time::ZERO,
            latency,
            interval: Time::ZERO,
            bytes_per_s: 0,
            interrupts: false,
            until_sent: false,
            carries_data: false,
        }
    }

    /// Makes a pass whose unit takes the next item when it has finished this one.
    pub fn work(unit: UnitId, time: Time) -> Pass {
        Pass { interval: time, ..Pass::delay(unit, time) }
    }

    /// Returns the time for n bytes.
    #[inline]
    pub fn bytes(&self, bytes: u64) -> Time {
        if self.bytes_per_s == 0 { Time::ZERO } else { Time::of_bytes(bytes, self.bytes_per_s) }
    }

    /// Returns the time from the begin of an item to that of the next.
    #[inline]
    pub fn occupies(&self, bytes: u64) -> Time {
        self.interval + self.bytes(bytes)
    }
}

/// The class of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// A request of the Portals unit.
    Request,
    /// Its acknowledgement or reply, and the notice of a refusal.
    Response,
    /// A message of the VELO unit.
    Velo,
    RmaPut,
    RmaGet,
    /// The bytes read by a get.
    RmaGetResponse,
    RmaImmediatePut,
    RmaNotificationPut,
    RmaLock,
    /// The answer to a lock, or the report of an error.
    RmaResponse,
    /// Of the aggregation unit: from a member to its node, between nodes, and from a node to a member.
    AggregationRequest,
    Aggregation,
    AggregationResult,
    /// From the root to all members at once.
    AggregationMulticast,
}

impl Class {
    pub const ALL: [Class; 14] = [
        Class::Request,
        Class::Response,
        Class::Velo,
        Class::RmaPut,
        Class::RmaGet,
        Class::RmaGetResponse,
        Class::RmaImmediatePut,
        Class::RmaNotificationPut,
        Class::RmaLock,
        Class::RmaResponse,
        Class::AggregationRequest,
        Class::Aggregation,
        Class::AggregationResult,
        Class::AggregationMulticast,
    ];

    /// Returns its name in a machine's file.
    pub fn name(self) -> &'static str {
        match self {
            Class::Request => "request",
            Class::Response => "response",
            Class::Velo => "velo",
            Class::RmaPut => "rma_put",
            Class::RmaGet => "rma_get",
            Class::RmaGetResponse => "rma_get_response",
            Class::RmaImmediatePut => "rma_immediate_put",
            Class::RmaNotificationPut => "rma_notification_put",
            Class::RmaLock => "rma_lock",
            Class::RmaResponse => "rma_response",
            Class::AggregationRequest => "aggregation_request",
            Class::Aggregation => "aggregation",
            Class::AggregationResult => "aggregation_result",
            Class::AggregationMulticast => "aggregation_multicast",
        }
    }

    /// Returns the class of a request.
    #[inline]
    pub fn of_request(request: &Request) -> Class {
        match request.kind {
            kind::VELO_SEND => Class::Velo,
            kind::RMA_PUT => Class::RmaPut,
            kind::RMA_GET => Class::RmaGet,
            kind::RMA_IMMEDIATE_PUT => Class::RmaImmediatePut,
            kind::RMA_NOTIFICATION_PUT => Class::RmaNotificationPut,
            kind::RMA_LOCK => Class::RmaLock,
            _ if request.is_aggregation() => Class::AggregationRequest,
            _ => Class::Request,
        }
    }

    /// Returns the class of the response to a request. `replies`: it carries read bytes.
    #[inline]
    pub fn of_response(request: &Request, replies: bool) -> Class {
        match request.kind {
            _ if request.is_portals() => Class::Response,
            kind::RMA_GET if replies => Class::RmaGetResponse,
            kind::VELO_SEND => Class::Response,
            _ => Class::RmaResponse,
        }
    }

    /// Whether messages of this class return to the initiator.
    pub fn is_response(self) -> bool {
        matches!(self, Class::Response | Class::RmaGetResponse | Class::RmaResponse)
    }
}

/// The passes of a stage.
pub type Stage = Box<[Pass]>;

/// The path of a class of messages. The stages are those of docs/design/machine-model.md.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Path {
    /// Longest payload that travels with the command.
    pub inline_bytes: u64,
    /// Bytes of the message on the wire beside its payload, without the link's own overhead.
    pub frame_bytes: u64,
    /// With the payload inline, and with a payload that is read from memory.
    pub issue: [Stage; 2],
    /// Time of a derived path's library before the command leaves the processor. `issue` includes it.
    pub software: Time,
    /// Replaces `issue` when the NIC starts the command without its program.
    pub fire: Stage,
    pub command: [Stage; 2],
    pub read: Stage,
    pub header: Stage,
    /// Time from the arrival of the last byte until it has passed the units of `header` that carry data.
    pub trailing: Time,
    pub packet: Stage,
    /// Longest payload that came with the header and is not written. `None`: all is written.
    pub kept_bytes: Option<u64>,
    pub write: Stage,
    /// Size of the items in which the payload is written; 0: one item.
    pub slot_bytes: u64,
    pub notify: Stage,
    /// Whether the file names the units that write slots and notifications. Otherwise each costs an event.
    pub writes_records: bool,
    /// After the delivery: time to record the end of an operation at its initiator.
    pub record: Time,
    /// Time of the program's library to take the message in.
    pub receive: Time,
    /// The unit that works on the message at its target. Further costs of the delivery keep it busy.
    pub holder: UnitId,
}

impl Path {
    /// Whether a payload is read from memory.
    #[inline]
    pub fn reads(&self, bytes: u64) -> bool {
        bytes > self.inline_bytes
    }

    /// Returns the number of items in which a payload is written.
    #[inline]
    pub fn items(&self, bytes: u64) -> u64 {
        if self.slot_bytes == 0 { 1 } else { bytes.div_ceil(self.slot_bytes).max(1) }
    }

    /// Returns the time from the begin of a packet to that of the next, if packets are read one after the other.
    pub fn read_time(&self, bytes: u64) -> Time {
        self.read.iter().map(|pass| pass.occupies(bytes)).max().unwrap_or(Time::ZERO)
    }
}

/// The address translation unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// Passes through the unit with the entry in the TLB, and with one read from its table.
    pub hit: Pass,
    pub miss: Pass,
    pub tlb_entries: u32,
    pub tlb_ways: u32,
}

/// A node: its units, and the paths through them.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    pub units: Vec<Unit>,
    /// By class.
    pub paths: [Path; Class::ALL.len()],
    /// `None`: translations cost an access to a table, by the file.
    pub translation: Option<Translation>,
    /// Whether a unit has a bounded queue.
    pub is_bounded: bool,
}

impl Graph {
    #[inline]
    pub fn path(&self, class: Class) -> &Path {
        &self.paths[class as usize]
    }

    /// Whether the file names units for the commands of VELO and RMA.
    pub fn has_units(&self) -> bool {
        let used = [Class::Velo, Class::RmaPut, Class::RmaGet, Class::RmaGetResponse, Class::RmaNotificationPut];
        used.into_iter().all(|class| self.path(class).writes_records)
    }
}
