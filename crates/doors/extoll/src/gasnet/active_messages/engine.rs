// SPDX-License-Identifier: Apache-2.0 OR MIT
//! This node's active messages: its ports, its peers, and their start.

use std::collections::VecDeque;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use selvedge_host::Interface;
use selvedge_nic::rma::options as rma_options;
use selvedge_nic::velo::{Endpoint, PortId};
use selvedge_os::sync::IgnorePoison;
use selvedge_process::device::Device;
use selvedge_process::device::connection::PortConnection;
use selvedge_process::process::{Process, ProcessError};

use super::arrivals::Reader;
use super::barrier::Barrier;
use super::error::OpenError;
use super::memory::{Memory, segment_bytes_max};
use super::message::Runner;
use super::wire::{BYTES_MAX, PART_BYTES};

/// Bounds of the requests under way from one node to another: with few nodes, and with many.
const CREDITS_MAX: u32 = 16;
const CREDITS_MIN: u32 = 2;
/// Limit of the requests under way to one node, unless it has more peers.
const REQUESTS_MAX: u32 = 1024;
/// Slots of an active message in a mailbox.
const SLOTS_EACH: u32 = 2;
/// Slots for each peer's barriers and its end; slots that a reader has freed but not yet published.
const CONTROL_SLOTS: u32 = 4;
const UNPUBLISHED_SLOTS: u32 = 16;
/// Notifications of this node's own puts, for which threads wait.
const OWN_NOTIFICATIONS: u32 = 512;
/// The longest payload of a medium message; below, the bounce memory of a node.
const MEDIUM_BYTES_MAX: u64 = 16 << 10;
const MEDIUM_BYTES_MIN: u64 = 512;
const BOUNCE_BYTES: u64 = 16 << 20;

/// Another node, or this one.
pub(super) struct Peer {
    pub(super) vpids: [u16; 2],
    /// The connections to its ports, for requests and for replies. The lock keeps the parts of one message together.
    pub(super) connections: Mutex<[PortConnection; 2]>,
    /// Free credits, oldest first.
    pub(super) credits: Mutex<VecDeque<u16>>,
}

/// This node's active messages.
pub struct ActiveMessages {
    pub(super) device: Arc<Device>,
    pub(super) ports: [PortId; 2],
    pub(super) nodes: u16,
    pub(super) credits: u16,
    pub(super) medium_bytes: u64,
    /// Bytes of the longest VELO message that is sent.
    pub(super) velo_bytes: usize,
    pub(super) segment_bytes_max: u64,
    pub(super) segment_bytes_max_everywhere: u64,
    pub(super) peers: Vec<Peer>,
    pub(super) memory: OnceLock<Memory>,
    pub(super) reader: Mutex<Reader>,
    pub(super) barrier: Mutex<Barrier>,
    /// Nodes that have announced their end.
    pub(super) leaving: AtomicU32,
    /// Number of handled messages. Messages sent without one in between form a burst.
    pub(super) turn: AtomicU32,
    pub(super) runner: Runner,
}

#[derive(Clone, Copy)]
struct Hello {
    vpids: [u16; 2],
    credits: u32,
    velo_bytes: u32,
    segment_bytes_max: u64,
}

impl Hello {
    const BYTES: usize = 20;

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(Hello::BYTES);
        self.vpids.iter().for_each(|vpid| bytes.extend(vpid.to_le_bytes()));
        bytes.extend(self.credits.to_le_bytes());
        bytes.extend(self.velo_bytes.to_le_bytes());
        bytes.extend(self.segment_bytes_max.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; Hello::BYTES]) -> Hello {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | u32::from(half(at + 2)) << 16;
        let long = u64::from(word(12)) | u64::from(word(16)) << 32;
        Hello { vpids: [half(0), half(2)], credits: word(4), velo_bytes: word(8), segment_bytes_max: long }
    }
}

fn credits_wanted(nodes: u32) -> u32 {
    (REQUESTS_MAX / nodes).clamp(CREDITS_MIN, CREDITS_MAX)
}

fn mailbox_slots_needed(nodes: u32, credits: u32) -> u32 {
    nodes * (SLOTS_EACH * credits + CONTROL_SLOTS) + UNPUBLISHED_SLOTS
}

fn notifications_needed(nodes: u32, credits: u32) -> u32 {
    2 * nodes * credits + OWN_NOTIFICATIONS
}

impl ActiveMessages {
    /// Joins the job and opens the ports. Collective.
    pub fn open(runner: Runner) -> Result<ActiveMessages, OpenError> {
        let process = Process::current()?;
        process.join()?;
        let size = process.size().clamp(1, u16::MAX.into());
        let wanted = credits_wanted(size);
        let device = Device::with_room(mailbox_slots_needed(size, wanted), notifications_needed(size, wanted))?;
        let nodes = device.nodes();
        let limits = *device.interface().limits();
        let fits = |credits: u32| {
            mailbox_slots_needed(nodes.into(), credits) <= limits.mailbox_slots
                && notifications_needed(nodes.into(), credits) <= limits.notifications
        };
        let credits = (1..=wanted).rev().find(|credits| fits(*credits)).ok_or(OpenError::NoRoom(nodes))?;
        let (requests, replies) = (device.open_mailbox(None, rma_options::IRQ)?, device.open_mailbox(None, 0)?);
        let (ports, mailboxes) = ([requests.0, replies.0], [requests.1, replies.1]);
        let segment_bytes_max = segment_bytes_max(&process, &limits);
        let vpids = ports.map(|port| port.vpid);
        let hello = Hello { vpids, credits, velo_bytes: limits.velo_bytes, segment_bytes_max };
        let all: Vec<Hello> = gathered(&process, &hello.encode())?.iter().map(Hello::decode).collect();
        let least = |of: fn(&Hello) -> u64| all.iter().map(of).min().unwrap_or(0);
        let credits = least(|hello| hello.credits.into()) as u16;
        let bounce_share = BOUNCE_BYTES / (2 * u64::from(nodes) * u64::from(credits));
        let medium_bytes = (1 << (bounce_share | 1).ilog2()).clamp(MEDIUM_BYTES_MIN, MEDIUM_BYTES_MAX);
        let reader = Reader::new(ports[0].vpid, mailboxes, nodes.into());
        let from = ports.map(|port| Endpoint { node: device.node(), vpid: port.vpid });
        let is_whole = least(|hello| hello.velo_bytes.into()) >= BYTES_MAX as u64;
        Ok(ActiveMessages {
            ports,
            nodes,
            credits,
            medium_bytes,
            velo_bytes: if is_whole { BYTES_MAX } else { PART_BYTES },
            segment_bytes_max,
            segment_bytes_max_everywhere: least(|hello| hello.segment_bytes_max),
            peers: (0..).zip(&all).map(|(node, hello)| Peer::new(&device, from, node, hello, credits)).collect(),
            memory: OnceLock::new(),
            reader: Mutex::new(reader),
            barrier: Mutex::default(),
            leaving: AtomicU32::new(0),
            turn: AtomicU32::new(0),
            runner,
            device,
        })
    }

    pub fn node(&self) -> u16 {
        self.device.node()
    }

    pub fn nodes(&self) -> u16 {
        self.nodes
    }

    /// Bytes of the longest payload of a medium message.
    pub fn medium_bytes_max(&self) -> u64 {
        self.medium_bytes
    }

    /// Bytes of the longest segment at this node.
    pub fn segment_bytes_max(&self) -> u64 {
        self.segment_bytes_max
    }

    /// Bytes of the longest segment that every node can attach.
    pub fn segment_bytes_max_everywhere(&self) -> u64 {
        self.segment_bytes_max_everywhere
    }

    pub(super) fn interface(&self) -> &Interface {
        self.device.interface()
    }

    pub(super) fn peer(&self, node: u16) -> Option<&Peer> {
        self.peers.get(usize::from(node))
    }

    pub(super) fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().ignore_poison()
    }

    pub(super) fn barrier(&self) -> MutexGuard<'_, Barrier> {
        self.barrier.lock().ignore_poison()
    }
}

impl Peer {
    /// The peer on a node; `from` are this node's ports.
    fn new(device: &Device, from: [Endpoint; 2], node: u16, hello: &Hello, credits: u16) -> Peer {
        let connection =
            |kind: usize| PortConnection::new(device, from[kind], Endpoint { node, vpid: hello.vpids[kind] });
        let connections = Mutex::new([connection(0), connection(1)]);
        Peer { vpids: hello.vpids, connections, credits: Mutex::new((0..credits).collect()) }
    }

    pub(super) fn connections(&self) -> MutexGuard<'_, [PortConnection; 2]> {
        self.connections.lock().ignore_poison()
    }

    pub(super) fn credits(&self) -> MutexGuard<'_, VecDeque<u16>> {
        self.credits.lock().ignore_poison()
    }
}

pub(super) fn gathered<const BYTES: usize>(process: &Process, mine: &[u8]) -> Result<Vec<[u8; BYTES]>, ProcessError> {
    let everyone = process.exchange(mine)?;
    Ok(everyone.chunks_exact(BYTES).filter_map(|record| record.first_chunk().copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_for_any_number_of_nodes_is_within_the_limits() {
        let most =
            selvedge_nic::Limits { mailbox_slots: u32::MAX, notifications: u32::MAX, ..selvedge_nic::Limits::EXTOLL };
        let most = most.clamped();
        for nodes in [1, 2, 3, 4, 16, 63, 64, 100, 500, 1024, 4096] {
            let credits = credits_wanted(nodes);
            assert!((CREDITS_MIN..=CREDITS_MAX).contains(&credits));
            assert!(mailbox_slots_needed(nodes, credits) <= most.mailbox_slots, "{nodes}");
            assert!(notifications_needed(nodes, credits) <= most.notifications, "{nodes}");
        }
    }

    #[test]
    fn a_hello_is_read_as_it_was_written() {
        let hello = Hello { vpids: [3, 513], credits: 77, velo_bytes: 120, segment_bytes_max: 5 << 40 | 9 };
        let bytes = hello.encode();
        let read = Hello::decode(bytes.first_chunk().expect("20 bytes"));
        assert_eq!(read.encode(), bytes);
    }
}
