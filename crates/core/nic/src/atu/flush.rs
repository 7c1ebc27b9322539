// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Flushes: removal of old entries from the TLB and from the functional units (seed 002, section 5.3).
//!
//! A driver that has cleared an entry flushes it. The ATU asks every functional unit. A unit answers as soon as the
//! address is in none of its buffers and transfers. The RMA unit gives three answers to each flush, one for each of its
//! parts. When all answers are in, the memory is free for other purposes.
//!
//! Invariants
//! 1. Each unit answers once. Another answer is refused and changes nothing.
//! 2. [`Register::AtuFlushes`] counts a flush when its last answer is in. A flush of the TLB alone asks no unit and is
//!    not counted there.

use super::lookup::Atu;
use super::nla::NlaPage;
use super::tlb;
use crate::registers::Register;

/// A functional unit that translates addresses: the parts of the RMA unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    Requester = 0,
    Responder = 1,
    Completer = 2,
}

impl Unit {
    /// All units, in the order in which the ATU asks them.
    pub const ALL: [Unit; 3] = [Unit::Requester, Unit::Responder, Unit::Completer];

    /// The unit with this number.
    pub const fn from_number(number: u64) -> Option<Unit> {
        match number {
            0 => Some(Unit::Requester),
            1 => Some(Unit::Responder),
            2 => Some(Unit::Completer),
            _ => None,
        }
    }
}

/// The places from which a flush removes entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushMode {
    /// From the TLB.
    Tlb,
    /// From the functional units (ATS flush request).
    Units,
    /// From both.
    Both,
}

/// The entries that a flush removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlushTarget {
    /// The entries of `count` pages from `first` on.
    Pages { first: NlaPage, count: u32 },
    /// The entries of a VPID.
    Vpid(u16),
}

impl FlushTarget {
    /// Whether the flush may cover the entry of this page. A page's VPID is unknown until its entry was read.
    pub fn may_include(&self, page: NlaPage) -> bool {
        match self {
            FlushTarget::Pages { first, count } => {
                page.number().checked_sub(first.number()).is_some_and(|offset| offset < *count)
            }
            FlushTarget::Vpid(_) => true,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Units(u8);

impl Units {
    const NONE: Units = Units(0);
    const ALL: Units = Units((1 << Unit::ALL.len()) - 1);

    pub(super) fn has(self, unit: Unit) -> bool {
        self.0 >> unit as u8 & 1 != 0
    }

    pub(super) fn add(&mut self, unit: Unit) {
        self.0 |= 1 << unit as u8;
    }
}

/// A flush that units may still have to answer.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flush {
    awaited: Units,
}

impl Flush {
    /// Whether this unit has not answered yet.
    pub fn awaits(&self, unit: Unit) -> bool {
        self.awaited.has(unit)
    }

    /// Whether all answers are in.
    pub fn is_complete(&self) -> bool {
        self.awaited == Units::NONE
    }
}

/// An answer that no flush waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAwaited;

impl Atu<'_> {
    /// Starts a flush. Entries leave the TLB at once. Cost: as [`tlb::remove`] and [`tlb::remove_vpid`].
    pub fn flush(&mut self, target: FlushTarget, mode: FlushMode) -> Flush {
        if mode != FlushMode::Units {
            let removed = match target {
                FlushTarget::Pages { first, count } => tlb::remove(self.tlb, self.tlb_ways, first, count),
                FlushTarget::Vpid(vpid) => tlb::remove_vpid(self.tlb, vpid),
            };
            self.registers.add(Register::TlbFlushes, removed);
        }
        Flush { awaited: if mode == FlushMode::Tlb { Units::NONE } else { Units::ALL } }
    }

    /// Records a unit's answer to a flush. Returns whether the flush is complete now.
    pub fn answer_flush(&mut self, flush: &mut Flush, unit: Unit) -> Result<bool, NotAwaited> {
        if !flush.awaits(unit) {
            return Err(NotAwaited);
        }
        flush.awaited.0 &= !(1 << unit as u8);
        if flush.is_complete() {
            self.registers.add(Register::AtuFlushes, 1);
        }
        Ok(flush.is_complete())
    }
}
