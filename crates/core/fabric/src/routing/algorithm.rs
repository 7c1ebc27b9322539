// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The routing algorithms: their names, the topologies that they fit, the virtual channels that they need.
use super::RoutingError;
use crate::topology::{Kind, Topology};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// Routing algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// One dimension after the other, in the shorter direction of a ring. In a dimension that wraps, two virtual
    /// channels break the cycle of the ring at its wrapping link (Dally and Seitz 1987).
    DimensionOrder,
    /// The same routes with one virtual channel, which can deadlock on a torus (seed 002, section 2.7).
    DimensionOrderUnguarded,
    /// The wrapping links count as further dimensions, before the others (seed 002, section 2.7).
    ModifiedDimensionOrder,
    /// First all hops towards smaller x, then any of the minimal directions (Glass and Ni 1992).
    WestFirst,
    /// First up, then down, in an order of the routers from a root (Schroeder and others, Autonet, 1991).
    UpDown,
    /// A path of least weight; a fixed hash of router and destination breaks ties.
    ShortestPath,
    /// The uplink at each level follows from the destination's number (Zahavi, 2010).
    DestinationModK,
    /// The least loaded of several uplinks; downward there is one route.
    AdaptiveUp,
    /// An uplink of each level that entropy picks (Greenberg and Leiserson 1989).
    RandomUp,
    /// The fewest links; on a dragonfly at most one between groups.
    Minimal,
    /// To a group or router that entropy picks, then to the destination (Valiant and Brebner 1981).
    Valiant,
    /// Minimal or Valiant, as the queues of the source's router tell (UGAL-L; Singh 2005).
    UgalLocal,
    /// The same by the queues of the global links of the source's group, one link latency old (UGAL-G).
    UgalGlobal,
    /// As UGAL-L, and decided again at the routers of the source's group (Jiang, Kim and Dally 2009).
    Progressive,
}

impl Algorithm {
    pub const ALL: [Algorithm; 14] = [
        Algorithm::DimensionOrder,
        Algorithm::DimensionOrderUnguarded,
        Algorithm::ModifiedDimensionOrder,
        Algorithm::WestFirst,
        Algorithm::UpDown,
        Algorithm::ShortestPath,
        Algorithm::DestinationModK,
        Algorithm::AdaptiveUp,
        Algorithm::RandomUp,
        Algorithm::Minimal,
        Algorithm::Valiant,
        Algorithm::UgalLocal,
        Algorithm::UgalGlobal,
        Algorithm::Progressive,
    ];

    /// The name in a machine's description.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::DimensionOrder => "dimension-order",
            Algorithm::DimensionOrderUnguarded => "dimension-order-unguarded",
            Algorithm::ModifiedDimensionOrder => "modified-dimension-order",
            Algorithm::WestFirst => "west-first",
            Algorithm::UpDown => "up-down",
            Algorithm::ShortestPath => "shortest-path",
            Algorithm::DestinationModK => "destination-mod-k",
            Algorithm::AdaptiveUp => "adaptive-up",
            Algorithm::RandomUp => "random-up",
            Algorithm::Minimal => "minimal",
            Algorithm::Valiant => "valiant",
            Algorithm::UgalLocal => "ugal-l",
            Algorithm::UgalGlobal => "ugal-g",
            Algorithm::Progressive => "progressive",
        }
    }

    /// The algorithms that work on a topology.
    pub fn fitting(topology: &Topology) -> Vec<Algorithm> {
        Self::ALL.into_iter().filter(|a| a.virtual_channels_needed(topology).is_some()).collect()
    }

    /// The default algorithm of a topology; it is free of deadlock.
    pub fn default_for(topology: &Topology) -> Algorithm {
        match topology.kind() {
            Kind::Mesh { .. } | Kind::Torus { .. } | Kind::Hypercube { .. } => Algorithm::DimensionOrder,
            Kind::FatTree(_) => Algorithm::DestinationModK,
            Kind::Dragonfly(_) | Kind::DragonflyPlus(_) => Algorithm::Minimal,
            Kind::HyperX(_) => Algorithm::DimensionOrder,
            Kind::SlimFly(_) => Algorithm::Minimal,
            Kind::Planes(planes) => Algorithm::default_for(&planes.plane),
            Kind::Crossbar { .. } | Kind::Graph => Algorithm::UpDown,
        }
    }

    /// The virtual channels that an algorithm needs on a topology; None: it does not work there.
    pub fn virtual_channels_needed(self, topology: &Topology) -> Option<u8> {
        if let Kind::Planes(planes) = topology.kind() {
            return self.virtual_channels_needed(&planes.plane);
        }
        let kind = topology.kind();
        let grid = matches!(kind, Kind::Mesh { .. } | Kind::Torus { .. });
        let wraps = matches!(kind, Kind::Torus { wrap, .. } if wrap.contains(&true));
        match self {
            Algorithm::DimensionOrder if wraps => Some(2),
            Algorithm::DimensionOrder => {
                (grid || matches!(kind, Kind::Hypercube { .. } | Kind::HyperX(_))).then_some(1)
            }
            Algorithm::DimensionOrderUnguarded | Algorithm::ModifiedDimensionOrder => grid.then_some(1),
            Algorithm::WestFirst => {
                (grid && !wraps && topology.dimensions() == 2 || topology.is_part_of_mesh()).then_some(1)
            }
            Algorithm::UpDown | Algorithm::ShortestPath => Some(1),
            Algorithm::DestinationModK | Algorithm::AdaptiveUp | Algorithm::RandomUp => {
                matches!(kind, Kind::FatTree(_)).then_some(1)
            }
            Algorithm::Minimal => match kind {
                Kind::Dragonfly(d) => Some(if d.groups > 1 { 2 } else { 1 }),
                Kind::HyperX(hyperx) => Some(hyperx.diameter().max(1) as u8),
                Kind::SlimFly(_) => Some(2),
                // Routes to nodes inside spines may go down and up once more.
                Kind::DragonflyPlus(fly) => Some(if topology.nodes() > fly.nodes() { 3 } else { 1 }),
                _ => None,
            },
            Algorithm::Valiant | Algorithm::UgalLocal => match kind {
                Kind::Dragonfly(d) => Some(d.groups.min(3) as u8),
                Kind::HyperX(hyperx) => Some(2 * hyperx.diameter().max(1) as u8),
                Kind::SlimFly(_) => Some(4),
                Kind::DragonflyPlus(fly) => Some(if topology.nodes() > fly.nodes() { 3 } else { 2 }),
                _ => None,
            },
            Algorithm::UgalGlobal => match kind {
                Kind::Dragonfly(d) => Some(d.groups.min(3) as u8),
                _ => None,
            },
            Algorithm::Progressive => match kind {
                Kind::Dragonfly(_) => Some(4),
                Kind::DragonflyPlus(_) => Algorithm::Valiant.virtual_channels_needed(topology),
                _ => None,
            },
        }
    }

    pub(super) fn fits(self) -> &'static str {
        match self {
            Algorithm::DimensionOrder => "meshes, tori, hypercubes and HyperX",
            Algorithm::DimensionOrderUnguarded | Algorithm::ModifiedDimensionOrder => "meshes and tori",
            Algorithm::WestFirst => "meshes of two dimensions that do not wrap, with all links or some",
            Algorithm::UpDown | Algorithm::ShortestPath => "any topology",
            Algorithm::DestinationModK | Algorithm::AdaptiveUp | Algorithm::RandomUp => "fat trees",
            Algorithm::Minimal | Algorithm::Valiant | Algorithm::UgalLocal => {
                "dragonflies of both kinds, HyperX and Slim Flies"
            }
            Algorithm::UgalGlobal => "dragonflies",
            Algorithm::Progressive => "dragonflies of both kinds",
        }
    }

    pub(super) fn has_table(self, topology: &Topology) -> bool {
        matches!(self, Algorithm::UpDown | Algorithm::ShortestPath)
            || self == Algorithm::WestFirst && matches!(topology.kind(), Kind::Graph)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Algorithm {
    type Err = RoutingError;

    fn from_str(name: &str) -> Result<Algorithm, RoutingError> {
        let found = Self::ALL.into_iter().find(|a| a.name() == name);
        found.ok_or_else(|| RoutingError::UnknownAlgorithm {
            name: name.chars().take(40).collect(),
            known: names(Self::ALL.to_vec()),
        })
    }
}

pub(super) fn names(algorithms: Vec<Algorithm>) -> String {
    let names: Vec<&str> = algorithms.into_iter().map(Algorithm::name).collect();
    names.join(", ")
}

/// A hint for an error: deadlock-free algorithms that need at most `virtual_channels`.
pub(super) fn instead(topology: &Topology, refused: Algorithm, virtual_channels: u8) -> String {
    let affords = |a: &Algorithm| {
        *a != refused
            && !matches!(a, Algorithm::DimensionOrderUnguarded | Algorithm::ShortestPath)
            && a.virtual_channels_needed(topology).is_some_and(|needed| needed <= virtual_channels)
    };
    let fitting = names(Algorithm::fitting(topology).into_iter().filter(affords).collect());
    if fitting.is_empty() { String::new() } else { alloc::format!(", or take {fitting}") }
}
