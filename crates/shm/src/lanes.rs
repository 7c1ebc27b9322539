// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lanes: where senders leave small messages for a NIC whose owner keeps looking.
//!
//! A NIC's owner may keep a file `<pid>.<ni>.lanes` beside its segment. A sender claims one lane of it and is the only
//! one to write there: a message is one store of a cache line (the first of a [`Cell`]'s two, which processors fetch
//! together) with up to 40 bytes in it, or [`INLINE_BYTES`] in both; longer ones lie in the lane's ring of bytes. Nobody else's line moves, so a message costs one crossing, and 64 of them in
//! flight one crossing each. What lies in a lane has not been matched: whoever holds the NIC's lock takes it in, as a
//! rule the owner; a sender whose next message must go past the lane takes in its own first ([`crate::direct`]).
//!
//! Invariants
//! 1. A cell's first word is stored last (release) and holds its number: a message is there whole or not at all, also
//!    where its sender died.
//! 2. `taken` and `data_taken` are stored by holders of the NIC's lock only; a sender never writes over what they do
//!    not say is taken.
//! 3. Whatever a sender writes, its reader gets lengths that lie within the lane, or a fault.
//! 4. A lane belongs to the process that its claim names until the owner clears it, having found the lane empty and that process dead
//!    or no sender any more.
//! 5. Lanes that their owner has closed say so, and nobody leaves anything there: the same process may open others under the same name.
//!
//! | file | what |
//! |---|---|
//! | here | a NIC's lanes: where all lies, who has which |
//! | [`sender`] | messages into one |
//! | [`reader`] | messages out of one |
//!
//! Cost: 162 KiB for each lane that was ever claimed; a look at a lane without a message is one load.

mod reader;
mod sender;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

use crate::os::lines;
use crate::os::mapping::{MapError, Mapping};
use crate::os::process::Identity;

pub use reader::{LaneFault, Reader, Waiting};
pub use sender::Sender;

/// Senders that may have a lane to one NIC; others go past.
pub const LANES: usize = 64;
/// Payload that a cell holds itself.
pub const INLINE_BYTES: usize = 104;
/// What of it lies in the first line.
const FIRST_LINE_BYTES: usize = INLINE_BYTES - 64;
/// Messages that a lane holds.
const CELLS: u64 = 256;
/// Longer payload that a lane holds.
const DATA_BYTES: u64 = 128 << 10;
/// The longest message that goes through a lane: some fit, so that copying in and out overlap.
pub const MESSAGE_BYTES_MAX: usize = (DATA_BYTES / 4) as usize;

const MAGIC: u64 = u64::from_le_bytes(*b"SELVLANE");
const VERSION: u32 = 4;
const HEADER_BYTES: u64 = 4096;
const CELLS_AT: u64 = 128;
const DATA_AT: u64 = CELLS_AT + CELLS * size_of::<Cell>() as u64;
const LANE_BYTES: u64 = (DATA_AT + DATA_BYTES).next_multiple_of(128);
const RESERVED_BYTES: u64 = HEADER_BYTES + LANES as u64 * LANE_BYTES;

/// One message, or its head.
#[repr(C, align(128))]
struct Cell {
    /// Number of the message + 1 (32 bits), portal table index (8), flags (8), length (16).
    head: AtomicU64,
    match_bits: AtomicU64,
    header_data: AtomicU64,
    /// The message, or the position of its bytes in the lane's ring.
    bytes: [AtomicU64; INLINE_BYTES / 8],
}

impl Cell {
    /// Fills in the rest of a cell whose bytes are there; its message is then sent.
    #[inline(always)]
    fn publish(&self, number: u64, envelope: &Envelope, length: usize) {
        self.match_bits.store(envelope.match_bits, Relaxed);
        self.header_data.store(envelope.header_data, Relaxed);
        let head = u64::from(number as u32)
            | u64::from(envelope.portal) << 32
            | u64::from(envelope.flags) << 40
            | (length as u64) << 48;
        self.head.store(head, Release);
    }

    /// Takes the lines of a cell in which no message lies, for one of this length.
    #[inline(always)]
    fn take(&self, length: usize) {
        // Not the head: 0 is the number of one message in 2^32.
        lines::take(&self.header_data);
        if (FIRST_LINE_BYTES + 1..=INLINE_BYTES).contains(&length) {
            lines::take(&self.bytes[FIRST_LINE_BYTES / 8]);
        }
    }
}

/// How far a lane has been taken in.
#[repr(C, align(128))]
struct Ends {
    taken: AtomicU64,
    data_taken: AtomicU64,
}

/// Who sends through a lane.
#[repr(C, align(16))]
struct Claim {
    /// The home's word for a process; 0 for nobody, [`GIVEN_UP`] for one that has closed its end.
    owner: AtomicU64,
    /// What the sender says that it is: nid << 32 | pid.
    id: AtomicU64,
}

#[repr(C, align(128))]
struct Header {
    magic: u64,
    version: u32,
    lanes: u32,
    owner: u64,
    /// How senders are to go: one of [`way`].
    way: AtomicU32,
    reserved: u32,
    /// Bit i: lane i is claimed, and the file holds it.
    claimed: AtomicU64,
    claims: [Claim; LANES],
}

/// How messages go to a NIC.
mod way {
    pub const LANES: u32 = 0;
    /// Past the lanes, for something waits there for messages to be matched.
    pub const PAST: u32 = 1;
    /// Not at all: these lanes are closed.
    pub const CLOSED: u32 = 2;
}

/// Whose a lane is that waits to be cleared.
const GIVEN_UP: u64 = u64::MAX;

const _: () = assert!(size_of::<Header>() as u64 <= HEADER_BYTES && size_of::<Cell>() == 128);

/// What a message says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    pub portal: u8,
    /// The sender's, carried as they are.
    pub flags: u8,
    pub match_bits: u64,
    pub header_data: u64,
}

/// A lane's next message, of which the head has been seen.
#[derive(Clone, Copy, Debug)]
pub struct Glimpse {
    number: u64,
    head: u64,
}

impl Glimpse {
    /// Where it is for.
    #[inline(always)]
    pub fn portal(self) -> u8 {
        portal_of(self.head)
    }

    /// Whether it does not lie in its cell alone.
    #[inline(always)]
    pub fn is_long(self) -> bool {
        length_of(self.head) > INLINE_BYTES
    }
}

/// The place that a head names.
#[inline(always)]
fn portal_of(head: u64) -> u8 {
    (head >> 32) as u8
}

/// The length that it tells of.
#[inline(always)]
fn length_of(head: u64) -> usize {
    (head >> 48) as usize
}

/// The lanes to one NIC, mapped.
#[derive(Debug)]
pub struct Lanes {
    mapping: Mapping,
    path: PathBuf,
    own: bool,
}

impl Lanes {
    /// Where a NIC's lanes are.
    pub fn path(directory: &Path, id: u64, ni: u32) -> PathBuf {
        directory.join(format!("{id}.{ni}.lanes"))
    }

    /// Makes the file, for the NIC's owner.
    pub fn create(directory: &Path, id: u64, ni: u32) -> Result<Lanes, MapError> {
        let path = Lanes::path(directory, id, ni);
        let making = path.with_extension(format!("making.{}", std::process::id()));
        for stale in [&making, &path] {
            let _ = std::fs::remove_file(stale);
        }
        let mapping = Mapping::create(&making, HEADER_BYTES, RESERVED_BYTES)?;
        let lanes = Lanes { mapping, path, own: true };
        let header = Header {
            magic: MAGIC,
            version: VERSION,
            lanes: LANES as u32,
            owner: Identity::own().to_word(),
            way: AtomicU32::new(way::LANES),
            reserved: 0,
            claimed: AtomicU64::new(0),
            claims: [const { Claim { owner: AtomicU64::new(0), id: AtomicU64::new(0) } }; LANES],
        };
        // SAFETY: the mapping is page-aligned, ours alone until the rename, and larger than the header.
        unsafe { lanes.mapping.base().cast::<Header>().write(header) };
        std::fs::rename(&making, &lanes.path)
            .map_err(|error| MapError::Io { path: lanes.path.clone(), source: error })?;
        Ok(lanes)
    }

    /// Maps a peer's. None: it keeps none, or not of this version, or they are not the process's that is meant.
    pub fn open(directory: &Path, id: u64, ni: u32, owner: u64) -> Option<Lanes> {
        let path = Lanes::path(directory, id, ni);
        let mapping = Mapping::open(&path, HEADER_BYTES, RESERVED_BYTES).ok()?;
        let lanes = Lanes { mapping, path, own: false };
        let header = lanes.header();
        let fits = header.magic == MAGIC && header.version == VERSION && header.owner == owner;
        fits.then_some(lanes)
    }

    fn header(&self) -> &Header {
        // SAFETY: the file holds at least the header; its fields are integers, those that change atomic.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }

    #[inline(always)]
    fn lane(&self, index: usize) -> *mut u8 {
        self.mapping.base().wrapping_add((HEADER_BYTES + index as u64 * LANE_BYTES) as usize)
    }

    #[inline(always)]
    fn ends(&self, index: usize) -> &Ends {
        // SAFETY: a claimed lane lies within the file; atomics.
        unsafe { &*self.lane(index).cast::<Ends>() }
    }

    #[inline(always)]
    fn cell(&self, index: usize, number: u64) -> &Cell {
        // SAFETY: as for `ends`.
        unsafe { &*cell_at(self.lane(index), number) }
    }

    // ---- the owner, and whoever holds its NIC's lock ----

    /// Tells senders to go past the lanes, or through them again.
    pub fn set_direct(&self, direct: bool) {
        self.header().way.store(if direct { way::PAST } else { way::LANES }, SeqCst);
    }

    /// Lanes that are claimed, a bit for each.
    #[inline(always)]
    pub fn claimed(&self) -> u64 {
        self.header().claimed.load(Acquire)
    }

    /// Who sends through a lane: nid << 32 | pid, as it says itself.
    #[inline(always)]
    pub fn sender(&self, index: usize) -> u64 {
        self.header().claims[index].id.load(Relaxed)
    }

    /// Whether a message lies in a claimed lane. The answer is final only for the holder of the NIC's lock.
    #[inline(always)]
    pub fn has_message(&self, index: usize) -> bool {
        self.next(index).is_some()
    }

    /// What the next message of a claimed lane is, if there is one. As final as [`Lanes::has_message`].
    #[inline(always)]
    pub fn next(&self, index: usize) -> Option<Glimpse> {
        let number = self.ends(index).taken.load(Relaxed);
        let head = self.cell(index, number).head.load(Acquire);
        let is_there = head as u32 == number.wrapping_add(1) as u32;
        is_there.then_some(Glimpse { number, head })
    }

    /// Asks for the bytes of a message that was seen and is long: they cross while the lock is taken and its receive found.
    #[inline(always)]
    pub fn ask_for_bytes(&self, index: usize, seen: Glimpse) {
        reader::ask_for_bytes(self.lane(index), self.cell(index, seen.number), seen.head);
    }

    /// To take messages out of a claimed lane. Under the NIC's lock, for as long as it is held.
    #[inline(always)]
    pub fn reader(&self, index: usize) -> Reader<'_> {
        // SAFETY: a claimed lane lies within the file, which is mapped as long as these lanes are borrowed.
        unsafe { Reader::new(self.lane(index), self.ends(index).taken.load(Relaxed)) }
    }

    /// The same for a message that was seen. None: it has been taken.
    #[inline(always)]
    pub fn reader_from(&self, index: usize, seen: Glimpse) -> Option<Reader<'_>> {
        let reader = self.reader(index);
        (reader.next_number() == seen.number).then_some(reader)
    }

    /// Clears lanes whose senders have ended or closed their ends, and that are empty. Under the NIC's lock, by its owner.
    pub fn clear_dead(&self) {
        let header = self.header();
        let mut left = self.claimed();
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let claim = &header.claims[index];
            let owner = claim.owner.load(Acquire);
            if (owner == GIVEN_UP || !Identity::word_is_alive(owner)) && !self.has_message(index) {
                header.claimed.fetch_and(!(1 << index), SeqCst);
                claim.owner.store(0, Release);
            }
        }
    }

    /// Stops listening to a lane in which something lies that no sender writes.
    pub fn close(&self, index: usize) {
        self.header().claimed.fetch_and(!(1 << index), SeqCst);
    }

    // ---- a sender ----

    /// Claims a lane for the process of this word, which says that it is `id`. None: all are claimed, or there is no
    /// memory for one more.
    pub fn claim(self, word: u64, id: u64) -> Option<Sender> {
        let free = |claim: &Claim| {
            claim.owner.load(Relaxed) == 0 && claim.owner.compare_exchange(0, word, SeqCst, Relaxed).is_ok()
        };
        let index = self.header().claims.iter().position(free)?;
        let header = self.header();
        if self.mapping.grow(HEADER_BYTES + (index as u64 + 1) * LANE_BYTES).is_err() {
            header.claims[index].owner.store(0, SeqCst);
            return None;
        }
        header.claims[index].id.store(id, SeqCst);
        header.claimed.fetch_or(1 << index, SeqCst);
        Some(Sender::new(self, index))
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        if self.own {
            self.header().way.store(way::CLOSED, SeqCst);
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Of a message's bytes, how much is asked for before it is needed: what a core can have under way.
const EARLY_BYTES: usize = 2 << 10;

/// Where the lines of a message begin that are asked for early.
#[inline(always)]
fn early_lines(length: usize) -> impl Iterator<Item = usize> {
    (0..length.min(EARLY_BYTES)).step_by(64)
}

/// The cell of a message of a lane.
#[inline(always)]
fn cell_at(lane: *mut u8, number: u64) -> *const Cell {
    lane.wrapping_add((CELLS_AT + number % CELLS * size_of::<Cell>() as u64) as usize).cast()
}

/// Where a position of a lane's ring of bytes lies.
#[inline(always)]
fn data_at(lane: *mut u8, position: u64) -> *mut u8 {
    lane.wrapping_add((DATA_AT + position % DATA_BYTES) as usize)
}

/// Bytes are laid down in whole lines.
#[inline(always)]
fn rounded(length: usize) -> u64 {
    (length as u64).next_multiple_of(64)
}

/// Where a message of this length goes from a position on: not over the ring's end.
#[inline(always)]
fn place_data(position: u64, length: usize) -> u64 {
    let left = DATA_BYTES - position % DATA_BYTES;
    if rounded(length) > left { position + left } else { position }
}
