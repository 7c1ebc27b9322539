// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The portal table: allocating, freeing, enabling and disabling its entries. O(1), except scans for the first free
//! entry and for held headers.

use core::sync::atomic::Ordering::{Relaxed, Release};

use super::constants::options;
use super::errors::PortalError;
use crate::nic::Nic;
use crate::tables::{Header, PortalEntry, header, portal, slot};
use crate::tap::Transition;

/// The portal table of a NIC.
pub struct PortalTable<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl PortalTable<'_, '_> {
    /// Allocates a portal table entry: the wanted index, or the lowest free one.
    pub fn alloc(self, wanted: Option<u32>, flags: u32, queue: u32) -> Result<u32, PortalError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.portal_table().alloc(wanted, flags, queue),
                |made| Some(Transition::PortalAlloc { wanted, options: flags, queue, portal: made.ok() }),
            );
        }
        let index = match wanted {
            Some(index) => match self.nic.tables.portals.get(index as usize) {
                None => return Err(PortalError::Invalid),
                Some(entry) if entry.status != 0 => return Err(PortalError::InUse),
                Some(_) => index,
            },
            None => self.nic.tables.portals.iter().position(|entry| entry.status == 0).ok_or(PortalError::Full)? as u32,
        };
        let status = if flags & options::PT_ALLOC_DISABLED != 0 { portal::DISABLED } else { portal::ENABLED };
        let entry = &mut self.nic.tables.portals[index as usize];
        *entry = PortalEntry { status, options: flags, queue, disabled: entry.disabled, ..PortalEntry::EMPTY };
        Ok(index)
    }

    /// Frees a portal table entry and its unexpected headers. Refused while entries are linked, so there are no grants.
    pub fn free(self, index: u32) -> Result<(), PortalError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.portal_table().free(index),
                |done| Some(Transition::PortalFree { portal: index, is_done: done.is_ok() }),
            );
        }
        let entry = *self.nic.portal(index)?;
        // A put whose payload is being fetched, or a header that the owner has claimed.
        let is_held =
            |record: &Header| slot::status(record.slot) == header::CLAIMED && u32::from(record.portal) == index;
        // Records that were never used are zero. They come last, because the free list takes them in order.
        let is_used = |record: &&Header| record.slot != 0 || record.sequence != 0;
        if entry.entries != [0, 0] || self.nic.tables.headers.iter().take_while(is_used).any(is_held) {
            return Err(PortalError::InUse);
        }
        while let Some(header) = self.nic.match_queue().first_header(index) {
            self.nic.lists().drop_header(header);
        }
        if entry.disabled_event != 0 {
            if let Some(queue) = self.nic.signals.queue(entry.queue) {
                queue.disabled_events.store(queue.disabled_events.load(Relaxed).saturating_sub(1), Release);
            }
        }
        // Requests that are still under way to it belong to an old epoch.
        self.nic.tables.portals[index as usize] =
            PortalEntry { disabled: entry.disabled.wrapping_add(1), ..PortalEntry::EMPTY };
        Ok(())
    }

    /// Enables or disables a portal table entry.
    pub fn set(self, index: u32, enabled: bool) -> Result<(), PortalError> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.portal_table().set(index, enabled),
                |done| Some(Transition::PortalSet { portal: index, is_enabled: enabled, is_done: done.is_ok() }),
            );
        }
        self.nic.portal(index)?;
        if !enabled {
            self.nic.grants().revoke_at_portal(index)?;
        }
        let entry = &mut self.nic.tables.portals[index as usize];
        match enabled {
            true => entry.status = portal::ENABLED,
            false => entry.disable(),
        }
        Ok(())
    }
}
