// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sync and barrier (OpenSHMEM, "Barrier" and "Sync"). How the members meet: [`crate::collective::crew`].
//!
//! A sync promises that what its members stored before is seen by those who leave it: each number that is waited for was
//! stored after all earlier stores, and is read with acquire. A barrier also completes what was started on the contexts.

use std::ffi::c_int;

use crate::collective::crew::Members as _;
use crate::collective::{DONE, REFUSED};
use crate::{Call, Team, order, team};

/// `shmem_team_sync`.
#[inline]
pub fn sync(call: Call, team: Team) -> c_int {
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    crew.sync();
    DONE
}

#[inline]
pub fn sync_all(call: Call) {
    sync(call, Team::WORLD);
}

#[inline]
pub fn barrier_all(call: Call) {
    let Some(crew) = team::crew(call, Team::WORLD) else { return };
    order::quiet_all(crew.world);
    crew.sync();
}
