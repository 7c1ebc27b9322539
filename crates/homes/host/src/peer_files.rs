// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory files of a process (large blocks of `malloc`, static data: [`selvedge_os::shared`]): published by it,
//! mapped by its peers.
//!
//! Invariants
//! 1. A record does not change once its `bytes` is set.
//! 2. A file is mapped at its first use, and stays mapped. The values in a peer's record are checked against the
//!    mapping.
//! 3. A range where the peer has mapped something else is not found ([`Lost`]).
//!
//! Cost of a look-up: two comparisons for each file, and one load.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_os::address_space::check_room;
use selvedge_os::mapping::{Mapping, sealed_inode};
use selvedge_os::shared::{self, Lost, RANGES_MAX, lost_bytes};

/// A file that its owner has mapped: the address of its memory in the owner, its size without the last page, and the
/// owner's descriptor and inode of the file.
#[repr(C)]
#[derive(Default)]
pub struct SharedFile {
    pub base: AtomicU64,
    pub bytes: AtomicU64,
    pub inode: AtomicU64,
    pub descriptor: AtomicU32,
}

/// Publishes the files of this process.
pub fn publish(files: &[SharedFile; RANGES_MAX]) {
    for (file, range) in files.iter().zip(shared::ranges()) {
        let Ok(inode) = sealed_inode(range.descriptor) else { continue };
        file.base.store(range.base, SeqCst);
        file.inode.store(inode, SeqCst);
        file.descriptor.store(range.descriptor as u32, SeqCst);
        file.bytes.store(range.bytes, SeqCst);
    }
}

/// The files of one peer, as this process maps them.
#[derive(Default)]
pub struct PeerFiles {
    /// None if the file cannot be mapped.
    mappings: [OnceLock<Option<MappedFile>>; RANGES_MAX],
}

struct MappedFile {
    mapping: Mapping,
    /// The bytes before the page of the lost parts.
    bytes: u64,
}

impl MappedFile {
    #[inline(always)]
    fn lost(&self) -> &Lost {
        // SAFETY: the mapping has a page behind its first `bytes`, which begins with this record of atomics.
        unsafe { &*self.mapping.base().wrapping_add(self.bytes as usize).cast::<Lost>() }
    }
}

impl PeerFiles {
    /// Returns the address in this process of a range of memory of process `pid`. None if no file that can be mapped
    /// holds it.
    #[inline]
    pub fn find(&self, files: &[SharedFile; RANGES_MAX], pid: u32, address: u64, bytes: u64) -> Option<*mut u8> {
        files.iter().zip(&self.mappings).find_map(|(file, mapping)| {
            let offset = address.wrapping_sub(file.base.load(Relaxed));
            if !within(offset, bytes, file.bytes.load(Relaxed)) {
                return None;
            }
            let file = mapping.get_or_init(|| map(file, pid)).as_ref()?;
            // A peer may have overwritten the record since the file was mapped. So check against the mapping.
            let found = within(offset, bytes, file.bytes) && !file.lost().has(offset, bytes);
            found.then(|| file.mapping.base().wrapping_add(offset as usize))
        })
    }
}

#[cold]
fn map(file: &SharedFile, pid: u32) -> Option<MappedFile> {
    let (descriptor, inode) = (file.descriptor.load(Acquire), file.inode.load(Acquire));
    let bytes = file.bytes.load(Acquire);
    if bytes % lost_bytes() != 0 {
        return None;
    }
    check_room(Path::new("a peer's memory file"), bytes)
        .and_then(|()| Mapping::open_sealed(pid, descriptor, inode, bytes.saturating_add(lost_bytes())))
        .map(|mapping| MappedFile { mapping, bytes })
        .inspect_err(|error| log::debug!("shared memory of process {pid} cannot be mapped: {error}"))
        .ok()
}

/// Whether `bytes` at `offset` lie within `size` bytes.
#[inline(always)]
pub fn within(offset: u64, bytes: u64, size: u64) -> bool {
    offset <= size && bytes <= size - offset
}
