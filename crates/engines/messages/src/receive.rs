// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives: posting them, matching them with unexpected messages, cancelling them.
//!
//! Every receive is a match entry of the NIC. A message that comes before its receive becomes an unexpected header
//! there. A *plain* receive (one piece, one message, no counter) keeps its context in its match entry and needs no
//! other record. Every other receive is an [`Operation`], and its match entry carries the number.
//!
//! How a receive ends
//! 1. Its owner takes the message from a ring and writes the completion to the caller's array (`transport/rings.rs`),
//! 2. or to the completion queue, if the array cannot take it ([`crate::receive_ends`]).
//! 3. The sender runs this NIC and fills the receive; an event reports it.
//! 4. The message was unexpected, and its payload is copied from the overflow buffer ([`Receives::fill_from_unexpected`]).
//! 5. The payload waits at the sender, and is fetched ([`Receives::fetch`]).

use std::ffi::c_void;

use libc::iovec;
use selvedge_host::direct::DirectOutcome;
use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::errors::AppendError;
use selvedge_nic::portals::{EntrySpec, Posted as Linked, ack, fail, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use crate::bindings::{Bindings, Side};
use crate::completion::Completion;
use crate::endpoints::Endpoints;
use crate::error::{Fault, Refusal};
use crate::flags::RECV;
use crate::in_flight::InFlight;
use crate::operation::Operation;
use crate::pieces::{scatter, total};
use crate::posted::{
    Arrived, Claimed, Fetch, FetchEnd, Filled, Landing, Multi, Placement, PlainReceive, PlainUserPtr, PostedReceive,
    ReceiveRequest, Scattered,
};
use crate::ticket::{Kind, PORTAL_TOKEN, Ticket};
use crate::units::Units;

/// The endpoints, and the messages for their receives.
pub(crate) struct Receives {
    pub endpoints: Endpoints,
    /// Messages that the program has claimed.
    pub claimed: Vec<Claimed>,
    /// Receives that were filled from a ring and still need their completions.
    pub filled: Vec<Filled>,
}

impl Receives {
    pub fn new() -> Receives {
        Receives { endpoints: Endpoints::new(), claimed: Vec::new(), filled: Vec::with_capacity(64) }
    }

    /// Posts a plain receive, or fills it with an unexpected message that matches. Returns false if nothing has
    /// happened. The caller then calls [`Receives::post`].
    #[inline(always)]
    pub fn post_plainly(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        receive: PlainReceive,
    ) -> bool {
        let Some(spec) = receive.entry() else { return false };
        if flight.nic.interface.lock().receives().post_to_short_list(receive.portal, &spec).is_some() {
            flight.polling.expects_messages();
            return true;
        }
        self.post_behind(flight, units, receive)
    }

    /// Like `post_plainly`, if there may be an unexpected message for the receive, or many receives are posted.
    #[inline(never)]
    fn post_behind(&mut self, flight: &mut InFlight, units: &mut Option<Box<Units>>, receive: PlainReceive) -> bool {
        let Some(spec) = receive.entry() else { return false };
        let portal = receive.portal;
        let posted =
            flight.nic.interface.lock().with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
        match posted {
            Ok(Linked::Linked(_)) => flight.polling.expects_messages(),
            Ok(Linked::Matched(found)) => self.fill_plainly(flight, units, &receive, found),
            Err(_) => return false,
        }
        true
    }

    fn fill_plainly(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        receive: &PlainReceive,
        found: u32,
    ) {
        let Some((bindings, kind)) = self.endpoints.receiver(receive.portal) else { return };
        let ticket = Ticket { bindings, context: receive.context, flags: RECV | kind.flag(), wanted: receive.wanted };
        let piece = [iovec { iov_base: receive.start as *mut c_void, iov_len: receive.length as usize }];
        self.fill_from_unexpected(flight, units, (kind, &ticket, &piece), found, None);
        // If polls go through the home, every read polls. So events of other messages are read in a flood.
        if !flight.nic.interface.polls_here() {
            return;
        }
        // SAFETY: the pointer is null or the queue that an open endpoint is bound to.
        if let Some(queue) = unsafe { (*bindings).rx_queue.as_mut() } {
            queue.expect_reading();
        }
    }

    /// Posts a receive, or fills it with an unexpected message that matches.
    pub fn post(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        wanted: &ReceiveRequest<'_>,
    ) -> Result<(), Refusal> {
        // SAFETY: the ticket of a new receive names an open endpoint.
        let bindings = unsafe { &*wanted.ticket.bindings };
        let (index, counter) = (bindings.index, bindings.counter_for(wanted.ticket.flags));
        let reports = wanted.ticket.wanted && !bindings.rx_queue.is_null();
        let portal = wanted.kind.portal(index);
        let is_plain = counter == NONE && wanted.multi.is_none() && wanted.pieces.len() <= 1;
        let plain = PlainReceive {
            portal,
            source: wanted.source,
            tag: wanted.tag,
            ignore: wanted.ignore,
            start: wanted.pieces.first().map_or(0, |piece| piece.iov_base as u64),
            length: total(wanted.pieces) as u64,
            context: wanted.ticket.context,
            wanted: reports,
        };
        if is_plain && self.post_plainly(flight, units, plain) {
            return Ok(());
        }
        let mut pieces = None;
        let (mut start, mut length) = (plain.start, plain.length);
        if let [_, _, ..] = wanted.pieces {
            let mut bytes = vec![0u8; total(wanted.pieces)].into_boxed_slice();
            (start, length) = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
            pieces = Some(Box::new(Scattered { pieces: wanted.pieces.into(), bytes }));
        }
        let mut flags = options::OP_PUT | options::EVENT_LINK_DISABLE;
        let min_free = match wanted.multi {
            Some(least) => {
                flags |= options::MANAGE_LOCAL;
                least.max(1) as u64
            }
            None => {
                flags |= options::USE_ONCE | options::EVENT_UNLINK_DISABLE;
                0
            }
        };
        if counter != NONE {
            flags |= options::EVENT_CT_COMM;
        }
        let user_ptr = flight.operations.next_number() as u64;
        let spec = EntrySpec { options: flags, start, length, min_free, user_ptr, counter, ..wanted.entry() };
        if wanted.multi.is_some() {
            return self.post_for_many(flight, units, wanted, &spec, portal);
        }
        let posted =
            flight.nic.interface.lock().with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
        match posted {
            Ok(Linked::Linked(entry)) => {
                flight.operations.insert(Operation::Receive(PostedReceive {
                    ticket: wanted.ticket,
                    entry,
                    kind: wanted.kind,
                    pieces,
                    multi: None,
                    counted: counter != NONE,
                }));
                flight.polling.expects_messages();
                Ok(())
            }
            Ok(Linked::Matched(found)) => {
                self.fill_from_unexpected(flight, units, (wanted.kind, &wanted.ticket, wanted.pieces), found, None);
                Ok(())
            }
            Err(error) => Err(refusal_of(error)),
        }
    }

    /// Posts a receive for many messages, after it has taken the matching unexpected messages.
    #[inline(never)]
    fn post_for_many(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        wanted: &ReceiveRequest<'_>,
        spec: &EntrySpec,
        portal: u32,
    ) -> Result<(), Refusal> {
        if wanted.pieces.len() != 1 {
            return Err(Refusal::Invalid);
        }
        let number = flight.operations.insert(Operation::Receive(PostedReceive {
            ticket: wanted.ticket,
            entry: NONE,
            kind: wanted.kind,
            pieces: None,
            multi: Some(Multi::default()),
            counted: spec.counter != NONE,
        }));
        let mut spec = EntrySpec { user_ptr: number as u64, ..*spec };
        let mut has_taken = false;
        while spec.length >= spec.min_free {
            let rest = [iovec { iov_base: spec.start as *mut c_void, iov_len: spec.length as usize }];
            let posted =
                flight.nic.interface.lock().with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
            match posted {
                Ok(Linked::Linked(entry)) => {
                    if let Some(posted) = flight.operations.receive(number) {
                        posted.entry = entry;
                    }
                    flight.polling.expects_messages();
                    return Ok(());
                }
                Ok(Linked::Matched(found)) => {
                    let request = (wanted.kind, &wanted.ticket, &rest[..]);
                    let taken = self.fill_from_unexpected(flight, units, request, found, Some(number)) as u64;
                    spec.start += taken;
                    spec.length -= taken;
                    has_taken = true;
                }
                // Completions already made stay, and the program gets the rest of its buffer back.
                Err(_) if has_taken => break,
                Err(error) => {
                    flight.operations.take_receive(number);
                    return Err(refusal_of(error));
                }
            }
        }
        flight.receive_used_up(number);
        Ok(())
    }

    /// Fills a receive with an unexpected message. Returns the bytes that it took.
    pub fn fill_from_unexpected(
        &mut self,
        flight: &mut InFlight,
        units: &mut Option<Box<Units>>,
        (kind, ticket, pieces): (Kind, &Ticket, &[iovec]),
        found: u32,
        multi: Option<usize>,
    ) -> usize {
        let room = total(pieces);
        let mut nic = flight.nic.interface.lock();
        let Some(header) = nic.unexpected(found) else { return 0 };
        let message = Arrived::of(header);
        let taken = (message.length as usize).min(room);
        if message.token == 0 {
            let held = (header.mlength as usize).min(room);
            // SAFETY: the payload is in our buffer until the header is dropped. The program's pieces are writable.
            unsafe { scatter(header.start as *const u8, held, pieces) };
            // A message that was not fully written to the overflow buffer is lost.
            let outcome = if header.mlength < header.rlength { Err(Fault::NotMapped) } else { Ok(()) };
            nic.receives().drop_unexpected(found);
            drop(nic);
            let start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
            flight.arrived(kind, ticket, &message, &Placement { start, room, outcome }, true);
            return taken;
        }
        nic.receives().drop_unexpected(found);
        drop(nic);
        let bytes = (pieces.len() > 1).then(|| vec![0u8; taken].into_boxed_slice());
        let start = match &bytes {
            Some(bytes) => bytes.as_ptr() as u64,
            None => pieces.first().map_or(0, |piece| piece.iov_base as u64),
        };
        self.fetch(flight, units, *ticket, Landing { message, kind, room, pieces: pieces.into(), bytes, start, multi });
        taken
    }

    /// Fetches a message's payload from its sender.
    pub fn fetch(&mut self, flight: &mut InFlight, units: &mut Option<Box<Units>>, ticket: Ticket, landing: Landing) {
        let (token, target) = (landing.message.token, landing.message.source >> 8);
        let start = landing.start;
        if let Some(multi) = landing.multi.and_then(|number| flight.operations.multi(number)) {
            multi.fetching += 1;
        }
        let fetch = Fetch { ticket, landing, source: None, ends: FetchEnd::Receive };
        let length = fetch.length();
        let number = flight.operations.insert(Operation::Fetch(Box::new(fetch)));
        if let Some(units) = units {
            if let Some(payload) = units.fetches.take_payload(target, token) {
                if let Some(failed) = units.fetch(flight, number, (target, payload, length)) {
                    self.fetched(flight, number, failed);
                }
                return;
            }
        }
        let interface = &flight.nic.interface;
        let command = Command {
            request: Request {
                kind: kind::GET,
                ack: ack::NONE,
                portal: PORTAL_TOKEN,
                initiator: interface.id() << 8,
                match_bits: token.into(),
                length,
                ..Request::default()
            },
            target,
            user_ptr: number as u64,
            source: Memory::NOWHERE,
            sink: Memory { start, queue: flight.nic.own_queue, ..Memory::NOWHERE },
        };
        let failed = match interface.deliver_now(&command, 0, None) {
            DirectOutcome::Done(delivery) => delivery.fail,
            DirectOutcome::OutOfReach if interface.start(&command).is_ok() => return,
            DirectOutcome::OutOfReach => fail::UNDELIVERABLE,
            DirectOutcome::Memory => fail::SEGV,
            DirectOutcome::Gone | DirectOutcome::Full => fail::UNDELIVERABLE,
        };
        self.fetched(flight, number, failed);
    }

    fn fetched(&mut self, flight: &mut InFlight, number: usize, failed: u8) {
        if let Some(fetch) = flight.operations.take_fetch(number) {
            flight.end_fetched_receive(*fetch, failed);
        }
    }

    /// Cancels the receive with this context and a record, which ends with an error.
    pub fn cancel(&mut self, flight: &mut InFlight, bindings: *mut Bindings, context: *mut c_void) -> CancelOutcome {
        let is_wanted = |posted: &PostedReceive| {
            let PostedReceive { ticket, multi, .. } = posted;
            let takes_more = multi.is_none_or(|multi| !multi.used_up && !multi.cancelled);
            takes_more && ticket.bindings == bindings && ticket.context == context
        };
        let found = flight.operations.iter().find_map(|(number, operation)| match operation {
            Operation::Receive(posted) if is_wanted(posted) => Some((number, posted.entry, posted.ticket)),
            _ => None,
        });
        let Some((number, entry, ticket)) = found else { return CancelOutcome::NotFound };
        if flight.nic.interface.lock().with_revocation(|nic| nic.lists().unlink(entry)).is_err() {
            // Its message has come, and the event is in the queue.
            return CancelOutcome::NotFound;
        }
        if let Some(multi) = flight.operations.multi(number) {
            multi.cancelled = true;
            return CancelOutcome::Unlinked(number);
        }
        flight.operations.take_receive(number);
        let entry = Completion { context, flags: ticket.flags, ..Completion::default() };
        flight.nic.fail(&ticket, Side::Receive, entry, 0, Fault::Cancelled);
        CancelOutcome::Ended
    }

    /// Cancels the plain receive with this context. Returns whether such a receive was found.
    pub fn cancel_plain(&mut self, flight: &mut InFlight, bindings: *mut Bindings, context: *mut c_void) -> bool {
        let Some(ticket) = unlink_plain(flight, bindings, context) else { return false };
        let entry = Completion { context, flags: ticket.flags, ..Completion::default() };
        flight.nic.fail(&ticket, Side::Receive, entry, 0, Fault::Cancelled);
        true
    }
}

/// The outcome of cancelling a receive.
pub(crate) enum CancelOutcome {
    NotFound,
    Ended,
    /// This receive for many messages takes no more. It ends when those that it has taken have ended.
    Unlinked(usize),
}

/// Unlinks the plain receive with this context.
fn unlink_plain(flight: &InFlight, bindings: *mut Bindings, context: *mut c_void) -> Option<Ticket> {
    // SAFETY: the program cancels on an open endpoint.
    let index = unsafe { (*bindings).index };
    let mut nic = flight.nic.interface.lock();
    for kind in [Kind::Tagged, Kind::Plain] {
        for wanted in [true, false] {
            let PlainUserPtr(user_ptr) = PlainUserPtr::new(context, wanted)?;
            if nic.receives().unlink_by_user_ptr(kind.portal(index), user_ptr) {
                return Some(Ticket { bindings, context, flags: RECV | kind.flag(), wanted });
            }
        }
    }
    None
}

fn refusal_of(error: AppendError) -> Refusal {
    if matches!(error, AppendError::Portal) { Refusal::NoEndpoint } else { Refusal::NoRoom }
}
