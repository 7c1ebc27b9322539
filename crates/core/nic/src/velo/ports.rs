// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports: a program opens a VPID to get a mailbox and a notification queue, and closes it.
//!
//! Seed 002, section 7.4: the registers that enable mailboxes and interrupts per VPID, and the tables of the mailboxes'
//! pointers, are fields of [`Port`] here. Section 6.5: the port chooses the effect of a full mailbox.
//!
//! Invariants
//! 1. One store to a port's slot word opens or closes it. All other words of an open port were stored before.
//! 2. When a port is opened, its mailbox and its notification queue are empty: all their status words are zero. Its
//!    locks are 0.
//! 3. A slot's generation grows when the port is closed. So a [`PortId`] of a closed port is refused.
//!
//! Costs: opening is O(VPIDs + slots of the mailbox + notifications). The others are O(1).

use core::sync::atomic::Ordering::{Acquire, SeqCst};
use core::sync::atomic::compiler_fence;

use super::header::{Label, Status};
use super::mailbox::mailbox_of;
use super::options;
use crate::registers::Register;
use crate::rma::locks::Locks;
use crate::signals::Signals;
use crate::tables::{BlockedHead, LOCKS, Port, Tables, port, slot};

const GENERATION_MASK: u32 = u32::MAX >> 8;

/// An open port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortId {
    pub vpid: u16,
    /// The slot's generation when the port was opened.
    pub generation: u32,
}

/// Reasons for which a port was not opened or changed. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortError {
    /// The NIC has no such VPID.
    NoSuchVpid,
    /// The wanted VPID, or every VPID, is in use.
    AllUsed,
    /// The port is not open, or was closed and opened again.
    NotOpen,
}

/// The ports of a NIC, and the tables that opening and closing change: mailboxes, notification queues, locks.
pub struct Ports<'n, 'a> {
    pub(crate) tables: &'n mut Tables<'a>,
    pub(crate) signals: &'n Signals<'a>,
}

impl Ports<'_, '_> {
    /// Opens this VPID, or the lowest free one.
    pub fn open(&mut self, wanted: Option<u16>, options: u32) -> Result<PortId, PortError> {
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

    /// Keeps the heads of the messages that lie unread in the mailbox of an open port, counts them as discarded, and
    /// returns their number. `node` is the port's. The owner calls it before it closes the port; no thread reads the
    /// mailbox meanwhile. O(slots of the mailbox).
    pub fn note_unread(&mut self, id: PortId, node: u16) -> Result<u64, PortError> {
        let tail = self.open_mut(id)?.mailbox_tail;
        let Some((slots, pointers)) = mailbox_of(self.signals, id.vpid) else { return Ok(0) };
        let mut at = pointers.mailbox_taken.load(Acquire);
        let mut found = 0;
        // Any process may have stored these words: no more slots than there are.
        let mut left = tail.wrapping_sub(at).min(slots.count());
        while left > 0 {
            let status = Status::from_word(slots.status(at));
            if let Ok(status) = status {
                if let Some(heads) = self.tables.blocked.as_deref_mut() {
                    heads.push(&BlockedHead::unread(Label::of(&status), node, id.vpid));
                }
                found += 1;
            }
            let taken = u64::from(status.map_or(1, |status| status.extent.slots()));
            at = at.wrapping_add(taken);
            left = left.saturating_sub(taken);
        }
        self.signals.registers.add(Register::VeloDiscarded, found);
        Ok(found)
    }

    /// Closes a port. Its unread messages are lost. Requests kept for its locks fail, and their answers are due
    /// ([`Nic::has_fired`](crate::Nic::has_fired)).
    pub fn close(&mut self, id: PortId) -> Result<(), PortError> {
        let record = self.open_mut(id)?;
        record.slot = slot::word(id.generation.wrapping_add(1) & GENERATION_MASK, slot::FREE);
        Locks::of(self.tables, self.signals).refuse_waiters_of(id.vpid);
        Ok(())
    }

    /// The options of a port.
    pub fn options(&self, id: PortId) -> Result<u32, PortError> {
        let record = self.tables.ports.get(usize::from(id.vpid)).ok_or(PortError::NotOpen)?;
        if is_open_as(record, id) { Ok(record.options) } else { Err(PortError::NotOpen) }
    }

    /// Replaces the options of a port, those of the RMA unit too.
    pub fn set_options(&mut self, id: PortId, options: u32) -> Result<(), PortError> {
        self.open_mut(id)?.options = options;
        Ok(())
    }

    /// Enables or disables the mailbox of a port. Its messages stay.
    pub fn enable_mailbox(&mut self, id: PortId, is_enabled: bool) -> Result<(), PortError> {
        let record = self.open_mut(id)?;
        let others = record.options & !options::MAILBOX_DISABLED;
        record.options = if is_enabled { others } else { others | options::MAILBOX_DISABLED };
        Ok(())
    }

    fn open_mut(&mut self, id: PortId) -> Result<&mut Port, PortError> {
        let record = self.tables.ports.get_mut(usize::from(id.vpid)).ok_or(PortError::NotOpen)?;
        if is_open_as(record, id) { Ok(record) } else { Err(PortError::NotOpen) }
    }
}

fn is_open_as(record: &Port, id: PortId) -> bool {
    record.slot == slot::word(id.generation & GENERATION_MASK, port::OPEN)
}
