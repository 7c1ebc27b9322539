// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run`: starts a job of N processes and supervises it to its end.
//!
//! The launcher has the ranks of this host itself ([`ranks`]). With `--hosts` or `--hostfile` it starts an agent on each host
//! ([`agents`], [`link`], [`agent`]), which has the ranks there. In both cases [`supervise`] decides.
//!
//! Exit code: 0 when every rank exited with 0; else that of the first rank that failed (128 + the signal's number if
//! a signal killed it); the code given to an abort; 124 after the time limit; 126 and 127 for a program that cannot be
//! started or found; 2 for an invalid command line; 1 when the job could not be set up.
//!
//! Invariants
//! 1. The launcher is one thread around one `poll`: deaths of ranks, PMI sockets, output, agents and signals
//!    all arrive there, in [`supervise`].
//! 2. When the launcher ends, for any reason, no rank stays behind, on no host. The directory stays only after a SIGKILL of the
//!    process that has the ranks, and the next run sweeps it.

mod agent;
mod agents;
mod aggregation;
mod channel;
mod host;
mod host_list;
mod link;
mod messages;
mod presence;
mod ranks;
mod supervise;

pub use agent::{AgentArgs, main as agent_main};

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::ValueEnum;
use selvedge_job::{Identity, JobDirectory, JobRecord, PORTALS_PID_MAX, sweep_stale};
use selvedge_transport::process::start_logging;
use serde::{Deserialize, Serialize};

use crate::program::{self, ProgramError};
use crate::rank::spawn;
use crate::{report, signals};

/// Start a job of N processes, on this machine or on several hosts.
#[derive(Clone, clap::Args, Serialize, Deserialize)]
#[command(after_help = AFTER_HELP, override_usage = "selvedge run [OPTIONS] PROGRAM [ARGS]...")]
pub struct Args {
    /// Number of processes
    #[arg(short = 'n', long = "np", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=i64::from(PORTALS_PID_MAX)))]
    pub(crate) ranks: u32,

    /// Hosts to run on, as `a,b:2,c`, each with its slots; they are reached by ssh
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,

    /// A file with a host on each line: `name`, `name:2` or `name slots=2`
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,

    /// Start an aggregation node on each of several hosts, which reduces for the job (MPI, with `selvedge env`)
    #[arg(long)]
    aggregation: bool,

    /// Pin each rank to a core, in order [default: core if there are at least as many cores as ranks]
    #[arg(long, value_enum)]
    pub(crate) bind: Option<Binding>,

    /// Who runs a NIC: the sender of a message, or only the process that owns the NIC
    #[arg(long, value_enum)]
    pub(crate) mode: Option<NicMode>,

    /// How the memory of another process is accessed
    #[arg(long, value_enum)]
    pub(crate) path: Option<MemoryPath>,

    /// Set an environment variable in the ranks; may be given several times
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(crate) env: Vec<(String, String)>,

    /// End the job after this many seconds, with exit code 124
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// Write the ranks' output in whole lines, each marked with its rank
    #[arg(long)]
    pub(crate) tag_output: bool,

    /// Let the other ranks continue when one fails
    #[arg(long)]
    keep_going: bool,

    /// The program and its arguments
    // One list, so that everything after the program's name belongs to the program, even what looks like one of our options.
    #[arg(value_name = "PROGRAM [ARGS]", required = true, num_args = 1.., trailing_var_arg = true)]
    pub(crate) command: Vec<OsString>,
}

impl Args {
    /// The hosts that the user has named; empty: this one.
    fn host_entries(&self) -> Result<Vec<host_list::HostEntry>, host_list::HostsError> {
        match (&self.hosts, &self.hostfile) {
            (Some(list), _) => host_list::from_list(list),
            (None, Some(file)) => host_list::from_file(file),
            (None, None) => Ok(Vec::new()),
        }
    }

    pub(crate) fn program(&self) -> &OsStr {
        self.command.first().map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// The arguments for ranks that the simulator starts.
    pub(crate) fn simulated(
        ranks: u32,
        command: Vec<OsString>,
        env: Vec<(String, String)>,
        tag_output: bool,
        keep_going: bool,
    ) -> Args {
        let bind = Some(Binding::None);
        let (hosts, hostfile, mode, path, timeout) = (None, None, None, None, None);
        let aggregation = false;
        Args { ranks, hosts, hostfile, aggregation, bind, mode, path, env, timeout, tag_output, keep_going, command }
    }

    /// Finds the program's file.
    pub(crate) fn executable(&self) -> Result<PathBuf, ProgramError> {
        let given = self.env.iter().rev().find(|(name, _)| name == "PATH").map(|(_, value)| OsString::from(value));
        let search_path = given.or_else(|| std::env::var_os("PATH")).unwrap_or_default();
        program::find(self.program(), &search_path)
    }
}

/// The exit code for an invalid command line.
const EXIT_USAGE: u8 = 2;

const AFTER_HELP: &str = "\
Standard input goes to rank 0. Each rank finds SELVEDGE_RANK, SELVEDGE_SIZE, SELVEDGE_JOB and SELVEDGE_DIR in its \
environment, and PMI-1 for programs that know it.

Hosts get ranks in blocks: one after the other, as many as a host has slots, in rounds if there are more ranks than slots; \
evenly if no slots are given. Every host needs this selvedge at the same path (or where SELVEDGE_AGENT says) and the working \
folder, and is reached by ssh without a password (or by the program that SELVEDGE_RSH names).

Exit code: that of the first rank that failed (128 + signal number if killed), 124 after the time limit, \
126 or 127 if the program cannot be started or found.";

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum Binding {
    /// Rank i on the i-th core that this command may use, starting again after the last core
    Core,
    /// Leave it to the kernel
    None,
}

#[derive(Clone, Copy, ValueEnum, Serialize, Deserialize)]
pub enum NicMode {
    /// A sender runs the target's NIC itself
    Nic,
    /// A NIC runs when its own program calls the library
    Host,
}

#[derive(Clone, Copy, ValueEnum, Serialize, Deserialize)]
pub enum MemoryPath {
    /// The fastest path that works
    Auto,
    /// Only memory from selvedge_alloc, which is mapped
    Shared,
    /// The kernel copies between processes (cross-memory attach)
    Cma,
    /// Through slots in shared memory
    Bounce,
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|&seconds: &f64| seconds > 0.0);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "give a number of seconds above 0".to_owned())
}

/// Runs the job, and returns its exit code.
pub fn main(args: Args) -> Result<ExitCode> {
    start_logging("warn");
    let entries = match args.host_entries() {
        Ok(entries) => entries,
        Err(error) => {
            report::say(&error.to_string());
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let code = if entries.is_empty() { run_here(&args) } else { run_on(&entries, &args) };
    code.map(ExitCode::from)
}

/// Runs the job on this host.
fn run_here(args: &Args) -> Result<u8> {
    let executable = match args.executable() {
        Ok(path) => path,
        Err(error) => {
            report::say(&error.to_string());
            return Ok(error.exit_code());
        }
    };
    let signals = block_signals()?;
    let (parent, directory) = make_directory(args, None)?;
    let name = directory.name().to_owned();
    let plan = spawn::SpawnPlan::new(args, spawn::Share::whole(args), executable, &directory, &parent)?;
    let ranks = ranks::Ranks::new(directory, plan, signals.mask_before());
    supervise::here(ranks, &name, signals, args)
}

/// Runs the job on these hosts.
fn run_on(entries: &[host_list::HostEntry], args: &Args) -> Result<u8> {
    let signals = block_signals()?;
    let deadline = args.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    match agents::prepare(args, entries, &signals, deadline)? {
        Ok(agents) => supervise::on_hosts(agents, signals, deadline, args),
        Err(code) => Ok(code),
    }
}

fn block_signals() -> Result<signals::Signals> {
    signals::Signals::block().context("cannot block and read signals")
}

/// Makes the job's directory. Returns its parent, and the directory.
///
/// `name`: the job's, if its launcher has named it.
pub(crate) fn make_directory(args: &Args, name: Option<String>) -> Result<(PathBuf, JobDirectory)> {
    let parent = std::path::absolute(selvedge_job::parent()).context("cannot find the parent of job directories")?;
    for name in sweep_stale(&parent) {
        log::info!("removed the files of job {name}, whose launcher is dead");
    }
    let launcher = Identity::own();
    // The name is readable, and unique until the machine restarts.
    let name = name.unwrap_or_else(|| format!("run-{}-{}", launcher.pid, launcher.start));
    let directory = JobDirectory::create_in(&parent, &name).context("cannot make the job's directory")?;
    let program = args.program().to_string_lossy().into_owned();
    let record = JobRecord { launcher, name, size: args.ranks, program };
    record.write(&directory).context("cannot write the record of the job")?;
    Ok((parent, directory))
}
