// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine's commands on `nic`, and all outputs of the NIC.
//!
//! The work of the home around `nic`'s transitions is here, as in the live homes: the range check of a descriptor
//! (`PtlPut`, Portals 4.3, section 3.15), the packet of a request, the response to one, the pending record.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::handle::NONE;
use selvedge_nic::layout::BLOCK_BYTES;
use selvedge_nic::packet::{Packet, Place, RESPONSE};
use selvedge_nic::portals::constants::{ack, fail, options};
use selvedge_nic::portals::errors::{AppendError, UnlinkError};
use selvedge_nic::portals::triggered::{Action, Armed, Fired};
use selvedge_nic::portals::{Delivery, Verdict, list};
use selvedge_nic::tables::{Command, PortalEntry, Request, Side, kind, slot};
use selvedge_nic::{Bus, Fault, Limits, NoMemory};

use super::words::{Buffer, Host, Message, Operation, Status, Triggered};
use crate::error::LockstepError;
use crate::home::Home;

/// An answer to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    /// Reference of the new record.
    pub reference: Option<u32>,
    pub armed: Option<(u32, u32)>,
    pub amounts: Option<(u64, u64)>,
}

impl Answer {
    fn of(status: Status) -> Answer {
        Answer { status, reference: None, armed: None, amounts: None }
    }
    fn with(reference: u32) -> Answer {
        Answer { reference: Some(reference), ..Answer::of(Status::Done) }
    }
}

/// A packet to send, with the address of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Send {
    pub header: Message,
    pub length: u32,
    /// Not given without a payload.
    pub start: Option<u64>,
}

/// A payload for host memory, with the number of its message in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    pub number: u32,
    pub start: u64,
    pub length: u32,
}

/// A line of 64 bytes of an event queue, as far as `nic` writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub line: u64,
    pub words: Vec<u64>,
}

/// The outputs of the NIC, in order at each port.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    pub answers: VecDeque<Answer>,
    /// Puts, get headers, replies and acknowledgements.
    pub sends: [VecDeque<Send>; 3],
    /// Payloads of puts and of replies.
    pub receives: [VecDeque<Receive>; 2],
    pub lines: VecDeque<Line>,
    pub discarded: u64,
}

/// A NIC and its home.
pub struct Model {
    pub home: Home,
    pub outputs: Outputs,
    initiator: u32,
    uid: u32,
    origin: u64,
    /// Number of messages that each buffer has delivered.
    numbers: [u32; 4],
    /// Triggered puts, gets and unlinks that are due.
    fired: [VecDeque<Due>; 3],
    handles: Vec<((u32, u32), Armed)>,
    /// References and tokens so far, in order.
    pub created: Created,
}

/// A triggered operation that waits for its turn among the engine's commands.
enum Due {
    Moves(Command),
    /// The entry to unlink.
    Unlinks(u32),
}

/// The handle of a refused arm.
pub const NOT_ARMED: (u32, u32) = (0xffff, 0);

/// References and results of the commands so far; NONE, or [`NOT_ARMED`], for a refused one.
#[derive(Clone, Debug, Default)]
pub struct Created {
    pub entries: Vec<u32>,
    pub descriptors: Vec<u32>,
    pub counters: Vec<u32>,
    pub armed: Vec<(u32, u32)>,
    pub tokens: Vec<u64>,
    /// Commands that wait for their response, with their tokens.
    pub waiting: Vec<(Command, u64)>,
    /// The results of messages.
    pub deliveries: Vec<Delivery>,
}

impl Model {
    pub fn new(limits: &Limits) -> Model {
        Model {
            home: Home::new(limits),
            outputs: Outputs::default(),
            initiator: 0,
            uid: 0,
            origin: 0,
            numbers: [0; 4],
            fired: Default::default(),
            handles: Vec::new(),
            created: Created::default(),
        }
    }

    /// Takes a message from a buffer.
    pub fn take(&mut self, buffer: Buffer, message: &Message, host: Option<&Host>) -> Result<(), LockstepError> {
        let number = self.numbers[buffer as usize];
        self.numbers[buffer as usize] = number.wrapping_add(1);
        let tails: Vec<u64> = self.home.queue_books.iter().map(|book| book.tail).collect();
        match (buffer, host) {
            (Buffer::Command, Some(host)) => {
                let answer = self.run(host)?;
                match host {
                    Host::Append { .. } => self.created.entries.push(answer.reference.unwrap_or(NONE)),
                    Host::Bind(_) => self.created.descriptors.push(answer.reference.unwrap_or(NONE)),
                    Host::CounterAlloc => self.created.counters.push(answer.reference.unwrap_or(NONE)),
                    Host::Arm { .. } => self.created.armed.push(answer.armed.unwrap_or(NOT_ARMED)),
                    _ => {}
                }
                self.outputs.answers.push_back(answer);
            }
            (Buffer::Command, None) => self.outputs.answers.push_back(Answer::of(Status::TooWide)),
            _ => match carried(buffer, message) {
                Some(packet) if buffer == Buffer::Response => self.respond(&packet, number),
                Some(packet) => self.deliver(&packet, number)?,
                None => self.outputs.discarded += 1,
            },
        }
        self.keep_lines(&tails);
        Ok(())
    }

    /// Takes a triggered operation that has fired: a put (0), a get (1) or an unlink (2).
    pub fn take_fired(&mut self, port: usize) -> Result<(), LockstepError> {
        let due = self.fired[port].pop_front().ok_or("an operation fires in the RTL, and none is due in nic")?;
        let tails: Vec<u64> = self.home.queue_books.iter().map(|book| book.tail).collect();
        match due {
            Due::Moves(command) => self.issue(&command)?,
            // A refused unlink gives no answer.
            Due::Unlinks(entry) => {
                let _ = self.home.nic().lists().unlink(entry);
            }
        }
        self.keep_lines(&tails);
        Ok(())
    }

    /// The next due triggered operation that leaves the counters; operations on counters run here.
    pub fn next_fired(&mut self) -> Option<u32> {
        loop {
            let Fired { index, command } = self.home.nic().triggered().next_due(1).ok()??;
            let (port, due) = match command.kind {
                kind::PUT => (0, Due::Moves(command)),
                kind::GET => (1, Due::Moves(command)),
                kind::UNLINK => (2, Due::Unlinks(self.home.triggered[index as usize].object)),
                _ => {
                    self.home.nic().triggered().run_local(&mut NoMemory, index);
                    self.home.nic().triggered().finish_fired(index);
                    continue;
                }
            };
            self.fired[port].push_back(due);
            return Some(index);
        }
    }

    /// Number of due operations that have not been taken.
    pub fn fired_count(&self) -> usize {
        self.fired.iter().map(VecDeque::len).sum()
    }

    fn run(&mut self, host: &Host) -> Result<Answer, LockstepError> {
        let wide = Ok(Answer::of(Status::TooWide));
        let portal_lives =
            |home: &Home, portal: u32| home.portals.get(portal as usize).is_some_and(|entry| entry.status != 0);
        match *host {
            Host::Configure { initiator, uid, origin } => {
                (self.initiator, self.uid, self.origin) = (initiator, uid, origin);
                Ok(Answer::of(Status::Done))
            }
            // The home has created the queue in `nic` before it sends this command.
            Host::Queue { .. } => Ok(Answer::of(Status::Done)),
            Host::QueueHead { reference, taken } => Ok(Answer::of(done(self.take_events(reference, taken)))),
            Host::Portal { portal, status, options, queue, epoch } => {
                if let Some(entry) = self.home.portals.get_mut(portal as usize) {
                    let disabled = epoch.wrapping_sub(1);
                    // A due event is dropped with the entry.
                    let disabled_event = if status == 0 || entry.status == 0 { 0 } else { entry.disabled_event };
                    *entry = match status {
                        0 => PortalEntry { status: 0, disabled, disabled_event, ..*entry },
                        _ => PortalEntry { status: status.into(), options, queue, disabled, disabled_event, ..*entry },
                    };
                    self.count_due();
                }
                Ok(Answer::of(Status::Done))
            }
            Host::Append { ref spec, .. } | Host::Search { ref spec, .. }
                if spec.length >> 32 != 0 || spec.options >> 20 != 0 || spec.options & options::IOVEC != 0 =>
            {
                wide
            }
            Host::Append { portal, .. } | Host::Search { portal, .. } if !portal_lives(&self.home, portal) => {
                Ok(Answer::of(Status::Invalid))
            }
            Host::Append { portal, which, ref spec } => {
                let posted = |home: &Home| home.portals[portal as usize].entries;
                let before = posted(&self.home);
                Ok(match self.home.nic().lists().append(&mut NoMemory, portal, which, spec) {
                    Ok(reference) if posted(&self.home) != before => Answer::with(reference),
                    Ok(reference) => Answer { status: Status::Taken, ..Answer::with(reference) },
                    Err(AppendError::Full) => Answer::of(Status::Full),
                    Err(other) => return Err(format!("an append failed with {other:?}").into()),
                })
            }
            Host::Unlink(reference) => Ok(Answer::of(match self.home.nic().lists().unlink(reference) {
                Ok(()) => Status::Done,
                Err(UnlinkError::InUse) => Status::InUse,
                Err(UnlinkError::Invalid) => Status::Invalid,
                Err(other) => return Err(format!("an unlink failed with {other:?}").into()),
            })),
            Host::Search { portal, ref spec, delete } => {
                self.home
                    .nic()
                    .lists()
                    .search(&mut NoMemory, portal, spec, delete)
                    .map_err(|error| format!("{error:?}"))?;
                Ok(Answer::of(Status::Done))
            }
            Host::Bind(ref view) if view.length >> 32 != 0 || view.options >> 17 != 0 || view.options & 1 != 0 => wide,
            Host::Bind(ref view) => {
                Ok(self.home.nic().descriptors().bind(view).map_or(Answer::of(Status::Full), Answer::with))
            }
            Host::Unbind(descriptor) => {
                Ok(Answer::of(done(self.home.nic().descriptors().release(descriptor).is_some())))
            }
            Host::CounterAlloc => Ok(self.home.nic().counters().alloc().map_or(Answer::of(Status::Full), Answer::with)),
            Host::CounterFree(counter) => Ok(Answer::of(done(self.home.nic().counters().free(counter).is_ok()))),
            Host::CounterSet { counter, success, failure } => {
                let lives = self.counter_lives(counter);
                self.home.nic().counters().set(counter, success, failure);
                Ok(Answer::of(done(lives)))
            }
            Host::CounterIncrement { counter, success, failure } => {
                let lives = self.counter_lives(counter);
                self.home.nic().counters().increment(counter, success, failure);
                Ok(Answer::of(done(lives)))
            }
            Host::CounterGet(counter) => {
                let lives = self.counter_lives(counter);
                let (index, _) = self.home.nic().signals.encodings.counters.decode(counter);
                let book = self.home.books.get(index as usize).filter(|_| lives);
                Ok(Answer { amounts: book.map(|book| (book.success, book.failure)), ..Answer::of(done(lives)) })
            }
            Host::Arm { counter, threshold, ref action } => self.arm(counter, threshold, action),
            Host::Cancel(counter) => Ok(Answer::of(done(self.home.nic().triggered().cancel_all(counter).is_some()))),
            Host::CancelOne { index, generation } => {
                let handle =
                    self.handles.iter().find(|(handle, _)| *handle == (index, generation)).map(|found| found.1);
                Ok(Answer::of(done(handle.is_some_and(|handle| self.home.nic().triggered().cancel(handle)))))
            }
            Host::Put(ref operation) | Host::Get(ref operation) if operation.length >> 32 != 0 => wide,
            Host::Put(ref operation) => self.start(kind::PUT, operation),
            Host::Get(ref operation) => self.start(kind::GET, operation),
        }
    }

    /// Sets the number of taken events of a queue. It neither shrinks nor exceeds the posted ones.
    fn take_events(&mut self, reference: u32, taken: u64) -> bool {
        if self.home.nic().signals.queue(reference).is_none() {
            return false;
        }
        let index = self.home.queue_index(reference);
        let (tail, head) = (self.home.queue_books[index].tail, &self.home.queues[index].head);
        let is_valid = tail.wrapping_sub(taken) <= tail.wrapping_sub(head.load(Relaxed));
        if is_valid {
            head.store(taken, Relaxed);
            self.home.nic().queues().post_waiting_disabled(reference);
        }
        is_valid
    }

    /// Counts the due events of disabled portal table entries in each queue, after the host has set an entry.
    fn count_due(&mut self) {
        for queue in &self.home.queues {
            queue.disabled_events.store(0, Relaxed);
        }
        for entry in self.home.portals.clone().iter().filter(|entry| entry.status != 0 && entry.disabled_event != 0) {
            if let Some(queue) = self.home.nic().signals.queue(entry.queue) {
                queue.disabled_events.store(queue.disabled_events.load(Relaxed) + 1, Relaxed);
            }
        }
    }

    fn counter_lives(&mut self, counter: u32) -> bool {
        self.home.nic().signals.counter(counter).is_some()
    }

    fn arm(&mut self, counter: u32, threshold: u64, armed: &Triggered) -> Result<Answer, LockstepError> {
        let command = match *armed {
            Triggered::Put(ref operation) | Triggered::Get(ref operation) => {
                if operation.length >> 32 != 0 {
                    return Ok(Answer::of(Status::TooWide));
                }
                let kind = if matches!(armed, Triggered::Put(_)) { kind::PUT } else { kind::GET };
                match self.command(kind, operation) {
                    Some(command) => command,
                    None => return Ok(Answer::of(Status::Invalid)),
                }
            }
            _ => Command::default(),
        };
        let action = match *armed {
            Triggered::Put(_) | Triggered::Get(_) => Action::Command(&command),
            Triggered::Set { counter, success, failure } => Action::CounterSet { counter, success, failure },
            Triggered::SetSuccess { counter, success } => Action::CounterSuccess { counter, success },
            Triggered::Increment { counter, success, failure } => {
                Action::CounterIncrement { counter, success, failure }
            }
            Triggered::Unlink(entry) => Action::Unlink { entry },
        };
        let index = self.home.control.free_triggered;
        let generation = self.home.triggered.get(index as usize).map_or(0, |record| slot::generation(record.slot));
        Ok(match self.home.nic().triggered().arm(counter, threshold, action) {
            Ok(armed) => {
                self.handles.push(((index, generation), armed));
                Answer { armed: Some((index, generation)), ..Answer::of(Status::Done) }
            }
            Err(_) => Answer::of(Status::Full),
        })
    }

    /// The command for an operation on a descriptor; `None` if out of range, or without a place for the ACK.
    fn command(&mut self, kind: u8, operation: &Operation) -> Option<Command> {
        let view = self.home.nic().signals.descriptor(operation.descriptor)?;
        operation.local_offset.checked_add(operation.length).filter(|&end| end <= view.length)?;
        let ack = if kind == kind::PUT { operation.ack } else { ack::NONE };
        let has_place = match ack {
            ack::FULL => view.queue != NONE,
            ack::COUNTING => view.counter != NONE,
            _ => true,
        };
        if !has_place || (ack != ack::NONE && view.options & options::MD_UNRELIABLE != 0) {
            return None;
        }
        let side = Side {
            start: view.start.wrapping_add(operation.local_offset),
            options: view.options,
            queue: view.queue,
            counter: view.counter,
            ..Side::NOWHERE
        };
        let (source, sink) = if kind == kind::PUT { (side, Side::NOWHERE) } else { (Side::NOWHERE, side) };
        let request = Request {
            kind,
            ack,
            portal: operation.portal,
            uid: self.uid,
            initiator: self.initiator.into(),
            match_bits: operation.match_bits,
            remote_offset: operation.remote_offset.into(),
            header_data: operation.header_data,
            length: operation.length,
            ..Request::default()
        };
        Some(Command { request, target: operation.target.into(), user_ptr: operation.user_ptr, source, sink })
    }

    fn start(&mut self, kind: u8, operation: &Operation) -> Result<Answer, LockstepError> {
        let Some(command) = self.command(kind, operation) else { return Ok(Answer::of(Status::Invalid)) };
        self.issue(&command)?;
        Ok(Answer::of(Status::Done))
    }

    fn issue(&mut self, command: &Command) -> Result<(), LockstepError> {
        let token = match command.wants_response() {
            true => self
                .home
                .nic()
                .pending_mut()
                .add(command, 1)
                .map_err(|_| "the engine starts a command that has no pending record")?,
            false => 0,
        };
        if token != 0 {
            self.created.tokens.push(token);
            self.created.waiting.push((*command, token));
        }
        let is_put = command.kind == kind::PUT;
        let payload_bytes = if is_put { command.length } else { 0 };
        let packet = Packet { token, origin: self.origin, payload_bytes, ..Packet::from(&command.request) };
        let start = (is_put && command.length != 0).then_some(command.source.start);
        self.outputs.sends[usize::from(!is_put)].push_back(Send {
            header: packet.encode(false),
            length: payload_bytes as u32,
            start,
        });
        self.home.nic().complete_send(command, fail::OK);
        Ok(())
    }

    fn respond(&mut self, packet: &Packet, number: u32) {
        let Some(command) = self.home.nic().pending_mut().take(packet.token) else { return };
        self.created.waiting.retain(|&(_, token)| token != packet.token);
        let delivery = packet.delivery(command.length);
        if command.has_reply() && delivery.fail == fail::OK && delivery.mlength != 0 {
            let receive = Receive { number, start: command.sink.start, length: delivery.mlength as u32 };
            self.outputs.receives[1].push_back(receive);
        }
        self.home.nic().complete_response(&command, &delivery);
    }

    fn deliver(&mut self, packet: &Packet, number: u32) -> Result<(), LockstepError> {
        let mut bus = Recorder { number, ..Recorder::default() };
        let Verdict::Done(delivery) = self.home.nic().deliver(&mut bus, &Request::from(packet)) else {
            return Err("a message neither completes nor is refused".into());
        };
        self.created.deliveries.push(delivery);
        self.outputs.receives[0].extend(bus.put);
        if packet.token != 0 {
            let is_get = packet.kind == kind::GET;
            let bytes = if is_get { delivery.mlength } else { 0 };
            let response = Packet { payload_bytes: bytes, sender: 0, ..packet.response(&delivery) };
            let send = Send { header: response.encode(false), length: bytes as u32, start: bus.get };
            self.outputs.sends[2].push_back(send);
        }
        Ok(())
    }

    /// Keeps the lines of the events that were posted since the queues had these tails.
    fn keep_lines(&mut self, tails: &[u64]) {
        const WORDS: usize = BLOCK_BYTES as usize / 8;
        for (book, &before) in self.home.queue_books.iter().zip(tails) {
            for number in before..book.tail.max(before) {
                let block = u64::from(book.ring) + number % u64::from(book.capacity);
                let word = |at: usize| self.home.heap[block as usize * WORDS + at].load(Relaxed);
                if word(7) >> 19 & 3 == 2 {
                    self.outputs.lines.push_back(Line { line: 2 * block + 1, words: (8..13).map(word).collect() });
                }
                self.outputs.lines.push_back(Line { line: 2 * block, words: (0..8).map(word).collect() });
            }
        }
    }
}

fn done(is_done: bool) -> Status {
    if is_done { Status::Done } else { Status::Invalid }
}

/// The packet that the RTL handles: of its buffer's kind, and with values that fit into its words.
fn carried(buffer: Buffer, message: &Message) -> Option<Packet> {
    let mut unchecked = *message;
    // The link handles checksums.
    unchecked[124..].fill(0);
    let packet = Packet::decode(&unchecked).ok().filter(|packet| packet.place == Place::Inline)?;
    let is_kind = match buffer {
        Buffer::Put => packet.kind == kind::PUT,
        Buffer::GetHeader => packet.kind == kind::GET,
        _ => packet.kind == RESPONSE,
    };
    let fits = buffer == Buffer::Response || (packet.length | packet.initiator) >> 32 == 0;
    (is_kind && fits && packet.remote_offset >> 32 == 0).then_some(packet)
}

/// The bus of a message: all memory is mapped, and the moved pieces are kept.
#[derive(Default)]
struct Recorder {
    number: u32,
    put: Vec<Receive>,
    get: Option<u64>,
}

impl Bus for Recorder {
    fn reaches(&mut self, _: u64, _: u64) -> bool {
        true
    }
    fn put(&mut self, _: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        self.put.push(Receive { number: self.number, start: address, length: bytes as u32 });
        Ok(())
    }
    fn get(&mut self, address: u64, _: u64, _: u64) -> Result<(), Fault> {
        self.get = Some(address);
        Ok(())
    }
}

const _: () = assert!(list::PRIORITY == 0 && list::OVERFLOW == 1);
