// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters and triggered operations (`rtl/counters/counters.sv`) in lockstep with `nic`.
//!
//! Words: C0 and C1 of index i are `CounterBook` i, T0 to T2 of index i are `Triggered` i.
//!
//! 1. Commands have their effects in the order of their tags. A command's operations have fired when it retires: so `nic` runs the
//!    command, and then [`Nic::next_fired`](selvedge_nic::Nic::next_fired) until nothing is due.
//! 2. An operation that moves data gives its record back when it enters its port's register. If the port is not ready, that is later:
//!    the trace says when, and `nic` finishes the operation then.
//! 3. Compared: status and values of answers; slot, amounts, lowest threshold, head and tail of counters; slot, counter, threshold,
//!    what it does, and place in its list of armed operations; links of free records; what leaves at each port, in order.
//! 4. Not compared: lanes (always 0), `executor`, `sequence` (order in the list says it), `prev` of the head of a list, links of
//!    operations that wait for a port (each port has its list here, `nic` has none).

pub mod words;

use std::collections::VecDeque;

use crate::Unit;
use crate::home::Home;
use crate::records::{NO_REFERENCE, Output, Status, free_next, link, reference, same};
use crate::shadow::{Shadow, Write, WriteLayout, copy_bits};
use selvedge_nic::portals::triggered::Armed;
use selvedge_nic::tables::{counter, kind, slot, triggered};
use selvedge_nic::{Limits, NoMemory};
use words::{Body, Command, answer, body_of, body_of_record, c0, c1, command, outside_in, outside_out, t0};

/// How the trace shows writes, and how many write ports it has.
pub const TRACE: (WriteLayout, usize) = (WriteLayout::new(256), 5);
/// Cycles that a unit needs behind its last command to hand over all that can leave: a refill of each port for each operation.
const IDLE: u64 = 64;
const BANK_T0: usize = 2;

/// An answer, with the cycles from the command's acceptance to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    pub accepted: u32,
    pub latency: u32,
    /// Alloc: the reference.
    pub counter: u32,
    /// Arm: index and generation of the operation.
    pub armed: (u32, u32),
}

/// The ports at which operations leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    Get,
    Put,
    Other,
}

impl Port {
    pub const ALL: [Port; 3] = [Port::Get, Port::Put, Port::Other];

    fn of(kind: u8) -> Port {
        match kind {
            kind::GET => Port::Get,
            kind::PUT => Port::Put,
            _ => Port::Other,
        }
    }
}

/// Which ports are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(pub [bool; 3]);

impl Ready {
    pub const ALL: Ready = Ready([true; 3]);
}

/// An operation that left: the first cycle in which it stood at its port, and its kind, object and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    pub cycle: u32,
    pub port: Port,
    pub body: Body,
}

/// Both sides.
pub struct Pair {
    unit: Unit,
    home: Home,
    shadow: Shadow,
    tag: u32,
    /// Handles of all armed operations so far, with those of `nic`.
    handles: Vec<((u32, u32), Armed)>,
    /// What `nic` has fired and has not left the RTL: port, kind, body.
    due: [VecDeque<(u8, Body)>; 3],
    /// Since when something stands at each port.
    standing: [Option<u32>; 3],
    /// What left in the last run.
    pub left: Vec<Left>,
}

impl Pair {
    /// For a unit with so many counters and triggered operations.
    pub fn new(mut unit: Unit, counters: usize, triggered: usize) -> Pair {
        unit.reset();
        let banks = [(counters, 128), (counters, 128), (triggered, 256), (triggered, 256), (triggered, 256)];
        Pair {
            unit,
            home: Home::new(&Limits { counters: counters as u32, triggered: triggered as u32, ..Limits::NONE }),
            shadow: Shadow::new(&banks),
            tag: 0,
            handles: Vec::new(),
            due: Default::default(),
            standing: [None; 3],
            left: Vec::new(),
        }
    }

    /// Runs commands one behind the other on both sides, while these ports are ready.
    ///
    /// # Errors
    /// The first difference.
    pub fn run(&mut self, commands: &[Command], ready: Ready) -> Result<Vec<Answer>, String> {
        let first = self.tag;
        self.tag += commands.len() as u32;
        let words: Vec<u32> = commands.iter().zip(first..).flat_map(|(command, tag)| command.pack(tag)).collect();
        let mut outside = [0];
        for (field, &ready) in
            [outside_in::GET_READY, outside_in::PUT_READY, outside_in::OTHER_READY].iter().zip(&ready.0)
        {
            field.set(&mut outside, ready.into());
        }
        self.unit.set_outside(&outside);
        let start = self.unit.cycle() as u32;
        let output = Output::of(&mut self.unit, &words, command::WORDS, TRACE, IDLE)?;
        same("answers", output.answers.len(), commands.len())?;
        self.take_ports(&output, ready, start);

        let mut answers = Vec::new();
        let mut changed: Vec<Write> = Vec::new();
        for (cycle, trace) in &output.traces {
            for write in &trace.writes {
                self.shadow.apply(write)?;
                if let Some(index) = left_port(write) {
                    self.home.nic().finish_fired(index);
                }
                changed.push(write.clone());
            }
            let Some(tag) = trace.retired else { continue };
            let number = answers.len();
            same("the tag that retires", tag, first + number as u32)?;
            let command = &commands[number];
            let context = |error| format!("{command:x?}, tag {tag}, cycle {cycle}: {error}");
            let (at, words) = &output.answers[number];
            same("the answer's tag", answer::TAG.get(words), tag.into()).map_err(context)?;
            let answer = self.answer(command, words).map_err(context)?;
            self.fire(&changed).map_err(context)?;
            for write in changed.drain(..) {
                self.compare(write.bank, write.address).map_err(context)?;
            }
            let accepted = output.accepted[number];
            answers.push(Answer { accepted, latency: at - accepted, ..answer });
        }
        self.compare_all()?;
        self.compare_ports(ready)?;
        Ok(answers)
    }

    /// Runs the command on `nic`, and compares what both answer.
    fn answer(&mut self, command: &Command, words: &[u32]) -> Result<Answer, String> {
        let status = Status::of(answer::STATUS.get(words));
        let mut new = (0, (0, 0));
        let lives = |home: &mut Home, counter| home.nic().signals.counter(counter).is_some();
        let of = |is_done: bool| if is_done { Status::Ok } else { Status::Invalid };
        let expected = match *command {
            Command::Alloc => match self.home.nic().counter_alloc() {
                Ok(counter) => {
                    new.0 = counter;
                    same("the reference", answer::COUNTER.get(words), counter.into())?;
                    Status::Ok
                }
                Err(_) => Status::Full,
            },
            Command::Free(counter) => of(self.home.nic().counter_free(counter).is_ok()),
            Command::Set { counter, success, failure } => {
                let is_live = lives(&mut self.home, counter);
                self.home.nic().count_set(counter, success, failure);
                of(is_live)
            }
            Command::Increment { counter, success, failure } => {
                let is_live = lives(&mut self.home, counter);
                self.home.nic().count(counter, success, failure);
                of(is_live)
            }
            Command::Get(counter) => {
                let is_live = lives(&mut self.home, counter);
                if is_live {
                    let (index, _) = self.home.nic().signals.encodings.counters.decode(counter);
                    let book = &self.home.books[index as usize];
                    same("successes", answer::SUCCESS.get(words), book.success)?;
                    same("failures", answer::FAILURE.get(words), book.failure)?;
                }
                of(is_live)
            }
            Command::Arm { counter, threshold, ref what } => {
                let index = self.home.control.free_triggered;
                let generation =
                    self.home.triggered.get(index as usize).map_or(0, |record| slot::generation(record.slot));
                match self.home.nic().arm(counter, threshold, what.action()) {
                    Ok(armed) => {
                        new.1 = (index, generation);
                        self.handles.push((new.1, armed));
                        let rtl = (answer::ARMED.get(words) as u32, answer::ARMED_GENERATION.get(words) as u32);
                        same("the operation", rtl, new.1)?;
                        Status::Ok
                    }
                    Err(_) => Status::Full,
                }
            }
            Command::Cancel(counter) => of(self.home.nic().cancel_triggered(counter).is_some()),
            Command::CancelOne { index, generation } => {
                // `nic` hands out handles only by arming, so a handle that was never armed is no operation of its.
                let handle = self.handles.iter().find(|(handle, _)| *handle == (index, generation));
                of(handle.is_some_and(|&(_, armed)| self.home.nic().cancel_armed(armed)))
            }
        };
        same("status", status, expected)?;
        Ok(Answer { status, accepted: 0, latency: 0, counter: new.0, armed: new.1 })
    }

    /// Runs on `nic` what the command has made due, and compares with what the RTL's writes say.
    fn fire(&mut self, writes: &[Write]) -> Result<(), String> {
        let mut rtl = writes.iter().filter_map(fired);
        while let Some(fired) = self.home.nic().next_fired(&mut NoMemory, 1).map_err(|_| "grants")? {
            let (index, is_free) = rtl.next().ok_or_else(|| format!("nic fires {fired:x?}, the RTL nothing"))?;
            same("the operation that fires", index, fired.index)?;
            self.due[Port::of(fired.command.kind) as usize].push_back((fired.command.kind, body_of(&fired.command)));
            if is_free {
                self.home.nic().finish_fired(index);
            }
        }
        match rtl.next() {
            // A cancelled operation gives its record back, too.
            Some((index, _)) if slot::status(self.home.triggered[index as usize].slot) != slot::FREE => {
                Err(format!("the RTL fires operation {index}, nic nothing"))
            }
            _ => Ok(()),
        }
    }

    /// Keeps what left at the ports.
    fn take_ports(&mut self, output: &Output, ready: Ready, start: u32) {
        self.left.clear();
        let mut last = start.wrapping_sub(1);
        for (cycle, words) in &output.outsides {
            if *cycle != last.wrapping_add(1) {
                self.standing = [None; 3];
            }
            last = *cycle;
            let at = [outside_out::GET, outside_out::PUT, outside_out::OTHER];
            let valid = [outside_out::GET_VALID, outside_out::PUT_VALID, outside_out::OTHER_VALID];
            for port in Port::ALL {
                let number = port as usize;
                if valid[number].get(words) == 0 {
                    self.standing[number] = None;
                    continue;
                }
                let since = *self.standing[number].get_or_insert(*cycle);
                if ready.0[number] {
                    let body = copy_bits(words, at[number].at, 512).try_into().expect("a body has 512 bits");
                    self.left.push(Left { cycle: since, port, body });
                    self.standing[number] = None;
                }
            }
        }
    }

    /// Compares what left at the ports with what `nic` has fired.
    fn compare_ports(&mut self, ready: Ready) -> Result<(), String> {
        for left in &self.left {
            let due = self.due[left.port as usize].pop_front();
            let (_, body) = due.ok_or_else(|| format!("{left:x?} left, and nothing was due"))?;
            same(&format!("what left at {:?}", left.port), left.body, body)?;
        }
        for port in Port::ALL {
            if let (true, Some(due)) = (ready.0[port as usize], self.due[port as usize].front()) {
                return Err(format!("{due:x?} is due at {port:?}, and did not leave"));
            }
        }
        Ok(())
    }

    fn compare(&mut self, bank: usize, index: usize) -> Result<(), String> {
        let of = |error| format!("{} {index}: {error}", if bank < BANK_T0 { "counter" } else { "operation" });
        if bank < BANK_T0 { self.compare_counter(index).map_err(of) } else { self.compare_triggered(index).map_err(of) }
    }

    /// Compares a counter with its record.
    fn compare_counter(&self, index: usize) -> Result<(), String> {
        let (amounts, state) = (self.shadow.word(0, index), self.shadow.word(1, index));
        let (book, records) = (&self.home.books[index], self.home.triggered.len());
        same("status", c1::STATUS.get(state), slot::status(book.slot).into())?;
        same("generation", c1::GENERATION.get(state), slot::generation(book.slot).into())?;
        same("successes", c0::SUCCESS.get(amounts), book.success)?;
        same("failures", c0::FAILURE.get(amounts), book.failure)?;
        if slot::status(book.slot) != counter::LIVE {
            let (books, next) = (self.home.books.len(), slot::next(index as u32, book.next_free));
            return same(
                "the next free counter",
                free_next(index, c1::HEAD.get(state), books),
                link(next.into(), books),
            );
        }
        same("the lowest threshold", c1::THRESHOLD_NEXT.get(state), book.threshold_next)?;
        same("head", link(c1::HEAD.get(state), records), link(book.armed_head.into(), records))?;
        same("tail", link(c1::TAIL.get(state), records), link(book.armed_tail.into(), records))
    }

    /// Compares a triggered operation with its record.
    fn compare_triggered(&self, index: usize) -> Result<(), String> {
        let word = self.shadow.word(BANK_T0, index);
        let (record, records) = (&self.home.triggered[index], self.home.triggered.len());
        same("status", t0::STATUS.get(word), slot::status(record.slot).into())?;
        same("generation", t0::GENERATION.get(word), slot::generation(record.slot).into())?;
        let is_armed = slot::status(record.slot) == triggered::ARMED;
        if slot::status(record.slot) == slot::FREE {
            let next = slot::next(index as u32, record.next);
            return same(
                "the next free operation",
                free_next(index, t0::NEXT.get(word), records),
                link(next.into(), records),
            );
        }
        same("counter", t0::COUNTER.get(word), reference(record.counter))?;
        same("threshold", t0::THRESHOLD.get(word), record.threshold)?;
        same("kind", t0::KIND.get(word), record.command.kind.into())?;
        same("list", t0::VARIANT.get(word), record.list.into())?;
        same("object", t0::OBJECT.get(word), reference(record.object))?;
        let mut body = self.shadow.word(3, index).to_vec();
        body.extend(self.shadow.word(4, index));
        same("body", &body[..], &body_of_record(record)[..])?;
        if is_armed {
            same("next", link(t0::NEXT.get(word), records), link(record.next.into(), records))?;
            if let Some(prev) = link(record.prev.into(), records) {
                same("prev", link(t0::PREV.get(word), records), Some(prev))?;
            }
        }
        Ok(())
    }

    fn compare_all(&mut self) -> Result<(), String> {
        (0..self.home.books.len()).try_for_each(|index| self.compare(0, index))?;
        (0..self.home.triggered.len()).try_for_each(|index| self.compare(BANK_T0, index))
    }
}

/// Status of an operation before and after a write of T0.
fn states(write: &Write) -> Option<(u32, u32)> {
    let old = write.old.as_ref().filter(|_| write.bank == BANK_T0)?;
    Some((t0::STATUS.get(old) as u32, t0::STATUS.get(&write.new) as u32))
}

/// The operation that moves data and fires by this write, and whether its record is free.
fn fired(write: &Write) -> Option<(u32, bool)> {
    let (before, after) = states(write)?;
    let is_local = matches!(t0::KIND.get(&write.new) as u8, kind::COUNTER_SET | kind::COUNTER_INCREMENT);
    (before == triggered::ARMED && after != triggered::ARMED && !is_local)
        .then_some((write.address as u32, after == slot::FREE))
}

/// The operation that was waiting for its port, and leaves by this write.
fn left_port(write: &Write) -> Option<u32> {
    (states(write)? == (triggered::FIRING, slot::FREE)).then_some(write.address as u32)
}

const _: () = assert!(NO_REFERENCE == (1 << 27) - 1);
