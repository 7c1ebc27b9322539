// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rank's end of the protocol.
//!
//! Every library in the process that links this crate has its own [`RankEnd`] of the same page. State that they share is in the page.
//!
//! Invariants
//! 1. One thread of a process makes a request at a time, under a lock in the page; others wait for the lock. In a rank with several
//!    threads, the last one that is still running hands the turn over (`threads.rs`).
//! 2. A forked child is detached: it never uses the page again, except that its fork is counted.
//! 3. Clocks never go back, and reading a clock advances it.

use std::ffi::{CStr, CString, c_char};
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

use crate::page::{
    COMMAND_BYTES, MAGIC, NIC_PATH_BYTES, PAYLOAD_AT, PAYLOAD_BYTES_MAX, PAYLOAD_INLINE, Page, REFUSED, VARIABLE,
    VERSION, kind, turn, units, wake_pipe_path,
};
use crate::system::{Shared, may_have_threads, real_clock_ns, sleep_on, wake, write_to_pipe};

/// How often a rank polls for its turn before it sleeps. This takes about a microsecond, within which an idle simulator
/// answers. Polling longer would keep the processor from the rank that has the turn.
const TURN_POLLS: u32 = 40;

/// How many polls with an unknown result are free before the next counts as one that found nothing, and how many are free again
/// after that.
const POLLS_FREE: u64 = 64;
const POLLS_FREE_AGAIN: u64 = 4;

/// How many pauses after polls that found nothing are still short; and, for a program that has found something, or has
/// worked, after longer pauses, how soon it polls again.
const PAUSES_SHORT: u64 = 5;
const REPOLL_PS: u64 = 100_000;

/// After this many clock readings, or polls that find something, in a row, other ranks run. A program that does this in a loop
/// waits for time to pass, or polls memory that a peer writes directly.
const READINGS_MAX: u64 = 256;

/// Virtual time that the first yield of a program without a NIC takes.
const YIELD_PS: u64 = 1_000_000;
/// How often that time doubles with further yields, for programs that yield in a loop until time has passed.
const YIELD_DOUBLINGS_MAX: u64 = 10;

/// A message that lies in a ring of another rank's NIC, unseen so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The index of the ring among the NIC's rings.
    pub ring: u32,
    /// The number of the message in its ring.
    pub number: u64,
    /// The header word of its slot, which makes it visible.
    pub header: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

/// A rank's end of the protocol.
#[derive(Debug)]
pub struct RankEnd {
    shared: Shared,
    wake_pipe: CString,
}

static END: AtomicPtr<RankEnd> = AtomicPtr::new(ptr::null_mut());
/// 0: not searched for yet; 1: a thread is searching; 2: there is an end; 3: there is none.
static STATE: AtomicU32 = AtomicU32::new(0);
static DETACHED: AtomicBool = AtomicBool::new(false);

const ATTACHED: u32 = 2;
const ALONE: u32 = 3;

/// Runs in a forked child.
extern "C" fn detach() {
    if !DETACHED.swap(true, SeqCst) {
        if let Some(end) = attached() {
            end.page().turn_line.forks.fetch_add(1, Relaxed);
        }
    }
}

fn attached() -> Option<&'static RankEnd> {
    // SAFETY: the pointer is null or comes from the box that `attach` leaks, so it is valid for ever.
    unsafe { END.load(Acquire).as_ref() }
}

impl RankEnd {
    /// This process's end, if it is a simulated rank.
    #[inline]
    pub fn of_process() -> Option<&'static RankEnd> {
        match STATE.load(Acquire) {
            0 => RankEnd::attach(ptr::null()),
            _ => RankEnd::if_known(),
        }
    }

    /// This process's end, if it has been found already. For functions that the search itself may call.
    #[inline]
    pub fn if_known() -> Option<&'static RankEnd> {
        match STATE.load(Acquire) {
            ATTACHED if !DETACHED.load(Relaxed) => attached(),
            _ => None,
        }
    }

    /// Finds this process's end before the C library has set up `environ`.
    ///
    /// # Safety
    /// `environment` is null, or an array of C strings that ends with a null pointer.
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
            // SAFETY: `detach` takes no arguments and is safe to run in a forked child: it uses atomics only.
            unsafe { libc::pthread_atfork(None, None, Some(detach)) };
        }
        STATE.store(if known { ATTACHED } else { ALONE }, SeqCst);
        attached()
    }

    fn find(environment: *const *const c_char) -> Option<RankEnd> {
        // SAFETY: `environment` comes from `find_first`, which requires a valid array, or is the C library's `environ`.
        let path = unsafe { page_path_in(if environment.is_null() { environ } else { environment })? };
        let complain = |what: &str| {
            let text = format!("selvedge: {VARIABLE}={}: {what}; clocks are real\n", path.to_string_lossy());
            // SAFETY: `write` reads `text.len()` bytes of `text`, which lives across the call.
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
            complain("the simulator is another version of Selvedge; install the same version for both");
            return None;
        }
        // SAFETY: `getpid` takes no arguments and cannot fail.
        let own = unsafe { libc::getpid() } as u32;
        match page.owner_pid.compare_exchange(0, own, SeqCst, SeqCst) {
            Ok(_) => Some(end),
            Err(owner) if owner == own => Some(end),
            // This process is a child of the rank and has executed another program.
            Err(_) => {
                page.turn_line.forks.fetch_add(1, Relaxed);
                None
            }
        }
    }

    /// Maps a page without checking for which process it is reserved. `Err`: errno.
    pub fn open(path: &CStr) -> Result<RankEnd, i32> {
        let shared = Shared::open(path, None, (PAYLOAD_AT + PAYLOAD_BYTES_MAX) as usize)?;
        if shared.file_bytes() < PAYLOAD_AT + PAYLOAD_INLINE {
            return Err(libc::EINVAL);
        }
        Ok(RankEnd { shared, wake_pipe: wake_pipe_path(path) })
    }

    pub(crate) fn page(&self) -> &Page {
        // SAFETY: `open` checked that the file is longer than a `Page`, and it is never shortened. The mapping is page-aligned, and
        // all words are atomics, so whatever the simulator writes is a valid value.
        unsafe { &*self.shared.base.cast::<Page>() }
    }

    // ---- time ----

    /// The time, in picoseconds since the start.
    #[inline]
    pub fn now_ps(&self) -> u64 {
        self.page().time.now_ps.load(Relaxed)
    }

    /// Reads the clock and charges the program for it. Every [`READINGS_MAX`] readings the turn goes to the simulator, so that other
    /// ranks and messages advance to this time.
    pub fn read_clock(&self) -> u64 {
        self.count_computing();
        let price = self.page().costs[2].load(Relaxed);
        let now = self.page().time.now_ps.fetch_add(price, Relaxed).saturating_add(price);
        if self.page().time.readings.fetch_add(1, Relaxed) >= READINGS_MAX {
            self.sleep(now);
            return self.now_ps();
        }
        now
    }

    /// The time that the rank did not wait.
    pub fn busy_ps(&self) -> u64 {
        let now = self.read_clock();
        now.saturating_sub(self.page().time.idle_ps.load(Relaxed))
    }

    /// Charges a call that works on the rank's own NIC.
    #[inline]
    pub fn charge_call(&self) {
        self.page().time.changes.fetch_add(1, Relaxed);
        self.charge(self.page().costs[0].load(Relaxed));
    }

    /// Charges so many accesses to main memory, by a call that works on tables of the rank's own.
    #[inline]
    pub fn charge_accesses(&self, count: u64) {
        self.page().time.changes.fetch_add(1, Relaxed);
        self.charge(count.saturating_mul(self.page().costs[8].load(Relaxed)));
    }

    /// Charges one poll of a counter or queue.
    #[inline]
    pub fn charge_look(&self) {
        self.charge(self.page().costs[1].load(Relaxed));
    }

    #[inline]
    fn charge(&self, price: u64) {
        self.page().time.now_ps.fetch_add(price, Relaxed);
    }

    /// Adds the CPU time that the program has used, if computing costs virtual time.
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

    /// Hands an operation of NIC number `ni` to the simulator; returns when the host has finished it. False: it is too long.
    pub fn start(&self, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        self.start_as(kind::START, ni, origin, command, payload)
    }

    /// As [`RankEnd::start`]. False, too, if the NIC refuses the operation.
    pub fn start_or_refuse(&self, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        self.start_as(kind::START_OR_REFUSE, ni, origin, command, payload)
    }

    /// As [`RankEnd::start`], for an operation whose reply the program waits for next: returns when a NIC of this rank has changed
    /// after that. In a rank with several threads it does not wait, since the others may have something to do meanwhile.
    pub fn start_and_wait(&self, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        let kind = if may_have_threads() { kind::START } else { kind::START_AND_WAIT };
        self.start_as(kind, ni, origin, command, payload)
    }

    fn start_as(&self, kind: u32, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        if command.len() > COMMAND_BYTES || payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return false;
        }
        let _lock = self.lock();
        if self.shared.grow(PAYLOAD_AT + payload.len() as u64).is_err() {
            return false;
        }
        let request = &self.page().request;
        for (word, bytes) in request.command.iter().zip(command.chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(eight), Relaxed);
        }
        // SAFETY: the file was just made long enough for the payload, the mapping has room for PAYLOAD_BYTES_MAX, and `payload` is
        // outside of the mapping. The simulator reads the payload only while it has the turn.
        unsafe {
            let to = self.shared.base.add(PAYLOAD_AT as usize);
            ptr::copy_nonoverlapping(payload.as_ptr(), to, payload.len());
        }
        request.ni.store(ni, Relaxed);
        request.origin.store(origin, Relaxed);
        request.payload_bytes.store(payload.len() as u64, Relaxed);
        self.page().time.polls.store(0, Relaxed);
        if kind != kind::START_AND_WAIT {
            request.reply.store(0, Relaxed);
            self.hand_over(kind, 0, false);
            return request.reply.load(Relaxed) != REFUSED;
        }
        let before = self.now_ps();
        request.reply.store(before, Relaxed);
        self.hand_over(kind, u64::MAX, false);
        // The host works until it has started the operation, and waits from then on.
        let started = request.reply.load(Relaxed).max(before);
        self.page().time.idle_ps.fetch_add(self.now_ps().saturating_sub(started), Relaxed);
        true
    }

    /// Asks the simulator whether this rank and the NIC `target` share memory: whether messages between them may go through
    /// rings.
    pub fn shares_memory(&self, ni: u32, target: u64) -> bool {
        let _lock = self.lock();
        let request = &self.page().request;
        request.ni.store(ni, Relaxed);
        request.command[0].store(target, Relaxed);
        request.reply.store(0, Relaxed);
        self.hand_over(kind::SHARES_MEMORY, 0, false);
        request.reply.load(Relaxed) != 0
    }

    /// Has a message published that this rank has written to a ring of the NIC `target`. The receiver finds it when virtual
    /// time has reached the end of the copy, and so does this call's return.
    pub fn publish(&self, ni: u32, target: u64, message: &Published) {
        let _lock = self.lock();
        let request = &self.page().request;
        request.ni.store(ni, Relaxed);
        let words = [target, u64::from(message.ring), message.number, message.header, message.bytes];
        for (word, value) in request.command.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.page().time.polls.store(0, Relaxed);
        self.hand_over(kind::PUBLISH, 0, false);
    }

    /// Charges a copy of so many bytes in memory.
    #[inline]
    pub fn charge_copy(&self, bytes: u64) {
        self.charge(bytes.saturating_mul(self.page().costs[4].load(Relaxed)) / 1024);
    }

    /// Entries of the machine's TLB, and entries that an address may be in.
    pub fn tlb(&self) -> (u32, u32) {
        (self.limit(5), self.limit(6))
    }

    /// How many lock requests that fail the machine's NICs keep.
    pub fn lock_waiters(&self) -> u32 {
        self.limit(9)
    }

    fn limit(&self, at: usize) -> u32 {
        u32::try_from(self.page().costs[at].load(Relaxed)).unwrap_or(u32::MAX)
    }

    /// Whether a full mailbox refuses messages, so that none is lost.
    pub fn mailboxes_refuse(&self) -> bool {
        self.page().costs[7].load(Relaxed) & units::MAILBOXES_REFUSE != 0
    }

    /// Whether the machine's nodes have VELO and RMA units, with paths of their own.
    pub fn has_units(&self) -> bool {
        self.page().costs[7].load(Relaxed) & units::HAS_PATHS != 0
    }

    /// A count that changes whenever a call by a thread of this rank may have changed its NICs.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.page().time.changes.load(Relaxed)
    }

    /// Waits until a NIC of this rank changes, or until a time. `changes` is the count from before the caller's last poll.
    pub fn wait(&self, until_ps: u64, changes: u64) {
        self.page().time.polls.store(0, Relaxed);
        self.pause(kind::WAIT, until_ps, changes);
    }

    /// The program has polled and found nothing.
    pub fn found_nothing(&self) {
        let time = &self.page().time;
        if time.found.swap(0, Relaxed) != 0 && time.pauses.load(Relaxed) > PAUSES_SHORT {
            // An earlier poll found something, or the program has worked since, so this pause is short again.
            self.pause(kind::WAIT, self.now_ps().saturating_add(REPOLL_PS), self.changes());
        } else {
            self.pause(kind::POLL, u64::MAX, self.changes());
        }
        time.polls.store(POLLS_FREE - POLLS_FREE_AGAIN, Relaxed);
    }

    /// The program polls, and the caller does not know whether it finds something. A poll after many others counts as part of a
    /// loop that waits.
    pub fn look(&self) {
        self.charge_look();
        let polls = &self.page().time.polls;
        if polls.fetch_add(1, Relaxed) >= POLLS_FREE {
            self.found_nothing();
        }
    }

    /// The program has polled and found something, so it is not waiting. Every [`READINGS_MAX`] such polls other ranks run all the
    /// same, because the program may find the same thing again and again while it waits for another.
    pub fn found_something(&self) {
        self.charge_look();
        let time = &self.page().time;
        time.found.store(1, Relaxed);
        time.polls.store(time.polls.load(Relaxed).min(POLLS_FREE - POLLS_FREE_AGAIN), Relaxed);
        if time.readings.fetch_add(1, Relaxed) >= READINGS_MAX {
            self.sleep(self.now_ps());
        }
    }

    /// The program has done work of its own between polls, so it may go on without a change of its NIC.
    #[inline]
    pub fn has_worked(&self) {
        self.page().time.found.store(1, Relaxed);
    }

    /// The program yields the processor. With a NIC this counts as a poll that found nothing; without one, other ranks run.
    pub fn give_up_processor(&self) {
        match self.page().nics.iter().any(|slot| slot.live.load(Relaxed) != 0) {
            true => self.found_nothing(),
            false => {
                let yields = self.page().time.yields.fetch_add(1, Relaxed);
                self.sleep(self.now_ps().saturating_add(YIELD_PS << yields.min(YIELD_DOUBLINGS_MAX)));
            }
        }
    }

    /// Sleeps until a time, whatever happens.
    pub fn sleep(&self, until_ps: u64) {
        self.pause(kind::SLEEP, until_ps, self.changes());
    }

    /// Lets time pass.
    fn pause(&self, kind: u32, until_ps: u64, changes: u64) {
        if may_have_threads() {
            return self.park(kind, until_ps, changes);
        }
        let _lock = self.lock();
        self.hand_over(kind, until_ps, true);
    }

    /// Lets the waiting threads of this rank poll again.
    pub fn wake_threads(&self) {
        // The count also reaches threads that have polled and are about to wait.
        self.page().time.changes.fetch_add(1, SeqCst);
        if may_have_threads() {
            let _lock = self.lock();
            self.wake_parked();
        }
    }

    /// Hands the turn to the simulator so that it carries out what is due at this rank's NICs.
    pub fn give_way(&self) {
        let _lock = self.lock();
        self.hand_over(kind::SLEEP, self.now_ps(), false);
    }

    /// Makes a request, and returns when this rank has the turn again.
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
        let turn_line = &page.turn_line;
        // Store, then load: the simulator sets `simulator_sleeps` and then loads `turn`. Sequential consistency makes one side see
        // the other's store, so no wake-up is lost.
        turn_line.turn.store(turn::SIMULATOR, SeqCst);
        if turn_line.simulator_sleeps.load(SeqCst) != 0 {
            write_to_pipe(&self.wake_pipe);
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
        let turn_line = &self.page().turn_line;
        for _ in 0..TURN_POLLS {
            if turn_line.turn.load(Acquire) == turn::RANK {
                return;
            }
            std::hint::spin_loop();
        }
        turn_line.rank_sleeps.store(1, SeqCst);
        while turn_line.turn.load(SeqCst) != turn::RANK {
            sleep_on(&turn_line.turn, turn::SIMULATOR);
        }
        turn_line.rank_sleeps.store(0, Relaxed);
    }

    // ---- the rank's NICs ----

    /// Announces the file of a NIC. False: there are too many NICs, or the path is too long.
    pub fn announce(&self, ni: u32, id: u64, path: &[u8]) -> bool {
        if path.len() > NIC_PATH_BYTES {
            return false;
        }
        let _lock = self.lock();
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

    /// Withdraws a NIC that is closed.
    pub fn withdraw(&self, ni: u32, id: u64) {
        let _lock = self.lock();
        for slot in &self.page().nics {
            if slot.ni.load(Relaxed) == ni && slot.id.load(Relaxed) == id {
                slot.live.store(0, Release);
            }
        }
    }

    /// Whether a thread that is not parked waits for [`RankEnd::lock`], which the caller holds.
    pub(crate) fn is_lock_contended(&self) -> bool {
        self.page().turn_line.lock_waiters.load(SeqCst) != 0
    }

    pub(crate) fn lock(&self) -> RequestLock<'_> {
        let turn_line = &self.page().turn_line;
        if turn_line.request_lock.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return RequestLock { word: &turn_line.request_lock };
        }
        turn_line.lock_waiters.fetch_add(1, SeqCst);
        let lock = self.lock_contended();
        turn_line.lock_waiters.fetch_sub(1, SeqCst);
        lock
    }

    /// The lock for parked threads: their requests are known, so they do not count as waiters.
    pub(crate) fn lock_parked(&self) -> RequestLock<'_> {
        let word = &self.page().turn_line.request_lock;
        match word.compare_exchange(0, 1, Acquire, Relaxed) {
            Ok(_) => RequestLock { word },
            Err(_) => self.lock_contended(),
        }
    }

    fn lock_contended(&self) -> RequestLock<'_> {
        let word = &self.page().turn_line.request_lock;
        while word.swap(2, Acquire) != 0 {
            sleep_on(word, 2);
        }
        RequestLock { word }
    }
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// The value of [`VARIABLE`] in an environment.
///
/// # Safety
/// `environment` is null, or an array of C strings that ends with a null pointer.
unsafe fn page_path_in(mut environment: *const *const c_char) -> Option<CString> {
    if environment.is_null() {
        return None;
    }
    loop {
        // SAFETY: the loop has not passed the null pointer that ends the array.
        let text = unsafe { environment.read() };
        if text.is_null() {
            return None;
        }
        // SAFETY: an entry that is not null is a C string, and the array has at least one more entry after it.
        let (text, next) = unsafe { (CStr::from_ptr(text), environment.add(1)) };
        if let Some(value) = text.to_bytes().strip_prefix(VARIABLE.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
        {
            return CString::new(value).ok();
        }
        environment = next;
    }
}

/// Holds the lock under which a thread makes a request.
pub(crate) struct RequestLock<'a> {
    word: &'a AtomicU32,
}

impl Drop for RequestLock<'_> {
    fn drop(&mut self) {
        if self.word.swap(0, Release) == 2 {
            wake(self.word, 1);
        }
    }
}

const _: () = assert!(size_of::<AtomicU64>() == 8);
