// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs one cell: `selvedge sim` in a process of its own, which takes nothing from others and whose end harms no other cell.
//!
//! The process dies with the thread that waits for it. It has its own process group, so that Ctrl-C reaches only the study,
//! which then ends the cell.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use serde_json::Value;

use super::cells::Cell;
use super::pool::Ended;
use super::store::{Failure, State, Store};
use crate::sim::Interrupt;

/// Longest time between two looks at a running cell.
const LOOK_MAX: Duration = Duration::from_millis(20);
/// Time that a cell has to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);
/// Longest error of a cell.
const ERROR_CHARS: usize = 500;

/// Runs a cell, and keeps its report or its error. `folder`: that of the scenario.
pub fn run(cell: &Cell, store: &Store, folder: &Path, interrupt: &Interrupt) -> Result<Ended> {
    if interrupt.is_set() {
        return Ok(Ended::Stopped);
    }
    if store.state(&cell.id) == State::Finished {
        return Ok(Ended::Finished);
    }
    let (report, log) = store.scratch(&cell.id);
    let _ = fs::remove_file(&report);
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut child = start(cell, &report, output, folder)?;
    let Some(status) = wait(&mut child, interrupt)? else {
        let _ = (fs::remove_file(&report), fs::remove_file(&log));
        return Ok(Ended::Stopped);
    };
    let said = fs::read(&log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    // Output of an earlier try goes.
    let _ = fs::remove_file(store.log(&cell.id));
    let kept = if said.is_empty() { fs::remove_file(&log) } else { fs::rename(&log, store.log(&cell.id)) };
    kept.with_context(|| format!("cannot move {}", log.display()))?;
    let read = fs::read(&report).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    let _ = fs::remove_file(&report);
    match (status.code(), read) {
        (Some(code), Some(read)) if cell.exit_codes.contains(&code) => {
            store.keep(cell, code, read)?;
            Ok(Ended::Finished)
        }
        (code, read) => {
            let failure = Failure { exit_code: code, error: error(status, read.as_ref(), &said) };
            store.fail(cell, &failure)?;
            Ok(Ended::Failed(failure))
        }
    }
}

fn start(cell: &Cell, report: &Path, output: File, folder: &Path) -> Result<Child> {
    let executable = std::env::current_exe().context("cannot find this command's own file")?;
    let mut command = Command::new(&executable);
    command.arg("sim").args(&cell.options).arg("--quiet").arg(format!("--json={}", report.display()));
    // Cells take the cores, one each.
    if !cell.options.iter().any(|option| option.starts_with("--threads")) {
        command.arg("--threads=1");
    }
    command.args(&cell.command).current_dir(folder).stdin(Stdio::null());
    command.stdout(output.try_clone().context("cannot open the output of a cell twice")?).stderr(output);
    command.process_group(0);
    // SAFETY: `prctl` is a system call, which is allowed between fork and exec.
    unsafe { command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?)) };
    command.spawn().with_context(|| format!("cannot start {}", executable.display()))
}

/// Waits for the end of a cell. `None`: Ctrl-C ended it.
fn wait(child: &mut Child, interrupt: &Interrupt) -> Result<Option<ExitStatus>> {
    let mut look = Duration::from_micros(500);
    while !interrupt.is_set() {
        if let Some(status) = child.try_wait().context("cannot wait for a cell")? {
            return Ok(Some(status));
        }
        thread::sleep(look);
        look = (2 * look).min(LOOK_MAX);
    }
    // The process has not been waited for, so its number is its own.
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let stopped = Instant::now();
    while stopped.elapsed() < GRACE {
        if child.try_wait().context("cannot wait for a cell")?.is_some() {
            return Ok(None);
        }
        thread::sleep(LOOK_MAX);
    }
    let _ = child.kill();
    child.wait().context("cannot wait for a cell")?;
    Ok(None)
}

/// Why a cell failed: the command's own words, or how it ended.
fn error(status: ExitStatus, report: Option<&Value>, said: &str) -> String {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines().rfind(|line| line.starts_with("selvedge"));
    let own = own.map(|line| line.trim_start_matches("selvedge sim: ").trim_start_matches("selvedge: "));
    let wrong = report.and_then(|report| report["results"]["wrong_count"].as_u64()).filter(|count| *count > 0);
    let why = match (own, wrong, status.signal()) {
        (Some(own), ..) => own.to_owned(),
        (None, Some(count), _) => format!("the program found {count} things wrong"),
        (None, None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None, None) => {
            let last = lines().next_back().map_or(String::new(), |line| format!(": {line}"));
            format!("ended with exit code {}{last}", status.code().unwrap_or(-1))
        }
    };
    why.chars().take(ERROR_CHARS).collect()
}
