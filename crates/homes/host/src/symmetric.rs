// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory with the same layout in every process of a job: the program's static data, then a heap (OpenSHMEM, "Memory
//! Model").
//!
//! Each process has one file, `<ospid>.1.arena`. Its first pages are the program's static data. These are copied into
//! the file, and the file is mapped over them. So peers reach a variable of the program in the same way as the heap. An
//! object has the same offset in each process's file; addresses may differ.
//!
//! Invariants
//! 1. Committed memory is backed: touching it never fails for lack of space. It only grows.
//! 2. Static data keep their addresses and contents ([`selvedge_os::program`]), and redzones of a sanitizer stay.
//!
//! Costs: address space for the reserve; the committed memory. Adopting copies the static data once.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};

use crate::endpoint::arena_path;
use crate::interface::ArenaRange;
use selvedge_os::children::{FileName, SharedMapping};
use selvedge_os::mapping::{MapError, Mapping};
use selvedge_os::program::keep_private_in_children;
use selvedge_os::{raw, sanitizer};

/// The number of this file among the arena files of a process.
const NUMBER: u32 = 1;

/// Reasons for which static data stay in place, where peers reach them only by cross-memory attach.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error(transparent)]
    Map(#[from] MapError),
    #[error("cannot map the program's static data from a file: {0}")]
    System(#[from] std::io::Error),
    #[error("other threads already run, and might write to static data while they are moved")]
    Threads,
}

pub struct Symmetric {
    mapping: Mapping,
    path: PathBuf,
    committed: AtomicU64,
}

impl Symmetric {
    /// The memory begins at a multiple of this in every process, so an offset with an alignment up to this gives an
    /// aligned address. (If the address space is limited, it begins at any page.)
    pub const ALIGN_MAX: u64 = 1 << 30;

    /// Makes the file in a job's directory, with room to grow to `reserved` bytes.
    pub fn create(directory: &Path, reserved: u64) -> Result<Symmetric, MapError> {
        let path = arena_path(directory, std::process::id(), NUMBER);
        let _ = std::fs::remove_file(&path);
        let mapping = Mapping::create_aligned(&path, 0, reserved, Symmetric::ALIGN_MAX)?;
        Ok(Symmetric { mapping, path, committed: AtomicU64::new(0) })
    }

    /// Makes sure that the first `bytes` exist. After an error nothing has changed.
    pub fn commit(&self, bytes: u64) -> Result<(), MapError> {
        if bytes > self.committed() {
            self.mapping.grow(bytes)?;
            let before = self.committed.fetch_max(bytes, Release);
            let more = bytes.saturating_sub(before) as usize;
            sanitizer::has_pointers(self.mapping.base().wrapping_add(before as usize), more);
        }
        Ok(())
    }

    /// Returns the number of committed bytes.
    #[inline(always)]
    pub fn committed(&self) -> u64 {
        self.committed.load(Acquire)
    }

    /// Returns the start of the memory in this process.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Returns the memory's range, for publication to peers.
    pub fn range(&self) -> ArenaRange {
        let (base, reserved) = (self.mapping.base() as u64, self.mapping.reserved());
        ArenaRange { number: NUMBER, base, reserved, bytes: self.committed() }
    }

    /// Moves the program's static data into the file's first pages, which are committed and not used yet.
    pub fn adopt(&self, pages: Range<u64>) -> Result<(), AdoptError> {
        if selvedge_os::program::thread_count() != 1 {
            return Err(AdoptError::Threads);
        }
        let bytes = (pages.end - pages.start) as usize;
        debug_assert!(bytes as u64 <= self.committed());
        let file = FileName::mapped_at(self.mapping.base() as u64)?;
        let moved = SharedMapping { start: pages.start, bytes: bytes as u64, file };
        self.mapping.with_file(|file| {
            keep_private_in_children(moved, file).map_err(|error| MapError::Io { path: self.path.clone(), error })
        })?;
        // SAFETY: copies the program's own readable pages into pages of our mapping, which no other code knows yet.
        unsafe { raw::copy(pages.start as *const u8, self.mapping.base(), bytes) };
        // SAFETY: the file holds the same bytes, so the contents at these addresses stay the same. No other thread
        // runs.
        unsafe { self.mapping.map_over(pages.start as *mut u8, bytes) }?;
        Ok(())
    }

    /// Removes the file's name. Processes that have mapped it keep the mapping.
    pub fn forget(&self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
