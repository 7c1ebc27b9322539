// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Retries of accesses that a target has refused. The unit reports no reason, so their keys are looked up again.
//!
//! | the directory has | the access |
//! |---|---|
//! | the same translation | fails: the memory is not mapped, or not for this access |
//! | another one: the program has registered the key again | is retried |
//! | one that does not grant it | fails |
//! | none, or there is no directory | is retried as packets, whose answer says why it fails |
//!
//! Reads and writes can be retried, because repeating a part that was done does no harm.
//!
//! For an endpoint whose accesses keep their order:
//! * No other access or notification of a write leaves for a peer until an access that the peer has refused has ended.
//! * Accesses that left before the refusal was known are retried in order, reads and writes each in their own order.
//! * An access to several regions is retried as a whole when one of them was registered again. It may overwrite what a
//!   later access has written to the other regions.

use super::Units;
use super::one_sided::NotPosted;
use crate::accesses::Accesses;
use crate::error::Fault;
use crate::flags::{REMOTE_READ, REMOTE_WRITE};
use crate::in_flight::InFlight;
use crate::transfer::OverUnits;

/// Largest number of retries of an access.
const REPETITIONS_MAX: u8 = 3;

impl Units {
    /// Keeps a refused access whose commands have all ended, until its keys are known again.
    pub fn keep_for_retry(&mut self, flight: &mut InFlight, number: usize) {
        let InFlight { operations, peers, .. } = flight;
        let Some(pending) = operations.access(number) else { return };
        let Some(over_units) = &pending.over_units else { return };
        pending.left = 1;
        let Some(id) = peers.get(pending.peer).map(|peer| peer.id) else { return };
        self.one_sided.keep_for_retry(id, over_units.remote.iter().map(|range| range.key), number);
    }

    /// Retries an access, or fails it. Returns the outcome of its launch. `None`: unknown keys, or no room.
    pub fn retry(
        &mut self,
        flight: &mut InFlight,
        accesses: &mut Accesses,
        number: usize,
    ) -> Option<Result<(), Fault>> {
        let pending = flight.operations.access(number)?;
        let (peer, bindings) = (pending.peer, pending.ticket.bindings);
        // SAFETY: an endpoint outlives its operations.
        let keeps_order = unsafe { (*bindings).orders.accesses };
        // An earlier access may have become packets.
        if keeps_order && flight.peers.get(peer).is_some_and(|peer| peer.in_flight != 0) {
            return None;
        }
        let mut over_units = pending.over_units.take()?;
        let outcome = self.repeat(flight, accesses, (number, peer, keeps_order), &mut over_units);
        if let Some(pending) = flight.operations.access(number) {
            pending.over_units = Some(over_units).filter(|over_units| !over_units.runs.is_empty());
        }
        outcome
    }

    fn repeat(
        &mut self,
        flight: &mut InFlight,
        accesses: &mut Accesses,
        (number, peer, keeps_order): (usize, u32, bool),
        over_units: &mut OverUnits,
    ) -> Option<Result<(), Fault>> {
        let Some(id) = flight.peers.get(peer).map(|peer| peer.id) else { return Some(Err(Fault::Invalid)) };
        let write = over_units.write;
        let right = if write { REMOTE_WRITE } else { REMOTE_READ };
        let found = self.one_sided.runs(id, right, &over_units.pieces, &over_units.remote);
        let again = found.and_then(|runs| {
            if runs == over_units.runs || over_units.repetitions >= REPETITIONS_MAX {
                return Err(NotPosted::NotMapped);
            }
            self.one_sided.ready(id, write, &runs).map(|ready| (runs, ready))
        });
        match again {
            Ok((runs, ready)) => {
                (over_units.runs, over_units.is_refused) = (runs, false);
                over_units.repetitions += 1;
                Some(self.one_sided.post_ready(flight, (number, id), write, ready))
            }
            Err(NotPosted::Later) => None,
            Err(NotPosted::NotPermitted) => Some(Err(Fault::NotPermitted)),
            Err(NotPosted::NotMapped) => Some(Err(Fault::NotMapped)),
            Err(NotPosted::Invalid) => Some(Err(Fault::Invalid)),
            // An earlier access may be under way again.
            Err(NotPosted::Packets) if keeps_order && !self.one_sided.has_ended_to(id) => None,
            Err(NotPosted::Packets) => {
                let operation = (number, peer);
                let outcome =
                    accesses.launch_transfer(flight, operation, write, &over_units.pieces, &over_units.remote);
                let has_left = flight.operations.access(number).is_some_and(|pending| pending.left > 1);
                if outcome == Err(Fault::NoRoom) && !has_left {
                    return None;
                }
                // No further answer over the units belongs to it.
                over_units.runs.clear();
                Some(outcome)
            }
        }
    }
}
