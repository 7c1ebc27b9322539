// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The real time that turns of simulated ranks take.

/// The real time of turns.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overhead {
    pub turns: u64,
    /// Total time from handing the turn over to getting it back: both hand-overs, and the rank's own time between them.
    pub wall_ns: u64,
    /// The shortest turn.
    pub least_ns: u64,
}
