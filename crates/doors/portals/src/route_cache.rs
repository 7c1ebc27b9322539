// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A cache of routes for `PtlPut`: a put's checked descriptor and resolved target, kept for the next such put.
//!
//! The first put from a descriptor to a target checks that the handles are valid, that the descriptor asks for counting
//! events at most, that the target is in the logical map and that the portal table index is within the limits. Then the
//! live home finds the route: under a grant, or under the target's lock. An entry of the cache stores the results. A
//! later put compares its arguments with the entry and sends.
//!
//! Only puts that need no command are cached. A put that posts events uses a command each time.
//!
//! Invariants
//! 1. Only the thread named in an entry reads or writes its route.
//! 2. A memory descriptor never changes. While its slot has the same generation, the cached copy is valid.
//! 3. The cache lives as long as its interface. The logical map is part of the key, so a new map misses.
//!
//! Costs: 32 entries of 256 bytes for each interface; a hit reads two lines of the entry and the descriptor's slot.

use std::cell::UnsafeCell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use selvedge_host::Interface;
use selvedge_host::grants::{GrantedRoute, Piece};
use selvedge_host::plain_put::LockedRoute;
use selvedge_os::lines;
use selvedge_os::thread::word as thread_word;

/// Entries of an interface's cache; a power of two.
const ENTRIES: usize = 32;
/// A put under a lock replaces an entry once in this many misses. So a sender with more targets than entries does not
/// rewrite an entry at every put.
const MISSES_PER_REPLACEMENT: u32 = 16;
/// The prefetch target of an entry without a counter. Prefetching a mapped address costs less than an unmapped one.
static NO_COUNTER: AtomicU64 = AtomicU64::new(0);

/// The arguments that all puts over a route have in common.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct RouteKey {
    pub md_handle: u32,
    pub pt_index: u32,
    /// The target, as nid and pid or as a rank.
    pub process: u64,
    /// The logical map that translates the rank; null if none is set.
    pub map: *const Vec<u64>,
    pub ack: u8,
}

/// The memory descriptor from which the puts send.
#[derive(Clone, Copy)]
pub struct Origin {
    /// The descriptor's slot, and the value that it holds while the descriptor is bound.
    pub slot: *const AtomicU32,
    pub live: u32,
    pub start: u64,
    /// Whether all of it is in this process's shared memory.
    pub in_shared: bool,
    pub length: u64,
    /// The longest message that the interface and the descriptor allow.
    pub most: u64,
}

/// The path of puts over a route.
#[derive(Clone, Copy)]
pub enum PutRoute {
    /// Under a grant of the target: a copy and a count, without a lock.
    Granted(GrantedRoute),
    /// Under the target's lock. The initiator gets no event and no count.
    Locked(LockedRoute),
}

/// An entry: a route, and the thread that uses it. The alignment makes an index a shift.
#[repr(align(256))]
struct Entry {
    /// The only thread that uses `route`; it filled it when it took the entry. 0: no thread.
    thread: AtomicU64,
    /// The word of the target's counter for this route. It is only prefetched, so a stale value is harmless.
    counter: AtomicPtr<u8>,
    /// Puts under a lock that missed at this entry.
    misses: AtomicU32,
    route: UnsafeCell<Option<CachedRoute>>,
}

struct CachedRoute {
    key: RouteKey,
    origin: Origin,
    /// Puts below this length take the shortest path of a grant ([`GrantedRoute::put_straight`]); 0: none do.
    straight_below: u64,
    put_route: PutRoute,
}

// SAFETY: the other fields are atomics; only the thread in `thread` touches `route`, and `thread` is set once.
unsafe impl Sync for Entry {}
// SAFETY: the pointers of a route are into the interface's segments and maps, which outlive the cache and belong to no thread.
unsafe impl Send for Entry {}

/// The cached routes of an interface.
pub struct RouteCache([Entry; ENTRIES]);

impl Default for RouteCache {
    fn default() -> RouteCache {
        RouteCache(std::array::from_fn(|_| Entry {
            thread: AtomicU64::new(0),
            counter: AtomicPtr::new(no_counter()),
            misses: AtomicU32::new(0),
            route: UnsafeCell::new(None),
        }))
    }
}

impl CachedRoute {
    /// Puts by the general path of the route.
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
        let CachedRoute { origin, put_route, .. } = self;
        if offset > origin.length || length > origin.length - offset || length > origin.most {
            return false;
        }
        let (source, in_shared) = (origin.start.wrapping_add(offset), origin.in_shared);
        let piece = Piece { source, in_shared, length, match_bits, remote_offset, header_data };
        match put_route {
            // SAFETY: `interface` gave this route to this thread (`PtlPut` caches it on the thread that asked), and an entry is used
            // by its own thread only.
            PutRoute::Granted(route) => unsafe { route.put(interface, &piece) },
            PutRoute::Locked(route) => route.put(interface, &piece),
        }
    }
}

impl RouteCache {
    #[inline(always)]
    fn entry(&self, key: &RouteKey) -> &Entry {
        let index = key.md_handle ^ key.pt_index ^ key.process as u32;
        &self.0[index as usize % ENTRIES]
    }

    /// This thread's cached route with this key, if its descriptor is still bound.
    #[inline(always)]
    fn find(&self, key: &RouteKey) -> Option<&CachedRoute> {
        let entry = self.entry(key);
        lines::about_to_write(entry.counter.load(Relaxed));
        if entry.thread.load(Relaxed) != thread_word() {
            return None;
        }
        // SAFETY: the entry names this thread, so no other touches `route`; this thread filled it when it took the entry.
        let route = unsafe { (*entry.route.get()).as_ref().unwrap_unchecked() };
        // SAFETY: the slot is a word of the interface's own segment, mapped while the interface, and so this cache, lives.
        let is_bound = || unsafe { &*route.origin.slot }.load(Acquire) == route.origin.live;
        (route.key == *key && is_bound()).then_some(route)
    }

    /// Puts `length` bytes at `offset` over a cached route. Returns false, without effect, if there is none.
    #[inline(always)]
    pub fn put(
        &self,
        interface: &Interface,
        key: &RouteKey,
        (offset, length): (u64, u64),
        (match_bits, remote_offset): (u64, u64),
        header_data: u64,
    ) -> bool {
        let Some(route) = self.find(key) else { return false };
        let CachedRoute { origin, straight_below, put_route, .. } = route;
        if let (PutRoute::Granted(route), true) =
            (put_route, length < *straight_below && offset <= origin.length - length)
        {
            let source = origin.start.wrapping_add(offset) as *const u8;
            // SAFETY: `interface` gave this route to this thread. `straight_below` is above zero only where the route is straight and
            // the descriptor in shared memory; the length is below it, and the range within the descriptor.
            if unsafe { route.put_straight(interface, source, length, match_bits, remote_offset) } {
                return true;
            }
        }
        route.put(interface, offset, length, match_bits, remote_offset, header_data)
    }

    /// Counts a miss of a put under a lock. Returns whether its route replaces the entry.
    #[inline(always)]
    pub fn replaces(&self, key: &RouteKey) -> bool {
        let entry = self.entry(key);
        let misses = entry.misses.load(Relaxed);
        entry.misses.store(misses.wrapping_add(1), Relaxed);
        misses % MISSES_PER_REPLACEMENT == 0
    }

    /// Caches a route, unless another thread has its entry.
    pub fn insert(&self, key: RouteKey, origin: Origin, put_route: PutRoute) {
        let (entry, own) = (self.entry(&key), thread_word());
        let (straight, counter) = match &put_route {
            PutRoute::Granted(route) => (route.straight().filter(|_| origin.in_shared), route.lane().cast_mut()),
            PutRoute::Locked(_) => (None, ptr::null_mut()),
        };
        let straight_below = straight.map_or(0, |most| most.min(origin.most).min(origin.length) + 1);
        let holder = entry.thread.load(Acquire);
        if holder == own || (holder == 0 && entry.thread.compare_exchange(0, own, Acquire, Relaxed).is_ok()) {
            // SAFETY: the entry names this thread, so no other touches `route`; this function holds no reference into it.
            unsafe { *entry.route.get() = Some(CachedRoute { key, origin, straight_below, put_route }) };
            entry.counter.store(if counter.is_null() { no_counter() } else { counter }, Relaxed);
        }
    }
}

fn no_counter() -> *mut u8 {
    NO_COUNTER.as_ptr().cast()
}
