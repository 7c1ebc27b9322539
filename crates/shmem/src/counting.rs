// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Counting puts (seed 004, sections 2 and 2.1): a put that its target learns of by a counter, without flag or fence.
//!
//! A `shmem_ct_t` is, at every PE, one counting event of its NIC; each counts what arrives at that PE. In place, a counting
//! put stores the bytes and then one word of the counter's line at the target: the sender's own *lane*, or, when twenty others
//! have lanes, a word that the rest add to ([`selvedge_transport::nic::portals::counters`]). By commands, it is a Portals put to
//! the counter's own list entry, and the target's NIC counts.
//!
//! Invariants
//! 1. A counter is at the same index at every PE; its NIC's reference is told in the library's region when it is created,
//!    before anybody may use it.
//! 2. What a counter shows is what has arrived less what `shmem_ct_set` took away: setting stores nothing that senders
//!    store to, so nothing that arrives meanwhile is lost.
//! 3. The count is stored after the bytes. Nothing else is ordered: each counter is for itself (section 2.1).
//!
//! Limits: [`Counters::limit`], 4,096 where nothing else is set. Costs: a put is its stores and one more; a counter 320
//! bytes in the NIC and 8 in the region, and 16 for each PE that this one counts at; waiting polls one line where up to four PEs count,
//! and three beyond.

use std::ffi::{c_int, c_long};
use std::sync::atomic::{
    AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release, Ordering::SeqCst,
};
use std::sync::{Mutex, PoisonError};

use selvedge_transport::nic::portals::counters::Lane;
use selvedge_transport::nic::signals::Counter;

use crate::hand::{Hand, at_hand};
use crate::remote::{COUNTER_TABLE, library};
use crate::rma::{copy, copy_to_tell};
use crate::types::Element;
use crate::{Call, Ct, Ctx, Place, Reach, Sym, World, check, collective, world};

/// Counters where `SELVEDGE_SHMEM_COUNTERS` says nothing.
const DEFAULT_LIMIT: u32 = 4096;
/// Match bits of a counter's entries: never 0, which are those of the entries that do not count.
const COUNTS: u64 = 1 << 32;

/// How this PE counts at another's counter.
#[derive(Default)]
struct Link {
    /// In place, the word at that PE, and in its lowest bit whether it is added to; by commands, match bits. 0: not known.
    word: AtomicU64,
    /// What this PE has counted in its lane.
    counted: AtomicU64,
}

/// A counter of this PE.
struct Record {
    /// 0: free; else its generation.
    live: AtomicU32,
    reference: AtomicU32,
    /// What is taken from what arrived.
    taken: AtomicI64,
    /// This PE's own line.
    line: AtomicPtr<Counter>,
    /// The only word of it that was ever counted in; null where none is known, or several are.
    only: AtomicPtr<AtomicU64>,
    /// How it counts at each PE.
    links: AtomicPtr<Link>,
    /// Entries of the NIC, by commands.
    entries: [AtomicU32; 2],
}

/// What there is to hand out: the same at every PE, because creating and freeing are collective.
struct Free {
    records: Vec<u32>,
    generation: u32,
}

/// All counters of this PE.
pub(crate) struct Counters {
    records: &'static [Record],
    free: Mutex<Free>,
}

impl Counters {
    /// How many there may be.
    pub fn limit() -> Result<u32, String> {
        let Some(text) = std::env::var_os("SELVEDGE_SHMEM_COUNTERS") else { return Ok(DEFAULT_LIMIT) };
        let text = text.to_string_lossy();
        text.trim()
            .parse()
            .ok()
            .filter(|counters| *counters <= 1 << 18)
            .ok_or_else(|| format!("SELVEDGE_SHMEM_COUNTERS={text}: wanted a number up to 262144"))
    }

    pub fn new(count: usize) -> Counters {
        let record = |_| Record {
            live: AtomicU32::new(0),
            reference: AtomicU32::new(0),
            taken: AtomicI64::new(0),
            line: AtomicPtr::default(),
            only: AtomicPtr::default(),
            links: AtomicPtr::default(),
            entries: [const { AtomicU32::new(0) }; 2],
        };
        // Kept to the end of the process, as the world is.
        let records: &'static [Record] = Box::leak((0..count).map(record).collect());
        RECORDS.store(records.as_ptr().cast_mut(), Relaxed);
        RECORD_COUNT.store(count, Release);
        Counters { records, free: Mutex::new(Free { records: (0..count as u32).rev().collect(), generation: 0 }) }
    }

    /// The counter that a handle names (`generation << 32 | index + 1`), or a report.
    #[inline(always)]
    fn checked(&self, call: Call, ct: Ct) -> Option<&'static Record> {
        let record = live_record(ct);
        if record.is_none() {
            check::refuse(call, "ct", format_args!("{:#x}: not a counter, or not any more", ct.0));
        }
        record
    }
}

impl Record {
    /// This PE's own line of a live record.
    #[inline(always)]
    fn line(&self) -> &Counter {
        // SAFETY: it lies in this PE's own segment.
        unsafe { &*self.line.load(Relaxed) }
    }

    /// What it shows.
    #[inline(always)]
    fn value(&self) -> c_long {
        (self.line().arrived() as i64).wrapping_sub(self.taken.load(Relaxed))
    }

    /// The only word that was counted in, when that was last looked at. It shows no more than the counter does.
    #[inline(always)]
    fn only(&self) -> Option<&AtomicU64> {
        // SAFETY: null, or a word of this PE's own line.
        unsafe { self.only.load(Relaxed).as_ref() }
    }

    /// Looks whether one PE alone counts here.
    fn find_only(&self) {
        let line = self.line();
        let words = [&line.success, &line.common].into_iter().chain(line.given());
        let mut counted = words.filter(|word| word.load(Relaxed) != 0);
        let only = counted.next().filter(|_| counted.next().is_none());
        self.only.store(only.map_or(std::ptr::null_mut(), |word| std::ptr::from_ref(word).cast_mut()), Relaxed);
    }

    /// Whether failures were counted (by commands only).
    fn failures(&self) -> u64 {
        self.line().failure.load(Relaxed)
    }
}

/// All records, for calls that have nothing else to ask of the world.
static RECORDS: AtomicPtr<Record> = AtomicPtr::new(std::ptr::null_mut());
static RECORD_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The counter that a handle names, if it lives.
#[inline(always)]
fn live_record(ct: Ct) -> Option<&'static Record> {
    if ct.index() >= RECORD_COUNT.load(Relaxed) {
        return None;
    }
    // SAFETY: there are so many, and they are never freed.
    let record = unsafe { &*RECORDS.load(Relaxed).add(ct.index()) };
    let generation = record.live.load(Acquire);
    // A branch, whose outcome the processor guesses, and not a choice of what to load next, for which it would wait.
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
    /// Its place in the table; far beyond it for an invalid one.
    #[inline(always)]
    fn index(self) -> usize {
        (self.0 & 0xffff_ffff).wrapping_sub(1)
    }
}

/// The word that tells a counter's reference at every PE.
fn reference_word(index: usize) -> Sym {
    library(COUNTER_TABLE + index as u64 * 8)
}

impl World {
    /// How this PE counts at another's counter, found out once.
    #[cold]
    #[inline(never)]
    fn link(&self, record: &Record, index: usize, pe: usize) -> Option<()> {
        let mut reference = 0u64;
        self.get(pe, Place::from(reference_word(index), 8), (&raw mut reference).cast(), 8);
        let window = self.window(pe)?;
        let counter = window.counter(reference as u32)?;
        let sender = self.me() as u32 + 1;
        let word = match self.interface.lane(window, reference as u32, sender)? {
            Lane::Own(lane) if !self.multiple.load(Relaxed) => &raw const counter.lanes[lane] as u64,
            Lane::Own(lane) => &raw const counter.lanes[lane] as u64 | 1,
            _ => &raw const counter.common as u64 | 1,
        };
        record.link_to(pe).word.store(word, Release);
        Some(())
    }

    /// Counts for the first time at a PE.
    fn count_first(&self, call: Call, record: &Record, ct: Ct, pe: usize) {
        match self.link(record, ct.index(), pe).and_then(|()| record.aim(pe)) {
            Some(aim) => aim.count(),
            None => check::refuse(call, "pe", format_args!("{pe}: has no such counter any more")),
        }
    }
}

impl Record {
    /// How it counts at a PE.
    #[inline(always)]
    fn link_to(&self, pe: usize) -> &Link {
        // SAFETY: an array with one link for each PE, made with the counter.
        unsafe { &*self.links.load(Relaxed).add(pe) }
    }

    /// Where it counts at a PE in place, if that is known.
    #[inline(always)]
    fn aim(&self, pe: usize) -> Option<Aim<'_>> {
        let link = self.link_to(pe);
        let word = link.word.load(Acquire);
        if word == 0 {
            return None;
        }
        // SAFETY: a word of the peer's counter, in its segment, which stays mapped.
        let target = unsafe { &*((word & !1) as *const AtomicU64) };
        let next = link.counted.load(Relaxed) + 1;
        Some(Aim { target, own: (word & 1 == 0).then_some((&link.counted, next)) })
    }
}

/// Where an arrival is to be counted. It is found before the bytes are moved, so that nothing stands between the last of them and the count.
struct Aim<'a> {
    target: &'a AtomicU64,
    /// Where this PE has a lane, what it counted in that, and what comes next.
    own: Option<(&'a AtomicU64, u64)>,
}

impl Aim<'_> {
    /// Counts one arrival, after the bytes.
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
    // SAFETY: null, or the caller's.
    let Some(ct) = (unsafe { ct.as_mut() }) else {
        check::refuse(call, "ct", format_args!("null"));
        return;
    };
    *ct = Ct::INVALID;
    let counters = &world.counters;
    let mut free = counters.free.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(index) = free.records.pop() else {
        eprintln!(
            "selvedge: PE {}: {call}: no counter left of {} (SELVEDGE_SHMEM_COUNTERS sets how many there may be)",
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
        let entries = match world.in_place() {
            true => Some([0, 0]),
            false => world.commands.offer(world.interface, COUNTS | u64::from(reference), reference),
        };
        let line = world.interface.signals().counter(reference);
        let (Some(entries), Some(line)) = (entries, line) else { return false };
        record.reference.store(reference, Relaxed);
        record.line.store(std::ptr::from_ref(line).cast_mut(), Relaxed);
        record.taken.store(0, Relaxed);
        record.only.store(std::ptr::null_mut(), Relaxed);
        record.entries.iter().zip(entries).for_each(|(slot, entry)| slot.store(entry, Relaxed));
        if record.links.load(Relaxed).is_null() {
            let links: Box<[Link]> = (0..world.n_pes()).map(|_| Link::default()).collect();
            record.links.store(Box::leak(links).as_mut_ptr(), Relaxed);
        }
        for pe in 0..world.n_pes() {
            let link = record.link_to(pe);
            link.word.store(0, Relaxed);
            link.counted.store(0, Relaxed);
        }
        world.word(reference_word(index as usize)).store(reference.into(), Release);
        record.live.store(generation, SeqCst);
        true
    });
    // Nobody may count here before the counter is.
    if collective::agree(world, u64::from(made)) == 1 {
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
    // SAFETY: null, or the caller's.
    let Some(ct) = (unsafe { ct.as_mut() }) else {
        check::refuse(call, "ct", format_args!("null"));
        return;
    };
    if *ct == Ct::INVALID {
        return;
    }
    let Some(record) = world.counters.checked(call, *ct) else { return };
    // Everyone has finished with it.
    collective::barrier_all(call);
    if record.failures() != 0 {
        check::report(format_args!("{call}: {} counting operations failed at this PE", record.failures()));
    }
    drop_record(world, record);
    let index = ct.index();
    world.counters.free.lock().unwrap_or_else(PoisonError::into_inner).records.push(index as u32);
    *ct = Ct::INVALID;
    // And no handle of it is used anywhere when the next one is made.
    collective::sync_all(call);
}

fn drop_record(world: &World, record: &Record) {
    if record.live.swap(0, SeqCst) == 0 {
        return;
    }
    let mut guard = world.interface.lock();
    if !world.in_place() {
        for entry in &record.entries {
            let _ = guard.unlink(entry.load(Relaxed));
        }
    }
    guard.counter_free(record.reference.load(Relaxed));
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
    record.taken.fetch_add(shown.wrapping_sub(value), SeqCst);
}

#[inline]
pub fn wait(call: Call, ct: Ct, value: c_long) {
    let Some(world) = world(call) else { return };
    let Some(record) = world.counters.checked(call, ct) else { return };
    // Who reads several words of a line while that is taken away begins all of them anew: where one PE alone counts here, the
    // first looks are at its word.
    let arrived = value.wrapping_add(record.taken.load(Relaxed));
    let only = record.only();
    let reached = || only.is_some_and(|word| word.load(Acquire) as i64 >= arrived);
    if reached() {
        return;
    }
    world.wait_watching(
        || only.is_none() || reached(),
        || match reached() {
            true => Some(()),
            false => (record.value() >= value).then(|| record.find_only()),
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

/// Which way the bytes of a counting operation go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Put,
    Get,
}

/// Match bits of a counter's entries at a PE, by commands.
fn bits(world: &World, record: &Record, ct: Ct, pe: usize) -> u64 {
    let link = record.link_to(pe);
    match link.word.load(Acquire) {
        0 => {
            let mut reference = 0u64;
            world.get(pe, Place::from(reference_word(ct.index()), 8), (&raw mut reference).cast(), 8);
            link.word.store(COUNTS | reference, Release);
            COUNTS | reference
        }
        bits => bits,
    }
}

/// Moves and counts where memory is not at hand, or not yet, or where there is none.
#[cold]
#[inline(never)]
unsafe fn elsewhere(call: Call, ctx: Ctx, ct: Ct, way: Way, far: *mut u8, near: *mut u8, bytes: usize, pe: c_int) {
    let Some(world) = world(call) else { return };
    let Some(record) = world.counters.checked(call, ct) else { return };
    let Some(rank) = world.pe(call, ctx, pe) else { return };
    let argument = if way == Way::Put { "dest" } else { "source" };
    let Some(reach) = world.reach(call, argument, far, bytes, rank) else { return };
    // SAFETY: the far range was found inside of symmetric memory; the near one is the caller's.
    unsafe {
        match (reach, way) {
            (Reach::InPlace(at), Way::Put) => copy(near, at, bytes),
            (Reach::InPlace(at), Way::Get) => copy(at, near, bytes),
            // Static data can be out of reach where counters are not: what was moved has come before it is counted.
            (Reach::Nic(spot), Way::Put) if world.in_place() => {
                world.nic_put(ctx, spot, near, bytes);
                world.contexts.quiet(world.interface, ctx);
            }
            (Reach::Nic(spot), Way::Get) if world.in_place() => world.nic_get(ctx, spot, near, bytes),
            (Reach::Nic(spot), Way::Put) => {
                world.nic_put_counting(ctx, spot, bits(world, record, ct, rank), near, bytes);
            }
            (Reach::Nic(spot), Way::Get) => {
                world.nic_get_counting(ctx, spot, bits(world, record, ct, rank), near, bytes);
            }
        }
    }
    if world.in_place() {
        world.count_first(call, record, ct, rank);
        world.ring(rank);
    }
}

/// Where to count, and a range of a PE's symmetric memory, where both are at hand.
#[inline(always)]
fn near(ct: Ct, ctx: Ctx, far: *const u8, bytes: usize, pe: c_int) -> Option<(Aim<'static>, Hand)> {
    let record = live_record(ct)?;
    let hand = at_hand(ctx, far, bytes, pe)?;
    Some((record.aim(hand.pe)?, hand))
}

#[inline(always)]
pub unsafe fn put<T: Element>(call: Call, ctx: Ctx, ct: Ct, dest: *mut T, source: *const T, nelems: usize, pe: c_int) {
    let bytes = nelems.saturating_mul(size_of::<T>());
    match near(ct, ctx, dest.cast(), bytes, pe) {
        Some((aim, hand)) => {
            // SAFETY: the target was found inside of symmetric memory; the source is the caller's.
            unsafe { copy_to_tell(source.cast(), hand.at, bytes, std::ptr::from_ref(aim.target).cast()) };
            aim.count();
            hand.ring();
        }
        // SAFETY: the caller's.
        _ => unsafe { elsewhere(call, ctx, ct, Way::Put, dest.cast(), source.cast_mut().cast(), bytes, pe) },
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
    // SAFETY: the caller's.
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
    match near(ct, ctx, source.cast(), bytes, pe) {
        Some((aim, hand)) => {
            // SAFETY: the source was found inside of symmetric memory; the target is the caller's.
            unsafe { copy(hand.at, dest.cast(), bytes) };
            aim.count();
            hand.ring();
        }
        // SAFETY: the caller's.
        _ => unsafe { elsewhere(call, ctx, ct, Way::Get, source.cast_mut().cast(), dest.cast(), bytes, pe) },
    }
}

#[inline(always)]
pub unsafe fn p<T: Element>(call: Call, ctx: Ctx, ct: Ct, dest: *mut T, value: T, pe: c_int) {
    // SAFETY: the caller's; the value lives until the call returns.
    unsafe { put(call, ctx, ct, dest, &raw const value, 1, pe) };
}
