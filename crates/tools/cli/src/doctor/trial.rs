// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trials: children of this same executable that load a library, or this command's own launchers with such ranks. Each
//! has a time limit and prints one line of JSON.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::de::DeserializeOwned;
use tempfile::TempDir;

use super::finding::Finding;
use crate::bench::process::output;

/// The longest time of a trial, and of a program that prints its version.
pub const LIMIT: Duration = Duration::from_secs(30);
pub const VERSION_LIMIT: Duration = Duration::from_secs(10);
/// The most characters of a program's message in a finding.
const MESSAGE_MAX: usize = 300;

/// This executable, and the temporary folder for the job directories of trials.
pub struct Trials {
    selvedge: PathBuf,
    folder: TempDir,
}

impl Trials {
    /// Makes the folder where jobs of this user have theirs.
    pub fn new() -> Result<Trials, Finding> {
        let parent = selvedge_job::jobs_folder();
        let folder = std::env::current_exe().and_then(|selvedge| {
            let folder = tempfile::Builder::new().prefix("selvedge-doctor-").tempdir_in(&parent)?;
            Ok(Trials { selvedge, folder })
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

fn printed<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
    let printed = output(command, LIMIT)?;
    let line = printed.lines().rev().find_map(|line| line.find('{').map(|at| &line[at..]));
    let line = line.ok_or_else(|| anyhow!("it printed no result"))?;
    serde_json::from_str(line).with_context(|| format!("not a result: {line}"))
}

/// A message of a program as part of a line.
fn message(text: &str) -> String {
    let line = text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
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
    fn a_message_is_a_short_line() {
        assert_eq!(message("a\n  b\n"), "a b");
        assert_eq!(message(&"ä".repeat(400)).chars().count(), MESSAGE_MAX + 3);
    }
}
