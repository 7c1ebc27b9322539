// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of the symmetric memory (OpenSHMEM 1.6, "Memory Model").
//!
//! ```text
//! offset 0         static data, whole pages      (mapped where the program has them, too)
//!                  the library's own region      (areas of teams, references of counters)
//!        heap_at   the program's heap, SHMEM_SYMMETRIC_SIZE bytes
//! ```
//!
//! Invariant: every PE of a program has the same layout. The start checks it (`start.rs`).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use selvedge_process::{StaticData, Symmetric, reserve_bytes_max, static_data};
use selvedge_settings::accepted::symmetric_size;

use crate::check;
use crate::world::address::SymOffset;
use crate::world::heap::BLOCK_BYTES;

/// Size of the heap unless `SHMEM_SYMMETRIC_SIZE` is set. This is address space; memory backs it up to the last
/// allocation only. If address space is limited, [`default_bytes`] is the size.
const DEFAULT_BYTES: u64 = 4 << 30;

/// Number of teams at once, and bytes of the library's region for each.
pub const TEAM_AREAS: usize = 64;
pub const TEAM_AREA_BYTES: u64 = 16384;
/// Offset in the library's region of the words that hold the counters' references.
const COUNTER_TABLE: u64 = TEAM_AREAS as u64 * TEAM_AREA_BYTES;

/// Offset of the library's region: after the pages of static data, whose number is the same at every PE.
static LIBRARY_AT: AtomicU64 = AtomicU64::new(0);

#[inline(always)]
fn library(offset: u64) -> SymOffset {
    SymOffset(LIBRARY_AT.load(Relaxed) + offset)
}

/// The offset of a team's area.
#[inline(always)]
pub fn team_area(id: usize) -> SymOffset {
    library(id as u64 * TEAM_AREA_BYTES)
}

/// The word that holds a counter's reference at every PE.
pub(crate) fn reference_word(index: usize) -> SymOffset {
    library(COUNTER_TABLE + index as u64 * 8)
}

pub(crate) struct Layout {
    pub data: StaticData,
    pub heap_at: u64,
    pub heap_bytes: u64,
}

impl Layout {
    /// The layout for the environment's settings and the running program. Sets the offset of the library's region, so
    /// this comes before any other use.
    pub fn plan(counters: u32, pes: usize) -> Result<Layout, String> {
        let data = static_data().unwrap_or_default();
        let heap_bytes = match check::variable("SYMMETRIC_SIZE") {
            None => default_bytes(pes),
            Some(text) => symmetric_size(&text).ok_or_else(|| {
                format!("SHMEM_SYMMETRIC_SIZE={text}: must be a number of bytes, optionally followed by K, M, G or T")
            })?,
        };
        let page = page_bytes() as u64;
        let library_at = data.pages.end - data.pages.start;
        LIBRARY_AT.store(library_at, Relaxed);
        let heap_at = (library_at + COUNTER_TABLE + u64::from(counters) * 8).next_multiple_of(page);
        let heap_bytes = heap_bytes.checked_next_multiple_of(BLOCK_BYTES).filter(|bytes| *bytes < 1 << 46);
        let heap_bytes = heap_bytes.ok_or("SHMEM_SYMMETRIC_SIZE: larger than an address space; set a smaller size")?;
        Ok(Layout { data, heap_at, heap_bytes })
    }

    pub fn reserved(&self) -> u64 {
        (self.heap_at + self.heap_bytes).next_multiple_of(page_bytes() as u64)
    }

    /// Moves the static data to memory that peers map, if the program links the library itself. Another program (such
    /// as an interpreter that loads the library) has no symmetric variables.
    pub fn adopt(&self, symmetric: &Symmetric) -> bool {
        if self.data.bytes.is_empty() {
            return true;
        }
        if !self.data.libraries.iter().any(|name| name.starts_with("libsma.")) {
            log::debug!("the program is not linked with libsma: its static data are not mapped at peers");
            return false;
        }
        let adopted = symmetric.adopt(self.data.pages.clone());
        adopted.inspect_err(|why| log::info!("static data are reached by cross-memory attach: {why}")).is_ok()
    }
}

/// Default size of the heap. If address space is limited (`ulimit -v`, which all PEs of a machine inherit), the heaps of
/// all PEs together take a quarter of it, because a PE maps those of its peers, too.
fn default_bytes(pes: usize) -> u64 {
    DEFAULT_BYTES.min(reserve_bytes_max() / (pes as u64 + 1))
}

pub(crate) fn page_bytes() -> usize {
    // SAFETY: `sysconf` takes a number and touches no memory of the program.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
