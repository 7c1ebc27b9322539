// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The receiver's half of links: accept, greet, check frames, put packets together.
//!
//! Frames arrive in any order: a provider that keeps the order of sends matches them with receive buffers in that order, but completes a
//! short frame before a long one that it still reads. A frame that is early is held. With a check no frame is long, so one that is early is
//! dropped, and its sender repeats what is missing.
//!
//! Invariants
//! 1. Nothing is taken from a sender that has not proved itself, and no frame whose key is not that of its link.
//! 2. Frames are taken in the order of their numbers, each once.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::time::{Duration, Instant};

use selvedge_nic::packet::{HEADER_BYTES as PACKET_BYTES, Packet};

use crate::address::LinkAddress;
use crate::control::Control;
use crate::control_message::{Voice, Word};
use crate::endpoint::Arrived;
use crate::frame::{self, Assembler, FrameError, NicName, Record, Seal};
use crate::greeting::{Answer, GreetingError, Hello, Key, Nonce, Offer, refusal};
use crate::links::PeerId;
use crate::read_queue::Reads;
use crate::retransmission::{Order, Place};
use crate::settings::Settings;

/// How long a peer that has ended may be silent before it is lost: its last frames travel beside the control connection, and may
/// come after its end.
pub(crate) const LAST_FRAMES: Duration = Duration::from_millis(500);

/// The longest greeting. A sender may make no calls for a while; whoever says nothing for longer is no peer.
const GREETING_MAX: Duration = Duration::from_secs(600);

/// A frame that has come.
pub(crate) enum Frame {
    Arrived(Arrived),
    /// By way of the faulty network.
    Copied(Vec<u8>),
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Frame::Arrived(frame) => frame,
            Frame::Copied(frame) => frame,
        }
    }
}

/// Gets what a link's frames bring.
pub(crate) trait Receiver {
    /// Says how much payload a packet may have.
    fn payload_max(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES]) -> u64;

    /// A packet is complete.
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; PACKET_BYTES], payload: &[u8]);

    /// The peer has read so many payloads of the link to it.
    fn read_count(&self, peer: PeerId, count: u64) -> Result<(), FrameError>;
}

/// A link from a peer.
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
    order: Order,
    /// Checks the sender's messages on the control connection.
    hears: Voice,
    /// Makes this side's messages.
    says: Voice,
    assembler: Assembler,
    reads: Reads,
    /// Frames that are early, by number. Receive buffers bound them.
    held: BTreeMap<u64, Frame>,
    /// Since when a frame is missing, because later ones are held.
    misses_since: Option<Instant>,
    /// When the control connection ended, or the last frame came after that.
    ended: Option<Instant>,
    /// Frames that were damaged, doubled or out of order.
    faults: u64,
}

/// A sender that has proved itself.
pub(crate) struct Proven {
    pub address: LinkAddress,
    pub nid: u32,
    pub provider: String,
}

impl Incoming {
    /// Takes a connection, and says hello.
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

    fn open(&self) -> Option<&Open> {
        match &self.stage {
            Stage::Open(open) => Some(open),
            Stage::Greeting { .. } => None,
        }
    }

    /// Goes on with the greeting, or hears what the sender says. `admit` gets a sender that has proved itself; it returns the peer and
    /// the answer. `Err` ends the link.
    pub fn advance(
        &mut self,
        own_token: u64,
        settings: &Settings,
        admit: impl FnOnce(Proven) -> Result<(PeerId, Answer), GreetingError>,
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
            // It may read the first words, too, of which nothing else would tell.
            ended = self.control.advance();
        }
        if let Stage::Open(open) = &mut self.stage {
            while let Some(message) = self.control.take_message()? {
                match open.hears.hear(&message)? {
                    Word::Last(number) => open.order.set_last(number),
                    _ => return Err(GreetingError::Malformed),
                }
            }
            if ended.is_err() {
                open.ended.get_or_insert_with(Instant::now);
            }
            self.speak(Instant::now());
        }
        Ok(())
    }

    fn take_offer(
        &mut self,
        message: &[u8],
        own_token: u64,
        settings: &Settings,
        admit: impl FnOnce(Proven) -> Result<(PeerId, Answer), GreetingError>,
    ) -> Result<(), GreetingError> {
        let Stage::Greeting { nonce, .. } = &self.stage else { return Err(GreetingError::Malformed) };
        let (offer, key) = Offer::decode(message, |theirs| Key::new(own_token, &settings.secret, *nonce, theirs))?;
        if offer.check != settings.check.number() {
            return Err(GreetingError::Check);
        }
        // Who has the secret may still claim to be another. So a process has to connect from the address that it gives.
        if self.control.from().is_some_and(|from| from != offer.address.socket().ip()) {
            return Err(GreetingError::Address { claimed: offer.address.socket().ip() });
        }
        let (peer, answer) = admit(Proven { address: offer.address, nid: offer.nid, provider: offer.provider })?;
        self.control.send(&answer.encode(&key));
        self.stage = Stage::Open(Box::new(Open {
            peer,
            key: answer.key,
            seal: settings.check.seal(&key),
            order: Order::default(),
            hears: Voice::of_sender(&key),
            says: Voice::of_receiver(&key),
            assembler: Assembler::default(),
            reads: Reads::default(),
            held: BTreeMap::new(),
            misses_since: None,
            ended: None,
            faults: 0,
        }));
        Ok(())
    }

    /// Takes a frame of this link, and those behind it that were early. `done` gets the frames that are used up.
    pub fn take(&mut self, frame: Frame, to: &dyn Receiver, done: &mut Vec<Frame>) -> Result<(), Dropped> {
        let mut next = Some(frame);
        while let Some(frame) = next.take() {
            match self.take_one(&frame, to) {
                Ok(()) => done.push(frame),
                Err(Dropped::Early(early)) => {
                    let Stage::Open(open) = &mut self.stage else { return Err(Dropped::Foreign) };
                    done.extend(open.held.insert(early, frame));
                    open.misses_since.get_or_insert_with(Instant::now);
                    return Ok(());
                }
                Err(error) => {
                    done.push(frame);
                    return Err(error);
                }
            }
            if let Stage::Open(open) = &mut self.stage {
                next = open.held.remove(&open.order.expected());
                open.misses_since = (next.is_none() && !open.held.is_empty()).then(Instant::now);
            }
        }
        Ok(())
    }

    /// The packets whose payload is to be read, and those behind them; None while the link is not open.
    pub fn reads(&mut self) -> Option<&mut Reads> {
        match &mut self.stage {
            Stage::Open(open) => Some(&mut open.reads),
            Stage::Greeting { .. } => None,
        }
    }

    /// The frames that are held, when the link ends.
    pub fn into_held(self) -> Vec<Frame> {
        match self.stage {
            Stage::Open(open) => open.held.into_values().collect(),
            Stage::Greeting { .. } => Vec::new(),
        }
    }

    /// Takes the bytes of a frame. An error ends the link, unless the frame is not of it.
    pub fn take_one(&mut self, frame: &[u8], to: &dyn Receiver) -> Result<(), Dropped> {
        let Stage::Open(open) = &mut self.stage else {
            return Err(Dropped::Foreign);
        };
        let is_repeated = open.seal != Seal::None;
        let (header, records) = match frame::read(frame, &open.seal) {
            Ok(read) => read,
            // A frame that is damaged may say that it is of another link.
            Err(why) if is_repeated => {
                open.order.miss();
                open.note_fault(&why);
                self.speak(Instant::now());
                return Ok(());
            }
            Err(why) => return Err(why.into()),
        };
        if header.key != open.key {
            return Err(Dropped::Foreign);
        }
        match open.order.see(header.number) {
            Place::Next => {}
            place if is_repeated => {
                open.note_fault(&place);
                self.speak(Instant::now());
                return Ok(());
            }
            Place::Doubled => return Err(Dropped::Again(header.number)),
            Place::Early { .. } => return Err(Dropped::Early(header.number)),
        }
        if let Some(at) = &mut open.ended {
            *at = Instant::now();
        }
        for record in records {
            open.take_record(record?, to)?;
        }
        if is_repeated || open.order.is_complete() {
            self.speak(Instant::now());
        }
        Ok(())
    }

    /// Says to the sender what there is to say now. What was said before leaves first.
    pub fn speak(&mut self, now: Instant) {
        let Stage::Open(open) = &mut self.stage else { return };
        let says = open.seal != Seal::None || open.order.is_complete();
        if !says || open.ended.is_some() {
            return;
        }
        // The kernel takes few small messages while the other side's has not acknowledged them. What was left leaves first.
        if self.control.send_now().is_err() || self.control.has_to_send() {
            return;
        }
        if let Some(word) = open.order.word(now) {
            self.control.send(&open.says.say(word));
            // An end is found by the next look at the connection.
            let _ = self.control.send_now();
        }
    }

    /// The number of a frame that has not come for so long, though later ones have.
    pub fn misses(&self, patience: Duration) -> Option<u64> {
        let open = self.open()?;
        open.misses_since.filter(|since| since.elapsed() > patience).map(|_| open.order.expected())
    }

    /// Whether the control connection has ended.
    pub fn has_ended(&self) -> bool {
        self.open().is_some_and(|open| open.ended.is_some())
    }

    /// Whether the peer has ended, and its last frames have come.
    pub fn is_over(&self) -> bool {
        let is_over = |open: &Open| open.ended.is_some_and(|at| at.elapsed() > LAST_FRAMES || open.order.is_complete());
        self.open().is_some_and(is_over)
    }

    /// Whether this link's last frames are awaited, or there will be something to say.
    pub fn waits_for_time(&self) -> bool {
        let has_to_say = |open: &Open| open.seal != Seal::None && open.order.has_to_say() || self.control.has_to_send();
        let waits = |open: &Open| open.ended.is_some() || open.misses_since.is_some() || has_to_say(open);
        self.open().is_some_and(waits)
    }

    /// Whether its sender has not proved itself.
    pub fn is_unproven(&self) -> bool {
        matches!(self.stage, Stage::Greeting { .. })
    }

    /// Whether its greeting takes too long.
    pub fn is_stale(&self) -> bool {
        matches!(&self.stage, Stage::Greeting { since, .. } if since.elapsed() > GREETING_MAX)
    }
}

impl Open {
    fn take_record(&mut self, record: Record<'_>, receiver: &dyn Receiver) -> Result<(), FrameError> {
        let Open { peer, reads, assembler, .. } = self;
        let peer = *peer;
        match record {
            Record::ReadCount(count) => return receiver.read_count(peer, count),
            Record::Readable { to, packet, payload } if !assembler.has_begun() => {
                let (bytes, most) = (Packet::payload_bytes_of(packet), receiver.payload_max(peer, to, packet));
                let length = usize::try_from(bytes).ok().filter(|_| bytes != 0 && bytes <= most);
                return reads.announce(to, packet, payload, length.ok_or(FrameError::TooMuch { bytes, most })?);
            }
            _ => {}
        }
        let most = |to: NicName, packet: &_| receiver.payload_max(peer, to, packet);
        let mut held = Ok(());
        assembler.take(record, Packet::payload_bytes_of, most, |to, packet, payload| match reads.is_empty() {
            true => receiver.packet(peer, to, packet, payload),
            false => held = reads.hold(to, packet, payload),
        })?;
        held
    }

    /// Reports faults ever more rarely.
    fn note_fault(&mut self, what: &dyn fmt::Debug) {
        self.faults += 1;
        if self.faults.is_power_of_two() {
            log::warn!(
                "frames of a process of another host are repeated; {} faults so far, the last: {what:?}",
                self.faults
            );
        }
    }
}

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Dropped {
    #[error("its link or key is unknown")]
    Foreign,
    #[error("its number is {0}: it comes again. SELVEDGE_NET_CHECK=crc has frames put right")]
    Again(u64),
    #[error("its number is {0}, and one before has not come")]
    Early(u64),
    #[error(transparent)]
    Frame(#[from] FrameError),
}
