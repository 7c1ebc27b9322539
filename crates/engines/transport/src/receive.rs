// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives: posting them, matching them with unexpected messages, cancelling them.
//!
//! Every receive is a match entry of the NIC. A message that comes before its receive becomes an unexpected header
//! there. A *plain* receive (one piece, one message, no counter) keeps its context in its match entry and needs no
//! other record. Every other receive is an [`Operation`], and its match entry carries the number.
//!
//! How a receive ends
//! 1. Its owner takes the message from a ring and writes the completion to the caller's array ([`super::progress`]),
//! 2. or to the completion queue, if the array cannot take it.
//! 3. The sender runs this NIC and fills the receive; an event reports it.
//! 4. The message was unexpected, and its payload is copied from the overflow buffer ([`Transport::fill_from_unexpected`]).
//! 5. The payload waits at the sender, and is fetched ([`Transport::fetch`]).

use std::ffi::{c_int, c_void};

use libc::iovec;
use selvedge_host::direct::DirectOutcome;
use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::errors::AppendError;
use selvedge_nic::portals::{EntrySpec, Posted as Linked, ack, fail, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use crate::bindings::{Bindings, Side};
use crate::completion::Completion;
use crate::flags::*;
use crate::operation::Operation;
use crate::pieces::{scatter, total};
use crate::posted::{Arrived, Fetch, FetchEnd, Landing, Multi, Plain, PlainReceive, Posted, Scattered, Wanted};
use crate::ticket::{Kind, PORTAL_TOKEN, Ticket};
use crate::transport::Transport;

impl Transport {
    /// Posts a plain receive, or fills it with an unexpected message that matches. Returns false if nothing has
    /// happened; [`Transport::receive`] then posts it.
    #[inline(always)]
    pub fn receive_plainly(&mut self, receive: Plain) -> bool {
        let Some(spec) = receive.entry() else { return false };
        if self.interface.lock().receives().post_to_short_list(receive.portal, &spec).is_some() {
            self.polling.expects_messages();
            return true;
        }
        self.receive_behind(receive)
    }

    /// The same if there may be an unexpected message for it, or many receives are posted.
    #[inline(never)]
    fn receive_behind(&mut self, receive: Plain) -> bool {
        let Some(spec) = receive.entry() else { return false };
        let portal = receive.portal;
        let posted = self.interface.lock().with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
        match posted {
            Ok(Linked::Linked(_)) => self.polling.expects_messages(),
            Ok(Linked::Matched(found)) => self.fill_plainly(&receive, found),
            Err(_) => return false,
        }
        true
    }

    fn fill_plainly(&mut self, receive: &Plain, found: u32) {
        let Some((bindings, kind)) = self.receiver(receive.portal) else { return };
        let ticket = Ticket { bindings, context: receive.context, flags: RECV | kind.flag(), wanted: receive.wanted };
        let piece = [iovec { iov_base: receive.start as *mut c_void, iov_len: receive.length as usize }];
        self.fill_from_unexpected(kind, &ticket, &piece, found, None);
        // Where a poll goes through the home, every read polls, so that the events of other messages are read between two
        // of a flood.
        if !self.interface.polls_here() {
            return;
        }
        // SAFETY: the pointer is null or the queue that an open endpoint is bound to.
        if let Some(queue) = unsafe { (*bindings).rx_queue.as_mut() } {
            queue.expect_reading();
        }
    }

    /// Posts a receive. Returns 0 or a negative error.
    pub fn receive(&mut self, wanted: &Wanted<'_>) -> isize {
        // SAFETY: the ticket of a new receive names an open endpoint.
        let bindings = unsafe { &*wanted.ticket.bindings };
        let (index, counter) = (bindings.index, bindings.counter_for(wanted.ticket.flags));
        let reports = wanted.ticket.wanted && !bindings.rx_queue.is_null();
        let portal = wanted.kind.portal(index);
        let is_plain = counter == NONE && wanted.multi.is_none() && wanted.pieces.len() <= 1;
        let plain = Plain {
            portal,
            source: wanted.source,
            tag: wanted.tag,
            ignore: wanted.ignore,
            start: wanted.pieces.first().map_or(0, |piece| piece.iov_base as u64),
            length: total(wanted.pieces) as u64,
            context: wanted.ticket.context,
            wanted: reports,
        };
        if is_plain && self.receive_plainly(plain) {
            return 0;
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
        let slot = self.operations.vacant_entry();
        let user_ptr = slot.key() as u64;
        let spec = EntrySpec { options: flags, start, length, min_free, user_ptr, counter, ..wanted.entry() };
        if wanted.multi.is_some() {
            return self.receive_many(wanted, &spec, portal);
        }
        let posted = self.interface.lock().with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
        match posted {
            Ok(Linked::Linked(entry)) => {
                slot.insert(Operation::Receive(Posted {
                    ticket: wanted.ticket,
                    entry,
                    kind: wanted.kind,
                    pieces,
                    multi: None,
                    counted: counter != NONE,
                }));
                self.polling.expects_messages();
                0
            }
            Ok(Linked::Matched(found)) => {
                self.fill_from_unexpected(wanted.kind, &wanted.ticket, wanted.pieces, found, None);
                0
            }
            Err(AppendError::Portal) => -(EOPBADSTATE as isize),
            Err(_) => -(EAGAIN as isize),
        }
    }

    /// Posts a receive for many messages, after it has taken the unexpected messages that match.
    #[inline(never)]
    fn receive_many(&mut self, wanted: &Wanted<'_>, spec: &EntrySpec, portal: u32) -> isize {
        if wanted.pieces.len() != 1 {
            return -(EINVAL as isize);
        }
        let number = self.operations.insert(Operation::Receive(Posted {
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
            let posted = self.interface.lock().with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
            match posted {
                Ok(Linked::Linked(entry)) => {
                    if let Operation::Receive(posted) = &mut self.operations[number] {
                        posted.entry = entry;
                    }
                    self.polling.expects_messages();
                    return 0;
                }
                Ok(Linked::Matched(found)) => {
                    let taken =
                        self.fill_from_unexpected(wanted.kind, &wanted.ticket, &rest, found, Some(number)) as u64;
                    spec.start += taken;
                    spec.length -= taken;
                    has_taken = true;
                }
                // Completions that were made stay; the program gets the rest of its buffer back.
                Err(_) if has_taken => break,
                Err(error) => {
                    self.operations.remove(number);
                    let error = if matches!(error, AppendError::Portal) { EOPBADSTATE } else { EAGAIN };
                    return -(error as isize);
                }
            }
        }
        self.receive_used_up(number);
        0
    }

    /// Fills a receive with an unexpected message. Returns the bytes that it took.
    pub(crate) fn fill_from_unexpected(
        &mut self,
        kind: Kind,
        ticket: &Ticket,
        pieces: &[iovec],
        found: u32,
        multi: Option<usize>,
    ) -> usize {
        let room = total(pieces);
        let mut nic = self.interface.lock();
        let Some(header) = nic.unexpected(found) else { return 0 };
        let message = Arrived::of(header);
        let taken = (message.length as usize).min(room);
        if message.token == 0 {
            let held = (header.mlength as usize).min(room);
            // SAFETY: the payload is in one of our buffers until the header is dropped. The pieces are the program's
            // and writable.
            unsafe { scatter(header.start as *const u8, held, pieces) };
            // A message that was not fully written to the overflow buffer is lost.
            let error = if header.mlength < header.rlength { EFAULT } else { 0 };
            nic.receives().drop_unexpected(found);
            drop(nic);
            let start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
            self.arrived(kind, ticket, &message, room, start, error, true);
            return taken;
        }
        nic.receives().drop_unexpected(found);
        drop(nic);
        let bytes = (pieces.len() > 1).then(|| vec![0u8; taken].into_boxed_slice());
        let start = match &bytes {
            Some(bytes) => bytes.as_ptr() as u64,
            None => pieces.first().map_or(0, |piece| piece.iov_base as u64),
        };
        self.fetch(*ticket, Landing { message, kind, room, pieces: pieces.into(), bytes, start, multi });
        taken
    }

    /// Fetches a message's payload from its sender.
    pub(crate) fn fetch(&mut self, ticket: Ticket, landing: Landing) {
        let length = landing.message.length.min(landing.room as u64);
        let (token, target) = (landing.message.token, landing.message.source >> 8);
        let start = landing.start;
        if let Some(multi) = landing.multi.and_then(|number| self.multi(number)) {
            multi.fetching += 1;
        }
        let number = self.operations.insert(Operation::Fetch(Box::new(Fetch {
            ticket,
            landing,
            source: None,
            ends: FetchEnd::Receive,
        })));
        if let Some(payload) = self.units.as_mut().and_then(|units| units.take_payload(target, token)) {
            return self.fetch_over_units(number, target, payload, length);
        }
        let command = Command {
            request: Request {
                kind: kind::GET,
                ack: ack::NONE,
                portal: PORTAL_TOKEN,
                initiator: self.interface.id() << 8,
                match_bits: token.into(),
                length,
                ..Request::default()
            },
            target,
            user_ptr: number as u64,
            source: Memory::NOWHERE,
            sink: Memory { start, queue: self.own_queue, ..Memory::NOWHERE },
        };
        match self.interface.deliver_now(&command, 0, None) {
            DirectOutcome::Done(delivery) => self.fetched(number, delivery.fail),
            DirectOutcome::OutOfReach => {
                if self.interface.start(&command).is_err() {
                    self.fetched(number, fail::UNDELIVERABLE);
                }
            }
            DirectOutcome::Memory => self.fetched(number, fail::SEGV),
            DirectOutcome::Gone | DirectOutcome::Full => self.fetched(number, fail::UNDELIVERABLE),
        }
    }

    /// Ends the fetch of a payload, with success or failure.
    pub(crate) fn fetched(&mut self, number: usize, failed: u8) {
        let Some(Operation::Fetch(fetch)) = self.operations.try_remove(number) else { return };
        let Fetch { ticket, landing, ends, .. } = *fetch;
        if let FetchEnd::HandIn(sender) = ends {
            return self.fetched_first(sender, landing.bytes.unwrap_or_default(), failed);
        }
        let error = match failed {
            fail::OK => {
                if let Some(bytes) = &landing.bytes {
                    // SAFETY: the program's pieces are writable, and `scatter` writes no more than they hold.
                    unsafe { scatter(bytes.as_ptr(), bytes.len(), &landing.pieces) };
                }
                0
            }
            fail::SEGV => EFAULT,
            _ => EHOSTDOWN,
        };
        if let FetchEnd::Deferred(work) = ends {
            return self.end_receive(work, &landing.message, error, false);
        }
        let start = landing.pieces.first().map_or(0, |piece| piece.iov_base as u64);
        self.arrived(landing.kind, &ticket, &landing.message, landing.room, start, error, true);
        if let Some(number) = landing.multi {
            if let Some(multi) = self.multi(number) {
                multi.fetching -= 1;
            }
            self.give_back(number);
        }
    }

    /// Ends a receive: the message has arrived, or `error` says why not.
    #[inline]
    pub(crate) fn arrived(
        &self,
        kind: Kind,
        ticket: &Ticket,
        message: &Arrived,
        room: usize,
        start: u64,
        error: c_int,
        count: bool,
    ) {
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
        if error != 0 || truncated != 0 {
            let error = if error != 0 { error } else { ETRUNC };
            if !count && error == ETRUNC {
                // The NIC has counted a success, which is taken back.
                self.take_back_count(ticket);
            }
            return self.fail(ticket, Side::Receive, entry, truncated, error);
        }
        // SAFETY: a receive that has not ended names an open endpoint.
        let names = unsafe { (*ticket.bindings).names_sources };
        let source = if names { self.peers.source_name(message.source) } else { ADDR_ANY };
        if count {
            self.complete(ticket, Side::Receive, entry, source);
        } else {
            self.complete_uncounted(ticket, Side::Receive, entry, source);
        }
    }

    /// A posted receive was filled, by its sender or from a ring.
    #[inline]
    pub(crate) fn receive_filled(&mut self, number: usize, message: &Arrived, start: u64, room: usize, error: c_int) {
        let Some(Operation::Receive(posted)) = self.operations.get(number) else { return };
        if posted.multi.is_some() {
            let ticket = posted.ticket;
            let (kind, counted) = (posted.kind, posted.counted);
            return self.arrived(kind, &ticket, message, room, start, error, !counted);
        }
        let Operation::Receive(posted) = self.operations.remove(number) else { return };
        let mut start = start;
        if let Some(scattered) = &posted.pieces {
            let Scattered { pieces, bytes } = &**scattered;
            // SAFETY: the program's pieces are writable. The message is in `bytes`, and no more than its length is
            // read.
            unsafe { scatter(bytes.as_ptr(), (message.length as usize).min(bytes.len()), pieces) };
            start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
        }
        self.arrived(posted.kind, &posted.ticket, message, room, start, error, !posted.counted);
    }

    /// Ends a plain receive.
    pub(crate) fn plain_arrived(
        &self,
        portal: u32,
        PlainReceive(user_ptr): PlainReceive,
        message: &Arrived,
        room: usize,
        start: u64,
        error: c_int,
    ) {
        let Some((bindings, kind)) = self.receiver(portal) else { return };
        let ticket = Ticket {
            bindings,
            context: PlainReceive::context(user_ptr),
            flags: RECV | kind.flag(),
            wanted: PlainReceive::is_wanted(user_ptr),
        };
        self.arrived(kind, &ticket, message, room, start, error, true);
    }

    /// The same for a message from a ring: its receive takes one message and has no counter.
    #[inline(always)]
    pub(crate) fn receive_taken(&mut self, number: usize, message: &Arrived, start: u64, room: usize) {
        let plain = matches!(self.operations.get(number), Some(Operation::Receive(posted)) if posted.pieces.is_none());
        if !plain || message.length > room as u64 {
            return self.receive_filled(number, message, start, room, 0);
        }
        let Operation::Receive(posted) = self.operations.remove(number) else { return };
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

    /// The record of a receive for many messages, if the operation is one.
    fn multi(&mut self, number: usize) -> Option<&mut Multi> {
        match self.operations.get_mut(number) {
            Some(Operation::Receive(posted)) => posted.multi.as_mut(),
            _ => None,
        }
    }

    /// Whether an operation is a receive for many messages.
    pub(crate) fn is_multi(&self, number: usize) -> bool {
        matches!(self.operations.get(number), Some(Operation::Receive(posted)) if posted.multi.is_some())
    }

    /// This message uses up a receive for many messages. Its completion says so, unless other payload is still being
    /// fetched.
    pub(crate) fn filled_up(&mut self, number: usize, message: &Arrived, start: u64, room: usize, error: c_int) {
        let is_alone = self.multi(number).is_some_and(|multi| multi.fetching == 0);
        if let (true, Some(Operation::Receive(posted))) = (is_alone, self.operations.get_mut(number)) {
            posted.ticket.flags |= MULTI_RECV;
        }
        self.receive_filled(number, message, start, room, error);
        match is_alone {
            true => drop(self.operations.remove(number)),
            false => self.receive_used_up(number),
        }
    }

    /// Marks a receive for many messages as used up.
    pub(crate) fn receive_used_up(&mut self, number: usize) {
        if let Some(multi) = self.multi(number) {
            multi.used_up = true;
        }
        self.give_back(number);
    }

    /// Gives the buffer of a receive for many messages back, if no more data can come into it.
    fn give_back(&mut self, number: usize) {
        if !self.multi(number).is_some_and(|multi| multi.used_up && multi.fetching == 0) {
            return;
        }
        let Operation::Receive(posted) = self.operations.remove(number) else { return };
        let entry = Completion { context: posted.ticket.context, flags: MULTI_RECV, ..Completion::default() };
        self.complete_uncounted(&posted.ticket, Side::Receive, entry, ADDR_ANY);
    }

    /// Cancels the operation with this context, which then ends with an error. Returns whether there was one.
    pub fn cancel(&mut self, bindings: *mut Bindings, context: *mut c_void) -> bool {
        // A message that has already come makes a completion first; it cannot be cancelled.
        self.progress();
        if let Some(ticket) = self.cancel_plain(bindings, context) {
            let entry = Completion { context, flags: ticket.flags, ..Completion::default() };
            self.fail(&ticket, Side::Receive, entry, 0, ECANCELED);
            return true;
        }
        if let Some(ticket) = self.cancel_refused(bindings, context) {
            self.fail(&ticket, Side::Transmit, ticket.completion(), 0, ECANCELED);
            return true;
        }
        let found = self.operations.iter().find_map(|(number, operation)| match operation {
            Operation::Receive(posted) if posted.ticket.bindings == bindings && posted.ticket.context == context => {
                Some((number, posted.entry, posted.ticket))
            }
            _ => None,
        });
        let Some((number, entry, ticket)) = found else { return false };
        if self.interface.lock().with_revocation(|nic| nic.lists().unlink(entry)).is_err() {
            // Its message has come, and the event is in the queue.
            return false;
        }
        self.operations.remove(number);
        let entry = Completion { context, flags: ticket.flags, ..Completion::default() };
        self.fail(&ticket, Side::Receive, entry, 0, ECANCELED);
        true
    }

    /// Unlinks the plain receive with this context.
    fn cancel_plain(&mut self, bindings: *mut Bindings, context: *mut c_void) -> Option<Ticket> {
        // SAFETY: the endpoint that the program cancels on is open.
        let index = unsafe { (*bindings).index };
        let mut nic = self.interface.lock();
        for kind in [Kind::Tagged, Kind::Plain] {
            for wanted in [true, false] {
                let PlainReceive(user_ptr) = PlainReceive::new(context, wanted)?;
                if nic.receives().unlink_by_user_ptr(kind.portal(index), user_ptr) {
                    return Some(Ticket { bindings, context, flags: RECV | kind.flag(), wanted });
                }
            }
        }
        None
    }
}
