// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Receives: posted, met by unexpected messages, cancelled.

use std::ffi::{c_int, c_void};

use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::append::AppendError;
use selvedge_nic::portals::{EntrySpec, Event, Posted as Linked, ack, fail, options};
use selvedge_nic::tables::{Command, Header, Request, Side as Memory, kind};
use selvedge_shm::direct::Told;

use super::receives::{Receive as Private, Tells};
use super::send::own_entry;
use super::{Core, Kind, Operation, PORTAL_TOKEN, Side, Ticket, scatter, total};
use crate::completion::Completion;
use crate::constants::*;
use crate::endpoint::Endpoint;
use crate::ffi::{fi_cq_tagged_entry, iovec};

/// A receive as a program hands it over.
#[derive(Clone, Copy)]
pub struct Wanted<'a> {
    pub kind: Kind,
    /// The sender's number for itself, or any.
    pub source: Option<u64>,
    pub tag: u64,
    pub ignore: u64,
    pub pieces: &'a [iovec],
    pub ticket: Ticket,
    /// The buffer takes messages until less than this is left.
    pub multi: Option<usize>,
}

impl Wanted<'_> {
    /// Whether a message of this tag, from there, is what is wanted.
    pub(super) fn accepts(&self, tag: u64, source: u64) -> bool {
        (self.tag ^ tag) & !self.ignore == 0 && self.source.is_none_or(|wanted| wanted == source)
    }

    /// The entry that matches what is wanted, over no memory: where that is, and what is told, its user says.
    #[inline]
    pub(super) fn entry(&self) -> EntrySpec {
        EntrySpec {
            options: options::OP_PUT,
            start: 0,
            length: u64::MAX,
            iov: NONE,
            iov_count: 0,
            match_bits: self.tag,
            ignore_bits: self.ignore,
            source: self.source.unwrap_or(0),
            source_ignore: if self.source.is_some() { 0 } else { u64::MAX },
            min_free: 0,
            user_ptr: 0,
            counter: NONE,
            uid: u32::MAX,
        }
    }
}

/// Where a receive waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// With its owner, if it can.
    Any,
    Nic,
}

/// A receive that waits for its message.
pub struct Posted {
    pub ticket: Ticket,
    pub entry: u32,
    pub kind: Kind,
    /// Where the message is to go in the end, when that is in several pieces; it arrives in `bytes`.
    pieces: Option<Box<Scattered>>,
    /// Of a receive that takes many messages.
    multi: Option<Multi>,
    counted: bool,
}

/// The buffer of a receive that takes many messages goes back when none is to come and those that it took are in place.
#[derive(Clone, Copy, Default)]
struct Multi {
    used_up: bool,
    /// Messages whose payload is still being fetched.
    fetching: u32,
}

/// A receive's pieces, and one piece as long as all of them.
struct Scattered {
    pieces: Box<[iovec]>,
    bytes: Box<[u8]>,
}

/// A message whose payload is being fetched by a packet.
pub struct Fetch {
    pub ticket: Ticket,
    landing: Landing,
}

/// What is known of a message that has come.
#[derive(Clone, Copy, Debug)]
pub struct Arrived {
    pub tag: u64,
    pub data: Option<u64>,
    pub source: u64,
    /// Its length as sent.
    pub length: u64,
    /// Under which its sender keeps the payload; 0: it does not.
    pub(super) token: u32,
}

impl Arrived {
    pub(super) fn of(header: &Header) -> Arrived {
        Arrived {
            tag: header.match_bits,
            data: (header.uid & 1 != 0).then_some(header.header_data),
            source: header.source,
            length: header.rlength,
            token: header.token,
        }
    }

    pub(super) fn new(tag: u64, data: Option<u64>, source: u64, length: u64) -> Arrived {
        Arrived { tag, data, source, length, token: 0 }
    }

    pub(super) fn of_event(event: &Event) -> Arrived {
        let data = (event.uid & 1 != 0).then_some(event.header_data);
        Arrived::new(event.match_bits, data, event.initiator, event.rlength)
    }
}

/// Where a message goes.
pub(super) struct Landing {
    pub message: Arrived,
    pub kind: Kind,
    /// Room of the receive.
    pub room: usize,
    pub pieces: Box<[iovec]>,
    /// In one piece, where the program's are several.
    pub bytes: Option<Box<[u8]>>,
    pub start: u64,
    /// The receive that takes many messages, this one among them.
    pub multi: Option<usize>,
}

impl Core {
    /// Posts a receive: 0, or an error (negative).
    pub fn receive(&mut self, wanted: &Wanted<'_>) -> isize {
        if self.kept.get() != self.seen {
            self.look_again();
        }
        self.post(wanted, Place::Any)
    }

    /// Posts a receive at the NIC, or, where it can and the program has not seen it posted yet, privately.
    pub(super) fn post(&mut self, wanted: &Wanted<'_>, place: Place) -> isize {
        // SAFETY: an endpoint that is open.
        let (index, counter, is_heard) = unsafe {
            let endpoint = &*wanted.ticket.endpoint;
            let counter = endpoint.counter_for(wanted.ticket.flags);
            let counter = if counter.is_null() { NONE } else { (*counter).reference };
            (endpoint.index, counter, wanted.ticket.wanted && !endpoint.rx_queue.is_null())
        };
        let portal = wanted.kind.portal(index);
        let mut private = None;
        if place == Place::Any {
            let early = self.fronts.get(portal).is_some_and(|front| !front.early().is_empty());
            let waits = early && wanted.multi.is_none();
            if waits && self.meet_early_wanted(portal, wanted).is_some() {
                return 0;
            }
            let room = total(wanted.pieces);
            if counter == NONE && wanted.multi.is_none() && wanted.pieces.len() <= 1 && room <= self.lane_max {
                let start = wanted.pieces.first().map_or(0, |piece| piece.iov_base as u64);
                let (bits, context) = ((wanted.tag, wanted.ignore), wanted.ticket.context);
                let receive = Private::new(bits, wanted.source, start, room, context, Tells::new(is_heard));
                if !self.is_met_in_place(&receive) {
                    if self.keep(portal, receive) {
                        return 0;
                    }
                    private = self.may_open_front(portal).then_some(receive);
                }
            }
            if self.fronts.is_open(portal) {
                self.close_front(portal);
            }
        }
        let mut pieces = None;
        let (start, length) = match wanted.pieces {
            [] => (0, 0),
            [piece] => (piece.iov_base as u64, piece.iov_len as u64),
            several => {
                let mut bytes = vec![0u8; total(several)].into_boxed_slice();
                let place = (bytes.as_mut_ptr() as u64, bytes.len() as u64);
                pieces = Some(Box::new(Scattered { pieces: several.into(), bytes }));
                place
            }
        };
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
        let spec = EntrySpec {
            options: flags,
            start,
            length,
            min_free,
            user_ptr: slot.key() as u64,
            counter,
            ..wanted.entry()
        };
        if wanted.multi.is_some() {
            return self.receive_many(wanted, &spec, portal);
        }
        let posted = {
            let mut nic = self.interface.lock();
            match (private, self.fronts.get_mut(portal)) {
                (Some(receive), Some(front)) if nic.is_idle(portal) && self.kept.get() == self.seen => {
                    front.open_with(receive, self.lane_max);
                    return 0;
                }
                _ => nic.post_receive(&mut NoMemory, portal, &spec),
            }
        };
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
                0
            }
            Ok(Linked::Met(found)) => {
                self.meet(wanted.kind, &wanted.ticket, wanted.pieces, found, None);
                0
            }
            Err(AppendError::Portal) => -(EOPBADSTATE as isize),
            Err(_) => -(EAGAIN as isize),
        }
    }

    /// A receive that takes many messages: first those that are there.
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
            if let Some(taken) = self.meet_early_wanted(portal, &Wanted { pieces: &rest, ..*wanted }) {
                spec.start += taken as u64;
                spec.length -= taken as u64;
                has_taken = true;
                continue;
            }
            let posted = self.interface.lock().post_receive(&mut NoMemory, portal, &spec);
            match posted {
                Ok(Linked::Linked(entry)) => {
                    if let Operation::Receive(posted) = &mut self.operations[number] {
                        posted.entry = entry;
                    }
                    return 0;
                }
                Ok(Linked::Met(found)) => {
                    let taken = self.meet(wanted.kind, &wanted.ticket, &rest, found, Some(number)) as u64;
                    spec.start += taken;
                    spec.length -= taken;
                    has_taken = true;
                }
                // What the program was told of stays; it gets the rest of its buffer back.
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

    /// A receive that an unexpected message has waited for; the bytes that it took.
    fn meet(&mut self, kind: Kind, ticket: &Ticket, pieces: &[iovec], found: u32, multi: Option<usize>) -> usize {
        let room = total(pieces);
        let mut nic = self.interface.lock();
        let Some(header) = nic.unexpected(found) else { return 0 };
        let message = Arrived::of(header);
        let taken = (message.length as usize).min(room);
        if message.token == 0 {
            let held = (header.mlength as usize).min(room);
            // SAFETY: the payload lies in one of our buffers until the header is dropped; the pieces are the program's.
            unsafe { scatter(header.start as *const u8, held, pieces) };
            // What could not be put into the buffer is not there.
            let error = if header.mlength < header.rlength { EFAULT } else { 0 };
            nic.drop_unexpected(found);
            drop(nic);
            let start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
            self.arrived(kind, ticket, &message, room, start, error, true);
            return taken;
        }
        nic.drop_unexpected(found);
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
    pub(super) fn fetch(&mut self, ticket: Ticket, landing: Landing) {
        let length = landing.message.length.min(landing.room as u64);
        let (token, target) = (landing.message.token, landing.message.source >> 8);
        let start = landing.start;
        if let Some(multi) = landing.multi.and_then(|number| self.multi(number)) {
            multi.fetching += 1;
        }
        let number = self.operations.insert(Operation::Fetch(Box::new(Fetch { ticket, landing })));
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
            Told::Done(delivery) => self.fetched(number, delivery.fail),
            Told::Elsewhere => {
                if self.interface.start(&command).is_err() {
                    self.fetched(number, fail::UNDELIVERABLE);
                }
            }
            Told::Memory => self.fetched(number, fail::SEGV),
            Told::Gone | Told::Full => self.fetched(number, fail::UNDELIVERABLE),
        }
    }

    /// A message's payload has come, or never will.
    pub(super) fn fetched(&mut self, number: usize, failed: u8) {
        let Some(Operation::Fetch(fetch)) = self.operations.try_remove(number) else { return };
        let Fetch { ticket, landing } = *fetch;
        let error = match failed {
            fail::OK => {
                if let Some(bytes) = &landing.bytes {
                    // SAFETY: the program's pieces, whose room the bytes do not exceed.
                    unsafe { scatter(bytes.as_ptr(), bytes.len(), &landing.pieces) };
                }
                0
            }
            fail::SEGV => EFAULT,
            _ => EHOSTDOWN,
        };
        let start = landing.pieces.first().map_or(0, |piece| piece.iov_base as u64);
        self.arrived(landing.kind, &ticket, &landing.message, landing.room, start, error, true);
        if let Some(number) = landing.multi {
            if let Some(multi) = self.multi(number) {
                multi.fetching -= 1;
            }
            self.give_back(number);
        }
    }

    /// Ends a receive: its message is in place, or `error` says why not.
    #[inline]
    pub(super) fn arrived(
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
        let entry = fi_cq_tagged_entry {
            op_context: ticket.context,
            flags: ticket.flags | if message.data.is_some() { REMOTE_CQ_DATA } else { 0 },
            len: taken,
            buf: start as *mut c_void,
            data: message.data.unwrap_or(0),
            tag: if kind == Kind::Tagged { message.tag } else { 0 },
        };
        let truncated = (message.length as usize).saturating_sub(room);
        if error != 0 || truncated != 0 {
            let error = if error != 0 { error } else { ETRUNC };
            if !count && error == ETRUNC {
                // The NIC has counted it as a success.
                self.take_back_count(ticket);
            }
            return self.fail(ticket, Side::Receive, entry, truncated, error);
        }
        // SAFETY: an endpoint that is open.
        let names = unsafe { (*ticket.endpoint).names_sources };
        let source = if names { self.source_name(message.source) } else { ADDR_ANY };
        if count {
            self.complete(ticket, Side::Receive, entry, source);
        } else {
            self.complete_uncounted(ticket, Side::Receive, entry, source);
        }
    }

    /// A message has been put into a posted receive, by its sender or from a lane.
    #[inline]
    pub(super) fn receive_filled(&mut self, number: usize, message: &Arrived, start: u64, room: usize, error: c_int) {
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
            // SAFETY: the program's pieces; the message arrived in `bytes`.
            unsafe { scatter(bytes.as_ptr(), (message.length as usize).min(bytes.len()), pieces) };
            start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
        }
        self.arrived(posted.kind, &posted.ticket, message, room, start, error, !posted.counted);
    }

    /// The same for a message from a lane: its receive takes one message and is counted by nobody.
    #[inline(always)]
    pub(super) fn receive_taken(&mut self, number: usize, message: &Arrived, start: u64, room: usize) {
        let plain = matches!(self.operations.get(number), Some(Operation::Receive(posted)) if posted.pieces.is_none());
        if !plain || message.length > room as u64 {
            return self.receive_filled(number, message, start, room, 0);
        }
        let Operation::Receive(posted) = self.operations.remove(number) else { return };
        let ticket = &posted.ticket;
        // SAFETY: an endpoint that is open, and the queue that it is bound to.
        unsafe {
            let endpoint = &*ticket.endpoint;
            if !ticket.wanted || endpoint.rx_queue.is_null() {
                return;
            }
            let entry = fi_cq_tagged_entry {
                op_context: ticket.context,
                flags: ticket.flags | if message.data.is_some() { REMOTE_CQ_DATA } else { 0 },
                len: message.length as usize,
                buf: start as *mut c_void,
                data: message.data.unwrap_or(0),
                tag: if posted.kind == Kind::Tagged { message.tag } else { 0 },
            };
            let source = if endpoint.names_sources { self.source_name(message.source) } else { ADDR_ANY };
            (*endpoint.rx_queue).push(Completion { entry, source });
        }
    }

    /// What an operation has of a receive that takes many messages, if it is one.
    fn multi(&mut self, number: usize) -> Option<&mut Multi> {
        match self.operations.get_mut(number) {
            Some(Operation::Receive(posted)) => posted.multi.as_mut(),
            _ => None,
        }
    }

    /// Whether an operation is a receive that takes many messages.
    pub(super) fn is_multi(&self, number: usize) -> bool {
        matches!(self.operations.get(number), Some(Operation::Receive(posted)) if posted.multi.is_some())
    }

    /// A receive that takes many messages is used up by this one, whose completion says so, unless others are still to be
    /// fetched.
    pub(super) fn filled_up(&mut self, number: usize, message: &Arrived, start: u64, room: usize, error: c_int) {
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

    /// A receive that takes many messages is used up.
    pub(super) fn receive_used_up(&mut self, number: usize) {
        if let Some(multi) = self.multi(number) {
            multi.used_up = true;
        }
        self.give_back(number);
    }

    /// Gives the buffer of a receive for many messages back, if nothing is to come into it any more.
    fn give_back(&mut self, number: usize) {
        if !self.multi(number).is_some_and(|multi| multi.used_up && multi.fetching == 0) {
            return;
        }
        let Operation::Receive(posted) = self.operations.remove(number) else { return };
        let entry = fi_cq_tagged_entry { op_context: posted.ticket.context, flags: MULTI_RECV, ..Default::default() };
        self.complete_uncounted(&posted.ticket, Side::Receive, entry, ADDR_ANY);
    }

    /// Cancels what was handed over with this context: true if there was such a thing, which then ends with an error.
    pub fn cancel(&mut self, endpoint: *mut Endpoint, context: *mut c_void) -> bool {
        // What has come is a completion, not something to be cancelled.
        self.progress();
        if let Some(ticket) = self.cancel_privately(endpoint, context) {
            let entry = fi_cq_tagged_entry { op_context: context, flags: ticket.flags, ..Default::default() };
            self.fail(&ticket, Side::Receive, entry, 0, ECANCELED);
            return true;
        }
        if let Some(ticket) = self.cancel_kept(endpoint, context) {
            self.fail(&ticket, Side::Transmit, own_entry(&ticket), 0, ECANCELED);
            return true;
        }
        let found = self.operations.iter().find_map(|(number, operation)| match operation {
            Operation::Receive(posted) if posted.ticket.endpoint == endpoint && posted.ticket.context == context => {
                Some((number, posted.entry, posted.ticket))
            }
            _ => None,
        });
        let Some((number, entry, ticket)) = found else { return false };
        if self.interface.lock().unlink(entry).is_err() {
            // Its message has come: the event is on its way.
            return false;
        }
        self.operations.remove(number);
        let entry = fi_cq_tagged_entry { op_context: context, flags: ticket.flags, ..Default::default() };
        self.fail(&ticket, Side::Receive, entry, 0, ECANCELED);
        true
    }
}
