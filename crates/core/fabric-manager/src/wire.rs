// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The frames between neighbours: their layout, and the checks of bytes that need not be trusted.
//!
//! docs/design/fabric-manager.md, "Frames", has the layout. All numbers are little-endian.
//!
//! # Invariants
//!
//! 1. A frame has at most [`FRAME_BYTES_MAX`] bytes.
//! 2. Decoding never panics, and allocates at most a small multiple of the frame's bytes.
//! 3. A decoded frame encodes to the same bytes.
use crate::announcement::{Announced, BODY_BYTES_MAX};
use crate::id::{Boot, End, HostId};
use crate::load::{self, LoadReport};
use alloc::vec::Vec;
use selvedge_fabric::Port;
use selvedge_nic::packet::crc32c;

/// The longest frame. With the headers of UDP over IPv6 and a seal it fits the smallest MTU of IPv6, 1,280.
pub const FRAME_BYTES_MAX: usize = 1200;
/// The version of the layout. Hosts of different versions do not become neighbours.
pub const VERSION: u8 = 1;

pub(crate) const HEADER_BYTES: usize = 34;
const MAGIC: [u8; 4] = *b"SVfm";
const CRC_AT: usize = 8;
/// Before the body of each announcement in a frame.
pub(crate) const ANNOUNCED_BYTES: usize = 30;
const ACK_BYTES: usize = 24;
/// Acknowledgements that one frame holds.
pub(crate) const ACKS_MAX: usize = (FRAME_BYTES_MAX - HEADER_BYTES) / ACK_BYTES;

/// The largest sequence number that is accepted: its host can still number its next ones above.
pub const SEQUENCE_MAX: u64 = 1 << 62;

/// Reasons for which bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    #[error("not a frame of a fabric's manager")]
    NotOne,
    #[error("version {is}, not {VERSION}: run the same release on both hosts")]
    Version { is: u8 },
    #[error("damaged: the checksum is wrong")]
    Damaged,
    #[error("malformed {part}")]
    Malformed { part: &'static str },
}

/// A frame, with its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub sender: End,
    pub body: Body,
}

/// The kinds of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Hello(Hello),
    Announcements(Vec<Announced>),
    Acknowledgements(Vec<Edition>),
    Loads(LoadReport),
}

/// The frame by which two ends of a cable find each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    pub mtu: u32,
    /// Counts the hellos of the port.
    pub number: u32,
    /// Time of the sender's clock.
    pub sent_ns: u64,
    /// The end that the sender hears, and when that end sent the hello which the sender heard last.
    pub echo: Option<Echo>,
}

/// The part of a hello about the end that its sender hears.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Echo {
    pub end: End,
    /// Of the hello heard last: its time, by the clock of that end.
    pub sent_ns: u64,
    /// From its arrival until now.
    pub held_ns: u64,
}

/// The identity of an announcement: which of a host's announcements it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Edition {
    pub host: HostId,
    pub sequence: u64,
    pub boot: Boot,
}

const HELLO: u8 = 1;
const ANNOUNCEMENTS: u8 = 2;
const ACKNOWLEDGEMENTS: u8 = 3;
const LOADS: u8 = 4;

impl Frame {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME_BYTES_MAX.min(256));
        bytes.extend(MAGIC);
        let kind = match self.body {
            Body::Hello(_) => HELLO,
            Body::Announcements(_) => ANNOUNCEMENTS,
            Body::Acknowledgements(_) => ACKNOWLEDGEMENTS,
            Body::Loads(_) => LOADS,
        };
        bytes.extend([VERSION, kind, 0, 0, 0, 0, 0, 0]);
        put_end(&mut bytes, self.sender);
        match &self.body {
            Body::Hello(hello) => hello.encode(&mut bytes),
            Body::Announcements(announced) => announced.iter().for_each(|each| each.encode(&mut bytes)),
            Body::Acknowledgements(editions) => editions.iter().for_each(|each| each.encode(&mut bytes)),
            Body::Loads(report) => report.encode(&mut bytes),
        }
        debug_assert!(bytes.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", bytes.len());
        let length = (bytes.len() as u16).to_le_bytes();
        bytes[6..8].copy_from_slice(&length);
        let crc = crc32c(&bytes).to_le_bytes();
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc);
        bytes
    }

    /// Decodes the bytes of a whole frame; trailing bytes, with which links pad short frames, are ignored.
    pub fn decode(bytes: &[u8]) -> Result<Frame, FrameError> {
        let mut reader = Reader { rest: bytes };
        let short = FrameError::NotOne;
        if reader.take(4).ok_or(short)? != MAGIC {
            return Err(FrameError::NotOne);
        }
        let version = reader.u8().ok_or(short)?;
        if version != VERSION {
            return Err(FrameError::Version { is: version });
        }
        let kind = reader.u8().ok_or(short)?;
        let length = usize::from(reader.u16().ok_or(short)?);
        if !(HEADER_BYTES..=FRAME_BYTES_MAX).contains(&length) || bytes.len() < length {
            return Err(FrameError::Malformed { part: "length" });
        }
        let crc = reader.u32().ok_or(short)?;
        let mut whole = [0; FRAME_BYTES_MAX];
        let whole = &mut whole[..length];
        whole.copy_from_slice(&bytes[..length]);
        whole[CRC_AT..CRC_AT + 4].fill(0);
        if crc32c(whole) != crc {
            return Err(FrameError::Damaged);
        }
        reader.rest = &bytes[CRC_AT + 4..length];
        let sender = reader.end().ok_or(FrameError::Malformed { part: "sender" })?;
        let (part, body) = match kind {
            HELLO => ("hello", Hello::decode(&mut reader).map(Body::Hello)),
            ANNOUNCEMENTS => ("announcement", all(&mut reader, Announced::decode).map(Body::Announcements)),
            ACKNOWLEDGEMENTS => ("acknowledgement", all(&mut reader, Edition::decode).map(Body::Acknowledgements)),
            LOADS => ("load", load::LoadReport::decode(&mut reader).map(Body::Loads)),
            _ => ("kind", None),
        };
        let is_whole = reader.rest.is_empty() && sender.boot.0 != 0;
        body.filter(|_| is_whole).map(|body| Frame { sender, body }).ok_or(FrameError::Malformed { part })
    }
}

fn all<T>(reader: &mut Reader, decode: impl Fn(&mut Reader) -> Option<T>) -> Option<Vec<T>> {
    let mut found = Vec::new();
    while !reader.rest.is_empty() {
        found.push(decode(reader)?);
    }
    Some(found)
}

impl Hello {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.mtu.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        bytes.extend(self.sent_ns.to_le_bytes());
        if let Some(echo) = self.echo {
            put_end(bytes, echo.end);
            bytes.extend(echo.sent_ns.to_le_bytes());
            bytes.extend(echo.held_ns.to_le_bytes());
        }
    }

    fn decode(reader: &mut Reader) -> Option<Hello> {
        let (mtu, number, sent_ns) = (reader.u32()?, reader.u32()?, reader.u64()?);
        let echo = match reader.rest.is_empty() {
            true => None,
            false => Some(Echo { end: reader.end()?, sent_ns: reader.u64()?, held_ns: reader.u64()? }),
        };
        Some(Hello { mtu, number, sent_ns, echo })
    }
}

impl Edition {
    fn encode(&self, bytes: &mut Vec<u8>) {
        bytes.extend(self.host.0.to_le_bytes());
        bytes.extend(self.boot.0.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
    }

    pub(crate) fn decode(reader: &mut Reader) -> Option<Edition> {
        let (host, boot, sequence) = (HostId(reader.u64()?), Boot(reader.u64()?), reader.u64()?);
        (boot.0 != 0 && sequence <= SEQUENCE_MAX).then_some(Edition { host, boot, sequence })
    }
}

impl Announced {
    fn encode(&self, bytes: &mut Vec<u8>) {
        self.edition.encode(bytes);
        bytes.extend(self.lifetime_ms.to_le_bytes());
        bytes.extend((self.body.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&self.body);
    }

    fn decode(reader: &mut Reader) -> Option<Announced> {
        let (edition, lifetime_ms) = (Edition::decode(reader)?, reader.u32()?);
        let length = usize::from(reader.u16()?);
        if length > BODY_BYTES_MAX {
            return None;
        }
        let body = reader.take(length)?;
        crate::announcement::Announcement::decode(edition.host, body)?;
        Some(Announced { edition, lifetime_ms, body: body.into() })
    }
}

pub(crate) fn put_end(bytes: &mut Vec<u8>, end: End) {
    bytes.extend(end.host.0.to_le_bytes());
    bytes.extend(end.boot.0.to_le_bytes());
    bytes.extend(end.port.0.to_le_bytes());
    bytes.extend(end.session.to_le_bytes());
}

/// Reads numbers from bytes; None at their end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn end(&mut self) -> Option<End> {
        let (host, boot) = (HostId(self.u64()?), Boot(self.u64()?));
        Some(End { host, boot, port: Port(self.u16()?), session: self.u32()? })
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
