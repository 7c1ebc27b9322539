// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a simulation, and the queue of future ones.
//!
//! The queue also detects a stuck run. A *poll* is a turn of a rank that has polled and found nothing, or an attempt of
//! a command that was refused often. The run is stuck if the queue holds only polls or nothing, and polls have found
//! nothing for a given time and [`FAILED_POLLS_MAX`] times. Time alone is no criterion: pauses double, so it passes
//! within some hundred polls, and a program may poll that often before it does something else.

use crate::network::{NetworkEvent, Schedule};
use crate::queue::Queue;
use crate::time::Time;

/// An event. The tag is as wide as the fields, so that events are copied in whole words.
#[derive(Clone, Copy, Debug)]
#[repr(u32)]
pub(super) enum Event {
    Network(NetworkEvent),
    /// A rank's turn. An event of another generation is stale: the rank had an earlier turn. `is_poll`: the rank polls.
    Resume {
        rank: u32,
        generation: u32,
        is_poll: bool,
    },
    /// The host of a waiting rank has handed its operation to the NIC.
    HandOver(u32),
    /// A program offers a command to the host interface.
    Offer(u32),
    /// A command that needs an answer is at the NIC's queue, and requests a place.
    RequestPlace(u32),
    /// A command is in the NIC's queue.
    Queued(u32),
    /// A place in the queue of this node is free.
    PlaceFreed(u32),
    /// A rank of this node may have read a mailbox that was full.
    Unblock(u32),
    Issue(u32),
    /// The unit that keeps a message until it has left the node begins to send it.
    Read(u32),
    /// The next packet of a message has been read; or it is the message's turn to depart as a whole.
    Inject(u32),
    /// The first of several packets of a whole message has arrived.
    Head(u32),
    /// A whole message has been read from memory.
    Sent(u32),
    Arrived(u32),
    Deliver(u32),
    Answer(u32),
    /// The fault with this index in the options happens.
    Fault(u32),
    Kill(u32),
    /// The routers' managers have something to do.
    Manage,
    /// The run looks whether its jobs in the background go on.
    Look,
    /// The message with this index becomes visible in its ring.
    Publish(u32),
    Fire {
        rank: u32,
        ni: u32,
    },
}

/// Consecutive polls of all ranks that find nothing before the run counts as stuck.
const FAILED_POLLS_MAX: u32 = 5_000;

/// Future events in order of time, and the last progress.
pub(super) struct Events {
    queue: Queue<Event>,
    queued_polls: usize,
    /// Time of the last event other than a poll that found nothing.
    last_progress: Time,
    /// Polls since then.
    failed_polls: u32,
}

impl Events {
    pub fn new() -> Events {
        Events { queue: Queue::new(), queued_polls: 0, last_progress: Time::ZERO, failed_polls: 0 }
    }

    pub fn now(&self) -> Time {
        self.queue.now()
    }

    pub fn taken(&self) -> u64 {
        self.queue.taken()
    }

    #[inline]
    pub fn schedule(&mut self, at: Time, event: Event) {
        self.queue.schedule(at, event);
    }

    /// Schedules like [`Events::schedule`] an event that may be a poll.
    #[inline]
    pub fn schedule_as(&mut self, at: Time, event: Event, is_poll: bool) {
        self.queued_polls += usize::from(is_poll);
        self.queue.schedule(at, event);
    }

    /// Takes the next event. If it was scheduled as a poll, call [`Events::leave_poll`].
    #[inline]
    pub fn take(&mut self) -> Option<(Time, Event)> {
        self.queue.take()
    }

    /// Names coming events ([`Queue::look_ahead`]).
    #[inline(always)]
    pub fn look_ahead<const STEPS: usize>(&mut self, places: [usize; STEPS], name: impl FnMut(&Event, usize)) {
        self.queue.look_ahead(places, name);
    }

    /// Records that an event has left the queue that may have been scheduled as a poll.
    #[inline]
    pub fn leave_poll(&mut self, is_poll: bool) {
        self.queued_polls -= usize::from(is_poll);
    }

    /// Counts an event that may be a poll that finds nothing.
    #[inline]
    pub fn count_poll(&mut self, is_poll: bool) {
        self.failed_polls = self.failed_polls.saturating_add(u32::from(is_poll));
    }

    /// Records an event other than a poll.
    #[inline]
    pub fn progress(&mut self, now: Time) {
        (self.last_progress, self.failed_polls) = (now, 0);
    }

    /// Whether the run is stuck: only polls are queued, and they find nothing.
    #[inline]
    pub fn is_stuck(&self, after: Time) -> bool {
        if self.queue.len() != self.queued_polls {
            return false;
        }
        let idle = self.queue.now().saturating_sub(self.last_progress);
        self.queue.is_empty() || (idle >= after && self.failed_polls >= FAILED_POLLS_MAX)
    }
}

impl Schedule for Events {
    #[inline]
    fn schedule(&mut self, at: Time, _place: u32, event: NetworkEvent) {
        self.queue.schedule(at, Event::Network(event));
    }
}
