// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Buffers for unexpected payload: locally managed entries of the overflow lists.
//!
//! Each portal table entry for messages has a few linked buffers. The NIC unlinks a full one, and another takes its
//! place. When the last message of a full buffer has been taken, the buffer is spare. Spare buffers are linked again
//! before new ones are made. Large messages leave no payload here.

use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};

use crate::in_flight::InFlight;
use crate::operation::{Buffer, Operation};
use crate::protocols::POOLED_BYTES_MAX;

const BUFFER_BYTES: usize = 1 << 20;
/// Buffers linked at each portal table entry.
const LINKED: usize = 2;
/// Largest number of spare buffers of a portal table entry.
const SPARE: usize = 2;

impl InFlight {
    /// Links buffers until a portal table entry has enough of them.
    pub fn fill_pool(&mut self, portal: u32) {
        let linked = self.operations.buffers(portal, |buffer| buffer.linked).count();
        for _ in linked..LINKED {
            let spare = self.operations.buffers(portal, |buffer| buffer.entry.is_none()).next();
            let number = spare.unwrap_or_else(|| {
                let bytes = Box::new_uninit_slice(BUFFER_BYTES);
                let buffer = Buffer { portal, bytes, entry: None, linked: false };
                self.operations.insert(Operation::Buffer(Box::new(buffer)))
            });
            if !self.link_buffer(number) {
                self.operations.drop_buffer(number);
                return;
            }
        }
    }

    fn link_buffer(&mut self, number: usize) -> bool {
        let Some(buffer) = self.operations.buffer(number) else { return false };
        let spec = EntrySpec {
            options: options::OP_PUT
                | options::MANAGE_LOCAL
                | options::EVENT_COMM_DISABLE
                | options::EVENT_LINK_DISABLE
                | options::EVENT_OVER_DISABLE,
            start: buffer.bytes.as_mut_ptr() as u64,
            length: BUFFER_BYTES as u64,
            iov: NONE,
            iov_count: 0,
            match_bits: 0,
            ignore_bits: u64::MAX,
            source: 0,
            source_ignore: u64::MAX,
            min_free: POOLED_BYTES_MAX as u64,
            user_ptr: number as u64,
            counter: NONE,
            uid: u32::MAX,
        };
        let portal = buffer.portal;
        let linked = self.nic.interface.lock().lists().append(&mut NoMemory, portal, list::OVERFLOW, &spec);
        let Some(buffer) = self.operations.buffer(number) else { return false };
        buffer.entry = linked.ok();
        buffer.linked = buffer.entry.is_some();
        buffer.linked
    }

    /// Records that the NIC has unlinked a full buffer.
    pub fn buffer_is_full(&mut self, number: usize) {
        let Some(buffer) = self.operations.buffer(number) else { return };
        buffer.linked = false;
        let portal = buffer.portal;
        self.fill_pool(portal);
    }

    /// Records that all messages of a full buffer have been taken.
    pub fn buffer_is_free(&mut self, number: usize) {
        let Some(buffer) = self.operations.buffer(number) else { return };
        buffer.entry = None;
        let portal = buffer.portal;
        if self.operations.buffers(portal, |buffer| buffer.entry.is_none()).count() > SPARE {
            self.operations.drop_buffer(number);
        }
    }
}
