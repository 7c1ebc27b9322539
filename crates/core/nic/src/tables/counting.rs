// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of counters, event queues and triggered operations, for the holders of the lock.

use super::command::Command;
use crate::signals::LANES;

/// Status of triggered operations.
pub mod triggered {
    /// Waits for its counter.
    pub const ARMED: u32 = 1;
    /// On the fire queue.
    pub const QUEUED: u32 = 2;
    /// A process is executing it.
    pub const FIRING: u32 = 3;
}

/// A triggered operation.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct Triggered {
    pub slot: u32,
    /// The counter that it waits for.
    pub counter: u32,
    pub threshold: u64,
    pub next: u32,
    pub prev: u32,
    /// The object that it changes: a counter (reference), or an entry (index and generation as `entry_generation`).
    pub object: u32,
    pub list: u32,
    pub sequence: u64,
    /// The process that runs it, by the home's identifier of the process.
    pub executor: u64,
    pub success: u64,
    pub failure: u64,
    pub command: Command,
    pub reserved: u64,
}

/// Status of counters.
pub mod counter {
    pub const LIVE: u32 = 1;
}

/// Flag in a lane's owner word: the lane belongs to a grant. The other bits are the grant's slot.
pub const GRANTED: u32 = 1 << 31;

/// A counter's record for the holders of the lock.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct CounterBook {
    pub slot: u32,
    pub next_free: u32,
    pub success: u64,
    pub failure: u64,
    /// The lowest threshold of a waiting operation; `u64::MAX`: none.
    pub threshold_next: u64,
    /// First and last waiting operation, lowest threshold first.
    pub armed_head: u32,
    pub armed_tail: u32,
    /// The sum of the lanes when the first operation was armed. Thresholds include it; the lanes do not change while
    /// operations are armed.
    pub lanes_when_armed: u64,
    /// The owner of each lane: a number that the home gives its processes, 0 for none, or a grant
    /// ([`crate::portals::grants`]).
    pub lane_owners: [u32; LANES],
}

/// Status of event queues.
pub mod queue {
    pub const LIVE: u32 = 1;
}

/// An event queue's record for the holders of the lock.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
pub struct QueueBook {
    pub slot: u32,
    pub next_free: u32,
    pub ring: u32,
    pub capacity: u32,
    /// Events written so far.
    pub tail: u64,
    /// An earlier value of the consumers' head. The head may be further.
    pub head_seen: u64,
    /// Room for the events of puts whose payload is being fetched.
    pub held: u64,
    pub reserved: [u64; 3],
}

const _: () = {
    assert!(size_of::<Triggered>() == 256);
    assert!(size_of::<CounterBook>() == 128);
    assert!(size_of::<QueueBook>() == 64);
};
