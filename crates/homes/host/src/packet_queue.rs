// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records of packets: a process's ring at a NIC, the owner's turn, packets that wait to be sent.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, OnceLock};

use selvedge_nic::packet::Packet;
use selvedge_nic::portals::Delivery;
use selvedge_nic::ring::Producer;
use selvedge_nic::velo::Header;

use crate::config::PID_LIMIT;
use crate::elsewhere::UNANSWERED_MAX;
use crate::errors::PostError;
use crate::rings::{ClaimError, Ring, Rings};

/// What a sender must know about itself.
pub struct Sender<'a> {
    /// Its word for locks and claims.
    pub word: u64,
    /// Its Portals process id: the number of its rings.
    pub pid: usize,
    pub os_pid: u32,
    pub directory: &'a Path,
    /// Numbers its spill files.
    pub spills: &'a AtomicU64,
}

/// A NIC's rings, mapped at the first packet, and this process's ring there.
#[derive(Default)]
pub struct Queue {
    rings: OnceLock<Option<Rings>>,
    claimed: Mutex<Option<Claimed>>,
}

struct Claimed {
    producer: Producer,
    pid: usize,
    word: u64,
}

impl Queue {
    /// The rings, mapped by `open` if they were not before. None: they are not there.
    pub fn rings(&self, open: impl FnOnce() -> Option<Rings>) -> Option<&Rings> {
        self.rings.get_or_init(open).as_ref()
    }

    /// The rings, if they are mapped.
    pub fn mapped(&self) -> Option<&Rings> {
        self.rings.get().and_then(Option::as_ref)
    }

    /// Runs `run` on this process's ring among `rings`.
    pub fn with<R>(
        &self,
        rings: &Rings,
        sender: &Sender<'_>,
        run: impl FnOnce(&Ring, &mut Producer) -> R,
    ) -> Result<R, PostError> {
        if rings.is_closed() {
            return Err(PostError::Gone);
        }
        let mut claimed = self.claimed.lock().unwrap_or_else(|poison| poison.into_inner());
        if claimed.is_none() {
            let (pid, word) = (sender.pid, sender.word);
            let producer = rings.claim_packets(pid, word).map_err(|error| match error {
                ClaimError::Taken => PostError::Full,
                ClaimError::NoSpace => PostError::NoSpace,
            })?;
            *claimed = Some(Claimed { producer, pid, word });
        }
        // The owner closes a ring that contains data that no sender writes.
        let ring = rings.packet_ring(sender.pid).ok_or(PostError::NoSpace)?;
        let claimed = claimed.as_mut().ok_or(PostError::NoSpace)?;
        Ok(run(ring, &mut claimed.producer))
    }

    /// Gives up this process's ring. The next process of its id uses it.
    pub fn give_up(&self) {
        let claimed = self.claimed.lock().unwrap_or_else(|poison| poison.into_inner()).take();
        if let (Some(claimed), Some(Some(rings))) = (claimed, self.rings.get()) {
            rings.give_up_packets(claimed.pid, claimed.word);
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The ring that the owner dequeues from, and how many more packets it dequeues there before another ring's turn.
#[derive(Default)]
pub struct Turn {
    pub pid: usize,
    pub left: u32,
}

/// VELO messages that found a full mailbox, oldest first. They leave their rings and links, so that what is behind them is not held up.
#[derive(Default)]
pub struct Held {
    messages: VecDeque<HeldMessage>,
    /// How many of them are from other hosts.
    from_elsewhere: usize,
}

struct HeldMessage {
    packet: Packet,
    payload: Vec<u8>,
    /// It is from another host.
    is_elsewhere: bool,
}

/// Messages of this host that are held at most.
const HELD_MAX: usize = 4096;
/// Messages of other hosts that are held at most: those of a few ports of each process of a job.
const HELD_FROM_ELSEWHERE_MAX: usize = 4 * PID_LIMIT * UNANSWERED_MAX as usize;

impl Held {
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether a message of this host is held. It comes before those that its sender has in a ring since.
    pub fn has_of_this_host(&self) -> bool {
        self.messages.len() > self.from_elsewhere
    }

    /// Whether a message to the same mailbox is held. Later ones must queue behind it.
    pub fn holds_up(&self, packet: &Packet) -> bool {
        self.messages.iter().any(|held| mailbox(&held.packet) == mailbox(packet))
    }

    /// Whether no more may be held. Further ones wait in their rings, and their senders are told that there is no room.
    pub fn is_full(&self, is_elsewhere: bool) -> bool {
        match is_elsewhere {
            true => self.from_elsewhere >= HELD_FROM_ELSEWHERE_MAX,
            false => self.messages.len() - self.from_elsewhere >= HELD_MAX,
        }
    }

    /// Holds a message.
    pub fn push(&mut self, packet: &Packet, payload: Vec<u8>, is_elsewhere: bool) {
        self.messages.push_back(HeldMessage { packet: *packet, payload, is_elsewhere });
        self.from_elsewhere += usize::from(is_elsewhere);
    }

    /// Offers the messages again, in order: `deliver` returns what became of one that was taken. The first that a mailbox refuses holds up
    /// the later ones to it. Returns those that were taken and are to be answered.
    pub fn offer(&mut self, mut deliver: impl FnMut(&Packet, &[u8]) -> Option<Delivery>) -> Vec<(Packet, Delivery)> {
        let (mut refused, mut answered) = (Vec::new(), Vec::new());
        self.messages.retain(|HeldMessage { packet, payload, is_elsewhere }| {
            let mailbox = mailbox(packet);
            if refused.contains(&mailbox) {
                return true;
            }
            let Some(delivery) = deliver(packet, payload) else {
                refused.push(mailbox);
                return true;
            };
            self.from_elsewhere -= usize::from(*is_elsewhere);
            if packet.token != 0 {
                answered.push((*packet, delivery));
            }
            false
        });
        answered
    }
}

/// The mailbox that a message goes to.
fn mailbox(packet: &Packet) -> u16 {
    Header::from_word(packet.match_bits).map_or(u16::MAX, |header| header.destination.vpid)
}

/// A packet that progress could not send at once.
pub struct Outgoing {
    pub target: u64,
    pub packet: Packet,
    pub payload: Vec<u8>,
    /// What the packet answers, if its NIC must be told.
    pub answered: Option<Answered>,
}

/// A record of a NIC whose answer is sent.
#[derive(Clone, Copy)]
pub struct Answered {
    pub nic: u64,
    pub index: u32,
    pub sequence: u64,
}
