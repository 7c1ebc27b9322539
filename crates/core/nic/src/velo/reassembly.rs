// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reassembly of split messages, by software at the receiver (seed 002, sections 6.4.4 and 7.4).
//!
//! Less than one message in 100,000 is split (section 6.4.4). So this is a small table that is searched in order. A
//! whole message passes through without a copy.
//!
//! Limits
//! 1. At most `SOURCES` sources may be in the middle of a split message. A further first part is refused, and the table
//!    is unchanged.
//! 2. A source has at most one split message under way, and its parts arrive in order: a program's library lets one
//!    thread at a time store to the pages of a VPID. Whole messages may come between the parts.
//!
//! A part that does not continue its source's message (an earlier part was discarded) is refused, and the message is
//! abandoned. So a message is delivered whole or not at all.
//!
//! Costs: O(`SOURCES`) for a part of a split message; 136 bytes for each source.

use super::header::{Endpoint, Extent, MESSAGE_BYTES_MAX, Status};

/// Reasons for which a part was refused. The part is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReassemblyError {
    /// Too many sources are in the middle of a message. Nothing has changed.
    Full,
    /// The part continues no message. If its source had begun one, that message is abandoned.
    Stray,
}

#[derive(Clone, Copy)]
struct Partial {
    is_used: bool,
    /// The status of the first part.
    status: Status,
    received: u32,
    bytes: [u8; MESSAGE_BYTES_MAX as usize],
}

/// The messages of one mailbox that have arrived in part.
pub struct Reassembler<const SOURCES: usize> {
    partials: [Partial; SOURCES],
    abandoned: u64,
}

impl<const SOURCES: usize> Default for Reassembler<SOURCES> {
    fn default() -> Self {
        Reassembler { partials: [Partial::UNUSED; SOURCES], abandoned: 0 }
    }
}

impl<const SOURCES: usize> Reassembler<SOURCES> {
    /// Adds a result of [`Mailbox::take`](super::Mailbox::take). Returns a message once it is whole.
    pub fn add<'a>(
        &'a mut self,
        status: &Status,
        bytes: &'a [u8],
    ) -> Result<Option<(Status, &'a [u8])>, ReassemblyError> {
        let extent = status.extent;
        let bytes = bytes.get(..extent.bytes() as usize).ok_or(ReassemblyError::Stray)?;
        if extent.is_whole() {
            return Ok(Some((*status, bytes)));
        }
        let begun = self.partials.iter().position(|partial| partial.is_of(status.source));
        if extent.offset() == 0 {
            let free = || self.partials.iter().position(|partial| !partial.is_used);
            let place = begun.or_else(free).and_then(|index| self.partials.get_mut(index));
            let partial = place.ok_or(ReassemblyError::Full)?;
            self.abandoned += u64::from(partial.is_used);
            *partial = Partial { is_used: true, status: *status, ..Partial::UNUSED };
            partial.append(bytes);
            return Ok(None);
        }
        let partial = begun.and_then(|index| self.partials.get_mut(index)).ok_or(ReassemblyError::Stray)?;
        if !partial.is_continued_by(status) {
            partial.is_used = false;
            self.abandoned += 1;
            return Err(ReassemblyError::Stray);
        }
        partial.append(bytes);
        partial.status.error |= status.error;
        if !extent.is_last() {
            return Ok(None);
        }
        partial.is_used = false;
        let whole = Extent::whole(extent.message_bytes()).ok_or(ReassemblyError::Stray)?;
        let whole = Status { extent: whole, ..partial.status };
        Ok(Some((whole, partial.bytes.get(..extent.message_bytes() as usize).unwrap_or_default())))
    }

    /// Abandons the begun message of a source whose process has ended.
    pub fn forget(&mut self, source: Endpoint) {
        for partial in self.partials.iter_mut().filter(|partial| partial.is_of(source)) {
            partial.is_used = false;
            self.abandoned += 1;
        }
    }

    /// Messages that were begun and never whole.
    pub fn abandoned(&self) -> u64 {
        self.abandoned
    }
}

impl Partial {
    const UNUSED: Partial = Partial {
        is_used: false,
        status: Status { source: Endpoint { node: 0, vpid: 0 }, extent: Extent::UNIT, mtt: 0, tag: 0, error: false },
        received: 0,
        bytes: [0; MESSAGE_BYTES_MAX as usize],
    };

    fn is_of(&self, source: Endpoint) -> bool {
        self.is_used && self.status.source == source
    }

    fn is_continued_by(&self, next: &Status) -> bool {
        let first = &self.status;
        let is_same = first.extent.message_bytes() == next.extent.message_bytes();
        is_same && (first.mtt, first.tag) == (next.mtt, next.tag) && self.received == next.extent.offset()
    }

    fn append(&mut self, part: &[u8]) {
        let room = self.bytes.get_mut(self.received as usize..).unwrap_or_default();
        room.iter_mut().zip(part).for_each(|(room, byte)| *room = *byte);
        self.received += part.len() as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn status(source: u16, message_bytes: u32, offset: u32, bytes: u32) -> Status {
        let extent = Extent::part(message_bytes, offset, bytes).expect("legal");
        Status { source: Endpoint { node: source, vpid: 1 }, extent, mtt: 1, tag: 2, error: false }
    }

    fn message(bytes: u32) -> Vec<u8> {
        (1..=bytes as u8).collect()
    }

    fn add_part(table: &mut Reassembler<2>, source: u16, cut: &[u8], status: Status) -> Option<(u16, Vec<u8>)> {
        let part = &cut[status.extent.offset() as usize..][..status.extent.bytes() as usize];
        let whole = table.add(&status, part).expect("in order")?;
        assert!(whole.0.extent.is_whole() && (whole.0.source.node, whole.0.mtt, whole.0.tag) == (source, 1, 2));
        Some((whole.0.source.node, whole.1.to_vec()))
    }

    #[test]
    fn all_splits_of_a_message_give_the_message() {
        let mut table = Reassembler::<2>::default();
        for units in 1..=15u32 {
            let whole = message(units * 8);
            for cuts in 0..1u32 << (units - 1) {
                let mut start = 0;
                for end in (1..=units).filter(|&end| end == units || cuts >> (end - 1) & 1 != 0) {
                    let part = status(9, units * 8, start * 8, (end - start) * 8);
                    let came = add_part(&mut table, 9, &whole, part);
                    assert_eq!(came.is_some(), end == units);
                    assert!(came.is_none_or(|(_, bytes)| bytes == whole));
                    start = end;
                }
            }
        }
        assert_eq!(table.abandoned(), 0);
    }

    #[test]
    fn parts_of_several_sources_and_whole_messages_may_alternate() {
        let mut table = Reassembler::<2>::default();
        let cut = message(64);
        assert_eq!(add_part(&mut table, 1, &cut, status(1, 64, 0, 8)), None);
        assert_eq!(add_part(&mut table, 2, &cut, status(2, 64, 0, 40)), None);
        assert!(add_part(&mut table, 1, &cut, status(1, 16, 0, 16)).is_some(), "a whole message");
        assert_eq!(table.add(&status(3, 64, 0, 8), &cut[..8]), Err(ReassemblyError::Full));
        assert_eq!(add_part(&mut table, 1, &cut, status(1, 64, 8, 56)), Some((1, cut.clone())));
        assert_eq!(add_part(&mut table, 2, &cut, status(2, 64, 40, 24)), Some((2, cut)));
        assert_eq!(table.abandoned(), 0);
    }

    #[test]
    fn a_lost_part_costs_its_message_and_no_other() {
        let mut table = Reassembler::<2>::default();
        let cut = message(64);
        // The second part is lost, so the last one is a stray, and the next message arrives whole.
        assert_eq!(add_part(&mut table, 1, &cut, status(1, 64, 0, 8)), None);
        assert_eq!(table.add(&status(1, 64, 16, 48), &cut[16..]), Err(ReassemblyError::Stray));
        assert_eq!(table.add(&status(1, 64, 16, 48), &cut[16..]), Err(ReassemblyError::Stray));
        assert_eq!(table.abandoned(), 1);
        // The last part is lost, and the next message is split, too.
        assert_eq!(add_part(&mut table, 1, &cut, status(1, 64, 0, 8)), None);
        assert_eq!(add_part(&mut table, 1, &cut, status(1, 56, 0, 48)), None);
        assert_eq!(add_part(&mut table, 1, &cut[..56], status(1, 56, 48, 8)), Some((1, cut[..56].to_vec())));
        assert_eq!(table.abandoned(), 2);
        assert_eq!(table.add(&status(1, 64, 0, 16), &cut[..8]), Err(ReassemblyError::Stray), "too few bytes");
        assert_eq!(add_part(&mut table, 1, &cut, status(1, 64, 0, 8)), None);
        table.forget(Endpoint { node: 1, vpid: 1 });
        assert_eq!(table.add(&status(1, 64, 8, 56), &cut[8..]), Err(ReassemblyError::Stray));
        assert_eq!(table.abandoned(), 3);
    }
}
