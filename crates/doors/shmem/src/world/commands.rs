// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that this PE offers to commands of other PEs (seed 004, section 2.1).
//!
//! Every PE's NIC has two list entries with match bits 0: one for the symmetric memory, one for the program's static
//! data. Each counter of counting puts has two more, which its match bits select.
//!
//! Invariant: the target's NIC checks each command against the bounds of the entry that it matches.

use std::ops::Range;

use selvedge_process::nic::NoMemory;
use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::{EntrySpec, list, options};
use selvedge_process::process::own_uid;
use selvedge_process::{Interface, Symmetric};

use crate::world::address::{PORTAL_DATA, PORTAL_MEMORY};

/// The ranges that this PE's NIC offers to commands, and the user id of its own commands.
pub(crate) struct Commands {
    memory: Range<u64>,
    data: Range<u64>,
    pub uid: u32,
}

impl Commands {
    /// Offers the symmetric memory and the static data to commands of other PEs.
    pub fn set_up(interface: &Interface, memory: &Symmetric, data: &Range<u64>) -> Result<Commands, &'static str> {
        let base = memory.base() as u64;
        let commands = Commands { memory: base..base + memory.range().reserved, data: data.clone(), uid: own_uid() };
        let mut guard = interface.lock();
        for portal in [PORTAL_MEMORY, PORTAL_DATA] {
            guard.portal_table().alloc(Some(portal), 0, NONE).map_err(|_| "the NIC has no portal table entry left")?;
        }
        drop(guard);
        commands.offer(interface, 0, NONE).ok_or("the NIC has no list entries left")?;
        Ok(commands)
    }

    /// Appends an entry for each range. Entries with `match_bits` 0 do not count.
    pub fn offer(&self, interface: &Interface, match_bits: u64, counter: u32) -> Option<[u32; 2]> {
        let entry = |portal: u32, range: &Range<u64>| {
            let spec = EntrySpec {
                options: options::OP_PUT
                    | options::OP_GET
                    | options::NO_TRUNCATE
                    | options::EVENT_CT_COMM
                    | options::EVENT_LINK_DISABLE
                    | options::EVENT_UNLINK_DISABLE
                    | options::EVENT_COMM_DISABLE,
                start: range.start,
                length: range.end - range.start,
                iov: NONE,
                iov_count: 0,
                match_bits,
                ignore_bits: 0,
                source: 0,
                source_ignore: u64::MAX,
                min_free: 0,
                user_ptr: 0,
                counter,
                uid: self.uid,
            };
            let mut guard = interface.lock();
            guard.with_revocation(|nic| nic.lists().append(&mut NoMemory, portal, list::PRIORITY, &spec)).ok()
        };
        Some([entry(PORTAL_MEMORY, &self.memory)?, entry(PORTAL_DATA, &self.data)?])
    }
}
