// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages out of a ring, by the holder of its NIC's lock.

use std::ptr;

use selvedge_nic::ring::{Consumer, Envelope, Fault, Message, PolledHeader};

use super::{Lines, Ring};
use crate::os::copy;

/// A message in a ring.
#[derive(Clone, Copy, Debug)]
pub struct RingMessage {
    pub envelope: Envelope,
    /// Its payload, within the ring.
    pub bytes: *const u8,
    pub length: usize,
    message: Message,
}

impl RingMessage {
    #[inline(always)]
    fn of(ring: &Ring, message: Message) -> RingMessage {
        let base = ptr::from_ref(ring).cast::<u8>();
        let Message { envelope, offset, length, .. } = message;
        // The checked offset and length lie within the ring.
        RingMessage { envelope, bytes: base.wrapping_add(offset), length, message }
    }

    /// Copies so much of the payload from its beginning. The message is `LONG`, or lies in its slot alone.
    ///
    /// # Safety
    /// It is of that sort and has so many bytes, the ring is mapped, and there is room for them.
    #[inline(always)]
    pub unsafe fn copy_part<const LONG: bool>(&self, to: *mut u8, bytes: usize) {
        // SAFETY: `bytes` is the offset of a payload that the consumer has checked to lie within the ring, which is mapped and at
        // least so long; the room is this function's contract.
        unsafe {
            match LONG {
                true => ptr::copy_nonoverlapping(self.bytes, to, bytes),
                false => copy::few(self.bytes, to, bytes),
            }
        }
    }
}

/// One ring, for the holder of its NIC's lock.
pub struct Reader<'a> {
    ring: &'a Ring,
    consumer: Consumer,
}

impl<'a> Reader<'a> {
    #[inline(always)]
    pub(super) fn new(ring: &'a Ring) -> Reader<'a> {
        Reader { ring, consumer: ring.consumer() }
    }
}

impl Reader<'_> {
    /// How many messages this reader has dequeued.
    #[inline(always)]
    pub fn dequeued(&self) -> u64 {
        self.consumer.dequeued()
    }

    /// The next message; `Err`: something lies there that no sender writes, and the ring is of no use any more.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<RingMessage>, Fault> {
        let message = self.ring.next::<Lines>(&self.consumer)?;
        Ok(message.map(|message| RingMessage::of(self.ring, message)))
    }

    /// The number of the next message, among all of the ring.
    #[inline(always)]
    pub(super) fn next_number(&self) -> u64 {
        self.consumer.next_number()
    }

    /// The message that was polled, if it is `LONG` or lies in its slot alone. It is this reader's first ([`super::Rings::reader_from`]).
    #[inline(always)]
    pub fn first<const LONG: bool>(&self, polled: PolledHeader) -> Option<RingMessage> {
        let message = self.ring.polled::<LONG>(&self.consumer, polled)?;
        Some(RingMessage::of(self.ring, message))
    }

    /// Dequeues messages for a portal table entry that follow each other, up to so many, while they are all `LONG`, or all lie in their
    /// slots alone, and `take` takes them.
    #[inline(always)]
    pub fn dequeue_run<const LONG: bool>(&mut self, portal: u8, most: u64, mut take: impl FnMut(&RingMessage) -> bool) {
        let ring = self.ring;
        let take = |message: &Message| take(&RingMessage::of(ring, *message));
        ring.dequeue_run::<LONG, Lines>(&mut self.consumer, portal, most, take);
    }

    /// The message that [`Reader::poll`] or [`Reader::first`] gave has been read.
    #[inline(always)]
    pub fn dequeue(&mut self, message: &RingMessage) {
        self.ring.dequeue(&mut self.consumer, &message.message);
    }
}
