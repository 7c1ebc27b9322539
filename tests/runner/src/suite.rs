// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of a suite, and how its cases run.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::compile::{Compiler, compile_object_once, compile_once, files_with, stem};
use crate::{Case, process, tree};

/// Exit status of a case that skips itself: `STATUS_SKIPPED` of `tests/include/check.c`.
const STATUS_SKIPPED: i32 = 77;
/// Prefix of sources that are not families: the suite's other programs are linked with them.
const SHARED_SOURCES: &str = "suite";

/// A suite.
pub struct Suite {
    /// Prefix of the names of its programs and files in the target folder.
    pub name: &'static str,
    /// Its package, and the test of that package, for the command that repeats a case.
    pub package: &'static str,
    pub test: &'static str,
    /// Folder of its sources, and folder for programs and logs.
    pub sources: PathBuf,
    pub output: PathBuf,
    pub compiler: Compiler,
    /// Files that a program must be newer than, besides its sources and headers.
    pub inputs: Vec<PathBuf>,
    pub variants: Vec<Variant>,
    /// Time limit of a job, in seconds.
    pub limit_s: u64,
    /// Number of cases that run concurrently on each core.
    pub cases_per_core: usize,
    /// Another library that the suite runs over. Cases whose `stock` names it are ignored, cases may skip themselves,
    /// and a family may be empty.
    pub stock: Option<String>,
    /// Variables of this process that are removed for jobs.
    pub removed: &'static [&'static str],
    /// Variables that a command which repeats a case must set to their values here.
    pub settings: &'static [&'static str],
}

/// One environment in which cases run.
pub struct Variant {
    pub name: &'static str,
    pub start: Start,
    pub environment: Vec<(&'static str, OsString)>,
    /// Features for `needs` of cases; a case runs only where its feature is listed.
    pub offers: &'static [&'static str],
    /// Runs only cases with a crowded number of ranks, and with that number.
    pub crowded: bool,
    /// Its cases are ignored, and run with `--ignored` or `--include-ignored`: other variants find nearly all their
    /// failures.
    pub long: bool,
    /// Ignored cases, `family::case`, each with the reason.
    pub without: &'static [&'static [Exception]],
}

/// An ignored `family::case`, and the reason.
pub type Exception = (&'static str, &'static str);

/// The start of a job.
pub enum Start {
    /// The program starts its own ranks.
    Program,
    /// A launcher: these words, `-n RANKS`, these further words, the program.
    Launcher(Vec<OsString>, &'static [&'static str]),
    /// `selvedge sim` on a machine of `machines/`: virtual time.
    Simulator {
        machine: &'static str,
        /// Keys of the machine with other values, as for `selvedge sim --set`.
        changes: &'static [&'static str],
        /// All ranks are on one node; otherwise each has its own.
        one_node: bool,
        /// Variable that names an empty file shared by all ranks.
        shared_file: Option<&'static str>,
    },
}

impl Variant {
    #[must_use]
    pub fn new(name: &'static str, start: Start) -> Variant {
        Variant { name, start, environment: Vec::new(), offers: &[], crowded: false, long: false, without: &[] }
    }

    fn takes(&self, family: &str, case: &Case) -> bool {
        let offered = case.needs.as_deref().is_none_or(|needs| self.offers.contains(&needs));
        let named = format!("{family}::{}", case.name);
        let left_out = self.without.iter().copied().flatten().any(|(name, _)| *name == named);
        offered && !left_out && !(self.crowded && case.crowded == 0)
    }
}

/// A program of cases.
struct Family {
    name: String,
    program: PathBuf,
    cases: Vec<Case>,
}

/// Runs a suite with the arguments of this process. `find` makes the table, or returns the missing part.
pub fn run(find: impl FnOnce() -> Result<Suite, String>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let suite = match find() {
        Ok(suite) => Arc::new(suite),
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(cores * suite.cases_per_core);
    match trials(&suite, cores) {
        Ok(trials) => libtest_mimic::run(&arguments, trials).exit_code(),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Compiles the shared sources, then the families, one on each core at a time.
///
/// # Errors
/// A shared source does not compile.
fn trials(suite: &Arc<Suite>, cores: usize) -> Result<Vec<Trial>, String> {
    let is_shared = |path: &PathBuf| stem(path).starts_with(SHARED_SOURCES);
    let (mut shared, families): (Vec<_>, Vec<_>) =
        files_with(&suite.sources, &["c", "cc"]).into_iter().partition(is_shared);
    shared.push(tree::check_folder().join("check.c"));
    let shared = shared.iter().map(|source| suite.object(source)).collect::<Result<Vec<_>, _>>()?;
    let mut trials = Vec::new();
    for some in families.chunks(cores) {
        let built: Vec<_> = thread::scope(|scope| {
            let shared = &shared;
            let build = |source: &PathBuf| {
                let source = source.clone();
                scope.spawn(move || suite.build(&source, shared))
            };
            let builders: Vec<_> = some.iter().map(build).collect();
            builders.into_iter().map(|builder| builder.join()).collect()
        });
        for (source, family) in some.iter().zip(built) {
            match family.unwrap_or_else(|_| Err("the runner panicked".to_owned())) {
                Ok(family) => trials.extend(family_trials(suite, &Arc::new(family))),
                Err(message) => {
                    let name = format!("compile::{}", stem(source));
                    trials.push(Trial::test(name, move || Err(Failed::from(message))));
                }
            }
        }
    }
    Ok(trials)
}

fn family_trials(suite: &Arc<Suite>, family: &Arc<Family>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for (v, variant) in suite.variants.iter().enumerate() {
        for (c, case) in family.cases.iter().enumerate() {
            if !variant.takes(&family.name, case) {
                continue;
            }
            let is_ignored = variant.long || suite.stock.as_ref().is_some_and(|library| case.is_broken_by(library));
            let name = format!("{}::{}::{}", variant.name, family.name, case.name);
            let (suite, family) = (Arc::clone(suite), Arc::clone(family));
            let run = move || suite.run_case(&suite.variants[v], &family, &family.cases[c]);
            trials.push(Trial::test(name, run).with_ignored_flag(is_ignored));
        }
    }
    trials
}

impl Suite {
    /// Compiles a source that all families share.
    fn object(&self, source: &PathBuf) -> Result<PathBuf, String> {
        let object = self.output.join(format!("{}-{}.o", self.name, stem(source)));
        compile_object_once(&self.compiler, source, &self.headers(), &object)?;
        Ok(object)
    }

    fn build(&self, source: &Path, shared: &[PathBuf]) -> Result<Family, String> {
        let name = stem(source).to_owned();
        let program = self.output.join(format!("{}-{name}", self.name));
        compile_once(&self.compiler, &[&[source.to_owned()], shared].concat(), &self.headers(), &program)?;
        let cases = Case::list(&program)?;
        if cases.is_empty() && self.stock.is_none() {
            return Err(format!("{name} has no cases"));
        }
        Ok(Family { name, program, cases })
    }

    fn headers(&self) -> Vec<PathBuf> {
        [files_with(&self.sources, &["h"]), files_with(&tree::check_folder(), &["h"]), self.inputs.clone()].concat()
    }

    fn run_case(&self, variant: &Variant, family: &Family, case: &Case) -> Result<(), Failed> {
        let log = self.output.join(format!("{}-{}-{}-{}.log", self.name, variant.name, family.name, case.name));
        let failed = |e: std::io::Error| format!("{}: {e}", log.display());
        let mut command = self.command(variant, family, case);
        let shared_file = variant.start.shared_file().map(|name| (name, log.with_extension("shared")));
        if let Some((name, path)) = &shared_file {
            File::create(path).map_err(failed)?;
            command.env(name, path);
        }
        let repeat = format!("{command:?}");
        let out = File::create(&log).map_err(failed)?;
        command.stdin(Stdio::null()).stderr(out.try_clone().map_err(failed)?).stdout(out);
        let mut job = command.spawn().map_err(|e| format!("{command:?}: {e}"))?;
        let status = process::wait_within(&mut job, Duration::from_secs(self.limit_s))?;
        if let Some((_, path)) = &shared_file {
            let _ = fs::remove_file(path);
        }
        let printed = fs::read(&log).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let Some(reason) = self.failure(case, status, &printed) else {
            let _ = fs::remove_file(&log);
            return Ok(());
        };
        let test = format!("{}::{}::{}", variant.name, family.name, case.name);
        let repeat = format!("repeat it:  {}\nor:  {repeat}", self.repeat(&test));
        Err(Failed::from(format!("{}\n{reason}\n{printed}{repeat}", case.rule)))
    }

    /// Builds the command that starts the job of a case.
    fn command(&self, variant: &Variant, family: &Family, case: &Case) -> Command {
        let ranks = if variant.crowded { case.crowded } else { case.ranks }.to_string();
        let mut command = match &variant.start {
            Start::Program => Command::new(&family.program),
            Start::Launcher(launcher, further) => {
                let mut command = Command::new(&launcher[0]);
                command.args(&launcher[1..]).args(["-n", &ranks]).args(*further).arg(&family.program);
                command
            }
            Start::Simulator { machine, changes, one_node, .. } => {
                let mut command = Command::new(tree::launcher());
                command.args(["sim", "--quiet", "-n", &ranks, "--machine"]).arg(tree::machine(machine));
                command.args(changes.iter().flat_map(|change| ["--set", *change]));
                if *one_node {
                    command.args(["--ranks-per-node", &ranks]);
                }
                command.arg("--").arg(&family.program);
                command
            }
        };
        // In the folder for output, because some libraries write a file where a program crashes.
        command.arg(&case.name).current_dir(&self.output);
        self.removed.iter().for_each(|name| _ = command.env_remove(name));
        command.envs(variant.environment.iter().map(|(name, value)| (name, value)));
        command.envs(case.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Reason of the case's failure; `None` if it passed.
    fn failure(&self, case: &Case, status: Option<ExitStatus>, printed: &str) -> Option<String> {
        let Some(status) = status else {
            return Some(format!("the job did not end within {} s", self.limit_s));
        };
        if self.stock.is_some() && status.code() == Some(STATUS_SKIPPED) {
            return None;
        }
        if status.code() != Some(case.status) {
            return Some(format!("the job ended with {status}, wanted {}", case.status));
        }
        match (&case.prints, &case.prints_not) {
            (Some(text), _) if !printed.contains(text) => Some(format!("the job did not print {text:?}")),
            (_, Some(text)) if printed.contains(text) => Some(format!("the job printed {text:?}")),
            _ => None,
        }
    }

    /// The command that runs one test of this suite, built like this process.
    fn repeat(&self, test: &str) -> String {
        let set = |name: &&str| Some(format!("{name}='{}' ", tree::setting(name)?.to_string_lossy()));
        let settings: String = self.settings.iter().filter_map(set).collect();
        let program = std::env::current_exe().unwrap_or_default();
        let profile = program.ancestors().nth(2).map_or("", stem);
        let profile =
            if profile.is_empty() || profile == "debug" { String::new() } else { format!("--profile {profile} ") };
        format!(
            "{settings}cargo test {profile}-p {} --test {} -- --include-ignored --exact {test}",
            self.package, self.test
        )
    }
}

impl Start {
    fn shared_file(&self) -> Option<&'static str> {
        match self {
            Start::Simulator { shared_file, .. } => *shared_file,
            _ => None,
        }
    }
}
