// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts that are like the one before: from the same descriptor to the same place, where that goes by lease or at least without a
//! command.
//!
//! What such a put needs of its arguments was found when the first was made: that the handles are good, the descriptor wants
//! counts at most, the target is in the map, the portal table index within the limits. A shortcut keeps it, with how the live
//! home did it; what is left is to hold the arguments against it.
//!
//! Invariants
//! 1. A shortcut is used, and changed, by the thread that it names only.
//! 2. A descriptor never changes: while its slot says what it said, the rest is as it was.
//! 3. Shortcuts go with their interface; one that was found under another logical map is not the same.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use selvedge_transport::{Course, Interface, Pass, Piece, lines, thread_word};

/// Shortcuts of an interface; a power of two.
const SHORTCUTS: usize = 32;
/// Of so many puts that a shortcut was not for, one may have its place for one under a lock: who puts to more targets than there are
/// shortcuts does not keep one anew each time.
const TURNS: u32 = 16;
/// What is asked for early where nothing is known: an address that is there costs less than one that is not.
static NOWHERE: AtomicU64 = AtomicU64::new(0);

/// What puts that are alike have in common, as their caller says it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Likeness {
    pub md_handle: u32,
    pub pt_index: u32,
    /// The target, as nid and pid or as rank, and the map that says where that is.
    pub process: u64,
    pub map: *const Vec<u64>,
    pub ack: u8,
}

/// What their descriptor says.
#[derive(Clone, Copy)]
pub struct Origin {
    /// The word that says whether the descriptor is there, and what it says if so.
    pub slot: *const AtomicU32,
    pub live: u32,
    pub start: u64,
    /// All of it is shared memory of this process.
    pub in_shared: bool,
    pub length: u64,
    /// The longest message that the interface and the descriptor allow.
    pub most: u64,
}

/// Of a size that an index is shifted by.
#[repr(align(256))]
struct Shortcut {
    /// The thread that alone uses `kept`, which it filled when it took it; 0: nobody.
    thread: AtomicU64,
    /// Where puts by it count. A hint: other threads may see what was there before.
    lane: AtomicPtr<u8>,
    /// Puts under a lock that it was not for.
    missed: AtomicU32,
    kept: UnsafeCell<Option<Kept>>,
}

struct Kept {
    like: Likeness,
    origin: Origin,
    /// Shorter puts go straight, where their pass leads there.
    straight_below: u64,
    how: How,
}

/// How puts go.
#[derive(Clone, Copy)]
pub enum How {
    Leased(Pass),
    /// Under the target's lock, answering nobody.
    Locked(Course),
}

// SAFETY: `kept` is used by one thread at a time.
unsafe impl Sync for Shortcut {}
// SAFETY: the pointers in it are into memory that the interface keeps.
unsafe impl Send for Shortcut {}

/// The shortcuts of an interface.
pub struct Shortcuts([Shortcut; SHORTCUTS]);

impl Default for Shortcuts {
    fn default() -> Shortcuts {
        Shortcuts(std::array::from_fn(|_| Shortcut {
            thread: AtomicU64::new(0),
            lane: AtomicPtr::new(nowhere()),
            missed: AtomicU32::new(0),
            kept: UnsafeCell::new(None),
        }))
    }
}

impl Kept {
    /// A put that does not go straight.
    #[inline(never)]
    fn put(
        &self,
        interface: &Interface,
        offset: u64,
        length: u64,
        match_bits: u64,
        remote_offset: u64,
        header_data: u64,
    ) -> bool {
        let Kept { origin, how, .. } = self;
        if offset > origin.length || length > origin.length - offset || length > origin.most {
            return false;
        }
        let (source, in_shared) = (origin.start.wrapping_add(offset), origin.in_shared);
        let piece = Piece { source, in_shared, length, match_bits, remote_offset, header_data };
        match how {
            // SAFETY: the pass was given to this thread by this interface.
            How::Leased(pass) => unsafe { interface.put_by(pass, &piece) },
            How::Locked(course) => interface.put_again(course, &piece),
        }
    }
}

impl Shortcuts {
    #[inline(always)]
    fn at(&self, like: &Likeness) -> &Shortcut {
        let place = like.md_handle ^ like.pt_index ^ like.process as u32;
        &self.0[place as usize % SHORTCUTS]
    }

    /// What this thread keeps for puts that are alike in these, where their descriptor is still there.
    #[inline(always)]
    fn kept(&self, like: &Likeness) -> Option<&Kept> {
        let shortcut = self.at(like);
        lines::about_to_write(shortcut.lane.load(Relaxed));
        if shortcut.thread.load(Relaxed) != thread_word() {
            return None;
        }
        // SAFETY: the shortcut is this thread's; it was filled when the thread took it.
        let kept = unsafe { (*shortcut.kept.get()).as_ref().unwrap_unchecked() };
        // SAFETY: a word of the interface's own segment.
        let live = || unsafe { &*kept.origin.slot }.load(Acquire) == kept.origin.live;
        (kept.like == *like && live()).then_some(kept)
    }

    /// Puts `length` bytes at `offset` of the descriptor by a shortcut. False: there is none, and nothing has happened.
    #[inline(always)]
    pub fn put(
        &self,
        interface: &Interface,
        like: &Likeness,
        (offset, length): (u64, u64),
        (match_bits, remote_offset): (u64, u64),
        header_data: u64,
    ) -> bool {
        let Some(kept) = self.kept(like) else { return false };
        let Kept { origin, straight_below, how, .. } = kept;
        if let (How::Leased(pass), true) = (how, length < *straight_below && offset <= origin.length - length) {
            let source = origin.start.wrapping_add(offset) as *const u8;
            // SAFETY: the pass was given to this thread by this interface, is straight, and the put short enough, its source shared.
            if unsafe { interface.put_straight(pass, source, length, match_bits, remote_offset) } {
                return true;
            }
        }
        kept.put(interface, offset, length, match_bits, remote_offset, header_data)
    }

    /// Whether a shortcut for puts that go under a lock is worth its place.
    #[inline(always)]
    pub fn are_wanted(&self, like: &Likeness) -> bool {
        let shortcut = self.at(like);
        let missed = shortcut.missed.load(Relaxed);
        shortcut.missed.store(missed.wrapping_add(1), Relaxed);
        missed % TURNS == 0
    }

    /// Keeps a shortcut, unless another thread has its place.
    pub fn keep(&self, like: Likeness, origin: Origin, how: How) {
        let (shortcut, own) = (self.at(&like), thread_word());
        let (straight, lane) = match &how {
            How::Leased(pass) => (pass.straight().filter(|_| origin.in_shared), pass.lane().cast_mut()),
            How::Locked(_) => (None, ptr::null_mut()),
        };
        let straight_below = straight.map_or(0, |most| most.min(origin.most).min(origin.length) + 1);
        let holder = shortcut.thread.load(Acquire);
        if holder == own || (holder == 0 && shortcut.thread.compare_exchange(0, own, Acquire, Relaxed).is_ok()) {
            // SAFETY: the shortcut is this thread's.
            unsafe { *shortcut.kept.get() = Some(Kept { like, origin, straight_below, how }) };
            shortcut.lane.store(if lane.is_null() { nowhere() } else { lane }, Relaxed);
        }
    }
}

fn nowhere() -> *mut u8 {
    NOWHERE.as_ptr().cast()
}
