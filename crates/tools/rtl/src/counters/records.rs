// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters and triggered operations of both sides, field by field, and the meaning of a write to T0.

use selvedge_nic::tables::{counter, kind, slot, triggered};

use super::words::{body_of_record, c0, c1, t0};
use crate::error::LockstepError;
use crate::home::Home;
use crate::records::{free_next, link, reference, same};
use crate::shadow::{Shadow, Write};

const BANK_T0: usize = 2;

/// The records of both sides. The banks C0, C1, T0, T1, T2 are the shadow's from `first_bank` on.
pub struct Records<'a> {
    pub shadow: &'a Shadow,
    pub home: &'a Home,
    pub first_bank: usize,
}

impl<'a> Records<'a> {
    fn word(&self, bank: usize, index: usize) -> &'a [u32] {
        self.shadow.word(self.first_bank + bank, index)
    }

    /// Compares the record that a write to this bank has changed. Fails with the first field that differs.
    pub fn compare(&self, bank: usize, index: usize) -> Result<(), LockstepError> {
        let bank = bank - self.first_bank;
        let of = |error: LockstepError| {
            error.at(format_args!("{} {index}", if bank < BANK_T0 { "counter" } else { "operation" }))
        };
        if bank < BANK_T0 { self.compare_counter(index).map_err(of) } else { self.compare_triggered(index).map_err(of) }
    }

    fn compare_counter(&self, index: usize) -> Result<(), LockstepError> {
        let (amounts, state) = (self.word(0, index), self.word(1, index));
        let (book, records) = (&self.home.books[index], self.home.triggered.len());
        same("status", c1::STATUS.get(state), slot::status(book.slot).into())?;
        same("generation", c1::GENERATION.get(state), slot::generation(book.slot).into())?;
        same("successes", c0::SUCCESS.get(amounts), book.success)?;
        same("failures", c0::FAILURE.get(amounts), book.failure)?;
        if slot::status(book.slot) != counter::LIVE {
            let (books, next) = (self.home.books.len(), slot::next(index as u32, book.next_free));
            return same(
                "the next free counter",
                free_next(index, c1::HEAD.get(state), books),
                link(next.into(), books),
            );
        }
        same("the lowest threshold", c1::THRESHOLD_NEXT.get(state), book.threshold_next)?;
        same("head", link(c1::HEAD.get(state), records), link(book.armed_head.into(), records))?;
        same("tail", link(c1::TAIL.get(state), records), link(book.armed_tail.into(), records))
    }

    fn compare_triggered(&self, index: usize) -> Result<(), LockstepError> {
        let word = self.word(BANK_T0, index);
        let (record, records) = (&self.home.triggered[index], self.home.triggered.len());
        same("status", t0::STATUS.get(word), slot::status(record.slot).into())?;
        same("generation", t0::GENERATION.get(word), slot::generation(record.slot).into())?;
        let is_armed = slot::status(record.slot) == triggered::ARMED;
        if slot::status(record.slot) == slot::FREE {
            let next = slot::next(index as u32, record.next);
            return same(
                "the next free operation",
                free_next(index, t0::NEXT.get(word), records),
                link(next.into(), records),
            );
        }
        same("counter", t0::COUNTER.get(word), reference(record.counter))?;
        same("threshold", t0::THRESHOLD.get(word), record.threshold)?;
        same("kind", t0::KIND.get(word), record.command.kind.into())?;
        same("list", t0::VARIANT.get(word), record.list.into())?;
        same("object", t0::OBJECT.get(word), reference(record.object))?;
        let mut body = self.word(3, index).to_vec();
        body.extend(self.word(4, index));
        same("body", &body[..], &body_of_record(record)[..])?;
        if is_armed {
            same("next", link(t0::NEXT.get(word), records), link(record.next.into(), records))?;
            if let Some(prev) = link(record.prev.into(), records) {
                same("prev", link(t0::PREV.get(word), records), Some(prev))?;
            }
        }
        Ok(())
    }

    /// Compares all records. Fails with the first field that differs.
    pub fn compare_all(&self) -> Result<(), LockstepError> {
        (0..self.home.books.len()).try_for_each(|index| self.compare(self.first_bank, index))?;
        (0..self.home.triggered.len()).try_for_each(|index| self.compare(self.first_bank + BANK_T0, index))
    }
}

/// Status of an operation before and after a write of T0.
fn states(write: &Write, first_bank: usize) -> Option<(u32, u32)> {
    let old = write.old.as_ref().filter(|_| write.bank == first_bank + BANK_T0)?;
    Some((t0::STATUS.get(old) as u32, t0::STATUS.get(&write.new) as u32))
}

/// The data-moving operation that this write fires, and whether its record is free.
pub fn fired(write: &Write, first_bank: usize) -> Option<(u32, bool)> {
    let (before, after) = states(write, first_bank)?;
    let is_local = matches!(t0::KIND.get(&write.new) as u8, kind::COUNTER_SET | kind::COUNTER_INCREMENT);
    (before == triggered::ARMED && after != triggered::ARMED && !is_local)
        .then_some((write.address as u32, after == slot::FREE))
}

/// The operation that waited for its port and leaves by this write.
pub fn left_port(write: &Write, first_bank: usize) -> Option<u32> {
    (states(write, first_bank)? == (triggered::FIRING, slot::FREE)).then_some(write.address as u32)
}
