// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An operation from command to completion.
//!
//! ```text
//! start ── target reachable ──> lock target, deliver, unlock ──> SEND, ACK or REPLY at the initiator
//!    └──── host mode, or not ─> packet into a ring of the target ──> SEND;  response packet ──> ACK or REPLY
//! ```
//!
//! A delivery can fire triggered operations. The process that made the delivery executes them, one after the other. At
//! most one process at a time does this for a NIC (the NIC's `drainer`). It holds no lock while they run. The work is a
//! loop over the NICs concerned, never a recursion.
//!
//! Invariants
//! 1. A thread never holds more than one NIC's lock.
//! 2. A target handles the requests of one initiator in the order in which they were started: while packets of the
//!    initiator wait at the target, its further requests queue behind them. Only the initiator enqueues its requests. If
//!    another process runs its triggered operations, it leaves those to the initiator that it cannot deliver.
//! 3. Every request that asks for a response gets one: from the target, or `PTL_NI_UNDELIVERABLE` when the target's
//!    process is found dead.
//! 4. An operation that finds its ring full waits, and handles the packets of all NICs of this process meanwhile.
//!    Packets that progress itself sends go to the `outbox` instead, so that two full rings never wait for each other.

use std::collections::VecDeque;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::{Duration, Instant};

use selvedge_nic::handle::NONE;
use selvedge_nic::limits::VELO_BYTES_MAX;
use selvedge_nic::packet::{Packet, Place as Position, RESPONSE};
use selvedge_nic::portals::{Delivery, Request, Verdict, fail};
use selvedge_nic::tables::{Command, kind};
use selvedge_nic::{Fault, NoMemory, Register};

use crate::backend::WhenFull;
use crate::endpoint::Endpoint;
use crate::errors::{PostError, StartError};
use crate::interface::{Interface, open_interfaces};
use crate::memory::{LiveBus, Payload, Reply, gather, scatter, side_is_reachable};
use crate::os::process::Identity;
use crate::packet_queue::{Held, Outgoing, Sender};
use crate::packets::{self, Taken};

/// Number of operations between checks whether a target is alive.
const LOOK_EVERY: u32 = 4096;

/// Polls between reads of the clock.
const POLLS_PER_TICK: u32 = 1024;

/// The initiator of an operation: its NIC, and the slot of a triggered operation.
#[derive(Clone, Copy)]
struct Origin<'a> {
    endpoint: &'a Endpoint,
    fired: u32,
}

impl std::ops::Deref for Origin<'_> {
    type Target = Endpoint;
    #[inline(always)]
    fn deref(&self) -> &Endpoint {
        self.endpoint
    }
}

/// NICs with fired triggered operations to execute.
type Due<'a> = Vec<&'a Endpoint>;

impl Interface {
    /// Starts an operation of this process. Most operations are complete when it returns.
    #[inline]
    pub fn start(&self, command: &Command) -> Result<(), StartError> {
        self.start_when(command, WhenFull::Wait)
    }

    /// As `start`, for an operation whose reply the caller waits for next.
    #[inline]
    pub fn start_awaited(&self, command: &Command) -> Result<(), StartError> {
        match self.offers.executes_here {
            true => self.start_here(command, WhenFull::Wait),
            false => self.start_elsewhere_awaited(command),
        }
    }

    /// As `start`, but never waits: it fails if the ring at the target is full or too many requests are pending.
    pub fn start_now(&self, command: &Command) -> Result<(), StartError> {
        self.start_when(command, WhenFull::Refuse)
    }

    #[inline]
    fn start_when(&self, command: &Command, full: WhenFull) -> Result<(), StartError> {
        match self.offers.executes_here {
            true => self.start_here(command, full),
            false => self.start_elsewhere(command, full),
        }
    }

    /// Not inlined in `start`, which runs often where this is not called.
    #[cold]
    fn start_elsewhere(&self, command: &Command, full: WhenFull) -> Result<(), StartError> {
        self.backend.start(self, command, full)
    }

    #[cold]
    fn start_elsewhere_awaited(&self, command: &Command) -> Result<(), StartError> {
        self.backend.start_awaited(self, command)
    }

    /// Executes an operation of this process.
    #[inline]
    pub(crate) fn start_here(&self, command: &Command, full: WhenFull) -> Result<(), StartError> {
        self.progress();
        let mut due = Due::new();
        let result = self.execute(Origin { endpoint: &self.own, fired: NONE }, command, full, &mut due).map(|_| ());
        if !due.is_empty() {
            self.drain_all(due);
        }
        result
    }

    /// Has the triggered operations executed that a change of the own NIC has fired. The caller does not hold the lock.
    #[inline]
    pub fn settle(&self, fired: bool) {
        if fired {
            self.backend.settle(self);
        }
    }

    /// Executes the own NIC's fired triggered operations.
    pub(crate) fn settle_here(&self) {
        self.drain_all(vec![&self.own]);
    }

    /// Executes the triggered operations that a change of another NIC has fired.
    #[inline]
    pub(crate) fn settle_at(&self, endpoint: &Endpoint, fired: bool) {
        if fired {
            self.drain_all(vec![endpoint]);
        }
    }

    /// Runs one command for the initiator `from`. False: only the initiator can run it, and nothing has changed.
    #[inline]
    fn execute<'a>(
        &'a self,
        from: Origin<'a>,
        command: &Command,
        full: WhenFull,
        due: &mut Due<'a>,
    ) -> Result<bool, StartError> {
        let Some(target) = self.endpoint(command.target) else {
            return self.check_source(from, command).map(|()| self.undeliverable(from, command, due)).map(|()| true);
        };
        if !from.own {
            packets::open(target, &self.config.directory);
        }
        if self.runs(target) {
            if let Some(result) = self.deliver(from, target, command, due) {
                return result.map(|()| true);
            }
        }
        if !from.own {
            return Ok(false);
        }
        self.send(from, target, command, full, due).map(|()| true)
    }

    /// Runs the target's NIC. None: this process cannot run it, or the request must queue behind packets.
    #[inline]
    fn deliver<'a>(
        &'a self,
        from: Origin<'a>,
        target: &'a Endpoint,
        command: &Command,
        due: &mut Due<'a>,
    ) -> Option<Result<(), StartError>> {
        let mut bus = LiveBus::of(command, from.endpoint, target, self.config.path);
        let (verdict, fired) = {
            let mut guard = target.segment.lock(self.word);
            if !target.own && self.has_packets_at(target, from.id, &guard) {
                return None;
            }
            let verdict = guard.deliver(&mut bus, &command.request);
            (verdict, guard.has_fired())
        };
        if fired {
            due.push(target);
        }
        match verdict {
            Verdict::Done(delivery) => {
                if command.reports(&delivery) {
                    self.complete(from, command, fail::OK, Some(&delivery), due);
                }
                Some(Ok(()))
            }
            Verdict::Unreachable => None,
            Verdict::Full => Some(Err(StartError::NoSpace)),
            Verdict::Initiator(Fault::Gone) => {
                target.look_alive();
                self.undeliverable(from, command, due);
                Some(Ok(()))
            }
            Verdict::Initiator(_) if from.own => Some(Err(StartError::Memory)),
            Verdict::Initiator(_) => {
                self.complete(from, command, fail::SEGV, Some(&Delivery::failed(fail::SEGV)), due);
                Some(Ok(()))
            }
        }
    }

    /// Posts SEND, and ACK or REPLY, at an initiator.
    fn complete<'a>(
        &'a self,
        from: Origin<'a>,
        command: &Command,
        sent: u8,
        delivery: Option<&Delivery>,
        due: &mut Due<'a>,
    ) {
        let fired = {
            let mut guard = from.segment.lock(self.word);
            guard.begin_report(from.fired, command, false);
            guard.complete_send(command, sent);
            if let Some(delivery) = delivery {
                guard.begin_report(from.fired, command, true);
                guard.complete_response(command, delivery);
            }
            guard.finish_run(from.fired, self.word);
            guard.has_fired()
        };
        if fired {
            due.push(from.endpoint);
        }
    }

    /// Completes an operation whose target process does not exist.
    #[cold]
    fn undeliverable<'a>(&'a self, from: Origin<'a>, command: &Command, due: &mut Due<'a>) {
        from.segment.lock(self.word).signals.registers.add(Register::Undeliverable, 1);
        self.complete(from, command, fail::UNDELIVERABLE, Some(&Delivery::failed(fail::UNDELIVERABLE)), due);
    }

    /// Checks that the initiator's own memory is mapped, before any other step depends on it.
    fn check_source(&self, from: Origin<'_>, command: &Command) -> Result<(), StartError> {
        if from.own && command.has_payload() {
            let bytes = command.length.min(64 << 10);
            gather(&from, &command.source, bytes, self.config.path).map_err(|_| StartError::Memory)?;
        }
        Ok(())
    }

    /// Sends the request as a packet.
    fn send<'a>(
        &'a self,
        from: Origin<'a>,
        target: &'a Endpoint,
        command: &Command,
        full: WhenFull,
        due: &mut Due<'a>,
    ) -> Result<(), StartError> {
        // Check for room before the payload is copied.
        if full == WhenFull::Refuse && packets::is_full(target, &self.sender()) {
            target.look_alive();
            return Err(StartError::NoSpace);
        }
        let payload = match command.has_payload() {
            true => gather(&from, &command.source, command.length, self.config.path).map_err(|_| StartError::Memory)?,
            false => Vec::new(),
        };
        let token = self.pend(from, target, command, full)?;
        let packet = request_packet(command, from.id, wire_token(token, from.owner()));
        loop {
            match packets::enqueue(target, &self.sender(), &packet, &payload) {
                Ok(()) => {
                    target.routes.note_packet();
                    break;
                }
                Err(PostError::Full) => match full {
                    WhenFull::Wait => self.make_room(target),
                    WhenFull::SetAside => {
                        self.set_aside(target.id, packet, payload);
                        break;
                    }
                    WhenFull::Refuse => {
                        from.segment.lock(self.word).take_pending(token);
                        return Err(StartError::NoSpace);
                    }
                },
                Err(PostError::NoSpace) => {
                    from.segment.lock(self.word).take_pending(token);
                    return Err(StartError::NoSpace);
                }
                Err(PostError::Gone) => {
                    let is_ended = token != 0 && from.segment.lock(self.word).take_pending(token).is_none();
                    if is_ended {
                        break;
                    }
                    self.undeliverable(from, command, due);
                    return Ok(());
                }
            }
        }
        self.complete(from, command, fail::OK, None, due);
        Ok(())
    }

    /// A token for the response; 0 when no response is wanted.
    fn pend(&self, from: Origin<'_>, target: &Endpoint, command: &Command, full: WhenFull) -> Result<u64, StartError> {
        if !command.wants_response() {
            return Ok(0);
        }
        loop {
            if let Ok(token) = from.segment.lock(self.word).add_pending(command, target.owner()) {
                return Ok(token);
            }
            if full != WhenFull::Wait {
                return Err(StartError::NoSpace);
            }
            self.progress_all();
            self.tick();
            std::thread::yield_now();
        }
    }

    /// Sleeps briefly while a ring is full, and handles the packets of this process.
    fn make_room(&self, target: &Endpoint) {
        self.progress_all();
        target.look_alive();
        std::thread::sleep(Duration::from_micros(20));
    }

    pub(crate) fn sender(&self) -> Sender<'_> {
        let pid = self.own.id as usize;
        Sender { word: self.word, pid, os_pid: self.os_pid, directory: &self.config.directory, spills: &self.spills }
    }

    fn set_aside(&self, target: u64, packet: Packet, payload: Vec<u8>) {
        let mut outbox = self.outbox.lock().unwrap_or_else(|poison| poison.into_inner());
        outbox.push_back(Outgoing { target, packet, payload });
        self.outbox_waits.store(true, SeqCst);
    }

    // ---- Triggered operations ------------------------------------------------------------------------------------

    #[cold]
    fn drain_all<'a>(&'a self, mut due: Due<'a>) {
        while let Some(endpoint) = due.pop() {
            if self.runs(endpoint) {
                self.drain(endpoint, &mut due);
            }
        }
    }

    /// Executes a NIC's fire queue, unless another process already does.
    fn drain<'a>(&'a self, endpoint: &'a Endpoint, due: &mut Due<'a>) {
        let mut finished = None;
        loop {
            let fired = {
                let mut guard = endpoint.segment.lock(self.word);
                let drainer = guard.tables.control.drainer;
                match finished.take() {
                    Some(index) => guard.finish_run(index, self.word),
                    None if drainer == self.word || (drainer != 0 && Identity::word_is_alive(drainer)) => return,
                    None if drainer != 0 => guard.fail_orphans(&mut NoMemory, Identity::word_is_alive),
                    None => {}
                }
                guard.tables.control.drainer = self.word;
                let mut bus = LiveBus {
                    target: endpoint,
                    payload: Payload::Nothing,
                    reply: Reply::Nothing,
                    path: self.config.path,
                };
                let fired = guard.with_revocation(|nic| nic.next_fired(&mut bus, self.word)).unwrap_or(None);
                let fired = match fired {
                    Some(fired) if !self.can_run(endpoint, &fired.command) => {
                        guard.return_fired(fired.index);
                        None
                    }
                    fired => fired,
                };
                if fired.is_none() {
                    guard.tables.control.drainer = 0;
                }
                fired
            };
            let Some(fired) = fired else { return };
            let origin = Origin { endpoint, fired: fired.index };
            match self.execute(origin, &fired.command, WhenFull::SetAside, due) {
                Ok(true) => {}
                Ok(false) => {
                    let mut guard = endpoint.segment.lock(self.word);
                    guard.return_fired(fired.index);
                    guard.tables.control.drainer = 0;
                    return;
                }
                Err(error) => {
                    let code = if error == StartError::Memory { fail::SEGV } else { fail::UNDELIVERABLE };
                    self.complete(origin, &fired.command, code, Some(&Delivery::failed(code)), due);
                }
            }
            finished = Some(fired.index);
        }
    }

    /// Whether this process may run a NIC, own or peer.
    #[inline(always)]
    pub(crate) fn runs(&self, endpoint: &Endpoint) -> bool {
        endpoint.own || self.offers.runs_peers
    }

    /// Whether this process can reach the memory of an operation's initiator.
    fn can_run(&self, from: &Endpoint, command: &Command) -> bool {
        let path = self.config.path;
        from.own
            || ((!command.has_payload() || side_is_reachable(from, &command.source, command.length, path))
                && (!command.has_reply() || side_is_reachable(from, &command.sink, command.length, path)))
    }

    // ---- The owner's progress ------------------------------------------------------------------------------------

    /// Handles the work that waits for this process: packets, and triggered operations that only it can run.
    #[inline(always)]
    pub fn progress(&self) {
        let bell = self.bell();
        if bell.has_packets() || bell.owner_wanted.load(Relaxed) != 0 || self.outbox_waits.load(Relaxed) {
            self.progress_slow();
        }
    }

    /// Makes progress for every NIC of this process. A thread that waits calls this: the process that it waits for may
    /// itself wait for room in a ring of another NIC of this process.
    #[cold]
    pub(crate) fn progress_all(&self) {
        self.progress();
        for other in open_interfaces() {
            if !ptr::eq(self, &raw const *other) {
                other.progress();
            }
        }
    }

    #[cold]
    fn progress_slow(&self) {
        let Ok(mut turn) = self.turn.try_lock() else { return };
        self.flush_outbox();
        let mut due = Due::new();
        if !turn.held.is_empty() {
            self.offer_held(&mut turn.held);
        }
        // The first ring that a held up message waits in. When its turn comes again, all other rings have had theirs.
        let mut stalled = None;
        loop {
            let mut guard = self.own.segment.lock(self.word);
            let Some(found) = packets::find(&self.rings, &mut turn, guard.signals.doorbell) else { break };
            let taken = match found.read(&self.config.directory) {
                Ok(taken) => taken,
                Err(why) => {
                    log::error!("a packet was dropped: {why}");
                    guard.signals.registers.add(Register::Packets, 1);
                    found.dequeue();
                    continue;
                }
            };
            let (bytes, held) = taken.bytes();
            if taken.packet.kind == RESPONSE {
                let token = taken.packet.token & TOKEN_MASK;
                let command =
                    if wire_token(token, self.word) == taken.packet.token { guard.take_pending(token) } else { None };
                if let Some(command) = &command {
                    self.respond(&mut guard, command, &taken.packet, bytes, held);
                }
                guard.signals.registers.add(Register::Packets, 1);
                found.dequeue();
                if guard.has_fired() {
                    due.push(&self.own);
                }
                continue;
            }
            let mut reply = Vec::new();
            let mut bus = LiveBus {
                target: &self.own,
                payload: Payload::Bytes(bytes, held),
                reply: Reply::Bytes(&mut reply),
                path: self.config.path,
            };
            let request = Request::from(&taken.packet);
            let verdict = match request.kind == kind::VELO_SEND && turn.held.holds_up(&request) {
                true => Verdict::Full,
                false => guard.deliver(&mut bus, &request),
            };
            let delivery = match verdict {
                Verdict::Done(delivery) => delivery,
                Verdict::Full if turn.held.is_full() => {
                    let pid = turn.pid;
                    if stalled == Some(pid) {
                        break;
                    }
                    stalled.get_or_insert(pid);
                    turn.left = 0;
                    continue;
                }
                Verdict::Full => {
                    // SAFETY: `bytes` and `held` are the packet's payload, which stays until the packet is dequeued.
                    turn.held.push(&request, unsafe { payload_of(bytes, held.min(VELO_BYTES_MAX.into())) });
                    Delivery::failed(fail::DROPPED)
                }
                Verdict::Unreachable | Verdict::Initiator(_) => Delivery::failed(fail::DROPPED),
            };
            guard.signals.registers.add(Register::Packets, 1);
            found.dequeue();
            if guard.has_fired() {
                due.push(&self.own);
            }
            drop(guard);
            if taken.packet.token != 0 {
                self.answer(&taken, &delivery, reply);
            }
        }
        if !turn.held.is_empty() {
            // Every call offers the messages again.
            self.bell().packets.store(1, SeqCst);
        }
        if self.bell().owner_wanted.swap(0, SeqCst) != 0 {
            due.push(&self.own);
        }
        if !due.is_empty() {
            self.drain_all(due);
        }
    }

    /// Offers messages again that found a full mailbox.
    fn offer_held(&self, held: &mut Held) {
        held.offer(|request, payload| {
            let mut bus = LiveBus {
                target: &self.own,
                payload: Payload::Bytes(payload.as_ptr(), payload.len() as u64),
                reply: Reply::Nothing,
                path: self.config.path,
            };
            self.own.segment.lock(self.word).deliver(&mut bus, request) != Verdict::Full
        });
    }

    /// Handles a response: copies its data to the descriptor's memory, then posts the events.
    fn respond(
        &self,
        guard: &mut crate::lock::Guard<'_>,
        command: &Command,
        packet: &Packet,
        bytes: *const u8,
        held: u64,
    ) {
        let mut delivery = Delivery {
            fail: packet.fail,
            mlength: packet.length.min(command.length),
            remote_offset: packet.remote_offset,
            ack_disabled: packet.ack & 1 == 0,
            list: packet.ack >> 1,
        };
        let carries = command.has_reply() && delivery.fail == fail::OK;
        if carries {
            let length = delivery.mlength.min(held);
            let is_admitted = guard.admits_reply(&mut NoMemory, command);
            if !is_admitted || scatter(&self.own, &command.sink, bytes, length, self.config.path).is_err() {
                (delivery.fail, delivery.mlength) = (fail::SEGV, 0);
            }
        }
        guard.complete_response(command, &delivery);
    }

    /// Sends the response to a request that arrived as a packet.
    fn answer(&self, taken: &Taken, delivery: &Delivery, mut reply: Vec<u8>) {
        reply.truncate(delivery.mlength as usize);
        let packet = Packet {
            kind: RESPONSE,
            fail: delivery.fail,
            ack: u8::from(!delivery.ack_disabled) | delivery.list << 1,
            length: delivery.mlength,
            remote_offset: delivery.remote_offset,
            place: Position::Inline,
            ..taken.packet
        };
        let Some(origin) = self.endpoint(taken.packet.origin) else { return };
        match packets::enqueue(origin, &self.sender(), &packet, &reply) {
            Ok(()) | Err(PostError::Gone) => {}
            Err(PostError::Full) => self.set_aside(origin.id, packet, reply),
            Err(PostError::NoSpace) => {
                let packet = Packet { fail: fail::UNDELIVERABLE, length: 0, ..packet };
                if packets::enqueue(origin, &self.sender(), &packet, &[]).is_err() {
                    self.set_aside(origin.id, packet, Vec::new());
                }
            }
        }
    }

    fn flush_outbox(&self) {
        if !self.outbox_waits.load(Relaxed) {
            return;
        }
        let mut outbox = self.outbox.lock().unwrap_or_else(|poison| poison.into_inner());
        let mut blocked = VecDeque::new();
        while let Some(item) = outbox.pop_front() {
            let waits = blocked.iter().any(|other: &Outgoing| other.target == item.target);
            let Some(target) = self.endpoint(item.target) else { continue };
            let post = || packets::enqueue(target, &self.sender(), &item.packet, &item.payload);
            if waits || matches!(post(), Err(PostError::Full | PostError::NoSpace)) {
                blocked.push_back(item);
            }
        }
        *outbox = blocked;
        self.outbox_waits.store(!outbox.is_empty(), SeqCst);
    }

    /// Progress for a program that polls and never waits.
    #[inline]
    pub fn poll(&self) {
        match self.offers.polls_here {
            true => self.poll_here(),
            false => self.backend.poll(self),
        }
    }

    /// Makes progress, and checks for dead processes now and then.
    #[inline(always)]
    pub(crate) fn poll_here(&self) {
        self.progress();
        let polls = self.polls.load(Relaxed).wrapping_add(1);
        self.polls.store(polls, Relaxed);
        if polls % POLLS_PER_TICK == 0 {
            self.progress_all();
            self.tick();
        }
    }

    /// Checks for dead processes, if this process has to find them. The requests to them fail.
    pub fn tick(&self) {
        self.backend.tick(self);
    }

    /// Checks for dead processes: fails the requests to them, and takes over the triggered operations that they
    /// executed.
    pub(crate) fn tick_here(&self) {
        let Ok(mut last) = self.last_tick.try_lock() else { return };
        if last.is_some_and(|last: Instant| last.elapsed() < Duration::from_millis(10)) {
            return;
        }
        *last = Some(Instant::now());
        self.look_around();
        self.fail_lost();
        let bell = self.bell();
        // A sender may have died after it enqueued a packet and before it rang the doorbell.
        if packets::any(&self.rings) {
            bell.packets.swap(1, SeqCst);
        }
        let drainer_died = {
            let guard = self.own.segment.lock(self.word);
            let drainer = guard.tables.control.drainer;
            (drainer != 0 && !Identity::word_is_alive(drainer)) || (drainer == 0 && bell.fired.load(Acquire) != 0)
        };
        if drainer_died {
            self.drain_all(vec![&self.own]);
        }
    }

    /// Fails the requests whose target has died.
    fn fail_lost(&self) {
        loop {
            let mut due = Due::new();
            let mut last = (0, 0, true);
            let lost = {
                let guard = self.own.segment.lock(self.word);
                guard.find_pending(|target, responder| {
                    if (target, responder) != (last.0, last.1) {
                        last = (target, responder, self.answers(target, responder));
                    }
                    !last.2
                })
            };
            let Some(token) = lost else { return };
            // The target may have responded before it died. Its response is in a ring by now, so handle that first.
            self.progress();
            if packets::any_of(&self.rings, last.0) {
                self.bell().packets.swap(1, SeqCst);
                return;
            }
            let Some(command) = self.own.segment.lock(self.word).take_pending(token) else { continue };
            let fired = {
                let mut guard = self.own.segment.lock(self.word);
                guard.signals.registers.add(Register::Undeliverable, 1);
                guard.complete_response(&command, &Delivery::failed(fail::UNDELIVERABLE));
                guard.has_fired()
            };
            if fired {
                due.push(&self.own);
            }
            self.drain_all(due);
        }
    }

    /// Counts the operations to a target. True when it is time to check whether the target is alive.
    #[inline(always)]
    pub(crate) fn due_for_look(&self, uses: u32) -> bool {
        uses % LOOK_EVERY == LOOK_EVERY - 1
    }
}

/// A copy of a packet's payload.
///
/// # Safety
/// There are so many readable bytes, in a ring or in memory of ours.
unsafe fn payload_of(bytes: *const u8, count: u64) -> Vec<u8> {
    let mut copy = Vec::with_capacity(count as usize);
    // SAFETY: the caller's. A peer may store to its ring meanwhile; the bytes are copied once and are plain data.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes, copy.as_mut_ptr(), count as usize);
        copy.set_len(count as usize);
    }
    copy
}

/// The part of a packet's token that identifies the pending request.
const TOKEN_MASK: u64 = (1 << 33) - 1;

/// A token as packets carry it. It includes the operating system's pid of the requesting process, so that another
/// process that has since taken the same Portals id does not accept the response.
fn wire_token(token: u64, owner: u64) -> u64 {
    match token {
        0 => 0,
        token => token & TOKEN_MASK | (owner >> 32) << 33,
    }
}

fn request_packet(command: &Command, origin: u64, token: u64) -> Packet {
    Packet {
        kind: command.kind,
        fail: 0,
        operation: command.operation,
        datatype: command.datatype,
        ack: command.ack,
        place: Position::Inline,
        portal: command.portal,
        uid: command.uid,
        initiator: command.initiator,
        origin,
        token,
        match_bits: command.match_bits,
        remote_offset: command.remote_offset,
        header_data: command.header_data,
        length: command.length,
        operand: command.operand,
        payload_bytes: 0,
        sender: 0,
    }
}
