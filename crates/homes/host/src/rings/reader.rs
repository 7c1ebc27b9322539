// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Dequeues messages from a ring. The holder of the NIC's lock uses it.

use std::ptr;

use selvedge_nic::ring::{Consumer, Envelope, Fault, Message};

use super::{Lines, Ring};
use selvedge_os::copy;

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
    pub(super) fn of(ring: &Ring, message: Message) -> RingMessage {
        let base = ptr::from_ref(ring).cast::<u8>();
        let Message { envelope, offset, length, .. } = message;
        // The consumer has checked that offset and length are within the ring.
        RingMessage { envelope, bytes: base.wrapping_add(offset), length, message }
    }

    #[inline(always)]
    pub(super) fn message(&self) -> &Message {
        &self.message
    }

    /// Copies the first bytes of the payload. The message is `LONG`, or fits into its slot.
    ///
    /// # Safety
    /// The message is of that kind and has this many bytes, the ring is mapped, and the destination has room.
    #[inline(always)]
    pub unsafe fn copy_part<const LONG: bool>(&self, to: *mut u8, bytes: usize) {
        // SAFETY: `bytes` is the offset of a payload that the consumer has checked to be within the ring. The ring is
        // mapped, and the payload has this length and the destination this much room by this function's contract.
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
    /// Returns the number of messages that this reader has dequeued.
    #[inline(always)]
    pub fn dequeued(&self) -> u64 {
        self.consumer.dequeued()
    }

    /// Returns the next message. `Err` if the ring contains malformed data, and cannot be used any more.
    #[inline(always)]
    pub fn poll(&self) -> Result<Option<RingMessage>, Fault> {
        let message = self.ring.next::<Lines>(&self.consumer)?;
        Ok(message.map(|message| RingMessage::of(self.ring, message)))
    }

    /// Returns the number of the next message, counted over the life of the ring.
    #[inline(always)]
    pub(super) fn next_number(&self) -> u64 {
        self.consumer.next_number()
    }

    /// Dequeues up to `most` consecutive messages for a portal table entry. It stops at a message of the other kind
    /// (`LONG`, or within its slot), and when `take` returns false.
    #[inline(always)]
    pub fn dequeue_run<const LONG: bool>(&mut self, portal: u8, most: u64, mut take: impl FnMut(&RingMessage) -> bool) {
        let ring = self.ring;
        let take = |message: &Message| take(&RingMessage::of(ring, *message));
        ring.dequeue_run::<LONG, Lines>(&mut self.consumer, portal, most, take);
    }

    /// Dequeues the message that [`Reader::poll`] returned, and then runs `take`. If that returns None, the message is
    /// put back. If the process dies meanwhile, the message is lost, but never taken twice. The producer enqueues
    /// nothing meanwhile: it is the caller, or does not run.
    pub fn dequeue_then<R>(&mut self, message: &RingMessage, take: impl FnOnce() -> Option<R>) -> Option<R> {
        let payload_head = self.ring.payload_head();
        self.dequeue(message);
        let taken = take();
        if taken.is_none() {
            self.ring.put_back(&mut self.consumer, payload_head);
        }
        taken
    }

    /// Dequeues the message that [`Reader::poll`] returned, after it was read.
    #[inline(always)]
    pub fn dequeue(&mut self, message: &RingMessage) {
        self.ring.dequeue(&mut self.consumer, &message.message);
    }
}
