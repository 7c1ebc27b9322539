// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives of teams (OpenSHMEM, "Collective Routines").
//!
//! | file | subject |
//! |---|---|
//! | [`arguments`] | the checked arguments of a call, and its results |
//! | [`op`] | the operations of reductions on elements |
//! | [`team_area`] | the layout of the memory that members use |
//! | [`members`] | the members of a team, their slots and waits, and the choice of the algorithm |
//! | [`exchange`], [`tree`] | steps: every member gets all contributions; or one result comes down a tree |
//! | [`offload`] | operations in aggregation nodes |
//! | [`sync`] | sync and barrier |
//! | [`mod@broadcast`], [`mod@collect`], [`mod@alltoall`], [`mod@reduce`], [`scan`] | a collective each |
//!
//! Each file uses only those above it.
//!
//! Short data travel inside of the steps. Long data are fetched from the program's source, between a step after which
//! all sources are ready, and a step after which they are no longer read. No collective puts long data, so none waits
//! for its own puts to arrive.
//!
//! Invariants
//! 1. When a call returns, its result is in dest, and no member reads its source any more.
//! 2. Arguments are checked before the first step. A call that is wrong at all members is refused at all.
//! 3. No memory is allocated.

pub mod alltoall;
pub(crate) mod arguments;
pub mod broadcast;
pub mod collect;
pub mod exchange;
pub mod members;
pub(crate) mod offload;
pub mod op;
pub mod reduce;
pub mod scan;
pub mod sync;
pub mod team_area;
pub mod tree;

pub use alltoall::{alltoall, alltoalls};
pub use broadcast::broadcast;
pub use collect::{collect, fcollect};
pub use reduce::reduce;
pub use scan::{exscan, inscan};
pub use sync::{barrier_all, sync_all};
