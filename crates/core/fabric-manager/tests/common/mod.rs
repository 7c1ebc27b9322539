// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Managers over cables in memory: deterministic, from a seed.
//!
//! A cable delivers each frame after its delay, unless it is cut, or loses, repeats or damages it. The harness carries
//! the effects out: it keeps the routes that each manager has installed, and the events.
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use selvedge_fabric::Port;
use selvedge_fabric::routing::mix;
use selvedge_fabric_manager::wire::{Body, Edition};
use selvedge_fabric_manager::{
    Boot, Config, Effect, Event, Frame, HostId, KnownFabric, Lease, Manager, Route, Timing, Withdrawal,
};

pub const MS: u64 = 1_000_000;

/// Numbers from a seed (SplitMix64).
#[derive(Clone)]
pub struct Source(pub u64);

impl Source {
    pub fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit.max(1)
    }

    pub fn permille(&mut self, share: u64) -> bool {
        self.below(1000) < share
    }
}

#[derive(Clone)]
pub struct Cable {
    pub ends: [(usize, u16); 2],
    pub delay_ns: u64,
    pub carrier: bool,
    /// Direction 0 is from end 0 to end 1.
    pub passes: [bool; 2],
    pub loss_permille: u64,
    pub repeat_permille: u64,
    pub damage_permille: u64,
}

pub struct Host {
    pub config: Config,
    pub manager: Option<Manager>,
    /// Installed in the kernel: they survive the manager.
    pub routes: BTreeMap<HostId, Route>,
    pub events: Vec<Event>,
    pub withdrawn: Vec<(Lease, Withdrawal)>,
    starts: u64,
    /// Of the tick that is queued.
    due_ns: u64,
}

enum Arrival {
    Frame { host: usize, port: u16, bytes: Vec<u8> },
    Tick { host: usize },
}

pub struct Net {
    pub now_ns: u64,
    pub hosts: Vec<Host>,
    pub cables: Vec<Cable>,
    pub source: Source,
    /// How often each announcement has crossed each cable, while it is counted.
    pub crossings: Option<BTreeMap<(usize, Edition), u32>>,
    pub frames: u64,
    pub bytes: u64,
    /// Frames of the past, while they are recorded.
    pub record: bool,
    pub recorded: Vec<Vec<u8>>,
    queue: BinaryHeap<Reverse<(u64, u64, usize)>>,
    arrivals: BTreeMap<usize, Arrival>,
    count: usize,
    by_port: BTreeMap<(usize, u16), (usize, usize)>,
}

pub fn id(host: usize) -> HostId {
    HostId(0x1000 + host as u64)
}

pub fn config(host: usize, ports: u16) -> Config {
    Config {
        host: id(host),
        boot: Boot(0),
        name: format!("h{host}"),
        address: Some(std::net::Ipv4Addr::new(10, 0, (host >> 8) as u8, host as u8).into()),
        position: None,
        ports,
        strategy: Default::default(),
        limits: Default::default(),
        timing: Timing::default(),
    }
}

impl Net {
    /// Hosts that are not started, and whole cables between the next free ports of the pairs.
    pub fn new(hosts: usize, pairs: &[(usize, usize)], seed: u64) -> Net {
        let mut used = vec![0u16; hosts];
        let mut take = |host: usize| {
            used[host] += 1;
            used[host] - 1
        };
        let ends: Vec<[(usize, u16); 2]> = pairs.iter().map(|&(a, b)| [(a, take(a)), (b, take(b))]).collect();
        let configs = (0..hosts).map(|host| config(host, used[host].max(1))).collect();
        Net::with(configs, &ends, seed)
    }

    pub fn with(configs: Vec<Config>, ends: &[[(usize, u16); 2]], seed: u64) -> Net {
        let mut source = Source(seed);
        let cable = |&ends: &[(usize, u16); 2]| Cable {
            ends,
            delay_ns: 10_000 + source.below(200_000),
            carrier: true,
            passes: [true; 2],
            loss_permille: 0,
            repeat_permille: 0,
            damage_permille: 0,
        };
        let cables: Vec<Cable> = ends.iter().map(cable).collect();
        let mut by_port = BTreeMap::new();
        for (number, cable) in cables.iter().enumerate() {
            cable.ends.iter().enumerate().for_each(|(side, &end)| _ = by_port.insert(end, (number, side)));
        }
        let host = |config| Host {
            config,
            manager: None,
            routes: BTreeMap::new(),
            events: Vec::new(),
            withdrawn: Vec::new(),
            starts: 0,
            due_ns: u64::MAX,
        };
        Net {
            now_ns: 1_000 * MS,
            hosts: configs.into_iter().map(host).collect(),
            cables,
            source,
            crossings: None,
            frames: 0,
            bytes: 0,
            record: false,
            recorded: Vec::new(),
            queue: BinaryHeap::new(),
            arrivals: BTreeMap::new(),
            count: 0,
            by_port,
        }
    }

    /// Starts a host's manager, with no memory of an earlier one but its routes in the kernel.
    pub fn start(&mut self, host: usize) {
        let it = &mut self.hosts[host];
        it.starts += 1;
        let boot = Boot(self.now_ns + 1000 * it.starts + host as u64);
        it.manager = Some(Manager::new(Config { boot, ..it.config.clone() }, self.now_ns));
        it.routes.clear();
        for port in 0..it.config.ports {
            let carrier = self.by_port.get(&(host, port)).is_some_and(|&(cable, _)| self.cables[cable].carrier);
            self.input(host, |manager, now_ns| manager.carrier(now_ns, Port(port), carrier.then_some(1500)));
        }
    }

    pub fn start_all(&mut self) {
        (0..self.hosts.len()).for_each(|host| self.start(host));
    }

    /// Starts all managers as in a fabric at rest, with the boots of the configs.
    pub fn start_at_rest(&mut self) {
        let configs: Vec<Config> = self.hosts.iter().map(|host| host.config.clone()).collect();
        let links: Vec<[(HostId, Port); 2]> =
            self.cables.iter().map(|cable| cable.ends.map(|(host, port)| (configs[host].host, Port(port)))).collect();
        let fabric = KnownFabric::new(&configs, &links, 1500);
        for (host, config) in configs.into_iter().enumerate() {
            self.hosts[host].manager = Some(Manager::at_rest(config, self.now_ns, &fabric));
            self.input(host, |manager, now_ns| manager.tick(now_ns));
        }
    }

    /// Ends a host's manager without a word.
    pub fn kill(&mut self, host: usize) {
        self.hosts[host].manager = None;
    }

    pub fn manager(&self, host: usize) -> &Manager {
        self.hosts[host].manager.as_ref().expect("a live host")
    }

    pub fn set_carrier(&mut self, cable: usize, carrier: bool) {
        self.cables[cable].carrier = carrier;
        for (host, port) in self.cables[cable].ends {
            self.input(host, |manager, now_ns| manager.carrier(now_ns, Port(port), carrier.then_some(1500)));
        }
    }

    /// Gives a live manager an input, and carries out its effects.
    pub fn input<T>(&mut self, host: usize, input: impl FnOnce(&mut Manager, u64) -> T) -> Option<T> {
        let now_ns = self.now_ns;
        let it = &mut self.hosts[host];
        let manager = it.manager.as_mut()?;
        let result = input(manager, now_ns);
        let effects = manager.take_effects();
        let due_ns = manager.due_ns();
        assert!(due_ns > now_ns, "host {host} is due in the past: {due_ns} at {now_ns}");
        if due_ns < it.due_ns || it.due_ns <= now_ns {
            it.due_ns = due_ns;
            self.queue(due_ns, Arrival::Tick { host });
        }
        for effect in effects {
            let it = &mut self.hosts[host];
            match effect {
                Effect::Send { port, frame } => self.send(host, port.0, &frame),
                Effect::Install(route) => _ = it.routes.insert(route.to, route),
                Effect::Withdraw { to, .. } => {
                    assert!(it.routes.remove(&to).is_some(), "host {host} withdraws a route that it has not installed")
                }
                Effect::WithdrawLease { lease, cause } => it.withdrawn.push((lease, cause)),
                Effect::Event(event) => it.events.push(event),
            }
        }
        Some(result)
    }

    fn queue(&mut self, at_ns: u64, arrival: Arrival) {
        self.count += 1;
        self.arrivals.insert(self.count, arrival);
        self.queue.push(Reverse((at_ns, self.count as u64, self.count)));
    }

    fn send(&mut self, host: usize, port: u16, frame: &[u8]) {
        self.frames += 1;
        self.bytes += frame.len() as u64;
        let Some(&(number, side)) = self.by_port.get(&(host, port)) else { return };
        if self.record && self.recorded.len() < 200 && self.source.permille(20) {
            self.recorded.push(frame.to_vec());
        }
        if let Some(crossings) = &mut self.crossings {
            if let Body::Announcements(all) = Frame::decode(frame).expect("a frame that a manager made").body {
                all.iter().for_each(|each| *crossings.entry((number, each.edition)).or_default() += 1);
            }
        }
        let cable = self.cables[number].clone();
        if !cable.carrier || !cable.passes[side] || self.source.permille(cable.loss_permille) {
            return;
        }
        let (to, to_port) = cable.ends[1 - side];
        let copies = 1 + u64::from(self.source.permille(cable.repeat_permille));
        for copy in 0..copies {
            let mut bytes = frame.to_vec();
            if self.source.permille(cable.damage_permille) {
                let at = self.source.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << self.source.below(8);
                if self.source.permille(200) {
                    bytes.truncate(at);
                }
            }
            // A repeated frame may come much later, behind newer ones.
            let late = copy * self.source.below(50 * MS);
            self.queue(self.now_ns + cable.delay_ns + late, Arrival::Frame { host: to, port: to_port, bytes });
        }
    }

    pub fn run(&mut self, for_ns: u64) {
        let end_ns = self.now_ns + for_ns;
        while let Some(&Reverse((at_ns, _, key))) = self.queue.peek().filter(|next| next.0.0 <= end_ns) {
            self.queue.pop();
            self.now_ns = at_ns;
            match self.arrivals.remove(&key).expect("queued") {
                Arrival::Frame { host, port, bytes } => {
                    _ = self.input(host, |manager, now_ns| manager.frame(now_ns, Port(port), &bytes));
                }
                Arrival::Tick { host } => {
                    if self.hosts[host].due_ns == at_ns {
                        self.hosts[host].due_ns = u64::MAX;
                        _ = self.input(host, |manager, now_ns| manager.tick(now_ns));
                    }
                }
            }
        }
        self.now_ns = end_ns;
    }

    /// Runs until `is_so`; returns the time it took. None: it is not so within the time.
    pub fn run_until(&mut self, within_ns: u64, is_so: impl Fn(&Net) -> bool) -> Option<u64> {
        let begin_ns = self.now_ns;
        while !is_so(self) {
            if self.now_ns - begin_ns >= within_ns {
                return None;
            }
            self.run(5 * MS);
        }
        Some(self.now_ns - begin_ns)
    }

    /// The host at the other end of a port's cable.
    pub fn other_end(&self, host: usize, port: u16) -> Option<usize> {
        let (cable, side) = self.by_port.get(&(host, port))?;
        Some(self.cables[*cable].ends[1 - side].0)
    }

    /// The ports and the last events of a host.
    pub fn describe(&self, host: usize) -> String {
        let Some(manager) = &self.hosts[host].manager else { return format!("host {host} is dead") };
        let ports: Vec<String> =
            manager.ports().map(|port| format!("{:?} with {:?}", port.state(), port.neighbour())).collect();
        let events: Vec<String> = self.hosts[host].events.iter().rev().take(8).map(|event| event.to_string()).collect();
        format!("host {host} ({}): {ports:#?}, last events {events:#?}", manager.config().boot)
    }

    fn is_whole(&self, cable: &Cable) -> bool {
        let [(a, _), (b, _)] = cable.ends;
        let lives = |host: usize| self.hosts[host].manager.is_some();
        cable.carrier && cable.passes == [true; 2] && a != b && lives(a) && lives(b)
    }

    /// The live hosts that a host reaches over whole cables.
    pub fn part(&self, host: usize) -> BTreeSet<usize> {
        let (mut part, mut open) = (BTreeSet::from([host]), vec![host]);
        while let Some(at) = open.pop() {
            for cable in self.cables.iter().filter(|cable| self.is_whole(cable)) {
                let [(a, _), (b, _)] = cable.ends;
                for (here, there) in [(a, b), (b, a)] {
                    if here == at && part.insert(there) {
                        open.push(there);
                    }
                }
            }
        }
        part
    }

    /// Why a host's map, table or routes are not the true ones of its part. None: they are.
    pub fn untrue(&self, host: usize) -> Option<String> {
        let Some(manager) = &self.hosts[host].manager else { return None };
        let part = self.part(host);
        let (map, _) = manager.map();
        let hosts: Vec<HostId> = map.hosts().iter().map(|each| each.host).collect();
        let mut expected: Vec<HostId> = part.iter().map(|&each| self.hosts[each].config.host).collect();
        expected.sort_unstable();
        if hosts != expected {
            return Some(format!("host {host} has {hosts:?}, not {expected:?}"));
        }
        let links: BTreeSet<[(HostId, Port); 2]> = map.links().iter().map(|link| link.ends).collect();
        let true_link = |cable: &&Cable| self.is_whole(cable) && part.contains(&cable.ends[0].0);
        let named = |cable: &Cable| {
            let mut ends = cable.ends.map(|(host, port)| (self.hosts[host].config.host, Port(port)));
            ends.sort_unstable();
            ends
        };
        let expected: BTreeSet<[(HostId, Port); 2]> = self.cables.iter().filter(true_link).map(named).collect();
        if links != expected {
            let more: Vec<_> = links.difference(&expected).collect();
            let less: Vec<_> = expected.difference(&links).collect();
            return Some(format!("host {host} has the links {more:?} too many, and lacks {less:?}"));
        }
        let installed = &self.hosts[host].routes;
        if installed.len() + 1 != hosts.len() || manager.routes().any(|route| installed.get(&route.to) != Some(route)) {
            return Some(format!("host {host} has installed other routes than its own"));
        }
        None
    }

    pub fn is_true(&self) -> bool {
        (0..self.hosts.len()).all(|host| self.untrue(host).is_none())
    }

    /// Checks that every host has the true map of its part, and that no choice of hops loops.
    #[track_caller]
    pub fn check(&self, context: &str) {
        for host in 0..self.hosts.len() {
            if let Some(why) = self.untrue(host) {
                let all: Vec<String> = (0..self.hosts.len()).map(|host| self.describe(host)).collect();
                panic!("{context}: {why}\n{}", all.join("\n"));
            }
        }
        self.check_routes(context);
    }

    /// Every choice of hops leads one link nearer to the destination.
    #[track_caller]
    pub fn check_routes(&self, context: &str) {
        let number: BTreeMap<HostId, usize> = self
            .hosts
            .iter()
            .enumerate()
            .filter(|each| each.1.manager.is_some())
            .map(|(at, host)| (host.config.host, at))
            .collect();
        for (from, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.manager.is_some()) {
            for (to, route) in &host.routes {
                assert!(!route.hops.is_empty(), "{context}: host {from} has a route without hops to {to}");
                for hop in &route.hops {
                    let (cable, side) = self.by_port[&(from, hop.port.0)];
                    let (next, _) = self.cables[cable].ends[1 - side];
                    assert_eq!(self.hosts[next].config.host, hop.neighbour, "{context}: {from} to {to}");
                    let rest = match next == number[to] {
                        true => 0,
                        false => self.hosts[next].routes.get(to).map_or(u64::MAX, |route| route.cost),
                    };
                    assert!(rest < route.cost, "{context}: from host {from} to {to} over {next}: not nearer");
                }
            }
        }
    }

    pub fn had_event(&self, host: usize, is_it: impl Fn(&Event) -> bool) -> bool {
        self.hosts[host].events.iter().any(is_it)
    }
}

/// The pairs of a ring.
pub fn ring(hosts: usize) -> Vec<(usize, usize)> {
    (0..hosts).map(|host| (host, (host + 1) % hosts)).collect()
}

/// The pairs of a torus of two dimensions, each at least 3.
pub fn torus(width: usize, height: usize) -> Vec<(usize, usize)> {
    let at = |x: usize, y: usize| y % height * width + x % width;
    let places = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    places.flat_map(|(x, y)| [(at(x, y), at(x + 1, y)), (at(x, y), at(x, y + 1))]).collect()
}

/// A random tree with further cables; some pairs have two.
pub fn random(hosts: usize, more: usize, source: &mut Source) -> Vec<(usize, usize)> {
    let mut pairs: Vec<(usize, usize)> = (1..hosts).map(|host| (host, source.below(host as u64) as usize)).collect();
    for _ in 0..more {
        let (a, b) = (source.below(hosts as u64) as usize, source.below(hosts as u64) as usize);
        if a != b {
            pairs.push((a, b));
        }
    }
    let mut used = vec![0; hosts];
    pairs.retain(|&(a, b)| {
        let has_room = used[a] < 40 && used[b] < 40;
        used[a] += usize::from(has_room);
        used[b] += usize::from(has_room);
        has_room
    });
    pairs
}
