// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manager: its inputs, its effects, and the order in which an input is worked through.
//!
//! Each input first changes facts, then [`Manager::advance`] does all that is due: states of ports, hellos, repeats, a
//! new map, the own announcement, and at last the frames. So the effects of an input do not depend on how long the
//! caller waited before it.
//!
//! # Costs
//!
//! An input: O(ports), and for a frame O(its announcements × (log(hosts) + ports)). A new map: O(links × log(hosts)),
//! at most once in `settle_ns` unless an own link falls.
use crate::announcement::Announcement;
use crate::config::{Config, HOSTS_MAX, PORTS_MAX, Strategy, Timing};
use crate::event::{Block, Cause, Event};
use crate::flood::Flood;
use crate::id::{End, HostId, fitted_name};
use crate::lease::{Client, Lease, LeaseError, LeaseId, Leases, Withdrawal};
use crate::load::{HostLoad, LoadReport, PortLoad};
use crate::map::Map;
use crate::port::{LinkPort, State};
use crate::routes::Route;
use crate::source::SourceRoutes;
use crate::table::Table;
use crate::wire::{Body, Frame, Hello};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use own::Own;
pub use rest::KnownFabric;
use selvedge_fabric::{Algorithm, Path, Port, Topology};

mod frames;
mod own;
mod rest;
mod settle;

/// The latest time: sums with times of at most a year cannot overflow.
const TIME_MAX_NS: u64 = u64::MAX / 2;

/// Work for the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Send a frame at a port.
    Send {
        port: Port,
        frame: Vec<u8>,
    },
    /// Install a route, in place of the one to the same host.
    Install(Route),
    Withdraw {
        to: HostId,
        address: Option<IpAddr>,
    },
    /// Tell the client of a lease that its route is no longer valid.
    WithdrawLease {
        lease: Lease,
        cause: Withdrawal,
    },
    Event(Event),
}

/// A port with what its neighbour is to get.
#[derive(Clone, Debug)]
struct Line {
    port: LinkPort,
    flood: Flood,
    /// The neighbour with which the link is up.
    up: Option<End>,
    /// MTU and drain of the link, as announced.
    announced: (Option<u32>, bool),
    /// The end that the last hello echoed.
    said: Option<End>,
}

/// The manager of a host.
#[derive(Clone, Debug)]
pub struct Manager {
    config: Config,
    timing: Timing,
    now_ns: u64,
    lines: Vec<Line>,
    table: Table,
    own: Own,
    map: Map,
    topology: Option<Topology>,
    /// Counts the maps.
    generation: u64,
    /// The time at which a stale map is made anew.
    settle_at_ns: Option<u64>,
    settled_ns: u64,
    settle_pause_ns: u64,
    sweep_at_ns: u64,
    routes: BTreeMap<HostId, Route>,
    leases: Leases,
    /// Made when a lease or a caller asks for them.
    source: Option<Box<SourceRoutes>>,
    noted_full: bool,
    /// Names and addresses of hosts that were lost, for the log when they return. At most as many as the table holds.
    lost: BTreeMap<HostId, (String, Option<IpAddr>)>,
    /// Whether routes by destination are made.
    makes_routes: bool,
    effects: Vec<Effect>,
}

impl Manager {
    /// A manager without carriers. Settings beyond their limits are taken at the limit.
    pub fn new(config: Config, now_ns: u64) -> Manager {
        let mut config = config;
        config.name = fitted_name(&config.name);
        config.ports = config.ports.min(PORTS_MAX);
        config.boot.0 = config.boot.0.max(1);
        config.limits.hosts = config.limits.hosts.clamp(1, HOSTS_MAX);
        let timing = config.timing.clamped();
        let now_ns = now_ns.min(TIME_MAX_NS);
        let line = |port| {
            let end = End { host: config.host, boot: config.boot, port: Port(port), session: 1 };
            Line { port: LinkPort::new(end), flood: Flood::default(), up: None, announced: (None, false), said: None }
        };
        let mut manager = Manager {
            timing,
            now_ns,
            lines: (0..config.ports).map(line).collect(),
            table: Table::new(config.limits.hosts as usize),
            own: Own::default(),
            map: Map::default(),
            topology: None,
            generation: 0,
            settle_at_ns: None,
            settled_ns: 0,
            settle_pause_ns: timing.settle_ns,
            sweep_at_ns: now_ns,
            routes: BTreeMap::new(),
            leases: Leases::new(config.limits.leases),
            source: None,
            noted_full: false,
            lost: BTreeMap::new(),
            makes_routes: true,
            effects: Vec::new(),
            config,
        };
        manager.prepare_own();
        manager.settle();
        manager
    }

    /// The carrier of a port, with its MTU; None: there is none.
    pub fn carrier(&mut self, now_ns: u64, port: Port, mtu: Option<u32>) {
        self.at(now_ns);
        if let Some(line) = self.lines.get_mut(usize::from(port.0)) {
            line.port.set_carrier(self.now_ns, mtu);
        }
        self.advance();
    }

    /// A frame that arrived at a port. Its bytes need not be trusted.
    pub fn frame(&mut self, now_ns: u64, port: Port, bytes: &[u8]) {
        self.at(now_ns);
        if self.lines.get(usize::from(port.0)).is_some_and(|line| line.port.state() != State::Down) {
            self.receive(usize::from(port.0), bytes);
        }
        self.advance();
    }

    /// A frame that arrived at a port, and could not be opened with the key.
    pub fn sealed_frame(&mut self, now_ns: u64, port: Port) {
        self.at(now_ns);
        if let Some(line) = self.lines.get_mut(usize::from(port.0)) {
            line.port.refuse(self.now_ns, Some(Block::Key), &self.timing);
        }
        self.advance();
    }

    /// The time alone.
    pub fn tick(&mut self, now_ns: u64) {
        self.at(now_ns);
        self.advance();
    }

    /// The time of the next [`Manager::tick`].
    pub fn due_ns(&self) -> u64 {
        let ports = self.lines.iter().map(|line| line.port.due_ns(&self.timing));
        let repeats = self.lines.iter().map(|line| line.flood.due_ns(self.timing.repeat_ns));
        let own = self.own_due_ns().min(self.settle_at_ns.unwrap_or(u64::MAX)).min(self.sweep_at_ns);
        ports.chain(repeats).min().unwrap_or(u64::MAX).min(own)
    }

    /// The effects since the last call, in order.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        core::mem::take(&mut self.effects)
    }

    /// Enables or disables a port. A disabled one tells its neighbour at once.
    pub fn enable(&mut self, now_ns: u64, port: Port, is_enabled: bool) {
        self.at(now_ns);
        if let Some(line) = self.lines.get_mut(usize::from(port.0)) {
            let was_live = line.port.state() != State::Down;
            line.port.is_enabled = is_enabled;
            line.port.reset(self.now_ns);
            if was_live && !is_enabled {
                self.farewell(usize::from(port.0));
            }
        }
        self.advance();
    }

    /// Drains a link, so that it is used only where no other path leads; or ends that.
    pub fn drain(&mut self, now_ns: u64, port: Port, is_drained: bool) {
        self.at(now_ns);
        if let Some(line) = self.lines.get_mut(usize::from(port.0)) {
            line.port.is_drained = is_drained;
        }
        self.advance();
    }

    /// Takes a link down and lets it come up anew.
    pub fn reset(&mut self, now_ns: u64, port: Port) {
        self.at(now_ns);
        if let Some(line) = self.lines.get_mut(usize::from(port.0)) {
            line.port.reset(self.now_ns);
        }
        self.advance();
    }

    /// The neighbour that a port's cable should lead to; another one, now or later, gives an event.
    pub fn expect(&mut self, port: Port, neighbour: Option<(HostId, Port)>) {
        let miswired = self.lines.get_mut(usize::from(port.0)).and_then(|line| line.port.expect(neighbour));
        miswired.into_iter().for_each(|event| self.event(event));
    }

    /// Takes all links down before the end, so that the neighbours need not wait for the silence.
    pub fn stop(&mut self, now_ns: u64) {
        for port in 0..self.lines.len() as u16 {
            self.enable(now_ns, Port(port), false);
        }
    }

    /// Loads of the host and of its links, as measured since the last call: about once a second.
    pub fn loads(&mut self, now_ns: u64, load: HostLoad, ports: &[PortLoad]) {
        self.at(now_ns);
        let mut ports: Vec<PortLoad> = ports.iter().filter(|load| load.port.0 < self.config.ports).copied().collect();
        ports.sort_unstable_by_key(|load| load.port);
        ports.dedup_by_key(|load| load.port);
        self.own.reports += 1;
        let report =
            LoadReport { host: self.config.host, boot: self.config.boot, number: self.own.reports, load, ports };
        if self.table.accept_load(&report) && self.own.is_claimed {
            self.offer_load(self.config.host, None);
        }
        self.advance();
    }

    /// A route for a client, until it is released or withdrawn.
    pub fn lease(&mut self, now_ns: u64, client: Client, to: HostId) -> Result<Lease, LeaseError> {
        self.at(now_ns);
        self.advance();
        if to == self.config.host {
            return Err(LeaseError::Own { host: to });
        }
        if let Some(full) = self.leases.is_full() {
            return Err(full);
        }
        let address = self.map.host(to).ok_or(LeaseError::Unreachable { host: to })?.address;
        let path = self.path(to).ok_or(LeaseError::NoRoutes)?;
        self.leases.add(Lease { id: LeaseId(0), client, to, address, generation: self.generation, path })
    }

    /// Ends a lease; returns whether there was one.
    pub fn release(&mut self, lease: LeaseId) -> bool {
        self.leases.release(lease)
    }

    /// Ends all leases of a client that has exited.
    pub fn release_client(&mut self, client: Client) {
        self.leases.release_client(client);
    }

    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.leases.iter()
    }

    pub fn config(&self) -> &Config {
        &self.config
    }

    pub fn ports(&self) -> impl Iterator<Item = &LinkPort> {
        self.lines.iter().map(|line| &line.port)
    }

    /// The map, and its number, which grows with each change.
    pub fn map(&self) -> (&Map, u64) {
        (&self.map, self.generation)
    }

    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.values()
    }

    /// The last reports of all hosts, the own one included.
    pub fn load_reports(&self) -> impl Iterator<Item = &LoadReport> {
        self.table.hosts().filter_map(|host| self.table.get(host)?.load.as_deref())
    }

    /// Announcements in the table: those of hosts that cannot be reached are among them until they end.
    pub fn announcements(&self) -> usize {
        self.table.len()
    }

    /// Whether the neighbours have acknowledged all that they were sent, and the map is that of the table.
    pub fn is_settled(&self) -> bool {
        self.settle_at_ns.is_none() && self.lines.iter().all(|line| line.up.is_none() || line.flood.is_settled())
    }

    /// The path from this host to another by the configured strategy.
    pub fn path(&mut self, to: HostId) -> Option<Path> {
        match self.config.strategy {
            Strategy::Shortest => {
                crate::routes::shortest_path(&self.map, self.topology.as_ref()?, self.config.host, to)
            }
            _ => {
                let host = self.config.host;
                self.make_source_routes();
                self.source.as_ref()?.path(&self.map, host, to)
            }
        }
    }

    /// The path of kernel routes between any two hosts of the map.
    pub fn kernel_path(&self, from: HostId, to: HostId) -> Option<Path> {
        crate::routes::shortest_path(&self.map, self.topology.as_ref()?, from, to)
    }

    /// The source route between any two hosts of the map, and its algorithm.
    pub fn source_path(&mut self, from: HostId, to: HostId) -> Option<(Path, Algorithm)> {
        self.make_source_routes();
        let source = self.source.as_ref()?;
        Some((source.path(&self.map, from, to)?, source.algorithm()))
    }

    /// Source routes of the current map; made at the first call after a change.
    pub fn source_routes(&mut self) -> Option<&SourceRoutes> {
        self.make_source_routes();
        self.source.as_deref()
    }

    fn at(&mut self, now_ns: u64) {
        self.now_ns = now_ns.min(TIME_MAX_NS).max(self.now_ns);
    }

    fn event(&mut self, event: Event) {
        self.effects.push(Effect::Event(event));
    }

    /// Does all that is due.
    fn advance(&mut self) {
        (0..self.lines.len()).for_each(|at| self.update(at));
        if self.sweep_at_ns <= self.now_ns {
            // The end of an announcement depends on the map.
            if self.settle_at_ns.is_some() {
                self.settle();
            }
            self.sweep();
        }
        if self.settle_at_ns.is_some_and(|at_ns| at_ns <= self.now_ns) {
            self.settle();
        }
        self.announce();
        for at in 0..self.lines.len() {
            self.flush(at);
        }
    }

    /// Brings a port's state up to date, with what follows from a change.
    fn update(&mut self, at: usize) {
        let (now_ns, timing) = (self.now_ns, self.timing);
        let line = &mut self.lines[at];
        let state = line.port.state();
        line.port.evaluate(now_ns, &timing);
        let (port, before, up) = (line.port.number(), line.up, line.port.up());
        if let State::Blocked(why) = line.port.state() {
            if state != line.port.state() {
                self.effects.push(Effect::Event(Event::Blocked { port, why }));
            }
        }
        let line = &mut self.lines[at];
        let announced = (line.port.mtu(), line.port.is_drained);
        if up.is_some() && announced != core::mem::replace(&mut line.announced, announced) {
            self.own.is_stale = true;
            self.stale(false);
        }
        if before == up {
            return;
        }
        self.own.is_stale = true;
        let line = &mut self.lines[at];
        line.up = up;
        line.flood.clear();
        let cause = match line.port.state() {
            State::Down if line.port.carrier().is_none() => Cause::Carrier,
            State::Down => Cause::Disabled,
            State::Blocked(_) => Cause::Blocked,
            State::Probing => Cause::Silence,
            State::OneWay | State::Up => match (before, line.port.neighbour()) {
                (Some(old), Some(new)) if old == new => Cause::NotHeard,
                (Some(old), Some(new)) if (old.host, old.port) == (new.host, new.port) => match old.boot == new.boot {
                    true => Cause::Reset,
                    false => Cause::Reboot,
                },
                _ => Cause::Moved,
            },
        };
        if let Some(neighbour) = before {
            self.event(Event::LinkDown { port, neighbour, cause });
        }
        if let Some(neighbour) = up {
            self.event(Event::LinkUp { port, neighbour });
            self.own.first_link(now_ns, &timing);
            self.offer_table(at);
        }
        self.stale(before.is_some());
    }

    /// Sends what is due at a port: a hello first, because the other end takes nothing else before it is up.
    fn flush(&mut self, at: usize) {
        let (now_ns, timing) = (self.now_ns, self.timing);
        let line = &mut self.lines[at];
        if line.port.state() == State::Down {
            line.said = None;
            return;
        }
        let echoes = matches!(line.port.state(), State::OneWay | State::Up);
        let echo = line.port.neighbour().filter(|_| echoes);
        let mut frames = Vec::new();
        let sender = line.port.end();
        if echo != line.said || line.port.is_hello_due(now_ns) {
            line.said = echo;
            let hello = line.port.hello(now_ns, &timing);
            frames.push(Frame { sender, body: Body::Hello(hello) });
            let mut events = Vec::new();
            line.port.note_lasting(now_ns, &timing, &mut events);
            self.effects.extend(events.into_iter().map(Effect::Event));
        }
        if line.up.is_some() {
            line.port.counters.repeats += line.flood.repeat(now_ns, timing.repeat_ns);
            frames.extend(line.flood.frames(now_ns, timing.gather_ns, sender, &self.table));
        }
        line.port.counters.frames_sent += frames.len() as u64;
        let port = line.port.number();
        self.effects.extend(frames.into_iter().map(|frame| Effect::Send { port, frame: frame.encode() }));
    }

    /// A last hello without an echo, by which the neighbour takes the link down.
    fn farewell(&mut self, at: usize) {
        let port = &mut self.lines[at].port;
        let hello = Hello { echo: None, ..port.hello(self.now_ns, &self.timing) };
        let frame = Frame { sender: port.end(), body: Body::Hello(hello) }.encode();
        let port = port.number();
        self.effects.push(Effect::Send { port, frame });
    }

    fn announcement(&self) -> Announcement {
        own::announcement(&self.config, self.lines.iter().map(|line| &line.port))
    }
}
