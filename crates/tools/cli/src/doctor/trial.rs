// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trials: children of this same executable that load a library, or this command's own launchers with such ranks. Each
//! has a time limit and prints one line of JSON.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, anyhow};
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::finding::Finding;
use crate::bench::process::output;

/// The longest time of a trial, and of a program that prints its version.
pub const LIMIT: Duration = Duration::from_secs(30);
pub const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// The most characters of a program's message in a finding.
const MESSAGE_MAX: usize = 300;

/// The beginning of the names of temporary folders.
const FOLDER: &str = "selvedge-doctor-";
/// A folder is locked before it has this age.
const LEFT_AGE: Duration = Duration::from_secs(60);

/// This executable, and the temporary folder for the job directories of trials.
pub struct Trials {
    selvedge: PathBuf,
    folder: TempDir,
    /// Locks the folder as one that is in use.
    _in_use: File,
}

impl Trials {
    /// Makes the folder where jobs of this user have theirs.
    pub fn new() -> Result<Trials, Finding> {
        let parent = selvedge_job::jobs_folder();
        remove_left(&parent, SystemTime::now());
        let folder = std::env::current_exe().and_then(|selvedge| {
            let folder = tempfile::Builder::new().prefix(FOLDER).tempdir_in(&parent)?;
            let _in_use = File::open(folder.path())?;
            // A file system without locks: the next command after a minute may remove the folder.
            let _ = flock(&_in_use, FlockOperation::NonBlockingLockExclusive);
            Ok(Trials { selvedge, folder, _in_use })
        });
        folder.map_err(|error| {
            let found = format!("{}: cannot make a folder: {error}", parent.display());
            Finding::problem("trials", found, "set SELVEDGE_DIR to a folder in which you can make files").that_stops()
        })
    }

    /// A command of this executable, whose jobs have their files in the temporary folder.
    pub fn selvedge(&self) -> Command {
        let mut command = Command::new(&self.selvedge);
        command.env("SELVEDGE_DIR", self.folder.path());
        command
    }

    pub fn executable(&self) -> &Path {
        &self.selvedge
    }

    /// Runs a trial to its end. Returns what its child has printed, or the reason of its failure in a line.
    pub fn run<T: DeserializeOwned>(&self, command: &mut Command) -> Result<T, String> {
        command.env("SELVEDGE_DIR", self.folder.path());
        printed(command).map_err(|error| message(&format!("{error:#}")))
    }
}

/// Removes this user's folders that commands before have left, because a signal has ended them.
fn remove_left(parent: &Path, now: SystemTime) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_old = |made: SystemTime| now.duration_since(made).is_ok_and(|age| age >= LEFT_AGE);
        let is_left = |metadata: fs::Metadata| {
            metadata.is_dir()
                && metadata.uid() == rustix::process::geteuid().as_raw()
                && metadata.modified().is_ok_and(is_old)
        };
        if entry.file_name().as_encoded_bytes().starts_with(FOLDER.as_bytes())
            && entry.metadata().is_ok_and(is_left)
            && File::open(entry.path()).is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok())
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn printed<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
    let printed = output(command, LIMIT)?;
    let line = printed.lines().rev().find_map(|line| line.find('{').map(|at| &line[at..]));
    let line = line.ok_or_else(|| anyhow!("it printed no result"))?;
    serde_json::from_str(line).with_context(|| format!("not a result: {line}"))
}

/// A message of a program as part of a line, without the lines that some draw around theirs.
fn message(text: &str) -> String {
    let is_drawn = |word: &str| word.len() > 3 && word.bytes().all(|letter| b"-=*".contains(&letter));
    let line = text.split_ascii_whitespace().filter(|word| !is_drawn(word)).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_MAX) {
        Some((end, _)) => line[..end].to_owned() + "...",
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    struct Printed {
        a: u32,
    }

    fn shell(script: &str) -> Result<Printed> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        printed(&mut command)
    }

    #[test]
    fn the_last_line_of_json_is_the_result() {
        assert_eq!(shell("echo a banner; echo '[0] {\"a\": 3}'; echo").unwrap().a, 3);
        assert!(shell("echo a banner").unwrap_err().to_string().contains("no result"));
        assert!(shell("echo '{\"b\": 1}'").unwrap_err().to_string().contains("not a result"));
        assert!(format!("{:#}", shell("echo why >&2; kill -SEGV $$").unwrap_err()).contains("why"));
    }

    #[test]
    fn folders_that_are_left_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let names = ["selvedge-doctor-left", "selvedge-doctor-used", "selvedge-run"];
        names.iter().for_each(|name| fs::create_dir_all(parent.path().join(name).join("job")).unwrap());
        fs::write(parent.path().join("selvedge-doctor-file"), "").unwrap();
        let used = File::open(parent.path().join(names[1])).unwrap();
        flock(&used, FlockOperation::NonBlockingLockExclusive).unwrap();
        let left = || fs::read_dir(parent.path()).unwrap().count();
        remove_left(parent.path(), SystemTime::now());
        assert_eq!(left(), 4);
        remove_left(parent.path(), SystemTime::now() + 2 * LEFT_AGE);
        assert!(left() == 3 && !parent.path().join(names[0]).exists());
    }

    #[test]
    fn a_message_is_a_short_line() {
        assert_eq!(message("a\n  b\n"), "a b");
        assert_eq!(message("-----\na -- b\n-----\n"), "a -- b");
        assert_eq!(message(&"ä".repeat(400)).chars().count(), MESSAGE_MAX + 3);
    }
}
