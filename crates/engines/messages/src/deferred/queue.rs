// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of each kind of work.

use libc::iovec;
use selvedge_nic::arithmetic::Operation as Arithmetic;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{EntrySpec, ack, list, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use super::{WorkRecord, Works};
use crate::error::Refusal;
use crate::in_flight::InFlight;
use crate::message::{Message, token_entry};
use crate::own_nic::OwnNic;
use crate::pieces::{gather, total};
use crate::posted::ReceiveRequest;
use crate::ticket::{FOLLOWED, Kind, PORTAL_FETCH, PORTAL_READ, PORTAL_TOKEN, PORTAL_WRITE, Ticket};
use crate::transfer::{Atomic, Effect, Note, Transfer};
use crate::work::{Counted, Role, Work};

impl Works {
    /// Queues a change of a counter.
    pub fn defer_count(&mut self, flight: &mut InFlight, work: &Work, action: Action<'_>) -> Result<(), Refusal> {
        self.arm(&flight.nic, (work, None), &[action], (NONE, 0, &[]))
    }

    /// Queues a read or write.
    pub fn defer_transfer(
        &mut self,
        flight: &mut InFlight,
        work: &Work,
        transfer: &Transfer<'_>,
    ) -> Result<(), Refusal> {
        if transfer.remote.is_empty() || !transfer.fits() {
            return Err(Refusal::Invalid);
        }
        let (kind, portal) = if transfer.write { (kind::PUT, PORTAL_WRITE) } else { (kind::GET, PORTAL_READ) };
        let mut at = 0;
        let mut requests = Vec::with_capacity(transfer.remote.len());
        for piece in transfer.remote {
            let (match_bits, remote_offset, length) = (piece.key, piece.offset, piece.length as u64);
            requests.push((at, Request { kind, portal, match_bits, remote_offset, length, ..Request::default() }));
            at += length;
        }
        let (source, sink) = if transfer.write { (transfer.pieces, &[][..]) } else { (&[][..], transfer.pieces) };
        let note = transfer.note();
        self.defer_requests(flight, work, (&transfer.ticket, transfer.peer), &requests, (source, sink, note))
    }

    /// Queues an atomic operation.
    pub fn defer_atomic(&mut self, flight: &mut InFlight, work: &Work, atomic: &Atomic<'_>) -> Result<(), Refusal> {
        let size = atomic.datatype.size_bytes();
        let bytes: usize = atomic.remote.iter().map(|piece| piece.length).sum();
        let compares = matches!(atomic.effect, Effect::Swap(_));
        let fetches = !atomic.results.is_empty();
        if !atomic.fits() {
            return Err(Refusal::Invalid);
        }
        let mut comparands = vec![0u8; if compares { bytes } else { 0 }];
        if compares {
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(atomic.comparands, comparands.as_mut_ptr()) };
        }
        let (kind, portal, operation) = match (atomic.effect, fetches) {
            (Effect::Read, _) => (kind::GET, PORTAL_READ, 0),
            (Effect::Write, false) => (kind::PUT, PORTAL_WRITE, 0),
            (Effect::Write, true) => (kind::SWAP, PORTAL_FETCH, Arithmetic::Swap as u8),
            (Effect::Compute(what), false) => (kind::ATOMIC, PORTAL_WRITE, what as u8),
            (Effect::Compute(what), true) => (kind::FETCH_ATOMIC, PORTAL_FETCH, what as u8),
            (Effect::Swap(what), _) => (kind::SWAP, PORTAL_FETCH, what as u8),
        };
        let step = if compares { size } else { usize::MAX };
        let mut requests = Vec::new();
        let mut done = 0;
        for piece in atomic.remote {
            let mut at = 0;
            while at < piece.length {
                let length = (piece.length - at).min(step);
                let mut request = Request {
                    kind,
                    portal,
                    operation,
                    datatype: atomic.datatype as u8,
                    match_bits: piece.key,
                    remote_offset: piece.offset + at as u64,
                    length: length as u64,
                    ..Request::default()
                };
                if compares {
                    let mut comparand = [0u8; 32];
                    comparand[..size].copy_from_slice(&comparands[done..done + size]);
                    for (word, eight) in request.operand.iter_mut().zip(comparand.chunks_exact(8)) {
                        *word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
                    }
                }
                requests.push((done as u64, request));
                at += length;
                done += length;
            }
        }
        let source = if atomic.effect == Effect::Read { &[] } else { atomic.operands };
        self.defer_requests(flight, work, (&atomic.ticket, atomic.peer), &requests, (source, atomic.results, None))
    }

    /// Queues requests, each with the offset of its bytes in our memory.
    fn defer_requests(
        &mut self,
        flight: &mut InFlight,
        work: &Work,
        (ticket, peer): (&Ticket, u32),
        requests: &[(u64, Request)],
        (source, sink, note): (&[iovec], &[iovec], Option<Note>),
    ) -> Result<(), Refusal> {
        let peer = flight.peers.get(peer).map(|peer| (peer.id, peer.owner));
        let target = peer.ok_or(Refusal::Invalid)?;
        let chained = (requests.len() > 1 && work.counter != NONE) || note.is_some();
        let counted = if chained { Counted::From(requests.len() as u64) } else { Counted::Always };
        let events = requests.len() as u32 + u32::from(note.is_some());
        let record = WorkRecord { counted, target, role: Role::Transfer { note: None } };
        let number = self.begin(flight, work, ticket, (events, chained), record)?;
        let hidden = flight.operations.hidden_counter(number);
        let memory = (flight.memory_of_work(number, source), flight.memory_of_work(number, sink));
        let (Some(source), Some(sink)) = memory else {
            self.release(flight, number);
            return Err(Refusal::NoRoom);
        };
        let (counter, once) = match chained {
            true => (hidden, options::MD_FAILURES_UNCOUNTED),
            false => (work.counter, 0),
        };
        let counts = if counter == NONE { 0 } else { options::MD_EVENT_CT_ACK | options::MD_EVENT_CT_REPLY | once };
        let command = |(index, &(at, request)): (usize, &(u64, Request))| {
            let reported = |side: Memory| Memory {
                start: side.start + at,
                options: options::MD_EVENT_SEND_DISABLE | counts,
                queue: flight.nic.own_queue,
                counter,
                ..side
            };
            let unreported =
                |side: Memory| Memory { start: side.start + at, options: options::MD_EVENT_SEND_DISABLE, ..side };
            let (source, sink) = match request.kind {
                kind::PUT | kind::ATOMIC => (reported(source), Memory::NOWHERE),
                kind::GET => (Memory::NOWHERE, reported(sink)),
                _ => (unreported(source), reported(sink)),
            };
            let followed = if index + 1 < requests.len() { FOLLOWED } else { 0 };
            let request = Request { ack: ack::FULL, initiator: flight.nic.interface.id() << 8 | followed, ..request };
            Command { request, target: target.0, user_ptr: number as u64, source, sink }
        };
        let commands: Vec<Command> = requests.iter().enumerate().map(command).collect();
        let note = note.map(|note| note_command(&flight.nic, ticket, (number, target.0), &note));
        if let Some(deferred) = flight.operations.work(number) {
            deferred.role = Role::Transfer { note };
        }
        let mut chain = Vec::new();
        if chained && work.counter != NONE {
            chain.push(Action::CounterIncrement { counter: work.counter, success: 1, failure: 0 });
        }
        chain.extend(note.as_ref().map(Action::Command));
        let actions: Vec<Action<'_>> = commands.iter().map(Action::Command).collect();
        let armed = self.arm(&flight.nic, (work, Some(number)), &actions, (hidden, requests.len() as u64, &chain));
        if armed.is_err() {
            self.release(flight, number);
        }
        armed
    }

    /// Queues a send.
    pub fn defer_send(&mut self, flight: &mut InFlight, work: &Work, message: &Message<'_>) -> Result<(), Refusal> {
        let peer = flight.peers.get(message.peer).map(|peer| (peer.id, peer.owner));
        let target = peer.ok_or(Refusal::Invalid)?;
        let length = total(message.pieces);
        let large = length > flight.peers.ring_max().max(1);
        let chained = large && work.counter != NONE;
        let counted = if chained { Counted::From(1) } else { Counted::Successes };
        let role = Role::Send { command: Command::default(), waits: false, fetched: false };
        let events = 1 + u32::from(large);
        let record = WorkRecord { counted, target, role };
        let number = self.begin(flight, work, &message.ticket, (events, chained), record)?;
        let hidden = flight.operations.hidden_counter(number);
        let token = if large { flight.operations.new_token() } else { 0 };
        let entry = if large { offer_payload(&flight.nic, (number, token), message.pieces, hidden) } else { None };
        let memory = flight.memory_of_work(number, message.pieces);
        let Some(memory) = memory.filter(|_| entry.is_some() == large) else {
            flight.nic.unlink(entry);
            self.release(flight, number);
            return Err(Refusal::NoRoom);
        };
        let (counter, in_bytes) = if chained { (hidden, options::MD_EVENT_CT_BYTES) } else { (work.counter, 0) };
        let counts = match counter {
            NONE => 0,
            _ => options::MD_EVENT_CT_ACK | options::MD_FAILURES_UNCOUNTED | in_bytes,
        };
        let command = Command {
            request: flight.request(message, length, token),
            target: target.0,
            user_ptr: number as u64,
            source: Memory {
                options: options::MD_EVENT_SEND_DISABLE | counts,
                queue: flight.nic.own_queue,
                counter,
                ..memory
            },
            sink: Memory::NOWHERE,
        };
        if let Some(deferred) = flight.operations.work(number) {
            deferred.entry = entry;
            deferred.role = Role::Send { command, waits: false, fetched: false };
        }
        let adds = [Action::CounterIncrement { counter: work.counter, success: 1, failure: 0 }];
        let chain = if chained { &adds[..] } else { &[] };
        let armed = self.arm(&flight.nic, (work, Some(number)), &[Action::Command(&command)], (hidden, 1, chain));
        if armed.is_err() {
            self.release(flight, number);
        }
        armed
    }

    /// Queues a receive.
    pub fn defer_receive(
        &mut self,
        flight: &mut InFlight,
        work: &Work,
        wanted: &ReceiveRequest<'_>,
    ) -> Result<(), Refusal> {
        // SAFETY: an endpoint outlives its works (`Works::forget_endpoint`). The core is borrowed, so this thread holds the
        // domain's lock, and no other thread changes the endpoint.
        let portal = wanted.kind.portal(unsafe { (*wanted.ticket.bindings).index });
        let spec = EntrySpec {
            // The entry counts even without a counter, so the NIC always delivers the message and posts an event.
            options: options::OP_PUT
                | options::USE_ONCE
                | options::EVENT_LINK_DISABLE
                | options::EVENT_UNLINK_DISABLE
                | options::EVENT_CT_COMM,
            start: wanted.pieces.first().map_or(0, |piece| piece.iov_base as u64),
            length: total(wanted.pieces) as u64,
            user_ptr: flight.operations.next_number() as u64,
            counter: work.counter,
            ..wanted.entry()
        };
        let role = Role::Receive { kind: wanted.kind, pieces: wanted.pieces.into(), spec, message: None };
        let record = WorkRecord { counted: Counted::Always, target: (0, 0), role };
        let number = self.begin(flight, work, &wanted.ticket, (1, false), record)?;
        let Some(spec) = flight.nic.with_vector(spec, wanted.pieces) else {
            self.release(flight, number);
            return Err(Refusal::NoRoom);
        };
        let entry = {
            let mut nic = flight.nic.interface.lock();
            // An entry is reserved only if its linking can be armed, because nothing else frees it.
            let entry = nic.triggered().has_free_record().then(|| nic.lists().reserve(portal, &spec).ok()).flatten();
            if entry.is_none() {
                nic.heap().free_iov(spec.iov);
            }
            entry
        };
        let Some(entry) = entry else {
            self.release(flight, number);
            return Err(Refusal::NoRoom);
        };
        if let Some(deferred) = flight.operations.work(number) {
            deferred.entry = Some(entry);
        }
        let armed = self.arm(
            &flight.nic,
            (work, Some(number)),
            &[Action::Receive { entry, queue: flight.nic.own_queue }],
            (NONE, 0, &[]),
        );
        if armed.is_err() {
            self.release(flight, number);
        }
        armed
    }
}

/// The command that notifies the target's program of a write.
fn note_command(nic: &OwnNic, ticket: &Ticket, (number, target): (usize, u64), note: &Note) -> Command {
    // SAFETY: an endpoint outlives its works (`Works::forget_endpoint`). The core is borrowed, so this thread holds the
    // domain's lock, and no other thread changes the endpoint.
    let own = unsafe { (*ticket.bindings).index };
    let request = Request {
        kind: kind::PUT,
        ack: ack::FULL,
        portal: Kind::Note.portal(note.endpoint),
        uid: 1,
        initiator: nic.source(own),
        match_bits: note.bytes,
        header_data: note.data,
        ..Request::default()
    };
    let source = Memory { options: options::MD_EVENT_SEND_DISABLE, queue: nic.own_queue, ..Memory::NOWHERE };
    Command { request, target, user_ptr: number as u64, source, sink: Memory::NOWHERE }
}

/// Links an entry through which the target fetches a send's payload. The fetch counts at the hidden counter.
fn offer_payload(nic: &OwnNic, (number, token): (usize, u32), pieces: &[iovec], hidden: u32) -> Option<u32> {
    let start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
    let mut spec = token_entry(token, start, total(pieces), number);
    if hidden != NONE {
        spec.options |= options::EVENT_CT_COMM;
        spec.counter = hidden;
    }
    let spec = nic.with_vector(spec, pieces)?;
    let entry = nic.append(PORTAL_TOKEN, list::PRIORITY, &spec);
    if entry.is_none() {
        nic.interface.lock().heap().free_iov(spec.iov);
    }
    entry
}
