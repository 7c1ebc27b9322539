// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The counters of counting puts (seed 004, section 2): this PE's own, and its access to those of other PEs.
//!
//! Invariants
//! 1. A counter has the same index at every PE, because creating and freeing are collective. A handle is `generation <<
//!    32 | index + 1`, so a freed or invented one is recognised.
//! 2. A counter's value is its arrivals minus the number that `shmem_ct_set` subtracted. Setting does not store to the
//!    senders' words, so no arrival is lost meanwhile.
//! 3. Records are never freed, so a call finds one without the world.
//!
//! Limits: [`Counters::limit`], 4,096 by default. Costs: 16 bytes for each PE that counts at a counter of this PE.

use std::ffi::c_long;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release, Ordering::SeqCst,
};

use selvedge_os::sync::IgnorePoison;
use selvedge_process::nic::signals::Counter;

use crate::check::{self, Call};
use crate::handles::Ct;

const DEFAULT_LIMIT: u32 = 4096;

/// This PE's access to the counter of another PE.
#[derive(Default)]
pub(crate) struct PeerCounter {
    /// On mapped memory, the address of the word at that PE; its lowest bit is set if the word is shared and needs an
    /// atomic add. By commands, match bits. 0: not known yet.
    pub word: AtomicU64,
    /// The value of this PE's own word at that PE.
    counted: AtomicU64,
}

/// A counter of this PE, or a free record.
pub(crate) struct Record {
    /// 0 if free, else the generation.
    live: AtomicU32,
    reference: AtomicU32,
    subtracted: AtomicI64,
    /// The counter in this PE's own segment.
    local_counter: AtomicPtr<Counter>,
    /// The only word that any sender has written; null if there are several, or if that is not known.
    sole_word: AtomicPtr<AtomicU64>,
    peer_counters: AtomicPtr<PeerCounter>,
    /// By commands: the entries in this PE's NIC.
    entries: [AtomicU32; 2],
}

/// The free counters, the same at every PE.
struct FreeCounters {
    records: Vec<u32>,
    generation: u32,
}

pub(crate) struct Counters {
    records: &'static [Record],
    free: Mutex<FreeCounters>,
}

impl Counters {
    /// The number of counters of the job, from the settings.
    pub fn limit() -> Result<u32, String> {
        let Some(text) = selvedge_settings::value("SELVEDGE_SHMEM_COUNTERS") else { return Ok(DEFAULT_LIMIT) };
        let text = text.to_string_lossy();
        text.trim()
            .parse()
            .ok()
            .filter(|counters| *counters <= 1 << 18)
            .ok_or_else(|| format!("SELVEDGE_SHMEM_COUNTERS={text}: must be a number up to 262144"))
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

    /// The number of counters that can exist at once.
    pub fn most(&self) -> usize {
        self.records.len()
    }

    /// A record by its index.
    pub fn record(&self, index: u32) -> &'static Record {
        &self.records[index as usize]
    }

    /// Takes a free record: its index and next generation. `None`: all are in use.
    pub fn take(&self) -> Option<(u32, u32)> {
        let mut free = self.free.lock().ignore_poison();
        let index = free.records.pop()?;
        free.generation = free.generation % 0x7fff_ffff + 1;
        Some((index, free.generation))
    }

    /// Returns a record to the free ones.
    pub fn give(&self, index: u32) {
        self.free.lock().ignore_poison().records.push(index);
    }

    /// The record of a handle. `None`: it has been reported.
    #[inline(always)]
    pub fn checked(&self, call: Call, ct: Ct) -> Option<&'static Record> {
        let record = live_record(ct);
        if record.is_none() {
            check::refuse(call, "ct", format_args!("{:#x}: not a counter, or already freed", ct.0));
        }
        record
    }
}

impl Record {
    /// Prepares a free record for a counter of the NIC, at zero. By commands, `entries` are its entries in the NIC.
    pub fn prepare(&self, reference: u32, local_counter: &Counter, entries: [u32; 2], n_pes: usize) {
        self.reference.store(reference, Relaxed);
        self.local_counter.store(std::ptr::from_ref(local_counter).cast_mut(), Relaxed);
        self.subtracted.store(0, Relaxed);
        self.sole_word.store(std::ptr::null_mut(), Relaxed);
        self.entries.iter().zip(entries).for_each(|(slot, entry)| slot.store(entry, Relaxed));
        if self.peer_counters.load(Relaxed).is_null() {
            let peer_counters: Box<[PeerCounter]> = (0..n_pes).map(|_| PeerCounter::default()).collect();
            self.peer_counters.store(Box::leak(peer_counters).as_mut_ptr(), Relaxed);
        }
        for pe in 0..n_pes {
            let peer_counter = self.peer_counter(pe);
            peer_counter.word.store(0, Relaxed);
            peer_counter.counted.store(0, Relaxed);
        }
    }

    /// Makes a prepared record live.
    pub fn open(&self, generation: u32) {
        self.live.store(generation, SeqCst);
    }

    /// Makes a record free. Returns false if it was free already.
    pub fn close(&self) -> bool {
        self.live.swap(0, SeqCst) != 0
    }

    /// The counter's reference in this PE's NIC.
    pub fn reference(&self) -> u32 {
        self.reference.load(Relaxed)
    }

    /// By commands: the counter's entries in this PE's NIC.
    pub fn entries(&self) -> [u32; 2] {
        self.entries.each_ref().map(|entry| entry.load(Relaxed))
    }

    /// The counter in this PE's own segment; of a live record.
    #[inline(always)]
    fn local_counter(&self) -> &Counter {
        // SAFETY: `prepare` has stored the address before the record was made live; the counter is in this PE's own
        // segment, which stays mapped.
        unsafe { &*self.local_counter.load(Relaxed) }
    }

    /// The counter's value.
    #[inline(always)]
    pub fn value(&self) -> c_long {
        (self.local_counter().arrived() as i64).wrapping_sub(self.subtracted.load(Relaxed))
    }

    /// Sets the value.
    #[inline(always)]
    pub fn set(&self, value: c_long) {
        self.subtracted.fetch_add(self.value().wrapping_sub(value), SeqCst);
    }

    /// The number of arrivals at which the counter's value is `value`.
    #[inline(always)]
    pub fn arrivals_at(&self, value: c_long) -> i64 {
        value.wrapping_add(self.subtracted.load(Relaxed))
    }

    /// The only word that any sender had written at the last [`Record::find_sole_word`]. It never exceeds the arrivals.
    #[inline(always)]
    pub fn sole_word(&self) -> Option<&AtomicU64> {
        // SAFETY: null, or a word of the counter in this PE's own segment, which stays mapped.
        unsafe { self.sole_word.load(Relaxed).as_ref() }
    }

    /// Finds out whether a single PE counts here, and records its word.
    pub fn find_sole_word(&self) {
        let local_counter = self.local_counter();
        let words = [&local_counter.success, &local_counter.common].into_iter().chain(local_counter.given());
        let mut counted = words.filter(|word| word.load(Relaxed) != 0);
        let sole_word = counted.next().filter(|_| counted.next().is_none());
        self.sole_word
            .store(sole_word.map_or(std::ptr::null_mut(), |word| std::ptr::from_ref(word).cast_mut()), Relaxed);
    }

    /// Failed operations (by commands only).
    pub fn failures(&self) -> u64 {
        self.local_counter().failure.load(Relaxed)
    }

    /// This PE's access to the counter of a PE.
    #[inline(always)]
    pub fn peer_counter(&self, pe: usize) -> &PeerCounter {
        // SAFETY: `prepare` has stored the address of an array with an element for each PE before the record was made
        // live. The array is never freed, and `pe` is a checked rank.
        unsafe { &*self.peer_counters.load(Relaxed).add(pe) }
    }

    /// The word at a PE that counts this PE's arrivals, if known and mapped.
    #[inline(always)]
    pub fn count_target(&self, pe: usize) -> Option<CountTarget<'_>> {
        let peer_counter = self.peer_counter(pe);
        let word = peer_counter.word.load(Acquire);
        if word == 0 {
            return None;
        }
        // SAFETY: the word of the peer's counter, in a segment that stays mapped, is accessed by atomics only.
        let target = unsafe { &*((word & !1) as *const AtomicU64) };
        let next = peer_counter.counted.load(Relaxed) + 1;
        Some(CountTarget { target, own: (word & 1 == 0).then_some((&peer_counter.counted, next)) })
    }
}

/// All records, for calls that need nothing else from the world.
static RECORDS: AtomicPtr<Record> = AtomicPtr::new(std::ptr::null_mut());
static RECORD_COUNT: AtomicUsize = AtomicUsize::new(0);

/// The record of a handle, if it is live.
#[inline(always)]
pub(crate) fn live_record(ct: Ct) -> Option<&'static Record> {
    if ct.index() >= RECORD_COUNT.load(Relaxed) {
        return None;
    }
    // SAFETY: the count is not zero only after `Counters::new`, which stores the address of the records first, and the
    // standard lets no thread call before `shmem_init` has returned. They are never freed.
    let record = unsafe { &*RECORDS.load(Relaxed).add(ct.index()) };
    let generation = record.live.load(Acquire);
    // A branch, which the processor predicts. A select would make the next load wait for this one.
    if generation == 0 || ct.0 >> 32 != generation as usize {
        return no_record();
    }
    Some(record)
}

#[cold]
fn no_record() -> Option<&'static Record> {
    None
}

pub(crate) fn handle(generation: u32, index: u32) -> Ct {
    Ct((generation as usize) << 32 | (index as usize + 1))
}

impl Ct {
    /// The index in the table; far beyond it if the handle is invalid.
    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.0 & 0xffff_ffff).wrapping_sub(1)
    }
}

/// The word that counts an arrival. It is found before the bytes move, so that the count follows them at once.
pub(crate) struct CountTarget<'a> {
    pub target: &'a AtomicU64,
    /// If the word there is this PE's own: its value here, and the next value.
    own: Option<(&'a AtomicU64, u64)>,
}

impl CountTarget<'_> {
    /// Counts an arrival. The caller has moved the bytes already.
    #[inline(always)]
    pub fn count(&self) {
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
