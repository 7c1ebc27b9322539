// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The express way: a put to an entry that stays as it is, with both memories at hand.
//!
//! Most puts of programs that count are such. They need no plan, no intent and no record of the request: the bytes, an event
//! or a count, and the registers. Whatever is not so simple goes the way of `deliver.rs`, untouched.

use super::deliver::Delivery;
use super::events::{Event, event_kind};
use super::matching::{Key, sole_accepts};
use super::{fail, list, options};
use crate::Nic;
use crate::handle::NONE;
use crate::registers::Register;
use crate::tables::{Entry, portal};

/// What of a request a plain put has.
#[derive(Clone, Copy, Debug)]
pub struct Put {
    pub portal: u32,
    pub uid: u32,
    pub initiator: u64,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub header_data: u64,
    pub length: u64,
}

impl Put {
    /// The event that tells the target of it: what of it was moved, and where to.
    #[inline(always)]
    pub(super) fn event(&self, start: u64, user_ptr: u64, mlength: u64) -> Event {
        Event {
            start,
            user_ptr,
            header_data: self.header_data,
            match_bits: self.match_bits,
            rlength: self.length,
            mlength,
            remote_offset: self.remote_offset,
            initiator: self.initiator,
            uid: self.uid,
            portal: self.portal,
            kind: event_kind::PUT,
            list: list::PRIORITY,
            fail: fail::OK,
            operation: 0,
            datatype: 0,
        }
    }
}

/// What a put does on the express way.
pub(super) struct Way {
    /// Where its bytes go, and how many.
    pub start: u64,
    pub mlength: u64,
    /// Its target is told by an event; by a count.
    pub posts: bool,
    pub counts: bool,
}

/// How a put of this user meets an entry: whether it leaves the entry as it is, posts an event, counts.
#[inline(always)]
pub(super) fn manner(record: &Entry, queue: u32, uid: u32) -> (bool, bool, bool) {
    let flags = record.options;
    let plain =
        flags & (options::OP_PUT | CHANGING) == options::OP_PUT && (record.uid == u32::MAX || record.uid == uid);
    let posts = queue != NONE && flags & (options::EVENT_COMM_DISABLE | options::EVENT_SUCCESS_DISABLE) == 0;
    (plain, posts, flags & options::EVENT_CT_COMM != 0)
}

/// Options by which a message changes its entry, or needs more than one address.
const CHANGING: u32 = options::USE_ONCE | options::MANAGE_LOCAL | options::IOVEC;

impl Nic<'_> {
    /// A put that wants no answer, to the entry that is alone on its list, where that goes the express way. `at_hand` moves its
    /// payload to an address of the target's, where it can be at once. False: nothing has changed, and it is to be delivered.
    #[inline(always)]
    pub fn put_express(&mut self, put: &Put, at_hand: impl FnOnce(u64, u64) -> bool) -> bool {
        let Some((index, queue)) = self.sole_for(put) else { return false };
        let moved = |way: &Way| at_hand(way.start, way.mlength);
        if self.express(index, queue, put, moved).is_none() {
            return false;
        }
        self.signals.registers.add(Register::ListSteps, 1);
        true
    }

    /// The entry that is alone on its list, where it accepts this put, and the queue of its portal table entry.
    #[inline(always)]
    pub(super) fn sole_for(&self, put: &Put) -> Option<(u32, u32)> {
        let record = self.tables.portals.get(put.portal as usize)?;
        if record.status != portal::ENABLED || record.options & options::PT_FLOWCTRL != 0 {
            return None;
        }
        let sole = self.tables.entries.get(record.sole as usize)?;
        let key = Key {
            match_bits: put.match_bits,
            source: put.initiator,
            length: put.length,
            remote_offset: put.remote_offset,
        };
        sole_accepts(sole, put.portal, &key).then_some((record.sole, record.queue))
    }

    /// A put to an entry that stays as it is, both memories at hand, told by an event or by a count but not by both. `moved` moves
    /// the bytes, if it can. Nothing that a death in the middle could leave undone is recorded: a message that was not told of
    /// has not arrived.
    #[inline(always)]
    pub(super) fn express(
        &mut self,
        index: u32,
        queue: u32,
        put: &Put,
        moved: impl FnOnce(&Way) -> bool,
    ) -> Option<Delivery> {
        let record = self.tables.entries.get(index as usize)?;
        let flags = record.options;
        let (plain, posts, counts) = manner(record, queue, put.uid);
        let offset = put.remote_offset;
        let mlength = put.length.min(record.length.saturating_sub(offset));
        let start = record.start.wrapping_add(offset);
        let (counter, user_ptr) = (record.counter, record.user_ptr);
        if !plain || (posts && counts) || !moved(&Way { start, mlength, posts, counts }) {
            return None;
        }
        if posts {
            self.post(queue, &put.event(start, user_ptr, mlength));
        }
        if counts {
            self.count(counter, if flags & options::EVENT_CT_BYTES != 0 { mlength } else { 1 }, 0);
        }
        let registers = self.signals.registers;
        registers.add(Register::Requests, 1);
        registers.add(Register::MatchedPriority, 1);
        registers.add(Register::BytesIn, mlength);
        if mlength < put.length {
            registers.add(Register::Truncated, 1);
        }
        let silent = flags & options::ACK_DISABLE != 0;
        Some(Delivery { fail: fail::OK, mlength, remote_offset: offset, silent, list: list::PRIORITY })
    }
}
