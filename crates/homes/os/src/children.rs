// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Private copies of memory that the program takes for private but that is a shared mapping of a file: blocks of
//! `malloc`, static data. Forked children have such copies.
//!
//! Invariants
//! 1. Only pages that map the file at their place are replaced. Others are what the program has mapped there, or not
//!    mapped: a child inherits that as from any process.
//! 2. The copy has the protection that each page has in the parent.
//! 3. Pages without memory in the file have none in the copy.
//! 4. Between the fork and the child's own code there are only system calls and copies. Nothing is allocated.
//! 5. The parent waits until the child has its copies ([`Handover`]), because its stores would show in pages not copied
//!    yet.
//!    Children of `vfork` and `posix_spawn` use the parent's memory anyway, until they exec.
//!
//! Costs in a child: reading `/proc/self/maps`; a copy of the memory, and four system calls for each part that has one
//! protection.

use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::mm::ProtFlags;
use rustix::pipe::PipeFlags;

use crate::raw;

/// A file, as the kernel names it among the mappings of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileName {
    device: (u32, u32),
    inode: u64,
}

impl FileName {
    pub fn of(file: BorrowedFd<'_>) -> io::Result<FileName> {
        let status = rustix::fs::fstat(file)?;
        let device = (rustix::fs::major(status.st_dev), rustix::fs::minor(status.st_dev));
        Ok(FileName { device, inode: status.st_ino })
    }

    /// The file that is mapped at an address. On some file systems its name is not the one that [`FileName::of`] gives.
    pub fn mapped_at(address: u64) -> io::Result<FileName> {
        let mut found = None;
        for_each_line(|line| {
            found = Line::parse(line).filter(|line| line.range.contains(&address));
            found.is_none()
        })?;
        found.map(|line| line.file).ok_or(io::ErrorKind::NotFound.into())
    }
}

/// A shared mapping of a file, from its beginning on.
#[derive(Clone, Copy, Debug)]
pub struct SharedMapping {
    pub start: u64,
    pub bytes: u64,
    pub file: FileName,
}

impl SharedMapping {
    /// Calls `each` with the address range and protection of every part that still maps the file at its place, in the
    /// order of addresses, until it returns false. Returns false then. Allocates nothing.
    ///
    /// If the mappings cannot be read, all of it counts as one part that can be read and written.
    pub fn for_each_part(&self, mut each: impl FnMut(Range<u64>, ProtFlags) -> bool) -> bool {
        let (start, end) = (self.start, self.start + self.bytes);
        let mut refused = false;
        let read = for_each_line(|line| {
            let Some(mapping) = Line::parse(line) else { return true };
            let part = mapping.range.start.max(start)..mapping.range.end.min(end);
            let in_place = mapping.range.start.wrapping_sub(mapping.offset) == start;
            if part.start < part.end && mapping.shared && mapping.file == self.file && in_place {
                refused = !each(part, mapping.protection);
            }
            !refused && mapping.range.end < end
        });
        match read {
            Ok(()) => !refused,
            Err(_) => each(start..end, ProtFlags::READ | ProtFlags::WRITE),
        }
    }

    /// Replaces those pages of `wanted` (address ranges in ascending order) that map the file by private copies. The
    /// file may be closed, or another one may have its descriptor: then all pages count as having memory. Returns false
    /// if out of memory.
    ///
    /// # Safety
    /// No other thread of this process uses the pages, and the caller may replace them.
    pub unsafe fn make_private(&self, descriptor: BorrowedFd<'_>, wanted: impl Iterator<Item = Range<u64>>) -> bool {
        let file = Some(descriptor).filter(|file| FileName::of(*file).is_ok_and(|name| name == self.file));
        let mut wanted = wanted.peekable();
        self.for_each_part(|part, protection| {
            while let Some(range) = wanted.peek() {
                let both = range.start.max(part.start)..range.end.min(part.end);
                // SAFETY: the pages map the file, as `for_each_part` says, and this function has the requirements of
                // `copy`.
                if both.start < both.end && !unsafe { copy(file, both.start - self.start, &both, protection) } {
                    return false;
                }
                if range.end > part.end {
                    break;
                }
                wanted.next();
            }
            true
        })
    }
}

/// Lets the parent of a fork wait until its child has made its copies. One fork at a time.
///
/// The parent reads from a pipe whose other end only the child holds. It is closed when the child has made its copies,
/// when the child dies, and when the fork failed. So the parent never waits forever.
pub struct Handover {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    /// The pipe of the fork that is in progress: read by the parent, closed by the child.
    pipe: UnsafeCell<Option<(OwnedFd, OwnedFd)>>,
}

// SAFETY: the pipe is accessed only between `before` and the end of `in_parent` or `in_child`, by the thread that holds
// the mutex.
unsafe impl Sync for Handover {}

impl Handover {
    pub const fn new() -> Handover {
        Handover { lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), pipe: UnsafeCell::new(None) }
    }

    /// Begins a fork, in whose child there is something to copy or not.
    ///
    /// # Safety
    /// The handler that runs before a fork calls it, and the other two handlers call `in_parent` and `in_child`.
    pub unsafe fn before(&self, copies: bool) {
        // SAFETY: the mutex is initialised, and a static does not move. Holding it, only this thread uses the pipe.
        unsafe {
            libc::pthread_mutex_lock(self.lock.get());
            *self.pipe.get() = if copies { rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok() } else { None };
        }
    }

    /// Waits for the child.
    ///
    /// # Safety
    /// As for `before`.
    pub unsafe fn in_parent(&self) {
        // SAFETY: this thread holds the mutex since `before`.
        if let Some((read, write)) = unsafe { (*self.pipe.get()).take() } {
            drop(write);
            let mut byte = [0];
            while rustix::io::read(&read, &mut byte) == Err(rustix::io::Errno::INTR) {}
        }
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.lock.get()) };
    }

    /// Makes the copies, and lets the parent continue. If `copy` returns false, the child ends here, for lack of
    /// memory.
    ///
    /// # Safety
    /// As for `before`.
    pub unsafe fn in_child(&self, copy: impl FnOnce() -> bool) {
        // SAFETY: this thread, the only one of the child, holds the mutex since `before`.
        let write = unsafe { (*self.pipe.get()).take() }.map(|(read, write)| {
            // The list of mappings needs a descriptor.
            drop(read);
            write
        });
        let copied = copy();
        drop(write);
        // SAFETY: as above.
        unsafe { libc::pthread_mutex_unlock(self.lock.get()) };
        if !copied {
            let words = b"selvedge: out of memory: a forked child cannot copy the memory that its parent shares; under MPI, set SELVEDGE_SHARED_MALLOC=0\n";
            // SAFETY: `write` reads `words.len()` bytes of a constant; `_exit` takes a number and does not return.
            unsafe {
                libc::write(libc::STDERR_FILENO, words.as_ptr().cast(), words.len());
                libc::_exit(127);
            }
        }
    }
}

impl Default for Handover {
    fn default() -> Handover {
        Handover::new()
    }
}

/// Replaces pages that map the file from `offset` on by private memory with the same contents, and with this
/// protection.
///
/// # Safety
/// The pages are mapped, no other thread uses them, and the caller may replace them.
unsafe fn copy(file: Option<BorrowedFd<'_>>, offset: u64, pages: &Range<u64>, protection: ProtFlags) -> bool {
    let bytes = (pages.end - pages.start) as usize;
    let start = pages.start as usize;
    let both = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the pages are mapped, and made readable where they are not; the copy is a new mapping of the same length,
    // which no other code uses. The kernel puts it in their place in one step.
    unsafe {
        let protect = |at: usize, flags: ProtFlags| {
            raw::call(libc::SYS_mprotect, [at, bytes, flags.bits() as usize, 0, 0, 0]) == 0
        };
        if !protection.contains(ProtFlags::READ) && !protect(start, ProtFlags::READ) {
            return false;
        }
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let copy = raw::call(libc::SYS_mmap, [0, bytes, both.bits() as usize, flags, usize::MAX, 0]);
        if copy < 0 {
            return false;
        }
        let copy = copy as usize;
        for part in parts(file, offset..offset + bytes as u64) {
            let at = (part.start - offset) as usize;
            let length = (part.end - part.start) as usize;
            raw::copy((start as *const u8).add(at), (copy as *mut u8).add(at), length);
        }
        if protection != both && !protect(copy, protection) {
            return false;
        }
        let flags = (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED) as usize;
        raw::call(libc::SYS_mremap, [copy, bytes, bytes, flags, start, 0]) == start as isize
    }
}

/// The parts of a range of a file that have memory, in order; the others read as zeros. Without the file: all of it.
fn parts(file: Option<BorrowedFd<'_>>, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        if at >= range.end {
            return None;
        }
        let seek = |to| file.map_or(Err(rustix::io::Errno::BADF), |file| rustix::fs::seek(file, to));
        let from = match seek(SeekFrom::Data(at)) {
            Ok(from) => from,
            Err(rustix::io::Errno::NXIO) => range.end,
            // There is no file to ask, or the kernel does not support the query.
            Err(_) => at,
        };
        let end = seek(SeekFrom::Hole(from)).unwrap_or(range.end).min(range.end);
        at = end;
        (from < end).then_some(from..end)
    })
}

/// A line of `/proc/self/maps`.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    range: Range<u64>,
    protection: ProtFlags,
    shared: bool,
    offset: u64,
    file: FileName,
}

impl Line {
    /// Parses "start-end rwxs offset major:minor inode".
    fn parse(line: &[u8]) -> Option<Line> {
        let mut words = line.split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
        let (start, end) = pair(words.next()?, b'-')?;
        let flags = words.next()?;
        let flag = |at: usize, letter: u8, flag| if flags.get(at) == Some(&letter) { flag } else { ProtFlags::empty() };
        let protection =
            flag(0, b'r', ProtFlags::READ) | flag(1, b'w', ProtFlags::WRITE) | flag(2, b'x', ProtFlags::EXEC);
        let offset = number(words.next()?, 16)?;
        let (major, minor) = pair(words.next()?, b':')?;
        let inode = number(words.next()?, 10)?;
        let file = FileName { device: (major as u32, minor as u32), inode };
        Some(Line { range: start..end, protection, shared: flags.get(3) == Some(&b's'), offset, file })
    }
}

fn number(word: &[u8], base: u32) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(word).ok()?, base).ok()
}

/// Two hexadecimal numbers around a separator.
fn pair(word: &[u8], separator: u8) -> Option<(u64, u64)> {
    let at = word.iter().position(|byte| *byte == separator)?;
    Some((number(&word[..at], 16)?, number(&word[at + 1..], 16)?))
}

/// Calls `each` with the beginning of every line of `/proc/self/maps`, until it returns false. Mappings that `each`
/// changes are behind the place that is read, so none is missed.
fn for_each_line(mut each: impl FnMut(&[u8]) -> bool) -> io::Result<()> {
    let file: OwnedFd = rustix::fs::open(c"/proc/self/maps", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut buffer = [0_u8; 4096];
    // Long enough for all words but the path.
    let mut line = [0_u8; 128];
    let mut length = 0;
    loop {
        let read = match rustix::io::read(&file, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => read,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        };
        for byte in &buffer[..read] {
            if *byte != b'\n' {
                if let Some(place) = line.get_mut(length) {
                    *place = *byte;
                    length += 1;
                }
                continue;
            }
            if !each(&line[..std::mem::take(&mut length)]) {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::mm::{MapFlags, MprotectFlags};

    use super::*;
    use crate::shared::sealed;

    const PAGE: u64 = 4096;
    const BOTH: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

    /// A file of 64 pages, mapped; some pages have memory.
    fn mapped(with_memory: &[u64]) -> (OwnedFd, SharedMapping) {
        let file = sealed(c"children", 64 * PAGE).unwrap();
        for page in with_memory {
            rustix::io::pwrite(&file, &[*page as u8 + 1], page * PAGE).unwrap();
        }
        // SAFETY: the kernel picks the address, so the new mapping replaces nothing.
        let start =
            unsafe { rustix::mm::mmap(std::ptr::null_mut(), 64 * PAGE as usize, BOTH, MapFlags::SHARED, &file, 0) };
        let name = FileName::of(file.as_fd()).unwrap();
        let mapping = SharedMapping { start: start.unwrap() as u64, bytes: 64 * PAGE, file: name };
        (file, mapping)
    }

    fn at(mapping: &SharedMapping, page: u64) -> *mut u8 {
        (mapping.start + page * PAGE) as *mut u8
    }

    fn protect(mapping: &SharedMapping, page: u64, flags: MprotectFlags) {
        // SAFETY: the page belongs to the test's mapping.
        unsafe { rustix::mm::mprotect(at(mapping, page).cast(), PAGE as usize, flags).unwrap() };
    }

    fn found(mapping: &SharedMapping) -> Vec<(u64, u64, ProtFlags)> {
        let mut found = Vec::new();
        mapping.for_each_part(|part, protection| {
            found.push(((part.start - mapping.start) / PAGE, (part.end - mapping.start) / PAGE, protection));
            true
        });
        found
    }

    #[test]
    fn parts_without_memory_are_left_out() {
        let (file, _) = mapped(&[0, 3, 4, 40, 63]);
        let found = |pages: Range<u64>| -> Vec<(u64, u64)> {
            let parts = parts(Some(file.as_fd()), pages.start * PAGE..pages.end * PAGE);
            parts.map(|part| (part.start / PAGE, part.end / PAGE)).collect()
        };
        assert_eq!(found(0..64), [(0, 1), (3, 5), (40, 41), (63, 64)]);
        assert_eq!(found(4..40), [(4, 5)]);
        assert_eq!(found(1..3), []);
        assert_eq!(found(41..63), []);
        assert_eq!(found(5..5), []);
        assert!(parts(None, 7..9).eq(std::iter::once(7..9)));
    }

    #[test]
    fn lines_are_parsed() {
        let line = b"7f1200000000-7f1200003000 r-xs 00002000 00:1a 1234567                    /dev/shm/a file";
        let expected = Line {
            range: 0x7f12_0000_0000..0x7f12_0000_3000,
            protection: ProtFlags::READ | ProtFlags::EXEC,
            shared: true,
            offset: 0x2000,
            file: FileName { device: (0, 0x1a), inode: 1_234_567 },
        };
        assert_eq!(Line::parse(line), Some(expected));
        assert!(!Line::parse(b"55d0-55e0 ---p 00000000 00:00 0").unwrap().shared);
        for line in [&b""[..], b"7f12-", b"7f12-7f13 rw-p", b"7f12-7f13 rw-p 0 0 0", b"x-y rw-p 0 0:0 0"] {
            assert_eq!(Line::parse(line), None);
        }
    }

    #[test]
    fn parts_are_what_still_maps_the_file() {
        let (_file, mapping) = mapped(&[]);
        assert_eq!(found(&mapping), [(0, 64, BOTH)]);
        protect(&mapping, 2, MprotectFlags::empty());
        protect(&mapping, 3, MprotectFlags::READ);
        // SAFETY: the pages belong to the test's mapping.
        unsafe {
            rustix::mm::mmap_anonymous(
                at(&mapping, 10).cast(),
                PAGE as usize,
                BOTH,
                MapFlags::PRIVATE | MapFlags::FIXED,
            )
            .unwrap();
            rustix::mm::munmap(at(&mapping, 20).cast(), PAGE as usize).unwrap();
        }
        let expected = [
            (0, 2, BOTH),
            (2, 3, ProtFlags::empty()),
            (3, 4, ProtFlags::READ),
            (4, 10, BOTH),
            (11, 20, BOTH),
            (21, 64, BOTH),
        ];
        assert_eq!(found(&mapping), expected);
        let mut calls = 0;
        let stop = |_, _| {
            calls += 1;
            calls < 2
        };
        assert!(!mapping.for_each_part(stop) && calls == 2);
    }

    /// Here without a fork: the pages are replaced in this process.
    #[test]
    fn copies_have_contents_and_protections() {
        let (file, mapping) = mapped(&[0, 2, 3, 4, 5, 8, 30]);
        protect(&mapping, 2, MprotectFlags::empty());
        protect(&mapping, 3, MprotectFlags::READ);
        let range = |first: u64, end: u64| at(&mapping, first) as u64..at(&mapping, end) as u64;
        let wanted = [range(0, 5), range(6, 7), range(8, 40)];
        // SAFETY: no other thread uses the test's mapping.
        assert!(unsafe { mapping.make_private(file.as_fd(), wanted.into_iter()) });
        assert_eq!(found(&mapping), [(5, 6, BOTH), (7, 8, BOTH), (40, 64, BOTH)], "only the wanted ones are copied");
        for page in [0, 3, 4, 5, 8, 30] {
            // SAFETY: the page is mapped and readable.
            assert_eq!(unsafe { at(&mapping, page).read_volatile() }, page as u8 + 1);
            rustix::io::pwrite(&file, &[0], page * PAGE).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { at(&mapping, page).read_volatile() }, if page == 5 { 0 } else { page as u8 + 1 });
        }
        let lines = || {
            let mut lines = Vec::new();
            for_each_line(|line| {
                lines.extend(Line::parse(line));
                true
            })
            .unwrap();
            lines
        };
        let of = |page| lines().into_iter().find(|line| line.range.contains(&(at(&mapping, page) as u64))).unwrap();
        assert_eq!((of(2).protection, of(3).protection, of(4).protection), (ProtFlags::empty(), ProtFlags::READ, BOTH));
        assert!([2, 3, 4].into_iter().all(|page| !of(page).shared));
        protect(&mapping, 2, MprotectFlags::READ);
        // SAFETY: the page is mapped and readable now.
        assert_eq!(unsafe { at(&mapping, 2).read_volatile() }, 3);
    }
}
