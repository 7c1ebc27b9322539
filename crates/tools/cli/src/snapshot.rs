// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A snapshot of all jobs of this user below one parent directory.
//!
//! Invariants: 1. only directories and files that only this user can access are read. No directory is locked, so a
//! snapshot never keeps a job from being swept. 2. A file that vanishes between listing and reading is ignored.
//! 3. A malformed segment is reported, and the others are still shown.
//!
//! Cost: a directory listing for each job; an inspection (`selvedge_host::inspect`) and a `/proc` file for each NIC.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use selvedge_host::inspect::{Inspection, State, inspect, inspect_of};
use selvedge_host::segment::SegmentError;
use selvedge_job::JobRecord;
use selvedge_nic::Register;
use selvedge_os::mapping::MapError;

/// The jobs at one time.
pub struct Snapshot {
    pub when: Instant,
    /// By name.
    pub jobs: Vec<JobSnapshot>,
}

pub struct JobSnapshot {
    pub name: String,
    /// The launcher's record; `None` without a launcher of ours.
    pub record: Option<JobRecord>,
    pub launcher_alive: bool,
    /// Ordered by Portals process id and interface.
    pub nics: Vec<NicSnapshot>,
    /// Files that could not be read, and the reasons.
    pub refused: Vec<Refused>,
}

pub struct NicSnapshot {
    pub seen: Inspection,
    pub owner_alive: bool,
}

pub struct Refused {
    pub file: String,
    pub why: String,
}

impl NicSnapshot {
    /// The state in one word.
    pub fn state(&self) -> &'static str {
        match self.seen.state {
            State::Ready if self.owner_alive => "ready",
            // No process has marked the segment yet: there is no launcher of ours, and no process has sent to it.
            State::Ready => "gone",
            State::Closed => "closed",
            State::Dead => "dead",
            State::Unknown(_) => "corrupt",
        }
    }

    pub fn mode(&self) -> &'static str {
        if self.seen.host_mode { "host" } else { "nic" }
    }

    pub fn is_matching(&self) -> bool {
        self.seen.ni & 1 == 0
    }

    pub fn is_logical(&self) -> bool {
        self.seen.ni & 2 == 0
    }
}

/// Text from another process, without control characters.
pub fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { '?' } else { character }).collect()
}

/// This user's directory below a parent.
pub fn user_directory(parent: &Path) -> PathBuf {
    parent.join(format!("selvedge-{}", rustix::process::geteuid().as_raw()))
}

impl Snapshot {
    /// Reads the job `only`, or all jobs.
    pub fn new(parent: &Path, only: Option<&str>) -> Snapshot {
        let when = Instant::now();
        let user = user_directory(parent);
        let mut jobs: Vec<JobSnapshot> = Vec::new();
        if is_private(&user) {
            for (name, path) in listed(&user) {
                // A directory whose name begins with a dot is being removed.
                let wanted = !name.starts_with('.') && only.is_none_or(|only| only == name);
                if wanted && is_private(&path) {
                    jobs.push(JobSnapshot::new(name, &path));
                }
            }
        }
        jobs.sort_by(|a, b| a.name.cmp(&b.name));
        Snapshot { when, jobs }
    }

    pub fn nic_count(&self) -> usize {
        self.jobs.iter().map(|job| job.nics.len()).sum()
    }
}

impl JobSnapshot {
    /// A NIC of a process that is known to live, by the file of its segment, of this or another user.
    pub fn of_nic(path: &Path, user: u32) -> Result<JobSnapshot, SegmentError> {
        let seen = inspect_of(path, user)?;
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let nics = vec![NicSnapshot { seen, owner_alive: true }];
        let (name, refused) = (folder.to_string_lossy().into_owned(), Vec::new());
        Ok(JobSnapshot { name, record: None, launcher_alive: false, nics, refused })
    }

    fn new(name: String, path: &Path) -> JobSnapshot {
        let (record, refused) = match JobRecord::read(path) {
            Ok(record) => (record, Vec::new()),
            Err(error) => (None, vec![Refused { file: "job".into(), why: error.to_string() }]),
        };
        let launcher_alive = record.as_ref().is_some_and(|record| record.launcher.is_alive());
        let mut job = JobSnapshot { name, record, launcher_alive, nics: Vec::new(), refused };
        for (file, path) in listed(path).into_iter().filter(|(file, _)| file.ends_with(".nic")) {
            match inspect(&path) {
                Ok(seen) if file == format!("{}.{}.nic", seen.pid, seen.ni) => {
                    let owner_alive = seen.owner.is_alive();
                    job.nics.push(NicSnapshot { seen, owner_alive });
                }
                Ok(seen) => {
                    let why = format!("its header names NIC {} of process {}", seen.ni, seen.pid);
                    job.refused.push(Refused { file, why });
                }
                Err(SegmentError::Map(MapError::Io { error, .. })) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => job.refused.push(Refused { why: without_path(&error.to_string(), &path), file }),
            }
        }
        job.nics.sort_by_key(|nic| (nic.seen.pid, nic.seen.ni));
        job.refused.sort_by(|a, b| a.file.cmp(&b.file));
        job
    }
}

/// The message without the path, because the file is printed before it.
fn without_path(message: &str, path: &Path) -> String {
    message.strip_prefix(&format!("{}: ", path.display())).unwrap_or(message).to_owned()
}

fn listed(path: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

fn is_private(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|status| {
        status.is_dir()
            && status.uid() == rustix::process::geteuid().as_raw()
            && status.permissions().mode() & 0o077 == 0
    })
}

/// Identifies a NIC of one process across two snapshots.
type Key<'a> = (&'a str, u32, u32, u32, u64);

fn key<'a>(job: &'a JobSnapshot, nic: &NicSnapshot) -> Key<'a> {
    (&job.name, nic.seen.pid, nic.seen.ni, nic.seen.owner.pid, nic.seen.owner.start)
}

/// Growth rates of registers between two snapshots.
pub struct Rates<'a> {
    earlier: BTreeMap<Key<'a>, &'a Inspection>,
    seconds: f64,
}

impl<'a> Rates<'a> {
    /// Rates between two snapshots; unknown without an earlier one.
    pub fn between(earlier: Option<&'a Snapshot>, later: &Snapshot) -> Rates<'a> {
        let Some(earlier) = earlier else { return Rates { earlier: BTreeMap::new(), seconds: 1.0 } };
        let seconds = later.when.saturating_duration_since(earlier.when).as_secs_f64().max(1e-3);
        let nics = earlier.jobs.iter().flat_map(|job| job.nics.iter().map(|nic| (key(job, nic), &nic.seen)));
        Rates { earlier: nics.collect(), seconds }
    }

    /// Growth of a register per second; `None` if the NIC is new or the register was reset.
    pub fn per_second(&self, job: &JobSnapshot, nic: &NicSnapshot, register: Register) -> Option<f64> {
        let before = self.earlier.get(&key(job, nic))?.register(register);
        let grown = nic.seen.register(register).wrapping_sub(before);
        // A growth of more than half of the range means that the register was reset.
        (grown < 1 << 63).then(|| grown as f64 / self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(printable("a\x1b[2Jb\r\nc\u{9b}"), "a?[2Jb??c?");
    }
}
