// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Helpers for tests of this crate and of those above it: child processes, shared pages, temporary folders.

#![allow(clippy::new_without_default, reason = "a default value would map a page or make a folder")]

use core::sync::atomic::{AtomicU32, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Seconds after which SIGALRM ends a child that hangs. So a lost wake-up fails a test instead of hanging it.
const CHILD_ALARM_S: u32 = 120;

/// A forked child; ended and reaped when dropped.
pub struct Child {
    pid: libc::pid_t,
    reaped: bool,
}

impl Child {
    /// Runs `body` in a forked child. Its exit code is the result of `body` (101 if it panics).
    pub fn fork(body: impl FnOnce() -> i32) -> Child {
        // SAFETY: the child runs only `body` and ends with _exit, so no destructor of the parent runs twice. glibc and
        // musl keep malloc usable in the child of a threaded process.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "fork: {}", std::io::Error::last_os_error());
        if pid == 0 {
            // SAFETY: alarm and _exit have no preconditions.
            unsafe {
                libc::alarm(CHILD_ALARM_S);
                let code = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
                    // The test harness captures the output of a test, and this process will never show it.
                    let words = panic.downcast_ref::<String>().map(String::as_str);
                    let words = words.or(panic.downcast_ref::<&str>().copied()).unwrap_or("panic");
                    say(words);
                    101
                });
                libc::_exit(code);
            }
        }
        Child { pid, reaped: false }
    }

    pub fn pid(&self) -> u32 {
        self.pid as u32
    }

    /// Waits for the end; `None` if a signal ended it.
    pub fn exit_code(mut self) -> Option<i32> {
        let status = self.reap();
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }

    pub fn kill(&self) {
        // SAFETY: the child is ours and not reaped yet, so no other process has its pid.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
    }

    fn reap(&mut self) -> i32 {
        let mut status = 0;
        // SAFETY: `status` is a writable integer of this frame.
        while unsafe { libc::waitpid(self.pid, &mut status, 0) } < 0 {}
        self.reaped = true;
        status
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.reaped {
            self.kill();
            self.reap();
        }
    }
}

/// Writes to standard error, past the test harness.
fn say(words: &str) {
    // SAFETY: the pointer and length are those of `words`.
    unsafe { libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len()) };
}

/// Runs a test in a process of its own. So threads of other tests do not map memory where this one has unmapped some,
/// and children of other tests do not keep its files open.
pub fn in_child(test: impl FnOnce()) {
    let child = Child::fork(|| {
        test();
        0
    });
    assert_eq!(child.exit_code(), Some(0));
}

/// Returns the state letter in /proc/<pid>/stat.
pub fn state_of(pid: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// Returns once the process sleeps in the kernel.
pub fn until_asleep(pid: u32) {
    until(|| state_of(pid) == Some('S'));
}

/// Returns once `holds` returns true.
pub fn until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// One anonymous page that forked children share.
pub struct SharedPage(*mut u8);

// SAFETY: the page is used through atomics only.
unsafe impl Sync for SharedPage {}

impl SharedPage {
    pub fn new() -> SharedPage {
        SharedPage(map(4096, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS))
    }

    pub fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < 1024);
        // SAFETY: inside the page, aligned, and every access to the page is by AtomicU32.
        unsafe { AtomicU32::from_ptr(self.0.cast::<u32>().add(index)) }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        unmap(self.0, 4096);
    }
}

/// Maps new anonymous memory at any address.
pub fn map(bytes: usize, protection: i32, flags: i32) -> *mut u8 {
    // SAFETY: without MAP_FIXED a new mapping disturbs nothing.
    let base = unsafe { libc::mmap(core::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    base.cast()
}

/// Unmaps the memory that [`map`] returned, or part of it.
pub fn unmap(base: *mut u8, bytes: usize) {
    // SAFETY: the range belongs to the calling test, which does not use it afterwards.
    assert_eq!(unsafe { libc::munmap(base.cast(), bytes) }, 0);
}

/// Room for the files of a test that does not say how much it needs.
const ROOM_BYTES: u64 = 32 << 20;

/// A new folder, removed when dropped; `mount`ed ones are unmounted first. It is in the folder for temporary files, and
/// not in /dev/shm, which has 64 MiB in a container.
pub struct Folder {
    path: PathBuf,
    mounted: bool,
}

impl Folder {
    pub fn new() -> Folder {
        Folder::with_room(ROOM_BYTES)
    }

    /// Makes a folder for files of `bytes`. Panics if its file system has less room.
    pub fn with_room(bytes: u64) -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = std::env::temp_dir();
        let free = room(&parent).0;
        assert!(
            free >= bytes,
            "this test needs {bytes} bytes in {}, whose file system has {} too few; make room there, or set TMPDIR to \
             a folder with more",
            parent.display(),
            bytes - free
        );
        let path = parent.join(format!("selvedge-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Folder { path, mounted: false }
    }

    /// Mounts a new tmpfs of `bytes`. `None`, with a message, without the right to mount.
    pub fn tiny_tmpfs(bytes: u64) -> Option<Folder> {
        let mut folder = Folder::new();
        let target = std::ffi::CString::new(folder.path.to_str().unwrap()).unwrap();
        let options = std::ffi::CString::new(format!("size={bytes},mode=0700")).unwrap();
        // SAFETY: all strings end in NUL and outlive the call.
        let status =
            unsafe { libc::mount(c"tmpfs".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, options.as_ptr().cast()) };
        if status != 0 {
            eprintln!("skipped: cannot mount a tmpfs ({})", std::io::Error::last_os_error());
            return None;
        }
        folder.mounted = true;
        Some(folder)
    }

    pub fn join(&self, name: impl AsRef<Path>) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Other tests may have taken the room that there was at the start.
        if std::thread::panicking() {
            let (free, whole) = room(&self.path);
            say(&format!("{}: its file system has {free} of {whole} bytes free\n", self.path.display()));
        }
        if self.mounted {
            let target = std::ffi::CString::new(self.path.to_str().unwrap()).unwrap();
            // SAFETY: the string ends in NUL and outlives the call.
            unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Returns the free bytes of a folder's file system, and all of them; 0 if the system does not say.
fn room(folder: &Path) -> (u64, u64) {
    let bytes = |blocks: u64, each: u64| blocks.saturating_mul(each);
    rustix::fs::statvfs(folder)
        .map_or((0, 0), |status| (bytes(status.f_bavail, status.f_frsize), bytes(status.f_blocks, status.f_frsize)))
}

/// Whether the test runs as root. Only root can give files away and mount.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_room_names_its_place_and_the_missing_bytes() {
        let panic = catch_unwind(|| Folder::with_room(u64::MAX)).map(|_| ()).expect_err("no file system is as large");
        let words = panic.downcast_ref::<String>().expect("a text");
        let place = std::env::temp_dir();
        for part in [place.to_str().expect("a name"), "too few", "TMPDIR"] {
            assert!(words.contains(part), "{part} in: {words}");
        }
    }
}
