// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The units of a NIC, side by side as on EXTOLL's crossbar (seed 002, figure 7-1), and the dispatch of commands to
//! them.
//!
//! | commands | unit |
//! |---|---|
//! | [`kind::PUT`] to [`kind::SWAP`] | [`crate::portals`] |
//! | [`kind::VELO_SEND`] | [`crate::velo`] |
//! | [`kind::RMA_PUT`] to [`kind::RMA_IMMEDIATE_PUT`] | [`crate::rma`] |
//! | [`kind::AGGREGATION_RESULT`], [`kind::AGGREGATION_DOWN`] | [`crate::aggregation`]: the member |
//!
//! A home carries commands of all kinds alike, and calls the methods below: [`Nic::deliver`] at the target, then
//! [`Nic::complete_send`] and [`Nic::complete_response`] at the initiator. All other operations are methods of the
//! NIC's parts, which the accessors return: `nic.counters().alloc()`. An accessor compiles to nothing.

use crate::aggregation::Member;
use crate::atu::Atu;
use crate::buddy::Buddy;
use crate::bus::Bus;
use crate::handle::NONE;
use crate::limits::Limits;
use crate::nic::Nic;
use crate::pending::{PendingRequests, PendingRequestsMut};
use crate::portals::constants::{ack, options};
use crate::portals::counters::Counters;
use crate::portals::deliver::Target;
use crate::portals::delivery::{Delivery, Verdict};
use crate::portals::descriptors::Descriptors;
use crate::portals::event_queue::EventQueues;
use crate::portals::grants::Grants;
use crate::portals::heap::Heap;
use crate::portals::lists::Lists;
use crate::portals::matching::MatchQueue;
use crate::portals::portal_table::PortalTable;
use crate::portals::receive::Receives;
use crate::portals::recover::Recovery;
use crate::portals::respond::Initiator;
use crate::portals::triggered::TriggeredOperations;
use crate::rma::{Locks, Notifications, Rma};
use crate::tables::{Bucket, Command, PortalEntry, Request, Tables, kind, slot, triggered};
use crate::tap::Transition;
use crate::velo::{Ports, Velo};

impl Request {
    /// Whether the request is one of the Portals unit.
    #[inline(always)]
    pub fn is_portals(&self) -> bool {
        self.kind <= kind::SWAP
    }

    /// Whether the request is one of the aggregation unit.
    #[inline(always)]
    pub fn is_aggregation(&self) -> bool {
        matches!(self.kind, kind::AGGREGATION_REQUEST..=kind::AGGREGATION_DOWN)
    }

    /// Whether the request is one of the RMA unit.
    #[inline(always)]
    pub fn is_rma(&self) -> bool {
        matches!(self.kind, kind::RMA_PUT..=kind::RMA_IMMEDIATE_PUT)
    }
}

impl Command {
    /// Whether the initiator must record the end of this operation at all.
    #[inline]
    pub fn reports_to_initiator(&self) -> bool {
        let source = self.source.queue != NONE || self.source.counter != NONE;
        let sink = self.sink.queue != NONE || self.sink.counter != NONE;
        source || sink || self.is_rma()
    }

    /// Whether [`Nic::complete_send`] or [`Nic::complete_response`] change the initiator's NIC for this outcome. If
    /// not, its lock is not needed.
    #[inline]
    pub fn reports(&self, delivery: &Delivery) -> bool {
        if !self.is_rma() {
            return self.reports_to_initiator();
        }
        let has_response = matches!(self.kind, kind::RMA_GET | kind::RMA_LOCK);
        has_response || delivery.fail != crate::portals::fail::OK || self.reports_send()
    }

    /// Whether [`Nic::complete_send`] changes the initiator's NIC. If not, its waiters need no wake-up.
    pub fn reports_send(&self) -> bool {
        if self.is_rma() {
            return self.has_payload() && self.operation & crate::rma::spec::REQUESTER != 0;
        }
        let side = &self.source;
        let posts = side.queue != NONE && side.options & options::MD_EVENT_SEND_DISABLE == 0;
        let counts = side.counter != NONE && side.options & options::MD_EVENT_CT_SEND != 0;
        self.has_payload() && (posts || counts)
    }

    /// Whether the initiator needs the target's response: for a reply, for a requested acknowledgement, or to report an
    /// error.
    #[inline]
    pub fn wants_response(&self) -> bool {
        self.has_reply() || self.is_rma() || self.ack != ack::NONE
    }

    /// Whether the target sends a response to this command with this outcome.
    pub fn is_answered(&self, delivery: &Delivery) -> bool {
        if self.is_rma() {
            let answers = matches!(self.kind, kind::RMA_GET | kind::RMA_LOCK);
            return answers || delivery.fail != crate::portals::fail::OK;
        }
        self.wants_response() && (self.has_reply() || !delivery.ack_disabled)
    }
}

/// A delivery in the form for the tap, if it has happened.
fn shown(request: &Request, verdict: &Verdict) -> Option<Transition> {
    match verdict {
        Verdict::Done(delivery) if request.is_portals() => {
            Some(Transition::Deliver { request: *request, delivery: *delivery })
        }
        _ => None,
    }
}

/// The parts of a NIC, each with its own operations.
impl<'a> Nic<'a> {
    /// The VELO unit.
    #[inline(always)]
    pub fn velo(&mut self) -> Velo<'_, 'a> {
        let Tables { ports, velo_bytes, blocked, .. } = &mut self.tables;
        Velo { ports, blocked: blocked.as_deref_mut(), message_bytes_max: *velo_bytes, signals: &self.signals }
    }

    /// The RMA unit.
    #[inline(always)]
    pub fn rma(&mut self) -> Rma<'_, 'a> {
        Rma { tables: &mut self.tables, signals: &self.signals }
    }

    /// The locks of the RMA unit.
    #[inline(always)]
    pub fn locks(&mut self) -> Locks<'_, 'a> {
        Locks::of(&mut self.tables, &self.signals)
    }

    /// The notification queues of the RMA unit.
    #[inline(always)]
    pub fn notifications(&mut self) -> Notifications<'_, 'a> {
        Notifications { ports: self.tables.ports, signals: &self.signals }
    }

    /// The ports of the VELO and RMA units.
    #[inline(always)]
    pub fn ports(&mut self) -> Ports<'_, 'a> {
        Ports { tables: &mut self.tables, signals: &self.signals }
    }

    /// The address translation unit.
    #[inline(always)]
    pub fn atu(&mut self) -> Atu<'_> {
        Atu::of(&mut self.tables, &self.signals)
    }

    /// The target's side of the Portals unit.
    #[inline(always)]
    pub fn target(&mut self) -> Target<'_, 'a> {
        Target { nic: self }
    }

    #[inline(always)]
    pub(crate) fn initiator(&mut self) -> Initiator<'_, 'a> {
        Initiator { nic: self }
    }

    /// The match queue of the Portals unit.
    #[inline(always)]
    pub fn match_queue(&mut self) -> MatchQueue<'_, 'a> {
        MatchQueue { tables: &mut self.tables, registers: self.signals.registers }
    }

    /// The lists of the portal table.
    #[inline(always)]
    pub fn lists(&mut self) -> Lists<'_, 'a> {
        Lists { nic: self }
    }

    /// The receives of an owner that takes its messages itself.
    #[inline(always)]
    pub fn receives(&mut self) -> Receives<'_, 'a> {
        Receives { nic: self }
    }

    /// The portal table.
    #[inline(always)]
    pub fn portal_table(&mut self) -> PortalTable<'_, 'a> {
        PortalTable { nic: self }
    }

    /// The event queues.
    #[inline(always)]
    pub fn queues(&mut self) -> EventQueues<'_, 'a> {
        EventQueues { nic: self }
    }

    /// The counters.
    #[inline(always)]
    pub fn counters(&mut self) -> Counters<'_, 'a> {
        Counters { nic: self }
    }

    /// The triggered operations.
    #[inline(always)]
    pub fn triggered(&mut self) -> TriggeredOperations<'_, 'a> {
        TriggeredOperations { nic: self }
    }

    /// The grants.
    #[inline(always)]
    pub fn grants(&mut self) -> Grants<'_, 'a> {
        Grants { nic: self }
    }

    /// The memory descriptors.
    #[inline(always)]
    pub fn descriptors(&mut self) -> Descriptors<'_, 'a> {
        Descriptors { nic: self }
    }

    /// The heap.
    #[inline(always)]
    pub fn heap(&mut self) -> Heap<'_> {
        Heap { map: self.tables.heap_map, words: self.signals.heap }
    }

    /// The commands that wait for a response.
    #[inline(always)]
    pub fn pending(&self) -> PendingRequests<'_> {
        PendingRequests { records: self.tables.pending }
    }

    /// The commands that wait for a response, to add and to take.
    #[inline(always)]
    pub fn pending_mut(&mut self) -> PendingRequestsMut<'_> {
        let Tables { control, pending, .. } = &mut self.tables;
        PendingRequestsMut { records: pending, free: &mut control.free_pending }
    }

    /// The process's memberships in aggregation groups.
    pub fn member(&mut self) -> Member<'_> {
        Member { memberships: self.tables.memberships, started: self.tables.started }
    }
}

impl Nic<'_> {
    /// Whether the home must run something: [`TriggeredOperations::next_fired`], [`Locks::next_answer`].
    #[inline(always)]
    pub fn has_fired(&self) -> bool {
        self.tables.control.has_fired()
    }

    /// Makes a NIC from zeroed memory. Its free lists hold all records then, so it touches none of them.
    pub fn format(&mut self, limits: &Limits) {
        self.signals.registers.format();
        let tables = &mut self.tables;
        Buddy::init(tables.heap_map, limits.heap_blocks_max, limits.heap_blocks);
        tables.entry_buckets.fill(Bucket::EMPTY);
        tables.header_buckets.fill(Bucket::EMPTY);
        for entry in tables.portals.iter_mut() {
            *entry = PortalEntry::EMPTY;
        }
        let control = &mut *tables.control;
        (control.fire_head, control.fire_tail) = (NONE, NONE);
    }

    /// Handles a request in any process of the job.
    #[inline]
    pub fn deliver<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        if self.tap.is_open() {
            return self.tapped(|nic| nic.deliver_now(bus, request), |verdict| shown(request, verdict));
        }
        self.deliver_now(bus, request)
    }

    #[inline(always)]
    fn deliver_now<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        match request.is_portals() {
            true => self.target().deliver(bus, request),
            false => self.deliver_to_unit(bus, request),
        }
    }

    /// [`Nic::deliver`] for the NIC's owner.
    #[inline]
    pub fn deliver_own<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        if self.tap.is_open() {
            return self.tapped(|nic| nic.deliver_own_now(bus, request), |verdict| shown(request, verdict));
        }
        self.deliver_own_now(bus, request)
    }

    #[inline(always)]
    fn deliver_own_now<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        match request.is_portals() {
            true => self.target().deliver_own(bus, request),
            false => self.deliver_to_unit(bus, request),
        }
    }

    fn member_receive<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        Verdict::Done(match self.member().receive(bus, request) {
            Ok(()) => Delivery { mlength: request.length, ..Delivery::default() },
            Err(_) => Delivery::failed(crate::portals::fail::DROPPED),
        })
    }

    #[inline(never)]
    fn deliver_to_unit<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        match request.kind {
            kind::VELO_SEND => self.velo().deliver(bus, request),
            kind::RMA_PUT..=kind::RMA_IMMEDIATE_PUT => self.rma().receive(bus, request),
            kind::AGGREGATION_RESULT | kind::AGGREGATION_DOWN => self.member_receive(bus, request),
            _ => Verdict::Done(Delivery::failed(crate::portals::fail::DROPPED)),
        }
    }

    /// Reports that the payload has been read, or, with a failure, will never be read.
    #[inline]
    pub fn complete_send(&mut self, command: &Command, fail: u8) {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.complete_send_now(command, fail),
                |()| command.is_portals().then_some(Transition::Send { command: *command, fail }),
            );
        }
        self.complete_send_now(command, fail);
    }

    #[inline(always)]
    fn complete_send_now(&mut self, command: &Command, fail: u8) {
        if command.is_portals() {
            self.initiator().complete_send(command, fail);
        } else if command.is_rma() {
            self.rma().complete_send(command, fail);
        }
    }

    /// Reports the outcome at the target.
    #[inline]
    pub fn complete_response(&mut self, command: &Command, delivery: &Delivery) {
        if self.tap.is_open() {
            return self.tapped(
                |nic| nic.complete_response_now(command, delivery),
                |()| command.is_portals().then_some(Transition::Response { command: *command, delivery: *delivery }),
            );
        }
        self.complete_response_now(command, delivery);
    }

    #[inline(always)]
    fn complete_response_now(&mut self, command: &Command, delivery: &Delivery) {
        if command.is_portals() {
            self.initiator().complete_response(command, delivery);
        } else if command.is_rma() {
            self.rma().complete_response(command, delivery);
        }
    }

    /// Whether the reply to a command may still be written to the initiator's memory. `bus` reaches that memory.
    #[inline]
    pub fn admits_reply<B: Bus>(&mut self, bus: &mut B, command: &Command) -> bool {
        !command.is_rma() || self.rma().admits_reply(bus, command)
    }

    /// Fails the triggered operations whose executor has died. Each operation runs at most once, so recovery never runs
    /// one again; only operations on counters and entries are repeated, which is harmless. The caller may die, too: the
    /// next one finds what this one has reported.
    pub fn fail_orphans<B: Bus>(&mut self, bus: &mut B, mut alive: impl FnMut(u64) -> bool) {
        for index in 0..self.tables.triggered.len() {
            let record = self.tables.triggered[index];
            if slot::status(record.slot) != triggered::FIRING || alive(record.executor) {
                continue;
            }
            if TriggeredOperations::is_local(record.command.kind) {
                self.triggered().run_local(bus, index as u32);
            } else {
                let (sent, responded) = self.triggered().reported(&record);
                if !sent {
                    self.triggered().begin_report(index as u32, &record.command, false);
                    self.complete_send(&record.command, crate::portals::fail::UNDELIVERABLE);
                }
                if record.command.wants_response() && !responded {
                    self.triggered().begin_report(index as u32, &record.command, true);
                    self.complete_response(&record.command, &Delivery::failed(crate::portals::fail::UNDELIVERABLE));
                }
            }
            self.triggered().finish_fired(index as u32);
        }
    }

    /// Recovers the tables. The caller holds the lock that the dead process held. `alive` tells whether a process still
    /// runs, by the home's identifier.
    pub fn recover<B: Bus>(&mut self, bus: &mut B, mut alive: impl FnMut(u64) -> bool) {
        self.signals.registers.add(crate::Register::Recoveries, 1);
        // An entry of the TLB is two words, and a dead process may have written only one.
        self.tables.tlb.fill(crate::tables::TlbEntry::default());
        self.velo().recover();
        self.notifications().recover();
        Recovery { nic: self }.run(&mut alive);
        self.fail_orphans(bus, &mut alive);
        self.locks().recover(bus, alive);
    }
}
