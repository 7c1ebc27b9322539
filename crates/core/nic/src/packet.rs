// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The packet format: one header of 128 bytes, little-endian, with a version, then payload.
//!
//! A packet is used if the process with a request cannot run the target's NIC. It travels through a ring of the sender
//! ([`crate::ring`]) to the NIC's owner. A request asks for an operation. A response carries its result, and the data
//! of a reply, through a ring to the requester.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..2 | version | [`VERSION`] |
//! | 2 | kind | [`crate::tables::kind`], or [`RESPONSE`] |
//! | 3 | fail | response: `PTL_NI_*` |
//! | 4 | operation | |
//! | 5 | datatype | |
//! | 6 | ack | request: `PTL_*_ACK_REQ`; response: bit 0, an acknowledgement is due; bit 1, the list that matched |
//! | 7 | place | where the payload is: [`Place`] |
//! | 8..12 | portal | portal table index |
//! | 12..16 | uid | user id of the initiator |
//! | 16..24 | initiator | rank, or nid << 32 / pid |
//! | 24..32 | origin | nid << 32 / pid to which the response goes |
//! | 32..40 | token | the pending request that a response belongs to |
//! | 40..48 | match_bits | |
//! | 48..56 | remote_offset | response: the offset that was used |
//! | 56..64 | header_data | |
//! | 64..72 | length | request: bytes requested; response: bytes moved |
//! | 72..104 | operand | of a swap; of a put, token and epoch |
//! | 104..112 | payload_bytes | bytes of payload that come with the packet |
//! | 112..120 | place_at | number of the spill file |
//! | 120..124 | sender | process id at the operating system, for spill files |
//! | 124..128 | crc | CRC-32C of the bytes before; 0 in shared memory, which has its own protection |
//!
//! Decoding any 128 bytes gives a packet whose fields are in range, or an error. It never panics.

use crate::portals::delivery::Delivery;
use crate::tables::{Request, kind};

/// Version of the format.
pub const VERSION: u16 = 2;
/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
/// Kind of a response.
pub const RESPONSE: u8 = 64;

/// The place of a packet's payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// There is no payload, or it follows the header.
    #[default]
    Inline,
    /// In the sender's spill file of this number.
    Spill(u64),
}

/// A packet's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    pub kind: u8,
    pub fail: u8,
    pub operation: u8,
    pub datatype: u8,
    pub ack: u8,
    pub place: Place,
    pub portal: u32,
    pub uid: u32,
    pub initiator: u64,
    pub origin: u64,
    pub token: u64,
    pub match_bits: u64,
    pub remote_offset: u64,
    pub header_data: u64,
    pub length: u64,
    pub operand: [u64; 4],
    pub payload_bytes: u64,
    pub sender: u32,
}

/// Reasons for which bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Another version, or not a packet at all.
    Version(u16),
    /// Unknown kind.
    Kind(u8),
    /// A field has a value that no sender writes.
    Field(&'static str),
    /// The checksum is wrong.
    Checksum,
}

impl Packet {
    /// Writes the header; `checked` adds the checksum that a lossy link needs.
    pub fn encode(&self, checked: bool) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (place, place_at) = match self.place {
            Place::Inline => (0, 0),
            Place::Spill(number) => (1, number),
        };
        bytes[0..2].copy_from_slice(&VERSION.to_le_bytes());
        bytes[2..8].copy_from_slice(&[self.kind, self.fail, self.operation, self.datatype, self.ack, place]);
        bytes[8..12].copy_from_slice(&self.portal.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.uid.to_le_bytes());
        let words = [
            self.initiator,
            self.origin,
            self.token,
            self.match_bits,
            self.remote_offset,
            self.header_data,
            self.length,
            self.operand[0],
            self.operand[1],
            self.operand[2],
            self.operand[3],
            self.payload_bytes,
            place_at,
        ];
        for (slot, word) in bytes[16..120].chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes[120..124].copy_from_slice(&self.sender.to_le_bytes());
        if checked {
            let sum = crc32c(&bytes[..124]).max(1);
            bytes[124..128].copy_from_slice(&sum.to_le_bytes());
        }
        bytes
    }

    /// The bytes of payload that a header announces, without a check of its other fields.
    pub fn payload_bytes_of(bytes: &[u8; HEADER_BYTES]) -> u64 {
        bytes[104..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
    }

    /// Reads a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Packet, DecodeError> {
        let word = |at: usize| {
            let mut eight = [0; 8];
            eight.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(eight)
        };
        let half = |at: usize| (word(at & !7) >> (8 * (at & 7))) as u32;
        let version = u16::from_le_bytes([bytes[0], bytes[1]]);
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        let sum = half(124);
        if sum != 0 && sum != crc32c(&bytes[..124]).max(1) {
            return Err(DecodeError::Checksum);
        }
        let kind = bytes[2];
        if !(kind::PUT..=kind::AGGREGATION_DOWN).contains(&kind) && kind != RESPONSE {
            return Err(DecodeError::Kind(kind));
        }
        let at = word(112);
        let place = match bytes[7] {
            0 => Place::Inline,
            1 => Place::Spill(at),
            _ => return Err(DecodeError::Field("place")),
        };
        if bytes[6] > 3 {
            return Err(DecodeError::Field("ack"));
        }
        if bytes[3] > 7 {
            return Err(DecodeError::Field("fail"));
        }
        Ok(Packet {
            kind,
            fail: bytes[3],
            operation: bytes[4],
            datatype: bytes[5],
            ack: bytes[6],
            place,
            portal: half(8),
            uid: half(12),
            initiator: word(16),
            origin: word(24),
            token: word(32),
            match_bits: word(40),
            remote_offset: word(48),
            header_data: word(56),
            length: word(64),
            operand: [word(72), word(80), word(88), word(96)],
            payload_bytes: word(104),
            sender: half(120),
        })
    }
}

impl Packet {
    /// Makes the response to this request. The payload of a reply is still to be set.
    pub fn response(&self, delivery: &Delivery) -> Packet {
        Packet {
            kind: RESPONSE,
            fail: delivery.fail,
            ack: u8::from(!delivery.ack_disabled) | delivery.list << 1,
            length: delivery.mlength,
            remote_offset: delivery.remote_offset,
            place: Place::Inline,
            ..*self
        }
    }

    /// The result in a response, for a command that requested `asked` bytes.
    pub fn delivery(&self, asked: u64) -> Delivery {
        Delivery {
            fail: self.fail,
            mlength: self.length.min(asked),
            remote_offset: self.remote_offset,
            ack_disabled: self.ack & 1 == 0,
            list: self.ack >> 1,
        }
    }
}

/// A packet for a request. Its origin, token and payload are still to be set.
impl From<&Request> for Packet {
    #[inline]
    fn from(request: &Request) -> Packet {
        Packet {
            kind: request.kind,
            operation: request.operation,
            datatype: request.datatype,
            ack: request.ack,
            portal: request.portal,
            uid: request.uid,
            initiator: request.initiator,
            match_bits: request.match_bits,
            remote_offset: request.remote_offset,
            header_data: request.header_data,
            length: request.length,
            operand: request.operand,
            ..Packet::default()
        }
    }
}

/// The request that a packet carries.
impl From<&Packet> for Request {
    fn from(packet: &Packet) -> Request {
        Request {
            kind: packet.kind,
            ack: packet.ack,
            lookups: 0,
            operation: packet.operation,
            datatype: packet.datatype,
            portal: packet.portal,
            uid: packet.uid,
            initiator: packet.initiator,
            match_bits: packet.match_bits,
            remote_offset: packet.remote_offset,
            header_data: packet.header_data,
            length: packet.length,
            operand: packet.operand,
        }
    }
}

/// CRC-32C (Castagnoli), bit by bit: headers are short.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_checksum_is_crc_32c() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::array::uniform32(any::<u32>())) {
            let mut raw = [0u8; HEADER_BYTES];
            for (slot, word) in raw.chunks_exact_mut(4).zip(bytes) {
                slot.copy_from_slice(&word.to_le_bytes());
            }
            let _ = Packet::decode(&raw);
            raw[0..2].copy_from_slice(&VERSION.to_le_bytes());
            raw[124..].fill(0);
            let _ = Packet::decode(&raw);
        }

        #[test]
        fn what_is_encoded_decodes_to_the_same(kind in kind::PUT..=kind::AGGREGATION_DOWN, words in proptest::array::uniform12(any::<u64>()), halves in any::<(u32, u32, u32)>(), place in 0..2u8, checked: bool) {
            let packet = Packet {
                kind, fail: (words[0] % 8) as u8, operation: words[1] as u8, datatype: words[2] as u8, ack: (words[3] % 4) as u8,
                place: match place { 0 => Place::Inline, _ => Place::Spill(words[4]) },
                portal: halves.1, uid: halves.2, initiator: words[0], origin: words[1], token: words[2], match_bits: words[3],
                remote_offset: words[4], header_data: words[5], length: words[6], operand: [words[7], words[8], words[9], words[10]],
                payload_bytes: words[11], sender: halves.0,
            };
            let mut bytes = packet.encode(checked);
            prop_assert_eq!(Packet::decode(&bytes), Ok(packet));
            if checked {
                bytes[(words[5] % 124) as usize] ^= 1 << (words[6] % 8);
                prop_assert!(Packet::decode(&bytes).is_err());
            }
        }
    }
}
