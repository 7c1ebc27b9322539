// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Posted receives: the result of posting, and the memory for a message.

use super::constants::options;
use crate::tables::Entry;

/// The result of posting a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    /// The receive is in the priority list: the entry's reference.
    Linked(u32),
    /// The receive matches this unexpected header, the oldest that matches. No entry was linked.
    Matched(u32),
}

/// The memory for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    pub start: u64,
    pub length: u64,
    pub user_ptr: u64,
    /// The message was the last one for its entry.
    pub uses_up: bool,
}

impl Receive {
    /// The receive of an entry. None: the entry is not plain (use-once, for puts of any user), and is left to
    /// `deliver`.
    #[inline(always)]
    pub(super) fn of(record: &Entry) -> Option<Receive> {
        let is_plain = record.options & (options::USE_ONCE | options::OP_PUT | NOT_PLAIN | options::MANAGE_LOCAL)
            == options::USE_ONCE | options::OP_PUT
            && record.uid == u32::MAX;
        let Entry { start, length, user_ptr, .. } = *record;
        is_plain.then_some(Receive { start, length, user_ptr, uses_up: true })
    }

    /// The same for an entry that may be locally managed: the rest of its memory, for a message of this length.
    #[inline(always)]
    pub(super) fn or_rest_of(record: &Entry, message: u64) -> Option<Receive> {
        let is_local = record.options & (options::USE_ONCE | options::OP_PUT | NOT_PLAIN | options::MANAGE_LOCAL)
            == options::MANAGE_LOCAL | options::OP_PUT
            && record.uid == u32::MAX;
        if !is_local {
            return Receive::of(record);
        }
        let length = record.length.saturating_sub(record.local_offset);
        let uses_up = record.min_free != 0 && length.saturating_sub(message) < record.min_free;
        let start = record.start.wrapping_add(record.local_offset);
        Some(Receive { start, length, user_ptr: record.user_ptr, uses_up })
    }
}

/// Options of entries that [`Receives::take`](super::receive::Receives::take) leaves to `deliver`.
const NOT_PLAIN: u32 = options::IOVEC | options::EVENT_CT_COMM | options::NO_TRUNCATE;
