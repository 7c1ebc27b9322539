// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manager's routes in the kernel: installed with the neighbour's address, and withdrawn with a delay.
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use selvedge_fabric::Port;
use selvedge_fabric_manager::{HostId, Route};

use crate::interfaces::Ports;
use crate::journal::Journal;
use crate::kernel::{Hop, Kernel, TABLE};

const SECOND_NS: u64 = 1_000_000_000;
/// Time that routes of a killed daemon have to be replaced.
const STALE_NS: u64 = 2 * SECOND_NS;
/// Time for which a route stays after its host has become unreachable, while its cable has a carrier. The kernels
/// forward without their daemons, so messages get through to or over a host whose daemon restarts.
const LINGER_NS: u64 = 3 * SECOND_NS / 2;

/// The routes of this host.
pub struct Routing {
    /// None: the daemon only observes.
    kernel: Option<Kernel>,
    /// The neighbours' link-local addresses, by port.
    neighbours: BTreeMap<u16, Ipv6Addr>,
    /// Routes that the manager wants.
    wanted: BTreeMap<HostId, Route>,
    /// Routes that the manager has withdrawn, with the time of their end.
    lingering: BTreeMap<Ipv4Addr, (u64, Vec<Port>)>,
    stale_until_ns: Option<u64>,
}

impl Routing {
    pub fn new(kernel: Option<Kernel>) -> Routing {
        Routing {
            kernel,
            neighbours: BTreeMap::new(),
            wanted: BTreeMap::new(),
            lingering: BTreeMap::new(),
            stale_until_ns: Some(STALE_NS),
        }
    }

    pub fn keeps_routes(&self) -> bool {
        self.kernel.is_some()
    }

    /// The number of routes that the manager wants.
    pub fn count(&self) -> usize {
        self.wanted.len()
    }

    /// The kernel's route to a host, in words.
    pub fn describe(&self, ports: &Ports, to: HostId) -> Option<String> {
        let route = self.wanted.get(&to).filter(|_| self.keeps_routes())?;
        let first = route.hops.iter().find(|first| hop(ports, &self.neighbours, first.port).is_some())?;
        let via = hop(ports, &self.neighbours, first.port)?.via;
        let device = &ports.get(first.port.0)?.name;
        Some(format!("{} via inet6 {via} dev {device} table {TABLE} mtu {}", route.address?, route.mtu))
    }

    /// Takes the address of the neighbour at a port. Routes over it follow a change.
    pub fn learn(&mut self, ports: &Ports, journal: &mut Journal, port: u16, from: Ipv6Addr) {
        let before = self.neighbours.insert(port, from);
        if before == Some(from) {
            return;
        }
        if let (Some(before), Some(of)) = (before, ports.get(port)) {
            let text = "the neighbour has another address";
            journal.note(
                false,
                format!("{} (port {port}): {text}: {from}, before {before}; the routes over it are replaced", of.name),
            );
        }
        let over = |route: &&Route| route.hops.iter().any(|hop| hop.port.0 == port);
        let routes: Vec<Route> = self.wanted.values().filter(over).cloned().collect();
        routes.iter().for_each(|route| self.put(ports, journal, route));
    }

    pub fn install(&mut self, ports: &Ports, journal: &mut Journal, route: Route) {
        self.put(ports, journal, &route);
        self.wanted.insert(route.to, route);
    }

    fn put(&mut self, ports: &Ports, journal: &mut Journal, route: &Route) {
        let (Some(kernel), Some(IpAddr::V4(address))) = (&mut self.kernel, route.address) else { return };
        self.lingering.remove(&address);
        let hop = route.hops.iter().find_map(|first| hop(ports, &self.neighbours, first.port));
        let done = match hop {
            Some(hop) => kernel.install(address, hop, route.mtu),
            None => Err(io::Error::other("the address of the neighbour is not known")),
        };
        if let Err(error) = done {
            journal.note(true, format!("route to {address}: {error}"));
        }
    }

    pub fn withdraw(&mut self, now_ns: u64, to: HostId, address: Option<IpAddr>) {
        let route = self.wanted.remove(&to);
        if let (Some(route), Some(IpAddr::V4(address))) = (route, address) {
            self.lingering.insert(address, (now_ns + LINGER_NS, route.hops.iter().map(|hop| hop.port).collect()));
        }
    }

    /// The time of the next [`Routing::tick`].
    pub fn due_ns(&self) -> u64 {
        let stale_ns = self.stale_until_ns.unwrap_or(u64::MAX);
        self.lingering.values().map(|entry| entry.0).min().unwrap_or(u64::MAX).min(stale_ns)
    }

    /// Removes the withdrawn routes whose time is over, or whose cable has lost its carrier, and those of an earlier
    /// daemon that have not been replaced.
    pub fn tick(&mut self, now_ns: u64, ports: &Ports, journal: &mut Journal) {
        let has_carrier = |port: &Port| {
            ports.get(port.0).and_then(|of| of.interface.as_ref()).is_some_and(|interface| interface.has_carrier)
        };
        let is_over = |(until_ns, ports): &(u64, Vec<Port>)| *until_ns <= now_ns || !ports.iter().any(has_carrier);
        let over: Vec<Ipv4Addr> =
            self.lingering.iter().filter(|(_, entry)| is_over(entry)).map(|(&address, _)| address).collect();
        for address in over {
            self.lingering.remove(&address);
            if let Some(Err(error)) = self.kernel.as_mut().map(|kernel| kernel.withdraw(address)) {
                journal.note(true, format!("route to {address} is not removed: {error}"));
            }
        }
        if self.stale_until_ns.is_none_or(|until_ns| now_ns < until_ns) {
            return;
        }
        self.stale_until_ns = None;
        match self.kernel.as_mut().map(Kernel::drop_stale) {
            Some(Ok(count)) if count > 0 => journal.note(
                false,
                format!("{count} routes of an earlier daemon are removed: their hosts are not in the fabric"),
            ),
            Some(Err(error)) => journal.note(true, format!("routes of an earlier daemon are not removed: {error}")),
            _ => {}
        }
    }

    /// Makes the neighbour at a port whose link has come up known to the kernel.
    pub fn link_rose(&mut self, ports: &Ports, journal: &mut Journal, port: Port) {
        let (Some(kernel), Some(hop)) = (&mut self.kernel, hop(ports, &self.neighbours, port)) else { return };
        if let Err(error) = kernel.resolve_neighbour(hop) {
            journal.note(true, format!("the neighbour at port {} is not resolved: {error}", port.0));
        }
    }

    /// Drops the packets that wait for the neighbour at a port whose link has fallen. Call it when the routes lead
    /// elsewhere, so no new packet waits.
    pub fn link_fell(&mut self, ports: &Ports, journal: &mut Journal, port: Port) {
        let (Some(kernel), Some(hop)) = (&mut self.kernel, hop(ports, &self.neighbours, port)) else { return };
        if let Err(error) = kernel.forget_neighbour(hop) {
            journal.note(true, format!("packets wait for a neighbour at port {}: {error}", port.0));
        }
    }

    /// Removes all that the daemon has added.
    pub fn end(&mut self, journal: &mut Journal) {
        if let Some(Err(error)) = self.kernel.as_mut().map(Kernel::end) {
            journal.note(true, format!("routes, rule or address are not removed: {error}"));
        }
    }
}

/// The next hop at a port, if its interface and the neighbour's address are known.
fn hop(ports: &Ports, neighbours: &BTreeMap<u16, Ipv6Addr>, port: Port) -> Option<Hop> {
    let interface = ports.get(port.0)?.interface.as_ref()?.index;
    Some(Hop { interface, via: *neighbours.get(&port.0)? })
}
