// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Put and get (OpenSHMEM 1.6, "Remote Memory Access Routines"): contiguous, single elements, strided and in blocks.
//!
//! In place, a put or get is complete when the call returns, and so are the non-blocking ones. By commands, a put's source
//! may be reused on return and its end is counted for quiet; a get has come when the call returns.
//!
//! Bytes move as `memmove` moves them; an aligned element of 4 or 8 bytes moves whole, so that who polls it never sees half.

use std::ffi::c_int;

use selvedge_transport::lines;

use crate::hand::at_hand;
use crate::types::Element;
use crate::{Call, Ctx, Reach, check, world};

/// Bytes of so many elements. None: it has been reported.
#[inline(always)]
pub(crate) fn bytes_of<T>(call: Call, nelems: usize) -> Option<usize> {
    let bytes = nelems.checked_mul(size_of::<T>());
    if bytes.is_none() {
        check::refuse(call, "nelems", format_args!("{nelems}: more bytes than an address space holds"));
    }
    bytes
}

/// Copies bytes in place; aligned words of 4 and 8 bytes by one load and one store.
///
/// # Safety
/// Both ranges are mapped; they may overlap.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    let aligned = |bytes: usize| (from as usize | to as usize) & (bytes - 1) == 0;
    // SAFETY: the caller's. Others may touch the memory at the same time, as with any network interface.
    unsafe {
        match bytes {
            8 if aligned(8) => to.cast::<u64>().write_volatile(from.cast::<u64>().read_volatile()),
            4 if aligned(4) => to.cast::<u32>().write_volatile(from.cast::<u32>().read_volatile()),
            _ => std::ptr::copy(from, to, bytes),
        }
    }
}

/// Bytes from which on a copy lasts long enough for a line to come meanwhile.
const LASTING_BYTES: usize = 256;

/// Copies bytes in place of which a word is to tell next. The word's line is asked for before: with 1 KiB, a target that waits for the
/// word sees it 10 to 30 % sooner.
///
/// # Safety
/// As of [`copy`].
#[inline(always)]
pub(crate) unsafe fn copy_to_tell(from: *const u8, to: *mut u8, bytes: usize, word: *const u8) {
    if bytes >= LASTING_BYTES {
        lines::about_to_write(word);
    }
    // SAFETY: the caller's.
    unsafe { copy(from, to, bytes) };
}

#[inline(always)]
pub unsafe fn put<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match at_hand(ctx, dest.cast(), bytes, pe) {
        Some(hand) => {
            // SAFETY: the target was found inside of symmetric memory; the source is the caller's.
            unsafe { copy(source.cast(), hand.at, bytes) };
            hand.ring();
        }
        // SAFETY: the caller's.
        None => unsafe { put_elsewhere(call, ctx, dest.cast(), source.cast(), bytes, pe) },
    }
}

/// Puts where memory is not at hand, or not yet, or where there is none.
#[cold]
#[inline(never)]
unsafe fn put_elsewhere(call: Call, ctx: Ctx, dest: *mut u8, source: *const u8, bytes: usize, pe: c_int) {
    let Some(world) = world(call) else { return };
    let Some(rank) = world.pe(call, ctx, pe) else { return };
    match world.reach(call, "dest", dest, bytes, rank) {
        Some(Reach::InPlace(at)) => {
            // SAFETY: the target was found inside of symmetric memory; the source is the caller's.
            unsafe { copy(source, at, bytes) };
            world.ring(rank);
        }
        // SAFETY: as above.
        Some(Reach::Nic(spot)) => unsafe { world.nic_put(ctx, spot, source, bytes) },
        None => {}
    }
}

#[inline(always)]
pub unsafe fn put_nbi<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { put(call, ctx, dest, source, nelems, pe) };
}

#[inline(always)]
pub unsafe fn get<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match at_hand(ctx, source.cast(), bytes, pe) {
        // SAFETY: the source was found inside of symmetric memory; the target is the caller's.
        Some(hand) => unsafe { copy(hand.at, dest.cast(), bytes) },
        // SAFETY: the caller's.
        None => unsafe { get_elsewhere(call, ctx, dest.cast(), source.cast(), bytes, pe) },
    }
}

/// Gets from where memory is not at hand, or not yet, or where there is none.
#[cold]
#[inline(never)]
unsafe fn get_elsewhere(call: Call, ctx: Ctx, dest: *mut u8, source: *const u8, bytes: usize, pe: c_int) {
    let Some(world) = world(call) else { return };
    let Some(rank) = world.pe(call, ctx, pe) else { return };
    match world.reach(call, "source", source, bytes, rank) {
        // SAFETY: the source was found inside of symmetric memory; the target is the caller's.
        Some(Reach::InPlace(at)) => unsafe { copy(at, dest, bytes) },
        // SAFETY: as above.
        Some(Reach::Nic(spot)) => unsafe { world.nic_get(ctx, spot, dest, bytes) },
        None => {}
    }
}

#[inline(always)]
pub unsafe fn get_nbi<T: Element>(call: Call, ctx: Ctx, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { get(call, ctx, dest, source, nelems, pe) };
}

#[inline(always)]
pub unsafe fn p<T: Element>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    match at_hand(ctx, dest.cast(), size_of::<T>(), pe) {
        Some(hand) => {
            // SAFETY: found inside of symmetric memory. One store, for what the machine stores at once.
            unsafe { hand.at.cast::<T>().write_unaligned(value) };
            hand.ring();
        }
        // SAFETY: the caller's.
        None => unsafe { p_elsewhere(call, ctx, dest, value, pe) },
    }
}

#[cold]
#[inline(never)]
unsafe fn p_elsewhere<T: Element>(call: Call, ctx: Ctx, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the caller's; the value lives until the call returns.
    unsafe { put_elsewhere(call, ctx, dest.cast(), (&raw const value).cast(), size_of::<T>(), pe) };
}

#[inline(always)]
pub unsafe fn g<T: Element>(call: Call, ctx: Ctx, source: *const T, pe: c_int) -> T {
    // SAFETY: any bits are an element.
    let mut value = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's; the value lives until the call returns.
    unsafe { get(call, ctx, &raw mut value, source, 1, pe) };
    value
}

/// A strided side: elements between the starts of blocks, elements of a block, blocks.
#[derive(Clone, Copy)]
struct Blocks {
    stride: isize,
    size: usize,
    count: usize,
}

impl Blocks {
    /// Bytes from the first block's start to the last block's end. None: more than an address space holds.
    fn span(self, element_bytes: usize) -> Option<usize> {
        let steps = usize::try_from(self.stride).ok()?.checked_mul(self.count - 1)?;
        steps.checked_add(self.size)?.checked_mul(element_bytes)
    }
}

/// The strides that the standard allows: `least` and more.
fn strides_are_right(call: Call, least: usize, strides: [(&'static str, isize); 2]) -> bool {
    strides.iter().all(|(name, stride)| {
        let right = usize::try_from(*stride).is_ok_and(|stride| stride >= least);
        if !right {
            check::refuse(call, name, format_args!("{stride}: wanted a stride of at least {least}"));
        }
        right
    })
}

/// Moves blocks between this PE and another: `out` to that PE.
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
        // SAFETY: the far range was found inside of symmetric memory; the near one is the caller's.
        unsafe {
            match (reach, out) {
                (Reach::InPlace(at), true) => copy(near, at.wrapping_add(far_at), bytes),
                (Reach::InPlace(at), false) => copy(at.wrapping_add(far_at), near, bytes),
                (Reach::Nic(spot), true) => world.nic_put(ctx, spot.at(far_at), near, bytes),
                (Reach::Nic(spot), false) => world.nic_get(ctx, spot.at(far_at), near, bytes),
            }
        }
    }
    if out && matches!(reach, Reach::InPlace(_)) {
        world.ring(rank);
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
    // SAFETY: the caller's.
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
    // SAFETY: the caller's.
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
    // SAFETY: the caller's.
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
    // SAFETY: the caller's.
    unsafe { strided(call, ctx, false, far, near, (size_of::<T>(), bsize, nblocks), pe) };
}
