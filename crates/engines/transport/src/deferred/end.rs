// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ends of works: the NIC's events, commands that are started again, and completions.

use std::ffi::c_int;

use libc::iovec;
use selvedge_host::StartError;
use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::triggered::Action;
use selvedge_nic::portals::{Event, Posted as Linked, event_kind, fail, options};
use selvedge_nic::tables::{Command, Request, Side as Memory, kind};

use crate::bindings::Side;
use crate::completion::Completion;
use crate::ends::error_of;
use crate::flags::*;
use crate::message::stays_here;
use crate::operation::Operation;
use crate::pieces::{scatter, total};
use crate::posted::{Arrived, FetchEnd};
use crate::ticket::{Kind, PORTAL_TOKEN, REGION_PORTALS};
use crate::transport::Transport;
use crate::work::{Counted, Deferred, Role, TRYING_MAX};

impl Transport {
    /// Whether an event belongs to a deferred work.
    #[inline(always)]
    pub(crate) fn is_deferred(&self, event: &Event) -> bool {
        self.works.awaited != 0
            && event.kind != event_kind::PT_DISABLED
            && matches!(self.operations.get(event.user_ptr as usize), Some(Operation::Deferred(_)))
    }

    /// Handles an event of a work.
    pub(crate) fn take_deferred(&mut self, event: &Event) {
        let number = event.user_ptr as usize;
        let Some(Operation::Deferred(work)) = self.operations.get_mut(number) else { return };
        if event.kind == event_kind::ACK && std::mem::take(&mut work.trying) {
            self.works.trying -= 1;
        }
        match &mut work.role {
            Role::Transfer { .. } => self.transfer_answered(number, event),
            Role::Send { command, waits, fetched } => match event.kind {
                event_kind::GET => {
                    *fetched = true;
                    if *waits {
                        self.end_work(number, 0);
                    }
                }
                _ if event.fail == fail::OK && stays_here(command, event.list) => {
                    *waits = true;
                    if *fetched {
                        self.end_work(number, 0);
                    }
                }
                _ if event.fail == fail::PT_DISABLED => {
                    let command = *command;
                    self.works.again.push_back((number, command));
                }
                _ if event.fail == fail::OK || *fetched => self.end_work(number, 0),
                _ => self.end_work(number, error_of(event.fail, EHOSTUNREACH)),
            },
            Role::Receive { message, .. } => match event.kind {
                event_kind::PUT => {
                    let error = if event.fail == fail::OK { 0 } else { EFAULT };
                    self.end_receive(number, &Arrived::of_event(event), error, true);
                }
                event_kind::REPLY => {
                    let Some(message) = message.take() else { return };
                    let error = error_of(event.fail, EHOSTDOWN);
                    self.end_receive(number, &message, error, true);
                }
                event_kind::SEARCH => self.take_over_receive(number),
                _ => {}
            },
        }
    }

    /// Handles the reply to a command of a read, write or atomic.
    fn transfer_answered(&mut self, number: usize, event: &Event) {
        let Some(Operation::Deferred(work)) = self.operations.get_mut(number) else { return };
        let Role::Transfer { note } = &mut work.role else { return };
        let of_note = note.as_ref().is_some_and(|note| note.portal == event.portal);
        if of_note && event.fail == fail::PT_DISABLED {
            let command = *note;
            self.works.again.extend(command.map(|command| (number, command)));
            return;
        }
        work.left -= 1;
        if event.fail != fail::OK && !of_note {
            if work.error == 0 {
                let (target, owner) = work.target;
                let portals = REGION_PORTALS;
                let known = event.fail == fail::DROPPED
                    && portals.iter().any(|&at| self.interface.has_entry(target, owner, at, event.match_bits));
                work.error = if known { EACCES } else { error_of(event.fail, ENOKEY) };
            }
            // The target's program gets no notification of a write that failed.
            if note.take().is_some() {
                work.left -= 1;
            }
        }
        if work.left == 0 {
            let error = work.error;
            self.end_work(number, error);
        }
    }

    /// Ends a work that sends, reads or writes.
    fn end_work(&mut self, number: usize, error: c_int) {
        let Some(Operation::Deferred(work)) = self.operations.get(number) else { return };
        let counted = match work.counted {
            Counted::Always => true,
            Counted::Successes => error == 0,
            Counted::From(least) => error == 0 && self.counted(work.hidden).0 >= least,
        };
        let Some(work) = self.release_work(number) else { return };
        let entry = work.ticket.completion();
        self.report_end(&work, Side::Transmit, entry, ADDR_ANY, (error, 0), counted);
    }

    /// Ends a receive. `counted`: the NIC has counted it, as a failure if it could not write.
    pub(crate) fn end_receive(&mut self, number: usize, message: &Arrived, error: c_int, counted: bool) {
        let Some(work) = self.release_work(number) else { return };
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
        // SAFETY: an endpoint outlives its works (`close_works`). The core is borrowed, so this thread holds the
        // domain's lock, and no other thread changes the endpoint.
        let names = unsafe { (*work.ticket.bindings).names_sources };
        let source = if names { self.peers.source_name(message.source) } else { ADDR_ANY };
        let mut outcome = (error, 0);
        if error == 0 && lacking != 0 {
            outcome = (ETRUNC, lacking);
            if counted {
                // The NIC counted a success. One success becomes one failure, so the sum stays.
                let (success, failure) = self.counted(work.counter);
                self.set_count(work.counter, success.wrapping_sub(1), failure.wrapping_add(1));
            }
        }
        self.report_end(&work, Side::Receive, entry, source, outcome, counted);
    }

    /// Counts the end of a work, unless the NIC has, and writes the completion if one is wanted.
    fn report_end(
        &self,
        work: &Deferred,
        side: Side,
        entry: Completion,
        source: u64,
        (error, lacking): (c_int, usize),
        counted: bool,
    ) {
        let failed = u64::from(error != 0);
        if !counted && work.counter != NONE {
            self.count(work.counter, 1 - failed, failed);
        }
        if !work.ticket.wanted {
            return;
        }
        // SAFETY: endpoints outlive their works (`close_works`), and so do the queues and counters that they are bound
        // to.
        unsafe {
            let bindings = &*work.ticket.bindings;
            let counter = bindings.counter_for(work.ticket.flags);
            if counter != NONE && counter != work.counter {
                self.count(counter, 1 - failed, failed);
            }
            let queue = bindings.queue(side);
            if error == 0 {
                self.complete_uncounted(&work.ticket, side, entry, source);
            } else if !queue.is_null() {
                (*queue).push_failure(entry, lacking, error);
            }
        }
    }

    /// Takes over a receive whose message is there, but which the process that started it could not fill.
    fn take_over_receive(&mut self, number: usize) {
        let Some(Operation::Deferred(work)) = self.operations.get(number) else { return };
        let Role::Receive { kind, pieces, spec, .. } = &work.role else { return };
        // SAFETY: an endpoint outlives its works (`close_works`). The core is borrowed, so this thread holds the
        // domain's lock, and no other thread changes the endpoint.
        let portal = kind.portal(unsafe { (*work.ticket.bindings).index });
        let (pieces, spec) = (pieces.clone(), *spec);
        let Some(spec) = self.with_vector(spec, &pieces) else {
            return self.end_receive(number, &Arrived::new(spec.match_bits, None, 0, 0), ENOSPC, false);
        };
        let mut nic = self.interface.lock();
        let posted = nic.with_revocation(|nic| nic.receives().post(&mut NoMemory, portal, &spec));
        if !matches!(posted, Ok(Linked::Linked(_))) {
            nic.heap().free_iov(spec.iov);
        }
        let found = match posted {
            // Another receive has taken the message meanwhile.
            Ok(Linked::Linked(entry)) => {
                drop(nic);
                self.polling.expects_messages();
                if let Some(Operation::Deferred(work)) = self.operations.get_mut(number) {
                    work.entry = Some(entry);
                }
                return;
            }
            Ok(Linked::Matched(found)) => found,
            Err(_) => {
                drop(nic);
                return self.end_receive(number, &Arrived::new(spec.match_bits, None, 0, 0), ENOSPC, false);
            }
        };
        let Some(header) = nic.unexpected(found).copied() else { return };
        let data = (header.uid & 1 != 0).then_some(header.header_data);
        let arrived = Arrived::new(header.match_bits, data, header.source, header.rlength);
        if header.token == 0 {
            let bytes = (header.mlength as usize).min(total(&pieces));
            // SAFETY: the payload is in one of our buffers until the header is dropped. The pieces are the program's
            // and writable.
            unsafe { scatter(header.start as *const u8, bytes, &pieces) };
            nic.receives().drop_unexpected(found);
            drop(nic);
            return self.end_receive(number, &arrived, 0, false);
        }
        nic.receives().drop_unexpected(found);
        drop(nic);
        self.fetch_deferred(number, &pieces, header.token, arrived);
    }

    /// Fetches the payload of a message that waits at its sender. The reply counts.
    fn fetch_deferred(&mut self, number: usize, pieces: &[iovec], token: u32, arrived: Arrived) {
        let sender = arrived.source >> 8;
        if let Some(payload) = self.units.as_mut().and_then(|units| units.take_payload(sender, token)) {
            return self.fetch_for(FetchEnd::Deferred(number), sender, payload, pieces, arrived);
        }
        let Some(memory) = self.memory(number, pieces) else {
            return self.end_receive(number, &arrived, ENOSPC, false);
        };
        let Some(Operation::Deferred(work)) = self.operations.get_mut(number) else { return };
        let Role::Receive { message, .. } = &mut work.role else { return };
        *message = Some(arrived);
        let command = Command {
            request: Request {
                kind: kind::GET,
                portal: PORTAL_TOKEN,
                initiator: self.interface.id() << 8,
                match_bits: token.into(),
                length: arrived.length.min(total(pieces) as u64),
                ..Request::default()
            },
            target: arrived.source >> 8,
            user_ptr: number as u64,
            source: Memory::NOWHERE,
            sink: Memory {
                options: options::MD_EVENT_CT_REPLY,
                queue: self.own_queue,
                counter: work.counter,
                ..memory
            },
        };
        match self.interface.start(&command) {
            Ok(()) => {}
            Err(StartError::Memory) => self.end_receive(number, &arrived, EFAULT, false),
            Err(StartError::NoSpace) => self.end_receive(number, &arrived, EHOSTDOWN, false),
        }
    }

    /// Starts refused commands again, as triggered operations whose threshold is already reached, so that they fire at
    /// once.
    pub(crate) fn start_again(&mut self) {
        let fired = {
            let mut nic = self.interface.lock();
            if self.works.ready.is_none() {
                self.works.ready = nic.counters().alloc().ok();
            }
            let Some(ready) = self.works.ready else { return };
            while self.works.trying < TRYING_MAX {
                let Some((number, command)) = self.works.again.pop_front() else { break };
                let Some(Operation::Deferred(work)) = self.operations.get_mut(number) else { continue };
                if nic.with_revocation(|nic| nic.triggered().arm(ready, 0, Action::Command(&command))).is_err() {
                    self.works.again.push_front((number, command));
                    break;
                }
                work.trying = true;
                self.works.trying += 1;
            }
            nic.has_fired()
        };
        self.interface.settle(fired);
    }

    /// Fails the sends whose header is with a process that has ended.
    pub(crate) fn fail_lost_works(&mut self) {
        if self.works.awaited == 0 {
            return;
        }
        let is_lost = |work: &Deferred| {
            matches!(work.role, Role::Send { waits: true, fetched: false, .. })
                && !self.interface.look_alive(work.target.0, work.target.1)
        };
        let lost: Vec<usize> = self
            .operations
            .iter()
            .filter_map(|(number, operation)| match operation {
                Operation::Deferred(work) if is_lost(work) => Some(number),
                _ => None,
            })
            .collect();
        for number in lost {
            self.end_work(number, EHOSTDOWN);
        }
    }
}
