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

impl NetworkEvent {
    /// Whether a channel is looked at again. How often depends on the division of the fabric.
    pub(crate) fn is_wake(&self) -> bool {
        matches!(self.0, Event::Wake { .. })
    }

    /// Returns the event's place among those of its time at a router: by kind, then by buffer or channel. Events of one
    /// time at different routers do not see each other.
    #[inline]
    pub fn order(&self, place: u32) -> u64 {
        let kind: u64 = match self.0 {
            Event::Arrive { .. } => 0,
            Event::Lose { .. } => 1,
            // A head that waits gets its output before one that arrives when the link becomes free.
            Event::Wake { .. } => 2,
            Event::Flit { .. } => 3,
            Event::Ready { .. } => 4,
            Event::Expire { .. } => 5,
            Event::TimeOut { .. } => 6,
            Event::Edge { .. } => 7,
        };
        kind << 32 | u64::from(place)
    }
}

/// An event queue for the network's events, implemented by its owner.
///
/// Events of one time are handled in the order in which they were scheduled, or in that of [`NetworkEvent::order`].
pub trait Schedule {
    /// `place`: the buffer or channel that the event belongs to.
    fn schedule(&mut self, at: Time, place: u32, event: NetworkEvent);
}

impl Schedule for Queue<NetworkEvent> {
    #[inline]
    fn schedule(&mut self, at: Time, place: u32, event: NetworkEvent) {
        self.schedule_as(at, event.order(place), event);
    }
}
