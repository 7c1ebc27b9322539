// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of dead ranks in this user's directory.
//!
//! A rank that ends normally releases its claim and removes its files. A killed rank cannot, and its MPI's launcher
//! does not know our files, so they are removed here.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use selvedge_job::{Identity, JobDirectory, sweep_stale};

/// Jobs and their processes that existed before our job began.
pub struct Leftovers {
    parent: PathBuf,
    before: Vec<String>,
    processes: Vec<Identity>,
}

/// A process that died in a job and left its files.
pub struct DeadProcess {
    pub job: String,
    /// Its number in the job.
    pub number: u16,
    pub os_pid: u32,
}

/// Time for ranks killed by their launcher to end.
const END_WAIT: Duration = Duration::from_secs(1);
const CHECK_EVERY: Duration = Duration::from_millis(5);

impl Leftovers {
    /// Records the existing jobs, after a sweep, so that files of an earlier job are not taken for ours.
    pub fn before(parent: &Path) -> Leftovers {
        sweep_stale(parent);
        Leftovers { parent: parent.to_owned(), before: jobs(parent), processes: claimants(parent) }
    }

    /// Waits for killed ranks to end. A launcher may end before its ranks, whose files are removed after their end.
    pub fn wait_for_killed_ranks(&self) {
        let began = Instant::now();
        let is_orphan = |who: &Identity| who.parent() == Some(1);
        let ours = |who: &Identity| !self.processes.contains(who) && is_orphan(who);
        while began.elapsed() < END_WAIT && claimants(&self.parent).iter().any(ours) {
            thread::sleep(CHECK_EVERY);
        }
    }

    /// Processes of later jobs that have died without removing their files.
    pub fn dead(&self) -> Vec<DeadProcess> {
        let mut dead = Vec::new();
        for job in jobs(&self.parent).into_iter().filter(|name| !self.before.contains(name)) {
            let Ok(directory) = JobDirectory::open_in(&self.parent, &job) else { continue };
            let claimants = directory.claimants().unwrap_or_default().into_iter().filter(|(_, who)| !who.is_alive());
            dead.extend(claimants.map(|(number, who)| DeadProcess { job: job.clone(), number, os_pid: who.pid }));
        }
        dead
    }

    /// Removes the files of dead processes. Returns the jobs that had such files.
    pub fn sweep(&self) -> Vec<String> {
        sweep_stale(&self.parent)
    }
}

/// Processes in this user's jobs.
fn claimants(parent: &Path) -> Vec<Identity> {
    let directories = jobs(parent).into_iter().filter_map(|name| JobDirectory::open_in(parent, &name).ok());
    directories.flat_map(|directory| directory.claimants().unwrap_or_default()).map(|(_, who)| who).collect()
}

/// Names of this user's job directories.
fn jobs(parent: &Path) -> Vec<String> {
    let user = parent.join(format!("selvedge-{}", rustix::process::geteuid().as_raw()));
    let names = fs::read_dir(user).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| !name.starts_with('.')).collect()
}
