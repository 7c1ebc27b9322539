// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Binding and releasing memory descriptors, for the holder of the lock. O(1).

use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::fence;

use super::descriptor::{DESCRIPTOR_LIVE, DescriptorView};
use crate::errors::Full;
use crate::nic::Nic;
use crate::tables::slot;
use crate::tap::Transition;

/// The memory descriptors of a NIC.
pub struct Descriptors<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl Descriptors<'_, '_> {
    /// Binds a memory descriptor. Returns its reference.
    pub fn bind(self, view: &DescriptorView) -> Result<u32, Full> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.descriptors().bind(view),
                |made| Some(Transition::Bind { view: *view, descriptor: made.ok() }),
            );
        }
        let index = self.nic.tables.control.free_descriptor;
        let record = self.nic.signals.descriptors.get(index as usize).ok_or(Full)?;
        self.nic.tables.control.free_descriptor = slot::next(index, record.next_free.load(Relaxed));
        // Pairs with the acquire fence of a reader: if it sees a field of the new descriptor, it also sees that the old
        // one is gone.
        fence(Release);
        record.start.store(view.start, Relaxed);
        record.length.store(view.length, Relaxed);
        record.options.store(view.options, Relaxed);
        record.queue.store(view.queue, Relaxed);
        record.counter.store(view.counter, Relaxed);
        record.iov.store(view.iov, Relaxed);
        record.iov_count.store(view.iov_count, Relaxed);
        let generation = slot::generation(record.slot.load(Relaxed));
        record.slot.store(slot::word(generation, DESCRIPTOR_LIVE), Release);
        Ok(self.nic.signals.encodings.descriptors.encode(index, generation))
    }

    /// Releases a descriptor.
    pub fn release(self, reference: u32) -> Option<()> {
        if self.nic.tap.is_open() {
            return self.nic.tapped(
                |nic| nic.descriptors().release(reference),
                |done| Some(Transition::Release { descriptor: reference, is_done: done.is_some() }),
            );
        }
        let view = self.nic.signals.descriptor(reference)?;
        let encoding = self.nic.signals.encodings.descriptors;
        let (index, generation) = encoding.decode(reference);
        let record = self.nic.signals.descriptors.get(index as usize)?;
        record.slot.store(slot::word(encoding.next_generation(generation), slot::FREE), Release);
        record.next_free.store(slot::link(index, self.nic.tables.control.free_descriptor), Relaxed);
        self.nic.tables.control.free_descriptor = index;
        self.nic.heap().free_iov(view.iov);
        Some(())
    }
}
