// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A full event, and its form in memory (Portals 4.3, "Events and Event Queues").
//!
//! An event is stored in a block of the heap, behind the block's first word, its number, which the queue stores. An
//! ordinary event fits into the block's first cache line. A long event takes two lines: its lengths differ, or one
//! exceeds 32 bits, or its portal table entry's index takes more than 11 bits.

use super::constants::{event_kind, fail, list};
use crate::signals::EVENT_WORDS;
use crate::tables::{Entry, Header, kind};

/// A full event: `ptl_event_t` with `initiator` as one word (rank, or nid << 32 | pid).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub start: u64,
    pub user_ptr: u64,
    pub header_data: u64,
    pub match_bits: u64,
    pub rlength: u64,
    pub mlength: u64,
    pub remote_offset: u64,
    pub initiator: u64,
    pub uid: u32,
    pub portal: u32,
    pub kind: u8,
    pub list: u8,
    pub fail: u8,
    pub operation: u8,
    pub datatype: u8,
}

/// Words of an event, after its number, in the first line of its block; and in the second line of a long event.
pub(super) const WORDS: usize = 7;
pub(super) const WORDS_LONG: usize = 5;
const _: () = assert!((1 + WORDS) * 8 == 64 && 1 + WORDS + WORDS_LONG <= EVENT_WORDS);

/// The layout of an event's last word. The upper half is `uid`. The lower half has, from the top, the portal table
/// entry, the form and the kinds.
///
/// Ordinary events fit into one cache line: their two lengths are equal, or the requested length is 0. A long event
/// repeats in a second line every field that may not fit into the first.
pub(super) mod form {
    pub const ORDINARY: u64 = 0;
    pub const NOTHING_REQUESTED: u64 = 1;
    pub const LONG: u64 = 2;
    pub const AT: u32 = 19;
    pub const PORTAL_AT: u32 = 21;
    /// One more than the highest portal table entry that an ordinary event can name.
    pub const PORTALS: u32 = 1 << (u32::BITS - PORTAL_AT);
    /// Bits of kind, list, fail, operation and datatype.
    pub const WIDTHS: [u32; 5] = [4, 1, 4, 5, 5];
    const _: () = assert!(WIDTHS[0] + WIDTHS[1] + WIDTHS[2] + WIDTHS[3] + WIDTHS[4] == AT);
}

impl Event {
    #[inline(always)]
    fn kinds(&self) -> [u8; 5] {
        [self.kind, self.list, self.fail, self.operation, self.datatype]
    }

    /// The [`form`] that this event is written in.
    #[inline(always)]
    pub(super) fn form(&self) -> u64 {
        let [kind, list, fail, operation, datatype] = self.kinds();
        let [kinds, lists, fails, operations, datatypes] = form::WIDTHS;
        let over = kind >> kinds | list >> lists | fail >> fails | operation >> operations | datatype >> datatypes;
        let fits = over == 0;
        let short = (self.mlength | self.remote_offset) >> 32 == 0 && self.portal < form::PORTALS && fits;
        match self.rlength {
            rlength if short && rlength == self.mlength => form::ORDINARY,
            0 if short => form::NOTHING_REQUESTED,
            _ => form::LONG,
        }
    }

    #[inline(always)]
    pub(super) fn to_words(self, form: u64) -> [u64; WORDS] {
        let mut kinds = form << form::AT | u64::from(self.portal % form::PORTALS) << form::PORTAL_AT;
        let mut at = 0;
        for (&kind, bits) in self.kinds().iter().zip(form::WIDTHS) {
            kinds |= (u64::from(kind) & ((1 << bits) - 1)) << at;
            at += bits;
        }
        [
            self.start,
            self.user_ptr,
            self.header_data,
            self.match_bits,
            self.initiator,
            self.remote_offset << 32 | u64::from(self.mlength as u32),
            u64::from(self.uid) << 32 | kinds,
        ]
    }

    /// The words of the second line, for a long event.
    pub(super) fn to_words_long(self) -> [u64; WORDS_LONG] {
        let [kind, list, fail, operation, datatype] = self.kinds();
        let kinds = u64::from_le_bytes([kind, list, fail, operation, datatype, 0, 0, 0]);
        [self.rlength, self.mlength, self.remote_offset, u64::from(self.portal), kinds]
    }

    /// Decodes an event. `long` supplies the words of the second line; it is called for long events only.
    #[inline(always)]
    pub(super) fn from_words(words: [u64; WORDS], long: impl FnOnce() -> [u64; WORDS_LONG]) -> Event {
        let [start, user_ptr, header_data, match_bits, initiator, lengths, rest] = words;
        let mut at = 0;
        let [kind, list, fail, operation, datatype] = form::WIDTHS.map(|bits| {
            let kind = (rest >> at) & ((1 << bits) - 1);
            at += bits;
            kind as u8
        });
        let (mlength, remote_offset) = (u64::from(lengths as u32), lengths >> 32);
        let event = Event {
            start,
            user_ptr,
            header_data,
            match_bits,
            rlength: mlength,
            mlength,
            remote_offset,
            initiator,
            uid: (rest >> 32) as u32,
            portal: rest as u32 >> form::PORTAL_AT,
            kind,
            list,
            fail,
            operation,
            datatype,
        };
        match (rest as u32 >> form::AT) as u64 % 4 {
            form::ORDINARY => event,
            form::NOTHING_REQUESTED => Event { rlength: 0, ..event },
            _ => event.with_long(long()),
        }
    }

    #[cold]
    fn with_long(self, [rlength, mlength, remote_offset, portal, kinds]: [u64; WORDS_LONG]) -> Event {
        let [kind, list, fail, operation, datatype, ..] = kinds.to_le_bytes();
        let portal = portal as u32;
        Event { rlength, mlength, remote_offset, portal, kind, list, fail, operation, datatype, ..self }
    }
}

/// The fields that the events of all puts to one entry share, in encoded form.
#[derive(Clone, Copy, Debug)]
pub struct EventTemplate {
    pub(super) user_ptr: u64,
    /// The last word of an ordinary event. None: the entry's events are not ordinary.
    pub(super) kinds: Option<u64>,
}

impl EventTemplate {
    pub(super) fn new(event: &Event) -> EventTemplate {
        let form = event.form();
        EventTemplate {
            user_ptr: event.user_ptr,
            kinds: (form == form::ORDINARY).then(|| event.to_words(form)[WORDS - 1]),
        }
    }
}

/// The word of the heap at which an event's block begins. Most rings have a power of two of blocks, which saves a
/// division.
#[inline(always)]
pub(super) fn first_word(ring: u32, capacity: u32, number: u64) -> Option<usize> {
    let capacity = u64::from(capacity);
    let place = if capacity.is_power_of_two() { number & (capacity - 1) } else { number.checked_rem(capacity)? };
    usize::try_from(u64::from(ring) + place).ok()?.checked_mul(EVENT_WORDS)
}

/// The event of a header's message for an entry with this `user_ptr`. Kind and list: a put to the priority list.
#[inline(always)]
pub(super) fn header_event(header: &Header, user_ptr: u64) -> Event {
    Event {
        start: header.start,
        user_ptr,
        header_data: header.header_data,
        match_bits: header.match_bits,
        rlength: header.rlength,
        mlength: header.mlength,
        remote_offset: header.remote_offset,
        initiator: header.source,
        uid: header.uid,
        portal: u32::from(header.portal),
        kind: event_kind::PUT,
        list: list::PRIORITY,
        fail: fail::OK,
        operation: header.operation,
        datatype: header.datatype,
    }
}

/// The kind of the target's event for a request.
pub(crate) fn comm_kind(request: u8) -> u8 {
    match request {
        kind::PUT => event_kind::PUT,
        kind::GET => event_kind::GET,
        kind::ATOMIC => event_kind::ATOMIC,
        _ => event_kind::FETCH_ATOMIC,
    }
}

/// The kind of the event that an appended entry gets for an unexpected header.
pub(crate) fn overflow_kind(request: u8) -> u8 {
    comm_kind(request) + 1
}

/// An event about an entry itself: LINK, AUTO_UNLINK, AUTO_FREE, SEARCH.
pub(crate) fn entry_event(record: &Entry, kind: u8, which: u8) -> Event {
    Event {
        start: record.start,
        user_ptr: record.user_ptr,
        portal: u32::from(record.portal),
        kind,
        list: which,
        ..Event::default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn length() -> impl Strategy<Value = u64> {
        let edge = u64::from(u32::MAX);
        prop_oneof![0..3u64, edge - 1..edge + 2, any::<u64>()]
    }

    prop_compose! {
        fn event()(
            words in any::<[u64; 5]>(),
            (length, other, remote_offset) in (length(), length(), length()),
            lengths in 0..3,
            uid in any::<u32>(),
            portal in prop_oneof![0..4u32, form::PORTALS - 1..form::PORTALS + 1, any::<u32>()],
            kinds in prop_oneof![(0..16u8, 0..2u8, 0..16u8, 0..32u8, 0..32u8), any::<(u8, u8, u8, u8, u8)>()],
        ) -> Event {
            let [start, user_ptr, header_data, match_bits, initiator] = words;
            let rlength = [length, 0, other][lengths as usize];
            let (kind, list, fail, operation, datatype) = kinds;
            Event {
                start, user_ptr, header_data, match_bits, rlength, mlength: length, remote_offset, initiator, uid, portal, kind,
                list, fail, operation, datatype,
            }
        }
    }

    proptest! {
        #[test]
        fn events_are_read_as_they_were_written(event in event()) {
            let form = event.form();
            prop_assert_eq!(Event::from_words(event.to_words(form), || event.to_words_long()), event);
            if form != form::LONG {
                prop_assert_eq!(Event::from_words(event.to_words(form), || panic!("no second line")), event);
            }
        }
    }

    #[test]
    fn ordinary_events_have_one_line() {
        let put = Event { rlength: 8, mlength: 8, portal: 4, kind: event_kind::PUT, ..Event::default() };
        let ack = Event { rlength: 8, mlength: 8, remote_offset: 64, kind: event_kind::ACK, ..Event::default() };
        let link = Event { kind: event_kind::LINK, portal: 9, ..Event::default() };
        for event in [put, ack, link] {
            assert_ne!(event.form(), form::LONG, "{event:?}");
        }
    }
}
