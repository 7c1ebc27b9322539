// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page that a rank and its simulator share.
//!
//! A file: this header, then payload. All words are atomics, so that any bits are a value and nothing is undefined, whoever
//! writes. Words that both sides poll have lines of their own.

use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

/// "SELVTURN".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SELVTURN");
pub const VERSION: u32 = 4;
/// Where payload begins in the file.
pub const PAYLOAD_AT: u64 = 8192;
/// Payload that the file has room for from the start.
pub const PAYLOAD_INLINE: u64 = 64 << 10;
/// The longest payload of one operation: 1 GiB.
pub const PAYLOAD_BYTES_MAX: u64 = 1 << 30;
/// Room for a command of the NIC.
pub const COMMAND_BYTES: usize = 256;
/// NICs that a rank may have open at once.
pub const NICS: usize = 16;
/// Threads of a rank that may wait at once.
pub const THREADS: usize = 48;
/// The longest path of a NIC's file.
pub const NIC_PATH_BYTES: usize = 232;

/// Who has the turn.
pub mod turn {
    pub const SIMULATOR: u32 = 0;
    pub const RANK: u32 = 1;
}

/// What a rank asks for.
pub mod kind {
    pub const START: u32 = 1;
    pub const WAIT: u32 = 2;
    pub const POLL: u32 = 3;
    pub const SLEEP: u32 = 4;
}

/// What things cost a rank that it does itself, in picoseconds. Set by the simulator, from the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A call that works on the rank's own NIC.
    pub call_ps: u64,
    /// A look at a counter or a queue.
    pub look_ps: u64,
    /// Reading a clock.
    pub clock_ps: u64,
    /// Virtual time for each second of the processor that the program used, in parts of a million; 0: computing is free.
    pub compute_ppm: u64,
}

/// The first bytes of the file.
#[repr(C, align(128))]
pub struct Page {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    /// The only process that this page is for.
    pub owner_pid: AtomicU32,
    pub costs: [AtomicU64; 4],
    pad: [u64; 10],
    pub line: TurnLine,
    pub time: TimeLine,
    pub request: RequestLines,
    pub nics: [NicSlot; NICS],
    pub parked: [Parked; THREADS],
}

/// Who has the turn, and who sleeps until the other gives it.
#[repr(C, align(128))]
pub struct TurnLine {
    pub turn: AtomicU32,
    pub rank_sleeps: AtomicU32,
    pub simulator_sleeps: AtomicU32,
    /// Held by the thread of the rank that asks: 0 free, 1 held, 2 held and waited for.
    pub asking: AtomicU32,
    /// Children that the rank has forked.
    pub forks: AtomicU32,
    /// Threads that wait to ask and are not parked: nobody knows yet what they ask for.
    pub askers: AtomicU32,
}

/// Time, in picoseconds since the start. The rank's while it has the turn.
#[repr(C, align(128))]
pub struct TimeLine {
    pub now_ps: AtomicU64,
    /// Of it, what the rank spent waiting.
    pub idle_ps: AtomicU64,
    /// Processor time of the process when it was last added to `now_ps`, in nanoseconds.
    pub used_ns: AtomicU64,
    /// Requests so far.
    pub requests: AtomicU64,
    /// Looks since anything happened.
    pub looks: AtomicU64,
    /// Calls of the rank's own that may have changed its NICs.
    pub changes: AtomicU64,
    /// How often it has given the processor away before it had a NIC.
    pub yields: AtomicU64,
    /// Readings of the clock since the last request.
    pub readings: AtomicU64,
    /// Looks that found something, since one was in vain.
    pub found: AtomicU64,
    /// Looks in vain in a row that the turn was given away for: the pause after them doubles.
    pub pauses: AtomicU64,
}

#[repr(C, align(128))]
pub struct RequestLines {
    pub kind: AtomicU32,
    pub ni: AtomicU32,
    /// Of the NIC that starts an operation: nid << 32 | pid.
    pub origin: AtomicU64,
    pub until_ps: AtomicU64,
    pub payload_bytes: AtomicU64,
    pub command: [AtomicU64; COMMAND_BYTES / 8],
}

/// A NIC that the rank has open.
#[repr(C)]
pub struct NicSlot {
    /// 0: none.
    pub live: AtomicU32,
    pub ni: AtomicU32,
    /// nid << 32 | pid.
    pub id: AtomicU64,
    pub path_bytes: AtomicU64,
    pub path: [AtomicU8; NIC_PATH_BYTES],
}

/// A thread of a rank with several that waits.
#[repr(C)]
pub struct Parked {
    /// 0: nobody.
    pub thread: AtomicU32,
    pub kind: AtomicU32,
    pub until_ps: AtomicU64,
    /// [`TimeLine::changes`] when it last looked.
    pub changes: AtomicU64,
    /// 1: it may go on.
    pub go: AtomicU32,
    pad: u32,
}

const _: () = {
    assert!(size_of::<Page>() as u64 <= PAYLOAD_AT);
    assert!(offset_of!(Page, line) == 128);
    assert!(offset_of!(Page, time) == 256);
    assert!(offset_of!(Page, request) == 384);
    assert!(offset_of!(Page, nics) == 768);
    assert!(size_of::<NicSlot>() == 256);
    assert!(size_of::<Parked>() == 32);
    assert!(PAYLOAD_AT % 4096 == 0 && PAYLOAD_INLINE % 4096 == 0);
};
