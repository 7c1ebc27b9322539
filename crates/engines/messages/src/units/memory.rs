// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory of a transport: the program's, during a transfer, and the transport's own blocks.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use selvedge_nic::atu::{PAGE_BYTES, Rights};
use selvedge_nic::tables::PAGES;

use selvedge_process::device::{Device, DeviceError};

/// Pages of this process that the RMA unit can reach until this record is dropped.
pub struct Registered {
    device: Arc<Device>,
    vpid: u16,
    /// The first page: its address, and its network logical address.
    start: u64,
    nla: u64,
    pages: u64,
    is_writable: bool,
}

impl Registered {
    /// Registers the pages that hold this memory, for a port of this process.
    pub fn new(device: &Arc<Device>, vpid: u16, start: u64, bytes: u64) -> Result<Registered, DeviceError> {
        Registered::with_rights(device, vpid, (start, bytes), device.rights_to(start, bytes))
    }

    /// As [`Registered::new`], with these rights.
    pub fn with_rights(
        device: &Arc<Device>,
        vpid: u16,
        (start, bytes): (u64, u64),
        rights: Rights,
    ) -> Result<Registered, DeviceError> {
        let offset = start % PAGE_BYTES;
        let nla = device.register_with(vpid, start, bytes, rights)?;
        let pages = (offset + bytes.max(1)).div_ceil(PAGE_BYTES);
        let is_writable = rights == Rights::ReadWrite;
        Ok(Registered { device: device.clone(), vpid, start: start - offset, nla, pages, is_writable })
    }

    /// Ends accesses to the memory. Its network logical addresses are not reused until the record is dropped, so any
    /// access to them is refused.
    pub fn revoke(&self) {
        self.device.revoke(self.vpid, self.nla, self.pages);
    }

    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// The network logical address of one of the bytes.
    pub fn nla_of(&self, address: u64) -> u64 {
        self.nla + address.saturating_sub(self.start)
    }

    fn holds(&self, start: u64, bytes: u64) -> bool {
        let length = self.pages * PAGE_BYTES;
        start >= self.start && bytes <= length && start - self.start <= length - bytes
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Err(error) = self.device.unregister(self.vpid, self.nla, self.pages) {
            log::error!("memory at {:#x} stays registered: {error}", self.nla);
        }
    }
}

/// Largest number of registrations that are kept for later messages. The most recently used is last.
const KEPT_MAX: usize = 64;
/// The share of the address tables that they may take: one part in this number.
const KEPT_SHARE: u64 = 4;

/// The program's memory that was registered for a message and stays registered for the next message with the same
/// buffer. Entries name addresses of the process, so they stay valid when the program maps other memory there.
pub struct Registrations {
    vpid: u16,
    kept: VecDeque<Arc<Registered>>,
    pages: u64,
}

impl Registrations {
    /// Creates an empty cache for commands of this port.
    pub fn new(vpid: u16) -> Registrations {
        Registrations { vpid, kept: VecDeque::new(), pages: 0 }
    }

    /// The registration of readable memory, or of writable memory if `writes`.
    pub fn of(
        &mut self,
        device: &Arc<Device>,
        (start, bytes): (u64, u64),
        writes: bool,
    ) -> Result<Arc<Registered>, DeviceError> {
        let interface = device.interface();
        let is_mapped = match writes {
            true => interface.has_writable(start, bytes),
            false => selvedge_process::memory_is_readable(start, bytes.max(1)),
        };
        if !is_mapped {
            return Err(DeviceError::NotMapped { address: start, bytes });
        }
        let fits = |region: &Arc<Registered>| region.holds(start, bytes) && (region.is_writable || !writes);
        if let Some(at) = self.kept.iter().position(fits) {
            let found = self.kept.remove(at);
            self.kept.extend(found.clone());
            return found.ok_or(DeviceError::NotMapped { address: start, bytes });
        }
        let made = match Registered::new(device, self.vpid, start, bytes) {
            Err(DeviceError::TablesFull { .. }) => {
                self.forget_to(0);
                Registered::new(device, self.vpid, start, bytes)?
            }
            made => made?,
        };
        let made = Arc::new(made);
        self.kept.push_back(made.clone());
        self.pages += made.pages;
        let pages_max = u64::from(interface.limits().address_tables) * PAGES as u64 / KEPT_SHARE;
        self.forget_to(pages_max);
        Ok(made)
    }

    /// Drops registrations that are not in use until at most `pages_max` pages are registered.
    fn forget_to(&mut self, pages_max: u64) {
        while self.pages > pages_max || self.kept.len() > KEPT_MAX {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.pages -= oldest.pages;
        }
    }
}

/// Registered memory of this transport, zeroed at first.
pub struct Block {
    // The registration is dropped before the memory.
    registered: Registered,
    pages: Pages,
}

impl Block {
    pub fn new(device: &Arc<Device>, vpid: u16, bytes: usize) -> Result<Block, DeviceError> {
        Block::with_rights(device, vpid, bytes, Rights::ReadWrite)
    }

    /// As [`Block::new`], with these rights for others.
    pub fn with_rights(device: &Arc<Device>, vpid: u16, bytes: usize, rights: Rights) -> Result<Block, DeviceError> {
        let pages = Pages::new(bytes).ok_or(DeviceError::NotMapped { address: 0, bytes: bytes as u64 })?;
        let place = (pages.start.as_ptr() as u64, bytes as u64);
        let registered = Registered::with_rights(device, vpid, place, rights)?;
        Ok(Block { registered, pages })
    }

    pub fn start(&self) -> u64 {
        self.pages.start.as_ptr() as u64
    }

    pub fn nla(&self) -> u64 {
        self.registered.nla_of(self.start())
    }

    /// The address of a byte.
    pub fn at(&self, offset: usize) -> *mut u8 {
        self.pages.start.as_ptr().wrapping_add(offset)
    }
}

struct Pages {
    start: NonNull<u8>,
    layout: Layout,
}

impl Pages {
    fn new(bytes: usize) -> Option<Pages> {
        let layout = Layout::from_size_align(bytes.max(1), PAGE_BYTES as usize).ok()?;
        // SAFETY: the layout is not empty.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Pages { start, layout })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: `alloc_zeroed` returned this memory for this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
