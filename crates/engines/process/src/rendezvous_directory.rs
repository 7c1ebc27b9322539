// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory in which the processes of one user find each other without a launcher, and the ids that transports
//! take there.

use std::collections::BTreeSet;
use std::sync::Mutex;

use selvedge_job::{Claim, ClaimError, DirectoryError, JobDirectory};
use selvedge_os::sync::IgnorePoison;

const DIRECTORY: &str = "fi";

static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A directory, and an id in it.
pub struct Rendezvous {
    pub directory: JobDirectory,
    pub claim: Claim,
}

/// Reasons for which no id could be claimed.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

/// Finds the directory and claims an id. In virtual time the directory belongs to one job, and the id follows from the
/// rank, so that every run is the same.
pub fn join() -> Result<Rendezvous, JoinError> {
    if selvedge_host::simulated::is_simulated() {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u16>().ok());
        if let (Ok(job), Some(rank)) = (std::env::var("SELVEDGE_JOB"), number("SELVEDGE_RANK")) {
            let directory = JobDirectory::open(&job)?;
            let claim = claim(&directory, rank % selvedge_job::PORTALS_PID_MAX)?;
            return Ok(Rendezvous { directory, claim });
        }
    }
    let directory = JobDirectory::create(DIRECTORY)?;
    selvedge_job::clear_dead_ids(&directory);
    let claim = claim(&directory, (std::process::id() % u32::from(selvedge_job::PORTALS_PID_MAX)) as u16)?;
    Ok(Rendezvous { directory, claim })
}

/// Claims an id that no transport of this process has. The directory cannot tell two claims of one process apart, so
/// `TAKEN` does.
fn claim(directory: &JobDirectory, preferred: u16) -> Result<Claim, ClaimError> {
    let ids = selvedge_job::PORTALS_PID_MAX + 1;
    let mut taken = TAKEN.lock().ignore_poison();
    for step in 0..ids {
        let pid = (preferred + step) % ids;
        if taken.contains(&pid) {
            continue;
        }
        match directory.claim(Some(pid), pid) {
            Ok(claim) => {
                taken.insert(pid);
                return Ok(claim);
            }
            Err(ClaimError::InUse { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(ClaimError::Exhausted)
}

/// Lets another transport of this process take an id.
pub fn release(pid: u16) {
    TAKEN.lock().ignore_poison().remove(&pid);
}
