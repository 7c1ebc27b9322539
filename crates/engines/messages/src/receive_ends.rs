// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of receives: from a message that has arrived to the completion.

use std::ffi::c_void;

use crate::bindings::Side;
use crate::completion::Completion;
use crate::error::Fault;
use crate::flags::{ADDR_ANY, MULTI_RECV, RECV, REMOTE_CQ_DATA};
use crate::in_flight::InFlight;
use crate::pieces::scatter;
use crate::posted::{Arrived, Fetch, Filled, Multi, Placement, PlainUserPtr, PostedReceive, Scattered};
use crate::receive::Receives;
use crate::ticket::{Kind, Ticket};

impl InFlight {
    /// Ends a receive. `count`: the NIC has not counted the message.
    #[inline]
    pub fn arrived(&self, kind: Kind, ticket: &Ticket, message: &Arrived, placement: &Placement, count: bool) {
        let Placement { start, room, outcome } = *placement;
        let taken = (message.length as usize).min(room);
        let entry = Completion {
            context: ticket.context,
            flags: ticket.flags | if message.data.is_some() { REMOTE_CQ_DATA } else { 0 },
            length: taken,
            buffer: start as *mut c_void,
            data: message.data.unwrap_or(0),
            tag: if kind == Kind::Tagged { message.tag } else { 0 },
        };
        let truncated = (message.length as usize).saturating_sub(room);
        if outcome.is_err() || truncated != 0 {
            let fault = outcome.err().unwrap_or(Fault::Truncated);
            if !count && fault == Fault::Truncated {
                // The NIC has counted a success. Take it back.
                self.nic.take_back_count(ticket);
            }
            return self.nic.fail(ticket, Side::Receive, entry, truncated, fault);
        }
        // SAFETY: a receive that has not ended names an open endpoint.
        let names = unsafe { (*ticket.bindings).names_sources };
        let source = if names { self.peers.source_name(message.source) } else { ADDR_ANY };
        if count {
            self.nic.complete(ticket, Side::Receive, entry, source);
        } else {
            self.nic.complete_uncounted(ticket, Side::Receive, entry, source);
        }
    }

    /// Ends a posted receive that its sender has filled, or a message from a ring.
    #[inline]
    pub fn receive_filled(&mut self, number: usize, message: &Arrived, placement: &Placement) {
        let Some(posted) = self.operations.receive(number) else { return };
        if posted.multi.is_some() {
            let (kind, ticket, counted) = (posted.kind, posted.ticket, posted.counted);
            return self.arrived(kind, &ticket, message, placement, !counted);
        }
        let Some(posted) = self.operations.take_receive(number) else { return };
        let mut placement = *placement;
        if let Some(scattered) = &posted.pieces {
            let Scattered { pieces, bytes } = &**scattered;
            // SAFETY: the program's pieces are writable. No more than the message in `bytes` is read.
            unsafe { scatter(bytes.as_ptr(), (message.length as usize).min(bytes.len()), pieces) };
            placement.start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
        }
        self.arrived(posted.kind, &posted.ticket, message, &placement, !posted.counted);
    }

    /// Ends a posted receive that a message from a ring has filled. It takes one message and has no counter.
    #[inline(always)]
    pub fn receive_taken(&mut self, number: usize, message: &Arrived, placement: &Placement) {
        let Placement { start, room, .. } = *placement;
        let plain = self.operations.receive(number).is_some_and(|posted| posted.pieces.is_none());
        if !plain || message.length > room as u64 {
            return self.receive_filled(number, message, placement);
        }
        let Some(posted) = self.operations.take_receive(number) else { return };
        let ticket = &posted.ticket;
        // SAFETY: the endpoint is open, and it is bound to this queue.
        unsafe {
            let bindings = &*ticket.bindings;
            if !ticket.wanted || bindings.rx_queue.is_null() {
                return;
            }
            let entry = Completion {
                context: ticket.context,
                flags: ticket.flags | if message.data.is_some() { REMOTE_CQ_DATA } else { 0 },
                length: message.length as usize,
                buffer: start as *mut c_void,
                data: message.data.unwrap_or(0),
                tag: if posted.kind == Kind::Tagged { message.tag } else { 0 },
            };
            let source = if bindings.names_sources { self.peers.source_name(message.source) } else { ADDR_ANY };
            (*bindings.rx_queue).push(entry, source);
        }
    }

    /// Handles a message that uses up a receive for many messages. Its completion says so, unless a fetch is under way.
    pub fn filled_up(&mut self, number: usize, message: &Arrived, placement: &Placement) {
        let is_alone = self.operations.multi(number).is_some_and(|multi| multi.fetching == 0);
        if let (true, Some(posted)) = (is_alone, self.operations.receive(number)) {
            posted.ticket.flags |= MULTI_RECV;
        }
        self.receive_filled(number, message, placement);
        match is_alone {
            true => drop(self.operations.take_receive(number)),
            false => self.receive_used_up(number),
        }
    }

    /// Marks a receive for many messages as used up.
    pub fn receive_used_up(&mut self, number: usize) {
        if let Some(multi) = self.operations.multi(number) {
            multi.used_up = true;
        }
        self.give_back(number);
    }

    /// Returns the buffer of a receive for many messages, if no more data can come into it.
    fn give_back(&mut self, number: usize) {
        let Some(&mut Multi { used_up: true, fetching: 0, cancelled }) = self.operations.multi(number) else { return };
        let Some(PostedReceive { ticket, .. }) = self.operations.take_receive(number) else { return };
        let entry = Completion { context: ticket.context, flags: MULTI_RECV, ..Completion::default() };
        if cancelled {
            let entry = Completion { flags: ticket.flags | MULTI_RECV, ..entry };
            return self.nic.fail(&ticket, Side::Receive, entry, 0, Fault::Cancelled);
        }
        self.nic.complete_uncounted(&ticket, Side::Receive, entry, ADDR_ANY);
    }

    /// Ends the receive of a fetched payload.
    pub fn end_fetched_receive(&mut self, fetch: Fetch, failed: u8) {
        let outcome = fetch.outcome(failed);
        let Fetch { ticket, landing, .. } = fetch;
        let start = landing.pieces.first().map_or(0, |piece| piece.iov_base as u64);
        let placement = Placement { start, room: landing.room, outcome };
        self.arrived(landing.kind, &ticket, &landing.message, &placement, true);
        if let Some(number) = landing.multi {
            if let Some(multi) = self.operations.multi(number) {
                multi.fetching -= 1;
            }
            self.give_back(number);
        }
    }
}

impl Receives {
    /// Ends a plain receive.
    pub fn plain_arrived(
        &self,
        flight: &InFlight,
        portal: u32,
        PlainUserPtr(user_ptr): PlainUserPtr,
        message: &Arrived,
        placement: &Placement,
    ) {
        let Some((bindings, kind)) = self.endpoints.receiver(portal) else { return };
        let ticket = Ticket {
            bindings,
            context: PlainUserPtr::context(user_ptr),
            flags: RECV | kind.flag(),
            wanted: PlainUserPtr::is_wanted(user_ptr),
        };
        flight.arrived(kind, &ticket, message, placement, true);
    }

    /// Completes the receives that were taken off the NIC's lists.
    #[inline(never)]
    pub fn complete_filled(&mut self, flight: &mut InFlight) {
        let mut filled = std::mem::take(&mut self.filled);
        for one in filled.drain(..) {
            let Filled { user_ptr, portal, message, start, room, uses_up } = one;
            let (number, placement) = (user_ptr as usize, Placement { start, room, outcome: Ok(()) });
            match PlainUserPtr::of(user_ptr) {
                Some(plain) => self.plain_arrived(flight, portal, plain, &message, &placement),
                None if !uses_up => flight.receive_filled(number, &message, &placement),
                None if flight.operations.is_multi(number) => flight.filled_up(number, &message, &placement),
                None => flight.receive_taken(number, &message, &placement),
            }
        }
        self.filled = filled;
    }
}
