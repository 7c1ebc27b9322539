// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine: the description of a TOML file, checked and ready to simulate.
//!
//! | file | what |
//! |---|---|
//! | [`figure`] | a number with its source |
//! | [`description`] | the file, key by key |
//! | [`load`] | reads and checks the file; errors name file and line |
//! | `base` | a file that builds on another |
//! | [`graph`] | a node as a graph of units, and the paths of messages through it |
//! | `derive` | the graph of a machine whose file names no units |
//! | [`interface`] | how commands come from a program to its NIC |
//! | `assemble` | the units and paths that a file names |
//!
//! The simulation reads the times and rates of this module. Each comes from one key of the description and from nothing
//! else.

mod assemble;
mod base;
mod derive;
pub mod description;
pub mod figure;
pub mod graph;
pub mod interface;
pub mod load;

use std::sync::Arc;

use selvedge_fabric::{Algorithm, Routing, Topology};
use selvedge_nic::Step;
use selvedge_nic::aggregation::message::Distribution;

use crate::network::NetworkConfig;
use crate::time::Time;

use graph::{Class, Graph};
use interface::Interface;
pub use load::MachineError;

/// A machine, ready to simulate.
#[derive(Clone)]
pub struct Machine {
    pub name: String,
    pub about: String,
    pub topology: Arc<Topology>,
    pub routing: Routing,
    pub network: NetworkConfig,
    pub host: Host,
    pub nic: NicModel,
    /// The units of a node, and the paths of messages through them.
    pub graph: Graph,
    /// How commands come from a program to its NIC. None: `issue` of a path says it.
    pub interface: Option<Interface>,
    pub limits: TableLimits,
    /// What the aggregation nodes in its switches have room for. None: its switches do not reduce.
    pub aggregation: Option<AggregationModel>,
    /// The description of the machine.
    pub description: Arc<description::Description>,
}

/// Where messages are matched with receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On the NIC.
    Nic,
    /// On the host's processor, which the NIC interrupts (seed 003, section III-B).
    Host,
}

/// How ranks of one node reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameNode {
    /// Through their NIC, which loops messages back.
    Nic,
    /// In memory: small messages through rings; other messages are delivered by the sender's processor.
    Memory,
}

/// What becomes of a VELO message whose mailbox is full (seed 002, section 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullMailbox {
    /// It is lost, and counted.
    Drop,
    /// The NIC takes nothing more from the fabric until the message fits.
    Block,
    /// A sender has no more messages under way than its share of the mailbox.
    Credits,
}

/// How a match entry is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// By hash, as `nic` does it.
    Hash,
    /// By a search of an ordered list. `nic` still finds the entry by hash; the simulation computes the cost of the
    /// search.
    List,
}

/// Costs of the host.
#[derive(Clone, Debug)]
pub struct Host {
    pub software_send: Time,
    pub software_receive: Time,
    pub doorbell: Time,
    pub round_trip: Time,
    pub pio_write: Time,
    pub pio_bytes_per_s: u64,
    pub pio_bytes_max: u64,
    pub dma_read: Time,
    pub dma_write: Time,
    pub dma_bytes_per_s: u64,
    pub interrupt: Time,
    pub system_call: Time,
    pub memory_access: Time,
    pub copy_bytes_per_s: u64,
    /// Size and access time, smallest first.
    pub caches: Vec<(u64, Time)>,
    pub poll: Time,
    pub clock_read: Time,
    pub same_node: SameNode,
}

impl Host {
    /// The time of an access in a working set of so many bytes that is swept repeatedly: that of the smallest cache
    /// that holds the whole set, else that of memory.
    pub fn access(&self, working_set_bytes: u64) -> Time {
        let cache = self.caches.iter().find(|(bytes, _)| working_set_bytes <= *bytes);
        match (cache, self.caches.is_empty()) {
            (Some((_, access)), _) => *access,
            (None, true) => Time::ZERO,
            (None, false) => self.memory_access,
        }
    }

    /// How long the processor takes to copy so many bytes.
    pub fn copy(&self, bytes: u64) -> Time {
        if self.copy_bytes_per_s == 0 { Time::ZERO } else { Time::of_bytes(bytes, self.copy_bytes_per_s) }
    }
}

/// Costs of the NIC, or in host mode of the processor that does the NIC's work.
#[derive(Clone, Debug)]
pub struct NicModel {
    pub mode: Mode,
    pub matching: Matching,
    pub processors: u32,
    pub command: Time,
    pub header: Time,
    pub entry_search: Time,
    pub table_access: Time,
    pub transfer: Time,
    pub event: Time,
    pub counter: Time,
    pub polling_loop: Time,
    pub entry_bytes: u64,
    pub streams_max: u32,
    pub retry: Time,
    pub full_mailbox: FullMailbox,
}

impl NicModel {
    /// The cost of a step of a transition. The cost of searched entries depends on the list, too ([`Machine::search`]).
    pub fn price(&self, step: Step) -> Time {
        match step {
            Step::EntrySearched => self.entry_search,
            Step::TableAccess => self.table_access,
            Step::Transfer(_) => self.transfer,
            Step::EventPosted => self.event,
            Step::CounterUpdated => self.counter,
            // No machine describes a translation unit yet.
            Step::TlbHit | Step::AddressTableRead => self.table_access,
            // Like an event, each is one line of host memory.
            Step::SlotWritten | Step::Notification => self.event,
        }
    }
}

/// Sizes of a simulated NIC's tables; None: as the program needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLimits {
    pub entries: Option<u32>,
    pub headers: Option<u32>,
    pub descriptors: Option<u32>,
    pub counters: Option<u32>,
    pub queues: Option<u32>,
    pub portals: Option<u32>,
    pub triggered: Option<u32>,
    pub velo_bytes: Option<u32>,
    pub mailbox_slots: Option<u32>,
    pub tlb_entries: Option<u32>,
    pub tlb_ways: Option<u32>,
    /// None: no lock request is kept.
    pub lock_waiters: Option<u32>,
}

/// The room of an aggregation node. What it costs are paths of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationModel {
    /// Trees of a node, and children of a group at a node.
    pub trees: u32,
    pub children: u32,
    /// Operations of a group that may be under way.
    pub credits: u32,
    /// The most payload of a request.
    pub payload_bytes: u32,
    /// Inner ports between a switch and its node.
    pub ports: u32,
    /// How results come to members that are programs. None: down the tree alone.
    pub distribution: Option<Distribution>,
}

impl Machine {
    /// The cost of a search that compares `entries` entries of a list of `length`. In host mode each entry costs an
    /// access to memory, too.
    pub fn search(&self, entries: u64, length: u64) -> Time {
        let each = match self.nic.mode {
            Mode::Nic => self.nic.entry_search,
            Mode::Host => self.nic.entry_search + self.host.access(length.saturating_mul(self.nic.entry_bytes)),
        };
        each * entries
    }

    /// Whether all messages between two nodes arrive in the order in which they were sent, and none is refused.
    pub fn keeps_order(&self) -> bool {
        let errors = &self.network.errors;
        self.routing.deadlock_free()
            && !matches!(self.routing.algorithm(), Algorithm::WestFirst | Algorithm::Valiant)
            && errors.loss == 0.0
            && errors.corruption == 0.0
            && self.nic.streams_max == 0
    }

    /// The cost of a call that changes the NIC's tables and has an answer: append an entry, bind a descriptor, read a
    /// counter.
    pub fn local_command(&self) -> Time {
        match self.nic.mode {
            Mode::Nic => self.host.round_trip,
            Mode::Host => self.host.system_call + self.nic.command,
        }
    }

    /// The time of a message in memory, for its sender's processor: the library, and one copy.
    pub fn copied(&self, payload_bytes: u64) -> Time {
        self.host.software_send + Time::of_bytes(payload_bytes, self.host.copy_bytes_per_s)
    }

    /// The time from the program's call until the NIC has the command of a Portals operation with so many bytes of
    /// payload, if nothing else is under way.
    pub fn issue(&self, payload_bytes: u64) -> Time {
        let path = self.graph.path(Class::Request);
        let stage = &path.issue[usize::from(path.reads(payload_bytes))];
        let program: Time = stage.iter().map(|pass| pass.before + pass.latency + pass.bytes(payload_bytes)).sum();
        program + self.interface.as_ref().map_or(Time::ZERO, |interface| interface.start(payload_bytes))
    }
}
