// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The layout of a team's area: the symmetric memory that the members of a team use for their collectives.
//!
//! ```text
//! offset    contents                                                              written by
//!    0    words, a line each: count, release, size, credit                      see [`AreaWord`]
//! 1024    ring: 8 slots of 512 bytes for broadcasts                             root, or parent
//! 5120    chain: 2 slots of 1024 bytes for messages from rank to rank           rank - 1
//! 8192    slots of the team's algorithm, one for each member or child           members
//! ```
//!
//! A slot is a sequence number and a payload. A payload of up to 56 bytes is in the same cache line as the number.
//!
//! Invariants
//! 1. The area is all zero when a team starts to use it: it is zero at the start of the job, and the members of a new
//!    team clear it (`team.rs`). Numbers count from 1.
//! 2. A slot has one writer at a time, which writes it again only after its reader has taken the payload. The file of
//!    each algorithm gives the reason.

use crate::world::address::SymOffset;
use crate::world::layout::TEAM_AREA_BYTES;

/// Bytes of a slot's sequence number.
pub const HEAD_BYTES: usize = 8;

/// Words of the area that are not in a slot.
#[derive(Clone, Copy)]
pub enum AreaWord {
    /// Arrivals of all steps; at member 0 only.
    Count = 0,
    /// The last completed step.
    Release = 1,
    /// Bytes that this member contributes to a collect. The others read them.
    Size = 2,
    /// Pieces of the chain that the next member has taken.
    Credit = 3,
}

/// Slots of the ring of broadcasts.
pub const RING_SLOTS: u64 = 8;
const RING_SLOT_BYTES: u64 = 512;
const RING_AT: u64 = 1024;

/// Slots of the chain.
pub const CHAIN_SLOTS: u64 = 2;
const CHAIN_SLOT_BYTES: u64 = 1024;
const CHAIN_AT: u64 = RING_AT + RING_SLOTS * RING_SLOT_BYTES;

const SLOTS_AT: u64 = 8192;
const SLOTS_BYTES: u64 = TEAM_AREA_BYTES - SLOTS_AT;

/// Children of a member at one level of a tree, plus one: the base in which ranks are written.
pub const RADIX: usize = 8;
/// Levels of the tallest tree, which has 16 million members.
pub const LEVELS: usize = 8;

/// Largest team whose members have a slot each.
pub const MEMBERS_MAX: usize = 64;

/// Payload of a slot of the ring.
pub const RING_BYTES: usize = RING_SLOT_BYTES as usize - HEAD_BYTES;
/// Payload of a slot of the chain: whole elements of every type.
pub const CHAIN_BYTES: usize = (CHAIN_SLOT_BYTES as usize - HEAD_BYTES) / 16 * 16;
/// Payload of a slot in a small tree. Taller trees have smaller slots ([`tree_slot_bytes`]).
pub const TREE_BYTES: usize = tree_slot_bytes(1) - HEAD_BYTES;

const _: () = assert!(CHAIN_AT + CHAIN_SLOTS * CHAIN_SLOT_BYTES <= SLOTS_AT);
const _: () = assert!(MEMBERS_MAX as u64 * 2 * 64 <= SLOTS_BYTES);

/// A team's area, at the same offset at every PE.
#[derive(Clone, Copy)]
pub struct TeamArea(pub SymOffset);

impl TeamArea {
    #[inline(always)]
    fn at(self, offset: u64) -> SymOffset {
        SymOffset(self.0.0 + offset)
    }

    #[inline(always)]
    pub fn word(self, word: AreaWord) -> SymOffset {
        self.at(word as u64 * 64)
    }

    #[inline(always)]
    pub fn ring(self, number: u64) -> SymOffset {
        self.at(RING_AT + number % RING_SLOTS * RING_SLOT_BYTES)
    }

    #[inline(always)]
    pub fn chain(self, number: u64) -> SymOffset {
        self.at(CHAIN_AT + number % CHAIN_SLOTS * CHAIN_SLOT_BYTES)
    }

    /// Member 0's slot of a step. The slots of the others follow at distances of [`slot_bytes`].
    #[inline(always)]
    pub fn members(self, step: u64) -> SymOffset {
        self.at(SLOTS_AT + (step & 1) * (SLOTS_BYTES / 2))
    }

    /// The slot that a child of a tree writes, `digit` from 1. The slots of a tree have [`tree_slot_bytes`].
    #[inline(always)]
    pub fn child_slot(self, level: usize, digit: usize, slot_bytes: usize) -> SymOffset {
        debug_assert!(level < LEVELS && (1..RADIX).contains(&digit));
        self.at(SLOTS_AT + ((level * (RADIX - 1) + digit) * slot_bytes) as u64)
    }

    /// The slot that the parent of a tree writes.
    #[inline(always)]
    pub fn parent_slot(self) -> SymOffset {
        self.at(SLOTS_AT)
    }
}

/// Bytes of a member's slot in a team of this size: the largest power of two for which all slots fit.
pub const fn slot_bytes(members: usize) -> usize {
    SLOTS_BYTES as usize / 2 / members.next_power_of_two()
}

/// Bytes of a slot in the tree of a team of this size: the parent's slot fits, and 7 for the children at each level.
pub const fn tree_slot_bytes(members: usize) -> usize {
    match members {
        0..=8 => 1024,
        9..=64 => 512,
        65..=4096 => 256,
        _ => 128,
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
        let area = TeamArea(SymOffset(1 << 20));
        let end = (1 << 20) + TEAM_AREA_BYTES;
        assert!(area.word(AreaWord::Credit).0 + 64 <= area.ring(0).0);
        assert!(area.ring(7).0 + 512 <= area.chain(0).0);
        assert!(area.chain(1).0 + 1024 <= area.members(0).0);
        assert!(area.members(1).0 + 4096 <= end);
        for (members, level) in [(8, 0), (64, 1), (512, 2), (1024, 3), (4096, 3), (4097, 4), (65_536, 5), (1 << 24, 7)]
        {
            let bytes = tree_slot_bytes(members);
            assert!(area.parent_slot().0 + bytes as u64 <= area.child_slot(0, 1, bytes).0);
            assert!(area.child_slot(level, 7, bytes).0 + bytes as u64 <= end, "{members}");
            assert!(bytes <= TREE_BYTES + HEAD_BYTES);
        }
        assert_eq!(area.ring(8).0, area.ring(0).0);
        for size in [1, 2, 4, 8, 16] {
            assert_eq!(CHAIN_BYTES % size, 0);
        }
    }
}
