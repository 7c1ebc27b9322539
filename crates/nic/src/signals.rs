// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is read without the NIC's lock: counters, event queues, descriptors, registers, the mailbox's ends.
//!
//! Invariants
//! 1. Only the holder of the lock stores to them, except that a queue's consumers advance its head, that a counter's
//!    lanes and the first two lines of a grant belong to their senders, and that the owner's program reads whatever it likes. So
//!    stores are plain, never read-modify-write, on the hot path.
//! 2. A counter's `success` is stored with release after the bytes that it counts; a reader loads it with acquire.
//! 3. An event's words are stored before its sequence number (release), which a consumer loads first (acquire).
//! 4. What somebody polls has a cache line of its own.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::handle::Encoding;
use crate::layout::Limits;
use crate::registers::{Register, Registers};

/// Words of an event in the heap: one block.
pub const EVENT_WORDS: usize = 16;

/// Senders that may have a word of their own in a counter, ...
pub const LANES: usize = 20;
/// ... and how many of those words lie in its first line. The others are read only where they were given out.
pub const NEAR_LANES: usize = 4;

/// A counting event (Portals 4.3, `ptl_ct_event_t`), as its readers see it. Who counts never reads this line: it
/// keeps its own books ([`crate::tables::CounterBook`]), so that a count moves the line once, not twice.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Counter {
    pub success: AtomicU64,
    pub failure: AtomicU64,
    /// Generation and status, as of tables.
    pub slot: AtomicU32,
    /// Lanes that were given out: no more than the first so many hold anything.
    pub lanes_given: AtomicU32,
    /// What senders that write the target's memory in place have counted that found no lane left: with atomic additions, ...
    pub common: AtomicU64,
    /// ... and the others, each in its own lane, with plain stores. See [`Counter::arrived`].
    pub lanes: [AtomicU64; LANES],
}

/// An event queue: a ring of events in the heap. The first line is hardly ever written, the second by consumers; how
/// far the writers are is in their books ([`crate::tables::QueueBook`]).
#[repr(C, align(128))]
#[derive(Default)]
pub struct EventQueue {
    pub slot: AtomicU32,
    /// First heap block of the ring.
    pub ring: AtomicU32,
    /// Events that it holds.
    pub capacity: AtomicU32,
    /// Portal table entries whose `PTL_EVENT_PT_DISABLED` waits for room here.
    pub disabled_events: AtomicU32,
    pub reserved: [AtomicU64; 6],
    /// Events consumed or overwritten so far.
    pub head: AtomicU64,
    /// Of the events below this number, those that were not consumed have been overwritten. Writers store it.
    pub lost_below: AtomicU64,
    /// What of that consumers have reported.
    pub reported: AtomicU64,
    pub reserved2: [AtomicU64; 5],
}

/// A memory descriptor. Its fields are stored before the slot, which a reader loads before and after them.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Descriptor {
    pub slot: AtomicU32,
    pub next_free: AtomicU32,
    pub start: AtomicU64,
    /// Bytes in all, also of an I/O vector.
    pub length: AtomicU64,
    pub options: AtomicU32,
    pub queue: AtomicU32,
    pub counter: AtomicU32,
    /// First heap block of the I/O vector, or NONE.
    pub iov: AtomicU32,
    pub iov_count: AtomicU32,
    pub reserved: AtomicU32,
    pub reserved2: AtomicU64,
}

/// Grants that a NIC may have given at once.
pub const GRANTS: usize = 64;

/// A sender's permission to put to one entry, or to count in a lane of one counter, without the NIC's lock, until it is revoked
/// ([`crate::portals::grants`]). Two pairs of lines: the sender stores to the first with each put, holders of the lock to the second.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Grant {
    /// 1 while its holder is in the middle of a put.
    pub busy: AtomicU64,
    /// What its lane holds.
    pub counted: AtomicU64,
    /// Puts that were made by grants in this slot, and their bytes, by all holders that it has had.
    pub puts: AtomicU64,
    pub bytes: AtomicU64,
    pub reserved: [AtomicU64; 12],
    /// The grant word: the number of the grant while its holder may put by it; 0: it is revoked, or none was given.
    pub word: AtomicU64,
    /// The process that the slot belongs to, for as long as that lives: the home's word for a process.
    pub holder: AtomicU64,
    pub portal: AtomicU32,
    /// The counter, by its index.
    pub counter: AtomicU32,
    /// Number of the last grant that was given in this slot, also when it is revoked.
    pub number: AtomicU64,
    pub reserved2: [AtomicU64; 12],
}

/// What tells the owner that work waits for it.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Doorbell {
    /// Packets put into the mailbox so far.
    pub mail_tail: AtomicU64,
    /// Packets taken out of it so far.
    pub mail_head: AtomicU64,
    /// Triggered commands on the fire queue.
    pub fired: AtomicU32,
    /// Set when only the owner can execute them: their memory cannot be reached from elsewhere.
    pub owner_wanted: AtomicU32,
    pub reserved: [AtomicU64; 5],
}

/// All of it.
#[derive(Clone, Copy)]
pub struct Signals<'a> {
    pub doorbell: &'a Doorbell,
    pub registers: &'a Registers,
    pub counters: &'a [Counter],
    pub queues: &'a [EventQueue],
    pub descriptors: &'a [Descriptor],
    /// Empty where the home gives none.
    pub grants: &'a [Grant],
    /// Event rings, copies of I/O vectors and payload that waits, in blocks of 128 bytes.
    pub heap: &'a [AtomicU64],
    /// How references to counters, queues and descriptors are written.
    pub encodings: Encodings,
}

impl Signals<'_> {
    /// A register's value now, with the puts by grants.
    pub fn register(&self, register: Register) -> u64 {
        let by_grant = |grant: &Grant| grant.counted(register);
        self.grants.iter().map(by_grant).fold(self.registers.get(register), u64::wrapping_add)
    }
}

impl Grant {
    /// What its puts add to a register.
    pub fn counted(&self, register: Register) -> u64 {
        match register {
            Register::Requests | Register::MatchedPriority | Register::ListSteps => self.puts.load(Relaxed),
            Register::BytesIn => self.bytes.load(Relaxed),
            _ => 0,
        }
    }
}

/// How references to the records of [`Signals`] are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encodings {
    pub counters: Encoding,
    pub queues: Encoding,
    pub descriptors: Encoding,
}

impl Encodings {
    pub fn new(limits: &Limits) -> Encodings {
        Encodings {
            counters: Encoding::new(limits.counters as usize),
            queues: Encoding::new(limits.queues as usize),
            descriptors: Encoding::new(limits.descriptors as usize),
        }
    }
}

const _: () = {
    assert!(size_of::<Counter>() == 192);
    assert!(size_of::<EventQueue>() == 128);
    assert!(size_of::<Descriptor>() == 64);
    assert!(size_of::<Doorbell>() == 64);
    assert!(size_of::<Grant>() == 256);
};
