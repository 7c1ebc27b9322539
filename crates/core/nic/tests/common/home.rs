// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A home for tests: a NIC in one zeroed piece of heap memory, and a bus over plain vectors of bytes.
//!
//! The memory is laid out by [`Layout`], as in a segment, so that tests can compare, copy and spoil it word by word.

use std::slice;
use std::sync::atomic::AtomicU64;

use super::watch;
use selvedge_nic::layout::BLOCK_BYTES;
use selvedge_nic::tap::Tapped;
use selvedge_nic::{Bus, Fault, Layout, Limits, Nic, Signals, Step, Tables};

/// Limits so small that every table fills up within a short history.
pub const TINY: Limits = Limits {
    entries: 8,
    headers: 4,
    descriptors: 2,
    counters: 2,
    queues: 1,
    portals: 2,
    triggered: 4,
    iovecs: 8,
    list: 6,
    short_list: 2,
    pending: 2,
    heap_blocks: 64,
    heap_blocks_max: 64,
    ..Limits::NONE
};

/// 128 bytes, aligned as the tables are.
#[repr(C, align(128))]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Line(pub [u64; 16]);

/// A NIC's memory.
#[derive(Clone)]
pub struct Home {
    pub layout: Layout,
    pub memory: Vec<Line>,
}

impl Home {
    /// A fresh NIC.
    pub fn new(limits: &Limits) -> Home {
        let layout = Layout::new(limits, 0);
        let memory = vec![Line([0; 16]); layout.initial_bytes().div_ceil(BLOCK_BYTES) as usize];
        let mut home = Home { layout, memory };
        home.nic().format(limits);
        home
    }

    /// All words of the memory.
    pub fn words(&mut self) -> &mut [u64] {
        self.memory.as_flattened_words()
    }

    /// The NIC.
    pub fn nic(&mut self) -> Nic<'_> {
        let base = self.memory.as_mut_ptr().cast::<u8>();
        let (layout, limits) = (self.layout, self.layout.limits);
        macro_rules! records {
            ($offset:ident, $count:expr) => {
                // SAFETY: the layout's ranges are aligned, disjoint and inside of the memory, which is borrowed for as
                // long as the result; any bit pattern is a value of the records.
                unsafe { slice::from_raw_parts_mut(base.add(layout.$offset as usize).cast(), $count as usize) }
            };
        }
        macro_rules! atomics {
            ($offset:ident, $count:expr) => {
                // SAFETY: as above.
                unsafe { slice::from_raw_parts(base.add(layout.$offset as usize).cast(), $count as usize) }
            };
        }
        // SAFETY: as above.
        let (control, blocked, doorbell, registers) = unsafe {
            (
                &mut *base.add(layout.control as usize).cast(),
                &mut *base.add(layout.blocked as usize).cast(),
                &*base.add(layout.doorbell as usize).cast(),
                &*base.add(layout.registers as usize).cast(),
            )
        };
        let heap: &[AtomicU64] = atomics!(heap, limits.heap_blocks * 16);
        Nic {
            signals: Signals {
                doorbell,
                registers,
                counters: atomics!(counters, limits.counters),
                queues: atomics!(queues, limits.queues),
                descriptors: atomics!(descriptors, limits.descriptors),
                heap,
                grants: atomics!(grants, selvedge_nic::signals::GRANTS),
                port_pointers: atomics!(port_pointers, limits.vpids),
                mailboxes: atomics!(mailboxes, limits.vpids * limits.mailbox_slots * 8),
                notifications: atomics!(notifications, limits.vpids * limits.notifications * 2),
                encodings: layout.encodings,
            },
            tables: Tables {
                control,
                portals: records!(portals, limits.portals),
                short_lists: records!(short_lists, limits.portals * limits.short_list),
                entries: records!(entries, limits.entries),
                entry_buckets: records!(entry_buckets, layout.entry_bucket_count),
                headers: records!(headers, limits.headers),
                header_buckets: records!(header_buckets, layout.header_bucket_count),
                folded: selvedge_nic::tables::Folded::NONE,
                triggered: records!(triggered, limits.triggered),
                counters: records!(counter_books, limits.counters),
                queues: records!(queue_books, limits.queues),
                pending: records!(pending, limits.pending),
                ports: records!(ports, limits.vpids),
                locks: records!(locks, limits.vpids * 1024),
                lock_waiters: records!(lock_waiters, limits.lock_waiters),
                blocked: Some(blocked),
                memberships: records!(memberships, limits.memberships),
                started: records!(started, limits.started()),
                tlb: records!(tlb, limits.tlb_entries),
                address_tables: records!(address_tables, limits.address_tables << 18),
                tlb_ways: limits.tlb_ways,
                velo_bytes: limits.velo_bytes,
                heap_map: records!(heap_map, layout.heap_map_words),
                list_max: limits.list,
                short_list: limits.short_list,
            },
            tap: Tapped::default(),
        }
    }
}

trait Words {
    fn as_flattened_words(&mut self) -> &mut [u64];
}

impl Words for Vec<Line> {
    fn as_flattened_words(&mut self) -> &mut [u64] {
        // SAFETY: a line is 16 words without padding.
        unsafe { slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len() * 16) }
    }
}

/// Start of the target's memory.
pub const MEMORY_AT: u64 = 0x10_000;
/// Bytes of the target's memory.
pub const MEMORY_BYTES: usize = 256;
/// An address without mapped memory.
pub const NOWHERE: u64 = 0x9000_0000;

/// The memories of both ends of a request.
#[derive(Clone)]
pub struct TestBus {
    /// The target's memory, from [`MEMORY_AT`].
    pub memory: Vec<u8>,
    pub payload: Vec<u8>,
    pub reply: Vec<u8>,
    /// Whether both memories are mapped, for [`Bus::put_mapped`].
    pub mapped: bool,
    pub reachable: bool,
    /// The initiator's memory fails with this fault.
    pub initiator_fault: Option<Fault>,
    /// Calls until one panics, in place of the death of the process.
    pub calls_left: Option<u64>,
    pub calls: u64,
    pub searched: u64,
}

impl Default for TestBus {
    fn default() -> Self {
        TestBus {
            memory: vec![0; MEMORY_BYTES],
            payload: Vec::new(),
            reply: Vec::new(),
            mapped: false,
            reachable: true,
            initiator_fault: None,
            calls_left: None,
            calls: 0,
            searched: 0,
        }
    }
}

/// The panic of a simulated death.
pub struct Died;

impl TestBus {
    fn step(&mut self) {
        self.calls += 1;
        if let Some(left) = &mut self.calls_left {
            if *left == 0 {
                std::panic::resume_unwind(Box::new(Died));
            }
            *left -= 1;
        }
    }

    fn target(&mut self, address: u64, bytes: u64) -> Result<&mut [u8], Fault> {
        let at = address.checked_sub(MEMORY_AT).ok_or(Fault::Target)?;
        let end = at.checked_add(bytes).ok_or(Fault::Target)?;
        let range = usize::try_from(at).map_err(|_| Fault::Target)?..usize::try_from(end).map_err(|_| Fault::Target)?;
        self.memory.get_mut(range).ok_or(Fault::Target)
    }

    fn payload_at(&self, offset: u64, bytes: u64) -> Result<Vec<u8>, Fault> {
        if let Some(fault) = self.initiator_fault {
            return Err(fault);
        }
        let end = offset.checked_add(bytes).ok_or(Fault::Initiator)?;
        let range = usize::try_from(offset).map_err(|_| Fault::Initiator)?
            ..usize::try_from(end).map_err(|_| Fault::Initiator)?;
        Ok(self.payload.get(range).ok_or(Fault::Initiator)?.to_vec())
    }

    fn reply_at(&mut self, offset: u64, from: &[u8]) -> Result<(), Fault> {
        if let Some(fault) = self.initiator_fault {
            return Err(fault);
        }
        let at = usize::try_from(offset).map_err(|_| Fault::Initiator)?;
        let end = at.checked_add(from.len()).filter(|&end| end <= 1 << 20).ok_or(Fault::Initiator)?;
        if self.reply.len() < end {
            self.reply.resize(end, 0);
        }
        self.reply[at..end].copy_from_slice(from);
        Ok(())
    }
}

impl Bus for TestBus {
    fn reaches(&mut self, _: u64, _: u64) -> bool {
        let _outside = watch::outside();
        self.step();
        self.reachable
    }

    fn put_mapped(&mut self, payload_offset: u64, address: u64, bytes: u64) -> bool {
        let _outside = watch::outside();
        self.step();
        if !self.mapped {
            return false;
        }
        if bytes == 0 {
            return true;
        }
        let Ok(from) = self.payload_at(payload_offset, bytes) else { return false };
        let Ok(to) = self.target(address, bytes) else { return false };
        to.copy_from_slice(&from);
        true
    }

    fn put(&mut self, payload_offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
        let _outside = watch::outside();
        self.step();
        let from = self.payload_at(payload_offset, bytes)?;
        self.target(address, bytes)?.copy_from_slice(&from);
        Ok(())
    }

    fn get(&mut self, address: u64, reply_offset: u64, bytes: u64) -> Result<(), Fault> {
        let _outside = watch::outside();
        self.step();
        if let Some(fault) = self.initiator_fault {
            return Err(fault);
        }
        let from = self.target(address, bytes)?.to_vec();
        self.reply_at(reply_offset, &from)
    }

    fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Fault> {
        let _outside = watch::outside();
        self.step();
        into.copy_from_slice(self.target(address, into.len() as u64)?);
        Ok(())
    }

    fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Fault> {
        let _outside = watch::outside();
        self.step();
        self.target(address, from.len() as u64)?.copy_from_slice(from);
        Ok(())
    }

    fn payload(&mut self, payload_offset: u64, into: &mut [u8]) -> Result<(), Fault> {
        let _outside = watch::outside();
        self.step();
        into.copy_from_slice(&self.payload_at(payload_offset, into.len() as u64)?);
        Ok(())
    }

    fn reply(&mut self, reply_offset: u64, from: &[u8]) -> Result<(), Fault> {
        let _outside = watch::outside();
        self.step();
        self.reply_at(reply_offset, from)
    }

    fn charge(&mut self, step: Step) {
        let _outside = watch::outside();
        self.step();
        if step == Step::EntrySearched {
            self.searched += 1;
        }
    }
}
