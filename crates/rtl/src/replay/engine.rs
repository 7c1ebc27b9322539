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
//! 3. The engine has no flow control: portal table entries are made without it, which is counted.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::packet::{Packet, RESPONSE};
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::resources::DescriptorView;
use selvedge_nic::portals::{Delivery, EntrySpec, Posted, Put, ack, fail, list, options};
use selvedge_nic::tables::{Command, Request, Side, kind};
use selvedge_nic::tap::{Armable, Transition};

use super::ids::Ids;
use super::statistics::Statistics;
use super::{Driver, as_in_trace};
use crate::pac::model::NOT_ARMED;
use crate::pac::words::{Buffer, Host, Operation, Triggered};
use crate::pac::{Input, Lockstep, Ready};
use crate::unit::Missing;

/// `pac` of rtl/units.toml. Event queues lie in host memory, which is as large as programs want it.
const LIMITS: Limits = Limits {
    entries: 256,
    headers: 256,
    descriptors: 256,
    counters: 512,
    triggered: 128,
    portals: 64,
    queues: 32,
    pending: 64,
    list: 256,
    short_list: 2,
    heap_blocks: 1 << 17,
    heap_blocks_max: 1 << 17,
    ..Limits::NONE
};
const BUCKETS: usize = 512;
/// Commands that go into one buffer before their results are looked at.
const BATCH: usize = 64;
/// Cycles of a run without anything that waits.
const STEP: u64 = 64;

/// What the trace says that a command has made.
#[derive(Clone, Copy)]
enum Made {
    Entry(u32),
    Descriptor(u32),
    Counter(u32),
    Armed((u32, u32)),
    /// Of a message: its result.
    Delivery(Delivery),
    /// Of a receive that was taken: the bytes, where they are known.
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
        let mut both = Lockstep::new("pac", &LIMITS, BUCKETS)?;
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
        let deliveries = references.deliveries[made.4..].to_vec();
        let mut deliveries = deliveries.into_iter();
        let (mut results, mut refused) = (Vec::new(), Vec::new());
        for ((number, kind, made), timing) in kinds.into_iter().zip(timings) {
            self.statistics.commands.entry(kind).or_default().add(timing.retired - timing.accepted);
            let began = timing.accepted.max(self.until);
            self.statistics.cycles += u64::from(timing.retired.saturating_sub(began));
            self.until = self.until.max(timing.retired);
            match made {
                Made::Entry(traced) => match entries.next() {
                    Some(&here) if here != NONE => drop(self.entries.insert(traced, here)),
                    _ => refused.push((number, "entries beyond 256")),
                },
                Made::Descriptor(traced) => match (descriptors.next(), self.descriptors.get_mut(&traced)) {
                    (Some(&here), Some(known)) if here != NONE => known.0 = here,
                    _ => refused.push((number, "descriptors beyond 256")),
                },
                Made::Counter(traced) => match counters.next() {
                    Some(&here) if here != NONE => drop(self.counters.insert(traced, here)),
                    _ => refused.push((number, "counters beyond 512")),
                },
                Made::Armed(traced) => match armed.next() {
                    Some(&here) if here != NOT_ARMED => drop(self.armed.insert(traced, here)),
                    _ => refused.push((number, "triggered operations beyond 128")),
                },
                Made::Delivery(traced) => {
                    results.extend(deliveries.next().map(|here| (number, kind, here, Ok(traced))))
                }
                Made::Taken(bytes) => results.extend(deliveries.next().map(|here| (number, kind, here, Err(bytes)))),
                Made::Nothing => {}
            }
        }
        for (number, reason) in refused {
            self.leave_out(number, reason)?;
        }
        for (number, kind, here, traced) in results {
            self.compare(number, kind, &here, traced)?;
        }
        // The program takes its events.
        let queues: Vec<u32> = self.queues.values().copied().collect();
        for queue in queues {
            while let Taken::Event(..) = self.both.model.home.nic().signals.take_event(queue) {}
        }
        Ok(())
    }

    /// Compares the result of a message with the trace's.
    fn compare(
        &mut self,
        number: u64,
        kind: &str,
        here: &Delivery,
        traced: Result<Delivery, Option<u64>>,
    ) -> Result<(), String> {
        match traced {
            Ok(traced) if here.fail == fail::DROPPED && traced.fail == fail::OK && traced.list == list::OVERFLOW => {
                self.leave_out(number, "unexpected messages beyond 256")
            }
            Ok(traced) if traced.fail == fail::DROPPED && here.fail == fail::OK && here.list == list::OVERFLOW => {
                self.leave_out(number, "messages that the recorded NIC had no room for")
            }
            Ok(traced) if traced.fail == fail::PT_DISABLED && here.fail != fail::PT_DISABLED => {
                self.leave_out(number, "messages that flow control refuses")
            }
            Ok(traced) => as_in_trace(&mut self.statistics, number, kind, *here, traced),
            Err(Some(bytes)) => {
                let here = (here.fail, here.list, here.mlength);
                as_in_trace(&mut self.statistics, number, kind, here, (fail::OK, list::PRIORITY, bytes))
            }
            Err(None) => Ok(()),
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
        let Some((source, source_ignore)) = self.ids.pattern(spec.source, spec.source_ignore) else { return Ok(None) };
        let most = u64::from(u32::MAX);
        if spec.length > most {
            self.statistics.leave_out("bytes of entries above 4 GiB");
        }
        let counter = self.counter(spec.counter)?;
        Ok(Some(EntrySpec { source, source_ignore, counter, length: spec.length.min(most), ..*spec }))
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
        let made = entry.map_or(Made::Nothing, Made::Entry);
        // Every append gives a reference here; one that the trace has none for is dropped in its turn.
        self.command("append", Host::Append { portal, which, spec }, made)?;
        if entry.is_none() { self.run() } else { Ok(()) }
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
        // An epoch is of flow control.
        let operand = [packet.operand[0], 0, 0, 0];
        self.offer(number, kind, Input::packet(buffer, Packet { operand, ..packet }.encode(false)), result)
    }

    fn take_unexpected(&mut self, number: u64, portal: u32, key: Option<(u64, u64)>) -> Result<(), String> {
        let once = if key.is_some() { options::USE_ONCE } else { 0 };
        let (source, match_bits) = key.unwrap_or_default();
        let all = if key.is_some() { 0 } else { u64::MAX };
        let spec = EntrySpec {
            options: once | options::OP_PUT | options::EVENT_COMM_DISABLE | options::EVENT_OVER_DISABLE,
            start: 0,
            length: u32::MAX.into(),
            iov: NONE,
            iov_count: 0,
            match_bits,
            ignore_bits: all,
            source,
            source_ignore: all,
            min_free: 0,
            user_ptr: 0,
            counter: NONE,
            uid: u32::MAX,
        };
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
        let before = self.both.model.made.descriptors.len();
        self.command("bind", Host::Bind(view), Made::Nothing)?;
        self.run()?;
        Ok(self.both.model.made.descriptors.get(before).copied())
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
        if delivery.remote_offset >> 32 != 0 || delivery.fail > 7 {
            return self.leave_out(number, "lengths and offsets of 4 GiB");
        }
        let packet = Packet {
            kind: RESPONSE,
            token,
            fail: delivery.fail,
            ack: u8::from(!delivery.ack_disabled) | (delivery.list & 1) << 1,
            length: delivery.mlength,
            remote_offset: delivery.remote_offset,
            ..Packet::from(&command.request)
        };
        self.offer(number, "response", Input::packet(Buffer::Response, packet.encode(false)), Made::Nothing)
    }

    fn arm(
        &mut self,
        number: u64,
        (counter, threshold): (u32, u64),
        action: &Armable,
        handle: (u32, u32),
    ) -> Result<(), String> {
        let here = self.counter(counter)?;
        if here == NONE {
            self.statistics.leave_out("commands of counters that were left out");
            return Ok(());
        }
        let what = match *action {
            Armable::Command { ref command } => return self.start(number, command, Some((here, threshold, handle))),
            Armable::CounterSet { counter, success, failure } => {
                Triggered::Set { counter: self.counter(counter)?, success, failure }
            }
            Armable::CounterIncrement { counter, success, failure } => {
                Triggered::Increment { counter: self.counter(counter)?, success, failure }
            }
            Armable::CounterSuccess { counter, success } => {
                Triggered::SetSuccess { counter: self.counter(counter)?, success }
            }
            _ => return self.leave_out(number, "triggered operations on entries"),
        };
        self.command("arm", Host::Arm { counter: here, threshold, what }, Made::Armed(handle))
    }

    fn portal(&mut self, portal: u32, status: u8) -> Result<(), String> {
        let Some(entry) = self.both.model.home.portals.get(portal as usize) else { return Ok(()) };
        let (options, queue) = (entry.options, entry.queue);
        self.command("portal", Host::Portal { portal, status, options, queue, epoch: 1 }, Made::Nothing)
    }
}

impl Driver for Engine {
    fn take(&mut self, number: u64, transition: &Transition) -> Result<(), String> {
        const REFUSED: &str = "commands that the recorded NIC refused";
        self.number = number;
        match *transition {
            Transition::QueueAlloc { capacity, queue: Some(queue) } => {
                self.run()?;
                let Ok(here) = self.both.model.home.nic().queue_alloc(capacity) else {
                    return self.leave_out(number, "event queues beyond the engine's");
                };
                self.queues.insert(queue, here);
                let (index, _) = self.both.model.home.nic().signals.encodings.queues.decode(here);
                let ring = self.both.model.home.queue_books[index as usize].ring;
                self.command("queue", Host::Queue { reference: here, ring, length: capacity }, Made::Nothing)
            }
            Transition::QueueFree { queue, is_done: true } => {
                let Some(here) = self.queues.remove(&queue) else { return Ok(()) };
                self.command("queue", Host::Queue { reference: here, ring: 0, length: 0 }, Made::Nothing)?;
                self.run()?;
                self.both.model.home.nic().queue_free(here);
                Ok(())
            }
            Transition::PortalAlloc { options: flags, queue, portal: Some(portal), .. } => {
                if portal >= 64 {
                    return self.leave_out(number, "portal table entries above 63");
                }
                if flags & options::PT_FLOWCTRL != 0 {
                    self.statistics.leave_out("flow control of a portal table entry");
                }
                let queue = self.queue(queue);
                let status = if flags & options::PT_ALLOC_DISABLED != 0 { 2 } else { 1 };
                let options = flags & !options::PT_FLOWCTRL;
                self.command("portal", Host::Portal { portal, status, options, queue, epoch: 1 }, Made::Nothing)
            }
            Transition::PortalSet { portal, is_enabled, is_done: true } => {
                self.run()?;
                self.portal(portal, if is_enabled { 1 } else { 2 })
            }
            Transition::PortalFree { portal, is_done: true } => {
                self.run()?;
                if self.both.model.home.portals.get(portal as usize).is_some_and(|entry| entry.headers != 0) {
                    self.take_unexpected(number, portal, None)?;
                    self.run()?;
                }
                self.portal(portal, 0)
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
                _ => self.message(number, &request, Made::Delivery(delivery)),
            },
            Transition::TakeReceive { put, receive } => {
                let Put { portal, uid, initiator, match_bits, remote_offset, header_data, length } = put;
                let request = Request {
                    kind: kind::PUT,
                    portal,
                    uid,
                    initiator,
                    match_bits,
                    remote_offset,
                    header_data,
                    length,
                    ..Request::default()
                };
                let bytes = (remote_offset == 0).then_some(length.min(receive.length));
                self.message(number, &request, Made::Taken(bytes))
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
                self.command("bind", Host::Bind(here), Made::Descriptor(descriptor))
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
