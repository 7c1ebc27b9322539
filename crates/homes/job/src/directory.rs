// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory of a job, and the names of its files.
//!
//! `<parent>/selvedge-<uid>/<job>/`, where the parent is `SELVEDGE_DIR`, else `/dev/shm`, else `TMPDIR`, else `/tmp`.
//!
//! | name | content | made by |
//! |---|---|---|
//! | `job` | [`JobRecord`], one line of JSON | the launcher |
//! | `host` | nothing; there with several hosts, so that no two of them take the same directory | the agent of the host |
//! | `<pid>.claim` | the process that has a Portals process id ([`crate::Claim`]) | the claimant |
//! | `<pid>.<ni>.nic` | a NIC's segment | the claimant |
//! | `<pid>.<ni>.rings` | the rings into a NIC | the claimant |
//! | `<ospid>.arena`, `<ospid>.<k>.spill` | a process's shared memory | that process |
//! | `<ospid>.links` | the counters of a process's links | that process |
//! | `gdb`, `windows` | commands for gdb; a socket for the windows of ranks that run under it | the launcher |
//! | `exchange-<number>` | what each rank gives to an exchange ([`mod@crate::exchange_table`]) | the launcher |
//! | `lost` | [`LostRank`]s of all hosts | the launcher, when a rank ends early and the job goes on |
//! | `<ospid>.dead` | [`Tombstone`] | the launcher, when the process ends early |
//!
//! Invariants
//! 1. Every process that has a job directory open holds a shared `flock` on it, which the kernel drops when the last
//!    holder dies. A process that clears or removes a directory holds the lock exclusively.
//! 2. Files appear with their whole content or not at all (written under a temporary name, then linked or renamed).

use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use rustix::fs::{FlockOperation, Mode, OFlags};

use crate::folder::{
    DirectoryError, check, files_in, flock, is_locked_path, jobs_folder, lock_shared, make, remove_directory,
    user_directory,
};
use crate::names::is_job_name;
use crate::records::{JOB_RECORD, JobRecord, LOST_RANKS, LostRank, Tombstone, claimant_of, claimants_in};
use selvedge_os::process::Identity;

/// An open job directory. No process sweeps it while it is open.
#[derive(Debug)]
pub struct JobDirectory {
    name: String,
    path: PathBuf,
    lock: OwnedFd,
}

impl JobDirectory {
    /// Opens the directory of an existing job, below [`jobs_folder`].
    pub fn open(name: &str) -> Result<JobDirectory, DirectoryError> {
        JobDirectory::open_in(&jobs_folder(), name)
    }

    /// Opens the directory of an existing job, below the parent given.
    pub fn open_in(parent: &Path, name: &str) -> Result<JobDirectory, DirectoryError> {
        let (user, path) = paths(parent, name)?;
        loop {
            check(&user)?;
            check(&path)?;
            if let Some(lock) = lock_shared(&path, &mut |_| ())? {
                return Ok(JobDirectory { name: name.to_owned(), path, lock });
            }
        }
    }

    pub(crate) fn exists_in(parent: &Path, name: &str) -> bool {
        user_directory(parent).join(name).is_dir()
    }

    /// Opens a job's directory below [`jobs_folder`], and makes it if it does not exist. Clears the files of dead
    /// processes from a directory that no process uses.
    pub fn create(name: &str) -> Result<JobDirectory, DirectoryError> {
        JobDirectory::create_in(&jobs_folder(), name)
    }

    /// As [`JobDirectory::create`], below the parent given.
    pub fn create_in(parent: &Path, name: &str) -> Result<JobDirectory, DirectoryError> {
        let (user, path) = paths(parent, name)?;
        loop {
            make(&user)?;
            check(&user)?;
            make(&path)?;
            match check(&path) {
                // Another process has swept the directory in between.
                Err(DirectoryError::Missing { .. }) => continue,
                other => other?,
            }
            match lock_shared(&path, &mut clear_if_unused) {
                Ok(Some(lock)) => return Ok(JobDirectory { name: name.to_owned(), path, lock }),
                Ok(None) | Err(DirectoryError::Missing { .. }) => continue,
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the job's name, which is the directory's.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the directory's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a NIC's segment: Portals process id, interface number.
    pub fn nic(&self, pid: u16, ni: u8) -> PathBuf {
        self.path.join(format!("{pid}.{ni}.nic"))
    }

    /// Returns the path of the shared memory of an operating system process.
    pub fn arena(&self, os_pid: u32) -> PathBuf {
        self.path.join(format!("{os_pid}.arena"))
    }

    /// Returns the path of the [`Tombstone`] of an operating system process.
    pub fn tombstone(&self, os_pid: u32) -> PathBuf {
        self.path.join(format!("{os_pid}.dead"))
    }

    /// Returns the path of additional shared memory of an operating system process, by number.
    pub fn spill(&self, os_pid: u32, k: u32) -> PathBuf {
        self.path.join(format!("{os_pid}.{k}.spill"))
    }

    /// Returns the path of the job's share of aggregation nodes.
    pub fn grant(&self) -> PathBuf {
        self.path.join("grant")
    }

    /// Returns the path of the claim of a Portals process id.
    pub fn claim_file(&self, pid: u16) -> PathBuf {
        self.path.join(format!("{pid}.claim"))
    }

    /// Makes a file of the job with this content, or replaces it, in one step. Mode 0600.
    pub fn replace(&self, path: &Path, content: &[u8]) -> Result<(), DirectoryError> {
        let temporary = self.write_temporary(content)?;
        fs::rename(&temporary, path).map_err(|error| {
            let _ = fs::remove_file(&temporary);
            DirectoryError::io("put in place", path, error)
        })
    }

    /// Makes a file of the job with this content in one step. `Ok(false)`: the name is taken. Mode 0600.
    pub(crate) fn make_new(&self, path: &Path, content: &[u8]) -> Result<bool, DirectoryError> {
        let temporary = self.write_temporary(content)?;
        let linked = fs::hard_link(&temporary, path);
        let _ = fs::remove_file(&temporary);
        match linked {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(DirectoryError::io("make", path, error)),
        }
    }

    fn write_temporary(&self, content: &[u8]) -> Result<PathBuf, DirectoryError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!(".new-{}-{nth}", std::process::id()));
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, content));
        written.map_err(|error| DirectoryError::io("write", &path, error))?;
        Ok(path)
    }

    /// Removes the directory and its content, even while other processes use it. For the launcher, when its job has
    /// ended.
    pub fn remove(self) -> Result<(), DirectoryError> {
        remove_directory(&self.path)
    }

    /// Releases this process's lock on the directory, and removes the directory if no other process has it open and no living process
    /// has a claim in it. Of processes that leave at the same time, the last one removes it.
    ///
    /// `is_ending`: this process gives up the claims that it still has. True when removed.
    pub fn leave(&self, is_ending: bool) -> bool {
        let own = Identity::own();
        // Remove its claims before the lock is released. Then the process that gets the exclusive lock finds no claim
        // of a process that is ending.
        let claims = if is_ending { self.claimants().unwrap_or_default() } else { Vec::new() };
        for (pid, _) in claims.into_iter().filter(|(_, who)| *who == own) {
            let _ = fs::remove_file(self.claim_file(pid));
        }
        // Unlock first, then try the exclusive lock. With one combined step, two processes that leave together would
        // each see the other's lock, and neither would remove the directory.
        let _ = flock(&self.lock, FlockOperation::NonBlockingUnlock);
        if flock(&self.lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return false;
        }
        // If the claims cannot be read, the next job removes the directory.
        let needed = self.claimants().map_or(true, |claims| claims.iter().any(|(_, who)| who.is_alive()));
        let removed = !needed && is_locked_path(&self.lock, &self.path) && remove_directory(&self.path).is_ok();
        let _ = flock(&self.lock, FlockOperation::NonBlockingUnlock);
        removed
    }

    /// Locks the claims and services of the directory, among all processes, until the result is dropped.
    pub(crate) fn lock_claims(&self) -> Result<rustix::fd::OwnedFd, DirectoryError> {
        let path = self.path().join(".claims");
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
            .map_err(|error| DirectoryError::io("open", &path, error))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| DirectoryError::io("lock", &path, error))?;
        Ok(file)
    }

    /// Returns every claim in the directory, dead or alive, in order of Portals process id.
    pub fn claimants(&self) -> Result<Vec<(u16, Identity)>, DirectoryError> {
        claimants_in(&self.path)
    }

    /// Returns the launcher's record of the job; `None` under another launcher.
    pub fn record(&self) -> Result<Option<JobRecord>, DirectoryError> {
        JobRecord::read(&self.path)
    }

    /// Writes the launcher's record of the job.
    pub fn write_record(&self, record: &JobRecord) -> Result<(), DirectoryError> {
        self.replace(&self.path.join(JOB_RECORD), record.to_line().as_bytes())
    }

    /// Returns the process that has claimed a Portals process id.
    pub fn claimant(&self, pid: u16) -> Result<Option<Identity>, DirectoryError> {
        claimant_of(&self.claim_file(pid))
    }

    /// Returns the ranks that ended early, on any host, as the launcher has recorded them.
    pub fn lost_ranks(&self) -> Result<Vec<LostRank>, DirectoryError> {
        LostRank::read(&self.path.join(LOST_RANKS))
    }

    /// Records the ranks that ended early.
    pub fn write_lost_ranks(&self, lost: &[LostRank]) -> Result<(), DirectoryError> {
        self.replace(&self.path.join(LOST_RANKS), LostRank::to_lines(lost).as_bytes())
    }

    /// Returns the launcher's tombstone of this process; `None` without one.
    pub fn tombstone_of(&self, who: Identity) -> Option<Tombstone> {
        Tombstone::read(&self.tombstone(who.pid)).filter(|stone| stone.who == who)
    }

    /// Writes a tombstone.
    pub fn write_tombstone(&self, stone: &Tombstone) -> Result<(), DirectoryError> {
        self.replace(&self.tombstone(stone.who.pid), stone.to_line().as_bytes())
    }
}

fn paths(parent: &Path, name: &str) -> Result<(PathBuf, PathBuf), DirectoryError> {
    if !is_job_name(name) {
        return Err(DirectoryError::BadName { name: name.to_owned() });
    }
    let user = user_directory(parent);
    let path = user.join(name);
    Ok((user, path))
}

/// Empties a directory that only the caller has open, unless its launcher or a claimant is alive.
fn clear_if_unused(path: &Path) {
    // What cannot be read may name a living process.
    if !is_unused(path).unwrap_or(false) {
        return;
    }
    for file in files_in(path) {
        if let Err(error) = fs::remove_file(&file) {
            log::info!("cannot remove {}: {error}", file.display());
        }
    }
}

fn is_unused(path: &Path) -> Result<bool, DirectoryError> {
    let launcher_lives = JobRecord::read(path)?.is_some_and(|record| record.launcher.is_alive());
    Ok(!launcher_lives && !claimants_in(path)?.iter().any(|(_, who)| who.is_alive()))
}

#[cfg(test)]
#[path = "directory_tests.rs"]
mod tests;
