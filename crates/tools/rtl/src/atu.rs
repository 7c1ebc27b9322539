// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The address translation unit (`rtl/atu/atu.sv`) in lockstep with [`Pipeline`] of `nic`, cycle by cycle.
//!
//! The RTL's blocks move concurrently. Its trace shows the blocks that moved in a cycle; the lockstep then calls the
//! same blocks of the pipeline, in the RTL's order within a cycle: submit, word read, answer to a flush, requester,
//! responder, completion.
//!
//! 1. A request is accepted exactly if the pipeline has room for it, or its word is malformed. Words read and answers
//!    of units are refused exactly when the pipeline refuses them.
//! 2. Before each cycle, both sides have equal numbers of requests, slots and pending flushes. The word at a port of
//!    the RTL is the oldest that the pipeline has sent there and that has not left. A flush or fence is reported in the
//!    cycle after the one that completes it.
//! 3. A word of the TLB is equal on both sides when its fill, or the flush that cleared it, is done. At the end all
//!    words and the registers are.

pub mod words;

use std::collections::VecDeque;
use std::fmt::Write as _;

use selvedge_nic::atu::Pipeline;
use selvedge_nic::atu::ats::Transaction;
use selvedge_nic::atu::pipeline::{Output, Progress};
use selvedge_nic::{Limits, Register};

use crate::bits::Field;
use crate::error::LockstepError;
use crate::home::{Home, NoMemory};
use crate::records::same;
use crate::shadow::{Shadow, Trace};
use crate::unit::{Missing, Unit};
use words::{AtuCommand, Inputs, TRACE, TRACE_BITS, answer, flush_response, outside_out, tlb, trace, word_of};

/// Number of recent cycles in the report of a difference.
const SHOWN: usize = 64;

/// The outputs of the RTL in a cycle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outputs {
    /// Cycles since the reset.
    pub cycle: u32,
    pub accepted: bool,
    /// A response or a flush request, with its unit.
    pub units: Option<(u8, u64)>,
    /// Slot and page of a table read.
    pub memory: Option<(u16, u32)>,
    /// Tag of a completed flush or fence.
    pub done: Option<u16>,
    /// Refusals: a malformed request, a word read, an answer of a unit.
    pub refused: [bool; 3],
    pub hit: bool,
    pub miss: bool,
}

/// The registers that the RTL's events count.
const COUNTED: [(Field, Register); 5] = [
    (answer::HIT, Register::TlbHits),
    (answer::MISS, Register::TlbMisses),
    (answer::FAULT, Register::TranslationFaults),
    (answer::FLUSHED, Register::TlbFlushes),
    (answer::UNITS_FLUSHED, Register::AtuFlushes),
];

/// Both sides. `FIFO`, `REORDER`, `PENDING`: the RTL's `Requests`, `Reorder` and `Pending`.
pub struct AtuLockstep<const FIFO: usize, const REORDER: usize, const PENDING: usize> {
    unit: Unit,
    home: Home,
    pipeline: Pipeline<FIFO, REORDER, PENDING>,
    shadow: Shadow,
    tables: u32,
    /// Words that the pipeline has sent and the RTL has not: to units, to memory.
    to_units: VecDeque<(u8, u64)>,
    to_memory: VecDeque<(u16, u32)>,
    /// Words of the TLB that the current flush has cleared.
    cleared: Vec<usize>,
    events: [u64; COUNTED.len()],
    recent: VecDeque<String>,
}

impl<const FIFO: usize, const REORDER: usize, const PENDING: usize> AtuLockstep<FIFO, REORDER, PENDING> {
    /// Creates a lockstep with a unit of this name, TLB words and tables. Fails if there is no such unit.
    pub fn new(name: &str, tlb_entries: u32, tables: u32) -> Result<Self, Missing> {
        let mut unit = Unit::new(name)?;
        let limits = Limits { tlb_entries, tlb_ways: 1, address_tables: tables, ..Limits::NONE };
        // The banks clear themselves.
        unit.run(&[], u64::from(tlb_entries).max(FIFO as u64).max(REORDER as u64) + 2);
        Ok(AtuLockstep {
            unit,
            home: Home::new(&limits),
            pipeline: Pipeline::new(),
            shadow: Shadow::new(&[(tlb_entries as usize, tlb::BITS)]),
            tables,
            to_units: VecDeque::new(),
            to_memory: VecDeque::new(),
            cleared: Vec::new(),
            events: [0; COUNTED.len()],
            recent: VecDeque::new(),
        })
    }

    /// Whether nothing is in progress on either side.
    pub fn is_idle(&self) -> bool {
        self.pipeline.is_empty() && self.to_units.is_empty() && self.to_memory.is_empty()
    }

    /// Runs a cycle on both sides. Fails with the first difference.
    pub fn cycle(&mut self, inputs: &Inputs) -> Result<Outputs, LockstepError> {
        self.unit.set_outside(&inputs.pack(self.tables));
        let offered: Vec<u32> = inputs.command.iter().flat_map(|command| command.pack()).collect();
        let accepted = self.unit.run(&offered, 1) == 1;
        let answer = self.unit.answers().next().map_or(vec![0; answer::WORDS], |seen| seen.words.to_vec());
        let outside = self.unit.outsides().next().map_or(vec![0; outside_out::WORDS], |seen| seen.words.to_vec());
        let shown = self.unit.traces().next().map(|seen| seen.words.to_vec());
        let writes = shown.as_ref().map_or(Trace::default(), |words| TRACE.trace(words, 1));
        let shows = |field: Field| shown.as_ref().map_or(0, |words| field.within(TRACE_BITS).get(words));
        let has = |field: Field| field.get(&answer) == 1;
        let left = Outputs {
            cycle: (self.unit.cycle() - 1) as u32,
            accepted,
            units: (outside_out::UNITS_VALID.get(&outside) == 1)
                .then(|| (outside_out::UNITS_PEER.get(&outside) as u8, outside_out::UNITS.get(&outside))),
            memory: (outside_out::MEMORY_VALID.get(&outside) == 1)
                .then(|| (outside_out::MEMORY_TAG.get(&outside) as u16, outside_out::MEMORY_PAGE.get(&outside) as u32)),
            done: has(answer::DONE).then(|| answer::DONE_TAG.get(&answer) as u16),
            refused: [answer::MALFORMED, answer::READ_REFUSED, answer::ANSWER_REFUSED].map(has),
            hit: has(answer::HIT),
            miss: has(answer::MISS),
        };
        self.note(format!("{}: {inputs:x?} {left:x?}", left.cycle));
        let occupied = [trace::REQUESTS, trace::SLOTS, trace::PENDING].map(|field| shows(field) as usize);
        let moved = [trace::SUBMITTED, trace::REQUESTED, trace::RESPONDED].map(|field| shows(field) == 1);
        for (count, (event, _)) in self.events.iter_mut().zip(COUNTED) {
            *count += event.get(&answer);
        }
        self.follow(inputs, &left, occupied, moved, &writes)
            .map_err(|error: LockstepError| error.with_report(|text| self.report(text)))?;
        Ok(Outputs {
            units: left.units.filter(|_| inputs.units_ready),
            memory: left.memory.filter(|_| inputs.memory_ready),
            ..left
        })
    }

    /// Compares all words of the TLB and the registers. Both sides must be idle. Fails with the first difference.
    pub fn check_idle(&self) -> Result<(), LockstepError> {
        let compare = || {
            same("idle", self.is_idle(), true)?;
            (0..self.home.tlb.len()).try_for_each(|at| self.compare_word(at))?;
            let registers = self.home.registers();
            COUNTED
                .iter()
                .zip(self.events)
                .try_for_each(|((_, register), events)| same(register.name(), events, registers.get(*register)))
        };
        compare().map_err(|error: LockstepError| error.with_report(|text| self.report(text)))
    }

    /// Repeats the RTL's steps on the pipeline, and compares.
    fn follow(
        &mut self,
        inputs: &Inputs,
        left: &Outputs,
        occupied: [usize; 3],
        [submitted, requested, responded]: [bool; 3],
        writes: &Trace,
    ) -> Result<(), LockstepError> {
        same("requests, slots, pending flushes", occupied, self.pipeline.occupancy())?;
        same("word at the port of units", left.units, self.to_units.front().copied())?;
        same("word at the port of memory", left.memory, self.to_memory.front().copied())?;
        let complete = match self.pipeline.clone().step_completion() {
            Progress::Sent(Output::Done { tag }) => Some(tag),
            _ => None,
        };
        same("what is complete", left.done, complete)?;
        if inputs.units_ready {
            self.to_units.pop_front();
        }
        if inputs.memory_ready {
            self.to_memory.pop_front();
        }
        self.submit(inputs.command, left, submitted)?;
        let read = inputs.read.map(|(tag, word)| self.pipeline.table_read_done(tag, word).is_err());
        same("a word read is refused", left.refused[1], read.unwrap_or(false))?;
        let answered = inputs.answer.map(|word| match flush_response(word) {
            Some(response) => self.pipeline.flush_answered(&mut self.home.nic().atu(), response).is_err(),
            None => true,
        });
        same("an answer is refused", left.refused[2], answered.unwrap_or(false))?;
        for write in &writes.writes {
            self.shadow.apply(write)?;
        }
        if requested {
            self.step_requester()?;
        }
        if responded {
            let sent = self.pipeline.step_responder(&mut self.home.nic().atu());
            self.take(sent, "responder")?;
        }
        for write in &writes.writes {
            if write.tag == u32::MAX {
                self.cleared.push(write.address);
            } else {
                self.compare_word(write.address)?;
            }
        }
        if complete.is_some() {
            self.pipeline.step_completion();
        }
        Ok(())
    }

    fn submit(&mut self, command: Option<AtuCommand>, left: &Outputs, submitted: bool) -> Result<(), LockstepError> {
        let request = command.and_then(AtuCommand::request);
        same("a request is malformed", left.refused[0], left.accepted && request.is_none())?;
        same("a request enters", submitted, left.accepted && request.is_some())?;
        let Some(request) = request else { return Ok(()) };
        let room = if left.accepted {
            self.pipeline.submit(request).is_ok()
        } else {
            self.pipeline.clone().submit(request).is_ok()
        };
        same("there is room for a request", left.accepted, room)
    }

    fn step_requester(&mut self) -> Result<(), LockstepError> {
        let before = self.home.registers().get(Register::TlbFlushes);
        let sent = self.pipeline.step_requester(&mut self.home.nic().atu(), &mut NoMemory);
        self.take(sent, "requester")?;
        // A flush of the TLB removes as many entries as the RTL has cleared before.
        let removed = self.home.registers().get(Register::TlbFlushes) - before;
        same("entries that leave the TLB", self.cleared.len() as u64, removed)?;
        std::mem::take(&mut self.cleared).into_iter().try_for_each(|address| self.compare_word(address))
    }

    /// Keeps the output of a pipeline block until the RTL sends it.
    fn take(&mut self, progress: Progress, block: &str) -> Result<(), LockstepError> {
        match progress {
            Progress::Idle => return Err(format!("the {block} moves in the RTL, and is idle in nic").into()),
            Progress::Moved => {}
            Progress::Sent(Output::TableRead { tag, page }) => self.to_memory.push_back((tag, page.number())),
            Progress::Sent(Output::Response(response)) => {
                let word = Transaction::TranslationResponse(response).encode();
                self.to_units
                    .push_back((response.unit as u8, word.map_err(|error| format!("{response:?}: {error:?}"))?));
            }
            Progress::Sent(Output::Flush { unit, request }) => {
                let word = Transaction::FlushRequest(request).encode();
                self.to_units.push_back((unit as u8, word.map_err(|error| format!("{request:?}: {error:?}"))?));
            }
            Progress::Sent(Output::Done { .. }) => return Err(format!("the {block} completes a flush in nic").into()),
        }
        Ok(())
    }

    fn compare_word(&self, address: usize) -> Result<(), LockstepError> {
        let (rtl, nic) = (self.shadow.word(0, address), word_of(&self.home.tlb[address]));
        let fields = tlb::FIELDS.iter().filter(|(_, field)| field.get(rtl) != field.get(&nic));
        let differ: Vec<String> = fields
            .map(|(name, field)| format!("{name} {:#x} in the RTL, {:#x} in nic", field.get(rtl), field.get(&nic)))
            .collect();
        if differ.is_empty() { Ok(()) } else { Err(format!("word {address} of the TLB: {}", differ.join("; ")).into()) }
    }

    fn note(&mut self, text: String) {
        if self.recent.len() == SHOWN {
            self.recent.pop_front();
        }
        self.recent.push_back(text);
    }

    fn report(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let _ = write!(text, "\n  nic: {:?}\n  the last cycles:", self.pipeline);
        for line in &self.recent {
            let _ = write!(text, "\n  {line}");
        }
        text
    }
}
