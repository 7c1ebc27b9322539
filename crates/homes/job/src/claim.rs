// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The exclusive right of a process to one Portals process id in a job.
//!
//! Portals 4.3, PtlNIInit: a process asks for a particular id or for any; two processes on a node never share one,
//! but the interfaces of one process do. The right is a file `<pid>.claim` that holds the claimant's [`Identity`].
//!
//! Invariants
//! 1. A claim file appears with its whole content, by `link`, so only one of several claimants makes it.
//! 2. The claim of a dead process, or a malformed one, may be taken over, by one process only: it is replaced under an exclusive lock on
//!    the file `.claims`, which the kernel releases when its holder dies.
//! 3. Id 0 goes only to a process that asks for it. A program may take 0 for "no process id": Open MPI's coll/portals4
//!    takes it for a logical interface.
//! 4. All claims of one process to one id in one directory are one claim, released when the last of them is dropped.
//!    A forked child inherits the values but not the right: dropping them there changes nothing.
//!
//! Cost: a few system calls, O(claims held) for "any" when the preferred id is taken.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use crate::directory::JobDirectory;
use crate::folder::DirectoryError;
use crate::records::{claimant_of, line_of};
use selvedge_os::process::Identity;
use selvedge_os::sync::IgnorePoison;

/// Largest Portals process id that can be claimed: `PTL_PID_MAX`.
pub const PORTALS_PID_MAX: u16 = 1024;

/// Returns the Portals process id that a rank takes if it is free. Ids count within a host, so up to 1,024 consecutive
/// ranks of one host have ids of their own.
pub fn id_of_rank(rank: u32) -> u16 {
    (rank % u32::from(PORTALS_PID_MAX)) as u16 + 1
}

/// Returns the ranks of a job of this size that take this id if it is free, the first ones first.
pub fn ranks_of_id(pid: u16, size: u32) -> impl Iterator<Item = u32> {
    let first = u32::from(pid).saturating_sub(1);
    (first..size).step_by(PORTALS_PID_MAX.into())
}

/// Reasons for which an id cannot be claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// A living process has claimed the id.
    #[error("process id {pid} is in use by process {}", .by.pid)]
    InUse {
        /// The Portals process id.
        pid: u16,
        /// The process that has claimed it.
        by: Identity,
    },
    /// The id is larger than the largest possible one.
    #[error("process id {pid} is larger than {PORTALS_PID_MAX}, the largest possible one")]
    OutOfRange {
        /// The Portals process id.
        pid: u16,
    },
    /// All ids above 0 are in use by living processes.
    #[error("all process ids of the job, 1 to {PORTALS_PID_MAX}, are in use")]
    Exhausted,
    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] DirectoryError),
}

/// A Portals process id that belongs to this process until the value is dropped.
#[derive(Clone, Debug)]
pub struct Claim {
    held: Arc<HeldClaim>,
}

#[derive(Debug)]
struct HeldClaim {
    pid: u16,
    file: PathBuf,
    owner: Identity,
}

impl Claim {
    /// Returns the Portals process id.
    pub fn pid(&self) -> u16 {
        self.held.pid
    }

    /// Gives up the claim (as dropping does). The id is free when the process has no other claim to it.
    pub fn release(self) {}
}

impl Drop for HeldClaim {
    fn drop(&mut self) {
        // In a forked child the claim is still the parent's.
        if std::process::id() == self.owner.pid && is_claim_of(&self.file, self.owner) {
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// The claims of this process, so that a second claim to the same id shares the first.
static HELD: Mutex<Vec<Weak<HeldClaim>>> = Mutex::new(Vec::new());

impl JobDirectory {
    /// Claims a Portals process id.
    ///
    /// `wanted` is the only acceptable one. `None`: an id that this process already has here, else `preferred`, else
    /// the lowest that is free, and never 0. Claiming an id that this process has succeeds again.
    pub fn claim(&self, wanted: Option<u16>, preferred: u16) -> Result<Claim, ClaimError> {
        if let Some(pid) = wanted.filter(|&pid| pid > PORTALS_PID_MAX) {
            return Err(ClaimError::OutOfRange { pid });
        }
        self.claim_in_range(wanted, preferred)
    }

    /// Claims an id for a transport, which no Portals program names: it may be larger than [`PORTALS_PID_MAX`].
    pub fn claim_for_transport(&self, pid: u16) -> Result<Claim, ClaimError> {
        self.claim_in_range(Some(pid), pid)
    }

    fn claim_in_range(&self, wanted: Option<u16>, preferred: u16) -> Result<Claim, ClaimError> {
        let mut held = lock_registry();
        let own = Identity::find_own().map_err(DirectoryError::Shortage)?;
        held.retain(|weak| weak.strong_count() > 0);
        let mine = |pid: Option<u16>| {
            held.iter().filter_map(Weak::upgrade).find(|claim| {
                claim.owner == own
                    && claim.file.parent() == Some(self.path())
                    && pid.map_or(claim.pid != 0, |pid| claim.pid == pid)
                    && is_claim_of(&claim.file, own)
            })
        };
        if let Some(held) = mine(wanted) {
            return Ok(Claim { held });
        }
        let _lock = self.lock_claims()?;
        let pid = match wanted {
            Some(pid) => self.claim_one(pid, own).map(|()| pid)?,
            None => self.claim_any(preferred, own)?,
        };
        let claim = Arc::new(HeldClaim { pid, file: self.claim_file(pid), owner: own });
        held.push(Arc::downgrade(&claim));
        Ok(Claim { held: claim })
    }

    fn claim_any(&self, preferred: u16, own: Identity) -> Result<u16, ClaimError> {
        let any = 1..=PORTALS_PID_MAX;
        let first = Some(preferred).filter(|pid| any.contains(pid));
        for pid in first.into_iter().chain(any) {
            match self.claim_one(pid, own) {
                Ok(()) => return Ok(pid),
                Err(ClaimError::InUse { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(ClaimError::Exhausted)
    }

    /// Claims an id. The caller holds the lock on claims.
    fn claim_one(&self, pid: u16, own: Identity) -> Result<(), ClaimError> {
        let file = self.claim_file(pid);
        let content = line_of(own);
        if let Some(by) = claimant_of(&file)? {
            // This process's identity without a registered claim: an earlier program made it, before `exec`.
            if by == own {
                return Ok(());
            }
            if by.is_alive() {
                return Err(ClaimError::InUse { pid, by });
            }
            log::info!("process id {pid} taken over from process {}, which is dead", by.pid);
        } else if self.make_new(&file, content.as_bytes())? {
            return Ok(());
        }
        // The claimant is dead, or the file is malformed.
        Ok(self.replace(&file, content.as_bytes())?)
    }
}

/// Whether a claim is this process's, as far as it can be read.
fn is_claim_of(file: &Path, own: Identity) -> bool {
    matches!(claimant_of(file), Ok(Some(who)) if who == own)
}

fn lock_registry() -> MutexGuard<'static, Vec<Weak<HeldClaim>>> {
    HELD.lock().ignore_poison()
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
