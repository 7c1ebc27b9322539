// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Watches a rank that has the turn. If it blocks, it never continues, because no other rank runs meanwhile.

use std::fs;
use std::time::{Duration, Instant};

/// Longest idle time of a rank with the turn.
const IDLE_MAX: Duration = Duration::from_secs(2);
/// Time between checks of a rank that takes long.
const CHECK: Duration = Duration::from_millis(100);

/// Shortest time between two checks.
const CHECK_LEAST: Duration = Duration::from_micros(100);

#[derive(Clone, Copy, Debug)]
pub(super) struct Watchdog {
    idle_since: Instant,
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
    Blocked(String),
}

impl Watchdog {
    /// Watches a rank that may use `cpu_time_max`, and is observed after `look_after`.
    pub fn new(pid: u32, cpu_time_max: Duration, look_after: Duration) -> Watchdog {
        let used = used(pid);
        Watchdog { idle_since: Instant::now(), first: used, used, cpu_time_max, look_after }
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
        if now - self.idle_since >= IDLE_MAX {
            Activity::Blocked(system_call(pid))
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

/// The system call that its first thread is in, if known.
fn system_call(pid: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    let mut words = text.split_ascii_whitespace();
    let Some(number) = words.next().and_then(|word| word.parse::<i64>().ok()) else {
        return "an unknown system call".to_owned();
    };
    let first = words.next().unwrap_or("0x0").trim_start_matches("0x");
    let first = u64::from_str_radix(first, 16).unwrap_or(0);
    match NAMES.iter().find(|(known, _)| *known == number) {
        Some((_, name)) if TAKES_A_FILE.contains(name) => format!("the system call {name}({first}, ...)"),
        Some((_, name)) => format!("the system call {name}"),
        None => format!("system call {number}"),
    }
}

/// System calls whose first argument is a descriptor.
const TAKES_A_FILE: [&str; 9] =
    ["read", "write", "accept", "recvfrom", "recvmsg", "sendto", "connect", "flock", "epoll_wait"];

/// System calls in which programs block.
const NAMES: [(i64, &str); 22] = [
    (libc::SYS_read, "read"),
    (libc::SYS_write, "write"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_futex, "futex (a lock, a condition or a thread of its own)"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_rt_sigtimedwait, "sigtimedwait"),
    (libc::SYS_rt_sigsuspend, "sigsuspend"),
    (libc::SYS_semop, "semop"),
    (libc::SYS_openat, "openat"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_process_is_found_with_its_system_call() {
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        while !all_sleep(child.id()) || !system_call(child.id()).contains("read") {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(system_call(child.id()), "the system call read(0, ...)");
        assert!(!all_sleep(std::process::id()), "this one works");
        drop(child.stdin.take());
        let _ = child.wait();
    }
}
