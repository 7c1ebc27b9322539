// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The express way: a put to an entry that stays as it is, with both memories at hand.
//!
//! Most puts of programs that count are such. They need no plan, no intent and no record of the request: the bytes, an event
//! or a count, and the registers. Whatever is not so simple goes the way of `deliver.rs`, untouched.

use super::deliver::Delivery;
use super::events::{Event, event_kind};
use super::matching::{Key, accepts};
use super::{fail, list, options};
use crate::Nic;
use crate::handle::NONE;
use crate::registers::Register;
use crate::tables::{entry, portal, slot};

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

/// What a put does on the express way.
pub(super) struct Way {
    /// Where its bytes go, and how many.
    pub start: u64,
    pub mlength: u64,
    /// Its target is told by an event; by a count.
    pub posts: bool,
    pub counts: bool,
}

/// Options by which a message changes its entry, or needs more than one address.
const CHANGING: u32 = options::USE_ONCE | options::MANAGE_LOCAL | options::IOVEC;

impl Nic<'_> {
    /// A put that wants no answer, to the entry that is alone on its list, where that goes the express way. `at_hand` moves its
    /// payload to an address of the target's, where it can be at once. False: nothing has changed, and it is to be delivered.
    #[inline(always)]
    pub fn put_express(&mut self, put: &Put, at_hand: impl FnOnce(u64, u64) -> bool) -> bool {
        let Some(record) = self.tables.portals.get(put.portal as usize) else { return false };
        if record.status != portal::ENABLED || record.options & options::PT_FLOWCTRL != 0 {
            return false;
        }
        let (index, queue) = (record.sole, record.queue);
        let Some(sole) = self.tables.entries.get(index as usize) else { return false };
        let key = Key {
            match_bits: put.match_bits,
            source: put.initiator,
            length: put.length,
            remote_offset: put.remote_offset,
        };
        let linked = slot::status(sole.slot) == entry::PRIORITY && u32::from(sole.portal) == put.portal;
        let moved = |way: &Way| at_hand(way.start, way.mlength);
        if !linked || !accepts(sole, &key) || self.express(index, queue, put, moved).is_none() {
            return false;
        }
        self.signals.registers.add(Register::ListSteps, 1);
        true
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
        let plain = flags & (options::OP_PUT | CHANGING) == options::OP_PUT
            && (record.uid == u32::MAX || record.uid == put.uid);
        let posts = queue != NONE && flags & (options::EVENT_COMM_DISABLE | options::EVENT_SUCCESS_DISABLE) == 0;
        let counts = flags & options::EVENT_CT_COMM != 0;
        let offset = put.remote_offset;
        let mlength = put.length.min(record.length.saturating_sub(offset));
        let start = record.start.wrapping_add(offset);
        let (counter, user_ptr) = (record.counter, record.user_ptr);
        if !plain || (posts && counts) || !moved(&Way { start, mlength, posts, counts }) {
            return None;
        }
        if posts {
            let event = Event {
                start,
                user_ptr,
                header_data: put.header_data,
                match_bits: put.match_bits,
                rlength: put.length,
                mlength,
                remote_offset: offset,
                initiator: put.initiator,
                uid: put.uid,
                portal: put.portal,
                kind: event_kind::PUT,
                list: list::PRIORITY,
                fail: fail::OK,
                operation: 0,
                datatype: 0,
            };
            self.post(queue, &event);
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
