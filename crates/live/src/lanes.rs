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
//! Cost: 162 KiB for each lane that was ever claimed; a look at a lane without a message is one load.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

use crate::os::mapping::{MapError, Mapping};
use crate::os::process::Identity;
use crate::os::{copy, lines};

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
const VERSION: u32 = 3;
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

/// A message that lies in a lane.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub envelope: Envelope,
    pub bytes: *const u8,
    pub length: usize,
    /// Where the lane's bytes go on after it.
    data_next: u64,
}

/// What can be seen of a message at a glance.
#[derive(Clone, Copy, Debug)]
pub struct Glimpse {
    /// Where it is for.
    pub portal: u8,
    /// It lies in its cell alone.
    pub is_inline: bool,
}

/// A message that lies in its cell alone.
#[derive(Clone, Copy, Debug)]
pub struct Inline {
    pub envelope: Envelope,
    bytes: *const u8,
    pub length: usize,
}

impl Inline {
    /// # Safety
    /// There is room for all of it.
    #[inline(always)]
    pub unsafe fn copy_to(&self, to: *mut u8) {
        // SAFETY: the caller's; the message lies in its cell.
        unsafe { copy::few(self.bytes, to, self.length) }
    }
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
        let number = self.ends(index).taken.load(Relaxed);
        self.cell(index, number).head.load(Relaxed) as u32 == number.wrapping_add(1) as u32
    }

    /// What the next message of a claimed lane is, if there is one. As final as [`Lanes::has_message`].
    #[inline(always)]
    pub fn next(&self, index: usize) -> Option<Glimpse> {
        let number = self.ends(index).taken.load(Relaxed);
        let head = self.cell(index, number).head.load(Relaxed);
        let is_there = head as u32 == number.wrapping_add(1) as u32;
        is_there.then_some(Glimpse { portal: (head >> 32) as u8, is_inline: head >> 48 <= INLINE_BYTES as u64 })
    }

    /// To take messages out of a claimed lane. Under the NIC's lock, for as long as it is held.
    #[inline(always)]
    pub fn reader(&self, index: usize) -> Reader<'_> {
        let taken = self.ends(index).taken.load(Relaxed);
        Reader { lane: self.lane(index), taken, first: taken, lanes: PhantomData }
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
        let ends = self.ends(index);
        let (tail, data_tail) = (ends.taken.load(Acquire), ends.data_taken.load(Acquire));
        header.claimed.fetch_or(1 << index, SeqCst);
        let lane = self.lane(index);
        let (end, data_taken) = (tail + CELLS, data_tail);
        let way = &raw const self.header().way;
        Some(Sender { lanes: self, index, lane, way, tail, data_tail, end, data_taken, fresh: tail, turn: 0 })
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

/// One lane, for whoever takes messages out of it.
pub struct Reader<'a> {
    /// Within the mapping.
    lane: *mut u8,
    taken: u64,
    first: u64,
    lanes: PhantomData<&'a Lanes>,
}

impl Reader<'_> {
    #[inline(always)]
    fn cell(&self, number: u64) -> &Cell {
        // SAFETY: a claimed lane lies within the file, which is mapped as long as the lanes are borrowed; atomics.
        unsafe { &*cell_at(self.lane, number) }
    }

    #[inline(always)]
    fn ends(&self) -> &Ends {
        // SAFETY: as above.
        unsafe { &*self.lane.cast::<Ends>() }
    }

    /// How many messages this reader has taken in.
    #[inline(always)]
    pub fn taken(&self) -> u64 {
        self.taken.wrapping_sub(self.first)
    }

    /// The next message; `Err` when what lies there was never written by this code, and the lane is of no use any more.
    #[inline(always)]
    pub fn look(&self) -> Result<Option<Waiting>, LaneFault> {
        let cell = self.cell(self.taken);
        let head = cell.head.load(Acquire);
        if head as u32 != self.taken.wrapping_add(1) as u32 {
            return Ok(None);
        }
        // Of messages that follow each other closely the next lines cross while this one is looked at. After a single one its
        // sender is left the line that it will write.
        if self.taken != self.first {
            lines::about_to_read(ptr::from_ref(self.cell(self.taken.wrapping_add(AHEAD))).cast());
        }
        let length = (head >> 48) as usize;
        let (mut bytes, mut data_next) = (cell.bytes.as_ptr().cast::<u8>(), 0);
        if length > INLINE_BYTES {
            (bytes, data_next) = look_at_data(self.lane, self.ends().data_taken.load(Relaxed), length)?;
        }
        let envelope = Envelope {
            portal: (head >> 32) as u8,
            flags: (head >> 40) as u8,
            match_bits: cell.match_bits.load(Relaxed),
            header_data: cell.header_data.load(Relaxed),
        };
        Ok(Some(Waiting { envelope, bytes, length, data_next }))
    }

    /// Takes in the next messages for a place, up to so many, while they lie in their cells alone and `take` takes them. They are passed
    /// together, once they are over.
    #[inline(always)]
    pub fn take_run(&mut self, portal: u8, most: u64, mut take: impl FnMut(&Inline) -> bool) {
        // The number of the next message and its place, as a head has them. Where numbers begin anew, the run ends.
        let first = u64::from(self.taken.wrapping_add(1) as u32) | u64::from(portal) << 32;
        let (mut next, end) = (first, first + most);
        let (mut number, lane) = (self.taken, self.lane);
        // SAFETY: as in `cell`.
        let cell_of = |number: u64| unsafe { &*cell_at(lane, number) };
        while next != end {
            let cell = cell_of(number);
            let head = cell.head.load(Acquire);
            let length = (head >> 48) as usize;
            if head & ((1 << 40) - 1) != next || length > INLINE_BYTES {
                break;
            }
            // Not after a single one: its sender is left the line that it will write.
            if next != first {
                lines::about_to_read(ptr::from_ref(cell_of(number.wrapping_add(AHEAD))).cast());
            }
            let envelope = Envelope {
                portal,
                flags: (head >> 40) as u8,
                match_bits: cell.match_bits.load(Relaxed),
                header_data: cell.header_data.load(Relaxed),
            };
            if !take(&Inline { envelope, bytes: cell.bytes.as_ptr().cast(), length }) {
                break;
            }
            next += 1;
            number = number.wrapping_add(1);
        }
        if next != first {
            self.taken = number;
            self.ends().taken.store(self.taken, Release);
        }
    }

    /// The message that `look` gave has been taken in.
    #[inline(always)]
    pub fn pass(&mut self, message: &Waiting) {
        self.taken = self.taken.wrapping_add(1);
        let ends = self.ends();
        if message.data_next != 0 {
            ends.data_taken.store(message.data_next, Release);
        }
        ends.taken.store(self.taken, Release);
    }
}

/// Where the bytes of the next message are, and where those of the lane go on after them.
#[inline(never)]
fn look_at_data(lane: *mut u8, taken: u64, length: usize) -> Result<(*const u8, u64), LaneFault> {
    if length > MESSAGE_BYTES_MAX {
        return Err(LaneFault);
    }
    let start = place_data(taken, length);
    let bytes = data_at(lane, start).cast_const();
    // They cross while it is found out where they go.
    for line in early_lines(length) {
        lines::about_to_read(bytes.wrapping_add(line));
    }
    Ok((bytes, start + rounded(length)))
}

/// A lane holds what no sender writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneFault;

/// This process's lane to a NIC.
#[derive(Debug)]
pub struct Sender {
    lanes: Lanes,
    index: usize,
    /// The lane, and what says how messages are to go, within the mapping.
    lane: *mut u8,
    way: *const AtomicU32,
    /// Messages and bytes written so far.
    tail: u64,
    data_tail: u64,
    /// Messages for which there is room, as far as is known.
    end: u64,
    /// Bytes that were last seen to be taken.
    data_taken: u64,
    /// The first message whose line no burst has taken.
    fresh: u64,
    /// The turn in which the last message was sent.
    turn: u32,
}

impl Sender {
    #[inline(always)]
    fn cell(&self, number: u64) -> &Cell {
        // SAFETY: a claimed lane lies within the file, which is mapped as long as the sender is there; atomics.
        unsafe { &*cell_at(self.lane, number) }
    }

    /// Whether messages are to be left here, and not to go past, or elsewhere.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        // SAFETY: mapped as long as the sender is there; an atomic.
        unsafe { (*self.way).load(Relaxed) == way::LANES }
    }

    /// Whether the NIC's owner has closed its lanes: nothing that is left here will be taken in.
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        // SAFETY: as above.
        unsafe { (*self.way).load(Relaxed) == way::CLOSED }
    }

    /// Whether everything sent has been taken in.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lanes.ends(self.index).taken.load(Acquire) == self.tail
    }

    /// Which of the NIC's lanes it is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The lanes, and which one it is: for taking in under the NIC's lock.
    pub(crate) fn parts(&self) -> (&Lanes, usize) {
        (&self.lanes, self.index)
    }

    /// Leaves a message of no more than [`INLINE_BYTES`]. False: there is no room, as far as is known without a look.
    ///
    /// Messages of one `turn` are a burst: nothing has come for this process meanwhile.
    ///
    /// # Safety
    /// `from` is readable for `length` bytes.
    #[inline(always)]
    pub unsafe fn leave(&mut self, envelope: &Envelope, from: *const u8, length: usize, turn: u32) -> bool {
        debug_assert!(length <= INLINE_BYTES);
        let number = self.tail;
        if number == self.end {
            return false;
        }
        let cell = self.cell(number);
        // SAFETY: the caller's bytes; the cell has room for all of them.
        unsafe { copy::few(from, cell.bytes.as_ptr().cast_mut().cast(), length) };
        cell.publish(number + 1, envelope, length);
        self.advance(number, length, turn);
        true
    }

    /// Leaves a message of `length` bytes, which `fill` writes where it is told. False: there is no room now.
    ///
    /// `length` is at most [`MESSAGE_BYTES_MAX`]; `turn` is as for [`Sender::leave`].
    #[inline(always)]
    pub fn push(&mut self, envelope: &Envelope, length: usize, turn: u32, mut fill: impl FnMut(*mut u8)) -> bool {
        if length > MESSAGE_BYTES_MAX || (self.tail == self.end && !self.has_cell()) {
            return false;
        }
        if length > INLINE_BYTES {
            let start = place_data(self.data_tail, length);
            let end = start + rounded(length);
            if end - self.data_taken > DATA_BYTES && !self.has_data(end) {
                return false;
            }
            fill(data_at(self.lane, start));
            self.data_tail = end;
        }
        let cell = self.cell(self.tail);
        if length <= INLINE_BYTES {
            fill(cell.bytes.as_ptr().cast_mut().cast());
        }
        cell.publish(self.tail + 1, envelope, length);
        self.advance(self.tail, length, turn);
        if length > INLINE_BYTES {
            self.take_data(length);
        }
        true
    }

    /// Message `number` is sent. The lines of those after it, which their reader has from a lap ago, are taken while there is time: in a
    /// burst of several at once, else of the next, which an answer most likely comes before.
    #[inline(always)]
    fn advance(&mut self, number: u64, length: usize, turn: u32) {
        self.tail = number + 1;
        let follows = std::mem::replace(&mut self.turn, turn) == turn;
        if !follows {
            self.take_cell(length);
        } else if (number + 1) % (TAKEN_AT_ONCE / 2) == 0 {
            self.take_cells(length);
        }
    }

    #[inline(always)]
    fn take_cell(&self, length: usize) {
        if self.tail != self.end {
            self.cell(self.tail).take(length);
        }
    }

    #[inline(never)]
    fn take_cells(&mut self, length: usize) {
        let end = self.tail + TAKEN_AT_ONCE;
        if end <= self.fresh + TAKEN_AT_ONCE / 2 {
            return;
        }
        if end > self.end {
            self.has_cell();
        }
        self.fresh = end.min(self.end);
        for number in self.tail..self.fresh {
            self.cell(number).take(length);
        }
    }

    /// The next message, likely as long as this one, takes its lines: the reader has those of a lap ago.
    #[inline(always)]
    fn take_data(&mut self, length: usize) {
        let start = place_data(self.data_tail, length);
        if start + rounded(length) - self.data_taken > DATA_BYTES {
            return;
        }
        let next = data_at(self.lane, start);
        for line in early_lines(length) {
            // SAFETY: room of this sender's in which no message lies; whole lines of a mapping, which integers are all there is in.
            lines::take(unsafe { &*next.wrapping_add(line).cast::<AtomicU64>() });
        }
    }

    #[cold]
    fn has_cell(&mut self) -> bool {
        let taken = self.lanes.ends(self.index).taken.load(Acquire);
        // A number that cannot be is one that a reader wrote who is none: to it nothing is sent.
        if self.tail.wrapping_sub(taken) <= CELLS {
            self.end = taken + CELLS;
        }
        self.tail != self.end
    }

    #[cold]
    fn has_data(&mut self, end: u64) -> bool {
        self.data_taken = self.lanes.ends(self.index).data_taken.load(Acquire);
        end - self.data_taken <= DATA_BYTES
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // Not by a forked child, which has its parent's.
        let owner = &self.lanes.header().claims[self.index].owner;
        let _ = owner.compare_exchange(Identity::own().to_word(), GIVEN_UP, Release, Relaxed);
    }
}

/// How many cells ahead of the one in hand its reader asks for.
const AHEAD: u64 = 3;

/// How many lines a burst takes at once, a power of two.
const TAKEN_AT_ONCE: u64 = 8;

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

#[cfg(test)]
#[path = "lanes_tests.rs"]
mod tests;
