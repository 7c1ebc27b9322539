// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver of a mailbox, without the NIC's lock (seed 002, sections 6.5 and 7.4).
//!
//! One thread at a time reads a mailbox. It polls the status word of the next slot, copies the message, and zeroes the
//! status words. The published head (RPLT) frees the slots for the writer. It is published lazily: every few slots, at
//! the latest when a quarter of the mailbox was read, or on demand.
//!
//! Invariants
//! 1. A message is taken whole or not at all.
//! 2. If the mailbox is empty, at least three quarters of it are free for the writer, which is room for the longest
//!    message. So a sender whose message was refused succeeds later.
//! 3. Any process may have stored any word. A malformed one costs its slots, and each call makes progress.
//!
//! Costs: a poll that finds nothing loads one word. A message touches its own lines, and the line of the head.

use core::sync::atomic::Ordering::{Acquire, Release};

use super::header::{Malformed, Status};
use super::slots::{SLOT_WORDS, Slots};
use crate::signals::{PortPointers, Signals};

#[inline]
pub(super) fn mailbox_of<'a>(signals: &Signals<'a>, vpid: u16) -> Option<(Slots<'a>, &'a PortPointers)> {
    let pointers = signals.port_pointers.get(usize::from(vpid))?;
    Some((Slots::new(signals.mailbox_words(vpid))?, pointers))
}

/// The progress of a mailbox's reader.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox {
    vpid: u16,
    head: u64,
    /// The last published head.
    published: u64,
    /// Slots between two publications.
    publish_every: u64,
    /// The first word of the mailbox among those of all VPIDs, and its slots, less one.
    start: usize,
    mask: u64,
}

impl Mailbox {
    /// Makes the reader of a port's mailbox, which begins where the last reader ended. It publishes its head every
    /// `publish_every` slots, at the latest after a quarter of the mailbox. None: there is no such VPID.
    pub fn new(signals: &Signals<'_>, vpid: u16, publish_every: u32) -> Option<Mailbox> {
        let (slots, pointers) = mailbox_of(signals, vpid)?;
        let publish_every = u64::from(publish_every).min(slots.count() / 4).max(1);
        let (head, published) = (pointers.mailbox_taken.load(Acquire), pointers.mailbox_head.load(Acquire));
        let mask = slots.count() - 1;
        let start = usize::from(vpid) * slots.count() as usize * SLOT_WORDS;
        Some(Mailbox { vpid, head, published, publish_every, start, mask })
    }

    /// The VPID of the port.
    pub fn vpid(&self) -> u16 {
        self.vpid
    }

    /// Slots of the mailbox.
    pub fn slots(&self) -> u64 {
        self.mask + 1
    }

    /// Whether there is no message, at the cost of one load.
    #[inline(always)]
    pub fn is_empty(&self, signals: &Signals<'_>) -> bool {
        let word = signals.mailboxes.get(self.start + (self.head & self.mask) as usize * SLOT_WORDS);
        word.is_none_or(|word| word.load(Acquire) == 0)
    }

    /// Slots that were read so far.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The status of the next message, which stays in place. None: no message. An error: the next call of
    /// [`Mailbox::take`] discards the slot.
    #[inline]
    pub fn peek(&self, signals: &Signals<'_>) -> Result<Option<Status>, Malformed> {
        match mailbox_of(signals, self.vpid) {
            Some((slots, _)) => self.next(&slots),
            None => Ok(None),
        }
    }

    /// Takes the next message: its status, and the number of bytes copied. Bytes beyond `into` are lost. An error:
    /// malformed slots were discarded.
    #[inline]
    pub fn take(&mut self, signals: &Signals<'_>, into: &mut [u8]) -> Result<Option<(Status, usize)>, Malformed> {
        let Some((slots, pointers)) = mailbox_of(signals, self.vpid) else { return Ok(None) };
        let (taken, count) = match self.next(&slots) {
            Ok(None) => return Ok(None),
            Ok(Some(status)) => {
                let bytes = slots.take(self.head, &status, &pointers.mailbox_taken, into);
                (bytes.map(|bytes| Some((status, bytes))).ok_or(Malformed), status.extent.slots())
            }
            Err(malformed) => {
                slots.release(self.head, 1, &pointers.mailbox_taken);
                (Err(malformed), 1)
            }
        };
        self.head = self.head.wrapping_add(count.into());
        if self.head.wrapping_sub(self.published) >= self.publish_every {
            self.publish_to(pointers);
        }
        taken
    }

    /// Publishes the head: all slots that were read are free.
    pub fn publish(&mut self, signals: &Signals<'_>) {
        if let Some((_, pointers)) = mailbox_of(signals, self.vpid) {
            self.publish_to(pointers);
        }
    }

    #[inline(always)]
    fn next(&self, slots: &Slots<'_>) -> Result<Option<Status>, Malformed> {
        match slots.status(self.head) {
            0 => Ok(None),
            word => Status::from_word(word).map(Some),
        }
    }

    #[inline(always)]
    fn publish_to(&mut self, pointers: &PortPointers) {
        // Pairs with the writer's load with acquire: it stores to these slots only after they were read and zeroed.
        pointers.mailbox_head.store(self.head, Release);
        self.published = self.head;
    }
}
