// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of a link whose payload is still in the sender's memory, and those behind them.
//!
//! A long payload does not travel in frames: the receiver reads it from the sender's memory. Its packet waits here meanwhile, and so does every
//! packet behind it, because packets of a link are handed over in order.
//!
//! ```text
//! announce ──> next_part ──> started ══ libfabric reads ══> has_read ──> next: handed over, in order
//! hold (a packet behind one that waits) ─────────────────────────────────┘
//! ```
//!
//! A payload is read in parts of [`PART_BYTES`], [`READS_AT_ONCE`] at once: the network is never idle between two, and what is on its way
//! stays in the processor's cache.

use std::collections::VecDeque;
use std::ops::Range;

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::endpoint::Readable;
use crate::frame::{FrameError, NicName};
use crate::payload::ReadBuffer;

/// Bytes that are read by one request.
const PART_BYTES: usize = 256 << 10;
/// Reads of a link at once: with two the network was idle a third of the time between a part and the next.
const READS_AT_ONCE: usize = 4;
/// Bytes of packets that may wait behind such payloads. The sender keeps below ([`crate::outgoing`]).
const HELD_BYTES_MAX: usize = 16 << 20;
/// Payloads that may wait. The sender keeps below.
const ANNOUNCED_MAX: usize = 64;

/// A packet that waits for its payload or its turn.
struct Waiting {
    to: NicName,
    packet: Box<[u8; PACKET_BYTES]>,
    payload: Payload,
}

enum Payload {
    /// It came with the packet.
    Here(Vec<u8>),
    Remote(Remote),
}

/// A payload in the sender's memory.
struct Remote {
    at: Readable,
    bytes: usize,
    buffer: ReadBuffer,
    /// Bytes that reads were started for, and that they have read.
    asked: usize,
    read: usize,
    /// The reads under way, and their bytes.
    under_way: Vec<(u64, usize)>,
}

impl Remote {
    /// What the next read is to read.
    fn unasked(&self) -> Range<usize> {
        self.asked..self.bytes.min(self.asked + PART_BYTES)
    }
}

/// The packets of a link that wait.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: VecDeque<Waiting>,
    held_bytes: usize,
    /// Payloads that were announced and have not been handed over.
    announced: usize,
    under_way: usize,
    /// Payloads that were read and handed over.
    count: u64,
}

/// A part of a payload to read.
#[derive(Debug)]
pub(crate) struct ToRead {
    pub at: Readable,
    pub buffer: ReadBuffer,
    pub part: Range<usize>,
}

/// A packet with its payload.
pub(crate) struct Ready {
    pub to: NicName,
    pub packet: Box<[u8; PACKET_BYTES]>,
    pub payload: ReadyPayload,
}

pub(crate) enum ReadyPayload {
    Here(Vec<u8>),
    /// So many bytes, all of which were read.
    Read(ReadBuffer, usize),
}

impl ReadyPayload {
    pub fn bytes(&self) -> &[u8] {
        match self {
            ReadyPayload::Here(bytes) => bytes,
            // SAFETY: `Reads::next` makes it when the last read of all parts has ended.
            ReadyPayload::Read(buffer, bytes) => unsafe { buffer.bytes(*bytes) },
        }
    }
}

impl Reads {
    /// Whether no packet waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a packet whose payload is to be read.
    pub fn announce(
        &mut self,
        to: NicName,
        packet: &[u8; PACKET_BYTES],
        at: Readable,
        bytes: usize,
    ) -> Result<(), FrameError> {
        self.announced += 1;
        if self.announced > ANNOUNCED_MAX {
            return Err(FrameError::Waits);
        }
        let buffer = ReadBuffer::new(bytes).ok_or(FrameError::NoMemory { bytes })?;
        let payload = Remote { at, bytes, buffer, asked: 0, read: 0, under_way: Vec::new() };
        self.waiting.push_back(Waiting { to, packet: Box::new(*packet), payload: Payload::Remote(payload) });
        Ok(())
    }

    /// Keeps a packet that came behind one that waits.
    pub fn hold(&mut self, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8]) -> Result<(), FrameError> {
        self.held_bytes += PACKET_BYTES + payload.len();
        if self.held_bytes > HELD_BYTES_MAX {
            return Err(FrameError::Waits);
        }
        let payload = Payload::Here(payload.to_vec());
        self.waiting.push_back(Waiting { to, packet: Box::new(*packet), payload });
        Ok(())
    }

    /// The first payload for parts of which no read was started.
    fn unread(&mut self) -> Option<&mut Remote> {
        self.waiting.iter_mut().find_map(|waiting| match &mut waiting.payload {
            Payload::Remote(remote) if remote.asked < remote.bytes => Some(remote),
            _ => None,
        })
    }

    /// What to read next, if that is to start now.
    pub fn next_part(&mut self) -> Option<ToRead> {
        if self.under_way >= READS_AT_ONCE {
            return None;
        }
        let remote = self.unread()?;
        let (part, buffer) = (remote.unasked(), remote.buffer.clone());
        let at = Readable { address: remote.at.address.wrapping_add(part.start as u64), ..remote.at };
        Some(ToRead { at, buffer, part })
    }

    /// What [`Reads::next_part`] has named is being read.
    pub fn started(&mut self, tag: u64) {
        if let Some(remote) = self.unread() {
            let bytes = remote.unasked().len();
            remote.under_way.push((tag, bytes));
            remote.asked += bytes;
            self.under_way += 1;
        }
    }

    /// A read has ended.
    pub fn has_read(&mut self, tag: u64) {
        for waiting in &mut self.waiting {
            let Payload::Remote(remote) = &mut waiting.payload else { continue };
            if let Some(at) = remote.under_way.iter().position(|&(found, _)| found == tag) {
                remote.read += remote.under_way.swap_remove(at).1;
                self.under_way -= 1;
                return;
            }
        }
    }

    /// The next packet, if its payload is here.
    pub fn next(&mut self) -> Option<Ready> {
        let is_here = |waiting: &&Waiting| match &waiting.payload {
            Payload::Here(_) => true,
            Payload::Remote(remote) => remote.read == remote.bytes,
        };
        self.waiting.front().filter(is_here)?;
        let Waiting { to, packet, payload } = self.waiting.pop_front()?;
        let payload = match payload {
            Payload::Here(payload) => {
                self.held_bytes -= PACKET_BYTES + payload.len();
                ReadyPayload::Here(payload)
            }
            Payload::Remote(remote) => {
                self.announced -= 1;
                self.count += 1;
                ReadyPayload::Read(remote.buffer, remote.bytes)
            }
        };
        Some(Ready { to, packet, payload })
    }

    /// Payloads that were read and handed over, since the link was opened.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NIC: NicName = NicName { pid: 1, ni: 2 };

    fn packet(number: u8) -> [u8; PACKET_BYTES] {
        [number; PACKET_BYTES]
    }

    fn readable(key: u64) -> Readable {
        Readable { address: 8, key }
    }

    fn handed_over(reads: &mut Reads) -> Vec<(u8, usize)> {
        std::iter::from_fn(|| reads.next()).map(|ready| (ready.packet[0], ready.payload.bytes().len())).collect()
    }

    /// Starts the next read, as an endpoint would that writes zeros. Returns which payload, from where, and how much.
    fn start(reads: &mut Reads, tag: u64) -> Option<(u64, u64, usize)> {
        let ToRead { at, buffer, part } = reads.next_part()?;
        // SAFETY: the part is within the buffer.
        unsafe { buffer.part(&part).write_bytes(0, part.len()) };
        reads.started(tag);
        Some((at.key, at.address, part.len()))
    }

    #[test]
    fn packets_keep_their_order_whichever_payload_is_read_first() {
        let mut reads = Reads::default();
        for number in [1, 3, 4, 5, 6] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
            if number == 1 {
                reads.hold(NIC, &packet(2), b"short").expect("little");
            }
        }
        for number in [1, 3, 4, 5] {
            assert_eq!(start(&mut reads, number), Some((number, 8, 100)));
        }
        assert_eq!(start(&mut reads, 6), None, "four at once");
        reads.has_read(3);
        assert!(handed_over(&mut reads).is_empty(), "the first is not read");
        assert_eq!(start(&mut reads, 6), Some((6, 8, 100)));
        reads.has_read(99);
        reads.has_read(1);
        assert_eq!(handed_over(&mut reads), [(1, 100), (2, 5), (3, 100)]);
        assert_eq!(reads.count(), 2);
        for number in [6, 5, 4] {
            reads.has_read(number);
        }
        assert_eq!(handed_over(&mut reads), [(4, 100), (5, 100), (6, 100)]);
        assert!(reads.is_empty());
        assert_eq!((reads.held_bytes, reads.announced, reads.under_way, reads.count()), (0, 0, 0, 5));
    }

    #[test]
    fn a_long_payload_is_read_in_parts() {
        let mut reads = Reads::default();
        let bytes = 3 * PART_BYTES + 10;
        reads.announce(NIC, &packet(1), readable(1), bytes).expect("few");
        reads.announce(NIC, &packet(2), readable(2), 5).expect("few");
        for part in 0..3 {
            assert_eq!(start(&mut reads, part), Some((1, 8 + part * PART_BYTES as u64, PART_BYTES)));
        }
        assert_eq!(start(&mut reads, 3), Some((1, 8 + 3 * PART_BYTES as u64, 10)));
        reads.has_read(2);
        assert_eq!(start(&mut reads, 4), Some((2, 8, 5)));
        for tag in [4, 3, 1] {
            reads.has_read(tag);
        }
        assert!(handed_over(&mut reads).is_empty(), "the first part is not read");
        reads.has_read(0);
        assert_eq!(handed_over(&mut reads), [(1, bytes), (2, 5)]);
    }

    #[test]
    fn a_sender_cannot_let_anything_wait_without_end() {
        let mut reads = Reads::default();
        for _ in 0..ANNOUNCED_MAX {
            reads.announce(NIC, &packet(0), readable(0), 1 << 30).expect("no memory is used for it");
        }
        assert_eq!(reads.announce(NIC, &packet(0), readable(0), 1), Err(FrameError::Waits));
        let held = vec![0; HELD_BYTES_MAX / 2];
        reads.hold(NIC, &packet(0), &held).expect("half");
        assert_eq!(reads.hold(NIC, &packet(0), &held), Err(FrameError::Waits));
    }
}
