// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts by lease: the sender's side of [`selvedge_nic::portals::leases`]. What it is to hold one is in `held`.
//!
//! An [`Endpoint`] keeps a few *routes*: portal table entries of its to which a lease lets this process put. A put that
//! fits is a store of the bytes and a store to a lane of the counter, between two stores to a word that whoever calls the lease
//! back waits for; the lock is not touched and no table read. Where the entry posts events, the put takes the lock, and finds
//! nothing anew. What the initiator's own counter is told of such puts goes into a lane of that, lent in the same way: a *tally*.
//!
//! Invariants
//! 1. A route or a tally is used by the thread that took it, for as long as that keeps it: leases tell that they are in use by
//!    one word. Other threads put under the lock.
//! 2. What a lease allows was checked when it was given, or is with each put: whose memory it is, that it is there.
//! 3. A put does not pass packets of this process that wait in the target's mailbox (`parcels`).
//!
//! Budget: 135 instructions from the front door; one line crosses for the payload and one for the count.

mod held;

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::Put;
use selvedge_nic::portals::events::Stamp;
use selvedge_nic::portals::leases::Terms;

use self::held::{Held, Kept, Mine};
use crate::endpoint::{Access, Endpoint, Place};
use crate::interface::Interface;
use crate::memory::{copy_direct, readable_here};
use crate::os::process::Identity;
use crate::os::{asymmetric, cma, lines};

pub(crate) use self::held::recall;

/// Routes to one peer (portal table entries share them by the low bits of their index), and tallies of a NIC.
const ROUTES: usize = 4;
/// Longer puts take the lock: who calls a lease back waits for a put to end, which is some 50 us of such, or twice that for memory
/// that is not in place. What a longer one costs besides its bytes does not count.
const LEASED_BYTES_MAX: u64 = 256 << 10;
/// Puts on a route between looks at what waits for this process, and whether the target lives.
const PUTS_PER_PROGRESS: u64 = 64;
const PUTS_PER_LOOK: u64 = 4096;
/// Routes to one peer.
#[derive(Default)]
pub(crate) struct Routes {
    routes: [Mine<Route>; ROUTES],
    /// Packets of this process may wait in the peer's mailbox.
    parcels: AtomicBool,
}

/// Tallies of one NIC.
pub(crate) type Tallies = [Mine<Tally>; ROUTES];

/// A portal table entry of a peer, as a lease lets this thread put there.
pub(crate) struct Route {
    portal: u32,
    uid: u32,
    initiator: u64,
    way: Way,
    /// Where its events go, and what they have in common.
    queue: u32,
    stamp: Option<Stamp>,
    /// Where the next event will be written, if nobody else puts there first.
    next_event: *const AtomicU64,
    silent: bool,
}

/// What a put needs of a route.
#[derive(Clone, Copy)]
struct Way {
    match_bits: u64,
    /// Of them, those that matter.
    care_bits: u64,
    /// The entry's memory in place; null: of each put it must be seen whether it is.
    memory: *mut u8,
    start: u64,
    length: u64,
    in_bytes: bool,
}

/// A counter of this process's own NIC.
pub(crate) struct Tally {
    /// Its reference.
    counter: u32,
}

/// What the initiator's own counter is told of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its reference, or NONE.
    pub counter: u32,
    /// Of the put's start, and of its acknowledgement.
    pub send: bool,
    pub ack: bool,
    /// In bytes, not one by one.
    pub in_bytes: bool,
}

impl Told {
    /// Nothing.
    pub const NOTHING: Told = Told { counter: NONE, send: false, ack: false, in_bytes: false };

    /// How often.
    fn times(&self, silent: bool) -> u64 {
        u64::from(self.send) + u64::from(self.ack && !silent)
    }
}

/// A route that is open, and a tally if one is kept: what a front door may hold to put there without looking anything up.
#[derive(Clone, Copy)]
pub struct Pass {
    endpoint: NonNull<Endpoint>,
    route: NonNull<Mine<Route>>,
    held: Held,
    way: Way,
    tally: Option<Telling>,
}

/// What a put adds to a tally.
#[derive(Clone, Copy)]
struct Telling {
    tally: NonNull<Mine<Tally>>,
    held: Held,
    times: u64,
    in_bytes: bool,
}

/// What of a put changes from one to the next.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where the bytes are, in this process; whether that was found to be its own shared memory, which stays mapped.
    pub source: u64,
    pub in_shared: bool,
    pub length: u64,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub header_data: u64,
}

// ---- Putting -----------------------------------------------------------------------------------------------------

impl Interface {
    /// Puts where a pass leads. False: nothing has happened.
    ///
    /// # Safety
    /// The pass was given to this thread by this interface.
    #[inline(always)]
    pub unsafe fn put_by(&self, pass: &Pass, piece: &Piece) -> bool {
        // SAFETY: endpoints live as long as the interface.
        let target = unsafe { pass.endpoint.as_ref() };
        let (held, way, &Piece { length, match_bits, remote_offset, .. }) = (&pass.held, &pass.way, piece);
        let puts = held.slot().puts.load(Relaxed);
        if length > LEASED_BYTES_MAX
            || remote_offset > way.length
            || length > way.length - remote_offset
            || (way.match_bits ^ match_bits) & way.care_bits != 0
            || target.routes.parcels.load(Acquire)
            || !target.is_ready()
            || (puts % PUTS_PER_PROGRESS == 0 && !self.look_around_from(target, puts))
        {
            return false;
        }
        let start = way.start.wrapping_add(remote_offset);
        let to = if way.memory.is_null() {
            match target.in_place(start, length, self.config.path) {
                Some(to) => to.as_ptr(),
                None if held.lane.is_null() => return false,
                None => return self.put_attached(pass, piece, start),
            }
        } else {
            way.memory.wrapping_add(remote_offset as usize)
        };
        let from = if piece.in_shared || length == 0 {
            piece.source as *const u8
        } else {
            match readable_here(&self.own, piece.source, length, self.config.path) {
                Some(from) => from,
                None => return false,
            }
        };
        if held.lane.is_null() {
            return self.put_posting(pass, (from, to, length), match_bits, remote_offset, piece.header_data);
        }
        self.put_counting(pass, from, to, length)
    }

    /// Puts to memory that is not in place, and counts without a lock.
    #[inline(never)]
    fn put_attached(&self, pass: &Pass, piece: &Piece, address: u64) -> bool {
        // SAFETY: endpoints live as long as the interface.
        let target = unsafe { pass.endpoint.as_ref() };
        let Place::Remote { pid, .. } = target.resolve(address, piece.length, Access::Write, self.config.path) else {
            return false;
        };
        let (from, bytes) = (piece.source as *const u8, piece.length as usize);
        if !pass.enter() {
            return false;
        }
        // Memory that is not there, on either side, is found by the kernel, and told of by who puts the usual way then.
        // SAFETY: the owner of `address` offers it, by the lease; nothing of ours writes what the program puts.
        let moved = unsafe { cma::write(pid, address, from, bytes) }.is_ok();
        if moved {
            self.count_at_both(pass, piece.length);
        } else {
            pass.leave();
        }
        moved
    }

    /// Puts, and counts without a lock.
    #[inline(always)]
    fn put_counting(&self, pass: &Pass, from: *const u8, to: *mut u8, length: u64) -> bool {
        if !pass.enter() {
            return false;
        }
        if length != 0 {
            copy_direct(from, to, length as usize);
        }
        self.count_at_both(pass, length);
        true
    }

    /// Ends a put whose bytes are there.
    #[inline(always)]
    fn count_at_both(&self, pass: &Pass, length: u64) {
        let held = &pass.held;
        held.count(if pass.way.in_bytes { length } else { 1 });
        held.note(length);
        held.leave();
        if let Some(telling) = &pass.tally {
            telling.held.count(telling.times * if telling.in_bytes { length } else { 1 });
            telling.held.leave();
            self.own.segment.ring();
        }
        // SAFETY: endpoints live as long as the interface.
        unsafe { pass.endpoint.as_ref() }.segment.ring();
    }

    /// As [`Interface::put_by`], where the pass is straight, and the put not longer than it allows at most.
    ///
    /// # Safety
    /// The pass was given to this thread by this interface; `length` bytes at `source` are shared memory of this process.
    #[inline(always)]
    pub unsafe fn put_straight(
        &self,
        pass: &Pass,
        source: *const u8,
        length: u64,
        match_bits: u64,
        remote_offset: u64,
    ) -> bool {
        // SAFETY: endpoints live as long as the interface.
        let target = unsafe { pass.endpoint.as_ref() };
        let way = &pass.way;
        if remote_offset > way.length - length
            || (way.match_bits ^ match_bits) & way.care_bits != 0
            || target.routes.parcels.load(Acquire)
            || pass.held.slot().puts.load(Relaxed) % PUTS_PER_PROGRESS == 0
        {
            return false;
        }
        self.put_counting(pass, source, way.memory.wrapping_add(remote_offset as usize), length)
    }

    /// Puts, and posts the event, under the target's lock.
    #[inline(never)]
    fn put_posting(
        &self,
        pass: &Pass,
        (from, to, length): (*const u8, *mut u8, u64),
        match_bits: u64,
        remote_offset: u64,
        header_data: u64,
    ) -> bool {
        // SAFETY: endpoints live as long as the interface.
        let (target, held) = (unsafe { pass.endpoint.as_ref() }, &pass.held);
        let Some(Kept { of: route, .. }) = pass.route().kept() else { return false };
        let Some(stamp) = &route.stamp else { return false };
        lines::about_to_write(route.next_event.cast());
        let mut guard = target.segment.lock(self.word);
        if held.slot().grant.load(Relaxed) != held.grant {
            drop(guard);
            return pass.route().lose(held.grant);
        }
        if length != 0 {
            copy_direct(from, to, length as usize);
        }
        let put = Put {
            portal: route.portal,
            uid: route.uid,
            initiator: route.initiator,
            match_bits,
            remote_offset,
            header_data,
            length,
        };
        let next = guard.post_leased(route.queue, stamp, &put, pass.way.start.wrapping_add(remote_offset));
        route.next_event = next.map_or(ptr::null(), ptr::from_ref);
        held.note(length);
        true
    }

    /// The pass for puts like this one, if this thread has the leases for it.
    pub(crate) fn pass_for(&self, target: &Endpoint, put: &Put, told: &Told) -> Option<Pass> {
        let mine = target.routes.at(put.portal);
        let &mut Kept { held, of: ref route, .. } = mine.kept()?;
        if held.grant == 0 || route.portal != put.portal || route.initiator != put.initiator {
            return None;
        }
        let times = told.times(route.silent);
        let tally = match times {
            0 => None,
            _ if held.lane.is_null() => return None,
            _ => {
                let mine = self.tally(told.counter);
                let held = mine.kept().filter(|tally| tally.is_of(told.counter))?.held;
                Some(Telling { tally: NonNull::from(mine), held, times, in_bytes: told.in_bytes })
            }
        };
        Some(Pass { endpoint: NonNull::from(target), route: NonNull::from(mine), held, way: route.way, tally })
    }
}

impl Pass {
    /// The longest put that may go straight, from one place that stays mapped to another, and be counted there; None where none may.
    pub fn straight(&self) -> Option<u64> {
        let straight = !self.way.memory.is_null() && !self.held.lane.is_null();
        straight.then(|| self.way.length.min(LEASED_BYTES_MAX))
    }

    /// Where a put counts; null where it does not.
    pub fn lane(&self) -> *const u8 {
        self.held.lane.cast()
    }

    /// Begins a put that counts. False: a lease that it stands on was called back.
    #[inline(always)]
    fn enter(&self) -> bool {
        if let Some(telling) = &self.tally {
            if !telling.held.enter() {
                // SAFETY: tallies live as long as the interface.
                return unsafe { telling.tally.as_ref() }.lose(telling.held.grant);
            }
        }
        if !self.held.enter() {
            self.tally.iter().for_each(|telling| telling.held.leave());
            return self.route().lose(self.held.grant);
        }
        true
    }

    /// Ends a put that has moved nothing that would count.
    fn leave(&self) {
        self.held.leave();
        self.tally.iter().for_each(|telling| telling.held.leave());
    }

    fn route(&self) -> &Mine<Route> {
        // SAFETY: routes live as long as their endpoint, and that as long as the interface.
        unsafe { self.route.as_ref() }
    }
}

impl Interface {
    /// Keeps this process's NIC going, and now and then sees whether the target's owner is still there.
    #[cold]
    fn look_around_from(&self, target: &Endpoint, puts: u64) -> bool {
        self.progress();
        puts % PUTS_PER_LOOK != 0 || target.look_alive()
    }

    /// Whether all of a range is this process's own shared memory.
    pub fn is_own_shared(&self, start: u64, bytes: u64) -> bool {
        self.own.in_place(start, bytes, self.config.path).is_some()
    }
}

// ---- Earning a lease ---------------------------------------------------------------------------------------------

impl Interface {
    /// A put has gone the usual way: after many of the kind, the leases for them are asked for.
    #[inline(always)]
    pub(crate) fn earn_pass(&self, target: &Endpoint, put: &Put, told: &Told) {
        if target.routes.is_due(put.portal) {
            self.ask(target, put, told);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, target: &Endpoint, put: &Put, told: &Told) {
        if !asymmetric::register() || target.own {
            return;
        }
        target.routes.at(put.portal).take(|kept| {
            let mut guard = target.segment.lock(self.word);
            // Who closes says so before it calls all leases back.
            if !target.is_ready() {
                return None;
            }
            let bell = guard.signals.doorbell;
            if bell.mail_tail.load(Relaxed) == bell.mail_head.load(Relaxed) {
                target.routes.clear_parcels();
            }
            let terms = guard.lease(put, self.word, kept.before(), Identity::word_is_alive)?;
            kept.lease = terms.lent.lease;
            let address = terms.start.wrapping_add(put.remote_offset);
            let at_hand = target.in_place(address, put.length, self.config.path).is_some();
            let attached = terms.lent.counter != NONE && target.reaches_all(self.config.path);
            if !at_hand && !attached {
                // Its memory is elsewhere: others may have the lane.
                guard.call_back(kept.lease);
                return None;
            }
            drop(guard);
            kept.held = Held::new(&target.segment.signals(), &terms.lent)?;
            kept.of = Route::new(target, put, &terms, self.config.path);
            Some(())
        });
        let Some(silent) = target.routes.at(put.portal).kept().map(|kept| kept.of.silent) else { return };
        let has_tally = || self.tally(told.counter).kept().is_some_and(|tally| tally.is_of(told.counter));
        if told.times(silent) != 0 && !has_tally() {
            self.tally(told.counter).take(|kept| {
                let mut guard = self.own.segment.lock(self.word);
                let lent = guard.lend_lane(told.counter, self.word, kept.before(), Identity::word_is_alive)?;
                drop(guard);
                kept.lease = lent.lease;
                kept.held = Held::new(&self.signals(), &lent)?;
                kept.of = Tally { counter: told.counter };
                Some(())
            });
        }
    }

    fn tally(&self, counter: u32) -> &Mine<Tally> {
        &self.tallies[counter as usize % ROUTES]
    }

    /// Gives all leases at a peer up, since this process will put there no more.
    pub(crate) fn give_up_leases(&self, target: &Endpoint) {
        for mine in &target.routes.routes {
            // SAFETY: the interface is being dropped: no thread is in a call.
            let lease = unsafe { mine.lease() };
            if lease != NONE && target.is_ready() {
                target.segment.lock(self.word).give_up_lease(lease);
            }
        }
    }
}

impl Route {
    fn new(target: &Endpoint, put: &Put, terms: &Terms, path: crate::Path) -> Route {
        Route {
            portal: put.portal,
            uid: put.uid,
            initiator: put.initiator,
            way: Way {
                match_bits: terms.match_bits,
                care_bits: !terms.ignore_bits,
                memory: target.in_place(terms.start, terms.length, path).map_or(ptr::null_mut(), NonNull::as_ptr),
                start: terms.start,
                length: terms.length,
                in_bytes: terms.in_bytes,
            },
            queue: terms.queue,
            stamp: Some(terms.stamp),
            next_event: ptr::null(),
            silent: terms.silent,
        }
    }
}

impl Kept<Tally> {
    fn is_of(&self, counter: u32) -> bool {
        self.of.counter == counter && self.held.grant != 0
    }
}

impl Routes {
    #[inline(always)]
    fn at(&self, portal: u32) -> &Mine<Route> {
        &self.routes[portal as usize % ROUTES]
    }

    /// Counts a put to this portal table entry; whether it is time to ask for a lease.
    #[inline(always)]
    pub(crate) fn is_due(&self, portal: u32) -> bool {
        self.at(portal).is_due()
    }

    /// A packet of this process has been put into the peer's mailbox.
    pub(crate) fn note_parcel(&self) {
        self.parcels.store(true, Release);
    }

    /// None waits there any more.
    #[inline(always)]
    pub(crate) fn clear_parcels(&self) {
        if self.parcels.load(Relaxed) {
            self.parcels.store(false, Release);
        }
    }
}

impl Default for Tally {
    fn default() -> Tally {
        Tally { counter: NONE }
    }
}

impl Default for Route {
    fn default() -> Route {
        Route {
            portal: NONE,
            uid: 0,
            initiator: 0,
            way: Way { match_bits: 0, care_bits: 0, memory: ptr::null_mut(), start: 0, length: 0, in_bytes: false },
            queue: NONE,
            stamp: None,
            next_event: ptr::null(),
            silent: false,
        }
    }
}
