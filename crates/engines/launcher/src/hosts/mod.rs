// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A job whose ranks run on hosts: on this one, or on several through agents.
//!
//! The launcher runs the ranks of this host itself ([`ranks`]). With a list of hosts it starts an agent on each, which
//! runs the ranks there. In both cases [`supervise`] decides.
//!
//! | file | contents; each uses those above it only |
//! |---|---|
//! | [`host_list`] | the hosts as the user names them; the placement of ranks |
//! | [`messages`] | events of ranks, orders to them |
//! | [`wire`], [`channel`] | the messages between launcher and agent; frames on two pipes |
//! | [`poll_set`], [`addresses`], [`job_environment`] | waiting; addresses of hosts; the environment that travels |
//! | [`presence`], [`aggregation`] | whether the launcher's host is alive; the job's aggregation manager and nodes |
//! | [`ranks`] | the ranks of this host |
//! | [`tree`] | the tree of agents: the agents that an agent starts |
//! | [`remote_shell`], [`link`] | starts an agent; its parent's end of it |
//! | [`below`] | the agents below this process |
//! | [`agent`] | the agent itself |
//! | [`agents`], [`preparation`] | all agents of a job, for its launcher; they are prepared before it |
//! | [`job_hosts`], [`supervise`] | the ranks of any host; the supervisor |
//!
//! Invariants
//! 1. The launcher is one thread around one `poll`: deaths, PMI sockets, output, agents and signals all arrive in
//!    [`supervise`].
//! 2. When the launcher ends, for any reason, no rank stays behind on any host. The directory stays only after a
//!    SIGKILL of the process that runs the ranks, and the next run sweeps it.

mod addresses;
pub mod agent;
mod agents;
mod aggregation;
mod below;
mod channel;
mod host_list;
mod job_environment;
mod job_hosts;
mod link;
mod messages;
mod poll_set;
mod preparation;
mod presence;
mod ranks;
mod remote_shell;
mod supervise;
mod tree;
mod wire;

pub use aggregation::ServiceError;
pub use host_list::{EntryError, HostsError};

use std::time::Instant;

use host_list::HostEntry;
use preparation::NotPrepared;

use crate::error::LauncherError;
use crate::executable::Executable;
use crate::job_directory;
use crate::options::JobOptions;
use crate::preload::lack;
use crate::rank::runner::{Runner, RunnerError};
use crate::rank::spawn::{Share, SpawnPlan};
use crate::report::say;
use crate::signals::Signals;

/// The loss of a program whose loader does not look for libraries in the folder of this tree.
const WITHOUT: &str = "it does not load Selvedge's libraries from this tree";

/// Runs a job to its end, and returns its exit code. Deaths, and hosts that fail, are reported on standard error.
///
/// The code: 0 if every rank exited with 0; else that of the first rank that failed (128 + the signal's number if a
/// signal killed it); the code given to an abort; 124 after the time limit; that of a host that could not start ranks.
pub fn run(options: &JobOptions) -> Result<u8, LauncherError> {
    if let Ok(file) = options.executable() {
        lack(&file, Executable::read(&file).loading, WITHOUT).iter().for_each(|line| say(line));
    }
    let entries = host_list::of_job(options)?;
    if entries.is_empty() {
        return run_here(options);
    }
    if options.gdb.as_ref().is_some_and(|gdb| gdb.commands.is_empty()) {
        return Err(RunnerError::OtherHosts.into());
    }
    run_on(&entries, options)
}

fn run_here(options: &JobOptions) -> Result<u8, LauncherError> {
    host_list::check_room(options.ranks as usize, "this host")?;
    let executable = options.executable()?;
    let runner = Runner::find(options)?;
    let signals = Signals::block().map_err(LauncherError::Signals)?;
    let (parent, directory) = job_directory::make(options, None)?;
    let name = directory.name().to_owned();
    let mut plan = SpawnPlan::new(options, Share::whole(options), (executable, runner), &directory, &parent)?;
    if let Err(error) = plan.open_screens(directory.path(), signals.mask_before()) {
        let _ = directory.remove();
        return Err(error.into());
    }
    let ranks = ranks::Ranks::new(directory, plan, signals.mask_before());
    Ok(supervise::here(ranks, &name, signals, options)?)
}

fn run_on(entries: &[HostEntry], options: &JobOptions) -> Result<u8, LauncherError> {
    let signals = Signals::block().map_err(LauncherError::Signals)?;
    let deadline = options.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    match preparation::prepare(options, entries, &signals, deadline) {
        Ok(prepared) => Ok(supervise::on_hosts(prepared, signals, deadline, options)?),
        Err(NotPrepared::Reported { code }) => Ok(code),
        Err(NotPrepared::Failed(error)) => Err(error),
    }
}
