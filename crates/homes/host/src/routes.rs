// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of puts under grants: routes to a peer, and lanes of this process's own counters ([`crate::grants`]).

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::Release};

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::event::EventTemplate;

use crate::grants::held::{Kept, ThreadOwned};

/// Routes to one peer (portal table entries share them by the low bits of their index), and own lanes of a NIC.
pub(crate) const ROUTES: usize = 4;
#[derive(Default)]
pub(crate) struct Routes {
    pub(crate) routes: [ThreadOwned<Route>; ROUTES],
    /// Whether packets of this process may wait at the peer.
    pub(crate) packets_wait: AtomicBool,
}

pub(crate) type OwnLanes = [ThreadOwned<OwnLane>; ROUTES];

/// A portal table entry of a peer, to which a grant permits this thread to put.
pub(crate) struct Route {
    pub(crate) portal: u32,
    pub(crate) uid: u32,
    pub(crate) initiator: u64,
    pub(crate) to: Destination,
    /// The queue for its events, and the fields that all its events share.
    pub(crate) queue: u32,
    pub(crate) stamp: Option<EventTemplate>,
    /// The address of the next event, if no other thread puts there first.
    pub(crate) next_event: *const AtomicU64,
    pub(crate) silent: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Destination {
    pub(crate) match_bits: u64,
    /// The bits of them that must match.
    pub(crate) care_bits: u64,
    /// The entry's memory as mapped here. Null: each put checks whether the memory is mapped.
    pub(crate) memory: *mut u8,
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) in_bytes: bool,
}

/// A lane of a counter of this process's own NIC.
pub(crate) struct OwnLane {
    pub(crate) counter: u32,
}

impl Kept<OwnLane> {
    pub(crate) fn is_of(&self, counter: u32) -> bool {
        self.of.counter == counter && self.held.number != 0
    }
}

impl Routes {
    #[inline(always)]
    pub(crate) fn at(&self, portal: u32) -> &ThreadOwned<Route> {
        &self.routes[portal as usize % ROUTES]
    }

    /// Counts a put to this portal table entry. True when a grant should be requested.
    #[inline(always)]
    pub(crate) fn is_due(&self, portal: u32) -> bool {
        self.at(portal).is_due()
    }

    /// Records that a packet of this process was enqueued for the peer.
    pub(crate) fn note_packet(&self) {
        self.packets_wait.store(true, Release);
    }

    #[inline(always)]
    pub(crate) fn clear_packets(&self) {
        if self.packets_wait.load(Relaxed) {
            self.packets_wait.store(false, Release);
        }
    }
}

impl Default for OwnLane {
    fn default() -> OwnLane {
        OwnLane { counter: NONE }
    }
}

impl Default for Route {
    fn default() -> Route {
        Route {
            portal: NONE,
            uid: 0,
            initiator: 0,
            to: Destination {
                match_bits: 0,
                care_bits: 0,
                memory: ptr::null_mut(),
                start: 0,
                length: 0,
                in_bytes: false,
            },
            queue: NONE,
            stamp: None,
            next_event: ptr::null(),
            silent: false,
        }
    }
}
