// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All-to-all, plain and strided (OpenSHMEM, "Alltoall" and "Alltoalls").
//!
//! Blocks that fit go through an exchange or a tree: each to its member where members write to each other, all of them to
//! all where they meet otherwise. Longer ones are fetched by the member that they are for, between two full steps. Strided blocks are fetched
//! by pieces that hold several elements and what lies between them, and spread out from there.
//!
//! Invariant: block l of member k's source becomes block k of member l's dest. With strides sst and dst, element e of block
//! b is at (b nelems + e) sst and (b nelems + e) dst.
//!
//! Costs: one full step; or two and n - 1 fetches at each member. Strided: a fetch for each 4 KiB of source, or for
//! each element where they are further apart.

use std::ffi::c_int;

use crate::collective::crew::{Crew, Members, Way};
use crate::collective::exchange::View;
use crate::collective::tree::Load;
use crate::collective::{Buffers, DONE, REFUSED, bytes_of};
use crate::types::Element;
use crate::{Call, Place, Team, check, team};

pub unsafe fn alltoall<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the caller's promise.
    bytes.map_or(REFUSED, |bytes| unsafe { alltoall_bytes(call, team, dest.cast(), source.cast(), bytes) })
}

unsafe fn alltoall_bytes(call: Call, team: Team, dest: *mut u8, source: *const u8, bytes: usize) -> c_int {
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    // SAFETY: the caller's promise.
    unsafe { alltoall_among(call, &crew, dest, source, bytes) }
}

/// # Safety
/// As of the C function.
pub(crate) unsafe fn alltoall_among(
    call: Call,
    crew: &Crew<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
) -> c_int {
    let Some(all) = bytes_of(call, bytes, crew.n) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, crew.world, dest, all, source, all) else { return REFUSED };
    // SAFETY: both are symmetric memory of this PE.
    unsafe {
        if !crew.alltoall_seen(dest, source, bytes) {
            turn(crew, buffers.source, dest, bytes);
        }
    }
    DONE
}

impl Crew<'_> {
    /// In one full step, if the blocks fit into one.
    unsafe fn alltoall_seen(&self, dest: *mut u8, source: *const u8, bytes: usize) -> bool {
        let row = bytes * self.n;
        // SAFETY: the caller's; what a view holds of a member is as long as what each brought.
        unsafe {
            let from_view = |view: View, at: usize| {
                for member in 0..self.n {
                    dest.add(member * bytes).copy_from_nonoverlapping(view.of(member).add(at), bytes);
                }
            };
            match (self.way, self.room()) {
                (Way::Direct, Some(room)) if bytes <= room => {
                    from_view(self.exchange_directly(source, bytes, bytes), 0);
                }
                (Way::Central, Some(room)) if row <= room => from_view(self.exchange(source, row), self.me * bytes),
                (Way::Tree, _) if row.saturating_mul(self.n) <= self.tree_room() => {
                    let mut seen = Load::uninit();
                    let seen = seen.as_mut_ptr().cast::<u8>();
                    seen.add(self.me * row).copy_from_nonoverlapping(source, row);
                    self.gather_in_tree(seen, |member| member * row);
                    for member in 0..self.n {
                        let from = seen.add(member * row + self.me * bytes);
                        dest.add(member * bytes).copy_from_nonoverlapping(from, bytes);
                    }
                }
                _ => return false,
            }
        }
        true
    }
}

/// Fetches this PE's block from each member's source, between two syncs.
///
/// # Safety
/// `dest` can be written for all blocks.
pub(crate) unsafe fn turn<M: Members>(members: &M, source: Place, dest: *mut u8, bytes: usize) {
    let source = source.at(members.me() * bytes);
    members.sync();
    let own = dest.wrapping_add(members.me() * bytes);
    // SAFETY: the caller's promise. They may be the same place.
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
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    let shape = Strides::checked(call, &crew, (dest.cast(), dst), (source.cast(), sst), nelems, size_of::<T>());
    // SAFETY: checked.
    shape.map_or(REFUSED, |shape| unsafe {
        turn_strided(&crew, &shape);
        DONE
    })
}

/// Blocks with gaps in them, checked.
pub(crate) struct Strides {
    dest: *mut u8,
    source: Option<Place>,
    /// Elements of a block, bytes of an element, and bytes from one to the next.
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
                check::refuse(call, argument, format_args!("{stride}: wanted at least 1"));
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

/// What is fetched at once of a strided block.
const PIECE_BYTES: usize = 4096;

/// Fetches this PE's strided block from each member's source, between two syncs.
///
/// # Safety
/// The shape was checked for these members, and dest may be written.
pub(crate) unsafe fn turn_strided<M: Members>(members: &M, shape: &Strides) {
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
                // SAFETY: within the piece, and within what was checked of dest.
                unsafe {
                    let from = piece.as_ptr().add(element * source_apart);
                    dest.add((done + element) * dest_apart).copy_from_nonoverlapping(from, size);
                }
            }
        }
    }
    members.sync();
}
