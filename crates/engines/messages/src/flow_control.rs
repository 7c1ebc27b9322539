// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that travel as packets. The sender keeps them until their target has taken them.
//!
//! A target without room closes the portal table entry and refuses the message. The sender learns this when more
//! messages are already in flight, and there may be room for those. So each message carries the *epoch* of the portal
//! table entry ([`selvedge_nic::tables::Request::epoch`]). A message that follows a refused one carries an old epoch
//! and is refused, too. After the last reply, the refused messages are sent again in order: the first alone, then more
//! at once as they are taken.
//!
//! Invariants
//! 1. All messages in flight to one portal table entry are of one epoch. After a refusal nothing is sent there until
//!    all of them have been answered.
//! 2. Refused messages go before later ones. Meanwhile new sends get `-FI_EAGAIN`.
//! 3. A message in flight keeps its record until its reply comes, even if its endpoint is closed. So its number is not
//!    reused.
//!
//! A refused sender tries again after a pause. Each further refusal makes the pause longer. In virtual time it may
//! become so long that the simulator detects a deadlocked job.
//!
//! Messages that are delivered directly have no cost here. A message in flight keeps its command, 168 bytes.

use std::ffi::c_void;
use std::time::{Duration, Instant};

use selvedge_host::StartError;
use selvedge_host::direct::DirectOutcome;
use selvedge_nic::portals::{Event, fail};

use crate::bindings::Bindings;
use crate::error::{Fault, Refusal};
use crate::flow::{Flow, Flows, PAUSE_LONGEST, PAUSE_LONGEST_SIMULATED};
use crate::in_flight::InFlight;
use crate::message::{Outgoing, Stage, stays_here};
use crate::ticket::Ticket;

impl Flows {
    /// Sends a message as a packet.
    pub fn send_packet(&mut self, flight: &mut InFlight, number: usize) -> Result<(), Refusal> {
        let InFlight { operations, nic, peers, .. } = flight;
        let Flows { list, by_place, .. } = self;
        let Some(outgoing) = operations.send(number) else { return Ok(()) };
        let place = (outgoing.peer, outgoing.command.request.portal);
        let at = *by_place.entry(place).or_insert_with(|| {
            list.push(Flow::new());
            list.len() as u32 - 1
        });
        let flow = &mut list[at as usize];
        outgoing.command.request.operand[1] = flow.epoch;
        match nic.interface.start_now(&outgoing.command) {
            Ok(()) => {
                if outgoing.stage != Stage::Refused {
                    outgoing.sequence = flow.sequence;
                    flow.sequence += 1;
                }
                outgoing.stage = Stage::UnderWay;
                flow.under_way += 1;
                peers.packet_left(outgoing.peer);
                Ok(())
            }
            Err(StartError::Memory) => Err(Refusal::NotMapped),
            Err(StartError::NoSpace) => Err(Refusal::NoRoom),
            Err(StartError::Shortage) => Err(Refusal::NoMemory),
        }
    }

    /// Handles the reply to a message that travelled as a packet.
    pub fn send_acknowledged(&mut self, flight: &mut InFlight, number: usize, event: &Event) {
        let longest = longest_pause(flight);
        let InFlight { operations, peers, .. } = flight;
        let Some(outgoing) = operations.send(number) else { return };
        let Some(flow) = self.of(outgoing.peer, outgoing.command.request.portal) else { return };
        if outgoing.stage != Stage::UnderWay {
            return;
        }
        flow.under_way = flow.under_way.saturating_sub(1);
        peers.packet_answered(outgoing.peer);
        outgoing.stage = Stage::Waits;
        match event.fail {
            fail::PT_DISABLED => {
                flow.refuse(event.remote_offset, longest);
                if !outgoing.is_forgotten() {
                    flow.keep(outgoing.sequence, number);
                    outgoing.stage = Stage::Refused;
                    self.retries += 1;
                    return;
                }
            }
            fail::OK | fail::SEGV => flow.accept(),
            _ => {}
        }
        let waits = event.fail == fail::OK && stays_here(&outgoing.command, event.list);
        if waits && !outgoing.fetched && !outgoing.is_forgotten() {
            return;
        }
        let outcome = match event.fail {
            // A fault in the receive's memory also ends the send: it is the receiver's error, reported to it.
            fail::OK | fail::SEGV => Ok(()),
            _ if outgoing.fetched => Ok(()),
            fail::UNDELIVERABLE => Err(Fault::PeerGone),
            _ => Err(Fault::Other),
        };
        flight.end_send(number, outcome);
    }

    /// Sends refused messages again when their pause is over.
    #[cold]
    pub fn send_refused(&mut self, flight: &mut InFlight) {
        let now = Instant::now();
        for at in 0..self.list.len() {
            while let Some(flow) = self.list.get_mut(at) {
                if flow.retries.is_empty() || flow.again_at.is_some_and(|again| now < again) || !flow.is_open() {
                    break;
                }
                let Some((sequence, number)) = flow.retries.pop_front() else { break };
                let epoch = flow.epoch;
                let again = self.send_again(flight, number, epoch);
                let longest = longest_pause(flight);
                let flow = &mut self.list[at];
                match again {
                    RetryOutcome::Gone => self.retries -= 1,
                    RetryOutcome::Taken => {
                        self.retries -= 1;
                        flow.accept();
                    }
                    RetryOutcome::Refused(epoch) => {
                        flow.retries.push_front((sequence, number));
                        flow.refuse(epoch, longest);
                    }
                    RetryOutcome::NoSpace => {
                        flow.retries.push_front((sequence, number));
                        flow.rest(longest);
                        break;
                    }
                }
            }
        }
    }

    fn send_again(&mut self, flight: &mut InFlight, number: usize, epoch: u64) -> RetryOutcome {
        let InFlight { operations, nic, peers, .. } = flight;
        let Some(outgoing) = operations.send(number) else { return RetryOutcome::Gone };
        outgoing.command.request.operand[1] = epoch;
        let (command, owner) = (outgoing.command, outgoing.target.1);
        let Some(peer) = peers.get(outgoing.peer) else { return RetryOutcome::Gone };
        let fault = match nic.interface.deliver_now(&command, owner, peer.ring()) {
            DirectOutcome::Done(delivery) => match delivery.fail {
                fail::PT_DISABLED => return RetryOutcome::Refused(delivery.remote_offset),
                fail::OK if stays_here(&command, delivery.list) => {
                    outgoing.stage = Stage::Waits;
                    return RetryOutcome::Taken;
                }
                fail::OK | fail::SEGV => {
                    flight.end_send(number, Ok(()));
                    return RetryOutcome::Taken;
                }
                _ => Fault::Other,
            },
            DirectOutcome::Full => return RetryOutcome::NoSpace,
            DirectOutcome::Gone => Fault::PeerGone,
            DirectOutcome::Memory => Fault::NotMapped,
            DirectOutcome::OutOfReach => match self.send_packet(flight, number) {
                Ok(()) => return RetryOutcome::Gone,
                Err(Refusal::NoRoom) => return RetryOutcome::NoSpace,
                Err(_) => Fault::NotMapped,
            },
        };
        flight.end_send(number, Err(fault));
        RetryOutcome::Gone
    }

    /// Cancels a refused message with this context.
    pub fn cancel_refused(
        &mut self,
        flight: &mut InFlight,
        bindings: *mut Bindings,
        context: *mut c_void,
    ) -> Option<Ticket> {
        let is_it = |outgoing: &Outgoing| {
            outgoing.stage == Stage::Refused
                && outgoing.ticket.bindings == bindings
                && outgoing.ticket.context == context
                && !outgoing.is_injected
        };
        let (number, _) = flight.operations.all_sends().find(|(_, outgoing)| is_it(outgoing))?;
        self.drop_retries(|other| other == number);
        flight.take_send(number).map(|outgoing| outgoing.ticket)
    }

    fn drop_retries(&mut self, mut picks: impl FnMut(usize) -> bool) {
        for flow in &mut self.list {
            flow.retries.retain(|&(_, number)| !picks(number));
        }
        self.retries = self.list.iter().map(|flow| flow.retries.len()).sum();
    }

    /// Returns the number of an endpoint's messages under way to other processes that are injected or use its program's
    /// memory (to other hosts, and over the units), and whether any was refused.
    pub fn unfinished(&mut self, flight: &InFlight, bindings: *mut Bindings) -> (usize, bool) {
        let InFlight { nic, operations, peers, .. } = flight;
        let interface = &nic.interface;
        let (mut left, mut refused) = (0, false);
        for (_, outgoing) in operations.all_sends() {
            // A payload that waits under a token here is lost with its endpoint. A payload that is fetched over the
            // units would have been delivered at once by packet, so closing waits for it.
            let is_under_way = outgoing.stage != Stage::Waits || outgoing.token != 0;
            // Another host may still read the payload from the program's memory.
            let is_lent = outgoing.stage == Stage::UnderWay && interface.is_remote(outgoing.target.0);
            let is_its = outgoing.ticket.bindings == bindings && (outgoing.is_injected && is_under_way || is_lent);
            // Messages to this process are not counted: this thread may have to receive them.
            let is_own = peers.get(outgoing.peer).is_none_or(|peer| peer.owner == interface.word());
            if is_its && !is_own {
                left += 1;
                let flow = self.of(outgoing.peer, outgoing.command.request.portal);
                refused |= flow.is_some_and(|flow| flow.refused.is_some() || !flow.retries.is_empty());
            }
        }
        (left, refused)
    }

    /// Removes an endpoint that is closed. Nothing more is sent for it, and replies to its messages are ignored.
    pub fn forget_endpoint(&mut self, flight: &mut InFlight, bindings: *mut Bindings) {
        let mut dropped = Vec::new();
        for (number, outgoing) in flight.operations.all_sends_mut() {
            match outgoing.stage {
                _ if outgoing.ticket.bindings != bindings => {}
                Stage::Waits => {}
                Stage::UnderWay => outgoing.ticket.bindings = std::ptr::null_mut(),
                Stage::Refused => dropped.push(number),
            }
        }
        if !dropped.is_empty() {
            self.drop_retries(|number| dropped.contains(&number));
        }
    }
}

fn longest_pause(flight: &InFlight) -> Duration {
    if flight.nic.interface.is_simulated() { PAUSE_LONGEST_SIMULATED } else { PAUSE_LONGEST }
}

enum RetryOutcome {
    /// The message is in flight, or has ended with an error.
    Gone,
    /// The target has taken it.
    Taken,
    /// The target refused it. The portal table entry has this epoch.
    Refused(u64),
    /// There is no room now.
    NoSpace,
}
