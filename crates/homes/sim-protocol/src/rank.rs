// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rank's end of the protocol: its requests, and the hand-over of the turn.
//!
//! Every library that links this crate has its own [`RankEnd`] of the same page, which holds their shared state.
//!
//! Invariants
//! 1. One thread of a process makes a request at a time, under a lock in the page. In a rank with several threads, the
//!    last one that still runs hands the turn over (`threads.rs`).
//! 2. A process that is not a rank has no end (`attach.rs`).

use std::ffi::CStr;
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst};

use crate::page::{
    COMMAND_BYTES, NEVER, NIC_PATH_BYTES, PAYLOAD_AT, PAYLOAD_BYTES_MAX, PAYLOAD_INLINE, Page, Published, REFUSED,
    REGION_NAME_BYTES, kind, turn, wake_pipe_path,
};
use crate::system::{Shared, may_have_threads, real_clock_ns, sleep_on};
use crate::wake_pipe::WakePipe;

/// Polls of a rank for its turn before it sleeps. They take about a microsecond, within which an idle simulator
/// answers. Longer polling would keep the processor from the rank that has the turn.
const TURN_POLLS: u32 = 40;

/// A rank's end of the protocol.
#[derive(Debug)]
pub struct RankEnd {
    shared: Shared,
    wake_pipe: WakePipe,
}

impl RankEnd {
    /// Maps a page without checking which process it is reserved for. `Err`: errno.
    pub fn open(path: &CStr) -> Result<RankEnd, i32> {
        let shared = Shared::open(path, None, (PAYLOAD_AT + PAYLOAD_BYTES_MAX) as usize)?;
        if shared.file_bytes() < PAYLOAD_AT + PAYLOAD_INLINE {
            return Err(libc::EINVAL);
        }
        Ok(RankEnd { shared, wake_pipe: WakePipe::new(wake_pipe_path(path)) })
    }

    pub(crate) fn page(&self) -> &Page {
        // SAFETY: `open` checked that the file is longer than a `Page`, and it is never shortened. The mapping is page-aligned, and
        // all words are atomics, so whatever the simulator writes is a valid value.
        unsafe { &*self.shared.base.cast::<Page>() }
    }

    // ---- requests ----

    /// Hands an operation of NIC number `ni` to the simulator; returns when the host has finished. False: too long.
    pub fn start(&self, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        self.start_as(kind::START, ni, origin, command, payload)
    }

    /// Like [`RankEnd::start`]; also false if the NIC refuses the operation.
    pub fn start_or_refuse(&self, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        self.start_as(kind::START_OR_REFUSE, ni, origin, command, payload)
    }

    /// Like [`RankEnd::start`], for an operation whose reply the program waits for next: returns when a NIC of this
    /// rank has changed after the start. In a rank with several threads or an armed timer it does not wait.
    pub fn start_and_wait(&self, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        let kind = if may_have_threads() || self.has_alarm() { kind::START } else { kind::START_AND_WAIT };
        self.start_as(kind, ni, origin, command, payload)
    }

    fn start_as(&self, kind: u32, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        if command.len() > COMMAND_BYTES || payload.len() as u64 > PAYLOAD_BYTES_MAX {
            return false;
        }
        let started = self.start_locked(kind, ni, origin, command, payload);
        self.expire_alarms();
        started
    }

    fn start_locked(&self, kind: u32, ni: u32, origin: u64, command: &[u8], payload: &[u8]) -> bool {
        let _lock = self.page().turn_line.lock();
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
            self.hand_over(kind, NEVER, false);
            return request.reply.load(Relaxed) != REFUSED;
        }
        let before = self.now_ps();
        request.reply.store(before, Relaxed);
        self.hand_over(kind, NEVER, false);
        // The host works until it has started the operation, and waits from then on.
        let started = request.reply.load(Relaxed).max(before);
        self.page().time.idle_ps.fetch_add(self.now_ps().saturating_sub(started), Relaxed);
        true
    }

    /// Asks the simulator whether this rank and the NIC `target` share memory, so that messages may use rings.
    pub fn shares_memory(&self, ni: u32, target: u64) -> bool {
        let _lock = self.page().turn_line.lock();
        let request = &self.page().request;
        request.ni.store(ni, Relaxed);
        request.command[0].store(target, Relaxed);
        request.reply.store(0, Relaxed);
        self.hand_over(kind::SHARES_MEMORY, NEVER, false);
        request.reply.load(Relaxed) != 0
    }

    /// Begins or ends a region of the program, in no time. Names longer than [`REGION_NAME_BYTES`] are cut.
    pub fn region(&self, name: &[u8], begins: bool) {
        let _lock = self.page().turn_line.lock();
        let request = &self.page().request;
        let length = name.len().min(REGION_NAME_BYTES);
        // SAFETY: the file has room for a payload of PAYLOAD_INLINE bytes from the start, and `name` is outside of the
        // mapping. The simulator reads the payload only while it has the turn.
        unsafe {
            let to = self.shared.base.add(PAYLOAD_AT as usize);
            ptr::copy_nonoverlapping(name.as_ptr(), to, length);
        }
        request.payload_bytes.store(length as u64, Relaxed);
        request.command[0].store(u64::from(begins), Relaxed);
        self.hand_over(kind::REGION, NEVER, false);
    }

    /// Publishes a message that this rank has written to a ring of the NIC `target`. The receiver sees it, and this
    /// call returns, when virtual time has reached the end of the copy.
    pub fn publish(&self, ni: u32, target: u64, message: &Published) {
        let lock = self.page().turn_line.lock();
        let request = &self.page().request;
        request.ni.store(ni, Relaxed);
        let words = [target, u64::from(message.ring), message.number, message.header, message.bytes];
        for (word, value) in request.command.iter().zip(words) {
            word.store(value, Relaxed);
        }
        self.page().time.polls.store(0, Relaxed);
        self.hand_over(kind::PUBLISH, NEVER, false);
        drop(lock);
        self.expire_alarms();
    }

    /// Hands the turn to the simulator, which carries out all that is due at this rank's NICs.
    pub fn yield_turn(&self) {
        let _lock = self.page().turn_line.lock();
        self.hand_over(kind::SLEEP, self.now_ps(), false);
    }

    /// Makes a request; returns when this rank has the turn again: a wait ends when the next timer expires, at the latest.
    pub(crate) fn hand_over(&self, kind: u32, until_ps: u64, idle: bool) {
        let page = self.page();
        self.count_computing();
        let before = self.now_ps();
        let until_ps = until_ps.min(page.time.alarm_ps.load(Relaxed)).max(before);
        page.request.kind.store(kind, Relaxed);
        page.request.until_ps.store(until_ps, Relaxed);
        page.time.requests.fetch_add(1, Relaxed);
        page.time.readings.store(0, Relaxed);
        let pauses = if matches!(kind, kind::POLL | kind::POLL_IN_CALL) {
            page.time.pauses.load(Relaxed).saturating_add(1)
        } else {
            0
        };
        page.time.pauses.store(pauses, Relaxed);
        let turn_line = &page.turn_line;
        // Store, then load: the simulator sets `simulator_sleeps` and then loads `turn`. Sequential consistency makes one side see
        // the other's store, so no wake-up is lost.
        turn_line.turn.store(turn::SIMULATOR, SeqCst);
        if turn_line.simulator_sleeps.load(SeqCst) != 0 {
            self.wake_pipe.wake();
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

    /// Announces the file of a NIC. False: too many NICs, or the path is too long.
    pub fn announce(&self, ni: u32, id: u64, path: &[u8]) -> bool {
        if path.len() > NIC_PATH_BYTES {
            return false;
        }
        let _lock = self.page().turn_line.lock();
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

    /// Withdraws a closed NIC.
    pub fn withdraw(&self, ni: u32, id: u64) {
        let _lock = self.page().turn_line.lock();
        for slot in &self.page().nics {
            if slot.ni.load(Relaxed) == ni && slot.id.load(Relaxed) == id {
                slot.live.store(0, Release);
            }
        }
    }
}

const _: () = assert!(size_of::<AtomicU64>() == 8);
