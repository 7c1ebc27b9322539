// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The checked arguments of a collective call, and its results (OpenSHMEM, "Collective Routines").

use std::ffi::c_int;

use crate::check::{self, Call};
use crate::world::World;
use crate::world::address::SymAddress;

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

/// Bytes of `elements`. `None`: it has been reported.
#[inline(always)]
pub(crate) fn bytes_of(call: Call, elements: usize, size: usize) -> Option<usize> {
    let bytes = elements.checked_mul(size).filter(|bytes| *bytes <= isize::MAX as usize);
    if bytes.is_none() {
        check::refuse(call, "nelems", format_args!("{elements}: more bytes than an address space holds"));
    }
    bytes
}
