// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sync and barrier (OpenSHMEM, "Barrier" and "Sync"). The algorithms are in `members.rs`.
//!
//! Invariants
//! 1. A member that leaves a sync sees all stores that the members made before it: each awaited number was stored with
//!    release after them, and is loaded with acquire.
//! 2. A barrier also completes the operations of all contexts.

use std::ffi::c_int;

use selvedge_collectives::one_host::Pending;

use crate::check::Call;
use crate::collective::arguments::{DONE, REFUSED};
use crate::collective::exchange::Exchange;
use crate::collective::members::{Algorithm, Synchronise, TeamMembers};
use crate::collective::offload::{Kind, Offload};
use crate::collective::tree::Tree;
use crate::handles::Team;
use crate::order;

impl Synchronise for TeamMembers<'_> {
    #[inline(always)]
    fn sync(&self) {
        match self.algorithm {
            Algorithm::Direct => Exchange::of(self).sync_directly(),
            Algorithm::Central => Exchange::of(self).sync_centrally(),
            Algorithm::Tree => Tree::of(self).sync(),
        }
    }
}

/// `shmem_team_sync`.
#[inline]
pub fn sync(call: Call, team: Team) -> c_int {
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    sync_members(&members);
    DONE
}

/// Returns when all members have called it.
#[inline(always)]
pub(crate) fn sync_members(members: &TeamMembers<'_>) {
    // A group that has ended cannot sync. The other algorithm waits for members that have not arrived.
    match Offload::of(members).complete(Kind::Sync, 0, Pending::barrier) {
        Some(Ok(())) => {}
        _ => members.sync(),
    }
}

#[inline]
pub fn sync_all(call: Call) {
    sync(call, Team::WORLD);
}

#[inline]
pub fn barrier_all(call: Call) {
    let Some(members) = TeamMembers::find(call, Team::WORLD) else { return };
    order::quiet_all(members.world);
    sync_members(&members);
}
