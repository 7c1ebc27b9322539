// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Staging memory: registered slots from which puts send copied payload.
//!
//! A slot is taken for a put. It is free again when a notification says that the requester has read it.
//!
//! Invariant: a slot that is taken has exactly one put in flight.

/// Slots of one length in registered memory of this node.
#[derive(Debug)]
pub struct Staging {
    start: u64,
    nla: u64,
    slot_bytes: u64,
    slots: u64,
    free: Vec<u64>,
}

/// A slot: its address, and its network logical address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagingSlot {
    pub start: u64,
    pub nla: u64,
}

impl Staging {
    /// Makes `slots` free slots from `start` on, which is registered at `nla`.
    pub fn new(start: u64, nla: u64, slot_bytes: u64, slots: u64) -> Staging {
        Staging { start, nla, slot_bytes, slots, free: (0..slots).collect() }
    }

    /// Takes a free slot.
    pub fn take(&mut self) -> Option<StagingSlot> {
        let offset = self.free.pop()? * self.slot_bytes;
        Some(StagingSlot { start: self.start + offset, nla: self.nla + offset })
    }

    /// Frees the slot that holds this network logical address. False if there is none.
    pub fn give_back(&mut self, nla: u64) -> bool {
        let Some(slot) = nla.checked_sub(self.nla).map(|offset| offset / self.slot_bytes) else { return false };
        if slot >= self.slots {
            return false;
        }
        // Two notifications may name one slot: that it was read, and that its target has refused it.
        if !self.free.contains(&slot) {
            self.free.push(slot);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_taken_once_and_come_back_by_any_of_their_addresses() {
        let mut staging = Staging::new(0x1000, 0x8000, 64, 2);
        let (one, other) = (staging.take().expect("free"), staging.take().expect("free"));
        assert_ne!(one, other);
        assert_eq!((one.nla - 0x8000, other.nla - 0x8000), (one.start - 0x1000, other.start - 0x1000));
        assert_eq!(staging.take(), None);
        assert!(staging.give_back(one.nla + 63) && staging.give_back(one.nla));
        assert_eq!((staging.take(), staging.take()), (Some(one), None), "a slot is given back once");
        assert!(!staging.give_back(0x7fff) && !staging.give_back(0x8080));
    }
}
