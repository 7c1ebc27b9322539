// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of packets: a process's ring at a NIC, and the owner's turn.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use selvedge_nic::ring::Producer;
use selvedge_os::shortage::Shortage;
use selvedge_os::sync::IgnorePoison;

use crate::errors::PostError;
use crate::rings::{ClaimError, Ring, Rings};

/// The names of a sender, and the folder of its files.
pub struct Sender<'a> {
    /// Its word for locks and claims.
    pub word: u64,
    /// Its Portals process id: the number of its rings.
    pub pid: usize,
    pub os_pid: u32,
    pub directory: &'a Path,
    /// Numbers its spill files.
    pub spills: &'a AtomicU64,
}

/// A NIC's rings, mapped at the first packet, and this process's ring there.
#[derive(Default)]
pub struct Queue {
    rings: OnceLock<Option<Rings>>,
    claimed: Mutex<Option<Claimed>>,
}

struct Claimed {
    producer: Producer,
    pid: usize,
    word: u64,
}

impl Queue {
    /// Returns the rings, and maps them by `open` at first. None if they do not exist.
    pub fn rings(&self, open: impl FnOnce() -> Result<Option<Rings>, Shortage>) -> Result<Option<&Rings>, Shortage> {
        if let Some(known) = self.rings.get() {
            return Ok(known.as_ref());
        }
        let opened = open()?;
        Ok(self.rings.get_or_init(|| opened).as_ref())
    }

    /// Returns the rings, if they are mapped.
    pub fn mapped(&self) -> Option<&Rings> {
        self.rings.get().and_then(Option::as_ref)
    }

    /// Runs `run` on this process's ring among `rings`.
    pub fn with<R>(
        &self,
        rings: &Rings,
        sender: &Sender<'_>,
        run: impl FnOnce(&Ring, &mut Producer) -> R,
    ) -> Result<R, PostError> {
        if rings.is_closed() {
            return Err(PostError::Gone);
        }
        let mut claimed = self.claimed.lock().ignore_poison();
        if claimed.is_none() {
            let (pid, word) = (sender.pid, sender.word);
            let producer = rings.claim_packets(pid, word).map_err(|error| match error {
                ClaimError::Taken => PostError::Full,
                ClaimError::Gone => PostError::Gone,
                ClaimError::Shortage(shortage) => {
                    shortage.report();
                    PostError::Shortage
                }
            })?;
            *claimed = Some(Claimed { producer, pid, word });
        }
        // The owner closes a ring with malformed data.
        let ring = rings.packet_ring(sender.pid).ok_or(PostError::Gone)?;
        let claimed = claimed.as_mut().ok_or(PostError::Gone)?;
        Ok(run(ring, &mut claimed.producer))
    }

    /// Gives up this process's ring. The next process of its id uses it.
    pub fn give_up(&self) {
        let claimed = self.claimed.lock().ignore_poison().take();
        if let (Some(claimed), Some(Some(rings))) = (claimed, self.rings.get()) {
            rings.give_up_packets(claimed.pid, claimed.word);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The ring that the owner dequeues from, and the number of packets before another ring's turn.
#[derive(Default)]
pub struct Turn {
    pub pid: usize,
    pub left: u32,
}
