// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a NIC. Only the holder of the NIC's lock changes them.
//!
//! Invariants
//! 1. Records are plain integers: any bit pattern is a value. So a table that a hostile process wrote is read and
//!    refused without undefined behaviour.
//! 2. The first word of a record is its *slot*: generation and status. One store to the slot creates a record, moves it
//!    to another list or frees it. Chains, free lists and counts are derived: [`crate::portals::recover`] rebuilds them
//!    from the slots after a process died during a change.
//! 3. Links are indices; [`NONE`](crate::handle::NONE) ends a chain. A walk takes no more steps than the table has
//!    slots.
//!
//! Sizes are asserted beside the records; layouts are `repr(C)` with explicit widths and no padding.
//!
//! | file | records |
//! |---|---|
//! | [`slot`] | the first word of every record |
//! | [`command`](Command) | requests and commands; requests that wait for a response |
//! | [`lists`](Entry) | entries, the portal table, unexpected headers |
//! | [`counting`](CounterBook) | counters, event queues, triggered operations |
//! | [`ports`](Port) | ports, the TLB, kept lock requests |
//! | [`blocked_ring`](BlockedRing) | heads of messages without a destination |
//! | [`control`](Control) | heads of free lists and queues, grants, the intent of a change |

use crate::aggregation::Membership;
use crate::aggregation::member::Started;

mod blocked_ring;
mod command;
mod control;
mod counting;
mod lists;
mod ports;
pub mod slot;

pub use blocked_ring::{BlockedHead, BlockedRing, HEADS, blocked};
pub use command::{Command, Pending, Request, Side, kind, pending};
pub use control::{Control, Intent};
pub use counting::{CounterBook, GRANTED, QueueBook, Triggered, counter, queue, triggered};
pub use lists::{
    Bucket, CHAINS, CLASS_OTHER, CLASS_SHORT, CLASSES, Class, Entry, Folded, Header, PortalEntry, entry, header, portal,
};
pub use ports::{LOCKS, LockWaiter, PAGES, Port, TlbEntry, lock_waiter, port};

/// The tables, for the holder of the NIC's lock.
pub struct Tables<'a> {
    pub control: &'a mut Control,
    pub portals: &'a mut [PortalEntry],
    /// Indices of entries: [`Limits::short_list`](crate::Limits::short_list) for each portal table entry.
    pub short_lists: &'a mut [u32],
    pub entries: &'a mut [Entry],
    pub entry_buckets: &'a mut [Bucket],
    pub headers: &'a mut [Header],
    pub header_buckets: &'a mut [Bucket],
    /// Bits of the hashes by which the full indices have more buckets than these.
    pub folded: Folded,
    pub triggered: &'a mut [Triggered],
    pub counters: &'a mut [CounterBook],
    pub queues: &'a mut [QueueBook],
    pub pending: &'a mut [Pending],
    /// One for each VPID.
    pub ports: &'a mut [Port],
    /// [`LOCKS`] for each VPID.
    pub locks: &'a mut [u32],
    pub lock_waiters: &'a mut [LockWaiter],
    /// `None`: the home keeps no heads.
    pub blocked: Option<&'a mut BlockedRing>,
    /// The process's memberships in aggregation groups, and the started operations of each.
    pub memberships: &'a mut [Membership],
    pub started: &'a mut [Started],
    pub tlb: &'a mut [TlbEntry],
    /// The global address tables, of [`PAGES`] entries each ([`crate::atu`]).
    pub address_tables: &'a mut [u64],
    /// Entries of the TLB in which an address may be (associativity).
    pub tlb_ways: u32,
    /// The longest VELO message.
    pub velo_bytes: u32,
    /// State of the heap's allocator.
    pub heap_map: &'a mut [u64],
    /// The most entries in one list.
    pub list_max: u32,
    /// The most entries in one short list, a power of two.
    pub short_list: u32,
}
