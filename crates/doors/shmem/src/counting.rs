// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting puts (seed 004, sections 2 and 2.1): a counter tells the target of a put, without flag or fence.
//!
//! A `shmem_ct_t` is a counting event of every PE's NIC. Each counts the arrivals at its own PE. On directly mapped
//! memory, a counting put stores the bytes and then one word of the counter at the target: the sender's own word, or,
//! if twenty other senders own words, a common word that the rest add to
//! ([`selvedge_process::nic::portals::counters`]). By commands, it is a Portals put to the counter's own list entry,
//! and the target's NIC counts.
//!
//! Invariants
//! 1. When a counter is created, each PE writes its NIC's reference to the region before any PE may use the counter.
//! 2. The count is stored after the bytes. There is no other order: counters are independent (section 2.1).
//!
//! Costs: a put is its stores plus one. A counter takes 320 bytes in the NIC, 8 in the region, and a record
//! (`world/counters.rs`). A wait polls one line if up to four PEs count, three if more do.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use selvedge_process::nic::portals::counters::Lane;

use crate::check::{self, Call};
use crate::collective::reduce::reduce_and_over_pes;
use crate::collective::sync::{barrier_all, sync_all};
use crate::handles::{Ct, Ctx};
use crate::mapped::{Mapped, find_mapped_word};
use crate::rma::{copy, copy_then_notify};
use crate::types::Element;
use crate::world::address::{Reach, SymAddress};
use crate::world::counters::{CountTarget, Record, handle, live_record};
use crate::world::layout::reference_word;
use crate::world::{World, world};

/// A bit that is set in the match bits of a counter's entries. Match bits 0 select the entries that do not count.
const COUNTS: u64 = 1 << 32;

impl World {
    /// Finds the word that counts this PE's arrivals at another PE, and caches it.
    #[cold]
    #[inline(never)]
    fn find_word(&self, record: &Record, index: usize, pe: usize) -> Option<()> {
        let mut reference = 0u64;
        self.get(pe, SymAddress::of(reference_word(index)), (&raw mut reference).cast(), 8);
        let window = self.window(pe)?;
        let counter = window.counter(reference as u32)?;
        let sender = self.me() as u32 + 1;
        let word = match window.lane(self.interface, reference as u32, sender)? {
            Lane::Own(lane) if !self.multiple.load(Relaxed) => &raw const counter.lanes[lane] as u64,
            Lane::Own(lane) => &raw const counter.lanes[lane] as u64 | 1,
            _ => &raw const counter.common as u64 | 1,
        };
        record.peer_counter(pe).word.store(word, Release);
        Some(())
    }

    /// Counts at a PE for the first time.
    fn count_first(&self, call: Call, record: &Record, ct: Ct, pe: usize) {
        match self.find_word(record, ct.index(), pe).and_then(|()| record.count_target(pe)) {
            Some(count_target) => count_target.count(),
            None => match self.loss_of(pe) {
                Some(why) => check::refuse(call, "pe", format_args!("{pe}: is lost: {why}")),
                None => check::refuse(call, "pe", format_args!("{pe}: has freed this counter")),
            },
        }
    }
}

/// Makes a counter, at zero. Collective over all PEs.
pub unsafe fn create(call: Call, ct: *mut Ct) {
    let Some(world) = world(call) else { return };
    // SAFETY: null, or the counter handle that the clause of the call says is written.
    let Some(ct) = (unsafe { ct.as_mut() }) else {
        check::refuse(call, "ct", format_args!("null"));
        return;
    };
    *ct = Ct::INVALID;
    let counters = &world.counters;
    let Some((index, generation)) = counters.take() else {
        eprintln!(
            "selvedge: PE {}: {call}: all {} counters are in use: set SELVEDGE_SHMEM_COUNTERS higher",
            world.me(),
            counters.most()
        );
        sync_all(call);
        return;
    };
    let record = counters.record(index);
    let reference = world.interface.lock().counters().alloc();
    let made = reference.is_ok_and(|reference| {
        let entries = match world.memory_mapped() {
            true => Some([0, 0]),
            false => world.commands.offer(world.interface, COUNTS | u64::from(reference), reference),
        };
        let local_counter = world.interface.signals().counter(reference);
        let (Some(entries), Some(local_counter)) = (entries, local_counter) else { return false };
        record.prepare(reference, local_counter, entries, world.n_pes());
        world.word(reference_word(index as usize)).store(reference.into(), Release);
        record.open(generation);
        true
    });
    // No PE may count here before the counter exists.
    if reduce_and_over_pes(world, u64::from(made)) == 1 {
        *ct = handle(generation, index);
    } else {
        check::report(format_args!("{call}: a PE's NIC has no counter left"));
        drop_record(world, record);
        counters.give(index);
    }
}

/// Frees a counter. Collective over all PEs.
pub unsafe fn free(call: Call, ct: *mut Ct) {
    let Some(world) = world(call) else { return };
    // SAFETY: null, or the counter handle that the clause of the call says is written.
    let Some(ct) = (unsafe { ct.as_mut() }) else {
        check::refuse(call, "ct", format_args!("null"));
        return;
    };
    if *ct == Ct::INVALID {
        return;
    }
    let Some(record) = world.counters.checked(call, *ct) else { return };
    // No PE counts here after this barrier.
    barrier_all(call);
    if record.failures() != 0 {
        check::report(format_args!("{call}: {} counting operations failed at this PE", record.failures()));
    }
    drop_record(world, record);
    world.counters.give(ct.index() as u32);
    *ct = Ct::INVALID;
    // No PE uses this handle after this sync, so the next counter may reuse its record.
    sync_all(call);
}

fn drop_record(world: &World, record: &Record) {
    if !record.close() {
        return;
    }
    let mut guard = world.interface.lock();
    if !world.memory_mapped() {
        for entry in record.entries() {
            let _ = guard.with_revocation(|nic| nic.lists().unlink(entry));
        }
    }
    let _ = guard.with_revocation(|nic| nic.counters().free(record.reference()));
}

#[inline]
pub fn get(call: Call, ct: Ct) -> c_long {
    let Some(world) = world(call) else { return 0 };
    let Some(record) = world.counters.checked(call, ct) else { return 0 };
    world.progress();
    record.value()
}

#[inline]
pub fn set(call: Call, ct: Ct, value: c_long) {
    let Some(world) = world(call) else { return };
    let Some(record) = world.counters.checked(call, ct) else { return };
    record.set(value);
}

#[inline]
pub fn wait(call: Call, ct: Ct, value: c_long) {
    let Some(world) = world(call) else { return };
    let Some(record) = world.counters.checked(call, ct) else { return };
    // A poll that reads several words of a line starts again at each store of a sender to that line. If a single PE
    // counts here, the first polls read its word only.
    let arrived = record.arrivals_at(value);
    let sole_word = record.sole_word();
    let reached = || sole_word.is_some_and(|word| word.load(Acquire) as i64 >= arrived);
    if reached() {
        return;
    }
    world.wait_watching(
        || sole_word.is_none() || reached(),
        || match reached() {
            true => Some(()),
            false => (record.value() >= value).then(|| record.find_sole_word()),
        },
    );
}

#[inline]
pub fn test(call: Call, ct: Ct, value: c_long) -> c_int {
    let Some(world) = world(call) else { return 0 };
    let Some(record) = world.counters.checked(call, ct) else { return 0 };
    let reached = record.value() >= value;
    if !reached {
        world.progress();
    }
    c_int::from(reached)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Put,
    Get,
}

/// By commands: the match bits of a counter's entries at a PE.
fn bits(world: &World, record: &Record, ct: Ct, pe: usize) -> u64 {
    let peer_counter = record.peer_counter(pe);
    match peer_counter.word.load(Acquire) {
        0 => {
            let mut reference = 0u64;
            world.get(pe, SymAddress::of(reference_word(ct.index())), (&raw mut reference).cast(), 8);
            peer_counter.word.store(COUNTS | reference, Release);
            COUNTS | reference
        }
        bits => bits,
    }
}

/// The general path: attaches the PE, moves and counts by commands, or reports the error.
#[cold]
#[inline(never)]
unsafe fn move_general(
    call: Call,
    ctx: Ctx,
    ct: Ct,
    direction: Direction,
    remote_at: *mut u8,
    local: *mut u8,
    bytes: usize,
    pe: c_int,
) {
    let Some(world) = world(call) else { return };
    let Some(record) = world.counters.checked(call, ct) else { return };
    let Some(rank) = world.pe(call, ctx, pe) else { return };
    let argument = if direction == Direction::Put { "dest" } else { "source" };
    let Some(reach) = world.reach(call, argument, remote_at, bytes, rank) else { return };
    // SAFETY: the range at the other PE was found in symmetric memory. The clause of the call gives this PE's range the
    // same length. `World::pe` has checked the context.
    unsafe {
        match (reach, direction) {
            (Reach::Mapped(at), Direction::Put) => copy(local, at, bytes),
            (Reach::Mapped(at), Direction::Get) => copy(at, local, bytes),
            // The static data may be unmapped although counters are mapped. The data must arrive before the count.
            (Reach::Nic(remote), Direction::Put) if world.memory_mapped() => {
                world.nic_put(ctx, remote, local, bytes);
                world.quiet(ctx);
            }
            (Reach::Nic(remote), Direction::Get) if world.memory_mapped() => world.nic_get(ctx, remote, local, bytes),
            (Reach::Nic(remote), Direction::Put) => {
                world.nic_put_counting(ctx, remote, bits(world, record, ct, rank), local, bytes);
            }
            (Reach::Nic(remote), Direction::Get) => {
                world.nic_get_counting(ctx, remote, bits(world, record, ct, rank), local, bytes);
            }
        }
    }
    if let Reach::Mapped(_) = reach {
        match direction {
            Direction::Put => world.counts(rank).put(bytes as u64),
            Direction::Get => world.counts(rank).get(bytes as u64),
        }
    }
    if world.memory_mapped() {
        world.count_first(call, record, ct, rank);
        world.wake(rank);
    }
}

/// The word that counts an arrival at a PE, and a range of its symmetric memory, if both are mapped.
#[inline(always)]
fn find_target(
    ct: Ct,
    ctx: Ctx,
    remote_at: *const u8,
    bytes: usize,
    pe: c_int,
) -> Option<(CountTarget<'static>, Mapped)> {
    let record = live_record(ct)?;
    let mapped = find_mapped_word(ctx, remote_at, bytes, pe)?;
    Some((record.count_target(mapped.pe)?, mapped))
}

#[inline(always)]
pub unsafe fn put<T: Element>(call: Call, ctx: Ctx, ct: Ct, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match find_target(ct, ctx, dest.cast(), bytes, pe) {
        Some((count_target, mapped)) => {
            // SAFETY: a range of mapped symmetric memory. By the counting puts' clause `source` is as long.
            unsafe {
                copy_then_notify(source.cast(), mapped.at, bytes, std::ptr::from_ref(count_target.target).cast())
            };
            count_target.count();
            mapped.wake();
            mapped.counts().put(bytes as u64);
        }
        // SAFETY: the contract of the C function: `source` has `nelems` elements. Everything else is checked there.
        _ => unsafe { move_general(call, ctx, ct, Direction::Put, dest.cast(), source.cast_mut().cast(), bytes, pe) },
    }
}

#[inline(always)]
pub unsafe fn put_nbi<T: Element>(
    call: Call,
    ctx: Ctx,
    ct: Ct,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    pe: c_int,
) {
    // SAFETY: the contract of the C function: `source` has `nelems` elements. Everything else is checked there.
    unsafe { put(call, ctx, ct, dest, source, nelems, pe) };
}

#[inline(always)]
pub unsafe fn get_and_count<T: Element>(
    call: Call,
    ctx: Ctx,
    ct: Ct,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    pe: c_int,
) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match find_target(ct, ctx, source.cast(), bytes, pe) {
        Some((count_target, mapped)) => {
            // SAFETY: a range of mapped symmetric memory. The clause of the counting gets gives `dest` the same length.
            unsafe { copy(mapped.at, dest.cast(), bytes) };
            count_target.count();
            mapped.wake();
            mapped.counts().get(bytes as u64);
        }
        // SAFETY: by the C contract `dest` has room for `nelems` elements. Everything else is checked there.
        _ => unsafe { move_general(call, ctx, ct, Direction::Get, source.cast_mut().cast(), dest.cast(), bytes, pe) },
    }
}

#[inline(always)]
pub unsafe fn p<T: Element>(call: Call, ctx: Ctx, ct: Ct, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the value is on this stack and lives until the call returns.
    unsafe { put(call, ctx, ct, dest, &raw const value, 1, pe) };
}
