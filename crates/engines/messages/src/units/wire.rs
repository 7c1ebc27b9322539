// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wire format of messages over VELO and RMA (seed 002, section 8.6; figures 8-3, 8-4, 8-6 are lost: our own layouts).
//!
//! A VELO message has a type tag of 2 bits and a tag of 8 bits in its status word, beside source and length:
//!
//! | type tag | row | contents |
//! |---|---|---|
//! | 0 | tiny | heading, payload |
//! | 1 | small | first segment: heading, a word of length (31:0) and segments (39:32), payload; further segments: payload |
//! | 2 | long | heading, then three words: address of the payload, its length, the token |
//! | 3 | | a control message of two words |
//!
//! Bits 6:0 of the tag are the low bits of the message's number between the two. Bit 7 marks a short heading.
//!
//! | heading | words |
//! |---|---|
//! | short, 8 bytes | match bits; a tagged message between the first endpoints of both sides, without data |
//! | full, 16 bytes | match bits; portal table entry (7:0), flags (15:8), [`REPORTS`], [`WIDE`], data below 2^40 (63:24) |
//! | full, 24 bytes | the same, and a word of data |
//!
//! A medium message is a put of 32 bytes and the payload: match bits; the second word of the full heading; length
//! (31:0) and number (38:32); data.
//!
//! Invariant: each `decode` accepts any bytes, and refuses those that `encode` cannot make.

use selvedge_host::direct::RING_HAS_DATA;
use selvedge_host::rings::Envelope;

use crate::ticket::Kind;

/// Bytes of the longest VELO message in use: the limit of the prototype (seed 002, section 7.4).
pub const VELO_BYTES: usize = 64;
const HEADING_BYTES_MAX: usize = 24;
/// Bytes before the payload of a medium message.
pub const BOUNCE_HEADING_BYTES: usize = 32;
/// Bytes of a control message.
pub const CONTROL_BYTES: usize = 16;
/// Number of messages that the tag can tell apart.
pub const NUMBERS: u8 = 1 << 7;

/// Bits of the second word of a full heading.
const REPORTS: u64 = 1 << 16;
const WIDE: u64 = 1 << 17;
const DATA_SHIFT: u32 = 24;
/// The bit of the tag that marks a short heading.
const SHORT: u8 = 1 << 7;

/// The type tags.
pub mod mtt {
    pub const TINY: u8 = 0;
    pub const SMALL: u8 = 1;
    pub const LONG: u8 = 2;
    pub const CONTROL: u8 = 3;
}

/// The heading of a message: all fields that are not in the status word of a VELO message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    pub envelope: Envelope,
    /// The sender waits for a report that the message was taken.
    pub reports: bool,
}

/// The tag of a message with this number.
pub fn tag(number: u16, is_short: bool) -> u8 {
    (number as u8 & (NUMBERS - 1)) | if is_short { SHORT } else { 0 }
}

/// The low bits of the message's number, and whether its heading is short.
pub fn of_tag(tag: u8) -> (u8, bool) {
    (tag & (NUMBERS - 1), tag & SHORT != 0)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().map(u64::from_le_bytes)
}

impl Heading {
    /// Whether the short heading of 8 bytes suffices.
    pub fn is_short(&self) -> bool {
        let Envelope { portal, flags, .. } = self.envelope;
        u32::from(portal) == Kind::Tagged.portal(0) && flags == 0 && !self.reports
    }

    /// Length of the heading in bytes.
    pub fn bytes(&self) -> usize {
        match (self.is_short(), self.envelope.header_data >> (64 - DATA_SHIFT)) {
            (true, _) => 8,
            (false, 0) => 16,
            _ => 24,
        }
    }

    /// The second word of a full heading.
    fn second(&self) -> u64 {
        let Envelope { portal, flags, header_data, .. } = self.envelope;
        let is_wide = header_data >> (64 - DATA_SHIFT) != 0;
        u64::from(portal)
            | u64::from(flags) << 8
            | if self.reports { REPORTS } else { 0 }
            | if is_wide { WIDE } else { header_data << DATA_SHIFT }
    }

    /// The heading with these words. `data` is the third.
    fn of_words(match_bits: u64, second: u64, data: Option<u64>) -> Option<Heading> {
        let header_data = match second & WIDE {
            0 => second >> DATA_SHIFT,
            _ => data?,
        };
        let envelope = Envelope { portal: second as u8, flags: (second >> 8) as u8, match_bits, header_data };
        let heading = Heading { envelope, reports: second & REPORTS != 0 };
        let has_data = envelope.flags & RING_HAS_DATA != 0 || header_data == 0;
        (has_data && heading.second() == second).then_some(heading)
    }

    /// Writes the heading to the start of a message. Returns its length in bytes.
    pub fn encode(&self, to: &mut [u8; HEADING_BYTES_MAX]) -> usize {
        let words = [self.envelope.match_bits, self.second(), self.envelope.header_data];
        for (bytes, word) in to.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        self.bytes()
    }

    /// Reads the heading at the start of a message. Returns it with its length in bytes.
    fn decode(bytes: &[u8], is_short: bool) -> Option<(Heading, usize)> {
        let match_bits = word(bytes, 0)?;
        if is_short {
            let envelope = Envelope { portal: Kind::Tagged.portal(0) as u8, match_bits, ..Envelope::default() };
            return Some((Heading { envelope, reports: false }, 8));
        }
        let heading = Heading::of_words(match_bits, word(bytes, 8)?, word(bytes, 16))?;
        (!heading.is_short()).then_some((heading, heading.bytes()))
    }
}

/// A VELO message of at most [`VELO_BYTES`] bytes that is being built.
#[derive(Clone, Copy, Debug)]
pub struct Fragment {
    pub bytes: [u8; VELO_BYTES],
    pub length: usize,
}

impl Fragment {
    /// Starts a message with a heading.
    pub fn new(heading: &Heading) -> Fragment {
        let mut fragment = Fragment { bytes: [0; VELO_BYTES], length: 0 };
        let mut begin = [0; HEADING_BYTES_MAX];
        fragment.length = heading.encode(&mut begin);
        fragment.bytes[..HEADING_BYTES_MAX].copy_from_slice(&begin);
        fragment
    }

    /// Appends a word.
    pub fn push(&mut self, word: u64) {
        self.bytes[self.length..self.length + 8].copy_from_slice(&word.to_le_bytes());
        self.length += 8;
    }

    /// Bytes of payload for which there is room.
    pub fn room(&self) -> usize {
        VELO_BYTES - self.length
    }
}

/// The word of length and segments in the first segment of a small message.
pub fn small_word(length: usize, segments: usize) -> u64 {
    length as u64 & 0xffff_ffff | (segments as u64) << 32
}

/// The number of segments of a small message of this length.
pub fn segments(heading_bytes: usize, length: usize) -> usize {
    1 + length.saturating_sub(VELO_BYTES - heading_bytes - 8).div_ceil(VELO_BYTES)
}

/// A long message's request to fetch its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The network logical address at the sender. 0: the message has no payload.
    pub nla: u64,
    pub length: u64,
    pub token: u32,
}

impl Request {
    pub fn words(&self) -> [u64; 3] {
        [self.nla, self.length, self.token.into()]
    }

    fn of_words(words: [u64; 3]) -> Option<Request> {
        let [nla, length, token] = words;
        let token = u32::try_from(token).ok().filter(|token| *token != 0)?;
        Some(Request { nla, length, token })
    }
}

/// A VELO message that carries a message or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival<'a> {
    Tiny(Heading, &'a [u8]),
    /// The first segment: the length of the whole, the number of segments, the payload of this one.
    First(Heading, usize, usize, &'a [u8]),
    Long(Heading, Request),
}

/// Decodes a VELO message. Further segments of a small message, only payload, are not decoded. `None`: invalid.
pub fn decode(mtt: u8, is_short: bool, bytes: &[u8]) -> Option<Arrival<'_>> {
    if bytes.len() > VELO_BYTES {
        return None;
    }
    let (heading, at) = Heading::decode(bytes, is_short)?;
    let rest = bytes.get(at..)?;
    match mtt {
        mtt::TINY => Some(Arrival::Tiny(heading, rest)),
        mtt::SMALL => {
            let word = word(rest, 0)?;
            let (length, count) = ((word & 0xffff_ffff) as usize, (word >> 32) as usize);
            let payload = rest.get(8..)?;
            let is_full = at + 8 + payload.len() == VELO_BYTES && length >= payload.len();
            (is_full && count == segments(at, length)).then_some(Arrival::First(heading, length, count, payload))
        }
        mtt::LONG if rest.len() == 24 => Request::of_words([word(rest, 0)?, word(rest, 8)?, word(rest, 16)?])
            .map(|request| Arrival::Long(heading, request)),
        _ => None,
    }
}

/// The bytes before the payload of a medium message.
pub fn encode_bounced(heading: &Heading, number: u16, length: usize) -> [u8; BOUNCE_HEADING_BYTES] {
    let third = length as u64 & 0xffff_ffff | u64::from(tag(number, false)) << 32;
    let words = [heading.envelope.match_bits, heading.second(), third, heading.envelope.header_data];
    let mut bytes = [0; BOUNCE_HEADING_BYTES];
    for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Returns heading, low bits of the number, and length of a medium message. `None`: no sender makes it.
pub fn decode_bounced(bytes: &[u8; BOUNCE_HEADING_BYTES]) -> Option<(Heading, u8, usize)> {
    let third = word(bytes, 16)?;
    let heading = Heading::of_words(word(bytes, 0)?, word(bytes, 8)?, word(bytes, 24))?;
    let number = u8::try_from(third >> 32).ok().filter(|number| *number < NUMBERS)?;
    Some((heading, number, (third & 0xffff_ffff) as usize))
}

/// A control message between two transports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The sender wants to send over the units.
    Hello,
    /// A grant: mailbox slots, and bounce memory slots at this network logical address.
    Open { slots: u16, bounces: u16, nla: u64 },
    /// No grant. The asking process sends packets.
    Refused,
    /// Asks for a report once all messages with lower numbers are taken.
    Ask { number: u8 },
    /// Ends the grant: the receiver wants packets, which its NIC matches without its program.
    Withdrawn,
    /// The NIC is closed.
    Closed,
    /// Asks the receiver to forget the network logical addresses of the sender's regions, and to answer when nothing to
    /// them is under way. The number is that of the sender's round.
    Forget { round: u64 },
    /// The answer to `Forget`, for this round of the receiver.
    Forgotten { round: u64 },
}

impl Control {
    pub fn encode(self) -> [u8; CONTROL_BYTES] {
        let (first, second) = match self {
            Control::Hello => (0, 0),
            Control::Open { slots, bounces, nla } => (1 | u64::from(slots) << 16 | u64::from(bounces) << 32, nla),
            Control::Refused => (2, 0),
            Control::Ask { number } => (3 | u64::from(number) << 16, 0),
            Control::Withdrawn => (4, 0),
            Control::Closed => (5, 0),
            Control::Forget { round } => (6, round),
            Control::Forgotten { round } => (7, round),
        };
        let mut bytes = [0; CONTROL_BYTES];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&u64::to_le_bytes(second));
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Control> {
        let (first, second) = (word(bytes, 0)?, word(bytes, 8)?);
        let control = match first as u16 {
            0 => Control::Hello,
            1 => Control::Open { slots: (first >> 16) as u16, bounces: (first >> 32) as u16, nla: second },
            2 => Control::Refused,
            3 => Control::Ask { number: (first >> 16) as u8 & (NUMBERS - 1) },
            4 => Control::Withdrawn,
            5 => Control::Closed,
            6 => Control::Forget { round: second },
            7 => Control::Forgotten { round: second },
            _ => return None,
        };
        (control.encode()[..] == *bytes).then_some(control)
    }
}

/// A notification put to the sender of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The messages that the receiver has taken so far.
    Taken(Counts),
    /// A long message was matched, and its payload is not wanted.
    Released { token: u32 },
}

/// Counts of messages so far and of their room: slots of the mailbox, slots of bounce memory. The counts wrap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub slots: u16,
    pub bounces: u16,
    pub messages: u16,
}

impl Report {
    /// The value and the class of the notification put.
    pub fn encode(self) -> (u64, u8) {
        match self {
            Report::Taken(Counts { slots, bounces, messages }) => {
                (u64::from(slots) | u64::from(bounces) << 16 | u64::from(messages) << 32, 0)
            }
            Report::Released { token } => (token.into(), 1),
        }
    }

    pub fn decode(value: u64, class: u8) -> Option<Report> {
        match class {
            0 if value >> 48 == 0 => Some(Report::Taken(Counts {
                slots: value as u16,
                bounces: (value >> 16) as u16,
                messages: (value >> 32) as u16,
            })),
            1 => Some(Report::Released { token: u32::try_from(value).ok()? }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_host::direct::ring_flags;

    fn headings() -> Vec<Heading> {
        let tagged = Kind::Tagged.portal(0) as u8;
        let mut all = Vec::new();
        for (portal, flags) in [(tagged, 0), (tagged, RING_HAS_DATA), (Kind::Plain.portal(59) as u8, ring_flags(59))] {
            for header_data in [0, 7, (1 << 40) - 1, 1 << 40, u64::MAX] {
                let header_data = if flags & RING_HAS_DATA == 0 { 0 } else { header_data };
                for reports in [false, true] {
                    let envelope = Envelope { portal, flags, match_bits: 0x0123_4567_89ab_cdef, header_data };
                    all.push(Heading { envelope, reports });
                }
            }
        }
        all
    }

    #[test]
    fn a_heading_takes_8_bytes_where_it_can() {
        let lengths: Vec<usize> = headings().iter().map(Heading::bytes).collect();
        assert!(lengths.contains(&8) && lengths.contains(&16) && lengths.contains(&24));
        assert_eq!(headings()[0].bytes(), 8, "a tagged message of first endpoints without data");
        assert_eq!(Fragment::new(&headings()[0]).room(), 56, "64 bytes less the short heading");
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for heading in headings() {
            let short = heading.is_short();
            let mut tiny = Fragment::new(&heading);
            let room = tiny.room();
            tiny.bytes[tiny.length..].fill(9);
            assert_eq!(decode(mtt::TINY, short, &tiny.bytes), Some(Arrival::Tiny(heading, &vec![9; room][..])));
            assert_eq!(decode(mtt::TINY, short, &tiny.bytes[..tiny.length]), Some(Arrival::Tiny(heading, &[])));
            let request = Request { nla: 0x12_3456_7000, length: u64::MAX >> 1, token: 77 };
            let mut long = Fragment::new(&heading);
            request.words().into_iter().for_each(|word| long.push(word));
            assert_eq!(decode(mtt::LONG, short, &long.bytes[..long.length]), Some(Arrival::Long(heading, request)));
            assert_eq!(decode(mtt::LONG, short, &long.bytes[..long.length - 1]), None);
            for length in [room, 100, 512, 1024] {
                let mut small = Fragment::new(&heading);
                let count = segments(small.length, length);
                small.push(small_word(length, count));
                let first = &small.bytes[small.length..];
                assert!(first.len() + (count - 1) * VELO_BYTES >= length);
                assert!(first.len() + (count - 2) * VELO_BYTES < length);
                let read = decode(mtt::SMALL, short, &small.bytes);
                assert_eq!(read, Some(Arrival::First(heading, length, count, first)));
            }
            let bounced = encode_bounced(&heading, 300, 4096);
            assert_eq!(decode_bounced(&bounced), Some((heading, 44, 4096)));
        }
    }

    #[test]
    fn tags_tell_numbers_apart() {
        for number in [0, 1, 127, 128, u16::MAX] {
            for short in [false, true] {
                assert_eq!(of_tag(tag(number, short)), (number as u8 % NUMBERS, short));
            }
        }
    }

    #[test]
    fn control_messages_and_reports_are_read_as_they_were_written() {
        let open = Control::Open { slots: 64, bounces: 16, nla: 0x7f_ffff_f000 };
        let (forget, forgotten) = (Control::Forget { round: u64::MAX }, Control::Forgotten { round: 1 });
        let ask = Control::Ask { number: 127 };
        let all = [Control::Hello, open, Control::Refused, ask, Control::Withdrawn, Control::Closed, forget, forgotten];
        for control in all {
            assert_eq!(Control::decode(&control.encode()), Some(control));
            assert_eq!(Control::decode(&control.encode()[..15]), None);
        }
        let taken = Report::Taken(Counts { slots: u16::MAX, bounces: 3, messages: 999 });
        for report in [taken, Report::Released { token: u32::MAX }] {
            let (value, class) = report.encode();
            assert_eq!(Report::decode(value, class), Some(report));
        }
        assert_eq!((Report::decode(1 << 48, 0), Report::decode(1 << 32, 1), Report::decode(0, 2)), (None, None, None));
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut state = 3u64;
        let mut read = [0; 4];
        for round in 0..400_000u32 {
            let mut bytes = [0u8; VELO_BYTES];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            // Small words are legal more often.
            if round % 2 == 0 {
                bytes[11..16].fill(0);
                bytes[17..24].fill(0);
                bytes[28..32].fill(0);
            }
            let length = (state >> 20) as usize % (VELO_BYTES + 1);
            for mtt in 0..4 {
                for short in [false, true] {
                    match decode(mtt, short, &bytes[..length]) {
                        Some(Arrival::First(_, whole, count, payload)) => {
                            assert!(payload.len() <= whole && count >= 1);
                            read[1] += 1;
                        }
                        Some(_) => read[usize::from(mtt)] += 1,
                        None => {}
                    }
                }
            }
            let _ = Control::decode(&bytes[..length.min(CONTROL_BYTES)]);
            let _ = bytes.first_chunk().and_then(decode_bounced);
        }
        assert!(read[0] > 0 && read[2] > 0 && read[3] == 0);
    }
}
