// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The wire format of a channel: its VELO messages.
//!
//! | VELO type tag | frame | content |
//! |---|---|---|
//! | 0 | the first piece of a message | word 0, word 1, payload |
//! | 1 | another piece | word 0, payload |
//! | 2 | control | word 0, word 1 |
//!
//! | word | bits | content |
//! |---|---|---|
//! | 0 | 15:0 | number of the channel |
//! | 0 | 23:16 | generation of the channel |
//! | 0 | 30:24 | the piece's credit, which is the number of its slot; kind of a control message |
//! | 0 | 31 | the payload is a put into the slot, not part of this frame |
//! | 0 | 63:32 | first piece: the tag; another piece that is a put: its bytes |
//! | 1 | 31:0 | words of the message's header; in a control message, with 63:32: bits of the free slots |
//! | 1 | 63:32 | words of the message's data |
//!
//! A message is one run of words of 8 bytes: its header, then its data. Its pieces are consecutive parts of the run.
//!
//! Invariants
//! 1. A frame has at most [`FRAME_BYTES`], two slots of a mailbox; on a unit with shorter messages,
//!    [`FRAME_BYTES_SHORT`], one slot.
//! 2. `decode` accepts any bytes, and refuses those that `encode` does not make.

use selvedge_nic::velo::header::SLOT_BYTES;

/// Bytes of the longest frame: the payload of a ring's slot.
pub const FRAME_BYTES: usize = 104;
pub const FRAME_BYTES_SHORT: usize = SLOT_BYTES as usize;
/// Bytes of a message's word.
pub const WORD: u64 = 8;

const _: () = assert!(FRAME_BYTES <= 2 * SLOT_BYTES as usize && FRAME_BYTES % WORD as usize == 0);

/// The most words of a header, and of data.
pub const WORDS_MAX: u32 = 1 << 28;

/// The VELO type tags.
pub const FIRST: u8 = 0;
pub const NEXT: u8 = 1;
pub const CONTROL: u8 = 2;

/// A channel, in one of its generations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    pub channel: u16,
    pub generation: u8,
}

/// The head of a message, in its first piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub tag: u32,
    pub header_words: u32,
    pub data_words: u32,
}

impl Head {
    /// Bytes of header and data.
    pub fn bytes(&self) -> u64 {
        (u64::from(self.header_words) + u64::from(self.data_words)) * WORD
    }
}

/// A control message of the library to the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// The receiver has used up the pieces in these slots.
    Credits { slots: u64 },
    /// The sender has claimed the channel.
    Hello,
    /// The sender has left the channel. Nothing follows.
    Bye,
    /// The receiver's port is closed.
    Closed,
}

/// The place of a piece's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// In the frame, behind its words.
    Inline,
    /// In the slot. The bytes of a first piece follow from its head; those of another piece are given here.
    Put { bytes: u32 },
}

/// A piece without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub head: Option<Head>,
    pub slot: u8,
    pub payload: Payload,
}

/// A frame without payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    Piece(Piece),
    Control(Control),
}

/// Bytes of the words before the payload.
pub fn words_bytes(is_first: bool) -> usize {
    if is_first { 16 } else { 8 }
}

impl Frame {
    /// Encodes the frame: its VELO type tag, its words, and the number of their bytes to send.
    pub fn encode(&self, route: Route) -> (u8, [u64; 2], usize) {
        let base = u64::from(route.channel) | u64::from(route.generation) << 16;
        match *self {
            Frame::Piece(Piece { head, slot, payload }) => {
                let (is_put, bytes) = match payload {
                    Payload::Inline => (0, 0),
                    Payload::Put { bytes } => (1, bytes),
                };
                let word0 = base | u64::from(slot & 127) << 24 | is_put << 31;
                match head {
                    Some(head) => {
                        let lengths = u64::from(head.header_words) | u64::from(head.data_words) << 32;
                        (FIRST, [word0 | u64::from(head.tag) << 32, lengths], words_bytes(true))
                    }
                    None => (NEXT, [word0 | u64::from(bytes) << 32, 0], words_bytes(false)),
                }
            }
            Frame::Control(control) => {
                let (kind, slots) = match control {
                    Control::Credits { slots } => (0, slots),
                    Control::Hello => (1, 0),
                    Control::Bye => (2, 0),
                    Control::Closed => (3, 0),
                };
                (CONTROL, [base | kind << 24, slots], 16)
            }
        }
    }

    /// Decodes a frame. `piece_bytes` is the limit of a put. `None`: [`Frame::encode`] does not make this.
    pub fn decode(mtt: u8, bytes: &[u8], piece_bytes: u64) -> Option<(Route, Frame)> {
        let word0 = u64::from_le_bytes(*bytes.first_chunk()?);
        let route = Route { channel: word0 as u16, generation: (word0 >> 16) as u8 };
        let slot = (word0 >> 24) as u8 & 127;
        let (is_put, operand) = (word0 >> 31 & 1 != 0, (word0 >> 32) as u32);
        let word1 = || Some(u64::from_le_bytes(*bytes.get(8..)?.first_chunk()?));
        let head = match mtt {
            FIRST => {
                let lengths = word1()?;
                let head = Head { tag: operand, header_words: lengths as u32, data_words: (lengths >> 32) as u32 };
                Some(head).filter(|head| head.header_words.max(head.data_words) <= WORDS_MAX)?.into()
            }
            NEXT => None,
            CONTROL => {
                let control = match slot {
                    0 => Control::Credits { slots: word1()? },
                    1 => Control::Hello,
                    2 => Control::Bye,
                    3 => Control::Closed,
                    _ => return None,
                };
                return (!is_put && operand == 0).then_some((route, Frame::Control(control)));
            }
            _ => return None,
        };
        let inline = bytes.len() - words_bytes(head.is_some());
        let payload = match (is_put, head) {
            (false, None) if operand != 0 => return None,
            (false, _) if inline as u64 % WORD != 0 => return None,
            (false, _) => Payload::Inline,
            (true, _) if inline != 0 => return None,
            (true, Some(head)) => Payload::Put { bytes: head.bytes().min(piece_bytes) as u32 },
            (true, None) => Payload::Put { bytes: operand },
        };
        match payload {
            Payload::Put { bytes } if bytes == 0 || u64::from(bytes) > piece_bytes || u64::from(bytes) % WORD != 0 => {
                None
            }
            _ => Some((route, Frame::Piece(Piece { head, slot, payload }))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(words: [u64; 2], length: usize, inline: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
        bytes.resize(length + inline, 7);
        bytes
    }

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        let route = Route { channel: 1007, generation: 200 };
        let head = Head { tag: 0xdead_beef, header_words: 3, data_words: WORDS_MAX };
        let short = Head { tag: 1, header_words: 0, data_words: 9 };
        let frames = [
            (Frame::Piece(Piece { head: Some(head), slot: 63, payload: Payload::Inline }), 88),
            (Frame::Piece(Piece { head: Some(head), slot: 5, payload: Payload::Put { bytes: 4096 } }), 0),
            (Frame::Piece(Piece { head: Some(short), slot: 5, payload: Payload::Put { bytes: 72 } }), 0),
            (Frame::Piece(Piece { head: None, slot: 0, payload: Payload::Inline }), 96),
            (Frame::Piece(Piece { head: None, slot: 31, payload: Payload::Put { bytes: 800 } }), 0),
            (Frame::Control(Control::Credits { slots: u64::MAX - 5 }), 0),
            (Frame::Control(Control::Hello), 0),
            (Frame::Control(Control::Bye), 0),
            (Frame::Control(Control::Closed), 0),
        ];
        for (frame, inline) in frames {
            let (mtt, words, length) = frame.encode(route);
            let bytes = bytes_of(words, length, inline);
            assert!(bytes.len() <= FRAME_BYTES);
            assert_eq!(Frame::decode(mtt, &bytes, 4096), Some((route, frame)));
        }
    }

    #[test]
    fn any_bytes_decode_to_what_is_legal_or_are_refused() {
        let mut state = 1u64;
        for _ in 0..200_000 {
            let mut bytes = [0u8; FRAME_BYTES];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = (state >> 56) as u8;
            }
            // Small puts are legal more often.
            bytes[6..8].fill(0);
            let length = (state >> 20) as usize % (FRAME_BYTES + 1);
            if let Some((_, Frame::Piece(piece))) = Frame::decode((state >> 40) as u8 & 3, &bytes[..length], 4096) {
                match piece.payload {
                    Payload::Put { bytes } => assert!((8..=4096).contains(&bytes) && bytes % 8 == 0),
                    Payload::Inline => assert!(length >= words_bytes(piece.head.is_some())),
                }
            }
        }
    }
}
