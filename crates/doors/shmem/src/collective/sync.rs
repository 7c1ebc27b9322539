// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sync and barrier (OpenSHMEM, "Barrier" and "Sync"). `members.rs` says which algorithms there are.
//!
//! Invariants
//! 1. A member that leaves a sync sees all stores that the members made before it: each number that is waited for was
//!    stored with release after them, and is loaded with acquire.
//! 2. A barrier also completes the operations of all contexts.

use std::ffi::c_int;

use selvedge_collectives::one_host::Pending;

use crate::check::Call;
use crate::collective::arguments::{DONE, REFUSED};
use crate::collective::by_nodes::Kind;
use crate::collective::members::{Members as _, TeamMembers};
use crate::handles::Team;
use crate::order;

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
    // A group that has ended cannot: the other algorithm waits for whoever has not come.
    match members.by_node(Kind::Sync, 0, Pending::barrier) {
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
