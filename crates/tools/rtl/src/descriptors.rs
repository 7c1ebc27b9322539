// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors (`rtl/counters/descriptors.sv`) in lockstep with `bind` and `release` of `nic`.
//!
//! Words: M0 and M1 of index i are the descriptor in slot i. Compared: slot, start, length, options, queue, counter,
//! and the indices in links of free records. Not compared: `iov`, which the RTL refuses.

use std::sync::atomic::Ordering::Relaxed;

use crate::Unit;
use crate::error::LockstepError;
use crate::home::Home;
use crate::records::{Output, Status, free_next, link, reference, same};
use crate::shadow::{Shadow, WriteLayout};
use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::{DESCRIPTOR_LIVE, DescriptorView};
use selvedge_nic::tables::slot;

crate::layout! {
    /// `m0_t`.
    pub mod m0 { STATUS: 8, GENERATION: 24, LENGTH: 32, START: 64 }
}
crate::layout! {
    /// `m1_t`.
    pub mod m1 { SPARE: 41, OPTIONS: 17, COUNTER: 27, EVENTS: 27, LINK: 16 }
}
crate::layout! {
    /// `command_t`.
    pub mod command {
        TAG: 32, OPERATION: 2, DESCRIPTOR: 27, START: 64, LENGTH: 64, OPTIONS: 32, EVENTS: 27, COUNTER: 27,
    }
}
crate::layout! {
    /// `answer_t`.
    pub mod answer {
        TAG: 32, STATUS: 2, DESCRIPTOR: 27, START: 64, LENGTH: 32, OPTIONS: 17, EVENTS: 27, COUNTER: 27,
    }
}

/// Layout of writes in the trace, and the number of write ports.
pub const TRACE: (WriteLayout, usize) = (WriteLayout::new(128), 2);

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorCommand {
    /// `iov` is not carried; an option marks it.
    Bind(DescriptorView),
    Release(u32),
    Get(u32),
}

impl DescriptorCommand {
    /// The command's words.
    pub fn pack(&self, tag: u32) -> Vec<u32> {
        let mut words = vec![0; command::WORDS];
        let mut set = |field: crate::bits::Field, value: u64| field.set(&mut words, value);
        set(command::TAG, tag.into());
        match *self {
            DescriptorCommand::Bind(view) => {
                set(command::START, view.start);
                set(command::LENGTH, view.length);
                set(command::OPTIONS, view.options.into());
                set(command::EVENTS, reference(view.queue));
                set(command::COUNTER, reference(view.counter));
            }
            DescriptorCommand::Release(descriptor) => {
                set(command::OPERATION, 1);
                set(command::DESCRIPTOR, reference(descriptor));
            }
            DescriptorCommand::Get(descriptor) => {
                set(command::OPERATION, 2);
                set(command::DESCRIPTOR, reference(descriptor));
            }
        }
        words
    }

    fn is_too_wide(&self) -> bool {
        matches!(self, DescriptorCommand::Bind(view) if view.length >> 32 != 0 || view.options >> 17 != 0 || view.options & 1 != 0)
    }
}

/// An answer, with its latency in cycles from the command's acceptance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: Status,
    pub accepted: u32,
    pub latency: u32,
    /// The reference of a successful bind.
    pub descriptor: u32,
}

/// Both sides.
pub struct DescriptorsLockstep {
    unit: Unit,
    home: Home,
    shadow: Shadow,
    records: usize,
    tag: u32,
}

impl DescriptorsLockstep {
    /// Creates a lockstep with a unit with this number of descriptors.
    pub fn new(mut unit: Unit, records: usize) -> DescriptorsLockstep {
        unit.reset();
        let home = Home::new(&Limits { descriptors: records as u32, ..Limits::NONE });
        DescriptorsLockstep { unit, home, shadow: Shadow::new(&[(records, 128), (records, 128)]), records, tag: 0 }
    }

    /// Runs commands back to back on both sides. Fails with the first difference.
    pub fn run(&mut self, commands: &[DescriptorCommand]) -> Result<Vec<Answer>, LockstepError> {
        let first = self.tag;
        self.tag += commands.len() as u32;
        let words: Vec<u32> = commands.iter().zip(first..).flat_map(|(command, tag)| command.pack(tag)).collect();
        let output = Output::of(&mut self.unit, &words, command::WORDS, TRACE, 8)?;
        let mut answers = Vec::new();
        let mut changed = Vec::new();
        for (cycle, trace) in &output.traces {
            for write in &trace.writes {
                self.shadow.apply(write)?;
                changed.push(write.address);
            }
            let Some(tag) = trace.retired else { continue };
            let number = answers.len();
            same("the tag that retires", tag, first + number as u32)?;
            let command = &commands[number];
            let context = |error| format!("{command:x?}, tag {tag}, cycle {cycle}: {error}");
            let (at, words) = output.answers.get(number).ok_or_else(|| context("no answer".into()))?;
            let answer = self.answer(command, words).map_err(context)?;
            same("the answer's tag", answer::TAG.get(words), tag.into()).map_err(context)?;
            for index in changed.drain(..) {
                self.compare(index).map_err(context)?;
            }
            let accepted = output.accepted[number];
            answers.push(Answer { accepted, latency: at - accepted, ..answer });
        }
        same("answers", output.answers.len(), commands.len())?;
        (0..self.records).try_for_each(|index| self.compare(index))?;
        Ok(answers)
    }

    fn answer(&mut self, command: &DescriptorCommand, words: &[u32]) -> Result<Answer, LockstepError> {
        let status = Status::of(answer::STATUS.get(words));
        let mut descriptor = 0;
        let expected = match command {
            command if command.is_too_wide() => Status::TooWide,
            DescriptorCommand::Bind(view) => match self.home.nic().descriptors().bind(view) {
                Ok(reference) => {
                    descriptor = reference;
                    same("the reference", answer::DESCRIPTOR.get(words), reference.into())?;
                    Status::Ok
                }
                Err(_) => Status::Full,
            },
            &DescriptorCommand::Release(reference) => match self.home.nic().descriptors().release(reference) {
                Some(()) => Status::Ok,
                None => Status::Invalid,
            },
            &DescriptorCommand::Get(of) => match self.home.nic().signals.descriptor(of) {
                Some(view) => {
                    same("start", answer::START.get(words), view.start)?;
                    same("length", answer::LENGTH.get(words), view.length)?;
                    same("options", answer::OPTIONS.get(words), view.options.into())?;
                    same("queue", answer::EVENTS.get(words), reference(view.queue))?;
                    same("counter", answer::COUNTER.get(words), reference(view.counter))?;
                    Status::Ok
                }
                None => Status::Invalid,
            },
        };
        same("status", status, expected)?;
        Ok(Answer { status, accepted: 0, latency: 0, descriptor })
    }

    fn compare(&mut self, index: usize) -> Result<(), LockstepError> {
        let (low, high) = (self.shadow.word(0, index), self.shadow.word(1, index));
        let record = &self.home.descriptors[index];
        let word = record.slot.load(Relaxed);
        let difference = |error| format!("descriptor {index}: {error}");
        let fields = [
            ("status", m0::STATUS.get(low), slot::status(word).into()),
            ("generation", m0::GENERATION.get(low), slot::generation(word).into()),
            ("start", m0::START.get(low), record.start.load(Relaxed)),
            ("length", m0::LENGTH.get(low), record.length.load(Relaxed)),
            ("options", m1::OPTIONS.get(high), record.options.load(Relaxed).into()),
            ("queue", m1::EVENTS.get(high), reference(record.queue.load(Relaxed))),
            ("counter", m1::COUNTER.get(high), reference(record.counter.load(Relaxed))),
        ];
        for (name, rtl, nic) in fields {
            same(name, rtl, nic).map_err(difference)?;
        }
        if slot::status(word) == slot::FREE {
            let next = slot::next(index as u32, record.next_free.load(Relaxed));
            let rtl = free_next(index, m1::LINK.get(high), self.records);
            same("the next free record", rtl, link(next.into(), self.records)).map_err(difference)?;
        }
        Ok(())
    }
}

/// A descriptor of plain memory.
pub const fn memory(start: u64, length: u64) -> DescriptorView {
    DescriptorView { start, length, options: 0, queue: NONE, counter: NONE, iov: NONE, iov_count: 0 }
}

const _: () = assert!(m0::BITS == 128 && m1::BITS == 128 && DESCRIPTOR_LIVE == 1);
