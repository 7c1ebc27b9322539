// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory of the members of a live group, for long vectors: mapped from memory files, or by cross-memory attach.
//!
//! Invariants
//! 1. A member's memory is accessed only between the operation that gave its address and a later one that it waits for.
//! 2. An address that its owner has not mapped is an error, not a fault.
//!
//! Costs: loads and stores if mapped; else a system call for each block, and one more copy of each block read.

use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, OnceLock, Weak};

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::reduction::Kernel;
use selvedge_os::sync::IgnorePoison;

use super::log;
use super::segment::MemberPlace;
use selvedge_host::peer_files::{PeerFiles, SharedFile, within};
use selvedge_os::shared::{self, RANGES_MAX, SharedRange, is_lost};
use selvedge_os::{cma, copy};

/// Bytes reduced at once: they stay in the first-level cache. If a block takes system calls, blocks are longer.
const BLOCK_BYTES: usize = 8 << 10;
const BLOCK_BYTES_ATTACHED: usize = 64 << 10;

/// Memory of a member, as this process reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Mapped(*mut u8),
    Attached { pid: u32, address: u64 },
}

/// Looks up the local address of bytes at an address of a process. `None`: they are not mapped.
pub type MappedLookup = Box<dyn Fn(u32, u64, usize) -> Option<*mut u8> + Send + Sync>;

static MAPPED_LOOKUP: OnceLock<MappedLookup> = OnceLock::new();

/// Registers a lookup of memory of other processes that the front door has mapped, besides memory files. What it finds
/// of this process's memory, the others find, too. Called once, before this process joins a group.
pub fn register_mapped_memory(find: MappedLookup) {
    let _ = MAPPED_LOOKUP.set(find);
}

/// The local address of a process's memory, if the front door has mapped it.
fn find_mapped(pid: u32, address: u64, bytes: usize) -> Option<*mut u8> {
    MAPPED_LOOKUP.get().and_then(|find| find(pid, address, bytes))
}

/// The other members' memory that this process has mapped.
pub(super) struct PeerMemory {
    files: Vec<Arc<PeerFiles>>,
    /// Whether every member can attach to the memory of every other; and whether it can map all its memory files.
    pub(super) all_attach: bool,
    pub(super) all_map: bool,
    /// Two blocks.
    scratch: Vec<u8>,
}

impl PeerMemory {
    pub(super) fn new() -> PeerMemory {
        PeerMemory { files: Vec::new(), all_attach: false, all_map: false, scratch: Vec::new() }
    }

    /// Opens the members' memory files, after all members have joined.
    pub(super) fn know(&mut self, places: &[MemberPlace]) {
        self.files = places.iter().map(|place| files_of(place.word.load(Acquire))).collect();
    }

    pub(super) fn maps(&self, place: &MemberPlace, member: usize) -> bool {
        place.files.iter().all(|file| {
            let (base, bytes) = (file.base.load(Relaxed), file.bytes.load(Relaxed));
            bytes == 0 || self.files[member].find(&place.files, pid_of(place), base, bytes).is_some()
        })
    }

    pub(super) fn reach(&self, places: &[MemberPlace], member: usize, own: usize, address: u64, bytes: usize) -> Reach {
        if member == own {
            return Reach::Mapped(ptr::with_exposed_provenance_mut(address as usize));
        }
        let place = &places[member];
        let pid = pid_of(place);
        if let Some(start) = find_mapped(pid, address, bytes) {
            return Reach::Mapped(start);
        }
        match self.files[member].find(&place.files, pid, address, bytes as u64) {
            Some(start) => Reach::Mapped(start),
            None => Reach::Attached { pid, address },
        }
    }

    /// Reduces a part of the members' operands in order, and writes it to each of the results.
    ///
    /// # Safety
    /// The mapped operands can be read, and the mapped results written, in `part`. No other member writes there
    /// meanwhile.
    pub(super) unsafe fn reduce(
        &mut self,
        kernel: &Kernel,
        operands: &[Reach],
        results: &[Reach],
        part: Range<usize>,
    ) -> Result<(), Failure> {
        let is_mapped = |reach: &Reach| matches!(reach, Reach::Mapped(_));
        let is_mapped = operands.iter().chain(results).all(is_mapped);
        let block = if is_mapped { BLOCK_BYTES } else { BLOCK_BYTES_ATTACHED };
        if self.scratch.len() < 2 * block {
            self.scratch.resize(2 * block, 0);
        }
        let (into, beside) = self.scratch.split_at_mut(block);
        let mut at = part.start;
        while at < part.end {
            let bytes = block.min(part.end - at);
            let (into, beside) = (&mut into[..bytes], &mut beside[..bytes]);
            for (index, operand) in operands.iter().enumerate() {
                // SAFETY: the range is in `part`.
                unsafe {
                    match (index, operand) {
                        (0, _) => operand.read(at, into)?,
                        (_, Reach::Mapped(start)) => {
                            kernel.reduce(into, std::slice::from_raw_parts(start.wrapping_add(at), bytes));
                        }
                        _ => {
                            operand.read(at, beside)?;
                            kernel.reduce(into, beside);
                        }
                    }
                }
            }
            for result in results {
                // SAFETY: the range is in `part`.
                unsafe { result.write(at, into)? };
            }
            at += bytes;
        }
        Ok(())
    }
}

impl Reach {
    /// Copies memory at an offset into a buffer.
    ///
    /// # Safety
    /// If it is mapped, it can be read.
    unsafe fn read(&self, at: usize, into: &mut [u8]) -> Result<(), Failure> {
        // SAFETY: `into` is a buffer of this process.
        unsafe { self.copy_to(at, into.as_mut_ptr(), into.len()) }
    }

    /// Copies memory at an offset to `to`.
    ///
    /// # Safety
    /// If it is mapped, it can be read, and `to` can be written. They do not overlap, or are equal.
    pub(super) unsafe fn copy_to(&self, at: usize, to: *mut u8, bytes: usize) -> Result<(), Failure> {
        match *self {
            Reach::Mapped(start) => {
                let from = start.wrapping_add(at);
                if !ptr::eq(from, to) {
                    // SAFETY: by this function's contract.
                    unsafe { copy::long(from, to, bytes) };
                }
                Ok(())
            }
            Reach::Attached { pid, address } => {
                // SAFETY: `to` can be written for `bytes`.
                unsafe { cma::read(pid, address + at as u64, to, bytes) }.map_err(|error| failed(pid, &error))
            }
        }
    }

    /// Copies a buffer into memory at an offset.
    ///
    /// # Safety
    /// If it is mapped, it can be written.
    unsafe fn write(&self, at: usize, from: &[u8]) -> Result<(), Failure> {
        match *self {
            Reach::Mapped(start) => {
                // SAFETY: by this function's contract. `from` is a buffer of this process.
                unsafe { copy::long(from.as_ptr(), start.wrapping_add(at), from.len()) };
                Ok(())
            }
            Reach::Attached { pid, address } => {
                // SAFETY: `from` can be read, and the owner has given the address.
                unsafe { cma::write(pid, address + at as u64, from.as_ptr(), from.len()) }
                    .map_err(|error| failed(pid, &error))
            }
        }
    }
}

fn failed(pid: u32, error: &cma::CmaError) -> Failure {
    log::error(|| format!("the memory of process {pid} cannot be reached: {error}"));
    Failure::Lost
}

/// Whether the other members can map, or have mapped, a range of this process's memory.
pub(super) fn is_shared(place: &MemberPlace, address: u64, bytes: usize) -> bool {
    let file_has = |file: &SharedFile| {
        within(address.wrapping_sub(file.base.load(Relaxed)), bytes as u64, file.bytes.load(Relaxed))
    };
    let in_file = place.files.iter().any(file_has) && !is_lost(own_ranges(), address, bytes as u64);
    in_file || find_mapped(pid_of(place), address, bytes).is_some()
}

/// This process's memory files. They do not change once they are published.
fn own_ranges() -> &'static [SharedRange; RANGES_MAX] {
    static OWN: OnceLock<[SharedRange; RANGES_MAX]> = OnceLock::new();
    OWN.get_or_init(shared::ranges)
}

/// The mapped files of the process with this word, shared by all groups.
fn files_of(word: u64) -> Arc<PeerFiles> {
    static KNOWN: Mutex<Vec<(u64, Weak<PeerFiles>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock().ignore_poison();
    known.retain(|(_, files)| files.strong_count() != 0);
    if let Some(files) = known.iter().find(|(of, _)| *of == word).and_then(|(_, files)| files.upgrade()) {
        return files;
    }
    let files = Arc::<PeerFiles>::default();
    known.push((word, Arc::downgrade(&files)));
    files
}

/// A byte that others read to test whether they can attach to this process.
static PROBE: u8 = 0;

/// Lets other members attach to this process, and publishes the address of the test byte.
pub(super) fn offer(place: &MemberPlace) {
    cma::admit_peers();
    place.probe.store((&raw const PROBE).expose_provenance() as u64, Release);
}

pub(super) fn attaches(place: &MemberPlace) -> bool {
    cma::permitted(pid_of(place), place.probe.load(Acquire))
}

pub(super) fn pid_of(place: &MemberPlace) -> u32 {
    (place.word.load(Acquire) >> 32) as u32
}
