// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The objects that C holds: ports, and the descriptors of their messages.
//!
//! A descriptor's memory is reused for later messages of its port, and never freed. So a call recognises and refuses a
//! descriptor that has ended, until its memory is reused.
//!
//! Invariant: one thread at a time uses a port and its descriptors, as `atoll.h` demands.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Release};

use crate::atoll::channels::build::Building;
use crate::atoll::channels::{HostPort, Received};
use crate::c_object::CObject;

use super::codes::{Code, Outcome};

/// The object behind an `Atoll_Port`.
#[repr(C)]
pub struct Port {
    mark: AtomicU64,
    /// `None` once it is closed.
    host_port: UnsafeCell<Option<HostPort>>,
    /// All descriptors that the port has made, and those that hold no message.
    descriptors: RefCell<Vec<&'static Descriptor>>,
    spare: RefCell<Vec<&'static Descriptor>>,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl CObject for Port {
    const ALIVE: u64 = u64::from_ne_bytes(*b"atollprt");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Port {
    /// Passes a host port to C.
    pub fn hand_to_c(host_port: HostPort) -> *mut Port {
        let (mark, host_port) = (AtomicU64::new(0), UnsafeCell::new(Some(host_port)));
        Port { mark, host_port, descriptors: RefCell::default(), spare: RefCell::default() }.hand_out()
    }

    /// Takes the host port back from C, and closes all descriptors.
    ///
    /// # Safety
    /// The calling thread is the one that uses the port.
    pub unsafe fn close(&self) -> Outcome<HostPort> {
        if !self.end() {
            return Err(Code::Port);
        }
        self.descriptors.borrow().iter().for_each(|descriptor| descriptor.close());
        // SAFETY: this thread uses the port, and the mark that has just ended is what others need to get here.
        unsafe { &mut *self.host_port.get() }.take().ok_or(Code::Port)
    }

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

    /// Finds the open port behind a pointer, and its host port.
    ///
    /// # Safety
    /// As [`Port::get`] and [`Port::host_port`].
    #[inline]
    pub unsafe fn of(port: *const c_void) -> Outcome<&'static mut HostPort> {
        // SAFETY: the caller's.
        unsafe { Port::get(port)?.host_port() }
    }
}

/// A message that C holds.
pub enum Content {
    Nothing,
    Building(Building),
    Received(Received),
}

/// The object behind an `Atoll_Descriptor`.
#[repr(C)]
pub struct Descriptor {
    mark: AtomicU64,
    pub port: &'static Port,
    content: UnsafeCell<Content>,
}

// SAFETY: the mark is the first field of a `repr(C)` type.
unsafe impl CObject for Descriptor {
    const ALIVE: u64 = u64::from_ne_bytes(*b"atolldsc");

    fn mark(&self) -> &AtomicU64 {
        &self.mark
    }
}

impl Descriptor {
    /// Passes a message to C.
    pub fn hold(port: &'static Port, content: Content) -> *const Descriptor {
        let spare = port.spare.borrow_mut().pop();
        let Some(descriptor) = spare else {
            let made = Descriptor { mark: AtomicU64::new(0), port, content: UnsafeCell::new(content) }.hand_out();
            // SAFETY: `hand_out` never frees what it makes.
            port.descriptors.borrow_mut().push(unsafe { &*made });
            return made;
        };
        // SAFETY: it holds no message, so there is no reference to its content.
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

    /// Closes the descriptor, because its port is closed.
    pub fn close(&self) {
        self.end();
        // SAFETY: the thread that closes the port is the one that uses it.
        unsafe { *self.content() = Content::Nothing };
    }
}
