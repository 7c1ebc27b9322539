// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How payloads are read from the memory of peers.
//!
//! An endpoint of its own reads. It has no frames, and can be closed: that is the only way to stop reads of libfabric whose peer says nothing any
//! more. Nothing may be written to memory of the program after its request has failed, however late the peer's host is heard of again. Reads
//! from other peers begin again at a new endpoint; their payloads are still exposed.

use std::collections::HashMap;
use std::net::IpAddr;

use super::{Links, PeerId, State, Turn, Who};
use crate::endpoint::{Destination, Endpoint, EndpointError, Event, SendError};
use crate::frame::NicName;
use crate::outgoing::LinkError;
use crate::read_queue::{Abandoned, Placement, Reads, Ready, ReadyPayload, ToPlace, ToRead};

/// The endpoint that reads.
pub(super) struct Reader {
    endpoint: Endpoint,
    /// The endpoints of peers.
    peers: HashMap<PeerId, Destination>,
    /// Reads under way, by tag.
    under_way: HashMap<u64, PeerId>,
    /// It had no room for a read, for example because it connects.
    is_full: bool,
}

impl Reader {
    fn open(at: IpAddr, provider: &str) -> Result<Reader, EndpointError> {
        let endpoint = Endpoint::open_without_frames(at, Some(provider))?;
        Ok(Reader { endpoint, peers: HashMap::new(), under_way: HashMap::new(), is_full: false })
    }

    pub fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Whether it has to make progress.
    pub fn is_busy(&self) -> bool {
        self.is_full || !self.under_way.is_empty()
    }

    /// Reads completions, and lets libfabric make progress, while there is something to do. Returns whether there may be more.
    pub fn poll(&mut self, events: &mut Vec<Event>) -> bool {
        if !self.is_busy() {
            return false;
        }
        let before = events.len();
        let more = self.endpoint.poll(events);
        for event in &events[before..] {
            if let Event::Read { tag, .. } = event {
                self.under_way.remove(tag);
            }
        }
        more
    }

    /// Reads from a peer, whose endpoint has this name.
    fn read(&mut self, peer: PeerId, name: &[u8], part: &ToRead, tag: u64) -> Result<(), SendError> {
        let from = match self.peers.get(&peer) {
            Some(from) => *from,
            None => {
                let from = self.endpoint.insert(name).map_err(|error| SendError::Broken(error.to_string()))?;
                self.peers.insert(peer, from);
                from
            }
        };
        let started = self.endpoint.read((&part.buffer, part.part.clone()), from, part.at, tag);
        self.is_full = started == Err(SendError::Full);
        started?;
        self.under_way.insert(tag, peer);
        Ok(())
    }
}

impl State {
    /// Stops all reads. Those that are to go on begin again.
    pub(super) fn close_reader(&mut self) {
        if self.reader.take().is_some() {
            self.readers += 1;
        }
    }

    /// Stops reads from a peer. Nothing of it is written anywhere after that.
    pub(super) fn stop_reading_from(&mut self, peer: PeerId) {
        if self.reader.as_ref().is_some_and(|reader| reader.under_way.values().any(|&from| from == peer)) {
            self.close_reader();
        }
    }
}

impl Links {
    /// Starts to read payloads from the memory of peers. A peer without a link from here gets one.
    pub(super) fn read_payloads(&self, turn: &mut Turn, who: Who, failed: &mut Vec<(PeerId, LinkError)>) {
        if turn.waiting.is_empty() {
            return;
        }
        for number in std::mem::take(&mut turn.waiting) {
            while self.place_next(turn, number, who, failed) && self.read_next(turn, number, failed) {}
            self.hand_over_read(turn, number, who);
            let reads = turn.incoming.get_mut(number).and_then(|incoming| incoming.as_mut()?.reads());
            if reads.is_some_and(|reads| !reads.is_empty()) {
                turn.waiting.push(number);
            }
        }
    }

    /// Finds out where the next payload of a link goes. Returns whether there may be something to read.
    fn place_next(&self, turn: &mut Turn, number: usize, who: Who, failed: &mut Vec<(PeerId, LinkError)>) -> bool {
        let Some((peer, reads)) = reads_of(turn, number) else { return false };
        loop {
            let placed = match reads.next_to_place() {
                Ok(None) => return true,
                Ok(Some(ToPlace { to, packet, may_wait })) => {
                    // The thread knows of no call that comes next.
                    let placement = self.sink.place(peer, to, packet, who, may_wait && who == Who::Program);
                    let placed = reads.place(placement);
                    if matches!(placement, Placement::NotYet) {
                        return false;
                    }
                    placed
                }
                Err(error) => Err(error),
            };
            if let Err(error) = placed {
                failed.push((peer, LinkError::Endpoint(error.to_string())));
                return false;
            }
        }
    }

    /// Starts a read for a link. Returns whether it did.
    fn read_next(&self, turn: &mut Turn, number: usize, failed: &mut Vec<(PeerId, LinkError)>) -> bool {
        let Turn { incoming, reads: started, next_read, readers, .. } = turn;
        let Some(Some(incoming)) = incoming.get_mut(number) else { return false };
        let (Some(peer), Some(reads)) = (incoming.peer(), incoming.reads()) else { return false };
        let mut state = self.lock();
        if std::mem::replace(readers, state.readers) != state.readers {
            started.clear();
        }
        reads.restart(state.readers);
        let Some(part) = reads.next_part() else { return false };
        let State { endpoint, reader, peers, .. } = &mut *state;
        let target = &mut peers[peer.0 as usize];
        let (Some(endpoint), false) = (endpoint, target.is_lost) else { return false };
        if target.outgoing.is_closed() {
            if let Err(error) = self.connect(&mut state, peer) {
                failed.push((peer, error));
            }
            return false;
        }
        let Some(name) = target.outgoing.endpoint_name() else { return false };
        let reader = match reader {
            Some(reader) => reader,
            None => match Reader::open(self.settings.at, endpoint.provider()) {
                Ok(opened) => reader.insert(opened),
                Err(error) => {
                    failed.push((peer, LinkError::Endpoint(error.to_string())));
                    return false;
                }
            },
        };
        match reader.read(peer, name, &part, *next_read) {
            Ok(()) => {
                started.insert(*next_read, number);
                reads.started(*next_read);
                *next_read += 1;
                true
            }
            Err(SendError::Full) => false,
            Err(SendError::Broken(why)) => {
                failed.push((peer, LinkError::Endpoint(why)));
                false
            }
        }
    }

    /// Notes that a part of a payload was read, and hands over the packets whose turn has come.
    pub(super) fn take_read(
        &self,
        turn: &mut Turn,
        tag: u64,
        result: Result<(), String>,
        who: Who,
        failed: &mut Vec<(PeerId, LinkError)>,
    ) {
        let Some(number) = turn.reads.remove(&tag) else { return };
        // The link may have ended meanwhile, and another have its number.
        let Some((peer, reads)) = reads_of(turn, number) else { return };
        match result {
            Ok(()) => reads.has_read(tag),
            Err(why) => return failed.push((peer, LinkError::Endpoint(why))),
        }
        self.hand_over_read(turn, number, who);
    }

    /// Hands over the packets of a link whose turn has come.
    fn hand_over_read(&self, turn: &mut Turn, number: usize, who: Who) {
        let Some((peer, reads)) = reads_of(turn, number) else { return };
        let before = reads.count();
        while let Some(Ready { to, packet, payload }) = reads.next() {
            match payload {
                ReadyPayload::Here(payload) => self.sink.packet(peer, to, &packet, &payload, who),
                ReadyPayload::Read(buffer, bytes) => {
                    // SAFETY: `Reads::next` hands it out when the last read of all parts has ended.
                    self.sink.packet(peer, to, &packet, unsafe { buffer.bytes(bytes) }, who);
                }
                ReadyPayload::Placed(number) => self.sink.finish(peer, to, &packet, number, true),
                ReadyPayload::Nowhere => {}
            }
        }
        if reads.count() != before {
            let mut state = self.lock();
            state.peers[peer.0 as usize].outgoing.tell_read(reads.count());
            state.note_busy(peer);
        }
    }

    /// Gives up what a link that ends has placed.
    pub(super) fn abandon_placed(&self, peer: PeerId, reads: &mut Reads) {
        if reads.has_placed(|_| true) {
            self.lock().stop_reading_from(peer);
            self.finish_abandoned(peer, reads.abandon(|_| true));
        }
    }

    /// Stops reading to memory of a NIC of this process. When it returns, nothing is written there any more.
    pub fn let_go(&self, nic: NicName) {
        if self.process != std::process::id() {
            return;
        }
        let mut turn = self.take_turn();
        for number in 0..turn.incoming.len() {
            let Some((peer, reads)) = reads_of(&mut turn, number) else { continue };
            if reads.has_placed(|to| to == nic) {
                let mut state = self.lock();
                state.stop_reading_from(peer);
                reads.restart(state.readers);
                drop(state);
                let abandoned = reads.abandon(|to| to == nic);
                self.finish_abandoned(peer, abandoned);
            }
        }
    }

    fn finish_abandoned(&self, peer: PeerId, abandoned: Vec<Abandoned>) {
        for Abandoned { to, packet, number } in abandoned {
            self.sink.finish(peer, to, &packet, number, false);
        }
    }
}

/// The packets of a link that wait for their payload, and its peer.
fn reads_of(turn: &mut Turn, number: usize) -> Option<(PeerId, &mut Reads)> {
    let incoming = turn.incoming.get_mut(number)?.as_mut()?;
    Some((incoming.peer()?, incoming.reads()?))
}
