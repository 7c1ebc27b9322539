// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the page of a process's link counters from outside, for tools ([`crate::snapshot`]).
//!
//! Invariants
//! 1. Nothing is changed, and the file is read, not mapped, as in [`crate::inspect`].
//! 2. Nothing in the file is believed: it may have been written halfway, by a process that was killed, or by anything.
//!    Lengths are limited, numbers are only shown, text is decoded with replacements and may have control characters.
//! 3. Each number is consistent. Numbers of one record are from about the same time.

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;

use selvedge_os::mapping::MapError;
use selvedge_os::process::Identity;

use super::{
    HEADER_BYTES, LinkState, MAGIC, NONE, PageHeader, RECORD_BYTES, Received, Record, Sent, VERSION, Way, Work,
    reserved_bytes,
};
use crate::inspect::open;

/// The page of a process, as read.
#[derive(Clone, Debug)]
pub struct ProcessLinks {
    /// The process at the operating system.
    pub owner: Identity,
    /// nid << 32 | pid of its NICs.
    pub id: u64,
    pub rank: u32,
    /// The address at which other hosts reach it; empty without one.
    pub address: String,
    pub links: Vec<LinkCounters>,
}

/// The counters of one link, as the process at one end has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    pub way: Option<Way>,
    /// The number of the NIC; `None` for a link of all NICs of the process.
    pub ni: Option<u32>,
    /// nid << 32 | pid of the peer; 0 if it is unknown.
    pub peer: u64,
    pub peer_rank: Option<u32>,
    /// The peer's address, of a link between hosts.
    pub address: String,
    pub state: Option<LinkState>,
    /// The reason for the state; empty without one.
    pub why: String,
    /// Values in the order of [`LinkCounter::ALL`].
    values: [u64; LinkCounter::ALL.len()],
}

macro_rules! counters {
    ($($name:ident $text:literal $counts:literal $meaning:literal;)*) => {
        /// A counter of a link.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum LinkCounter {
            $(#[doc = $meaning] $name,)*
        }

        impl LinkCounter {
            pub const ALL: &'static [LinkCounter] = &[$(LinkCounter::$name),*];

            /// Its name in `selvedge top --json` and `selvedge registers`.
            pub const fn name(self) -> &'static str {
                match self { $(LinkCounter::$name => $text,)* }
            }

            /// The unit of its values.
            pub const fn unit(self) -> &'static str {
                match self { $(LinkCounter::$name => $counts,)* }
            }

            /// One sentence.
            pub const fn meaning(self) -> &'static str {
                match self { $(LinkCounter::$name => $meaning,)* }
            }
        }
    };
}

counters! {
    Puts "puts" "operations" "Puts of this process to the peer, in its memory or by a command.";
    Gets "gets" "operations" "Gets of this process from the peer.";
    Atomics "atomics" "operations" "Atomics of this process at the peer.";
    Messages "messages" "messages" "Messages and other commands of this process to the peer, and packets to a peer on another host.";
    BytesOut "bytes_out" "bytes" "Payload that this process has sent to the peer, or written there.";
    BytesIn "bytes_in" "bytes" "Payload that this process has read from the peer, and that packets of another host have brought.";
    Internal "internal" "operations" "Accesses of the library itself to the peer's memory: barriers, collectives, locks.";
    InternalBytes "internal_bytes" "bytes" "Bytes of these accesses.";
    PacketsIn "packets_in" "packets" "Packets that have come from a peer on another host.";
    FramesOut "frames_out" "frames" "Frames sent on the link between hosts, repetitions included.";
    FrameBytesOut "frame_bytes_out" "bytes" "Bytes of these frames.";
    FramesIn "frames_in" "frames" "Frames that have come on the link between hosts.";
    FrameBytesIn "frame_bytes_in" "bytes" "Bytes of these frames.";
    Repeats "repeats" "frames" "Frames that this process has sent again.";
    Damaged "damaged" "frames" "Frames from the peer whose check failed.";
    Unordered "unordered" "frames" "Frames from the peer that came again, or before an earlier one.";
    RoundTrip "round_trip_ns" "ns" "Smoothed time from a frame to its acknowledgement; without a check, that of the control connection. 0: unknown.";
    QueueBytes "queue_bytes" "bytes" "Bytes that wait for a frame now.";
    QueuePackets "queue_packets" "packets" "Packets that wait for a frame now.";
    InFlight "in_flight" "frames" "Frames on the way now: not acknowledged, or not taken by the network.";
}

impl LinkCounter {
    /// Whether the value only grows.
    pub const fn is_total(self) -> bool {
        !matches!(
            self,
            LinkCounter::RoundTrip | LinkCounter::QueueBytes | LinkCounter::QueuePackets | LinkCounter::InFlight
        )
    }
}

impl LinkCounters {
    /// Returns the value of a counter.
    pub fn get(&self, counter: LinkCounter) -> u64 {
        self.values[counter as usize]
    }

    /// Returns the operations that this process has started at the peer: puts, gets, atomics, messages.
    pub fn operations(&self) -> u64 {
        [LinkCounter::Puts, LinkCounter::Gets, LinkCounter::Atomics, LinkCounter::Messages]
            .into_iter()
            .fold(0, |sum, counter| sum.wrapping_add(self.get(counter)))
    }

    /// Whether anything was counted.
    pub fn is_used(&self) -> bool {
        self.values.iter().any(|value| *value != 0)
    }

    fn set(&mut self, counter: LinkCounter, value: u64) {
        self.values[counter as usize] = value;
    }
}

impl Way {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Way::Memory => "memory",
            Way::Network => "network",
            Way::Others => "others",
        }
    }
}

impl LinkState {
    /// Its name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            LinkState::Closed => "closed",
            LinkState::Connecting => "connecting",
            LinkState::Open => "open",
            LinkState::Ending => "ending",
            LinkState::Lost => "lost",
        }
    }
}

/// Reasons for which a page is not shown.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error(transparent)]
    File(#[from] MapError),
    #[error("not a page of link counters")]
    Magic,
    #[error("made by another version of Selvedge (page {found}; this one has {VERSION})")]
    Version { found: u32 },
    #[error("its {bytes} bytes are more than the {left} that may still be read")]
    Budget { bytes: u64, left: u64 },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// Reads the page in this file, which must belong to the user `uid` alone.
pub fn inspect_page(path: &Path, uid: u32) -> Result<ProcessLinks, PageError> {
    let mut unlimited = u64::MAX;
    inspect_page_within(path, uid, &mut unlimited)
}

/// The same for a reader of many pages, which may read `budget` more bytes: takes the page's bytes from it, or fails.
pub fn inspect_page_within(path: &Path, uid: u32, budget: &mut u64) -> Result<ProcessLinks, PageError> {
    let (file, bytes) = open(path, uid)?;
    let bytes = bytes.min(reserved_bytes());
    let left = budget.checked_sub(bytes).ok_or(PageError::Budget { bytes, left: *budget })?;
    *budget = left;
    let bytes = read(&file, bytes as usize)?;
    let piece = Piece(&bytes);
    if bytes.len() < HEADER_BYTES || piece.u64(offset_of!(PageHeader, magic)) != MAGIC {
        return Err(PageError::Magic);
    }
    let found = piece.u32(offset_of!(PageHeader, version));
    if found != VERSION {
        return Err(PageError::Version { found });
    }
    let records = bytes[HEADER_BYTES..].chunks_exact(RECORD_BYTES).map(Piece);
    Ok(ProcessLinks {
        owner: Identity {
            pid: piece.u32(offset_of!(PageHeader, owner_pid)),
            start: piece.u64(offset_of!(PageHeader, owner_start)),
        },
        id: piece.u64(offset_of!(PageHeader, id)),
        rank: piece.u32(offset_of!(PageHeader, rank)),
        address: piece.text::<8>(offset_of!(PageHeader, address)),
        // Records are claimed in order.
        links: records.take_while(|record| record.u32(offset_of!(Record, is_claimed)) == 1).map(record_of).collect(),
    })
}

fn record_of(record: Piece<'_>) -> LinkCounters {
    let known = |word: u32| (word != NONE).then_some(word);
    let mut seen = LinkCounters {
        way: [Way::Memory, Way::Network, Way::Others]
            .into_iter()
            .find(|way| *way as u32 == record.u32(offset_of!(Record, way))),
        ni: known(record.u32(offset_of!(Record, ni))),
        peer: record.u64(offset_of!(Record, peer)),
        peer_rank: known(record.u32(offset_of!(Record, rank))),
        address: record.text::<12>(offset_of!(Record, address)),
        state: [LinkState::Closed, LinkState::Connecting, LinkState::Open, LinkState::Ending, LinkState::Lost]
            .into_iter()
            .find(|state| *state as u32 == record.u32(offset_of!(Record, state))),
        why: record.text::<16>(offset_of!(Record, why)),
        ..LinkCounters::default()
    };
    let work = |field: usize| record.u64(offset_of!(Record, work) + field);
    let sent = |field: usize| record.u64(offset_of!(Record, sent) + field);
    let received = |field: usize| record.u64(offset_of!(Record, received) + field);
    let sum = |values: &[u64]| values.iter().fold(0u64, |sum, value| sum.wrapping_add(*value));
    let (mut atomics, mut atomics_out, mut atomics_in) = (work(offset_of!(Work, atomics)), 0u64, 0u64);
    for (at, bytes) in [4u64, 8].into_iter().enumerate() {
        let word = |field: usize| work(field + 8 * at);
        let (updates, fetches, loads) =
            (word(offset_of!(Work, updates)), word(offset_of!(Work, fetches)), word(offset_of!(Work, loads)));
        atomics = sum(&[atomics, updates, fetches, loads]);
        atomics_out = sum(&[atomics_out, updates.wrapping_mul(bytes), fetches.wrapping_mul(bytes)]);
        atomics_in = sum(&[atomics_in, fetches.wrapping_mul(bytes), loads.wrapping_mul(bytes)]);
    }
    let (packets_out, packet_bytes_out) = (sent(offset_of!(Sent, packets)), sent(offset_of!(Sent, packet_bytes)));
    for (counter, value) in [
        (LinkCounter::Puts, work(offset_of!(Work, puts))),
        (LinkCounter::Gets, work(offset_of!(Work, gets))),
        (LinkCounter::Atomics, atomics),
        (LinkCounter::Messages, sum(&[work(offset_of!(Work, messages)), packets_out])),
        (LinkCounter::BytesOut, sum(&[work(offset_of!(Work, bytes_out)), atomics_out, packet_bytes_out])),
        (
            LinkCounter::BytesIn,
            sum(&[work(offset_of!(Work, bytes_in)), atomics_in, received(offset_of!(Received, packet_bytes))]),
        ),
        (LinkCounter::Internal, work(offset_of!(Work, internal))),
        (LinkCounter::InternalBytes, work(offset_of!(Work, internal_bytes))),
        (LinkCounter::PacketsIn, received(offset_of!(Received, packets))),
        (LinkCounter::FramesOut, sent(offset_of!(Sent, frames))),
        (LinkCounter::FrameBytesOut, sent(offset_of!(Sent, frame_bytes))),
        (LinkCounter::FramesIn, received(offset_of!(Received, frames))),
        (LinkCounter::FrameBytesIn, received(offset_of!(Received, frame_bytes))),
        (LinkCounter::Repeats, sent(offset_of!(Sent, repeats))),
        (LinkCounter::Damaged, received(offset_of!(Received, damaged))),
        (LinkCounter::Unordered, received(offset_of!(Received, unordered))),
        (LinkCounter::RoundTrip, sent(offset_of!(Sent, round_trip_ns))),
        (LinkCounter::QueueBytes, sent(offset_of!(Sent, queue_bytes))),
        (LinkCounter::QueuePackets, sent(offset_of!(Sent, queue_packets))),
        (LinkCounter::InFlight, sent(offset_of!(Sent, in_flight))),
    ] {
        seen.set(counter, value);
    }
    seen
}

/// Reads up to `bytes` bytes from the start of a file, which may be shortened meanwhile.
fn read(file: &File, bytes: usize) -> io::Result<Vec<u8>> {
    let (mut all, mut at) = (vec![0; bytes], 0);
    while at < bytes {
        match file.read_at(&mut all[at..], at as u64) {
            Ok(0) => break,
            Ok(count) => at += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    all.truncate(at);
    Ok(all)
}

/// Bytes of a page. Offsets come from layouts, never from the file.
#[derive(Clone, Copy)]
struct Piece<'a>(&'a [u8]);

impl Piece<'_> {
    fn u32(self, offset: usize) -> u32 {
        self.0[offset..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
    }

    fn u64(self, offset: usize) -> u64 {
        self.0[offset..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn text<const WORDS: usize>(self, offset: usize) -> String {
        let most = 8 * (WORDS - 1);
        let length = usize::try_from(self.u64(offset)).map_or(most, |length| length.min(most));
        String::from_utf8_lossy(&self.0[offset + 8..offset + 8 + length]).into_owned()
    }
}
