// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs `traffic.c` in jobs whose processes are killed, and checks how the jobs end.
//!
//! ```text
//! cargo test -p selvedge-death                               about 200 deaths, less than half a minute
//! DEATH_KILLS=1000 cargo test -p selvedge-death              this number of deaths in every test
//! DEATH_KILLS=1000 DEATH_SEED=7 cargo test -p selvedge-death -- nurse::cma
//! ```
//!
//! A test is named `style::variant`. Styles: `nurse` (victims die at random instants, and others take their places),
//! `step` (victims die after a random number of instructions of one operation, most of them while they hold the
//! survivor's lock), `rank` (ranks of the job die themselves). The variant selects the process that runs a NIC and the
//! path to memory. `sim::machine` has the same traffic in virtual time ([`simulated`]).
//!
//! 1. The head of `traffic.c` lists the survivors' checks; a violation fails the job.
//! 2. A job ends without help: with status 0 when its ranks ended with 0, and with 137 when ranks were killed. It
//!    leaves no directory and no process, and nothing else in the parent directory, which belongs to this test alone.
//! 3. The library's log counts the deaths that left a lock behind. A long run without such a death fails: it tests too
//!    little.

mod simulated;

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use libtest_mimic::{Arguments, Failed, Trial};
use selvedge_test_runner::{Compiler, process, tree};

/// Ranks of a job, and those among them that are killed or kill their children.
const RANKS: u32 = 5;
const DYING: u32 = RANKS - 2;
/// Most deaths of one job; a test runs as many jobs as it needs.
const KILLS_PER_JOB: u32 = 240;
/// Seconds that the launcher gives a job, and limit that this program gives the launcher.
const JOB_TIMEOUT_S: u64 = 300;
const LAUNCHER_LIMIT: Duration = Duration::from_secs(JOB_TIMEOUT_S + 60);
/// Room for `struct board`.
const BOARD_BYTES: u64 = 1 << 20;
/// The launcher's exit code for a job whose first failure was a SIGKILL.
const KILLED: i32 = 128 + 9;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Nurse,
    Step,
    Rank,
}

struct Test {
    style: Style,
    variant: &'static str,
    mode: &'static str,
    path: &'static str,
    memory: &'static str,
    /// Deaths, unless DEATH_KILLS is set.
    kills: u32,
}

const fn test(style: Style, variant: &'static str, kills: u32) -> Test {
    let (mode, path, memory) = match variant.as_bytes() {
        b"shared" => ("nic", "shared", "shared"),
        b"cma" => ("nic", "cma", "mixed"),
        b"bounce" => ("nic", "bounce", "mixed"),
        b"host" => ("host", "auto", "mixed"),
        _ => ("nic", "auto", "mixed"),
    };
    Test { style, variant, mode, path, memory, kills }
}

const TESTS: [Test; 12] = [
    test(Style::Nurse, "auto", 24),
    test(Style::Nurse, "shared", 24),
    test(Style::Nurse, "cma", 24),
    test(Style::Nurse, "bounce", 12),
    test(Style::Nurse, "host", 12),
    test(Style::Step, "auto", 24),
    test(Style::Step, "shared", 24),
    test(Style::Step, "cma", 24),
    test(Style::Step, "bounce", 12),
    test(Style::Step, "host", 12),
    test(Style::Rank, "auto", DYING),
    test(Style::Rank, "host", DYING),
];

impl Test {
    fn name(&self) -> String {
        let style = match self.style {
            Style::Nurse => "nurse",
            Style::Step => "step",
            Style::Rank => "rank",
        };
        format!("{style}::{}", self.variant)
    }
}

struct Places {
    sources: PathBuf,
    launcher: PathBuf,
    output: PathBuf,
}

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // One job at a time: the processes of a job should run concurrently.
    arguments.test_threads.get_or_insert(1);
    let trials = match Places::find().and_then(|places| places.compile("traffic.c").map(|program| (places, program))) {
        Ok(found) => {
            let found = Arc::new(found);
            let live = TESTS.iter().map(|test| trial(&found, test));
            live.chain(simulated::trials(&found)).collect()
        }
        Err(message) => vec![Trial::test("setup", move || Err(Failed::from(message)))],
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(found: &Arc<(Places, PathBuf)>, test: &'static Test) -> Trial {
    let found = Arc::clone(found);
    Trial::test(test.name(), move || run_test(&found.0, &found.1, test))
}

fn run_test(places: &Places, program: &Path, test: &Test) -> Result<(), Failed> {
    let kills = number("DEATH_KILLS").map_or(test.kills, |kills| kills as u32);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let seed = number("DEATH_SEED").unwrap_or(now % 1_000_000);
    let began = Instant::now();
    let (mut left, mut totals, mut jobs) = (kills, Totals::default(), 0);
    while left > 0 {
        let this = match test.style {
            Style::Rank => DYING,
            _ => left.min(KILLS_PER_JOB).next_multiple_of(DYING),
        };
        totals.add(&run_job(places, program, test, this / DYING, seed + jobs)?);
        totals.kills += this;
        left = left.saturating_sub(this);
        jobs += 1;
    }
    println!("{}: {} jobs from seed {seed}, {:.1} s, {totals}", test.name(), jobs, began.elapsed().as_secs_f64());
    if totals.kills >= 300 && test.style == Style::Step && test.mode == "nic" && totals.recoveries == 0 {
        return Err("no death was within a lock: this tests nothing".into());
    }
    Ok(())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Sums over jobs.
#[derive(Default)]
struct Totals {
    kills: u32,
    recoveries: usize,
    operations: u64,
    failed: u64,
    received: u64,
    half_messages: u64,
    executor_died: u64,
    reported_twice: u64,
    slowest_ms: u64,
    noticed_ms: u64,
    lost: u64,
    streamed: u64,
}

impl Totals {
    fn add(&mut self, other: &Totals) {
        self.recoveries += other.recoveries;
        self.operations += other.operations;
        self.failed += other.failed;
        self.received += other.received;
        self.half_messages += other.half_messages;
        self.executor_died += other.executor_died;
        self.reported_twice += other.reported_twice;
        self.lost += other.lost;
        self.streamed += other.streamed;
        self.slowest_ms = self.slowest_ms.max(other.slowest_ms);
        self.noticed_ms = self.noticed_ms.max(other.noticed_ms);
    }

    /// Reads the summaries of the survivors and the library's log.
    fn read(printed: &str) -> Result<Totals, String> {
        let mut totals = Totals { recoveries: printed.matches("died holding the lock").count(), ..Totals::default() };
        let summaries: Vec<&str> =
            printed.lines().filter_map(|line| line.split_once("summary ")).map(|s| s.1).collect();
        if summaries.len() != 2 {
            return Err(format!("{} survivors reached their end", summaries.len()));
        }
        for pair in summaries.iter().flat_map(|summary| summary.split(' ')) {
            let (key, value) = pair.split_once('=').ok_or_else(|| format!("not a summary: {pair}"))?;
            let value: u64 = value.parse().map_err(|error| format!("{pair}: {error}"))?;
            match key {
                "errors" | "corrupt" if value != 0 => return Err(pair.to_owned()),
                "between" if value == 0 => return Err("no operation between survivors ended".to_owned()),
                "done" => totals.operations += value,
                "failed" => totals.failed += value,
                "received" => totals.received += value,
                "half_messages" => totals.half_messages += value,
                "executor_died" => totals.executor_died += value,
                "reported_twice" => totals.reported_twice += value,
                "lost" => totals.lost += value,
                "streamed" if value == 0 => return Err("no small put was counted".to_owned()),
                "streamed" => totals.streamed += value,
                "slowest_ms" => totals.slowest_ms = totals.slowest_ms.max(value),
                "noticed_ms" => totals.noticed_ms = totals.noticed_ms.max(value),
                _ => {}
            }
        }
        Ok(totals)
    }
}

impl std::fmt::Display for Totals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} deaths, {} with a lock in hand; ", self.kills, self.recoveries)?;
        write!(f, "{} operations of survivors, {} failed; ", self.operations, self.failed)?;
        write!(f, "{} messages checked, {} failed half way; ", self.received, self.half_messages)?;
        write!(f, "{} small puts counted; ", self.streamed)?;
        write!(f, "{} triggered operations lost their executor, ", self.executor_died)?;
        write!(f, "{} were reported twice; ", self.reported_twice)?;
        write!(f, "slowest end after a death {} ms, deaths noticed in {} ms", self.slowest_ms, self.noticed_ms)
    }
}

fn run_job(places: &Places, program: &Path, test: &Test, kills_each: u32, seed: u64) -> Result<Totals, Failed> {
    let name = format!("{}-{}-{seed}", test.name().replace("::", "-"), std::process::id());
    let parent = shared_memory().join(format!("selvedge-death-{name}"));
    fs::create_dir(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    let board = places.output.join(format!("{name}.board"));
    let log = places.output.join(format!("{name}.log"));
    let file = File::create(&board).and_then(|file| file.set_len(BOARD_BYTES)).and_then(|()| File::create(&log));
    let file = file.map_err(|error| format!("{}: {error}", log.display()))?;
    let style = test.name().split("::").next().unwrap_or_default().to_owned();
    let mut launcher = Command::new(&places.launcher)
        .args(["run", "--keep-going", "--bind", "none", "-n", &RANKS.to_string()])
        .args(["--timeout", &JOB_TIMEOUT_S.to_string(), "--mode", test.mode, "--path", test.path])
        .args([program, &board])
        .args([&style, &kills_each.to_string(), &seed.to_string(), test.memory])
        .env("SELVEDGE_DIR", &parent)
        .env("SELVEDGE_LOG", "warn")
        .env("DEATH_JOB", &name)
        .stdin(Stdio::null())
        .stdout(file.try_clone().map_err(|error| error.to_string())?)
        .stderr(file)
        .spawn()
        .map_err(|error| format!("{}: {error}", places.launcher.display()))?;
    let status = process::wait_within(&mut launcher, LAUNCHER_LIMIT)?;
    let printed = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    let verdict = judge(test, status, &printed, &parent, &name);
    let _ = fs::remove_dir_all(&parent);
    let _ = fs::remove_file(&board);
    match verdict {
        Ok(totals) => {
            let _ = fs::remove_file(&log);
            Ok(totals)
        }
        Err(why) => Err(Failed::from(format!(
            "{why}\n{}, seed {seed}, {kills_each} deaths for each of {DYING} ranks; its output is in {}:\n{}",
            test.name(),
            log.display(),
            head_and_tail(&printed)
        ))),
    }
}

fn judge(test: &Test, status: Option<ExitStatus>, printed: &str, parent: &Path, name: &str) -> Result<Totals, String> {
    let status = status.ok_or("the launcher did not end")?;
    let wanted = if test.style == Style::Rank { KILLED } else { 0 };
    if status.code() != Some(wanted) {
        return Err(format!("the job ended with {:?} (signal {:?}), not {wanted}", status.code(), status.signal()));
    }
    let totals = Totals::read(printed)?;
    nothing_is_left(parent, name)?;
    Ok(totals)
}

/// Checks that an ended job left no file and no process.
fn nothing_is_left(parent: &Path, name: &str) -> Result<(), String> {
    let left = process::files_below(parent);
    if !left.is_empty() {
        return Err(format!("files are left: {left:?}"));
    }
    let give_up = Instant::now() + Duration::from_secs(60);
    loop {
        let left = processes_with(&format!("DEATH_JOB={name}"));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > give_up {
            return Err(format!("processes are left: {left:?}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
}

/// Processes of this user with this text in their environment. A zombie has no environment.
fn processes_with(marker: &str) -> Vec<u32> {
    let has = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == marker.as_bytes())
    };
    let names =
        fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(|&pid| has(pid)).collect()
}

fn shared_memory() -> PathBuf {
    let usual = PathBuf::from("/dev/shm");
    if usual.is_dir() { usual } else { std::env::temp_dir() }
}

/// First and last lines, without the library's reports of locks that dead processes held.
fn head_and_tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("died holding the lock")).collect();
    let mut shown = String::new();
    for (number, line) in lines.iter().enumerate() {
        if number < 25 || number + 15 > lines.len() {
            let _ = writeln!(shown, "{line}");
        } else if number == 25 {
            shown.push_str("...\n");
        }
    }
    shown
}

impl Places {
    fn find() -> Result<Places, String> {
        let places = Places {
            sources: PathBuf::from(env!("CARGO_MANIFEST_DIR")),
            launcher: tree::launcher(),
            output: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
        };
        tree::require([&tree::prefix().join("lib/libportals.so"), &places.launcher])?;
        Ok(places)
    }

    fn compile(&self, source: &str) -> Result<PathBuf, String> {
        let program = self.output.join(format!("death-{}", source.trim_end_matches(".c")));
        let compiler = Compiler::of_system(&["-O2", "-pthread"]).with_library("portals");
        compiler.compile(&[self.sources.join(source)], &program)?;
        Ok(program)
    }
}
