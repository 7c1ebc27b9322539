// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Removal of files that dead processes left.
//!
//! Invariants
//! 1. A directory is removed only while its lock is held exclusively, so never while a process has it open, and never
//!    by two sweeps at once.
//! 2. A directory is stale when its launcher is dead; without a launcher's record, when every claimant is dead.
//! 3. A directory first gets a name that no job has, then loses its files: no process finds half of it.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::FlockOperation;

use crate::directory::JobDirectory;
use crate::folder::{
    DirectoryError, REMOVED_PREFIX, check, files_in, flock, is_locked_path, open_directory, remove_directory,
    user_directory,
};
use crate::records::{JobRecord, Tombstone, claimants_in};
use crate::service;
use selvedge_os::process::Identity;

/// Removes this user's stale job directories below `parent`. Returns the names of the jobs that were removed.
///
/// A directory that cannot be checked or removed stays, and the log says so: such a directory must not keep a new job
/// from starting.
pub fn sweep_stale(parent: &Path) -> Vec<String> {
    let user = user_directory(parent);
    match check(&user) {
        Ok(()) => {}
        Err(DirectoryError::Missing { .. }) => return Vec::new(),
        Err(error) => {
            log::warn!("not swept: {error}");
            return Vec::new();
        }
    }
    let mut swept = Vec::new();
    for entry in fs::read_dir(&user).into_iter().flatten().filter_map(io::Result::ok) {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        match sweep_one(&path, name.starts_with(REMOVED_PREFIX)) {
            Ok(true) => swept.push(name),
            Ok(false) => {}
            Err(error) => log::info!("not swept: {error}"),
        }
    }
    swept.sort_unstable();
    swept
}

fn sweep_one(path: &Path, half_removed: bool) -> Result<bool, DirectoryError> {
    check(path)?;
    let fd = open_directory(path)?;
    match flock(&fd, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) if !is_locked_path(&fd, path) => return Ok(false),
        Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
        // The file system has no locks: only the identities in claims decide.
        Ok(()) | Err(_) => {}
    }
    if !half_removed && !is_stale(path)? {
        return Ok(false);
    }
    remove_directory(path)?;
    Ok(true)
}

fn is_stale(path: &Path) -> Result<bool, DirectoryError> {
    Ok(match JobRecord::read(path)? {
        Some(record) => !record.launcher.is_alive(),
        None => claimants_in(path)?.iter().all(|(_, who)| !who.is_alive()),
    })
}

/// Removes the shared memory of dead processes from a directory that other processes still use.
///
/// NIC segments and claims stay: the next claimant of the id replaces them, and peers find in them that the process
/// is dead.
pub(crate) fn remove_memory_of_dead_processes(directory: &JobDirectory) {
    for file in files_in(directory.path()) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // `<ospid>.links-making.<ospid>`: a page that its maker had not yet renamed to its final name.
        let is_unfinished = name.contains(".links-making.");
        if !is_unfinished && ![".arena", ".spill", ".links"].iter().any(|kind| name.ends_with(kind)) {
            continue;
        }
        let owner = name.split('.').next().and_then(|pid| pid.parse().ok());
        if owner.is_some_and(|pid| Identity::of(pid).is_none()) {
            let _ = fs::remove_file(&file);
        }
    }
}

/// Removes the claims, service numbers and other files of dead processes from a directory that other processes still use. Only for
/// directories in which no process looks up the former holder of an id.
pub fn clear_dead_ids(directory: &JobDirectory) {
    // Without a descriptor the claim that follows gives the error.
    let Ok(_lock) = directory.lock_claims() else { return };
    let Ok(claimants) = directory.claimants() else { return };
    let dead: Vec<String> =
        claimants.iter().filter(|(_, who)| !who.is_alive()).map(|(pid, _)| format!("{pid}.")).collect();
    for file in files_in(directory.path()) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // `<id>.<ni>.making.<os pid>`: a segment that its maker had not yet renamed to its final name.
        let maker = name.rsplit_once(".making.").and_then(|(_, pid)| pid.parse().ok());
        let is_unfinished = maker.is_some_and(|pid| Identity::of(pid).is_none());
        if is_unfinished || service::is_dead_binding(&file) || dead.iter().any(|id| name.starts_with(id.as_str())) {
            let _ = fs::remove_file(&file);
        }
    }
}

/// Writes a tombstone for every dead claimant that has none: processes that a rank started. `rank` is their rank in the
/// tombstones.
pub fn write_missing_tombstones(directory: &JobDirectory, rank: u32) -> Result<(), DirectoryError> {
    for (_, who) in directory.claimants()? {
        if !who.is_alive() && directory.tombstone_of(who).is_none() {
            let stone = Tombstone { who, rank, how: "is gone".to_owned() };
            directory.write_tombstone(&stone)?;
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
