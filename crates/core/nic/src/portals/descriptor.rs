// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory descriptors: look-ups without the lock.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU32, fence};

use crate::signals::{Descriptor, Signals};
use crate::tables::slot;

/// Status of descriptors.
pub const DESCRIPTOR_LIVE: u32 = 1;

/// A memory descriptor, as a reader sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DescriptorView {
    pub start: u64,
    /// Bytes in total.
    pub length: u64,
    pub options: u32,
    pub queue: u32,
    pub counter: u32,
    pub iov: u32,
    pub iov_count: u32,
}

impl<'a> Signals<'a> {
    /// The record that a reference names, and the value of its slot while the descriptor lives.
    #[inline]
    fn descriptor_record(&self, reference: u32) -> Option<(&'a Descriptor, u32)> {
        let (index, generation) = self.encodings.descriptors.decode(reference);
        Some((self.descriptors.get(index as usize)?, slot::word(generation, DESCRIPTOR_LIVE)))
    }

    /// The word that tells whether a descriptor lives, and its value while it does. Meanwhile no other field changes.
    pub fn descriptor_slot(&self, reference: u32) -> Option<(&'a AtomicU32, u32)> {
        self.descriptor_record(reference).map(|(record, word)| (&record.slot, word))
    }

    /// The live descriptor that a reference names. Any thread may call this, without the lock.
    #[inline]
    pub fn descriptor(&self, reference: u32) -> Option<DescriptorView> {
        let (record, word) = self.descriptor_record(reference)?;
        if record.slot.load(Acquire) != word {
            return None;
        }
        let view = DescriptorView {
            start: record.start.load(Relaxed),
            length: record.length.load(Relaxed),
            options: record.options.load(Relaxed),
            queue: record.queue.load(Relaxed),
            counter: record.counter.load(Relaxed),
            iov: record.iov.load(Relaxed),
            iov_count: record.iov_count.load(Relaxed),
        };
        fence(Acquire);
        (record.slot.load(Relaxed) == word).then_some(view)
    }
}
