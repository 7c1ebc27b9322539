// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge mpirun`: starts an MPI's own launcher, with the environment that makes its MPI use our provider.
//!
//! It decides three things: which MPI the program belongs to ([`family`]), which launcher to start, and
//! with which variables ([`crate::environment`]). The launcher places, starts and ends the ranks. Options on the command line that are not
//! ours reach it unchanged ([`command_line`]).
//!
//! Exit code: the launcher's; 128 + the signal's number if a signal ended it; 126 and 127 for a launcher that cannot be
//! started or found; 1 when the MPI cannot be determined, or the provider is missing.
//!
//! Invariants: 1. only `--dry-run` writes to standard output. 2. After the launcher has ended, the files of dead
//! processes in this user's directory are removed.

mod command_line;
pub(crate) mod family;
mod leftovers;
mod relay;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, anyhow, bail};
use clap::ValueEnum;

use crate::environment::{self, Shell, Target, Variable};
use command_line::CommandLine;
use leftovers::Leftovers;

/// Start an MPI program with its MPI's own launcher, over Selvedge.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = "selvedge mpirun [OPTIONS] [LAUNCHER'S OPTIONS] PROGRAM [ARGS]...")]
pub struct Args {
    /// Which MPI the program belongs to [default: the one it is linked to, else the first mpirun in PATH]
    #[arg(long, value_enum)]
    mpi: Option<Family>,

    /// The launcher to start [default: the one beside the MPI library that the program is linked to, else from PATH]
    #[arg(long, value_name = "PATH")]
    launcher: Option<PathBuf>,

    /// Print the variables and the command line, and start nothing
    #[arg(long)]
    dry_run: bool,

    /// Report the MPI and launcher that were chosen, and the variables that are set
    #[arg(long)]
    verbose: bool,

    /// The launcher's own options, the program and its arguments
    // One list: options that clap does not know here belong to the launcher.
    #[arg(value_name = "PROGRAM [ARGS]", required = true, num_args = 1.., trailing_var_arg = true,
          allow_hyphen_values = true)]
    command: Vec<OsString>,
}

const AFTER_HELP: &str = "\
Everything that is not listed here goes to the launcher as it is, such as -n 4, --bind-to core or, for several \
programs, `-n 1 ./a : -n 1 ./b`. The options above may be anywhere before the program.

For scripts and interpreters (python with mpi4py), name the MPI with --mpi, because the file does not show it.

Example:  selvedge mpirun -n 2 ./a.out";

/// A family of MPIs, which share a launcher and a set of variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Family {
    /// Open MPI
    Openmpi,
    /// MPICH
    Mpich,
}

impl Family {
    pub fn target(self) -> Target {
        match self {
            Family::Openmpi => Target::Openmpi,
            Family::Mpich => Target::Mpich,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Family::Openmpi => "Open MPI",
            Family::Mpich => "MPICH",
        }
    }
}

/// The launcher to start, its variables and its arguments.
struct LaunchPlan {
    family: Family,
    launcher: PathBuf,
    variables: Vec<Variable>,
    arguments: Vec<OsString>,
}

pub fn main(args: Args) -> Result<ExitCode> {
    let mut line = CommandLine::new(args.command);
    let verbose = line.take_flag("--verbose") || args.verbose;
    let dry_run = line.take_flag("--dry-run") || args.dry_run;
    let launcher = line.take_value("--launcher")?.map(PathBuf::from).or(args.launcher);
    let mpi = match line.take_value("--mpi")? {
        Some(name) => Some(family_named(&name)?),
        None => args.mpi,
    };
    let plan = match LaunchPlan::make(mpi, launcher, line, verbose) {
        Ok(plan) => plan,
        Err(error) if error.is::<relay::NotStarted>() => return not_started(&error),
        Err(error) => return Err(error),
    };
    if verbose {
        plan.describe();
    }
    if dry_run {
        println!("{}{}", Shell::Sh.lines(&plan.variables)?, plan.command_line());
        return Ok(ExitCode::SUCCESS);
    }
    let parent = std::path::absolute(selvedge_job::parent()).context("cannot find the parent of job directories")?;
    let before = Leftovers::before(&parent);
    let ended = match relay::run(&mut plan.command()) {
        Ok(ended) => ended,
        Err(error) if error.is::<relay::NotStarted>() => return not_started(&error),
        Err(error) => return Err(error),
    };
    if ended.exit_code() != 0 {
        before.wait_for_killed_ranks();
    }
    before.sweep(ended.cannot_have_reported(), verbose);
    Ok(ExitCode::from(ended.exit_code()))
}

fn not_started(error: &anyhow::Error) -> Result<ExitCode> {
    let code = error.downcast_ref::<relay::NotStarted>().map_or(1, relay::NotStarted::exit_code);
    say(&format!("{error}"));
    Ok(ExitCode::from(code))
}

fn say(text: &str) {
    eprintln!("selvedge mpirun: {text}");
}

fn family_named(name: &OsStr) -> Result<Family> {
    let known = name.to_str().and_then(|name| Family::from_str(name, false).ok());
    known.ok_or_else(|| anyhow!("--mpi takes openmpi or mpich, not '{}'", name.to_string_lossy()))
}

impl LaunchPlan {
    fn make(mpi: Option<Family>, launcher: Option<PathBuf>, line: CommandLine, verbose: bool) -> Result<LaunchPlan> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = line.program(&path);
        let library = program.as_deref().and_then(family::library_of);
        let (family, launcher) =
            choose(mpi, launcher, library, program.as_deref().and_then(virtual_environment), &path)?;
        let provider = environment::provider_directory(&environment::prefix()?)?;
        let mut variables = environment::variables(family.target(), &provider)?;
        variables.extend(environment::libraries(family.target(), &provider));
        if family == Family::Openmpi && rustix::process::geteuid().is_root() {
            if verbose {
                say("Open MPI refuses to run as root unless two variables allow it: they are set");
            }
            let allow_root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
            variables.extend(allow_root.map(|name| Variable { name, value: "1".into() }));
        }
        Ok(LaunchPlan { family, launcher, variables, arguments: line.into_arguments() })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(&self.arguments);
        command.envs(self.variables.iter().map(|variable| (variable.name, &variable.value)));
        command
    }

    fn describe(&self) {
        say(&format!("{}, by {}", self.family.name(), self.launcher.display()));
        for Variable { name, value } in &self.variables {
            let before = std::env::var_os(name).filter(|before| before != value);
            let instead = before.map_or(String::new(), |before| format!(" (instead of {})", before.to_string_lossy()));
            say(&format!("{name}={}{instead}", value.to_string_lossy()));
        }
    }

    /// The command line as a user would type it.
    fn command_line(&self) -> String {
        let words = std::iter::once(self.launcher.as_os_str()).chain(self.arguments.iter().map(OsString::as_os_str));
        words.map(|word| environment::shell_word(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }
}

/// Chooses the MPI and its launcher: by the user's options, else by the program's MPI library, else by the program's Python virtual
/// environment, else by PATH.
fn choose(
    mpi: Option<Family>,
    launcher: Option<PathBuf>,
    library: Option<family::Library>,
    environment_bin: Option<&Path>,
    path: &OsStr,
) -> Result<(Family, PathBuf)> {
    let linked = library.as_ref().and_then(family::Library::family);
    if let (Some(requested), Some(linked)) = (mpi, linked) {
        if requested != linked {
            bail!("the program is linked to {}, not to {}", linked.name(), requested.name());
        }
    }
    if let Some(launcher) = launcher {
        let launcher = crate::program::find(launcher.as_os_str(), path).map_err(relay::NotStarted::from)?;
        let family = mpi.or(linked).or_else(|| family::of_launcher(&launcher));
        let family = family.ok_or_else(|| {
            anyhow!(
                "{} is neither Open MPI's nor MPICH's launcher by its --version; name the MPI with --mpi",
                launcher.display()
            )
        })?;
        return Ok((family, launcher));
    }
    let wanted = mpi.or(linked);
    let beside = library.iter().flat_map(|library| library.launchers_beside());
    let in_environment = environment_bin.into_iter().flat_map(family::launchers_in);
    let in_path = std::env::split_paths(path).flat_map(|directory| family::launchers_in(&directory));
    let candidates = beside.chain(in_environment).chain(in_path).filter(|candidate| is_executable(candidate));
    for candidate in candidates.map(with_real_directory) {
        match family::of_launcher(&candidate) {
            Some(found) if wanted.is_none_or(|wanted| wanted == found) => return Ok((found, candidate)),
            _ => {}
        }
    }
    bail!(
        "no launcher of {} was found beside the program's MPI library or in PATH; name it with --launcher",
        wanted.map_or("Open MPI or MPICH", Family::name)
    )
}

/// The launcher with the links of its directory resolved, as /bin is a link to /usr/bin. Open MPI 4 derives its prefix from the
/// path that it was started by, and /bin has none.
fn with_real_directory(launcher: PathBuf) -> PathBuf {
    let real = launcher.parent().and_then(|directory| directory.canonicalize().ok());
    match (real, launcher.file_name()) {
        (Some(directory), Some(name)) => directory.join(name),
        _ => launcher,
    }
}

/// The `bin` directory of a program in a Python virtual environment, where an MPI may be installed, too.
fn virtual_environment(program: &Path) -> Option<&Path> {
    let bin = program.parent()?;
    bin.parent()?.join("pyvenv.cfg").is_file().then_some(bin)
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}
