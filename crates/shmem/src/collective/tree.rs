// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Meeting in a tree: full steps of teams too large to meet otherwise.
//!
//! Ranks are written in base 8. A member whose lowest digits are zero up to level l stands for the 8^l members from its own
//! rank on, and has at each lower level 7 branches: the members whose digit at that level is 1 to 7. What the members bring
//! climbs to member 0, combined in the order of ranks, since branches stand for ranges; what comes of it descends.
//!
//! Invariants
//! 1. A branch's slot at its parent, and a member's trunk slot, have one writer each, and need no second half: a branch
//!    writes step s + 1 when it has completed s, which its parent let it do after reading its slot; the parent writes the
//!    trunk of s + 1 when the branch has brought s + 1, which it does after having read the trunk of s.
//! 2. Sums are formed in the same order whoever looks, and everyone gets member 0's: results are identical everywhere.
//!
//! Costs: 2 (n - 1) messages, two crossings for each level: one level up to 8 members, 4 up to 1,024.

use std::mem::MaybeUninit;

use crate::Sym;
use crate::collective::area::{HEAD_BYTES, LEVELS, RADIX, TREE_BYTES, tree_slot_bytes};
use crate::collective::crew::Crew;
use crate::collective::op::Kernel;

/// What travels in a tree.
pub type Load = MaybeUninit<[u8; TREE_BYTES]>;

/// Where a rank stands in a tree: the number of low digits that are zero, and the lowest that is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    pub level: usize,
    pub digit: usize,
    pub parent: usize,
}

impl Stand {
    /// None for the root.
    pub fn of(rank: usize) -> Option<Stand> {
        let (mut level, mut unit) = (0, 1);
        while level < LEVELS {
            let digit = rank / unit % RADIX;
            if digit != 0 {
                return Some(Stand { level, digit, parent: rank - digit * unit });
            }
            (level, unit) = (level + 1, unit * RADIX);
        }
        None
    }
}

/// The branches of a rank among `n`, nearest first: level, digit, rank.
pub fn branches(rank: usize, n: usize) -> impl DoubleEndedIterator<Item = (usize, usize, usize)> {
    let levels = Stand::of(rank).map_or(LEVELS, |stand| stand.level);
    (0..levels).flat_map(move |level| {
        let unit = RADIX.pow(level as u32);
        (1..RADIX).map(move |digit| (level, digit, rank + digit * unit)).filter(move |branch| branch.2 < n)
    })
}

impl Crew<'_> {
    /// How many bytes can travel in this team's tree.
    #[inline(always)]
    pub fn tree_room(&self) -> usize {
        tree_slot_bytes(self.n) - HEAD_BYTES
    }

    /// A sync of a team that meets in a tree.
    pub fn meet_in_tree(&self) {
        let step = self.next_step();
        self.take(step, |_, _, _| {});
        // SAFETY: nothing is read.
        unsafe {
            self.hand_up(step, std::ptr::null(), 0);
            self.await_trunk(step);
            self.hand_down(step, std::ptr::null(), 0);
        }
    }

    /// A full step: `bytes` at `value` become what all members' come to, in the order of ranks.
    ///
    /// # Safety
    /// They can be read and written, are whole elements of the kernel's, and there is [`Crew::tree_room`].
    pub unsafe fn reduce_in_tree(&self, value: *mut u8, bytes: usize, kernel: Kernel) {
        let step = self.next_step();
        // SAFETY: the caller's promise; as many bytes lie in each slot.
        unsafe {
            self.take(step, |_, _, content| kernel.fold(value, content, bytes / kernel.size));
            self.hand_up(step, value, bytes);
            if let Some(content) = self.await_trunk(step) {
                value.copy_from_nonoverlapping(content, bytes);
            }
            self.hand_down(step, value, bytes);
        }
    }

    /// A full step: the blocks that members bring come to lie behind one another at `all`, each from `at(member)` to
    /// `at(member + 1)`, where this PE's own is already.
    ///
    /// # Safety
    /// `at(n)` bytes can be read and written at `all`, and there is [`Crew::tree_room`].
    pub unsafe fn gather_in_tree(&self, all: *mut u8, at: impl Fn(usize) -> usize) {
        let step = self.next_step();
        // A member brings what it stands for, which is a range of ranks.
        let range = |member: usize, level: usize| {
            let end = (member + RADIX.pow(level as u32)).min(self.n);
            (at(member), at(end) - at(member))
        };
        let (start, bytes) = range(self.me, Stand::of(self.me).map_or(LEVELS, |stand| stand.level));
        // SAFETY: the caller's promise; a branch has brought its range.
        unsafe {
            self.take(step, |level, branch, content| {
                let (start, bytes) = range(branch, level);
                all.add(start).copy_from_nonoverlapping(content, bytes);
            });
            self.hand_up(step, all.add(start), bytes);
            if let Some(content) = self.await_trunk(step) {
                all.copy_from_nonoverlapping(content, at(self.n));
            }
            self.hand_down(step, all, at(self.n));
        }
    }

    /// A full step: `before` becomes the sum of what lower ranks brought, unless this is member 0, whose `before` stays as
    /// it is. `own` is what this PE brings.
    ///
    /// # Safety
    /// `bytes` can be written at `before` and read at `own`, are whole elements, and there is [`Crew::tree_room`].
    pub unsafe fn scan_in_tree(&self, before: *mut u8, own: *const u8, bytes: usize, kernel: Kernel) {
        let step = self.next_step();
        let count = bytes / kernel.size;
        let mut sum = Load::uninit();
        let sum = sum.as_mut_ptr().cast::<u8>();
        // SAFETY: the caller's promise, and a load holds as many. What a branch has brought lies in its slot until its trunk
        // is written: so it is folded in first, and the branch is told what lies before it.
        unsafe {
            sum.copy_from_nonoverlapping(own, bytes);
            self.take(step, |_, _, content| kernel.fold(sum, content, count));
            self.hand_up(step, sum, bytes);
            sum.copy_from_nonoverlapping(own, bytes);
            if let Some(content) = self.await_trunk(step) {
                before.copy_from_nonoverlapping(content, bytes);
                kernel.combine(sum, before, own, count);
            }
            let mut told = Load::uninit();
            let told = told.as_mut_ptr().cast::<u8>();
            for (level, digit, branch) in branches(self.me, self.n) {
                told.copy_from_nonoverlapping(sum, bytes);
                kernel.fold(sum, self.content(self.branch(level, digit)), count);
                self.post(branch, self.area.trunk(), told, bytes, step);
            }
        }
    }

    #[inline(always)]
    fn branch(&self, level: usize, digit: usize) -> Sym {
        self.area.branch(level, digit, tree_slot_bytes(self.n))
    }

    /// Takes what this PE's branches bring, in the order of ranks: level, rank, content.
    fn take(&self, step: u64, mut each: impl FnMut(usize, usize, *const u8)) {
        for (level, digit, branch) in branches(self.me, self.n) {
            let slot = self.branch(level, digit);
            self.await_number(slot, step);
            each(level, branch, self.content(slot));
        }
    }

    /// Brings something to the parent, if there is one.
    ///
    /// # Safety
    /// `bytes` can be read at `from`, and there is [`Crew::tree_room`].
    unsafe fn hand_up(&self, step: u64, from: *const u8, bytes: usize) {
        debug_assert!(bytes <= self.tree_room());
        if let Some(Stand { level, digit, parent }) = Stand::of(self.me) {
            // SAFETY: the caller's promise.
            unsafe { self.post(parent, self.branch(level, digit), from, bytes, step) };
        }
    }

    /// What comes down from the parent, if there is one.
    fn await_trunk(&self, step: u64) -> Option<*const u8> {
        if self.me == 0 {
            return None;
        }
        self.await_number(self.area.trunk(), step);
        Some(self.content(self.area.trunk()))
    }

    /// Tells all branches the same, the furthest first: they have the longest way to go.
    ///
    /// # Safety
    /// As of [`Crew::hand_up`].
    unsafe fn hand_down(&self, step: u64, from: *const u8, bytes: usize) {
        for (.., branch) in branches(self.me, self.n).rev() {
            // SAFETY: the caller's promise.
            unsafe { self.post(branch, self.area.trunk(), from, bytes, step) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_hangs_on_one_parent() {
        for n in (1..=80).chain([511, 512, 513, 1024]) {
            let mut parents = vec![None; n];
            for rank in 0..n {
                for (level, digit, branch) in branches(rank, n) {
                    assert_eq!(parents[branch].replace(rank), None, "{branch} of {n}");
                    assert_eq!(Stand::of(branch), Some(Stand { level, digit, parent: rank }));
                }
            }
            assert!(parents[0].is_none() && parents[1..].iter().all(Option::is_some), "{n}");
        }
    }

    /// What a rank stands for, in the order in which it is folded.
    fn range(rank: usize, n: usize) -> Vec<usize> {
        std::iter::once(rank).chain(branches(rank, n).flat_map(|(.., branch)| range(branch, n))).collect()
    }

    #[test]
    fn folding_follows_the_ranks() {
        for n in (1..=80).chain([511, 512, 513, 1024]) {
            assert_eq!(range(0, n), (0..n).collect::<Vec<_>>());
        }
    }
}
