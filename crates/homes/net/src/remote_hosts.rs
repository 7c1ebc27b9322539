// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The home of NICs whose job has several hosts: [`RemoteHosts`], a [`Backend`]. Operations within the host take shared
//! memory and do not come here; operations to other hosts become packets, which links carry.
//!
//! ```text
//! Interface::start ─> RemoteHosts::start ─> names: id -> peer ─> Links ─> libfabric
//! libfabric ─> Links ─> inbox: peer -> id ─> Arrival (selvedge_host) ─> the NIC
//! ```
//!
//! | file | subject |
//! |---|---|
//! | here | links of a process, and the home over them |
//! | `names` | ids and the peers of links |
//! | `inbox` | packets that arrive by links |

mod inbox;
mod names;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use selvedge_host::backend::{Backend, Loss, Offers, WhenFull};
use selvedge_host::errors::{OpenError as NicError, PostError, StartError};
use selvedge_host::outbox::RequestPayload;
use selvedge_host::remote_hosts::payload_of;
use selvedge_host::{Config, Interface, SharedMemory};
use selvedge_nic::packet::{Packet, Place, RESPONSE};
use selvedge_nic::tables::Command;

use crate::services::{self, AskError, Service};
use crate::{ADDRESS_BYTES, Lent, LinkAddress, Links, NicName, OpenError, SendError, SendTiming, Settings, Source};
use inbox::Inbox;
use names::{Lookup, hands_in, id_of, name_of};

pub use names::{LookUp, Names};

/// The processes of other hosts, and this process's links to them.
pub struct RemoteHosts {
    links: Arc<Links>,
    names: Names,
    secret: Vec<u8>,
    timeout: Duration,
}

impl fmt::Debug for RemoteHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RemoteHosts({})", self.links.address())
    }
}

impl RemoteHosts {
    /// Opens links. Close them before the process ends: their thread must not run during libfabric's destructors.
    pub fn open(settings: Settings, names: Names) -> Result<Arc<RemoteHosts>, OpenError> {
        let inbox = Arc::new(Inbox::default());
        let (secret, timeout) = (settings.secret.clone(), settings.timeout);
        let links = Links::open(settings, inbox.clone())?;
        let hosts = Arc::new(RemoteHosts { links, names, secret, timeout });
        inbox.attach(&hosts);
        Ok(hosts)
    }

    /// Returns the home of a NIC of this process.
    pub fn home(self: &Arc<RemoteHosts>) -> Box<dyn Backend> {
        Box::new(Home(self.clone()))
    }

    /// Sends these bytes to processes of other hosts that ask for a number, until the result is dropped. `Err`: most
    /// likely the port of this number is in use.
    pub fn serve(&self, number: u16, bytes: &[u8]) -> std::io::Result<Service> {
        let at = SocketAddr::new(self.links.address().socket().ip(), number);
        Service::open(at, &self.secret, bytes)
    }

    /// Asks a process of another host for the bytes of a number. The time-out is that of a lost host.
    pub fn ask(&self, node: IpAddr, number: u16) -> Result<Vec<u8>, AskError> {
        services::ask(node, number, &self.secret, self.timeout)
    }

    /// Returns the address of this process's links.
    pub fn address(&self) -> LinkAddress {
        self.links.address()
    }

    /// Returns the id of NIC `pid` of the process with an address, where processes are numbered as they are met.
    pub fn meet(&self, address: LinkAddress, pid: u32) -> u64 {
        id_of(self.links.peer(address), pid)
    }

    /// Returns the name under which a process publishes its address, and the address.
    pub fn publication(&self, id: u64) -> (String, [u8; ADDRESS_BYTES]) {
        (name_of(id), self.links.address().to_bytes())
    }

    /// Returns the address of the host of the process behind an id, if it is known.
    pub fn host_address_of(&self, id: u64) -> Option<IpAddr> {
        match self.names.find(&self.links, id) {
            Lookup::Peer(peer) => Some(self.links.address_of(peer)?.socket().ip()),
            Lookup::Unknown | Lookup::NotNow => None,
        }
    }

    /// Sends the last packets, and ends all links.
    pub fn close(&self) {
        self.links.close();
    }

    /// Whether the process behind an id may still answer.
    fn answers(&self, id: u64) -> bool {
        match self.names.find(&self.links, id) {
            Lookup::Peer(peer) => self.links.answers(peer),
            Lookup::Unknown => false,
            Lookup::NotNow => true,
        }
    }

    /// Returns the end of the process behind an id, if it is known.
    fn loss(&self, id: u64) -> Option<Loss> {
        self.links.loss_of(self.names.known(id)?)
    }

    /// Gives a packet to the link of the process behind an id, for its NIC number `ni`.
    fn send(&self, id: u64, ni: u32, packet: &Packet, payload: Source<'_>) -> Result<(), PostError> {
        let peer = match self.names.find(&self.links, id) {
            Lookup::Peer(peer) => peer,
            Lookup::Unknown => return Err(PostError::Gone),
            // The program's next call that waits or polls looks it up.
            Lookup::NotNow => return Err(PostError::Full),
        };
        let to = NicName { pid: id as u32, ni: ni as u16 };
        let bytes = payload.bytes().len() as u64;
        // Only an empty response sent while handling a packet may be delayed.
        let may_wait = packet.kind == RESPONSE && bytes == 0 && hands_in();
        let when = if may_wait { SendTiming::WithNext } else { SendTiming::Now };
        let packet = Packet { payload_bytes: bytes, place: Place::Inline, ..*packet };
        self.links.send(peer, to, &packet.encode(false), payload, when).map_err(|error| match error {
            SendError::Gone => PostError::Gone,
            SendError::Full => PostError::Full,
        })
    }
}

/// The home of one NIC: shared memory for this host, links for others.
struct Home(Arc<RemoteHosts>);

impl Backend for Home {
    fn offers(&self, config: &Config) -> Offers {
        Offers { reaches_hosts: true, ..SharedMemory.offers(config) }
    }

    fn announce(&self, interface: &Interface) -> Result<(), NicError> {
        self.0.links.count_in(interface.links());
        SharedMemory.announce(interface)
    }

    fn start(&self, interface: &Interface, command: &Command, fired: u32, full: WhenFull) -> Result<(), StartError> {
        let payload = payload_of(interface, command)?;
        interface.send_request(command, fired, full, payload, |packet, payload| {
            let payload = match payload {
                RequestPayload::Copied(bytes) => Source::Taken(bytes),
                // SAFETY: the command says that the bytes stay until its response has come
                // (`options::MD_PAYLOAD_STAYS`), or its request has failed because the peer is lost.
                RequestPayload::Stays(start, bytes) => Source::Lent(unsafe { Lent::new(*start, *bytes) }),
            };
            self.0.send(command.target, interface.number(), packet, payload)
        })
    }

    fn answers(&self, id: u64) -> bool {
        self.0.answers(id)
    }

    fn loss(&self, id: u64) -> Option<Loss> {
        self.0.loss(id)
    }

    fn watch(&self, id: u64) {
        if let Lookup::Peer(peer) = self.0.names.find(&self.0.links, id) {
            self.0.links.watch(peer);
        }
    }

    fn post(
        &self,
        interface: &Interface,
        target: u64,
        packet: &Packet,
        payload: &mut Vec<u8>,
    ) -> Result<(), PostError> {
        self.0.send(target, interface.number(), packet, Source::Taken(payload))
    }

    fn receive(&self) {
        self.0.links.poll();
    }

    fn prepare_sleep(&self) {
        self.0.links.program_sleeps();
    }

    fn drain(&self) {
        self.0.links.drain();
    }

    fn stop_fetching(&self, interface: &Interface) {
        self.0.links.stop_reading_to(NicName { pid: interface.id() as u32, ni: interface.number() as u16 });
    }
}

#[cfg(test)]
mod tests;
