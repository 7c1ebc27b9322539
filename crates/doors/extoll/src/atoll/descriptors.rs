// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors: messages that C holds, and the functions that read and set their fields.
//!
//! A descriptor's memory is used again for later messages of its port, and never freed. So one that has ended is refused until it is used
//! again.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Release};

use crate::atoll::channels::build::Building;
use crate::atoll::channels::receive::Received;

use super::codes::{Code, Outcome, value};
use super::port::{Port, packed};
use crate::marked::Marked;

/// `ATOLL_NO_ID`.
pub const NO_ID: u32 = 0xffff_fffe;

/// A message that C holds.
pub enum Content {
    Nothing,
    Building(Building),
    Received(Received),
}

/// What an `Atoll_Descriptor` points to.
#[repr(C)]
pub struct Descriptor {
    mark: AtomicU64,
    port: &'static Port,
    content: UnsafeCell<Content>,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl Marked for Descriptor {
    const ALIVE: u64 = u64::from_ne_bytes(*b"atolldsc");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Descriptor {
    /// Gives a message to C.
    pub fn hold(port: &'static Port, content: Content) -> *const Descriptor {
        let spare = port.spare.borrow_mut().pop();
        let Some(descriptor) = spare else {
            let made = Descriptor { mark: AtomicU64::new(0), port, content: UnsafeCell::new(content) }.hand_out();
            // SAFETY: `hand_out` never frees what it makes.
            port.descriptors.borrow_mut().push(unsafe { &*made });
            return made;
        };
        // SAFETY: it is of no message, so nobody has a reference to its content.
        unsafe { *descriptor.content.get() = content };
        descriptor.mark.store(Descriptor::here(), Release);
        descriptor
    }

    /// The descriptor behind a pointer, if its port is this one.
    ///
    /// # Safety
    /// The pointer is NULL, or a descriptor's.
    pub unsafe fn of(port: &'static Port, descriptor: *const c_void) -> Outcome<&'static Descriptor> {
        // SAFETY: the caller's.
        let found = unsafe { Descriptor::from_c(descriptor) }.ok_or(Code::Descriptor)?;
        if std::ptr::eq(found.port, port) { Ok(found) } else { Err(Code::Descriptor) }
    }

    /// # Safety
    /// The calling thread is the one that uses the port, and has no other reference from here.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn content(&self) -> &mut Content {
        // SAFETY: the caller's.
        unsafe { &mut *self.content.get() }
    }

    /// # Safety
    /// As [`Descriptor::content`].
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn building(&self) -> Outcome<&mut Building> {
        // SAFETY: the caller's.
        match unsafe { self.content() } {
            Content::Building(message) => Ok(message),
            _ => Err(Code::Descriptor),
        }
    }

    /// # Safety
    /// As [`Descriptor::content`].
    pub unsafe fn received(&self) -> Outcome<&Received> {
        // SAFETY: the caller's.
        match unsafe { self.content() } {
            Content::Received(message) => Ok(message),
            _ => Err(Code::Descriptor),
        }
    }

    /// Takes the message back from C. It must be one that `is_right` accepts.
    ///
    /// # Safety
    /// As [`Descriptor::content`].
    pub unsafe fn take(&'static self, is_right: impl Fn(&Content) -> bool) -> Outcome<Content> {
        // SAFETY: the caller's.
        let content = unsafe { self.content() };
        if !is_right(content) || !self.end() {
            return Err(Code::Descriptor);
        }
        self.port.spare.borrow_mut().push(self);
        Ok(std::mem::replace(content, Content::Nothing))
    }

    /// Its port is closed.
    pub fn close(&self) {
        self.end();
        // SAFETY: the thread that closes the port is the one that uses it.
        unsafe { *self.content() = Content::Nothing };
    }
}

/// Reads a field of a message. `none` is what a descriptor of no message gives.
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
    let own = packed(port.node(), port.number());
    let of_received = |message: &Received| packed(message.source().node, port.number_of(message.source()));
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
