// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads, writes and atomics on others' registered memory.
//!
//! The initiator runs the target's NIC. Most operations end within the call, and the target's program takes no part in
//! them. If that is impossible (host mode, memory out of reach), they travel as packets, and the operation ends with
//! the last reply.

use std::ffi::c_int;

use libc::iovec;
use selvedge_host::StartError;
use selvedge_host::direct::DirectOutcome;
use selvedge_host::{Mode, Path};
use selvedge_nic::arithmetic::Operation as Arithmetic;
use selvedge_nic::portals::{ack, fail, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use crate::bindings::Side;
use crate::complete::error_of;
use crate::flags::{ADDR_ANY, EACCES, EAGAIN, EFAULT, EHOSTDOWN, EINVAL, ENOKEY};
use crate::message::{Message, SendEnd};
use crate::operation::Operation;
use crate::pieces::{RemoteRange, gather, scatter, total};
use crate::ticket::{FOLLOWED, Kind, PORTAL_FETCH, PORTAL_READ, PORTAL_WRITE, REGION_PORTALS, Ticket};
use crate::transfer::{Atomic, Effect, Note, Pending, Staging, Transfer};
use crate::transport::Transport;

impl Transport {
    /// Reads or writes. Returns 0 or a negative error.
    pub fn transfer(&mut self, transfer: &Transfer<'_>) -> isize {
        let length = total(transfer.pieces);
        if length as u64 != transfer.remote.iter().map(|piece| piece.length as u64).sum::<u64>() {
            return -(EINVAL as isize);
        }
        if self.units.is_some() {
            if let Some(outcome) = self.transfer_over_units(transfer, length) {
                return outcome;
            }
        }
        if !self.admits_packets(transfer.peer, &transfer.ticket) {
            return -(EAGAIN as isize);
        }
        let note = transfer.note();
        let number = self.begin(transfer.ticket, transfer.peer, note);
        let mut pieces = transfer.pieces;
        let copied;
        if transfer.inject && self.is_slow() {
            let mut bytes = vec![0u8; length].into_boxed_slice();
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(pieces, bytes.as_mut_ptr()) };
            copied = [iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length }];
            self.staging(number).operands = Some(bytes);
            pieces = &copied;
        }
        let error = self.launch_transfer(number, transfer.peer, transfer.write, pieces, transfer.remote);
        self.end_launch(number, error)
    }

    /// Launches the requests of a read or write, which run at the target's NIC or travel as packets. Returns 0 or an error.
    pub(crate) fn launch_transfer(
        &mut self,
        number: usize,
        peer: u32,
        write: bool,
        pieces: &[iovec],
        remote: &[RemoteRange],
    ) -> c_int {
        let (kind, portal) = if write { (kind::PUT, PORTAL_WRITE) } else { (kind::GET, PORTAL_READ) };
        let mut error = 0;
        each_common(pieces, remote, |start, address, key, bytes, followed| {
            let options = options::MD_EVENT_SEND_DISABLE | options::MD_PAYLOAD_STAYS;
            let side = Memory { start, options, queue: self.own_queue, ..Memory::NOWHERE };
            let (source, sink) = if write { (side, Memory::NOWHERE) } else { (Memory::NOWHERE, side) };
            let request =
                Request { kind, portal, match_bits: key, remote_offset: address, length: bytes, ..Request::default() };
            error = self.launch(number, peer, request, source, sink, followed);
            error == 0
        });
        error
    }

    /// Runs an atomic operation. Returns 0 or a negative error.
    pub fn atomic(&mut self, atomic: &Atomic<'_>) -> isize {
        let size = atomic.datatype.size_bytes();
        let remote_bytes: usize = atomic.remote.iter().map(|piece| piece.length).sum();
        let fetches = !atomic.results.is_empty();
        let wrong = |pieces: &[iovec]| total(pieces) != remote_bytes;
        if remote_bytes == 0
            || (atomic.effect != Effect::Read && wrong(atomic.operands))
            || (fetches && wrong(atomic.results))
            || (matches!(atomic.effect, Effect::Swap(_)) && wrong(atomic.comparands))
        {
            return -(EINVAL as isize);
        }
        if !self.admits_packets(atomic.peer, &atomic.ticket) {
            return -(EAGAIN as isize);
        }
        let number = self.begin(atomic.ticket, atomic.peer, None);
        let (mut operands, mut results) = (0, 0);
        if atomic.effect != Effect::Read {
            let mut bytes = vec![0u8; remote_bytes].into_boxed_slice();
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(atomic.operands, bytes.as_mut_ptr()) };
            operands = bytes.as_ptr() as u64;
            self.staging(number).operands = Some(bytes);
        }
        if fetches {
            let mut bytes = vec![0u8; remote_bytes].into_boxed_slice();
            results = bytes.as_mut_ptr() as u64;
            self.staging(number).results = Some((bytes, atomic.results.into()));
        }
        let mut comparands = Vec::new();
        let step = if let Effect::Swap(_) = atomic.effect {
            comparands.resize(remote_bytes, 0);
            // SAFETY: the program's pieces are readable, and the buffer is as long as their sum.
            unsafe { gather(atomic.comparands, comparands.as_mut_ptr()) };
            size
        } else {
            usize::MAX
        };
        let (mut error, mut done) = (0, 0usize);
        'all: for piece in atomic.remote {
            let mut at = 0;
            while at < piece.length {
                let bytes = (piece.length - at).min(step);
                let side = |start: u64| Memory {
                    start,
                    options: options::MD_EVENT_SEND_DISABLE,
                    queue: self.own_queue,
                    ..Memory::NOWHERE
                };
                let (source, sink) = (side(operands + done as u64), side(results + done as u64));
                let mut request = Request {
                    datatype: atomic.datatype as u8,
                    portal: if fetches { PORTAL_FETCH } else { PORTAL_WRITE },
                    match_bits: piece.key,
                    remote_offset: piece.offset + at as u64,
                    length: bytes as u64,
                    ..Request::default()
                };
                let (source, sink) = match (atomic.effect, fetches) {
                    (Effect::Read, _) => {
                        (request.kind, request.portal) = (kind::GET, PORTAL_READ);
                        (Memory::NOWHERE, sink)
                    }
                    (Effect::Write, false) => {
                        request.kind = kind::PUT;
                        (source, Memory::NOWHERE)
                    }
                    (Effect::Write, true) => {
                        (request.kind, request.operation) = (kind::SWAP, Arithmetic::Swap as u8);
                        (source, sink)
                    }
                    (Effect::Compute(what), false) => {
                        (request.kind, request.operation) = (kind::ATOMIC, what as u8);
                        (source, Memory::NOWHERE)
                    }
                    (Effect::Compute(what), true) => {
                        (request.kind, request.operation) = (kind::FETCH_ATOMIC, what as u8);
                        (source, sink)
                    }
                    (Effect::Swap(what), _) => {
                        (request.kind, request.operation) = (kind::SWAP, what as u8);
                        let mut operand = [0u8; 32];
                        operand[..size].copy_from_slice(&comparands[done..done + size]);
                        for (word, eight) in request.operand.iter_mut().zip(operand.chunks_exact(8)) {
                            *word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
                        }
                        (source, sink)
                    }
                };
                at += bytes;
                done += bytes;
                error = self.launch(number, atomic.peer, request, source, sink, done < remote_bytes);
                if error != 0 {
                    break 'all;
                }
            }
        }
        self.end_launch(number, error)
    }

    /// Whether operations may continue after their calls return.
    fn is_slow(&self) -> bool {
        self.settings.mode == Mode::Host || self.settings.path == Path::Bounce || self.any_out_of_reach
    }

    pub(crate) fn begin(&mut self, ticket: Ticket, peer: u32, note: Option<Note>) -> usize {
        self.operations.insert(Operation::Remote(Box::new(Pending {
            ticket,
            peer,
            left: 1,
            error: 0,
            staging: Staging::default(),
            note,
            was_refused: false,
            over_units: None,
        })))
    }

    fn staging(&mut self, number: usize) -> &mut Staging {
        match &mut self.operations[number] {
            Operation::Remote(pending) => &mut pending.staging,
            _ => unreachable!("the operation was just begun"),
        }
    }

    /// Launches one request of an operation; `followed` if others come after it. Returns 0 if it is done or in flight.
    #[inline(always)]
    fn launch(
        &mut self,
        number: usize,
        peer: u32,
        request: Request,
        source: Memory,
        sink: Memory,
        followed: bool,
    ) -> c_int {
        let number_of_peer = peer;
        let Some(peer) = self.peers.get(peer) else { return EINVAL };
        let (target, owner) = (peer.id, peer.owner);
        let initiator = self.interface.id() << 8 | if followed { FOLLOWED } else { 0 };
        let request = Request { ack: ack::FULL, initiator, ..request };
        let command = Command { request, target, user_ptr: number as u64, source, sink };
        match self.interface.deliver_now(&command, owner, peer.ring()) {
            DirectOutcome::Done(delivery) => self.region_error(&command, owner, delivery.fail),
            DirectOutcome::Full => EAGAIN,
            DirectOutcome::Gone => EHOSTDOWN,
            DirectOutcome::Memory => EFAULT,
            DirectOutcome::OutOfReach => {
                self.any_out_of_reach = true;
                if let Operation::Remote(pending) = &mut self.operations[number] {
                    pending.left += 1;
                }
                match self.interface.start(&command) {
                    Ok(()) => {
                        self.peers.packet_left(number_of_peer);
                        0
                    }
                    Err(error) => {
                        if let Operation::Remote(pending) = &mut self.operations[number] {
                            pending.left -= 1;
                        }
                        if error == StartError::Memory { EFAULT } else { EAGAIN }
                    }
                }
            }
        }
    }

    /// The error for a target's reply. This checks whether the key was wrong, or only the range or the access right.
    fn region_error(&self, command: &Command, owner: u64, failed: u8) -> c_int {
        let has = |portal| self.interface.has_entry(command.target, owner, portal, command.match_bits);
        let known = failed == fail::DROPPED && REGION_PORTALS.into_iter().any(has);
        error_of(failed, if known { EACCES } else { ENOKEY })
    }

    /// Called when all requests of an operation are launched, or one was refused.
    pub(crate) fn end_launch(&mut self, number: usize, error: c_int) -> isize {
        let Operation::Remote(pending) = &mut self.operations[number] else { return 0 };
        if error == EAGAIN && pending.left == 1 {
            self.operations.remove(number);
            return -(EAGAIN as isize);
        }
        if error != 0 {
            pending.error = error;
        }
        self.one_less(number);
        0
    }

    /// Handles the reply to a packet.
    pub(crate) fn remote_answered(&mut self, number: usize, failed: u8) {
        let Some(Operation::Remote(pending)) = self.operations.get_mut(number) else { return };
        self.peers.packet_answered(pending.peer);
        if failed != fail::OK && pending.error == 0 {
            pending.error = error_of(failed, ENOKEY);
        }
        self.one_less(number);
    }

    pub(crate) fn one_less(&mut self, number: usize) {
        let Some(Operation::Remote(pending)) = self.operations.get_mut(number) else { return };
        pending.left -= 1;
        if pending.left != 0 {
            return;
        }
        if pending.was_refused {
            return self.refused_ended(number);
        }
        let Operation::Remote(pending) = self.operations.remove(number) else { return };
        let entry = pending.ticket.completion();
        if pending.error != 0 {
            return self.fail(&pending.ticket, Side::Transmit, entry, 0, pending.error);
        }
        if let Some((bytes, pieces)) = &pending.staging.results {
            // SAFETY: the program's pieces are writable, and their room is as long as the bytes.
            unsafe { scatter(bytes.as_ptr(), bytes.len(), pieces) };
        }
        if let Some(note) = pending.note {
            self.notify(&pending.ticket, note);
        }
        self.complete(&pending.ticket, Side::Transmit, entry, ADDR_ANY);
    }

    /// Sends the notification of a write to the target's program: where accesses keep their order, behind those before it, which the
    /// target may have refused.
    fn notify(&mut self, ticket: &Ticket, note: Note) {
        let ticket = Ticket { wanted: false, flags: 0, ..*ticket };
        if self.has_refused(note.peer, &ticket) {
            return self.notes.push_back((note, ticket));
        }
        let message = Message {
            kind: Kind::Note,
            peer: note.peer,
            endpoint: note.endpoint,
            tag: note.bytes,
            data: Some(note.data),
            pieces: &[],
            ticket,
            inject: true,
            end: SendEnd::Sent,
        };
        if self.send(&message) == -(EAGAIN as isize) {
            self.notes.push_back((note, ticket));
        }
    }

    /// Sends the notifications again for which there was no room.
    pub(crate) fn send_notes_again(&mut self) {
        for _ in 0..self.notes.len() {
            let Some((note, ticket)) = self.notes.pop_front() else { return };
            self.notify(&ticket, note);
        }
    }
}

/// Visits the ranges that local and remote pieces have in common. The arguments are the local address, the remote
/// address, the key, the bytes, and whether more ranges follow. There is at least one visit, even for no bytes.
pub(crate) fn each_common(
    pieces: &[iovec],
    remote: &[RemoteRange],
    mut visit: impl FnMut(u64, u64, u64, u64, bool) -> bool,
) {
    let (mut here, mut at_here) = (0, 0);
    let mut left = total(pieces);
    for there in remote {
        let mut at = 0;
        while at < there.length {
            while here < pieces.len() && at_here == pieces[here].iov_len {
                (here, at_here) = (here + 1, 0);
            }
            let Some(piece) = pieces.get(here) else { return };
            let bytes = (piece.iov_len - at_here).min(there.length - at);
            left -= bytes;
            let (from, to) = (piece.iov_base as u64 + at_here as u64, there.offset + at as u64);
            if !visit(from, to, there.key, bytes as u64, left != 0) || left == 0 {
                return;
            }
            at += bytes;
            at_here += bytes;
        }
    }
    if let Some(there) = remote.first() {
        visit(0, there.offset, there.key, 0, false);
    }
}
