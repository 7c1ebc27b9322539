// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Frames: a message of libfabric on a link is one frame.
//!
//! A frame is a header of 32 bytes and records. A record is a packet with its payload, or more payload of the packet
//! before. All numbers are little-endian.
//!
//! | bytes of the header | field |
//! |---|---|
//! | 0..4 | [`MAGIC`], which has the version |
//! | 4..8 | number of the link, which its receiver chose |
//! | 8..16 | key of the link, which its receiver chose |
//! | 16..24 | number of the frame on this link, from 0 |
//! | 24..28 | bytes of the frame |
//! | 28..32 | CRC-32C of the frame with this field 0 (a sum of 0 is written as 1); 0 without a check or with a tag |
//!
//! | bytes of a record | field |
//! |---|---|
//! | 0..4 | Portals process id of the receiving NIC |
//! | 4..6 | number of the NIC in its process |
//! | 6..8 | 0: a packet begins; 1: its payload continues; 2: a packet whose payload the receiver reads; 3: count of payloads read; 4: a payload that cannot be read |
//! | 8..12 | bytes of payload in this record |
//! | 12..16 | 0 |
//! | 16..144 | if a packet begins: its header ([`selvedge_nic::packet`]) |
//! | then | payload, filled up to a multiple of 8 bytes unless the frame ends there |
//! | | of kind 2: address and key of the payload in the sender's memory, 8 bytes each |
//! | 16..24 | of kind 3: number of payloads read so far on the link in the other direction |
//! | 16..24 | of kind 4: number of the payload among those of kind 2 on this link, from 0 |
//!
//! The payload of a long frame's last record is its *tail*: it is sent from its own memory, without a copy into the
//! frame's buffer.
//!
//! With [`Seal::Mac`] the last 16 bytes of a frame are its tag: BLAKE3 of the bytes before, with the key of the link
//! that is never sent.
//!
//! Reading arbitrary bytes gives records within the frame, or an error. It never panics.

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::ids::NicName;
use crate::payload::Readable;
use crate::tags::{TAG_BYTES, are_equal, tag_of};

/// The first word of a frame. Its last byte is the version.
pub const MAGIC: u32 = u32::from_le_bytes(*b"SvF\x01");
/// Bytes of a frame's header.
pub const FRAME_HEADER_BYTES: usize = 32;
/// Bytes of a record without packet header and payload.
const RECORD_BYTES: usize = 16;
/// Bytes of a frame that are not payload, if it has one packet.
pub const OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + RECORD_BYTES + PACKET_BYTES;

/// Reasons for which a frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("the frame is shorter than a header, or than its header says")]
    Short,
    #[error("the frame has another version")]
    Version,
    #[error("the frame's checksum or tag is wrong")]
    Checksum,
    #[error("a record reaches beyond the end of its frame")]
    Record,
    #[error("a record continues no payload, or continues it beyond the length that its packet announced")]
    Payload,
    #[error("a packet announces {bytes} bytes of payload; at most {most} may come")]
    TooMuch { bytes: u64, most: u64 },
    #[error("invalid read count {0}")]
    ReadCount(u64),
    #[error("invalid number {0} of a payload that cannot be read")]
    Unreadable(u64),
    #[error("no memory for a payload of {bytes} bytes")]
    NoMemory { bytes: usize },
    #[error("too many bytes wait for payloads that are still to be read")]
    TooManyWaiting,
}

/// The integrity check in a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seal {
    None,
    Crc,
    /// A tag that only holders of the key can make.
    Mac([u8; 32]),
}

impl Seal {
    /// Returns the number of bytes after the records.
    pub fn bytes(&self) -> usize {
        if let Seal::Mac(_) = self { TAG_BYTES } else { 0 }
    }
}

/// A frame's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameHeader {
    pub link: u32,
    pub key: u64,
    pub number: u64,
}

/// Writes records into a frame.
pub struct Writer<'a> {
    frame: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    /// Begins a frame in a buffer that is longer than a header.
    pub fn new(frame: &'a mut [u8]) -> Writer<'a> {
        Writer { frame, at: FRAME_HEADER_BYTES }
    }

    /// Continues a frame after the bytes that are written.
    pub fn resume(frame: &'a mut [u8], bytes: usize) -> Writer<'a> {
        Writer { frame, at: bytes }
    }

    /// Returns the number of bytes written.
    pub fn bytes(&self) -> usize {
        self.at
    }

    fn room(&self) -> usize {
        self.frame.len() - self.at
    }

    /// Writes a whole packet. None if there is no room for it.
    pub fn packet(&mut self, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8]) -> Option<()> {
        self.room().checked_sub(RECORD_BYTES + PACKET_BYTES + payload.len().next_multiple_of(8))?;
        self.head(to, 0, payload.len());
        self.put(packet);
        self.put_padded(payload);
        Some(())
    }

    /// Begins a packet, or with None continues the one before; `bytes` of its payload are the frame's tail. No record
    /// follows. None if there is no room for it.
    pub fn before_tail(&mut self, to: NicName, packet: Option<&[u8; PACKET_BYTES]>, bytes: usize) -> Option<()> {
        self.room().checked_sub(RECORD_BYTES + packet.map_or(0, |packet| packet.len()))?;
        self.head(to, packet.is_none().into(), bytes);
        self.put(packet.map_or(&[], |packet| packet));
        Some(())
    }

    /// Writes a packet whose payload the receiver reads. None if there is no room for it.
    pub fn readable(&mut self, to: NicName, packet: &[u8; PACKET_BYTES], payload: Readable) -> Option<()> {
        self.room().checked_sub(RECORD_BYTES + PACKET_BYTES + 16)?;
        self.head(to, 2, 0);
        self.put(packet);
        self.put(&payload.address.to_le_bytes());
        self.put(&payload.key.to_le_bytes());
        Some(())
    }

    /// Writes the number of payloads read so far. None if there is no room for it.
    pub fn read_count(&mut self, count: u64) -> Option<()> {
        self.number(3, count)
    }

    /// Writes the number of a payload that cannot be read any more. None if there is no room for it.
    pub fn unreadable(&mut self, number: u64) -> Option<()> {
        self.number(4, number)
    }

    fn number(&mut self, kind: u16, number: u64) -> Option<()> {
        self.room().checked_sub(RECORD_BYTES + 8)?;
        self.head(NicName { pid: 0, ni: 0 }, kind, 0);
        self.put(&number.to_le_bytes());
        Some(())
    }

    fn head(&mut self, to: NicName, kind: u16, bytes: usize) {
        self.put(&to.pid.to_le_bytes());
        self.put(&to.ni.to_le_bytes());
        self.put(&kind.to_le_bytes());
        self.put(&(bytes as u32).to_le_bytes());
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.frame[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn put_padded(&mut self, bytes: &[u8]) {
        self.put(bytes);
        self.put(&[0; 7][..bytes.len().next_multiple_of(8) - bytes.len()]);
    }

    /// Writes the header of a frame without a seal. Returns the bytes of the frame without its tail.
    pub fn finish(self, header: &FrameHeader, tail: &[u8]) -> usize {
        let at = self.at;
        self.write_header(header, at + tail.len());
        at
    }

    /// Writes the header, and returns a copy of the whole frame with its seal.
    pub fn sealed(self, header: &FrameHeader, tail: &[u8], seal: &Seal) -> Vec<u8> {
        let bytes = self.at + tail.len() + seal.bytes();
        let at = self.at;
        let frame = self.write_header(header, bytes);
        let mut sealed = Vec::with_capacity(bytes);
        sealed.extend_from_slice(&frame[..at]);
        sealed.extend_from_slice(tail);
        match seal {
            Seal::None => {}
            Seal::Crc => {
                // The field of the sum is 0 while it is computed.
                let sum = crc32c::crc32c(&sealed).max(1);
                sealed[28..32].copy_from_slice(&sum.to_le_bytes());
            }
            Seal::Mac(key) => {
                let tag = tag_of(&blake3::keyed_hash(key, &sealed));
                sealed.extend_from_slice(&tag);
            }
        }
        sealed
    }

    fn write_header(self, header: &FrameHeader, bytes: usize) -> &'a mut [u8] {
        let frame = self.frame;
        frame[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        frame[4..8].copy_from_slice(&header.link.to_le_bytes());
        frame[8..16].copy_from_slice(&header.key.to_le_bytes());
        frame[16..24].copy_from_slice(&header.number.to_le_bytes());
        frame[24..28].copy_from_slice(&(bytes as u32).to_le_bytes());
        frame[28..32].fill(0);
        frame
    }
}

/// A record of a frame.
#[derive(Debug, PartialEq, Eq)]
pub enum Record<'a> {
    Begin {
        to: NicName,
        packet: &'a [u8; PACKET_BYTES],
        payload: &'a [u8],
    },
    GoOn {
        payload: &'a [u8],
    },
    /// A packet whose payload is in the sender's memory.
    Readable {
        to: NicName,
        packet: &'a [u8; PACKET_BYTES],
        payload: Readable,
    },
    /// The number of payloads of the link in the other direction that were read.
    ReadCount(u64),
    /// The number of a payload in the sender's memory that cannot be read any more.
    Unreadable(u64),
}

/// The records of a frame, in order.
#[derive(Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
}

/// Reads the header, and checks the seal. A sum is checked if the frame has one, and required if the link uses sums.
pub fn read<'a>(frame: &'a [u8], seal: &Seal) -> Result<(FrameHeader, Records<'a>), FrameError> {
    let header = frame.first_chunk::<FRAME_HEADER_BYTES>().ok_or(FrameError::Short)?;
    if word(header, 0) != MAGIC {
        return Err(FrameError::Version);
    }
    let bytes = word(header, 24) as usize;
    let least = FRAME_HEADER_BYTES + seal.bytes();
    let frame = frame.get(..bytes).filter(|frame| frame.len() >= least).ok_or(FrameError::Short)?;
    let sum = word(header, 28);
    if sum != 0 || *seal == Seal::Crc {
        let before = crc32c::crc32c(&frame[..28]);
        let whole = crc32c::crc32c_append(crc32c::crc32c_append(before, &[0; 4]), &frame[32..]);
        if whole.max(1) != sum {
            return Err(FrameError::Checksum);
        }
    }
    let (frame, tag) = frame.split_at(frame.len() - seal.bytes());
    if let (Seal::Mac(key), Some(tag)) = (seal, tag.first_chunk()) {
        if !are_equal(&tag_of(&blake3::keyed_hash(key, frame)), tag) {
            return Err(FrameError::Checksum);
        }
    }
    let two = |at: usize| u64::from(word(header, at)) | u64::from(word(header, at + 4)) << 32;
    let header = FrameHeader { link: word(header, 4), key: two(8), number: two(16) };
    Ok((header, Records { rest: &frame[FRAME_HEADER_BYTES..] }))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(four)
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let record = self.take();
        if record.is_err() {
            self.rest = &[];
        }
        Some(record)
    }
}

impl<'a> Records<'a> {
    fn take(&mut self) -> Result<Record<'a>, FrameError> {
        let (head, rest) = self.rest.split_first_chunk::<RECORD_BYTES>().ok_or(FrameError::Record)?;
        let (kind_ni, bytes) = (word(head, 4), word(head, 8) as usize);
        let to = NicName { pid: word(head, 0), ni: kind_ni as u16 };
        let kind = kind_ni >> 16;
        let (packet, rest) = match kind {
            0 | 2 => {
                let (packet, rest) = rest.split_first_chunk::<PACKET_BYTES>().ok_or(FrameError::Record)?;
                (Some(packet), rest)
            }
            1 | 3 | 4 => (None, rest),
            _ => return Err(FrameError::Record),
        };
        if kind >= 2 {
            let (first, rest) = rest.split_first_chunk().ok_or(FrameError::Record)?;
            self.rest = rest;
            let number = u64::from_le_bytes(*first);
            let packet = match packet {
                Some(packet) => packet,
                None if kind == 3 => return Ok(Record::ReadCount(number)),
                None => return Ok(Record::Unreadable(number)),
            };
            let (second, rest) = rest.split_first_chunk().ok_or(FrameError::Record)?;
            self.rest = rest;
            let payload = Readable { address: number, key: u64::from_le_bytes(*second) };
            return Ok(Record::Readable { to, packet, payload });
        }
        let padded = bytes.checked_next_multiple_of(8).ok_or(FrameError::Record)?;
        let padded = if bytes == rest.len() { bytes } else { padded };
        let (payload, rest) = rest.split_at_checked(padded).ok_or(FrameError::Record)?;
        self.rest = rest;
        let payload = &payload[..bytes];
        Ok(match packet {
            Some(packet) => Record::Begin { to, packet, payload },
            None => Record::GoOn { payload },
        })
    }
}

/// Joins the parts of packets whose payload spans several frames of one link.
#[derive(Default)]
pub struct Assembler {
    begun: Option<Begun>,
}

struct Begun {
    to: NicName,
    packet: [u8; PACKET_BYTES],
    payload: Vec<u8>,
    bytes: u64,
}

/// Bytes that are reserved at once for a payload. More is reserved as bytes arrive, so a packet's header alone cannot
/// claim memory.
const RESERVE_BYTES: u64 = 1 << 20;

impl Assembler {
    /// Whether a packet has begun and more of its payload must come.
    pub fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Takes a record. `whole` gets each complete packet: its NIC, header and payload. `payload_bytes` returns the
    /// length of payload that a packet's header announces, `most` the limit for a payload in several frames.
    pub fn take(
        &mut self,
        record: Record<'_>,
        payload_bytes: impl Fn(&[u8; PACKET_BYTES]) -> u64,
        most: impl Fn(NicName, &[u8; PACKET_BYTES]) -> u64,
        mut whole: impl FnMut(NicName, &[u8; PACKET_BYTES], &[u8]),
    ) -> Result<(), FrameError> {
        match record {
            Record::Begin { to, packet, payload } => {
                let bytes = payload_bytes(packet);
                if self.begun.is_some() || payload.len() as u64 > bytes {
                    return Err(FrameError::Payload);
                }
                if payload.len() as u64 == bytes {
                    whole(to, packet, payload);
                    return Ok(());
                }
                let most = most(to, packet);
                if bytes > most {
                    return Err(FrameError::TooMuch { bytes, most });
                }
                let mut begun = Vec::with_capacity(bytes.min(RESERVE_BYTES) as usize);
                begun.extend_from_slice(payload);
                self.begun = Some(Begun { to, packet: *packet, payload: begun, bytes });
            }
            Record::GoOn { payload } => {
                let begun = self.begun.as_mut().ok_or(FrameError::Payload)?;
                if payload.is_empty() || (begun.payload.len() + payload.len()) as u64 > begun.bytes {
                    return Err(FrameError::Payload);
                }
                begun.payload.extend_from_slice(payload);
                if begun.payload.len() as u64 == begun.bytes {
                    let begun = self.begun.take().ok_or(FrameError::Payload)?;
                    whole(begun.to, &begun.packet, &begun.payload);
                }
            }
            // These have no payload, and may not come between the parts of one.
            Record::Readable { .. } => return Err(FrameError::Payload),
            Record::ReadCount(_) | Record::Unreadable(_) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
