// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory of librma2: regions, and the cache of regions.
//!
//! Invariants
//! 1. Every region of a port is in its list, by the address of its record. A record that is not there is refused.
//! 2. A cached region stays registered when its last user gives it back, until [`CACHED_MAX`] such regions are kept; then the one
//!    that was given back first is unregistered.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;

use selvedge_process::device::Device;
use selvedge_process::nic::atu::PAGE_BYTES;

use super::codes::{Code, Outcome, value};
use super::port::Port;

/// `RMA2_Region`.
#[repr(C)]
#[derive(Debug)]
pub struct Region {
    list: [usize; 2],
    start: u64,
    nla: u64,
    count: u32,
    offset: u32,
    end: u64,
    size: usize,
    refcount: u64,
    endpoint: usize,
    parent: usize,
}

const _: () = assert!(size_of::<Region>() == 80);

/// Regions without users that stay registered.
const CACHED_MAX: usize = 64;

/// How a region is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keeping {
    /// The program's own record.
    Program,
    /// A record of the library.
    Library,
    /// A record of the library, which later calls may use again.
    Cached,
}

#[derive(Debug)]
struct Kept {
    nla: u64,
    pages: u64,
    keeping: Keeping,
}

/// The regions of a port.
#[derive(Default)]
pub struct Regions {
    kept: BTreeMap<usize, Kept>,
    /// Cached regions without users, first given back first.
    idle: VecDeque<usize>,
}

impl Regions {
    /// Frees the library's records. The device clears the tables itself.
    pub fn close(&mut self) {
        for (record, kept) in std::mem::take(&mut self.kept) {
            if kept.keeping != Keeping::Program {
                // SAFETY: `keep` got the record from `Box::into_raw`, and it is taken from the list once.
                drop(unsafe { Box::from_raw(record as *mut Region) });
            }
        }
        self.idle.clear();
    }

    /// A cached region that holds a range.
    fn cached(&mut self, start: u64, bytes: u64) -> Option<*mut Region> {
        let holds = |record: usize| {
            // SAFETY: cached records are the library's, and live until they leave the list.
            let region = unsafe { &*(record as *const Region) };
            region.start <= start && start.checked_add(bytes).is_some_and(|end| end <= region.end)
        };
        let mut cached = self.kept.iter().filter(|(_, kept)| kept.keeping == Keeping::Cached);
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

    /// The address of a byte of the registered range, `bytes` of which are used.
    pub fn nla_of(&self, offset: u64, bytes: u64) -> Outcome<u64> {
        let within = offset
            .checked_add(self.offset.into())
            .filter(|start| start.checked_add(bytes).is_some_and(|end| end <= self.size as u64));
        within.map(|start| self.nla + start).ok_or(Code::Part)
    }
}

/// Registers memory of a port.
fn register(port: &Port, address: u64, bytes: u64, keeping: Keeping, record: *mut Region) -> Outcome<*mut Region> {
    if address == 0 || bytes == 0 {
        return Err(Code::InvValue);
    }
    let mut regions = port.regions();
    if keeping == Keeping::Cached {
        if let Some(found) = regions.cached(address, bytes) {
            // SAFETY: the record is the library's, and in the list.
            unsafe { (*found).refcount += 1 };
            return Ok(found);
        }
    }
    let nla = port.device.register(port.vpid, address, bytes)?;
    let region = Region { endpoint: std::ptr::from_ref(port) as usize, ..Region::new(address, bytes, nla) };
    let pages = region.count.into();
    let record = match keeping {
        // SAFETY: the caller of `rma2_register_nomalloc` gives a record that may be written.
        Keeping::Program => unsafe {
            record.write(region);
            record
        },
        _ => Box::into_raw(Box::new(region)),
    };
    let kept = Kept { nla, pages, keeping };
    if let Some(before) = regions.kept.insert(record as usize, kept) {
        // The program has used the record for two regions; the first can no longer be named.
        let _ = port.device.unregister(port.vpid, before.nla, before.pages);
    }
    Ok(record)
}

/// Ends a region, or one use of a cached one.
fn unregister(port: &Port, record: *mut Region, keepings: &[Keeping]) -> Outcome {
    let mut regions = port.regions();
    let kept = regions.kept.get(&(record as usize)).ok_or(Code::NoTable)?;
    if !keepings.contains(&kept.keeping) {
        return Err(Code::NoTable);
    }
    if kept.keeping != Keeping::Cached {
        return drop_region(&port.device, port.vpid, &mut regions, record as usize);
    }
    // SAFETY: the record is the library's, and in the list.
    let uses = unsafe { &mut (*record).refcount };
    *uses = uses.checked_sub(1).ok_or(Code::NoTable)?;
    if *uses == 0 {
        regions.idle.push_back(record as usize);
        if regions.idle.len() > CACHED_MAX {
            if let Some(oldest) = regions.idle.pop_front() {
                drop_region(&port.device, port.vpid, &mut regions, oldest)?;
            }
        }
    }
    Ok(())
}

fn drop_region(device: &Device, vpid: u16, regions: &mut Regions, record: usize) -> Outcome {
    let Some(kept) = regions.kept.remove(&record) else { return Err(Code::NoTable) };
    let result = device.unregister(vpid, kept.nla, kept.pages);
    if kept.keeping != Keeping::Program {
        // SAFETY: `register` got the record from `Box::into_raw`, and it is taken from the list once.
        drop(unsafe { Box::from_raw(record as *mut Region) });
    }
    Ok(result?)
}

/// Registers and stores the record's address.
///
/// # Safety
/// `output` has room for a pointer, or is NULL.
unsafe fn register_to(
    port: *const c_void,
    address: u64,
    bytes: u64,
    keeping: Keeping,
    output: *mut *mut Region,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::get(port) }.and_then(|port| {
        if output.is_null() {
            return Err(Code::WrongArg);
        }
        let region = register(port, address, bytes, keeping, std::ptr::null_mut())?;
        // SAFETY: not null; the caller says that it has room.
        unsafe { output.write(region) };
        Ok(())
    }))
}

/// # Safety
/// As `rma2.h` says: `region` has room for a pointer, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_register(
    port: *const c_void,
    address: *const c_void,
    size: usize,
    region: *mut *mut Region,
) -> i32 {
    // SAFETY: the caller's.
    unsafe { register_to(port, address as u64, size as u64, Keeping::Library, region) }
}

/// # Safety
/// As `rma2.h` says: `region` has room for a pointer, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_register_cached(
    port: *const c_void,
    address: *const c_void,
    size: usize,
    region: *mut *mut Region,
) -> i32 {
    // SAFETY: the caller's.
    unsafe { register_to(port, address as u64, size as u64, Keeping::Cached, region) }
}

/// # Safety
/// As `rma2.h` says: `region` has room for a pointer, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_register_adhoc(
    port: *const c_void,
    address: *const c_void,
    region: *mut *mut Region,
) -> i32 {
    let left = PAGE_BYTES - address as u64 % PAGE_BYTES;
    // SAFETY: the caller's.
    unsafe { register_to(port, address as u64, left, Keeping::Cached, region) }
}

/// # Safety
/// As `rma2.h` says: `region` is a record that may be written, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_register_nomalloc(
    port: *const c_void,
    address: *const c_void,
    size: usize,
    region: *mut Region,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::get(port) }.and_then(|port| {
        if region.is_null() {
            return Err(Code::WrongArg);
        }
        register(port, address as u64, size as u64, Keeping::Program, region).map(|_| ())
    }))
}

/// Defines the functions that end a region.
macro_rules! endings {
    ($($name:ident: $($keeping:ident)*;)*) => {
        $(
            /// # Safety
            /// As `rma2.h` says: the pointers are valid or NULL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(port: *const c_void, region: *mut Region) -> i32 {
                // SAFETY: the caller's.
                value(unsafe { Port::get(port) }.and_then(|port| unregister(port, region, &[$(Keeping::$keeping,)*])))
            }
        )*
    };
}

endings! {
    rma2_unregister: Library;
    rma2_unregister_nofree: Program;
    rma2_unregister_cached: Cached;
    rma2_unregister_adhoc: Cached;
}

/// Stores something of a region.
///
/// # Safety
/// The pointers are valid or NULL.
unsafe fn tell<T>(region: *const Region, output: *mut T, get: impl FnOnce(&Region) -> Outcome<T>) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let region = unsafe { region.as_ref() }.ok_or(Code::WrongArg)?;
        if output.is_null() {
            return Err(Code::WrongArg);
        }
        let found = get(region)?;
        // SAFETY: not null; the caller says that it has room.
        unsafe { output.write(found) };
        Ok(())
    })())
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_nla(region: *const Region, offset: usize, nla: *mut u64) -> i32 {
    // SAFETY: the caller's.
    unsafe { tell(region, nla, |region| region.nla_of(offset as u64, 0)) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_va(region: *const Region, offset: usize, address: *mut u64) -> i32 {
    // SAFETY: the caller's.
    unsafe { tell(region, address, |region| Ok(region.nla_of(offset as u64, 0)? - region.nla + region.start)) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_size(region: *const Region, size: *mut usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { tell(region, size, |region| Ok(region.size)) }
}

/// # Safety
/// As `rma2.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rma2_get_page_count(region: *const Region, count: *mut usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { tell(region, count, |region| Ok(region.count as usize)) }
}

/// Defines the comparisons of a region with a range: the region's first address and that behind it, the range's.
macro_rules! comparisons {
    ($($name:ident: |$start:ident, $end:ident, $from:ident, $to:ident| $compare:expr;)*) => {
        $(
            /// # Safety
            /// As `rma2.h` says: the region is valid or NULL.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name(region: *const Region, start: *const c_void, size: usize) -> i32 {
                // SAFETY: the caller's.
                let Some(region) = (unsafe { region.as_ref() }) else { return 0 };
                let ($start, $end, $from) = (region.start, region.end, start as u64);
                let $to = $from.saturating_add(size as u64);
                i32::from($compare)
            }
        )*
    };
}

comparisons! {
    rma2_get_region_contained: |start, end, from, to| start <= from && to <= end;
    rma2_get_region_overlap: |start, end, from, to| start < to && from < end;
    rma2_get_region_equal: |start, end, from, to| start == from && end == to;
}
