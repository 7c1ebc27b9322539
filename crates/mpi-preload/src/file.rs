// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sealed files in memory: what is shared lies in them.
//!
//! A file is as long as it will ever be from the beginning, and sealed: nobody can shorten it, so who maps it never finds it missing
//! (SIGBUS). Pages that were not written yet have no memory behind them.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, SealFlags, SeekFrom};
use rustix::process::{Resource, getrlimit};
use selvedge_shm::os::program::make_private;

/// Descriptors of the program's begin at 0; ours keep out of their way.
const DESCRIPTOR_MIN: i32 = 512;

/// The longest file that this process may make.
pub fn longest() -> u64 {
    getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX)
}

/// Makes a file of zeroes; at most [`longest`] bytes, or a signal ends the process.
pub fn sealed(name: &CStr, bytes: u64) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    rustix::fs::ftruncate(&file, bytes)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // SAFETY: duplicates a descriptor; the duplicate, if there is one, is nobody else's.
    Ok(unsafe {
        match libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, DESCRIPTOR_MIN) {
            -1 => file,
            high => OwnedFd::from_raw_fd(high),
        }
    })
}

/// In a forked child: puts a private copy in the place of pages at `start` that are a file's from `offset` on. False: there is no memory
/// for it. What has no memory behind it in the file has none in the copy.
///
/// # Safety
/// As of [`make_private`].
pub unsafe fn keep_private(file: BorrowedFd, offset: u64, start: *mut u8, bytes: u64) -> bool {
    let parts = parts(file, offset..offset + bytes);
    let parts = parts.map(|part| (part.start - offset) as usize..(part.end - offset) as usize);
    // SAFETY: the caller's.
    unsafe { make_private(start, bytes as usize, parts) }
}

/// The parts of a range behind which there is memory, in order; the others read as zeroes.
fn parts(file: BorrowedFd, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let from = match rustix::fs::seek(file.as_fd(), SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(rustix::io::Errno::NXIO) => range.end,
            // It cannot say.
            Err(_) => at,
        };
        let end = rustix::fs::seek(file.as_fd(), SeekFrom::Hole(from)).unwrap_or(range.end).min(range.end);
        at = end;
        (from < end).then_some(from..end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_without_memory_are_left_out() {
        const PAGE: u64 = 4096;
        let file = sealed(c"parts", 64 * PAGE).unwrap();
        for page in [0, 3, 4, 40, 63] {
            rustix::io::pwrite(&file, &[1], page * PAGE).unwrap();
        }
        let found = |pages: Range<u64>| -> Vec<(u64, u64)> {
            let parts = parts(file.as_fd(), pages.start * PAGE..pages.end * PAGE);
            parts.map(|part| (part.start / PAGE, part.end / PAGE)).collect()
        };
        assert_eq!(found(0..64), [(0, 1), (3, 5), (40, 41), (63, 64)]);
        assert_eq!(found(4..40), [(4, 5)]);
        assert_eq!(found(1..3), []);
        assert_eq!(found(41..63), []);
        assert_eq!(found(5..5), []);
    }
}
