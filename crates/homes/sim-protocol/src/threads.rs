// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks with several threads.
//!
//! A thread that waits is *parked*. The simulator gets the turn only when every other thread is parked too, or sleeps
//! in the kernel for another reason (a lock, a condition, a join). The last running thread makes one request for all of
//! them, with the earliest time that any of them waits for. When the turn returns, threads that may continue are woken.
//! A thread that waits for an event with a limit (`limits.rs`) is parked, too, but sleeps in the kernel meanwhile.
//!
//! The kernel decides which thread runs first within a turn, so a rank whose threads race differs from run to run.
//!
//! Invariants
//! 1. Slots are changed under the page's request lock; only `go` is also read without it.
//! 2. A thread that waits for its NICs polls again if another thread's call may have changed them since its last poll.
//! 3. A thread that waits for the request lock, not yet parked, does not count as asleep: `lock_waiters`.
//! 4. A thread with a limit counts as asleep only in its wait in the kernel: an event may have woken it.
//!
//! Cost: none for processes with one thread. Else each wait makes a system call, and one for each other thread that waits
//! for a descriptor or two. If a thread waits for anything else, it reads the state of every thread in /proc, 10 us each.

use std::fmt::Write as _;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use crate::limits::next_look;
use crate::page::{NEVER, Parked, kind, place};
use crate::rank::RankEnd;
use crate::system::{sleep_on_for, wake};
use crate::tasks::{self, Tasks};
use crate::watched::Watched;

/// Sleep of a parked thread before it checks whether it is the last running one: first, and at most.
pub(crate) const NAP_NS: u32 = 20_000;
pub(crate) const NAP_NS_MAX: u32 = 2_000_000;
/// Repeated polls in a row because of other threads' changes.
const RECHECKS_MAX: u32 = 16;
/// Waits for descriptors with limits of this length, 1,800 s, do not count beside a thread that waits for its NIC, or
/// outside of the library. Background threads of libraries have such limits only to wake up at all, and a run in which
/// nothing else can happen is to end as stuck.
pub(crate) const FAR_PS: u64 = 1_800_000_000_000_000;

impl RankEnd {
    /// Waits until the time or, unless `kind` is SLEEP, until the rank has had a turn.
    pub(crate) fn park(&self, kind: u32, until_ps: u64, changes: u64) {
        let own = own_thread();
        let mut lock = Some(self.page().turn_line.lock());
        let slots = &self.page().parked;
        let Some(slot) = free_slot(slots) else {
            // No slot is free: this thread hands the turn over without waiting for the others.
            self.hand_over(kind, until_ps, true);
            return;
        };
        slot.kind.store(kind, Relaxed);
        slot.until_ps.store(until_ps, Relaxed);
        slot.changes.store(changes, Relaxed);
        slot.go.store(0, Relaxed);
        slot.place.store(place::SLOT, Relaxed);
        slot.since_ps.store(NEVER, Relaxed);
        slot.thread.store(own, Relaxed);
        let (mut nap, mut again) = (NAP_NS, 0);
        while slot.go.load(Acquire) == 0 {
            // A thread that waits for the request lock also sleeps in the kernel, but is not idle.
            if !others_are_asleep(slots, own) || self.page().turn_line.is_lock_contended() {
                drop(lock.take());
                sleep_on_for(&slot.go, 0, nap);
                nap = (nap * 2).min(NAP_NS_MAX);
                lock = Some(self.page().turn_line.lock_parked());
            } else if again < RECHECKS_MAX && release_stale(self, slots) {
                again += 1;
            } else {
                again = 0;
                self.hand_over_for_all();
                if self.is_alarm_due() {
                    drop(lock.take());
                    self.expire_alarms();
                    lock = Some(self.page().turn_line.lock_parked());
                }
            }
        }
        slot.thread.store(0, Relaxed);
        drop(lock);
    }

    /// Whether a thread waits so that this signal ends its wait.
    pub fn ends_wait(&self, thread: u32, signal: i32) -> bool {
        let slots = self.page().parked.iter();
        let mut own = slots.filter(|slot| slot.thread.load(Relaxed) == thread);
        own.any(|slot| slot.place.load(Relaxed) != place::SLOT && slot.signals.load(Relaxed) & 1 << (signal - 1) != 0)
    }

    /// Makes one request for all parked threads, and releases those that may continue. The caller holds the request lock.
    pub(crate) fn hand_over_for_all(&self) {
        let slots = &self.page().parked;
        let (kind, until_ps) = combined_request(slots, self.now_ps());
        self.hand_over(kind, until_ps, true);
        let now = self.now_ps();
        for slot in slots.iter().filter(|slot| waits(slot)) {
            if slot.kind.load(Relaxed) != kind::SLEEP || slot.until_ps.load(Relaxed) <= now {
                release(slot);
            }
        }
    }

    /// Lets every thread that waits for its NICs poll again. The caller holds the request lock.
    pub(crate) fn wake_parked(&self) {
        let slots = self.page().parked.iter();
        slots.filter(|slot| waits(slot) && slot.kind.load(Relaxed) != kind::SLEEP).for_each(release);
    }
}

pub(crate) fn waits(slot: &Parked) -> bool {
    slot.thread.load(Relaxed) != 0 && slot.go.load(Relaxed) == 0
}

fn release(slot: &Parked) {
    slot.go.store(1, SeqCst);
    wake(&slot.go, 1);
}

/// Lets threads poll again whose last poll came before a call that may have changed their NICs. True if there were any.
fn release_stale(end: &RankEnd, slots: &[Parked]) -> bool {
    let changes = end.changes();
    let stale =
        |slot: &&Parked| waits(slot) && slot.kind.load(Relaxed) == kind::WAIT && slot.changes.load(Relaxed) != changes;
    slots.iter().filter(stale).map(release).count() > 0
}

/// Whether a thread waits for something outside of the process, with a limit that is far.
pub(crate) fn is_far(slot: &Parked, now: u64) -> bool {
    slot.since_ps.load(Relaxed) != NEVER && slot.until_ps.load(Relaxed).saturating_sub(now) >= FAR_PS
}

/// Whether all parked threads have far limits, and others wait outside of the library. Then the rank is stuck there.
pub(crate) fn only_far_limits_remain(slots: &[Parked], now: u64) -> bool {
    let parked = || slots.iter().filter(|slot| waits(slot));
    parked().all(|slot| is_far(slot, now)) && Tasks::open().is_some_and(|tasks| tasks.count() > parked().count())
}

/// A slot that no thread uses. The caller holds the request lock.
pub(crate) fn free_slot(slots: &[Parked]) -> Option<&Parked> {
    slots.iter().find(|slot| slot.thread.load(Relaxed) == 0)
}

pub(crate) fn own_thread() -> u32 {
    // SAFETY: `gettid` takes no arguments and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Returns one request for all of the rank's threads.
fn combined_request(slots: &[Parked], now: u64) -> (u32, u64) {
    let parked = || slots.iter().filter(|slot| waits(slot));
    let is = |wanted: u32| move |slot: &Parked| slot.kind.load(Relaxed) == wanted;
    let only_sleeps = parked().all(is(kind::SLEEP));
    let ends = |slot: &Parked| match slot.until_ps.load(Relaxed) {
        _ if is_far(slot, now) && !only_sleeps => NEVER,
        until if is_far(slot, now) => until,
        until => until.min(next_look(slot.since_ps.load(Relaxed), now)),
    };
    let until_ps = parked().map(ends).min().unwrap_or(NEVER);
    if only_sleeps {
        (kind::SLEEP, until_ps)
    } else if let Some(kind) = [kind::POLL, kind::POLL_IN_CALL].into_iter().find(|kind| parked().any(is(*kind))) {
        (kind, until_ps)
    } else {
        (kind::WAIT, until_ps)
    }
}

/// Whether every other thread of this process is asleep. The caller holds the request lock.
pub(crate) fn others_are_asleep(slots: &[Parked], own: u32) -> bool {
    parked_are_asleep(slots, own).unwrap_or_else(|| states_say_asleep(slots, own))
}

/// Whether every other thread is asleep, if all of them are parked and wait for nothing but descriptors that this thread
/// can look at, too. `None`: `/proc` has to be read.
///
/// A parked thread needs the request lock to continue, so none continues meanwhile. One that has an event finds it where
/// this thread finds it: it takes nothing from a descriptor while its place is [`place::KERNEL`].
fn parked_are_asleep(slots: &[Parked], own: u32) -> Option<bool> {
    let used = || slots.iter().filter(|slot| slot.thread.load(Relaxed) != 0);
    if tasks::count()? != used().count() {
        return None;
    }
    for slot in used().filter(|slot| slot.thread.load(Relaxed) != own) {
        if slot.go.load(Relaxed) != 0 {
            return Some(false);
        }
        match slot.place.load(SeqCst) {
            place::SLOT => {}
            place::AWAKE => return Some(false),
            _ => {
                let watched = Watched::load(&slot.watched);
                if !watched.is_known() || slot.signals.load(Relaxed) != 0 {
                    return None;
                }
                if !watched.is_empty() && watched.are_ready(0) {
                    return Some(false);
                }
            }
        }
    }
    Some(true)
}

/// Whether `/proc` says that every other thread is asleep.
///
/// Reads the states of all threads twice. A thread that slept at both readings and has not run in between slept at the
/// moment between them. One reading is not enough: two threads that wake each other can each be seen asleep.
fn states_say_asleep(slots: &[Parked], own: u32) -> bool {
    let first = sleeps_of_others(slots, own);
    first.is_some() && first == sleeps_of_others(slots, own)
}

/// Hashes the number of times that each other thread has gone to sleep; changes when one has run. `None`: one is awake.
fn sleeps_of_others(slots: &[Parked], own: u32) -> Option<u64> {
    let mut ran = 0u64;
    let Some(tasks) = Tasks::open() else { return Some(0) };
    for thread in tasks.filter(|thread| *thread != own) {
        match slots.iter().find(|slot| slot.thread.load(Relaxed) == thread) {
            Some(slot) if slot.go.load(Relaxed) != 0 || slot.place.load(SeqCst) == place::AWAKE => return None,
            Some(slot) if slot.place.load(SeqCst) == place::SLOT => {}
            slot => {
                let signals = slot.map_or(0, |slot| slot.signals.load(Relaxed));
                ran = ran.wrapping_mul(31).wrapping_add(u64::from(thread)).wrapping_add(sleeps(thread, signals)?);
            }
        }
    }
    Some(ran)
}

/// Returns how often a thread has gone to sleep, if it is asleep in the kernel or has ended. `None`: it is awake, or one
/// of these signals is pending, for which it is about to look.
///
/// The status file gives the state before the counts, and the kernel counts when the thread has fallen asleep. So a
/// thread that is asleep with the same count at two readings slept from the first to the second.
fn sleeps(thread: u32, signals: u64) -> Option<u64> {
    let mut text = [0u8; 4096];
    let text = read(format_args!("/proc/self/task/{thread}/status\0"), &mut text);
    let values = |name: &'static [u8]| {
        let lines = text.split(|byte| *byte == b'\n');
        lines.filter_map(move |line| line.strip_prefix(name)).map(<[u8]>::trim_ascii)
    };
    if values(b"State:").any(|state| matches!(state.first(), Some(b'R' | b'D'))) {
        return None;
    }
    let is_pending = |set: &[u8]| {
        let set = std::str::from_utf8(set).ok().and_then(|set| u64::from_str_radix(set, 16).ok());
        set.unwrap_or(0) & signals != 0
    };
    if signals != 0 && [b"SigPnd:".as_slice(), b"ShdPnd:"].into_iter().flat_map(values).any(is_pending) {
        return None;
    }
    let number = |digits: &[u8]| {
        digits
            .iter()
            .fold(0u64, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))))
    };
    let counts = [b"voluntary_ctxt_switches:".as_slice(), b"nonvoluntary_ctxt_switches:"];
    Some(counts.into_iter().flat_map(values).map(number).fold(0, u64::wrapping_add))
}

/// Reads the beginning of a file; empty if it cannot be opened.
fn read<'a>(path: std::fmt::Arguments<'_>, text: &'a mut [u8]) -> &'a [u8] {
    let mut name = Path { bytes: [0; 64], used: 0 };
    let _ = name.write_fmt(path);
    // SAFETY: the format strings end with a null byte, and `name` starts zeroed, so it is a C string. `read` writes at most
    // `text.len()` bytes into `text`, and the descriptor is ours alone.
    let read = unsafe {
        let fd = libc::open(name.bytes.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return &[];
        }
        let read = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        read
    };
    &text[..usize::try_from(read).unwrap_or(0)]
}

/// A path in a fixed buffer, so that formatting it allocates nothing.
struct Path {
    bytes: [u8; 64],
    used: usize,
}

impl std::fmt::Write for Path {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = self.bytes.get_mut(self.used..self.used + text.len()).ok_or(std::fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.used += text.len();
        Ok(())
    }
}
