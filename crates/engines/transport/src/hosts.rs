// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes of other hosts. Between the NICs ([`selvedge_host::elsewhere`]), which know ids, and the links ([`selvedge_net`]), which
//! know addresses.
//!
//! Two ways to name processes ([`Names`]):
//!
//! - *In a job*, ids are the same for all. A process publishes the address of its links under its id, in the launcher's key space.
//!   Others look it up when they first send to that id. A process that has been sent to knows its sender from its greeting.
//! - *As they are met*, for transports, whose addresses come from the program. Each process numbers the others itself, and the number is
//!   the upper half of their ids. In its own eyes a process has the upper half 0, so the receiver of a packet sets it.
//!
//! Invariants
//! 1. A packet is handed in only if it comes from the process that its `origin` says.
//! 2. An id is bound to one process. A process that takes over the id of another is not reached under it.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::Duration;

use selvedge_host::elsewhere::{self, Carrier, asked_bytes, execute_left, hand_in, wake_waiters};
use selvedge_host::errors::PostError;
use selvedge_net::services::{self, AskError, Service};
use selvedge_net::{
    ADDRESS_BYTES, Lent, LinkAddress, Links, NicName, PeerId, Placement, Progress, SendError, Sink, Source, When, Who,
};
use selvedge_nic::packet::{HEADER_BYTES, Packet, RESPONSE};
use selvedge_nic::tables::Request;

use crate::place::job_spans_hosts;
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
    #[error("SELVEDGE_SECRET is not made of pairs of hexadecimal digits")]
    Secret,
    #[error("SELVEDGE_NET_FAULTS: {0}")]
    Faults(#[from] selvedge_net::FaultsError),
    #[error("the interfaces of this host cannot be listed: {0}")]
    System(#[from] std::io::Error),
}

/// Finds the bytes that another process has published under a name. None: none, as far as this process can see.
pub type LookUp = Box<dyn Fn(&str, u32) -> Option<Vec<u8>> + Send + Sync>;

/// How processes of other hosts are named.
enum Names {
    Job {
        look_up: LookUp,
        /// The links' peers by id. Nothing is waited for under this lock.
        peers: Mutex<HashMap<u64, Known>>,
    },
    AsMet,
}

/// The peer behind an id.
#[derive(Clone, Copy)]
struct Known {
    peer: PeerId,
    /// It has published its address under this id. Otherwise it has only said so itself.
    is_published: bool,
}

/// What is known of the process behind an id.
enum Found {
    Peer(PeerId),
    /// No process has published it.
    Nobody,
    /// This thread must not ask the launcher; another will.
    NotNow,
}

/// The processes of other hosts.
pub struct Hosts {
    links: Arc<Links>,
    names: Names,
    secret: Vec<u8>,
    timeout: Duration,
}

/// A transport's requests have their endpoint in the lower bits of `initiator`, and the id of their process above.
const ENDPOINT_BITS: u32 = 8;

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hosts({})", self.links.address())
    }
}

impl Hosts {
    /// Opens the links of this process in a job in which its host has the number `nid`.
    pub fn of_job(settings: &HostSettings, nid: u32, look_up: LookUp) -> Result<Arc<Hosts>, HostsError> {
        let names = Names::Job { look_up, peers: Mutex::default() };
        Hosts::open(settings, Some(nid), settings.progress, names)
    }

    /// The links of this process's transports; None: they have none, because the job is on one host, or the user wants none, or they
    /// cannot be opened, which was reported.
    pub fn of_transports() -> Option<Arc<Hosts>> {
        static OPENED: OnceLock<Option<Arc<Hosts>>> = OnceLock::new();
        let open = || {
            let settings = HostSettings::from_environment();
            let spans_hosts = job_spans_hosts();
            if !are_wanted(settings.reach, spans_hosts) {
                return None;
            }
            // Without a launcher a process most likely gets no link, and should have no thread.
            let is_sure = settings.reach == Some(true) || spans_hosts == Some(true);
            let progress = match settings.progress {
                Progress::Thread if !is_sure => Progress::ThreadLater,
                progress => progress,
            };
            let opened = Hosts::open(&settings, None, progress, Names::AsMet);
            opened.inspect_err(|error| log::warn!("processes of other hosts are out of reach: {error}")).ok()
        };
        OPENED.get_or_init(open).clone()
    }

    /// Links of this process's own to aggregation nodes ([`HostSettings::of_aggregation`]).
    pub fn of_aggregation(settings: &HostSettings) -> Result<Arc<Hosts>, HostsError> {
        Hosts::open(settings, None, settings.progress, Names::AsMet)
    }

    /// Whether this process's transports are to have links, as far as can be said without opening any.
    pub fn wanted_by_transports() -> bool {
        static WANTED: OnceLock<bool> = OnceLock::new();
        *WANTED.get_or_init(|| are_wanted(HostSettings::from_environment().reach, job_spans_hosts()))
    }

    /// Answers with these bytes to processes of other hosts that ask for a number, as long as the value lives. `Err`: most likely the port
    /// of this number is in use.
    pub fn serve(&self, number: u16, bytes: &[u8]) -> std::io::Result<Service> {
        let at = SocketAddr::new(self.links.address().socket().ip(), number);
        Service::open(at, &self.secret, bytes)
    }

    /// The bytes with which a process of another host answers to a number. Waits as long as for a lost host, at most.
    pub fn ask(&self, node: IpAddr, number: u16) -> Result<Vec<u8>, AskError> {
        services::ask(node, number, &self.secret, self.timeout)
    }

    fn open(
        settings: &HostSettings,
        nid: Option<u32>,
        progress: Progress,
        names: Names,
    ) -> Result<Arc<Hosts>, HostsError> {
        let inbox = Arc::new(Inbox::default());
        let links = link_settings(settings, nid, progress)?;
        let secret = links.secret.clone();
        let links = Links::open(links, inbox.clone())?;
        let hosts = Arc::new(Hosts { links, names, secret, timeout: settings.timeout });
        let _ = inbox.hosts.set(Arc::downgrade(&hosts));
        close_at_exit(&hosts);
        Ok(hosts)
    }

    /// The address of this process's links.
    pub fn address(&self) -> LinkAddress {
        self.links.address()
    }

    /// The id of the NIC `pid` of the process with an address, where processes are named as they are met.
    pub fn meet(&self, address: LinkAddress, pid: u32) -> u64 {
        id_of(self.links.peer(address), pid)
    }

    /// The name under which a process publishes its address, and the address.
    pub fn publication(&self, id: u64) -> (String, [u8; ADDRESS_BYTES]) {
        (name_of(id), self.links.address().to_bytes())
    }

    /// Lets the last packets leave, and ends all links.
    pub fn close(&self) {
        self.links.close();
    }

    fn find(&self, id: u64) -> Found {
        let Names::Job { look_up, peers } = &self.names else {
            return ((id >> 32) as u32).checked_sub(1).map_or(Found::Nobody, |peer| Found::Peer(PeerId(peer)));
        };
        let known = lock(peers).get(&id).copied();
        // The program may be in a barrier of the launcher, with its connection.
        if let Some(known) = known.filter(|known| known.is_published || HANDS_IN.get()) {
            return Found::Peer(known.peer);
        }
        if HANDS_IN.get() {
            return Found::NotNow;
        }
        // Most processes have the id that follows from their rank.
        let Some(bytes) = look_up(&name_of(id), (id as u32).saturating_sub(1)) else {
            return known.map_or(Found::Nobody, |known| Found::Peer(known.peer));
        };
        let Some(address) = bytes.first_chunk().filter(|_| bytes.len() == ADDRESS_BYTES) else {
            log::error!("what process {} of host {} has published is not its address", id as u32, id >> 32);
            return Found::Nobody;
        };
        let peer = self.links.peer(LinkAddress::from_bytes(address));
        let claimed = lock(peers).insert(id, Known { peer, is_published: true });
        if let Some(other) = claimed.filter(|claimed| claimed.peer != peer && !claimed.is_published) {
            let why = format!("it has said that it is process {} of host {}, and is not", id as u32, id >> 32);
            self.links.expel(other.peer, &why);
        }
        Found::Peer(peer)
    }

    /// Whether the process behind an id is this peer, as far as is known. Waits for nothing.
    fn is_peer(&self, id: u64, peer: PeerId) -> bool {
        match &self.names {
            Names::Job { peers, .. } => lock(peers).get(&id).is_some_and(|known| known.peer == peer),
            Names::AsMet => id >> 32 == id_of(peer, 0) >> 32,
        }
    }

    /// A packet with the names of this process for its sender. `Err`: it does not come from where it says.
    fn rename(&self, from: PeerId, packet: Packet) -> Result<Packet, ()> {
        if packet.kind == RESPONSE {
            return Ok(packet);
        }
        let Names::Job { peers, .. } = &self.names else {
            let origin = id_of(from, packet.origin as u32);
            if Request::from(&packet).is_aggregation() {
                return Ok(Packet { origin, initiator: origin, ..packet });
            }
            let below = packet.initiator & ((1 << (32 + ENDPOINT_BITS)) - 1);
            return Ok(Packet { origin, initiator: (origin >> 32) << (32 + ENDPOINT_BITS) | below, ..packet });
        };
        let known = lock(peers).get(&packet.origin).map(|known| known.peer);
        let is_origin = match known {
            Some(known) => known == from,
            None => {
                let is_host = self.links.nid_of(from) == Some((packet.origin >> 32) as u32);
                if is_host {
                    lock(peers).entry(packet.origin).or_insert(Known { peer: from, is_published: false });
                }
                is_host
            }
        };
        if is_origin { Ok(packet) } else { Err(()) }
    }
}

/// The settings of links of this process. `nid`: the number of its host in a job that numbers hosts.
pub fn link_settings(
    settings: &HostSettings,
    nid: Option<u32>,
    progress: Progress,
) -> Result<selvedge_net::Settings, HostsError> {
    Ok(selvedge_net::Settings {
        at: own_address(settings)?,
        provider: settings.provider.clone(),
        secret: settings.secret.clone().ok_or(HostsError::Secret)?,
        nid,
        check: settings.check,
        progress,
        timeout: settings.timeout,
        faults: settings.faults.clone()?,
    })
}

fn are_wanted(reach: Option<bool>, spans_hosts: Option<bool>) -> bool {
    reach.unwrap_or(spans_hosts != Some(false)) && !selvedge_host::simulated::is_simulated()
}

/// Closes links when this process ends: their thread must not run while libfabric takes itself down.
fn close_at_exit(hosts: &Arc<Hosts>) {
    static OPENED: Mutex<Vec<(u32, Weak<Hosts>)>> = Mutex::new(Vec::new());
    extern "C" fn close_all() {
        let opened = std::mem::take(&mut *lock(&OPENED));
        for (process, hosts) in opened {
            // A forked child has neither the thread nor the right to the links.
            if let Some(hosts) = hosts.upgrade().filter(|_| process == std::process::id()) {
                hosts.close();
            }
        }
    }
    let mut opened = lock(&OPENED);
    if opened.is_empty() {
        // SAFETY: the handler is a function of this library, which runs it when it is unloaded or the process ends.
        unsafe { libc::atexit(close_all) };
    }
    opened.push((std::process::id(), Arc::downgrade(hosts)));
}

/// The id of a process that was met, from its number.
fn id_of(PeerId(peer): PeerId, pid: u32) -> u64 {
    (u64::from(peer) + 1) << 32 | u64::from(pid)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poison| poison.into_inner())
}

/// The name under which a process publishes its address.
fn name_of(id: u64) -> String {
    format!("link-{}-{}", id >> 32, id as u32)
}

impl Hosts {
    fn send_from(&self, id: u64, ni: u32, packet: &Packet, payload: Source<'_>) -> Result<(), PostError> {
        let peer = match self.find(id) {
            Found::Peer(peer) => peer,
            Found::Nobody => return Err(PostError::Gone),
            // The program's next call that waits or polls asks for it.
            Found::NotNow => return Err(PostError::Full),
        };
        let to = NicName { pid: id as u32, ni: ni as u16 };
        // Who waits for data waits for nothing else. What is answered later than it has come waits for no poll, either.
        let may_wait = packet.kind == RESPONSE && payload.bytes().is_empty() && HANDS_IN.get();
        let when = if may_wait { When::WithNext } else { When::Now };
        self.links.send(peer, to, &packet.encode(false), payload, when).map_err(|error| match error {
            SendError::Gone => PostError::Gone,
            SendError::Full => PostError::Full,
        })
    }
}

impl Carrier for Hosts {
    fn send(&self, id: u64, ni: u32, packet: &Packet, payload: &mut Vec<u8>) -> Result<(), PostError> {
        self.send_from(id, ni, packet, Source::Taken(payload))
    }

    unsafe fn send_lent(
        &self,
        id: u64,
        ni: u32,
        packet: &Packet,
        (start, bytes): (*const u8, usize),
    ) -> Result<(), PostError> {
        // SAFETY: the caller keeps the bytes until the response has come or the peer is lost, as `Lent::new` wants.
        self.send_from(id, ni, packet, Source::Lent(unsafe { Lent::new(start, bytes) }))
    }

    fn poll(&self) {
        self.links.poll();
    }

    fn answers(&self, id: u64) -> bool {
        match self.find(id) {
            Found::Peer(peer) => !self.links.is_lost(peer),
            Found::Nobody => false,
            Found::NotNow => true,
        }
    }

    fn flush(&self) {
        self.links.flush();
    }

    fn rest(&self) {
        self.links.rest();
    }

    fn let_go(&self, pid: u32, ni: u32) {
        self.links.let_go(NicName { pid, ni: ni as u16 });
    }
}

thread_local! {
    /// Whether this thread hands a packet in, or is the progress thread. It must not ask the launcher then, whose connection the program may
    /// hold in a barrier.
    static HANDS_IN: Cell<bool> = const { Cell::new(false) };
}

/// What the links hand packets to.
#[derive(Default)]
struct Inbox {
    hosts: OnceLock<Weak<Hosts>>,
}

impl Inbox {
    /// The links, and a packet of theirs with its sender's id as this process knows it. None: it was dropped, which was reported.
    fn open(&self, from: PeerId, packet: &[u8; HEADER_BYTES]) -> Option<(Arc<Hosts>, Packet)> {
        let hosts = self.hosts.get().and_then(Weak::upgrade)?;
        let packet = Packet::decode(packet)
            .inspect_err(|error| log::error!("a packet of another host was dropped: {error:?}"))
            .ok()?;
        match hosts.rename(from, packet) {
            Ok(packet) => Some((hosts, packet)),
            Err(_) => {
                log::error!("a packet was dropped: it says that it comes from another process than it does");
                None
            }
        }
    }
}

/// Runs what hands a packet in.
fn handing_in<T>(run: impl FnOnce() -> T) -> T {
    HANDS_IN.set(true);
    let result = run();
    HANDS_IN.set(false);
    result
}

impl Sink for Inbox {
    fn packet(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], payload: &[u8], who: Who) {
        let Some((hosts, packet)) = self.open(from, packet) else { return };
        let in_call = who == Who::Program;
        let is_sender = |id| hosts.is_peer(id, from);
        let response = handing_in(|| hand_in(to.pid, to.ni.into(), &packet, payload, in_call, &is_sender));
        if let Some(response) = response {
            let to = NicName { pid: packet.origin as u32, ni: to.ni };
            // A sender that is lost needs no answer.
            let _ = hosts.links.send(from, to, &response.encode(false), Source::Taken(&mut Vec::new()), When::WithNext);
        }
    }

    fn place(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], who: Who, may_wait: bool) -> Placement {
        // What is dropped here would be dropped with its payload.
        let Some((hosts, packet)) = self.open(from, packet) else { return Placement::Nothing };
        let in_call = who == Who::Program;
        let is_sender = |id| hosts.is_peer(id, from);
        match handing_in(|| elsewhere::place(to.pid, to.ni.into(), &packet, in_call, may_wait, &is_sender)) {
            elsewhere::Placement::Whole => Placement::Whole,
            elsewhere::Placement::Nothing => Placement::Nothing,
            elsewhere::Placement::NotYet => Placement::NotYet,
            elsewhere::Placement::At { start, bytes, number, in_order } => {
                Placement::At { start, bytes, number, in_order }
            }
        }
    }

    fn finish(&self, from: PeerId, to: NicName, packet: &[u8; HEADER_BYTES], number: u64, is_there: bool) {
        let Some((hosts, packet)) = self.open(from, packet) else { return };
        let is_sender = |id| hosts.is_peer(id, from);
        handing_in(|| elsewhere::finish(to.pid, to.ni.into(), &packet, number, is_there, &is_sender));
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

    fn tend(&self) {
        handing_in(execute_left);
    }
}

/// The memory of this host: no message is longer.
fn memory_bytes() -> u64 {
    static BYTES: OnceLock<u64> = OnceLock::new();
    *BYTES.get_or_init(ask_memory_bytes)
}

fn ask_memory_bytes() -> u64 {
    // SAFETY: `sysconf` takes a number and has no preconditions.
    let [pages, bytes] = [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(bytes).unwrap_or(0))
}

/// The address at which other hosts reach this one.
pub fn own_address(settings: &HostSettings) -> Result<IpAddr, HostsError> {
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

#[cfg(test)]
mod tests;
