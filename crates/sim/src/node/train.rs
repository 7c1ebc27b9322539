// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When the packets of a message leave their node, if nothing else is in their way: in closed form, O(1).
//!
//! Packets 0 to k, all full but the last. The node's channel takes `wire` for a full one, and its bus `bus`; a packet sets out when it
//! has been read, when the one before it has left, and when the buffer behind the channel has room for it: of full ones it holds `n`, and
//! room comes back `wire + round_trip` after a packet has set out. With the longer of `wire` and `bus` as the step, packet j sets out at
//!
//! - `j * step`, where `n` steps are no shorter than `wire + round_trip`: buffers cover the way there and back;
//! - `(j div n) * (wire + round_trip) + (j mod n) * step`, where they do not.
//!
//! The last may be shorter: it is read in less time, and fits behind more full ones.

use crate::machine::Machine;
use crate::time::Time;

/// A message of several packets.
pub(super) struct Train {
    /// Of a full packet: on the channel; the longer of channel and bus.
    wire: Time,
    step: Time,
    /// From when a full packet sets out until the room that it took is back.
    back: Time,
    /// Full packets that a buffer holds, and those that it holds beside the last packet.
    room: u64,
    room_beside_last: u64,
    /// Reading the full packets behind the first, and the last packet.
    read: Time,
    read_last: Time,
    /// The number of the last packet.
    last: u64,
}

impl Train {
    pub fn new(machine: &Machine, packets: u32, last_bytes: u32, wire: Time) -> Train {
        let (link, network) = (&machine.network.link, &machine.network);
        let latency = network.node_latency();
        let bus = |bytes: u32| Time::of_bytes(bytes.into(), machine.host.dma_bytes_per_s);
        let (each, full) = (bus(link.packet_bytes), network.flits(link.packet_bytes));
        let last = u64::from(packets - 1);
        Train {
            wire,
            step: wire.max(each),
            back: wire + latency * 2 + network.switch.latency,
            room: u64::from(link.buffer_flits / full).max(1),
            room_beside_last: u64::from(link.buffer_flits.saturating_sub(network.flits(last_bytes)) / full),
            read: each * (last - 1),
            read_last: bus(last_bytes),
            last,
        }
    }

    /// What the bus has to read when the first packet leaves.
    pub fn to_read(&self) -> Time {
        self.read + self.read_last
    }

    /// When a full packet sets out, after the first.
    fn sets_out(&self, packet: u64) -> Time {
        if self.back <= self.step * self.room {
            return self.step * packet;
        }
        self.back * (packet / self.room) + self.step * (packet % self.room)
    }

    /// When the last packet sets out, if the first does at `head`, and the bus begins to read the others at `begins`.
    pub fn last_sets_out(&self, head: Time, begins: Time) -> Time {
        let after = self.read_last.max(self.wire);
        let mut last = (head + self.sets_out(self.last - 1) + after).max(begins + self.read + after);
        if let Some(packet) = (self.last - 1).checked_sub(self.room_beside_last) {
            last = last.max(head + self.sets_out(packet) + self.back);
        }
        last
    }

    /// When the last packet is read, which is no further ahead than two packets before it set out.
    pub fn last_read(&self, head: Time, begins: Time) -> Time {
        let ahead = self.last.checked_sub(2).map_or(Time::ZERO, |packet| self.sets_out(packet));
        (begins + self.to_read()).max(head + ahead)
    }
}
