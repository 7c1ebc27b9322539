// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender's half of a link: connect, greet, gather packets into frames, send them.
//!
//! Packets that are handed over before the link is open wait in its queue. So do those for which there is no buffer.
//!
//! Invariants
//! 1. Packets leave in the order in which they were handed over, each once.
//! 2. A frame goes at once if few others have left since the peer's last frame came, or the program was last at rest ([`AT_ONCE`]);
//!    otherwise packets gather in it until it is full, or one of these happens. So a burst shares frames, and neither a single packet nor
//!    an answer waits.
//! 3. With a check each frame is short, and kept in the [`Window`] until the receiver has taken it. Repetitions leave before new frames.

use std::collections::VecDeque;
use std::io;
use std::time::Instant;

use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use crate::address::LinkAddress;
use crate::control::Control;
use crate::control_message::{Voice, Word};
use crate::endpoint::{Destination, Endpoint, Exposed, FRAME_BYTES_MAX, SendError, Tail};
use crate::frame::{FRAME_HEADER_BYTES, FrameError, FrameHeader, NicName, OVERHEAD_BYTES, Seal, Writer};
use crate::greeting::{Answer, GreetingError, Hello, Key, NO_HOST, Nonce, Offer};
use crate::payload::{Payload, Source};
use crate::retransmission::{Impossible, Window};
use crate::settings::{Check, Settings};

/// The least room in a frame for which a payload is cut: less is not worth a record.
const CUT_BYTES_MIN: usize = 512;
/// Bytes that may wait for a link that is not ready for them.
const QUEUE_BYTES_MAX: usize = 4 << 20;
/// The least payload that the receiver reads from here. A shorter one is sooner there in frames: a read takes two ways more. Where frames are
/// short, the payload would take several.
const READ_BYTES_MIN: usize = (64 << 10) + 1;
const READ_BYTES_MIN_OF_SHORT_FRAMES: usize = 24 << 10;
/// Payloads of a link that wait to be read, at most, and frames that may leave behind one: the receiver keeps what comes behind.
const READABLE_MAX: usize = 8;
const FRAMES_BEHIND_MAX: usize = 64;
/// Frames of a link that go at once, until the peer's next frame comes or the program is at rest.
const AT_ONCE: usize = 2;
/// Frames of a link that may be on their way, so that a peer that does not read leaves buffers to the others.
const ON_THE_WAY_MAX: usize = 8;

/// A packet that waits, or the rest of one.
struct Waiting {
    to: NicName,
    packet: Box<[u8; PACKET_BYTES]>,
    payload: Payload,
    /// The receiver reads the payload from here.
    is_read: bool,
    /// Bytes of the payload in earlier frames.
    sent: usize,
}

impl Waiting {
    /// The payload goes in frames. It has to be ours then, as for [`Outgoing::push`].
    fn keep_for_frames(&mut self) {
        self.is_read = false;
        self.payload.own();
    }
}

/// What became of a packet whose payload the receiver is to read.
enum Ready {
    Left,
    /// There is no room now.
    Later,
    /// The provider does not expose the payload.
    Refused,
}

/// Where the link is.
enum Stage {
    Closed,
    /// It takes as long as the peer does, whose program may compute. The kernel finds out whether its host is there.
    Greeting(Box<Greeting>),
    /// The control connection is kept: its end is the peer's.
    Open(Box<Open>),
}

struct Greeting {
    control: Control,
    key: Option<Key>,
}

struct Open {
    control: Control,
    to: Destination,
    /// The name of the peer's endpoint.
    name: Vec<u8>,
    /// Of the next frame.
    header: FrameHeader,
    seal: Seal,
    /// None: the link has no check, and nothing is repeated.
    window: Option<Window>,
    /// Makes this side's messages on the control connection.
    says: Voice,
    /// Checks the receiver's messages.
    hears: Voice,
    /// The end was announced.
    has_said_last: bool,
    /// All frames before this number were taken, as far as the receiver has said.
    taken: u64,
}

/// A frame that is being filled, or that found no room.
struct Building {
    buffer: usize,
    bytes: usize,
    /// With a tail the frame is complete.
    tail: Option<Tail>,
}

/// A payload that the receiver may read.
struct Readied {
    exposed: Exposed,
    /// What counts in the queue's bytes until then.
    bytes: usize,
}

/// The sender's half of a link.
pub(crate) struct Outgoing {
    stage: Stage,
    check: Check,
    queue: VecDeque<Waiting>,
    queued_bytes: usize,
    building: Option<Building>,
    /// Payloads that the receiver has yet to read, the oldest first, and how many it has read.
    readable: VecDeque<Readied>,
    read: u64,
    /// Frames that have left since the receiver has read the last one.
    behind: usize,
    /// How many payloads of the link in the other direction were read, and how many of them the peer knows of.
    to_tell: u64,
    told: u64,
    /// Frames that were sent and have not completed.
    on_the_way: usize,
    /// Frames that have left since the peer's last frame, or since the program's last rest, which has a number.
    in_burst: usize,
    rest: u64,
    /// Since when the endpoint takes nothing, though nothing is on its way; None once that was reported.
    stuck_since: Option<Instant>,
    stuck_reported: bool,
}

/// Why a link could not be made, or ended.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    #[error("it cannot be reached: {0}")]
    Io(#[from] io::Error),
    #[error(transparent)]
    Greeting(#[from] GreetingError),
    #[error("its process has ended, or its host is lost")]
    Ended,
    #[error(
        "its frame {0} has not come, though later ones have; SELVEDGE_NET_CHECK=crc has frames repeated that are lost"
    )]
    Missing(u64),
    #[error("{0}")]
    Expelled(String),
    #[error("libfabric: {0}")]
    Endpoint(String),
}

impl Outgoing {
    pub fn new(check: Check) -> Outgoing {
        Outgoing {
            stage: Stage::Closed,
            check,
            queue: VecDeque::new(),
            queued_bytes: 0,
            building: None,
            readable: VecDeque::new(),
            read: 0,
            behind: 0,
            to_tell: 0,
            told: 0,
            on_the_way: 0,
            in_burst: 0,
            rest: 0,
            stuck_since: None,
            stuck_reported: false,
        }
    }

    pub fn is_closed(&self) -> bool {
        matches!(self.stage, Stage::Closed)
    }

    /// Whether packets wait for this link, or frames are to be repeated.
    pub fn has_to_send(&self) -> bool {
        let repeats = |window: &Window| window.to_send().is_some();
        self.building.is_some()
            || !self.queue.is_empty()
            || self.told != self.to_tell
            || self.window().is_some_and(repeats)
    }

    /// Whether the receiver has yet to read payloads from here.
    pub fn waits_for_reader(&self) -> bool {
        !self.readable.is_empty()
    }

    /// The receiver has read so many payloads.
    pub fn was_read(&mut self, endpoint: Option<&mut Endpoint>, count: u64) -> Result<(), FrameError> {
        let Some(endpoint) = endpoint else { return Ok(()) };
        while self.read < count {
            let Some(Readied { exposed, bytes }) = self.readable.pop_front() else {
                return Err(FrameError::Read(count));
            };
            endpoint.withdraw(exposed);
            self.queued_bytes -= bytes;
            self.read += 1;
            self.behind = 0;
        }
        Ok(())
    }

    /// The peer is to hear how many payloads of the link in the other direction were read.
    pub fn tell_read(&mut self, count: u64) {
        self.to_tell = count;
    }

    fn open(&self) -> Option<&Open> {
        if let Stage::Open(open) = &self.stage { Some(open) } else { None }
    }

    fn window(&self) -> Option<&Window> {
        self.open()?.window.as_ref()
    }

    /// Whether frames are kept for which the receiver may have no word.
    pub fn waits_for_word(&self) -> bool {
        self.window().is_some_and(|window| !window.is_empty())
    }

    /// Repeats frames for which the receiver has had no word for too long. Returns whether it does.
    pub fn look_at_time(&mut self, now: Instant) -> bool {
        let Stage::Open(open) = &mut self.stage else { return false };
        let Some(window) = &mut open.window else { return false };
        let repeats = window.look_at_time(now);
        if repeats {
            log::debug!("no word of a receiver of another host: {window:?}, {} frames on the way", self.on_the_way);
        }
        repeats
    }

    /// Announces the end of the link, once. Returns whether the receiver has yet to say that it has all frames.
    pub fn say_last(&mut self) -> bool {
        let Stage::Open(open) = &mut self.stage else { return false };
        let number = open.header.number;
        if !open.has_said_last && number != 0 {
            open.has_said_last = true;
            open.control.send(&open.says.say(Word::Last(number)));
        }
        open.taken < number && open.control.send_now().is_ok()
    }

    /// A frame has completed.
    pub fn has_completed(&mut self) {
        self.on_the_way = self.on_the_way.saturating_sub(1);
    }

    /// Whether frames are on their way.
    pub fn is_on_the_way(&self) -> bool {
        self.on_the_way != 0
    }

    /// Whether the queue takes more.
    pub fn has_room(&self) -> bool {
        self.queued_bytes < QUEUE_BYTES_MAX
    }

    pub fn control(&self) -> Option<&Control> {
        match &self.stage {
            Stage::Closed => None,
            Stage::Greeting(greeting) => Some(&greeting.control),
            Stage::Open(open) => Some(&open.control),
        }
    }

    /// Where frames go, once the link is open.
    pub fn destination(&self) -> Option<Destination> {
        self.open().map(|open| open.to)
    }

    /// The name of the peer's endpoint, once the link is open.
    pub fn endpoint_name(&self) -> Option<&[u8]> {
        self.open().map(|open| &open.name[..])
    }

    /// Begins to connect.
    pub fn connect(&mut self, address: &LinkAddress, settings: &Settings) -> Result<(), LinkError> {
        let control = Control::connect(settings.at, address.socket(), settings.timeout)?;
        self.stage = Stage::Greeting(Box::new(Greeting { control, key: None }));
        Ok(())
    }

    /// Goes on with the greeting, or finds that the peer has ended.
    pub fn advance(
        &mut self,
        address: &LinkAddress,
        own: &LinkAddress,
        settings: &Settings,
        endpoint: &mut Endpoint,
        nonce: impl Fn() -> Nonce,
    ) -> Result<(), LinkError> {
        let Greeting { control, key } = match &mut self.stage {
            Stage::Closed => return Ok(()),
            Stage::Open(open) => return open.advance(),
            Stage::Greeting(greeting) => &mut **greeting,
        };
        let ended = control.advance();
        while let Some(message) = control.take_message()? {
            if let Some(key) = key {
                let answer = Answer::decode(&message, key)?;
                let to = endpoint.insert(&answer.endpoint).map_err(|error| LinkError::Endpoint(error.to_string()))?;
                let seal = settings.check.seal(key);
                let (says, hears) = (Voice::of_sender(key), Voice::of_receiver(key));
                if let Stage::Greeting(greeting) = std::mem::replace(&mut self.stage, Stage::Closed) {
                    let Greeting { control, .. } = *greeting;
                    self.stage = Stage::Open(Box::new(Open {
                        control,
                        to,
                        name: answer.endpoint,
                        header: FrameHeader { link: answer.link, key: answer.key, number: 0 },
                        window: (settings.check != Check::None).then(Window::default),
                        seal,
                        says,
                        hears,
                        has_said_last: false,
                        taken: 0,
                    }));
                }
                // The first words may have come with the answer.
                return if let Stage::Open(open) = &mut self.stage { open.advance() } else { Ok(()) };
            }
            let hello = Hello::decode(&message)?;
            let own_nonce = nonce();
            let made = Key::new(address.token(), &settings.secret, hello.nonce, own_nonce);
            let offer = Offer {
                nonce: own_nonce,
                nid: settings.nid.unwrap_or(NO_HOST),
                address: *own,
                check: settings.check.number(),
                provider: endpoint.provider().to_owned(),
            };
            control.send(&offer.encode(&made));
            *key = Some(made);
            control.advance().map_err(end_of)?;
        }
        ended.map_err(end_of)
    }

    /// Bytes behind the records of a frame.
    fn seal_bytes(&self) -> usize {
        self.open().map_or(0, |open| open.seal.bytes())
    }

    /// Bytes of the longest payload that is copied into a frame. A longer one leaves from where it lies, as the tail of long frames.
    fn short_payload_max(&self) -> usize {
        FRAME_BYTES_MAX - OVERHEAD_BYTES - self.seal_bytes()
    }

    /// Takes a packet. A short one goes into the frame that is being filled. Any other waits.
    pub fn push(
        &mut self,
        mut endpoint: Option<&mut Endpoint>,
        to: NicName,
        packet: &[u8; PACKET_BYTES],
        payload: Source<'_>,
    ) {
        let bytes = payload.bytes();
        let goes_at_once = self.queue.is_empty() && self.destination().is_some() && !self.is_far_ahead();
        if goes_at_once && bytes.len() <= self.short_payload_max() {
            let written = endpoint
                .as_mut()
                .and_then(|endpoint| self.write(endpoint, |writer| writer.packet(to, packet, bytes).map(|()| None)));
            if written.is_some() {
                return;
            }
        }
        // What leaves in frames has to be ours: frames may be on their way when the peer answers.
        let is_read = endpoint.is_some_and(|endpoint| self.is_to_be_read(endpoint, bytes.len()));
        self.queued_bytes += PACKET_BYTES + bytes.len();
        let payload = payload.take(is_read);
        self.queue.push_back(Waiting { to, packet: Box::new(*packet), payload, is_read, sent: 0 });
    }

    /// Writes into the frame that is being filled, and gives it the tail that `write` returns. None: there is no buffer, or no room in
    /// the frame.
    fn write(
        &mut self,
        endpoint: &mut Endpoint,
        write: impl FnOnce(&mut Writer<'_>) -> Option<Option<Tail>>,
    ) -> Option<()> {
        if matches!(self.building, Some(Building { tail: Some(_), .. })) {
            return None;
        }
        let Building { buffer, bytes, .. } = match self.building.take() {
            Some(building) => building,
            None => Building { buffer: endpoint.take_buffer()?, bytes: FRAME_HEADER_BYTES, tail: None },
        };
        let frame = endpoint.frame_mut(buffer);
        let room = frame.len() - self.seal_bytes();
        let mut writer = Writer::resume(&mut frame[..room], bytes);
        let written = write(&mut writer);
        let bytes = writer.bytes();
        if bytes == FRAME_HEADER_BYTES {
            endpoint.put_back(buffer);
            return None;
        }
        let is_written = written.is_some();
        self.building = Some(Building { buffer, bytes, tail: written.flatten() });
        is_written.then_some(())
    }

    /// Whether the receiver reads a payload of so many bytes from here.
    fn is_to_be_read(&self, endpoint: &Endpoint, bytes: usize) -> bool {
        let is_long = bytes >= READ_BYTES_MIN || bytes >= READ_BYTES_MIN_OF_SHORT_FRAMES && !endpoint.has_long_frames();
        is_long && endpoint.can_read() && self.check == Check::None
    }

    /// Whether the receiver has to read payloads before more comes.
    fn is_far_ahead(&self) -> bool {
        self.behind >= FRAMES_BEHIND_MAX && !self.readable.is_empty()
    }

    /// Fills the frame from the queue as far as there is room.
    fn fill(&mut self, endpoint: &mut Endpoint) {
        let count = self.to_tell;
        if self.told != count && self.write(endpoint, |writer| writer.read_count(count).map(|()| None)).is_some() {
            self.told = count;
        }
        while !self.is_far_ahead() {
            let Some(mut waiting) = self.queue.pop_front() else { return };
            if waiting.is_read {
                match self.ready(endpoint, &waiting) {
                    Ready::Left => continue,
                    Ready::Later => {
                        self.queue.push_front(waiting);
                        return;
                    }
                    Ready::Refused => waiting.keep_for_frames(),
                }
            }
            let Waiting { to, packet, payload, sent, .. } = &waiting;
            let bytes = payload.bytes();
            let short = self.short_payload_max();
            // What is kept for repeating is no longer than a buffer.
            let longest = if self.window().is_some() { FRAME_BYTES_MAX } else { endpoint.frame_bytes_max() };
            let used = self.building.as_ref().map_or(FRAME_HEADER_BYTES, |building| building.bytes);
            let overhead = used + OVERHEAD_BYTES - FRAME_HEADER_BYTES + self.seal_bytes();
            let most = longest.saturating_sub(overhead);
            if most < CUT_BYTES_MIN && bytes.len() > short {
                self.queue.push_front(waiting);
                return;
            }
            let count = most.min(bytes.len() - *sent);
            let written = self.write(endpoint, |writer| match bytes.len() <= short {
                true => writer.packet(*to, packet, bytes).map(|()| None),
                false => {
                    let tail = Tail { payload: payload.clone(), range: *sent..sent + count };
                    writer.before_tail(*to, (*sent == 0).then_some(packet), count).map(|()| Some(tail))
                }
            });
            if written.is_some() {
                waiting.sent += count;
                let bytes = waiting.payload.bytes().len();
                if waiting.sent == bytes {
                    self.queued_bytes -= PACKET_BYTES + bytes;
                    continue;
                }
            }
            self.queue.push_front(waiting);
            return;
        }
    }

    /// Writes a packet whose payload stays here until the receiver has read it.
    fn ready(&mut self, endpoint: &mut Endpoint, waiting: &Waiting) -> Ready {
        let Waiting { to, packet, payload, .. } = waiting;
        if self.readable.len() >= READABLE_MAX {
            return Ready::Later;
        }
        let Some((exposed, at)) = endpoint.expose(payload) else { return Ready::Refused };
        if self.write(endpoint, |writer| writer.readable(*to, packet, at).map(|()| None)).is_none() {
            endpoint.withdraw(exposed);
            return Ready::Later;
        }
        if self.readable.is_empty() {
            self.behind = 0;
        }
        self.readable.push_back(Readied { exposed, bytes: PACKET_BYTES + payload.bytes().len() });
        Ready::Left
    }

    /// A frame of the peer has come.
    pub fn note_answer(&mut self) {
        self.in_burst = 0;
    }

    /// Tells the number of the program's last rest.
    pub fn note_rest(&mut self, rest: u64) {
        if self.rest != rest {
            (self.rest, self.in_burst) = (rest, 0);
        }
    }

    /// Sends frames: all, or after `push` only if a frame may go at once or there are more packets than fit into one.
    pub fn flush(
        &mut self,
        endpoint: &mut Endpoint,
        all: bool,
        tag: u32,
        settings: &Settings,
    ) -> Result<(), LinkError> {
        // The seal of frames is known once the link is open.
        while self.open().is_some() {
            let limit = if self.repeat(endpoint, tag, settings)? { ON_THE_WAY_MAX } else { 0 };
            self.fill(endpoint);
            let Stage::Open(open) = &mut self.stage else { return Ok(()) };
            let Some(Building { buffer, bytes, tail }) = &self.building else { return Ok(()) };
            let is_burst = self.on_the_way.max(self.in_burst) >= AT_ONCE;
            let waits = !all && self.queue.is_empty() && tail.is_none() && is_burst;
            if waits || self.on_the_way >= limit || open.window.as_ref().is_some_and(|window| !window.takes_more()) {
                return Ok(());
            }
            let writer = Writer::resume(endpoint.frame_mut(*buffer), *bytes);
            let payload = tail.as_ref().map_or(&[][..], Tail::bytes);
            if let Some(window) = &mut open.window {
                // From here on it is sent as a repetition is.
                window.keep(writer.sealed(&open.header, payload, &open.seal), Instant::now());
                endpoint.put_back(*buffer);
                open.header.number += 1;
                self.building = None;
                continue;
            }
            let bytes = writer.finish(&open.header, payload);
            let sent = endpoint.send(*buffer, bytes, tail.as_ref(), open.to, tag);
            if sent.is_ok() {
                open.header.number += 1;
                self.building = None;
            }
            if !self.has_left(sent, settings)? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Counts a frame on its way. False: the endpoint has no room for it.
    fn has_left(&mut self, sent: Result<(), SendError>, settings: &Settings) -> Result<bool, LinkError> {
        match sent {
            Ok(()) => {
                self.on_the_way += 1;
                self.behind += 1;
                self.in_burst += 1;
                self.stuck_since = None;
                Ok(true)
            }
            Err(SendError::Full) => {
                self.note_stuck(settings);
                Ok(false)
            }
            Err(SendError::Broken(why)) => Err(LinkError::Endpoint(why)),
        }
    }

    /// Sends the frames of the window that are to be sent. Returns whether there is room for more.
    fn repeat(&mut self, endpoint: &mut Endpoint, tag: u32, settings: &Settings) -> Result<bool, LinkError> {
        while let Stage::Open(open) = &mut self.stage {
            let Some(window) = &mut open.window else { break };
            let Some(frame) = window.to_send() else { break };
            if self.on_the_way >= ON_THE_WAY_MAX {
                return Ok(false);
            }
            let Some(buffer) = endpoint.take_buffer() else { return Ok(false) };
            let bytes = frame.len();
            endpoint.frame_mut(buffer)[..bytes].copy_from_slice(frame);
            let sent = endpoint.send(buffer, bytes, None, open.to, tag);
            match sent {
                Ok(()) => window.has_sent(),
                Err(_) => endpoint.put_back(buffer),
            }
            if !self.has_left(sent, settings)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reports a link on which nothing leaves, though its control connection is open.
    fn note_stuck(&mut self, settings: &Settings) {
        if self.on_the_way != 0 || self.stuck_reported {
            return;
        }
        let since = *self.stuck_since.get_or_insert_with(Instant::now);
        if since.elapsed() > settings.timeout {
            self.stuck_reported = true;
            let seconds = settings.timeout.as_secs();
            log::warn!(
                "libfabric has taken nothing for a process for {seconds} s: a firewall, or its program makes no calls"
            );
        }
    }

    /// Ends the link. What waits is dropped.
    pub fn close(&mut self, endpoint: Option<&mut Endpoint>) {
        if let Some(endpoint) = endpoint {
            self.building.take().into_iter().for_each(|building| endpoint.put_back(building.buffer));
            self.readable.drain(..).for_each(|readied| endpoint.withdraw(readied.exposed));
        }
        *self = Outgoing::new(self.check);
    }
}

impl Open {
    /// Hears what the receiver says, and finds its end.
    fn advance(&mut self) -> Result<(), LinkError> {
        let ended = self.control.advance();
        while let Some(message) = self.control.take_message()? {
            let now = Instant::now();
            let word = self.hears.hear(&message)?;
            let (Word::Taken(number) | Word::Again(number)) = word else { return Err(GreetingError::Malformed.into()) };
            let heard = match (&mut self.window, word) {
                (Some(window), Word::Taken(_)) => window.taken(number, now),
                (Some(window), _) => window.again(number, now),
                (None, Word::Taken(_)) if number <= self.header.number => Ok(()),
                (None, _) => Err(Impossible),
            };
            heard.map_err(|Impossible| GreetingError::Malformed)?;
            self.taken = self.taken.max(number);
        }
        ended.map_err(|_| LinkError::Ended)
    }
}

fn end_of(end: crate::control::End) -> LinkError {
    match end {
        crate::control::End::Closed => LinkError::Ended,
        crate::control::End::Failed(error) => LinkError::Io(error),
    }
}
