// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire between a rank that runs in virtual time and its simulator: one page of shared memory for each rank.
//!
//! A simulated rank is an ordinary process. It runs only while it has the *turn*; what it asks for (to start an operation, to
//! wait, to look again later, to sleep) is written to the page, and the turn goes back to the simulator, which gives it again
//! when virtual time is where the rank may go on. Both ends of that are here, and the page between them.
//!
//! | file | what |
//! |---|---|
//! | [`page`] | the page: words, their owners, their limits |
//! | [`rank`] | the rank's end: used by its libraries and by the one that answers for the system's clocks |
//! | [`threads`] | ranks with several threads: who of them hands the turn over |
//! | [`simulator`] | the simulator's end |
//! | [`system`] | shared files, sleeping on a word |
//!
//! Invariants
//! 1. Either the rank has the turn or the simulator; who has not, changes nothing that the other reads.
//! 2. Whatever a rank writes, the simulator gets a request that is one, or an error that says what is wrong with it.
//! 3. A process finds its page by the environment variable [`VARIABLE`] and only if the page is meant for it: children of a rank
//!    have real clocks, and are no part of the simulation.
//! 4. Without that variable nothing here does anything.
//!
//! Cost of a turn (request, answer): two crossings of two cache lines where both sides have a core and look at once; one
//! sleep and one wake of the system's where not. Nothing is allocated but for payload.

pub mod page;
pub mod rank;
pub mod simulator;
pub mod system;
pub mod threads;

pub use page::{Costs, NIC_PATH_BYTES, NICS, PAYLOAD_BYTES_MAX};
pub use rank::RankEnd;
pub use simulator::{Asked, ClockError, Nic, Rubbish, SimEnd};

/// Names a rank's page to it.
pub const VARIABLE: &str = "SELVEDGE_SIM";

/// What the clocks of a simulated machine show when a run begins, in seconds of Unix time: 2000-01-01T00:00:00Z.
pub const EPOCH_S: u64 = 946_684_800;

/// How long a simulated machine has been up when a run begins, in seconds: clocks that count from there do not start at 0, which
/// programs take for "never".
pub const UPTIME_S: u64 = 1000;
