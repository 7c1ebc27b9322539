// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a network: links, virtual channels, and the packets in their buffers.
//!
//! Virtual channel `vc` of channel `c` has index `c * virtual_channels + vc`. It is an *output* at its sender, with
//! credits and an owner, and a *buffer* at its receiver, a FIFO of residents. After the virtual channels come the
//! source queues, one for each node; the only output of a source queue is the node's injection channel.
//!
//! Bytes: 88 for each channel, 64 for each of its virtual channels, 76 for each node; 64 for each packet in flight, 64
//! for each buffer that it is in, 16 for each return of credits in flight.

use selvedge_fabric::RouteState;

use super::ChannelStatistics;
use super::packet::{LossReason, Packet};
use super::slab::{NONE, Slab};
use crate::time::Time;

/// A channel: one direction of a link. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Link {
    /// Time at which the last sent flit ends.
    pub free_at: Time,
    /// Time of the next wake event; `Time::MAX`: none is queued.
    pub wake_at: Time,
    pub flit_time: Time,
    pub latency: Time,
    /// Residents that wait for one of its virtual channels, owners included.
    pub waiting: u32,
    /// Virtual channel served last, for round-robin arbitration.
    pub last_vc: u8,
    pub is_up: bool,
    pub statistics: ChannelStatistics,
}

const _: () = assert!(size_of::<Link>() == 64);

/// The part of a channel's state that only faults and retransmission use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reliability {
    /// Time of its failure; `Time::MAX`: it is up.
    pub down_since: Time,
    /// Flits that may be sent before the next acknowledgement.
    pub window: u32,
    pub acknowledgements: Releases,
}

/// A virtual channel: an output at its sender, a buffer at its receiver. Or a source queue, only a buffer. One line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct VirtualChannel {
    /// The resident to which the output is allocated.
    pub owner: u32,
    /// Residents that wait for it, oldest first.
    pub waiters: u32,
    pub waiters_last: u32,
    /// Buffer served last, for round-robin arbitration; `NONE`: none yet, so the first in order comes next.
    pub last: u32,
    /// Free flits of the buffer, as known to the sender; `UNLIMITED` if the receiver is a node.
    pub credits: u32,
    pub releases: Releases,
    pub channel: u32,
    /// First and last packet of the buffer.
    pub front: u32,
    pub back: u32,
    /// Time at which the tail of the previous front packet has left.
    pub busy_until: Time,
    /// Router of the buffer; `NONE` at a node, and for a source queue.
    pub router: u32,
    pub port: u16,
    /// The owner has no room, and the credits on their way back are too few.
    pub stuck: bool,
    /// STOP and CONTINUE control it (`control.rs`).
    pub gated: bool,
    /// Its other half is in another partition (`border.rs`): of an output, if `router` is `NONE`, and else of a buffer.
    pub at_border: bool,
}

const _: () = assert!(size_of::<VirtualChannel>() == 64);

/// Credits of an output towards a node, which accepts every packet.
pub(super) const UNLIMITED: u32 = u32::MAX;

/// A packet, or a part of it, in one buffer. One cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Resident {
    pub packet: u32,
    pub next: u32,
    pub next_waiter: u32,
    pub buffer: u32,
    /// Its output, once it has asked for one.
    pub output: u32,
    /// Differs from that of earlier users of the slot: an event with another generation is stale.
    pub generation: u32,
    /// Flits that have not left this buffer, including those not yet in it.
    pub left: u32,
    /// Flits that can leave.
    pub ready: u32,
    /// Time of its request for its output; before that, time at which its head has passed the switch's latency.
    pub asked: Time,
    /// Earliest end of the last flit of this buffer on the next channel, since it arrives no faster.
    pub end_in: Time,
    pub started: Time,
    pub state: State,
    /// Whether the link loses the flits that it sends from here.
    pub lost: bool,
    /// Of a copied packet: its copies that have not left.
    pub copies: u16,
    /// Of a copy: the packet that keeps the buffer for it. A copy is not in its buffer's list.
    pub holder: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// A `Ready` event is queued for it.
    Arriving,
    /// It has arrived, but is not the first packet of its buffer.
    Queued,
    /// It waits until its output is allocated to it.
    Waiting,
    /// Its output is allocated to it; it waits for the link, for credits, or for its own flits.
    Owner,
    /// Its flits are removed from the network here.
    Draining,
    /// Its link failed before it arrived; it is sent again after the repair.
    Held,
    /// It was copied, and keeps its buffer until all copies have left (`multicast.rs`).
    Copied,
}

/// A packet from its injection to its arrival, or a copy of it from its switch. One cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Flight {
    pub packet: Packet,
    pub route: RouteState,
    pub injected: Time,
    pub head: Time,
    pub flits: u32,
    /// Bytes by which its last flit is shorter than a full one.
    pub missing: u32,
    /// Output to its node, once its head has left the last router. On a tree, before that: its branch.
    pub output: u32,
    pub hops: u16,
    pub fate: Fate,
    pub cast: Cast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cast {
    One,
    /// On its way along a tree: to be copied, even if only once.
    Tree,
    /// A copy that leaves its last router.
    Leaf,
}

const _: () = assert!(size_of::<Resident>() == 64 && size_of::<Flight>() == 64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Intact,
    /// It is lost: wrong CRC, cut short, or no route.
    Lost(LossReason),
    /// It was taken out of a deadlock, and is delivered later.
    Recovered,
}

/// Returning credits or acknowledgements, in order of time: a list of [`Release`].
///
/// It may hold credits that have not arrived. They tell when to look again, and nothing else.
#[derive(Clone, Copy, Debug)]
pub(super) struct Releases {
    front: u32,
    back: u32,
}

/// At `at`, this number of flits may be sent again.
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
            (self.front, self.back) = (slot, slot);
        } else if slab[self.back].at <= at {
            slab[self.back].next = slot;
            self.back = slot;
        } else {
            self.insert(slab, slot, at);
        }
    }

    /// Inserts an entry before later ones: credits of a lost packet return later than those behind them.
    #[cold]
    fn insert(&mut self, slab: &mut Slab<Release>, slot: u32, at: Time) {
        let (mut before, mut next) = (NONE, self.front);
        while slab[next].at <= at {
            (before, next) = (next, slab[next].next);
        }
        slab[slot].next = next;
        if before == NONE {
            self.front = slot;
        } else {
            slab[before].next = slot;
        }
    }

    /// Returns the slot of the last entry, or `NONE`.
    #[inline]
    pub fn last(&self) -> u32 {
        self.back
    }

    /// Removes the entries returned by `now`; returns the sum of their flits.
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

    /// Returns the time at which `flits` have returned. `None`: fewer are in flight.
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

    /// Returns the flits that have returned by `now`.
    pub fn arrived(&self, slab: &Slab<Release>, now: Time) -> u32 {
        let (mut slot, mut sum) = (self.front, 0);
        while slot != NONE && slab[slot].at <= now {
            sum += slab[slot].flits;
            slot = slab[slot].next;
        }
        sum
    }

    /// Returns all flits, returned or on their way.
    pub fn sum(&self, slab: &Slab<Release>) -> u32 {
        let (mut slot, mut sum) = (self.front, 0);
        while slot != NONE {
            sum += slab[slot].flits;
            slot = slab[slot].next;
        }
        sum
    }
}
