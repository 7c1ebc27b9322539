// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes with a time limit, and the files that jobs leave.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(2);

/// Waits until the process ends. `None`: it did not end within the limit, and is killed.
///
/// # Errors
/// The system cannot wait for the process.
pub fn wait_within(process: &mut Child, limit: Duration) -> Result<Option<ExitStatus>, String> {
    let began = Instant::now();
    loop {
        match process.try_wait().map_err(|error| error.to_string())? {
            Some(status) => return Ok(Some(status)),
            None if began.elapsed() > limit => {
                let _ = process.kill();
                let _ = process.wait();
                return Ok(None);
            }
            None => thread::sleep(POLL),
        }
    }
}

/// Lists files and folders of jobs below the folder of `SELVEDGE_DIR`. The user's own folder in it may stay.
pub fn files_below(parent: &Path) -> Vec<PathBuf> {
    let entries = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())).collect()
    };
    entries(parent).iter().flat_map(|user| if user.is_dir() { entries(user) } else { vec![user.clone()] }).collect()
}
