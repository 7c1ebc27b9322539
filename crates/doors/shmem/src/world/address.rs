// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Addresses in symmetric memory: as an offset, as an address of this PE, and in the terms of a command.
//!
//! These are values only. `remote.rs` checks addresses, and moves bytes to and from them.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Portal table entries of every PE: one for its symmetric memory, one for the program's static data.
pub(crate) const PORTAL_MEMORY: u32 = 0;
pub(crate) const PORTAL_DATA: u32 = 1;

/// An offset in the symmetric memory, the same at every PE: first the pages of static data, then the library's own
/// region, then the program's heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymOffset(pub u64);

static ROOT: AtomicUsize = AtomicUsize::new(0);

/// Sets the start of the symmetric memory. Called once, before any other use.
pub(crate) fn set_root(at: usize) {
    ROOT.store(at, Relaxed);
}

/// Memory at a PE in the terms of a command: portal table index and offset in the entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicAddress {
    pub pe: usize,
    pub portal: u32,
    pub offset: u64,
}

impl NicAddress {
    /// The address `bytes` further on.
    pub fn at(self, bytes: usize) -> NicAddress {
        NicAddress { offset: self.offset.wrapping_add(bytes as u64), ..self }
    }
}

/// How a PE's memory is reached: at an address here, or by commands of the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Mapped(*mut u8),
    Nic(NicAddress),
}

/// A checked address in symmetric memory. It means the same object at every PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SymAddress {
    pub(crate) portal: u32,
    /// The address in this PE's memory.
    pub(crate) address: usize,
}

impl SymAddress {
    /// The address of an offset in the library's own region.
    #[inline(always)]
    pub fn of(at: SymOffset) -> SymAddress {
        SymAddress { portal: PORTAL_MEMORY, address: ROOT.load(Relaxed).wrapping_add(at.0 as usize) }
    }

    /// The address `bytes` further on.
    #[inline(always)]
    pub fn at(self, bytes: usize) -> SymAddress {
        SymAddress { address: self.address.wrapping_add(bytes), ..self }
    }

    /// This PE's own copy of the object.
    #[inline(always)]
    pub fn local(self) -> *mut u8 {
        self.address as *mut u8
    }
}
