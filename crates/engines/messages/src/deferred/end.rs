// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ends of works: the NIC's events, restarted commands, and completions.

use libc::iovec;
use selvedge_host::StartError;
use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{Event, Posted as Linked, event_kind, fail, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use super::{Parts, TRYING_MAX, Works};
use crate::bindings::Side;
use crate::complete::outcome_of;
use crate::completion::Completion;
use crate::error::Fault;
use crate::flags::{ADDR_ANY, REMOTE_CQ_DATA};
use crate::in_flight::InFlight;
use crate::message::stays_here;
use crate::operation::Operation;
use crate::operations::Operations;
use crate::own_nic::OwnNic;
use crate::pieces::{scatter, total};
use crate::posted::{Arrived, Fetch, FetchEnd};
use crate::ticket::{Kind, PORTAL_TOKEN};
use crate::work::{Counted, Deferred, Role};

impl Works {
    /// Whether an event belongs to a deferred work.
    #[inline(always)]
    pub fn owns_event(&self, operations: &Operations, event: &Event) -> bool {
        self.awaited != 0
            && event.kind != event_kind::PT_DISABLED
            && matches!(operations.get(event.user_ptr as usize), Some(Operation::Deferred(_)))
    }

    /// Handles an event of a work.
    pub fn take_event(&mut self, parts: &mut Parts<'_>, event: &Event) {
        let number = event.user_ptr as usize;
        let Some(work) = parts.flight.operations.work(number) else { return };
        if event.kind == event_kind::ACK && std::mem::take(&mut work.trying) {
            self.trying -= 1;
        }
        match &mut work.role {
            Role::Transfer { .. } => self.transfer_answered(parts.flight, number, event),
            Role::Send { command, waits, fetched } => match event.kind {
                event_kind::GET => {
                    *fetched = true;
                    if *waits {
                        self.end(parts.flight, number, Ok(()));
                    }
                }
                _ if event.fail == fail::OK && stays_here(command, event.list) => {
                    *waits = true;
                    if *fetched {
                        self.end(parts.flight, number, Ok(()));
                    }
                }
                _ if event.fail == fail::PT_DISABLED => {
                    let command = *command;
                    self.again.push_back((number, command));
                }
                _ if event.fail == fail::OK || *fetched => self.end(parts.flight, number, Ok(())),
                _ => self.end(parts.flight, number, outcome_of(event.fail, Fault::Unreachable)),
            },
            Role::Receive { message, .. } => match event.kind {
                event_kind::PUT => {
                    let outcome = if event.fail == fail::OK { Ok(()) } else { Err(Fault::NotMapped) };
                    self.end_receive(parts.flight, number, &Arrived::of_event(event), (outcome, true));
                }
                event_kind::REPLY => {
                    let Some(message) = message.take() else { return };
                    let outcome = outcome_of(event.fail, Fault::PeerGone);
                    self.end_receive(parts.flight, number, &message, (outcome, true));
                }
                event_kind::SEARCH => self.take_over_receive(parts, number),
                _ => {}
            },
        }
    }

    /// Handles the reply to a command of a read, write or atomic.
    fn transfer_answered(&mut self, flight: &mut InFlight, number: usize, event: &Event) {
        let InFlight { nic, operations, .. } = flight;
        let Some(work) = operations.work(number) else { return };
        let Role::Transfer { note } = &mut work.role else { return };
        let of_note = note.as_ref().is_some_and(|note| note.portal == event.portal);
        if of_note && event.fail == fail::PT_DISABLED {
            let command = *note;
            self.again.extend(command.map(|command| (number, command)));
            return;
        }
        work.left -= 1;
        if event.fail != fail::OK && !of_note {
            if work.error.is_none() {
                work.error = nic.region_outcome(work.target, event.match_bits, event.fail).err();
            }
            // The target's program gets no notification of a failed write.
            if note.take().is_some() {
                work.left -= 1;
            }
        }
        if work.left == 0 {
            let outcome = work.error.map_or(Ok(()), Err);
            self.end(flight, number, outcome);
        }
    }

    /// Ends a work that sends, reads or writes.
    fn end(&mut self, flight: &mut InFlight, number: usize, outcome: Result<(), Fault>) {
        let Some(work) = flight.operations.work(number) else { return };
        let counted = match work.counted {
            Counted::Always => true,
            Counted::Successes => outcome.is_ok(),
            Counted::From(least) => outcome.is_ok() && flight.nic.counted(work.hidden).0 >= least,
        };
        let Some(work) = self.release(flight, number) else { return };
        let report = Report { side: Side::Transmit, entry: work.ticket.completion(), source: ADDR_ANY, missing: 0 };
        report_end(&flight.nic, &work, report, outcome, counted);
    }

    /// Ends a receive. `counted`: the NIC has counted it, as a failure if it could not write.
    pub fn end_receive(
        &mut self,
        flight: &mut InFlight,
        number: usize,
        message: &Arrived,
        (outcome, counted): (Result<(), Fault>, bool),
    ) {
        let Some(work) = self.release(flight, number) else { return };
        let Role::Receive { kind, pieces, .. } = &work.role else { return };
        let room = total(pieces);
        let lacking = (message.length as usize).saturating_sub(room);
        let entry = Completion {
            context: work.ticket.context,
            flags: work.ticket.flags | if message.data.is_some() { REMOTE_CQ_DATA } else { 0 },
            length: (message.length as usize).min(room),
            buffer: pieces.first().map_or(std::ptr::null_mut(), |piece| piece.iov_base),
            data: message.data.unwrap_or(0),
            tag: if *kind == Kind::Tagged { message.tag } else { 0 },
        };
        // SAFETY: an endpoint outlives its works (`Works::forget_endpoint`). The core is borrowed, so this thread holds the
        // domain's lock, and no other thread changes the endpoint.
        let names = unsafe { (*work.ticket.bindings).names_sources };
        let source = if names { flight.peers.source_name(message.source) } else { ADDR_ANY };
        let (mut outcome, mut missing) = (outcome, 0);
        if outcome.is_ok() && lacking != 0 {
            (outcome, missing) = (Err(Fault::Truncated), lacking);
            if counted {
                // The NIC counted a success. One success becomes one failure, so the sum stays.
                let (success, failure) = flight.nic.counted(work.counter);
                flight.nic.set_count(work.counter, success.wrapping_sub(1), failure.wrapping_add(1));
            }
        }
        report_end(&flight.nic, &work, Report { side: Side::Receive, entry, source, missing }, outcome, counted);
    }

    /// Takes over a receive whose message is there, but which the process that started it could not fill.
    fn take_over_receive(&mut self, parts: &mut Parts<'_>, number: usize) {
        let flight = &mut *parts.flight;
        let Some(work) = flight.operations.work(number) else { return };
        let Role::Receive { kind, pieces, spec, .. } = &work.role else { return };
        // SAFETY: an endpoint outlives its works (`Works::forget_endpoint`). The core is borrowed, so this thread holds the
        // domain's lock, and no other thread changes the endpoint.
        let portal = kind.portal(unsafe { (*work.ticket.bindings).index });
        let (pieces, spec) = (pieces.clone(), *spec);
        let no_message = Arrived::new(spec.match_bits, None, 0, 0);
        let Some(spec) = flight.nic.with_vector(spec, &pieces) else {
            return self.end_receive(flight, number, &no_message, (Err(Fault::TablesFull), false));
        };
        let mut nic = flight.nic.interface.lock();
        let posted = nic.with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
        if !matches!(posted, Ok(Linked::Linked(_))) {
            nic.heap().free_iov(spec.iov);
        }
        let found = match posted {
            // Another receive has taken the message meanwhile.
            Ok(Linked::Linked(entry)) => {
                drop(nic);
                flight.polling.expects_messages();
                if let Some(work) = flight.operations.work(number) {
                    work.entry = Some(entry);
                }
                return;
            }
            Ok(Linked::Matched(found)) => found,
            Err(_) => {
                drop(nic);
                return self.end_receive(flight, number, &no_message, (Err(Fault::TablesFull), false));
            }
        };
        let Some(header) = nic.unexpected(found).copied() else { return };
        let data = (header.uid & 1 != 0).then_some(header.header_data);
        let arrived = Arrived::new(header.match_bits, data, header.source, header.rlength);
        if header.token == 0 {
            let bytes = (header.mlength as usize).min(total(&pieces));
            // SAFETY: the payload is in our buffer until the header is dropped. The program's pieces are writable.
            unsafe { scatter(header.start as *const u8, bytes, &pieces) };
            nic.receives().drop_unexpected(found);
            drop(nic);
            return self.end_receive(flight, number, &arrived, (Ok(()), false));
        }
        nic.receives().drop_unexpected(found);
        drop(nic);
        self.fetch_payload(parts, number, &pieces, Arrived { token: header.token, ..arrived });
    }

    /// Fetches the payload of a message that waits at its sender. The reply counts at the counter.
    fn fetch_payload(&mut self, parts: &mut Parts<'_>, number: usize, pieces: &[iovec], arrived: Arrived) {
        let Parts { flight, units } = parts;
        let (sender, token, room) = (arrived.source >> 8, arrived.token, total(pieces));
        if let Some(units) = units {
            if let Some(payload) = units.fetches.take_payload(sender, token) {
                let fetch = Fetch::into_own_memory(FetchEnd::Deferred(number), arrived, room, pieces);
                let length = fetch.length();
                let fetch = flight.operations.insert(Operation::Fetch(Box::new(fetch)));
                if let Some(failed) = units.fetch(flight, fetch, (sender, payload, length)) {
                    self.end_fetch(flight, fetch, failed);
                }
                return;
            }
        }
        let Some(memory) = flight.memory_of_work(number, pieces) else {
            return self.end_receive(flight, number, &arrived, (Err(Fault::TablesFull), false));
        };
        let Some(work) = flight.operations.work(number) else { return };
        let Role::Receive { message, .. } = &mut work.role else { return };
        *message = Some(arrived);
        let counter = work.counter;
        let command = Command {
            request: Request {
                kind: kind::GET,
                portal: PORTAL_TOKEN,
                initiator: flight.nic.interface.id() << 8,
                match_bits: token.into(),
                length: arrived.length.min(room as u64),
                ..Request::default()
            },
            target: sender,
            user_ptr: number as u64,
            source: Memory::NOWHERE,
            sink: Memory { options: options::MD_EVENT_CT_REPLY, queue: flight.nic.own_queue, counter, ..memory },
        };
        let fault = match flight.nic.interface.start(&command) {
            Ok(()) => return,
            Err(StartError::Memory) => Fault::NotMapped,
            Err(StartError::NoSpace) => Fault::PeerGone,
            Err(StartError::Shortage) => Fault::NoMemory,
        };
        self.end_receive(flight, number, &arrived, (Err(fault), false));
    }

    fn end_fetch(&mut self, flight: &mut InFlight, number: usize, failed: u8) {
        if let Some(fetch) = flight.operations.take_fetch(number) {
            self.end_fetched_receive(flight, &fetch, failed);
        }
    }

    /// Ends the receive of a fetched payload.
    pub fn end_fetched_receive(&mut self, flight: &mut InFlight, fetch: &Fetch, failed: u8) {
        let FetchEnd::Deferred(number) = fetch.ends else { return };
        let outcome = fetch.outcome(failed);
        self.end_receive(flight, number, &fetch.landing.message, (outcome, false));
    }

    /// Restarts refused commands as triggered operations whose threshold is already reached, so that they fire at once.
    pub fn start_again(&mut self, flight: &mut InFlight) {
        let InFlight { nic: own, operations, .. } = flight;
        let fired = {
            let mut nic = own.interface.lock();
            if self.ready.is_none() {
                self.ready = nic.counters().alloc().ok();
            }
            let Some(ready) = self.ready else { return };
            while self.trying < TRYING_MAX {
                let Some((number, command)) = self.again.pop_front() else { break };
                let Some(work) = operations.work(number) else { continue };
                if nic.with_revocation(|nic| nic.triggered().arm(ready, 0, Action::Command(&command))).is_err() {
                    self.again.push_front((number, command));
                    break;
                }
                work.trying = true;
                self.trying += 1;
            }
            nic.has_fired()
        };
        own.interface.settle(fired);
    }

    /// Fails the sends whose header is at a process that has ended.
    pub fn fail_lost(&mut self, flight: &mut InFlight) {
        if self.awaited == 0 {
            return;
        }
        let interface = &flight.nic.interface;
        let is_lost = |work: &Deferred| {
            matches!(work.role, Role::Send { waits: true, fetched: false, .. })
                && !interface.check_alive(work.target.0, work.target.1)
        };
        let works = flight.operations.all_works().filter(|(_, work)| is_lost(work));
        let lost: Vec<usize> = works.map(|(number, _)| number).collect();
        for number in lost {
            self.end(flight, number, Err(Fault::PeerGone));
        }
    }
}

struct Report {
    side: Side,
    entry: Completion,
    source: u64,
    /// The number of bytes that did not fit.
    missing: usize,
}

/// Counts the end of a work unless the NIC has, and writes the completion if one is wanted.
fn report_end(nic: &OwnNic, work: &Deferred, report: Report, outcome: Result<(), Fault>, counted: bool) {
    let failed = u64::from(outcome.is_err());
    if !counted && work.counter != NONE {
        nic.count(work.counter, 1 - failed, failed);
    }
    if !work.ticket.wanted {
        return;
    }
    // SAFETY: endpoints, and the queues and counters bound to them, outlive their works (`Works::forget_endpoint`).
    let counter = unsafe { (*work.ticket.bindings).counter_for(work.ticket.flags) };
    if counter != NONE && counter != work.counter {
        nic.count(counter, 1 - failed, failed);
    }
    let Report { side, entry, source, missing } = report;
    match outcome {
        Ok(()) => nic.complete_uncounted(&work.ticket, side, entry, source),
        Err(fault) => nic.fail_uncounted(&work.ticket, side, entry, missing, fault),
    }
}
