// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The symmetric heap and the program's static data (OpenSHMEM 1.6, "Memory Management Routines", "Memory Model").
//!
//! ```text
//! offset 0         static data, whole pages      (mapped where the program has them, too)
//!                  the library's own region      (areas of teams, references of counters)
//!        heap_at   the program's heap, SHMEM_SYMMETRIC_SIZE bytes
//! ```
//!
//! Invariants
//! 1. The routines are collective, and every PE makes the same calls. So the lists of free and used blocks are the same
//!    at every PE, and an object has the same offset everywhere: `Extents` depends on the calls only.
//! 2. Memory is committed when it is first used. A PE whose machine has no room reports that before any PE has the
//!    address; then all PEs return null.
//! 3. Every block starts on a cache line, so words of two blocks never share one.
//!
//! Costs: O(log n) in the number of free blocks, and a barrier; less than 64 bytes of waste a block.

use std::collections::BTreeMap;
use std::ffi::{c_long, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{MutexGuard, PoisonError};

use selvedge_transport::settings::parse_symmetric_size;
use selvedge_transport::{Extents, StaticData, Symmetric, static_data};

use crate::remote::{COUNTER_TABLE, set_library_offset};
use crate::world::page_bytes;
use crate::{Call, World, check, collective, order, world};

/// The unit of allocation.
const BLOCK_BYTES: u64 = 64;
/// The size of the heap where `SHMEM_SYMMETRIC_SIZE` is not set.
const DEFAULT_BYTES: u64 = 512 << 20;
/// The most bytes that are committed before they are needed.
const AHEAD_BYTES_MAX: u64 = 8 << 20;

/// The layout of the symmetric memory.
pub(crate) struct Layout {
    pub data: StaticData,
    pub heap_at: u64,
    pub heap_bytes: u64,
}

impl Layout {
    /// The layout for the settings in the environment and for the program that runs.
    pub fn plan(counters: u32) -> Result<Layout, String> {
        let data = static_data().unwrap_or_default();
        let heap_bytes = match check::variable("SYMMETRIC_SIZE") {
            None => DEFAULT_BYTES,
            Some(text) => parse_symmetric_size(&text).ok_or_else(|| {
                format!("SHMEM_SYMMETRIC_SIZE={text}: wanted a number of bytes, optionally with K, M, G or T after it")
            })?,
        };
        let page = page_bytes() as u64;
        let library_at = data.pages.end - data.pages.start;
        set_library_offset(library_at);
        let heap_at = (library_at + COUNTER_TABLE + u64::from(counters) * 8).next_multiple_of(page);
        let heap_bytes = heap_bytes.checked_next_multiple_of(BLOCK_BYTES).filter(|bytes| *bytes < 1 << 46);
        let heap_bytes = heap_bytes.ok_or("SHMEM_SYMMETRIC_SIZE: more than an address space holds")?;
        Ok(Layout { data, heap_at, heap_bytes })
    }

    pub fn reserved(&self) -> u64 {
        (self.heap_at + self.heap_bytes).next_multiple_of(page_bytes() as u64)
    }

    /// Moves the static data to memory that peers map, if this program links the library itself. Another program (an
    /// interpreter that loads the library) has no symmetric variables.
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

/// The used and the free blocks of the heap.
pub(crate) struct Heap {
    free: Extents,
    /// The first block and the number of blocks of each allocation.
    used: BTreeMap<u64, u64>,
    heap_at: u64,
}

impl Heap {
    pub fn new(heap_at: u64, heap_bytes: u64) -> Heap {
        let mut free = Extents::default();
        if heap_bytes != 0 {
            free.give(0, heap_bytes / BLOCK_BYTES);
        }
        Heap { free, used: BTreeMap::new(), heap_at }
    }

    /// Allocates a run of blocks whose start is a multiple of `align` bytes. Returns its first block.
    fn take(&mut self, bytes: u64, align: u64) -> Option<u64> {
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        // A run that is longer by the alignment holds an aligned one. Its ends are given back.
        let slack = align.saturating_sub(BLOCK_BYTES).div_ceil(BLOCK_BYTES);
        let run = self.free.take(blocks.checked_add(slack)?)?;
        let start = (self.heap_at + run * BLOCK_BYTES).next_multiple_of(align) - self.heap_at;
        let first = start / BLOCK_BYTES;
        if first > run {
            self.free.give(run, first - run);
        }
        let (end, taken) = (run + blocks + slack, first + blocks);
        if end > taken {
            self.free.give(taken, end - taken);
        }
        self.used.insert(first, blocks);
        Some(first)
    }

    fn give(&mut self, first: u64) {
        if let Some(blocks) = self.used.remove(&first) {
            self.free.give(first, blocks);
        }
    }

    /// Changes the length of an allocation without moving it.
    fn resize(&mut self, first: u64, bytes: u64) -> bool {
        let Some(&held) = self.used.get(&first) else { return false };
        let wanted = bytes.div_ceil(BLOCK_BYTES).max(1);
        if wanted < held {
            self.free.give(first + wanted, held - wanted);
        } else if wanted > held && !self.free.take_at(first + held, wanted - held) {
            return false;
        }
        self.used.insert(first, wanted);
        true
    }

    /// Bytes of the heap up to the end of an allocation.
    fn end_bytes(&self, first: u64) -> u64 {
        (first + self.used.get(&first).copied().unwrap_or(0)) * BLOCK_BYTES
    }
}

impl World {
    fn heap(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn address_of(&self, first: u64) -> *mut c_void {
        (self.heap_start + (first * BLOCK_BYTES) as usize) as *mut c_void
    }

    /// The first block of the allocation at an address. None: it has been reported.
    fn block_at(&self, call: Call, address: *mut c_void) -> Option<u64> {
        let offset = (address as usize).wrapping_sub(self.heap_start) as u64;
        let first = offset / BLOCK_BYTES;
        let known = offset % BLOCK_BYTES == 0 && self.heap().used.contains_key(&first);
        if !known {
            check::refuse(call, "ptr", format_args!("{address:p}: not allocated from the symmetric heap"));
        }
        known.then_some(first)
    }

    /// Commits the heap up to the end of an allocation, here and at every PE; collective. True if all PEs could.
    fn commit_everywhere(&self, end_bytes: Option<u64>) -> bool {
        let target = end_bytes.map(|end| self.commit_target(end));
        let here = target.is_some_and(|target| self.commit(target));
        let everywhere = collective::and_across_pes(self, u64::from(here)) == 1;
        if let (true, Some(target)) = (everywhere, target) {
            let bytes = target.saturating_sub((self.heap_start - self.root) as u64) as usize;
            let bytes = bytes.max(self.heap_bytes.load(Relaxed));
            self.heap_has_grown(bytes);
        }
        everywhere
    }

    /// The offset up to which to commit so that the heap exists up to here, and some ahead. It is the same at every PE.
    fn commit_target(&self, end_bytes: u64) -> u64 {
        let (at, most) = ((self.heap_start - self.root) as u64, self.symmetric.range().reserved);
        if end_bytes <= self.heap_bytes.load(Relaxed) as u64 {
            return at + self.heap_bytes.load(Relaxed) as u64;
        }
        let ahead = (end_bytes / 2).min(AHEAD_BYTES_MAX);
        (at + end_bytes + ahead).next_multiple_of(page_bytes() as u64).min(most)
    }

    fn commit(&self, target: u64) -> bool {
        match self.symmetric.commit(target) {
            Ok(()) => {
                self.interface.tell_arena(self.symmetric.range());
                true
            }
            Err(error) => {
                check::report(format_args!("the symmetric heap cannot grow: {error}"));
                false
            }
        }
    }

    /// Allocates at every PE, or at none.
    fn allocate(&self, bytes: usize, align: usize) -> *mut c_void {
        // The memory of a PE whose address space is crowded may begin anywhere. Then no PE gets such a block.
        let first = match self.root % align {
            0 => self.heap().take(bytes as u64, (align as u64).max(BLOCK_BYTES)),
            _ => None,
        };
        let end = first.map(|first| self.heap().end_bytes(first));
        match (self.commit_everywhere(end), first) {
            (true, Some(first)) => self.address_of(first),
            (_, Some(first)) => {
                self.heap().give(first);
                null_mut()
            }
            (_, None) => null_mut(),
        }
    }
}

pub fn malloc(call: Call, size: usize) -> *mut c_void {
    align(call, BLOCK_BYTES as usize, size)
}

/// The hints say how the memory is used. All memory here is fit for all uses.
pub fn malloc_with_hints(call: Call, size: usize, hints: c_long) -> *mut c_void {
    if hints & !HINTS != 0 {
        check::refuse(call, "hints", format_args!("{hints:#x}: unknown bits (ignored)"));
    }
    malloc(call, size)
}

/// All hints of the standard.
const HINTS: c_long = 3;

pub fn calloc(call: Call, count: usize, size: usize) -> *mut c_void {
    let Some(world) = world(call) else { return null_mut() };
    let Some(bytes) = count.checked_mul(size) else {
        check::refuse(call, "count", format_args!("{count} times {size} bytes: more than an address space holds"));
        return null_mut();
    };
    if bytes == 0 {
        return null_mut();
    }
    order::quiet_all(world);
    let memory = world.allocate(bytes, BLOCK_BYTES as usize);
    if !memory.is_null() {
        // SAFETY: `allocate` has just committed `bytes` there, and no PE has the address before the barrier below.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        collective::barrier_all(call);
    }
    memory
}

pub fn align(call: Call, alignment: usize, size: usize) -> *mut c_void {
    let Some(world) = world(call) else { return null_mut() };
    if !alignment.is_power_of_two() {
        check::refuse(call, "alignment", format_args!("{alignment}: wanted a power of two"));
        return null_mut();
    }
    if size == 0 {
        return null_mut();
    }
    if alignment as u64 > Symmetric::ALIGN_MAX {
        check::refuse(call, "alignment", format_args!("{alignment}: more than the symmetric memory itself has"));
        return null_mut();
    }
    order::quiet_all(world);
    world.allocate(size, alignment)
}

pub fn realloc(call: Call, ptr: *mut c_void, size: usize) -> *mut c_void {
    let Some(world) = world(call) else { return null_mut() };
    if ptr.is_null() {
        return malloc(call, size);
    }
    if size == 0 {
        free(call, ptr);
        return null_mut();
    }
    let Some(first) = world.block_at(call, ptr) else { return null_mut() };
    collective::barrier_all(call);
    let held = world.heap().end_bytes(first) - first * BLOCK_BYTES;
    if world.heap().resize(first, size as u64) {
        let end = world.heap().end_bytes(first);
        if world.commit_everywhere(Some(end)) {
            return ptr;
        }
        world.heap().resize(first, held);
        return null_mut();
    }
    let moved = world.allocate(size, BLOCK_BYTES as usize);
    if !moved.is_null() {
        // SAFETY: two different allocations of this PE, each of as many bytes.
        unsafe { ptr.cast::<u8>().copy_to_nonoverlapping(moved.cast(), (held as usize).min(size)) };
        world.heap().give(first);
        collective::barrier_all(call);
    }
    moved
}

pub fn free(call: Call, ptr: *mut c_void) {
    let Some(world) = world(call) else { return };
    if ptr.is_null() {
        return;
    }
    let Some(first) = world.block_at(call, ptr) else { return };
    collective::barrier_all(call);
    world.heap().give(first);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_joined_again_and_resized_in_place() {
        let mut heap = Heap::new(4096, 1 << 20);
        let a = heap.take(100, 64).expect("room");
        let b = heap.take(1, 4096).expect("room");
        assert_eq!((4096 + b * BLOCK_BYTES) % 4096, 0);
        assert!(heap.resize(b, 8192) && heap.resize(b, 10));
        heap.give(a);
        heap.give(b);
        assert_eq!(heap.take(1 << 20, 64), Some(0), "all of it is one run again");
        assert_eq!(heap.take(1, 64), None);
    }
}
