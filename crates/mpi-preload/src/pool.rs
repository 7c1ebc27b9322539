// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One file in memory, mapped shared, from which large blocks are taken in whole pages.
//!
//! Invariants
//! 1. Every page is in one of: a block (somebody's, or a short one that waits for its next taker), the dirty pages (they hold what
//!    a block left), the clean ones (zero, and no memory is behind them).
//! 2. All that is known of blocks lies in the process's own memory: no peer can mislead `malloc`.
//! 3. The file is as long as its mapping from the beginning, and sealed ([`crate::file`]).
//! 4. The range stays mapped while the process lives: an address in it is the pool's and nobody else's.
//! 5. A forked child has its blocks for itself, as it would have had with private memory ([`crate::fork`]), and takes no
//!    new ones here.
//!
//! Costs: a block that is taken again costs 25 (up to eight pages, [`crate::blocks`]) to 150 ns and no page fault, less than the C
//! library's of this size; pages are given back to the system when more are dirty
//! than [`KEEP_BYTES`] and than are in use. The books are in memory of the C library's ([`crate::system::Allocator`]), so that they
//! never wait for the lock that they are kept under.

use std::cell::UnsafeCell;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::mm::{MapFlags, ProtFlags};
use selvedge_shm::extents::Extents;
use selvedge_shm::os::shared::SharedRange;

use crate::blocks::{Blocks, Given, PAGES_MAX};
use crate::file;
use crate::huge::Huge;

/// Dirty pages that are always kept.
const KEEP_BYTES: u64 = 64 << 20;
/// Most address space that is asked for, and least that is worth it.
const RESERVE_BYTES_MAX: u64 = 128 << 30;
const RESERVE_BYTES_MIN: u64 = 256 << 20;

/// The process's blocks.
pub struct Pool {
    /// Where the range begins and its bytes; 0 until there is one.
    base: AtomicU64,
    bytes: AtomicU64,
    lock: UnsafeCell<libc::pthread_mutex_t>,
    state: UnsafeCell<State>,
}

// SAFETY: `state` is touched with the lock held only.
unsafe impl Sync for Pool {}

enum State {
    /// No large block was asked for yet.
    Untried,
    /// There can be none here: blocks are the system's.
    Without,
    With(Books),
}

/// What is known of the pages.
pub struct Books {
    file: OwnedFd,
    base: u64,
    bytes: u64,
    page: u64,
    /// Longer blocks are the system's.
    most: u64,
    blocks: Blocks,
    dirty: Extents,
    dirty_pages: u64,
    clean: Extents,
    /// This process is a child of the one whose range it is.
    inherited: bool,
}

/// A block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub start: *mut u8,
    /// Its bytes are zero.
    pub zeroed: bool,
}

/// The lock, held.
struct Held<'a>(&'a Pool);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: locked by this thread.
        unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
    }
}

impl Held<'_> {
    fn state(&mut self) -> &mut State {
        // SAFETY: the lock is held, and the borrow ends before it is let go.
        unsafe { &mut *self.0.state.get() }
    }

    fn books(&mut self) -> Option<&mut Books> {
        match self.state() {
            State::With(books) => Some(books),
            _ => None,
        }
    }
}

impl Pool {
    pub const fn new() -> Pool {
        Pool {
            base: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            lock: UnsafeCell::new(libc::PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP),
            state: UnsafeCell::new(State::Untried),
        }
    }

    fn lock(&self) -> Held<'_> {
        // SAFETY: an initialised mutex that never moves while anybody knows of it.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        Held(self)
    }

    /// Whether an address is the pool's.
    #[inline(always)]
    pub fn holds(&self, address: *const u8) -> bool {
        (address as u64).wrapping_sub(self.base.load(Relaxed)) < self.bytes.load(Relaxed)
    }

    /// Makes the range if that was not tried yet and `wanted` says so; true if this call made it. Once there is one, a load.
    #[inline(always)]
    pub fn begin(&self, wanted: impl FnOnce() -> bool) -> bool {
        self.bytes.load(Relaxed) == 0 && self.begin_once(wanted)
    }

    fn begin_once(&self, wanted: impl FnOnce() -> bool) -> bool {
        let mut held = self.lock();
        if !matches!(held.state(), State::Untried) {
            return false;
        }
        let made = if wanted() { Books::new() } else { None };
        let Some(books) = made else {
            *held.state() = State::Without;
            return false;
        };
        self.base.store(books.base, Relaxed);
        self.bytes.store(books.bytes, Relaxed);
        *held.state() = State::With(books);
        true
    }

    /// A block of at least `bytes` at a multiple of `align`, a power of two. None: the system is to give one.
    pub fn take(&self, bytes: usize, align: usize) -> Option<Block> {
        self.lock().books()?.take(bytes as u64, align as u64)
    }

    /// Gives a block back. False: none begins there.
    pub fn give(&self, start: *mut u8) -> bool {
        self.lock().books().is_some_and(|books| books.give(start as u64))
    }

    /// The bytes of the block that begins here.
    pub fn size(&self, start: *const u8) -> Option<usize> {
        self.lock().books()?.size(start as u64)
    }

    /// Makes a block longer or shorter where it is. False: it cannot be, and is as before.
    pub fn resize(&self, start: *mut u8, bytes: usize) -> bool {
        self.lock().books().is_some_and(|books| books.resize(start as u64, bytes as u64))
    }

    /// What peers have to know. None: there is no range, or it is another process's.
    pub fn shared(&self) -> Option<SharedRange> {
        let mut held = self.lock();
        let books = held.books().filter(|books| !books.inherited)?;
        Some(SharedRange { base: books.base, bytes: books.bytes, descriptor: books.file.as_raw_fd() })
    }

    /// Holds the lock until [`Pool::end_hold`], across a fork. True: there are blocks that the child must copy.
    pub fn begin_hold(&self) -> bool {
        let mut held = self.lock();
        let blocks = held.books().is_some_and(|books| !books.inherited && books.blocks.pages() != 0);
        std::mem::forget(held);
        blocks
    }

    pub fn end_hold(&self) {
        drop(Held(self));
    }

    /// In a forked child, the lock held: puts private copies in the place of all blocks. False: there is no memory for them.
    pub fn make_private(&self) -> bool {
        let mut held = Held(self);
        let copied = held.books().is_none_or(Books::make_private);
        std::mem::forget(held);
        copied
    }
}

impl Books {
    fn new() -> Option<Books> {
        let page = rustix::param::page_size() as u64;
        // SAFETY: no preconditions.
        let memory = unsafe { libc::sysconf(libc::_SC_PHYS_PAGES) }.max(0) as u64 * page;
        let reserve = RESERVE_BYTES_MAX.min(file::longest());
        let mut bytes = memory.next_multiple_of(1 << 30).min(reserve) / page * page;
        let huge = Huge::here();
        while bytes >= RESERVE_BYTES_MIN {
            if let Ok((file, base)) = range(bytes) {
                if huge == Huge::Both {
                    // SAFETY: asks for larger pages.
                    unsafe { advise(base as *mut u8, bytes as usize, libc::MADV_HUGEPAGE) };
                }
                let mut clean = Extents::default();
                clean.give(0, bytes / page);
                return Some(Books {
                    file,
                    base,
                    bytes,
                    page,
                    most: huge.most().min(bytes).min(PAGES_MAX * page),
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
        if self.inherited || bytes > self.most || align > self.bytes {
            return None;
        }
        let pages = bytes.div_ceil(self.page);
        if let Some(first) = if align <= self.page { self.blocks.take_waiting(pages) } else { None } {
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
                    while let Some((first, pages)) = self.blocks.release_waiting() {
                        self.put_back(first, pages, false);
                    }
                    self.clear(0);
                    (self.clean.take(pages + spare)?, true)
                }
            },
        };
        // What lies before and behind the aligned block goes back.
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
            Given::Kept => return true,
            Given::Free(pages) => pages,
            Given::None => return false,
        };
        if self.inherited {
            // Private memory by now: the address stays ours, its contents need not.
            // SAFETY: the pages of a block that nobody has any more.
            unsafe { advise(start as *mut u8, (pages * self.page) as usize, libc::MADV_DONTNEED) };
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
        if self.inherited || bytes > self.most {
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

    fn put_back(&mut self, first: u64, pages: u64, clean: bool) {
        if clean {
            self.clean.give(first, pages);
        } else {
            self.dirty.give(first, pages);
            self.dirty_pages += pages;
        }
    }

    /// Gives dirty pages back to the system, the longest runs first, until no more than `keep` are left.
    fn clear(&mut self, keep: u64) {
        while self.dirty_pages > keep {
            let Some((first, pages)) = self.dirty.take_longest() else { return };
            self.dirty_pages -= pages;
            let start = self.address(first);
            let bytes = (pages * self.page) as usize;
            // SAFETY: pages of our own file that no block has. Where the system will not have them back, they are cleared by hand.
            unsafe {
                if !advise(start, bytes, libc::MADV_REMOVE) {
                    ptr::write_bytes(start, 0, bytes);
                }
            }
            self.clean.give(first, pages);
        }
    }

    fn make_private(&mut self) -> bool {
        self.inherited = true;
        self.blocks.runs().all(|(first, pages)| {
            let (offset, bytes) = (first * self.page, pages * self.page);
            // SAFETY: blocks, in a child in which nothing else runs yet.
            unsafe { file::keep_private(self.file.as_fd(), offset, self.address(first), bytes) }
        })
    }

    fn address(&self, page: u64) -> *mut u8 {
        (self.base + page * self.page) as *mut u8
    }

    fn page_of(&self, start: u64) -> Option<u64> {
        let offset = start.wrapping_sub(self.base);
        (offset < self.bytes && offset % self.page == 0).then_some(offset / self.page)
    }
}

/// `madvise` by the bare call: Open MPI and others put functions of their own in the place of the C library's, which may free while
/// the lock is held.
///
/// # Safety
/// Whole pages, whose contents nobody wants any more if it throws them away.
unsafe fn advise(start: *mut u8, bytes: usize, advice: libc::c_int) -> bool {
    // SAFETY: the caller's.
    unsafe { libc::syscall(libc::SYS_madvise, start, bytes, advice) == 0 }
}

/// A file, and where it is mapped.
fn range(bytes: u64) -> rustix::io::Result<(OwnedFd, u64)> {
    let file = file::sealed(c"selvedge-malloc", bytes)?;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
    // SAFETY: a new mapping where the kernel likes replaces nothing.
    let base = unsafe { rustix::mm::mmap(ptr::null_mut(), bytes as usize, protection, flags, &file, 0)? };
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
        // SAFETY: a block of that many bytes, which the test gives back when it has no use for them any more.
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
    fn what_is_said_to_be_zero_is() {
        let pool = pool();
        let first = pool.take(MIB, 1).unwrap();
        assert!(first.zeroed && bytes(first, MIB).iter().all(|byte| *byte == 0));
        bytes(first, MIB).fill(7);
        pool.give(first.start);
        assert!(!pool.take(MIB, 1).unwrap().zeroed, "used before");
        // More than is kept: the system has the pages back, and they are zero when they come again.
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
    fn too_much_is_the_systems() {
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
        assert_eq!(selvedge_shm::os::mapping::sealed_inode(descriptor).is_ok(), length > 0);
        // SAFETY: a call on an open descriptor.
        assert_eq!(unsafe { libc::ftruncate(descriptor, 0) }, -1);
    }

    /// What a forked child does, without the child's being one: the blocks are private afterwards, and nothing new is taken.
    #[test]
    fn a_child_has_copies() {
        let pool = pool();
        let block = pool.take(MIB, 1).unwrap();
        bytes(block, MIB).fill(5);
        assert!(pool.begin_hold());
        // SAFETY: the child only copies, compares and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let copied = pool.make_private();
            pool.end_hold();
            let same = bytes(block, MIB).iter().all(|byte| *byte == 5);
            bytes(block, MIB).fill(9);
            let refused = pool.take(MIB, 1).is_none() && pool.shared().is_none() && pool.give(block.start);
            // SAFETY: ends the child.
            unsafe { libc::_exit(i32::from(!(copied && same && refused))) };
        }
        pool.end_hold();
        let mut status = 0;
        // SAFETY: waits for our own child.
        unsafe { libc::waitpid(child, &mut status, 0) };
        assert_eq!(status, 0);
        assert!(bytes(block, MIB).iter().all(|byte| *byte == 5), "the child wrote into its own");
    }
}
