// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The job's processes on other hosts. Between the NICs ([`selvedge_shm::elsewhere`]), which know ids, and the links
//! ([`selvedge_net`]), which know addresses.
//!
//! A process publishes the address of its links under its id, in the launcher's key space. Others look it up when they first send to
//! that id. A process that has been sent to knows its sender from the sender's greeting.
//!
//! Invariants
//! 1. A packet is handed in only if the host in its `origin` is the one that its sender named in its greeting.
//! 2. An id is bound to one process. A process that takes over the id of another is not reached under it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use selvedge_net::{ADDRESS_BYTES, LinkAddress, Links, NicName, PeerId, SendError, Sink};
use selvedge_nic::packet::{HEADER_BYTES, Packet, RESPONSE};
use selvedge_shm::elsewhere::{Carrier, hand_in, wake_waiters};
use selvedge_shm::errors::PostError;

use crate::settings::HostSettings;

/// Why a process cannot reach other hosts.
#[derive(Debug, thiserror::Error)]
pub enum HostsError {
    #[error(transparent)]
    Links(#[from] selvedge_net::OpenError),
    #[error("SELVEDGE_NET_INTERFACE={wanted} is no interface or address of this host, which has {have}")]
    NoInterface { wanted: String, have: String },
    #[error("this host has no interface that is up, only loopback; SELVEDGE_NET_INTERFACE names one")]
    OnlyLoopback,
    #[error("the interfaces of this host cannot be listed: {0}")]
    System(#[from] std::io::Error),
}

/// Finds the bytes that another process has published under a name. None: none, as far as this process can see.
pub type LookUp = Box<dyn Fn(&str, u32) -> Option<Vec<u8>> + Send + Sync>;

/// The processes of other hosts.
pub struct Hosts {
    links: Arc<Links>,
    look_up: LookUp,
    /// The links' peers by id.
    peers: Mutex<HashMap<u64, PeerId>>,
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosts({})", self.links.address())
    }
}

impl Hosts {
    /// Opens the links of this process.
    pub fn open(settings: &HostSettings, look_up: LookUp) -> Result<Arc<Hosts>, HostsError> {
        let at = own_address(settings)?;
        let inbox = Arc::new(Inbox::default());
        let links = Links::open(
            selvedge_net::Settings {
                at,
                provider: settings.provider.clone(),
                secret: settings.secret.clone(),
                nid: Some(settings.host),
                check: settings.check,
                progress: settings.progress,
                timeout: settings.timeout,
            },
            inbox.clone(),
        )?;
        let hosts = Arc::new(Hosts { links, look_up, peers: Mutex::default() });
        let _ = inbox.hosts.set(Arc::downgrade(&hosts));
        Ok(hosts)
    }

    /// The name under which a process publishes its address, and the address.
    pub fn publication(&self, id: u64) -> (String, [u8; ADDRESS_BYTES]) {
        (name_of(id), self.links.address().to_bytes())
    }

    /// Lets the last packets leave, and ends all links.
    pub fn close(&self) {
        self.links.close();
    }

    /// The peer behind an id; None: no process has published it.
    fn peer(&self, id: u64) -> Option<PeerId> {
        if let Some(&peer) = self.peers().get(&id) {
            return Some(peer);
        }
        // Most processes have the id that follows from their rank.
        let bytes = (self.look_up)(&name_of(id), (id as u32).saturating_sub(1))?;
        let Some(address) = bytes.first_chunk().filter(|_| bytes.len() == ADDRESS_BYTES) else {
            log::error!("what process {} of host {} has published is not its address", id as u32, id >> 32);
            return None;
        };
        let peer = self.links.peer(LinkAddress::from_bytes(address)?);
        Some(*self.peers().entry(id).or_insert(peer))
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<u64, PeerId>> {
        self.peers.lock().unwrap_or_else(|poison| poison.into_inner())
    }

    /// Whether a request's `origin` is its sender.
    fn is_origin(&self, from: PeerId, origin: u64) -> bool {
        match self.peers().entry(origin) {
            Entry::Occupied(known) => *known.get() == from,
            Entry::Vacant(vacant) => {
                let is_host = self.links.nid_of(from) == Some((origin >> 32) as u32);
                if is_host {
                    vacant.insert(from);
                }
                is_host
            }
        }
    }
}

/// The name under which a process publishes its address.
fn name_of(id: u64) -> String {
    format!("link-{}-{}", id >> 32, id as u32)
}

impl Carrier for Hosts {
    fn send(&self, id: u64, ni: u32, packet: &Packet, payload: &[u8]) -> Result<(), PostError> {
        let peer = self.peer(id).ok_or(PostError::Gone)?;
        let to = NicName { pid: id as u32, ni: ni as u16 };
        self.links.send(peer, to, &packet.encode(false), payload).map_err(|error| match error {
            SendError::Gone => PostError::Gone,
            SendError::Full => PostError::Full,
        })
    }

    fn poll(&self) {
        self.links.poll();
    }

    fn answers(&self, id: u64) -> bool {
        self.peer(id).is_some_and(|peer| !self.links.is_lost(peer))
    }

    fn flush(&self) {
        self.links.flush();
    }
}

/// What the links hand packets to.
#[derive(Default)]
struct Inbox {
    hosts: OnceLock<Weak<Hosts>>,
}

impl Sink for Inbox {
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8]) {
        let Some(hosts) = self.hosts.get().and_then(Weak::upgrade) else { return };
        let packet = match Packet::decode(packet) {
            Ok(packet) => packet,
            Err(error) => return log::error!("a packet of another host was dropped: {error:?}"),
        };
        if packet.kind != RESPONSE && !hosts.is_origin(from, packet.origin) {
            return log::error!("a packet was dropped: it says that it comes from another process than it does");
        }
        if let Err(Some(response)) = hand_in(to.pid, to.ni.into(), &packet, payload) {
            let to = NicName { pid: packet.origin as u32, ni: to.ni };
            // A sender that is lost needs no answer.
            let _ = hosts.links.send(from, to, &response.encode(false), &[]);
        }
    }

    fn lost(&self, _: PeerId) {
        wake_waiters();
    }
}

/// The address at which other hosts reach this one.
fn own_address(settings: &HostSettings) -> Result<IpAddr, HostsError> {
    let interfaces = if_addrs::get_if_addrs()?;
    if let Some(wanted) = &settings.interface {
        let is_wanted = |interface: &&if_addrs::Interface| {
            interface.name == *wanted || wanted.parse().is_ok_and(|ip: IpAddr| ip == interface.ip())
        };
        let found = interfaces.iter().filter(is_wanted).map(if_addrs::Interface::ip).min_by_key(preference);
        return found.ok_or_else(|| {
            let have: Vec<String> = interfaces.iter().map(|own| format!("{} ({})", own.name, own.ip())).collect();
            HostsError::NoInterface { wanted: wanted.clone(), have: have.join(", ") }
        });
    }
    // The launcher's name for this host may be a loopback address here: Debian's /etc/hosts has the host's own name so.
    let resolved = settings.address.as_ref().and_then(|name| (name.as_str(), 0).to_socket_addrs().ok());
    let named: Vec<IpAddr> = resolved.into_iter().flatten().map(|address| address.ip()).collect();
    let is_usable = |ip: &IpAddr| !ip.is_loopback() && interfaces.iter().any(|own| own.ip() == *ip);
    if let Some(ip) = named.into_iter().filter(is_usable).min_by_key(preference) {
        return Ok(ip);
    }
    let up = interfaces.iter().filter(|own| own.is_oper_up() && !own.is_loopback()).map(if_addrs::Interface::ip);
    up.min_by_key(preference).ok_or(HostsError::OnlyLoopback)
}

/// IPv4 first, link-local IPv6 last: it needs a scope.
fn preference(ip: &IpAddr) -> u8 {
    match ip {
        IpAddr::V4(_) => 0,
        IpAddr::V6(ip) if ip.is_unicast_link_local() => 2,
        IpAddr::V6(_) => 1,
    }
}
