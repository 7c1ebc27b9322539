// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives of active sets (OpenSHMEM, "Collective Routines", what is deprecated since 1.5).
//!
//! The members are a first PE, a power of two from each to the next, and a number. They meet in `pSync`, an array of theirs
//! that is zero between calls: in round r each adds 1 to word r at the member 2^r ahead, waits until its own word r is not
//! zero, and subtracts 1 (a dissemination barrier). Data are fetched between two such meetings, as by teams.
//!
//! An active set that is the whole world uses the world team's ways, which are faster, unless threads of this job may be in
//! two collectives at once.
//!
//! Invariants
//! 1. Word r of a member counts the arrivals of one other member, of this call and, if that one is fast, of the next: both
//!    are counted, and each call subtracts its own. So the words are zero again when nobody is ahead.
//! 2. Word 15 is a member's own, for what it contributes to a collect; it is read between two meetings.
//!
//! Costs: a meeting takes log2 n rounds of one atomic each, two in all; up to 1,024 members fit into 10 words.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicI64, Ordering::Acquire, Ordering::Relaxed};

use crate::collective::alltoall::{Strides, alltoall_among, turn, turn_strided};
use crate::collective::broadcast::{broadcast_among, checked_root, fetch};
use crate::collective::collect::{checked_source, collect_among, collect_sized, fcollect_among, gather, size_at};
use crate::collective::crew::{Crew, Members, await_that};
use crate::collective::op::{Kernel, Operator};
use crate::collective::reduce::{reduce_among, reduce_by_blocks};
use crate::collective::{Buffers, bytes_of};
use crate::team::Span;
use crate::types::Element;
use crate::{Call, Ctx, Place, World, amo, check, order, world};

/// Words of every `pSync`.
const WORDS: usize = 16;
/// The word for a member's size.
const SIZE_WORD: usize = 15;

/// An active set that this PE is in.
struct ActiveSet {
    call: Call,
    world: &'static World,
    span: Span,
    me: usize,
    words: *mut c_long,
    place: Place,
}

impl ActiveSet {
    fn find(call: Call, start: c_int, log_stride: c_int, size: c_int, psync: *mut c_long) -> Option<ActiveSet> {
        let world = world(call)?;
        let everyone = Span { start: 0, stride: 1, size: world.n_pes() as c_int };
        let stride = u32::try_from(log_stride).ok().and_then(|log| 1i32.checked_shl(log)).filter(|stride| *stride > 0);
        // Of one PE alone the stride does not matter.
        let stride = if size == 1 { Some(1) } else { stride };
        let Some(span) = stride.and_then(|stride| everyone.part(start, stride, size)) else {
            let why = format_args!("start {start}, stride 2^{log_stride}, size {size}: not in {} PEs", world.n_pes());
            check::refuse(call, "PE_size", why);
            return None;
        };
        let Some(me) = span.member(world.me()) else {
            check::refuse(call, "PE_start", format_args!("{start}: this PE is not in the active set"));
            return None;
        };
        let place = world.sym(call, "pSync", psync.cast_const().cast(), WORDS * size_of::<c_long>())?;
        if !psync.is_aligned() {
            amo::misaligned(call, "pSync", psync.cast(), size_of::<c_long>());
            return None;
        }
        Some(ActiveSet { call, world, span, me: me as usize, words: psync, place })
    }

    /// The world's team, if that will do.
    fn everyone(&self) -> Option<Crew<'static>> {
        let whole = self.span.size as usize == self.world.n_pes() && !self.world.multiple.load(Relaxed);
        whole.then(|| self.world.teams.everyone(self.world))
    }

    /// This PE's own copy of a word.
    fn word(&self, index: usize) -> &AtomicI64 {
        // SAFETY: one of the words of pSync, which was checked.
        unsafe { AtomicI64::from_ptr(self.words.add(index)) }
    }

    /// Adds to a word of a member.
    fn add(&self, index: usize, value: c_long, member: usize) {
        let pe = self.pe(member) as c_int;
        // SAFETY: as above.
        unsafe { amo::add(self.call, Ctx::DEFAULT, self.words.add(index), value, pe) };
    }

    /// The same, done when it returns.
    fn add_now(&self, index: usize, value: c_long, member: usize) {
        let pe = self.pe(member) as c_int;
        // SAFETY: as above.
        unsafe { amo::fetch_add(self.call, Ctx::DEFAULT, self.words.add(index), value, pe) };
    }
}

impl Members for ActiveSet {
    fn world(&self) -> &World {
        self.world
    }

    fn n(&self) -> usize {
        self.span.size as usize
    }

    fn me(&self) -> usize {
        self.me
    }

    fn pe(&self, member: usize) -> usize {
        self.span.world_rank(member as c_int)
    }

    fn sync(&self) {
        let mut ahead = 1;
        for round in 0.. {
            if ahead >= self.n() {
                return;
            }
            self.add(round, 1, (self.me + ahead) % self.n());
            let word = self.word(round);
            await_that(self.world, || word.load(Acquire) > 0);
            self.add_now(round, -1, self.me);
            ahead *= 2;
        }
    }
}

pub unsafe fn sync(call: Call, start: c_int, log_stride: c_int, size: c_int, psync: *mut c_long) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    match set.everyone() {
        Some(crew) => crew.sync(),
        None => set.sync(),
    }
}

pub unsafe fn barrier(call: Call, start: c_int, log_stride: c_int, size: c_int, psync: *mut c_long) {
    order::quiet(call, Ctx::DEFAULT);
    // SAFETY: the caller's promise.
    unsafe { sync(call, start, log_stride, size, psync) };
}

pub unsafe fn broadcast<T: Element>(
    call: Call,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    root: c_int,
    start: c_int,
    log_stride: c_int,
    size: c_int,
    psync: *mut c_long,
) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    let Some(root) = checked_root(call, root, set.n()) else { return };
    let Some(bytes) = bytes_of(call, nelems, size_of::<T>()).filter(|bytes| *bytes > 0) else { return };
    let (dest, source) = (dest.cast(), source.cast());
    // SAFETY: what is symmetric is checked before it is used.
    unsafe {
        if let Some(crew) = set.everyone() {
            broadcast_among(call, &crew, dest, source, bytes, root);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, bytes, source, bytes) {
            fetch(&set, root, buffers.source, dest, bytes);
        }
    }
}

pub unsafe fn fcollect<T: Element>(
    call: Call,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    start: c_int,
    log_stride: c_int,
    size: c_int,
    psync: *mut c_long,
) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    let Some(bytes) = bytes_of(call, nelems, size_of::<T>()).filter(|bytes| *bytes > 0) else { return };
    let Some(all) = bytes_of(call, bytes, set.n()) else { return };
    let (dest, source) = (dest.cast(), source.cast());
    // SAFETY: what is symmetric is checked before it is used.
    unsafe {
        if let Some(crew) = set.everyone() {
            fcollect_among(call, &crew, dest, source, bytes);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, all, source, bytes) {
            gather(&set, buffers.source, dest, bytes);
        }
    }
}

pub unsafe fn collect<T: Element>(
    call: Call,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    start: c_int,
    log_stride: c_int,
    size: c_int,
    psync: *mut c_long,
) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    let Some(bytes) = bytes_of(call, nelems, size_of::<T>()) else { return };
    let (dest, source) = (dest.cast::<u8>(), source.cast::<u8>());
    // SAFETY: what is symmetric is checked before it is used.
    unsafe {
        if let Some(crew) = set.everyone() {
            collect_among(call, &crew, dest, source, bytes);
        } else if let Ok(source) = checked_source(call, &set, source, bytes) {
            set.word(SIZE_WORD).store(bytes as i64, Relaxed);
            set.sync();
            let size_place = set.place.at(SIZE_WORD * size_of::<c_long>());
            collect_sized(call, &set, dest, source, |member| size_at(&set, member, size_place));
            set.sync();
            set.word(SIZE_WORD).store(0, Relaxed);
        }
    }
}

pub unsafe fn alltoall<T: Element>(
    call: Call,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    start: c_int,
    log_stride: c_int,
    size: c_int,
    psync: *mut c_long,
) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    let Some(bytes) = bytes_of(call, nelems, size_of::<T>()).filter(|bytes| *bytes > 0) else { return };
    let Some(all) = bytes_of(call, bytes, set.n()) else { return };
    let (dest, source) = (dest.cast(), source.cast());
    // SAFETY: what is symmetric is checked before it is used.
    unsafe {
        if let Some(crew) = set.everyone() {
            alltoall_among(call, &crew, dest, source, bytes);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, all, source, all) {
            turn(&set, buffers.source, dest, bytes);
        }
    }
}

pub unsafe fn alltoalls<T: Element>(
    call: Call,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    nelems: usize,
    start: c_int,
    log_stride: c_int,
    size: c_int,
    psync: *mut c_long,
) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    let (dest, source) = ((dest.cast(), dst), (source.cast(), sst));
    let Some(shape) = Strides::checked(call, &set, dest, source, nelems, size_of::<T>()) else { return };
    // SAFETY: checked.
    unsafe {
        match set.everyone() {
            Some(crew) => turn_strided(&crew, &shape),
            None => turn_strided(&set, &shape),
        }
    }
}

/// `pwrk` is not needed.
pub unsafe fn to_all<T: Element, O: Operator<T>>(
    call: Call,
    dest: *mut T,
    source: *const T,
    nreduce: c_int,
    start: c_int,
    log_stride: c_int,
    size: c_int,
    _pwrk: *mut T,
    psync: *mut c_long,
) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    let Ok(count) = usize::try_from(nreduce) else {
        check::refuse(call, "nreduce", format_args!("{nreduce}: wanted at least 0"));
        return;
    };
    let Some(bytes) = bytes_of(call, count, size_of::<T>()).filter(|bytes| *bytes > 0) else { return };
    let kernel = Kernel::of::<T, O>();
    let (dest, source) = (dest.cast(), source.cast());
    // SAFETY: what is symmetric is checked before it is used.
    unsafe {
        if let Some(crew) = set.everyone() {
            reduce_among(call, &crew, dest, source, count, kernel);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, bytes, source, bytes) {
            reduce_by_blocks(&set, buffers, bytes, kernel);
        }
    }
}
