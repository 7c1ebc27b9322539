// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Answers to requests that a unit of a NIC has kept: lock requests of EXTOLL's RMA unit (seed 002, section 7.5.4).
//!
//! ```text
//! start ─> pending at the initiator, kept at the target ─ another request changes the lock ─> response packet ─> notification
//! ```
//!
//! Invariants
//! 1. A request that may be kept is pending at its initiator before it is delivered. So it fails as others do if the target dies.
//! 2. The process that has made an answer due sends it, as it executes triggered operations. Its record says so until the packet is in
//!    the initiator's ring. If the process dies before, the next one that drains the NIC sends the answer again.
//! 3. An initiator takes one answer to a request. A second one finds nothing that is pending.
//!
//! Cost of a lock request to a NIC that may keep it: two more locks of the own NIC. Of an answer: one packet.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::Asker;
use selvedge_nic::packet::{Packet, Place, RESPONSE};
use selvedge_nic::rma::LateAnswer;
use selvedge_nic::tables::{Command, LockWaiter, kind};

use crate::endpoint::Endpoint;
use crate::errors::PostError;
use crate::interface::Interface;
use crate::os::process::Identity;
use crate::owner::wire_token;
use crate::packet_queue::{Answered, Outgoing};

/// One check for dead processes looks at one in so many kept requests: it holds the lock, and asks the kernel for each.
const LOOK_AT: u64 = 8;

impl Interface {
    /// Makes a request pending that its target may keep, and gives its token. None: it will not be kept, because the target keeps none,
    /// or because too many requests are pending.
    #[inline]
    pub(crate) fn pend_lock(&self, from: &Endpoint, target: &Endpoint, command: &Command) -> Option<u64> {
        let may_be_kept = command.kind == kind::RMA_LOCK && from.own && target.segment.limits().lock_waiters != 0;
        if may_be_kept { from.segment.lock(self.word).pending_mut().add(command, target.owner()).ok() } else { None }
    }

    /// How the initiator of a pending request is named in the target's tables.
    pub(crate) fn asker(from: &Endpoint, token: u64) -> Asker {
        Asker { origin: from.id, process: from.owner(), token: wire_token(token, from.owner()) }
    }

    /// Sends an answer of a NIC. The result is the record that is done with, or None while the packet waits for room.
    pub(crate) fn answer_late(&self, nic: &Endpoint, answer: &LateAnswer) -> Option<Answered> {
        let LateAnswer { index, sequence, asker, delivery } = *answer;
        let answered = Answered { nic: nic.id, index, sequence };
        let Some(origin) = self.way_to(asker.origin) else { return Some(answered) };
        let packet = Packet {
            kind: RESPONSE,
            fail: delivery.fail,
            operation: 0,
            datatype: 0,
            ack: 1,
            place: Place::Inline,
            portal: 0,
            uid: 0,
            initiator: 0,
            origin: asker.origin,
            token: asker.token,
            match_bits: 0,
            remote_offset: delivery.remote_offset,
            header_data: 0,
            length: 0,
            operand: [0; 4],
            payload_bytes: 0,
            sender: 0,
        };
        match self.post(origin, &packet, &mut Vec::new()) {
            Ok(()) | Err(PostError::Gone) => Some(answered),
            Err(PostError::Full | PostError::NoSpace) => {
                self.set_aside(Outgoing { target: origin.id(), packet, payload: Vec::new(), answered: Some(answered) });
                None
            }
        }
    }

    /// The packet of an answer has left the outbox.
    pub(crate) fn finish_answered(&self, answered: &Answered) {
        if let Some(nic) = self.endpoint(answered.nic) {
            nic.segment.lock(self.word).locks().finish_answer(answered.index, answered.sequence);
        }
    }

    /// Forgets kept requests of processes that have died, so that their places are free. They would not succeed in any case.
    pub(crate) fn forget_dead_askers(&self) {
        if self.own.segment.limits().lock_waiters == 0 {
            return;
        }
        let share = u64::from(self.lock_looks.fetch_add(1, Relaxed)) % LOOK_AT;
        let is_dead =
            |waiter: &LockWaiter| waiter.sequence % LOOK_AT == share && !Identity::word_is_alive(waiter.process);
        self.own.segment.lock(self.word).locks().forget_waiters(is_dead);
    }
}

#[cfg(test)]
mod tests;
