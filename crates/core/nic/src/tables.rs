// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a NIC. Only the holder of the NIC's lock changes them.
//!
//! Invariants
//! 1. Records are plain integers: any bit pattern is a value. So the code can read and reject a table that a hostile
//!    process wrote, without undefined behaviour.
//! 2. The first word of a record is its *slot*: generation and status. One store to the slot creates a record, moves it
//!    to another list or frees it. Chains, free lists and counts are derived: [`crate::portals::recover`] rebuilds them
//!    from the slots after a process died during a change.
//! 3. Links are indices; [`NONE`] ends a chain. A walk takes at most as many steps as the table has slots.
//!
//! Sizes are asserted below; layouts are `repr(C)` with explicit widths and no padding.

use crate::aggregation::Membership;
use crate::aggregation::member::Started;
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

    /// The link of a free record to the next free one. It is relative, so zeroed records are a free list, each linked to the one
    /// behind it: a new table needs no memory before its records are used. A link out of the table ends the list.
    #[inline(always)]
    pub const fn link(index: u32, next: u32) -> u32 {
        next.wrapping_sub(index).wrapping_sub(1)
    }
    /// The free record that a link leads to: the inverse of [`link`].
    #[inline(always)]
    pub const fn next(index: u32, link: u32) -> u32 {
        link.wrapping_add(index).wrapping_add(1)
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
    /// Automatically unlinked; headers still refer to it: unexpected ones to one of an overflow list, that of a put whose payload is being
    /// fetched to one of a priority list.
    pub const DRAINING: u32 = 4;
}

/// A list entry or match entry. It has two cache lines: the first has all that a plain use-once receive needs to match,
/// to receive its payload and to complete; the second has the rest.
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
    /// Bytes in total, also of an I/O vector.
    pub length: u64,
    pub user_ptr: u64,

    /// Position of the entry in its list.
    pub sequence: u64,
    /// Links of the entry's chain ([`Bucket`]), or of the free list.
    pub next: u32,
    pub prev: u32,
    pub min_free: u64,
    pub local_offset: u64,
    pub counter: u32,
    pub uid: u32,
    /// First heap block of the I/O vector, or NONE.
    pub iov: u32,
    pub iov_count: u32,
    /// Headers whose payload is in this entry's memory, or is being fetched to it.
    pub headers: u32,
    pub portal: u16,
    /// The class that indexes this entry, [`CLASS_OTHER`] or [`CLASS_SHORT`].
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
/// The class of entries whose pattern has no hash index: the NIC searches them in order.
pub const CLASS_OTHER: u8 = CLASSES as u8;

/// The class of an entry in the short list of its priority list: it is in no index.
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
    /// 1: a `PTL_EVENT_PT_DISABLED` is due; it is posted when the queue has room.
    pub disabled_event: u32,
    /// Entries without a class, for each list.
    pub others: [u32; 2],
    /// Bit c: class c has entries, for each list. The bit after the classes stands for entries without a class.
    pub active: [u8; 2],
    /// Bit c: a search of the unexpected headers has used class c, so all headers are on its chains.
    pub searched: u8,
    pub reserved: u8,
    /// The short list: the number of its first entry, and the number after its last. Numbers only grow. Number n is
    /// stored at n modulo [`Limits::short_list`](crate::Limits::short_list), in this portal table entry's part of
    /// [`Tables::short_lists`].
    pub short_head: u32,
    pub short_tail: u32,
    /// How often it was disabled, including before its last allocation ([`Request::epoch`]).
    pub disabled: u32,
    pub classes: [Class; CLASSES],
}

impl PortalEntry {
    /// Entries in the short list.
    #[inline(always)]
    pub fn short_length(&self) -> u32 {
        self.short_tail.wrapping_sub(self.short_head)
    }

    /// The current epoch, from 1 on. Disabling the entry starts the next epoch.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        u64::from(self.disabled) + 1
    }

    /// Disables the entry: it refuses requests and starts another epoch.
    pub fn disable(&mut self) {
        // The order matters if the process dies between the two stores.
        self.disabled = self.disabled.wrapping_add(1);
        self.status = portal::DISABLED;
    }
}

/// Status of unexpected headers.
pub mod header {
    /// On the unexpected list.
    pub const LIVE: u32 = 1;
    /// Taken off the unexpected list for one receive: the payload stays where it is. Or a put that has matched, and whose payload is being
    /// fetched.
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
    /// Address of the payload, in the owner's memory.
    pub start: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub header_data: u64,
    pub uid: u32,
    pub portal: u16,
    pub kind: u8,
    pub operation: u8,
    /// Next and previous header, in order of arrival, then on each class's chain.
    pub links: [[u32; 2]; CHAINS],
    pub datatype: u8,
    /// Bit c: the header is on the chain of class c.
    pub chained: u8,
    pub reserved: u16,
    /// For a put whose payload stayed with its initiator: the initiator's token for the payload.
    pub token: u32,
}

/// The operation of a request. The values are those of the wire format.
pub mod kind {
    pub const PUT: u8 = 1;
    pub const GET: u8 = 2;
    pub const ATOMIC: u8 = 3;
    pub const FETCH_ATOMIC: u8 = 4;
    pub const SWAP: u8 = 5;
    /// Commands of the VELO and RMA units ([`crate::units`]).
    pub const VELO_SEND: u8 = 6;
    pub const RMA_PUT: u8 = 7;
    pub const RMA_GET: u8 = 8;
    pub const RMA_LOCK: u8 = 9;
    pub const RMA_NOTIFICATION_PUT: u8 = 10;
    pub const RMA_IMMEDIATE_PUT: u8 = 11;
    /// Messages of the aggregation unit ([`crate::aggregation::message`]).
    pub const AGGREGATION_REQUEST: u8 = 12;
    pub const AGGREGATION_RESULT: u8 = 13;
    pub const AGGREGATION_UP: u8 = 14;
    pub const AGGREGATION_DOWN: u8 = 15;
    /// Commands of triggered operations only.
    pub const COUNTER_SET: u8 = 16;
    pub const COUNTER_INCREMENT: u8 = 17;
    pub const APPEND: u8 = 18;
    pub const UNLINK: u8 = 19;
}

/// The initiator's memory of a request, as its descriptor gives it, and the queue and counter for its events.
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
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub kind: u8,
    pub operation: u8,
    pub datatype: u8,
    pub ack: u8,
    pub portal: u32,
    pub uid: u32,
    /// What the RMA unit's requester has translated for the command: look-ups that hit the TLB in 15:0, that missed it in
    /// 31:16. For homes that price them; nothing else depends on it.
    pub lookups: u32,
    /// The initiator's identity: rank, or nid << 32 | pid.
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
    /// Whether bytes go from the initiator's memory to the target.
    #[inline(always)]
    pub fn has_payload(&self) -> bool {
        use kind::{AGGREGATION_REQUEST, AGGREGATION_RESULT, ATOMIC, FETCH_ATOMIC, PUT, RMA_PUT, SWAP, VELO_SEND};
        let aggregates = matches!(self.kind, AGGREGATION_REQUEST | AGGREGATION_RESULT);
        aggregates || matches!(self.kind, PUT | ATOMIC | FETCH_ATOMIC | SWAP | VELO_SEND | RMA_PUT)
    }

    /// Whether bytes come back to the initiator's memory.
    #[inline(always)]
    pub fn has_reply(&self) -> bool {
        matches!(self.kind, kind::GET | kind::FETCH_ATOMIC | kind::SWAP | kind::RMA_GET)
    }

    /// The initiator's token for the memory of a put's payload, 0 for none. A put with a token that matches no posted
    /// receive leaves only its header, which carries the token. The receiver that takes the header fetches the payload
    /// itself.
    #[inline(always)]
    pub fn token(&self) -> u32 {
        if self.kind == kind::PUT { self.operand[0] as u32 } else { 0 }
    }

    /// The epoch of its portal table entry in which a put may be accepted ([`PortalEntry::epoch`]), 0 for any. If one
    /// put of an epoch is refused, all later puts of that epoch are refused too. So their sender can send them again in
    /// order.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        if self.kind == kind::PUT { self.operand[1] } else { 0 }
    }
}

/// A data-moving operation, with all that any process needs to run it.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Command {
    pub request: Request,
    /// Physical: nid << 32 | pid.
    pub target: u64,
    pub user_ptr: u64,
    /// The source of the payload (put, atomic, fetch-atomic, swap).
    pub source: Side,
    /// The destination of the reply (get, fetch-atomic, swap).
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
    /// The object that it changes: a counter (reference), or an entry (index and generation as `entry_generation`).
    pub object: u32,
    pub list: u32,
    pub sequence: u64,
    /// The process that runs it, by the home's identifier of the process.
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

/// A request that waits for the response of another process.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Pending {
    pub slot: u32,
    pub next: u32,
    pub command: Command,
    /// The process that must send the response, by the home's identifier. Its Portals id may pass to another process.
    pub responder: u64,
    pub reserved: u64,
}

/// Status of counters.
pub mod counter {
    pub const LIVE: u32 = 1;
}

/// Pages that a global address table maps.
pub const PAGES: usize = 1 << 18;
/// Locks of each VPID (seed 002, section 7.5.4: a page of 32-bit words).
pub const LOCKS: usize = 1024;

/// Status of ports.
pub mod port {
    pub const OPEN: u32 = 1;
}

/// A port: a VPID that a program has opened, with its mailbox and its notification queue.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Port {
    pub slot: u32,
    /// What its program may ask for ([`crate::rma::options`]), and how its mailbox is filled
    /// ([`crate::velo::options`]).
    pub options: u32,
    /// Slots of the mailbox that were written so far (WPLT).
    pub mailbox_tail: u64,
    /// Notifications that were written so far.
    pub notification_tail: u64,
    /// Messages and notifications that were discarded because there was no room.
    pub messages_discarded: u64,
    pub notifications_discarded: u64,
    /// A value that the mailbox's head has had. The head may be further.
    pub mailbox_head_seen: u64,
    /// 1: a message has arrived since the interrupt was cleared, masked or not.
    pub interrupt: u64,
    pub reserved: u64,
}

impl Port {
    /// Whether a program has it open.
    #[inline]
    pub fn is_open(&self) -> bool {
        slot::status(self.slot) == port::OPEN
    }
}

/// An entry of the TLB: a translation as its table had it when it was read. 0 in `entry`: there is none.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct TlbEntry {
    /// The page of the network logical address.
    pub page: u64,
    /// The entry of the global address table.
    pub entry: u64,
}

/// State of kept lock requests.
pub mod lock_waiter {
    /// It waits for a value with which it succeeds.
    pub const WAITS: u8 = 0;
    /// It succeeds: the lock is about to have its value. Recovery stores the value again.
    pub const CHANGES: u8 = 1;
    /// It is answered: a home is to send the answer.
    pub const DUE: u8 = 2;
    /// The process `executor` sends the answer.
    pub const SENDING: u8 = 3;
}

/// A lock request that failed and is kept ([`crate::rma::locks`]). A store to `sequence` makes or frees it, one to `state` moves it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct LockWaiter {
    /// Its number in order of arrival; 0: none.
    pub sequence: u64,
    pub lock: u32,
    pub compare: i32,
    pub add: i32,
    /// The port that asks: VPID in 15:0, node in 31:16.
    pub source: u32,
    /// How the home names its initiator ([`crate::bus::Asker`]).
    pub origin: u64,
    pub process: u64,
    pub token: u64,
    pub executor: u64,
    /// Of an answered request: the lock's value after it.
    pub value: i32,
    pub state: u8,
    /// Of an answered request: `PTL_NI_*`.
    pub fail: u8,
    /// Notifications that it asks for, and its mode.
    pub operation: u8,
    pub mode: u8,
}

/// Flag in a lane's owner word: the lane belongs to a grant. The other bits are the grant's slot.
pub const GRANTED: u32 = 1 << 31;

/// A counter's record for the holders of the lock.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct CounterBook {
    pub slot: u32,
    pub next_free: u32,
    pub success: u64,
    pub failure: u64,
    /// The lowest threshold that an operation waits for; `u64::MAX` if there is none.
    pub threshold_next: u64,
    /// First and last operation that waits, lowest threshold first.
    pub armed_head: u32,
    pub armed_tail: u32,
    /// The sum of the lanes when the first operation was armed. Thresholds include it; the lanes do not change while
    /// operations are armed.
    pub lanes_when_armed: u64,
    /// The owner of each lane: a number that the home gives its processes, 0 for no owner, or a grant
    /// ([`crate::portals::grants`]).
    pub lane_owners: [u32; LANES],
}

/// Status of event queues.
pub mod queue {
    pub const LIVE: u32 = 1;
}

/// An event queue's record for the holders of the lock.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct QueueBook {
    pub slot: u32,
    pub next_free: u32,
    pub ring: u32,
    pub capacity: u32,
    /// Events written so far.
    pub tail: u64,
    /// A value that the consumers' head has had. The head may be further.
    pub head_seen: u64,
    /// Room for the events of puts whose payload is being fetched.
    pub held: u64,
    pub reserved: [u64; 3],
}

/// The intent of an operation that changes the tables. If its process dies, another process uses it to finish or fail
/// the operation.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Intent {
    /// 0: no operation. 1: the bytes are being moved. 2: they have been moved, or not (`fail`); tables, events and
    /// counts follow.
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
    /// The state before the change: tail of the event queue, successes plus failures of the counter, sequence number of
    /// headers.
    pub queue_tail: u64,
    pub counted: u64,
    pub sequence: u64,
    pub uid: u32,
    pub kind: u8,
    pub operation: u8,
    pub datatype: u8,
    pub reserved: u8,
}

/// Heads of the free lists and queues, and all other fields that exist once.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Control {
    /// The sequence number of the newest entry or header. It grows by one with each.
    pub sequence: u64,
    pub free_entry: u32,
    pub free_header: u32,
    pub free_triggered: u32,
    pub free_pending: u32,
    pub free_counter: u32,
    pub free_queue: u32,
    pub free_descriptor: u32,
    /// Triggered operations whose counter has reached their threshold, in firing order.
    pub fire_head: u32,
    pub fire_tail: u32,
    /// Kept lock requests whose answer is due.
    pub answers: u32,
    /// The process that drains the fire queue and sends answers, or 0.
    pub drainer: u64,
    /// Bit i: the grant in slot i was given and has not ended.
    pub granted: u64,
    /// Of these, the grants whose word is 0. Their senders may be in the middle of a put.
    pub revoking: u64,
    /// The number of the last grant, which is also how many grants there have been.
    pub grants_given: u64,
    pub intent: Intent,
}

impl Control {
    /// Whether the home is to run something: operations of the fire queue, or answers of kept lock requests.
    #[inline]
    pub fn has_fired(&self) -> bool {
        self.fire_head != NONE || self.answers != 0
    }
}

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
    pub triggered: &'a mut [Triggered],
    pub counters: &'a mut [CounterBook],
    pub queues: &'a mut [QueueBook],
    pub pending: &'a mut [Pending],
    /// One for each VPID.
    pub ports: &'a mut [Port],
    /// [`LOCKS`] for each VPID.
    pub locks: &'a mut [u32],
    pub lock_waiters: &'a mut [LockWaiter],
    /// The groups of aggregation that the process is a member of, and as many started operations for each.
    pub memberships: &'a mut [Membership],
    pub started: &'a mut [Started],
    pub tlb: &'a mut [TlbEntry],
    /// The global address tables, of [`PAGES`] entries each ([`crate::atu`]).
    pub address_tables: &'a mut [u64],
    /// Entries of the TLB that an address may be in.
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

const _: () = {
    assert!(size_of::<Entry>() == 128);
    assert!(size_of::<Header>() == 128);
    assert!(size_of::<PortalEntry>() == 192);
    assert!(size_of::<Command>() == 168);
    assert!(size_of::<Triggered>() == 256);
    assert!(size_of::<Pending>() == 192);
    assert!(size_of::<CounterBook>() == 128);
    assert!(size_of::<QueueBook>() == 64);
    assert!(size_of::<Control>() == 192);
    assert!(size_of::<Bucket>() == 8);
    assert!(size_of::<Port>() == 64);
    assert!(size_of::<TlbEntry>() == 16);
    assert!(size_of::<LockWaiter>() == 64);
};
