// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands of all units that wait for the response of another process. O(1); a search for a lost response is
//! O(records).

use crate::errors::Full;
use crate::handle::{Encoding, NONE};
use crate::tables::{Command, Pending, pending, slot};

/// The pending requests of a NIC.
#[derive(Clone, Copy)]
pub struct PendingRequests<'n> {
    pub(crate) records: &'n [Pending],
}

impl<'n> PendingRequests<'n> {
    /// The pending command that a response's token names.
    pub fn get(self, token: u64) -> Option<&'n Command> {
        let encoding = Encoding::new(self.records.len());
        let (index, generation) = encoding.decode(u32::try_from(token.checked_sub(1)?).ok()?);
        let record = self.records.get(index as usize)?;
        (record.slot == slot::word(generation, pending::WAITING)).then_some(&record.command)
    }

    /// The commands whose responses have not arrived.
    pub fn commands(self) -> impl Iterator<Item = &'n Command> {
        let waits = |record: &&Pending| slot::status(record.slot) == pending::WAITING;
        self.records.iter().filter(waits).map(|record| &record.command)
    }

    /// The token of a pending command for which `lost` returns true, given its target and its responder.
    pub fn find(&self, mut lost: impl FnMut(u64, u64) -> bool) -> Option<u64> {
        let encoding = Encoding::new(self.records.len());
        let waits = |record: &Pending| slot::status(record.slot) == pending::WAITING;
        let index =
            self.records.iter().position(|record| waits(record) && lost(record.command.target, record.responder))?;
        Some(u64::from(encoding.encode(index as u32, slot::generation(self.records[index].slot))) + 1)
    }
}

/// The same, to add and to take.
pub struct PendingRequestsMut<'n> {
    pub(crate) records: &'n mut [Pending],
    pub(crate) free: &'n mut u32,
}

impl PendingRequestsMut<'_> {
    /// Stores a command until process `responder` sends the response. Returns the token of the response, never 0.
    pub fn add(&mut self, command: &Command, responder: u64) -> Result<u64, Full> {
        let index = *self.free;
        let record = self.records.get_mut(index as usize).ok_or(Full)?;
        *self.free = slot::next(index, record.next);
        let generation = slot::generation(record.slot);
        *record = Pending { slot: record.slot, next: NONE, command: *command, responder, reserved: 0 };
        record.slot = slot::word(generation, pending::WAITING);
        Ok(u64::from(Encoding::new(self.records.len()).encode(index, generation)) + 1)
    }

    /// Removes the command that a response's token names.
    pub fn take(&mut self, token: u64) -> Option<Command> {
        let encoding = Encoding::new(self.records.len());
        let (index, generation) = encoding.decode(u32::try_from(token.checked_sub(1)?).ok()?);
        let record = self.records.get_mut(index as usize)?;
        if record.slot != slot::word(generation, pending::WAITING) {
            return None;
        }
        record.slot = slot::word(encoding.next_generation(generation), slot::FREE);
        record.next = slot::link(index, *self.free);
        *self.free = index;
        Some(record.command)
    }
}
