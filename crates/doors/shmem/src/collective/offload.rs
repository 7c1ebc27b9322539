// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives of a team in aggregation nodes (`docs/design/aggregation.md`), where these are at least as fast as the
//! team's own algorithms.
//!
//! | memory of the PEs | operations in the node |
//! |---|---|
//! | not directly mapped: also of several hosts, or simulated | all that the group supports |
//! | mapped, every PE has a core | reductions of more than 24 KiB / (members - 1), to 256 KiB: 2 steps instead of 3 |
//! | mapped, PEs share cores | one operation instead of two steps: reductions and fcollects too long for one step, to 1 KiB; broadcasts of 505 bytes to 8 KiB |
//!
//! Invariants
//! 1. All members choose alike: by the operation, its length, the team and the job.
//! 2. A team forms its group ([`crate::world::group`]) at the first operation that would use it.
//! 3. On one host elements are reduced in the order of members, as by the own algorithms: with the same bits.
//! 4. While a member waits it lets the NIC make progress. No other member wakes it, so it sleeps only briefly.
//!
//! Errors: a call ends with a report if a member has ended, or if members disagree on an operation. If a member has
//! ended, the team's later calls of the node fail, too.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use selvedge_collectives::one_host::{Bootstrap, Pending, log, register_mapped_memory};
use selvedge_nic::aggregation::Failure;
use selvedge_os::sync::IgnorePoison;

use crate::check::{self, Call};
use crate::collective::arguments::{DONE, REFUSED};
use crate::collective::exchange::Exchange;
use crate::collective::members::{Algorithm, Members as _, TeamMembers};
use crate::collective::op::{Kernel, Or};
use crate::collective::team_area::{HEAD_BYTES, MEMBERS_MAX, RING_BYTES, slot_bytes};
use crate::collective::tree::Tree;
use crate::waiting::LongWait;
use crate::world::World;
use crate::world::address::{PORTAL_DATA, PORTAL_MEMORY};
use crate::world::group::{Group, GroupState};
use crate::world::peer::MemoryStart;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sync,
    Reduce,
    Broadcast,
    /// All members get the bytes of all.
    Gather,
}

/// Limit of reductions, fcollects and broadcasts that are one operation of the node and faster than two steps.
const ONE_OPERATION_BYTES: usize = 1 << 10;
const ONE_BROADCAST_BYTES: usize = 8 << 10;
/// If a member reads at least this from the others, two steps and stores to all results are faster than three steps.
/// The second value is the longest such reduction: beyond it, both are limited by memory.
const LONG_BYTES: usize = 24 << 10;
const LONG_BYTES_MAX: usize = 256 << 10;

/// The values by which members choose between the node and their own algorithm; the same at all members.
struct Circumstances {
    members: usize,
    memory_mapped: bool,
    oversubscribed: bool,
    /// Bytes of each member that fit into one step of the own algorithm.
    step_bytes: usize,
}

impl Circumstances {
    #[inline(always)]
    fn prefer_node(&self, kind: Kind, bytes: usize) -> bool {
        match kind {
            _ if self.members < 2 => false,
            _ if !self.memory_mapped => true,
            Kind::Sync => false,
            Kind::Broadcast => self.oversubscribed && bytes > RING_BYTES && bytes <= ONE_BROADCAST_BYTES,
            Kind::Reduce | Kind::Gather if self.oversubscribed => {
                bytes > self.step_bytes && bytes <= ONE_OPERATION_BYTES
            }
            Kind::Reduce => bytes.saturating_mul(self.members - 1) > LONG_BYTES && bytes <= LONG_BYTES_MAX,
            Kind::Gather => false,
        }
    }
}

/// A team whose operations may go to its aggregation nodes.
#[derive(Clone, Copy)]
pub(crate) struct Offload<'a> {
    members: &'a TeamMembers<'a>,
}

impl<'a> Offload<'a> {
    #[inline(always)]
    pub fn of(members: &'a TeamMembers<'a>) -> Offload<'a> {
        Offload { members }
    }

    #[inline(always)]
    fn circumstances(self) -> Circumstances {
        Circumstances {
            members: self.members.n,
            memory_mapped: self.members.world.memory_mapped(),
            oversubscribed: self.members.world.oversubscribed(),
            step_bytes: Exchange::of(self.members).limit().unwrap_or_else(|| Tree::of(self.members).limit()),
        }
    }

    /// Carries out an operation of `bytes` of each member. `None`: the team's own algorithm does, at all members.
    #[inline(always)]
    pub(crate) fn complete(
        self,
        kind: Kind,
        bytes: usize,
        operation: impl FnOnce() -> Pending,
    ) -> Option<Result<(), Failure>> {
        match self.circumstances().prefer_node(kind, bytes) {
            true => self.complete_in_group(operation()),
            false => None,
        }
    }

    #[inline(never)]
    fn complete_in_group(self, operation: Pending) -> Option<Result<(), Failure>> {
        let mut state = self.members.group.lock().ignore_poison();
        if let GroupState::Unasked = *state {
            *state = self.find_group().map_or(GroupState::NoGroup, |group| GroupState::Group(Box::new(group)));
        }
        match &mut *state {
            GroupState::Group(group) => {
                let mut waiting = Waiting { world: self.members.world, since: None, long: LongWait::default() };
                group.complete(operation, &mut || waiting.idle())
            }
            GroupState::NoGroup | GroupState::Unasked => None,
        }
    }

    /// Forms the team's group, and logs the outcome.
    #[cold]
    fn find_group(self) -> Option<Group> {
        let formed = self.form_group();
        let name = || match self.members.number {
            0 => format!("SHMEM_TEAM_WORLD, PE {} of {}", self.members.me, self.members.n),
            1 => format!("SHMEM_TEAM_SHARED, PE {} of {}", self.members.me, self.members.n),
            number => format!("team {number}, PE {} of {}", self.members.me, self.members.n),
        };
        match &formed {
            Ok(_) if self.members.me != 0 => {}
            Ok(group) => log::info(|| {
                let when = if self.members.world.memory_mapped() { ", where these are faster" } else { "" };
                format!("{}: its collective operations go through aggregation nodes{}{when}", name(), group.extent())
            }),
            Err(why) => log::info(|| format!("{}: its collective operations are OpenSHMEM's own: {why}", name())),
        }
        formed.ok()
    }

    fn form_group(self) -> Result<Group, String> {
        let world = self.members.world;
        // All members know these conditions, so they need not agree on them. In virtual time an agreement takes time.
        if world.interface.is_simulated() && !world.process.directory().grant().exists() {
            return Err("the job has no share of aggregation nodes".into());
        }
        // Each member runs a replica of the node, so total work grows with the square of their number.
        let is_near = |member| world.nics[self.members.pe(member)].is_near;
        if self.members.n > MEMBERS_MAX && !world.interface.is_simulated() && (0..self.members.n).all(is_near) {
            return Err(format!("it has more than {MEMBERS_MAX} PEs of one host"));
        }
        let refuses = is_off().then_some("SELVEDGE_SHMEM_COLLECTIVES is 0");
        Group::form((self.members.me, self.members.n), refuses, &mut StepBootstrap(self.members))
    }
}

/// Whether the settings disable aggregation nodes for OpenSHMEM.
fn is_off() -> bool {
    static IS_OFF: OnceLock<bool> = OnceLock::new();
    *IS_OFF.get_or_init(|| !selvedge_settings::switch("SELVEDGE_SHMEM_COLLECTIVES", true))
}

/// Registers the mapped memory of the other PEs with groups. `starts` has each PE's process, and the addresses of its
/// symmetric memory and static data there.
pub(crate) fn register_memory(world: &'static World, starts: Vec<MemoryStart>) {
    let of_pe = |(pe, start): (usize, MemoryStart)| world.maps(pe).then_some((start.pid, (pe, start)));
    let of_process: BTreeMap<u32, _> = starts.into_iter().enumerate().filter_map(of_pe).collect();
    register_mapped_memory(Box::new(move |pid, address, bytes| {
        let &(pe, start) = of_process.get(&pid)?;
        let parts = [(PORTAL_MEMORY, start.root, world.root), (PORTAL_DATA, start.data, world.data.start)];
        parts.into_iter().find_map(|(portal, start, own_start)| {
            if portal == PORTAL_DATA && !world.data_mapped {
                return None;
            }
            let own = (address.wrapping_sub(start) as usize).wrapping_add(own_start);
            let place = world.find(own as *const u8, bytes).filter(|place| place.portal == portal)?;
            if pe == world.me() { Some(place.local()) } else { world.mapped_at(place, pe) }
        })
    }));
}

/// Converts the outcome of an operation to the result of a call.
#[inline(always)]
pub(crate) fn result_of(call: Call, outcome: Result<(), Failure>) -> c_int {
    match outcome {
        Ok(()) => DONE,
        Err(failure) => {
            check::report(format_args!("{call}: {failure}"));
            REFUSED
        }
    }
}

struct Waiting<'a> {
    world: &'a World,
    since: Option<Instant>,
    long: LongWait,
}

impl Waiting<'_> {
    /// The shortest wait that sleeps, and the longest sleep. A sleep is 1/`PART` of the time already waited.
    const PATIENCE: Duration = Duration::from_millis(1);
    const PART: u32 = 16;

    #[cold]
    fn idle(&mut self) {
        self.world.progress();
        // In virtual time the group itself lets time pass.
        if self.world.interface.is_simulated() {
            return;
        }
        let now = Instant::now();
        let waited = now - *self.since.get_or_insert(now);
        if waited > Self::PATIENCE {
            self.world.keep_waiting(&mut self.long);
            let until = now + (waited / Self::PART).min(Self::PATIENCE);
            // It ends at `until`, or earlier when something arrives for the NIC.
            let _ = self.world.interface.wait_watching(Some(until), || true, || None::<()>);
        }
    }
}

struct StepBootstrap<'a>(&'a TeamMembers<'a>);

impl Bootstrap for StepBootstrap<'_> {
    fn allgather(&mut self, own: &[u64]) -> Result<Vec<u64>, String> {
        let (members, words, bytes) = (self.0, own.len(), size_of_val(own));
        let mut all = vec![0u64; words * members.n];
        if members.algorithm != Algorithm::Tree && bytes <= slot_bytes(members.n) - HEAD_BYTES {
            // SAFETY: the words can be read, and fit into a slot; so each member's contribution is as long.
            unsafe {
                let contributions = Exchange::of(members).contribute(own.as_ptr().cast(), bytes);
                for (member, theirs) in all.chunks_mut(words).enumerate() {
                    theirs.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(contributions.of(member), bytes);
                }
            }
            return Ok(all);
        }
        // Each member's words are at its place among zeros, so the or of all contains the words of all.
        all[members.me * words..][..words].copy_from_slice(own);
        for piece in all.chunks_mut(Tree::of(members).limit() / size_of::<u64>()) {
            // SAFETY: the piece can be read and written, and fits into the tree's slots.
            unsafe { Tree::of(members).reduce(piece.as_mut_ptr().cast(), size_of_val(piece), Kernel::of::<u64, Or>()) };
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: Circumstances =
        Circumstances { members: 3, memory_mapped: false, oversubscribed: false, step_bytes: 56 };
    const CORES: Circumstances = Circumstances { memory_mapped: true, ..COMMANDS };
    const CROWD: Circumstances = Circumstances { oversubscribed: true, ..CORES };

    #[test]
    fn a_node_is_taken_where_it_is_faster() {
        let kinds = [Kind::Sync, Kind::Reduce, Kind::Broadcast, Kind::Gather];
        for bytes in [0, 8, 512, 1024, 4096, 1 << 20] {
            assert!(kinds.iter().all(|&kind| COMMANDS.prefer_node(kind, bytes)), "{bytes}");
        }
        let ranges = |of: &Circumstances, kind| {
            let lengths = [0, 8, 56, 57, 504, 505, 1024, 1025, 8192, 8193, 12288, 12289, 262144, 262145];
            lengths.into_iter().filter(|&bytes| of.prefer_node(kind, bytes)).collect::<Vec<_>>()
        };
        assert_eq!(ranges(&CORES, Kind::Reduce), [12289, 262144]);
        assert!([Kind::Sync, Kind::Broadcast, Kind::Gather].iter().all(|&kind| ranges(&CORES, kind).is_empty()));
        assert_eq!(ranges(&CROWD, Kind::Reduce), [57, 504, 505, 1024]);
        assert_eq!(ranges(&CROWD, Kind::Gather), [57, 504, 505, 1024]);
        assert_eq!(ranges(&CROWD, Kind::Broadcast), [505, 1024, 1025, 8192]);
        assert!(ranges(&CROWD, Kind::Sync).is_empty());
    }

    #[test]
    fn one_member_has_no_node() {
        for (members, node) in [(1, false), (2, true), (1024, true)] {
            assert_eq!(Circumstances { members, ..COMMANDS }.prefer_node(Kind::Reduce, 8), node, "{members}");
        }
    }
}
