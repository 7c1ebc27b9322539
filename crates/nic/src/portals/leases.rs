// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Leases: puts without the lock, for as long as nothing changes.
//!
//! A sender that puts again and again to the entry that is alone on its list, told by a count only, may be given a *lease*: it
//! then stores the bytes, and counts in a lane of the counter's line that is lent to it ([`super::counters`]). Whoever is about to
//! change what the lease stands on (another entry on that list, the entry or its portal table entry gone or disabled, an
//! operation armed on the counter, the counter freed) first calls it back.
//!
//! ```text
//! sender, for each put                          holder of the lock, once
//!   busy = 1                                      grant = 0
//!   (compiler fence)                              a full fence on every core ([`crate::Recall`])
//!   grant as it was given? else busy = 0, lock    wait until busy = 0
//!   bytes; lane + 1; busy = 0                     change
//! ```
//!
//! A lease for an entry that posts events and does not count is of the other kind: its puts take the lock, look whether the grant is still
//! there, and write the event without finding anything anew.
//!
//! Either the sender sees that the grant is gone, or the caller sees it busy and waits, as long as one put takes: homes bound its length.
//!
//! Invariants
//! 1. A lease's first two lines are stored by its holder only, the rest by holders of the lock only. It stays its process's when it
//!    is called back, until that ends or gives it up: so nobody else clears `busy`.
//! 2. `Control::leases` names all that are out, also while they are called back: who finds the lock's holder dead calls
//!    them all.
//! 3. A holder that died in the middle of a put has not counted it, so the message has not arrived.
//!
//! Cost: a put some 135 instructions, where the lock's way takes 420; a call one system call and an interrupt to each core that
//! runs a process of the job. So leases are given after many puts that found nothing changed, and more seldom each time.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Relaxed, Release, SeqCst};

use super::counters::LEASED;
use super::events::Stamp;
use super::express::{Manner, Put};
use super::options;
use crate::Nic;
use crate::handle::NONE;
use crate::signals::LEASES;

/// A lane of a counter's line, lent.
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    /// Which of the NIC's leases it is, and the number of its grant.
    pub lease: u32,
    pub grant: u64,
    /// The counter, by its index, and the lane of its line. NONE: of a lease whose puts post.
    pub counter: u32,
    pub lane: usize,
}

/// What a lease allows.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub lent: Lent,
    /// The entry's memory, in its owner's addresses, and what puts it accepts.
    pub start: u64,
    pub length: u64,
    pub match_bits: u64,
    pub ignore_bits: u64,
    /// Where its events go, or NONE, and what they have in common.
    pub queue: u32,
    pub stamp: Stamp,
    /// Bytes are counted, not puts.
    pub in_bytes: bool,
    /// The entry declines acknowledgements.
    pub silent: bool,
}

impl Nic<'_> {
    /// Gives a lease for puts like this one to the process `holder`, preferably the one that it had (`before`). None: they do not
    /// go the express way, are told both by an event and by a count or by neither, or there is no lane or lease left.
    pub fn lease(&mut self, put: &Put, holder: u64, before: Option<u32>, alive: impl Fn(u64) -> bool) -> Option<Terms> {
        let (entry, queue) = self.sole_for(put)?;
        let record = *self.tables.entries.get(entry as usize)?;
        let counter = match Manner::of(&record, queue, put.uid) {
            Manner { plain: true, once: false, counts: true, .. } => Some(record.counter),
            Manner { plain: true, once: false, posts: true, .. } => None,
            _ => return None,
        };
        let lent = self.lend(put.portal, counter, holder, before, alive)?;
        Some(Terms {
            lent,
            start: record.start,
            length: record.length,
            match_bits: record.match_bits,
            ignore_bits: record.ignore_bits,
            queue: if counter.is_none() { queue } else { NONE },
            stamp: Stamp::new(put, record.user_ptr),
            in_bytes: record.options & options::EVENT_CT_BYTES != 0,
            silent: record.options & options::ACK_DISABLE != 0,
        })
    }

    /// Lends a lane of a counter to its own process, which counts there what its descriptors' puts are told of.
    pub fn lend_lane(
        &mut self,
        counter: u32,
        holder: u64,
        before: Option<u32>,
        alive: impl Fn(u64) -> bool,
    ) -> Option<Lent> {
        self.lend(NONE, Some(counter), holder, before, alive)
    }

    fn lend(
        &mut self,
        portal: u32,
        counter: Option<u32>,
        holder: u64,
        before: Option<u32>,
        alive: impl Fn(u64) -> bool,
    ) -> Option<Lent> {
        if let Some(counter) = counter {
            if self.counter_book(counter)?.1.armed_head != NONE {
                return None;
            }
        }
        let lease = self.free_lease(holder, before, &alive)?;
        let counted = match counter {
            Some(counter) => Some((counter, self.free_lane(counter, &alive)?)),
            None => None,
        };
        let slot = self.signals.leases.get(lease as usize)?;
        let (mut index, mut lane) = (NONE, 0);
        if let Some((counter, free)) = counted {
            let (at, book) = self.counter_book(counter)?;
            book.lane_owners[free] = LEASED | lease;
            (index, lane) = (at as u32, free);
            let counter = self.signals.counters.get(at)?;
            counter.give(lane);
            slot.counted.store(counter.lanes[lane].load(Relaxed), Relaxed);
        }
        let control = &mut *self.tables.control;
        control.leases |= 1 << lease;
        control.grants = control.grants.wrapping_add(1).max(1);
        slot.holder.store(holder, Relaxed);
        slot.portal.store(portal, Relaxed);
        slot.counter.store(index, Relaxed);
        slot.grant.store(control.grants, Release);
        Some(Lent { lease, grant: control.grants, counter: index, lane })
    }

    /// A lane of a counter that is nobody's, or that a process left that has ended. None where senders have lanes for good.
    fn free_lane(&mut self, counter: u32, alive: impl Fn(u64) -> bool) -> Option<usize> {
        let owners = self.counter_book(counter)?.1.lane_owners;
        if owners.iter().any(|&owner| owner != 0 && owner & LEASED == 0) {
            return None;
        }
        owners.iter().position(|&owner| owner == 0).or_else(|| {
            let leases = self.signals.leases;
            let dead = |owner: &u32| {
                leases.get((owner & !LEASED) as usize).is_some_and(|lease| !alive(lease.holder.load(Relaxed)))
            };
            let lane = owners.iter().position(dead)?;
            self.give_up_lease(owners[lane] & !LEASED);
            // Not another's: lanes change hands under the lock only.
            (self.counter_book(counter)?.1.lane_owners[lane] == 0).then_some(lane)
        })
    }

    /// The holder's lease from before, one that is nobody's, or one of a process that has ended.
    fn free_lease(&mut self, holder: u64, before: Option<u32>, alive: impl Fn(u64) -> bool) -> Option<u32> {
        let leases = self.signals.leases;
        let is_held_by =
            |lease: &u32, who: u64| leases.get(*lease as usize).is_some_and(|l| l.holder.load(Relaxed) == who);
        let all = 0..leases.len().min(LEASES) as u32;
        let known =
            before.filter(|lease| is_held_by(lease, holder)).or_else(|| all.clone().find(|lease| is_held_by(lease, 0)));
        if let Some(lease) = known {
            self.call_back(lease);
            return Some(lease);
        }
        let dead = |lease: &u32| leases.get(*lease as usize).is_some_and(|l| !alive(l.holder.load(Relaxed)));
        let lease = all.into_iter().find(dead)?;
        self.give_up_lease(lease);
        Some(lease)
    }

    /// Calls one lease back. It stays its holder's.
    pub fn call_back(&mut self, lease: u32) {
        self.recall_where(|index, _, _| index == lease);
    }

    /// A lease's holder has ended, or wants it no more: it is nobody's.
    pub fn give_up_lease(&mut self, lease: u32) {
        self.call_back(lease);
        if let Some(slot) = self.signals.leases.get(lease as usize) {
            // First: a lease that is nobody's is not busy, whoever dies here.
            slot.busy.store(0, Relaxed);
            slot.holder.store(0, Release);
        }
    }

    /// Writes the event of a put by a lease that posts, all of which is in the entry's memory at `start`. Where the next will be written.
    #[inline(always)]
    pub fn post_leased(&mut self, queue: u32, stamp: &Stamp, put: &Put, start: u64) -> Option<&AtomicU64> {
        self.post_stamped(queue, stamp, put, start);
        self.next_block(queue)
    }

    /// Takes all of them back after a death, and the lanes of one that was about to be given.
    pub(super) fn reclaim_leases(&mut self) {
        self.recall_all();
        let owners = self.tables.counters.iter_mut().flat_map(|book| &mut book.lane_owners);
        owners.filter(|owner| **owner & LEASED != 0).for_each(|owner| *owner = 0);
    }

    /// Calls back the leases at a portal table entry. None is out again before the lock is released.
    #[inline(always)]
    pub(crate) fn recall_from_portal(&mut self, portal: u32) {
        if self.tables.control.leases != 0 {
            self.recall_where(|_, at, _| at == portal);
        }
    }

    /// Calls back the leases that count at a counter.
    #[inline(always)]
    pub(crate) fn recall_from_counter(&mut self, counter: u32) {
        if self.tables.control.leases != 0 {
            let (index, _) = self.signals.encodings.counters.decode(counter);
            self.recall_where(|_, _, at| at == index);
        }
    }

    /// Calls back all of them.
    pub fn recall_all(&mut self) {
        if self.tables.control.leases != 0 {
            self.recall_where(|_, _, _| true);
        }
    }

    /// Calls back the leases that `which` picks by index, portal and counter.
    #[cold]
    fn recall_where(&mut self, which: impl Fn(u32, u32, u32) -> bool) {
        let leases = self.signals.leases;
        let (mut called, mut counting) = (0, 0);
        for (index, slot) in (0..LEASES as u32).zip(leases) {
            let out = self.tables.control.leases >> index & 1 != 0;
            if out && which(index, slot.portal.load(Relaxed), slot.counter.load(Relaxed)) {
                slot.grant.store(0, SeqCst);
                called |= 1 << index;
                counting |= u64::from(slot.counter.load(Relaxed) != NONE) << index;
            }
        }
        if called == 0 {
            return;
        }
        if counting != 0 {
            (self.recall)(leases, counting);
        }
        for (index, slot) in (0..LEASES as u32).zip(leases) {
            if called >> index & 1 != 0 {
                if let Some(book) = self.tables.counters.get_mut(slot.counter.load(Relaxed) as usize) {
                    book.lane_owners.iter_mut().filter(|owner| **owner == LEASED | index).for_each(|owner| *owner = 0);
                }
            }
        }
        self.tables.control.leases &= !called;
    }
}
