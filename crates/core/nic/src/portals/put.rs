// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A plain put: the fields of its request, its handling by an entry, and the move of its payload.

use super::constants::{event_kind, fail, list, options};
use super::event::Event;
use super::search::Key;
use crate::bus::{Bus, Step};
use crate::handle::NONE;
use crate::tables::{Entry, Intent, Request, kind};

/// The fields of a request that a plain put has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The target's event for this put: `mlength` bytes were moved to `start`.
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

    /// The intent to record if this put matches entry `index` of the priority list.
    /// [`Control::record_intent`](crate::tables::Control::record_intent) adds the values from before the put.
    #[inline(always)]
    pub(super) fn intent(&self, index: u32, mlength: u64) -> Intent {
        Intent {
            list: list::PRIORITY,
            fail: fail::OK,
            entry: index,
            initiator: self.initiator,
            match_bits: self.match_bits,
            header_data: self.header_data,
            rlength: self.length,
            mlength,
            offset: self.remote_offset,
            remote_offset: self.remote_offset,
            uid: self.uid,
            kind: kind::PUT,
            ..Intent::default()
        }
    }
}

impl From<&Request> for Put {
    #[inline(always)]
    fn from(request: &Request) -> Put {
        Put {
            portal: request.portal,
            uid: request.uid,
            initiator: request.initiator,
            match_bits: request.match_bits,
            remote_offset: request.remote_offset,
            header_data: request.header_data,
            length: request.length,
        }
    }
}

impl From<&Put> for Request {
    fn from(put: &Put) -> Request {
        let Put { portal, uid, initiator, match_bits, remote_offset, header_data, length } = *put;
        Request {
            kind: kind::PUT,
            portal,
            uid,
            initiator,
            match_bits,
            remote_offset,
            header_data,
            length,
            ..Request::default()
        }
    }
}

impl From<&Put> for Key {
    #[inline(always)]
    fn from(put: &Put) -> Key {
        Key { match_bits: put.match_bits, source: put.initiator, length: put.length, remote_offset: put.remote_offset }
    }
}

/// Handling of this user's puts by an entry.
pub(super) struct PutHandling {
    /// The put is plain: it can take the fast path.
    pub plain: bool,
    pub uses_up: bool,
    pub posts: bool,
    pub counts: bool,
}

impl PutHandling {
    #[inline(always)]
    pub(super) fn of(record: &Entry, queue: u32, uid: u32) -> PutHandling {
        let flags = record.options;
        let uses_up = flags & options::USE_ONCE != 0;
        let quiet_unlink = !uses_up || queue == NONE || flags & options::EVENT_UNLINK_DISABLE != 0;
        let simple = flags & (options::OP_PUT | NOT_PLAIN) == options::OP_PUT;
        let posts = queue != NONE && flags & (options::EVENT_COMM_DISABLE | options::EVENT_SUCCESS_DISABLE) == 0;
        let counts = flags & options::EVENT_CT_COMM != 0;
        let allowed = record.uid == u32::MAX || record.uid == uid;
        PutHandling { plain: simple && quiet_unlink && allowed && !(posts && counts), uses_up, posts, counts }
    }
}

/// Options of entries without plain puts: the message moves the entry's offset, or needs more than one address.
const NOT_PLAIN: u32 = options::MANAGE_LOCAL | options::IOVEC;

/// Address and number of the bytes that a plain put has moved.
pub(super) struct Moved {
    pub start: u64,
    pub mlength: u64,
}

/// Moves the payload of a put to this offset of the matched entry's memory. None: the memory is not mapped, and nothing
/// has changed.
#[inline(always)]
pub(super) fn move_payload<B: Bus>(bus: &mut B, (start, length): (u64, u64), offset: u64, put: &Put) -> Option<Moved> {
    let mlength = put.length.min(length.saturating_sub(offset));
    let start = start.wrapping_add(offset);
    if !bus.put_mapped(0, start, mlength) {
        return None;
    }
    bus.charge(Step::Transfer(mlength));
    Some(Moved { start, mlength })
}
