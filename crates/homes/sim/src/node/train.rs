// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The times at which the packets of a message leave their node on an otherwise empty network, in closed form: O(1).
//!
//! The message has packets 0 to k; all but the last are full. A full packet takes `wire` on the node's channel and
//! `bus` on its bus. A packet departs when it has been read, when the previous packet has left, and when the buffer at
//! the end of the channel has room. The buffer holds `n` full packets; the room of a packet is free again `wire +
//! round_trip` after it has departed. Let `step` be the longer of `wire` and `bus`. Then packet j departs at
//!
//! - `j * step`, if `n` steps take at least `wire + round_trip`: the buffer covers the round trip;
//! - `(j div n) * (wire + round_trip) + (j mod n) * step` otherwise.
//!
//! The last packet may be shorter: it is read in less time, and fits into a buffer beside more full packets.
//!
//! A striped message has a train for each rail. The bus reads packets of all rails in turn, so that of a rail's next packet
//! takes `bus` for each of them.

use crate::machine::Machine;
use crate::machine::graph::Path;
use crate::time::Time;

pub(super) struct PacketTrain {
    /// Time of a full packet on the channel; the longer of its times on channel and bus.
    wire: Time,
    step: Time,
    /// Time from the departure of a full packet until its room in the buffer is free again.
    back: Time,
    /// Full packets that the buffer holds, alone and beside the last packet.
    room: u64,
    room_beside_last: u64,
    /// Time to read the full packets after the first, and time to read the last packet.
    read: Time,
    read_last: Time,
    /// Packets before the last one, with the first of which it may be read.
    ahead: u64,
    last: u64,
}

impl PacketTrain {
    /// `packets`: of one rail, with the bytes of the last one. `wire` and `latency`: the time of a full packet on the
    /// rail's channel, and the channel's latency. `width`: the rails whose packets the bus reads in turn.
    pub fn new(
        machine: &Machine,
        path: &Path,
        (packets, last_bytes): (u32, u32),
        (wire, latency): (Time, Time),
        width: u32,
    ) -> PacketTrain {
        let (link, network) = (&machine.network.link, &machine.network);
        let bus = |bytes: u32| path.read_time(bytes.into());
        let others = bus(link.packet_bytes) * u64::from(width - 1);
        let (each, full) = (bus(link.packet_bytes) + others, network.flits(link.packet_bytes));
        let last = u64::from(packets - 1);
        PacketTrain {
            wire,
            step: wire.max(each),
            back: wire + latency * 2 + network.switch.latency,
            room: u64::from(link.buffer_flits / full).max(1),
            room_beside_last: u64::from(link.buffer_flits.saturating_sub(network.flits(last_bytes)) / full),
            read: each * (last - 1),
            read_last: bus(last_bytes) + others,
            ahead: if width > 1 { 1 } else { 2 },
            last,
        }
    }

    /// Returns the bus time of the packets still to be read when the first packet departs.
    pub fn to_read(&self) -> Time {
        self.read + self.read_last
    }

    /// Returns the departure of a full packet, relative to the first.
    fn sets_out(&self, packet: u64) -> Time {
        if self.back <= self.step * self.room {
            return self.step * packet;
        }
        self.back * (packet / self.room) + self.step * (packet % self.room)
    }

    /// Returns the departure of the last packet. The first departs at `head`; the bus reads the others from `begins`.
    pub fn last_sets_out(&self, head: Time, begins: Time) -> Time {
        let after = self.read_last.max(self.wire);
        let mut last = (head + self.sets_out(self.last - 1) + after).max(begins + self.read + after);
        if let Some(packet) = (self.last - 1).checked_sub(self.room_beside_last) {
            last = last.max(head + self.sets_out(packet) + self.back);
        }
        last
    }

    /// Returns the time at which the last packet is read: not before the packet two before it has departed; with packets
    /// of several rails in turn, the packet before it.
    pub fn last_read(&self, head: Time, begins: Time) -> Time {
        let ahead = self.last.checked_sub(self.ahead).map_or(Time::ZERO, |packet| self.sets_out(packet));
        (begins + self.to_read()).max(head + ahead)
    }
}
