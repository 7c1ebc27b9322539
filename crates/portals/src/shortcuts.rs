// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts that are like the one before: from the same descriptor to the same place, where that goes by lease.
//!
//! What such a put needs of its arguments was found when the first was made: that the handles are good, the descriptor wants
//! counts at most, the target is in the map, the portal table index within the limits. A shortcut keeps it, with the pass that
//! the live home gave; what is left is to hold the arguments against it.
//!
//! Invariants
//! 1. A shortcut is used, and changed, by the thread that it names only.
//! 2. A descriptor never changes: while its slot says what it said, the rest is as it was.
//! 3. Shortcuts go with their interface; one that was found under another logical map is not the same.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use selvedge_host::{Interface, Pass, Piece, thread_word};

/// Shortcuts of an interface; a power of two.
const SHORTCUTS: usize = 8;

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

struct Shortcut {
    /// The thread that alone uses `kept`; 0: nobody.
    thread: AtomicU64,
    kept: UnsafeCell<Option<(Likeness, Origin, Pass)>>,
}

// SAFETY: `kept` is used by one thread at a time.
unsafe impl Sync for Shortcut {}
// SAFETY: the pointers in it are into memory that the interface keeps.
unsafe impl Send for Shortcut {}

/// The shortcuts of an interface.
pub struct Shortcuts([Shortcut; SHORTCUTS]);

impl Default for Shortcuts {
    fn default() -> Shortcuts {
        Shortcuts(std::array::from_fn(|_| Shortcut { thread: AtomicU64::new(0), kept: UnsafeCell::new(None) }))
    }
}

impl Shortcuts {
    #[inline(always)]
    fn at(&self, like: &Likeness) -> &Shortcut {
        let place = like.md_handle ^ like.pt_index ^ like.process as u32;
        &self.0[place as usize % SHORTCUTS]
    }

    /// Puts `length` bytes at `offset` of the descriptor by a shortcut. False: there is none, and nothing has happened.
    #[inline(always)]
    pub fn put(&self, interface: &Interface, like: &Likeness, offset: u64, piece: Piece) -> bool {
        let shortcut = self.at(like);
        if shortcut.thread.load(Relaxed) != thread_word() {
            return false;
        }
        // SAFETY: the shortcut is this thread's.
        let Some((known, origin, pass)) = (unsafe { &*shortcut.kept.get() }) else { return false };
        // SAFETY: a word of the interface's own segment.
        let live = unsafe { &*origin.slot }.load(Acquire) == origin.live;
        let inside = offset <= origin.length && piece.length <= origin.length - offset && piece.length <= origin.most;
        if *known != *like || !live || !inside {
            return false;
        }
        // SAFETY: the pass was given to this thread by this interface.
        unsafe {
            interface.put_by(
                pass,
                &Piece { source: origin.start.wrapping_add(offset), in_shared: origin.in_shared, ..piece },
            )
        }
    }

    /// Keeps a shortcut, unless another thread has its place.
    pub fn keep(&self, like: Likeness, origin: Origin, pass: Pass) {
        let (shortcut, own) = (self.at(&like), thread_word());
        let holder = shortcut.thread.load(Acquire);
        if holder == own || (holder == 0 && shortcut.thread.compare_exchange(0, own, Acquire, Relaxed).is_ok()) {
            // SAFETY: the shortcut is this thread's.
            unsafe { *shortcut.kept.get() = Some((like, origin, pass)) };
        }
    }
}
