// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC for messages, with everything in flight: the base of a front door with endpoints and completion queues.
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
//! and for fetching atomics ([`crate::ticket`]). Each endpoint adds three: tagged messages, untagged messages, and
//! notifications of writes with data.
//!
//! One thread at a time uses a transport. The front door has the lock.
//!
//! Invariants
//! 1. Every protocol matches messages between two endpoints in the order in which they were sent. A delivery that
//!    bypasses a ring first takes the messages in that ring.
//! 2. A message without room is refused. The sender keeps it (`EAGAIN`), or it stays in the ring.
//! 3. An accepted operation ends exactly once: with a completion, with an error, or silently if it was injected.
//!
//! This file has the parts (docs/design/messages-engine.md), and opens the NIC and its endpoints. `calls` has the calls of a
//! front door. `progress`, `rings` and `units` poll.

mod calls;
mod progress;
mod rings;
mod units;

use std::sync::Arc;
use std::time::{Duration, Instant};

use selvedge_host::config::REMOTE;
use selvedge_host::home;
use selvedge_host::interface::ArenaRange;
use selvedge_host::segment::owner_of;
use selvedge_host::{Config, Interface, OpenError as NicError, Path};
use selvedge_job::{Claim, ClaimError, DirectoryError, JobDirectory};
use selvedge_net::LinkAddress;
use selvedge_nic::NoMemory;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::errors::PortalError;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_os::shortage::Shortage;

use crate::accesses::Accesses;
use crate::bindings::{Bindings, Side};
use crate::completion::Completion;
use crate::deferred::Works;
use crate::error::Fault;
use crate::flow::PAUSE_FIRST;
use crate::in_flight::InFlight;
use crate::operation::Operation;
use crate::operations::Operations;
use crate::own_nic::OwnNic;
use crate::peers::Peers;
use crate::polling::{AfterUnlock, Polling};
use crate::protocols::Limits;
use crate::receive::Receives;
use crate::region::Full;
use crate::regions::Regions;
use crate::send::Sends;
use crate::tables::Tables;
use crate::ticket::{Kind, OWN_ENDPOINT, PORTAL_FETCH, PORTAL_READ, PORTAL_TOKEN, PORTAL_WRITE, Ticket};
use crate::units::{Units, limits};
use selvedge_net::remote_hosts::RemoteHosts;
use selvedge_process::hosts;
use selvedge_process::place::own_place;
use selvedge_process::rendezvous_directory::{self, JoinError, Rendezvous};
use selvedge_process::settings::Settings;

/// Longest wait when an endpoint is closed: for the replies to injected messages, and for refused messages.
const FLUSH: Duration = Duration::from_secs(1);
const FLUSH_RETRIES: Duration = Duration::from_secs(60);
/// The same in virtual time, where other ranks may compute for long.
const FLUSH_SIMULATED: Duration = Duration::from_secs(1 << 20);
/// The NIC's number among the NICs of its process. Portals programs use other numbers.
const NI: u32 = 8;

/// The reason why a transport could not open its NIC.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Nic(#[from] selvedge_host::OpenError),
    #[error("SELVEDGE_PATH=shared does not reach MPI's buffers, which are ordinary memory; set auto, cma or bounce")]
    Path,
    #[error("the NIC's tables are too small for the portal table entries of the provider")]
    Tables,
}

impl OpenError {
    /// Returns the lack of a local resource that is the reason, if one is.
    pub fn shortage(&self) -> Option<&Shortage> {
        match self {
            OpenError::Nic(NicError::Shortage(shortage)) => Some(shortage),
            OpenError::Join(JoinError::Directory(error) | JoinError::Claim(ClaimError::Io(error))) => match error {
                DirectoryError::Shortage(shortage) => Some(shortage),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A NIC for messages, with everything in flight.
pub struct Transport {
    flight: InFlight,
    sends: Sends,
    receives: Receives,
    accesses: Accesses,
    regions: Regions,
    works: Works,
    /// The VELO and RMA units, if messages use them in this home.
    units: Option<Box<Units>>,
    /// The action of the thread after it has released the lock.
    pub after_unlock: AfterUnlock,
    claim: Claim,
    /// The directory in which processes of the job find each other.
    pub directory: JobDirectory,
    /// Links to processes of other hosts, if any.
    hosts: Option<Arc<RemoteHosts>>,
    address: LinkAddress,
}

/// The reason why a process cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotReached {
    #[error(
        "the process at this address is on another host and has no links: start the job by its launcher on all hosts, or set SELVEDGE_NET=on"
    )]
    HasNoLinks,
    #[error(
        "the address is on another host, and this process has no links: start the job by its launcher on all hosts, or set SELVEDGE_NET=on"
    )]
    NoLinks,
    #[error(transparent)]
    Shortage(#[from] Shortage),
}

/// Converts a token to or from its form in this host's segments.
fn mask(token: u64) -> u64 {
    token ^ own_place()
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // If there is no randomness, the address still belongs to one process, because its host names it by number.
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
        let Rendezvous { directory, claim } = rendezvous_directory::join()?;
        let hosts = hosts::of_transports();
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
        };
        let limits = Limits::from_environment();
        let peers = if home::has_units() { limits::peers_wanted() } else { 0 };
        let pid = claim.pid();
        let mut tables = match selvedge_host::simulated::is_simulated() {
            true => Tables::FULL,
            false => Tables::for_folder(directory.path()),
        };
        let interface = loop {
            let nic_limits = match peers {
                0 => tables.limits(),
                _ => limits::limits(&tables.limits(), peers, settings.address_tables, tables.sends()),
            };
            let home = hosts.as_ref().map_or_else(home::of_process, |hosts| hosts.home());
            let opened = Interface::open(home, config.clone(), NI, pid, 0, &nic_limits, ArenaRange::default());
            match (opened, tables.halved()) {
                (Err(NicError::Shortage(shortage)), Some(smaller)) if shortage.is_of_space() => tables = smaller,
                (opened, _) => break opened?,
            }
        };
        if tables != Tables::FULL {
            let (folder, posted) = (directory.path().display(), tables.limits().entries);
            log::warn!("{folder} has little room: at most {posted} receives can be posted at once");
        }
        let (queue, own_queue) = {
            let mut nic = interface.lock();
            // The larger one first: the heap's blocks are aligned to their size.
            let own_queue = nic.queues().alloc(tables.own_events()).map_err(|_| OpenError::Tables)?;
            let queue = nic.queues().alloc(tables.events()).map_err(|_| OpenError::Tables)?;
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
        let after_unlock = if interface.polls_here() { AfterUnlock::None } else { AfterUnlock::Wake };
        let nic = OwnNic { interface, queue, own_queue, watches: [first, second] };
        let (operations, polling) = (Operations::new(tables.sends()), Polling::default());
        Ok(Transport {
            flight: InFlight { nic, operations, peers: Peers::new(limits), polling },
            sends: Sends::default(),
            receives: Receives::new(),
            accesses: Accesses::new(&settings),
            regions: Regions::new(u64::from(pid) << 32 | 1),
            works: Works::default(),
            units,
            after_unlock,
            claim,
            directory,
            hosts,
            address,
        })
    }

    /// The NIC of this process.
    pub fn interface(&self) -> &Arc<Interface> {
        &self.flight.nic.interface
    }

    // ---- peers ----

    /// The address of this process: its links, if any, and its token.
    pub fn address(&self) -> LinkAddress {
        self.address
    }

    /// The processes of other hosts. `None`: this process has no links to them.
    pub fn hosts(&self) -> Option<&RemoteHosts> {
        self.hosts.as_deref()
    }

    /// Finds the process with an address and the NIC number `nic` on its host. Returns its id and its word.
    pub fn find(&self, nic: u16, address: LinkAddress) -> Result<(u64, u64), NotReached> {
        if nic == self.flight.nic.interface.id() as u16 && address.token() == self.address.token() {
            return Ok((self.flight.nic.interface.id(), self.flight.nic.interface.word()));
        }
        let path = self.directory.path().join(format!("{nic}.{NI}.nic"));
        if let Some(owner) = owner_of(&path, mask(address.token()))? {
            return Ok((nic.into(), owner));
        }
        match &self.hosts {
            _ if address.is_nowhere() => Err(NotReached::HasNoLinks),
            None => Err(NotReached::NoLinks),
            Some(hosts) => Ok((hosts.meet(address, nic.into()), REMOTE)),
        }
    }

    /// The number of a peer: the process `owner` behind an id.
    pub fn peer(&mut self, id: u64, owner: u64) -> u32 {
        if let Some(units) = &mut self.units {
            units.one_sided.is_named_again(id);
        }
        self.flight.peers.number(id, owner)
    }

    /// Whether the process of a peer has ended, or has closed its NIC.
    pub fn is_lost(&self, peer: u32) -> bool {
        self.flight.peers.get(peer).is_none_or(|peer| !self.flight.nic.interface.check_alive(peer.id, peer.owner))
    }

    /// Records an address vector's number for a source.
    pub fn name_source(&mut self, source: u64, number: u64) {
        self.flight.peers.name_source(source, number);
    }

    /// Removes an address vector's number for a source.
    pub fn forget_source(&mut self, source: u64, number: u64) {
        self.flight.peers.forget_source(source, number);
    }

    // ---- endpoints ----

    /// Assigns a number to an endpoint and allocates its portal table entries.
    pub fn open_endpoint(&mut self, bindings: *mut Bindings) -> Option<u16> {
        let index = self.receives.endpoints.free()?;
        self.open_endpoint_at(index, bindings).then_some(index)
    }

    /// Opens the endpoint with [`OWN_ENDPOINT`] as its number. Returns false if it is open, or the NIC has no room.
    pub fn open_own_endpoint(&mut self, bindings: *mut Bindings) -> bool {
        self.receives.endpoints.get(OWN_ENDPOINT).is_null() && self.open_endpoint_at(OWN_ENDPOINT, bindings)
    }

    fn open_endpoint_at(&mut self, index: u16, bindings: *mut Bindings) -> bool {
        if self.make_portals(index).is_none() {
            return false;
        }
        self.receives.endpoints.set(index, bindings);
        for kind in [Kind::Tagged, Kind::Plain] {
            self.flight.fill_pool(kind.portal(index));
        }
        true
    }

    /// Allocates an endpoint's portal table entries.
    fn make_portals(&mut self, index: u16) -> Option<()> {
        let OwnNic { interface, queue, .. } = &self.flight.nic;
        let mut nic = interface.lock();
        for kind in [Kind::Tagged, Kind::Plain, Kind::Note] {
            nic.portal_table().alloc(Some(kind.portal(index)), options::PT_FLOWCTRL, *queue).ok()?;
        }
        nic.lists().append(&mut NoMemory, Kind::Note.portal(index), list::PRIORITY, &note_entry()).ok()?;
        Some(())
    }

    /// Removes an endpoint. Its receives and unexpected messages are dropped without a completion.
    pub fn close_endpoint(&mut self, index: u16) {
        self.finish_endpoint(self.receives.endpoints.get(index));
        let Transport { flight, sends, receives, .. } = self;
        let endpoint = receives.endpoints.set(index, std::ptr::null_mut());
        sends.deliveries.forget_undelivered(&mut flight.peers, endpoint);
        let portals = [Kind::Tagged.portal(index), Kind::Plain.portal(index), Kind::Note.portal(index)];
        let belongs = |operation: &Operation| match operation {
            Operation::Buffer(buffer) => portals.contains(&buffer.portal),
            other => other.ticket().is_some_and(|ticket| ticket.bindings == endpoint),
        };
        let interface = &flight.nic.interface;
        {
            let mut nic = interface.lock();
            for claimed in receives.claimed.iter().filter(|claimed| claimed.bindings == endpoint) {
                nic.receives().drop_unexpected(claimed.header);
            }
            for portal in portals {
                nic.receives().clear_unexpected(portal);
                let _ = nic.with_revocation(|nic| nic.receives().clear_priority(portal));
            }
            for (_, operation) in flight.operations.iter().filter(|(_, operation)| belongs(operation)) {
                if let Some(entry) = operation.entry() {
                    let _ = nic.with_revocation(|nic| nic.lists().unlink(entry));
                }
            }
        }
        for portal in portals {
            interface.retry_while_fetching(|| {
                let mut nic = interface.lock();
                let _ = nic.with_revocation(|nic| nic.receives().clear_priority(portal));
                nic.portal_table().free(portal) != Err(PortalError::InUse)
            });
        }
        // Reads the events of these operations before their numbers are used again.
        self.take_events();
        let Transport { flight, receives, accesses, works, units, .. } = self;
        works.forget_endpoint(flight, endpoint);
        flight.operations.retain(|operation| !belongs(operation));
        if let Some(units) = units {
            units.forget_ended(flight);
            flight.count_refused();
        }
        receives.claimed.retain(|claimed| claimed.bindings != endpoint);
        accesses.forget_endpoint(endpoint);
    }

    /// Called before an endpoint is closed. Its injected messages get some time to arrive, because the program no
    /// longer has their payload. Then nothing more is sent for it, and replies to its messages are ignored.
    fn finish_endpoint(&mut self, bindings: *mut Bindings) {
        let begin = Instant::now();
        let is_simulated = self.flight.nic.interface.is_simulated();
        loop {
            let Transport { flight, sends, accesses, hosts, .. } = self;
            let (messages, refused) = sends.flows.unfinished(flight, bindings);
            let left = messages + accesses.unfinished(flight, bindings, hosts.is_some());
            let patience = match (refused, is_simulated) {
                (_, true) => FLUSH_SIMULATED,
                (true, false) => FLUSH_RETRIES,
                (false, false) => FLUSH,
            };
            if left == 0 || begin.elapsed() >= patience {
                if refused {
                    log::warn!("{left} messages were not sent: their targets have had no room for {patience:?}");
                }
                break;
            }
            self.progress();
            match is_simulated {
                true => self.flight.nic.interface.poll(),
                false => std::thread::sleep(PAUSE_FIRST),
            }
        }
        self.sends.flows.forget_endpoint(&mut self.flight, bindings);
    }

    // ---- completions and counters ----

    /// Ends an operation of the front door's own successfully.
    pub fn complete(&self, ticket: &Ticket, side: Side, completion: Completion, source: u64) {
        self.flight.nic.complete(ticket, side, completion, source);
    }

    /// Ends an operation of the front door's own with an error.
    pub fn fail(&self, ticket: &Ticket, side: Side, completion: Completion, fault: Fault) {
        self.flight.nic.fail(ticket, side, completion, 0, fault);
    }

    /// Successes and failures of a counter.
    pub fn counted(&self, reference: u32) -> (u64, u64) {
        self.flight.nic.counted(reference)
    }

    /// Sets a counter, and runs the triggered operations that this starts.
    pub fn set_count(&self, reference: u32, success: u64, failure: u64) {
        self.flight.nic.set_count(reference, success, failure);
    }

    // ---- registered memory ----

    /// A key that is not in use.
    pub fn new_key(&mut self) -> u64 {
        self.regions.new_key()
    }

    /// Claims a key. Returns false if it is in use.
    pub fn claim_key(&mut self, key: u64) -> bool {
        self.regions.claim_key(key)
    }

    /// Records a region that others cannot access yet. Returns its number.
    pub fn add_region(&mut self, start: u64, length: u64, access: u64, key: u64) -> usize {
        self.regions.add(start, length, access, key)
    }

    /// Lets others access a region.
    pub fn enable_region(&mut self, number: usize) -> Result<(), Full> {
        self.regions.enable(&self.flight.nic, self.units.as_deref_mut(), number)
    }

    /// Sets a region's counter for one of [`REMOTE_ACCESSES`](crate::regions::REMOTE_ACCESSES). False: it has one.
    pub fn set_region_counter(&mut self, number: usize, access: usize, counter: u32) -> bool {
        self.regions.set_counter(number, access, counter)
    }

    /// Links a region's entries again after its counters have changed.
    pub fn recount_region(&mut self, number: usize) -> Result<(), Full> {
        self.regions.recount(&self.flight.nic, self.units.as_deref_mut(), number)
    }

    /// Removes a region.
    pub fn remove_region(&mut self, number: usize) {
        self.regions.remove(&self.flight.nic, self.units.as_deref_mut(), number);
    }

    /// The counter of one of [`REMOTE_ACCESSES`](crate::regions::REMOTE_ACCESSES) for regions without their own counter, or NONE.
    pub fn remote_counter(&self, access: usize) -> u32 {
        self.regions.remote_counter(access)
    }

    /// Finds the counters of remote accesses again after an endpoint has changed its bindings. If one has changed, the
    /// entries of all regions are linked again.
    pub fn find_remote_counters(&mut self) -> Result<(), Full> {
        let Transport { flight, receives, regions, units, .. } = self;
        regions.find_remote_counters(&flight.nic, units.as_deref_mut(), &receives.endpoints)
    }

    /// Asks senders to run this NIC instead of using rings: counters or triggered operations depend on their messages.
    pub fn bypass_rings(&mut self) {
        self.flight.nic.interface.rings().set_bypass(true);
        self.withdraw_units();
        self.progress();
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if let Some(units) = &mut self.units {
            units.close(&self.flight.peers);
        }
        self.flight.nic.interface.shut();
        rendezvous_directory::release(self.claim.pid());
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
