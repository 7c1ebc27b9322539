// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of a node: its segment, its bounce memory, and the sources of its puts.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use selvedge_nic::Limits;
use selvedge_nic::atu::PAGE_BYTES;
use selvedge_nic::tables::PAGES;
use selvedge_os::sync::IgnorePoison;
use selvedge_process::device::staging::Staging;
use selvedge_process::process::Process;
use selvedge_process::settings::Settings;

/// Memory reserved for other regions, of the memory that a process can register or share.
const OTHER_BYTES: u64 = 512 << 20;
/// Bytes of the longest long message.
pub const LONG_BYTES_MAX: u64 = 1 << 30;

/// A node's segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// 0 if there is none.
    pub start: u64,
    pub bytes: u64,
    pub(super) nla: u64,
}

impl Segment {
    pub(super) fn holds(&self, start: u64, bytes: u64) -> bool {
        start >= self.start && bytes <= self.bytes && start - self.start <= self.bytes - bytes
    }

    pub(super) fn nla_of(&self, address: u64) -> u64 {
        self.nla + (address - self.start)
    }
}

/// The record that nodes exchange when they attach: segment, bounce memory, handlers.
#[derive(Clone, Copy)]
pub(super) struct AttachRecord {
    pub(super) segment: Segment,
    pub(super) bounce_nla: u64,
    pub(super) handlers: [u64; 4],
}

impl AttachRecord {
    const WORDS: usize = 8;
    pub(super) const BYTES: usize = 8 * AttachRecord::WORDS;

    pub(super) fn encode(&self) -> Vec<u8> {
        let Segment { start, bytes, nla } = self.segment;
        let words = [start, bytes, nla, self.bounce_nla].into_iter().chain(self.handlers);
        words.flat_map(u64::to_le_bytes).collect()
    }

    pub(super) fn decode(bytes: &[u8; AttachRecord::BYTES]) -> AttachRecord {
        let mut words = [0; AttachRecord::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
        }
        let [start, bytes, nla, bounce_nla, handlers @ ..] = words;
        AttachRecord { segment: Segment { start, bytes, nla }, bounce_nla, handlers }
    }

    pub(super) fn has_handler(&self, handler: u8) -> bool {
        self.handlers[usize::from(handler) / 64] >> (handler % 64) & 1 != 0
    }
}

/// The memory of an attached node, and the ranges of the others' memory.
pub(super) struct Memory {
    pub(super) nodes: Vec<AttachRecord>,
    /// Address and first network logical address of bounce memory.
    pub(super) bounce: u64,
    pub(super) bounce_nla: u64,
    pub(super) local: Mutex<PutSources>,
}

/// Sources of puts that the requester has not read yet, and those that it has.
pub(super) struct PutSources {
    pub(super) staging: Staging,
    /// Sources that were read, by the address of their end.
    pub(super) read: BTreeMap<u64, u32>,
}

/// The longest segment, in whole pages: limited by the program, and by the memory that can be registered and shared.
pub(super) fn segment_bytes_max(process: &Process, limits: &Limits) -> u64 {
    let registered = u64::from(limits.address_tables) * PAGES as u64 * PAGE_BYTES;
    let most = |bytes: u64| bytes.saturating_sub(OTHER_BYTES).max(bytes / 4);
    let Settings { gasnet_segment_bytes, heap_bytes, .. } = process.settings;
    gasnet_segment_bytes.min(most(registered)).min(most(heap_bytes)) / PAGE_BYTES * PAGE_BYTES
}

impl Memory {
    pub(super) fn local(&self) -> MutexGuard<'_, PutSources> {
        self.local.lock().ignore_poison()
    }

    pub(super) fn segment_of(&self, node: u16) -> Option<Segment> {
        self.nodes.get(usize::from(node)).map(|attached| attached.segment)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_holds_what_lies_within_it() {
        let segment = Segment { start: 0x1000, bytes: 0x1000, nla: 0x8000 };
        assert!(segment.holds(0x1000, 0x1000) && segment.holds(0x1fff, 1) && segment.holds(0x2000, 0));
        assert!(!segment.holds(0xfff, 1) && !segment.holds(0x1fff, 2) && !segment.holds(0x2001, 0));
        assert!(!segment.holds(0x1001, 0x1000) && !segment.holds(u64::MAX, 2) && !segment.holds(0x1000, u64::MAX));
        assert_eq!(segment.nla_of(0x1010), 0x8010);
    }

    #[test]
    fn what_a_node_tells_is_read_as_it_was_written() {
        let segment = Segment { start: 1, bytes: 2, nla: 3 };
        let attached = AttachRecord { segment, bounce_nla: 4, handlers: [0, 0, 1 << 63, 1] };
        let read = AttachRecord::decode(attached.encode().first_chunk().expect("8 words"));
        assert_eq!((read.segment, read.bounce_nla, read.handlers), (segment, 4, attached.handlers));
        assert!(read.has_handler(191) && read.has_handler(192) && !read.has_handler(193));
    }
}
