// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A domain's NIC and everything in flight.
//!
//! ```text
//! send ─ small ──────> lane of the target ── owner's progress ──> receive found: copied out, completion
//!      └ large, or ──> target's NIC, run from here: receive found: bytes moved once, sender's completion;
//!        lane full       event for the owner ─ progress ──> completion
//!                      └ none found: its header waits; who posts the receive gets the payload from here
//! ```
//!
//! Portal table of the NIC: writes and atomics ([`PORTAL_WRITE`]), payload that waits for its receive
//! ([`PORTAL_TOKEN`]), reads ([`PORTAL_READ`]), atomics that fetch ([`PORTAL_FETCH`]), and three for each endpoint: tagged
//! messages, untagged ones, and word of writes.
//!
//! Invariants
//! 1. Between two endpoints messages are matched in the order in which they were sent, whichever way they go: what goes
//!    past a lane first takes in what lies there.
//! 2. What there is no room for is not taken: the sender keeps it (`-FI_EAGAIN`), or it stays in the lane.
//! 3. An operation that was accepted ends once: with a completion, an error, or (injected) silently.
//!
//! | file | what |
//! |---|---|
//! | [`peers`] | other processes' NICs: our lanes there, their names in address vectors |
//! | [`send`] | messages out |
//! | [`flow`] | messages that travel as packets, and those that found no room |
//! | [`receive`] | receives posted, met by unexpected messages, cancelled |
//! | [`claim`] | peeking, claiming and discarding |
//! | [`progress`] | what has come: lanes, events |
//! | [`answer`] | when to look for the answer to what was sent |
//! | [`ends`] | completions and counts of operations that are over |
//! | [`remote`] | reads, writes and atomics on registered memory |
//! | [`deferred`] | the same and more, started by the NIC when a counter reaches a threshold |
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
/// In the initiator of a request to a region: others of the same operation follow, and its target counts the last one only.
pub const FOLLOWED: u64 = 1;
/// Where registered memory can be reached.
pub const REGION_PORTALS: [u32; 3] = [PORTAL_WRITE, PORTAL_READ, PORTAL_FETCH];
const ENDPOINT_PORTALS: u32 = 4;
const KINDS: u32 = 4;
/// Endpoints of one domain.
pub const ENDPOINTS_MAX: usize = 60;
/// Receives posted and regions registered at once.
pub const ENTRIES: u32 = 32768;
/// Unexpected messages that wait at once.
const HEADERS: u32 = 32768;
/// Events that wait for the program: more, and senders wait.
const EVENTS: u32 = 4096;
/// Messages and operations whose end is awaited; more, and the program waits.
const OUTSTANDING: u32 = 2048;
/// The NIC's number among those of its process: apart from those of Portals programs.
const NI: u32 = 8;
/// The directory in which a user's processes meet.
const MEETING: &str = "fi";

/// The ids that domains of this process have.
static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Why a domain has no NIC.
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

/// Which of an endpoint's kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tagged = 0,
    Plain = 1,
    /// Word of a write, which takes no receive.
    Note = 2,
}

impl Kind {
    /// The flag of completions.
    pub const fn flag(self) -> u64 {
        match self {
            Kind::Tagged => TAGGED,
            Kind::Plain => MSG,
            Kind::Note => RMA,
        }
    }

    /// Where an endpoint's messages of this kind arrive.
    pub const fn portal(self, endpoint: u16) -> u32 {
        ENDPOINT_PORTALS + KINDS * endpoint as u32 + self as u32
    }
}

/// What is in flight. Its number is what events carry (`user_ptr`).
pub enum Operation {
    Receive(receive::Posted),
    /// A message whose payload waits here for its receive, or whose answer is awaited.
    Send(Box<send::Outgoing>),
    /// A message's payload is being fetched.
    Fetch(Box<receive::Fetch>),
    Remote(Box<remote::Pending>),
    /// A buffer for unexpected payload.
    Buffer(Box<pool::Buffer>),
    /// Started by the NIC.
    Deferred(Box<deferred::Deferred>),
}

/// The domain's NIC.
pub struct Core {
    pub interface: Arc<Interface>,
    claim: Claim,
    pub(crate) directory: JobDirectory,
    pub settings: Settings,
    lanes: Rings,
    /// Events of messages that come. It never overflows: senders wait instead.
    queue: u32,
    /// Events of our own operations: no more than there may be of those.
    own_queue: u32,
    operations: Slab<Operation>,
    peers: Vec<Peer>,
    peer_numbers: HashMap<(u64, u64), u32>,
    /// The first `fi_addr_t` of each source that address vectors know.
    sources: HashMap<u64, Vec<u64>>,
    pub endpoints: Vec<*mut Endpoint>,
    claimed: Vec<claim::Claimed>,
    keys: HashSet<u64>,
    /// Counters of others' writes and reads that endpoints have: of regions without their own.
    pub remote_counters: [u32; 2],
    pub regions: Vec<*mut Region>,
    key_next: u64,
    token_next: u32,
    /// Longest message that goes through a lane.
    pub lane_max: usize,
    /// Longest that does so even where its receive is found posted, its memory in place.
    small_max: usize,
    /// The shorter of both.
    long_max: usize,
    /// Longest that goes into one cell of it.
    cell_max: usize,
    idle: u32,
    looks_between_yields: u32,
    /// How often something has come. What is sent in between goes together.
    round: u32,
    /// Something was left in a lane since the last look.
    sent: bool,
    /// Nothing has come since that was looked for.
    awaits: bool,
    answers: answer::Answers,
    /// The last message that was taken filled the last receive posted there, and none has been posted since.
    all_filled: bool,
    filled: Vec<progress::Filled>,
    /// The next events of both queues.
    watches: [Watch; 2],
    /// The lane to ourselves, as a bit; 0: there is none.
    own_lane: u64,
    /// Word of writes that waits for room at their targets.
    notes: VecDeque<(remote::Note, Ticket)>,
    /// Sends whose end is awaited.
    outstanding: u32,
    works: deferred::Works,
    flows: flow::Flows,
    /// Time is virtual.
    is_simulated: bool,
    /// What is to be done when the turn is over.
    pub rest: Rest,
    /// Some operation could not be done from here.
    any_out_of_reach: bool,
}

/// Where this process meets others, and which of the ids there it would have. In virtual time only its job is there, and every run is
/// like the last.
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

/// Whose operation it is and what its completion says.
#[derive(Clone, Copy)]
pub struct Ticket {
    pub endpoint: *mut Endpoint,
    pub context: *mut c_void,
    /// Of the completion: FI_SEND | FI_TAGGED and the like.
    pub flags: u64,
    /// Whether a completion is wanted.
    pub wanted: bool,
}

/// What a thread does whose turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    None,
    /// In virtual time, always: wakes who sleeps until it has the turn.
    Wake,
    /// Gives its core to whoever wants it.
    Yield,
    /// Tells the simulator that it has looked.
    Poll,
    /// And that there was something.
    Found,
}

/// Which of an endpoint's queues and counters.
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
            mail: 256,
            heap_blocks: 16384,
            heap_blocks_max: 1 << 18,
        };
        let pid = claim.pid();
        let interface = Arc::new(Interface::open(config, NI, pid, 0, &limits, ArenaRange::default())?);
        let lanes = Rings::create(directory.path(), pid.into(), NI).map_err(|_| OpenError::Tables)?;
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

    /// An id that no domain of this process has: a process's claim to an id is one, however often it is made.
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

    /// What one of our endpoints calls itself in requests.
    pub fn source(&self, endpoint: u16) -> u64 {
        self.interface.id() << 8 | u64::from(endpoint)
    }

    // ---- endpoints ----

    /// A number for an endpoint, and its places for messages.
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

    /// Forgets an endpoint: its receives are gone without a word, its unexpected messages too.
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
        // What the NIC has said of these operations is heard before their numbers are given to others.
        self.take_events();
        self.close_works(endpoint);
        self.operations.retain(|_, operation| !belongs(operation));
        let sends = self.operations.iter().filter(|(_, operation)| matches!(operation, Operation::Send(_))).count();
        self.outstanding = sends as u32;
        self.claimed.retain(|claimed| claimed.endpoint != endpoint);
    }

    // ---- keys of regions ----

    /// A key that nothing has.
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

    /// Links an entry.
    pub fn append(&self, portal: u32, which: u8, spec: &EntrySpec) -> Option<u32> {
        self.interface.lock().with_revocation(|nic| nic.append(&mut NoMemory, portal, which, spec)).ok()
    }

    pub fn unlink(&self, entry: Option<u32>) {
        if let Some(entry) = entry {
            let _ = self.interface.lock().with_revocation(|nic| nic.unlink(entry));
        }
    }

    /// Asks senders to match their messages here themselves, for counters or triggered operations wait for them.
    pub fn wants_independence(&mut self) {
        self.lanes.set_bypass(true);
        self.progress();
    }
}

/// Up to here messages go through lanes (`selvedge bench mpi` shows where the curves cross).
const LANE_MAX_DEFAULT: usize = 16 << 10;
/// And up to here although a receive is posted whose memory is in place.
const SMALL_MAX_DEFAULT: usize = 2 << 10;

/// A length that the environment may set.
fn length(variable: &str, default: usize) -> usize {
    let parse = |text: String| selvedge_transport::settings::parse_bytes(&text).or((text == "0").then_some(0));
    std::env::var(variable).ok().and_then(parse).map_or(default, |bytes| bytes as usize)
}

impl Operation {
    /// Its entry at the NIC.
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
    /// Whose it is; a buffer is nobody's.
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

/// What takes word of writes: it stays, and its events have the word.
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
