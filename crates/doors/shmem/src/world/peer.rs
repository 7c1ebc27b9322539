// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The records of another PE: its mapped memory, and its NIC. Both are empty until this PE attaches it at their first
//! communication (`world.rs`).
//!
//! Costs: a line of 64 bytes for the memory, which nearly every put, get and atomic reads.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Relaxed};

use selvedge_process::{Window, Work};

/// The mapped memory of a PE.
#[repr(C, align(64))]
pub(crate) struct Peer {
    /// Bytes of the heap that exist, and the shift that turns an address in this PE's heap into one in that PE's heap.
    pub heap_bytes: AtomicUsize,
    pub heap_shift: AtomicUsize,
    /// The same for static data.
    pub data_bytes: AtomicUsize,
    pub data_shift: AtomicUsize,
    /// A word that is not zero while a thread of the PE sleeps; never null.
    pub sleepers: AtomicPtr<AtomicU32>,
    /// Counters of this PE's operations there; null where nothing counts.
    pub work: AtomicPtr<Work>,
}

impl Peer {
    /// Returns the counters of this PE's operations at the peer.
    #[inline(always)]
    pub fn counts(&self) -> Counts {
        // SAFETY: null, or a record of this process's page, which the interface keeps mapped to the end of the process.
        Counts(unsafe { self.work.load(Relaxed).as_ref() })
    }
}

/// Counts this PE's operations in a peer's memory, unless `SELVEDGE_SHMEM_TRAFFIC` turns that off.
#[derive(Clone, Copy)]
pub struct Counts(Option<&'static Work>);

macro_rules! counting {
    ($($name:ident $([$bytes:ident])? ($($argument:ident)?),)*) => {
        impl Counts {
            $(#[inline(always)]
            pub fn $name $(<const $bytes: usize>)? (self $(, $argument: u64)?) {
                if let Some(work) = self.0 {
                    work.$name $(::<$bytes>)? ($($argument)?);
                }
            })*
        }
    };
}

counting! { put(bytes), get(bytes), update[BYTES](), fetch[BYTES](), load[BYTES](), internal(bytes), }

/// The sleepers' word of peers that are not attached: always zero.
static NO_SLEEPERS: AtomicU32 = AtomicU32::new(0);

impl Default for Peer {
    fn default() -> Peer {
        Peer {
            heap_bytes: AtomicUsize::new(0),
            heap_shift: AtomicUsize::new(0),
            data_bytes: AtomicUsize::new(0),
            data_shift: AtomicUsize::new(0),
            sleepers: AtomicPtr::new((&raw const NO_SLEEPERS).cast_mut()),
            work: AtomicPtr::new(std::ptr::null_mut()),
        }
    }
}

/// The start of a PE's memory in its own process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryStart {
    pub pid: u32,
    pub root: u64,
    pub data: u64,
}

pub(crate) struct PeerNic {
    /// Its Portals id.
    pub id: u64,
    /// Whether it is on this PE's host.
    pub is_near: bool,
    /// Its memory and its NIC; mapped once it is attached.
    pub window: OnceLock<Window<'static>>,
}
