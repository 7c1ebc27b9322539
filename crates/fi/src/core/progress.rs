// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What has come: messages in lanes, and what the NIC tells of deliveries that others made.
//!
//! Every look at a completion queue or counter begins here. When there is nothing, the cost is one load for each lane
//! that anybody has claimed and one for each event queue.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::NoMemory;
use selvedge_nic::portals::events::{Taken, event_kind};
use selvedge_nic::portals::matching::Key;
use selvedge_nic::portals::{Event, fail, list};
use selvedge_shm::direct::{lane_has_data, lane_request, lane_source};
use selvedge_shm::lanes::{Glimpse, Lanes, Reader, Waiting};
use selvedge_shm::lock::Held;
use selvedge_shm::os::{copy, lines, ranks};

use super::answer::{LOOKS_MAX, Outcome};
use super::peers::name_of;
use super::private::Front;
use super::receive::Arrived;
use super::{Core, ENDPOINT_PORTALS, KINDS, Operation, Rest, Side, Ticket};
use crate::completion::Reading;
use crate::constants::*;
use crate::ffi::fi_cq_tagged_entry;
use crate::warn_line;

/// Messages taken from one lane before others have their turn.
const BATCH: u64 = 32;
/// Looks in vain before the core is given to whoever wants it, ...
const LOOKS_BEFORE_YIELD: u32 = 400;
/// ... and between such moments; ...
pub(super) const LOOKS_BETWEEN_YIELDS: u32 = 64;
/// ... the same where every rank has a core, and one thread: most likely those who want it are no ranks, but strangers who come and go.
/// Who gives way to one of them is away for a slice of the scheduler's (3 ms), and its peer, which waits for it, then gives way, too.
const LOOKS_BETWEEN_YIELDS_ALONE: u32 = 8192;
/// Who asks for the second time in vain waits, and most likely for what is about to come: so many calls linger, each for [`LOOKS_MAX`]
/// looks, some 130 ns, ...
const LINGERING_CALLS: u32 = 16;
/// ... where there are no more lanes than that: more take that long by themselves.
const LINGERING_LANES: u32 = 3;
/// Looks in vain between looks after the deaths of others.
const LOOKS_PER_TICK: u32 = 4096;

/// Goes at the lane to ourselves: more than empty a full one.
const TURNS_OF_OWN: u32 = 16;
/// Goes at one lane before others have their turn.
const TRIES: usize = 64;

/// Rounds with messages in lanes before a look at the rest.
const LANES_BEFORE_REST: u32 = 8;

/// A receive whose message has been put in place.
pub(super) struct Filled {
    number: usize,
    message: Arrived,
    start: u64,
    room: usize,
}

/// Whether these are some lanes, and so few that looking at all of them takes no time.
#[inline(always)]
fn is_few(lanes: u64) -> bool {
    lanes != 0 && lanes.count_ones() <= LINGERING_LANES
}

/// The next message of a lane; None where there is none, or none any more.
#[inline(always)]
fn next_message(lanes: &Lanes, lane: usize, reader: &Reader<'_>) -> Option<Waiting> {
    reader.look().unwrap_or_else(|_| {
        cut_off(lanes, lane);
        None
    })
}

/// Stops listening to a sender.
#[cold]
fn cut_off(lanes: &Lanes, lane: usize) {
    let sender = lanes.sender(lane);
    warn_line!("process {sender} left something in its lane that is not a message: it is cut off");
    lanes.close(lane);
}

/// What is to be done after some messages of a lane.
enum Next {
    /// There are no more, or others have their turn.
    Rest,
    Again,
    /// This place's receives must be at the NIC before its next message.
    Close(u32),
}

/// A lane, and a place that messages from it are for, whose receives are private. Under the NIC's lock.
struct OpenPlace<'a> {
    held: Held<'a>,
    lanes: &'a Lanes,
    reader: Reader<'a>,
    sender: u64,
    front: &'a mut Front,
    sources: &'a HashMap<u64, Vec<u64>>,
}

impl Core {
    /// Takes in what has come.
    #[inline]
    pub fn progress(&mut self) {
        self.progress_into(&mut Reading::none());
    }

    /// Takes in what has come, for a program that reads completions just now and has none yet: it may wait for some.
    #[inline(always)]
    pub fn progress_into(&mut self, reading: &mut Reading) {
        let is_first = std::mem::take(&mut self.sent);
        if self.served != 0 && self.asks_for_more_than_it_posted(is_first) {
            return self.rest();
        }
        let (mut came, others) = self.take_own_first(reading);
        let wait = if is_first { self.first_look() } else { 0 };
        if wait != 0 && !came && is_few(others) {
            came = self.await_answer(wait, others, reading);
        } else {
            came |= self.take_lanes(others, reading);
            if !came && self.idle.wrapping_sub(1) < LINGERING_CALLS {
                came = self.linger(others, reading);
            }
        }
        self.end_of_lanes(came);
    }

    /// The same for one that has some already: it waits for nothing.
    #[inline(never)]
    pub fn glance_into(&mut self, reading: &mut Reading) {
        let (mut came, others) = self.take_own_first(reading);
        came |= self.take_lanes(others, reading);
        self.end_of_lanes(came);
    }

    /// Takes in what we have sent to ourselves: whether there was any, and the other lanes.
    #[inline(always)]
    fn take_own_first(&mut self, reading: &mut Reading) -> (bool, u64) {
        let claimed = self.lanes.claimed();
        let came = claimed & self.own_lane != 0 && self.take_own(reading);
        (came, claimed & !self.own_lane)
    }

    #[inline(always)]
    fn end_of_lanes(&mut self, came: bool) {
        if came {
            self.idle = 0;
            self.awaits = false;
            self.round = self.round.wrapping_add(1);
            if self.round % LANES_BEFORE_REST != 0 {
                return;
            }
        }
        self.rest();
    }

    /// The first look since something was sent: how many looks' time to wait until then. Whatever was asked for in vain before is forgotten.
    #[inline(always)]
    fn first_look(&mut self) -> u32 {
        self.idle = 0;
        self.awaits = true;
        self.answers.wait()
    }

    /// Many programs read completions until there are none. One whose last receive was just filled, and that has neither posted another nor
    /// sent anything, cannot wait for a message yet, and the line of the next one is left to its sender.
    #[inline(always)]
    fn asks_for_more_than_it_posted(&mut self, is_first: bool) -> bool {
        let served = std::mem::take(&mut self.served);
        !is_first && self.fronts.of_lane(served).is_some_and(|front| !front.has_receives())
    }

    /// Completions were read that had been there: the next question in vain is no second one.
    #[inline(always)]
    pub fn has_given(&mut self) {
        self.idle = 0;
    }

    /// The first look for an answer that comes after the same time each time, when it has come.
    #[inline(never)]
    fn await_answer(&mut self, wait: u32, lanes: u64, reading: &mut Reading) -> bool {
        for _ in 0..wait {
            lines::a_moment();
        }
        self.answers.found = Outcome::WasThere;
        if self.take_lanes(lanes, reading) {
            return true;
        }
        let found = self.look_for(lanes, LOOKS_MAX - wait, reading);
        self.answers.found = Outcome::of_later_looks(found);
        found
    }

    /// Looks at lanes of others some more times, by a program that waits. Whoever asks from outside comes by every 50 to 150 ns, and
    /// finds what came meanwhile half of that too late: looks that follow each other take 5 % of half a round trip off under Open MPI,
    /// and 10 to 20 % under MPICH.
    #[inline(never)]
    fn linger(&mut self, lanes: u64, reading: &mut Reading) -> bool {
        if !is_few(lanes) {
            return false;
        }
        let found = self.look_for(lanes, LOOKS_MAX, reading);
        if self.idle == 1 && self.awaits {
            self.answers.found = Outcome::of_later_looks(found);
        }
        found
    }

    /// Looks at lanes so many times, if there is nothing before.
    #[inline(always)]
    fn look_for(&mut self, lanes: u64, looks: u32, reading: &mut Reading) -> bool {
        (0..looks).any(|_| {
            lines::a_moment();
            self.take_lanes(lanes, reading)
        })
    }

    /// What we have sent to ourselves comes before all that others can have sent because of what we did next: MPICH's accumulates to
    /// its own window are such messages, and mpi4py's locks rely on that order.
    #[inline(never)]
    fn take_own(&mut self, reading: &mut Reading) -> bool {
        let lane = self.own_lane.trailing_zeros() as usize;
        (0..TURNS_OF_OWN).take_while(|_| self.take_lane(lane, reading)).count() != 0
    }

    /// Takes in what lies in each of these lanes; whether there was any.
    #[inline(always)]
    fn take_lanes(&mut self, mut left: u64, reading: &mut Reading) -> bool {
        let mut came = false;
        while left != 0 {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            came |= self.take_lane(lane, reading);
        }
        came
    }

    /// Takes in what lies in a lane, as much as in one go; whether there was any.
    #[inline(always)]
    fn take_lane(&mut self, lane: usize, reading: &mut Reading) -> bool {
        let Some(seen) = self.lanes.next(lane) else { return false };
        match self.take_some(lane, seen, reading) {
            Next::Rest => {}
            next => self.take_more(lane, next, reading),
        }
        true
    }

    /// What is not in lanes.
    #[inline(always)]
    fn rest(&mut self) {
        let told = self.watches[0].has_event() || self.watches[1].has_event() || self.kept.get() != self.seen;
        if told || self.is_simulated || !self.notes.is_empty() || self.works.has_again() || self.flows.keep_any() {
            return self.rest_slow();
        }
        self.interface.progress();
        self.found_nothing();
    }

    #[inline(always)]
    fn found_nothing(&mut self) {
        self.idle += 1;
        if self.idle >= LOOKS_BEFORE_YIELD {
            self.idle_long();
        }
    }

    #[inline(never)]
    fn rest_slow(&mut self) {
        if self.kept.get() != self.seen {
            self.look_again();
            self.idle = 0;
        }
        if self.watches[0].has_event() || self.watches[1].has_event() {
            self.take_events();
            self.idle = 0;
        }
        self.interface.progress();
        if self.flows.keep_any() {
            self.send_kept();
        }
        if !self.notes.is_empty() {
            self.tell_again();
        }
        if self.works.has_again() {
            self.start_again();
        }
        match self.is_simulated {
            true => self.rest = Rest::Poll,
            false => self.found_nothing(),
        }
    }

    /// What to do of waits, by whether other threads may call, too.
    pub fn wait_beside_threads(&mut self, beside: bool) {
        let alone = !beside && ranks::have_cores() == Some(true);
        self.looks_between_yields = if alone { LOOKS_BETWEEN_YIELDS_ALONE } else { LOOKS_BETWEEN_YIELDS };
    }

    #[cold]
    fn idle_long(&mut self) {
        if self.idle % self.looks_between_yields == 0 {
            self.rest = Rest::Yield;
        }
        if self.idle % LOOKS_PER_TICK == 0 {
            self.interface.tick();
            self.fail_lost_sends();
            self.fail_lost_works();
            let _nic = self.interface.lock();
            self.lanes.clear_dead();
        }
    }

    /// Takes messages out of a lane, of which the first is this one, as many as in one go. Completions are made in the order of the
    /// messages: what the NIC tells of earlier ones is heard first, as the sender told it before it left anything here.
    #[inline(always)]
    fn take_some(&mut self, lane: usize, first: Glimpse, reading: &mut Reading) -> Next {
        match self.fronts.of_lane(first.portal()).is_some_and(Front::is_open) {
            true => match (reading.is_whole(), first.is_long()) {
                (true, false) => self.take_private::<true, false>(lane, first, reading),
                (true, true) => self.take_private::<true, true>(lane, first, reading),
                (false, false) => self.take_private::<false, false>(lane, first, reading),
                (false, true) => self.take_private::<false, true>(lane, first, reading),
            },
            false => self.take_listed(lane),
        }
    }

    #[cold]
    fn take_more(&mut self, lane: usize, next: Next, reading: &mut Reading) {
        let mut next = next;
        // Who keeps changing what is asked for here is not waited for.
        for _ in 0..TRIES {
            match next {
                Next::Rest => return,
                Next::Again => {}
                Next::Close(portal) => self.close_front(portal),
            }
            if self.watches[0].has_event() {
                self.take_events();
            }
            if self.kept.get() != self.seen {
                self.look_again();
            }
            let Some(seen) = self.lanes.next(lane) else { return };
            next = self.take_some(lane, seen, reading);
        }
    }

    /// A message for a place that is open, which was seen, and is `LONG` or lies in its cell alone; and those that follow it. Most come
    /// alone, for the first receive, and their completion is what the program reads next.
    #[inline(never)]
    fn take_private<const WHOLE: bool, const LONG: bool>(
        &mut self,
        lane: usize,
        seen: Glimpse,
        reading: &mut Reading,
    ) -> Next {
        let portal = seen.portal();
        if LONG {
            self.lanes.ask_for_bytes(lane, seen);
        }
        let held = self.interface.hold();
        if self.watches[0].has_event() || self.kept.get() != self.seen {
            return Next::Again;
        }
        let sender = self.lanes.sender(lane);
        let (Some(front), Some(mut reader)) = (self.fronts.of_lane_mut(portal), self.lanes.reader_from(lane, seen))
        else {
            return Next::Again;
        };
        let taken = front.take_seen::<WHOLE, LONG>(&mut reader, seen, sender, reading);
        if let Some(bytes) = taken {
            held.registers().count_taken(1, bytes as u64);
            // The next one's line is left alone: it is about to be written, if it has not been.
            if !front.has_receives() {
                drop(held);
                self.served = portal;
                return Next::Rest;
            }
        }
        std::mem::forget(held);
        // SAFETY: the lock was just kept.
        unsafe {
            match taken {
                Some(_) => self.take_others::<WHOLE, LONG>(lane, portal, reading),
                None => self.take_each(lane, portal, reading),
            }
        }
    }

    /// A lane, and a place that is open, under the NIC's lock.
    ///
    /// # Safety
    /// This thread has the lock, and forgot it.
    #[inline(always)]
    unsafe fn open_place(&mut self, lane: usize, portal: u8) -> Option<OpenPlace<'_>> {
        let Core { interface, lanes, fronts, sources, .. } = self;
        // SAFETY: the caller's.
        let held = unsafe { interface.held() };
        let (sender, reader) = (lanes.sender(lane), lanes.reader(lane));
        Some(OpenPlace { held, lanes, reader, sender, front: fronts.of_lane_mut(portal)?, sources })
    }

    /// Takes messages in that follow one that was taken, as long as each is like it.
    ///
    /// # Safety
    /// As of [`Core::open_place`].
    #[inline(never)]
    unsafe fn take_others<const WHOLE: bool, const LONG: bool>(
        &mut self,
        lane: usize,
        portal: u8,
        reading: &mut Reading,
    ) -> Next {
        // SAFETY: the caller's.
        let Some(OpenPlace { held, mut reader, sender, front, .. }) = (unsafe { self.open_place(lane, portal) }) else {
            return Next::Again;
        };
        let bytes = front.take_run::<WHOLE, LONG>(&mut reader, portal, sender, BATCH - 1, reading);
        held.registers().count_taken(reader.taken(), bytes as u64);
        let is_served = !front.has_receives();
        drop(held);
        if is_served {
            self.served = portal;
        }
        Next::Rest
    }

    /// Takes messages in one by one, whatever each is and whoever reads its completion.
    ///
    /// # Safety
    /// As of [`Core::open_place`].
    #[inline(never)]
    unsafe fn take_each(&mut self, lane: usize, portal: u8, reading: &mut Reading) -> Next {
        // SAFETY: the caller's.
        let place = unsafe { self.open_place(lane, portal) };
        let Some(OpenPlace { held, lanes, mut reader, sender, front, sources }) = place else { return Next::Again };
        let mut next = Next::Rest;
        let mut bytes_taken = 0usize;
        // In registers, as long as the loop runs.
        let mut here = *reading;
        while let Some(message) = next_message(lanes, lane, &reader) {
            let envelope = &message.envelope;
            if envelope.portal != portal {
                next = Next::Again;
                break;
            }
            let source = lane_source(envelope, sender);
            let mut goes_on = true;
            if let Some(receive) = front.take(envelope.match_bits, source) {
                let name = if receive.names_source { name_of(sources, source) } else { ADDR_ANY };
                let data = (lane_has_data(envelope), envelope.header_data);
                // SAFETY: the receive is one of our program's; the message lies in the lane, within it.
                bytes_taken += unsafe { receive.fill(message.bytes, message.length, data, name, &mut here) };
                goes_on = front.has_receives();
            } else {
                // SAFETY: the message lies in the lane.
                if !front.change_early(|early| unsafe { early.push(message, sender) }) {
                    // It will wait as unexpected, and then receives must be posted where they meet it.
                    next = Next::Close(portal.into());
                    break;
                }
                bytes_taken += message.length;
            }
            reader.pass(&message);
            // Where none is waited for any more, the next one's line is left alone, too.
            if !goes_on || reader.taken() >= BATCH {
                break;
            }
        }
        *reading = here;
        held.registers().count_taken(reader.taken(), bytes_taken as u64);
        next
    }

    /// Messages for places whose receives are at the NIC.
    #[inline(never)]
    fn take_listed(&mut self, lane: usize) -> Next {
        let Core { interface, lanes, fronts, watches, filled, kept, seen, .. } = self;
        let (mut delivered, mut fired, mut told) = (false, false, false);
        let mut next = Next::Rest;
        {
            let mut nic = interface.lock();
            if watches[0].has_event() || kept.get() != *seen {
                return Next::Again;
            }
            let sender = lanes.sender(lane);
            let mut reader = lanes.reader(lane);
            for _ in 0..BATCH {
                let Some(message) = next_message(lanes, lane, &reader) else { break };
                let envelope = &message.envelope;
                if fronts.of_lane(envelope.portal).is_some_and(Front::is_open) {
                    next = Next::Again;
                    break;
                }
                let source = lane_source(envelope, sender);
                let length = message.length as u64;
                let key = Key { match_bits: envelope.match_bits, source, length, remote_offset: 0 };
                match nic.take_receive(&mut NoMemory, envelope.portal.into(), &key) {
                    Some(receive) => {
                        let bytes = message.length.min(receive.length as usize);
                        // SAFETY: the receive is one of our program's, whose memory it promised; the message lies in the lane.
                        unsafe { copy::short(message.bytes, receive.start as *mut u8, bytes) };
                        let data = lane_has_data(envelope).then_some(envelope.header_data);
                        filled.push(Filled {
                            number: receive.user_ptr as usize,
                            message: Arrived::new(envelope.match_bits, data, source, length),
                            start: receive.start,
                            room: receive.length as usize,
                        });
                    }
                    None => {
                        let request = lane_request(envelope, sender, length);
                        delivered = true;
                        if interface.deliver_own(&mut nic, message.bytes, &request).is_none() {
                            break;
                        }
                        // Its place is closed, and nobody else has the lock.
                        *seen = kept.get();
                    }
                }
                reader.pass(&message);
                if delivered && watches[0].has_event() {
                    told = true;
                    break;
                }
            }
            if delivered {
                fired = nic.has_fired();
            }
        }
        if !self.filled.is_empty() {
            self.complete_filled();
        }
        if told {
            self.take_events();
        }
        self.interface.settle(fired);
        next
    }

    /// Ends the receives that were taken off the NIC's lists.
    #[inline(never)]
    fn complete_filled(&mut self) {
        let mut filled = std::mem::take(&mut self.filled);
        for one in filled.drain(..) {
            self.receive_taken(one.number, &one.message, one.start, one.room);
        }
        self.filled = filled;
    }

    /// What the NIC has told.
    #[inline(never)]
    pub(super) fn take_events(&mut self) {
        for queue in [self.own_queue, self.queue] {
            let mut next = None;
            loop {
                let event = match next.take() {
                    Some(event) => event,
                    None => match self.interface.signals().take_event(queue) {
                        Taken::Event(event, _) => event,
                        Taken::Empty | Taken::Gone => break,
                    },
                };
                next = self.take_event(queue, &event);
            }
        }
        let turned_away = |signals: &selvedge_nic::Signals<'_>| {
            signals.queue(self.queue).is_some_and(|queue| queue.disabled_events.load(Relaxed) != 0)
        };
        if turned_away(&self.interface.signals()) {
            // Senders were turned away, and there was no room to say so: there is now.
            self.interface.lock().post_waiting_disabled(self.queue);
            return self.take_events();
        }
        for (watch, queue) in self.watches.iter_mut().zip([self.queue, self.own_queue]) {
            if let Some(now) = self.interface.watch(queue) {
                *watch = now;
            }
        }
    }

    /// One event; gives back another that was read along and is still to be looked at.
    fn take_event(&mut self, queue: u32, event: &Event) -> Option<Event> {
        let number = event.user_ptr as usize;
        if self.is_deferred(event) {
            self.take_deferred(event);
            return None;
        }
        match event.kind {
            event_kind::PUT if event.user_ptr == u64::MAX => self.take_note(event),
            event_kind::PUT => return self.take_put(queue, number, event),
            event_kind::GET => self.send_fetched(number),
            event_kind::ACK => match self.operations.get(number) {
                Some(Operation::Send(_)) => self.send_acknowledged(number, event),
                _ => self.remote_answered(number, event.fail),
            },
            event_kind::REPLY => match self.operations.get(number) {
                Some(Operation::Fetch(_)) => self.fetched(number, event.fail),
                _ => self.remote_answered(number, event.fail),
            },
            event_kind::AUTO_UNLINK if event.list == list::OVERFLOW => self.buffer_is_full(number),
            event_kind::AUTO_UNLINK => self.receive_used_up(number),
            event_kind::AUTO_FREE => self.buffer_is_free(number),
            event_kind::PT_DISABLED => {
                // Senders were turned away for lack of room; there is some again, now that this was read.
                let _ = self.interface.lock().portal_set(event.portal, true);
            }
            _ => {}
        }
        None
    }

    /// Word of a write to memory of ours.
    fn take_note(&mut self, event: &Event) {
        let endpoint = self.endpoints[((event.portal - ENDPOINT_PORTALS) / KINDS) as usize];
        if endpoint.is_null() {
            return;
        }
        let flags = RMA | REMOTE_WRITE | REMOTE_CQ_DATA;
        let ticket = Ticket { endpoint, context: std::ptr::null_mut(), flags: 0, wanted: true };
        let (data, len) = (event.header_data, event.match_bits as usize);
        let entry = fi_cq_tagged_entry { flags, data, len, ..Default::default() };
        self.complete_uncounted(&ticket, Side::Receive, entry, self.source_name(event.initiator));
    }

    /// A sender has put its message into a receive.
    fn take_put(&mut self, queue: u32, number: usize, event: &Event) -> Option<Event> {
        let error = if event.fail == fail::OK { 0 } else { EFAULT };
        let message = Arrived::of_event(event);
        let room = match event.mlength < event.rlength {
            true => event.mlength as usize,
            false => event.rlength as usize,
        };
        if !self.is_multi(number) {
            self.receive_filled(number, &message, event.start, room, error);
            return None;
        }
        // The delivery that used the buffer up tells so right after its message, under the same lock.
        drop(self.interface.lock());
        let next = match self.interface.signals().take_event(queue) {
            Taken::Event(event, _) => Some(event),
            Taken::Empty | Taken::Gone => None,
        };
        let last = next.as_ref().is_some_and(|next| {
            next.kind == event_kind::AUTO_UNLINK && next.list == list::PRIORITY && next.user_ptr == number as u64
        });
        if last {
            self.filled_up(number, &message, event.start, room, error);
            return None;
        }
        self.receive_filled(number, &message, event.start, room, error);
        next
    }
}
