// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fabric as one host knows it: the hosts that it reaches, and the links that both ends announce.
//!
//! # Invariants
//!
//! 1. A link is on the map if each end announces it, with the port and the boot of the other. So an announcement of an
//!    earlier boot, or of a host that is gone, gives no link.
//! 2. Hosts ascend by number, links by their ends. Hosts with the same announcements in one part of the fabric have the
//!    same hosts, links and digest.
use crate::announcement::{Announcement, DRAINED, LinkEnd};
use crate::id::{Boot, HostId};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use selvedge_fabric::routing::mix;
use selvedge_fabric::{Cable, NodeId, Port, RouterId, Station, Topology, TopologyError};

/// A host of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapHost {
    pub host: HostId,
    pub boot: Boot,
    pub name: String,
    pub address: Option<IpAddr>,
    pub position: Option<[u16; 2]>,
}

/// A link of the map. The first end has the smaller number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MapLink {
    pub ends: [(HostId, Port); 2],
    /// The larger of both ends' costs.
    pub cost: u16,
    /// The smaller of both ends' MTUs.
    pub mtu: u16,
}

impl MapLink {
    pub fn is_drained(&self) -> bool {
        self.cost == DRAINED
    }
}

/// The hosts that can be reached, and their links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    me: usize,
    hosts: Vec<MapHost>,
    links: Vec<MapLink>,
    digest: u64,
    /// Boots of the own number, other than the own boot, to which reachable hosts announce links: their checks.
    claims: Vec<u32>,
}

impl Map {
    /// The map of `own`, from its own announcement and those of others. Announcements of the own number are ignored.
    pub(crate) fn new(
        own: (HostId, Boot, Announcement),
        others: impl Iterator<Item = (HostId, Boot, Announcement)>,
    ) -> Map {
        let id = own.0;
        let mut known: Vec<(HostId, Boot, Announcement)> = others.filter(|other| other.0 != id).collect();
        known.push(own);
        known.sort_unstable_by_key(|each| each.0);
        let find = |host: HostId| known.binary_search_by_key(&host, |each| each.0).ok();
        let confirmed = |at: usize, link: &LinkEnd| -> Option<(usize, LinkEnd)> {
            let there = find(link.neighbour)?;
            let (_, boot, other) = &known[there];
            let back = other.links.binary_search_by_key(&link.neighbour_port, |back| back.port).ok()?;
            let back = other.links[back];
            let (host, own_boot, _) = &known[at];
            let ours = (*host, own_boot.check(), link.port);
            let agrees = boot.check() == link.check && (back.neighbour, back.check, back.neighbour_port) == ours;
            agrees.then_some((there, back))
        };
        let mut links = Vec::new();
        let mut is_reached = alloc::vec![false; known.len()];
        let mut open: Vec<usize> = find(id).into_iter().collect();
        open.iter().for_each(|&me| is_reached[me] = true);
        while let Some(at) = open.pop() {
            for link in &known[at].2.links {
                let Some((there, back)) = confirmed(at, link) else { continue };
                if !core::mem::replace(&mut is_reached[there], true) {
                    open.push(there);
                }
                if at < there {
                    links.push(MapLink {
                        ends: [(known[at].0, link.port), (known[there].0, back.port)],
                        cost: link.cost.max(back.cost),
                        mtu: link.mtu.min(back.mtu),
                    });
                }
            }
        }
        links.sort_unstable();
        let mut claims = BTreeSet::new();
        let mut hosts = Vec::new();
        for ((host, boot, announcement), _) in known.into_iter().zip(is_reached).filter(|(_, reached)| *reached) {
            claims.extend(announcement.links.iter().filter(|link| link.neighbour == id).map(|link| link.check));
            let Announcement { name, address, position, .. } = announcement;
            hosts.push(MapHost { host, boot, name, address, position });
        }
        let me = hosts.binary_search_by_key(&id, |each| each.host).unwrap_or(0);
        if let Some(own) = hosts.get(me) {
            claims.remove(&own.boot.check());
        }
        let digest = digest(&hosts, &links);
        Map { me, hosts, links, digest, claims: claims.into_iter().collect() }
    }

    /// The hosts, ascending; the own one is among them.
    pub fn hosts(&self) -> &[MapHost] {
        &self.hosts
    }

    pub fn links(&self) -> &[MapLink] {
        &self.links
    }

    /// A number that is equal for equal hosts and links, on every host.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Position of the own host.
    pub fn me(&self) -> usize {
        self.me
    }

    /// Position of a host, which is its number as a router and as a node of [`Map::topology`].
    pub fn position(&self, host: HostId) -> Option<usize> {
        self.hosts.binary_search_by_key(&host, |each| each.host).ok()
    }

    pub fn host(&self, host: HostId) -> Option<&MapHost> {
        self.position(host).map(|at| &self.hosts[at])
    }

    pub(crate) fn is_claimed(&self, boot: Boot) -> bool {
        self.claims.binary_search(&boot.check()).is_ok()
    }

    /// The map as a topology of `fabric`: a router with one node for each host, in the same order. Ports keep their
    /// numbers; the node of router `r` is behind the port after the last one that has a link.
    pub fn topology(&self) -> Result<Topology, TopologyError> {
        self.topology_of(|_| true)
    }

    /// As [`Map::topology`], without drained links if the rest still joins all hosts.
    pub fn topology_without_drained(&self) -> Result<Topology, TopologyError> {
        match self.links.iter().any(MapLink::is_drained) {
            true => self.topology_of(|link| !link.is_drained()).or_else(|_| self.topology()),
            false => self.topology(),
        }
    }

    fn topology_of(&self, is_used: impl Fn(&MapLink) -> bool) -> Result<Topology, TopologyError> {
        let station = |host: &MapHost| Station { name: String::new(), ports: 0, position: host.position };
        let mut stations: Vec<Station> = self.hosts.iter().map(station).collect();
        let mut cables = Vec::with_capacity(self.links.len());
        for link in &self.links {
            let ends = link.ends.map(|(host, port)| (self.position(host).unwrap_or(0), port));
            ends.iter().for_each(|&(at, port)| stations[at].ports = stations[at].ports.max(port.0 + 1));
            if is_used(link) {
                let ends = ends.map(|(at, port)| (RouterId(at as u32), port));
                cables.push(Cable { ends, weight: link.cost.into() });
            }
        }
        Topology::from_cables(&stations, &cables)
    }

    pub(crate) fn router(&self, host: HostId) -> Option<RouterId> {
        self.position(host).map(|at| RouterId(at as u32))
    }

    pub(crate) fn node(&self, host: HostId) -> Option<NodeId> {
        self.position(host).map(|at| NodeId(at as u32))
    }
}

fn digest(hosts: &[MapHost], links: &[MapLink]) -> u64 {
    let mut digest = hosts.len() as u64;
    let mut add = |word: u64| digest = mix(digest ^ word);
    for host in hosts {
        add(host.host.0);
        add(host.boot.0);
        add(host.position.map_or(u64::MAX, |[x, y]| u64::from(x) << 16 | u64::from(y)));
    }
    for link in links {
        for (host, port) in link.ends {
            add(host.0);
            add(port.0.into());
        }
        add(u64::from(link.cost) << 16 | u64::from(link.mtu));
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host with links: own port, neighbour, boot of the neighbour, its port.
    fn host(number: u64, boot: u64, links: &[(u16, u64, u64, u16)]) -> (HostId, Boot, Announcement) {
        let link = |&(port, neighbour, its_boot, neighbour_port)| LinkEnd {
            port: Port(port),
            neighbour: HostId(neighbour),
            check: Boot(its_boot).check(),
            neighbour_port: Port(neighbour_port),
            cost: 1,
            mtu: 1500,
        };
        let links = links.iter().map(link).collect();
        (HostId(number), Boot(boot), Announcement { links, ..Announcement::default() })
    }

    fn map(own: (HostId, Boot, Announcement), others: &[(HostId, Boot, Announcement)]) -> Map {
        Map::new(own, others.iter().cloned())
    }

    #[test]
    fn a_link_needs_both_ends_with_ports_and_boots() {
        let own = || host(1, 11, &[(0, 2, 12, 3)]);
        let links = |other| map(own(), &[other]).links().len();
        assert_eq!(links(host(2, 12, &[(3, 1, 11, 0)])), 1);
        assert_eq!(links(host(2, 12, &[(3, 1, 10, 0)])), 0, "it names an earlier boot of ours");
        assert_eq!(links(host(2, 13, &[(3, 1, 11, 0)])), 0, "we name an earlier boot of it");
        assert_eq!(links(host(2, 12, &[(3, 1, 11, 1)])), 0, "another port of ours");
        assert_eq!(links(host(2, 12, &[(2, 1, 11, 0)])), 0, "another port of it");
        assert_eq!(links(host(2, 12, &[(3, 3, 11, 0)])), 0, "another host");
        assert_eq!(links(host(2, 12, &[])), 0);
    }

    #[test]
    fn hosts_beyond_a_link_that_is_none_are_not_on_the_map() {
        let own = || host(1, 11, &[(0, 2, 12, 0)]);
        let two = host(2, 12, &[(0, 1, 11, 0), (1, 3, 13, 0)]);
        let three = |boot| host(3, boot, &[(0, 2, 12, 1)]);
        let whole = map(own(), &[three(13), two.clone()]);
        assert_eq!(whole.hosts().iter().map(|host| host.host.0).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(map(own(), &[two.clone(), three(14)]).hosts().len(), 2);
        // The same map from the other end.
        let other = map(three(13), &[own(), two]);
        assert_eq!((other.digest(), other.links()), (whole.digest(), whole.links()));
        assert_eq!((whole.me(), other.me()), (0, 2));
        assert_eq!(other.topology(), whole.topology());
    }

    #[test]
    fn links_to_another_boot_of_the_own_number_are_claims() {
        // Host 3 has a link to another host 1, and is reached over host 2.
        let own = host(1, 11, &[(0, 2, 12, 0)]);
        let two = host(2, 12, &[(0, 1, 11, 0), (1, 3, 13, 0)]);
        let three = host(3, 13, &[(0, 2, 12, 1), (1, 1, 99, 0)]);
        let claimed = map(own.clone(), &[two.clone(), three.clone()]);
        assert!(claimed.is_claimed(Boot(99)) && !claimed.is_claimed(Boot(11)) && !claimed.is_claimed(Boot(98)));
        assert!(!map(own, &[three]).is_claimed(Boot(99)), "a host that is not reached confirms nothing");
    }

    #[test]
    fn several_cables_between_two_hosts_and_wrong_ones_beside_them() {
        let own = host(1, 11, &[(0, 2, 12, 0), (1, 2, 12, 1), (2, 2, 12, 1), (3, 1, 11, 4)]);
        let two = host(2, 12, &[(0, 1, 11, 0), (1, 1, 11, 1)]);
        let found = map(own, &[two]);
        assert_eq!(found.links().len(), 2);
        let topology = found.topology().unwrap();
        assert_eq!((topology.routers(), topology.ports(RouterId(0))), (2, 3));
    }
}
