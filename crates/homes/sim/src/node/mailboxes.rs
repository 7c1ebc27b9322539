// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VELO messages whose mailbox is full (seed 002, section 6.5): the NIC drops them, or blocks, or senders need credits.
//!
//! **Block.** The message stays at its NIC, which takes nothing more from the fabric until it fits: deliveries queue
//! behind it, and packets keep their room in the node's buffer ([`super::hardware::Blocked`]). So the fabric fills,
//! then the command queues of the senders, and then their processors stand still. Two nodes that send to each other and
//! do not read meanwhile deadlock (figure 6-7).
//!
//! **Credits.** A message takes its credits when it is offered, and its slots keep them until its program has read it.
//! Shares and debts are in `credits.rs`.
//!
//! Invariant: a blocking node delivers nothing, and keeps arrivals in order.
//!
//! Costs: with `drop`, one comparison for a delivery; with `block`, one more for each turn while a mailbox is full.

use selvedge_nic::tables::kind;
use selvedge_nic::velo::Header;

use crate::machine::FullMailbox;
use crate::time::Time;

use super::credits::{Credit, MailboxId};
use super::events::Event;
use super::message::{NONE, Phase};
use super::nodes::Nodes;
use super::rank_states::Activity;
use super::ranks::{Bytes, MailboxState, Ranks};

impl<R: Ranks> Nodes<R> {
    /// Returns the mailbox of a message, and the slots that it takes. `None`: it has no reader.
    fn mailbox_of(&mut self, index: u32) -> Option<Credit> {
        let message = &self.messages[index];
        let header = Header::from_word(message.command.match_bits).ok()?;
        let (rank, ni) = self.ranks.find(message.from, message.command.target, message.ni)?;
        if self.rank_states[rank].has_ended() {
            return None;
        }
        Some(((rank, ni, header.destination.vpid), header.extent.slots()))
    }

    /// Returns the mailbox that a message goes to, as its program has left it. `None`: its rank has ended.
    fn mailbox_state(&mut self, index: u32) -> Option<MailboxState> {
        let ((rank, ni, vpid), _) = self.mailbox_of(index)?;
        self.ranks.mailbox(rank, ni, vpid)
    }

    /// Handles the end of a rank's turn. It may have read its mailbox, so messages at its node may continue.
    pub fn after_turn(&mut self, rank: u32, at: Time) {
        match self.machine.nic.full_mailbox {
            FullMailbox::Drop => {}
            FullMailbox::Block => {
                let node = self.node_of(rank);
                let blocked = &self.hardware[node as usize].blocked;
                let (message, before) = (blocked.message(), blocked.mailbox());
                let Some(index) = message.filter(|index| self.messages[*index].to == rank) else { return };
                if self.mailbox_state(index) != before {
                    self.events.schedule(at, Event::Unblock(node));
                }
            }
            FullMailbox::Credits => self.return_credits(rank, at),
        }
    }

    /// Handles a rank's end: nothing waits for its mailboxes any more.
    pub fn mailboxes_ended(&mut self, rank: u32, at: Time) {
        match self.machine.nic.full_mailbox {
            FullMailbox::Drop => {}
            FullMailbox::Block => self.after_turn(rank, at),
            // A mailbox without a reader needs no credits.
            FullMailbox::Credits => self.offer_again(at, None),
        }
    }

    // ---- Block ---------------------------------------------------------------------------------------------------

    /// Whether the NIC of a rank blocks when a mailbox is full. Mailboxes of a rank that has ended do not block.
    pub fn blocks_for(&self, rank: u32) -> bool {
        self.machine.nic.full_mailbox == FullMailbox::Block && !self.rank_states[rank].has_ended()
    }

    pub fn block(&mut self, now: Time, index: u32, payload: Bytes) {
        let message = &mut self.messages[index];
        message.payload = payload;
        let (to, target) = (message.to, message.target);
        let mailbox = self.mailbox_state(index);
        let is_new = self.hardware[target as usize].blocked.block(index, mailbox);
        self.statistics.blocked += u64::from(is_new);
        self.rank_states[to].note(&[now.0, 3000]);
    }

    /// Returns the rank whose mailbox blocks the messages of a rank with a full command queue.
    fn blocked_by(&self, rank: u32) -> Option<u32> {
        if !matches!(self.rank_states[rank].activity, Activity::Offering { .. }) {
            return None;
        }
        let next = self.hardware[self.node_of(rank) as usize].rails.front()?;
        let target = self.messages[next].target;
        let message = self.hardware[target as usize].blocked.message()?;
        Some(self.messages[message].to)
    }

    /// Explains why the command queue of a rank's node stays full, for the report on stuck ranks.
    pub fn why_full(&self, rank: u32) -> Option<String> {
        let first = self.blocked_by(rank)?;
        let mut chain = vec![rank, first];
        while let Some(next) = chain.last().and_then(|last| self.blocked_by(*last)) {
            let closes = chain.contains(&next);
            chain.push(next);
            if closes {
                break;
            }
        }
        let node = self.node_of(first);
        let why = format!("; its messages wait for node {node}, blocked by the full mailbox of rank {first}");
        let is_cycle = chain.iter().filter(|other| *other == chain.last().unwrap_or(&rank)).count() > 1;
        let ranks: Vec<String> = chain.iter().map(u32::to_string).collect();
        Some(if is_cycle { format!("{why}: a deadlock of ranks {}", ranks.join(", ")) } else { why })
    }

    // ---- Credits -------------------------------------------------------------------------------------------------

    /// Takes the credits of an offered message, and of its second part. False: its sender has too few.
    pub fn take_credit(&mut self, index: u32) -> bool {
        let message = &self.messages[index];
        let needs = self.machine.nic.full_mailbox == FullMailbox::Credits && message.command.kind == kind::VELO_SEND;
        if !needs || message.credit.is_some() {
            return true;
        }
        let (from, rest) = (message.from, message.offer.rest);
        let Some((mailbox, slots)) = self.mailbox_of(index) else { return true };
        let of_rest = if rest == NONE { 0 } else { self.mailbox_of(rest).map_or(0, |(_, slots)| slots) };
        let state = self.mailbox(mailbox);
        let share = self.share(mailbox, state);
        if !self.credits.take(from, mailbox, share, slots + of_rest) {
            return false;
        }
        self.messages[index].credit = Some((mailbox, slots));
        if rest != NONE {
            self.messages[rest].credit = Some((mailbox, of_rest));
        }
        true
    }

    /// Records that a message was written to its mailbox: its slots hold its credits until its program has read it.
    pub fn hold_slots(&mut self, index: u32) {
        let message = &mut self.messages[index];
        let Some(credit) = message.credit.take() else { return };
        let from = message.from;
        let state = self.mailbox(credit.0);
        self.credits.hold(from, credit, state);
    }

    /// Counts the slots that a rank has freed, and sends credits back where they are half a share.
    fn return_credits(&mut self, rank: u32, at: Time) {
        for mailbox in self.credits.mailboxes_of(rank) {
            let state = self.mailbox(mailbox);
            let share = self.share(mailbox, state);
            for due in self.credits.take_due(mailbox, state, share) {
                self.send_credits(at, due, mailbox);
            }
        }
    }

    /// Sends credits from the NIC of a mailbox back to a sender: a response without a payload. They arrive at its end.
    fn send_credits(&mut self, at: Time, (from, slots): (u32, u32), mailbox: MailboxId) {
        let index = self.new_message(at, from, mailbox.1, Box::default(), Bytes::new());
        let message = &mut self.messages[index];
        (message.to, message.phase, message.credit) = (mailbox.0, Phase::Credit, Some((mailbox, slots)));
        self.events.schedule(at, Event::Issue(index));
    }

    fn mailbox(&mut self, (rank, ni, vpid): MailboxId) -> Option<MailboxState> {
        self.ranks.mailbox(rank, ni, vpid)
    }

    fn share(&self, mailbox: MailboxId, state: Option<MailboxState>) -> u32 {
        let slots = state.map_or(0, |state| state.slots);
        (slots / u64::from(self.ranks.job_size(mailbox.0))) as u32
    }
}
