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

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use selvedge_nic::portals::{Event, fail};
use selvedge_shm::direct::Told;
use selvedge_shm::engine::StartError;

use super::send::{Outgoing, own_entry, stays_here};
use super::{Core, Operation, Side, Ticket};
use crate::constants::*;
use crate::endpoint::Endpoint;
use crate::warn_line;

/// The first pause after a refusal, and the longest, live and in virtual time.
const PAUSE_FIRST: Duration = Duration::from_micros(10);
const PAUSE_LONGEST: Duration = Duration::from_millis(1);
const PAUSE_LONGEST_SIMULATED: Duration = Duration::from_secs(3600);
/// How long closing an endpoint waits for the replies to injected messages, and for messages that were refused.
const FLUSH: Duration = Duration::from_secs(1);
const FLUSH_KEPT: Duration = Duration::from_secs(60);
/// The same in virtual time, where other ranks may compute for long.
const FLUSH_SIMULATED: Duration = Duration::from_secs(1 << 20);

/// The stage of a message that did not go through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its header is at the target, its payload here.
    Waits,
    /// The message or its reply is in flight.
    UnderWay,
    /// The target refused it for lack of room.
    Kept,
}

/// The messages to one portal table entry of a peer.
struct Flow {
    /// The epoch of the messages in flight.
    epoch: u64,
    under_way: u32,
    /// How many may be in flight.
    window: u32,
    /// The number of messages sent.
    sequence: u64,
    /// The refused messages: their sequence numbers and the numbers of their operations.
    kept: VecDeque<(u64, usize)>,
    /// The epoch of the portal table entry after a refusal.
    refused: Option<u64>,
    pause: Duration,
    /// Refused messages are not sent again before this time.
    again_at: Option<Instant>,
}

impl Flow {
    fn new() -> Flow {
        Flow {
            epoch: 1,
            under_way: 0,
            window: u32::MAX,
            sequence: 0,
            kept: VecDeque::new(),
            refused: None,
            pause: PAUSE_FIRST,
            again_at: None,
        }
    }

    /// Whether another message may be sent.
    fn is_open(&mut self) -> bool {
        if self.under_way == 0 {
            if let Some(epoch) = self.refused.take() {
                (self.epoch, self.window) = (epoch, 1);
            }
        }
        self.refused.is_none() && self.under_way < self.window
    }

    fn accept(&mut self) {
        self.window = self.window.saturating_add(1);
        self.pause = PAUSE_FIRST;
    }

    fn refuse(&mut self, epoch: u64, longest: Duration) {
        if self.refused.is_none() {
            self.rest(longest);
        }
        self.refused = Some(epoch);
    }

    /// Starts a pause, and makes the next one an eighth longer. So a sender wakes at most that fraction too late.
    fn rest(&mut self, longest: Duration) {
        self.again_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause + self.pause / 8).min(longest);
    }

    fn keep(&mut self, sequence: u64, number: usize) {
        let behind = self.kept.iter().rev().take_while(|kept| kept.0 > sequence).count();
        self.kept.insert(self.kept.len() - behind, (sequence, number));
    }
}

/// All flows of a domain, one for each portal table entry to which a packet has gone.
#[derive(Default)]
pub struct Flows {
    list: Vec<Flow>,
    /// By peer and portal table entry.
    by_place: HashMap<(u32, u32), u32>,
    /// The number of refused messages in all flows.
    kept: usize,
}

impl Flows {
    /// Whether there are refused messages.
    #[inline(always)]
    pub fn keep_any(&self) -> bool {
        self.kept != 0
    }

    fn of(&mut self, peer: u32, portal: u32) -> Option<&mut Flow> {
        if self.list.is_empty() {
            return None;
        }
        let flow = *self.by_place.get(&(peer, portal))?;
        self.list.get_mut(flow as usize)
    }

    /// The epoch for a message to a portal table entry; 0 if no packet has gone there. None: earlier messages go first.
    pub fn epoch_now(&mut self, peer: u32, portal: u32) -> Option<u64> {
        let Some(flow) = self.of(peer, portal) else { return Some(0) };
        (flow.kept.is_empty() && flow.is_open()).then_some(flow.epoch)
    }

    /// Records a refusal within the call. The message is not kept.
    pub fn refuse(&mut self, peer: u32, portal: u32, epoch: u64) {
        if let Some(flow) = self.of(peer, portal) {
            flow.refuse(epoch, PAUSE_LONGEST);
        }
    }
}

impl Core {
    /// Sends a message as a packet.
    pub(super) fn send_packet(&mut self, number: usize) -> Result<(), c_int> {
        let Core { operations, flows, interface, .. } = self;
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
                if outgoing.stage != Stage::Kept {
                    outgoing.sequence = flow.sequence;
                    flow.sequence += 1;
                }
                outgoing.stage = Stage::UnderWay;
                flow.under_way += 1;
                Ok(())
            }
            Err(StartError::Memory) => Err(EFAULT),
            Err(StartError::NoSpace) => Err(EAGAIN),
        }
    }

    /// Handles the reply to a message that travelled as a packet.
    pub(super) fn send_acknowledged(&mut self, number: usize, event: &Event) {
        let longest = self.longest_pause();
        let Core { operations, flows, .. } = self;
        let Some(Operation::Send(outgoing)) = operations.get_mut(number) else { return };
        let Some(flow) = flows.of(outgoing.peer, outgoing.command.request.portal) else { return };
        if outgoing.stage != Stage::UnderWay {
            return;
        }
        flow.under_way = flow.under_way.saturating_sub(1);
        outgoing.stage = Stage::Waits;
        match event.fail {
            fail::PT_DISABLED => {
                flow.refuse(event.remote_offset, longest);
                if !outgoing.is_forgotten() {
                    flow.keep(outgoing.sequence, number);
                    outgoing.stage = Stage::Kept;
                    flows.kept += 1;
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
    pub(super) fn end_send(&mut self, number: usize, error: c_int) {
        match self.take_send(number) {
            Some(ticket) if ticket.endpoint.is_null() => {}
            Some(ticket) if error == 0 => self.sent(&ticket),
            Some(ticket) => self.fail(&ticket, Side::Transmit, own_entry(&ticket), 0, error),
            None => {}
        }
    }

    fn longest_pause(&self) -> Duration {
        if self.is_simulated { PAUSE_LONGEST_SIMULATED } else { PAUSE_LONGEST }
    }

    /// Sends refused messages again when their pause is over.
    #[cold]
    pub(super) fn send_kept(&mut self) {
        let now = Instant::now();
        for at in 0..self.flows.list.len() {
            while let Some(flow) = self.flows.list.get_mut(at) {
                if flow.kept.is_empty() || flow.again_at.is_some_and(|again| now < again) || !flow.is_open() {
                    break;
                }
                let Some((sequence, number)) = flow.kept.pop_front() else { break };
                let epoch = flow.epoch;
                let again = self.send_again(number, epoch);
                let longest = self.longest_pause();
                let flow = &mut self.flows.list[at];
                match again {
                    Again::Gone => self.flows.kept -= 1,
                    Again::Taken => {
                        self.flows.kept -= 1;
                        flow.accept();
                    }
                    Again::Refused(epoch) => {
                        flow.kept.push_front((sequence, number));
                        flow.refuse(epoch, longest);
                    }
                    Again::NoSpace => {
                        flow.kept.push_front((sequence, number));
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
        let Some(peer) = self.peers.get(outgoing.peer as usize) else { return Again::Gone };
        let error = match self.interface.deliver_now(&command, owner, peer.lane()) {
            Told::Done(delivery) => match delivery.fail {
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
            Told::Full => return Again::NoSpace,
            Told::Gone => EHOSTDOWN,
            Told::Memory => EFAULT,
            Told::Elsewhere => match self.send_packet(number) {
                Ok(()) => return Again::Gone,
                Err(EAGAIN) => return Again::NoSpace,
                Err(error) => error,
            },
        };
        self.end_send(number, error);
        Again::Gone
    }

    /// Cancels a refused message with this context.
    pub(super) fn cancel_kept(&mut self, endpoint: *mut Endpoint, context: *mut c_void) -> Option<Ticket> {
        let is_it = |outgoing: &Outgoing| {
            outgoing.stage == Stage::Kept
                && outgoing.ticket.endpoint == endpoint
                && outgoing.ticket.context == context
                && !outgoing.is_injected
        };
        let number = self.operations.iter().find_map(|(number, operation)| match operation {
            Operation::Send(outgoing) if is_it(outgoing) => Some(number),
            _ => None,
        })?;
        self.forget_kept(|other| other == number);
        self.take_send(number)
    }

    /// Removes the refused messages with these numbers.
    fn forget_kept(&mut self, mut picks: impl FnMut(usize) -> bool) {
        for flow in &mut self.flows.list {
            flow.kept.retain(|&(_, number)| !picks(number));
        }
        self.flows.kept = self.flows.list.iter().map(|flow| flow.kept.len()).sum();
    }

    /// Called before an endpoint is closed. Its injected messages get some time to arrive, because the program no
    /// longer has their payload. After that nothing more is sent for the endpoint, and replies to its messages in
    /// flight are ignored.
    pub(super) fn close_flows(&mut self, endpoint: *mut Endpoint) {
        let begin = Instant::now();
        loop {
            let (left, refused) = self.injected(endpoint);
            let patience = match (refused, self.is_simulated) {
                (_, true) => FLUSH_SIMULATED,
                (true, false) => FLUSH_KEPT,
                (false, false) => FLUSH,
            };
            if left == 0 || begin.elapsed() >= patience {
                if refused {
                    warn_line!("{left} messages were not sent: their targets have had no room for {patience:?}");
                }
                break;
            }
            self.progress();
            match self.is_simulated {
                true => self.interface.poll(),
                false => std::thread::sleep(PAUSE_FIRST),
            }
        }
        let mut dropped = Vec::new();
        for (number, operation) in &mut self.operations {
            match operation {
                Operation::Send(outgoing) if outgoing.ticket.endpoint == endpoint => match outgoing.stage {
                    Stage::Waits => {}
                    Stage::UnderWay => outgoing.ticket.endpoint = std::ptr::null_mut(),
                    Stage::Kept => dropped.push(number),
                },
                _ => {}
            }
        }
        if !dropped.is_empty() {
            self.forget_kept(|number| dropped.contains(&number));
        }
    }

    /// The number of an endpoint's injected messages that have not arrived at other processes, and whether any of them
    /// was refused.
    fn injected(&mut self, endpoint: *mut Endpoint) -> (usize, bool) {
        let Core { operations, flows, peers, interface, .. } = self;
        let (mut left, mut refused) = (0, false);
        for (_, operation) in operations.iter() {
            let Operation::Send(outgoing) = operation else { continue };
            let is_its = outgoing.ticket.endpoint == endpoint && outgoing.is_injected && outgoing.stage != Stage::Waits;
            // Messages to this process are not counted: they may wait for this very thread.
            let is_own = peers.get(outgoing.peer as usize).is_none_or(|peer| peer.owner == interface.word());
            if is_its && !is_own {
                left += 1;
                let flow = flows.of(outgoing.peer, outgoing.command.request.portal);
                refused |= flow.is_some_and(|flow| flow.refused.is_some() || !flow.kept.is_empty());
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
