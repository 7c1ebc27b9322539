// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All agents of a job, as the launcher sees them: one for each host, wherever it is in the tree ([`super::tree`]).
//!
//! Invariants
//! 1. A lost agent is reported once, and only if the launcher still needs it. Those below it are lost with it, and not
//!    reported.
//! 2. Nothing comes from an agent that is lost.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::PollFlags;

use super::below::{Below, Part};
use super::channel::Frame;
use super::link::LinkEvent;
use super::poll_set::PollSet;
use super::tree::Tree;
use super::wire::{Hello, Report, Request};
use crate::signals::Signals;

/// More names in one message are counted only.
const NAMES_MAX: usize = 8;

pub(super) struct Agents {
    pub(super) tree: Tree,
    pub(super) below: Below,
    states: Vec<State>,
}

#[derive(Default)]
struct State {
    hello: Option<Hello>,
    is_done: bool,
    is_lost: bool,
}

#[derive(Debug)]
pub(super) enum AgentEvent {
    Hello,
    Report(Report),
    /// The agent is gone, and those below it. The reason follows its name.
    Lost(String),
}

impl Agents {
    pub(super) fn new(tree: Tree, below: Below) -> Agents {
        let states = tree.hosts().map(|_| State::default()).collect();
        Agents { tree, below, states }
    }

    pub(super) fn name(&self, host: usize) -> &str {
        self.below.name(host)
    }

    /// Its name, and that of its parent if the launcher has not started its agent itself.
    pub(super) fn name_and_parent(&self, host: usize) -> String {
        let parent = self.tree.parent(host).map(|parent| format!(" (from {})", self.name(parent)));
        format!("{}{}", self.name(host), parent.unwrap_or_default())
    }

    pub(super) fn hello(&self, host: usize) -> Option<&Hello> {
        self.states[host].hello.as_ref()
    }

    pub(super) fn send(&mut self, host: usize, request: Request) {
        if !self.states[host].is_lost {
            self.below.send(Frame::new(host, request));
        }
    }

    pub(super) fn poll_with<'a>(&'a self, add: &mut dyn FnMut(Part, BorrowedFd<'a>, PollFlags)) {
        self.below.poll_with(true, add);
    }

    pub(super) fn serve(&mut self, part: Part, flags: PollFlags, events: &mut Vec<(usize, AgentEvent)>) {
        let mut sent = Vec::new();
        self.below.serve(part, flags, &mut sent);
        self.take(sent, events);
    }

    pub(super) fn child_ended(&mut self, events: &mut Vec<(usize, AgentEvent)>) {
        let mut sent = Vec::new();
        self.below.child_ended(&mut sent);
        self.take(sent, events);
    }

    fn take(&mut self, sent: Vec<(usize, LinkEvent)>, events: &mut Vec<(usize, AgentEvent)>) {
        for (host, event) in sent {
            let report = match event {
                LinkEvent::Hello(hello) => Ok(Report::Hello(hello)),
                LinkEvent::Lost(why) => Ok(Report::Lost(why)),
                LinkEvent::Frame(frame) => frame.message(),
            };
            if self.states[host].is_lost {
                continue;
            }
            match report {
                Ok(Report::Hello(hello)) => {
                    self.states[host].hello = Some(hello);
                    events.push((host, AgentEvent::Hello));
                }
                Ok(Report::Lost(why)) => {
                    if !self.states[host].is_done {
                        events.push((host, AgentEvent::Lost(why)));
                    }
                    self.tree.part(host).for_each(|host| self.states[host].is_lost = true);
                }
                Ok(report) => {
                    self.states[host].is_done |= report == Report::Done;
                    events.push((host, AgentEvent::Report(report)));
                }
                Err(error) => {
                    let mut rejected = Vec::new();
                    self.below.reject(host, &error, &mut rejected);
                    self.take(rejected, events);
                }
            }
        }
    }

    /// Waits for events, at most until this time. Signals only end the wait.
    pub(super) fn wait(
        &mut self,
        signals: Option<&Signals>,
        until: Instant,
    ) -> std::io::Result<Vec<(usize, AgentEvent)>> {
        let mut polled = PollSet::default();
        if let Some(signals) = signals {
            polled.add(None, signals.fd(), PollFlags::IN);
        }
        self.poll_with(&mut |part, fd, flags| polled.add(Some(part), fd, flags));
        let mut events = Vec::new();
        for (part, flags) in polled.wait(Some(until))? {
            if let Some(part) = part {
                self.serve(part, flags, &mut events);
            }
        }
        Ok(events)
    }

    /// Ends the agents of a job whose ranks have ended. The agents remove the job's directory.
    pub(super) fn finish(&mut self) {
        self.tree.hosts().for_each(|host| self.send(host, Request::Finish));
        let until = Instant::now() + self.below.end_limit();
        while self.below.is_open() && Instant::now() < until {
            // An agent that has reported `Done` closes its end. An agent lost now has no ranks, and nothing more to report.
            if self.wait(None, until).is_err() {
                break;
            }
        }
        self.below.end();
    }

    /// Ends the processes that lost agents have left on their hosts, if this host can reach them.
    pub(super) fn clean(&self, lost: &[String], job: &str) {
        let parent = selvedge_settings::text("SELVEDGE_DIR").unwrap_or_default();
        let words = ["--end", job, "--directory", &parent];
        // A lost host that cannot be reached was already reported.
        self.below.run_on(lost, if parent.is_empty() { &words[..2] } else { &words[..] });
    }
}

/// `host b`, `hosts b and c`, `hosts b, c and 9 others`.
pub(super) fn hosts_in_words(names: &[&str]) -> String {
    match names {
        [] => "no host".to_owned(),
        [name] => format!("host {name}"),
        [names @ .., last] if names.len() <= NAMES_MAX => format!("hosts {} and {last}", names.join(", ")),
        _ => format!("hosts {} and {} others", names[..NAMES_MAX].join(", "), names.len() - NAMES_MAX),
    }
}

/// The hosts below a lost one in words that follow the reason; nothing without any.
pub(super) fn reached_through(names: &[&str]) -> String {
    match names.len() {
        0 => String::new(),
        1 => format!("; {} was reached through it", hosts_in_words(names)),
        _ => format!("; {} were reached through it", hosts_in_words(names)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_hosts_are_counted() {
        let names: Vec<String> = (0..12).map(|number| format!("n{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(reached_through(&[]), "");
        assert_eq!(reached_through(&names[..1]), "; host n0 was reached through it");
        assert_eq!(reached_through(&names[..3]), "; hosts n0, n1 and n2 were reached through it");
        let nine = "; hosts n0, n1, n2, n3, n4, n5, n6, n7 and n8 were reached through it";
        assert_eq!(reached_through(&names[..9]), nine);
        let ten = "; hosts n0, n1, n2, n3, n4, n5, n6, n7 and 2 others were reached through it";
        assert_eq!(reached_through(&names[..10]), ten);
    }
}
