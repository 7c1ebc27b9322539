// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Links that a machine may give speeds of their own: classes of links in closed form, and single links of a graph.
use super::{Kind, Topology};
use crate::id::{Port, RouterId};

/// How the links between routers of a topology are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkClasses {
    /// All are alike.
    One,
    /// Class 0: links within a group (on a Slim Fly, within a side); class 1: links between groups.
    LocalAndGlobal,
    /// A class for the links above each level of a tree but the top.
    Levels(u32),
    /// A class for each dimension.
    Dimensions(u32),
}

impl LinkClasses {
    pub fn count(self) -> u32 {
        match self {
            LinkClasses::One => 1,
            LinkClasses::LocalAndGlobal => 2,
            LinkClasses::Levels(count) | LinkClasses::Dimensions(count) => count,
        }
    }
}

/// The speed that a graph's text gives to a link. `None`: the machine's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EdgeSpeed {
    pub bandwidth_bytes_per_s: Option<u64>,
    pub latency_ps: Option<u64>,
}

impl Topology {
    pub fn link_classes(&self) -> LinkClasses {
        match &self.kind {
            Kind::Mesh { dimensions, .. } | Kind::Torus { dimensions, .. } => {
                LinkClasses::Dimensions(dimensions.len() as u32)
            }
            Kind::Hypercube { order, .. } => LinkClasses::Dimensions(*order),
            Kind::HyperX(hyperx) => LinkClasses::Dimensions(hyperx.dimensions.len() as u32),
            Kind::FatTree(tree) => LinkClasses::Levels(tree.levels().len() as u32 - 1),
            Kind::Dragonfly(_) | Kind::DragonflyPlus(_) | Kind::SlimFly(_) => LinkClasses::LocalAndGlobal,
            Kind::Planes(planes) => planes.plane.link_classes(),
            Kind::Crossbar { .. } | Kind::Graph => LinkClasses::One,
        }
    }

    /// The class of a port's link to another router: below [`LinkClasses::count`]. O(dimensions), O(levels) or O(1).
    pub fn link_class(&self, router: RouterId, port: Port) -> u32 {
        let at = u32::from(port.0);
        match &self.kind {
            Kind::Mesh { .. } | Kind::Torus { .. } => at / 2,
            Kind::Hypercube { .. } => at,
            Kind::HyperX(hyperx) => hyperx.dimension(at),
            Kind::FatTree(tree) => {
                let level = tree.place(router).level;
                level as u32 - u32::from(at < tree.levels()[level].down_ports)
            }
            Kind::Dragonfly(dragonfly) => dragonfly.is_global(port).into(),
            Kind::DragonflyPlus(fly) => (!fly.is_leaf(router) && at >= fly.leaves_per_group).into(),
            Kind::SlimFly(fly) => (at >= fly.degree() - fly.q).into(),
            Kind::Planes(planes) => planes.plane.link_class(planes.local(router), port),
            Kind::Crossbar { .. } | Kind::Graph => 0,
        }
    }

    /// The speed that a graph's text gives to the link at a port, to a router or to a node.
    pub fn edge_speed(&self, router: RouterId, port: Port) -> EdgeSpeed {
        let number = self.edge_numbers.get(self.channel(router, port) as usize);
        number.and_then(|&number| self.edge_speeds.get(usize::from(number))).copied().unwrap_or_default()
    }

    /// All speeds that a graph's text gives to links.
    pub fn edge_speeds(&self) -> &[EdgeSpeed] {
        &self.edge_speeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Peer;
    use crate::samples;
    use std::string::ToString;

    /// The class that follows from the routers at both ends.
    fn expected(topology: &Topology, a: RouterId, b: RouterId) -> u32 {
        let group = |of: fn(&Topology, RouterId) -> u32| u32::from(of(topology, a) != of(topology, b));
        match topology.kind() {
            Kind::Mesh { .. } | Kind::Torus { .. } | Kind::HyperX(_) => {
                let (a, b) = (topology.coordinates(a), topology.coordinates(b));
                a.iter().zip(b).position(|(a, b)| a != b).unwrap() as u32
            }
            Kind::Hypercube { .. } => (a.0 ^ b.0).trailing_zeros(),
            Kind::FatTree(tree) => tree.place(a).level.min(tree.place(b).level) as u32,
            Kind::Dragonfly(fly) => u32::from(fly.group(a) != fly.group(b)),
            Kind::DragonflyPlus(fly) => u32::from(fly.group(a) != fly.group(b)),
            Kind::SlimFly(_) => group(|topology, router| router.0 / (topology.routers() / 2)),
            Kind::Planes(_) => unreachable!("no sample has planes"),
            Kind::Crossbar { .. } | Kind::Graph => 0,
        }
    }

    #[test]
    fn links_have_the_classes_of_their_ends() {
        for (name, topology) in samples::all() {
            let mut seen = alloc::vec![false; topology.link_classes().count() as usize];
            for router in (0..topology.routers()).map(RouterId) {
                for port in (0..topology.ports(router)).map(Port) {
                    let Peer::Router { router: other, port: back } = topology.peer(router, port) else { continue };
                    let class = topology.link_class(router, port);
                    assert_eq!(class, expected(&topology, router, other), "{name}: {router} {port}");
                    assert_eq!(class, topology.link_class(other, back), "{name}: from both ends");
                    seen[class as usize] = true;
                }
            }
            let many = matches!(topology.link_classes(), LinkClasses::LocalAndGlobal | LinkClasses::Levels(_));
            let is_one_group = matches!(topology.kind(), Kind::DragonflyPlus(fly) if fly.groups == 1);
            let has_all = seen.iter().all(|&seen| seen);
            assert!(!many || topology.routers() < 5 || is_one_group || has_all, "{name}: {seen:?}");
        }
    }

    #[test]
    fn a_graph_gives_single_links_their_speed() {
        let text = "router a\nrouter b\nrouter c\nlink a b 2 latency_ns=1.5\nlink b c bandwidth_MBps=100 latency_ns=0\n\
                    link a c 3\nnode m a bandwidth_MBps=0.5\nnode n c";
        let graph = Topology::graph(text).unwrap();
        let speed = |bandwidth_bytes_per_s, latency_ps| EdgeSpeed { bandwidth_bytes_per_s, latency_ps };
        let of = |router, port| graph.edge_speed(RouterId(router), Port(port));
        for (router, port, expected) in [
            (0, 0, speed(None, Some(1500))),
            (1, 0, speed(None, Some(1500))),
            (1, 1, speed(Some(100_000_000), Some(0))),
            (2, 0, speed(Some(100_000_000), Some(0))),
            (0, 1, speed(None, None)),
            (0, 2, speed(Some(500_000), None)),
            (2, 2, speed(None, None)),
        ] {
            assert_eq!(of(router, port), expected, "{router} {port}");
        }
        let inside = graph.with_nodes_inside(&[RouterId(0), RouterId(1)]).unwrap();
        assert_eq!(inside.edge_speed(RouterId(2), Port(0)), speed(Some(100_000_000), Some(0)));
        assert_eq!(inside.edge_speed(RouterId(0), Port(3)), EdgeSpeed::default());
        for (wrong, line) in [
            ("link a b latency_ns=-1", "line 4: `latency_ns=-1`"),
            ("link a b bandwidth_MBps=0", "line 4: `bandwidth_MBps=0`"),
            ("link a b speed=3", "line 4: `speed=3`: give bandwidth_MBps"),
            ("link a b latency_ns=1 2", "line 4: `2`"),
            ("node n a latency_ns=x", "line 4: `latency_ns=x`"),
        ] {
            let error = Topology::graph(&text.replace("link a b 2 latency_ns=1.5", wrong)).unwrap_err().to_string();
            assert!(error.starts_with(line), "{error}");
        }
    }
}
