// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables that the holder of a NIC's lock changes.
//!
//! Invariants
//! 1. Records are plain integers: any bit pattern is a value, so that a table that a hostile process wrote can be
//!    read, and refused, without undefined behaviour.
//! 2. The first word of a record is its *slot*: generation and status. A record is made, changes lists or is freed
//!    by one store to it; chains, free lists and counts are derived, and [`crate::portals::recover`] rebuilds them
//!    from the slots after a process died in the middle of a change.
//! 3. Links are indices; [`NONE`] ends a chain. A walk takes at most as many steps as the table has slots.
//!
//! Sizes are asserted below; layouts are `repr(C)` with explicit widths and no padding.

use crate::handle::NONE;
use crate::signals::LANES;

/// Status and generation of a record, in one word.
pub mod slot {
    /// The slot is on the free list. Every other status is the table's own.
    pub const FREE: u32 = 0;

    #[inline(always)]
    pub const fn status(slot: u32) -> u32 {
        slot & 0xff
    }
    #[inline(always)]
    pub const fn generation(slot: u32) -> u32 {
        slot >> 8
    }
    #[inline(always)]
    pub const fn word(generation: u32, status: u32) -> u32 {
        (generation << 8) | status
    }
}

/// Status of list entries.
pub mod entry {
    /// Handed out by a triggered append that has not fired.
    pub const RESERVED: u32 = 1;
    /// On a priority list.
    pub const PRIORITY: u32 = 2;
    /// On an overflow list.
    pub const OVERFLOW: u32 = 3;
    /// Automatically unlinked from an overflow list; unexpected headers still refer to it.
    pub const DRAINING: u32 = 4;
}

/// A list entry or match entry. Two cache lines: what a plain use-once receive needs to match, to be filled and to be
/// completed, and what the others need besides.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub slot: u32,
    pub options: u32,
    pub match_bits: u64,
    pub ignore_bits: u64,
    /// The source that it accepts: rank, or nid << 32 | pid; bits of `source_ignore` do not count.
    pub source: u64,
    pub source_ignore: u64,
    pub start: u64,
    /// Bytes in all, also of an I/O vector.
    pub length: u64,
    pub user_ptr: u64,

    /// Orders the entries of a list.
    pub sequence: u64,
    /// Links of the chain that it is on ([`Bucket`]), or of the free list.
    pub next: u32,
    pub prev: u32,
    pub min_free: u64,
    pub local_offset: u64,
    pub counter: u32,
    pub uid: u32,
    /// First heap block of the I/O vector, or NONE.
    pub iov: u32,
    pub iov_count: u32,
    /// Unexpected headers whose payload lies here.
    pub headers: u32,
    pub portal: u16,
    /// The class that it is indexed by, [`CLASS_OTHER`] or [`CLASS_SHORT`].
    pub class: u8,
    pub reserved: u8,
}

/// First and last record of a chain.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bucket {
    pub head: u32,
    pub tail: u32,
}

impl Bucket {
    pub const EMPTY: Bucket = Bucket { head: NONE, tail: NONE };
}

/// Wildcard patterns of one portal table entry that have a hash index of their own.
pub const CLASSES: usize = 4;
/// The class of entries whose pattern has none: searched in order.
pub const CLASS_OTHER: u8 = CLASSES as u8;

/// The class of an entry in its priority list's short list: it is in no index.
pub const CLASS_SHORT: u8 = u8::MAX;

/// A wildcard pattern: entries with the same pattern share a hash index.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Class {
    pub ignore_bits: u64,
    pub source_ignore: u64,
    /// Entries on the priority and on the overflow list with this pattern.
    pub entries: [u32; 2],
    pub used: u32,
    pub reserved: u32,
}

/// Status of portal table entries.
pub mod portal {
    pub const ENABLED: u32 = 1;
    pub const DISABLED: u32 = 2;
}

/// A portal table entry.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct PortalEntry {
    pub status: u32,
    pub options: u32,
    pub queue: u32,
    /// Entries of the priority and of the overflow list.
    pub entries: [u32; 2],
    /// The unexpected list, in order of arrival.
    pub headers: u32,
    pub header_head: u32,
    pub header_tail: u32,
    /// A `PTL_EVENT_PT_DISABLED` waits for room in the queue.
    pub disabled_event: u32,
    /// Entries without a class, per list.
    pub others: [u32; 2],
    /// Bit c: class c has entries, per list; the bit after the classes': others.
    pub active: [u8; 2],
    /// Bit c: class c has been used to search the unexpected headers, which are all on its chains.
    pub searched: u8,
    pub reserved: u8,
    /// The short list: its first entry and the place behind its last, as numbers that only grow. Number n lies at
    /// n modulo [`Limits::short_list`](crate::Limits::short_list) of this portal table entry's part of
    /// [`Tables::short_lists`].
    pub short_head: u32,
    pub short_tail: u32,
    /// How often it was disabled, also before it was last allocated ([`Request::epoch`]).
    pub disabled: u32,
    pub classes: [Class; CLASSES],
}

impl PortalEntry {
    /// Entries in the short list.
    #[inline(always)]
    pub fn short_length(&self) -> u32 {
        self.short_tail.wrapping_sub(self.short_head)
    }

    /// Which epoch it is in, from 1 on: the next begins when it is disabled.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        u64::from(self.disabled) + 1
    }

    /// Refuses what comes, and begins another epoch.
    pub fn disable(&mut self) {
        // In this order, for whoever dies between.
        self.disabled = self.disabled.wrapping_add(1);
        self.status = portal::DISABLED;
    }
}

/// Status of unexpected headers.
pub mod header {
    /// On the unexpected list.
    pub const LIVE: u32 = 1;
    /// Taken off the unexpected list for one receive, with its payload where it was.
    pub const CLAIMED: u32 = 2;
}

/// Chains that a header is on: arrival order, then one for each class.
pub const CHAINS: usize = CLASSES + 1;

/// An unexpected header: a message that an overflow entry took.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Header {
    pub slot: u32,
    pub entry: u32,
    pub source: u64,
    pub match_bits: u64,
    pub sequence: u64,
    /// Where the payload lies, in the owner's memory.
    pub start: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub header_data: u64,
    pub uid: u32,
    pub portal: u16,
    pub kind: u8,
    pub operation: u8,
    /// Next and previous on the list in arrival order, then on each class's chain.
    pub links: [[u32; 2]; CHAINS],
    pub datatype: u8,
    /// Bit c: it is on the chain of class c.
    pub chained: u8,
    pub reserved: u16,
    /// Of a put whose payload stayed with its initiator: what that calls it.
    pub token: u32,
}

/// What a request does. The values are of the wire format.
pub mod kind {
    pub const PUT: u8 = 1;
    pub const GET: u8 = 2;
    pub const ATOMIC: u8 = 3;
    pub const FETCH_ATOMIC: u8 = 4;
    pub const SWAP: u8 = 5;
    /// Commands of triggered operations only.
    pub const COUNTER_SET: u8 = 16;
    pub const COUNTER_INCREMENT: u8 = 17;
    pub const APPEND: u8 = 18;
    pub const UNLINK: u8 = 19;
}

/// The initiator's memory of a request, as its descriptor gave it, and where its events go.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Side {
    /// Address of the first byte; with an I/O vector, the offset into it.
    pub start: u64,
    pub iov: u32,
    pub iov_count: u32,
    /// Options of the descriptor.
    pub options: u32,
    pub queue: u32,
    pub counter: u32,
    pub reserved: u32,
}

impl Side {
    /// No memory, no events.
    pub const NOWHERE: Side =
        Side { start: 0, iov: NONE, iov_count: 0, options: 0, queue: NONE, counter: NONE, reserved: 0 };
}

/// A request as the target sees it.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Request {
    pub kind: u8,
    pub operation: u8,
    pub datatype: u8,
    pub ack: u8,
    pub portal: u32,
    pub uid: u32,
    pub reserved: u32,
    /// How the initiator presents itself: rank, or nid << 32 | pid.
    pub initiator: u64,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub header_data: u64,
    pub length: u64,
    /// Comparand or mask of a swap; of a put, the first word may be a token ([`Request::token`]), the second an epoch
    /// ([`Request::epoch`]).
    pub operand: [u64; 4],
}

impl Request {
    /// What the initiator calls the memory that a put's payload lies in, 0 for nothing. A put with a token that meets
    /// no receive leaves only its header, which carries the token: who takes the header fetches the payload itself.
    #[inline(always)]
    pub fn token(&self) -> u32 {
        if self.kind == kind::PUT { self.operand[0] as u32 } else { 0 }
    }

    /// In which epoch of its portal table entry a put may be accepted ([`PortalEntry::epoch`]), 0 for any. Puts of one epoch
    /// of which one was refused are all refused that come after it, so their sender can send them again in their order.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        if self.kind == kind::PUT { self.operand[1] } else { 0 }
    }
}

/// A data-moving operation with all that its execution needs, by whichever process.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Command {
    pub request: Request,
    /// Physical: nid << 32 | pid.
    pub target: u64,
    pub user_ptr: u64,
    /// Where the payload comes from (put, atomic, fetch-atomic, swap).
    pub source: Side,
    /// Where the reply goes (get, fetch-atomic, swap).
    pub sink: Side,
}

impl core::ops::Deref for Command {
    type Target = Request;
    #[inline(always)]
    fn deref(&self) -> &Request {
        &self.request
    }
}

/// Status of triggered operations.
pub mod triggered {
    /// Waits for its counter.
    pub const ARMED: u32 = 1;
    /// On the fire queue.
    pub const QUEUED: u32 = 2;
    /// A process is executing it.
    pub const FIRING: u32 = 3;
}

/// A triggered operation.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Triggered {
    pub slot: u32,
    /// The counter that it waits for.
    pub counter: u32,
    pub threshold: u64,
    pub next: u32,
    pub prev: u32,
    /// What it changes: a counter (reference), or an entry (index and generation as `entry_generation`).
    pub object: u32,
    pub list: u32,
    pub sequence: u64,
    /// The process that executes it: the home's word for a process.
    pub executor: u64,
    pub success: u64,
    pub failure: u64,
    pub command: Command,
    pub reserved: u64,
}

/// Status of pending requests.
pub mod pending {
    pub const WAITING: u32 = 1;
}

/// A request that another process's program must answer.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Pending {
    pub slot: u32,
    pub next: u32,
    pub command: Command,
    /// The process that it was sent to: the home's word for a process. Its Portals id may get another owner.
    pub responder: u64,
    pub reserved: u64,
}

/// A counter, as the holders of the lock know it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct CounterBook {
    pub slot: u32,
    pub next_free: u32,
    pub success: u64,
    pub failure: u64,
    /// The lowest threshold that an operation waits for; u64::MAX: none.
    pub threshold_next: u64,
    /// First and last operation that waits, lowest threshold first.
    pub armed_head: u32,
    pub armed_tail: u32,
    /// What lanes held when the first operation was armed: thresholds count it, and nobody counts in a lane then.
    pub settled: u64,
    /// Who has which lane of the counter: a number that the home gives its processes, 0 for nobody, or a grant
    /// ([`crate::portals::grants`]).
    pub lane_owners: [u32; LANES],
}

/// An event queue, as the holders of the lock know it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct QueueBook {
    pub slot: u32,
    pub next_free: u32,
    pub ring: u32,
    pub capacity: u32,
    /// Events written so far.
    pub tail: u64,
    /// A value that the consumers' head has had.
    pub head_seen: u64,
    pub reserved: [u64; 4],
}

/// Words of a mailbox slot.
pub const MAIL_WORDS: usize = 32;

/// A packet in the mailbox: header, then payload that fits.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct MailSlot {
    pub words: [u64; MAIL_WORDS],
}

/// What a transition is in the middle of, so that whoever finds its process dead can finish or fail it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Intent {
    /// 0: nothing; 1: bytes are being moved; 2: they have been moved, or not (`fail`); tables, events and counts follow.
    pub stage: u16,
    pub list: u8,
    pub fail: u8,
    pub entry: u32,
    pub initiator: u64,
    pub match_bits: u64,
    pub header_data: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub offset: u64,
    pub remote_offset: u64,
    /// Before the change: tail of the event queue, successes and failures of the counter, and what orders headers.
    pub queue_tail: u64,
    pub counted: u64,
    pub sequence: u64,
    pub uid: u32,
    pub kind: u8,
    pub operation: u8,
    pub datatype: u8,
    pub reserved: u8,
}

/// Heads of the free lists and queues, and what else there is once.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Control {
    /// Orders entries and headers; grows by one with each.
    pub sequence: u64,
    pub free_entry: u32,
    pub free_header: u32,
    pub free_triggered: u32,
    pub free_pending: u32,
    pub free_counter: u32,
    pub free_queue: u32,
    pub free_descriptor: u32,
    /// Triggered commands whose counter has reached their threshold, in firing order.
    pub fire_head: u32,
    pub fire_tail: u32,
    pub reserved: u32,
    /// The process that executes the fire queue, or 0.
    pub drainer: u64,
    /// Bit i: the grant in slot i is given, and not settled.
    pub granted: u64,
    /// Of these, those whose word is 0: their holders may be in the middle of a put.
    pub revoking: u64,
    /// Grants that were ever given: the number of the last.
    pub grants_given: u64,
    pub intent: Intent,
}

impl Control {
    /// Whether triggered operations are due.
    #[inline]
    pub fn has_fired(&self) -> bool {
        self.fire_head != NONE
    }
}

/// The tables, as the holder of the NIC's lock sees them.
pub struct Tables<'a> {
    pub control: &'a mut Control,
    pub portals: &'a mut [PortalEntry],
    /// Indices of entries: [`Limits::short_list`](crate::Limits::short_list) for each portal table entry.
    pub short_lists: &'a mut [u32],
    pub entries: &'a mut [Entry],
    pub entry_buckets: &'a mut [Bucket],
    pub headers: &'a mut [Header],
    pub header_buckets: &'a mut [Bucket],
    pub triggered: &'a mut [Triggered],
    pub counters: &'a mut [CounterBook],
    pub queues: &'a mut [QueueBook],
    pub pending: &'a mut [Pending],
    pub mail: &'a mut [MailSlot],
    /// State of the heap's allocator.
    pub heap_map: &'a mut [u64],
    /// Entries of one list at most.
    pub list_max: u32,
    /// Entries of one short list at most, a power of two.
    pub short_list: u32,
}

const _: () = {
    assert!(size_of::<Entry>() == 128);
    assert!(size_of::<Header>() == 128);
    assert!(size_of::<PortalEntry>() == 192);
    assert!(size_of::<Command>() == 168);
    assert!(size_of::<Triggered>() == 256);
    assert!(size_of::<Pending>() == 192);
    assert!(size_of::<CounterBook>() == 128);
    assert!(size_of::<QueueBook>() == 64);
    assert!(size_of::<MailSlot>() == 256);
    assert!(size_of::<Control>() == 192);
    assert!(size_of::<Bucket>() == 8);
};
