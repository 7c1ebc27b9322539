// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations in flight. The `user_ptr` of the NIC's events is an operation's number.

use crate::message::Outgoing;
use crate::posted::{Fetch, PostedReceive};
use crate::ticket::Ticket;
use crate::transfer::PendingAccess;
use crate::work::Deferred;

/// An operation in flight.
pub enum Operation {
    Receive(PostedReceive),
    /// A message whose payload waits here for its receive, or whose reply is still to come.
    Send(Box<Outgoing>),
    /// The payload of a message is being fetched.
    Fetch(Box<Fetch>),
    /// A read, write or atomic.
    Access(Box<PendingAccess>),
    /// A buffer for unexpected payload.
    Buffer(Box<Buffer>),
    /// An operation that the NIC starts.
    Deferred(Box<Deferred>),
}

/// A buffer for unexpected payload.
pub struct Buffer {
    pub portal: u32,
    pub(crate) bytes: Box<[std::mem::MaybeUninit<u8>]>,
    /// Set while it is linked or holds messages.
    pub entry: Option<u32>,
    pub(crate) linked: bool,
}

impl Operation {
    pub(crate) fn entry(&self) -> Option<u32> {
        match self {
            Operation::Receive(posted) => Some(posted.entry),
            Operation::Send(outgoing) => outgoing.entry,
            Operation::Buffer(buffer) => buffer.entry,
            Operation::Deferred(work) => work.entry,
            Operation::Fetch(_) | Operation::Access(_) => None,
        }
    }

    /// The ticket of the operation; a buffer has none.
    pub(crate) fn ticket(&self) -> Option<&Ticket> {
        match self {
            Operation::Receive(posted) => Some(&posted.ticket),
            Operation::Send(outgoing) => Some(&outgoing.ticket),
            Operation::Fetch(fetch) => Some(&fetch.ticket),
            Operation::Access(pending) => Some(&pending.ticket),
            Operation::Deferred(work) => Some(&work.ticket),
            Operation::Buffer(_) => None,
        }
    }
}
