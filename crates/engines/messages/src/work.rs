// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deferred work: the program's request, and the records of unfinished work.

use libc::iovec;
use selvedge_nic::portals::EntrySpec;
use selvedge_nic::portals::triggered::Armed;
use selvedge_nic::tables::Command;

use crate::error::Fault;
use crate::posted::Arrived;
use crate::ticket::{Kind, Ticket};

/// Largest number of outstanding events of works.
pub const EVENTS_MAX: u32 = 2048;

/// The trigger and the counter of an operation that a program queues.
#[derive(Clone, Copy)]
pub struct Work {
    /// The address of the program's structure.
    pub id: usize,
    pub trigger: u32,
    pub threshold: u64,
    /// The completion counter, or NONE.
    pub counter: u32,
}

/// A work that may still be unfired.
pub(crate) struct Queued {
    pub(crate) id: usize,
    pub(crate) trigger: u32,
    pub(crate) armed: Vec<Armed>,
    /// The number of its operation. `None`: the work only changes a counter.
    pub(crate) number: Option<usize>,
}

/// A work that moves data. The record lives until the work ends.
pub struct Deferred {
    pub ticket: Ticket,
    /// The match entry of a receive, or the token entry of a send.
    pub entry: Option<u32>,
    pub(crate) counter: u32,
    pub(crate) hidden: u32,
    pub(crate) counted: Counted,
    /// Its share of the outstanding events.
    pub(crate) awaited: u32,
    /// The number of outstanding events.
    pub(crate) left: u32,
    /// One of its commands was restarted and is unanswered.
    pub(crate) trying: bool,
    pub(crate) error: Option<Fault>,
    /// The NIC's descriptors for I/O vectors.
    pub(crate) descriptors: Vec<u32>,
    pub(crate) target: (u64, u64),
    pub(crate) role: Role,
}

/// The outcomes of a work that the NIC counts at its completion counter.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    Always,
    Successes,
    /// A success, if the hidden counter has at least this number of successes.
    From(u64),
}

pub(crate) enum Role {
    Transfer {
        /// The notification for the target's program, sent after the data.
        note: Option<Command>,
    },
    Send {
        command: Command,
        /// Its header is an unexpected header at the target.
        waits: bool,
        fetched: bool,
    },
    Receive {
        kind: Kind,
        pieces: Box<[iovec]>,
        spec: EntrySpec,
        /// The message whose payload is being fetched.
        message: Option<Arrived>,
    },
}
