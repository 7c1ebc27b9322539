// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The owner's progress: it handles the packets that other processes have sent to its NIC, and finds processes that
//! have died.
//!
//! ```text
//! packet ──> request:  lock the NIC, deliver, unlock ──> response packet to its initiator
//!     └──> response: the pending operation ends: data to its place, ACK or REPLY
//! ```
//!
//! Invariants
//! 1. One thread at a time handles packets of rings (`Interface::turn`), those of one process in their order.
//! 2. Packets that progress itself sends never wait: without room they go to the outbox.

use std::ptr;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge_nic::limits::VELO_BYTES_MAX;
use selvedge_nic::packet::{Packet, RESPONSE};
use selvedge_nic::portals::{Delivery, Request, Verdict, fail};
use selvedge_nic::tables::{BlockedRing, Command, kind};
use selvedge_nic::{NoMemory, Register};

use crate::config::REMOTE;
use crate::deferred_replies;
use crate::endpoint::Endpoint;
use crate::engine::{Due, POLLS_PER_TICK, log_blocked};
use crate::errors::PostError;
use crate::interface::{Interface, open_interfaces};
use crate::lock::Guard;
use crate::memory::{LiveBus, Payload, Reply, scatter};
use crate::outbox::Outgoing;
use crate::packets;
use selvedge_os::process::Identity;

/// Operations started between polls for packets of other hosts, if the program itself does not poll.
const STARTS_PER_RECEIVE: u32 = 16;

pub(crate) enum Handled {
    /// It was handled. `fired`: the NIC now has work to do.
    Done { fired: bool },
    /// There is no room for it now.
    Stays,
}

impl Interface {
    /// Handles the work for this process: packets, and triggered operations that only it can run.
    #[inline(always)]
    pub fn progress(&self) {
        if self.offers.reaches_hosts {
            self.receive_remote();
        }
        self.progress_here();
    }

    /// As `progress`, when an operation starts. It polls for packets of other hosts only now and then, because a poll
    /// costs a call to the kernel, and programs start many operations in a row.
    #[inline(always)]
    pub(crate) fn progress_at_start(&self) {
        if self.offers.reaches_hosts {
            let starts = self.starts.load(Relaxed).wrapping_add(1);
            self.starts.store(starts, Relaxed);
            if starts % STARTS_PER_RECEIVE == 0 {
                self.receive_remote();
            }
        }
        self.progress_here();
    }

    #[cold]
    fn receive_remote(&self) {
        self.backend.receive();
    }

    #[inline(always)]
    fn progress_here(&self) {
        let bell = self.bell();
        let waits = self.outbox.any() || self.refused.any();
        if bell.has_packets() || bell.owner_wanted.load(Relaxed) != 0 || waits {
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
        self.offer_refused();
        // The first ring with a stalled message. At its next turn, all other rings have had theirs.
        let mut stalled = None;
        loop {
            let guard = self.own.segment.lock(self.word);
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
            match self.handle(&self.own, guard, &taken.packet, taken.bytes(), || found.dequeue()) {
                Handled::Done { fired: true } => due.push(&self.own),
                Handled::Done { fired: false } => {}
                Handled::Stays => {
                    let pid = turn.pid;
                    if stalled == Some(pid) {
                        break;
                    }
                    stalled.get_or_insert(pid);
                    turn.left = 0;
                }
            }
        }
        if self.refused.any() && self.refused.any_of_this_host() {
            // While it is in a ring, the packet precedes messages that a reader finds elsewhere.
            self.bell().packets.store(1, SeqCst);
        }
        if self.bell().owner_wanted.swap(0, SeqCst) != 0 {
            due.push(&self.own);
        }
        if !due.is_empty() {
            self.drain_all(due);
        }
    }

    /// Handles a packet, under the lock of the own NIC. `own` is the view of this process's memory. `dequeue` runs when
    /// the payload is no longer needed, still under the lock; a packet that stays is not dequeued.
    pub(crate) fn handle(
        &self,
        own: &Endpoint,
        mut guard: Guard<'_>,
        packet: &Packet,
        (bytes, length): (*const u8, u64),
        dequeue: impl FnOnce(),
    ) -> Handled {
        if packet.kind == RESPONSE {
            let token = packet.token & TOKEN_MASK;
            let command = if self.is_own_token(packet) { guard.pending_mut().take(token) } else { None };
            if let Some(command) = &command {
                self.respond(own, &mut guard, command, packet, bytes, length);
            }
            guard.signals.registers.add(Register::Packets, 1);
            dequeue();
            return Handled::Done { fired: guard.has_fired() };
        }
        let mut reply = Vec::new();
        let mut bus = LiveBus {
            target: own,
            payload: Payload::Bytes(bytes, length),
            reply: Reply::Bytes(&mut reply),
            path: self.config.path,
            // It may be unknown whether a process of another host is alive when its lock becomes free. So its request
            // is answered at once.
            asker: packets::asker(packet).filter(|_| !self.is_remote(packet.origin)),
        };
        let request = Request::from(packet);
        let is_message = request.kind == kind::VELO_SEND;
        let verdict = match is_message && self.refused.holds_up(packet) {
            true => Verdict::Full,
            false => guard.deliver(&mut bus, &request),
        };
        let is_refused = matches!(&verdict, Verdict::Done(delivery) if delivery.fail != fail::OK);
        let heads = guard.tables.blocked.as_deref_mut().filter(|_| is_refused && !request.is_portals());
        let blocked = heads.and_then(BlockedRing::take_unlogged);
        let delivery = match verdict {
            Verdict::Done(delivery) => Some(delivery),
            Verdict::Kept => None,
            Verdict::Full => {
                // SAFETY: `bytes` and `length` are the packet's payload, which stays until the packet is dequeued.
                let payload = || unsafe { payload_of(bytes, length.min(VELO_BYTES_MAX.into())) };
                if !self.refused.push(packet, self.is_remote(packet.origin), payload) {
                    return Handled::Stays;
                }
                None
            }
            Verdict::Unreachable | Verdict::Initiator(_) => Some(Delivery::failed(fail::DROPPED)),
        };
        guard.signals.registers.add(Register::Packets, 1);
        dequeue();
        let fired = guard.has_fired();
        drop(guard);
        if let Some(newest) = blocked {
            log_blocked(newest);
        }
        if let Some(delivery) = delivery.filter(|_| packet.token != 0) {
            self.answer(packet, &delivery, reply);
        }
        Handled::Done { fired }
    }

    /// Whether a response answers a request of this process, not of an earlier process with its id.
    pub(crate) fn is_own_token(&self, response: &Packet) -> bool {
        wire_token(response.token & TOKEN_MASK, self.word) == response.token
    }

    /// Offers messages again that found a full mailbox, and answers those that were delivered.
    fn offer_refused(&self) {
        if !self.refused.any() {
            return;
        }
        let answered = {
            let mut guard = self.own.segment.lock(self.word);
            self.refused.offer(|packet, payload| {
                let payload = Payload::Bytes(payload.as_ptr(), payload.len() as u64);
                let mut bus = LiveBus { payload, ..LiveBus::without_payload(&self.own, self.config.path) };
                match guard.deliver(&mut bus, &Request::from(packet)) {
                    Verdict::Full => None,
                    Verdict::Done(delivery) => Some(delivery),
                    Verdict::Kept | Verdict::Unreachable | Verdict::Initiator(_) => {
                        Some(Delivery::failed(fail::DROPPED))
                    }
                }
            })
        };
        for (packet, delivery) in answered {
            self.answer(&packet, &delivery, Vec::new());
        }
    }

    /// Handles a response: copies its data to the descriptor's memory, then posts the events.
    fn respond(
        &self,
        own: &Endpoint,
        guard: &mut Guard<'_>,
        command: &Command,
        packet: &Packet,
        bytes: *const u8,
        held: u64,
    ) {
        let mut delivery = packet.delivery(command.length);
        let carries = command.has_reply() && delivery.fail == fail::OK;
        if carries {
            let length = delivery.mlength.min(held);
            let is_admitted = guard.admits_reply(&mut NoMemory, command);
            if !is_admitted || scatter(own, &command.sink, bytes, length, self.config.path).is_err() {
                (delivery.fail, delivery.mlength) = (fail::SEGV, 0);
            }
        }
        guard.complete_response(command, &delivery);
    }

    /// Sends the response to a request that arrived as a packet.
    pub(crate) fn answer(&self, request: &Packet, delivery: &Delivery, mut reply: Vec<u8>) {
        reply.truncate(delivery.mlength as usize);
        let (target, packet) = (request.origin, request.response(delivery));
        match self.post(target, &packet, &mut reply) {
            Ok(()) | Err(PostError::Gone) => {}
            Err(PostError::Full) => {
                self.outbox.push(Outgoing { target, packet, payload: reply, answered: None });
            }
            Err(PostError::Shortage) => {
                let packet = Packet { fail: fail::UNDELIVERABLE, length: 0, ..packet };
                if self.post(target, &packet, &mut Vec::new()).is_err() {
                    self.outbox.push(Outgoing { target, packet, payload: Vec::new(), answered: None });
                }
            }
        }
    }

    /// Sends a packet that is not a new request. The payload may be taken, but not after an error.
    pub(crate) fn post(&self, target: u64, packet: &Packet, payload: &mut Vec<u8>) -> Result<(), PostError> {
        match self.endpoint(target) {
            Some(endpoint) => packets::enqueue(endpoint, &self.sender(), packet, payload),
            None if self.is_remote(target) => self.backend.post(self, target, packet, payload),
            None => Err(PostError::Gone),
        }
    }

    fn flush_outbox(&self) {
        let answered = self.outbox.flush(|waiting| self.post(waiting.target, &waiting.packet, &mut waiting.payload));
        answered.iter().for_each(|answered| deferred_replies::sent(self, answered));
    }

    /// Makes progress for a program that polls and never waits.
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

    /// Checks for dead processes, unless another process does so. Requests to dead processes fail.
    pub fn tick(&self) {
        self.backend.tick(self);
    }

    /// Checks for dead processes: fails the requests to them, and takes over the triggered operations that they
    /// executed.
    pub(crate) fn tick_here(&self) {
        let Ok(mut last) = self.last_tick.try_lock() else { return };
        let is_due = self.must_tick.swap(false, Relaxed);
        if !is_due && last.is_some_and(|last: Instant| last.elapsed() < Duration::from_millis(10)) {
            return;
        }
        *last = Some(Instant::now());
        self.peers.check_some();
        self.fail_lost();
        self.deferred.forget_dead(&self.own, self.word);
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

    fn fail_lost(&self) {
        // Do not ask under the NIC's lock whether a process of another host answers: the answer may take the links'
        // lock, whose holder may be in libfabric, or may ask the launcher.
        let mut targets = Vec::new();
        self.own.segment.lock(self.word).pending().find(|target, responder| {
            if targets.last() != Some(&(target, responder)) {
                targets.push((target, responder));
            }
            false
        });
        targets.sort_unstable();
        targets.dedup();
        targets.retain(|&(target, responder)| !self.answers(target, responder));
        while !targets.is_empty() {
            let mut due = Due::new();
            let mut last = (0, 0);
            let lost = self.own.segment.lock(self.word).pending().find(|target, responder| {
                last = (target, responder);
                targets.binary_search(&last).is_ok()
            });
            let Some(token) = lost else { return };
            // The target may have responded before it died. Then its response is in a ring, so handle that first.
            self.progress();
            if last.1 != REMOTE && packets::any_of(&self.rings, last.0) {
                self.bell().packets.swap(1, SeqCst);
                return;
            }
            let Some(command) = self.own.segment.lock(self.word).pending_mut().take(token) else { continue };
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
}

/// Copies a packet's payload.
///
/// # Safety
/// `count` bytes are readable there, in a ring or in this process's memory.
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
pub(crate) const TOKEN_MASK: u64 = (1 << 33) - 1;

/// Converts a token for packets. It includes the operating system's pid of the requesting process, so that another
/// process that has since taken the same Portals id does not accept the response.
pub(crate) fn wire_token(token: u64, owner: u64) -> u64 {
    match token {
        0 => 0,
        token => token & TOKEN_MASK | (owner >> 32) << 33,
    }
}
