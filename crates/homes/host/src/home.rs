// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The home of a NIC whose peers are all on this host, or in the same simulated machine.

use crate::backend::Backend;
use crate::shared_memory::SharedMemory;
use crate::simulated::{self, Simulated};

/// Returns the backend for a new NIC of this process: virtual time if a simulator started the process, else shared
/// memory.
pub fn of_process() -> Box<dyn Backend> {
    match Simulated::of_process() {
        Some(simulated) => Box::new(simulated),
        None => Box::new(SharedMemory),
    }
}

/// Whether the NICs of this process have VELO and RMA units with their own paths to peers. If not, commands of these
/// units travel as packets, and rings or packets are as fast.
pub fn has_units() -> bool {
    simulated::has_units()
}
