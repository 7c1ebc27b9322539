// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Copies of memory by the program and its libraries. A rank that copies between two polls works and does not wait:
//! MPICH moves a long message to its own rank piece by piece, one piece between two polls. The pause after an
//! unsuccessful poll must not grow meanwhile. Copies themselves take no virtual time, like all computing of a rank.

use std::ffi::c_void;

use selvedge_sim_protocol::RankEnd;

use crate::real::next;

/// Shorter copies are not recorded: loops that only wait make them, too.
const NOTED_BYTES: usize = 1024;

/// `memmove` also serves `memcpy`, because programs linked with an old C library may copy overlapping memory by it.
#[inline(always)]
fn copy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    if bytes >= NOTED_BYTES {
        if let Some(end) = RankEnd::if_attached() {
            end.has_worked();
        }
    }
    next!(memmove(to, from, bytes): fn(*mut c_void, *const c_void, usize) -> *mut c_void)
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    copy(to, from, bytes)
}

#[unsafe(no_mangle)]
pub extern "C-unwind" fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    copy(to, from, bytes)
}
