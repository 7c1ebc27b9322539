// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC as this process sees it: its own, or a peer's with the peer's memory.
//!
//! Invariants
//! 1. An address resolves only to memory that this process may touch, or to memory of another process that the kernel
//!    will check. Every value in a peer's segment is checked against the mapping before it is used.
//! 2. An endpoint that was found dead stays dead. A process that opens the same id again is a new endpoint.
//!
//! Cost: 1 KiB for each peer. Its segment and arena are mapped, not copied.

use std::path::{Path as FilePath, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

use crate::config::Path;
use crate::links::Link;
use crate::packet_queue::Queue;
use crate::peer_files::{PeerFiles, within};
use crate::routes::Routes;
use crate::segment::{Segment, present_bytes, state};
use selvedge_os::address_space::check_room;
use selvedge_os::cma;
use selvedge_os::mapping::{MapError, Mapping};
use selvedge_os::memory::Checked;
use selvedge_os::process::Identity;
use selvedge_os::shortage::Shortage;

/// The ranges of this process's memory that were found usable.
static OWN_MEMORY: Checked = Checked::new();

/// The kind of access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// The location of memory, as seen from this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this process's address space.
    Direct(*mut u8),
    /// In another process's address space, reached by cross-memory attach.
    Remote { pid: u32, address: u64 },
    /// Not reachable from this process.
    Unreachable,
    /// Not mapped by its owner.
    Unmapped,
}

/// A NIC and the process that owns it.
pub struct Endpoint {
    pub segment: Segment,
    /// nid << 32 | pid.
    pub id: u64,
    /// Whether it is this process's NIC.
    pub own: bool,
    identity: Identity,
    directory: PathBuf,
    arena: OnceLock<Mapping>,
    /// Bytes of the arena's file that are known to exist.
    arena_bytes: AtomicU64,
    /// The owner's large blocks of `malloc` and its static data.
    files: PeerFiles,
    /// 0: unknown; 1: cross-memory attach works; 2: it does not.
    attach: AtomicU8,
    /// Number of puts that skip the short path ([`crate::plain_put`]), after one that could not use it.
    pub(crate) retry_after: AtomicU32,
    pub(crate) routes: Routes,
    pub(crate) packets: Queue,
    /// Counters of what this process does here; made with the first operation.
    pub(crate) link: OnceLock<Link>,
}

impl Endpoint {
    /// Makes the endpoint of a segment in a job's directory.
    pub fn new(segment: Segment, own: bool, directory: &FilePath) -> Endpoint {
        let header = segment.header();
        let identity = Identity { pid: header.owner_pid, start: header.owner_start };
        Endpoint {
            id: header.id,
            own,
            identity,
            directory: directory.into(),
            arena: OnceLock::new(),
            arena_bytes: AtomicU64::new(0),
            files: PeerFiles::default(),
            attach: AtomicU8::new(0),
            retry_after: AtomicU32::new(0),
            routes: Routes::default(),
            packets: Queue::default(),
            link: OnceLock::new(),
            segment,
        }
    }

    /// Returns the owner's word for locks.
    pub fn owner(&self) -> u64 {
        self.identity.to_word()
    }

    /// Whether the owner is alive by its segment. Does not ask the kernel.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.segment.header().hot.state.load(Relaxed) == state::READY
    }

    /// Asks the kernel whether the owner is alive. If not, marks the segment dead for all processes. About 3 us.
    pub fn check_alive(&self) -> bool {
        if self.is_ready() && !self.identity.is_alive() {
            self.mark_dead();
        }
        self.is_ready()
    }

    /// Marks the owner as dead.
    pub fn mark_dead(&self) {
        self.segment.header().hot.state.store(state::DEAD, SeqCst);
    }

    /// Returns a range of the owner's arena, if it is directly mapped and known to exist.
    #[inline(always)]
    pub fn in_place(&self, address: u64, bytes: u64, path: Path) -> Option<NonNull<u8>> {
        let hot = &self.segment.header().hot;
        let base = hot.arena_base.load(Relaxed);
        let offset = address.wrapping_sub(base);
        if self.own {
            let inside = base != 0 && within(offset, bytes, hot.arena_bytes.load(Relaxed));
            return if inside { NonNull::new(address as *mut u8) } else { None };
        }
        if matches!(path, Path::Cma | Path::Bounce) || !within(offset, bytes, self.arena_bytes.load(Acquire)) {
            return None;
        }
        NonNull::new(self.arena.get()?.base().wrapping_add(offset as usize))
    }

    /// Resolves a range of the owner's memory, as seen from this process.
    pub fn resolve(&self, address: u64, bytes: u64, access: Access, path: Path) -> Place {
        if let Some(start) = self.in_place(address, bytes, path) {
            return Place::Direct(start.as_ptr());
        }
        if self.own {
            let usable = match access {
                Access::Read => OWN_MEMORY.readable(address, bytes),
                Access::Write => OWN_MEMORY.writable(address, bytes),
            };
            return if usable { Place::Direct(address as *mut u8) } else { Place::Unmapped };
        }
        if path == Path::Bounce {
            return Place::Unreachable;
        }
        if path != Path::Cma && self.arena_has_grown().unwrap_or(false) {
            if let Some(start) = self.in_place(address, bytes, path) {
                return Place::Direct(start.as_ptr());
            }
        }
        if path != Path::Cma {
            if let Some(start) = self.in_shared(address, bytes) {
                return Place::Direct(start);
            }
        }
        match path {
            Path::Shared => Place::Unmapped,
            _ if self.attaches() => Place::Remote { pid: self.identity.pid, address },
            _ => Place::Unreachable,
        }
    }

    /// Returns a range of a peer's large blocks of `malloc` or static data, mapped here. The first use maps the file.
    #[inline]
    fn in_shared(&self, address: u64, bytes: u64) -> Option<*mut u8> {
        self.files.find(&self.segment.header().hot.shared, self.identity.pid, address, bytes)
    }

    /// Whether cross-memory attach works with the owner.
    #[inline]
    fn attaches(&self) -> bool {
        match self.attach.load(Relaxed) {
            0 => self.try_attach(),
            known => known == 1,
        }
    }

    /// Whether this process can reach all of the owner's memory.
    pub(crate) fn reaches_all(&self, path: Path) -> bool {
        self.own || (matches!(path, Path::Auto | Path::Cma) && self.attaches())
    }

    #[cold]
    fn try_attach(&self) -> bool {
        let works = cma::permitted(self.identity.pid, self.segment.header().probe_address);
        if works || self.identity.is_alive() {
            self.attach.store(if works { 1 } else { 2 }, Relaxed);
        }
        works
    }

    /// Returns the owner's arena, mapped at its largest possible size. The owner publishes its committed size.
    pub(crate) fn arena(&self) -> Result<Option<&Mapping>, Shortage> {
        self.arena_has_grown()?;
        Ok(self.arena.get())
    }

    /// Updates the arena's size, and maps the arena at first. True if it has grown.
    #[cold]
    fn arena_has_grown(&self) -> Result<bool, Shortage> {
        let hot = &self.segment.header().hot;
        let known = self.arena_bytes.load(Acquire);
        let claimed = hot.arena_bytes.load(Acquire);
        if claimed <= known {
            return Ok(false);
        }
        if self.arena.get().is_none() {
            let reserved = hot.arena_reserved.load(Acquire);
            let path = arena_path(&self.directory, self.identity.pid, hot.arena_number.load(Acquire));
            match check_room(&path, reserved).and_then(|()| Mapping::open(&path, 0, reserved)) {
                Ok(mapping) => {
                    let _ = self.arena.set(mapping);
                }
                Err(MapError::Shortage(shortage)) => return Err(shortage),
                Err(error) => {
                    log::debug!("no arena of process {}: {error}", self.identity.pid);
                    return Ok(false);
                }
            }
        }
        let Some(arena) = self.arena.get() else { return Ok(false) };
        let held = present_bytes(arena).min(arena.reserved());
        self.arena_bytes.fetch_max(claimed.min(held), Release);
        Ok(true)
    }
}

/// Returns the path of a process's file of shared memory: number 0 is that of `selvedge_alloc`, 1 the symmetric memory.
pub fn arena_path(directory: &FilePath, os_pid: u32, number: u32) -> PathBuf {
    match number {
        0 => directory.join(format!("{os_pid}.arena")),
        number => directory.join(format!("{os_pid}.{number}.arena")),
    }
}

#[inline(always)]
pub(crate) fn own_is_writable(address: u64, bytes: u64) -> bool {
    OWN_MEMORY.writable(address, bytes)
}

/// Forgets the ranges of this process's memory that were found usable, because something was unmapped.
pub fn forget_own_memory() {
    OWN_MEMORY.forget();
}
