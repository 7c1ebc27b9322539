// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Commands that go into the engine together, back to back into one buffer, and the references that they return.

use std::collections::BTreeMap;

use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::descriptor::DescriptorView;
use selvedge_nic::portals::{Delivery, fail, list};

use crate::error::LockstepError;
use crate::pac::model::NOT_ARMED;
use crate::pac::words::Host;
use crate::pac::{self, EngineLockstep, Input, Ready};
use crate::replay::driver::compare_with_trace;
use crate::replay::statistics::Statistics;
use crate::unit::Missing;

/// Event queues lie in host memory, which can be as large as programs want.
pub const LIMITS: Limits = Limits { heap_blocks: 1 << 17, heap_blocks_max: 1 << 17, ..pac::LIMITS };
/// Commands that go into one buffer before their results are read.
const BATCH: usize = 64;
/// Cycles between two checks of a run.
const STEP: u64 = 64;

/// The result of a command or a message in the trace.
#[derive(Clone, Copy)]
pub enum Traced {
    /// A reference; `None` if the trace has none, because no later command names it.
    Entry(Option<u32>),
    Descriptor(Option<u32>),
    Counter(u32),
    Armed((u32, u32)),
    /// Its portal table entry, and the delivery.
    Delivery(u32, Delivery),
    /// A taken receive, with its bytes, if known.
    Taken(Option<u64>),
    Nothing,
}

/// References of the trace, with those that the same command returned here.
#[derive(Default)]
pub struct References {
    pub entries: BTreeMap<u32, u32>,
    pub counters: BTreeMap<u32, u32>,
    /// Descriptors with their memory.
    pub descriptors: BTreeMap<u32, (u32, DescriptorView)>,
    pub armed: BTreeMap<(u32, u32), (u32, u32)>,
}

/// Both engines, and the queued commands.
pub struct Batch {
    pub both: EngineLockstep,
    gap: u64,
    pub statistics: Statistics,
    pub references: References,
    inputs: Vec<Input>,
    kinds: Vec<(u64, &'static str, Traced)>,
    until: u32,
}

impl Batch {
    pub fn new(gap: u64) -> Result<Batch, Missing> {
        let mut both = EngineLockstep::new("pac", &LIMITS, pac::BUCKETS)?;
        both.set_ready(Ready::ALL);
        Ok(Batch {
            both,
            gap,
            statistics: Statistics::of("engine"),
            references: References::default(),
            inputs: Vec::new(),
            kinds: Vec::new(),
            until: 0,
        })
    }

    /// Leaves out a command that would have changed the engine.
    pub fn leave_out(&mut self, number: u64, reason: &'static str) -> Result<(), LockstepError> {
        self.statistics.leave_out(reason);
        self.statistics.differs_from.get_or_insert(number);
        Ok(())
    }

    /// Queues a command or a message of record `number`. If it is for another buffer, all before it are run first.
    pub fn offer(
        &mut self,
        number: u64,
        kind: &'static str,
        input: Input,
        traced: Traced,
    ) -> Result<(), LockstepError> {
        if self.inputs.first().is_some_and(|first| first.buffer != input.buffer) {
            self.run()?;
        }
        self.inputs.push(input);
        self.kinds.push((number, kind, traced));
        if self.gap > 0 || self.inputs.len() >= BATCH { self.run() } else { Ok(()) }
    }

    /// Runs the batch until all of it is done, and stores the new references.
    pub fn run(&mut self) -> Result<(), LockstepError> {
        let inputs = std::mem::take(&mut self.inputs);
        let kinds = std::mem::take(&mut self.kinds);
        if inputs.is_empty() {
            return Ok(());
        }
        let before = self.both.timings().len();
        let known = {
            let created = &self.both.model.created;
            (
                created.entries.len(),
                created.descriptors.len(),
                created.counters.len(),
                created.armed.len(),
                created.deliveries.len(),
            )
        };
        let accepted = self.both.run(&inputs, self.gap)?;
        if accepted < inputs.len() {
            return Err(LockstepError::Stall(format!(
                "the engine takes {accepted} of {} commands and stands still: {:?}",
                inputs.len(),
                kinds[accepted].1
            )));
        }
        let of_buffer = |both: &EngineLockstep| {
            both.timings()[before..]
                .iter()
                .filter(|timing| timing.buffer == Some(inputs[0].buffer))
                .copied()
                .collect::<Vec<_>>()
        };
        let mut timings = of_buffer(&self.both);
        for _ in 0..1000 {
            if timings.len() == inputs.len() {
                break;
            }
            self.both.run(&[], STEP)?;
            timings = of_buffer(&self.both);
        }
        if timings.len() < inputs.len() {
            return Err(LockstepError::Stall(format!(
                "{} of {} commands never complete",
                inputs.len() - timings.len(),
                inputs.len()
            )));
        }
        let created = &self.both.model.created;
        let (mut entries, mut descriptors) = (created.entries[known.0..].iter(), created.descriptors[known.1..].iter());
        let (mut counters, mut armed) = (created.counters[known.2..].iter(), created.armed[known.3..].iter());
        let mut deliveries = created.deliveries[known.4..].iter();
        let mut results = Vec::new();
        for ((number, kind, traced), timing) in kinds.into_iter().zip(timings) {
            self.statistics.commands.entry(kind).or_default().add(timing.retired - timing.accepted);
            let began = timing.accepted.max(self.until);
            self.statistics.cycles += u64::from(timing.retired.saturating_sub(began));
            self.until = self.until.max(timing.retired);
            let refused = match traced {
                Traced::Entry(recorded) => {
                    let here = entries.next().copied().filter(|&here| here != NONE);
                    self.references.entries.extend(recorded.zip(here));
                    here.is_none().then_some("entries beyond 256")
                }
                Traced::Descriptor(recorded) => {
                    let here = descriptors.next().copied().filter(|&here| here != NONE);
                    if let (Some(here), Some(known)) =
                        (here, recorded.and_then(|recorded| self.references.descriptors.get_mut(&recorded)))
                    {
                        known.0 = here;
                    }
                    here.is_none().then_some("descriptors beyond 256")
                }
                Traced::Counter(recorded) => {
                    let here = counters.next().copied().filter(|&here| here != NONE);
                    self.references.counters.extend(here.map(|here| (recorded, here)));
                    here.is_none().then_some("counters beyond 512")
                }
                Traced::Armed(recorded) => {
                    let here = armed.next().copied().filter(|&here| here != NOT_ARMED);
                    self.references.armed.extend(here.map(|here| (recorded, here)));
                    here.is_none().then_some("triggered operations beyond 128")
                }
                Traced::Delivery(..) | Traced::Taken(_) => {
                    results.extend(deliveries.next().map(|&here| (number, kind, here, traced)));
                    None
                }
                Traced::Nothing => None,
            };
            if let Some(reason) = refused {
                self.statistics.leave_out(reason);
                self.statistics.differs_from.get_or_insert(number);
            }
        }
        for (number, kind, here, traced) in results {
            self.compare(number, kind, &here, traced)?;
        }
        Ok(())
    }

    /// Compares the result of a message with the trace's.
    fn compare(&mut self, number: u64, kind: &str, here: &Delivery, traced: Traced) -> Result<(), LockstepError> {
        let (portal, traced) = match traced {
            Traced::Delivery(portal, traced) => (portal, traced),
            Traced::Taken(Some(bytes)) => {
                let here = (here.fail, here.list, here.mlength);
                return compare_with_trace(&mut self.statistics, number, kind, here, (fail::OK, list::PRIORITY, bytes));
            }
            _ => return Ok(()),
        };
        let is_unexpected = |one: &Delivery| one.fail == fail::OK && one.list == list::OVERFLOW;
        let is_refused = |one: &Delivery| one.fail == fail::PT_DISABLED;
        if is_refused(here) != is_refused(&traced) {
            self.leave_out(number, "messages of which flow control refuses one here and not there")?;
            let disabled = self.both.model.home.portals[portal as usize].disabled;
            let (status, epoch) = if is_refused(here) { (1, disabled) } else { (2, disabled.wrapping_add(2)) };
            self.set_portal(number, portal, status, epoch)
        } else if here.fail == fail::DROPPED && is_unexpected(&traced) {
            self.leave_out(number, "unexpected messages beyond 256")
        } else if traced.fail == fail::DROPPED && is_unexpected(here) {
            self.leave_out(number, "messages that the recorded NIC had no room for")
        } else {
            compare_with_trace(&mut self.statistics, number, kind, *here, traced)
        }
    }

    /// Sets a portal table entry, with its current options and queue.
    pub fn set_portal(&mut self, number: u64, portal: u32, status: u8, epoch: u32) -> Result<(), LockstepError> {
        let Some(entry) = self.both.model.home.portals.get(portal as usize) else { return Ok(()) };
        let (options, queue) = (entry.options, entry.queue);
        self.offer(number, "portal", Host::Portal { portal, status, options, queue, epoch }.into(), Traced::Nothing)
    }
}
