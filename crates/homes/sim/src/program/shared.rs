// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The state of a rank that the simulation and its program share: clock, NIC, memory, requests.
//!
//! Its NIC has these portal table entries:
//!
//! | index | contents |
//! |---|---|
//! | 0 | messages ([`super::messages`]) |
//! | 1 | payload of long messages, to be fetched |
//! | 2 | the window: all of the memory, with one entry for each counter; the match bits are the counter's number |
//! | 3 | the memory without a counter, for gets and atomics |

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use selvedge_nic::handle::NONE;
use selvedge_nic::portals::{EntrySpec, list, options};
use selvedge_nic::tables::Command;
use selvedge_nic::{Limits, NoMemory};

use crate::machine::Machine;
use crate::node::tables::OwnTables;
use crate::node::{Aggregation, RankRequest, TimedRequest};
use crate::time::Time;

use super::Needs;
use super::memory::Memory;
use super::port::Port;
use super::requests::{PORTAL_MESSAGES, Requests};
use super::results::Shared;

pub(super) const PORTAL_FETCH: u32 = 1;
pub(super) const PORTAL_WINDOW: u32 = 2;
pub(super) const PORTAL_MEMORY: u32 = 3;

pub(super) struct Core {
    pub rank: u32,
    pub size: u32,
    /// The rank's clock: virtual time at the beginning of its turn, plus the time that it has spent since then.
    pub now: Time,
    pub request: Option<RankRequest>,
    pub tables: OwnTables,
    pub memory: Memory,
    pub machine: Arc<Machine>,
    pub needs: Needs,
    pub requests: Requests,
    pub windows: Vec<u32>,
    /// Counter of acknowledgements for `Process::put_acknowledged`, and number of acknowledgements requested.
    pub acknowledged: u32,
    pub unacknowledged: u64,
    /// Counter of replies, and number of replies requested.
    pub replied: u32,
    pub asked: u64,
    /// State of all ranks outside the simulated machine.
    pub shared: Shared,
    pub spare: Spare,
    pub port: Option<Port>,
    /// The job's share of the aggregation nodes, if switches reduce.
    pub aggregation: Option<Arc<Aggregation>>,
    pub refused: bool,
}

/// Boxes of finished commands of all ranks, for reuse.
pub(super) type Spare = Rc<RefCell<Vec<Box<Command>>>>;

const SCRATCH_BYTES: usize = 8;
/// Operations of a group of which a rank keeps records: at least a group's credits.
const STARTED_EACH: u32 = 64;

impl Core {
    /// Makes the state of a rank before its first turn, with a NIC that has room for its program's needs.
    pub fn new(rank: u32, size: u32, machine: Arc<Machine>, needs: Needs, shared: Shared, spare: Spare) -> Core {
        let sized = &machine.limits;
        let queue = (2 * needs.receives + 4).next_power_of_two();
        let limits = Limits {
            entries: sized.entries.unwrap_or(0).max(needs.receives + needs.windows + 8 + 16),
            headers: sized.headers.unwrap_or(0).max(needs.unexpected.max(1)),
            descriptors: sized.descriptors.unwrap_or(1),
            counters: sized.counters.unwrap_or(0).max(needs.windows + 4 + needs.triggered),
            queues: sized.queues.unwrap_or(0).max(1),
            portals: sized.portals.unwrap_or(0).max(4),
            triggered: sized.triggered.unwrap_or(0).max(needs.triggered),
            iovecs: 1,
            list: u32::MAX,
            short_list: 1,
            pending: 1,
            heap_blocks: queue,
            heap_blocks_max: queue,
            memberships: needs.groups,
            member_operations: STARTED_EACH,
            ..if needs.units { units(&machine, needs.memory_bytes) } else { Limits::NONE }
        };
        let mut tables = OwnTables::new(&limits);
        // After the memory that other ranks can access lies the scratch, the target of fetched words.
        let memory = Memory::new(needs.memory_bytes + SCRATCH_BYTES);
        let sure = "the NIC is sized for it";
        let events = tables.alloc_events(queue).expect(sure);
        for portal in [PORTAL_MESSAGES, PORTAL_FETCH, PORTAL_WINDOW, PORTAL_MEMORY] {
            let queue = if portal == PORTAL_MESSAGES || portal == PORTAL_FETCH { events } else { NONE };
            tables.nic().portal_table().alloc(Some(portal), 0, queue).expect(sure);
        }
        let acknowledged = tables.nic().counters().alloc().expect(sure);
        let replied = tables.nic().counters().alloc().expect(sure);
        let everything = EntrySpec {
            options: options::OP_PUT | options::OP_GET | options::EVENT_LINK_DISABLE,
            start: 0,
            length: needs.memory_bytes as u64,
            iov: NONE,
            iov_count: 0,
            match_bits: 0,
            ignore_bits: 0,
            source: 0,
            source_ignore: u64::MAX,
            min_free: 0,
            user_ptr: 0,
            counter: NONE,
            uid: u32::MAX,
        };
        let windows: Vec<u32> = (0..needs.windows).map(|_| tables.nic().counters().alloc().expect(sure)).collect();
        for (number, &counter) in windows.iter().enumerate() {
            let spec = EntrySpec {
                options: everything.options | options::EVENT_CT_COMM,
                match_bits: number as u64,
                counter,
                ..everything
            };
            tables.nic().lists().append(&mut NoMemory, PORTAL_WINDOW, list::PRIORITY, &spec).expect(sure);
        }
        let spec = EntrySpec { ignore_bits: u64::MAX, ..everything };
        tables.nic().lists().append(&mut NoMemory, PORTAL_MEMORY, list::PRIORITY, &spec).expect(sure);
        let requests = Requests::new(&mut tables.nic(), events);
        let port = if needs.units { Port::open(&mut tables, &machine, needs.memory_bytes) } else { None };
        Core {
            rank,
            size,
            now: Time::ZERO,
            request: None,
            tables,
            memory,
            machine,
            needs,
            requests,
            windows,
            acknowledged,
            unacknowledged: 0,
            replied,
            asked: 0,
            shared,
            spare,
            port,
            aggregation: None,
            refused: false,
        }
    }

    /// Takes the request with which the program has ended its turn.
    pub fn take_turn(&mut self) -> TimedRequest {
        // A future that is pending without a request to the simulation waits for ever; the run then ends as stuck.
        let request = self.request.take().unwrap_or(RankRequest::Wait { until: Time::MAX });
        TimedRequest { at: self.now, request }
    }
}

/// Returns the limits of the EXTOLL units: one port, and address tables for all of the memory.
fn units(machine: &Machine, memory_bytes: usize) -> Limits {
    let sized = &machine.limits;
    Limits {
        vpids: 1,
        velo_bytes: sized.velo_bytes.unwrap_or(Limits::EXTOLL.velo_bytes),
        mailbox_slots: sized.mailbox_slots.unwrap_or(Limits::EXTOLL.mailbox_slots),
        notifications: Limits::EXTOLL.notifications,
        address_tables: (memory_bytes as u64).div_ceil(1 << 30).max(1) as u32,
        tlb_entries: sized.tlb_entries.unwrap_or(0),
        tlb_ways: sized.tlb_ways.unwrap_or(1),
        lock_waiters: sized.lock_waiters.unwrap_or(0),
        ..Limits::NONE
    }
}

pub(super) fn counted(tables: &OwnTables, counter: u32) -> u64 {
    tables.signals().counter(counter).map_or(0, |counter| counter.arrived())
}

pub(super) fn failed(tables: &OwnTables, counter: u32) -> u64 {
    tables.signals().counter(counter).map_or(0, |counter| counter.failure.load(Ordering::Acquire))
}
