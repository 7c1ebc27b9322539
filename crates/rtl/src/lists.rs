// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The list manager (`rtl/lists`) in lockstep with the lists of `nic`.
//!
//! Each command goes to the RTL at once; when it retires there, the same transition of `nic` runs. Then are compared
//!
//! 1. what the RTL answered: status, entry, header, offset and length, as the events and the result that `nic` gives;
//! 2. the records, field by field: those that the RTL wrote, or all;
//! 3. when nothing is under way ([`Lockstep::check_idle`]): free lists in their order, and that each record is on one chain, in
//!    order.
//!
//! Not compared: links and buckets, which are derived and of another hash. A record that a younger command has already written (an
//! append that takes over the record of the message beside it) is compared when that one retires.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::Limits;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::errors::{AppendError, UnlinkError};
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{Delivery, EntrySpec, Event, Verdict, event_kind, fail, list, options};
use selvedge_nic::tables::{Entry, Header, Request, entry, header, kind, slot};

use crate::bits::Field;
use crate::home::{Home, NoMemory};
use crate::layout;
use crate::shadow::{Shadow, Write, WriteLayout};
use crate::unit::{Missing, Unit};

layout! { pub mod key {
    SEQUENCE_NUMBER: 64, LENGTH: 32, PREV: 16, NEXT: 16, OPTIONS: 20, PORTAL: 6, STATUS: 3, CLASS_NUMBER: 3, SOURCE: 32, MATCH_BITS: 64,
} }
layout! { pub mod entry_a {
    SPARE: 13, GENERATION: 24, COUNTER: 27, START: 64, LOCAL_OFFSET: 32, SOURCE_IGNORE: 32, IGNORE_BITS: 64,
} }
layout! { pub mod header_a {
    SPARE: 13, GENERATION: 24, RESERVED: 7, OPERATION: 4, ENTRY: 16, START: 64, MLENGTH: 32, REMOTE_OFFSET: 32, HEADER_DATA: 64,
} }
layout! { pub mod entry_b { SPARE: 112, HEADERS: 16, MIN_FREE: 32, UID: 32, USER_PTR: 64 } }
layout! { pub mod header_b { SPARE: 160, CLASS_PREV: 16, CLASS_NEXT: 16, TOKEN: 32, UID: 32 } }
layout! { pub mod chain { TAIL: 16, HEAD: 16 } }
layout! { pub mod command {
    TAG: 32, KIND: 2, OVERFLOW: 1, DELETE_FOUND: 1, PORTAL: 6, OPTIONS: 20, MATCH_BITS: 64, IGNORE_BITS: 64, SOURCE: 32,
    SOURCE_IGNORE: 32, START: 64, LENGTH: 32, MIN_FREE: 32, USER_PTR: 64, UID: 32, COUNTER: 27, REMOTE_OFFSET: 32, HEADER_DATA: 64,
    TOKEN: 32, OPERATION: 4, ENTRY_REFERENCE: 27,
} }
layout! { pub mod answer {
    TAG: 32, STATUS: 4, LAST: 1, OVERFLOW: 1, INDEX: 16, ENTRY_REFERENCE: 27, KEY: 256, A: 256, B: 256,
} }
layout! { pub mod plan {
    VALID: 1, TAG: 32, OFFSET: 32, MLENGTH: 32, UNLINKS: 1, FREED: 1, KEPT: 1, HEADER: 16,
} }

/// Write ports of the trace, and the banks, as `lists_pkg.sv` numbers them.
const WRITES: usize = 10;
const BANK_K: usize = 0;
const BANK_A: usize = 1;
const BANK_B: usize = 2;
const BANK_ENTRY_CHAINS: usize = 3;
const BANK_HEADER_CHAINS: usize = 4;
const PORTALS: usize = 64;

/// Status of an answer.
mod status {
    pub const MATCHED: u64 = 0;
    pub const NO_MATCH: u64 = 1;
    pub const PERMISSION: u64 = 2;
    pub const OPERATION: u64 = 3;
    pub const HEADERS_FULL: u64 = 4;
    pub const LINKED: u64 = 5;
    pub const SPENT: u64 = 6;
    pub const ENTRIES_FULL: u64 = 7;
    pub const UNLINKED: u64 = 8;
    pub const IN_USE: u64 = 9;
    pub const INVALID: u64 = 10;
    pub const DRAINED: u64 = 11;
    pub const COMPLETE: u64 = 12;
}

/// A command of the list manager.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    Deliver(Request),
    Append { portal: u32, which: u8, spec: EntrySpec },
    Unlink(u32),
    Search { portal: u32, spec: EntrySpec, delete: bool },
}

/// A value that the words of the RTL have no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooWide(pub &'static str);

impl Command {
    /// The command as the RTL takes it.
    ///
    /// # Errors
    /// A value is wider than its field, or the RTL does not carry the command out.
    pub fn words(&self, tag: u32) -> Result<[u32; command::WORDS], TooWide> {
        let mut words = [0; command::WORDS];
        let mut set = |field: Field, value: u64, name: &'static str| {
            if field.width < 64 && value >> field.width != 0 {
                return Err(TooWide(name));
            }
            field.set(&mut words, value);
            Ok(())
        };
        set(command::TAG, tag.into(), "tag")?;
        match self {
            Command::Deliver(request) => {
                if request.kind != kind::PUT && request.kind != kind::GET {
                    return Err(TooWide("operation"));
                }
                set(command::KIND, 0, "kind")?;
                set(command::PORTAL, request.portal.into(), "portal")?;
                set(command::MATCH_BITS, request.match_bits, "match_bits")?;
                set(command::SOURCE, request.initiator, "source")?;
                set(command::LENGTH, request.length, "length")?;
                set(command::UID, request.uid.into(), "uid")?;
                set(command::REMOTE_OFFSET, request.remote_offset, "remote_offset")?;
                set(command::HEADER_DATA, request.header_data, "header_data")?;
                set(command::TOKEN, request.token().into(), "token")?;
                set(command::OPERATION, request.kind.into(), "operation")?;
            }
            Command::Append { portal, which, spec } => {
                set(command::KIND, 1, "kind")?;
                set(command::OVERFLOW, u64::from(*which == list::OVERFLOW), "which")?;
                set_spec(&mut set, *portal, spec)?;
            }
            Command::Unlink(reference) => {
                set(command::KIND, 2, "kind")?;
                set(command::ENTRY_REFERENCE, (*reference).into(), "reference")?;
            }
            Command::Search { portal, spec, delete } => {
                set(command::KIND, 3, "kind")?;
                set(command::DELETE_FOUND, u64::from(*delete), "delete")?;
                set_spec(&mut set, *portal, spec)?;
            }
        }
        Ok(words)
    }
}

fn set_spec(
    set: &mut impl FnMut(Field, u64, &'static str) -> Result<(), TooWide>,
    portal: u32,
    spec: &EntrySpec,
) -> Result<(), TooWide> {
    if spec.iov != NONE {
        return Err(TooWide("I/O vector"));
    }
    set(command::PORTAL, portal.into(), "portal")?;
    set(command::OPTIONS, spec.options.into(), "options")?;
    set(command::MATCH_BITS, spec.match_bits, "match_bits")?;
    set(command::IGNORE_BITS, spec.ignore_bits, "ignore_bits")?;
    set(command::SOURCE, spec.source, "source")?;
    set(command::SOURCE_IGNORE, spec.source_ignore & u64::from(u32::MAX), "source_ignore")?;
    set(command::START, spec.start, "start")?;
    set(command::LENGTH, spec.length, "length")?;
    set(command::MIN_FREE, spec.min_free, "min_free")?;
    set(command::USER_PTR, spec.user_ptr, "user_ptr")?;
    set(command::UID, spec.uid.into(), "uid")?;
    set(command::COUNTER, reference(spec.counter), "counter")
}

/// A reference of `nic`; NONE is all ones in the RTL's 27 bits.
fn reference(of_nic: u32) -> u64 {
    if of_nic == NONE { (1 << 27) - 1 } else { of_nic.into() }
}

/// What a command has led to, on one of the two sides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The result of a message.
    pub delivery: Option<Delivery>,
    /// The result of an append: a reference, or that the table was full.
    pub appended: Option<Result<u32, AppendError>>,
    pub unlinked: Option<Result<(), UnlinkError>>,
    pub events: Vec<Event>,
}

/// An answer of the RTL, with what a message did to its entry.
#[derive(Clone, Debug)]
struct Answer {
    words: Vec<u32>,
    cycle: u32,
}

impl Answer {
    fn get(&self, field: Field) -> u64 {
        field.get(&self.words)
    }
    fn key(&self, field: Field) -> u64 {
        self.get(field.within(answer::KEY.at))
    }
    fn a(&self, field: Field) -> u64 {
        self.get(field.within(answer::A.at))
    }
    fn b(&self, field: Field) -> u64 {
        self.get(field.within(answer::B.at))
    }
}

struct InFlight {
    command: Command,
    accepted: u32,
    answers: Vec<Answer>,
    plan: Option<Vec<u32>>,
    writes: Vec<Write>,
}

/// The cycles of a command: from its acceptance to its last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub accepted: u32,
    pub answered: u32,
}

/// Both list managers.
pub struct Lockstep {
    unit: Unit,
    home: Home,
    shadow: Shadow,
    entries: usize,
    queue: u32,
    in_flight: BTreeMap<u32, InFlight>,
    next_tag: u32,
    next_retired: u32,
    /// Compare all records at each command, not only those that the RTL wrote.
    pub compare_all: bool,
    /// The last commands, for the report of a difference.
    recent: VecDeque<(u32, Command)>,
    timings: Vec<Timing>,
}

impl Lockstep {
    /// The unit of this name, which has so many records and buckets, and a NIC of the same size. Portal table entries `portals` are
    /// enabled.
    pub fn new(unit: &str, (entries, headers, buckets): (u32, u32, usize), portals: u32) -> Result<Lockstep, Missing> {
        let mut unit = Unit::new(unit)?;
        let limits = Limits {
            entries,
            headers,
            queues: 1,
            portals,
            list: entries,
            short_list: 2,
            heap_blocks: 256,
            heap_blocks_max: 256,
            ..Limits::NONE
        };
        let mut home = Home::new(&limits);
        let queue = home.nic().queue_alloc(128).expect("there is room");
        for portal in 0..portals {
            home.nic().portal_alloc(Some(portal), 0, queue).expect("it is free");
        }
        let pool = (entries + headers) as usize;
        let shadow = Shadow::new(&[(pool, 256), (pool, 256), (pool, 256), (buckets, 32), (buckets, 32), (PORTALS, 32)]);
        // The banks clear themselves.
        unit.run(&[], pool.max(buckets).max(PORTALS) as u64 + 2);
        Ok(Lockstep {
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
        })
    }

    /// Offers the commands one behind the other, and runs until all are accepted and `idle` cycles more.
    ///
    /// # Errors
    /// The first difference between the two sides.
    pub fn run(&mut self, commands: &[Command], idle: u64) -> Result<(), String> {
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
                return Err(format!("{:?} is never accepted", left[0]));
            }
        }
        self.unit.run(&[], idle);
        self.take_in(&[])
    }

    /// Runs until all commands have retired, then checks what is derived.
    pub fn drain(&mut self) -> Result<(), String> {
        for _ in 0..4096 {
            if self.in_flight.is_empty() {
                return self.check_idle();
            }
            self.unit.run(&[], 16);
            self.take_in(&[])?;
        }
        Err(format!("command {} is never done: {:?}", self.next_retired, self.in_flight[&self.next_retired].command))
    }

    /// The cycles of the commands so far, in their order.
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// Cycles since the reset.
    pub fn cycle(&self) -> u64 {
        self.unit.cycle()
    }

    /// The reference of the entry that the next append links, if it links one.
    pub fn next_reference(&mut self) -> Option<u32> {
        let index = self.home.control.free_entry;
        let record = self.home.entries.get(index as usize)?;
        Some(selvedge_nic::handle::Encoding::new(self.entries).encode(index, slot::generation(record.slot)))
    }

    fn take_in(&mut self, accepted: &[Command]) -> Result<(), String> {
        for (command, &cycle) in accepted.iter().zip(self.unit.accepted()) {
            let command = *command;
            let flight = InFlight { command, accepted: cycle, answers: Vec::new(), plan: None, writes: Vec::new() };
            self.in_flight.insert(self.next_tag, flight);
            self.next_tag = self.next_tag.wrapping_add(1);
        }
        for seen in self.unit.answers() {
            let tag = answer::TAG.get(seen.words) as u32;
            let Some(flight) = self.in_flight.get_mut(&tag) else { return Err(format!("an answer to command {tag}")) };
            flight.answers.push(Answer { words: seen.words.to_vec(), cycle: seen.cycle });
        }
        for seen in self.unit.outsides() {
            let tag = plan::TAG.get(seen.words) as u32;
            let Some(flight) = self.in_flight.get_mut(&tag) else { return Err(format!("a plan for command {tag}")) };
            if flight.plan.replace(seen.words.to_vec()).is_some() {
                return Err(format!("two plans for command {tag}"));
            }
        }
        let mut retired = Vec::new();
        for seen in self.unit.traces() {
            let trace = WriteLayout::new(256).trace(seen.words, WRITES);
            for write in trace.writes {
                let Some(flight) = self.in_flight.get_mut(&write.tag) else {
                    return Err(format!("a write of command {}, which is not under way: {write:x?}", write.tag));
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

    fn retire(&mut self, tag: u32) -> Result<(), String> {
        let expected = self.next_retired;
        let Some(flight) = (tag == expected).then(|| self.in_flight.remove(&tag)).flatten() else {
            return Err(format!("command {tag} retires instead of {expected}"));
        };
        self.next_retired = tag.wrapping_add(1);
        self.recent.push_back((tag, flight.command));
        if self.recent.len() > 64 {
            self.recent.pop_front();
        }
        self.compare(tag, &flight).map_err(|difference| self.report(tag, &flight, &difference))
    }

    fn compare(&mut self, tag: u32, flight: &InFlight) -> Result<(), String> {
        for write in &flight.writes {
            self.shadow.apply(write)?;
        }
        let Some(last) = flight.answers.last() else { return Err("no answer".into()) };
        let ends = flight.answers.iter().filter(|answer| answer.get(answer::LAST) == 1).count();
        if ends != 1 || last.get(answer::LAST) != 1 {
            return Err(format!("{ends} last answers of {}", flight.answers.len()));
        }
        self.timings.push(Timing { accepted: flight.accepted, answered: last.cycle });
        let rtl = self.outcome_of_rtl(flight)?;
        let model = self.run_model(&flight.command);
        if rtl != model {
            return Err(format!("RTL:   {rtl:x?}\nmodel: {model:x?}"));
        }
        let mut records: Vec<usize> = match self.compare_all {
            true => (0..self.entries + self.home.headers.len()).collect(),
            false => flight.writes.iter().filter(|write| write.bank <= BANK_B).map(|write| write.address).collect(),
        };
        let ahead = |record: &usize| {
            self.in_flight
                .values()
                .any(|other| other.writes.iter().any(|write| write.bank <= BANK_B && write.address == *record))
        };
        records.retain(|record| !ahead(record));
        records.sort_unstable();
        records.dedup();
        records
            .into_iter()
            .try_for_each(|record| self.compare_record(record))
            .map_err(|text| format!("after command {tag}: {text}"))
    }

    /// Runs the command on `nic`.
    fn run_model(&mut self, command: &Command) -> Outcome {
        let bus = &mut NoMemory;
        let queue = self.queue;
        let mut nic = self.home.nic();
        let mut outcome = Outcome::default();
        match command {
            Command::Deliver(request) => match nic.deliver(bus, request) {
                Verdict::Done(delivery) => outcome.delivery = Some(delivery),
                other => panic!("{other:?}: no other process, no fault"),
            },
            Command::Append { portal, which, spec } => outcome.appended = Some(nic.append(bus, *portal, *which, spec)),
            Command::Unlink(reference) => outcome.unlinked = Some(nic.unlink(*reference)),
            Command::Search { portal, spec, delete } => {
                nic.search(bus, *portal, spec, *delete).expect("the portal table entry is enabled");
            }
        }
        while let Taken::Event(event, _) = nic.signals.take_event(queue) {
            outcome.events.push(event);
        }
        outcome
    }

    /// What the RTL's answers mean: the result and the events that a processor makes of them.
    fn outcome_of_rtl(&self, flight: &InFlight) -> Result<Outcome, String> {
        let mut outcome = Outcome::default();
        for answer in &flight.answers {
            let status = answer.get(answer::STATUS);
            match &flight.command {
                Command::Deliver(request) => self.delivered(&mut outcome, request, answer, flight.plan.as_deref())?,
                Command::Append { portal, which, spec } => {
                    let reference = answer.get(answer::ENTRY_REFERENCE) as u32;
                    match status {
                        status::MATCHED => taken_header(&mut outcome, answer, spec, None),
                        status::DRAINED => drained(&mut outcome, answer),
                        status::LINKED => {
                            outcome.appended = Some(Ok(reference));
                            if spec.options & options::EVENT_LINK_DISABLE == 0 {
                                outcome.events.push(about_entry(
                                    *portal,
                                    spec.start,
                                    spec.user_ptr,
                                    event_kind::LINK,
                                    *which,
                                ));
                            }
                        }
                        status::SPENT => {
                            outcome.appended = Some(Ok(reference));
                            if spec.options & options::EVENT_UNLINK_DISABLE == 0 {
                                let kind = event_kind::AUTO_UNLINK;
                                outcome.events.push(about_entry(
                                    *portal,
                                    spec.start,
                                    spec.user_ptr,
                                    kind,
                                    list::PRIORITY,
                                ));
                            }
                        }
                        status::ENTRIES_FULL => outcome.appended = Some(Err(AppendError::Full)),
                        other => return Err(format!("status {other} of an append")),
                    }
                }
                Command::Unlink(_) => {
                    outcome.unlinked = Some(match status {
                        status::UNLINKED => Ok(()),
                        status::IN_USE => Err(UnlinkError::InUse),
                        status::INVALID => Err(UnlinkError::Invalid),
                        other => return Err(format!("status {other} of an unlink")),
                    });
                }
                Command::Search { portal, spec, delete } => match status {
                    status::MATCHED => {
                        taken_header(&mut outcome, answer, spec, (!delete).then_some(event_kind::SEARCH))
                    }
                    status::DRAINED => drained(&mut outcome, answer),
                    status::COMPLETE => {}
                    status::NO_MATCH => {
                        if spec.options & options::EVENT_COMM_DISABLE == 0 {
                            let about =
                                about_entry(*portal, spec.start, spec.user_ptr, event_kind::SEARCH, list::OVERFLOW);
                            outcome.events.push(Event { fail: fail::NO_MATCH, ..about });
                        }
                    }
                    other => return Err(format!("status {other} of a search")),
                },
            }
        }
        Ok(outcome)
    }

    fn delivered(
        &self,
        outcome: &mut Outcome,
        request: &Request,
        answer: &Answer,
        effect: Option<&[u32]>,
    ) -> Result<(), String> {
        let failed = match answer.get(answer::STATUS) {
            status::MATCHED => {
                let Some(effect) = effect else { return Err("no plan".into()) };
                return self.matched(outcome, request, answer, |field| field.get(effect));
            }
            status::NO_MATCH | status::HEADERS_FULL => fail::DROPPED,
            status::PERMISSION => fail::PERM_VIOLATION,
            status::OPERATION => fail::OP_VIOLATION,
            other => return Err(format!("status {other} of a message")),
        };
        outcome.delivery = Some(Delivery::failed(failed));
        effect.map_or(Ok(()), |_| Err("a plan of a message that is refused".into()))
    }

    fn matched(
        &self,
        outcome: &mut Outcome,
        request: &Request,
        answer: &Answer,
        effect: impl Fn(Field) -> u64,
    ) -> Result<(), String> {
        let flags = answer.key(key::OPTIONS) as u32;
        let which = answer.get(answer::OVERFLOW) as u8;
        let (start, user_ptr) = (answer.a(entry_a::START), answer.b(entry_b::USER_PTR));
        let (offset, mlength) = (effect(plan::OFFSET), effect(plan::MLENGTH));
        let ack_disabled = flags & options::ACK_DISABLE != 0;
        outcome.delivery = Some(Delivery { fail: fail::OK, mlength, remote_offset: offset, ack_disabled, list: which });
        if flags & (options::EVENT_COMM_DISABLE | options::EVENT_SUCCESS_DISABLE) == 0 {
            outcome.events.push(Event {
                start: start.wrapping_add(offset),
                user_ptr,
                header_data: request.header_data,
                match_bits: request.match_bits,
                rlength: request.length,
                mlength,
                remote_offset: request.remote_offset,
                initiator: request.initiator,
                uid: request.uid,
                portal: request.portal,
                kind: if request.kind == kind::GET { event_kind::GET } else { event_kind::PUT },
                list: which,
                ..Event::default()
            });
        }
        let mut about = |kind| {
            if flags & options::EVENT_UNLINK_DISABLE == 0 {
                outcome.events.push(about_entry(request.portal, start, user_ptr, kind, which));
            }
        };
        if effect(plan::UNLINKS) == 1 {
            about(event_kind::AUTO_UNLINK);
            if which == list::OVERFLOW && effect(plan::FREED) == 1 {
                about(event_kind::AUTO_FREE);
            }
        }
        Ok(())
    }

    /// A record's words, one behind the other.
    fn words(&self, record: usize) -> [&[u32]; 3] {
        [BANK_K, BANK_A, BANK_B].map(|bank| self.shadow.word(bank, record))
    }

    fn compare_record(&self, record: usize) -> Result<(), String> {
        let [k, a, b] = self.words(record);
        let different = if let Some(model) = self.home.entries.get(record) {
            entry_difference(k, a, b, model)
        } else {
            header_difference(k, a, b, &self.home.headers[record - self.entries], self.entries)
        };
        match different {
            None => Ok(()),
            Some((field, rtl, model)) => Err(format!("record {record}, {field}: RTL {rtl:#x}, model {model:#x}")),
        }
    }

    /// Checks what is derived, while nothing is under way: free lists, and that each record is on one chain, in order.
    pub fn check_idle(&self) -> Result<(), String> {
        for record in 0..self.entries + self.home.headers.len() {
            self.compare_record(record)?;
        }
        let free_entries: Vec<usize> = {
            let next = |at: u32| slot::next(at, self.home.entries[at as usize].next);
            free_records(self.home.control.free_entry, self.entries, next)
        };
        self.check_free("entries", &free_entries, 0, self.entries)?;
        let free_headers: Vec<usize> = {
            let next = |at: u32| slot::next(at, self.home.headers[at as usize].links[0][0]);
            free_records(self.home.control.free_header, self.home.headers.len(), next)
        };
        self.check_free("headers", &free_headers, self.entries, self.home.headers.len())?;
        let linked = |record: usize| {
            let status = key::STATUS.get(self.shadow.word(BANK_K, record));
            status == entry::PRIORITY.into() || status == entry::OVERFLOW.into()
        };
        let next = |record: usize| key::NEXT.get(self.shadow.word(BANK_K, record)) as usize;
        self.check_chains("entry", BANK_ENTRY_CHAINS, 0..self.entries, linked, next)?;
        let linked = |record: usize| key::STATUS.get(self.shadow.word(BANK_K, record)) == header::LIVE.into();
        let next = |record: usize| header_b::CLASS_NEXT.get(self.shadow.word(BANK_B, record)) as usize;
        self.check_chains(
            "header",
            BANK_HEADER_CHAINS,
            self.entries..self.entries + self.home.headers.len(),
            linked,
            next,
        )
    }

    /// The free records link to each other as those of `nic`, from its first on.
    fn check_free(&self, what: &str, free: &[usize], base: usize, records: usize) -> Result<(), String> {
        for (place, &record) in free.iter().enumerate() {
            let link = key::NEXT.get(self.shadow.word(BANK_K, base + record));
            let next = usize::from((link as u16).wrapping_add(record as u16).wrapping_add(1));
            let expected = free.get(place + 1).copied();
            if expected != Some(next).filter(|&next| next < records) {
                return Err(format!("free {what}: {record} links to {next}, in the model to {expected:?}"));
            }
        }
        Ok(())
    }

    fn check_chains(
        &self,
        what: &str,
        bank: usize,
        range: std::ops::Range<usize>,
        linked: impl Fn(usize) -> bool,
        next: impl Fn(usize) -> usize,
    ) -> Result<(), String> {
        let mut seen = vec![false; range.end];
        for bucket in 0..self.shadow.count(bank) {
            let word = self.shadow.word(bank, bucket);
            let (mut at, tail) = (!chain::HEAD.get(word) as u16 as usize, !chain::TAIL.get(word) as u16 as usize);
            let mut last: Option<(usize, u64)> = None;
            while range.contains(&at) {
                let sequence = key::SEQUENCE_NUMBER.get(self.shadow.word(BANK_K, at));
                if std::mem::replace(&mut seen[at], true) || !linked(at) {
                    return Err(format!("{what} chain {bucket}: record {at} does not belong there"));
                }
                if last.is_some_and(|(_, before)| before >= sequence) {
                    return Err(format!("{what} chain {bucket}: record {at} is out of order"));
                }
                last = Some((at, sequence));
                at = next(at);
            }
            if last.is_some_and(|(record, _)| record != tail) {
                return Err(format!("{what} chain {bucket}: ends with {last:?}, but its tail is {tail}"));
            }
        }
        match range.clone().find(|&record| linked(record) && !seen[record]) {
            Some(record) => Err(format!("record {record} is on no {what} chain")),
            None => Ok(()),
        }
    }

    fn report(&self, tag: u32, flight: &InFlight, difference: &str) -> String {
        use std::fmt::Write as _;
        let mut text = format!("command {tag}, {:?}\n", flight.command);
        let answered = flight.answers.iter().map(|answer| answer.cycle).collect::<Vec<_>>();
        let _ = writeln!(text, "accepted in cycle {}, answered in {answered:?}\n{difference}", flight.accepted);
        let _ = writeln!(text, "the commands before: {:?}", &self.timings[self.timings.len().saturating_sub(4)..]);
        let mut records: Vec<usize> =
            flight.writes.iter().filter(|write| write.bank <= BANK_B).map(|write| write.address).collect();
        records.sort_unstable();
        records.dedup();
        for record in records {
            let _ = writeln!(text, "record {record}, RTL: {}", self.show(record));
            match self.home.entries.get(record) {
                Some(model) => drop(writeln!(text, "record {record}, model: {:x?}", Shown(model))),
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

    fn show(&self, record: usize) -> String {
        let [k, a, b] = self.words(record);
        let (fields_a, fields_b) = match record < self.entries {
            true => (entry_a::FIELDS, entry_b::FIELDS),
            false => (header_a::FIELDS, header_b::FIELDS),
        };
        let show = |words: &[u32], fields: &[(&str, Field)]| {
            let narrow = fields.iter().filter(|(_, field)| field.width <= 64);
            narrow.map(|(name, field)| format!("{} {:x} ", name.to_lowercase(), field.get(words))).collect::<String>()
        };
        show(k, key::FIELDS) + &show(a, fields_a) + &show(b, fields_b)
    }
}

/// An entry of `nic`, as a report shows it.
struct Shown<'a>(&'a Entry);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        let Entry { slot, options, match_bits, ignore_bits, source, source_ignore, sequence, headers, .. } = *self.0;
        let Entry { start, length, local_offset, min_free, user_ptr, .. } = *self.0;
        write!(
            out,
            "slot {slot:x} options {options:x} match_bits {match_bits:x} ignore_bits {ignore_bits:x} source {source:x} "
        )?;
        write!(
            out,
            "source_ignore {source_ignore:x} sequence {sequence} headers {headers} start {start:x} length {length:x} "
        )?;
        write!(out, "local_offset {local_offset:x} min_free {min_free:x} user_ptr {user_ptr:x}")
    }
}

/// The records of a free list of `nic`, its first one first.
fn free_records(first: u32, records: usize, next: impl Fn(u32) -> u32) -> Vec<usize> {
    let mut free = Vec::new();
    let mut at = first;
    while (at as usize) < records {
        free.push(at as usize);
        at = next(at);
    }
    free
}

fn about_entry(portal: u32, start: u64, user_ptr: u64, kind: u8, which: u8) -> Event {
    Event { start, user_ptr, portal, kind, list: which, ..Event::default() }
}

/// The event for a header that an append or a search has taken.
fn taken_header(outcome: &mut Outcome, answer: &Answer, spec: &EntrySpec, kind: Option<u8>) {
    let own = if kind.is_some() { options::EVENT_COMM_DISABLE } else { options::EVENT_OVER_DISABLE };
    if spec.options & (own | options::EVENT_SUCCESS_DISABLE) != 0 {
        return;
    }
    let is_get = answer.a(header_a::OPERATION) == u64::from(kind::GET);
    let over = if is_get { event_kind::GET_OVERFLOW } else { event_kind::PUT_OVERFLOW };
    outcome.events.push(Event {
        start: answer.a(header_a::START),
        user_ptr: spec.user_ptr,
        header_data: answer.a(header_a::HEADER_DATA),
        match_bits: answer.key(key::MATCH_BITS),
        rlength: answer.key(key::LENGTH),
        mlength: answer.a(header_a::MLENGTH),
        remote_offset: answer.a(header_a::REMOTE_OFFSET),
        initiator: answer.key(key::SOURCE),
        uid: answer.b(header_b::UID) as u32,
        portal: answer.key(key::PORTAL) as u32,
        kind: kind.unwrap_or(over),
        list: list::OVERFLOW,
        ..Event::default()
    });
}

/// The event for an overflow entry that has waited for its last header.
fn drained(outcome: &mut Outcome, answer: &Answer) {
    if answer.key(key::OPTIONS) as u32 & options::EVENT_UNLINK_DISABLE == 0 {
        let user_ptr = answer.b(entry_b::USER_PTR);
        let portal = answer.key(key::PORTAL) as u32;
        let start = answer.a(entry_a::START);
        outcome.events.push(about_entry(portal, start, user_ptr, event_kind::AUTO_FREE, list::OVERFLOW));
    }
}

/// The first field in which an entry differs: its name, the RTL's value, the model's.
fn entry_difference(k: &[u32], a: &[u32], b: &[u32], model: &Entry) -> Option<(&'static str, u64, u64)> {
    let status = slot::status(model.slot);
    let slot = [
        ("status", key::STATUS.get(k), u64::from(status)),
        ("generation", entry_a::GENERATION.get(a), u64::from(slot::generation(model.slot))),
    ];
    let rest = [
        ("options", key::OPTIONS.get(k), u64::from(model.options)),
        ("portal", key::PORTAL.get(k), u64::from(model.portal)),
        ("match_bits", key::MATCH_BITS.get(k), model.match_bits),
        ("source", key::SOURCE.get(k), model.source),
        ("length", key::LENGTH.get(k), model.length),
        ("sequence", key::SEQUENCE_NUMBER.get(k), model.sequence),
        ("ignore_bits", entry_a::IGNORE_BITS.get(a), model.ignore_bits),
        ("source_ignore", entry_a::SOURCE_IGNORE.get(a), model.source_ignore & u64::from(u32::MAX)),
        ("local_offset", entry_a::LOCAL_OFFSET.get(a), model.local_offset),
        ("start", entry_a::START.get(a), model.start),
        ("counter", entry_a::COUNTER.get(a), reference(model.counter)),
        ("user_ptr", entry_b::USER_PTR.get(b), model.user_ptr),
        ("uid", entry_b::UID.get(b), u64::from(model.uid)),
        ("min_free", entry_b::MIN_FREE.get(b), model.min_free),
        ("headers", entry_b::HEADERS.get(b), u64::from(model.headers)),
    ];
    let compared = if status == slot::FREE { 0 } else { rest.len() };
    slot.into_iter().chain(rest.into_iter().take(compared)).find(|(_, rtl, model)| rtl != model)
}

/// The first field in which a header differs.
fn header_difference(
    k: &[u32],
    a: &[u32],
    b: &[u32],
    model: &Header,
    _entries: usize,
) -> Option<(&'static str, u64, u64)> {
    let status = slot::status(model.slot);
    let slot = [
        ("status", key::STATUS.get(k), u64::from(status)),
        ("generation", header_a::GENERATION.get(a), u64::from(slot::generation(model.slot))),
    ];
    let rest = [
        ("portal", key::PORTAL.get(k), u64::from(model.portal)),
        ("match_bits", key::MATCH_BITS.get(k), model.match_bits),
        ("source", key::SOURCE.get(k), model.source),
        ("rlength", key::LENGTH.get(k), model.rlength),
        ("sequence", key::SEQUENCE_NUMBER.get(k), model.sequence),
        ("entry", header_a::ENTRY.get(a), u64::from(model.entry)),
        ("start", header_a::START.get(a), model.start),
        ("mlength", header_a::MLENGTH.get(a), model.mlength),
        ("remote_offset", header_a::REMOTE_OFFSET.get(a), model.remote_offset),
        ("header_data", header_a::HEADER_DATA.get(a), model.header_data),
        ("operation", header_a::OPERATION.get(a), u64::from(model.kind)),
        ("uid", header_b::UID.get(b), u64::from(model.uid)),
        ("token", header_b::TOKEN.get(b), u64::from(model.token)),
    ];
    let compared = if status == slot::FREE { 0 } else { rest.len() };
    slot.into_iter().chain(rest.into_iter().take(compared)).find(|(_, rtl, model)| rtl != model)
}
