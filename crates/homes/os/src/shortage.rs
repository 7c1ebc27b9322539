// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A lack of a local resource: descriptors, memory, space in a file system, permission, processes.
//!
//! It is an error of its own, apart from "there is no such file" and "the process has ended": it says nothing about the
//! file or the process. Its text has what was needed, the limit, and the remedy.
//!
//! Invariants
//! 1. A call that needs the resource fails with a [`Shortage`], or the process ends with its text. Nothing tries again
//!    for ever, keeps the failure as an answer, or takes it for the end of a peer.
//! 2. Making the text needs no descriptor: where the limit cannot be read, the text leaves it out.

use std::ffi::c_int;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Mutex;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::sync::IgnorePoison;

/// The need that a system call could not meet.
#[derive(Clone, Copy, Debug)]
pub enum Need<'a> {
    /// To open or make this file or folder.
    File(&'a Path),
    /// This many bytes in the file.
    Space(&'a Path, u64),
    /// This many bytes of address space, for the file.
    AddressSpace(&'a Path, u64),
    /// A process, a thread, a pipe or a socket: its name in words.
    Object(&'a str),
}

/// A lack of a local resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    errno: Errno,
    text: String,
}

impl Shortage {
    /// Returns the lack that a system call has reported. None if its error is of another kind.
    pub fn of(errno: Errno, need: Need<'_>) -> Option<Shortage> {
        let why = match errno {
            Errno::MFILE => {
                let limit = getrlimit(Resource::Nofile);
                let count = |limit: Option<u64>| limit.map_or("unlimited".into(), |limit| limit.to_string());
                let (soft, hard) = (count(limit.current), count(limit.maximum));
                format!(
                    "all {soft} descriptors of this process are in use (hard limit {hard}); raise `ulimit -n`, or start \
                     fewer processes"
                )
            }
            Errno::NFILE => {
                let most = number_in("/proc/sys/fs/file-max").map(|most| format!(" ({most})")).unwrap_or_default();
                format!("all open files of this machine{most} are in use; raise `sysctl fs.file-max`")
            }
            Errno::NOSPC | Errno::DQUOT => no_space(need, errno),
            Errno::NOMEM => no_memory(need),
            Errno::ACCESS | Errno::PERM | Errno::ROFS => no_permission(need, errno),
            Errno::AGAIN if matches!(need, Need::Object(_)) => {
                let limit = getrlimit(Resource::Nproc).current;
                let limit = limit.map(|limit| format!(" (limit {limit})")).unwrap_or_default();
                format!(
                    "this user{limit} or its control group has all the processes that it may have; raise `ulimit -u` \
                     or `pids.max`"
                )
            }
            Errno::NOBUFS => "the kernel has no buffers; free memory of this machine".into(),
            _ => return None,
        };
        Some(Shortage { errno, text: format!("{need}: {why}") })
    }

    /// As [`Shortage::of`], of an error of the standard library.
    pub fn of_io(error: &io::Error, need: Need<'_>) -> Option<Shortage> {
        Shortage::of(Errno::from_io_error(error)?, need)
    }

    /// Returns the text of an error: that of a lack, else of the error itself.
    pub fn explain(error: &io::Error, need: Need<'_>) -> String {
        Shortage::of_io(error, need).map_or_else(|| error.to_string(), |shortage| shortage.to_string())
    }

    /// Returns the error number, which differs for each kind of resource.
    pub fn errno(&self) -> c_int {
        self.errno.raw_os_error()
    }

    /// Whether the call may succeed at another time, because descriptors or memory are free then.
    pub fn is_passing(&self) -> bool {
        matches!(self.errno, Errno::MFILE | Errno::NFILE | Errno::NOMEM)
    }

    /// Whether the file system, or the user's share of it, is full.
    pub fn is_of_space(&self) -> bool {
        matches!(self.errno, Errno::NOSPC | Errno::DQUOT)
    }

    /// Prints the text on standard error, whatever the log level is. The same text is printed once in a row.
    pub fn report(&self) {
        static LAST: Mutex<String> = Mutex::new(String::new());
        let mut last = LAST.lock().ignore_poison();
        if *last != self.text {
            last.clone_from(&self.text);
            let text = format!("selvedge: {self}\n");
            // SAFETY: the pointer and length are those of `text`.
            unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
        }
    }

    /// Ends this process with the text, because it cannot take part in its job without the resource. The launcher then
    /// ends the job.
    pub fn end_process(&self) -> ! {
        self.report();
        end_reported()
    }
}

/// Ends this process after [`Shortage::report`].
pub fn end_reported() -> ! {
    // SAFETY: `_exit` takes a number and does not return. Exit handlers would wait for peers, or for locks of this
    // thread.
    unsafe { libc::_exit(1) }
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Shortage {}

impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::File(path) => write!(f, "cannot open {}", path.display()),
            Need::Space(path, bytes) => write!(f, "{}: no space for {bytes} bytes", path.display()),
            Need::AddressSpace(path, bytes) => write!(f, "{}: no address space for {bytes} bytes", path.display()),
            Need::Object(what) => write!(f, "cannot make {what}"),
        }
    }
}

fn path_of<'a>(need: Need<'a>) -> Option<&'a Path> {
    match need {
        Need::File(path) | Need::Space(path, _) | Need::AddressSpace(path, _) => Some(path),
        Need::Object(_) => None,
    }
}

fn no_space(need: Need<'_>, errno: Errno) -> String {
    let remedy = "make room there, or set SELVEDGE_DIR to a folder with more";
    if errno == Errno::DQUOT {
        return format!("the user's quota on the file system is used up; {remedy}");
    }
    // The file may not exist.
    let room = path_of(need).and_then(|path| {
        let folder = path.parent().unwrap_or(path);
        let status = rustix::fs::statvfs(path).or_else(|_| rustix::fs::statvfs(folder)).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
        Some(format!("its file system has {} of {} bytes free", bytes(status.f_bavail), bytes(status.f_blocks)))
    });
    format!("{}; {remedy}", room.unwrap_or("the file system is full".into()))
}

fn no_memory(need: Need<'_>) -> String {
    match (getrlimit(Resource::As).current, need) {
        (Some(limit), _) => {
            format!("the address space of this process is limited to {limit} bytes; raise `ulimit -v`")
        }
        (None, Need::AddressSpace(..)) => {
            let most = number_in("/proc/sys/vm/max_map_count").map(|most| format!(" ({most})")).unwrap_or_default();
            format!(
                "the process has too many mappings{most}, or the kernel no memory; raise `sysctl vm.max_map_count`, or \
                 free memory of this machine"
            )
        }
        (None, _) => {
            "the kernel has no memory; free memory of this machine, or raise the limit of the container".into()
        }
    }
}

fn no_permission(need: Need<'_>, errno: Errno) -> String {
    let what = if errno == Errno::ROFS { "the file system is read-only" } else { "permission denied" };
    match path_of(need) {
        Some(_) => format!("{what}; set SELVEDGE_DIR to a folder in which user {} may make files", own_uid()),
        None => format!("{what}; allow it to user {}", own_uid()),
    }
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn number_in(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::in_child;

    const PATH: &str = "/dev/shm/selvedge-0/job/3.4.nic";

    fn text(errno: Errno, need: Need<'_>) -> String {
        Shortage::of(errno, need).expect("a lack").to_string()
    }

    #[test]
    fn each_lack_names_the_need_the_limit_and_the_remedy() {
        let path = Path::new(PATH);
        for (errno, need, words) in [
            (Errno::MFILE, Need::File(path), &["cannot open", PATH, "hard limit", "`ulimit -n`"][..]),
            (Errno::NFILE, Need::File(path), &[PATH, "fs.file-max"]),
            (Errno::NOSPC, Need::Space(Path::new("/dev/shm/x"), 4096), &["4096 bytes", "bytes free", "SELVEDGE_DIR"]),
            (Errno::DQUOT, Need::Space(path, 4096), &[PATH, "quota", "SELVEDGE_DIR"]),
            (Errno::NOMEM, Need::AddressSpace(path, 8192), &[PATH, "8192 bytes", "vm.max_map_count"]),
            (Errno::NOMEM, Need::File(path), &[PATH, "memory"]),
            (Errno::ACCESS, Need::File(path), &[PATH, "permission", "SELVEDGE_DIR"]),
            (Errno::PERM, Need::File(path), &[PATH, "permission", "SELVEDGE_DIR"]),
            (Errno::ROFS, Need::File(path), &[PATH, "read-only", "SELVEDGE_DIR"]),
            (Errno::AGAIN, Need::Object("a thread"), &["a thread", "`ulimit -u`"]),
        ] {
            let text = text(errno, need);
            for word in words {
                assert!(text.contains(word), "{word} in: {text}");
            }
            assert_eq!(Shortage::of(errno, need).map(|shortage| shortage.errno()), Some(errno.raw_os_error()));
        }
    }

    #[test]
    fn what_says_nothing_about_resources_is_no_lack() {
        for errno in [Errno::NOENT, Errno::EXIST, Errno::STALE, Errno::LOOP, Errno::SRCH, Errno::INTR] {
            assert_eq!(Shortage::of(errno, Need::File(Path::new(PATH))), None, "{errno}");
        }
        assert_eq!(Shortage::of(Errno::AGAIN, Need::File(Path::new(PATH))), None, "a lock that another process has");
        assert_eq!(Shortage::of_io(&io::Error::other("of no call"), Need::Object("a pipe")), None);
    }

    #[test]
    fn a_limited_address_space_is_named() {
        in_child(|| {
            let limit = libc::rlimit { rlim_cur: 1 << 34, rlim_max: 1 << 34 };
            // SAFETY: a structure of this frame; the limit is this child's alone.
            unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) };
            let text = text(Errno::NOMEM, Need::AddressSpace(Path::new(PATH), 8192));
            assert!(text.contains("17179869184 bytes") && text.contains("`ulimit -v`"), "{text}");
        });
    }

    #[test]
    fn the_text_needs_no_descriptor() {
        in_child(|| {
            let limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: a structure of this frame; the limit is this child's alone.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
            assert!(text(Errno::MFILE, Need::File(Path::new(PATH))).contains("all 0 descriptors"));
            assert!(text(Errno::NFILE, Need::File(Path::new(PATH))).contains("fs.file-max"));
            assert!(text(Errno::NOSPC, Need::Space(Path::new(PATH), 1)).contains("SELVEDGE_DIR"));
        });
    }
}
