// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The handles that C programs hold: `shmem_ctx_t`, `shmem_team_t`, `shmem_ct_t`. The tables in `world/` define how an
//! index and a generation make a handle.

/// `shmem_ctx_t`: 0 is invalid, 1 the default context; other values hold an index and a generation.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ctx(pub usize);

impl Ctx {
    pub const INVALID: Ctx = Ctx(0);
    pub const DEFAULT: Ctx = Ctx(1);
}

/// `shmem_team_t`: 0 is invalid, 1 the world, 2 the PEs that share memory; other values hold an index and a generation.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Team(pub usize);

impl Team {
    pub const INVALID: Team = Team(0);
    pub const WORLD: Team = Team(1);
    pub const SHARED: Team = Team(2);
}

/// `shmem_ct_t`: a counter of counting puts; 0 is invalid.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ct(pub usize);

impl Ct {
    pub const INVALID: Ct = Ct(0);
}
