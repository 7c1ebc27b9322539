// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages that travel as packets. They stay with their sender until their target has taken them.
//!
//! A target without room closes the portal table entry and refuses the message. The sender learns this when more
//! messages are already in flight, and there may be room for those. So each message carries the *epoch* of the portal
//! table entry ([`selvedge_nic::tables::Request::epoch`]). A message that follows a refused one carries an old epoch
//! and is refused, too. When the last reply has come, the refused messages are sent again in their order: the first
//! alone, then more at once as they are taken.
//!
//! Invariants
//! 1. All messages in flight to one portal table entry are of one epoch. After a refusal nothing is sent there until
//!    all of them have been answered.
//! 2. Refused messages go before later ones. Meanwhile new sends get `-FI_EAGAIN`.
//! 3. A message in flight keeps its record until its reply comes, even if its endpoint is closed. Until then its number
//!    is not used again.
//!
//! A refused sender tries again after a pause. Each further refusal makes the pause longer. In virtual time it may
//! become so long that the simulator detects a deadlocked job.
//!
//! Messages that are delivered directly have no cost here. A message in flight keeps its command, 168 bytes.

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use selvedge_host::StartError;
use selvedge_host::direct::DirectOutcome;
use selvedge_nic::portals::{Event, fail};

use crate::bindings::{Bindings, Side};
use crate::flags::{EAGAIN, EFAULT, EHOSTDOWN, EIO};
use crate::flow::{Flow, PAUSE_FIRST, PAUSE_LONGEST, PAUSE_LONGEST_SIMULATED};
use crate::message::{Outgoing, Stage, stays_here};
use crate::operation::Operation;
use crate::ticket::Ticket;
use crate::transfer::Note;
use crate::transport::Transport;

/// How long closing an endpoint waits for the replies to injected messages, and for messages that were refused.
const FLUSH: Duration = Duration::from_secs(1);
const FLUSH_RETRIES: Duration = Duration::from_secs(60);
/// The same in virtual time, where other ranks may compute for long.
const FLUSH_SIMULATED: Duration = Duration::from_secs(1 << 20);

impl Transport {
    /// Sends a message as a packet.
    pub(crate) fn send_packet(&mut self, number: usize) -> Result<(), c_int> {
        let Transport { operations, flows, interface, peers, .. } = self;
        let Some(Operation::Send(outgoing)) = operations.get_mut(number) else { return Ok(()) };
        let place = (outgoing.peer, outgoing.command.request.portal);
        let at = *flows.by_place.entry(place).or_insert_with(|| {
            flows.list.push(Flow::new());
            flows.list.len() as u32 - 1
        });
        let flow = &mut flows.list[at as usize];
        outgoing.command.request.operand[1] = flow.epoch;
        match interface.start_now(&outgoing.command) {
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
            Err(StartError::Memory) => Err(EFAULT),
            Err(StartError::NoSpace) => Err(EAGAIN),
        }
    }

    /// Handles the reply to a message that travelled as a packet.
    pub(crate) fn send_acknowledged(&mut self, number: usize, event: &Event) {
        let longest = self.longest_pause();
        let Transport { operations, flows, peers, .. } = self;
        let Some(Operation::Send(outgoing)) = operations.get_mut(number) else { return };
        let Some(flow) = flows.of(outgoing.peer, outgoing.command.request.portal) else { return };
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
                    flows.retries += 1;
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
        let error = match event.fail {
            // A fault in the receive's memory also ends the send: it is the receiver's error, and the receiver gets an
            // event.
            fail::OK | fail::SEGV => 0,
            _ if outgoing.fetched => 0,
            fail::UNDELIVERABLE => EHOSTDOWN,
            _ => EIO,
        };
        self.end_send(number, error);
    }

    /// Ends a send, with success or an error.
    pub(crate) fn end_send(&mut self, number: usize, error: c_int) {
        match self.take_send(number) {
            Some(ticket) if ticket.bindings.is_null() => {}
            Some(ticket) if error == 0 => self.sent(&ticket),
            Some(ticket) => self.fail(&ticket, Side::Transmit, ticket.completion(), 0, error),
            None => {}
        }
    }

    fn longest_pause(&self) -> Duration {
        if self.interface.is_simulated() { PAUSE_LONGEST_SIMULATED } else { PAUSE_LONGEST }
    }

    /// Sends refused messages again when their pause is over.
    #[cold]
    pub(crate) fn send_refused(&mut self) {
        let now = Instant::now();
        for at in 0..self.flows.list.len() {
            while let Some(flow) = self.flows.list.get_mut(at) {
                if flow.retries.is_empty() || flow.again_at.is_some_and(|again| now < again) || !flow.is_open() {
                    break;
                }
                let Some((sequence, number)) = flow.retries.pop_front() else { break };
                let epoch = flow.epoch;
                let again = self.send_again(number, epoch);
                let longest = self.longest_pause();
                let flow = &mut self.flows.list[at];
                match again {
                    Again::Gone => self.flows.retries -= 1,
                    Again::Taken => {
                        self.flows.retries -= 1;
                        flow.accept();
                    }
                    Again::Refused(epoch) => {
                        flow.retries.push_front((sequence, number));
                        flow.refuse(epoch, longest);
                    }
                    Again::NoSpace => {
                        flow.retries.push_front((sequence, number));
                        flow.rest(longest);
                        break;
                    }
                }
            }
        }
    }

    /// Sends one refused message again.
    fn send_again(&mut self, number: usize, epoch: u64) -> Again {
        let Some(Operation::Send(outgoing)) = self.operations.get_mut(number) else { return Again::Gone };
        outgoing.command.request.operand[1] = epoch;
        let (command, owner) = (outgoing.command, outgoing.target.1);
        let Some(peer) = self.peers.get(outgoing.peer) else { return Again::Gone };
        let error = match self.interface.deliver_now(&command, owner, peer.ring()) {
            DirectOutcome::Done(delivery) => match delivery.fail {
                fail::PT_DISABLED => return Again::Refused(delivery.remote_offset),
                fail::OK if stays_here(&command, delivery.list) => {
                    outgoing.stage = Stage::Waits;
                    return Again::Taken;
                }
                fail::OK | fail::SEGV => {
                    self.end_send(number, 0);
                    return Again::Taken;
                }
                _ => EIO,
            },
            DirectOutcome::Full => return Again::NoSpace,
            DirectOutcome::Gone => EHOSTDOWN,
            DirectOutcome::Memory => EFAULT,
            DirectOutcome::OutOfReach => match self.send_packet(number) {
                Ok(()) => return Again::Gone,
                Err(EAGAIN) => return Again::NoSpace,
                Err(error) => error,
            },
        };
        self.end_send(number, error);
        Again::Gone
    }

    /// Cancels a refused message with this context.
    pub(crate) fn cancel_refused(&mut self, bindings: *mut Bindings, context: *mut c_void) -> Option<Ticket> {
        let is_it = |outgoing: &Outgoing| {
            outgoing.stage == Stage::Refused
                && outgoing.ticket.bindings == bindings
                && outgoing.ticket.context == context
                && !outgoing.is_injected
        };
        let number = self.operations.iter().find_map(|(number, operation)| match operation {
            Operation::Send(outgoing) if is_it(outgoing) => Some(number),
            _ => None,
        })?;
        self.drop_retries(|other| other == number);
        self.take_send(number)
    }

    /// Removes the refused messages with these numbers.
    fn drop_retries(&mut self, mut picks: impl FnMut(usize) -> bool) {
        for flow in &mut self.flows.list {
            flow.retries.retain(|&(_, number)| !picks(number));
        }
        self.flows.retries = self.flows.list.iter().map(|flow| flow.retries.len()).sum();
    }

    /// Called before an endpoint is closed. Its injected messages get some time to arrive, because the program no
    /// longer has their payload. After that nothing more is sent for the endpoint, and replies to its messages in
    /// flight are ignored.
    pub(crate) fn close_flows(&mut self, bindings: *mut Bindings) {
        let begin = Instant::now();
        loop {
            let (left, refused) = self.injected(bindings);
            let patience = match (refused, self.interface.is_simulated()) {
                (_, true) => FLUSH_SIMULATED,
                (true, false) => FLUSH_RETRIES,
                (false, false) => FLUSH,
            };
            if left == 0 || begin.elapsed() >= patience {
                if refused {
                    log::warn!("{left} messages were not sent: their targets have had no room for {patience:?}");
                }
                break;
            }
            self.progress();
            match self.interface.is_simulated() {
                true => self.interface.poll(),
                false => std::thread::sleep(PAUSE_FIRST),
            }
        }
        let mut dropped = Vec::new();
        for (number, operation) in &mut self.operations {
            match operation {
                Operation::Send(outgoing) if outgoing.ticket.bindings == bindings => match outgoing.stage {
                    Stage::Waits => {}
                    Stage::UnderWay => outgoing.ticket.bindings = std::ptr::null_mut(),
                    Stage::Refused => dropped.push(number),
                },
                _ => {}
            }
        }
        if !dropped.is_empty() {
            self.drop_retries(|number| dropped.contains(&number));
        }
    }

    /// The number of an endpoint's injected messages that have not arrived at other processes, of its messages and accesses that use its
    /// program's memory (to other hosts, and over the units), and of its notifications of writes that have not left; and whether any message was refused.
    fn injected(&mut self, bindings: *mut Bindings) -> (usize, bool) {
        let Transport { operations, flows, peers, interface, notes, hosts, .. } = self;
        let is_to_other = |peer: u32| peers.get(peer).is_some_and(|peer| peer.owner != interface.word());
        let is_left = |(note, ticket): &&(Note, Ticket)| ticket.bindings == bindings && is_to_other(note.peer);
        let (mut left, mut refused) = (notes.iter().filter(is_left).count(), false);
        for (_, operation) in operations.iter() {
            if let Operation::Remote(pending) = operation {
                let is_lent = pending.left != 0 && hosts.is_some();
                let uses_memory = pending.over_units.is_some() || is_lent;
                left += usize::from(uses_memory && pending.ticket.bindings == bindings);
            }
            let Operation::Send(outgoing) = operation else { continue };
            // A payload that waits under a token here is lost with its endpoint. One that is got over the units would have been
            // delivered at once by packet, so it is waited for.
            let is_under_way = outgoing.stage != Stage::Waits || outgoing.token != 0;
            // Another host may still read the payload from the program's memory.
            let is_lent = outgoing.stage == Stage::UnderWay && interface.is_elsewhere(outgoing.target.0);
            let is_its = outgoing.ticket.bindings == bindings && (outgoing.is_injected && is_under_way || is_lent);
            // Messages to this process are not counted: they may wait for this very thread.
            let is_own = peers.get(outgoing.peer).is_none_or(|peer| peer.owner == interface.word());
            if is_its && !is_own {
                left += 1;
                let flow = flows.of(outgoing.peer, outgoing.command.request.portal);
                refused |= flow.is_some_and(|flow| flow.refused.is_some() || !flow.retries.is_empty());
            }
        }
        (left, refused)
    }
}

/// The outcome of sending a message again.
enum Again {
    /// It is in flight, or has ended with an error.
    Gone,
    /// The target has taken it.
    Taken,
    /// The target refused it; its portal table entry has this epoch.
    Refused(u64),
    NoSpace,
}
