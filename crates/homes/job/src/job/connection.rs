// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The connection to a launcher of any kind, and the requests that a job makes of it.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use super::errors::JobError;
use super::pmi1::{self, Pmi1, Uninitialised};
use super::pmix::{self, Pmix};
use crate::directory::JobDirectory;

/// Numbers exchanges, so that no key is used twice. Never reset, because a launcher's key space outlives `finalize`.
static EXCHANGES: AtomicU64 = AtomicU64::new(0);

pub(super) enum Connection {
    /// Nothing has been sent.
    Uninitialised(Uninitialised),
    Pmi1(Pmi1),
    Pmix(Box<Pmix>),
    Solo,
    Left,
}

/// The way to end the job without waiting for the thread that holds the connection.
pub(super) enum AbortPath {
    Pmi1(RawFd),
    Pmix(pmix::Library),
    Solo,
}

impl Connection {
    /// Sends the first messages, unless they were sent.
    pub(super) fn initialise(&mut self) -> Result<(), JobError> {
        if let Connection::Uninitialised(uninitialised) = self {
            *self = Connection::Pmi1(uninitialised.start()?);
        }
        Ok(())
    }

    pub(super) fn barrier(&mut self) -> Result<(), JobError> {
        match self {
            Connection::Pmi1(pmi) => pmi.barrier(),
            Connection::Pmix(pmix) => pmix.fence(false),
            Connection::Solo => Ok(()),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
    }

    /// Gathers the bytes of every rank at every rank. This rank is `own` of `size`. `tables`: the job's directory, where
    /// its launcher may write the table of an exchange.
    pub(super) fn exchange(
        &mut self,
        (own, size): (u32, u32),
        mine: &[u8],
        tables: Option<&JobDirectory>,
    ) -> Result<Vec<Vec<u8>>, JobError> {
        let nth = EXCHANGES.fetch_add(1, Ordering::Relaxed);
        match self {
            Connection::Pmi1(pmi) => {
                let table = tables.map(|directory| pmi.exchange(mine, directory)).transpose()?.flatten();
                if let Some(mut table) = table {
                    let mut of = |rank| table.get_mut(rank as usize)?.take();
                    return collect(own, size, mine, |rank| of(rank).ok_or(JobError::PeerLost { rank }));
                }
                pmi.put(&format!("{nth}-{own}"), mine)?;
                pmi.barrier()?;
                // The key is missing after a barrier if the rank was dead when the barrier completed without it.
                let of = |rank| pmi.get(&format!("{nth}-{rank}"))?.ok_or(JobError::PeerLost { rank });
                collect(own, size, mine, of)
            }
            Connection::Pmix(pmix) => {
                pmix.put(&nth.to_string(), mine)?;
                pmix.fence(true)?;
                collect(own, size, mine, |rank| pmix.get(&nth.to_string(), rank)?.ok_or(JobError::PeerLost { rank }))
            }
            Connection::Solo => Ok(vec![mine.to_vec()]),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
    }

    pub(super) fn publish(&mut self, name: &str, bytes: &[u8]) -> Result<(), JobError> {
        match self {
            Connection::Pmi1(pmi) => pmi.put(name, bytes),
            Connection::Pmix(pmix) => pmix.put(name, bytes),
            Connection::Solo => Ok(()),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
    }

    /// Returns the bytes that a rank has published under a name; None if this rank can see none.
    pub(super) fn look_up(&mut self, name: &str, rank: u32) -> Result<Option<Vec<u8>>, JobError> {
        match self {
            Connection::Pmi1(pmi) => pmi.get(name),
            Connection::Pmix(pmix) => pmix.get(name, rank),
            Connection::Solo => Ok(None),
            Connection::Uninitialised(_) | Connection::Left => Err(JobError::Finalized),
        }
    }

    /// Sends the launcher this rank's finalize message. None if the job was left before.
    pub(super) fn leave(&mut self) -> Option<Result<(), JobError>> {
        Some(match std::mem::replace(self, Connection::Left) {
            Connection::Pmi1(pmi) => pmi.finalize(),
            Connection::Pmix(pmix) => pmix.finalize(),
            Connection::Uninitialised(_) | Connection::Solo => Ok(()),
            Connection::Left => return None,
        })
    }
}

impl AbortPath {
    /// Asks the launcher to end the job, which has failed.
    pub(super) fn abort(&self, code: i32, why: &str) {
        match self {
            AbortPath::Pmi1(fd) => pmi1::send_abort(*fd, code),
            AbortPath::Pmix(library) => library.abort(code, why),
            AbortPath::Solo => {}
        }
    }

    /// Asks the launcher to end the job, which has finished.
    pub(super) fn end(&self, code: i32) {
        match self {
            AbortPath::Pmi1(fd) => pmi1::send_end(*fd, code),
            AbortPath::Pmix(library) => library.abort(code, "the program has ended the job"),
            AbortPath::Solo => {}
        }
    }
}

/// Collects the contribution of each rank to an exchange, by rank.
fn collect(
    own: u32,
    size: u32,
    mine: &[u8],
    mut of: impl FnMut(u32) -> Result<Vec<u8>, JobError>,
) -> Result<Vec<Vec<u8>>, JobError> {
    (0..size).map(|rank| if rank == own { Ok(mine.to_vec()) } else { of(rank) }).collect()
}
