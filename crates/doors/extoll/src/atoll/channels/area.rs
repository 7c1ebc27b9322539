// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Registered memory of a host port: its receive area, whose slots peers put to, and its send area, from which it puts.
//!
//! Invariant: a slot of the send area belongs to one message under construction, to one put under way, or is free.

use std::ptr::NonNull;

use selvedge_nic::atu::PAGE_BYTES;

use super::error::OpenError;
use selvedge_process::device::Device;
use selvedge_process::process::Process;

/// Registered memory that peers map. [`Area::free`] frees it once no command reaches it any more.
pub(super) struct Area {
    memory: NonNull<u8>,
    bytes: u64,
    /// Its first network logical address.
    pub nla: u64,
}

impl Area {
    pub fn new(process: &Process, device: &Device, vpid: u16, bytes: u64) -> Result<Area, OpenError> {
        // More than the arena's small blocks, so that it starts at a page.
        let whole = bytes.next_multiple_of(PAGE_BYTES).max(8 * PAGE_BYTES);
        let memory = process.alloc(whole as usize).ok_or(OpenError::NoMemory(whole))?;
        match device.register(vpid, memory.as_ptr() as u64, whole) {
            Ok(nla) => Ok(Area { memory, bytes: whole, nla }),
            Err(error) => {
                process.free(memory);
                Err(error.into())
            }
        }
    }

    pub fn free(&self, process: &Process) {
        process.free(self.memory);
    }

    /// The memory at an offset. `None`: fewer than `bytes` bytes follow there.
    pub fn at(&self, offset: u64, bytes: u64) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: the sum is within the memory.
        (end <= self.bytes).then(|| unsafe { self.memory.as_ptr().add(offset as usize) })
    }

    /// The offset of a network logical address.
    pub fn offset_of(&self, nla: u64) -> Option<u64> {
        nla.checked_sub(self.nla).filter(|offset| *offset < self.bytes)
    }
}

#[derive(Debug)]
pub(super) struct Slots {
    free: u64,
}

/// Slots of a send area.
pub const SEND_SLOTS: u32 = 64;
/// Slots reserved for complete sends: messages under construction do not take them.
const RESERVED: u32 = 4;
/// Limit of the slots of one message under construction.
pub const BUILDING_MAX: u32 = SEND_SLOTS - RESERVED;

impl Slots {
    pub fn new() -> Slots {
        Slots { free: u64::MAX }
    }

    pub fn free(&self) -> u32 {
        self.free.count_ones()
    }

    pub fn take(&mut self) -> Option<u8> {
        let slot = self.free.trailing_zeros();
        self.free &= self.free.wrapping_sub(1);
        (slot < SEND_SLOTS).then_some(slot as u8)
    }

    /// Takes slots for a message under construction. `None`: too few are free beyond the reserved ones.
    pub fn take_many(&mut self, count: u32) -> Option<Vec<u8>> {
        if count + RESERVED > self.free() {
            return None;
        }
        (0..count).map(|_| self.take()).collect()
    }

    pub fn give(&mut self, slot: u8) {
        debug_assert!(self.free >> slot & 1 == 0, "slot {slot} is free already");
        self.free |= 1u64.checked_shl(slot.into()).unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_taken_once_and_some_are_left_to_complete_sends() {
        let mut slots = Slots::new();
        assert_eq!(slots.take_many(BUILDING_MAX + 1), None);
        let many = slots.take_many(BUILDING_MAX).expect("enough slots are free");
        assert_eq!(slots.take_many(1), None);
        let rest: Vec<u8> = std::iter::from_fn(|| slots.take()).collect();
        assert_eq!(rest.len(), RESERVED as usize);
        let all: std::collections::BTreeSet<u8> = many.iter().chain(&rest).copied().collect();
        assert_eq!(all.len(), SEND_SLOTS as usize);
        all.into_iter().for_each(|slot| slots.give(slot));
        assert_eq!(slots.free(), SEND_SLOTS);
    }
}
