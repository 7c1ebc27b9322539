// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What all objects have in common: libfabric's head, how a C pointer becomes an object again, and the functions that
//! an object does not offer.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

use crate::constants::ENOSYS;
use crate::ffi::{fi_ops, fid};

/// The head of an object.
pub fn head(class: u32, context: *mut c_void, ops: &'static fi_ops) -> fid {
    fid { fclass: class as usize, context, ops: ptr::from_ref(ops).cast_mut() }
}

/// A table of functions of the whole program's life.
#[repr(transparent)]
pub struct Ops<T>(pub T);
// SAFETY: only read.
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

unsafe extern "C" fn no_ops_open(_: *mut fid, _: *const c_char, _: u64, _: *mut *mut c_void, _: *mut c_void) -> c_int {
    -ENOSYS
}

/// The entries of a table that newer headers of libfabric have and this provider does not: none.
pub const fn rest<T: Copy>() -> T {
    // SAFETY: only for libfabric's tables: a size and pointers to functions, for which all zeroes are "none".
    unsafe { std::mem::zeroed() }
}

/// Between looks of a wait: first nothing, then the core is given away, then short sleeps.
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

/// How many objects depend on one, which is not closed before.
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
