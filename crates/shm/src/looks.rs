// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a waiter that only looks gives its core to others: not for the first looks if each rank has a core, and soon if not.

use std::sync::OnceLock;

use crate::os::{lines, ranks};

/// Looks before a waiter lets others run, if each rank has a core and if not.
const SPINS: u32 = 4000;
const SPINS_SHARED: u32 = 4;

/// The looks of one wait.
pub struct Looks {
    count: u32,
    spins: u32,
}

impl Looks {
    /// Where nobody has told how many ranks share the cores, each has one.
    pub fn new() -> Looks {
        static HAVE_CORES: OnceLock<bool> = OnceLock::new();
        let have_cores = *HAVE_CORES.get_or_init(|| ranks::have_cores().unwrap_or(true));
        Looks { count: 0, spins: if have_cores { SPINS } else { SPINS_SHARED } }
    }

    /// How many looks there were.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether others run between looks.
    pub fn are_shared(&self) -> bool {
        self.count >= self.spins
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
