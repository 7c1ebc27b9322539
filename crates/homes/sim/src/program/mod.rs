// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Programs in the simulator: futures, each rank with its own NIC.
//!
//! | file | subject |
//! |---|---|
//! | [`process`] | a rank, as its program sees it: time, memory, one-sided operations, counters |
//! | `shared` | the state behind it, which the simulation shares |
//! | [`messages`] | sending and receiving with tags: eager, rendezvous |
//! | `requests` | incomplete sends and receives |
//! | [`memory`] | a rank's memory, and the bus by which transitions of its NIC access it |
//! | [`collectives`] | barriers, sums and broadcasts of all ranks, by several algorithms |
//! | [`aggregation`] | groups that reduce in the switches |
//! | [`extoll`] | the EXTOLL units: messages, puts, gets, locks, notifications |
//! | `port` | the port of a rank at these units |
//! | [`offload`] | collectives by the NICs alone, with counters and triggered operations |
//! | [`results`] | results of programs: series of points, and mistakes |
//! | `tasks` | the futures as [`crate::node::Ranks`] |
//! | [`ready`] | built-in programs, by name |
//!
//! A program is an `async fn` over [`Process`]. Each await is a request to the simulation. Between them a program takes
//! no time; computing takes the time that the program states ([`Process::compute`]).

pub mod aggregation;
pub mod collectives;
pub mod extoll;
pub mod memory;
pub mod messages;
pub mod offload;
mod port;
pub mod process;
pub mod ready;
mod requests;
pub mod results;
mod shared;
mod tasks;

pub use process::{Process, Trigger};
pub use requests::{ANY, Message, OWN_TAGS, RequestId};
pub use results::{Point, Results, Shared};
pub use tasks::Tasks;

use std::future::Future;
use std::pin::Pin;

/// The future of a rank; its output is the rank's exit code.
pub type Body = Pin<Box<dyn Future<Output = i32>>>;

/// Resources that a program needs on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Bytes of memory, addressed from 0.
    pub memory_bytes: usize,
    /// Most receives posted at once, and most long sends that wait to be fetched.
    pub receives: u32,
    /// Most unexpected messages at once.
    pub unexpected: u32,
    /// Counters of the window ([`Process::put_counting`]).
    pub windows: u32,
    /// Most triggered operations armed at once.
    pub triggered: u32,
    /// Messages up to this length are sent eagerly; longer ones by rendezvous.
    pub eager_bytes_max: u64,
    /// Whether it uses the EXTOLL units.
    pub units: bool,
    /// Groups that reduce in the switches, at once.
    pub groups: u32,
}

impl Default for Needs {
    fn default() -> Needs {
        Needs {
            memory_bytes: 4096,
            receives: 64,
            unexpected: 64,
            windows: 4,
            triggered: 0,
            eager_bytes_max: 8192,
            units: false,
            groups: 0,
        }
    }
}
