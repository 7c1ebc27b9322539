// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A host of the job as the supervisor sees it: this process's own ranks, or an agent's. Both report events and take orders.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;

use super::channel::{Report, Request};
use super::link::{self, Heard, Link};
use super::messages::{Event, Order};
use super::ranks::{self, Ranks};

/// Where ranks are, and who watches them.
pub(super) enum Host {
    Here(Box<Ranks>),
    Agent(Box<Link>),
}

/// What a poll entry of a host belongs to.
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
                let mut heard = Vec::new();
                link.serve(part, flags, &mut heard);
                events.extend(heard.into_iter().filter_map(event_of));
            }
            // A part comes from the host that it is given back to.
            (Host::Here(_), Part::Link(_)) | (Host::Agent(_), Part::Ranks(_)) => {}
        }
    }

    /// A child of this process has ended.
    pub(super) fn child_ended(&mut self, events: &mut Vec<Event>) {
        match self {
            Host::Here(ranks) => ranks.find_dead(events),
            Host::Agent(link) => {
                let mut heard = Vec::new();
                link.child_ended(&mut heard);
                events.extend(heard.into_iter().filter_map(event_of));
            }
        }
    }

    pub(super) fn obey(&mut self, order: Order, events: &mut Vec<Event>) {
        match self {
            Host::Here(ranks) => ranks.obey(order, events),
            Host::Agent(link) => link.send(Request::Order(order)),
        }
    }

    /// Its name, if it is another host.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Host::Here(_) => None,
            Host::Agent(link) => Some(&link.name),
        }
    }
}

/// What an agent says while ranks run.
fn event_of(heard: Heard) -> Option<Event> {
    match heard {
        Heard::Report(Report::Event(event)) => Some(event),
        Heard::Lost(why) => Some(Event::HostLost(why)),
        Heard::Hello | Heard::Report(_) => None,
    }
}
