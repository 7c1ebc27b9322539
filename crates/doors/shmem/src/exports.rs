// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The C functions of `shmem.h` and `shmemx.h`.
//!
//! `build.rs` generates them. Each passes its name and arguments to the Rust function in its row of `api/functions/`,
//! and, with a recording of calls, to that ([`calls`]). This file itself has the functions that `longdouble.c` calls: Rust cannot take a `long
//! double` by value, so `longdouble.c` passes a pointer.
//!
//! Safety: the contract of a C function, its clause in the standard, is that of its Rust function.

// A generated call is in an unsafe block, whether or not its Rust function is unsafe.
#![allow(unused_unsafe)]

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::calls;
use crate::check::Call;
use crate::collective::op;
use crate::handles::{Ct, Ctx, Team};
use crate::types::{Complex, LongDouble};
use crate::{
    active_set, amo, collective, context, counting, info, lock, order, query, rma, signal, start, symmetric, team, wait,
};

include!(concat!(env!("OUT_DIR"), "/exports.rs"));

/// The name of a C function, from a string literal in `longdouble.c`.
unsafe fn call(name: *const u8, bytes: usize) -> Call {
    // SAFETY: `longdouble.c` passes a literal of ASCII characters, which lives forever, and its length.
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
    // SAFETY: `longdouble.c` passes a literal's name.
    let called = unsafe { call(name, bytes) };
    let _recorded = calls::on()
        .then(|| calls::Recorded::enter(by_value(called), calls::access(ctx, pe, (size_of::<LongDouble>(), 0))));
    // SAFETY: `longdouble.c` passes a literal's name and a pointer to `value`. The rest is the C function's contract.
    unsafe { rma::p::<LongDouble>(called, ctx, dest, *value, pe) }
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
    // SAFETY: `longdouble.c` passes a literal's name.
    let called = unsafe { call(name, bytes) };
    let _recorded = calls::on()
        .then(|| calls::Recorded::enter(by_value(called), calls::access(ctx, pe, (0, size_of::<LongDouble>()))));
    // SAFETY: `longdouble.c` passes a literal's name and a pointer to `value`. The rest is the C function's contract.
    unsafe { *value = rma::g::<LongDouble>(called, ctx, source, pe) }
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
    // SAFETY: `longdouble.c` passes a literal's name.
    let called = unsafe { call(name, bytes) };
    let _recorded = calls::on()
        .then(|| calls::Recorded::enter(by_value(called), calls::access(ctx, pe, (size_of::<LongDouble>(), 0))));
    // SAFETY: `longdouble.c` passes a literal's name and a pointer to `value`. The rest is the C function's contract.
    unsafe { counting::p::<LongDouble>(called, ctx, ct, dest, *value, pe) }
}
