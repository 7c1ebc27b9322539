// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A command at its target: the completer writes puts, the responder reads for gets and carries out locks.
//!
//! A whole range is checked, for translation and for reach by this process, before any byte of it moves. So no journal
//! is needed: a process that dies in the middle of a put leaves bytes of a put that was never notified.
//!
//! Cost of a put within one page run: one translation, one copy, one notification.

use super::command::{code, mode, spec};
use super::descriptor::BYTES_MAX;
use super::locks::{LockRequest, LockVerdict, Locks};
use super::notification::lock_word;
use super::requester::Rma;
use crate::atu::{Access, TranslationFault};
use crate::bus::{Bus, Fault};
use crate::portals::constants::fail;
use crate::portals::delivery::{Delivery, Verdict};
use crate::registers::Register;
use crate::tables::{BlockedHead, Request, blocked, kind};

/// Reasons for which a range of the target's memory is not accessed.
enum Refusal {
    /// The range is not registered, not for this VPID, or not for this access.
    Fault,
    /// This process cannot reach the range.
    Unreachable,
    /// The range, or the initiator's memory, cannot be read or written.
    Bus(Fault),
}

impl From<TranslationFault> for Refusal {
    fn from(_: TranslationFault) -> Refusal {
        Refusal::Fault
    }
}

impl Rma<'_, '_> {
    pub(crate) fn receive<B: Bus>(&mut self, bus: &mut B, request: &Request) -> Verdict {
        let vpid = request.destination_vpid();
        if !self.notifications().is_open(vpid) {
            let (target, ports) = (request.destination_node().into(), (vpid.into(), request.source_vpid().into()));
            if let Some(heads) = self.tables.blocked.as_deref_mut() {
                heads.push(&BlockedHead::of(request, target, ports, blocked::CLOSED));
            }
            return Verdict::Done(Delivery::failed(fail::UNDELIVERABLE));
        }
        let moves = matches!(request.kind, kind::RMA_PUT | kind::RMA_GET | kind::RMA_IMMEDIATE_PUT);
        if moves && !(1..=BYTES_MAX.into()).contains(&request.length) {
            return Verdict::Done(Delivery::failed(fail::SEGV));
        }
        match request.kind {
            kind::RMA_PUT => self.complete_put(bus, vpid, request),
            kind::RMA_IMMEDIATE_PUT => self.complete_immediate(bus, vpid, request),
            kind::RMA_NOTIFICATION_PUT => {
                self.completed(bus, vpid, request);
                Verdict::Done(delivered(0))
            }
            kind::RMA_GET => self.respond_to_get(bus, vpid, request),
            _ => self.respond_to_lock(bus, vpid, request),
        }
    }

    fn complete_put<B: Bus>(&mut self, bus: &mut B, vpid: u16, request: &Request) -> Verdict {
        let bytes = request.length;
        let moved = self.each_run(bus, vpid, request, Access::Write, |bus, at, address, bytes| {
            put_in_order(bus, at, address, bytes)
        });
        if let Err(verdict) = moved {
            return verdict;
        }
        self.signals.registers.add(Register::BytesIn, bytes);
        self.completed(bus, vpid, request);
        Verdict::Done(delivered(bytes))
    }

    fn complete_immediate<B: Bus>(&mut self, bus: &mut B, vpid: u16, request: &Request) -> Verdict {
        let value = request.operand[0].to_le_bytes();
        let bytes = request.length.min(8);
        let request = Request { length: bytes, ..*request };
        let moved = self.each_run(bus, vpid, &request, Access::Write, |bus, at, address, bytes| {
            bus.write(address, &value[at as usize..(at + bytes) as usize])
        });
        if let Err(verdict) = moved {
            return verdict;
        }
        self.signals.registers.add(Register::BytesIn, bytes);
        self.completed(bus, vpid, &request);
        Verdict::Done(delivered(bytes))
    }

    /// Counts a put, and writes its notification at the target.
    fn completed<B: Bus>(&mut self, bus: &mut B, vpid: u16, request: &Request) {
        self.signals.registers.add(Register::CompleterPuts, 1);
        if request.operation & spec::COMPLETER != 0 {
            self.notifications().write(bus, vpid, &request.target_notification(spec::COMPLETER, request.datatype));
        }
    }

    fn respond_to_get<B: Bus>(&mut self, bus: &mut B, vpid: u16, request: &Request) -> Verdict {
        let moved =
            self.each_run(bus, vpid, request, Access::Read, |bus, at, address, bytes| bus.get(address, at, bytes));
        if let Err(verdict) = moved {
            return verdict;
        }
        self.signals.registers.add(Register::BytesOut, request.length);
        self.signals.registers.add(Register::ResponderGets, 1);
        if request.operation & spec::RESPONDER != 0 {
            self.notifications().write(bus, vpid, &request.target_notification(spec::RESPONDER, request.datatype));
        }
        Verdict::Done(delivered(request.length))
    }

    fn respond_to_lock<B: Bus>(&mut self, bus: &mut B, vpid: u16, request: &Request) -> Verdict {
        let Some(lock) = LockRequest::of(request) else { return Verdict::Done(Delivery::failed(fail::SEGV)) };
        if request.withdraws() {
            Locks::of(self.tables, self.signals).withdraw(request);
            return Verdict::Done(delivered(0));
        }
        let result = match Locks::of(self.tables, self.signals).request_of_command(bus, request, &lock) {
            Ok(LockVerdict::Answered(result)) => result,
            Ok(LockVerdict::Kept) => return Verdict::Kept,
            Err(_) => return Verdict::Done(Delivery::failed(fail::SEGV)),
        };
        self.signals.registers.add(Register::ResponderLocks, 1);
        if request.operation & spec::RESPONDER != 0 {
            let word0 = lock_word(result.value, result.success, lock.number);
            let notification = request.target_notification(spec::RESPONDER, code::LOCK_REQ);
            self.notifications().write(bus, vpid, &super::Notification { word0, ..notification });
        }
        Verdict::Done(result.delivery())
    }

    /// Visits the runs of a request's memory after a check of all: `visit(bus, offset, address, bytes)`.
    fn each_run<B: Bus>(
        &mut self,
        bus: &mut B,
        vpid: u16,
        request: &Request,
        access: Access,
        mut visit: impl FnMut(&mut B, u64, u64, u64) -> Result<(), Fault>,
    ) -> Result<(), Verdict> {
        let bytes = request.length;
        let mut only = None;
        let reached = self.range(bus, vpid, request, access, |bus, address, at, run| {
            only = if at == 0 && run == bytes { Some(address) } else { None };
            if bus.reaches(address, run) { Ok(()) } else { Err(Refusal::Unreachable) }
        });
        let moved = match (reached, only) {
            (Err(refusal), _) => Err(refusal),
            (Ok(()), Some(address)) => visit(bus, 0, address, bytes).map_err(Refusal::Bus),
            // Each walk checks all pages before it visits the first: the TLB may have lost an entry in between.
            (Ok(()), None) => self.range(bus, vpid, request, access, |bus, address, at, run| {
                visit(bus, at, address, run).map_err(Refusal::Bus)
            }),
        };
        moved.map_err(|refusal| match refusal {
            Refusal::Unreachable => Verdict::Unreachable,
            Refusal::Bus(other @ (Fault::Initiator | Fault::Gone)) => Verdict::Initiator(other),
            Refusal::Fault | Refusal::Bus(Fault::Target) => {
                self.signals.registers.add(Register::Segv, 1);
                Verdict::Done(Delivery::failed(fail::SEGV))
            }
        })
    }

    /// Visits the runs of a range, `visit(bus, address, offset, bytes)`, if all of it is accessible.
    fn range<B: Bus>(
        &mut self,
        bus: &mut B,
        vpid: u16,
        request: &Request,
        access: Access,
        mut visit: impl FnMut(&mut B, u64, u64, u64) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let (start, bytes) = (request.remote_offset, request.length);
        if request.mode() & mode::TE != 0 {
            self.atu().translate_all(bus, vpid, start, bytes, access, visit)
        } else if self.tables.ports[usize::from(vpid)].options & super::options::PHYSICAL != 0 {
            if bytes == 0 { Ok(()) } else { visit(bus, start, 0, bytes) }
        } else {
            Err(Refusal::Fault)
        }
    }
}

impl LockRequest {
    pub(super) fn of(request: &Request) -> Option<LockRequest> {
        let [operands, ..] = request.operand;
        Some(LockRequest {
            vpid: request.destination_vpid(),
            number: u32::try_from(request.remote_offset).ok()?,
            compare: (operands >> 32) as i32,
            add: operands as i32,
        })
    }
}

/// Copies payload and stores the last word after all others. Programs poll it, as the device writes in order.
fn put_in_order<B: Bus>(bus: &mut B, offset: u64, address: u64, bytes: u64) -> Result<(), Fault> {
    let last = (address.wrapping_add(bytes).wrapping_sub(1) & !7).saturating_sub(address);
    if last != 0 && last < bytes && bus.put_mapped(offset, address, last) {
        return bus.put(offset + last, address + last, bytes - last);
    }
    bus.put(offset, address, bytes)
}

fn delivered(bytes: u64) -> Delivery {
    Delivery { mlength: bytes, ..Delivery::failed(fail::OK) }
}
