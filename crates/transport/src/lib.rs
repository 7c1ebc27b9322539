// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What front doors stand on: the NICs of this process, its memory, its settings.
//!
//! A process finds its job, reads its settings, claims a Portals process id and opens NICs; and it has one arena of
//! memory that peers reach in place. Front doors translate their API to [`Interface`]'s; they do not know each other.
//!
//! * [`settings`]: every environment variable that the library reads, in one table.
//! * [`process`]: this process in its job: place, ids, arena, start-up exchange.

pub mod process;
pub mod settings;

pub use process::{Opened, Process};
pub use selvedge_nic as nic;
pub use selvedge_shm::engine::StartError;
pub use selvedge_shm::express::{Course, Express};
pub use selvedge_shm::extents::Extents;
pub use selvedge_shm::grants::{Counts, Pass, Piece};
pub use selvedge_shm::memory::ListBus;
pub use selvedge_shm::os::lines;
pub use selvedge_shm::os::program::{StaticData, static_data};
pub use selvedge_shm::os::thread::word as thread_word;
pub use selvedge_shm::symmetric::Symmetric;
pub use selvedge_shm::wait::{WaitEnd, abort_reset, abort_waits};
pub use selvedge_shm::window::Window;
pub use selvedge_shm::{Interface, OpenError};

/// The library's version.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a range of this process's memory can be read now. Pages of it may be brought in.
pub fn memory_is_readable(address: u64, bytes: u64) -> bool {
    selvedge_shm::os::memory::readable(address, bytes)
}
