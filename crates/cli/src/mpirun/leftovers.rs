// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What ranks that died have left in this user's directory, and who they were.
//!
//! A rank that ends in order gives its claim back and removes what it made. One that was killed cannot; its MPI's launcher
//! knows nothing of our files, so they are removed here.

use std::fs;
use std::path::{Path, PathBuf};

use selvedge_launch::{Identity, JobDirectory, sweep_stale};

/// The jobs that were there before ours began: none of them is ours.
pub struct Leftovers {
    parent: PathBuf,
    before: Vec<String>,
}

impl Leftovers {
    /// Sweeps first, so that what an earlier job left is not taken for ours.
    pub fn before(parent: &Path) -> Leftovers {
        sweep_stale(parent);
        Leftovers { parent: parent.to_owned(), before: jobs(parent) }
    }

    /// Reports the dead, if nobody else did, and removes what is theirs.
    pub fn sweep(&self, report: bool, verbose: bool) {
        for name in jobs(&self.parent).into_iter().filter(|name| !self.before.contains(name)) {
            let Ok(directory) = JobDirectory::open_in(&self.parent, &name) else { continue };
            let dead: Vec<(u16, Identity)> =
                directory.claimants().into_iter().filter(|(_, who)| !who.is_alive()).collect();
            for (number, who) in dead.iter().filter(|_| report) {
                super::say(&format!("process {} (number {number} of job {name}) died", who.pid));
            }
        }
        for name in sweep_stale(&self.parent) {
            if verbose {
                super::say(&format!("removed what was left of job {name}"));
            }
        }
    }
}

/// Names of this user's job directories.
fn jobs(parent: &Path) -> Vec<String> {
    let user = parent.join(format!("selvedge-{}", rustix::process::geteuid().as_raw()));
    let names = fs::read_dir(user).into_iter().flatten().flatten();
    names.map(|entry| entry.file_name().to_string_lossy().into_owned()).filter(|name| !name.starts_with('.')).collect()
}
