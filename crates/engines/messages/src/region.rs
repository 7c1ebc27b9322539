// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The record of registered memory.

use crate::units::memory::Registered;

pub(crate) struct Region {
    pub start: u64,
    pub length: u64,
    pub access: u64,
    pub key: u64,
    /// Entries for writers, for readers, and for operations that do both. Each has a second entry if it counts.
    pub entries: [Option<u32>; 6],
    /// Its own counters for others' writes and reads, or NONE.
    pub counters: [u32; 2],
    pub enabled: bool,
    /// Its registration for accesses over the units, if it is in the directory.
    pub exposed: Option<Registered>,
}

/// The NIC has no room for another region's entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;
