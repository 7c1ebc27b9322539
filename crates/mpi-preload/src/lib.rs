// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_mpi_preload.so`: what is put before the C library in the ranks of a stock MPI.
//!
//! `selvedge mpirun` and `selvedge env` do so (`LD_PRELOAD`). Both of its parts make an unchanged program communicate faster, and
//! change nothing that it can see:
//!
//! | file | what | turned off by |
//! |---|---|---|
//! | [`malloc`] | large blocks lie where peers reach them in place | `SELVEDGE_SHARED_MALLOC=0` |
//! | [`pool`], [`blocks`] | their pages | |
//! | [`data`] | the program's static data do, too | the same |
//! | [`mod@file`] | sealed files in memory, which hold both | |
//! | [`huge`] | how much is worth sharing where only private memory has huge pages | |
//! | [`fork`] | children have their memory for themselves | |
//! | [`yields`] | `sched_yield` asks the kernel now and then only, where every rank has a core | `SELVEDGE_YIELD_EVERY=1` |
//! | [`system`] | the C library's own functions | |
//!
//! Not seen: a child made by the bare system call `clone`, which shares its parent's large blocks and static data.

mod blocks;
mod data;
mod file;
mod fork;
mod huge;
mod malloc;
mod pool;
mod system;
mod yields;

use std::ffi::CStr;

use selvedge_shm::os::shared::{RANGES_MAX, SharedRange};

/// This library's own memory is none of what it shares.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: system::Allocator = system::Allocator;

/// What the environment says.
fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: the environment is read as any library's first call does; what it holds lives on.
    unsafe {
        let value = libc::getenv(name.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value).to_bytes())
    }
}

/// Whether memory is to be shared: not in simulated ranks, and where the environment says so.
fn wanted() -> bool {
    variable(c"SELVEDGE_SHARED_MALLOC") != Some(b"0") && variable(c"SELVEDGE_SIM").is_none()
}

/// The loader calls it before `main`, the program's relocations done.
#[cfg_attr(not(test), used, unsafe(link_section = ".init_array"))]
#[cfg_attr(test, allow(dead_code))]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    keeping_errno(|| {
        if wanted() && data::share() {
            fork::install();
        }
    });
}

/// Tells which memory of this process lies in files: writes up to `room` ranges.
///
/// # Safety
/// `ranges` has that room.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_shared_memory(ranges: *mut SharedRange, room: usize) {
    keeping_errno(malloc::begin);
    let found: [Option<SharedRange>; RANGES_MAX] = [malloc::POOL.shared(), data::shared()];
    for (at, range) in found.into_iter().flatten().take(room).enumerate() {
        // SAFETY: the caller's.
        unsafe { ranges.add(at).write(range) };
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
