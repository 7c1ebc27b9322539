// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The directory in which the processes of one user find each other without a launcher, and the ids that transports
//! take there.

use std::collections::BTreeSet;
use std::sync::Mutex;

use selvedge_job::{Claim, ClaimError, DirectoryError, JobDirectory, PORTALS_PID_MAX};
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

/// Finds the directory and claims an id. In virtual time the directory belongs to one job. There the ids of a rank's
/// transports follow from the rank: no rank looks at the ids of others, and every run is the same.
pub fn join() -> Result<Rendezvous, JoinError> {
    if selvedge_host::simulated::is_simulated() {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u16>().ok());
        let place = (std::env::var("SELVEDGE_JOB"), number("SELVEDGE_RANK"), number("SELVEDGE_SIZE"));
        if let (Ok(job), Some(rank), Some(size)) = place {
            let directory = JobDirectory::open(&job)?;
            let claim = claim(&directory, (rank..selvedge_host::config::ID_LIMIT as u16).step_by(size.max(1).into()))?;
            return Ok(Rendezvous { directory, claim });
        }
    }
    let directory = JobDirectory::create(DIRECTORY)?;
    selvedge_job::clear_dead_ids(&directory);
    let first = (std::process::id() % u32::from(PORTALS_PID_MAX)) as u16;
    let claim = claim(&directory, (first..=PORTALS_PID_MAX).chain(0..first))?;
    Ok(Rendezvous { directory, claim })
}

/// Claims the first of these ids that no transport of this process has. The directory cannot tell two claims of one
/// process apart, so `TAKEN` does.
fn claim(directory: &JobDirectory, ids: impl Iterator<Item = u16>) -> Result<Claim, ClaimError> {
    let mut taken = TAKEN.lock().ignore_poison();
    for pid in ids {
        if taken.contains(&pid) {
            continue;
        }
        match directory.claim_for_transport(pid) {
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
