// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This PE in its job (OpenSHMEM 1.6, "Library Setup, Exit, and Query Routines").
//!
//! The records that a [`World`] holds have a file each:
//!
//! | file | subject |
//! |---|---|
//! | [`address`] | addresses in symmetric memory |
//! | [`layout`], [`heap`] | layout of the symmetric memory, blocks of its heap |
//! | [`contexts`], [`counters`] | contexts; counters of counting puts |
//! | [`teams`], [`span`], [`step_numbers`], [`group`] | teams, their PEs, their step numbers, their aggregation nodes |
//! | [`losses`] | PEs that have ended early |
//! | [`peer`], [`commands`] | another PE's memory and NIC; the memory that this PE offers to commands |
//!
//! They depend neither on this file nor on their users. This file attaches a peer at the first communication with it.
//! `waiting.rs` waits, `start.rs` makes the world.
//!
//! Invariants
//! 1. There is one [`World`]. The first `shmem_init` makes it and it is never freed, so references to it stay valid.
//!    After `shmem_finalize` no call reaches it.
//! 2. Whether memory is directly mapped is the same at all PEs. It follows from the job's settings, and for static data
//!    from the start records of all PEs.
//! 3. An address of the program is checked against the memory that this PE has committed. Allocation is collective, so
//!    every PE has committed the same memory before the program has the address.
//!
//! Costs: 64 bytes for each peer. Attaching a peer maps its segment and its memory.

use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use std::sync::{Arc, Mutex, OnceLock};

use selvedge_process::{Interface, Opened, Process, Symmetric, Window};

use crate::check::{self, Call};
use crate::handles::Ctx;
use crate::world::commands::Commands;
use crate::world::contexts::Contexts;
use crate::world::counters::Counters;
use crate::world::heap::Heap;
use crate::world::layout::page_bytes;
use crate::world::losses::Losses;
use crate::world::peer::{Counts, Peer, PeerNic};
use crate::world::teams::{TeamView, Teams};

pub mod address;
pub(crate) mod commands;
pub(crate) mod contexts;
pub(crate) mod counters;
pub(crate) mod group;
pub(crate) mod heap;
pub(crate) mod layout;
pub(crate) mod losses;
pub(crate) mod peer;
pub mod span;
pub mod step_numbers;
pub mod teams;

/// This PE, and its knowledge of the others.
pub struct World {
    pub(crate) me: usize,
    pub(crate) n_pes: usize,
    pub(crate) oversubscribed: bool,
    pub(crate) multiple: AtomicBool,
    pub(crate) memory_mapped: bool,
    /// In a job of several hosts: the memory of PEs on this host is mapped for loads and stores. Atomics and counts are
    /// commands for all PEs, because the NIC's atomics are not those of the processor.
    pub(crate) near_mapped: bool,
    /// Start of the program's heap, and the number of its bytes that exist at every PE, this one included.
    pub(crate) heap_start: usize,
    pub(crate) heap_bytes: AtomicUsize,
    /// The program's static data, and whether they are directly mapped at peers.
    pub(crate) data: Range<usize>,
    pub(crate) data_mapped: bool,
    pub(crate) root: usize,
    pub(crate) peers: Box<[Peer]>,
    pub(crate) nics: Box<[PeerNic]>,
    pub(crate) interface: &'static Interface,
    pub(crate) symmetric: Symmetric,
    pub(crate) heap: Mutex<Heap>,
    pub(crate) contexts: Contexts,
    pub(crate) counters: Counters,
    /// Whether operations in the memory of peers are counted.
    pub(crate) counts_in_place: bool,
    pub(crate) commands: Commands,
    pub(crate) teams: Teams,
    pub(crate) losses: Losses,
    pub(crate) process: Arc<Process>,
    pub(crate) opened: &'static Opened,
}

/// The world while the library runs, else null.
static WORLD: AtomicPtr<World> = AtomicPtr::new(std::ptr::null_mut());
/// The world, kept after `shmem_finalize` for a later `shmem_init`.
static MADE: OnceLock<&'static World> = OnceLock::new();

/// Returns the world while the library runs. `None`: the call has been reported.
#[inline(always)]
pub fn world(call: Call) -> Option<&'static World> {
    // SAFETY: null, or the world that `install` has leaked, so it is never freed.
    let world = unsafe { WORLD.load(Acquire).as_ref() };
    if world.is_none() {
        check::not_running(call, MADE.get().is_some());
    }
    world
}

/// The world, if the process has made it, whether or not the library runs.
pub(crate) fn existing() -> Option<&'static World> {
    MADE.get().copied()
}

/// Keeps the world to the end of the process.
pub(crate) fn install(world: World) -> &'static World {
    MADE.get_or_init(|| Box::leak(Box::new(world)))
}

/// Lets calls reach the world, or none.
pub(crate) fn open(world: Option<&'static World>) {
    WORLD.store(world.map_or(std::ptr::null_mut(), |world| std::ptr::from_ref(world).cast_mut()), Release);
}

impl World {
    #[inline(always)]
    pub fn me(&self) -> usize {
        self.me
    }

    #[inline(always)]
    pub fn n_pes(&self) -> usize {
        self.n_pes
    }

    /// Whether a host has more PEs than cores, the same at all PEs. A wake-up then costs more than a round of messages.
    #[inline(always)]
    pub fn oversubscribed(&self) -> bool {
        self.oversubscribed
    }

    /// Every PE's symmetric memory is directly mapped here.
    #[inline(always)]
    pub fn memory_mapped(&self) -> bool {
        self.memory_mapped
    }

    /// Whether a PE's symmetric memory is directly mapped here, at least for loads and stores.
    #[inline(always)]
    pub(crate) fn maps(&self, pe: usize) -> bool {
        self.memory_mapped || (self.near_mapped && self.nics[pe].is_near)
    }

    pub(crate) fn team_of(&self, ctx: Ctx) -> Option<TeamView> {
        self.teams.view_if_valid(self.contexts.team(ctx)?)
    }

    /// Lets the NIC handle arrivals.
    #[inline(always)]
    pub fn progress(&self) {
        self.interface.poll();
    }

    /// Attaches a PE: maps its memory here, if the job allows it. `None`: the PE has ended. A PE whose memory must be
    /// mapped, and cannot be for lack of a resource, ends the job: other ways to it do not mix with loads and stores.
    #[cold]
    #[inline(never)]
    pub(crate) fn attach(&self, pe: usize) -> Option<&Window<'static>> {
        let (peer, nic) = (&self.peers[pe], &self.nics[pe]);
        let window = match nic.window.get() {
            Some(window) => window,
            None => {
                let window = match Window::open(self.interface, nic.id) {
                    Ok(window) => window?,
                    Err(shortage) if self.maps(pe) => {
                        self.process.abort(1, &format!("the memory of PE {pe} cannot be mapped: {shortage}"))
                    }
                    Err(_) => return None,
                };
                nic.window.get_or_init(|| window)
            }
        };
        let root = window.memory() as usize;
        peer.heap_shift.store(root.wrapping_sub(self.root), Relaxed);
        let own_pages = self.data.start & !(page_bytes() - 1);
        let data_shift = if pe == self.me { 0 } else { root.wrapping_sub(own_pages) };
        peer.data_shift.store(data_shift, Relaxed);
        peer.sleepers.store(std::ptr::from_ref(window.sleepers()).cast_mut(), Relaxed);
        if self.counts_in_place {
            peer.work.store(std::ptr::from_ref(window.work(self.interface)).cast_mut(), Relaxed);
        }
        if self.maps(pe) {
            peer.data_bytes.store(if self.data_mapped { self.data.len() } else { 0 }, Release);
            peer.heap_bytes.store(self.heap_bytes.load(SeqCst), Release);
        }
        Some(window)
    }

    /// Records that `bytes` of the heap exist at every PE.
    pub(crate) fn heap_has_grown(&self, bytes: usize) {
        self.heap_bytes.store(bytes, SeqCst);
        if self.memory_mapped || self.near_mapped {
            let attached = self.peers.iter().zip(&self.nics).filter(|(_, nic)| nic.window.get().is_some());
            attached.for_each(|(peer, _)| peer.heap_bytes.store(bytes, Release));
        }
    }

    /// The mapped NIC and memory of a PE, which is attached first if needed.
    #[inline(always)]
    pub(crate) fn window(&self, pe: usize) -> Option<&Window<'static>> {
        match self.nics[pe].window.get() {
            Some(window) => Some(window),
            None => self.attach(pe),
        }
    }

    /// Returns the counters of this PE's operations at a PE whose memory is mapped here.
    #[inline(always)]
    pub(crate) fn counts(&self, pe: usize) -> Counts {
        self.peers[pe].counts()
    }

    /// Wakes a PE if it sleeps. The caller has made its stores to mapped memory before.
    #[inline(always)]
    pub fn wake(&self, pe: usize) {
        if let Some(window) = self.nics[pe].window.get() {
            window.ring();
        }
    }
}
