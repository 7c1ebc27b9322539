// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Clearing away what the dead left.
//!
//! Invariants
//! 1. A directory is removed only while its lock is held exclusively, so never under a process that has it open, and
//!    never while another sweep is at it.
//! 2. It is stale when its launcher is dead; without a launcher's record, when every claimant is dead.
//! 3. A directory first gets a name that is no job's, then loses its files: nobody finds half of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::FlockOperation;

use crate::claim::claimants_in;
use crate::directory::{
    DirectoryError, JobDirectory, JobRecord, Tombstone, check, flock, is_locked_path, open_directory, user_directory,
};
use crate::identity::Identity;
use crate::service;

/// Names of directories that are being removed start so.
const GONE: &str = ".gone-";

/// Removes this user's stale job directories below `parent`. Returns the names of the jobs that were removed.
///
/// What cannot be looked at or removed is left, with a word in the log: somebody else's trouble must not keep a new
/// job from starting.
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
        match sweep_one(&path, name.starts_with(GONE)) {
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
        // A file system without locks: identities alone decide.
        Ok(()) | Err(_) => {}
    }
    if !half_removed && !is_stale(path) {
        return Ok(false);
    }
    remove_directory(path)?;
    Ok(true)
}

fn is_stale(path: &Path) -> bool {
    match JobRecord::read(path) {
        Some(record) => !record.launcher.is_alive(),
        None => claimants_in(path).iter().all(|(_, who)| !who.is_alive()),
    }
}

/// Removes a directory and all in it. The caller holds its lock exclusively, or owns the job.
pub(crate) fn remove_directory(path: &Path) -> Result<(), DirectoryError> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let nth = COUNT.fetch_add(1, Ordering::Relaxed);
    let gone = path.with_file_name(format!("{GONE}{}-{nth}", std::process::id()));
    fs::rename(path, &gone).map_err(|error| DirectoryError::io("remove", path, error))?;
    fs::remove_dir_all(&gone).map_err(|error| DirectoryError::io("remove", &gone, error))
}

/// Empties a directory that the caller alone has open, unless a claim in it, or its launcher, is still alive.
pub(crate) fn clear_what_the_dead_left(path: &Path) {
    let launcher_lives = JobRecord::read(path).is_some_and(|record| record.launcher.is_alive());
    if launcher_lives || claimants_in(path).iter().any(|(_, who)| who.is_alive()) {
        return;
    }
    for file in files_in(path) {
        if let Err(error) = fs::remove_file(&file) {
            log::info!("left in place: {}: {error}", file.display());
        }
    }
}

/// Removes the memory of processes that are gone from a directory that others still use.
///
/// NIC segments and claims stay: whoever takes over the id replaces them, and peers learn from them that the process
/// is dead.
pub(crate) fn remove_memory_of_the_dead(directory: &JobDirectory) {
    for file in files_in(directory.path()) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.ends_with(".arena") && !name.ends_with(".spill") {
            continue;
        }
        let owner = name.split('.').next().and_then(|pid| pid.parse().ok());
        if owner.is_some_and(|pid| Identity::of(pid).is_none()) {
            let _ = fs::remove_file(&file);
        }
    }
}

/// Removes what processes that are gone have left in a directory that others still use: their claims, their service
/// numbers, and the files of the ids that they had. For directories where nobody asks who had an id before.
pub fn clear_dead_ids(directory: &JobDirectory) {
    let Ok(_turn) = directory.take_turn() else { return };
    let dead: Vec<String> =
        directory.claimants().iter().filter(|(_, who)| !who.is_alive()).map(|(pid, _)| format!("{pid}.")).collect();
    for file in files_in(directory.path()) {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // `<id>.<ni>.making.<os pid>`: its maker was about to give it its name.
        let maker = name.rsplit_once(".making.").and_then(|(_, pid)| pid.parse().ok());
        let unmade = maker.is_some_and(|pid| Identity::of(pid).is_none());
        if unmade || service::is_of_the_dead(&file) || dead.iter().any(|id| name.starts_with(id.as_str())) {
            let _ = fs::remove_file(&file);
        }
    }
}

/// Writes a tombstone for every dead claimant that has none: processes that a rank started, and that died with or
/// without it. The rank given is the one they are put down to.
pub fn bury_dead_claimants(directory: &JobDirectory, rank: u32) {
    for (_, who) in directory.claimants() {
        if !who.is_alive() && directory.tombstone_of(who).is_none() {
            let stone = Tombstone { who, rank, how: "is gone".to_owned() };
            if let Err(error) = stone.write(directory) {
                log::warn!("{error}");
            }
        }
    }
}

fn files_in(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().filter_map(io::Result::ok).map(|entry| entry.path()).collect()
}

#[cfg(test)]
#[path = "sweep_tests.rs"]
mod tests;
