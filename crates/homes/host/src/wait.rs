// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Waiting: spin briefly, then sleep until something changes in the NIC.
//!
//! A thread that is about to sleep announces itself in the segment, runs the heavy side of an asymmetric fence, and
//! polls once more. Then it sleeps on the segment's wake word. A process that changes the NIC checks for announced
//! sleepers after it releases the lock. This costs one load of a line that rarely changes. So either the sleeper's last
//! poll sees the change, or the process that made it sees the sleeper. If the kernel has no such fence, sleeps are
//! short instead.
//!
//! A waiting thread also makes progress for the NICs of its process: it handles packets, and checks for dead processes
//! now and then.
//!
//! Another thread may close the NIC, or free the counter or queue that a thread waits for. It does so first, then wakes
//! the waiters, which see it and leave, and it returns when the last has left. A thread that has just begun to wait
//! polls without being listed, and sees it at a later poll.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::errors::WaitEnd;
use crate::interface::Interface;
use crate::wait_list::{ABORTED, Subject, Waits};
use selvedge_os::sync::IgnorePoison;
use selvedge_os::{asymmetric, futex, lines};

/// Time between a waiter's checks for dead processes. Also the longest sleep, unless the configuration sets another.
pub const TICK: Duration = Duration::from_millis(20);
/// The longest sleep if the kernel lacks the asymmetric fence.
const UNFENCED_SLEEP: Duration = Duration::from_millis(1);
/// A wait that has slept for long sleeps for this part of that time before it polls again, so that it costs little.
const SLEEP_PART: u32 = 32;
/// Looks of a wait before it reads the clock, and those of a wait that should give its core away soon, because ranks
/// share it: with links to other hosts a look calls libfabric, which costs a microsecond.
const LOOKS: u32 = 64;
const LOOKS_CROWDED: u32 = 4;
/// The time that a waiter spins before it yields the core between rounds. After this time the wait is longer than the
/// latency of a message.
const SELFISH: Duration = Duration::from_micros(100);

/// Packets of other hosts during one sleep that end the sleeping: more will follow soon, and a thread that polls
/// answers sooner.
const STREAM: u32 = 4;

/// Time between looks at the waiters that should leave.
const SEE_OFF_PAUSE: Duration = Duration::from_micros(100);

impl Interface {
    /// Waits until `look` returns something. Without a `deadline` the wait has no time limit. `look` runs first of all.
    #[inline(always)]
    pub fn wait<T>(&self, deadline: Option<Instant>, look: impl FnMut() -> Option<T>) -> Result<T, WaitEnd> {
        self.wait_watching(deadline, || true, look)
    }

    /// As `wait`, but the first polls call `look` only when `is_due` returns true.
    #[inline(always)]
    pub fn wait_watching<T>(
        &self,
        deadline: Option<Instant>,
        is_due: impl FnMut() -> bool,
        look: impl FnMut() -> Option<T>,
    ) -> Result<T, WaitEnd> {
        self.wait_for(std::iter::empty(), deadline, is_due, look)
    }

    /// As `wait_watching`, for objects that another thread may free. `look` must return something when it finds one of
    /// them freed. [`Interface::end_waits`] returns only after that.
    #[inline(always)]
    pub fn wait_for<T>(
        &self,
        subjects: impl Iterator<Item = Subject> + Clone,
        deadline: Option<Instant>,
        mut is_due: impl FnMut() -> bool,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, WaitEnd> {
        // Most waits end here. Only longer ones are listed, for a thread that closes the interface or frees an object.
        if !ABORTED.load(Relaxed) && self.offers.polls_here {
            for round in 0..self.looks() {
                self.progress();
                if is_due() {
                    if let Some(found) = look() {
                        return Ok(found);
                    }
                }
                lines::between_looks(round);
            }
        }
        self.wait_on(subjects, deadline, look)
    }

    /// Polls once before a wait, which may then be unnecessary. None if nothing was found, or if only
    /// [`Interface::wait`] may poll.
    #[inline(always)]
    pub fn glance<T>(&self, look: impl FnOnce() -> Option<T>) -> Option<T> {
        if ABORTED.load(Relaxed) || !self.offers.polls_here {
            return None;
        }
        self.progress();
        look()
    }

    #[cold]
    #[inline(never)]
    fn wait_on<T>(
        &self,
        subjects: impl Iterator<Item = Subject> + Clone,
        deadline: Option<Instant>,
        mut look: impl FnMut() -> Option<T>,
    ) -> Result<T, WaitEnd> {
        if ABORTED.load(Relaxed) {
            return Err(WaitEnd::Aborted);
        }
        let mut found = None;
        self.lock_waits().enter(subjects.clone());
        let ended = self.backend.wait(self, deadline, &mut || {
            found = look();
            found.is_some()
        });
        self.lock_waits().leave(subjects);
        found.ok_or(ended.err().unwrap_or(WaitEnd::TimedOut))
    }

    /// Ends the waits for an object that the caller has just freed. When this returns, no listed wait can mistake a
    /// later object with the same reference for it.
    pub fn end_waits(&self, subject: Subject) {
        self.see_off(|waits| waits.subjects.contains(&subject));
    }

    /// Wakes the waiters of this process until `stay` returns false.
    pub(crate) fn see_off(&self, stay: impl Fn(&Waits) -> bool) {
        // A thread that is not listed yet enters the list after this, so its next look sees the caller's earlier
        // change.
        while stay(&self.lock_waits()) {
            self.wake();
            std::thread::sleep(SEE_OFF_PAUSE);
        }
    }

    fn lock_waits(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().ignore_poison()
    }

    /// Polls once, with the checks of a wait, and never sleeps.
    #[inline]
    pub fn look_once<T>(&self, look: impl FnOnce() -> Option<T>) -> Result<T, WaitEnd> {
        if ABORTED.load(Relaxed) {
            return Err(WaitEnd::Aborted);
        }
        self.poll();
        let found = look();
        if found.is_none() {
            self.found_nothing();
        }
        found.ok_or(WaitEnd::TimedOut)
    }

    /// Reports a poll of the program that found nothing.
    #[inline]
    pub fn found_nothing(&self) {
        if !self.offers.polls_here {
            self.backend.found_nothing();
        }
    }

    /// Reports a poll of the program that found something.
    #[inline]
    pub fn found_something(&self) {
        if !self.offers.polls_here {
            self.backend.found_something();
        }
    }

    /// Waits by polling the NIC's own memory, then by sleeping, unless packets of other hosts stream in.
    pub(crate) fn wait_here(&self, deadline: Option<Instant>, look: &mut dyn FnMut() -> bool) -> Result<(), WaitEnd> {
        loop {
            if self.spin(deadline, look)? || self.sleep(deadline, look)? {
                return Ok(());
            }
        }
    }

    #[inline]
    fn looks(&self) -> u32 {
        let is_crowded = Duration::from_nanos(self.config.spin_ns) < SELFISH;
        if is_crowded && self.offers.reaches_hosts { LOOKS_CROWDED } else { LOOKS }
    }

    /// Polls, until some time after the last packet of another host. False if nothing was found.
    fn spin(&self, deadline: Option<Instant>, look: &mut dyn FnMut() -> bool) -> Result<bool, WaitEnd> {
        let mut spinning_since: Option<Instant> = None;
        let mut taken_in = self.packets_received.load(Relaxed);
        loop {
            for _ in 0..self.looks() {
                self.progress();
                if look() {
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            self.progress_all();
            if ABORTED.load(Relaxed) {
                return Err(WaitEnd::Aborted);
            }
            if self.closing.load(Relaxed) {
                return Err(WaitEnd::Closed);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                self.tick();
                return Err(WaitEnd::TimedOut);
            }
            let before = std::mem::replace(&mut taken_in, self.packets_received.load(Relaxed));
            let since = *spinning_since.get_or_insert(now);
            if before != taken_in {
                spinning_since = Some(now);
            }
            let spun = now.duration_since(since);
            if spun.as_nanos() as u64 >= self.config.spin_ns {
                return Ok(false);
            }
            if spun >= SELFISH {
                std::thread::yield_now();
            }
        }
    }

    /// Sleeps until something is found. False if packets of other hosts stream in.
    #[cold]
    fn sleep(&self, deadline: Option<Instant>, look: &mut dyn FnMut() -> bool) -> Result<bool, WaitEnd> {
        let hot = &self.own.segment.header().hot;
        hot.sleepers.fetch_add(1, SeqCst);
        let fenced = asymmetric::heavy();
        let began = Instant::now();
        let result = loop {
            let seen = hot.wake.load(SeqCst);
            self.progress_all();
            if ABORTED.load(SeqCst) {
                break Err(WaitEnd::Aborted);
            }
            if self.closing.load(SeqCst) {
                break Err(WaitEnd::Closed);
            }
            if look() {
                break Ok(true);
            }
            let now = Instant::now();
            let mut sleep = if fenced { Duration::from_nanos(self.config.nap_ns) } else { UNFENCED_SLEEP };
            sleep = sleep.max(((now - began) / SLEEP_PART).min(TICK));
            if let Some(deadline) = deadline {
                let left = deadline.saturating_duration_since(now);
                if left.is_zero() {
                    break Err(WaitEnd::TimedOut);
                }
                sleep = sleep.min(left);
            }
            let before = self.packets_received.load(Relaxed);
            self.backend.prepare_sleep();
            futex::wait(&hot.wake, seen, Some(sleep.as_nanos() as u64));
            self.tick();
            if self.packets_received.load(Relaxed).wrapping_sub(before) >= STREAM {
                break Ok(false);
            }
        };
        hot.sleepers.fetch_sub(1, SeqCst);
        result
    }
}
