// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The software node: operands as `Node::request` accepts them, reduced by [`Kernel`] in the order of the children.

use std::collections::VecDeque;

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::aggregation::reduction::Kernel;

use super::words::{Answer, ArithmeticCommand, Shape, Status, is_supported};

/// Cycles from the write of an operand's last word to the first command that finds it done.
const DONE_CYCLES: u32 = 4;
/// Maximum cycles of an operand beside its words: selection, pipeline change, pipeline.
pub(super) const PASS_CYCLES: usize = 24;

/// An arrived operand, and the result after it.
#[derive(Clone, Debug)]
pub(super) struct DueOperand {
    pub child: usize,
    /// Tag of its last word.
    pub tag: u32,
    pub result: Vec<u8>,
    /// The next word to be written.
    pub word: usize,
}

/// An operation in progress in the model.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    is_open: bool,
    children: usize,
    arrived: usize,
    pub reduction: Reduction,
    pub failure: Option<Status>,
    operands: Vec<Option<(u32, Vec<u8>)>>,
    reduced: usize,
    result: Vec<u8>,
    pub due: VecDeque<DueOperand>,
    /// Cycle in which its last word was written.
    pub written_at: Option<u32>,
    /// Last cycle in which a failed operation may be busy: started operands complete, and the others are dropped.
    busy_until: u32,
}

#[derive(Clone, Debug)]
enum Message {
    None,
    Taking { record: usize, child: usize, bytes: Vec<u8> },
    Dropping(Status),
}

/// The records of the node, and its receiver.
pub(super) struct Model {
    shape: Shape,
    pub records: Vec<Record>,
    message: Message,
}

pub(super) struct Expected {
    pub status: Status,
    /// The bytes of a result's word.
    pub data: Option<Vec<u8>>,
    /// The write into the bank of operands: address and words.
    pub stored: Option<(usize, Vec<u32>)>,
}

impl Model {
    pub fn new(shape: Shape) -> Model {
        Model { shape, records: vec![Record::default(); shape.records], message: Message::None }
    }

    /// Runs the command of this answer of the unit.
    pub fn run(&mut self, tag: u32, command: &ArithmeticCommand, answer: &Answer) -> Expected {
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
        // An operand that has not started is dropped. Only the unit knows whether one has.
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
            // A pass may be in progress, one of this record may wait, and one of another record may come between.
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
    fn may_be_busy(&self, cycle: u32) -> bool {
        let is_due = !self.due.is_empty() && (self.failure.is_none() || cycle <= self.busy_until);
        is_due || self.written_at.is_some_and(|written| cycle <= written + DONE_CYCLES)
    }

    /// Accepts a complete or useless operand of a child. `Node::reduce_in_order`.
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
            self.due.push_back(DueOperand { child: self.reduced, tag: *tag, result: self.result.clone(), word: 0 });
            self.reduced += 1;
        }
    }
}
