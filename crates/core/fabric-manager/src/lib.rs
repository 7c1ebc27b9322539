// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manager of a fabric without switches, as a value: it finds the neighbours of a host, floods the topology,
//! computes routes, leases them, and withdraws them when a link breaks (seed 002, section 2.3).
//!
//! ```text
//! carrier, frame, time, loads, requests ──> Manager ──> Vec<Effect>: frames, routes, withdrawn leases, events
//! ```
//!
//! The daemon of each host runs one over its interfaces, and each simulated router runs one over its links.
//! docs/design/fabric-manager.md has the protocol.
//!
//! # Contract
//!
//! 1. The caller gives the time, in nanoseconds of any clock that does not go back, with each input. It calls
//!    [`Manager::tick`] at [`Manager::due_ns`] or shortly after, and takes the effects after each input, in order.
//! 2. Frames may be lost, repeated, reordered, damaged or forged. A wrong one is counted and changes nothing. The caller
//!    seals frames if others can reach the cable.
//! 3. Nothing depends on a hash map or on randomness: the same inputs give the same effects.
//! 4. Memory is limited by [`Limits`] and by the number of ports, whatever arrives.
//!
//! No unsafe code, I/O or clock; builds for a target without an operating system.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod announcement;
pub mod config;
pub mod event;
mod flood;
pub mod id;
pub mod lease;
pub mod load;
pub mod manager;
pub mod map;
pub mod port;
pub mod routes;
pub mod source;
mod table;
pub mod wire;

pub use config::{Config, HOSTS_MAX, Limits, PORTS_MAX, Strategy, Timing};
pub use event::{Block, Cause, Event};
pub use id::{Boot, End, HostId};
pub use lease::{Client, Lease, LeaseError, LeaseId, Withdrawal};
pub use load::{HostLoad, LoadReport, PortLoad};
pub use manager::{Effect, KnownFabric, Manager};
pub use map::{Map, MapHost, MapLink};
pub use port::{LinkPort, State};
pub use routes::{Route, RouteHop};
pub use source::{SourceError, SourceRoutes};
pub use wire::{FRAME_BYTES_MAX, Frame, FrameError};
