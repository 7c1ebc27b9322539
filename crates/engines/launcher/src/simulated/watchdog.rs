// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches a rank that has the turn. If it blocks, it never continues, because no other rank runs meanwhile. If it waits
//! again and again in calls whose limits are real, virtual time stands still.

use std::fs;
use std::time::{Duration, Instant};

/// Longest idle time of a rank with the turn.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Longest time of a rank with the turn that sleeps in nine of ten checks, and wakes in between.
const WAITING_MAX: Duration = Duration::from_secs(5);
/// Longest time in one call of the first thread of a rank whose other threads let time pass, before a warning.
const STILL_MAX: Duration = Duration::from_secs(10);
/// Time between checks of a rank that takes long.
const CHECK: Duration = Duration::from_millis(100);

/// Shortest time between two checks.
const CHECK_LEAST: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, Debug)]
pub(super) struct Watchdog {
    idle_since: Instant,
    began: Instant,
    checks: u32,
    /// Checks at which it slept.
    asleep: u32,
    /// Its CPU time at first, and at the last check.
    first: Duration,
    used: Duration,
    /// CPU time after which it must stop, and after which it is observed.
    cpu_time_max: Duration,
    look_after: Duration,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Activity {
    Working,
    /// It has used so much CPU time that it may be polling memory. [`Watchdog::looked`] takes the observation.
    Busy,
    /// It has used more CPU time than allowed.
    Spinning,
    /// It blocks in this system call.
    Blocked(Call),
    /// It waits in this system call, not for the first time: the call has a limit of real time.
    Waiting(Call),
}

impl Watchdog {
    /// Watches a rank that may use `cpu_time_max`, and is observed after `look_after`.
    pub fn new(pid: u32, (cpu_time_max, look_after): (Duration, Duration)) -> Watchdog {
        let used = used(pid);
        let now = Instant::now();
        Watchdog { idle_since: now, began: now, checks: 0, asleep: 0, first: used, used, cpu_time_max, look_after }
    }

    /// The time until the next check.
    pub fn next_check(&self) -> Duration {
        let spent = self.used.saturating_sub(self.first);
        let next = self.cpu_time_max.min(self.look_after).saturating_sub(spent);
        next.clamp(CHECK_LEAST, CHECK)
    }

    /// Records that the rank was observed and computes. The next observation comes after twice the time.
    pub fn looked(&mut self) {
        self.look_after *= 2;
    }

    pub fn check(&mut self, pid: u32) -> Activity {
        let now = Instant::now();
        let used = used(pid);
        let sleeps = all_sleep(pid);
        if used != self.used || !sleeps {
            (self.used, self.idle_since) = (used, now);
        }
        self.checks += 1;
        self.asleep += u32::from(sleeps);
        let spent = used.saturating_sub(self.first);
        if now - self.idle_since >= IDLE_MAX {
            Activity::Blocked(Call::of(pid))
        } else if now - self.began >= WAITING_MAX
            && self.asleep > self.checks / 10 * 9
            && spent < WAITING_MAX / 10
            && sleeps
        {
            Activity::Waiting(Call::of(pid))
        } else if used.saturating_sub(self.first) >= self.cpu_time_max {
            Activity::Spinning
        } else if used.saturating_sub(self.first) >= self.look_after && !sleeps {
            Activity::Busy
        } else {
            Activity::Working
        }
    }
}

fn used(pid: u32) -> Duration {
    let mut clock: libc::clockid_t = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: both calls fill variables that live across them.
    let known = unsafe {
        libc::clock_getcpuclockid(pid as libc::pid_t, &mut clock) == 0 && libc::clock_gettime(clock, &mut time) == 0
    };
    if known { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) } else { Duration::ZERO }
}

/// Whether no thread runs. One that is traced (state `t`) works: a debugger or a search for leaks has stopped it.
fn all_sleep(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    threads.flatten().all(|thread| {
        let Ok(stat) = fs::read_to_string(thread.path().join("stat")) else { return true };
        // The fields after the name, which may hold any characters.
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().next().map(str::to_owned));
        matches!(state.as_deref(), Some("S" | "T"))
    })
}

/// A system call in which a rank waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Call {
    text: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// It waits for a descriptor.
    File,
    /// It waits for a thread.
    Thread,
    Child,
    /// It has a limit; the C library's function takes virtual time.
    Limit,
    Other,
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Call {
    /// The system call that keeps a process waiting: that of its first thread, unless that waits for another thread; a
    /// background thread of a library may wait with a limit meanwhile.
    pub fn of(pid: u32) -> Call {
        let mut calls: Vec<Call> = threads(pid).into_iter().map(|thread| Call::of_thread(pid, thread)).collect();
        let first = calls.iter().position(|call| !matches!(call.kind, Kind::Thread | Kind::Limit));
        match calls.len() {
            0 => Call { text: "an unknown system call".to_owned(), kind: Kind::Other },
            _ => calls.swap_remove(first.filter(|_| calls[0].kind == Kind::Thread).unwrap_or(0)),
        }
    }

    fn of_thread(pid: u32, thread: u32) -> Call {
        let text = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")).unwrap_or_default();
        let mut words = text.split_ascii_whitespace();
        let Some(number) = words.next().and_then(|word| word.parse::<i64>().ok()) else {
            return Call { text: "an unknown system call".to_owned(), kind: Kind::Other };
        };
        let first = words.next().unwrap_or("0x0").trim_start_matches("0x");
        let first = u64::from_str_radix(first, 16).unwrap_or(0);
        match NAMES.iter().find(|(known, ..)| *known == number) {
            Some((_, name, kind)) if *kind == Kind::File => {
                Call { text: format!("the system call {name}({first}, ...)"), kind: *kind }
            }
            Some((_, name, kind)) => Call { text: format!("the system call {name}"), kind: *kind },
            None => Call { text: format!("system call {number}"), kind: Kind::Other },
        }
    }

    /// Advice for the user.
    pub fn remedy(&self) -> &'static str {
        match self.kind {
            Kind::File => {
                "wait for the descriptor by poll(), select() or epoll_wait() with a limit, which take virtual time"
            }
            Kind::Thread => {
                "let the thread that it waits for wait by the library, or by a call with a limit, which takes virtual time"
            }
            Kind::Child => "start no programs, since they run in real time, or only such as end at once",
            Kind::Limit => {
                "give the call a limit, and call the C library's function: a system call by an instruction of the \
                 program takes real time"
            }
            Kind::Other => "wait by the library, or by a call with a limit of the C library, which takes virtual time",
        }
    }
}

fn threads(pid: u32) -> Vec<u32> {
    let names = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let mut threads: Vec<u32> = names.filter_map(|name| name.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    threads
}

/// Watches the first thread of a rank whose other threads let virtual time pass: such a rank takes its turns, so it is not
/// ended, but it may be stuck.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstThread {
    /// Since when it has not run, and how often it had gone to sleep.
    still: Option<(Instant, String, bool)>,
}

impl FirstThread {
    /// Returns the call in which it has waited for long, outside of those that take virtual time. `Some` once for a wait.
    pub fn check(&mut self, pid: u32) -> Option<Call> {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{pid}/status")).unwrap_or_default();
        let sleeps: String = status.lines().filter(|line| line.contains("ctxt_switches")).collect();
        match &mut self.still {
            Some((since, before, is_told)) if *before == sleeps => {
                if *is_told || since.elapsed() < STILL_MAX {
                    return None;
                }
                *is_told = true;
                let call = Call::of_thread(pid, pid);
                matches!(call.kind, Kind::File | Kind::Child | Kind::Other).then_some(call)
            }
            still => {
                *still = Some((Instant::now(), sleeps, false));
                None
            }
        }
    }
}

/// System calls in which programs block. The first argument of those that wait for a file is the descriptor.
const NAMES: [(i64, &str, Kind); 32] = [
    (libc::SYS_read, "read", Kind::File),
    (libc::SYS_readv, "readv", Kind::File),
    (libc::SYS_write, "write", Kind::File),
    (libc::SYS_accept, "accept", Kind::File),
    (libc::SYS_accept4, "accept4", Kind::File),
    (libc::SYS_connect, "connect", Kind::File),
    (libc::SYS_recvfrom, "recvfrom", Kind::File),
    (libc::SYS_recvmsg, "recvmsg", Kind::File),
    (libc::SYS_recvmmsg, "recvmmsg", Kind::File),
    (libc::SYS_sendto, "sendto", Kind::File),
    (libc::SYS_sendmsg, "sendmsg", Kind::File),
    (libc::SYS_flock, "flock", Kind::File),
    (libc::SYS_fcntl, "fcntl", Kind::File),
    (libc::SYS_futex, "futex (a lock, a condition or a thread of its own)", Kind::Thread),
    (libc::SYS_wait4, "wait4", Kind::Child),
    (libc::SYS_waitid, "waitid", Kind::Child),
    (libc::SYS_poll, "poll", Kind::Limit),
    (libc::SYS_ppoll, "ppoll", Kind::Limit),
    (libc::SYS_select, "select", Kind::Limit),
    (libc::SYS_pselect6, "pselect6", Kind::Limit),
    (libc::SYS_epoll_wait, "epoll_wait", Kind::Limit),
    (libc::SYS_epoll_pwait, "epoll_pwait", Kind::Limit),
    (libc::SYS_epoll_pwait2, "epoll_pwait2", Kind::Limit),
    (libc::SYS_nanosleep, "nanosleep", Kind::Limit),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", Kind::Limit),
    (libc::SYS_rt_sigtimedwait, "sigtimedwait", Kind::Limit),
    (libc::SYS_rt_sigsuspend, "sigsuspend", Kind::Other),
    (libc::SYS_pause, "pause", Kind::Other),
    (libc::SYS_semop, "semop", Kind::Other),
    (libc::SYS_semtimedop, "semtimedop", Kind::Other),
    (libc::SYS_mq_timedreceive, "mq_timedreceive", Kind::Other),
    (libc::SYS_openat, "openat", Kind::Other),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_process_is_found_with_its_system_call() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        while !all_sleep(child.id()) || !Call::of(child.id()).text.contains("read") {
            std::thread::sleep(Duration::from_millis(5));
        }
        let call = Call::of(child.id());
        assert_eq!(call.to_string(), "the system call read(0, ...)");
        assert!(call.remedy().contains("poll()"), "{}", call.remedy());
        assert!(!all_sleep(std::process::id()), "this one works");
        drop(child.stdin.take());
        let _ = child.wait();
    }
}
