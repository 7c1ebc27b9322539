// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits of mailboxes (seed 002, section 6.5): a sender has no more VELO messages under way than its share of a mailbox.
//!
//! A share is the slots of a mailbox, divided by the ranks of the job. A message takes as many credits as slots when its program offers
//! it, both parts of a split one at once. They stay with the message, then with its slots in the mailbox. When the program has
//! freed half a share of a sender, the NIC sends these credits back in a message of its own. The library of a program
//! without credits returns an error or waits, so no processor stands still for want of credits, and no mailbox is ever full.
//!
//! Invariants
//! 1. The credits that a sender has at a mailbox, those of its messages under way or unread, those owed and those that travel back are its
//!    share. A record that is freed with credits gives them back ([`Simulation::free_credit`]): of a message that was refused, lost, or
//!    discarded because its port is not open.
//! 2. A share has room for a longest message: [`super::SimulationError::TooFewSlots`] refuses other jobs.
//!
//! Costs: a search in a tree for each message, and one for each turn of a rank that was sent messages.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::Limits;
use selvedge_nic::tables::kind;
use selvedge_nic::velo::Header;
use selvedge_nic::velo::header::SLOTS_MAX;

use crate::machine::{FullMailbox, Machine};
use crate::time::Time;

use super::message::Phase;
use super::options::SimulationError;
use super::ranks::{Bytes, MailboxState, Ranks};
use super::run::{Activity, Event, NONE, Simulation};

/// A mailbox: rank, number of its NIC, VPID.
pub(super) type MailboxId = (u32, u32, u16);

/// Credits of a message at a mailbox.
pub(super) type Credit = (MailboxId, u32);

/// The credits of all senders.
#[derive(Debug, Default)]
pub(super) struct Credits {
    /// What a sender has left at a mailbox.
    left: BTreeMap<(u32, MailboxId), u32>,
    mailboxes: BTreeMap<MailboxId, Unread>,
    /// Commands that wait for credits.
    waiting: Vec<u32>,
}

impl Credits {
    /// Whether a share of a mailbox has room for a longest message.
    pub fn check(machine: &Machine, ranks: u32) -> Result<(), SimulationError> {
        let slots = machine.limits.mailbox_slots.unwrap_or(Limits::EXTOLL.mailbox_slots).next_power_of_two();
        let needed = u64::from(SLOTS_MAX) * u64::from(ranks);
        match machine.nic.full_mailbox == FullMailbox::Credits && u64::from(slots) < needed {
            true => Err(SimulationError::TooFewSlots { ranks, needed, slots }),
            false => Ok(()),
        }
    }
}

/// What lies in a mailbox.
#[derive(Debug, Default)]
struct Unread {
    /// The opening of the port that its messages were written for.
    opening: u32,
    /// Slots that were freed since then.
    freed: u64,
    /// Messages that hold slots, the oldest first: who sent them, and their slots.
    messages: VecDeque<(u32, u32)>,
    /// Freed slots of each sender that it does not know of.
    owed: BTreeMap<u32, u32>,
}

impl Unread {
    /// Frees slots of the oldest messages: as many as the program has read, or all.
    fn free(&mut self, most: u64) {
        let mut left = most;
        while let Some(&(from, slots)) = self.messages.front().filter(|(_, slots)| u64::from(*slots) <= left) {
            left -= u64::from(slots);
            self.freed += u64::from(slots);
            self.messages.pop_front();
            *self.owed.entry(from).or_default() += slots;
        }
    }

    /// Follows the program: what it has read, and whether it has opened the port again, or closed it.
    fn follow(&mut self, now: Option<MailboxState>) {
        match now {
            Some(state) if state.opening == self.opening => self.free(state.head.saturating_sub(self.freed)),
            state => {
                self.free(u64::MAX);
                let state = state.unwrap_or_default();
                (self.opening, self.freed) = (state.opening, state.head);
            }
        }
    }

    /// Takes what is owed to senders, of each at least so much.
    fn due(&mut self, least: u32) -> Vec<(u32, u32)> {
        let due = self.owed.iter().filter(|(_, slots)| **slots >= least).map(|(from, slots)| (*from, *slots)).collect();
        self.owed.retain(|_, slots| *slots < least);
        due
    }
}

impl<R: Ranks> Simulation<R> {
    /// The mailbox of a message, and the slots that it takes. None: nobody reads it.
    pub(super) fn mailbox_of(&mut self, index: u32) -> Option<Credit> {
        let message = &self.messages[index as usize];
        let header = Header::from_word(message.command.match_bits).ok()?;
        let (rank, ni) = self.ranks.find(message.command.target, message.ni)?;
        if matches!(self.rank_states[rank as usize].activity, Activity::Ended) {
            return None;
        }
        Some(((rank, ni, header.destination.vpid), header.extent.slots()))
    }

    /// Takes the credits of a message that is offered, and of its second part. False: its sender has too few.
    pub(super) fn take_credit(&mut self, index: u32) -> bool {
        let message = &self.messages[index as usize];
        let needs = self.machine.nic.full_mailbox == FullMailbox::Credits && message.command.kind == kind::VELO_SEND;
        if !needs || message.credit.is_some() {
            return true;
        }
        let (from, rest) = (message.from, message.offer.rest);
        let Some((mailbox, slots)) = self.mailbox_of(index) else { return true };
        let of_rest = if rest == NONE { 0 } else { self.mailbox_of(rest).map_or(0, |(_, slots)| slots) };
        let state = self.ranks.mailbox(mailbox.0, mailbox.1, mailbox.2);
        let share = self.share(state);
        let left = self.credits.left.entry((from, mailbox)).or_insert(share);
        if *left < slots + of_rest {
            return false;
        }
        *left -= slots + of_rest;
        self.messages[index as usize].credit = Some((mailbox, slots));
        if rest != NONE {
            self.messages[rest as usize].credit = Some((mailbox, of_rest));
        }
        true
    }

    /// A sender's share of a mailbox.
    fn share(&self, mailbox: Option<MailboxState>) -> u32 {
        let slots = mailbox.map_or(0, |state| state.slots);
        (slots / u64::from(self.ranks.size())) as u32
    }

    /// A program offers a message and has too few credits: its library returns an error, or waits.
    pub(super) fn lacks_credit(&mut self, now: Time, index: u32) {
        self.statistics.credits_lacked += 1;
        if self.messages[index as usize].offer.wish.or_refuse {
            return self.refuse(now, index);
        }
        self.credits.waiting.push(index);
        let message = &mut self.messages[index as usize];
        message.offer.calm();
        let rank = message.from;
        self.rank_states[rank as usize].activity = Activity::Uncredited { since: now };
    }

    /// A record is freed: credits that it still has go back to its sender.
    pub(super) fn free_credit(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        let Some((mailbox, slots)) = message.credit.take() else { return };
        let from = message.from;
        if let Some(left) = self.credits.left.get_mut(&(from, mailbox)) {
            *left += slots;
        }
        let now = self.queue.now();
        self.offer_again(now, |sender| sender == from);
        self.wake(from, now);
    }

    /// A message was written to its mailbox: its slots have its credits until its program has read it.
    pub(super) fn holds_slots(&mut self, index: u32) {
        let message = &mut self.messages[index as usize];
        let Some((mailbox, slots)) = message.credit.take() else { return };
        let from = message.from;
        let state = self.ranks.mailbox(mailbox.0, mailbox.1, mailbox.2);
        let unread = self.credits.mailboxes.entry(mailbox).or_default();
        unread.follow(state);
        unread.messages.push_back((from, slots));
    }

    /// Counts the slots that a rank has freed, and sends credits back where they are half a share.
    pub(super) fn free_slots(&mut self, rank: u32, at: Time) {
        let of_rank = (rank, 0, 0)..=(rank, u32::MAX, u16::MAX);
        let mailboxes: Vec<MailboxId> = self.credits.mailboxes.range(of_rank).map(|(mailbox, _)| *mailbox).collect();
        for mailbox in mailboxes {
            let state = self.ranks.mailbox(mailbox.0, mailbox.1, mailbox.2);
            let share = self.share(state);
            // What is not sent back leaves room for a longest message.
            let least = (share / 2).clamp(1, share.saturating_sub(SLOTS_MAX - 1).max(1));
            let Some(unread) = self.credits.mailboxes.get_mut(&mailbox) else { continue };
            unread.follow(state);
            let due = unread.due(least);
            for back in due {
                self.send_credits(at, back, mailbox);
            }
        }
    }

    /// The NIC of a mailbox sends credits back to a sender: a response without a payload. They are there when its record is freed.
    fn send_credits(&mut self, at: Time, (from, slots): (u32, u32), mailbox: MailboxId) {
        let index = self.new_message(at, from, mailbox.1, Box::default(), Bytes::new());
        let message = &mut self.messages[index as usize];
        (message.to, message.phase, message.credit) = (mailbox.0, Phase::Credit, Some((mailbox, slots)));
        self.queue.schedule(at, Event::Issue(index));
    }

    /// Commands that wait for credits are offered again.
    fn offer_again(&mut self, now: Time, of: impl Fn(u32) -> bool) {
        let waiting = std::mem::take(&mut self.credits.waiting);
        let (due, rest): (Vec<u32>, Vec<u32>) =
            waiting.into_iter().partition(|waiting| of(self.messages[*waiting as usize].from));
        self.credits.waiting = rest;
        for waiting in due {
            self.queue.schedule(now, Event::Offer(waiting));
        }
    }

    /// As [`Simulation::offer_again`], of all ranks: a mailbox that nobody reads any more needs no credits.
    pub(super) fn offer_all_again(&mut self, now: Time) {
        self.offer_again(now, |_| true);
    }
}
