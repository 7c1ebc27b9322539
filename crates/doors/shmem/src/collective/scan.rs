// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefix sums (OpenSHMEM 1.6, "Scan": inscan and exscan).
//!
//! | data | algorithm |
//! |---|---|
//! | fit into an exchange | each member adds the contributions of lower ranks |
//! | fit into a tree's slots (248 to 1,016 bytes) | sums of ranges of ranks go up the tree; the sum of all lower ranks comes down |
//! | longer | along the *chain*: each rank gets the sum of all lower ranks from the rank below, adds its own data, and passes the sum on |
//!
//! The chain moves pieces of 1,008 bytes through two slots at each member, so all ranks work at once on long data.
//!
//! Invariants
//! 1. A slot of the chain is written for piece k only after its reader has returned the credit for piece k - 2. Pieces
//!    are numbered through all calls of a team, so the credit only grows.
//! 2. A piece of the source is read before the same piece of dest is written, so dest may be source.
//!
//! Costs: the chain takes n message latencies plus copying or adding, whichever is longer. Only neighbours synchronise.

use std::ffi::c_int;

use crate::check::Call;
use crate::collective::arguments::{Buffers, DONE, REFUSED, bytes_of};
use crate::collective::exchange::Exchange;
use crate::collective::members::{Algorithm, Members as _, TeamMembers};
use crate::collective::op::{Kernel, Operator, Sum};
use crate::collective::team_area::{AreaWord, CHAIN_BYTES, CHAIN_SLOTS};
use crate::collective::tree::{Tree, TreeBuffer};
use crate::handles::Team;
use crate::types::Element;

pub unsafe fn inscan<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int
where
    Sum: Operator<T>,
{
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    unsafe { scan(call, team, dest.cast(), source.cast(), nelems, Kernel::of::<T, Sum>(), true) }
}

pub unsafe fn exscan<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int
where
    Sum: Operator<T>,
{
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    unsafe { scan(call, team, dest.cast(), source.cast(), nelems, Kernel::of::<T, Sum>(), false) }
}

/// Scans the team's data. `whole`: the sum includes this PE's own data.
unsafe fn scan(
    call: Call,
    team: Team,
    dest: *mut u8,
    source: *const u8,
    count: usize,
    kernel: Kernel,
    whole: bool,
) -> c_int {
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    let Some(bytes) = bytes_of(call, count, kernel.size) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    if Buffers::checked(call, members.world, dest, bytes, source, bytes).is_none() {
        return REFUSED;
    }
    let scan = Scan { members: &members, dest, source, bytes, kernel, whole };
    // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped to the end of the
    // process. The clause of the scans says that they are the same or do not overlap.
    unsafe {
        match Exchange::of(&members).limit() {
            Some(limit) if bytes <= limit => scan.in_one_step(),
            None if bytes <= Tree::of(&members).limit() => scan.by_tree(),
            _ => scan.along_chain(),
        }
    }
    DONE
}

struct Scan<'a> {
    members: &'a TeamMembers<'a>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
    kernel: Kernel,
    /// Whether the sum includes this PE's own data.
    whole: bool,
}

impl Scan<'_> {
    unsafe fn in_one_step(&self) {
        let Scan { members, dest, source, bytes, kernel, whole } = *self;
        let last = members.me + usize::from(whole);
        // SAFETY: `scan` has checked source and dest for `bytes`, which a contribution holds, too.
        unsafe {
            let contributions = Exchange::of(members).contribute(source, bytes);
            if last == 0 {
                dest.write_bytes(0, bytes);
                return;
            }
            dest.copy_from_nonoverlapping(contributions.of(0), bytes);
            for member in 1..last {
                kernel.fold(dest, contributions.of(member), bytes / kernel.size);
            }
        }
    }

    unsafe fn by_tree(&self) {
        let Scan { members, dest, source, bytes, kernel, whole } = *self;
        debug_assert_eq!(members.algorithm, Algorithm::Tree);
        let mut before = TreeBuffer::uninit();
        let before = before.as_mut_ptr().cast::<u8>();
        // SAFETY: `scan` has checked source and dest for `bytes`, which a tree's buffer holds, too. Dest, which may be
        // the source, is written last.
        unsafe {
            Tree::of(members).scan(before, source, bytes, kernel);
            match (whole, members.me) {
                (true, 0) => dest.copy_from(source, bytes),
                (true, _) => kernel.combine(dest, before, source, bytes / kernel.size),
                (false, 0) => dest.write_bytes(0, bytes),
                (false, _) => dest.copy_from_nonoverlapping(before, bytes),
            }
        }
    }

    unsafe fn along_chain(&self) {
        let Scan { members, dest, source, bytes, kernel, whole } = *self;
        let mut sum = [0u8; CHAIN_BYTES];
        for done in (0..bytes).step_by(CHAIN_BYTES) {
            let piece = members.step_numbers.next_piece();
            let bytes = CHAIN_BYTES.min(bytes - done);
            let slot = members.area.chain(piece);
            // SAFETY: `scan` has checked source and dest for all bytes. A piece is whole elements, and at most the
            // payload of a slot and the size of `sum`.
            unsafe {
                let (dest, source) = (dest.add(done), source.add(done));
                if members.me == 0 {
                    sum.as_mut_ptr().copy_from_nonoverlapping(source, bytes);
                    if !whole {
                        dest.write_bytes(0, bytes);
                    }
                } else {
                    members.await_number(slot, piece);
                    sum.as_mut_ptr().copy_from_nonoverlapping(members.payload(slot), bytes);
                    kernel.fold(sum.as_mut_ptr(), source, bytes / kernel.size);
                    if !whole {
                        dest.copy_from_nonoverlapping(members.payload(slot), bytes);
                    }
                    members.world.store(members.pe(members.me - 1), members.area.word(AreaWord::Credit), piece);
                }
                if whole {
                    dest.copy_from_nonoverlapping(sum.as_ptr(), bytes);
                }
                if members.me + 1 < members.n {
                    members.await_at_least(AreaWord::Credit, piece.saturating_sub(CHAIN_SLOTS));
                    members.write_slot(members.me + 1, slot, sum.as_ptr(), bytes, piece);
                }
            }
        }
    }
}
