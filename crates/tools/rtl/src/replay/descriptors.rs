// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Descriptors in a replay: bind and release.

use std::collections::BTreeMap;

use selvedge_nic::handle::NONE;
use selvedge_nic::tap::Transition;

use super::driver::{Driver, compare_with_trace};
use super::statistics::{Statistics, span};
use crate::Unit;
use crate::descriptors::{DescriptorCommand, DescriptorsLockstep};
use crate::error::LockstepError;
use crate::records::Status;
use crate::unit::Missing;

/// `descriptors` of rtl/units.toml.
const RECORDS: usize = 256;

pub struct Descriptors {
    both: DescriptorsLockstep,
    gap: u64,
    statistics: Statistics,
    /// Queued binds: record, command, reference in the trace.
    queue: Vec<(u64, DescriptorCommand, u32)>,
    live: BTreeMap<u32, u32>,
}

impl Descriptors {
    pub fn new(gap: u64) -> Result<Descriptors, Missing> {
        let both = DescriptorsLockstep::new(Unit::new("descriptors")?, RECORDS);
        let statistics = Statistics::of("descriptors");
        Ok(Descriptors { both, gap, statistics, queue: Vec::new(), live: BTreeMap::new() })
    }

    fn leave_out(&mut self, number: u64, reason: &'static str) {
        self.statistics.leave_out(reason);
        self.statistics.differs_from.get_or_insert(number);
    }

    fn run(&mut self) -> Result<(), LockstepError> {
        let queue = std::mem::take(&mut self.queue);
        if queue.is_empty() {
            return Ok(());
        }
        let commands: Vec<DescriptorCommand> = queue.iter().map(|&(_, command, _)| command).collect();
        let answers = self.both.run(&commands)?;
        self.statistics.cycles += span(answers.iter().map(|answer| (answer.accepted, answer.latency)));
        for ((number, command, traced), answer) in queue.into_iter().zip(answers) {
            let kind = if matches!(command, DescriptorCommand::Bind(_)) { "bind" } else { "release" };
            self.statistics.commands.entry(kind).or_default().add(answer.latency);
            match (command, answer.status) {
                (_, Status::TooWide) => self.leave_out(number, "descriptors of 4 GiB or more"),
                (DescriptorCommand::Bind(_), Status::Full) => self.leave_out(number, "descriptors beyond 256"),
                (DescriptorCommand::Bind(_), _) => {
                    self.live.insert(traced, answer.descriptor);
                    self.statistics.note_largest("live", self.live.len() as u64);
                }
                _ => compare_with_trace(&mut self.statistics, number, kind, answer.status == Status::Ok, true)?,
            }
        }
        Ok(())
    }

    fn offer(&mut self, number: u64, command: DescriptorCommand, traced: u32) -> Result<(), LockstepError> {
        self.queue.push((number, command, traced));
        if self.gap > 0 || self.queue.len() >= 64 { self.run() } else { Ok(()) }
    }
}

impl Driver for Descriptors {
    fn take(&mut self, number: u64, transition: &Transition) -> Result<(), LockstepError> {
        match *transition {
            Transition::Bind { view, .. } if view.iov != NONE => self.leave_out(number, "I/O vectors"),
            Transition::Bind { view, descriptor: Some(descriptor) } => {
                return self.offer(number, DescriptorCommand::Bind(view), descriptor);
            }
            Transition::Release { descriptor, is_done: true } => {
                self.run()?;
                match self.live.remove(&descriptor) {
                    Some(here) => return self.offer(number, DescriptorCommand::Release(here), descriptor),
                    None => self.statistics.leave_out("releases of what was left out"),
                }
            }
            Transition::Bind { .. } | Transition::Release { .. } => {
                self.statistics.leave_out("commands that the recorded NIC refused");
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), LockstepError> {
        self.run()
    }

    fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
