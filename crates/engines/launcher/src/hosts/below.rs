// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The agents below this process, which is the launcher or an agent: those that it has started, and those below them.
//!
//! Invariants
//! 1. Messages of one agent come in the order in which it has sent them. No agent waits for another's messages.
//! 2. A lost agent that this process has started is reported once. The caller knows which agents were below it.
//! 3. A child with hosts below it gets its part of the tree as soon as it has answered, before any other message.

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::addresses;
use super::channel::{ChannelError, Frame};
use super::link::{self, Link, LinkEvent, StartError};
use super::presence::Presence;
use super::remote_shell::RemoteShell;
use super::tree::levels;
use super::wire::{Hello, Request, Subtree};
use crate::rank::spawn::allow_open_files;
use crate::report::say;

/// Time for the agents of one level to end.
const END_LIMIT: Duration = Duration::from_secs(3);
/// Time for a remote shell to end that has started no agent.
const UNANSWERED_END_LIMIT: Duration = Duration::from_millis(200);

pub(super) struct Below {
    order: Subtree,
    shell: RemoteShell,
    /// The number of the first host of the order.
    first: usize,
    /// In ascending order of their hosts.
    branches: Vec<Branch>,
    presence: Presence,
}

struct Branch {
    /// The child and the hosts below it.
    part: Range<usize>,
    link: Link,
}

/// The part of the agents that owns a poll entry.
#[derive(Clone, Copy)]
pub(super) struct Part {
    branch: usize,
    part: link::Part,
}

impl Below {
    /// Starts no agent yet. The hosts of the order are numbered from `first`.
    pub(super) fn new(order: Subtree, first: usize, mask: libc::sigset_t) -> io::Result<Below> {
        // Three pipes for each.
        allow_open_files(3 * order.hosts.len().min(order.fanout) + 64)?;
        let shell = RemoteShell { words: order.shell.clone(), agent: order.agent.clone(), mask };
        Ok(Below { order, shell, first, branches: Vec::new(), presence: Presence::default() })
    }

    /// Starts the agent of the first host of a part. Parts are started in ascending order.
    pub(super) fn start(&mut self, part: Range<usize>) -> Result<(), StartError> {
        let link = Link::start(self.name(part.start), self.names(part.start + 1..part.end), &self.shell, &[])?;
        self.branches.push(Branch { part, link });
        Ok(())
    }

    pub(super) fn name(&self, host: usize) -> &str {
        &self.order.hosts[host - self.first]
    }

    pub(super) fn names(&self, hosts: Range<usize>) -> &[String] {
        &self.order.hosts[hosts.start - self.first..hosts.end - self.first]
    }

    pub(super) fn environment(&self) -> &[(std::ffi::OsString, std::ffi::OsString)] {
        &self.order.environment
    }

    pub(super) fn folder(&self) -> &std::path::Path {
        &self.order.folder
    }

    /// Sends a frame to the host that it names. Drops it if the host is lost.
    pub(super) fn send(&mut self, mut frame: Frame) {
        let at = self.branches.partition_point(|branch| branch.part.end <= frame.host);
        if let Some(branch) = self.branches.get_mut(at).filter(|branch| branch.part.contains(&frame.host)) {
            frame.host -= branch.part.start;
            branch.link.send(frame);
        }
    }

    /// Adds its descriptors to a poll. Without `with_input` messages stay in the channels.
    pub(super) fn poll_with<'a>(&'a self, with_input: bool, add: &mut dyn FnMut(Part, BorrowedFd<'a>, PollFlags)) {
        for (branch, Branch { link, .. }) in self.branches.iter().enumerate() {
            link.poll_with(with_input, &mut |part, fd, flags| add(Part { branch, part }, fd, flags));
        }
    }

    /// Handles an event of a poll. The events of agents come with the numbers of their hosts.
    pub(super) fn serve(&mut self, at: Part, flags: PollFlags, events: &mut Vec<(usize, LinkEvent)>) {
        let mut sent = Vec::new();
        self.branches[at.branch].link.serve(at.part, flags, &mut sent);
        self.take(at.branch, sent, events);
    }

    pub(super) fn child_ended(&mut self, events: &mut Vec<(usize, LinkEvent)>) {
        for branch in 0..self.branches.len() {
            let mut sent = Vec::new();
            self.branches[branch].link.child_ended(&mut sent);
            self.take(branch, sent, events);
        }
    }

    /// Gives up the child through which this host is reached: it has sent an invalid message.
    pub(super) fn reject(&mut self, host: usize, why: &ChannelError, events: &mut Vec<(usize, LinkEvent)>) {
        if let Some(branch) = self.branches.iter().position(|branch| branch.part.contains(&host)) {
            let mut sent = Vec::new();
            self.branches[branch].link.lose(why, &mut sent);
            self.take(branch, sent, events);
        }
    }

    fn take(&mut self, branch: usize, sent: Vec<LinkEvent>, events: &mut Vec<(usize, LinkEvent)>) {
        let first = self.branches[branch].part.start;
        for event in sent {
            match event {
                LinkEvent::Frame(mut frame) => {
                    frame.host += first;
                    events.push((frame.host, LinkEvent::Frame(frame)));
                }
                LinkEvent::Hello(hello) => {
                    self.receive(branch, &hello);
                    events.push((first, LinkEvent::Hello(hello)));
                }
                LinkEvent::Lost(why) => events.push((first, LinkEvent::Lost(why))),
            }
        }
    }

    /// Gives a child that has answered its part of the tree, and the port at which it can watch this host.
    fn receive(&mut self, branch: usize, hello: &Hello) {
        let Branch { part, link } = &mut self.branches[branch];
        if part.len() > 1 {
            let hosts = self.order.hosts[part.start + 1 - self.first..part.end - self.first].to_vec();
            let order = Subtree { name: link.name.clone(), hosts, ..self.order.clone() };
            link.send(Frame::new(0, Request::Subtree(Box::new(order))));
        }
        let reached = addresses::reached(&link.name, Some(hello)).ok().flatten();
        if let Some(at) = reached.and_then(|reached| self.presence.towards(reached).ok()) {
            let host = match self.order.name.as_str() {
                "" => "the launcher's host".to_owned(),
                name => format!("host {name}, through which the launcher reaches this one,"),
            };
            link.send(Frame::new(0, Request::Watch { at, host }));
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.branches.iter().any(|branch| branch.link.is_open())
    }

    /// Time in which all agents can end.
    pub(super) fn end_limit(&self) -> Duration {
        let levels = self.branches.iter().map(|branch| levels(branch.part.len(), self.order.fanout)).max();
        END_LIMIT * levels.unwrap_or(0)
    }

    /// Closes the channels, which ends all agents in any state.
    pub(super) fn close(&mut self) {
        self.branches.iter_mut().for_each(|branch| branch.link.close());
    }

    /// Closes the channels, and waits for the remote shells to end.
    pub(super) fn end(&mut self) {
        self.close();
        let now = Instant::now();
        for Branch { part, link } in &mut self.branches {
            // A host without an agent needs no wait.
            let has_agent = link.has_agent();
            let limit =
                if has_agent { END_LIMIT * levels(part.len(), self.order.fanout) } else { UNANSWERED_END_LIMIT };
            if !link.wait(now + limit) && has_agent {
                let (name, limit) = (&link.name, limit.as_secs());
                say(&format!("host {name}: the connection to its agent did not end within {limit} s"));
            }
        }
    }

    /// Runs `selvedge agent` with these words on hosts, a few at a time, and waits some seconds for its end.
    pub(super) fn run_on(&self, hosts: &[String], words: &[&str]) {
        for hosts in hosts.chunks(self.order.fanout) {
            let start = |name: &String| Link::start(name, &[], &self.shell, words).ok();
            let links: Vec<Link> = hosts.iter().filter_map(start).collect();
            let until = Instant::now() + END_LIMIT;
            for mut link in links {
                link.wait(until);
            }
        }
    }
}

#[cfg(test)]
#[path = "below_tests.rs"]
mod tests;
