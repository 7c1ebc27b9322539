// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that progress could not send at once. They are sent in order, separately for each target.
//!
//! Cost: one load if no packet waits.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_nic::packet::Packet;
use selvedge_os::shortage::end_reported;
use selvedge_os::sync::IgnorePoison;

use crate::errors::PostError;

/// The payload of a request that is sent as a packet.
pub enum RequestPayload {
    Copied(Vec<u8>),
    /// The program leaves it in place until the response: address and bytes.
    Stays(*const u8, usize),
}

impl RequestPayload {
    /// Returns the bytes, for a packet that waits here.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            RequestPayload::Copied(bytes) => bytes,
            // SAFETY: [`crate::remote_hosts::payload_of`] found them readable, and the program leaves them so.
            RequestPayload::Stays(start, bytes) => unsafe { std::slice::from_raw_parts(start, bytes) }.to_vec(),
        }
    }
}

/// A packet that progress could not send at once.
pub struct Outgoing {
    pub target: u64,
    pub packet: Packet,
    pub payload: Vec<u8>,
    /// The record that the packet answers, if its NIC must be notified.
    pub answered: Option<Answered>,
}

/// A record of a NIC whose answer is sent.
#[derive(Clone, Copy)]
pub struct Answered {
    pub nic: u64,
    pub index: u32,
    pub sequence: u64,
}

#[derive(Default)]
pub(crate) struct Outbox {
    packets: Mutex<VecDeque<Outgoing>>,
    waits: AtomicBool,
}

impl Outbox {
    #[inline(always)]
    pub(crate) fn any(&self) -> bool {
        self.waits.load(Relaxed)
    }

    /// Keeps a packet until [`Outbox::flush`] sends it.
    pub(crate) fn push(&self, packet: Outgoing) {
        let mut packets = self.packets.lock().ignore_poison();
        packets.push_back(packet);
        self.waits.store(true, SeqCst);
    }

    /// Sends the packets by `post`. If there is no room for one, it stays, and so do later ones to the same target.
    /// Returns the records of the answers that were sent.
    pub(crate) fn flush(&self, mut post: impl FnMut(&mut Outgoing) -> Result<(), PostError>) -> Vec<Answered> {
        if !self.any() {
            return Vec::new();
        }
        let mut packets = self.packets.lock().ignore_poison();
        let (mut blocked, mut answered) = (VecDeque::new(), Vec::new());
        while let Some(mut packet) = packets.pop_front() {
            let waits = blocked.iter().any(|other: &Outgoing| other.target == packet.target);
            match if waits { Err(PostError::Full) } else { post(&mut packet) } {
                Err(PostError::Full) => blocked.push_back(packet),
                // A peer waits for the packet, and would wait for ever.
                Err(PostError::Shortage) => end_reported(),
                Ok(()) | Err(PostError::Gone) => answered.extend(packet.answered),
            }
        }
        *packets = blocked;
        self.waits.store(!packets.is_empty(), SeqCst);
        answered
    }
}
