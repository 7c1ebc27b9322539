// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The folder of a study, with a file for each finished cell.
//!
//! ```text
//! lock              held while cells run
//! machine.toml      the scenario's own machine
//! cells/ID.json     a finished cell: exit code and report
//! cells/ID.failed   a failed cell: its error
//! cells/ID.log      output of a cell, if it has any
//! slurm/            plan, script and output of a job array
//! table.csv  table.json  page.html  plots/
//! ```
//!
//! Invariants
//! 1. A file with its final name is whole: it is written under another name, flushed, and renamed. So a study may be killed at
//!    any moment.
//! 2. A finished cell is never run again. A failed one is run by the next start.
//! 3. One process on this study runs cells, or tasks of one job array do, each with cells of its own.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::cells::Cell;
use crate::sim::Usage;

pub const MACHINE: &str = "machine.toml";
const CELLS: &str = "cells";
const LOCK: &str = "lock";
/// Name of files that are not whole.
const PART: &str = "part";
const SCHEMA: &str = "selvedge.study.cell/1";

/// The folder of a study.
#[derive(Clone, Debug)]
pub struct Store {
    folder: PathBuf,
}

/// A cell that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub exit_code: Option<i32>,
    pub error: String,
}

/// State of a cell in the folder.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    Finished,
    Failed(Failure),
    /// Not run, or stopped.
    Open,
}

/// The right to run cells of this study. Others get it when the process ends, whatever ends it.
pub struct Lock(#[expect(dead_code, reason = "open for as long as the lock is held")] Option<File>);

impl Store {
    /// The store of a folder, which need not exist.
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_owned() }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes the folder, and takes the right to run cells. `shared`: with other tasks of a job array.
    pub fn lock(&self, shared: bool) -> Result<Lock> {
        let folder = self.folder.display();
        fs::create_dir_all(self.folder.join(CELLS))
            .map_err(|error| Usage(format!("{folder}: {error}; name a folder for the study with --folder")))?;
        let path = self.folder.join(LOCK);
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        let operation =
            if shared { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingLockExclusive };
        match flock(&file, operation) {
            Ok(()) => Ok(Lock(Some(file))),
            Err(Errno::WOULDBLOCK) => {
                let why = "another `selvedge study` runs its cells; wait for it, or name another folder with --folder";
                Err(Usage(format!("{folder}: {why}")).into())
            }
            // A file system without locks.
            Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => Ok(Lock(None)),
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Removes what a killed process left. Only with the lock, not shared.
    pub fn clean(&self) {
        let Ok(files) = fs::read_dir(self.folder.join(CELLS)) else { return };
        for file in files.flatten().map(|file| file.path()) {
            if file.extension().is_some_and(|extension| extension == PART) {
                let _ = fs::remove_file(file);
            }
        }
    }

    pub fn state(&self, id: &str) -> State {
        if self.file(id, "json").is_file() {
            return State::Finished;
        }
        let failure = fs::read(self.file(id, "failed")).ok();
        let failure = failure.and_then(|text| serde_json::from_slice(&text).ok());
        failure.map_or(State::Open, State::Failed)
    }

    /// The report of a finished cell. `None`: it is not finished, or its file is damaged; a damaged file is removed.
    pub fn report(&self, id: &str) -> Option<Value> {
        let path = self.file(id, "json");
        let text = fs::read(&path).ok()?;
        let report = serde_json::from_slice::<Value>(&text).ok().and_then(|mut cell| {
            let report = cell.get_mut("report").map(Value::take);
            report.filter(|_| cell["schema"] == SCHEMA)
        });
        if report.is_none() {
            let _ = fs::remove_file(path);
        }
        report
    }

    /// Keeps a finished cell.
    pub fn keep(&self, cell: &Cell, exit_code: i32, mut report: Value) -> Result<()> {
        if let Some(report) = report.as_object_mut() {
            report.remove("wall");
        }
        let kept = json!({
            "schema": SCHEMA,
            "options": cell.options,
            "command": cell.command,
            "exit_code": exit_code,
            "report": report,
        });
        self.write(&self.file(&cell.id, "json"), &serde_json::to_vec(&kept)?)?;
        self.forget_failure(&cell.id);
        Ok(())
    }

    /// Keeps the error of a failed cell.
    pub fn fail(&self, cell: &Cell, failure: &Failure) -> Result<()> {
        self.write(&self.file(&cell.id, "failed"), &serde_json::to_vec(failure)?)
    }

    pub fn forget_failure(&self, id: &str) {
        let _ = fs::remove_file(self.file(id, "failed"));
    }

    /// Files in which a running cell writes its report and its output.
    pub fn scratch(&self, id: &str) -> (PathBuf, PathBuf) {
        // A killed study's cell may live a moment longer; its files have another name.
        let process = std::process::id();
        (self.file(id, &format!("report.{process}.{PART}")), self.file(id, &format!("log.{process}.{PART}")))
    }

    /// The output of a cell.
    pub fn log(&self, id: &str) -> PathBuf {
        self.file(id, "log")
    }

    /// The text of a cell's output; empty without any.
    pub fn output(&self, id: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.log(id)).unwrap_or_default()).into_owned()
    }

    fn file(&self, id: &str, ending: &str) -> PathBuf {
        self.folder.join(CELLS).join(format!("{id}.{ending}"))
    }

    /// Writes a file as a whole.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        whole(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    }
}

fn whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.{PART}", std::process::id()));
    let part = PathBuf::from(name);
    let mut file = File::create(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(id: &str) -> Cell {
        Cell { id: id.into(), values: Vec::new(), options: Vec::new(), command: Vec::new(), exit_codes: vec![0] }
    }

    #[test]
    fn a_finished_cell_stays_and_a_failed_one_may_finish_later() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::new(&place.path().join("a.study"));
        let _lock = store.lock(false).unwrap();
        assert_eq!(store.state("1"), State::Open);
        let failure = Failure { exit_code: Some(2), error: "no".into() };
        store.fail(&cell("1"), &failure).unwrap();
        assert_eq!(store.state("1"), State::Failed(failure));
        store.keep(&cell("1"), 0, json!({ "a": 0.1, "wall": { "seconds": 1.0 } })).unwrap();
        assert_eq!((store.state("1"), store.report("1")), (State::Finished, Some(json!({ "a": 0.1 }))));
    }

    #[test]
    fn a_damaged_file_is_no_result() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::new(place.path());
        let _lock = store.lock(false).unwrap();
        fs::write(store.file("1", "json"), "{\"schema\":").unwrap();
        assert_eq!((store.report("1"), store.state("1")), (None, State::Open));
        fs::write(store.file("2", "failed"), "").unwrap();
        assert_eq!(store.state("2"), State::Open);
        let (report, log) = store.scratch("3");
        fs::write(&report, "half").unwrap();
        fs::write(&log, "half").unwrap();
        store.clean();
        assert!(!report.exists() && !log.exists());
    }

    #[test]
    fn one_process_runs_cells_or_several_tasks_do() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::new(place.path());
        let alone = store.lock(false).unwrap();
        let error = store.lock(true).err().unwrap().to_string();
        assert!(error.contains("another `selvedge study`"), "{error}");
        drop(alone);
        let _tasks = (store.lock(true).unwrap(), store.lock(true).unwrap());
        assert!(store.lock(false).is_err());
    }
}
