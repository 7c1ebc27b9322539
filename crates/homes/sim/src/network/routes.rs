// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes that the managers of a fabric have made: for what is left of it after links or routers have failed.
//!
//! A packet follows the routing of its source's router, from the time at which it leaves its node (a source route, seed
//! 002, section 2.3). So a packet never loops, whichever maps the routers on its way have, and a route that has become
//! wrong ends at the link that is gone. Number 0 is the machine's own routing, over the whole fabric.
//!
//! A plan keeps the machine's routes that are whole, and gives the other pairs detours. Where that is not possible, all
//! its routes are those of the managers: up*/down* or west-first.
//!
//! Costs: a plan's routes are made when the first packet follows it: O(nodes² × path). Detours take 12 bytes for
//! each hop, the managers' routes 2 bytes for each pair of routers.

use std::sync::{Arc, OnceLock};

use selvedge_fabric::{Hop, NodeId, Peer, Port, RouteState, RouterId, Routing, Topology, Vc};
use selvedge_fabric_manager::{HostId, Map, SourceRoutes, Strategy};

use super::Schedule;
use super::packet::LossReason;
use crate::time::Time;

/// A fabric whose routes change during a run.
pub trait Reroute {
    /// Prepares for other routes than the machine's.
    fn allow_rerouting(&mut self);

    /// Gives the nodes of a router their routes; `None`: the machine's own.
    fn set_routes(&mut self, router: RouterId, plan: Option<&Arc<Plan>>);

    /// Ends the wait for a channel that is down: its router has noticed. Packets that wait for it are lost, and so are
    /// packets that ask for it before it is repaired.
    fn abandon(&mut self, now: Time, channel: u32, queue: &mut impl Schedule);

    /// Returns the packets lost since [`Reroute::allow_rerouting`], by the place of their reason in [`LossReason::ALL`].
    fn losses(&self) -> Losses;
}

/// Lost packets by reason, in the order of [`LossReason::ALL`].
pub type Losses = [u64; LossReason::ALL.len()];

/// The ports of each router that have links to other routers, numbered from 0: the ports of its manager.
#[derive(Debug)]
pub struct LinkPorts {
    first: Vec<u32>,
    ports: Vec<Port>,
    /// By output channel; `NO_LINK`: it leads to a node or nowhere.
    numbers: Vec<u16>,
}

const NO_LINK: u16 = u16::MAX;

impl LinkPorts {
    pub fn new(topology: &Topology) -> LinkPorts {
        let mut made = LinkPorts { first: vec![0], ports: Vec::new(), numbers: Vec::new() };
        for router in (0..topology.routers()).map(RouterId) {
            let mut next = 0;
            for port in (0..topology.ports(router)).map(Port) {
                let is_link = matches!(topology.peer(router, port), Peer::Router { .. });
                made.numbers.push(if is_link { next } else { NO_LINK });
                if is_link {
                    next += 1;
                    made.ports.push(port);
                }
            }
            made.first.push(made.ports.len() as u32);
        }
        made
    }

    /// Returns a router's ports that have links.
    pub fn of(&self, router: RouterId) -> &[Port] {
        let router = router.0 as usize;
        &self.ports[self.first[router] as usize..self.first[router + 1] as usize]
    }

    /// Returns the number of an output channel's link at its router. `None`: it leads to no router.
    pub fn number(&self, channel: u32) -> Option<Port> {
        self.numbers.get(channel as usize).filter(|&&number| number != NO_LINK).map(|&number| Port(number))
    }
}

/// A router as a host of the managers. Numbers begin with 1.
pub fn host_of(router: u32) -> HostId {
    HostId(u64::from(router) + 1)
}

pub fn router_of(host: HostId) -> u32 {
    (host.0 - 1) as u32
}

/// The fabric without faults, as every router knows it.
#[derive(Debug)]
pub struct Whole {
    pub topology: Arc<Topology>,
    pub routing: Routing,
    pub ports: LinkPorts,
    /// Of the managers' routes.
    pub strategy: Strategy,
}

/// The routing between the routers of one map.
#[derive(Debug)]
pub struct Plan {
    /// From 1; 0 is the machine's own routing.
    number: u16,
    map: Map,
    whole: Arc<Whole>,
    made: OnceLock<Option<Made>>,
}

#[derive(Debug)]
struct Made {
    /// The place of each router on the map, if it is there.
    places: Vec<Option<u32>>,
    routes: Routes,
}

#[derive(Debug)]
enum Routes {
    /// The machine's routing around what has failed.
    Around(Routing),
    /// The managers' routes, over the topology of the map.
    OfMap(Box<SourceRoutes>),
}

impl Plan {
    pub fn new(number: u16, map: Map, whole: Arc<Whole>) -> Plan {
        Plan { number, map, whole, made: OnceLock::new() }
    }

    pub fn number(&self) -> u16 {
        self.number
    }

    /// Whether its routes are the machine's, with detours. `None`: no packet has needed them.
    pub fn has_detours(&self) -> Option<bool> {
        Some(matches!(self.made.get()?.as_ref()?.routes, Routes::Around(_)))
    }

    fn made(&self) -> Option<&Made> {
        let make = || {
            let Whole { topology, routing, ports, strategy } = &*self.whole;
            let mut places = vec![None; topology.routers() as usize];
            for (place, host) in self.map.hosts().iter().enumerate() {
                places[router_of(host.host) as usize] = Some(place as u32);
            }
            let mut is_up = vec![false; topology.channels() as usize];
            for (host, port) in self.map.links().iter().flat_map(|link| link.ends) {
                let router = RouterId(router_of(host));
                let port = *ports.of(router).get(usize::from(port.0))?;
                is_up[topology.channel(router, port) as usize] = true;
            }
            let around = match strategy {
                Strategy::WestFirst => None,
                _ => routing.around(topology, |channel| is_up[channel as usize]),
            };
            let routes = match around {
                Some(routing) => Routes::Around(routing),
                None => {
                    let routes = SourceRoutes::new(&self.map, *strategy, routing.virtual_channels()).ok()?;
                    Routes::OfMap(Box::new(routes))
                }
            };
            Some(Made { places, routes })
        };
        self.made.get_or_init(make).as_ref()
    }

    /// Returns the state of a packet that sets out. `None`: no path leads to its node.
    fn start(&self, topology: &Topology, from: NodeId, to: NodeId) -> Option<RouteState> {
        let made = self.made()?;
        let place = |node| made.places[topology.attachment(node).0.0 as usize].map(NodeId);
        let places = (place(from)?, place(to)?);
        let mut state = match &made.routes {
            Routes::Around(routing) => routing.start(topology, from, to, 0),
            Routes::OfMap(routes) => routes.routing().start(routes.topology(), places.0, places.1, 0),
        };
        state.tag = self.number;
        Some(state)
    }

    /// Returns the next hop of a packet that is at a router.
    fn next(
        &self,
        topology: &Topology,
        at: RouterId,
        arrived: Option<(Port, Vc)>,
        to: NodeId,
        state: &mut RouteState,
    ) -> Option<Hop> {
        let (end, port) = topology.attachment(to);
        if end == at {
            return Some(Hop { port, vc: Vc(0) });
        }
        let made = self.made()?;
        let routes = match &made.routes {
            Routes::Around(routing) => return routing.next(topology, at, arrived, to, state).first(),
            Routes::OfMap(routes) => routes,
        };
        let ports = &self.whole.ports;
        let place = |router: RouterId| made.places[router.0 as usize];
        let came = |(port, vc)| (ports.number(topology.channel(at, port)).unwrap_or(Port(NO_LINK)), vc);
        let (here, there) = (RouterId(place(at)?), NodeId(place(end)?));
        let hop = routes.routing().next(routes.topology(), here, arrived.map(came), there, state).first()?;
        Some(Hop { port: *ports.of(at).get(usize::from(hop.port.0))?, vc: hop.vc })
    }
}

/// The routings of a fabric in which links have failed.
#[derive(Debug)]
pub(super) struct Rerouted {
    /// By number, from 1.
    plans: Vec<Option<Arc<Plan>>>,
    /// The plan of each router's nodes; 0: the machine's own routing.
    of_router: Vec<u16>,
    /// Channels whose routers have noticed that they are down.
    abandoned: Vec<bool>,
    pub losses: Losses,
}

impl Rerouted {
    pub fn new(topology: &Topology) -> Rerouted {
        Rerouted {
            plans: Vec::new(),
            of_router: vec![0; topology.routers() as usize],
            abandoned: vec![false; topology.channels() as usize],
            losses: Losses::default(),
        }
    }

    pub fn set_routes(&mut self, router: RouterId, plan: Option<&Arc<Plan>>) {
        let number = plan.map_or(0, |plan| plan.number);
        if let Some(plan) = plan {
            let place = usize::from(number) - 1;
            if self.plans.len() <= place {
                self.plans.resize(place + 1, None);
            }
            self.plans[place] = Some(plan.clone());
        }
        self.of_router[router.0 as usize] = number;
    }

    pub fn set_abandoned(&mut self, channel: u32, is_abandoned: bool) {
        self.abandoned[channel as usize] = is_abandoned;
    }

    pub fn is_abandoned(&self, channel: u32) -> bool {
        self.abandoned[channel as usize]
    }

    pub fn lose(&mut self, why: LossReason, packets: u64) {
        self.losses[why as usize] += packets;
    }

    /// Returns the number of the routing that packets of a node follow.
    pub fn number_of(&self, topology: &Topology, from: NodeId) -> u16 {
        self.of_router[topology.attachment(from).0.0 as usize]
    }

    /// Returns the state of a packet that leaves its node; `own`: its state in the machine's own routing. `None`: no
    /// path leads to its target.
    pub fn start(&self, topology: &Topology, from: NodeId, to: NodeId, own: RouteState) -> Option<RouteState> {
        match self.number_of(topology, from) {
            0 => Some(own),
            number => self.plan(number)?.start(topology, from, to),
        }
    }

    /// Returns the next hop of a packet that follows a plan.
    pub fn next(
        &self,
        topology: &Topology,
        at: RouterId,
        arrived: Option<(Port, Vc)>,
        to: NodeId,
        state: &mut RouteState,
    ) -> Option<Hop> {
        self.plan(state.tag)?.next(topology, at, arrived, to, state)
    }

    fn plan(&self, number: u16) -> Option<&Plan> {
        self.plans.get(usize::from(number).checked_sub(1)?)?.as_deref()
    }
}
