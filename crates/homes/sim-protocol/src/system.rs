// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Linux system calls for both ends, made directly. Nothing here uses parts of the standard library that may read a
//! clock, because the library that replaces the clocks uses this module.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use selvedge_os::raw;
use selvedge_os::thread::one_thread;

/// A file mapped shared. A process's own page is never unmapped.
#[derive(Debug)]
pub struct Shared {
    pub base: *mut u8,
    pub bytes: usize,
    pub fd: i32,
}

// SAFETY: the fields are an address and a descriptor, which are valid in every thread. Each dereference of the address has
// its own SAFETY comment.
unsafe impl Send for Shared {}
// SAFETY: `&Shared` gives out only copies of an address and a descriptor; no method mutates the fields.
unsafe impl Sync for Shared {}

impl Shared {
    /// Opens or creates a file and maps room for `bytes` of it. `Err`: errno.
    pub fn open(path: &CStr, create: Option<u64>, bytes: usize) -> Result<Shared, i32> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC | if create.is_some() { libc::O_CREAT | libc::O_EXCL } else { 0 };
        // SAFETY: `path` is a C string that lives across `open`. The other calls use the descriptor that `open` returned, and the
        // mapping is a new one at an address that the kernel chooses.
        unsafe {
            let fd = libc::open(path.as_ptr(), flags, 0o600);
            if fd < 0 {
                return Err(errno());
            }
            let grown = create.is_none_or(|size| libc::ftruncate(fd, size as libc::off_t) == 0);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let base = match grown {
                // A direct system call, because some libraries replace `mmap` and read the clock in it.
                true => libc::syscall(
                    libc::SYS_mmap,
                    ptr::null_mut::<u8>(),
                    bytes,
                    protection,
                    libc::MAP_SHARED | libc::MAP_NORESERVE,
                    fd,
                    0 as libc::off_t,
                ),
                false => -1,
            };
            if base == -1 {
                let error = errno();
                libc::close(fd);
                return Err(error);
            }
            Ok(Shared { base: base as *mut u8, bytes, fd })
        }
    }

    /// Returns the length of the file; 0 if it cannot be read.
    pub fn file_bytes(&self) -> u64 {
        // SAFETY: all bits zero is a valid `stat`, and `fstat` only fills it.
        unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            if libc::fstat(self.fd, &mut about) == 0 { u64::try_from(about.st_size).unwrap_or(0) } else { 0 }
        }
    }

    /// Makes the file at least `bytes` long. `Err`: errno.
    pub fn grow(&self, bytes: u64) -> Result<(), i32> {
        // SAFETY: `ftruncate` takes a descriptor that `self` owns and no pointers.
        let grown = self.file_bytes() >= bytes || unsafe { libc::ftruncate(self.fd, bytes as libc::off_t) } == 0;
        if grown { Ok(()) } else { Err(errno()) }
    }

    /// Reads `into.len()` bytes at an offset of the file. False: the file is shorter.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            // SAFETY: `pread` writes at most `rest.len()` bytes into `rest`, which is borrowed mutably.
            let read = unsafe {
                libc::pread(self.fd, rest.as_mut_ptr().cast(), rest.len(), (at + done as u64) as libc::off_t)
            };
            if read <= 0 {
                return false;
            }
            done += read as usize;
        }
        true
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: `open` made the mapping and the descriptor, and `self` is their only owner. References into the mapping borrow
        // from the owner, so none is left.
        unsafe {
            libc::munmap(self.base.cast(), self.bytes);
            libc::close(self.fd);
        }
    }
}

/// Returns the error of the last system call.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sleeps while the word holds `expected`. May return early.
pub fn sleep_on(word: &AtomicU32, expected: u32) {
    // SAFETY: `word` is a live, aligned word, which the kernel only reads; a null time limit means none.
    unsafe { futex(word, libc::FUTEX_WAIT, expected as usize, ptr::null()) };
}

/// Sleeps like [`sleep_on`], for at most `limit_ns`.
pub fn sleep_on_for(word: &AtomicU32, expected: u32, limit_ns: u32) {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: limit_ns.into() };
    // SAFETY: `word` is a live, aligned word, which the kernel only reads; `limit` lives across the call.
    unsafe { futex(word, libc::FUTEX_WAIT, expected as usize, &limit) };
}

/// Wakes up to `count` threads that sleep on a word.
pub fn wake(word: &AtomicU32, count: i32) {
    // SAFETY: FUTEX_WAKE uses the address only to find its waiters, and dereferences nothing.
    unsafe { futex(word, libc::FUTEX_WAKE, count as usize, ptr::null()) };
}

/// The system call, past the `syscall` of the library that replaces the clocks.
///
/// # Safety
/// The requirements of the operation.
unsafe fn futex(word: &AtomicU32, operation: i32, value: usize, limit: *const libc::timespec) {
    let arguments = [word.as_ptr() as usize, operation as usize, value, limit as usize, 0, 0];
    // SAFETY: this function has the requirements of the system call.
    unsafe { raw::call(libc::SYS_futex, arguments) };
}

/// Whether this process may have several threads.
pub fn may_have_threads() -> bool {
    one_thread().load(Relaxed) == 0
}

/// Returns a real clock, in nanoseconds, even if a library replaces the clocks.
pub fn real_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`, which lives across it.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
