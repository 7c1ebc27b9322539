// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The hosts of the job for the supervisor: this process's own ranks, or agents. Both report events and take orders.

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;

use super::agents::{AgentEvent, Agents};
use super::below;
use super::messages::{Event, Order};
use super::ranks::{self, Ranks};
use super::wire::{Report, Request};

pub(super) enum JobHosts {
    Here(Box<Ranks>),
    Agents(Box<Agents>),
}

/// The part of the hosts that owns a poll entry.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Ranks(ranks::Part),
    Agents(below::Part),
}

/// Events with the numbers of their hosts.
pub(super) type HostEvents = Vec<(usize, Event)>;

impl JobHosts {
    pub(super) fn numbers(&self) -> Range<usize> {
        match self {
            JobHosts::Here(_) => 0..1,
            JobHosts::Agents(agents) => agents.tree.hosts(),
        }
    }

    /// Starts all ranks.
    pub(super) fn start(&mut self, events: &mut HostEvents) {
        match self {
            JobHosts::Here(ranks) => of_ranks(events, |events| ranks.start(events)),
            // An agent that starts its ranks forwards nothing meanwhile.
            JobHosts::Agents(agents) => agents.tree.hosts().rev().for_each(|host| agents.send(host, Request::Go)),
        }
    }

    /// Adds its descriptors to a poll.
    pub(super) fn poll_with<'a>(&'a self, add: &mut dyn FnMut(Part, BorrowedFd<'a>, PollFlags)) {
        match self {
            JobHosts::Here(ranks) => ranks.poll_with(true, &mut |part, fd, flags| add(Part::Ranks(part), fd, flags)),
            JobHosts::Agents(agents) => agents.poll_with(&mut |part, fd, flags| add(Part::Agents(part), fd, flags)),
        }
    }

    pub(super) fn serve(&mut self, part: Part, flags: PollFlags, events: &mut HostEvents) {
        match (self, part) {
            (JobHosts::Here(ranks), Part::Ranks(part)) => of_ranks(events, |events| ranks.serve(part, flags, events)),
            (JobHosts::Agents(agents), Part::Agents(part)) => {
                of_agents(events, |events| agents.serve(part, flags, events));
            }
            // A part comes back to the hosts that have added it.
            (JobHosts::Here(_), Part::Agents(_)) | (JobHosts::Agents(_), Part::Ranks(_)) => {}
        }
    }

    pub(super) fn child_ended(&mut self, events: &mut HostEvents) {
        match self {
            JobHosts::Here(ranks) => of_ranks(events, |events| ranks.find_dead(events)),
            JobHosts::Agents(agents) => of_agents(events, |events| agents.child_ended(events)),
        }
    }

    /// Carries out an order, or sends it to the host's agent.
    pub(super) fn execute(&mut self, host: usize, order: Order, events: &mut HostEvents) {
        match self {
            JobHosts::Here(ranks) => of_ranks(events, |events| ranks.execute(order, events)),
            JobHosts::Agents(agents) => agents.send(host, Request::Order(order)),
        }
    }

    /// The name of a host. `None`: this host.
    pub(super) fn name(&self, host: usize) -> Option<&str> {
        match self {
            JobHosts::Here(_) => None,
            JobHosts::Agents(agents) => Some(agents.name(host)),
        }
    }

    /// A host, first, and those that are lost with it.
    pub(super) fn lost_with(&self, host: usize) -> Range<usize> {
        match self {
            JobHosts::Here(_) => host..host + 1,
            JobHosts::Agents(agents) => agents.tree.part(host),
        }
    }
}

fn of_ranks(events: &mut HostEvents, act: impl FnOnce(&mut Vec<Event>)) {
    let mut sent = Vec::new();
    act(&mut sent);
    events.extend(sent.into_iter().map(|event| (0, event)));
}

fn of_agents(events: &mut HostEvents, act: impl FnOnce(&mut Vec<(usize, AgentEvent)>)) {
    let mut sent = Vec::new();
    act(&mut sent);
    events.extend(sent.into_iter().filter_map(|(host, event)| Some((host, event_of(event)?))));
}

/// Converts an agent's event to an event of the job, while ranks run.
fn event_of(event: AgentEvent) -> Option<Event> {
    match event {
        AgentEvent::Report(Report::Event(event)) => Some(event),
        AgentEvent::Lost(why) => Some(Event::HostLost(why)),
        AgentEvent::Hello | AgentEvent::Report(_) => None,
    }
}
