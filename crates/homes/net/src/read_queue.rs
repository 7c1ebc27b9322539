// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of a link whose payload is still in the sender's memory, and those behind them.
//!
//! A long payload does not travel in frames: the receiver reads it from the sender's memory. Meanwhile its packet waits
//! here, with every packet behind it, because packets of a link are handed over in order.
//!
//! ```text
//! announce ──> next_unplaced ──> place ──> next_part ──> read_started ══ libfabric reads ══> read_ended ──> next: handed over, in order
//! hold (a packet behind one that waits) ────────────────────────────────────────────────────────┘
//! ```
//!
//! A payload is read in parts of [`PART_BYTES`], [`READS_AT_ONCE`] at once.
//!
//! Invariants
//! 1. Packets match in order. So the sink places a payload only after it has matched all packets before. A payload that
//!    is read earlier goes to a buffer.
//! 2. Each placed packet is finished, with or without its payload: after the read, when the link ends, or when its NIC
//!    is closed.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::frame::FrameError;
use crate::ids::NicName;
use crate::payload::{ReadBuffer, Readable};
use crate::sink::Placement;

/// Bytes of one read request, and reads of a link at once, so that the network is never idle between parts. With longer
/// parts, or fewer, the sender waits for requests.
const PART_BYTES: usize = 512 << 10;
const READS_AT_ONCE: usize = 4;
/// Limit of the bytes of packets behind such payloads. The sender stays below it ([`crate::outgoing`]).
const HELD_BYTES_MAX: usize = 16 << 20;
/// Limit of the payloads that wait. The sender stays below it.
const ANNOUNCED_MAX: usize = 64;

/// The longest time for which a payload is postponed. A sender often answers a message with the next one in the same
/// frame: then the program must see the completion of its own message before it posts the receive. Packets behind wait
/// meanwhile.
const POSTPONED_MAX: Duration = Duration::from_micros(20);

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

struct Remote {
    at: Readable,
    bytes: usize,
    /// None until the sink was asked.
    target: Option<Target>,
    /// The time of the first [`Placement::NotYet`].
    postponed_since: Option<Instant>,
    /// Bytes requested by reads, and bytes read.
    requested: usize,
    read: usize,
    /// Tag and bytes of each read in flight.
    in_flight: Vec<(u64, usize)>,
    /// The reason for which it is read no further.
    given_up: Option<GiveUp>,
}

/// Reasons for which a payload is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GiveUp {
    /// It cannot be read from the sender's memory.
    Unreadable,
    /// The program has unmapped the place that it was read to.
    PlaceUnmapped,
}

/// The memory that a payload is read into.
enum Target {
    Buffer(ReadBuffer),
    /// Memory that the sink has named.
    Place {
        memory: ReadBuffer,
        number: u64,
        in_order: bool,
    },
    /// No memory: its packet was handed over without it.
    Nowhere,
}

impl Remote {
    fn wanted(&self) -> usize {
        match &self.target {
            _ if self.given_up.is_some() => self.requested,
            Some(Target::Nowhere) => 0,
            Some(Target::Place { memory, .. }) => memory.bytes_max().min(self.bytes),
            _ => self.bytes,
        }
    }

    fn next_range(&self) -> Range<usize> {
        self.requested..self.wanted().min(self.requested + PART_BYTES)
    }

    fn is_read(&self) -> bool {
        (self.target.is_some() || self.given_up.is_some()) && self.read == self.wanted()
    }
}

#[derive(Default)]
pub(crate) struct ReadQueue {
    waiting: VecDeque<Waiting>,
    held_bytes: usize,
    /// Number of payloads announced and not handed over.
    announced: usize,
    in_flight: usize,
    /// Number of payloads read and handed over.
    completed: u64,
    /// The generation of the endpoint that reads ([`ReadQueue::restart`]).
    reader: u64,
    /// Payloads are read one by one, until one is complete: reads have failed, perhaps because of another payload.
    is_one_by_one: bool,
}

pub(crate) struct Unplaced<'a> {
    pub to: NicName,
    pub packet: &'a [u8; PACKET_BYTES],
    /// The sink may answer [`Placement::NotYet`].
    pub may_wait: bool,
}

#[derive(Debug)]
pub(crate) struct ReadPart {
    pub at: Readable,
    pub buffer: ReadBuffer,
    pub part: Range<usize>,
}

pub(crate) struct ReadyPacket {
    pub to: NicName,
    pub packet: Box<[u8; PACKET_BYTES]>,
    pub payload: ReadPayload,
}

pub(crate) enum ReadPayload {
    Here(Vec<u8>),
    /// A buffer, and the number of its bytes, all of them read.
    Read(ReadBuffer, usize),
    Placed(u64),
    /// Its packet was handed over before.
    Nowhere,
    /// It will not come. The number of its place, if it has one.
    GivenUp(Option<u64>, GiveUp),
}

/// A placed packet that will get no payload.
pub(crate) struct AbandonedPacket {
    pub to: NicName,
    pub packet: Box<[u8; PACKET_BYTES]>,
    pub number: u64,
}

impl ReadQueue {
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
            return Err(FrameError::TooManyWaiting);
        }
        let payload = Remote {
            at,
            bytes,
            target: None,
            postponed_since: None,
            requested: 0,
            read: 0,
            in_flight: Vec::new(),
            given_up: None,
        };
        self.waiting.push_back(Waiting { to, packet: Box::new(*packet), payload: Payload::Remote(payload) });
        Ok(())
    }

    /// Keeps a packet that came behind one that waits.
    pub fn hold(&mut self, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8]) -> Result<(), FrameError> {
        self.held_bytes += PACKET_BYTES + payload.len();
        if self.held_bytes > HELD_BYTES_MAX {
            return Err(FrameError::TooManyWaiting);
        }
        let payload = Payload::Here(payload.to_vec());
        self.waiting.push_back(Waiting { to, packet: Box::new(*packet), payload });
        Ok(())
    }

    /// Returns the first payload with parts that no read was started for, and its index in the queue.
    fn unread(&mut self) -> Option<(usize, &mut Remote)> {
        self.waiting.iter_mut().enumerate().find_map(|(at, waiting)| match &mut waiting.payload {
            Payload::Remote(remote) if remote.requested < remote.wanted() => Some((at, remote)),
            _ => None,
        })
    }

    /// Returns the packet that the sink must place now, because its payload is the next to be read. `Err` if there is
    /// no memory for a payload that goes to a buffer.
    pub fn next_unplaced(&mut self) -> Result<Option<Unplaced<'_>>, FrameError> {
        if self.in_flight >= READS_AT_ONCE {
            return Ok(None);
        }
        let Some((at, remote)) = self.unread() else { return Ok(None) };
        if remote.target.is_some() {
            return Ok(None);
        }
        let may_wait = remote.postponed_since.is_none_or(|since| since.elapsed() < POSTPONED_MAX);
        let has_matched = |waiting: &Waiting| match &waiting.payload {
            Payload::Remote(remote) => matches!(remote.target, Some(Target::Place { .. } | Target::Nowhere)),
            Payload::Here(_) => false,
        };
        if !self.waiting.range(..at).all(has_matched) {
            self.place(Placement::Whole)?;
            return Ok(None);
        }
        let Waiting { to, packet, .. } = &self.waiting[at];
        Ok(Some(Unplaced { to: *to, packet, may_wait }))
    }

    /// Sets the target of the next payload to be read.
    pub fn place(&mut self, placement: Placement) -> Result<(), FrameError> {
        let Some((_, remote)) = self.unread() else { return Ok(()) };
        remote.target = Some(match placement {
            Placement::NotYet => {
                remote.postponed_since.get_or_insert_with(Instant::now);
                return Ok(());
            }
            Placement::Whole => {
                let bytes = remote.bytes;
                Target::Buffer(ReadBuffer::new(bytes).ok_or(FrameError::NoMemory { bytes })?)
            }
            Placement::Nothing => Target::Nowhere,
            Placement::At { start, bytes, number, in_order } => {
                Target::Place { memory: ReadBuffer::of_program(start, bytes), number, in_order }
            }
        });
        Ok(())
    }

    /// Returns the part to read next, if a read is to start now.
    pub fn next_part(&mut self) -> Option<ReadPart> {
        if self.in_flight >= READS_AT_ONCE {
            return None;
        }
        let is_one_by_one = self.is_one_by_one && self.in_flight != 0;
        let (at, remote) = self.unread()?;
        if is_one_by_one && remote.in_flight.is_empty() {
            return None;
        }
        let buffer = match &remote.target {
            Some(Target::Place { in_order: true, .. }) if at != 0 => return None,
            Some(Target::Buffer(buffer) | Target::Place { memory: buffer, .. }) => buffer.clone(),
            Some(Target::Nowhere) | None => return None,
        };
        let part = remote.next_range();
        let at = Readable { address: remote.at.address.wrapping_add(part.start as u64), ..remote.at };
        Some(ReadPart { at, buffer, part })
    }

    /// Notes that a read of the part of [`ReadQueue::next_part`] has started.
    pub fn read_started(&mut self, tag: u64) {
        if let Some((_, remote)) = self.unread() {
            let bytes = remote.next_range().len();
            remote.in_flight.push((tag, bytes));
            remote.requested += bytes;
            self.in_flight += 1;
        }
    }

    /// Notes that a read has ended.
    pub fn read_ended(&mut self, tag: u64) {
        for waiting in &mut self.waiting {
            let Payload::Remote(remote) = &mut waiting.payload else { continue };
            if let Some(at) = remote.in_flight.iter().position(|&(found, _)| found == tag) {
                remote.read += remote.in_flight.swap_remove(at).1;
                self.in_flight -= 1;
                return;
            }
        }
    }

    fn remotes(&mut self) -> impl Iterator<Item = &mut Remote> {
        self.waiting.iter_mut().filter_map(|waiting| match &mut waiting.payload {
            Payload::Remote(remote) => Some(remote),
            Payload::Here(_) => None,
        })
    }

    fn in_flight_with(&mut self, tag: u64) -> Option<&mut Remote> {
        self.remotes().find(|remote| remote.in_flight.iter().any(|&(found, _)| found == tag))
    }

    /// Notes that a read has failed. The endpoint that reads is closed then, with all other reads, and they start again
    /// ([`ReadQueue::restart`]). A payload is given up when its reads fail a second time and no other payload's were in
    /// flight, or when its place is not writable any more.
    pub fn read_failed(&mut self, tag: u64) {
        let mut found = false;
        for remote in self.remotes().filter(|remote| !remote.in_flight.is_empty()) {
            if matches!(&remote.target, Some(Target::Place { memory, .. }) if !memory.is_writable()) {
                remote.given_up = Some(GiveUp::PlaceUnmapped);
                found = true;
            }
        }
        let was_one_by_one = std::mem::replace(&mut self.is_one_by_one, true);
        if let Some(remote) = self.in_flight_with(tag).filter(|_| was_one_by_one && !found) {
            remote.given_up = Some(GiveUp::Unreadable);
        }
    }

    /// Notes that the program has unmapped the memory of the part of [`ReadQueue::next_part`].
    pub fn next_place_unmapped(&mut self) {
        if let Some((_, remote)) = self.unread() {
            remote.given_up = Some(GiveUp::PlaceUnmapped);
        }
    }

    /// Notes that the program has unmapped the memory that this read writes to. Its payload is given up when its reads in
    /// flight have ended.
    pub fn place_unmapped(&mut self, tag: u64) {
        if let Some(remote) = self.in_flight_with(tag) {
            remote.given_up = Some(GiveUp::PlaceUnmapped);
        }
    }

    /// Gives up the payload of this number since the link was opened: its sender cannot keep it.
    pub fn unreadable(&mut self, number: u64) -> Result<(), FrameError> {
        let Some(at) = number.checked_sub(self.completed) else { return Ok(()) };
        let remote = self.remotes().nth(at as usize).ok_or(FrameError::Unreadable(number))?;
        remote.given_up.get_or_insert(GiveUp::Unreadable);
        Ok(())
    }

    /// Restarts reads that were in flight at an endpoint of another generation: it was closed, so they will not end.
    pub fn restart(&mut self, reader: u64) {
        if std::mem::replace(&mut self.reader, reader) == reader {
            return;
        }
        self.in_flight = 0;
        for waiting in &mut self.waiting {
            if let Payload::Remote(remote) = &mut waiting.payload {
                if !remote.in_flight.is_empty() {
                    remote.in_flight.clear();
                    (remote.requested, remote.read) = (0, 0);
                }
            }
        }
    }

    /// Whether a payload is placed at a NIC with such a name.
    pub fn has_placed(&self, is_target: impl Fn(NicName) -> bool) -> bool {
        let is_placed = |waiting: &Waiting| {
            matches!(&waiting.payload, Payload::Remote(Remote { target: Some(Target::Place { .. }), .. }))
        };
        self.waiting.iter().any(|waiting| is_placed(waiting) && is_target(waiting.to))
    }

    /// Gives up the packets placed at NICs with such names. No read into their memory may be in flight.
    pub fn abandon(&mut self, is_target: impl Fn(NicName) -> bool) -> Vec<AbandonedPacket> {
        let mut abandoned = Vec::new();
        for Waiting { to, packet, payload } in self.waiting.iter_mut().filter(|waiting| is_target(waiting.to)) {
            let Payload::Remote(remote) = payload else { continue };
            if let Some(Target::Place { number, .. }) = remote.target {
                remote.target = Some(Target::Nowhere);
                (remote.requested, remote.read) = (0, 0);
                self.in_flight -= std::mem::take(&mut remote.in_flight).len();
                abandoned.push(AbandonedPacket { to: *to, packet: packet.clone(), number });
            }
        }
        abandoned
    }

    /// Returns the next packet, if its payload is here.
    pub fn next(&mut self) -> Option<ReadyPacket> {
        let is_here = |waiting: &&Waiting| match &waiting.payload {
            Payload::Here(_) => true,
            Payload::Remote(remote) => remote.is_read(),
        };
        self.waiting.front().filter(is_here)?;
        let Waiting { to, packet, payload } = self.waiting.pop_front()?;
        let payload = match payload {
            Payload::Here(payload) => {
                self.held_bytes -= PACKET_BYTES + payload.len();
                ReadPayload::Here(payload)
            }
            Payload::Remote(remote) => {
                self.announced -= 1;
                self.completed += 1;
                self.is_one_by_one &= remote.given_up.is_some();
                match (remote.target, remote.given_up) {
                    (Some(Target::Nowhere), _) => ReadPayload::Nowhere,
                    (Some(Target::Place { number, .. }), Some(why)) => ReadPayload::GivenUp(Some(number), why),
                    (_, Some(why)) => ReadPayload::GivenUp(None, why),
                    (Some(Target::Buffer(buffer)), None) => ReadPayload::Read(buffer, remote.bytes),
                    (Some(Target::Place { number, .. }), None) => ReadPayload::Placed(number),
                    (None, None) => ReadPayload::Nowhere,
                }
            }
        };
        Some(ReadyPacket { to, packet, payload })
    }

    /// Returns the number of payloads read and handed over since the link was opened.
    pub fn completed(&self) -> u64 {
        self.completed
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

    /// Returns the packets whose turn has come, and the length of their payload: 0 if it was placed, or has no target.
    fn handed_over(reads: &mut ReadQueue) -> Vec<(u8, usize)> {
        let bytes = |payload: &ReadPayload| match payload {
            ReadPayload::Here(bytes) => bytes.len(),
            ReadPayload::Read(_, bytes) => *bytes,
            ReadPayload::Placed(_) | ReadPayload::Nowhere | ReadPayload::GivenUp(..) => 0,
        };
        std::iter::from_fn(|| reads.next()).map(|ready| (ready.packet[0], bytes(&ready.payload))).collect()
    }

    /// Starts the next read, like an endpoint that writes zeros. Returns its payload, offset and length.
    fn start(reads: &mut ReadQueue, tag: u64) -> Option<(u64, u64, usize)> {
        if reads.next_unplaced().expect("there is memory").is_some() {
            reads.place(Placement::Whole).expect("there is memory");
        }
        let ReadPart { at, buffer, part } = reads.next_part()?;
        // SAFETY: the part is within the buffer.
        unsafe { buffer.part(&part).write_bytes(0, part.len()) };
        reads.read_started(tag);
        Some((at.key, at.address, part.len()))
    }

    #[test]
    fn packets_keep_their_order_whichever_payload_is_read_first() {
        let mut reads = ReadQueue::default();
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
        reads.read_ended(3);
        assert!(handed_over(&mut reads).is_empty(), "the first is not read");
        assert_eq!(start(&mut reads, 6), Some((6, 8, 100)));
        reads.read_ended(99);
        reads.read_ended(1);
        assert_eq!(handed_over(&mut reads), [(1, 100), (2, 5), (3, 100)]);
        assert_eq!(reads.completed(), 2);
        for number in [6, 5, 4] {
            reads.read_ended(number);
        }
        assert_eq!(handed_over(&mut reads), [(4, 100), (5, 100), (6, 100)]);
        assert!(reads.is_empty());
        assert_eq!((reads.held_bytes, reads.announced, reads.in_flight, reads.completed()), (0, 0, 0, 5));
    }

    #[test]
    fn a_long_payload_is_read_in_parts() {
        let mut reads = ReadQueue::default();
        let bytes = 3 * PART_BYTES + 10;
        reads.announce(NIC, &packet(1), readable(1), bytes).expect("few");
        reads.announce(NIC, &packet(2), readable(2), 5).expect("few");
        for part in 0..3 {
            assert_eq!(start(&mut reads, part), Some((1, 8 + part * PART_BYTES as u64, PART_BYTES)));
        }
        assert_eq!(start(&mut reads, 3), Some((1, 8 + 3 * PART_BYTES as u64, 10)));
        reads.read_ended(2);
        assert_eq!(start(&mut reads, 4), Some((2, 8, 5)));
        for tag in [4, 3, 1] {
            reads.read_ended(tag);
        }
        assert!(handed_over(&mut reads).is_empty(), "the first part is not read");
        reads.read_ended(0);
        assert_eq!(handed_over(&mut reads), [(1, bytes), (2, 5)]);
    }

    #[test]
    fn a_sender_cannot_let_anything_wait_without_end() {
        let mut reads = ReadQueue::default();
        for _ in 0..ANNOUNCED_MAX {
            reads.announce(NIC, &packet(0), readable(0), 1 << 30).expect("no memory is used for it");
        }
        assert_eq!(reads.announce(NIC, &packet(0), readable(0), 1), Err(FrameError::TooManyWaiting));
        let held = vec![0; HELD_BYTES_MAX / 2];
        reads.hold(NIC, &packet(0), &held).expect("half");
        assert_eq!(reads.hold(NIC, &packet(0), &held), Err(FrameError::TooManyWaiting));
    }

    /// Places the next payload, like a sink with this memory for it. Returns None if the sink is not asked.
    fn place(reads: &mut ReadQueue, number: u64, memory: &mut [u8], in_order: bool) -> Option<u8> {
        let packet = reads.next_unplaced().expect("there is memory")?.packet[0];
        let (start, bytes) = (memory.as_mut_ptr(), memory.len());
        reads.place(Placement::At { start, bytes, number, in_order }).expect("no memory is used");
        Some(packet)
    }

    #[test]
    fn memory_that_is_looked_at_is_written_in_order() {
        let (mut reads, mut memory) = (ReadQueue::default(), [0; 100]);
        for number in [1, 2, 3] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        assert_eq!(place(&mut reads, 1, &mut memory, true), Some(1));
        assert_eq!(start(&mut reads, 1), Some((1, 8, 100)));
        assert_eq!(place(&mut reads, 2, &mut memory, true), Some(2));
        assert_eq!(start(&mut reads, 2), None, "the first is still being read");
        reads.read_ended(1);
        assert_eq!(handed_over(&mut reads), [(1, 0)]);
        assert_eq!(start(&mut reads, 2), Some((2, 8, 100)));
        assert_eq!(place(&mut reads, 3, &mut memory, false), Some(3));
        assert_eq!(start(&mut reads, 3), Some((3, 8, 100)), "its memory is not written in order");
    }

    #[test]
    fn the_sink_is_asked_for_a_place_when_it_has_matched_what_came_before() {
        let (mut reads, mut memory) = (ReadQueue::default(), [0; 100]);
        for number in [1, 2, 4, 5] {
            if number == 4 {
                reads.hold(NIC, &packet(3), b"short").expect("little");
            }
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        assert_eq!(place(&mut reads, 1, &mut memory, false), Some(1));
        assert_eq!(start(&mut reads, 1), Some((1, 8, 100)));
        assert_eq!(place(&mut reads, 2, &mut memory[..40], false), Some(2), "the one before has matched");
        assert_eq!(start(&mut reads, 2), Some((2, 8, 40)), "no more than the sink has room for");
        assert_eq!(place(&mut reads, 4, &mut memory, false), None, "a packet before has yet to match");
        assert_eq!(start(&mut reads, 4), Some((4, 8, 100)), "so it goes to a buffer");
        for tag in [1, 2, 4] {
            reads.read_ended(tag);
        }
        assert_eq!(handed_over(&mut reads), [(1, 0), (2, 0), (3, 5), (4, 100)]);
        assert_eq!(place(&mut reads, 5, &mut memory, false), Some(5), "all before were handed over");
    }

    #[test]
    fn a_place_that_is_not_known_yet_is_asked_for_again_and_then_no_more() {
        let mut reads = ReadQueue::default();
        for number in [1, 2] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        let Unplaced { packet, may_wait, .. } = reads.next_unplaced().expect("there is memory").expect("the first");
        assert_eq!((packet[0], may_wait), (1, true));
        reads.place(Placement::NotYet).expect("no memory is used");
        assert!(reads.next_part().is_none() && reads.next().is_none());
        std::thread::sleep(POSTPONED_MAX);
        let Unplaced { packet, may_wait, .. } = reads.next_unplaced().expect("there is memory").expect("the first");
        assert_eq!((packet[0], may_wait), (1, false));
        reads.place(Placement::Nothing).expect("no memory is used");
        let Unplaced { packet, may_wait, .. } = reads.next_unplaced().expect("there is memory").expect("the second");
        assert_eq!((packet[0], may_wait), (2, true), "each has its own time");
    }

    #[test]
    fn a_payload_that_nobody_wants_is_not_read_and_its_sender_hears_of_it_in_its_turn() {
        let (mut reads, mut memory) = (ReadQueue::default(), [0; 100]);
        for number in [1, 2, 3] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        assert_eq!(place(&mut reads, 1, &mut memory, false), Some(1));
        assert_eq!(start(&mut reads, 1), Some((1, 8, 100)));
        assert_eq!(reads.next_unplaced().expect("there is memory").map(|it| it.packet[0]), Some(2));
        reads.place(Placement::Nothing).expect("no memory is used");
        assert_eq!(place(&mut reads, 3, &mut memory, false), Some(3));
        assert_eq!((handed_over(&mut reads).len(), reads.completed()), (0, 0));
        reads.read_ended(1);
        assert_eq!((handed_over(&mut reads), reads.completed()), (vec![(1, 0), (2, 0)], 2));
    }

    /// Returns the packets whose turn has come and whose payload was given up, with their places.
    fn given_up(reads: &mut ReadQueue) -> Vec<(u8, Option<u64>, GiveUp)> {
        let why = |ready: ReadyPacket| match ready.payload {
            ReadPayload::GivenUp(place, why) => (ready.packet[0], place, why),
            _ => panic!("packet {} has its payload", ready.packet[0]),
        };
        std::iter::from_fn(|| reads.next()).map(why).collect()
    }

    #[test]
    fn a_payload_that_its_sender_cannot_keep_is_given_up_in_its_turn() {
        let (mut reads, mut memory) = (ReadQueue::default(), [0; 100]);
        for number in [1, 2, 3] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        assert_eq!(place(&mut reads, 1, &mut memory, false), Some(1));
        assert_eq!(start(&mut reads, 1), Some((1, 8, 100)));
        for number in [0, 1] {
            assert_eq!(reads.unreadable(number), Ok(()));
        }
        assert_eq!(reads.unreadable(3), Err(FrameError::Unreadable(3)), "none has this number");
        assert!(given_up(&mut reads).is_empty(), "libfabric still writes to the first one's place");
        assert_eq!(place(&mut reads, 3, &mut memory, false), None, "the second has not matched");
        assert_eq!(start(&mut reads, 3), Some((3, 8, 100)), "the second is not read");
        reads.read_ended(1);
        assert_eq!(given_up(&mut reads), [(1, Some(1), GiveUp::Unreadable), (2, None, GiveUp::Unreadable)]);
        assert_eq!(reads.unreadable(0), Ok(()), "it has ended");
        reads.read_ended(3);
        assert_eq!((handed_over(&mut reads), reads.completed()), (vec![(3, 100)], 3));
    }

    #[test]
    fn after_a_failure_payloads_are_read_one_by_one_and_only_the_one_that_fails_again_is_given_up() {
        let mut reads = ReadQueue::default();
        for number in [1, 2, 3] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        let next = |reads: &mut ReadQueue, tag| {
            reads.next_unplaced().expect("there is memory");
            reads.place(Placement::Whole).expect("there is memory");
            start(reads, tag).map(|(key, ..)| key)
        };
        assert_eq!((next(&mut reads, 1), next(&mut reads, 2)), (Some(1), Some(2)));
        reads.read_failed(2);
        reads.restart(1);
        assert_eq!((next(&mut reads, 3), next(&mut reads, 4)), (Some(1), None), "alone");
        reads.read_ended(3);
        assert_eq!(handed_over(&mut reads), [(1, 100)]);
        assert_eq!((next(&mut reads, 4), next(&mut reads, 5)), (Some(2), Some(3)), "they are not suspected");
        for tag in [4, 6] {
            reads.read_failed(tag);
            reads.restart(tag);
            assert_eq!(given_up(&mut reads), if tag == 6 { vec![(2, None, GiveUp::Unreadable)] } else { vec![] });
            assert_eq!(next(&mut reads, tag + 2), Some(if tag == 6 { 3 } else { 2 }));
        }
        reads.read_ended(8);
        assert_eq!(handed_over(&mut reads), [(3, 100)]);
        assert!(reads.is_empty() && reads.in_flight == 0);
    }

    #[test]
    fn reads_begin_again_at_another_endpoint_and_what_is_given_up_is_named_once() {
        let (mut reads, mut memory) = (ReadQueue::default(), [0; 100]);
        let other = NicName { pid: 9, ..NIC };
        for (number, nic) in [(1, NIC), (2, other)] {
            reads.announce(nic, &packet(number), readable(number.into()), 100).expect("few");
            assert_eq!(place(&mut reads, number.into(), &mut memory, false), Some(number));
            assert_eq!(start(&mut reads, number.into()), Some((number.into(), 8, 100)));
        }
        reads.restart(1);
        let given_up = |reads: &mut ReadQueue| {
            reads.abandon(|nic| nic == NIC).iter().map(|abandoned| abandoned.number).collect::<Vec<_>>()
        };
        assert!(reads.has_placed(|nic| nic == NIC));
        assert_eq!((given_up(&mut reads), given_up(&mut reads)), (vec![1], vec![]));
        assert!(!reads.has_placed(|nic| nic == NIC));
        reads.read_ended(1);
        assert_eq!(handed_over(&mut reads), [(1, 0)], "its sender need not keep it");
        reads.read_ended(2);
        assert!(handed_over(&mut reads).is_empty(), "the first read of it was stopped");
        assert_eq!(start(&mut reads, 3), Some((2, 8, 100)));
        reads.read_ended(3);
        assert_eq!(handed_over(&mut reads), [(2, 0)]);
        assert!(reads.is_empty() && reads.in_flight == 0);
    }
}
