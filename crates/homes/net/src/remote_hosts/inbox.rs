// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Packets that arrive by links, handed to the NICs of this process.

use std::sync::{Arc, OnceLock, Weak};

use selvedge_host::remote_hosts::{Arrival, asked_bytes, execute_left, fail_unreadable, wake_waiters};
use selvedge_nic::packet::{HEADER_BYTES, Packet, RESPONSE};

use super::RemoteHosts;
use super::names::handing_in;
use crate::{NicName, PayloadEnd, PeerId, Placement, ProgressCaller, SendTiming, Sink, Source};

#[derive(Default)]
pub(super) struct Inbox {
    hosts: OnceLock<Weak<RemoteHosts>>,
}

impl Inbox {
    /// Gives the inbox its links, once they are open. Packets that come before are dropped.
    pub(super) fn attach(&self, hosts: &Arc<RemoteHosts>) {
        let _ = self.hosts.set(Arc::downgrade(hosts));
    }

    /// Returns the links, and a packet with its sender's id in this process. None: it is malformed. Its sender is lost
    /// then, because the programs would wait for this packet.
    fn open(&self, from: PeerId, packet: &[u8; HEADER_BYTES]) -> Option<(Arc<RemoteHosts>, Packet)> {
        let hosts = self.hosts.get().and_then(Weak::upgrade)?;
        let opened =
            Packet::decode(packet).map_err(|error| format!("a packet is malformed ({error:?})")).and_then(|packet| {
                let renamed = hosts.names.rename(&hosts.links, from, packet);
                renamed.map_err(|()| "the origin of a packet does not match its link".to_owned())
            });
        match opened {
            Ok(packet) => Some((hosts, packet)),
            Err(why) => {
                hosts.links.disconnect(from, &why);
                None
            }
        }
    }
}

fn arrival<'a>(to: NicName, packet: &'a Packet, in_call: bool, is_sender: &'a dyn Fn(u64) -> bool) -> Arrival<'a> {
    Arrival { pid: to.pid, ni: to.ni.into(), packet, in_call, is_sender }
}

/// Sends the response to a packet that came for NIC number `to.ni`, if it has one.
fn respond(hosts: &RemoteHosts, peer: PeerId, to: NicName, packet: &Packet, response: Option<Packet>) {
    if let Some(response) = response {
        let to = NicName { pid: packet.origin as u32, ni: to.ni };
        // A lost sender needs no answer.
        let _ =
            hosts.links.send(peer, to, &response.encode(false), Source::Taken(&mut Vec::new()), SendTiming::WithNext);
    }
}

impl Sink for Inbox {
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8], caller: ProgressCaller) {
        let Some((hosts, packet)) = self.open(from, packet) else { return };
        let is_sender = |id| hosts.names.is_peer(id, from);
        let arrival = arrival(to, &packet, caller == ProgressCaller::Program, &is_sender);
        let response = handing_in(|| arrival.hand_in(payload));
        respond(&hosts, from, to, &packet, response);
    }

    fn place(
        &self,
        from: PeerId,
        to: NicName,
        packet: &[u8; HEADER_BYTES],
        caller: ProgressCaller,
        may_wait: bool,
    ) -> Placement {
        // A packet that is dropped here would be dropped with its payload.
        let Some((hosts, packet)) = self.open(from, packet) else { return Placement::Nothing };
        let is_sender = |id| hosts.names.is_peer(id, from);
        let arrival = arrival(to, &packet, caller == ProgressCaller::Program, &is_sender);
        handing_in(|| arrival.place(may_wait))
    }

    fn finish(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], number: u64, end: PayloadEnd) {
        let Some((hosts, packet)) = self.open(from, packet) else { return };
        let is_sender = |id| hosts.names.is_peer(id, from);
        let arrival = arrival(to, &packet, true, &is_sender);
        handing_in(|| arrival.finish(number, end));
    }

    fn give_up(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES]) {
        let Some((hosts, packet)) = self.open(from, packet) else { return };
        let is_sender = |id| hosts.names.is_peer(id, from);
        let response = handing_in(|| arrival(to, &packet, true, &is_sender).give_up());
        respond(&hosts, from, to, &packet, response);
    }

    fn unreadable(&self, _: PeerId, to: NicName, packet: &[u8; HEADER_BYTES]) {
        if let Ok(request) = Packet::decode(packet) {
            handing_in(|| fail_unreadable(&request, to.ni.into()));
        }
    }

    fn payload_max(&self, _: PeerId, to: NicName, packet: &[u8; HEADER_BYTES]) -> u64 {
        match Packet::decode(packet) {
            Ok(packet) if packet.kind == RESPONSE => asked_bytes(to.pid, to.ni.into(), &packet),
            Ok(packet) => packet.length.min(memory_bytes()),
            Err(_) => 0,
        }
    }

    fn lost(&self, _: PeerId) {
        wake_waiters();
    }

    fn run_owner_work(&self) {
        handing_in(execute_left);
    }
}

/// Returns the memory of this host, in bytes: no message is longer.
fn memory_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(ask_memory_bytes)
}

fn ask_memory_bytes() -> u64 {
    // SAFETY: `sysconf` takes a number and has no preconditions.
    let [pages, bytes] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(bytes).unwrap_or(0))
}
