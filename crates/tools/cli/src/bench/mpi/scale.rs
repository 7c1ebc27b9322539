// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Durations of a run of the MPI program.

/// Durations of a run.
#[derive(Debug, Clone, Copy)]
pub struct MpiScale {
    /// Time for one size or depth of one measurement, in all turns together.
    pub budget_ms: f64,
    pub turns: u32,
    /// Only the first sizes and depths, and few ranks.
    pub tiny: bool,
}

impl MpiScale {
    pub const FULL: MpiScale = MpiScale { budget_ms: 500.0, turns: 5, tiny: false };
    pub const QUICK: MpiScale = MpiScale { budget_ms: 80.0, turns: 1, tiny: false };
    pub const SMOKE: MpiScale = MpiScale { budget_ms: 2.0, turns: 1, tiny: true };
}
