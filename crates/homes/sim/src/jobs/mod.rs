// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several jobs on one machine in one run: programs, traces, and traffic in the background.
//!
//! | file | subject |
//! |---|---|
//! | [`description`] | a job as a user describes it: words, or a table of TOML |
//! | `file` | a file of jobs |
//! | [`nodes`] | sets of nodes: ranges, lists, groups |
//! | [`placing`] | the node of each rank of each job |
//! | `work` | the work of a job, prepared for its nodes |
//! | [`traffic`] | traffic as a program |
//! | [`ranks`] | the ranks of several jobs as those of one simulation |
//! | `error` | mistakes, each with its remedy |
//!
//! Rules
//! 1. A job's random numbers depend on the seed of the run and the job's name alone. Another job changes none of them.
//! 2. Jobs have nodes of their own and meet in the fabric only.
//! 3. The run ends with the last job that is not in the background ([`crate::node::JobSpan`]).

pub mod description;
mod error;
mod file;
pub mod nodes;
pub mod placing;
pub mod ranks;
pub mod traffic;
mod work;

pub use description::{JobDescription, Work};
pub use error::{JobError, JobProblem};
pub use file::{JobFileError, load, parse};
pub use nodes::{NodeSet, NodesError};
pub use placing::Placement;
pub use ranks::Jobs;
pub use traffic::TrafficJob;

#[cfg(test)]
#[path = "jobs_tests.rs"]
mod tests;
