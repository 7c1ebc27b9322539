// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting and polling of a rank: when it hands the turn over, and for how long.

use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};

use crate::clock::READINGS_MAX;
use crate::page::kind;
use crate::rank::RankEnd;
use crate::system::may_have_threads;
use crate::threads::own_thread;

/// Free polls with an unknown result before one counts as a failed poll; and free polls after each further one.
const POLLS_FREE: u64 = 64;
const POLLS_FREE_AGAIN: u64 = 4;

/// Pauses that are still short after polls that found nothing. After longer pauses, a program that has found something
/// or has worked polls again within `REPOLL_PS`.
const PAUSES_SHORT: u64 = 5;
const REPOLL_PS: u64 = 100_000;

/// Virtual time of the first yield of a program without a NIC.
const YIELD_PS: u64 = 1_000_000;
/// Limit on the doublings of that time with further yields, for programs that yield in a loop until time has passed.
const YIELD_DOUBLINGS_MAX: u64 = 10;

impl RankEnd {
    /// Returns a count that changes whenever a call by a thread of this rank may have changed its NICs.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.page().time.changes.load(Relaxed)
    }

    /// Waits until a NIC of this rank changes, or until a time. `changes`: the count before the last poll.
    pub fn wait(&self, until_ps: u64, changes: u64) {
        self.page().time.polls.store(0, Relaxed);
        self.pause(kind::WAIT, until_ps, changes);
    }

    /// Records that the program has polled and found nothing.
    pub fn found_nothing(&self) {
        let time = &self.page().time;
        if time.found.swap(0, Relaxed) != 0 && time.pauses.load(Relaxed) > PAUSES_SHORT {
            // An earlier poll found something, or the program has worked since, so this pause is short again.
            self.pause(kind::WAIT, self.now_ps().saturating_add(REPOLL_PS), self.changes());
        } else {
            self.pause(if self.is_in_call() { kind::POLL_IN_CALL } else { kind::POLL }, u64::MAX, self.changes());
        }
        time.polls.store(POLLS_FREE - POLLS_FREE_AGAIN, Relaxed);
    }

    /// Records a poll with an unknown result. A poll after many others counts as part of a loop that waits.
    pub fn polled(&self) {
        self.charge_poll();
        let polls = &self.page().time.polls;
        if polls.fetch_add(1, Relaxed) >= POLLS_FREE {
            self.found_nothing();
        }
    }

    /// Records that the program has polled and found something, so it is not waiting. Every [`READINGS_MAX`] such polls
    /// other ranks run, because the program may find the same thing again while it waits for another.
    pub fn found_something(&self) {
        self.charge_poll();
        let time = &self.page().time;
        time.found.store(1, Relaxed);
        time.polls.store(time.polls.load(Relaxed).min(POLLS_FREE - POLLS_FREE_AGAIN), Relaxed);
        if time.readings.fetch_add(1, Relaxed) >= READINGS_MAX {
            self.sleep(self.now_ps());
        }
    }

    /// Records that the program has worked between polls, so it may continue without a change of its NIC.
    #[inline]
    pub fn has_worked(&self) {
        self.page().time.found.store(1, Relaxed);
    }

    /// Marks this thread as in a call that returns only when a NIC of the rank has changed: after a poll that found nothing
    /// it needs no turn before that. False: another thread has the mark, or this one is in such a call already.
    pub fn enter_call(&self) -> bool {
        let thread = own_thread().into();
        self.page().time.caller.compare_exchange(0, thread, Relaxed, Relaxed).is_ok()
    }

    /// Removes the mark, after [`RankEnd::enter_call`] has returned true.
    pub fn leave_call(&self) {
        self.page().time.caller.store(0, Relaxed);
    }

    fn is_in_call(&self) -> bool {
        match self.page().time.caller.load(Relaxed) {
            0 => false,
            thread => thread == own_thread().into(),
        }
    }

    /// Yields the processor. With a NIC this counts as a poll that found nothing; without one, other ranks run.
    pub fn give_up_processor(&self) {
        match self.page().nics.iter().any(|slot| slot.live.load(Relaxed) != 0) {
            true => self.found_nothing(),
            false => {
                let yields = self.page().time.yields.fetch_add(1, Relaxed);
                self.sleep(self.now_ps().saturating_add(YIELD_PS << yields.min(YIELD_DOUBLINGS_MAX)));
            }
        }
    }

    /// Sleeps until a time. Neither a change of a NIC nor a timer ends the sleep early.
    pub fn sleep(&self, until_ps: u64) {
        self.pause(kind::SLEEP, until_ps, self.changes());
        while self.now_ps() < until_ps {
            self.pause(kind::SLEEP, until_ps, self.changes());
        }
    }

    fn pause(&self, kind: u32, until_ps: u64, changes: u64) {
        match may_have_threads() {
            true => self.park(kind, until_ps, changes),
            false => self.pause_alone(kind, until_ps),
        }
        self.expire_alarms();
    }

    /// Lets one request's time pass, in a rank with one thread.
    pub(crate) fn pause_alone(&self, kind: u32, until_ps: u64) {
        let _lock = self.page().turn_line.lock();
        self.hand_over(kind, until_ps, true);
    }

    /// Lets the waiting threads of this rank poll again.
    pub fn wake_threads(&self) {
        // The count also reaches threads that have polled and are about to wait.
        self.page().time.changes.fetch_add(1, SeqCst);
        if may_have_threads() {
            let _lock = self.page().turn_line.lock();
            self.wake_parked();
        }
    }
}
