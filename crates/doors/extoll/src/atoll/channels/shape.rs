// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channels of a host port, credits of each, bytes of a piece. All follow from the number of nodes, so peers agree.
//!
//! A program that has opened ports of other libraries first has smaller mailboxes. Then channels have fewer credits
//! here, in both directions.

use selvedge_nic::Limits;
use selvedge_nic::tables::LOCKS;

use super::area::SEND_SLOTS;
use super::locks::CLAIMS;
use super::vpids::HOST_PORTS;
use super::wire::{FRAME_BYTES, FRAME_BYTES_SHORT};

const CHANNELS_MIN: u32 = 8;
/// Channels of larger jobs, unless there are more nodes: one for each host port of 64 nodes.
const CHANNELS_USUAL: u32 = 256;
/// Each channel has a lock, behind those with the port's parameters.
const CHANNELS_MAX: u32 = LOCKS as u32 - CLAIMS;
const CREDITS_MAX: u32 = 32;
const CREDITS_MIN: u32 = 2;
/// Limit of the pieces under way to a port, unless it needs more channels.
const PIECES_MAX: u32 = 1024;
/// Slots of a mailbox that a piece takes.
const SLOTS_OF_PIECE: u32 = 2;
/// Control messages: the first and last of a channel's sender; from the receiver, that its port is closed.
const CONTROLS_IN: u32 = 2;
const CONTROLS_OUT: u32 = 1;
/// Slots that the reader has freed but not yet published.
const SLOTS_UNPUBLISHED: u32 = 16;
const NOTIFICATIONS_OTHER: u32 = 64;
/// Bytes of a receive area, and the limits of a piece (the seed's MTU).
const RECEIVE_BYTES: u64 = 8 << 20;
const PIECE_BYTES_MAX: u64 = 16 << 10;
const PIECE_BYTES_MIN: u64 = 1 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub channels: u16,
    /// Pieces of one channel for which its target has room.
    pub credits: u32,
    pub piece_bytes: u64,
    pub frame_bytes: usize,
}

fn channels_wanted(nodes: u32) -> u32 {
    (u32::from(HOST_PORTS) * nodes).clamp(CHANNELS_MIN, CHANNELS_USUAL).max(nodes).min(CHANNELS_MAX)
}

fn credits_wanted(nodes: u32) -> u32 {
    (PIECES_MAX / channels_wanted(nodes)).clamp(CREDITS_MIN, CREDITS_MAX)
}

fn mailbox_slots_for(nodes: u32, credits: u32) -> u32 {
    // Arrivals in a channel here, and credits that return for a channel from here.
    let each = SLOTS_OF_PIECE * credits + CONTROLS_IN + credits + CONTROLS_OUT;
    channels_wanted(nodes) * each + SLOTS_UNPUBLISHED
}

fn notifications_for(nodes: u32, credits: u32) -> u32 {
    channels_wanted(nodes) * credits + SEND_SLOTS + NOTIFICATIONS_OTHER
}

/// The slots and notifications that a NIC needs for channels of `nodes`.
pub(super) fn mailbox_slots(nodes: u32) -> u32 {
    mailbox_slots_for(nodes, credits_wanted(nodes))
}

pub(super) fn notifications(nodes: u32) -> u32 {
    notifications_for(nodes, credits_wanted(nodes))
}

impl Shape {
    /// The shape on a NIC with these limits. `None`: its mailboxes or its notification queues are too small.
    pub fn new(nodes: u32, limits: &Limits) -> Option<Shape> {
        let fits = |credits: &u32| {
            mailbox_slots_for(nodes, *credits) <= limits.mailbox_slots
                && notifications_for(nodes, *credits) <= limits.notifications
        };
        let wanted = credits_wanted(nodes);
        let credits = (1..=wanted).rev().find(fits)?;
        let share = RECEIVE_BYTES / u64::from(channels_wanted(nodes) * wanted);
        let piece_bytes = (1 << (share | 1).ilog2()).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        let frame_bytes = if limits.velo_bytes as usize >= FRAME_BYTES { FRAME_BYTES } else { FRAME_BYTES_SHORT };
        Some(Shape { channels: channels_wanted(nodes) as u16, credits, piece_bytes, frame_bytes })
    }

    pub fn receive_bytes(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.credits) * self.piece_bytes
    }

    pub fn send_bytes(&self) -> u64 {
        u64::from(SEND_SLOTS) * self.piece_bytes
    }

    /// The slot of a channel and a credit, in the receive area.
    pub fn slot_offset(&self, channel: u16, slot: u8) -> u64 {
        (u64::from(channel) * u64::from(self.credits) + u64::from(slot)) * self.piece_bytes
    }

    /// The channel and the credit of an offset in the receive area.
    pub fn slot_at(&self, offset: u64) -> (u16, u8) {
        let index = offset / self.piece_bytes;
        let credits = u64::from(self.credits);
        ((index / credits) as u16, (index % credits) as u8)
    }

    /// All credits of a channel.
    pub fn all(&self) -> u64 {
        mask(self.credits)
    }
}

/// A word with the lowest `bits` bits set.
pub(super) fn mask(bits: u32) -> u64 {
    u64::MAX.checked_shr(u64::BITS - bits.min(u64::BITS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_for_any_number_of_nodes_is_within_the_limits() {
        let most = Limits { mailbox_slots: u32::MAX, notifications: u32::MAX, ..Limits::EXTOLL }.clamped();
        for nodes in [1, 2, 3, 4, 16, 63, 64, 100, 500, 1024, 4096] {
            let wide = Limits { mailbox_slots: mailbox_slots(nodes), notifications: notifications(nodes), ..most };
            let shape = Shape::new(nodes, &wide.clamped()).expect("it fits");
            assert_eq!(shape.credits, credits_wanted(nodes), "{nodes}");
            assert!(shape.receive_bytes() <= 2 * RECEIVE_BYTES, "{nodes}");
            assert!(u32::from(shape.channels) >= nodes.min(CHANNELS_MAX));
            let last = shape.slot_offset(shape.channels - 1, shape.credits as u8 - 1);
            assert_eq!(last + shape.piece_bytes, shape.receive_bytes());
            assert_eq!(shape.slot_at(last + 8), (shape.channels - 1, shape.credits as u8 - 1));
        }
    }

    #[test]
    fn a_nic_that_others_have_opened_gives_fewer_credits_or_none() {
        let few = Shape::new(2, &Limits::EXTOLL).expect("it fits");
        assert!((1..credits_wanted(2)).contains(&few.credits));
        assert_eq!(
            few.piece_bytes,
            Shape::new(2, &Limits { mailbox_slots: 4096, ..Limits::EXTOLL }).expect("it fits").piece_bytes
        );
        assert_eq!(Shape::new(64, &Limits::EXTOLL), None);
    }

    #[test]
    fn a_mask_has_as_many_bits() {
        assert_eq!([0, 1, 32, 64].map(mask), [0, 1, 0xffff_ffff, u64::MAX]);
    }
}
