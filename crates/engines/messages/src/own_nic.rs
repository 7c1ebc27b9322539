// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC of a transport: event queues, match entries, and counters. Operations end in [`crate::complete`].

use std::sync::Arc;

use libc::iovec;
use selvedge_host::Interface;
use selvedge_host::interface::Watch;
use selvedge_nic::NoMemory;
use selvedge_nic::portals::errors::UnlinkError;
use selvedge_nic::portals::{EntrySpec, options};

pub(crate) struct OwnNic {
    pub interface: Arc<Interface>,
    /// Event queue for incoming messages. It never overflows: senders wait instead.
    pub queue: u32,
    /// Event queue for our own operations. Its size limits their number.
    pub own_queue: u32,
    /// Watches for the next event of both queues.
    pub watches: [Watch; 2],
}

impl OwnNic {
    /// The source number that one of our endpoints puts into its requests.
    pub fn source(&self, endpoint: u16) -> u64 {
        self.interface.id() << 8 | u64::from(endpoint)
    }

    /// Whether deliveries of other processes have left an event.
    #[inline(always)]
    pub fn has_arrival_event(&self) -> bool {
        self.watches[0].has_event()
    }

    /// Whether one of the queues has an event.
    #[inline(always)]
    pub fn has_event(&self) -> bool {
        self.watches[0].has_event() || self.watches[1].has_event()
    }

    // ---- match entries ----

    /// Links a match entry. `None`: there is no room.
    pub fn append(&self, portal: u32, list: u8, spec: &EntrySpec) -> Option<u32> {
        self.interface.lock().with_revocation(|nic| nic.lists().append(&mut NoMemory, portal, list, spec)).ok()
    }

    /// Unlinks an entry of the priority list whose memory the program wants back.
    pub fn take_memory_back(&self, entry: Option<u32>) {
        let Some(entry) = entry else { return };
        let unlink = || self.interface.lock().with_revocation(|nic| nic.lists().unlink(entry));
        self.interface.retry_while_fetching(|| unlink() != Err(UnlinkError::InUse));
    }

    /// Unlinks an entry, if it is not in use.
    pub fn unlink(&self, entry: Option<u32>) {
        if let Some(entry) = entry {
            let _ = self.interface.lock().with_revocation(|nic| nic.lists().unlink(entry));
        }
    }

    /// A match entry over memory in several pieces. `None`: there is no room for an I/O vector.
    pub fn with_vector(&self, spec: EntrySpec, pieces: &[iovec]) -> Option<EntrySpec> {
        if pieces.len() < 2 {
            return Some(spec);
        }
        let (iov, iov_count) = (self.store_vector(pieces)?, pieces.len() as u32);
        Some(EntrySpec { options: spec.options | options::IOVEC, start: 0, iov, iov_count, ..spec })
    }

    /// Stores an I/O vector. `None`: there is no room.
    pub fn store_vector(&self, pieces: &[iovec]) -> Option<u32> {
        loop {
            let vectors = pieces.iter().map(|piece| (piece.iov_base as u64, piece.iov_len as u64));
            match self.interface.lock().heap().store_iov(vectors) {
                Ok(iov) => return Some(iov),
                Err(_) if self.interface.grow_heap(1) => {}
                Err(_) => return None,
            }
        }
    }
}
