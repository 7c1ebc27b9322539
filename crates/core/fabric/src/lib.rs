// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Topologies, routing, paths and aggregation trees of a machine's network.
//!
//! All types are plain values. A [`Topology`] has the two ends of each link. A [`Routing`] gives the next hops of a
//! packet. A [`Path`] is a whole route in the form of seed 002, section 7.3. [`Dependencies`] finds the cycles in which
//! a routing can deadlock. A [`NextHops`] has the first hops of all shortest paths from one router. [`TreeSet`] has the
//! trees over which a network reduces. A [`MulticastTree`] has the channels of a packet to many nodes. [`link`] has the
//! flow control of a link by STOP and CONTINUE. Time, buffers and the contents of packets are not part of this crate.
//!
//! # Contract
//!
//! 1. Making a topology or a routing may allocate and may fail, with an error that names the misfit and a value that
//!    fits.
//! 2. A topology does not change after it is made. A routing is used only with the topology that it was made for.
//! 3. [`Routing::next`] allocates nothing and depends only on its arguments: the same call gives the same hops.
//! 4. Nothing depends on the order of a hash map or on a clock. The same arguments give the same topology, tables and
//!    routes.
//!
//! No unsafe code, no I/O; builds for a target without an operating system.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod aggregation;
pub mod dependency;
pub mod id;
pub mod link;
pub mod multicast;
pub mod path;
pub mod rails;
pub mod routing;
pub mod shortest;
pub mod topology;

#[cfg(test)]
mod samples;

pub use aggregation::{Tree, TreeError, TreeSet, TreeSpec};
pub use dependency::Dependencies;
pub use id::{AnId, Hop, NodeId, Peer, Port, RouterId, Vc};
pub use multicast::{Branch, MulticastTree};
pub use path::{Path, PathError};
pub use rails::{RAILS_MAX, RailLayout, Rails};
pub use routing::{Algorithm, CHOICES_MAX, Choices, RouteState, RoutesError, Routing, RoutingError};
pub use shortest::NextHops;
pub use topology::{Cable, EdgeSpeed, Kind, LinkClasses, Planes, Station, Topology, TopologyError};
