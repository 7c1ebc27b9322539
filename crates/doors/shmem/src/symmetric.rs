// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routines of the symmetric heap (OpenSHMEM 1.6, "Memory Management Routines").
//!
//! A call changes the blocks of the heap (`world/heap.rs`), commits the memory, and agrees on the result with all PEs.
//!
//! Invariants
//! 1. The routines are collective, and every PE makes the same calls. So the blocks are the same at every PE, and an
//!    object has the same offset everywhere.
//! 2. Memory is committed when first used. If a PE has no room, it reports that, and all PEs return null.
//!
//! Costs: O(log n) in the number of free blocks, and a barrier.

use std::ffi::{c_long, c_void};
use std::ptr::null_mut;
use std::sync::MutexGuard;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_os::sync::IgnorePoison;
use selvedge_process::Symmetric;

use crate::check::{self, Call};
use crate::collective::reduce::reduce_and_over_pes;
use crate::collective::sync::barrier_all;
use crate::order;
use crate::world::heap::{BLOCK_BYTES, Heap};
use crate::world::layout::page_bytes;
use crate::world::{World, world};

const AHEAD_BYTES_MAX: u64 = 8 << 20;

impl World {
    fn heap(&self) -> MutexGuard<'_, Heap> {
        self.heap.lock().ignore_poison()
    }

    fn address_of(&self, first: u64) -> *mut c_void {
        (self.heap_start + (first * BLOCK_BYTES) as usize) as *mut c_void
    }

    /// The first block of the allocation at an address. `None`: it has been reported.
    fn block_at(&self, call: Call, address: *mut c_void) -> Option<u64> {
        let offset = (address as usize).wrapping_sub(self.heap_start) as u64;
        let first = offset / BLOCK_BYTES;
        let known = offset % BLOCK_BYTES == 0 && self.heap().has(first);
        if !known {
            check::refuse(call, "ptr", format_args!("{address:p}: not allocated from the symmetric heap"));
        }
        known.then_some(first)
    }

    /// Commits the heap up to the end of an allocation at every PE. Collective. Returns true if all PEs could.
    fn commit_everywhere(&self, end_bytes: Option<u64>) -> bool {
        let target = end_bytes.map(|end| self.commit_target(end));
        let here = target.is_some_and(|target| self.commit(target));
        let everywhere = reduce_and_over_pes(self, u64::from(here)) == 1;
        if let (true, Some(target)) = (everywhere, target) {
            let bytes = target.saturating_sub((self.heap_start - self.root) as u64) as usize;
            let bytes = bytes.max(self.heap_bytes.load(Relaxed));
            self.heap_has_grown(bytes);
        }
        everywhere
    }

    /// Offset up to which to commit: the end of the allocation, and some bytes ahead. The same at every PE.
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
                self.interface.publish_arena(self.symmetric.range());
                true
            }
            Err(error) => {
                check::report(format_args!("the symmetric heap cannot grow: {error}"));
                false
            }
        }
    }

    /// Reports, once for the job, that the heap has no block of this size.
    #[cold]
    fn report_no_room(&self, call: Call, bytes: usize, align: usize) {
        if self.me == 0 {
            let heap = self.symmetric.range().reserved - (self.heap_start - self.root) as u64;
            check::report(format_args!(
                "{call}: no block of {bytes} bytes, aligned to {align}, is free in the symmetric heap of {heap} bytes; \
                 SHMEM_SYMMETRIC_SIZE sets its size"
            ));
        }
    }

    /// Allocates at every PE, or at none.
    fn allocate(&self, call: Call, bytes: usize, align: usize) -> *mut c_void {
        // In a crowded address space a PE's memory may be anywhere. Then all PEs refuse such an alignment.
        let first = match self.root % align {
            0 => self.heap().take(bytes as u64, (align as u64).max(BLOCK_BYTES)),
            _ => None,
        };
        let end = first.map(|first| self.heap().end_bytes(first));
        if first.is_none() {
            self.report_no_room(call, bytes, align);
        }
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

/// The hints describe the use of the memory, and have no effect: all memory here suits all uses.
pub fn malloc_with_hints(call: Call, size: usize, hints: c_long) -> *mut c_void {
    if hints & !HINTS != 0 {
        check::refuse(call, "hints", format_args!("{hints:#x}: unknown bits (ignored)"));
    }
    malloc(call, size)
}

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
    let memory = world.allocate(call, bytes, BLOCK_BYTES as usize);
    if !memory.is_null() {
        // SAFETY: `allocate` has just committed `bytes` there, and no PE has the address before the barrier below.
        unsafe { memory.cast::<u8>().write_bytes(0, bytes) };
        barrier_all(call);
    }
    memory
}

pub fn align(call: Call, alignment: usize, size: usize) -> *mut c_void {
    let Some(world) = world(call) else { return null_mut() };
    if !alignment.is_power_of_two() {
        check::refuse(call, "alignment", format_args!("{alignment}: must be a power of two"));
        return null_mut();
    }
    if size == 0 {
        return null_mut();
    }
    if alignment as u64 > Symmetric::ALIGN_MAX {
        check::refuse(call, "alignment", format_args!("{alignment}: larger than that of the symmetric memory itself"));
        return null_mut();
    }
    order::quiet_all(world);
    world.allocate(call, size, alignment)
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
    barrier_all(call);
    let held = world.heap().end_bytes(first) - first * BLOCK_BYTES;
    if world.heap().resize(first, size as u64) {
        let end = world.heap().end_bytes(first);
        if world.commit_everywhere(Some(end)) {
            return ptr;
        }
        world.heap().resize(first, held);
        return null_mut();
    }
    let moved = world.allocate(call, size, BLOCK_BYTES as usize);
    if !moved.is_null() {
        // SAFETY: two different allocations of this PE, each at least this long.
        unsafe { ptr.cast::<u8>().copy_to_nonoverlapping(moved.cast(), (held as usize).min(size)) };
        world.heap().give(first);
        barrier_all(call);
    }
    moved
}

pub fn free(call: Call, ptr: *mut c_void) {
    let Some(world) = world(call) else { return };
    if ptr.is_null() {
        return;
    }
    let Some(first) = world.block_at(call, ptr) else { return };
    barrier_all(call);
    world.heap().give(first);
}
