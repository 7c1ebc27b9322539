// SPDX-License-Identifier: Apache-2.0 OR MIT
//! State that is read without the NIC's lock: counters, event queues, descriptors, registers, the doorbell.
//!
//! Invariants
//! 1. Only the holder of the lock stores to this state, with these exceptions: consumers advance the head of a queue,
//!    and senders store to a counter's lanes and to the first two lines of a grant. The owner's program may read all of
//!    it. So stores on the hot path are plain, never read-modify-write.
//! 2. A counter's `success` is stored with release after the bytes that it counts. A reader loads it with acquire.
//! 3. An event's words are stored before its sequence number (release). A consumer loads that number first (acquire).
//! 4. Each word that a process polls has a cache line of its own.

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::handle::Encoding;
use crate::limits::Limits;
use crate::registers::{Register, Registers};

/// Words of an event in the heap: one block.
pub const EVENT_WORDS: usize = 16;

/// The most senders with a word of their own (a lane) in a counter.
pub const LANES: usize = 20;
/// The lanes in the counter's first line. Readers read the other lanes only if they are in use.
pub const NEAR_LANES: usize = 4;

/// A counting event (Portals 4.3, `ptl_ct_event_t`), in the form for readers. A writer never reads this line: it keeps
/// its own record ([`crate::tables::CounterBook`]). So a count moves the line between processors once, not twice.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Counter {
    pub success: AtomicU64,
    pub failure: AtomicU64,
    /// Generation and status, as in the tables.
    pub slot: AtomicU32,
    /// Number of lanes assigned so far, from lane 0 on. Later lanes are empty.
    pub lanes_given: AtomicU32,
    /// The count of all senders that map the target's memory but have no lane. They use atomic additions.
    pub common: AtomicU64,
    /// The counts of the other such senders, each in its own lane, with plain stores. See [`Counter::arrived`].
    pub lanes: [AtomicU64; LANES],
}

/// An event queue: a ring of events in the heap. The first line hardly ever changes; consumers write the second. The
/// writers keep their tail in a record of their own ([`crate::tables::QueueBook`]).
#[repr(C, align(128))]
#[derive(Default)]
pub struct EventQueue {
    pub slot: AtomicU32,
    /// First heap block of the ring.
    pub ring: AtomicU32,
    /// Capacity in events.
    pub capacity: AtomicU32,
    /// Portal table entries whose `PTL_EVENT_PT_DISABLED` waits for room here.
    pub disabled_events: AtomicU32,
    pub reserved: [AtomicU64; 6],
    /// Events consumed or overwritten so far.
    pub head: AtomicU64,
    /// Events below this number that were not consumed are lost. Writers store it.
    pub lost_below: AtomicU64,
    /// The value of `lost_below` that consumers have reported.
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
    /// Bytes in total, also of an I/O vector.
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

/// The most grants that a NIC may have at once.
pub const GRANTS: usize = 64;

/// A grant: a sender's permission to put to one entry, or to count in a lane of one counter, without the NIC's lock,
/// until the grant is revoked ([`crate::portals::grants`]). It has two pairs of lines: the sender stores to the first
/// with each put; holders of the lock store to the second.
#[repr(C, align(128))]
#[derive(Default)]
pub struct Grant {
    /// 1 while the sender is in the middle of a put.
    pub busy: AtomicU64,
    /// The value of the grant's lane.
    pub counted: AtomicU64,
    /// Puts by all grants of this slot so far, and their bytes.
    pub puts: AtomicU64,
    pub bytes: AtomicU64,
    pub reserved: [AtomicU64; 12],
    /// The grant word: the grant's number while the sender may put; else 0.
    pub word: AtomicU64,
    /// The process that owns this slot while it lives, by the home's identifier of the process.
    pub holder: AtomicU64,
    pub portal: AtomicU32,
    /// The index of the counter.
    pub counter: AtomicU32,
    /// Number of the last grant of this slot, revoked or not.
    pub number: AtomicU64,
    pub reserved2: [AtomicU64; 12],
}

/// Notifies the owner that work waits for it.
#[repr(C, align(64))]
#[derive(Default)]
pub struct Doorbell {
    /// 1: rings of this NIC may hold packets. A sender stores 1 after it has enqueued. The owner stores 0 under the
    /// lock, when it finds the rings empty. So if a holder of the lock reads 0, no packet waits.
    pub packets: AtomicU64,
    /// Triggered commands on the fire queue.
    pub fired: AtomicU32,
    /// Set if only the owner can run the triggered commands, because no other process can access their memory.
    pub owner_wanted: AtomicU32,
    pub reserved: [AtomicU64; 6],
}

impl Doorbell {
    /// Whether rings of this NIC may hold packets.
    #[inline(always)]
    pub fn has_packets(&self) -> bool {
        self.packets.load(Relaxed) != 0
    }
}

/// Words of a slot of a mailbox: the status word and 56 bytes of the message.
pub const SLOT_WORDS: usize = 8;
/// Words of a notification.
pub const NOTIFICATION_WORDS: usize = 2;

/// The read pointers of a port. Its program stores them, each on a line of its own. The mailbox's is stored only now
/// and then (seed 002, section 7.4: lazy pointers).
#[repr(C, align(128))]
#[derive(Default)]
pub struct PortPointers {
    /// Slots of the mailbox that were read and may be reused, published lazily (RPLT).
    pub mailbox_head: AtomicU64,
    /// Slots of the mailbox that were read, up to date. Recovery reads it after a writer has died.
    pub mailbox_taken: AtomicU64,
    /// Messages that the program has sent through the port, since the NIC was made.
    pub sent: AtomicU64,
    /// Messages that the program has taken from rings, since the NIC was made.
    pub taken_from_rings: AtomicU64,
    pub reserved: [AtomicU64; 12],
    /// Notifications that were read, up to date. Recovery reads it after a writer has died.
    pub notification_head: AtomicU64,
    pub reserved2: [AtomicU64; 15],
}

/// All state that is read without the lock.
#[derive(Clone, Copy)]
pub struct Signals<'a> {
    pub doorbell: &'a Doorbell,
    pub registers: &'a Registers,
    pub counters: &'a [Counter],
    pub queues: &'a [EventQueue],
    pub descriptors: &'a [Descriptor],
    /// Empty if the home supports no grants.
    pub grants: &'a [Grant],
    /// One for each VPID.
    pub port_pointers: &'a [PortPointers],
    /// The mailboxes of all VPIDs, of [`Limits::mailbox_slots`] slots each.
    pub mailboxes: &'a [AtomicU64],
    /// The notification queues of all VPIDs, of [`Limits::notifications`] entries each.
    pub notifications: &'a [AtomicU64],
    /// Event rings and copies of I/O vectors, in blocks of 128 bytes.
    pub heap: &'a [AtomicU64],
    /// The encodings of references to counters, queues and descriptors.
    pub encodings: Encodings,
}

impl<'a> Signals<'a> {
    /// The current value of a register, including the counts of senders and ports.
    pub fn register(&self, register: Register) -> u64 {
        let by_grant = self.grants.iter().map(|grant| grant.added_to(register));
        let by_port = self.port_pointers.iter().map(|port| port.added_to(register));
        by_grant.chain(by_port).fold(self.registers.get(register), u64::wrapping_add)
    }

    /// The words of a VPID's mailbox; none: there is no such VPID.
    #[inline]
    pub(crate) fn mailbox_words(&self, vpid: u16) -> &'a [AtomicU64] {
        of_port(self.mailboxes, SLOT_WORDS, self.port_pointers.len(), vpid)
    }

    /// Slots of a VPID's mailbox; 0: there is no such VPID.
    pub fn mailbox_slots(&self, vpid: u16) -> u64 {
        (self.mailbox_words(vpid).len() / SLOT_WORDS) as u64
    }

    /// Zeroes the mailbox, the notification queue and the pointers of a VPID.
    pub(crate) fn empty_port(&self, vpid: u16) {
        let Some(pointers) = self.port_pointers.get(usize::from(vpid)) else { return };
        pointers.mailbox_taken.store(0, Relaxed);
        pointers.mailbox_head.store(0, Relaxed);
        pointers.notification_head.store(0, Relaxed);
        let mailbox = self.mailbox_words(vpid).iter().step_by(SLOT_WORDS);
        let notifications = of_port(self.notifications, NOTIFICATION_WORDS, self.port_pointers.len(), vpid).iter();
        mailbox.chain(notifications).for_each(|word| word.store(0, Release));
    }
}

/// The words of one VPID in an array that all VPIDs share evenly.
#[inline]
fn of_port(words: &[AtomicU64], record: usize, ports: usize, vpid: u16) -> &[AtomicU64] {
    let length = (words.len() / record).checked_div(ports).unwrap_or(0) * record;
    let start = length * usize::from(vpid);
    words.get(start..start + length).unwrap_or_default()
}

impl PortPointers {
    /// The share of a register that a port's program counts.
    pub fn added_to(&self, register: Register) -> u64 {
        match register {
            Register::VeloSent => self.sent.load(Relaxed),
            Register::VeloReceived => self.taken_from_rings.load(Relaxed),
            _ => 0,
        }
    }

    /// Counts a message that the port's program has sent. Called by that program, in one thread at a time.
    #[inline]
    pub fn count_sent(&self) {
        self.sent.store(self.sent.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Counts a message that the port's program has taken from a ring. As [`PortPointers::count_sent`].
    #[inline]
    pub fn count_taken_from_ring(&self) {
        self.taken_from_rings.store(self.taken_from_rings.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

impl Grant {
    /// The share of a register that puts by grants count.
    pub fn added_to(&self, register: Register) -> u64 {
        match register {
            Register::Requests | Register::MatchedPriority | Register::ListSteps => self.puts.load(Relaxed),
            Register::BytesIn => self.bytes.load(Relaxed),
            _ => 0,
        }
    }
}

/// The encodings of references to records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encodings {
    /// Of the entries, which are no signals. It depends on the limit, as the others do, not on the present table.
    pub entries: Encoding,
    pub counters: Encoding,
    pub queues: Encoding,
    pub descriptors: Encoding,
}

impl Encodings {
    pub fn new(limits: &Limits) -> Encodings {
        Encodings {
            entries: Encoding::new(limits.entries as usize),
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
    assert!(size_of::<PortPointers>() == 256);
};
