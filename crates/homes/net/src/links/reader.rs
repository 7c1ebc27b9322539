// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The endpoint that reads payloads from the memory of peers.
//!
//! It has no frames, and can be closed: libfabric has no other way to stop reads whose peer is silent. After a request
//! of the program has failed, nothing may be written to its memory, even if the peer's host answers again. Reads from
//! other peers start again at a new endpoint; their payloads are still exposed.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::endpoint::{Completion, Destination, Endpoint, EndpointError, SubmitError};
use crate::ids::PeerId;
use crate::read_queue::ReadPart;

pub(super) struct Reader {
    endpoint: Endpoint,
    peers: HashMap<PeerId, Destination>,
    /// Reads in flight, by tag.
    in_flight: HashMap<u64, PeerId>,
    /// It had no room for a read, for example because it connects.
    is_full: bool,
}

impl Reader {
    pub(super) fn open(at: IpAddr, provider: &str) -> Result<Reader, EndpointError> {
        let endpoint = Endpoint::open_for_reads(at, Some(provider))?;
        Ok(Reader { endpoint, peers: HashMap::new(), in_flight: HashMap::new(), is_full: false })
    }

    pub(super) fn endpoint(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    pub(super) fn endpoint_ref(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Whether the endpoint must be polled.
    pub(super) fn is_busy(&self) -> bool {
        self.is_full || !self.in_flight.is_empty()
    }

    /// Number of peers that it has a connection to.
    pub(super) fn peers(&self) -> usize {
        self.peers.len()
    }

    pub(super) fn reads_from(&self, peer: PeerId) -> bool {
        self.in_flight.values().any(|&from| from == peer)
    }

    /// Reads completions, and lets libfabric make progress while reads are in flight. Returns whether there may be
    /// more.
    pub(super) fn poll(&mut self, completions: &mut Vec<Completion>) -> bool {
        if !self.is_busy() {
            return false;
        }
        let before = completions.len();
        let more = self.endpoint.poll(completions);
        for completion in &completions[before..] {
            if let Completion::Read { tag, .. } = completion {
                self.in_flight.remove(tag);
            }
        }
        more
    }

    pub(super) fn read(&mut self, peer: PeerId, name: &[u8], part: &ReadPart, tag: u64) -> Result<(), SubmitError> {
        let from = match self.peers.get(&peer) {
            Some(from) => *from,
            None => {
                let from = self.endpoint.insert(name).map_err(|error| SubmitError::Broken(error.to_string()))?;
                self.peers.insert(peer, from);
                from
            }
        };
        let started = self.endpoint.read((&part.buffer, part.part.clone()), from, part.at, tag);
        self.is_full = started == Err(SubmitError::Full);
        started?;
        self.in_flight.insert(tag, peer);
        Ok(())
    }
}
