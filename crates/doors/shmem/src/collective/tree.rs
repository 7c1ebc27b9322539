// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Steps of the tree algorithm, for teams that are too large for the others.
//!
//! Ranks are written in base 8. A member whose lowest l digits are zero is the root of a subtree: the 8^l ranks from
//! its own on. At each level below l it has 7 children: the members whose digit at that level is 1 to 7. Contributions
//! go up to member 0. They are combined in the order of ranks, because each subtree is a range of ranks. The result
//! comes down.
//!
//! Invariants
//! 1. A slot that a child writes at its parent, or the parent at a child, has one writer, and one of each suffices. A
//!    child writes step s + 1 after it has completed s, which the parent allowed after it had read the child's slot.
//!    The parent writes s + 1 to a child after the child has sent its contribution to s + 1, which it does after it has
//!    read the parent's slot of s.
//! 2. Sums are formed in the same order at every member, and all get member 0's, so results are identical everywhere.
//!
//! Costs: 2 (n - 1) messages, two message latencies for each level: one level up to 8 members, 4 up to 1,024.

use std::mem::MaybeUninit;

use crate::collective::members::TeamMembers;
use crate::collective::op::Kernel;
use crate::collective::team_area::{HEAD_BYTES, LEVELS, RADIX, TREE_BYTES, tree_slot_bytes};
use crate::world::address::SymOffset;

/// Payload of a message in a tree.
pub type TreeBuffer = MaybeUninit<[u8; TREE_BYTES]>;

/// The position of a rank in a tree: the number of low digits that are zero, and the lowest that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreePosition {
    pub level: usize,
    pub digit: usize,
    pub parent: usize,
}

impl TreePosition {
    /// The position; None for the root.
    pub fn of(rank: usize) -> Option<TreePosition> {
        let (mut level, mut unit) = (0, 1);
        while level < LEVELS {
            let digit = rank / unit % RADIX;
            if digit != 0 {
                return Some(TreePosition { level, digit, parent: rank - digit * unit });
            }
            (level, unit) = (level + 1, unit * RADIX);
        }
        None
    }
}

/// The children of a rank among `n`, nearest first, as level, digit and rank.
pub fn children(rank: usize, n: usize) -> impl DoubleEndedIterator<Item = (usize, usize, usize)> {
    let levels = TreePosition::of(rank).map_or(LEVELS, |position| position.level);
    let unit = |level: usize| RADIX.pow(level as u32);
    let levels = (0..levels).filter(move |&level| unit(level) < n);
    levels.flat_map(move |level| {
        let unit = unit(level);
        (1..RADIX).map(move |digit| (level, digit, rank + digit * unit)).filter(move |child| child.2 < n)
    })
}

/// The steps of a team with the tree algorithm.
#[derive(Clone, Copy)]
pub struct Tree<'a> {
    members: &'a TeamMembers<'a>,
}

impl<'a> Tree<'a> {
    #[inline(always)]
    pub fn of(members: &'a TeamMembers<'a>) -> Tree<'a> {
        Tree { members }
    }

    /// Limit of a message in this team's tree.
    #[inline(always)]
    pub fn limit(self) -> usize {
        tree_slot_bytes(self.members.n) - HEAD_BYTES
    }

    /// A sync with the tree algorithm.
    pub fn sync(self) {
        let step = self.members.step_numbers.next_step();
        self.receive_from_children(step, |_, _, _| {});
        // SAFETY: no bytes are read.
        unsafe {
            self.send_to_parent(step, std::ptr::null(), 0);
            self.await_parent(step);
            self.send_to_children(step, std::ptr::null(), 0);
        }
    }

    /// A step that replaces `bytes` at `value` by the combination of all members' contributions, in the order of ranks.
    ///
    /// # Safety
    /// `bytes` can be read and written at `value`, are whole elements of the kernel's, and at most [`Tree::limit`].
    pub unsafe fn reduce(self, value: *mut u8, bytes: usize, kernel: Kernel) {
        let step = self.members.step_numbers.next_step();
        // SAFETY: the contract of this function: `bytes` at `value`, which is not in a slot; a slot holds them.
        unsafe {
            self.receive_from_children(step, |_, _, payload| kernel.fold(value, payload, bytes / kernel.size));
            self.send_to_parent(step, value, bytes);
            if let Some(payload) = self.await_parent(step) {
                value.copy_from_nonoverlapping(payload, bytes);
            }
            self.send_to_children(step, value, bytes);
        }
    }

    /// A step that gathers the blocks of all members at `all`, each from `at(member)` to `at(member + 1)`. This PE's
    /// own block is there already.
    ///
    /// # Safety
    /// `at(n)` bytes can be read and written at `all`, and are at most [`Tree::limit`].
    pub unsafe fn gather(self, all: *mut u8, at: impl Fn(usize) -> usize) {
        let step = self.members.step_numbers.next_step();
        // A member sends the blocks of its subtree, which is a range of ranks.
        let range = |member: usize, level: usize| {
            let end = (member + RADIX.pow(level as u32)).min(self.members.n);
            (at(member), at(end) - at(member))
        };
        let (start, bytes) =
            range(self.members.me, TreePosition::of(self.members.me).map_or(LEVELS, |position| position.level));
        // SAFETY: the contract of this function: `at(n)` bytes at `all`, and each range lies within them. A child has
        // sent the blocks of its range.
        unsafe {
            self.receive_from_children(step, |level, child, payload| {
                let (start, bytes) = range(child, level);
                all.add(start).copy_from_nonoverlapping(payload, bytes);
            });
            self.send_to_parent(step, all.add(start), bytes);
            if let Some(payload) = self.await_parent(step) {
                all.copy_from_nonoverlapping(payload, at(self.members.n));
            }
            self.send_to_children(step, all, at(self.members.n));
        }
    }

    /// A step that stores the sum of the contributions of lower ranks at `before`, which member 0 leaves unchanged.
    /// `own` is this PE's contribution.
    ///
    /// # Safety
    /// `bytes` can be written at `before` and read at `own`, are whole elements, and at most [`Tree::limit`].
    pub unsafe fn scan(self, before: *mut u8, own: *const u8, bytes: usize, kernel: Kernel) {
        let step = self.members.step_numbers.next_step();
        let count = bytes / kernel.size;
        let mut sum = TreeBuffer::uninit();
        let sum = sum.as_mut_ptr().cast::<u8>();
        // SAFETY: the contract of this function: `bytes` at `before` and `own`. The buffers are on this stack and hold
        // `limit` bytes. A child's contribution stays in its slot until the child gets its message from here: so
        // it is added first, and the sum of the ranks before it is sent then.
        unsafe {
            sum.copy_from_nonoverlapping(own, bytes);
            self.receive_from_children(step, |_, _, payload| kernel.fold(sum, payload, count));
            self.send_to_parent(step, sum, bytes);
            sum.copy_from_nonoverlapping(own, bytes);
            if let Some(payload) = self.await_parent(step) {
                before.copy_from_nonoverlapping(payload, bytes);
                kernel.combine(sum, before, own, count);
            }
            let mut sum_before = TreeBuffer::uninit();
            let sum_before = sum_before.as_mut_ptr().cast::<u8>();
            for (level, digit, child) in children(self.members.me, self.members.n) {
                sum_before.copy_from_nonoverlapping(sum, bytes);
                kernel.fold(sum, self.members.payload(self.child_slot(level, digit)), count);
                self.members.write_slot(child, self.members.area.parent_slot(), sum_before, bytes, step);
            }
        }
    }

    #[inline(always)]
    fn child_slot(self, level: usize, digit: usize) -> SymOffset {
        self.members.area.child_slot(level, digit, tree_slot_bytes(self.members.n))
    }

    /// Receives the contributions of this PE's children, in the order of ranks: level, rank, payload.
    fn receive_from_children(self, step: u64, mut each: impl FnMut(usize, usize, *const u8)) {
        for (level, digit, child) in children(self.members.me, self.members.n) {
            let slot = self.child_slot(level, digit);
            self.members.await_number(slot, step);
            each(level, child, self.members.payload(slot));
        }
    }

    /// Sends a contribution to the parent, if there is one.
    ///
    /// # Safety
    /// `bytes` can be read at `from`, and are at most [`Tree::limit`].
    unsafe fn send_to_parent(self, step: u64, from: *const u8, bytes: usize) {
        debug_assert!(bytes <= self.limit());
        if let Some(TreePosition { level, digit, parent }) = TreePosition::of(self.members.me) {
            // SAFETY: the contract of this function: `bytes` at `from`, which a slot holds.
            unsafe { self.members.write_slot(parent, self.child_slot(level, digit), from, bytes, step) };
        }
    }

    /// Waits for the parent's message. Returns its payload; `None` at the root.
    fn await_parent(self, step: u64) -> Option<*const u8> {
        if self.members.me == 0 {
            return None;
        }
        self.members.await_number(self.members.area.parent_slot(), step);
        Some(self.members.payload(self.members.area.parent_slot()))
    }

    /// Sends the same message to all children, the furthest first, because theirs has the longest way.
    ///
    /// # Safety
    /// As [`Tree::send_to_parent`].
    unsafe fn send_to_children(self, step: u64, from: *const u8, bytes: usize) {
        for (.., child) in children(self.members.me, self.members.n).rev() {
            // SAFETY: the contract of this function: `bytes` at `from`, which a slot holds.
            unsafe { self.members.write_slot(child, self.members.area.parent_slot(), from, bytes, step) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_hangs_on_one_parent() {
        for n in (1..=80).chain([511, 512, 513, 1024, 4096, 4097, 40_000]) {
            let mut parents = vec![None; n];
            for rank in 0..n {
                for (level, digit, child) in children(rank, n) {
                    assert_eq!(parents[child].replace(rank), None, "{child} of {n}");
                    assert_eq!(TreePosition::of(child), Some(TreePosition { level, digit, parent: rank }));
                }
            }
            assert!(parents[0].is_none() && parents[1..].iter().all(Option::is_some), "{n}");
        }
    }

    /// The ranks of a subtree, in the order in which they are combined.
    fn range(rank: usize, n: usize) -> Vec<usize> {
        std::iter::once(rank).chain(children(rank, n).flat_map(|(.., child)| range(child, n))).collect()
    }

    #[test]
    fn folding_follows_the_ranks() {
        for n in (1..=80).chain([511, 512, 513, 1024, 4096, 4097, 40_000]) {
            assert_eq!(range(0, n), (0..n).collect::<Vec<_>>());
        }
    }
}
