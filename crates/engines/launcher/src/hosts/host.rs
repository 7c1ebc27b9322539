// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host of the job for the supervisor: this process's own ranks, or an agent's. Both report events and take orders.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;

use super::link::{self, Link, LinkEvent};
use super::messages::{Event, Order};
use super::ranks::{self, Ranks};
use super::wire::{Report, Request};

pub(super) enum Host {
    Here(Box<Ranks>),
    Agent(Box<Link>),
}

/// The part of a host that owns a poll entry.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Ranks(ranks::Part),
    Link(link::Part),
}

impl Host {
    pub(super) fn start(&mut self, events: &mut Vec<Event>) {
        match self {
            Host::Here(ranks) => ranks.start(events),
            Host::Agent(link) => link.send(Request::Go),
        }
    }

    /// Adds its descriptors to a poll.
    pub(super) fn poll_with<'a>(&'a self, add: &mut dyn FnMut(Part, BorrowedFd<'a>, PollFlags)) {
        match self {
            Host::Here(ranks) => ranks.poll_with(true, &mut |part, fd, flags| add(Part::Ranks(part), fd, flags)),
            Host::Agent(link) => link.poll_with(&mut |part, fd, flags| add(Part::Link(part), fd, flags)),
        }
    }

    pub(super) fn serve(&mut self, part: Part, flags: PollFlags, events: &mut Vec<Event>) {
        match (self, part) {
            (Host::Here(ranks), Part::Ranks(part)) => ranks.serve(part, flags, events),
            (Host::Agent(link), Part::Link(part)) => {
                let mut sent = Vec::new();
                link.serve(part, flags, &mut sent);
                events.extend(sent.into_iter().filter_map(event_of));
            }
            // The caller passes a part only to the host that it came from.
            (Host::Here(_), Part::Link(_)) | (Host::Agent(_), Part::Ranks(_)) => {}
        }
    }

    pub(super) fn child_ended(&mut self, events: &mut Vec<Event>) {
        match self {
            Host::Here(ranks) => ranks.find_dead(events),
            Host::Agent(link) => {
                let mut sent = Vec::new();
                link.child_ended(&mut sent);
                events.extend(sent.into_iter().filter_map(event_of));
            }
        }
    }

    /// Carries out an order, or sends it to the agent.
    pub(super) fn execute(&mut self, order: Order, events: &mut Vec<Event>) {
        match self {
            Host::Here(ranks) => ranks.execute(order, events),
            Host::Agent(link) => link.send(Request::Order(order)),
        }
    }

    /// Its name. `None`: this host.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Host::Here(_) => None,
            Host::Agent(link) => Some(&link.name),
        }
    }
}

/// Converts an agent's event to an event of the job, while ranks run.
fn event_of(event: LinkEvent) -> Option<Event> {
    match event {
        LinkEvent::Report(Report::Event(event)) => Some(event),
        LinkEvent::Lost(why) => Some(Event::HostLost(why)),
        LinkEvent::Hello | LinkEvent::Report(_) => None,
    }
}
