// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine in a replay: packets go into its message buffers, the program's calls into its command buffer.
//!
//! | transition | input of the engine |
//! |---|---|
//! | append, a posted receive; unlink; search | the command |
//! | a put or get delivered, a receive taken | a packet, which asks for an answer if the request did |
//! | an unexpected message claimed or dropped, unless a posted receive has taken it here | a search that deletes it |
//! | a command of the program | a put or get from a descriptor with its memory, bound for it if there is none |
//! | a response | a packet with the token that the engine gave the command |
//! | counters, descriptors, queues, portal table entries, armed operations | the command |
//!
//! 1. The engine chooses among its buffers, so an input for another buffer waits until all before it are done.
//! 2. Triggered operations fire without a command, here and in the trace; the engine counts deliveries and responses.
//! 3. If flow control read a queue, the engine's queue gets the same room. If the two decide differently, because the
//!    engine has left out commands that wrote events, its portal table entry is set as the trace says.

mod batch;

use std::collections::{BTreeMap, BTreeSet};

use selvedge_nic::handle::NONE;
use selvedge_nic::packet::Packet;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::{Delivery, EntrySpec, Posted, ack, fail, list, options};
use selvedge_nic::tables::{Command, Request, Side, kind};
use selvedge_nic::tap::{ArmedAction, Transition};

use super::driver::{Driver, search_for};
use super::ids::Ids;
use super::statistics::Statistics;
use crate::error::LockstepError;
use crate::pac::Input;
use crate::pac::words::{Buffer, Host, Operation, Triggered};
use crate::unit::Missing;
use batch::{Batch, LIMITS, Traced};

pub struct Engine {
    batch: Batch,
    ids: Ids,
    /// The identity of this NIC, as configured in the engine: initiator and user.
    configured: Option<(u32, u32)>,
    queues: BTreeMap<u32, u32>,
    /// Headers of the trace that a receive has taken here already.
    taken: BTreeSet<u32>,
    next_token: u64,
    number: u64,
}

impl Engine {
    pub fn new(gap: u64) -> Result<Engine, Missing> {
        Ok(Engine {
            batch: Batch::new(gap)?,
            ids: Ids::default(),
            configured: None,
            queues: BTreeMap::new(),
            taken: BTreeSet::new(),
            next_token: 0,
            number: 0,
        })
    }

    fn leave_out(&mut self, number: u64, reason: &'static str) -> Result<(), LockstepError> {
        self.batch.leave_out(number, reason)
    }

    fn offer(&mut self, number: u64, kind: &'static str, input: Input, traced: Traced) -> Result<(), LockstepError> {
        self.batch.offer(number, kind, input, traced)
    }

    fn run(&mut self) -> Result<(), LockstepError> {
        self.batch.run()
    }

    fn command(&mut self, kind: &'static str, host: Host, traced: Traced) -> Result<(), LockstepError> {
        self.offer(self.number, kind, host.into(), traced)
    }

    fn counter(&mut self, traced: u32) -> Result<u32, LockstepError> {
        if traced != NONE && !self.batch.references.counters.contains_key(&traced) {
            self.run()?;
        }
        Ok(self.batch.references.counters.get(&traced).copied().unwrap_or(NONE))
    }

    fn queue(&self, traced: u32) -> u32 {
        self.queues.get(&traced).copied().unwrap_or(NONE)
    }

    fn spec(&mut self, spec: &EntrySpec) -> Result<Option<EntrySpec>, LockstepError> {
        let Some(here) = self.ids.spec(spec, &mut self.batch.statistics) else { return Ok(None) };
        Ok(Some(EntrySpec { counter: self.counter(spec.counter)?, ..here }))
    }

    fn append(
        &mut self,
        number: u64,
        (portal, which): (u32, u8),
        spec: &EntrySpec,
        entry: Option<u32>,
    ) -> Result<(), LockstepError> {
        let Some(spec) = self.spec(spec)? else { return self.leave_out(number, "process ids too wide") };
        if spec.options & options::IOVEC != 0 || spec.min_free >> 32 != 0 || spec.options & !options::ME_MASK != 0 {
            return self.leave_out(number, "entries with I/O vectors, or values too wide");
        }
        self.command("append", Host::Append { portal, which, spec }, Traced::Entry(entry))
    }

    fn message(&mut self, number: u64, request: &Request, result: Traced) -> Result<(), LockstepError> {
        let Some(initiator) = self.ids.id(request.initiator) else {
            return self.leave_out(number, "process ids too wide");
        };
        if (request.length | request.remote_offset) >> 32 != 0 {
            return self.leave_out(number, "lengths and offsets of 4 GiB");
        }
        let (kind, buffer) = match request.kind {
            kind::PUT => ("put", Buffer::Put),
            kind::GET => ("get", Buffer::GetHeader),
            _ => return self.leave_out(number, "atomics"),
        };
        let is_answered = request.kind == kind::GET || request.ack != ack::NONE;
        self.next_token += 1;
        let payload_bytes = if request.kind == kind::PUT { request.length } else { 0 };
        let packet = Packet {
            token: if is_answered { self.next_token } else { 0 },
            initiator,
            payload_bytes,
            origin: initiator,
            ..Packet::from(request)
        };
        self.offer(number, kind, Input::packet(buffer, packet.encode(false)), result)
    }

    fn take_unexpected(&mut self, number: u64, portal: u32, key: Option<(u64, u64)>) -> Result<(), LockstepError> {
        let spec = search_for(key);
        match self.spec(&spec)? {
            Some(spec) => self.command("take", Host::Search { portal, spec, delete: true }, Traced::Nothing),
            None => self.leave_out(number, "process ids too wide"),
        }
    }

    /// Configures the engine with the identity of this NIC, from its commands.
    fn configure(&mut self, request: &Request) -> Result<bool, LockstepError> {
        let Some(initiator) = self.ids.id(request.initiator) else { return Ok(false) };
        let identity = (initiator as u32, request.uid);
        if self.configured != Some(identity) {
            self.configured = Some(identity);
            let (initiator, uid) = identity;
            self.command("configure", Host::Configure { initiator, uid, origin: initiator.into() }, Traced::Nothing)?;
        }
        Ok(true)
    }

    /// Starts or arms a command of the program: from a descriptor with its memory, or from one bound for it alone.
    fn start(
        &mut self,
        number: u64,
        command: &Command,
        armed: Option<(u32, u64, (u32, u32))>,
    ) -> Result<(), LockstepError> {
        let request = &command.request;
        let side = if request.kind == kind::PUT { &command.source } else { &command.sink };
        if !matches!(request.kind, kind::PUT | kind::GET) {
            return self.leave_out(number, "atomics");
        }
        if side.iov != NONE || (request.length | request.remote_offset) >> 32 != 0 || request.portal >= 64 {
            return self.leave_out(number, "commands with I/O vectors, or values too wide");
        }
        let (Some(target), true) = (self.ids.id(command.target), self.configure(request)?) else {
            return self.leave_out(number, "process ids too wide");
        };
        let waits = request.kind == kind::GET || request.ack != ack::NONE;
        if waits && armed.is_none() {
            self.run()?;
            if self.batch.both.model.created.waiting.len() >= LIMITS.pending as usize {
                return self.leave_out(number, "commands beyond 64 that wait for a response");
            }
        }
        let (descriptor, local_offset, is_own) = match self.descriptor_of(side, request.length)? {
            Some((descriptor, offset)) => (descriptor, offset, false),
            None => (self.bind_for(side, request.length)?, 0, true),
        };
        let Some(descriptor) = descriptor else { return self.leave_out(number, "descriptors beyond 256") };
        let operation = Operation {
            descriptor,
            local_offset,
            length: request.length,
            ack: if request.kind == kind::PUT { request.ack } else { ack::NONE },
            target: target as u32,
            portal: request.portal,
            match_bits: request.match_bits,
            remote_offset: request.remote_offset as u32,
            user_ptr: command.user_ptr,
            header_data: request.header_data,
        };
        let is_put = request.kind == kind::PUT;
        match armed {
            None if is_put => self.command("start put", Host::Put(operation), Traced::Nothing)?,
            None => self.command("start get", Host::Get(operation), Traced::Nothing)?,
            Some((counter, threshold, handle)) => {
                let action = if is_put { Triggered::Put(operation) } else { Triggered::Get(operation) };
                self.command("arm", Host::Arm { counter, threshold, action }, Traced::Armed(handle))?;
            }
        }
        if is_own { self.command("unbind", Host::Unbind(descriptor), Traced::Nothing) } else { Ok(()) }
    }

    /// A live descriptor with the memory and reports of a side, and the offset in it.
    fn descriptor_of(&mut self, side: &Side, length: u64) -> Result<Option<(Option<u32>, u64)>, LockstepError> {
        let fits = |view: &DescriptorView| {
            let same = view.options == side.options && view.queue == side.queue && view.counter == side.counter;
            let offset = side.start.checked_sub(view.start)?;
            (same && offset.checked_add(length)? <= view.length).then_some(offset)
        };
        let found =
            self.batch.references.descriptors.iter().find_map(|(&traced, (_, view))| Some((traced, fits(view)?)));
        let Some((traced, offset)) = found else { return Ok(None) };
        self.run()?;
        Ok(Some((
            self.batch.references.descriptors.get(&traced).map(|known| known.0).filter(|&here| here != NONE),
            offset,
        )))
    }

    fn bind_for(&mut self, side: &Side, length: u64) -> Result<Option<u32>, LockstepError> {
        let counter = self.counter(side.counter)?;
        let queue = self.queue(side.queue);
        let view = DescriptorView {
            start: side.start,
            length,
            options: side.options,
            queue,
            counter,
            iov: NONE,
            iov_count: 0,
        };
        self.command("bind", Host::Bind(view), Traced::Descriptor(None))?;
        self.run()?;
        Ok(self.batch.both.model.created.descriptors.last().copied().filter(|&here| here != NONE))
    }

    /// Sends the response to a pending command.
    fn respond(&mut self, number: u64, command: &Command, delivery: &Delivery) -> Result<(), LockstepError> {
        self.run()?;
        let key = |one: &Command| {
            (
                one.request.kind,
                one.request.portal,
                one.request.match_bits,
                one.request.remote_offset,
                one.request.length,
                one.user_ptr,
            )
        };
        let waiting = &self.batch.both.model.created.waiting;
        let Some(&(_, token)) = waiting.iter().find(|(other, _)| key(other) == key(command)) else {
            self.batch.statistics.leave_out("responses to commands that were left out");
            return Ok(());
        };
        if delivery.remote_offset >> 32 != 0 || delivery.fail > 7 || delivery.list > 1 {
            return self.leave_out(number, "lengths and offsets of 4 GiB");
        }
        let packet = Packet { token, ..Packet::from(&command.request).response(delivery) };
        self.offer(number, "response", Input::packet(Buffer::Response, packet.encode(false)), Traced::Nothing)
    }

    fn arm(
        &mut self,
        number: u64,
        (counter, threshold): (u32, u64),
        action: &ArmedAction,
        handle: (u32, u32),
    ) -> Result<(), LockstepError> {
        let here = self.counter(counter)?;
        if here == NONE {
            self.batch.statistics.leave_out("commands of counters that were left out");
            return Ok(());
        }
        let action = match *action {
            ArmedAction::Command { ref command } => {
                return self.start(number, command, Some((here, threshold, handle)));
            }
            ArmedAction::CounterSet { counter, success, failure } => {
                Triggered::Set { counter: self.counter(counter)?, success, failure }
            }
            ArmedAction::CounterIncrement { counter, success, failure } => {
                Triggered::Increment { counter: self.counter(counter)?, success, failure }
            }
            ArmedAction::CounterSuccess { counter, success } => {
                Triggered::SetSuccess { counter: self.counter(counter)?, success }
            }
            ArmedAction::Unlink { entry } => {
                self.run()?;
                match self.batch.references.entries.get(&entry) {
                    Some(&here) => Triggered::Unlink(here),
                    None => return self.leave_out(number, "triggered unlinks of entries that were left out"),
                }
            }
            ArmedAction::Append { .. } | ArmedAction::Receive { .. } => {
                return self.leave_out(number, "triggered appends");
            }
        };
        self.command("arm", Host::Arm { counter: here, threshold, action }, Traced::Armed(handle))
    }

    /// The epoch of a portal table entry after `ends` more ends of epochs.
    fn epoch(&self, portal: u32, ends: u32) -> u32 {
        let entry = self.batch.both.model.home.portals.get(portal as usize);
        entry.map_or(1, |entry| entry.disabled.wrapping_add(1 + ends))
    }
}

impl Driver for Engine {
    fn take(&mut self, number: u64, transition: &Transition) -> Result<(), LockstepError> {
        const REFUSED: &str = "commands that the recorded NIC refused";
        self.number = number;
        match *transition {
            Transition::QueueAlloc { capacity, queue: Some(queue) } => {
                self.run()?;
                let Ok(here) = self.batch.both.model.home.nic().queues().alloc(capacity) else {
                    return self.leave_out(number, "event queues beyond the engine's");
                };
                self.queues.insert(queue, here);
                let home = &mut self.batch.both.model.home;
                let index = home.queue_index(here);
                let ring = home.queue_books[index].ring;
                self.command("queue", Host::Queue { reference: here, ring, length: capacity }, Traced::Nothing)
            }
            Transition::QueueFree { queue, is_done: true } => {
                let Some(here) = self.queues.remove(&queue) else { return Ok(()) };
                self.command("queue", Host::Queue { reference: here, ring: 0, length: 0 }, Traced::Nothing)?;
                self.run()?;
                self.batch.both.model.home.nic().queues().free(here);
                Ok(())
            }
            Transition::QueueTaken { queue, taken, posted } => {
                let Some(&reference) = self.queues.get(&queue) else { return Ok(()) };
                self.run()?;
                let home = &mut self.batch.both.model.home;
                let index = home.queue_index(reference);
                let tail = home.queue_books[index].tail;
                let taken = tail.saturating_sub(posted.wrapping_sub(taken));
                self.command("take", Host::QueueHead { reference, taken }, Traced::Nothing)
            }
            Transition::PortalAlloc { options: flags, queue, portal: Some(portal), .. } => {
                if portal >= 64 {
                    return self.leave_out(number, "portal table entries above 63");
                }
                self.run()?;
                let (queue, epoch) = (self.queue(queue), self.epoch(portal, 0));
                let status = if flags & options::PT_ALLOC_DISABLED != 0 { 2 } else { 1 };
                self.command("portal", Host::Portal { portal, status, options: flags, queue, epoch }, Traced::Nothing)
            }
            Transition::PortalSet { portal, is_enabled, is_done: true } => {
                self.run()?;
                let (status, ends) = if is_enabled { (1, 0) } else { (2, 1) };
                self.batch.set_portal(number, portal, status, self.epoch(portal, ends))
            }
            Transition::PortalFree { portal, is_done: true } => {
                self.run()?;
                if self.batch.both.model.home.portals.get(portal as usize).is_some_and(|entry| entry.headers != 0) {
                    self.take_unexpected(number, portal, None)?;
                    self.run()?;
                }
                self.batch.set_portal(number, portal, 0, self.epoch(portal, 1))
            }
            Transition::Append { portal, list, spec, entry: Some(entry) } => {
                self.append(number, (portal, list), &spec, Some(entry))
            }
            Transition::PostReceive { portal, spec, posted: Some(posted) } => {
                let entry = match posted {
                    Posted::Linked(entry) => Some(entry),
                    Posted::Matched(header) => {
                        self.taken.insert(header);
                        None
                    }
                };
                self.append(number, (portal, list::PRIORITY), &spec, entry)
            }
            Transition::Unlink { entry, .. } => {
                self.run()?;
                match self.batch.references.entries.get(&entry) {
                    Some(&here) => self.command("unlink", Host::Unlink(here), Traced::Nothing),
                    None => {
                        self.batch.statistics.leave_out("unlinks of entries that were left out");
                        Ok(())
                    }
                }
            }
            Transition::Search { portal, spec, deletes, is_done: true } => match self.spec(&spec)? {
                Some(spec) => self.command("search", Host::Search { portal, spec, delete: deletes }, Traced::Nothing),
                None => self.leave_out(number, "process ids too wide"),
            },
            Transition::Deliver { request, delivery } => match delivery.fail {
                fail::SEGV => self.leave_out(number, "messages to unmapped memory"),
                _ => self.message(number, &request, Traced::Delivery(request.portal, delivery)),
            },
            Transition::TakeReceive { put, receive } => {
                let bytes = (put.remote_offset == 0).then_some(put.length.min(receive.length));
                self.message(number, &Request::from(&put), Traced::Taken(bytes))
            }
            Transition::ClaimUnexpected { header, portal, source, match_bits } => match self.taken.insert(header) {
                true => self.take_unexpected(number, portal, Some((source, match_bits))),
                false => Ok(()),
            },
            Transition::DropUnexpected { header, portal, source, match_bits } => match self.taken.remove(&header) {
                true => Ok(()),
                false => self.take_unexpected(number, portal, Some((source, match_bits))),
            },
            Transition::Bind { view, .. } if view.iov != NONE => self.leave_out(number, "descriptors with I/O vectors"),
            Transition::Bind { view, descriptor: Some(descriptor) } => {
                let (queue, counter) = (self.queue(view.queue), self.counter(view.counter)?);
                let length = view.length.min(u32::MAX.into());
                self.batch.references.descriptors.insert(descriptor, (NONE, DescriptorView { length, ..view }));
                let here = DescriptorView { queue, counter, length, ..view };
                self.command("bind", Host::Bind(here), Traced::Descriptor(Some(descriptor)))
            }
            Transition::Release { descriptor, is_done: true } => {
                self.run()?;
                match self.batch.references.descriptors.remove(&descriptor) {
                    Some((here, _)) if here != NONE => self.command("unbind", Host::Unbind(here), Traced::Nothing),
                    _ => Ok(()),
                }
            }
            Transition::CounterAlloc { counter: Some(counter) } => {
                self.command("counter", Host::CounterAlloc, Traced::Counter(counter))
            }
            Transition::CounterFree { counter, is_done: true } => {
                let here = self.counter(counter)?;
                self.batch.references.counters.remove(&counter);
                self.command("counter", Host::CounterFree(here), Traced::Nothing)
            }
            Transition::CountSet { counter, success, failure } => {
                let counter = self.counter(counter)?;
                self.command("count", Host::CounterSet { counter, success, failure }, Traced::Nothing)
            }
            Transition::Count { is_caused: true, .. } => Ok(()),
            Transition::Count { counter, success, failure, .. } => {
                let counter = self.counter(counter)?;
                self.command("count", Host::CounterIncrement { counter, success, failure }, Traced::Nothing)
            }
            Transition::Arm { counter, threshold, ref action, armed: Some(armed) } => {
                self.arm(number, (counter, threshold), action, armed)
            }
            Transition::CancelTriggered { counter, is_done: true } => {
                let counter = self.counter(counter)?;
                self.command("cancel", Host::Cancel(counter), Traced::Nothing)
            }
            Transition::CancelArmed { armed, .. } => {
                self.run()?;
                match self.batch.references.armed.get(&armed) {
                    Some(&(index, generation)) => {
                        self.command("cancel", Host::CancelOne { index, generation }, Traced::Nothing)
                    }
                    None => Ok(()),
                }
            }
            Transition::Issue { ref command } => self.start(number, command, None),
            Transition::Response { ref command, ref delivery } => self.respond(number, command, delivery),
            Transition::Send { fail, .. } if fail != fail::OK => {
                self.leave_out(number, "commands whose payload was not read")
            }
            Transition::Reserve { .. } => self.leave_out(number, "triggered appends"),
            Transition::Send { .. } | Transition::Fire { .. } | Transition::Finish { .. } => Ok(()),
            _ => {
                self.batch.statistics.leave_out(REFUSED);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> Result<(), LockstepError> {
        self.run()?;
        self.batch.both.drain()
    }

    fn statistics(&self) -> &Statistics {
        &self.batch.statistics
    }
}
