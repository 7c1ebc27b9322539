// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Managers of a fabric that has come to rest: as after a discovery, without its frames.
//!
//! A simulator of many routers starts so. A discovery costs O(hosts × links) frames, and a map of each host for each
//! part of the flood.
//!
//! # Invariants
//!
//! 1. All links are up at both ends, every table has all announcements, nothing waits for an acknowledgement, and all
//!    maps are equal.
//! 2. From then on such a manager differs from another in one thing: it makes no routes by destination
//!    ([`Effect::Install`](super::Effect::Install)). Its caller takes source routes of its map.
use super::{Manager, own};
use crate::announcement::Announced;
use crate::config::Config;
use crate::id::{Boot, End, HostId};
use crate::map::Map;
use crate::port::LinkPort;
use crate::wire::Edition;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use selvedge_fabric::Port;

/// The hosts and links of a fabric that its caller knows.
#[derive(Clone, Debug, Default)]
pub struct KnownFabric {
    /// By host: its boot, and the announcement of its links.
    hosts: BTreeMap<HostId, Announced>,
    /// The other end of each link, by host and port.
    ends: BTreeMap<(HostId, Port), End>,
    mtu: u32,
}

impl KnownFabric {
    /// A fabric of hosts and of links between their ports. Each link has one MTU. Hosts and ports that links name must
    /// be those of `configs`; others are left out. The configs of all managers must be these.
    pub fn new(configs: &[Config], links: &[[(HostId, Port); 2]], mtu: u32) -> KnownFabric {
        let boots: BTreeMap<HostId, (Boot, u16)> =
            configs.iter().map(|config| (config.host, (config.boot, config.ports))).collect();
        let end = |(host, port): (HostId, Port)| {
            let &(boot, ports) = boots.get(&host)?;
            (port.0 < ports).then_some(End { host, boot, port, session: 1 })
        };
        let mut fabric = KnownFabric { mtu, ..KnownFabric::default() };
        for &[a, b] in links {
            if let (Some(one), Some(other)) = (end(a), end(b)) {
                fabric.ends.extend([(a, other), (b, one)]);
            }
        }
        for config in configs {
            let ports: Vec<LinkPort> = fabric.ports(config, 0).collect();
            let edition = Edition { host: config.host, boot: config.boot, sequence: 1 };
            let lifetime_ms = (config.timing.clamped().lifetime_ns / 1_000_000).clamp(1, u32::MAX.into()) as u32;
            let body = own::announcement(config, ports.iter()).encode();
            fabric.hosts.insert(config.host, Announced { edition, lifetime_ms, body });
        }
        fabric
    }

    /// The ports of a host, those with a link up.
    fn ports<'a>(&'a self, config: &'a Config, now_ns: u64) -> impl Iterator<Item = LinkPort> + 'a {
        (0..config.ports).map(move |port| {
            let own = End { host: config.host, boot: config.boot, port: Port(port), session: 1 };
            let mut line = LinkPort::new(own);
            if let Some(&other) = self.ends.get(&(config.host, Port(port))) {
                line.join(now_ns, self.mtu, other, &config.timing.clamped());
            }
            line
        })
    }
}

impl Manager {
    /// The manager of a host in a fabric at rest, which `config` is a part of.
    pub fn at_rest(config: Config, now_ns: u64, fabric: &KnownFabric) -> Manager {
        let mut manager = Manager::new(config, now_ns);
        manager.makes_routes = false;
        let (now_ns, timing) = (manager.now_ns, manager.timing);
        let ports: Vec<LinkPort> = fabric.ports(&manager.config, now_ns).collect();
        for (line, port) in manager.lines.iter_mut().zip(ports) {
            line.up = port.up();
            line.said = port.up();
            line.announced = (port.mtu(), false);
            line.port = port;
        }
        for (_, announced) in fabric.hosts.iter().filter(|(host, _)| **host != manager.config.host) {
            manager.table.accept(now_ns, announced.clone(), 4 * timing.lifetime_ns);
        }
        manager.rest_own();
        let own = (manager.config.host, manager.config.boot, manager.announcement());
        let others = manager.table.decoded().map(|(edition, announcement)| (edition.host, edition.boot, announcement));
        manager.map = Map::new(own, others);
        manager.topology = manager.map.topology().ok();
        manager.generation += 1;
        (manager.settle_at_ns, manager.settled_ns) = (None, now_ns);
        manager.sweep_at_ns = now_ns + timing.unreachable_ns;
        manager.effects.clear();
        manager
    }
}
