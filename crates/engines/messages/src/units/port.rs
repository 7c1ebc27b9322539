// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The port of a transport for messages: VELO messages, puts, gets and notifications, and the memory for them.

use std::collections::VecDeque;
use std::sync::Arc;

use selvedge_host::{Interface, StartError};
use selvedge_nic::rma::{Descriptor, Notification, Operation as Rma, code, options, spec};
use selvedge_nic::velo::{Endpoint, Outgoing};

use super::limits::{MESSAGE_VPID, STAGING_SLOTS};
use super::memory::{Block, Registered, Registrations};
use super::spans::Spans;
use super::wire::{BOUNCE_HEADING_BYTES, Control, Report, Request, mtt};
use selvedge_process::device::connection::{PostError, Posted};
use selvedge_process::device::messages::{Message, MessageReader};
use selvedge_process::device::staging::{Staging, StagingSlot};
use selvedge_process::device::{Device, DeviceError};

/// Largest length of one get: the limit of a descriptor.
const GET_BYTES_MAX: u64 = selvedge_nic::rma::descriptor::BYTES_MAX as u64;

pub(crate) struct MessagePort {
    device: Arc<Device>,
    reader: MessageReader,
    notifications_read: u64,
    /// Bytes of a slot of bounce memory and of staging memory.
    pub slot_bytes: usize,
    staging: Option<(Staging, Block)>,
    registrations: Registrations,
    /// Control messages that found no room for their commands.
    unsent: VecDeque<(u64, Control)>,
}

impl MessagePort {
    /// Opens the port. `medium_max`: bytes of the longest message that is put.
    pub fn open(device: &Arc<Device>, medium_max: usize) -> Result<MessagePort, DeviceError> {
        let (_, reader) = device.open_mailbox(Some(MESSAGE_VPID), 0)?;
        Ok(MessagePort {
            device: device.clone(),
            reader,
            notifications_read: 0,
            slot_bytes: (BOUNCE_HEADING_BYTES + medium_max).next_multiple_of(64),
            staging: None,
            registrations: Registrations::new(MESSAGE_VPID),
            unsent: VecDeque::new(),
        })
    }

    fn interface(&self) -> &Interface {
        self.device.interface()
    }

    /// Takes the next VELO message out of the mailbox.
    pub fn next_message(&mut self) -> Option<Message> {
        self.reader.take(self.device.interface(), |_| true)
    }

    /// The next notification of a put, a get or a report.
    pub fn next_notification(&mut self) -> Option<Notification> {
        let signals = self.device.interface().signals();
        signals.take_notification(MESSAGE_VPID, &mut self.notifications_read).map(Notification::decode)
    }

    // ---- messages and commands ----

    /// Sends a VELO message to the transport with this id.
    pub fn mail(&self, id: u64, mtt: u8, tag: u8, bytes: &[u8]) -> Result<(), StartError> {
        let message = Outgoing {
            source: Endpoint { node: self.device.node(), vpid: MESSAGE_VPID },
            destination: Endpoint { node: id as u16, vpid: MESSAGE_VPID },
            target: id,
            mtt,
            tag,
            start: bytes.as_ptr() as u64,
            bytes: bytes.len() as u32,
        };
        // Only lengths of 0 and above 120 make no command, and no caller sends them.
        self.interface().start_now(&message.command().ok_or(StartError::Memory)?)
    }

    /// Posts an RMA command to the transport with this id.
    pub fn post(&self, id: u64, code: u8, spec: u8, operation: Rma) -> Result<Posted, PostError> {
        let descriptor = Descriptor { code, node: id as u16, vpid: MESSAGE_VPID as u8, spec, modifiers: 0, operation };
        self.device.post(MESSAGE_VPID, options::TE, &descriptor)
    }

    /// Sends a report to the sender of messages. False: there is no room now.
    pub fn report(&self, id: u64, report: Report) -> bool {
        let (value, class) = report.encode();
        let operation = Rma::NotificationPut { value, class };
        self.post(id, code::NOTIFICATION_PUT, spec::COMPLETER, operation).is_ok()
    }

    /// Tells a sender that its payload is not wanted.
    pub fn release(&self, sender: u64, token: u32) {
        if !self.report(sender, Report::Released { token }) {
            log::error!("no room for the command that releases a payload of process {sender}: its send does not end");
        }
    }

    /// Posts the gets of a payload. The last get notifies both sides.
    pub fn get(&self, sender: u64, request: &Request, write: u64, length: u64) -> Result<Posted, PostError> {
        // The device splits longer gets into descriptors, which the unit takes one after the other.
        let mut at = 0;
        loop {
            let bytes = (length - at).min(GET_BYTES_MAX);
            let is_last = at + bytes == length;
            let spec = if is_last { spec::RESPONDER | spec::COMPLETER } else { 0 };
            let operation = Rma::Get { read: request.nla + at, write: write + at, bytes: bytes as u32 };
            let posted = self.post(sender, code::BT_GET, spec, operation)?;
            if is_last || posted == Posted::Refused {
                return Ok(posted);
            }
            at += bytes;
        }
    }

    // ---- control messages ----

    /// Sends a control message. If there is no room for the command, it leaves at a later poll, behind those that wait.
    pub fn control(&mut self, id: u64, control: Control) {
        if self.unsent.is_empty() && self.try_control(id, control) || self.unsent.contains(&(id, control)) {
            return;
        }
        self.unsent.push_back((id, control));
    }

    /// Sends the control messages that found no room.
    pub fn send_unsent(&mut self) {
        while let Some((id, control)) = self.unsent.front().copied() {
            if !self.try_control(id, control) {
                return;
            }
            self.unsent.pop_front();
        }
    }

    /// Sends a control message. False: there is no room now.
    fn try_control(&self, id: u64, control: Control) -> bool {
        let sent = self.mail(id, mtt::CONTROL, 0, &control.encode());
        if matches!(sent, Err(StartError::Memory | StartError::Shortage)) {
            log::error!("process {id} does not get {control:?}: the home does not take the command");
        }
        sent != Err(StartError::NoSpace)
    }

    // ---- memory ----

    /// Whether the address tables are large enough for memory of this length if nothing else is registered.
    pub fn can_register(&self, bytes: u64) -> bool {
        bytes < u64::from(self.interface().limits().address_tables) << 30
    }

    /// Takes a slot of staging memory, which the first use allocates. `None`: there is no room now.
    pub fn take_staging(&mut self) -> Option<StagingSlot> {
        if self.staging.is_none() {
            let block = Block::new(&self.device, MESSAGE_VPID, STAGING_SLOTS as usize * self.slot_bytes)
                .inspect_err(|error| log::error!("no staging memory to send from: {error}"))
                .ok()?;
            let staging = Staging::new(block.start(), block.nla(), self.slot_bytes as u64, STAGING_SLOTS);
            self.staging = Some((staging, block));
        }
        self.staging.as_mut().and_then(|(staging, _)| staging.take())
    }

    /// Frees the slot at an address that the requester has read. False: it is not in staging memory.
    pub fn give_staging(&mut self, nla: u64) -> bool {
        self.staging.as_mut().is_some_and(|(staging, _)| staging.give_back(nla))
    }

    /// Registers the memory of an operation with this peer for gets that read or write it, and records it, so that
    /// notifications lead to the operation.
    pub fn register(
        &mut self,
        spans: &mut Spans,
        (peer, number): (u64, usize),
        (start, length): (u64, u64),
        writes: bool,
    ) -> Result<(Arc<Registered>, u64), DeviceError> {
        let MessagePort { device, registrations, .. } = self;
        let mut made = registrations.of(device, (start, length), writes)?;
        if !spans.insert(peer, made.nla_of(start), length, number) {
            // The memory is registered anew: otherwise notifications could not tell the two operations apart.
            made = Arc::new(Registered::new(device, MESSAGE_VPID, start, length)?);
            spans.insert(peer, made.nla_of(start), length, number);
        }
        let nla = made.nla_of(start);
        Ok((made, nla))
    }

    /// Allocates bounce memory for a sender.
    pub fn new_bounce_memory(&self, slots: u16) -> Result<Block, DeviceError> {
        Block::new(&self.device, MESSAGE_VPID, usize::from(slots) * self.slot_bytes)
    }
}
