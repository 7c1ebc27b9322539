// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a network holds: links, lanes, and the packets in them.
//!
//! Virtual channel `vc` of channel `c` is lane `c * virtual_channels + vc`: an *output* at its sender, with credits and an
//! owner, and a *buffer* at its receiver, a FIFO of residents. Behind these lanes come the source queues, one for each
//! node, whose only output is the node's injection channel.
//!
//! Bytes: 88 for each channel, 64 for each of its virtual channels, 68 for each node; 64 for each packet on its way, 64
//! for each buffer that it is in, 16 for each credit on its way.

use selvedge_fabric::RouteState;

use super::ChannelStatistics;
use super::packet::{LossReason, Packet};
use super::slab::{NONE, Slab};
use crate::time::Time;

/// A channel: one direction of a link. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Link {
    /// Its last flit that was sent ends here.
    pub free_at: Time,
    /// When its next wake is due; none: never.
    pub wake_at: Time,
    pub flit_time: Time,
    pub latency: Time,
    /// Residents that wait for one of its lanes, owners included.
    pub waiting: u32,
    /// The virtual channel that was served last.
    pub last_vc: u8,
    pub is_up: bool,
    pub statistics: ChannelStatistics,
}

const _: () = assert!(size_of::<Link>() == 64);

/// What of a channel only faults need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reliability {
    /// Since when it is down; up: never.
    pub down_since: Time,
    /// Flits that may be sent before one of those under way is acknowledged, and the acknowledgements under way.
    pub window: u32,
    pub acknowledgements: Releases,
}

/// A virtual channel: at its sender an output, at its receiver a buffer; or a source queue, which is a buffer only. One
/// cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Lane {
    /// The resident to which the output is allocated.
    pub owner: u32,
    /// Residents that wait for it, oldest first.
    pub waiters: u32,
    pub waiters_last: u32,
    /// The buffer that was served last, for round-robin.
    pub last: u32,
    /// Free flits of the buffer, as far as the sender knows; `ENDLESS` where that is a node.
    pub credits: u32,
    /// Credits under way.
    pub releases: Releases,
    pub channel: u32,
    /// The first and the last packet of the buffer.
    pub front: u32,
    pub back: u32,
    /// When the tail of the packet that was in front before has left.
    pub busy_until: Time,
    /// Whose buffer it is: `NONE` for a node, and for a source queue.
    pub router: u32,
    pub port: u16,
    /// The owner is known to have no room, and no credit under way that gives it any.
    pub stuck: bool,
}

const _: () = assert!(size_of::<Lane>() == 64);

/// A node takes whatever comes.
pub(super) const ENDLESS: u32 = u32::MAX;

/// A packet, or a part of it, in one buffer. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Resident {
    pub packet: u32,
    /// Behind it in its buffer.
    pub next: u32,
    pub next_waiter: u32,
    pub buffer: u32,
    /// Where it goes from here, once it asked.
    pub output: u32,
    /// Tells it from those that had its slot before, for events that are still under way.
    pub generation: u32,
    /// Flits that have not left this buffer, those that are still to come included.
    pub left: u32,
    /// Flits that could leave now.
    pub ready: u32,
    /// When it asked for its output; before that: when its head is through the switch's latency.
    pub asked: Time,
    /// Before this its last flit here cannot have ended on the next channel, because it comes in no faster.
    pub end_in: Time,
    /// When its head left.
    pub started: Time,
    pub state: State,
    /// What it sends from here does not arrive.
    pub lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// An event will tell when it may ask.
    Coming,
    /// It could ask, and is not the first of its buffer.
    Behind,
    /// It waits for its output.
    Waiting,
    /// Its output is its own; it waits for the link, for room, or for its own flits.
    Owner,
    /// What comes of it is taken out here.
    Sink,
    /// Its link failed before it arrived; it will be sent again.
    Held,
}

/// A packet from its injection to its arrival. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Flight {
    pub packet: Packet,
    pub route: RouteState,
    pub injected: Time,
    pub head: Time,
    pub flits: u32,
    pub hops: u32,
    pub fate: Fate,
}

const _: () = assert!(size_of::<Resident>() == 64 && size_of::<Flight>() == 64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Sound,
    /// Its CRC is wrong, or it was cut: its node will not take it.
    Spoilt(LossReason),
    Recovered,
}

/// Room that comes back at a time, in order of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Releases {
    front: u32,
    back: u32,
}

#[derive(Debug)]
pub(super) struct Release {
    at: Time,
    flits: u32,
    next: u32,
}

impl Releases {
    pub const EMPTY: Releases = Releases { front: NONE, back: NONE };

    #[inline]
    pub fn push(&mut self, slab: &mut Slab<Release>, at: Time, flits: u32) {
        let slot = slab.insert(Release { at, flits, next: NONE });
        if self.back == NONE {
            self.front = slot;
        } else {
            let last = &mut slab[self.back];
            let at = at.max(last.at);
            last.next = slot;
            slab[slot].at = at;
        }
        self.back = slot;
    }

    /// What has come back by now.
    #[inline]
    pub fn collect(&mut self, slab: &mut Slab<Release>, now: Time) -> u32 {
        let mut flits = 0;
        while self.front != NONE && slab[self.front].at <= now {
            let slot = self.front;
            flits += slab[slot].flits;
            self.front = slab[slot].next;
            slab.remove(slot);
        }
        if self.front == NONE {
            self.back = NONE;
        }
        flits
    }

    /// When so many flits will have come back; none: not with what is under way.
    pub fn when(&self, slab: &Slab<Release>, mut flits: u32) -> Option<Time> {
        let mut slot = self.front;
        while slot != NONE {
            let release = &slab[slot];
            flits = flits.saturating_sub(release.flits);
            if flits == 0 {
                return Some(release.at);
            }
            slot = release.next;
        }
        None
    }

    /// All that is under way.
    pub fn sum(&self, slab: &Slab<Release>) -> u32 {
        let (mut slot, mut sum) = (self.front, 0);
        while slot != NONE {
            sum += slab[slot].flits;
            slot = slab[slot].next;
        }
        sum
    }
}
