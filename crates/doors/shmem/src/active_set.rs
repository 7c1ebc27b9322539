// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives of active sets (OpenSHMEM, "Collective Routines", those deprecated since 1.5).
//!
//! An active set is a first PE, a distance between members that is a power of two, and a size. Members synchronise in
//! `pSync`, an array of the program that is zero between calls, by a dissemination barrier: in round r each member adds
//! 1 to word r of the member 2^r ahead, waits until its own word r is not zero, and subtracts 1. Data are fetched
//! between two such syncs, as by teams.
//!
//! A set of all PEs uses the world team's faster algorithms, unless threads may be in two collectives at once.
//!
//! Invariants
//! 1. Word r of a member counts the arrivals of one other member: in this call and, if that member is fast, in the
//!    next. Each call subtracts its own arrival, so the words are zero again when no member is ahead.
//! 2. Word 15 is a member's own: its number of bytes in a collect, which is read between two syncs.
//!
//! Costs: a sync takes log2 n rounds, each of one atomic at another member and one at this one. 10 words suffice for
//! 1,024 members.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicI64, Ordering::Acquire, Ordering::Relaxed};

use crate::check::{self, Call};
use crate::collective::alltoall::{Strides, alltoall_among, fetch_blocks, fetch_strided_blocks};
use crate::collective::arguments::{Buffers, bytes_of};
use crate::collective::broadcast::{broadcast_among, checked_root, fetch_from_root};
use crate::collective::collect::{checked_source, collect_among, collect_sized, fcollect_among, fetch_all, size_at};
use crate::collective::members::{Members, Synchronise, TeamMembers, await_condition};
use crate::collective::op::{Kernel, Operator};
use crate::collective::reduce::{reduce_among, reduce_by_blocks};
use crate::handles::Ctx;
use crate::types::Element;
use crate::world::address::SymAddress;
use crate::world::span::Span;
use crate::world::{World, world};
use crate::{amo, order};

const WORDS: usize = 16;
/// The word for the bytes that a member contributes.
const SIZE_WORD: usize = 15;

/// An active set that has this PE as a member.
struct ActiveSet {
    call: Call,
    world: &'static World,
    span: Span,
    me: usize,
    words: *mut c_long,
    place: SymAddress,
}

impl ActiveSet {
    fn find(call: Call, start: c_int, log_stride: c_int, size: c_int, psync: *mut c_long) -> Option<ActiveSet> {
        let world = world(call)?;
        let everyone = Span { start: 0, stride: 1, size: world.n_pes() as c_int };
        let stride = u32::try_from(log_stride).ok().and_then(|log| 1i32.checked_shl(log)).filter(|stride| *stride > 0);
        // Any stride is valid for a single PE.
        let stride = if size == 1 { Some(1) } else { stride };
        let Some(span) = stride.and_then(|stride| everyone.part(start, stride, size)) else {
            check::refuse(
                call,
                "PE_size",
                format_args!("start {start}, stride 2^{log_stride}, size {size}: not within {} PEs", world.n_pes()),
            );
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

    /// The world's team, if this set is all PEs and may use its algorithms.
    fn as_world_team(&self) -> Option<TeamMembers<'static>> {
        let whole = self.span.size as usize == self.world.n_pes() && !self.world.multiple.load(Relaxed);
        whole.then(|| TeamMembers::everyone(self.world))
    }

    fn word(&self, index: usize) -> &AtomicI64 {
        // SAFETY: `ActiveSet::find` has found `pSync` aligned in this PE's symmetric memory, with `WORDS` words; the
        // index is below that. All PEs access it by atomics.
        unsafe { AtomicI64::from_ptr(self.words.add(index)) }
    }

    fn add(&self, index: usize, value: c_long, member: usize) {
        let pe = self.pe(member) as c_int;
        // SAFETY: `ActiveSet::find` has checked the `WORDS` words; the index is below that. The atomic checks the rest.
        unsafe { amo::add(self.call, Ctx::DEFAULT, self.words.add(index), value, pe) };
    }

    /// As `add`, but complete on return.
    fn add_now(&self, index: usize, value: c_long, member: usize) {
        let pe = self.pe(member) as c_int;
        // SAFETY: `ActiveSet::find` has checked the `WORDS` words; the index is below that. The atomic checks the rest.
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
}

impl Synchronise for ActiveSet {
    fn sync(&self) {
        let mut ahead = 1;
        for round in 0.. {
            if ahead >= self.n() {
                return;
            }
            self.add(round, 1, (self.me + ahead) % self.n());
            let word = self.word(round);
            await_condition(self.world, || word.load(Acquire) > 0);
            self.add_now(round, -1, self.me);
            ahead *= 2;
        }
    }
}

pub unsafe fn sync(call: Call, start: c_int, log_stride: c_int, size: c_int, psync: *mut c_long) {
    let Some(set) = ActiveSet::find(call, start, log_stride, size, psync) else { return };
    match set.as_world_team() {
        Some(members) => members.sync(),
        None => set.sync(),
    }
}

pub unsafe fn barrier(call: Call, start: c_int, log_stride: c_int, size: c_int, psync: *mut c_long) {
    order::quiet(call, Ctx::DEFAULT);
    // SAFETY: `sync` checks all of its arguments.
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
    // SAFETY: the callees check symmetric arguments; the contract of the C function covers their lengths.
    unsafe {
        if let Some(members) = set.as_world_team() {
            broadcast_among(call, &members, dest, source, bytes, root);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, bytes, source, bytes) {
            fetch_from_root(&set, root, buffers.source, dest, bytes);
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
    // SAFETY: the callees check symmetric arguments; the contract of the C function covers their lengths.
    unsafe {
        if let Some(members) = set.as_world_team() {
            fcollect_among(call, &members, dest, source, bytes);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, all, source, bytes) {
            fetch_all(&set, buffers.source, dest, bytes);
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
    // SAFETY: the callees check symmetric arguments; the contract of the C function covers their lengths.
    unsafe {
        if let Some(members) = set.as_world_team() {
            collect_among(call, &members, dest, source, bytes);
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
    // SAFETY: the callees check symmetric arguments; the contract of the C function covers their lengths.
    unsafe {
        if let Some(members) = set.as_world_team() {
            alltoall_among(call, &members, dest, source, bytes);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, all, source, all) {
            fetch_blocks(&set, buffers.source, dest, bytes);
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
    // SAFETY: `Strides::checked` has found all of the strided source and dest in symmetric memory.
    unsafe {
        match set.as_world_team() {
            Some(members) => fetch_strided_blocks(&members, &shape),
            None => fetch_strided_blocks(&set, &shape),
        }
    }
}

/// `shmem_..._to_all`. `pwrk` is not used.
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
        check::refuse(call, "nreduce", format_args!("{nreduce}: must be at least 0"));
        return;
    };
    let Some(bytes) = bytes_of(call, count, size_of::<T>()).filter(|bytes| *bytes > 0) else { return };
    let kernel = Kernel::of::<T, O>();
    let (dest, source) = (dest.cast(), source.cast());
    // SAFETY: the callees check symmetric arguments; the contract of the C function covers their lengths.
    unsafe {
        if let Some(members) = set.as_world_team() {
            reduce_among(call, &members, dest, source, count, kernel);
        } else if let Some(buffers) = Buffers::checked(call, set.world, dest, bytes, source, bytes) {
            reduce_by_blocks(&set, buffers, bytes, kernel);
        }
    }
}
