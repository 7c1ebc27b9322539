// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The operations that wait for a counter, lowest threshold first, and the queue of those that are due.
//!
//! Arming is O(1) if thresholds do not fall from one operation to the next. Moving a due operation is O(1).

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::counters::Counters;
use crate::handle::NONE;
use crate::tables::{slot, triggered};

impl Counters<'_, '_> {
    /// Inserts an armed operation into its counter's list, after all operations whose threshold is not higher.
    pub(crate) fn chain_armed(self, index: u32) {
        let Some(&record) = self.nic.tables.triggered.get(index as usize) else { return };
        let Some((_, book)) = self.nic.counters().book(record.counter) else { return };
        let (head, tail) = (book.armed_head, book.armed_tail);
        let mut after = tail;
        for _ in 0..self.nic.tables.triggered.len() {
            match self.nic.tables.triggered.get(after as usize) {
                Some(before) if before.threshold > record.threshold => after = before.prev,
                _ => break,
            }
        }
        let next = match self.nic.tables.triggered.get_mut(after as usize) {
            Some(before) => core::mem::replace(&mut before.next, index),
            None => {
                after = NONE;
                if let Some((_, book)) = self.nic.counters().book(record.counter) {
                    (book.threshold_next, book.armed_head) = (record.threshold, index);
                }
                head
            }
        };
        match self.nic.tables.triggered.get_mut(next as usize) {
            Some(behind) => behind.prev = index,
            None => {
                if let Some((_, book)) = self.nic.counters().book(record.counter) {
                    book.armed_tail = index;
                }
            }
        }
        let record = &mut self.nic.tables.triggered[index as usize];
        (record.next, record.prev) = (next, after);
    }

    /// Moves the operations that are due from a counter's list to the fire queue.
    #[cold]
    pub(crate) fn threshold_reached(self, reference: u32) {
        for _ in 0..=self.nic.tables.triggered.len() {
            let Some((_, book)) = self.nic.counters().book(reference) else { return };
            let (head, reached) = (book.armed_head, book.reached());
            let Some(record) = self.nic.tables.triggered.get_mut(head as usize) else { break };
            if record.threshold > reached || slot::status(record.slot) != triggered::ARMED {
                break;
            }
            let next = record.next;
            record.slot = slot::word(slot::generation(record.slot), triggered::QUEUED);
            self.nic.counters().unlink_armed_head(reference, next);
            self.nic.counters().queue_fired(head);
        }
    }

    pub(super) fn unlink_armed_head(self, reference: u32, next: u32) {
        let threshold = match self.nic.tables.triggered.get_mut(next as usize) {
            Some(head) => {
                head.prev = NONE;
                Some(head.threshold)
            }
            None => None,
        };
        let Some((_, book)) = self.nic.counters().book(reference) else { return };
        book.armed_head = next;
        book.threshold_next = threshold.unwrap_or(u64::MAX);
        if threshold.is_none() {
            (book.armed_head, book.armed_tail) = (NONE, NONE);
        }
    }

    pub(crate) fn queue_fired(self, index: u32) {
        let control = &mut *self.nic.tables.control;
        let tail = core::mem::replace(&mut control.fire_tail, index);
        if tail == NONE {
            control.fire_head = index;
        } else if let Some(last) = self.nic.tables.triggered.get_mut(tail as usize) {
            last.next = index;
        }
        let record = &mut self.nic.tables.triggered[index as usize];
        (record.next, record.prev) = (NONE, tail);
        let fired = &self.nic.signals.doorbell.fired;
        fired.store(fired.load(Relaxed).wrapping_add(1), Release);
    }
}
