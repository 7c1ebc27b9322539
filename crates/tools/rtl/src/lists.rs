// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list manager (`rtl/lists`) in lockstep with the lists of `nic`.
//!
//! A command goes to the RTL at once; when it retires, the same transition of `nic` runs. Compared are
//!
//! 1. the RTL's answer: status, entry, header, offset and length, as the events and the result of `nic`;
//! 2. the records, field by field: those that the RTL wrote, or all;
//! 3. when the unit is idle ([`Records::check_idle`]): free lists in order, and that each record is on one chain, in
//!    order.
//!
//! Not compared: links and buckets, which are derived and use another hash. A record that a younger command has already
//! written (an append that takes over the record of the message beside it) is compared when that command retires.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use selvedge_nic::Limits;
use selvedge_nic::portals::Verdict;
use selvedge_nic::portals::event_queue::Taken;

use crate::error::LockstepError;
use crate::home::{Home, NoMemory};
use crate::shadow::{Shadow, Write, WriteLayout};
use crate::unit::{Missing, Unit};

mod outcome;
mod records;
mod words;

pub use outcome::Outcome;
pub use records::{EntryDisplay, Records};
pub use words::*;

use outcome::Answer;
use words::{BANK_B, WRITES};

/// Maximum events of one command: a search may find all headers.
const EVENTS: u32 = 512;

struct InFlight {
    command: ListCommand,
    accepted: u32,
    answers: Vec<Answer>,
    plan: Option<Vec<u32>>,
    writes: Vec<Write>,
}

impl InFlight {
    /// The records that the RTL has written, each once.
    fn records(&self) -> BTreeSet<usize> {
        self.writes.iter().filter(|write| write.bank <= BANK_B).map(|write| write.address).collect()
    }
}

/// The cycles of a command: from its acceptance to its last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub accepted: u32,
    pub answered: u32,
}

/// Both list managers.
pub struct ListsLockstep {
    unit: Unit,
    home: Home,
    shadow: Shadow,
    entries: usize,
    queue: u32,
    in_flight: BTreeMap<u32, InFlight>,
    next_tag: u32,
    next_retired: u32,
    /// Compares all records at each command, not only those that the RTL wrote.
    pub compare_all: bool,
    /// The last commands, for the report of a difference.
    recent: VecDeque<(u32, ListCommand)>,
    timings: Vec<Timing>,
    outcomes: Vec<Outcome>,
    /// Maximum length so far of a priority, overflow and unexpected list.
    pub longest: [u32; 3],
}

impl ListsLockstep {
    /// Creates a lockstep with the named unit, with this number of records and buckets, and a NIC of the same size.
    /// Portal table entries `portals` are enabled.
    pub fn new(
        unit: &str,
        (entries, headers, buckets): (u32, u32, usize),
        portals: u32,
    ) -> Result<ListsLockstep, Missing> {
        let mut unit = Unit::new(unit)?;
        let limits = Limits {
            entries,
            headers,
            queues: 1,
            portals,
            list: entries,
            short_list: 2,
            heap_blocks: EVENTS,
            heap_blocks_max: EVENTS,
            ..Limits::NONE
        };
        let mut home = Home::new(&limits);
        let queue = home.nic().queues().alloc(EVENTS).expect("there is room");
        for portal in 0..portals {
            home.nic().portal_table().alloc(Some(portal), 0, queue).expect("it is free");
        }
        let pool = (entries + headers) as usize;
        let shadow = Shadow::new(&[(pool, 256), (pool, 256), (pool, 256), (buckets, 32), (buckets, 32), (PORTALS, 32)]);
        // The banks clear themselves.
        unit.run(&[], pool.max(buckets).max(PORTALS) as u64 + 2);
        Ok(ListsLockstep {
            unit,
            home,
            shadow,
            entries: entries as usize,
            queue,
            in_flight: BTreeMap::new(),
            next_tag: 0,
            next_retired: 0,
            compare_all: true,
            recent: VecDeque::new(),
            timings: Vec::new(),
            outcomes: Vec::new(),
            longest: [0; 3],
        })
    }

    /// Offers the commands back to back until all are accepted, then runs `idle` cycles. Fails with the first
    /// difference.
    pub fn run(&mut self, commands: &[ListCommand], idle: u64) -> Result<(), LockstepError> {
        let mut words = Vec::with_capacity(commands.len() * command::WORDS);
        for (place, command) in commands.iter().enumerate() {
            let tag = self.next_tag.wrapping_add(place as u32);
            words.extend(command.words(tag).map_err(|wide| format!("{command:?}: {} is too wide", wide.0))?);
        }
        let mut left = commands;
        let mut stuck = 0;
        while !left.is_empty() {
            let at = (commands.len() - left.len()) * command::WORDS;
            let taken = self.unit.run(&words[at..], 256.min(16 * left.len() as u64));
            self.take_in(&left[..taken])?;
            left = &left[taken..];
            stuck = if taken == 0 { stuck + 1 } else { 0 };
            if stuck > 4096 {
                return Err(LockstepError::Stall(format!("{:?} is never accepted", left[0])));
            }
        }
        self.unit.run(&[], idle);
        self.take_in(&[])
    }

    /// Runs until all commands have retired, then checks derived state.
    pub fn drain(&mut self) -> Result<(), LockstepError> {
        for _ in 0..4096 {
            if self.in_flight.is_empty() {
                return self.records().check_idle();
            }
            self.unit.run(&[], 16);
            self.take_in(&[])?;
        }
        let tag = self.next_retired;
        Err(LockstepError::Stall(format!("command {tag} never completes: {:?}", self.in_flight[&tag].command)))
    }

    /// The cycles of the commands so far, in order.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// The outcomes of the commands since the last call, in order.
    pub fn take_outcomes(&mut self) -> Vec<Outcome> {
        std::mem::take(&mut self.outcomes)
    }

    /// Whether a portal table entry has unexpected headers. The unit must be idle.
    pub fn has_unexpected(&self, portal: u32) -> bool {
        self.home.portals.get(portal as usize).is_some_and(|portal| portal.headers != 0)
    }

    /// Cycles since the reset.
    pub fn cycle(&self) -> u64 {
        self.unit.cycle()
    }

    fn take_in(&mut self, accepted: &[ListCommand]) -> Result<(), LockstepError> {
        for (command, &cycle) in accepted.iter().zip(self.unit.accepted()) {
            let command = *command;
            let flight = InFlight { command, accepted: cycle, answers: Vec::new(), plan: None, writes: Vec::new() };
            self.in_flight.insert(self.next_tag, flight);
            self.next_tag = self.next_tag.wrapping_add(1);
        }
        for seen in self.unit.answers() {
            let tag = answer::TAG.get(seen.words) as u32;
            let Some(flight) = self.in_flight.get_mut(&tag) else {
                return Err(format!("unexpected answer to command {tag}").into());
            };
            flight.answers.push(Answer { words: seen.words.to_vec(), cycle: seen.cycle });
        }
        for seen in self.unit.outsides() {
            let tag = plan::TAG.get(seen.words) as u32;
            let Some(flight) = self.in_flight.get_mut(&tag) else {
                return Err(format!("unexpected plan for command {tag}").into());
            };
            if flight.plan.replace(seen.words.to_vec()).is_some() {
                return Err(format!("two plans for command {tag}").into());
            }
        }
        let mut retired = Vec::new();
        for seen in self.unit.traces() {
            let trace = WriteLayout::new(256).trace(seen.words, WRITES);
            for write in trace.writes {
                let Some(flight) = self.in_flight.get_mut(&write.tag) else {
                    return Err(format!("a write of command {}, not in progress: {write:x?}", write.tag).into());
                };
                flight.writes.push(write);
            }
            retired.extend(trace.retired);
        }
        for tag in retired {
            self.retire(tag)?;
        }
        Ok(())
    }

    fn retire(&mut self, tag: u32) -> Result<(), LockstepError> {
        let expected = self.next_retired;
        let Some(flight) = (tag == expected).then(|| self.in_flight.remove(&tag)).flatten() else {
            return Err(format!("command {tag} retires instead of {expected}").into());
        };
        self.next_retired = tag.wrapping_add(1);
        self.recent.push_back((tag, flight.command));
        if self.recent.len() > 64 {
            self.recent.pop_front();
        }
        self.compare(tag, &flight).map_err(|error| error.with_report(|text| self.report(tag, &flight, text)))
    }

    fn compare(&mut self, tag: u32, flight: &InFlight) -> Result<(), LockstepError> {
        for write in &flight.writes {
            self.shadow.apply(write)?;
        }
        let Some(last) = flight.answers.last() else { return Err("no answer".into()) };
        let ends = flight.answers.iter().filter(|answer| answer.get(answer::LAST) == 1).count();
        if ends != 1 || last.get(answer::LAST) != 1 {
            return Err(format!("{ends} of {} answers are marked as the last", flight.answers.len()).into());
        }
        self.timings.push(Timing { accepted: flight.accepted, answered: last.cycle });
        let rtl = Outcome::of_rtl(&flight.command, &flight.answers, flight.plan.as_deref())?;
        let model = self.run_model(&flight.command);
        if rtl != model {
            return Err(format!("RTL:   {rtl:x?}\nmodel: {model:x?}").into());
        }
        self.outcomes.push(model);
        let written = match self.compare_all {
            true => (0..self.records().count()).collect(),
            false => flight.records(),
        };
        let ahead: BTreeSet<usize> = self.in_flight.values().flat_map(InFlight::records).collect();
        written
            .difference(&ahead)
            .try_for_each(|&record| self.records().compare_record(record))
            .map_err(|error| error.at(format_args!("after command {tag}")))
    }

    fn records(&self) -> Records<'_> {
        Records { shadow: &self.shadow, home: &self.home, is_alone: true }
    }

    fn run_model(&mut self, command: &ListCommand) -> Outcome {
        let bus = &mut NoMemory;
        let queue = self.queue;
        let mut nic = self.home.nic();
        let mut outcome = Outcome::default();
        match command {
            ListCommand::Deliver(request) => match nic.deliver(bus, request) {
                Verdict::Done(delivery) => outcome.delivery = Some(delivery),
                other => panic!("{other:?}: no other process, no fault"),
            },
            ListCommand::Append { portal, which, spec } => {
                let appended = nic.lists().append(bus, *portal, *which, spec);
                outcome.is_linked = appended.is_ok_and(|reference| nic.entry_index(reference).is_some());
                outcome.appended = Some(appended);
            }
            ListCommand::Unlink(reference) => outcome.unlinked = Some(nic.lists().unlink(*reference)),
            ListCommand::Search { portal, spec, delete } => {
                nic.lists().search(bus, *portal, spec, *delete).expect("the portal table entry is enabled");
            }
        }
        while let Taken::Event(event, _) = nic.signals.take_event(queue) {
            outcome.events.push(event);
        }
        if let Some(portal) = command.portal().and_then(|portal| self.home.portals.get(portal as usize)) {
            let lengths = [portal.entries[0], portal.entries[1], portal.headers];
            self.longest.iter_mut().zip(lengths).for_each(|(most, length)| *most = length.max(*most));
        }
        outcome
    }

    fn report(&self, tag: u32, flight: &InFlight, difference: &str) -> String {
        use std::fmt::Write as _;
        let mut text = format!("command {tag}, {:?}\n", flight.command);
        let answered = flight.answers.iter().map(|answer| answer.cycle).collect::<Vec<_>>();
        let _ = writeln!(text, "accepted in cycle {}, answered in {answered:?}\n{difference}", flight.accepted);
        let _ = writeln!(text, "the commands before: {:?}", &self.timings[self.timings.len().saturating_sub(4)..]);
        for record in flight.records() {
            let _ = writeln!(text, "record {record}, RTL: {}", self.records().show(record));
            match self.home.entries.get(record) {
                Some(model) => drop(writeln!(text, "record {record}, model: {:x?}", EntryDisplay(model))),
                None => {
                    let model = &self.home.headers[record - self.entries];
                    let _ = writeln!(
                        text,
                        "record {record}, model: slot {:x} entry {} source {:x} bits {:x} sequence {}",
                        model.slot, model.entry, model.source, model.match_bits, model.sequence
                    );
                }
            }
        }
        text += "the last commands:\n";
        for (tag, command) in &self.recent {
            let _ = writeln!(text, "  {tag} {command:?}");
        }
        text
    }
}
