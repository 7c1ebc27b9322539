// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VELO messages whose mailbox is full (seed 002, section 6.5): the NIC drops them, or blocks, or senders need credits.
//!
//! **Block.** The message stays at its NIC, which takes nothing more from the fabric until it fits: deliveries queue behind it, and packets
//! keep their room in the node's buffer. So the fabric fills, then the command queues of the senders, and then their processors
//! stand still. Two nodes that send to each other so, and read nothing meanwhile, wait for each other for ever (figure 6-7).
//!
//! **Credits.** A sender has a share of each mailbox: its slots, divided by the ranks of the job. A message takes as many credits as it
//! takes slots when its program offers it. The receiver's NIC sends credits back when its program has freed half a share. A program
//! without credits is told so, or waits in its library. Nothing is ever full.
//!
//! Invariants
//! 1. While a node blocks, nothing is delivered there, in any order: what comes stays in the order in which it came.
//! 2. The credits of a sender at a mailbox, those of its messages under way or unread, and those that travel back are its share.
//!    Messages to a port that is not open take none.
//!
//! Costs: with `drop`, one comparison for a delivery. With credits, a search in a tree for each message and one for each turn.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::tables::kind;
use selvedge_nic::velo::Header;
use selvedge_nic::velo::header::SLOTS_MAX;

use crate::machine::FullMailbox;
use crate::network::Delivery as Packet;
use crate::time::Time;

use super::message::Phase;
use super::ranks::{Bytes, Ranks};
use super::run::{Activity, Event, Simulation};

/// What a node that blocks does not take.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocked {
    /// The message that does not fit.
    message: Option<u32>,
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

/// A mailbox: rank, number of its NIC, VPID.
type Box = (u32, u32, u16);

/// The credits of all senders.
#[derive(Debug, Default)]
pub(super) struct Credits {
    /// What a sender has left at a mailbox.
    left: BTreeMap<(u32, Box), u32>,
    mailboxes: BTreeMap<Box, Unread>,
    /// Commands that wait for credits.
    waiting: Vec<u32>,
}

/// What lies in a mailbox.
#[derive(Debug, Default)]
struct Unread {
    /// Slots that were freed.
    freed: u64,
    /// Messages that hold slots, the oldest first: who sent them, and their slots.
    messages: VecDeque<(u32, u32)>,
    /// Freed slots of each sender that it does not know of.
    owed: BTreeMap<u32, u32>,
}

impl<R: Ranks> Simulation<R> {
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
        let blocked = &mut self.hardware[message.target as usize].blocked;
        blocked.message = Some(index);
        self.statistics.blocked += 1;
        self.statistics.note(&[u64::from(self.messages[index as usize].to), now.0, 3000]);
    }

    /// A rank has run, and may have read its mailbox: what waited at its node may go on.
    pub(super) fn after_turn(&mut self, rank: u32, at: Time) {
        match self.machine.nic.full_mailbox {
            FullMailbox::Drop => {}
            FullMailbox::Block => {
                let node = self.nodes[rank as usize];
                let waits = self.hardware[node as usize].blocked.message.map(|index| self.messages[index as usize].to);
                if waits == Some(rank) {
                    self.queue.schedule(at, Event::Unblock(node));
                }
            }
            FullMailbox::Credits => self.free_slots(rank, at),
        }
    }

    /// A node that blocks tries again, and goes on if it can.
    pub(super) fn unblock(&mut self, now: Time, node: u32) {
        let Some(index) = self.hardware[node as usize].blocked.message.take() else { return };
        self.deliver(now, index);
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

    // ---- Credits -------------------------------------------------------------------------------------------------

    /// The mailbox of a message, if its sender needs credits there, and the slots that the message takes.
    fn mailbox_of(&mut self, index: u32) -> Option<(Box, u32)> {
        let message = &self.messages[index as usize];
        if self.machine.nic.full_mailbox != FullMailbox::Credits || message.command.kind != kind::VELO_SEND {
            return None;
        }
        let header = Header::from_word(message.command.match_bits).ok()?;
        let (rank, ni) = self.ranks.find(message.command.target, message.ni)?;
        // Nobody reads the mailbox of a rank that has ended.
        if matches!(self.rank_states[rank as usize].activity, Activity::Ended) {
            return None;
        }
        Some(((rank, ni, header.destination.vpid), header.extent.slots()))
    }

    /// Takes the credits of a message. False: its sender has too few.
    pub(super) fn take_credit(&mut self, index: u32) -> bool {
        let Some((mailbox, slots)) = self.mailbox_of(index) else { return true };
        let from = self.messages[index as usize].from;
        let share = self.share(mailbox);
        let left = self.credits.left.entry((from, mailbox)).or_insert(share);
        let has = *left >= slots;
        if has {
            *left -= slots;
        }
        has
    }

    /// A sender's share of a mailbox. A longest message always fits.
    fn share(&mut self, (rank, ni, vpid): Box) -> u32 {
        let ranks = u64::from(self.ranks.size());
        let mut share = 0;
        self.ranks.with_nic(rank, ni, &mut |nic| {
            share = nic.signals.mailbox_slots(vpid) / ranks;
        });
        (share as u32).max(SLOTS_MAX)
    }

    /// The command of these credits is not sent.
    pub(super) fn give_credit_back(&mut self, index: u32) {
        let Some((mailbox, slots)) = self.mailbox_of(index) else { return };
        let from = self.messages[index as usize].from;
        if let Some(left) = self.credits.left.get_mut(&(from, mailbox)) {
            *left += slots;
        }
    }

    /// A program offers a message and has too few credits: it is told, or its library waits.
    pub(super) fn lacks_credit(&mut self, now: Time, index: u32) {
        self.statistics.credits_lacked += 1;
        if self.messages[index as usize].offer.wish.or_refuse {
            return self.refuse(now, index);
        }
        self.credits.waiting.push(index);
        let message = &mut self.messages[index as usize];
        message.offer.attempts = message.offer.attempts.min(1);
        let rank = message.from;
        self.rank_states[rank as usize].activity = Activity::Uncredited { since: now };
    }

    /// A message was written to its mailbox: it holds slots until its program has read it.
    pub(super) fn holds_slots(&mut self, index: u32) {
        let Some((mailbox, slots)) = self.mailbox_of(index) else { return };
        let from = self.messages[index as usize].from;
        self.credits.mailboxes.entry(mailbox).or_default().messages.push_back((from, slots));
    }

    /// Counts the slots that a rank has freed, and sends credits back where they are half a share.
    fn free_slots(&mut self, rank: u32, at: Time) {
        let mailboxes: Vec<Box> = self
            .credits
            .mailboxes
            .range((rank, 0, 0)..=(rank, u32::MAX, u16::MAX))
            .map(|(mailbox, _)| *mailbox)
            .collect();
        for mailbox in mailboxes {
            let mut head = 0;
            let there = self.ranks.with_nic(mailbox.0, mailbox.1, &mut |nic| {
                let pointers = nic.signals.port_pointers.get(usize::from(mailbox.2));
                head = pointers.map_or(0, |pointers| pointers.mailbox_head.load(std::sync::atomic::Ordering::Acquire));
            });
            let share = self.share(mailbox);
            // What is not sent back leaves room for a longest message.
            let enough = (share / 2).clamp(1, share - (SLOTS_MAX - 1));
            let Some(unread) = self.credits.mailboxes.get_mut(&mailbox) else { continue };
            // The messages of a rank that has ended, or of a port that was opened again, are nobody's.
            let is_gone = !there || head < unread.freed;
            let mut freed = if is_gone { u64::MAX } else { head - unread.freed };
            while let Some(&(from, slots)) = unread.messages.front().filter(|(_, slots)| u64::from(*slots) <= freed) {
                freed -= u64::from(slots);
                unread.freed = unread.freed.wrapping_add(slots.into());
                unread.messages.pop_front();
                *unread.owed.entry(from).or_default() += slots;
            }
            if is_gone {
                unread.freed = head;
            }
            let due: Vec<(u32, u32)> = unread
                .owed
                .iter()
                .filter(|(_, slots)| **slots >= enough)
                .map(|(from, slots)| (*from, *slots))
                .collect();
            for (from, slots) in due {
                if let Some(unread) = self.credits.mailboxes.get_mut(&mailbox) {
                    unread.owed.remove(&from);
                }
                self.send_credits(at, (from, slots), mailbox);
            }
        }
    }

    /// The NIC of a mailbox sends credits back to a sender: a response without a payload.
    fn send_credits(&mut self, at: Time, (from, slots): (u32, u32), (rank, ni, vpid): Box) {
        let index = self.new_message(at, from, ni, std::boxed::Box::default(), Bytes::new());
        let message = &mut self.messages[index as usize];
        (message.to, message.phase) = (rank, Phase::Credit);
        message.delivery.mlength = slots.into();
        message.command.request.portal = vpid.into();
        self.queue.schedule(at, Event::Issue(index));
    }

    /// Credits have come back to their sender.
    pub(super) fn credited(&mut self, now: Time, index: u32) {
        let message = &self.messages[index as usize];
        let (from, mailbox) = (message.from, (message.to, message.ni, message.command.request.portal as u16));
        if let Some(left) = self.credits.left.get_mut(&(from, mailbox)) {
            *left += message.delivery.mlength as u32;
        }
        self.free_message(index);
        self.offer_again(now, |sender| sender == from);
        self.wake(from, now);
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

    /// A rank has ended: nothing waits for its mailboxes any more.
    pub(super) fn mailboxes_ended(&mut self, rank: u32, at: Time) {
        match self.machine.nic.full_mailbox {
            FullMailbox::Drop => {}
            FullMailbox::Block => self.after_turn(rank, at),
            FullMailbox::Credits => self.offer_again(at, |_| true),
        }
    }
}
