// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress: polls of the rings, the event queues and the units, and the dispatch of events to the parts.
//!
//! Every read of a completion queue or counter polls first. A poll that finds nothing costs one load for each claimed
//! ring and one for each event queue.

use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{Event, event_kind, list};
use selvedge_os::{lines, ranks};

use super::Transport;
use crate::bindings::Side;
use crate::complete::outcome_of;
use crate::completion::{Completion, Reading};
use crate::deferred::Parts;
use crate::error::Fault;
use crate::flags::{ADDR_ANY, REMOTE_CQ_DATA, REMOTE_WRITE, RMA};
use crate::in_flight::InFlight;
use crate::own_nic::OwnNic;
use crate::pieces::scatter;
use crate::polling::{AfterUnlock, LOOKS_MAX, ReplyOutcome};
use crate::posted::{Arrived, FetchEnd, Placement, PlainUserPtr};
use crate::ticket::Ticket;

/// Calls linger only with at most this number of rings. A poll of more rings takes long enough without lingering.
const LINGERING_RINGS: u32 = 3;
/// Rounds that find messages in rings before a poll of everything else.
const RINGS_BEFORE_REST: u32 = 8;

/// Whether there are rings in this set, and few enough to poll all of them quickly.
#[inline(always)]
fn is_few(rings: u64) -> bool {
    rings != 0 && rings.count_ones() <= LINGERING_RINGS
}

impl Transport {
    /// Polls, and handles messages and events.
    #[inline]
    pub fn progress(&mut self) {
        self.progress_into(&mut Reading::none());
    }

    /// Polls for a program that reads completions and has none yet. This may linger for a message.
    #[inline(always)]
    pub fn progress_into(&mut self, reading: &mut Reading) {
        if self.flight.polling.skips_rings() {
            return self.poll_rest();
        }
        let is_first = std::mem::take(&mut self.flight.polling.sent);
        let (mut came, others) = self.take_own_first(reading);
        let wait = if is_first { self.flight.polling.first_look() } else { 0 };
        if wait != 0 && !came && is_few(others) {
            came = self.await_answer(wait, others, reading);
        } else {
            came |= self.take_rings(others, reading);
            if !came && self.flight.polling.lingers() {
                came = self.linger(others, reading);
            }
        }
        self.end_of_rings(came);
    }

    /// Polls for a program that already has some completions. This never lingers.
    #[inline(never)]
    pub fn progress_once_into(&mut self, reading: &mut Reading) {
        if self.flight.polling.skips_rings() {
            return self.poll_rest();
        }
        let (mut came, others) = self.take_own_first(reading);
        came |= self.take_rings(others, reading);
        self.end_of_rings(came);
    }

    /// Takes the messages that this process sent to itself. Returns whether it took any, and the other rings.
    #[inline(always)]
    fn take_own_first(&mut self, reading: &mut Reading) -> (bool, u64) {
        let claimed = self.flight.nic.interface.rings().claimed();
        let came = claimed & self.flight.peers.own_ring != 0 && self.take_own(reading);
        (came, claimed & !self.flight.peers.own_ring)
    }

    #[inline(always)]
    fn end_of_rings(&mut self, came: bool) {
        if came {
            self.flight.polling.has_found();
            if !self.flight.nic.interface.polls_here() {
                self.after_unlock = AfterUnlock::Found;
            }
            if self.flight.polling.round % RINGS_BEFORE_REST != 0 {
                return;
            }
        }
        self.poll_rest();
    }

    /// Called after the program read queued completions. Its next poll that finds nothing counts as the first.
    #[inline(always)]
    pub fn has_read_completions(&mut self) {
        self.flight.polling.start_over();
    }

    /// The first poll for a reply that takes a constant time. It comes when the reply has most likely been written.
    #[inline(never)]
    fn await_answer(&mut self, wait: u32, rings: u64, reading: &mut Reading) -> bool {
        for _ in 0..wait {
            lines::a_moment();
        }
        self.flight.polling.replies.found = ReplyOutcome::WasThere;
        if self.take_rings(rings, reading) {
            return true;
        }
        let found = self.look_for(rings, LOOKS_MAX - wait, reading);
        self.flight.polling.replies.found = ReplyOutcome::of_later_looks(found);
        found
    }

    /// Polls the rings of others some more times for a program that waits. Separate calls poll only every 50 to 150 ns
    /// and see a message late by half of that on average, so the polls of one call follow each other closely.
    #[inline(never)]
    fn linger(&mut self, rings: u64, reading: &mut Reading) -> bool {
        if !is_few(rings) {
            return false;
        }
        let found = self.look_for(rings, LOOKS_MAX, reading);
        self.flight.polling.has_lingered(found);
        found
    }

    /// Polls rings up to `looks` times, until one has a message.
    #[inline(always)]
    fn look_for(&mut self, rings: u64, looks: u32, reading: &mut Reading) -> bool {
        (0..looks).any(|_| {
            lines::a_moment();
            self.take_rings(rings, reading)
        })
    }

    /// Polls everything except the rings: events, refused messages, notifications, deferred work.
    #[inline(always)]
    fn poll_rest(&mut self) {
        let has_event = self.flight.nic.has_event();
        let polls_here = self.flight.nic.interface.polls_here();
        let has_waiting = !self.accesses.notes.is_empty() || self.sends.deliveries.any();
        if has_event || !polls_here || has_waiting || self.works.has_again() || self.sends.flows.has_retries() {
            return self.poll_rest_slow();
        }
        self.flight.nic.interface.progress();
        self.found_nothing();
    }

    #[inline(always)]
    fn found_nothing(&mut self) {
        if self.flight.polling.found_nothing() {
            self.idle_long();
        }
    }

    #[inline(never)]
    fn poll_rest_slow(&mut self) {
        if self.flight.nic.has_event() {
            self.take_events();
            self.flight.polling.start_over();
        }
        if self.sends.deliveries.any() && self.sends.deliveries.end_delivered(&mut self.flight) {
            self.flight.polling.start_over();
        }
        self.flight.nic.interface.progress();
        if self.take_from_units() {
            self.flight.polling.start_over();
        }
        if self.sends.flows.has_retries() {
            self.sends.flows.send_refused(&mut self.flight);
        }
        if !self.accesses.notes.is_empty() {
            self.send_notes_again();
        }
        if self.works.has_again() {
            self.works.start_again(&mut self.flight);
        }
        match self.flight.nic.interface.polls_here() {
            true => self.found_nothing(),
            false => self.after_unlock = AfterUnlock::Poll,
        }
    }

    /// Sets how long to linger and when to yield, depending on whether other threads may call, too.
    pub fn set_several_callers(&mut self, several: bool) {
        let have_cores = ranks::have_cores();
        self.flight.polling.set_cores(!several && have_cores == Some(true), have_cores == Some(false));
    }

    #[cold]
    fn idle_long(&mut self) {
        let (yields, ticks) = self.flight.polling.idle_long();
        if yields {
            self.after_unlock = AfterUnlock::Yield;
        }
        if ticks {
            self.flight.nic.interface.tick();
            self.fail_lost_sends();
            self.works.fail_lost(&mut self.flight);
            let _nic = self.flight.nic.interface.lock();
            self.flight.nic.interface.rings().clear_dead();
        }
    }

    #[inline(never)]
    pub(super) fn take_events(&mut self) {
        let OwnNic { own_queue, queue: arrivals, .. } = self.flight.nic;
        for queue in [own_queue, arrivals] {
            let mut next = None;
            loop {
                let event = match next.take() {
                    Some(event) => event,
                    None => match self.flight.nic.interface.signals().take_event(queue) {
                        Taken::Event(event, _) => event,
                        Taken::Empty | Taken::Gone => break,
                    },
                };
                next = self.take_event(queue, &event);
            }
        }
        let OwnNic { interface, watches, .. } = &mut self.flight.nic;
        if interface.signals().disabled_event_waits(arrivals) {
            // The NIC refused senders and had no room for the event that reports it. There is room again.
            interface.lock().queues().post_waiting_disabled(arrivals);
            return self.take_events();
        }
        for (watch, queue) in watches.iter_mut().zip([arrivals, own_queue]) {
            if let Some(now) = interface.watch(queue) {
                *watch = now;
            }
        }
    }

    /// Handles one event. Returns another event that was read with it and still needs handling.
    fn take_event(&mut self, queue: u32, event: &Event) -> Option<Event> {
        let number = event.user_ptr as usize;
        let Transport { flight, sends, works, units, .. } = self;
        if works.owns_event(&flight.operations, event) {
            works.take_event(&mut Parts { flight, units: units.as_deref_mut() }, event);
            return None;
        }
        match event.kind {
            event_kind::PUT if event.user_ptr == u64::MAX => self.take_notification(event),
            event_kind::PUT => return self.take_put(queue, number, event),
            event_kind::GET => flight.send_fetched(number),
            event_kind::ACK if flight.operations.send(number).is_some() => {
                sends.flows.send_acknowledged(flight, number, event);
            }
            event_kind::REPLY if flight.operations.is_fetch(number) => self.end_fetch(number, event.fail),
            event_kind::ACK | event_kind::REPLY => self.access_answered(number, event.fail),
            event_kind::AUTO_UNLINK if event.list == list::OVERFLOW => flight.buffer_is_full(number),
            event_kind::AUTO_UNLINK => flight.receive_used_up(number),
            event_kind::AUTO_FREE => flight.buffer_is_free(number),
            event_kind::PT_DISABLED => {
                // The NIC refused senders because the queue was full. This read made room, so the entry opens again.
                let _ = flight.nic.interface.lock().portal_table().set(event.portal, true);
            }
            _ => {}
        }
        None
    }

    fn take_notification(&mut self, event: &Event) {
        let Some(endpoint) = self.receives.endpoints.of_portal(event.portal) else { return };
        let flags = RMA | REMOTE_WRITE | REMOTE_CQ_DATA;
        let ticket = Ticket { bindings: endpoint, context: std::ptr::null_mut(), flags: 0, wanted: true };
        let (data, length) = (event.header_data, event.match_bits as usize);
        let entry = Completion { flags, data, length, ..Completion::default() };
        let source = self.flight.peers.source_name(event.initiator);
        self.flight.nic.complete_uncounted(&ticket, Side::Receive, entry, source);
    }

    /// Handles the event of a sender that has put its message into a receive.
    fn take_put(&mut self, queue: u32, number: usize, event: &Event) -> Option<Event> {
        let Transport { flight, receives, .. } = self;
        let message = Arrived::of_event(event);
        let placement = Placement {
            start: event.start,
            room: event.mlength.min(event.rlength) as usize,
            outcome: outcome_of(event.fail, Fault::NotMapped),
        };
        if let Some(plain) = PlainUserPtr::of(event.user_ptr) {
            receives.plain_arrived(flight, event.portal, plain, &message, &placement);
            return None;
        }
        if !flight.operations.is_multi(number) {
            flight.receive_filled(number, &message, &placement);
            return None;
        }
        // The delivery that used the buffer up posts that event right after the event of its message, under the same
        // lock. Taking the lock once waits for it.
        drop(flight.nic.interface.lock());
        let next = match flight.nic.interface.signals().take_event(queue) {
            Taken::Event(event, _) => Some(event),
            Taken::Empty | Taken::Gone => None,
        };
        let last = next.as_ref().is_some_and(|next| {
            next.kind == event_kind::AUTO_UNLINK && next.list == list::PRIORITY && next.user_ptr == number as u64
        });
        if last {
            flight.filled_up(number, &message, &placement);
            return None;
        }
        flight.receive_filled(number, &message, &placement);
        next
    }

    // ---- ends that reach several parts ----

    pub(super) fn end_fetch(&mut self, number: usize, failed: u8) {
        let Transport { flight, works, units, .. } = self;
        let Some(fetch) = flight.operations.take_fetch(number) else { return };
        match (fetch.ends, units) {
            (FetchEnd::Receive, _) => flight.end_fetched_receive(*fetch, failed),
            (FetchEnd::Deferred(_), _) => works.end_fetched_receive(flight, &fetch, failed),
            (FetchEnd::HandIn(sender), Some(units)) => {
                units.grants.fetched_first(sender, fetch.landing.bytes.unwrap_or_default(), failed);
            }
            (FetchEnd::HandIn(_), None) => {}
        }
    }

    /// Handles the reply to a request of an access that travelled as a packet.
    fn access_answered(&mut self, number: usize, failed: u8) {
        if self.flight.access_answered(number, failed) {
            self.end_access(number);
        }
    }

    /// Ends an access whose last request has ended, unless it is retried.
    pub(super) fn end_access(&mut self, number: usize) {
        let Transport { flight, units, .. } = self;
        let InFlight { operations, peers, .. } = flight;
        let Some(pending) = operations.access(number) else { return };
        if pending.was_refused {
            if pending.awaits_retry() {
                if let Some(units) = units {
                    units.keep_for_retry(flight, number);
                }
                return;
            }
            if let Some(peer) = peers.get_mut(pending.peer) {
                peer.refused -= 1;
            }
        }
        let Some(pending) = operations.take_access(number) else { return };
        let entry = pending.ticket.completion();
        if let Some(fault) = pending.error {
            return flight.nic.fail_transmit(&pending.ticket, fault);
        }
        if let Some((bytes, pieces)) = &pending.staging.results {
            // SAFETY: the program's pieces are writable, and their room is as long as the bytes.
            unsafe { scatter(bytes.as_ptr(), bytes.len(), pieces) };
        }
        if let Some(note) = pending.note {
            self.notify(&pending.ticket, note);
        }
        self.flight.nic.complete(&pending.ticket, Side::Transmit, entry, ADDR_ANY);
    }

    /// Fails the sends whose header is at a process that has ended.
    fn fail_lost_sends(&mut self) {
        if self.flight.lost_sends().is_empty() {
            return;
        }
        // The process may have fetched a payload before it ended. That event is in the queue by now, so take it first.
        self.take_events();
        for number in self.flight.lost_sends() {
            self.flight.end_send(number, Err(Fault::PeerGone));
        }
    }
}
