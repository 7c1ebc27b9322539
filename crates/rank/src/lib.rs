// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_rank.so`: what is put before the C library in the ranks of a stock MPI.
//!
//! `selvedge mpirun` and `selvedge env` do so (`LD_PRELOAD`). Both of its parts make an unchanged program communicate faster, and
//! change nothing that it can see:
//!
//! | file | what | turned off by |
//! |---|---|---|
//! | [`malloc`] | large blocks lie where peers reach them in place | `SELVEDGE_SHARED_MALLOC=0` |
//! | [`pool`] | their pages: a sealed file in memory | |
//! | [`fork`] | children have their memory for themselves | |
//! | [`yields`] | `sched_yield` asks the kernel now and then only, where every rank has a core | `SELVEDGE_YIELD_EVERY=1` |
//! | [`system`] | the C library's own functions | |
//!
//! Not seen: a child made by the bare system call `clone`, which shares its parent's large blocks.

mod fork;
mod malloc;
mod pool;
mod system;
mod yields;

use std::ffi::CStr;

/// What the environment says.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the environment is read as any library's first call does; what it holds lives on.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

/// What is done on the way leaves `errno` as it was.
fn keeping_errno<T>(call: impl FnOnce() -> T) -> T {
    // SAFETY: the thread's own word.
    unsafe {
        let error = *libc::__errno_location();
        let value = call();
        *libc::__errno_location() = error;
        value
    }
}
