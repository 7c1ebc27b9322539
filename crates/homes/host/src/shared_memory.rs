// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The backend in which processes of one machine run each other's NICs ([`SharedMemory`]).
//!
//! Its code is in other files: operations in [`crate::engine`], waits in [`crate::wait`]. Hot paths go there directly,
//! because [`Offers`] allows it.

use selvedge_nic::tables::Command;

use crate::backend::{Backend, Offers, WhenFull};
use crate::config::{Config, Mode, Path};
use crate::errors::StartError;
use crate::interface::Interface;

/// The backend in shared memory. Its state is in the segments and in [`Interface`].
pub struct SharedMemory;

impl Backend for SharedMemory {
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

    fn start(&self, interface: &Interface, command: &Command, _: u32, full: WhenFull) -> Result<(), StartError> {
        interface.start_here(command, full)
    }
}
