// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Grants: revocable permissions to put without the NIC's lock.
//!
//! A sender that puts repeatedly to the only entry of a list may get a *grant*. With a grant it stores the bytes and
//! counts the put in a lane: a word of the target's counter that only this sender stores to ([`super::counters`]). A
//! process may also get a lane of its own counter, for the puts that its own descriptors count.
//!
//! A grant for an entry that posts events and does not count has no lane. Its puts take the lock, check the grant word,
//! and post the event without a search.
//!
//! # Revoking a grant
//!
//! A transition that invalidates a grant needs it revoked first: another entry on that list, the entry unlinked, the
//! portal table entry disabled, an operation armed on the counter, the counter freed. The transition checks this when
//! it starts. It clears the grant word and returns [`Revoking`]; the rest of the state is unchanged. Its home then
//! waits without the lock, reports the end of the wait ([`Grants::finish_revoking`]), and retries the transition.
//!
//! ```text
//! sender, for each put                          process that needs the grant revoked
//!   busy = 1                                      locked: grant word = 0, marked as revoking, Err(Revoking)
//!   (compiler fence)                              a full fence on every core
//!   is the grant word its number?                 wait until busy = 0, or the holder is dead
//!     no: busy = 0; put under the lock            locked: finish_revoking(), then the transition
//!   bytes; lane + 1; busy = 0
//! ```
//!
//! Either the sender reads that its grant word is 0, or the waiting process reads that the sender is busy. A wait is as
//! long as one put, so homes limit the length of such puts.
//!
//! # Invariants
//!
//! 1. The sender alone stores to the first two lines of its [`Grant`]; holders of the lock alone store to the rest. A
//!    slot belongs to its process until the process ends or frees the slot, even while its grant is revoked. So no
//!    other process clears `busy` of a live process.
//! 2. `Control::granted` names the grants that were given and have not ended; `Control::revoking` names those of them
//!    whose word is 0. A lane belongs to its grant until the grant ends.
//! 3. While a grant is given or being revoked, its entry and counter do not change. A transition that changes them ends
//!    the grant first, under the same hold of the lock. So another thread may run any transition while a home waits.
//! 4. While a grant is being revoked, no grant is given for its portal table entry or its counter. So the retry of a
//!    home that waited succeeds, unless another transition came first.
//! 5. [`Grants::finish_revoking`] ends a grant only if its number is not above the last number that was given when its
//!    word was cleared. So a home that waited long cannot end a later grant in the same slot.
//! 6. If a process dies while it waits, the grant stays marked as revoking. The next transition that needs it revoked,
//!    or that would give a grant in its place, gets [`Revoking`], and its home waits.
//! 7. A holder that died in the middle of a put has not counted the put, so the message has not arrived.
//! 8. A portal table entry with flow control has no grants. Nor has an entry that a message may use up. So a delivery
//!    never needs a grant revoked.
//!
//! Cost: a revocation is one system call, and an interrupt to each core that runs a process of the job. So a home asks
//! for a grant only after many puts without a change, and less often after each revocation.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::constants::{list, options};
use super::errors::{GrantError, Revoking};
use super::event::EventTemplate;
use super::put::{Put, PutHandling};
use crate::handle::NONE;
use crate::nic::Nic;
use crate::signals::{GRANTS, Grant};
use crate::tables::{GRANTED, entry, kind, slot};

/// Names with which a sender puts or counts by a grant.
#[derive(Clone, Copy, Debug)]
pub struct GrantHandle {
    /// The grant's slot, and its number.
    pub slot: u32,
    pub number: u64,
    /// The index of the counter, and the lane. NONE for a grant whose puts post events.
    pub counter: u32,
    pub lane: usize,
}

/// The puts that a grant allows.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub handle: GrantHandle,
    /// The entry's memory, in its owner's addresses, and the puts that it accepts.
    pub start: u64,
    pub length: u64,
    pub match_bits: u64,
    pub ignore_bits: u64,
    /// The queue for its events, or NONE, and the fields that all these events share.
    pub queue: u32,
    pub template: EventTemplate,
    /// Bytes are counted, not puts.
    pub in_bytes: bool,
    /// The entry declines acknowledgements.
    pub ack_disabled: bool,
}

// ---- Giving ------------------------------------------------------------------------------------------------------

/// The grants of a NIC.
pub struct Grants<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl<'n> Grants<'n, '_> {
    /// Gives process `holder` a grant for puts like this one, if possible in its earlier slot (`before`). A grant still
    /// in that slot ends: none of the holder's threads may be in the middle of a put by it.
    pub fn give_put(
        self,
        put: &Put,
        holder: u64,
        before: Option<u32>,
        alive: impl Fn(u64) -> bool,
    ) -> Result<Terms, GrantError> {
        let (entry, queue) = self.nic.match_queue().only_entry_for(put).ok_or(GrantError::Unavailable)?;
        let record = *self.nic.tables.entries.get(entry as usize).ok_or(GrantError::Unavailable)?;
        let counter = match PutHandling::of(&record, queue, put.uid) {
            PutHandling { plain: true, uses_up: false, counts: true, .. } => Some(record.counter),
            PutHandling { plain: true, uses_up: false, posts: true, .. } => None,
            _ => return Err(GrantError::Unavailable),
        };
        let handle = self.nic.grants().give(put.portal, counter, holder, before, alive)?;
        Ok(Terms {
            handle,
            start: record.start,
            length: record.length,
            match_bits: record.match_bits,
            ignore_bits: record.ignore_bits,
            queue: if counter.is_none() { queue } else { NONE },
            template: EventTemplate::new(&put.event(0, record.user_ptr, put.length)),
            in_bytes: record.options & options::EVENT_CT_BYTES != 0,
            ack_disabled: record.options & options::ACK_DISABLE != 0,
        })
    }

    /// Gives a process a lane of its own counter, in which it counts its descriptors' puts. `before` as in
    /// [`Grants::give_put`].
    pub fn give_lane(
        self,
        counter: u32,
        holder: u64,
        before: Option<u32>,
        alive: impl Fn(u64) -> bool,
    ) -> Result<GrantHandle, GrantError> {
        self.nic.grants().give(NONE, Some(counter), holder, before, alive)
    }

    /// All steps that may fail come before the first change.
    fn give(
        self,
        portal: u32,
        counter: Option<u32>,
        holder: u64,
        before: Option<u32>,
        alive: impl Fn(u64) -> bool,
    ) -> Result<GrantHandle, GrantError> {
        // A tap is shown every put, so there are no grants then.
        if self.nic.tap.is_set() {
            return Err(GrantError::Unavailable);
        }
        let index = match counter {
            Some(counter) => {
                let (index, book) = self.nic.counters().book(counter).ok_or(GrantError::Unavailable)?;
                if book.armed_head != NONE {
                    return Err(GrantError::Unavailable);
                }
                index as u32
            }
            None => NONE,
        };
        let at = self.nic.grants().find_slot(holder, before, &alive).ok_or(GrantError::Unavailable)?;
        let lane = if index == NONE {
            0
        } else {
            self.nic.grants().find_lane(index, at, &alive).ok_or(GrantError::Unavailable)?
        };
        let same = |word: u32, wanted: u32| wanted != NONE && word == wanted;
        self.nic.grants().check_not_revoking(|slot, grant| {
            let is_holders = slot == at && grant.holder.load(Relaxed) == holder;
            is_holders || same(grant.portal.load(Relaxed), portal) || same(grant.counter.load(Relaxed), index)
        })?;
        let grants = self.nic.signals.grants;
        let grant = grants.get(at as usize).ok_or(GrantError::Unavailable)?;
        self.nic.grants().end_grants(1 << at);
        if grant.holder.load(Relaxed) != holder {
            self.nic.grants().free_slot(at);
        }
        if let Some(owner) = self.nic.tables.counters.get(index as usize).map(|book| book.lane_owners[lane]) {
            if owner != 0 {
                // The holder is dead.
                self.nic.grants().free_slot(owner & !GRANTED);
            }
        }
        let control = &mut *self.nic.tables.control;
        control.grants_given = control.grants_given.wrapping_add(1).max(1);
        let number = control.grants_given;
        grant.holder.store(holder, Relaxed);
        grant.portal.store(portal, Relaxed);
        grant.counter.store(index, Relaxed);
        grant.number.store(number, Relaxed);
        control.granted |= 1 << at;
        if let (Some(book), Some(counter)) =
            (self.nic.tables.counters.get_mut(index as usize), self.nic.signals.counters.get(index as usize))
        {
            book.lane_owners[lane] = GRANTED | at;
            counter.give(lane);
            grant.counted.store(counter.lanes[lane].load(Relaxed), Relaxed);
        }
        grant.word.store(number, Release);
        Ok(GrantHandle { slot: at, number, counter: index, lane })
    }

    /// The process's earlier slot, a free slot, or the slot of a process that has ended.
    fn find_slot(self, holder: u64, before: Option<u32>, alive: impl Fn(u64) -> bool) -> Option<u32> {
        let grants = self.nic.signals.grants;
        let holder_of = |slot: u32| Some(grants.get(slot as usize)?.holder.load(Relaxed));
        let mut all = 0..grants.len().min(GRANTS) as u32;
        before
            .filter(|&slot| (slot as usize) < GRANTS && holder_of(slot) == Some(holder))
            .or_else(|| all.clone().find(|&slot| holder_of(slot) == Some(0)))
            .or_else(|| all.find(|&slot| holder_of(slot).is_some_and(|holder| !alive(holder))))
    }

    /// A free lane of a counter, the lane of the grant in this slot, or the lane of a process that has ended. None:
    /// senders have lanes permanently.
    fn find_lane(self, counter: u32, slot: u32, alive: impl Fn(u64) -> bool) -> Option<usize> {
        let owners = self.nic.tables.counters.get(counter as usize)?.lane_owners;
        if owners.iter().any(|&owner| owner != 0 && owner & GRANTED == 0) {
            return None;
        }
        let grants = self.nic.signals.grants;
        let is_dead = |&owner: &u32| {
            grants.get((owner & !GRANTED) as usize).is_some_and(|grant| !alive(grant.holder.load(Relaxed)))
        };
        owners
            .iter()
            .position(|&owner| owner == 0 || owner == GRANTED | slot)
            .or_else(|| owners.iter().position(is_dead))
    }

    /// Ends a grant and frees its slot, without a wait: its holder has ended, or gives the grant up and is not in the
    /// middle of a put.
    pub fn free_slot(self, slot: u32) {
        let Some(grant) = self.nic.signals.grants.get(slot as usize).filter(|_| (slot as usize) < GRANTS) else {
            return;
        };
        self.nic.grants().end_grants(1 << slot);
        // This store comes first: a free slot must not be busy, even if this process dies here.
        grant.busy.store(0, Relaxed);
        grant.holder.store(0, Release);
    }

    /// As [`Grants::free_slot`], but the slot stays with its holder.
    pub fn end(self, slot: u32) {
        if (slot as usize) < GRANTS {
            self.nic.grants().end_grants(1 << slot);
        }
    }

    /// Posts the event of a put by a grant without a lane. The entry's memory at `start` has the whole put. Returns the
    /// first word of the block for the next event.
    #[inline(always)]
    pub fn post(self, queue: u32, template: &EventTemplate, put: &Put, start: u64) -> Option<&'n AtomicU64> {
        self.nic.queues().post_from_template(queue, template, put, start);
        self.nic.queues().next_block(queue)
    }
}

// ---- Revoking ----------------------------------------------------------------------------------------------------

impl Grants<'_, '_> {
    /// Revokes the grants at a portal table entry. One load if the NIC has no grants.
    #[inline(always)]
    pub fn revoke_at_portal(self, portal: u32) -> Result<(), Revoking> {
        if self.nic.tables.control.granted == 0 {
            return Ok(());
        }
        self.nic.grants().revoke_where(|grant| grant.portal.load(Relaxed) == portal)
    }

    /// Revokes the grants that count at a counter.
    #[inline(always)]
    pub fn revoke_at_counter(self, counter: u32) -> Result<(), Revoking> {
        if self.nic.tables.control.granted == 0 {
            return Ok(());
        }
        let (index, _) = self.nic.signals.encodings.counters.decode(counter);
        self.nic.grants().revoke_where(|grant| grant.counter.load(Relaxed) == index)
    }

    /// Revokes the grants that a triggered operation on an entry invalidates.
    #[inline(always)]
    pub(super) fn revoke_for(self, operation: u32) -> Result<(), Revoking> {
        if self.nic.tables.control.granted == 0 {
            return Ok(());
        }
        let Some(operation) = self.nic.tables.triggered.get(operation as usize) else { return Ok(()) };
        let Some(index) = self.nic.entry_index(operation.object) else { return Ok(()) };
        let Some(record) = self.nic.tables.entries.get(index as usize) else { return Ok(()) };
        let portal = u32::from(record.portal);
        match (operation.command.kind, slot::status(record.slot)) {
            (kind::APPEND, entry::RESERVED) if operation.list != u32::from(list::OVERFLOW) => {
                self.nic.grants().revoke_at_portal(portal)
            }
            (kind::UNLINK, entry::PRIORITY) => self.nic.grants().revoke_at_portal(portal),
            _ => Ok(()),
        }
    }

    /// Revokes all grants.
    pub fn revoke_all(self) -> Result<(), Revoking> {
        self.nic.grants().revoke_where(|_| true)
    }

    /// Clears the words of the grants for which `picks` is true. Grants whose puts take the lock end at once, because
    /// no such put is under way. For the others the home must wait until their senders are not busy.
    #[cold]
    fn revoke_where(self, picks: impl Fn(&Grant) -> bool) -> Result<(), Revoking> {
        let (mut awaited, mut ended) = (0, 0);
        for (slot, grant) in
            select(self.nic.signals.grants, self.nic.tables.control.granted).filter(|(_, grant)| picks(grant))
        {
            grant.word.store(0, SeqCst);
            let counts = grant.counter.load(Relaxed) != NONE;
            *if counts { &mut awaited } else { &mut ended } |= 1 << slot;
        }
        self.nic.grants().end_grants(ended);
        self.nic.tables.control.revoking |= awaited;
        self.nic.grants().result(awaited)
    }

    /// An error if a grant for which `picks` is true is being revoked.
    fn check_not_revoking(self, picks: impl Fn(u32, &Grant) -> bool) -> Result<(), Revoking> {
        let revoking = self.nic.tables.control.revoking;
        if revoking == 0 {
            return Ok(());
        }
        let picked = select(self.nic.signals.grants, revoking).filter(|&(slot, grant)| picks(slot, grant));
        self.nic.grants().result(picked.fold(0, |bits, (slot, _)| bits | 1 << slot))
    }

    fn result(self, grants: u64) -> Result<(), Revoking> {
        if grants == 0 { Ok(()) } else { Err(Revoking { grants, last_number: self.nic.tables.control.grants_given }) }
    }

    /// Reports that the home has waited: no sender is in the middle of a put by these grants.
    pub fn finish_revoking(self, revoking: &Revoking) {
        let is_same = |grant: &Grant| grant.number.load(Relaxed) <= revoking.last_number;
        let waited = select(self.nic.signals.grants, revoking.grants & self.nic.tables.control.revoking);
        self.nic
            .grants()
            .end_grants(waited.filter(|(_, grant)| is_same(grant)).fold(0, |bits, (slot, _)| bits | 1 << slot));
    }

    /// Ends the grants whose senders are not in the middle of a put. Their lanes become free, and keep their values.
    fn end_grants(self, grants: u64) {
        let grants = grants & self.nic.tables.control.granted;
        if grants == 0 {
            return;
        }
        for (slot, grant) in select(self.nic.signals.grants, grants) {
            grant.word.store(0, SeqCst);
            if let Some(book) = self.nic.tables.counters.get_mut(grant.counter.load(Relaxed) as usize) {
                book.lane_owners.iter_mut().filter(|owner| **owner == GRANTED | slot).for_each(|owner| *owner = 0);
            }
        }
        self.nic.tables.control.granted &= !grants;
        self.nic.tables.control.revoking &= !grants;
    }

    /// Repairs the grants after a holder of the lock has died. All grants are then being revoked, and only they own
    /// lanes.
    ///
    /// No wait is needed. The dead process ended the grants before it changed their entry or counter, so no remaining
    /// grant depends on the change. And rebuilding the tables changes nothing that a put in progress stores to.
    pub(super) fn recover(self) {
        self.nic.tables.control.revoking = 0;
        let _ = self.nic.grants().revoke_all();
        let (revoking, grants) = (self.nic.tables.control.revoking, self.nic.signals.grants);
        for (index, book) in (0..).zip(self.nic.tables.counters.iter_mut()) {
            let keeps = |owner: u32| {
                owner & GRANTED == 0 || {
                    let slot = owner & !GRANTED;
                    let of = |grant: &Grant| grant.counter.load(Relaxed) == index;
                    revoking.checked_shr(slot).is_some_and(|bits| bits & 1 != 0)
                        && grants.get(slot as usize).is_some_and(of)
                }
            };
            book.lane_owners.iter_mut().filter(|owner| !keeps(**owner)).for_each(|owner| *owner = 0);
        }
    }
}

/// The grants whose bits are set, with the numbers of their slots.
fn select(grants: &[Grant], mut bits: u64) -> impl Iterator<Item = (u32, &Grant)> {
    core::iter::from_fn(move || {
        let slot = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        grants.get(slot as usize).map(|grant| (slot, grant))
    })
}
