// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tests of cables: the test that an operator has asked for, and the mirrors for those of the neighbours.
//!
//! Their datagrams have sockets of their own, so none of them displaces a hello.
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use super::Daemon;
use super::answers::{Asker, NEEDS_KEY};
use crate::cable_test::wire::{HEAD_BYTES, Head};
use crate::cable_test::{Mirror, Outcome, Plan, Tester};
use crate::identity;
use crate::protocol::{Answer, TestReport};
use crate::seal::Seal;
use crate::sockets::{self, Sockets};
use crate::views;

/// The longest payload of UDP.
const DATAGRAM_BYTES_MAX: usize = 65_535;

struct Running {
    port: u16,
    asker: Asker,
    tester: Tester,
    interface: String,
    neighbour: String,
    /// Falls of the link, and wrong frames of the interface, before the test.
    before: (u64, u64),
}

/// Tests of this host's cables.
pub(super) struct Cables {
    sockets: Sockets,
    /// With a key of its own, so that no datagram of a test is taken for a frame.
    seal: Seal,
    mirrors: BTreeMap<u16, Mirror>,
    /// Datagrams whose head could not be read, by port.
    refused: BTreeMap<u16, u64>,
    running: Option<Running>,
}

impl Cables {
    /// `key`: that of tests; None: nothing is sealed.
    pub fn new(key: Option<[u8; 32]>, now_ns: u64) -> Cables {
        Cables {
            seal: Seal::new(key, now_ns),
            sockets: Sockets::new(sockets::TESTS, DATAGRAM_BYTES_MAX),
            mirrors: BTreeMap::new(),
            refused: BTreeMap::new(),
            running: None,
        }
    }

    /// Opens or closes the socket of a port. One that cannot be opened answers no tests.
    pub fn open(&mut self, port: u16, index: Option<u32>) {
        match index {
            Some(index) => _ = self.sockets.open(port, index),
            None => self.sockets.close(port),
        }
    }

    pub fn descriptors(&self) -> impl Iterator<Item = (u16, BorrowedFd<'_>)> {
        self.sockets.descriptors()
    }

    pub fn refused(&self, port: u16) -> u64 {
        self.refused.get(&port).copied().unwrap_or(0)
    }

    pub fn due_ns(&self) -> u64 {
        self.running.as_ref().map_or(u64::MAX, |running| running.tester.due_ns())
    }
}

impl Daemon {
    /// Begins a test, whose frames and pauses take these seconds.
    pub(super) fn begin_test(&mut self, asker: Asker, port: &str, plan: Plan, seconds: u64) -> Result<(), String> {
        if !asker.is_operator() {
            return Err(match asker {
                Asker::Client { .. } => "only root and the daemon's own user may test cables".into(),
                Asker::Host { .. } => NEEDS_KEY.into(),
            });
        }
        let port = views::named_port(port, &self.manager, &self.ports)?;
        if let Some(other) = &self.cables.running {
            return Err(format!("{} is being tested: wait for the end of that test", other.interface));
        }
        let view = views::ports(&self.manager, &self.ports, &self.replays).into_iter().nth(port.into());
        let view = view.ok_or("this port is new: try again")?;
        let line_port = self.manager.ports().nth(port.into());
        let (Some(neighbour), Some(mtu)) = (line_port.and_then(|line| line.neighbour()), view.mtu) else {
            return Err(format!(
                "{}: no neighbour is heard ({}): only a link with a neighbour can be tested",
                view.interface, view.state
            ));
        };
        let sizes = plan.checked(mtu, self.cables.seal.bytes())?;
        let (now_ns, own) = (self.now_ns(), self.manager.config().host);
        let tester =
            Tester::new(now_ns, own, neighbour.host, identity::wall_ns(), plan, sizes, self.cables.seal.bytes());
        let text = format!(
            "{} (port {port}): a test by an operator begins: {} frames, {} in a second",
            view.interface, plan.frames, plan.rate
        );
        self.journal.note(false, text);
        let before = self.faults(port);
        let neighbour = view.neighbour.unwrap_or_default();
        self.cables.running = Some(Running { port, asker, tester, interface: view.interface, neighbour, before });
        if let Asker::Host { connection, .. } = asker {
            self.remote.give_time(now_ns, connection, seconds);
        }
        Ok(())
    }

    /// Falls of a link, and wrong frames of its interface.
    fn faults(&mut self, port: u16) -> (u64, u64) {
        self.count_interfaces();
        let drops = self.manager.ports().nth(port.into()).map_or(0, |line| line.counters().drops);
        let interface = self.ports.get(port).and_then(|of| of.interface.as_ref());
        (drops, interface.map_or(0, |interface| interface.counters.errors))
    }

    /// Sends what is due of the test that runs, and answers its client at the end. A client that is gone ends it.
    pub(super) fn advance_test(&mut self) {
        let now_ns = self.now_ns();
        let Some(running) = &mut self.cables.running else { return };
        let is_there = match running.asker {
            Asker::Client { id, .. } => self.control.has(id),
            Asker::Host { connection, .. } => self.remote.has(connection),
        };
        if !is_there {
            let text =
                format!("{} (port {}): the test is ended, because its client is gone", running.interface, running.port);
            self.journal.note(false, text);
            self.cables.running = None;
            return;
        }
        let port = running.port;
        match running.tester.tick(now_ns) {
            Ok(heads) => heads.iter().for_each(|head| self.send_test(port, head)),
            Err(outcome) => {
                let Some(running) = self.cables.running.take() else { return };
                let answer = self.ended(&running, outcome);
                self.give(running.asker, &answer);
            }
        }
    }

    fn ended(&mut self, running: &Running, outcome: Outcome) -> Answer {
        let (interface, port, neighbour) = (&running.interface, running.port, &running.neighbour);
        let mut report = match outcome {
            Outcome::Done(report) => report,
            Outcome::NoMirror => {
                let remedy = "run the same release on both hosts, and see whether a firewall refuses UDP port 7392";
                let text = format!("{interface}: {neighbour} does not answer tests: {remedy}");
                self.journal.note(true, text.clone());
                return Answer::Refused(text);
            }
        };
        let (falls, errors) = self.faults(port);
        (report.falls, report.interface_errors) =
            (falls.saturating_sub(running.before.0), errors.saturating_sub(running.before.1));
        (report.interface, report.neighbour) = (interface.clone(), neighbour.clone());
        let TestReport { sent, returned, .. } = *report;
        let verdict = if report.is_clean() { "no fault" } else { "faults were found" };
        self.journal.note(
            !report.is_clean(),
            format!("{interface} (port {port}): test over: {returned} of {sent} frames came back: {verdict}"),
        );
        Answer::Tested(report)
    }

    /// Takes datagrams of tests that have arrived at a port.
    pub(super) fn receive_test(&mut self, port: u16) {
        let own = self.manager.config().host;
        let is_enabled = self.manager.ports().nth(port.into()).is_some_and(|line| line.is_enabled());
        for (datagram, _) in self.cables.sockets.receive(port) {
            let now_ns = self.now_ns();
            let (sealed, payload) = datagram.split_at(datagram.len().min(self.cables.seal.bytes() + HEAD_BYTES));
            let head = self.cables.seal.open_unordered(sealed).and_then(Head::decode);
            let mirror = self.cables.mirrors.entry(port).or_default();
            let tester = self.cables.running.as_mut().filter(|running| running.port == port);
            let Some(head) = head else {
                mirror.unreadable();
                *self.cables.refused.entry(port).or_default() += 1;
                if let Some(running) = tester {
                    running.tester.unreadable();
                }
                continue;
            };
            if let Some(running) = tester {
                running.tester.take(now_ns, &head, payload);
            }
            let answer = mirror.take(now_ns, own, &head, payload).filter(|_| is_enabled);
            if let Some(answer) = answer {
                self.send_test(port, &answer);
            }
        }
    }

    /// One that cannot be sent is lost, and is counted so.
    fn send_test(&mut self, port: u16, head: &Head) {
        let mut datagram = self.cables.seal.seal(&head.encode());
        head.fill(&mut datagram);
        let _ = self.cables.sockets.send(port, &datagram);
    }
}
