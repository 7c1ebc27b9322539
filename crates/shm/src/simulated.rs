// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The NIC where time is virtual: an unmodified program, whose messages a simulator carries.
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

use std::path::Path as FilePath;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use selvedge_nic::portals::{Request, Verdict};
use selvedge_nic::tables::{Command, Side, kind};
use selvedge_nic::{Fault, Limits, Metered, Nic, Step};
use selvedge_sim_protocol::{PAYLOAD_BYTES_MAX, RankEnd};

use crate::endpoint::{Access, Endpoint};
use crate::engine::StartError;
use crate::interface::{Interface, OpenError};
use crate::memory::{LiveBus, Payload, Reply, gather, scatter, side_is_usable};
use crate::os::process::Identity;
use crate::segment::{Segment, SegmentError};
use crate::wait::{ABORTED, WaitEnd};
use crate::{Config, Mode, Path};

/// Bytes of a command, as it travels to the simulator.
const COMMAND_BYTES: usize = size_of::<Command>();
const _: () = assert!(COMMAND_BYTES == 168 && COMMAND_BYTES <= selvedge_sim_protocol::page::COMMAND_BYTES);

/// The configuration of a NIC. In a simulation the machine decides how NICs run, and the user's settings do not count.
pub(crate) fn configured(config: Config, simulated: bool) -> Config {
    if simulated { Config { mode: Mode::Nic, path: Path::Auto, ..config } } else { config }
}

/// The limits of a NIC. A simulated NIC matches by index, as its machine does; it compares no list entry by entry.
pub(crate) fn sized(limits: &Limits, simulated: bool) -> Limits {
    if simulated { Limits { short_list: 1, ..*limits } } else { *limits }
}

// ---- the rank's half ----

/// Whether time is virtual for this process.
pub fn is_simulated() -> bool {
    RankEnd::of_process().is_some()
}

impl Interface {
    /// Whether time is virtual.
    #[inline(always)]
    pub fn is_simulated(&self) -> bool {
        self.clock.is_some()
    }

    /// Reports a poll that found nothing. Time may advance until there is more to see.
    #[inline]
    pub fn found_nothing(&self) {
        if let Some(clock) = self.clock {
            clock.found_nothing();
        }
    }

    /// Reports a poll that found something.
    #[inline]
    pub fn found_something(&self) {
        if let Some(clock) = self.clock {
            clock.found_something();
        }
    }

    /// Reports to the simulator where this NIC is.
    pub(crate) fn announce(&self) -> Result<(), OpenError> {
        let Some(clock) = self.clock else { return Ok(()) };
        if clock.announce(self.ni(), self.id(), self.path.as_os_str().as_encoded_bytes()) {
            return Ok(());
        }
        let path = self.path.display().to_string();
        let error = std::io::Error::other("a simulated rank has too many NICs, or too long a path to them");
        Err(OpenError::NoSpace(SegmentError::Rename { path, error }))
    }

    pub(crate) fn withdraw(&self) {
        if let Some(clock) = self.clock {
            clock.withdraw(self.ni(), self.id());
        }
    }

    /// Hands an operation to the simulator.
    #[cold]
    pub(crate) fn start_simulated(&self, clock: &RankEnd, command: &Command) -> Result<(), StartError> {
        let (length, path) = (command.length, self.config.path);
        let payload = match command.kind {
            kind::GET => Vec::new(),
            _ => gather(&self.own, &command.source, length, path).map_err(|_| StartError::Memory)?,
        };
        let replies = !matches!(command.kind, kind::PUT | kind::ATOMIC);
        if replies && !side_is_usable(&self.own, &command.sink, length, Access::Write, path) {
            return Err(StartError::Memory);
        }
        // SAFETY: `Command` is a structure of integers without padding (its size is asserted to be the sum of their
        // sizes).
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(command).cast::<u8>(), COMMAND_BYTES) };
        if clock.start(self.ni(), self.id(), bytes, &payload) { Ok(()) } else { Err(StartError::NoSpace) }
    }

    #[cold]
    pub(crate) fn wait_simulated(
        &self,
        clock: &RankEnd,
        deadline: Option<Instant>,
        look: &mut dyn FnMut() -> bool,
    ) -> Result<(), WaitEnd> {
        loop {
            let changes = clock.changes();
            clock.charge_look();
            if look() {
                return Ok(());
            }
            if ABORTED.load(Relaxed) {
                return Err(WaitEnd::Aborted);
            }
            if self.closing.load(Relaxed) {
                return Err(WaitEnd::Closed);
            }
            // This clock is virtual, too: a library of ours answers for the system's clock.
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            match left {
                Some(left) if left.is_zero() => return Err(WaitEnd::TimedOut),
                Some(left) => {
                    let left_ps = u64::try_from(left.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX);
                    clock.wait(clock.now_ps().saturating_add(left_ps), changes);
                }
                None => clock.wait(u64::MAX, changes),
            }
        }
    }
}

// ---- the simulator's half ----

/// The command that a rank handed over. Any bytes are a valid command; check its values where they are used.
pub fn command_from(bytes: &[u8]) -> Option<Command> {
    let bytes = bytes.get(..COMMAND_BYTES)?;
    // SAFETY: the length was checked, and `Command` is a structure of integers, for which any bytes are valid.
    Some(unsafe { bytes.as_ptr().cast::<Command>().read_unaligned() })
}

/// A rank's NIC, as the simulator works on it.
pub struct Visited {
    endpoint: Endpoint,
    own: u64,
}

impl Visited {
    /// Attaches the NIC in this file.
    pub fn open(path: &FilePath) -> Result<Visited, SegmentError> {
        let segment = Segment::open(path)?;
        let directory = path.parent().unwrap_or(FilePath::new("."));
        Ok(Visited { endpoint: Endpoint::new(segment, false, directory), own: Identity::own().to_word() })
    }

    /// nid << 32 | pid.
    pub fn id(&self) -> u64 {
        self.endpoint.id
    }

    /// The number of this NIC among the NICs of its process.
    pub fn number(&self) -> u32 {
        self.endpoint.segment.header().ni
    }

    /// The owner's process id at the operating system.
    pub fn owner_pid(&self) -> u32 {
        self.endpoint.segment.header().owner_pid
    }

    /// Whether the owner still uses it.
    pub fn is_ready(&self) -> bool {
        self.endpoint.is_ready()
    }

    /// Works on the NIC, under its lock.
    pub fn with(&self, work: &mut dyn FnMut(&mut Nic<'_>)) {
        self.endpoint.segment.look_at_heap();
        let mut guard = self.endpoint.segment.lock(self.own);
        work(&mut guard);
    }

    /// Delivers a request with its payload. Fetched data go to `reply`, each step to `meter`.
    pub fn deliver(
        &self,
        request: &Request,
        payload: &[u8],
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
