// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages over VELO and RMA: the rows tiny, small, medium and long of the protocol table (seed 002, section 8.6;
//! docs/design/transport.md).
//!
//! ```text
//! tiny, small ─ VELO messages ──> mailbox ────────┐
//! medium ────── put ─────────────> bounce memory ─┼─ receiver polls: in the order of their numbers ──> its NIC matches
//! long ──────── VELO message ────> mailbox ───────┘        └─ a long one: gets from the sender's memory, when it is matched
//! ```
//!
//! A transport on a home with these units has one port. A sender first says hello, and sends packets until the answer grants it room.
//!
//! Invariants
//! 1. What is under way to a peer is within its grant ([`link`]). So no mailbox and no notification queue is ever full.
//! 2. Messages over the units and packets to one peer do not overlap: the one begins when the other is answered. Accesses to
//!    registered memory, in packets or over the units, are apart from that if the endpoint does not ask for their order with messages.
//! 3. The receiver takes all VELO messages out of its mailbox at each poll. Messages for which its NIC has no room wait in
//!    [`link::Inbound`], and their room is not reported.
//!
//! Reads and writes of registered memory go over the same units, from a port of their own ([`one_sided`]).
//!
//! * [`wire`]: messages in bytes. [`link`]: credits and order. [`memory`]: registered memory.
//! * [`send`]: the rows. [`receive`]: what has come. [`fetch`]: the payload of long messages. [`control`]: grants and their end.
//! * [`one_sided`]: the port for reads and writes. [`access`]: theirs. [`directory`]: where peers find regions. [`translations`]: what was found there. [`command_queue`]: what
//!   becomes of commands. [`retry`]: accesses that were refused. [`retired`]: addresses of closed regions.

pub mod access;
pub mod command_queue;
pub mod control;
pub mod directory;
pub mod fetch;
pub mod link;
pub mod memory;
pub mod one_sided;
pub mod receive;
pub mod retired;
pub mod retry;
pub mod send;
pub mod translations;
pub mod wire;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use selvedge_host::{Interface, StartError};
use selvedge_nic::Limits;
use selvedge_nic::rma::{Descriptor, Operation as Rma, code, options, spec};
use selvedge_nic::velo::header::Extent;
use selvedge_nic::velo::{Endpoint, Outgoing};
use slab::Slab;

use crate::operation::Operation;
use link::{BOUNCES, Inbound, SLOTS};
use memory::{Block, Registrations};
use one_sided::OneSided;
use selvedge_process::device::connection::{PostError, Posted};
use selvedge_process::device::messages::MessageReader;
use selvedge_process::device::staging::Staging;
use selvedge_process::device::{Device, DeviceError};
use wire::{BOUNCE_HEADING_BYTES, Request};

/// The port of a transport for messages.
const VPID: u16 = 0;
/// Its ports: that, the one for accesses, and two for regions, of which one is open.
const PORTS: u32 = 4;
/// Puts whose payload has not been read yet.
const STAGING_SLOTS: u64 = 16;
/// Gets under way.
const GETS_MAX: usize = 64;
/// Control messages of one peer that may lie in the mailbox: hello, the answer to ours, a question, the end of a grant; that we forget
/// addresses, and that it has; and four times more that it shall forget them ([`retired`]).
const CONTROL_SLOTS: u32 = 10;
/// Slots that the reader has freed and not yet published.
const UNPUBLISHED_SLOTS: u32 = 16;
/// Peers with a grant, if the size of the job is not known; and at most.
const PEERS_DEFAULT: u32 = 64;
const PEERS_MAX: u32 = 256;
/// Ids of a job.
const IDS: u32 = 1 << 10;

/// The limits of a NIC for so many peers with a grant.
pub(crate) fn limits(nic: &Limits, peers: u32, address_tables: u32, sends_max: u32) -> Limits {
    let (slots, bounces) = (u32::from(SLOTS), u32::from(BOUNCES));
    // Of a peer: puts, reports of what it has taken of ours, their failures, and that it is gone.
    let of_peer = bounces + 2 * (slots + bounces) + 1;
    // Of this process: staging slots, gets and sources, and their failures.
    let own = 2 * (STAGING_SLOTS as u32 + GETS_MAX as u32 + sends_max);
    // The port for accesses has a queue of the same length. Each command brings one notification, and those that the own requester
    // refuses are read at once.
    let of_accesses = (one_sided::COMMANDS_MAX + one_sided::MARKS_MAX) as u32 + one_sided::LANDINGS as u32 + 1;
    Limits {
        vpids: PORTS,
        velo_bytes: Limits::EXTOLL.velo_bytes,
        mailbox_slots: peers * slots + IDS * CONTROL_SLOTS + UNPUBLISHED_SLOTS,
        notifications: (peers * of_peer + own).max(of_accesses),
        address_tables,
        ..*nic
    }
    .clamped()
}

/// How many peers may have a grant, by the size of the job.
pub(crate) fn peers_wanted() -> u32 {
    let size = std::env::var("SELVEDGE_SIZE").ok().and_then(|size| size.parse().ok());
    size.unwrap_or(PEERS_DEFAULT).clamp(1, PEERS_MAX)
}

/// The payload of a long message.
pub(crate) enum Payload {
    /// It waits at its sender.
    There(Request),
    /// It was fetched already.
    Here(Vec<u8>),
}

/// Memory of operations under way.
#[derive(Debug, Default)]
struct Spans(BTreeMap<(u64, u64), (u64, usize)>);

impl Spans {
    /// Records the memory of an operation. False: another one with this peer begins there.
    fn insert(&mut self, peer: u64, nla: u64, bytes: u64, number: usize) -> bool {
        match self.0.entry((peer, nla)) {
            Entry::Vacant(place) => {
                place.insert((bytes, number));
                true
            }
            Entry::Occupied(_) => false,
        }
    }

    /// The operation whose memory holds this address.
    fn at(&self, peer: u64, nla: u64) -> Option<usize> {
        let (&(_, start), &(bytes, number)) = self.0.range((peer, 0)..=(peer, nla)).next_back()?;
        (nla - start < bytes).then_some(number)
    }

    fn remove(&mut self, peer: u64, nla: u64) {
        self.0.remove(&(peer, nla));
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

/// A sender that has a grant.
pub(crate) struct Granted {
    inbound: Inbound,
    bounce: Block,
}

/// The units of a transport's NIC, with everything that is under way there.
pub struct Units {
    device: Arc<Device>,
    reader: MessageReader,
    notifications_read: u64,
    /// Bytes of a slot of bounce memory, and of staging memory.
    slot_bytes: usize,
    /// The numbers of the peers to whom we have said hello, by their ids.
    peers: BTreeMap<u64, u32>,
    /// Senders with a grant, by their ids.
    granted: BTreeMap<u64, Granted>,
    granted_max: usize,
    staging: Option<(Staging, Block)>,
    registrations: Registrations,
    /// Sends whose payload peers get, and fetches: the bytes and the number of the operation, by the peer's id and the network logical
    /// address here.
    sources: Spans,
    sinks: Spans,
    /// Long messages that were matched or are unexpected, by sender and token.
    requests: BTreeMap<(u64, u32), Payload>,
    /// Senders whose next message may be taken now, or who wait for a report.
    due: BTreeSet<u64>,
    /// Fetches that have not started, for lack of room.
    fetches: VecDeque<usize>,
    /// Peers shall send packets.
    is_withdrawn: bool,
    /// Control messages that found no room.
    unsent: VecDeque<(u64, wire::Control)>,
    polls: u32,
    pub(crate) one_sided: OneSided,
}

impl Units {
    /// Opens the port. `medium_max`: bytes of the longest message that is put.
    pub(crate) fn open(interface: &Arc<Interface>, medium_max: usize, peers: u32) -> Result<Units, DeviceError> {
        let device = Arc::new(Device::over(interface.clone()));
        let one_sided = OneSided::open(&device)?;
        let (_, reader) = device.open_mailbox(Some(VPID), 0)?;
        Ok(Units {
            device,
            reader,
            notifications_read: 0,
            slot_bytes: (BOUNCE_HEADING_BYTES + medium_max).next_multiple_of(64),
            peers: BTreeMap::new(),
            granted: BTreeMap::new(),
            granted_max: peers as usize,
            staging: None,
            registrations: Registrations::new(VPID),
            sources: Spans::default(),
            sinks: Spans::default(),
            requests: BTreeMap::new(),
            due: BTreeSet::new(),
            fetches: VecDeque::new(),
            is_withdrawn: false,
            unsent: VecDeque::new(),
            polls: 0,
            one_sided,
        })
    }

    /// Forgets what operations have left here that ended with their endpoint.
    pub(crate) fn forget_ended(&mut self, operations: &Slab<Operation>) {
        let sends = |number: usize| matches!(operations.get(number), Some(Operation::Send(_)));
        let fetches = |number: usize| matches!(operations.get(number), Some(Operation::Fetch(_)));
        self.sources.0.retain(|_, (_, number)| sends(*number));
        self.sinks.0.retain(|_, (_, number)| fetches(*number));
        self.fetches.retain(|number| fetches(*number));
        self.one_sided.forget_ended(operations);
    }

    fn interface(&self) -> &Interface {
        self.device.interface()
    }

    /// Sends a VELO message to the transport with this id.
    fn mail(&self, id: u64, mtt: u8, tag: u8, bytes: &[u8]) -> Result<(), StartError> {
        let message = Outgoing {
            source: Endpoint { node: self.device.node(), vpid: VPID },
            destination: Endpoint { node: id as u16, vpid: VPID },
            target: id,
            mtt,
            tag,
            start: bytes.as_ptr() as u64,
            bytes: bytes.len() as u32,
        };
        // The only lengths that make no command are 0 and those above 120, and no caller sends them.
        self.interface().start_now(&message.command().ok_or(StartError::Memory)?)
    }

    /// Posts an RMA command to the transport with this id.
    fn post(&self, id: u64, code: u8, spec: u8, operation: Rma) -> Result<Posted, PostError> {
        let descriptor = Descriptor { code, node: id as u16, vpid: VPID as u8, spec, modifiers: 0, operation };
        self.device.post(VPID, options::TE, &descriptor)
    }

    fn report(&self, id: u64, report: wire::Report) -> bool {
        let (value, class) = report.encode();
        let operation = Rma::NotificationPut { value, class };
        self.post(id, code::NOTIFICATION_PUT, spec::COMPLETER, operation).is_ok()
    }
}

/// Slots of a mailbox that a VELO message of so many bytes takes.
fn slots_of(bytes: usize) -> u16 {
    Extent::whole(bytes as u32).map_or(0, |extent| extent.slots() as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mailbox_and_queue_have_room_for_all_grants() {
        for peers in [1, 2, 64, PEERS_MAX] {
            let made = limits(&Limits::DEFAULT, peers, 4, 2048);
            assert!(made.mailbox_slots >= peers * u32::from(SLOTS) + IDS * CONTROL_SLOTS + UNPUBLISHED_SLOTS);
            assert!(made.notifications >= peers * (u32::from(BOUNCES) + 2 * u32::from(SLOTS + BOUNCES)) + 2 * 2048);
            assert_eq!((made.vpids, made.entries), (PORTS, Limits::DEFAULT.entries), "the other tables stay");
        }
    }

    #[test]
    fn memory_is_found_by_any_of_its_addresses() {
        let mut spans = Spans::default();
        assert!(spans.insert(1, 100, 10, 7) && spans.insert(2, 100, 1, 8) && !spans.insert(1, 100, 3, 9));
        assert_eq!([99, 100, 109, 110].map(|nla| spans.at(1, nla)), [None, Some(7), Some(7), None]);
        assert_eq!((spans.at(2, 100), spans.at(2, 101), spans.at(3, 100)), (Some(8), None, None));
        spans.remove(1, 100);
        assert_eq!(spans.at(1, 105), None);
    }

    #[test]
    fn slots_are_those_of_the_mailbox() {
        assert_eq!([1, 8, 56, 57, 64].map(slots_of), [1, 1, 1, 2, 2]);
    }
}
