// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Locks (OpenSHMEM 1.6, "Distributed Locking Routines"): mutual exclusion in the order of arrival.
//!
//! The queue lock of Mellor-Crummey and Scott, in the `long` itself. Each PE's copy of the lock is that PE's node of
//! the queue. The copy at the lock's tail PE also holds the tail of the queue. The tail PE follows from the lock's
//! place in its page, so all PEs agree on it, and a program's locks are spread over the PEs.
//!
//! | bytes | field | written by |
//! |---|---|---|
//! | 0..4 | `tail`: the last PE of the queue, 0 if it is empty. At the tail PE only | all PEs, by swaps |
//! | 4..6 | `next`: the PE after this one, 0 if none yet | the next PE; this PE clears it |
//! | 6 | `turn`: this PE has got the lock | the previous holder; this PE clears it |
//! | 7 | `busy`: this PE holds the lock or waits for it | this PE |
//!
//! Fields name a PE by its number plus one.
//!
//! Invariants
//! 1. A free lock is all zero, as the program has initialised it.
//! 2. A waiting PE polls its own node, and the previous holder wakes that PE only. However many PEs wait, there is no
//!    traffic before the lock passes on.
//! 3. Only `tail` is changed by more than one PE at a time. All PEs change it by the same kind of atomics: the
//!    processor's on mapped memory, the NIC's by commands. The other fields have one writer at a time.
//! 4. A lock is passed on after a quiet of the default context, with release; it is taken with acquire.
//! 5. Threads of one PE compete for its node, in no promised order. Across PEs the order is that of the swaps.
//!
//! Costs: taking or releasing a free lock is one atomic at the tail PE. Passing it on is two stores to another PE
//! (`next`, `turn`) and a wake-up if that PE sleeps.

use std::ffi::{c_int, c_long};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU16};

use selvedge_process::nic::arithmetic::{Datatype, Operation};

use crate::amo::Word;
use crate::check::{self, Call};
use crate::handles::Ctx;
use crate::world::address::{NicAddress, Reach};
use crate::world::{World, world};
use crate::{order, wait};

const TAIL: usize = 0;
const NEXT: usize = 4;
const TURN: usize = 6;
const BUSY: usize = 7;
/// The smallest page of any machine.
const PAGE_BYTES: usize = 4096;

/// A lock whose argument was checked.
struct Lock {
    world: &'static World,
    call: Call,
    node: *mut u8,
    tail_pe: usize,
}

/// `shmem_set_lock`.
pub unsafe fn set(call: Call, lock: *mut c_long) {
    let Some(lock) = Lock::new(call, lock) else { return };
    if !lock.claim() {
        lock.world.wait(|| lock.claim().then_some(()));
    }
    let me = lock.name();
    let before = lock.swap_tail(me);
    if before != 0 {
        lock.link_behind(before, me);
        lock.world.wait(|| (lock.turn().load(Acquire) != 0).then_some(()));
        lock.turn().store(0, Relaxed);
    }
}

/// `shmem_test_lock`: 0 if this PE has got the lock, else 1.
pub unsafe fn test(call: Call, lock: *mut c_long) -> c_int {
    let Some(lock) = Lock::new(call, lock) else { return 1 };
    if lock.claim() {
        if lock.looks_free() && lock.compare_swap_tail(0, lock.name()) == 0 {
            return 0;
        }
        lock.unclaim();
    }
    wait::after_failed_test(lock.world);
    1
}

/// `shmem_clear_lock`.
pub unsafe fn clear(call: Call, lock: *mut c_long) {
    let Some(lock) = Lock::new(call, lock) else { return };
    if lock.busy().load(Relaxed) == 0 {
        check::refuse(call, "lock", format_args!("{:p}: not held by this PE; only the holder may clear it", lock.node));
        return;
    }
    order::quiet(call, Ctx::DEFAULT);
    let me = lock.name();
    let mut next = lock.next();
    if next == 0 {
        if lock.compare_swap_tail(me, 0) == me {
            return lock.unclaim();
        }
        // The next PE is in the queue, and has not yet written itself into `next`.
        next = lock.world.wait(|| Some(lock.next()).filter(|&next| next != 0));
    }
    lock.clear_next();
    lock.pass_to(next);
    lock.unclaim();
}

impl Lock {
    fn new(call: Call, lock: *mut c_long) -> Option<Lock> {
        let world = world(call)?;
        wait::check_local(world, call, "lock", lock, 1)?;
        Some(Lock { world, call, node: lock.cast(), tail_pe: tail_pe(lock as usize, world.n_pes()) })
    }

    /// This PE's number in the fields.
    fn name(&self) -> u32 {
        self.world.me() as u32 + 1
    }

    fn byte(&self, at: usize) -> &AtomicU8 {
        // SAFETY: a field of the lock that `wait::check_local` has found. All PEs use atomics of this size.
        unsafe { AtomicU8::from_ptr(self.node.add(at)) }
    }

    fn turn(&self) -> &AtomicU8 {
        self.byte(TURN)
    }

    fn busy(&self) -> &AtomicU8 {
        self.byte(BUSY)
    }

    /// Takes this PE's node. Returns false if another thread of this PE has it.
    fn claim(&self) -> bool {
        self.busy().compare_exchange(0, 1, Acquire, Relaxed).is_ok()
    }

    fn unclaim(&self) {
        self.busy().store(0, Release);
        self.world.wake(self.world.me());
    }

    fn next_field(&self) -> &AtomicU16 {
        // SAFETY: a field of the lock that `wait::check_local` has found. All PEs use atomics of this size.
        unsafe { AtomicU16::from_ptr(self.node.add(NEXT).cast()) }
    }

    /// The PE after this one; 0 if it has not written itself there.
    fn next(&self) -> u32 {
        let seen = self.next_field().load(Acquire);
        if seen == 0 {
            return 0;
        }
        match self.reach(NEXT, size_of::<u16>(), self.world.me()) {
            Some(Reach::Nic(remote)) => {
                // The kernel may write the two bytes separately, but under the NIC's lock, which this get takes, too.
                let mut next = 0u16;
                // SAFETY: the command is complete on return; the default context is always valid.
                unsafe { self.world.nic_get(Ctx::DEFAULT, remote, (&raw mut next).cast(), size_of::<u16>()) };
                next.into()
            }
            _ => seen.into(),
        }
    }

    fn clear_next(&self) {
        self.next_field().store(0, Relaxed);
    }

    /// Writes this PE into `next` of the PE before it in the queue.
    fn link_behind(&self, before: u32, me: u32) {
        let pe = before as usize - 1;
        let next = me as u16;
        match self.reach(NEXT, size_of::<u16>(), pe) {
            Some(Reach::Mapped(at)) => {
                // SAFETY: an aligned field of the mapped lock at `pe`. All PEs access it by atomics of this size.
                unsafe { AtomicU16::from_ptr(at.cast()) }.store(next, Release);
                self.world.wake(pe);
                self.world.counts(pe).internal(2);
            }
            // SAFETY: the NIC has read the value when the call returns; the default context is always valid.
            Some(Reach::Nic(remote)) => unsafe {
                self.world.nic_put(Ctx::DEFAULT, remote, (&raw const next).cast(), size_of::<u16>());
            },
            None => {}
        }
    }

    fn pass_to(&self, next: u32) {
        let pe = next as usize - 1;
        let yes = 1u8;
        match self.reach(TURN, 1, pe) {
            Some(Reach::Mapped(at)) => {
                // SAFETY: an aligned field of the mapped lock at `pe`. All PEs access it by atomics of this size.
                unsafe { AtomicU8::from_ptr(at) }.store(yes, Release);
                self.world.wake(pe);
                self.world.counts(pe).internal(1);
            }
            // SAFETY: the NIC has read the value when the call returns; the default context is always valid.
            Some(Reach::Nic(remote)) => unsafe { self.world.nic_put(Ctx::DEFAULT, remote, &raw const yes, 1) },
            None => {}
        }
    }

    /// Makes `name` the tail. Returns the old tail.
    fn swap_tail(&self, name: u32) -> u32 {
        match self.reach(TAIL, size_of::<u32>(), self.tail_pe) {
            Some(Reach::Mapped(at)) => {
                self.world.counts(self.tail_pe).internal(4);
                // SAFETY: the tail is aligned in mapped symmetric memory of the tail PE. All PEs change it by such
                // atomics.
                unsafe { Word::swap(at.cast(), name) }
            }
            Some(Reach::Nic(remote)) => self.by_command(remote, Operation::Swap, name, 0),
            None => 0,
        }
    }

    /// Makes `name` the tail if it is `cond`. Returns the old tail.
    fn compare_swap_tail(&self, cond: u32, name: u32) -> u32 {
        match self.reach(TAIL, size_of::<u32>(), self.tail_pe) {
            Some(Reach::Mapped(at)) => {
                self.world.counts(self.tail_pe).internal(4);
                // SAFETY: the tail is aligned in mapped symmetric memory of the tail PE. All PEs change it by such
                // atomics.
                unsafe { Word::compare_swap(at.cast(), cond, name) }
            }
            Some(Reach::Nic(remote)) => self.by_command(remote, Operation::CompareSwap, name, cond),
            None => cond,
        }
    }

    /// Whether the lock looks free, if looking costs less than an atomic; else true.
    fn looks_free(&self) -> bool {
        match self.reach(TAIL, size_of::<u32>(), self.tail_pe) {
            // SAFETY: the tail is aligned in mapped symmetric memory of the tail PE. All PEs change it by such atomics.
            Some(Reach::Mapped(at)) => unsafe { <u32 as Word>::load(at.cast()) == 0 },
            _ => true,
        }
    }

    fn by_command(&self, remote: NicAddress, operation: Operation, name: u32, cond: u32) -> u32 {
        let mut old = 0u32;
        let (operand, comparand) = ((&raw const name).cast(), (&raw const cond).cast());
        // SAFETY: the command is complete on return, so the stack may hold its operands; the default context is valid.
        unsafe {
            let into = (&raw mut old).cast();
            self.world.nic_fetch(Ctx::DEFAULT, remote, operation, Datatype::Uint32, operand, comparand, into);
        }
        old
    }

    /// The access to a field at a PE. The lock was found to be symmetric, so it exists at every PE.
    fn reach(&self, field: usize, bytes: usize, pe: usize) -> Option<Reach> {
        self.world.reach(self.call, "lock", self.node.wrapping_add(field), bytes, pe)
    }
}

/// The tail PE of a lock. A symmetric object's address differs between PEs, but not its place in a page.
fn tail_pe(address: usize, n_pes: usize) -> usize {
    let in_page = address % PAGE_BYTES / size_of::<c_long>();
    let mixed = (in_page as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((u128::from(mixed) * n_pes as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap_and_fill_the_long() {
        let fields = [(TAIL, 4), (NEXT, 2), (TURN, 1), (BUSY, 1)];
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
                assert_eq!(tail_pe(at, n_pes), tail_pe(0x7f12_3456_7000 + at, n_pes));
                locks[tail_pe(at, n_pes)] += 1;
            }
            let fair = PAGE_BYTES / 8 / n_pes;
            assert!(locks.iter().all(|locks| (fair / 2..=fair * 2).contains(locks)), "{n_pes}: {locks:?}");
        }
    }
}
