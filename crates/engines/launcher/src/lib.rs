// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts and supervises the ranks of a job: on hosts, under an MPI's own launcher, and in virtual time.
//!
//! | module | contents |
//! |---|---|
//! | [`hosts`] | a job on this host, or on several by agents |
//! | [`mpirun`] | a job under the launcher of an MPI |
//! | [`simulated`] | the processes of a job in virtual time |
//! | [`environment`] | variables that make an MPI use our provider |
//! | `rank` | one rank: its process, its PMI socket, its output; wrappers, debuggers and their terminals |
//! | `pmi_server` | the server side of PMI-1 |
//! | `options`, `error`, `job_directory` | the user's options of a job; its errors; its directory |
//! | [`program`] | the file of a program |
//! | [`executable`] | its ELF file, as the loader sees it |
//! | [`preload`] | the order of libraries that are loaded before its own |
//! | [`report`], `signals` | messages, exit codes; signals |
//!
//! The command reads arguments, prints results and exits. The supervisor of a job reports deaths by [`report::say`].

pub mod environment;
mod error;
pub mod executable;
pub mod hosts;
mod job_directory;
pub mod mpirun;
mod options;
mod pmi_server;
pub mod preload;
pub mod program;
mod rank;
pub mod report;
mod signals;
pub mod simulated;

pub use error::{LauncherError, with_causes};
pub use options::{Binding, JobOptions, MemoryPath, NicMode};
pub use rank::runner::{Gdb, RankList, RunnerError};
pub use rank::window::hold as hold_window;
pub use signals::KeptMask;
