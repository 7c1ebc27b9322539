// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credits of mailboxes (seed 002, section 6.5): a sender's VELO messages under way fit its share of a mailbox.
//!
//! A share is the slots of a mailbox, divided by the ranks of the job. A message takes one credit for each of its slots
//! when its program offers it, for both parts of a split message at once. They stay with the message, then with its
//! slots in the mailbox. When the program has freed half a share of a sender, the NIC sends these credits back in a
//! message of its own. The library of a program without credits returns an error or waits, so no processor stands still
//! for lack of credits, and no mailbox is ever full. The part of the messages is in `mailboxes.rs`.
//!
//! Invariants
//! 1. A sender's share is the sum of its credits left, those of its messages under way or unread, those owed, and those
//!    that travel back. A record that is freed with credits gives them back ([`Credits::give_back`]): of a message that
//!    was refused, lost, or discarded because its port is not open.
//! 2. A share has room for a longest message: [`super::SimulationError::TooFewSlots`] refuses other jobs.
//!
//! Costs: a search in a tree for each message, and one for each turn of a rank that received messages.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::Limits;
use selvedge_nic::velo::header::SLOTS_MAX;

use crate::machine::{FullMailbox, Machine};

use super::options::SimulationError;
use super::ranks::MailboxState;

/// A mailbox: rank, number of its NIC, VPID.
pub(super) type MailboxId = (u32, u32, u16);

pub(super) type Credit = (MailboxId, u32);

#[derive(Debug, Default)]
pub(super) struct Credits {
    /// Credits left, by sender and mailbox.
    left: BTreeMap<(u32, MailboxId), u32>,
    mailboxes: BTreeMap<MailboxId, Unread>,
    /// Commands that wait for credits, and their ranks.
    waiting: Vec<(u32, u32)>,
}

impl Credits {
    /// Checks that a share of a mailbox has room for a longest message.
    pub fn check(machine: &Machine, ranks: u32) -> Result<(), SimulationError> {
        let slots = machine.limits.mailbox_slots.unwrap_or(Limits::EXTOLL.mailbox_slots).next_power_of_two();
        let needed = u64::from(SLOTS_MAX) * u64::from(ranks);
        match machine.nic.full_mailbox == FullMailbox::Credits && u64::from(slots) < needed {
            true => Err(SimulationError::TooFewSlots { ranks, needed, slots }),
            false => Ok(()),
        }
    }

    /// Takes credits from a sender's share of a mailbox. False: too few are left.
    pub fn take(&mut self, from: u32, mailbox: MailboxId, share: u32, slots: u32) -> bool {
        let left = self.left.entry((from, mailbox)).or_insert(share);
        let has = *left >= slots;
        if has {
            *left -= slots;
        }
        has
    }

    /// Returns credits to their sender.
    pub fn give_back(&mut self, from: u32, (mailbox, slots): Credit) {
        if let Some(left) = self.left.get_mut(&(from, mailbox)) {
            *left += slots;
        }
    }

    pub fn wait(&mut self, command: u32, rank: u32) {
        self.waiting.push((command, rank));
    }

    /// Takes the commands that wait for credits, of one rank or of all.
    pub fn take_waiting(&mut self, of: Option<u32>) -> Vec<u32> {
        let waiting = std::mem::take(&mut self.waiting);
        let (due, rest): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, rank)| of.is_none_or(|sender| sender == *rank));
        self.waiting = rest;
        due.into_iter().map(|(command, _)| command).collect()
    }

    /// Records that a message is in its mailbox: its slots hold its credits until its program has read it.
    pub fn hold(&mut self, from: u32, (mailbox, slots): Credit, state: Option<MailboxState>) {
        let unread = self.mailboxes.entry(mailbox).or_default();
        unread.follow(state);
        unread.messages.push_back((from, slots));
    }

    /// Returns the mailboxes of a rank that have received messages.
    pub fn mailboxes_of(&self, rank: u32) -> Vec<MailboxId> {
        let of_rank = (rank, 0, 0)..=(rank, u32::MAX, u16::MAX);
        self.mailboxes.range(of_rank).map(|(mailbox, _)| *mailbox).collect()
    }

    /// Counts the slots of a mailbox that its program has freed. Takes debts of half a share (senders, slots).
    pub fn take_due(&mut self, mailbox: MailboxId, state: Option<MailboxState>, share: u32) -> Vec<(u32, u32)> {
        // The rest leaves room for a longest message.
        let least = (share / 2).clamp(1, share.saturating_sub(SLOTS_MAX - 1).max(1));
        let Some(unread) = self.mailboxes.get_mut(&mailbox) else { return Vec::new() };
        unread.follow(state);
        unread.due(least)
    }
}

/// Messages in a mailbox, and credits owed for others.
#[derive(Debug, Default)]
struct Unread {
    /// Opening of the port that its messages were written for.
    opening: u32,
    /// Slots freed since then.
    freed: u64,
    /// Messages that hold slots, oldest first: sender and slots.
    messages: VecDeque<(u32, u32)>,
    /// Freed slots whose credits a sender has not got back.
    owed: BTreeMap<u32, u32>,
}

impl Unread {
    /// Frees up to `most` slots of the oldest messages.
    fn free(&mut self, most: u64) {
        let mut left = most;
        while let Some(&(from, slots)) = self.messages.front().filter(|(_, slots)| u64::from(*slots) <= left) {
            left -= u64::from(slots);
            self.freed += u64::from(slots);
            self.messages.pop_front();
            *self.owed.entry(from).or_default() += slots;
        }
    }

    /// Follows the program: its reads, and whether it has reopened or closed the port.
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

    /// Takes the debts to senders of at least `least` slots.
    fn due(&mut self, least: u32) -> Vec<(u32, u32)> {
        let due = self.owed.iter().filter(|(_, slots)| **slots >= least).map(|(from, slots)| (*from, *slots)).collect();
        self.owed.retain(|_, slots| *slots < least);
        due
    }
}
