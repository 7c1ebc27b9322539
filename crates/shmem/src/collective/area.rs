// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What lies where in a team's area, the symmetric memory in which its members meet.
//!
//! ```text
//! offset    what                                                                  written by
//!      0    words, a line each: count, release, size, credit                      see [`Word`]
//!   1024    ring: 8 slots of 512 bytes for what goes one way (broadcast)          root, or parent
//!   5120    chain: 2 slots of 1024 bytes for what goes from rank to rank          rank - 1
//!   8192    slots of the team's way of meeting, one for each member or branch     members
//! ```
//!
//! A slot is a sequence number and what comes with it, so that up to 56 bytes cross in one line with it.
//!
//! Invariants
//! 1. The area is all zero when a team starts to use it: at the start of the job, and because its next members clear it
//!    while they create the team ([`crate::team`]). Numbers count from 1.
//! 2. A slot has one writer at a time, and is written again only when its reader has taken what was there: each way of
//!    meeting says why in its own file.

use crate::remote::{Sym, TEAM_AREA_BYTES};

/// Bytes of a slot that its sequence number takes.
pub const HEAD_BYTES: usize = 8;

/// Words by themselves.
#[derive(Clone, Copy)]
pub enum Word {
    /// At member 0: how many have arrived, in all.
    Count = 0,
    /// The last step that is complete.
    Release = 1,
    /// How much this member contributes, read by others.
    Size = 2,
    /// How many pieces of the chain the next member has taken.
    Credit = 3,
}

/// Slots of the ring.
pub const RING_SLOTS: u64 = 8;
const RING_SLOT_BYTES: u64 = 512;
const RING_AT: u64 = 1024;

/// Slots of the chain.
pub const CHAIN_SLOTS: u64 = 2;
const CHAIN_SLOT_BYTES: u64 = 1024;
const CHAIN_AT: u64 = RING_AT + RING_SLOTS * RING_SLOT_BYTES;

const SLOTS_AT: u64 = 8192;
const SLOTS_BYTES: u64 = TEAM_AREA_BYTES - SLOTS_AT;

/// Branches of a tree that meet at one level.
pub const RADIX: usize = 8;
/// Levels of the tallest tree: 8 * 8 * 8 * 8 members.
pub const LEVELS: usize = 4;

/// Most members that meet in slots of their own.
pub const MEMBERS_MAX: usize = 64;

/// What comes with a sequence number in the ring.
pub const RING_BYTES: usize = RING_SLOT_BYTES as usize - HEAD_BYTES;
/// In the chain: whole elements of every type.
pub const CHAIN_BYTES: usize = (CHAIN_SLOT_BYTES as usize - HEAD_BYTES) / 16 * 16;
/// On a branch of a small tree; in taller ones less ([`tree_slot_bytes`]).
pub const TREE_BYTES: usize = tree_slot_bytes(1) - HEAD_BYTES;

const _: () = assert!(CHAIN_AT + CHAIN_SLOTS * CHAIN_SLOT_BYTES <= SLOTS_AT);
const _: () = assert!(MEMBERS_MAX as u64 * 2 * 64 <= SLOTS_BYTES);

/// A team's area; the same offset at every PE.
#[derive(Clone, Copy)]
pub struct Area(pub Sym);

impl Area {
    #[inline(always)]
    fn at(self, offset: u64) -> Sym {
        Sym(self.0.0 + offset)
    }

    #[inline(always)]
    pub fn word(self, word: Word) -> Sym {
        self.at(word as u64 * 64)
    }

    #[inline(always)]
    pub fn ring(self, number: u64) -> Sym {
        self.at(RING_AT + number % RING_SLOTS * RING_SLOT_BYTES)
    }

    #[inline(always)]
    pub fn chain(self, number: u64) -> Sym {
        self.at(CHAIN_AT + number % CHAIN_SLOTS * CHAIN_SLOT_BYTES)
    }

    /// The first member's slot of a step; those of the others follow, each `bytes` further on.
    #[inline(always)]
    pub fn members(self, step: u64) -> Sym {
        self.at(SLOTS_AT + (step & 1) * (SLOTS_BYTES / 2))
    }

    /// Where a branch of a tree writes, `digit` from 1. The slots of a tree are of [`tree_slot_bytes`].
    #[inline(always)]
    pub fn branch(self, level: usize, digit: usize, slot_bytes: usize) -> Sym {
        debug_assert!(level < LEVELS && (1..RADIX).contains(&digit));
        self.at(SLOTS_AT + ((level * (RADIX - 1) + digit) * slot_bytes) as u64)
    }

    /// Where the trunk of a tree writes.
    #[inline(always)]
    pub fn trunk(self) -> Sym {
        self.at(SLOTS_AT)
    }
}

/// Bytes of a member's slot in a team of this many: all that there is room for, a power of two.
pub const fn slot_bytes(members: usize) -> usize {
    SLOTS_BYTES as usize / 2 / members.next_power_of_two()
}

/// Bytes of a slot in the tree of a team of this many: a trunk, and 7 branches for each level, have room.
pub const fn tree_slot_bytes(members: usize) -> usize {
    match members {
        0..=8 => 1024,
        9..=64 => 512,
        _ => 256,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_lines_and_fit() {
        for members in 1..=MEMBERS_MAX {
            let bytes = slot_bytes(members);
            assert!(bytes % 64 == 0 && bytes * members <= SLOTS_BYTES as usize / 2, "{members}");
        }
        assert_eq!((slot_bytes(1), slot_bytes(2), slot_bytes(3), slot_bytes(64)), (4096, 2048, 1024, 64));
    }

    #[test]
    fn parts_do_not_overlap() {
        let area = Area(Sym(1 << 20));
        let end = (1 << 20) + TEAM_AREA_BYTES;
        assert!(area.word(Word::Credit).0 + 64 <= area.ring(0).0);
        assert!(area.ring(7).0 + 512 <= area.chain(0).0);
        assert!(area.chain(1).0 + 1024 <= area.members(0).0);
        assert!(area.members(1).0 + 4096 <= end);
        for (members, level) in [(8, 0), (64, 1), (512, 2), (1024, 3)] {
            let bytes = tree_slot_bytes(members);
            assert!(area.trunk().0 + bytes as u64 <= area.branch(0, 1, bytes).0);
            assert!(area.branch(level, 7, bytes).0 + bytes as u64 <= end, "{members}");
            assert!(bytes <= TREE_BYTES + HEAD_BYTES);
        }
        assert_eq!(area.ring(8).0, area.ring(0).0);
        for size in [1, 2, 4, 8, 16] {
            assert_eq!(CHAIN_BYTES % size, 0);
        }
    }
}
