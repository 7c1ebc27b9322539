// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives of teams (OpenSHMEM, "Collective Routines").
//!
//! | file | what |
//! |---|---|
//! | [`crew`] | the members of a team and the way in which they meet |
//! | [`area`] | what lies where in the memory in which they meet |
//! | [`exchange`], [`tree`] | full steps: everyone sees what everyone brought; or one result comes down a tree |
//! | [`sync`] | sync and barrier |
//! | [`mod@broadcast`], [`mod@collect`], [`mod@alltoall`], [`mod@reduce`], [`scan`] | a collective each |
//! | [`op`] | what reductions do to elements |
//!
//! Data that fit travel inside of the steps. Longer data are fetched from where the program has them, between a full step
//! after which all sources are ready, and one after which nobody reads them any more: nothing large is ever put, so no
//! collective has to learn that a put of its own has arrived.
//!
//! Invariants
//! 1. A call that returns has its result in dest, and nobody reads its source any more.
//! 2. Arguments are checked before the first step. A call that is wrong at all members is refused at all.
//! 3. No memory is allocated.

pub mod alltoall;
pub mod area;
pub mod broadcast;
pub mod collect;
pub mod crew;
pub mod exchange;
pub mod op;
pub mod reduce;
pub mod scan;
pub mod sync;
pub mod tree;

use std::ffi::c_int;

pub use alltoall::{alltoall, alltoalls};
pub use broadcast::broadcast;
pub use collect::{collect, fcollect};
pub use reduce::reduce;
pub use scan::{exscan, inscan};
pub use sync::{barrier_all, sync_all};

use crate::{Call, Place, World, check};

/// What a collective returns.
pub(crate) const DONE: c_int = 0;
pub(crate) const REFUSED: c_int = -1;

/// Symmetric arguments of a call, checked.
#[derive(Clone, Copy)]
pub(crate) struct Buffers {
    pub dest: Place,
    pub source: Place,
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

/// All PEs' words, and-ed, at each of them; nobody returns before all have called.
pub(crate) fn agree(world: &World, word: u64) -> u64 {
    reduce::agree_in(&world.teams.everyone(world), word)
}

/// Bytes of so many elements.
#[inline(always)]
pub(crate) fn bytes_of(call: Call, elements: usize, size: usize) -> Option<usize> {
    let bytes = elements.checked_mul(size).filter(|bytes| *bytes <= isize::MAX as usize);
    if bytes.is_none() {
        check::refuse(call, "nelems", format_args!("{elements}: more than there can be"));
    }
    bytes
}
