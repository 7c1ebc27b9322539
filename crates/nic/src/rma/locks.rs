// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks: the fetch-compare-and-add of seed 002, section 7.5.4, in a lock space of its own.
//!
//! `if (*lock <= compare) { *lock += add; return (*lock, true) } else return (*lock, false)`, on signed 32-bit words.
//!
//! Invariants
//! 1. Each VPID has [`LOCKS`] locks, numbered from 0. A number beyond them is an error of the responder.
//! 2. A request runs under the NIC's lock, so it is atomic. A process changes its own locks by the same command.
//! 3. A NIC may keep requests that fail ([`Limits::lock_waiters`](crate::Limits::lock_waiters)). After a change of a lock
//!    the kept requests of that lock are tried again, oldest first, until none succeeds. A full table answers at once,
//!    with the failure. So a program must always be ready to try again.
//!
//! Cost: one word; with kept requests, a walk over their table for each request that succeeds.

use crate::nic::Nic;
use crate::tables::{LOCKS, LockWaiter};

/// The result of a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockResult {
    /// The value of the lock after the request.
    pub value: i32,
    pub success: bool,
}

/// A lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRequest {
    pub vpid: u16,
    pub number: u32,
    pub compare: i32,
    pub add: i32,
}

/// How a request that may be kept was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockVerdict {
    Answered(LockResult),
    /// It failed, and waits for a value with which it succeeds.
    Kept,
}

/// There is no such lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoLock;

impl Nic<'_> {
    /// Carries out a request, and answers it at once.
    pub fn lock_now(&mut self, request: &LockRequest) -> Result<LockResult, NoLock> {
        let index = self.lock_index(request)?;
        Ok(attempt(&mut self.tables.locks[index], request.compare, request.add))
    }

    /// Carries out a request. If it fails and there is room, it is kept under the home's name for it, `token`. After a
    /// success the home calls [`Nic::next_released`] until it returns nothing.
    pub fn lock_or_keep(&mut self, request: &LockRequest, token: u64) -> Result<LockVerdict, NoLock> {
        let index = self.lock_index(request)?;
        let result = attempt(&mut self.tables.locks[index], request.compare, request.add);
        if result.success {
            return Ok(LockVerdict::Answered(result));
        }
        let newest = self.tables.lock_waiters.iter().map(|waiter| waiter.sequence).max().unwrap_or(0);
        let free = self.tables.lock_waiters.iter_mut().find(|waiter| waiter.sequence == 0);
        // No request has the last number, unless a hostile process wrote it.
        match (free, newest.checked_add(1)) {
            (Some(free), Some(sequence)) => {
                let (compare, add) = (request.compare, request.add);
                *free = LockWaiter { sequence, lock: index as u32, compare, add, reserved: 0, token };
                Ok(LockVerdict::Kept)
            }
            _ => Ok(LockVerdict::Answered(result)),
        }
    }

    /// The oldest kept request of a lock that succeeds now, carried out: its token and its result. It is no longer kept.
    pub fn next_released(&mut self, vpid: u16, number: u32) -> Option<(u64, LockResult)> {
        let index = self.lock_index(&LockRequest { vpid, number, compare: 0, add: 0 }).ok()?;
        let value = self.tables.locks[index] as i32;
        let waits = |waiter: &&mut LockWaiter| waiter.sequence != 0 && waiter.lock as usize == index;
        let ready = |waiter: &&mut LockWaiter| value <= waiter.compare;
        let oldest =
            self.tables.lock_waiters.iter_mut().filter(waits).filter(ready).min_by_key(|waiter| waiter.sequence)?;
        let result = attempt(&mut self.tables.locks[index], oldest.compare, oldest.add);
        let token = oldest.token;
        *oldest = LockWaiter::default();
        Some((token, result))
    }

    /// Forgets kept requests, for example those of a process that has ended.
    pub fn forget_waiters(&mut self, mut ended: impl FnMut(u64) -> bool) {
        let waiters = self.tables.lock_waiters.iter_mut();
        waiters
            .filter(|waiter| waiter.sequence != 0 && ended(waiter.token))
            .for_each(|waiter| *waiter = LockWaiter::default());
    }

    fn lock_index(&self, request: &LockRequest) -> Result<usize, NoLock> {
        let known = (request.number as usize) < LOCKS && self.is_open(request.vpid);
        let index = usize::from(request.vpid) * LOCKS + request.number as usize;
        if known && index < self.tables.locks.len() { Ok(index) } else { Err(NoLock) }
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
