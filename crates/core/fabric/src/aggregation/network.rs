// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The usable part of a topology and the sites of its aggregation nodes: the base of a set of trees.
//!
//! # Invariants
//!
//! 1. A link is usable if its routers and both of its channels are.
//! 2. All usable nodes are in one part of the network, and every usable site is in that part.
use super::{Part, Site, Sites, TreeError};
use crate::id::{AnId, NodeId, Peer, Port, RouterId};
use crate::topology::{Kind, Topology};
use alloc::collections::BTreeSet;
use alloc::string::ToString;
use alloc::vec::Vec;

pub(super) struct Network<'a> {
    pub topology: &'a Topology,
    pub sites: Vec<Site>,
    /// The router of each site.
    pub routers: Vec<RouterId>,
    /// Whether each output channel is one direction of a usable link.
    links: Vec<bool>,
    /// The usable sites at router `r` are `at[first_site[r]..first_site[r + 1]]`, ascending.
    first_site: Vec<u32>,
    at: Vec<AnId>,
    /// The usable nodes, ascending.
    pub nodes: Vec<NodeId>,
    /// End nodes with aggregation nodes of their own beneath those at `sites`; their numbers follow those of `sites`.
    pub hosts: Vec<NodeId>,
}

impl<'a> Network<'a> {
    pub fn new(topology: &'a Topology, sites: &Sites, usable: impl Fn(Part) -> bool) -> Result<Network<'a>, TreeError> {
        let hosts = match sites {
            Sites::RoutersAndHosts(hosts) => hosts.clone(),
            _ => Vec::new(),
        };
        let sites = numbered(topology, sites)?;
        let routers_usable: Vec<bool> =
            (0..topology.routers()).map(|router| usable(Part::Router(RouterId(router)))).collect();
        let lost = (sites.len() as u32..).zip(&hosts).filter(|&(an, _)| !usable(Part::An(AnId(an))));
        let without_an: BTreeSet<NodeId> = lost.map(|(_, &node)| node).collect();
        let node_usable = |node: NodeId| {
            let (router, port) = topology.attachment(node);
            routers_usable[router.0 as usize]
                && !without_an.contains(&node)
                && usable(Part::Node(node))
                && usable(Part::Channel(topology.injection_channel(node)))
                && usable(Part::Channel(topology.channel(router, port)))
        };
        let mut links = Vec::with_capacity((topology.channels() - topology.nodes()) as usize);
        for router in (0..topology.routers()).map(RouterId) {
            for port in (0..topology.ports(router)).map(Port) {
                links.push(match topology.peer(router, port) {
                    Peer::Router { router: next, port: back } => {
                        routers_usable[router.0 as usize]
                            && routers_usable[next.0 as usize]
                            && usable(Part::Channel(topology.channel(router, port)))
                            && usable(Part::Channel(topology.channel(next, back)))
                    }
                    _ => false,
                });
            }
        }
        let nodes: Vec<NodeId> = (0..topology.nodes()).map(NodeId).filter(|&node| node_usable(node)).collect();
        let from = *nodes.first().ok_or(TreeError::NoNodes)?;
        let routers = sites
            .iter()
            .map(|site| match *site {
                Site::Router(router) => router,
                Site::Host(node) => topology.attachment(node).0,
            })
            .collect();
        let first_site = alloc::vec![0; topology.routers() as usize + 1];
        let mut network = Network { topology, sites, routers, links, first_site, at: Vec::new(), nodes, hosts };

        let costs = network.costs(&[topology.attachment(from).0]);
        let reached = |router: RouterId| costs[router.0 as usize] != u64::MAX;
        if let Some(&node) = network.nodes.iter().find(|&&node| !reached(topology.attachment(node).0)) {
            return Err(TreeError::Unreachable { node, from });
        }
        let site_usable = |an: u32| {
            let is_reached = match network.sites[an as usize] {
                Site::Router(router) => reached(router),
                Site::Host(node) => network.nodes.binary_search(&node).is_ok(),
            };
            is_reached && usable(Part::An(AnId(an)))
        };
        let mut at: Vec<AnId> = (0..network.sites.len() as u32).filter(|&an| site_usable(an)).map(AnId).collect();
        if at.is_empty() {
            return Err(TreeError::NoSites);
        }
        at.sort_by_key(|an| network.routers[an.0 as usize]);
        for an in &at {
            network.first_site[network.routers[an.0 as usize].0 as usize + 1] += 1;
        }
        for router in 1..network.first_site.len() {
            network.first_site[router] += network.first_site[router - 1];
        }
        network.at = at;
        Ok(network)
    }

    /// The usable sites at a router, ascending.
    pub fn sites_at(&self, router: RouterId) -> &[AnId] {
        let r = router.0 as usize;
        &self.at[self.first_site[r] as usize..self.first_site[r + 1] as usize]
    }

    /// The usable sites, by router and then by number.
    pub fn usable_sites(&self) -> &[AnId] {
        &self.at
    }

    pub fn router(&self, an: AnId) -> RouterId {
        self.routers[an.0 as usize]
    }

    /// The routers at the other ends of usable links.
    pub fn neighbours(&self, router: RouterId) -> impl Iterator<Item = (Port, RouterId)> + '_ {
        self.topology
            .neighbours(router)
            .filter(move |&(port, _)| self.links[self.topology.channel(router, port) as usize])
    }

    /// Cost of a link: its weight. A link between two groups of a dragonfly counts three times, for it is longer, and
    /// there are few. Then a path of two such links through a third group costs more than one with a link inside of
    /// both groups, and data is aggregated within a group before it leaves.
    pub fn cost(&self, router: RouterId, port: Port) -> Option<u32> {
        if !self.links[self.topology.channel(router, port) as usize] {
            return None;
        }
        let global = match self.topology.kind() {
            Kind::Dragonfly(dragonfly) => dragonfly.is_global(port),
            Kind::DragonflyPlus(fly) => !fly.is_leaf(router) && u32::from(port.0) >= fly.leaves_per_group,
            _ => false,
        };
        Some(self.topology.weight(router, port) * if global { 3 } else { 1 })
    }

    /// Whether routers of equal distance to a root gather at one next router, where others spread: the leaves of a
    /// dragonfly+ have the choice of several spines, and their data is to be aggregated before it leaves the group.
    pub fn gathers(&self, router: RouterId) -> bool {
        matches!(self.topology.kind(), Kind::DragonflyPlus(fly) if fly.is_leaf(router))
    }

    pub fn costs(&self, from: &[RouterId]) -> Vec<u64> {
        self.topology.costs(from, |router, port| self.cost(router, port))
    }
}

/// The places of aggregation nodes that a tree is grown from. All sites that are given must exist, once each.
fn numbered(topology: &Topology, sites: &Sites) -> Result<Vec<Site>, TreeError> {
    let routers = || (0..topology.routers()).map(|router| Site::Router(RouterId(router))).collect();
    let hosts = |nodes: &[NodeId]| nodes.iter().map(|&node| Site::Host(node)).collect();
    let given: Vec<Site> = match sites {
        Sites::AllRouters => return Ok(routers()),
        Sites::Routers(routers) => routers.iter().map(|&router| Site::Router(router)).collect(),
        Sites::Hosts(nodes) | Sites::RoutersAndHosts(nodes) => hosts(nodes),
    };
    let exists = |site: &&Site| match **site {
        Site::Router(router) => router.0 < topology.routers(),
        Site::Host(node) => node.0 < topology.nodes(),
    };
    if let Some(site) = given.iter().find(|site| !exists(site)) {
        let (routers, nodes) = (topology.routers(), topology.nodes());
        return Err(TreeError::NoSuchSite { site: site.to_string(), routers, nodes });
    }
    let mut sorted = given.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|two| two[0] == two[1]) {
        Some(two) => Err(TreeError::SiteTwice { site: two[0].to_string() }),
        None if matches!(sites, Sites::RoutersAndHosts(_)) => Ok(routers()),
        None => Ok(given),
    }
}
