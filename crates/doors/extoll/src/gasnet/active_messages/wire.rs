// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Wire format of active messages in VELO messages (seed 002, section 8.7 and figure 8-7; the layout is our own).
//!
//! | bytes | bits | content |
//! |---|---|---|
//! | 0..8 | 1:0 | category: 0 short, 1 medium, 2 long |
//! | | 2 | the payload is an RMA put; otherwise it follows the arguments |
//! | | 7:3 | arguments |
//! | | 15:8 | handler |
//! | | 31:16 | credit of the request: the number of its slot |
//! | | 63:32 | bytes of payload |
//! | 8..16 | | in a long message: the address at its target |
//! | 16.. | | arguments of 4 bytes, then payload that is not a put |
//!
//! The VELO message's type tag distinguishes requests, replies and control messages. Its tag is the number of the part:
//! to a unit with messages shorter than [`BYTES_MAX`] an active message goes in two parts.
//!
//! Invariants
//! 1. An active message takes at most two slots of a mailbox, whole or in two parts.
//! 2. `decode` accepts any bytes, and refuses those that `encode` does not make.

use selvedge_nic::velo::header::SLOT_BYTES;

/// Bytes of the longest active message, without payload that is put.
pub const BYTES_MAX: usize = 2 * SLOT_BYTES as usize;
/// Bytes of a part, if one VELO message is too short.
pub const PART_BYTES: usize = SLOT_BYTES as usize;
/// Arguments of a handler.
pub const ARGUMENTS_MAX: usize = 16;
const HEADER_BYTES: usize = 16;

const _: () = assert!(HEADER_BYTES + 4 * ARGUMENTS_MAX <= BYTES_MAX);

/// The three kinds of payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// No payload.
    Short,
    /// Bytes in memory of the library, valid while the handler runs.
    Medium,
    /// Bytes at an address of the target's segment.
    Long,
}

/// Requests and replies have mailboxes, credits and room of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Request,
    Reply,
}

impl Kind {
    pub const ALL: [Kind; 2] = [Kind::Request, Kind::Reply];

    /// 0 or 1; also the VELO type tag.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// The VELO type tag of control messages.
pub const CONTROL: u8 = 2;

/// The header of an active message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub category: Category,
    pub is_put: bool,
    pub handler: u8,
    pub slot: u16,
    /// Bytes of payload.
    pub bytes: u32,
    /// The address of the payload, in a long message.
    pub destination: u64,
}

/// An active message in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    buffer: [u8; BYTES_MAX],
    length: usize,
}

/// Bytes of payload that fit behind `arguments`.
pub fn inline_bytes_max(arguments: usize) -> usize {
    BYTES_MAX.saturating_sub(HEADER_BYTES + 4 * arguments)
}

impl Encoded {
    /// Encodes a message. `inline` is a payload that is not put. `None`: too many arguments, or too much payload.
    pub fn new(header: &Header, arguments: &[i32], inline: &[u8]) -> Option<Encoded> {
        if arguments.len() > ARGUMENTS_MAX || inline.len() > inline_bytes_max(arguments.len()) {
            return None;
        }
        let mut buffer = [0; BYTES_MAX];
        let first = header.category as u64
            | u64::from(header.is_put) << 2
            | (arguments.len() as u64) << 3
            | u64::from(header.handler) << 8
            | u64::from(header.slot) << 16
            | u64::from(header.bytes) << 32;
        buffer[..8].copy_from_slice(&first.to_le_bytes());
        buffer[8..HEADER_BYTES].copy_from_slice(&header.destination.to_le_bytes());
        let mut at = HEADER_BYTES;
        for argument in arguments {
            buffer[at..at + 4].copy_from_slice(&argument.to_le_bytes());
            at += 4;
        }
        buffer[at..at + inline.len()].copy_from_slice(inline);
        Some(Encoded { buffer, length: at + inline.len() })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}

/// A received active message.
#[derive(Clone, Copy, Debug)]
pub struct Decoded {
    pub header: Header,
    arguments: [i32; ARGUMENTS_MAX],
    count: usize,
    /// Payload inside of the message, in words so that it is aligned for any type of the program.
    pub inline: [u64; BYTES_MAX / 8],
}

impl Decoded {
    pub fn arguments(&self) -> &[i32] {
        &self.arguments[..self.count]
    }
}

/// Bytes of the whole active message that begins with these.
pub fn length_of(bytes: &[u8]) -> Option<usize> {
    let first = u64::from_le_bytes(*bytes.first_chunk()?);
    let inline = if first & 4 == 0 { first >> 32 } else { 0 };
    let length = HEADER_BYTES as u64 + (first >> 3 & 31) * 4 + if first & 3 == 1 { inline } else { 0 };
    usize::try_from(length).ok().filter(|length| *length <= BYTES_MAX)
}

/// Decodes an active message. `None`: [`Encoded::new`] does not make this.
pub fn decode(bytes: &[u8]) -> Option<Decoded> {
    let length = length_of(bytes)?;
    let bytes = bytes.get(..length)?;
    let first = u64::from_le_bytes(*bytes.first_chunk()?);
    let category = match first & 3 {
        0 => Category::Short,
        1 => Category::Medium,
        2 => Category::Long,
        _ => return None,
    };
    let count = (first >> 3 & 31) as usize;
    let header = Header {
        category,
        is_put: first & 4 != 0,
        handler: (first >> 8) as u8,
        slot: (first >> 16) as u16,
        bytes: (first >> 32) as u32,
        destination: u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?),
    };
    let is_legal = match category {
        Category::Short => !header.is_put && header.bytes == 0,
        Category::Medium => !header.is_put || header.bytes != 0,
        Category::Long => header.is_put == (header.bytes != 0),
    };
    if count > ARGUMENTS_MAX || !is_legal {
        return None;
    }
    let (mut arguments, mut inline) = ([0; ARGUMENTS_MAX], [0; BYTES_MAX / 8]);
    let (words, rest) = bytes.get(HEADER_BYTES..)?.split_at_checked(4 * count)?;
    for (argument, word) in arguments.iter_mut().zip(words.chunks_exact(4)) {
        *argument = i32::from_le_bytes(*word.first_chunk()?);
    }
    for (word, bytes) in inline.iter_mut().zip(rest.chunks(8)) {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(whole);
    }
    Some(Decoded { header, arguments, count, inline })
}

/// Splits an active message for VELO messages of at most `velo_bytes`: the first part, and the second if needed.
pub fn parts(bytes: &[u8], velo_bytes: usize) -> (&[u8], Option<&[u8]>) {
    if bytes.len() <= velo_bytes {
        return (bytes, None);
    }
    let (first, second) = bytes.split_at(PART_BYTES.min(bytes.len()));
    (first, Some(second))
}

/// Assembles the parts of each node's active messages. The parts of one message follow each other.
#[derive(Debug)]
pub struct Assembler {
    firsts: Vec<Option<[u8; PART_BYTES]>>,
}

impl Assembler {
    pub fn new(nodes: usize) -> Assembler {
        Assembler { firsts: vec![None; nodes] }
    }

    /// Takes a part. The outer `None`: it is invalid. The inner `None`: the second part follows.
    pub fn take(&mut self, source: u16, tag: u8, payload: &[u8]) -> Option<Option<Decoded>> {
        let first = self.firsts.get_mut(usize::from(source))?;
        match (first.take(), tag) {
            (Some(begun), 1) => {
                let mut whole = [0; BYTES_MAX];
                whole[..PART_BYTES].copy_from_slice(&begun);
                whole.get_mut(PART_BYTES..PART_BYTES + payload.len())?.copy_from_slice(payload);
                decode(&whole).map(Some)
            }
            (None, 0) if length_of(payload)? <= payload.len() => decode(payload).map(Some),
            (None, 0) => {
                *first = Some(*payload.first_chunk()?);
                Some(None)
            }
            _ => None,
        }
    }
}

/// A control message of the library to another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The handler of a request did not reply; its credit is free.
    Credit { slot: u16 },
    /// A round of a barrier.
    Barrier { phase: u32, round: u8, mark: Mark },
    /// The node ends.
    Leaving,
}

/// The name that callers give to a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Anonymous,
    Named(i32),
    Mismatch,
}

/// Bytes of a control message. It takes one slot.
pub const CONTROL_BYTES: usize = 16;

impl Control {
    pub fn encode(self) -> [u8; CONTROL_BYTES] {
        let (first, second) = match self {
            Control::Credit { slot } => (u64::from(slot) << 16, 0),
            Control::Barrier { phase, round, mark } => {
                let (named, id) = match mark {
                    Mark::Anonymous => (0, 0),
                    Mark::Named(id) => (1, id),
                    Mark::Mismatch => (2, 0),
                };
                (1 | u64::from(round) << 8 | u64::from(phase) << 32, named << 32 | u64::from(id as u32))
            }
            Control::Leaving => (2, 0),
        };
        let mut bytes = [0; CONTROL_BYTES];
        bytes[..8].copy_from_slice(&first.to_le_bytes());
        bytes[8..].copy_from_slice(&second.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Control> {
        let first = u64::from_le_bytes(*bytes.first_chunk()?);
        let second = u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        match first as u8 {
            0 => Some(Control::Credit { slot: (first >> 16) as u16 }),
            1 => {
                let mark = match second >> 32 {
                    0 => Mark::Anonymous,
                    1 => Mark::Named(second as u32 as i32),
                    2 => Mark::Mismatch,
                    _ => return None,
                };
                Some(Control::Barrier { phase: (first >> 32) as u32, round: (first >> 8) as u8, mark })
            }
            2 => Some(Control::Leaving),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        let payload: Vec<u8> = (0..96).collect();
        let arguments: Vec<i32> = (0..16).map(|i| i * -77).collect();
        for category in [Category::Short, Category::Medium, Category::Long] {
            for count in 0..=ARGUMENTS_MAX {
                let inline = if category == Category::Medium { inline_bytes_max(count) } else { 0 };
                for inline in [0, inline / 2, inline] {
                    let is_put = category == Category::Long;
                    let bytes = if is_put { 9 } else { inline as u32 };
                    let header =
                        Header { category, is_put, handler: 200, slot: 513, bytes, destination: 0x7fff_1234_5678 };
                    let encoded = Encoded::new(&header, &arguments[..count], &payload[..inline]).expect("it fits");
                    assert_eq!(length_of(&encoded.bytes()[..8]), Some(encoded.bytes().len()));
                    let decoded = decode(encoded.bytes()).expect("it is legal");
                    assert_eq!((decoded.header, decoded.arguments()), (header, &arguments[..count]));
                    let words: Vec<u8> = decoded.inline.iter().flat_map(|word| word.to_ne_bytes()).collect();
                    assert_eq!(words[..inline], payload[..inline]);
                }
                let too_much = vec![0; inline_bytes_max(count) + 1];
                let header = Header { category, is_put: false, handler: 0, slot: 0, bytes: 0, destination: 0 };
                assert!(Encoded::new(&header, &arguments[..count], &too_much).is_none());
            }
        }
    }

    #[test]
    fn parts_are_put_together_for_each_node() {
        let arguments: Vec<i32> = (0..16).map(|i| 1 << i).collect();
        let payload = [7; BYTES_MAX];
        for velo_bytes in [PART_BYTES, 64, BYTES_MAX, 120] {
            let mut assembler = Assembler::new(2);
            let mut parts_seen = [0; 2];
            for count in 0..=ARGUMENTS_MAX {
                for inline in 0..=inline_bytes_max(count) {
                    let bytes = inline as u32;
                    let header = Header {
                        category: Category::Medium,
                        is_put: false,
                        handler: 9,
                        slot: 3,
                        bytes,
                        destination: 0,
                    };
                    let made = Encoded::new(&header, &arguments[..count], &payload[..inline]).expect("it fits");
                    let (first, second) = parts(made.bytes(), velo_bytes);
                    parts_seen[usize::from(second.is_some())] += 1;
                    assert!(first.len() <= velo_bytes && second.is_none_or(|second| !second.is_empty()));
                    assert!(second.is_none_or(|second| second.len() <= velo_bytes));
                    let taken: Vec<_> = (0..2).map(|node| assembler.take(node, 0, first).expect("legal")).collect();
                    for (node, taken) in (0..2).zip(taken) {
                        let whole = match second {
                            Some(second) => {
                                assert!(taken.is_none());
                                assembler.take(node, 1, second).expect("legal")
                            }
                            None => taken,
                        };
                        let whole = whole.expect("both parts are there");
                        assert_eq!((whole.header, whole.arguments()), (header, &arguments[..count]));
                        assert_eq!(whole.inline[..inline / 8], [u64::from_ne_bytes([7; 8]); 14][..inline / 8]);
                    }
                }
            }
            assert_eq!(parts_seen[1] != 0, velo_bytes < BYTES_MAX, "two parts exactly if one message is too short");
        }
        let mut assembler = Assembler::new(1);
        assert!(assembler.take(0, 1, &[0; 8]).is_none(), "a second part without a first");
        assert!(assembler.take(1, 0, &[0; 16]).is_none(), "a node that does not exist");
    }

    #[test]
    fn control_messages_are_read_as_they_were_written() {
        let marks = [Mark::Anonymous, Mark::Named(-5), Mark::Mismatch];
        let barriers = marks.map(|mark| Control::Barrier { phase: u32::MAX, round: 9, mark });
        for control in barriers.into_iter().chain([Control::Credit { slot: 700 }, Control::Leaving]) {
            assert_eq!(Control::decode(&control.encode()), Some(control));
        }
    }

    #[test]
    fn any_bytes_decode_or_are_refused() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            let mut bytes = [0u8; BYTES_MAX];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            // Small lengths are legal more often.
            bytes[5..8].fill(0);
            let length = (state >> 20) as usize % (BYTES_MAX + 1);
            if let Some(decoded) = decode(&bytes[..length]) {
                assert!(decoded.arguments().len() <= ARGUMENTS_MAX);
            }
            let _ = Control::decode(&bytes[..length.min(CONTROL_BYTES)]);
        }
    }
}
