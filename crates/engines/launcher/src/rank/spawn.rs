// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts a rank: its environment, its sockets and pipes, its core.
//!
//! Invariants
//! 1. A rank dies with the launcher, even if the launcher is killed (`PR_SET_PDEATHSIG`).
//! 2. A rank leads its own process group. So a signal from the terminal reaches only the launcher, which passes it on
//!    once, and the launcher can end processes that a failed rank has started.
//! 3. A rank inherits its own PMI socket and standard streams, and no other descriptor of the launcher.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::CpuSet;
use selvedge_job::{Identity, JobDirectory};
use selvedge_os::sanitizer::is_runtime;
use selvedge_settings::report::REPORTED;

use super::connection::Connection;
use super::output::Stream;
use super::runner::{Runner, RunnerError};
use super::screens::{Screens, Takes};
use super::{terminal, window};
use crate::environment;
use crate::executable::Executable;
use crate::options::{Binding, JobOptions, MemoryPath, NicMode};
use crate::preload::{LD_PRELOAD, OPENMPI_HOOKS, Preloads, options};

/// The part of a job that runs on this host.
pub(crate) struct Share {
    /// In ascending order.
    pub(crate) ranks: Vec<usize>,
    /// Variables about this host.
    pub(crate) variables: Vec<(&'static str, OsString)>,
    /// Input and output go through pipes, because the launcher is elsewhere.
    pub(crate) through_pipes: bool,
}

impl Share {
    pub(crate) fn whole(options: &JobOptions) -> Share {
        Share { ranks: (0..options.ranks as usize).collect(), variables: Vec::new(), through_pipes: false }
    }
}

/// The common settings of all ranks of this host.
pub(crate) struct SpawnPlan {
    executable: PathBuf,
    runner: Runner,
    /// The file of commands for gdb.
    script: PathBuf,
    pub(crate) screens: Screens,
    program: Executable,
    name: OsString,
    args: Vec<OsString>,
    pub(crate) size: usize,
    /// The ranks of this host.
    pub(crate) ranks: Vec<usize>,
    set: BTreeMap<OsString, OsString>,
    unset: Vec<OsString>,
    /// The ranks' output goes through pipes.
    pub(crate) capture_output: bool,
    /// The file that takes the ranks' standard output, unless it goes through pipes.
    pub(crate) output: Option<Arc<File>>,
    /// Standard input comes through a pipe: it is elsewhere, or a terminal, which other process groups may not read.
    pub(crate) forward_stdin: bool,
    /// The cores to pin ranks to; empty: ranks are not pinned.
    cores: Vec<usize>,
    open_files: libc::rlimit,
    /// Time is virtual, and addresses must be the same in every run.
    simulated: bool,
}

pub(crate) struct Started {
    pub(crate) who: Identity,
    pub(crate) connection: Connection,
    pub(crate) streams: [Option<Stream>; 2],
    pub(crate) stdin: Option<OwnedFd>,
}

impl SpawnPlan {
    pub(crate) fn new(
        options: &JobOptions,
        share: Share,
        (executable, runner): (PathBuf, Runner),
        directory: &JobDirectory,
        parent: &Path,
    ) -> io::Result<SpawnPlan> {
        let here = share.ranks.len();
        let capture_output = options.tag_output || share.through_pipes;
        let mut set = environment(options, share.variables, directory, parent);
        let program = Executable::read(&executable);
        let users = variable(&set, LD_PRELOAD);
        let is_first = program.runtime() == program.libraries.first().map(String::as_str);
        if program.runtime().is_some() && !(users.is_empty() && is_first) {
            set.insert(LD_PRELOAD.into(), Preloads::default().value(&users, &program));
        }
        if program.is_sanitized() {
            set_options(&mut set);
        }
        let script = directory.path().join("gdb");
        if let Some(text) = runner.script() {
            std::fs::write(&script, text)?;
        }
        Ok(SpawnPlan {
            executable,
            runner,
            script,
            screens: Screens::default(),
            program,
            name: options.program().to_owned(),
            args: options.command.iter().skip(1).cloned().collect(),
            size: options.ranks as usize,
            ranks: share.ranks,
            set,
            unset: variables_of_outer_launchers(),
            capture_output,
            output: None,
            forward_stdin: share.through_pipes || io::stdin().is_terminal(),
            cores: cores(options.bind, here),
            open_files: allow_open_files(if capture_output { 3 } else { 1 } * here + 64)?,
            simulated: false,
        })
    }

    /// Opens the terminals of the ranks that the user debugs.
    pub(crate) fn open_screens(&mut self, folder: &Path, mask: libc::sigset_t) -> Result<(), RunnerError> {
        self.screens = Screens::open(&self.runner, &self.ranks, folder, mask)?;
        self.forward_stdin &= !self.screens.take_input();
        Ok(())
    }

    /// Changes the plan to virtual time on a machine with a core for each rank. Each rank loads these libraries first.
    pub(crate) fn simulate(&mut self, preloads: &Preloads) -> io::Result<()> {
        let libraries = preloads.value(&variable(&self.set, LD_PRELOAD), &self.program);
        self.set.insert(LD_PRELOAD.into(), libraries);
        set_options(&mut self.set);
        let mut set = |wanted: bool, (name, value): (&str, &str)| {
            if wanted && variable(&self.set, name).is_empty() {
                self.set.insert(name.into(), value.into());
            }
        };
        // The runtime starts a program that looks up symbols, past the functions that give it the real cycle counter.
        let is_sanitized = self.program.is_sanitized();
        set(is_sanitized, ("SELVEDGE_SIM_TSC", "0"));
        set(self.program.has_thread_sanitizer(), OPENMPI_HOOKS);
        // A rank's page, wake-up pipe, process and PMI socket, and the pipes of its output.
        let needed = (if self.capture_output { 6 } else { 4 }) * self.size + 64;
        self.open_files = allow_open_files(needed)?;
        if self.open_files.rlim_max < needed as libc::rlim_t {
            return Err(io::Error::other(format!(
                "{} ranks need {needed} open files in the simulator, and the limit is {}; raise it (ulimit -Hn {needed}, by root), \
                 or simulate fewer ranks",
                self.size, self.open_files.rlim_max
            )));
        }
        self.simulated = true;
        Ok(())
    }

    /// Whether ranks have the runtime of a sanitizer: their program's, or one that the user preloads.
    pub(crate) fn is_sanitized(&self) -> bool {
        let preloaded = variable(&self.set, LD_PRELOAD);
        let is_preloaded = preloaded.as_encoded_bytes().split(|byte| *byte == b':').any(is_runtime);
        is_preloaded || self.program.is_sanitized()
    }

    /// The program as the user gave it.
    pub(crate) fn program(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// Starts one rank, the `nth_here` of this host.
    pub(crate) fn start(
        &self,
        rank: usize,
        nth_here: usize,
        mask: libc::sigset_t,
        own: &[(&str, &OsStr)],
    ) -> io::Result<Started> {
        let flags = SocketFlags::CLOEXEC;
        let (ours, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let preloads = variable(&self.set, LD_PRELOAD);
        let mut command = self.runner.command(rank, (&self.executable, &self.name), &self.script, &preloads);
        command.args(&self.args);
        for name in &self.unset {
            command.env_remove(name);
        }
        command.envs(&self.set);
        if self.runner.is_debugger(rank) {
            command.env_remove(LD_PRELOAD);
        }
        command.env("SELVEDGE_RANK", rank.to_string());
        command.env("PMI_RANK", rank.to_string());
        command.envs(own.iter().copied());
        let here = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let cores = if self.simulated { self.size } else { here() };
        command.env("SELVEDGE_CORES", cores.to_string());
        command.env("PMI_FD", theirs.as_raw_fd().to_string());
        command.stdin(match rank {
            0 if self.forward_stdin => Stdio::piped(),
            0 if !self.screens.take_input() => Stdio::inherit(),
            _ => Stdio::null(),
        });
        if self.capture_output {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        } else if let Some(file) = &self.output {
            command.stdout(file.try_clone()?);
        }
        let takes = match self.screens.has(rank) {
            true => self.screens.connect(rank, &mut command)?,
            false => Takes::Nothing,
        };
        if takes != Takes::Session {
            command.process_group(0);
        }
        let preparation = Preparation {
            launcher: rustix::process::getpid(),
            socket: theirs.as_raw_fd(),
            mask,
            open_files: self.open_files,
            simulated: self.simulated,
            takes,
            core: self.cores.get(nth_here % self.cores.len().max(1)).map(|&core| {
                let mut set = CpuSet::new();
                set.set(core);
                set
            }),
        };
        // SAFETY: `run` only makes system calls and allocates nothing, so it may run between fork and exec.
        unsafe { command.pre_exec(move || preparation.run()) };
        let mut child = command.spawn()?;
        let who = Identity::of(child.id()).unwrap_or(Identity { pid: child.id(), start: 0 });
        Ok(Started {
            who,
            connection: Connection::new(ours),
            streams: [
                child.stdout.take().map(|pipe| Stream::new(pipe.into())),
                child.stderr.take().map(|pipe| Stream::new(pipe.into())),
            ],
            stdin: child.stdin.take().map(OwnedFd::from),
        })
    }
}

/// The changes that a rank makes to itself before it executes the program.
struct Preparation {
    launcher: rustix::process::Pid,
    socket: i32,
    mask: libc::sigset_t,
    open_files: libc::rlimit,
    simulated: bool,
    takes: Takes,
    core: Option<CpuSet>,
}

impl Preparation {
    /// Runs between fork and exec: system calls only, no allocation.
    fn run(&self) -> io::Result<()> {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // The launcher may have died before the call above.
        if rustix::process::getppid() != Some(self.launcher) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        match self.takes {
            Takes::Nothing => {}
            // Without the foreground the debugger is stopped, and the user continues it by the shell's `fg`.
            Takes::Foreground => drop(terminal::set_foreground(rustix::process::getpid())),
            Takes::Session => window::lead_session()?,
        }
        if let Some(core) = &self.core {
            rustix::thread::sched_setaffinity(None, core)?;
        }
        if self.simulated {
            // SAFETY: `personality` takes a number. If the kernel refuses, addresses differ from run to run.
            unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
        }
        // SAFETY: `fcntl` takes numbers; `open_files` and `mask` are fields of `self`, initialised and alive across the calls.
        let failed = unsafe {
            libc::fcntl(self.socket, libc::F_SETFD, 0) < 0
                || libc::setrlimit(libc::RLIMIT_NOFILE, &self.open_files) < 0
                || libc::sigprocmask(libc::SIG_SETMASK, &self.mask, std::ptr::null_mut()) < 0
        };
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Sets the variables for sanitizers.
fn set_options(set: &mut BTreeMap<OsString, OsString>) {
    for (name, value) in options(|name| variable(set, name)) {
        set.insert(name.into(), value);
    }
}

/// A variable of the ranks, empty if there is none.
fn variable(set: &BTreeMap<OsString, OsString>, name: &str) -> OsString {
    set.get(OsStr::new(name)).cloned().or_else(|| std::env::var_os(name)).unwrap_or_default()
}

fn environment(
    options: &JobOptions,
    of_host: Vec<(&'static str, OsString)>,
    directory: &JobDirectory,
    parent: &Path,
) -> BTreeMap<OsString, OsString> {
    let mut set: BTreeMap<OsString, OsString> = of_host.into_iter().map(|(name, value)| (name.into(), value)).collect();
    let size = options.ranks.to_string();
    for (name, value) in [
        ("SELVEDGE_JOB", OsStr::new(directory.name())),
        ("SELVEDGE_DIR", parent.as_os_str()),
        ("SELVEDGE_SIZE", OsStr::new(&size)),
        ("PMI_SIZE", OsStr::new(&size)),
        // The command has reported the mistakes in its settings.
        (REPORTED, OsStr::new("1")),
    ] {
        set.insert(name.into(), value.to_owned());
    }
    if let Some(mode) = options.mode.map(NicMode::name) {
        set.insert("SELVEDGE_MODE".into(), mode.into());
    }
    if let Some(path) = options.path.map(MemoryPath::name) {
        set.insert("SELVEDGE_PATH".into(), path.into());
    }
    set.extend(options.env.iter().map(|(name, value)| (name.into(), value.into())));
    let given = set.get(OsStr::new(LIBRARY_PATH)).cloned().or_else(|| std::env::var_os(LIBRARY_PATH));
    let own = library_folder().filter(|folder| !is_systems(folder));
    if let Some(path) = own.and_then(|folder| with_folder(&folder, given.as_deref())) {
        set.insert(LIBRARY_PATH.into(), path);
    }
    set
}

const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";

/// The folder of `libportals.so` that belongs to this command, if it exists.
pub(crate) fn library_folder() -> Option<PathBuf> {
    let beside =
        std::env::current_exe().ok().and_then(|exe| Some(exe.canonicalize().ok()?.parent()?.parent()?.to_owned()));
    let given = selvedge_settings::nonempty("SELVEDGE_PREFIX").map(PathBuf::from);
    #[cfg(test)] // the tree that `make build` makes
    let beside = beside.into_iter().chain([Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../build")]);
    let mut folders = given.into_iter().chain(beside).map(|prefix| environment::library_folder(&prefix));
    folders.find(|folder| folder.join("libportals.so.1").exists())
}

/// Whether the loader looks there in any case. In the search path, the folder would come before those of other programs.
fn is_systems(folder: &Path) -> bool {
    let below = |root: &str| folder.strip_prefix(root).is_ok_and(|rest| rest.components().count() <= 1);
    ["/lib", "/lib64", "/usr/lib", "/usr/lib64"].into_iter().any(below)
}

/// The search path with this folder first; `None` if it contains the folder already.
fn with_folder(folder: &Path, given: Option<&OsStr>) -> Option<OsString> {
    let given = given.filter(|given| !given.is_empty());
    let before: Vec<PathBuf> = given.map(|given| std::env::split_paths(given).collect()).unwrap_or_default();
    if before.iter().any(|known| known == folder) {
        return None;
    }
    std::env::join_paths([folder.to_owned()].into_iter().chain(before)).ok()
}

/// Variables of an outer launcher. A rank that finds them would take the outer launcher for its own.
fn variables_of_outer_launchers() -> Vec<OsString> {
    let foreign = |name: &str| {
        const NAMES: [&str; 11] = [
            "PMI_PORT",
            "PMI_ID",
            "PMI_SPAWNED",
            "MPI_LOCALNRANKS",
            "OMPI_COMM_WORLD_LOCAL_SIZE",
            "PMIX_NAMESPACE",
            "PMIX_RANK",
            "SELVEDGE_HOST",
            "SELVEDGE_HOSTS",
            "SELVEDGE_NET_ADDRESS",
            "SELVEDGE_SECRET",
        ];
        NAMES.contains(&name) || name.starts_with("PMIX_SERVER_URI")
    };
    std::env::vars_os().map(|(name, _)| name).filter(|name| name.to_str().is_some_and(foreign)).collect()
}

/// The cores to pin ranks to; empty if ranks are not pinned.
fn cores(bind: Option<Binding>, size: usize) -> Vec<usize> {
    if bind == Some(Binding::None) {
        return Vec::new();
    }
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
        log::warn!("ranks are not pinned, because the kernel does not report the allowed cores");
        return Vec::new();
    };
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    if bind.is_none() && size > cores.len() { Vec::new() } else { cores }
}

/// Raises the limit of open files to at least `needed`, if allowed. Returns the previous limit, for the ranks.
pub(crate) fn allow_open_files(needed: usize) -> io::Result<libc::rlimit> {
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills `before`, which lives across the call.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let needed = needed as libc::rlim_t;
    if before.rlim_cur < needed {
        let wanted = libc::rlimit { rlim_cur: needed.min(before.rlim_max), ..before };
        // SAFETY: setrlimit reads `wanted`, which lives across the call. If it fails, starting a rank reports the reason.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &wanted) };
    }
    Ok(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_comes_first_and_once() {
        let folder = Path::new("/opt/selvedge/lib");
        let with = |given: Option<&str>| with_folder(folder, given.map(OsStr::new));
        assert_eq!(with(None), Some("/opt/selvedge/lib".into()));
        assert_eq!(with(Some("")), Some("/opt/selvedge/lib".into()));
        assert_eq!(with(Some("/a:/b")), Some("/opt/selvedge/lib:/a:/b".into()));
        assert_eq!(with(Some("/a:/opt/selvedge/lib")), None);
    }

    #[test]
    fn binding_follows_the_number_of_cores() {
        let all = cores(Some(Binding::Core), 1);
        assert!(!all.is_empty());
        assert_eq!(cores(Some(Binding::Core), 10 * all.len()), all, "requested explicitly: cores are shared");
        assert_eq!(cores(None, all.len()), all);
        assert!(cores(None, all.len() + 1).is_empty());
        assert!(cores(Some(Binding::None), 1).is_empty());
    }
}
