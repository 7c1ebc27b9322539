// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Put with signal, and signals alone (OpenSHMEM 1.6, "Signaling Operations").
//!
//! On directly mapped memory the bytes are copied, and then the signal is stored or added with release. A PE that loads
//! the signal with acquire ([`fetch`], [`wait_until`], any wait or test) sees the bytes. By commands: a put, then a put
//! or an atomic, which arrive in this order at one PE.
//!
//! Invariants
//! 1. A call changes both objects or neither: everything is checked first.
//! 2. A put of no bytes sends a signal; `dest` and `source` are then not checked.
//! 3. Setting is one plain store of 8 bytes. The standard does not define setting and adding at the same time.
//! 4. The non-blocking forms are complete when they return, which the standard allows.
//!
//! Costs, on mapped memory: the checks of the arguments, the copy, one store (set) or locked instruction (add), and a
//! load of the peer's sleepers word. No system call, lock or allocation.

use std::ffi::c_int;

use selvedge_process::nic::arithmetic::{Datatype, Operation};

use crate::amo::{self, Word};
use crate::check::{self, Call};
use crate::handles::Ctx;
use crate::mapped::{Mapped, find_mapped_word};
use crate::rma;
use crate::types::Element;
use crate::wait::{self, Comparison, Waitable};
use crate::world::address::Reach;
use crate::world::{World, world};

/// `SHMEM_SIGNAL_SET`.
const SET: c_int = 0;
/// `SHMEM_SIGNAL_ADD`.
const ADD: c_int = 1;

/// `shmem_put_signal`.
#[inline(always)]
pub unsafe fn put_signal<T: Element>(
    call: Call,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    sig_addr: *mut u64,
    signal: u64,
    sig_op: c_int,
    pe: c_int,
) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    let flag = find_mapped_signal(ctx, sig_addr, pe).filter(|_| is_operator(sig_op));
    match flag.and_then(|flag| Some((flag, if bytes == 0 { flag } else { flag.and(dest.cast(), bytes)? }))) {
        Some((flag, data)) => {
            // SAFETY: both ranges were found in mapped symmetric memory, and the signal is aligned. The clause of the
            // call gives `source` the same length.
            unsafe {
                if bytes != 0 {
                    rma::copy_then_notify(source.cast(), data.at, bytes, flag.at);
                }
                update_signal(flag.at, signal, sig_op == ADD);
            }
            flag.wake();
            flag.counts().put(bytes as u64 + 8);
        }
        None => {
            // SAFETY: the contract of the C function: `source` has `nelems` elements. Everything else is checked there.
            unsafe { put_general(call, ctx, dest.cast(), source.cast(), bytes, sig_addr, signal, sig_op, pe) }
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn put_general(
    call: Call,
    ctx: Ctx,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
    sig_addr: *mut u64,
    signal: u64,
    sig_op: c_int,
    pe: c_int,
) {
    let Some(world) = world(call) else { return };
    let Some(pe) = world.pe(call, ctx, pe) else { return };
    if !is_operator(sig_op) {
        check::refuse(call, "sig_op", format_args!("{sig_op}: neither SHMEM_SIGNAL_SET nor SHMEM_SIGNAL_ADD"));
        return;
    }
    let Some(flag) = reach_signal(world, call, sig_addr, pe) else { return };
    if bytes != 0 {
        match world.reach(call, "dest", dest, bytes, pe) {
            // SAFETY: a range of mapped symmetric memory. The clause of the call gives `source` the same length.
            Some(Reach::Mapped(to)) => unsafe {
                rma::copy(source, to, bytes);
                world.counts(pe).put(bytes as u64);
            },
            Some(Reach::Nic(remote)) => {
                // SAFETY: the clause of the call gives `source` this length; `World::pe` has checked the context.
                unsafe { world.nic_put(ctx, remote, source, bytes) };
                if matches!(flag, Reach::Mapped(_)) {
                    // The static data may be unmapped although the heap is mapped. The data must arrive before the
                    // signal.
                    world.quiet(ctx);
                }
            }
            None => return,
        }
    }
    // SAFETY: `reach_signal` has checked the signal, and `World::pe` the context.
    unsafe { update_signal_general(world, ctx, flag, signal, sig_op == ADD, pe) };
}

/// `shmem_put_signal_nbi`.
#[inline(always)]
pub unsafe fn put_signal_nbi<T: Element>(
    call: Call,
    ctx: Ctx,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    sig_addr: *mut u64,
    signal: u64,
    sig_op: c_int,
    pe: c_int,
) {
    // SAFETY: the contract of the C function: `source` has `nelems` elements. Everything else is checked there.
    unsafe { put_signal(call, ctx, dest, source, nelems, sig_addr, signal, sig_op, pe) }
}

#[inline(always)]
fn is_operator(sig_op: c_int) -> bool {
    (SET..=ADD).contains(&sig_op)
}

#[inline(always)]
fn find_mapped_signal(ctx: Ctx, sig_addr: *const u64, pe: c_int) -> Option<Mapped> {
    if sig_addr.is_aligned() { find_mapped_word(ctx, sig_addr.cast(), size_of::<u64>(), pe) } else { None }
}

fn reach_signal(world: &World, call: Call, sig_addr: *const u64, pe: usize) -> Option<Reach> {
    if !sig_addr.is_aligned() {
        amo::misaligned(call, "sig_addr", sig_addr.cast(), size_of::<u64>());
        return None;
    }
    world.reach(call, "sig_addr", sig_addr.cast(), size_of::<u64>(), pe)
}

/// Updates a mapped signal, after all earlier writes of this PE there.
///
/// # Safety
/// `at` is 8 aligned bytes of mapped symmetric memory.
#[inline(always)]
unsafe fn update_signal(at: *mut u8, signal: u64, add: bool) {
    let at = at.cast::<u64>();
    // SAFETY: the contract of this function: 8 aligned bytes of mapped memory. All PEs use atomics.
    unsafe {
        if add {
            Word::add(at, signal);
        } else {
            Word::store(at, signal);
        }
    }
}

/// Updates a signal, mapped or not, after all earlier writes of this PE there.
///
/// # Safety
/// [`reach_signal`] has found `flag`. The context is valid.
unsafe fn update_signal_general(world: &World, ctx: Ctx, flag: Reach, signal: u64, add: bool, pe: usize) {
    let value = (&raw const signal).cast();
    match flag {
        Reach::Mapped(at) => {
            // SAFETY: the contract of this function: `reach_signal` finds 8 aligned bytes of symmetric memory.
            unsafe { update_signal(at, signal, add) };
            world.wake(pe);
            world.counts(pe).update::<8>();
        }
        // SAFETY: the NIC has read the value when the call returns. By this function's contract the context is valid.
        Reach::Nic(remote) if add => unsafe { world.nic_atomic(ctx, remote, Operation::Sum, Datatype::Uint64, value) },
        // SAFETY: the NIC has read the value when the call returns. By this function's contract the context is valid.
        Reach::Nic(remote) => unsafe { world.nic_put(ctx, remote, value, size_of::<u64>()) },
    }
}

#[inline(always)]
unsafe fn signal_alone(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, add: bool, pe: c_int) {
    match find_mapped_signal(ctx, sig_addr, pe) {
        Some(flag) => {
            // SAFETY: `find_mapped_signal` has found 8 aligned bytes of mapped symmetric memory.
            unsafe { update_signal(flag.at, signal, add) };
            flag.wake();
            flag.counts().update::<8>();
        }
        None => signal_alone_general(call, ctx, sig_addr, signal, add, pe),
    }
}

#[cold]
#[inline(never)]
fn signal_alone_general(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, add: bool, pe: c_int) {
    let Some(world) = world(call) else { return };
    let Some(pe) = world.pe(call, ctx, pe) else { return };
    let Some(flag) = reach_signal(world, call, sig_addr, pe) else { return };
    // SAFETY: `reach_signal` has checked the signal, and `World::pe` the context.
    unsafe { update_signal_general(world, ctx, flag, signal, add, pe) };
}

/// `shmem_signal_add`.
#[inline(always)]
pub unsafe fn signal_add(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, pe: c_int) {
    // SAFETY: `signal_alone` checks all of its arguments.
    unsafe { signal_alone(call, ctx, sig_addr, signal, true, pe) }
}

/// `shmem_signal_set`.
#[inline(always)]
pub unsafe fn signal_set(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, pe: c_int) {
    // SAFETY: `signal_alone` checks all of its arguments.
    unsafe { signal_alone(call, ctx, sig_addr, signal, false, pe) }
}

/// `shmem_signal_fetch`, of a signal of this PE. Programs poll with it, so it lets the NIC handle arrivals.
#[inline(always)]
pub unsafe fn fetch(call: Call, sig_addr: *const u64) -> u64 {
    let Some(world) = world(call) else { return 0 };
    if wait::check_local(world, call, "sig_addr", sig_addr, 1).is_none() {
        return 0;
    }
    world.progress();
    // SAFETY: `check_local` has found an aligned signal in this PE's symmetric memory.
    unsafe { Waitable::load(sig_addr) }
}

/// `shmem_signal_wait_until`: returns the value that satisfied the condition.
#[inline(always)]
pub unsafe fn wait_until(call: Call, sig_addr: *mut u64, cmp: c_int, value: u64) -> u64 {
    let Some(comparison) = Comparison::new(call, cmp) else { return 0 };
    // SAFETY: `wait_for` checks all of its arguments.
    unsafe { wait::wait_for(call, "sig_addr", sig_addr, comparison, value) }.unwrap_or(0)
}
