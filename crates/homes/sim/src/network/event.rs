// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The network's events, and the trait by which it schedules them. The event queue belongs to the caller, since the
//! network is one part of a simulation.

use crate::queue::Queue;
use crate::time::Time;

/// An event that the caller passes to [`super::Network::handle`] at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkEvent(pub(super) Event);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A head has passed the switch's latency, or a packet has become the first of its buffer.
    Ready {
        resident: u32,
        generation: u32,
    },
    /// One more flit of a packet has arrived (wormhole only); it took `duration_ps` on its channel.
    Flit {
        resident: u32,
        duration_ps: u32,
    },
    /// A channel is free, or has credits.
    Wake {
        channel: u32,
    },
    /// A packet's tail has arrived at its node.
    Arrive {
        packet: u32,
    },
    Lose {
        packet: u32,
    },
    /// A timer of a node's congestion control.
    Edge {
        node: u32,
    },
    /// A node learns that a packet was lost.
    TimeOut {
        packet: u32,
    },
    /// A packet has waited `link_down_limit` for a link that is down.
    Expire {
        resident: u32,
        generation: u32,
    },
}

const _: () = assert!(size_of::<NetworkEvent>() <= 16);

/// An event queue for the network's events, implemented by its owner.
///
/// Events of one time must be handled in the order in which they were scheduled.
pub trait Schedule {
    fn schedule(&mut self, at: Time, event: NetworkEvent);
}

impl Schedule for Queue<NetworkEvent> {
    #[inline]
    fn schedule(&mut self, at: Time, event: NetworkEvent) {
        Queue::schedule(self, at, event);
    }
}
