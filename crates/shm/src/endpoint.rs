// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A NIC as this process sees it: its own, or a peer's with the memory behind it.
//!
//! Invariants
//! 1. What an address resolves to is memory that this process may touch, or another process's that the kernel will
//!    check; nothing that a peer's segment says is followed before it is held against what is mapped.
//! 2. An endpoint once found dead stays dead; a process that opens the same id anew is another endpoint.
//!
//! Cost: 1 KiB for each peer; its segment and arena are mapped, not copied.

use std::path::{Path as FilePath, PathBuf};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};

use crate::Path;
use crate::grants::Routes;
use crate::os::cma;
use crate::os::mapping::Mapping;
use crate::os::memory::Checked;
use crate::os::process::Identity;
use crate::os::shared::RANGES_MAX;
use crate::segment::{Segment, SharedFile, state};

/// What of our own memory was found usable.
static OWN_MEMORY: Checked = Checked::new();

/// What is to be done with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// Where memory is, from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this process's address space.
    Direct(*mut u8),
    /// In another process's: by cross-memory attach.
    Remote { pid: u32, address: u64 },
    /// Nowhere that this process can reach.
    Unreachable,
    /// Nowhere: the owner has nothing there.
    Unmapped,
}

/// A NIC and the process that owns it.
pub struct Endpoint {
    pub segment: Segment,
    /// nid << 32 | pid.
    pub id: u64,
    /// It is this process's.
    pub own: bool,
    identity: Identity,
    directory: PathBuf,
    arena: OnceLock<Mapping>,
    /// Bytes of the arena's file that are known to exist.
    arena_bytes: AtomicU64,
    /// Its owner's large blocks of `malloc` and static data, once they were needed; None: they cannot be mapped.
    shared: [OnceLock<Option<Mapping>>; RANGES_MAX],
    /// 0: not known; 1: cross-memory attach works; 2: it does not.
    attach: AtomicU8,
    /// Puts that are not tried the express way, since the last that was had to go another.
    pub(crate) detour: AtomicU32,
    pub(crate) routes: Routes,
}

impl Endpoint {
    /// Of a segment in a job's directory.
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
            shared: Default::default(),
            attach: AtomicU8::new(0),
            detour: AtomicU32::new(0),
            routes: Routes::default(),
            segment,
        }
    }

    /// Its owner's word for locks.
    pub fn owner(&self) -> u64 {
        self.identity.to_word()
    }

    /// Whether its owner lives, as far as is known without asking.
    #[inline(always)]
    pub fn is_ready(&self) -> bool {
        self.segment.header().hot.state.load(Relaxed) == state::READY
    }

    /// Asks whether its owner lives; everyone learns if not. About 3 us.
    pub fn look_alive(&self) -> bool {
        if self.is_ready() && !self.identity.is_alive() {
            self.mark_dead();
        }
        self.is_ready()
    }

    /// Its owner has ended.
    pub fn mark_dead(&self) {
        self.segment.header().hot.state.store(state::DEAD, SeqCst);
    }

    /// A range of the owner's memory that is in place and known to be: the arena, as far as it was seen.
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

    /// Where a range of its owner's memory is from here.
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
        if path != Path::Cma && self.arena_has_grown() {
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

    /// A range of a peer's large blocks of `malloc` or of its static data, mapped at the first that is asked for.
    #[inline]
    fn in_shared(&self, address: u64, bytes: u64) -> Option<*mut u8> {
        let mut files = self.segment.header().hot.shared.iter().zip(&self.shared);
        files.find_map(|(file, mapping)| {
            let offset = address.wrapping_sub(file.base.load(Relaxed));
            if !within(offset, bytes, file.bytes.load(Relaxed)) {
                return None;
            }
            let mapping = mapping.get_or_init(|| self.map_shared(file)).as_ref()?;
            // What its owner says now is not what was mapped, if the segment was written over.
            within(offset, bytes, mapping.reserved()).then(|| mapping.base().wrapping_add(offset as usize))
        })
    }

    #[cold]
    fn map_shared(&self, file: &SharedFile) -> Option<Mapping> {
        let (descriptor, inode) = (file.descriptor.load(Acquire), file.inode.load(Acquire));
        Mapping::open_sealed(self.identity.pid, descriptor, inode, file.bytes.load(Acquire))
            .inspect_err(|error| {
                log::debug!("shared memory of process {} stays out of reach: {error}", self.identity.pid)
            })
            .ok()
    }

    /// Whether cross-memory attach works with its owner.
    #[inline]
    fn attaches(&self) -> bool {
        match self.attach.load(Relaxed) {
            0 => self.try_attach(),
            known => known == 1,
        }
    }

    /// Whether all of its owner's memory can be reached from here.
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

    /// The owner's arena, all of it that there may ever be, mapped; what of it exists now its owner must say.
    pub(crate) fn arena(&self) -> Option<&Mapping> {
        self.arena_has_grown();
        self.arena.get()
    }

    /// Looks how large the arena has become, and maps it at first; whether there is more of it than was known.
    #[cold]
    fn arena_has_grown(&self) -> bool {
        let hot = &self.segment.header().hot;
        let known = self.arena_bytes.load(Acquire);
        let claimed = hot.arena_bytes.load(Acquire);
        if claimed <= known {
            return false;
        }
        if self.arena.get().is_none() {
            let reserved = hot.arena_reserved.load(Acquire);
            let path = arena_path(&self.directory, self.identity.pid, hot.arena_number.load(Acquire));
            match Mapping::open(&path, 0, reserved) {
                Ok(mapping) => {
                    let _ = self.arena.set(mapping);
                }
                Err(error) => {
                    log::debug!("no arena of process {}: {error}", self.identity.pid);
                    return false;
                }
            }
        }
        let Some(arena) = self.arena.get() else { return false };
        let held = arena.file_bytes().unwrap_or(0).min(arena.reserved());
        self.arena_bytes.fetch_max(claimed.min(held), Release);
        true
    }
}

/// The file of shared memory with this number of a process: 0 is that of `selvedge_alloc`, 1 the symmetric memory.
pub fn arena_path(directory: &FilePath, os_pid: u32, number: u32) -> PathBuf {
    match number {
        0 => directory.join(format!("{os_pid}.arena")),
        number => directory.join(format!("{os_pid}.{number}.arena")),
    }
}

/// Whether a range of our own memory can be written.
#[inline(always)]
pub(crate) fn own_is_writable(address: u64, bytes: u64) -> bool {
    OWN_MEMORY.writable(address, bytes)
}

/// Forgets which of our memory was found usable: something was unmapped.
pub fn forget_own_memory() {
    OWN_MEMORY.forget();
}

#[inline(always)]
fn within(offset: u64, bytes: u64, size: u64) -> bool {
    offset <= size && bytes <= size - offset
}
