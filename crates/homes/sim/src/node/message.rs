// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages under way: a record for each, which its response reuses, and the table of all records.
//!
//! Packets carry a message's *tag*: its index, and a number that no other message has. A unit that keeps a request
//! names it by its tag in the answer.

use std::ops::{Index, IndexMut};

use selvedge_nic::portals::{Delivery, fail};
use selvedge_nic::rma::spec;
use selvedge_nic::tables::Command;

use crate::machine::graph::Class;
use crate::time::Time;

use super::credits::Credit;
use super::livelock::Signature;
use super::ranks::{Bytes, StartFlags};

/// Index of no message and no tree.
pub(super) const NONE: u32 = u32::MAX;

/// Shift of the message's index in a tag; its number lies below.
const INDEX_SHIFT: u32 = 40;
pub(super) const NUMBER_MASK: u64 = (1 << INDEX_SHIFT) - 1;

/// Attempts of a command before its library returns an error, or doubles the pauses between attempts.
pub(super) const ATTEMPTS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Free,
    Request,
    /// A request that its target's NIC keeps, and answers later.
    Kept,
    /// An acknowledgement or a reply, on its way back.
    Response,
    /// The notification of a refusal, on its way back.
    Refusal,
    /// Credits of a mailbox, on their way to a sender.
    Credit,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Free | Phase::Request | Phase::Kept => "request",
            Phase::Response => "response",
            Phase::Refusal => "refusal",
            Phase::Credit => "credits",
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub flags: StartFlags,
    /// Time at which the processor had done its part.
    pub since: Time,
    pub attempts: u32,
    /// The program offers again a command that was refused.
    pub is_again: bool,
    /// The second part of a message whose store was split, or [`NONE`].
    pub rest: u32,
}

impl Offer {
    /// Whether this is one of many attempts, which are no progress.
    pub fn is_retry(&self) -> bool {
        self.is_again || self.attempts > ATTEMPTS
    }

    /// Makes the offer wait for credits. It is then offered like a command that was not refused.
    pub fn forget_attempts(&mut self) {
        (self.attempts, self.is_again) = (self.attempts.min(1), false);
    }
}

impl Default for Offer {
    fn default() -> Offer {
        Offer { flags: StartFlags::default(), since: Time::ZERO, attempts: 0, is_again: false, rest: NONE }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Message {
    pub phase: Phase,
    pub ni: u32,
    /// Ranks: the initiator of the operation, and its target.
    pub from: u32,
    pub to: u32,
    /// Nodes: the sender of the request or response, and its receiver.
    pub source: u32,
    pub target: u32,
    pub command: Box<Command>,
    /// Its class: of the request, then of its response.
    pub class: Class,
    /// Payload of the request, then of the reply.
    pub payload: Bytes,
    pub delivery: Delivery,
    pub started: Time,
    /// Time at which its first packet has been read; once sent, time at which its first byte leaves on a free fabric.
    pub left: Time,
    /// Arrival time of its first byte.
    pub head: Time,
    /// Time at which the NIC, or in host mode the processor, has processed its header.
    pub header_done: Time,
    pub bytes_to_send: u64,
    /// Bytes of its payload, without and with its frame.
    pub bytes: u64,
    pub framed_bytes: u64,
    pub packets_to_come: u32,
    /// The target refused it because all its streams were in use.
    pub refused: bool,
    pub has_stream: bool,
    pub lost: bool,
    /// Sequence number among the messages of its pair of ranks; `u64::MAX`: none.
    pub sequence: u64,
    pub offer: Offer,
    /// Its credits at its mailbox, until it is there; or those that it carries back.
    pub credit: Option<Credit>,
    /// The tree along which it goes to many nodes, or from which its copy has come; `NONE`: it is for one node.
    pub cast: u32,
    /// A number for traces that grows with each message.
    pub number: u64,
    /// The rail of its first packet.
    pub rail: u32,
    /// Its place among the messages of its initiator, the same in every division of the machine.
    pub of_rank: u32,
    /// Of a message from another part: the tag of its packets.
    pub foreign_tag: u64,
    /// Of the request, if ranks are watched.
    pub signature: Signature,
}

impl Message {
    fn none(command: Box<Command>) -> Message {
        Message {
            phase: Phase::Free,
            ni: 0,
            from: u32::MAX,
            to: u32::MAX,
            source: u32::MAX,
            target: u32::MAX,
            command,
            class: Class::Request,
            payload: Bytes::new(),
            delivery: Delivery::default(),
            started: Time::ZERO,
            left: Time::ZERO,
            head: Time::MAX,
            header_done: Time::MAX,
            bytes_to_send: 0,
            bytes: 0,
            framed_bytes: 0,
            packets_to_come: 0,
            refused: false,
            has_stream: false,
            lost: false,
            sequence: u64::MAX,
            offer: Offer::default(),
            credit: None,
            cast: NONE,
            number: 0,
            rail: 0,
            of_rank: 0,
            foreign_tag: 0,
            signature: Signature::NEW,
        }
    }

    fn begin(&mut self, at: Time, (from, ni): (u32, u32), payload: Bytes, number: u64) {
        (self.phase, self.from, self.ni, self.number) = (Phase::Request, from, ni, number);
        (self.to, self.source, self.target) = (u32::MAX, u32::MAX, u32::MAX);
        self.bytes = payload.len() as u64;
        self.payload = payload;
        self.delivery = Delivery::default();
        (self.started, self.left, self.head, self.header_done) = (at, at, Time::MAX, Time::MAX);
        (self.bytes_to_send, self.packets_to_come) = (0, 0);
        (self.refused, self.has_stream, self.lost) = (false, false, false);
        self.sequence = u64::MAX;
        self.cast = NONE;
        self.rail = 0;
        self.offer = Offer::default();
    }

    #[inline]
    pub fn sender(&self) -> u32 {
        if self.phase == Phase::Request { self.from } else { self.to }
    }

    #[inline]
    pub fn receiver(&self) -> u32 {
        if self.phase == Phase::Request { self.to } else { self.from }
    }

    /// Returns the average bytes of its packets.
    pub fn packet_bytes(&self, packets: u32) -> u64 {
        self.bytes.div_ceil(u64::from(packets.max(1)))
    }

    /// Whether a message of the RMA unit is notified at its arrival.
    pub fn is_notified(&self) -> bool {
        let asks = |unit| self.command.operation & unit != 0;
        match self.class {
            Class::RmaPut | Class::RmaImmediatePut | Class::RmaNotificationPut => asks(spec::COMPLETER),
            Class::RmaGet | Class::RmaLock => asks(spec::RESPONDER),
            Class::RmaGetResponse => asks(spec::COMPLETER),
            Class::RmaResponse => asks(spec::COMPLETER) || self.delivery.fail != fail::OK,
            Class::Request | Class::Response | Class::Velo => false,
            Class::AggregationRequest | Class::Aggregation => false,
            Class::AggregationResult | Class::AggregationMulticast => false,
        }
    }

    /// Returns its place among the notices of a time, the same in every division of the machine.
    pub fn order(&self) -> u64 {
        u64::from(self.from) << 32 | u64::from(self.of_rank)
    }

    #[inline]
    pub fn tag(&self, index: u32) -> u64 {
        u64::from(index) << INDEX_SHIFT | self.number
    }
}

#[inline]
pub(super) fn index_of(tag: u64) -> u32 {
    (tag >> INDEX_SHIFT) as u32
}

/// The records of all messages. Free records are reused.
#[derive(Debug, Default)]
pub(super) struct Messages {
    records: Vec<Message>,
    free: Vec<u32>,
    started: u64,
}

impl Messages {
    /// Takes a record for a new message. Returns its index, and the command of the message that had the record before.
    pub fn begin(
        &mut self,
        at: Time,
        sender: (u32, u32),
        command: Box<Command>,
        payload: Bytes,
        signature: Signature,
    ) -> (u32, Option<Box<Command>>) {
        self.started += 1;
        let number = self.started & NUMBER_MASK;
        let Some(index) = self.free.pop() else {
            let mut message = Message::none(command);
            message.begin(at, sender, payload, number);
            message.signature = signature;
            self.records.push(message);
            return (self.records.len() as u32 - 1, None);
        };
        let message = &mut self.records[index as usize];
        let before = std::mem::replace(&mut message.command, command);
        message.begin(at, sender, payload, number);
        message.signature = signature;
        (index, Some(before))
    }

    /// Takes a record for a message that another part has begun. Returns its index, and the command of the message that
    /// had the record before.
    pub fn adopt(&mut self, message: Message) -> (u32, Option<Box<Command>>) {
        self.started += 1;
        let message = Message { number: self.started & NUMBER_MASK, ..message };
        let Some(index) = self.free.pop() else {
            self.records.push(message);
            return (self.records.len() as u32 - 1, None);
        };
        let before = std::mem::replace(&mut self.records[index as usize], message);
        (index, Some(before.command))
    }

    pub fn free(&mut self, index: u32) {
        self.records[index as usize].phase = Phase::Free;
        self.free.push(index);
    }

    pub fn get(&self, index: u32) -> Option<&Message> {
        self.records.get(index as usize)
    }

    /// Returns the indices of all records, free ones included.
    pub fn indices(&self) -> std::ops::Range<u32> {
        0..self.records.len() as u32
    }
}

impl Index<u32> for Messages {
    type Output = Message;

    #[inline]
    fn index(&self, index: u32) -> &Message {
        &self.records[index as usize]
    }
}

impl IndexMut<u32> for Messages {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Message {
        &mut self.records[index as usize]
    }
}
