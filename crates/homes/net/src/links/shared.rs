// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The part of the links that every thread uses: settings, the sink, watched descriptors, senders, and the state.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard};

use super::senders::Senders;
use super::state::{PollCounter, StateWord};
use super::watch::{Watch, Watched};
use crate::address::LinkAddress;
use crate::endpoint::{Endpoint, EndpointError};
use crate::errors::LinkError;
use crate::faults::Refusals;
use crate::ids::PeerId;
use crate::settings::Settings;
use crate::sink::Sink;
use selvedge_host::backend::Loss;
use selvedge_os::forked::ParentOnly;
use selvedge_os::sync::IgnorePoison;

pub(super) struct Shared {
    pub(super) address: LinkAddress,
    pub(super) settings: Settings,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) listener: ParentOnly<TcpListener>,
    pub(super) watch: Watch,
    pub(super) senders: Mutex<Senders>,
    pub(super) state: StateWord,
    /// Counts the program's polls, for the thread.
    pub(super) polls: PollCounter,
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Senders> {
        self.senders.lock().ignore_poison()
    }

    /// Wakes the thread once, for packets that gather, unless the program polls.
    pub(super) fn wake(&self) {
        if self.state.wake() {
            self.watch.ring();
        }
    }

    /// Connects to a peer, at once or, if this process has too many links, when an idle one is closed.
    pub(super) fn connect(&self, senders: &mut Senders, peer: PeerId) -> Result<(), LinkError> {
        self.open_endpoint(senders).map_err(|error| LinkError::Endpoint(error.to_string()))?;
        // A link that rests may have packets from before the end.
        if self.state.load().is_closing() && !senders.peers[peer].outgoing.connection.is_resting() {
            return Err(LinkError::Ended);
        }
        self.state.connecting();
        if !senders.waiting.admit(peer, self.settings.links_max) {
            senders.peers.mark_busy(peer);
            return Ok(());
        }
        self.connect_now(senders, peer)
    }

    pub(super) fn connect_now(&self, senders: &mut Senders, peer: PeerId) -> Result<(), LinkError> {
        senders.count_new_link(peer);
        let target = &mut senders.peers[peer];
        target.outgoing.connection.connect(&target.address, &self.settings)?;
        if let Some(control) = target.outgoing.connection.control() {
            self.watch.add(control, Watched::Outgoing(peer));
        }
        target.outgoing.show_state("");
        senders.peers.mark_busy(peer);
        Ok(())
    }

    /// Opens the endpoint, unless it is open or these links end.
    pub(super) fn open_endpoint(&self, senders: &mut Senders) -> Result<(), EndpointError> {
        if senders.endpoint.is_none() && !self.state.load().is_closing() {
            let mut endpoint = Endpoint::open(self.settings.at, self.settings.provider.as_deref())?;
            endpoint.set_refusals(Refusals::new(self.settings.faults.as_ref()));
            log::info!("links between hosts use libfabric's {} at {}", endpoint.provider(), self.settings.at);
            senders.endpoint = Some(endpoint);
            self.state.endpoint_opened();
        }
        Ok(())
    }

    pub(super) fn lose(&self, mut senders: MutexGuard<'_, Senders>, peer: PeerId, why: &LinkError) {
        let target = &senders.peers[peer];
        if target.outgoing.connection.is_lost() {
            return;
        }
        match why {
            LinkError::Ended => log::info!("the process at {} has ended", target.address),
            // The program's operations fail, or its door says what it has lost.
            LinkError::Vanished => log::info!("the process at {} is lost: {why}", target.address),
            why => log::warn!("the process at {} is lost: {why}", target.address),
        }
        if let Some(control) = target.outgoing.connection.control() {
            self.watch.remove(control);
        }
        // Its requests fail now, and the program may use their memory again.
        senders.stop_reading_from(peer);
        senders.lose(peer);
        senders.peers[peer].loss = Some(Box::new(Loss::from(why)));
        senders.peers[peer].outgoing.show_state(&why.to_string());
        drop(senders);
        self.sink.lost(peer);
    }
}
