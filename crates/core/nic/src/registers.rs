// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of a NIC (seed 002, section 7.2): named counters in a block of memory, and values that units keep in
//! tables.
//!
//! `registers/selvedge.rdl` describes all of them, and [`description`] is made from it (docs/design/registers.md). The
//! version and the counters are words of the register block, at the addresses of the description. The other registers
//! are values of the NIC's tables, which [`tables`] finds.
//!
//! The holder of the NIC's lock changes the counters, and any process may read them (`selvedge top`, `PtlNIStatus`). So
//! they are atomics, but the holder needs no read-modify-write. They only grow, and wrap at 2^64.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[rustfmt::skip]
mod description;
pub mod tables;

pub use description::{BLOCK_BYTES, LiveWrite, Register, TableRegister, VERSION};

/// The number of counters of a NIC.
pub const COUNT: usize = Register::ALL.len();

/// Words of the register block.
pub const BLOCK_WORDS: usize = BLOCK_BYTES / size_of::<u64>();

/// The register block in memory: the version, then the counters at their addresses. Words between them are 0.
#[repr(C, align(64))]
pub struct Registers {
    words: [AtomicU64; BLOCK_WORDS],
}

const _: () = assert!(size_of::<Registers>() == BLOCK_BYTES);

impl Default for Registers {
    fn default() -> Registers {
        Registers { words: core::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Register {
    /// Offset of the register's word in the register block, in bytes: its address in the description.
    pub const fn offset(self) -> usize {
        self as usize * size_of::<u64>()
    }
}

impl Registers {
    /// Stores the version. Called once, when the NIC is made.
    pub(crate) fn format(&self) {
        self.words[0].store(VERSION.into(), Relaxed);
    }

    /// The version of the layout with which the NIC was made.
    pub fn version(&self) -> u64 {
        self.words[0].load(Relaxed)
    }

    /// Adds to a register. Only the holder of the NIC's lock calls it.
    #[inline(always)]
    pub fn add(&self, register: Register, count: u64) {
        let value = &self.words[register as usize];
        value.store(value.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Counts messages that the owner has taken ([`Receives::take`](crate::portals::receive::Receives::take)), and
    /// their bytes. Only the holder of the NIC's lock calls it.
    #[inline(always)]
    pub fn count_taken(&self, messages: u64, bytes: u64) {
        self.add(Register::Requests, messages);
        self.add(Register::MatchedPriority, messages);
        self.add(Register::BytesIn, bytes);
    }

    /// The current value of a register.
    pub fn get(&self, register: Register) -> u64 {
        self.words[register as usize].load(Relaxed)
    }
}
