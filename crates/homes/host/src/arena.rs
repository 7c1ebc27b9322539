// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory behind `selvedge_alloc`: a heap of this process in a file that its peers map too. So the peers access the
//! heap directly.
//!
//! There are two tiers. Up to 16 KiB, allocations are powers of two of 64-byte blocks, from the buddy system of
//! `selvedge_nic`, which runs in regions of 1 MiB. Larger allocations are runs of whole 4 KiB pages of exactly the
//! needed length, because a buddy's rounding would waste up to half of every large buffer. Regions are such runs as
//! well. Free pages are kept as extents, joined with their neighbours. Allocation is best fit, at the lowest address
//! among equals.
//!
//! Invariants:
//! 1. Every page below the committed end is in exactly one of: a free extent, a large allocation, a region.
//! 2. All allocator state is in this process's own memory. So neither a peer nor a wild store of the program into the
//!    arena can corrupt it, and every returned address is inside the arena.
//! 3. Committed memory is backed: touching it never fails for lack of space. It is not released before the end, because
//!    peers may still write into freed memory. So the file is as long as the program's largest need.
//! 4. Memory is zero when it is allocated for the first time. Later allocations see the earlier contents.
//! 5. A forked child shares the memory but not the allocator state. It cannot allocate here, and memory that it frees
//!    stays allocated.
//!
//! Costs: O(log n) in the number of extents or regions, under 1 us; a growth adds the time to clear the new pages. The
//! file doubles until that is more than 64 MiB ahead of the need, and then grows by the need or 64 MiB. Waste: less
//! than half of a small allocation (at least 64 bytes), less than 4 KiB of a large one. Allocator state: about 20 KiB
//! for each region, some 100 bytes for each large allocation and free extent.

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;

use selvedge_nic::buddy::{Buddy, BuddyError};

use selvedge_os::address_space::reserve_bytes_max;
use selvedge_os::extents::Extents;
use selvedge_os::mapping::{MapError, Mapping};

/// The unit of small allocations, and the alignment of all.
pub const BLOCK_BYTES: u64 = 64;
/// The default reserve (`SELVEDGE_HEAP_BYTES`): address space, not memory.
pub const RESERVED_BYTES_DEFAULT: u64 = 16 << 30;

const PAGE_BYTES: u64 = 4 << 10;
const SMALL_BYTES_MAX: u64 = 16 << 10;
const REGION_BYTES: u64 = 1 << 20;
const REGION_PAGES: u64 = REGION_BYTES / PAGE_BYTES;
const REGION_BLOCKS: u32 = (REGION_BYTES / BLOCK_BYTES) as u32;
const INITIAL_BYTES: u64 = 2 << 20;
/// The most that one growth commits beyond the need.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// Reasons for which memory was not freed. Nothing has changed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FreeError {
    /// The address is not in the arena.
    NotInArena,
    /// No allocation starts at this address: it was never allocated, is already free, or is inside an allocation.
    NotAllocated,
    /// The allocator state contradicts itself: the process's own memory was overwritten.
    Corrupt,
}

impl fmt::Display for FreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FreeError::NotInArena => "the address is not in this process's arena",
            FreeError::NotAllocated => "no allocation starts at this address",
            FreeError::Corrupt => "the arena's books contradict each other",
        })
    }
}

impl std::error::Error for FreeError {}

impl From<BuddyError> for FreeError {
    fn from(error: BuddyError) -> FreeError {
        match error {
            BuddyError::NotAllocated => FreeError::NotAllocated,
            BuddyError::Corrupt => FreeError::Corrupt,
        }
    }
}

/// A process's shared heap. Any thread may call any method.
///
/// Making an arena makes its file, so a caller that may not need it makes it at the first allocation. The file stays
/// when the arena is dropped. The maker of the job directory removes it.
#[derive(Debug)]
pub struct Arena {
    mapping: Mapping,
    /// Copied from the books at each growth, for threads that do not hold the lock.
    committed_bytes: AtomicU64,
    owner_pid: u32,
    books: Mutex<Books>,
}

impl Arena {
    /// Makes the file at `path`, which must not exist, with room to grow to `reserved` bytes. If the address space is
    /// limited (RLIMIT_AS), the reserve is at most a quarter of it, and is halved until it fits.
    pub fn create(path: &Path, reserved: u64) -> Result<Arena, MapError> {
        let mut reserved = reserved.min(reserve_bytes_max()).max(INITIAL_BYTES) & !(PAGE_BYTES - 1);
        let mapping = loop {
            match Mapping::create(path, INITIAL_BYTES, reserved) {
                Err(MapError::Shortage(shortage))
                    if shortage.errno() == libc::ENOMEM && reserved / 2 >= INITIAL_BYTES =>
                {
                    reserved = (reserved / 2) & !(PAGE_BYTES - 1);
                }
                made => break made?,
            }
        };
        log::debug!("arena {}: may grow to {} bytes", path.display(), mapping.reserved());
        let mut books = Books::default();
        books.extend_to(INITIAL_BYTES / PAGE_BYTES);
        Ok(Arena {
            mapping,
            committed_bytes: AtomicU64::new(INITIAL_BYTES),
            owner_pid: std::process::id(),
            books: Mutex::new(books),
        })
    }

    /// Allocates at least `bytes` bytes (at least one), aligned to 64, or to 4096 if more than 16 KiB. `None`: the file
    /// system is full, or the reserve is used up.
    pub fn alloc(&self, bytes: usize) -> Option<NonNull<u8>> {
        let mut books = self.lock()?;
        let bytes = u64::try_from(bytes).ok()?.max(1);
        let offset = match books.small_blocks(bytes) {
            Some(blocks) => self.alloc_small(&mut books, blocks),
            None => self.alloc_large(&mut books, bytes.div_ceil(PAGE_BYTES)),
        }?;
        Some(self.at(offset))
    }

    /// Frees the allocation at `address`. Neither the program nor a peer that knows the address may use it afterwards.
    pub fn free(&self, address: NonNull<u8>) -> Result<(), FreeError> {
        let offset = self.offset_of(address)?;
        // A forked child (invariant 5).
        let Some(mut books) = self.lock() else { return Ok(()) };
        books.free(offset)
    }

    /// Resizes the allocation at `address` to `bytes`, in place if possible. Otherwise the contents move, and the old
    /// address is free. `Ok(None)`: there is no memory, and nothing has changed.
    pub fn realloc(&self, address: NonNull<u8>, bytes: usize) -> Result<Option<NonNull<u8>>, FreeError> {
        let offset = self.offset_of(address)?;
        let wanted = (bytes as u64).max(1);
        let held = {
            let Some(mut books) = self.lock() else { return Ok(None) };
            let held = books.size_of(offset).ok_or(FreeError::NotAllocated)?;
            if self.resize_in_place(&mut books, offset, held, wanted) {
                return Ok(Some(address));
            }
            held
        };
        // Not under the lock: the caller owns the allocation, and the copy may be long.
        let Some(moved) = self.alloc(bytes) else {
            // An allocation that shrinks may stay where it is.
            return Ok((wanted <= held).then_some(address));
        };
        // SAFETY: both are live allocations of at least this many bytes, and no other code knows the new one yet.
        unsafe { core::ptr::copy_nonoverlapping(address.as_ptr(), moved.as_ptr(), held.min(wanted) as usize) };
        self.free(address)?;
        Ok(Some(moved))
    }

    /// Returns the start of the arena in this process. Peers get offsets from here.
    pub fn base(&self) -> u64 {
        self.mapping.base() as u64
    }

    /// Returns the bytes of the file: every allocation ends at or below `base + committed_bytes`. Grows only.
    pub fn committed_bytes(&self) -> u64 {
        self.committed_bytes.load(Ordering::Acquire)
    }

    /// Returns the bytes of address space that the arena may grow into.
    pub fn reserved_bytes(&self) -> u64 {
        self.mapping.reserved()
    }

    /// Whether the whole range is committed memory of the arena.
    pub fn contains(&self, address: u64, length: u64) -> bool {
        let end = address.checked_sub(self.base()).and_then(|offset| offset.checked_add(length));
        end.is_some_and(|end| end <= self.committed_bytes())
    }

    // ---- below the lock ----

    /// Locks the books. `None` in a forked child, and after a panic that may have left them half changed.
    fn lock(&self) -> Option<std::sync::MutexGuard<'_, Books>> {
        if std::process::id() != self.owner_pid {
            return None;
        }
        self.books.lock().ok()
    }

    fn at(&self, offset: u64) -> NonNull<u8> {
        debug_assert!(offset < self.mapping.reserved());
        // Inside the mapping, whose base is not null and whose end does not wrap.
        NonNull::new(self.mapping.base().wrapping_add(offset as usize)).expect("inside the arena")
    }

    fn offset_of(&self, address: NonNull<u8>) -> Result<u64, FreeError> {
        let offset = (address.as_ptr() as u64).checked_sub(self.base());
        offset.filter(|offset| *offset < self.mapping.reserved()).ok_or(FreeError::NotInArena)
    }

    fn alloc_small(&self, books: &mut Books, blocks: u32) -> Option<u64> {
        if let Some(offset) = books.take_blocks(blocks) {
            return Some(offset);
        }
        match self.take_pages(books, REGION_PAGES) {
            Some(first) => {
                books.add_region(first);
                books.take_blocks(blocks)
            }
            // There is no room for a region, but there may be room for this allocation alone.
            None => self.alloc_large(books, (u64::from(blocks) * BLOCK_BYTES).div_ceil(PAGE_BYTES)),
        }
    }

    fn alloc_large(&self, books: &mut Books, pages: u64) -> Option<u64> {
        let first = self.take_pages(books, pages)?;
        books.large.insert(first, pages);
        Some(first * PAGE_BYTES)
    }

    fn take_pages(&self, books: &mut Books, pages: u64) -> Option<u64> {
        if let Some(first) = books.free.take(pages) {
            return Some(first);
        }
        let missing = pages - books.free.tail(books.committed_pages);
        self.grow(books, missing).then(|| books.free.take(pages)).flatten()
    }

    /// Commits `missing` more pages, and some ahead if possible.
    fn grow(&self, books: &mut Books, missing: u64) -> bool {
        let limit = self.mapping.reserved() / PAGE_BYTES;
        let Some(needed) = books.committed_pages.checked_add(missing).filter(|needed| *needed <= limit) else {
            books.warn_once(format_args!("the reserve of {} bytes is used up", self.mapping.reserved()));
            return false;
        };
        let ahead = books.committed_pages.min(AHEAD_BYTES_MAX / PAGE_BYTES);
        let roomy = needed.max(books.committed_pages + ahead).min(limit);
        let mut grown = self.mapping.grow(roomy * PAGE_BYTES);
        if grown.is_err() && needed < roomy {
            grown = self.mapping.grow(needed * PAGE_BYTES);
        }
        if let Err(error) = grown {
            books.warn_once(format_args!("{error}"));
            return false;
        }
        // If an earlier growth failed part way, the file may be longer than `needed`. Its length counts.
        let committed = self.mapping.file_bytes().map_or(needed, |bytes| (bytes / PAGE_BYTES).clamp(needed, limit));
        books.extend_to(committed);
        self.committed_bytes.store(committed * PAGE_BYTES, Ordering::Release);
        true
    }

    /// Whether the allocation could be resized to `wanted` bytes without a move.
    fn resize_in_place(&self, books: &mut Books, offset: u64, held: u64, wanted: u64) -> bool {
        let first = offset / PAGE_BYTES;
        let pages_held = match books.large.get(&first) {
            Some(pages) if offset % PAGE_BYTES == 0 => *pages,
            _ => return books.small_blocks(wanted).is_some_and(|blocks| u64::from(blocks) * BLOCK_BYTES == held),
        };
        let pages = wanted.div_ceil(PAGE_BYTES);
        if wanted <= SMALL_BYTES_MAX && pages < pages_held {
            return false;
        }
        if pages < pages_held {
            books.free.give(first + pages, pages_held - pages);
        } else if pages > pages_held {
            let (next, more) = (first + pages_held, pages - pages_held);
            if !books.free.take_at(next, more) {
                // At the very end of the arena, growing the file is enough.
                let tail = books.free.tail(books.committed_pages);
                let at_end = next + tail == books.committed_pages;
                if !at_end || !self.grow(books, more - tail) || !books.free.take_at(next, more) {
                    return false;
                }
            }
        }
        books.large.insert(first, pages);
        true
    }
}

/// The allocator state: allocated and free pages and blocks, counted from the base.
#[derive(Debug, Default)]
struct Books {
    free: Extents,
    /// Large allocations: first page, pages.
    large: BTreeMap<u64, u64>,
    /// Regions of small allocations by their first page: the state words of their buddy allocators.
    regions: BTreeMap<u64, Vec<u64>>,
    /// Regions that have room, by the largest number of blocks that they can allocate now.
    room: BTreeSet<(u32, u64)>,
    committed_pages: u64,
    warned: bool,
}

impl Books {
    /// Returns the blocks of a small allocation, a power of two; `None` for a large one.
    fn small_blocks(&self, bytes: u64) -> Option<u32> {
        (bytes <= SMALL_BYTES_MAX).then(|| (bytes.div_ceil(BLOCK_BYTES) as u32).next_power_of_two())
    }

    fn extend_to(&mut self, pages: u64) {
        if pages > self.committed_pages {
            self.free.give(self.committed_pages, pages - self.committed_pages);
            self.committed_pages = pages;
        }
    }

    fn add_region(&mut self, first: u64) {
        let mut words = vec![0; Buddy::words_needed(REGION_BLOCKS)];
        let largest = Buddy::init(&mut words, REGION_BLOCKS, REGION_BLOCKS).largest_free();
        self.regions.insert(first, words);
        self.room.insert((largest, first));
    }

    /// Allocates from the region with the least sufficient room, so that other regions become empty.
    fn take_blocks(&mut self, blocks: u32) -> Option<u64> {
        let (largest, first) = *self.room.range((blocks, 0)..).next()?;
        let mut buddy = Buddy::attach(self.regions.get_mut(&first)?).ok()?;
        let block = buddy.alloc(blocks)?;
        let left = buddy.largest_free();
        self.set_room(first, largest, left);
        Some(first * PAGE_BYTES + u64::from(block) * BLOCK_BYTES)
    }

    fn set_room(&mut self, first: u64, before: u32, after: u32) {
        if before != after {
            self.room.remove(&(before, first));
            if after > 0 {
                self.room.insert((after, first));
            }
        }
    }

    /// Returns first page and state words of the region that contains this offset.
    fn region_of(&mut self, offset: u64) -> Option<(u64, &mut Vec<u64>)> {
        let page = offset / PAGE_BYTES;
        let (first, words) = self.regions.range_mut(..=page).next_back()?;
        (page - first < REGION_PAGES).then_some((*first, words))
    }

    /// Returns the block of its region that starts at this offset.
    fn block_at(first: u64, offset: u64) -> Option<u32> {
        let inside = offset - first * PAGE_BYTES;
        (inside % BLOCK_BYTES == 0).then_some((inside / BLOCK_BYTES) as u32)
    }

    /// Returns the length of the allocation at this offset.
    fn size_of(&mut self, offset: u64) -> Option<u64> {
        if let Some((first, words)) = self.region_of(offset) {
            let block = Books::block_at(first, offset)?;
            return Buddy::attach(words).ok()?.size_of(block).map(|blocks| u64::from(blocks) * BLOCK_BYTES);
        }
        let pages = self.large.get(&(offset / PAGE_BYTES)).filter(|_| offset % PAGE_BYTES == 0)?;
        Some(pages * PAGE_BYTES)
    }

    fn free(&mut self, offset: u64) -> Result<(), FreeError> {
        let Some((first, words)) = self.region_of(offset) else {
            let page = offset / PAGE_BYTES;
            let known = offset % PAGE_BYTES == 0;
            let pages = known.then(|| self.large.remove(&page)).flatten().ok_or(FreeError::NotAllocated)?;
            self.free.give(page, pages);
            return Ok(());
        };
        let block = Books::block_at(first, offset).ok_or(FreeError::NotAllocated)?;
        let mut buddy = Buddy::attach(words).map_err(|_| FreeError::Corrupt)?;
        let before = buddy.largest_free();
        buddy.free(block)?;
        let after = buddy.largest_free();
        self.set_room(first, before, after);
        if after == REGION_BLOCKS {
            self.drop_region_unless_last(first);
        }
        Ok(())
    }

    /// Frees an empty region's pages if another region is empty too. One is kept. Otherwise a program that allocates
    /// and frees at the border would make a region each time.
    fn drop_region_unless_last(&mut self, first: u64) {
        if self.room.range((REGION_BLOCKS, 0)..).nth(1).is_some() {
            self.room.remove(&(REGION_BLOCKS, first));
            self.regions.remove(&first);
            self.free.give(first, REGION_PAGES);
        }
    }

    fn warn_once(&mut self, why: fmt::Arguments<'_>) {
        let level = if self.warned { log::Level::Debug } else { log::Level::Warn };
        self.warned = true;
        log::log!(level, "selvedge_alloc: no memory: {why}");
    }
}

#[cfg(test)]
mod tests;
