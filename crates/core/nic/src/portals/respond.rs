// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The outcome of a request at the initiator's NIC: SEND, ACK and REPLY, as events and as counts.
//!
//! Rules
//! 1. SEND and ACK belong to the descriptor of the payload's source; REPLY belongs to the descriptor of its
//!    destination.
//! 2. A full acknowledgement is an event and, where the descriptor counts ACKs, a count; a counting one is a count of
//!    acknowledgements or bytes; an operation-completed one counts operations, also those that failed.
//! 3. A failed operation counts as one failure, whatever the descriptor counts. It does not count if the descriptor's
//!    owner counts failures itself (`MD_FAILURES_UNCOUNTED`, which no program can set).

use super::constants::{ack, event_kind, fail, options};
use super::delivery::Delivery;
use super::event::Event;
use crate::handle::NONE;
use crate::nic::Nic;
use crate::tables::{Command, Side};

/// The initiator of commands.
pub struct Initiator<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl Initiator<'_, '_> {
    /// SEND: the payload has been read, or, with a failure, will never be read.
    #[inline]
    pub(crate) fn complete_send(self, command: &Command, fail: u8) {
        if !command.has_payload() {
            return;
        }
        let side = &command.source;
        if side.options & options::MD_EVENT_SEND_DISABLE == 0 {
            let event = Event { mlength: command.length, ..initiator_event(command, event_kind::SEND, fail, side) };
            self.nic.initiator().post_unless_quiet(side, &event);
        }
        if side.options & options::MD_EVENT_CT_SEND != 0 {
            let in_bytes = side.options & options::MD_EVENT_CT_BYTES != 0;
            self.nic.counters().count_outcome(side.counter, fail == fail::OK, in_bytes, command.length);
        }
    }

    /// ACK or REPLY: the outcome at the target.
    #[inline]
    pub(crate) fn complete_response(self, command: &Command, delivery: &Delivery) {
        match command.has_reply() {
            true => self.nic.initiator().complete_reply(command, delivery),
            false => self.nic.initiator().complete_ack(command, delivery),
        }
    }

    fn complete_ack(self, command: &Command, delivery: &Delivery) {
        if command.ack == ack::NONE || delivery.ack_disabled {
            return;
        }
        let side = &command.source;
        if command.ack == ack::FULL {
            let event = Event {
                mlength: delivery.mlength,
                remote_offset: delivery.remote_offset,
                list: delivery.list,
                ..initiator_event(command, event_kind::ACK, delivery.fail, side)
            };
            self.nic.initiator().post_unless_quiet(side, &event);
        }
        if side.options & options::MD_EVENT_CT_ACK != 0 {
            if command.ack == ack::OPERATION_COMPLETED {
                let done = delivery.fail != fail::UNDELIVERABLE;
                self.nic.initiator().count_side(side, done, false, 0);
            } else {
                let in_bytes = side.options & options::MD_EVENT_CT_BYTES != 0;
                self.nic.initiator().count_side(side, delivery.fail == fail::OK, in_bytes, delivery.mlength);
            }
        }
    }

    fn complete_reply(self, command: &Command, delivery: &Delivery) {
        let side = &command.sink;
        let event = Event {
            mlength: delivery.mlength,
            remote_offset: delivery.remote_offset,
            list: delivery.list,
            ..initiator_event(command, event_kind::REPLY, delivery.fail, side)
        };
        self.nic.initiator().post_unless_quiet(side, &event);
        if side.options & options::MD_EVENT_CT_REPLY != 0 {
            let in_bytes = side.options & options::MD_EVENT_CT_BYTES != 0;
            self.nic.initiator().count_side(side, delivery.fail == fail::OK, in_bytes, delivery.mlength);
        }
    }

    fn count_side(self, side: &Side, ok: bool, in_bytes: bool, bytes: u64) {
        if ok || side.options & options::MD_FAILURES_UNCOUNTED == 0 {
            self.nic.counters().count_outcome(side.counter, ok, in_bytes, bytes);
        }
    }

    fn post_unless_quiet(self, side: &Side, event: &Event) {
        if side.queue != NONE && (event.fail != fail::OK || side.options & options::MD_EVENT_SUCCESS_DISABLE == 0) {
            self.nic.queues().post(side.queue, event);
        }
    }
}

fn initiator_event(command: &Command, kind: u8, fail: u8, side: &Side) -> Event {
    Event {
        start: if side.iov == NONE { side.start } else { 0 },
        user_ptr: command.user_ptr,
        header_data: command.header_data,
        match_bits: command.match_bits,
        rlength: command.length,
        remote_offset: command.remote_offset,
        initiator: command.initiator,
        uid: command.uid,
        portal: command.portal,
        kind,
        fail,
        operation: command.operation,
        datatype: command.datatype,
        ..Event::default()
    }
}
