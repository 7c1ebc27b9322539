// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VELO messages whose mailbox is full (seed 002, section 6.5): the NIC drops them, or blocks, or senders need credits.
//!
//! **Block.** The message stays at its NIC, which takes nothing more from the fabric until it fits: deliveries queue behind it, and packets
//! keep their room in the node's buffer. So the fabric fills, then the command queues of the senders, and then their processors
//! stand still. Two nodes that send to each other so, and read nothing meanwhile, wait for each other for ever (figure 6-7).
//!
//! Credits are those of `credits.rs`.
//!
//! Invariant: while a node blocks, nothing is delivered there: what comes stays in the order in which it came.
//!
//! Costs: with `drop`, one comparison for a delivery; with `block`, one more for each turn of a rank whose mailbox is full.

use std::collections::VecDeque;

use crate::machine::FullMailbox;
use crate::network::Delivery as Packet;
use crate::time::Time;

use super::message::Phase;
use super::ranks::{Bytes, MailboxState, Ranks};
use super::run::{Activity, Event, Simulation};

/// What a node that blocks does not take.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    /// The message that does not fit.
    message: Option<u32>,
    /// Its mailbox, as it was then.
    mailbox: Option<MailboxState>,
    /// It has been tried again, and does not fit yet.
    is_retried: bool,
    /// Messages that are to be delivered behind it.
    behind: VecDeque<u32>,
    /// Packets in the node's buffer.
    pub packets: VecDeque<Packet>,
}

impl Blocked {
    pub fn is_blocked(&self) -> bool {
        self.message.is_some()
    }

    /// The message that does not fit.
    pub fn message(&self) -> Option<u32> {
        self.message
    }
}

impl<R: Ranks> Simulation<R> {
    /// The mailbox that a message goes to, as its program has left it. None: its rank has ended.
    fn mailbox_state(&mut self, index: u32) -> Option<MailboxState> {
        let ((rank, ni, vpid), _) = self.mailbox_of(index)?;
        self.ranks.mailbox(rank, ni, vpid)
    }

    // ---- Block ---------------------------------------------------------------------------------------------------

    /// Whether a message has to wait at its target, because one before it does not fit.
    pub(super) fn waits_behind(&mut self, node: u32, index: u32) -> bool {
        let blocked = &mut self.hardware[node as usize].blocked;
        if blocked.is_blocked() {
            blocked.behind.push_back(index);
        }
        blocked.is_blocked()
    }

    /// Whether the NIC of a rank blocks when a mailbox is full. Nobody reads those of a rank that has ended.
    pub(super) fn blocks_for(&self, rank: u32) -> bool {
        self.machine.nic.full_mailbox == FullMailbox::Block
            && !matches!(self.rank_states[rank as usize].activity, Activity::Ended)
    }

    /// A message finds its mailbox full at a NIC that blocks.
    pub(super) fn block(&mut self, now: Time, index: u32, payload: Bytes) {
        let message = &mut self.messages[index as usize];
        message.payload = payload;
        let (to, target) = (message.to, message.target);
        let mailbox = self.mailbox_state(index);
        let blocked = &mut self.hardware[target as usize].blocked;
        (blocked.message, blocked.mailbox) = (Some(index), mailbox);
        self.statistics.blocked += u64::from(!blocked.is_retried);
        self.statistics.note(&[u64::from(to), now.0, 3000]);
    }

    /// A rank has run, and may have read its mailbox: what waited at its node may go on.
    pub(super) fn after_turn(&mut self, rank: u32, at: Time) {
        match self.machine.nic.full_mailbox {
            FullMailbox::Drop => {}
            FullMailbox::Block => {
                let node = self.nodes[rank as usize];
                let blocked = &self.hardware[node as usize].blocked;
                let (message, before) = (blocked.message, blocked.mailbox);
                let Some(index) = message.filter(|index| self.messages[*index as usize].to == rank) else { return };
                if self.mailbox_state(index) != before {
                    self.queue.schedule(at, Event::Unblock(node));
                }
            }
            FullMailbox::Credits => self.free_slots(rank, at),
        }
    }

    /// A node that blocks tries again, and goes on if it can.
    pub(super) fn unblock(&mut self, now: Time, node: u32) {
        let Some(index) = self.hardware[node as usize].blocked.message.take() else { return };
        self.hardware[node as usize].blocked.is_retried = true;
        self.deliver(now, index);
        self.hardware[node as usize].blocked.is_retried = false;
        while !self.hardware[node as usize].blocked.is_blocked() {
            let blocked = &mut self.hardware[node as usize].blocked;
            if let Some(index) = blocked.behind.pop_front() {
                match self.messages[index as usize].phase {
                    Phase::Request => self.deliver(now, index),
                    _ => self.answer(now, index),
                }
            } else if let Some(packet) = blocked.packets.pop_front() {
                self.take_packet(now, &packet);
            } else {
                return;
            }
        }
    }

    /// Which rank a rank waits for whose command queue is full: the one whose mailbox blocks the node that its messages go to.
    fn blocked_by(&self, rank: u32) -> Option<u32> {
        if !matches!(self.rank_states[rank as usize].activity, Activity::Offering { .. }) {
            return None;
        }
        let next = *self.hardware[self.nodes[rank as usize] as usize].leaving.front()?;
        let target = self.messages[next as usize].target;
        let message = self.hardware[target as usize].blocked.message()?;
        Some(self.messages[message as usize].to)
    }

    /// Why the command queue of a rank's node stays full, for the report on stuck ranks.
    pub(super) fn why_full(&self, rank: u32) -> Option<String> {
        let first = self.blocked_by(rank)?;
        let mut chain = vec![rank, first];
        while let Some(next) = chain.last().and_then(|last| self.blocked_by(*last)) {
            let closes = chain.contains(&next);
            chain.push(next);
            if closes {
                break;
            }
        }
        let node = self.nodes[first as usize];
        let why = format!("; its messages wait for node {node}, which the full mailbox of rank {first} blocks");
        let is_cycle = chain.iter().filter(|other| *other == chain.last().unwrap_or(&rank)).count() > 1;
        let ranks: Vec<String> = chain.iter().map(u32::to_string).collect();
        Some(if is_cycle { format!("{why}: a deadlock of ranks {}", ranks.join(", ")) } else { why })
    }

    /// A rank has ended: nothing waits for its mailboxes any more.
    pub(super) fn mailboxes_ended(&mut self, rank: u32, at: Time) {
        match self.machine.nic.full_mailbox {
            FullMailbox::Drop => {}
            FullMailbox::Block => self.after_turn(rank, at),
            FullMailbox::Credits => self.offer_all_again(at),
        }
    }
}
