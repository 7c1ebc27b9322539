// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Requests of clients, and their answers.
use std::collections::BTreeMap;
use std::net::IpAddr;

use selvedge_fabric::Port;
use selvedge_fabric_manager::{Client, HostId, LeaseId};
use serde_json::json;

use super::Daemon;
use super::turns::TURN_NS;
use crate::cable_test::Plan;
use crate::control::Line;
use crate::protocol::{
    Act, Answer, DumpView, DumpWhat, ExpectedPort, HostName, LeaseView, LinksOf, LinksView, NicView, Request,
    RouteView, SourceRoute, Status,
};
use crate::registry::may_lease;
use crate::remote::Heard;
use crate::views;

/// The asker of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A client of the UNIX socket.
    Client { id: u64, is_operator: bool },
    /// A connection with another host's daemon. One that holds the key is an operator.
    Host { connection: u64, is_sealed: bool },
}

impl Asker {
    pub(super) fn is_operator(self) -> bool {
        match self {
            Asker::Client { is_operator, .. } => is_operator,
            Asker::Host { is_sealed, .. } => is_sealed,
        }
    }
}

/// Links of processes in an answer: fewer than 3 MB.
const LINKS_LISTED_MAX: usize = 4096;
/// Refusal of an act that came without a seal.
pub(super) const NEEDS_KEY: &str = "changes at another host need a key: start the daemons of all hosts with --key FILE";

impl Daemon {
    pub(super) fn answer_line(&mut self, line: &Line) {
        self.answer(Asker::Client { id: line.client, is_operator: line.is_operator }, &line.text);
    }

    /// Carries on what the connections with other hosts have given.
    pub(super) fn hear(&mut self, heard: Vec<Heard>) {
        for heard in heard {
            match heard {
                Heard::Request { connection, is_sealed, text } => {
                    self.answer(Asker::Host { connection, is_sealed }, &text);
                }
                Heard::Answer { client, answer } => self.control.answer(client, &answer),
            }
        }
    }

    fn answer(&mut self, asker: Asker, text: &[u8]) {
        let answer = match serde_json::from_slice::<Request>(text) {
            Ok(request) => self.reply(asker, request),
            Err(error) => Some(Answer::Refused(format!("no request of this release: {error}"))),
        };
        if let Some(answer) = answer {
            self.give(asker, &answer);
        }
    }

    pub(super) fn give(&mut self, asker: Asker, answer: &Answer) {
        match asker {
            Asker::Client { id, .. } => self.control.answer(id, answer),
            Asker::Host { connection, .. } => self.remote.answer(self.now_ns(), connection, answer),
        }
    }

    /// None: the answer comes later, from another host, from a thread or at the end of a test.
    fn reply(&mut self, asker: Asker, request: Request) -> Option<Answer> {
        match request {
            Request::At { host, request } => self.at(asker, &host, *request),
            request => self.local_reply(asker, request),
        }
    }

    fn local_reply(&mut self, asker: Asker, request: Request) -> Option<Answer> {
        match request {
            Request::Nics { links } if links != LinksOf::None => {
                // It sees no links, so nothing is read for it.
                if let Asker::Host { is_sealed: false, .. } = asker {
                    return Some(Answer::Nics(self.nics_with_links(asker, links)));
                }
                if [LinksOf::Totals, LinksOf::All].iter().any(|&links| self.counters.has(&(asker, links))) {
                    let text = "the counters of links are being read for another request: wait for its answer";
                    return Some(Answer::Refused(text.into()));
                }
                let (now_ns, registry) = (self.now_ns(), &self.registry);
                let (_, links) = self.counters.ask(now_ns, (asker, links), || registry.pages())?;
                Some(Answer::Nics(self.nics_with_links(asker, links)))
            }
            Request::Test { ref port, count, size, rate } => {
                let plan = Plan { frames: count, size, rate };
                self.begin_test(asker, port, plan, request.seconds()).err().map(Answer::Refused)
            }
            Request::Dump { what, nic } if what != DumpWhat::Routes => {
                self.begin_dump(asker, what, nic).err().map(Answer::Refused)
            }
            request => Some(self.own_reply(asker, request)),
        }
    }

    fn own_reply(&mut self, asker: Asker, request: Request) -> Answer {
        match request {
            Request::Status => Answer::Status(self.status()),
            Request::Hosts => Answer::Hosts(views::hosts(&self.manager)),
            Request::Links => Answer::Links(views::links(&self.manager, &self.ports)),
            Request::Topology => Answer::Topology(views::topology(&self.manager, &self.ports)),
            Request::Log { follow } => {
                if follow {
                    self.publish();
                    let follows = match asker {
                        Asker::Client { id, .. } => {
                            self.control.follow_log(id);
                            Ok(())
                        }
                        Asker::Host { connection, .. } => self.remote.follow_log(connection),
                    };
                    if let Err(reason) = follows {
                        return Answer::Refused(reason);
                    }
                }
                Answer::Log(self.journal.since(0).cloned().collect())
            }
            act if act.is_act() && !asker.is_operator() => Answer::Refused(match asker {
                Asker::Client { .. } => {
                    "only root and the daemon's own user may change links, or restart daemons".into()
                }
                Asker::Host { .. } => NEEDS_KEY.into(),
            }),
            Request::Link { port, act } => match views::named_port(&port, &self.manager, &self.ports) {
                Ok(port) => Answer::Done(self.act(port, act)),
                Err(reason) => Answer::Refused(reason),
            },
            Request::Test { .. } => Answer::Refused("a test has its answer at its end".into()),
            Request::At { .. } => Answer::Refused("a request is for one host: leave one `at` out".into()),
            Request::By { user, request } => self.by(asker, &user, *request),
            Request::Routes { from, to } => self.route(&from, &to).map_or_else(Answer::Refused, Answer::Route),
            Request::Load => Answer::Load(self.history.series(self.manager.map().0)),
            Request::Nics { .. } => Answer::Nics(self.registry.views(&self.manager)),
            Request::Dump { .. } => Answer::Dump(self.dump_routes()),
            Request::Expect { ports } => self.expect(&ports).map_or_else(Answer::Refused, Answer::Done),
            Request::Register(_) | Request::Unregister { .. } | Request::Lease { .. } | Request::Release { .. } => {
                self.of_process(asker, request).unwrap_or_else(Answer::Refused)
            }
            Request::Restart => match self.begin_restart() {
                Ok(()) => {
                    self.journal.note(false, "restarted by an operator".into());
                    Answer::Done("the daemon executes itself anew; routes stay".into())
                }
                Err(reason) => Answer::Refused(format!("the new daemon would not start: {reason}")),
            },
        }
    }

    /// A request for a host by name.
    fn at(&mut self, asker: Asker, text: &str, request: Request) -> Option<Answer> {
        let found = match self.host(text) {
            Ok(host) if host == self.manager.config().host => return self.local_reply(asker, request),
            Ok(host) => self.carry(asker, host, &request),
            Err(reason) => Err(reason),
        };
        found.err().map(Answer::Refused)
    }

    /// Carries a request to another host.
    fn carry(&mut self, asker: Asker, host: HostId, request: &Request) -> Result<(), String> {
        let map = self.manager.map().0;
        let name = views::name(map, host);
        let Asker::Client { id, is_operator } = asker else {
            return Err(format!("{name} is another host: ask its daemon, or this host's"));
        };
        if let Request::At { .. } = request {
            return Err("a request is for one host: leave one `at` out".into());
        }
        if request.is_act() && !is_operator {
            return Err("only root and the daemon's own user may change links, or restart daemons".into());
        }
        if request.is_of_users() && !is_operator {
            let text = "only root and the daemon's own user may see NICs and links of processes at other hosts";
            return Err(text.into());
        }
        if request.is_act() && !self.remote.has_key() {
            return Err(NEEDS_KEY.into());
        }
        if !self.routing.keeps_routes() {
            return Err(format!("this daemon only observes, and has no route to {name}: start it as root"));
        }
        let Some(IpAddr::V4(address)) = map.host(host).and_then(|host| host.address) else {
            return Err(format!("{name} has no address in the fabric, for its daemon only observes: start it as root"));
        };
        self.remote.ask(self.now_ns(), (id, is_operator), (name, host, address), request)
    }

    /// An act whose user the log names.
    fn by(&mut self, asker: Asker, user: &str, request: Request) -> Answer {
        let act = match &request {
            Request::Link { port, act } => format!("{} of link {}", act.name(), &port),
            Request::Restart => "restart".to_owned(),
            _ => return Answer::Refused("only acts at links and restarts have a user".into()),
        };
        let shown = |text: &str| text.chars().filter(|letter| !letter.is_control()).take(64).collect::<String>();
        self.journal.note(false, format!("{} asks, on the page: {}", shown(user), shown(&act)));
        self.own_reply(asker, request)
    }

    /// A request of a process about its NICs and leases.
    fn of_process(&mut self, asker: Asker, request: Request) -> Result<Answer, String> {
        let not_local = || "processes register with the daemon of their own host".to_owned();
        let Asker::Client { id, is_operator } = asker else { return Err(not_local()) };
        let user = self.control.user(id).ok_or_else(not_local)?;
        match request {
            Request::Register(registration) => {
                let nic = self.registry.register(id, user, registration)?;
                Ok(Answer::Registered { nic })
            }
            Request::Unregister { segment } => {
                self.registry.unregister(id, &segment);
                Ok(Answer::Done("no longer registered".into()))
            }
            Request::Lease { to } => {
                let of_same = |of| self.control.user(of).is_some_and(|other| other.user == user.user);
                let limit = self.manager.config().limits.leases as usize;
                let clients = self.manager.leases().map(|lease| lease.client.0);
                may_lease(clients, limit, id, (!is_operator).then_some(of_same))?;
                let hosts = self.manager.map().0.hosts();
                let host = hosts.iter().find(|host| host.address == Some(to)).map(|host| host.host);
                let host = host.ok_or_else(|| format!("{to} is not in the fabric"))?;
                let lease = self.manager.lease(self.now_ns(), Client(id), host).map_err(|error| error.to_string())?;
                self.carry_out();
                Ok(Answer::Lease(views::lease(self.manager.map().0, &lease)))
            }
            Request::Release { lease } => {
                let lease = LeaseId(lease);
                let is_own = self.manager.leases().any(|own| own.id == lease && own.client == Client(id));
                if is_own {
                    self.manager.release(lease);
                }
                Ok(Answer::Done("released".into()))
            }
            _ => Err("no request of a process".into()),
        }
    }

    /// Ends what clients that have gone had.
    pub(super) fn release_gone(&mut self) {
        for client in self.control.take_gone() {
            self.registry.remove_client(client);
            self.manager.release_client(Client(client));
        }
    }

    /// Answers those who have waited for the counters of links, until a turn is over.
    pub(super) fn answer_with_links(&mut self) {
        let now_ns = self.now_ns();
        self.counters.tick(now_ns);
        while let Some((asker, links)) = self.counters.take_ready() {
            let nics = self.nics_with_links(asker, links);
            self.give(asker, &Answer::Nics(nics));
            if self.now_ns() >= now_ns + TURN_NS {
                return;
            }
        }
    }

    /// The NICs, with the links that the asker may see.
    fn nics_with_links(&self, asker: Asker, links: LinksOf) -> Vec<NicView> {
        let own_user = match asker {
            Asker::Client { id, .. } => self.control.user(id).map(|user| user.user),
            Asker::Host { .. } => None,
        };
        let mut listed = if links == LinksOf::All { LINKS_LISTED_MAX } else { 0 };
        let mut nics = self.registry.views(&self.manager);
        self.registry.add_links(&mut nics, |client, user, is_open| match asker {
            _ if asker.is_operator() || own_user == Some(user) => self.counters.view(client, &mut listed, is_open),
            Asker::Client { .. } => LinksView::unseen("only this user, root and the daemon's own user may see them"),
            Asker::Host { .. } => LinksView::unseen("another host sees them only if the daemons of both have a key"),
        });
        nics
    }

    /// Answers those for whom NICs have been read.
    pub(super) fn answer_with_dumps(&mut self) {
        for (asker, read) in self.dumps.take(self.now_ns()) {
            self.give(asker, &read.map_or_else(Answer::Refused, Answer::Dump));
        }
    }

    /// Lets a thread read a NIC.
    fn begin_dump(&mut self, asker: Asker, what: DumpWhat, nic: Option<u64>) -> Result<(), String> {
        let number = nic.ok_or("give the number of a NIC; `selvedge fabric nics` lists them")?;
        let segment = self.registry.segment(number);
        let segment =
            segment.ok_or_else(|| format!("no NIC {number} is registered; `selvedge fabric nics` lists them"))?;
        let is_own = match asker {
            Asker::Client { id, .. } => self.control.user(id).is_some_and(|user| user.user == segment.user),
            Asker::Host { .. } => false,
        };
        match asker {
            _ if is_own || asker.is_operator() => {
                let (path, user, read) = (segment.path.clone(), segment.user, self.settings.read_nic);
                self.dumps.begin(self.now_ns(), user, asker, move || read(&path, user, what))
            }
            Asker::Client { .. } => Err(format!("NIC {number} is another user's")),
            Asker::Host { .. } => Err(NEEDS_KEY.into()),
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
        let map = self.manager.map().0;
        for (&port, &(host, neighbour_port)) in &neighbours {
            let heard = self.manager.ports().nth(port.into()).and_then(|line| line.neighbour());
            if heard.is_none() {
                let other = views::name(map, host);
                let text = format!("port {port}: expected {other} {neighbour_port}, found none");
                let text = format!("{}: check the cabling or the configuration", self.with_interface(text));
                self.journal.note(true, text);
            }
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
