// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of clients, and their answers.
use selvedge_fabric::Port;

use super::Daemon;
use crate::cable_test::Plan;
use crate::control::Line;
use crate::protocol::{Act, Answer, Request, Status};
use crate::views;

impl Daemon {
    pub(super) fn answer(&mut self, line: &Line) {
        let answer = match serde_json::from_slice::<Request>(&line.text) {
            // Its answer comes at the end of the test.
            Ok(Request::Test { port, count, size, rate }) => {
                match self.begin_test(line, &port, Plan { frames: count, size, rate }) {
                    Ok(()) => return,
                    Err(reason) => Answer::Refused(reason),
                }
            }
            Ok(request) => self.reply(line, request),
            Err(error) => Answer::Refused(format!("no request of this release: {error}")),
        };
        self.control.answer(line.client, &answer);
    }

    fn reply(&mut self, line: &Line, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Status(self.status()),
            Request::Hosts => Answer::Hosts(views::hosts(&self.manager)),
            Request::Links => Answer::Links(views::links(&self.manager, &self.ports)),
            Request::Topology => Answer::Topology(views::topology(&self.manager, &self.ports)),
            Request::Log { follow } => {
                if follow {
                    self.publish();
                    self.control.follow_log(line.client);
                }
                Answer::Log(self.journal.since(0).cloned().collect())
            }
            Request::Link { .. } if !line.is_operator => {
                Answer::Refused("only root and the daemon's own user may change links".into())
            }
            Request::Test { .. } => Answer::Refused("a test has its answer at its end".into()),
            Request::Link { port, act } => match views::named_port(&port, &self.manager, &self.ports) {
                Ok(port) => Answer::Done(self.act(port, act)),
                Err(reason) => Answer::Refused(reason),
            },
        }
    }

    fn act(&mut self, port: u16, act: Act) -> String {
        let (now_ns, at) = (self.now_ns(), Port(port));
        match act {
            Act::Up => {
                self.manager.drain(now_ns, at, !self.routing.keeps_routes());
                // A link that is up stays up.
                if self.manager.ports().nth(port.into()).is_some_and(|line| !line.is_enabled()) {
                    self.manager.enable(now_ns, at, true);
                }
            }
            Act::Down => self.manager.enable(now_ns, at, false),
            Act::Reset => self.manager.reset(now_ns, at),
            Act::Drain => self.manager.drain(now_ns, at, true),
        }
        let done = match act {
            Act::Up => "enabled",
            Act::Down => "disabled",
            Act::Reset => "reset",
            Act::Drain => "drained",
        };
        let text = self.with_interface(format!("port {port}: {done} by an operator"));
        self.journal.note(false, text.clone());
        self.carry_out();
        text
    }

    fn status(&self) -> Status {
        let map = self.manager.map().0;
        let config = self.manager.config();
        Status {
            name: config.name.clone(),
            host: views::hex(config.host),
            address: config.address,
            keeps_routes: self.routing.keeps_routes(),
            is_sealed: self.settings.key.is_some(),
            uptime_s: self.origin.elapsed().as_secs_f64(),
            digest: views::digest(map),
            is_settled: self.manager.is_settled(),
            hosts: map.hosts().len(),
            links: map.links().len(),
            routes: self.routing.count(),
            ports: views::ports(&self.manager, &self.ports, &self.replays),
        }
    }
}
