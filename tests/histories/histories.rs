// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs random histories of messages (`histories.c`) over every transport, and compares the matches.
//!
//! ```text
//! cargo test -p selvedge-histories                               the seeds 1 to 20
//! HISTORIES=500 cargo test -p selvedge-histories                 this number of seeds
//! HISTORIES=500 HISTORIES_SEED=1000 cargo test -p selvedge-histories
//! HISTORIES=1 HISTORIES_SEED=17 cargo test -p selvedge-histories      one seed alone
//! ```
//!
//! A test is a few seeds, `seeds::1-10`, run as one job over each transport, because libfabric starts slowly.
//!
//! 1. `plan.c` lists the random choices, and `histories.c` the checks of each job, against a model of plain lists.
//! 2. The jobs of a test print the same text, byte for byte.
//! 3. A failure names the seed, the transport, the first difference, and the command that repeats that job.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use selvedge_test_runner::{Compiler, compile_once, files_with, process, tree};

/// Seeds, unless HISTORIES is set.
const SEEDS: u64 = 20;
const SEEDS_PER_JOB: u64 = 10;
/// Ranks of a job, as in the case of `histories.c`.
const RANKS: &str = "4";
/// Longer than `CASE_S` of `tests/fi/suite.h`: a job ends itself, with a message.
const JOB_LIMIT: Duration = Duration::from_secs(240);

struct Transport {
    name: &'static str,
    environment: &'static [(&'static str, &'static str)],
    home: Home,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    Live,
    /// Other processes map the memory of each rank.
    Mapped,
    /// Virtual time: each rank is on its own node, or all are on one.
    Nodes,
    OneNode,
}

/// Transports. The others are compared with the first.
const TRANSPORTS: [Transport; 6] = [
    transport("live", &[], Home::Live),
    transport("mapped", &[("SELVEDGE_FI_SMALL_MAX", "0"), ("FI_TEST_EXEC", "1")], Home::Mapped),
    transport("bounce", &[("SELVEDGE_PATH", "bounce")], Home::Live),
    transport("host", &[("SELVEDGE_MODE", "host")], Home::Live),
    transport("simulated", &[], Home::Nodes),
    transport("simulated-node", &[], Home::OneNode),
];

const fn transport(name: &'static str, environment: &'static [(&'static str, &'static str)], home: Home) -> Transport {
    Transport { name, environment, home }
}

struct Places {
    program: PathBuf,
    output: PathBuf,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match Places::make() {
        Ok(places) => {
            let places = Arc::new(places);
            let first = number("HISTORIES_SEED").unwrap_or(1);
            let end = first + number("HISTORIES").unwrap_or(SEEDS);
            let starts = (first..end).step_by(SEEDS_PER_JOB as usize);
            starts.map(|start| trial(&places, start..end.min(start + SEEDS_PER_JOB))).collect()
        }
        Err(message) => vec![Trial::test("setup", move || Err(Failed::from(message)))],
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(places: &Arc<Places>, seeds: Range<u64>) -> Trial {
    let places = Arc::clone(places);
    Trial::test(format!("seeds::{}-{}", seeds.start, seeds.end - 1), move || compare(&places, &seeds))
}

fn number(variable: &str) -> Option<u64> {
    tree::setting(variable)?.to_str()?.parse().ok()
}

/// Checks rules 1 and 2.
fn compare(places: &Places, seeds: &Range<u64>) -> Result<(), Failed> {
    let [first, others @ ..] = &TRANSPORTS;
    let wanted = places.run(first, seeds)?;
    for other in others {
        let found = places.run(other, seeds)?;
        if let Some(difference) = first_difference(&wanted, &found) {
            let repeat = places.command(other, seeds).repeat();
            let message = format!("{} differs from {}: {difference}\n{repeat}", other.name, first.name);
            return Err(Failed::from(message));
        }
    }
    Ok(())
}

/// The first line in which two texts differ, and the first line of its history.
fn first_difference(wanted: &str, found: &str) -> Option<String> {
    let (mut wanted, mut found) = (wanted.split_inclusive('\n'), found.split_inclusive('\n'));
    let mut history = "the start";
    loop {
        let lines = (wanted.next(), found.next());
        match lines {
            (None, None) => return None,
            (Some(one), Some(other)) if one == other => {
                if one.starts_with("seed ") {
                    history = one.trim_end();
                }
            }
            _ => {
                let [wanted, found] = [lines.0, lines.1].map(|line| line.map_or("(the end)", str::trim_end));
                return Some(format!("{history}\n  wanted: {wanted}\n  found:  {found}"));
            }
        }
    }
}

/// A job over one transport.
struct Job {
    command: Command,
    output: PathBuf,
    errors: PathBuf,
    shared: PathBuf,
}

impl Job {
    fn repeat(&self) -> String {
        let shared = self.shared.display();
        format!("repeat it (HISTORIES_TRACE=1 prints the operations):  : >{shared}; {:?}", self.command)
    }

    fn files(&self) -> [&Path; 3] {
        [&self.output, &self.errors, &self.shared]
    }

    /// Runs the job. Returns its output, or the reason of its failure.
    fn run(mut self) -> Result<String, String> {
        let create = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
        let [output, errors, _] = [create(&self.output)?, create(&self.errors)?, create(&self.shared)?];
        let command = self.command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let mut started = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        let status = process::wait_within(&mut started, JOB_LIMIT)?;
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        let (printed, errors) = (read(&self.output), read(&self.errors));
        let verdict = match status {
            None => Err(format!("the job did not end within {} s", JOB_LIMIT.as_secs())),
            Some(status) if !status.success() => Err(format!("the job ended with {status}")),
            Some(_) if !printed.contains(": from ") => Err("the job received nothing: this tests nothing".to_owned()),
            Some(_) => Ok(printed),
        };
        let verdict = verdict.map_err(|why| format!("{why}\n{errors}{}", self.repeat()));
        self.files().iter().for_each(|path| _ = fs::remove_file(path));
        verdict
    }
}

impl Places {
    /// Compiles the program, with the parts shared with the libfabric suite.
    fn make() -> Result<Places, String> {
        tree::require([&tree::launcher(), &library_folder().join("libselvedge-fi.so"), &preload()])?;
        let output = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let suite = tree::workspace().join("tests/fi");
        let mut compiler = Compiler::of_system(&["-O1", "-Wno-deprecated-declarations", "-pthread"]);
        compiler.flags.extend(["-I".into(), suite.clone().into()]);
        compiler.libraries.push("-lfabric".into());
        compiler.hint = "(the headers and the library are those of libfabric: Debian has them in libfabric-dev)";
        let own = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        let shared = ["suite.c", "suite_fabric.c"].map(|file| suite.join(file));
        let sources = [files_with(&own, &["c"]), shared.to_vec(), vec![tree::check_folder().join("check.c")]].concat();
        let headers = [&own, &suite, &tree::check_folder()].map(|folder| files_with(folder, &["h"])).concat();
        let program = output.join("histories");
        compile_once(&compiler, &sources, &headers, &program)?;
        Ok(Places { program, output })
    }

    fn run(&self, transport: &Transport, seeds: &Range<u64>) -> Result<String, String> {
        self.command(transport, seeds).run().map_err(|why| format!("{}: {why}", transport.name))
    }

    fn command(&self, transport: &Transport, seeds: &Range<u64>) -> Job {
        let name = format!("histories-{}-{}-{}", transport.name, seeds.start, std::process::id());
        let file = |kind| self.output.join(format!("{name}.{kind}"));
        let shared = file("shared");
        let mut command = match transport.home {
            Home::Live | Home::Mapped => Command::new(&self.program),
            Home::Nodes | Home::OneNode => {
                let mut command = Command::new(tree::launcher());
                command.args(["sim", "--quiet", "-n", RANKS, "--machine"]).arg(tree::machine("cluster"));
                command.args(["--ranks-per-node", if transport.home == Home::OneNode { RANKS } else { "1" }]);
                command.arg("--").arg(&self.program).env("FI_TEST_COMMON", &shared);
                command
            }
        };
        command.arg("histories").current_dir(&self.output);
        ["FI_PROVIDER", "FI_TEST_PROVIDER", "FI_TEST_PLAINLY"].iter().for_each(|name| _ = command.env_remove(name));
        command.env("FI_PROVIDER_PATH", library_folder());
        command.env("HISTORIES_SEED", seeds.start.to_string()).env("HISTORIES", (seeds.end - seeds.start).to_string());
        command.envs(transport.environment.iter().copied());
        if transport.home == Home::Mapped {
            command.env("LD_PRELOAD", preload());
        }
        Job { command, output: file("out"), errors: file("log"), shared }
    }
}

fn library_folder() -> PathBuf {
    tree::prefix().join("lib/libselvedge")
}

fn preload() -> PathBuf {
    library_folder().join("libselvedge_mpi_preload.so")
}
