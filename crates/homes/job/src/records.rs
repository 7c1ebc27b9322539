// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of a job that name processes: its launcher, those that have claimed an id, those that ended early.
//!
//! A file that is absent, of another kind, too long or malformed names no process. A file that cannot be read now is an
//! error: it may name a living one.

use std::fs;
use std::io;
use std::path::Path;

use selvedge_os::process::Identity;

use crate::folder::DirectoryError;

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

    /// Reads the file from the directory at `path`; `None` when absent or malformed.
    pub fn read(path: &Path) -> Result<Option<JobRecord>, DirectoryError> {
        let value = read_json(&path.join(JOB_RECORD))?;
        let record = |value: serde_json::Value| {
            Some(JobRecord {
                launcher: identity_in(&value)?,
                name: value.get("name")?.as_str()?.to_owned(),
                size: u32::try_from(value.get("size")?.as_u64()?).ok()?,
                program: value.get("program")?.as_str()?.to_owned(),
            })
        };
        Ok(value.and_then(record))
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
        let value = read_json(path).ok()??;
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
    pub(crate) fn read(path: &Path) -> Result<Vec<LostRank>, DirectoryError> {
        let of_line = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            let rank = u32::try_from(value.get("rank")?.as_u64()?).ok()?;
            let has_failed = value.get("failed")?.as_bool()?;
            Some(LostRank { rank, has_failed, how: value.get("how")?.as_str()?.to_owned() })
        };
        let text = read_small(path, 1 << 20)?.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        Ok(text.lines().filter_map(of_line).collect())
    }
}

/// Reads a file of at most `bytes_max` bytes. None if there is none, or it is of another kind.
pub(crate) fn read_small(file: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, DirectoryError> {
    let read = || {
        let meta = fs::symlink_metadata(file)?;
        (meta.is_file() && meta.len() <= bytes_max).then(|| fs::read(file)).transpose()
    };
    match read() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map_err(|error| DirectoryError::io("read", file, error)),
    }
}

fn read_json(path: &Path) -> Result<Option<serde_json::Value>, DirectoryError> {
    Ok(read_small(path, 1 << 20)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

fn identity_in(value: &serde_json::Value) -> Option<Identity> {
    Some(Identity { pid: u32::try_from(value.get("pid")?.as_u64()?).ok()?, start: value.get("start")?.as_u64()? })
}

/// Returns the form of an identity in files, one line: `pid start`.
pub(crate) fn line_of(who: Identity) -> String {
    format!("{} {}\n", who.pid, who.start)
}

/// Reads [`line_of`]; `None` for anything else.
pub(crate) fn identity_of(line: &str) -> Option<Identity> {
    let mut words = line.split_ascii_whitespace();
    let pid = words.next()?.parse().ok()?;
    let start = words.next()?.parse().ok()?;
    words.next().is_none().then_some(Identity { pid, start })
}

pub(crate) fn claimant_of(file: &Path) -> Result<Option<Identity>, DirectoryError> {
    let line = read_small(file, 64)?.and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(line.and_then(|line| identity_of(&line)))
}

pub(crate) fn claimants_in(path: &Path) -> Result<Vec<(u16, Identity)>, DirectoryError> {
    let names = match fs::read_dir(path) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(DirectoryError::io("list", path, error)),
    };
    let mut claimants = Vec::new();
    for entry in names.filter_map(io::Result::ok) {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_suffix(".claim")?.parse().ok());
        let Some(pid) = pid else { continue };
        if let Some(who) = claimant_of(&entry.path())? {
            claimants.push((pid, who));
        }
    }
    claimants.sort_unstable_by_key(|&(pid, _)| pid);
    Ok(claimants)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_form_round_trips_and_rejects_the_rest() {
        let own = Identity::own();
        assert_eq!(identity_of(&line_of(own)), Some(own));
        for bad in ["", "1", "1 2 3", "x 2", "1 -2", "99999999999 1"] {
            assert_eq!(identity_of(bad), None, "{bad:?}");
        }
    }
}
