// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The put that programs in a hurry make: to an entry that stays as it is, memory in place, no answer wanted.
//!
//! It is what [`Interface::start`] would do, without a command, a bus and an answer in between. Whatever is not as it must be
//! makes no difference to the caller: nothing has happened then, and `start` does it.
//!
//! Budget: some 400 instructions from the front door to the unlocked target, where `start` takes 530; one line crosses for the payload
//! and one for the count.

use std::sync::atomic::Ordering::Relaxed;

use selvedge_nic::portals::Put;

use crate::interface::Interface;
use crate::memory::copy_direct;

/// Puts to a target that go the usual way after one that had to.
const DETOUR: u32 = 64;

impl Interface {
    /// Puts `put.length` bytes at `source`. False: nothing has happened.
    #[inline(always)]
    pub fn put_express(&self, target: u64, put: &Put, source: u64) -> bool {
        if !self.has_express {
            return false;
        }
        self.progress();
        let Some(target) = self.endpoint(target) else { return false };
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
            let done = !mail
                && guard.put_express(put, |address, bytes| {
                    if bytes == 0 {
                        return true;
                    }
                    let Some(to) = target.in_place(address, bytes, self.config.path) else { return false };
                    if !self.own.own_readable(source, bytes) {
                        return false;
                    }
                    copy_direct(source as *const u8, to.as_ptr(), bytes as usize);
                    true
                });
            if !done {
                target.detour.store(DETOUR, Relaxed);
                return false;
            }
            guard.has_fired()
        };
        self.settle_at(target, fired);
        true
    }
}
