// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers that are values of the NIC's tables: their places, and how they are written.
//!
//! Seed 002, tables 7-1 and 7-8, figure 5-11. In hardware these are RAM arrays and bits beside the units. Here a port's
//! record has most of them, and the rest follows from the NIC's limits. Addresses are offsets from the start of the
//! layout; in shared memory, of the segment.
//!
//! Invariants
//! 1. Reading changes nothing. [`TableView`] needs no lock: each value is one word that a process stores at once.
//! 2. Writing is a transition for the holder of the lock. An error leaves the state unchanged.
//! 3. A NIC without VPIDs has none of these registers.
//!
//! Costs: O(1); a word of bits: 64 records. A flush: as [`Atu::flush`](crate::atu::Atu::flush).

use core::sync::atomic::Ordering::Relaxed;

use super::{LiveWrite, TableRegister};
use crate::atu::{FlushMode, FlushTarget, NlaPage, Unit};
use crate::layout::Layout;
use crate::nic::Nic;
use crate::signals::{PortPointers, SLOT_WORDS};
use crate::tables::{LOCKS, PAGES, Port};
use crate::velo::options;

const WORD_VPIDS: u32 = u64::BITS;

/// The tables whose values the registers are.
#[derive(Clone, Copy)]
pub struct TableView<'a> {
    pub layout: &'a Layout,
    pub ports: &'a [Port],
    pub pointers: &'a [PortPointers],
}

impl TableView<'_> {
    /// Number of values of a register in this NIC. A register without an index has one.
    pub fn entries(&self, register: TableRegister) -> u32 {
        let limits = &self.layout.limits;
        match register {
            _ if limits.vpids == 0 => 0,
            TableRegister::MailboxEnables | TableRegister::CompleterEnables => limits.vpids.div_ceil(WORD_VPIDS),
            TableRegister::TableBases => limits.address_tables,
            _ if register.entries_max() == 0 => 1,
            _ => limits.vpids,
        }
    }

    /// The value of a register; 0 if software only writes it. None: there is no such entry.
    pub fn value(&self, register: TableRegister, index: u32) -> Option<u64> {
        if index >= self.entries(register) {
            return None;
        }
        let (layout, limits, at) = (self.layout, &self.layout.limits, u64::from(index));
        let record = || self.ports.get(index as usize);
        let pointers = || self.pointers.get(index as usize);
        Some(match register {
            TableRegister::MailboxEnables => self.bits(index, |port| port.is_open() && takes_messages(port)),
            TableRegister::MailboxBases => {
                layout.mailboxes + at * u64::from(limits.mailbox_slots) * SLOT_WORDS as u64 * 8
            }
            TableRegister::MailboxSizes => limits.mailbox_slots.into(),
            TableRegister::MailboxWritePointers => record()?.mailbox_tail,
            TableRegister::MailboxInterruptsInterrupt => record()?.interrupt & 1,
            TableRegister::MailboxInterruptsMask => (record()?.options & options::INTERRUPT != 0).into(),
            TableRegister::MailboxPagesReadPointer => pointers()?.mailbox_head.load(Relaxed),
            TableRegister::CompleterEnables => self.bits(index, Port::is_open),
            TableRegister::NotificationQueueSize => limits.notifications.into(),
            TableRegister::LockBase => layout.locks,
            TableRegister::LockSize => u64::from(limits.vpids) * (LOCKS * size_of::<u32>()) as u64,
            TableRegister::NotificationWritePointers => record()?.notification_tail,
            TableRegister::NotificationPagesReadPointer => pointers()?.notification_head.load(Relaxed),
            TableRegister::TableBases => (layout.address_tables + at * (PAGES * size_of::<u64>()) as u64) | 1,
            TableRegister::MailboxInterruptsClear | TableRegister::FlushRequest => 0,
        })
    }

    /// One bit for each VPID of a word.
    fn bits(&self, word: u32, is_set: impl Fn(&Port) -> bool) -> u64 {
        let ports = self.ports.iter().skip((word * WORD_VPIDS) as usize).take(WORD_VPIDS as usize);
        ports.enumerate().fold(0, |bits, (at, port)| bits | (u64::from(is_set(port)) << at))
    }
}

/// Reasons for which a register was not written. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteError {
    /// Only the NIC or its owner may change the register.
    NotWritable(LiveWrite),
    /// The NIC has no such entry.
    NoSuchEntry,
    /// No program has this VPID open.
    NotOpen(u32),
    /// The register cannot have this value.
    Value,
}

impl Nic<'_> {
    /// Writes a register, as software does on hardware.
    pub fn write_register(&mut self, register: TableRegister, index: u32, value: u64) -> Result<(), WriteError> {
        match register {
            TableRegister::MailboxEnables => self.write_enables(index, value),
            TableRegister::MailboxInterruptsMask => {
                let is_set = bit(value)?;
                set_option(self.open_record(index)?, options::INTERRUPT, is_set);
                Ok(())
            }
            TableRegister::MailboxInterruptsClear => {
                let clears = bit(value)?;
                let record = self.open_record(index)?;
                record.interrupt &= u64::from(!clears);
                Ok(())
            }
            TableRegister::FlushRequest => self.write_flush(index, value),
            _ => Err(WriteError::NotWritable(register.live_write())),
        }
    }

    fn open_record(&mut self, vpid: u32) -> Result<&mut Port, WriteError> {
        let record = self.tables.ports.get_mut(vpid as usize).ok_or(WriteError::NoSuchEntry)?;
        if record.is_open() { Ok(record) } else { Err(WriteError::NotOpen(vpid)) }
    }

    /// Enables and disables the mailboxes of a word's VPIDs. A VPID that is not open cannot be enabled.
    fn write_enables(&mut self, word: u32, value: u64) -> Result<(), WriteError> {
        let first = u64::from(word) * u64::from(WORD_VPIDS);
        let ports = usize::try_from(first).ok().and_then(|first| self.tables.ports.get_mut(first..));
        let ports = ports.filter(|ports| !ports.is_empty()).ok_or(WriteError::NoSuchEntry)?;
        let has_bit = |at: usize| value >> at & 1 != 0;
        let closed = (0..WORD_VPIDS as usize).find(|&at| has_bit(at) && !ports.get(at).is_some_and(Port::is_open));
        if let Some(at) = closed {
            return Err(WriteError::NotOpen(word * WORD_VPIDS + at as u32));
        }
        let open = ports.iter_mut().take(WORD_VPIDS as usize).enumerate().filter(|(_, record)| record.is_open());
        open.for_each(|(at, record)| set_option(record, options::MAILBOX_DISABLED, !has_bit(at)));
        Ok(())
    }

    /// Starts a flush. All units answer at once, because no transfer runs while the lock is held.
    fn write_flush(&mut self, index: u32, value: u64) -> Result<(), WriteError> {
        if index != 0 || self.tables.ports.is_empty() {
            return Err(WriteError::NoSuchEntry);
        }
        let field = |low: u32, bits: u32| value >> low & ((1 << bits) - 1);
        let (first, extent) = (field(0, 27), field(27, 10));
        let target = match field(40, 2) {
            0 => {
                let first = NlaPage::new(first).map_err(|_| WriteError::Value)?;
                let (count, tables) = (extent as u32 + 1, self.tables.address_tables.len());
                if first.index() + count as usize > tables {
                    return Err(WriteError::Value);
                }
                FlushTarget::Pages { first, count }
            }
            1 if first == 0 => FlushTarget::Vpid(extent as u16),
            _ => return Err(WriteError::Value),
        };
        let mode = match field(42, 2) {
            0 => FlushMode::Both,
            1 => FlushMode::Tlb,
            2 => FlushMode::Units,
            _ => return Err(WriteError::Value),
        };
        if value >> 44 != 0 || field(37, 3) != 0 {
            return Err(WriteError::Value);
        }
        let mut flush = self.atu().flush(target, mode);
        for unit in Unit::ALL {
            // A flush of the TLB alone waits for no answer.
            let _ = self.atu().answer_flush(&mut flush, unit);
        }
        Ok(())
    }
}

fn bit(value: u64) -> Result<bool, WriteError> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(WriteError::Value),
    }
}

fn set_option(record: &mut Port, option: u32, is_set: bool) {
    record.options = if is_set { record.options | option } else { record.options & !option };
}

fn takes_messages(record: &Port) -> bool {
    record.options & options::MAILBOX_DISABLED == 0
}
