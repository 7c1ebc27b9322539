// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that came before their receive, of which only this process knows.
//!
//! A message in a lane that meets no private receive ([`super::private`]) need not become an unexpected header of the NIC: no record,
//! no index, and the receives that wait for others stay private. It is copied out of its lane and waits here, in the order of arrival.
//!
//! Invariants
//! 1. What waits here came before all that waits at the NIC for the same place: a place takes messages in only while the NIC is known
//!    to have none there, and what senders bring to the NIC later was sent later. So every receive looks here first.
//! 2. No receive that is posted, privately or at the NIC, accepts a message that waits here: it would have taken it.
//! 3. There are none once others may match what comes ([`Core::wants_independence`]): they do not look here.
//!
//! Limits: [`MESSAGES_MAX`] of a place; those that come then wait at the NIC, behind these. Cost: a copy, and 24 bytes to look at by
//! each receive that is posted meanwhile.

use std::collections::VecDeque;

use selvedge_shm::direct::{lane_has_data, lane_request, lane_source};
use selvedge_shm::lanes::{Envelope, Waiting};
use selvedge_shm::os::copy;

use super::receive::{Arrived, Wanted};
use super::receives::Receive;
use super::{Core, scatter, total};
use crate::completion::Reading;
use crate::constants::ADDR_ANY;

/// Messages of one place: as many as a word has bits.
const MESSAGES_MAX: usize = u64::BITS as usize;

/// What receives ask for, and where the rest is.
struct Key {
    tag: u64,
    source: u64,
    slot: u32,
}

/// The rest of a message.
#[derive(Default)]
struct Slot {
    envelope: Envelope,
    length: usize,
    /// Its first bytes are the message; it grows to the longest that was here.
    bytes: Vec<u8>,
}

impl Slot {
    /// What came along, and whether it means something.
    fn data(&self) -> (bool, u64) {
        (lane_has_data(&self.envelope), self.envelope.header_data)
    }
}

/// The messages of one place that wait, the oldest first.
#[derive(Default)]
pub struct Early {
    keys: VecDeque<Key>,
    slots: Box<[Slot]>,
    /// Slots that nothing is in, as bits.
    free: u64,
}

impl Early {
    pub fn new() -> Early {
        let slots = std::iter::repeat_with(Slot::default).take(MESSAGES_MAX).collect();
        Early { keys: VecDeque::with_capacity(MESSAGES_MAX), slots, free: u64::MAX }
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes a message in. False: there is no room.
    ///
    /// # Safety
    /// The message is readable.
    #[inline(never)]
    pub unsafe fn push(&mut self, message: Waiting, sender: u64) -> bool {
        let slot = self.free.trailing_zeros();
        let Some(place) = self.slots.get_mut(slot as usize) else { return false };
        let envelope = &message.envelope;
        if place.bytes.len() < message.length {
            place.bytes.resize(message.length.next_power_of_two(), 0);
        }
        // SAFETY: the caller's message; there is room for it.
        unsafe { copy::short(message.bytes, place.bytes.as_mut_ptr(), message.length) };
        place.length = message.length;
        place.envelope = *envelope;
        self.free &= self.free - 1;
        self.keys.push_back(Key { tag: envelope.match_bits, source: lane_source(envelope, sender), slot });
        true
    }

    /// Where in the order the first is that is wanted.
    #[inline]
    fn find(&self, wants: impl Fn(u64, u64) -> bool) -> Option<usize> {
        self.keys.iter().position(|key| wants(key.tag, key.source))
    }

    /// The message at a place in the order, and its bytes.
    fn at(&self, at: usize) -> Option<(Arrived, &[u8])> {
        let key = self.keys.get(at)?;
        let slot = self.slots.get(key.slot as usize)?;
        let (has_data, data) = slot.data();
        let data = has_data.then_some(data);
        Some((Arrived::new(key.tag, data, key.source, slot.length as u64), &slot.bytes[..slot.length]))
    }

    /// Forgets it.
    fn remove(&mut self, at: usize) {
        if let Some(key) = self.keys.remove(at) {
            self.free |= 1 << key.slot;
        }
    }
}

impl Core {
    /// Fills a receive of one piece, if a message for it waits here.
    ///
    /// It is handed over whole: where its caller lends it, it goes through memory on the way of receives that meet none, too.
    #[inline(never)]
    pub(super) fn meet_early(&mut self, portal: u32, receive: Receive) -> bool {
        let Core { fronts, sources, .. } = self;
        let Some(front) = fronts.get_mut(portal) else { return false };
        let Some(at) = front.early().find(|tag, source| receive.accepts(tag, source)) else { return false };
        let Some(key) = front.early().keys.get(at) else { return false };
        let slot = &front.early().slots[key.slot as usize];
        let taken = front.taken(&receive, key.tag);
        let name = if taken.names_source { super::peers::name_of(sources, key.source) } else { ADDR_ANY };
        // SAFETY: the receive is the program's; the message lies in its slot.
        unsafe { taken.fill(slot.bytes.as_ptr(), slot.length, slot.data(), name, &mut Reading::none()) };
        taken.expect_reading();
        front.change_early(|early| early.remove(at));
        true
    }

    /// The same for a receive of any form: the bytes that it took.
    #[cold]
    pub(super) fn meet_early_wanted(&mut self, portal: u32, wanted: &Wanted<'_>) -> Option<usize> {
        let early = self.fronts.get(portal)?.early();
        let at = early.find(|tag, source| wanted.accepts(tag, source))?;
        let (message, bytes) = early.at(at)?;
        let room = total(wanted.pieces);
        let taken = bytes.len().min(room);
        // SAFETY: the program's pieces.
        unsafe { scatter(bytes.as_ptr(), taken, wanted.pieces) };
        let start = wanted.pieces.first().map_or(0, |piece| piece.iov_base as u64);
        self.fronts.get_mut(portal)?.change_early(|early| early.remove(at));
        self.arrived(wanted.kind, &wanted.ticket, &message, room, start, 0, true);
        Some(taken)
    }

    /// The first message that is wanted, without its payload or, to be kept elsewhere, with it; `takes` it from here.
    pub(super) fn look_early(&mut self, portal: u32, wanted: &Wanted<'_>, takes: bool) -> Option<(Arrived, Box<[u8]>)> {
        let front = self.fronts.get_mut(portal)?;
        let early = front.early();
        let at = early.find(|tag, source| wanted.accepts(tag, source))?;
        let (message, bytes) = early.at(at)?;
        let bytes = if takes { bytes.into() } else { Box::default() };
        if takes {
            front.change_early(|early| early.remove(at));
        }
        Some((message, bytes))
    }

    /// Hands all that waits to the NIC, in the order in which it would have come there. What there is no room for stays.
    #[cold]
    pub(super) fn hand_over_early(&mut self) {
        if self.fronts.iter_mut().all(|(_, front)| front.early().is_empty()) {
            return;
        }
        let mut nic = self.interface.lock();
        for (portal, front) in self.fronts.iter_mut() {
            // The newest first, and before those that wait there: what stays is older.
            front.change_early(|early| {
                while let Some(Key { source, slot, .. }) = early.keys.back() {
                    let slot = &early.slots[*slot as usize];
                    let request = lane_request(&slot.envelope, source >> 8, slot.length as u64);
                    let others = nic.unexpected_count(portal);
                    if self.interface.deliver_own(&mut nic, slot.bytes.as_ptr(), &request).is_none() {
                        break;
                    }
                    for _ in 0..others {
                        nic.delay_oldest_unexpected(portal);
                    }
                    early.remove(early.keys.len() - 1);
                }
            });
        }
        let fired = nic.has_fired();
        drop(nic);
        self.interface.settle(fired);
    }
}
