// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shortest put: into a persistent match entry in mapped memory. The initiator counts the completion or ignores it.
//!
//! It has the effect of [`Interface::start`], without a command and a response in between. Under a grant it does not
//! even take the target's lock ([`crate::grants`]). If a condition does not hold, nothing has changed, and the caller
//! uses `start`.
//!
//! The front end keeps the [`LockedRoute`] of such a put: the checked parameters that later puts share. The next put
//! then needs no lookup. One cache line moves for the payload and one for the counter.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::portals::Put;
use selvedge_nic::tables::Side;

use crate::endpoint::Endpoint;
use crate::grants::{Counts, GrantedRoute, Piece, request_grant};
use crate::interface::Interface;
use crate::memory::{LiveBus, Payload, Reply};
use crate::packets;

/// Number of puts to a target that skip the short path after one that could not use it.
const RETRY_AFTER: u32 = 64;

/// The outcome of a put.
pub enum PutOutcome {
    /// Nothing has changed; the caller must use `start`.
    NotDone,
    /// The put is done, under the target's lock. Puts with the same [`LockedRoute`] may follow.
    Done,
    /// The put is done, and this thread may use the route for later puts.
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

impl LockedRoute {
    /// Puts without a response, with the parameters of an earlier put ([`PutOutcome::Done`]). False if nothing has
    /// changed.
    #[inline(always)]
    pub fn put(&self, interface: &Interface, piece: &Piece) -> bool {
        interface.progress();
        let Some(target) = interface.endpoint(self.target) else { return false };
        // When a grant is due, `put_plain` requests it.
        if target.routes.is_due(self.portal) {
            return false;
        }
        let put = Put {
            portal: self.portal,
            uid: self.uid,
            initiator: self.initiator,
            match_bits: piece.match_bits,
            remote_offset: piece.remote_offset,
            header_data: piece.header_data,
            length: piece.length,
        };
        put_locked(interface, target, &put, piece.source)
    }
}

/// Puts `put.length` bytes from `source` in this process. The initiator counts the events in `counts`.
#[inline]
pub fn put_plain(interface: &Interface, target: u64, put: &Put, source: u64, counts: &Counts) -> PutOutcome {
    if !interface.offers.maps_peers {
        return PutOutcome::NotDone;
    }
    interface.progress();
    let Some(target) = interface.endpoint(target) else { return PutOutcome::NotDone };
    if let Some(route) = GrantedRoute::find(interface, target, put, counts) {
        let piece = Piece {
            source,
            in_shared: false,
            length: put.length,
            match_bits: put.match_bits,
            remote_offset: put.remote_offset,
            header_data: put.header_data,
        };
        // SAFETY: `GrantedRoute::find` returned the route to this thread just now.
        if unsafe { route.put(interface, &piece) } {
            return PutOutcome::Granted(route);
        }
    }
    if *counts == Counts::NOTHING && put_locked(interface, target, put, source) {
        request_grant(interface, target, put, counts);
        return PutOutcome::Done;
    }
    PutOutcome::NotDone
}

/// Records a counted put that went through `start`. After many of them, later puts may use a grant.
pub fn count_put(interface: &Interface, target: u64, put: &Put, counts: &Counts) {
    if let Some(target) = interface.endpoint(target).filter(|_| interface.offers.maps_peers) {
        request_grant(interface, target, put, counts);
    }
}

/// As `put_plain`, under the target's lock; the initiator counts nothing.
fn put_locked(interface: &Interface, target: &Endpoint, put: &Put, source: u64) -> bool {
    let retry_after = target.retry_after.load(Relaxed);
    if target.own || retry_after != 0 {
        // Other threads may lose decrements. That only makes the pause longer.
        target.retry_after.store(retry_after.saturating_sub(1), Relaxed);
        return false;
    }
    let fired = {
        let mut guard = target.segment.lock(interface.word);
        let waits = packets::wait_for(target, interface.id(), interface.id(), &guard);
        let source = Side { start: source, ..Side::NOWHERE };
        let payload = Payload::Memory(&interface.own, &source);
        let mut bus = LiveBus { target, payload, reply: Reply::Nothing, path: interface.config.path, asker: None };
        let done = !waits && guard.target().plain_put(&mut bus, put);
        if !done {
            target.retry_after.store(RETRY_AFTER, Relaxed);
            return false;
        }
        target.routes.clear_packets();
        guard.has_fired()
    };
    interface.work_at(target).put(put.length);
    interface.settle_at(target, fired);
    true
}
