// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC in virtual time: an unmodified program, whose messages a simulator carries.
//!
//! The rank's half reads an operation with its payload and hands it to the simulator. It hands over every wait as well.
//! Operations on the rank's own tables run here, and the rank pays for each call in virtual time. Nothing is written
//! directly into a peer's memory.
//!
//! The simulator's half is [`Visited`]: it works on a rank's NIC and memory from outside, while the rank does not have
//! the turn.
//!
//! Invariants
//! 1. The rank never gives up the turn while it holds its NIC's lock.
//! 2. Every value in a rank's segment and commands is checked against limits before it is used.

use std::path::{Path as FilePath, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use selvedge_nic::portals::{Request, Verdict};
use selvedge_nic::registers::Registers;
use selvedge_nic::ring::Unseen;
use selvedge_nic::tables::{Command, Side};
use selvedge_nic::{Asker, Fault, Limits, Metered, Nic, Step};
use selvedge_sim_protocol::{PAYLOAD_BYTES_MAX, Published, RankEnd};

use crate::backend::{Backend, Offers, WhenFull};
use crate::config::{Config, Mode, Path};
use crate::direct::take_in_of;
use crate::endpoint::{Access, Endpoint};
use crate::errors::{OpenError, StartError, WaitEnd};
use crate::interface::Interface;
use crate::memory::{LiveBus, Payload, Reply, gather, scatter, side_is_usable};
use crate::rings::Rings;
use crate::segment::{Segment, SegmentError};
use crate::wait_list::ABORTED;
use selvedge_os::process::Identity;

/// Bytes of a command on its way to the simulator.
const COMMAND_BYTES: usize = size_of::<Command>();
const _: () = assert!(COMMAND_BYTES == 168 && COMMAND_BYTES <= selvedge_sim_protocol::page::COMMAND_BYTES);

// ---- the rank's half ----

/// Whether time is virtual for this process.
pub fn is_simulated() -> bool {
    RankEnd::of_process().is_some()
}

/// Whether the simulated machine has VELO and RMA units.
pub fn has_units() -> bool {
    RankEnd::of_process().is_some_and(RankEnd::has_units)
}

/// The backend in virtual time.
pub struct Simulated {
    /// This process's end of the protocol with the simulator.
    rank: &'static RankEnd,
}

impl Simulated {
    pub(crate) fn new(rank: &'static RankEnd) -> Simulated {
        Simulated { rank }
    }

    /// Reads an operation's payload and hands both to the simulator.
    fn hand_over(
        &self,
        interface: &Interface,
        command: &Command,
        start: impl Fn(&RankEnd, u32, u64, &[u8], &[u8]) -> bool,
    ) -> Result<(), StartError> {
        let (own, length, path) = (&interface.own, command.length, interface.config.path);
        let payload = match command.has_payload() {
            true => gather(own, &command.source, length, path).map_err(|_| StartError::Memory)?,
            false => Vec::new(),
        };
        if command.has_reply() && !side_is_usable(own, &command.sink, length, Access::Write, path) {
            return Err(StartError::Memory);
        }
        // SAFETY: `Command` is a structure of integers without padding (its size is asserted to be the sum of their
        // sizes).
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(command).cast::<u8>(), COMMAND_BYTES) };
        match start(self.rank, interface.ni(), interface.id(), bytes, &payload) {
            true => Ok(()),
            false => Err(StartError::NoSpace),
        }
    }

    /// Returns the backend of this process, if it is a simulated rank.
    pub fn of_process() -> Option<Simulated> {
        RankEnd::of_process().map(Simulated::new)
    }
}

impl Backend for Simulated {
    /// The machine's settings replace the user's.
    fn configure(&self, config: Config) -> Config {
        Config { mode: Mode::Nic, path: Path::Auto, ..config }
    }

    /// The NIC matches by index, as its machine does, and never compares a list entry by entry. The machine sets its
    /// TLB and the number of lock requests that it keeps.
    fn size(&self, limits: &Limits) -> Limits {
        let limits = Limits { short_list: 1, ..*limits };
        if limits.vpids == 0 {
            return limits;
        }
        let (tlb_entries, tlb_ways) = self.rank.tlb();
        Limits { tlb_entries, tlb_ways, lock_waiters: self.rank.lock_waiters(), ..limits }.clamped()
    }

    /// The simulator executes all commands. It reaches a rank's memory by cross-memory attach.
    fn offers(&self, _: &Config) -> Offers {
        Offers {
            executes_here: false,
            polls_here: false,
            runs_peers: false,
            maps_peers: false,
            admits_attach: true,
            publishes_here: false,
            charges_calls: true,
            is_simulated: true,
            reaches_hosts: false,
            mailboxes_refuse: self.rank.mailboxes_refuse(),
        }
    }

    /// Gives the simulator the NIC's path.
    fn announce(&self, interface: &Interface) -> Result<(), OpenError> {
        let path = interface.path.as_os_str().as_encoded_bytes();
        if self.rank.announce(interface.ni(), interface.id(), path) {
            return Ok(());
        }
        let path = interface.path.display().to_string();
        let error = std::io::Error::other("a simulated rank has too many NICs, or too long a path to them");
        Err(OpenError::NoSpace(SegmentError::Rename { path, error }))
    }

    fn withdraw(&self, interface: &Interface) {
        self.rank.withdraw(interface.ni(), interface.id());
    }

    /// Hands the operation to the simulator, which has room for it. A host interface may refuse it: its library
    /// retries, unless its caller wants to see the refusal.
    fn start(&self, interface: &Interface, command: &Command, _: u32, full: WhenFull) -> Result<(), StartError> {
        self.hand_over(
            interface,
            command,
            if full == WhenFull::Refuse { RankEnd::start_or_refuse } else { RankEnd::start },
        )
    }

    /// Hands operation and wait to the simulator in one turn instead of two.
    fn start_awaited(&self, interface: &Interface, command: &Command) -> Result<(), StartError> {
        self.hand_over(interface, command, RankEnd::start_and_wait)
    }

    /// The simulator executes fired operations while it has the turn.
    fn settle(&self, _: &Interface) {
        self.rank.yield_turn();
    }

    /// Whether ranks of one node share memory, as the machine's file says.
    fn reaches_rings(&self, interface: &Interface, id: u64) -> bool {
        self.rank.shares_memory(interface.ni(), id)
    }

    /// The simulator makes the message visible when the copy is over.
    fn publish(&self, interface: &Interface, target: u64, ring: usize, message: Unseen, bytes: usize) {
        let Unseen { number, header } = message;
        let message = Published { ring: ring as u32, number, header, bytes: bytes as u64 };
        self.rank.publish(interface.ni(), target, &message);
    }

    fn charge_call(&self) {
        self.rank.charge_call();
    }

    fn charge_accesses(&self, count: u64) {
        self.rank.charge_accesses(count);
    }

    fn charge_copy(&self, bytes: u64) {
        self.rank.charge_copy(bytes);
    }

    fn poll(&self, _: &Interface) {
        self.rank.polled();
    }

    /// Time may advance until there is more to see.
    fn found_nothing(&self) {
        self.rank.found_nothing();
    }

    fn found_something(&self) {
        self.rank.found_something();
    }

    /// The simulator fails the requests to ranks that have died.
    fn tick(&self, _: &Interface) {}

    /// Every wait hands the turn over.
    fn wait(
        &self,
        interface: &Interface,
        deadline: Option<Instant>,
        look: &mut dyn FnMut() -> bool,
    ) -> Result<(), WaitEnd> {
        loop {
            let changes = self.rank.changes();
            self.rank.charge_poll();
            if look() {
                return Ok(());
            }
            if ABORTED.load(Relaxed) {
                return Err(WaitEnd::Aborted);
            }
            if interface.closing.load(Relaxed) {
                return Err(WaitEnd::Closed);
            }
            // This clock is virtual too: a preloaded library answers for the system's clock.
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match left {
                Some(left) if left.is_zero() => return Err(WaitEnd::TimedOut),
                Some(left) => {
                    let left_ps = u64::try_from(left.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX);
                    self.rank.wait(self.rank.now_ps().saturating_add(left_ps), changes);
                }
                None => self.rank.wait(u64::MAX, changes),
            }
        }
    }

    fn wake_threads(&self, _: &Interface) {
        self.rank.wake_threads();
    }
}

// ---- the simulator's half ----

/// Decodes the command that a rank handed over. Any bytes are a valid command; check its values where they are used.
pub fn command_from(bytes: &[u8]) -> Option<Command> {
    let bytes = bytes.get(..COMMAND_BYTES)?;
    // SAFETY: the length was checked, and `Command` is a structure of integers, for which any bytes are valid.
    Some(unsafe { bytes.as_ptr().cast::<Command>().read_unaligned() })
}

/// A rank's NIC, for the simulator.
pub struct Visited {
    endpoint: Endpoint,
    own: u64,
    directory: PathBuf,
    /// The NIC's rings, mapped when the first message is published there.
    rings: OnceLock<Option<Rings>>,
}

impl Visited {
    /// Attaches the NIC in this file.
    pub fn open(path: &FilePath) -> Result<Visited, SegmentError> {
        let segment = Segment::open(path)?;
        let directory = path.parent().unwrap_or(FilePath::new("."));
        let endpoint = Endpoint::new(segment, false, directory);
        let directory = directory.to_path_buf();
        Ok(Visited { endpoint, own: Identity::own().to_word(), directory, rings: OnceLock::new() })
    }

    /// Returns nid << 32 | pid.
    pub fn id(&self) -> u64 {
        self.endpoint.id
    }

    /// Returns the number of this NIC among the NICs of its process.
    pub fn number(&self) -> u32 {
        self.endpoint.segment.header().ni
    }

    /// Returns the owner's process id at the operating system.
    pub fn owner_pid(&self) -> u32 {
        self.endpoint.segment.header().owner_pid
    }

    /// Whether the owner still uses it.
    pub fn is_ready(&self) -> bool {
        self.endpoint.is_ready()
    }

    /// Makes a message visible in a ring that the NIC `sender` has claimed here. False if it has not.
    pub fn publish(&self, sender: u64, message: &Published) -> bool {
        let open = || Rings::open(&self.directory, self.id(), self.number(), self.endpoint.owner());
        let open = || open().unwrap_or_else(|shortage| shortage.end_process());
        let Some(rings) = self.rings.get_or_init(open) else { return false };
        let Published { ring, number, header, .. } = *message;
        rings.show(ring as usize, sender, Unseen { number, header })
    }

    /// Delivers the messages in the rings that these NICs of one sender have claimed here, before the sender's next
    /// message bypasses them. Each step goes to `meter`. Messages for which there is no room stay.
    pub fn take_in(&self, senders: &[u64], mut meter: &mut dyn FnMut(Step)) {
        let Some(Some(rings)) = self.rings.get() else { return };
        let mut guard = self.endpoint.segment.lock(self.own);
        take_in_of(senders, &mut guard, &self.endpoint, rings, Path::Auto, &mut meter);
    }

    /// Returns the values of its registers, whether or not its owner still uses it.
    pub fn registers(&self) -> &Registers {
        self.endpoint.segment.signals().registers
    }

    /// Works on the NIC, under its lock.
    pub fn with(&self, work: &mut dyn FnMut(&mut Nic<'_>)) {
        self.endpoint.segment.look_at_heap();
        let mut guard = self.endpoint.segment.lock(self.own);
        work(&mut guard);
    }

    /// Delivers a request with its payload. A unit that keeps it returns `token` with the answer. Fetched data go to
    /// `reply`, each step to `meter`.
    pub fn deliver(
        &self,
        request: &Request,
        payload: &[u8],
        token: u64,
        reply: &mut Vec<u8>,
        meter: &mut dyn FnMut(Step),
    ) -> Verdict {
        if request.length > PAYLOAD_BYTES_MAX {
            return Verdict::Initiator(Fault::Initiator);
        }
        let bus = LiveBus {
            target: &self.endpoint,
            payload: Payload::Bytes(payload.as_ptr(), payload.len() as u64),
            reply: Reply::Bytes(reply),
            path: Path::Auto,
            asker: Some(Asker { token, ..Asker::default() }),
        };
        self.endpoint.segment.lock(self.own).deliver(&mut Metered { bus, meter }, request)
    }

    /// Reads the memory of a descriptor.
    pub fn gather(&self, side: &Side, bytes: u64, into: &mut Vec<u8>) -> Result<(), Fault> {
        if bytes > PAYLOAD_BYTES_MAX {
            return Err(Fault::Initiator);
        }
        into.extend_from_slice(&gather(&self.endpoint, side, bytes, Path::Auto)?);
        Ok(())
    }

    /// Writes the memory of a descriptor.
    pub fn scatter(&self, side: &Side, from: &[u8]) -> Result<(), Fault> {
        scatter(&self.endpoint, side, from.as_ptr(), from.len() as u64, Path::Auto)
    }
}
