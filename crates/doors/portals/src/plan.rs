// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A checked operation: its memory, its target and its command (Portals 4.3, "Data Movement Operations").
//!
//! Invariant: an operation whose own memory is not mapped is refused (`PTL_ARG_INVALID`) before it has any effect.

use std::ffi::c_void;

use selvedge_process::nic::arithmetic::{Datatype, Operation};
use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::descriptor::DescriptorView;
use selvedge_process::nic::portals::operation::{Family, allowed};
use selvedge_process::nic::portals::{ack, options};
use selvedge_process::nic::tables::{Command, Request, Side, kind};

use crate::abi::Process;
use crate::codes::{Code, Outcome, code};
use crate::route_cache::RouteKey;
use crate::state::{Kind, Ni, find};

/// The target of an operation: process, portal table index, match bits and offset.
#[derive(Clone, Copy)]
pub(crate) struct Target {
    pub process: Process,
    pub pt_index: u32,
    pub match_bits: u64,
    pub remote_offset: u64,
}

impl Target {
    /// Makes the checks common to all operations. Returns the target's nid << 32 | pid.
    #[inline(always)]
    pub fn check(&self, ni: &Ni, length: u64) -> Outcome<u64> {
        if self.pt_index > ni.limits.max_pt_index as u32 || length > ni.limits.max_msg_size {
            return Err(Code::ArgInvalid);
        }
        ni.physical(self.process)
    }

    /// The key of the cached route of a put to this target.
    #[inline(always)]
    pub fn route_key(&self, ni: &Ni, md_handle: u32, ack: u8) -> RouteKey {
        let process = u64::from(self.process.pid) << 32 | u64::from(self.process.nid);
        RouteKey { md_handle, pt_index: self.pt_index, process, map: ni.map_pointer(), ack }
    }
}

/// The words that return with an operation's events, and the acknowledgement requested.
#[derive(Clone, Copy)]
pub(crate) struct Tag {
    pub user_ptr: u64,
    pub hdr_data: u64,
    pub ack: u8,
}

/// A memory descriptor, and the part of it that an operation reads or writes.
pub(crate) struct DescriptorPart {
    pub ni: &'static Ni,
    pub view: DescriptorView,
    pub side: Side,
}

impl DescriptorPart {
    #[inline(always)]
    pub fn of(md_handle: u32, offset: u64, length: u64) -> Outcome<DescriptorPart> {
        let (ni, reference) = find(md_handle, Kind::Md)?;
        let view = ni.interface().signals().descriptor(reference).ok_or(Code::ArgInvalid)?;
        if offset.checked_add(length).is_none_or(|end| end > view.length) {
            return Err(Code::ArgInvalid);
        }
        let start = if view.iov == NONE { view.start.wrapping_add(offset) } else { offset };
        let side = Side {
            start,
            iov: view.iov,
            iov_count: view.iov_count,
            options: view.options,
            queue: view.queue,
            counter: view.counter,
            reserved: 0,
        };
        Ok(DescriptorPart { ni, view, side })
    }

    /// The checked memory of a put.
    #[inline(always)]
    pub fn of_put(md: u32, offset: u64, length: u64, ack: u8) -> Outcome<DescriptorPart> {
        let part = DescriptorPart::of(md, offset, length)?;
        part.check_ack(ack)?;
        part.check_volatile(length)?;
        Ok(part)
    }

    /// Refuses a message beyond `max_volatile_size` from a descriptor whose buffer may change as soon as the call returns.
    #[inline(always)]
    pub fn check_volatile(&self, length: u64) -> Outcome {
        let volatile = self.view.options & options::MD_VOLATILE != 0;
        if volatile && length > self.ni.limits.max_volatile_size { Err(Code::ArgInvalid) } else { Ok(()) }
    }

    /// Refuses an acknowledgement for which the descriptor has no counter or queue.
    #[inline(always)]
    pub fn check_ack(&self, wanted: u8) -> Outcome {
        let missing = match wanted {
            ack::NONE => false,
            ack::FULL => self.view.queue == NONE,
            ack::COUNTING => self.view.counter == NONE,
            ack::OPERATION_COMPLETED => false,
            _ => true,
        };
        let unreliable = wanted != ack::NONE && self.view.options & options::MD_UNRELIABLE != 0;
        if missing || unreliable { Err(Code::ArgInvalid) } else { Ok(()) }
    }
}

/// A checked operation, with the memory of its descriptors.
pub(crate) struct Plan {
    pub ni: &'static Ni,
    pub kind: u8,
    pub physical: u64,
    pub source: Side,
    pub sink: Side,
    pub arithmetic: Arithmetic,
    pub operand: [u64; 4],
}

#[derive(Clone, Copy)]
pub(crate) struct Arithmetic {
    pub operation: u8,
    pub datatype: u8,
}

const NO_ARITHMETIC: Arithmetic = Arithmetic { operation: 0, datatype: 0 };

/// The two descriptors of a fetching operation, and the offsets into them.
pub(crate) struct FetchDescriptors {
    pub get: (u32, u64),
    pub put: (u32, u64),
}

impl Plan {
    #[inline(always)]
    fn new(ni: &'static Ni, kind: u8, length: u64, target: &Target) -> Outcome<Plan> {
        Ok(Plan::to(ni, kind, target.check(ni, length)?))
    }

    /// A plan for a checked target.
    #[inline(always)]
    pub fn to(ni: &'static Ni, kind: u8, physical: u64) -> Plan {
        let (source, sink, arithmetic) = (Side::NOWHERE, Side::NOWHERE, NO_ARITHMETIC);
        Plan { ni, kind, physical, source, sink, arithmetic, operand: [0; 4] }
    }

    pub fn put(md: u32, offset: u64, length: u64, target: &Target, tag: &Tag) -> Outcome<Plan> {
        let part = DescriptorPart::of_put(md, offset, length, tag.ack)?;
        Ok(Plan { source: part.side, ..Plan::new(part.ni, kind::PUT, length, target)? })
    }

    #[inline(always)]
    pub fn get(md: u32, offset: u64, length: u64, target: &Target) -> Outcome<Plan> {
        let part = DescriptorPart::of(md, offset, length)?;
        Ok(Plan { sink: part.side, ..Plan::new(part.ni, kind::GET, length, target)? })
    }

    pub fn atomic(
        (md, offset): (u32, u64),
        length: u64,
        target: &Target,
        tag: &Tag,
        arithmetic: Arithmetic,
    ) -> Outcome<Plan> {
        let part = DescriptorPart::of(md, offset, length)?;
        part.check_ack(tag.ack)?;
        part.check_volatile(length)?;
        check_atomic(Family::Atomic, arithmetic, length, part.ni.limits.max_atomic_size)?;
        Ok(Plan { source: part.side, arithmetic, ..Plan::new(part.ni, kind::ATOMIC, length, target)? })
    }

    pub fn fetch(
        kind: u8,
        descriptors: &FetchDescriptors,
        length: u64,
        target: &Target,
        arithmetic: Arithmetic,
    ) -> Outcome<Plan> {
        let sink = DescriptorPart::of(descriptors.get.0, descriptors.get.1, length)?;
        let source = DescriptorPart::of(descriptors.put.0, descriptors.put.1, length)?;
        if sink.ni.number != source.ni.number {
            return Err(Code::ArgInvalid);
        }
        let family = if kind == kind::SWAP { Family::Swap } else { Family::FetchAtomic };
        check_atomic(family, arithmetic, length, sink.ni.limits.max_fetch_atomic_size)?;
        Ok(Plan { source: source.side, sink: sink.side, arithmetic, ..Plan::new(sink.ni, kind, length, target)? })
    }

    pub fn swap(
        descriptors: &FetchDescriptors,
        length: u64,
        target: &Target,
        operand: *const c_void,
        arithmetic: Arithmetic,
    ) -> Outcome<Plan> {
        let mut plan = Plan::fetch(kind::SWAP, descriptors, length, target, arithmetic)?;
        if arithmetic.operation != Operation::Swap as u8 {
            let size = Datatype::from_u32(arithmetic.datatype.into()).ok_or(Code::ArgInvalid)?.size_bytes();
            let readable = !operand.is_null() && selvedge_process::memory_is_readable(operand as u64, size as u64);
            if length > size as u64 || !readable {
                return Err(Code::ArgInvalid);
            }
            let mut bytes = [0u8; 32];
            // SAFETY: `size` bytes at `operand` were just found readable, and at most 32 of them are copied into 32. The clause of `PtlSwap`
            // gives the call one item there.
            unsafe { std::ptr::copy_nonoverlapping(operand.cast::<u8>(), bytes.as_mut_ptr(), size.min(32)) };
            for (word, eight) in plan.operand.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(eight.try_into().unwrap_or_default());
            }
        }
        Ok(plan)
    }

    /// The command of the plan. Each field is written once, directly into the result.
    #[inline(always)]
    pub fn command(&self, length: u64, target: &Target, tag: &Tag) -> Command {
        Command {
            request: Request {
                kind: self.kind,
                operation: self.arithmetic.operation,
                datatype: self.arithmetic.datatype,
                ack: tag.ack,
                portal: target.pt_index,
                uid: self.ni.uid,
                lookups: 0,
                initiator: self.ni.initiator_id(),
                match_bits: target.match_bits,
                remote_offset: target.remote_offset,
                header_data: tag.hdr_data,
                length,
                operand: self.operand,
            },
            target: self.physical,
            user_ptr: tag.user_ptr,
            source: self.source,
            sink: self.sink,
        }
    }
}

#[inline(always)]
pub(crate) fn start(plan: Outcome<Plan>, length: u64, target: &Target, tag: &Tag) -> i32 {
    match plan {
        Ok(plan) => {
            let command = plan.command(length, target, tag);
            code(plan.ni.interface().start(&command).map_err(Code::from))
        }
        Err(error) => error as i32,
    }
}

/// Refuses an operation on a datatype that does not allow it, and lengths beyond `most` or with a partial item.
fn check_atomic(family: Family, arithmetic: Arithmetic, length: u64, most: u64) -> Outcome {
    let operation = Operation::from_u32(arithmetic.operation.into()).ok_or(Code::ArgInvalid)?;
    let datatype = Datatype::from_u32(arithmetic.datatype.into()).ok_or(Code::ArgInvalid)?;
    let fits = length <= most && length % datatype.size_bytes() as u64 == 0;
    if allowed(family, operation, datatype) && fits { Ok(()) } else { Err(Code::ArgInvalid) }
}
