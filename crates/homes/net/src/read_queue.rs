// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets of a link whose payload is still in the sender's memory, and those behind them.
//!
//! A long payload does not travel in frames: the receiver reads it from the sender's memory. Its packet waits here meanwhile, and so does every
//! packet behind it, because packets of a link are handed over in order.
//!
//! ```text
//! announce ──> next_to_place ──> place ──> next_part ──> started ══ libfabric reads ══> has_read ──> next: handed over, in order
//! hold (a packet behind one that waits) ────────────────────────────────────────────────────────┘
//! ```
//!
//! A payload is read in parts of [`PART_BYTES`], [`READS_AT_ONCE`] at once.
//!
//! Invariants
//! 1. Packets match in order. So the sink is asked for the place of a payload only when it has matched all packets before. A payload whose turn to
//!    be read comes earlier than that goes to a buffer.
//! 2. What was placed is finished, with or without its payload: when it was read, when the link ends, when its NIC is closed.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::endpoint::Readable;
use crate::frame::{FrameError, NicName};
use crate::payload::ReadBuffer;

/// Bytes that are read by one request, and reads of a link at once: so the network is never idle between a part and the next. With longer parts,
/// or fewer, the sender waits for requests.
const PART_BYTES: usize = 512 << 10;
const READS_AT_ONCE: usize = 4;
/// Bytes of packets that may wait behind such payloads. The sender keeps below ([`crate::outgoing`]).
const HELD_BYTES_MAX: usize = 16 << 20;
/// Payloads that may wait. The sender keeps below.
const ANNOUNCED_MAX: usize = 64;

/// How long a payload is put off. A sender often answers a message with the next one in the same frame: then the program must hear that its own
/// message was taken before it posts the receive. Packets behind wait meanwhile.
const PUT_OFF_MAX: Duration = Duration::from_micros(20);

/// What the sink wants with a payload that is still in the sender's memory.
#[derive(Clone, Copy, Debug)]
pub enum Placement {
    /// The packet with all of it.
    Whole,
    /// None of it: the sink has taken the packet without it.
    Nothing,
    /// That is not known yet: the program may say so before the next step.
    NotYet,
    /// So many of its first bytes at this address, and then the number.
    ///
    /// The memory may be written to until the packet is finished. `in_order`: and not before all earlier packets of the link are.
    At { start: *mut u8, bytes: usize, number: u64, in_order: bool },
}

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
    /// None: it is not known where it goes.
    goal: Option<Goal>,
    /// When the sink did not know for the first time.
    put_off: Option<Instant>,
    /// Bytes that reads were started for, and that they have read.
    asked: usize,
    read: usize,
    /// The reads under way, and their bytes.
    under_way: Vec<(u64, usize)>,
}

/// Where a payload goes.
enum Goal {
    Buffer(ReadBuffer),
    /// To where the sink has said.
    Place {
        memory: ReadBuffer,
        number: u64,
        in_order: bool,
    },
    /// Nowhere: its packet was handed over without it.
    Nowhere,
}

impl Remote {
    /// Bytes that are read of it.
    fn wanted(&self) -> usize {
        match &self.goal {
            Some(Goal::Nowhere) => 0,
            Some(Goal::Place { memory, .. }) => memory.bytes_max().min(self.bytes),
            _ => self.bytes,
        }
    }

    /// What the next read is to read.
    fn unasked(&self) -> Range<usize> {
        self.asked..self.wanted().min(self.asked + PART_BYTES)
    }

    fn is_read(&self) -> bool {
        self.goal.is_some() && self.read == self.wanted()
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
    /// The generation of the endpoint that reads ([`Reads::restart`]).
    reader: u64,
}

/// A packet whose place is to be asked for.
pub(crate) struct ToPlace<'a> {
    pub to: NicName,
    pub packet: &'a [u8; PACKET_BYTES],
    /// The sink may answer [`Placement::NotYet`].
    pub may_wait: bool,
}

/// A part of a payload to read.
#[derive(Debug)]
pub(crate) struct ToRead {
    pub at: Readable,
    pub buffer: ReadBuffer,
    pub part: Range<usize>,
}

/// A packet whose turn has come.
pub(crate) struct Ready {
    pub to: NicName,
    pub packet: Box<[u8; PACKET_BYTES]>,
    pub payload: ReadyPayload,
}

pub(crate) enum ReadyPayload {
    Here(Vec<u8>),
    /// So many bytes, all of which were read.
    Read(ReadBuffer, usize),
    /// It is where the sink has placed it.
    Placed(u64),
    /// Its packet was handed over before.
    Nowhere,
}

/// A packet that was placed, and will get no payload.
pub(crate) struct Abandoned {
    pub to: NicName,
    pub packet: Box<[u8; PACKET_BYTES]>,
    pub number: u64,
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
        let payload = Remote { at, bytes, goal: None, put_off: None, asked: 0, read: 0, under_way: Vec::new() };
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

    /// The first payload for parts of which no read was started, and its place in the queue.
    fn unread(&mut self) -> Option<(usize, &mut Remote)> {
        self.waiting.iter_mut().enumerate().find_map(|(at, waiting)| match &mut waiting.payload {
            Payload::Remote(remote) if remote.asked < remote.wanted() => Some((at, remote)),
            _ => None,
        })
    }

    /// The packet whose place is to be asked for now, because its payload is the next to be read. `Err`: there is no memory for one that goes
    /// to a buffer.
    pub fn next_to_place(&mut self) -> Result<Option<ToPlace<'_>>, FrameError> {
        if self.under_way >= READS_AT_ONCE {
            return Ok(None);
        }
        let Some((at, remote)) = self.unread() else { return Ok(None) };
        if remote.goal.is_some() {
            return Ok(None);
        }
        let may_wait = remote.put_off.is_none_or(|since| since.elapsed() < PUT_OFF_MAX);
        let has_matched = |waiting: &Waiting| match &waiting.payload {
            Payload::Remote(remote) => matches!(remote.goal, Some(Goal::Place { .. } | Goal::Nowhere)),
            Payload::Here(_) => false,
        };
        if !self.waiting.range(..at).all(has_matched) {
            self.place(Placement::Whole)?;
            return Ok(None);
        }
        let Waiting { to, packet, .. } = &self.waiting[at];
        Ok(Some(ToPlace { to: *to, packet, may_wait }))
    }

    /// Says where the payload goes whose turn it is to be read.
    pub fn place(&mut self, placement: Placement) -> Result<(), FrameError> {
        let Some((_, remote)) = self.unread() else { return Ok(()) };
        remote.goal = Some(match placement {
            Placement::NotYet => {
                remote.put_off.get_or_insert_with(Instant::now);
                return Ok(());
            }
            Placement::Whole => {
                let bytes = remote.bytes;
                Goal::Buffer(ReadBuffer::new(bytes).ok_or(FrameError::NoMemory { bytes })?)
            }
            Placement::Nothing => Goal::Nowhere,
            Placement::At { start, bytes, number, in_order } => {
                Goal::Place { memory: ReadBuffer::of_program(start, bytes), number, in_order }
            }
        });
        Ok(())
    }

    /// What to read next, if that is to start now.
    pub fn next_part(&mut self) -> Option<ToRead> {
        if self.under_way >= READS_AT_ONCE {
            return None;
        }
        let (at, remote) = self.unread()?;
        let buffer = match &remote.goal {
            Some(Goal::Place { in_order: true, .. }) if at != 0 => return None,
            Some(Goal::Buffer(buffer) | Goal::Place { memory: buffer, .. }) => buffer.clone(),
            Some(Goal::Nowhere) | None => return None,
        };
        let part = remote.unasked();
        let at = Readable { address: remote.at.address.wrapping_add(part.start as u64), ..remote.at };
        Some(ToRead { at, buffer, part })
    }

    /// What [`Reads::next_part`] has named is being read.
    pub fn started(&mut self, tag: u64) {
        if let Some((_, remote)) = self.unread() {
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

    /// Begins again with payloads of which reads were under way at another endpoint than that of this generation: it was closed, so they will
    /// not end.
    pub fn restart(&mut self, reader: u64) {
        if std::mem::replace(&mut self.reader, reader) == reader {
            return;
        }
        self.under_way = 0;
        for waiting in &mut self.waiting {
            if let Payload::Remote(remote) = &mut waiting.payload {
                if !remote.under_way.is_empty() {
                    remote.under_way.clear();
                    (remote.asked, remote.read) = (0, 0);
                }
            }
        }
    }

    /// Whether something is placed at NICs of these names.
    pub fn has_placed(&self, is_meant: impl Fn(NicName) -> bool) -> bool {
        let is_placed = |waiting: &Waiting| {
            matches!(&waiting.payload, Payload::Remote(Remote { goal: Some(Goal::Place { .. }), .. }))
        };
        self.waiting.iter().any(|waiting| is_placed(waiting) && is_meant(waiting.to))
    }

    /// Gives up what was placed at NICs of these names. No read to their memory may be under way.
    pub fn abandon(&mut self, is_meant: impl Fn(NicName) -> bool) -> Vec<Abandoned> {
        let mut abandoned = Vec::new();
        for Waiting { to, packet, payload } in self.waiting.iter_mut().filter(|waiting| is_meant(waiting.to)) {
            let Payload::Remote(remote) = payload else { continue };
            if let Some(Goal::Place { number, .. }) = remote.goal {
                remote.goal = Some(Goal::Nowhere);
                (remote.asked, remote.read) = (0, 0);
                self.under_way -= std::mem::take(&mut remote.under_way).len();
                abandoned.push(Abandoned { to: *to, packet: packet.clone(), number });
            }
        }
        abandoned
    }

    /// The next packet, if its payload is here.
    pub fn next(&mut self) -> Option<Ready> {
        let is_here = |waiting: &&Waiting| match &waiting.payload {
            Payload::Here(_) => true,
            Payload::Remote(remote) => remote.is_read(),
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
                match remote.goal {
                    Some(Goal::Buffer(buffer)) => ReadyPayload::Read(buffer, remote.bytes),
                    Some(Goal::Place { number, .. }) => ReadyPayload::Placed(number),
                    Some(Goal::Nowhere) | None => ReadyPayload::Nowhere,
                }
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

    /// The packets whose turn has come, and the length of their payload: 0 if it was placed, or goes nowhere.
    fn handed_over(reads: &mut Reads) -> Vec<(u8, usize)> {
        let bytes = |payload: &ReadyPayload| match payload {
            ReadyPayload::Here(bytes) => bytes.len(),
            ReadyPayload::Read(_, bytes) => *bytes,
            ReadyPayload::Placed(_) | ReadyPayload::Nowhere => 0,
        };
        std::iter::from_fn(|| reads.next()).map(|ready| (ready.packet[0], bytes(&ready.payload))).collect()
    }

    /// Starts the next read, as an endpoint would that writes zeros. Returns which payload, from where, and how much.
    fn start(reads: &mut Reads, tag: u64) -> Option<(u64, u64, usize)> {
        if reads.next_to_place().expect("there is memory").is_some() {
            reads.place(Placement::Whole).expect("there is memory");
        }
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

    /// Places the next payload, as a sink would that has so much memory for it. None: it is not asked.
    fn place(reads: &mut Reads, number: u64, memory: &mut [u8], in_order: bool) -> Option<u8> {
        let packet = reads.next_to_place().expect("there is memory")?.packet[0];
        let (start, bytes) = (memory.as_mut_ptr(), memory.len());
        reads.place(Placement::At { start, bytes, number, in_order }).expect("no memory is used");
        Some(packet)
    }

    #[test]
    fn memory_that_is_looked_at_is_written_in_order() {
        let (mut reads, mut memory) = (Reads::default(), [0; 100]);
        for number in [1, 2, 3] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        assert_eq!(place(&mut reads, 1, &mut memory, true), Some(1));
        assert_eq!(start(&mut reads, 1), Some((1, 8, 100)));
        assert_eq!(place(&mut reads, 2, &mut memory, true), Some(2));
        assert_eq!(start(&mut reads, 2), None, "the first is not there");
        reads.has_read(1);
        assert_eq!(handed_over(&mut reads), [(1, 0)]);
        assert_eq!(start(&mut reads, 2), Some((2, 8, 100)));
        assert_eq!(place(&mut reads, 3, &mut memory, false), Some(3));
        assert_eq!(start(&mut reads, 3), Some((3, 8, 100)), "nobody looks there");
    }

    #[test]
    fn the_sink_is_asked_for_a_place_when_it_has_matched_what_came_before() {
        let (mut reads, mut memory) = (Reads::default(), [0; 100]);
        for number in [1, 2, 4, 5] {
            if number == 4 {
                reads.hold(NIC, &packet(3), b"short").expect("little");
            }
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        assert_eq!(place(&mut reads, 1, &mut memory, false), Some(1));
        assert_eq!(start(&mut reads, 1), Some((1, 8, 100)));
        assert_eq!(place(&mut reads, 2, &mut memory[..40], false), Some(2), "the one before has matched");
        assert_eq!(start(&mut reads, 2), Some((2, 8, 40)), "no more than is wanted");
        assert_eq!(place(&mut reads, 4, &mut memory, false), None, "a packet before has yet to match");
        assert_eq!(start(&mut reads, 4), Some((4, 8, 100)), "so it goes to a buffer");
        for tag in [1, 2, 4] {
            reads.has_read(tag);
        }
        assert_eq!(handed_over(&mut reads), [(1, 0), (2, 0), (3, 5), (4, 100)]);
        assert_eq!(place(&mut reads, 5, &mut memory, false), Some(5), "all before were handed over");
    }

    #[test]
    fn a_place_that_is_not_known_yet_is_asked_for_again_and_then_no_more() {
        let mut reads = Reads::default();
        for number in [1, 2] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        let ToPlace { packet, may_wait, .. } = reads.next_to_place().expect("there is memory").expect("the first");
        assert_eq!((packet[0], may_wait), (1, true));
        reads.place(Placement::NotYet).expect("no memory is used");
        assert!(reads.next_part().is_none() && reads.next().is_none());
        std::thread::sleep(PUT_OFF_MAX);
        let ToPlace { packet, may_wait, .. } = reads.next_to_place().expect("there is memory").expect("the first");
        assert_eq!((packet[0], may_wait), (1, false));
        reads.place(Placement::Nothing).expect("no memory is used");
        let ToPlace { packet, may_wait, .. } = reads.next_to_place().expect("there is memory").expect("the second");
        assert_eq!((packet[0], may_wait), (2, true), "each has its own time");
    }

    #[test]
    fn a_payload_that_nobody_wants_is_not_read_and_its_sender_hears_of_it_in_its_turn() {
        let (mut reads, mut memory) = (Reads::default(), [0; 100]);
        for number in [1, 2, 3] {
            reads.announce(NIC, &packet(number), readable(number.into()), 100).expect("few");
        }
        assert_eq!(place(&mut reads, 1, &mut memory, false), Some(1));
        assert_eq!(start(&mut reads, 1), Some((1, 8, 100)));
        assert_eq!(reads.next_to_place().expect("there is memory").map(|it| it.packet[0]), Some(2));
        reads.place(Placement::Nothing).expect("no memory is used");
        assert_eq!(place(&mut reads, 3, &mut memory, false), Some(3));
        assert_eq!((handed_over(&mut reads).len(), reads.count()), (0, 0));
        reads.has_read(1);
        assert_eq!((handed_over(&mut reads), reads.count()), (vec![(1, 0), (2, 0)], 2));
    }

    #[test]
    fn reads_begin_again_at_another_endpoint_and_what_is_given_up_is_named_once() {
        let (mut reads, mut memory) = (Reads::default(), [0; 100]);
        let other = NicName { pid: 9, ..NIC };
        for (number, nic) in [(1, NIC), (2, other)] {
            reads.announce(nic, &packet(number), readable(number.into()), 100).expect("few");
            assert_eq!(place(&mut reads, number.into(), &mut memory, false), Some(number));
            assert_eq!(start(&mut reads, number.into()), Some((number.into(), 8, 100)));
        }
        reads.restart(1);
        let given_up = |reads: &mut Reads| {
            reads.abandon(|nic| nic == NIC).iter().map(|abandoned| abandoned.number).collect::<Vec<_>>()
        };
        assert!(reads.has_placed(|nic| nic == NIC));
        assert_eq!((given_up(&mut reads), given_up(&mut reads)), (vec![1], vec![]));
        assert!(!reads.has_placed(|nic| nic == NIC));
        reads.has_read(1);
        assert_eq!(handed_over(&mut reads), [(1, 0)], "its sender need not keep it");
        reads.has_read(2);
        assert!(handed_over(&mut reads).is_empty(), "the first read of it was stopped");
        assert_eq!(start(&mut reads, 3), Some((2, 8, 100)));
        reads.has_read(3);
        assert_eq!(handed_over(&mut reads), [(2, 0)]);
        assert!(reads.is_empty() && reads.under_way == 0);
    }
}
