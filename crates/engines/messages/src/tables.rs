// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The sizes of the tables of a transport's NIC, and smaller ones for a job directory with little room.
//!
//! All memory of a NIC is allocated when it is opened, so that no access to it fails later. Containers often have 64 MB
//! in `/dev/shm`: there the tables are halved, perhaps several times. Peers read the sizes in the NIC's segment, so
//! processes need not agree. Open MPI opens two transports in each rank.

use std::path::Path;

use selvedge_nic::limits::SHORT_LIST_MAX;
use selvedge_nic::{Layout, Limits};
use selvedge_os::mapping::file_system_bytes;
use selvedge_os::ranks;

use crate::operations::SENDS_MAX;
use crate::ticket::{ENDPOINT_PORTALS, KINDS, OWN_ENDPOINT};
use crate::work;

/// Largest number of posted receives and registered regions at once.
pub const ENTRIES: u32 = 32768;
/// Largest number of unexpected messages at once.
const HEADERS: u32 = 32768;
/// Largest number of events that may wait for the program. When the queue is full, senders wait.
const EVENTS: u32 = 4096;
/// The smallest tables are halved this often.
const HALVINGS_MAX: u32 = 4;

/// How often the tables are halved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tables(u32);

impl Tables {
    pub(crate) const FULL: Tables = Tables(0);

    /// Returns tables of which this host's ranks together fill at most half of the file system of their folder. The
    /// other half is for rings and for the MPI's own files.
    pub(crate) fn for_folder(folder: &Path) -> Tables {
        let share =
            file_system_bytes(folder).zip(ranks::here()).map(|(bytes, ranks)| bytes / 2 / u64::from(ranks.max(1)));
        Tables::within(share.unwrap_or(u64::MAX))
    }

    fn within(bytes: u64) -> Tables {
        let fits = |halvings: &u32| Layout::new(&Tables(*halvings).limits(), 0).initial_bytes() <= bytes;
        Tables((0..HALVINGS_MAX).find(fits).unwrap_or(HALVINGS_MAX))
    }

    /// Returns the next smaller tables. None: these are the smallest.
    pub(crate) fn halved(self) -> Option<Tables> {
        (self.0 < HALVINGS_MAX).then_some(Tables(self.0 + 1))
    }

    /// Returns the number of events that may wait for the program.
    pub(crate) fn events(self) -> u32 {
        EVENTS >> self.0
    }

    /// Returns the number of sends in flight.
    pub(crate) fn sends(self) -> u32 {
        if self == Tables::FULL { SENDS_MAX } else { SENDS_MAX / 2 }
    }

    /// Returns the number of events of this process's own sends, and of deferred work.
    pub(crate) fn own_events(self) -> u32 {
        2 * self.sends() + work::EVENTS_MAX
    }

    pub(crate) fn limits(self) -> Limits {
        let heap_blocks = match self {
            Tables::FULL => 16384,
            // The two queues, and some for the lists of the first messages. The heap grows.
            smaller => smaller.own_events().next_power_of_two() + smaller.events() + 256,
        };
        Limits {
            entries: ENTRIES >> self.0,
            headers: HEADERS >> self.0,
            descriptors: 512,
            counters: 1024 >> self.0,
            queues: 4,
            portals: ENDPOINT_PORTALS + KINDS * (u32::from(OWN_ENDPOINT) + 1),
            triggered: 2048 >> self.0,
            iovecs: 16,
            list: ENTRIES >> self.0,
            short_list: SHORT_LIST_MAX,
            pending: (1024 >> self.0).max(256),
            heap_blocks,
            // The allocator's own state grows with the largest heap.
            heap_blocks_max: 1 << if self == Tables::FULL { 18 } else { 15 },
            ..Limits::NONE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(tables: Tables) -> u64 {
        Layout::new(&tables.limits(), 0).initial_bytes()
    }

    #[test]
    fn tables_are_halved_only_where_room_is_short() {
        assert_eq!(Tables::within(u64::MAX), Tables::FULL);
        assert_eq!(Tables::within(bytes_of(Tables::FULL)), Tables::FULL);
        assert_eq!(Tables::within(bytes_of(Tables::FULL) - 1), Tables(1));
        assert_eq!(Tables::within(0), Tables(HALVINGS_MAX), "the smallest");
        let all: Vec<Tables> = std::iter::successors(Some(Tables::FULL), |tables| tables.halved()).collect();
        assert_eq!(all.len() as u32, HALVINGS_MAX + 1);
        for pair in all.windows(2) {
            assert!(bytes_of(pair[1]) < bytes_of(pair[0]));
        }
    }

    #[test]
    fn sixteen_ranks_fit_into_the_shared_memory_of_a_container() {
        assert!(2 * 16 * bytes_of(Tables::within((64 << 20) / 2 / 16)) <= 52 << 20);
    }
}
