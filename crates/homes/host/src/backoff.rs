// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pauses of waiters and of senders.
//!
//! A waiter that only polls yields its core ([`SpinWait`]): late if each rank has a core, otherwise soon. A sender
//! whose attempts fail skips some ([`Backoff`]).

use std::sync::OnceLock;

use selvedge_os::{lines, ranks};

/// Polls before a waiter yields, if it has a core of its own and if not.
pub const SPINS: u32 = 4000;
pub const SPINS_SHARED: u32 = 4;
/// Polls, each some 20 ns, after which a waiter with a core of its own makes progress elsewhere.
pub const IDLE_POLLS: u32 = 512;

/// Whether each rank has a core; true if the launcher does not say how many ranks share the cores.
pub fn have_cores() -> bool {
    static HAVE_CORES: OnceLock<bool> = OnceLock::new();
    *HAVE_CORES.get_or_init(|| ranks::have_cores().unwrap_or(true))
}

/// The polls of one wait.
pub struct SpinWait {
    count: u32,
    spins: u32,
}

impl SpinWait {
    pub fn new() -> SpinWait {
        SpinWait { count: 0, spins: if have_cores() { SPINS } else { SPINS_SHARED } }
    }

    /// Returns the number of polls so far.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether the waiter yields its core between polls.
    pub fn yields(&self) -> bool {
        self.count >= self.spins
    }

    /// Whether the waiter should make progress elsewhere before the next poll.
    pub fn is_due_for_progress(&self) -> bool {
        self.count % IDLE_POLLS == IDLE_POLLS - 1 || self.yields()
    }

    /// Pauses before the next poll.
    #[inline]
    pub fn rest(&mut self) {
        match self.yields() {
            false => lines::between_looks(self.count),
            true => std::thread::yield_now(),
        }
        self.count = self.count.saturating_add(1);
    }
}

impl Default for SpinWait {
    fn default() -> SpinWait {
        SpinWait::new()
    }
}

/// Exponential backoff in attempts: after failures in a row, up to 64 attempts are skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Backoff {
    pause: u32,
    left: u32,
}

impl Backoff {
    const PAUSE_MAX: u32 = 64;

    /// Whether to make the next attempt. Counts it.
    pub fn is_due(&mut self) -> bool {
        let due = self.left == 0;
        self.left = self.left.saturating_sub(1);
        due
    }

    /// Records how an attempt ended.
    pub fn ended(&mut self, found: bool) {
        self.pause = if found { 0 } else { (2 * self.pause).clamp(1, Backoff::PAUSE_MAX) };
        self.left = self.pause;
    }
}
