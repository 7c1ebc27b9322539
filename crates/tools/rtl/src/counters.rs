// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters and triggered operations (`rtl/counters/counters.sv`) in lockstep with `nic`.
//!
//! Words: C0 and C1 of index i are `CounterBook` i, T0 to T2 of index i are `Triggered` i.
//!
//! 1. Commands take effect in the order of their tags. When a command retires, its operations have fired. So `nic` runs
//!    the command, and then
//!    [`TriggeredOperations::next_fired`](selvedge_nic::portals::triggered::TriggeredOperations::next_fired) until
//!    nothing is due.
//! 2. An operation that moves data frees its record when it enters its port's register. If the port is not ready, that
//!    is later: the trace shows the cycle, and `nic` finishes the operation then.
//! 3. Compared: status and values of answers; slot, amounts, lowest threshold, head and tail of counters; slot,
//!    counter, threshold, action and place in its list of armed operations; links of free records; outputs of each
//!    port, in order.
//! 4. Not compared: lanes (always 0), `executor`, `sequence` (equal to the order in the list), `prev` of the head of a
//!    list, links of operations that wait for a port (each port has its list here, `nic` has none).

mod records;
pub mod words;

pub use records::{Records, fired, left_port};

use std::collections::VecDeque;

use crate::Unit;
use crate::error::LockstepError;
use crate::home::Home;
use crate::records::{NO_REFERENCE, Output, Status, same};
use crate::shadow::{Shadow, Write, WriteLayout, copy_bits};
use selvedge_nic::portals::triggered::Armed;
use selvedge_nic::tables::{kind, slot};
use selvedge_nic::{Limits, NoMemory};
use words::{Body, CounterCommand, answer, body_of, command, outside_in, outside_out};

/// Layout of writes in the trace, and the number of write ports.
pub const TRACE: (WriteLayout, usize) = (WriteLayout::new(256), 5);
/// Cycles after the last command until all outputs have left: a refill of each port for each operation.
const IDLE: u64 = 64;

/// An answer, with its latency in cycles from the command's acceptance.
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

/// The ports that are ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready(pub [bool; 3]);

impl Ready {
    pub const ALL: Ready = Ready([true; 3]);
}

/// An operation that left: the first cycle in which it was at its port, and its kind, object and body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departure {
    pub cycle: u32,
    pub port: Port,
    pub body: Body,
}

/// Both sides.
pub struct CountersLockstep {
    unit: Unit,
    home: Home,
    shadow: Shadow,
    tag: u32,
    /// Handles of all armed operations so far, with those of `nic`.
    handles: Vec<((u32, u32), Armed)>,
    /// Operations that `nic` has fired and that have not left the RTL: port, kind, body.
    due: [VecDeque<(u8, Body)>; 3],
    /// First cycle of the operation at each port.
    standing: [Option<u32>; 3],
    /// Operations that left in the last run.
    pub departures: Vec<Departure>,
}

impl CountersLockstep {
    /// Creates a lockstep with a unit with this number of counters and triggered operations.
    pub fn new(mut unit: Unit, counters: usize, triggered: usize) -> CountersLockstep {
        unit.reset();
        let banks = [(counters, 128), (counters, 128), (triggered, 256), (triggered, 256), (triggered, 256)];
        CountersLockstep {
            unit,
            home: Home::new(&Limits { counters: counters as u32, triggered: triggered as u32, ..Limits::NONE }),
            shadow: Shadow::new(&banks),
            tag: 0,
            handles: Vec::new(),
            due: Default::default(),
            standing: [None; 3],
            departures: Vec::new(),
        }
    }

    /// Runs commands back to back on both sides, while these ports are ready. Fails with the first difference.
    pub fn run(&mut self, commands: &[CounterCommand], ready: Ready) -> Result<Vec<Answer>, LockstepError> {
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
                if let Some(index) = left_port(write, 0) {
                    self.home.nic().triggered().finish_fired(index);
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
                self.records().compare(write.bank, write.address).map_err(context)?;
            }
            let accepted = output.accepted[number];
            answers.push(Answer { accepted, latency: at - accepted, ..answer });
        }
        self.records().compare_all()?;
        self.compare_ports(ready)?;
        Ok(answers)
    }

    fn records(&self) -> Records<'_> {
        Records { shadow: &self.shadow, home: &self.home, first_bank: 0 }
    }

    fn answer(&mut self, command: &CounterCommand, words: &[u32]) -> Result<Answer, LockstepError> {
        let status = Status::of(answer::STATUS.get(words));
        let mut new = (0, (0, 0));
        let lives = |home: &mut Home, counter| home.nic().signals.counter(counter).is_some();
        let of = |is_done: bool| if is_done { Status::Ok } else { Status::Invalid };
        let expected = match *command {
            CounterCommand::Alloc => match self.home.nic().counters().alloc() {
                Ok(counter) => {
                    new.0 = counter;
                    same("the reference", answer::COUNTER.get(words), counter.into())?;
                    Status::Ok
                }
                Err(_) => Status::Full,
            },
            CounterCommand::Free(counter) => of(self.home.nic().counters().free(counter).is_ok()),
            CounterCommand::Set { counter, success, failure } => {
                let is_live = lives(&mut self.home, counter);
                self.home.nic().counters().set(counter, success, failure);
                of(is_live)
            }
            CounterCommand::Increment { counter, success, failure } => {
                let is_live = lives(&mut self.home, counter);
                self.home.nic().counters().increment(counter, success, failure);
                of(is_live)
            }
            CounterCommand::Get(counter) => {
                let is_live = lives(&mut self.home, counter);
                if is_live {
                    let (index, _) = self.home.nic().signals.encodings.counters.decode(counter);
                    let book = &self.home.books[index as usize];
                    same("successes", answer::SUCCESS.get(words), book.success)?;
                    same("failures", answer::FAILURE.get(words), book.failure)?;
                }
                of(is_live)
            }
            CounterCommand::Arm { counter, threshold, ref action } => {
                let index = self.home.control.free_triggered;
                let generation =
                    self.home.triggered.get(index as usize).map_or(0, |record| slot::generation(record.slot));
                match self.home.nic().triggered().arm(counter, threshold, action.nic_action()) {
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
            CounterCommand::Cancel(counter) => of(self.home.nic().triggered().cancel_all(counter).is_some()),
            CounterCommand::CancelOne { index, generation } => {
                // `nic` hands out handles only by arming, so an unknown handle is not one of its operations.
                let handle = self.handles.iter().find(|(handle, _)| *handle == (index, generation));
                of(handle.is_some_and(|&(_, armed)| self.home.nic().triggered().cancel(armed)))
            }
        };
        same("status", status, expected)?;
        Ok(Answer { status, accepted: 0, latency: 0, counter: new.0, armed: new.1 })
    }

    /// Runs the due operations on `nic`, and compares them with the RTL's writes.
    fn fire(&mut self, writes: &[Write]) -> Result<(), LockstepError> {
        let mut rtl = writes.iter().filter_map(|write| fired(write, 0));
        while let Some(fired) = self.home.nic().triggered().next_fired(&mut NoMemory, 1).map_err(|_| "grants")? {
            let (index, is_free) = rtl.next().ok_or_else(|| format!("nic fires {fired:x?}, the RTL nothing"))?;
            same("the operation that fires", index, fired.index)?;
            self.due[Port::of(fired.command.kind) as usize].push_back((fired.command.kind, body_of(&fired.command)));
            if is_free {
                self.home.nic().triggered().finish_fired(index);
            }
        }
        match rtl.next() {
            // A cancelled operation frees its record, too.
            Some((index, _)) if slot::status(self.home.triggered[index as usize].slot) != slot::FREE => {
                Err(format!("the RTL fires operation {index}, nic nothing").into())
            }
            _ => Ok(()),
        }
    }

    fn take_ports(&mut self, output: &Output, ready: Ready, start: u32) {
        self.departures.clear();
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
                    self.departures.push(Departure { cycle: since, port, body });
                    self.standing[number] = None;
                }
            }
        }
    }

    /// Compares the outputs of the ports with the operations that `nic` has fired.
    fn compare_ports(&mut self, ready: Ready) -> Result<(), LockstepError> {
        for left in &self.departures {
            let due = self.due[left.port as usize].pop_front();
            let (_, body) = due.ok_or_else(|| format!("{left:x?} left, and nothing was due"))?;
            same(&format!("what left at {:?}", left.port), left.body, body)?;
        }
        for port in Port::ALL {
            if let (true, Some(due)) = (ready.0[port as usize], self.due[port as usize].front()) {
                return Err(format!("{due:x?} is due at {port:?}, and did not leave").into());
            }
        }
        Ok(())
    }
}

const _: () = assert!(NO_REFERENCE == (1 << 27) - 1);
