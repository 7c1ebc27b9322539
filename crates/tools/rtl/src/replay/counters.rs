// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counters and triggered operations in a replay.
//!
//! The unit itself fires operations as soon as they are due. So records of firing are not replayed, nor the additions
//! of operations on counters. Counts of deliveries and responses are.

use std::collections::BTreeMap;

use selvedge_nic::handle::NONE;
use selvedge_nic::tables::{self, Side};
use selvedge_nic::tap::{ArmedAction, Transition};

use super::driver::{Driver, compare_with_trace};
use super::ids::Ids;
use super::statistics::{Statistics, span};
use crate::Unit;
use crate::counters::words::{CounterCommand, TriggeredAction, fits};
use crate::counters::{CountersLockstep, Ready};
use crate::error::LockstepError;
use crate::records::Status;
use crate::unit::Missing;

/// `counters` of rtl/units.toml: counters, triggered operations.
const SIZE: (usize, usize) = (512, 128);

enum Traced {
    Counter(u32),
    Armed((u32, u32)),
    Done(bool),
    Nothing,
}

pub struct Counters {
    both: CountersLockstep,
    gap: u64,
    statistics: Statistics,
    ids: Ids,
    queue: Vec<(u64, CounterCommand, Traced)>,
    counters: BTreeMap<u32, u32>,
    armed: BTreeMap<(u32, u32), (u32, u32)>,
}

impl Counters {
    pub fn new(gap: u64) -> Result<Counters, Missing> {
        Ok(Counters {
            both: CountersLockstep::new(Unit::new("counters")?, SIZE.0, SIZE.1),
            gap,
            statistics: Statistics::of("counters"),
            ids: Ids::default(),
            queue: Vec::new(),
            counters: BTreeMap::new(),
            armed: BTreeMap::new(),
        })
    }

    fn leave_out(&mut self, number: u64, reason: &'static str) {
        self.statistics.leave_out(reason);
        self.statistics.differs_from.get_or_insert(number);
    }

    fn offer(&mut self, number: u64, command: CounterCommand, traced: Traced) -> Result<(), LockstepError> {
        self.queue.push((number, command, traced));
        if self.gap > 0 || self.queue.len() >= 64 { self.run() } else { Ok(()) }
    }

    fn run(&mut self) -> Result<(), LockstepError> {
        let queue = std::mem::take(&mut self.queue);
        if queue.is_empty() {
            return Ok(());
        }
        let commands: Vec<CounterCommand> = queue.iter().map(|(_, command, _)| *command).collect();
        let answers = self.both.run(&commands, Ready::ALL)?;
        self.statistics.cycles += span(answers.iter().map(|answer| (answer.accepted, answer.latency)));
        let left = self.both.departures.len() as u64;
        if left > 0 {
            *self.statistics.largest.entry("operations that moved data").or_default() += left;
        }
        for ((number, command, traced), answer) in queue.into_iter().zip(answers) {
            let kind = kind_of(&command);
            self.statistics.commands.entry(kind).or_default().add(answer.latency);
            let is_done = answer.status == Status::Ok;
            match traced {
                Traced::Counter(_) if !is_done => self.leave_out(number, "counters beyond 512"),
                Traced::Counter(traced) => {
                    self.counters.insert(traced, answer.counter);
                    self.statistics.note_largest("counters", self.counters.len() as u64);
                }
                Traced::Armed(_) if !is_done => self.leave_out(number, "triggered operations beyond 128"),
                Traced::Armed(traced) => {
                    self.armed.insert(traced, answer.armed);
                }
                Traced::Done(traced) => compare_with_trace(&mut self.statistics, number, kind, is_done, traced)?,
                Traced::Nothing => {}
            }
        }
        Ok(())
    }

    /// The counter here. Runs queued commands that may still make it.
    fn counter(&mut self, traced: u32) -> Result<Option<u32>, LockstepError> {
        if !self.counters.contains_key(&traced) {
            self.run()?;
        }
        Ok(self.counters.get(&traced).copied())
    }

    /// The armed action, with the ids and counters of this NIC, or the reason why it is left out.
    fn action(&mut self, action: &ArmedAction) -> Result<Result<TriggeredAction, &'static str>, LockstepError> {
        const NO_COUNTER: &str = "operations on counters that were left out";
        Ok(match *action {
            ArmedAction::Command { command } => self.command(&command)?,
            ArmedAction::CounterSet { counter, success, failure } => self
                .counter(counter)?
                .map(|counter| TriggeredAction::Set { counter, success, failure })
                .ok_or(NO_COUNTER),
            ArmedAction::CounterIncrement { counter, success, failure } => self
                .counter(counter)?
                .map(|counter| TriggeredAction::Increment { counter, success, failure })
                .ok_or(NO_COUNTER),
            ArmedAction::CounterSuccess { counter, success } => {
                self.counter(counter)?.map(|counter| TriggeredAction::SetSuccess { counter, success }).ok_or(NO_COUNTER)
            }
            ArmedAction::Append { .. } | ArmedAction::Receive { .. } | ArmedAction::Unlink { .. } => {
                Err("triggered operations on entries")
            }
        })
    }

    fn command(&mut self, command: &tables::Command) -> Result<Result<TriggeredAction, &'static str>, LockstepError> {
        let mut here = *command;
        let (Some(target), Some(initiator)) = (self.ids.id(command.target), self.ids.id(command.initiator)) else {
            return Ok(Err("process ids too wide"));
        };
        (here.target, here.request.initiator) = (target, initiator);
        for side in [&mut here.source, &mut here.sink] {
            if side.counter != NONE {
                let counter = self.counter(side.counter)?.unwrap_or(NONE);
                *side = Side { counter, ..*side };
            }
        }
        Ok(if fits(&here) { Ok(TriggeredAction::Move(here)) } else { Err("triggered commands with values too wide") })
    }
}

fn kind_of(command: &CounterCommand) -> &'static str {
    match command {
        CounterCommand::Alloc => "alloc",
        CounterCommand::Free(_) => "free",
        CounterCommand::Set { .. } => "set",
        CounterCommand::Increment { .. } => "increment",
        CounterCommand::Get(_) => "get",
        CounterCommand::Arm { .. } => "arm",
        CounterCommand::Cancel(_) => "cancel",
        CounterCommand::CancelOne { .. } => "cancel one",
    }
}

impl Driver for Counters {
    fn take(&mut self, number: u64, transition: &Transition) -> Result<(), LockstepError> {
        const LEFT_OUT: &str = "commands of counters that were left out";
        const REFUSED: &str = "commands that the recorded NIC refused";
        let command = match *transition {
            Transition::CounterAlloc { counter: Some(counter) } => {
                return self.offer(number, CounterCommand::Alloc, Traced::Counter(counter));
            }
            Transition::Arm { counter, threshold, ref action, armed: Some(armed) } => {
                let Some(counter) = self.counter(counter)? else {
                    self.statistics.leave_out(LEFT_OUT);
                    return Ok(());
                };
                return match self.action(action)? {
                    Ok(action) => {
                        self.offer(number, CounterCommand::Arm { counter, threshold, action }, Traced::Armed(armed))
                    }
                    Err(reason) => {
                        self.leave_out(number, reason);
                        Ok(())
                    }
                };
            }
            Transition::CounterAlloc { .. } | Transition::Arm { .. } => {
                self.statistics.leave_out(REFUSED);
                return Ok(());
            }
            Transition::CancelArmed { armed, is_done } => {
                self.run()?;
                match self.armed.get(&armed) {
                    Some(&(index, generation)) => {
                        let command = CounterCommand::CancelOne { index, generation };
                        return self.offer(number, command, Traced::Done(is_done));
                    }
                    None => self.statistics.leave_out(LEFT_OUT),
                }
                return Ok(());
            }
            Transition::CounterFree { counter, is_done } => {
                let here = self.counter(counter)?;
                if is_done {
                    self.counters.remove(&counter);
                }
                here.map(|here| (CounterCommand::Free(here), Traced::Done(is_done)))
            }
            Transition::CancelTriggered { counter, is_done } => {
                self.counter(counter)?.map(|here| (CounterCommand::Cancel(here), Traced::Done(is_done)))
            }
            Transition::CountSet { counter, success, failure } => self
                .counter(counter)?
                .map(|counter| (CounterCommand::Set { counter, success, failure }, Traced::Nothing)),
            Transition::Count { counter, success, failure, .. } => self
                .counter(counter)?
                .map(|counter| (CounterCommand::Increment { counter, success, failure }, Traced::Done(true))),
            _ => return Ok(()),
        };
        match command {
            Some((command, traced)) => self.offer(number, command, traced),
            None => {
                self.statistics.leave_out(LEFT_OUT);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> Result<(), LockstepError> {
        self.run()
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
