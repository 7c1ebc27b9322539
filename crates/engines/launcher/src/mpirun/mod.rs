// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A job under an MPI's own launcher, with the environment that makes its MPI use our provider.
//!
//! [`LaunchPlan`] holds three decisions: the MPI of the program ([`family`]), the launcher to start, and its variables
//! ([`crate::environment`]). An MPI whose library shows that it does not use libfabric is refused ([`network`]). The
//! launcher places, starts and ends the ranks. It gets all other options on the command line unchanged
//! ([`command_line`]).
//!
//! Invariant: after the launcher's end, files of dead processes in this user's directory are removed ([`leftovers`]).

mod command_line;
mod error;
mod family;
mod leftovers;
mod libraries;
pub mod network;
mod relay;

pub use command_line::CommandLine;
pub use error::{MpirunError, NotStarted};
pub use family::{Family, LAUNCHERS, library_of, of_version};
pub use leftovers::DeadProcess;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use command_line::Program;
use leftovers::Leftovers;
use network::Network;
use selvedge_settings::report::REPORTED;

use crate::environment::{self, Variable};
use crate::executable::Executable;
use crate::preload::{self, LD_PRELOAD, OPENMPI_HOOKS, Preloads};

/// The launcher to start, its variables and its arguments.
pub struct LaunchPlan {
    pub family: Family,
    pub launcher: PathBuf,
    pub variables: Vec<Variable>,
    pub arguments: Vec<OsString>,
    /// Variables are set that allow Open MPI to run as root. Otherwise it refuses.
    pub allows_root: bool,
    /// Lines about programs into which our libraries are not loaded.
    pub lacks: Vec<String>,
}

/// A job after the end of its launcher.
pub struct EndedJob {
    pub exit_code: u8,
    /// Processes of the job that have died, if the launcher cannot have reported them.
    pub dead: Vec<DeadProcess>,
    /// Jobs whose files were removed.
    pub removed: Vec<String>,
}

impl LaunchPlan {
    /// Chooses the MPI and the launcher, unless the user has chosen, and makes the environment. `wrapper`: the words of a
    /// command that runs each program; empty: none.
    pub fn make(
        mpi: Option<Family>,
        launcher: Option<PathBuf>,
        wrapper: Vec<String>,
        mut line: CommandLine,
    ) -> Result<LaunchPlan, MpirunError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let programs = line.programs(&path);
        let program = programs.first().map(|program| program.file.as_path());
        programs
            .iter()
            .try_for_each(|program| crate::program::check_machine(&program.file))
            .map_err(NotStarted::Program)?;
        let library = program.and_then(family::library_of);
        let has_mpi = mpi.is_some() || launcher.is_some() || library.is_some();
        if let Some((library, family)) = library.as_ref().and_then(|library| Some((library.file()?, library.family()?)))
        {
            needs_libfabric(library, family)?;
        }
        let has_library = library.is_some();
        let (family, launcher) = choose(mpi, launcher, library, program.and_then(virtual_environment), &path)?;
        if let Some(library) = network::library_beside(&launcher, family).filter(|_| !has_library) {
            needs_libfabric(&library, family)?;
        }
        let provider = environment::provider_directory(&environment::prefix()?)?;
        let mut variables = environment::variables(family.target(), &provider)?;
        variables.extend(environment::libraries(family.target(), &provider));
        let allows_root = family == Family::Openmpi && rustix::process::geteuid().is_root();
        if allows_root {
            let allow_root = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
            variables.extend(allow_root.map(|name| Variable { name, value: "1".into() }));
        }
        let files: Vec<Executable> = programs.iter().map(|program| Executable::read(&program.file)).collect();
        let (hooks, value) = OPENMPI_HOOKS;
        let has_hooks = family == Family::Openmpi && std::env::var_os(hooks).is_none();
        if has_hooks && files.iter().any(Executable::has_thread_sanitizer) {
            variables.push(Variable { name: hooks, value: value.into() });
        }
        if let Some(preloads) = environment::preloads(family.target(), &provider) {
            // From the last to the first, because added words move those behind them.
            for (program, file) in programs.iter().zip(&files).rev() {
                preload_into(&mut line, program, file, family, &preloads);
            }
        }
        if let Some(name) = wrapper.first() {
            crate::program::find(OsStr::new(name), &path).map_err(NotStarted::Program)?;
            line.wrap(&wrapper, &path);
        }
        let both = programs.iter().zip(&files);
        let mut lacks: Vec<String> =
            both.filter_map(|(program, file)| preload::lack(&program.file, file.loading, WITHOUT)).collect();
        if let Some(program) = program.filter(|_| !has_mpi && files.first().is_some_and(is_linked)) {
            let (program, launcher) = (program.display(), launcher.display());
            lacks.push(format!(
                "{program} is linked to no MPI; {launcher} starts it, as each process alone if it uses none (--mpi names \
                 the MPI of a script or an interpreter; selvedge run starts OpenSHMEM and Portals)"
            ));
        }
        Ok(LaunchPlan { family, launcher, variables, arguments: line.into_arguments(), allows_root, lacks })
    }

    /// Runs the launcher to its end, and removes the files of dead processes.
    pub fn run(&self) -> Result<EndedJob, MpirunError> {
        // The ranks find this folder themselves.
        let parent = selvedge_job::usable_folder().map_err(MpirunError::Folder)?;
        let before = Leftovers::before(&parent);
        let ended = relay::run(&mut self.command())?;
        if ended.exit_code() != 0 {
            before.wait_for_killed_ranks();
        }
        let dead = if ended.cannot_have_reported() { before.dead() } else { Vec::new() };
        Ok(EndedJob { exit_code: ended.exit_code(), dead, removed: before.sweep() })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(&self.arguments);
        command.envs(self.variables.iter().map(|variable| (variable.name, &variable.value)));
        // The command has reported the mistakes in its settings, except in those that the launcher's options set.
        if !self.arguments.iter().any(|word| word.to_string_lossy().contains("SELVEDGE_")) {
            command.env(REPORTED, "1");
        }
        command
    }

    /// The command line as a user would type it.
    pub fn command_line(&self) -> String {
        let words = std::iter::once(self.launcher.as_os_str()).chain(self.arguments.iter().map(OsString::as_os_str));
        words.map(|word| environment::shell_word(&word.to_string_lossy())).collect::<Vec<_>>().join(" ")
    }
}

/// Adds the launcher's options that preload libraries into one program, if it needs others than most do. The launcher
/// itself must not load the runtime of a sanitizer, which would report the launcher's leaks.
fn preload_into(line: &mut CommandLine, program: &Program, file: &Executable, family: Family, preloads: &Preloads) {
    let users = std::env::var_os(LD_PRELOAD).unwrap_or_default();
    let value = preloads.value(&users, file);
    if value != preloads.value(&users, &Executable::default()) {
        let options = match family {
            Family::Openmpi => vec!["-x".into(), [OsStr::new(LD_PRELOAD), &value].join(OsStr::new("="))],
            Family::Mpich => vec!["-env".into(), LD_PRELOAD.into(), value],
        };
        line.add_options(program, LD_PRELOAD, options);
    }
}

/// Whether a program lists libraries, as a script does not.
fn is_linked(program: &Executable) -> bool {
    !program.libraries.is_empty()
}

/// The loss of an MPI program that does not load our libraries.
const WITHOUT: &str = "its memory is not shared, its collective operations use no aggregation nodes, and its MPI may not \
                       find Selvedge's provider";

/// Refuses an MPI that would run without our provider.
fn needs_libfabric(library: &Path, family: Family) -> Result<(), MpirunError> {
    match network::of_library(library, family) {
        Network::Other(has) => Err(MpirunError::NoLibfabric { family, library: library.to_owned(), has }),
        Network::Libfabric | Network::Unknown => Ok(()),
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
) -> Result<(Family, PathBuf), MpirunError> {
    let linked = library.as_ref().and_then(family::Library::family);
    if let (Some(requested), Some(linked)) = (mpi, linked) {
        if requested != linked {
            return Err(MpirunError::OtherMpi { linked, requested });
        }
    }
    if let Some(launcher) = launcher {
        let launcher = crate::program::find(launcher.as_os_str(), path).map_err(NotStarted::Program)?;
        let family = mpi.or(linked).or_else(|| family::of_launcher(&launcher));
        let family = family.ok_or_else(|| MpirunError::UnknownLauncher { launcher: launcher.clone() })?;
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
    Err(MpirunError::NoLauncher { wanted })
}

/// The launcher with the links of its directory resolved, because /bin may be a link to /usr/bin. Open MPI 4 derives
/// its prefix from the path of its launcher, and finds none from /bin.
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
