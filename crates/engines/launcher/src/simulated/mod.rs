// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes in virtual time: their start, service and end.
//!
//! | file | contents |
//! |---|---|
//! | [`job`] | the ranks of a job: their turns, their requests, their ends |
//! | [`rank`] | one rank's process |
//! | [`spin`], [`computing`] | detection of polling loops; the computing of a rank between its calls |
//! | [`watchdog`] | detects a rank that has the turn and blocks, or computes without end |
//! | [`mpi_environment`] | variables that make MPI libraries and libfabric use our NIC |
//!
//! Invariants
//! 1. One rank runs at a time. A rank's process is started at its first turn, so ranks start one after another.
//! 2. A rank that blocks in the launcher's barrier is not running. It continues at its next turn, not with the barrier.
//! 3. When the job ends, for any reason, no rank stays behind.
//!
//! The launcher's barrier is no part of the simulated machine, so it takes no virtual time.

mod computing;
mod job;
#[cfg(test)]
mod minimal_engine;
mod mpi_environment;
mod notes;
mod overhead;
mod rank;
mod spin;
mod watchdog;

pub use job::SimulatedJob;

use std::ffi::OsString;
use std::fs::File;
use std::sync::Arc;

use selvedge_sim::processes::Processes;
use selvedge_sim_protocol::Costs;

use crate::environment::EnvironmentError;
use crate::error::{LauncherError, with_causes};
use crate::executable::Executable;
use crate::job_directory;
use crate::mpirun::Family;
use crate::options::{Binding, JobOptions};
use crate::preload::{Preloads, lack};
use crate::program::ProgramError;
use crate::rank::runner::Runner;
use crate::rank::spawn::{Share, SpawnPlan, library_folder};
use crate::signals::Signals;

/// A job to start.
#[derive(Clone, Debug, Default)]
pub struct Launch {
    pub ranks: u32,
    /// The program and its arguments.
    pub command: Vec<OsString>,
    pub env: Vec<(String, String)>,
    /// Write the ranks' output in whole lines, each marked with its rank.
    pub tag_output: bool,
    /// Let the other ranks continue when one fails.
    pub keep_going: bool,
    pub costs: Costs,
    /// The file that takes the ranks' standard output, at its end. `None`: this process's standard output.
    pub output: Option<Arc<File>>,
    /// The job's share of the machine's aggregation nodes. `None`: the machine's switches do not reduce for it.
    pub grant: Option<Vec<u8>>,
}

/// Reasons why the job could not be started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    #[error("{0}")]
    Program(ProgramError),
    #[error(
        "{0} is missing, and simulated programs need it: run make build, or set SELVEDGE_PREFIX to the tree that has it"
    )]
    Preload(String),
    #[error("{}", with_causes(.0))]
    Environment(#[from] EnvironmentError),
    #[error("{}", with_causes(.0))]
    Job(#[from] LauncherError),
}

impl LaunchError {
    /// As for `selvedge run`: 126 and 127 for programs that cannot be started or found.
    pub fn exit_code(&self) -> u8 {
        match self {
            LaunchError::Program(error) => error.exit_code(),
            LaunchError::Preload(_) | LaunchError::Environment(_) | LaunchError::Job(_) => 1,
        }
    }
}

/// The library that replaces the clocks.
const PRELOAD: &str = "libselvedge/libselvedge_sim_preload.so";
/// The library that replaces PMIx.
const PMIX: &str = "libselvedge/libselvedge_sim_pmix.so";
/// The library that says when a call of MPI waits.
const MPI: &str = "libselvedge/libselvedge_sim_mpi.so";
/// The libraries that mend faults of each MPI.
const OPENMPI: &str = "libselvedge/libselvedge_openmpi_preload.so";
const MPICH: &str = "libselvedge/libselvedge_mpich_preload.so";
/// The library that gives MPI's collective operations to aggregation nodes.
const COLLECTIVES: &str = "libselvedge/libselvedge_mpi_collectives.so";
/// The directory of our provider for libfabric.
const PROVIDERS: &str = "libselvedge";

/// The loss of a simulated program that does not load our libraries.
const WITHOUT: &str = "its clocks and sleeps are real, and its computing takes no virtual time";

/// Prepares a job. No rank is started yet.
pub fn launch(launch: Launch) -> Result<Processes<SimulatedJob>, LaunchError> {
    let Launch { ranks, command, env, tag_output, keep_going, costs, output, grant } = launch;
    let bind = Some(Binding::None);
    let mut options = JobOptions { ranks, command, env, tag_output, keep_going, bind, ..JobOptions::default() };
    let executable = options.executable().map_err(LaunchError::Program)?;
    let mpi = mpi_environment::mpi_of(&executable);
    let folder = library_folder().ok_or_else(|| LaunchError::Preload(PRELOAD.to_owned()))?;
    // Open MPI's leaves out a sleep, so it comes before the clocks.
    let mut clocks: Vec<_> = (mpi != Some(Family::Mpich)).then(|| folder.join(OPENMPI)).into_iter().collect();
    clocks.push(folder.join(PRELOAD));
    let mut preloads = Preloads { clocks, ours: vec![folder.join(MPI)] };
    preloads.ours.extend((mpi != Some(Family::Mpich)).then(|| folder.join(PMIX)));
    preloads.ours.extend((mpi != Some(Family::Openmpi)).then(|| folder.join(MPICH)));
    preloads.ours.extend(grant.is_some().then(|| folder.join(COLLECTIVES)));
    if let Some(missing) = preloads.clocks.iter().chain(&preloads.ours).find(|preload| !preload.exists()) {
        return Err(LaunchError::Preload(missing.display().to_string()));
    }
    if let Some(line) = lack(&executable, Executable::read(&executable).loading, WITHOUT) {
        notes::say(&line);
    }
    mpi_environment::add(mpi, &folder.join(PROVIDERS), &mut options.env)?;
    let signals = Signals::block().map_err(LauncherError::Signals)?;
    let (parent, directory) = job_directory::make(&options, None)?;
    if let Some(grant) = grant {
        directory.replace(&directory.grant(), &grant).map_err(LauncherError::Grant)?;
    }
    let plan = SpawnPlan::new(&options, Share::whole(&options), (executable, Runner::Plain), &directory, &parent)
        .and_then(|mut plan| {
            plan.simulate(&preloads)?;
            plan.output = output;
            Ok(plan)
        });
    match plan {
        Ok(plan) => Ok(Processes::new(SimulatedJob::new(plan, directory, signals, costs, keep_going))),
        Err(error) => {
            let _ = directory.remove();
            Err(LauncherError::from(error).into())
        }
    }
}
