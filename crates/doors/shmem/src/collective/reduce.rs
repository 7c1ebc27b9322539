// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reductions (OpenSHMEM, "Reductions").
//!
//! | data | algorithm | steps |
//! |---|---|---|
//! | fit into an exchange | each member combines all contributions | 1 |
//! | fit into a tree's slots (248 to 1,016 bytes) | combined on the way up; the result comes down | 1 |
//! | short: fetching all of them costs less than a step | each member combines all sources | 2 |
//! | longer | each member combines one block of all sources into its dest; then all fetch each other's blocks | 3 |
//!
//! Invariants
//! 1. Elements are combined in the order of ranks, by one member or by all in the same order. So the result is the same
//!    at every PE to the last bit, and the same in each run of a team with the same algorithm.
//! 2. In place (dest is source): where each member combines all, it writes dest after all have combined. In blocks,
//!    only the member that combines a block reads that block of a source, and it does so before it writes the block of
//!    its own dest; the blocks of other members are fetched into dest after all have combined theirs.
//! 3. Blocks start on multiples of 64 bytes from the start of dest, and hold whole elements.
//!
//! Costs: of n members each reads n - 1 times the data from others; in blocks, 2 (n - 1) / n times.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Range;

use selvedge_collectives::one_host::{Buffer, Pending};

use crate::check::Call;
use crate::collective::arguments::{Buffers, DONE, REFUSED, bytes_of};
use crate::collective::exchange::Exchange;
use crate::collective::members::{Members, Synchronise, TeamMembers};
use crate::collective::offload::{Kind, Offload, result_of};
use crate::collective::op::{And, Kernel, Operator};
use crate::collective::tree::{Tree, TreeBuffer};
use crate::handles::Team;
use crate::types::Element;
use crate::world::World;
use crate::world::address::{Reach, SymAddress};

pub unsafe fn reduce<T: Element, O: Operator<T>>(
    call: Call,
    team: Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
) -> c_int {
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
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
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    unsafe { reduce_among(call, &members, dest, source, count, kernel) }
}

/// # Safety
/// As the C function: `source` has `count` elements, `dest` has room for them.
pub(crate) unsafe fn reduce_among(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: *const u8,
    count: usize,
    kernel: Kernel,
) -> c_int {
    let Some(bytes) = bytes_of(call, count, kernel.size) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, members.world, dest, bytes, source, bytes) else { return REFUSED };
    if let Some(elements) = kernel.elements() {
        let buffer = Buffer { from: source, to: dest };
        // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped to the end of the
        // process. The clause of the reductions says that they are the same or do not overlap.
        let operation = || unsafe { Pending::allreduce(&elements, buffer, bytes) };
        if let Some(outcome) = Offload::of(members).complete(Kind::Reduce, bytes, operation) {
            return result_of(call, outcome);
        }
    }
    // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped to the end of the
    // process. The clause of the reductions says that they are the same or do not overlap.
    unsafe {
        if !reduce_in_one_step(members, dest, source, bytes, kernel) {
            let little = if members.steps_are_expensive() { LITTLE_BYTES_EXPENSIVE } else { LITTLE_BYTES };
            let apart = dest.cast_const() != source;
            if (bytes <= PIECE_BYTES || apart) && bytes.saturating_mul(members.n - 1) <= little {
                reduce_everywhere(members, buffers, bytes, kernel);
            } else {
                reduce_by_blocks(members, buffers, bytes, kernel);
            }
        }
    }
    DONE
}

/// Ands the words of all members. All get the result. A step.
pub(crate) fn reduce_and(members: &TeamMembers<'_>, word: u64) -> u64 {
    let mut agreed = word;
    // SAFETY: source and dest are a word each on this stack.
    let fitted = unsafe {
        reduce_in_one_step(members, (&raw mut agreed).cast(), (&raw const word).cast(), 8, Kernel::of::<u64, And>())
    };
    debug_assert!(fitted, "a word always fits");
    agreed
}

/// Ands the words of all PEs. All get the result. Returns when all PEs have called it.
pub(crate) fn reduce_and_over_pes(world: &World, word: u64) -> u64 {
    reduce_and(&TeamMembers::everyone(world), word)
}

/// Reduces in one step. Returns false if the data do not fit.
///
/// # Safety
/// `dest` can be written, and `source` read, for `bytes`; they are the same or do not overlap.
#[inline(always)]
unsafe fn reduce_in_one_step(
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
    kernel: Kernel,
) -> bool {
    let (exchange, tree) = (Exchange::of(members), Tree::of(members));
    // SAFETY: the contract of this function lets us read source and write dest. A contribution holds `bytes` of each
    // member, and a tree's buffer the tree's limit of bytes, which is at least that.
    unsafe {
        match exchange.limit() {
            Some(limit) if bytes <= limit => {
                let contributions = exchange.contribute(source, bytes);
                combine_members(members.n, dest, bytes, kernel, |member| contributions.of(member));
            }
            None if bytes <= tree.limit() => {
                let mut value = TreeBuffer::uninit();
                let value = value.as_mut_ptr().cast::<u8>();
                value.copy_from_nonoverlapping(source, bytes);
                tree.reduce(value, bytes, kernel);
                dest.copy_from_nonoverlapping(value, bytes);
            }
            _ => return false,
        }
    }
    true
}

fn block(member: usize, n: usize, bytes: usize) -> Range<usize> {
    let each = bytes.div_ceil(n).next_multiple_of(64);
    let at = |member: usize| member.saturating_mul(each).min(bytes);
    at(member)..at(member + 1)
}

/// Bytes combined at once, so that they stay in the nearest cache.
const PIECE_BYTES: usize = 8192;
type Piece = MaybeUninit<[u8; PIECE_BYTES]>;

/// Limit up to which a member fetches all sources instead of making another step; the second is for expensive steps.
const LITTLE_BYTES: usize = 6144;
const LITTLE_BYTES_EXPENSIVE: usize = 65536;

/// Each member combines all sources into dest; in place, into a buffer that it copies after all have combined.
///
/// # Safety
/// The buffers were checked for `bytes`, which are whole elements. They do not overlap, or they are the same and at
/// most a piece.
unsafe fn reduce_everywhere<M: Synchronise>(members: &M, buffers: Buffers, bytes: usize, kernel: Kernel) {
    let Buffers { dest, source } = buffers;
    let in_place = dest == source;
    let mut kept = Piece::uninit();
    members.sync();
    for at in (0..bytes).step_by(PIECE_BYTES) {
        let into = if in_place { kept.as_mut_ptr().cast() } else { dest.at(at).local() };
        // SAFETY: both buffers were checked for all bytes, so for this piece; `into` is on this stack, or in a dest
        // that does not overlap the source.
        unsafe { combine(members, source.at(at), into, PIECE_BYTES.min(bytes - at), kernel) };
    }
    members.sync();
    if in_place {
        // SAFETY: in place there is one piece at most, and `combine` has written it. It is on this stack, so it does
        // not overlap dest.
        unsafe { dest.local().copy_from_nonoverlapping(kept.as_ptr().cast(), bytes) };
    }
}

/// Each member combines a block; then all fetch the blocks of the others.
///
/// # Safety
/// The buffers were checked for `bytes`, which are whole elements. They do not overlap, or they are the same.
pub(crate) unsafe fn reduce_by_blocks<M: Synchronise>(members: &M, buffers: Buffers, bytes: usize, kernel: Kernel) {
    let (world, n, me) = (members.world(), members.n(), members.me());
    let Buffers { dest, source } = buffers;
    members.sync();
    let own = block(me, n, bytes);
    let mut result = Piece::uninit();
    for at in own.clone().step_by(PIECE_BYTES) {
        let bytes = PIECE_BYTES.min(own.end - at);
        // SAFETY: both buffers were checked for all bytes, so for this piece of whole elements; `result` is on this
        // stack and holds a piece.
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

/// Combines the data of all members at an address, in the order of ranks.
///
/// # Safety
/// The address was checked for `bytes`, which are whole elements and at most a piece. They can be written at `into`,
/// which does not overlap the address.
unsafe fn combine<M: Members>(members: &M, from: SymAddress, into: *mut u8, bytes: usize, kernel: Kernel) {
    let world = members.world();
    let (mut first, mut second) = (Piece::uninit(), Piece::uninit());
    // A member's data, mapped or copied. Those of members 0 and 1 are needed at once, so there are two buffers.
    let part = |member: usize| -> *const u8 {
        if member == members.me() {
            return from.local();
        }
        match world.reach_address(from, members.pe(member)) {
            Reach::Mapped(at) => at,
            Reach::Nic(_) => {
                let piece = if member == 0 { &mut first } else { &mut second };
                world.get(members.pe(member), from, piece.as_mut_ptr().cast(), bytes);
                piece.as_ptr().cast()
            }
        }
    };
    // SAFETY: the address was checked at every PE by its owner, so a mapped range has `bytes`, and so has a fetched
    // copy. A buffer is fetched into again only for the member after the next. `into` does not overlap any of them.
    unsafe { combine_members(members.n(), into, bytes, kernel, part) };
}

/// Combines the parts of `n` members, in the order of ranks.
///
/// # Safety
/// Each part can be read for `bytes`, which are whole elements, until the part of the member after the next is
/// requested. `into` can be written, and overlaps no part.
#[inline(always)]
unsafe fn combine_members(
    n: usize,
    into: *mut u8,
    bytes: usize,
    kernel: Kernel,
    mut part: impl FnMut(usize) -> *const u8,
) {
    let count = bytes / kernel.size;
    let first = part(0);
    // SAFETY: the contract of this function. At most two parts are in use at once: 0 and 1, then one by one.
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
