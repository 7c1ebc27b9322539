// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Replaces the calls by which a program changes mappings of its memory: `mmap`, `munmap`, `mremap`, `remap_file_pages`,
//! `shmat`, `mprotect`, `pkey_mprotect`, and these and `madvise` through `syscall`. (`shmdt` unmaps only what `shmat` has
//! mapped.) Open MPI, UCX and libfabric replace the code of the C library's functions, to keep their lists of registered
//! memory: so each call goes on to the next definition, and they hear of it.
//!
//! Invariants
//! 1. Before the kernel replaces shared pages, peers know that they are lost ([`crate::altered`]): from then on they read
//!    and write what the program has mapped there, as any private memory.
//! 2. Memory of `malloc` and static data behave as private memory: `mremap` moves a private copy, and
//!    `remap_file_pages` is refused.
//! 3. The memory of lost pages in the file is free.
//! 4. No lock is held during the program's call, since those who hear of it may call `free`.
//!
//! Not seen: inline system calls. Costs: two comparisons for each call, where it concerns other memory.

use std::ffi::{CStr, c_int, c_long, c_void};
use std::ops::Range;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use rustix::fs::FallocateFlags;
use selvedge_os::children::{FileName, SharedMapping};
use selvedge_os::raw;

use crate::altered::Place;
use crate::pool::POOL;
use crate::process::keeping_errno;
use crate::{advice, data, system};

/// Shared memory in an address range.
type Part = (Range<u64>, Place);

/// The parts of a range that are shared.
#[inline]
pub fn shared_parts(range: &Range<u64>) -> impl Iterator<Item = Part> + Clone + use<> {
    let part = |place: Option<Place>| place.and_then(|place| Some((place.part_of(range)?, place)));
    let pool = if POOL.reaches(range) { part(POOL.place()) } else { None };
    [pool, part(data::place())].into_iter().flatten()
}

/// The whole pages of a call's range. Empty if the kernel will refuse it.
#[inline(always)]
pub fn pages(start: usize, bytes: usize) -> Range<u64> {
    let (start, page) = (start as u64, rustix::param::page_size() as u64);
    let end = (bytes as u64).checked_next_multiple_of(page).and_then(|bytes| start.checked_add(bytes));
    match end {
        Some(end) if start % page == 0 => start..end,
        _ => start..start,
    }
}

/// Gives the memory of a range of a file back: its pages read as zeros. Returns the kernel's result.
pub fn punch((descriptor, offset): (RawFd, u64), bytes: u64) -> isize {
    // SAFETY: the descriptor is that of the pool or of the static data, which are never closed here.
    let file = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, how, offset, bytes) {
        Ok(()) => 0,
        Err(error) => -(error.raw_os_error() as isize),
    }
}

/// Makes a call that replaces the mappings of a range. Like the C functions, it returns -1 after an error.
fn replacing(range: &Range<u64>, call: impl FnOnce() -> isize) -> isize {
    let parts = shared_parts(range);
    for (part, place) in parts.clone() {
        keeping_errno(|| POOL.alter(|altered| altered.lose(part, &place)));
    }
    let result = call();
    if result != -1 {
        for (part, place) in parts {
            keeping_errno(|| punch(place.file_at(part.start), part.end - part.start));
        }
    }
    result
}

fn fail(error: c_int) -> isize {
    raw::checked(-(error as isize)) as isize
}

/// Replaces the shared pages of a range by private copies. False if out of memory.
fn make_private(range: &Range<u64>) -> bool {
    shared_parts(range).all(|(part, place)| {
        // SAFETY: the descriptor is that of the pool or of the static data, which are never closed here.
        let file = unsafe { BorrowedFd::borrow_raw(place.range.descriptor) };
        let Ok(name) = FileName::of(file) else { return false };
        let mapping = SharedMapping { start: place.range.base, bytes: place.range.bytes, file: name };
        POOL.alter(|altered| altered.lose(part.clone(), &place));
        // SAFETY: the program is about to move these pages, so no other thread of it uses them.
        let copied = unsafe { mapping.make_private(file, std::iter::once(part.clone())) };
        copied && punch(place.file_at(part.start), part.end - part.start) == 0
    })
}

/// The next definition of a C function that makes a system call. Others may have replaced its code to hear of calls, so it
/// is called, and not the kernel.
pub struct Next {
    name: &'static CStr,
    number: c_long,
    /// Whether it returns an `int`; otherwise a pointer.
    is_int: bool,
    at: AtomicPtr<c_void>,
}

/// Any C function of up to six words. Those that it does not have are in registers that it does not read.
type Function = unsafe extern "C" fn(usize, usize, usize, usize, usize, usize) -> isize;
type Syscall = unsafe extern "C" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

impl Next {
    const fn new(name: &'static CStr, number: c_long, is_int: bool) -> Next {
        Next { name, number, is_int, at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Calls it, or the kernel while it is not known.
    ///
    /// # Safety
    /// The contract of the function.
    #[inline(always)]
    pub unsafe fn call(&self, words: [usize; 6]) -> isize {
        let at = self.at.load(Relaxed);
        let [a, b, c, d, e, f] = words;
        // SAFETY: this function has the contract of the C function, whose words are in the same registers.
        unsafe {
            if at.is_null() {
                return raw::checked(raw::call(self.number, words)) as isize;
            }
            let result = std::mem::transmute::<*mut c_void, Function>(at)(a, b, c, d, e, f);
            if self.is_int { result as c_int as isize } else { result }
        }
    }
}

static MMAP: Next = Next::new(c"mmap", libc::SYS_mmap, false);
static MUNMAP: Next = Next::new(c"munmap", libc::SYS_munmap, true);
static MREMAP: Next = Next::new(c"mremap", libc::SYS_mremap, false);
static REMAP_FILE_PAGES: Next = Next::new(c"remap_file_pages", libc::SYS_remap_file_pages, true);
static SHMAT: Next = Next::new(c"shmat", libc::SYS_shmat, false);
static MPROTECT: Next = Next::new(c"mprotect", libc::SYS_mprotect, true);
static PKEY_MPROTECT: Next = Next::new(c"pkey_mprotect", libc::SYS_pkey_mprotect, true);
pub static MADVISE: Next = Next::new(c"madvise", libc::SYS_madvise, true);
static SYSCALL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Looks up the next definitions, before `main`: an allocator may call `mmap` while it cannot be called.
pub fn find_next() {
    let all = [&MMAP, &MUNMAP, &MREMAP, &REMAP_FILE_PAGES, &SHMAT, &MPROTECT, &PKEY_MPROTECT, &MADVISE];
    for next in all {
        system::next(&next.at, next.name);
    }
    system::next(&SYSCALL, c"syscall");
}

/// The calls, with the kernel's arguments. Each makes `call`: that of a C function, or of `syscall`.
mod calls {
    use super::*;

    #[inline(always)]
    pub fn mmap([start, bytes, _, flags, ..]: [usize; 6], call: impl FnOnce() -> isize) -> isize {
        let replaces = flags as c_int & (libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE) == libc::MAP_FIXED;
        let range = if replaces { pages(start, bytes) } else { 0..0 };
        replacing(&range, call)
    }

    #[inline(always)]
    pub fn munmap([start, bytes, ..]: [usize; 6], call: impl FnOnce() -> isize) -> isize {
        replacing(&pages(start, bytes), call)
    }

    pub fn mremap([start, bytes, new_bytes, flags, to, _]: [usize; 6], call: impl FnOnce() -> isize) -> isize {
        let from = pages(start, bytes.max(1));
        if shared_parts(&from).next().is_some() {
            // The kernel duplicates shared mappings so, and refuses private ones.
            if bytes == 0 {
                return fail(libc::EINVAL);
            }
            if !keeping_errno(|| make_private(&from)) {
                return fail(libc::ENOMEM);
            }
        }
        let target = if flags as c_int & libc::MREMAP_FIXED != 0 { pages(to, new_bytes) } else { 0..0 };
        replacing(&target, call)
    }

    pub fn remap_file_pages([start, bytes, ..]: [usize; 6], call: impl FnOnce() -> isize) -> isize {
        if shared_parts(&pages(start, bytes)).next().is_some() {
            return fail(libc::EINVAL);
        }
        call()
    }

    pub fn shmat([id, start, flags, ..]: [usize; 6], call: impl FnOnce() -> isize) -> isize {
        let replaces = start != 0 && flags as c_int & libc::SHM_REMAP != 0;
        // SAFETY: the record is plain data, and zeros are a value of it; the kernel writes it.
        let bytes = keeping_errno(|| unsafe {
            let mut segment: libc::shmid_ds = std::mem::zeroed();
            if replaces && libc::shmctl(id as c_int, libc::IPC_STAT, &raw mut segment) == 0 {
                segment.shm_segsz
            } else {
                0
            }
        });
        let page = rustix::param::page_size();
        let place = if flags as c_int & libc::SHM_RND != 0 { start / page * page } else { start };
        replacing(&pages(place, bytes), call)
    }

    #[inline(always)]
    pub fn mprotect([start, bytes, protection, ..]: [usize; 6], call: impl FnOnce() -> isize) -> isize {
        let range = pages(start, bytes);
        if protection as c_int != libc::PROT_READ | libc::PROT_WRITE && POOL.reaches(&range) {
            keeping_errno(|| change(&range));
        }
        call()
    }

    /// A key for a range counts as another protection.
    pub fn pkey_mprotect([start, bytes, ..]: [usize; 6], call: impl FnOnce() -> isize) -> isize {
        let range = pages(start, bytes);
        keeping_errno(|| change(&range));
        call()
    }

    fn change(range: &Range<u64>) {
        for (part, _) in shared_parts(range) {
            POOL.alter(|altered| altered.change(part));
        }
    }
}

/// The functions that replace the C library's.
#[cfg_attr(test, allow(dead_code))]
mod exported {
    use super::*;

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn mmap(
        start: usize,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64,
    ) -> *mut c_void {
        let words = [start, bytes, protection as usize, flags as usize, descriptor as usize, offset as usize];
        // SAFETY: this function has the contract of `mmap`.
        calls::mmap(words, || unsafe { MMAP.call(words) }) as *mut c_void
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn mmap64(
        start: usize,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        descriptor: c_int,
        offset: i64,
    ) -> *mut c_void {
        // SAFETY: this function has the contract of `mmap`.
        unsafe { mmap(start, bytes, protection, flags, descriptor, offset) }
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn munmap(start: usize, bytes: usize) -> c_int {
        let words = [start, bytes, 0, 0, 0, 0];
        // SAFETY: this function has the contract of `munmap`.
        calls::munmap(words, || unsafe { MUNMAP.call(words) }) as c_int
    }

    /// glibc's function is variadic: `to` has any value where the caller gave none, and is not used then.
    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn mremap(
        start: usize,
        bytes: usize,
        new_bytes: usize,
        flags: c_int,
        to: usize,
    ) -> *mut c_void {
        let words = [start, bytes, new_bytes, flags as usize, to, 0];
        // SAFETY: this function has the contract of `mremap`.
        calls::mremap(words, || unsafe { MREMAP.call(words) }) as *mut c_void
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn remap_file_pages(
        start: usize,
        bytes: usize,
        protection: c_int,
        page: usize,
        flags: c_int,
    ) -> c_int {
        let words = [start, bytes, protection as usize, page, flags as usize, 0];
        // SAFETY: this function has the contract of `remap_file_pages`.
        calls::remap_file_pages(words, || unsafe { REMAP_FILE_PAGES.call(words) }) as c_int
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn shmat(id: c_int, start: usize, flags: c_int) -> *mut c_void {
        let words = [id as usize, start, flags as usize, 0, 0, 0];
        // SAFETY: this function has the contract of `shmat`.
        calls::shmat(words, || unsafe { SHMAT.call(words) }) as *mut c_void
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn mprotect(start: usize, bytes: usize, protection: c_int) -> c_int {
        let words = [start, bytes, protection as usize, 0, 0, 0];
        // SAFETY: this function has the contract of `mprotect`.
        calls::mprotect(words, || unsafe { MPROTECT.call(words) }) as c_int
    }

    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn pkey_mprotect(start: usize, bytes: usize, protection: c_int, key: c_int) -> c_int {
        let words = [start, bytes, protection as usize, key as usize, 0, 0];
        // SAFETY: this function has the contract of `pkey_mprotect`.
        calls::pkey_mprotect(words, || unsafe { PKEY_MPROTECT.call(words) }) as c_int
    }

    /// glibc's function is variadic: six arguments are passed in any case, with any values where the caller gave fewer.
    #[cfg_attr(not(test), unsafe(no_mangle))]
    pub unsafe extern "C" fn syscall(
        number: c_long,
        a: usize,
        b: usize,
        c: usize,
        d: usize,
        e: usize,
        f: usize,
    ) -> c_long {
        let words = [a, b, c, d, e, f];
        let call = || {
            let next = SYSCALL.load(Relaxed);
            // SAFETY: this function has the contract of the system call. Calls of the C library's function do not differ from
            // those of this type.
            unsafe {
                if next.is_null() {
                    return raw::checked(raw::call(number, words)) as isize;
                }
                std::mem::transmute::<*mut c_void, Syscall>(next)(number, a, b, c, d, e, f) as isize
            }
        };
        let result = match number {
            libc::SYS_mmap => calls::mmap(words, call),
            libc::SYS_munmap => calls::munmap(words, call),
            libc::SYS_mremap => calls::mremap(words, call),
            libc::SYS_remap_file_pages => calls::remap_file_pages(words, call),
            libc::SYS_shmat => calls::shmat(words, call),
            libc::SYS_mprotect => calls::mprotect(words, call),
            libc::SYS_pkey_mprotect => calls::pkey_mprotect(words, call),
            // SAFETY: this function has the contract of the system call.
            libc::SYS_madvise => unsafe { advice::advise(a, b, c as c_int, call) },
            _ => call(),
        };
        result as c_long
    }
}
