// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The identity of an operating system process.
//!
//! The kernel reuses pids. A pid together with the start time of the process (field 22 of `/proc/<pid>/stat`, in clock
//! ticks since boot) is unique. Every record that names a process (locks, claims, job files) holds both.
//!
//! Invariants
//! 1. A zombie is dead: it will never run again, although its pid still exists. The one exception is a process whose
//!    first thread has ended while others run on; the kernel shows it as a zombie with threads.
//! 2. The answers do not depend on the owner of the process: every user may read `stat`, and where `/proc` hides other
//!    users' processes, signal 0 decides.
//!
//! Cost: one open, read and close of a `/proc` file per query (some microseconds), 1 KiB of stack.

use std::fs::File;
use std::io::Read;

/// An operating system process, for as long as the machine is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Operating system process id, in this pid namespace.
    pub pid: u32,
    /// Start time in clock ticks since boot; 0 where `/proc` cannot be read.
    pub start: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: u8,
    parent: u32,
    thread_count: u64,
    start: u64,
}

impl Identity {
    /// Returns the calling process. Reads it at each call, because a fork changes the answer.
    pub fn own() -> Identity {
        let pid = std::process::id();
        Identity::of(pid).unwrap_or(Identity { pid, start: 0 })
    }

    /// Returns the process that has this pid now; `None` if there is none, or only a zombie.
    pub fn of(pid: u32) -> Option<Identity> {
        match read_stat(pid) {
            Some(stat) if stat.is_alive() => Some(Identity { pid, start: stat.start }),
            Some(_) => None,
            None => accepts_signals(pid).then_some(Identity { pid, start: 0 }),
        }
    }

    /// Whether this process is still running; another process with the same pid does not count.
    pub fn is_alive(&self) -> bool {
        match read_stat(self.pid) {
            Some(stat) => self.is_running(&stat),
            None => accepts_signals(self.pid),
        }
    }

    /// Returns the pid of this process's parent, if this process is still running: 1 if its own parent has ended.
    pub fn parent(&self) -> Option<u32> {
        read_stat(self.pid).filter(|stat| self.is_running(stat)).map(|stat| stat.parent)
    }

    fn is_running(&self, stat: &Stat) -> bool {
        // A start of 0 means that /proc could not be read: then the pid alone decides.
        stat.is_alive() && (self.start == 0 || stat.start == self.start)
    }

    /// Returns the form kept in files, one line: `pid start`.
    pub(crate) fn to_line(self) -> String {
        format!("{} {}\n", self.pid, self.start)
    }

    /// Reads [`Identity::to_line`]; `None` for anything else.
    pub(crate) fn from_line(line: &str) -> Option<Identity> {
        let mut words = line.split_ascii_whitespace();
        let pid = words.next()?.parse().ok()?;
        let start = words.next()?.parse().ok()?;
        words.next().is_none().then_some(Identity { pid, start })
    }
}

impl Stat {
    fn is_alive(&self) -> bool {
        match self.state {
            b'X' | b'x' => false,
            b'Z' => self.thread_count > 1,
            _ => true,
        }
    }
}

fn read_stat(pid: u32) -> Option<Stat> {
    let mut text = [0u8; 1024];
    let mut file = File::open(format!("/proc/{pid}/stat")).ok()?;
    let mut filled = 0;
    while filled < text.len() {
        match file.read(&mut text[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // ESRCH: the process ended between open and read.
            Err(_) => return None,
        }
    }
    parse_stat(&text[..filled])
}

/// Parses a `stat` line. The program's name is in parentheses and may itself hold parentheses, spaces and newlines, so fields
/// are counted from the last `)`: the next one is field 3.
fn parse_stat(text: &[u8]) -> Option<Stat> {
    let end_of_name = text.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&text[end_of_name + 1..]).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = fields.next()?.parse().ok()?;
    let thread_count = fields.nth(20 - 5)?.parse().ok()?;
    let start = fields.nth(22 - 21)?.parse().ok()?;
    Some(Stat { state, parent, thread_count, start })
}

/// Whether signal 0 finds the process. Used only where `/proc` is absent, or hides other users' processes.
fn accepts_signals(pid: u32) -> bool {
    let Ok(raw) = i32::try_from(pid) else { return false };
    let Some(pid) = rustix::process::Pid::from_raw(raw) else { return false };
    match rustix::process::test_kill_process(pid) {
        Ok(()) => true,
        Err(error) => error == rustix::io::Errno::PERM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn own_process_is_alive_and_has_a_start() {
        let own = Identity::own();
        assert_eq!(own.pid, std::process::id());
        assert!(own.start > 0);
        assert!(own.is_alive());
        assert_eq!(Identity::of(own.pid), Some(own));
    }

    #[test]
    fn another_start_time_is_another_process() {
        let own = Identity::own();
        assert!(!Identity { start: own.start + 1, ..own }.is_alive());
    }

    #[test]
    fn first_process_of_the_machine_is_alive_whoever_owns_it() {
        assert!(Identity::of(1).is_some_and(|init| init.is_alive()));
    }

    #[test]
    fn a_zombie_and_a_reaped_child_are_dead() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat starts");
        let identity = Identity::of(child.id()).expect("it runs");
        assert!(identity.is_alive());
        assert_eq!(identity.parent(), Some(std::process::id()));
        child.kill().expect("ours to kill");
        while identity.is_alive() {
            std::thread::yield_now();
        }
        assert_eq!(Identity::of(child.id()), None, "a zombie is dead");
        assert_eq!(identity.parent(), None, "and has no parent");
        child.wait().expect("reaped once");
        assert!(!identity.is_alive());
    }

    #[test]
    fn impossible_pids_are_dead() {
        assert!(!Identity { pid: 0, start: 0 }.is_alive());
        assert!(!Identity { pid: u32::MAX, start: 7 }.is_alive());
        assert_eq!(Identity::of(u32::MAX), None);
    }

    #[test]
    fn names_with_parentheses_do_not_shift_fields() {
        let line = b"42 (a) S 9 (b\n) Z 1 42 42 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 987 0 0\n";
        assert_eq!(parse_stat(line), Some(Stat { state: b'Z', parent: 1, thread_count: 1, start: 987 }));
        assert_eq!(parse_stat(b"42 (cut) S 1 2"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn zombie_leader_with_threads_is_alive() {
        let stat = |state, thread_count| Stat { state, parent: 1, thread_count, start: 1 };
        assert!(stat(b'Z', 2).is_alive());
        assert!(!stat(b'Z', 1).is_alive());
        assert!(!stat(b'Z', 0).is_alive());
        assert!(!stat(b'X', 2).is_alive());
    }

    #[test]
    fn line_form_round_trips_and_rejects_the_rest() {
        let own = Identity::own();
        assert_eq!(Identity::from_line(&own.to_line()), Some(own));
        for bad in ["", "1", "1 2 3", "x 2", "1 -2", "99999999999 1"] {
            assert_eq!(Identity::from_line(bad), None, "{bad:?}");
        }
    }
}
