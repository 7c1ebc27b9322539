// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Senders with a grant, and the messages that have come from each.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_nic::portals::fail;

use super::credits::{BOUNCED, BOUNCES, Body, Inbound, ProtocolError, SLOTS, Waiting, mailed};
use super::limits::slots_of;
use super::memory::Block;
use super::port::MessagePort;
use super::wire::{self, Arrival, Control, Counts, Heading, Report, mtt};
use selvedge_process::device::messages::Message;

pub(super) struct Granted {
    pub inbound: Inbound,
    pub bounce: Block,
}

pub(crate) struct Grants {
    /// By their ids.
    pub(super) senders: BTreeMap<u64, Granted>,
    senders_max: usize,
    /// Senders whose next message may be taken now, or that wait for a report.
    pub(super) due: BTreeSet<u64>,
    /// Peers must send packets from now on.
    is_withdrawn: bool,
}

impl Grants {
    pub fn new(senders_max: usize) -> Grants {
        Grants { senders: BTreeMap::new(), senders_max, due: BTreeSet::new(), is_withdrawn: false }
    }

    /// Grants room to a sender, if there is room.
    pub fn grant(&mut self, port: &MessagePort, id: u64) -> Control {
        if self.is_withdrawn {
            return Control::Refused;
        }
        if !self.senders.contains_key(&id) {
            if self.senders.len() >= self.senders_max {
                return Control::Refused;
            }
            let bounce = match port.new_bounce_memory(BOUNCES) {
                Ok(bounce) => bounce,
                Err(error) => {
                    log::warn!("process {id} must send packets: no memory for its messages: {error}");
                    return Control::Refused;
                }
            };
            self.senders.insert(id, Granted { inbound: Inbound::default(), bounce });
        }
        let Some(granted) = self.senders.get_mut(&id) else { return Control::Refused };
        // A process that asks again is a new one with this id, or has reopened its NIC.
        if !granted.inbound.is_empty() {
            return Control::Refused;
        }
        granted.inbound = Inbound::default();
        Control::Open { slots: SLOTS, bounces: BOUNCES, nla: granted.bounce.nla() }
    }

    /// Ends all grants. The first call returns the senders to notify.
    pub fn withdraw(&mut self) -> Vec<u64> {
        if std::mem::replace(&mut self.is_withdrawn, true) {
            return Vec::new();
        }
        for granted in self.senders.values_mut() {
            granted.inbound.reports_all = true;
        }
        self.senders.keys().copied().collect()
    }

    /// Takes the senders whose next message may be taken now, or that wait for a report.
    pub fn take_due(&mut self) -> BTreeSet<u64> {
        std::mem::take(&mut self.due)
    }

    /// Queues a VELO message of a sender. If the sender has no grant, the message is for an earlier NIC with this id,
    /// and this process answers that it is closed.
    pub fn keep_or_refuse(&mut self, port: &mut MessagePort, id: u64, message: &Message) {
        if !self.senders.contains_key(&id) {
            log::debug!("a message from process {id} is for a NIC that is closed");
            port.control(id, Control::Closed);
        } else if self.keep(id, message).is_err() {
            self.cut_off(id);
        }
    }

    /// Queues a VELO message of a sender.
    fn keep(&mut self, id: u64, message: &Message) -> Result<(), ProtocolError> {
        let granted = self.senders.get_mut(&id).ok_or(ProtocolError)?;
        self.due.insert(id);
        let (bytes, mtt) = (message.payload(), message.label.mtt());
        let (number, is_short) = wire::of_tag(message.label.tag());
        let room = slots_of(bytes.len());
        if mtt == mtt::SMALL && !granted.inbound.begins() {
            return granted.inbound.go_on(number, bytes, room);
        }
        let waiting = |heading, body| Waiting { number, heading, body, room: mailed(room) };
        match wire::decode(mtt, is_short, bytes).ok_or(ProtocolError)? {
            Arrival::Tiny(heading, payload) => granted.inbound.arrive(waiting(heading, Body::Bytes(payload.to_vec()))),
            Arrival::First(heading, length, segments, payload) => {
                granted.inbound.begin(waiting(heading, Body::Bytes(payload.to_vec())), length, segments)
            }
            Arrival::Long(heading, request) => granted.inbound.arrive(waiting(heading, Body::Long(request))),
        }
    }

    /// Keeps a sender's question for a report until the messages before it are taken.
    pub fn keep_question(&mut self, port: &mut MessagePort, id: u64, number: u8) {
        let Some(granted) = self.senders.get_mut(&id) else { return port.control(id, Control::Closed) };
        let (heading, room) = (Heading::default(), Counts::default());
        if granted.inbound.arrive(Waiting { number, heading, body: Body::Ask, room }).is_err() {
            return self.cut_off(id);
        }
        self.due.insert(id);
    }

    /// Queues a put of a sender to this network logical address.
    pub fn keep_put(&mut self, slot_bytes: usize, id: u64, (nla, bytes): (u64, usize)) -> Result<(), ProtocolError> {
        let granted = self.senders.get_mut(&id).ok_or(ProtocolError)?;
        let offset = nla.checked_sub(granted.bounce.nla()).ok_or(ProtocolError)?;
        let slot = offset / slot_bytes as u64;
        let is_slot = offset % slot_bytes as u64 == 0 && slot < BOUNCES.into() && bytes <= slot_bytes;
        if !is_slot || bytes < wire::BOUNCE_HEADING_BYTES {
            return Err(ProtocolError);
        }
        let mut begin = [0; wire::BOUNCE_HEADING_BYTES];
        // SAFETY: the slot is within the block, and the unit wrote it before the notification. A sender that violates
        // the protocol may write it again meanwhile. Then the bytes are wrong, but they are checked.
        unsafe { std::ptr::copy_nonoverlapping(granted.bounce.at(offset as usize), begin.as_mut_ptr(), begin.len()) };
        let (heading, number, length) = wire::decode_bounced(&begin).ok_or(ProtocolError)?;
        if length != bytes - wire::BOUNCE_HEADING_BYTES {
            return Err(ProtocolError);
        }
        self.due.insert(id);
        let body = Body::Bounced { slot: slot as u16, length };
        granted.inbound.bounce(Waiting { number, heading, body, room: BOUNCED })
    }

    /// Sends a sender a report, if one is due.
    pub fn send_report(&mut self, port: &MessagePort, id: u64) {
        let Some(taken) = self.senders.get(&id).and_then(|granted| granted.inbound.due()) else { return };
        if !port.report(id, Report::Taken(taken)) {
            self.due.insert(id);
            return;
        }
        if let Some(granted) = self.senders.get_mut(&id) {
            granted.inbound.reported(taken);
        }
    }

    /// Stops taking messages of a sender that violates the protocol.
    #[cold]
    pub fn cut_off(&mut self, id: u64) {
        log::warn!("process {id} sent an invalid message; no more of its messages are taken");
        self.senders.remove(&id);
        self.due.remove(&id);
    }

    /// Resumes a sender whose next message had to be fetched first, after the fetch has ended or failed.
    pub fn fetched_first(&mut self, id: u64, bytes: Box<[u8]>, failed: u8) {
        let Some(granted) = self.senders.get_mut(&id) else { return };
        granted.inbound.is_fetching = false;
        self.due.insert(id);
        if failed != fail::OK {
            log::error!("a message from process {id} is lost: its payload could not be fetched");
            granted.inbound.take();
            return;
        }
        granted.inbound.fetched(bytes.into_vec());
    }
}
