// SPDX-License-Identifier: Apache-2.0 OR MIT
//! HyperX: a grid of routers, those of each line of a dimension all linked to each other (Ahn, Binkert, Davis, McLaren
//! and Schreiber, SC 2009).
//!
//! Routers are numbered with dimension 0 running fastest. The ports of a router: dimension by dimension, those to the
//! other routers of the line in the order of their coordinates, `trunks` links to each; then nodes. Node `n` is attached
//! to router `n / nodes_per_router`. With two routers in every dimension it is a hypercube, with one dimension a
//! complete graph.
use super::grid::{DIMENSIONS_MAX, attach_evenly, node_count};
use super::{Draft, Kind, Product, Topology, TopologyError};
use crate::id::{Port, RouterId};
use alloc::vec::Vec;
use core::fmt;

/// The parameters of a HyperX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperX {
    /// Routers of a line in each dimension.
    pub dimensions: Vec<u32>,
    /// Links between two routers of a line, in each dimension.
    pub trunks: Vec<u32>,
    pub nodes_per_router: u32,
}

/// Makes a HyperX ([`Topology::hyperx`]).
pub(super) fn make(dimensions: &[u32], trunks: &[u32], nodes_per_router: u32) -> Result<Topology, TopologyError> {
    let (n, of) = (dimensions.len(), "HyperX");
    if n == 0 || n > HYPERX_DIMENSIONS_MAX {
        return Err(TopologyError::Dimensions { is: n, limit: HYPERX_DIMENSIONS_MAX, of });
    }
    if !trunks.is_empty() && trunks.len() != n {
        return Err(TopologyError::Trunks { trunks: trunks.len(), dimensions: n });
    }
    let trunks = if trunks.is_empty() { alloc::vec![1; n] } else { trunks.to_vec() };
    for (dimension, &size) in dimensions.iter().enumerate() {
        if size == 0 {
            return Err(TopologyError::DimensionZero { dimension, of });
        }
        if size > u32::from(u16::MAX) {
            return Err(TopologyError::DimensionSize { dimension, is: size });
        }
        if trunks[dimension] == 0 {
            return Err(TopologyError::Zero { what: "links between two routers", of });
        }
    }
    let routers = dimensions.iter().try_fold(1u64, |all, &size| all.checked_mul(size.into())).unwrap_or(u64::MAX);
    let nodes = node_count(routers, nodes_per_router, of)?;
    let per_line = dimensions.iter().zip(&trunks).map(|(&size, &trunk)| u64::from(size - 1) * u64::from(trunk));
    let to_routers = per_line.sum::<u64>().min(u32::MAX.into()) as u32;
    let mut draft = Draft::new(routers, |_| to_routers.saturating_add(nodes_per_router), nodes)?;
    let hyperx = HyperX { dimensions: dimensions.to_vec(), trunks, nodes_per_router };
    let mut coordinates = Vec::with_capacity(routers as usize * n);
    for router in 0..routers as u32 {
        let (mut rest, mut stride, mut first) = (router, 1, 0);
        for (&size, &trunk) in dimensions.iter().zip(&hyperx.trunks) {
            let at = rest % size;
            rest /= size;
            coordinates.push(at as u16);
            for other in at + 1..size {
                for link in 0..trunk {
                    let there = RouterId(router + (other - at) * stride);
                    draft.link(RouterId(router), first + (other - 1) * trunk + link, there, first + at * trunk + link);
                }
            }
            first += (size - 1) * trunk;
            stride *= size;
        }
    }
    attach_evenly(&mut draft, nodes, nodes_per_router, to_routers);
    let mut topology = draft.finish(Kind::HyperX(hyperx))?;
    topology.coordinates = coordinates;
    Ok(topology)
}

/// The most dimensions of a HyperX: a router offers a hop in each, and one that leads on a detour.
const HYPERX_DIMENSIONS_MAX: usize = DIMENSIONS_MAX - 1;

impl HyperX {
    /// The dimension of a port to a router.
    pub(super) fn dimension(&self, port: u32) -> u32 {
        let mut first = 0;
        let ends = self.dimensions.iter().zip(&self.trunks).map(|(size, trunk)| {
            first += (size - 1) * trunk;
            first
        });
        ends.take_while(|&end| end <= port).count() as u32
    }

    /// The first port from coordinate `at` to coordinate `to` of dimension `d`.
    #[inline]
    pub fn port(&self, d: usize, at: u16, to: u16) -> Port {
        let lines = self.dimensions.iter().zip(&self.trunks);
        let first: u32 = lines.take(d).map(|(&size, &trunk)| (size - 1) * trunk).sum();
        let place = u32::from(if to > at { to - 1 } else { to });
        Port((first + place * self.trunks[d]) as u16)
    }

    /// The dimensions in which routers differ: the diameter.
    pub fn diameter(&self) -> u32 {
        self.dimensions.iter().filter(|&&size| size > 1).count() as u32
    }

    /// For each router the next one in the first dimension of more than one router.
    pub(super) fn next_in_line(&self, routers: u32) -> Option<Vec<u32>> {
        let d = self.dimensions.iter().position(|&size| size > 1)?;
        let stride: u32 = self.dimensions[..d].iter().product();
        let size = self.dimensions[d];
        let next = |router: u32| match router / stride % size {
            last if last == size - 1 => router - last * stride,
            _ => router + stride,
        };
        Some((0..routers).map(next).collect())
    }

    /// The channels of one direction between two parts of every line of a dimension, the parts as equal as can be.
    pub(super) fn bisection(&self) -> Option<u32> {
        let routers: u32 = self.dimensions.iter().product();
        let cut = |(&size, &trunk): (&u32, &u32)| (size / 2) * size.div_ceil(2) * trunk * (routers / size);
        self.dimensions.iter().zip(&self.trunks).filter(|(size, _)| **size > 1).map(cut).min()
    }

    /// The capacity of a dimension's channels over the traffic that crosses it.
    pub(super) fn saturation(&self, nodes: u32) -> (u128, u128) {
        let nodes = u128::from(nodes);
        let mut bound = (1, 1);
        for (&size, &trunk) in self.dimensions.iter().zip(&self.trunks).filter(|(size, _)| **size > 1) {
            let (n, m) =
                (u128::from(size) * u128::from(trunk) * (nodes - 1), nodes * u128::from(self.nodes_per_router));
            if n * bound.1 < bound.0 * m {
                bound = (n, m);
            }
        }
        bound
    }
}

impl fmt::Display for HyperX {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HyperX {}", Product(&self.dimensions))?;
        if self.trunks.iter().any(|&trunk| trunk > 1) {
            write!(f, " with {} links between routers", Product(&self.trunks))?;
        }
        Ok(())
    }
}

/// The number of coordinates in which two routers differ.
pub(super) fn distance(topology: &Topology, from: RouterId, to: RouterId) -> u32 {
    topology.coordinates(from).iter().zip(topology.coordinates(to)).filter(|(a, b)| a != b).count() as u32
}
