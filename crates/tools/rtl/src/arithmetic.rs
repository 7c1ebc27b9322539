// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of an aggregation node, `rtl/arithmetic/aggregate.sv`, in lockstep with that of [`selvedge_nic`].
//!
//! The model (`model.rs`) runs each command when its answer is seen: it accepts operands as `Node::request` does, and
//! reduces them in the order of the children. The unit reduces later, while other commands run. So its writes into
//! results are compared when the trace shows them, one operand after the other in the order of the children, each with
//! the model's word after that operand.
//!
//! The model takes one fact from the unit: whether a reduction has ended. `Busy` is right while a word is due, or was
//! written just now; the command then has no effect on either side.
//!
//! | bank | word | compared with |
//! |---|---|---|
//! | 0 | operand: record, child, word | the word of the command, in the cycle before its answer |
//! | 1 | result: record, word | the target after the operand whose last word had the write's tag, up to its bytes |

mod model;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use crate::Unit;
use crate::bits::Field;
use crate::error::LockstepError;
use crate::shadow::{Shadow, Write, WriteLayout};
use model::{Model, PASS_CYCLES, Record};
pub use words::{Answer, ArithmeticCommand, Shape, Status, WORD_BITS, answer, command, is_supported};

/// Write ports in `arithmetic_pkg::trace_t`.
pub const WRITES: usize = 2;
/// Cycles from the acceptance of a command to its answer.
pub const LATENCY: u32 = 2;
/// Number of recent tags in the report of a difference.
const HISTORY: usize = 64;

/// A correct word of a result that the unit has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducedWord {
    pub cycle: u32,
    pub record: usize,
    pub child: usize,
    pub word: usize,
}

/// The unit and the model.
pub struct ArithmeticLockstep {
    unit: Unit,
    shape: Shape,
    model: Model,
    shadow: Shadow,
    next_tag: u32,
    waiting: VecDeque<(u32, ArithmeticCommand)>,
    accepted: VecDeque<u32>,
    /// Writes into the bank of operands whose command is not answered.
    stored: BTreeMap<u32, Write>,
    history: VecDeque<(u32, ArithmeticCommand, Status)>,
    /// Words of results since the last call of [`ArithmeticLockstep::take_reduced`].
    reduced: Vec<ReducedWord>,
}

impl ArithmeticLockstep {
    /// Creates a lockstep with a unit of this shape, after reset.
    pub fn new(unit: Unit, shape: Shape) -> ArithmeticLockstep {
        let results = shape.records * shape.words();
        let operands = results * shape.children;
        ArithmeticLockstep {
            unit,
            shape,
            model: Model::new(shape),
            shadow: Shadow::new(&[(operands, WORD_BITS), (results, WORD_BITS)]),
            next_tag: 0,
            waiting: VecDeque::new(),
            accepted: VecDeque::new(),
            stored: BTreeMap::new(),
            history: VecDeque::new(),
            reduced: Vec::new(),
        }
    }

    /// Cycles since the reset.
    pub fn cycle(&self) -> u64 {
        self.unit.cycle()
    }

    /// Runs the commands back to back, then `idle` cycles. Returns the answers. Fails with the first difference.
    pub fn run(&mut self, commands: &[ArithmeticCommand], idle: u64) -> Result<Vec<Answer>, LockstepError> {
        let mut words = Vec::with_capacity(commands.len() * command::WORDS);
        for command in commands {
            words.extend(command.pack(self.next_tag));
            self.waiting.push_back((self.next_tag, *command));
            self.next_tag += 1;
        }
        let mut answers = Vec::new();
        let mut at = 0;
        let mut stalled = 0;
        while at < words.len() {
            let taken = self.unit.run(&words[at..], (words.len() - at).div_ceil(command::WORDS) as u64);
            at += taken * command::WORDS;
            // After a reset, the unit clears its banks first.
            stalled = if taken == 0 { stalled + 1 } else { 0 };
            let cleared = self.shape.records * self.shape.words() * self.shape.children;
            if stalled > cleared + 16 {
                return Err(self.stall("a command is never accepted".into()));
            }
            self.see(&mut answers)?;
        }
        self.unit.run(&[], idle);
        self.see(&mut answers)?;
        Ok(answers)
    }

    /// Runs until all complete operands are reduced. Fails with the first difference, or if an operand never is.
    pub fn drain(&mut self) -> Result<(), LockstepError> {
        self.run(&[], 2 * u64::from(LATENCY))?;
        let due = |record: &Record| record.due.len() * (self.shape.words() + PASS_CYCLES);
        let cycles = 64 + self.model.records.iter().map(due).sum::<usize>();
        self.run(&[], cycles as u64)?;
        if let Some((tag, command)) = self.waiting.front() {
            return Err(self.stall(format!("command {tag}, {command:x?}, is not answered")));
        }
        let records = self.model.records.iter().enumerate().filter(|(_, record)| record.failure.is_none());
        let late = records.filter_map(|(at, record)| Some((at, record.due.front()?))).next();
        match late {
            Some((record, due)) => {
                let what = format!(
                    "record {record}: the operand of child {} is not reduced from word {} on",
                    due.child, due.word
                );
                Err(self.stall(what))
            }
            None => Ok(()),
        }
    }

    /// The words of results that were written since the last call.
    pub fn take_reduced(&mut self) -> Vec<ReducedWord> {
        std::mem::take(&mut self.reduced)
    }

    fn difference(&self, cycle: u32, text: String) -> LockstepError {
        LockstepError::Mismatch(self.report(cycle, &text))
    }

    fn stall(&self, text: String) -> LockstepError {
        LockstepError::Stall(self.report(self.unit.cycle() as u32, &text))
    }

    /// A difference, after the last answered commands, the newest last.
    fn report(&self, cycle: u32, text: &str) -> String {
        let mut report = String::new();
        for (tag, command, status) in &self.history {
            let _ = writeln!(report, "command {tag}: {command:x?}: {status:?}");
        }
        report + &format!("cycle {cycle}: {text}")
    }

    /// Compares the trace and the answers of the last run, in the order of cycles.
    fn see(&mut self, answers: &mut Vec<Answer>) -> Result<(), LockstepError> {
        self.accepted.extend(self.unit.accepted());
        let layout = WriteLayout::new(WORD_BITS);
        let traces: Vec<_> = self.unit.traces().map(|seen| (seen.cycle, layout.trace(seen.words, WRITES))).collect();
        let half = Field { at: answer::DATA.at, width: 64 };
        let seen: Vec<_> = self
            .unit
            .answers()
            .map(|seen| Answer {
                tag: answer::TAG.get(seen.words) as u32,
                cycle: seen.cycle,
                status: Status::from(answer::STATUS.get(seen.words) as u8),
                data: u128::from(half.get(seen.words)) | u128::from(half.within(64).get(seen.words)) << 64,
            })
            .collect();
        let mut seen = seen.into_iter().peekable();
        for (cycle, trace) in traces {
            if let Some(answer) = seen.next_if(|answer| answer.cycle < cycle) {
                return Err(self.difference(answer.cycle, format!("{answer:x?} is not shown as retired")));
            }
            for write in trace.writes {
                self.shadow.apply(&write).map_err(|error| error.with_report(|text| self.report(cycle, text)))?;
                match write.bank {
                    0 => drop(self.stored.insert(write.tag, write)),
                    _ => self.written(cycle, &write)?,
                }
            }
            let answer = seen.next_if(|answer| answer.cycle == cycle);
            if trace.retired != answer.map(|answer| answer.tag) {
                return Err(
                    self.difference(cycle, format!("{:?} retires, and the answer is {answer:x?}", trace.retired))
                );
            }
            if let Some(answer) = answer {
                self.answered(&answer)?;
                answers.push(answer);
            }
        }
        match seen.next() {
            Some(answer) => Err(self.difference(answer.cycle, format!("{answer:x?} is not shown as retired"))),
            None => Ok(()),
        }
    }

    /// Handles a write of the unit into a result.
    fn written(&mut self, cycle: u32, write: &Write) -> Result<(), LockstepError> {
        let (number, word) = (write.address / self.shape.words(), write.address % self.shape.words());
        let Some(due) = self.model.records.get(number).and_then(|record| record.due.front()) else {
            return Err(self.difference(cycle, format!("{write:x?}: record {number} has no operand to reduce")));
        };
        let at = due.word * self.shape.word_bytes;
        let expected = &due.result[at..due.result.len().min(at + self.shape.word_bytes)];
        let bytes: Vec<u8> = write.new.iter().flat_map(|word| word.to_le_bytes()).collect();
        if (due.tag, due.word) != (write.tag, word) || bytes[..expected.len()] != *expected {
            let what = format!(
                "record {number}, {:?}: {write:x?}, but the model reduces child {} next, whose last word was command {}: word {} becomes \
                 {expected:x?} (lowest byte first)",
                self.model.records[number].reduction, due.child, due.tag, due.word
            );
            return Err(self.difference(cycle, what));
        }
        let child = due.child;
        let record = &mut self.model.records[number];
        record.written_at = Some(cycle);
        if let Some(due) = record.due.front_mut() {
            due.word += 1;
            if due.word * self.shape.word_bytes >= due.result.len() {
                record.due.pop_front();
            }
        }
        self.reduced.push(ReducedWord { cycle, record: number, child, word });
        Ok(())
    }

    fn answered(&mut self, answer: &Answer) -> Result<(), LockstepError> {
        let Some((tag, command)) = self.waiting.pop_front().filter(|(tag, _)| *tag == answer.tag) else {
            return Err(self.difference(answer.cycle, format!("{answer:x?} does not answer the oldest command")));
        };
        let accepted = self.accepted.pop_front();
        if accepted != Some(answer.cycle - LATENCY) {
            return Err(
                self.difference(answer.cycle, format!("{answer:x?}: its command was accepted in cycle {accepted:?}"))
            );
        }
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back((tag, command, answer.status));
        let stored = self.stored.remove(&tag);
        let expected = self.model.run(tag, &command, answer);
        if expected.status != answer.status {
            return Err(
                self.difference(answer.cycle, format!("{answer:x?}, but the model answers {:?}", expected.status))
            );
        }
        if let Some(bytes) = expected.data {
            let data = answer.data.to_le_bytes();
            if data[..bytes.len()] != bytes {
                return Err(self.difference(answer.cycle, format!("{answer:x?}, but the model's result is {bytes:x?}")));
            }
        }
        let words = stored.as_ref().map(|write| (write.address, write.new.clone()));
        if words != expected.stored {
            let what = format!("{answer:x?}: the unit stores {words:x?}, the model {:x?}", expected.stored);
            return Err(self.difference(answer.cycle, what));
        }
        Ok(())
    }
}
