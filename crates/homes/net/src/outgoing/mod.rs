// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sender's half of a link: connect, greet, gather packets into frames, send them.
//!
//! | file | has |
//! |---|---|
//! | [`connection`] | the state of the link, and its control connection |
//! | [`queue`], [`exposures`] | packets that wait for a frame; payloads that the receiver has not read yet |
//! | [`pacing`] | the time at which a frame is sent |
//! | this one | frames: filled, sent, repeated |
//!
//! Packets that come before the link is open, or when there is no buffer, wait in its queue.
//!
//! Invariants
//! 1. Packets are sent in the order in which they were handed over, each once.
//! 2. A frame is sent at once if few others were sent since the peer's last frame, or since the program was last at
//!    rest ([`pacing`]). Otherwise it gathers packets until it is full, or one of these happens. So a burst shares
//!    frames, and neither a single packet nor an answer waits.
//! 3. With a check each frame is short, and kept in the [`Window`] until the receiver has taken it. Repetitions precede
//!    new frames.

mod connection;
mod exposures;
mod pacing;
mod queue;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use selvedge_host::links::{Link, add};
use selvedge_nic::packet::HEADER_BYTES as PACKET_BYTES;

use connection::{Connection, Open};
use exposures::{ExposedPacket, Exposures};
use pacing::Pacing;
use queue::{PacketQueue, QueuedPacket};

use crate::endpoint::{Endpoint, Exposed, FRAME_BYTES_MAX, SubmitError, has_long_frames};
use crate::errors::LinkError;
use crate::frame::{FRAME_HEADER_BYTES, FrameError, OVERHEAD_BYTES, Writer};
use crate::ids::NicName;
use crate::payload::{NotMapped, Source, Tail};
use crate::retransmission::Window;
use crate::settings::{Check, Settings};

/// The least room in a frame for a part of a payload: less is not worth a record.
const CUT_BYTES_MIN: usize = 512;
/// The least payload that the receiver reads. A shorter one arrives sooner in frames, because a read costs two more
/// one-way trips. If frames are short, such a payload would take several.
const READ_BYTES_MIN: usize = (64 << 10) + 1;
const READ_BYTES_MIN_OF_SHORT_FRAMES: usize = 24 << 10;

/// The ways of payloads to other hosts, by their length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadWays {
    /// The longest that is copied into a frame. A longer one is sent from its own memory, in one frame or more.
    pub copied_max: usize,
    /// The least that the receiver reads, if the provider can read. None: none is read.
    pub read_min: Option<usize>,
}

impl PayloadWays {
    /// Returns those over a provider of libfabric, by its name.
    pub fn over(provider: &str, check: Check) -> PayloadWays {
        PayloadWays {
            copied_max: copied_bytes_max(check.seal_bytes()),
            read_min: read_bytes_min(check, has_long_frames(provider)),
        }
    }
}

/// The longest payload that is copied into a frame with a seal of this length.
fn copied_bytes_max(seal_bytes: usize) -> usize {
    FRAME_BYTES_MAX - OVERHEAD_BYTES - seal_bytes
}

/// The least payload that the receiver reads, if the provider can read. None: with a check all payloads come in frames.
fn read_bytes_min(check: Check, has_long_frames: bool) -> Option<usize> {
    let least = if has_long_frames { READ_BYTES_MIN } else { READ_BYTES_MIN_OF_SHORT_FRAMES };
    (check == Check::None).then_some(least)
}

/// A packet that will not be sent, and the NIC that it was for.
pub(crate) type UnsentPacket = (NicName, Box<[u8; PACKET_BYTES]>);

enum Announced {
    Written(Exposed),
    Later,
    Refused,
}

/// Room for further frames, in the endpoint and in flight to the peer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Left,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flush {
    All,
    /// Full ones, and those that may be sent at once.
    AtOnce,
}

/// A frame that is being filled, or for which there was no room.
struct Building {
    buffer: usize,
    bytes: usize,
    /// With a tail the frame is complete.
    tail: Option<Tail>,
}

pub(crate) struct Outgoing {
    pub(crate) connection: Connection,
    check: Check,
    queue: PacketQueue,
    building: Option<Building>,
    exposures: Exposures,
    pacing: Pacing,
    /// Number of payloads read on the link in the other direction, and the last number sent to the peer.
    read_count: u64,
    read_count_sent: u64,
    /// Numbers of payloads that the receiver cannot read, of which it was not told yet.
    unreadable: Vec<u64>,
    /// Packets whose payload the program has unmapped, for the sink.
    unsent: Vec<UnsentPacket>,
    /// The counters of the link, for tools.
    link: Option<Link>,
}

impl Outgoing {
    pub fn new(check: Check) -> Outgoing {
        Outgoing {
            connection: Connection::new(),
            check,
            queue: PacketQueue::default(),
            building: None,
            exposures: Exposures::default(),
            pacing: Pacing::default(),
            read_count: 0,
            read_count_sent: 0,
            unreadable: Vec::new(),
            unsent: Vec::new(),
            link: None,
        }
    }

    /// Counts in this record from now on.
    pub fn count_in(&mut self, link: Link) {
        self.link = Some(link);
        self.show_state("");
    }

    /// Returns the counters of the link.
    pub fn link(&self) -> Option<&Link> {
        self.link.as_ref()
    }

    /// Shows the state of the link in its counters, with the reason for it, and the time of its control connection.
    pub fn show_state(&self, why: &str) {
        let Some(link) = &self.link else { return };
        link.set_state(self.connection.shown_state(), why);
        self.show_times();
    }

    /// Shows the round trip of the link, and its queue.
    fn show_times(&self) {
        let Some(link) = &self.link else { return };
        let of_frames = self.window().and_then(Window::round_trip);
        let round_trip = of_frames.or_else(|| self.connection.control()?.round_trip());
        if let Some(round_trip) = round_trip {
            link.sent.round_trip_ns.store(round_trip.as_nanos() as u64, Relaxed);
        }
        self.show_queue();
    }

    fn show_queue(&self) {
        let Some(link) = &self.link else { return };
        let (packets, bytes) = self.queue.waiting();
        link.sent.queue_packets.store(packets as u64, Relaxed);
        link.sent.queue_bytes.store(bytes as u64, Relaxed);
        let in_flight = self.window().map_or(self.pacing.in_flight(), Window::kept);
        link.sent.in_flight.store(in_flight as u64, Relaxed);
    }

    /// Counts a packet that was taken for the link, for the process of this id, if it is known.
    pub fn note_packet(&self, bytes: usize, id: Option<u64>) {
        let Some(link) = &self.link else { return };
        if let Some(id) = id {
            link.set_peer(id);
        }
        add(&link.sent.packets, 1);
        add(&link.sent.packet_bytes, bytes as u64);
    }

    /// Whether packets wait for this link, or frames must be repeated.
    pub fn has_to_send(&self) -> bool {
        let repeats = |window: &Window| window.next_to_send().is_some();
        self.building.is_some()
            || !self.queue.is_empty()
            || self.read_count_sent != self.read_count
            || !(self.unreadable.is_empty() && self.unsent.is_empty())
            || self.window().is_some_and(repeats)
    }

    /// Whether packets wait, frames are in flight, or the receiver has payloads to read.
    pub fn is_sending(&self) -> bool {
        self.has_to_send() || self.pacing.is_in_flight() || !self.exposures.is_empty()
    }

    /// Whether frames are unacknowledged.
    pub fn waits_for_ack(&self) -> bool {
        self.window().is_some_and(|window| !window.is_empty())
    }

    /// Whether the queue has room.
    pub fn has_room(&self) -> bool {
        self.queue.has_room()
    }

    fn window(&self) -> Option<&Window> {
        self.connection.open()?.window.as_ref()
    }

    /// Notes that the receiver has read `count` payloads in all.
    pub fn payloads_read(&mut self, endpoint: Option<&mut Endpoint>, count: u64) -> Result<(), FrameError> {
        let Some(endpoint) = endpoint else { return Ok(()) };
        let released = self.exposures.withdraw_read(endpoint, count)?;
        self.queue.release(released);
        Ok(())
    }

    /// Notes that the program has unmapped a payload that the receiver was to read, for the receiver and for the sink.
    /// Returns whether it is of this link, and new.
    pub fn payload_unmapped(&mut self, exposed: &Exposed) -> bool {
        let Some((ExposedPacket { to, packet, .. }, number)) = self.exposures.unmapped(exposed) else { return false };
        self.unsent.push((*to, packet.clone()));
        self.unreadable.push(number);
        true
    }

    /// Takes the packets whose payload the program has unmapped. Their requests have failed.
    pub fn take_unsent(&mut self) -> Vec<UnsentPacket> {
        std::mem::take(&mut self.unsent)
    }

    /// Sets the number of payloads read on the link in the other direction, for the peer.
    pub fn tell_read_count(&mut self, count: u64) {
        self.read_count = count;
    }

    /// Repeats frames that have been unacknowledged for too long. Returns whether it does.
    pub fn check_timeout(&mut self, now: Instant) -> bool {
        let Some(Open { window: Some(window), .. }) = self.connection.open_mut() else { return false };
        let repeats = window.check_timeout(now);
        if repeats {
            let in_flight = self.pacing.in_flight();
            log::debug!("no acknowledgement of another host: {window:?}, {in_flight} frames in flight");
        }
        repeats
    }

    /// Tells the receiver how many frames were sent, when none has followed for a while.
    pub fn tell_sent(&mut self, now: Instant) {
        if let Some(open) = self.connection.open_mut() {
            open.tell_sent(now);
        }
    }

    /// Whether the link is open and idle: nothing is to be sent, in flight or unacknowledged, and no payload is to be read.
    pub fn is_idle(&self) -> bool {
        self.connection.idle_since().is_some() && !self.is_sending() && !self.waits_for_ack()
    }

    /// Begins to close an idle link. It opens again at the next packet.
    pub fn rest(&mut self) {
        self.connection.rest();
        self.exposures = Exposures::default();
        self.show_state("");
    }

    /// Notes that the peer has opened a new link to this process: payloads read on it count from 0.
    pub fn restart_read_count(&mut self) {
        (self.read_count, self.read_count_sent) = (0, 0);
    }

    /// Announces the end of the link, once. Returns whether frames are unacknowledged.
    pub fn announce_end(&mut self) -> bool {
        self.connection.open_mut().is_some_and(Open::announce_end)
    }

    /// Notes that a frame has completed.
    pub fn frame_completed(&mut self) {
        self.pacing.frame_completed();
        self.show_queue();
    }

    /// Notes that a frame of the peer has come.
    pub fn peer_answered(&mut self) {
        self.pacing.peer_answered();
    }

    /// Notes that the program was at rest for this number of times.
    pub fn note_rest(&mut self, rest: u64) {
        self.pacing.note_rest(rest);
    }

    fn seal_bytes(&self) -> usize {
        self.connection.open().map_or(0, |open| open.seal.bytes())
    }

    /// Returns the length of the longest payload that is copied into a frame, in bytes. A longer one is sent from its
    /// own memory, as the tail of long frames.
    fn short_payload_max(&self) -> usize {
        copied_bytes_max(self.seal_bytes())
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
        let goes_at_once = self.queue.is_empty() && self.connection.is_open() && !self.exposures.is_far_ahead();
        if goes_at_once && bytes.len() <= self.short_payload_max() {
            let written = endpoint
                .as_mut()
                .and_then(|endpoint| self.write(endpoint, |writer| writer.packet(to, packet, bytes).map(|()| None)));
            if written.is_some() {
                return;
            }
        }
        // A payload sent in frames must be this process's own: frames may still be in flight when the peer answers.
        let is_read = endpoint.is_some_and(|endpoint| self.is_to_be_read(endpoint, bytes.len()));
        let payload = payload.take(is_read);
        self.queue.push(QueuedPacket { to, packet: Box::new(*packet), payload, is_read, sent: 0 });
    }

    /// Writes into the frame that is being filled, and gives it the tail that `write` returns. None if there is no
    /// buffer, or no room.
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
        let frame = endpoint.buffer_mut(buffer);
        let room = frame.len() - self.seal_bytes();
        let mut writer = Writer::resume(&mut frame[..room], bytes);
        let written = write(&mut writer);
        let bytes = writer.bytes();
        if bytes == FRAME_HEADER_BYTES {
            endpoint.return_buffer(buffer);
            return None;
        }
        let is_written = written.is_some();
        self.building = Some(Building { buffer, bytes, tail: written.flatten() });
        is_written.then_some(())
    }

    /// Whether the receiver reads a payload of this length.
    fn is_to_be_read(&self, endpoint: &Endpoint, bytes: usize) -> bool {
        let least = read_bytes_min(self.check, endpoint.has_long_frames());
        least.is_some_and(|least| bytes >= least) && endpoint.can_read()
    }

    fn fill(&mut self, endpoint: &mut Endpoint) {
        let count = self.read_count;
        if self.read_count_sent != count
            && self.write(endpoint, |writer| writer.read_count(count).map(|()| None)).is_some()
        {
            self.read_count_sent = count;
        }
        while let Some(&number) = self.unreadable.first() {
            if self.write(endpoint, |writer| writer.unreadable(number).map(|()| None)).is_none() {
                return;
            }
            self.unreadable.remove(0);
        }
        while !self.exposures.is_far_ahead() {
            let Some(mut waiting) = self.queue.pop() else { return };
            if waiting.is_read {
                match self.announce(endpoint, &waiting) {
                    Announced::Written(exposed) => {
                        let (bytes, QueuedPacket { to, packet, .. }) = (waiting.bytes(), waiting);
                        self.exposures.push(ExposedPacket { exposed, bytes, to, packet });
                        continue;
                    }
                    Announced::Later => {
                        self.queue.put_back(waiting);
                        return;
                    }
                    Announced::Refused => waiting.is_read = false,
                }
            }
            // It must be this process's own, as for [`Outgoing::push`].
            let owned = match waiting.payload.own() {
                Ok(owned) => owned,
                Err(NotMapped) => {
                    self.queue.release(waiting.bytes());
                    self.unsent.push((waiting.to, waiting.packet));
                    continue;
                }
            };
            let QueuedPacket { to, packet, sent, .. } = &waiting;
            let bytes = &owned[..];
            let short = self.short_payload_max();
            // A frame that is kept for repetition is no longer than a buffer.
            let longest = if self.window().is_some() { FRAME_BYTES_MAX } else { endpoint.frame_bytes_max() };
            let used = self.building.as_ref().map_or(FRAME_HEADER_BYTES, |building| building.bytes);
            let overhead = used + OVERHEAD_BYTES - FRAME_HEADER_BYTES + self.seal_bytes();
            let most = longest.saturating_sub(overhead);
            if most < CUT_BYTES_MIN && bytes.len() > short {
                self.queue.put_back(waiting);
                return;
            }
            let count = most.min(bytes.len() - *sent);
            let written = self.write(endpoint, |writer| match bytes.len() <= short {
                true => writer.packet(*to, packet, bytes).map(|()| None),
                false => {
                    let tail = Tail { payload: owned.clone(), range: *sent..sent + count };
                    writer.before_tail(*to, (*sent == 0).then_some(packet), count).map(|()| Some(tail))
                }
            });
            if written.is_some() {
                waiting.sent += count;
                if waiting.sent == bytes.len() {
                    self.queue.release(waiting.bytes());
                    continue;
                }
            }
            self.queue.put_back(waiting);
            return;
        }
    }

    /// Writes a packet whose payload stays here until the receiver has read it.
    fn announce(&mut self, endpoint: &mut Endpoint, waiting: &QueuedPacket) -> Announced {
        let QueuedPacket { to, packet, payload, .. } = waiting;
        if self.exposures.is_full() {
            return Announced::Later;
        }
        let Some((exposed, at)) = endpoint.expose(payload) else { return Announced::Refused };
        if self.write(endpoint, |writer| writer.readable(*to, packet, at).map(|()| None)).is_none() {
            endpoint.withdraw(exposed);
            return Announced::Later;
        }
        Announced::Written(exposed)
    }

    /// Sends frames. `tag` is the peer's; each completion returns it.
    pub fn flush(
        &mut self,
        endpoint: &mut Endpoint,
        which: Flush,
        tag: u32,
        settings: &Settings,
    ) -> Result<(), LinkError> {
        let sent = self.send_frames(endpoint, which, tag, settings);
        self.show_queue();
        sent
    }

    fn send_frames(
        &mut self,
        endpoint: &mut Endpoint,
        which: Flush,
        tag: u32,
        settings: &Settings,
    ) -> Result<(), LinkError> {
        // The seal of frames is known only when the link is open.
        while self.connection.is_open() {
            let room = self.repeat(endpoint, tag, settings)?;
            self.fill(endpoint);
            let Some(open) = self.connection.open_mut() else { return Ok(()) };
            let Some(Building { buffer, bytes, tail }) = &self.building else { return Ok(()) };
            let gathers = which == Flush::AtOnce && self.queue.is_empty() && tail.is_none() && self.pacing.is_burst();
            if gathers
                || room == Room::None
                || !self.pacing.has_room()
                || open.window.as_ref().is_some_and(|window| !window.has_room())
            {
                return Ok(());
            }
            let writer = Writer::resume(endpoint.buffer_mut(*buffer), *bytes);
            let payload = tail.as_ref().map_or(&[][..], Tail::bytes);
            if let Some(window) = &mut open.window {
                // The window sends it, like a repetition.
                window.keep(writer.sealed(&open.header, payload, &open.seal), Instant::now());
                endpoint.return_buffer(*buffer);
                open.header.number += 1;
                self.building = None;
                continue;
            }
            let tail_bytes = payload.len();
            let bytes = writer.finish(&open.header, payload);
            let sent = endpoint.send(*buffer, bytes, tail.as_ref(), open.to, tag);
            if sent.is_ok() {
                count_frame(self.link.as_ref(), bytes + tail_bytes, false);
                open.header.number += 1;
                self.building = None;
            }
            if self.count_sent(sent, settings)? == Room::None {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Counts a frame in flight. [`Room::None`]: the endpoint did not take it.
    fn count_sent(&mut self, sent: Result<(), SubmitError>, settings: &Settings) -> Result<Room, LinkError> {
        match sent {
            Ok(()) => {
                self.pacing.frame_sent();
                self.exposures.frame_sent();
                Ok(Room::Left)
            }
            Err(SubmitError::Full) => {
                self.pacing.endpoint_full(settings.timeout);
                Ok(Room::None)
            }
            // Frames are memory of this process.
            Err(SubmitError::Unmapped) => Err(LinkError::Endpoint("a frame is not mapped".to_owned())),
            Err(SubmitError::Broken(why)) => Err(LinkError::Endpoint(why)),
        }
    }

    /// Sends the frames of the window that are due. Returns whether new frames have room.
    fn repeat(&mut self, endpoint: &mut Endpoint, tag: u32, settings: &Settings) -> Result<Room, LinkError> {
        while let Some(open) = self.connection.open_mut() {
            let Some(window) = &mut open.window else { break };
            let Some(frame) = window.next_to_send() else { break };
            if !self.pacing.has_room() {
                return Ok(Room::None);
            }
            let Some(buffer) = endpoint.take_buffer() else { return Ok(Room::None) };
            let bytes = frame.len();
            endpoint.buffer_mut(buffer)[..bytes].copy_from_slice(frame);
            let sent = endpoint.send(buffer, bytes, None, open.to, tag);
            match sent {
                Ok(()) => count_frame(self.link.as_ref(), bytes, window.frame_sent()),
                Err(_) => endpoint.return_buffer(buffer),
            }
            if self.count_sent(sent, settings)? == Room::None {
                return Ok(Room::None);
            }
        }
        Ok(Room::Left)
    }

    /// Ends the link for good, and drops packets that wait.
    pub fn lose(&mut self, endpoint: Option<&mut Endpoint>) {
        if let Some(endpoint) = endpoint {
            self.building.take().into_iter().for_each(|building| endpoint.return_buffer(building.buffer));
            self.exposures.withdraw_all(endpoint);
        }
        let link = self.link.take();
        *self = Outgoing { link, ..Outgoing::new(self.check) };
        self.connection.lose();
    }
}

/// Counts a frame that the endpoint has taken, of `bytes` bytes.
fn count_frame(link: Option<&Link>, bytes: usize, is_repeated: bool) {
    let Some(link) = link else { return };
    add(&link.sent.frames, 1);
    add(&link.sent.frame_bytes, bytes as u64);
    add(&link.sent.repeats, u64::from(is_repeated));
}
