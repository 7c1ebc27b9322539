// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Polls of the units. A poll empties mailbox and queues into the records of the senders, and then delivers each
//! sender's messages to this process's NIC.

use std::collections::BTreeSet;
use std::ffi::c_void;

use libc::iovec;

use super::Transport;
use crate::error::Fault;
use crate::flags::RECV;
use crate::operation::Operation;
use crate::posted::{Arrived, Fetch, FetchEnd, Filled, Landing, PlainUserPtr};
use crate::ticket::Ticket;
use crate::units::access::CommandEnd;
use crate::units::command_queue::{Purpose, Sent};
use crate::units::fetch::Payload;
use crate::units::receive::FetchOrder;
use crate::units::wire::{Control, Request};

impl Transport {
    /// Takes everything that has come over the units. Returns whether there was anything.
    #[inline]
    pub(super) fn take_from_units(&mut self) -> bool {
        match &self.units {
            Some(_) => self.poll_units(),
            None => false,
        }
    }

    #[inline(never)]
    fn poll_units(&mut self) -> bool {
        let Transport { flight, units: Some(units), .. } = self else { return false };
        let mut any = units.take_mail(flight);
        units.port.send_unsent();
        any |= self.take_unit_notifications();
        any |= self.take_accesses();
        self.start_fetches();
        let due = self.units.as_mut().map(|units| units.grants.take_due()).unwrap_or_default();
        for id in due {
            any |= self.take_messages_of(id);
        }
        let Transport { flight, units: Some(units), .. } = self else { return any };
        if units.has_polled(any) {
            units.look_after_peers(flight);
        }
        any
    }

    /// Empties the notification queue of the port for messages.
    fn take_unit_notifications(&mut self) -> bool {
        let mut any = false;
        while let Transport { flight, units: Some(units), .. } = self {
            let Some(notification) = units.port.next_notification() else { break };
            any = true;
            if let Some((number, failed)) = units.take_notification(flight, &notification) {
                self.end_fetch(number, failed);
            }
        }
        any
    }

    /// Starts fetches that waited for room.
    fn start_fetches(&mut self) {
        let waiting = self.units.as_ref().map_or(0, |units| units.fetches.waiting());
        for _ in 0..waiting {
            let Transport { flight, units: Some(units), .. } = self else { return };
            match units.fetches.start_next(&mut units.port, flight) {
                None => return,
                Some((number, Some(failed))) => self.end_fetch(number, failed),
                Some((_, None)) => {}
            }
        }
    }

    // ---- accesses ----

    /// Takes the outcomes of accesses. Returns whether there were any.
    fn take_accesses(&mut self) -> bool {
        let mut any = false;
        while let Some(notification) = self.units.as_mut().and_then(|units| units.one_sided.next_notification()) {
            any = true;
            let Some(units) = &mut self.units else { break };
            let (ended, is_refused) = units.one_sided.take_notification(&notification);
            for sent in ended {
                self.command_ended(notification.node.into(), sent, is_refused);
            }
        }
        self.retry_refused();
        if let Some(units) = &mut self.units {
            units.one_sided.flush_all();
            while let Some((id, round)) = units.one_sided.next_forgotten() {
                units.port.control(id, Control::Forgotten { round });
            }
        }
        any
    }

    fn command_ended(&mut self, id: u64, sent: Sent, is_refused: bool) {
        let Transport { flight, units: Some(units), .. } = self else { return };
        match units.one_sided.command_ended(id, sent, is_refused) {
            CommandEnd::Nothing => {}
            CommandEnd::OfAccess(number) => {
                if is_refused {
                    flight.access_refused(number);
                }
                if flight.request_ended(number) {
                    self.end_access(number);
                }
            }
            CommandEnd::TargetGone => self.lose_target(id),
            CommandEnd::ForgetAgain(round) => units.port.control(id, Control::Forget { round }),
        }
    }

    /// Ends the puts to a process that no longer answers.
    fn lose_target(&mut self, id: u64) {
        let Some(units) = &mut self.units else { return };
        let lost = units.one_sided.lose_puts(id);
        for sent in lost {
            if let Purpose::Put { number, .. } = sent.purpose {
                if let Some(pending) = self.flight.operations.access(number) {
                    pending.error = Some(Fault::PeerGone);
                }
            }
            self.command_ended(id, sent, false);
        }
    }

    /// Retries or fails refused accesses whose keys are known again.
    fn retry_refused(&mut self) {
        let retries = self.units.as_mut().map(|units| units.one_sided.take_retries()).unwrap_or_default();
        // The first access of a peer that must still wait holds up the peer's later ones.
        let mut waiting: BTreeSet<u32> = BTreeSet::new();
        for number in retries {
            let Transport { flight, accesses, units: Some(units), .. } = self else { return };
            let Some(peer) = flight.operations.access(number).map(|pending| pending.peer) else { continue };
            let outcome = if waiting.contains(&peer) { None } else { units.retry(flight, accesses, number) };
            match outcome {
                Some(outcome) => _ = self.end_launch(number, outcome),
                None => {
                    waiting.insert(peer);
                    units.one_sided.retry_later(number);
                }
            }
        }
    }

    // ---- messages ----

    /// Delivers the messages of a sender to the NIC, while it has room. Returns whether it delivered any.
    fn take_messages_of(&mut self, id: u64) -> bool {
        let mut any = false;
        loop {
            // Completions keep the order of messages: the events of earlier deliveries come first.
            if self.flight.nic.has_arrival_event() {
                self.take_events();
            }
            let Transport { flight, receives, units: Some(units), .. } = self else { break };
            let memory = (id, units.port.slot_bytes);
            let handed = units.grants.hand_in(&flight.nic, &mut units.fetches, &mut receives.filled, memory);
            let Some(handed) = handed else { break };
            if !receives.filled.is_empty() {
                receives.complete_filled(flight);
            }
            flight.nic.interface.settle(handed.fired);
            any |= handed.any;
            match handed.order {
                None => {}
                Some(FetchOrder::IntoReceive(filled, request)) => self.fetch_into_receive(id, &filled, request),
                Some(FetchOrder::BeforeMatching(heading, request)) => {
                    self.fetch_before_matching(id, heading.envelope.match_bits, request);
                    continue;
                }
            }
            if !handed.any {
                break;
            }
        }
        if let Some(units) = &mut self.units {
            units.grants.send_report(&units.port, id);
        }
        any
    }

    /// Fetches the payload of a long message into the receive that it has matched.
    fn fetch_into_receive(&mut self, id: u64, filled: &Filled, request: Request) {
        let Filled { user_ptr, portal, message, start, room, uses_up } = *filled;
        let Transport { flight, receives, units, .. } = self;
        if let Some(units) = units {
            units.fetches.keep_payload(id, request.token, Payload::There(request));
        }
        let Some((bindings, kind)) = receives.endpoints.receiver(portal) else { return };
        let message = Arrived { token: request.token, ..message };
        let piece = iovec { iov_base: start as *mut c_void, iov_len: room };
        let plain = Landing { message, kind, room, pieces: [piece].into(), bytes: None, start, multi: None };
        if let Some(receive) = PlainUserPtr::of(user_ptr) {
            let (context, wanted) = (PlainUserPtr::context(receive.0), PlainUserPtr::is_wanted(receive.0));
            let ticket = Ticket { bindings, context, flags: RECV | kind.flag(), wanted };
            return receives.fetch(flight, units, ticket, plain);
        }
        let number = user_ptr as usize;
        if flight.operations.is_multi(number) {
            let Some(posted) = flight.operations.receive(number) else { return };
            let ticket = posted.ticket;
            receives.fetch(flight, units, ticket, Landing { multi: Some(number), ..plain });
            if uses_up {
                flight.receive_used_up(number);
            }
            return;
        }
        let Some(posted) = flight.operations.take_receive(number) else { return };
        let landing = match posted.pieces {
            Some(scattered) => {
                let bytes = vec![0u8; (request.length as usize).min(room)].into_boxed_slice();
                let start = bytes.as_ptr() as u64;
                Landing { pieces: scattered.pieces, bytes: Some(bytes), start, ..plain }
            }
            None => plain,
        };
        receives.fetch(flight, units, posted.ticket, landing);
    }

    /// Fetches the payload of a long message before it is delivered to the NIC.
    fn fetch_before_matching(&mut self, id: u64, tag: u64, request: Request) {
        let Transport { flight, units: Some(units), .. } = self else { return };
        let message = Arrived::new(tag, None, id << 8, request.length);
        let fetch = Fetch::into_own_memory(FetchEnd::HandIn(id), message, request.length as usize, &[]);
        let length = fetch.length();
        let number = flight.operations.insert(Operation::Fetch(Box::new(fetch)));
        if let Some(failed) = units.fetch(flight, number, (id, Payload::There(request), length)) {
            self.end_fetch(number, failed);
        }
    }

    /// Makes peers send packets from now on, so that the NIC matches them without this program.
    pub fn withdraw_units(&mut self) {
        if let Some(units) = &mut self.units {
            units.withdraw();
        }
    }
}
