// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of clients, and their answers.
use std::collections::BTreeMap;

use selvedge_fabric::Port;
use selvedge_fabric_manager::HostId;
use serde_json::json;

use super::Daemon;
use crate::control::Line;
use crate::protocol::{
    Act, Answer, DumpView, DumpWhat, ExpectedPort, HostName, LeaseView, NicView, Request, RouteView, SourceRoute,
    Status,
};
use crate::views;

impl Daemon {
    pub(super) fn answer(&mut self, line: &Line) {
        let answer = match serde_json::from_slice::<Request>(&line.text) {
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
            act if act.is_act() && !line.is_operator => {
                Answer::Refused("only root and the daemon's own user may change links, or restart daemons".into())
            }
            Request::Link { port, act } => match views::named_port(&port, &self.manager, &self.ports) {
                Ok(port) => Answer::Done(self.act(port, act)),
                Err(reason) => Answer::Refused(reason),
            },
            Request::At { host, request } => self.at(line, &host, *request),
            Request::By { user, request } => self.by(line, &user, *request),
            Request::Routes { from, to } => self.route(&from, &to).map_or_else(Answer::Refused, Answer::Route),
            Request::Load => Answer::Load(self.history.series(self.manager.map().0)),
            Request::Nics => Answer::Nics(self.nics()),
            Request::Dump { what, nic } => self.dump(what, nic).map_or_else(Answer::Refused, Answer::Dump),
            Request::Expect { ports } => self.expect(&ports).map_or_else(Answer::Refused, Answer::Done),
            Request::Restart => {
                self.restarts = true;
                self.journal.note(false, "restarted by an operator".into());
                Answer::Done("the daemon executes itself anew; routes stay".into())
            }
        }
    }

    /// A request for another host.
    fn at(&mut self, line: &Line, host: &str, request: Request) -> Answer {
        if let Request::At { .. } = request {
            return Answer::Refused("a request is for one host: leave the outer `at` out".into());
        }
        match self.host(host) {
            Ok(found) if found == self.manager.config().host => self.reply(line, request),
            Ok(_) => Answer::Refused(format!("{host} is another host: give the command there")),
            Err(reason) => Answer::Refused(reason),
        }
    }

    /// An act whose user the log names.
    fn by(&mut self, line: &Line, user: &str, request: Request) -> Answer {
        let act = match &request {
            Request::Link { port, act } => format!("{} of link {}", act.name(), &port),
            Request::Restart => "restart".to_owned(),
            _ => return Answer::Refused("only acts at links and restarts have a user".into()),
        };
        let shown = |text: &str| text.chars().filter(|letter| !letter.is_control()).take(64).collect::<String>();
        self.journal.note(false, format!("{} asks, on the page: {}", shown(user), shown(&act)));
        self.reply(line, request)
    }

    fn nics(&self) -> Vec<NicView> {
        Vec::new()
    }

    fn dump(&mut self, what: DumpWhat, nic: Option<u64>) -> Result<DumpView, String> {
        match what {
            DumpWhat::Routes => Ok(self.dump_routes()),
            DumpWhat::Nic | DumpWhat::Mailbox => {
                let number =
                    nic.ok_or_else(|| "give the number of a NIC; `selvedge fabric nics` lists them".to_owned())?;
                Err(format!("no NIC {number} is registered; `selvedge fabric nics` lists them"))
            }
        }
    }

    fn dump_routes(&mut self) -> DumpView {
        let own = self.manager.config().host;
        let others: Vec<HostId> =
            self.manager.map().0.hosts().iter().map(|host| host.host).filter(|&host| host != own).collect();
        let source: Vec<SourceRoute> =
            others.iter().filter_map(|&host| views::source_route(&mut self.manager, own, host)).collect();
        let map = self.manager.map().0;
        let kernel: Vec<String> = others.iter().filter_map(|&host| self.routing.describe(&self.ports, host)).collect();
        let leases: Vec<LeaseView> = self.manager.leases().map(|lease| views::lease(map, lease)).collect();
        let ports = |ports: &[u16]| ports.iter().map(u16::to_string).collect::<Vec<_>>().join(" ");
        let names = |hosts: &[HostName]| hosts.iter().map(|host| host.name.clone()).collect::<Vec<_>>().join(" - ");
        let mut text = String::new();
        kernel.iter().for_each(|route| text += &format!("kernel: {route}\n"));
        for route in &source {
            text += &format!("source, {}: ports {}: {}\n", route.algorithm, ports(&route.ports), names(&route.hosts));
        }
        for lease in &leases {
            let (id, to, way) = (lease.id, &lease.to.name, ports(&lease.ports));
            text += &format!("lease {id}: to {to}, ports {way}, of map {}\n", lease.generation);
        }
        DumpView { text, value: json!({ "kernel": kernel, "source": source, "leases": leases }) }
    }

    /// Takes the neighbours that the cables of this host should lead to.
    fn expect(&mut self, expected: &[ExpectedPort]) -> Result<String, String> {
        let mut neighbours = BTreeMap::new();
        for each in expected {
            let host =
                u64::from_str_radix(&each.host, 16).map_err(|_| format!("{}: no number of a host", each.host))?;
            neighbours.insert(each.port, (HostId(host), Port(each.neighbour_port)));
        }
        for port in 0..self.manager.config().ports {
            self.manager.expect(Port(port), neighbours.get(&port).copied());
        }
        self.journal.note(false, format!("the neighbours of {} cables were given by an operator", neighbours.len()));
        self.carry_out();
        Ok(format!("{} cables are watched", neighbours.len()))
    }

    fn route(&mut self, from: &str, to: &str) -> Result<RouteView, String> {
        let (from, to) = (self.host(from)?, self.host(to)?);
        let own = self.manager.config().host;
        let mut view = views::route(&mut self.manager, &self.ports, from, to)
            .ok_or_else(|| "the links are changing; ask again".to_owned())?;
        if from == own {
            view.kernel = self.routing.describe(&self.ports, to);
        }
        Ok(view)
    }

    /// A host of the map; nothing and `localhost` mean this one.
    fn host(&self, text: &str) -> Result<HostId, String> {
        match text {
            "" | "localhost" => Ok(self.manager.config().host),
            _ => views::named_host(self.manager.map().0, text),
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
