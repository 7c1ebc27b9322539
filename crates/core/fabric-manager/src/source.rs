// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Source routes: whole paths between any two hosts of a map, free of deadlock (seed 002, sections 2.3 and 2.7).
//!
//! # Invariants
//!
//! 1. The channel dependency graph of all routes has no cycle; it is checked before the first route is given.
//! 2. All hosts with equal maps and strategies have the same routes. Where west-first does not fit, because a host has
//!    no position, a link leads elsewhere, or a pair has no legal path, all routes are those of up*/down*. Routes of
//!    the two are never mixed, because together they can deadlock.
//!
//! # Costs
//!
//! Making: O(hosts × links) for the table, O(hosts² × path) for the check. A caller with many managers makes the
//! routes once for each [`Map::digest`](crate::Map::digest).
use crate::config::Strategy;
use crate::id::HostId;
use crate::map::Map;
use alloc::string::{String, ToString};
use selvedge_fabric::dependency::describe;
use selvedge_fabric::{Algorithm, Dependencies, Path, Routing, RoutingError, Topology, TopologyError};

/// Routes between all pairs of hosts of a map.
#[derive(Clone, Debug)]
pub struct SourceRoutes {
    topology: Topology,
    routing: Routing,
    instead: Option<String>,
}

/// Reasons for which there are no source routes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("no topology: {0}")]
    Topology(#[from] TopologyError),
    #[error("no routing: {0}")]
    Routing(#[from] RoutingError),
    #[error("the routes could deadlock: {cycle}")]
    Cycle { cycle: String },
}

impl SourceRoutes {
    /// [`Strategy::Shortest`] is not free of deadlock; it gives up*/down*. Each pair uses one of the virtual channels.
    pub fn new(map: &Map, strategy: Strategy, virtual_channels: u8) -> Result<SourceRoutes, SourceError> {
        let topology = map.topology_without_drained()?;
        let make = |algorithm| Routing::new(&topology, algorithm, virtual_channels);
        let (routing, instead) = match (strategy == Strategy::WestFirst).then(|| make(Algorithm::WestFirst)) {
            Some(Ok(routing)) => (routing, None),
            Some(Err(error)) => (make(Algorithm::UpDown)?, Some(error.to_string())),
            None => (make(Algorithm::UpDown)?, None),
        };
        match Dependencies::new(&topology, &routing).cycle(&topology) {
            Some(cycle) => Err(SourceError::Cycle { cycle: describe(&topology, &cycle) }),
            None => Ok(SourceRoutes { topology, routing, instead }),
        }
    }

    /// The path from a host to another: a port for each link on the way. The hop to the end's node is the caller's.
    pub fn path(&self, map: &Map, from: HostId, to: HostId) -> Option<Path> {
        let whole = self.routing.path(&self.topology, map.node(from)?, map.node(to)?, 0).ok()?;
        let mut path = Path::default();
        whole.iter().take(whole.len() - 1).for_each(|hop| path.push(hop));
        Some(path)
    }

    pub fn algorithm(&self) -> Algorithm {
        self.routing.algorithm()
    }

    /// The reason for which west-first does not fit; None: the routes are those of the strategy.
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// For a router that forwards hop by hop.
    pub fn routing(&self) -> &Routing {
        &self.routing
    }
}
