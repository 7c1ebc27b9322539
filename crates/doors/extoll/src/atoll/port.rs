// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ports and connections.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::sync::atomic::AtomicU64;

use crate::atoll::channels::HostPort;
use crate::atoll::channels::receive::Asked;

use super::codes::{Code, Outcome, value};
use super::descriptors::Descriptor;
use crate::marked::Marked;

/// `ATOLL_ANY`.
const ANY: u32 = u32::MAX;

/// What an `Atoll_Port` points to. One thread at a time uses it, as `atoll.h` demands.
#[repr(C)]
pub struct Port {
    mark: AtomicU64,
    /// None: it is closed.
    host_port: UnsafeCell<Option<HostPort>>,
    /// All that the port has made, and those of no message.
    pub(super) descriptors: RefCell<Vec<&'static Descriptor>>,
    pub(super) spare: RefCell<Vec<&'static Descriptor>>,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl Marked for Port {
    const ALIVE: u64 = u64::from_ne_bytes(*b"atollprt");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Port {
    /// The open port behind a pointer.
    ///
    /// # Safety
    /// The pointer is NULL or from `atoll_open`.
    #[inline]
    pub unsafe fn get(port: *const c_void) -> Outcome<&'static Port> {
        // SAFETY: the caller's.
        unsafe { Port::from_c(port) }.ok_or(Code::Port)
    }

    /// # Safety
    /// The calling thread is the one that uses the port, and has no other reference from here.
    #[allow(clippy::mut_from_ref)]
    #[inline]
    pub unsafe fn host_port(&self) -> Outcome<&mut HostPort> {
        // SAFETY: the caller's.
        unsafe { &mut *self.host_port.get() }.as_mut().ok_or(Code::Port)
    }

    /// Both at once.
    ///
    /// # Safety
    /// As [`Port::get`] and [`Port::host_port`].
    #[inline]
    pub unsafe fn of(port: *const c_void) -> Outcome<&'static mut HostPort> {
        // SAFETY: the caller's.
        unsafe { Port::get(port)?.host_port() }
    }
}

/// The id of a host port, as `ATOLL_ID` makes it.
#[inline]
pub fn packed(node: u16, number: u8) -> u32 {
    u32::from(number) << 16 | u32::from(node)
}

/// The node and the host port of an id.
fn unpacked(id: u32) -> Outcome<(u16, u8)> {
    Ok((id as u16, u8::try_from(id >> 16).map_err(|_| Code::Id)?))
}

/// The messages that a receive from this id asks for.
pub fn asked(port: &HostPort, from: u32) -> Outcome<Asked> {
    if from == ANY {
        return Ok(Asked::Any);
    }
    let (node, number) = unpacked(from)?;
    if node >= port.nodes() {
        return Err(Code::Id);
    }
    port.asked_from(node, number).ok_or(Code::Id)
}

/// Opens a host port, and gives it to C.
pub fn open(number: Option<u32>) -> Outcome<*mut Port> {
    let host_port = UnsafeCell::new(Some(HostPort::open(number)?));
    let mark = AtomicU64::new(0);
    Ok(Port { mark, host_port, descriptors: RefCell::default(), spare: RefCell::default() }.hand_out())
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
        if !port.end() {
            return Err(Code::Port);
        }
        port.descriptors.borrow().iter().for_each(|descriptor| descriptor.close());
        // SAFETY: this thread uses the port, and the mark that has just ended is what others need to get here.
        let host_port = unsafe { &mut *port.host_port.get() }.take().ok_or(Code::Port)?;
        Ok(host_port.close()?)
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
        let (node, number) = unpacked(peer)?;
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
