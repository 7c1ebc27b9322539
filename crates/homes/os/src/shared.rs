// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory of this process that `libselvedge_mpi_preload.so` has put into files without the program's knowledge, if it
//! was loaded before the C library: large blocks of `malloc`, and static data. Also makes such files.

use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::fs::{MemfdFlags, Mode, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

/// Programs may rely on small descriptor numbers, so Selvedge's begin here.
const DESCRIPTOR_MIN: i32 = 512;

/// The largest number of such ranges in a process.
pub const RANGES_MAX: usize = 2;

/// A sealed memory file: the program's memory, and one page more, which begins with a [`Lost`]. The library's
/// `selvedge_shared_memory` writes this record.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedRange {
    /// Address of the program's memory, and its size; 0 without such a range.
    pub base: u64,
    pub bytes: u64,
    /// Address of the [`Lost`].
    pub lost: u64,
    pub descriptor: i32,
}

/// The parts of a file that no longer are the program's memory, because the program has mapped something else there.
///
/// The owner changes it before a call that changes its mappings, and peers read it before each access. The sequence is 0
/// as long as nothing was lost, and odd during a change. Then, and if its owner died there, all counts as lost.
#[repr(C)]
pub struct Lost {
    sequence: AtomicU64,
    count: AtomicU64,
    /// Offsets in the file: first byte, end.
    parts: [[AtomicU64; 2]; Lost::PARTS_MAX],
}

impl Lost {
    const PARTS_MAX: usize = 64;

    /// Whether some of these bytes of the file may be lost.
    #[inline(always)]
    pub fn has(&self, offset: u64, bytes: u64) -> bool {
        // Pairs with the stores of `replace`: a peer that hears from the owner after its change sees the change.
        let sequence = self.sequence.load(Acquire);
        sequence != 0 && self.has_at(sequence, offset, bytes)
    }

    #[cold]
    fn has_at(&self, sequence: u64, offset: u64, bytes: u64) -> bool {
        let count = (self.count.load(Relaxed) as usize).min(Lost::PARTS_MAX);
        let end = offset.saturating_add(bytes);
        let is_lost =
            self.parts[..count].iter().any(|[from, to]| from.load(Relaxed) < end && offset < to.load(Relaxed));
        // Pairs with the fence in `replace`: if one of the loads above saw a store of a later change, so does this one.
        fence(Acquire);
        is_lost || sequence % 2 != 0 || self.sequence.load(Relaxed) != sequence
    }

    /// Replaces the lost parts; more than there is room for become one. Only the owner calls it, one thread at a time.
    pub fn replace(&self, parts: impl Iterator<Item = Range<u64>> + Clone) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence + 1, Relaxed);
        fence(Release);
        let hull = parts.clone().reduce(|all, part| all.start.min(part.start)..all.end.max(part.end));
        let fits = parts.clone().nth(Lost::PARTS_MAX).is_none();
        let one = hull.filter(|_| !fits);
        let many = parts.take(if fits { Lost::PARTS_MAX } else { 0 });
        let mut count = 0;
        for (place, part) in self.parts.iter().zip(many.chain(one)) {
            place[0].store(part.start, Relaxed);
            place[1].store(part.end, Relaxed);
            count += 1;
        }
        self.count.store(count, Relaxed);
        self.sequence.store(sequence + 2, Release);
    }
}

const _: () = assert!(size_of::<Lost>() <= 4096);

/// Bytes behind the program's memory in a file: a page, for [`Lost`].
pub fn lost_bytes() -> u64 {
    rustix::param::page_size() as u64
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

/// Whether some of these bytes of this process are in no file any more, because the program has mapped something else
/// there. The library has reported `ranges`.
pub fn is_lost(ranges: &[SharedRange; RANGES_MAX], address: u64, bytes: u64) -> bool {
    ranges.iter().any(|range| {
        let offset = address.wrapping_sub(range.base);
        // SAFETY: the library reports the address of this record of atomics, which stays mapped.
        offset < range.bytes && unsafe { &*(range.lost as *const Lost) }.has(offset, bytes)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Lost {
        // SAFETY: the record consists of numbers, for which zeros are values.
        unsafe { std::mem::zeroed() }
    }

    #[test]
    fn lost_parts_are_found() {
        let lost = nothing();
        assert!(!lost.has(0, u64::MAX));
        lost.replace([100..200, 300..400].into_iter());
        let found = |offset, bytes| lost.has(offset, bytes);
        assert!(found(0, 101) && found(199, 1) && found(150, 10) && found(0, 1000) && found(399, 1));
        assert!(!found(0, 100) && !found(200, 100) && !found(400, 1000) && !found(250, 0));
        lost.replace(std::iter::empty());
        assert!(!found(0, u64::MAX));
    }

    #[test]
    fn lost_memory_of_this_process_is_found_by_address() {
        let lost = nothing();
        let range = SharedRange { base: 5000, bytes: 1000, lost: &raw const lost as u64, descriptor: 3 };
        let found = |address, bytes| is_lost(&[SharedRange::default(), range], address, bytes);
        assert!(!found(5000, 1000));
        lost.replace(std::iter::once(100..200));
        assert!(found(5000, 1000) && found(5150, 1) && !found(5200, 800) && !found(4150, 1) && !found(6000, 1));
    }

    #[test]
    fn too_many_parts_become_one() {
        let lost = nothing();
        let parts = (1..=Lost::PARTS_MAX as u64).map(|at| at * 10..at * 10 + 1);
        lost.replace(parts.clone());
        assert!(!lost.has(15, 1) && lost.has(20, 1));
        lost.replace(parts.chain(std::iter::once(5000..5001)));
        assert!(lost.has(15, 1) && lost.has(4000, 1) && !lost.has(9, 1) && !lost.has(5001, 1));
    }

    #[test]
    fn parts_count_as_lost_during_a_change() {
        let lost = nothing();
        lost.replace(std::iter::once(10..20));
        lost.sequence.store(3, Relaxed);
        assert!(lost.has(500, 1));
    }
}
