// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of a link that wait for a frame.

use std::collections::VecDeque;

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::ids::NicName;
use crate::payload::Payload;

/// Limit of the bytes that wait for a link.
const QUEUE_BYTES_MAX: usize = 4 << 20;

/// A packet that waits, or the rest of one.
pub(super) struct QueuedPacket {
    pub(super) to: NicName,
    pub(super) packet: Box<[u8; PACKET_BYTES]>,
    pub(super) payload: Payload,
    /// The receiver reads the payload from here.
    pub(super) is_read: bool,
    /// Bytes of the payload that earlier frames have.
    pub(super) sent: usize,
}

impl QueuedPacket {
    /// Returns the bytes that count in the queue until the packet is released.
    pub(super) fn bytes(&self) -> usize {
        PACKET_BYTES + self.payload.length()
    }
}

#[derive(Default)]
pub(super) struct PacketQueue {
    packets: VecDeque<QueuedPacket>,
    bytes: usize,
}

impl PacketQueue {
    pub(super) fn has_room(&self) -> bool {
        self.bytes < QUEUE_BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the number of packets that wait, and their bytes, those being sent or read included.
    pub(super) fn waiting(&self) -> (usize, usize) {
        (self.packets.len(), self.bytes)
    }

    /// Appends a packet. Its bytes count until [`PacketQueue::release`].
    pub(super) fn push(&mut self, packet: QueuedPacket) {
        self.bytes += packet.bytes();
        self.packets.push_back(packet);
    }

    /// Takes the first packet. Its bytes still count.
    pub(super) fn pop(&mut self) -> Option<QueuedPacket> {
        self.packets.pop_front()
    }

    pub(super) fn put_back(&mut self, packet: QueuedPacket) {
        self.packets.push_front(packet);
    }

    /// Stops counting bytes: their packet has left, and its payload was sent or read.
    pub(super) fn release(&mut self, bytes: usize) {
        self.bytes -= bytes;
    }
}
