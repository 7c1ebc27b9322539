// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payloads that are read from the memory of peers: placed, read, handed over, abandoned.

use super::progress_state::ProgressState;
use super::shared::Shared;
use crate::endpoint::SubmitError;
use crate::errors::LinkError;
use crate::ids::{NicName, PeerId};
use crate::read_queue::{AbandonedPacket, GiveUp, ReadPayload, ReadQueue, ReadyPacket, Unplaced};
use crate::sink::{PayloadEnd, Placement, ProgressCaller};

impl ProgressState {
    /// Starts to read payloads from the memory of peers. If there is no link to such a peer, makes one.
    pub(super) fn read_payloads(
        &mut self,
        shared: &Shared,
        caller: ProgressCaller,
        failed: &mut Vec<(PeerId, LinkError)>,
    ) {
        if self.waiting.is_empty() {
            return;
        }
        for number in std::mem::take(&mut self.waiting) {
            while self.place_next(shared, number, caller, failed) && self.read_next(shared, number, failed) {}
            self.hand_over_read(shared, number, caller);
            if self.incoming.reads_of(number).is_some_and(|(_, reads)| !reads.is_empty()) {
                self.waiting.push(number);
            }
        }
    }

    /// Asks the sink for the destination of a link's next payload. Returns whether there may be something to read.
    fn place_next(
        &mut self,
        shared: &Shared,
        number: usize,
        caller: ProgressCaller,
        failed: &mut Vec<(PeerId, LinkError)>,
    ) -> bool {
        let Some((peer, reads)) = self.incoming.reads_of(number) else { return false };
        loop {
            let placed = match reads.next_unplaced() {
                Ok(None) => return true,
                Ok(Some(Unplaced { to, packet, may_wait })) => {
                    // The progress thread cannot tell when the program's next call comes.
                    let may_wait = may_wait && caller == ProgressCaller::Program;
                    let placement = shared.sink.place(peer, to, packet, caller, may_wait);
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

    fn read_next(&mut self, shared: &Shared, number: usize, failed: &mut Vec<(PeerId, LinkError)>) -> bool {
        let Some((peer, reads)) = self.incoming.reads_of(number) else { return false };
        let mut senders = shared.lock();
        self.reads.restart(senders.readers_closed());
        reads.restart(senders.readers_closed());
        let Some(part) = reads.next_part() else { return false };
        let link = &senders.peers[peer].outgoing.connection;
        if senders.endpoint.is_none() || link.is_lost() {
            return false;
        }
        if link.endpoint_name().is_none() {
            if link.is_closed() {
                if let Err(error) = shared.connect(&mut senders, peer) {
                    failed.push((peer, error));
                }
            }
            return false;
        }
        let started = match senders.open_reader(shared.settings.at, shared.settings.links_max) {
            Ok(Some((reader, peers))) => {
                let name = peers[peer].outgoing.connection.endpoint_name().unwrap_or_default();
                reader.read(peer, name, &part, self.reads.next_tag())
            }
            Ok(None) => return false,
            Err(error) => {
                failed.push((peer, error));
                return false;
            }
        };
        match started {
            Ok(()) => {
                reads.read_started(self.reads.next_tag());
                self.reads.push(number);
                true
            }
            Err(SubmitError::Full) => false,
            Err(SubmitError::Unmapped) => {
                report_unmapped_place();
                reads.next_place_unmapped();
                true
            }
            Err(SubmitError::Broken(why)) => {
                failed.push((peer, LinkError::Endpoint(why)));
                false
            }
        }
    }

    /// Notes that a part of a payload was read, and hands over the packets whose turn has come.
    pub(super) fn take_read(
        &mut self,
        shared: &Shared,
        (tag, result): (u64, Result<(), String>),
        caller: ProgressCaller,
    ) {
        let Some(number) = self.reads.remove(tag) else { return };
        // The link may have ended meanwhile, and another link may have its number.
        let Some((_, reads)) = self.incoming.reads_of(number) else { return };
        match result {
            Ok(()) => reads.read_ended(tag),
            Err(why) => {
                // If the peer is lost, its control connection ends.
                log::debug!("a payload of another host could not be read: {why}");
                reads.read_failed(tag);
                let mut senders = shared.lock();
                senders.close_reader();
                reads.restart(senders.readers_closed());
                self.reads.restart(senders.readers_closed());
            }
        }
        self.hand_over_read(shared, number, caller);
    }

    /// Notes that the program has unmapped the memory that a read writes to.
    pub(super) fn place_unmapped(&mut self, tag: u64) {
        let link = self.reads.link_of(tag).and_then(|number| self.incoming.reads_of(number));
        if let Some((_, reads)) = link {
            report_unmapped_place();
            reads.place_unmapped(tag);
        }
    }

    fn hand_over_read(&mut self, shared: &Shared, number: usize, caller: ProgressCaller) {
        let Some((peer, reads)) = self.incoming.reads_of(number) else { return };
        let before = reads.completed();
        while let Some(ReadyPacket { to, packet, payload }) = reads.next() {
            match payload {
                ReadPayload::Here(payload) => shared.sink.packet(peer, to, &packet, &payload, caller),
                ReadPayload::Read(buffer, bytes) => {
                    // SAFETY: `ReadQueue::next` hands it out when the last read of all parts has ended.
                    shared.sink.packet(peer, to, &packet, unsafe { buffer.bytes(bytes) }, caller);
                }
                ReadPayload::Placed(number) => shared.sink.finish(peer, to, &packet, number, PayloadEnd::Here),
                ReadPayload::Nowhere => {}
                ReadPayload::GivenUp(Some(number), GiveUp::Unreadable) => {
                    shared.sink.finish(peer, to, &packet, number, PayloadEnd::Lost);
                }
                ReadPayload::GivenUp(Some(number), GiveUp::PlaceUnmapped) => {
                    shared.sink.finish(peer, to, &packet, number, PayloadEnd::Unmapped);
                }
                ReadPayload::GivenUp(None, _) => shared.sink.give_up(peer, to, &packet),
            }
        }
        if reads.completed() != before {
            let mut senders = shared.lock();
            senders.peers[peer].outgoing.tell_read_count(reads.completed());
            senders.peers.mark_busy(peer);
        }
    }

    /// Stops reads into memory of a NIC of this process. When it returns, nothing is written there any more.
    pub(super) fn stop_reading_to(&mut self, shared: &Shared, nic: NicName) {
        for number in self.incoming.numbers() {
            let Some((peer, reads)) = self.incoming.reads_of(number) else { continue };
            if reads.has_placed(|to| to == nic) {
                let mut senders = shared.lock();
                senders.stop_reading_from(peer);
                reads.restart(senders.readers_closed());
                drop(senders);
                let abandoned = reads.abandon(|to| to == nic);
                finish_abandoned(shared, peer, abandoned);
            }
        }
    }
}

fn report_unmapped_place() {
    log::error!("the program has unmapped memory to which a message of another host goes; the message fails");
}

/// Gives up the placed packets of a link that ends.
pub(super) fn abandon_placed(shared: &Shared, peer: PeerId, reads: &mut ReadQueue) {
    if reads.has_placed(|_| true) {
        shared.lock().stop_reading_from(peer);
        finish_abandoned(shared, peer, reads.abandon(|_| true));
    }
}

fn finish_abandoned(shared: &Shared, peer: PeerId, abandoned: Vec<AbandonedPacket>) {
    for AbandonedPacket { to, packet, number } in abandoned {
        shared.sink.finish(peer, to, &packet, number, PayloadEnd::Lost);
    }
}
