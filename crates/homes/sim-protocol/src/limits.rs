// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waits of the program with a limit: for an event in this process or in the kernel, until a virtual time.
//!
//! A thread that waits so is parked like one that sleeps, but it sleeps in the kernel, where the event wakes it. Its
//! limit passes only when every other thread of the rank is parked or asleep, and virtual time has reached it. So an
//! event that another thread causes comes first.
//!
//! Events from outside of the process (a pipe from another rank) wake nobody while another rank has the turn. The thread
//! looks for them from time to time: first after a microsecond, then after an eighth of the time that it has waited.
//!
//! Invariants
//! 1. A thread that the kernel has woken continues only with the request lock, so only while its rank has the turn.
//! 2. In a rank with one thread nothing depends on real time.

use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use crate::page::{NEVER, Parked, kind, place};
use crate::rank::RankEnd;
use crate::system::{may_have_threads, sleep_on_for};
use crate::threads::{
    FAR_PS, NAP_NS, NAP_NS_MAX, free_slot, is_far, only_far_limits_remain, others_are_asleep, own_thread, waits,
};
use crate::watched::Watched;

/// First time between two looks for events from outside.
const LOOK_PS: u64 = 1_000_000;
/// Longest sleep in the kernel of a thread without a slot. Each wake-up delays the passing of time.
const SLOTLESS_NAP_NS_MAX: u32 = 1_000_000_000;
/// Longest sleep in the kernel of a thread with a far limit. A job may have hundreds of them, one in each rank.
const FAR_NAP_NS_MAX: u32 = 1_000_000_000;

/// In a rank in which more threads wait, one of them looks whether the others are asleep, and all sleep longer. Each look
/// reads the states of all threads.
const CROWD: u32 = 8;

/// Whether this thread looks whether the others are asleep.
fn watches(slots: &[Parked], own: &Parked, now: u64) -> bool {
    let first = slots.iter().find(|slot| waits(slot) && !is_far(slot, now));
    waiting(slots) <= CROWD as usize || first.is_some_and(|first| std::ptr::eq(first, own))
}

fn waiting(slots: &[Parked]) -> usize {
    slots.iter().filter(|slot| waits(slot)).count()
}

/// The time of the next look for events from outside, in a wait that began at `since`.
pub(crate) fn next_look(since: u64, now: u64) -> u64 {
    match since {
        NEVER => NEVER,
        since => now.saturating_add((now.saturating_sub(since) / 8).max(LOOK_PS)),
    }
}

/// The cause of the event that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Nothing but its limit, or a signal.
    Time,
    /// A thread or a timer of this rank.
    Inside,
    /// Perhaps another process.
    Outside,
}

/// A wait for an event.
#[derive(Clone, Copy, Debug)]
pub struct LimitedWait<'a> {
    pub end: &'a RankEnd,
    /// Time at which it ends; [`NEVER`]: without limit.
    pub until_ps: u64,
    pub cause: Cause,
    /// Signals that the thread blocks and looks for, of which bit n - 1 is signal n.
    pub signals: u64,
    /// Descriptors whose readiness is the event.
    pub watched: Watched,
}

impl LimitedWait<'_> {
    /// Waits for the event. True: it has come; false: the time has.
    ///
    /// `look` looks for the event, and sleeps in the kernel meanwhile for at most that many nanoseconds of real time; with
    /// 0 it only looks. It is also called with the request lock held, so it makes no requests. Without a limit
    /// ([`NEVER`]) the wait ends, false, in a rank with one thread and no armed timer: nothing of this rank can cause the
    /// event.
    pub fn run(&self, look: &mut dyn FnMut(u32) -> bool) -> bool {
        let LimitedWait { end, until_ps, cause, .. } = *self;
        if look(0) {
            return true;
        }
        let since = end.now_ps();
        if until_ps <= since {
            return false;
        }
        if may_have_threads() {
            return self.park(look);
        }
        loop {
            if until_ps == NEVER && !end.has_alarm() {
                return false;
            }
            let now = end.now_ps();
            let next = if cause == Cause::Outside { next_look(since, now).min(until_ps) } else { until_ps };
            end.pause_alone(kind::SLEEP, next);
            end.expire_alarms();
            if look(0) {
                return true;
            }
            if end.now_ps() >= until_ps {
                return false;
            }
        }
    }

    /// Sleeps in the kernel for a short time: for the event, or if there is none, until the word changes from 0. True:
    /// the event has come. Where others may look for the event, this only sleeps.
    fn nap(&self, word: &AtomicU32, nap_ns: u32, look: &mut dyn FnMut(u32) -> bool) -> bool {
        match (self.cause, self.watched) {
            (Cause::Time, _) => sleep_on_for(word, 0, nap_ns),
            (_, watched) if watched.is_known() && !watched.is_empty() => _ = watched.are_ready(nap_ns),
            _ => return look(nap_ns),
        }
        false
    }

    /// Parks the thread in a wait for an event.
    fn park(&self, look: &mut dyn FnMut(u32) -> bool) -> bool {
        let LimitedWait { end, until_ps, cause, signals, watched } = *self;
        let own = own_thread();
        let turn_line = &end.page().turn_line;
        let slots = &end.page().parked;
        let mut nap = NAP_NS_MAX;
        let (mut lock, slot) = loop {
            let lock = turn_line.lock();
            if let Some(slot) = free_slot(slots) {
                break (Some(lock), slot);
            }
            // More threads wait than there are slots. This one still sees its event; its limit may pass late.
            drop(lock);
            if self.nap(&AtomicU32::new(0), nap, look) || look(0) {
                return true;
            }
            nap = (nap * 2).min(SLOTLESS_NAP_NS_MAX);
            if end.now_ps() >= until_ps {
                return false;
            }
        };
        let since = end.now_ps();
        slot.kind.store(kind::SLEEP, Relaxed);
        slot.until_ps.store(until_ps, Relaxed);
        slot.go.store(0, Relaxed);
        slot.place.store(place::AWAKE, Relaxed);
        slot.since_ps.store(if cause == Cause::Outside { since } else { NEVER }, Relaxed);
        slot.signals.store(signals, Relaxed);
        watched.store(&slot.watched);
        slot.thread.store(own, Relaxed);
        let (mut nap, mut is_new) = (NAP_NS, true);
        let has_come = loop {
            if slot.go.swap(0, Acquire) != 0 || end.now_ps() >= until_ps {
                if look(0) {
                    break true;
                }
                if end.now_ps() >= until_ps {
                    break false;
                }
            }
            let is_watcher = is_new || watches(slots, slot, end.now_ps());
            is_new = false;
            let may_pass = is_watcher
                && others_are_asleep(slots, own)
                && !turn_line.is_lock_contended()
                && !only_far_limits_remain(slots, end.now_ps());
            if !may_pass {
                slot.place.store(place::KERNEL, SeqCst);
                drop(lock.take());
                let has_come = self.nap(&slot.go, nap, look);
                slot.place.store(place::AWAKE, SeqCst);
                if has_come || look(0) {
                    lock = Some(turn_line.lock());
                    break true;
                }
                let nap_max = if until_ps.saturating_sub(since) < FAR_PS { NAP_NS_MAX } else { FAR_NAP_NS_MAX };
                nap = (nap * 2).min(nap_max.max(NAP_NS_MAX / CROWD * waiting(slots) as u32));
                lock = Some(turn_line.lock_parked());
            } else if look(0) {
                break true;
            } else {
                end.hand_over_for_all();
            }
            if end.is_alarm_due() {
                drop(lock.take());
                end.expire_alarms();
                lock = Some(turn_line.lock_parked());
            }
        };
        slot.thread.store(0, Relaxed);
        drop(lock);
        has_come
    }
}
