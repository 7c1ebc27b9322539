// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain's NIC and everything in flight.
//!
//! ```text
//! send ─ small ──────> ring of the target ── target polls ──> receive found: payload copied, completion
//!      └ large, or ──> sender runs the target's NIC: receive found: payload copied once, sender's completion;
//!        ring full       event for the target ── target polls ──> completion
//!                      └ none found: unexpected header at the target; its later receive fetches the payload from here
//! ```
//!
//! The NIC's portal table has one entry each for writes and atomics ([`PORTAL_WRITE`]), for payload that waits for its
//! receive ([`PORTAL_TOKEN`]), for reads ([`PORTAL_READ`]) and for fetching atomics ([`PORTAL_FETCH`]). Each endpoint
//! adds three: tagged messages, untagged messages, and the notifications of writes with data.
//!
//! The domain's lock guards all of this ([`crate::domain`]).
//!
//! Invariants
//! 1. Messages between two endpoints are matched in the order in which they were sent, on every path. A delivery that
//!    bypasses a ring first takes the messages in that ring.
//! 2. A message for which there is no room is refused. The sender keeps it (`-FI_EAGAIN`), or it stays in the ring.
//! 3. An accepted operation ends exactly once: with a completion, with an error, or silently if it was injected.
//!
//! | file | what |
//! |---|---|
//! | [`peers`] | other processes' NICs: our rings there, their names in address vectors |
//! | [`send`] | sending messages |
//! | [`flow`] | messages that travel as packets, and messages that their target refused |
//! | [`receive`] | posting receives, matching them with unexpected messages, cancelling them |
//! | [`claim`] | peeking, claiming and discarding |
//! | [`progress`] | polling: rings and event queues |
//! | [`answer`] | when to poll for the reply to a message |
//! | [`ends`] | completions and counter updates of finished operations |
//! | [`remote`] | reads, writes and atomics on registered memory |
//! | [`deferred`] | the same operations, started by the NIC when a counter reaches a threshold |
//! | [`pool`] | buffers for unexpected payload |
//! | [`pieces`] | memory in several pieces |

mod answer;
pub mod claim;
pub mod deferred;
mod ends;
pub mod flow;
mod peers;
mod pieces;
pub mod pool;
pub mod progress;
pub mod receive;
pub mod remote;
pub mod send;

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use selvedge_job::{Claim, JobDirectory};
use selvedge_nic::handle::NONE;
use selvedge_nic::layout::SHORT_LIST_MAX;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_nic::{Limits, NoMemory};
use selvedge_shm::interface::{ArenaRange, Watch};
use selvedge_shm::rings::{self, Rings};
use selvedge_shm::{Config, Interface, Path};
use selvedge_transport::settings::Settings;
use slab::Slab;

pub use peers::Peer;
pub use pieces::{gather, scatter, total};

use crate::address::Address;
use crate::constants::*;
use crate::endpoint::Endpoint;
use crate::region::Region;

pub const PORTAL_WRITE: u32 = 0;
pub const PORTAL_TOKEN: u32 = 1;
pub const PORTAL_READ: u32 = 2;
pub const PORTAL_FETCH: u32 = 3;
/// Flag in the initiator field of a request to a region: more requests of the same operation follow. The target counts
/// only the last one.
pub const FOLLOWED: u64 = 1;
/// The portal table entries through which registered memory is reached.
pub const REGION_PORTALS: [u32; 3] = [PORTAL_WRITE, PORTAL_READ, PORTAL_FETCH];
const ENDPOINT_PORTALS: u32 = 4;
const KINDS: u32 = 4;
/// Most endpoints of one domain.
pub const ENDPOINTS_MAX: usize = 60;
/// Most posted receives and registered regions at once.
pub const ENTRIES: u32 = 32768;
/// Most unexpected messages at once.
const HEADERS: u32 = 32768;
/// Most events that may wait for the program. When the queue is full, senders wait.
const EVENTS: u32 = 4096;
/// Most messages and operations in flight. When there are more, the program gets `-FI_EAGAIN`.
const OUTSTANDING: u32 = 2048;
/// The NIC's number among the NICs of its process. Portals programs use other numbers.
const NI: u32 = 8;
/// The name of the directory in which the processes of one user find each other.
const MEETING: &str = "fi";

/// The ids of this process's domains.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// The reason why a domain could not open its NIC.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Directory(#[from] selvedge_job::DirectoryError),
    #[error(transparent)]
    Claim(#[from] selvedge_job::ClaimError),
    #[error(transparent)]
    Nic(#[from] selvedge_shm::OpenError),
    #[error("SELVEDGE_PATH=shared: MPI's buffers are ordinary memory, which only auto, cma and bounce reach")]
    Path,
    #[error("the NIC's tables are too small for what the provider needs of them")]
    Tables,
}

/// The kinds of messages of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tagged = 0,
    Plain = 1,
    /// The notification of a write. It takes no receive.
    Note = 2,
}

impl Kind {
    /// The flag of this kind in completions.
    pub const fn flag(self) -> u64 {
        match self {
            Kind::Tagged => TAGGED,
            Kind::Plain => MSG,
            Kind::Note => RMA,
        }
    }

    /// The portal table entry that takes an endpoint's messages of this kind.
    pub const fn portal(self, endpoint: u16) -> u32 {
        ENDPOINT_PORTALS + KINDS * endpoint as u32 + self as u32
    }
}

/// An operation in flight. Events carry its number (`user_ptr`).
pub enum Operation {
    Receive(receive::Posted),
    /// A message whose payload waits here for its receive, or whose reply is still to come.
    Send(Box<send::Outgoing>),
    /// The payload of a message is being fetched.
    Fetch(Box<receive::Fetch>),
    Remote(Box<remote::Pending>),
    /// A buffer for unexpected payload.
    Buffer(Box<pool::Buffer>),
    /// An operation that the NIC starts.
    Deferred(Box<deferred::Deferred>),
}

/// The domain's NIC.
pub struct Core {
    pub interface: Arc<Interface>,
    claim: Claim,
    pub(crate) directory: JobDirectory,
    pub settings: Settings,
    lanes: Rings,
    /// Event queue for incoming messages. It never overflows: senders wait instead.
    queue: u32,
    /// Event queue for our own operations. Its size bounds how many there may be.
    own_queue: u32,
    operations: Slab<Operation>,
    peers: Vec<Peer>,
    peer_numbers: HashMap<(u64, u64), u32>,
    /// The `fi_addr_t`s of each source in the address vectors, the first one first.
    sources: HashMap<u64, Vec<u64>>,
    pub endpoints: Vec<*mut Endpoint>,
    claimed: Vec<claim::Claimed>,
    keys: HashSet<u64>,
    /// The counters for writes and reads by others that endpoints are bound to. Regions without their own counter use
    /// them.
    pub remote_counters: [u32; 2],
    pub regions: Vec<*mut Region>,
    key_next: u64,
    token_next: u32,
    /// Longest message that goes through a ring.
    pub lane_max: usize,
    /// Longest message that goes through a ring although a receive may be posted in directly mapped memory.
    small_max: usize,
    /// The smaller of both.
    long_max: usize,
    /// Longest message that fits into one slot of a ring.
    cell_max: usize,
    idle: u32,
    looks_between_yields: u32,
    /// Counts the polls that found something. Messages sent within one round are handed over together.
    round: u32,
    /// A message was enqueued in a ring since the last poll.
    sent: bool,
    /// The program has polled since it last sent something, and no message has come since.
    awaits: bool,
    answers: answer::Answers,
    /// The last message filled the last posted receive of its portal table entry, and no receive was posted since.
    all_filled: bool,
    filled: Vec<progress::Filled>,
    /// Watches for the next event of both queues.
    watches: [Watch; 2],
    /// The bit of the ring from this process to itself; 0 without one.
    own_lane: u64,
    /// Notifications of writes that wait for room at their targets.
    notes: VecDeque<(remote::Note, Ticket)>,
    /// Sends that have not ended yet.
    outstanding: u32,
    works: deferred::Works,
    flows: flow::Flows,
    /// Whether the job runs in virtual time.
    is_simulated: bool,
    /// What the thread does after it has released the lock.
    pub rest: Rest,
    /// Some operation could not be done from this process, because memory was out of reach.
    any_out_of_reach: bool,
}

/// The directory in which this process finds others, and the id that it prefers there. In virtual time the directory
/// belongs to one job, and the id follows from the rank, so that every run is the same.
fn meeting() -> Result<(JobDirectory, u16), OpenError> {
    if selvedge_shm::simulated::is_simulated() {
        let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u16>().ok());
        if let (Ok(job), Some(rank)) = (std::env::var("SELVEDGE_JOB"), number("SELVEDGE_RANK")) {
            return Ok((JobDirectory::open(&job)?, rank % selvedge_job::PORTALS_PID_MAX));
        }
    }
    let directory = JobDirectory::create(MEETING)?;
    selvedge_job::clear_dead_ids(&directory);
    Ok((directory, (std::process::id() % u32::from(selvedge_job::PORTALS_PID_MAX)) as u16))
}

/// The endpoint of an operation and what its completion reports.
#[derive(Clone, Copy)]
pub struct Ticket {
    pub endpoint: *mut Endpoint,
    pub context: *mut c_void,
    /// The flags of the completion, for example FI_SEND | FI_TAGGED.
    pub flags: u64,
    /// Whether the program wants a completion.
    pub wanted: bool,
}

/// What a thread does after it has released the domain's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    None,
    /// Always in virtual time: wakes the threads that sleep until they get the lock.
    Wake,
    /// Yields the core to another thread or process.
    Yield,
    /// Reports to the simulator a poll that found nothing.
    Poll,
    /// Reports to the simulator a poll that found something.
    Found,
}

/// Selects the transmit or the receive queue and counters of an endpoint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Transmit,
    Receive,
}

impl Core {
    /// Opens a NIC.
    pub fn open() -> Result<Core, OpenError> {
        let settings = Settings::from_environment();
        if settings.path == Path::Shared {
            return Err(OpenError::Path);
        }
        let (directory, preferred) = meeting()?;
        let claim = Core::claim(&directory, preferred)?;
        let config = Config {
            mode: settings.mode,
            path: settings.path,
            spin_ns: 0,
            nap_ns: 1_000_000,
            directory: directory.path().to_path_buf(),
        };
        let limits = Limits {
            entries: ENTRIES,
            headers: HEADERS,
            descriptors: 512,
            counters: 1024,
            queues: 4,
            portals: ENDPOINT_PORTALS + KINDS * ENDPOINTS_MAX as u32,
            triggered: 2048,
            iovecs: 16,
            list: ENTRIES,
            short_list: SHORT_LIST_MAX,
            pending: 1024,
            heap_blocks: 16384,
            heap_blocks_max: 1 << 18,
        };
        let pid = claim.pid();
        let interface = Interface::open(config, NI, pid, 0, &limits, ArenaRange::default())?;
        let lanes = Rings::open(directory.path(), pid.into(), NI, interface.word()).ok_or(OpenError::Tables)?;
        let (queue, own_queue) = {
            let mut nic = interface.lock();
            let queue = nic.queue_alloc(EVENTS).map_err(|_| OpenError::Tables)?;
            let own_queue = nic.queue_alloc(2 * OUTSTANDING + deferred::EVENTS_MAX).map_err(|_| OpenError::Tables)?;
            for portal in [PORTAL_WRITE, PORTAL_TOKEN, PORTAL_READ, PORTAL_FETCH] {
                nic.portal_alloc(Some(portal), 0, own_queue).map_err(|_| OpenError::Tables)?;
            }
            (queue, own_queue)
        };
        let watches = [interface.watch(queue), interface.watch(own_queue)];
        let [Some(first), Some(second)] = watches else { return Err(OpenError::Tables) };
        let watches = [first, second];
        let is_simulated = interface.is_simulated();
        let lane_max = length("SELVEDGE_FI_LANE_MAX", LANE_MAX_DEFAULT).min(rings::MESSAGE_BYTES_MAX);
        let small_max = length("SELVEDGE_FI_SMALL_MAX", SMALL_MAX_DEFAULT);
        Ok(Core {
            interface,
            claim,
            directory,
            settings,
            lanes,
            queue,
            own_queue,
            filled: Vec::with_capacity(64),
            watches,
            own_lane: 0,
            notes: VecDeque::new(),
            outstanding: 0,
            works: deferred::Works::default(),
            flows: flow::Flows::default(),
            is_simulated,
            rest: if is_simulated { Rest::Wake } else { Rest::None },
            any_out_of_reach: false,
            operations: Slab::with_capacity(1024),
            peers: Vec::new(),
            peer_numbers: HashMap::new(),
            sources: HashMap::new(),
            endpoints: vec![std::ptr::null_mut(); ENDPOINTS_MAX],
            claimed: Vec::new(),
            keys: HashSet::new(),
            remote_counters: [NONE; 2],
            regions: Vec::new(),
            key_next: u64::from(pid) << 32 | 1,
            token_next: 1,
            lane_max,
            small_max,
            long_max: small_max.min(lane_max),
            cell_max: lane_max.min(rings::INLINE_BYTES),
            idle: 0,
            looks_between_yields: progress::LOOKS_BETWEEN_YIELDS,
            round: 0,
            sent: false,
            awaits: false,
            answers: answer::Answers::default(),
            all_filled: false,
        })
    }

    /// Claims an id that no domain of this process has. The directory cannot tell two claims of one process apart, so
    /// `TAKEN` does.
    fn claim(directory: &JobDirectory, preferred: u16) -> Result<Claim, selvedge_job::ClaimError> {
        let ids = selvedge_job::PORTALS_PID_MAX + 1;
        let mut taken = TAKEN.lock().unwrap_or_else(|poison| poison.into_inner());
        for step in 0..ids {
            let pid = (preferred + step) % ids;
            if taken.contains(&pid) {
                continue;
            }
            match directory.claim(Some(pid), pid) {
                Ok(claim) => {
                    taken.insert(pid);
                    return Ok(claim);
                }
                Err(selvedge_job::ClaimError::InUse { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(selvedge_job::ClaimError::Exhausted)
    }

    /// The address of one of this domain's endpoints.
    pub fn address(&self, endpoint: u16) -> Address {
        Address::new(self.interface.id() as u16, endpoint, self.interface.word())
    }

    /// The source number that one of our endpoints puts into its requests.
    pub fn source(&self, endpoint: u16) -> u64 {
        self.interface.id() << 8 | u64::from(endpoint)
    }

    // ---- endpoints ----

    /// Assigns a number to an endpoint and allocates its portal table entries.
    pub fn open_endpoint(&mut self, endpoint: *mut Endpoint) -> Option<u16> {
        let index = self.endpoints.iter().position(|other| other.is_null())? as u16;
        {
            let mut nic = self.interface.lock();
            for kind in [Kind::Tagged, Kind::Plain, Kind::Note] {
                nic.portal_alloc(Some(kind.portal(index)), options::PT_FLOWCTRL, self.queue).ok()?;
            }
            nic.append(&mut NoMemory, Kind::Note.portal(index), list::PRIORITY, &note_entry()).ok()?;
        }
        self.endpoints[usize::from(index)] = endpoint;
        for kind in [Kind::Tagged, Kind::Plain] {
            self.fill_pool(kind.portal(index));
        }
        Some(index)
    }

    /// Removes an endpoint. Its receives and unexpected messages are dropped without a completion.
    pub fn close_endpoint(&mut self, index: u16) {
        self.close_flows(self.endpoints[usize::from(index)]);
        let endpoint = std::mem::replace(&mut self.endpoints[usize::from(index)], std::ptr::null_mut());
        let portals = [Kind::Tagged.portal(index), Kind::Plain.portal(index), Kind::Note.portal(index)];
        let belongs = |operation: &Operation| match operation {
            Operation::Buffer(buffer) => portals.contains(&buffer.portal),
            other => other.ticket().is_some_and(|ticket| ticket.endpoint == endpoint),
        };
        {
            let mut nic = self.interface.lock();
            for claimed in self.claimed.iter().filter(|claimed| claimed.endpoint == endpoint) {
                nic.drop_unexpected(claimed.header);
            }
            for portal in portals {
                nic.clear_unexpected(portal);
                let _ = nic.with_revocation(|nic| nic.clear_priority(portal));
            }
            for (_, operation) in self.operations.iter().filter(|(_, operation)| belongs(operation)) {
                if let Some(entry) = operation.entry() {
                    let _ = nic.with_revocation(|nic| nic.unlink(entry));
                }
            }
            for portal in portals {
                let _ = nic.portal_free(portal);
            }
        }
        // Reads the events of these operations before their numbers are used again.
        self.take_events();
        self.close_works(endpoint);
        self.operations.retain(|_, operation| !belongs(operation));
        let sends = self.operations.iter().filter(|(_, operation)| matches!(operation, Operation::Send(_))).count();
        self.outstanding = sends as u32;
        self.claimed.retain(|claimed| claimed.endpoint != endpoint);
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

    pub fn release_key(&mut self, key: u64) {
        self.keys.remove(&key);
    }

    /// Links a match entry.
    pub fn append(&self, portal: u32, which: u8, spec: &EntrySpec) -> Option<u32> {
        self.interface.lock().with_revocation(|nic| nic.append(&mut NoMemory, portal, which, spec)).ok()
    }

    pub fn unlink(&self, entry: Option<u32>) {
        if let Some(entry) = entry {
            let _ = self.interface.lock().with_revocation(|nic| nic.unlink(entry));
        }
    }

    /// Asks senders to run this NIC themselves instead of using rings, because counters or triggered operations depend
    /// on their messages.
    pub fn wants_independence(&mut self) {
        self.lanes.set_bypass(true);
        self.progress();
    }
}

/// Default for the longest message that goes through a ring (`selvedge bench mpi` shows where the curves cross).
const LANE_MAX_DEFAULT: usize = 16 << 10;
/// Default for the longest message that goes through a ring although a receive may be posted in directly mapped memory.
const SMALL_MAX_DEFAULT: usize = 2 << 10;

/// A length in bytes, which an environment variable may override.
fn length(variable: &str, default: usize) -> usize {
    let parse = |text: String| selvedge_transport::settings::parse_bytes(&text).or((text == "0").then_some(0));
    std::env::var(variable).ok().and_then(parse).map_or(default, |bytes| bytes as usize)
}

impl Operation {
    /// Its match entry at the NIC.
    fn entry(&self) -> Option<u32> {
        match self {
            Operation::Receive(posted) => Some(posted.entry),
            Operation::Send(outgoing) => outgoing.entry,
            Operation::Buffer(buffer) => buffer.entry,
            Operation::Deferred(work) => work.entry,
            Operation::Fetch(_) | Operation::Remote(_) => None,
        }
    }
}

impl Operation {
    /// The ticket of the operation; a buffer has none.
    fn ticket(&self) -> Option<&Ticket> {
        match self {
            Operation::Receive(posted) => Some(&posted.ticket),
            Operation::Send(outgoing) => Some(&outgoing.ticket),
            Operation::Fetch(fetch) => Some(&fetch.ticket),
            Operation::Remote(pending) => Some(&pending.ticket),
            Operation::Deferred(work) => Some(&work.ticket),
            Operation::Buffer(_) => None,
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.interface.shut();
        TAKEN.lock().unwrap_or_else(|poison| poison.into_inner()).remove(&self.claim.pid());
        self.directory.leave(true);
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
