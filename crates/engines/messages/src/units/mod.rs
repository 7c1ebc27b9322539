// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages over VELO and RMA: the rows tiny, small, medium and long of the protocol table (seed 002, section 8.6;
//! docs/design/messages-units.md).
//!
//! ```text
//! tiny, small ─ VELO messages ──> mailbox ────────┐
//! medium ────── put ─────────────> bounce memory ─┼─ receiver polls: in the order of their numbers ──> its NIC matches
//! long ──────── VELO message ────> mailbox ───────┘        └─ a long one: gets from the sender's memory, when it is matched
//! ```
//!
//! A transport on a home with these units has one port. A sender says hello, and sends packets until it gets a grant.
//!
//! Invariants
//! 1. Messages under way to a peer are within its grant ([`credits`]). So no mailbox or queue is ever full.
//! 2. Messages over the units and packets to one peer do not overlap: one begins only after the other was answered.
//!    Accesses to registered memory, in packets or over the units, are exempt unless ordered with messages.
//! 3. The receiver takes all VELO messages out of its mailbox at each poll. Messages for which its NIC has no room wait
//!    in [`credits::Inbound`], and their room is not reported.
//!
//! Reads and writes of registered memory go over the same units, from a port of their own ([`one_sided`]).
//!
//! * Records: [`wire`]: messages in bytes. [`credits`]: credits and order. [`memory`]: registered memory. [`spans`]:
//!   memory of operations.
//! * Parts: [`port`]: the port for messages. [`links`]: peers that take messages. [`grants`]: senders and their
//!   messages ([`receive`]: matching). [`fetch`]: the payload of long messages. [`one_sided`]: the port for reads and
//!   writes, with
//!   [`directory`]: the regions of a process, [`translations`]: entries found there, [`command_queue`]: commands under way,
//!   [`retired`]: addresses of closed regions.
//! * [`Units`], with [`send`]: the rows. [`control`]: incoming control messages, and the end of a peer. [`access`]:
//!   reads and writes.
//!   [`retry`]: refused accesses.

pub(crate) mod access;
pub mod command_queue;
pub(crate) mod control;
pub mod credits;
pub mod directory;
pub(crate) mod fetch;
pub(crate) mod grants;
pub(crate) mod limits;
pub(crate) mod links;
pub mod memory;
pub(crate) mod one_sided;
pub(crate) mod port;
pub(crate) mod receive;
pub mod retired;
pub(crate) mod retry;
pub(crate) mod send;
pub(crate) mod spans;
pub mod translations;
pub mod wire;

use std::sync::Arc;

use selvedge_host::Interface;

use crate::in_flight::InFlight;
use fetch::{Fetches, Payload};
use grants::Grants;
use links::Links;
use one_sided::OneSided;
use port::MessagePort;
use selvedge_process::device::{Device, DeviceError};

/// Polls between checks for dead peers.
const POLLS_MAX: u32 = 256;

/// The units of a transport's NIC, with everything under way there.
pub(crate) struct Units {
    pub port: MessagePort,
    pub links: Links,
    pub grants: Grants,
    pub fetches: Fetches,
    pub one_sided: OneSided,
    /// Polls in a row that found nothing.
    polls: u32,
}

impl Units {
    /// Opens the ports. `medium_max`: bytes of the longest message that is put; `senders_max`: senders that may have a grant.
    pub fn open(interface: &Arc<Interface>, medium_max: usize, senders_max: u32) -> Result<Units, DeviceError> {
        let device = Arc::new(Device::over(interface.clone()));
        let one_sided = OneSided::open(&device)?;
        Ok(Units {
            port: MessagePort::open(&device, medium_max)?,
            links: Links::default(),
            grants: Grants::new(senders_max as usize),
            fetches: Fetches::default(),
            one_sided,
            polls: 0,
        })
    }

    /// Fetches a payload for an operation, now or when there is room. Returns its outcome if it has ended.
    pub fn fetch(
        &mut self,
        flight: &mut InFlight,
        number: usize,
        (sender, payload, length): (u64, Payload, u64),
    ) -> Option<u8> {
        self.fetches.start(&mut self.port, flight, number, (sender, payload, length))
    }

    /// Forgets the remains of operations that ended with their endpoint.
    pub fn forget_ended(&mut self, flight: &InFlight) {
        let operations = &flight.operations;
        self.fetches.forget_ended(|number| operations.is_fetch(number));
        self.one_sided.forget_ended(|number| operations.is_access_over_units(number));
    }

    /// Counts a poll. Returns whether to check for dead peers now.
    pub fn has_polled(&mut self, any: bool) -> bool {
        self.polls = if any { 0 } else { self.polls + 1 };
        let is_due = self.polls == POLLS_MAX;
        if is_due {
            self.polls = 0;
        }
        is_due
    }
}
