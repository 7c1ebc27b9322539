// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Routes: how a host port claims a channel at another one ([`super::locks`]), and frees it.
//!
//! Invariant: only the owner of the locks frees a channel, when its sender has left it and all its messages were read.

use std::time::{Duration, Instant};

use selvedge_host::lock::Guard;
use selvedge_nic::NoMemory;
use selvedge_nic::atu::PAGE_BYTES;
use selvedge_nic::rma::{Descriptor, LockRequest, LockResult, Operation, code, options, spec};
use selvedge_nic::velo::Endpoint;

use super::error::ChannelError;
use super::host_port::HostPort;
use super::inbound::Inbound;
use super::locks::{AREA, CLAIMED, CLAIMS, CONFIG, CONFIGURED, LockFields, NEVER, SIZES};
use super::outbound::{Answer, Handle, Outbound, State};
use super::shape;
use super::vpids::{HOST_PORTS, vpids_of};
use super::wire::{Control, Route};
use selvedge_process::device::connection::PostError;
use selvedge_process::fabric::{self, Daemon, Lease};
use selvedge_process::process::Process;

/// Limits of a connect's waits: for the peer to open its port, and for the answer to a request.
const CONNECT_WAIT: Duration = Duration::from_secs(2);
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// Pause between two checks of a port that is not open.
const CONNECT_PAUSE: Duration = Duration::from_millis(1);

fn set(nic: &mut Guard<'_>, vpid: u16, number: u32, value: i32) {
    let mut change = |compare, add| nic.locks().request(&mut NoMemory, &LockRequest { vpid, number, compare, add });
    if let Ok(now) = change(NEVER, 0) {
        let _ = change(i32::MAX, value.wrapping_sub(now.value));
    }
}

impl HostPort {
    /// Publishes the port's parameters in its locks, and accepts connections.
    pub(super) fn publish(&self) {
        let mut nic = self.interface().lock();
        let sizes = self.shape.credits | u32::from(self.shape.channels) << 8 | self.shape.piece_bytes.ilog2() << 20;
        set(&mut nic, self.id.vpid, AREA, (self.receive_area.nla / PAGE_BYTES) as i32);
        set(&mut nic, self.id.vpid, SIZES, sizes as i32);
        set(&mut nic, self.id.vpid, CONFIG, CONFIGURED);
    }

    /// Stops accepting connections.
    pub(super) fn unpublish(&self) {
        set(&mut self.interface().lock(), self.id.vpid, CONFIG, 0);
    }

    /// Makes a lock request at a port. An error: there is no answer.
    fn ask(&mut self, to: Endpoint, ask: LockFields) -> Result<Answer, ChannelError> {
        let device = self.device.clone();
        let LockFields { number, compare, add } = ask;
        let operation = Operation::Lock { number, compare, add };
        let (vpid, spec) = (to.vpid as u8, spec::COMPLETER);
        let descriptor = Descriptor { code: code::LOCK, node: to.node, vpid, spec, modifiers: 0, operation };
        self.answer = None;
        match device.until_room(|| device.post(self.id.vpid, options::TE, &descriptor)) {
            Ok(_) => {}
            Err(PostError::NoNode | PostError::Memory) => return Err(ChannelError::NotAvailable),
            Err(error) => return Err(error.into()),
        }
        let deadline = Some(Instant::now() + ANSWER_WAIT);
        let look = || {
            self.process_arrivals();
            self.answer.filter(|answer| answer.from == to && answer.number == number)
        };
        device.interface().wait(deadline, look).map_err(|_| ChannelError::NotAvailable)
    }

    fn ask_value(&mut self, to: Endpoint, ask: LockFields) -> Result<LockResult, ChannelError> {
        self.ask(to, ask)?.result.ok_or(ChannelError::NotAvailable)
    }

    /// Whether a port is closed: it refuses the request, or accepts no connections.
    pub(super) fn has_closed(&mut self, port: Endpoint) -> bool {
        self.ask(port, LockFields::read(CONFIG))
            .is_ok_and(|answer| answer.result.is_none_or(|found| found.value != CONFIGURED))
    }

    /// Connects to a host port, and waits briefly for it to open. Connections to one host port share a channel.
    pub fn connect(&mut self, node: u16, number: u8) -> Result<Handle, ChannelError> {
        if node >= self.nodes() || number >= HOST_PORTS {
            return Err(ChannelError::NoNode);
        }
        let is_known = |known: &&Outbound| {
            (known.destination.node, known.number) == (node, number) && known.state != State::Invalid
        };
        if let Some(Outbound { destination, handle, .. }) = self.outbound.iter().flatten().find(is_known) {
            let (destination, handle) = (*destination, *handle);
            if self.has_closed(destination) {
                self.invalidate(destination, None);
            } else if let Some(known) = self.outbound.iter_mut().flatten().find(|known| known.handle == handle) {
                known.uses += 1;
                return Ok(handle);
            }
        }
        if self.outbound.iter().flatten().count() >= self.shape.channels.into() {
            return Err(ChannelError::NoChannel);
        }
        let destination = self.find_open(node, number)?;
        let area = self.ask_value(destination, LockFields::read(AREA))?.value as u64;
        let sizes = self.ask_value(destination, LockFields::read(SIZES))?.value as u32;
        let (credits, channels, piece) = (sizes & 0xff, sizes >> 8 & 0xfff, sizes >> 20 & 31);
        if 1u64 << piece != self.shape.piece_bytes || credits == 0 || channels == 0 {
            // Its job has a different number of nodes.
            return Err(ChannelError::NotAvailable);
        }
        let route = self.claim_channel(destination, channels)?;
        let link = self.link_to(destination);
        self.send_control(link, route, Control::Hello)?;
        let all = shape::mask(credits.min(self.shape.credits));
        let slots = u64::from(route.channel) * u64::from(credits) * self.shape.piece_bytes;
        let index = self.outbound.iter().position(Option::is_none).unwrap_or(self.outbound.len());
        self.handles = self.handles.wrapping_add(1) & 0x7fff;
        let handle = index as u32 | (self.handles + 1) << 16;
        let made = Outbound {
            handle,
            destination,
            number,
            link,
            route,
            credits: all,
            all,
            slots_nla: area * PAGE_BYTES + slots,
            uses: 1,
            state: State::Open,
            lease: self.lease_route(destination),
        };
        match self.outbound.get_mut(index) {
            Some(place) => *place = Some(made),
            None => self.outbound.push(Some(made)),
        }
        Ok(handle)
    }

    /// A lease of the route to a peer's host. None: no daemon runs here, or it knows no such host.
    fn lease_route(&self, peer: Endpoint) -> Option<Lease> {
        let daemon = Daemon::current()?;
        let address = Process::existing()?.host_address_of(self.device.target_of(peer.node))?;
        daemon
            .lease(address)
            .inspect_err(|error| log::debug!("atoll: no lease of the route to {address}: {error}"))
            .ok()
    }

    /// Invalidates the channels whose routes the daemon of the fabric has withdrawn.
    #[cold]
    pub(super) fn take_withdrawals(&mut self) {
        self.withdrawals_seen = fabric::withdrawals();
        let Some(daemon) = Daemon::current() else { return };
        let mine: Vec<Lease> = self.outbound.iter().flatten().filter_map(|entry| entry.lease).collect();
        for (lease, cause) in daemon.take_withdrawn(|lease| mine.contains(&lease)) {
            for entry in self.outbound.iter_mut().flatten().filter(|entry| entry.lease == Some(lease)) {
                log::info!("atoll: the route to node {} is withdrawn: {cause:?}", entry.destination.node);
                (entry.state, entry.lease) = (State::Invalid, None);
            }
        }
    }

    /// The VPID that a host port is open with.
    fn find_open(&mut self, node: u16, number: u8) -> Result<Endpoint, ChannelError> {
        let device = self.device.clone();
        let vpids = vpids_of(number, device.ports()).ok_or(ChannelError::NoNode)?;
        let give_up = Instant::now() + CONNECT_WAIT;
        loop {
            for vpid in vpids {
                let port = Endpoint { node, vpid };
                if self.ask_value(port, LockFields::read(CONFIG)).is_ok_and(|found| found.value == CONFIGURED) {
                    return Ok(port);
                }
            }
            if Instant::now() > give_up {
                return Err(ChannelError::NotAvailable);
            }
            let until = Instant::now() + CONNECT_PAUSE;
            let _ = device.interface().wait(Some(until), || {
                self.process_arrivals();
                None::<()>
            });
        }
    }

    fn claim_channel(&mut self, at: Endpoint, channels: u32) -> Result<Route, ChannelError> {
        // Peers begin their search at different channels, so most find a free one at once.
        let first = (u32::from(self.node()) * u32::from(HOST_PORTS) + u32::from(self.number)) % channels;
        for channel in (first..channels).chain(0..first) {
            let claim = LockFields { number: CLAIMS + channel, compare: 0, add: CLAIMED };
            let result = self.ask_value(at, claim)?;
            if result.success {
                return Ok(Route { channel: channel as u16, generation: (CLAIMED - result.value) as u8 });
            }
        }
        Err(ChannelError::NoChannel)
    }

    pub(super) fn index_of(&self, handle: Handle) -> Result<usize, ChannelError> {
        let index = (handle & 0xffff) as usize;
        let entry = self.outbound.get(index).and_then(Option::as_ref);
        let is_it = entry.is_some_and(|entry| entry.handle == handle && entry.uses != 0);
        if is_it { Ok(index) } else { Err(ChannelError::NoHandle) }
    }

    /// The node and the host port of a connection's peer.
    pub fn peer_of(&self, handle: Handle) -> Result<(u16, u8), ChannelError> {
        let index = self.index_of(handle)?;
        let entry = self.outbound.get(index).and_then(Option::as_ref).ok_or(ChannelError::NoHandle)?;
        Ok((entry.destination.node, entry.number))
    }

    /// Ends a connection. The last connection to a port frees the channel.
    pub fn disconnect(&mut self, handle: Handle) -> Result<(), ChannelError> {
        let index = self.index_of(handle)?;
        let Some(entry) = self.outbound.get_mut(index).and_then(Option::as_mut) else {
            return Err(ChannelError::NoHandle);
        };
        entry.uses -= 1;
        if entry.uses == 0 {
            self.give_back_channel(index);
        }
        Ok(())
    }

    pub(super) fn give_back_channel(&mut self, index: usize) {
        let Some(entry) = self.outbound.get_mut(index).and_then(Option::take) else { return };
        if let (Some(lease), Some(daemon)) = (entry.lease, Daemon::current()) {
            daemon.release(lease);
        }
        // If the message cannot be sent, the peer has ended.
        let _ = self.send_control(entry.link, entry.route, Control::Bye);
    }

    /// Invalidates the channels to a port; with a route, only that one.
    pub(super) fn invalidate(&mut self, peer: Endpoint, route: Option<Route>) {
        for entry in self.outbound.iter_mut().flatten() {
            if entry.destination == peer && route.is_none_or(|route| route == entry.route) {
                entry.state = State::Invalid;
            }
        }
    }

    /// Takes back the credits that the receiver returned.
    pub(super) fn credits_returned(&mut self, source: Endpoint, route: Route, slots: u64) {
        let is_it = |entry: &&mut Outbound| entry.route == route && entry.destination == source;
        if let Some(entry) = self.outbound.iter_mut().flatten().find(is_it) {
            entry.credits |= slots & entry.all;
        }
    }

    /// Handles a peer's claim of a channel here.
    pub(super) fn accept_claim(&mut self, source: Endpoint, route: Route) {
        let (link, after) = (self.link_to(source), self.last_incomplete_of(source));
        match self.inbound.get_mut(usize::from(route.channel)) {
            Some(inbound) if inbound.generation == route.generation && inbound.source.is_none() => {
                self.claims_accepted += 1;
                (inbound.source, inbound.link) = (Some(source), link);
                (inbound.after, inbound.number) = (after, self.claims_accepted);
            }
            _ => log::error!("atoll: node {} sent a greeting in channel {}, not its own", source.node, route.channel),
        }
    }

    /// Handles a peer's end of its channel.
    pub(super) fn end_claim(&mut self, source: Endpoint, route: Route) {
        if let Some(inbound) = self.inbound_of(source, route) {
            inbound.has_left = true;
            self.free_channel(route.channel);
        }
    }

    /// The receiver's end of a channel, if it belongs to this peer.
    pub(super) fn inbound_of(&mut self, source: Endpoint, route: Route) -> Option<&mut Inbound> {
        let inbound = self.inbound.get_mut(usize::from(route.channel))?;
        (inbound.source == Some(source) && inbound.generation == route.generation).then_some(inbound)
    }

    /// Frees a channel if its sender has left it and no message of it is unread.
    pub(super) fn free_channel(&mut self, channel: u16) {
        self.drop_broken(channel);
        let Some(inbound) = self.inbound.get_mut(usize::from(channel)).filter(|inbound| inbound.is_over()) else {
            return;
        };
        let generation = inbound.generation.wrapping_add(1);
        *inbound = Inbound::of_generation(generation);
        let number = CLAIMS + u32::from(channel);
        set(&mut self.interface().lock(), self.id.vpid, number, -i32::from(generation));
    }

    pub(super) fn control_to_source(&mut self, channel: usize, control: Control) {
        let Some(Inbound { source: Some(source), link, generation, has_left: false, .. }) = self.inbound.get(channel)
        else {
            return;
        };
        let (node, link, route) = (source.node, *link, Route { channel: channel as u16, generation: *generation });
        if let Err(error) = self.send_control(link, route, control) {
            log::debug!("atoll: cannot send {control:?} to node {node}: {error}");
        }
    }
}
