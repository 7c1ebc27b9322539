// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs `traffic.c` in virtual time: `selvedge sim --keep-going --kill RANK@TIME`, real processes on simulated
//! machines.
//!
//! A test is named `sim::variant`, after the machine or the behaviour of its links. Of each job's 8 ranks, 6 die at
//! times that the seed chooses. The simulator kills half of them. The others end themselves: by a signal, with a status
//! that is not 0, or with status 0 but with their NICs open.
//!
//! 1. The survivors check the same rules as in live jobs, with limits of virtual time. No operation fails before its
//!    target is dead, except where links lose packets.
//! 2. A killed rank ends at exactly that time. Each rank has the exit code of its end; the job has that of the first
//!    rank that failed.
//! 3. No file and no process is left.
//! 4. The first job of each test runs twice: its output and its report are the same, except for the wall clock.
//! 5. Without `--keep-going` the first death ends the job (`sim::first-death`).
//! 6. The launcher's barrier waits for living ranks only (`sim::barrier`), whatever the dead ranks were doing.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Instant;

use libtest_mimic::{Failed, Trial};
use selvedge_test_runner::process::{files_below, wait_within};
use serde_json::Value;

use super::{
    BOARD_BYTES, KILLED, LAUNCHER_LIMIT, Places, Totals, head_and_tail, nothing_is_left, number, shared_memory,
};

const RANKS: u32 = 8;
const SURVIVORS: u32 = 2;
const DYING: u32 = RANKS - SURVIVORS;
/// Time with traffic, and time in which ranks die.
const TRAFFIC_US: u64 = 3500;
const DEATHS_NS: u64 = 3_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Links {
    Sound,
    /// Links fail for less than the limit after which waiting packets are lost. They lose and corrupt packets, and
    /// retransmit them.
    Failing,
    /// Links also fail for longer, and retransmit nothing.
    Losing,
}

struct Simulated {
    variant: &'static str,
    machine: &'static str,
    links: Links,
    memory: &'static str,
    /// Deaths, unless DEATH_KILLS is set.
    kills: u32,
}

const fn test(variant: &'static str, machine: &'static str, links: Links, memory: &'static str) -> Simulated {
    Simulated { variant, machine, links, memory, kills: DYING }
}

const TESTS: [Simulated; 6] = [
    test("seastar-nic", "seastar-nic", Links::Sound, "mixed"),
    test("seastar-host", "seastar-host", Links::Sound, "mixed"),
    test("qdr-portals", "qdr-portals", Links::Sound, "shared"),
    test("cluster", "cluster", Links::Sound, "mixed"),
    test("failing-links", "seastar-nic", Links::Failing, "shared"),
    test("losing-links", "torus16", Links::Losing, "mixed"),
];

pub(super) fn trials(found: &Arc<(Places, PathBuf)>) -> Vec<Trial> {
    let mut trials: Vec<Trial> = TESTS
        .iter()
        .map(|test| {
            let found = Arc::clone(found);
            Trial::test(format!("sim::{}", test.variant), move || run_test(&found.0, &found.1, test))
        })
        .collect();
    let (one, other) = (Arc::clone(found), Arc::clone(found));
    trials.push(Trial::test("sim::first-death", move || first_death(&one.0, &one.1)));
    trials.push(Trial::test("sim::barrier", move || barrier(&other.0)));
    trials
}

/// The end of a rank: its kind and its time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct End {
    how: char,
    ns: u64,
}

impl End {
    fn code(self) -> i64 {
        match self.how {
            'k' | 's' => i64::from(KILLED),
            'v' => 128 + 11,
            'e' => 3,
            _ => 0,
        }
    }
}

/// Random choices of a seed for a job.
struct Draw {
    state: u64,
}

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % bound
    }

    /// Some ranks die before their traffic begins, and some before they run at all.
    fn end(&mut self) -> End {
        let how = ['k', 'k', 'k', 'k', 's', 'v', 'e', 'x'][self.below(8) as usize];
        let bound = [1, 30_000, DEATHS_NS][self.below(12).min(2) as usize];
        End { how, ns: self.below(bound) }
    }

    /// Failures of links between the routers of neighbouring ranks, which have the ranks' numbers, and of one node.
    fn failures(&mut self, links: Links) -> Vec<String> {
        let longest_us = if links == Links::Losing { 2_000 } else { 900 };
        let mut times = || {
            let at = 100 + self.below(1_000);
            format!("{at}us-{}us", at + 1 + self.below(longest_us))
        };
        let mut failed: Vec<String> =
            (1..RANKS).map(|router| format!("--fail-link={}-{router}@{}", router - 1, times())).collect();
        let times = times();
        failed.push(format!("--fail-node={}@{times}", self.below(RANKS.into())));
        // Packets wait for the repair of their link.
        failed.push("--no-reroute".to_owned());
        failed
    }
}

fn run_test(places: &Places, program: &Path, test: &Simulated) -> Result<(), Failed> {
    let kills = number("DEATH_KILLS").map_or(test.kills, |kills| kills as u32);
    let seed = number("DEATH_SEED").unwrap_or(1);
    let began = Instant::now();
    let (mut totals, mut jobs, mut sent_again) = (Totals::default(), 0, 0);
    while totals.kills < kills {
        let job = Job::new(places, test, seed + jobs);
        let (ended, found) = job.run(program)?;
        if jobs == 0 {
            let (again, _) = job.run(program)?;
            if again != ended {
                let message = format!("two runs differ:\n{}\n{}\n{}\n{}", ended.0, ended.1, again.0, again.1);
                return Err(job.failed(&message).into());
            }
        }
        sent_again += ended.1["network"]["retransmissions"].as_u64().unwrap_or(0);
        totals.add(&found);
        totals.kills += DYING;
        jobs += 1;
    }
    println!("sim::{}: {jobs} jobs from seed {seed}, {:.1} s, {totals}", test.variant, began.elapsed().as_secs_f64());
    println!("    {} operations between survivors lost, {sent_again} packets sent again", totals.lost);
    match test.links {
        Links::Failing if sent_again == 0 => Err("no link retransmitted anything: this tests nothing".into()),
        Links::Losing if totals.lost == 0 => Err("no link lost anything: this tests nothing".into()),
        _ => Ok(()),
    }
}

struct Job<'a> {
    places: &'a Places,
    test: &'a Simulated,
    seed: u64,
    ends: Vec<End>,
    failures: Vec<String>,
    name: String,
}

/// The output and the report of a job, without the values of the wall clock.
type Ended = (String, Value);

impl<'a> Job<'a> {
    fn new(places: &'a Places, test: &'a Simulated, seed: u64) -> Job<'a> {
        let mut draw = Draw { state: seed.wrapping_mul(0x0012_3456_789a_bcdf) };
        let ends = (0..DYING).map(|_| draw.end()).collect();
        let failures = if test.links == Links::Sound { Vec::new() } else { draw.failures(test.links) };
        let name = format!("sim-{}-{}-{seed}", test.variant, std::process::id());
        Job { places, test, seed, ends, failures, name }
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.places.output.join(format!("{}.{extension}", self.name))
    }

    fn command(&self, program: &Path, keep_going: bool) -> Result<Command, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.name);
        let (board, report) = (self.file("board"), self.file("json"));
        File::create(&board).and_then(|file| file.set_len(BOARD_BYTES)).map_err(failed)?;
        let mut command = Command::new(&self.places.launcher);
        command.args(["sim", "--quiet", "-n", &RANKS.to_string(), "--machine", self.test.machine]);
        command.args(["--time-limit", "60s", "--json"]).arg(&report);
        command.args(keep_going.then_some("--keep-going"));
        for (number, end) in self.ends.iter().enumerate().filter(|(_, end)| end.how == 'k') {
            command.args(["--kill", &format!("{}@{}ns", SURVIVORS as usize + number, end.ns)]);
        }
        command.args(&self.failures);
        match self.test.links {
            Links::Sound => {}
            Links::Failing => _ = command.args(["--loss", "0.002", "--corruption", "0.002"]),
            // As fast as the hosts: on slower links the long messages exceed their time limit.
            Links::Losing => _ = command.args(["--set", "link.bandwidth_MBps=1600"]),
        }
        command.arg("--").args([program, &board]).args(["sim", &TRAFFIC_US.to_string(), &self.seed.to_string()]);
        command.arg(self.test.memory).args(self.ends.iter().map(|end| format!("{}@{}", end.how, end.ns)));
        command.args((self.test.links == Links::Losing).then_some("lossy"));
        command.stdin(Stdio::null()).stdout(File::create(self.file("out")).map_err(failed)?);
        command.stderr(File::create(self.file("log")).map_err(failed)?);
        Ok(command)
    }

    /// Runs the job in its own directory, which must be empty afterwards.
    fn carry_out(&self, program: &Path, keep_going: bool) -> Result<(ExitStatus, Ended), String> {
        let parent = shared_memory().join(format!("selvedge-death-{}", self.name));
        fs::create_dir(&parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let mut command = self.command(program, keep_going)?;
        command.env("SELVEDGE_DIR", &parent).env("SELVEDGE_LOG", "warn").env("DEATH_JOB", &self.name);
        let started = command.spawn().map_err(|error| format!("{command:?}: {error}"));
        let status = started.and_then(|mut launcher| wait_within(&mut launcher, LAUNCHER_LIMIT));
        let left = nothing_is_left(&parent, &self.name);
        let files = files_below(&parent);
        let _ = fs::remove_dir_all(&parent);
        let status = status?.ok_or("the simulation did not end")?;
        left.map_err(|why| format!("{why} {files:?}"))?;
        let printed = fs::read_to_string(self.file("out")).map_err(|error| error.to_string())?;
        let report = fs::read(self.file("json")).map_err(|error| format!("no report: {error}"))?;
        let mut report: Value = serde_json::from_slice(&report).map_err(|error| error.to_string())?;
        report.as_object_mut().and_then(|report| report.remove("wall"));
        Ok((status, (printed, report)))
    }

    fn run(&self, program: &Path) -> Result<(Ended, Totals), String> {
        let ended = self.carry_out(program, true).and_then(|(status, ended)| {
            let totals = self.judge(status, &ended)?;
            Ok((ended, totals))
        });
        let ended = ended.map_err(|why| self.failed(&why))?;
        ["board", "json", "out", "log"].iter().for_each(|kind| _ = fs::remove_file(self.file(kind)));
        Ok(ended)
    }

    fn judge(&self, status: ExitStatus, (printed, report): &Ended) -> Result<Totals, String> {
        let totals = Totals::read(printed)?;
        let codes = |rank: u32| report["rank_codes"][rank as usize].as_i64();
        let ends = |rank: u32| report["rank_ends_ps"][rank as usize].as_u64();
        // The time and the code of the first rank that failed.
        let mut first = (u64::MAX, 0);
        for rank in 0..RANKS {
            let end = rank.checked_sub(SURVIVORS).map(|number| self.ends[number as usize]);
            let (Some(code), Some(at)) = (codes(rank), ends(rank)) else {
                return Err(format!("rank {rank} has not ended"));
            };
            if code != end.map_or(0, End::code) {
                return Err(format!("rank {rank} ended with {code}"));
            }
            let due = end.map_or(0, |end| end.ns * 1000);
            if at < due || (at > due && end.is_some_and(|end| end.how == 'k')) {
                return Err(format!("rank {rank} ended at {at} ps"));
            }
            if code != 0 && at < first.0 {
                first = (at, code);
            }
        }
        if (report["end"].as_str(), report["exit_code"].as_i64()) != (Some("completed"), Some(first.1)) {
            return Err(format!(
                "it is {} with {}, not completed with {}",
                report["end"], report["exit_code"], first.1
            ));
        }
        if status.code().map(i64::from) != Some(first.1) {
            return Err(format!("the job ended with {status}, not {}", first.1));
        }
        Ok(totals)
    }

    fn failed(&self, why: &str) -> String {
        let mut words = format!("{why}\nsim::{}, seed {}", self.test.variant, self.seed);
        for kind in ["out", "log"] {
            let text = fs::read_to_string(self.file(kind)).unwrap_or_default();
            let _ = write!(words, "\n{}:\n{}", self.file(kind).display(), head_and_tail(&text));
        }
        words
    }
}

/// Checks rule 5.
fn first_death(places: &Places, program: &Path) -> Result<(), Failed> {
    for (seed, how, code) in [(1, 'k', KILLED), (2, 's', KILLED), (3, 'v', 139), (4, 'e', 3)] {
        let mut job = Job::new(places, &TESTS[0], seed);
        job.name = format!("{}-first", job.name);
        job.ends.iter_mut().for_each(|end| (end.how, end.ns) = (how, end.ns.max(200_000)));
        let (status, (printed, report)) = job.carry_out(program, false).map_err(|why| job.failed(&why))?;
        let earliest = job.ends.iter().map(|end| end.ns * 1000).min();
        let is_first = how != 'k' || report["virtual_time_ps"].as_u64() == earliest;
        if status.code() != Some(code) || status.signal().is_some() || printed.contains("summary") || !is_first {
            let words = format!("{status}, not {code}; at {}, not {earliest:?}", report["virtual_time_ps"]);
            return Err(job.failed(&words).into());
        }
        ["board", "json", "out", "log"].iter().for_each(|kind| _ = fs::remove_file(job.file(kind)));
    }
    Ok(())
}

/// Checks rule 6. Rank r enters the barrier after r ms. Ranks 0, 3 and 4 are killed in it, before it, and before they
/// begin.
fn barrier(places: &Places) -> Result<(), Failed> {
    let program = places.compile("barrier.c")?;
    let parent = shared_memory().join(format!("selvedge-death-barrier-{}", std::process::id()));
    fs::create_dir(&parent)?;
    let output = Command::new(&places.launcher)
        .args(["sim", "--quiet", "-n", "5", "--machine", "cluster", "--keep-going"])
        .args(["--kill", "0@500us", "--kill", "3@1500us", "--kill", "4@0ns", "--"])
        .arg(program)
        .env("SELVEDGE_DIR", &parent)
        .output();
    let left = files_below(&parent);
    let _ = fs::remove_dir_all(&parent);
    let output = output?;
    let printed = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let through = lines == ["rank 1: 0 0 at 2 ms", "rank 2: 0 0 at 2 ms"];
    if !through || output.status.code() != Some(KILLED) || !left.is_empty() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {lines:?}, left {left:?}\n{log}", output.status).into());
    }
    Ok(())
}
