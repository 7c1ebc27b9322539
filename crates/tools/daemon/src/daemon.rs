// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's loop: it gives the manager its inputs, and carries the effects out.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use selvedge_fabric::Port;
use selvedge_fabric_manager::{Config, Effect, Event, Frame, HostId, Manager, PORTS_MAX, Route};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::control::{Control, Line};
use crate::interfaces::{self, Interface, Ports};
use crate::kernel::{self, Hop, Kernel};
use crate::loads::{Meter, speed_bits_s};
use crate::netlink::{Events, Requests};
use crate::protocol::{Act, Answer, LogLine, Request, Status};
use crate::seal::{KeyError, Opened, Seal, read_key};
use crate::sockets::Sockets;
use crate::{identity, views};

const SECOND_NS: u64 = 1_000_000_000;
/// Time that routes of a killed daemon have to be replaced.
const STALE_NS: u64 = 2 * SECOND_NS;
/// Time for which a route stays after its host has become unreachable, while its cable has a carrier. The kernels
/// forward without their daemons, so messages get through to or over a host whose daemon restarts.
const LINGER_NS: u64 = 3 * SECOND_NS / 2;
/// The daemon's nice value.
const PRIORITY: i32 = -15;
const LOG_LINES_MAX: usize = 1000;
/// Failed sends of a port in a row, after which the log names the reason: more than a new interface needs to get its
/// address.
const SENDS_FAILED: u32 = 50;

/// The daemon's settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Names of interfaces, which may end in `*`. None: all but the loopback interface.
    pub interfaces: Vec<String>,
    /// None: one that the host's number gives.
    pub address: Option<Ipv4Addr>,
    pub key: Option<PathBuf>,
    pub set_sysctls: bool,
    pub socket: PathBuf,
    /// `/sys`, but for tests.
    pub sysfs: PathBuf,
}

/// Reasons for which the daemon does not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    #[error(transparent)]
    Key(#[from] KeyError),
    #[error("--socket {}: {error}", .path.display())]
    Socket { path: PathBuf, error: io::Error },
    #[error("--address {0}: give a unicast address that other hosts can use, such as 10.1.0.1")]
    Address(Ipv4Addr),
    #[error("{what}: {error}")]
    Kernel { what: &'static str, error: io::Error },
}

fn kernel_error(what: &'static str) -> impl Fn(io::Error) -> DaemonError {
    move |error| DaemonError::Kernel { what, error }
}

/// Runs the daemon until a signal ends it. `ready` is called once its socket takes requests.
pub fn run(settings: Settings, ready: impl FnOnce()) -> Result<(), DaemonError> {
    let (signals, sender) = UnixStream::pair().map_err(kernel_error("pipe for signals"))?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        let sender = sender.try_clone().map_err(kernel_error("pipe for signals"))?;
        signal_hook::low_level::pipe::register(signal, sender).map_err(kernel_error("handler of signals"))?;
    }
    // A program that takes all processors must not make this host seem silent. Only root may; others go without.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let mut daemon = Daemon::start(settings)?;
    ready();
    daemon.serve(signals.as_fd())?;
    daemon.end();
    Ok(())
}

struct Daemon {
    settings: Settings,
    origin: Instant,
    manager: Manager,
    ports: Ports,
    sockets: Sockets,
    seal: Seal,
    events: Events,
    requests: Requests,
    /// None: the daemon only observes.
    kernel: Option<Kernel>,
    control: Control,
    /// The neighbours' link-local addresses, by port.
    neighbours: BTreeMap<u16, Ipv6Addr>,
    /// Routes that the manager wants.
    routes: BTreeMap<HostId, Route>,
    /// Routes that the manager has withdrawn, with the time of their end.
    lingering: BTreeMap<Ipv4Addr, (u64, Vec<Port>)>,
    meter: Meter,
    log: VecDeque<LogLine>,
    replays: BTreeMap<u16, u64>,
    sends_failed: BTreeMap<u16, u32>,
    stale_until_ns: Option<u64>,
    noted_sysctls: BTreeSet<String>,
}

impl Daemon {
    fn start(settings: Settings) -> Result<Daemon, DaemonError> {
        let key = settings.key.as_deref().map(read_key).transpose()?;
        if let Some(address) = settings.address.filter(|&address| !is_usable(address)) {
            return Err(DaemonError::Address(address));
        }
        let socket = |error| DaemonError::Socket { path: settings.socket.clone(), error };
        let control = Control::listen(&settings.socket).map_err(socket)?;
        let events = Events::open().map_err(kernel_error("netlink"))?;
        let mut requests = Requests::open().map_err(kernel_error("netlink"))?;
        let name = identity::host_name();
        let host = identity::host_id(&identity::machine_id(), &name);
        let found = kernel::addresses(&mut requests).map_err(kernel_error("addresses of this host"))?;
        let others: Vec<(Ipv4Addr, u8)> =
            found.networks.into_iter().filter(|(address, _)| !found.labelled.contains(address)).collect();
        let address = settings.address.unwrap_or_else(|| identity::address(host, &others));
        let keeps_routes = kernel::may_change_routes();
        let kernel = match keeps_routes {
            true => Some(Kernel::start(address).map_err(kernel_error("address, rule and table of the routes"))?),
            false => None,
        };
        let wall_ns = identity::wall_ns();
        // A host that only observes announces no address, so no route leads to it.
        let config = Config {
            host,
            boot: identity::boot(wall_ns),
            name: name.clone(),
            address: keeps_routes.then_some(IpAddr::V4(address)),
            position: None,
            ports: PORTS_MAX,
            strategy: Default::default(),
            limits: Default::default(),
            timing: Default::default(),
        };
        let mut daemon = Daemon {
            ports: Ports::new(settings.interfaces.clone()),
            settings,
            origin: Instant::now(),
            manager: Manager::new(config, 0),
            sockets: Sockets::default(),
            seal: Seal::new(key, wall_ns),
            events,
            requests,
            kernel,
            control,
            neighbours: BTreeMap::new(),
            routes: BTreeMap::new(),
            lingering: BTreeMap::new(),
            meter: Meter::default(),
            log: VecDeque::new(),
            replays: BTreeMap::new(),
            sends_failed: BTreeMap::new(),
            stale_until_ns: Some(STALE_NS),
            noted_sysctls: BTreeSet::new(),
        };
        let number = views::hex(host);
        match keeps_routes {
            true => daemon.note(false, format!("{name}: host {number}, {address}")),
            false => {
                let remedy = "start it as root, or with CAP_NET_ADMIN";
                daemon.note(
                    true,
                    format!("{name}: host {number}; observes only, for it may not change routes: {remedy}"),
                );
                // Others pass it by where they can.
                (0..PORTS_MAX).for_each(|port| daemon.manager.drain(0, Port(port), true));
            }
        }
        daemon.refresh()?;
        Ok(daemon)
    }

    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    fn serve(&mut self, signals: BorrowedFd<'_>) -> Result<(), DaemonError> {
        let mut second_ns = self.now_ns();
        loop {
            if self.manager.due_ns() <= self.now_ns() {
                self.manager.tick(self.now_ns());
            }
            self.carry_out();
            self.withdraw_lingering();
            if second_ns <= self.now_ns() {
                second_ns = self.now_ns() + SECOND_NS;
                self.each_second();
            }
            let linger_ns = self.lingering.values().map(|entry| entry.0).min().unwrap_or(u64::MAX);
            let due_ns = self.manager.due_ns().min(second_ns).min(linger_ns).saturating_sub(self.now_ns());
            let ready = self.wait(signals, due_ns)?;
            if ready.has_signal {
                return Ok(());
            }
            if ready.has_events && self.events.drain() {
                self.refresh()?;
            }
            for port in ready.ports {
                self.receive(port);
            }
            if ready.has_client {
                self.control.accept();
            }
            for id in ready.clients {
                self.control.write(id);
                for line in self.control.read(id) {
                    self.answer(&line);
                }
            }
        }
    }

    fn wait(&self, signals: BorrowedFd<'_>, due_ns: u64) -> Result<Ready, DaemonError> {
        let mut polled = vec![
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
            PollFd::from_borrowed_fd(self.events.descriptor(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.control.listener(), PollFlags::IN),
        ];
        let mut ports = Vec::new();
        for (port, descriptor) in self.sockets.descriptors() {
            ports.push(port);
            polled.push(PollFd::from_borrowed_fd(descriptor, PollFlags::IN));
        }
        let mut clients = Vec::new();
        for (id, descriptor, writes) in self.control.descriptors() {
            clients.push(id);
            let wanted = if writes { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            polled.push(PollFd::from_borrowed_fd(descriptor, wanted));
        }
        let timeout = Timespec { tv_sec: (due_ns / SECOND_NS) as i64, tv_nsec: (due_ns % SECOND_NS) as i64 };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Ready::default()),
            Err(error) => return Err(kernel_error("poll")(error.into())),
        }
        let is_ready = |at: usize| !polled[at].revents().is_empty();
        let (first_port, first_client) = (3, 3 + ports.len());
        Ok(Ready {
            has_signal: is_ready(0),
            has_events: is_ready(1),
            has_client: is_ready(2),
            ports: (first_port..).zip(ports).filter(|&(at, _)| is_ready(at)).map(|(_, port)| port).collect(),
            clients: (first_client..).zip(clients).filter(|&(at, _)| is_ready(at)).map(|(_, id)| id).collect(),
        })
    }

    /// Reads the interfaces anew.
    fn refresh(&mut self) -> Result<(), DaemonError> {
        let found = interfaces::read(&mut self.requests).map_err(kernel_error("interfaces of this host"))?;
        let known = self.ports.iter().count();
        let changes = self.ports.update(found);
        let new: Vec<String> =
            self.ports.iter().skip(known).map(|(port, of)| format!("{} is port {port}", of.name)).collect();
        let has_new = !new.is_empty();
        new.into_iter().for_each(|text| self.note(false, text));
        if has_new {
            self.check_sysctls();
        }
        for name in self.ports.take_left_out() {
            self.note(
                true,
                format!("{name} is left out: a host has at most {PORTS_MAX} ports; name them by --interface"),
            );
        }
        self.open_sockets();
        for change in changes {
            let now_ns = self.now_ns();
            self.manager.carrier(now_ns, Port(change.port), change.mtu);
            self.carry_out();
        }
        Ok(())
    }

    fn open_sockets(&mut self) {
        let wanted: Vec<(u16, Option<u32>)> = self
            .ports
            .iter()
            .map(|(port, of)| (port, of.interface.as_ref().map(|interface| interface.index)))
            .collect();
        for (port, index) in wanted {
            match index.map(|index| self.sockets.open(port, index)) {
                None => self.sockets.close(port),
                Some(Ok(())) => {}
                Some(Err(error)) => self.failed(port, &error),
            }
        }
    }

    /// Takes frames that have arrived at a port.
    fn receive(&mut self, port: u16) {
        for (datagram, from) in self.sockets.receive(port) {
            let now_ns = self.now_ns();
            match self.seal.open(port, &datagram) {
                Opened::Frame(frame) => {
                    self.manager.frame(now_ns, Port(port), frame);
                    self.note_neighbour(port, frame, from);
                }
                Opened::Closed => self.manager.sealed_frame(now_ns, Port(port)),
                Opened::Replay => *self.replays.entry(port).or_default() += 1,
            }
            self.carry_out();
        }
    }

    /// Keeps the address of the neighbour that the manager hears at a port. Routes over it follow a change.
    fn note_neighbour(&mut self, port: u16, frame: &[u8], from: Ipv6Addr) {
        let heard = self.manager.ports().nth(port.into()).and_then(|line| line.neighbour());
        let is_neighbours =
            heard.is_some_and(|end| Frame::decode(frame).is_ok_and(|frame| frame.sender.host == end.host));
        if !is_neighbours || self.neighbours.insert(port, from) == Some(from) {
            return;
        }
        let over = |route: &&Route| route.hops.iter().any(|hop| hop.port.0 == port);
        let routes: Vec<Route> = self.routes.values().filter(over).cloned().collect();
        routes.iter().for_each(|route| self.install(route));
    }

    /// Carries the manager's effects out.
    fn carry_out(&mut self) {
        let mut fallen = Vec::new();
        for effect in self.manager.take_effects() {
            match effect {
                Effect::Send { port, frame } => {
                    let datagram = self.seal.seal(&frame);
                    match self.sockets.send(port.0, &datagram) {
                        Ok(()) => _ = self.sends_failed.remove(&port.0),
                        Err(error) => self.failed(port.0, &error),
                    }
                }
                Effect::Install(route) => {
                    self.install(&route);
                    self.routes.insert(route.to, route);
                }
                Effect::Withdraw { to, address } => {
                    let route = self.routes.remove(&to);
                    if let (Some(route), Some(IpAddr::V4(address))) = (route, address) {
                        let until_ns = self.now_ns() + LINGER_NS;
                        self.lingering.insert(address, (until_ns, route.hops.iter().map(|hop| hop.port).collect()));
                    }
                }
                Effect::Event(event) => {
                    if let Event::LinkDown { port, .. } = event {
                        fallen.push(port);
                    }
                    let text = self.with_interface(event.to_string());
                    self.note(event.is_warning(), text);
                }
                // There are no clients with leases.
                Effect::WithdrawLease { .. } => {}
            }
        }
        // The routes lead elsewhere now, so no new packet waits.
        for port in fallen {
            let (Some(kernel), Some(hop)) = (&mut self.kernel, hop(&self.ports, &self.neighbours, port)) else {
                continue;
            };
            if let Err(error) = kernel.forget_neighbour(hop) {
                self.note(true, format!("packets wait for a neighbour at port {}: {error}", port.0));
            }
        }
    }

    fn install(&mut self, route: &Route) {
        let (Some(kernel), Some(IpAddr::V4(address))) = (&mut self.kernel, route.address) else { return };
        self.lingering.remove(&address);
        let hop = route.hops.iter().find_map(|first| hop(&self.ports, &self.neighbours, first.port));
        let done = match hop {
            Some(hop) => kernel.install(address, hop, route.mtu),
            None => Err(io::Error::other("the address of the neighbour is not known")),
        };
        if let Err(error) = done {
            self.note(true, format!("route to {address}: {error}"));
        }
    }

    /// Removes the withdrawn routes whose time is over, or whose cable has lost its carrier.
    fn withdraw_lingering(&mut self) {
        let now_ns = self.now_ns();
        let has_carrier = |port: &Port| {
            self.ports.get(port.0).and_then(|of| of.interface.as_ref()).is_some_and(|interface| interface.has_carrier)
        };
        let is_over = |(until_ns, ports): &(u64, Vec<Port>)| *until_ns <= now_ns || !ports.iter().any(has_carrier);
        let over: Vec<Ipv4Addr> =
            self.lingering.iter().filter(|(_, entry)| is_over(entry)).map(|(&address, _)| address).collect();
        for address in over {
            self.lingering.remove(&address);
            if let Some(Err(error)) = self.kernel.as_mut().map(|kernel| kernel.withdraw(address)) {
                self.note(true, format!("route to {address} is not removed: {error}"));
            }
        }
    }

    fn each_second(&mut self) {
        let now_ns = self.now_ns();
        self.open_sockets();
        let counted = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
        self.ports.count(&interfaces::counters(&counted));
        let sysfs = self.settings.sysfs.clone();
        let live: Vec<(u16, Interface)> =
            self.ports.iter().filter_map(|(port, of)| Some((port, of.interface.clone()?))).collect();
        let loads =
            self.meter.measure(now_ns, live.iter().map(|(port, of)| (*port, of)), |name| speed_bits_s(&sysfs, name));
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let host = self.meter.host(&stat, &sysfs);
        self.manager.loads(now_ns, host, &loads);
        if self.stale_until_ns.is_some_and(|until_ns| until_ns <= now_ns) {
            self.stale_until_ns = None;
            match self.kernel.as_mut().map(Kernel::drop_stale) {
                Some(Ok(count)) if count > 0 => {
                    self.note(
                        false,
                        format!("{count} routes of an earlier daemon are removed: their hosts are not in the fabric"),
                    );
                }
                Some(Err(error)) => self.note(true, format!("routes of an earlier daemon are not removed: {error}")),
                _ => {}
            }
        }
        self.carry_out();
    }

    fn check_sysctls(&mut self) {
        if self.kernel.is_none() {
            return;
        }
        let root = Path::new("/proc/sys");
        let names: Vec<&str> = self.ports.iter().map(|(_, port)| port.name.as_str()).collect();
        for wrong in kernel::wrong_sysctls(root, &names) {
            if !self.noted_sysctls.insert(wrong.path.clone()) {
                continue;
            }
            let (name, wanted) = (wrong.name(), wrong.wanted);
            let problem = format!("{name} is {}: {}", wrong.is, wrong.why);
            match self.settings.set_sysctls.then(|| kernel::set_sysctl(root, &wrong)) {
                None => self.note(true, format!("{problem}: sysctl -w {name}={wanted}, or start with --set-sysctls")),
                Some(Ok(())) => self.note(false, format!("{name} was {} and is set to {wanted}", wrong.is)),
                Some(Err(error)) => self.note(true, format!("{problem}; it cannot be set: {error}")),
            }
        }
    }

    fn answer(&mut self, line: &Line) {
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
                    self.control.follow_log(line.client);
                }
                Answer::Log(self.log.iter().cloned().collect())
            }
            Request::Link { .. } if !line.is_operator => {
                Answer::Refused("only root and the daemon's own user may change links".into())
            }
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
                self.manager.drain(now_ns, at, self.kernel.is_none());
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
        self.note(false, text.clone());
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
            keeps_routes: self.kernel.is_some(),
            is_sealed: self.settings.key.is_some(),
            uptime_s: self.origin.elapsed().as_secs_f64(),
            digest: views::digest(map),
            is_settled: self.manager.is_settled(),
            hosts: map.hosts().len(),
            links: map.links().len(),
            routes: self.routes.len(),
            ports: views::ports(&self.manager, &self.ports, &self.replays),
        }
    }

    /// Tells the neighbours, and removes all that the daemon has added.
    fn end(&mut self) {
        let now_ns = self.now_ns();
        self.manager.stop(now_ns);
        self.carry_out();
        if let Some(Err(error)) = self.kernel.as_mut().map(Kernel::end) {
            self.note(true, format!("routes, rule or address are not removed: {error}"));
        }
        self.note(false, "ended".into());
    }

    /// Counts a socket that fails, and names the reason once it lasts.
    fn failed(&mut self, port: u16, error: &io::Error) {
        let failed = self.sends_failed.entry(port).or_default();
        *failed = failed.saturating_add(1);
        if *failed == SENDS_FAILED {
            let name = self.ports.get(port).map_or("", |port| &port.name);
            let remedy = format!("check net/ipv6/conf/{name}/disable_ipv6, and that {name} has a link-local address");
            self.note(true, format!("{name} (port {port}): frames cannot be sent: {error}; {remedy}"));
        }
    }

    /// Names the interface of an event that begins with a port.
    fn with_interface(&self, text: String) -> String {
        let found = text.strip_prefix("port ").and_then(|rest| rest.split_once(':'));
        let named = found.and_then(|(port, rest)| Some((self.ports.get(port.parse().ok()?)?, port, rest)));
        named.map_or_else(|| text.clone(), |(of, port, rest)| format!("{} (port {port}):{rest}", of.name))
    }

    fn note(&mut self, is_warning: bool, text: String) {
        match is_warning {
            true => log::warn!("{text}"),
            false => log::info!("{text}"),
        }
        let line = LogLine { at_s: identity::wall_ns() as f64 / 1e9, is_warning, text };
        self.control.log(&line);
        if self.log.len() == LOG_LINES_MAX {
            self.log.pop_front();
        }
        self.log.push_back(line);
    }
}

/// The next hop at a port, if its interface and the neighbour's address are known.
fn hop(ports: &Ports, neighbours: &BTreeMap<u16, Ipv6Addr>, port: Port) -> Option<Hop> {
    let interface = ports.get(port.0)?.interface.as_ref()?.index;
    Some(Hop { interface, via: *neighbours.get(&port.0)? })
}

/// The result of a poll.
#[derive(Default)]
struct Ready {
    has_signal: bool,
    has_events: bool,
    has_client: bool,
    ports: Vec<u16>,
    clients: Vec<u64>,
}

fn is_usable(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_link_local())
}
