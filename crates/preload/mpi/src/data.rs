// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Moves the program's static data into a sealed memory file at the same addresses, for peers to map.
//!
//! Invariants
//! 1. The data are moved before `main` and before there is a second thread, so no store is lost.
//! 2. They keep their addresses and contents, and zero pages still have no memory behind them.
//! 3. A forked child gets a private copy ([`crate::fork`]).
//!
//! Not moved: static data of libraries; data of less than [`LARGE_BYTES`] in all, or too many to be worth sharing
//! ([`crate::huge`]); and data of a program linked with libsma, which puts them into its symmetric memory.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags};
use selvedge_os::children::{FileName, SharedMapping};
use selvedge_os::program::{StaticData, static_data, thread_count};
use selvedge_os::shared::{Lost, SharedRange, lost_bytes, sealed};

use crate::altered::Place;
use crate::huge::HugePages;
use crate::pool::LARGE_BYTES;

struct Data {
    file: OwnedFd,
    mapping: SharedMapping,
    lost: &'static Lost,
    /// Whether this process is a forked child of the process that made the file.
    inherited: AtomicBool,
}

static DATA: OnceLock<Data> = OnceLock::new();

/// Moves the static data. Returns false, without effect, if they are not worth sharing or cannot be moved.
pub fn share() -> bool {
    let Some(StaticData { pages, libraries, .. }) = static_data() else { return false };
    let bytes = pages.end - pages.start;
    let is_taken = libraries.iter().any(|name| name.starts_with("libsma."));
    let too_long = || bytes > HugePages::of_kernel().share_bytes_max();
    if is_taken || bytes < LARGE_BYTES as u64 || too_long() || thread_count() != 1 {
        return false;
    }
    let Some(file) = filled(pages.start, bytes) else { return false };
    let Ok(name) = FileName::of(file.as_fd()) else { return false };
    let mapping = SharedMapping { start: pages.start, bytes, file: name };
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: the kernel picks the address, so the new mapping replaces nothing.
    let last =
        unsafe { rustix::mm::mmap(ptr::null_mut(), lost_bytes() as usize, protection, MapFlags::SHARED, &file, bytes) };
    let Ok(last) = last else { return false };
    // SAFETY: the file's last page is for this record of atomics, and stays mapped.
    let lost = unsafe { &*last.cast::<Lost>() };
    // SAFETY: the mapping replaces exactly the pages of the static data, in one step of the kernel, by pages with the same
    // contents; no other thread runs that could have changed them since the copy.
    let placed = unsafe { rustix::mm::mmap(pages.start as *mut _, bytes as usize, protection, flags, &file, 0) };
    placed.is_ok() && DATA.set(Data { file, mapping, lost, inherited: AtomicBool::new(false) }).is_ok()
}

fn filled(start: u64, bytes: u64) -> Option<OwnedFd> {
    let file = sealed(c"selvedge-data", bytes + lost_bytes()).ok()?;
    // SAFETY: `static_data` found these pages mapped and readable, and no other thread runs that could change them.
    let data = unsafe { std::slice::from_raw_parts(start as *const u8, bytes as usize) };
    for (at, page) in data.chunks(rustix::param::page_size()).enumerate() {
        let offset = (at * rustix::param::page_size()) as u64;
        if page.iter().any(|byte| *byte != 0) && rustix::io::pwrite(&file, page, offset) != Ok(page.len()) {
            return None;
        }
    }
    Some(file)
}

/// The pages and their file. `None`: the data are not shared, or they are the parent's.
pub fn place() -> Option<Place> {
    let data = DATA.get().filter(|data| !data.inherited.load(Relaxed))?;
    let SharedMapping { start: base, bytes, .. } = data.mapping;
    // SAFETY: `share` has found the record there.
    Some(unsafe { Place::new(base, bytes, &raw const *data.lost as u64, data.file.as_raw_fd()) })
}

/// The range to report to peers.
pub fn shared() -> Option<SharedRange> {
    place().map(|place| place.range)
}

/// Replaces the shared data by a private copy, in a forked child. Returns false if out of memory.
pub fn make_private() -> bool {
    DATA.get().is_none_or(|data| {
        let all = data.mapping.start..data.mapping.start + data.mapping.bytes;
        // SAFETY: the pages are our mapping of the file from offset 0 on, and the forked child has only this thread.
        data.inherited.swap(true, Relaxed)
            || unsafe { data.mapping.make_private(data.file.as_fd(), std::iter::once(all)) }
    })
}
