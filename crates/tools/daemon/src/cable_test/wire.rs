// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The datagrams of a test of a cable: a head, and a payload that the head describes.
//!
//! | bytes | head, little-endian |
//! |---|---|
//! | 4 | `SVft` |
//! | 1, 1, 2 | version, kind, 0 |
//! | 8 | first bytes of BLAKE3 of the head, with this field 0 |
//! | 8, 8, 8 | host of the sender, host for which it is, number of the test |
//! | 20 | number of the frame, and what its kind needs |
//!
//! The head is sealed as other frames are. The payload is not: it has no information, because the head gives each of its
//! bytes. So each damaged byte is found, and no stranger's.
use selvedge_fabric_manager::HostId;

const MAGIC: [u8; 4] = *b"SVft";
const VERSION: u8 = 1;
const CHECK_AT: usize = 8;
/// Bytes of a head.
pub const HEAD_BYTES: usize = 60;
/// Bytes of IPv6 and UDP before the head.
pub const IP_UDP_BYTES: u32 = 48;

/// Contents of payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Zeros,
    Ones,
    /// One bit of each byte is set, the next one in the next byte.
    Walking,
    Counting,
    Random,
}

impl Pattern {
    pub const ALL: [Pattern; 5] = [Pattern::Zeros, Pattern::Ones, Pattern::Walking, Pattern::Counting, Pattern::Random];

    pub fn name(self) -> &'static str {
        match self {
            Pattern::Zeros => "zeros",
            Pattern::Ones => "ones",
            Pattern::Walking => "walking",
            Pattern::Counting => "counting",
            Pattern::Random => "random",
        }
    }
}

/// A head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub from: HostId,
    pub to: HostId,
    pub test: u64,
    pub body: Body,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// A frame on its way to the mirror.
    Frame {
        number: u32,
        pattern: Pattern,
        payload: u16,
    },
    /// The same frame on its way back.
    Echo {
        number: u32,
        pattern: Pattern,
        payload: u16,
        /// Wrong bytes that the mirror has found.
        damaged: u16,
        /// Place among the mirror's echoes.
        order: u32,
    },
    /// The question for what the mirror has counted.
    Ask,
    Told(Tally),
}

/// Counts of the frames of one test that have arrived at one end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Different frames, damaged ones included.
    pub arrived: u32,
    /// Frames of which bytes were wrong.
    pub damaged: u32,
    /// Frames whose head could not be read.
    pub unreadable: u32,
    /// Frames that came after a later one.
    pub disordered: u32,
    pub duplicates: u32,
}

impl Head {
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let (kind, words) = match self.body {
            Body::Frame { number, pattern, payload } => (1, [number, pattern as u32, payload.into(), 0, 0]),
            Body::Echo { number, pattern, payload, damaged, order } => {
                (2, [number, pattern as u32, payload.into(), damaged.into(), order])
            }
            Body::Ask => (3, [0; 5]),
            Body::Told(Tally { arrived, damaged, unreadable, disordered, duplicates }) => {
                (4, [arrived, damaged, unreadable, disordered, duplicates])
            }
        };
        let mut head = [0; HEAD_BYTES];
        head[..4].copy_from_slice(&MAGIC);
        head[4..6].copy_from_slice(&[VERSION, kind]);
        for (at, word) in (16..).step_by(8).zip([self.from.0, self.to.0, self.test]) {
            head[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        for (at, word) in (40..).step_by(4).zip(words) {
            head[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        let check = check(&head);
        head[CHECK_AT..CHECK_AT + 8].copy_from_slice(&check);
        head
    }

    /// None: this is no head of this version, or it is damaged.
    pub fn decode(bytes: &[u8]) -> Option<Head> {
        let head: &[u8; HEAD_BYTES] = bytes.get(..HEAD_BYTES)?.try_into().ok()?;
        if head[..4] != MAGIC || head[4] != VERSION || head[CHECK_AT..CHECK_AT + 8] != check(head) {
            return None;
        }
        let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let word = |nth: usize| Some(u32::from_le_bytes(head.get(40 + 4 * nth..44 + 4 * nth)?.try_into().ok()?));
        let short = |nth: usize| word(nth)?.try_into().ok();
        let pattern = || Pattern::ALL.get(word(1)? as usize).copied();
        let body = match head[5] {
            1 => Body::Frame { number: word(0)?, pattern: pattern()?, payload: short(2)? },
            2 => Body::Echo {
                number: word(0)?,
                pattern: pattern()?,
                payload: short(2)?,
                damaged: short(3)?,
                order: word(4)?,
            },
            3 => Body::Ask,
            4 => Body::Told(Tally {
                arrived: word(0)?,
                damaged: word(1)?,
                unreadable: word(2)?,
                disordered: word(3)?,
                duplicates: word(4)?,
            }),
            _ => return None,
        };
        Some(Head { from: HostId(long(16)?), to: HostId(long(24)?), test: long(32)?, body })
    }

    /// Appends the payload that belongs to the head.
    pub fn fill(&self, datagram: &mut Vec<u8>) {
        if let Body::Frame { number, pattern, payload } | Body::Echo { number, pattern, payload, .. } = self.body {
            datagram.extend(bytes_of(pattern, self.test ^ u64::from(number)).take(payload.into()));
        }
    }

    /// The wrong bytes of a payload; missing and additional ones count as wrong.
    pub fn wrong_bytes(&self, found: &[u8]) -> u16 {
        let (Body::Frame { number, pattern, payload } | Body::Echo { number, pattern, payload, .. }) = self.body else {
            return 0;
        };
        let differ = bytes_of(pattern, self.test ^ u64::from(number))
            .take(payload.into())
            .zip(found)
            .filter(|(wanted, found)| wanted != *found)
            .count();
        (differ + found.len().abs_diff(payload.into())).try_into().unwrap_or(u16::MAX)
    }
}

fn check(head: &[u8; HEAD_BYTES]) -> [u8; 8] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&head[..CHECK_AT]).update(&[0; 8]).update(&head[CHECK_AT + 8..]);
    let mut check = [0; 8];
    check.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
    check
}

fn bytes_of(pattern: Pattern, seed: u64) -> impl Iterator<Item = u8> {
    let mut word = [0; 8];
    (0usize..).map(move |at| match pattern {
        Pattern::Zeros => 0,
        Pattern::Ones => 0xff,
        Pattern::Walking => 1 << (at % 8),
        Pattern::Counting => at as u8,
        Pattern::Random => {
            if at % 8 == 0 {
                word =
                    selvedge_fabric::routing::mix(seed.wrapping_add((at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
                        .to_le_bytes();
            }
            word[at % 8]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heads() -> Vec<Head> {
        let tally = Tally { arrived: 1, damaged: 2, unreadable: 3, disordered: 4, duplicates: 5 };
        let mut bodies = vec![Body::Ask, Body::Told(tally)];
        for pattern in Pattern::ALL {
            bodies.push(Body::Frame { number: u32::MAX, pattern, payload: 1400 });
            bodies.push(Body::Echo { number: 7, pattern, payload: 0, damaged: 9, order: 5 });
        }
        bodies.into_iter().map(|body| Head { from: HostId(1), to: HostId(u64::MAX), test: 1 << 40, body }).collect()
    }

    #[test]
    fn heads_survive_the_wire_and_no_damaged_one_does() {
        for head in heads() {
            let bytes = head.encode();
            assert_eq!(Head::decode(&bytes), Some(head));
            assert_eq!(Head::decode(&bytes[..HEAD_BYTES - 1]), None);
            for at in 0..HEAD_BYTES {
                let mut damaged = bytes;
                damaged[at] ^= 0x10;
                assert_eq!(Head::decode(&damaged), None, "byte {at} of {head:?}");
            }
        }
    }

    #[test]
    fn each_wrong_byte_of_a_payload_is_found() {
        for head in heads() {
            let mut payload = Vec::new();
            head.fill(&mut payload);
            assert_eq!(head.wrong_bytes(&payload), 0);
            if payload.is_empty() {
                continue;
            }
            for at in [0, 1, 700, payload.len() - 1] {
                let mut damaged = payload.clone();
                damaged[at] ^= 1;
                assert_eq!(head.wrong_bytes(&damaged), 1);
            }
            assert_eq!(head.wrong_bytes(&payload[..1000]), 400);
            payload.push(0);
            assert_eq!(head.wrong_bytes(&payload), 1);
        }
    }

    #[test]
    fn random_payloads_differ() {
        let bytes = |seed| bytes_of(Pattern::Random, seed).take(64).collect::<Vec<_>>();
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
        assert_ne!(bytes(1)[..8], bytes(1)[8..16]);
    }
}
