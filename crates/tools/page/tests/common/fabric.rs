// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A daemon of a made-up fabric, for tests of the page: a torus whose hosts are named `host0`, `host1`, …, behind a UNIX
//! socket that speaks the daemon's protocol.
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use selvedge_daemon::protocol::*;

/// The fabric and all that was asked of it.
pub struct Fabric {
    pub topology: Topology,
    pub log: Vec<LogLine>,
    pub acts: Vec<String>,
    /// Requests by name.
    pub asked: BTreeMap<&'static str, u64>,
    began: Instant,
}

pub type Shared = Arc<(Mutex<Fabric>, Condvar)>;

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64()
}

impl Fabric {
    /// A torus of columns and rows; below three of them it is a ring or a line.
    pub fn torus(columns: usize, rows: usize) -> Fabric {
        let count = columns * rows;
        let id = |at: usize| format!("{:x}", 0x5e1_0000 + at);
        let host = |at: usize| Host {
            name: format!("host{at}"),
            host: id(at),
            address: Some(std::net::Ipv4Addr::from(0x0a63_0000 + at as u32).into()),
            is_self: at == 0,
            hops: (at > 0).then_some(1),
            via: (at > 0).then(|| format!("host{at}")),
            mtu: (at > 0).then_some(1500),
            processor_percent: Some((at * 7 % 100) as f64),
            temperature_c: (at % 3 == 0).then_some(41.0),
        };
        let mut pairs = Vec::new();
        for at in 0..count {
            let (row, column) = (at / columns, at % columns);
            if columns > 2 || column + 1 < columns {
                pairs.push((at, row * columns + (column + 1) % columns));
            }
            if rows > 2 || row + 1 < rows {
                pairs.push((at, (row + 1) % rows * columns + column));
            }
        }
        let mut next = vec![0u16; count];
        let mut end = |at: usize| {
            next[at] += 1;
            LinkEnd {
                name: format!("host{at}"),
                host: id(at),
                port: next[at] - 1,
                interface: (at == 0).then(|| format!("cable{}", next[at])),
                sent_bytes_s: None,
                load_percent: None,
                errors: None,
                round_trip_us: None,
                queue_bytes: None,
            }
        };
        let links =
            pairs.into_iter().map(|(a, b)| Link { ends: [end(a), end(b)], mtu: 1500, is_drained: false }).collect();
        let mut fabric = Fabric {
            topology: Topology { digest: String::new(), hosts: (0..count).map(host).collect(), links },
            log: Vec::new(),
            acts: Vec::new(),
            asked: BTreeMap::new(),
            began: Instant::now(),
        };
        fabric.renew();
        fabric.note(false, "host0: host 5e10000, 10.99.0.0");
        fabric.note(true, "cable1 (port 0): <b>bold</b> & \"quoted\" text of a neighbour");
        fabric
    }

    /// Gives the map another number.
    fn renew(&mut self) {
        let drained = self.topology.links.iter().filter(|link| link.is_drained).count();
        self.topology.digest = format!("{:016x}", self.topology.links.len() * 1000 + drained);
    }

    pub fn note(&mut self, is_warning: bool, text: &str) {
        self.log.push(LogLine { at_s: now_s(), is_warning, text: text.into() });
    }

    /// The topology with loads: each link has its own, and some change with the time.
    fn loaded(&self) -> Topology {
        let mut topology = self.topology.clone();
        let time = self.began.elapsed().as_secs_f64();
        for (at, link) in topology.links.iter_mut().enumerate() {
            for (of, end) in link.ends.iter_mut().enumerate() {
                let wave = 0.5 + 0.5 * (time / 7.0 + at as f64 * 0.37 + of as f64).sin();
                let percent = if at == 0 { 97.0 } else { 80.0 * wave * wave * wave };
                end.load_percent = Some((percent * 10.0).round() / 10.0);
                end.sent_bytes_s = Some((percent * 1.25e6) as u64);
                end.errors = Some(u16::from(at % 50 == 7));
                end.round_trip_us = Some(40.0 + percent);
                end.queue_bytes = Some((percent * 100.0) as u64);
            }
        }
        topology
    }

    fn route(&self, from: &str, to: &str) -> Option<RouteView> {
        let hosts = &self.topology.hosts;
        let index = |text: &str| hosts.iter().position(|host| host.name == text || host.host == text);
        let (from, to) = (index(from)?, index(to)?);
        let mut before = vec![None; hosts.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for (number, link) in self.topology.links.iter().enumerate() {
                let ends = [0, 1].map(|of| index(&link.ends[of].host).unwrap());
                for (near, far) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                    if near == at && far != from && before[far].is_none() {
                        before[far] = Some((at, number));
                        queue.push_back(far);
                    }
                }
            }
        }
        let (mut way, mut links, mut at) = (vec![to], Vec::new(), to);
        while at != from {
            let (near, number) = before[at]?;
            let mut link = self.topology.links[number].clone();
            if link.ends[0].host != hosts[near].host {
                link.ends.reverse();
            }
            links.push(link);
            way.push(near);
            at = near;
        }
        links.reverse();
        let named = |at: &usize| HostName { name: hosts[*at].name.clone(), host: hosts[*at].host.clone() };
        let hosts: Vec<HostName> = way.iter().rev().map(named).collect();
        let (first, last) = (hosts[0].clone(), hosts[hosts.len() - 1].clone());
        Some(RouteView { from: first, to: last, hosts, links, mtu: 1500, kernel: None, source: None })
    }

    fn act(&mut self, port: &str, act: Act) -> Answer {
        let Ok(number) = port.trim_start_matches(':').parse::<u16>() else {
            return Answer::Refused(format!("{port} is no port"));
        };
        let own = self.topology.hosts[0].host.clone();
        let is_at = |link: &Link| link.ends.iter().any(|end| end.host == own && end.port == number);
        match act {
            Act::Down => self.topology.links.retain(|link| !is_at(link)),
            _ => {
                for link in self.topology.links.iter_mut().filter(|link| is_at(link)) {
                    link.is_drained = act == Act::Drain;
                }
            }
        }
        self.renew();
        Answer::Done(format!("port {number}: {} by an operator", act.name()))
    }

    fn reply(&mut self, request: Request) -> Answer {
        let (name, answer) = match request {
            Request::Topology => ("topology", Answer::Topology(self.loaded())),
            Request::Status => ("status", Answer::Status(self.status())),
            Request::Log { .. } => ("log", Answer::Log(self.log.clone())),
            Request::Link { port, act } => ("link", self.act(&port, act)),
            Request::Routes { from, to } => {
                let route = self.route(&from, &to);
                ("routes", route.map_or(Answer::Refused(format!("no way from {from} to {to}")), Answer::Route))
            }
            Request::Load => ("load", Answer::Load(self.series())),
            Request::Nics { links } => ("nics", Answer::Nics(self.nics(links))),
            Request::At { host, request } => match self.topology.hosts.iter().any(|one| one.host == host) {
                true => match *request {
                    Request::Log { .. } => {
                        ("at", Answer::Log(vec![LogLine { at_s: 1e9, is_warning: false, text: format!("of {host}") }]))
                    }
                    request => ("at", self.reply(request)),
                },
                false => ("at", Answer::Refused(format!("{host} is not in the fabric"))),
            },
            Request::By { user, request } => {
                let text = format!("{user} asks, on the page: {}", serde_json::to_string(&request).unwrap());
                self.note(false, &text);
                self.acts.push(text);
                ("by", self.reply(*request))
            }
            Request::Restart => ("restart", Answer::Done("the daemon executes itself anew".into())),
            _ => ("other", Answer::Refused("not made up".into())),
        };
        *self.asked.entry(name).or_default() += 1;
        answer
    }

    fn status(&self) -> Status {
        let port = |link: &Link| {
            let (own, other) = (&link.ends[0], &link.ends[1]);
            PortView {
                port: own.port,
                interface: format!("cable{}", own.port + 1),
                state: "up".into(),
                neighbour: Some(other.name.clone()),
                neighbour_port: Some(other.port),
                mtu: Some(1500),
                round_trip_us: Some(61.5),
                is_enabled: true,
                is_drained: link.is_drained,
                frames_sent: 100,
                frames_received: 90,
                frames_refused: 1,
                replays: 0,
                hellos_lost: 2,
                repeats: 3,
                drops: 0,
                sent_packets: 1000,
                sent_bytes: 1_000_000,
                received_packets: 900,
                received_bytes: 900_000,
                interface_errors: 0,
            }
        };
        let own = &self.topology.hosts[0];
        Status {
            name: own.name.clone(),
            host: own.host.clone(),
            address: own.address,
            keeps_routes: true,
            is_sealed: true,
            uptime_s: self.began.elapsed().as_secs_f64(),
            digest: self.topology.digest.clone(),
            is_settled: true,
            hosts: self.topology.hosts.len(),
            links: self.topology.links.len(),
            routes: self.topology.hosts.len() - 1,
            ports: self.topology.links.iter().filter(|link| link.ends[0].host == own.host).map(port).collect(),
        }
    }

    fn series(&self) -> Vec<LoadSeries> {
        let end = |end: &LinkEnd| LoadSeries {
            name: end.name.clone(),
            host: end.host.clone(),
            port: Some(end.port),
            end_s: now_s(),
            sent_bytes_s: (0..120)
                .map(|at| ((1.0 + (f64::from(at) / 9.0 + f64::from(end.port)).sin()) * 4e7) as u64)
                .collect(),
            load_percent: Vec::new(),
            processor_percent: Vec::new(),
        };
        self.topology.links.iter().take(100).flat_map(|link| link.ends.iter().map(end)).collect()
    }

    /// NICs of a job, each with a link to the next one. The links of the last one are not seen.
    fn nics(&self, of: LinksOf) -> Vec<NicView> {
        let count = self.topology.hosts.len().min(8) as u32;
        let counters = [("bytes_out", 5000), ("frames_out", 7), ("round_trip_ns", 12_000)];
        let counters = || counters.map(|(name, value)| (name.to_owned(), value)).into();
        let links = |rank: u32| LinksView {
            address: format!("address{rank}"),
            totals: vec![WayTotal {
                way: "network".into(),
                links: 1,
                states: [("open".to_owned(), 1)].into(),
                operations: 3,
                counters: counters(),
            }],
            links: vec![LinkView {
                way: "network".into(),
                address: format!("address{}", rank + 1),
                state: "lost".into(),
                why: "<b>cut</b>".into(),
                counters: counters(),
                ..LinkView::default()
            }],
            left_out: 0,
            unseen: None,
        };
        let links = |rank: u32| match of {
            LinksOf::None => None,
            _ if rank + 1 == count => Some(LinksView::unseen("the daemon may not read them")),
            LinksOf::Totals => Some(LinksView { links: Vec::new(), ..links(rank) }),
            LinksOf::All => Some(links(rank)),
        };
        let nic = |rank: u32| NicView {
            id: u64::from(rank),
            job: Some("job-17".into()),
            rank: Some(rank),
            process: 4000 + rank,
            user: 1000,
            kind: "portals".into(),
            host: format!("host{rank}"),
            leases: Vec::new(),
            links: links(rank),
        };
        (0..count).map(nic).collect()
    }
}

/// Serves a fabric behind a socket, on threads of its own.
pub fn serve(path: &Path, fabric: Fabric) -> (PathBuf, Shared) {
    let shared: Shared = Arc::new((Mutex::new(fabric), Condvar::new()));
    let listener = UnixListener::bind(path).unwrap();
    let of_clients = shared.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let shared = of_clients.clone();
            std::thread::spawn(move || answer(stream, &shared));
        }
    });
    (path.to_owned(), shared)
}

fn answer(stream: UnixStream, shared: &Shared) {
    let mut out = stream.try_clone().unwrap();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let Ok(request) = serde_json::from_str::<Request>(&line) else {
            let _ = writeln!(out, "{{\"refused\":\"no request\"}}");
            continue;
        };
        let follows = request == Request::Log { follow: true };
        let (mut known, text) = {
            let mut fabric = shared.0.lock().unwrap();
            let answer = fabric.reply(request);
            shared.1.notify_all();
            (fabric.log.len(), serde_json::to_string(&answer).unwrap())
        };
        if writeln!(out, "{text}").is_err() {
            return;
        }
        if !follows {
            continue;
        }
        loop {
            let waited = shared.1.wait_while(shared.0.lock().unwrap(), |fabric| fabric.log.len() <= known).unwrap();
            let text = serde_json::to_string(&Answer::Log(waited.log[known..].to_vec())).unwrap();
            known = waited.log.len();
            drop(waited);
            if writeln!(out, "{text}").is_err() {
                return;
            }
        }
    }
}
