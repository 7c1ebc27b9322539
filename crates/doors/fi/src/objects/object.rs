// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The common part of all objects: libfabric's head, use counts, and refused functions.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::constants::ENOSYS;
use crate::ffi::{fi_ops, fid};

/// The head of an object.
pub fn head(class: u32, context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: class as usize, context, ops: ptr::from_ref(ops).cast_mut() }
}

/// A table of functions that lives as long as the program.
#[repr(transparent)]
pub struct Ops<T>(pub T);

// SAFETY: the tables of libfabric hold a size and pointers to functions. They are never written later.
unsafe impl<T> Sync for Ops<T> {}

/// The object's table: how it is closed, bound, controlled.
pub const fn ops(
    close: unsafe extern "C" fn(*mut fid) -> c_int,
    bind: unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int,
    control: unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int,
) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        bind: Some(bind),
        control: Some(control),
        ops_open: Some(no_ops_open),
        tostr: None,
        ops_set: None,
    }
}

pub unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -ENOSYS
}

pub unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -ENOSYS
}

pub(crate) unsafe extern "C" fn no_ops_open(
    _: *mut fid,
    _: *const c_char,
    _: u64,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> c_int {
    -ENOSYS
}

/// Copies a text for a program, as far as there is room. Returns the text itself.
///
/// # Safety
/// `to` is null or has room for `room` characters.
pub unsafe fn give_text(text: &'static CStr, to: *mut c_char, room: usize) -> *const c_char {
    if !to.is_null() && room != 0 {
        let bytes = text.to_bytes();
        let most = bytes.len().min(room - 1);
        // SAFETY: there is room, by this function's contract.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, most);
            *to.add(most) = 0;
        }
    }
    text.as_ptr()
}

/// The unset entries of a table that newer libfabric headers have and this provider does not implement.
pub const fn rest<T: Copy>() -> T {
    // SAFETY: called for libfabric's tables only, of a size and `Option`s of functions. All zeroes are valid for both.
    unsafe { std::mem::zeroed() }
}

/// The pause between polls of a wait: first none, then a yield of the core, then short sleeps.
#[derive(Default)]
pub struct Pause(u32);

impl Pause {
    pub fn wait(&mut self) {
        self.0 = self.0.saturating_add(1);
        match self.0 {
            0..=200 => {}
            201..=2000 => std::thread::yield_now(),
            _ => std::thread::sleep(std::time::Duration::from_micros(50)),
        }
    }
}

/// The number of objects that depend on one. It cannot be closed before them.
#[derive(Default)]
pub struct Uses(AtomicU32);

impl Uses {
    pub fn add(&self) {
        self.0.fetch_add(1, SeqCst);
    }
    pub fn drop_one(&self) {
        self.0.fetch_sub(1, SeqCst);
    }
    pub fn any(&self) -> bool {
        self.0.load(SeqCst) != 0
    }
}

/// Functions of a table that the object does not offer.
#[macro_export]
macro_rules! refuse {
    ($($name:ident($($kind:ty),* $(,)?) -> $result:ty;)*) => {
        $(pub unsafe extern "C" fn $name($(_: $kind),*) -> $result { -$crate::constants::ENOSYS as $result })*
    };
}
