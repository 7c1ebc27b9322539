// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to requests, made from the manager's state.
use std::collections::BTreeMap;

use selvedge_fabric::{Path, Port};
use selvedge_fabric_manager::{HostId, Lease, LinkPort, LoadReport, Manager, Map, MapLink, PortLoad, Route, State};

use crate::interfaces::Ports;
use crate::protocol::{self, Host, HostName, LeaseView, Link, LinkEnd, PortView, RouteView, SourceRoute, Topology};

/// Hosts of a map up to which source routes are shown: their check grows with the square, and the daemon's hellos wait for
/// it.
const SOURCE_HOSTS_MAX: usize = 128;

/// The number of a host, as people see it.
pub fn hex(host: HostId) -> String {
    format!("{:x}", host.0)
}

pub fn digest(map: &Map) -> String {
    format!("{:016x}", map.digest())
}

/// The name of a host, or its number if it is not on the map.
pub fn name(map: &Map, host: HostId) -> String {
    map.host(host).map(|host| host.name.clone()).filter(|name| !name.is_empty()).unwrap_or_else(|| hex(host))
}

pub fn ports(manager: &Manager, ports: &Ports, replays: &BTreeMap<u16, u64>) -> Vec<PortView> {
    let map = manager.map().0;
    let view = |(port, lines): (&LinkPort, &crate::interfaces::PortInterface)| {
        let (counters, neighbour) = (port.counters(), port.neighbour());
        let traffic = lines.interface.as_ref().map(|interface| interface.counters).unwrap_or_default();
        PortView {
            port: port.number().0,
            interface: lines.name.clone(),
            state: state(port),
            neighbour: neighbour.map(|end| name(map, end.host)),
            neighbour_port: neighbour.map(|end| end.port.0),
            mtu: port.mtu().or(port.carrier()),
            round_trip_us: port.rtt_ns().map(|rtt| rtt as f64 / 1000.0),
            is_enabled: port.is_enabled(),
            is_drained: port.is_drained(),
            frames_sent: counters.frames_sent,
            frames_received: counters.frames_received,
            frames_refused: counters.frames_refused,
            replays: replays.get(&port.number().0).copied().unwrap_or(0),
            hellos_lost: counters.hellos_lost,
            repeats: counters.repeats,
            drops: counters.drops,
            sent_packets: traffic.sent_packets,
            sent_bytes: traffic.sent_bytes,
            received_packets: traffic.received_packets,
            received_bytes: traffic.received_bytes,
            interface_errors: traffic.errors,
        }
    };
    manager.ports().zip(ports.iter().map(|(_, interface)| interface)).map(view).collect()
}

fn state(port: &LinkPort) -> String {
    match port.state() {
        State::Down if !port.is_enabled() => "disabled".into(),
        State::Down => "down".into(),
        State::Blocked(why) => format!("blocked: {why}"),
        State::Probing => "probing".into(),
        State::OneWay => "one way".into(),
        State::Up => "up".into(),
    }
}

pub fn hosts(manager: &Manager) -> Vec<Host> {
    let map = manager.map().0;
    let routes: BTreeMap<HostId, &Route> = manager.routes().map(|route| (route.to, route)).collect();
    let loads = loads(manager);
    let own = manager.config().host;
    let view = |host: &selvedge_fabric_manager::MapHost| {
        let route = routes.get(&host.host);
        let load = loads.get(&host.host).map(|report| report.load);
        Host {
            name: name(map, host.host),
            host: hex(host.host),
            address: host.address,
            is_self: host.host == own,
            hops: route.map(|route| route.cost),
            via: route.and_then(|route| route.hops.first()).map(|hop| name(map, hop.neighbour)),
            mtu: route.map(|route| route.mtu),
            processor_percent: load.map(|load| f64::from(load.processor_permille) / 10.0),
            temperature_c: load.and_then(|load| load.temperature_dc).map(|tenths| f64::from(tenths) / 10.0),
        }
    };
    map.hosts().iter().map(view).collect()
}

pub fn links(manager: &Manager, ports: &Ports) -> Vec<Link> {
    views_of(manager, ports, manager.map().0.links().iter())
}

fn views_of<'a>(manager: &Manager, ports: &Ports, links: impl Iterator<Item = &'a MapLink>) -> Vec<Link> {
    let (map, own, loads) = (manager.map().0, manager.config().host, loads(manager));
    let end = |(host, port): (HostId, Port)| {
        let load: Option<&PortLoad> =
            loads.get(&host).and_then(|report| report.ports.iter().find(|load| load.port == port));
        LinkEnd {
            name: name(map, host),
            host: hex(host),
            port: port.0,
            interface: ports.get(port.0).filter(|_| host == own).map(|port| port.name.clone()),
            sent_bytes_s: load.map(|load| load.sent_bytes_s),
            load_percent: load.and_then(|load| load.load_permille).map(|share| f64::from(share) / 10.0),
            errors: load.map(|load| load.errors),
            round_trip_us: load.and_then(|load| load.round_trip_ns).map(|ns| f64::from(ns) / 1000.0),
            queue_bytes: load.and_then(|load| load.queue_bytes).map(u64::from),
        }
    };
    let view = |link: &MapLink| Link { ends: link.ends.map(end), mtu: link.mtu, is_drained: link.is_drained() };
    links.map(view).collect()
}

/// The way between two hosts; None: a link has gone meanwhile, or no path leads there.
pub fn route(manager: &mut Manager, ports: &Ports, from: HostId, to: HostId) -> Option<RouteView> {
    let source = source_route(manager, from, to);
    let map = manager.map().0;
    let (hosts, mut links) = walk(map, from, &manager.kernel_path(from, to)?)?;
    let mtu = links.iter().map(|link| link.mtu).min().unwrap_or(u16::MAX);
    // The nearer end comes first.
    for (link, host) in links.iter_mut().zip(&hosts) {
        if link.ends[0].0 != *host {
            link.ends.swap(0, 1);
        }
    }
    Some(RouteView {
        from: host_name(map, from),
        to: host_name(map, to),
        hosts: hosts.iter().map(|&host| host_name(map, host)).collect(),
        links: views_of(manager, ports, links.iter()),
        mtu,
        kernel: None,
        source,
    })
}

/// The source route between two hosts; None also where the map is too large.
pub fn source_route(manager: &mut Manager, from: HostId, to: HostId) -> Option<SourceRoute> {
    if manager.map().0.hosts().len() > SOURCE_HOSTS_MAX {
        return None;
    }
    let (path, algorithm) = manager.source_path(from, to)?;
    let map = manager.map().0;
    let (hosts, _) = walk(map, from, &path)?;
    Some(SourceRoute {
        algorithm: algorithm.to_string(),
        hosts: hosts.iter().map(|&host| host_name(map, host)).collect(),
        ports: path.iter().map(|hop| hop.port.0).collect(),
    })
}

/// Hosts and links of a path.
fn walk(map: &Map, from: HostId, path: &Path) -> Option<(Vec<HostId>, Vec<MapLink>)> {
    let (mut hosts, mut links) = (vec![from], Vec::new());
    let mut at = from;
    for hop in path.iter() {
        let end = (at, hop.port);
        let link = *map.links().iter().find(|link| link.ends.contains(&end))?;
        at = link.ends[usize::from(link.ends[0] == end)].0;
        hosts.push(at);
        links.push(link);
    }
    Some((hosts, links))
}

pub fn host_name(map: &Map, host: HostId) -> HostName {
    HostName { name: name(map, host), host: hex(host) }
}

pub fn lease(map: &Map, lease: &Lease) -> LeaseView {
    LeaseView {
        id: lease.id.0,
        to: host_name(map, lease.to),
        address: lease.address,
        generation: lease.generation,
        ports: lease.path.iter().map(|hop| hop.port.0).collect(),
    }
}

/// The host of the map that a name or a number means.
pub fn named_host(map: &Map, text: &str) -> Result<HostId, String> {
    let is_meant = |host: &&selvedge_fabric_manager::MapHost| host.name == text || hex(host.host) == text;
    let found: Vec<HostId> = map.hosts().iter().filter(is_meant).map(|host| host.host).collect();
    match found.as_slice() {
        [host] => Ok(*host),
        [] => Err(format!("{text} is not in the fabric; `selvedge fabric hosts` lists those that are")),
        several => {
            let numbers: Vec<String> = several.iter().map(|&host| hex(host)).collect();
            Err(format!("{text} is the name of several hosts: give a number, {}", numbers.join(" or ")))
        }
    }
}

pub fn topology(manager: &Manager, ports: &Ports) -> Topology {
    Topology { digest: digest(manager.map().0), hosts: hosts(manager), links: links(manager, ports) }
}

fn loads(manager: &Manager) -> BTreeMap<HostId, &LoadReport> {
    manager.load_reports().map(|report| (report.host, report)).collect()
}

/// The port of this host that `HOST:PORT` names: the host by name, number or nothing, the port by its interface or
/// number.
pub fn named_port(text: &str, manager: &Manager, ports: &Ports) -> Result<u16, String> {
    let interfaces: Vec<&str> = ports.iter().map(|(_, port)| port.name.as_str()).collect();
    let config = manager.config();
    protocol::named_port(text, &config.name, &hex(config.host), &interfaces).map(|at| at as u16)
}
