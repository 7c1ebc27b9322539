// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Utilities: free resources of a port, watermarks, ids, neighbours.

use std::ffi::c_void;

use crate::atoll::channels::Watermarks;

use super::codes::{Code, Outcome, value};
use super::descriptors::NO_ID;
use super::objects::Port;
use super::port::pack_id;

/// `Atoll_Resources`.
#[repr(C)]
pub struct UserResources {
    build_bytes: usize,
    build_bytes_max: usize,
    mtu_bytes: usize,
    pieces: u32,
    connections: u32,
    peers: u32,
    messages: u32,
}

const _: () = assert!(size_of::<UserResources>() == 40);

/// Stores a value for C.
///
/// # Safety
/// The pointer has room for it, or is NULL.
unsafe fn store<T>(to: *mut T, value: T) -> Outcome {
    if to.is_null() {
        return Err(Code::Pointer);
    }
    // SAFETY: not null; the caller says that it has room.
    unsafe { to.write(value) };
    Ok(())
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_resources(port: *const c_void, resources: *mut UserResources) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port) }.and_then(|port| {
        let has = port.resources();
        let found = UserResources {
            build_bytes: has.build_bytes as usize,
            build_bytes_max: has.build_bytes_max as usize,
            mtu_bytes: has.piece_bytes as usize,
            pieces: has.credits,
            connections: has.connections,
            peers: has.channels,
            messages: has.messages,
        };
        // SAFETY: the caller's.
        unsafe { store(resources, found) }
    }))
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_set_watermarks(port: *const c_void, send: u32, receive: u32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port) }.map(|port| port.set_watermarks(Watermarks { send, receive })))
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_watermarks(port: *const c_void, send: *mut u32, receive: *mut u32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port) }.and_then(|port| {
        let found = port.watermarks();
        // SAFETY: the caller's.
        unsafe { store(send, found.send).and_then(|()| store(receive, found.receive)) }
    }))
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_id(port: *const c_void, id: *mut u32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port).and_then(|port| store(id, pack_id(port.node(), port.number()))) })
}

/// # Safety
/// As `atoll.h` says: the pointers are valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_node_num(port: *const c_void, nodes: *mut u32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port).and_then(|port| store(nodes, port.nodes().into())) })
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL; there is room for four ids.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_get_neighbours(port: *const c_void, neighbours: *mut u32) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port) }.and_then(|port| {
        let found = port.neighbours().map(|node| node.map_or(NO_ID, |node| pack_id(node, 0)));
        // SAFETY: the caller's.
        unsafe { store(neighbours.cast(), found) }
    }))
}

/// # Safety
/// As `atoll.h` says: the port is valid or NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn atoll_poll(port: *const c_void) -> i32 {
    // SAFETY: the caller's.
    value(unsafe { Port::of(port) }.and_then(|port| if port.has_message() { Ok(()) } else { Err(Code::NoMessage) }))
}
