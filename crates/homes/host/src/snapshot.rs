// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A snapshot of all jobs of this user below one parent directory: their NICs, and the counters of the links of their
//! processes. `selvedge top` and `selvedge registers` show it.
//!
//! Invariants: 1. only directories and files that their user alone can access are read. No directory is locked, so a
//! snapshot never keeps a job from being swept. 2. A file that vanishes between listing and reading is ignored.
//! 3. A malformed file is reported, and the others are still shown.
//!
//! Cost: a directory listing for each job; an inspection ([`crate::inspect`]) and a `/proc` file for each NIC; a file
//! of 128 bytes and 640 for each link for each process.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use selvedge_job::JobRecord;
use selvedge_nic::Register;
use selvedge_os::mapping::MapError;

use crate::inspect::{Inspection, State, inspect_of};
use crate::links::Way;
use crate::links::read::{LinkCounters, PageError, ProcessLinks, inspect_page};
use crate::segment::SegmentError;

/// The jobs at one time.
pub struct Snapshot {
    pub when: Instant,
    /// By name.
    pub jobs: Vec<JobSnapshot>,
}

pub struct JobSnapshot {
    pub name: String,
    /// The user whose job it is.
    pub uid: u32,
    /// The launcher's record; `None` without a launcher of ours.
    pub record: Option<JobRecord>,
    pub launcher_alive: bool,
    /// Ordered by Portals process id and interface.
    pub nics: Vec<NicSnapshot>,
    /// The processes that count their links, by rank and process id.
    pub processes: Vec<ProcessSnapshot>,
    /// Files that could not be read, and the reasons.
    pub refused: Vec<Refused>,
}

/// A process, and its links.
pub struct ProcessSnapshot {
    pub seen: ProcessLinks,
    pub is_alive: bool,
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
    parent.join(format!("selvedge-{}", own_uid()))
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

impl Snapshot {
    /// Reads the job `only` of this user, or all of its jobs.
    pub fn new(parent: &Path, only: Option<&str>) -> Snapshot {
        let (when, uid, user) = (Instant::now(), own_uid(), user_directory(parent));
        let mut jobs: Vec<JobSnapshot> = Vec::new();
        let names = if is_private(&user, uid) { listed(&user) } else { Vec::new() };
        for (name, path) in names {
            // A directory whose name begins with a dot is being removed.
            let wanted = !name.starts_with('.') && only.is_none_or(|only| only == name);
            if wanted && is_private(&path, uid) {
                jobs.push(JobSnapshot::new(name, &path, uid));
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
    pub fn of_nic(path: &Path, uid: u32) -> Result<JobSnapshot, SegmentError> {
        let seen = inspect_of(path, uid)?;
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        Ok(JobSnapshot {
            name: folder.to_string_lossy().into_owned(),
            uid,
            record: None,
            launcher_alive: false,
            nics: vec![NicSnapshot { seen, owner_alive: true }],
            processes: Vec::new(),
            refused: Vec::new(),
        })
    }

    fn new(name: String, path: &Path, uid: u32) -> JobSnapshot {
        let (record, refused) = match JobRecord::read(path) {
            Ok(record) => (record, Vec::new()),
            Err(error) => (None, vec![Refused { file: "job".into(), why: error.to_string() }]),
        };
        let launcher_alive = record.as_ref().is_some_and(|record| record.launcher.is_alive());
        let (nics, processes) = (Vec::new(), Vec::new());
        let mut job = JobSnapshot { name, uid, record, launcher_alive, nics, processes, refused };
        for (file, path) in listed(path) {
            if file.ends_with(".links") {
                job.read_links(file, &path);
                continue;
            }
            if !file.ends_with(".nic") {
                continue;
            }
            match inspect_of(&path, uid) {
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
        job.processes.sort_by_key(|process| (process.seen.rank, process.seen.owner.pid));
        job.refused.sort_by(|a, b| a.file.cmp(&b.file));
        job
    }

    fn read_links(&mut self, file: String, path: &Path) {
        match inspect_page(path, self.uid) {
            Ok(seen) if file == format!("{}.links", seen.owner.pid) => {
                let is_alive = seen.owner.is_alive();
                self.processes.push(ProcessSnapshot { seen, is_alive });
            }
            Ok(seen) => {
                let why = format!("its header names process {}", seen.owner.pid);
                self.refused.push(Refused { file, why });
            }
            Err(PageError::File(MapError::Io { error, .. })) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => self.refused.push(Refused { why: without_path(&error.to_string(), path), file }),
        }
    }

    /// Returns the rank at the other end of a link, as far as it is known.
    pub fn peer_rank(&self, link: &LinkCounters) -> Option<u32> {
        let has_address = |process: &&ProcessSnapshot| {
            link.way == Some(Way::Network) && !link.address.is_empty() && process.seen.address == link.address
        };
        let by_address = || self.processes.iter().find(has_address).map(|process| process.seen.rank);
        let by_id = || self.processes.iter().find(|process| process.seen.id == link.peer);
        link.peer_rank.or_else(by_address).or_else(|| {
            let is_named = link.way == Some(Way::Memory) || link.address.is_empty();
            by_id().filter(|_| is_named).map(|process| process.seen.rank)
        })
    }

    /// Returns all links of all processes, with their numbers in their process.
    pub fn links(&self) -> impl Iterator<Item = (&ProcessSnapshot, usize, &LinkCounters)> {
        self.processes.iter().flat_map(numbered)
    }

    /// Returns the links that belong to a NIC, with their numbers in their process. Those between hosts, which all NICs
    /// of a process share, stand with the first NIC of the process.
    pub fn links_of(&self, nic: &NicSnapshot) -> impl Iterator<Item = (&ProcessSnapshot, usize, &LinkCounters)> {
        let owner = nic.seen.owner;
        let process = self.processes.iter().find(move |process| process.seen.owner == owner);
        let (ni, first) = (nic.seen.ni, self.first_ni(nic));
        process.into_iter().flat_map(numbered).filter(move |(_, _, link)| is_of(link, ni, first))
    }

    /// Returns the number of the first NIC of a NIC's process.
    fn first_ni(&self, nic: &NicSnapshot) -> u32 {
        let of_process = self.nics.iter().filter(|other| other.seen.owner == nic.seen.owner);
        of_process.map(|other| other.seen.ni).min().unwrap_or(nic.seen.ni)
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

fn numbered(process: &ProcessSnapshot) -> impl Iterator<Item = (&ProcessSnapshot, usize, &LinkCounters)> {
    process.seen.links.iter().enumerate().map(move |(index, link)| (process, index, link))
}

/// Whether a link belongs to NIC `ni` of a process whose first NIC is `first`. The record that peers share when no other
/// is left shows only if it counts something.
fn is_of(link: &LinkCounters, ni: u32, first: u32) -> bool {
    link.ni.unwrap_or(first) == ni && (link.way != Some(Way::Others) || link.is_used())
}

fn is_private(path: &Path, uid: u32) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|status| status.is_dir() && status.uid() == uid && status.permissions().mode() & 0o077 == 0)
}

/// Identifies a NIC of one process across two snapshots.
type Key<'a> = (&'a str, u32, u32, u32, u64);

fn key<'a>(job: &'a JobSnapshot, nic: &NicSnapshot) -> Key<'a> {
    (&job.name, nic.seen.pid, nic.seen.ni, nic.seen.owner.pid, nic.seen.owner.start)
}

/// Growth rates of registers and of link counters between two snapshots.
pub struct Rates<'a> {
    earlier: BTreeMap<Key<'a>, &'a Inspection>,
    /// By job and process.
    links: BTreeMap<(&'a str, u32, u64), &'a [LinkCounters]>,
    seconds: f64,
}

impl<'a> Rates<'a> {
    /// Rates between two snapshots; unknown without an earlier one.
    pub fn between(earlier: Option<&'a Snapshot>, later: &Snapshot) -> Rates<'a> {
        let Some(earlier) = earlier else {
            return Rates { earlier: BTreeMap::new(), links: BTreeMap::new(), seconds: 1.0 };
        };
        let seconds = later.when.saturating_duration_since(earlier.when).as_secs_f64().max(1e-3);
        let nics = earlier.jobs.iter().flat_map(|job| job.nics.iter().map(|nic| (key(job, nic), &nic.seen)));
        let links_of = |job: &'a JobSnapshot, process: &'a ProcessSnapshot| {
            let owner = process.seen.owner;
            ((job.name.as_str(), owner.pid, owner.start), process.seen.links.as_slice())
        };
        let links = earlier.jobs.iter().flat_map(|job| job.processes.iter().map(move |one| links_of(job, one)));
        Rates { earlier: nics.collect(), links: links.collect(), seconds }
    }

    /// Growth per second of a value of the link number `index` of a process. `None` if the process is new, or the value
    /// has shrunk. A link that is new has grown from 0.
    pub fn of_link(
        &self,
        job: &JobSnapshot,
        process: &ProcessSnapshot,
        index: usize,
        value: impl Fn(&LinkCounters) -> u64,
    ) -> Option<f64> {
        let owner = process.seen.owner;
        let earlier = self.links.get(&(job.name.as_str(), owner.pid, owner.start))?;
        let before = earlier.get(index).map_or(0, &value);
        self.grown(before, value(process.seen.links.get(index)?))
    }

    /// Operations per second that the program of a NIC started through it, in the memory of its peers or by commands.
    pub fn operations(&self, job: &JobSnapshot, nic: &NicSnapshot) -> Option<f64> {
        let owner = nic.seen.owner;
        let earlier = self.links.get(&(job.name.as_str(), owner.pid, owner.start))?;
        let first = job.first_ni(nic);
        let before = earlier.iter().filter(|link| is_of(link, nic.seen.ni, first)).map(LinkCounters::operations);
        let now = job.links_of(nic).map(|(_, _, link)| link.operations());
        self.grown(before.fold(0, u64::wrapping_add), now.fold(0, u64::wrapping_add))
    }

    /// A growth of more than half of the range means that the value was reset.
    fn grown(&self, before: u64, now: u64) -> Option<f64> {
        let grown = now.wrapping_sub(before);
        (grown < 1 << 63).then(|| grown as f64 / self.seconds)
    }

    /// Growth of a register per second; `None` if the NIC is new or the register was reset.
    pub fn per_second(&self, job: &JobSnapshot, nic: &NicSnapshot, register: Register) -> Option<f64> {
        let before = self.earlier.get(&key(job, nic))?.register(register);
        self.grown(before, nic.seen.register(register))
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
