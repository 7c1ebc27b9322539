// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC for messages, with everything in flight: what a front door with endpoints and completion queues stands on.
//!
//! ```text
//! send ─ inline, ring ──> ring of the target ── target polls ──> receive found: payload copied, completion
//!      └ direct ───────> sender runs the target's NIC: receive found: payload copied once, sender's completion;
//!                          event for the target ── target polls ──> completion
//!      └ rendezvous ───> none found: unexpected header at the target; its later receive fetches the payload from here
//!      ├ packet ───────> the target's NIC is out of reach: the message, and later its reply, travel as packets
//!      └ tiny, small, medium, long ──> over VELO and RMA, where the home has them ([`crate::units`])
//! ```
//!
//! The NIC's portal table has one entry each for writes and atomics, for payload that waits for its receive, for reads
//! and for fetching atomics ([`crate::ticket`]). Each endpoint adds three: tagged messages, untagged messages, and the
//! notifications of writes with data.
//!
//! One thread at a time uses a transport. The front door has the lock.
//!
//! Invariants
//! 1. Messages between two endpoints are matched in the order in which they were sent, by every protocol. A delivery
//!    that bypasses a ring first takes the messages in that ring.
//! 2. A message for which there is no room is refused. The sender keeps it (`EAGAIN`), or it stays in the ring.
//! 3. An accepted operation ends exactly once: with a completion, with an error, or silently if it was injected.
//!
//! This file opens the NIC and its endpoints. The operations are in files of their own, as methods of [`Transport`]:
//! [`crate::send`], [`crate::receive`], [`crate::claim`], [`crate::remote`], [`crate::deferred`], and behind them
//! [`crate::progress`], [`crate::flow_control`], [`crate::pool`] and [`crate::ends`].

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use selvedge_host::elsewhere::{Carrier, ELSEWHERE};
use selvedge_host::interface::{ArenaRange, Watch};
use selvedge_host::segment::owner_of;
use selvedge_host::{Config, Interface, Path};
use selvedge_job::{Claim, JobDirectory};
use selvedge_net::LinkAddress;
use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::limits::{Limits as NicLimits, SHORT_LIST_MAX};
use selvedge_nic::portals::errors::{PortalError, UnlinkError};
use selvedge_nic::portals::{EntrySpec, list, options};
use slab::Slab;

use crate::bindings::Bindings;
use crate::delivered::Delivering;
use crate::flow::Flows;
use crate::hosts::Hosts;
use crate::meeting::{self, Meeting};
use crate::operation::Operation;
use crate::peers::Peers;
use crate::place::own_place;
use crate::polling::{Polling, Rest};
use crate::posted::{Claimed, Filled};
use crate::protocols::Limits;
use crate::region::Region;
use crate::settings::Settings;
use crate::ticket::{
    ENDPOINT_PORTALS, ENDPOINTS_MAX, KINDS, Kind, OWN_ENDPOINT, PORTAL_FETCH, PORTAL_READ, PORTAL_TOKEN, PORTAL_WRITE,
    Ticket,
};
use crate::transfer::Note;
use crate::units::{self, Units};
use crate::work::{self, Works};

/// Most posted receives and registered regions at once.
pub const ENTRIES: u32 = 32768;
/// Most unexpected messages at once.
const HEADERS: u32 = 32768;
/// Most events that may wait for the program. When the queue is full, senders wait.
const EVENTS: u32 = 4096;
/// Most messages and operations in flight. When there are more, the program gets `EAGAIN`.
pub(crate) const OUTSTANDING: u32 = 2048;
/// The NIC's number among the NICs of its process. Portals programs use other numbers.
const NI: u32 = 8;

/// The reason why a transport could not open its NIC.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Join(#[from] meeting::JoinError),
    #[error(transparent)]
    Nic(#[from] selvedge_host::OpenError),
    #[error("SELVEDGE_PATH=shared: MPI's buffers are ordinary memory, which only auto, cma and bounce reach")]
    Path,
    #[error("the NIC's tables are too small for what the provider needs of them")]
    Tables,
}

/// A NIC for messages, with everything in flight.
pub struct Transport {
    pub interface: Arc<Interface>,
    claim: Claim,
    /// The directory in which this process finds others.
    pub directory: JobDirectory,
    pub settings: Settings,
    /// Event queue for incoming messages. It never overflows: senders wait instead.
    pub(crate) queue: u32,
    /// Event queue for our own operations. Its size bounds how many there may be.
    pub(crate) own_queue: u32,
    /// Watches for the next event of both queues.
    pub(crate) watches: [Watch; 2],
    pub(crate) operations: Slab<Operation>,
    pub(crate) peers: Peers,
    pub(crate) endpoints: Vec<*mut Bindings>,
    pub(crate) claimed: Vec<Claimed>,
    pub(crate) regions: Slab<Region>,
    /// The counters of others' writes and reads, for regions without their own; NONE without one.
    pub(crate) remote_counters: [u32; 2],
    keys: HashSet<u64>,
    key_next: u64,
    pub(crate) token_next: u32,
    pub(crate) polling: Polling,
    /// Receives that were filled from a ring and still need their completions.
    pub(crate) filled: Vec<Filled>,
    /// The bit of the ring from this process to itself; 0 without one.
    pub(crate) own_ring: u64,
    /// Notifications of writes that wait for room at their targets.
    pub(crate) notes: VecDeque<(Note, Ticket)>,
    /// Sends that have not ended yet.
    pub(crate) outstanding: u32,
    /// The peers whose rings have sends that end with their delivery.
    pub(crate) delivering: Vec<Delivering>,
    pub(crate) works: Works,
    pub(crate) flows: Flows,
    /// What the thread does after it has released the lock.
    pub rest: Rest,
    /// Some operation could not be done from this process, because memory was out of reach.
    pub(crate) any_out_of_reach: bool,
    /// The VELO and RMA units, if messages go over them in this home.
    pub(crate) units: Option<Box<Units>>,
    /// Links to processes of other hosts, if there are any.
    pub(crate) hosts: Option<Arc<Hosts>>,
    address: LinkAddress,
}

/// Why a process cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReached {
    #[error(
        "the address is of another host, and its process has no links to others: start the job by its launcher on all hosts, or set SELVEDGE_NET=on"
    )]
    HasNoLinks,
    #[error(
        "the address is of another host, to which this process has no links: start the job by its launcher on all hosts, or set SELVEDGE_NET=on"
    )]
    NoLinks,
}

/// A token as this host's segments hold it.
fn mask(token: u64) -> u64 {
    token ^ own_place()
}

/// A number that nobody guesses.
fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the address is still that of one process: its host has it by number.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

impl Transport {
    /// Opens a NIC.
    pub fn open() -> Result<Transport, OpenError> {
        let settings = Settings::from_environment();
        if settings.path == Path::Shared {
            return Err(OpenError::Path);
        }
        let Meeting { directory, claim } = meeting::join()?;
        let hosts = Hosts::of_transports();
        let address = match &hosts {
            Some(hosts) => hosts.address(),
            None => LinkAddress::nowhere(random()),
        };
        let config = Config {
            mode: settings.mode,
            path: settings.path,
            spin_ns: 0,
            nap_ns: 1_000_000,
            directory: directory.path().to_path_buf(),
            nid: 0,
            token: mask(address.token()),
            carrier: hosts.clone().map(|hosts| hosts as Arc<dyn Carrier>),
        };
        let nic_limits = NicLimits {
            entries: ENTRIES,
            headers: HEADERS,
            descriptors: 512,
            counters: 1024,
            queues: 4,
            portals: ENDPOINT_PORTALS + KINDS * (u32::from(OWN_ENDPOINT) + 1),
            triggered: 2048,
            iovecs: 16,
            list: ENTRIES,
            short_list: SHORT_LIST_MAX,
            pending: 1024,
            heap_blocks: 16384,
            heap_blocks_max: 1 << 18,
            ..NicLimits::NONE
        };
        let limits = Limits::from_environment();
        let peers = if selvedge_host::home::has_units() { units::peers_wanted() } else { 0 };
        let nic_limits = match peers {
            0 => nic_limits,
            _ => units::limits(&nic_limits, peers, settings.address_tables, OUTSTANDING),
        };
        let pid = claim.pid();
        let interface = Interface::open(config, NI, pid, 0, &nic_limits, ArenaRange::default())?;
        let (queue, own_queue) = {
            let mut nic = interface.lock();
            let queue = nic.queues().alloc(EVENTS).map_err(|_| OpenError::Tables)?;
            let own_queue = nic.queues().alloc(2 * OUTSTANDING + work::EVENTS_MAX).map_err(|_| OpenError::Tables)?;
            for portal in [PORTAL_WRITE, PORTAL_TOKEN, PORTAL_READ, PORTAL_FETCH] {
                nic.portal_table().alloc(Some(portal), 0, own_queue).map_err(|_| OpenError::Tables)?;
            }
            (queue, own_queue)
        };
        let units = match peers {
            0 => None,
            _ => Some(Box::new(Units::open(&interface, limits.bounce_max, peers).map_err(|_| OpenError::Tables)?)),
        };
        let watches = [interface.watch(queue), interface.watch(own_queue)];
        let [Some(first), Some(second)] = watches else { return Err(OpenError::Tables) };
        let rest = if interface.polls_here() { Rest::None } else { Rest::Wake };
        Ok(Transport {
            interface,
            claim,
            directory,
            settings,
            queue,
            own_queue,
            watches: [first, second],
            operations: Slab::with_capacity(1024),
            peers: Peers::new(limits),
            endpoints: vec![std::ptr::null_mut(); usize::from(OWN_ENDPOINT) + 1],
            claimed: Vec::new(),
            regions: Slab::new(),
            remote_counters: [NONE; 2],
            keys: HashSet::new(),
            key_next: u64::from(pid) << 32 | 1,
            token_next: 1,
            polling: Polling::default(),
            filled: Vec::with_capacity(64),
            own_ring: 0,
            notes: VecDeque::new(),
            outstanding: 0,
            delivering: Vec::new(),
            works: Works::default(),
            flows: Flows::default(),
            rest,
            any_out_of_reach: false,
            units,
            hosts,
            address,
        })
    }

    /// The source number that one of our endpoints puts into its requests.
    pub fn source(&self, endpoint: u16) -> u64 {
        self.interface.id() << 8 | u64::from(endpoint)
    }

    // ---- peers ----

    /// Where this process is found: its links, if it has any, and its token.
    pub fn address(&self) -> LinkAddress {
        self.address
    }

    /// The processes of other hosts; None: this process has no links to them.
    pub fn hosts(&self) -> Option<&Hosts> {
        self.hosts.as_deref()
    }

    /// The id and the word of the process with an address whose NIC has the number `nic` on its host.
    pub fn find(&self, nic: u16, address: LinkAddress) -> Result<(u64, u64), NotReached> {
        if nic == self.interface.id() as u16 && address.token() == self.address.token() {
            return Ok((self.interface.id(), self.interface.word()));
        }
        let path = self.directory.path().join(format!("{nic}.{NI}.nic"));
        if let Some(owner) = owner_of(&path, mask(address.token())) {
            return Ok((nic.into(), owner));
        }
        match &self.hosts {
            _ if address.is_nowhere() => Err(NotReached::HasNoLinks),
            None => Err(NotReached::NoLinks),
            Some(hosts) => Ok((hosts.meet(address, nic.into()), ELSEWHERE)),
        }
    }

    /// The number of a peer: the process `owner` behind an id.
    pub fn peer(&mut self, id: u64, owner: u64) -> u32 {
        if let Some(units) = &mut self.units {
            units.one_sided.is_named_again(id);
        }
        self.peers.number(id, owner)
    }

    /// Whether the process of a peer has ended, or has closed its NIC.
    pub fn is_lost(&self, peer: u32) -> bool {
        self.peers.get(peer).is_none_or(|peer| !self.interface.look_alive(peer.id, peer.owner))
    }

    /// Records an address vector's number for a source.
    pub fn name_source(&mut self, source: u64, number: u64) {
        self.peers.name_source(source, number);
    }

    pub fn forget_source(&mut self, source: u64, number: u64) {
        self.peers.forget_source(source, number);
    }

    // ---- endpoints ----

    /// Assigns a number to an endpoint and allocates its portal table entries.
    pub fn open_endpoint(&mut self, bindings: *mut Bindings) -> Option<u16> {
        let index = self.endpoints[..ENDPOINTS_MAX].iter().position(|other| other.is_null())? as u16;
        self.open_endpoint_at(index, bindings).then_some(index)
    }

    /// Opens the endpoint with [`OWN_ENDPOINT`] as its number. Returns false if it is open, or the NIC has no room.
    pub fn open_own_endpoint(&mut self, bindings: *mut Bindings) -> bool {
        self.endpoints[usize::from(OWN_ENDPOINT)].is_null() && self.open_endpoint_at(OWN_ENDPOINT, bindings)
    }

    fn open_endpoint_at(&mut self, index: u16, bindings: *mut Bindings) -> bool {
        if self.make_portals(index).is_none() {
            return false;
        }
        self.endpoints[usize::from(index)] = bindings;
        for kind in [Kind::Tagged, Kind::Plain] {
            self.fill_pool(kind.portal(index));
        }
        true
    }

    /// Allocates an endpoint's portal table entries.
    fn make_portals(&mut self, index: u16) -> Option<()> {
        let mut nic = self.interface.lock();
        for kind in [Kind::Tagged, Kind::Plain, Kind::Note] {
            nic.portal_table().alloc(Some(kind.portal(index)), options::PT_FLOWCTRL, self.queue).ok()?;
        }
        nic.lists().append(&mut NoMemory, Kind::Note.portal(index), list::PRIORITY, &note_entry()).ok()?;
        Some(())
    }

    /// Removes an endpoint. Its receives and unexpected messages are dropped without a completion.
    pub fn close_endpoint(&mut self, index: u16) {
        self.close_flows(self.endpoints[usize::from(index)]);
        self.forget_undelivered(self.endpoints[usize::from(index)]);
        let endpoint = std::mem::replace(&mut self.endpoints[usize::from(index)], std::ptr::null_mut());
        let portals = [Kind::Tagged.portal(index), Kind::Plain.portal(index), Kind::Note.portal(index)];
        let belongs = |operation: &Operation| match operation {
            Operation::Buffer(buffer) => portals.contains(&buffer.portal),
            other => other.ticket().is_some_and(|ticket| ticket.bindings == endpoint),
        };
        {
            let mut nic = self.interface.lock();
            for claimed in self.claimed.iter().filter(|claimed| claimed.bindings == endpoint) {
                nic.receives().drop_unexpected(claimed.header);
            }
            for portal in portals {
                nic.receives().clear_unexpected(portal);
                let _ = nic.with_revocation(|nic| nic.receives().clear_priority(portal));
            }
            for (_, operation) in self.operations.iter().filter(|(_, operation)| belongs(operation)) {
                if let Some(entry) = operation.entry() {
                    let _ = nic.with_revocation(|nic| nic.lists().unlink(entry));
                }
            }
        }
        for portal in portals {
            self.interface.retry_while_fetching(|| {
                let mut nic = self.interface.lock();
                let _ = nic.with_revocation(|nic| nic.receives().clear_priority(portal));
                nic.portal_table().free(portal) != Err(PortalError::InUse)
            });
        }
        // Reads the events of these operations before their numbers are used again.
        self.take_events();
        self.close_works(endpoint);
        self.operations.retain(|_, operation| !belongs(operation));
        if let Some(units) = &mut self.units {
            units.forget_ended(&self.operations);
            self.count_refused();
        }
        let sends = self.operations.iter().filter(|(_, operation)| matches!(operation, Operation::Send(_))).count();
        self.outstanding = sends as u32;
        self.claimed.retain(|claimed| claimed.bindings != endpoint);
        // Their tickets name the endpoint.
        let waiting = self.notes.len();
        self.notes.retain(|(_, ticket)| ticket.bindings != endpoint);
        if self.notes.len() != waiting {
            log::warn!("{} notifications of writes were not sent: there was no room", waiting - self.notes.len());
        }
    }

    // ---- keys of regions ----

    /// A key that is not in use.
    pub fn new_key(&mut self) -> u64 {
        loop {
            let key = self.key_next;
            self.key_next += 1;
            if !self.keys.contains(&key) {
                return key;
            }
        }
    }

    pub fn claim_key(&mut self, key: u64) -> bool {
        self.keys.insert(key)
    }

    pub(crate) fn release_key(&mut self, key: u64) {
        self.keys.remove(&key);
    }

    /// Links a match entry.
    pub fn append(&self, portal: u32, which: u8, spec: &EntrySpec) -> Option<u32> {
        self.interface.lock().with_revocation(|nic| nic.lists().append(&mut NoMemory, portal, which, spec)).ok()
    }

    /// Unlinks an entry of the priority list whose memory the program wants back.
    pub fn take_memory_back(&self, entry: Option<u32>) {
        let Some(entry) = entry else { return };
        let unlink = || self.interface.lock().with_revocation(|nic| nic.lists().unlink(entry));
        self.interface.retry_while_fetching(|| unlink() != Err(UnlinkError::InUse));
    }

    pub fn unlink(&self, entry: Option<u32>) {
        if let Some(entry) = entry {
            let _ = self.interface.lock().with_revocation(|nic| nic.lists().unlink(entry));
        }
    }

    /// Asks senders to run this NIC themselves instead of using rings, because counters or triggered operations depend
    /// on their messages.
    pub fn wants_independence(&mut self) {
        self.interface.rings().set_bypass(true);
        self.withdraw_units();
        self.progress();
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.close_units();
        self.interface.shut();
        meeting::release(self.claim.pid());
        self.directory.leave(false);
    }
}

/// The entry for notifications of writes. It stays linked, and its events carry the notification.
fn note_entry() -> EntrySpec {
    EntrySpec {
        options: options::OP_PUT | options::EVENT_LINK_DISABLE | options::EVENT_UNLINK_DISABLE,
        start: 0,
        length: 0,
        iov: NONE,
        iov_count: 0,
        match_bits: 0,
        ignore_bits: u64::MAX,
        source: 0,
        source_ignore: u64::MAX,
        min_free: 0,
        user_ptr: u64::MAX,
        counter: NONE,
        uid: u32::MAX,
    }
}
