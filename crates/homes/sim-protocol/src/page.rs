// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page that a rank and its simulator share.
//!
//! The page is a file: this header, then payload. All words are atomics, so any bits are a value and no access is
//! undefined, whatever the other side writes. Words that both sides poll have cache lines of their own.

use std::ffi::{CStr, CString};
use std::mem::{offset_of, size_of};
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use crate::watched::WATCHED;

/// Environment variable with the path of a rank's page.
pub const VARIABLE: &str = "SELVEDGE_SIM";

/// First word of the file: "SELVTURN".
pub const MAGIC: u64 = u64::from_le_bytes(*b"SELVTURN");
/// Version of the layout and of the name of the wake-up pipe.
pub const VERSION: u32 = 13;
/// Offset of the payload in the file.
pub const PAYLOAD_AT: u64 = 24576;
/// Bytes of payload that the file has room for from the start.
pub const PAYLOAD_INLINE: u64 = 64 << 10;
/// Longest payload of one operation: 1 GiB.
pub const PAYLOAD_BYTES_MAX: u64 = 1 << 30;
/// Longest command of a NIC.
pub const COMMAND_BYTES: usize = 256;
/// NICs that a rank may have open at once.
pub const NICS: usize = 16;
/// Threads of a rank that may wait at once.
pub const THREADS: usize = 256;
/// A time that never comes.
pub const NEVER: u64 = u64::MAX;
/// Longest path of a NIC's file.
pub const NIC_PATH_BYTES: usize = 232;

/// Longest name of a region; longer ones are cut.
pub const REGION_NAME_BYTES: usize = 128;

/// The side that has the turn.
pub mod turn {
    pub const SIMULATOR: u32 = 0;
    pub const RANK: u32 = 1;
}

/// Kinds of request.
pub mod kind {
    pub const START: u32 = 1;
    pub const WAIT: u32 = 2;
    pub const POLL: u32 = 3;
    pub const SLEEP: u32 = 4;
    pub const PUBLISH: u32 = 5;
    pub const SHARES_MEMORY: u32 = 6;
    /// START, then WAIT without a limit.
    pub const START_AND_WAIT: u32 = 7;
    /// START; the simulator reports a refusal by the NIC ([`super::REFUSED`]).
    pub const START_OR_REFUSE: u32 = 8;
    /// POLL in a call that returns only when the rank's NICs have changed.
    pub const POLL_IN_CALL: u32 = 9;
    /// Begin (first word of the command: 1) or end (0) a region, whose name is the payload. It takes no time.
    pub const REGION: u32 = 10;
}

/// Reply to a start that the NIC refused.
pub const REFUSED: u64 = u64::MAX;

/// Bits of [`Costs::units`].
pub mod units {
    /// A full mailbox refuses messages instead of losing them.
    pub const MAILBOXES_REFUSE: u64 = 1;
    /// Nodes have VELO and RMA units with paths of their own. Otherwise these units' commands travel as packets.
    pub const HAS_PATHS: u64 = 2;
}

/// Costs of the rank's own actions, in picoseconds. The simulator sets them from the machine's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// A call that works on the rank's own NIC.
    pub call_ps: u64,
    /// Polling a counter or a queue once.
    pub poll_ps: u64,
    /// Reading a clock.
    pub clock_ps: u64,
    /// Virtual time for each second of CPU time that the program uses, in millionths of a second; 0: computing is free.
    pub compute_ppm: u64,
    /// Copying 1 KiB in memory.
    pub copy_ps_per_kib: u64,
    /// Entries of the translation unit's TLB, and entries that an address may be in; 0: no unit.
    pub tlb_entries: u64,
    pub tlb_ways: u64,
    /// Properties of the machine's units: [`units`].
    pub units: u64,
    /// An access to main memory.
    pub memory_ps: u64,
    /// Failing lock requests that a NIC keeps.
    pub lock_waiters: u64,
}

/// A message in a ring of another rank's NIC, not yet visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// Index of the ring among the NIC's rings.
    pub ring: u32,
    /// Number of the message in its ring.
    pub number: u64,
    /// Header word of its slot; storing it makes the message visible.
    pub header: u64,
    /// Bytes of payload.
    pub bytes: u64,
}

/// The header of the file.
#[repr(C, align(128))]
pub struct Page {
    pub magic: AtomicU64,
    pub version: AtomicU32,
    /// The only process that may use this page; 0: the first one that opens it.
    pub owner_pid: AtomicU32,
    pub costs: [AtomicU64; 10],
    pad: [u64; 4],
    pub turn_line: TurnLine,
    pub time: TimeLine,
    pub request: RequestLines,
    pub nics: [NicSlot; NICS],
    pub parked: [Parked; THREADS],
}

/// The side that has the turn, whether each side sleeps until it gets the turn, and the lock of the rank's threads.
#[repr(C, align(128))]
pub struct TurnLine {
    pub turn: AtomicU32,
    pub rank_sleeps: AtomicU32,
    pub simulator_sleeps: AtomicU32,
    /// The lock under which a thread of the rank makes a request: 0 free, 1 held, 2 held with waiters.
    pub request_lock: AtomicU32,
    /// Children that the rank has forked.
    pub forks: AtomicU32,
    /// Threads that wait for the lock and are not parked: their requests are not yet known.
    pub lock_waiters: AtomicU32,
}

/// Time in picoseconds since the start. Written by the side that has the turn.
#[repr(C, align(128))]
pub struct TimeLine {
    pub now_ps: AtomicU64,
    /// The part of `now_ps` that the rank spent waiting.
    pub idle_ps: AtomicU64,
    /// CPU time of the process when it was last added to `now_ps`, in nanoseconds.
    pub used_ns: AtomicU64,
    /// Requests so far.
    pub requests: AtomicU64,
    /// Polls with an unknown result since the last request.
    pub polls: AtomicU64,
    /// Calls by the rank that may have changed its NICs.
    pub changes: AtomicU64,
    /// Yields of the processor before the rank opened a NIC.
    pub yields: AtomicU64,
    /// Clock readings and successful polls since the last request.
    pub readings: AtomicU64,
    /// 1 if a poll has found something, or the program has worked, since the last poll that found nothing.
    pub found: AtomicU64,
    /// Number of polls in a row that found nothing and handed the turn over. The pause after each doubles.
    pub pauses: AtomicU64,
    /// Time at which the rank's next timer expires; [`NEVER`]: none is armed. No request lasts longer.
    pub alarm_ps: AtomicU64,
    /// Signal that tells a rank that the simulator had stopped that a timer is due; 0: none.
    pub alarm_signal: AtomicU64,
    /// The thread that is in a call which returns only when its NICs have changed; 0: none.
    pub caller: AtomicU64,
}

#[repr(C, align(128))]
pub struct RequestLines {
    pub kind: AtomicU32,
    pub ni: AtomicU32,
    /// Id of the NIC that starts an operation: nid << 32 | pid.
    pub origin: AtomicU64,
    pub until_ps: AtomicU64,
    pub payload_bytes: AtomicU64,
    /// The simulator's reply: to a question; [`REFUSED`] to an operation that the NIC refused; to START_AND_WAIT the
    /// time at which the host has started the operation.
    pub reply: AtomicU64,
    pub command: [AtomicU64; COMMAND_BYTES / 8],
}

/// A NIC that the rank has open.
#[repr(C)]
pub struct NicSlot {
    /// 0: the slot is free.
    pub live: AtomicU32,
    pub ni: AtomicU32,
    /// nid << 32 | pid.
    pub id: AtomicU64,
    pub path_bytes: AtomicU64,
    pub path: [AtomicU8; NIC_PATH_BYTES],
}

/// A waiting thread, in a rank with several threads.
#[repr(C)]
pub struct Parked {
    /// Kernel thread id; 0: the slot is free.
    pub thread: AtomicU32,
    pub kind: AtomicU32,
    pub until_ps: AtomicU64,
    /// [`TimeLine::changes`] when the thread last polled.
    pub changes: AtomicU64,
    /// 1: the thread may continue.
    pub go: AtomicU32,
    /// The place where it waits: [`place`].
    pub place: AtomicU32,
    /// Time at which its wait began; [`NEVER`]: nothing outside of the process ends it.
    pub since_ps: AtomicU64,
    /// Signals that end its wait, of which bit n - 1 is signal n. One that is pending makes it count as awake.
    pub signals: AtomicU64,
    /// Descriptors that end its wait in the kernel.
    pub watched: [AtomicU64; WATCHED],
}

/// Places where a parked thread waits.
pub mod place {
    /// For its turn, on its slot.
    pub const SLOT: u32 = 0;
    /// In the kernel, for an event. It sleeps there if the kernel says so.
    pub const KERNEL: u32 = 1;
    /// For an event as in [`KERNEL`], and it is awake now.
    pub const AWAKE: u32 = 2;
}

/// Returns the path of the named pipe that wakes a sleeping simulator.
pub(crate) fn wake_pipe_path(page: &CStr) -> CString {
    let mut path = page.to_bytes().to_vec();
    path.extend_from_slice(b".wake");
    CString::new(path).unwrap_or_default()
}

const _: () = {
    assert!(size_of::<Page>() as u64 <= PAYLOAD_AT);
    assert!(offset_of!(Page, turn_line) == 128);
    assert!(offset_of!(Page, time) == 256);
    assert!(offset_of!(Page, request) == 384);
    assert!(offset_of!(Page, nics) == 768);
    assert!(size_of::<NicSlot>() == 256);
    assert!(size_of::<Parked>() == 64);
    assert!(PAYLOAD_AT % 4096 == 0 && PAYLOAD_INLINE % 4096 == 0);
};
