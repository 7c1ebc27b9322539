// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --kill` and `--fail-node` with built-in programs, from the command line to the exit code.

use std::process::Command;

fn machine(name: &str) -> String {
    format!("{}/../../../machines/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// The exit code, and the output without lines of the wall clock.
fn sim(line: &str) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_selvedge"));
    command.args(["sim", "--machine", &machine("pac")]).args(line.split_whitespace());
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let lines = text.lines().filter(|line| !line.trim_start().to_lowercase().starts_with("wall"));
    (output.status.code(), lines.map(|line| format!("{line}\n")).collect())
}

fn has(text: &str, name: &str, value: &str) -> bool {
    text.lines().any(|line| line.trim_start().strip_prefix(name).is_some_and(|rest| rest.trim() == value))
}

#[test]
fn a_death_ends_the_run_with_137() {
    let (code, text) = sim("-n 8 --program allreduce --kill 3@2us");
    assert_eq!(code, Some(137), "{text}");
    assert!(has(&text, "end", "died, with 1 of 8 ranks at their end"), "{text}");
    assert!(has(&text, "virtual time", "2.000 us") && has(&text, "killed", "rank 3 at 2.000 us"), "{text}");
    assert!(has(&text, "exit code", "137"), "{text}");
}

#[test]
fn with_keep_going_the_ranks_that_wait_for_a_dead_one_are_listed() {
    let (code, text) = sim("-n 8 --program allreduce --kill 3@2us --keep-going");
    assert_eq!(code, Some(137), "{text}");
    assert!(has(&text, "end", "stuck, with 1 of 8 ranks at their end"), "{text}");
    assert!(text.contains("waits for its NIC"), "{text}");
    assert_eq!(sim("-n 8 --program allreduce --kill 3@2us --keep-going"), (code, text), "two runs");
}

#[test]
fn messages_to_a_node_that_is_cut_off_wait_or_are_lost() {
    let time = |more: &str| {
        let (code, text) = sim(&format!("-n 2 --program ping-pong --sizes 8K {more}"));
        let line = text.lines().find(|line| line.trim_start().starts_with("virtual time")).expect("a time");
        let us: f64 = line.split_whitespace().nth(2).and_then(|word| word.parse().ok()).expect("a number");
        assert!(line.ends_with(" us") || code != Some(0), "{line}");
        (code, us, text)
    };
    let (whole, cut) = (time(""), time("--fail-node 1@20us-120us"));
    assert_eq!((whole.0, cut.0), (Some(0), Some(0)));
    assert!((90.0..=100.0).contains(&(cut.1 - whole.1)), "{} us, {} us", whole.1, cut.1);
    assert!(has(&cut.2, "failed node", "1 from 20.000 us to 120.000 us"), "{}", cut.2);
    let (code, _, text) = time("--fail-node 1@20us");
    assert!(code == Some(1) && has(&text, "lost", "1"), "{text}");
}

#[test]
fn deaths_that_did_not_happen_are_reported() {
    let (code, text) = sim("-n 2 --program ping-pong --kill 1@1000s --keep-going");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("rank 1 was to be killed at 1000.000 s, and had ended by then"), "{text}");
    let (code, text) = sim("-n 8 --program allreduce --kill 3@2us --kill 2@3us");
    assert_eq!(code, Some(137), "{text}");
    assert!(text.contains("rank 2 was to be killed at 3.000 us, and the run ended before that"), "{text}");
    // Without --kill the report does not mention deaths.
    assert!(!sim("-n 2 --program ping-pong").1.contains("kill"));
}
