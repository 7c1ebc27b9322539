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
use crate::counters::Counters;
use crate::history::History;
use crate::interfaces::{self, Interface, Ports};
use crate::journal::Journal;
use crate::kernel::{self, Kernel};
use crate::loads::{Meter, queue_bytes, speed_bits_s};
use crate::netlink::{Events, Requests};
use crate::protocol::{Answer, LinksOf, Withdrawal};
use crate::registry::Registry;
use crate::remote::Remote;
use crate::routing::Routing;
use crate::seal::{DATAGRAM_BYTES_MAX, Opened, Seal, read_keys};
use crate::settings::{DaemonError, Settings, is_usable, kernel_error};
use crate::sockets::{self, Sockets};
use crate::{execution, identity, views};
use answers::Asker;
use cables::Cables;
use dumps::Dumps;
use refusals::{Counts, Refusals};
use turns::Turns;

mod answers;
mod cables;
mod dumps;
mod refusals;
mod turns;

const SECOND_NS: u64 = 1_000_000_000;
/// Time between the answer to a request for a restart, and the restart: a browser gets the answer from the page of this
/// process.
const RESTART_NS: u64 = 300_000_000;
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
    raise_file_limit();
    let mut daemon = Daemon::start(settings)?;
    ready();
    daemon.serve(signals.as_fd())?;
    daemon.end();
    Ok(())
}

/// Raises the limit of open files to the hard limit: each process with a NIC has a connection.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
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
    client_turns: Turns,
    remote: Remote,
    host_turns: Turns,
    registry: Registry,
    counters: Counters<(Asker, LinksOf)>,
    dumps: Dumps<Asker>,
    meter: Meter,
    journal: Journal,
    history: History,
    /// The time until which clients get their answers, and the page answers its browsers, before the daemon executes itself anew.
    restart_ns: Option<u64>,
    /// Lines of the journal that its followers have.
    published: u64,
    replays: BTreeMap<u16, u64>,
    refusals: Refusals,
    sends_failed: BTreeMap<u16, u32>,
    noted_sysctls: BTreeSet<String>,
}

impl Daemon {
    fn start(settings: Settings) -> Result<Daemon, DaemonError> {
        let keys = settings.key.as_deref().map(read_keys).transpose()?;
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
        let counters = Counters::new().map_err(kernel_error("pipe for link counters"))?;
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
            cables: Cables::new(keys.map(|keys| keys.tests), wall_ns),
            seal: Seal::new(keys.map(|keys| keys.frames), wall_ns),
            events,
            requests,
            routing: Routing::new(kernel),
            control,
            client_turns: Turns::default(),
            host_turns: Turns::default(),
            registry: Registry::default(),
            dumps: Dumps::new(counters.waker()),
            counters,
            remote: Remote::new(keys.map(|keys| keys.requests), host),
            meter: Meter::default(),
            journal: Journal::default(),
            history: History::default(),
            restart_ns: None,
            published: 0,
            replays: BTreeMap::new(),
            refusals: Refusals::default(),
            sends_failed: BTreeMap::new(),
            noted_sysctls: BTreeSet::new(),
        };
        let number = views::hex(host);
        match keeps_routes {
            true => {
                daemon.journal.note(false, format!("{name}: host {number}, {address}"));
                if let Err(error) = daemon.remote.listen(address) {
                    let text = format!("other hosts cannot ask this daemon: TCP port 7391 of {address}: {error}");
                    daemon.journal.note(true, text);
                }
            }
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
            self.release_gone();
            self.answer_with_links();
            self.answer_with_dumps();
            let heard = self.remote.tick(self.now_ns(), |client| self.control.has(client));
            self.hear(heard);
            let due_ns =
                [self.manager.due_ns(), second_ns, self.routing.due_ns(), self.remote.due_ns(), self.cables.due_ns()];
            let due_ns = due_ns.into_iter().chain([self.counters.due_ns(), self.dumps.due_ns()]).chain(self.restart_ns);
            let due_ns = due_ns.fold(u64::MAX, u64::min).saturating_sub(self.now_ns());
            let (mut clients, mut hosts) = (Vec::new(), Vec::new());
            for ready in self.wait(signals, due_ns)? {
                match ready {
                    Ready::Signal => return Ok(()),
                    Ready::Interfaces if self.events.drain() => self.refresh()?,
                    Ready::Interfaces | Ready::Counters => {}
                    Ready::Port(port) => self.receive(port),
                    Ready::Test(port) => self.receive_test(port),
                    Ready::NewClient => self.control.accept(),
                    Ready::Client(id) => clients.push(id),
                    Ready::NewHost => self.remote.accept(self.now_ns()),
                    Ready::Host(id) => hosts.push(id),
                }
            }
            self.serve_those_who_ask(clients, hosts);
            if self.restart_ns.is_some_and(|until_ns| until_ns <= self.now_ns()) {
                self.restart_ns = None;
                self.execute_anew();
            }
        }
    }

    /// Serves clients and other hosts, and stops when their time is over: links fall if frames wait for long.
    fn serve_those_who_ask(&mut self, clients: Vec<u64>, hosts: Vec<u64>) {
        let origin = self.origin;
        let now_ns = || origin.elapsed().as_nanos() as u64;
        let mut turns = std::mem::take(&mut self.client_turns);
        turns.run(clients, now_ns, |id| {
            self.control.write(id);
            if let Some(line) = self.control.read(id) {
                self.answer_line(&line);
            }
        });
        self.client_turns = turns;
        let mut turns = std::mem::take(&mut self.host_turns);
        turns.run(hosts, now_ns, |id| {
            let heard = self.remote.serve(id);
            self.hear(heard);
        });
        self.host_turns = turns;
    }

    /// Waits until a descriptor is ready, or the time is over. A client whose next line is here already is ready.
    fn wait(&self, signals: BorrowedFd<'_>, due_ns: u64) -> Result<Vec<Ready>, DaemonError> {
        let taking = |of: Ready, descriptor| (of, descriptor, PollFlags::IN);
        let mut of = vec![
            taking(Ready::Signal, signals),
            taking(Ready::Interfaces, self.events.descriptor()),
            taking(Ready::NewClient, self.control.listener()),
            taking(Ready::Counters, self.counters.descriptor()),
        ];
        of.extend(self.remote.listener().map(|descriptor| taking(Ready::NewHost, descriptor)));
        of.extend(self.sockets.descriptors().map(|(port, descriptor)| taking(Ready::Port(port), descriptor)));
        of.extend(self.cables.descriptors().map(|(port, descriptor)| taking(Ready::Test(port), descriptor)));
        of.extend(self.control.descriptors().map(|(id, descriptor, wanted)| (Ready::Client(id), descriptor, wanted)));
        of.extend(self.remote.descriptors().map(|(id, descriptor, wanted)| (Ready::Host(id), descriptor, wanted)));
        let mut polled: Vec<PollFd<'_>> =
            of.iter().map(|(_, descriptor, wanted)| PollFd::from_borrowed_fd(*descriptor, *wanted)).collect();
        let has_line = |of: Ready| matches!(of, Ready::Client(id) if self.control.has_line(id));
        let due_ns = if of.iter().any(|of| has_line(of.0)) { 0 } else { due_ns };
        let timeout = Timespec { tv_sec: (due_ns / SECOND_NS) as i64, tv_nsec: (due_ns % SECOND_NS) as i64 };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(error) => return Err(kernel_error("poll")(error.into())),
        }
        let is_ready = |of: Ready, polled: &PollFd<'_>| !polled.revents().is_empty() || has_line(of);
        Ok(of.iter().zip(&polled).filter(|(of, polled)| is_ready(of.0, polled)).map(|(of, _)| of.0).collect())
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
                Effect::WithdrawLease { lease, cause } => {
                    let cause = match cause {
                        selvedge_fabric_manager::Withdrawal::Unreachable => Withdrawal::Unreachable,
                        selvedge_fabric_manager::Withdrawal::Rerouted => Withdrawal::Rerouted,
                    };
                    self.control.answer(lease.client.0, &Answer::Withdrawn { lease: lease.id.0, cause });
                }
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
        let mut loads = self.meter.measure(
            now_ns,
            live.iter().map(|(port, of)| (*port, of)),
            |name| speed_bits_s(&sysfs, name),
            |name| queue_bytes(&sysfs, name),
        );
        for load in &mut loads {
            let up = self.manager.ports().nth(load.port.0.into()).filter(|port| port.up().is_some());
            load.round_trip_ns = up.and_then(|port| port.rtt_ns()).map(|ns| ns.min(u32::MAX.into()) as u32);
        }
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let host = self.meter.host(&stat, &sysfs);
        self.manager.loads(now_ns, host, &loads);
        self.history.note(identity::wall_ns() as f64 / 1e9, self.manager.load_reports());
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

    /// Begins to replace this process by a new one, if that can start. Clients get their answers first.
    fn begin_restart(&mut self) -> Result<(), String> {
        execution::check()?;
        (self.settings.check_start)()?;
        self.restart_ns = Some(self.now_ns() + RESTART_NS);
        Ok(())
    }

    /// Replaces this process by a new one of the same program and arguments, perhaps a newer release. It removes nothing:
    /// the new one takes the routes over, as after a kill, and before the neighbours take theirs away.
    fn execute_anew(&mut self) {
        let error = execution::execute_anew();
        self.journal.note(true, format!("the daemon cannot execute itself anew, and goes on: {error}"));
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
        let followers = self.remote.followers();
        let now_ns = self.now_ns();
        for line in self.journal.since(self.published) {
            self.control.log(line);
            for &id in &followers {
                self.remote.answer(now_ns, id, &Answer::Log(vec![line.clone()]));
            }
        }
        self.published = self.journal.count();
    }

    /// Names the interface of an event that begins with a port.
    fn with_interface(&self, text: String) -> String {
        let found = text.strip_prefix("port ").and_then(|rest| rest.split_once(':'));
        let named = found.and_then(|(port, rest)| Some((self.ports.get(port.parse().ok()?)?, port, rest)));
        named.map_or_else(|| text.clone(), |(of, port, rest)| format!("{} (port {port}):{rest}", of.name))
    }
}

/// A descriptor that a poll has found ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ready {
    Signal,
    Interfaces,
    Port(u16),
    /// The socket of a port for tests of its cable.
    Test(u16),
    NewClient,
    /// Link counters of processes, or a NIC, were read.
    Counters,
    Client(u64),
    NewHost,
    Host(u64),
}
