// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One memory file, mapped shared, from which large blocks are allocated in whole pages.
//!
//! Invariants
//! 1. Every page belongs to exactly one of: a block (allocated, or short, free and kept for reuse), the dirty pages
//!    (free, with old contents), the clean pages (free, zero, without memory behind them).
//! 2. All bookkeeping is in the process's private memory: no peer can mislead `malloc`.
//! 3. The file has its final length from the beginning, and is sealed ([`sealed`]).
//! 4. The range stays mapped while the process lives: an address in it always belongs to the pool.
//! 5. A forked child gets private copies of its blocks ([`crate::fork`]), and allocates no new ones here.
//!
//! Costs: reusing a block takes 25 (up to eight pages, [`crate::blocks`]) to 150 ns and no page fault, less than in the
//! C library's allocator at this size. Pages return to the kernel when the dirty ones exceed both [`KEEP_BYTES`] and
//! the pages in use. The bookkeeping's memory comes from the allocator behind ([`crate::system::Allocator`]), so allocating it
//! never takes the pool's own lock.

use std::cell::UnsafeCell;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use rustix::mm::{MapFlags, ProtFlags};
use selvedge_os::address_space::reserve_bytes_max;
use selvedge_os::children::{FileName, SharedMapping};
use selvedge_os::extents::Extents;
use selvedge_os::raw;
use selvedge_os::shared::{SharedRange, file_bytes_max, lost_bytes, sealed};

use crate::altered::{Altered, Place};
use crate::blocks::{Blocks, Freed, PAGES_MAX};
use crate::huge::HugePages;

/// Blocks of this many bytes and more are shared.
pub const LARGE_BYTES: usize = 4 << 10;

/// The pool of this process.
pub static POOL: Pool = Pool::new();

/// Up to this many bytes of dirty pages are always kept.
const KEEP_BYTES: u64 = 64 << 20;
/// The most address space that is reserved, and the least that is worth reserving.
const RESERVE_BYTES_MAX: u64 = 128 << 30;
const RESERVE_BYTES_MIN: u64 = 256 << 20;

/// The process's blocks.
pub struct Pool {
    /// The start and length of the range; 0 until it exists.
    base: AtomicU64,
    bytes: AtomicU64,
    /// The file; -1 without one, and in a forked child of the process that made it.
    descriptor: AtomicI32,
    lock: UnsafeCell<libc::pthread_mutex_t>,
    state: UnsafeCell<State>,
    /// Altered pages of the pool and of static data.
    altered: UnsafeCell<Altered>,
}

// SAFETY: `state` and `altered` are only accessed through `Locked`, which holds the mutex. The other fields are atomics and a
// mutex.
unsafe impl Sync for Pool {}

// A process has one, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum State {
    /// No large block has been requested yet.
    Untried,
    /// The pool is off or could not be made: the C library allocates all blocks.
    Without,
    With(PageTable),
}

/// The bookkeeping of the pages.
pub struct PageTable {
    file: OwnedFd,
    name: FileName,
    base: u64,
    bytes: u64,
    page: u64,
    /// The longest block of the pool; the C library allocates longer ones.
    bytes_max: u64,
    blocks: Blocks,
    dirty: Extents,
    dirty_pages: u64,
    clean: Extents,
    /// Whether this process is a forked child of the process that made the range.
    inherited: bool,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub start: *mut u8,
    /// Its bytes are zero.
    pub zeroed: bool,
}

struct Locked<'a>(&'a Pool);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: a `Locked` exists only while this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
    }
}

impl Locked<'_> {
    fn state(&mut self) -> &mut State {
        // SAFETY: the mutex is held, so no other thread accesses the state. The borrow is tied to `self`, so it ends before the
        // mutex is unlocked, and `&mut self` keeps it unique.
        unsafe { &mut *self.0.state.get() }
    }

    /// The table, and the altered pages.
    fn parts(&mut self) -> (Option<&mut PageTable>, &mut Altered) {
        // SAFETY: as in `state`; the two are different fields.
        let (state, altered) = unsafe { (&mut *self.0.state.get(), &mut *self.0.altered.get()) };
        match state {
            State::With(table) => (Some(table), altered),
            _ => (None, altered),
        }
    }

    fn altered(&mut self) -> &mut Altered {
        self.parts().1
    }

    fn table(&mut self) -> Option<&mut PageTable> {
        match self.state() {
            State::With(table) => Some(table),
            _ => None,
        }
    }
}

impl Pool {
    pub const fn new() -> Pool {
        Pool {
            base: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            descriptor: AtomicI32::new(-1),
            lock: UnsafeCell::new(libc::PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP),
            state: UnsafeCell::new(State::Untried),
            altered: UnsafeCell::new(Altered::new()),
        }
    }

    fn lock(&self) -> Locked<'_> {
        // SAFETY: the mutex is initialised and does not move: the pool is a static, or is borrowed while it is locked.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        Locked(self)
    }

    /// Whether an address belongs to the pool.
    #[inline(always)]
    pub fn holds(&self, address: *const u8) -> bool {
        (address as u64).wrapping_sub(self.base.load(Relaxed)) < self.bytes.load(Relaxed)
    }

    /// Makes the range if that was not tried yet and `wanted` returns true. Returns true if this call made it. Costs
    /// one load once the range exists.
    #[inline(always)]
    pub fn begin(&self, wanted: impl FnOnce() -> bool) -> bool {
        self.bytes.load(Relaxed) == 0 && self.begin_once(wanted)
    }

    fn begin_once(&self, wanted: impl FnOnce() -> bool) -> bool {
        let mut held = self.lock();
        if !matches!(held.state(), State::Untried) {
            return false;
        }
        let made = if wanted() { PageTable::new() } else { None };
        let Some(table) = made else {
            *held.state() = State::Without;
            return false;
        };
        self.base.store(table.base, Relaxed);
        self.bytes.store(table.bytes, Relaxed);
        self.descriptor.store(table.file.as_raw_fd(), Release);
        *held.state() = State::With(table);
        true
    }

    /// Whether a large block has been requested.
    pub fn was_requested(&self) -> bool {
        !matches!(self.lock().state(), State::Untried)
    }

    /// Allocates at least `bytes` at a multiple of `align`, a power of two. `None`: the C library must do it.
    pub fn take(&self, bytes: usize, align: usize) -> Option<Block> {
        self.lock().table()?.take(bytes as u64, align as u64)
    }

    /// Frees a block. Returns false if no block begins there.
    pub fn give(&self, start: *mut u8) -> bool {
        let mut held = self.lock();
        let (Some(table), altered) = held.parts() else { return false };
        if !altered.is_empty() && !table.restore(start as u64, 0, altered) {
            // The block stays allocated: its pages cannot be used again.
            return true;
        }
        table.give(start as u64)
    }

    /// The length of the block that begins here.
    pub fn size(&self, start: *const u8) -> Option<usize> {
        self.lock().table()?.size(start as u64)
    }

    /// Resizes a block in place. Returns false, without effect, if that is not possible.
    pub fn resize(&self, start: *mut u8, bytes: usize) -> bool {
        let mut held = self.lock();
        let (Some(table), altered) = held.parts() else { return false };
        // Pages that the block loses become other blocks'.
        if !altered.is_empty() && !table.restore(start as u64, bytes as u64, altered) {
            return false;
        }
        table.resize(start as u64, bytes as u64)
    }

    /// Whether some of these addresses belong to the pool.
    #[inline(always)]
    pub fn reaches(&self, addresses: &Range<u64>) -> bool {
        let base = self.base.load(Relaxed);
        addresses.start < base + self.bytes.load(Relaxed) && base < addresses.end
    }

    /// The pool's pages and file. `None`: there is no range, or it belongs to the parent process. Takes no lock.
    pub fn place(&self) -> Option<Place> {
        // Pairs with the store of `begin_once`.
        let descriptor = self.descriptor.load(Acquire);
        let (base, bytes) = (self.base.load(Relaxed), self.bytes.load(Relaxed));
        // SAFETY: the mapping has one page behind its `bytes`, for this record of atomics, and stays mapped.
        (descriptor >= 0).then(|| unsafe { Place::new(base, bytes, base + bytes, descriptor) })
    }

    /// Changes the records of altered pages.
    pub fn alter(&self, change: impl FnOnce(&mut Altered)) {
        change(self.lock().altered());
    }

    /// Clears the pages that are zero in forked children, in a child that holds the lock and has its private copies.
    /// The kernel does so from then on.
    pub fn wipe(&self) {
        let mut held = Locked(self);
        for pages in held.altered().wiped.iter() {
            for advice in [libc::MADV_DONTNEED, libc::MADV_WIPEONFORK] {
                // SAFETY: these are whole pages of the program, which has asked that a child finds them zero.
                unsafe { raw::madvise(pages.start, pages.end - pages.start, advice) };
            }
        }
        held.altered().wiped.forget();
        std::mem::forget(held);
    }

    /// The range to report to peers. `None`: there is no range, or it belongs to the parent process.
    pub fn shared(&self) -> Option<SharedRange> {
        self.place().map(|place| place.range)
    }

    /// Takes the lock and keeps it until [`Pool::end_hold`], across a fork. Returns true if the child must copy blocks.
    pub fn begin_hold(&self) -> bool {
        let mut held = self.lock();
        let blocks = held.table().is_some_and(|table| !table.inherited && table.blocks.pages() != 0);
        std::mem::forget(held);
        blocks
    }

    pub fn end_hold(&self) {
        drop(Locked(self));
    }

    /// Replaces all blocks by private copies, in a forked child that holds the lock. Returns false if out of memory.
    pub fn make_private(&self) -> bool {
        let mut held = Locked(self);
        self.descriptor.store(-1, Relaxed);
        let copied = held.table().is_none_or(PageTable::make_private);
        std::mem::forget(held);
        copied
    }
}

impl PageTable {
    fn new() -> Option<PageTable> {
        let page = rustix::param::page_size() as u64;
        // SAFETY: `sysconf` takes a number and has no preconditions.
        let memory = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }.max(0) as u64 * page;
        let reserve = RESERVE_BYTES_MAX.min(file_bytes_max()).min(reserve_bytes_max());
        let mut bytes = memory.next_multiple_of(1 << 30).min(reserve) / page * page;
        let huge = HugePages::of_kernel();
        while bytes >= RESERVE_BYTES_MIN {
            if let Ok((file, base)) = range(bytes) {
                if huge == HugePages::Both {
                    // SAFETY: the range was just mapped, and MADV_HUGEPAGE does not change its contents.
                    unsafe { raw::madvise(base, bytes, libc::MADV_HUGEPAGE) };
                }
                let mut clean = Extents::default();
                clean.give(0, bytes / page);
                return Some(PageTable {
                    name: FileName::of(file.as_fd()).ok()?,
                    file,
                    base,
                    bytes,
                    page,
                    bytes_max: huge.share_bytes_max().min(bytes).min(PAGES_MAX * page),
                    blocks: Blocks::new(bytes / page)?,
                    dirty: Extents::default(),
                    dirty_pages: 0,
                    clean,
                    inherited: false,
                });
            }
            bytes /= 2;
        }
        None
    }

    fn take(&mut self, bytes: u64, align: u64) -> Option<Block> {
        if self.inherited || bytes > self.bytes_max || align > self.bytes {
            return None;
        }
        let pages = bytes.div_ceil(self.page);
        if let Some(first) = if align <= self.page { self.blocks.take_kept(pages) } else { None } {
            return Some(Block { start: self.address(first), zeroed: false });
        }
        let spare = (align / self.page).saturating_sub(1);
        let (first, zeroed) = match self.dirty.take(pages + spare) {
            Some(first) => {
                self.dirty_pages -= pages + spare;
                (first, false)
            }
            None => match self.clean.take(pages + spare) {
                Some(first) => (first, true),
                None => {
                    while let Some((first, pages)) = self.blocks.release_kept() {
                        self.put_back(first, pages, false);
                    }
                    self.clear(0);
                    (self.clean.take(pages + spare)?, true)
                }
            },
        };
        // The pages before and after the aligned block are freed again.
        let aligned = ((self.base + first * self.page).next_multiple_of(align) - self.base) / self.page;
        for (from, end) in [(first, aligned), (aligned + pages, first + pages + spare)] {
            if end > from {
                self.put_back(from, end - from, zeroed);
            }
        }
        self.blocks.put(aligned, pages);
        Some(Block { start: self.address(aligned), zeroed })
    }

    fn give(&mut self, start: u64) -> bool {
        let Some(first) = self.page_of(start) else { return false };
        let pages = match self.blocks.give(first, !self.inherited) {
            Freed::Kept => return true,
            Freed::Pages(pages) => pages,
            Freed::None => return false,
        };
        if self.inherited {
            // The pages are private copies: their addresses stay reserved, their contents are dropped.
            // SAFETY: the pages belong to a block that was just freed, so their contents are no longer used.
            unsafe { raw::madvise(start, pages * self.page, libc::MADV_DONTNEED) };
            return true;
        }
        self.put_back(first, pages, false);
        self.clear((KEEP_BYTES / self.page).max(self.blocks.pages()));
        true
    }

    fn size(&self, start: u64) -> Option<usize> {
        let pages = self.blocks.get(self.page_of(start)?)?;
        Some((pages * self.page) as usize)
    }

    fn resize(&mut self, start: u64, bytes: u64) -> bool {
        let Some(first) = self.page_of(start) else { return false };
        let Some(pages) = self.blocks.get(first) else { return false };
        let wanted = bytes.div_ceil(self.page).max(1);
        if self.inherited || bytes > self.bytes_max {
            return wanted <= pages;
        }
        if wanted > pages {
            let (end, more) = (first + pages, wanted - pages);
            if self.dirty.take_at(end, more) {
                self.dirty_pages -= more;
            } else if !self.clean.take_at(end, more) {
                return false;
            }
        } else if wanted < pages {
            self.put_back(first + wanted, pages - wanted, false);
        }
        self.blocks.put(first, wanted);
        true
    }

    /// Makes the pages of a block behind its first `keep` bytes like new ones. Returns false if that is not possible.
    #[cold]
    fn restore(&self, start: u64, keep: u64, altered: &mut Altered) -> bool {
        let end = start + self.size(start).unwrap_or(0) as u64;
        let from = start + keep.min(end - start).next_multiple_of(self.page);
        self.inherited || from >= end || altered.restore(&(from..end), &self.place())
    }

    fn put_back(&mut self, first: u64, pages: u64, clean: bool) {
        if clean {
            self.clean.give(first, pages);
        } else {
            self.dirty.give(first, pages);
            self.dirty_pages += pages;
        }
    }

    /// Returns dirty pages to the kernel, the longest runs first, until at most `keep` are left.
    fn clear(&mut self, keep: u64) {
        while self.dirty_pages > keep {
            let Some((first, pages)) = self.dirty.take_longest() else { return };
            self.dirty_pages -= pages;
            let start = self.address(first);
            let bytes = pages * self.page;
            // SAFETY: these pages belong to our mapping and to no block, so their contents are not needed. If the
            // kernel refuses to take them back, they are zeroed here.
            unsafe {
                if raw::madvise(start as u64, bytes, libc::MADV_REMOVE) != 0 {
                    ptr::write_bytes(start, 0, bytes as usize);
                }
            }
            self.clean.give(first, pages);
        }
    }

    fn make_private(&mut self) -> bool {
        // The blocks of a grandchild are private already, and the file no longer holds their contents.
        if std::mem::replace(&mut self.inherited, true) {
            return true;
        }
        let mapping = SharedMapping { start: self.base, bytes: self.bytes, file: self.name };
        let runs = self.blocks.runs().map(|(first, pages)| {
            let start = self.base + first * self.page;
            start..start + pages * self.page
        });
        // SAFETY: the pages are runs of allocated blocks, and the forked child has only this thread.
        unsafe { mapping.make_private(self.file.as_fd(), runs) }
    }

    fn place(&self) -> Place {
        let end = self.base + self.bytes;
        // SAFETY: the mapping has one page behind its `bytes`, for this record of atomics, and stays mapped.
        unsafe { Place::new(self.base, self.bytes, end, self.file.as_raw_fd()) }
    }

    fn address(&self, page: u64) -> *mut u8 {
        (self.base + page * self.page) as *mut u8
    }

    fn page_of(&self, start: u64) -> Option<u64> {
        let offset = start.wrapping_sub(self.base);
        (offset < self.bytes && offset % self.page == 0).then_some(offset / self.page)
    }
}

/// Makes a file for `bytes` and a page more, and maps it: the file, and the mapping's address.
fn range(bytes: u64) -> rustix::io::Result<(OwnedFd, u64)> {
    let all = bytes + lost_bytes();
    let file = sealed(c"selvedge-malloc", all)?;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
    let base = unsafe { rustix::mm::mmap(ptr::null_mut(), all as usize, protection, flags, &file, 0)? };
    Ok((file, base as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;

    fn pool() -> Pool {
        let pool = Pool::new();
        assert!(pool.begin(|| true) && !pool.begin(|| true), "once");
        pool
    }

    fn bytes(block: Block, length: usize) -> &'static mut [u8] {
        // SAFETY: the block has at least `length` bytes, and the test frees it after the last use of this slice.
        unsafe { std::slice::from_raw_parts_mut(block.start, length) }
    }

    #[test]
    fn blocks_are_apart_and_aligned() {
        let pool = pool();
        let blocks: Vec<Block> = (0..8).map(|at| pool.take(40 * KIB + at, 1 << (12 + at)).unwrap()).collect();
        for (at, block) in blocks.iter().enumerate() {
            assert_eq!(block.start as usize % (1 << (12 + at)), 0);
            bytes(*block, 40 * KIB + at).fill(at as u8 + 1);
        }
        for (at, block) in blocks.iter().enumerate() {
            assert!(bytes(*block, 40 * KIB + at).iter().all(|byte| *byte == at as u8 + 1));
            assert!(pool.holds(block.start) && pool.size(block.start).unwrap() >= 40 * KIB + at);
            assert!(pool.give(block.start) && !pool.give(block.start), "twice");
        }
        assert!(!pool.give(ptr::null_mut()) && !pool.holds(ptr::null()));
    }

    #[test]
    fn blocks_reported_as_zero_are_zero() {
        let pool = pool();
        let first = pool.take(MIB, 1).unwrap();
        assert!(first.zeroed && bytes(first, MIB).iter().all(|byte| *byte == 0));
        bytes(first, MIB).fill(7);
        pool.give(first.start);
        assert!(!pool.take(MIB, 1).unwrap().zeroed, "used before");
        // Longer than `KEEP_BYTES`: the kernel gets the pages back, and they are zero when they are allocated again.
        let large = KEEP_BYTES as usize + MIB;
        let all = pool.take(large, 1).unwrap();
        bytes(all, large).fill(7);
        pool.give(all.start);
        let again = pool.take(large, 1).unwrap();
        assert!(again.zeroed && bytes(again, large).iter().all(|byte| *byte == 0));
    }

    #[test]
    fn a_block_grows_where_there_is_room() {
        let pool = pool();
        let block = pool.take(64 * KIB, 1).unwrap();
        bytes(block, 64 * KIB).fill(3);
        assert!(pool.resize(block.start, MIB) && pool.size(block.start) == Some(MIB));
        let next = pool.take(64 * KIB, 1).unwrap();
        assert_eq!(next.start as usize, block.start as usize + MIB);
        assert!(!pool.resize(block.start, 2 * MIB) && pool.size(block.start) == Some(MIB), "the next is in the way");
        assert!(pool.resize(block.start, 64 * KIB) && pool.size(block.start) == Some(64 * KIB));
        assert!(bytes(block, 64 * KIB).iter().all(|byte| *byte == 3));
        assert!(pool.resize(block.start, MIB), "the room is free again");
    }

    #[test]
    fn blocks_that_are_too_long_are_left_to_the_c_library() {
        let pool = pool();
        let most = pool.shared().unwrap().bytes as usize;
        assert_eq!((pool.take(most + 1, 1), pool.take(usize::MAX, 1)), (None, None));
        assert!(pool.take(MIB, 1).is_some());
        assert!(Pool::new().take(MIB, 1).is_none() && !Pool::new().begin(|| false));
    }

    #[test]
    fn the_file_cannot_be_made_shorter() {
        let pool = pool();
        let SharedRange { bytes: length, descriptor, .. } = pool.shared().unwrap();
        assert_eq!(selvedge_os::mapping::sealed_inode(descriptor).is_ok(), length > 0);
        // SAFETY: `ftruncate` takes a descriptor and a length, and fails on a sealed file.
        assert_eq!(unsafe { libc::ftruncate(descriptor, 0) }, -1);
    }

    /// A forked child's blocks are private copies, and it allocates no new ones in the pool.
    #[test]
    fn a_forked_child_has_private_copies() {
        let pool = pool();
        let block = pool.take(MIB, 1).unwrap();
        bytes(block, MIB).fill(5);
        assert!(pool.begin_hold());
        // SAFETY: the child uses only the pool, whose lock the parent held across the fork, and ends with `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let copied = pool.make_private();
            pool.end_hold();
            let same = bytes(block, MIB).iter().all(|byte| *byte == 5);
            bytes(block, MIB).fill(9);
            let refused = pool.take(MIB, 1).is_none() && pool.shared().is_none() && pool.give(block.start);
            // SAFETY: `_exit` takes a number and does not return.
            unsafe { libc::_exit(i32::from(!(copied && same && refused))) };
        }
        pool.end_hold();
        let mut status = 0;
        // SAFETY: `status` lives across the call.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        assert!(bytes(block, MIB).iter().all(|byte| *byte == 5), "the child wrote into its own");
    }
}
