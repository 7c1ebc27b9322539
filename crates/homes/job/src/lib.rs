// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process and its job.
//!
//! A job is a directory of shared files, one for each job and machine; the launcher gives each process its rank. This
//! crate does not depend on NICs. It provides
//!
//! - [`Identity`]: an operating system process, distinct from a later process with the same pid;
//! - [`JobDirectory`]: the files of a job, their names, and access to them;
//! - [`Claim`]: the exclusive right of a process to one Portals process id in a job;
//! - [`own_place`]: a number of this host, which its processes have in common;
//! - [`Service`]: a number under which other processes find a process, like a port;
//! - [`fabric`]: the daemon of a fabric without switches, which knows NICs and leases routes;
//! - [`Job`]: rank, size, barrier and exchange, through PMI-1 (`selvedge run`, `mpiexec.hydra`, `srun --mpi=pmi1`),
//!   PMIx (`prterun`, `mpirun`, `srun --mpi=pmix`) or without a launcher.
//!
//! Invariants
//! 1. Nothing here panics on input from another process, a launcher or the environment.
//! 2. No file is opened through a symbolic link that another user could have placed.
//! 3. A process that dies at any point leaves nothing that another process must wait for.

#![warn(missing_docs)]

mod claim;
mod directory;
mod exchange_table;
pub mod fabric;
mod folder;
mod job;
mod names;
mod place;
mod records;
mod service;
mod sweep;
#[cfg(test)]
mod testing;

pub use claim::{Claim, ClaimError, PORTALS_PID_MAX, id_of_rank, ranks_of_id};
pub use directory::JobDirectory;
pub use exchange_table::exchange_table;
pub use folder::{DirectoryError, jobs_folder, usable_folder};
pub use job::{Job, JobError, JoinError, Launcher};
pub use names::{base64url_decode, base64url_encode, job_name_from};
pub use place::own_place;
pub use records::{JobRecord, LostRank, Tombstone};
pub use selvedge_os::process::Identity;
pub use service::{Service, ServiceError};
pub use sweep::{clear_dead_ids, sweep_stale, write_missing_tombstones};
