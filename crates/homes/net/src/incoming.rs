// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver's half of links: accept, greet, check frames, reassemble packets.
//!
//! Frames may arrive out of order: a provider that keeps the order of sends matches them with receive buffers in that
//! order, but completes a short frame before a long one that it still reads. A frame that is early is held. With a
//! check no frame is long, so an early frame is dropped, and its sender repeats the missing one.
//!
//! Invariants
//! 1. Nothing is taken from a sender that has not proved itself, and no frame with a key other than that of its link.
//! 2. Frames are taken in the order of their numbers, each once.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::time::{Duration, Instant};

use selvedge_nic::packet::{HEADER_BYTES as PACKET_BYTES, Packet};

use crate::address::LinkAddress;
use crate::control::Control;
use crate::control_message::{ControlMessage, MessageSealer};
use crate::endpoint::ReceivedFrame;
use crate::errors::LinkError;
use crate::frame::{self, Assembler, FrameError, Record, Seal};
use crate::greeting::{Answer, GreetingError, Hello, Key, Nonce, Offer, refusal};
use crate::ids::{NicName, PeerId};
use crate::read_queue::ReadQueue;
use crate::retransmission::{Arrival, FrameOrder};
use crate::settings::Settings;

/// The longest silence of a peer that has ended, before it is lost. Its last frames do not travel on the control
/// connection, and may come after the connection's end.
pub(crate) const LAST_FRAMES: Duration = Duration::from_millis(500);

/// The part of a pause between two checks that counts as time for which a frame is missing.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// The longest greeting. A sender that makes no calls for longer connects again.
pub(crate) const GREETING_MAX: Duration = Duration::from_secs(10);

pub(crate) enum Frame {
    Received(ReceivedFrame),
    /// Copied by the faulty network.
    Copied(Vec<u8>),
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Frame::Received(frame) => frame,
            Frame::Copied(frame) => frame,
        }
    }
}

pub(crate) trait PacketReceiver {
    /// Returns the limit of a packet's payload, in bytes.
    fn payload_max(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES]) -> u64;

    /// Takes a complete packet.
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8]);

    /// Notes that the peer has read `count` payloads of the link to it.
    fn payloads_read(&self, peer: PeerId, count: u64) -> Result<(), FrameError>;
}

pub(crate) struct Incoming {
    control: Control,
    stage: Stage,
}

enum Stage {
    Greeting { nonce: Nonce, since: Instant },
    Open(Box<Open>),
}

struct Open {
    peer: PeerId,
    key: u64,
    seal: Seal,
    order: FrameOrder,
    received: MessageSealer,
    sent: MessageSealer,
    assembler: Assembler,
    reads: ReadQueue,
    /// Early frames, by number. Receive buffers bound them.
    held: BTreeMap<u64, Frame>,
    /// The sender has said that it has sent the frames before this number.
    sent_before: u64,
    missing: MissingFrame,
    /// The sender closes the link for a while, because it is idle.
    is_resting: bool,
    /// The sender was asked to do so.
    is_asked_to_rest: bool,
    /// The number of frames at the last look.
    seen: u64,
    /// The silence since the control connection ended, or the last frame came after that.
    ended: Option<Silence>,
    /// The reason for which it ended.
    why: Option<LinkError>,
    /// Number of frames that were damaged, doubled or out of order.
    faults: u64,
    counts: ReceivedCounts,
}

/// Counters of a link at its receiver, since it was opened.
#[derive(Clone, Copy, Default)]
pub(crate) struct ReceivedCounts {
    /// Packets, whole or announced, and bytes of their payloads.
    pub packets: u64,
    pub packet_bytes: u64,
    /// Frames whose check failed, and frames that came twice or too early on a link with a check.
    pub damaged: u64,
    pub unordered: u64,
}

/// The next frame, if it is missing.
#[derive(Clone, Copy)]
struct MissingFrame {
    number: u64,
    silence: Silence,
}

/// The time for which nothing has come, as far as this process has looked. Of a long pause between two looks only a part
/// counts: frames may have come meanwhile, and this process had no core to take them.
#[derive(Clone, Copy)]
struct Silence {
    time: Duration,
    looked: Instant,
}

impl Silence {
    fn from(now: Instant) -> Silence {
        Silence { time: Duration::ZERO, looked: now }
    }

    /// Looks once more, and returns the time so far.
    fn look(&mut self, now: Instant) -> Duration {
        self.time += now.saturating_duration_since(self.looked).min(PAUSE_MAX);
        self.looked = now;
        self.time
    }
}

pub(crate) struct ProvenSender {
    pub address: LinkAddress,
    pub nid: u32,
    pub provider: String,
}

impl Incoming {
    /// Takes a connection, and sends the first message.
    pub fn new(mut control: Control, nonce: Nonce) -> Incoming {
        control.send(&Hello { nonce }.encode());
        Incoming { control, stage: Stage::Greeting { nonce, since: Instant::now() } }
    }

    pub fn control(&self) -> &Control {
        &self.control
    }

    pub fn peer(&self) -> Option<PeerId> {
        self.open().map(|open| open.peer)
    }

    /// Returns the counters of the link.
    pub fn counts(&self) -> ReceivedCounts {
        self.open().map_or_else(ReceivedCounts::default, |open| open.counts)
    }

    fn open(&self) -> Option<&Open> {
        match &self.stage {
            Stage::Open(open) => Some(open),
            Stage::Greeting { .. } => None,
        }
    }

    /// Continues the greeting, or reads the sender's messages. `admit` gets a sender that has proved itself; it returns
    /// the peer and the answer. `Err` ends the link.
    pub fn advance(
        &mut self,
        own_token: u64,
        settings: &Settings,
        admit: impl FnOnce(ProvenSender) -> Result<(PeerId, Answer), GreetingError>,
    ) -> Result<(), GreetingError> {
        let mut ended = self.control.advance();
        if matches!(self.stage, Stage::Greeting { .. }) {
            let Some(message) = self.control.take_message()? else {
                return ended.map_err(|_| GreetingError::Ended);
            };
            let opened = self.take_offer(&message, own_token, settings, admit);
            if let Err(why) = opened {
                self.control.send(&refusal(&why));
                let _ = self.control.advance();
                return Err(why);
            }
            // This may also read the first messages, which no later event would announce.
            ended = self.control.advance();
        }
        if let Stage::Open(open) = &mut self.stage {
            while let Some(message) = self.control.take_message()? {
                match open.received.open(&message)? {
                    ControlMessage::End(number) => open.order.end_announced(number),
                    ControlMessage::Sent(number) => open.sent_before = open.sent_before.max(number),
                    ControlMessage::Rest(number) => {
                        open.is_resting = true;
                        open.order.end_announced(number);
                    }
                    ControlMessage::Ack(_) | ControlMessage::Nack(_) => return Err(GreetingError::Malformed),
                }
            }
            if let Err(end) = ended {
                open.ended.get_or_insert_with(|| Silence::from(Instant::now()));
                open.why.get_or_insert(LinkError::of_end(end, open.order.is_end_announced()));
            }
            self.send_due(Instant::now());
        }
        Ok(())
    }

    fn take_offer(
        &mut self,
        message: &[u8],
        own_token: u64,
        settings: &Settings,
        admit: impl FnOnce(ProvenSender) -> Result<(PeerId, Answer), GreetingError>,
    ) -> Result<(), GreetingError> {
        let Stage::Greeting { nonce, .. } = &self.stage else { return Err(GreetingError::Malformed) };
        let (offer, key) = Offer::decode(message, |theirs| Key::new(own_token, &settings.secret, *nonce, theirs))?;
        if offer.check != settings.check.number() {
            return Err(GreetingError::Check);
        }
        // A process that has the secret may claim to be another. So it must connect from the address that it gives.
        if self.control.peer_ip().is_some_and(|from| from != offer.address.socket().ip()) {
            return Err(GreetingError::Address { claimed: offer.address.socket().ip() });
        }
        let (peer, answer) = admit(ProvenSender { address: offer.address, nid: offer.nid, provider: offer.provider })?;
        self.control.send(&answer.encode(&key));
        self.stage = Stage::Open(Box::new(Open {
            peer,
            key: answer.key,
            seal: settings.check.seal(&key),
            order: FrameOrder::default(),
            received: MessageSealer::for_sender(&key),
            sent: MessageSealer::for_receiver(&key),
            assembler: Assembler::default(),
            reads: ReadQueue::default(),
            held: BTreeMap::new(),
            sent_before: 0,
            is_resting: false,
            is_asked_to_rest: false,
            seen: 0,
            missing: MissingFrame { number: 0, silence: Silence::from(Instant::now()) },
            ended: None,
            why: None,
            faults: 0,
            counts: ReceivedCounts::default(),
        }));
        Ok(())
    }

    /// Takes a frame of this link, and the early frames that follow it. `done` gets the frames that are used up.
    pub fn take(&mut self, frame: Frame, to: &dyn PacketReceiver, done: &mut Vec<Frame>) -> Result<(), RejectedFrame> {
        let mut next = Some(frame);
        while let Some(frame) = next.take() {
            match self.take_one(&frame, to) {
                Ok(()) => done.push(frame),
                Err(RejectedFrame::Early(early)) => {
                    let Stage::Open(open) = &mut self.stage else { return Err(RejectedFrame::Foreign) };
                    done.extend(open.held.insert(early, frame));
                    return Ok(());
                }
                Err(error) => {
                    done.push(frame);
                    return Err(error);
                }
            }
            if let Stage::Open(open) = &mut self.stage {
                next = open.held.remove(&open.order.expected());
            }
        }
        Ok(())
    }

    /// Returns the packets whose payload must be read, and those behind them; None while the link is not open.
    pub fn reads(&mut self) -> Option<&mut ReadQueue> {
        match &mut self.stage {
            Stage::Open(open) => Some(&mut open.reads),
            Stage::Greeting { .. } => None,
        }
    }

    /// Returns the held frames, when the link ends.
    pub fn into_held(self) -> Vec<Frame> {
        match self.stage {
            Stage::Open(open) => open.held.into_values().collect(),
            Stage::Greeting { .. } => Vec::new(),
        }
    }

    /// Takes the bytes of a frame. An error ends the link, unless the frame belongs to another.
    pub fn take_one(&mut self, frame: &[u8], to: &dyn PacketReceiver) -> Result<(), RejectedFrame> {
        let Stage::Open(open) = &mut self.stage else {
            return Err(RejectedFrame::Foreign);
        };
        let is_repeated = open.seal != Seal::None;
        let (header, records) = match frame::read(frame, &open.seal) {
            Ok(read) => read,
            // A damaged frame may carry the number of another link.
            Err(why) if is_repeated => {
                open.order.frame_damaged();
                open.counts.damaged += 1;
                open.note_fault(&why);
                self.send_due(Instant::now());
                return Ok(());
            }
            Err(why) => return Err(why.into()),
        };
        if header.key != open.key {
            return Err(RejectedFrame::Foreign);
        }
        match open.order.accept(header.number) {
            Arrival::Next => {}
            arrival if is_repeated => {
                open.counts.unordered += 1;
                open.note_fault(&arrival);
                self.send_due(Instant::now());
                return Ok(());
            }
            Arrival::Duplicate => return Err(RejectedFrame::Duplicate(header.number)),
            Arrival::Early { .. } => return Err(RejectedFrame::Early(header.number)),
        }
        if let Some(silence) = &mut open.ended {
            *silence = Silence::from(Instant::now());
        }
        for record in records {
            open.take_record(record?, to)?;
        }
        if is_repeated || open.order.is_complete() {
            self.send_due(Instant::now());
        }
        Ok(())
    }

    /// Sends the message to the sender that is due, after earlier ones.
    pub fn send_due(&mut self, now: Instant) {
        let Stage::Open(open) = &mut self.stage else { return };
        let is_wanted = open.seal != Seal::None || open.order.is_complete();
        if !is_wanted || open.ended.is_some() {
            return;
        }
        // The kernel takes few small messages while the other side's kernel has not acknowledged them.
        if self.control.send_now().is_err() || self.control.has_to_send() {
            return;
        }
        if let Some(message) = open.order.message(now) {
            self.control.send(&open.sent.seal(message));
            // If the connection has ended, the next look at it finds that.
            let _ = self.control.send_now();
        }
    }

    /// Returns the number of a frame that has been missing for this time, while later ones came or its sender said that
    /// it was sent.
    pub fn missing_frame(&mut self, patience: Duration, now: Instant) -> Option<u64> {
        let Stage::Open(open) = &mut self.stage else { return None };
        let number = open.order.expected();
        let is_missing = !open.held.is_empty() || open.sent_before > number;
        if !is_missing || open.missing.number != number {
            open.missing = MissingFrame { number, silence: Silence::from(now) };
        }
        (open.missing.silence.look(now) > patience).then_some(number)
    }

    /// Whether the control connection has ended.
    pub fn has_ended(&self) -> bool {
        self.open().is_some_and(|open| open.ended.is_some())
    }

    /// Whether the peer has ended, and its last frames have come.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let Stage::Open(open) = &mut self.stage else { return false };
        open.ended.as_mut().is_some_and(|silence| silence.look(now) > LAST_FRAMES || open.order.is_complete())
    }

    /// Whether frames have come since the last look, or the sender was asked to close the link.
    pub fn is_used(&mut self) -> bool {
        let Stage::Open(open) = &mut self.stage else { return true };
        let before = std::mem::replace(&mut open.seen, open.order.expected());
        open.is_asked_to_rest || open.is_resting || before != open.seen
    }

    /// Asks the sender to close the link once it is idle, because this process has too many.
    pub fn ask_to_rest(&mut self) {
        if let Stage::Open(open) = &mut self.stage {
            open.is_asked_to_rest = true;
            self.control.send(&open.sent.seal(ControlMessage::Rest(0)));
            // If the connection has ended, the next look at it finds that.
            let _ = self.control.send_now();
        }
    }

    /// Returns the peer and the reason for which its control connection has ended. None if the link only rests.
    pub fn end(&mut self) -> Option<(PeerId, LinkError)> {
        let Stage::Open(open) = &mut self.stage else { return None };
        if open.is_resting && open.order.is_complete() {
            return None;
        }
        Some((open.peer, open.why.take()?))
    }

    /// Tells the sender that this process ends.
    pub fn announce_end(&mut self) {
        if let Stage::Open(open) = &mut self.stage {
            self.control.send(&open.sent.seal(ControlMessage::End(0)));
            // If the connection has ended, the sender knows.
            let _ = self.control.send_now();
        }
    }

    /// Whether the link waits for time to pass: for its last frames, or for a message that becomes due.
    pub fn waits_for_time(&self) -> bool {
        let has_message =
            |open: &Open| open.seal != Seal::None && open.order.has_message() || self.control.has_to_send();
        let waits = |open: &Open| open.ended.is_some() || !open.held.is_empty() || has_message(open);
        self.open().is_some_and(waits)
    }

    /// Whether its sender has not proved itself yet.
    pub fn is_unproven(&self) -> bool {
        matches!(self.stage, Stage::Greeting { .. })
    }

    /// Whether its greeting takes too long.
    pub fn is_stale(&self) -> bool {
        matches!(&self.stage, Stage::Greeting { since, .. } if since.elapsed() > GREETING_MAX)
    }
}

impl Open {
    fn take_record(&mut self, record: Record<'_>, receiver: &dyn PacketReceiver) -> Result<(), FrameError> {
        let Open { peer, reads, assembler, counts, .. } = self;
        let peer = *peer;
        match record {
            Record::ReadCount(count) => return receiver.payloads_read(peer, count),
            Record::Unreadable(number) => return reads.unreadable(number),
            Record::Readable { to, packet, payload } if !assembler.has_begun() => {
                let (bytes, most) = (Packet::payload_bytes_of(packet), receiver.payload_max(peer, to, packet));
                let length = usize::try_from(bytes).ok().filter(|_| bytes != 0 && bytes <= most);
                counts.packets += 1;
                counts.packet_bytes = counts.packet_bytes.wrapping_add(bytes);
                return reads.announce(to, packet, payload, length.ok_or(FrameError::TooMuch { bytes, most })?);
            }
            _ => {}
        }
        let most = |to: NicName, packet: &_| receiver.payload_max(peer, to, packet);
        let mut held = Ok(());
        assembler.take(record, Packet::payload_bytes_of, most, |to, packet, payload| {
            counts.packets += 1;
            counts.packet_bytes += payload.len() as u64;
            match reads.is_empty() {
                true => receiver.packet(peer, to, packet, payload),
                false => held = reads.hold(to, packet, payload),
            }
        })?;
        held
    }

    /// Reports faults, less often as they add up.
    fn note_fault(&mut self, fault: &dyn fmt::Debug) {
        self.faults += 1;
        if self.faults.is_power_of_two() {
            log::warn!(
                "frames of a process of another host are sent again after {} faults; the last: {fault:?}",
                self.faults
            );
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RejectedFrame {
    #[error("the frame's link or key is unknown")]
    Foreign,
    #[error("duplicate frame {0}")]
    Duplicate(u64),
    #[error("frame {0} came before an earlier one")]
    Early(u64),
    #[error(transparent)]
    Frame(#[from] FrameError),
}
