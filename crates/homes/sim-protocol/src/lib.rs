// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol between a rank that runs in virtual time and its simulator: one page of shared memory for each rank.
//!
//! A simulated rank is an ordinary process that runs only while it has the *turn*. It writes a request to the page
//! (start an operation, wait, poll again later, sleep) and hands the turn to the simulator. The simulator hands the
//! turn back when virtual time has reached the point where the rank may continue. This crate has both ends.
//!
//! | file | subject |
//! |---|---|
//! | [`page`] | the page: its words, their writers and limits |
//! | [`rank`] | the rank's end: used by the rank's communication library and by the library that replaces its clocks |
//! | `attach` | finding the end of a process |
//! | `clock`, `polls` | the rank's clock and its next timer; waiting and polling |
//! | [`limits`] | waits for events of the program that a time limits |
//! | `lock` | the lock under which a thread makes a request |
//! | [`threads`] | ranks with several threads: which thread hands the turn over |
//! | [`simulator`] | the simulator's end |
//! | `tasks` | the threads of this process |
//! | `wake_pipe` | the pipe that wakes a sleeping simulator |
//! | [`watched`] | the descriptors of a wait |
//! | [`system`] | shared files, sleeping on a word |
//!
//! Invariants
//! 1. Either the rank or the simulator has the turn. The side without it changes nothing that the other reads.
//! 2. Whatever a rank writes, the simulator gets a valid request, or an error that names the fault.
//! 3. A process finds its page by the environment variable [`VARIABLE`], and uses it only if the page is reserved for
//!    that process. Children of a rank have real clocks and do not take part in the simulation.
//! 4. Without that variable this crate does nothing.
//!
//! Cost of a turn (request and answer): two cache lines cross twice if both sides have a core and poll at once;
//! otherwise one sleep and one wake by the kernel. Only payload is allocated.

mod attach;
mod clock;
pub mod limits;
mod lock;
pub mod page;
mod polls;
pub mod rank;
pub mod simulator;
pub mod system;
mod tasks;
pub mod threads;
mod wake_pipe;
pub mod watched;

pub use limits::{Cause, LimitedWait};
pub use page::{Costs, NEVER, NIC_PATH_BYTES, NICS, PAYLOAD_BYTES_MAX, Published, VARIABLE, units};
pub use rank::RankEnd;
pub use simulator::{CreateError, InvalidRequest, Nic, Request, SimEnd};
pub use watched::Watched;

/// Reading of a simulated machine's clocks when a run begins, in seconds of Unix time: 2000-01-01T00:00:00Z.
pub const EPOCH_S: u64 = 946_684_800;

/// Uptime in seconds when a run begins. Clocks from boot do not start at 0, which programs take for "never".
pub const UPTIME_S: u64 = 1000;
