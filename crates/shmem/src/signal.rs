// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Put with signal, and signals alone (OpenSHMEM 1.6, "Signaling Operations").
//!
//! In place: the bytes are copied, and the signal is stored or added with release, so whoever sees the signal (with
//! acquire: [`fetch`], [`wait_until`], any wait or test) sees the bytes. By commands: a put and then a put or an
//! atomic, which stay in order to one PE.
//!
//! Invariants
//! 1. A call changes both objects or neither: everything is checked first.
//! 2. A signal of no bytes is a signal: `dest` and `source` are not looked at then.
//! 3. Setting is one plain store of 8 bytes. The standard promises nothing of setting and adding at the same time.
//! 4. The non-blocking forms are complete when they return, which the standard allows.
//!
//! Costs, in place: the checks of the arguments, the copy, one store (set) or locked instruction (add), and a load of
//! the line that says whether the peer sleeps. No system call, lock or allocation.

use std::ffi::c_int;

use selvedge_transport::nic::portals::operation::{Datatype, Operation};

use crate::amo::{self, Word};
use crate::hand::{Hand, at_hand};
use crate::types::Element;
use crate::wait::{self, Comparison, Waitable};
use crate::{Call, Ctx, Reach, World, check, rma, world};

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
    let flag = near(ctx, sig_addr, pe).filter(|_| is_operator(sig_op));
    match flag.and_then(|flag| Some((flag, if bytes == 0 { flag } else { flag.and(dest.cast(), bytes)? }))) {
        Some((flag, data)) => {
            // SAFETY: so many bytes of symmetric memory, and 8 that are aligned; the caller says that `source` has
            // as many.
            unsafe {
                if bytes != 0 {
                    rma::copy_to_tell(source.cast(), data.at, bytes, flag.at);
                }
                raise(flag.at, signal, sig_op == ADD);
            }
            flag.ring();
        }
        None => {
            // SAFETY: the caller's.
            unsafe { put_elsewhere(call, ctx, dest.cast(), source.cast(), bytes, sig_addr, signal, sig_op, pe) }
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn put_elsewhere(
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
        check::refuse(call, "sig_op", format_args!("{sig_op}: no signal operator"));
        return;
    }
    let Some(flag) = reach_signal(world, call, sig_addr, pe) else { return };
    if bytes != 0 {
        match world.reach(call, "dest", dest, bytes, pe) {
            // SAFETY: so many bytes of symmetric memory; the caller says that `source` has as many.
            Some(Reach::InPlace(to)) => unsafe { rma::copy(source, to, bytes) },
            Some(Reach::Nic(spot)) => {
                // SAFETY: as above.
                unsafe { world.nic_put(ctx, spot, source, bytes) };
                if matches!(flag, Reach::InPlace(_)) {
                    // Static data can be out of reach where the heap is not. Only their arrival orders the two then.
                    world.contexts.quiet(world.interface, ctx);
                }
            }
            None => return,
        }
    }
    // SAFETY: found by `reach_signal`.
    unsafe { raise_elsewhere(world, ctx, flag, signal, sig_op == ADD, pe) };
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
    // SAFETY: the caller's.
    unsafe { put_signal(call, ctx, dest, source, nelems, sig_addr, signal, sig_op, pe) }
}

#[inline(always)]
fn is_operator(sig_op: c_int) -> bool {
    (SET..=ADD).contains(&sig_op)
}

/// A signal at hand.
#[inline(always)]
fn near(ctx: Ctx, sig_addr: *const u64, pe: c_int) -> Option<Hand> {
    if sig_addr.is_aligned() { at_hand(ctx, sig_addr.cast(), size_of::<u64>(), pe) } else { None }
}

fn reach_signal(world: &World, call: Call, sig_addr: *const u64, pe: usize) -> Option<Reach> {
    if !sig_addr.is_aligned() {
        amo::misaligned(call, "sig_addr", sig_addr.cast(), size_of::<u64>());
        return None;
    }
    world.reach(call, "sig_addr", sig_addr.cast(), size_of::<u64>(), pe)
}

/// Updates a signal in place, after everything that this PE wrote there before.
///
/// # Safety
/// `at` are 8 bytes of symmetric memory, aligned.
#[inline(always)]
unsafe fn raise(at: *mut u8, signal: u64, add: bool) {
    let at = at.cast::<u64>();
    // SAFETY: the caller's.
    unsafe {
        if add {
            Word::add(at, signal);
        } else {
            Word::store(at, signal);
        }
    }
}

/// Updates a signal wherever it is, after everything that this PE wrote there before.
///
/// # Safety
/// `flag` is a signal that was found by [`reach_signal`].
unsafe fn raise_elsewhere(world: &World, ctx: Ctx, flag: Reach, signal: u64, add: bool, pe: usize) {
    let value = (&raw const signal).cast();
    match flag {
        Reach::InPlace(at) => {
            // SAFETY: the caller's.
            unsafe { raise(at, signal, add) };
            world.ring(pe);
        }
        // SAFETY: the value lies on this stack and may be reused on return.
        Reach::Nic(spot) if add => unsafe { world.nic_atomic(ctx, spot, Operation::Sum, Datatype::Uint64, value) },
        // SAFETY: as above.
        Reach::Nic(spot) => unsafe { world.nic_put(ctx, spot, value, size_of::<u64>()) },
    }
}

#[inline(always)]
unsafe fn signal_alone(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, add: bool, pe: c_int) {
    match near(ctx, sig_addr, pe) {
        Some(flag) => {
            // SAFETY: 8 bytes of symmetric memory, aligned.
            unsafe { raise(flag.at, signal, add) };
            flag.ring();
        }
        None => alone_elsewhere(call, ctx, sig_addr, signal, add, pe),
    }
}

#[cold]
#[inline(never)]
fn alone_elsewhere(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, add: bool, pe: c_int) {
    let Some(world) = world(call) else { return };
    let Some(pe) = world.pe(call, ctx, pe) else { return };
    let Some(flag) = reach_signal(world, call, sig_addr, pe) else { return };
    // SAFETY: found by `reach_signal`.
    unsafe { raise_elsewhere(world, ctx, flag, signal, add, pe) };
}

/// `shmem_signal_add`.
#[inline(always)]
pub unsafe fn signal_add(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { signal_alone(call, ctx, sig_addr, signal, true, pe) }
}

/// `shmem_signal_set`.
#[inline(always)]
pub unsafe fn signal_set(call: Call, ctx: Ctx, sig_addr: *mut u64, signal: u64, pe: c_int) {
    // SAFETY: the caller's.
    unsafe { signal_alone(call, ctx, sig_addr, signal, false, pe) }
}

/// `shmem_signal_fetch`: of this PE. Programs poll with it, so the NIC gets its turn.
#[inline(always)]
pub unsafe fn fetch(call: Call, sig_addr: *const u64) -> u64 {
    let Some(world) = world(call) else { return 0 };
    if wait::own(world, call, "sig_addr", sig_addr, 1).is_none() {
        return 0;
    }
    world.progress();
    // SAFETY: symmetric memory of this PE, aligned.
    unsafe { Waitable::load(sig_addr) }
}

/// `shmem_signal_wait_until`: the value that satisfied the condition.
#[inline(always)]
pub unsafe fn wait_until(call: Call, sig_addr: *mut u64, cmp: c_int, value: u64) -> u64 {
    let Some(comparison) = Comparison::new(call, cmp) else { return 0 };
    // SAFETY: the caller's.
    unsafe { wait::wait_for(call, "sig_addr", sig_addr, comparison, value) }.unwrap_or(0)
}
