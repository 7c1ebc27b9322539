// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The express way to memory that is at hand: what nearly every put, get and atomic takes.
//!
//! It knows each attached PE by one line of 64 bytes, and asks three questions: is there such a PE, does the range lie in
//! the heap as far as it exists, or in the static data. Whoever gets no [`Hand`] goes the general way
//! ([`World::reach`](crate::World::reach)), which attaches the PE, takes commands, or reports what is wrong.
//!
//! Invariants
//! 1. Before the start and after the end there are no PEs here, so a call that comes too early or late goes the general way
//!    and is reported there.
//! 2. A PE whose memory is not mapped here, or not to be written in place, has zero bytes.
//!
//! Budget: nine loads, of which four are of lines that all calls share and nobody writes; no call, no lock.

use std::ffi::c_int;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release};

use crate::{Ctx, World};

/// What is known of a PE whose memory is at hand.
#[repr(C, align(64))]
pub(crate) struct Peer {
    /// Bytes of the heap that exist, and what is added to an address of this PE's heap to reach that PE's.
    pub heap_bytes: AtomicUsize,
    pub heap_shift: AtomicUsize,
    /// The same for static data.
    pub data_bytes: AtomicUsize,
    pub data_shift: AtomicUsize,
    /// The word that is not zero while its owner sleeps; never null.
    pub sleepers: AtomicPtr<AtomicU32>,
}

/// What peers that were not attached yet have for a word: nobody sleeps there.
static NOBODY: AtomicU32 = AtomicU32::new(0);

impl Default for Peer {
    fn default() -> Peer {
        Peer {
            heap_bytes: AtomicUsize::new(0),
            heap_shift: AtomicUsize::new(0),
            data_bytes: AtomicUsize::new(0),
            data_shift: AtomicUsize::new(0),
            sleepers: AtomicPtr::new((&raw const NOBODY).cast_mut()),
        }
    }
}

/// What all calls share.
#[repr(C, align(64))]
struct Table {
    n_pes: AtomicUsize,
    peers: AtomicPtr<Peer>,
    heap_start: AtomicUsize,
    data_start: AtomicUsize,
}

static TABLE: Table = Table {
    n_pes: AtomicUsize::new(0),
    peers: AtomicPtr::new(std::ptr::null_mut()),
    heap_start: AtomicUsize::new(0),
    data_start: AtomicUsize::new(0),
};

/// Opens the express way, or closes it.
pub(crate) fn open(world: Option<&'static World>) {
    TABLE.n_pes.store(0, Release);
    if let Some(world) = world {
        TABLE.peers.store(world.peers.as_ptr().cast_mut(), Relaxed);
        TABLE.heap_start.store(world.heap_start, Relaxed);
        TABLE.data_start.store(world.data.start, Relaxed);
        TABLE.n_pes.store(world.n_pes(), Release);
    }
}

/// Memory at hand: its address here, and whose it is.
#[derive(Clone, Copy)]
pub(crate) struct Hand {
    pub at: *mut u8,
    pub pe: usize,
    peer: &'static Peer,
}

impl Hand {
    /// Wakes the PE if it sleeps. After the stores.
    #[inline(always)]
    pub fn ring(self) {
        std::sync::atomic::compiler_fence(std::sync::atomic::Ordering::SeqCst);
        // SAFETY: NOBODY, or the word of an attached peer, whose segment stays mapped.
        if unsafe { &*self.peer.sleepers.load(Relaxed) }.load(Relaxed) != 0 {
            wake(self.pe);
        }
    }

    /// Another range at the same PE.
    #[inline(always)]
    pub fn and(self, address: *const u8, bytes: usize) -> Option<Hand> {
        find(address as usize, bytes, self.peer).map(|at| Hand { at, ..self })
    }
}

#[cold]
#[inline(never)]
fn wake(pe: usize) {
    if let Some(world) = crate::world("shmem") {
        world.ring(pe);
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

/// A symmetric range at a PE, if that is at hand.
#[inline(always)]
pub(crate) fn at_hand(ctx: Ctx, address: *const u8, bytes: usize, pe: c_int) -> Option<Hand> {
    let pe = if ctx == Ctx::DEFAULT { pe as usize } else { of_context(ctx, pe)? };
    if pe >= TABLE.n_pes.load(Relaxed) {
        return None;
    }
    // SAFETY: there are so many, and they are never freed.
    let peer: &'static Peer = unsafe { &*TABLE.peers.load(Relaxed).add(pe) };
    find(address as usize, bytes, peer).map(|at| Hand { at, pe, peer })
}

/// The world rank of a PE number of another context than the default one.
#[inline(never)]
fn of_context(ctx: Ctx, pe: c_int) -> Option<usize> {
    let n_pes = TABLE.n_pes.load(Relaxed);
    let team = if n_pes == 0 { None } else { crate::world("shmem")?.contexts.team(ctx) }?;
    (0..team.size as c_int).contains(&pe).then(|| team.world_rank(pe))
}

#[inline(always)]
pub(crate) fn within(offset: usize, bytes: usize, size: usize) -> bool {
    offset < size && bytes <= size - offset
}
