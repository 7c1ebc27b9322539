// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits and order of the messages from one process to another over the units.
//!
//! The receiver grants slots of its mailbox and slots of bounce memory. A message takes some of them. The receiver
//! reports the total that it has taken, so a lost or repeated report does no harm.
//!
//! Invariants
//! 1. Messages sent and not yet reported as taken are within the grant. So the mailbox has room for them.
//! 2. The receiver takes messages in the order of their numbers. A VELO message and a put of one sender may overtake
//!    each other, so each waits until its number is next. At most [`wire::NUMBERS`](super::wire::NUMBERS) - 1 messages
//!    are under way.
//! 3. The receiver reports at the latest when it has taken half of a grant since the last report. So a message that
//!    needs at most half of the grant finds room once its receiver has taken all before it.

use std::collections::VecDeque;

use super::wire::{Counts, Heading, NUMBERS, Request, VELO_BYTES};
use crate::ticket::Ticket;

/// Slots of the mailbox and of bounce memory that a receiver grants to each sender.
pub const SLOTS: u16 = 64;
pub const BOUNCES: u16 = 16;
const _: () = assert!(SLOTS + BOUNCES < NUMBERS as u16);

impl Counts {
    fn since(self, earlier: Counts) -> Counts {
        Counts {
            slots: self.slots.wrapping_sub(earlier.slots),
            bounces: self.bounces.wrapping_sub(earlier.bounces),
            messages: self.messages.wrapping_sub(earlier.messages),
        }
    }

    fn and(self, more: Counts) -> Counts {
        Counts {
            slots: self.slots.wrapping_add(more.slots),
            bounces: self.bounces.wrapping_add(more.bounces),
            messages: self.messages.wrapping_add(more.messages),
        }
    }

    fn is_within(self, other: Counts) -> bool {
        self.slots <= other.slots && self.bounces <= other.bounces && self.messages <= other.messages
    }
}

/// The credits of a message in this number of mailbox slots.
pub fn mailed(slots: u16) -> Counts {
    Counts { slots, bounces: 0, messages: 1 }
}

/// The credits of a message in a slot of bounce memory.
pub const BOUNCED: Counts = Counts { slots: 0, bounces: 1, messages: 1 };

/// The sender's side of an open grant.
#[derive(Clone)]
pub struct Outbound {
    granted: Counts,
    /// Address of the receiver's bounce memory for this sender.
    pub nla: u64,
    sent: Counts,
    taken: Counts,
    /// The number after the messages that an outstanding question covers. `None`: no question is under way.
    asked: Option<u16>,
    /// The receiver wants no more messages.
    pub is_withdrawn: bool,
    /// The program has named the receiver's address again: its NIC may be another one.
    pub is_named_again: bool,
    /// Sends that end when their messages are taken.
    pub undelivered: VecDeque<(u16, Ticket)>,
}

impl Outbound {
    pub fn new(slots: u16, bounces: u16, nla: u64) -> Outbound {
        let granted = Counts { slots, bounces, messages: u16::from(NUMBERS) - 1 };
        let (sent, taken) = (Counts::default(), Counts::default());
        Outbound {
            granted,
            nla,
            sent,
            taken,
            asked: None,
            is_withdrawn: false,
            is_named_again: false,
            undelivered: VecDeque::new(),
        }
    }

    /// Whether the receiver has reported everything as taken.
    pub fn is_idle(&self) -> bool {
        self.sent == self.taken
    }

    /// Whether nothing was sent yet.
    pub fn is_fresh(&self) -> bool {
        self.sent == Counts::default()
    }

    /// The number of the next message.
    pub fn number(&self) -> u16 {
        self.sent.messages
    }

    /// The slot of bounce memory for the next message.
    pub fn bounce(&self) -> u16 {
        self.sent.bounces % self.granted.bounces.max(1)
    }

    pub fn has_room(&self, message: Counts) -> bool {
        self.sent.and(message).since(self.taken).is_within(self.granted)
    }

    /// Counts a message that was sent. Returns its number.
    pub fn sent(&mut self, message: Counts) -> u16 {
        let number = self.number();
        self.sent = self.sent.and(message);
        number
    }

    /// Records the receiver's total. False: the total is impossible.
    pub fn report(&mut self, taken: Counts) -> bool {
        if !taken.since(self.taken).is_within(self.sent.since(self.taken)) {
            return false;
        }
        self.taken = taken;
        if self.asked.is_some_and(|asked| !is_before(taken.messages, asked)) {
            self.asked = None;
        }
        true
    }

    /// Whether to send a question for a report now. It then covers everything sent.
    pub fn asks(&mut self) -> bool {
        let asks = self.asked.is_none() && !self.is_idle();
        if asks {
            self.asked = Some(self.number());
        }
        asks
    }

    /// The next send whose message was taken.
    pub fn next_delivered(&mut self) -> Option<Ticket> {
        let taken = self.taken.messages;
        let is_taken = self.undelivered.front().is_some_and(|(number, _)| is_before(*number, taken));
        if is_taken { self.undelivered.pop_front().map(|(_, ticket)| ticket) } else { None }
    }
}

/// Whether a count is before another. They differ by less than half of their range.
fn is_before(one: u16, other: u16) -> bool {
    other.wrapping_sub(one).wrapping_sub(1) < u16::MAX / 2
}

/// The contents of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Bytes(Vec<u8>),
    /// Bytes in bounce memory: offset of its slot, length.
    Bounced {
        slot: u16,
        length: usize,
    },
    Long(Request),
    /// A long message whose payload was fetched.
    Fetched(Request, Vec<u8>),
    /// A question for a report, which is no message.
    Ask,
}

/// A message that waits until its number is next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    pub number: u8,
    pub heading: Heading,
    pub body: Body,
    /// The credits that it took.
    pub room: Counts,
}

/// A small message whose segments are still arriving.
#[derive(Clone, Debug)]
struct Assembly {
    waiting: Waiting,
    length: usize,
    segments_left: usize,
}

/// The receiver's side: messages from one sender, and the order in which they are taken.
#[derive(Clone, Debug, Default)]
pub struct Inbound {
    taken: Counts,
    reported: Counts,
    /// Messages that came as VELO messages, and those that came as puts, each in order of arrival.
    mailed: VecDeque<Waiting>,
    bounced: VecDeque<Waiting>,
    assembly: Option<Assembly>,
    /// The sender waits for a report.
    pub owes_report: bool,
    /// Each message is reported.
    pub reports_all: bool,
    /// The payload of its next message is being fetched first, so that the message can be delivered whole.
    pub is_fetching: bool,
}

/// The sender violates the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProtocolError;

impl Inbound {
    /// Whether every message that has come was taken.
    pub fn is_empty(&self) -> bool {
        self.mailed.is_empty() && self.bounced.is_empty() && self.assembly.is_none()
    }

    /// Queues a message that came as one VELO message.
    pub fn arrive(&mut self, waiting: Waiting) -> Result<(), ProtocolError> {
        if self.assembly.is_some() && waiting.body != Body::Ask {
            return Err(ProtocolError);
        }
        self.keep_mailed(waiting)
    }

    fn keep_mailed(&mut self, waiting: Waiting) -> Result<(), ProtocolError> {
        // The limit for a sender within its grant, and one question.
        if self.mailed.len() > usize::from(SLOTS) + 1 {
            return Err(ProtocolError);
        }
        self.mailed.push_back(waiting);
        Ok(())
    }

    /// Starts a small message of `length` bytes in `segments` segments with its first segment.
    pub fn begin(&mut self, waiting: Waiting, length: usize, segments: usize) -> Result<(), ProtocolError> {
        if self.assembly.is_some() || segments > usize::from(SLOTS) || !matches!(waiting.body, Body::Bytes(_)) {
            return Err(ProtocolError);
        }
        self.assembly = Some(Assembly { waiting, length, segments_left: segments });
        self.end_of_segment()
    }

    /// Appends a further segment, if one is expected.
    pub fn go_on(&mut self, number: u8, bytes: &[u8], slots: u16) -> Result<(), ProtocolError> {
        let assembly =
            self.assembly.as_mut().filter(|assembly| assembly.waiting.number == number).ok_or(ProtocolError)?;
        let Body::Bytes(whole) = &mut assembly.waiting.body else { return Err(ProtocolError) };
        if bytes.len() != (assembly.length - whole.len()).min(VELO_BYTES) {
            return Err(ProtocolError);
        }
        whole.extend_from_slice(bytes);
        assembly.waiting.room.slots += slots;
        self.end_of_segment()
    }

    /// Whether the next VELO message of the type for segments begins a message.
    pub fn begins(&self) -> bool {
        self.assembly.is_none()
    }

    fn end_of_segment(&mut self) -> Result<(), ProtocolError> {
        let Some(assembly) = &mut self.assembly else { return Err(ProtocolError) };
        assembly.segments_left -= 1;
        if assembly.segments_left != 0 {
            return Ok(());
        }
        match self.assembly.take() {
            Some(Assembly { waiting, length, .. }) if matches!(&waiting.body, Body::Bytes(bytes) if bytes.len() == length) => {
                self.keep_mailed(waiting)
            }
            _ => Err(ProtocolError),
        }
    }

    /// Queues a message that came as a put.
    pub fn bounce(&mut self, waiting: Waiting) -> Result<(), ProtocolError> {
        if self.bounced.len() >= usize::from(BOUNCES) {
            return Err(ProtocolError);
        }
        self.bounced.push_back(waiting);
        Ok(())
    }

    /// The next message in order, if it has come. Questions before it are answered on the way.
    pub fn next_message(&mut self) -> Option<&Waiting> {
        let turn = self.taken.messages as u8 & (NUMBERS - 1);
        while self.mailed.front().is_some_and(|first| first.body == Body::Ask && first.number == turn) {
            self.mailed.pop_front();
            self.owes_report = true;
        }
        let is_next = |first: &&Waiting| first.number == turn && first.body != Body::Ask;
        self.mailed.front().filter(is_next).or(self.bounced.front().filter(is_next))
    }

    /// Stores the fetched payload of the long message of [`Inbound::next_message`].
    pub fn fetched(&mut self, bytes: Vec<u8>) {
        let turn = self.taken.messages as u8 & (NUMBERS - 1);
        let Some(first) = self.mailed.front_mut().filter(|first| first.number == turn) else { return };
        if let Body::Long(request) = first.body {
            first.body = Body::Fetched(request, bytes);
        }
    }

    /// Takes the message of [`Inbound::next_message`].
    pub fn take(&mut self) -> Option<Body> {
        let turn = self.taken.messages as u8 & (NUMBERS - 1);
        let is_next = |first: &Waiting| first.number == turn && first.body != Body::Ask;
        let from = if self.mailed.front().is_some_and(is_next) { &mut self.mailed } else { &mut self.bounced };
        let taken = from.pop_front()?;
        self.taken = self.taken.and(taken.room);
        self.owes_report |= taken.heading.reports || self.reports_all;
        let since = self.taken.since(self.reported);
        self.owes_report |= since.slots >= SLOTS / 2 || since.bounces >= BOUNCES / 2;
        self.owes_report |= since.messages >= u16::from(NUMBERS) / 2;
        Some(taken.body)
    }

    /// The counts to report, if a report is due.
    pub fn due(&self) -> Option<Counts> {
        self.owes_report.then_some(self.taken)
    }

    /// Records the counts that were reported.
    pub fn reported(&mut self, taken: Counts) {
        (self.reported, self.owes_report) = (taken, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(number: u16, body: Body, room: Counts) -> Waiting {
        Waiting { number: number as u8 % NUMBERS, heading: Heading::default(), body, room }
    }

    /// Runs a sender and a receiver over two wires that do not keep order between them. Each message must be received
    /// once, in order, and neither side may get stuck.
    #[test]
    fn messages_are_taken_in_order_whatever_overtakes_what() {
        let mut state = 11u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let (mut out, mut inbound) = (Outbound::new(SLOTS, BOUNCES, 0), Inbound::default());
        let mut wires: [VecDeque<Waiting>; 2] = Default::default();
        let mut reports: VecDeque<Counts> = VecDeque::new();
        let (mut sent, mut received, mut idle) = (0u16, 0u16, 0);
        while received < 40_000 {
            assert!(idle < 10_000, "stuck");
            idle += 1;
            match random(5) {
                0 | 1 if sent < 40_000 => {
                    let slots = 1 + random(u64::from(SLOTS / 2)) as u16;
                    let room = if random(2) == 0 { mailed(slots) } else { BOUNCED };
                    if out.has_room(room) {
                        let number = out.sent(room);
                        assert_eq!(number, sent);
                        let wire = &mut wires[usize::from(room.bounces)];
                        wire.push_back(waiting(number, Body::Bytes(number.to_le_bytes().to_vec()), room));
                        sent += 1;
                    }
                }
                2 => {
                    if let Some(message) = wires[0].pop_front() {
                        inbound.arrive(message).expect("within the rules");
                    }
                }
                3 => {
                    if let Some(message) = wires[1].pop_front() {
                        inbound.bounce(message).expect("within the rules");
                    }
                }
                _ => {
                    while let Some(next) = inbound.next_message() {
                        assert_eq!(next.body, Body::Bytes(received.to_le_bytes().to_vec()));
                        inbound.take();
                        received += 1;
                        idle = 0;
                    }
                    if let Some(taken) = inbound.due() {
                        inbound.reported(taken);
                        reports.push_back(taken);
                    }
                    if random(3) == 0 {
                        if let Some(taken) = reports.pop_front() {
                            assert!(out.report(taken));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_report_that_cannot_be_is_refused() {
        let mut out = Outbound::new(SLOTS, BOUNCES, 0);
        out.sent(mailed(2));
        assert!(!out.report(Counts { slots: 3, bounces: 0, messages: 1 }));
        assert!(!out.report(Counts { slots: 2, bounces: 1, messages: 1 }));
        assert!(out.report(Counts { slots: 2, bounces: 0, messages: 1 }) && out.is_idle());
        assert!(!out.report(Counts::default()), "it goes back");
    }

    #[test]
    fn a_question_is_answered_when_all_before_it_was_taken() {
        let (mut out, mut inbound) = (Outbound::new(SLOTS, BOUNCES, 0), Inbound::default());
        assert!(!out.asks(), "no message is under way");
        let put = out.sent(BOUNCED);
        assert!(out.asks() && !out.asks(), "one question at a time");
        inbound.arrive(waiting(out.number(), Body::Ask, Counts::default())).expect("a question");
        assert!(inbound.next_message().is_none() && inbound.due().is_none());
        inbound.bounce(waiting(put, Body::Bounced { slot: 0, length: 1 }, BOUNCED)).expect("a put");
        assert!(inbound.next_message().is_some());
        inbound.take();
        assert!(inbound.next_message().is_none());
        let taken = inbound.due().expect("a report is due once the question is reached");
        assert!(out.report(taken) && out.is_idle());
        out.sent(BOUNCED);
        assert!(out.asks(), "an answered question allows another");
    }

    #[test]
    fn segments_make_a_message_or_are_refused() {
        let begin = |bytes: usize| waiting(0, Body::Bytes(vec![1; bytes]), mailed(2));
        let mut inbound = Inbound::default();
        inbound.begin(begin(48), 48 + 64 + 5, 3).expect("a first segment");
        assert!(inbound.next_message().is_none() && !inbound.begins());
        assert_eq!(inbound.clone().arrive(begin(3)), Err(ProtocolError), "another message between segments");
        assert_eq!(inbound.clone().go_on(1, &[2; 64], 2), Err(ProtocolError), "a segment of another message");
        assert_eq!(inbound.clone().go_on(0, &[2; 63], 2), Err(ProtocolError), "a short segment");
        inbound.go_on(0, &[2; 64], 2).expect("a segment");
        assert_eq!(inbound.clone().go_on(0, &[3; 6], 1), Err(ProtocolError), "a long segment");
        inbound.go_on(0, &[3; 5], 1).expect("the last segment");
        let Some(Waiting { body: Body::Bytes(bytes), room, .. }) = inbound.next_message() else {
            panic!("it is whole")
        };
        assert_eq!((bytes.len(), bytes[48], bytes[112], room.slots), (117, 2, 3, 5));
        assert_eq!(inbound.go_on(0, &[], 1), Err(ProtocolError), "a segment of nothing");
        assert_eq!(Inbound::default().begin(begin(48), 1 << 20, 1 << 14), Err(ProtocolError), "longer than any grant");
    }

    #[test]
    fn a_sender_beyond_its_grant_is_refused() {
        let mut inbound = Inbound::default();
        let tiny = |number| waiting(number, Body::Bytes(vec![]), mailed(1));
        let refused = (0..200).position(|number| inbound.arrive(tiny(number)).is_err());
        assert_eq!(refused, Some(usize::from(SLOTS) + 2));
        let put = |number| waiting(number, Body::Bounced { slot: 0, length: 0 }, BOUNCED);
        let refused = (0..200).position(|number| inbound.bounce(put(number)).is_err());
        assert_eq!(refused, Some(usize::from(BOUNCES)));
    }
}
