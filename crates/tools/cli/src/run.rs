// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge run`: starts and supervises a job of N processes; and the agents that it starts on hosts
//! ([`selvedge_launcher::hosts`]).
//!
//! Exit code: 0 when every rank exited with 0; else that of the first rank that failed (128 + the signal's number if a
//! signal killed it); the code given to an abort; 124 after the time limit; 126 and 127 for a program that cannot be
//! started or found; 2 for an invalid command line; 1 when the job could not be set up.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use selvedge_launcher::hosts::{self, agent};
use selvedge_launcher::report::say;
use selvedge_launcher::{Binding, Gdb, JobOptions, LauncherError, MemoryPath, NicMode, RankList};
use selvedge_otf2::ArchiveError;
use selvedge_otf2::archive;
use selvedge_otf2::library::Library;
use selvedge_process::process::start_logging;

use crate::choice::{Choice, one_of};
use crate::settings;
use crate::values::time_above_zero;

/// Start a job of N processes, on this machine or on several hosts.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = "selvedge run [OPTIONS] PROGRAM [ARGS]...")]
pub struct Args {
    /// Number of processes; also -np
    #[arg(short = 'n', long = "np", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..))]
    ranks: u32,

    /// Hosts to run on, as `a,b:2,c`, each with its slots; they are reached by ssh
    #[arg(long, value_name = "HOSTS")]
    hosts: Option<String>,

    /// A file with one host a line: `name`, `name:2` or `name slots=2`
    #[arg(long, value_name = "FILE", conflicts_with = "hosts")]
    hostfile: Option<PathBuf>,

    /// Start an aggregation node on each of several hosts, which reduces for the job (MPI, with `selvedge env`)
    #[arg(long)]
    aggregation: bool,

    /// Pin each rank to a core, in order [default: core if there are at least as many cores as ranks]
    #[arg(long, value_parser = one_of(BINDINGS))]
    bind: Option<Binding>,

    /// The process that runs a NIC: the sender of a message, or only the NIC's owner
    #[arg(long, value_parser = one_of(MODES))]
    mode: Option<NicMode>,

    /// Path to another process's memory
    #[arg(long, value_parser = one_of(PATHS))]
    path: Option<MemoryPath>,

    /// Set an environment variable in the ranks; may be given several times
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = assignment)]
    env: Vec<(String, String)>,

    /// End the job after this time, with exit code 124: seconds, or a number with a unit (100ms, 5min)
    #[arg(long, value_name = "TIME", value_parser = time_above_zero)]
    timeout: Option<Duration>,

    /// Write the ranks' output in whole lines, each marked with its rank
    #[arg(long)]
    tag_output: bool,

    /// Let the other ranks continue when one fails
    #[arg(long)]
    keep_going: bool,

    /// Write a trace in OTF2 of the calls of an OpenSHMEM program into a folder, which all hosts share
    #[arg(long, value_name = "DIR")]
    otf2: Option<PathBuf>,

    /// Run ranks under gdb, as `0`, `0,2-3` or `all`: one at this terminal, several in panes of tmux or windows on DISPLAY
    #[arg(long, value_name = "RANKS")]
    gdb: Option<RankList>,

    /// A command of gdb, as `run` and then `bt`, instead of a terminal; may be given several times
    #[arg(long, value_name = "COMMAND", requires = "gdb")]
    gdb_command: Vec<String>,

    /// Run each rank's program under a command, as `valgrind -q`; {rank} is the rank's number
    #[arg(long, value_name = "COMMAND", value_parser = words, conflicts_with = "gdb")]
    wrapper: Option<Words>,

    /// The program and its arguments
    // One list, so that all words after the program's name belong to the program, even our options.
    #[arg(value_name = "PROGRAM [ARGS]", required = true, num_args = 1.., trailing_var_arg = true)]
    command: Vec<OsString>,
}

const EXIT_USAGE: u8 = 2;

const AFTER_HELP: &str = "\
Standard input goes to rank 0. Each rank finds SELVEDGE_RANK, SELVEDGE_SIZE, SELVEDGE_JOB and SELVEDGE_DIR in its \
environment, and PMI-1 for programs that know it.

Hosts get ranks in blocks: one after the other, as many as a host has slots, in rounds if there are more ranks than slots; \
evenly if no slots are given. Every host needs this selvedge at the same path (or where SELVEDGE_AGENT says) and the working \
folder, and is reached by ssh without a password (or by the program that SELVEDGE_RSH names); with \
more than 32 hosts (or SELVEDGE_RUN_FANOUT) also from the other hosts.

Exit code: that of the first rank that failed (128 + signal number if killed), 124 after the time limit, \
126 or 127 if the program cannot be started or found.";

const BINDINGS: &[Choice<Binding>] = &[
    Choice {
        name: "core",
        value: Binding::Core,
        help: "Rank i on the i-th core that this command may use, starting again after the last core",
    },
    Choice { name: "none", value: Binding::None, help: "Leave it to the kernel" },
];

const MODES: &[Choice<NicMode>] = &[
    Choice { name: "nic", value: NicMode::Nic, help: "A sender runs the target's NIC itself" },
    Choice { name: "host", value: NicMode::Host, help: "A NIC runs when its own program calls the library" },
];

const PATHS: &[Choice<MemoryPath>] = &[
    Choice { name: "auto", value: MemoryPath::Auto, help: "The fastest path that works" },
    Choice { name: "shared", value: MemoryPath::Shared, help: "Only memory from selvedge_alloc, which is mapped" },
    Choice { name: "cma", value: MemoryPath::Cma, help: "The kernel copies between processes (cross-memory attach)" },
    Choice { name: "bounce", value: MemoryPath::Bounce, help: "Through slots in shared memory" },
];

/// Serve a launcher (started by `selvedge run --hosts`).
#[derive(clap::Args)]
pub struct AgentArgs {
    /// Kill the processes of this job that a lost agent left behind
    #[arg(long, value_name = "JOB")]
    end: Option<String>,

    /// The parent of the job directories
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// The words of a command.
#[derive(Clone)]
pub struct Words(pub Vec<String>);

/// Splits a command into words, as a shell does.
pub fn words(text: &str) -> Result<Words, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(Words(words)),
        Some(_) => Err("give a command, as 'valgrind -q'".to_owned()),
        None => Err("a quote is not closed".to_owned()),
    }
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

/// Runs the job, and returns its exit code.
pub fn main(mut args: Args) -> Result<ExitCode> {
    start_logging("warn");
    settings::check_assignments(&args.env);
    let traced = match traced_folder(&mut args) {
        Ok(traced) => traced,
        Err(error) => {
            say(&error.to_string());
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    };
    let program = args.command.first().cloned().unwrap_or_default();
    let code = match hosts::run(&args.into()) {
        Ok(code) => code,
        Err(LauncherError::Hosts(error)) => {
            say(&error.to_string());
            EXIT_USAGE
        }
        Err(LauncherError::Program(error)) => {
            say(&error.to_string());
            error.exit_code()
        }
        Err(LauncherError::Runner(error)) => {
            say(&error.to_string());
            error.exit_code()
        }
        Err(error) => return Err(error.into()),
    };
    if let Some(folder) = traced {
        finish_trace(&folder, &program.to_string_lossy());
    }
    Ok(ExitCode::from(code))
}

/// Returns the folder for a trace in OTF2, which `--otf2` names or a setting of the ranks. Tells it to the ranks.
///
/// # Errors
/// The folder has an archive, or there is no OTF2 library.
fn traced_folder(args: &mut Args) -> Result<Option<PathBuf>, ArchiveError> {
    const VARIABLE: &str = "SELVEDGE_OTF2";
    let assigned = args.env.iter().rev().find(|(name, _)| name == VARIABLE).map(|(_, value)| PathBuf::from(value));
    let set = assigned.or_else(|| selvedge_settings::nonempty(VARIABLE).map(PathBuf::from));
    let Some(folder) = args.otf2.take().or(set).filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    archive::check_folder(&folder)?;
    Library::load()?;
    args.env.push((VARIABLE.to_owned(), folder.to_string_lossy().into_owned()));
    Ok(Some(folder))
}

/// Makes the archive of a job whose PE 0 has not, because it was killed.
fn finish_trace(folder: &Path, program: &str) {
    match selvedge_otf2::calls::make(folder, program) {
        Ok(None) => {
            if !archive::anchor(folder).exists() {
                say(&format!(
                    "{}: no trace: the program has not started OpenSHMEM, or its hosts do not share the folder",
                    folder.display()
                ));
            }
        }
        Ok(Some(made)) => {
            if let Some(remark) = made.remark(folder) {
                say(&remark);
            }
        }
        Err(error) => say(&error.to_string()),
    }
}

/// Hold a window for a rank that runs under a debugger (started by `selvedge run --gdb`).
#[derive(clap::Args)]
pub struct WindowArgs {
    /// The launcher's socket
    socket: PathBuf,

    /// The rank
    rank: u32,
}

pub fn window_main(args: WindowArgs) -> Result<ExitCode> {
    selvedge_launcher::hold_window(&args.socket, args.rank)?;
    Ok(ExitCode::SUCCESS)
}

pub fn agent_main(args: AgentArgs) -> Result<ExitCode> {
    match args.end {
        Some(job) => agent::end_job(&job, &args.directory.unwrap_or_else(selvedge_job::jobs_folder)),
        None => agent::serve()?,
    }
    Ok(ExitCode::SUCCESS)
}

impl From<Args> for JobOptions {
    fn from(args: Args) -> JobOptions {
        JobOptions {
            ranks: args.ranks,
            hosts: args.hosts,
            hostfile: args.hostfile,
            aggregation: args.aggregation,
            bind: args.bind,
            mode: args.mode,
            path: args.path,
            env: args.env,
            timeout: args.timeout,
            tag_output: args.tag_output,
            keep_going: args.keep_going,
            wrapper: args.wrapper.map(|words| words.0).unwrap_or_default(),
            gdb: args.gdb.map(|ranks| Gdb { ranks, commands: args.gdb_command }),
            command: args.command,
        }
    }
}
