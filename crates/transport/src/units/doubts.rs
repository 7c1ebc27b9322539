// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Accesses that a target has refused. The unit says that it has, and not why. So their keys are looked up again.
//!
//! | the directory has | the access |
//! |---|---|
//! | the same translation | fails: the memory is not mapped, or not for this access |
//! | another one: the program has registered the key again | is done again |
//! | one that does not grant it | fails |
//! | none, or there is no directory | is done again by packets, whose answer says why it fails |
//!
//! Reads and writes can be done again, because a part of one that was done before does no harm.

use std::ffi::c_int;

use super::one_sided::Refused;
use crate::flags::{EAGAIN, EFAULT, REMOTE_READ, REMOTE_WRITE};
use crate::operation::Operation;
use crate::transfer::OverUnits;
use crate::transport::Transport;

/// How often an access is done again.
const REPETITIONS_MAX: u8 = 3;

impl Transport {
    /// Keeps an access, all of whose commands have ended, until it is known why one was refused.
    pub(crate) fn doubt(&mut self, number: usize) {
        let Transport { units: Some(units), operations, peers, .. } = self else { return };
        let Some(Operation::Remote(pending)) = operations.get_mut(number) else { return };
        let Some(over_units) = &pending.over_units else { return };
        pending.left = 1;
        let id = peers.get(pending.peer).map_or(0, |peer| peer.id);
        units.one_sided.doubt(id, over_units.remote.iter().map(|range| range.key), number);
    }

    /// Ends the doubts about accesses whose keys are known again.
    pub(super) fn settle_doubts(&mut self) {
        let doubts = self.units.as_mut().map(|units| units.one_sided.take_doubts()).unwrap_or_default();
        for number in doubts {
            match self.settle_doubt(number) {
                Some(error) => _ = self.end_launch(number, error),
                None => {
                    if let Some(units) = &mut self.units {
                        units.one_sided.doubt_on(number);
                    }
                }
            }
        }
    }

    /// The error of its launch, or 0. None: its keys are not known yet, or there is no room.
    fn settle_doubt(&mut self, number: usize) -> Option<c_int> {
        let pending = self.pending(number)?;
        let peer = pending.peer;
        let mut over_units = pending.over_units.take()?;
        let settled = self.settle(number, peer, &mut over_units);
        if let Some(pending) = self.pending(number) {
            pending.over_units = Some(over_units).filter(|over_units| !over_units.runs.is_empty());
        }
        settled
    }

    fn settle(&mut self, number: usize, peer: u32, over_units: &mut OverUnits) -> Option<c_int> {
        let id = self.peers.get(peer).map_or(0, |peer| peer.id);
        let write = over_units.write;
        let right = if write { REMOTE_WRITE } else { REMOTE_READ };
        let one_sided = &mut self.units.as_mut()?.one_sided;
        let found = one_sided.runs(id, right, &over_units.pieces, &over_units.remote);
        let again = found.and_then(|runs| {
            if runs == over_units.runs || over_units.repetitions >= REPETITIONS_MAX {
                return Err(Refused::Error(EFAULT));
            }
            self.ready(id, write, &runs).map(|ready| (runs, ready))
        });
        match again {
            Ok((runs, ready)) => {
                (over_units.runs, over_units.is_refused) = (runs, false);
                over_units.repetitions += 1;
                Some(self.post_ready(number, id, write, ready))
            }
            Err(Refused::Later) => None,
            Err(Refused::Error(error)) => Some(error),
            Err(Refused::Packets) => {
                let error = self.launch_transfer(number, peer, write, &over_units.pieces, &over_units.remote);
                let has_left = self.pending(number).is_some_and(|pending| pending.left > 1);
                if error == EAGAIN && !has_left {
                    return None;
                }
                // No answer over the units belongs to it any more.
                over_units.runs.clear();
                Some(error)
            }
        }
    }
}
