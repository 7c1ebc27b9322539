// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts under a grant: the sender's side of [`selvedge_nic::portals::grants`]. `held` has a thread's use of one grant.
//!
//! An [`Endpoint`] keeps a few *routes*: its portal table entries to which a grant permits this process to put. A put
//! that fits is a store of the bytes and a store to a lane of the counter, between two stores to the grant's word
//! `busy`. It takes no lock and reads no table. If the entry posts events, the put takes the lock, and posts without a
//! search. The initiator's own counter counts such puts in a lane of that counter. This process's own NIC grants that
//! lane in the same way.
//!
//! Invariants
//! 1. Only the thread that took a route or an own lane uses it, until it gives it up, because a grant has one word
//!    `busy`. Other threads put under the lock.
//! 2. The memory that a grant covers is checked when the grant is given, or with each put: its owner, and whether it is
//!    mapped.
//! 3. A put does not overtake packets of this process that wait at the target (`packets_wait`).
//! 4. Between `enter` and `leave` a thread takes no lock and waits for no other thread. So a wait for a busy holder
//!    ends.
//!
//! Budget: 136 instructions from the front end; one line moves for the payload and one for the counter.

pub(crate) mod held;

use std::ptr::{self, NonNull};
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed};

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::Put;
use selvedge_nic::portals::errors::{Failure, GrantError};
use selvedge_nic::portals::grants::Terms;

use self::held::{HeldGrant, Kept, ThreadOwned};
use crate::endpoint::{Access, Endpoint, Place};
use crate::interface::Interface;
use crate::lock::Guard;
use crate::memory::{copy_direct, readable_here};
use crate::packets;
use crate::routes::{Destination, OwnLane, ROUTES, Route};
use selvedge_os::process::Identity;
use selvedge_os::{asymmetric, cma, lines};

/// Longer puts take the lock, because a revocation waits for a put to end. The lock's cost is small beside that of the
/// bytes.
pub const GRANTED_BYTES_MAX: u64 = 256 << 10;
/// Puts on a route between two calls of progress for this process, and between two checks whether the target is alive.
const PUTS_PER_PROGRESS: u64 = 64;
const PUTS_PER_CHECK: u64 = 4096;

/// The events of a put that the initiator's own counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Its reference, or NONE.
    pub counter: u32,
    /// Whether it counts SEND, and ACK.
    pub send: bool,
    pub ack: bool,
    /// Whether it counts bytes instead of events.
    pub in_bytes: bool,
}

impl Counts {
    /// Counts nothing.
    pub const NOTHING: Counts = Counts { counter: NONE, send: false, ack: false, in_bytes: false };

    /// Returns the number of events to count.
    fn times(&self, silent: bool) -> u64 {
        u64::from(self.send) + u64::from(self.ack && !silent)
    }
}

/// An open route, with an own lane if the initiator counts. A front end keeps it to put there without a search.
#[derive(Clone, Copy)]
pub struct GrantedRoute {
    endpoint: NonNull<Endpoint>,
    route: NonNull<ThreadOwned<Route>>,
    held: HeldGrant,
    to: Destination,
    own: Option<OwnCount>,
}

/// The amount that a put adds to an own lane.
#[derive(Clone, Copy)]
struct OwnCount {
    lane: NonNull<ThreadOwned<OwnLane>>,
    held: HeldGrant,
    times: u64,
    in_bytes: bool,
}

/// The parameters that change from one put to the next.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Address of the bytes in this process, and whether they are known to be its own shared memory, which stays
    /// mapped.
    pub source: u64,
    pub in_shared: bool,
    pub length: u64,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub header_data: u64,
}

// ---- Putting -----------------------------------------------------------------------------------------------------

impl GrantedRoute {
    /// Puts by this route. False if nothing has changed.
    ///
    /// # Safety
    /// The interface gave the route to this thread.
    #[inline(always)]
    pub unsafe fn put(&self, interface: &Interface, piece: &Piece) -> bool {
        // SAFETY: the route was made from a reference to an endpoint of the interface, which keeps the endpoint until
        // its drop.
        let target = unsafe { self.endpoint.as_ref() };
        let (held, entry, &Piece { length, match_bits, remote_offset, .. }) = (&self.held, &self.to, piece);
        let puts = held.grant().puts.load(Relaxed);
        if length > GRANTED_BYTES_MAX
            || remote_offset > entry.length
            || length > entry.length - remote_offset
            || (entry.match_bits ^ match_bits) & entry.care_bits != 0
            || target.routes.packets_wait.load(Acquire)
            || !target.is_ready()
            || (puts % PUTS_PER_PROGRESS == 0 && !progress_and_check(interface, target, puts))
        {
            return false;
        }
        let start = entry.start.wrapping_add(remote_offset);
        let to = if entry.memory.is_null() {
            match target.in_place(start, length, interface.config.path) {
                Some(to) => to.as_ptr(),
                None if held.lane.is_null() => return false,
                None => return self.put_attached(interface, piece, start),
            }
        } else {
            entry.memory.wrapping_add(remote_offset as usize)
        };
        let from = if piece.in_shared || length == 0 {
            piece.source as *const u8
        } else {
            match readable_here(&interface.own, piece.source, length, interface.config.path) {
                Some(from) => from,
                None => return false,
            }
        };
        if held.lane.is_null() {
            return self.put_posting(interface, (from, to, length), match_bits, remote_offset, piece.header_data);
        }
        self.put_counting(interface, from, to, length)
    }

    /// Puts to memory that is not mapped here, and counts without a lock.
    #[inline(never)]
    fn put_attached(&self, interface: &Interface, piece: &Piece, address: u64) -> bool {
        // SAFETY: the route was made from a reference to an endpoint of the interface, which keeps the endpoint until
        // its drop.
        let target = unsafe { self.endpoint.as_ref() };
        let Place::Remote { pid, .. } = target.resolve(address, piece.length, Access::Write, interface.config.path)
        else {
            return false;
        };
        let (from, bytes) = (piece.source as *const u8, piece.length as usize);
        if !self.enter() {
            return false;
        }
        // If memory is not mapped on either side, the kernel finds that. The put then goes through `start`, which
        // reports it.
        // SAFETY: the grant says that the owner offers `address`. Only the program accesses the bytes that it puts.
        let moved = unsafe { cma::write(pid, address, from, bytes) }.is_ok();
        if moved {
            self.count_at_both(interface, piece.length);
        } else {
            self.leave();
        }
        moved
    }

    /// Puts, and counts without a lock.
    #[inline(always)]
    fn put_counting(&self, interface: &Interface, from: *const u8, to: *mut u8, length: u64) -> bool {
        if !self.enter() {
            return false;
        }
        if length != 0 {
            copy_direct(from, to, length as usize);
        }
        self.count_at_both(interface, length);
        true
    }

    /// Counts a put whose bytes have been stored.
    #[inline(always)]
    fn count_at_both(&self, interface: &Interface, length: u64) {
        let held = &self.held;
        held.count(if self.to.in_bytes { length } else { 1 });
        held.note(length);
        held.leave();
        if let Some(own) = &self.own {
            own.held.count(own.times * if own.in_bytes { length } else { 1 });
            own.held.leave();
            interface.own.segment.ring();
        }
        // SAFETY: the route was made from a reference to an endpoint of the interface, which keeps the endpoint until
        // its drop.
        let target = unsafe { self.endpoint.as_ref() };
        interface.work_at(target).put(length);
        target.segment.ring();
    }

    /// As [`GrantedRoute::put`], for a straight route and a put that is no longer than the route allows.
    ///
    /// # Safety
    /// The interface gave the route to this thread. The `length` bytes at `source` are shared memory of this process.
    #[inline(always)]
    pub unsafe fn put_straight(
        &self,
        interface: &Interface,
        source: *const u8,
        length: u64,
        match_bits: u64,
        remote_offset: u64,
    ) -> bool {
        // SAFETY: the route was made from a reference to an endpoint of the interface, which keeps the endpoint until
        // its drop.
        let target = unsafe { self.endpoint.as_ref() };
        let entry = &self.to;
        if remote_offset > entry.length - length
            || (entry.match_bits ^ match_bits) & entry.care_bits != 0
            || target.routes.packets_wait.load(Acquire)
            || self.held.grant().puts.load(Relaxed) % PUTS_PER_PROGRESS == 0
        {
            return false;
        }
        self.put_counting(interface, source, entry.memory.wrapping_add(remote_offset as usize), length)
    }

    /// Puts, and posts the event, under the target's lock.
    #[inline(never)]
    fn put_posting(
        &self,
        interface: &Interface,
        (from, to, length): (*const u8, *mut u8, u64),
        match_bits: u64,
        remote_offset: u64,
        header_data: u64,
    ) -> bool {
        // SAFETY: the route was made from a reference to an endpoint of the interface, which keeps the endpoint until
        // its drop.
        let (target, held) = (unsafe { self.endpoint.as_ref() }, &self.held);
        let Some(Kept { of: route, .. }) = self.route().kept() else { return false };
        let Some(stamp) = &route.stamp else { return false };
        lines::about_to_write(route.next_event.cast());
        let mut guard = target.segment.lock(interface.word);
        if held.grant().word.load(Relaxed) != held.number {
            drop(guard);
            return self.route().lose(held.number);
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
        let next = guard.grants().post(route.queue, stamp, &put, self.to.start.wrapping_add(remote_offset));
        route.next_event = next.map_or(ptr::null(), ptr::from_ref);
        held.note(length);
        interface.work_at(target).put(length);
        true
    }

    /// Returns the route for puts like this one, if this thread has the grants for it.
    pub(crate) fn find(interface: &Interface, target: &Endpoint, put: &Put, counts: &Counts) -> Option<GrantedRoute> {
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
                let lane = own_lane(interface, counts.counter);
                let held = lane.kept().filter(|lane| lane.is_of(counts.counter))?.held;
                Some(OwnCount { lane: NonNull::from(lane), held, times, in_bytes: counts.in_bytes })
            }
        };
        Some(GrantedRoute { endpoint: NonNull::from(target), route: NonNull::from(owned), held, to: route.to, own })
    }
}

impl GrantedRoute {
    /// Returns the longest put that may go straight: both places stay mapped, and a store counts the put. None if no
    /// put may.
    pub fn straight(&self) -> Option<u64> {
        let straight = !self.to.memory.is_null() && !self.held.lane.is_null();
        straight.then(|| self.to.length.min(GRANTED_BYTES_MAX))
    }

    /// Returns the lane in which a put counts; null if it does not count.
    pub fn lane(&self) -> *const u8 {
        self.held.lane.cast()
    }

    /// Begins a put that counts. False: one of its grants was revoked.
    #[inline(always)]
    fn enter(&self) -> bool {
        if let Some(own) = &self.own {
            if !own.held.enter() {
                // SAFETY: own lanes are a part of the interface, and routes are used by its calls only.
                return unsafe { own.lane.as_ref() }.lose(own.held.number);
            }
        }
        if !self.held.enter() {
            self.own.iter().for_each(|own| own.held.leave());
            return self.route().lose(self.held.number);
        }
        true
    }

    /// Ends a put that moved no bytes.
    fn leave(&self) {
        self.held.leave();
        self.own.iter().for_each(|own| own.held.leave());
    }

    fn route(&self) -> &ThreadOwned<Route> {
        // SAFETY: routes are a part of their endpoint, which lives as long as the interface; routes are used by its
        // calls only.
        unsafe { self.route.as_ref() }
    }
}

/// Handles work for this process, and now and then checks whether the target's owner is alive.
#[cold]
fn progress_and_check(interface: &Interface, target: &Endpoint, puts: u64) -> bool {
    interface.progress();
    puts % PUTS_PER_CHECK != 0 || target.check_alive()
}

// ---- Asking for a grant ------------------------------------------------------------------------------------------

/// Records a put that went through `start`. After many similar ones, this requests the grants for them.
#[inline(always)]
pub(crate) fn request_grant(interface: &Interface, target: &Endpoint, put: &Put, counts: &Counts) {
    if target.routes.is_due(put.portal) {
        ask(interface, target, put, counts);
    }
}

#[cold]
#[inline(never)]
fn ask(interface: &Interface, target: &Endpoint, put: &Put, counts: &Counts) {
    if !asymmetric::register() || target.own {
        return;
    }
    target.routes.at(put.portal).take(|kept| ask_for_route(interface, target, put, kept));
    let Some(silent) = target.routes.at(put.portal).kept().map(|kept| kept.of.silent) else { return };
    let has_lane = || own_lane(interface, counts.counter).kept().is_some_and(|lane| lane.is_of(counts.counter));
    if counts.times(silent) != 0 && !has_lane() {
        own_lane(interface, counts.counter).take(|kept| ask_for_lane(interface, counts.counter, kept));
    }
}

/// Requests a grant from a target's NIC. If it is refused, the slot keeps its earlier grant.
fn ask_for_route(interface: &Interface, target: &Endpoint, put: &Put, kept: &mut Kept<Route>) {
    let mut guard = target.segment.lock(interface.word);
    // A NIC that closes sets its state before it revokes all grants.
    if !target.is_ready() {
        return;
    }
    if !packets::wait_for(target, interface.id(), interface.id(), &guard) {
        target.routes.clear_packets();
    }
    let terms = match guard.grants().give_put(put, interface.word, kept.before(), Identity::word_is_alive) {
        Ok(terms) => terms,
        Err(error) => return refused(&mut guard, &error),
    };
    (kept.slot, kept.held) = (terms.handle.slot, HeldGrant::NOTHING);
    let address = terms.start.wrapping_add(put.remote_offset);
    let is_mapped = target.in_place(address, put.length, interface.config.path).is_some();
    let attached = terms.handle.counter != NONE && target.reaches_all(interface.config.path);
    if !is_mapped && !attached {
        // This process cannot reach the entry's memory, so another process may have the lane. No put has used this
        // grant yet.
        return guard.grants().end(kept.slot);
    }
    drop(guard);
    let Some(held) = HeldGrant::new(&target.segment.signals(), &terms.handle) else { return };
    kept.held = held;
    kept.of = Route::new(target, put, &terms, interface.config.path);
}

fn ask_for_lane(interface: &Interface, counter: u32, kept: &mut Kept<OwnLane>) {
    let mut guard = interface.own.segment.lock(interface.word);
    let given = match guard.grants().give_lane(counter, interface.word, kept.before(), Identity::word_is_alive) {
        Ok(given) => given,
        Err(error) => return refused(&mut guard, &error),
    };
    drop(guard);
    (kept.slot, kept.held) = (given.slot, HeldGrant::NOTHING);
    let Some(held) = HeldGrant::new(&interface.signals(), &given) else { return };
    kept.held = held;
    kept.of = OwnLane { counter };
}

fn own_lane(interface: &Interface, counter: u32) -> &ThreadOwned<OwnLane> {
    &interface.own_lanes[counter as usize % ROUTES]
}

impl Endpoint {
    /// Gives up all grants at this peer, because the process with the lock word `word` will put there no more.
    pub(crate) fn give_up_grants(&self, word: u64) {
        for owned in &self.routes.routes {
            // SAFETY: the interface is being dropped, so no other thread is in a call of it.
            let slot = unsafe { owned.slot() };
            if slot != NONE && self.is_ready() {
                // No thread is in a put, so there is no holder to wait for.
                self.segment.lock(word).grants().free_slot(slot);
            }
        }
    }
}

/// Handles a refused grant. If other grants are being revoked, this helps to finish the revocation, because the process
/// that began it may have died. The grant is not requested again at once, so that the revoker's transition comes first.
fn refused(guard: &mut Guard<'_>, error: &GrantError) {
    if let Some(revoking) = error.revoking() {
        guard.revoke(&revoking);
    }
}

impl Route {
    fn new(target: &Endpoint, put: &Put, terms: &Terms, path: crate::config::Path) -> Route {
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
            stamp: Some(terms.template),
            next_event: ptr::null(),
            silent: terms.ack_disabled,
        }
    }
}
