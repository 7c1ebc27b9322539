// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state that all senders of this process share, under one lock: the endpoints and the peers.

use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use selvedge_host::links::{NONE, Name, Page, Way};

use super::limit::WaitingLinks;
use super::peers::{Peer, Peers};
use super::reader::Reader;
use crate::endpoint::{Completion, Endpoint};
use crate::errors::LinkError;
use crate::frame::FrameError;
use crate::ids::PeerId;
use crate::outgoing::{Flush, UnsentPacket};
use crate::settings::{Check, Settings};

pub(super) struct Senders {
    pub(super) endpoint: Option<Endpoint>,
    reader: Option<Reader>,
    readers_closed: u64,
    pub(super) peers: Peers,
    pub(super) waiting: WaitingLinks,
    /// Number of times that the program was at rest.
    rests: u64,
    has_taken: bool,
    /// The counters of this process's links, for tools, once a NIC is open.
    page: Option<Arc<Page>>,
}

/// Whether, and on which descriptors, a thread may sleep until the endpoints must be polled.
pub(super) enum EndpointSleep {
    Closed,
    On(Vec<RawFd>),
    /// It must poll first.
    NotNow,
    /// The provider has no descriptor: the endpoint must be polled.
    Never,
}

impl Senders {
    pub(super) fn new(check: Check) -> Senders {
        let peers = Peers::new(check);
        Senders {
            endpoint: None,
            reader: None,
            readers_closed: 0,
            peers,
            waiting: WaitingLinks::default(),
            rests: 0,
            has_taken: false,
            page: None,
        }
    }

    /// Counts the links in this page from now on.
    pub(super) fn count_in(&mut self, page: &Arc<Page>) {
        if self.page.as_ref().is_some_and(|known| Arc::ptr_eq(known, page)) {
            return;
        }
        self.page = Some(page.clone());
        for peer in self.peers.iter_mut().map(|(peer, _)| peer).collect::<Vec<_>>() {
            if !self.peers[peer].outgoing.connection.is_closed() {
                self.count_link(peer);
            }
        }
    }

    /// Gives the link to a peer a record of the page.
    pub(super) fn count_link(&mut self, peer: PeerId) {
        let Some(page) = &self.page else { return };
        let Peer { address, outgoing, .. } = &mut self.peers[peer];
        let address = address.socket().to_string();
        outgoing.count_in(page.link(&Name { way: Way::Network, ni: NONE, peer: 0, address }, NONE));
    }

    /// As [`Senders::count_link`], unless it has one.
    pub(super) fn count_new_link(&mut self, peer: PeerId) {
        if self.peers[peer].outgoing.link().is_none() {
            self.count_link(peer);
        }
    }

    /// Reads completions of both endpoints. Returns whether there may be more.
    pub(super) fn poll(&mut self, completions: &mut Vec<Completion>) -> bool {
        let mut more = self.endpoint.as_mut().is_some_and(|endpoint| endpoint.poll(completions));
        more |= self.reader.as_mut().is_some_and(|reader| reader.poll(completions));
        more
    }

    /// Notes that a packet is being taken. Returns the number of the program's rests so far.
    pub(super) fn note_taken(&mut self) -> u64 {
        self.has_taken = true;
        self.rests
    }

    pub(super) fn has_taken(&mut self) -> bool {
        std::mem::take(&mut self.has_taken)
    }

    pub(super) fn note_rest(&mut self) {
        self.rests += 1;
    }

    /// Sends all packets that wait. `failed` gets the broken links, `unsent` the packets whose payload the program has
    /// unmapped.
    pub(super) fn send_all(
        &mut self,
        settings: &Settings,
        failed: &mut Vec<(PeerId, LinkError)>,
        unsent: &mut Vec<(PeerId, UnsentPacket)>,
    ) {
        for peer in self.peers.take_busy() {
            let Senders { endpoint: Some(endpoint), peers, .. } = &mut *self else { return };
            let outgoing = &mut peers.unmark_busy(peer).outgoing;
            let flushed = outgoing.flush(endpoint, Flush::All, peer.0, settings);
            unsent.extend(outgoing.take_unsent().into_iter().map(|packet| (peer, packet)));
            match flushed {
                Ok(()) if outgoing.has_to_send() => peers.mark_busy(peer),
                Ok(()) => {}
                Err(error) => failed.push((peer, error)),
            }
        }
    }

    pub(super) fn frame_completed(&mut self, tag: u32) {
        if let Some(peer) = self.peers.get_mut(PeerId(tag)) {
            peer.outgoing.frame_completed();
        }
    }

    /// Whether libfabric may access memory of the program in a poll.
    pub(super) fn uses_program_memory(&self) -> bool {
        let reader = self.reader.as_ref().map(Reader::endpoint_ref);
        self.endpoint.iter().chain(reader).any(Endpoint::uses_program_memory)
    }

    /// Returns a read for each place that the program has unmapped.
    pub(super) fn unmapped_places(&self) -> Vec<u64> {
        self.reader.as_ref().map_or_else(Vec::new, |reader| reader.endpoint_ref().unmapped_places())
    }

    /// Finds payloads that the program has unmapped before peers have read them. Returns whether there are new ones. Their
    /// peers are told before libfabric makes progress, that is before it sends zeros in place of the payload.
    pub(super) fn find_unmapped_payloads(&mut self) -> bool {
        let Senders { endpoint: Some(endpoint), peers, .. } = self else { return false };
        let mut is_new = false;
        for exposed in endpoint.unmapped_payloads() {
            let found = peers.iter_mut().find_map(|(id, peer)| peer.outgoing.payload_unmapped(&exposed).then_some(id));
            if let Some(peer) = found {
                peers.mark_busy(peer);
                is_new = true;
            }
        }
        is_new
    }

    /// Notes that a peer has read `count` payloads of the link to it.
    pub(super) fn payloads_read(&mut self, peer: PeerId, count: u64) -> Result<(), FrameError> {
        let Senders { endpoint, peers, .. } = self;
        peers[peer].outgoing.payloads_read(endpoint.as_mut(), count)
    }

    pub(super) fn lose(&mut self, peer: PeerId) {
        let Senders { endpoint, peers, .. } = self;
        peers[peer].outgoing.lose(endpoint.as_mut());
    }

    /// Returns the number of readers closed so far. Reads belong to it.
    pub(super) fn readers_closed(&self) -> u64 {
        self.readers_closed
    }

    /// Returns the endpoint that reads. The first read opens it.
    pub(super) fn open_reader(
        &mut self,
        at: IpAddr,
        links_max: usize,
    ) -> Result<Option<(&mut Reader, &Peers)>, LinkError> {
        // It has a connection to each peer that it has read from.
        if self.reader.as_mut().is_some_and(|reader| reader.peers() > links_max && !reader.is_busy()) {
            self.close_reader();
        }
        let Senders { endpoint, reader, peers, .. } = self;
        let Some(endpoint) = endpoint else { return Ok(None) };
        let reader = match reader {
            Some(reader) => reader,
            None => {
                let opened = Reader::open(at, endpoint.provider());
                reader.insert(opened.map_err(|error| LinkError::Endpoint(error.to_string()))?)
            }
        };
        Ok(Some((reader, peers)))
    }

    /// Stops all reads. Reads that are still wanted start again.
    pub(super) fn close_reader(&mut self) {
        if self.reader.take().is_some() {
            self.readers_closed += 1;
        }
    }

    /// Stops reads from a peer. Nothing of it is written anywhere after that.
    pub(super) fn stop_reading_from(&mut self, peer: PeerId) {
        if self.reader.as_ref().is_some_and(|reader| reader.reads_from(peer)) {
            self.close_reader();
        }
    }

    pub(super) fn close(&mut self) {
        self.close_reader();
        let Senders { endpoint, peers, .. } = self;
        for (_, peer) in peers.iter_mut() {
            peer.outgoing.lose(endpoint.as_mut());
        }
        self.endpoint = None;
    }

    /// Returns how the thread may sleep until an endpoint must be polled.
    pub(super) fn endpoint_sleep(&mut self) -> EndpointSleep {
        let Senders { endpoint, reader, .. } = self;
        let reader = reader.as_mut().filter(|reader| reader.is_busy()).map(Reader::endpoint);
        let mut descriptors = Vec::new();
        for endpoint in endpoint.as_mut().into_iter().chain(reader) {
            let Some(descriptor) = endpoint.wait_descriptor() else { return EndpointSleep::Never };
            if !endpoint.may_sleep() {
                return EndpointSleep::NotNow;
            }
            descriptors.push(descriptor);
        }
        if descriptors.is_empty() { EndpointSleep::Closed } else { EndpointSleep::On(descriptors) }
    }
}
