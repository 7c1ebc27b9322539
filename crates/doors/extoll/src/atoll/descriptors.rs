// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Functions that read and set the fields of descriptors.

use std::ffi::c_void;

use crate::atoll::channels::Received;
use crate::atoll::channels::build::Building;

use super::codes::{Code, Outcome, value};
use super::objects::{Content, Descriptor};
use super::port::pack_id;
use crate::c_object::CObject;

/// `ATOLL_NO_ID`.
pub const NO_ID: u32 = 0xffff_fffe;

/// Reads a field of a message. `none` is the result for a descriptor without a message.
///
/// # Safety
/// The descriptor is valid or NULL.
unsafe fn read<T>(
    descriptor: *const c_void,
    none: T,
    of_building: impl Fn(&Building) -> T,
    of_received: impl Fn(&Received) -> T,
) -> T {
    // SAFETY: the caller's.
    let Some(found) = (unsafe { Descriptor::from_c(descriptor) }) else { return none };
    // SAFETY: `atoll.h` says that one thread uses the port.
    match unsafe { found.content() } {
        Content::Nothing => none,
        Content::Building(message) => of_building(message),
        Content::Received(message) => of_received(message),
    }
}

/// Sets a field of a message under construction.
///
/// # Safety
/// The descriptor is valid or NULL.
unsafe fn change(descriptor: *const c_void, set: impl Fn(&mut Building) -> Outcome) -> i32 {
    value((|| {
        // SAFETY: the caller's.
        let found = unsafe { Descriptor::from_c(descriptor) }.ok_or(Code::Descriptor)?;
        // SAFETY: `atoll.h` says that one thread uses the port.
        set(unsafe { found.building() }?)
    })())
}

/// # Safety
/// As `atoll.h` says: the descriptor is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_tag(descriptor: *const c_void) -> u32 {
    // SAFETY: the caller's.
    unsafe { read(descriptor, 0, |message| message.tag, Received::tag) }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_header_length(descriptor: *const c_void) -> usize {
    // SAFETY: the caller's.
    unsafe { read(descriptor, 0, Building::header_bytes, Received::header_bytes) as usize }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_length(descriptor: *const c_void) -> usize {
    // SAFETY: the caller's.
    unsafe { read(descriptor, 0, Building::data_bytes, Received::data_bytes) as usize }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_handle(descriptor: *const c_void) -> u32 {
    // SAFETY: the caller's.
    unsafe { read(descriptor, 0, |message| message.handle.unwrap_or(0), |_| 0) }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_source(descriptor: *const c_void) -> u32 {
    // SAFETY: the caller's.
    let Some(found) = (unsafe { Descriptor::from_c(descriptor) }) else { return NO_ID };
    // SAFETY: `atoll.h` says that one thread uses the port.
    let Ok(port) = (unsafe { found.port.host_port() }) else { return NO_ID };
    let own = pack_id(port.node(), port.number());
    let of_received = |message: &Received| pack_id(message.source().node, port.number_of(message.source()));
    // SAFETY: the caller's.
    unsafe { read(descriptor, NO_ID, |_| own, of_received) }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set_tag(descriptor: *const c_void, tag: u32) -> i32 {
    // SAFETY: the caller's.
    unsafe {
        change(descriptor, |message| {
            message.tag = tag;
            Ok(())
        })
    }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set_header_length(descriptor: *const c_void, bytes: usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { change(descriptor, |message| Ok(message.set_lengths(bytes as u64, message.data_bytes())?)) }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set_length(descriptor: *const c_void, bytes: usize) -> i32 {
    // SAFETY: the caller's.
    unsafe { change(descriptor, |message| Ok(message.set_lengths(message.header_bytes(), bytes as u64)?)) }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set_handle(descriptor: *const c_void, handle: u32) -> i32 {
    // SAFETY: the caller's.
    let Some(found) = (unsafe { Descriptor::from_c(descriptor) }) else { return Code::Descriptor as i32 };
    // SAFETY: `atoll.h` says that one thread uses the port.
    let is_known = unsafe { found.port.host_port() }.and_then(|port| Ok(port.peer_of(handle)?));
    // SAFETY: the caller's.
    unsafe {
        change(descriptor, |message| {
            is_known?;
            message.handle = Some(handle);
            Ok(())
        })
    }
}

/// # Safety
/// As [`atoll_get_tag`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set_source(descriptor: *const c_void, source: u32) -> i32 {
    // SAFETY: the caller's.
    let own = unsafe { atoll_get_source(descriptor) };
    // SAFETY: the caller's.
    unsafe { change(descriptor, |_| if own == source { Ok(()) } else { Err(Code::Id) }) }
}
