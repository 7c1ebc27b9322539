// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Prefix sums (OpenSHMEM 1.6, "Scan": inscan and exscan).
//!
//! | data | how |
//! |---|---|
//! | that members bring to an exchange | each adds up what lower ranks brought |
//! | that fit into a tree's slots (248 to 1,016 bytes) | ranges climb, what lies before them descends |
//! | longer | along the *chain*: each rank takes what lies before it from the rank below, adds its own, and hands that on |
//!
//! The chain moves pieces of 1,008 bytes through two slots at each member, so that all ranks work at once on long data, each
//! byte crosses once, and no more memory is needed than that.
//!
//! Invariants
//! 1. A slot of the chain is written for piece k when its reader has said that it took piece k - 2 (its credit). Pieces are
//!    numbered through all calls of a team, so the credit is never set back.
//! 2. A piece of the source is read before the same piece of dest is written: in-place scans are right.
//!
//! Costs: the chain takes n crossings and the longest of copying or adding, and synchronises nobody but neighbours.

use std::ffi::c_int;

use crate::collective::area::{CHAIN_BYTES, CHAIN_SLOTS, Word};
use crate::collective::crew::{Crew, Members as _, Way};
use crate::collective::op::{Kernel, Operator, Sum};
use crate::collective::tree::Load;
use crate::collective::{Buffers, DONE, REFUSED, bytes_of};
use crate::types::Element;
use crate::{Call, Team, team};

pub unsafe fn inscan<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int
where
    Sum: Operator<T>,
{
    // SAFETY: the caller's promise.
    unsafe { scan(call, team, dest.cast(), source.cast(), nelems, Kernel::of::<T, Sum>(), true) }
}

pub unsafe fn exscan<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int
where
    Sum: Operator<T>,
{
    // SAFETY: the caller's promise.
    unsafe { scan(call, team, dest.cast(), source.cast(), nelems, Kernel::of::<T, Sum>(), false) }
}

/// `whole`: with this PE's own.
unsafe fn scan(
    call: Call,
    team: Team,
    dest: *mut u8,
    source: *const u8,
    count: usize,
    kernel: Kernel,
    whole: bool,
) -> c_int {
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    let Some(bytes) = bytes_of(call, count, kernel.size) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    if Buffers::checked(call, crew.world, dest, bytes, source, bytes).is_none() {
        return REFUSED;
    }
    // SAFETY: both are symmetric memory of this PE, and apart from each other or the same.
    unsafe {
        match crew.room() {
            Some(room) if bytes <= room => crew.scan_seen(dest, source, bytes, kernel, whole),
            None if bytes <= crew.tree_room() => crew.scan_by_tree(dest, source, bytes, kernel, whole),
            _ => crew.scan_along_chain(dest, source, bytes, kernel, whole),
        }
    }
    DONE
}

impl Crew<'_> {
    unsafe fn scan_seen(&self, dest: *mut u8, source: *const u8, bytes: usize, kernel: Kernel, whole: bool) {
        let last = self.me + usize::from(whole);
        // SAFETY: the caller's promise; the view holds as many bytes of each member.
        unsafe {
            let view = self.exchange(source, bytes);
            if last == 0 {
                dest.write_bytes(0, bytes);
                return;
            }
            dest.copy_from_nonoverlapping(view.of(0), bytes);
            for member in 1..last {
                kernel.fold(dest, view.of(member), bytes / kernel.size);
            }
        }
    }

    unsafe fn scan_by_tree(&self, dest: *mut u8, source: *const u8, bytes: usize, kernel: Kernel, whole: bool) {
        debug_assert_eq!(self.way, Way::Tree);
        let mut before = Load::uninit();
        let before = before.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise; a load holds as many. Dest, which may be the source, is written last.
        unsafe {
            self.scan_in_tree(before, source, bytes, kernel);
            match (whole, self.me) {
                (true, 0) => dest.copy_from(source, bytes),
                (true, _) => kernel.combine(dest, before, source, bytes / kernel.size),
                (false, 0) => dest.write_bytes(0, bytes),
                (false, _) => dest.copy_from_nonoverlapping(before, bytes),
            }
        }
    }

    unsafe fn scan_along_chain(&self, dest: *mut u8, source: *const u8, bytes: usize, kernel: Kernel, whole: bool) {
        let mut sum = [0u8; CHAIN_BYTES];
        for done in (0..bytes).step_by(CHAIN_BYTES) {
            let piece = self.next_piece();
            let bytes = CHAIN_BYTES.min(bytes - done);
            let slot = self.area.chain(piece);
            // SAFETY: the caller's promise; a piece is at most CHAIN_BYTES and whole elements.
            unsafe {
                let (dest, source) = (dest.add(done), source.add(done));
                if self.me == 0 {
                    sum.as_mut_ptr().copy_from_nonoverlapping(source, bytes);
                    if !whole {
                        dest.write_bytes(0, bytes);
                    }
                } else {
                    self.await_number(slot, piece);
                    sum.as_mut_ptr().copy_from_nonoverlapping(self.content(slot), bytes);
                    kernel.fold(sum.as_mut_ptr(), source, bytes / kernel.size);
                    if !whole {
                        dest.copy_from_nonoverlapping(self.content(slot), bytes);
                    }
                    self.world.store(self.pe(self.me - 1), self.area.word(Word::Credit), piece);
                }
                if whole {
                    dest.copy_from_nonoverlapping(sum.as_ptr(), bytes);
                }
                if self.me + 1 < self.n {
                    self.await_at_least(Word::Credit, piece.saturating_sub(CHAIN_SLOTS));
                    self.post(self.me + 1, slot, sum.as_ptr(), bytes, piece);
                }
            }
        }
    }
}
