// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program's static data, put into a sealed file where they are: peers reach them in place, as they reach large blocks.
//!
//! Invariants
//! 1. They are moved before `main` and before there is a second thread: nothing that is stored meanwhile is lost.
//! 2. They keep their addresses and contents, and pages that are zero have no memory behind them, as before.
//! 3. A forked child has them for itself ([`crate::fork`]).
//!
//! Not moved: those of libraries, what is less than [`LARGE_BYTES`] in all or more than is worth it ([`crate::huge`]), and those of a
//! program that names libsma, which will want them in its symmetric memory.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags};
use selvedge_shm::os::program::{StaticData, static_data, thread_count};
use selvedge_shm::os::shared::SharedRange;

use crate::file;
use crate::huge::Huge;
use crate::malloc::LARGE_BYTES;

struct Data {
    file: OwnedFd,
    start: u64,
    bytes: u64,
    /// This process is a child of the one whose file it is.
    inherited: AtomicBool,
}

static DATA: OnceLock<Data> = OnceLock::new();

/// Moves them. False: there are none that are worth it, or it cannot be, and they are as before.
pub fn share() -> bool {
    let Some(StaticData { pages, libraries, .. }) = static_data() else { return false };
    let bytes = pages.end - pages.start;
    let is_taken = libraries.iter().any(|name| name.starts_with("libsma."));
    let too_long = || bytes > file::longest().min(Huge::here().most());
    if is_taken || bytes < LARGE_BYTES as u64 || too_long() || thread_count() != 1 {
        return false;
    }
    let Some(file) = filled(pages.start, bytes) else { return false };
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
    // SAFETY: the same bytes appear at the same addresses, in one step of the kernel; no other thread runs.
    let placed = unsafe { rustix::mm::mmap(pages.start as *mut _, bytes as usize, protection, flags, &file, 0) };
    placed.is_ok() && DATA.set(Data { file, start: pages.start, bytes, inherited: AtomicBool::new(false) }).is_ok()
}

/// A file that holds what lies there.
fn filled(start: u64, bytes: u64) -> Option<OwnedFd> {
    let file = file::sealed(c"selvedge-data", bytes).ok()?;
    // SAFETY: the program's own pages, which it may read.
    let data = unsafe { std::slice::from_raw_parts(start as *const u8, bytes as usize) };
    for (at, page) in data.chunks(rustix::param::page_size()).enumerate() {
        let offset = (at * rustix::param::page_size()) as u64;
        if page.iter().any(|byte| *byte != 0) && rustix::io::pwrite(&file, page, offset) != Ok(page.len()) {
            return None;
        }
    }
    Some(file)
}

/// What peers have to know. None: they are not shared, or they are another process's.
pub fn shared() -> Option<SharedRange> {
    let data = DATA.get().filter(|data| !data.inherited.load(Relaxed))?;
    Some(SharedRange { base: data.start, bytes: data.bytes, descriptor: data.file.as_raw_fd() })
}

/// In a forked child: puts a private copy in their place. False: there is no memory for it.
pub fn make_private() -> bool {
    DATA.get().is_none_or(|data| {
        // SAFETY: the program's pages, in a child in which nothing else runs yet.
        data.inherited.swap(true, Relaxed)
            || unsafe { file::keep_private(data.file.as_fd(), 0, data.start as *mut u8, data.bytes) }
    })
}
