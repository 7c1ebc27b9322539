// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts by grant: the sender's side of [`selvedge_nic::portals::grants`]. `held` has what a thread does with one grant.
//!
//! An [`Endpoint`] keeps a few *routes*: portal table entries of its, to which a grant permits this process to put. A put that
//! fits is a store of the bytes and a store to a lane of the counter, between two stores to the grant's word `busy`. The lock is
//! not touched and no table read. Where the entry posts events, the put takes the lock, and posts without a search. What the
//! initiator's own counter counts of such puts goes into a lane of that counter, given in the same way by this process's own NIC.
//!
//! Invariants
//! 1. A route or an own lane is used by the thread that took it, for as long as that keeps it: a grant has one word `busy`.
//!    Other threads put under the lock.
//! 2. What a grant allows is checked when it is given, or with each put: whose memory it is, and that it is mapped.
//! 3. A put does not overtake packets of this process that wait in the target's mailbox (`packets_wait`).
//! 4. Between `enter` and `leave` a thread takes no lock and waits for nobody. So a wait for a busy holder ends.
//!
//! Budget: 136 instructions from the front door; one line crosses for the payload and one for the count.

mod held;

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::Put;
use selvedge_nic::portals::events::Stamp;
use selvedge_nic::portals::grants::{Failure, GiveError, Terms};

use self::held::{HeldGrant, Kept, ThreadOwned};
use crate::endpoint::{Access, Endpoint, Place};
use crate::interface::Interface;
use crate::lock::Guard;
use crate::memory::{copy_direct, readable_here};
use crate::os::process::Identity;
use crate::os::{asymmetric, cma, lines};

pub(crate) use self::held::wait_for_holders;

/// Routes to one peer (portal table entries share them by the low bits of their index), and own lanes of a NIC.
const ROUTES: usize = 4;
/// Longer puts take the lock: whoever revokes a grant waits for a put to end. What a longer put costs besides its bytes does not count.
const GRANTED_BYTES_MAX: u64 = 256 << 10;
/// Puts on a route between two calls of progress for this process, and between two checks whether the target lives.
const PUTS_PER_PROGRESS: u64 = 64;
const PUTS_PER_CHECK: u64 = 4096;

/// Routes to one peer.
#[derive(Default)]
pub(crate) struct Routes {
    routes: [ThreadOwned<Route>; ROUTES],
    /// Packets of this process may wait in the peer's mailbox.
    packets_wait: AtomicBool,
}

/// Own lanes of one NIC.
pub(crate) type OwnLanes = [ThreadOwned<OwnLane>; ROUTES];

/// A portal table entry of a peer, to which a grant permits this thread to put.
pub(crate) struct Route {
    portal: u32,
    uid: u32,
    initiator: u64,
    to: Destination,
    /// Where its events go, and what they have in common.
    queue: u32,
    stamp: Option<Stamp>,
    /// Where the next event will be written, if nobody else puts there first.
    next_event: *const AtomicU64,
    silent: bool,
}

/// What a put needs to know of an entry.
#[derive(Clone, Copy)]
struct Destination {
    match_bits: u64,
    /// Of them, those that matter.
    care_bits: u64,
    /// The entry's memory, mapped here; null: with each put it is checked whether that is mapped.
    memory: *mut u8,
    start: u64,
    length: u64,
    in_bytes: bool,
}

/// A lane of a counter of this process's own NIC.
pub(crate) struct OwnLane {
    /// The counter's reference.
    counter: u32,
}

/// What the initiator's own counter counts of a put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Its reference, or NONE.
    pub counter: u32,
    /// Its SEND, and its acknowledgement.
    pub send: bool,
    pub ack: bool,
    /// In bytes, not one by one.
    pub in_bytes: bool,
}

impl Counts {
    /// Nothing.
    pub const NOTHING: Counts = Counts { counter: NONE, send: false, ack: false, in_bytes: false };

    /// How often it counts.
    fn times(&self, silent: bool) -> u64 {
        u64::from(self.send) + u64::from(self.ack && !silent)
    }
}

/// A route that is open, and an own lane if one is kept: what a front door may keep to put there without a search.
#[derive(Clone, Copy)]
pub struct Pass {
    endpoint: NonNull<Endpoint>,
    route: NonNull<ThreadOwned<Route>>,
    held: HeldGrant,
    to: Destination,
    own: Option<OwnCount>,
}

/// What a put adds to an own lane.
#[derive(Clone, Copy)]
struct OwnCount {
    lane: NonNull<ThreadOwned<OwnLane>>,
    held: HeldGrant,
    times: u64,
    in_bytes: bool,
}

/// What of a put changes from one to the next.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Where the bytes are, in this process, and whether that is known to be its own shared memory, which stays mapped.
    pub source: u64,
    pub in_shared: bool,
    pub length: u64,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub header_data: u64,
}

// ---- Putting -----------------------------------------------------------------------------------------------------

impl Interface {
    /// Puts by a pass. False: nothing has happened.
    ///
    /// # Safety
    /// The pass was given to this thread by this interface.
    #[inline(always)]
    pub unsafe fn put_by(&self, pass: &Pass, piece: &Piece) -> bool {
        // SAFETY: the pass was made from a reference to an endpoint of this interface, which keeps it until it is dropped.
        let target = unsafe { pass.endpoint.as_ref() };
        let (held, entry, &Piece { length, match_bits, remote_offset, .. }) = (&pass.held, &pass.to, piece);
        let puts = held.grant().puts.load(Relaxed);
        if length > GRANTED_BYTES_MAX
            || remote_offset > entry.length
            || length > entry.length - remote_offset
            || (entry.match_bits ^ match_bits) & entry.care_bits != 0
            || target.routes.packets_wait.load(Acquire)
            || !target.is_ready()
            || (puts % PUTS_PER_PROGRESS == 0 && !self.progress_and_check(target, puts))
        {
            return false;
        }
        let start = entry.start.wrapping_add(remote_offset);
        let to = if entry.memory.is_null() {
            match target.in_place(start, length, self.config.path) {
                Some(to) => to.as_ptr(),
                None if held.lane.is_null() => return false,
                None => return self.put_attached(pass, piece, start),
            }
        } else {
            entry.memory.wrapping_add(remote_offset as usize)
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

    /// Puts to memory that is not mapped here, and counts without a lock.
    #[inline(never)]
    fn put_attached(&self, pass: &Pass, piece: &Piece, address: u64) -> bool {
        // SAFETY: the pass was made from a reference to an endpoint of this interface, which keeps it until it is dropped.
        let target = unsafe { pass.endpoint.as_ref() };
        let Place::Remote { pid, .. } = target.resolve(address, piece.length, Access::Write, self.config.path) else {
            return false;
        };
        let (from, bytes) = (piece.source as *const u8, piece.length as usize);
        if !pass.enter() {
            return false;
        }
        // Where memory is not there, on either side, the kernel finds it, and the put that then goes the usual way reports it.
        // SAFETY: the owner of `address` offers it, by the grant; nothing of ours writes what the program puts.
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
        held.count(if pass.to.in_bytes { length } else { 1 });
        held.note(length);
        held.leave();
        if let Some(own) = &pass.own {
            own.held.count(own.times * if own.in_bytes { length } else { 1 });
            own.held.leave();
            self.own.segment.ring();
        }
        // SAFETY: the pass was made from a reference to an endpoint of this interface, which keeps it until it is dropped.
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
        // SAFETY: the pass was made from a reference to an endpoint of this interface, which keeps it until it is dropped.
        let target = unsafe { pass.endpoint.as_ref() };
        let entry = &pass.to;
        if remote_offset > entry.length - length
            || (entry.match_bits ^ match_bits) & entry.care_bits != 0
            || target.routes.packets_wait.load(Acquire)
            || pass.held.grant().puts.load(Relaxed) % PUTS_PER_PROGRESS == 0
        {
            return false;
        }
        self.put_counting(pass, source, entry.memory.wrapping_add(remote_offset as usize), length)
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
        // SAFETY: the pass was made from a reference to an endpoint of this interface, which keeps it until it is dropped.
        let (target, held) = (unsafe { pass.endpoint.as_ref() }, &pass.held);
        let Some(Kept { of: route, .. }) = pass.route().kept() else { return false };
        let Some(stamp) = &route.stamp else { return false };
        lines::about_to_write(route.next_event.cast());
        let mut guard = target.segment.lock(self.word);
        if held.grant().word.load(Relaxed) != held.number {
            drop(guard);
            return pass.route().lose(held.number);
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
        let next = guard.post_granted(route.queue, stamp, &put, pass.to.start.wrapping_add(remote_offset));
        route.next_event = next.map_or(ptr::null(), ptr::from_ref);
        held.note(length);
        true
    }

    /// The pass for puts like this one, if this thread has the grants for it.
    pub(crate) fn pass_for(&self, target: &Endpoint, put: &Put, counts: &Counts) -> Option<Pass> {
        let owned = target.routes.at(put.portal);
        let &mut Kept { held, of: ref route, .. } = owned.kept()?;
        if held.number == 0 || route.portal != put.portal || route.initiator != put.initiator {
            return None;
        }
        let times = counts.times(route.silent);
        let own = match times {
            0 => None,
            _ if held.lane.is_null() => return None,
            _ => {
                let lane = self.own_lane(counts.counter);
                let held = lane.kept().filter(|lane| lane.is_of(counts.counter))?.held;
                Some(OwnCount { lane: NonNull::from(lane), held, times, in_bytes: counts.in_bytes })
            }
        };
        Some(Pass { endpoint: NonNull::from(target), route: NonNull::from(owned), held, to: route.to, own })
    }
}

impl Pass {
    /// The longest put that may go straight, from one place that stays mapped to another, and be counted there; None where none may.
    pub fn straight(&self) -> Option<u64> {
        let straight = !self.to.memory.is_null() && !self.held.lane.is_null();
        straight.then(|| self.to.length.min(GRANTED_BYTES_MAX))
    }

    /// Where a put counts; null where it does not.
    pub fn lane(&self) -> *const u8 {
        self.held.lane.cast()
    }

    /// Begins a put that counts. False: one of its grants was revoked.
    #[inline(always)]
    fn enter(&self) -> bool {
        if let Some(own) = &self.own {
            if !own.held.enter() {
                // SAFETY: own lanes are a part of the interface, and passes are used by its calls only.
                return unsafe { own.lane.as_ref() }.lose(own.held.number);
            }
        }
        if !self.held.enter() {
            self.own.iter().for_each(|own| own.held.leave());
            return self.route().lose(self.held.number);
        }
        true
    }

    /// Ends a put that has moved nothing that would count.
    fn leave(&self) {
        self.held.leave();
        self.own.iter().for_each(|own| own.held.leave());
    }

    fn route(&self) -> &ThreadOwned<Route> {
        // SAFETY: routes are a part of their endpoint, which lives as long as the interface; passes are used by its calls only.
        unsafe { self.route.as_ref() }
    }
}

impl Interface {
    /// Handles what waits for this process, and now and then checks whether the target's owner lives.
    #[cold]
    fn progress_and_check(&self, target: &Endpoint, puts: u64) -> bool {
        self.progress();
        puts % PUTS_PER_CHECK != 0 || target.look_alive()
    }

    /// Whether all of a range is this process's own shared memory.
    pub fn is_own_shared(&self, start: u64, bytes: u64) -> bool {
        self.own.in_place(start, bytes, self.config.path).is_some()
    }
}

// ---- Asking for a grant ------------------------------------------------------------------------------------------

impl Interface {
    /// A put has gone the usual way: after many like it, the grants for them are asked for.
    #[inline(always)]
    pub(crate) fn earn_pass(&self, target: &Endpoint, put: &Put, counts: &Counts) {
        if target.routes.is_due(put.portal) {
            self.ask(target, put, counts);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, target: &Endpoint, put: &Put, counts: &Counts) {
        if !asymmetric::register() || target.own {
            return;
        }
        target.routes.at(put.portal).take(|kept| self.ask_for_route(target, put, kept));
        let Some(silent) = target.routes.at(put.portal).kept().map(|kept| kept.of.silent) else { return };
        let has_lane = || self.own_lane(counts.counter).kept().is_some_and(|lane| lane.is_of(counts.counter));
        if counts.times(silent) != 0 && !has_lane() {
            self.own_lane(counts.counter).take(|kept| self.ask_for_lane(counts.counter, kept));
        }
    }

    /// Asks a target's NIC for a grant. The grant that was kept here before stays where none is given.
    fn ask_for_route(&self, target: &Endpoint, put: &Put, kept: &mut Kept<Route>) {
        let mut guard = target.segment.lock(self.word);
        // A NIC that closes says so before it revokes all grants.
        if !target.is_ready() {
            return;
        }
        let bell = guard.signals.doorbell;
        if bell.mail_tail.load(Relaxed) == bell.mail_head.load(Relaxed) {
            target.routes.clear_packets();
        }
        let terms = match guard.give(put, self.word, kept.before(), Identity::word_is_alive) {
            Ok(terms) => terms,
            Err(error) => return refused(&mut guard, &error),
        };
        (kept.slot, kept.held) = (terms.given.slot, HeldGrant::NOTHING);
        let address = terms.start.wrapping_add(put.remote_offset);
        let is_mapped = target.in_place(address, put.length, self.config.path).is_some();
        let attached = terms.given.counter != NONE && target.reaches_all(self.config.path);
        if !is_mapped && !attached {
            // Its memory cannot be reached from here: others may have the lane. No put has been made by this grant yet.
            return guard.give_back(kept.slot);
        }
        drop(guard);
        let Some(held) = HeldGrant::new(&target.segment.signals(), &terms.given) else { return };
        kept.held = held;
        kept.of = Route::new(target, put, &terms, self.config.path);
    }

    /// Asks this process's own NIC for a lane of a counter.
    fn ask_for_lane(&self, counter: u32, kept: &mut Kept<OwnLane>) {
        let mut guard = self.own.segment.lock(self.word);
        let given = match guard.give_lane(counter, self.word, kept.before(), Identity::word_is_alive) {
            Ok(given) => given,
            Err(error) => return refused(&mut guard, &error),
        };
        drop(guard);
        (kept.slot, kept.held) = (given.slot, HeldGrant::NOTHING);
        let Some(held) = HeldGrant::new(&self.signals(), &given) else { return };
        kept.held = held;
        kept.of = OwnLane { counter };
    }

    fn own_lane(&self, counter: u32) -> &ThreadOwned<OwnLane> {
        &self.own_lanes[counter as usize % ROUTES]
    }

    /// Gives up all grants at a peer, since this process will put there no more.
    pub(crate) fn give_up_grants(&self, target: &Endpoint) {
        for owned in &target.routes.routes {
            // SAFETY: the interface is being dropped, so no other thread is in a call of it.
            let slot = unsafe { owned.slot() };
            if slot != NONE && target.is_ready() {
                // No thread is in the middle of a put, so nobody has to be waited for.
                target.segment.lock(self.word).give_up(slot);
            }
        }
    }
}

/// A grant was not given. Where that is because others are being revoked, this helps to end that: whoever began it may have died. The
/// grant is not asked for again at once, so that the revoker's transition comes first.
fn refused(guard: &mut Guard<'_>, error: &GiveError) {
    if let Some(revoking) = error.revoking() {
        guard.revoke(&revoking);
    }
}

impl Route {
    fn new(target: &Endpoint, put: &Put, terms: &Terms, path: crate::Path) -> Route {
        Route {
            portal: put.portal,
            uid: put.uid,
            initiator: put.initiator,
            to: Destination {
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

impl Kept<OwnLane> {
    fn is_of(&self, counter: u32) -> bool {
        self.of.counter == counter && self.held.number != 0
    }
}

impl Routes {
    #[inline(always)]
    fn at(&self, portal: u32) -> &ThreadOwned<Route> {
        &self.routes[portal as usize % ROUTES]
    }

    /// Counts a put to this portal table entry; whether it is time to ask for a grant.
    #[inline(always)]
    pub(crate) fn is_due(&self, portal: u32) -> bool {
        self.at(portal).is_due()
    }

    /// A packet of this process has been put into the peer's mailbox.
    pub(crate) fn note_packet(&self) {
        self.packets_wait.store(true, Release);
    }

    /// None waits there any more.
    #[inline(always)]
    pub(crate) fn clear_packets(&self) {
        if self.packets_wait.load(Relaxed) {
            self.packets_wait.store(false, Release);
        }
    }
}

impl Default for OwnLane {
    fn default() -> OwnLane {
        OwnLane { counter: NONE }
    }
}

impl Default for Route {
    fn default() -> Route {
        Route {
            portal: NONE,
            uid: 0,
            initiator: 0,
            to: Destination {
                match_bits: 0,
                care_bits: 0,
                memory: ptr::null_mut(),
                start: 0,
                length: 0,
                in_bytes: false,
            },
            queue: NONE,
            stamp: None,
            next_event: ptr::null(),
            silent: false,
        }
    }
}
