// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The header word of a packet and the status word of a slot, each of 64 bits.
//!
//! Section 7.4 of seed 002 lists their contents. The widths are those of the later generation:
//!
//! | bits  | header word          | status word                   |
//! |-------|----------------------|-------------------------------|
//! | 15:0  | destination node     | source node                   |
//! | 25:16 | destination VPID     | source VPID                   |
//! | 27:26 |                      | *number of the slot, 0..2*    |
//! | 31    | multicast            |                               |
//! | 33:32 | message type tag     | message type tag              |
//! | 34    | interrupt            |                               |
//! | 36    |                      | end of message                |
//! | 37    |                      | error                         |
//! | 38:35 | *offset of the part* |                               |
//! | 47:40 | tag                  | tag                           |
//! | 58:48 | length of message    | 54:48 length of the message   |
//! | 58:55 |                      | *length of the part*          |
//! | 62:59 | *length of the part* | *offset of the part*          |
//! | 63    |                      | *1*                           |
//!
//! Lengths of messages are in bytes. The fields in italics are Selvedge's own, in bits that the later generation leaves
//! free. Lengths and offsets of parts are in units of 8 bytes. A header whose part has the length 0 is that of a whole
//! message; so the header of a message that was not split is the later generation's, bit for bit.
//!
//! Invariants
//! 1. An [`Extent`] is legal: it lies in a message of 1 to 120 bytes, rounded up to whole units; its offset and its
//!    length are multiples of 8; it is not empty.
//! 2. A status word is never zero, because bit 63 is set.
//! 3. `from_word` accepts the results of `word`, and nothing else. Bits that are free must be zero.

use core::num::NonZeroU64;

/// Lengths are multiples of this.
pub const UNIT_BYTES: u32 = 8;
/// The longest message that the words can describe.
pub const MESSAGE_BYTES_MAX: u32 = 120;
/// Bytes of a message in one slot.
pub const SLOT_BYTES: u32 = 56;
/// The most slots that a message takes.
pub const SLOTS_MAX: u32 = MESSAGE_BYTES_MAX.div_ceil(SLOT_BYTES);

/// A word that no requester and no completer makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A node and a VPID of 10 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    pub node: u16,
    pub vpid: u16,
}

/// The length of a message, and the part of it in one packet. The whole message is a part, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    message_bytes: u8,
    offset: u8,
    bytes: u8,
}

impl Extent {
    /// The shortest message.
    pub const UNIT: Extent = Extent { message_bytes: 8, offset: 0, bytes: 8 };

    /// A whole message.
    #[inline(always)]
    pub const fn whole(message_bytes: u32) -> Option<Extent> {
        if message_bytes == 0 || message_bytes > MESSAGE_BYTES_MAX {
            return None;
        }
        let bytes = message_bytes.next_multiple_of(UNIT_BYTES) as u8;
        Some(Extent { message_bytes: message_bytes as u8, offset: 0, bytes })
    }

    /// A part of a message. None: the values are not legal.
    pub const fn part(message_bytes: u32, offset: u32, bytes: u32) -> Option<Extent> {
        let in_units = (offset | bytes) % UNIT_BYTES == 0;
        let is_short = message_bytes <= MESSAGE_BYTES_MAX && offset <= MESSAGE_BYTES_MAX && bytes <= MESSAGE_BYTES_MAX;
        if !in_units || !is_short || bytes == 0 || offset + bytes > message_bytes.next_multiple_of(UNIT_BYTES) {
            return None;
        }
        Some(Extent { message_bytes: message_bytes as u8, offset: offset as u8, bytes: bytes as u8 })
    }

    /// Bytes of the whole message.
    #[inline(always)]
    pub const fn message_bytes(self) -> u32 {
        self.message_bytes as u32
    }

    /// Bytes of the whole message in a packet: rounded up to whole units.
    #[inline(always)]
    pub const fn padded_bytes(self) -> u32 {
        self.message_bytes().next_multiple_of(UNIT_BYTES)
    }

    /// Offset of the part in the message, in bytes.
    #[inline(always)]
    pub const fn offset(self) -> u32 {
        self.offset as u32
    }

    /// Bytes of the part.
    #[inline(always)]
    pub const fn bytes(self) -> u32 {
        self.bytes as u32
    }

    /// Slots that the part takes in a mailbox.
    #[inline(always)]
    pub const fn slots(self) -> u32 {
        self.bytes().div_ceil(SLOT_BYTES)
    }

    /// Whether the message was not split.
    #[inline(always)]
    pub const fn is_whole(self) -> bool {
        self.bytes() == self.padded_bytes()
    }

    /// Whether the part ends its message.
    #[inline(always)]
    pub const fn is_last(self) -> bool {
        self.offset() + self.bytes() == self.padded_bytes()
    }
}

/// The description of a message in its packet. Only the low 2 bits of `mtt` count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub destination: Endpoint,
    pub extent: Extent,
    /// The message type tag: one of four kinds of messages, which software defines.
    pub mtt: u8,
    pub tag: u8,
    /// The packet goes to a multicast group. The completer ignores it.
    pub multicast: bool,
    /// The sender requests an interrupt. The completer ignores it: the target's port decides.
    pub interrupt: bool,
}

/// The description of a message in its slot. Only the low 2 bits of `mtt` count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub source: Endpoint,
    pub extent: Extent,
    pub mtt: u8,
    pub tag: u8,
    /// The network has damaged the message. No home of Selvedge sets it.
    pub error: bool,
}

const VPID_BITS: u32 = 10;

const fn field(word: u64, at: u32, bits: u32) -> u64 {
    (word >> at) & ((1 << bits) - 1)
}

/// A value as a field of a word, cut to the field's bits.
const fn placed(value: u64, at: u32, bits: u32) -> u64 {
    (value & ((1 << bits) - 1)) << at
}

const fn endpoint_word(endpoint: Endpoint) -> u64 {
    endpoint.node as u64 | placed(endpoint.vpid as u64, 16, VPID_BITS)
}

const fn endpoint_of(word: u64) -> Endpoint {
    Endpoint { node: word as u16, vpid: field(word, 16, VPID_BITS) as u16 }
}

const fn units(bytes: u32) -> u64 {
    (bytes / UNIT_BYTES) as u64
}

const fn bytes_of(units: u64) -> u32 {
    units as u32 * UNIT_BYTES
}

impl Header {
    /// The header word.
    pub fn word(&self) -> u64 {
        let part = if self.extent.is_whole() { 0 } else { units(self.extent.bytes()) };
        endpoint_word(self.destination)
            | placed(self.multicast.into(), 31, 1)
            | placed(self.mtt.into(), 32, 2)
            | placed(self.interrupt.into(), 34, 1)
            | placed(units(self.extent.offset()), 35, 4)
            | placed(self.tag.into(), 40, 8)
            | placed(self.extent.message_bytes().into(), 48, 11)
            | placed(part, 59, 4)
    }

    /// The header with this word.
    pub fn from_word(word: u64) -> Result<Header, Malformed> {
        let message_bytes = field(word, 48, 11) as u32;
        let bytes = match field(word, 59, 4) {
            0 => message_bytes.next_multiple_of(UNIT_BYTES),
            part => bytes_of(part),
        };
        let extent = Extent::part(message_bytes, bytes_of(field(word, 35, 4)), bytes).ok_or(Malformed)?;
        let header = Header {
            destination: endpoint_of(word),
            extent,
            mtt: field(word, 32, 2) as u8,
            tag: field(word, 40, 8) as u8,
            multicast: field(word, 31, 1) != 0,
            interrupt: field(word, 34, 1) != 0,
        };
        if header.word() == word { Ok(header) } else { Err(Malformed) }
    }

    /// The status of the message at its destination.
    pub fn status(&self, source: Endpoint) -> Status {
        Status { source, extent: self.extent, mtt: self.mtt, tag: self.tag, error: false }
    }
}

impl Status {
    /// The status word of one of the message's slots, from slot 0 on.
    #[inline]
    pub fn word(&self, slot: u32) -> u64 {
        let ends = self.extent.is_last() && slot + 1 == self.extent.slots();
        endpoint_word(self.source)
            | placed(slot.into(), 26, 2)
            | placed(self.mtt.into(), 32, 2)
            | placed(ends.into(), 36, 1)
            | placed(self.error.into(), 37, 1)
            | placed(self.tag.into(), 40, 8)
            | placed(self.extent.message_bytes().into(), 48, 7)
            | placed(units(self.extent.bytes()), 55, 4)
            | placed(units(self.extent.offset()), 59, 4)
            | 1 << 63
    }

    /// Decodes the status word of a message's first slot. Those of later slots are malformed here.
    #[inline]
    pub fn from_word(word: u64) -> Result<Status, Malformed> {
        let extent =
            Extent::part(field(word, 48, 7) as u32, bytes_of(field(word, 59, 4)), bytes_of(field(word, 55, 4)));
        let status = Status {
            source: endpoint_of(word),
            extent: extent.ok_or(Malformed)?,
            mtt: field(word, 32, 2) as u8,
            tag: field(word, 40, 8) as u8,
            error: field(word, 37, 1) != 0,
        };
        if status.word(0) == word { Ok(status) } else { Err(Malformed) }
    }
}

/// The description of a whole message for its receiver, in one word, which fits into a register: source, message type
/// tag, tag and length, in the bits of the status word, and bit 63. A message in a ring carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label(NonZeroU64);

impl Label {
    /// The fields common to all messages between two ports.
    #[inline(always)]
    pub const fn base(source: Endpoint) -> u64 {
        endpoint_word(source) | 1 << 63
    }

    /// The word of a message, with [`Label::base`]. The length is at most [`MESSAGE_BYTES_MAX`], and `mtt` has 2 bits.
    #[inline(always)]
    pub const fn word(base: u64, mtt: u8, tag: u8, bytes: u32) -> u64 {
        base | (mtt as u64) << 32 | (tag as u64) << 40 | (bytes as u64) << 48
    }

    /// Decodes the label of a message of `bytes` bytes. None: no sender stores such a word.
    #[inline(always)]
    pub const fn from_word(word: u64, bytes: usize) -> Option<Label> {
        const FREE: u64 = !Label::word(Label::base(Endpoint { node: u16::MAX, vpid: u16::MAX }), 3, u8::MAX, 0x7f);
        let is_one = word & FREE == 0 && (word >> 48) == (1 << 15 | bytes as u64);
        if !is_one || bytes == 0 || bytes > MESSAGE_BYTES_MAX as usize {
            return None;
        }
        match NonZeroU64::new(word) {
            Some(word) => Some(Label(word)),
            None => None,
        }
    }

    /// The label of a message with this status. A part is reported as a message of its own.
    pub fn of(status: &Status) -> Label {
        let bytes = status.extent.bytes().min(status.extent.message_bytes());
        let word = Label::word(Label::base(status.source), status.mtt & 3, status.tag, bytes);
        // Bit 63 is set.
        Label(NonZeroU64::new(word).unwrap_or(NonZeroU64::MIN))
    }

    #[inline(always)]
    pub const fn source(self) -> Endpoint {
        endpoint_of(self.0.get())
    }

    #[inline(always)]
    pub const fn mtt(self) -> u8 {
        field(self.0.get(), 32, 2) as u8
    }

    #[inline(always)]
    pub const fn tag(self) -> u8 {
        field(self.0.get(), 40, 8) as u8
    }

    /// Bytes of the message.
    #[inline(always)]
    pub const fn bytes(self) -> u32 {
        field(self.0.get(), 48, 7) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn extents() -> Vec<Extent> {
        let steps = || (0..=128u32).step_by(4);
        let parts = steps().flat_map(|m| steps().flat_map(move |o| steps().map(move |b| (m, o, b))));
        parts.filter_map(|(m, o, b)| Extent::part(m, o, b)).collect()
    }

    #[test]
    fn extents_are_all_parts_of_all_lengths() {
        // A message of n units has n(n+1)/2 parts; two of the lengths that are tried have n units.
        let expected: usize = (1..=15).map(|n| n * (n + 1)).sum();
        assert_eq!(extents().len(), expected);
        for length in [0, 121, 128, u32::MAX, u32::MAX - 7] {
            assert_eq!(Extent::whole(length), None);
        }
        for length in 1..=120 {
            let whole = Extent::whole(length).map(|extent| (extent.message_bytes(), extent.bytes(), extent.is_whole()));
            assert_eq!(whole, Some((length, length.next_multiple_of(8), true)));
        }
        for offset in [4, 7, 9, 64, 128, u32::MAX, u32::MAX - 7] {
            assert_eq!(Extent::part(64, offset, 8), None);
        }
        assert_eq!(Extent::part(8, u32::MAX - 7, 8), None);
    }

    #[test]
    fn slots_are_those_of_the_text_and_of_the_later_generation() {
        for (bytes, slots) in [(8, 1), (56, 1), (64, 2), (112, 2), (120, 3)] {
            assert_eq!(Extent::whole(bytes).map(Extent::slots), Some(slots));
        }
    }

    #[test]
    fn words_of_every_extent_decode_to_it() {
        for extent in extents() {
            let destination = Endpoint { node: 0xfedc, vpid: 0x3ff };
            let header = Header { destination, extent, mtt: 3, tag: 0x5a, multicast: true, interrupt: false };
            assert_eq!(Header::from_word(header.word()), Ok(header));
            let status = header.status(Endpoint { node: 1, vpid: 2 });
            let words: Vec<u64> = (0..extent.slots()).map(|slot| status.word(slot)).collect();
            assert_eq!(Status::from_word(words[0]), Ok(status));
            assert!(words[1..].iter().all(|&word| word != 0 && Status::from_word(word) == Err(Malformed)));
            let ends: Vec<bool> = words.iter().map(|word| word >> 36 & 1 != 0).collect();
            let last = ends.len() - 1;
            assert!(ends.iter().enumerate().all(|(slot, &end)| end == (slot == last && extent.is_last())));
        }
    }

    #[test]
    fn the_header_of_a_whole_message_is_the_later_generations() {
        let destination = Endpoint { node: 7, vpid: 5 };
        let extent = Extent::whole(120).expect("legal");
        let header = Header { destination, extent, mtt: 2, tag: 9, multicast: false, interrupt: true };
        assert_eq!(header.word(), 7 | 5 << 16 | 2 << 32 | 1 << 34 | 9 << 40 | 120 << 48);
    }

    #[test]
    fn a_label_has_what_the_status_of_the_message_has() {
        for bytes in 1..=MESSAGE_BYTES_MAX {
            let extent = Extent::whole(bytes).expect("legal");
            let source = Endpoint { node: 0xfedc, vpid: 0x3ff };
            let status = Status { source, extent, mtt: 3, tag: 0x5a, error: false };
            let label = Label::of(&status);
            assert_eq!((label.source(), label.mtt(), label.tag(), label.bytes()), (source, 3, 0x5a, bytes));
            let word = Label::word(Label::base(source), 3, 0x5a, bytes);
            assert_eq!(Label::from_word(word, bytes as usize), Some(label));
            assert_eq!(Label::from_word(word, bytes as usize + 1), None);
        }
        let word = Label::word(Label::base(Endpoint::default()), 0, 0, 8);
        let wrong = (26..32).chain(34..40).chain([63]).map(|bit| word ^ 1 << bit);
        assert!(wrong.into_iter().all(|word| Label::from_word(word, 8).is_none()));
        assert_eq!(Label::from_word(Label::word(Label::base(Endpoint::default()), 0, 0, 121), 121), None);
        assert_eq!(Label::from_word(Label::word(Label::base(Endpoint::default()), 0, 0, 0), 0), None);
    }

    proptest! {
        #[test]
        fn any_word_decodes_to_what_encodes_to_it_or_is_refused(word: u64, near in 0..4u32, bit in 0..64u32) {
            let status = Status {
                source: Endpoint { node: word as u16, vpid: (word >> 16) as u16 & 0x3ff },
                extent: Extent::whole(8 + word as u32 % 15 * 8).unwrap_or(Extent::UNIT),
                mtt: 1,
                tag: (word >> 40) as u8,
                error: false,
            };
            let word = if near == 0 { word } else { status.word(0) ^ (1 << bit) };
            if let Ok(status) = Status::from_word(word) {
                prop_assert_eq!(status.word(0), word);
                prop_assert!(word != 0);
            }
            if let Ok(header) = Header::from_word(word) {
                prop_assert_eq!(header.word(), word);
            }
        }
    }
}
