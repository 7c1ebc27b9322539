// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `libselvedge_mpi_preload.so`: a library that is loaded before the C library in the ranks of a stock MPI.
//!
//! `selvedge mpirun` and `selvedge env` load it (`LD_PRELOAD`). An unchanged program then starts and communicates
//! faster, with unchanged results:
//!
//! | file | subject | turned off by |
//! |---|---|---|
//! | [`malloc`] | large blocks are shared memory, which peers map | `SELVEDGE_SHARED_MALLOC=0` |
//! | [`pool`], [`blocks`] | the pages of those blocks | |
//! | [`data`] | the program's static data are shared memory, too | `SELVEDGE_SHARED_MALLOC=0` |
//! | [`huge`] | the bytes worth sharing if only private memory has huge pages | |
//! | [`mappings`] | what the program maps over them is private memory, for peers, too | |
//! | [`advice`] | `madvise` treats them as private memory | |
//! | [`altered`], [`ranges`] | the pages to which the program has done so | |
//! | [`fork`] | a forked child gets private copies of both | |
//! | [`yields`] | most calls of `sched_yield` skip the kernel, if every rank has a core | `SELVEDGE_YIELD_EVERY=1` |
//! | [`kallsyms`] | hides `/proc/kallsyms`, which libfabric reads at every start | |
//! | [`system`] | the allocator behind this library: the C library's, or another one | |
//! | [`early`] | memory for the search for it | |
//! | `process` | environment and `errno` | |
//!
//! Not handled: a child made by the bare system call `clone`, which shares its parent's large blocks and static data.

mod advice;
mod altered;
mod blocks;
mod data;
mod early;
mod fork;
mod huge;
mod kallsyms;
mod malloc;
mod mappings;
mod pool;
mod process;
mod ranges;
mod system;
mod yields;

use std::ffi::CStr;
use std::sync::Once;

use selvedge_os::shared::{RANGES_MAX, SharedRange};

use process::{inform, is_sharing_wanted, keeping_errno};

/// This library's own memory comes from the allocator behind it, unshared.
#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: system::Allocator = system::Allocator;

/// The loader calls this before `main`, after it has relocated the program.
#[cfg_attr(not(test), used, unsafe(link_section = ".init_array"))]
#[cfg_attr(test, allow(dead_code))]
static BEFORE_MAIN: extern "C" fn() = before_main;

extern "C" fn before_main() {
    keeping_errno(|| {
        system::decide();
        mappings::find_next();
        process::keep_sanitizer_from_children();
        // SAFETY: the loader runs this before the program has threads.
        unsafe { selvedge_settings::report::report_in_rank() };
        if is_sharing_wanted() && data::share() {
            fork::install();
        }
    });
}

/// Reports the memory of this process that is in files: writes up to `room` ranges.
///
/// # Safety
/// `ranges` points to room for `room` ranges.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn selvedge_shared_memory(ranges: *mut SharedRange, room: usize) {
    keeping_errno(|| match other_allocator() {
        Some(name) => report_other_allocator(name),
        None => malloc::begin(),
    });
    let found: [Option<SharedRange>; RANGES_MAX] = [pool::POOL.shared(), data::shared()];
    for (at, range) in found.into_iter().flatten().take(room).enumerate() {
        // SAFETY: `at` is less than `room`, and this function requires room for that many ranges.
        unsafe { ranges.add(at).write(range) };
    }
}

/// The name of the object that has the program's `malloc`, if that is another allocator. If it comes before this library,
/// no large block has been requested here, though MPI has started.
fn other_allocator() -> Option<&'static CStr> {
    system::other().or_else(|| system::before().filter(|_| !pool::POOL.was_requested()))
}

/// Says once, at level `info`, that another allocator has the program's blocks.
fn report_other_allocator(name: &CStr) {
    static SAID: Once = Once::new();
    if is_sharing_wanted() {
        SAID.call_once(|| inform(&[b"blocks of malloc are not shared: ", name.to_bytes(), b" allocates them"]));
    }
}
