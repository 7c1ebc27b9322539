// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Ranks with several threads.
//!
//! A thread that waits is *parked*. The turn goes back to the simulator only when every other thread is parked, too, or sleeps in
//! the kernel for a reason of its own (a lock, a condition, a join); the last one hands it over, for all of them: until the
//! earliest time that any of them waits for. Who may go on with the next turn is woken, and looks.
//!
//! Which of a rank's threads runs first within a turn is up to the system, as ever: a rank whose threads race is not the same in
//! every run.
//!
//! Invariants
//! 1. Slots are changed under the page's lock of askers; only `go` is also looked at without it.
//! 2. A thread that waits for its NICs is let look again when calls of other threads may have changed them since it looked.
//! 3. A thread that waits for the lock of askers and is not parked yet is no thread that sleeps: it is counted while it does.
//!
//! Cost: none for processes with one thread. Otherwise a wait looks at the state of each thread in /proc, some 10 us each.

use std::fmt::Write as _;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use crate::page::{Parked, kind};
use crate::rank::RankEnd;
use crate::system::{one_thread, sleep_on_for, wake};

/// How long a parked thread sleeps before it looks whether it is the last, at first and at most.
const NAP_NS: u32 = 20_000;
const NAP_NS_MAX: u32 = 2_000_000;
/// How often in a row threads look again for changes of each other's.
const LOOKS_AGAIN: u32 = 16;

/// Whether this process may have several threads.
pub(crate) fn are_several() -> bool {
    one_thread().load(Relaxed) == 0
}

/// Waits until the time has come, or, unless this is a sleep, the rank had a turn.
pub(crate) fn park(end: &RankEnd, kind: u32, until_ps: u64, changes: u64) {
    // SAFETY: no memory is involved.
    let own = unsafe { libc::syscall(libc::SYS_gettid) } as u32;
    let mut asking = Some(end.lock());
    let slots = &end.page().parked;
    let Some(slot) = slots.iter().find(|slot| slot.thread.load(Relaxed) == 0) else {
        // More threads than there is room for: this one is not waited for.
        end.hand_over(kind, until_ps, true);
        return;
    };
    slot.kind.store(kind, Relaxed);
    slot.until_ps.store(until_ps, Relaxed);
    slot.changes.store(changes, Relaxed);
    slot.go.store(0, Relaxed);
    slot.thread.store(own, Relaxed);
    let (mut nap, mut again) = (NAP_NS, 0);
    while slot.go.load(Acquire) == 0 {
        // Who waits to ask sleeps in the kernel, too.
        if !others_are_quiet(slots, own) || end.is_asking_waited_for() {
            drop(asking.take());
            sleep_on_for(&slot.go, 0, nap);
            nap = (nap * 2).min(NAP_NS_MAX);
            asking = Some(end.lock_parked());
        } else if again < LOOKS_AGAIN && let_look_again(end, slots) {
            again += 1;
        } else {
            again = 0;
            let (kind, until_ps) = of_all(slots);
            end.hand_over(kind, until_ps, true);
            let now = end.now_ps();
            for slot in slots.iter().filter(|slot| waits(slot)) {
                if slot.kind.load(Relaxed) != kind::SLEEP || slot.until_ps.load(Relaxed) <= now {
                    let_go(slot);
                }
            }
        }
    }
    slot.thread.store(0, Relaxed);
    drop(asking);
}

/// All that wait for their NICs look again. Under the lock of askers.
pub(crate) fn wake_all(end: &RankEnd) {
    let slots = end.page().parked.iter();
    slots.filter(|slot| waits(slot) && slot.kind.load(Relaxed) != kind::SLEEP).for_each(let_go);
}

fn waits(slot: &Parked) -> bool {
    slot.thread.load(Relaxed) != 0 && slot.go.load(Relaxed) == 0
}

fn let_go(slot: &Parked) {
    slot.go.store(1, SeqCst);
    wake(&slot.go, 1);
}

/// Lets those look again that looked before calls that may have changed what they look at. Whether there were any.
fn let_look_again(end: &RankEnd, slots: &[Parked]) -> bool {
    let changes = end.changes();
    let stale =
        |slot: &&Parked| waits(slot) && slot.kind.load(Relaxed) == kind::WAIT && slot.changes.load(Relaxed) != changes;
    slots.iter().filter(stale).map(let_go).count() > 0
}

/// What the rank asks for, whose threads ask for these.
fn of_all(slots: &[Parked]) -> (u32, u64) {
    let parked = || slots.iter().filter(|slot| waits(slot));
    let is = |wanted: u32| move |slot: &Parked| slot.kind.load(Relaxed) == wanted;
    let until_ps = parked().map(|slot| slot.until_ps.load(Relaxed)).min().unwrap_or(u64::MAX);
    if parked().all(is(kind::SLEEP)) {
        (kind::SLEEP, until_ps)
    } else if until_ps == u64::MAX && parked().any(is(kind::POLL)) {
        (kind::POLL, 0)
    } else {
        (kind::WAIT, until_ps)
    }
}

/// Whether no other thread of this process does anything.
///
/// Two looks at all of them: whoever slept at both and has not run between slept at the moment between the looks. One look is not
/// enough, for threads that wake each other can each be seen asleep.
fn others_are_quiet(slots: &[Parked], own: u32) -> bool {
    let first = look_at_others(slots, own);
    first.is_some() && first == look_at_others(slots, own)
}

/// What changes when one of the other threads has run; None where one is not asleep.
fn look_at_others(slots: &[Parked], own: u32) -> Option<u64> {
    let mut ran = 0u64;
    // SAFETY: plain calls; the directory is this function's own, and its entries are read before the next is asked for.
    unsafe {
        let directory = libc::opendir(c"/proc/self/task".as_ptr());
        if directory.is_null() {
            return Some(0);
        }
        let mut quiet = true;
        while quiet {
            let entry = libc::readdir(directory);
            if entry.is_null() {
                break;
            }
            let name = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr());
            let Some(thread) = name.to_str().ok().and_then(|name| name.parse::<u32>().ok()) else { continue };
            if thread == own {
                continue;
            }
            match slots.iter().find(|slot| slot.thread.load(Relaxed) == thread) {
                Some(slot) => quiet = slot.go.load(Relaxed) == 0,
                None => {
                    let sleeps = sleeps(thread);
                    quiet = sleeps.is_some();
                    ran = ran.wrapping_mul(31).wrapping_add(u64::from(thread)).wrapping_add(sleeps.unwrap_or(0));
                }
            }
        }
        libc::closedir(directory);
        quiet.then_some(ran)
    }
}

/// How often a thread of this process has gone to sleep, if it sleeps in the kernel now, or is gone.
///
/// The kernel counts when it has fallen asleep, and tells the state first: who sleeps at two looks and has the same count at both
/// has slept from the first to the second.
fn sleeps(thread: u32) -> Option<u64> {
    let mut text = [0u8; 4096];
    let text = read(format_args!("/proc/self/task/{thread}/status\0"), &mut text);
    let values = |name: &'static [u8]| {
        let lines = text.split(|byte| *byte == b'\n');
        lines.filter_map(move |line| line.strip_prefix(name)).map(<[u8]>::trim_ascii)
    };
    if values(b"State:").any(|state| matches!(state.first(), Some(b'R' | b'D'))) {
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

/// Reads the beginning of a file; nothing if there is none.
fn read<'a>(path: std::fmt::Arguments<'_>, text: &'a mut [u8]) -> &'a [u8] {
    let mut name = Path { bytes: [0; 64], used: 0 };
    let _ = name.write_fmt(path);
    // SAFETY: a terminated string of this frame, and the caller's memory.
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

/// A path without an allocation.
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
