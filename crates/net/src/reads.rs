// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of a link whose payload is still in the sender's memory, and those behind them.
//!
//! A long payload does not travel in frames: the receiver reads it from the sender's memory. Its packet waits here meanwhile, and so does every
//! packet behind it, because packets of a link are handed over in order. Up to [`READS_AT_ONCE`] payloads are read at once.
//!
//! ```text
//! announce ──> to_read ──> started ══ libfabric reads ══> has_read ──> next: handed over, in order
//! hold (a packet behind one that waits) ─────────────────────────────────┘
//! ```

use std::collections::VecDeque;

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::endpoint::Readable;
use crate::frame::{FrameError, NicName};

/// Payloads of a link that are read at once. With two the network is never idle between them.
const READS_AT_ONCE: usize = 2;
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
    Unread {
        at: Readable,
        bytes: usize,
    },
    Reading {
        tag: u64,
    },
    Read(Vec<u8>),
}

/// The packets of a link that wait.
#[derive(Default)]
pub(crate) struct Reads {
    waiting: VecDeque<Waiting>,
    held_bytes: usize,
    /// Payloads that were announced and have not been handed over.
    announced: usize,
    reading: usize,
    /// Payloads that were read and handed over.
    count: u64,
}

/// A packet with its payload.
pub(crate) struct Ready {
    pub to: NicName,
    pub packet: Box<[u8; PACKET_BYTES]>,
    pub payload: Vec<u8>,
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
        self.waiting.push_back(Waiting { to, packet: Box::new(*packet), payload: Payload::Unread { at, bytes } });
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

    /// The next payload to read now: where it is, and how many bytes.
    pub fn to_read(&self) -> Option<(Readable, usize)> {
        let unread = self.waiting.iter().find_map(|waiting| match waiting.payload {
            Payload::Unread { at, bytes } => Some((at, bytes)),
            _ => None,
        });
        unread.filter(|_| self.reading < READS_AT_ONCE)
    }

    /// The payload that [`Reads::to_read`] has named is being read.
    pub fn started(&mut self, tag: u64) {
        let unread = self.waiting.iter_mut().find(|waiting| matches!(waiting.payload, Payload::Unread { .. }));
        if let Some(waiting) = unread {
            waiting.payload = Payload::Reading { tag };
            self.reading += 1;
        }
    }

    /// A payload was read.
    pub fn has_read(&mut self, tag: u64, bytes: Vec<u8>) {
        let is_it = |waiting: &&mut Waiting| matches!(waiting.payload, Payload::Reading { tag: found } if found == tag);
        if let Some(waiting) = self.waiting.iter_mut().find(is_it) {
            waiting.payload = Payload::Read(bytes);
            self.reading -= 1;
        }
    }

    /// The next packet, if its payload is here.
    pub fn next(&mut self) -> Option<Ready> {
        if let Payload::Unread { .. } | Payload::Reading { .. } = self.waiting.front()?.payload {
            return None;
        }
        let Waiting { to, packet, payload } = self.waiting.pop_front()?;
        let payload = match payload {
            Payload::Here(payload) => {
                self.held_bytes -= PACKET_BYTES + payload.len();
                payload
            }
            Payload::Read(payload) => {
                self.announced -= 1;
                self.count += 1;
                payload
            }
            Payload::Unread { .. } | Payload::Reading { .. } => return None,
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

    fn handed_over(reads: &mut Reads) -> Vec<(u8, Vec<u8>)> {
        std::iter::from_fn(|| reads.next()).map(|ready| (ready.packet[0], ready.payload)).collect()
    }

    #[test]
    fn packets_keep_their_order_whichever_payload_is_read_first() {
        let mut reads = Reads::default();
        for number in [1, 3, 4] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
            if number == 1 {
                reads.hold(NIC, &packet(2), b"short").expect("little");
            }
        }
        assert_eq!(reads.to_read(), Some((readable(1), 100)));
        reads.started(11);
        assert_eq!(reads.to_read(), Some((readable(3), 100)));
        reads.started(13);
        assert_eq!(reads.to_read(), None, "two at once");
        assert!(handed_over(&mut reads).is_empty());
        reads.has_read(13, vec![3]);
        assert!(handed_over(&mut reads).is_empty(), "the first is not read");
        assert_eq!(reads.to_read(), Some((readable(4), 100)));
        reads.has_read(99, vec![9]);
        reads.has_read(11, vec![1]);
        assert_eq!(handed_over(&mut reads), [(1, vec![1]), (2, b"short".to_vec()), (3, vec![3])]);
        assert_eq!(reads.count(), 2);
        reads.started(14);
        reads.has_read(14, vec![4]);
        assert_eq!(handed_over(&mut reads), [(4, vec![4])]);
        assert!(reads.is_empty());
        assert_eq!((reads.held_bytes, reads.announced, reads.reading, reads.count()), (0, 0, 0, 3));
    }

    #[test]
    fn a_sender_cannot_let_anything_wait_without_end() {
        let mut reads = Reads::default();
        for _ in 0..ANNOUNCED_MAX {
            reads.announce(NIC, &packet(0), readable(0), 1 << 40).expect("no memory is used for it");
        }
        assert_eq!(reads.announce(NIC, &packet(0), readable(0), 1), Err(FrameError::Waits));
        let held = vec![0; HELD_BYTES_MAX / 2];
        reads.hold(NIC, &packet(0), &held).expect("half");
        assert_eq!(reads.hold(NIC, &packet(0), &held), Err(FrameError::Waits));
    }
}
