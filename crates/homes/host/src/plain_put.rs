// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shortest put: into a persistent match entry in mapped memory. The initiator counts the completion or ignores it.
//!
//! It has the effect of [`Interface::start`], without a command and a response in between. Under a grant it does not
//! even take the target's lock ([`crate::grants`]). If a condition does not hold, nothing has changed, and the caller
//! uses `start`.
//!
//! The front end keeps the [`LockedRoute`] of such a put: the checked parameters that later puts share. The next put then
//! needs no lookup. One cache line moves for the payload and one for the counter.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::portals::Put;
use selvedge_nic::tables::Side;

use crate::endpoint::Endpoint;
use crate::grants::{Counts, GrantedRoute, Piece};
use crate::interface::Interface;
use crate::memory::{LiveBus, Payload, Reply};

/// Number of puts to a target that skip the short path after one that could not use it.
const RETRY_AFTER: u32 = 64;

/// The outcome of a put.
pub enum PutOutcome {
    /// The caller must use `start`: nothing has changed.
    NotDone,
    /// The put is done, under the target's lock. Puts with the same [`LockedRoute`] may follow.
    Done,
    /// The put is done, and this thread may put there with the route.
    Granted(GrantedRoute),
}

/// The checked parameters that similar puts share. Valid as long as the interface is open.
#[derive(Clone, Copy, Debug)]
pub struct LockedRoute {
    /// The target's process id.
    pub target: u64,
    pub portal: u32,
    pub uid: u32,
    pub initiator: u64,
}

impl Interface {
    /// A put without a response, with the parameters of an earlier one ([`PutOutcome::Done`]). False: nothing has changed.
    #[inline(always)]
    pub fn put_on_route(&self, route: &LockedRoute, piece: &Piece) -> bool {
        self.progress();
        let Some(target) = self.endpoint(route.target) else { return false };
        // When a grant is due, `put_plain` requests it.
        if target.routes.is_due(route.portal) {
            return false;
        }
        let put = Put {
            portal: route.portal,
            uid: route.uid,
            initiator: route.initiator,
            match_bits: piece.match_bits,
            remote_offset: piece.remote_offset,
            header_data: piece.header_data,
            length: piece.length,
        };
        self.put_locked(target, &put, piece.source)
    }

    /// Puts `put.length` bytes from `source` in this process. The initiator counts what `counts` says.
    #[inline]
    pub fn put_plain(&self, target: u64, put: &Put, source: u64, counts: &Counts) -> PutOutcome {
        if !self.offers.maps_peers {
            return PutOutcome::NotDone;
        }
        self.progress();
        let Some(target) = self.endpoint(target) else { return PutOutcome::NotDone };
        if let Some(route) = self.granted_route(target, put, counts) {
            let piece = Piece {
                source,
                in_shared: false,
                length: put.length,
                match_bits: put.match_bits,
                remote_offset: put.remote_offset,
                header_data: put.header_data,
            };
            // SAFETY: `granted_route` of this interface returned the route to this thread just now.
            if unsafe { self.put_by(&route, &piece) } {
                return PutOutcome::Granted(route);
            }
        }
        if *counts == Counts::NOTHING && self.put_locked(target, put, source) {
            self.request_grant(target, put, counts);
            return PutOutcome::Done;
        }
        PutOutcome::NotDone
    }

    /// Records a counted put that went through `start`. After many of them, later puts may use a grant.
    pub fn count_put(&self, target: u64, put: &Put, counts: &Counts) {
        if let Some(target) = self.endpoint(target).filter(|_| self.offers.maps_peers) {
            self.request_grant(target, put, counts);
        }
    }

    /// As `put_plain`, under the target's lock; the initiator counts nothing.
    fn put_locked(&self, target: &Endpoint, put: &Put, source: u64) -> bool {
        let retry_after = target.retry_after.load(Relaxed);
        if target.own || retry_after != 0 {
            // Other threads may lose decrements. That only makes the retry_after longer.
            target.retry_after.store(retry_after.saturating_sub(1), Relaxed);
            return false;
        }
        let fired = {
            let mut guard = target.segment.lock(self.word);
            let waits = self.has_packets_at(target, self.id(), &guard);
            let source = Side { start: source, ..Side::NOWHERE };
            let payload = Payload::Memory(&self.own, &source);
            let mut bus = LiveBus { target, payload, reply: Reply::Nothing, path: self.config.path, asker: None };
            let done = !waits && guard.target().plain_put(&mut bus, put);
            if !done {
                target.retry_after.store(RETRY_AFTER, Relaxed);
                return false;
            }
            target.routes.clear_packets();
            guard.has_fired()
        };
        self.settle_at(target, fired);
        true
    }
}
