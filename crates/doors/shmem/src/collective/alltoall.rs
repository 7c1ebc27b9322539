// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All-to-all, plain and strided (OpenSHMEM, "Alltoall" and "Alltoalls").
//!
//! Blocks that fit go through an exchange or a tree. With the direct algorithm a member writes each block to its
//! receiver; else it contributes all blocks, and each member picks its own. Receivers fetch longer blocks between two
//! steps. Strided blocks are fetched in pieces that hold several elements and the gaps between them, and are scattered
//! from there.
//!
//! Invariant: block l of member k's source becomes block k of member l's dest. With strides sst and dst, element e of
//! block b is at (b nelems + e) sst and (b nelems + e) dst.
//!
//! Costs: one step; or two, and n - 1 fetches at each member. Strided: a fetch for each 4 KiB of source, or for each
//! element if the elements are further apart.

use std::ffi::c_int;

use crate::check::{self, Call};
use crate::collective::arguments::{Buffers, DONE, REFUSED, bytes_of};
use crate::collective::exchange::{Contributions, Exchange};
use crate::collective::members::{Algorithm, Members, Synchronise, TeamMembers};
use crate::collective::tree::{Tree, TreeBuffer};
use crate::handles::Team;
use crate::types::Element;
use crate::world::address::SymAddress;

pub unsafe fn alltoall<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the contract of the C function: `source` has `nelems` elements for each member, and so has `dest`.
    bytes.map_or(REFUSED, |bytes| unsafe { alltoall_bytes(call, team, dest.cast(), source.cast(), bytes) })
}

unsafe fn alltoall_bytes(call: Call, team: Team, dest: *mut u8, source: *const u8, bytes: usize) -> c_int {
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    // SAFETY: the contract of the C function: `source` has `nelems` elements for each member, and so has `dest`.
    unsafe { alltoall_among(call, &members, dest, source, bytes) }
}

/// # Safety
/// As the C function: `source` has `bytes` for each member, and `dest` has room for them.
pub(crate) unsafe fn alltoall_among(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
) -> c_int {
    let Some(all) = bytes_of(call, bytes, members.n) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, members.world, dest, all, source, all) else { return REFUSED };
    // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped.
    unsafe {
        if !alltoall_in_one_step(members, dest, source, bytes) {
            fetch_blocks(members, buffers.source, dest, bytes);
        }
    }
    DONE
}

/// Exchanges the blocks in one step. Returns false if they do not fit.
unsafe fn alltoall_in_one_step(members: &TeamMembers<'_>, dest: *mut u8, source: *const u8, bytes: usize) -> bool {
    let (exchange, tree) = (Exchange::of(members), Tree::of(members));
    let row = bytes * members.n;
    // SAFETY: the caller has checked source and dest for a block of each member. A contribution is as long as each
    // member's source; a tree's buffer holds its limit of bytes, and the blocks fit.
    unsafe {
        let copy_blocks = |contributions: Contributions, at: usize| {
            for member in 0..members.n {
                dest.add(member * bytes).copy_from_nonoverlapping(contributions.of(member).add(at), bytes);
            }
        };
        match (members.algorithm, exchange.limit()) {
            (Algorithm::Direct, Some(limit)) if bytes <= limit => {
                copy_blocks(exchange.contribute_directly(source, bytes, bytes), 0);
            }
            (Algorithm::Central, Some(limit)) if row <= limit => {
                copy_blocks(exchange.contribute(source, row), members.me * bytes)
            }
            (Algorithm::Tree, _) if row.saturating_mul(members.n) <= tree.limit() => {
                let mut gathered = TreeBuffer::uninit();
                let gathered = gathered.as_mut_ptr().cast::<u8>();
                gathered.add(members.me * row).copy_from_nonoverlapping(source, row);
                tree.gather(gathered, |member| member * row);
                for member in 0..members.n {
                    let from = gathered.add(member * row + members.me * bytes);
                    dest.add(member * bytes).copy_from_nonoverlapping(from, bytes);
                }
            }
            _ => return false,
        }
    }
    true
}

/// Fetches this PE's block from each member's source, between two syncs.
///
/// # Safety
/// `dest` was found to be symmetric memory of this PE, for a block of each member.
pub(crate) unsafe fn fetch_blocks<M: Synchronise>(members: &M, source: SymAddress, dest: *mut u8, bytes: usize) {
    let source = source.at(members.me() * bytes);
    members.sync();
    let own = dest.wrapping_add(members.me() * bytes);
    // SAFETY: the source was checked for all blocks, and the contract of this function says that `dest` was. They may
    // be the same range, which `copy_from` allows.
    unsafe { own.copy_from(source.local(), bytes) };
    for member in members.others() {
        members.world().get(members.pe(member), source, dest.wrapping_add(member * bytes), bytes);
    }
    members.sync();
}

pub unsafe fn alltoalls<T: Element>(
    call: Call,
    team: Team,
    dest: *mut T,
    source: *const T,
    dst: isize,
    sst: isize,
    nelems: usize,
) -> c_int {
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    let shape = Strides::checked(call, &members, (dest.cast(), dst), (source.cast(), sst), nelems, size_of::<T>());
    // SAFETY: `Strides::checked` has found all of the strided source and dest in symmetric memory.
    shape.map_or(REFUSED, |shape| unsafe {
        fetch_strided_blocks(&members, &shape);
        DONE
    })
}

/// Checked blocks with gaps between their elements.
pub(crate) struct Strides {
    dest: *mut u8,
    source: Option<SymAddress>,
    /// Elements of a block, bytes of an element, and bytes from one element to the next.
    nelems: usize,
    size: usize,
    dest_apart: usize,
    source_apart: usize,
}

impl Strides {
    pub(crate) fn checked<M: Members>(
        call: Call,
        members: &M,
        (dest, dst): (*mut u8, isize),
        (source, sst): (*const u8, isize),
        nelems: usize,
        size: usize,
    ) -> Option<Strides> {
        for (argument, stride) in [("dst", dst), ("sst", sst)] {
            if stride < 1 {
                check::refuse(call, argument, format_args!("{stride}: must be at least 1"));
                return None;
            }
        }
        let dest_apart = bytes_of(call, dst as usize, size)?;
        let source_apart = bytes_of(call, sst as usize, size)?;
        let mut strides = Strides { dest, source: None, nelems, size, dest_apart, source_apart };
        if nelems > 0 {
            let last = bytes_of(call, nelems, members.n())? - 1;
            let span = |apart| bytes_of(call, last, apart)?.checked_add(size);
            let buffers =
                Buffers::checked(call, members.world(), dest, span(dest_apart)?, source, span(source_apart)?)?;
            strides.source = Some(buffers.source);
        }
        Some(strides)
    }
}

const PIECE_BYTES: usize = 4096;

/// Fetches this PE's strided block from each member's source, between two syncs.
///
/// # Safety
/// The strides were checked for these members.
pub(crate) unsafe fn fetch_strided_blocks<M: Synchronise>(members: &M, shape: &Strides) {
    let Some(source) = shape.source else { return };
    let Strides { dest, nelems, size, dest_apart, source_apart, .. } = *shape;
    let first = source.at(members.me() * nelems * source_apart);
    let at_once = if source_apart > PIECE_BYTES - size { 1 } else { (PIECE_BYTES - size) / source_apart + 1 };
    let mut piece = [0u8; PIECE_BYTES];
    members.sync();
    for member in members.others().chain([members.me()]) {
        let dest = dest.wrapping_add(member * nelems * dest_apart);
        for done in (0..nelems).step_by(at_once) {
            let count = at_once.min(nelems - done);
            let bytes = (count - 1) * source_apart + size;
            members.world().get(members.pe(member), first.at(done * source_apart), piece.as_mut_ptr(), bytes);
            for element in 0..count {
                // SAFETY: a piece holds `count` elements at their distance. `Strides::checked` has found the elements
                // of dest in symmetric memory, and the piece is on this stack, so the two do not overlap.
                unsafe {
                    let from = piece.as_ptr().add(element * source_apart);
                    dest.add((done + element) * dest_apart).copy_from_nonoverlapping(from, size);
                }
            }
        }
    }
    members.sync();
}
