// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Meshes, tori and hypercubes.
//!
//! Routers are numbered with dimension 0 running fastest. Port `2 d` leads to the next router in dimension `d` (+),
//! port `2 d + 1` to the previous one (-); node ports follow. Ports over the edge of a mesh are unconnected. Node `n`
//! is attached to router `n / nodes_per_router`.
//!
//! In a hypercube port `d` leads to the router whose number differs in bit `d`.
//!
//! A dimension wraps only if it has more than two routers. With two, the wrapping link would be parallel to the link
//! that exists; with one, it would connect a router to itself.
use super::{Draft, Kind, Topology, TopologyError};
use crate::id::{NodeId, RouterId};
use alloc::vec::Vec;

/// The most dimensions of a mesh or torus: `RouteState` has 16 bits for them, two for each.
pub const DIMENSIONS_MAX: usize = 8;
const ORDER_MAX: u32 = 20;

impl Topology {
    /// A mesh: `dimensions` routers in each direction, neighbours linked.
    pub fn mesh(dimensions: &[u32], nodes_per_router: u32) -> Result<Topology, TopologyError> {
        let kind = Kind::Mesh { dimensions: dimensions.to_vec(), nodes_per_router };
        grid(dimensions, &alloc::vec![false; dimensions.len()], nodes_per_router, kind, "mesh")
    }

    /// A torus: a mesh whose ends are linked in each dimension that `wrap` names; an empty `wrap` names all.
    pub fn torus(dimensions: &[u32], wrap: &[bool], nodes_per_router: u32) -> Result<Topology, TopologyError> {
        if !wrap.is_empty() && wrap.len() != dimensions.len() {
            return Err(TopologyError::Wrap { wrap: wrap.len(), dimensions: dimensions.len() });
        }
        let wrap: Vec<bool> =
            dimensions.iter().enumerate().map(|(d, &size)| size > 2 && wrap.get(d).copied().unwrap_or(true)).collect();
        let kind = Kind::Torus { dimensions: dimensions.to_vec(), wrap: wrap.clone(), nodes_per_router };
        grid(dimensions, &wrap, nodes_per_router, kind, "torus")
    }

    /// A hypercube of 2^`order` routers.
    pub fn hypercube(order: u32, nodes_per_router: u32) -> Result<Topology, TopologyError> {
        if order > ORDER_MAX {
            return Err(TopologyError::Order { is: order, limit: ORDER_MAX });
        }
        let routers = 1u32 << order;
        let nodes = node_count(routers.into(), nodes_per_router, "hypercube")?;
        let ports = order.saturating_add(nodes_per_router);
        let mut draft = Draft::new(routers.into(), |_| ports, nodes)?;
        for router in 0..routers {
            for d in 0..order {
                if router & (1 << d) == 0 {
                    draft.link(RouterId(router), d, RouterId(router | 1 << d), d);
                }
            }
        }
        attach_evenly(&mut draft, nodes, nodes_per_router, order);
        draft.finish(Kind::Hypercube { order, nodes_per_router })
    }

    /// The sizes of the dimensions of a mesh or torus, and for a torus which of them wrap; None for all other kinds.
    pub fn grid(&self) -> Option<(&[u32], Option<&[bool]>)> {
        match &self.kind {
            Kind::Mesh { dimensions, .. } => Some((dimensions, None)),
            Kind::Torus { dimensions, wrap, .. } => Some((dimensions, Some(wrap))),
            _ => None,
        }
    }

    /// Whether a mesh or torus wraps in dimension `d`.
    #[inline]
    pub fn wraps(&self, d: usize) -> bool {
        matches!(&self.kind, Kind::Torus { wrap, .. } if wrap[d])
    }

    pub(super) fn grid_distance(&self, from: RouterId, to: RouterId) -> u32 {
        let Some((dimensions, _)) = self.grid() else { return 0 };
        let (from, to) = (self.coordinates(from), self.coordinates(to));
        let along = |(d, &size): (usize, &u32)| {
            let direct = u32::from(from[d].abs_diff(to[d]));
            if self.wraps(d) { direct.min(size - direct) } else { direct }
        };
        dimensions.iter().enumerate().map(along).sum()
    }

    pub(super) fn grid_diameter(&self) -> u32 {
        let Some((dimensions, _)) = self.grid() else { return 0 };
        dimensions.iter().enumerate().map(|(d, &size)| if self.wraps(d) { size / 2 } else { size - 1 }).sum()
    }

    pub(super) fn grid_bisection(&self) -> Option<u32> {
        let (dimensions, _) = self.grid()?;
        let cut = |(d, &size): (usize, &u32)| self.routers() / size * if self.wraps(d) { 2 } else { 1 };
        dimensions.iter().enumerate().filter(|(_, size)| **size > 1).map(cut).min()
    }

    /// On a line of `k` routers, `c` of its k² ordered pairs load the middle channel of a mesh, or each channel of a
    /// ring on average. With p nodes on a router, a channel then carries p c / k times the traffic that a node injects.
    pub(super) fn grid_saturation(&self) -> (u128, u128) {
        let (Kind::Mesh { nodes_per_router, .. } | Kind::Torus { nodes_per_router, .. }) = self.kind else {
            return (1, 1);
        };
        let nodes = u128::from(self.nodes());
        let mut bound = (1, 1);
        for (d, &size) in self.grid().map_or(&[][..], |g| g.0).iter().enumerate().filter(|(_, size)| **size > 1) {
            let k = u128::from(size);
            // c times 8, which is a whole number.
            let c_8 = if self.wraps(d) { k * k - k % 2 } else { 8 * (k / 2) * k.div_ceil(2) };
            let (n, m) = (8 * (nodes - 1) * k, nodes * u128::from(nodes_per_router) * c_8);
            if n * bound.1 < bound.0 * m {
                bound = (n, m);
            }
        }
        bound
    }
}

fn grid(
    dimensions: &[u32],
    wrap: &[bool],
    nodes_per_router: u32,
    kind: Kind,
    of: &'static str,
) -> Result<Topology, TopologyError> {
    let n = dimensions.len();
    if n == 0 || n > DIMENSIONS_MAX {
        return Err(TopologyError::Dimensions { is: n, limit: DIMENSIONS_MAX, of });
    }
    for (dimension, &size) in dimensions.iter().enumerate() {
        if size == 0 {
            return Err(TopologyError::DimensionZero { dimension, of });
        }
        if size > u32::from(u16::MAX) {
            return Err(TopologyError::DimensionSize { dimension, is: size });
        }
    }
    let routers = dimensions.iter().try_fold(1u64, |all, &size| all.checked_mul(size.into())).unwrap_or(u64::MAX);
    let nodes = node_count(routers, nodes_per_router, of)?;
    let ports = (2 * n as u32).saturating_add(nodes_per_router);
    let mut draft = Draft::new(routers, |_| ports, nodes)?;
    let routers = routers as u32;

    let mut coordinates = Vec::with_capacity(routers as usize * n);
    for router in 0..routers {
        let mut rest = router;
        let mut stride = 1;
        for (d, &size) in dimensions.iter().enumerate() {
            let at = rest % size;
            rest /= size;
            coordinates.push(at as u16);
            let next = match at + 1 < size {
                true => Some(router + stride),
                false => wrap[d].then(|| router - at * stride),
            };
            if let Some(next) = next {
                draft.link(RouterId(router), 2 * d as u32, RouterId(next), 2 * d as u32 + 1);
            }
            stride *= size;
        }
    }
    attach_evenly(&mut draft, nodes, nodes_per_router, 2 * n as u32);
    let mut topology = draft.finish(kind)?;
    topology.coordinates = coordinates;
    Ok(topology)
}

/// Attaches node `n` to router `n / nodes_per_router`; the first `first` ports of a router lead to routers.
pub(super) fn attach_evenly(draft: &mut Draft, nodes: u32, nodes_per_router: u32, first: u32) {
    for node in 0..nodes {
        draft.attach(NodeId(node), RouterId(node / nodes_per_router), first + node % nodes_per_router);
    }
}

pub(super) fn node_count(routers: u64, nodes_per_router: u32, of: &'static str) -> Result<u32, TopologyError> {
    if nodes_per_router == 0 {
        return Err(TopologyError::Zero { what: "nodes per router", of });
    }
    let nodes = routers.saturating_mul(nodes_per_router.into());
    match u32::try_from(nodes) {
        Ok(nodes) if nodes <= super::PORTS_MAX => Ok(nodes),
        _ => Err(TopologyError::TooLarge { what: "nodes", is: nodes, limit: super::PORTS_MAX }),
    }
}
