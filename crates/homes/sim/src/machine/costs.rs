// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Costs and modes of host and NIC, and the sizes of their tables.

use selvedge_nic::Step;
use selvedge_nic::aggregation::message::Distribution;

use crate::time::Time;

/// Place where messages are matched with receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// On the NIC.
    Nic,
    /// On the host's processor, which the NIC interrupts (seed 003, section III-B).
    Host,
}

/// Path between ranks of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameNode {
    /// Through their NIC, which loops messages back.
    Nic,
    /// In memory: small messages through rings; other messages are delivered by the sender's processor.
    Memory,
}

/// The treatment of a VELO message whose mailbox is full (seed 002, section 6.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullMailbox {
    /// The message is lost, and counted.
    Drop,
    /// The NIC takes nothing more from the fabric until the message fits.
    Block,
    /// A sender has no more messages under way than its share of the mailbox.
    Credits,
}

/// Search for a match entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matching {
    /// By hash, as in `nic`.
    Hash,
    /// By a search of an ordered list. `nic` still uses its hash; the simulation computes the cost of the search.
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
    /// Returns the time of an access in a working set of n bytes that is swept repeatedly: that of the smallest cache
    /// that holds the whole set, else that of memory.
    pub fn access(&self, working_set_bytes: u64) -> Time {
        let cache = self.caches.iter().find(|(bytes, _)| working_set_bytes <= *bytes);
        match (cache, self.caches.is_empty()) {
            (Some((_, access)), _) => *access,
            (None, true) => Time::ZERO,
            (None, false) => self.memory_access,
        }
    }

    /// Returns the time that the processor takes to copy n bytes.
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
    /// Returns the cost of a step of a transition. The cost of searched entries also depends on the list
    /// ([`super::Machine::search`]).
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

/// Sizes of a simulated NIC's tables; `None`: as the program needs.
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
    /// `None`: no lock request is kept.
    pub lock_waiters: Option<u32>,
}

/// Capacity of an aggregation node. Its costs are paths of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregationModel {
    /// Trees of a node, and children of a group at a node.
    pub trees: u32,
    pub children: u32,
    /// Operations of a group that may be under way.
    pub credits: u32,
    /// Longest payload of a request.
    pub payload_bytes: u32,
    /// Inner ports between a switch and its node.
    pub ports: u32,
    /// How results reach members that are programs. `None`: only down the tree.
    pub distribution: Option<Distribution>,
}
