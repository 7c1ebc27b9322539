// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions of `shmem.h` and `shmemx.h`, as C calls them.
//!
//! Each passes its name and its arguments on to the function that its row in `api/functions/` names, and does nothing
//! else. `build.rs` writes them. Here stands only what `longdouble.c` calls: C passes a `long double` by value in a way
//! that Rust has no words for, so there it becomes a pointer.
//!
//! SAFETY, of every one of them: arguments are what the caller promises, and go on as they come.

// Which of the functions behind are unsafe is their own affair.
#![allow(unused_unsafe)]

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::collective::op;
use crate::types::{Complex, LongDouble};
use crate::{
    Call, Ct, Ctx, Team, active_set, amo, collective, context, counting, info, lock, order, rma, signal, symmetric,
    team, wait, world,
};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// The name of a C function, which is a string literal there.
unsafe fn call(name: *const u8, bytes: usize) -> Call {
    // SAFETY: longdouble.c hands over a literal of ASCII characters and its length.
    unsafe { std::str::from_utf8_unchecked(std::slice::from_raw_parts(name, bytes)) }
}

/// `shmem_longdouble_p`
#[unsafe(no_mangle)]
unsafe extern "C" fn selvedge_longdouble_p(
    name: *const u8,
    bytes: usize,
    ctx: Ctx,
    dest: *mut LongDouble,
    value: *const LongDouble,
    pe: c_int,
) {
    unsafe { rma::p::<LongDouble>(call(name, bytes), ctx, dest, *value, pe) }
}

/// `shmem_longdouble_g`
#[unsafe(no_mangle)]
unsafe extern "C" fn selvedge_longdouble_g(
    name: *const u8,
    bytes: usize,
    ctx: Ctx,
    source: *const LongDouble,
    value: *mut LongDouble,
    pe: c_int,
) {
    unsafe { *value = rma::g::<LongDouble>(call(name, bytes), ctx, source, pe) }
}

/// `shmem_longdouble_p_ct`
#[unsafe(no_mangle)]
unsafe extern "C" fn selvedge_longdouble_p_ct(
    name: *const u8,
    bytes: usize,
    ctx: Ctx,
    ct: Ct,
    dest: *mut LongDouble,
    value: *const LongDouble,
    pe: c_int,
) {
    unsafe { counting::p::<LongDouble>(call(name, bytes), ctx, ct, dest, *value, pe) }
}
