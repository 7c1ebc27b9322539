// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One look at all jobs of this user below one parent directory.
//!
//! Invariants: 1. only directories and files that are this user's alone are entered or read; no directory's lock is taken,
//! so looking never keeps a job from being swept. 2. What vanishes between being listed and being read was not there.
//! 3. A file that is no sound segment is reported, and the others are shown all the same.
//!
//! Cost: a directory listing for each job, a look (`selvedge_shm::inspect`) and a `/proc` file for each NIC.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use selvedge_job::JobRecord;
use selvedge_nic::Register;
use selvedge_shm::inspect::{Inspection, State, inspect};
use selvedge_shm::os::mapping::MapError;
use selvedge_shm::segment::SegmentError;

/// What there was at one time.
pub struct Look {
    pub when: Instant,
    /// By name.
    pub jobs: Vec<Job>,
}

pub struct Job {
    pub name: String,
    /// What its launcher wrote; None without one of ours.
    pub record: Option<JobRecord>,
    pub launcher_alive: bool,
    /// By file: Portals process id, interface.
    pub nics: Vec<Nic>,
    /// What could not be read, and why.
    pub refused: Vec<Refused>,
}

pub struct Nic {
    pub seen: Inspection,
    pub owner_alive: bool,
}

pub struct Refused {
    pub file: String,
    pub why: String,
}

impl Nic {
    /// One word for how it is.
    pub fn state(&self) -> &'static str {
        match self.seen.state {
            State::Ready if self.owner_alive => "ready",
            // Nobody has noticed yet: no launcher of ours, and nobody has sent to it.
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

/// This user's directory below a parent.
pub fn user_directory(parent: &Path) -> PathBuf {
    parent.join(format!("selvedge-{}", rustix::process::geteuid().as_raw()))
}

impl Look {
    /// Looks at the job named, or at all.
    pub fn new(parent: &Path, only: Option<&str>) -> Look {
        let when = Instant::now();
        let user = user_directory(parent);
        let mut jobs: Vec<Job> = Vec::new();
        if is_ours_alone(&user) {
            for (name, path) in listed(&user) {
                // A name with a dot in front is a directory on its way out.
                let wanted = !name.starts_with('.') && only.is_none_or(|only| only == name);
                if wanted && is_ours_alone(&path) {
                    jobs.push(Job::new(name, &path));
                }
            }
        }
        jobs.sort_by(|a, b| a.name.cmp(&b.name));
        Look { when, jobs }
    }

    pub fn nic_count(&self) -> usize {
        self.jobs.iter().map(|job| job.nics.len()).sum()
    }
}

impl Job {
    fn new(name: String, path: &Path) -> Job {
        let record = JobRecord::read(path);
        let launcher_alive = record.as_ref().is_some_and(|record| record.launcher.is_alive());
        let mut job = Job { name, record, launcher_alive, nics: Vec::new(), refused: Vec::new() };
        for (file, path) in listed(path).into_iter().filter(|(file, _)| file.ends_with(".nic")) {
            match inspect(&path) {
                Ok(seen) if file == format!("{}.{}.nic", seen.pid, seen.ni) => {
                    let owner_alive = seen.owner.is_alive();
                    job.nics.push(Nic { seen, owner_alive });
                }
                Ok(seen) => {
                    let why = format!("it says that it is NIC {} of process {}", seen.ni, seen.pid);
                    job.refused.push(Refused { file, why });
                }
                Err(SegmentError::Map(MapError::Io { source, .. })) if source.kind() == ErrorKind::NotFound => {}
                Err(error) => job.refused.push(Refused { why: without_path(&error.to_string(), &path), file }),
            }
        }
        job.nics.sort_by_key(|nic| (nic.seen.pid, nic.seen.ni));
        job.refused.sort_by(|a, b| a.file.cmp(&b.file));
        job
    }
}

/// The file is named beside the message.
fn without_path(message: &str, path: &Path) -> String {
    message.strip_prefix(&format!("{}: ", path.display())).unwrap_or(message).to_owned()
}

fn listed(path: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path()))).collect()
}

fn is_ours_alone(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|status| {
        status.is_dir()
            && status.uid() == rustix::process::geteuid().as_raw()
            && status.permissions().mode() & 0o077 == 0
    })
}

/// A NIC in the life of one process: the key under which two looks are compared.
type Key<'a> = (&'a str, u32, u32, u32, u64);

fn key<'a>(job: &'a Job, nic: &Nic) -> Key<'a> {
    (&job.name, nic.seen.pid, nic.seen.ni, nic.seen.owner.pid, nic.seen.owner.start)
}

/// How fast registers grew between two looks.
pub struct Rates<'a> {
    earlier: BTreeMap<Key<'a>, &'a Inspection>,
    seconds: f64,
}

impl<'a> Rates<'a> {
    /// Without an earlier look nothing is known.
    pub fn between(earlier: Option<&'a Look>, later: &Look) -> Rates<'a> {
        let Some(earlier) = earlier else { return Rates { earlier: BTreeMap::new(), seconds: 1.0 } };
        let seconds = later.when.saturating_duration_since(earlier.when).as_secs_f64().max(1e-3);
        let nics = earlier.jobs.iter().flat_map(|job| job.nics.iter().map(|nic| (key(job, nic), &nic.seen)));
        Rates { earlier: nics.collect(), seconds }
    }

    /// Counts of a register in a second; None if the NIC was not there before, or if somebody set the register back.
    pub fn per_second(&self, job: &Job, nic: &Nic, register: Register) -> Option<f64> {
        let before = self.earlier.get(&key(job, nic))?.register(register);
        let grown = nic.seen.register(register).wrapping_sub(before);
        // More than half of the range is a step back.
        (grown < 1 << 63).then(|| grown as f64 / self.seconds)
    }
}
