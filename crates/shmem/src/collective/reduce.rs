// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reductions (OpenSHMEM, "Reductions").
//!
//! | data | how | full steps |
//! |---|---|---|
//! | that members bring to an exchange | each combines what it sees | 1 |
//! | that fit into a tree's slots (248 to 1,016 bytes) | combined on the way up; the result comes down | 1 |
//! | so little that fetching all of it costs less than a step | each member combines all sources | 2 |
//! | longer | each member combines one block of all sources into its dest; then all fetch each other's blocks | 3 |
//!
//! Invariants
//! 1. Elements are combined in the order of ranks, by one member or by all in the same way: results are the same at every
//!    PE, down to the last bit, and the same in each run of a team that meets in the same way.
//! 2. In place (dest is source): where each combines all, dest is written when all have. In blocks, a block of a source is
//!    read only by the member whose block it is, before it writes the same block of its own dest; blocks of other members
//!    are fetched into dest when all have combined theirs.
//! 3. Blocks start on multiples of 64 bytes from the start of dest, and hold whole elements.
//!
//! Costs: of n members each reads n - 1 times the data from others; in blocks, 2 (n - 1) / n times.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Range;

use crate::collective::crew::{Crew, Members};
use crate::collective::op::{And, Kernel, Operator};
use crate::collective::tree::Load;
use crate::collective::{Buffers, DONE, REFUSED, bytes_of};
use crate::types::Element;
use crate::{Call, Place, Reach, Team, team};

pub unsafe fn reduce<T: Element, O: Operator<T>>(
    call: Call,
    team: Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { reduce_elements(call, team, dest.cast(), source.cast(), nelems, Kernel::of::<T, O>()) }
}

unsafe fn reduce_elements(
    call: Call,
    team: Team,
    dest: *mut u8,
    source: *const u8,
    count: usize,
    kernel: Kernel,
) -> c_int {
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    // SAFETY: the caller's promise.
    unsafe { reduce_among(call, &crew, dest, source, count, kernel) }
}

/// # Safety
/// As of the C function.
pub(crate) unsafe fn reduce_among(
    call: Call,
    crew: &Crew<'_>,
    dest: *mut u8,
    source: *const u8,
    count: usize,
    kernel: Kernel,
) -> c_int {
    let Some(bytes) = bytes_of(call, count, kernel.size) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, crew.world, dest, bytes, source, bytes) else { return REFUSED };
    // SAFETY: both are symmetric memory of this PE, and apart from each other or the same.
    unsafe {
        if !crew.reduce_seen(dest, source, bytes, kernel) {
            let little = if crew.steps_are_dear() { LITTLE_BYTES_DEAR } else { LITTLE_BYTES };
            let apart = dest.cast_const() != source;
            if (bytes <= PIECE_BYTES || apart) && bytes.saturating_mul(crew.n - 1) <= little {
                reduce_everywhere(crew, buffers, bytes, kernel);
            } else {
                reduce_by_blocks(crew, buffers, bytes, kernel);
            }
        }
    }
    DONE
}

/// All members' words, and-ed, at each of them. A full step.
pub(crate) fn agree_in(crew: &Crew<'_>, word: u64) -> u64 {
    let mut agreed = word;
    // SAFETY: one word each.
    let seen =
        unsafe { crew.reduce_seen((&raw mut agreed).cast(), (&raw const word).cast(), 8, Kernel::of::<u64, And>()) };
    debug_assert!(seen, "a word always fits");
    agreed
}

impl Crew<'_> {
    /// In one full step, if the data fit into one.
    ///
    /// # Safety
    /// `dest` can be written, and `source` be read.
    #[inline(always)]
    unsafe fn reduce_seen(&self, dest: *mut u8, source: *const u8, bytes: usize, kernel: Kernel) -> bool {
        // SAFETY: the caller's; a view holds as many bytes of each member.
        unsafe {
            match self.room() {
                Some(room) if bytes <= room => {
                    let view = self.exchange(source, bytes);
                    kernel_over(self.n, dest, bytes, kernel, |member| view.of(member));
                }
                None if bytes <= self.tree_room() => {
                    let mut value = Load::uninit();
                    let value = value.as_mut_ptr().cast::<u8>();
                    value.copy_from_nonoverlapping(source, bytes);
                    self.reduce_in_tree(value, bytes, kernel);
                    dest.copy_from_nonoverlapping(value, bytes);
                }
                _ => return false,
            }
        }
        true
    }
}

/// A member's block, in bytes.
fn block(member: usize, n: usize, bytes: usize) -> Range<usize> {
    let each = bytes.div_ceil(n).next_multiple_of(64);
    let at = |member: usize| member.saturating_mul(each).min(bytes);
    at(member)..at(member + 1)
}

/// What is combined at once: it stays in the nearest cache.
const PIECE_BYTES: usize = 8192;
type Piece = MaybeUninit<[u8; PIECE_BYTES]>;

/// What a member rather fetches from the others in all than make a step more, and where steps are dear.
const LITTLE_BYTES: usize = 6144;
const LITTLE_BYTES_DEAR: usize = 65536;

/// Each member combines all sources: into dest, or if that is the source, into dest when all have.
///
/// # Safety
/// The buffers were checked for `bytes`, whole elements, and are apart from each other, or the same and at most a piece.
unsafe fn reduce_everywhere<M: Members>(members: &M, buffers: Buffers, bytes: usize, kernel: Kernel) {
    let Buffers { dest, source } = buffers;
    let in_place = dest == source;
    let mut kept = Piece::uninit();
    members.sync();
    for at in (0..bytes).step_by(PIECE_BYTES) {
        let into = if in_place { kept.as_mut_ptr().cast() } else { dest.at(at).local() };
        // SAFETY: the caller's promise: a piece.
        unsafe { combine(members, source.at(at), into, PIECE_BYTES.min(bytes - at), kernel) };
    }
    members.sync();
    if in_place {
        // SAFETY: one piece, which `combine` has written.
        unsafe { dest.local().copy_from_nonoverlapping(kept.as_ptr().cast(), bytes) };
    }
}

/// Each member combines a block; then all fetch all.
///
/// # Safety
/// The buffers were checked for `bytes`, whole elements, and are apart from each other or the same.
pub(crate) unsafe fn reduce_by_blocks<M: Members>(members: &M, buffers: Buffers, bytes: usize, kernel: Kernel) {
    let (world, n, me) = (members.world(), members.n(), members.me());
    let Buffers { dest, source } = buffers;
    members.sync();
    let own = block(me, n, bytes);
    let mut result = Piece::uninit();
    for at in own.clone().step_by(PIECE_BYTES) {
        let bytes = PIECE_BYTES.min(own.end - at);
        // SAFETY: a piece of whole elements, at places that were checked.
        unsafe {
            combine(members, source.at(at), result.as_mut_ptr().cast(), bytes, kernel);
            dest.at(at).local().copy_from_nonoverlapping(result.as_ptr().cast(), bytes);
        }
    }
    members.sync();
    for member in members.others() {
        let block = block(member, n, bytes);
        if !block.is_empty() {
            let place = dest.at(block.start);
            world.get(members.pe(member), place, place.local(), block.len());
        }
    }
    members.sync();
}

/// What all members have at a place, combined in the order of ranks.
///
/// # Safety
/// The place was checked for `bytes`, whole elements and at most a piece, which can be written at `into`, apart from it.
unsafe fn combine<M: Members>(members: &M, from: Place, into: *mut u8, bytes: usize, kernel: Kernel) {
    let world = members.world();
    let (mut first, mut second) = (Piece::uninit(), Piece::uninit());
    // Where it is mapped here, and else a copy of it; those of members 0 and 1 are needed at once.
    let part = |member: usize| -> *const u8 {
        if member == members.me() {
            return from.local();
        }
        match world.reach_place(from, members.pe(member)) {
            Reach::InPlace(at) => at,
            Reach::Nic(_) => {
                let piece = if member == 0 { &mut first } else { &mut second };
                world.get(members.pe(member), from, piece.as_mut_ptr().cast(), bytes);
                piece.as_ptr().cast()
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe { kernel_over(members.n(), into, bytes, kernel, part) };
}

/// What `n` members have, combined in the order of ranks.
///
/// # Safety
/// Each part can be read for `bytes`, whole elements, until that of the next member but one is asked for; `into` can be
/// written, and is apart from all.
#[inline(always)]
unsafe fn kernel_over(n: usize, into: *mut u8, bytes: usize, kernel: Kernel, mut part: impl FnMut(usize) -> *const u8) {
    let count = bytes / kernel.size;
    let first = part(0);
    // SAFETY: the caller's promise.
    unsafe {
        if n == 1 {
            into.copy_from_nonoverlapping(first, bytes);
            return;
        }
        kernel.combine(into, first, part(1), count);
        for member in 2..n {
            kernel.fold(into, part(member), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_cover_everything_once() {
        for n in [1, 2, 3, 7, 8, 64, 1024] {
            for bytes in [1, 16, 63, 64, 65, 4096, 4097, 100_000, 1 << 20] {
                let mut end = 0;
                for member in 0..n {
                    let block = block(member, n, bytes);
                    assert_eq!(block.start, end, "{member} of {n}, {bytes} bytes");
                    assert!(block.is_empty() || block.start % 64 == 0);
                    end = block.end;
                }
                assert_eq!(end, bytes);
            }
        }
    }
}
