// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The payload of long messages: gets by the receiver from the sender's memory into the receive, without a copy.
//!
//! The last get asks for two notifications: the responder's ends the send, the completer's ends the receive. A receiver
//! that does not want the payload tells the sender so.
//!
//! Invariants
//! 1. At most [`GETS_MAX`] fetches are under way. The others wait, in the order in which their messages were matched.
//! 2. A payload is fetched once, or released.
//!
//! A fetch that ends is returned with the reply of its target (`fail`), because its end may reach the parts above.

use std::collections::{BTreeMap, VecDeque};

use selvedge_nic::portals::fail;

use super::limits::GETS_MAX;
use super::port::MessagePort;
use super::wire::Request;
use crate::in_flight::InFlight;
use crate::posted::RemotePayload;
use selvedge_process::device::DeviceError;
use selvedge_process::device::connection::{PostError, Posted};

pub(crate) enum Payload {
    /// It waits at its sender.
    There(Request),
    /// It was fetched already.
    Here(Vec<u8>),
}

/// Fetches, and the payload of messages that may be fetched.
#[derive(Default)]
pub(crate) struct Fetches {
    /// Long messages that were matched or are unexpected, by sender and token.
    payloads: BTreeMap<(u64, u32), Payload>,
    /// Fetches that have not started for lack of room.
    waiting: VecDeque<usize>,
}

impl Fetches {
    /// Keeps the payload of a message that was matched or is unexpected.
    pub fn keep_payload(&mut self, sender: u64, token: u32, payload: Payload) {
        self.payloads.insert((sender, token), payload);
    }

    /// The payload of a message, if it came over the units.
    pub fn take_payload(&mut self, sender: u64, token: u32) -> Option<Payload> {
        self.payloads.remove(&(sender, token))
    }

    /// Forgets fetches that ended with their endpoint.
    pub fn forget_ended(&mut self, is_fetch: impl Fn(usize) -> bool) {
        self.waiting.retain(|number| is_fetch(*number));
    }

    /// Fetches `length` bytes of a payload for an operation, now or when there is room. Returns the outcome if known.
    pub fn start(
        &mut self,
        port: &mut MessagePort,
        flight: &mut InFlight,
        number: usize,
        (sender, payload, length): (u64, Payload, u64),
    ) -> Option<u8> {
        let fetch = flight.operations.fetch(number)?;
        let start = fetch.landing.start;
        let request = match payload {
            Payload::There(request) => request,
            Payload::Here(bytes) => {
                let bytes = &bytes[..bytes.len().min(length as usize)];
                let interface = &flight.nic.interface;
                if !interface.has_writable(start, bytes.len() as u64) {
                    return Some(fail::SEGV);
                }
                // SAFETY: the range is writable, as just checked, and the program gave it to a receive.
                unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), start as *mut u8, bytes.len()) };
                interface.charge_copy(bytes.len() as u64);
                return Some(fail::OK);
            }
        };
        let length = length.min(request.length);
        fetch.source = Some(RemotePayload { request, sender, length, region: None });
        self.start_or_wait(port, flight, number)
    }

    /// Starts a fetch, or keeps it for later. Returns its outcome if it has ended.
    fn start_or_wait(&mut self, port: &mut MessagePort, flight: &mut InFlight, number: usize) -> Option<u8> {
        let operations = &mut flight.operations;
        let fetch = operations.fetch(number)?;
        let start = fetch.landing.start;
        let RemotePayload { request, sender, length, .. } = fetch.source.as_ref()?;
        let (request, sender, length) = (*request, *sender, *length);
        if length == 0 || request.nla == 0 {
            port.release(sender, request.token);
            return Some(fail::OK);
        }
        if operations.sinks.len() >= GETS_MAX {
            self.waiting.push_back(number);
            return None;
        }
        let made = match port.register(&mut operations.sinks, (sender, number), (start, length), true) {
            Ok(made) => made,
            Err(DeviceError::TablesFull { .. }) if operations.sinks.len() != 0 && port.can_register(length) => {
                self.waiting.push_back(number);
                return None;
            }
            Err(error) => {
                log::debug!("a message cannot be received: {error}");
                port.release(sender, request.token);
                return Some(fail::SEGV);
            }
        };
        let nla = made.1;
        match port.get(sender, &request, nla, length) {
            Ok(Posted::Started) => {
                if let Some(source) = operations.fetch(number).and_then(|fetch| fetch.source.as_mut()) {
                    source.region = Some(made);
                }
                None
            }
            Err(PostError::Full) => {
                operations.sinks.remove(sender, nla);
                self.waiting.push_back(number);
                None
            }
            Ok(Posted::Refused) | Err(_) => {
                operations.sinks.remove(sender, nla);
                port.release(sender, request.token);
                Some(fail::SEGV)
            }
        }
    }

    /// The number of fetches that have not started.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Starts the first fetch that waits for room. Returns its number, and its outcome if known. `None`: none may
    /// start.
    pub fn start_next(&mut self, port: &mut MessagePort, flight: &mut InFlight) -> Option<(usize, Option<u8>)> {
        if flight.operations.sinks.len() >= GETS_MAX {
            return None;
        }
        let number = self.waiting.pop_front()?;
        Some((number, self.start_or_wait(port, flight, number)))
    }
}

impl MessagePort {
    /// Handles the end of the gets of a fetch from this sender. Returns the number of the fetch.
    pub fn gets_ended(&self, flight: &mut InFlight, (sender, nla): (u64, u64), failed: u8) -> Option<usize> {
        let operations = &mut flight.operations;
        let number = operations.sinks.at(sender, nla)?;
        let RemotePayload { request, sender, region, .. } = operations.fetch(number)?.source.take()?;
        if let Some((_, nla)) = region {
            operations.sinks.remove(sender, nla);
        }
        if failed != fail::OK {
            // The responder may not have handled the last get.
            self.release(sender, request.token);
        }
        Some(number)
    }
}
