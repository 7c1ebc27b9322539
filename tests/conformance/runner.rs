// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs the conformance suite: every case of every family (a C program beside this file) in every variant.
//!
//! A variant says who runs a NIC, how memory is reached, and which memory the cases communicate. Each pair of case and
//! variant is a test of its own, named `variant::family::case`, so the usual filters choose among them:
//!
//! ```text
//! cargo test -p selvedge-conformance                      everything
//! cargo test -p selvedge-conformance -- cma::lists        one family in one variant
//! cargo test -p selvedge-conformance -- --list
//! ```
//!
//! The library and the launcher come from `$SELVEDGE_PREFIX`, or from `build/` of this workspace (`make build`).
//!
//! 1. A family that does not compile is one failed test, `compile::family`; the other families still run.
//! 2. A case passes only if the launcher ends with status 0, which it does only if every process did.
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
    /// In virtual time, on this machine of `machines/`; then mode and path say nothing.
    machine: Option<&'static str>,
    /// `--mode` of the launcher: who runs a NIC.
    mode: &'static str,
    /// `--path` of the launcher: how ordinary memory is reached.
    path: &'static str,
    /// What `buffer()` of the harness hands out.
    memory: &'static str,
    /// An interface works here while its owner's program does not call it.
    independent: bool,
}

const VARIANTS: [Variant; 6] = [
    Variant { name: "shared", machine: None, mode: "nic", path: "shared", memory: "shared", independent: true },
    Variant { name: "cma", machine: None, mode: "nic", path: "cma", memory: "ordinary", independent: true },
    Variant { name: "bounce", machine: None, mode: "nic", path: "bounce", memory: "ordinary", independent: false },
    Variant { name: "host", machine: None, mode: "host", path: "auto", memory: "ordinary", independent: false },
    Variant { name: "host-shared", machine: None, mode: "host", path: "shared", memory: "shared", independent: false },
    Variant {
        name: "simulated",
        machine: Some("cluster"),
        mode: "nic",
        path: "auto",
        memory: "ordinary",
        // A program that computes without end keeps the turn: one process runs at a time.
        independent: false,
    },
];

/// Where things are: the sources here, what was built, and what this program makes.
struct Places {
    sources: PathBuf,
    include: PathBuf,
    library_dir: PathBuf,
    launcher: PathBuf,
    output: PathBuf,
}

struct Case {
    name: String,
    process_count: u32,
    rule: String,
    nic_only: bool,
}

struct Family {
    name: String,
    program: PathBuf,
    cases: Vec<Case>,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match Places::find() {
        Ok(places) => trials(&Arc::new(places)),
        Err(message) => vec![failed_trial("setup", message)],
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(places: &Arc<Places>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for source in family_sources(&places.sources) {
        let name = source.file_stem().and_then(OsStr::to_str).unwrap_or_default().to_owned();
        match Family::build(places, &name, &source) {
            Ok(family) => trials.extend(family_trials(places, &Arc::new(family))),
            Err(message) => trials.push(failed_trial(&format!("compile::{name}"), message)),
        }
    }
    trials
}

fn family_trials(places: &Arc<Places>, family: &Arc<Family>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for variant in &VARIANTS {
        for index in 0..family.cases.len() {
            let case = &family.cases[index];
            if case.nic_only && !variant.independent {
                continue;
            }
            let name = format!("{}::{}::{}", variant.name, family.name, case.name);
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
    let log = places.output.join(format!("{}-{}-{}.log", variant.name, family.name, case.name));
    let file = File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
    let mut launcher = Command::new(&places.launcher);
    let ranks = case.process_count.to_string();
    match variant.machine {
        None => launcher.args(["run", "-n", &ranks, "--timeout", &CASE_TIMEOUT_S.to_string()]).args([
            "--path",
            variant.path,
            "--mode",
            variant.mode,
        ]),
        Some(machine) => {
            let machine = places.sources.join(format!("../../machines/{machine}.toml"));
            launcher.args(["sim", "--quiet", "-n", &ranks, "--machine"]).arg(machine).arg("--")
        }
    };
    let mut launcher = launcher
        .arg(&family.program)
        .arg(&case.name)
        .env("CONFORMANCE_MEMORY", variant.memory)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(|e| e.to_string())?)
        .stderr(file)
        .spawn()
        .map_err(|e| format!("{}: {e}", places.launcher.display()))?;

    let give_up = Instant::now() + Duration::from_secs(LAUNCHER_TIMEOUT_S);
    let outcome = loop {
        if let Some(status) = launcher.try_wait().map_err(|e| e.to_string())? {
            if status.success() {
                let _ = fs::remove_file(&log);
                return Ok(());
            }
            break format!("the job ended with {status}");
        }
        if Instant::now() > give_up {
            let _ = launcher.kill();
            let _ = launcher.wait();
            break format!("the launcher did not end within {LAUNCHER_TIMEOUT_S} s");
        }
        thread::sleep(Duration::from_millis(2));
    };
    let printed = fs::read(&log).unwrap_or_default();
    Err(Failed::from(format!("{}\n{outcome}\n{}", case.rule, String::from_utf8_lossy(&printed))))
}

impl Places {
    fn find() -> Result<Places, String> {
        let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let workspace = sources.join("../..");
        let prefix = std::env::var_os("SELVEDGE_PREFIX").map_or_else(|| workspace.join("build"), PathBuf::from);
        let places = Places {
            include: workspace.join("include"),
            library_dir: prefix.join("lib"),
            launcher: prefix.join("bin/selvedge"),
            output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
            sources,
        };
        for needed in [&places.library_dir.join("libportals.so"), &places.launcher] {
            if !needed.exists() {
                return Err(format!("{} is missing: run `make build`, or set SELVEDGE_PREFIX", needed.display()));
            }
        }
        Ok(places)
    }
}

impl Family {
    fn build(places: &Places, name: &str, source: &Path) -> Result<Family, String> {
        let program = places.output.join(format!("conformance-{name}"));
        let harness = places.sources.join("harness.c");
        let inputs = [
            source.to_owned(),
            harness.clone(),
            places.sources.join("harness.h"),
            places.sources.join("stage.h"),
            places.include.join("portals4.h"),
            places.include.join("selvedge.h"),
            places.library_dir.join("libportals.so"),
        ];
        if !is_newer(&program, &inputs) {
            compile(places, &[source, &harness], &program)?;
        }
        let listed =
            Command::new(&program).arg("--list").output().map_err(|e| format!("{}: {e}", program.display()))?;
        let cases = String::from_utf8_lossy(&listed.stdout).lines().map(Case::parse).collect::<Result<Vec<_>, _>>()?;
        if !listed.status.success() || cases.is_empty() {
            return Err(format!("{name} --list: {}\n{}", listed.status, String::from_utf8_lossy(&listed.stderr)));
        }
        Ok(Family { name: name.to_owned(), program, cases })
    }
}

impl Case {
    /// One line of `--list`: name, processes, rule, scope (`nic` or `any`), with tabs between.
    fn parse(line: &str) -> Result<Case, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, process_count, rule, scope] = fields[..] else {
            return Err(format!("not a line of four fields: {line:?}"));
        };
        Ok(Case {
            name: name.to_owned(),
            process_count: process_count.parse().map_err(|e| format!("{line:?}: {e}"))?,
            rule: rule.to_owned(),
            nic_only: scope == "nic",
        })
    }
}

/// The C files here other than the harness, in the order of their names.
fn family_sources(sources: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(sources)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension() == Some(OsStr::new("c")) && path.file_stem() != Some(OsStr::new("harness")))
        .collect();
    found.sort();
    found
}

fn is_newer(program: &Path, inputs: &[PathBuf]) -> bool {
    let changed = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    program.exists() && inputs.iter().all(|input| changed(input) < changed(program))
}

fn compile(places: &Places, sources: &[&Path], program: &Path) -> Result<(), String> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let rpath = format!("-Wl,-rpath,{}", places.library_dir.display());
    let output = Command::new(&compiler)
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"])
        .arg(&places.include)
        .args(sources)
        .arg("-o")
        .arg(program)
        .arg("-L")
        .arg(&places.library_dir)
        .arg(rpath)
        .args(["-lportals", "-lm"])
        .output()
        .map_err(|e| format!("{compiler}: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{compiler}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr)))
}
