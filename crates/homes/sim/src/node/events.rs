// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of a simulation, and the queue of future ones.
//!
//! The queue also counts polls, so that a stuck run ends (`course.rs`). A *poll* is a turn of a rank that has polled and
//! found nothing, or an attempt of a command that was refused often.
//!
//! Events of one time: those of the network by their place, then notices of lost messages by their message, then those of
//! nodes in the order in which they were scheduled. Faults and deaths are no events: they happen before all events of their
//! time (`changes.rs`).

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
    /// The node of a message's target learns that the fabric has lost one of its packets.
    Missing(u32),
    /// The node at the other end of a message learns that the fabric has lost it.
    Failed(u32),
    Deliver(u32),
    Answer(u32),
    /// The routers' managers have something to do.
    Manage,
    /// The run looks whether its jobs in the background go on.
    Look,
    /// The message with this index becomes visible in its ring.
    Publish(u32),
    /// A rank begins or ends a region.
    Mark {
        rank: u32,
        region: u32,
        begins: bool,
    },
    Fire {
        rank: u32,
        ni: u32,
    },
}

/// The place of the network's first event among the events of a time, of the first notice, and of the nodes' first event.
const OF_NETWORK: u64 = 1 << 60;
const OF_NOTICES: u64 = 3 << 59;
const OF_NODES: u64 = 1 << 61;

/// Future events in order of time, and progress.
pub(super) struct Events {
    queue: Queue<Event>,
    /// Number of the next event of a node.
    number: u64,
    queued_polls: usize,
    /// Events that do not depend on the division of the fabric, and the time of the last.
    counted: u64,
    last: Time,
    polls: Polls,
}

/// Polls since the last look.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Polls {
    /// Time of the last event other than a poll that found nothing.
    pub progress: Option<Time>,
    /// Polls that found nothing.
    pub failed: u32,
}

impl Events {
    pub fn new() -> Events {
        let polls = Polls::default();
        Events { queue: Queue::new(), number: 0, queued_polls: 0, counted: 0, last: Time::ZERO, polls }
    }

    pub fn now(&self) -> Time {
        self.queue.now()
    }

    /// Lets time pass: all events before `now` have been taken.
    pub fn reach(&mut self, now: Time) {
        self.queue.reach(now);
    }

    /// Counts a fault or a death like an event.
    pub fn count_change(&mut self, now: Time) {
        (self.counted, self.last) = (self.counted + 1, now);
        self.progress(now);
    }

    /// Returns the number of events taken, without those by which the network looks at a channel again.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Returns the time of the last of them.
    pub fn last(&self) -> Time {
        self.last
    }

    /// Returns the time of the next event.
    pub fn next_at(&mut self) -> Option<Time> {
        self.queue.next_at()
    }

    /// Returns the number of queued events other than polls.
    pub fn queued_without_polls(&self) -> usize {
        self.queue.len() - self.queued_polls
    }

    #[inline]
    pub fn schedule(&mut self, at: Time, event: Event) {
        self.number += 1;
        self.queue.schedule_as(at, OF_NODES | self.number, event);
    }

    /// Schedules a notice of a lost message; `order`: that of its message. Its place does not depend on when it is scheduled,
    /// since it may come by letter.
    pub fn schedule_notice(&mut self, at: Time, order: u64, event: Event) {
        self.queue.schedule_as(at, OF_NOTICES | order, event);
    }

    /// Schedules like [`Events::schedule`] an event that may be a poll.
    #[inline]
    pub fn schedule_as(&mut self, at: Time, event: Event, is_poll: bool) {
        self.queued_polls += usize::from(is_poll);
        self.schedule(at, event);
    }

    /// Takes the next event, if its time is not after `last`. If it was scheduled as a poll, call
    /// [`Events::leave_poll`].
    #[inline]
    pub fn take_by(&mut self, last: Time) -> Option<(Time, Event)> {
        let (at, event) = self.queue.take_by(last)?;
        if !matches!(&event, Event::Network(event) if event.is_wake()) {
            self.counted += 1;
            self.last = at;
        }
        Some((at, event))
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
        self.polls.failed = self.polls.failed.saturating_add(u32::from(is_poll));
    }

    /// Records an event other than a poll.
    #[inline]
    pub fn progress(&mut self, now: Time) {
        self.polls = Polls { progress: Some(now), failed: 0 };
    }

    /// Takes the polls since the last call.
    pub fn take_polls(&mut self) -> Polls {
        std::mem::take(&mut self.polls)
    }
}

impl Schedule for Events {
    #[inline]
    fn schedule(&mut self, at: Time, place: u32, event: NetworkEvent) {
        self.queue.schedule_as(at, OF_NETWORK | event.order(place), Event::Network(event));
    }
}
