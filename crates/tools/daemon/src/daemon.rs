// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon's loop: it gives the manager its inputs, and carries the effects out.
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use selvedge_fabric::Port;
use selvedge_fabric_manager::{Config, Effect, Event, Frame, Manager, PORTS_MAX};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::control::Control;
use crate::interfaces::{self, Interface, Ports};
use crate::journal::Journal;
use crate::kernel::{self, Kernel};
use crate::loads::{Meter, speed_bits_s};
use crate::netlink::{Events, Requests};
use crate::routing::Routing;
use crate::seal::{DATAGRAM_BYTES_MAX, Opened, Seal, read_key};
use crate::settings::{DaemonError, Settings, is_usable, kernel_error};
use crate::sockets::{self, Sockets};
use crate::{identity, views};
use cables::Cables;
use refusals::{Counts, Refusals};

mod answers;
mod cables;
mod refusals;

const SECOND_NS: u64 = 1_000_000_000;
/// The daemon's nice value.
const PRIORITY: i32 = -15;
/// Failed sends of a port in a row, after which the log names the reason: more than a new interface needs to get its
/// address.
const SENDS_FAILED: u32 = 50;

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
    cables: Cables,
    seal: Seal,
    events: Events,
    requests: Requests,
    routing: Routing,
    control: Control,
    meter: Meter,
    journal: Journal,
    /// Lines of the journal that its followers have.
    published: u64,
    replays: BTreeMap<u16, u64>,
    refusals: Refusals,
    sends_failed: BTreeMap<u16, u32>,
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
            sockets: Sockets::new(sockets::FRAMES, DATAGRAM_BYTES_MAX),
            cables: Cables::default(),
            seal: Seal::new(key, wall_ns),
            events,
            requests,
            routing: Routing::new(kernel),
            control,
            meter: Meter::default(),
            journal: Journal::default(),
            published: 0,
            replays: BTreeMap::new(),
            refusals: Refusals::default(),
            sends_failed: BTreeMap::new(),
            noted_sysctls: BTreeSet::new(),
        };
        let number = views::hex(host);
        match keeps_routes {
            true => daemon.journal.note(false, format!("{name}: host {number}, {address}")),
            false => {
                let remedy = "start it as root, or with CAP_NET_ADMIN";
                daemon.journal.note(
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
            self.routing.tick(self.now_ns(), &self.ports, &mut self.journal);
            self.advance_test();
            self.publish();
            if second_ns <= self.now_ns() {
                second_ns = self.now_ns() + SECOND_NS;
                self.each_second();
            }
            let due_ns = self.manager.due_ns().min(second_ns).min(self.routing.due_ns()).min(self.cables.due_ns());
            let due_ns = due_ns.saturating_sub(self.now_ns());
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
            for port in ready.tests {
                self.receive_test(port);
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
        let mut tests = Vec::new();
        for (port, descriptor) in self.cables.descriptors() {
            tests.push(port);
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
        let (first_port, first_test) = (3, 3 + ports.len());
        let first_client = first_test + tests.len();
        Ok(Ready {
            has_signal: is_ready(0),
            has_events: is_ready(1),
            has_client: is_ready(2),
            ports: (first_port..).zip(ports).filter(|&(at, _)| is_ready(at)).map(|(_, port)| port).collect(),
            tests: (first_test..).zip(tests).filter(|&(at, _)| is_ready(at)).map(|(_, port)| port).collect(),
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
        new.into_iter().for_each(|text| self.journal.note(false, text));
        if has_new {
            self.check_sysctls();
        }
        for name in self.ports.take_left_out() {
            self.journal.note(
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
            self.cables.open(port, index);
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

    /// Keeps the address of the neighbour that the manager hears at a port.
    fn note_neighbour(&mut self, port: u16, frame: &[u8], from: Ipv6Addr) {
        let heard = self.manager.ports().nth(port.into()).and_then(|line| line.neighbour());
        let is_neighbours =
            heard.is_some_and(|end| Frame::decode(frame).is_ok_and(|frame| frame.sender.host == end.host));
        if is_neighbours {
            self.routing.learn(&self.ports, &mut self.journal, port, from);
        }
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
                Effect::Install(route) => self.routing.install(&self.ports, &mut self.journal, route),
                Effect::Withdraw { to, address } => self.routing.withdraw(self.now_ns(), to, address),
                Effect::Event(event) => {
                    match event {
                        Event::LinkDown { port, .. } => fallen.push(port),
                        Event::LinkUp { port, .. } => self.routing.link_rose(&self.ports, &mut self.journal, port),
                        _ => {}
                    }
                    let text = self.with_interface(event.to_string());
                    self.journal.note(event.is_warning(), text);
                }
                // There are no clients with leases.
                Effect::WithdrawLease { .. } => {}
            }
        }
        for port in fallen {
            self.routing.link_fell(&self.ports, &mut self.journal, port);
        }
    }

    fn each_second(&mut self) {
        let now_ns = self.now_ns();
        self.open_sockets();
        self.count_interfaces();
        let sysfs = self.settings.sysfs.clone();
        let live: Vec<(u16, Interface)> =
            self.ports.iter().filter_map(|(port, of)| Some((port, of.interface.clone()?))).collect();
        let loads =
            self.meter.measure(now_ns, live.iter().map(|(port, of)| (*port, of)), |name| speed_bits_s(&sysfs, name));
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let host = self.meter.host(&stat, &sysfs);
        self.manager.loads(now_ns, host, &loads);
        self.carry_out();
        self.note_refusals();
    }

    fn note_refusals(&mut self) {
        let now_ns = self.now_ns();
        for (at, port) in self.manager.ports().enumerate() {
            let at = at as u16;
            let replays = self.replays.get(&at).copied().unwrap_or(0);
            let counts = Counts { frames: port.counters().frames_refused, replays, tests: self.cables.refused(at) };
            if let Some(text) = self.refusals.take(now_ns, at, counts) {
                let name = self.ports.get(at).map_or("", |port| &port.name);
                self.journal.note(true, format!("{name} (port {at}): {text}"));
            }
        }
    }

    fn count_interfaces(&mut self) {
        let counted = std::fs::read_to_string("/proc/net/dev").unwrap_or_default();
        self.ports.count(&interfaces::counters(&counted));
    }

    fn check_sysctls(&mut self) {
        if !self.routing.keeps_routes() {
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
                None => self
                    .journal
                    .note(true, format!("{problem}: sysctl -w {name}={wanted}, or start with --set-sysctls")),
                Some(Ok(())) => self.journal.note(false, format!("{name} was {} and is set to {wanted}", wrong.is)),
                Some(Err(error)) => self.journal.note(true, format!("{problem}; it cannot be set: {error}")),
            }
        }
    }

    /// Tells the neighbours, and removes all that the daemon has added.
    fn end(&mut self) {
        let now_ns = self.now_ns();
        self.manager.stop(now_ns);
        self.carry_out();
        self.routing.end(&mut self.journal);
        self.journal.note(false, "ended".into());
        self.publish();
    }

    /// Counts a socket that fails, and names the reason once it lasts.
    fn failed(&mut self, port: u16, error: &io::Error) {
        let failed = self.sends_failed.entry(port).or_default();
        *failed = failed.saturating_add(1);
        if *failed == SENDS_FAILED {
            let name = self.ports.get(port).map_or("", |port| &port.name);
            let remedy = format!("check net/ipv6/conf/{name}/disable_ipv6, and that {name} has a link-local address");
            self.journal.note(true, format!("{name} (port {port}): frames cannot be sent: {error}; {remedy}"));
        }
    }

    /// Sends the new lines of the log to those who follow it.
    fn publish(&mut self) {
        self.journal.since(self.published).for_each(|line| self.control.log(line));
        self.published = self.journal.count();
    }

    /// Names the interface of an event that begins with a port.
    fn with_interface(&self, text: String) -> String {
        let found = text.strip_prefix("port ").and_then(|rest| rest.split_once(':'));
        let named = found.and_then(|(port, rest)| Some((self.ports.get(port.parse().ok()?)?, port, rest)));
        named.map_or_else(|| text.clone(), |(of, port, rest)| format!("{} (port {port}):{rest}", of.name))
    }
}

/// The result of a poll.
#[derive(Default)]
struct Ready {
    has_signal: bool,
    has_events: bool,
    has_client: bool,
    ports: Vec<u16>,
    tests: Vec<u16>,
    clients: Vec<u64>,
}
