// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Blocks of less than a page, in shared memory.
//!
//! One large block of the pool is divided into spans of [`SPAN_BYTES`]; the blocks of a span have one size. Each thread keeps some
//! free blocks of each size, and exchanges them with the spans in batches.
//!
//! Invariants
//! 1. A block is free in exactly one place: in its span's bitmap, or with one thread. Otherwise it is the program's.
//! 2. All bookkeeping is in the process's private memory: no peer can mislead `malloc`, and a forked child finds it as it was at the
//!    fork, whatever other threads of its parent do while it copies the blocks. That is why the C library's own allocator, which
//!    writes between the blocks, cannot work in shared memory.
//! 3. What a thread kept goes back to the spans when it ends. In a forked child the blocks that other threads kept stay unused.
//!
//! Costs: a block takes and gives back some ten instructions, and a lock once for [`BATCH`] blocks. A span of its own for each size
//! in use, of which only touched pages take memory. Waste: at most a fifth of a block. Programs with more small blocks than
//! [`REGION_BYTES`] get the others from the C library.

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use crate::keeping_errno;
use crate::malloc::{LARGE_BYTES, POOL};

/// What is shared at most. Beyond some size huge pages are worth more ([`crate::huge`]).
const REGION_BYTES: usize = 64 << 20;
const SPAN_BYTES: usize = 64 << 10;
const SPANS: usize = REGION_BYTES / SPAN_BYTES;
/// Every block begins at a multiple of this.
const UNIT: usize = 16;
const WORDS: usize = SPAN_BYTES / UNIT / 64;

/// Sizes: multiples of 16 up to 256, then four for each doubling.
const CLASSES: usize = 32;
/// The class of a span without blocks.
const NO_CLASS: u8 = u8::MAX;

/// Blocks of a size that a thread keeps at most, and that it exchanges at once.
const KEPT: usize = 32;
const BATCH: usize = 16;

/// The class for a size of 1 to `LARGE_BYTES` bytes.
#[inline(always)]
const fn class_of(bytes: usize) -> usize {
    let last = bytes - 1;
    if last < 256 {
        return last / UNIT;
    }
    let doubling = last.ilog2() as usize;
    16 + (doubling - 8) * 4 + ((last >> (doubling - 2)) & 3)
}

/// The length of the blocks of each class, and the factor by which a multiplication divides an offset in a span by it.
const SIZES: [(u32, u32); CLASSES] = {
    let mut sizes = [(0, 0); CLASSES];
    let mut class = 0;
    while class < CLASSES {
        let size = size_of_class(class) as u64;
        sizes[class] = (size as u32, (1u64 << 32).div_ceil(size) as u32);
        class += 1;
    }
    sizes
};

/// The number of the block that begins at this offset in a span. None: none does.
#[inline(always)]
fn block_at(class: usize, offset: usize) -> Option<usize> {
    let (size, factor) = *SIZES.get(class)?;
    let block = ((offset as u64 * u64::from(factor)) >> 32) as usize;
    (block * size as usize == offset).then_some(block)
}

const fn size_of_class(class: usize) -> usize {
    if class < 16 {
        return (class + 1) * UNIT;
    }
    let (doubling, step) = (8 + (class - 16) / 4, (class - 16) % 4);
    (1 << doubling) + ((step + 1) << (doubling - 2))
}

const _: () = assert!(class_of(LARGE_BYTES) == CLASSES - 1 && size_of_class(CLASSES - 1) == LARGE_BYTES);

/// The free blocks of a span: bit i is the block at offset `i * size`.
struct Span {
    free: [u64; WORDS],
    free_count: u32,
    /// The spans before and after it in the list of its class, or of those without a class.
    previous: Option<u16>,
    next: Option<u16>,
}

/// The spans, behind a lock.
struct Spans {
    spans: [Span; SPANS],
    /// The first span of each class that has free blocks; the last list is of spans that have no class any more.
    first: [Option<u16>; CLASSES + 1],
    /// Spans from here on were never used.
    fresh: u16,
}

/// The small blocks of the process.
pub struct Small {
    /// The address of the region, [`NOT_MADE`] or [`WITHOUT`].
    base: AtomicUsize,
    classes: [AtomicU8; SPANS],
    lock: UnsafeCell<libc::pthread_mutex_t>,
    spans: UnsafeCell<Spans>,
}

// SAFETY: `spans` is only accessed through `Locked`, which holds the mutex. The other fields are atomics and a mutex.
unsafe impl Sync for Small {}

/// In place of an address: values that no address of a program is near.
const NOT_MADE: usize = 1 << 63;
const WITHOUT: usize = NOT_MADE + REGION_BYTES;

/// The list of spans without a class.
const UNUSED: usize = CLASSES;

pub static SMALL: Small = Small {
    base: AtomicUsize::new(NOT_MADE),
    classes: [const { AtomicU8::new(NO_CLASS) }; SPANS],
    lock: UnsafeCell::new(libc::PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP),
    spans: UnsafeCell::new(Spans {
        spans: [const { Span { free: [0; WORDS], free_count: 0, previous: None, next: None } }; SPANS],
        first: [None; CLASSES + 1],
        fresh: 0,
    }),
};

/// The spans with their lock held.
struct Locked<'a>(&'a Small);

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // SAFETY: a `Locked` exists only while this thread holds the mutex.
        unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
    }
}

impl Locked<'_> {
    fn spans(&mut self) -> &mut Spans {
        // SAFETY: the mutex is held, so no other thread accesses the spans. The borrow is tied to `self`, so it ends before the
        // mutex is unlocked, and `&mut self` keeps it unique.
        unsafe { &mut *self.0.spans.get() }
    }
}

/// The free blocks that a thread keeps, as offsets in the region.
struct Kept {
    counts: [Cell<u8>; CLASSES],
    blocks: [[Cell<u32>; KEPT]; CLASSES],
    state: Cell<Thread>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Thread {
    New,
    /// What it keeps is given back when it ends.
    Registered,
    /// It has given back what it kept, or could not be registered: it keeps nothing.
    Ended,
}

thread_local! {
    static KEPT_HERE: Kept = const {
        Kept {
            counts: [const { Cell::new(0) }; CLASSES],
            blocks: [const { [const { Cell::new(0) }; KEPT] }; CLASSES],
            state: Cell::new(Thread::New),
        }
    };
}

impl Small {
    /// Whether an address is in the region.
    #[inline(always)]
    pub fn holds(&self, address: *const u8) -> bool {
        (address as usize).wrapping_sub(self.base.load(Relaxed)) < REGION_BYTES
    }

    /// Allocates a block of at least `bytes`, which are less than [`LARGE_BYTES`], at a multiple of `align`, a power of two. None: the
    /// C library must allocate it.
    #[inline(always)]
    pub fn take(&self, bytes: usize, align: usize) -> Option<*mut u8> {
        let base = self.base.load(Relaxed);
        // Blocks of a power of two begin at multiples of their size.
        let bytes = if align <= UNIT { bytes.max(1) } else { bytes.max(align).next_power_of_two() };
        if bytes > LARGE_BYTES || base == WITHOUT {
            return None;
        }
        let class = class_of(bytes);
        KEPT_HERE.with(|kept| {
            let count = &kept.counts[class];
            let at = match count.get() {
                0 => self.refill(kept, class)?,
                left => left,
            } - 1;
            count.set(at);
            let offset = kept.blocks[class][usize::from(at)].get();
            Some((self.base.load(Relaxed) + offset as usize) as *mut u8)
        })
    }

    /// Frees a block of the region. False: no block of the program begins there.
    #[inline(always)]
    pub fn give(&self, start: *mut u8) -> bool {
        let Some((class, offset)) = self.find(start) else { return false };
        KEPT_HERE.with(|kept| {
            let count = usize::from(kept.counts[class].get());
            if count == KEPT || kept.state.get() != Thread::Registered {
                return self.give_back(kept, class, offset);
            }
            kept.push(class, offset);
            true
        })
    }

    /// The length of the block that begins here.
    pub fn size(&self, start: *const u8) -> Option<usize> {
        self.find(start).map(|(class, _)| SIZES[class].0 as usize)
    }

    /// The class and the offset in the region of the block that begins at an address of the region.
    #[inline(always)]
    fn find(&self, start: *const u8) -> Option<(usize, u32)> {
        let offset = start as usize - self.base.load(Relaxed);
        let class = usize::from(self.classes[offset / SPAN_BYTES].load(Relaxed));
        block_at(class, offset % SPAN_BYTES).map(|_| (class, offset as u32))
    }

    fn lock(&self) -> Locked<'_> {
        // SAFETY: the mutex is in a static, initialised and does not move.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        Locked(self)
    }

    /// Takes the lock and keeps it until [`Small::end_hold`], across a fork.
    pub fn begin_hold(&self) {
        std::mem::forget(self.lock());
    }

    pub fn end_hold(&self) {
        drop(Locked(self));
    }

    /// Gets blocks of a class for a thread that keeps none. Returns how many it keeps then.
    #[cold]
    fn refill(&self, kept: &Kept, class: usize) -> Option<u8> {
        keeping_errno(|| {
            self.begin()?;
            let wanted = if kept.register() { BATCH } else { 1 };
            let mut held = self.lock();
            while usize::from(kept.counts[class].get()) < wanted {
                let Some(offset) = held.take(class) else { break };
                kept.push(class, offset);
            }
            Some(kept.counts[class].get()).filter(|count| *count != 0)
        })
    }

    /// Frees a block for a thread that keeps too many, or that has not kept any before. False: the block is free already.
    #[cold]
    fn give_back(&self, kept: &Kept, class: usize, offset: u32) -> bool {
        let count = usize::from(kept.counts[class].get());
        if keeping_errno(|| kept.register()) && count < KEPT {
            kept.push(class, offset);
            return true;
        }
        let mut held = self.lock();
        // All of them, also after one that was free.
        kept.pop(class, BATCH).chain([offset]).filter(|offset| !held.give(class, *offset)).count() == 0
    }

    /// Frees all blocks that a thread keeps.
    fn give_all(&self, kept: &Kept) {
        let mut held = self.lock();
        for class in 0..CLASSES {
            kept.pop(class, KEPT).for_each(|offset| {
                held.give(class, offset);
            });
        }
    }

    /// The address of the region, which the first call makes. None: there is none.
    fn begin(&self) -> Option<usize> {
        crate::malloc::begin();
        let _held = self.lock();
        if self.base.load(Relaxed) == NOT_MADE {
            let made = POOL.take(REGION_BYTES, SPAN_BYTES).map_or(WITHOUT, |block| block.start as usize);
            self.base.store(made, Relaxed);
        }
        let base = self.base.load(Relaxed);
        (base != WITHOUT).then_some(base)
    }
}

impl Locked<'_> {
    /// Takes a block of a class. None: the region is full.
    fn take(&mut self, class: usize) -> Option<u32> {
        let classes = &self.0.classes;
        let spans = self.spans();
        let index = spans.first[class].or_else(|| {
            let index = spans.unused()?;
            spans.spans[usize::from(index)].begin(class);
            spans.link(class, index);
            classes[usize::from(index)].store(class as u8, Relaxed);
            Some(index)
        })?;
        let span = &mut spans.spans[usize::from(index)];
        let word = span.free.iter().position(|word| *word != 0)?;
        let bit = span.free[word].trailing_zeros() as usize;
        span.free[word] &= !(1 << bit);
        span.free_count -= 1;
        if span.free_count == 0 {
            spans.unlink(class, index);
        }
        Some((usize::from(index) * SPAN_BYTES + (word * 64 + bit) * size_of_class(class)) as u32)
    }

    /// Gives a block of a class back. False: it is free already.
    fn give(&mut self, class: usize, offset: u32) -> bool {
        let classes = &self.0.classes;
        let spans = self.spans();
        let index = (offset as usize / SPAN_BYTES) as u16;
        let Some(at) = block_at(class, offset as usize % SPAN_BYTES) else { return false };
        let span = &mut spans.spans[usize::from(index)];
        let (word, bit) = (at / 64, 1 << (at % 64));
        if span.free[word] & bit != 0 {
            return false;
        }
        span.free[word] |= bit;
        span.free_count += 1;
        if span.free_count == 1 {
            spans.link(class, index);
        } else if span.free_count as usize == SPAN_BYTES / size_of_class(class) && spans.first[class] != Some(index) {
            // Other spans of this class have free blocks, so this one may serve another.
            spans.unlink(class, index);
            classes[usize::from(index)].store(NO_CLASS, Relaxed);
            spans.link(UNUSED, index);
        }
        true
    }
}

impl Spans {
    /// Takes a span without a class.
    fn unused(&mut self) -> Option<u16> {
        if let Some(index) = self.first[UNUSED] {
            self.unlink(UNUSED, index);
            return Some(index);
        }
        let index = self.fresh;
        (usize::from(index) < SPANS).then(|| {
            self.fresh += 1;
            index
        })
    }

    fn link(&mut self, list: usize, index: u16) {
        let next = self.first[list].replace(index);
        let span = &mut self.spans[usize::from(index)];
        (span.previous, span.next) = (None, next);
        if let Some(next) = next {
            self.spans[usize::from(next)].previous = Some(index);
        }
    }

    fn unlink(&mut self, list: usize, index: u16) {
        let Span { previous, next, .. } = self.spans[usize::from(index)];
        match previous {
            Some(previous) => self.spans[usize::from(previous)].next = next,
            None => self.first[list] = next,
        }
        if let Some(next) = next {
            self.spans[usize::from(next)].previous = previous;
        }
    }
}

impl Span {
    /// Makes all blocks of this class free.
    fn begin(&mut self, class: usize) {
        let blocks = SPAN_BYTES / size_of_class(class);
        for (at, word) in self.free.iter_mut().enumerate() {
            let count = blocks.saturating_sub(at * 64).min(64);
            *word = if count == 64 { u64::MAX } else { (1 << count) - 1 };
        }
        self.free_count = blocks as u32;
    }
}

impl Kept {
    #[inline(always)]
    fn push(&self, class: usize, offset: u32) {
        let count = self.counts[class].get();
        self.blocks[class][usize::from(count)].set(offset);
        self.counts[class].set(count + 1);
    }

    /// Takes the last blocks out, at most so many.
    fn pop(&self, class: usize, most: usize) -> impl Iterator<Item = u32> {
        let count = usize::from(self.counts[class].get());
        let left = count.saturating_sub(most);
        self.counts[class].set(left as u8);
        self.blocks[class][left..count].iter().map(Cell::get)
    }

    /// Makes sure that what the thread keeps is given back when it ends. False: that is not possible (any more).
    fn register(&self) -> bool {
        if self.state.get() == Thread::New {
            // The call may allocate, which comes here again.
            self.state.set(Thread::Ended);
            // SAFETY: the value is the address of this thread's record, which the destructor gets in this thread.
            let done =
                key().is_some_and(|key| unsafe { libc::pthread_setspecific(key, ptr::from_ref(self).cast()) == 0 });
            if done {
                self.state.set(Thread::Registered);
            }
        }
        self.state.get() == Thread::Registered
    }
}

/// The key whose destructor runs when a thread ends.
fn key() -> Option<libc::pthread_key_t> {
    static KEY: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();
    *KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: `key` lives across the call. This library is never unloaded, so the destructor stays.
        (unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0).then_some(key)
    })
}

unsafe extern "C" fn thread_ends(kept: *mut c_void) {
    // SAFETY: `register` has set the address of this thread's record, which stays until the thread has ended.
    let kept = unsafe { &*kept.cast::<Kept>() };
    kept.state.set(Thread::Ended);
    SMALL.give_all(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES_TO_TRY: [usize; 14] = [0, 1, 16, 17, 100, 256, 257, 320, 321, 1000, 1024, 2049, 3585, 4095];

    fn take(bytes: usize) -> *mut u8 {
        SMALL.take(bytes, 1).expect("room in the region")
    }

    fn fill(block: *mut u8, value: u8, bytes: usize) {
        // SAFETY: the tests fill blocks that they have taken, within their sizes.
        unsafe { block.write_bytes(value, bytes) };
    }

    #[test]
    fn a_class_is_the_smallest_that_fits() {
        for bytes in 1..=LARGE_BYTES {
            let class = class_of(bytes);
            assert!(size_of_class(class) >= bytes);
            assert!(class == 0 || size_of_class(class - 1) < bytes, "{bytes}");
            assert!(bytes <= 256 || size_of_class(class) * 4 <= bytes * 5, "{bytes}: more than a fifth is wasted");
        }
    }

    #[test]
    fn every_block_and_nothing_else_is_found() {
        for class in 0..CLASSES {
            for offset in 0..SPAN_BYTES {
                let exact = offset % size_of_class(class) == 0;
                assert_eq!(block_at(class, offset), exact.then_some(offset / size_of_class(class)));
            }
        }
        assert_eq!(block_at(usize::from(NO_CLASS), 0), None);
    }

    #[test]
    fn blocks_do_not_overlap_and_are_aligned() {
        let mut blocks = Vec::new();
        for round in 0..200usize {
            for (nth, bytes) in SIZES_TO_TRY.into_iter().enumerate() {
                let block = take(bytes);
                assert!(SMALL.holds(block) && POOL.holds(block));
                assert_eq!(block as usize % UNIT, 0);
                assert!(SMALL.size(block).is_some_and(|size| size >= bytes));
                fill(block, (round * 31 + nth) as u8, bytes);
                blocks.push((block, (round * 31 + nth) as u8, bytes));
            }
        }
        for (block, value, bytes) in blocks {
            // SAFETY: the block was filled with `bytes` bytes.
            assert!(unsafe { std::slice::from_raw_parts(block, bytes) }.iter().all(|byte| *byte == value));
            assert!(SMALL.give(block));
        }
    }

    #[test]
    fn alignments_up_to_a_page_are_kept() {
        for align in [32, 64, 128, 1024, 4096] {
            for bytes in [1, 100, 1000, 4000] {
                let block = SMALL.take(bytes, align).expect("room");
                assert_eq!(block as usize % align, 0, "{bytes} at {align}");
                assert!(SMALL.give(block));
            }
        }
        assert_eq!(SMALL.take(100, 8192), None);
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let block = take(100);
        assert!(!SMALL.give(block.wrapping_add(16)));
        assert_eq!(SMALL.size(block.wrapping_add(8)), None);
        assert!(SMALL.give(block));
        let mut held = SMALL.lock();
        let offset = held.take(5).unwrap();
        assert!(held.give(5, offset) && !held.give(5, offset), "a block is given back once");
    }

    #[test]
    fn blocks_may_be_freed_by_another_thread_and_come_back_when_threads_end() {
        let (sender, receiver) = std::sync::mpsc::channel::<usize>();
        std::thread::scope(|scope| {
            scope.spawn(move || (0..3000).for_each(|nth| sender.send(take(nth % 4000) as usize).unwrap()));
            scope.spawn(move || receiver.into_iter().for_each(|block| assert!(SMALL.give(block as *mut u8))));
        });
        // The same memory serves many threads, so nothing is lost when one ends.
        for _ in 0..200 {
            std::thread::spawn(|| {
                let blocks: Vec<_> = (0..2000).map(|_| take(200)).collect();
                blocks.into_iter().for_each(|block| assert!(SMALL.give(block)));
            })
            .join()
            .unwrap();
        }
        assert!(usize::from(SMALL.lock().spans().fresh) < SPANS / 2);
    }

    #[test]
    fn a_span_serves_another_class_when_it_is_empty() {
        let before = SMALL.lock().spans().fresh;
        for bytes in (1..=40).map(|step| step * 100) {
            let blocks: Vec<_> = (0..2000).map(|_| take(bytes)).collect();
            blocks.into_iter().for_each(|block| assert!(SMALL.give(block)));
        }
        let used = SMALL.lock().spans().fresh - before;
        // 2000 blocks of 4000 bytes need 125 spans; other tests run beside this one.
        assert!(usize::from(used) < 400, "{used} spans");
    }
}
