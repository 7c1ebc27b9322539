// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Enqueues messages into a ring. The process that has claimed the ring uses it.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};

use selvedge_nic::ring::{Envelope, INLINE_BYTES, Producer, Unseen};

use crate::links::Link;

use super::{GIVEN_UP, Header, Lines, MESSAGE_BYTES_MAX, Ring, Rings, routing};
use selvedge_os::copy;
use selvedge_os::process::Identity;

/// This process's ring to a NIC.
#[derive(Debug)]
pub struct Sender {
    rings: Rings,
    index: usize,
    /// The ring, and the routing word of its NIC or port, within the mapping of `rings`.
    ring: *mut Ring,
    routing: *const AtomicU32,
    /// The routing word while messages go through the ring.
    open: u32,
    producer: Producer,
    /// Counts the messages, once the NIC at the other end is known.
    link: Option<Link>,
}

// SAFETY: the pointers lead into the mapping that `rings` owns, which every thread may use. One thread at a time has the sender.
unsafe impl Send for Sender {}

impl Sender {
    /// Makes the sender of a process that has claimed a ring. The ring is in use while the word `routing` is `open`.
    pub(super) fn new(rings: Rings, index: usize, routing: impl Fn(&Header) -> &AtomicU32, open: u32) -> Sender {
        let producer = rings.ring(index).producer();
        let (ring, routing) = (rings.base(index).cast(), std::ptr::from_ref(routing(rings.header())));
        Sender { rings, index, ring, routing, open, producer, link: None }
    }

    /// Counts messages from now on.
    pub(crate) fn count_in(&mut self, link: Option<Link>) {
        self.link = link;
    }

    #[inline(always)]
    fn count(&self, length: usize) {
        if let Some(link) = &self.link {
            link.work.message(length as u64);
        }
    }

    #[inline(always)]
    fn routing(&self) -> u32 {
        // SAFETY: the word is an atomic in the mapping, which lives as long as the sender.
        unsafe { (*self.routing).load(Relaxed) }
    }

    /// Whether messages go through the ring now.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.routing() == self.open
    }

    /// Whether the NIC's owner has closed its rings, or those of the port. Then it dequeues no message that is enqueued
    /// here.
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        (self.routing() ^ self.open) & !routing::BYPASS != 0
    }

    /// Returns the word of the process that owns the NIC.
    #[inline(always)]
    pub fn nic_owner(&self) -> u64 {
        self.rings.header().owner
    }

    /// Returns the number of the next message. The ring counts all its messages.
    #[inline]
    pub fn enqueued(&self) -> u64 {
        self.producer.tail()
    }

    /// Returns the number of the first message that has not been dequeued. The payload of earlier ones is in their
    /// receives, or in buffers of the NIC for unexpected messages.
    #[inline]
    pub fn dequeued(&self) -> u64 {
        self.rings.ring(self.index).dequeued()
    }

    /// Returns the index of this ring among the NIC's rings.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the NIC's rings and this ring's index, for dequeuing under the NIC's lock.
    pub(crate) fn parts(&self) -> (&Rings, usize) {
        (&self.rings, self.index)
    }

    /// Whether a slot is free, as far as is known without a load from the ring.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.producer.has_room()
    }

    #[inline(always)]
    fn ring(&mut self) -> (&Ring, *mut u8, &mut Producer) {
        // SAFETY: the ring is claimed, so the file holds it. Its mapping lives as long as the sender, and it consists
        // of atomics.
        (unsafe { &*self.ring }, self.ring.cast(), &mut self.producer)
    }

    /// Enqueues a message of no more than [`INLINE_BYTES`], for which there is room.
    ///
    /// Messages of one `turn` are a burst: this process has received nothing in between.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn enqueue(&mut self, envelope: &Envelope, from: *const u8, length: usize, turn: u32) {
        debug_assert!(length <= INLINE_BYTES);
        // SAFETY: `from` is readable for `length` bytes by this function's contract, and a slot has room for this many.
        self.enqueue_inline(envelope, length, turn, |to| unsafe { copy::few(from, to, length) });
    }

    /// As `enqueue`, for a word, half a word or 0 bytes ([`copy::is_word`]): no register is kept over calls of other
    /// functions.
    ///
    /// # Safety
    /// As for [`Sender::enqueue`].
    #[inline(always)]
    pub unsafe fn enqueue_word(&mut self, envelope: &Envelope, from: *const u8, length: usize, turn: u32) {
        self.enqueue_inline(envelope, length, turn, |to| {
            // SAFETY: `from` is readable for `length` bytes by this function's contract, and a slot has room for this
            // many.
            let copied = unsafe { copy::word(from, to, length) };
            debug_assert!(copied);
        });
    }

    /// Fills the next slot, which is free and has room for `length` bytes.
    #[inline(always)]
    fn enqueue_inline(&mut self, envelope: &Envelope, length: usize, turn: u32, mut fill: impl FnMut(*mut u8)) {
        debug_assert!(self.has_room());
        let (ring, base, producer) = self.ring();
        fill(base.wrapping_add(ring.next_inline(producer)));
        ring.publish::<Lines>(producer, envelope, length, turn);
        self.count(length);
    }

    /// As `enqueue`, for a longer message of at most [`MESSAGE_BYTES_MAX`]. False if there is no room now.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn enqueue_long(&mut self, envelope: &Envelope, from: *const u8, length: usize, turn: u32) -> bool {
        // SAFETY: `from` is readable for `length` bytes by this function's contract, and this much room was reserved.
        self.reserve_and_fill(envelope, length, turn, |to| unsafe { ptr::copy_nonoverlapping(from, to, length) })
    }

    /// As [`Sender::enqueue_with`], but the message is invisible until [`Rings::show`] is called with the result. None
    /// if there is no room now.
    pub fn enqueue_unseen(
        &mut self,
        envelope: &Envelope,
        length: usize,
        mut fill: impl FnMut(*mut u8),
    ) -> Option<Unseen> {
        let (ring, base, producer) = self.ring();
        if length <= INLINE_BYTES {
            if !ring.has_slot(producer) {
                return None;
            }
            fill(base.wrapping_add(ring.next_inline(producer)));
            return Some(ring.publish_unseen(producer, envelope, length, None));
        }
        let reserved = ring.reserve(producer, length)?;
        fill(base.wrapping_add(reserved.offset));
        Some(ring.publish_unseen(producer, envelope, length, Some(reserved)))
    }

    /// Enqueues a message of `length` bytes, which `fill` writes to the given address. False if there is no room now.
    ///
    /// `length` is at most [`MESSAGE_BYTES_MAX`]; `turn` is as for [`Sender::enqueue`].
    #[inline(always)]
    pub fn enqueue_with(&mut self, envelope: &Envelope, length: usize, turn: u32, fill: impl FnMut(*mut u8)) -> bool {
        if length > INLINE_BYTES {
            return length <= MESSAGE_BYTES_MAX && self.reserve_and_fill(envelope, length, turn, fill);
        }
        let (ring, _, producer) = self.ring();
        if !ring.has_slot(producer) {
            return false;
        }
        self.enqueue_inline(envelope, length, turn, fill);
        true
    }

    #[inline(always)]
    fn reserve_and_fill(
        &mut self,
        envelope: &Envelope,
        length: usize,
        turn: u32,
        mut fill: impl FnMut(*mut u8),
    ) -> bool {
        let (ring, base, producer) = self.ring();
        let Some(reserved) = ring.reserve(producer, length) else { return false };
        fill(base.wrapping_add(reserved.offset));
        ring.publish_reserved::<Lines>(producer, envelope, length, turn, reserved);
        self.count(length);
        true
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // A forked child must not do this, because the ring belongs to its parent.
        let owner = &self.rings.header().claims[self.index].owner;
        let _ = owner.compare_exchange(Identity::own().to_word(), GIVEN_UP, Release, Relaxed);
    }
}
