// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this process that `libselvedge_mpi_preload.so` has put into files without the program's knowledge, if it
//! was loaded before the C library: large blocks of `malloc`, and static data. Also makes such files.

use std::ffi::CStr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// Programs may rely on small descriptor numbers, so Selvedge's begin here.
const DESCRIPTOR_MIN: i32 = 512;

/// The largest number of such ranges in a process.
pub const RANGES_MAX: usize = 2;

/// A sealed memory file that is mapped as a whole. The library's `selvedge_shared_memory` writes this record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedRange {
    /// Address of the mapping in this process, and size of the file; 0 without such a range.
    pub base: u64,
    pub bytes: u64,
    pub descriptor: i32,
}

/// Returns the ranges that the library reports. Without the library there are none.
pub fn ranges() -> [SharedRange; RANGES_MAX] {
    let mut ranges = [SharedRange::default(); RANGES_MAX];
    // SAFETY: the name is a static string that ends in NUL.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"selvedge_shared_memory".as_ptr()) };
    if !found.is_null() {
        // SAFETY: the function of this name has this type (crates/preload/mpi), and writes at most as many records as
        // the call allows.
        unsafe {
            let ask: unsafe extern "C" fn(*mut SharedRange, usize) = std::mem::transmute(found);
            ask(ranges.as_mut_ptr(), RANGES_MAX);
        }
    }
    ranges
}

pub fn file_bytes_max() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Makes a memory file of `bytes` zeros. No process can make it shorter, so a mapping of it never faults (SIGBUS).
/// Pages that were never written have no memory behind them.
pub fn sealed(name: &CStr, bytes: u64) -> rustix::io::Result<OwnedFd> {
    // The kernel would end the process with SIGXFSZ.
    if bytes > file_bytes_max() {
        return Err(Errno::FBIG);
    }
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::ftruncate(&file, bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // SAFETY: `fcntl` returns a new descriptor or -1, and nothing else owns the new one.
    Ok(unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) {
            -1 => file,
            high => OwnedFd::from_raw_fd(high),
        }
    })
}
