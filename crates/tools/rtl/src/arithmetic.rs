// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The arithmetic of an aggregation node, `rtl/arithmetic/aggregate.sv`, in lockstep with that of [`selvedge_nic`].
//!
//! The model runs each command when its answer is seen: it takes operands as `Node::request` does, and reduces them by [`Kernel`] in the
//! order of the children. The unit does so later, while other commands run. So the words that it writes into results are compared when
//! the trace shows them, operand by operand in the order of the children, each with the word that the model has after that operand.
//!
//! What the model cannot know is taken from the unit: whether a reduction has ended yet. `Busy` is right as long as a word that is due is
//! not written, or was written just now; and then the command has no effect on either side.
//!
//! | bank | word | compared with |
//! |---|---|---|
//! | 0 | operand: record, child, word | the word of the command, in the cycle before its answer |
//! | 1 | result: record, word | the target after the operand whose last word had the write's tag, up to its bytes |

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::aggregation::reduction::Kernel;
use selvedge_nic::arithmetic::{Datatype, Operation};

use crate::Unit;
use crate::layout;
use crate::shadow::{Shadow, Write, WriteLayout};

layout! {
    /// `arithmetic_pkg::command_t`.
    pub mod command {
        TAG: 32, KIND: 2, RECORD: 8, CHILD: 8, CHILDREN: 8, OPERATION: 8, DATATYPE: 8, INDEX: 8, BYTES: 32, WORD: 8, DATA: 128
    }
}
layout! {
    /// `arithmetic_pkg::answer_t`.
    pub mod answer { TAG: 32, STATUS: 5, DATA: 128 }
}

/// Bits of a word in commands, answers and the trace.
pub const WORD_BITS: usize = 128;
/// Write ports in `arithmetic_pkg::trace_t`.
pub const WRITES: usize = 2;
/// Cycles from the acceptance of a command to its answer.
pub const LATENCY: u32 = 2;
/// Cycles from the write of an operand's last word to the first command that finds it done.
const DONE_CYCLES: u32 = 4;
/// Cycles of an operand beside its words, at most: the choice, the change of the pipeline, the pipeline.
const PASS_CYCLES: usize = 24;
/// Tags that a difference shows.
const HISTORY: usize = 64;

/// The parameters of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub name: &'static str,
    pub records: usize,
    pub children: usize,
    pub bytes_max: usize,
    pub word_bytes: usize,
}

impl Shape {
    /// As in `rtl/units.toml`.
    pub const NARROW: Shape = Shape { name: "aggregate", records: 4, children: 8, bytes_max: 256, word_bytes: 8 };
    /// Words of 128 bits; records that are no power of two.
    pub const WIDE: Shape = Shape { name: "aggregate_128", records: 3, children: 4, bytes_max: 64, word_bytes: 16 };

    fn words(&self) -> usize {
        self.bytes_max / self.word_bytes
    }
}

/// A command of the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArithmeticCommand {
    Open { record: u8, children: u8 },
    Header { record: u8, child: u8, reduction: Reduction },
    Word { data: u128 },
    Result { record: u8, word: u8 },
}

impl ArithmeticCommand {
    /// The command in words of 32 bits.
    pub fn pack(&self, tag: u32) -> [u32; command::WORDS] {
        let mut words = [0; command::WORDS];
        let mut set = |field: crate::bits::Field, value: u64| field.set(&mut words, value);
        set(command::TAG, tag.into());
        match *self {
            ArithmeticCommand::Open { record, children } => {
                set(command::KIND, 0);
                set(command::RECORD, record.into());
                set(command::CHILDREN, children.into());
            }
            ArithmeticCommand::Header { record, child, reduction } => {
                set(command::KIND, 1);
                set(command::RECORD, record.into());
                set(command::CHILD, child.into());
                set(command::OPERATION, reduction.operation.into());
                set(command::DATATYPE, reduction.datatype.into());
                set(command::INDEX, reduction.index.into());
                set(command::BYTES, reduction.bytes.into());
            }
            ArithmeticCommand::Word { data } => {
                set(command::KIND, 2);
                let half = crate::bits::Field { at: command::DATA.at, width: 64 };
                set(half, data as u64);
                set(half.within(64), (data >> 64) as u64);
            }
            ArithmeticCommand::Result { record, word } => {
                set(command::KIND, 3);
                set(command::RECORD, record.into());
                set(command::WORD, word.into());
            }
        }
        words
    }
}

/// `arithmetic_pkg::status_e`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    /// As the software's node.
    Failed(Failure),
    /// The node reduces this, and the unit does not.
    NotHere,
    /// A reduction is under way, or has not ended.
    Busy,
    /// No message announced the word.
    NoMessage,
    /// A number that no status has.
    Unknown(u8),
}

impl From<u8> for Status {
    fn from(number: u8) -> Status {
        match number {
            0 => Status::Ok,
            16 => Status::NotHere,
            17 => Status::Busy,
            18 => Status::NoMessage,
            _ => Failure::from_u8(number).map_or(Status::Unknown(number), Status::Failed),
        }
    }
}

/// Whether the unit has this reduction, which the software has.
pub fn is_supported(reduction: &Reduction) -> bool {
    use Datatype::{Bfloat16, Double, Float, Half};
    let is_here = |datatype: Datatype| (datatype as u8) < 10 || matches!(datatype, Float | Double | Half | Bfloat16);
    reduction.operation != Operation::Prod as u8
        && Datatype::from_number(reduction.datatype.into()).is_some_and(is_here)
}

/// An answer of the unit that the model agrees with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub tag: u32,
    pub cycle: u32,
    pub status: Status,
    pub data: u128,
}

/// A word of a result that the unit has written, rightly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReducedWord {
    pub cycle: u32,
    pub record: usize,
    pub child: usize,
    pub word: usize,
}

/// The first difference between the unit and the model.
#[derive(Clone, Debug)]
pub struct Difference {
    pub cycle: u32,
    pub what: String,
    /// The last commands that were answered, the newest last.
    pub history: Vec<(u32, ArithmeticCommand, Status)>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        for (tag, command, status) in &self.history {
            writeln!(out, "command {tag}: {command:x?}: {status:?}")?;
        }
        write!(out, "cycle {}: {}", self.cycle, self.what)
    }
}

impl std::error::Error for Difference {}

/// An operand that has arrived, and what the result is after it.
#[derive(Clone, Debug)]
struct Due {
    child: usize,
    /// Of its last word.
    tag: u32,
    result: Vec<u8>,
    /// The next word that is written.
    word: usize,
}

/// An operation under way in the model.
#[derive(Clone, Debug, Default)]
struct Record {
    is_open: bool,
    children: usize,
    arrived: usize,
    reduction: Reduction,
    failure: Option<Status>,
    operands: Vec<Option<(u32, Vec<u8>)>>,
    reduced: usize,
    result: Vec<u8>,
    due: VecDeque<Due>,
    /// When its last word was written.
    written_at: Option<u32>,
    /// Until when a failed operation may be busy: what is started goes on, and the rest of what is due is dropped.
    busy_until: u32,
}

/// What the unit's receiver does with words.
#[derive(Clone, Debug)]
enum Message {
    None,
    Taking { record: usize, child: usize, bytes: Vec<u8> },
    Dropping(Status),
}

struct Model {
    shape: Shape,
    records: Vec<Record>,
    message: Message,
}

/// The unit and the model.
pub struct ArithmeticLockstep {
    unit: Unit,
    shape: Shape,
    model: Model,
    shadow: Shadow,
    next_tag: u32,
    /// Commands that are not answered, in order.
    waiting: VecDeque<(u32, ArithmeticCommand)>,
    accepted: VecDeque<u32>,
    /// Writes into the bank of operands whose command is not answered.
    stored: BTreeMap<u32, Write>,
    history: VecDeque<(u32, ArithmeticCommand, Status)>,
    /// Words of results since the last call of [`ArithmeticLockstep::take_reduced`].
    reduced: Vec<ReducedWord>,
}

impl ArithmeticLockstep {
    /// A unit of this shape after reset, and a model of it.
    pub fn new(unit: Unit, shape: Shape) -> ArithmeticLockstep {
        let model = Model { shape, records: vec![Record::default(); shape.records], message: Message::None };
        let results = shape.records * shape.words();
        let operands = results * shape.children;
        ArithmeticLockstep {
            unit,
            shape,
            model,
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

    /// Runs the commands back to back, then so many idle cycles. Returns the answers that came, in order.
    ///
    /// # Errors
    /// The first difference.
    pub fn run(&mut self, commands: &[ArithmeticCommand], idle: u64) -> Result<Vec<Answer>, Box<Difference>> {
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
                return Err(self.difference(self.unit.cycle() as u32, "a command waits for ever".into()));
            }
            self.see(&mut answers)?;
        }
        self.unit.run(&[], idle);
        self.see(&mut answers)?;
        Ok(answers)
    }

    /// Runs until every operand that can be reduced is.
    ///
    /// # Errors
    /// The first difference; also an operand that is never reduced.
    pub fn drain(&mut self) -> Result<(), Box<Difference>> {
        self.run(&[], 2 * u64::from(LATENCY))?;
        let due = |record: &Record| record.due.len() * (self.shape.words() + PASS_CYCLES);
        let cycles = 64 + self.model.records.iter().map(due).sum::<usize>();
        self.run(&[], cycles as u64)?;
        if let Some((tag, command)) = self.waiting.front() {
            return Err(
                self.difference(self.unit.cycle() as u32, format!("command {tag}, {command:x?}, is not answered"))
            );
        }
        let records = self.model.records.iter().enumerate().filter(|(_, record)| record.failure.is_none());
        let late = records.filter_map(|(at, record)| Some((at, record.due.front()?))).next();
        match late {
            Some((record, due)) => {
                let what = format!(
                    "record {record}: the operand of child {} is not reduced from word {} on",
                    due.child, due.word
                );
                Err(self.difference(self.unit.cycle() as u32, what))
            }
            None => Ok(()),
        }
    }

    /// The words of results that were written since the last call.
    pub fn take_reduced(&mut self) -> Vec<ReducedWord> {
        std::mem::take(&mut self.reduced)
    }

    fn difference(&self, cycle: u32, what: String) -> Box<Difference> {
        Box::new(Difference { cycle, what, history: self.history.iter().copied().collect() })
    }

    /// Compares what the last run of the unit has shown, in the order of cycles.
    fn see(&mut self, answers: &mut Vec<Answer>) -> Result<(), Box<Difference>> {
        self.accepted.extend(self.unit.accepted());
        let layout = WriteLayout::new(WORD_BITS);
        let traces: Vec<_> = self.unit.traces().map(|seen| (seen.cycle, layout.trace(seen.words, WRITES))).collect();
        let half = crate::bits::Field { at: answer::DATA.at, width: 64 };
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
                self.shadow.apply(&write).map_err(|what| self.difference(cycle, what))?;
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

    /// The unit has written a word of a result.
    fn written(&mut self, cycle: u32, write: &Write) -> Result<(), Box<Difference>> {
        let (number, word) = (write.address / self.shape.words(), write.address % self.shape.words());
        let Some(due) = self.model.records.get(number).and_then(|record| record.due.front()) else {
            return Err(self.difference(cycle, format!("{write:x?}: nothing of record {number} is to be reduced")));
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

    /// The unit has answered a command.
    fn answered(&mut self, answer: &Answer) -> Result<(), Box<Difference>> {
        let Some((tag, command)) = self.waiting.pop_front().filter(|(tag, _)| *tag == answer.tag) else {
            return Err(self.difference(answer.cycle, format!("{answer:x?} is not that of the oldest command")));
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

/// What the model answers.
struct Expected {
    status: Status,
    /// The bytes of a result's word.
    data: Option<Vec<u8>>,
    /// What is written into the bank of operands, and where.
    stored: Option<(usize, Vec<u32>)>,
}

impl Model {
    fn run(&mut self, tag: u32, command: &ArithmeticCommand, answer: &Answer) -> Expected {
        let mut expected = Expected { status: Status::Ok, data: None, stored: None };
        match *command {
            ArithmeticCommand::Open { record, children } => {
                expected.status = self.open(record.into(), children.into(), answer)
            }
            ArithmeticCommand::Header { record, child, reduction } => {
                let status = self.header(tag, record.into(), child.into(), &reduction, answer.cycle);
                expected.status = status.err().unwrap_or(Status::Ok);
                if let Err(status) = status {
                    self.message = Message::Dropping(status);
                }
            }
            ArithmeticCommand::Word { data } => (expected.status, expected.stored) = self.word(tag, data),
            ArithmeticCommand::Result { record, word } => match self.result(record.into(), word.into(), answer) {
                Ok(bytes) => expected.data = Some(bytes),
                Err(status) => expected.status = status,
            },
        }
        expected
    }

    fn open(&mut self, number: usize, children: usize, answer: &Answer) -> Status {
        let Some(record) = self.records.get_mut(number).filter(|_| (1..=self.shape.children).contains(&children))
        else {
            return Status::Failed(Failure::NoRoom);
        };
        // An operand that is not started is dropped. The unit alone knows whether one is.
        if answer.status == Status::Busy && record.may_be_busy(answer.cycle) {
            return Status::Busy;
        }
        if record.due.front().is_some_and(|due| due.word != 0) {
            return Status::Busy;
        }
        *record = Record { is_open: true, children, operands: vec![None; children], ..Record::default() };
        if matches!(self.message, Message::Taking { record, .. } if record == number) {
            self.message = Message::Dropping(Status::Failed(Failure::NoGroup));
        }
        Status::Ok
    }

    /// `Node::request`, up to the payload.
    fn header(
        &mut self,
        tag: u32,
        number: usize,
        child: usize,
        reduction: &Reduction,
        cycle: u32,
    ) -> Result<(), Status> {
        let record = self.records.get_mut(number).filter(|record| record.is_open && child < record.children);
        let record = record.ok_or(Status::Failed(Failure::NoGroup))?;
        if record.operands[child].is_some() {
            return Err(Status::Failed(Failure::Credit));
        }
        if record.arrived == 0 {
            record.reduction = *reduction;
            record.failure = match Kernel::new(reduction) {
                Err(failure) => Some(Status::Failed(failure)),
                Ok(_) if reduction.bytes as usize > self.shape.bytes_max => Some(Status::Failed(Failure::TooLong)),
                Ok(_) if reduction.bytes != 0 && !is_supported(reduction) => Some(Status::NotHere),
                Ok(_) => None,
            };
        } else if record.failure.is_none() && record.reduction != *reduction {
            record.failure = Some(Status::Failed(Failure::OperationMismatch));
            // A pass may be under way, one of this record may wait for it, and one of another record may be chosen between them.
            record.busy_until = cycle + 3 * (self.shape.words() + PASS_CYCLES) as u32;
        }
        if let Some(failure) = record.failure {
            record.arrive(child, tag, Vec::new());
            return Err(failure);
        }
        if reduction.bytes == 0 {
            record.arrive(child, tag, Vec::new());
            self.message = Message::None;
        } else {
            self.message = Message::Taking { record: number, child, bytes: Vec::new() };
        }
        Ok(())
    }

    fn word(&mut self, tag: u32, data: u128) -> (Status, Option<(usize, Vec<u32>)>) {
        let (number, child, bytes) = match &mut self.message {
            Message::None => return (Status::NoMessage, None),
            Message::Dropping(status) => return (*status, None),
            Message::Taking { record, child, bytes } => (*record, *child, bytes),
        };
        let data = data & (u128::MAX >> (128 - 8 * self.shape.word_bytes));
        let address = (number * self.shape.children + child) * self.shape.words() + bytes.len() / self.shape.word_bytes;
        let words = (0..4).map(|word| (data >> (32 * word)) as u32).collect();
        bytes.extend(&data.to_le_bytes()[..self.shape.word_bytes]);
        let record = &mut self.records[number];
        let wanted = record.reduction.bytes as usize;
        if bytes.len() >= wanted {
            let mut operand = std::mem::take(bytes);
            operand.truncate(wanted);
            record.arrive(child, tag, operand);
            self.message = Message::None;
        }
        (Status::Ok, Some((address, words)))
    }

    fn result(&mut self, number: usize, word: usize, answer: &Answer) -> Result<Vec<u8>, Status> {
        let record = self.records.get(number).filter(|record| record.is_open);
        let record = record.ok_or(Status::Failed(Failure::NoGroup))?;
        if record.arrived < record.children {
            return Err(Status::Busy);
        }
        if let Some(failure) = record.failure {
            return Err(failure);
        }
        if !record.due.is_empty() || (answer.status == Status::Busy && record.may_be_busy(answer.cycle)) {
            return Err(Status::Busy);
        }
        let bytes = record.result.chunks(self.shape.word_bytes).nth(word);
        bytes.map(<[u8]>::to_vec).ok_or(Status::Failed(Failure::TooLong))
    }
}

impl Record {
    /// Whether the unit may not have ended what it has to reduce.
    fn may_be_busy(&self, cycle: u32) -> bool {
        let is_due = !self.due.is_empty() && (self.failure.is_none() || cycle <= self.busy_until);
        is_due || self.written_at.is_some_and(|written| cycle <= written + DONE_CYCLES)
    }

    /// A child's operand is complete, or of no use. `Node::reduce_in_order`.
    fn arrive(&mut self, child: usize, tag: u32, operand: Vec<u8>) {
        self.operands[child] = Some((tag, operand));
        self.arrived += 1;
        let Ok(kernel) = Kernel::new(&self.reduction) else { return };
        while self.failure.is_none() && self.reduction.bytes != 0 {
            let Some((tag, operand)) = self.operands.get(self.reduced).and_then(Option::as_ref) else { return };
            if self.reduced == 0 {
                self.result = operand.clone();
            } else {
                kernel.reduce(&mut self.result, operand);
            }
            self.due.push_back(Due { child: self.reduced, tag: *tag, result: self.result.clone(), word: 0 });
            self.reduced += 1;
        }
    }
}
