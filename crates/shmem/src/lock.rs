// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks (OpenSHMEM 1.6, "Distributed Locking Routines"): mutual exclusion in the order of arrival.
//!
//! The queue of Mellor-Crummey and Scott, in the `long` itself. Each PE's copy is that PE's node of the queue; one
//! PE's copy, the lock's home, also holds who is last. Which PE that is follows from where in its page the lock lies,
//! so all agree, and the locks of a program are spread over the PEs.
//!
//! | bytes | what | who writes it |
//! |---|---|---|
//! | 0..4 | `last`: who is last in the queue, 0 nobody. At home only | everyone, by swaps |
//! | 4..6 | `next`: who comes after this PE, 0 nobody yet | the one who comes after; this PE clears it |
//! | 6 | `turn`: the lock is this PE's | the one who had it before; this PE clears it |
//! | 7 | `busy`: this PE has the lock or waits for it | this PE |
//!
//! PEs are written as their number plus one.
//!
//! Invariants
//! 1. All of a lock is zero when it is free: what a program must begin with, and what it finds in the end.
//! 2. Who waits polls its own node, and the one who had the lock before wakes that PE only. However many wait, there
//!    is no traffic before the lock passes on, and nobody else is woken by it.
//! 3. What is changed by more than one PE (`last`) is only ever changed by atomics that all go one way: the
//!    processor's in place, the NIC's by commands. The other fields have one writer at a time.
//! 4. A lock is passed on after a quiet of the default context, with release; it is taken with acquire.
//! 5. Threads of one PE take turns for its node, in no promised order; across PEs the order is that of the swaps.
//!
//! Costs: taking or releasing a free lock is one atomic at home. Passing it on is two stores to another PE (`next`,
//! `turn`) and the waking of one, if it sleeps.

use std::ffi::{c_int, c_long};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16};

use selvedge_transport::nic::portals::operation::{Datatype, Operation};

use crate::amo::Word;
use crate::{Call, Ctx, Reach, Spot, World, check, order, wait, world};

const LAST: usize = 0;
const NEXT: usize = 4;
const TURN: usize = 6;
const BUSY: usize = 7;
/// No machine has smaller pages.
const PAGE_BYTES: usize = 4096;

/// A lock of the program, checked.
struct Lock {
    world: &'static World,
    call: Call,
    /// This PE's node.
    node: *mut u8,
    home: usize,
}

/// `shmem_set_lock`.
pub unsafe fn set(call: Call, lock: *mut c_long) {
    let Some(lock) = Lock::new(call, lock) else { return };
    if !lock.claim() {
        lock.world.wait(|| lock.claim().then_some(()));
    }
    let me = lock.name();
    let before = lock.swap_last(me);
    if before != 0 {
        lock.tell_next(before, me);
        lock.world.wait(|| (lock.turn().load(Acquire) != 0).then_some(()));
        lock.turn().store(0, Relaxed);
    }
}

/// `shmem_test_lock`: 0 if it is ours now, else 1.
pub unsafe fn test(call: Call, lock: *mut c_long) -> c_int {
    let Some(lock) = Lock::new(call, lock) else { return 1 };
    if lock.claim() {
        if lock.looks_free() && lock.swap_last_if(0, lock.name()) == 0 {
            return 0;
        }
        lock.unclaim();
    }
    wait::missed(lock.world);
    1
}

/// `shmem_clear_lock`.
pub unsafe fn clear(call: Call, lock: *mut c_long) {
    let Some(lock) = Lock::new(call, lock) else { return };
    if lock.busy().load(Relaxed) == 0 {
        check::refuse(call, "lock", format_args!("{:p}: not held by this PE", lock.node));
        return;
    }
    order::quiet(call, Ctx::DEFAULT);
    let me = lock.name();
    let mut next = lock.next();
    if next == 0 {
        if lock.swap_last_if(me, 0) == me {
            return lock.unclaim();
        }
        // Somebody is in the queue and has not yet told us who.
        next = lock.world.wait(|| Some(lock.next()).filter(|&next| next != 0));
    }
    lock.forget_next();
    lock.pass_to(next);
    lock.unclaim();
}

impl Lock {
    fn new(call: Call, lock: *mut c_long) -> Option<Lock> {
        let world = world(call)?;
        wait::own(world, call, "lock", lock, 1)?;
        Some(Lock { world, call, node: lock.cast(), home: home(lock as usize, world.n_pes()) })
    }

    /// This PE's name in queues.
    fn name(&self) -> u32 {
        self.world.me() as u32 + 1
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        // SAFETY: within this PE's node, which is symmetric memory.
        unsafe { AtomicU8::from_ptr(self.node.add(at)) }
    }

    fn turn(&self) -> &AtomicU8 {
        self.byte(TURN)
    }

    fn busy(&self) -> &AtomicU8 {
        self.byte(BUSY)
    }

    /// Takes this PE's node; false while another thread of it has it.
    fn claim(&self) -> bool {
        self.busy().compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    fn unclaim(&self) {
        self.busy().store(0, Release);
        self.world.ring(self.world.me());
    }

    fn next_field(&self) -> &AtomicU16 {
        // SAFETY: within this PE's node, at an even address.
        unsafe { AtomicU16::from_ptr(self.node.add(NEXT).cast()) }
    }

    /// Who comes after this PE; 0 if nobody has said so yet.
    fn next(&self) -> u32 {
        let seen = self.next_field().load(Acquire);
        if seen == 0 {
            return 0;
        }
        match self.reach(NEXT, size_of::<u16>(), self.world.me()) {
            Some(Reach::Nic(spot)) => {
                // The kernel may write the two bytes one by one, but under the NIC's lock.
                let mut next = 0u16;
                // SAFETY: the result lies on this stack, and the command is complete on return.
                unsafe { self.world.nic_get(Ctx::DEFAULT, spot, (&raw mut next).cast(), size_of::<u16>()) };
                next.into()
            }
            _ => seen.into(),
        }
    }

    fn forget_next(&self) {
        self.next_field().store(0, Relaxed);
    }

    /// Tells the one who was last (by its name) that we come after it.
    fn tell_next(&self, before: u32, me: u32) {
        let pe = before as usize - 1;
        let next = me as u16;
        match self.reach(NEXT, size_of::<u16>(), pe) {
            Some(Reach::InPlace(at)) => {
                // SAFETY: within the node of `pe`, at an even address.
                unsafe { AtomicU16::from_ptr(at.cast()) }.store(next, Release);
                self.world.ring(pe);
            }
            // SAFETY: the value may be reused on return.
            Some(Reach::Nic(spot)) => unsafe {
                self.world.nic_put(Ctx::DEFAULT, spot, (&raw const next).cast(), size_of::<u16>());
            },
            None => {}
        }
    }

    /// Gives the lock to the next (by its name).
    fn pass_to(&self, next: u32) {
        let pe = next as usize - 1;
        let yes = 1u8;
        match self.reach(TURN, 1, pe) {
            Some(Reach::InPlace(at)) => {
                // SAFETY: within the node of `pe`.
                unsafe { AtomicU8::from_ptr(at) }.store(yes, Release);
                self.world.ring(pe);
            }
            // SAFETY: the value may be reused on return.
            Some(Reach::Nic(spot)) => unsafe { self.world.nic_put(Ctx::DEFAULT, spot, &raw const yes, 1) },
            None => {}
        }
    }

    /// Makes `name` the last; who was.
    fn swap_last(&self, name: u32) -> u32 {
        match self.reach(LAST, size_of::<u32>(), self.home) {
            // SAFETY: within the node of the home, aligned.
            Some(Reach::InPlace(at)) => unsafe { Word::swap(at.cast(), name) },
            Some(Reach::Nic(spot)) => self.by_command(spot, Operation::Swap, name, 0),
            None => 0,
        }
    }

    /// Makes `name` the last where that is `cond`; who was.
    fn swap_last_if(&self, cond: u32, name: u32) -> u32 {
        match self.reach(LAST, size_of::<u32>(), self.home) {
            // SAFETY: within the node of the home, aligned.
            Some(Reach::InPlace(at)) => unsafe { Word::compare_swap(at.cast(), cond, name) },
            Some(Reach::Nic(spot)) => self.by_command(spot, Operation::CompareSwap, name, cond),
            None => cond,
        }
    }

    /// Whether the lock looks free from here, where that costs less than to try.
    fn looks_free(&self) -> bool {
        match self.reach(LAST, size_of::<u32>(), self.home) {
            // SAFETY: within the node of the home, aligned.
            Some(Reach::InPlace(at)) => unsafe { <u32 as Word>::load(at.cast()) == 0 },
            _ => true,
        }
    }

    fn by_command(&self, spot: Spot, operation: Operation, name: u32, cond: u32) -> u32 {
        let mut old = 0u32;
        let (operand, comparand) = ((&raw const name).cast(), (&raw const cond).cast());
        // SAFETY: operands and result lie on this stack, and the command is complete on return.
        unsafe {
            let into = (&raw mut old).cast();
            self.world.nic_fetch(Ctx::DEFAULT, spot, operation, Datatype::Uint32, operand, comparand, into);
        }
        old
    }

    /// Where a field lies at a PE. The whole lock was found to be symmetric, so it always lies somewhere.
    fn reach(&self, field: usize, bytes: usize, pe: usize) -> Option<Reach> {
        self.world.reach(self.call, "lock", self.node.wrapping_add(field), bytes, pe)
    }
}

/// The home of a lock. A symmetric object lies at its own address in each PE, but always at the same place of a page.
fn home(address: usize, n_pes: usize) -> usize {
    let in_page = address % PAGE_BYTES / size_of::<c_long>();
    let mixed = (in_page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * n_pes as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap_and_fill_the_long() {
        let fields = [(LAST, 4), (NEXT, 2), (TURN, 1), (BUSY, 1)];
        let mut at = 0;
        for (field, bytes) in fields {
            assert_eq!(field, at);
            assert_eq!(field % bytes, 0);
            at += bytes;
        }
        assert_eq!(at, size_of::<c_long>());
    }

    #[test]
    fn homes_are_pes_and_neighbours_are_spread() {
        for n_pes in [1, 2, 3, 32, 128] {
            let mut locks = vec![0; n_pes];
            for at in (0..PAGE_BYTES).step_by(8) {
                assert_eq!(home(at, n_pes), home(0x7f12_3456_7000 + at, n_pes));
                locks[home(at, n_pes)] += 1;
            }
            let fair = PAGE_BYTES / 8 / n_pes;
            assert!(locks.iter().all(|locks| (fair / 2..=fair * 2).contains(locks)), "{n_pes}: {locks:?}");
        }
    }
}
