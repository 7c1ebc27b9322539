// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The payload of long messages: gets by the receiver from the sender's memory into the receive, without a copy.
//!
//! The last get asks the responder for a notification, which ends the send, and the completer for one, which ends the receive. A
//! receiver that wants nothing of the payload tells the sender so.
//!
//! Invariants
//! 1. At most [`GETS_MAX`] fetches are under way. The others wait, in the order in which their messages were matched.
//! 2. A payload is fetched once, or released.

use selvedge_nic::portals::fail;
use std::sync::Arc;

use selvedge_nic::rma::{Operation as Rma, code, spec};

use super::memory::Registered;
use super::wire::{Report, Request};
use super::{GETS_MAX, Payload, Units, VPID};
use crate::operation::Operation;
use crate::transport::Transport;
use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::{PostError, Posted};

/// The memory that gets read from, and that they write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Source,
    Sink,
}

/// What a fetch over the units needs.
pub struct Source {
    pub(super) request: Request,
    /// The id of the sender.
    pub(super) sender: u64,
    /// Bytes that are wanted.
    pub(super) length: u64,
    /// The memory that they go to, while the gets are under way.
    pub(super) region: Option<(Arc<Registered>, u64)>,
}

impl Units {
    /// The payload of a message, if it came over the units.
    pub(crate) fn take_payload(&mut self, sender: u64, token: u32) -> Option<Payload> {
        self.requests.remove(&(sender, token))
    }

    /// Tells a sender that nothing of its payload is wanted.
    fn release(&self, sender: u64, token: u32) {
        if !self.report(sender, Report::Released { token }) {
            log::error!("process {sender} is not told that its message was received: there is no room for the command");
        }
    }
}

impl Transport {
    /// Fetches the payload for an operation, now or when there is room.
    pub(crate) fn fetch_over_units(&mut self, number: usize, sender: u64, payload: Payload, length: u64) {
        let Some(Operation::Fetch(fetch)) = self.operations.get_mut(number) else { return };
        let start = fetch.landing.start;
        let request = match payload {
            Payload::There(request) => request,
            Payload::Here(bytes) => {
                let bytes = &bytes[..bytes.len().min(length as usize)];
                let is_writable = self.interface.has_writable(start, bytes.len() as u64);
                if is_writable {
                    // SAFETY: the range is writable, as just checked, and the program gave it to a receive.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len()) };
                    self.interface.charge_copy(bytes.len() as u64);
                }
                return self.fetched(number, if is_writable { fail::OK } else { fail::SEGV });
            }
        };
        let length = length.min(request.length);
        fetch.source = Some(Source { request, sender, length, region: None });
        self.start_fetch(number);
    }

    /// Starts a fetch, or keeps it for later.
    fn start_fetch(&mut self, number: usize) {
        let Some(units) = &mut self.units else { return };
        let Some(Operation::Fetch(fetch)) = self.operations.get_mut(number) else { return };
        let start = fetch.landing.start;
        let Some(Source { request, sender, length, region }) = &mut fetch.source else { return };
        let (sender, length, token) = (*sender, *length, request.token);
        if length == 0 || request.nla == 0 {
            units.release(sender, token);
            return self.fetched(number, fail::OK);
        }
        if units.sinks.len() >= GETS_MAX {
            return units.fetches.push_back(number);
        }
        let made = match units.span(End::Sink, sender, (start, length), number) {
            Ok(made) => made,
            Err(DeviceError::TablesFull { .. }) if units.sinks.len() != 0 && units.can_register(length) => {
                return units.fetches.push_back(number);
            }
            Err(error) => {
                log::debug!("a message cannot be received: {error}");
                units.release(sender, token);
                return self.fetched(number, fail::SEGV);
            }
        };
        let nla = made.1;
        match units.get(sender, request, nla, length) {
            Ok(Posted::Started) => {
                *region = Some(made);
            }
            Err(PostError::Full) => {
                units.sinks.remove(sender, nla);
                units.fetches.push_back(number);
            }
            Ok(Posted::Refused) | Err(_) => {
                units.sinks.remove(sender, nla);
                units.release(sender, token);
                self.fetched(number, fail::SEGV);
            }
        }
    }

    /// Starts fetches for which there was no room.
    pub(super) fn start_fetches(&mut self) {
        let waiting = self.units.as_ref().map_or(0, |units| units.fetches.len());
        for _ in 0..waiting {
            let Some(units) = self.units.as_mut().filter(|units| units.sinks.len() < GETS_MAX) else { return };
            let Some(number) = units.fetches.pop_front() else { return };
            self.start_fetch(number);
        }
    }

    /// The gets of a fetch from this sender have ended.
    pub(super) fn got(&mut self, sender: u64, nla: u64, failed: u8) {
        let Some(units) = &mut self.units else { return };
        let Some(number) = units.sinks.at(sender, nla) else { return };
        let Some(Operation::Fetch(fetch)) = self.operations.get_mut(number) else { return };
        let Some(Source { request, sender, region, .. }) = fetch.source.take() else { return };
        if let Some((_, nla)) = region {
            units.sinks.remove(sender, nla);
        }
        if failed != fail::OK {
            // The responder may not have seen the last get.
            units.release(sender, request.token);
        }
        self.fetched(number, failed);
    }

    /// The responder has read the payload of a send for this peer.
    pub(super) fn source_was_read(&mut self, peer: u64, nla: u64) {
        if let Some(number) = self.units.as_ref().and_then(|units| units.sources.at(peer, nla)) {
            self.end_send(number, 0);
        }
    }

    /// A receiver wants nothing of a payload.
    pub(super) fn released(&mut self, id: u64, token: u32) {
        let found = self.sends_over_units(|outgoing| outgoing.token == token && outgoing.target.0 == id).next();
        if let Some(number) = found {
            self.end_send(number, 0);
        }
    }
}

impl Units {
    /// Registers the memory of an operation with this peer, and records it, so that notifications lead to the operation.
    pub(super) fn span(
        &mut self,
        end: End,
        peer: u64,
        (start, length): (u64, u64),
        number: usize,
    ) -> Result<(Arc<Registered>, u64), DeviceError> {
        let Units { device, registrations, sources, sinks, .. } = self;
        let (spans, writes) = match end {
            End::Source => (sources, false),
            End::Sink => (sinks, true),
        };
        let mut made = registrations.of(device, (start, length), writes)?;
        if !spans.insert(peer, made.nla_of(start), length, number) {
            // Notifications could not tell the two operations apart.
            made = Arc::new(Registered::new(device, VPID, start, length)?);
            spans.insert(peer, made.nla_of(start), length, number);
        }
        let nla = made.nla_of(start);
        Ok((made, nla))
    }

    /// A send to this peer has ended.
    pub(crate) fn forget_source(&mut self, peer: u64, nla: u64) {
        self.sources.remove(peer, nla);
    }

    /// Posts the gets of a payload. The last one is notified at both sides.
    fn get(&self, sender: u64, request: &Request, write: u64, length: u64) -> Result<Posted, PostError> {
        // The device cuts what is longer than a descriptor can say, in whole descriptors that the unit takes one after the other.
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
}

/// Bytes of one get: as many as a descriptor can say.
const GET_BYTES_MAX: u64 = selvedge_nic::rma::descriptor::BYTES_MAX as u64;
