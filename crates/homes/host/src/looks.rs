// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a waiter that only looks gives its core to others: not for the first looks if each rank has a core, and soon if not.

use std::sync::OnceLock;

use selvedge_os::{lines, ranks};

/// Looks before a waiter lets others run, if it has a core of its own and if not.
pub(crate) const SPINS: u32 = 4000;
pub(crate) const SPINS_SHARED: u32 = 4;
/// A waiter that has a core of its own makes progress elsewhere after so many looks, each some 20 ns.
pub(crate) const IDLE_LOOKS: u32 = 512;

/// Whether each rank has a core. Where nobody has told how many ranks share the cores, each has one.
pub fn have_cores() -> bool {
    static HAVE_CORES: OnceLock<bool> = OnceLock::new();
    *HAVE_CORES.get_or_init(|| ranks::have_cores().unwrap_or(true))
}

/// The looks of one wait.
pub struct Looks {
    count: u32,
    spins: u32,
}

impl Looks {
    pub fn new() -> Looks {
        Looks { count: 0, spins: if have_cores() { SPINS } else { SPINS_SHARED } }
    }

    /// How many looks there were.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether others run between looks.
    pub fn are_shared(&self) -> bool {
        self.count >= self.spins
    }

    /// Whether the waiter is to make progress elsewhere before the next look.
    pub fn are_for_idling(&self) -> bool {
        self.count % IDLE_LOOKS == IDLE_LOOKS - 1 || self.are_shared()
    }

    /// Before the next look.
    #[inline]
    pub fn rest(&mut self) {
        match self.are_shared() {
            false => lines::between_looks(self.count),
            true => std::thread::yield_now(),
        }
        self.count = self.count.saturating_add(1);
    }
}

impl Default for Looks {
    fn default() -> Looks {
        Looks::new()
    }
}
