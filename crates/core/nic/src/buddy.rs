// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A buddy allocator of equal blocks. Its whole state is a slice of words that the caller supplies.
//!
//! Carries out seed 000 (PAC), section 3.2.5 "Dynamic Memory Allocator": the buddy system (Knuth, *The Art of Computer
//! Programming*, volume 1, 2.5), which PAC chose because it needs binary operations only; PAC allocates the memory of
//! unexpected messages with it. Here all metadata lies outside of the managed memory. So it can lie in a segment that
//! processes share, and a store to the managed memory cannot damage it.
//!
//! The blocks are the leaves of a binary tree whose nodes are numbered as in a heap: the root is node 1, the children
//! of node `n` are `2n` and `2n + 1`, block `b` is node `leaf_base + b`. A node of order `k` covers `2^k` blocks. The
//! state is one byte per node: 0 if nothing below is free, [`ALLOCATED`] if exactly this node is allocated, else one
//! more than the order of the largest free piece at or below it. So a free node of order `k` holds `k + 1`, and the
//! root gives the order of the largest free piece.
//!
//! Invariants
//! 1. The extents of free and of allocated nodes are disjoint, and together they are the blocks `0..blocks_now`.
//! 2. Below a free or allocated node every byte is 0. Two buddies are never both free: they are joined to their parent.
//!    So the bytes depend only on the present allocations, not on their history.
//! 3. A word whose nodes all lie wholly at or above `blocks_now` is zero, and is neither written nor read: in a sparse
//!    file it takes no memory.
//! 4. An allocation takes the lowest address at which it fits.
//! 5. Words may hold anything (another process may have written them). Every index is checked, every loop is bounded by
//!    the height of the tree or the number of words, and an inconsistency gives an error value, or no memory. While
//!    bytes are wrong the same blocks may be allocated twice; never blocks at or above `blocks_now`.
//!
//! Costs: `alloc`, `free`, `size_of` O(log blocks), two bytes touched a level; `grow` O(log^2); `rebuild` O(words of
//! granted blocks + live * log). Two bytes a block, and 32.

use core::fmt;

use crate::errors::Corrupt;

const HEADER_WORDS: usize = 4;
const MAGIC_AT: usize = 0;
const BLOCKS_MAX_AT: usize = 1;
const BLOCKS_NOW_AT: usize = 2;
const FREE_BLOCKS_AT: usize = 3;

/// The last byte is the version of the layout.
const MAGIC: u64 = u64::from_le_bytes(*b"SlvBudd\x01");

/// Nodes whose bytes share a word. Buddies always share one.
const NODES_PER_WORD: u32 = 8;
const ROOT: u32 = 1;

/// The byte of an allocated node; greater than any order plus one.
const ALLOCATED: u8 = 0x80;

/// Reasons for which blocks were not freed. The state is unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BuddyError {
    /// No allocation starts at this block.
    NotAllocated,
    /// The words contradict each other.
    Corrupt,
}

impl fmt::Display for BuddyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllocated => "no allocation starts at this block",
            Self::Corrupt => "the allocator's words contradict each other",
        })
    }
}

impl core::error::Error for BuddyError {}

/// The allocator: a view of its words.
///
/// The caller holds the lock that guards the words. If a crash interrupts an operation, [`Buddy::rebuild`] repairs the
/// words. A refused operation leaves them bit-identical.
#[derive(Debug)]
pub struct Buddy<'a> {
    words: &'a mut [u64],
    /// This field and the next are copies that were checked: another process may change the words at any time.
    blocks_max: u32,
    /// The node of block 0: a power of two, at least `blocks_max`.
    leaf_base: u32,
}

impl<'a> Buddy<'a> {
    /// The most blocks that one allocator manages.
    pub const BLOCKS_MAX: u32 = 1 << 24;

    /// Number of words of an allocator with this many blocks, at most [`Self::BLOCKS_MAX`].
    pub const fn words_needed(blocks_max: u32) -> usize {
        let blocks_max = if blocks_max > Self::BLOCKS_MAX { Self::BLOCKS_MAX } else { blocks_max };
        let nodes = blocks_max.next_power_of_two() + blocks_max;
        HEADER_WORDS + nodes.div_ceil(NODES_PER_WORD) as usize
    }

    /// Makes an allocator in words that are all zero. `blocks_now` of at most `blocks_max` blocks are available. With
    /// fewer words than [`Self::words_needed`] it has no blocks.
    pub fn init(words: &'a mut [u64], blocks_max: u32, blocks_now: u32) -> Buddy<'a> {
        let enough = words.len() >= Self::words_needed(blocks_max);
        let blocks_max = if enough { blocks_max.min(Self::BLOCKS_MAX) } else { 0 };
        let mut buddy = Self::view(words, blocks_max);
        buddy.put(MAGIC_AT, MAGIC);
        buddy.put(BLOCKS_MAX_AT, u64::from(blocks_max));
        buddy.grow(blocks_now);
        buddy
    }

    /// Attaches to the state in these words. O(1): only the header is checked here, the tree when it is used.
    pub fn attach(words: &'a mut [u64]) -> Result<Buddy<'a>, Corrupt> {
        let header = *words.first_chunk::<HEADER_WORDS>().ok_or(Corrupt)?;
        let blocks_max = u32::try_from(header[BLOCKS_MAX_AT]).map_err(|_| Corrupt)?;
        let sound = header[MAGIC_AT] == MAGIC
            && blocks_max <= Self::BLOCKS_MAX
            && Self::words_needed(blocks_max) <= words.len()
            && header[BLOCKS_NOW_AT] <= header[BLOCKS_MAX_AT]
            && header[FREE_BLOCKS_AT] <= header[BLOCKS_NOW_AT];
        if sound { Ok(Self::view(words, blocks_max)) } else { Err(Corrupt) }
    }

    fn view(words: &'a mut [u64], blocks_max: u32) -> Self {
        Self { words, blocks_max, leaf_base: blocks_max.next_power_of_two() }
    }

    /// Allocates contiguous blocks and returns the first. Their number is rounded up to a power of two, and the first
    /// block is aligned to that. `None` if no such piece is free, for zero blocks, and if the words are corrupt.
    pub fn alloc(&mut self, blocks: u32) -> Option<u32> {
        let order = self.order_for(blocks)?;
        let (first, order_found) = self.lowest_free(order)?;
        let free_blocks = self.free_blocks().checked_sub(1 << order)?;
        if !self.is_granted(first, order_found) {
            return None;
        }
        self.take(first, order, order_found);
        self.put(FREE_BLOCKS_AT, u64::from(free_blocks));
        Some(first)
    }

    /// Frees the allocation that starts at this block and joins it with its free buddies. Returns the number of blocks
    /// freed.
    pub fn free(&mut self, first: u32) -> Result<u32, BuddyError> {
        let order = self.allocated_order(first).ok_or(BuddyError::NotAllocated)?;
        let free_blocks = self.free_blocks() + (1 << order);
        if free_blocks > self.blocks_now() {
            return Err(BuddyError::Corrupt);
        }
        self.release(first, order);
        self.put(FREE_BLOCKS_AT, u64::from(free_blocks));
        Ok(1 << order)
    }

    /// Number of blocks of the allocation that starts at this block; `None` if none starts there.
    pub fn size_of(&self, first: u32) -> Option<u32> {
        self.allocated_order(first).map(|order| 1 << order)
    }

    /// Makes the blocks up to `blocks_now` (at most `blocks_max`) available. A smaller number changes nothing.
    pub fn grow(&mut self, blocks_now: u32) {
        let before = self.blocks_now();
        let after = blocks_now.min(self.blocks_max);
        if after <= before {
            return;
        }
        let free_blocks = self.free_blocks() + (after - before);
        // This store comes first: a crash must not leave bytes above `blocks_now`, where a rebuild would not check.
        self.put(BLOCKS_NOW_AT, u64::from(after));
        self.release_range(before, after);
        self.put(FREE_BLOCKS_AT, u64::from(free_blocks));
    }

    /// Number of blocks, free and allocated.
    pub fn blocks_now(&self) -> u32 {
        u32::try_from(self.get(BLOCKS_NOW_AT)).unwrap_or(u32::MAX).min(self.blocks_max)
    }

    /// Number of free blocks, in pieces of any size.
    pub fn free_blocks(&self) -> u32 {
        u32::try_from(self.get(FREE_BLOCKS_AT)).unwrap_or(u32::MAX).min(self.blocks_now())
    }

    /// The most blocks that [`Self::alloc`] can allocate now.
    pub fn largest_free(&self) -> u32 {
        let largest = self.free_below(ROOT, self.height());
        if largest == 0 { 0 } else { 1 << (largest - 1) }
    }

    /// Rebuilds the state after a crash. `live` lists the allocations as (first block, blocks requested); the rest of
    /// `blocks_now` is free. It ignores pairs that overlap an earlier pair, or that [`Self::alloc`] could not have
    /// returned.
    pub fn rebuild(&mut self, live: impl Iterator<Item = (u32, u32)>) {
        let blocks_now = self.blocks_now();
        self.clear_granted(blocks_now);
        self.put(BLOCKS_NOW_AT, u64::from(blocks_now));
        self.release_range(0, blocks_now);
        let mut free_blocks = blocks_now;
        for (first, blocks) in live {
            let Some(order) = self.order_for(blocks) else { continue };
            if !self.is_granted(first, order) {
                continue;
            }
            if let Some(order_found) = self.free_cover(first, order) {
                self.take(first, order, order_found);
                free_blocks = free_blocks.saturating_sub(1 << order);
            }
        }
        self.put(FREE_BLOCKS_AT, u64::from(free_blocks));
    }

    // ---- searching ----

    /// The free node with the lowest free piece of this order: its first block and its own order.
    fn lowest_free(&self, order: u32) -> Option<(u32, u32)> {
        let mut node = ROOT;
        let mut largest = self.free_below(ROOT, self.height());
        for order_at in (order..=self.height()).rev() {
            if u32::from(largest) == order_at + 1 {
                return Some(((node - (self.leaf_base >> order_at)) << order_at, order_at));
            }
            // An invalid byte reads as 0, so the wanted order ends the search in any case.
            if u32::from(largest) <= order {
                return None;
            }
            node *= 2;
            largest = self.free_below(node, order_at - 1);
            if u32::from(largest) <= order {
                node += 1;
                largest = self.free_below(node, order_at - 1);
            }
        }
        None
    }

    /// The order of the free node that covers this piece: the piece itself or an ancestor.
    fn free_cover(&self, first: u32, order: u32) -> Option<u32> {
        (order..=self.height()).find(|&order| self.is_free(self.node(first, order), order))
    }

    fn allocated_order(&self, first: u32) -> Option<u32> {
        if first >= self.blocks_now() {
            return None;
        }
        let order_max = first.trailing_zeros().min(self.height());
        let order = (0..=order_max).find(|&order| self.byte(self.node(first, order)) == ALLOCATED)?;
        self.is_granted(first, order).then_some(order)
    }

    // ---- changing ----

    /// Allocates this piece of the free node of `order_found` that covers it.
    fn take(&mut self, first: u32, order: u32, order_found: u32) {
        let mut byte = ALLOCATED;
        for order in order..order_found {
            let free = order as u8 + 1;
            self.put_buddies(self.node(first, order), byte, free);
            // The parent's largest piece is the other half.
            byte = free;
        }
        self.put_byte(self.node(first, order_found), byte);
        self.update_above(first, order_found);
    }

    /// Makes this piece free, joined with its buddy while that is free too.
    fn release(&mut self, first: u32, order: u32) {
        let (mut node, mut order) = (self.node(first, order), order);
        while node != ROOT && self.is_free(node ^ 1, order) {
            self.put_buddies(node, 0, 0);
            node /= 2;
            order += 1;
        }
        self.put_byte(node, order as u8 + 1);
        self.update_above(first, order);
    }

    fn update_above(&mut self, first: u32, order: u32) {
        for order in order..self.height() {
            let node = self.node(first, order);
            let largest = self.free_below(node, order).max(self.free_below(node ^ 1, order));
            if self.byte(node / 2) == largest {
                break;
            }
            self.put_byte(node / 2, largest);
        }
    }

    /// Makes the blocks from `from` up to `to` free, in the largest aligned pieces there are.
    fn release_range(&mut self, from: u32, to: u32) {
        let mut first = from;
        while first < to {
            let order = first.trailing_zeros().min((to - first).ilog2());
            self.release(first, order);
            first += 1 << order;
        }
    }

    /// Zeroes every word that has a node of granted blocks.
    fn clear_granted(&mut self, blocks_now: u32) {
        for order in 0..=self.height() {
            let from = self.node(0, order);
            let to = from + blocks_now.div_ceil(1 << order);
            let words =
                HEADER_WORDS + (from / NODES_PER_WORD) as usize..HEADER_WORDS + to.div_ceil(NODES_PER_WORD) as usize;
            self.words.get_mut(words).unwrap_or(&mut []).fill(0);
        }
    }

    // ---- the tree ----

    fn height(&self) -> u32 {
        self.leaf_base.trailing_zeros()
    }

    /// The order of this many blocks; `None` for 0, and for more than `blocks_max`.
    fn order_for(&self, blocks: u32) -> Option<u32> {
        (1..=self.blocks_max).contains(&blocks).then(|| blocks.next_power_of_two().trailing_zeros())
    }

    /// The node of this order that this block belongs to.
    fn node(&self, first: u32, order: u32) -> u32 {
        (self.leaf_base + first) >> order
    }

    /// Whether the piece is aligned and lies below `blocks_now`.
    fn is_granted(&self, first: u32, order: u32) -> bool {
        let blocks_now = self.blocks_now();
        first.trailing_zeros() >= order && first < blocks_now && blocks_now - first >= 1 << order
    }

    fn is_free(&self, node: u32, order: u32) -> bool {
        u32::from(self.byte(node)) == order + 1
    }

    /// One more than the order of the largest free piece at or below a node; 0 for none, and for an invalid byte.
    fn free_below(&self, node: u32, order: u32) -> u8 {
        let byte = self.byte(node);
        if u32::from(byte) <= order + 1 { byte } else { 0 }
    }

    fn byte(&self, node: u32) -> u8 {
        let word = self.get(HEADER_WORDS + (node / NODES_PER_WORD) as usize);
        (word >> (8 * (node % NODES_PER_WORD))) as u8
    }

    fn put_byte(&mut self, node: u32, byte: u8) {
        let at = HEADER_WORDS + (node / NODES_PER_WORD) as usize;
        let shift = 8 * (node % NODES_PER_WORD);
        self.put(at, self.get(at) & !(0xff << shift) | u64::from(byte) << shift);
    }

    /// Both bytes in one store; the node is not the root.
    fn put_buddies(&mut self, node: u32, byte: u8, byte_of_buddy: u8) {
        let at = HEADER_WORDS + (node / NODES_PER_WORD) as usize;
        let shift = 8 * (node % NODES_PER_WORD);
        let shift_of_buddy = shift ^ 8;
        let others = self.get(at) & !(0xff << shift | 0xff << shift_of_buddy);
        self.put(at, others | u64::from(byte) << shift | u64::from(byte_of_buddy) << shift_of_buddy);
    }

    fn get(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    fn put(&mut self, at: usize, value: u64) {
        if let Some(word) = self.words.get_mut(at) {
            *word = value;
        }
    }
}

#[cfg(test)]
#[path = "buddy_tests.rs"]
mod tests;
