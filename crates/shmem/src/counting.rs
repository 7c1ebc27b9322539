// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting puts (seed 004, sections 2 and 2.1): the target learns of a put by a counter, without flag or fence.
//!
//! A `shmem_ct_t` is a counting event of the NIC of every PE. Each counts the arrivals at its own PE. On directly
//! mapped memory, a counting put stores the bytes and then one word of the counter at the target: the sender's own
//! word, or, when twenty other senders have words of their own, a common word to which the rest add
//! ([`selvedge_transport::nic::portals::counters`]). By commands, it is a Portals put to the counter's own list entry,
//! and the target's NIC counts.
//!
//! Invariants
//! 1. A counter has the same index at every PE. When it is created, each PE writes its NIC's reference to the library's
//!    region, before any PE may use the counter.
//! 2. The value of a counter is its arrivals less the number that `shmem_ct_set` subtracted. Setting does not store to
//!    the words of the senders, so no arrival is lost meanwhile.
//! 3. The count is stored after the bytes. There is no other order: each counter is independent (section 2.1).
//!
//! Limits: [`Counters::limit`], 4,096 by default. Costs: a put is its stores and one more. A counter takes 320 bytes in
//! the NIC, 8 in the region, and 16 for each PE at which this one counts. A wait polls one line where up to four PEs
//! count, and three where more do.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{
    AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release, Ordering::SeqCst,
};
use std::sync::{Mutex, PoisonError};

use selvedge_transport::nic::portals::counters::Lane;
use selvedge_transport::nic::signals::Counter;

use crate::check::{self, Call};
use crate::collective;
use crate::handles::{Ct, Ctx};
use crate::mapped::{Mapped, find_mapped};
use crate::rma::{copy, copy_to_tell};
use crate::types::Element;
use crate::world::address::{Reach, SymAddress};
use crate::world::layout::reference_word;
use crate::world::{World, world};

/// The number of counters where `SELVEDGE_SHMEM_COUNTERS` is not set.
const DEFAULT_LIMIT: u32 = 4096;
/// A bit of the match bits of a counter's entries. It is never 0, which selects the entries that do not count.
const COUNTS: u64 = 1 << 32;

/// This PE's access to the counter of another PE.
#[derive(Default)]
struct PeerCounter {
    /// On mapped memory, the address of the word at that PE, with the lowest bit set where the word is added to; by
    /// commands, match bits. 0: not known yet.
    word: AtomicU64,
    /// The value of this PE's own word at that PE.
    counted: AtomicU64,
}

/// A counter of this PE.
struct Record {
    /// 0: free; else its generation.
    live: AtomicU32,
    reference: AtomicU32,
    /// The number subtracted from the arrivals.
    subtracted: AtomicI64,
    /// The counter in this PE's own segment.
    local_counter: AtomicPtr<Counter>,
    /// The only word that any sender has written; null if that is not known, or if there are several.
    sole_word: AtomicPtr<AtomicU64>,
    /// An element for each PE.
    peer_counters: AtomicPtr<PeerCounter>,
    /// By commands: the entries in this PE's NIC.
    entries: [AtomicU32; 2],
}

/// The free counters. They are the same at every PE, because creating and freeing are collective.
struct FreeCounters {
    records: Vec<u32>,
    generation: u32,
}

/// All counters of this PE.
pub(crate) struct Counters {
    records: &'static [Record],
    free: Mutex<FreeCounters>,
}

impl Counters {
    /// The most counters of a job.
    pub fn limit() -> Result<u32, String> {
        let Some(text) = std::env::var_os("SELVEDGE_SHMEM_COUNTERS") else { return Ok(DEFAULT_LIMIT) };
        let text = text.to_string_lossy();
        text.trim()
            .parse()
            .ok()
            .filter(|counters| *counters <= 1 << 18)
            .ok_or_else(|| format!("SELVEDGE_SHMEM_COUNTERS={text}: wanted a number of counters up to 262144"))
    }

    pub fn new(count: usize) -> Counters {
        let record = |_| Record {
            live: AtomicU32::new(0),
            reference: AtomicU32::new(0),
            subtracted: AtomicI64::new(0),
            local_counter: AtomicPtr::default(),
            sole_word: AtomicPtr::default(),
            peer_counters: AtomicPtr::default(),
            entries: [const { AtomicU32::new(0) }; 2],
        };
        // Never freed, like the world.
        let records: &'static [Record] = Box::leak((0..count).map(record).collect());
        RECORDS.store(records.as_ptr().cast_mut(), Relaxed);
        RECORD_COUNT.store(count, Release);
        Counters {
            records,
            free: Mutex::new(FreeCounters { records: (0..count as u32).rev().collect(), generation: 0 }),
        }
    }

    /// The counter that a handle names (`generation << 32 | index + 1`). None: it has been reported.
    #[inline(always)]
    fn checked(&self, call: Call, ct: Ct) -> Option<&'static Record> {
        let record = live_record(ct);
        if record.is_none() {
            check::refuse(call, "ct", format_args!("{:#x}: not a counter, or one that was freed", ct.0));
        }
        record
    }
}

impl Record {
    /// The counter in this PE's own segment; of a live record.
    #[inline(always)]
    fn local_counter(&self) -> &Counter {
        // SAFETY: `create` has stored the address before it made the record live; the counter is in this PE's own
        // segment, which stays mapped.
        unsafe { &*self.local_counter.load(Relaxed) }
    }

    /// The counter's value.
    #[inline(always)]
    fn value(&self) -> c_long {
        (self.local_counter().arrived() as i64).wrapping_sub(self.subtracted.load(Relaxed))
    }

    /// The only word that any sender had written when [`Record::find_sole_word`] last looked. It is never more than the
    /// counter's arrivals.
    #[inline(always)]
    fn sole_word(&self) -> Option<&AtomicU64> {
        // SAFETY: null, or a word of the counter in this PE's own segment, which stays mapped.
        unsafe { self.sole_word.load(Relaxed).as_ref() }
    }

    /// Finds whether one PE only counts here, and its word.
    fn find_sole_word(&self) {
        let local_counter = self.local_counter();
        let words = [&local_counter.success, &local_counter.common].into_iter().chain(local_counter.given());
        let mut counted = words.filter(|word| word.load(Relaxed) != 0);
        let sole_word = counted.next().filter(|_| counted.next().is_none());
        self.sole_word
            .store(sole_word.map_or(std::ptr::null_mut(), |word| std::ptr::from_ref(word).cast_mut()), Relaxed);
    }

    /// The failures that were counted (by commands only).
    fn failures(&self) -> u64 {
        self.local_counter().failure.load(Relaxed)
    }
}

/// All records, for calls that need nothing else of the world.
static RECORDS: AtomicPtr<Record> = AtomicPtr::new(std::ptr::null_mut());
static RECORD_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The counter that a handle names, if it is live.
#[inline(always)]
fn live_record(ct: Ct) -> Option<&'static Record> {
    if ct.index() >= RECORD_COUNT.load(Relaxed) {
        return None;
    }
    // SAFETY: the count is not zero only after `Counters::new`, which stores the address of as many records first, and
    // the standard lets no thread call before `shmem_init` has returned. They are never freed.
    let record = unsafe { &*RECORDS.load(Relaxed).add(ct.index()) };
    let generation = record.live.load(Acquire);
    // A branch, which the processor predicts, rather than a choice of the next load's address, for which it would wait.
    if generation == 0 || ct.0 >> 32 != generation as usize {
        return no_record();
    }
    Some(record)
}

#[cold]
fn no_record() -> Option<&'static Record> {
    None
}

impl Ct {
    /// Its index in the table; far beyond the table for an invalid one.
    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & 0xffff_ffff).wrapping_sub(1)
    }
}

impl World {
    /// Finds out how this PE counts at another PE's counter, and keeps it.
    #[cold]
    #[inline(never)]
    fn find_word(&self, record: &Record, index: usize, pe: usize) -> Option<()> {
        let mut reference = 0u64;
        self.get(pe, SymAddress::of(reference_word(index)), (&raw mut reference).cast(), 8);
        let window = self.window(pe)?;
        let counter = window.counter(reference as u32)?;
        let sender = self.me() as u32 + 1;
        let word = match self.interface.lane(window, reference as u32, sender)? {
            Lane::Own(lane) if !self.multiple.load(Relaxed) => &raw const counter.lanes[lane] as u64,
            Lane::Own(lane) => &raw const counter.lanes[lane] as u64 | 1,
            _ => &raw const counter.common as u64 | 1,
        };
        record.peer_counter(pe).word.store(word, Release);
        Some(())
    }

    /// Counts for the first time at a PE.
    fn count_first(&self, call: Call, record: &Record, ct: Ct, pe: usize) {
        match self.find_word(record, ct.index(), pe).and_then(|()| record.count_target(pe)) {
            Some(count_target) => count_target.count(),
            None => check::refuse(call, "pe", format_args!("{pe}: has freed this counter, or has ended")),
        }
    }
}

impl Record {
    /// This PE's access to the counter of a PE.
    #[inline(always)]
    fn peer_counter(&self, pe: usize) -> &PeerCounter {
        // SAFETY: `create` has stored the address of an array with an element for each PE before it made the record
        // live. The array is never freed, and `pe` is a checked rank.
        unsafe { &*self.peer_counters.load(Relaxed).add(pe) }
    }

    /// The word at a PE that counts this PE's arrivals, if it is known and mapped.
    #[inline(always)]
    fn count_target(&self, pe: usize) -> Option<CountTarget<'_>> {
        let peer_counter = self.peer_counter(pe);
        let word = peer_counter.word.load(Acquire);
        if word == 0 {
            return None;
        }
        // SAFETY: `find_word` has found this word of the peer's counter, in a segment that stays mapped. It is accessed
        // by atomics only.
        let target = unsafe { &*((word & !1) as *const AtomicU64) };
        let next = peer_counter.counted.load(Relaxed) + 1;
        Some(CountTarget { target, own: (word & 1 == 0).then_some((&peer_counter.counted, next)) })
    }
}

/// The word that counts an arrival. It is found before the bytes are moved, so that the count follows the last of them
/// at once.
struct CountTarget<'a> {
    target: &'a AtomicU64,
    /// Where this PE has a word of its own there: the value it has, and the next one.
    own: Option<(&'a AtomicU64, u64)>,
}

impl CountTarget<'_> {
    /// Counts an arrival. The caller has moved the bytes before.
    #[inline(always)]
    fn count(&self) {
        match self.own {
            Some((counted, next)) => {
                self.target.store(next, Release);
                counted.store(next, Relaxed);
            }
            None => {
                self.target.fetch_add(1, AcqRel);
            }
        }
    }
}

/// Makes a counter, at zero; collective over all PEs.
pub unsafe fn create(call: Call, ct: *mut Ct) {
    let Some(world) = world(call) else { return };
    // SAFETY: null, or the counter handle that the clause of the call says is written.
    let Some(ct) = (unsafe { ct.as_mut() }) else {
        check::refuse(call, "ct", format_args!("null"));
        return;
    };
    *ct = Ct::INVALID;
    let counters = &world.counters;
    let mut free = counters.free.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(index) = free.records.pop() else {
        eprintln!(
            "selvedge: PE {}: {call}: no counter left of {}: set SELVEDGE_SHMEM_COUNTERS higher",
            world.me(),
            counters.records.len()
        );
        collective::sync_all(call);
        return;
    };
    free.generation = free.generation % 0x7fff_ffff + 1;
    let generation = free.generation;
    drop(free);
    let record = &counters.records[index as usize];
    let reference = world.interface.lock().counter_alloc();
    let made = reference.is_ok_and(|reference| {
        let entries = match world.memory_mapped() {
            true => Some([0, 0]),
            false => world.commands.offer(world.interface, COUNTS | u64::from(reference), reference),
        };
        let local_counter = world.interface.signals().counter(reference);
        let (Some(entries), Some(local_counter)) = (entries, local_counter) else { return false };
        record.reference.store(reference, Relaxed);
        record.local_counter.store(std::ptr::from_ref(local_counter).cast_mut(), Relaxed);
        record.subtracted.store(0, Relaxed);
        record.sole_word.store(std::ptr::null_mut(), Relaxed);
        record.entries.iter().zip(entries).for_each(|(slot, entry)| slot.store(entry, Relaxed));
        if record.peer_counters.load(Relaxed).is_null() {
            let peer_counters: Box<[PeerCounter]> = (0..world.n_pes()).map(|_| PeerCounter::default()).collect();
            record.peer_counters.store(Box::leak(peer_counters).as_mut_ptr(), Relaxed);
        }
        for pe in 0..world.n_pes() {
            let peer_counter = record.peer_counter(pe);
            peer_counter.word.store(0, Relaxed);
            peer_counter.counted.store(0, Relaxed);
        }
        world.word(reference_word(index as usize)).store(reference.into(), Release);
        record.live.store(generation, SeqCst);
        true
    });
    // No PE may count here before the counter exists.
    if collective::and_across_pes(world, u64::from(made)) == 1 {
        *ct = Ct((generation as usize) << 32 | (index as usize + 1));
    } else {
        check::report(format_args!("{call}: a PE's NIC has no room for another counter"));
        drop_record(world, record);
        counters.free.lock().unwrap_or_else(PoisonError::into_inner).records.push(index);
    }
}

/// Gives a counter back; collective over all PEs.
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
    // After it, no PE counts here any more.
    collective::barrier_all(call);
    if record.failures() != 0 {
        check::report(format_args!("{call}: {} counting operations failed at this PE", record.failures()));
    }
    drop_record(world, record);
    let index = ct.index();
    world.counters.free.lock().unwrap_or_else(PoisonError::into_inner).records.push(index as u32);
    *ct = Ct::INVALID;
    // After it, no PE uses this handle when the next counter is made.
    collective::sync_all(call);
}

fn drop_record(world: &World, record: &Record) {
    if record.live.swap(0, SeqCst) == 0 {
        return;
    }
    let mut guard = world.interface.lock();
    if !world.memory_mapped() {
        for entry in &record.entries {
            let _ = guard.with_revocation(|nic| nic.unlink(entry.load(Relaxed)));
        }
    }
    let _ = guard.with_revocation(|nic| nic.counter_free(record.reference.load(Relaxed)));
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
    let shown = record.value();
    record.subtracted.fetch_add(shown.wrapping_sub(value), SeqCst);
}

#[inline]
pub fn wait(call: Call, ct: Ct, value: c_long) {
    let Some(world) = world(call) else { return };
    let Some(record) = world.counters.checked(call, ct) else { return };
    // A poll that reads several words of a line starts again at each store of a sender. Where one PE alone counts here,
    // the first polls read its word only.
    let arrived = value.wrapping_add(record.subtracted.load(Relaxed));
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

/// The direction in which the bytes of a counting operation move.
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

/// The general path: attaches the PE, moves and counts by commands, or reports what is wrong.
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
    // SAFETY: the range at the other PE was found in symmetric memory. The clause of the call says that this PE's range
    // has as many bytes. `World::pe` has checked the context.
    unsafe {
        match (reach, direction) {
            (Reach::Mapped(at), Direction::Put) => copy(local, at, bytes),
            (Reach::Mapped(at), Direction::Get) => copy(at, local, bytes),
            // The static data may be unmapped where counters are mapped. Then the data must have arrived before they
            // are counted.
            (Reach::Nic(remote), Direction::Put) if world.memory_mapped() => {
                world.nic_put(ctx, remote, local, bytes);
                world.contexts.quiet(world.interface, ctx);
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
    if world.memory_mapped() {
        world.count_first(call, record, ct, rank);
        world.wake(rank);
    }
}

/// The word that counts an arrival at a PE, and a range of that PE's symmetric memory, if both are mapped.
#[inline(always)]
fn find_target(
    ct: Ct,
    ctx: Ctx,
    remote_at: *const u8,
    bytes: usize,
    pe: c_int,
) -> Option<(CountTarget<'static>, Mapped)> {
    let record = live_record(ct)?;
    let mapped = find_mapped(ctx, remote_at, bytes, pe)?;
    Some((record.count_target(mapped.pe)?, mapped))
}

#[inline(always)]
pub unsafe fn put<T: Element>(call: Call, ctx: Ctx, ct: Ct, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match find_target(ct, ctx, dest.cast(), bytes, pe) {
        Some((count_target, mapped)) => {
            // SAFETY: the target range was found in mapped symmetric memory. The clause of the counting puts says that
            // `source` has as many bytes.
            unsafe { copy_to_tell(source.cast(), mapped.at, bytes, std::ptr::from_ref(count_target.target).cast()) };
            count_target.count();
            mapped.wake();
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
            // SAFETY: the source range was found in mapped symmetric memory. The clause of the counting gets says that
            // `dest` has room for as many bytes.
            unsafe { copy(mapped.at, dest.cast(), bytes) };
            count_target.count();
            mapped.wake();
        }
        // SAFETY: the contract of the C function: `dest` has room for `nelems` elements. Everything else is checked
        // there.
        _ => unsafe { move_general(call, ctx, ct, Direction::Get, source.cast_mut().cast(), dest.cast(), bytes, pe) },
    }
}

#[inline(always)]
pub unsafe fn p<T: Element>(call: Call, ctx: Ctx, ct: Ct, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the value is on this stack and lives until the call returns.
    unsafe { put(call, ctx, ct, dest, &raw const value, 1, pe) };
}
