// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An operation from command to completion.
//!
//! ```text
//! start ── target reachable ──> lock target, deliver, unlock ──> SEND, ACK or REPLY at the initiator
//!  └──── host mode, or not ─> packet into a ring of the target ──> SEND;  response packet ──> ACK or REPLY
//! ```
//!
//! A delivery can fire triggered operations. The process that made the delivery executes them, one after the other. At
//! most one process at a time does this for a NIC (the NIC's `drainer`). It holds no lock while they run. The work is a
//! loop over the NICs concerned, never a recursion.
//!
//! Invariants
//! 1. A thread never holds more than one NIC's lock.
//! 2. A target handles the requests of one initiator in the order in which they were started: while packets of the
//!    initiator wait at the target, its further requests queue behind them. Only the initiator enqueues its requests.
//!    Another process that runs its triggered operations leaves those that it cannot deliver to the initiator.
//! 3. Every request that asks for a response gets one: from the target, or `PTL_NI_UNDELIVERABLE` when the target's
//!    process is found dead.
//! 4. An operation that finds its ring full waits, and handles the packets of all NICs of this process meanwhile.
//!    Packets that progress itself sends go to the `outbox` instead, so that two full rings never wait for each other.

use std::time::Duration;

use selvedge_nic::handle::NONE;
use selvedge_nic::packet::Packet;
use selvedge_nic::portals::triggered::Fired;
use selvedge_nic::portals::{Delivery, Verdict, fail};
use selvedge_nic::rma::LateAnswer;
use selvedge_nic::tables::{BlockedHead, BlockedRing, Command, blocked, kind};
use selvedge_nic::velo::Header;
use selvedge_nic::{Fault, NoMemory, Register};

use crate::backend::WhenFull;
use crate::config::REMOTE;
use crate::deferred_replies;
use crate::endpoint::Endpoint;
use crate::errors::{PostError, StartError};
use crate::interface::Interface;
use crate::memory::{LiveBus, gather, side_is_reachable};
use crate::outbox::{Answered, Outgoing, RequestPayload};
use crate::owner::wire_token;
use crate::packets;
use selvedge_os::process::Identity;

/// Polls between reads of the clock.
pub(crate) const POLLS_PER_TICK: u32 = 1024;

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

#[derive(Clone, Copy)]
struct Outbound<'a> {
    command: &'a Command,
    /// The word of the process that will answer.
    responder: u64,
    full: WhenFull,
}

/// NICs with fired triggered operations to execute, or answers to send.
pub(crate) type Due<'a> = Vec<&'a Endpoint>;

enum Work {
    Run(Fired),
    Answer(LateAnswer),
}

enum Finished {
    /// The slot of a triggered operation.
    Run(u32),
    Answer(Answered),
    SetAside,
}

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
            false => self.start_in_home_awaited(command),
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
            false => self.start_in_home(command, full),
        }
    }

    /// Not inlined in `start`, which is hot and rarely calls it.
    #[cold]
    fn start_in_home(&self, command: &Command, full: WhenFull) -> Result<(), StartError> {
        self.record_issue(command);
        self.backend.start(self, command, NONE, full)
    }

    #[cold]
    fn start_in_home_awaited(&self, command: &Command) -> Result<(), StartError> {
        self.record_issue(command);
        self.backend.start_awaited(self, command)
    }

    #[cold]
    fn record_issue(&self, command: &Command) {
        if self.own.segment.is_recorded() && command.is_portals() {
            self.own.segment.lock(self.word).show_issue(command);
        }
    }

    #[inline]
    pub(crate) fn start_here(&self, command: &Command, full: WhenFull) -> Result<(), StartError> {
        self.progress_at_start();
        if self.own.segment.is_recorded() {
            self.record_issue(command);
        }
        let mut due = Due::new();
        let result = self.execute(Origin { endpoint: &self.own, fired: NONE }, command, full, &mut due).map(|_| ());
        if !due.is_empty() {
            self.drain_all(due);
        }
        result
    }

    /// Executes the triggered operations that a change of the own NIC has fired. The caller does not hold the lock.
    #[inline]
    pub fn settle(&self, fired: bool) {
        if fired {
            self.backend.settle(self);
        }
    }

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
            if self.is_remote(command.target) {
                let start = || self.backend.start(self, command, from.fired, full).map(|()| true);
                return if from.own { start() } else { Ok(false) };
            }
            return self.check_source(from, command).map(|()| self.undeliverable(from, command, due)).map(|()| true);
        };
        if !from.own {
            packets::open(target, &self.config.directory);
        }
        // One that is refused, and tried again, counts once.
        let count = || self.work_at(target).command(command.request.kind, command.request.length);
        if self.runs(target) {
            if let Some(result) = self.deliver(from, target, command, due) {
                return result.map(|()| {
                    count();
                    true
                });
            }
        }
        if !from.own {
            return Ok(false);
        }
        self.send(from, target, command, full, due)?;
        count();
        Ok(true)
    }

    /// Runs the target's NIC. None if this process cannot run it, or the request must queue behind packets.
    #[inline]
    fn deliver<'a>(
        &'a self,
        from: Origin<'a>,
        target: &'a Endpoint,
        command: &Command,
        due: &mut Due<'a>,
    ) -> Option<Result<(), StartError>> {
        let pending = deferred_replies::pend_lock(self.word, from.endpoint, target, command);
        let mut bus = LiveBus::of(command, from.endpoint, target, self.config.path);
        bus.asker = pending.map(|token| deferred_replies::asker(from.endpoint, token));
        let mut blocked = None;
        let (verdict, fired) = {
            let mut guard = target.segment.lock(self.word);
            // Earlier packets wait.
            if !target.own && packets::wait_for(target, from.id, self.own.id, &guard) {
                (Verdict::Unreachable, false)
            } else {
                let verdict = guard.deliver(&mut bus, &command.request);
                if !command.is_portals() && matches!(&verdict, Verdict::Done(delivery) if delivery.fail != fail::OK) {
                    blocked = guard.tables.blocked.as_deref_mut().and_then(BlockedRing::take_unlogged);
                }
                (verdict, guard.has_fired())
            }
        };
        if let Some(newest) = blocked {
            log_blocked(newest);
        }
        if fired {
            due.push(target);
        }
        if pending.is_some_and(|token| verdict != Verdict::Kept && !self.take_back(from, token)) {
            return Some(Ok(()));
        }
        match verdict {
            Verdict::Kept => Some(Ok(())),
            Verdict::Done(delivery) => {
                if command.reports(&delivery) {
                    self.complete(from, command, fail::OK, Some(&delivery), due);
                }
                Some(Ok(()))
            }
            Verdict::Unreachable => None,
            Verdict::Full => Some(Err(StartError::NoSpace)),
            Verdict::Initiator(Fault::Gone) => {
                target.check_alive();
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

    /// Removes a pending request that was not kept. False: its target was found dead meanwhile, and it has failed.
    #[cold]
    fn take_back(&self, from: Origin<'_>, token: u64) -> bool {
        from.segment.lock(self.word).pending_mut().take(token).is_some()
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
            guard.triggered().begin_report(from.fired, command, false);
            guard.complete_send(command, sent);
            if let Some(delivery) = delivery {
                guard.triggered().begin_report(from.fired, command, true);
                guard.complete_response(command, delivery);
            }
            guard.triggered().finish_run(from.fired, self.word);
            guard.has_fired()
        };
        if fired {
            due.push(from.endpoint);
        }
    }

    /// Completes an operation without a living target process.
    #[cold]
    fn undeliverable<'a>(&'a self, from: Origin<'a>, command: &Command, due: &mut Due<'a>) {
        let blocked = {
            let mut guard = from.segment.lock(self.word);
            guard.signals.registers.add(Register::Undeliverable, 1);
            guard.tables.blocked.as_deref_mut().and_then(|heads| {
                heads.push(&head_of(command));
                heads.take_unlogged()
            })
        };
        if let Some(newest) = blocked {
            log_blocked(newest);
        }
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
            target.check_alive();
            return Err(StartError::NoSpace);
        }
        let payload = match command.has_payload() {
            true => gather(&from, &command.source, command.length, self.config.path).map_err(|_| StartError::Memory)?,
            false => Vec::new(),
        };
        let payload = RequestPayload::Copied(payload);
        let request = Outbound { command, responder: target.owner(), full };
        self.send_by(from, request, payload, due, |packet, payload| {
            let RequestPayload::Copied(bytes) = payload else { return Err(PostError::Gone) };
            let result = packets::enqueue(target, &self.sender(), packet, bytes);
            match result {
                Ok(()) => target.routes.note_packet(),
                Err(PostError::Full) if full == WhenFull::Wait => _ = target.check_alive(),
                Err(_) => {}
            }
            result
        })
    }

    /// Sends a request to a NIC of another host as a packet, for the home that carries it: `post` gives the packet to
    /// its link. `fired` and `full` are those of [`crate::backend::Backend::start`].
    pub fn send_request(
        &self,
        command: &Command,
        fired: u32,
        full: WhenFull,
        payload: RequestPayload,
        post: impl FnMut(&Packet, &mut RequestPayload) -> Result<(), PostError>,
    ) -> Result<(), StartError> {
        let mut due = Due::new();
        let from = Origin { endpoint: &self.own, fired };
        let result = self.send_by(from, Outbound { command, responder: REMOTE, full }, payload, &mut due, post);
        // Within a drain of this NIC this returns at once: the drain continues with the fired operations.
        if !due.is_empty() {
            self.drain_all(due);
        }
        result
    }

    /// Sends the request as a packet by `post`, which may take the payload, but not after an error.
    fn send_by<'a>(
        &'a self,
        from: Origin<'a>,
        request: Outbound<'_>,
        mut payload: RequestPayload,
        due: &mut Due<'a>,
        mut post: impl FnMut(&Packet, &mut RequestPayload) -> Result<(), PostError>,
    ) -> Result<(), StartError> {
        let Outbound { command, full, .. } = request;
        let token = self.pend(from, request)?;
        let wire_token = wire_token(token, from.owner());
        let packet = Packet { origin: from.id, token: wire_token, ..Packet::from(&command.request) };
        loop {
            match post(&packet, &mut payload) {
                Ok(()) => break,
                Err(PostError::Full) => match full {
                    WhenFull::Wait => self.make_room(),
                    WhenFull::SetAside => {
                        let payload = payload.into_bytes();
                        self.outbox.push(Outgoing { target: command.target, packet, payload, answered: None });
                        break;
                    }
                    WhenFull::Refuse => {
                        from.segment.lock(self.word).pending_mut().take(token);
                        return Err(StartError::NoSpace);
                    }
                },
                Err(PostError::Shortage) => {
                    from.segment.lock(self.word).pending_mut().take(token);
                    return Err(StartError::Shortage);
                }
                Err(PostError::Gone) => {
                    let is_ended = token != 0 && from.segment.lock(self.word).pending_mut().take(token).is_none();
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

    /// Returns a token for the response; 0 if no response is wanted.
    fn pend(&self, from: Origin<'_>, request: Outbound<'_>) -> Result<u64, StartError> {
        let Outbound { command, responder, full } = request;
        if !command.wants_response() {
            return Ok(0);
        }
        loop {
            if let Ok(token) = from.segment.lock(self.word).pending_mut().add(command, responder) {
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

    /// Sleeps briefly while a ring or a link is full, and handles the packets of this process.
    fn make_room(&self) {
        self.progress_all();
        std::thread::sleep(Duration::from_micros(20));
    }

    // ---- Triggered operations ------------------------------------------------------------------------------------

    #[cold]
    pub(crate) fn drain_all<'a>(&'a self, mut due: Due<'a>) {
        while let Some(endpoint) = due.pop() {
            if self.runs(endpoint) {
                self.drain(endpoint, &mut due);
            }
        }
    }

    /// Executes a NIC's fire queue and sends the answers that are due, unless another process does so.
    fn drain<'a>(&'a self, endpoint: &'a Endpoint, due: &mut Due<'a>) {
        let mut finished = None;
        loop {
            let work = {
                let mut guard = endpoint.segment.lock(self.word);
                let drainer = guard.tables.control.drainer;
                match finished.take() {
                    Some(Finished::Run(index)) => guard.triggered().finish_run(index, self.word),
                    Some(Finished::Answer(answered)) => guard.locks().finish_answer(answered.index, answered.sequence),
                    Some(Finished::SetAside) => {}
                    None if drainer == self.word || (drainer != 0 && Identity::word_is_alive(drainer)) => return,
                    None if drainer != 0 => guard.fail_orphans(&mut NoMemory, Identity::word_is_alive),
                    None => {}
                }
                guard.tables.control.drainer = self.word;
                let mut bus = LiveBus::without_payload(endpoint, self.config.path);
                let fired =
                    guard.with_revocation(|nic| nic.triggered().next_fired(&mut bus, self.word)).unwrap_or(None);
                let fired = match fired {
                    Some(fired) if !self.can_run(endpoint, &fired.command) => {
                        guard.triggered().return_fired(fired.index);
                        None
                    }
                    fired => fired,
                };
                let answer = || guard.locks().next_answer(self.word, Identity::word_is_alive).map(Work::Answer);
                let work = fired.map(Work::Run).or_else(answer);
                if work.is_none() {
                    guard.tables.control.drainer = 0;
                }
                work
            };
            let fired = match work {
                None => return,
                Some(Work::Run(fired)) => fired,
                Some(Work::Answer(answer)) => {
                    finished = Some(
                        deferred_replies::send(self, endpoint, &answer).map_or(Finished::SetAside, Finished::Answer),
                    );
                    continue;
                }
            };
            let origin = Origin { endpoint, fired: fired.index };
            match self.execute(origin, &fired.command, WhenFull::SetAside, due) {
                Ok(true) => {}
                Ok(false) => {
                    let mut guard = endpoint.segment.lock(self.word);
                    guard.triggered().return_fired(fired.index);
                    guard.tables.control.drainer = 0;
                    return;
                }
                Err(error) => {
                    let code = if error == StartError::Memory { fail::SEGV } else { fail::UNDELIVERABLE };
                    self.complete(origin, &fired.command, code, Some(&Delivery::failed(code)), due);
                }
            }
            finished = Some(Finished::Run(fired.index));
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
}

/// Returns the head of an operation whose target has no living process.
fn head_of(command: &Command) -> BlockedHead {
    let Command { request, target, .. } = command;
    let ports = match request.kind {
        kind::VELO_SEND => {
            let port = Header::from_word(request.match_bits).map_or(NONE, |header| header.destination.vpid.into());
            (port, request.portal)
        }
        kind::RMA_PUT..=kind::RMA_IMMEDIATE_PUT => (request.destination_vpid().into(), request.source_vpid().into()),
        _ => (request.portal, 0),
    };
    BlockedHead::of(request, *target, ports, blocked::DEAD)
}

/// Logs that messages found no destination: the first, and then less and less often. Only the sender of a VELO message
/// learns nothing else of it, so others are no warning. The caller holds no lock, because writing the line may block.
#[cold]
pub(crate) fn log_blocked((head, missed): (BlockedHead, u64)) {
    let BlockedHead { number, source, target, port, length, why, kind, .. } = head;
    let is_silent = why == blocked::CLOSED && kind == u16::from(kind::VELO_SEND);
    let level = match number.is_power_of_two() || missed > number / 2 {
        true if is_silent => log::Level::Warn,
        true => log::Level::Info,
        false => log::Level::Debug,
    };
    let why = if why == blocked::DEAD { "its process has ended" } else { "it is closed" };
    log::log!(
        level,
        "a message of {length} bytes from process {} to port {port} of process {} was dropped: {why}; {number} so far, \
         and `selvedge registers blocked` lists the last",
        source as u32,
        target as u32
    );
}
