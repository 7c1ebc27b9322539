// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The daemon of a fabric without switches: one on each host (seed 002, section 2.3). It runs the value
//! [`selvedge_fabric_manager::Manager`] over the host's interfaces, and carries its effects out.
//!
//! ```text
//! netlink: carriers, counters ─┐                ┌─> frames: UDP to a link-local group on each interface
//! frames of the neighbours ────┼─> Manager ─────┼─> kernel routes, in a table of its own
//! clients: `selvedge fabric` ──┤                └─> log
//! daemons of other hosts: TCP ─┘
//! ```
//!
//! # Contract
//!
//! 1. One thread, one poll. No client and no frame makes it wait; threads of their own read files of users: pages of
//!    link counters, and segments of NICs.
//! 2. Nothing outside of the daemon's own table, rule and labelled address is changed, but for sysctls by option.
//!    At the end they are removed; those of a daemon that was killed are taken over by the next one.
//! 3. Without `CAP_NET_ADMIN` it observes: links and topology, no routes.
//! 4. A frame, a client's line and a kernel's message are bounded and checked before use.
pub mod cable_test;
mod client;
mod control;
mod counters;
mod daemon;
mod execution;
mod file;
mod history;
mod identity;
mod interfaces;
mod journal;
mod kernel;
mod loads;
mod netlink;
pub mod protocol;
mod registry;
mod remote;
mod routing;
pub mod seal;
mod settings;
mod sockets;
mod views;

pub use client::{ClientError, ask, ask_for, follow};
pub use daemon::run;
pub use file::{File, FileError};
pub use remote::session;
pub use settings::{CheckStart, DaemonError, Settings};
