// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks: the fetch-compare-and-add of seed 002, section 7.5.4, in a lock space of its own.
//!
//! `if (*lock <= compare) { *lock += add; return (*lock, true) } else return (*lock, false)`, on signed 32-bit words.
//!
//! Requests that fail may be kept, so that programs need not poll a lock:
//!
//! ```text
//! fails ─> WAITS ─ the lock changes ─> CHANGES ─> DUE ─ home ─> SENDING ─> free
//!             └─── its port or the asker's is closed ───┘
//! ```
//!
//! Invariants
//! 1. Each VPID has [`LOCKS`] locks, numbered from 0. A number beyond them is an error of the responder.
//! 2. A request runs under the NIC's lock, so it is atomic. A process changes its own locks by the same command.
//! 3. A NIC keeps up to [`Limits::lock_waiters`](crate::Limits::lock_waiters) requests, for ports with
//!    [`options::KEEP_LOCKS`], of initiators that the home names ([`Bus::asker`]). All others fail at once. So a
//!    program must always be ready to retry.
//! 4. After a change of a lock the kept requests of that lock are retried, oldest first, until none succeeds. Those of
//!    dead processes are dropped.
//! 5. A kept request succeeds once, and its answer is sent at least once: by the process that has made the change, or,
//!    if that process has died, by the next one that looks. The home drops a duplicate answer.
//!
//! Cost: one word; with kept requests, a walk over their table for each request that succeeds, and for each that it
//! releases.

use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use core::sync::atomic::compiler_fence;

use super::command::{code, options, spec};
use super::notification::{Notification, lock_word};
use super::queue::Notifications;
use crate::bus::{Asker, Bus, Step};
use crate::portals::constants::fail;
use crate::portals::delivery::Delivery;
use crate::registers::Register;
use crate::signals::Signals;
use crate::tables::{LOCKS, LockWaiter, Request, Tables, lock_waiter};

/// The result of a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockResult {
    /// The value of the lock after the request.
    pub value: i32,
    pub success: bool,
}

impl LockResult {
    /// The result in the form of a response to the initiator.
    pub(super) fn delivery(self) -> Delivery {
        let remote_offset = u64::from(self.value as u32) | u64::from(self.success) << 32;
        Delivery { remote_offset, ..Delivery::failed(fail::OK) }
    }
}

/// A lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    pub vpid: u16,
    pub number: u32,
    pub compare: i32,
    pub add: i32,
}

/// The outcome of a request that may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockVerdict {
    Answered(LockResult),
    /// The request failed, and waits for a value with which it succeeds.
    Kept,
}

/// Unknown lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLock;

/// The answer to a kept request, which the home sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LateAnswer {
    /// The request's record, for [`Locks::finish_answer`].
    pub index: u32,
    pub sequence: u64,
    pub asker: Asker,
    pub delivery: Delivery,
}

/// The lock space of all VPIDs, with the requests that are kept.
pub struct Locks<'n, 'a> {
    locks: &'n mut [u32],
    waiters: &'n mut [LockWaiter],
    /// Kept requests whose answer is due.
    answers: &'n mut u32,
    notifications: Notifications<'n, 'a>,
}

impl<'n, 'a> Locks<'n, 'a> {
    #[inline(always)]
    pub(crate) fn of(tables: &'n mut Tables<'a>, signals: &'n Signals<'a>) -> Locks<'n, 'a> {
        let Tables { control, ports, locks, lock_waiters, .. } = tables;
        Locks {
            locks,
            waiters: lock_waiters,
            answers: &mut control.answers,
            notifications: Notifications { ports, signals },
        }
    }

    /// Carries out a request, and answers it at once. The answers of kept requests that succeed then become due.
    pub fn request<B: Bus>(&mut self, bus: &mut B, request: &LockRequest) -> Result<LockResult, NoLock> {
        let index = self.lock_index(request)?;
        let result = attempt(&mut self.locks[index], request.compare, request.add);
        if result.success {
            self.release_waiters(bus, index as u32, &mut |bus, process| bus.is_alive(process));
        }
        Ok(result)
    }

    /// As [`Locks::request`], but the NIC keeps a failed request while there is room. `kept` names its initiator.
    pub fn request_or_keep<B: Bus>(
        &mut self,
        bus: &mut B,
        request: &LockRequest,
        kept: LockWaiter,
    ) -> Result<LockVerdict, NoLock> {
        let result = self.request(bus, request)?;
        if result.success {
            return Ok(LockVerdict::Answered(result));
        }
        let lock = self.lock_index(request)? as u32;
        let newest = self.waiters.iter().map(|waiter| waiter.sequence).max().unwrap_or(0);
        let free = self.waiters.iter_mut().find(|waiter| waiter.sequence == 0);
        // Only a hostile process writes the last number.
        let (Some(free), Some(sequence)) = (free, newest.checked_add(1)) else {
            return Ok(LockVerdict::Answered(result));
        };
        let (compare, add) = (request.compare, request.add);
        *free = LockWaiter { sequence: 0, lock, compare, add, state: lock_waiter::WAITS, ..kept };
        // The order matters if the process dies here.
        compiler_fence(SeqCst);
        free.sequence = sequence;
        Ok(LockVerdict::Kept)
    }

    pub(super) fn request_of_command<B: Bus>(
        &mut self,
        bus: &mut B,
        request: &Request,
        lock: &LockRequest,
    ) -> Result<LockVerdict, NoLock> {
        let keeps = self.notifications.ports[usize::from(lock.vpid)].options & options::KEEP_LOCKS != 0;
        let Some(Asker { origin, process, token }) = (if keeps { bus.asker() } else { None }) else {
            return self.request(bus, lock).map(LockVerdict::Answered);
        };
        let (source, operation, mode) = (request.asking_port(), request.operation, request.mode());
        let kept = LockWaiter { source, origin, process, token, operation, mode, ..LockWaiter::default() };
        self.request_or_keep(bus, lock, kept)
    }

    /// Carries out the kept requests of a lock that succeed now, oldest first.
    fn release_waiters<B: Bus>(&mut self, bus: &mut B, lock: u32, alive: &mut impl FnMut(&mut B, u64) -> bool) {
        while let Some(at) = self.oldest_ready(bus, lock) {
            let waiter = &mut self.waiters[at];
            if waiter.process != 0 && !alive(bus, waiter.process) {
                *waiter = LockWaiter::default();
                continue;
            }
            let Some(word) = self.locks.get_mut(lock as usize) else { return };
            // If this process dies between two of these stores, recovery makes the others ([`Locks::recover`]).
            waiter.value = (*word as i32).wrapping_add(waiter.add);
            compiler_fence(SeqCst);
            waiter.state = lock_waiter::CHANGES;
            compiler_fence(SeqCst);
            *word = waiter.value as u32;
            compiler_fence(SeqCst);
            self.answer_waiter(at, fail::OK);
            self.inform_of(bus, at);
        }
    }

    /// The oldest kept request of a lock that succeeds now.
    fn oldest_ready<B: Bus>(&self, bus: &mut B, lock: u32) -> Option<usize> {
        let value = *self.locks.get(lock as usize)? as i32;
        let mut oldest: Option<(u64, usize)> = None;
        for (at, waiter) in self.waiters.iter().enumerate().filter(|(_, waiter)| waiter.waits()) {
            bus.charge(Step::TableAccess);
            let is_older = oldest.is_none_or(|(sequence, _)| waiter.sequence < sequence);
            if waiter.lock == lock && value <= waiter.compare && is_older {
                oldest = Some((waiter.sequence, at));
            }
        }
        oldest.map(|(_, at)| at)
    }

    /// Writes the notification at the target of a kept request that has succeeded.
    fn inform_of<B: Bus>(&mut self, bus: &mut B, at: usize) {
        let waiter = self.waiters[at];
        self.notifications.signals.registers.add(Register::ResponderLocks, 1);
        if waiter.operation & spec::RESPONDER == 0 {
            return;
        }
        let (vpid, number) = (waiter.lock / LOCKS as u32, waiter.lock % LOCKS as u32);
        let notification = Notification {
            word0: lock_word(waiter.value, true, number),
            vpid: waiter.source as u8,
            node: (waiter.source >> 16) as u16,
            unit: spec::RESPONDER,
            code: code::LOCK_REQ,
            mode: waiter.mode,
            ..Notification::default()
        };
        self.notifications.write(bus, vpid as u16, &notification);
    }

    fn answer_waiter(&mut self, at: usize, fail: u8) {
        let waiter = &mut self.waiters[at];
        waiter.fail = fail;
        compiler_fence(SeqCst);
        waiter.state = lock_waiter::DUE;
        *self.answers = self.answers.wrapping_add(1);
        let fired = &self.notifications.signals.doorbell.fired;
        fired.store(fired.load(Relaxed).wrapping_add(1), Release);
    }

    /// Fails the kept requests for which `ends` is true. Their answers are due.
    fn refuse_waiters(&mut self, mut ends: impl FnMut(&LockWaiter) -> bool) {
        for at in 0..self.waiters.len() {
            if self.waiters[at].waits() && ends(&self.waiters[at]) {
                self.answer_waiter(at, fail::UNDELIVERABLE);
            }
        }
    }

    /// Fails the kept requests for the locks of a port that is closed.
    pub(crate) fn refuse_waiters_of(&mut self, vpid: u16) {
        self.refuse_waiters(|waiter| waiter.lock / LOCKS as u32 == u32::from(vpid));
    }

    /// Fails the kept requests of the port that has sent this withdrawal ([`Rma::withdrawal`](super::Rma::withdrawal)).
    pub(super) fn withdraw(&mut self, request: &Request) {
        let (vpid, source) = (u32::from(request.destination_vpid()), request.asking_port());
        self.refuse_waiters(|waiter| waiter.source == source && waiter.lock / LOCKS as u32 == vpid);
    }

    /// Drops kept requests that still wait, for example those of a process that has ended.
    pub fn forget_waiters(&mut self, mut ended: impl FnMut(&LockWaiter) -> bool) {
        let waiters = self.waiters.iter_mut();
        waiters.filter(|waiter| waiter.waits() && ended(waiter)).for_each(|waiter| *waiter = LockWaiter::default());
    }

    /// Takes the oldest answer that is due, or whose sender has died. `executor` names the process that sends it and
    /// then calls [`Locks::finish_answer`].
    pub fn next_answer(&mut self, executor: u64, mut alive: impl FnMut(u64) -> bool) -> Option<LateAnswer> {
        if *self.answers == 0 && self.notifications.signals.doorbell.fired.load(Relaxed) == 0 {
            return None;
        }
        let mut is_due = |waiter: &LockWaiter| match waiter.state {
            lock_waiter::DUE => true,
            lock_waiter::SENDING => !alive(waiter.executor),
            _ => false,
        };
        let answered = self.waiters.iter().enumerate();
        let answered = answered.filter(|(_, waiter)| waiter.sequence != 0 && is_due(waiter));
        let oldest = answered.min_by_key(|(_, waiter)| waiter.sequence).map(|(at, _)| at);
        let Some(at) = oldest else {
            *self.answers = 0;
            return None;
        };
        let waiter = &mut self.waiters[at];
        if waiter.state == lock_waiter::DUE {
            *self.answers = self.answers.saturating_sub(1);
        }
        waiter.executor = executor;
        compiler_fence(SeqCst);
        waiter.state = lock_waiter::SENDING;
        let LockWaiter { sequence, origin, process, token, value, fail, .. } = *waiter;
        let delivery = match fail {
            fail::OK => LockResult { value, success: true }.delivery(),
            other => Delivery::failed(other),
        };
        Some(LateAnswer { index: at as u32, sequence, asker: Asker { origin, process, token }, delivery })
    }

    /// Reports that an answer was sent, or that its initiator is gone.
    pub fn finish_answer(&mut self, index: u32, sequence: u64) {
        let Some(waiter) = self.waiters.get_mut(index as usize) else { return };
        if waiter.sequence != sequence || waiter.state != lock_waiter::SENDING {
            return;
        }
        *waiter = LockWaiter::default();
        let fired = &self.notifications.signals.doorbell.fired;
        fired.store(fired.load(Relaxed).saturating_sub(1), Release);
    }

    /// Recovers the kept requests after a holder of the NIC's lock has died: finishes those that had succeeded, retries
    /// the others, and makes the answers due. The Portals unit has been recovered.
    pub(crate) fn recover<B: Bus>(&mut self, bus: &mut B, mut alive: impl FnMut(u64) -> bool) {
        *self.answers = 0;
        for at in 0..self.waiters.len() {
            let waiter = &mut self.waiters[at];
            match waiter.state {
                _ if waiter.sequence == 0 => {}
                lock_waiter::WAITS => {}
                lock_waiter::SENDING => {
                    let fired = &self.notifications.signals.doorbell.fired;
                    fired.store(fired.load(Relaxed).wrapping_add(1), Release);
                }
                state => {
                    let value = waiter.value as u32;
                    let fail = if state == lock_waiter::DUE { waiter.fail } else { fail::OK };
                    if let Some(word) = self.locks.get_mut(waiter.lock as usize) {
                        if state != lock_waiter::DUE {
                            *word = value;
                        }
                    }
                    self.answer_waiter(at, fail);
                }
            }
        }
        for at in 0..self.waiters.len() {
            let waiter = self.waiters[at];
            if !waiter.waits() {
                continue;
            }
            if self.notifications.is_open((waiter.lock / LOCKS as u32) as u16) {
                self.release_waiters(bus, waiter.lock, &mut |_, process| alive(process));
            } else {
                self.answer_waiter(at, fail::UNDELIVERABLE);
            }
        }
    }

    fn lock_index(&self, request: &LockRequest) -> Result<usize, NoLock> {
        let known = (request.number as usize) < LOCKS && self.notifications.is_open(request.vpid);
        let index = usize::from(request.vpid) * LOCKS + request.number as usize;
        if known && index < self.locks.len() { Ok(index) } else { Err(NoLock) }
    }
}

impl LockWaiter {
    /// Whether the request still waits for a value of its lock.
    pub fn waits(&self) -> bool {
        self.sequence != 0 && self.state == lock_waiter::WAITS
    }
}

fn attempt(lock: &mut u32, compare: i32, add: i32) -> LockResult {
    let value = *lock as i32;
    let success = value <= compare;
    if success {
        *lock = value.wrapping_add(add) as u32;
    }
    LockResult { value: *lock as i32, success }
}
