// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Put and get (OpenSHMEM 1.6, "Remote Memory Access Routines"): contiguous, single elements, strided and in blocks.
//!
//! Invariants
//! 1. On directly mapped memory every put or get is complete when the call returns. By commands, the source of a put
//!    may be reused when the call returns, and quiet waits for the end of the put; a get is complete when the call
//!    returns.
//! 2. Bytes move as by `memmove`. An aligned element of 4 or 8 bytes moves as a whole, for PEs that poll it.

use std::ffi::c_int;

use selvedge_process::lines;

use crate::check::{self, Call};
use crate::handles::Ctx;
use crate::mapped::find_mapped;
use crate::types::Element;
use crate::world::address::Reach;
use crate::world::world;

/// Bytes of `nelems` elements. `None`: it has been reported.
#[inline(always)]
pub(crate) fn bytes_of<T>(call: Call, nelems: usize) -> Option<usize> {
    let bytes = nelems.checked_mul(size_of::<T>());
    if bytes.is_none() {
        check::refuse(call, "nelems", format_args!("{nelems}: more bytes than an address space holds"));
    }
    bytes
}

/// Copies bytes between mapped ranges; aligned words of 4 and 8 bytes by one load and one store.
///
/// # Safety
/// Both ranges are mapped; they may overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    let aligned = |bytes: usize| (from as usize | to as usize) & (bytes - 1) == 0;
    // SAFETY: the contract of this function: both ranges are mapped. Another PE may access them at the same time; as
    // for any network interface, the program orders its accesses by the standard's synchronisation, and a word that is
    // polled is aligned and moves by one access.
    unsafe {
        match bytes {
            8 if aligned(8) => to.cast::<u64>().write_volatile(from.cast::<u64>().read_volatile()),
            4 if aligned(4) => to.cast::<u32>().write_volatile(from.cast::<u32>().read_volatile()),
            _ => std::ptr::copy(from, to, bytes),
        }
    }
}

/// A longer copy takes longer than fetching a cache line.
const LASTING_BYTES: usize = 256;

/// Copies bytes before a store to `word` that notifies the target. Before a long copy it prefetches the word's cache
/// line, so that the notification follows the bytes at once.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(crate) unsafe fn copy_then_notify(from: *const u8, to: *mut u8, bytes: usize, word: *const u8) {
    if bytes >= LASTING_BYTES {
        lines::about_to_write(word);
    }
    // SAFETY: the contract of this function is that of `copy`.
    unsafe { copy(from, to, bytes) };
}

#[inline(always)]
pub unsafe fn put<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match find_mapped(ctx, dest.cast(), bytes, pe) {
        Some(mapped) => {
            // SAFETY: a range of mapped symmetric memory. The clause of the puts gives `source` the same length.
            unsafe { copy(source.cast(), mapped.at, bytes) };
            mapped.wake();
            mapped.counts().put(bytes as u64);
        }
        // SAFETY: the contract of the C function: `source` has `nelems` elements. `dest` is checked there.
        None => unsafe { put_general(call, ctx, dest.cast(), source.cast(), bytes, pe) },
    }
}

/// The general path of a put: attaches the PE, puts by a command, or reports the error.
#[cold]
#[inline(never)]
unsafe fn put_general(call: Call, ctx: Ctx, dest: *mut u8, source: *const u8, bytes: usize, pe: c_int) {
    let Some(world) = world(call) else { return };
    let Some(rank) = world.pe(call, ctx, pe) else { return };
    match world.reach(call, "dest", dest, bytes, rank) {
        Some(Reach::Mapped(at)) => {
            // SAFETY: a range of mapped symmetric memory. The clause of the puts gives `source` the same length.
            unsafe { copy(source, at, bytes) };
            world.wake(rank);
            world.counts(rank).put(bytes as u64);
        }
        // SAFETY: the clause of the puts gives `source` this length; `World::pe` has checked the context.
        Some(Reach::Nic(remote)) => unsafe { world.nic_put(ctx, remote, source, bytes) },
        None => {}
    }
}

#[inline(always)]
pub unsafe fn put_nbi<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    // SAFETY: the contract of the C function: `source` has `nelems` elements. `dest` is checked there.
    unsafe { put(call, ctx, dest, source, nelems, pe) };
}

#[inline(always)]
pub unsafe fn get<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match find_mapped(ctx, source.cast(), bytes, pe) {
        // SAFETY: a range of mapped symmetric memory. The clause of the gets gives `dest` the same length.
        Some(mapped) => unsafe {
            // Before the copy, which then ends the call.
            mapped.counts().get(bytes as u64);
            copy(mapped.at, dest.cast(), bytes);
        },
        // SAFETY: the contract of the C function: `dest` has room for `nelems` elements. `source` is checked there.
        None => unsafe { get_general(call, ctx, dest.cast(), source.cast(), bytes, pe) },
    }
}

/// The general path of a get: attaches the PE, gets by a command, or reports the error.
#[cold]
#[inline(never)]
unsafe fn get_general(call: Call, ctx: Ctx, dest: *mut u8, source: *const u8, bytes: usize, pe: c_int) {
    let Some(world) = world(call) else { return };
    let Some(rank) = world.pe(call, ctx, pe) else { return };
    match world.reach(call, "source", source, bytes, rank) {
        // SAFETY: a range of mapped symmetric memory. The clause of the gets gives `dest` the same length.
        Some(Reach::Mapped(at)) => unsafe {
            copy(at, dest, bytes);
            world.counts(rank).get(bytes as u64);
        },
        // SAFETY: the clause of the gets gives `dest` this length; `World::pe` has checked the context.
        Some(Reach::Nic(remote)) => unsafe { world.nic_get(ctx, remote, dest, bytes) },
        None => {}
    }
}

#[inline(always)]
pub unsafe fn get_nbi<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    // SAFETY: the contract of the C function: `dest` has room for `nelems` elements. `source` is checked there.
    unsafe { get(call, ctx, dest, source, nelems, pe) };
}

#[inline(always)]
pub unsafe fn p<T: Element>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    match find_mapped(ctx, dest.cast(), size_of::<T>(), pe) {
        Some(mapped) => {
            // SAFETY: the range was found in mapped symmetric memory. An element of a machine word's size is one store.
            unsafe { mapped.at.cast::<T>().write_unaligned(value) };
            mapped.wake();
            mapped.counts().put(size_of::<T>() as u64);
        }
        // SAFETY: every argument is checked there.
        None => unsafe { p_general(call, ctx, dest, value, pe) },
    }
}

#[cold]
#[inline(never)]
unsafe fn p_general<T: Element>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the value is on this stack and lives until the call returns.
    unsafe { put_general(call, ctx, dest.cast(), (&raw const value).cast(), size_of::<T>(), pe) };
}

#[inline(always)]
pub unsafe fn g<T: Element>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> T {
    // SAFETY: any bytes are an element (`Element`), so zeroes are.
    let mut value = unsafe { std::mem::zeroed() };
    // SAFETY: the value is on this stack, has room for one element, and lives until the call returns.
    unsafe { get(call, ctx, &raw mut value, source, 1, pe) };
    value
}

/// One side of a strided call: elements between the starts of blocks, elements of a block, and blocks.
#[derive(Clone, Copy)]
struct Blocks {
    stride: isize,
    size: usize,
    count: usize,
}

impl Blocks {
    /// Bytes from the first block's start to the last block's end. `None`: more than an address space holds.
    fn span(self, element_bytes: usize) -> Option<usize> {
        let steps = usize::try_from(self.stride).ok()?.checked_mul(self.count - 1)?;
        steps.checked_add(self.size)?.checked_mul(element_bytes)
    }
}

/// Refuses strides below `least`, the smallest that the standard allows.
fn strides_are_right(call: Call, least: usize, strides: [(&'static str, isize); 2]) -> bool {
    strides.iter().all(|(name, stride)| {
        let right = usize::try_from(*stride).is_ok_and(|stride| stride >= least);
        if !right {
            check::refuse(call, name, format_args!("{stride}: must be at least {least}"));
        }
        right
    })
}

/// Moves blocks between this PE and another; if `out`, to the other PE.
#[inline(never)]
unsafe fn strided(
    call: Call,
    ctx: Ctx,
    out: bool,
    far: (*mut u8, isize),
    near: (*mut u8, isize),
    (element, block, count): (usize, usize, usize),
    pe: c_int,
) {
    let Some(world) = world(call) else { return };
    let Some(rank) = world.pe(call, ctx, pe) else { return };
    if block == 0 || count == 0 {
        return;
    }
    let (far_name, near_name) = if out { ("dst", "sst") } else { ("sst", "dst") };
    if !strides_are_right(call, block, [(far_name, far.1), (near_name, near.1)]) {
        return;
    }
    let argument = if out { "dest" } else { "source" };
    let blocks = Blocks { stride: far.1, size: block, count };
    let Some(span) = blocks.span(element) else {
        check::refuse(call, argument, format_args!("{count} blocks with stride {}: beyond any memory", far.1));
        return;
    };
    let Some(reach) = world.reach(call, argument, far.0, span, rank) else { return };
    let bytes = block * element;
    for index in 0..count {
        let (far_at, near_at) = (index * far.1 as usize * element, index * near.1 as usize * element);
        let near = near.0.wrapping_add(near_at);
        // SAFETY: all blocks at the other PE were found in symmetric memory. The clause of the strided calls says that
        // all of this PE's blocks exist. `World::pe` has checked the context.
        unsafe {
            match (reach, out) {
                (Reach::Mapped(at), true) => copy(near, at.wrapping_add(far_at), bytes),
                (Reach::Mapped(at), false) => copy(at.wrapping_add(far_at), near, bytes),
                (Reach::Nic(remote), true) => world.nic_put(ctx, remote.at(far_at), near, bytes),
                (Reach::Nic(remote), false) => world.nic_get(ctx, remote.at(far_at), near, bytes),
            }
        }
    }
    if matches!(reach, Reach::Mapped(_)) {
        let (counts, bytes) = (world.counts(rank), (bytes * count) as u64);
        if out {
            world.wake(rank);
            counts.put(bytes);
        } else {
            counts.get(bytes);
        }
    }
}

pub unsafe fn iput<T: Element>(
    call: Call,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    nelems: usize,
    pe: c_int,
) {
    // SAFETY: the contract of the C function: `source` has `nelems` elements at their stride. `dest` is checked there.
    unsafe { ibput(call, ctx, dest, source, dst, sst, 1, nelems, pe) };
}

pub unsafe fn iget<T: Element>(
    call: Call,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    nelems: usize,
    pe: c_int,
) {
    // SAFETY: by the C contract `dest` has room for the strided elements. `source` is checked there.
    unsafe { ibget(call, ctx, dest, source, dst, sst, 1, nelems, pe) };
}

pub unsafe fn ibput<T: Element>(
    call: Call,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    bsize: usize,
    nblocks: usize,
    pe: c_int,
) {
    let (far, near) = ((dest.cast(), dst), (source.cast_mut().cast(), sst));
    // SAFETY: the contract of the C function: `source` has `nblocks` blocks at their stride. `dest` is checked there.
    unsafe { strided(call, ctx, true, far, near, (size_of::<T>(), bsize, nblocks), pe) };
}

pub unsafe fn ibget<T: Element>(
    call: Call,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    bsize: usize,
    nblocks: usize,
    pe: c_int,
) {
    let (far, near) = ((source.cast_mut().cast(), sst), (dest.cast(), dst));
    // SAFETY: by the C contract `dest` has room for the strided blocks. `source` is checked there.
    unsafe { strided(call, ctx, false, far, near, (size_of::<T>(), bsize, nblocks), pe) };
}
