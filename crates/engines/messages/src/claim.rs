// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peeking (fi_tagged(3)): finding an unexpected message, claiming it for one receive, or discarding it.
//!
//! A claimed message leaves the NIC's unexpected list at once. Its header and payload stay at the NIC until a receive
//! names its context. If the payload waits at the sender, that receive fetches it. Discarding such a message fetches
//! none of the payload, which ends the send.

use selvedge_nic::NoMemory;

use crate::bindings::Side;
use crate::completion::Completion;
use crate::error::{Fault, Refusal};
use crate::flags::{ADDR_ANY, REMOTE_CQ_DATA};
use crate::in_flight::InFlight;
use crate::posted::{Arrived, Claimed, Landing, ReceiveRequest};
use crate::receive::Receives;
use crate::ticket::Ticket;
use crate::units::Units;

impl Receives {
    /// Looks for an unexpected message (`FI_PEEK`). `claim` keeps it for this context, `discard` drops it.
    pub fn peek(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        wanted: &ReceiveRequest<'_>,
        (claim, discard): (bool, bool),
    ) {
        // SAFETY: the endpoint is open.
        let index = unsafe { (*wanted.ticket.bindings).index };
        let portal = wanted.kind.portal(index);
        let mut nic = flight.nic.interface.lock();
        let found = nic.receives().find_unexpected(&mut NoMemory, portal, &wanted.entry());
        let Some((found, message)) = found.and_then(|found| Some((found, Arrived::of(nic.unexpected(found)?)))) else {
            drop(nic);
            return report_nothing(flight, wanted);
        };
        if claim {
            nic.receives().claim_unexpected(found);
        } else if discard {
            nic.receives().drop_unexpected(found);
        }
        drop(nic);
        if claim {
            let Ticket { bindings, context, .. } = wanted.ticket;
            self.claimed.push(Claimed { bindings, context, header: found });
        } else if discard && message.token != 0 {
            self.release_payload(flight, units, wanted, message);
        }
        report_peeked(flight, wanted, &message);
    }

    /// Receives a message that was claimed with this context (`FI_CLAIM`), or discards it.
    pub fn receive_claimed(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        wanted: &ReceiveRequest<'_>,
        discard: bool,
    ) -> Result<(), Refusal> {
        let ticket = wanted.ticket;
        let found = self
            .claimed
            .iter()
            .position(|claimed| claimed.context == ticket.context && claimed.bindings == ticket.bindings);
        let Some(found) = found else { return Err(Refusal::Invalid) };
        let header = self.claimed.remove(found).header;
        if !discard {
            self.fill_from_unexpected(flight, units, (wanted.kind, &ticket, wanted.pieces), header, None);
            return Ok(());
        }
        {
            let mut nic = flight.nic.interface.lock();
            let Some(message) = nic.unexpected(header).map(Arrived::of) else { return Err(Refusal::Invalid) };
            nic.receives().drop_unexpected(header);
            drop(nic);
            if message.token != 0 {
                self.release_payload(flight, units, wanted, message);
            }
            let entry =
                Completion { context: ticket.context, flags: ticket.flags, tag: message.tag, ..Completion::default() };
            flight.nic.complete_uncounted(&ticket, Side::Receive, entry, ADDR_ANY);
            Ok(())
        }
    }

    /// Ends the send of an unwanted message by fetching none of its payload.
    fn release_payload(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        wanted: &ReceiveRequest<'_>,
        message: Arrived,
    ) {
        let ticket = Ticket { wanted: false, flags: 0, ..wanted.ticket };
        let message = Arrived { length: 0, ..message };
        let landing =
            Landing { message, kind: wanted.kind, room: 0, pieces: [].into(), bytes: None, start: 0, multi: None };
        self.fetch(flight, units, ticket, landing);
    }
}

fn report_nothing(flight: &InFlight, wanted: &ReceiveRequest<'_>) {
    let Ticket { context, flags, .. } = wanted.ticket;
    let entry = Completion { context, flags, tag: wanted.tag, ..Completion::default() };
    flight.nic.fail_uncounted(&wanted.ticket, Side::Receive, entry, 0, Fault::NoMessage);
}

fn report_peeked(flight: &InFlight, wanted: &ReceiveRequest<'_>, message: &Arrived) {
    let entry = Completion {
        context: wanted.ticket.context,
        flags: wanted.ticket.flags | if message.data.is_some() { REMOTE_CQ_DATA } else { 0 },
        length: message.length as usize,
        buffer: std::ptr::null_mut(),
        data: message.data.unwrap_or(0),
        tag: message.tag,
    };
    let source = flight.peers.source_name(message.source);
    flight.nic.complete_uncounted(&wanted.ticket, Side::Receive, entry, source);
}
