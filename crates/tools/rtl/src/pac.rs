// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engine (`rtl/pac/pac.sv`) in lockstep with `nic`.
//!
//! Messages and commands go into the RTL's buffers. The RTL chooses among them, and its trace shows which one retires;
//! then `nic` runs that one ([`model`]). Compared are
//!
//! 1. at each port, in order: answers, packets with the place of their payload, payloads to host memory, lines of event
//!    queues;
//! 2. while the engine is idle: the counts of the registers; all records of lists, counters and triggered operations,
//!    free lists and chains.
//!
//! A command that updates counters runs on `nic` after the counters have retired it too, because only then have all
//! operations fired that it makes due.

pub mod model;
pub mod words;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_nic::Limits;
use selvedge_nic::registers::Register;
use selvedge_nic::tables::{slot, triggered};

use crate::bits::Field;
use crate::counters::{self, fired, left_port};
use crate::error::LockstepError;
use crate::lists;
use crate::records::same;
use crate::shadow::{Shadow, Write, WriteLayout, copy_bits};
use crate::unit::{Missing, Unit};
use model::{Answer, Line, Model, Receive, Send};
use words::{
    Buffer, COUNTS, Host, Message, Status, answer, command, event_line, outside_in, outside_out, pack, receive, send,
    trace,
};

/// The tables of the unit `pac` of rtl/units.toml, and its buckets. The heap is the host's.
pub const LIMITS: Limits = Limits {
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
    heap_blocks: 1024,
    heap_blocks_max: 1024,
    ..Limits::NONE
};
pub const BUCKETS: usize = 512;

/// Write ports of the trace; the banks of counters follow those of lists.
const WRITES: usize = 15;
const COUNTER_BANKS: usize = 8;
const LAYOUT: WriteLayout = WriteLayout::new(256);
/// Sources of commands beyond the four buffers.
const FIRED_PUT: u32 = 4;
const FIRED_OTHER: u32 = 6;
/// Lowest bit of the source in a tag.
const SOURCE_AT: u32 = 29;
/// Cycles from a command's acceptance to its last frame.
const FRAMES: u32 = 4;
/// Cycles without output after which the engine counts as idle.
const STILL: u64 = 4096;

/// A message or a command for the engine.
#[derive(Clone, Debug)]
pub struct Input {
    pub buffer: Buffer,
    pub message: Message,
    /// The command, for the command buffer; `None` for a packet.
    pub host: Option<Host>,
}

impl From<Host> for Input {
    fn from(host: Host) -> Input {
        Input { buffer: Buffer::Command, message: host.message(), host: Some(host) }
    }
}

impl Input {
    /// A packet for this buffer.
    pub fn packet(buffer: Buffer, message: Message) -> Input {
        Input { buffer, message, host: None }
    }
}

/// The ports that accept outputs: puts, get headers, replies; payloads of puts, of replies; event lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(pub [bool; 6]);

impl Ready {
    pub const ALL: Ready = Ready([true; 6]);
}

/// The cycles in which a command was accepted and retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub buffer: Option<Buffer>,
    /// The cycle of its last frame, if its buffer had room; of a triggered operation, the cycle in which it retires.
    pub accepted: u32,
    pub retired: u32,
}

/// Both engines.
pub struct EngineLockstep {
    unit: Unit,
    pub model: Model,
    shadow: Shadow,
    ready: Ready,
    /// Accepted into each buffer and not retired.
    buffered: [VecDeque<(Input, u32)>; 4],
    /// Retired by the RTL and not run by `nic`.
    retired: VecDeque<(u32, u32)>,
    asked: BTreeSet<u32>,
    counted: BTreeMap<u32, Vec<Write>>,
    changed: Vec<Write>,
    /// Operations that have left their port and that `nic` has not fired yet.
    left: Vec<u32>,
    /// Outputs of the RTL that are not compared yet.
    seen: model::Outputs,
    /// Counts of the RTL, in the order of [`COUNTS`].
    counts: [u64; COUNTS.len()],
    timings: Vec<Timing>,
    recent: VecDeque<String>,
    compared: u64,
}

impl EngineLockstep {
    /// Creates a lockstep with the named unit, whose tables have these limits and this number of buckets.
    pub fn new(unit: &str, limits: &Limits, buckets: usize) -> Result<EngineLockstep, Missing> {
        let mut unit = Unit::new(unit)?;
        let pool = (limits.entries + limits.headers) as usize;
        let (counters, triggered) = (limits.counters as usize, limits.triggered as usize);
        let banks = [
            (pool, 256),
            (pool, 256),
            (pool, 256),
            (buckets, 32),
            (buckets, 32),
            (lists::PORTALS, 32),
            (0, 256),
            (0, 256),
            (counters, 128),
            (counters, 128),
            (triggered, 256),
            (triggered, 256),
            (triggered, 256),
        ];
        // The banks clear themselves.
        let words = [pool, buckets, counters, triggered, limits.descriptors as usize, lists::PORTALS];
        unit.run(&[], words.into_iter().max().unwrap_or(0) as u64 + 2);
        Ok(EngineLockstep {
            unit,
            model: Model::new(limits),
            shadow: Shadow::new(&banks),
            ready: Ready([false; 6]),
            buffered: Default::default(),
            retired: VecDeque::new(),
            asked: BTreeSet::new(),
            counted: BTreeMap::new(),
            changed: Vec::new(),
            left: Vec::new(),
            seen: model::Outputs::default(),
            counts: [0; COUNTS.len()],
            timings: Vec::new(),
            recent: VecDeque::new(),
            compared: 0,
        })
    }

    /// Cycles since the reset.
    pub fn cycle(&self) -> u64 {
        self.unit.cycle()
    }

    /// The RTL's count for a register.
    pub fn counted(&self, register: Register) -> Option<u64> {
        let at = COUNTS.iter().position(|&(_, counted)| counted == register)?;
        Some(self.counts[at])
    }

    /// The commands in the order of retirement.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// Sets which ports are ready from the next cycle on.
    pub fn set_ready(&mut self, ready: Ready) {
        use outside_in::{
            EVENT_READY, RECEIVE_PUT_READY, RECEIVE_REPLY_READY, SEND_GET_READY, SEND_PUT_READY, SEND_REPLY_READY,
        };
        let fields =
            [SEND_PUT_READY, SEND_GET_READY, SEND_REPLY_READY, RECEIVE_PUT_READY, RECEIVE_REPLY_READY, EVENT_READY];
        let mut words = [0];
        for (field, ready) in fields.into_iter().zip(ready.0) {
            field.set(&mut words, ready.into());
        }
        self.unit.set_outside(&words);
        self.ready = ready;
    }

    /// Offers the inputs back to back, and runs until all are accepted and `idle` cycles more. Returns the number of
    /// accepted inputs: fewer if a buffer is full and nothing moves. Fails with the first difference.
    pub fn run(&mut self, inputs: &[Input], idle: u64) -> Result<usize, LockstepError> {
        let words: Vec<u32> = inputs.iter().flat_map(|input| pack(input.buffer, &input.message)).collect();
        let (mut taken, mut still) = (0, 0);
        while taken < inputs.len() && still < STILL {
            let now = self.unit.run(&words[taken * command::WORDS..], 64);
            let moved = self.take_in(&inputs[taken..taken + now])?;
            taken += now;
            still = if now == 0 && !moved { still + 64 } else { 0 };
        }
        if idle > 0 {
            self.unit.run(&[], idle);
            self.take_in(&[])?;
        }
        Ok(taken)
    }

    /// Runs with all ports ready until the engine is idle, and compares everything. Fails with the first difference, or
    /// for a command that never completes.
    pub fn drain(&mut self) -> Result<(), LockstepError> {
        self.set_ready(Ready::ALL);
        let mut still = 0;
        while still < STILL {
            self.unit.run(&[], 64);
            still = if self.take_in(&[])? { 0 } else { still + 64 };
        }
        let waiting: usize = self.buffered.iter().map(VecDeque::len).sum();
        if waiting != 0 || !self.retired.is_empty() || self.model.fired_count() != 0 {
            let first = self.buffered.iter().find_map(VecDeque::front);
            return Err(LockstepError::Stall(self.report(&format!(
                "{waiting} commands never complete, the first {first:?}; {} retired wait for the counters; {} triggered operations never leave",
                self.retired.len(),
                self.model.fired_count()
            ))));
        }
        self.compare_ports(true)?;
        let registers = self.model.home.registers();
        COUNTS
            .iter()
            .zip(self.counts)
            .try_for_each(|((_, register), rtl)| same(register.name(), rtl, registers.get(*register)))
            .map_err(|error| error.with_report(|text| self.report(text)))?;
        let whole = lists::Records { shadow: &self.shadow, home: &self.model.home, is_alone: false }.check_idle();
        whole.and_then(|()| self.counters().compare_all()).map_err(|error| error.with_report(|text| self.report(text)))
    }

    fn counters(&self) -> counters::Records<'_> {
        counters::Records { shadow: &self.shadow, home: &self.model.home, first_bank: COUNTER_BANKS }
    }

    /// Reads the outputs of the last run. Returns whether anything moved.
    fn take_in(&mut self, accepted: &[Input]) -> Result<bool, LockstepError> {
        for (input, &cycle) in accepted.iter().zip(self.unit.accepted()) {
            self.buffered[input.buffer as usize].push_back((input.clone(), cycle + FRAMES));
        }
        let before = self.seen.answers.len();
        for seen in self.unit.answers() {
            self.seen.answers.push_back(answer_of(seen.words)?);
        }
        let mut moved = self.seen.answers.len() != before;
        moved |= self.take_ports();
        let above = WRITES * (1 + 4 + 16 + 32 + 1 + 2 * 256);
        let mut shown = Vec::new();
        for seen in self.unit.traces() {
            let get = |field: Field| field.within(above).get(seen.words);
            let event = |valid: Field, tag: Field| (get(valid) == 1).then(|| get(tag) as u32);
            shown.push((
                seen.cycle,
                event(trace::ASKED_VALID, trace::ASKED_TAG),
                event(trace::COUNTED_VALID, trace::COUNTED_TAG),
                LAYOUT.trace(seen.words, WRITES),
            ));
        }
        moved |= !shown.is_empty();
        for (cycle, asked, counted, trace) in shown {
            self.asked.extend(asked);
            for write in trace.writes {
                self.shadow.apply(&write).map_err(|error| error.with_report(|text| self.report(text)))?;
                if let Some(index) = left_port(&write, COUNTER_BANKS) {
                    self.left.push(index);
                }
                if write.bank >= COUNTER_BANKS {
                    self.changed.push(write);
                }
            }
            self.finish_left();
            if let Some(tag) = counted {
                self.counted.insert(tag, std::mem::take(&mut self.changed));
            }
            self.retired.extend(trace.retired.map(|tag| (tag, cycle)));
            self.carry_out()?;
        }
        self.compare_ports(false)?;
        Ok(moved)
    }

    /// Frees the records of operations that waited for a port and have left, if `nic` has fired them.
    fn finish_left(&mut self) {
        let model = &mut self.model;
        self.left.retain(|&index| {
            let is_firing = slot::status(model.home.triggered[index as usize].slot) == triggered::FIRING;
            if is_firing {
                model.home.nic().triggered().finish_fired(index);
            }
            !is_firing
        });
    }

    /// Runs the retired commands on `nic`.
    fn carry_out(&mut self) -> Result<(), LockstepError> {
        while let Some(&(tag, cycle)) = self.retired.front() {
            let asked = self.asked.contains(&tag);
            if asked && !self.counted.contains_key(&tag) {
                return Ok(());
            }
            self.retired.pop_front();
            let (accepted, done) = match tag >> SOURCE_AT {
                source @ FIRED_PUT..=FIRED_OTHER => {
                    self.note(format!("{tag:x} fired, source {source}"));
                    (None, self.model.take_fired((source - FIRED_PUT) as usize))
                }
                source => match self.buffered.get_mut(source as usize).and_then(VecDeque::pop_front) {
                    Some((input, accepted)) => {
                        self.note(match &input.host {
                            Some(host) => format!("{tag:x} {host:x?}"),
                            None => format!("{tag:x} {:?} {:02x?}", input.buffer, input.message),
                        });
                        (
                            Some((input.buffer, accepted)),
                            self.model.take(input.buffer, &input.message, input.host.as_ref()),
                        )
                    }
                    None => {
                        return Err(self.report(&format!("command {tag:x} retires, and its buffer is empty")).into());
                    }
                },
            };
            done.map_err(|error| error.with_report(|text| self.report(text)))?;
            let (buffer, accepted) = accepted.map_or((None, cycle), |(buffer, accepted)| (Some(buffer), accepted));
            self.timings.push(Timing { buffer, accepted, retired: cycle });
            if asked {
                self.asked.remove(&tag);
                let writes = self.counted.remove(&tag).unwrap_or_default();
                self.fire(&writes).map_err(|error| error.with_report(|text| self.report(text)))?;
                self.finish_left();
            }
        }
        Ok(())
    }

    /// Fires the due operations of a command on `nic`, and compares them with the RTL's writes.
    fn fire(&mut self, writes: &[Write]) -> Result<(), LockstepError> {
        let mut rtl = writes.iter().filter_map(|write| fired(write, COUNTER_BANKS));
        while let Some(index) = self.model.next_fired() {
            match rtl.next() {
                Some((fired, is_free)) if fired == index => {
                    if is_free {
                        self.model.home.nic().triggered().finish_fired(index);
                    }
                }
                other => return Err(format!("nic fires operation {index}, the RTL {other:?}").into()),
            }
        }
        // A cancelled operation frees its record, too.
        match rtl.next() {
            Some((index, _)) if slot::status(self.model.home.triggered[index as usize].slot) != slot::FREE => {
                Err(format!("the RTL fires operation {index}, nic nothing").into())
            }
            _ => Ok(()),
        }
    }

    /// Stores the transfers and event lines of the last run. Returns whether there were any.
    fn take_ports(&mut self) -> bool {
        use outside_out as out;
        let mut moved = false;
        for seen in self.unit.outsides() {
            let valid = [
                out::SEND_PUT_VALID,
                out::SEND_GET_VALID,
                out::SEND_REPLY_VALID,
                out::RECEIVE_PUT_VALID,
                out::RECEIVE_REPLY_VALID,
                out::EVENT_VALID,
            ];
            let leaves = |port: usize| self.ready.0[port] && valid[port].get(seen.words) == 1;
            for (port, at) in [out::SEND_PUT, out::SEND_GET, out::SEND_REPLY].into_iter().enumerate() {
                if leaves(port) {
                    self.seen.sends[port].push_back(send_of(&copy_bits(seen.words, at.at, at.width)));
                    moved = true;
                }
            }
            for (port, at) in [out::RECEIVE_PUT, out::RECEIVE_REPLY].into_iter().enumerate() {
                if leaves(3 + port) {
                    let words = copy_bits(seen.words, at.at, at.width);
                    self.seen.receives[port].push_back(Receive {
                        number: receive::NUMBER.get(&words) as u32,
                        start: receive::START.get(&words),
                        length: receive::LENGTH.get(&words) as u32,
                    });
                    moved = true;
                }
            }
            if leaves(5) {
                let words = copy_bits(seen.words, out::EVENT_LINE.at, out::EVENT_LINE.width);
                let word = |at: usize| Field { at: event_line::DATA.at + 64 * at, width: 64 }.get(&words);
                let line = event_line::LINE.get(&words);
                let count = if line % 2 == 1 { 5 } else { 8 };
                self.seen.lines.push_back(Line { line, words: (0..count).map(word).collect() });
                moved = true;
            }
            self.seen.discarded += out::DISCARDED.get(seen.words);
            for (count, (field, _)) in self.counts.iter_mut().zip(COUNTS) {
                *count += field.get(seen.words);
            }
        }
        moved
    }

    /// Compares the output of each port on both sides. `at_end`: neither side may have more than the other.
    fn compare_ports(&mut self, at_end: bool) -> Result<(), LockstepError> {
        let (rtl, nic) = (&mut self.seen, &mut self.model.outputs);
        let mut first = compare("answers", &mut rtl.answers, &mut nic.answers, at_end, Answer::agrees);
        for (port, name) in ["puts", "get headers", "replies"].into_iter().enumerate() {
            first =
                first.and_then(|()| compare(name, &mut rtl.sends[port], &mut nic.sends[port], at_end, Send::agrees));
        }
        for (port, name) in ["payloads of puts", "payloads of replies"].into_iter().enumerate() {
            let same = |rtl: &Receive, nic: &Receive| rtl == nic;
            first = first.and_then(|()| compare(name, &mut rtl.receives[port], &mut nic.receives[port], at_end, same));
        }
        let same = |rtl: &Line, nic: &Line| rtl == nic;
        first = first.and_then(|()| compare("event lines", &mut rtl.lines, &mut nic.lines, at_end, same));
        if at_end && rtl.discarded != nic.discarded {
            let text = format!("invalid packets: {} in the RTL, {} in nic", rtl.discarded, nic.discarded);
            first = first.and(Err(text.into()));
        }
        first.map_err(|error| error.with_report(|text| self.report(text)))
    }

    fn note(&mut self, text: String) {
        self.recent.push_back(text);
        if self.recent.len() > 24 {
            self.recent.pop_front();
        }
        self.compared += 1;
    }

    fn report(&self, difference: &str) -> String {
        let recent: String = self.recent.iter().map(|text| format!("  {text}\n")).collect();
        let cycle = self.unit.cycle();
        format!("{difference}\nafter {} commands, by cycle {cycle}; the last of them:\n{recent}", self.compared)
    }
}

/// Compares two queues over their common length, and removes equal elements.
fn compare<T: std::fmt::Debug>(
    what: &str,
    rtl: &mut VecDeque<T>,
    nic: &mut VecDeque<T>,
    at_end: bool,
    agrees: impl Fn(&T, &T) -> bool,
) -> Result<(), LockstepError> {
    while let (Some(one), Some(other)) = (rtl.front(), nic.front()) {
        if !agrees(one, other) {
            return Err(format!("{what}:\nRTL: {one:x?}\nnic: {other:x?}").into());
        }
        rtl.pop_front();
        nic.pop_front();
    }
    match (at_end, rtl.front(), nic.front()) {
        (true, Some(one), None) => Err(format!("{what}: the RTL has {one:x?}, and nic nothing").into()),
        (true, None, Some(other)) => Err(format!("{what}: nic has {other:x?}, and the RTL nothing").into()),
        _ => Ok(()),
    }
}

impl Answer {
    /// Whether the RTL's answer has all values of `nic`'s. Values that `nic` leaves out are not compared.
    fn agrees(&self, nic: &Answer) -> bool {
        self.status == nic.status
            && (nic.reference.is_none() || self.reference == nic.reference)
            && (nic.armed.is_none() || self.armed == nic.armed)
            && (nic.amounts.is_none() || self.amounts == nic.amounts)
    }
}

impl Send {
    fn agrees(&self, nic: &Send) -> bool {
        self.header == nic.header && self.length == nic.length && (nic.start.is_none() || self.start == nic.start)
    }
}

fn answer_of(words: &[u32]) -> Result<Answer, LockstepError> {
    let get = |field: Field| field.get(words);
    let code = get(answer::STATUS);
    Ok(Answer {
        status: Status::of(code).ok_or_else(|| format!("an answer with unknown status {code}"))?,
        reference: Some(get(answer::REFERENCE) as u32),
        armed: Some((get(answer::ARMED) as u32, get(answer::ARMED_GENERATION) as u32)),
        amounts: Some((get(answer::SUCCESS), get(answer::FAILURE))),
    })
}

fn send_of(words: &[u32]) -> Send {
    let mut header = [0; 128];
    for (number, bytes) in header.chunks_exact_mut(4).enumerate() {
        let field = Field { at: send::HEADER.at + 32 * number, width: 32 };
        bytes.copy_from_slice(&(field.get(words) as u32).to_le_bytes());
    }
    Send { header, length: send::LENGTH.get(words) as u32, start: Some(send::START.get(words)) }
}
