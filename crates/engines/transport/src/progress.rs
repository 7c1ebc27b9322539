// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress: messages in rings, and events of deliveries that other processes made.
//!
//! Every read of a completion queue or counter polls first. A poll that finds nothing costs one load for each claimed
//! ring and one for each event queue.

use std::ffi::c_void;

use selvedge_host::Interface;
use selvedge_host::direct::{ring_has_data, ring_request, ring_source};
use selvedge_host::os::{lines, ranks};
use selvedge_host::rings::{Envelope, PolledHeader, Reader, RingMessage, Rings};
use selvedge_nic::portals::event_queue::Taken;
use selvedge_nic::portals::{Event, Put, Receive, event_kind, list};
use selvedge_nic::{Bus, Nic, Register};

use crate::bindings::{Bindings, Side};
use crate::completion::{Completion, CompletionQueue, Reading};
use crate::ends::error_of;
use crate::flags::{EFAULT, RECV, REMOTE_CQ_DATA, REMOTE_WRITE, RMA};
use crate::operation::Operation;
use crate::polling::{LOOKS_MAX, Outcome, Rest};
use crate::posted::{Arrived, Filled, PlainReceive};
use crate::ticket::{ENDPOINT_PORTALS, KINDS, Kind, Ticket};
use crate::transport::Transport;

/// Most messages taken from one ring before other rings follow.
const BATCH: u64 = 32;
/// Calls linger only if there are no more rings than this. A poll of more rings takes that long by itself.
const LINGERING_RINGS: u32 = 3;
/// Most passes over the ring from this process to itself. They more than empty a full ring.
const TURNS_OF_OWN: u32 = 16;
/// Most passes over one ring before other rings follow.
const TRIES: usize = 64;

/// Rounds that find messages in rings before a poll of everything else.
const RINGS_BEFORE_REST: u32 = 8;

/// The memory of a message in a ring: its bytes there, and the owner's own. The message is `LONG` or fits into its
/// slot.
struct FromRing<'a, const LONG: bool> {
    interface: &'a Interface,
    message: &'a RingMessage,
}

impl<const LONG: bool> Bus for FromRing<'_, LONG> {
    #[inline(always)]
    fn put_mapped(&mut self, _: u64, address: u64, bytes: u64) -> bool {
        // Peers can write the tables, so an address from there is checked against the mapped regions.
        if !self.interface.has_writable(address, bytes) {
            return false;
        }
        // SAFETY: the message in its ring has at least `bytes` bytes. The range is mapped for writing, as just checked,
        // and the program gave it to a receive.
        unsafe { self.message.copy_part::<LONG>(address as *mut u8, bytes as usize) };
        true
    }
}

/// A message that has arrived and that this process takes itself: what matching needs, and where its bytes are.
pub(crate) struct Arriving<'a> {
    pub envelope: &'a Envelope,
    /// The id of the sender's NIC.
    pub sender: u64,
    pub bytes: *const u8,
    pub length: usize,
}

/// What became of a message that this process has taken itself.
pub(crate) enum Handed {
    /// It has filled a receive, with so many bytes. The receive still needs its completion.
    Filled(u64),
    /// The NIC has it: in a receive of another kind, or in a buffer for unexpected messages. There may be events.
    Delivered,
    /// The NIC has no room for it now. Nothing has changed.
    NoRoom,
}

impl Arriving<'_> {
    /// The put that the message is.
    #[inline(always)]
    pub fn put(&self) -> Put {
        ring_put(self.envelope, self.length, self.sender)
    }

    /// Hands the message to the own NIC, which the caller has locked. `bus` copies its bytes.
    #[inline(always)]
    pub fn hand_in<B: Bus>(
        &self,
        interface: &Interface,
        nic: &mut Nic<'_>,
        bus: &mut B,
        filled: &mut Vec<Filled>,
    ) -> Handed {
        let put = self.put();
        if let Some(receive) = nic.receives().take(bus, &put) {
            filled.push(Filled::by(&put, self.envelope, &receive));
            return Handed::Filled(put.length.min(receive.length));
        }
        let request = ring_request(self.envelope, self.sender, put.length);
        match interface.deliver_own(nic, self.bytes, &request) {
            Some(_) => Handed::Delivered,
            None => Handed::NoRoom,
        }
    }
}

/// Whether there are rings in this set, and so few that polling all of them takes no time.
#[inline(always)]
fn is_few(rings: u64) -> bool {
    rings != 0 && rings.count_ones() <= LINGERING_RINGS
}

/// Turns a message of a ring into a put request.
#[inline(always)]
fn ring_put(envelope: &Envelope, length: usize, sender: u64) -> Put {
    Put {
        portal: envelope.portal.into(),
        uid: ring_has_data(envelope).into(),
        initiator: ring_source(envelope, sender),
        match_bits: envelope.match_bits,
        remote_offset: 0,
        header_data: envelope.header_data,
        length: length as u64,
    }
}

/// The next message of a ring; None if it is empty or closed.
#[inline(always)]
fn next_message(rings: &Rings, ring: usize, reader: &Reader<'_>) -> Option<RingMessage> {
    reader.poll().unwrap_or_else(|_| {
        cut_off(rings, ring);
        None
    })
}

/// Closes the ring of a sender.
#[cold]
fn cut_off(rings: &Rings, ring: usize) {
    let sender = rings.sender(ring);
    log::warn!("the ring of process {sender} contains data that is not a message; the ring is closed");
    rings.close(ring);
}

/// What to do after some messages of a ring were taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// The ring is empty, or other rings come next.
    Rest,
    /// Events of earlier deliveries, or completions, come before the next message.
    Again,
}

impl Transport {
    /// Polls and handles what has come.
    #[inline]
    pub fn progress(&mut self) {
        self.progress_into(&mut Reading::none());
    }

    /// Polls for a program that reads completions and has none yet. This may linger for a message.
    #[inline(always)]
    pub fn progress_into(&mut self, reading: &mut Reading) {
        if self.polling.skips_rings() {
            return self.rest();
        }
        let is_first = std::mem::take(&mut self.polling.sent);
        let (mut came, others) = self.take_own_first(reading);
        let wait = if is_first { self.polling.first_look() } else { 0 };
        if wait != 0 && !came && is_few(others) {
            came = self.await_answer(wait, others, reading);
        } else {
            came |= self.take_rings(others, reading);
            if !came && self.polling.lingers() {
                came = self.linger(others, reading);
            }
        }
        self.end_of_rings(came);
    }

    /// Polls for a program that already has some completions. This never lingers.
    #[inline(never)]
    pub fn glance_into(&mut self, reading: &mut Reading) {
        if self.polling.skips_rings() {
            return self.rest();
        }
        let (mut came, others) = self.take_own_first(reading);
        came |= self.take_rings(others, reading);
        self.end_of_rings(came);
    }

    /// Takes the messages that this process sent to itself. Returns whether there were any, and the other rings.
    #[inline(always)]
    fn take_own_first(&mut self, reading: &mut Reading) -> (bool, u64) {
        let claimed = self.interface.rings().claimed();
        let came = claimed & self.own_ring != 0 && self.take_own(reading);
        (came, claimed & !self.own_ring)
    }

    #[inline(always)]
    fn end_of_rings(&mut self, came: bool) {
        if came {
            self.polling.has_found();
            if !self.interface.polls_here() {
                self.rest = Rest::Found;
            }
            if self.polling.round % RINGS_BEFORE_REST != 0 {
                return;
            }
        }
        self.rest();
    }

    /// The program read completions that were there already. Its next poll that finds nothing counts as the first.
    #[inline(always)]
    pub fn has_given(&mut self) {
        self.polling.start_over();
    }

    /// The first poll for a reply that always takes about the same time. It comes when the reply has most likely been
    /// written.
    #[inline(never)]
    fn await_answer(&mut self, wait: u32, rings: u64, reading: &mut Reading) -> bool {
        for _ in 0..wait {
            lines::a_moment();
        }
        self.polling.replies.found = Outcome::WasThere;
        if self.take_rings(rings, reading) {
            return true;
        }
        let found = self.look_for(rings, LOOKS_MAX - wait, reading);
        self.polling.replies.found = Outcome::of_later_looks(found);
        found
    }

    /// Polls the rings of others some more times for a program that waits. Separate calls poll only every 50 to 150 ns
    /// and see a message half of that too late on average, so the polls of one call follow each other closely.
    #[inline(never)]
    fn linger(&mut self, rings: u64, reading: &mut Reading) -> bool {
        if !is_few(rings) {
            return false;
        }
        let found = self.look_for(rings, LOOKS_MAX, reading);
        self.polling.has_lingered(found);
        found
    }

    /// Polls rings up to so many times, until one has a message.
    #[inline(always)]
    fn look_for(&mut self, rings: u64, looks: u32, reading: &mut Reading) -> bool {
        (0..looks).any(|_| {
            lines::a_moment();
            self.take_rings(rings, reading)
        })
    }

    /// Messages from this process to itself are taken before any message that others can have sent in response to our
    /// later actions. MPICH's accumulates to its own window are such messages, and mpi4py's locks rely on that order.
    #[inline(never)]
    fn take_own(&mut self, reading: &mut Reading) -> bool {
        let ring = self.own_ring.trailing_zeros() as usize;
        (0..TURNS_OF_OWN).take_while(|_| self.take_ring(ring, reading)).count() != 0
    }

    /// Takes the messages of each of these rings. Returns whether there were any.
    #[inline(always)]
    fn take_rings(&mut self, mut left: u64, reading: &mut Reading) -> bool {
        let mut came = false;
        while left != 0 {
            let ring = left.trailing_zeros() as usize;
            left &= left - 1;
            came |= self.take_ring(ring, reading);
        }
        came
    }

    /// Takes the messages of one ring, up to the limit of one go. Returns whether there were any.
    #[inline(always)]
    fn take_ring(&mut self, ring: usize, reading: &mut Reading) -> bool {
        let Some(seen) = self.interface.rings().poll(ring) else { return false };
        match self.take_some(ring, seen, reading) {
            Next::Rest => {}
            Next::Again => self.take_more(ring, reading),
        }
        true
    }

    /// Polls everything except the rings: events, refused messages, notifications, deferred work.
    #[inline(always)]
    fn rest(&mut self) {
        let has_event = self.watches[0].has_event() || self.watches[1].has_event();
        let polls_here = self.interface.polls_here();
        let has_waiting = !self.notes.is_empty() || !self.delivering.is_empty();
        if has_event || !polls_here || has_waiting || self.works.has_again() || self.flows.has_retries() {
            return self.rest_slow();
        }
        self.interface.progress();
        self.found_nothing();
    }

    #[inline(always)]
    fn found_nothing(&mut self) {
        if self.polling.found_nothing() {
            self.idle_long();
        }
    }

    #[inline(never)]
    fn rest_slow(&mut self) {
        if self.watches[0].has_event() || self.watches[1].has_event() {
            self.take_events();
            self.polling.start_over();
        }
        if !self.delivering.is_empty() && self.end_delivered() {
            self.polling.start_over();
        }
        self.interface.progress();
        if self.take_from_units() {
            self.polling.start_over();
        }
        if self.flows.has_retries() {
            self.send_refused();
        }
        if !self.notes.is_empty() {
            self.send_notes_again();
        }
        if self.works.has_again() {
            self.start_again();
        }
        match self.interface.polls_here() {
            true => self.found_nothing(),
            false => self.rest = Rest::Poll,
        }
    }

    /// Sets how long to linger and when to yield, by whether other threads may call, too.
    pub fn wait_beside_threads(&mut self, beside: bool) {
        self.polling.set_alone(!beside && ranks::have_cores() == Some(true));
    }

    #[cold]
    fn idle_long(&mut self) {
        let (yields, ticks) = self.polling.idle_long();
        if yields {
            self.rest = Rest::Yield;
        }
        if ticks {
            self.interface.tick();
            self.fail_lost_sends();
            self.fail_lost_works();
            let _nic = self.interface.lock();
            self.interface.rings().clear_dead();
        }
    }

    /// Takes messages out of a ring, the polled header first, up to the limit of one go. Completions keep the order of
    /// the messages: events of earlier deliveries are read first, because their sender posted them before it enqueued
    /// anything here.
    #[inline(always)]
    fn take_some(&mut self, ring: usize, first: PolledHeader, reading: &mut Reading) -> Next {
        match (reading.is_whole(), first.is_long()) {
            (true, false) => self.take_direct::<true, false>(ring, first, reading),
            (true, true) => self.take_direct::<true, true>(ring, first, reading),
            (false, false) => self.take_direct::<false, false>(ring, first, reading),
            (false, true) => self.take_direct::<false, true>(ring, first, reading),
        }
    }

    #[cold]
    fn take_more(&mut self, ring: usize, reading: &mut Reading) {
        // A bound, because a peer that keeps delivering could hold this loop forever.
        for _ in 0..TRIES {
            if self.watches[0].has_event() {
                self.take_events();
            }
            let Some(first) = self.interface.rings().poll(ring) else { return };
            if self.take_some(ring, first, reading) == Next::Rest {
                return;
            }
        }
    }

    /// Takes messages for one endpoint that fill plain receives, and writes their completions to the caller's array. It
    /// goes on while each message is `LONG` (longer than a slot), or while none is. Other messages are left to
    /// [`Transport::take_any`].
    #[inline(never)]
    fn take_direct<const WHOLE: bool, const LONG: bool>(
        &mut self,
        ring: usize,
        first: PolledHeader,
        reading: &mut Reading,
    ) -> Next {
        if LONG {
            self.interface.rings().prefetch(ring, first);
        }
        let portal = first.portal();
        let Some((bindings, kind)) = self.receiver(portal.into()) else { return self.take_any(ring) };
        // SAFETY: the pointer is null or the queue that an open endpoint is bound to. The array has room for whole
        // entries if `WHOLE`.
        let written = unsafe { CompletionQueue::writes_next::<WHOLE>((*bindings).rx_queue, reading) };
        let Some(mut written) = written else { return self.take_any(ring) };
        let Transport { interface, watches, .. } = self;
        let rings = interface.rings();
        let mut nic = interface.lock();
        if watches[0].has_event() {
            return Next::Again;
        }
        let Some(mut reader) = rings.reader_from(ring, first) else { return Next::Again };
        let Some(mut head) = nic.receives().head(portal.into()) else { return Next::Rest };
        let sender = rings.sender(ring);
        let most = (reading.left() as u64).min(head.posted_count().into()).min(BATCH);
        let mut bytes = 0;
        reader.dequeue_run::<LONG>(portal, most, |message| {
            let RingMessage { envelope, length, .. } = message;
            let put = ring_put(envelope, *length, sender);
            let mut bus = FromRing::<LONG> { interface, message };
            let fits =
                |receive: &Receive| PlainReceive::is_wanted(receive.user_ptr) && *length as u64 <= receive.length;
            let Some(receive) = head.take_receive(&mut bus, &put, fits) else { return false };
            // SAFETY: `writes_next` and the loop's bound leave room for one more completion.
            unsafe {
                written.write(&Completion {
                    context: PlainReceive::context(receive.user_ptr),
                    flags: RECV | kind.flag() | if ring_has_data(envelope) { REMOTE_CQ_DATA } else { 0 },
                    length: *length,
                    buffer: receive.start as *mut c_void,
                    data: envelope.header_data,
                    tag: if kind == Kind::Tagged { envelope.match_bits } else { 0 },
                });
            }
            bytes += length;
            true
        });
        let taken = reader.dequeued();
        interface.charge_copy(bytes as u64);
        reading.has_written(written, taken as usize);
        nic.signals.registers.count_taken(taken, bytes as u64);
        nic.signals.registers.add(Register::ListSteps, taken);
        if nic.receives().posted_count(portal.into()) == 0 {
            self.polling.has_filled_all();
        }
        drop(nic);
        match taken {
            0 => self.take_any(ring),
            _ => Next::Rest,
        }
    }

    /// The endpoint and the kind of messages that a portal table entry is for.
    #[inline(always)]
    pub(crate) fn receiver(&self, portal: u32) -> Option<(*mut Bindings, Kind)> {
        let kind = match portal.wrapping_sub(ENDPOINT_PORTALS) % KINDS {
            0 => Kind::Tagged,
            1 => Kind::Plain,
            _ => return None,
        };
        Some((self.endpoint_of(portal)?, kind))
    }

    /// The open endpoint that a portal table entry belongs to.
    #[inline(always)]
    fn endpoint_of(&self, portal: u32) -> Option<*mut Bindings> {
        let index = portal.wrapping_sub(ENDPOINT_PORTALS) / KINDS;
        self.endpoints.get(index as usize).copied().filter(|endpoint| !endpoint.is_null())
    }

    /// Takes messages of every kind out of a ring, with completions for any queue.
    #[inline(never)]
    fn take_any(&mut self, ring: usize) -> Next {
        let Transport { interface, watches, filled, .. } = self;
        let rings = interface.rings();
        let (mut delivered, mut fired) = (false, false);
        {
            let mut nic = interface.lock();
            if watches[0].has_event() {
                return Next::Again;
            }
            let sender = rings.sender(ring);
            let mut reader = rings.reader(ring);
            let mut bytes = 0;
            let mut matched = 0;
            for _ in 0..BATCH {
                let Some(message) = next_message(rings, ring, &reader) else { break };
                let RingMessage { envelope, bytes: at, length, .. } = &message;
                let mut bus = FromRing::<true> { interface, message: &message };
                match (Arriving { envelope, sender, bytes: *at, length: *length })
                    .hand_in(interface, &mut nic, &mut bus, filled)
                {
                    Handed::Filled(taken) => (matched, bytes) = (matched + 1, bytes + taken),
                    Handed::Delivered => delivered = true,
                    Handed::NoRoom => {
                        delivered = true;
                        break;
                    }
                }
                reader.dequeue(&message);
                if delivered && watches[0].has_event() {
                    break;
                }
            }
            nic.signals.registers.count_taken(matched, bytes);
            interface.charge_copy(bytes);
            if delivered {
                fired = nic.has_fired();
            }
        }
        if !self.filled.is_empty() {
            self.complete_filled();
        }
        if delivered && self.watches[0].has_event() {
            self.take_events();
        }
        self.interface.settle(fired);
        Next::Rest
    }

    /// Completes the receives that were taken off the NIC's lists.
    #[inline(never)]
    pub(crate) fn complete_filled(&mut self) {
        let mut filled = std::mem::take(&mut self.filled);
        for one in filled.drain(..) {
            let Filled { user_ptr, portal, message, start, room, uses_up } = one;
            let number = user_ptr as usize;
            match PlainReceive::of(user_ptr) {
                Some(plain) => self.plain_arrived(portal, plain, &message, room, start, 0),
                None if !uses_up => self.receive_filled(number, &message, start, room, 0),
                None if self.is_multi(number) => self.filled_up(number, &message, start, room, 0),
                None => self.receive_taken(number, &message, start, room),
            }
        }
        self.filled = filled;
    }

    /// Reads the NIC's event queues.
    #[inline(never)]
    pub(crate) fn take_events(&mut self) {
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
        if self.interface.signals().disabled_event_waits(self.queue) {
            // The NIC refused senders and had no room for the event that reports it. There is room again.
            self.interface.lock().queues().post_waiting_disabled(self.queue);
            return self.take_events();
        }
        for (watch, queue) in self.watches.iter_mut().zip([self.queue, self.own_queue]) {
            if let Some(now) = self.interface.watch(queue) {
                *watch = now;
            }
        }
    }

    /// Handles one event. Returns another event that was read with it and still needs handling.
    fn take_event(&mut self, queue: u32, event: &Event) -> Option<Event> {
        let number = event.user_ptr as usize;
        if self.is_deferred(event) {
            self.take_deferred(event);
            return None;
        }
        match event.kind {
            event_kind::PUT if event.user_ptr == u64::MAX => self.take_notification(event),
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
                // The NIC refused senders because the queue was full. This read made room, so the portal table entry
                // opens again.
                let _ = self.interface.lock().portal_table().set(event.portal, true);
            }
            _ => {}
        }
        None
    }

    /// Handles the notification of a write to our memory.
    fn take_notification(&mut self, event: &Event) {
        let Some(endpoint) = self.endpoint_of(event.portal) else { return };
        let flags = RMA | REMOTE_WRITE | REMOTE_CQ_DATA;
        let ticket = Ticket { bindings: endpoint, context: std::ptr::null_mut(), flags: 0, wanted: true };
        let (data, length) = (event.header_data, event.match_bits as usize);
        let entry = Completion { flags, data, length, ..Completion::default() };
        self.complete_uncounted(&ticket, Side::Receive, entry, self.peers.source_name(event.initiator));
    }

    /// Handles the event of a sender that has put its message into a receive.
    fn take_put(&mut self, queue: u32, number: usize, event: &Event) -> Option<Event> {
        let error = error_of(event.fail, EFAULT);
        let message = Arrived::of_event(event);
        let room = match event.mlength < event.rlength {
            true => event.mlength as usize,
            false => event.rlength as usize,
        };
        if let Some(plain) = PlainReceive::of(event.user_ptr) {
            self.plain_arrived(event.portal, plain, &message, room, event.start, error);
            return None;
        }
        if !self.is_multi(number) {
            self.receive_filled(number, &message, event.start, room, error);
            return None;
        }
        // The delivery that used the buffer up posts that event right after the one of its message, under the same
        // lock. Taking the lock once waits for it.
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
