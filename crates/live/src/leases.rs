// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Puts by lease: the sender's side of [`selvedge_nic::portals::leases`], and how leases are called back.
//!
//! An [`Endpoint`] keeps a few *routes*: portal table entries of its to which a lease lets this process put. A put that
//! fits is a store of the bytes and a store to a lane of the counter, between two stores to a word that whoever calls the lease
//! back waits for; the lock is not touched and no table read. Where the entry posts events, the put takes the lock, and finds
//! nothing anew. What the initiator's own counter is told of such puts goes into a
//! lane of that, lent in the same way: a *tally*.
//!
//! Invariants
//! 1. A route or a tally is used by the thread that took it, for as long as that keeps it: leases tell that they are in use by
//!    one word. Other threads put under the lock.
//! 2. What a lease allows was checked when it was given, or is with each put: whose memory it is, that it is there.
//! 3. A put does not pass packets of this process that wait in the target's mailbox (`parcels`).
//!
//! Budget: 180 instructions from the front door; one line crosses for the payload and one for the count.

use std::cell::UnsafeCell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use selvedge_nic::Signals;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::Put;
use selvedge_nic::portals::leases::{Lent, Terms};
use selvedge_nic::signals::Lease;

use crate::endpoint::Endpoint;
use crate::interface::Interface;
use crate::memory::{copy_direct, readable_here};
use crate::os::process::Identity;
use crate::os::{asymmetric, thread};

/// Routes to one peer (portal table entries share them by the low bits of their index), and tallies of a NIC.
const ROUTES: usize = 4;
/// Puts the usual way before a lease is asked for; four times as many after each that was called back or not given, up to
/// `PATIENCE_MAX`: there a call costs less than the lease saved.
const PATIENCE: u32 = 64;
const PATIENCE_MAX: u32 = 1 << 14;
/// Longer puts take the lock: who calls a lease back waits for a put to end.
const LEASED_BYTES_MAX: u64 = 8 << 10;
/// Puts on a route between looks at what waits for this process, and whether the target lives.
const PUTS_PER_PROGRESS: u64 = 64;
const PUTS_PER_LOOK: u64 = 4096;
/// Where the kernel has no fence for other cores: longer than a store stays on its way to memory.
const UNFENCED_PAUSE: Duration = Duration::from_millis(2);
/// Looks at a holder that is in the middle of a put before its core is given away, and before who looks sleeps: it may have the core
/// of a holder that its priority keeps from going on. Looks between questions whether it lives.
const SPINS: u32 = 256;
const YIELDS: u32 = SPINS + 64;
const LOOKS_PER_QUESTION: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// Routes to one peer.
#[derive(Default)]
pub(crate) struct Routes {
    routes: [Mine<Route>; ROUTES],
    /// Packets of this process may wait in the peer's mailbox.
    parcels: AtomicBool,
}

/// Tallies of one NIC.
pub(crate) type Tallies = [Mine<Tally>; ROUTES];

/// What one thread uses until it gives it up.
#[derive(Default)]
pub(crate) struct Mine<T> {
    /// That thread; 0: nobody.
    thread: AtomicU64,
    /// Puts the usual way since it was last asked for, and how many it takes. Threads may lose some.
    streak: AtomicU32,
    patience: AtomicU32,
    held: UnsafeCell<T>,
}

// SAFETY: `held` is used by one thread at a time (`thread`), the rest is atomics.
unsafe impl<T> Sync for Mine<T> {}
// SAFETY: the pointers in `held` are into segments and arenas that the interface keeps mapped.
unsafe impl<T> Send for Mine<T> {}

/// A lease, in this process's addresses.
#[derive(Clone, Copy)]
pub(crate) struct Held {
    /// Number of the grant; 0: there is none.
    grant: u64,
    slot: *const Lease,
    /// The lane that was lent with it; null: its puts post.
    lane: *const AtomicU64,
}

/// A portal table entry of a peer, as a lease lets this thread put there.
pub(crate) struct Route {
    /// Which lease it is; NONE: there never was one.
    lease: u32,
    portal: u32,
    uid: u32,
    initiator: u64,
    way: Way,
    /// Where its events go, and what its owner calls the entry.
    queue: u32,
    user_ptr: u64,
    silent: bool,
}

/// What a put needs of a route.
#[derive(Clone, Copy)]
struct Way {
    held: Held,
    match_bits: u64,
    ignore_bits: u64,
    /// The entry's memory in place; null: of each put it must be seen whether it is.
    memory: *mut u8,
    start: u64,
    length: u64,
    in_bytes: bool,
}

/// A counter of this process's own NIC.
pub(crate) struct Tally {
    lease: u32,
    /// Its reference.
    counter: u32,
    held: Held,
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
        let (way, &Piece { length, match_bits, remote_offset, .. }) = (&pass.way, piece);
        let slot = way.held.slot();
        let puts = slot.puts.load(Relaxed);
        if length > LEASED_BYTES_MAX
            || remote_offset > way.length
            || length > way.length - remote_offset
            || (way.match_bits ^ match_bits) & !way.ignore_bits != 0
            || target.routes.parcels.load(Acquire)
            || !target.is_ready()
            || (puts % PUTS_PER_PROGRESS == PUTS_PER_PROGRESS - 1 && !self.look_around_from(target, puts))
        {
            return false;
        }
        let to = if way.memory.is_null() {
            match target.in_place(way.start.wrapping_add(remote_offset), length, self.config.path) {
                Some(to) => to.as_ptr(),
                None => return false,
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
        if way.held.lane.is_null() {
            return self.put_posting(pass, (from, to, length), match_bits, remote_offset, piece.header_data);
        }
        if let Some(telling) = &pass.tally {
            if !telling.held.enter() {
                // SAFETY: tallies live as long as the interface.
                return unsafe { telling.tally.as_ref() }.lose(telling.held.grant);
            }
        }
        if !way.held.enter() {
            pass.tally.iter().for_each(|telling| telling.held.leave());
            return pass.route().lose(way.held.grant);
        }
        if length != 0 {
            copy_direct(from, to, length as usize);
        }
        way.held.count(if way.in_bytes { length } else { 1 });
        way.held.note(length);
        way.held.leave();
        if let Some(telling) = &pass.tally {
            telling.held.count(telling.times * if telling.in_bytes { length } else { 1 });
            telling.held.leave();
            self.own.segment.ring();
        }
        target.segment.ring();
        true
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
        let (target, held) = (unsafe { pass.endpoint.as_ref() }, &pass.way.held);
        let Some(route) = pass.route().held() else { return false };
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
        guard.post_leased(route.queue, &put, pass.way.start.wrapping_add(remote_offset), route.user_ptr);
        held.note(length);
        true
    }

    /// The pass for puts like this one, if this thread has the leases for it.
    pub(crate) fn pass_for(&self, target: &Endpoint, put: &Put, told: &Told) -> Option<Pass> {
        let mine = target.routes.at(put.portal);
        let route = mine.held()?;
        let way = route.way;
        if way.held.grant == 0 || route.portal != put.portal || route.initiator != put.initiator {
            return None;
        }
        let times = told.times(route.silent);
        let tally = match times {
            0 => None,
            _ if way.held.lane.is_null() => return None,
            _ => {
                let mine = self.tally(told.counter);
                let held = mine.held().filter(|tally| tally.is_of(told.counter))?.held;
                Some(Telling { tally: NonNull::from(mine), held, times, in_bytes: told.in_bytes })
            }
        };
        Some(Pass { endpoint: NonNull::from(target), route: NonNull::from(mine), way, tally })
    }
}

impl Pass {
    fn route(&self) -> &Mine<Route> {
        // SAFETY: routes live as long as their endpoint, and that as long as the interface.
        unsafe { self.route.as_ref() }
    }
}

impl Held {
    /// Begins a put. False: the lease was called back.
    #[inline(always)]
    fn enter(&self) -> bool {
        let slot = self.slot();
        slot.busy.store(1, Relaxed);
        // Pairs with the heavy fence in `recall`.
        asymmetric::light();
        let granted = slot.grant.load(Acquire) == self.grant;
        if !granted {
            slot.busy.store(0, Release);
        }
        granted
    }

    /// Counts.
    #[inline(always)]
    fn count(&self, by: u64) {
        let counted = &self.slot().counted;
        let now = counted.load(Relaxed).wrapping_add(by);
        counted.store(now, Relaxed);
        // SAFETY: a lane of a counter in a segment that the interface keeps mapped.
        unsafe { &*self.lane }.store(now, Release);
    }

    /// One more put, for the registers.
    #[inline(always)]
    fn note(&self, bytes: u64) {
        let slot = self.slot();
        slot.puts.store(slot.puts.load(Relaxed).wrapping_add(1), Relaxed);
        slot.bytes.store(slot.bytes.load(Relaxed).wrapping_add(bytes), Relaxed);
    }

    #[inline(always)]
    fn leave(&self) {
        self.slot().busy.store(0, Release);
    }

    #[inline(always)]
    fn slot(&self) -> &Lease {
        // SAFETY: a lease in a segment that the interface keeps mapped; who has a grant has a slot.
        unsafe { &*self.slot }
    }
}

impl Interface {
    /// Keeps this process's NIC going, and now and then sees whether the target's owner is still there.
    #[cold]
    fn look_around_from(&self, target: &Endpoint, puts: u64) -> bool {
        self.progress();
        puts % PUTS_PER_LOOK != PUTS_PER_LOOK - 1 || target.look_alive()
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
        if target.routes.at(put.portal).is_due() {
            self.ask(target, put, told);
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(&self, target: &Endpoint, put: &Put, told: &Told) {
        if !asymmetric::register() || target.own {
            return;
        }
        target.routes.at(put.portal).take(|route: &mut Route| {
            let before = (route.lease != NONE).then_some(route.lease);
            let mut guard = target.segment.lock(self.word);
            let bell = guard.signals.doorbell;
            if bell.mail_tail.load(Relaxed) == bell.mail_head.load(Relaxed) {
                target.routes.clear_parcels();
            }
            let terms = guard.lease(put, self.word, before, Identity::word_is_alive)?;
            route.lease = terms.lent.lease;
            let address = terms.start.wrapping_add(put.remote_offset);
            if target.in_place(address, put.length, self.config.path).is_none() {
                // Its memory is elsewhere: others may have the lane.
                guard.call_back(route.lease);
                return None;
            }
            drop(guard);
            *route = Route::new(target, put, &terms, self.config.path)?;
            Some(())
        });
        let Some(silent) = target.routes.at(put.portal).held().map(|route| route.silent) else { return };
        let has_tally = || self.tally(told.counter).held().is_some_and(|tally| tally.is_of(told.counter));
        if told.times(silent) != 0 && !has_tally() {
            self.tally(told.counter).take(|tally: &mut Tally| {
                let before = (tally.lease != NONE).then_some(tally.lease);
                let lent = self.own.segment.lock(self.word).lend_lane(
                    told.counter,
                    self.word,
                    before,
                    Identity::word_is_alive,
                )?;
                let held = Held::new(&self.signals(), &lent)?;
                *tally = Tally { lease: lent.lease, held, counter: told.counter };
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
            let lease = unsafe { &*mine.held.get() }.lease;
            if lease != NONE && target.is_ready() {
                target.segment.lock(self.word).give_up_lease(lease);
            }
        }
    }
}

impl Route {
    fn new(target: &Endpoint, put: &Put, terms: &Terms, path: crate::Path) -> Option<Route> {
        let memory = target.in_place(terms.start, terms.length, path).map_or(ptr::null_mut(), NonNull::as_ptr);
        let way = Way {
            held: Held::new(&target.segment.signals(), &terms.lent)?,
            match_bits: terms.match_bits,
            ignore_bits: terms.ignore_bits,
            memory,
            start: terms.start,
            length: terms.length,
            in_bytes: terms.in_bytes,
        };
        Some(Route {
            lease: terms.lent.lease,
            portal: put.portal,
            uid: put.uid,
            initiator: put.initiator,
            way,
            queue: terms.queue,
            user_ptr: terms.user_ptr,
            silent: terms.silent,
        })
    }
}

impl Tally {
    fn is_of(&self, counter: u32) -> bool {
        self.counter == counter && self.held.grant != 0
    }
}

impl Held {
    const NOTHING: Held = Held { grant: 0, slot: ptr::null(), lane: ptr::null() };

    fn new(signals: &Signals<'_>, lent: &Lent) -> Option<Held> {
        let slot = ptr::from_ref(signals.leases.get(lent.lease as usize)?);
        let lane = match lent.counter {
            NONE => ptr::null(),
            counter => ptr::from_ref(signals.counters.get(counter as usize)?.lanes.get(lent.lane)?),
        };
        Some(Held { grant: lent.grant, slot, lane })
    }
}

/// What a lease was called back of.
pub(crate) trait Losable {
    fn lease_held(&mut self) -> &mut Held;
}

impl Losable for Route {
    fn lease_held(&mut self) -> &mut Held {
        &mut self.way.held
    }
}

impl Losable for Tally {
    fn lease_held(&mut self) -> &mut Held {
        &mut self.held
    }
}

impl<T: Losable> Mine<T> {
    /// The lease with this grant was called back: if it is what this thread has here, it is nobody's now.
    #[cold]
    fn lose(&self, grant: u64) -> bool {
        let Some(held) = self.held().map(Losable::lease_held) else { return false };
        if held.grant == grant {
            held.grant = 0;
            self.thread.store(0, Release);
        }
        false
    }
}

impl<T> Mine<T> {
    /// What this thread has here.
    #[inline(always)]
    #[allow(clippy::mut_from_ref)]
    fn held(&self) -> Option<&mut T> {
        // SAFETY: this thread's alone. Callers of this file keep at most one borrow of each.
        (self.thread.load(Relaxed) == thread::word()).then(|| unsafe { &mut *self.held.get() })
    }

    /// Counts a put; whether it is time to ask.
    #[inline(always)]
    fn is_due(&self) -> bool {
        let streak = self.streak.load(Relaxed).wrapping_add(1);
        self.streak.store(streak, Relaxed);
        streak > self.patience.load(Relaxed).max(PATIENCE)
    }

    /// Takes it for this thread if nobody has it, and fills it; it is nobody's if that fails. It takes longer until the next.
    fn take(&self, fill: impl FnOnce(&mut T) -> Option<()>) {
        let patience = self.patience.load(Relaxed).max(PATIENCE / 4);
        self.patience.store((patience * 4).min(PATIENCE_MAX), Relaxed);
        self.streak.store(0, Relaxed);
        let own = thread::word();
        let holder = self.thread.load(Acquire);
        if holder != own && (holder != 0 || self.thread.compare_exchange(0, own, Acquire, Relaxed).is_err()) {
            return;
        }
        // SAFETY: this thread's alone now.
        if fill(unsafe { &mut *self.held.get() }).is_none() {
            self.thread.store(0, Release);
        }
    }
}

impl Routes {
    #[inline(always)]
    fn at(&self, portal: u32) -> &Mine<Route> {
        &self.routes[portal as usize % ROUTES]
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
        Tally { lease: NONE, held: Held::NOTHING, counter: NONE }
    }
}

impl Default for Route {
    fn default() -> Route {
        Route {
            lease: NONE,
            portal: NONE,
            uid: 0,
            initiator: 0,
            way: Way {
                held: Held::NOTHING,
                match_bits: 0,
                ignore_bits: 0,
                memory: ptr::null_mut(),
                start: 0,
                length: 0,
                in_bytes: false,
            },
            queue: NONE,
            user_ptr: 0,
            silent: false,
        }
    }
}

// ---- Calling leases back -----------------------------------------------------------------------------------------

/// Waits until none of the holders of these leases is in the middle of a put that it began before its grant went
/// ([`selvedge_nic::Recall`]).
pub(crate) fn recall(leases: &[Lease], called: u64) {
    if !asymmetric::heavy() {
        std::thread::sleep(UNFENCED_PAUSE);
    }
    for (_, lease) in (0..u64::BITS).zip(leases).filter(|(index, _)| called >> index & 1 != 0) {
        let mut looks = 0u32;
        while lease.busy.load(Acquire) != 0 {
            looks = looks.wrapping_add(1);
            match looks {
                0..SPINS => std::hint::spin_loop(),
                SPINS..YIELDS => std::thread::yield_now(),
                _ if looks % LOOKS_PER_QUESTION == 0 && !Identity::word_is_alive(lease.holder.load(Relaxed)) => break,
                _ => std::thread::sleep(NAP),
            }
        }
    }
}
