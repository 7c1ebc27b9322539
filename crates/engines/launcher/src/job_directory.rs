// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The job directory that the launcher makes, after a sweep, with the record of the job.

use std::path::PathBuf;

use selvedge_job::{Identity, JobDirectory, JobRecord, sweep_stale};

use crate::error::LauncherError;
use crate::options::JobOptions;

/// Makes the job's directory. Returns its parent, and the directory.
///
/// `name`: the name from the job's launcher, if any.
pub(crate) fn make(options: &JobOptions, name: Option<String>) -> Result<(PathBuf, JobDirectory), LauncherError> {
    let parent = selvedge_job::usable_folder().map_err(LauncherError::Directory)?;
    for name in sweep_stale(&parent) {
        log::info!("removed the files of job {name}, whose launcher is dead");
    }
    let launcher = Identity::own();
    // The name is readable, and unique until the machine restarts.
    let name = name.unwrap_or_else(|| format!("run-{}-{}", launcher.pid, launcher.start));
    let directory = JobDirectory::create_in(&parent, &name).map_err(LauncherError::Directory)?;
    let program = options.program().to_string_lossy().into_owned();
    let record = JobRecord { launcher, name, size: options.ranks, program };
    directory.write_record(&record).map_err(LauncherError::Record)?;
    Ok((parent, directory))
}
