// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory of a process: the network logical addresses of its regions, by their keys, for peers to read.
//!
//! It is a hash table in memory that every peer may read by a get. A key has one bucket, which one get reads:
//!
//! | slot, 32 bytes | |
//! |---|---|
//! | word 0 | the key |
//! | word 1 | network logical address of the region's first byte |
//! | word 2 | length in bytes |
//! | word 3 | rights: 1 read, 2 write; bit 2: the port of the region, of the two; bit 63: the slot is taken |
//!
//! Invariants
//! 1. The directory is the first memory that a transport registers. So its network logical address is [`NLA`] in every
//!    process, and no region, message or buffer has the address 0.
//! 2. Word 3 is stored last when a slot is taken, and first when it is freed.
//! 3. [`find`] accepts any bytes, since they come from a peer's memory.
//!
//! Cost: 128 KiB. Its pages are touched as regions are added.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

use selvedge_nic::atu::{PAGE_BYTES, Rights};
use selvedge_nic::tables::PAGES;

use super::limits::REGION_VPIDS;
use super::memory::Block;
use crate::flags::{REMOTE_READ, REMOTE_WRITE};

/// The network logical address of every directory.
pub const NLA: u64 = 0;
/// Bytes of a directory.
pub const BYTES: usize = BUCKETS << BUCKET_BYTES.trailing_zeros();
/// Bytes that one look-up reads.
pub const BUCKET_BYTES: usize = SLOTS * SLOT_BYTES;

const BUCKET_BITS: u32 = 10;
const BUCKETS: usize = 1 << BUCKET_BITS;
const SLOTS: usize = 4;
const SLOT_BYTES: usize = 32;
const WORDS: usize = SLOT_BYTES / 8;
/// The end of all network logical addresses: 512 tables.
const NLA_END: u64 = 512 * PAGES as u64 * PAGE_BYTES;

const READ: u64 = 1;
const WRITE: u64 = 2;
const SECOND_PORT: u64 = 1 << 2;
const TAKEN: u64 = 1 << 63;

/// The entry of a key in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: u64,
    /// The port of the region: one of [`REGION_VPIDS`].
    pub vpid: u16,
    pub nla: u64,
    pub length: u64,
    /// [`REMOTE_READ`], [`REMOTE_WRITE`].
    pub access: u64,
}

impl Entry {
    /// The address of `bytes` bytes at an offset of the region. `None`: out of bounds.
    pub fn at(&self, offset: u64, bytes: u64) -> Option<u64> {
        let end = offset.checked_add(bytes)?;
        (end <= self.length).then(|| self.nla + offset)
    }

    fn words(&self) -> [u64; WORDS] {
        let right = |access: u64, bit: u64| if self.access & access != 0 { bit } else { 0 };
        let port = if self.vpid == REGION_VPIDS[1] { SECOND_PORT } else { 0 };
        [self.key, self.nla, self.length, right(REMOTE_READ, READ) | right(REMOTE_WRITE, WRITE) | port | TAKEN]
    }

    fn of_words([key, nla, length, rights]: [u64; WORDS]) -> Option<Entry> {
        let right = |bit: u64, access: u64| if rights & bit != 0 { access } else { 0 };
        let is_one = rights & TAKEN != 0 && rights & !(TAKEN | READ | WRITE | SECOND_PORT) == 0;
        let is_within = length <= NLA_END && nla <= NLA_END - length;
        let access = right(READ, REMOTE_READ) | right(WRITE, REMOTE_WRITE);
        let vpid = REGION_VPIDS[usize::from(rights & SECOND_PORT != 0)];
        (is_one && is_within).then_some(Entry { key, vpid, nla, length, access })
    }
}

/// The rights of address table entries for these accesses. `None`: no access by others.
pub fn rights(access: u64) -> Option<Rights> {
    match (access & REMOTE_READ != 0, access & REMOTE_WRITE != 0) {
        (true, true) => Some(Rights::ReadWrite),
        (true, false) => Some(Rights::ReadOnly),
        (false, true) => Some(Rights::WriteOnly),
        (false, false) => None,
    }
}

/// The offset of a key's bucket in a directory.
pub fn bucket_of(key: u64) -> u64 {
    // Keys are often consecutive numbers. The multiplication spreads those, too (Fibonacci hashing).
    let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> (u64::BITS - BUCKET_BITS)) * BUCKET_BYTES as u64
}

/// The entry of a key in its bucket.
pub fn find(bucket: &[u8; BUCKET_BYTES], key: u64) -> Option<Entry> {
    bucket.chunks_exact(SLOT_BYTES).find_map(|slot| {
        let word = |at: usize| u64::from_le_bytes(slot[8 * at..8 * at + 8].try_into().unwrap_or_default());
        Entry::of_words(std::array::from_fn(word)).filter(|entry| entry.key == key)
    })
}

/// This process's own directory.
pub struct Directory {
    block: Block,
}

impl Directory {
    /// Creates a directory in zeroed memory of [`BYTES`] bytes.
    pub fn new(block: Block) -> Directory {
        Directory { block }
    }

    /// Whether a key's bucket has a free slot.
    pub fn has_room(&self, key: u64) -> bool {
        self.free_slot(key).is_some()
    }

    /// Adds an entry with a new key. False: its bucket is full.
    pub fn insert(&mut self, entry: &Entry) -> bool {
        let Some(slot) = self.free_slot(entry.key) else { return false };
        for (word, value) in slot.iter().zip(entry.words()) {
            word.store(value.to_le(), Release);
        }
        true
    }

    /// Removes a key's entry, if it is there.
    pub fn remove(&mut self, key: u64) {
        let is_of = |slot: &&[AtomicU64; WORDS]| {
            slot[WORDS - 1].load(Relaxed) != 0 && u64::from_le(slot[0].load(Relaxed)) == key
        };
        if let Some(slot) = self.slots_of(key).find(is_of) {
            slot.iter().rev().for_each(|word| word.store(0, Release));
        }
    }

    fn free_slot(&self, key: u64) -> Option<&[AtomicU64; WORDS]> {
        self.slots_of(key).find(|slot| slot[WORDS - 1].load(Relaxed) == 0)
    }

    fn slots_of(&self, key: u64) -> impl Iterator<Item = &[AtomicU64; WORDS]> {
        let bucket = bucket_of(key) as usize;
        (0..SLOTS).map(move |slot| {
            // SAFETY: the bucket is within the block, which is aligned to a page and lives as long as this directory. The home
            // reads it for peers, and never writes it: their right is to read.
            unsafe { &*self.block.at(bucket + slot * SLOT_BYTES).cast::<[AtomicU64; WORDS]>() }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: u64) -> Entry {
        Entry { key, vpid: REGION_VPIDS[1], nla: 0x5123, length: 4096, access: REMOTE_READ | REMOTE_WRITE }
    }

    fn bucket(entries: &[Entry]) -> [u8; BUCKET_BYTES] {
        let mut bytes = [0; BUCKET_BYTES];
        let words = entries.iter().flat_map(Entry::words);
        bytes.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        bytes
    }

    #[test]
    fn a_key_is_found_in_its_bucket_alone() {
        let read = Entry { access: REMOTE_READ, ..entry(2) };
        let bytes = bucket(&[entry(1), read, Entry { access: 0, ..entry(u64::MAX) }]);
        assert_eq!(
            [1, 2, u64::MAX].map(|key| find(&bytes, key).map(|found| found.access)),
            [Some(REMOTE_READ | REMOTE_WRITE), Some(REMOTE_READ), Some(0)]
        );
        assert_eq!((find(&bytes, 2), find(&bytes, 3)), (Some(read), None));
        assert_eq!(find(&[0; BUCKET_BYTES], 0), None, "a free slot has no key");
    }

    #[test]
    fn bytes_of_no_entry_are_none() {
        let whole = bucket(&[entry(7)]);
        for bit in 0..64 {
            let mut bytes = whole;
            bytes[24 + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(find(&bytes, 7).is_some(), bit < 3, "bit {bit} of the rights");
        }
        for (nla, length) in [(NLA_END, 1), (0, NLA_END + 1), (u64::MAX, 1), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            assert_eq!(find(&bucket(&[Entry { nla, length, ..entry(7) }]), 7), None);
        }
    }

    #[test]
    fn bounds_are_those_of_bytes() {
        let entry = entry(1);
        assert_eq!(entry.at(0, 4096), Some(0x5123));
        assert_eq!(entry.at(4095, 1), Some(0x5123 + 4095));
        for (offset, bytes) in [(0, 4097), (4096, 1), (4089, 8), (u64::MAX, 1), (u64::MAX - 6, 8), (1 << 63, 1 << 63)] {
            assert_eq!(entry.at(offset, bytes), None, "{bytes} at {offset}");
        }
    }

    #[test]
    fn keys_that_follow_each_other_have_buckets_of_their_own() {
        for first in [0, 1 << 32 | 1, u64::MAX - 500] {
            let mut buckets: Vec<u64> = (0..500).map(|at| bucket_of(first + at)).collect();
            buckets.sort_unstable();
            buckets.dedup();
            assert!(buckets.len() > 400, "{} buckets for 500 keys from {first}", buckets.len());
            assert!(buckets.iter().all(|at| *at as usize + BUCKET_BYTES <= BYTES));
        }
    }
}
