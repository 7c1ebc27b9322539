// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seals frames with a key that all hosts of the fabric have: keyed BLAKE3, and a counter against replays.
//!
//! | bytes | |
//! |---|---|
//! | 4 | `SVs1` |
//! | 8 | counter, little-endian |
//! | 16 | the first bytes of keyed BLAKE3 over counter and frame |
//! | n | the frame |
//!
//! # Invariants
//!
//! 1. A counter is used once: it starts from the time of day in nanoseconds, and grows with each frame.
//! 2. At each port, the counters of accepted frames of one sender ascend.
//! 3. A sealed frame of the longest length fits the smallest MTU of IPv6.
//!
//! A receiver that has just started has no memory of counters. The manager then takes a link for up only if the
//! neighbour echoes this boot, which no earlier frame does.
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use selvedge_fabric_manager::FRAME_BYTES_MAX;

const MAGIC: [u8; 4] = *b"SVs1";
const SEAL_BYTES: usize = 28;
const KEY_BYTES_MIN: usize = 16;
const KEY_BYTES_MAX: u64 = 1 << 16;
/// Senders whose counters a port remembers.
const SENDERS_MAX: usize = 64;
/// Bytes of UDP and IPv6 before a datagram.
const IP_UDP_BYTES: usize = 48;
const _: () = assert!(SEAL_BYTES + FRAME_BYTES_MAX + IP_UDP_BYTES <= 1280);

/// The longest datagram.
pub const DATAGRAM_BYTES_MAX: usize = SEAL_BYTES + FRAME_BYTES_MAX;

/// Reasons for which a key is refused.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    #[error("--key {}: {error}", .path.display())]
    Read { path: PathBuf, error: std::io::Error },
    #[error("--key {}: {bytes} bytes; give {KEY_BYTES_MIN} to {KEY_BYTES_MAX}: head -c 32 /dev/urandom > FILE", .path.display())]
    Length { path: PathBuf, bytes: u64 },
}

/// A datagram that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Opened<'a> {
    Frame(&'a [u8]),
    /// Sealed with another key, or one end has a key and the other has none.
    Closed,
    /// Sealed with this key, and not newer than the frames before.
    Replay,
}

/// Seals and opens frames.
pub struct Seal {
    key: Option<[u8; 32]>,
    counter: u64,
    /// The last counter of each sender at each port.
    last: BTreeMap<(u16, u64), u64>,
}

impl Seal {
    /// Without a key, frames pass as they are.
    pub fn new(key: Option<[u8; 32]>, now_ns: u64) -> Seal {
        Seal { key, counter: now_ns, last: BTreeMap::new() }
    }

    pub fn seal(&mut self, frame: &[u8]) -> Vec<u8> {
        let Some(key) = &self.key else { return frame.to_vec() };
        self.counter += 1;
        let counter = self.counter.to_le_bytes();
        let mut datagram = Vec::with_capacity(SEAL_BYTES + frame.len());
        datagram.extend(MAGIC);
        datagram.extend(counter);
        datagram.extend(tag(key, counter, frame));
        datagram.extend(frame);
        datagram
    }

    /// Bytes that a seal adds.
    pub fn bytes(&self) -> usize {
        if self.key.is_some() { SEAL_BYTES } else { 0 }
    }

    /// Opens a datagram in whatever order it arrives: its receiver counts those that come again.
    pub fn open_unordered<'a>(&self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        self.verify(datagram).map(|(_, frame)| frame)
    }

    /// The counter and the frame of a datagram that is sealed with this key; the counter is 0 without a key.
    fn verify<'a>(&self, datagram: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let sealed = datagram.strip_prefix(&MAGIC).and_then(|rest| rest.split_at_checked(SEAL_BYTES - MAGIC.len()));
        let (key, (head, frame)) = match (&self.key, sealed) {
            (None, None) => return Some((0, datagram)),
            (Some(key), Some(sealed)) => (key, sealed),
            _ => return None,
        };
        let mut counter = [0; 8];
        counter.copy_from_slice(&head[..8]);
        // Without an end at the first difference, so the time tells nothing.
        let differs = tag(key, counter, frame).iter().zip(&head[8..]).fold(0, |all, (a, b)| all | a ^ b);
        (differs == 0).then_some((u64::from_le_bytes(counter), frame))
    }

    /// Opens a datagram that has arrived at a port.
    pub fn open<'a>(&mut self, port: u16, datagram: &'a [u8]) -> Opened<'a> {
        let Some((counter, frame)) = self.verify(datagram) else { return Opened::Closed };
        if self.key.is_none() {
            return Opened::Frame(frame);
        }
        // Only holders of the key come here, so the sender in the frame is true.
        let sender = frame.get(12..20).map_or(0, |host| host.iter().fold(0, |all, &byte| all << 8 | u64::from(byte)));
        if self.last.get(&(port, sender)).is_some_and(|&last| counter <= last) {
            return Opened::Replay;
        }
        let of_port = || self.last.iter().filter(|(at, _)| at.0 == port);
        if of_port().count() >= SENDERS_MAX {
            // The one that has been silent for longest: counters begin at the time of day.
            let oldest = of_port().min_by_key(|(_, counter)| **counter).map(|(&at, _)| at);
            oldest.map(|at| self.last.remove(&at));
        }
        self.last.insert((port, sender), counter);
        Opened::Frame(frame)
    }
}

fn tag(key: &[u8; 32], counter: [u8; 8], frame: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&counter).update(frame);
    let mut tag = [0; 16];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    tag
}

/// The keys that a file's bytes give: none of them tells another one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Keys {
    /// Of frames between neighbours.
    pub frames: [u8; 32],
    /// Of requests between hosts.
    pub requests: [u8; 32],
    /// Of tests of cables.
    pub tests: [u8; 32],
}

pub fn read_keys(path: &Path) -> Result<Keys, KeyError> {
    let read = |error| KeyError::Read { path: path.to_owned(), error };
    let bytes = std::fs::metadata(path).map_err(read)?.len();
    if !(KEY_BYTES_MIN as u64..=KEY_BYTES_MAX).contains(&bytes) {
        return Err(KeyError::Length { path: path.to_owned(), bytes });
    }
    let text = std::fs::read(path).map_err(read)?;
    Ok(Keys {
        frames: blake3::derive_key("selvedge daemon: frames between neighbours, 1", &text),
        requests: blake3::derive_key("selvedge daemon: requests between hosts, 1", &text),
        tests: blake3::derive_key("selvedge daemon: tests of cables, 1", &text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_fabric_manager::wire::{Body, Frame, Hello};
    use selvedge_fabric_manager::{End, HostId};

    fn frame(host: u64) -> Vec<u8> {
        let sender = End { host: HostId(host), ..End::default() };
        Frame { sender, body: Body::Hello(Hello::default()) }.encode()
    }

    #[test]
    fn a_frame_opens_once_at_each_port_with_the_same_key() {
        let (mut ours, mut theirs) = (Seal::new(Some([1; 32]), 100), Seal::new(Some([1; 32]), 200));
        let frame = frame(7);
        let first = ours.seal(&frame);
        let second = ours.seal(&frame);
        assert_eq!(theirs.open(0, &first), Opened::Frame(&frame));
        assert_eq!(theirs.open(0, &first), Opened::Replay);
        assert_eq!(theirs.open(0, &second), Opened::Frame(&frame));
        assert_eq!(theirs.open(0, &first), Opened::Replay);
        assert_eq!(theirs.open(1, &first), Opened::Frame(&frame), "ports count apart");
        assert!(first.len() <= DATAGRAM_BYTES_MAX);
        assert_eq!(first.len(), ours.bytes() + frame.len());
        assert_eq!(theirs.open_unordered(&first), Some(&frame[..]), "its receiver counts it");
    }

    #[test]
    fn senders_count_apart() {
        let (mut early, mut late) = (Seal::new(Some([1; 32]), 100), Seal::new(Some([1; 32]), 1 << 50));
        let mut receiver = Seal::new(Some([1; 32]), 0);
        let (one, two) = (frame(1), frame(2));
        assert_eq!(receiver.open(0, &late.seal(&one)), Opened::Frame(&one));
        assert_eq!(receiver.open(0, &early.seal(&two)), Opened::Frame(&two));
    }

    #[test]
    fn other_keys_no_keys_and_any_change_are_refused() {
        let frame = frame(7);
        let mut ours = Seal::new(Some([1; 32]), 100);
        let sealed = ours.seal(&frame);
        assert_eq!(Seal::new(Some([2; 32]), 0).open(0, &sealed), Opened::Closed);
        assert_eq!(Seal::new(None, 0).open(0, &sealed), Opened::Closed);
        assert_eq!(Seal::new(Some([1; 32]), 0).open(0, &frame), Opened::Closed);
        assert_eq!(Seal::new(None, 0).open(0, &frame), Opened::Frame(&frame));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(Seal::new(Some([1; 32]), 0).open(0, &changed), Opened::Closed, "byte {at}");
            assert_eq!(ours.open_unordered(&changed), None, "byte {at}");
            assert_eq!(Seal::new(Some([1; 32]), 0).open(0, &sealed[..at]), Opened::Closed, "cut at {at}");
        }
    }

    #[test]
    fn keys_are_read_from_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        assert!(matches!(read_keys(&path), Err(KeyError::Read { .. })));
        std::fs::write(&path, b"short").unwrap();
        assert!(matches!(read_keys(&path), Err(KeyError::Length { bytes: 5, .. })));
        std::fs::write(&path, [9; 32]).unwrap();
        let key = read_keys(&path).unwrap();
        assert_ne!(key.frames, key.requests);
        std::fs::write(&path, [8; 32]).unwrap();
        assert!(key != read_keys(&path).unwrap());
    }
}
