// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory of librma2: regions, and the cache of regions.
//!
//! Invariants
//! 1. Every region of a port is in its list, by the address of its record. A record that is not there is refused.
//! 2. A cached region stays registered when its last user releases it. If more than [`CACHED_MAX`] such regions are
//!    kept, the one released first is unregistered.

use std::collections::{BTreeMap, VecDeque};

use selvedge_process::device::Device;
use selvedge_process::nic::atu::PAGE_BYTES;

use super::codes::{Code, Outcome};

/// `RMA2_Region`.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    list: [usize; 2],
    pub start: u64,
    pub nla: u64,
    pub count: u32,
    offset: u32,
    pub end: u64,
    pub size: usize,
    refcount: u64,
    endpoint: usize,
    parent: usize,
}

const _: () = assert!(size_of::<Region>() == 80);

/// Limit of the cached regions without users.
const CACHED_MAX: usize = 64;

/// The owner of a region's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// The program's own record.
    Program,
    /// A record of the library.
    Library,
    /// A record of the library, which later calls may reuse.
    Cached,
}

#[derive(Debug)]
struct Registration {
    nla: u64,
    pages: u64,
    keeping: Keeping,
}

/// The regions of a port.
#[derive(Default)]
pub struct Regions {
    registrations: BTreeMap<usize, Registration>,
    /// Cached regions without users, in the order of their release.
    idle: VecDeque<usize>,
}

impl Regions {
    /// Frees the library's records. The device clears the tables.
    pub fn close(&mut self) {
        for (record, registration) in std::mem::take(&mut self.registrations) {
            if registration.keeping != Keeping::Program {
                // SAFETY: `register` got the record from `Box::into_raw`, and it is taken from the list once.
                drop(unsafe { Box::from_raw(record as *mut Region) });
            }
        }
        self.idle.clear();
    }

    fn cached(&mut self, start: u64, bytes: u64) -> Option<*mut Region> {
        let holds = |record: usize| {
            // SAFETY: cached records are the library's, and live until they leave the list.
            let region = unsafe { &*(record as *const Region) };
            region.start <= start && start.checked_add(bytes).is_some_and(|end| end <= region.end)
        };
        let mut cached = self.registrations.iter().filter(|(_, registration)| registration.keeping == Keeping::Cached);
        let record = *cached.find(|(record, _)| holds(**record))?.0;
        self.idle.retain(|other| *other != record);
        Some(record as *mut Region)
    }
}

impl Region {
    fn new(start: u64, bytes: u64, nla: u64) -> Region {
        let first = start & !(PAGE_BYTES - 1);
        let pages = (start + bytes.max(1) - 1) / PAGE_BYTES - start / PAGE_BYTES + 1;
        Region {
            list: [0; 2],
            start: first,
            nla,
            count: pages as u32,
            offset: (start - first) as u32,
            end: first + pages * PAGE_BYTES,
            size: (pages * PAGE_BYTES) as usize,
            refcount: 1,
            endpoint: 0,
            parent: 0,
        }
    }

    /// The network logical address of a byte of the registered range, if `bytes` from there are within it.
    pub fn nla_of(&self, offset: u64, bytes: u64) -> Outcome<u64> {
        let within = offset
            .checked_add(self.offset.into())
            .filter(|start| start.checked_add(bytes).is_some_and(|end| end <= self.size as u64));
        within.map(|start| self.nla + start).ok_or(Code::Part)
    }
}

impl Regions {
    /// Registers memory of a port. `endpoint` is the port's address, for the region's record.
    ///
    /// # Safety
    /// With [`Keeping::Program`], `record` may be written.
    pub unsafe fn register(
        &mut self,
        (device, vpid, endpoint): (&Device, u16, usize),
        (address, bytes): (u64, u64),
        keeping: Keeping,
        record: *mut Region,
    ) -> Outcome<*mut Region> {
        if keeping == Keeping::Cached {
            if let Some(found) = self.cached(address, bytes) {
                // SAFETY: the record is the library's, and in the list.
                unsafe { (*found).refcount += 1 };
                return Ok(found);
            }
        }
        let nla = device.register(vpid, address, bytes)?;
        let region = Region { endpoint, ..Region::new(address, bytes, nla) };
        let pages = region.count.into();
        let record = match keeping {
            // SAFETY: by this function's contract.
            Keeping::Program => unsafe {
                record.write(region);
                record
            },
            _ => Box::into_raw(Box::new(region)),
        };
        let registration = Registration { nla, pages, keeping };
        if let Some(before) = self.registrations.insert(record as usize, registration) {
            // The program has reused the record: its earlier region is no longer reachable, so it is unregistered.
            let _ = device.unregister(vpid, before.nla, before.pages);
        }
        Ok(record)
    }

    /// Ends a region, or one use of a cached region.
    pub fn unregister(&mut self, device: &Device, vpid: u16, record: usize, keepings: &[Keeping]) -> Outcome {
        let registration = self.registrations.get(&(record)).ok_or(Code::NoTable)?;
        if !keepings.contains(&registration.keeping) {
            return Err(Code::NoTable);
        }
        if registration.keeping != Keeping::Cached {
            return self.remove(device, vpid, record);
        }
        // SAFETY: the record is the library's, and in the list.
        let uses = unsafe { &mut (*(record as *mut Region)).refcount };
        *uses = uses.checked_sub(1).ok_or(Code::NoTable)?;
        if *uses == 0 {
            self.idle.push_back(record);
            if self.idle.len() > CACHED_MAX {
                if let Some(oldest) = self.idle.pop_front() {
                    self.remove(device, vpid, oldest)?;
                }
            }
        }
        Ok(())
    }

    fn remove(&mut self, device: &Device, vpid: u16, record: usize) -> Outcome {
        let Some(registration) = self.registrations.remove(&record) else { return Err(Code::NoTable) };
        let result = device.unregister(vpid, registration.nla, registration.pages);
        if registration.keeping != Keeping::Program {
            // SAFETY: `register` got the record from `Box::into_raw`, and it is taken from the list once.
            drop(unsafe { Box::from_raw(record as *mut Region) });
        }
        Ok(result?)
    }
}
