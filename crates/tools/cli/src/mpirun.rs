// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge mpirun`: starts an MPI's launcher so that its MPI uses our provider ([`selvedge_launcher::mpirun`]).
//!
//! Exit code: the launcher's; 128 + the signal's number if a signal ended it; 126 and 127 for a launcher that cannot be
//! started or found; 1 if the MPI is unknown or the provider is missing.
//!
//! Invariant: only `--dry-run` writes to standard output.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use selvedge_launcher::environment::{Shell, Variable};
use selvedge_launcher::mpirun::{CommandLine, Family, LaunchPlan, MpirunError};

use crate::choice::{FAMILIES, one_of};
use crate::run::{Words, words};

/// Start an MPI program with its MPI's own launcher, over Selvedge.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = "selvedge mpirun [OPTIONS] [LAUNCHER'S OPTIONS] PROGRAM [ARGS]...")]
pub struct Args {
    /// MPI of the program [default: the one it is linked to, else the first mpirun in PATH]
    #[arg(long, value_parser = one_of(FAMILIES))]
    mpi: Option<Family>,

    /// The launcher to start [default: the one beside the MPI library that the program is linked to, else from PATH]
    #[arg(long, value_name = "PATH")]
    launcher: Option<PathBuf>,

    /// Run each rank's program under a command, as `valgrind -q` or `xterm -e gdb --args`
    #[arg(long, value_name = "COMMAND", value_parser = words)]
    wrapper: Option<Words>,

    /// Print the variables and the command line without starting anything
    #[arg(long)]
    dry_run: bool,

    /// Report the chosen MPI and launcher, and the variables that are set
    #[arg(long)]
    verbose: bool,

    /// The launcher's own options, the program and its arguments
    // One list, because options unknown to clap belong to the launcher.
    #[arg(value_name = "PROGRAM [ARGS]", required = true, num_args = 1.., trailing_var_arg = true,
          allow_hyphen_values = true)]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Everything that is not listed here goes to the launcher as it is, such as -n 4, --bind-to core or, for several \
programs, `-n 1 ./a : -n 1 ./b`. The options above may be anywhere before the program.

For scripts and interpreters (python with mpi4py), name the MPI with --mpi, because the file does not show it.

Example:  selvedge mpirun -n 2 ./a.out";

pub fn main(args: Args) -> Result<ExitCode> {
    match start(args) {
        Err(error) => match error.downcast::<MpirunError>()? {
            MpirunError::NotStarted(error) => {
                say(&error.to_string());
                Ok(ExitCode::from(error.exit_code()))
            }
            error => Err(error.into()),
        },
        done => done,
    }
}

fn start(args: Args) -> Result<ExitCode> {
    let mut line = CommandLine::new(args.command);
    let verbose = line.take_flag("--verbose") || args.verbose;
    let dry_run = line.take_flag("--dry-run") || args.dry_run;
    let launcher = line.take_value("--launcher")?.map(PathBuf::from).or(args.launcher);
    let mpi = match line.take_value("--mpi")? {
        Some(name) => Some(family_named(&name)?),
        None => args.mpi,
    };
    let wrapper = match line.take_value("--wrapper")? {
        Some(text) => Some(wrapper(&text)?),
        None => args.wrapper,
    };
    let plan = LaunchPlan::make(mpi, launcher, wrapper.map(|words| words.0).unwrap_or_default(), line)?;
    if verbose {
        describe(&plan);
    }
    if dry_run {
        println!("{}{}", Shell::Sh.lines(&plan.variables)?, plan.command_line());
        return Ok(ExitCode::SUCCESS);
    }
    plan.lacks.iter().for_each(|line| say(line));
    let ended = plan.run()?;
    for dead in &ended.dead {
        say(&format!("process {} (number {} of job {}) died", dead.os_pid, dead.number, dead.job));
    }
    for job in ended.removed.iter().filter(|_| verbose) {
        say(&format!("removed the files of job {job}"));
    }
    Ok(ExitCode::from(ended.exit_code))
}

fn say(text: &str) {
    eprintln!("selvedge mpirun: {text}");
}

fn family_named(name: &OsStr) -> Result<Family, MpirunError> {
    let known = FAMILIES.iter().find(|choice| choice.name == name).map(|choice| choice.value);
    known.ok_or_else(|| MpirunError::UnknownMpi { name: name.to_string_lossy().into_owned() })
}

fn wrapper(text: &OsStr) -> Result<Words, MpirunError> {
    words(&text.to_string_lossy()).map_err(|why| MpirunError::Wrapper { why })
}

fn describe(plan: &LaunchPlan) {
    if plan.allows_root {
        say("Open MPI refuses to run as root unless two variables allow it; both are set");
    }
    say(&format!("{}, by {}", plan.family.name(), plan.launcher.display()));
    for Variable { name, value } in &plan.variables {
        let before = std::env::var_os(name).filter(|before| before != value);
        let instead = before.map_or(String::new(), |before| format!(" (instead of {})", before.to_string_lossy()));
        say(&format!("{name}={}{instead}", value.to_string_lossy()));
    }
}
