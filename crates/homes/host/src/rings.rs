// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Rings: senders enqueue here for a NIC whose owner dequeues.
//!
//! Each NIC has a file `<pid>.<ni>.rings` beside its segment. The file has two kinds of rings. 64 rings are for small
//! messages to an owner that polls; a sender claims the next free one. The others are for packets ([`crate::packets`]),
//! one for each Portals process id. A sender claims one ring, and is the only process that enqueues there.
//! [`selvedge_nic::ring`] describes a ring and every rule for its cursors. This file has the mapping, the claims, and
//! the copying of payload.
//!
//! A ring for messages is claimed for the NIC (libfabric), or for one port of it (VELO, [`port`]). A message for the
//! NIC has not been matched. The holder of the NIC's lock dequeues it. Normally this is the owner. A sender whose next
//! message must bypass the ring dequeues its own messages first ([`crate::direct`]). A message for a port has its
//! destination already. The port's reader dequeues it, without a lock.
//!
//! Invariants
//! 1. One thread at a time dequeues from a ring: a holder of the NIC's lock, or the reader of the port for which the
//!    ring was claimed. Only the process that claimed a ring enqueues there.
//! 2. A ring belongs to the process in its claim until the owner clears it. The owner does so when the ring is empty
//!    and that process is dead, or has given the ring up. A ring for packets passes to the next process of its id with
//!    the packets in it.
//! 3. When an owner closes its rings, it marks them as closed, and no sender enqueues there. The same process may then
//!    make other rings under the same name. The same holds for the rings of a port.
//! 4. A reference to a ring is made only if the file holds the ring. Peers could store any bit into `claimed`, so the
//!    owner checks the file's length when it sees a new bit.
//!
//! | file | subject |
//! |---|---|
//! | here | a NIC's rings: the file, and the claims |
//! | [`port`] | rings for one port, and their reader |
//! | [`sender`] | enqueuing |
//! | [`reader`] | dequeuing |
//!
//! Cost: 12 KiB, and 160 KiB for each ring that was ever claimed. A poll of an empty ring is one load from each of two
//! lines.

pub mod port;
mod reader;
mod sender;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

use selvedge_nic::ring;

use crate::config::PID_LIMIT;
use crate::segment::present_bytes;
use selvedge_os::lines;
use selvedge_os::mapping::{MapError, Mapping};
use selvedge_os::process::Identity;
use selvedge_os::shortage::{Need, Shortage};

pub use reader::{Reader, RingMessage};
pub use ring::{Envelope, Fault, INLINE_BYTES, PolledHeader};
pub use sender::Sender;

/// Number of senders that may have a ring to one NIC. The messages of others bypass the rings.
pub const RINGS: usize = 64;
/// The longest message that goes through a ring.
pub const MESSAGE_BYTES_MAX: usize = Ring::MESSAGE_BYTES_MAX;

/// A ring of 256 messages or packets and 128 KiB of payload.
pub(crate) type Ring = ring::Ring<256, { (128 << 10) / 8 }>;

const MAGIC: u64 = u64::from_le_bytes(*b"SELVRING");
const HEADER_BYTES: u64 = 3 * 4096;
const RING_BYTES: u64 = size_of::<Ring>() as u64;
const PACKETS_AT: u64 = HEADER_BYTES + RINGS as u64 * RING_BYTES;
const RESERVED_BYTES: u64 = PACKETS_AT + PID_LIMIT as u64 * RING_BYTES;
/// Words with a bit for each ring for packets.
pub(crate) const PACKET_WORDS: usize = PID_LIMIT.div_ceil(64);

/// The process that sends through a ring, and the ring's purpose.
#[repr(C, align(16))]
struct Claim {
    /// The home's word for a process; 0 if free, [`GIVEN_UP`] for a process that has closed its end.
    owner: AtomicU64,
    /// The sender's id for itself: nid << 32 | pid.
    id: AtomicU64,
    /// The port of the ring ([`port::Port::word`]), or 0 for the NIC.
    port: AtomicU64,
}

#[repr(C, align(128))]
struct Header {
    magic: u64,
    version: u32,
    rings: u32,
    owner: u64,
    /// Access of senders to the NIC: one of [`routing`].
    routing: AtomicU32,
    packet_rings: u32,
    /// Bit i: ring i is claimed, and the file has its memory.
    claimed: AtomicU64,
    claims: [Claim; RINGS],
    /// The same bits for the rings for packets. A ring has the number of its sender's process id.
    packets_claimed: [AtomicU64; PACKET_WORDS],
    packet_owners: [AtomicU64; PID_LIMIT],
    /// Access of senders to each port: as `routing`, plus the port's generation times [`routing::GENERATION`].
    ports: [AtomicU32; port::PORTS],
}

/// Access of senders to a NIC, or to a port of it.
mod routing {
    /// Through the rings.
    pub const OPEN: u32 = 0;
    /// Directly, because a thread waits for messages to be matched at once.
    pub const BYPASS: u32 = 1;
    /// Not at all: these rings are closed.
    pub const CLOSED: u32 = 2;
    /// A word of a later generation means other rings. The rings of the NIC have only generation 0.
    pub const GENERATION: u32 = 4;
}

/// The owner value of a ring that waits to be cleared.
const GIVEN_UP: u64 = u64::MAX;

const _: () = assert!(size_of::<Header>() as u64 <= HEADER_BYTES && RINGS.is_power_of_two());

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClaimError {
    /// Another process has the id, or had it a moment ago.
    Taken,
    /// The owner has removed its rings, or the ring contains malformed data.
    Gone,
    /// There is no descriptor or space for it.
    Shortage(Shortage),
}

pub(crate) enum Lines {}

impl ring::Hints for Lines {
    #[inline(always)]
    fn prefetch_read(word: &AtomicU64) {
        lines::about_to_read(std::ptr::from_ref(word).cast());
    }

    #[inline(always)]
    fn prefetch_read_bytes(word: &AtomicU64, bytes: usize) {
        let first = std::ptr::from_ref(word).cast::<u8>();
        for line in (0..bytes).step_by(64) {
            lines::about_to_read(first.wrapping_add(line));
        }
    }

    #[inline(always)]
    fn take_ownership(word: &AtomicU64) {
        lines::take(word);
    }

    #[inline(always)]
    fn opaque(value: u64) -> u64 {
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        {
            let mut value = value;
            // SAFETY: the assembly is empty.
            unsafe { core::arch::asm!("/* {0} */", inout(reg) value, options(pure, nomem, nostack, preserves_flags)) };
            value
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        value
    }
}

/// The rings to one NIC, mapped.
#[derive(Debug)]
pub struct Rings {
    mapping: Mapping,
    path: PathBuf,
    /// Whether this process owns the rings, and they are open.
    own: AtomicBool,
    /// Bit i: the file is known to hold ring i.
    held: AtomicU64,
    /// The largest length of the file seen so far.
    file_bytes: AtomicU64,
}

impl Rings {
    fn of(mapping: Mapping, path: PathBuf, own: bool) -> Rings {
        let own = AtomicBool::new(own);
        Rings { mapping, path, own, held: AtomicU64::new(0), file_bytes: AtomicU64::new(0) }
    }

    /// Returns the path of a NIC's rings.
    pub fn path(directory: &Path, id: u64, ni: u32) -> PathBuf {
        directory.join(format!("{}.{ni}.rings", id as u32))
    }

    /// Makes the file, for the NIC's owner.
    pub fn create(directory: &Path, id: u64, ni: u32) -> Result<Rings, MapError> {
        let path = Rings::path(directory, id, ni);
        let making = path.with_extension(format!("making.{}", std::process::id()));
        for stale in [&making, &path] {
            let _ = std::fs::remove_file(stale);
        }
        let mapping = Mapping::create(&making, HEADER_BYTES, RESERVED_BYTES)?;
        let rings = Rings::of(mapping, path, true);
        let header = Header {
            magic: MAGIC,
            version: ring::VERSION,
            rings: RINGS as u32,
            owner: Identity::own().to_word(),
            routing: AtomicU32::new(routing::OPEN),
            packet_rings: PID_LIMIT as u32,
            claimed: AtomicU64::new(0),
            claims: [const { Claim { owner: AtomicU64::new(0), id: AtomicU64::new(0), port: AtomicU64::new(0) } };
                RINGS],
            packets_claimed: [const { AtomicU64::new(0) }; PACKET_WORDS],
            packet_owners: [const { AtomicU64::new(0) }; PID_LIMIT],
            ports: [const { AtomicU32::new(routing::CLOSED) }; port::PORTS],
        };
        // SAFETY: the mapping is page-aligned, larger than the header, and no other process has it before the rename.
        unsafe { rings.mapping.base().cast::<Header>().write(header) };
        rustix::fs::rename(&making, &rings.path).map_err(|errno| MapError::of(errno, Need::File(&rings.path)))?;
        Ok(rings)
    }

    /// Maps a peer's rings. None if there is no file, or it has another version, or belongs to another process than
    /// `owner`.
    pub fn open(directory: &Path, id: u64, ni: u32, owner: u64) -> Result<Option<Rings>, Shortage> {
        let path = Rings::path(directory, id, ni);
        let mapping = match Mapping::open(&path, HEADER_BYTES, RESERVED_BYTES) {
            Ok(mapping) => mapping,
            Err(MapError::Shortage(shortage)) => return Err(shortage),
            Err(_) => return Ok(None),
        };
        let rings = Rings::of(mapping, path, false);
        let header = rings.header();
        let fits = header.magic == MAGIC && header.version == ring::VERSION && header.owner == owner;
        Ok(fits.then_some(rings))
    }

    fn header(&self) -> &Header {
        // SAFETY: the file holds at least the header. Its fields are integers, and those that change are atomic.
        unsafe { &*self.mapping.base().cast::<Header>() }
    }

    /// Returns the address of a ring, within the reserve.
    #[inline(always)]
    fn base(&self, index: usize) -> *mut u8 {
        let offset = HEADER_BYTES as usize + index * RING_BYTES as usize;
        self.mapping.base().wrapping_add(offset)
    }

    #[inline(always)]
    fn ring(&self, index: usize) -> &Ring {
        debug_assert!(index < RINGS);
        // SAFETY: the ring is within the reserve, aligned, and claimed, so the file holds it. It consists of atomics,
        // and any bits are valid.
        unsafe { &*self.base(index).cast::<Ring>() }
    }

    // ---- the owner, and any holder of its NIC's lock ----

    /// Makes senders bypass the rings, or use them again.
    pub fn set_bypass(&self, bypass: bool) {
        self.header().routing.store(if bypass { routing::BYPASS } else { routing::OPEN }, SeqCst);
    }

    /// Returns the claimed rings, a bit for each. The file holds them, whatever a peer has stored.
    #[inline(always)]
    pub fn claimed(&self) -> u64 {
        let claimed = self.header().claimed.load(Acquire);
        let held = self.held.load(Relaxed);
        if claimed & !held != 0 { self.claimed_of_file(claimed) } else { claimed }
    }

    #[cold]
    fn claimed_of_file(&self, claimed: u64) -> u64 {
        let bytes = present_bytes(&self.mapping);
        let rings = bytes.saturating_sub(HEADER_BYTES) / RING_BYTES;
        let held = if rings >= RINGS as u64 { u64::MAX } else { (1 << rings) - 1 };
        self.held.store(held, Relaxed);
        claimed & held
    }

    /// Returns the sender of a ring, as the sender has stored it: nid << 32 | pid.
    #[inline(always)]
    pub fn sender(&self, index: usize) -> u64 {
        self.header().claims[index].id.load(Relaxed)
    }

    /// Makes a message of a sender visible, if its process `id` has claimed this ring. False if it has not.
    pub fn show(&self, index: usize, id: u64, message: ring::Unseen) -> bool {
        let is_its = index < RINGS && self.claimed() & 1 << index != 0 && self.sender(index) == id;
        if is_its {
            self.ring(index).show(message);
        }
        is_its
    }

    /// Whether a claimed ring has a message. The answer is final only for the holder of the NIC's lock.
    #[inline(always)]
    pub fn has_message(&self, index: usize) -> bool {
        self.poll(index).is_some()
    }

    /// Returns the header of a claimed ring's next message, if there is one. It is final only for the holder of the
    /// NIC's lock.
    #[inline(always)]
    pub fn poll(&self, index: usize) -> Option<PolledHeader> {
        self.ring(index).poll()
    }

    /// Prefetches the payload of a long message that was polled. The transfer overlaps with taking the lock and finding
    /// the receive.
    #[inline(always)]
    pub fn prefetch(&self, index: usize, polled: PolledHeader) {
        self.ring(index).prefetch::<Lines>(polled);
    }

    /// Returns a reader of a claimed ring of the NIC. Use it only while the NIC's lock is held.
    #[inline(always)]
    pub fn reader(&self, index: usize) -> Reader<'_> {
        Reader::new(self.ring(index))
    }

    /// As `reader`, for a message that was polled. None: the message has been dequeued since then.
    #[inline(always)]
    pub fn reader_from(&self, index: usize, polled: PolledHeader) -> Option<Reader<'_>> {
        let reader = self.reader(index);
        (reader.next_number() == polled.number()).then_some(reader)
    }

    /// Clears rings whose senders have ended or given them up: those of the NIC, if they are empty. The owner calls it
    /// under the NIC's lock.
    pub fn clear_dead(&self) {
        self.clear_where(|index, port| port == 0 && !self.has_message(index));
    }

    /// Clears the rings whose senders have ended or given them up, if `is_done` returns true for the ring and its
    /// purpose.
    fn clear_where(&self, is_done: impl Fn(usize, u64) -> bool) {
        let header = self.header();
        let mut left = self.claimed();
        while left != 0 {
            let index = left.trailing_zeros() as usize;
            left &= left - 1;
            let claim = &header.claims[index];
            let owner = claim.owner.load(Acquire);
            let has_ended = owner == GIVEN_UP || !Identity::word_is_alive(owner);
            if has_ended && is_done(index, claim.port.load(Relaxed)) {
                header.claimed.fetch_and(!(1 << index), SeqCst);
                claim.owner.store(0, Release);
            }
        }
    }

    /// Stops reading from a ring with malformed data.
    pub fn close(&self, index: usize) {
        self.header().claimed.fetch_and(!(1 << index), SeqCst);
    }

    /// Closes the rings and removes the file, for the owner.
    pub fn shut(&self) {
        if self.own.swap(false, SeqCst) {
            self.header().routing.store(routing::CLOSED, SeqCst);
            for port in &self.header().ports {
                port.store(routing::CLOSED, SeqCst);
            }
            let _ = std::fs::remove_file(&self.path);
        }
    }

    // ---- rings for packets ----

    /// Whether any process has a ring for packets here.
    pub(crate) fn get_packets(&self) -> bool {
        (0..PACKET_WORDS).any(|word| self.packets_claimed(word) != 0)
    }

    /// Returns the claimed rings for packets: 64 of them, a bit for each.
    pub(crate) fn packets_claimed(&self, word: usize) -> u64 {
        self.header().packets_claimed[word].load(Acquire)
    }

    /// Returns the ring for packets of a process id, if it is claimed. The file holds it, whatever a peer has stored.
    pub(crate) fn packet_ring(&self, pid: usize) -> Option<&Ring> {
        if pid >= PID_LIMIT || self.packets_claimed(pid / 64) & 1 << (pid % 64) == 0 {
            return None;
        }
        let start = PACKETS_AT + pid as u64 * RING_BYTES;
        let end = start + RING_BYTES;
        if self.file_bytes.load(Relaxed) < end {
            self.file_bytes.fetch_max(present_bytes(&self.mapping), Relaxed);
        }
        let held = self.file_bytes.load(Relaxed) >= end;
        // SAFETY: the ring is within the reserve and the file, and aligned. It consists of atomics, and any bits are valid.
        held.then(|| unsafe { &*self.mapping.base().wrapping_add(start as usize).cast::<Ring>() })
    }

    /// Claims the ring for packets of the process id `pid`, for the process of this word. Packets of an earlier process
    /// with this id stay in it.
    pub(crate) fn claim_packets(&self, pid: usize, word: u64) -> Result<ring::Producer, ClaimError> {
        let header = self.header();
        let owner = header.packet_owners.get(pid).ok_or(ClaimError::Gone)?;
        let before = owner.load(Acquire);
        // A process that has since executed another program has the same word.
        let is_free = before == 0 || before == GIVEN_UP || before == word || !Identity::word_is_alive(before);
        if !is_free || owner.compare_exchange(before, word, SeqCst, Relaxed).is_err() {
            return Err(ClaimError::Taken);
        }
        let memory = self.mapping.allocate(PACKETS_AT + pid as u64 * RING_BYTES, RING_BYTES);
        header.packets_claimed[pid / 64].fetch_or(u64::from(memory.is_ok()) << (pid % 64), SeqCst);
        let producer = self.packet_ring(pid).filter(|_| memory.is_ok()).and_then(Ring::resume);
        if producer.is_none() {
            owner.store(GIVEN_UP, SeqCst);
        }
        match memory {
            Err(MapError::Shortage(shortage)) => Err(ClaimError::Shortage(shortage)),
            _ => producer.ok_or(ClaimError::Gone),
        }
    }

    /// Gives up the ring for packets that the process of this word claimed.
    pub(crate) fn give_up_packets(&self, pid: usize, word: u64) {
        if let Some(owner) = self.header().packet_owners.get(pid) {
            let _ = owner.compare_exchange(word, GIVEN_UP, Release, Relaxed);
        }
    }

    /// Stops reading from a ring for packets with malformed data.
    pub(crate) fn close_packets(&self, pid: usize) {
        self.header().packets_claimed[pid / 64].fetch_and(!(1 << (pid % 64)), SeqCst);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.header().routing.load(Relaxed) == routing::CLOSED
    }

    /// Returns the number of packets in the rings of a file, for tools. None if there is no such file.
    pub fn packets_waiting(path: &Path) -> Option<u64> {
        let mapping = Mapping::open(path, HEADER_BYTES, RESERVED_BYTES).ok()?;
        let rings = Rings::of(mapping, path.into(), false);
        if rings.header().magic != MAGIC || rings.header().version != ring::VERSION {
            return None;
        }
        Some((0..PID_LIMIT).filter_map(|pid| rings.packet_ring(pid)).map(Ring::waiting).sum())
    }

    // ---- a sender ----

    /// Claims a ring for the process of this word and id. None if all rings are claimed, or there is no memory for
    /// another one.
    pub fn claim(self, word: u64, id: u64) -> Option<Sender> {
        let index = self.claim_index(word, id, 0)?;
        Some(Sender::new(self, index, |header| &header.routing, routing::OPEN))
    }

    /// Claims a ring for messages to the NIC or to a port.
    fn claim_index(&self, word: u64, id: u64, port: u64) -> Option<usize> {
        let free = |claim: &Claim| {
            claim.owner.load(Relaxed) == 0 && claim.owner.compare_exchange(0, word, SeqCst, Relaxed).is_ok()
        };
        let header = self.header();
        let index = header.claims.iter().position(free)?;
        if self.mapping.allocate(HEADER_BYTES + index as u64 * RING_BYTES, RING_BYTES).is_err() {
            header.claims[index].owner.store(0, SeqCst);
            return None;
        }
        header.claims[index].id.store(id, SeqCst);
        header.claims[index].port.store(port, SeqCst);
        header.claimed.fetch_or(1 << index, SeqCst);
        Some(index)
    }
}

impl Drop for Rings {
    fn drop(&mut self) {
        self.shut();
    }
}
