// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that register memory, and that read and compare regions.

use std::ffi::c_void;

use selvedge_process::nic::atu::PAGE_BYTES;

use super::codes::{Code, Outcome, value};
use super::port::Port;
use super::regions::{Keeping, Region};

/// Registers memory of a port.
///
/// # Safety
/// As [`Regions::register`](super::regions::Regions::register).
unsafe fn register(
    port: &Port,
    address: u64,
    bytes: u64,
    keeping: Keeping,
    record: *mut Region,
) -> Outcome<*mut Region> {
    if address == 0 || bytes == 0 {
        return Err(Code::InvValue);
    }
    let endpoint = std::ptr::from_ref(port) as usize;
    // SAFETY: the caller's.
    unsafe { port.regions().register((&port.device, port.vpid, endpoint), (address, bytes), keeping, record) }
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
        // SAFETY: the record is the library's.
        let region = unsafe { register(port, address, bytes, keeping, std::ptr::null_mut()) }?;
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
        // SAFETY: not null; the caller says that it may be written.
        unsafe { register(port, address as u64, size as u64, Keeping::Program, region) }.map(|_| ())
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
                value(unsafe { Port::get(port) }.and_then(|port| {
                    port.regions().unregister(&port.device, port.vpid, region as usize, &[$(Keeping::$keeping,)*])
                }))
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

/// Stores a property of a region.
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

/// Defines the comparisons of a region with a range. The operands are first address and end of each.
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
