// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Peeking (fi_tagged(3)): an unexpected message looked at, claimed for one receive, or discarded.
//!
//! A claimed message leaves its list, the NIC's or that of [`super::early`], at once: its payload, where it lies here, is copied and kept until the receive that
//! names its context. A message whose payload waits with its sender is fetched then, or, discarded, fetched of no length.

use std::ffi::{c_int, c_void};

use selvedge_nic::NoMemory;

use super::receive::{Arrived, Landing, Wanted};
use super::{Core, Side, Ticket, scatter, total};
use crate::constants::*;
use crate::endpoint::Endpoint;
use crate::ffi::fi_cq_tagged_entry;

/// A message that a program has claimed, with its payload.
pub struct Claimed {
    pub endpoint: *mut Endpoint,
    context: *mut c_void,
    message: Arrived,
    bytes: Box<[u8]>,
}

impl Core {
    /// Looks for an unexpected message (`FI_PEEK`), and with `claim` keeps it for this context, or with `discard` drops it.
    pub fn peek(&mut self, wanted: &Wanted<'_>, claim: bool, discard: bool) -> isize {
        self.progress();
        // SAFETY: an endpoint that is open.
        let index = unsafe { (*wanted.ticket.endpoint).index };
        let portal = wanted.kind.portal(index);
        if let Some((message, bytes)) = self.look_early(portal, wanted, claim || discard) {
            if claim {
                self.keep_claimed(wanted, message, bytes);
            }
            return self.tell_peeked(wanted, &message);
        }
        if self.fronts.is_open(portal) && self.kept.get() == self.seen {
            // The NIC has none either.
            return self.tell_nothing(wanted);
        }
        self.close_front(portal);
        let mut nic = self.interface.lock();
        let found = nic.find_unexpected(&mut NoMemory, portal, &wanted.entry());
        let Some((found, header)) = found.and_then(|found| Some((found, *nic.unexpected(found)?))) else {
            drop(nic);
            return self.tell_nothing(wanted);
        };
        let message = Arrived::of(&header);
        if claim || discard {
            let mut bytes = Vec::new();
            if message.token == 0 && claim {
                // SAFETY: the payload lies in one of our buffers until the header is dropped.
                bytes =
                    unsafe { std::slice::from_raw_parts(header.start as *const u8, header.mlength as usize).to_vec() };
            }
            nic.drop_unexpected(found);
            drop(nic);
            if claim {
                self.keep_claimed(wanted, message, bytes.into_boxed_slice());
            } else if message.token != 0 {
                self.release_payload(wanted, message);
            }
        } else {
            drop(nic);
        }
        self.tell_peeked(wanted, &message)
    }

    /// Keeps a message for the receive that names this context.
    fn keep_claimed(&mut self, wanted: &Wanted<'_>, message: Arrived, bytes: Box<[u8]>) {
        let Ticket { endpoint, context, .. } = wanted.ticket;
        self.claimed.push(Claimed { endpoint, context, message, bytes });
    }

    /// Says that nothing was found.
    fn tell_nothing(&self, wanted: &Wanted<'_>) -> isize {
        let Ticket { context, flags, .. } = wanted.ticket;
        let entry = fi_cq_tagged_entry { op_context: context, flags, tag: wanted.tag, ..Default::default() };
        self.fail_uncounted(&wanted.ticket, entry, ENOMSG);
        0
    }

    /// Says what was found.
    fn tell_peeked(&self, wanted: &Wanted<'_>, message: &Arrived) -> isize {
        let entry = fi_cq_tagged_entry {
            op_context: wanted.ticket.context,
            flags: wanted.ticket.flags | if message.data.is_some() { REMOTE_CQ_DATA } else { 0 },
            len: message.length as usize,
            buf: std::ptr::null_mut(),
            data: message.data.unwrap_or(0),
            tag: message.tag,
        };
        let source = self.source_name(message.source);
        self.complete_uncounted(&wanted.ticket, Side::Receive, entry, source);
        0
    }

    /// Receives a message that was claimed with this context (`FI_CLAIM`), or discards it.
    pub fn receive_claimed(&mut self, wanted: &Wanted<'_>, discard: bool) -> isize {
        let ticket = wanted.ticket;
        let found = self
            .claimed
            .iter()
            .position(|claimed| claimed.context == ticket.context && claimed.endpoint == ticket.endpoint);
        let Some(found) = found else { return -(EINVAL as isize) };
        let claimed = self.claimed.remove(found);
        let message = claimed.message;
        if discard {
            if message.token != 0 {
                self.release_payload(wanted, message);
            }
            let entry = fi_cq_tagged_entry {
                op_context: ticket.context,
                flags: ticket.flags,
                tag: message.tag,
                ..Default::default()
            };
            self.complete_uncounted(&ticket, Side::Receive, entry, ADDR_ANY);
            return 0;
        }
        let room = total(wanted.pieces);
        let start = wanted.pieces.first().map_or(0, |piece| piece.iov_base as u64);
        if message.token == 0 {
            // SAFETY: the program's pieces.
            unsafe { scatter(claimed.bytes.as_ptr(), claimed.bytes.len().min(room), wanted.pieces) };
            self.arrived(wanted.kind, &ticket, &message, room, start, 0, true);
            return 0;
        }
        let taken = (message.length as usize).min(room);
        let bytes = (wanted.pieces.len() > 1).then(|| vec![0u8; taken].into_boxed_slice());
        let start = bytes.as_ref().map_or(start, |bytes| bytes.as_ptr() as u64);
        let (kind, pieces) = (wanted.kind, wanted.pieces.into());
        self.fetch(ticket, Landing { message, kind, room, pieces, bytes, start, multi: None });
        0
    }

    /// Tells a sender that its payload is not wanted: fetches none of it.
    fn release_payload(&mut self, wanted: &Wanted<'_>, message: Arrived) {
        let ticket = Ticket { wanted: false, flags: 0, ..wanted.ticket };
        let message = Arrived { length: 0, ..message };
        let landing =
            Landing { message, kind: wanted.kind, room: 0, pieces: [].into(), bytes: None, start: 0, multi: None };
        self.fetch(ticket, landing);
    }

    fn fail_uncounted(&self, ticket: &Ticket, entry: fi_cq_tagged_entry, error: c_int) {
        // SAFETY: an endpoint that is open, and the queue that it is bound to.
        unsafe {
            let queue = (*ticket.endpoint).rx_queue;
            if !queue.is_null() {
                (*queue).push_failure(entry, 0, error);
            }
        }
    }
}
