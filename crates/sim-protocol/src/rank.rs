// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rank's end of the wire.
//!
//! Every library in the process that includes this has its own [`RankEnd`] of the one page; what they must agree on lies there.
//!
//! Invariants
//! 1. One thread of a process asks at a time. Others that ask wait for it. Of several threads, the last one that still did
//!    something hands the turn over ([`crate::threads`]).
//! 2. A forked child is detached: the page is not touched by it again, but for counting it.
//! 3. Clocks never go back, and reading one moves it.

use std::ffi::{CStr, CString, c_char};
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

use crate::VARIABLE;
use crate::page::{
    COMMAND_BYTES, MAGIC, NIC_PATH_BYTES, PAYLOAD_AT, PAYLOAD_BYTES_MAX, PAYLOAD_INLINE, Page, VERSION, kind, turn,
};
use crate::system::{Shared, real_clock_ns, ring, sleep_on, wake};
use crate::threads;

/// How often a rank looks for its turn before it sleeps: about a microsecond, within which a simulator answers that has nothing
/// else to do first. Longer would keep the processor from the rank whose turn it is.
const LOOKS: u32 = 40;

/// Looks that a program has before it is taken to have found nothing, where the caller cannot tell; and how many of them it has
/// again when it was let go on.
const LOOKS_FREE: u64 = 64;
const LOOKS_AGAIN: u64 = 4;

/// Pauses after looks in vain that are still short, and how soon a program looks again that has found something after longer ones.
const PAUSES_SHORT: u64 = 5;
const LOOK_AGAIN_PS: u64 = 100_000;

/// Readings of the clock, or looks that find something, in a row before others are let go on: a program that reads it again and
/// again waits for time to pass, and may look at memory that a peer writes meanwhile.
const READINGS: u64 = 256;

/// What giving the processor away takes, to a program that has no NIC, at first.
const YIELD_PS: u64 = 1_000_000;
/// How often that doubles, for programs that wait so for time to pass.
const YIELDS_LONGER: u64 = 10;

/// A rank's end of the wire.
#[derive(Debug)]
pub struct RankEnd {
    shared: Shared,
    bell: CString,
}

static END: AtomicPtr<RankEnd> = AtomicPtr::new(ptr::null_mut());
/// 0: not asked yet; 1: somebody looks; 2: there is an end; 3: there is none.
static STATE: AtomicU32 = AtomicU32::new(0);
static DETACHED: AtomicBool = AtomicBool::new(false);

const ATTACHED: u32 = 2;
const ALONE: u32 = 3;

/// After a fork, in the child.
extern "C" fn detach() {
    if !DETACHED.swap(true, SeqCst) {
        if let Some(end) = attached() {
            end.page().line.forks.fetch_add(1, Relaxed);
        }
    }
}

fn attached() -> Option<&'static RankEnd> {
    // SAFETY: null, or leaked by `attach`.
    unsafe { END.load(Acquire).as_ref() }
}

impl RankEnd {
    /// This process's end, if it is a simulated rank.
    #[inline]
    pub fn of_process() -> Option<&'static RankEnd> {
        match STATE.load(Acquire) {
            ATTACHED if !DETACHED.load(Relaxed) => attached(),
            0 => RankEnd::attach(ptr::null()),
            _ => None,
        }
    }

    /// Finds this process's end before the C library has made its own picture of the environment.
    ///
    /// # Safety
    /// The environment as the system passes it to a program: strings, then null; or null.
    pub unsafe fn find_first(environment: *const *const c_char) {
        RankEnd::attach(environment);
    }

    #[cold]
    fn attach(environment: *const *const c_char) -> Option<&'static RankEnd> {
        if STATE.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
            return None;
        }
        let end = RankEnd::find(environment);
        let known = end.is_some();
        if let Some(end) = end {
            END.store(Box::into_raw(Box::new(end)), SeqCst);
            // SAFETY: a function without arguments that may be called in a child.
            unsafe { libc::pthread_atfork(None, None, Some(detach)) };
        }
        STATE.store(if known { ATTACHED } else { ALONE }, SeqCst);
        attached()
    }

    fn find(environment: *const *const c_char) -> Option<RankEnd> {
        // SAFETY: what was passed, or the C library's own.
        let path = unsafe { value_in(if environment.is_null() { environ } else { environment })? };
        let complain = |what: &str| {
            let text = format!("selvedge: {VARIABLE}={}: {what}; clocks are real\n", path.to_string_lossy());
            // SAFETY: writes a string of this frame.
            unsafe { libc::write(2, text.as_ptr().cast(), text.len()) };
        };
        let end = match RankEnd::open(&path) {
            Ok(end) => end,
            Err(error) => {
                complain(&std::io::Error::from_raw_os_error(error).to_string());
                return None;
            }
        };
        let page = end.page();
        if page.magic.load(Relaxed) != MAGIC || page.version.load(Relaxed) != VERSION {
            complain("made by another version of Selvedge");
            return None;
        }
        // SAFETY: no memory is involved.
        let own = unsafe { libc::getpid() } as u32;
        match page.owner_pid.compare_exchange(0, own, SeqCst, SeqCst) {
            Ok(_) => Some(end),
            Err(owner) if owner == own => Some(end),
            // A child of the rank, after its exec.
            Err(_) => {
                page.line.forks.fetch_add(1, Relaxed);
                None
            }
        }
    }

    /// Maps a page, for whom it may concern. `Err`: errno.
    pub fn open(path: &CStr) -> Result<RankEnd, i32> {
        let shared = Shared::open(path, None, (PAYLOAD_AT + PAYLOAD_BYTES_MAX) as usize)?;
        if shared.file_bytes() < PAYLOAD_AT + PAYLOAD_INLINE {
            return Err(libc::EINVAL);
        }
        Ok(RankEnd { shared, bell: bell_path(path) })
    }

    pub(crate) fn page(&self) -> &Page {
        // SAFETY: the file holds at least this, and is not made shorter; all words are atomics.
        unsafe { &*self.shared.base.cast::<Page>() }
    }

    // ---- time ----

    /// The time, in picoseconds since the start.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.page().time.now_ps.load(Relaxed)
    }

    /// Reads the clock, as a program does: at a price. What has happened by then, at the others and on the way from them, is let happen
    /// now and then.
    pub fn read_clock(&self) -> u64 {
        self.count_computing();
        let price = self.page().costs[2].load(Relaxed);
        let now = self.page().time.now_ps.fetch_add(price, Relaxed).saturating_add(price);
        if self.page().time.readings.fetch_add(1, Relaxed) >= READINGS {
            self.sleep(now);
            return self.now_ps();
        }
        now
    }

    /// What of the time the rank did not wait.
    pub fn busy_ps(&self) -> u64 {
        let now = self.read_clock();
        now.saturating_sub(self.page().time.idle_ps.load(Relaxed))
    }

    /// A call on the rank's own NIC.
    #[inline]
    pub fn charge_call(&self) {
        self.page().time.changes.fetch_add(1, Relaxed);
        self.charge(self.page().costs[0].load(Relaxed));
    }

    /// A look at a counter or queue.
    #[inline]
    pub fn charge_look(&self) {
        self.charge(self.page().costs[1].load(Relaxed));
    }

    #[inline]
    fn charge(&self, price: u64) {
        self.page().time.now_ps.fetch_add(price, Relaxed);
    }

    /// Adds what the program has computed, where that counts.
    fn count_computing(&self) {
        let page = self.page();
        let factor = page.costs[3].load(Relaxed);
        if factor == 0 {
            return;
        }
        let used = real_clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
        let before = page.time.used_ns.swap(used, Relaxed);
        let spent_ps = u128::from(used.saturating_sub(before)) * u128::from(factor) / 1000;
        self.charge(u64::try_from(spent_ps).unwrap_or(0));
    }

    // ---- requests ----

    /// Gives an operation of its NIC number `ni` to the simulator; back when the host is done with it. False: it is too long.
    pub fn start(&self, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        if command.len() > COMMAND_BYTES || payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return false;
        }
        let _asking = self.lock();
        if self.shared.grow(PAYLOAD_AT + payload.len() as u64).is_err() {
            return false;
        }
        let request = &self.page().request;
        for (word, bytes) in request.command.iter().zip(command.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        // SAFETY: the file was just found to hold it, and the mapping has room for the longest; the simulator reads it only
        // after it was given the turn.
        unsafe {
            let to = self.shared.base.add(PAYLOAD_AT as usize);
            ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len());
        }
        request.ni.store(ni, Relaxed);
        request.origin.store(origin, Relaxed);
        request.payload_bytes.store(payload.len() as u64, Relaxed);
        self.page().time.looks.store(0, Relaxed);
        self.hand_over(kind::START, 0, false);
        true
    }

    /// What tells whether calls of this rank's threads may have changed its NICs.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.page().time.changes.load(Relaxed)
    }

    /// Waits until a NIC of this rank changes, or until a time. `changes` is from before the caller looked.
    pub fn wait(&self, until_ps: u64, changes: u64) {
        self.page().time.looks.store(0, Relaxed);
        self.pause(kind::WAIT, until_ps, changes);
    }

    /// The program has looked and found nothing.
    pub fn found_nothing(&self) {
        let time = &self.page().time;
        if time.found.swap(0, Relaxed) != 0 && time.pauses.load(Relaxed) > PAUSES_SHORT {
            // It was not in vain before, and need not pause as long as it did when it was.
            self.pause(kind::WAIT, self.now_ps().saturating_add(LOOK_AGAIN_PS), self.changes());
        } else {
            self.pause(kind::POLL, u64::MAX, self.changes());
        }
        time.looks.store(LOOKS_FREE - LOOKS_AGAIN, Relaxed);
    }

    /// The program looks, and nobody knows yet whether it finds something. A look that follows many others is taken to be one of
    /// a loop that waits.
    pub fn look(&self) {
        self.charge_look();
        let looks = &self.page().time.looks;
        if looks.fetch_add(1, Relaxed) >= LOOKS_FREE {
            self.found_nothing();
        }
    }

    /// The program has looked and found something: it does not wait. Others are let go on now and then all the same, for it may find the
    /// same again and again, and wait for something else.
    pub fn found_something(&self) {
        self.charge_look();
        let time = &self.page().time;
        time.found.store(1, Relaxed);
        time.looks.store(time.looks.load(Relaxed).min(LOOKS_FREE - LOOKS_AGAIN), Relaxed);
        if time.readings.fetch_add(1, Relaxed) >= READINGS {
            self.sleep(self.now_ps());
        }
    }

    /// The program gives the processor away: it has found nothing, or, where it has no NIC yet to find anything at, lets others go on.
    pub fn give_up_processor(&self) {
        match self.page().nics.iter().any(|slot| slot.live.load(Relaxed) != 0) {
            true => self.found_nothing(),
            false => {
                let yields = self.page().time.yields.fetch_add(1, Relaxed);
                self.sleep(self.now_ps().saturating_add(YIELD_PS << yields.min(YIELDS_LONGER)));
            }
        }
    }

    /// Sleeps until a time, whatever happens.
    pub fn sleep(&self, until_ps: u64) {
        self.pause(kind::SLEEP, until_ps, self.changes());
    }

    /// Lets time pass.
    fn pause(&self, kind: u32, until_ps: u64, changes: u64) {
        if threads::are_several() {
            return threads::park(self, kind, until_ps, changes);
        }
        let _asking = self.lock();
        self.hand_over(kind, until_ps, true);
    }

    /// Threads of this rank that wait are to look again.
    pub fn wake_threads(&self) {
        // Those, too, that have looked and are about to wait.
        self.page().time.changes.fetch_add(1, SeqCst);
        if threads::are_several() {
            let _asking = self.lock();
            threads::wake_all(self);
        }
    }

    /// Lets the simulator look at what has become due at this rank's NICs.
    pub fn give_way(&self) {
        let _asking = self.lock();
        self.hand_over(kind::SLEEP, self.now_ps(), false);
    }

    /// Asks, and returns when this rank has the turn again.
    pub(crate) fn hand_over(&self, kind: u32, until_ps: u64, idle: bool) {
        let page = self.page();
        self.count_computing();
        let before = self.now_ps();
        page.request.kind.store(kind, Relaxed);
        page.request.until_ps.store(until_ps, Relaxed);
        page.time.requests.fetch_add(1, Relaxed);
        page.time.readings.store(0, Relaxed);
        let pauses = if kind == kind::POLL { page.time.pauses.load(Relaxed).saturating_add(1) } else { 0 };
        page.time.pauses.store(pauses, Relaxed);
        let line = &page.line;
        // Pairs with the simulator's announcement that it sleeps, then a look at the turn.
        line.turn.store(turn::SIMULATOR, SeqCst);
        if line.simulator_sleeps.load(SeqCst) != 0 {
            ring(&self.bell);
        }
        self.await_turn();
        if page.costs[3].load(Relaxed) != 0 {
            page.time.used_ns.store(real_clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID), Relaxed);
        }
        if idle {
            page.time.idle_ps.fetch_add(self.now_ps().saturating_sub(before), Relaxed);
        }
    }

    fn await_turn(&self) {
        let line = &self.page().line;
        for _ in 0..LOOKS {
            if line.turn.load(Acquire) == turn::RANK {
                return;
            }
            std::hint::spin_loop();
        }
        line.rank_sleeps.store(1, SeqCst);
        while line.turn.load(SeqCst) != turn::RANK {
            sleep_on(&line.turn, turn::SIMULATOR);
        }
        line.rank_sleeps.store(0, Relaxed);
    }

    // ---- the rank's NICs ----

    /// Says where the file of a NIC is. False: there are too many, or the path is too long.
    pub fn announce(&self, ni: u32, id: u64, path: &[u8]) -> bool {
        if path.len() > NIC_PATH_BYTES {
            return false;
        }
        let _asking = self.lock();
        let nics = &self.page().nics;
        let same = nics.iter().position(|slot| {
            slot.live.load(Relaxed) != 0 && slot.ni.load(Relaxed) == ni && slot.id.load(Relaxed) == id
        });
        let Some(at) = same.or_else(|| nics.iter().position(|slot| slot.live.load(Relaxed) == 0)) else { return false };
        let slot = &nics[at];
        slot.ni.store(ni, Relaxed);
        slot.id.store(id, Relaxed);
        slot.path_bytes.store(path.len() as u64, Relaxed);
        for (to, byte) in slot.path.iter().zip(path) {
            to.store(*byte, Relaxed);
        }
        slot.live.store(1, Release);
        true
    }

    /// A NIC is closed.
    pub fn withdraw(&self, ni: u32, id: u64) {
        let _asking = self.lock();
        for slot in &self.page().nics {
            if slot.ni.load(Relaxed) == ni && slot.id.load(Relaxed) == id {
                slot.live.store(0, Release);
            }
        }
    }

    /// Whether a thread that is not parked waits for [`RankEnd::lock`], which the caller has.
    pub(crate) fn is_asking_waited_for(&self) -> bool {
        self.page().line.askers.load(SeqCst) != 0
    }

    pub(crate) fn lock(&self) -> Asking<'_> {
        let line = &self.page().line;
        if line.asking.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return Asking { word: &line.asking };
        }
        line.askers.fetch_add(1, SeqCst);
        let asking = self.lock_waited_for();
        line.askers.fetch_sub(1, SeqCst);
        asking
    }

    /// For threads that are parked, whose wishes are known while they wait for the lock.
    pub(crate) fn lock_parked(&self) -> Asking<'_> {
        let word = &self.page().line.asking;
        match word.compare_exchange(0, 1, Acquire, Relaxed) {
            Ok(_) => Asking { word },
            Err(_) => self.lock_waited_for(),
        }
    }

    fn lock_waited_for(&self) -> Asking<'_> {
        let word = &self.page().line.asking;
        while word.swap(2, Acquire) != 0 {
            sleep_on(word, 2);
        }
        Asking { word }
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The page's path in an environment.
///
/// # Safety
/// Strings, then null; or null.
unsafe fn value_in(mut environment: *const *const c_char) -> Option<CString> {
    if environment.is_null() {
        return None;
    }
    loop {
        // SAFETY: the caller's: not beyond the null.
        let text = unsafe { environment.read() };
        if text.is_null() {
            return None;
        }
        // SAFETY: a string, as the caller says; and there is something after it.
        let (text, next) = unsafe { (CStr::from_ptr(text), environment.add(1)) };
        if let Some(value) = text.to_bytes().strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        {
            return CString::new(value).ok();
        }
        environment = next;
    }
}

/// The thread that asks.
pub(crate) struct Asking<'a> {
    word: &'a AtomicU32,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Release) == 2 {
            wake(self.word, 1);
        }
    }
}

/// The pipe that wakes a simulator which sleeps.
pub(crate) fn bell_path(page: &CStr) -> CString {
    let mut path = page.to_bytes().to_vec();
    path.extend_from_slice(b".bell");
    CString::new(path).unwrap_or_default()
}

const _: () = assert!(size_of::<AtomicU64>() == 8);
