// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The type [`Nic`]: the two views of a NIC's memory, and its tap. Operations are methods of the views of its parts,
//! which [`crate::units`] makes. Here are the look-ups and the tap, which all parts use.

use crate::portals::errors::PortalError;
use crate::signals::Signals;
use crate::tables::{Command, Header, PortalEntry, Tables, header, slot};
use crate::tap::{Tapped, Transition, Within};

/// A NIC, as the holder of its lock sees it.
pub struct Nic<'a> {
    pub tables: Tables<'a>,
    pub signals: Signals<'a>,
    /// The receiver of the transitions; most NICs have none.
    pub tap: Tapped<'a>,
}

impl Nic<'_> {
    /// An allocated portal table entry.
    #[inline(always)]
    pub fn portal(&self, index: u32) -> Result<&PortalEntry, PortalError> {
        self.tables.portals.get(index as usize).filter(|entry| entry.status != 0).ok_or(PortalError::Invalid)
    }

    /// The slot that a reference names, if the slot still has that entry.
    pub fn entry_index(&self, reference: u32) -> Option<u32> {
        let (index, generation) = self.signals.encodings.entries.decode(reference);
        let record = self.tables.entries.get(index as usize)?;
        let live = slot::generation(record.slot) == generation && slot::status(record.slot) != slot::FREE;
        live.then_some(index)
    }

    /// The unexpected message with the index of [`Posted::Matched`](crate::portals::Posted::Matched) or
    /// [`Receives::find_unexpected`](crate::portals::receive::Receives::find_unexpected).
    pub fn unexpected(&self, found: u32) -> Option<&Header> {
        let is_kept = |record: &&Header| matches!(slot::status(record.slot), header::LIVE | header::CLAIMED);
        self.tables.headers.get(found as usize).filter(is_kept)
    }
}

impl Nic<'_> {
    /// Runs a transition of a tapped NIC, and shows the transition that `of` makes of its result.
    #[cold]
    pub(crate) fn tapped<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> T,
        of: impl FnOnce(&T) -> Option<Transition>,
    ) -> T {
        self.tapped_within(Within::Transition, run, of)
    }

    /// [`Nic::tapped`] for a transition whose counts are not shown.
    #[cold]
    pub(crate) fn tapped_quietly<T>(
        &mut self,
        run: impl FnOnce(&mut Self) -> T,
        of: impl FnOnce(&T) -> Option<Transition>,
    ) -> T {
        self.tapped_within(Within::Counter, run, of)
    }

    fn tapped_within<T>(
        &mut self,
        within: Within,
        run: impl FnOnce(&mut Self) -> T,
        of: impl FnOnce(&T) -> Option<Transition>,
    ) -> T {
        self.tap.within = within;
        let result = run(self);
        self.tap.within = Within::Nothing;
        if let Some(transition) = of(&result) {
            self.show(&transition);
        }
        result
    }

    pub(crate) fn show(&self, transition: &Transition) {
        if let Some(sink) = self.tap.sink {
            sink.show(transition);
        }
    }

    /// Shows a count that is about to happen.
    #[cold]
    pub(crate) fn show_count(&self, counter: u32, success: u64, failure: u64) {
        let is_caused = self.tap.within == Within::Transition;
        // An unknown counter counts nothing.
        if (is_caused || self.tap.within == Within::Nothing) && self.signals.counter(counter).is_some() {
            self.show(&Transition::Count { counter, success, failure, is_caused });
        }
    }

    /// Shows that the program starts a command, which has changed no table yet.
    #[cold]
    pub fn show_issue(&self, command: &Command) {
        self.show(&Transition::Issue { command: *command });
    }
}
