// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Slots with 32-bit indices and a free list. Nothing is allocated once the slots in use are at their peak.

use selvedge_os::huge::prefer_huge_pages;

pub(super) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }

    #[inline]
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = value;
                slot
            }
            None => {
                let slot = self.slots.len() as u32;
                assert!(slot != NONE, "a network holds at most 4,294,967,295 packets");
                if self.slots.len() == self.slots.capacity() {
                    self.slots.reserve(1);
                    prefer_huge_pages(&self.slots);
                }
                self.slots.push(value);
                slot
            }
        }
    }

    /// Frees a slot. The value stays readable until the slot is used again.
    #[inline]
    pub fn remove(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Returns the value of a slot, free or not. `None`: there is no such slot.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)
    }

    pub fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;
    #[inline(always)]
    fn index(&self, slot: u32) -> &T {
        &self.slots[slot as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    #[inline(always)]
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.slots[slot as usize]
    }
}
