// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the OpenSHMEM suite: every case of every family (a C or C++ program beside this file) in every variant.
//!
//! A variant says how a PE reaches the symmetric memory of its peers. Each pair of case and variant is a test of its own,
//! named `variant::family::case`, so the usual filters choose among them:
//!
//! ```text
//! cargo test -p selvedge-shmem-tests                      everything
//! cargo test -p selvedge-shmem-tests -- cma::atomics      one family in one variant
//! cargo test -p selvedge-shmem-tests -- --list
//! ```
//!
//! The compilers and the launcher come from `$SELVEDGE_PREFIX`, or from `build/` of this workspace (`make build`). With
//! `OSHCC`, `OSHCXX` and `OSHRUN` the cases are tried on another OpenSHMEM, in one variant `other`, without those that
//! want something of ours:
//!
//! ```text
//! OSHCC=oshcc OSHCXX=oshc++ OSHRUN="oshrun --oversubscribe" cargo test -p selvedge-shmem-tests -- rma
//! ```
//!
//! 1. A family that does not compile is one failed test, `compile::family`; the other families still run.
//! 2. A case passes only if the launcher ends with the status that the case names (0, which it does only if every PE
//!    did), and the job printed what the case wants printed.
//! 3. What a failed case printed is part of its failure message, and stays in a file in the target directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Arguments, Failed, Trial};

/// Seconds that the launcher gives a case, and that this program gives the launcher.
const CASE_TIMEOUT_S: u64 = 60;
const LAUNCHER_TIMEOUT_S: u64 = CASE_TIMEOUT_S + 30;

struct Variant {
    name: &'static str,
    /// What our launcher is told.
    launcher: &'static [&'static str],
    /// Peers' symmetric memory is mapped here.
    in_place: bool,
    /// Only cases that name a number of PEs for it, and with that number.
    crowded: bool,
    /// In virtual time, on this machine of `machines/`.
    machine: Option<&'static str>,
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "in_place", launcher: &[], in_place: true, crowded: false, machine: None },
    Variant { name: "crowded", launcher: &[], in_place: true, crowded: true, machine: None },
    Variant { name: "cma", launcher: &["--path", "cma"], in_place: false, crowded: false, machine: None },
    Variant { name: "bounce", launcher: &["--path", "bounce"], in_place: false, crowded: false, machine: None },
    Variant { name: "host", launcher: &["--mode", "host"], in_place: false, crowded: false, machine: None },
    Variant { name: "simulated", launcher: &[], in_place: false, crowded: false, machine: Some("cluster") },
];
/// Cases that are left out of the variant `simulated`, and why.
const NOT_SIMULATED: [(&str, &str); 9] = [
    ("data_segment::threads_that_run_already", ENDLESS),
    ("data_segment::counting_where_data_cannot_move", ENDLESS),
    ("endings::global_exit_in_a_program", "a program that a PE starts and waits for is no part of the simulation"),
    ("atomics::long_contention", LONG),
    ("atomics::exact_totals", LONG),
    ("atomics_bitwise::operations_mixed", LONG),
    ("counting::nothing_lost_under_load", LONG),
    ("strided::long_strided_bytes", LONG),
    ("strided::iget_every_shape", LONG),
];
const LONG: &str =
    "its hundred thousands of messages, a turn of a process each, take longer than all other cases but a few";
const ENDLESS: &str = "a thread that computes without end keeps the turn from all others";
const OTHER: [Variant; 1] = [Variant { name: "other", launcher: &[], in_place: false, crowded: false, machine: None }];

/// Where things are: the sources here, what was built, and what this program makes.
struct Places {
    sources: PathBuf,
    c_compiler: PathBuf,
    cpp_compiler: PathBuf,
    /// The launcher and what always follows it.
    launcher: Vec<String>,
    is_ours: bool,
    /// What a program has to be newer than. Not the library: it is loaded when the program starts.
    headers: Vec<PathBuf>,
    output: PathBuf,
}

struct Case {
    name: String,
    pes: u32,
    pes_crowded: u32,
    in_place: bool,
    virtual_time: bool,
    status: i32,
    environment: Vec<(String, String)>,
    prints: String,
    prints_not: String,
    rule: String,
}

struct Family {
    name: String,
    program: PathBuf,
    cases: Vec<Case>,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    match Places::find() {
        Ok(places) => libtest_mimic::run(&arguments, trials(&Arc::new(places))).exit_code(),
        // Not a failed test: a filter would pass it over.
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Families are compiled at once, as many at a time as there are cores.
fn trials(places: &Arc<Places>) -> Vec<Trial> {
    let sources = family_sources(&places.sources);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut trials = Vec::new();
    for some in sources.chunks(cores) {
        let built: Vec<_> = thread::scope(|scope| {
            let builders: Vec<_> = some.iter().map(|source| scope.spawn(|| Family::build(places, source))).collect();
            builders.into_iter().map(|builder| builder.join()).collect()
        });
        for (source, family) in some.iter().zip(built) {
            match family.unwrap_or_else(|_| Err("the runner panicked".to_owned())) {
                Ok(family) => trials.extend(family_trials(places, &Arc::new(family))),
                Err(message) => trials.push(failed_trial(&format!("compile::{}", stem(source)), message)),
            }
        }
    }
    trials
}

fn family_trials(places: &Arc<Places>, family: &Arc<Family>) -> Vec<Trial> {
    let variants: &'static [Variant] = if places.is_ours { &VARIANTS } else { &OTHER };
    let mut trials = Vec::new();
    for variant in variants {
        for index in 0..family.cases.len() {
            let case = &family.cases[index];
            let elsewhere = case.virtual_time && variant.machine.is_none();
            if elsewhere || (case.in_place && !variant.in_place) || (variant.crowded && case.pes_crowded == 0) {
                continue;
            }
            let place = format!("{}::{}", family.name, case.name);
            if variant.machine.is_some() && NOT_SIMULATED.iter().any(|(not, _)| *not == place) {
                continue;
            }
            let name = format!("{}::{place}", variant.name);
            let (places, family) = (Arc::clone(places), Arc::clone(family));
            trials.push(Trial::test(name, move || run_case(&places, &family, &family.cases[index], variant)));
        }
    }
    trials
}

fn failed_trial(name: &str, message: String) -> Trial {
    Trial::test(name, move || Err(Failed::from(message)))
}

fn run_case(places: &Places, family: &Family, case: &Case, variant: &Variant) -> Result<(), Failed> {
    let log = places.output.join(format!("shmem-{}-{}-{}.log", variant.name, family.name, case.name));
    let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let pes = if variant.crowded { case.pes_crowded } else { case.pes };
    let mut launcher = places
        .command(variant, pes)
        .arg(&family.program)
        .arg(&case.name)
        .env("SHMEM_TESTS_VARIANT", variant.name)
        .envs(case.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(|e| e.to_string())?)
        .stderr(file)
        .spawn()
        .map_err(|e| format!("{}: {e}", places.launcher[0]))?;

    let give_up = Instant::now() + Duration::from_secs(LAUNCHER_TIMEOUT_S);
    let status = loop {
        if let Some(status) = launcher.try_wait().map_err(|e| e.to_string())? {
            break Some(status);
        }
        if Instant::now() > give_up {
            let _ = launcher.kill();
            let _ = launcher.wait();
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let printed = fs::read(&log).unwrap_or_default();
    let printed = String::from_utf8_lossy(&printed);
    let outcome = match status {
        None => format!("the launcher did not end within {LAUNCHER_TIMEOUT_S} s"),
        Some(status) if status.code() != Some(case.status) => {
            format!("the job ended with {status}, wanted {}", case.status)
        }
        Some(_) if !printed.contains(&case.prints) => format!("the job did not print {:?}", case.prints),
        Some(_) if !case.prints_not.is_empty() && printed.contains(&case.prints_not) => {
            format!("the job printed {:?}", case.prints_not)
        }
        Some(_) => {
            let _ = fs::remove_file(&log);
            return Ok(());
        }
    };
    Err(Failed::from(format!("{}\n{outcome}\n{printed}", case.rule)))
}

impl Places {
    /// What starts a job of so many PEs, up to the program.
    fn command(&self, variant: &Variant, pes: u32) -> Command {
        let mut command = Command::new(&self.launcher[0]);
        match variant.machine {
            None => command.args(&self.launcher[1..]).args(["-n", &pes.to_string()]).args(variant.launcher),
            Some(machine) => {
                let machine = self.sources.join(format!("../../machines/{machine}.toml"));
                command.args(["sim", "--quiet", "-n", &pes.to_string(), "--machine"]).arg(machine).arg("--")
            }
        };
        command
    }

    fn find() -> Result<Places, String> {
        let setting = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let prefix = setting("SELVEDGE_PREFIX").map_or_else(|| sources.join("../../build"), PathBuf::from);
        let prefix = fs::canonicalize(&prefix).unwrap_or(prefix);
        let tool =
            |variable: &str, name: &str| setting(variable).map_or_else(|| prefix.join("bin").join(name), PathBuf::from);
        let launcher_of_others = setting("OSHRUN").and_then(|value| value.into_string().ok());
        let is_ours = launcher_of_others.is_none();
        let launcher = match launcher_of_others {
            Some(words) => words.split_whitespace().map(str::to_owned).collect(),
            None => {
                let program = prefix.join("bin/selvedge").display().to_string();
                vec![program, "run".to_owned(), "--timeout".to_owned(), CASE_TIMEOUT_S.to_string()]
            }
        };
        let places = Places {
            c_compiler: tool("OSHCC", "oshcc"),
            cpp_compiler: tool("OSHCXX", "oshc++"),
            launcher,
            is_ours,
            headers: if is_ours { files_with(&prefix.join("include"), &["h"]) } else { Vec::new() },
            output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(if is_ours { "ours" } else { "other" }),
            sources,
        };
        if is_ours {
            let library = prefix.join("lib/libsma.so");
            for needed in [&library, &places.c_compiler, &PathBuf::from(&places.launcher[0])] {
                if !needed.exists() {
                    return Err(format!("{} is missing: run `make build`, or set SELVEDGE_PREFIX", needed.display()));
                }
            }
        }
        fs::create_dir_all(&places.output).map_err(|e| format!("{}: {e}", places.output.display()))?;
        Ok(places)
    }
}

impl Family {
    fn build(places: &Places, source: &Path) -> Result<Family, String> {
        let name = stem(source);
        let program = places.output.join(format!("shmem-{name}"));
        let harness = places.sources.join("harness.c");
        let mut inputs = places.headers.clone();
        inputs.extend([source.to_owned(), harness.clone()]);
        inputs.extend(files_with(&places.sources, &["h"]));
        if !is_newer(&program, &inputs) {
            compile(places, source, &harness, &program)?;
        }
        let listed =
            Command::new(&program).arg("--list").output().map_err(|e| format!("{}: {e}", program.display()))?;
        let cases = String::from_utf8_lossy(&listed.stdout).lines().map(Case::parse).collect::<Result<Vec<_>, _>>()?;
        if !listed.status.success() || (cases.is_empty() && places.is_ours) {
            return Err(format!("{name} --list: {}\n{}", listed.status, String::from_utf8_lossy(&listed.stderr)));
        }
        Ok(Family { name, program, cases })
    }
}

impl Case {
    /// One line of `--list`, fields with tabs between: name, PEs, PEs when crowded, scope (`in_place`, `virtual_time` or
    /// `any`), exit status, environment, what is printed, what is not printed, rule.
    fn parse(line: &str) -> Result<Case, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, pes, pes_crowded, scope, status, environment, prints, prints_not, rule] = fields[..] else {
            return Err(format!("not a line of nine fields: {line:?}"));
        };
        let wrong = |e: std::num::ParseIntError| format!("{line:?}: {e}");
        let setting = |word: &str| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned()));
        Ok(Case {
            name: name.to_owned(),
            pes: pes.parse().map_err(wrong)?,
            pes_crowded: pes_crowded.parse().map_err(wrong)?,
            in_place: scope == "in_place",
            virtual_time: scope == "virtual_time",
            status: status.parse().map_err(wrong)?,
            environment: environment.split_whitespace().filter_map(setting).collect(),
            prints: prints.to_owned(),
            prints_not: prints_not.to_owned(),
            rule: rule.to_owned(),
        })
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned()
}

/// The C and C++ files here other than the harness, in the order of their names.
fn family_sources(sources: &Path) -> Vec<PathBuf> {
    files_with(sources, &["c", "cc"]).into_iter().filter(|path| stem(path) != "harness").collect()
}

fn files_with(directory: &Path, extensions: &[&str]) -> Vec<PathBuf> {
    let has_one = |path: &PathBuf| path.extension().and_then(OsStr::to_str).is_some_and(|e| extensions.contains(&e));
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(has_one)
        .collect();
    found.sort();
    found
}

fn is_newer(program: &Path, inputs: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    program.exists() && inputs.iter().all(|input| changed(input) < changed(program))
}

/// A C++ family links the harness as C: its object is made first.
fn compile(places: &Places, source: &Path, harness: &Path, program: &Path) -> Result<(), String> {
    let is_cpp = source.extension() == Some(OsStr::new("cc"));
    let warnings = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wno-deprecated-declarations", "-pthread"];
    let mut harness_in = harness.to_owned();
    if is_cpp {
        harness_in = program.with_extension("harness.o");
        let arguments = [OsStr::new("-std=gnu11"), OsStr::new("-c"), harness.as_os_str(), OsStr::new("-o")];
        run_compiler(Command::new(&places.c_compiler).args(warnings).args(arguments).arg(&harness_in))?;
    }
    let (compiler, standard) =
        if is_cpp { (&places.cpp_compiler, "-std=gnu++17") } else { (&places.c_compiler, "-std=gnu11") };
    let mut command = Command::new(compiler);
    command.arg(standard).args(warnings).arg(source).arg(&harness_in).arg("-o").arg(program).arg("-lm");
    run_compiler(&mut command)
}

fn run_compiler(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{command:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
