// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The short path to directly mapped memory of a peer. Nearly every put, get and atomic takes it.
//!
//! A table has a line of 64 bytes for each attached PE. A call checks that the PE exists, and that the range lies in
//! the existing part of the heap or in the static data. A call that gets no [`Mapped`] takes the general path
//! ([`World::reach`](World::reach)), which attaches the PE, uses commands, or reports a wrong argument.
//!
//! Invariants
//! 1. Before `shmem_init` and after `shmem_finalize` the table is empty, so the general path reports a call.
//! 2. A PE whose memory is not mapped here has zero bytes in the table.
//! 3. The table and its lines are never freed.
//!
//! Budget: ten loads, four of them from lines that all calls share and no call writes, and one or two stores to this
//! PE's own line of counters; no system call, no lock.

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, Ordering::Release};

use crate::world::peer::Counts;

use crate::handles::Ctx;
use crate::world::peer::Peer;
use crate::world::{World, world};

/// The part of the table that all calls share.
#[repr(C, align(64))]
struct Table {
    n_pes: AtomicUsize,
    /// The same for words that several PEs may change at once; 0 if the processor's atomics must not change them.
    n_word_pes: AtomicUsize,
    peers: AtomicPtr<Peer>,
    heap_start: AtomicUsize,
    data_start: AtomicUsize,
}

static TABLE: Table = Table {
    n_pes: AtomicUsize::new(0),
    n_word_pes: AtomicUsize::new(0),
    peers: AtomicPtr::new(std::ptr::null_mut()),
    heap_start: AtomicUsize::new(0),
    data_start: AtomicUsize::new(0),
};

/// Fills the table, or empties it.
pub(crate) fn open(world: Option<&'static World>) {
    TABLE.n_pes.store(0, Release);
    TABLE.n_word_pes.store(0, Release);
    if let Some(world) = world {
        TABLE.peers.store(world.peers.as_ptr().cast_mut(), Relaxed);
        TABLE.heap_start.store(world.heap_start, Relaxed);
        TABLE.data_start.store(world.data.start, Relaxed);
        TABLE.n_word_pes.store(if world.near_mapped { 0 } else { world.n_pes() }, Release);
        TABLE.n_pes.store(world.n_pes(), Release);
    }
}

/// A range of a PE's memory that is directly mapped: its address here, and the PE.
#[derive(Clone, Copy)]
pub(crate) struct Mapped {
    pub at: *mut u8,
    pub pe: usize,
    peer: &'static Peer,
}

impl Mapped {
    /// Wakes the PE if it sleeps. The caller has made its stores already.
    #[inline(always)]
    pub fn wake(self) {
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        // SAFETY: never null. It points to `NO_SLEEPERS`, or to the word of an attached peer, whose segment stays
        // mapped to the end of the process.
        if unsafe { &*self.peer.sleepers.load(Relaxed) }.load(Relaxed) != 0 {
            wake_pe(self.pe);
        }
    }

    /// Returns the counters of this PE's operations at the PE.
    #[inline(always)]
    pub fn counts(self) -> Counts {
        self.peer.counts()
    }

    /// Another range at the same PE.
    #[inline(always)]
    pub fn and(self, address: *const u8, bytes: usize) -> Option<Mapped> {
        find(address as usize, bytes, self.peer).map(|at| Mapped { at, ..self })
    }
}

#[cold]
#[inline(never)]
fn wake_pe(pe: usize) {
    if let Some(world) = world("shmem") {
        world.wake(pe);
    }
}

#[inline(always)]
fn find(address: usize, bytes: usize, peer: &Peer) -> Option<*mut u8> {
    if within(address.wrapping_sub(TABLE.heap_start.load(Relaxed)), bytes, peer.heap_bytes.load(Relaxed)) {
        return Some(address.wrapping_add(peer.heap_shift.load(Relaxed)) as *mut u8);
    }
    if within(address.wrapping_sub(TABLE.data_start.load(Relaxed)), bytes, peer.data_bytes.load(Relaxed)) {
        return Some(address.wrapping_add(peer.data_shift.load(Relaxed)) as *mut u8);
    }
    None
}

/// A symmetric range at a PE, if it is directly mapped for loads and stores.
#[inline(always)]
pub(crate) fn find_mapped(ctx: Ctx, address: *const u8, bytes: usize, pe: c_int) -> Option<Mapped> {
    find_below(&TABLE.n_pes, ctx, address, bytes, pe)
}

/// The same for a word that several PEs may change at once, by atomics of the processor.
#[inline(always)]
pub(crate) fn find_mapped_word(ctx: Ctx, address: *const u8, bytes: usize, pe: c_int) -> Option<Mapped> {
    find_below(&TABLE.n_word_pes, ctx, address, bytes, pe)
}

#[inline(always)]
fn find_below(n_pes: &AtomicUsize, ctx: Ctx, address: *const u8, bytes: usize, pe: c_int) -> Option<Mapped> {
    let pe = if ctx == Ctx::DEFAULT { pe as usize } else { rank_in_context(ctx, pe)? };
    if pe >= n_pes.load(Relaxed) {
        return None;
    }
    // SAFETY: both numbers are not zero only after `open`, which stores the lines' address first, and the standard lets
    // no thread call before `shmem_init` has returned. The world that owns the lines is never freed.
    let peer: &'static Peer = unsafe { &*TABLE.peers.load(Relaxed).add(pe) };
    find(address as usize, bytes, peer).map(|at| Mapped { at, pe, peer })
}

/// The world rank of a PE number, for any context but the default one.
#[inline(never)]
fn rank_in_context(ctx: Ctx, pe: c_int) -> Option<usize> {
    let n_pes = TABLE.n_pes.load(Relaxed);
    let team = if n_pes == 0 { None } else { world("shmem")?.team_of(ctx) }?;
    (0..team.size as c_int).contains(&pe).then(|| team.world_rank(pe))
}

#[inline(always)]
pub(crate) fn within(offset: usize, bytes: usize, size: usize) -> bool {
    offset < size && bytes <= size - offset
}
