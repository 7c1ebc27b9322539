// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports and connections.

use std::ffi::c_void;

use crate::atoll::channels::HostPort;
use crate::atoll::channels::SourceFilter;

use super::codes::{Code, Outcome, value};
use super::objects::Port;

const ANY: u32 = u32::MAX;

/// The id of a host port, as `ATOLL_ID` makes it.
#[inline]
pub fn pack_id(node: u16, number: u8) -> u32 {
    u32::from(number) << 16 | u32::from(node)
}

fn unpack_id(id: u32) -> Outcome<(u16, u8)> {
    Ok((id as u16, u8::try_from(id >> 16).map_err(|_| Code::Id)?))
}

/// The filter of a receive from this id.
pub fn source_filter(port: &HostPort, from: u32) -> Outcome<SourceFilter> {
    if from == ANY {
        return Ok(SourceFilter::Any);
    }
    let (node, number) = unpack_id(from)?;
    if node >= port.nodes() {
        return Err(Code::Id);
    }
    port.filter_of(node, number).ok_or(Code::Id)
}

/// Opens a host port, and passes it to C.
pub fn open(number: Option<u32>) -> Outcome<*mut Port> {
    Ok(Port::hand_to_c(HostPort::open(number)?))
}

/// # Safety
/// `port` has room for a pointer, or is NULL.
unsafe fn open_to(port: *mut *mut Port, number: Option<u32>) -> i32 {
    if port.is_null() {
        return Code::Pointer as i32;
    }
    value(open(number).map(|opened| {
        // SAFETY: not null; the caller says that it has room.
        unsafe { port.write(opened) }
    }))
}

/// # Safety
/// As `atoll.h` says: `port` has room for a port, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_open(port: *mut *mut Port) -> i32 {
    // SAFETY: the caller's.
    unsafe { open_to(port, None) }
}

/// # Safety
/// As `atoll.h` says: `port` has room for a port, or is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_open_hostport(port: *mut *mut Port, number: u32) -> i32 {
    // SAFETY: the caller's.
    unsafe { open_to(port, Some(number)) }
}

/// # Safety
/// As `atoll.h` says: the port is from `atoll_open`, or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_close(port: *const c_void) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::get(port) }?;
        // SAFETY: `atoll.h` says that one thread uses the port.
        Ok(unsafe { port.close() }?.close()?)
    })())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_connect(port: *const c_void, peer: u32, handle: *mut u32) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::of(port) }?;
        if handle.is_null() {
            return Err(Code::Pointer);
        }
        let (node, number) = unpack_id(peer)?;
        let made = port.connect(node, number)?;
        // SAFETY: not null; the caller says that it has room.
        unsafe { handle.write(made) };
        Ok(())
    })())
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_disconnect(port: *const c_void, handle: u32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port) }.and_then(|port| Ok(port.disconnect(handle)?)))
}
