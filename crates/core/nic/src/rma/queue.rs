// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The notification queue of each VPID: a ring of two-word entries that its program polls (seed 002, section 7.5).
//!
//! Invariants
//! 1. Word 1 of an entry is stored last, with release. A program that loads it with acquire and finds it not 0 has the
//!    whole notification, and sees everything that was written before it.
//! 2. Word 1 of a free entry is 0. The program stores 0 when it has read an entry, and only then does the unit write
//!    the entry again. So a queue is full exactly if its next entry is not free. Before it stores 0, the program stores
//!    its read pointer ([`Signals::take_notification`]).
//! 3. A full queue loses the notification, and counts it (section 6.5: software must leave room).
//! 4. Only the holder of the lock writes. Bit 31 of word 1, which the layout leaves free, is the parity of the ring's
//!    lap. So after a death the tail follows from the entries ([`Notifications::recover`]), or, if the program has read
//!    the entry meanwhile, from the read pointer.
//!
//! Cost: one line of the queue and the port's record. The program also stores to the line of its read pointer, which no
//! unit loads except in recovery.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use core::sync::atomic::compiler_fence;

use super::notification::Notification;
use crate::bus::{Bus, Step};
use crate::registers::Register;
use crate::signals::{NOTIFICATION_WORDS, Signals};
use crate::tables::Port;

/// The notification queues, for the holder of the lock.
pub struct Notifications<'n, 'a> {
    pub(crate) ports: &'n mut [Port],
    pub(crate) signals: &'n Signals<'a>,
}

impl Notifications<'_, '_> {
    #[inline]
    pub(crate) fn is_open(&self, vpid: u16) -> bool {
        self.ports.get(usize::from(vpid)).is_some_and(Port::is_open)
    }

    /// Writes a notification to the queue of a VPID. False: the VPID is not open, or the queue is full.
    pub(super) fn write<B: Bus>(&mut self, bus: &mut B, vpid: u16, notification: &Notification) -> bool {
        if !self.is_open(vpid) {
            return false;
        }
        let Some(record) = self.ports.get_mut(usize::from(vpid)) else { return false };
        let [word0, word1] = notification.encode();
        bus.charge(Step::Notification);
        match self.signals.notification(vpid, record.notification_tail) {
            Some([first, second]) if second.load(Acquire) == 0 => {
                first.store(word0, Relaxed);
                second.store(word1 | self.signals.lap(record.notification_tail), Release);
                // The order matters if the process dies here: the tail counts whole notifications only.
                compiler_fence(SeqCst);
                record.notification_tail = record.notification_tail.wrapping_add(1);
                true
            }
            _ => {
                record.notifications_discarded = record.notifications_discarded.wrapping_add(1);
                self.signals.registers.add(Register::NotificationsDiscarded, 1);
                false
            }
        }
    }

    /// Derives the tails of all queues from their entries, after a process died during a change. The programs may read
    /// meanwhile.
    pub fn recover(&mut self) {
        for (vpid, record) in (0u16..).zip(self.ports.iter_mut()) {
            let tail = record.notification_tail;
            let next = tail.wrapping_add(1);
            let Some([_, second]) = self.signals.notification(vpid, tail) else { continue };
            let Some(pointers) = self.signals.port_pointers.get(usize::from(vpid)) else { continue };
            // The dead process may have written one entry without counting it. Either the entry is there, or its
            // program has read it: then the read pointer, which was stored before the entry was freed, is behind it.
            let is_written = match second.load(Acquire) {
                0 => pointers.notification_head.load(Relaxed) == next,
                word => word & LAP == self.signals.lap(tail),
            };
            if is_written {
                record.notification_tail = next;
            }
        }
    }
}

/// Bit of word 1 with the parity of the lap.
const LAP: u64 = 1 << 31;

/// Word 1 without the lap, for the program.
#[inline]
pub fn shown(word1: u64) -> u64 {
    word1 & !LAP
}

impl<'a> Signals<'a> {
    /// The lap bit of the entry with this number.
    #[inline]
    fn lap(&self, number: u64) -> u64 {
        match self.notification_entries() {
            0 => 0,
            entries => number / entries % 2 * LAP,
        }
    }

    /// Dequeues the next notification of a VPID for its program. `head`: the notifications taken since the VPID was
    /// opened. One thread at a time may call it.
    pub fn take_notification(&self, vpid: u16, head: &mut u64) -> Option<[u64; NOTIFICATION_WORDS]> {
        let [first, second] = self.notification(vpid, *head)?;
        // Pairs with the unit's store with release.
        let word1 = second.load(Acquire);
        if word1 == 0 {
            return None;
        }
        let taken = [first.load(Relaxed), shown(word1)];
        *head = head.wrapping_add(1);
        if let Some(pointers) = self.port_pointers.get(usize::from(vpid)) {
            pointers.notification_head.store(*head, Relaxed);
        }
        // Pairs with the loads with acquire of the unit and of recovery: the read pointer is stored before.
        second.store(0, Release);
        Some(taken)
    }

    /// Entries of each notification queue, a power of two; 0: there are none.
    #[inline]
    pub fn notification_entries(&self) -> u64 {
        let ports = self.port_pointers.len().max(1);
        (self.notifications.len() / NOTIFICATION_WORDS / ports) as u64
    }

    /// The words of a VPID's notification with this number.
    #[inline]
    pub fn notification(
        &self,
        vpid: u16,
        number: u64,
    ) -> Option<&'a [core::sync::atomic::AtomicU64; NOTIFICATION_WORDS]> {
        let entries = self.notification_entries();
        let index = u64::from(vpid) * entries + (number & entries.checked_sub(1)?);
        let start = index as usize * NOTIFICATION_WORDS;
        self.notifications.get(start..start + NOTIFICATION_WORDS)?.try_into().ok()
    }
}
