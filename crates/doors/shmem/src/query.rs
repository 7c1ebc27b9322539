// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Queries of the world: this PE's number, the number of PEs, and the access to their memory (OpenSHMEM 1.6, "Library
//! Setup, Exit, and Query Routines").

use std::ffi::{c_int, c_void};

use crate::check::{self, Call};
use crate::world::world;

#[inline]
pub fn my_pe(call: Call) -> c_int {
    world(call).map_or(-1, |world| world.me() as c_int)
}

#[inline]
pub fn n_pes(call: Call) -> c_int {
    world(call).map_or(-1, |world| world.n_pes() as c_int)
}

pub fn pe_accessible(call: Call, pe: c_int) -> c_int {
    world(call).map_or(0, |world| c_int::from((pe as usize) < world.n_pes()))
}

pub fn addr_accessible(call: Call, address: *const c_void, pe: c_int) -> c_int {
    let Some(world) = world(call) else { return 0 };
    c_int::from((pe as usize) < world.n_pes() && world.find(address.cast(), 1).is_some())
}

/// `shmem_ptr`: the address at which this PE may load and store an object of another PE, or null.
pub fn ptr(call: Call, dest: *const c_void, pe: c_int) -> *mut c_void {
    let Some(world) = world(call) else { return std::ptr::null_mut() };
    if pe as usize >= world.n_pes() {
        check::refuse(call, "pe", format_args!("{pe}: there are {} PEs", world.n_pes()));
        return std::ptr::null_mut();
    }
    world.pointer(dest.cast(), pe as usize).cast()
}
