// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What both ends need of Linux, by plain system calls: nothing of the standard library that might read a clock, since one user
//! of this answers for the clocks.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering::Relaxed};

/// A file, mapped and shared. Never unmapped where it is the process's own page.
#[derive(Debug)]
pub struct Shared {
    pub base: *mut u8,
    pub bytes: usize,
    pub fd: i32,
}

// SAFETY: an address of a mapping and a descriptor; who follows the address answers for the access.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// Opens or creates a file and maps room for `bytes` of it. `Err`: errno.
    pub fn open(path: &CStr, create: Option<u64>, bytes: usize) -> Result<Shared, i32> {
        let flags = libc::O_RDWR | libc::O_CLOEXEC | if create.is_some() { libc::O_CREAT | libc::O_EXCL } else { 0 };
        // SAFETY: plain system calls on a string of this frame and on a descriptor that they gave.
        unsafe {
            let fd = libc::open(path.as_ptr(), flags, 0o600);
            if fd < 0 {
                return Err(errno());
            }
            let grown = create.is_none_or(|size| libc::ftruncate(fd, size as libc::off_t) == 0);
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let base = match grown {
                // Past the C library: other libraries put theirs in its functions' places, and ask for the time meanwhile.
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

    /// How long the file is.
    pub fn file_bytes(&self) -> u64 {
        // SAFETY: zero is a value of this structure; fstat fills it.
        unsafe {
            let mut about: libc::stat = std::mem::zeroed();
            if libc::fstat(self.fd, &mut about) == 0 { u64::try_from(about.st_size).unwrap_or(0) } else { 0 }
        }
    }

    /// Makes the file at least so long. `Err`: errno.
    pub fn grow(&self, bytes: u64) -> Result<(), i32> {
        // SAFETY: a plain call on a descriptor that is open.
        let grown = self.file_bytes() >= bytes || unsafe { libc::ftruncate(self.fd, bytes as libc::off_t) } == 0;
        if grown { Ok(()) } else { Err(errno()) }
    }

    /// Reads from the file. False: it is shorter.
    pub fn read(&self, at: u64, into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let rest = &mut into[done..];
            // SAFETY: writes at most the rest of the slice.
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
        // SAFETY: made by `open`; nobody has a reference that outlives the owner.
        unsafe {
            libc::munmap(self.base.cast(), self.bytes);
            libc::close(self.fd);
        }
    }
}

/// The error of the last system call.
pub fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Sleeps while the word holds `expected`, or for a reason of its own.
pub fn sleep_on(word: &AtomicU32, expected: u32) {
    // SAFETY: a live, aligned word; the kernel only reads it.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, ptr::null::<libc::timespec>());
    }
}

/// As [`sleep_on`], for so long at most.
pub fn sleep_on_for(word: &AtomicU32, expected: u32, limit_ns: u32) {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: limit_ns.into() };
    // SAFETY: as above; the limit is this frame's.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &limit);
    }
}

/// Wakes those who sleep on a word.
pub fn wake(word: &AtomicU32, count: i32) {
    // SAFETY: the address is a name here.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, count);
    }
}

/// The C library's byte that is not 0 as long as this process has had one thread only, which is what its own locks go by; one that is 0
/// where it has none such. A thread reads it that may be the only one: what it finds holds until it makes another.
pub fn one_thread() -> &'static AtomicU8 {
    static UNKNOWN: AtomicU8 = AtomicU8::new(0);
    static AT: AtomicPtr<AtomicU8> = AtomicPtr::new(ptr::null_mut());
    let mut at = AT.load(Relaxed);
    if at.is_null() {
        // SAFETY: a string that lives for ever; the symbol is a variable of the C library.
        at = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) }.cast();
        if at.is_null() {
            at = (&raw const UNKNOWN).cast_mut();
        }
        AT.store(at, Relaxed);
    }
    // SAFETY: a byte of the C library's or of ours, which live as long as the process. It is only read.
    unsafe { &*at }
}

/// A clock of the real system, in nanoseconds, whoever answers for the clocks here.
pub fn real_clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a structure of this frame.
    unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Writes a byte to a named pipe, if somebody has it open.
pub fn ring(path: &CStr) {
    // SAFETY: plain system calls on a string and a byte of ours.
    unsafe {
        let fd = libc::open(path.as_ptr(), libc::O_WRONLY | libc::O_NONBLOCK | libc::O_CLOEXEC);
        if fd >= 0 {
            libc::write(fd, [1u8].as_ptr().cast(), 1);
            libc::close(fd);
        }
    }
}
