// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The result of a request at its target.

use super::constants::list;
use crate::bus::Fault;

/// The result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delivery {
    /// `PTL_NI_*`.
    pub fail: u8,
    /// Bytes moved.
    pub mlength: u64,
    /// The offset used in the entry's memory. If a put was refused for its epoch: the portal table entry's epoch.
    pub remote_offset: u64,
    /// The entry sends no acknowledgement.
    pub ack_disabled: bool,
    /// The list that matched.
    pub list: u8,
}

impl Delivery {
    /// The result of a request that failed before it moved any bytes.
    pub const fn failed(fail: u8) -> Delivery {
        Delivery { fail, mlength: 0, remote_offset: 0, ack_disabled: false, list: list::PRIORITY }
    }
}

/// The outcome of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Done(Delivery),
    /// This process cannot access the entry's memory; the owner must handle the request. Nothing has changed.
    Unreachable,
    /// A unit keeps the request, and answers later ([`Locks::next_answer`](crate::rma::Locks::next_answer)).
    Kept,
    /// The target has no room for the request. Nothing has changed, and the initiator may try again.
    Full,
    /// The initiator's memory is not mapped, or its process is gone. The target's tables are unchanged.
    Initiator(Fault),
}
