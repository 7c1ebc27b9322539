// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The commands of each kind of work.

use std::ffi::c_int;

use libc::iovec;
use selvedge_nic::arithmetic::Operation as Arithmetic;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{EntrySpec, ack, list, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use crate::flags::{EAGAIN, EINVAL};
use crate::message::{Message, token_entry};
use crate::operation::Operation;
use crate::pieces::{gather, total};
use crate::posted::Wanted;
use crate::ticket::{FOLLOWED, Kind, PORTAL_FETCH, PORTAL_READ, PORTAL_TOKEN, PORTAL_WRITE, Ticket};
use crate::transfer::{Atomic, Effect, Note, Transfer};
use crate::transport::Transport;
use crate::work::{Counted, Role, Work};

impl Transport {
    /// Queues a change of a counter. Returns 0 or a negative error.
    pub fn defer_count(&mut self, work: &Work, action: Action<'_>) -> c_int {
        self.arm(work, None, &[action], (NONE, 0, &[]))
    }

    /// Queues a read or write.
    pub fn defer_transfer(&mut self, work: &Work, transfer: &Transfer<'_>) -> c_int {
        let there: u64 = transfer.remote.iter().map(|piece| piece.length as u64).sum();
        if transfer.remote.is_empty() || total(transfer.pieces) as u64 != there {
            return -EINVAL;
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
        self.defer_requests(work, &transfer.ticket, transfer.peer, &requests, (source, sink), transfer.note())
    }

    /// Queues an atomic operation.
    pub fn defer_atomic(&mut self, work: &Work, atomic: &Atomic<'_>) -> c_int {
        let size = atomic.datatype.size_bytes();
        let bytes: usize = atomic.remote.iter().map(|piece| piece.length).sum();
        let wrong = |pieces: &[iovec]| total(pieces) != bytes;
        let compares = matches!(atomic.effect, Effect::Swap(_));
        let fetches = !atomic.results.is_empty();
        if bytes == 0
            || (atomic.effect != Effect::Read && wrong(atomic.operands))
            || (fetches && wrong(atomic.results))
            || (compares && wrong(atomic.comparands))
        {
            return -EINVAL;
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
        self.defer_requests(work, &atomic.ticket, atomic.peer, &requests, (source, atomic.results), None)
    }

    /// Queues requests, each with the offset of its bytes in our memory.
    fn defer_requests(
        &mut self,
        work: &Work,
        ticket: &Ticket,
        peer: u32,
        requests: &[(u64, Request)],
        (source, sink): (&[iovec], &[iovec]),
        note: Option<Note>,
    ) -> c_int {
        let Some(target) = self.peers.get(peer).map(|peer| (peer.id, peer.owner)) else { return -EINVAL };
        let chained = (requests.len() > 1 && work.counter != NONE) || note.is_some();
        let counted = if chained { Counted::From(requests.len() as u64) } else { Counted::Always };
        let events = requests.len() as u32 + u32::from(note.is_some());
        let role = Role::Transfer { note: None };
        let number = match self.begin_work(work, ticket, events, chained, counted, target, role) {
            Ok(number) => number,
            Err(error) => return -error,
        };
        let hidden = self.hidden(number);
        let (Some(source), Some(sink)) = (self.memory(number, source), self.memory(number, sink)) else {
            self.release_work(number);
            return -EAGAIN;
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
                queue: self.own_queue,
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
            let request = Request { ack: ack::FULL, initiator: self.interface.id() << 8 | followed, ..request };
            Command { request, target: target.0, user_ptr: number as u64, source, sink }
        };
        let commands: Vec<Command> = requests.iter().enumerate().map(command).collect();
        let note = note.map(|note| self.note_command(ticket, number, target.0, &note));
        if let Some(Operation::Deferred(deferred)) = self.operations.get_mut(number) {
            deferred.role = Role::Transfer { note };
        }
        let mut chain = Vec::new();
        if chained && work.counter != NONE {
            chain.push(Action::CounterIncrement { counter: work.counter, success: 1, failure: 0 });
        }
        chain.extend(note.as_ref().map(Action::Command));
        let actions: Vec<Action<'_>> = commands.iter().map(Action::Command).collect();
        let armed = self.arm(work, Some(number), &actions, (hidden, requests.len() as u64, &chain));
        if armed != 0 {
            self.release_work(number);
        }
        armed
    }

    /// The command that notifies the target's program of a write.
    fn note_command(&self, ticket: &Ticket, number: usize, target: u64, note: &Note) -> Command {
        // SAFETY: an endpoint outlives its works (`close_works`). The core is borrowed, so this thread holds the
        // domain's lock, and no other thread changes the endpoint.
        let own = unsafe { (*ticket.bindings).index };
        let request = Request {
            kind: kind::PUT,
            ack: ack::FULL,
            portal: Kind::Note.portal(note.endpoint),
            uid: 1,
            initiator: self.source(own),
            match_bits: note.bytes,
            header_data: note.data,
            ..Request::default()
        };
        let source = Memory { options: options::MD_EVENT_SEND_DISABLE, queue: self.own_queue, ..Memory::NOWHERE };
        Command { request, target, user_ptr: number as u64, source, sink: Memory::NOWHERE }
    }

    /// Queues a send.
    pub fn defer_send(&mut self, work: &Work, message: &Message<'_>) -> c_int {
        let Some(target) = self.peers.get(message.peer).map(|peer| (peer.id, peer.owner)) else {
            return -EINVAL;
        };
        let length = total(message.pieces);
        let large = length > self.peers.ring_max().max(1);
        let chained = large && work.counter != NONE;
        let counted = if chained { Counted::From(1) } else { Counted::Successes };
        let role = Role::Send { command: Command::default(), waits: false, fetched: false };
        let events = 1 + u32::from(large);
        let number = match self.begin_work(work, &message.ticket, events, chained, counted, target, role) {
            Ok(number) => number,
            Err(error) => return -error,
        };
        let hidden = self.hidden(number);
        let token = if large { self.new_token() } else { 0 };
        let entry = if large { self.offer_payload(number, token, message.pieces, hidden) } else { None };
        let memory = self.memory(number, message.pieces);
        let Some(memory) = memory.filter(|_| entry.is_some() == large) else {
            self.unlink(entry);
            self.release_work(number);
            return -EAGAIN;
        };
        let (counter, in_bytes) = if chained { (hidden, options::MD_EVENT_CT_BYTES) } else { (work.counter, 0) };
        let counts = match counter {
            NONE => 0,
            _ => options::MD_EVENT_CT_ACK | options::MD_FAILURES_UNCOUNTED | in_bytes,
        };
        let command = Command {
            request: self.request(message, length, token),
            target: target.0,
            user_ptr: number as u64,
            source: Memory {
                options: options::MD_EVENT_SEND_DISABLE | counts,
                queue: self.own_queue,
                counter,
                ..memory
            },
            sink: Memory::NOWHERE,
        };
        if let Some(Operation::Deferred(deferred)) = self.operations.get_mut(number) {
            deferred.entry = entry;
            deferred.role = Role::Send { command, waits: false, fetched: false };
        }
        let adds = [Action::CounterIncrement { counter: work.counter, success: 1, failure: 0 }];
        let chain = if chained { &adds[..] } else { &[] };
        let armed = self.arm(work, Some(number), &[Action::Command(&command)], (hidden, 1, chain));
        if armed != 0 {
            self.release_work(number);
        }
        armed
    }

    /// Links an entry through which the target fetches a send's payload. The fetch counts at the hidden counter.
    fn offer_payload(&mut self, number: usize, token: u32, pieces: &[iovec], hidden: u32) -> Option<u32> {
        let start = pieces.first().map_or(0, |piece| piece.iov_base as u64);
        let mut spec = token_entry(token, start, total(pieces), number);
        if hidden != NONE {
            spec.options |= options::EVENT_CT_COMM;
            spec.counter = hidden;
        }
        let spec = self.with_vector(spec, pieces)?;
        let entry = self.append(PORTAL_TOKEN, list::PRIORITY, &spec);
        if entry.is_none() {
            self.interface.lock().heap().free_iov(spec.iov);
        }
        entry
    }

    /// Queues a receive.
    pub fn defer_receive(&mut self, work: &Work, wanted: &Wanted<'_>) -> c_int {
        // SAFETY: an endpoint outlives its works (`close_works`). The core is borrowed, so this thread holds the
        // domain's lock, and no other thread changes the endpoint.
        let portal = wanted.kind.portal(unsafe { (*wanted.ticket.bindings).index });
        let spec = EntrySpec {
            // The entry counts even without a counter, so the NIC always delivers the message itself and posts an
            // event.
            options: options::OP_PUT
                | options::USE_ONCE
                | options::EVENT_LINK_DISABLE
                | options::EVENT_UNLINK_DISABLE
                | options::EVENT_CT_COMM,
            start: wanted.pieces.first().map_or(0, |piece| piece.iov_base as u64),
            length: total(wanted.pieces) as u64,
            user_ptr: self.operations.vacant_key() as u64,
            counter: work.counter,
            ..wanted.entry()
        };
        let role = Role::Receive { kind: wanted.kind, pieces: wanted.pieces.into(), spec, message: None };
        let number = match self.begin_work(work, &wanted.ticket, 1, false, Counted::Always, (0, 0), role) {
            Ok(number) => number,
            Err(error) => return -error,
        };
        let Some(spec) = self.with_vector(spec, wanted.pieces) else {
            self.release_work(number);
            return -EAGAIN;
        };
        let entry = {
            let mut nic = self.interface.lock();
            // An entry is reserved only if its linking can be armed, because nothing else frees it.
            let entry = nic.triggered().has_free_record().then(|| nic.lists().reserve(portal, &spec).ok()).flatten();
            if entry.is_none() {
                nic.heap().free_iov(spec.iov);
            }
            entry
        };
        let Some(entry) = entry else {
            self.release_work(number);
            return -EAGAIN;
        };
        if let Some(Operation::Deferred(deferred)) = self.operations.get_mut(number) {
            deferred.entry = Some(entry);
        }
        let armed = self.arm(work, Some(number), &[Action::Receive { entry, queue: self.own_queue }], (NONE, 0, &[]));
        if armed != 0 {
            self.release_work(number);
        }
        armed
    }
}
