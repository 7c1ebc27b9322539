// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The backend in which processes of one machine run each other's NICs ([`SharedMemory`]).
//!
//! Its code is in other files: operations in [`crate::engine`], waits in [`crate::wait`]. Hot paths go there directly,
//! because [`Offers`] allows it.

use std::time::Instant;

use selvedge_nic::Limits;
use selvedge_nic::ring::Unseen;
use selvedge_nic::tables::Command;

use crate::backend::{Backend, Offers, WhenFull};
use crate::config::{Config, Mode, Path};
use crate::errors::{OpenError, StartError, WaitEnd};
use crate::interface::Interface;

/// The backend in shared memory. Its state is in the segments and in [`Interface`].
pub struct SharedMemory;

impl Backend for SharedMemory {
    fn configure(&self, config: Config) -> Config {
        config
    }

    fn size(&self, limits: &Limits) -> Limits {
        *limits
    }

    fn offers(&self, config: &Config) -> Offers {
        let runs_peers = config.mode == Mode::Nic;
        Offers {
            executes_here: true,
            polls_here: true,
            runs_peers,
            maps_peers: config.mode.maps_peers(config.path),
            admits_attach: runs_peers && matches!(config.path, Path::Auto | Path::Cma),
            publishes_here: true,
            charges_calls: false,
            is_simulated: false,
            reaches_hosts: false,
            mailboxes_refuse: true,
        }
    }

    /// Peers find the NIC by its file. The header also has the program's memory that they can map.
    fn announce(&self, interface: &Interface) -> Result<(), OpenError> {
        interface.publish_shared();
        Ok(())
    }

    /// The NIC's file is gone already, and its header says that it is closed.
    fn withdraw(&self, _: &Interface) {}

    fn start(&self, interface: &Interface, command: &Command, _: u32, full: WhenFull) -> Result<(), StartError> {
        interface.start_here(command, full)
    }

    fn settle(&self, interface: &Interface) {
        interface.settle_here();
    }

    /// A message that bypasses a ring must reach all of the peer's memory.
    fn reaches_rings(&self, interface: &Interface, id: u64) -> bool {
        interface.reaches_all_of(id)
    }

    /// Senders publish at once, because [`Offers::publishes_here`] allows it.
    fn publish(&self, _: &Interface, _: u64, _: usize, _: Unseen, _: usize) {}

    fn charge_call(&self) {}

    fn charge_accesses(&self, _: u64) {}

    fn charge_copy(&self, _: u64) {}

    fn poll(&self, interface: &Interface) {
        interface.poll_here();
    }

    fn found_nothing(&self) {}

    fn found_something(&self) {}

    fn tick(&self, interface: &Interface) {
        interface.tick_here();
    }

    fn wait(
        &self,
        interface: &Interface,
        deadline: Option<Instant>,
        look: &mut dyn FnMut() -> bool,
    ) -> Result<(), WaitEnd> {
        interface.wait_here(deadline, look)
    }

    fn wake_threads(&self, interface: &Interface) {
        interface.own.segment.wake_all();
    }
}
