// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Taking messages out of the rings of this process. Messages that match plain receives in order are a run: one loop
//! under one lock, with completions in the program's own array.

use std::ffi::c_void;

use selvedge_host::Interface;
use selvedge_host::direct::ring_has_data;
use selvedge_host::rings::{PolledHeader, Reader, RingMessage, Rings};
use selvedge_nic::portals::Receive;
use selvedge_nic::{Bus, Register};

use super::Transport;
use crate::arriving::{Arriving, Handed, ring_put};
use crate::completion::{Completion, CompletionQueue, Reading};
use crate::flags::{RECV, REMOTE_CQ_DATA};
use crate::own_nic::OwnNic;
use crate::posted::PlainUserPtr;
use crate::ticket::Kind;

/// Largest number of messages taken from one ring before other rings follow.
const BATCH: u64 = 32;
/// Largest number of passes over the ring from this process to itself. Together they can empty more than a full ring.
const TURNS_OF_OWN: u32 = 16;
/// Largest number of passes over one ring before other rings follow.
const TRIES: usize = 64;

/// The bus of a message in a ring: reads its bytes, and writes the owner's memory. The message is `LONG` or fits a
/// slot.
struct FromRing<'a, const LONG: bool> {
    interface: &'a Interface,
    message: &'a RingMessage,
}

impl<const LONG: bool> Bus for FromRing<'_, LONG> {
    #[inline(always)]
    fn put_mapped(&mut self, _: u64, address: u64, bytes: u64) -> bool {
        // Peers can write the tables, so an address from a table is checked against the mapped regions.
        if !self.interface.has_writable(address, bytes) {
            return false;
        }
        // SAFETY: the message in its ring has at least `bytes` bytes. The range is mapped for writing, as just checked,
        // and the program passed it to a receive.
        unsafe { self.message.copy_part::<LONG>(address as *mut u8, bytes as usize) };
        true
    }
}

/// The next message of a ring. `None`: the ring is empty or closed.
#[inline(always)]
fn next_message(rings: &Rings, ring: usize, reader: &Reader<'_>) -> Option<RingMessage> {
    reader.poll().unwrap_or_else(|_| {
        cut_off(rings, ring);
        None
    })
}

#[cold]
fn cut_off(rings: &Rings, ring: usize) {
    let sender = rings.sender(ring);
    log::warn!("the ring of process {sender} contains data that is not a message; the ring is closed");
    rings.close(ring);
}

/// The next step after some messages of a ring were taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The ring is empty, or other rings come next.
    OtherRings,
    /// Events of earlier deliveries, or completions, come before the next message.
    Again,
}

impl Transport {
    /// Takes messages from this process to itself, before any message that others can have sent in response to our
    /// later actions. MPICH's accumulates to its own window are such messages, and mpi4py's locks rely on that order.
    #[inline(never)]
    pub(super) fn take_own(&mut self, reading: &mut Reading) -> bool {
        let ring = self.flight.peers.own_ring.trailing_zeros() as usize;
        (0..TURNS_OF_OWN).take_while(|_| self.take_ring(ring, reading)).count() != 0
    }

    /// Takes the messages of each of these rings. Returns whether it took any.
    #[inline(always)]
    pub(super) fn take_rings(&mut self, mut left: u64, reading: &mut Reading) -> bool {
        let mut came = false;
        while left != 0 {
            let ring = left.trailing_zeros() as usize;
            left &= left - 1;
            came |= self.take_ring(ring, reading);
        }
        came
    }

    /// Takes the messages of one ring, up to its limits. Returns whether it took any.
    #[inline(always)]
    fn take_ring(&mut self, ring: usize, reading: &mut Reading) -> bool {
        let Some(seen) = self.flight.nic.interface.rings().poll(ring) else { return false };
        match self.take_some(ring, seen, reading) {
            Next::OtherRings => {}
            Next::Again => self.take_more(ring, reading),
        }
        true
    }

    /// Takes messages out of a ring, up to its limits, the polled header first. Completions keep the order of the
    /// messages: events of earlier deliveries are read first, because their sender posted them before it enqueued
    /// anything here.
    #[inline(always)]
    fn take_some(&mut self, ring: usize, first: PolledHeader, reading: &mut Reading) -> Next {
        match (reading.is_whole(), first.is_long()) {
            (true, false) => self.take_direct::<true, false>(ring, first, reading),
            (true, true) => self.take_direct::<true, true>(ring, first, reading),
            (false, false) => self.take_direct::<false, false>(ring, first, reading),
            (false, true) => self.take_direct::<false, true>(ring, first, reading),
        }
    }

    #[cold]
    fn take_more(&mut self, ring: usize, reading: &mut Reading) {
        // A bound is needed, because a peer that keeps delivering could hold this loop forever.
        for _ in 0..TRIES {
            if self.flight.nic.has_arrival_event() {
                self.take_events();
            }
            let Some(first) = self.flight.nic.interface.rings().poll(ring) else { return };
            if self.take_some(ring, first, reading) == Next::OtherRings {
                return;
            }
        }
    }

    /// Takes messages for one endpoint that fill plain receives, and writes their completions to the caller's array.
    /// Continues while all are `LONG` (longer than a slot), or none is. [`Transport::take_any`] takes the others.
    #[inline(never)]
    fn take_direct<const WHOLE: bool, const LONG: bool>(
        &mut self,
        ring: usize,
        first: PolledHeader,
        reading: &mut Reading,
    ) -> Next {
        if LONG {
            self.flight.nic.interface.rings().prefetch(ring, first);
        }
        let portal = first.portal();
        let Some((bindings, kind)) = self.receives.endpoints.receiver(portal.into()) else {
            return self.take_any(ring);
        };
        // SAFETY: the pointer is null or the queue of an open endpoint. The array takes whole entries if `WHOLE`.
        let written = unsafe { CompletionQueue::writes_next::<WHOLE>((*bindings).rx_queue, reading) };
        let Some(mut written) = written else { return self.take_any(ring) };
        let OwnNic { interface, watches, .. } = &self.flight.nic;
        let rings = interface.rings();
        let mut nic = interface.lock();
        if watches[0].has_event() {
            return Next::Again;
        }
        let Some(mut reader) = rings.reader_from(ring, first) else { return Next::Again };
        let Some(mut head) = nic.receives().head(portal.into()) else { return Next::OtherRings };
        let sender = rings.sender(ring);
        let most = (reading.left() as u64).min(head.posted_count().into()).min(BATCH);
        let mut bytes = 0;
        reader.dequeue_run::<LONG>(portal, most, |message| {
            let RingMessage { envelope, length, .. } = message;
            let put = ring_put(envelope, *length, sender);
            let mut bus = FromRing::<LONG> { interface, message };
            let fits =
                |receive: &Receive| PlainUserPtr::is_wanted(receive.user_ptr) && *length as u64 <= receive.length;
            let Some(receive) = head.take_receive(&mut bus, &put, fits) else { return false };
            // SAFETY: `writes_next` and the loop's bound leave room for one more completion.
            unsafe {
                written.write(&Completion {
                    context: PlainUserPtr::context(receive.user_ptr),
                    flags: RECV | kind.flag() | if ring_has_data(envelope) { REMOTE_CQ_DATA } else { 0 },
                    length: *length,
                    buffer: receive.start as *mut c_void,
                    data: envelope.header_data,
                    tag: if kind == Kind::Tagged { envelope.match_bits } else { 0 },
                });
            }
            bytes += length;
            true
        });
        let taken = reader.dequeued();
        interface.charge_copy(bytes as u64);
        reading.has_written(written, taken as usize);
        nic.signals.registers.count_taken(taken, bytes as u64);
        nic.signals.registers.add(Register::ListSteps, taken);
        if nic.receives().posted_count(portal.into()) == 0 {
            self.flight.polling.has_filled_all();
        }
        drop(nic);
        match taken {
            0 => self.take_any(ring),
            _ => Next::OtherRings,
        }
    }

    /// Takes messages of every kind out of a ring, with completions for any queue.
    #[inline(never)]
    fn take_any(&mut self, ring: usize) -> Next {
        let OwnNic { interface, watches, .. } = &self.flight.nic;
        let filled = &mut self.receives.filled;
        let rings = interface.rings();
        let (mut delivered, mut fired) = (false, false);
        {
            let mut nic = interface.lock();
            if watches[0].has_event() {
                return Next::Again;
            }
            let sender = rings.sender(ring);
            let mut reader = rings.reader(ring);
            let mut bytes = 0;
            let mut matched = 0;
            for _ in 0..BATCH {
                let Some(message) = next_message(rings, ring, &reader) else { break };
                let RingMessage { envelope, bytes: at, length, .. } = &message;
                let mut bus = FromRing::<true> { interface, message: &message };
                match (Arriving { envelope, sender, bytes: *at, length: *length })
                    .hand_in(interface, &mut nic, &mut bus, filled)
                {
                    Handed::Filled(taken) => (matched, bytes) = (matched + 1, bytes + taken),
                    Handed::Delivered => delivered = true,
                    Handed::NoRoom => {
                        delivered = true;
                        break;
                    }
                }
                reader.dequeue(&message);
                if delivered && watches[0].has_event() {
                    break;
                }
            }
            nic.signals.registers.count_taken(matched, bytes);
            interface.charge_copy(bytes);
            if delivered {
                fired = nic.has_fired();
            }
        }
        if !self.receives.filled.is_empty() {
            self.receives.complete_filled(&mut self.flight);
        }
        if delivered && self.flight.nic.has_arrival_event() {
            self.take_events();
        }
        self.flight.nic.interface.settle(fired);
        Next::OtherRings
    }
}
