// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sends: complete ones, and their building blocks.

use std::ffi::c_void;

use crate::atoll::channels::send::{Gather, Part};

use super::codes::{Code, Outcome, value};
use super::objects::{Content, Descriptor, Port};

/// Memory of a program, which may be NULL if its length is 0.
fn part(start: *const c_void, bytes: usize) -> Outcome<Part> {
    if start.is_null() && bytes != 0 {
        return Err(Code::Pointer);
    }
    Ok(Part { start: start.cast(), bytes: bytes as u64 })
}

/// # Safety
/// The port is valid or NULL, and both parts are readable.
#[inline]
unsafe fn send(
    port: *const c_void,
    handles: &[u32],
    (header, header_bytes): (*const c_void, usize),
    (data, data_bytes): (*const c_void, usize),
    tag: u32,
) -> Outcome {
    // SAFETY: the caller's.
    let port = unsafe { Port::of(port) }?;
    let (header, data) = (part(header, header_bytes)?, [part(data, data_bytes)?]);
    // SAFETY: the caller's.
    Ok(unsafe { port.send(handles, &Gather { header, data: &data, tag }) }?)
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL; the buffers have the given lengths.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_send(
    port: *const c_void,
    handle: u32,
    header: *const c_void,
    header_bytes: usize,
    data: *const c_void,
    data_bytes: usize,
    tag: u32,
) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { send(port, &[handle], (header, header_bytes), (data, data_bytes), tag) })
}

/// # Safety
/// As [`atoll_send`]; `handles` has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_multicast(
    port: *const c_void,
    handles: *const u32,
    count: u32,
    header: *const c_void,
    header_bytes: usize,
    data: *const c_void,
    data_bytes: usize,
    tag: u32,
) -> i32 {
    if handles.is_null() && count != 0 {
        return Code::Pointer as i32;
    }
    let handles = match count {
        0 => &[],
        // SAFETY: not null; the caller guarantees `count` entries.
        _ => unsafe { std::slice::from_raw_parts(handles, count as usize) },
    };
    // SAFETY: the caller's.
    value(unsafe { send(port, handles, (header, header_bytes), (data, data_bytes), tag) })
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_fast_send(port: *const c_void, handle: u32, operand: u32) -> i32 {
    let none = (std::ptr::null(), 0);
    // SAFETY: the caller's.
    value(unsafe { send(port, &[handle], none, none, operand) })
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_send_malloc(
    port: *const c_void,
    header_bytes: usize,
    data_bytes: usize,
    descriptor: *mut *const Descriptor,
) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let port = unsafe { Port::get(port) }?;
        if descriptor.is_null() {
            return Err(Code::Pointer);
        }
        // SAFETY: the caller's.
        let message = unsafe { port.host_port() }?.build(header_bytes as u64, data_bytes as u64)?;
        // SAFETY: not null; the caller says that it has room.
        unsafe { descriptor.write(Descriptor::hold(port, Content::Building(message))) };
        Ok(())
    })())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL; the header has the given length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_copy_h(
    port: *const c_void,
    descriptor: *const c_void,
    header: *const c_void,
    bytes: usize,
) -> i32 {
    value((|| {
        let header = part(header, bytes)?;
        // SAFETY: the caller's.
        unsafe {
            let port = Port::get(port)?;
            let message = Descriptor::of(port, descriptor)?.building()?;
            Ok(port.host_port()?.copy_header(message, header.start, header.bytes)?)
        }
    })())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL; the data have the given length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_copy(
    port: *const c_void,
    descriptor: *const c_void,
    data: *const c_void,
    bytes: usize,
) -> i32 {
    let only = libc::iovec { iov_base: data.cast_mut(), iov_len: bytes };
    // SAFETY: the caller's.
    unsafe { atoll_cpyv(port, descriptor, &only, 1) }
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL; `parts` has `count` entries, which are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_cpyv(
    port: *const c_void,
    descriptor: *const c_void,
    parts: *const libc::iovec,
    count: i32,
) -> i32 {
    value((|| {
        let count = usize::try_from(count).map_err(|_| Code::Size)?;
        if parts.is_null() && count != 0 {
            return Err(Code::Pointer);
        }
        let parts = match count {
            0 => &[],
            // SAFETY: not null; the caller guarantees `count` entries.
            _ => unsafe { std::slice::from_raw_parts(parts, count) },
        };
        // SAFETY: the caller's.
        let (port, message) = unsafe {
            let port = Port::get(port)?;
            (port, Descriptor::of(port, descriptor)?.building()?)
        };
        let mut total = 0u64;
        for one in parts {
            total = total.checked_add(part(one.iov_base, one.iov_len)?.bytes).ok_or(Code::Size)?;
        }
        if total > message.room() {
            return Err(Code::Size);
        }
        for one in parts {
            // SAFETY: the caller's.
            unsafe { port.host_port()?.copy_data(message, one.iov_base.cast_const().cast(), one.iov_len as u64)? };
        }
        Ok(())
    })())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_send_commit(port: *const c_void, descriptor: *const c_void) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        unsafe {
            let port = Port::get(port)?;
            let descriptor = Descriptor::of(port, descriptor)?;
            let message = descriptor.building()?;
            let sent = port.host_port()?.commit(message);
            if message.is_gone() {
                descriptor.take(|_| true)?;
            }
            Ok(sent?)
        }
    })())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_send_free(port: *const c_void, descriptor: *const c_void) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        unsafe {
            let port = Port::get(port)?;
            let content = Descriptor::of(port, descriptor)?.take(|content| matches!(content, Content::Building(_)))?;
            if let Content::Building(message) = content {
                port.host_port()?.abandon(message);
            }
        }
        Ok(())
    })())
}
