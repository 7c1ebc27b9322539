// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process and its job.
//!
//! A job is a directory of segments, and names come from the launcher that started
//! the job. This crate knows nothing of NICs. It gives
//!
//! - [`Identity`]: which operating system process is meant, in a way that reuse of a pid cannot fool;
//! - [`JobDirectory`]: where the files of a job lie, what they are called, and who may touch them;
//! - [`Claim`]: the exclusive right of a process to one Portals process id in a job;
//! - [`Service`]: a number under which others find a process, as they would by a port;
//! - [`Job`]: rank, size, barrier and exchange, through PMI-1 (`selvedge run`, `mpiexec.hydra`, `srun --mpi=pmi1`),
//!   PMIx (`prterun`, `mpirun`, `srun --mpi=pmix`) or alone.
//!
//! Invariants
//! 1. Nothing here panics on what another process, a launcher or the environment says.
//! 2. No file is followed through a symbolic link that another user could have placed.
//! 3. A process that dies, at any point, leaves nothing that the next one must wait for.

#![warn(missing_docs)]

mod claim;
mod directory;
mod identity;
mod job;
mod names;
mod service;
mod sweep;
#[cfg(test)]
mod testing;

pub use claim::{Claim, ClaimError, PORTALS_PID_MAX};
pub use directory::{DirectoryError, JobDirectory, JobRecord, Tombstone, parent};
pub use identity::Identity;
pub use job::{Job, JobError, JoinError, Launcher};
pub use names::{base64url_decode, base64url_encode, job_name_from};
pub use service::{Service, ServiceError};
pub use sweep::{bury_dead_claimants, clear_dead_ids, sweep_stale};
