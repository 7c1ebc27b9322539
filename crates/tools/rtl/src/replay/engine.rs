// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine in a replay: packets go into its message buffers, the program's calls into its command buffer.
//!
//! | transition | what goes in |
//! |---|---|
//! | append, a posted receive; unlink; search | the command |
//! | a put or get delivered, a receive taken | a packet, which asks for an answer where the request did |
//! | an unexpected message claimed or dropped, that no posted receive has taken here | a search that deletes it |
//! | a command of the program | a put or get from the descriptor that its memory is in; from one of its own, if there is none |
//! | a response | a packet with the token that the engine gave the command |
//! | counters, descriptors, queues, portal table entries, armed operations | the command |
//!
//! 1. The engine chooses among its buffers, so what goes into another buffer waits until all before it is done.
//! 2. Triggered operations fire by themselves, here and in the trace; counts of deliveries and responses are the engine's.
//! 3. Where flow control looked at a queue, the engine's queue gets the same room. If the two decide apart, because the engine has left
//!    out what wrote events, its portal table entry is set as the trace says.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::packet::Packet;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::{Delivery, EntrySpec, Posted, ack, fail, list, options};
use selvedge_nic::tables::{Command, Request, Side, kind};
use selvedge_nic::tap::{ArmedAction, Transition};

use super::ids::Ids;
use super::statistics::Statistics;
use super::{Driver, as_in_trace, taking};
use crate::pac::words::{Buffer, Host, Operation, Triggered};
use crate::pac::{self, model::NOT_ARMED};
use crate::pac::{Input, Lockstep, Ready};
use crate::unit::Missing;

/// Event queues lie in host memory, which is as large as programs want it.
const LIMITS: Limits = Limits { heap_blocks: 1 << 17, heap_blocks_max: 1 << 17, ..pac::LIMITS };
/// Commands that go into one buffer before their results are looked at.
const BATCH: usize = 64;
/// Cycles of a run without anything that waits.
const STEP: u64 = 64;

/// What a command makes, or a message gives, with what the trace says of it.
#[derive(Clone, Copy)]
enum Made {
    /// A reference. None: the trace has none, as no later command names it.
    Entry(Option<u32>),
    Descriptor(Option<u32>),
    Counter(u32),
    Armed((u32, u32)),
    /// To this portal table entry.
    Delivery(u32, Delivery),
    /// A receive that was taken, with its bytes, where they are known.
    Taken(Option<u64>),
    Nothing,
}

pub struct Engine {
    both: Lockstep,
    gap: u64,
    statistics: Statistics,
    ids: Ids,
    batch: Vec<Input>,
    kinds: Vec<(u64, &'static str, Made)>,
    configured: Option<(u32, u32)>,
    entries: BTreeMap<u32, u32>,
    counters: BTreeMap<u32, u32>,
    descriptors: BTreeMap<u32, (u32, DescriptorView)>,
    armed: BTreeMap<(u32, u32), (u32, u32)>,
    queues: BTreeMap<u32, u32>,
    /// Headers of the trace that a receive has taken here already.
    taken: BTreeSet<u32>,
    next_token: u64,
    until: u32,
    /// The record that is taken.
    number: u64,
}

impl Engine {
    pub fn new(gap: u64) -> Result<Engine, Missing> {
        let mut both = Lockstep::new("pac", &LIMITS, pac::BUCKETS)?;
        both.set_ready(Ready::ALL);
        Ok(Engine {
            both,
            gap,
            statistics: Statistics::of("engine"),
            ids: Ids::default(),
            batch: Vec::new(),
            kinds: Vec::new(),
            configured: None,
            entries: BTreeMap::new(),
            counters: BTreeMap::new(),
            descriptors: BTreeMap::new(),
            armed: BTreeMap::new(),
            queues: BTreeMap::new(),
            taken: BTreeSet::new(),
            next_token: 0,
            until: 0,
            number: 0,
        })
    }

    fn leave_out(&mut self, number: u64, reason: &'static str) -> Result<(), String> {
        self.statistics.leave_out(reason);
        self.statistics.differs_from.get_or_insert(number);
        Ok(())
    }

    fn offer(&mut self, number: u64, kind: &'static str, input: Input, made: Made) -> Result<(), String> {
        if self.batch.first().is_some_and(|first| first.buffer != input.buffer) {
            self.run()?;
        }
        self.batch.push(input);
        self.kinds.push((number, kind, made));
        if self.gap > 0 || self.batch.len() >= BATCH { self.run() } else { Ok(()) }
    }

    fn command(&mut self, kind: &'static str, host: Host, made: Made) -> Result<(), String> {
        self.offer(self.number, kind, host.into(), made)
    }

    /// Runs the batch until all of it is done, and takes what it has made.
    fn run(&mut self) -> Result<(), String> {
        let inputs = std::mem::take(&mut self.batch);
        let kinds = std::mem::take(&mut self.kinds);
        if inputs.is_empty() {
            return Ok(());
        }
        let before = self.both.timings().len();
        let made = {
            let made = &self.both.model.made;
            (made.entries.len(), made.descriptors.len(), made.counters.len(), made.armed.len(), made.deliveries.len())
        };
        let accepted = self.both.run(&inputs, self.gap)?;
        if accepted < inputs.len() {
            return Err(format!(
                "the engine takes {accepted} of {} commands and stands still: {:?}",
                inputs.len(),
                kinds[accepted].1
            ));
        }
        let of_buffer = |both: &Lockstep| {
            both.timings()[before..]
                .iter()
                .filter(|timing| timing.buffer == Some(inputs[0].buffer))
                .copied()
                .collect::<Vec<_>>()
        };
        let mut timings = of_buffer(&self.both);
        for _ in 0..1000 {
            if timings.len() == inputs.len() {
                break;
            }
            self.both.run(&[], STEP)?;
            timings = of_buffer(&self.both);
        }
        if timings.len() < inputs.len() {
            return Err(format!("{} of {} commands are never done", inputs.len() - timings.len(), inputs.len()));
        }
        let references = &self.both.model.made;
        let (mut entries, mut descriptors) =
            (references.entries[made.0..].iter(), references.descriptors[made.1..].iter());
        let (mut counters, mut armed) = (references.counters[made.2..].iter(), references.armed[made.3..].iter());
        let mut deliveries = references.deliveries[made.4..].iter();
        let mut results = Vec::new();
        for ((number, kind, made), timing) in kinds.into_iter().zip(timings) {
            self.statistics.commands.entry(kind).or_default().add(timing.retired - timing.accepted);
            let began = timing.accepted.max(self.until);
            self.statistics.cycles += u64::from(timing.retired.saturating_sub(began));
            self.until = self.until.max(timing.retired);
            let refused = match made {
                Made::Entry(traced) => {
                    let here = entries.next().copied().filter(|&here| here != NONE);
                    self.entries.extend(traced.zip(here));
                    here.is_none().then_some("entries beyond 256")
                }
                Made::Descriptor(traced) => {
                    let here = descriptors.next().copied().filter(|&here| here != NONE);
                    if let (Some(here), Some(known)) =
                        (here, traced.and_then(|traced| self.descriptors.get_mut(&traced)))
                    {
                        known.0 = here;
                    }
                    here.is_none().then_some("descriptors beyond 256")
                }
                Made::Counter(traced) => {
                    let here = counters.next().copied().filter(|&here| here != NONE);
                    self.counters.extend(here.map(|here| (traced, here)));
                    here.is_none().then_some("counters beyond 512")
                }
                Made::Armed(traced) => {
                    let here = armed.next().copied().filter(|&here| here != NOT_ARMED);
                    self.armed.extend(here.map(|here| (traced, here)));
                    here.is_none().then_some("triggered operations beyond 128")
                }
                Made::Delivery(..) | Made::Taken(_) => {
                    results.extend(deliveries.next().map(|&here| (number, kind, here, made)));
                    None
                }
                Made::Nothing => None,
            };
            if let Some(reason) = refused {
                self.statistics.leave_out(reason);
                self.statistics.differs_from.get_or_insert(number);
            }
        }
        for (number, kind, here, traced) in results {
            self.compare(number, kind, &here, traced)?;
        }
        Ok(())
    }

    /// Compares the result of a message with the trace's.
    fn compare(&mut self, number: u64, kind: &str, here: &Delivery, traced: Made) -> Result<(), String> {
        let (portal, traced) = match traced {
            Made::Delivery(portal, traced) => (portal, traced),
            Made::Taken(Some(bytes)) => {
                let here = (here.fail, here.list, here.mlength);
                return as_in_trace(&mut self.statistics, number, kind, here, (fail::OK, list::PRIORITY, bytes));
            }
            _ => return Ok(()),
        };
        let is_unexpected = |one: &Delivery| one.fail == fail::OK && one.list == list::OVERFLOW;
        let is_refused = |one: &Delivery| one.fail == fail::PT_DISABLED;
        if is_refused(here) != is_refused(&traced) {
            self.leave_out(number, "messages of which flow control refuses one here and not there")?;
            let disabled = self.both.model.home.portals[portal as usize].disabled;
            let (status, epoch) = if is_refused(here) { (1, disabled) } else { (2, disabled.wrapping_add(2)) };
            self.portal(portal, status, epoch)
        } else if here.fail == fail::DROPPED && is_unexpected(&traced) {
            self.leave_out(number, "unexpected messages beyond 256")
        } else if traced.fail == fail::DROPPED && is_unexpected(here) {
            self.leave_out(number, "messages that the recorded NIC had no room for")
        } else {
            as_in_trace(&mut self.statistics, number, kind, *here, traced)
        }
    }

    /// The counter here; NONE stays NONE.
    fn counter(&mut self, traced: u32) -> Result<u32, String> {
        if traced != NONE && !self.counters.contains_key(&traced) {
            self.run()?;
        }
        Ok(self.counters.get(&traced).copied().unwrap_or(NONE))
    }

    fn queue(&self, traced: u32) -> u32 {
        self.queues.get(&traced).copied().unwrap_or(NONE)
    }

    fn spec(&mut self, spec: &EntrySpec) -> Result<Option<EntrySpec>, String> {
        let Some(here) = self.ids.spec(spec, &mut self.statistics) else { return Ok(None) };
        Ok(Some(EntrySpec { counter: self.counter(spec.counter)?, ..here }))
    }

    fn append(
        &mut self,
        number: u64,
        (portal, which): (u32, u8),
        spec: &EntrySpec,
        entry: Option<u32>,
    ) -> Result<(), String> {
        let Some(spec) = self.spec(spec)? else { return self.leave_out(number, "process ids too wide") };
        if spec.options & options::IOVEC != 0 || spec.min_free >> 32 != 0 || spec.options & !options::ME_MASK != 0 {
            return self.leave_out(number, "entries with I/O vectors, or values too wide");
        }
        self.command("append", Host::Append { portal, which, spec }, Made::Entry(entry))
    }

    fn message(&mut self, number: u64, request: &Request, result: Made) -> Result<(), String> {
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

    fn take_unexpected(&mut self, number: u64, portal: u32, key: Option<(u64, u64)>) -> Result<(), String> {
        let spec = taking(key);
        match self.spec(&spec)? {
            Some(spec) => self.command("take", Host::Search { portal, spec, delete: true }, Made::Nothing),
            None => self.leave_out(number, "process ids too wide"),
        }
    }

    /// Who this NIC is, as its commands say.
    fn configure(&mut self, request: &Request) -> Result<bool, String> {
        let Some(initiator) = self.ids.id(request.initiator) else { return Ok(false) };
        let identity = (initiator as u32, request.uid);
        if self.configured != Some(identity) {
            self.configured = Some(identity);
            let (initiator, uid) = identity;
            self.command("configure", Host::Configure { initiator, uid, origin: initiator.into() }, Made::Nothing)?;
        }
        Ok(true)
    }

    /// Starts or arms a command of the program: from a descriptor that has its memory, or from one that is bound for it alone.
    fn start(&mut self, number: u64, command: &Command, armed: Option<(u32, u64, (u32, u32))>) -> Result<(), String> {
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
            if self.both.model.made.waiting.len() >= LIMITS.pending as usize {
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
            None if is_put => self.command("start put", Host::Put(operation), Made::Nothing)?,
            None => self.command("start get", Host::Get(operation), Made::Nothing)?,
            Some((counter, threshold, handle)) => {
                let what = if is_put { Triggered::Put(operation) } else { Triggered::Get(operation) };
                self.command("arm", Host::Arm { counter, threshold, what }, Made::Armed(handle))?;
            }
        }
        if is_own { self.command("unbind", Host::Unbind(descriptor), Made::Nothing) } else { Ok(()) }
    }

    /// A live descriptor with the memory and the reports of a side, and the offset in it.
    fn descriptor_of(&mut self, side: &Side, length: u64) -> Result<Option<(Option<u32>, u64)>, String> {
        let fits = |view: &DescriptorView| {
            let same = view.options == side.options && view.queue == side.queue && view.counter == side.counter;
            let offset = side.start.checked_sub(view.start)?;
            (same && offset.checked_add(length)? <= view.length).then_some(offset)
        };
        let found = self.descriptors.iter().find_map(|(&traced, (_, view))| Some((traced, fits(view)?)));
        let Some((traced, offset)) = found else { return Ok(None) };
        self.run()?;
        Ok(Some((self.descriptors.get(&traced).map(|known| known.0).filter(|&here| here != NONE), offset)))
    }

    /// Binds a descriptor for one command.
    fn bind_for(&mut self, side: &Side, length: u64) -> Result<Option<u32>, String> {
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
        self.command("bind", Host::Bind(view), Made::Descriptor(None))?;
        self.run()?;
        Ok(self.both.model.made.descriptors.last().copied().filter(|&here| here != NONE))
    }

    /// The response to a command that waits.
    fn respond(&mut self, number: u64, command: &Command, delivery: &Delivery) -> Result<(), String> {
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
        let waiting = &self.both.model.made.waiting;
        let Some(&(_, token)) = waiting.iter().find(|(other, _)| key(other) == key(command)) else {
            self.statistics.leave_out("responses to commands that were left out");
            return Ok(());
        };
        if delivery.remote_offset >> 32 != 0 || delivery.fail > 7 || delivery.list > 1 {
            return self.leave_out(number, "lengths and offsets of 4 GiB");
        }
        let packet = Packet { token, ..Packet::from(&command.request).response(delivery) };
        self.offer(number, "response", Input::packet(Buffer::Response, packet.encode(false)), Made::Nothing)
    }

    fn arm(
        &mut self,
        number: u64,
        (counter, threshold): (u32, u64),
        action: &ArmedAction,
        handle: (u32, u32),
    ) -> Result<(), String> {
        let here = self.counter(counter)?;
        if here == NONE {
            self.statistics.leave_out("commands of counters that were left out");
            return Ok(());
        }
        let what = match *action {
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
                match self.entries.get(&entry) {
                    Some(&here) => Triggered::Unlink(here),
                    None => return self.leave_out(number, "triggered unlinks of entries that were left out"),
                }
            }
            ArmedAction::Append { .. } | ArmedAction::Receive { .. } => {
                return self.leave_out(number, "triggered appends");
            }
        };
        self.command("arm", Host::Arm { counter: here, threshold, what }, Made::Armed(handle))
    }

    fn portal(&mut self, portal: u32, status: u8, epoch: u32) -> Result<(), String> {
        let Some(entry) = self.both.model.home.portals.get(portal as usize) else { return Ok(()) };
        let (options, queue) = (entry.options, entry.queue);
        self.command("portal", Host::Portal { portal, status, options, queue, epoch }, Made::Nothing)
    }

    /// The epoch of a portal table entry, so many ends of epochs from now.
    fn epoch(&self, portal: u32, ends: u32) -> u32 {
        let entry = self.both.model.home.portals.get(portal as usize);
        entry.map_or(1, |entry| entry.disabled.wrapping_add(1 + ends))
    }
}

impl Driver for Engine {
    fn take(&mut self, number: u64, transition: &Transition) -> Result<(), String> {
        const REFUSED: &str = "commands that the recorded NIC refused";
        self.number = number;
        match *transition {
            Transition::QueueAlloc { capacity, queue: Some(queue) } => {
                self.run()?;
                let Ok(here) = self.both.model.home.nic().queues().alloc(capacity) else {
                    return self.leave_out(number, "event queues beyond the engine's");
                };
                self.queues.insert(queue, here);
                let home = &mut self.both.model.home;
                let index = home.queue_index(here);
                let ring = home.queue_books[index].ring;
                self.command("queue", Host::Queue { reference: here, ring, length: capacity }, Made::Nothing)
            }
            Transition::QueueFree { queue, is_done: true } => {
                let Some(here) = self.queues.remove(&queue) else { return Ok(()) };
                self.command("queue", Host::Queue { reference: here, ring: 0, length: 0 }, Made::Nothing)?;
                self.run()?;
                self.both.model.home.nic().queues().free(here);
                Ok(())
            }
            Transition::QueueTaken { queue, taken, posted } => {
                let Some(&reference) = self.queues.get(&queue) else { return Ok(()) };
                self.run()?;
                let home = &mut self.both.model.home;
                let index = home.queue_index(reference);
                let tail = home.queue_books[index].tail;
                let taken = tail.saturating_sub(posted.wrapping_sub(taken));
                self.command("take", Host::QueueHead { reference, taken }, Made::Nothing)
            }
            Transition::PortalAlloc { options: flags, queue, portal: Some(portal), .. } => {
                if portal >= 64 {
                    return self.leave_out(number, "portal table entries above 63");
                }
                self.run()?;
                let (queue, epoch) = (self.queue(queue), self.epoch(portal, 0));
                let status = if flags & options::PT_ALLOC_DISABLED != 0 { 2 } else { 1 };
                self.command("portal", Host::Portal { portal, status, options: flags, queue, epoch }, Made::Nothing)
            }
            Transition::PortalSet { portal, is_enabled, is_done: true } => {
                self.run()?;
                let (status, ends) = if is_enabled { (1, 0) } else { (2, 1) };
                self.portal(portal, status, self.epoch(portal, ends))
            }
            Transition::PortalFree { portal, is_done: true } => {
                self.run()?;
                if self.both.model.home.portals.get(portal as usize).is_some_and(|entry| entry.headers != 0) {
                    self.take_unexpected(number, portal, None)?;
                    self.run()?;
                }
                self.portal(portal, 0, self.epoch(portal, 1))
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
                match self.entries.get(&entry) {
                    Some(&here) => self.command("unlink", Host::Unlink(here), Made::Nothing),
                    None => {
                        self.statistics.leave_out("unlinks of entries that were left out");
                        Ok(())
                    }
                }
            }
            Transition::Search { portal, spec, deletes, is_done: true } => match self.spec(&spec)? {
                Some(spec) => self.command("search", Host::Search { portal, spec, delete: deletes }, Made::Nothing),
                None => self.leave_out(number, "process ids too wide"),
            },
            Transition::Deliver { request, delivery } => match delivery.fail {
                fail::SEGV => self.leave_out(number, "messages to unmapped memory"),
                _ => self.message(number, &request, Made::Delivery(request.portal, delivery)),
            },
            Transition::TakeReceive { put, receive } => {
                let bytes = (put.remote_offset == 0).then_some(put.length.min(receive.length));
                self.message(number, &Request::from(&put), Made::Taken(bytes))
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
                self.descriptors.insert(descriptor, (NONE, DescriptorView { length, ..view }));
                let here = DescriptorView { queue, counter, length, ..view };
                self.command("bind", Host::Bind(here), Made::Descriptor(Some(descriptor)))
            }
            Transition::Release { descriptor, is_done: true } => {
                self.run()?;
                match self.descriptors.remove(&descriptor) {
                    Some((here, _)) if here != NONE => self.command("unbind", Host::Unbind(here), Made::Nothing),
                    _ => Ok(()),
                }
            }
            Transition::CounterAlloc { counter: Some(counter) } => {
                self.command("counter", Host::CounterAlloc, Made::Counter(counter))
            }
            Transition::CounterFree { counter, is_done: true } => {
                let here = self.counter(counter)?;
                self.counters.remove(&counter);
                self.command("counter", Host::CounterFree(here), Made::Nothing)
            }
            Transition::CountSet { counter, success, failure } => {
                let counter = self.counter(counter)?;
                self.command("count", Host::CounterSet { counter, success, failure }, Made::Nothing)
            }
            Transition::Count { is_caused: true, .. } => Ok(()),
            Transition::Count { counter, success, failure, .. } => {
                let counter = self.counter(counter)?;
                self.command("count", Host::CounterIncrement { counter, success, failure }, Made::Nothing)
            }
            Transition::Arm { counter, threshold, ref action, armed: Some(armed) } => {
                self.arm(number, (counter, threshold), action, armed)
            }
            Transition::CancelTriggered { counter, is_done: true } => {
                let counter = self.counter(counter)?;
                self.command("cancel", Host::Cancel(counter), Made::Nothing)
            }
            Transition::CancelArmed { armed, .. } => {
                self.run()?;
                match self.armed.get(&armed) {
                    Some(&(index, generation)) => {
                        self.command("cancel", Host::CancelOne { index, generation }, Made::Nothing)
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
                self.statistics.leave_out(REFUSED);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> Result<(), String> {
        self.run()?;
        self.both.drain()
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
