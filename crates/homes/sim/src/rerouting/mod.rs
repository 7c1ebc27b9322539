// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rerouting in virtual time: each router runs the manager of a fabric without switches (`selvedge-fabric-manager`, the
//! value that the daemon runs), and its nodes take the routes of its map. docs/design/rerouting.md has the decisions.
//!
//! ```text
//! fault of a channel or router ──> Rerouter: carriers, frames on the links, time ──> Reroute: routes, channels given up
//! ```
//!
//! # Invariants
//!
//! 1. The managers' clocks run from a change of the fabric until all managers have its true map and nothing waits for an
//!    acknowledgement; then they stand still. So a run without faults pays nothing, and one with faults pays for its
//!    changes, not for its length.
//! 2. A frame takes its time on its link: one after the other in each direction, then the latencies of link and switch.
//!    It is lost if the channel is down, or falls meanwhile.
//! 3. Nothing depends on anything but the inputs: the same faults give the same routes at the same times.
//!
//! # Costs
//!
//! Memory O(routers²): each manager has its own table and map. The machine's routing once more, and for each map that a
//! packet has followed a copy of it with detours, or O(routers²).
//! A change: O(routers × links) for the maps.

mod report;
mod truth;
mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use selvedge_fabric::{Algorithm, NodeId, Peer, Port, RouterId, Routing, Topology};
use selvedge_fabric_manager::{
    Boot, Config, Effect, Event as Notice, FRAME_BYTES_MAX, HostId, KnownFabric, Limits, Manager, Map, PORTS_MAX,
    Strategy, Timing,
};
use serde::Serialize;
use thiserror::Error;

pub use report::{Episode, ReroutingReport};

use crate::network::{FlowControl, LinkPorts, NetworkConfig, Plan, Reroute, Schedule, Whole, host_of, router_of};
use crate::queue::Queue;
use crate::time::Time;
use report::Open;
use truth::{Truth, ends_of};
use wire::Wire;

/// The settings of rerouting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RerouteConfig {
    pub detection: Detection,
    /// Failures and returns of whole routers, in order of time. Their channels fail besides, as other channels do.
    pub routers: Vec<RouterFault>,
}

/// How a router notices that a link has failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detection {
    /// Both ends lose the carrier at once.
    #[default]
    Carrier,
    /// By hellos that do not arrive.
    Hellos,
}

impl Detection {
    /// Returns the way as text for a report.
    pub fn words(self) -> &'static str {
        match self {
            Detection::Carrier => "by the carrier",
            Detection::Hellos => "by hellos that do not arrive",
        }
    }
}

/// Failure or return of a router. One that returns has forgotten everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouterFault {
    pub at: Time,
    pub router: u32,
    pub up: bool,
}

/// Reason why the routers of a machine cannot have managers. Each message names the remedy.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum RerouteError {
    #[error(
        "router {router} has {links} links to others, and a manager has at most {PORTS_MAX}: keep the routes as they are \
         (--no-reroute)"
    )]
    Links { router: String, links: usize },
    #[error(
        "{routers} routers with a manager each are more than {ROUTERS_MAX}: keep the routes as they are (--no-reroute), or \
         take a smaller machine"
    )]
    Routers { routers: u32 },
    #[error(
        "a deadlock between old and new routes is not found with STOP and CONTINUE: keep the routes as they are \
         (--no-reroute), or use credits (--set link.flow_control=credits)"
    )]
    StopContinue,
}

/// The most routers: each has a map of all.
pub const ROUTERS_MAX: u32 = 2048;

const MTU: u32 = 1500;
/// A change that has not come to rest after this many hellos never will.
const HELLOS_MAX: u64 = 1_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The frame in this slot arrives.
    Frame(u32),
    /// A manager's time has come.
    Tick(u32),
}

/// Work at the fabric.
#[derive(Debug)]
enum Act {
    Routes(RouterId, Option<Arc<Plan>>),
    Abandon(u32),
}

#[derive(Debug)]
struct Router {
    /// `None`: the router has failed.
    manager: Option<Box<Manager>>,
    config: Config,
    /// Time of its tick, by the managers' clock.
    due: Time,
    /// Of its map.
    generation: u64,
    /// Its plan's number, 0 for the machine's own routing.
    plan: u16,
}

/// The managers of all routers.
#[derive(Debug)]
pub struct Rerouter {
    topology: Arc<Topology>,
    whole: Arc<Whole>,
    config: RerouteConfig,
    /// Router faults that have happened.
    happened: usize,
    timing: Timing,
    routers: Vec<Router>,
    wire: Wire,
    queue: Queue<Event>,
    /// The managers' clock, and the time of the run less that, in picoseconds.
    now: Time,
    behind_ps: i128,
    /// Time of the event that the run has in its queue.
    scheduled: Time,
    truth: Truth,
    plans: BTreeMap<u64, Arc<Plan>>,
    acts: Vec<Act>,
    open: Option<Open>,
    report: ReroutingReport,
}

impl Rerouter {
    /// Managers of a whole fabric at rest. The caller lets the network expect other routes.
    pub fn new(
        topology: &Arc<Topology>,
        routing: &Routing,
        network: &NetworkConfig,
        config: RerouteConfig,
    ) -> Result<Rerouter, RerouteError> {
        let ports = LinkPorts::new(topology);
        let routers = topology.routers();
        if routers > ROUTERS_MAX {
            return Err(RerouteError::Routers { routers });
        }
        if network.flow_control != FlowControl::Credits {
            return Err(RerouteError::StopContinue);
        }
        if let Some(router) = (0..routers).map(RouterId).find(|&at| ports.of(at).len() > usize::from(PORTS_MAX)) {
            return Err(RerouteError::Links { router: topology.router_name(router), links: ports.of(router).len() });
        }
        let wire = Wire::new(topology, network);
        let timing = timing(wire.time(FRAME_BYTES_MAX as u32));
        let strategy = match routing.algorithm() {
            Algorithm::WestFirst if topology.dimensions() == 2 => Strategy::WestFirst,
            _ => Strategy::UpDown,
        };
        let position = |router| match (strategy, topology.coordinates(router)) {
            (Strategy::WestFirst, &[x, y]) => Some([x, y]),
            _ => None,
        };
        let config_of = |router: u32| Config {
            host: host_of(router),
            boot: Boot(1),
            name: String::new(),
            address: None,
            position: position(RouterId(router)),
            ports: ports.of(RouterId(router)).len() as u16,
            strategy,
            limits: Limits { hosts: routers, ..Limits::default() },
            timing,
        };
        let configs: Vec<Config> = (0..routers).map(config_of).collect();
        let channels = || (0..topology.channels()).filter_map(|channel| ends_of(topology, &ports, channel));
        let links: Vec<_> = channels().filter(|ends| ends[0] < ends[1]).collect();
        let fabric = KnownFabric::new(&configs, &links, MTU);
        let rest = |config: Config| Router {
            manager: Some(Box::new(Manager::at_rest(config.clone(), 0, &fabric))),
            config,
            due: Time::MAX,
            generation: 0,
            plan: 0,
        };
        let mut rerouter = Rerouter {
            truth: Truth::new(links.len(), routers),
            report: ReroutingReport::new(config.detection, strategy, &timing),
            topology: topology.clone(),
            whole: Arc::new(Whole { topology: topology.clone(), routing: routing.clone(), ports, strategy }),
            config,
            happened: 0,
            timing,
            routers: configs.into_iter().map(rest).collect(),
            wire,
            queue: Queue::new(),
            now: Time::ZERO,
            behind_ps: 0,
            scheduled: Time::MAX,
            plans: BTreeMap::new(),
            acts: Vec::new(),
            open: None,
        };
        rerouter.set_truth();
        for router in 0..routers {
            rerouter.input(router, |manager, now_ns| manager.tick(now_ns));
        }
        Ok(rerouter)
    }

    /// Takes a failure or repair of a channel, after the network has it.
    pub fn change(
        &mut self,
        now: Time,
        (channel, is_up): (u32, bool),
        network: &mut impl Reroute,
        queue: &mut impl Schedule,
    ) {
        self.advance(now, false, network);
        self.take_router_faults(now);
        let owner = match self.topology.channel_source(channel) {
            Some((router, _)) => router,
            None => self.node_router(channel),
        };
        if let Some(mut ends) = ends_of(&self.topology, &self.whole.ports, channel) {
            let back = self.channel_at(ends[1]);
            let before = self.wire.is_up(channel) && self.wire.is_up(back);
            self.wire.set_up(channel, is_up);
            let after = self.wire.is_up(channel) && self.wire.is_up(back);
            if before != after {
                self.begin(now);
                ends.sort_unstable();
                let end = |(host, _)| self.topology.router_name(RouterId(router_of(host)));
                let name = format!("link {}-{}", end(ends[0]), end(ends[1]));
                let routers = ends.map(|(host, _)| router_of(host));
                if let Some(open) = &mut self.open {
                    open.link(now, &name, routers, after);
                }
                self.set_truth();
                if self.config.detection == Detection::Carrier {
                    for (host, port) in ends {
                        let router = router_of(host);
                        self.input(router, |manager, now_ns| manager.carrier(now_ns, port, after.then_some(MTU)));
                    }
                }
            }
        }
        // The two directions of a link fail one after the other: its ends may have noticed by the first.
        if !is_up && self.has_noticed(owner, channel) {
            self.acts.push(Act::Abandon(channel));
        }
        if let Some(open) = &mut self.open {
            open.review(now, self.truth.is_agreed(), || network.losses());
        }
        self.carry_out(now, network, queue);
    }

    /// Whether a router is gone, or its manager knows that the link of an output channel is not up.
    fn has_noticed(&self, router: RouterId, channel: u32) -> bool {
        let Some(manager) = &self.routers[router.0 as usize].manager else { return true };
        let port = self.whole.ports.number(channel).and_then(|number| manager.ports().nth(number.0.into()));
        port.is_some_and(|port| port.up().is_none())
    }

    /// Does all that is due. What has failed at time 0 has failed before the run: the managers come to rest at once.
    pub fn step(&mut self, now: Time, network: &mut impl Reroute, queue: &mut impl Schedule) {
        if self.scheduled <= now {
            self.scheduled = Time::MAX;
        }
        self.advance(now, now == Time::ZERO, network);
        self.carry_out(now, network, queue);
    }

    /// Handles the events up to a time of the run. `to_rest`: all of them, in no time.
    fn advance(&mut self, now: Time, to_rest: bool, network: &impl Reroute) {
        while self.open.is_some() {
            let Some(at) = self.queue.next_at().filter(|&at| to_rest || self.run_time(at) <= now) else { break };
            let Some((_, event)) = self.queue.take() else { break };
            self.now = at;
            if to_rest {
                self.behind_ps = i128::from(now.0) - i128::from(at.0);
            }
            match event {
                Event::Frame(slot) => {
                    if let Some((router, port, bytes)) = self.wire.take(slot) {
                        self.input(router, |manager, now_ns| manager.frame(now_ns, port, &bytes));
                    }
                }
                Event::Tick(router) => {
                    if self.routers[router as usize].due == at {
                        self.routers[router as usize].due = Time::MAX;
                        self.input(router, |manager, now_ns| manager.tick(now_ns));
                    }
                }
            }
            self.review(self.run_time(at), to_rest, network);
        }
    }

    /// Returns the time of the run at a time of the managers' clock.
    fn run_time(&self, at: Time) -> Time {
        Time((i128::from(at.0) + self.behind_ps).clamp(0, u64::MAX.into()) as u64)
    }

    /// Returns the time at which the run has to call [`Rerouter::step`], if it does not know it yet.
    pub fn take_due(&mut self) -> Option<Time> {
        let next = self.queue.next_at().filter(|_| self.open.is_some())?;
        let is_begin = self.open.as_ref().is_some_and(|open| open.last_change() == Time::ZERO);
        let at = if is_begin { Time::ZERO } else { self.run_time(next) };
        if at >= self.scheduled {
            return None;
        }
        self.scheduled = at;
        Some(at)
    }

    /// Returns the report at the end of a run.
    pub fn finish(&self, network: &impl Reroute) -> ReroutingReport {
        let mut report = self.report.clone();
        let made: Vec<bool> = self.plans.values().filter_map(|plan| plan.has_detours()).collect();
        report.maps_with_detours = made.iter().filter(|&&has_detours| has_detours).count() as u64;
        report.maps_without = made.len() as u64 - report.maps_with_detours;
        report.finish(self.open.as_ref(), network.losses());
        report
    }

    // ---- Inputs of managers ----------------------------------------------------------------------------------------

    /// Gives a live manager an input, and takes its effects.
    fn input(&mut self, router: u32, input: impl FnOnce(&mut Manager, u64)) {
        let now = self.now;
        let it = &mut self.routers[router as usize];
        let Some(manager) = &mut it.manager else { return };
        input(manager, now.as_ns());
        let effects = manager.take_effects();
        let due = Time::from_ns(manager.due_ns().min(NEVER_NS));
        if due < it.due || it.due <= now {
            it.due = due;
            self.queue.schedule(due, Event::Tick(router));
        }
        let (map, generation) = manager.map();
        if it.generation != generation {
            it.generation = generation;
            self.truth.note(router, map);
            let number = match self.truth.is_whole(map) {
                true => Some(0),
                false => plan_of(&mut self.plans, map, &self.whole),
            };
            if let Some(number) = number.filter(|&number| number != it.plan) {
                it.plan = number;
                let plan = self.plans.get(&map.digest()).filter(|_| number != 0).cloned();
                self.acts.push(Act::Routes(RouterId(router), plan));
                self.open.iter_mut().for_each(|open| open.reroutes(router));
            }
        }
        for effect in effects {
            match effect {
                Effect::Send { port, frame } => self.send(router, port, frame),
                Effect::Event(Notice::LinkDown { port, .. }) => {
                    self.acts.push(Act::Abandon(self.channel_at((host_of(router), port))));
                    let run_now = self.run_time(now);
                    self.open.iter_mut().for_each(|open| open.notice(run_now));
                }
                // Routes by destination are the kernel's; leases are the clients'.
                Effect::Event(_) | Effect::Install(_) | Effect::Withdraw { .. } | Effect::WithdrawLease { .. } => {}
            }
        }
    }

    fn send(&mut self, router: u32, port: Port, frame: Vec<u8>) {
        let channel = self.channel_at((host_of(router), port));
        let Some([_, (host, there)]) = ends_of(&self.topology, &self.whole.ports, channel) else { return };
        let bytes = frame.len() as u64;
        self.open.iter_mut().for_each(|open| open.send(bytes));
        if let Some((at, slot)) = self.wire.send(self.now, channel, (router_of(host), there), frame) {
            self.queue.schedule(at, Event::Frame(slot));
        }
    }

    /// Takes the router faults that are due: the channels of the routers fail at the same time.
    fn take_router_faults(&mut self, now: Time) {
        while let Some(&RouterFault { router, up, .. }) =
            self.config.routers.get(self.happened).filter(|fault| fault.at <= now)
        {
            self.happened += 1;
            if self.routers[router as usize].manager.is_some() == up {
                continue;
            }
            self.begin(now);
            if let Some(open) = &mut self.open {
                open.router(now, router, &self.topology.router_name(RouterId(router)), up);
            }
            let now_ns = self.now.as_ns();
            let it = &mut self.routers[router as usize];
            (it.due, it.generation) = (Time::MAX, u64::MAX);
            if up {
                it.config.boot.0 += 1;
                it.manager = Some(Box::new(Manager::new(it.config.clone(), now_ns)));
            } else {
                it.manager = None;
            }
            self.set_truth();
            if up {
                self.give_carriers(router);
            }
        }
    }

    /// Gives a router that has started the carriers of its links.
    fn give_carriers(&mut self, router: u32) {
        for number in 0..self.whole.ports.of(RouterId(router)).len() as u16 {
            let end = (host_of(router), Port(number));
            let channel = self.channel_at(end);
            let back = ends_of(&self.topology, &self.whole.ports, channel).map(|ends| self.channel_at(ends[1]));
            let is_up = self.wire.is_up(channel) && back.is_some_and(|back| self.wire.is_up(back));
            let has_carrier = is_up || self.config.detection == Detection::Hellos;
            self.input(router, |manager, now_ns| manager.carrier(now_ns, Port(number), has_carrier.then_some(MTU)));
        }
    }

    /// The fabric changes: the clocks run on.
    fn begin(&mut self, now: Time) {
        match &mut self.open {
            None => {
                self.behind_ps = i128::from(now.0) - i128::from(self.now.0);
                self.open = Some(Open::new(now, self.now));
            }
            Some(open) => {
                let own = i128::from(now.0) - self.behind_ps;
                self.now = self.now.max(Time(own.clamp(0, u64::MAX.into()) as u64));
                open.changes_again(now, self.now);
            }
        }
    }

    fn set_truth(&mut self) {
        let live = |router: u32| self.routers[router as usize].manager.is_some();
        self.truth.set(&self.topology, &self.whole.ports, &self.wire, live);
        for (router, it) in (0..).zip(&self.routers) {
            if let Some(manager) = &it.manager {
                self.truth.note(router, manager.map().0);
            }
        }
    }

    /// Notes whether the managers agree on the true map, and stops the clocks when they have come to rest.
    fn review(&mut self, now: Time, to_rest: bool, network: &impl Reroute) {
        let Some(open) = &mut self.open else { return };
        open.review(now, self.truth.is_agreed(), || network.losses());
        if !to_rest && now <= open.last_change() {
            // More may change at this time.
            return;
        }
        let is_over =
            self.now.saturating_sub(open.last_change_own()) > Time::from_ns(self.timing.hello_ns * HELLOS_MAX);
        let is_settled = |at: usize| self.routers[at].manager.as_ref().is_none_or(|manager| manager.is_settled());
        if is_over || self.truth.is_agreed() && self.truth.all(is_settled) {
            if let Some(open) = self.open.take() {
                self.report.add(open, || network.losses());
            }
        }
    }

    fn carry_out(&mut self, now: Time, network: &mut impl Reroute, queue: &mut impl Schedule) {
        for act in std::mem::take(&mut self.acts) {
            match act {
                Act::Routes(router, plan) => network.set_routes(router, plan.as_ref()),
                Act::Abandon(channel) => network.abandon(now, channel, queue),
            }
        }
    }

    /// Returns the output channel of a manager's port.
    fn channel_at(&self, (host, port): (HostId, Port)) -> u32 {
        let router = RouterId(router_of(host));
        self.topology.channel(router, self.whole.ports.of(router)[usize::from(port.0)])
    }

    /// Returns the router of an injection channel's node.
    fn node_router(&self, channel: u32) -> RouterId {
        let first = self.topology.injection_channel(NodeId(0));
        self.topology.attachment(NodeId(channel - first)).0
    }
}

/// Later than every run, in nanoseconds.
const NEVER_NS: u64 = u64::MAX / 2_000;

/// Returns the number of the plan for a map; makes a new one if need be. `None`: there are too many, so that the routes
/// stay as they are.
fn plan_of(plans: &mut BTreeMap<u64, Arc<Plan>>, map: &Map, whole: &Arc<Whole>) -> Option<u16> {
    if let Some(plan) = plans.get(&map.digest()) {
        return Some(plan.number());
    }
    let number = u16::try_from(plans.len() + 1).ok()?;
    plans.insert(map.digest(), Arc::new(Plan::new(number, map.clone(), whole.clone())));
    Some(number)
}

/// Returns the times of managers whose longest frame takes `frame` on a link: frames of announcements follow each other
/// at a port as fast as the link takes them, and hellos take about a thousandth of it. Links are sound between two
/// changes, however long the clocks stand still, so announcements do not age, and the memory of drops is short.
fn timing(frame: Time) -> Timing {
    let whole = Timing::default();
    let timing = whole.faster(whole.gather_ns / (frame.as_ns() + 1));
    Timing { lifetime_ns: whole.lifetime_ns, drops_ns: timing.hello_ns, ..timing }
}

/// Returns all channels that fail with a router: those of its links, both ways, and those of its nodes, both ways.
pub fn channels_of(topology: &Topology, router: RouterId) -> Vec<u32> {
    let mut channels = Vec::new();
    for port in (0..topology.ports(router)).map(Port) {
        let back = match topology.peer(router, port) {
            Peer::Router { router, port } => topology.channel(router, port),
            Peer::Node(node) => topology.injection_channel(node),
            Peer::Unconnected => continue,
        };
        channels.extend([topology.channel(router, port), back]);
    }
    channels
}

#[cfg(test)]
#[path = "rerouting_tests.rs"]
mod tests;
