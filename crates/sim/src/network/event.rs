// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network's events, and where they go: it is one part of a simulation whose queue belongs to somebody else.

use crate::queue::Queue;
use crate::time::Time;

/// Something that the network wants to be told at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkEvent(pub(super) Event);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A head has been through the switch's latency, or a packet's turn in its buffer has come.
    Ready { resident: u32, generation: u32 },
    /// One more flit of a packet is there, wormhole only; it took `duration_ps` on its channel.
    Flit { resident: u32, duration_ps: u32 },
    /// A channel is free, or has credits.
    Wake { channel: u32 },
    /// A packet's tail is at its node.
    Arrive { packet: u32 },
    /// A packet is given up.
    Lose { packet: u32 },
    /// A packet has waited long enough for a link that is down.
    Expire { resident: u32, generation: u32 },
}

const _: () = assert!(size_of::<NetworkEvent>() <= 16);

/// Where events go. Implemented by whoever owns the queue.
///
/// Events at one time must come back in the order in which they were scheduled.
pub trait Schedule {
    fn schedule(&mut self, at: Time, event: NetworkEvent);
}

impl Schedule for Queue<NetworkEvent> {
    #[inline]
    fn schedule(&mut self, at: Time, event: NetworkEvent) {
        Queue::schedule(self, at, event);
    }
}
