// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory files of a process (large blocks of `malloc`, static data: [`selvedge_os::shared`]): published by it,
//! mapped by its peers.
//!
//! Invariants
//! 1. A record does not change once its `bytes` is set.
//! 2. A file is mapped at its first use, and stays mapped. The values in a peer's record are checked against the
//!    mapping.
//! 3. A range where the peer has mapped something else is not found ([`Lost`]).
//! 4. A lack of descriptors or address space is not kept as an answer: later look-ups try again, one in [`RETRY_ONE_IN`].
//!
//! Cost of a look-up: two comparisons for each file, and one load.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};

use selvedge_os::address_space::check_room;
use selvedge_os::mapping::{MapError, Mapping, sealed_inode};
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
    /// Number of look-ups since this process lacked something to map a file.
    since_lack: AtomicU32,
}

/// Look-ups between two tries after a lack. Without the mapping the kernel copies, which costs less than a try.
const RETRY_ONE_IN: u32 = 256;

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
            let file = match mapping.get() {
                Some(known) => known.as_ref()?,
                None => self.map_at_first(mapping, file, pid)?,
            };
            // A peer may have overwritten the record since the file was mapped. So check against the mapping.
            let found = within(offset, bytes, file.bytes) && !file.lost().has(offset, bytes);
            found.then(|| file.mapping.base().wrapping_add(offset as usize))
        })
    }
}

impl PeerFiles {
    #[cold]
    fn map_at_first<'a>(
        &self,
        mapping: &'a OnceLock<Option<MappedFile>>,
        file: &SharedFile,
        pid: u32,
    ) -> Option<&'a MappedFile> {
        let since = self.since_lack.load(Relaxed);
        if since % RETRY_ONE_IN != 0 {
            self.since_lack.store(since.wrapping_add(1), Relaxed);
            return None;
        }
        let mapped = map(file, pid).inspect_err(|error| log::debug!("memory of process {pid} is not mapped: {error}"));
        match mapped {
            Err(MapError::Shortage(_)) => {
                self.since_lack.store(1, Relaxed);
                None
            }
            mapped => mapping.get_or_init(|| mapped.ok()).as_ref(),
        }
    }
}

fn map(file: &SharedFile, pid: u32) -> Result<MappedFile, MapError> {
    let (descriptor, inode) = (file.descriptor.load(Acquire), file.inode.load(Acquire));
    let bytes = file.bytes.load(Acquire);
    let path = Path::new("a peer's memory file");
    if bytes % lost_bytes() != 0 {
        return Err(MapError::TooSmall { path: path.into(), bytes, needed: bytes.next_multiple_of(lost_bytes()) });
    }
    check_room(path, bytes)?;
    let mapping = Mapping::open_sealed(pid, descriptor, inode, bytes.saturating_add(lost_bytes()))?;
    Ok(MappedFile { mapping, bytes })
}

/// Whether `bytes` at `offset` lie within `size` bytes.
#[inline(always)]
pub fn within(offset: u64, bytes: u64, size: u64) -> bool {
    offset <= size && bytes <= size - offset
}
