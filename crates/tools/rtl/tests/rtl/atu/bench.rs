// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory, units and driver around both sides of the lockstep.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::atu::ats::{FlushRequest, FlushResponse, Transaction, TranslationRequest};
use selvedge_nic::atu::pipeline::Request;
use selvedge_nic::atu::{Access, AddressEntry, FlushMode, FlushTarget, NlaPage, PageSize, Rights, Unit as Peer};
use selvedge_rtl::LockstepError;
use selvedge_rtl::atu::words::{AtuCommand, Inputs};
use selvedge_rtl::atu::{AtuLockstep, Outputs};

use crate::common::built;

pub fn page(number: u32) -> NlaPage {
    NlaPage::new(number.into()).expect("27 bits")
}

/// The word of an entry; a large page's target need not be its first.
pub fn entry(rights: Rights, vpid: u16, target: u64, reserved: u64) -> u64 {
    AddressEntry::new(rights, vpid, target, PageSize::Kib4).expect("it fits").bits() | reserved << 52
}

pub fn ask(unit: Peer, tag: u16, vpid: u16, number: u32, access: Access) -> AtuCommand {
    TranslationRequest { unit, tag, vpid, page: page(number), access }.into()
}

pub fn flush_pages(mode: FlushMode, tag: u16, first: u32, count: u32) -> AtuCommand {
    let request = FlushRequest { tag, target: FlushTarget::Pages { first: page(first), count } };
    AtuCommand::of(Request::Flush { request, mode }).expect("encodable")
}

pub fn flush_vpid(mode: FlushMode, tag: u16, vpid: u16) -> AtuCommand {
    let request = FlushRequest { tag, target: FlushTarget::Vpid(vpid) };
    AtuCommand::of(Request::Flush { request, mode }).expect("encodable")
}

pub fn fence(tag: u16) -> AtuCommand {
    AtuCommand::of(Request::Fence { tag }).expect("encodable")
}

pub fn answer_of(unit: Peer, tag: u16) -> u64 {
    Transaction::FlushResponse(FlushResponse { unit, tag }).encode().expect("encodable")
}

/// Both sides and their surroundings. A difference ends the test.
pub struct Bench<const FIFO: usize, const REORDER: usize, const PENDING: usize> {
    pub both: AtuLockstep<FIFO, REORDER, PENDING>,
    /// Maximum cycles without output: successive flushes of a VPID delay a read, each by two cycles a word of the TLB.
    stuck: usize,
    offered: VecDeque<AtuCommand>,
    tables: BTreeMap<u32, u64>,
    /// Unanswered table reads: slot and page.
    pub reads: Vec<(u16, u32)>,
    /// Units that have not answered a flush.
    pub asked: Vec<(Peer, u16)>,
    /// Words sent to units, with the unit.
    pub units: Vec<(u8, u64)>,
    pub done: Vec<u16>,
    pub misses: usize,
    /// Whether memory and units answer at once.
    pub is_answered: bool,
}

impl Bench<64, 32, 16> {
    /// The unit with the sizes of the seed. `None` without Verilator.
    pub fn whole(tables: u32) -> Option<Self> {
        Bench::new("atu", 1024, tables)
    }
}

impl Bench<5, 3, 2> {
    /// A unit whose tables fill up.
    pub fn tiny() -> Option<Self> {
        Bench::new("atu_tiny", 4, 1)
    }
}

impl Bench<12, 8, 3> {
    /// A unit whose TLB has two ports.
    pub fn two_ports() -> Option<Self> {
        Bench::new("atu_two_ports", 8, 1)
    }
}

impl<const FIFO: usize, const REORDER: usize, const PENDING: usize> Bench<FIFO, REORDER, PENDING> {
    pub fn new(name: &str, tlb_entries: u32, tables: u32) -> Option<Self> {
        Some(Bench {
            both: built(AtuLockstep::new(name, tlb_entries, tables))?,
            stuck: PENDING * (2 * tlb_entries as usize + REORDER + 40),
            offered: VecDeque::new(),
            tables: BTreeMap::new(),
            reads: Vec::new(),
            asked: Vec::new(),
            units: Vec::new(),
            done: Vec::new(),
            misses: 0,
            is_answered: true,
        })
    }

    /// Writes an entry of a table.
    pub fn write(&mut self, number: u32, word: u64) {
        self.tables.insert(number, word);
    }

    pub fn entry(&self, number: u32) -> u64 {
        self.tables.get(&number).copied().unwrap_or(0)
    }

    /// Queues a command.
    pub fn offer(&mut self, command: AtuCommand) {
        self.offered.push_back(command);
    }

    /// Commands that are queued and not accepted.
    pub fn waiting(&self) -> usize {
        self.offered.len()
    }

    /// Runs a cycle. The first queued command goes in, if the inputs have none. Fails with the first difference.
    pub fn try_tick(&mut self, inputs: &Inputs) -> Result<Outputs, LockstepError> {
        let own = if inputs.command.is_none() { self.offered.front().copied() } else { None };
        let left = self.both.cycle(&Inputs { command: inputs.command.or(own), ..*inputs })?;
        if left.accepted && own.is_some() {
            self.offered.pop_front();
        }
        self.reads.extend(left.memory);
        self.misses += usize::from(left.miss);
        self.done.extend(left.done);
        if let Some((peer, word)) = left.units {
            self.units.push((peer, word));
            if let Ok(Transaction::FlushRequest(request)) = Transaction::decode(word) {
                self.asked.push((Peer::ALL[usize::from(peer)], request.tag));
            }
        }
        Ok(left)
    }

    pub fn tick(&mut self, inputs: &Inputs) -> Outputs {
        self.try_tick(inputs).unwrap_or_else(|difference| panic!("{difference}"))
    }

    /// Runs this many cycles. Memory and units answer each request at their port, if the bench lets them.
    pub fn run(&mut self, cycles: usize) {
        for _ in 0..cycles {
            let inputs = if self.is_answered { self.answers() } else { Inputs::NONE };
            self.tick(&inputs);
        }
    }

    /// Answers to the first table read and the first flush.
    pub fn answers(&mut self) -> Inputs {
        let read = (!self.reads.is_empty()).then(|| self.reads.remove(0));
        let answer = (!self.asked.is_empty()).then(|| self.asked.remove(0));
        Inputs {
            read: read.map(|(tag, number)| (tag, self.entry(number))),
            answer: answer.map(|(unit, tag)| answer_of(unit, tag)),
            ..Inputs::NONE
        }
    }

    /// Answers everything until both sides are idle, and compares all. Fails with the first difference, or if it never
    /// ends.
    pub fn try_finish(&mut self) -> Result<(), LockstepError> {
        let mut still = 0;
        while still < self.stuck {
            if self.offered.is_empty() && self.both.is_idle() {
                return self.both.check_idle();
            }
            let inputs = self.answers();
            let left = self.try_tick(&inputs)?;
            let is_still = left.units.is_none() && left.memory.is_none() && left.done.is_none() && !left.accepted;
            still = if is_still { still + 1 } else { 0 };
        }
        Err(LockstepError::Stall(format!(
            "{} requests are never accepted, or something never ends",
            self.offered.len()
        )))
    }

    pub fn finish(&mut self) {
        self.try_finish().unwrap_or_else(|difference| panic!("{difference}"));
    }
}
