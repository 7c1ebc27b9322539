// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This process in its job: its NICs, its memory, its settings, and processes of other hosts.
//!
//! A process finds its job, reads its settings, claims a Portals process id and opens NICs. It has one arena of memory
//! that peers access directly. Engines and front doors begin here.
//!
//! | file | subject |
//! |---|---|
//! | [`settings`] | every environment variable that the library reads, in one table |
//! | [`process`] | this process in its job, or among the processes of its user: ids, arena |
//! | [`rendezvous_directory`] | the folder in which processes of one user without a job find each other |
//! | [`hosts`], [`place`] | processes of other hosts: links to them; the number of this host |
//! | [`launched`] | rank, size and start-up exchange for C programs |
//! | [`regions`] | regions that a program marks |
//! | [`device`] | VELO and RMA of this process (seed 002) |

pub mod device;
pub mod hosts;
pub mod launched;
pub mod place;
pub mod process;
pub mod regions;
pub mod rendezvous_directory;
pub mod settings;

pub use process::{Opened, Process};
pub use selvedge_host::StartError;
pub use selvedge_host::WaitEnd;
pub use selvedge_host::backend::Loss;
pub use selvedge_host::grants::{Counts, GrantedRoute, Piece};
pub use selvedge_host::links::Work;
pub use selvedge_host::memory::ListBus;
pub use selvedge_host::plain_put::{LockedRoute, PutOutcome};
pub use selvedge_host::symmetric::Symmetric;
pub use selvedge_host::wait_list::{Subject, abort_reset, abort_waits};
pub use selvedge_host::window::Window;
pub use selvedge_host::{Interface, OpenError};
pub use selvedge_job::fabric;
pub use selvedge_net::services::Service;
pub use selvedge_net::{ADDRESS_BYTES, Faults, LinkAddress};
pub use selvedge_nic as nic;
pub use selvedge_os::address_space::reserve_bytes_max;
pub use selvedge_os::extents::Extents;
pub use selvedge_os::lines;
pub use selvedge_os::program::{StaticData, static_data};
pub use selvedge_os::thread::{forks, word as thread_word};

/// The library's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a range of this process's memory can be read now. The check may fault pages in.
pub fn memory_is_readable(address: u64, bytes: u64) -> bool {
    selvedge_os::memory::readable(address, bytes)
}
