// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits with a limit, timers and alarms in simulated ranks (`sim_limits.c`, `sim_limits_threads.c`, `sim_limits.py`),
//! and ranks that are stuck in calls which virtual time does not know (`stuck.c`).

use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Ended, Place, compile, tree};

/// Runs a program with one rank.
fn run(options: &[&str], program: &[&str]) -> Ended {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../machines/cluster.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "-n", "1", "--quiet", "--machine"]).arg(machine).args(options).arg("--").args(program);
    command.env("SELVEDGE_PREFIX", tree()).stdin(Stdio::null());
    Ended::from(command.output().expect("the command starts"))
}

/// The report of a run with one rank, which must be right.
fn report(place: &Place, program: &[&str]) -> serde_json::Value {
    let file = place.file("report.json");
    let ended = run(&["--json", file.to_str().expect("characters")], program);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), ""), "{program:?}: {}", ended.err);
    let text = std::fs::read_to_string(&file).expect("a report");
    let mut report: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
    report.as_object_mut().expect("an object").remove("wall").expect("the wall clock");
    report
}

fn python() -> Option<&'static str> {
    let has =
        |name: &&str| Command::new(name).args(["-c", "import asyncio"]).output().is_ok_and(|of| of.status.success());
    ["python3"].into_iter().find(has)
}

fn source(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli").join(name);
    path.to_str().expect("a path of characters").to_owned()
}

/// Runs a family of cases of a rank with one thread, twice: the runs are equal.
fn alone(family: &str) {
    let place = Place::new(&format!("limits-{family}"));
    let program = &compile(&place, "sim_limits");
    let run = || report(&place, &[program, family]);
    let (once, again) = (run(), run());
    assert!(once["hash"].is_string(), "{once}");
    assert_eq!(once, again);
}

#[test]
fn locks_with_a_limit_take_virtual_time() {
    alone("locks");
}

#[test]
fn waits_for_descriptors_take_virtual_time() {
    alone("descriptors");
}

#[test]
fn signals_before_the_limit_end_a_wait() {
    alone("signals");
}

#[test]
fn alarms_come_at_virtual_times() {
    let place = Place::new("limits-alarms");
    let program = &compile(&place, "sim_limits");
    // A program that computes until an alarm is interrupted by real time, so two runs may differ.
    report(&place, &[program, "alarms"]);
}

#[test]
fn timers_come_at_virtual_times() {
    let place = Place::new("limits-timers");
    let program = &compile(&place, "sim_limits");
    report(&place, &[program, "timers"]);
}

#[test]
fn timers_with_a_descriptor_come_at_virtual_times() {
    alone("timer_descriptors");
}

#[test]
fn a_wake_up_by_a_thread_comes_before_the_limit() {
    let place = Place::new("limits-wake-ups");
    let program = &compile(&place, "sim_limits_threads");
    report(&place, &[program, "wake_ups"]);
}

#[test]
fn limits_pass_when_all_threads_wait() {
    let place = Place::new("limits-threads");
    let program = &compile(&place, "sim_limits_threads");
    report(&place, &[program, "limits"]);
}

#[test]
fn many_threads_are_woken_before_their_limits() {
    let place = Place::new("limits-crowd");
    let program = &compile(&place, "sim_limits_threads");
    report(&place, &[program, "crowd"]);
}

#[test]
fn a_cancelled_thread_ends_before_its_limit() {
    let place = Place::new("limits-cancelled");
    let program = &compile(&place, "sim_limits_threads");
    report(&place, &[program, "cancellations"]);
}

/// A rank with one thread in Python is equal in two runs, too.
#[test]
fn python_waits_in_virtual_time() {
    let Some(python) = python() else { return };
    let (place, text) = (Place::new("limits-python"), source("sim_limits.py"));
    let run = || report(&place, &[python, &text, "one"]);
    let (once, again) = (run(), run());
    assert_eq!(once["hash"], again["hash"]);
    assert!(once["virtual_time_ps"].as_u64() > Some(5_000_000_000_000), "{once}");
}

#[test]
fn threads_of_python_wait_in_virtual_time() {
    let Some(python) = python() else { return };
    let report = report(&Place::new("limits-python-threads"), &[python, &source("sim_limits.py"), "threads"]);
    assert!(report["virtual_time_ps"].as_u64() > Some(2_000_000_000_000), "{report}");
}

/// The report names the rank, the call and the remedy.
#[test]
fn a_rank_in_a_call_without_virtual_time_is_named() {
    let place = Place::new("limits-stuck");
    let program = &compile(&place, "stuck");
    let calls = [
        ("read", "read(", "poll()"),
        ("recv", "recvfrom(", "poll()"),
        ("sleep", "nanosleep", "the C library's function"),
        ("mutex", "futex", "the thread that it waits for"),
    ];
    for (call, named, remedy) in calls {
        let ended = run(&[], &[program, call]);
        assert_eq!(ended.code, Some(1), "{call}: {}", ended.err);
        let line =
            ended.err.lines().find(|line| line.starts_with("selvedge sim: rank 0 ") && line.contains("is ended"));
        let line = line.unwrap_or_else(|| panic!("{call}: {}", ended.err));
        assert!(line.contains(named) && line.contains(remedy), "{line}");
    }
}

/// Its other thread lets time pass, so it is not ended.
#[test]
fn a_first_thread_that_stands_still_is_named() {
    let place = Place::new("limits-still");
    let program = &compile(&place, "stuck");
    let ended = run(&[], &[program, "thread"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let warnings: Vec<&str> = ended.err.lines().filter(|line| line.contains("waits outside of the library")).collect();
    assert!(matches!(warnings[..], [line] if line.contains("read(") && line.contains("poll()")), "{}", ended.err);
}
