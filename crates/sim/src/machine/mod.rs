// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine: what a TOML file describes, checked and made ready to simulate.
//!
//! | file | what |
//! |---|---|
//! | [`figure`] | a number with its source |
//! | [`description`] | the file, key by key |
//! | [`load`] | reading and checking it; errors name file and line |
//!
//! The times and rates here are what the simulation reads; each comes from one key of the description and from nothing else.

pub mod description;
pub mod figure;
pub mod load;

use std::sync::Arc;

use selvedge_fabric::{Algorithm, Routing, Topology};
use selvedge_nic::Step;

use crate::network::NetworkConfig;
use crate::time::Time;

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
    pub limits: TableLimits,
    /// The description that all this was made from.
    pub description: Arc<description::Description>,
}

/// Who matches messages with receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// The NIC.
    Nic,
    /// The host's processor, which the NIC interrupts (seed 003, section III-B).
    Host,
}

/// How a list is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// By hash: what the NIC does by itself.
    Hash,
    /// Entry by entry: what an ordered list would cost is computed beside.
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
}

impl Host {
    /// An access to something in a working set of so many bytes that is swept again and again: the smallest cache that holds all
    /// of it serves it, else memory.
    pub fn access(&self, working_set_bytes: u64) -> Time {
        let cache = self.caches.iter().find(|(bytes, _)| working_set_bytes <= *bytes);
        match (cache, self.caches.is_empty()) {
            (Some((_, access)), _) => *access,
            (None, true) => Time::ZERO,
            (None, false) => self.memory_access,
        }
    }

    /// How long the processor copies.
    pub fn copy(&self, bytes: u64) -> Time {
        if self.copy_bytes_per_s == 0 { Time::ZERO } else { Time::of_bytes(bytes, self.copy_bytes_per_s) }
    }
}

/// Costs of the NIC, or of the host that does its work.
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
}

impl NicModel {
    /// What a step of a transition costs; entries searched are priced by their number ([`Machine::search`]).
    pub fn price(&self, step: Step) -> Time {
        match step {
            Step::EntrySearched => self.entry_search,
            Step::TableAccess => self.table_access,
            Step::Transfer(_) => self.transfer,
            Step::EventPosted => self.event,
            Step::CounterUpdated => self.counter,
        }
    }
}

/// Sizes of a simulated NIC's tables, where the machine says them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLimits {
    pub entries: Option<u32>,
    pub headers: Option<u32>,
    pub descriptors: Option<u32>,
    pub counters: Option<u32>,
    pub queues: Option<u32>,
    pub portals: Option<u32>,
    pub triggered: Option<u32>,
}

impl Machine {
    /// Searching `entries` entries of a list that holds `length`: in the host's memory each costs an access to it, too.
    pub fn search(&self, entries: u64, length: u64) -> Time {
        let each = match self.nic.mode {
            Mode::Nic => self.nic.entry_search,
            Mode::Host => self.nic.entry_search + self.host.access(length.saturating_mul(self.nic.entry_bytes)),
        };
        each * entries
    }

    /// Whether the fabric hands messages between two nodes over in the order in which they were sent, and none is refused.
    pub fn keeps_order(&self) -> bool {
        let errors = &self.network.errors;
        self.routing.deadlock_free()
            && !matches!(self.routing.algorithm(), Algorithm::WestFirst | Algorithm::Valiant)
            && errors.loss == 0.0
            && errors.corruption == 0.0
            && self.nic.streams_max == 0
    }

    /// A call that changes the NIC's tables and is answered: an entry appended, a descriptor bound, a counter read back.
    pub fn local_command(&self) -> Time {
        match self.nic.mode {
            Mode::Nic => self.host.round_trip,
            Mode::Host => self.host.system_call + self.nic.command,
        }
    }

    /// What the program pays until an operation of so many bytes of payload is under way.
    pub fn issue(&self, payload_bytes: u64) -> Time {
        let host = &self.host;
        let handed_over = if payload_bytes <= host.pio_bytes_max {
            let write = if host.pio_bytes_per_s == 0 {
                Time::ZERO
            } else {
                Time::of_bytes(payload_bytes, host.pio_bytes_per_s)
            };
            host.doorbell.max(host.pio_write) + write
        } else {
            host.doorbell
        };
        match self.nic.mode {
            Mode::Nic => host.software_send + handed_over,
            Mode::Host => host.software_send + host.system_call + self.nic.command + handed_over,
        }
    }
}
