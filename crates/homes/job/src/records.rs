// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a job that name processes: its launcher, those that have claimed an id, those that ended early.
//!
//! Reading never fails: a file that is absent, of another kind, too long or malformed names no process.

use std::fs;
use std::io;
use std::path::Path;

use crate::identity::Identity;

pub(crate) const JOB_RECORD: &str = "job";
pub(crate) const LOST_RANKS: &str = "lost";

/// The launcher's record of its job: the file `job`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    /// The launcher's process. The job is over when it has ended.
    pub launcher: Identity,
    /// The job's name.
    pub name: String,
    /// Number of ranks.
    pub size: u32,
    /// The program as the user gave it.
    pub program: String,
}

impl JobRecord {
    pub(crate) fn to_line(&self) -> String {
        let value = serde_json::json!({
            "pid": self.launcher.pid,
            "start": self.launcher.start,
            "name": self.name,
            "size": self.size,
            "program": self.program,
        });
        format!("{value}\n")
    }

    /// Reads the file from the directory at `path`; `None` when absent or unreadable.
    pub fn read(path: &Path) -> Option<JobRecord> {
        let value = read_json(&path.join(JOB_RECORD))?;
        Some(JobRecord {
            launcher: identity_in(&value)?,
            name: value.get("name")?.as_str()?.to_owned(),
            size: u32::try_from(value.get("size")?.as_u64()?).ok()?,
            program: value.get("program")?.as_str()?.to_owned(),
        })
    }
}

/// The launcher's record of a process that ended early: the file `<ospid>.dead`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// The process that ended.
    pub who: Identity,
    /// Its rank in the job.
    pub rank: u32,
    /// Its end in words: `was killed by SIGSEGV`, `exited with status 3`.
    pub how: String,
}

impl Tombstone {
    pub(crate) fn to_line(&self) -> String {
        let value = serde_json::json!({
            "pid": self.who.pid,
            "start": self.who.start,
            "rank": self.rank,
            "how": self.how,
        });
        format!("{value}\n")
    }

    /// Reads a tombstone; `None` if it is absent or cannot be read.
    pub fn read(path: &Path) -> Option<Tombstone> {
        let value = read_json(path)?;
        Some(Tombstone {
            who: identity_in(&value)?,
            rank: u32::try_from(value.get("rank")?.as_u64()?).ok()?,
            how: value.get("how")?.as_str()?.to_owned(),
        })
    }
}

/// Limit of [`LostRank`]s in the record: a program names the first ones.
const LOST_RANKS_MAX: usize = 64;

/// A rank that ended early, on any host: a line of the launcher's file `lost`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostRank {
    /// Its rank in the job.
    pub rank: u32,
    /// It was killed, or has exited with another status than 0.
    pub has_failed: bool,
    /// Its end in words.
    pub how: String,
}

impl LostRank {
    /// Returns the content of the file.
    pub(crate) fn to_lines(lost: &[LostRank]) -> String {
        let line = |LostRank { rank, has_failed, how }: &LostRank| {
            format!("{}\n", serde_json::json!({ "rank": rank, "failed": has_failed, "how": how }))
        };
        lost.iter().take(LOST_RANKS_MAX).map(line).collect()
    }

    /// Reads the file. Malformed lines are skipped.
    pub(crate) fn read(path: &Path) -> Vec<LostRank> {
        let of_line = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            let rank = u32::try_from(value.get("rank")?.as_u64()?).ok()?;
            let has_failed = value.get("failed")?.as_bool()?;
            Some(LostRank { rank, has_failed, how: value.get("how")?.as_str()?.to_owned() })
        };
        let text = read_file(path).and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        text.lines().filter_map(of_line).collect()
    }
}

fn read_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&read_file(path)?).ok()
}

fn read_file(path: &Path) -> Option<Vec<u8>> {
    let meta = fs::symlink_metadata(path).ok()?;
    if !meta.is_file() || meta.len() > 1 << 20 {
        return None;
    }
    fs::read(path).ok()
}

fn identity_in(value: &serde_json::Value) -> Option<Identity> {
    Some(Identity { pid: u32::try_from(value.get("pid")?.as_u64()?).ok()?, start: value.get("start")?.as_u64()? })
}

pub(crate) fn claimant_of(file: &Path) -> Option<Identity> {
    let meta = fs::symlink_metadata(file).ok()?;
    if !meta.is_file() || meta.len() > 64 {
        return None;
    }
    Identity::from_line(&fs::read_to_string(file).ok()?)
}

pub(crate) fn claimants_in(path: &Path) -> Vec<(u16, Identity)> {
    let names = fs::read_dir(path).into_iter().flatten().filter_map(io::Result::ok);
    let mut claimants: Vec<(u16, Identity)> = names
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.strip_suffix(".claim")?.parse().ok()?;
            Some((pid, claimant_of(&entry.path())?))
        })
        .collect();
    claimants.sort_unstable_by_key(|&(pid, _)| pid);
    claimants
}
