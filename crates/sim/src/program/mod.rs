// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs in the simulator: futures that talk to a NIC of their own.
//!
//! | file | what |
//! |---|---|
//! | [`process`] | a rank as its program sees it: time, memory, one-sided operations, counters |
//! | [`messages`] | sending and receiving with tags: eager, rendezvous |
//! | [`memory`] | a rank's memory, and the bus that NIC transitions reach it by |
//! | [`collectives`] | barriers, sums and broadcasts of all ranks, by several algorithms |
//! | [`offload`] | the same by the NICs alone: counters and triggered operations |
//! | [`results`] | what programs found: series of points, and what was wrong |
//! | `tasks` | the futures as [`crate::node::Ranks`] |
//! | [`ready`] | programs that are there already, by name |
//!
//! A program is an `async fn` over [`Process`]; each of its awaits is a request to the simulation, and between them it takes no
//! time but what it asks for ([`Process::compute`]).

pub mod collectives;
pub mod memory;
pub mod messages;
pub mod offload;
pub mod process;
pub mod ready;
pub mod results;
mod tasks;

pub use messages::{ANY, Message, RequestId};
pub use process::{Process, When};
pub use results::{Point, Results};
pub use tasks::Tasks;

use std::future::Future;
use std::pin::Pin;

/// A program while it runs: its exit code at the end.
pub type Body = Pin<Box<dyn Future<Output = i32>>>;

/// What a program needs of each rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of memory, addressed from 0.
    pub memory_bytes: usize,
    /// Receives that are posted at once, and long sends that wait to be fetched, at most.
    pub receives: u32,
    /// Unexpected messages at once, at most.
    pub unexpected: u32,
    /// Counters of the window ([`Process::put_counting`]).
    pub windows: u32,
    /// Triggered operations armed at once, at most.
    pub triggered: u32,
    /// Messages up to this length are sent at once; longer ones wait for their receive.
    pub eager_bytes_max: u64,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs { memory_bytes: 4096, receives: 64, unexpected: 64, windows: 4, triggered: 0, eager_bytes_max: 8192 }
    }
}
