// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes in virtual time: started, heard and ended.
//!
//! | file | what |
//! |---|---|
//! | [`job`] | the ranks of a job: whose turn it is, what they say, how they end |
//! | [`rank`] | one of them |
//! | [`outside`] | a rank that has the turn and does nothing: in which system call it blocks |
//! | [`surroundings`] | what MPI libraries and libfabric are told, so that they come to our NIC |
//!
//! Invariants
//! 1. One rank runs at a time. A rank's process is started when it is first given the turn, so ranks start one after the other.
//! 2. A rank that blocks in the launcher's barrier is not running; it goes on when it is given the turn again, not when the
//!    barrier is complete.
//! 3. When this ends, however it ends, no rank stays behind.
//!
//! What the barrier of the launcher costs is no machine's: it takes no virtual time.

mod job;
mod outside;
mod rank;
mod surroundings;
#[cfg(test)]
mod twin;

pub use job::Job;

use std::ffi::OsString;

use anyhow::Context;
use selvedge_sim::processes::Processes;
use selvedge_sim_protocol::Costs;

use crate::mpirun::Family;
use crate::run::signals::Signals;
use crate::run::spawn::{Plan, library_folder};
use crate::run::{self, ProgramError};

/// What is to be started.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    pub ranks: u32,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    pub env: Vec<(String, String)>,
    /// Write the ranks' output as whole lines, each marked with its rank.
    pub tag_output: bool,
    /// Let the other ranks go on when one fails.
    pub keep_going: bool,
    pub costs: Costs,
}

/// Why no job was started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("{0}")]
    Program(ProgramError),
    #[error(
        "there is no {0}, which simulated programs need: build and install Selvedge whole, or set SELVEDGE_PREFIX to where it is"
    )]
    Preload(String),
    #[error("{0:#}")]
    Job(anyhow::Error),
}

impl LaunchError {
    /// As `selvedge run` has it: 126 and 127 for programs that cannot be started or found.
    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::Program(error) => error.exit_code(),
            LaunchError::Preload(_) | LaunchError::Job(_) => 1,
        }
    }
}

impl From<anyhow::Error> for LaunchError {
    fn from(error: anyhow::Error) -> LaunchError {
        LaunchError::Job(error)
    }
}

/// Where the library is that answers for the clocks.
const PRELOAD: &str = "libselvedge/libselvedge_sim_preload.so";
/// Where the library is that answers for PMIx.
const PMIX: &str = "libselvedge/libselvedge_sim_pmix.so";
/// Where libfabric finds our provider.
const PROVIDERS: &str = "libselvedge";

/// Makes ready what the ranks need. None of them runs yet.
pub fn launch(launch: Launch) -> Result<Processes<Job>, LaunchError> {
    let Launch { ranks, command, env, tag_output, keep_going, costs } = launch;
    let mut args = run::Args::simulated(ranks, command, env, tag_output, keep_going);
    let executable = args.executable().map_err(LaunchError::Program)?;
    let mpi = surroundings::mpi_of(&executable);
    let folder = library_folder().ok_or_else(|| LaunchError::Preload(PRELOAD.to_owned()))?;
    let mut preloads = vec![folder.join(PRELOAD)];
    preloads.extend((mpi != Some(Family::Mpich)).then(|| folder.join(PMIX)));
    if let Some(missing) = preloads.iter().find(|preload| !preload.exists()) {
        return Err(LaunchError::Preload(missing.display().to_string()));
    }
    surroundings::add(mpi, &folder.join(PROVIDERS), &mut args.env)?;
    let signals = Signals::block().context("cannot take signals")?;
    let (parent, directory) = run::make_directory(&args)?;
    let plan = Plan::new(&args, executable, &directory, &parent).and_then(|mut plan| {
        plan.simulate(&preloads)?;
        Ok(plan)
    });
    match plan {
        Ok(plan) => Ok(Processes::new(Job::new(plan, directory, signals, costs, keep_going))),
        Err(error) => {
            let _ = directory.remove();
            Err(error.into())
        }
    }
}
