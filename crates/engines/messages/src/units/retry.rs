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
//!
//! Where an endpoint's accesses keep their order:
//! * No other access or notification of a write leaves for a peer while one that the peer has refused has not ended.
//! * Those that have left before it is known are done again in their order, each kind behind the other.
//! * An access to several regions, of which one was registered again, is done again as a whole. It may overwrite what a later one has
//!   written to the other regions.

use std::collections::BTreeSet;
use std::ffi::c_int;

use super::one_sided::Refused;
use crate::flags::{EAGAIN, EFAULT, EINVAL, REMOTE_READ, REMOTE_WRITE};
use crate::operation::Operation;
use crate::ticket::Ticket;
use crate::transfer::OverUnits;
use crate::transport::Transport;

/// How often an access is done again.
const REPETITIONS_MAX: u8 = 3;

impl Transport {
    /// A peer has refused a command of an access.
    pub(super) fn access_refused(&mut self, number: usize) {
        let Transport { operations, peers, .. } = self;
        let Some(Operation::Remote(pending)) = operations.get_mut(number) else { return };
        let Some(over_units) = &mut pending.over_units else { return };
        over_units.is_refused = true;
        if !std::mem::replace(&mut pending.was_refused, true) {
            if let Some(peer) = peers.get_mut(pending.peer) {
                peer.refused += 1;
            }
        }
    }

    /// Whether a peer has refused accesses that have not ended, and the endpoint's accesses keep their order.
    pub(crate) fn has_refused(&self, number: u32, ticket: &Ticket) -> bool {
        let any = self.peers.get(number).is_some_and(|peer| peer.refused != 0);
        // SAFETY: a ticket names an open endpoint: operations and notifications leave with theirs.
        any && unsafe { (*ticket.bindings).orders.accesses }
    }

    /// All commands of an access have ended, of which one was refused, now or before it was done again.
    #[cold]
    pub(crate) fn refused_ended(&mut self, number: usize) {
        let Some(pending) = self.pending(number) else { return };
        if pending.is_in_doubt() {
            return self.doubt(number);
        }
        (pending.left, pending.was_refused) = (1, false);
        let peer = pending.peer;
        if let Some(peer) = self.peers.get_mut(peer) {
            peer.refused -= 1;
        }
        self.one_less(number);
    }

    /// Counts the accesses that peers have refused again, after an endpoint was closed.
    pub(crate) fn count_refused(&mut self) {
        self.peers.iter_mut().for_each(|peer| peer.refused = 0);
        for (_, operation) in &self.operations {
            let Operation::Remote(pending) = operation else { continue };
            if let Some(peer) = self.peers.get_mut(pending.peer).filter(|_| pending.was_refused) {
                peer.refused += 1;
            }
        }
    }

    /// Keeps an access, all of whose commands have ended, until it is known why one was refused.
    fn doubt(&mut self, number: usize) {
        let Transport { units: Some(units), operations, peers, .. } = self else { return };
        let Some(Operation::Remote(pending)) = operations.get_mut(number) else { return };
        let Some(over_units) = &pending.over_units else { return };
        pending.left = 1;
        let Some(id) = peers.get(pending.peer).map(|peer| peer.id) else { return };
        units.one_sided.doubt(id, over_units.remote.iter().map(|range| range.key), number);
    }

    /// Ends the doubts about accesses whose keys are known again.
    pub(super) fn settle_doubts(&mut self) {
        let doubts = self.units.as_mut().map(|units| units.one_sided.take_doubts()).unwrap_or_default();
        // Behind the first of a peer that stays in doubt, the others wait.
        let mut waiting: BTreeSet<u32> = BTreeSet::new();
        for number in doubts {
            let Some(peer) = self.pending(number).map(|pending| pending.peer) else { continue };
            let settled = if waiting.contains(&peer) { None } else { self.settle_doubt(number) };
            match settled {
                Some(error) => _ = self.end_launch(number, error),
                None => {
                    waiting.insert(peer);
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
        let (peer, bindings) = (pending.peer, pending.ticket.bindings);
        // SAFETY: an endpoint outlives its operations.
        let keeps_order = unsafe { (*bindings).orders.accesses };
        // One before it may have become packets.
        if keeps_order && self.peers.get(peer).is_some_and(|peer| peer.in_flight != 0) {
            return None;
        }
        let mut over_units = self.pending(number)?.over_units.take()?;
        let settled = self.settle(number, (peer, keeps_order), &mut over_units);
        if let Some(pending) = self.pending(number) {
            pending.over_units = Some(over_units).filter(|over_units| !over_units.runs.is_empty());
        }
        settled
    }

    fn settle(&mut self, number: usize, (peer, keeps_order): (u32, bool), over_units: &mut OverUnits) -> Option<c_int> {
        let Some(id) = self.peers.get(peer).map(|peer| peer.id) else { return Some(EINVAL) };
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
            // One before it may be under way again.
            Err(Refused::Packets)
                if keeps_order && self.units.as_ref().is_some_and(|units| !units.one_sided.has_ended_to(id)) =>
            {
                None
            }
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
