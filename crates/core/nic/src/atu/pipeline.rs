// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The microarchitecture of the ATU as a value (seed 002, section 5.4, figure 5-12): for simulation, and for lockstep
//! with hardware.
//!
//! ```text
//!  requests ─> request FIFO ─> requester ─> reorder buffer ─> responder ─> responses, flush requests
//!                              │ TLB          ^
//!                              └ table reads ─┘ in any order
//! ```
//!
//! # Contract
//!
//! * In: requests ([`Pipeline::submit`]), words that were read ([`Pipeline::table_read_done`]), answers to flushes
//!   ([`Pipeline::flush_answered`]). They may come at any time between two steps.
//! * Out: at most one [`Output`] for each step. [`Pipeline::step`] moves the first block that can move: responder, then
//!   completion, then requester. Hardware moves them all at once, so a lockstep calls each block itself.
//! * A table read is answered once, under its tag. The tag is free again when its response has left.
//!
//! # Invariants
//!
//! 1. Responses leave in the order of their requests. A flush reaches the units behind the responses to all requests
//!    before it. So a unit that is asked to discard a page has got every earlier translation.
//! 2. The TLB is filled in the order of requests, when their responses leave. So an entry that was read earlier never
//!    replaces one that was read later.
//! 3. When the requester takes a flush of the TLB, the table reads in flight of its pages may carry the old entry. They
//!    answer their requests, but are not put into the TLB. So a request behind the flush never gets the old entry.
//! 4. A response never waits for a unit: each flush and fence has a place in the list of pending ones from its
//!    submission. So a unit that needs translations before it answers gets them.
//! 5. Flushes and fences complete in the order of their submission. A fence completes when all requests before it are
//!    answered and all flushes before it are complete.
//! 6. A full queue refuses a request and changes nothing.
//!
//! Cost: O(1) a step; O(REORDER) for a flush; O(PENDING) for an answer. Less than 4 KiB with the default sizes.

use super::ats::{FlushRequest, FlushResponse, TranslationRequest, TranslationResponse};
use super::entry::{AddressEntry, TranslationFault};
use super::flush::{Flush, FlushMode, NotAwaited, Unit, Units};
use super::lookup::Atu;
use super::nla::NlaPage;
use super::queue::Queue;
use crate::bus::{Bus, Step};
use crate::errors::Full;
use crate::registers::Register;

/// A request to the ATU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// From a unit.
    Translation(TranslationRequest),
    /// From the driver, after it has changed the tables.
    Flush { request: FlushRequest, mode: FlushMode },
    /// From the driver, to be informed when all requests before this one are done.
    Fence { tag: u16 },
}

/// A message that a block sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// To memory: read the entry of a page.
    TableRead { tag: u16, page: NlaPage },
    /// To a unit: the answer to its request.
    Response(TranslationResponse),
    /// To a unit: discard these pages.
    Flush { unit: Unit, request: FlushRequest },
    /// To the driver: a flush or a fence is complete.
    Done { tag: u16 },
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The block waits for input or for room. The state is unchanged.
    Idle,
    /// The block moved, and sent nothing.
    Moved,
    Sent(Output),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Slot {
    /// A translation whose answer is known.
    Answered(TranslationResponse),
    /// A translation whose entry is being read, or was read. `cache`: the TLB may store the entry.
    Reading {
        request: TranslationRequest,
        cache: bool,
    },
    Read {
        request: TranslationRequest,
        word: u64,
        cache: bool,
    },
    /// A flush with units still to ask.
    Flush {
        request: FlushRequest,
        flush: Flush,
    },
    Fence,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pending {
    tag: u16,
    /// The responder has passed it.
    passed: bool,
    /// The answers that a flush waits for, once units are asked.
    flush: Option<Flush>,
    asked: Units,
}

/// The ATU, with at most `FIFO` requests waiting, `REORDER` in progress, and `PENDING` incomplete flushes and fences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pipeline<const FIFO: usize = 64, const REORDER: usize = 32, const PENDING: usize = 16> {
    requests: Queue<Request, FIFO>,
    reorder: Queue<Slot, REORDER>,
    pending: Queue<Pending, PENDING>,
}

impl<const FIFO: usize, const REORDER: usize, const PENDING: usize> Pipeline<FIFO, REORDER, PENDING> {
    /// Makes an empty pipeline.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a request into the request FIFO.
    pub fn submit(&mut self, request: Request) -> Result<(), Full> {
        if self.requests.is_full() {
            return Err(Full);
        }
        if let Request::Flush { request: FlushRequest { tag, .. }, .. } | Request::Fence { tag } = request {
            self.pending.push(Pending { tag, passed: false, flush: None, asked: Units::default() })?;
        }
        self.requests.push(request).map(|_| ())
    }

    /// Moves the first block that can move.
    pub fn step<B: Bus>(&mut self, atu: &mut Atu<'_>, bus: &mut B) -> Progress {
        match self.step_responder(atu) {
            Progress::Idle => {}
            progress => return progress,
        }
        match self.step_completion() {
            Progress::Idle => self.step_requester(atu, bus),
            progress => progress,
        }
    }

    /// The requester takes the request at the head of the FIFO, if the reorder buffer has room.
    pub fn step_requester<B: Bus>(&mut self, atu: &mut Atu<'_>, bus: &mut B) -> Progress {
        if self.reorder.is_full() {
            return Progress::Idle;
        }
        let Some(request) = self.requests.pop() else { return Progress::Idle };
        let slot = match request {
            Request::Translation(request) => self.look_up(atu, bus, request),
            Request::Flush { request, mode } => {
                let flush = atu.flush(request.target, mode);
                if mode != FlushMode::Units {
                    self.keep_out_of_tlb(&request);
                }
                Slot::Flush { request, flush }
            }
            Request::Fence { .. } => Slot::Fence,
        };
        let read = if let Slot::Reading { request, .. } = &slot { Some(request.page) } else { None };
        match (self.reorder.push(slot), read) {
            (Ok(tag), Some(page)) => Progress::Sent(Output::TableRead { tag, page }),
            _ => Progress::Moved,
        }
    }

    /// Delivers the word of a table read.
    pub fn table_read_done(&mut self, tag: u16, word: u64) -> Result<(), NotAwaited> {
        let slot = self.reorder.at_mut(tag).ok_or(NotAwaited)?;
        let Slot::Reading { request, cache } = *slot else { return Err(NotAwaited) };
        *slot = Slot::Read { request, word, cache };
        Ok(())
    }

    /// Sends the head of the reorder buffer.
    pub fn step_responder(&mut self, atu: &mut Atu<'_>) -> Progress {
        let sent = match self.reorder.front() {
            None | Some(Slot::Reading { .. }) => return Progress::Idle,
            Some(&Slot::Answered(response)) => Progress::Sent(Output::Response(response)),
            Some(&Slot::Read { request, word, cache }) => {
                let entry = AddressEntry::from_bits(word);
                if cache {
                    atu.cache(request.page, entry);
                }
                Progress::Sent(Output::Response(respond(atu, &request, entry)))
            }
            Some(Slot::Flush { request, flush }) => {
                let pending = self.pending.iter_mut().find(|pending| !pending.passed);
                match pending.and_then(|pending| pending.ask_next(flush)) {
                    Some((unit, more)) => {
                        let sent = Progress::Sent(Output::Flush { unit, request: *request });
                        if more {
                            return sent;
                        }
                        sent
                    }
                    None => Progress::Moved,
                }
            }
            Some(Slot::Fence) => Progress::Moved,
        };
        if let Some(Slot::Flush { .. } | Slot::Fence) = self.reorder.pop() {
            if let Some(pending) = self.pending.iter_mut().find(|pending| !pending.passed) {
                pending.passed = true;
            }
        }
        sent
    }

    /// Delivers a unit's answer to a flush request. It is refused if the unit was not asked.
    pub fn flush_answered(&mut self, atu: &mut Atu<'_>, response: FlushResponse) -> Result<(), NotAwaited> {
        let asked = |pending: &&mut Pending| {
            let awaits = pending.flush.as_ref().is_some_and(|flush| flush.awaits(response.unit));
            awaits && pending.tag == response.tag && pending.asked.has(response.unit)
        };
        let pending = self.pending.iter_mut().find(asked).ok_or(NotAwaited)?;
        let flush = pending.flush.as_mut().ok_or(NotAwaited)?;
        atu.answer_flush(flush, response.unit).map(|_| ())
    }

    /// Reports the oldest flush or fence, if it is complete.
    pub fn step_completion(&mut self) -> Progress {
        let Some(pending) = self.pending.front() else { return Progress::Idle };
        if !pending.passed || pending.flush.as_ref().is_some_and(|flush| !flush.is_complete()) {
            return Progress::Idle;
        }
        let tag = pending.tag;
        self.pending.pop();
        Progress::Sent(Output::Done { tag })
    }

    /// Numbers of requests that wait and that are in progress, and of incomplete flushes and fences. For the lockstep.
    pub fn occupancy(&self) -> [usize; 3] {
        [self.requests.len(), self.reorder.len(), self.pending.len()]
    }

    /// Whether nothing is in progress.
    pub fn is_empty(&self) -> bool {
        self.occupancy() == [0; 3]
    }

    fn look_up<B: Bus>(&self, atu: &mut Atu<'_>, bus: &mut B, request: TranslationRequest) -> Slot {
        if !atu.has_page(request.page) {
            return Slot::Answered(respond(atu, &request, AddressEntry::INVALID));
        }
        match atu.tlb_entry(request.page) {
            Some(entry) => {
                atu.registers.add(Register::TlbHits, 1);
                bus.charge(Step::TlbHit);
                Slot::Answered(respond(atu, &request, entry))
            }
            None => {
                atu.registers.add(Register::TlbMisses, 1);
                bus.charge(Step::AddressTableRead);
                Slot::Reading { request, cache: true }
            }
        }
    }

    /// Marks the table reads in flight that may have read an entry that the flush removes: the TLB must not store it.
    fn keep_out_of_tlb(&mut self, flush: &FlushRequest) {
        for slot in self.reorder.iter_mut() {
            if let Slot::Reading { request, cache } | Slot::Read { request, cache, .. } = slot {
                *cache &= !flush.target.may_include(request.page);
            }
        }
    }
}

impl Pending {
    /// Asks the next unit of a flush. Returns the unit, and whether there are more. None: there is no unit to ask.
    fn ask_next(&mut self, flush: &Flush) -> Option<(Unit, bool)> {
        let mut units = Unit::ALL.into_iter().filter(|&unit| flush.awaits(unit) && !self.asked.has(unit));
        let (unit, more) = (units.next()?, units.next().is_some());
        self.flush.get_or_insert(flush.clone());
        self.asked.add(unit);
        Some((unit, more))
    }
}

const _: () = assert!(size_of::<Pipeline>() < 4096);

fn respond(atu: &mut Atu<'_>, request: &TranslationRequest, entry: AddressEntry) -> TranslationResponse {
    let result: Result<u64, TranslationFault> = entry.check(request.page, request.vpid, request.access);
    if result.is_err() {
        atu.count_fault();
    }
    TranslationResponse { unit: request.unit, tag: request.tag, result }
}
