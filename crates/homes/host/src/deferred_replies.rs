// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to requests that a unit of a NIC has kept: lock requests of EXTOLL's RMA unit (seed 002, section 7.5.4).
//!
//! ```text
//! start ─> pending at the initiator, kept at the target ─ another request changes the lock ─> response packet ─> notification
//! ```
//!
//! Invariants
//! 1. A request that may be kept is pending at its initiator before it is delivered. So it fails as others do if the
//!    target dies.
//! 2. The process that has made an answer due sends it, like triggered operations. Its record says so until the packet
//!    is in the initiator's ring. If the process dies before, the next one that drains the NIC sends the answer again.
//! 3. An initiator takes one answer to a request. A second one finds no pending request.
//!
//! Cost of a lock request to a NIC that may keep it: two more locks of the own NIC. Of an answer: one packet.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use selvedge_nic::Asker;
use selvedge_nic::packet::{Packet, Place, RESPONSE};
use selvedge_nic::rma::LateAnswer;
use selvedge_nic::tables::{Command, LockWaiter, kind};

use crate::endpoint::Endpoint;
use crate::errors::PostError;
use crate::interface::Interface;
use crate::outbox::{Answered, Outgoing};
use crate::owner::wire_token;
use selvedge_os::process::Identity;

/// A check for dead processes examines one in this many kept requests, because it holds the lock and asks the kernel
/// for each.
const CHECK_ONE_IN: u64 = 8;

#[derive(Default)]
pub(crate) struct DeferredReplies {
    checks: AtomicU32,
}

impl DeferredReplies {
    /// Removes kept requests of processes that have died, so that their places are free. They would never succeed.
    pub(crate) fn forget_dead(&self, own: &Endpoint, word: u64) {
        if own.segment.limits().lock_waiters == 0 {
            return;
        }
        let share = u64::from(self.checks.fetch_add(1, Relaxed)) % CHECK_ONE_IN;
        let is_dead =
            |waiter: &LockWaiter| waiter.sequence % CHECK_ONE_IN == share && !Identity::word_is_alive(waiter.process);
        own.segment.lock(word).locks().forget_waiters(is_dead);
    }
}

/// Makes a request pending that its target may keep, and returns its token. None: it will not be kept, because the
/// target keeps none, or because too many requests are pending.
#[inline]
pub(crate) fn pend_lock(word: u64, from: &Endpoint, target: &Endpoint, command: &Command) -> Option<u64> {
    let may_be_kept = command.kind == kind::RMA_LOCK && from.own && target.segment.limits().lock_waiters != 0;
    if may_be_kept { from.segment.lock(word).pending_mut().add(command, target.owner()).ok() } else { None }
}

/// Returns the name of a pending request's initiator for the target's tables.
pub(crate) fn asker(from: &Endpoint, token: u64) -> Asker {
    Asker { origin: from.id, process: from.owner(), token: wire_token(token, from.owner()) }
}

/// Sends an answer of a NIC. Returns its completed record, or None while the packet waits for room.
pub(crate) fn send(interface: &Interface, nic: &Endpoint, answer: &LateAnswer) -> Option<Answered> {
    let LateAnswer { index, sequence, asker, delivery } = *answer;
    let answered = Answered { nic: nic.id, index, sequence };
    let packet = Packet {
        kind: RESPONSE,
        fail: delivery.fail,
        ack: 1,
        place: Place::Inline,
        origin: asker.origin,
        token: asker.token,
        remote_offset: delivery.remote_offset,
        ..Packet::default()
    };
    match interface.post(asker.origin, &packet, &mut Vec::new()) {
        Ok(()) | Err(PostError::Gone) => Some(answered),
        // The outbox tries once more, and ends the process if this lasts.
        Err(PostError::Full | PostError::Shortage) => {
            let (target, payload) = (asker.origin, Vec::new());
            interface.outbox.push(Outgoing { target, packet, payload, answered: Some(answered) });
            None
        }
    }
}

/// Records that the packet of an answer has left the outbox.
pub(crate) fn sent(interface: &Interface, answered: &Answered) {
    if let Some(nic) = interface.endpoint(answered.nic) {
        nic.segment.lock(interface.word).locks().finish_answer(answered.index, answered.sequence);
    }
}

#[cfg(test)]
mod tests;
