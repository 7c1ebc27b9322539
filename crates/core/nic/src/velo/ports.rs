// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports: a program opens a VPID to get a mailbox and a notification queue, and closes it.
//!
//! Seed 002, section 7.4: the registers that enable mailboxes and interrupts per VPID, and the tables of the mailboxes'
//! pointers, are fields of [`Port`] here. Section 6.5: what happens when a mailbox is full is the port's choice.
//!
//! Invariants
//! 1. One store to a port's slot word opens or closes it. All other words of an open port were stored before.
//! 2. When a port is opened, its mailbox and its notification queue are empty: all their status words are zero. Its locks are 0.
//! 3. A slot's generation grows when the port is closed. So a [`PortId`] of a closed port is refused.
//!
//! Costs: opening is O(VPIDs + slots of the mailbox + notifications). The others are O(1).

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::{AtomicU64, compiler_fence};

use super::slots::Slots;
use crate::nic::Nic;
use crate::signals::{NOTIFICATION_WORDS, PortPointers, SLOT_WORDS, Signals};
use crate::tables::{LOCKS, Port, port, slot};

/// Options of a port that concern its mailbox. The low 16 bits belong to the RMA unit ([`crate::rma::options`]).
pub mod options {
    /// The mailbox takes no messages.
    pub const MAILBOX_DISABLED: u32 = 1 << 16;
    /// Each message is worth an interrupt.
    pub const INTERRUPT: u32 = 1 << 17;
    /// A message that finds no room stays with its sender. Without this option it is discarded, as in the text.
    pub const REFUSE: u32 = 1 << 18;
    /// All options of the VELO unit.
    pub const ALL: u32 = MAILBOX_DISABLED | INTERRUPT | REFUSE;
}

const GENERATION_MASK: u32 = u32::MAX >> 8;

/// An open port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId {
    pub vpid: u16,
    /// The slot's generation when the port was opened.
    pub generation: u32,
}

/// Why a port was not opened or changed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortError {
    /// The NIC has no such VPID.
    NoSuchVpid,
    /// The VPID, or with no wish each VPID, is in use.
    AllUsed,
    /// The port is not open, or was closed and opened again.
    NotOpen,
}

impl Nic<'_> {
    /// Opens this VPID, or the lowest free one.
    pub fn port_open(&mut self, wanted: Option<u16>, options: u32) -> Result<PortId, PortError> {
        let is_free = |record: &Port| slot::status(record.slot) == slot::FREE;
        let vpid = match wanted {
            Some(vpid) => {
                let record = self.tables.ports.get(usize::from(vpid)).ok_or(PortError::NoSuchVpid)?;
                if is_free(record) { vpid } else { return Err(PortError::AllUsed) }
            }
            None => {
                let lowest = self.tables.ports.iter().position(is_free).ok_or(PortError::AllUsed)?;
                u16::try_from(lowest).map_err(|_| PortError::NoSuchVpid)?
            }
        };
        self.signals.empty_port(vpid);
        let locks = usize::from(vpid) * LOCKS..(usize::from(vpid) + 1) * LOCKS;
        self.tables.locks.get_mut(locks).unwrap_or_default().fill(0);
        let record = self.tables.ports.get_mut(usize::from(vpid)).ok_or(PortError::NoSuchVpid)?;
        let generation = slot::generation(record.slot);
        *record = Port { slot: record.slot, options, ..Port::default() };
        // The order matters if the process dies here.
        compiler_fence(SeqCst);
        record.slot = slot::word(generation, port::OPEN);
        Ok(PortId { vpid, generation })
    }

    /// Closes a port. Messages that it has not read are lost. Requests that are kept for its locks are refused: their answers are due
    /// ([`Nic::has_fired`]).
    pub fn port_close(&mut self, id: PortId) -> Result<(), PortError> {
        let record = self.open_port_mut(id)?;
        record.slot = slot::word(id.generation.wrapping_add(1) & GENERATION_MASK, slot::FREE);
        self.refuse_waiters_of(id.vpid);
        Ok(())
    }

    /// The options of a port.
    pub fn port_options(&self, id: PortId) -> Result<u32, PortError> {
        let record = self.tables.ports.get(usize::from(id.vpid)).ok_or(PortError::NotOpen)?;
        if is_open_as(record, id) { Ok(record.options) } else { Err(PortError::NotOpen) }
    }

    /// Replaces the options of a port, those of the RMA unit too.
    pub fn port_set_options(&mut self, id: PortId, options: u32) -> Result<(), PortError> {
        self.open_port_mut(id)?.options = options;
        Ok(())
    }

    /// Enables or disables the mailbox of a port. Messages that it has stay there.
    pub fn mailbox_enable(&mut self, id: PortId, is_enabled: bool) -> Result<(), PortError> {
        let record = self.open_port_mut(id)?;
        let others = record.options & !options::MAILBOX_DISABLED;
        record.options = if is_enabled { others } else { others | options::MAILBOX_DISABLED };
        Ok(())
    }

    fn open_port_mut(&mut self, id: PortId) -> Result<&mut Port, PortError> {
        let record = self.tables.ports.get_mut(usize::from(id.vpid)).ok_or(PortError::NotOpen)?;
        if is_open_as(record, id) { Ok(record) } else { Err(PortError::NotOpen) }
    }
}

fn is_open_as(record: &Port, id: PortId) -> bool {
    record.slot == slot::word(id.generation & GENERATION_MASK, port::OPEN)
}

impl<'a> Signals<'a> {
    /// The mailbox of a VPID and its pointers. None: there is no such VPID.
    #[inline]
    pub(super) fn mailbox(&self, vpid: u16) -> Option<(Slots<'a>, &'a PortPointers)> {
        let pointers = self.port_pointers.get(usize::from(vpid))?;
        let words = of_port(self.mailboxes, SLOT_WORDS, self.port_pointers.len(), vpid);
        Some((Slots::new(words)?, pointers))
    }

    /// Slots of a VPID's mailbox; 0: there is no such VPID.
    pub fn mailbox_slots(&self, vpid: u16) -> u64 {
        self.mailbox(vpid).map_or(0, |(slots, _)| slots.count())
    }

    /// Zeroes the mailbox, the notification queue and the pointers of a VPID.
    fn empty_port(&self, vpid: u16) {
        let ports = self.port_pointers.len();
        let Some(pointers) = self.port_pointers.get(usize::from(vpid)) else { return };
        pointers.mailbox_taken.store(0, Relaxed);
        pointers.mailbox_head.store(0, Relaxed);
        pointers.notification_head.store(0, Relaxed);
        let mailbox = of_port(self.mailboxes, SLOT_WORDS, ports, vpid).iter().step_by(SLOT_WORDS);
        let notifications = of_port(self.notifications, NOTIFICATION_WORDS, ports, vpid).iter();
        mailbox.chain(notifications).for_each(|word| word.store(0, Release));
    }
}

/// The words of one VPID in an array that all VPIDs share evenly.
#[inline]
fn of_port(words: &[AtomicU64], record: usize, ports: usize, vpid: u16) -> &[AtomicU64] {
    let length = (words.len() / record).checked_div(ports).unwrap_or(0) * record;
    let start = length * usize::from(vpid);
    words.get(start..start + length).unwrap_or_default()
}
