// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The names of processes of other hosts. NICs use ids; links know peers by their addresses. There are two ways to name
//! processes:
//!
//! - *In a job*, ids are the same for all. A process publishes the address of its links under its id, in the launcher's
//!   key space. Others look it up when they first send to that id. A process that receives first learns its sender from
//!   the greeting.
//! - *As they are met*, for processes whose addresses come from the program. Each process numbers the others itself,
//!   and the number is the upper half of their ids. For itself a process has the upper half 0, so the receiver of a
//!   packet sets it.
//!
//! Invariants
//! 1. A packet is handed in only if it comes from the process in its `origin`.
//! 2. An id is bound to one process. A process that takes over the id of another cannot be reached under it.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Mutex;

use selvedge_nic::packet::{Packet, RESPONSE};
use selvedge_nic::tables::Request;
use selvedge_os::sync::IgnorePoison;

use crate::{ADDRESS_BYTES, LinkAddress, Links, PeerId};

/// Looks up the bytes that another process published under a name. The arguments are the name and the Portals process id
/// of that process. None if none are visible to this process.
pub type LookUp = Box<dyn Fn(&str, u16) -> Option<Vec<u8>> + Send + Sync>;

/// The way to name processes of other hosts.
pub enum Names {
    Job {
        look_up: LookUp,
        /// The links' peers by id. No thread waits while it holds this lock.
        peers: Mutex<HashMap<u64, Binding>>,
    },
    AsMet,
}

#[derive(Clone, Copy)]
pub struct Binding {
    peer: PeerId,
    /// It has published its address under this id. Otherwise only its greeting says so.
    is_published: bool,
}

pub(super) enum Lookup {
    Peer(PeerId),
    /// No process has published this id.
    Unknown,
    /// This thread must not ask the launcher; another will.
    NotNow,
}

/// Number of lower bits of `initiator` that hold a request's endpoint. The id of its process is above, where processes
/// are named as they are met.
const ENDPOINT_BITS: u32 = 8;

thread_local! {
    /// Whether this thread hands a packet in, or is the progress thread. Then it must not ask the launcher, because the
    /// program may hold the connection in a barrier.
    static HANDS_IN: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn handing_in<T>(run: impl FnOnce() -> T) -> T {
    HANDS_IN.set(true);
    let result = run();
    HANDS_IN.set(false);
    result
}

pub(super) fn hands_in() -> bool {
    HANDS_IN.get()
}

impl Names {
    /// Names in a job.
    pub fn of_job(look_up: LookUp) -> Names {
        Names::Job { look_up, peers: Mutex::default() }
    }

    pub(super) fn find(&self, links: &Links, id: u64) -> Lookup {
        let Names::Job { look_up, peers } = self else {
            return ((id >> 32) as u32).checked_sub(1).map_or(Lookup::Unknown, |peer| Lookup::Peer(PeerId(peer)));
        };
        let known = peers.lock().ignore_poison().get(&id).copied();
        // The program may hold the launcher's connection in a barrier.
        if let Some(known) = known.filter(|known| known.is_published || HANDS_IN.get()) {
            return Lookup::Peer(known.peer);
        }
        if HANDS_IN.get() {
            return Lookup::NotNow;
        }
        let Some(bytes) = look_up(&name_of(id), id as u16) else {
            return known.map_or(Lookup::Unknown, |known| Lookup::Peer(known.peer));
        };
        let Some(address) = bytes.first_chunk().filter(|_| bytes.len() == ADDRESS_BYTES) else {
            log::error!("process {} of host {} published a malformed address", id as u32, id >> 32);
            return Lookup::Unknown;
        };
        let peer = links.peer(LinkAddress::from_bytes(address));
        let claimed = peers.lock().ignore_poison().insert(id, Binding { peer, is_published: true });
        if let Some(other) = claimed.filter(|claimed| claimed.peer != peer && !claimed.is_published) {
            let why = format!("it claims to be process {} of host {}, and is not", id as u32, id >> 32);
            links.disconnect(other.peer, &why);
        }
        Lookup::Peer(peer)
    }

    /// Returns the peer behind an id, as far as is known. Never blocks.
    pub(super) fn known(&self, id: u64) -> Option<PeerId> {
        match self {
            Names::Job { peers, .. } => peers.lock().ignore_poison().get(&id).map(|known| known.peer),
            Names::AsMet => ((id >> 32) as u32).checked_sub(1).map(PeerId),
        }
    }

    /// Whether the process behind an id is this peer, as far as is known. Never blocks.
    pub(super) fn is_peer(&self, id: u64, peer: PeerId) -> bool {
        match self {
            Names::Job { peers, .. } => peers.lock().ignore_poison().get(&id).is_some_and(|known| known.peer == peer),
            Names::AsMet => id >> 32 == id_of(peer, 0) >> 32,
        }
    }

    /// Converts the sender's names in a packet to this process's. `Err` if its origin does not match its link.
    pub(super) fn rename(&self, links: &Links, from: PeerId, packet: Packet) -> Result<Packet, ()> {
        if packet.kind == RESPONSE {
            return Ok(packet);
        }
        let Names::Job { peers, .. } = self else {
            let origin = id_of(from, packet.origin as u32);
            if Request::from(&packet).is_aggregation() {
                return Ok(Packet { origin, initiator: origin, ..packet });
            }
            let below = packet.initiator & ((1 << (32 + ENDPOINT_BITS)) - 1);
            return Ok(Packet { origin, initiator: (origin >> 32) << (32 + ENDPOINT_BITS) | below, ..packet });
        };
        let known = peers.lock().ignore_poison().get(&packet.origin).map(|known| known.peer);
        let is_origin = match known {
            Some(known) => known == from,
            None => {
                let is_host = links.nid_of(from) == Some((packet.origin >> 32) as u32);
                if is_host {
                    peers
                        .lock()
                        .ignore_poison()
                        .entry(packet.origin)
                        .or_insert(Binding { peer: from, is_published: false });
                }
                is_host
            }
        };
        if is_origin { Ok(packet) } else { Err(()) }
    }
}

/// Makes the id of a process that was met, from its number.
pub(super) fn id_of(PeerId(peer): PeerId, pid: u32) -> u64 {
    (u64::from(peer) + 1) << 32 | u64::from(pid)
}

pub(super) fn name_of(id: u64) -> String {
    format!("link-{}-{}", id >> 32, id as u32)
}
