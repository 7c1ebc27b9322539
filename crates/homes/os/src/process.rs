// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Identifies processes, and tells whether they are alive.
//!
//! A pid alone is reused. A pid with its start time (field 22 of `/proc/PID/stat`, in clock ticks since boot) is unique
//! within one boot. Locks, claims and arenas name their holder by both.
//!
//! Invariants:
//! 1. A process counts as dead only if that is certain: there is no such process, it has another start time, or it is a
//!    zombie without threads. If the state is unknown (no /proc, out of descriptors), an existing pid counts as alive.
//! 2. A dead identity never becomes alive again.
//! 3. All processes of a job see each other in one pid namespace.
//! 4. This process has one identity until it forks. So out of descriptors it does not turn into another process.
//!
//! Cost: a check is three system calls (open, read, close), some 3 us, and allocates nothing.

use core::fmt::Write as _;
use core::num::NonZero;
use core::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::shortage::{Need, Shortage};

/// One process of this boot.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Identity {
    /// Its pid, as this namespace sees it. Never 0 for a process.
    pub pid: u32,
    /// Its start time in clock ticks since boot; 0 if unknown, which matches any.
    pub start: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Seen {
    Alive { start: u64, parent: u32 },
    Dead,
    Unknown,
}

/// This process's pid and start time, once they are known. A forked child has another pid.
static OWN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

impl Identity {
    /// Returns this process's identity, which is right after a `fork` too. The first call reads it, and ends the process
    /// with the reason if it has no free descriptor for that: [`Identity::find_own`] gives an error instead.
    pub fn own() -> Identity {
        Identity::find_own().unwrap_or_else(|shortage| shortage.end_process())
    }

    /// As [`Identity::own`]. Once it has succeeded, neither fails.
    pub fn find_own() -> Result<Identity, Shortage> {
        let pid = std::process::id();
        // The start is stored before the pid, and read after it. Two threads store the same values.
        if OWN[0].load(Acquire) == u64::from(pid) {
            return Ok(Identity { pid, start: OWN[1].load(Relaxed) });
        }
        let mut buffer = [0u8; 1024];
        let read = read_stat(pid, &mut buffer);
        let lack = read.as_ref().err().and_then(|errno| Shortage::of(*errno, Need::File(Path::new("/proc/self/stat"))));
        if let Some(shortage) = lack.filter(Shortage::is_passing) {
            return Err(shortage);
        }
        let start = match read.map(parse) {
            Ok(Some(Seen::Alive { start, .. })) => start,
            _ => {
                log::warn!("/proc/{pid}/stat cannot be read: peers will know this process by its pid alone");
                0
            }
        };
        OWN[1].store(start, Relaxed);
        OWN[0].store(pid.into(), Release);
        Ok(Identity { pid, start })
    }

    /// Returns the process that has this pid now. `None` if there is none, or if it is dead. The start is 0 if it is
    /// unknown.
    pub fn of(pid: u32) -> Option<Identity> {
        match look(pid) {
            Seen::Alive { start, .. } => Some(Identity { pid, start }),
            Seen::Dead => None,
            Seen::Unknown => exists(pid).then_some(Identity { pid, start: 0 }),
        }
    }

    /// Returns the pid of this process's parent, if this process is still running: 1 if its own parent has ended.
    pub fn parent(&self) -> Option<u32> {
        match look(self.pid) {
            Seen::Alive { start, parent } if self.start == 0 || start == self.start => Some(parent),
            _ => None,
        }
    }

    /// Whether this very process is still alive.
    pub fn is_alive(&self) -> bool {
        match look(self.pid) {
            Seen::Alive { start, .. } => self.start == 0 || start == self.start,
            Seen::Dead => false,
            Seen::Unknown => exists(self.pid),
        }
    }

    /// Returns the identity in one word, for locks: the pid in the upper half, the low 32 bits of the start time in the
    /// lower half.
    ///
    /// Never 0, which means that the lock is free. Two processes with one pid share a word only if they started a
    /// multiple of 2^32 ticks (497 days at 100 Hz) apart.
    pub fn to_word(&self) -> u64 {
        debug_assert_ne!(self.pid, 0);
        u64::from(self.pid) << 32 | self.start & 0xffff_ffff
    }

    /// Whether the process of a word of [`to_word`](Self::to_word) is alive; false for 0.
    pub fn word_is_alive(word: u64) -> bool {
        let (pid, start_low) = ((word >> 32) as u32, word as u32);
        match look(pid) {
            Seen::Alive { start, .. } => start_low == 0 || start as u32 == start_low,
            Seen::Dead => false,
            Seen::Unknown => exists(pid),
        }
    }
}

/// Returns the number of cores that this process may use at once: its affinity mask, limited by its control group's
/// quota if there is one. At least 1. It reads files, so call it once.
pub fn cores_allowed() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

fn look(pid: u32) -> Seen {
    let mut buffer = [0u8; 1024];
    if pid == 0 || i32::try_from(pid).is_err() {
        return Seen::Dead;
    }
    match read_stat(pid, &mut buffer) {
        Ok(text) => parse(text).unwrap_or(Seen::Unknown),
        // The process has ended, unless /proc is missing or hides it; then it still exists.
        Err(Errno::NOENT | Errno::SRCH) if exists(pid) => Seen::Unknown,
        Err(Errno::NOENT | Errno::SRCH) => Seen::Dead,
        Err(_) => Seen::Unknown,
    }
}

/// Returns the part of /proc/PID/stat that fits into the buffer. The needed fields are well within it.
fn read_stat(pid: u32, buffer: &mut [u8]) -> Result<&[u8], Errno> {
    let mut path = StackPath::default();
    let _ = write!(path, "/proc/{pid}/stat");
    let file = rustix::fs::open(path.as_bytes(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let length = loop {
        match rustix::io::read(&file, &mut *buffer) {
            Err(Errno::INTR) => {}
            result => break result?,
        }
    };
    Ok(&buffer[..length])
}

/// Parses the fields after the command name. The name is in parentheses and may contain spaces, parentheses and
/// newlines. So the last closing parenthesis ends it (no later field can contain one).
fn parse(text: &[u8]) -> Option<Seen> {
    // Indices among the fields that follow the name. proc(5) counts from 1, and field 3 is the first of these.
    const STATE: usize = 0;
    const PARENT: usize = 4 - 3;
    const THREADS: usize = 20 - 3;
    const START: usize = 22 - 3;
    let name_end = text.iter().rposition(|byte| *byte == b')')?;
    let rest = core::str::from_utf8(&text[name_end + 1..]).ok()?;
    let field = |at: usize| rest.split_ascii_whitespace().nth(at);
    let threads: u64 = field(THREADS)?.parse().ok()?;
    let start: u64 = field(START)?.parse().ok()?;
    let parent = field(PARENT)?.parse().ok()?;
    match field(STATE)? {
        // A main thread that has ended is shown as a zombie while other threads of the process still run.
        "Z" if threads > 1 => Some(Seen::Alive { start, parent }),
        "Z" | "X" | "x" => Some(Seen::Dead),
        _ => Some(Seen::Alive { start, parent }),
    }
}

fn exists(pid: u32) -> bool {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return false;
    };
    !matches!(test_kill_process(pid), Err(Errno::SRCH))
}

#[derive(Default)]
struct StackPath {
    bytes: [u8; 24],
    length: usize,
}

impl StackPath {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl core::fmt::Write for StackPath {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Child, state_of, until};

    fn sleeper() -> Child {
        Child::fork(|| {
            loop {
                // SAFETY: pause has no preconditions.
                unsafe { libc::pause() };
            }
        })
    }

    fn line(name: &str, state: &str, threads: u32, start: u64) -> Vec<u8> {
        format!(
            "77 ({name}) {state} 1 77 77 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 {threads} 0 {start} 1000 200 \
             18446744073709551615 1 2 3 4 5 6 7 8 9 0 0 0 17 1 0 0 0 0 0\n"
        )
        .into_bytes()
    }

    #[test]
    fn reads_past_any_command_name() {
        for name in ["sh", "", "a b", ") R 1 2", "(", "))", "x) Z (y", "\n) S", "ü"] {
            assert_eq!(parse(&line(name, "S", 1, 4242)), Some(Seen::Alive { start: 4242, parent: 1 }), "{name}");
        }
        assert_eq!(
            parse(b"77 (\xff\xfe)) R 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0\n"),
            Some(Seen::Alive { start: 9, parent: 1 })
        );
    }

    #[test]
    fn knows_the_states_of_the_dead() {
        for state in ["R", "S", "D", "T", "t", "I", "W", "P"] {
            assert_eq!(parse(&line("a", state, 1, 1)), Some(Seen::Alive { start: 1, parent: 1 }), "{state}");
        }
        for state in ["Z", "X", "x"] {
            assert_eq!(parse(&line("a", state, 1, 1)), Some(Seen::Dead), "{state}");
        }
        assert_eq!(parse(&line("a", "Z", 2, 1)), Some(Seen::Alive { start: 1, parent: 1 }));
    }

    #[test]
    fn nonsense_is_unknown() {
        for text in [
            &b""[..],
            b"77",
            b"77 (a",
            b"77 (a) S 1 2 3",
            b"77 (a) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 x 18 19 20",
        ] {
            assert_eq!(parse(text), None);
        }
    }

    #[test]
    fn own_is_alive() {
        let own = Identity::own();
        assert_eq!(own.pid, std::process::id());
        assert_eq!(Identity::of(own.pid), Some(own));
        assert!(own.is_alive());
        assert!(Identity::word_is_alive(own.to_word()));
        let child = Child::fork(|| i32::from(Identity::own().pid == std::process::id() && Identity::own() != own));
        assert_eq!(child.exit_code(), Some(1));
    }

    #[test]
    fn zombies_and_the_reaped_are_dead() {
        let child = sleeper();
        let identity = Identity::of(child.pid()).unwrap();
        assert!(identity.is_alive() && Identity::word_is_alive(identity.to_word()));
        assert_eq!(identity.parent(), Some(std::process::id()));
        child.kill();
        until(|| state_of(child.pid()) == Some('Z'));
        assert_eq!(identity.parent(), None, "the dead have no parent");
        assert!(exists(identity.pid), "not reaped yet");
        assert!(!identity.is_alive() && !Identity::word_is_alive(identity.to_word()));
        assert_eq!(Identity::of(identity.pid), None);
        assert_eq!(child.exit_code(), None);
        assert!(!identity.is_alive() && !Identity::word_is_alive(identity.to_word()));
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let child = sleeper();
        let now = Identity::of(child.pid()).unwrap();
        let before = Identity { start: now.start - 1, ..now };
        assert!(now.is_alive() && !before.is_alive());
        assert!(!Identity::word_is_alive(before.to_word()));
        assert!(Identity { start: 0, ..now }.is_alive(), "start unknown: the pid decides");
        // The word keeps the low 32 bits of the start time.
        assert_eq!(Identity { pid: 3, start: 0x7_0000_0005 }.to_word(), 3 << 32 | 5);
    }

    #[test]
    fn nobody_is_dead() {
        assert!(!Identity::word_is_alive(0));
        assert!(!Identity::word_is_alive(u64::MAX));
        assert_eq!(Identity::of(0), None);
        assert_eq!(Identity::of(u32::MAX), None);
        assert!(!Identity { pid: i32::MAX as u32, start: 5 }.is_alive());
    }

    #[test]
    fn threads_outlive_the_first() {
        let child = Child::fork(|| {
            std::thread::spawn(|| {
                loop {
                    // SAFETY: pause has no preconditions.
                    unsafe { libc::pause() };
                }
            });
            // SAFETY: ends only this thread, whose stack no other thread uses.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            unreachable!()
        });
        until(|| state_of(child.pid()) == Some('Z'));
        let identity = Identity::of(child.pid()).expect("one thread is left");
        assert!(identity.is_alive());
        child.kill();
        until(|| !identity.is_alive());
        assert_eq!(child.exit_code(), None);
    }

    #[test]
    fn without_descriptors_the_living_are_not_called_dead() {
        let child = sleeper();
        let identity = Identity::of(child.pid()).unwrap();
        let observer = Child::fork(|| {
            let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: a structure of this frame; the limit is this child's alone.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
            let nobody = Identity { pid: i32::MAX as u32, start: 5 };
            i32::from(look(identity.pid) == Seen::Unknown && identity.is_alive() && !nobody.is_alive())
        });
        assert_eq!(observer.exit_code(), Some(1));
    }

    #[test]
    fn out_of_descriptors_the_own_identity_is_known_or_an_error() {
        let limit = |most| {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: 64 };
            // SAFETY: a structure of this frame; the limit is this child's alone.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        };
        let child = Child::fork(|| {
            limit(0);
            let before = Identity::find_own();
            limit(64);
            let own = Identity::find_own();
            limit(0);
            let words = before.as_ref().err().map(ToString::to_string).unwrap_or_default();
            i32::from(words.contains("ulimit -n") && own.is_ok_and(|own| own.start > 0) && Identity::own().start > 0)
        });
        assert_eq!(child.exit_code(), Some(1));
    }

    #[test]
    fn at_least_one_core() {
        assert!(cores_allowed() >= 1);
    }
}
