// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of the buddy allocator.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::vec;
use std::vec::Vec;

fn zeroed(blocks_max: u32) -> Vec<u64> {
    vec![0; Buddy::words_needed(blocks_max)]
}

/// The same policy over ordered sets: the lowest address at which a piece fits.
#[derive(Clone, Default)]
struct Oracle {
    blocks_max: u32,
    blocks_now: u32,
    /// First to order.
    free: BTreeMap<u32, u32>,
    /// First to order.
    live: BTreeMap<u32, u32>,
}

impl Oracle {
    fn new(blocks_max: u32, blocks_now: u32) -> Self {
        let mut oracle = Self { blocks_max, ..Self::default() };
        oracle.grow(blocks_now);
        oracle
    }

    fn alloc(&mut self, blocks: u32) -> Option<u32> {
        if blocks == 0 || blocks > self.blocks_max {
            return None;
        }
        let order = blocks.next_power_of_two().trailing_zeros();
        let (first, found) = self.free.iter().map(|(&first, &found)| (first, found)).find(|pair| pair.1 >= order)?;
        self.free.remove(&first);
        for split in order..found {
            self.free.insert(first + (1 << split), split);
        }
        self.live.insert(first, order);
        Some(first)
    }

    fn free(&mut self, first: u32) -> Result<u32, BuddyError> {
        let order = self.live.remove(&first).ok_or(BuddyError::NotAllocated)?;
        self.join(first, order);
        Ok(1 << order)
    }

    fn join(&mut self, first: u32, order: u32) {
        let (mut first, mut order) = (first, order);
        while self.free.get(&(first ^ (1 << order))) == Some(&order) {
            self.free.remove(&(first ^ (1 << order)));
            first &= !(1 << order);
            order += 1;
        }
        self.free.insert(first, order);
    }

    fn grow(&mut self, blocks_now: u32) {
        let after = blocks_now.min(self.blocks_max).max(self.blocks_now);
        for block in self.blocks_now..after {
            self.join(block, 0);
        }
        self.blocks_now = after;
    }

    fn free_blocks(&self) -> u32 {
        self.free.values().map(|order| 1 << order).sum()
    }

    fn largest_free(&self) -> u32 {
        self.free.values().max().map_or(0, |order| 1 << order)
    }
}

/// Checks the words, byte by byte, against the oracle's state.
fn check(words: &[u64], oracle: &Oracle) {
    let leaf_base = oracle.blocks_max.next_power_of_two();
    let mut covered = vec![0; oracle.blocks_max as usize];
    for (&first, &order) in oracle.free.iter().chain(&oracle.live) {
        covered[first as usize..][..1 << order].iter_mut().for_each(|count| *count += 1);
    }
    for (block, count) in covered.into_iter().enumerate() {
        assert_eq!(count, u32::from(block < oracle.blocks_now as usize), "block {block}");
    }

    let mut tree = vec![0u8; 8 * (words.len() - HEADER_WORDS)];
    for (&first, &order) in &oracle.free {
        assert_ne!(oracle.free.get(&(first ^ 1 << order)), Some(&order), "buddies both free");
        let mut node = (leaf_base + first) >> order;
        while node > 0 {
            tree[node as usize] = tree[node as usize].max(order as u8 + 1);
            node /= 2;
        }
    }
    for (&first, &order) in &oracle.live {
        tree[((leaf_base + first) >> order) as usize] = ALLOCATED;
    }
    let bytes: Vec<u8> = words[HEADER_WORDS..].iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(bytes, tree);
    let header = [MAGIC, oracle.blocks_max.into(), oracle.blocks_now.into(), oracle.free_blocks().into()];
    assert_eq!(words[..HEADER_WORDS], header);
}

#[test]
fn words_needed_is_two_bytes_a_block() {
    assert_eq!(Buddy::words_needed(0), HEADER_WORDS + 1);
    assert_eq!(Buddy::words_needed(1), HEADER_WORDS + 1);
    assert_eq!(Buddy::words_needed(4), HEADER_WORDS + 1);
    assert_eq!(Buddy::words_needed(5), HEADER_WORDS + 2);
    assert_eq!(Buddy::words_needed(Buddy::BLOCKS_MAX), HEADER_WORDS + Buddy::BLOCKS_MAX as usize / 4);
    assert_eq!(Buddy::words_needed(u32::MAX), Buddy::words_needed(Buddy::BLOCKS_MAX));
    assert!((0..10_000).all(|blocks| Buddy::words_needed(blocks) <= Buddy::words_needed(blocks + 1)));
}

#[test]
fn rounds_up_splits_low_and_joins_again() {
    let mut words = zeroed(16);
    let mut buddy = Buddy::init(&mut words, 16, 16);
    assert_eq!((buddy.blocks_now(), buddy.free_blocks(), buddy.largest_free()), (16, 16, 16));
    assert_eq!(buddy.alloc(3), Some(0));
    assert_eq!(buddy.size_of(0), Some(4));
    assert_eq!(buddy.alloc(1), Some(4));
    assert_eq!(buddy.alloc(2), Some(6));
    assert_eq!(buddy.alloc(1), Some(5));
    assert_eq!((buddy.free_blocks(), buddy.largest_free()), (8, 8));
    assert_eq!(buddy.size_of(1), None);
    assert_eq!(buddy.free(6), Ok(2));
    assert_eq!(buddy.largest_free(), 8);
    assert_eq!(buddy.free(4), Ok(1));
    assert_eq!(buddy.free(0), Ok(4));
    assert_eq!(buddy.free(5), Ok(1));
    assert_eq!((buddy.free_blocks(), buddy.largest_free()), (16, 16));
}

#[test]
fn everything_refused_leaves_the_words_identical() {
    let mut words = zeroed(24);
    let mut buddy = Buddy::init(&mut words, 24, 20);
    assert_eq!(buddy.alloc(8), Some(0));
    assert_eq!(buddy.alloc(4), Some(8), "the lowest address, though 16..20 is a piece of just this size");
    let before = buddy.words.to_vec();
    assert_eq!(buddy.alloc(0), None);
    assert_eq!(buddy.alloc(5), None, "8 are left, in two pieces");
    assert_eq!(buddy.alloc(24), None);
    assert_eq!(buddy.alloc(25), None);
    assert_eq!(buddy.alloc(u32::MAX), None);
    for first in [1, 4, 7, 9, 12, 16, 20, 23, 24, u32::MAX] {
        assert_eq!(buddy.free(first), Err(BuddyError::NotAllocated));
    }
    buddy.grow(20);
    buddy.grow(3);
    assert_eq!(buddy.words, before);
    assert_eq!(buddy.alloc(4), Some(12));
    assert_eq!(buddy.alloc(3), Some(16));
    let full = buddy.words.to_vec();
    assert_eq!(buddy.alloc(1), None);
    assert_eq!(buddy.words, full);
    assert_eq!(buddy.free(12), Ok(4));
    assert_eq!(buddy.free(16), Ok(4));
    assert_eq!(buddy.free(16), Err(BuddyError::NotAllocated));
    assert_eq!(buddy.words, before);
}

#[test]
fn too_few_words_hold_no_blocks() {
    for len in 0..Buddy::words_needed(100) {
        let mut words = vec![0; len];
        let mut buddy = Buddy::init(&mut words, 100, 100);
        assert_eq!((buddy.alloc(1), buddy.free(0)), (None, Err(BuddyError::NotAllocated)));
        assert_eq!((buddy.blocks_now(), buddy.free_blocks(), buddy.largest_free()), (0, 0, 0));
        buddy.grow(100);
        buddy.rebuild([(0, 1)].into_iter());
        assert_eq!(buddy.blocks_now(), 0);
        assert_eq!(Buddy::attach(&mut words).is_ok(), len >= Buddy::words_needed(0));
    }
}

#[test]
fn attach_refuses_a_header_that_cannot_be() {
    let mut good = zeroed(100);
    Buddy::init(&mut good, 100, 60);
    assert_eq!(Buddy::attach(&mut good.clone()).map(|buddy| buddy.blocks_now()), Ok(60));
    let wrong = [
        (MAGIC_AT, 0),
        (MAGIC_AT, MAGIC ^ 1 << 56),
        (BLOCKS_MAX_AT, 10_000),
        (BLOCKS_MAX_AT, 59),
        (BLOCKS_MAX_AT, u64::MAX),
        (BLOCKS_NOW_AT, 101),
        (BLOCKS_NOW_AT, 59),
        (FREE_BLOCKS_AT, 61),
        (FREE_BLOCKS_AT, 1 << 32),
    ];
    for (at, value) in wrong {
        let mut words = good.clone();
        words[at] = value;
        assert!(Buddy::attach(&mut words).is_err(), "{at} {value:#x}");
    }
    good.pop();
    assert!(Buddy::attach(&mut good).is_err());
}

#[test]
fn contradictions_are_refused() {
    let mut words = zeroed(16);
    let mut buddy = Buddy::init(&mut words, 16, 16);
    buddy.put_byte(buddy.node(4, 2), ALLOCATED);
    let before = buddy.words.to_vec();
    assert_eq!(buddy.free(4), Err(BuddyError::Corrupt), "all blocks are free already");
    assert_eq!(buddy.words, before);

    // The root promises blocks that its children lack.
    buddy.clear_granted(16);
    buddy.put_byte(ROOT, 4);
    let before = buddy.words.to_vec();
    assert_eq!((buddy.alloc(8), buddy.alloc(1)), (None, None));
    assert_eq!(buddy.words, before);

    // No node has the number 0: its byte is not the root's buddy.
    buddy.rebuild([(0, 16)].into_iter());
    buddy.put_byte(0, 5);
    assert_eq!(buddy.free(0), Ok(16));
    assert_eq!((buddy.byte(0), buddy.byte(ROOT)), (5, 5));
    assert_eq!(buddy.alloc(16), Some(0));
}

/// Every state of 8 blocks, each reached and each checked after each operation. Their number is known: a tree of height
/// h is one free piece, one allocation, or two halves that are not both free: f(h) = f(h-1)^2 + 1 with f(0) = 2.
#[test]
fn every_state_of_small_allocators() {
    for (blocks, states) in [(1, 2), (2, 5), (4, 26), (8, 677), (3, 10), (5, 52), (7, 260)] {
        let mut start = zeroed(blocks);
        Buddy::init(&mut start, blocks, blocks);
        let mut seen = BTreeSet::from([start.clone()]);
        let mut queue = VecDeque::from([(start, Oracle::new(blocks, blocks))]);
        while let Some((words, oracle)) = queue.pop_front() {
            check(&words, &oracle);
            let frees = (0..=blocks).map(|first| (true, first));
            for (is_free, argument) in frees.chain((0..=blocks + 1).map(|size| (false, size))) {
                let (mut words_after, mut oracle_after) = (words.clone(), oracle.clone());
                let mut buddy = Buddy::attach(&mut words_after).unwrap();
                let refused = if is_free {
                    let freed = buddy.free(argument);
                    assert_eq!(freed, oracle_after.free(argument));
                    freed.is_err()
                } else {
                    let first = buddy.alloc(argument);
                    assert_eq!(first, oracle_after.alloc(argument));
                    first.is_none()
                };
                assert_eq!(refused, words_after == words);
                if seen.insert(words_after.clone()) {
                    queue.push_back((words_after, oracle_after));
                }
            }
        }
        assert_eq!(seen.len(), states, "{blocks} blocks");
    }
}

/// The largest possible allocator: few words are touched, and nothing above the granted blocks changes.
#[test]
fn the_largest_allocator_is_sparse() {
    let mut words = zeroed(Buddy::BLOCKS_MAX);
    let mut buddy = Buddy::init(&mut words, u32::MAX, 1 << 20);
    let held: Vec<u32> = (0..100).filter_map(|blocks| buddy.alloc(blocks * 97)).collect();
    assert_eq!(held.len(), 99);
    buddy.grow((1 << 23) + 12_345);
    assert_eq!(buddy.largest_free(), 1 << 22);
    assert_eq!(buddy.alloc(1 << 22), Some(1 << 22));
    for first in held {
        assert!(buddy.free(first).is_ok());
    }
    assert_eq!(buddy.largest_free(), 1 << 22);
    assert_eq!(buddy.free(1 << 22), Ok(1 << 22));
    assert_eq!(buddy.largest_free(), 1 << 23);
    assert_eq!(buddy.free_blocks(), (1 << 23) + 12_345);
    assert!(words.iter().filter(|&&word| word != 0).count() < 32);

    let mut buddy = Buddy::attach(&mut words).unwrap();
    buddy.grow(u32::MAX);
    assert_eq!((buddy.blocks_now(), buddy.largest_free()), (1 << 24, 1 << 24));
    assert_eq!(buddy.alloc(1 << 24), Some(0));
    assert_eq!(buddy.alloc(1), None);
    assert_eq!(buddy.free(0), Ok(1 << 24));
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Alloc(u32),
    /// The live allocation with this index.
    Free(usize),
    FreeAny(u32),
    Grow(u32),
}

fn steps(blocks_max: u32, count: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..=blocks_max.min(9)).prop_map(Step::Alloc),
        2 => (0..=blocks_max + 1).prop_map(Step::Alloc),
        6 => any::<usize>().prop_map(Step::Free),
        1 => (0..=blocks_max + 1).prop_map(Step::FreeAny),
        1 => (0..=blocks_max + 1).prop_map(Step::Grow),
    ];
    proptest::collection::vec(step, 0..count)
}

fn scenario() -> impl Strategy<Value = (u32, u32, Vec<Step>)> {
    (1..700u32).prop_flat_map(|blocks_max| (Just(blocks_max), 0..=blocks_max, steps(blocks_max, 120)))
}

fn step_both(words: &mut [u64], oracle: &mut Oracle, step: Step) {
    let mut buddy = Buddy::attach(words).unwrap();
    match step {
        Step::Alloc(blocks) => assert_eq!(buddy.alloc(blocks), oracle.alloc(blocks)),
        Step::Free(place) => {
            let place = place % oracle.live.len().max(1);
            if let Some((&first, &order)) = oracle.live.iter().nth(place) {
                assert_eq!(buddy.size_of(first), Some(1 << order));
                assert_eq!(buddy.free(first), oracle.free(first));
                assert_eq!(buddy.size_of(first), None);
            }
        }
        Step::FreeAny(first) => assert_eq!(buddy.free(first), oracle.free(first)),
        Step::Grow(blocks_now) => {
            buddy.grow(blocks_now);
            oracle.grow(blocks_now);
        }
    }
    assert_eq!(buddy.blocks_now(), oracle.blocks_now);
    assert_eq!(buddy.free_blocks(), oracle.free_blocks());
    assert_eq!(buddy.largest_free(), oracle.largest_free());
}

proptest! {
    #[test]
    fn does_what_the_oracle_does((blocks_max, blocks_now, steps) in scenario()) {
        let mut words = zeroed(blocks_max);
        Buddy::init(&mut words, blocks_max, blocks_now);
        let mut oracle = Oracle::new(blocks_max, blocks_now);
        for step in steps {
            step_both(&mut words, &mut oracle, step);
            check(&words, &oracle);
        }
        while !oracle.live.is_empty() {
            let middle = oracle.live.len() / 2;
            step_both(&mut words, &mut oracle, Step::Free(middle));
        }
        let mut fresh = zeroed(blocks_max);
        Buddy::init(&mut fresh, blocks_max, oracle.blocks_now);
        prop_assert_eq!(words, fresh, "all freed: all joined");
    }

    /// A crash leaves any part of the last operation's writes behind. The rebuilt words equal those of an allocator
    /// without a crash.
    #[test]
    fn rebuild_forgets_a_torn_operation(
        (blocks_max, blocks_now, steps) in scenario(),
        torn: u64,
        reversed: bool,
    ) {
        let mut words = zeroed(blocks_max);
        Buddy::init(&mut words, blocks_max, blocks_now);
        let mut oracle = Oracle::new(blocks_max, blocks_now);
        let mut before = words.clone();
        for step in steps {
            before.copy_from_slice(&words);
            step_both(&mut words, &mut oracle, step);
        }
        let live: Vec<(u32, u32)> = oracle.live.iter().map(|(&first, &order)| (first, 1 << order)).collect();
        let mut whole = words.clone();
        Buddy::attach(&mut whole).unwrap().rebuild(live.iter().copied());
        check(&whole, &oracle);

        let mut mixed = words.clone();
        let mut kept = torn;
        // The number of blocks is the first thing that an operation writes: it is always the new one here.
        for at in (BLOCKS_NOW_AT + 1..words.len()).filter(|&at| words[at] != before[at]) {
            if kept & 1 == 0 {
                mixed[at] = before[at];
            }
            kept = kept.rotate_right(1);
        }
        let mut buddy = Buddy::view(&mut mixed, blocks_max);
        if reversed {
            buddy.rebuild(live.into_iter().rev());
        } else {
            buddy.rebuild(live.into_iter());
        }
        prop_assert_eq!(mixed, whole);
    }

    #[test]
    fn rebuild_ignores_what_alloc_could_not_have_given(
        blocks_max in 1..300u32,
        pairs in proptest::collection::vec((0..310u32, 0..40u32), 0..40),
    ) {
        let mut words = zeroed(blocks_max);
        let mut buddy = Buddy::init(&mut words, blocks_max, blocks_max);
        buddy.rebuild(pairs.iter().copied().chain([(u32::MAX, u32::MAX), (0, u32::MAX), (u32::MAX, 1)]));
        let mut oracle = Oracle { blocks_max, blocks_now: blocks_max, ..Oracle::default() };
        let mut taken = vec![false; blocks_max as usize];
        for (first, blocks) in pairs {
            let size = blocks.next_power_of_two();
            let sound = blocks > 0 && first % size == 0 && first + size <= blocks_max;
            if sound && taken[first as usize..][..size as usize].iter().all(|taken| !taken) {
                taken[first as usize..][..size as usize].fill(true);
                oracle.live.insert(first, size.trailing_zeros());
            }
        }
        for block in (0..blocks_max).filter(|&block| !taken[block as usize]) {
            oracle.join(block, 0);
        }
        check(&words, &oracle);
    }

    /// Invariant 5: with any words, every call returns, allocates only existing blocks, and a refusal changes nothing.
    /// Then a rebuild makes a sound allocator of them.
    #[test]
    fn corrupt_words_are_survived(
        (blocks_max, blocks_now, first_steps) in scenario(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u64>(), any::<bool>()), 0..60),
        random_all in proptest::option::weighted(0.3, any::<u64>()),
        steps in (1..700u32).prop_flat_map(|blocks_max| steps(blocks_max, 60)),
    ) {
        let mut words = zeroed(blocks_max);
        Buddy::init(&mut words, blocks_max, blocks_now);
        let mut oracle = Oracle::new(blocks_max, blocks_now);
        for step in first_steps {
            step_both(&mut words, &mut oracle, step);
        }
        for (at, value, flip) in damage {
            let at = at.index(words.len());
            words[at] = if flip { words[at] ^ 1 << (value % 64) } else { value };
        }
        if let Some(seed) = random_all {
            let mut state = seed | 1;
            for word in &mut words[BLOCKS_NOW_AT..] {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *word = state ^ state >> 29;
            }
        }
        // Words that `attach` refuses are used too: a peer may write to the header later.
        let _ = Buddy::attach(&mut words);
        let mut buddy = Buddy::view(&mut words, blocks_max);
        for step in steps {
            let before = buddy.words.to_vec();
            let refused = match step {
                Step::Alloc(blocks) => match buddy.alloc(blocks) {
                    Some(first) => {
                        prop_assert!(first + blocks.next_power_of_two() <= buddy.blocks_now());
                        prop_assert!(buddy.size_of(first).is_some());
                        false
                    }
                    None => true,
                },
                Step::Free(first) => buddy.free(first as u32 % (blocks_max + 2)).is_err(),
                Step::FreeAny(first) => buddy.free(first).is_err(),
                Step::Grow(blocks_now) => {
                    let unchanged = blocks_now.min(blocks_max) <= buddy.blocks_now();
                    buddy.grow(blocks_now);
                    unchanged
                }
            };
            if refused {
                prop_assert_eq!(&*buddy.words, &before[..]);
            }
            prop_assert!(buddy.largest_free() <= blocks_max.next_power_of_two());
            prop_assert!(buddy.free_blocks() <= buddy.blocks_now() && buddy.blocks_now() <= blocks_max);
            for block in 0..blocks_max + 2 {
                let size = buddy.size_of(block).unwrap_or(0);
                prop_assert!(size == 0 || block + size <= buddy.blocks_now());
            }
        }
        buddy.grow(blocks_max);
        buddy.rebuild([(0, 1), (2, 2)].into_iter());
        let mut fresh = zeroed(blocks_max);
        let mut fresh = Buddy::init(&mut fresh, blocks_max, blocks_max);
        fresh.rebuild([(0, 1), (2, 2)].into_iter());
        for blocks in [5, 1, 64, 2, 16, 1, 1, 1].into_iter().cycle().take(2 * blocks_max as usize) {
            prop_assert_eq!(buddy.alloc(blocks), fresh.alloc(blocks));
            prop_assert_eq!(buddy.largest_free(), fresh.largest_free());
        }
        for first in (0..blocks_max).rev() {
            prop_assert_eq!(buddy.free(first), fresh.free(first));
        }
        prop_assert_eq!(buddy.free_blocks(), blocks_max);
    }
}
