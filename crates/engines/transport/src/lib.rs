// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What front doors stand on: the NICs of this process, its memory, its settings, and one transport for messages.
//!
//! A process finds its job, reads its settings, claims a Portals process id and opens NICs; and it has one arena of
//! memory that peers reach in place. Front doors translate their API to [`Interface`]'s or to [`Transport`]'s; they do
//! not know each other.
//!
//! | file | what |
//! |---|---|
//! | [`settings`] | every environment variable that the library reads, in one table |
//! | [`process`], [`meeting`] | this process in its job, or among the processes of its user: place, ids, arena |
//! | [`hosts`], [`place`] | processes of other hosts: links to them; which host this is |
//! | [`aggregation`] | groups whose aggregation nodes are elsewhere |
//! | [`launched`] | rank, size and start-up exchange as C programs call them |
//! | [`transport`] | a NIC for messages, with everything in flight |
//! | [`protocols`] | the protocol table |
//! | [`peers`] | other processes' NICs: our rings there, their protocols, their names |
//! | [`completion`], [`bindings`], [`ticket`] | where operations end: queues, counters, and what they report |
//! | [`message`], [`posted`], [`transfer`], [`work`], [`operation`] | what programs ask for, and records of what has not ended |
//! | [`send`], [`receive`], [`claim`], [`remote`], [`deferred`] | the operations |
//! | [`regions`], [`region`] | registered memory |
//! | [`progress`], [`polling`] | rings and event queues; when to poll them |
//! | [`flow`], [`flow_control`] | messages that travel as packets, and messages that their target refused |
//! | [`units`] | messages over VELO and RMA |
//! | [`ends`], [`pool`] | completions and counts of ended operations; buffers for unexpected payload |
//! | [`route_cache`] | what a put has found out about its target, for the next put between them |
//! | [`flags`], [`pieces`] | flags and error numbers; memory in several pieces |

// The callers of completions and tickets pass raw pointers that their front door vouches for.
#![allow(clippy::too_many_arguments)]

pub mod aggregation;
pub mod bindings;
pub mod claim;
pub mod completion;
pub mod deferred;
pub mod delivered;
pub mod ends;
pub mod extoll;
pub mod flags;
pub mod flow;
pub mod flow_control;
pub mod hosts;
pub mod launched;
pub mod meeting;
pub mod message;
pub mod operation;
pub mod peers;
pub mod pieces;
pub mod place;
pub mod polling;
pub mod pool;
pub mod posted;
pub mod process;
pub mod progress;
pub mod protocols;
pub mod receive;
pub mod region;
pub mod regions;
pub mod remote;
pub mod route_cache;
pub mod send;
pub mod settings;
pub mod ticket;
pub mod transfer;
pub mod transport;
pub mod units;
pub mod work;

pub use process::{Opened, Process};
pub use selvedge_host::StartError;
pub use selvedge_host::WaitEnd;
pub use selvedge_host::address_space::reserve_bytes_max;
pub use selvedge_host::extents::Extents;
pub use selvedge_host::grants::{Counts, GrantedRoute, Piece};
pub use selvedge_host::memory::ListBus;
pub use selvedge_host::os::lines;
pub use selvedge_host::os::program::{StaticData, static_data};
pub use selvedge_host::os::thread::{forks, word as thread_word};
pub use selvedge_host::plain_put::{LockedRoute, PutOutcome};
pub use selvedge_host::symmetric::Symmetric;
pub use selvedge_host::wait::{Subject, abort_reset, abort_waits};
pub use selvedge_host::window::Window;
pub use selvedge_host::{Interface, OpenError};
pub use selvedge_net::services::Service;
pub use selvedge_net::{ADDRESS_BYTES, Faults, LinkAddress};
pub use selvedge_nic as nic;
pub use transport::Transport;

/// The library's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a range of this process's memory can be read now. Pages of it may be brought in.
pub fn memory_is_readable(address: u64, bytes: u64) -> bool {
    selvedge_host::os::memory::readable(address, bytes)
}
