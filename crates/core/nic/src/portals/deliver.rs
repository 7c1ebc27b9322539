// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Handling of a request at its target: match, move the bytes, post the events and counts.
//!
//! Input: a request, and a bus that reaches both memories. Output: the result for the initiator ([`Delivery`]), or the
//! report that this process cannot handle the request, with the state unchanged ([`Verdict`]).
//!
//! Order of effects (a reader that sees one effect sees all earlier ones)
//! 1. the bytes, 2. the entry, the unexpected header, the unlink, 3. the full events, 4. the count.
//!
//! Rules
//! 1. If the portal table entry does not exist, the request is dropped. If it is disabled, the request is refused with
//!    `PTL_NI_PT_DISABLED`.
//! 2. The first match decides. If it forbids the user or the operation, the request fails and nothing changes.
//! 3. With flow control, a request that finds no entry, no free header or no room for its events disables the portal
//!    table entry and is refused. Without flow control it is dropped; if only room for events is missing, it overwrites
//!    the oldest events. A put with another epoch than the portal table entry's is refused as if the entry were
//!    disabled; the response carries the entry's epoch.
//! 4. Memory that is not mapped fails the request with `PTL_NI_SEGV` at both ends. The entry is used all the same.
//!
//! Budget of the persistent path (8 bytes, counter, no events): no system call, no allocation. It touches the lock, the
//! portal table entry, one bucket, the entry, the payload, the counter and two lines of registers.

use super::constants::{event_kind, fail, list, options};
use super::delivery::{Delivery, Verdict};
use super::event::{Event, comm_kind, entry_event};
use super::operation::apply_swap;
use super::plan::Plan;
use super::put::Put;
use super::scatter::Region;
use super::search::Key;
use crate::arithmetic::{Datatype, Operation, apply};
use crate::bus::{Bus, Fault, Step};
use crate::handle::NONE;
use crate::nic::Nic;
use crate::registers::Register;
use crate::tables::{Entry, Intent, PortalEntry, Request, kind, portal};

/// Bytes of an atomic that are computed per step; a multiple of every datatype's size.
const CHUNK_BYTES: usize = 256;

/// The target of requests.
pub struct Target<'n, 'a> {
    pub(crate) nic: &'n mut Nic<'a>,
}

impl Target<'_, '_> {
    /// Handles a request in any process of the job. It records its intent, so that the next holder of the lock can
    /// finish or fail the request if this process dies.
    #[inline(always)]
    pub(crate) fn deliver<B: Bus>(self, bus: &mut B, request: &Request) -> Verdict {
        self.nic.target().deliver_by::<B, false>(bus, request)
    }

    /// [`Target::deliver`] for the NIC's owner. It records no intent: if the owner dies, its NIC ends too.
    #[inline(always)]
    pub(crate) fn deliver_own<B: Bus>(self, bus: &mut B, request: &Request) -> Verdict {
        self.nic.target().deliver_by::<B, true>(bus, request)
    }

    #[inline(always)]
    fn deliver_by<B: Bus, const OWNER: bool>(self, bus: &mut B, request: &Request) -> Verdict {
        let Some(portal_record) = self.nic.tables.portals.get(request.portal as usize) else {
            return self.nic.target().dropped();
        };
        let (status, flags, queue) = (portal_record.status, portal_record.options, portal_record.queue);
        bus.charge(Step::TableAccess);
        if status != portal::ENABLED {
            return if status == portal::DISABLED {
                self.nic.target().refused(request)
            } else {
                self.nic.target().dropped()
            };
        }
        let key = Key::from(request);
        let flow_controlled = flags & options::PT_FLOWCTRL != 0;
        if flow_controlled && request.epoch() != 0 && request.epoch() != portal_record.epoch() {
            return self.nic.target().refused(request);
        }
        let found = match self.nic.match_queue().find_entry(bus, request.portal, 0, &key) {
            Some(found) => Some((found, list::PRIORITY)),
            None => {
                self.nic.match_queue().find_entry(bus, request.portal, 1, &key).map(|found| (found, list::OVERFLOW))
            }
        };
        let Some((found, which)) = found else {
            return self.nic.target().exhausted(request, flow_controlled, false);
        };
        if which == list::PRIORITY && !flow_controlled && request.kind == kind::PUT {
            if let Some(delivery) = self.nic.target().plain_put_to(bus, found, queue, &request.into()) {
                return Verdict::Done(delivery);
            }
        }
        self.nic.target().deliver_to::<B, OWNER>(bus, found.entry, which, flow_controlled, queue, request)
    }

    #[inline(never)]
    fn deliver_to<B: Bus, const OWNER: bool>(
        self,
        bus: &mut B,
        index: u32,
        which: u8,
        flow_controlled: bool,
        queue: u32,
        request: &Request,
    ) -> Verdict {
        let record = self.nic.tables.entries[index as usize];
        if let Some(verdict) = self.nic.target().forbidden(&record, request) {
            return verdict;
        }
        let plan = Plan::new(&record, which, request);
        if plan.keeps_header && self.nic.tables.headers.get(self.nic.tables.control.free_header as usize).is_none() {
            let quiet = record.options & options::EVENT_FLOWCTRL_DISABLE != 0;
            return self.nic.target().exhausted(request, flow_controlled, quiet);
        }
        if flow_controlled && self.nic.tap.is_set() {
            self.nic.queues().show_taken(queue);
        }
        if flow_controlled && self.nic.queues().room(queue) < plan.events {
            let quiet = record.options & options::EVENT_FLOWCTRL_DISABLE != 0;
            return self.nic.target().exhausted(request, true, quiet);
        }
        let region = Region { start: record.start, iov: record.iov, iov_count: record.iov_count };
        let reached =
            region.pieces(self.nic.signals.heap, plan.offset, plan.mlength, Fault::Target, |address, _, bytes| {
                if bus.reaches(address, bytes) { Ok(()) } else { Err(Fault::Gone) }
            });
        if reached == Err(Fault::Gone) {
            return Verdict::Unreachable;
        }
        // The stored header, and the unlinked entry.
        for _ in 0..u32::from(plan.keeps_header) + u32::from(plan.unlinks) {
            bus.charge(Step::TableAccess);
        }
        if !OWNER {
            let counted = self.nic.counters().total(record.counter);
            let intent = Intent {
                list: plan.list,
                offset: plan.offset,
                kind: request.kind,
                operation: request.operation,
                datatype: request.datatype,
                ..Put::from(request).intent(index, plan.mlength)
            };
            let tail = self.nic.queues().tail(queue);
            self.nic.tables.control.record_intent(1, tail, counted, intent);
        }
        let fail = match self.nic.target().transfer(bus, region, &plan, request) {
            Ok(()) => fail::OK,
            Err(Fault::Target) => {
                self.nic.signals.registers.add(Register::Segv, 1);
                fail::SEGV
            }
            Err(fault) => {
                self.nic.tables.control.set_stage(0);
                return Verdict::Initiator(fault);
            }
        };
        if !OWNER {
            self.nic.tables.control.intent.fail = fail;
            self.nic.tables.control.set_stage(2);
        }
        self.nic.target().commit(bus, index, queue, &plan, request, fail)
    }

    /// Updates the entry, the header and the unlink; then posts events and counts.
    #[inline]
    fn commit<B: Bus>(self, bus: &mut B, index: u32, queue: u32, plan: &Plan, request: &Request, fail: u8) -> Verdict {
        let mlength = if fail == fail::OK { plan.mlength } else { 0 };
        let record = &mut self.nic.tables.entries[index as usize];
        if record.options & options::MANAGE_LOCAL != 0 {
            record.local_offset = record.local_offset.wrapping_add(plan.mlength);
        }
        let record = *record;
        let region = Region { start: record.start, iov: record.iov, iov_count: record.iov_count };
        let start = if record.iov == NONE {
            record.start.wrapping_add(plan.offset)
        } else {
            region.address_at(self.nic.signals.heap, plan.offset)
        };
        if plan.keeps_header {
            self.nic.lists().keep_header(index, start, mlength, request);
        }
        if plan.unlinks {
            self.nic.lists().auto_unlink(index);
        }
        let event = Event {
            start,
            user_ptr: record.user_ptr,
            header_data: request.header_data,
            match_bits: request.match_bits,
            rlength: request.length,
            mlength,
            remote_offset: request.remote_offset,
            initiator: request.initiator,
            uid: request.uid,
            portal: request.portal,
            kind: comm_kind(request.kind),
            list: plan.list,
            fail,
            operation: request.operation,
            datatype: request.datatype,
        };
        self.nic.target().report(bus, queue, &record, plan.unlinks, &event);
        if plan.unlinks {
            self.nic.lists().after_unlink(index, plan.list);
        }
        self.nic.tables.control.set_stage(0);
        let registers = self.nic.signals.registers;
        registers.add(Register::Requests, 1);
        let matched = if plan.list == list::PRIORITY { Register::MatchedPriority } else { Register::MatchedOverflow };
        registers.add(matched, 1);
        if plan.mlength < request.length && request.token() == 0 {
            registers.add(Register::Truncated, 1);
        }
        match request.kind {
            kind::GET => registers.add(Register::BytesOut, mlength),
            _ => registers.add(Register::BytesIn, mlength),
        }
        let ack_disabled = record.options & options::ACK_DISABLE != 0;
        Verdict::Done(Delivery { fail, mlength, remote_offset: plan.offset, ack_disabled, list: plan.list })
    }

    /// Posts the full event and AUTO_UNLINK, then counts.
    #[inline]
    pub(super) fn report<B: Bus>(self, bus: &mut B, queue: u32, record: &Entry, unlinks: bool, event: &Event) {
        if queue != NONE {
            let wanted = record.options & options::EVENT_COMM_DISABLE == 0
                && (event.fail != fail::OK || record.options & options::EVENT_SUCCESS_DISABLE == 0);
            if wanted {
                bus.charge(Step::EventPosted);
                self.nic.queues().post(queue, event);
            }
            if unlinks && record.options & options::EVENT_UNLINK_DISABLE == 0 {
                self.nic.queues().post(queue, &entry_event(record, event_kind::AUTO_UNLINK, event.list));
            }
        }
        if record.options & options::EVENT_CT_COMM != 0 {
            bus.charge(Step::CounterUpdated);
            let in_bytes = record.options & options::EVENT_CT_BYTES != 0;
            self.nic.counters().count_outcome(record.counter, event.fail == fail::OK, in_bytes, event.mlength);
        }
    }

    #[inline]
    fn transfer<B: Bus>(self, bus: &mut B, region: Region, plan: &Plan, request: &Request) -> Result<(), Fault> {
        if plan.mlength == 0 {
            return Ok(());
        }
        bus.charge(Step::Transfer(plan.mlength));
        let heap = self.nic.signals.heap;
        match request.kind {
            kind::PUT => region.pieces(heap, plan.offset, plan.mlength, Fault::Target, |address, at, bytes| {
                bus.put(at, address, bytes)
            }),
            kind::GET => region.pieces(heap, plan.offset, plan.mlength, Fault::Target, |address, at, bytes| {
                bus.get(address, at, bytes)
            }),
            _ => self.nic.target().transfer_atomic(bus, region, plan, request),
        }
    }

    /// Reads, computes and writes, one chunk at a time. Fetched values go to the reply.
    fn transfer_atomic<B: Bus>(self, bus: &mut B, region: Region, plan: &Plan, request: &Request) -> Result<(), Fault> {
        let (Some(operation), Some(datatype)) =
            (Operation::from_u32(u32::from(request.operation)), Datatype::from_u32(u32::from(request.datatype)))
        else {
            return Err(Fault::Initiator);
        };
        let heap = self.nic.signals.heap;
        let mut done = 0;
        while done < plan.mlength {
            let bytes = (plan.mlength - done).min(CHUNK_BYTES as u64) as usize;
            let offset = plan.offset + done;
            let (mut target, mut operand) = ([0u8; CHUNK_BYTES], [0u8; CHUNK_BYTES]);
            bus.payload(done, &mut operand[..bytes])?;
            region.pieces(heap, offset, bytes as u64, Fault::Target, |address, at, length| {
                bus.read(address, &mut target[at as usize..(at + length) as usize])
            })?;
            if request.kind != kind::ATOMIC {
                bus.reply(done, &target[..bytes])?;
            }
            let written = if request.kind == kind::SWAP && operation != Operation::Swap {
                let mut comparand = [0u8; Datatype::SIZE_BYTES_MAX];
                for (slot, word) in comparand.chunks_exact_mut(8).zip(request.operand) {
                    slot.copy_from_slice(&word.to_le_bytes());
                }
                let size = datatype.size_bytes().min(bytes);
                apply_swap(operation, datatype, &mut target[..size], &operand[..size], &comparand[..size])
            } else {
                apply(operation, datatype, &mut target[..bytes], &operand[..bytes]);
                true
            };
            if written {
                region.pieces(heap, offset, bytes as u64, Fault::Target, |address, at, length| {
                    bus.write(address, &target[at as usize..(at + length) as usize])
                })?;
            }
            done += bytes as u64;
        }
        Ok(())
    }

    #[inline]
    fn forbidden(self, record: &Entry, request: &Request) -> Option<Verdict> {
        if record.uid != u32::MAX && record.uid != request.uid {
            self.nic.signals.registers.add(Register::Requests, 1);
            self.nic.signals.registers.add(Register::PermissionViolations, 1);
            return Some(Verdict::Done(Delivery::failed(fail::PERM_VIOLATION)));
        }
        let needed = match request.kind {
            kind::PUT | kind::ATOMIC => options::OP_PUT,
            kind::GET => options::OP_GET,
            _ => options::OP_PUT | options::OP_GET,
        };
        if record.options & needed != needed {
            self.nic.signals.registers.add(Register::Requests, 1);
            self.nic.signals.registers.add(Register::OperationViolations, 1);
            return Some(Verdict::Done(Delivery::failed(fail::OP_VIOLATION)));
        }
        None
    }

    fn dropped(self) -> Verdict {
        self.nic.signals.registers.add(Register::Requests, 1);
        self.nic.signals.registers.add(Register::Dropped, 1);
        Verdict::Done(Delivery::failed(fail::DROPPED))
    }

    fn refused(self, request: &Request) -> Verdict {
        self.nic.signals.registers.add(Register::Requests, 1);
        self.nic.signals.registers.add(Register::RefusedDisabled, 1);
        let epoch = self.nic.tables.portals.get(request.portal as usize).map_or(0, PortalEntry::epoch);
        let remote_offset = if request.epoch() == 0 { 0 } else { epoch };
        Verdict::Done(Delivery { remote_offset, ..Delivery::failed(fail::PT_DISABLED) })
    }

    /// Handles the lack of an entry, a header or event space.
    fn exhausted(self, request: &Request, flow_controlled: bool, quiet: bool) -> Verdict {
        if !flow_controlled {
            return self.nic.target().dropped();
        }
        self.nic.queues().disable_portal(request.portal, quiet);
        self.nic.target().refused(request)
    }
}
