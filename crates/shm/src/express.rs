// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The shortest put: to an entry that stays as it is, in mapped memory, which its initiator counts or ignores.
//!
//! It does what [`Interface::start`] would do, without a command and an answer in between. By a grant it does not even take the target's
//! lock ([`crate::grants`]). Where something is not as it must be, nothing has happened, and the caller uses `start`.
//!
//! A front door keeps the [`Course`] of such a put, and needs no search for the next one like it. One line crosses for the payload
//! and one for the count.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::portals::Put;
use selvedge_nic::tables::Side;

use crate::endpoint::Endpoint;
use crate::grants::{Counts, Pass, Piece};
use crate::interface::Interface;
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
    Granted(Pass),
}

/// What puts that are alike have in common. Made of what was checked, and good as long as the interface.
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
        // When a grant is due, `put_express` asks for it.
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

    /// Puts `put.length` bytes at `source`, in this process; the initiator counts what `counts` says.
    #[inline]
    pub fn put_express(&self, target: u64, put: &Put, source: u64, counts: &Counts) -> Express {
        if !self.has_express {
            return Express::No;
        }
        self.progress();
        let Some(target) = self.endpoint(target) else { return Express::No };
        if let Some(pass) = self.pass_for(target, put, counts) {
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
                return Express::Granted(pass);
            }
        }
        if *counts == Counts::NOTHING && self.put_locked(target, put, source) {
            self.earn_pass(target, put, counts);
            return Express::Done;
        }
        Express::No
    }

    /// A put that its initiator counts has gone the usual way: after many, it may go by a grant.
    pub fn note_put(&self, target: u64, put: &Put, counts: &Counts) {
        if let Some(target) = self.endpoint(target).filter(|_| self.has_express) {
            self.earn_pass(target, put, counts);
        }
    }

    /// As `put_express`, under the target's lock; the initiator counts nothing.
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
            target.routes.clear_packets();
            guard.has_fired()
        };
        self.settle_at(target, fired);
        true
    }
}
