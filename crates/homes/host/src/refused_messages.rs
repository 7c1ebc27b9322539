// SPDX-License-Identifier: Apache-2.0 OR MIT
//! VELO messages that found a full mailbox. They are taken out of their rings and links, so that they do not stop the
//! packets behind them.
//!
//! Invariants
//! 1. Messages to one mailbox are delivered in the order in which they came: while one waits here, later ones queue
//!    behind it.
//! 2. The queue's lock is taken after the NIC's, and no thread blocks while it holds the queue's.
//!
//! Cost: one load if no message waits.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

use selvedge_nic::packet::Packet;
use selvedge_nic::portals::Delivery;
use selvedge_nic::velo::Header;
use selvedge_os::sync::IgnorePoison;

use crate::config::{PID_LIMIT, UNANSWERED_MAX};

#[derive(Default)]
pub(crate) struct RefusedMessages {
    queue: Mutex<Queue>,
    /// Whether messages wait. It changes under the NIC's lock.
    waits: AtomicBool,
}

impl RefusedMessages {
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.waits.load(Relaxed)
    }

    /// Whether a message of this host waits. It precedes messages that its sender has put into a ring since.
    pub(crate) fn any_of_this_host(&self) -> bool {
        let queue = self.queue();
        queue.messages.len() > queue.from_remote
    }

    pub(crate) fn holds_up(&self, packet: &Packet) -> bool {
        self.any() && self.queue().holds_up(packet)
    }

    /// Keeps a message with the result of `payload`. False if no more may wait; then `payload` was not called.
    pub(crate) fn push(&self, packet: &Packet, is_remote: bool, payload: impl FnOnce() -> Vec<u8>) -> bool {
        let mut queue = self.queue();
        if queue.is_full(is_remote) {
            return false;
        }
        queue.push(packet, payload(), is_remote);
        self.waits.store(true, SeqCst);
        true
    }

    /// Offers the messages again, in order: `deliver` returns the delivery of a message that was taken. After the first
    /// refusal of a mailbox, later messages to it stay. Returns the messages that were taken and need an answer.
    pub(crate) fn offer(&self, deliver: impl FnMut(&Packet, &[u8]) -> Option<Delivery>) -> Vec<(Packet, Delivery)> {
        let mut queue = self.queue();
        let answered = queue.offer(deliver);
        self.waits.store(!queue.messages.is_empty(), SeqCst);
        answered
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().ignore_poison()
    }
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<RefusedMessage>,
    from_remote: usize,
}

struct RefusedMessage {
    packet: Packet,
    payload: Vec<u8>,
    is_remote: bool,
}

/// Limit of messages of this host.
const LOCAL_MAX: usize = 4096;
/// Limit of messages of other hosts: those of a few ports of each process of a job.
const REMOTE_MAX: usize = 4 * PID_LIMIT * UNANSWERED_MAX as usize;

impl Queue {
    /// Whether a message to the same mailbox is held. Later ones must queue behind it.
    fn holds_up(&self, packet: &Packet) -> bool {
        self.messages.iter().any(|held| mailbox(&held.packet) == mailbox(packet))
    }

    /// Whether no more may be held. Further messages wait in their rings, whose senders then find no room.
    fn is_full(&self, is_remote: bool) -> bool {
        match is_remote {
            true => self.from_remote >= REMOTE_MAX,
            false => self.messages.len() - self.from_remote >= LOCAL_MAX,
        }
    }

    fn push(&mut self, packet: &Packet, payload: Vec<u8>, is_remote: bool) {
        self.messages.push_back(RefusedMessage { packet: *packet, payload, is_remote });
        self.from_remote += usize::from(is_remote);
    }

    fn offer(&mut self, mut deliver: impl FnMut(&Packet, &[u8]) -> Option<Delivery>) -> Vec<(Packet, Delivery)> {
        let (mut refused, mut answered) = (Vec::new(), Vec::new());
        self.messages.retain(|RefusedMessage { packet, payload, is_remote }| {
            let mailbox = mailbox(packet);
            if refused.contains(&mailbox) {
                return true;
            }
            let Some(delivery) = deliver(packet, payload) else {
                refused.push(mailbox);
                return true;
            };
            self.from_remote -= usize::from(*is_remote);
            if packet.token != 0 {
                answered.push((*packet, delivery));
            }
            false
        });
        answered
    }
}

fn mailbox(packet: &Packet) -> u16 {
    Header::from_word(packet.match_bits).map_or(u16::MAX, |header| header.destination.vpid)
}
