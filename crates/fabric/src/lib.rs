// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Topologies, routing and paths of a machine's network.
//!
//! Everything here is a value: a [`Topology`] says which port leads where, a [`Routing`] which port a packet takes next,
//! a [`Path`] is a whole route in the form that seed 002, section 7.3 gives it, and [`Dependencies`] finds the cycles in
//! which a routing can lock up. Nothing here knows about time, buffers or packets' contents.
//!
//! # Contract
//!
//! 1. Making a topology or a routing may allocate and may fail, with an error that says what does not fit and what would.
//! 2. A topology does not change after it is made; a routing is used with the topology that it was made for.
//! 3. [`Routing::next`] allocates nothing and has no memory but [`RouteState`]: asked twice, it answers the same.
//! 4. Nothing depends on a hash map's order or on a clock. The same arguments give the same topology, tables and routes.
//!
//! No unsafe code, no I/O; builds for a target without an operating system.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod dependency;
pub mod id;
pub mod path;
pub mod routing;
pub mod topology;

#[cfg(test)]
mod samples;

pub use dependency::Dependencies;
pub use id::{Hop, NodeId, Peer, Port, RouterId, Vc};
pub use path::{Path, PathError};
pub use routing::{Algorithm, Choices, RouteState, Routing, RoutingError};
pub use topology::{Kind, Topology, TopologyError};
