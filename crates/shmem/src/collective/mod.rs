// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives of teams (OpenSHMEM, "Collective Routines").
//!
//! | file | what |
//! |---|---|
//! | [`members`] | the members of a team, and the algorithm by which they synchronise |
//! | [`team_area`] | the layout of the memory that they use |
//! | [`exchange`], [`tree`] | steps: every member gets all contributions; or one result comes down a tree |
//! | [`sync`] | sync and barrier |
//! | [`mod@broadcast`], [`mod@collect`], [`mod@alltoall`], [`mod@reduce`], [`scan`] | a collective each |
//! | [`op`] | the operations of reductions on elements |
//!
//! Short data travel inside of the steps. Long data are fetched from the program's source, between a step after which
//! all sources are ready, and a step after which no member reads them any more. No collective puts long data, so none
//! has to wait for a put of its own to arrive.
//!
//! Invariants
//! 1. When a call returns, its result is in dest, and no member reads its source any more.
//! 2. Arguments are checked before the first step. A call that is wrong at all members is refused at all.
//! 3. No memory is allocated.

pub mod alltoall;
pub mod broadcast;
pub mod collect;
pub mod exchange;
pub mod members;
pub mod op;
pub mod reduce;
pub mod scan;
pub mod sync;
pub mod team_area;
pub mod tree;

use std::ffi::c_int;

pub use alltoall::{alltoall, alltoalls};
pub use broadcast::broadcast;
pub use collect::{collect, fcollect};
pub use reduce::reduce;
pub use scan::{exscan, inscan};
pub use sync::{barrier_all, sync_all};

use crate::check::{self, Call};
use crate::world::World;
use crate::world::address::SymAddress;

/// The results of a collective.
pub(crate) const DONE: c_int = 0;
pub(crate) const REFUSED: c_int = -1;

/// The checked symmetric arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub dest: SymAddress,
    pub source: SymAddress,
}

impl Buffers {
    #[inline(always)]
    pub fn checked(
        call: Call,
        world: &World,
        dest: *mut u8,
        dest_bytes: usize,
        source: *const u8,
        source_bytes: usize,
    ) -> Option<Buffers> {
        let dest = world.sym(call, "dest", dest, dest_bytes)?;
        let source = world.sym(call, "source", source, source_bytes)?;
        Some(Buffers { dest, source })
    }
}

/// The words of all PEs, and-ed, at each of them. Returns when all PEs have called it.
pub(crate) fn and_across_pes(world: &World, word: u64) -> u64 {
    reduce::and_across(&members::TeamMembers::everyone(world), word)
}

/// Bytes of so many elements. None: it has been reported.
#[inline(always)]
pub(crate) fn bytes_of(call: Call, elements: usize, size: usize) -> Option<usize> {
    let bytes = elements.checked_mul(size).filter(|bytes| *bytes <= isize::MAX as usize);
    if bytes.is_none() {
        check::refuse(call, "nelems", format_args!("{elements}: more than there can be"));
    }
    bytes
}
