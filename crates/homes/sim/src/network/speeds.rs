// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bandwidth and latency of each channel.
//!
//! A link between routers has the speed of its class ([`selvedge_fabric::LinkClasses`]), a node's link that of
//! [`NetworkConfig::node_link`]; without it, both have that of [`NetworkConfig::link`]. A graph's text may give single
//! links another one. Both directions of a link are alike.

use selvedge_fabric::{EdgeSpeed, NodeId, Peer, Port, RouterId, Topology};

use super::config::{LinkSpeed, NetworkConfig};
use crate::time::Time;

/// The speed of a channel: the time of a full flit, and from first byte in to first byte out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Speed {
    pub flit_time: Time,
    pub latency: Time,
}

impl NetworkConfig {
    /// Returns the speed of a router's output.
    pub fn speed_at(&self, topology: &Topology, router: RouterId, port: Port) -> Speed {
        let speed = match topology.peer(router, port) {
            Peer::Node(node) if node.0 >= self.inside_from => {
                return Speed { latency: Time::ZERO, ..self.speed(self.node_speed()) };
            }
            Peer::Node(_) => self.node_speed(),
            _ if self.class_links.is_empty() => self.link.speed(),
            _ => {
                let class = topology.link_class(router, port) as usize;
                self.class_links.get(class).copied().unwrap_or(self.link.speed())
            }
        };
        self.speed(with_own(speed, topology.edge_speed(router, port)))
    }

    /// Returns the speed of a node's link, in both directions.
    pub fn speed_of_node(&self, topology: &Topology, node: NodeId) -> Speed {
        let (router, port) = topology.attachment(node);
        self.speed_at(topology, router, port)
    }

    /// Returns the speed of a channel. O(log routers).
    pub fn speed_of(&self, topology: &Topology, channel: u32) -> Speed {
        match topology.channel_source(channel) {
            Some((router, port)) => self.speed_at(topology, router, port),
            None => self.speed_of_node(topology, NodeId(channel - topology.injection_channel(NodeId(0)))),
        }
    }

    /// Returns the speed of a class of links between routers, as far as no single link has another.
    pub(super) fn speed_of_class(&self, class: usize) -> Speed {
        self.speed(self.class_links.get(class).copied().unwrap_or(self.link.speed()))
    }

    /// Returns all speeds that links between routers, or all links, may have.
    pub(crate) fn speeds(&self, topology: &Topology, with_nodes: bool) -> Vec<Speed> {
        let mut bases = if self.class_links.is_empty() { vec![self.link.speed()] } else { self.class_links.clone() };
        if with_nodes {
            bases.push(self.node_speed());
        }
        let own = topology.edge_speeds().iter().flat_map(|own| bases.iter().map(|base| with_own(*base, *own)));
        let own: Vec<LinkSpeed> = own.collect();
        bases.into_iter().chain(own).map(|speed| self.speed(speed)).collect()
    }

    fn node_speed(&self) -> LinkSpeed {
        self.node_link.unwrap_or(self.link.speed())
    }

    fn speed(&self, link: LinkSpeed) -> Speed {
        let flit_time = Time::of_bytes(u64::from(self.link.flit_bytes), link.bandwidth_bytes_per_s);
        Speed { flit_time, latency: link.latency }
    }
}

fn with_own(speed: LinkSpeed, own: EdgeSpeed) -> LinkSpeed {
    LinkSpeed {
        bandwidth_bytes_per_s: own.bandwidth_bytes_per_s.unwrap_or(speed.bandwidth_bytes_per_s),
        latency: own.latency_ps.map_or(speed.latency, Time),
    }
}

#[cfg(test)]
#[path = "speeds_tests.rs"]
mod tests;
