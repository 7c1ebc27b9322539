// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which home a NIC of this process has.

use std::sync::Arc;

use selvedge_nic::Limits;

use crate::backend::Backend;
use crate::config::Config;
use crate::errors::OpenError;
use crate::interface::{ArenaRange, Interface};
use crate::shared_memory::SharedMemory;
use crate::simulated::Simulated;

/// The backend for a new NIC of this process.
pub(crate) fn of_process() -> Box<dyn Backend> {
    match Simulated::of_process() {
        Some(simulated) => Box::new(simulated),
        None => Box::new(SharedMemory),
    }
}

/// Whether the NICs of this process have VELO and RMA units with ways of their own to peers. Where they have none, commands of
/// these units travel as packets do, and rings or packets are as fast.
pub fn has_units() -> bool {
    crate::simulated::has_units()
}

impl Interface {
    /// Opens the NIC number `ni` of this process under the Portals process id `pid`.
    pub fn open(
        config: Config,
        ni: u32,
        pid: u16,
        rank: u32,
        limits: &Limits,
        arena: ArenaRange,
    ) -> Result<Arc<Interface>, OpenError> {
        Interface::open_in(of_process(), config, ni, pid, rank, limits, arena)
    }
}
