// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The put that programs in a hurry make: to an entry that stays as it is, memory in place, told to its initiator by a count or
//! not at all.
//!
//! It is what [`Interface::start`] would do, without a command, a bus and an answer in between: by lease, without the target's
//! lock even ([`crate::leases`]). Whatever is not as it must be makes no difference to the caller: nothing has happened then,
//! and `start` does it.
//!
//! A front door that keeps the [`Course`] of such a put need look nothing up for the next one like it. One line crosses for the payload
//! and one for the count.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::portals::Put;
use selvedge_nic::tables::Side;

use crate::endpoint::Endpoint;
use crate::interface::Interface;
use crate::leases::{Pass, Piece, Told};
use crate::memory::{LiveBus, Payload, Reply};

/// Puts to a target that go the usual way after one that had to.
const DETOUR: u32 = 64;

/// How a put went.
pub enum Express {
    /// It is to go the usual way: nothing has happened.
    No,
    /// It is done, under the target's lock; others may follow by the same course.
    Done,
    /// It is done, and this thread may put there by the pass.
    Leased(Pass),
}

/// Whom puts that are alike go to, and what of them its program is told. Made of what was checked, and good as long as the interface.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// The target's process id.
    pub target: u64,
    pub portal: u32,
    pub uid: u32,
    pub initiator: u64,
}

impl Interface {
    /// A put that asks for no answer, like one that was done before ([`Express::Done`]). False: nothing has happened.
    #[inline(always)]
    pub fn put_again(&self, course: &Course, piece: &Piece) -> bool {
        self.progress();
        let Some(target) = self.endpoint(course.target) else { return false };
        // When a lease is due, `put_express` asks for it.
        if target.routes.is_due(course.portal) {
            return false;
        }
        let put = Put {
            portal: course.portal,
            uid: course.uid,
            initiator: course.initiator,
            match_bits: piece.match_bits,
            remote_offset: piece.remote_offset,
            header_data: piece.header_data,
            length: piece.length,
        };
        self.put_locked(target, &put, piece.source)
    }

    /// Puts `put.length` bytes at `source`, in this process; the initiator is told so.
    #[inline]
    pub fn put_express(&self, target: u64, put: &Put, source: u64, told: &Told) -> Express {
        if !self.has_express {
            return Express::No;
        }
        self.progress();
        let Some(target) = self.endpoint(target) else { return Express::No };
        if let Some(pass) = self.pass_for(target, put, told) {
            let piece = Piece {
                source,
                in_shared: false,
                length: put.length,
                match_bits: put.match_bits,
                remote_offset: put.remote_offset,
                header_data: put.header_data,
            };
            // SAFETY: `pass_for` of this interface gave the pass to this thread just now.
            if unsafe { self.put_by(&pass, &piece) } {
                return Express::Leased(pass);
            }
        }
        if *told == Told::NOTHING && self.put_locked(target, put, source) {
            self.earn_pass(target, put, told);
            return Express::Done;
        }
        Express::No
    }

    /// A put whose initiator is told by a count has gone the usual way: after many, it may go by lease.
    pub fn note_put(&self, target: u64, put: &Put, told: &Told) {
        if let Some(target) = self.endpoint(target).filter(|_| self.has_express) {
            self.earn_pass(target, put, told);
        }
    }

    /// As `put_express`, nobody told, under the target's lock.
    fn put_locked(&self, target: &Endpoint, put: &Put, source: u64) -> bool {
        let detour = target.detour.load(Relaxed);
        if target.own || detour != 0 {
            // Lost decrements of other threads only make the way longer.
            target.detour.store(detour.saturating_sub(1), Relaxed);
            return false;
        }
        let fired = {
            let mut guard = target.segment.lock(self.word);
            let bell = guard.signals.doorbell;
            let mail = bell.mail_tail.load(Relaxed) != bell.mail_head.load(Relaxed);
            let payload = Payload::Memory(&self.own, &Side { start: source, ..Side::NOWHERE });
            let mut bus = LiveBus { target, payload, reply: Reply::Nothing, path: self.config.path };
            let done = !mail && guard.put_express(&mut bus, put);
            if !done {
                target.detour.store(DETOUR, Relaxed);
                return false;
            }
            target.routes.clear_parcels();
            guard.has_fired()
        };
        self.settle_at(target, fired);
        true
    }
}
