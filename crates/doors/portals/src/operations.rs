// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Put, get, atomics and swaps, at once and triggered (Portals 4.3, "Data Movement Operations", "Triggered
//! Operations").
//!
//! A call checks its arguments, makes a [`Command`] from them and from the descriptors, and starts it or arms it on a counter.
//!
//! A put has three paths, tried in this order:
//! 1. over a cached route ([`selvedge_transport::route_cache`]), where an earlier put with the same key has found one;
//! 2. without a command, where the initiator gets counting events at most and the target's memory is directly mapped;
//! 3. by a command, as all other operations go.
//!
//! Invariants
//! 1. An operation whose own memory is not mapped is refused (`PTL_ARG_INVALID`) before it has any effect.
//! 2. The paths of a put have the same effects and events; they differ in cost only.

use std::ffi::c_void;

use selvedge_transport::nic::arithmetic::{Datatype, Operation};
use selvedge_transport::nic::handle::NONE;
use selvedge_transport::nic::portals::descriptor::DescriptorView;
use selvedge_transport::nic::portals::operation::{Family, allowed};
use selvedge_transport::nic::portals::triggered::Action;
use selvedge_transport::nic::portals::{Put, ack, options};
use selvedge_transport::nic::tables::{Command, Request, Side, kind};
use selvedge_transport::{Counts, LockedRoute, PutOutcome};

use crate::abi::{CtEvent, Me, Process};
use crate::codes::{Code, Outcome, code};
use crate::lists::Draft;
use crate::state::{Kind, Ni, REFERENCE, find, find_ni, initialised, open_interface, out};
use selvedge_transport::route_cache::{Origin, PutRoute, RouteKey};

/// The target of an operation: process, portal table index, match bits and offset.
#[derive(Clone, Copy)]
struct Target {
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
}

impl Target {
    /// Checks what all kinds of operations have in common; returns the target's nid << 32 | pid.
    #[inline(always)]
    fn check(&self, ni: &Ni, length: u64) -> Outcome<u64> {
        if self.pt_index > ni.limits.max_pt_index as u32 || length > ni.limits.max_msg_size {
            return Err(Code::ArgInvalid);
        }
        ni.physical(self.process)
    }

    /// The key under which the route of a put here is cached.
    #[inline(always)]
    fn route_key(&self, ni: &Ni, md_handle: u32, ack: u8) -> RouteKey {
        let process = u64::from(self.process.pid) << 32 | u64::from(self.process.nid);
        RouteKey { md_handle, pt_index: self.pt_index, process, map: ni.map_pointer(), ack }
    }
}

/// The words that an operation carries back to its events, and the acknowledgement that it asks for.
#[derive(Clone, Copy)]
struct Tag {
    user_ptr: u64,
    hdr_data: u64,
    ack: u8,
}

/// A memory descriptor, and the part of it that an operation reads or writes.
struct Part {
    ni: &'static Ni,
    view: DescriptorView,
    side: Side,
}

impl Part {
    #[inline(always)]
    fn of(md_handle: u32, offset: u64, length: u64) -> Outcome<Part> {
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
        Ok(Part { ni, view, side })
    }

    /// Refuses a message beyond `max_volatile_size` from a descriptor whose buffer may change as soon as the call returns.
    #[inline(always)]
    fn check_volatile(&self, length: u64) -> Outcome {
        let volatile = self.view.options & options::MD_VOLATILE != 0;
        if volatile && length > self.ni.limits.max_volatile_size { Err(Code::ArgInvalid) } else { Ok(()) }
    }

    /// Refuses an acknowledgement that the descriptor has no place for.
    #[inline(always)]
    fn check_ack(&self, wanted: u8) -> Outcome {
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
struct Plan {
    ni: &'static Ni,
    kind: u8,
    physical: u64,
    source: Side,
    sink: Side,
    what: Arithmetic,
    operand: [u64; 4],
}

/// Operation and datatype of an atomic.
#[derive(Clone, Copy)]
struct Arithmetic {
    operation: u8,
    datatype: u8,
}

/// Of operations that are not atomics.
const NO_ARITHMETIC: Arithmetic = Arithmetic { operation: 0, datatype: 0 };

impl Plan {
    #[inline(always)]
    fn new(ni: &'static Ni, kind: u8, length: u64, target: &Target) -> Outcome<Plan> {
        Ok(Plan::to(ni, kind, target.check(ni, length)?))
    }

    /// A plan for a checked target.
    #[inline(always)]
    fn to(ni: &'static Ni, kind: u8, physical: u64) -> Plan {
        let (source, sink, what) = (Side::NOWHERE, Side::NOWHERE, NO_ARITHMETIC);
        Plan { ni, kind, physical, source, sink, what, operand: [0; 4] }
    }

    /// The command of the plan. Each field is written once, directly into the result.
    #[inline(always)]
    fn command(&self, length: u64, target: &Target, tag: &Tag) -> Command {
        Command {
            request: Request {
                kind: self.kind,
                operation: self.what.operation,
                datatype: self.what.datatype,
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

/// The checked memory of a put.
#[inline(always)]
fn put_part(md: u32, offset: u64, length: u64, ack: u8) -> Outcome<Part> {
    let part = Part::of(md, offset, length)?;
    part.check_ack(ack)?;
    part.check_volatile(length)?;
    Ok(part)
}

fn put(md: u32, offset: u64, length: u64, target: &Target, tag: &Tag) -> Outcome<Plan> {
    let part = put_part(md, offset, length, tag.ack)?;
    Ok(Plan { source: part.side, ..Plan::new(part.ni, kind::PUT, length, target)? })
}

/// Puts over a cached route. False: there is none, and nothing has happened.
#[inline(always)]
fn put_by_route(md: u32, offset: u64, length: u64, target: &Target, ack: u8, header_data: u64) -> bool {
    let Some(ni) = open_interface(md >> 27 & 3) else { return false };
    let place = (target.match_bits, target.remote_offset);
    ni.routes.put(ni.interface(), &target.route_key(ni, md, ack), (offset, length), place, header_data)
}

/// A put without a cached route. The arguments are those of `PtlPut` in the same registers, so that the call is a jump.
#[inline(never)]
extern "C" fn put_uncached(
    md: u32,
    offset: u64,
    length: u64,
    ack_req: u8,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
) -> i32 {
    let target = &Target { process, pt_index, match_bits, remote_offset };
    let tag = &Tag { user_ptr, hdr_data, ack: ack_req };
    let checked = put_part(md, offset, length, ack_req).and_then(|part| Ok((target.check(part.ni, length)?, part)));
    let (physical, part) = match checked {
        Ok(checked) => checked,
        Err(error) => return error as i32,
    };
    let (ni, source) = (part.ni, &part.side);
    let interface = ni.interface();
    let Some(counts) = initiator_counts(source, tag.ack) else {
        return put_by_command(&part, physical, length, target, tag);
    };
    let put = Put {
        portal: target.pt_index,
        uid: ni.uid,
        initiator: ni.initiator_id(),
        match_bits: target.match_bits,
        remote_offset: target.remote_offset,
        header_data: tag.hdr_data,
        length,
    };
    let key = target.route_key(ni, md, tag.ack);
    match interface.put_plain(physical, &put, source.start, &counts) {
        PutOutcome::Done => {
            if ni.routes.replaces(&key) {
                let Put { portal, uid, initiator, .. } = put;
                cache_route(ni, md, key, PutRoute::Locked(LockedRoute { target: physical, portal, uid, initiator }));
            }
        }
        PutOutcome::Granted(route) => cache_route(ni, md, key, PutRoute::Granted(route)),
        PutOutcome::NotDone => {
            let code = put_by_command(&part, physical, length, target, tag);
            if counts != Counts::NOTHING {
                interface.count_put(physical, &put, &counts);
            }
            return code;
        }
    }
    Code::Ok as i32
}

/// A checked put, by a command.
#[inline(never)]
fn put_by_command(part: &Part, physical: u64, length: u64, target: &Target, tag: &Tag) -> i32 {
    start(Ok(Plan { source: part.side, ..Plan::to(part.ni, kind::PUT, physical) }), length, target, tag)
}

/// The counting events that the initiator of a successful put gets. None: it gets full events, too, or needs a command for its I/O
/// vector.
#[inline(always)]
fn initiator_counts(source: &Side, ack: u8) -> Option<Counts> {
    if source.queue != NONE || source.iov != NONE || !matches!(ack, ack::NONE | ack::COUNTING) {
        return None;
    }
    let flag = |option| source.counter != NONE && source.options & option != 0;
    let (send, ack) = (flag(options::MD_EVENT_CT_SEND), ack == ack::COUNTING && flag(options::MD_EVENT_CT_ACK));
    if !send && !ack {
        return Some(Counts::NOTHING);
    }
    Some(Counts { counter: source.counter, send, ack, in_bytes: flag(options::MD_EVENT_CT_BYTES) })
}

/// Caches the route of a put that was just made.
#[cold]
fn cache_route(ni: &Ni, md: u32, key: RouteKey, put_route: PutRoute) {
    let signals = ni.interface().signals();
    let found = signals.descriptor_slot(md & REFERENCE).zip(signals.descriptor(md & REFERENCE));
    let Some(((slot, live), view)) = found else { return };
    let volatile = view.options & options::MD_VOLATILE != 0;
    let most = if volatile { ni.limits.max_msg_size.min(ni.limits.max_volatile_size) } else { ni.limits.max_msg_size };
    let in_shared = ni.interface().is_own_shared(view.start, view.length);
    let origin = Origin { slot, live, start: view.start, in_shared, length: view.length, most };
    ni.routes.insert(key, origin, put_route);
}

#[inline(always)]
fn get(md: u32, offset: u64, length: u64, target: &Target) -> Outcome<Plan> {
    let part = Part::of(md, offset, length)?;
    Ok(Plan { sink: part.side, ..Plan::new(part.ni, kind::GET, length, target)? })
}

/// Refuses an operation and a datatype that the specification does not allow together, and lengths beyond `most` or of part of an
/// item.
fn check_atomic(family: Family, what: Arithmetic, length: u64, most: u64) -> Outcome {
    let operation = Operation::from_u32(what.operation.into()).ok_or(Code::ArgInvalid)?;
    let datatype = Datatype::from_u32(what.datatype.into()).ok_or(Code::ArgInvalid)?;
    let fits = length <= most && length % datatype.size_bytes() as u64 == 0;
    if allowed(family, operation, datatype) && fits { Ok(()) } else { Err(Code::ArgInvalid) }
}

fn atomic((md, offset): (u32, u64), length: u64, target: &Target, tag: &Tag, what: Arithmetic) -> Outcome<Plan> {
    let part = Part::of(md, offset, length)?;
    part.check_ack(tag.ack)?;
    part.check_volatile(length)?;
    check_atomic(Family::Atomic, what, length, part.ni.limits.max_atomic_size)?;
    Ok(Plan { source: part.side, what, ..Plan::new(part.ni, kind::ATOMIC, length, target)? })
}

/// The two descriptors of a fetching operation, and the offsets into them.
struct Pair {
    get: (u32, u64),
    put: (u32, u64),
}

fn fetch(kind: u8, pair: &Pair, length: u64, target: &Target, what: Arithmetic) -> Outcome<Plan> {
    let sink = Part::of(pair.get.0, pair.get.1, length)?;
    let source = Part::of(pair.put.0, pair.put.1, length)?;
    if sink.ni.number != source.ni.number {
        return Err(Code::ArgInvalid);
    }
    let family = if kind == kind::SWAP { Family::Swap } else { Family::FetchAtomic };
    check_atomic(family, what, length, sink.ni.limits.max_fetch_atomic_size)?;
    Ok(Plan { source: source.side, sink: sink.side, what, ..Plan::new(sink.ni, kind, length, target)? })
}

fn swap(pair: &Pair, length: u64, target: &Target, operand: *const c_void, what: Arithmetic) -> Outcome<Plan> {
    let mut plan = fetch(kind::SWAP, pair, length, target, what)?;
    if what.operation != Operation::Swap as u8 {
        let size = Datatype::from_u32(what.datatype.into()).ok_or(Code::ArgInvalid)?.size_bytes();
        let readable = !operand.is_null() && selvedge_transport::memory_is_readable(operand as u64, size as u64);
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

/// Starts a planned operation.
#[inline(always)]
fn start(plan: Outcome<Plan>, length: u64, target: &Target, tag: &Tag) -> i32 {
    match plan {
        Ok(plan) => {
            let command = plan.command(length, target, tag);
            code(plan.ni.interface().start(&command).map_err(Code::from))
        }
        Err(error) => error as i32,
    }
}

/// Arms a planned operation on a counter.
fn arm(plan: Outcome<Plan>, length: u64, target: &Target, tag: &Tag, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let plan = plan?;
        let command = plan.command(length, target, tag);
        arm_action(plan.ni, trig_ct_handle, threshold, Action::Command(&command))
    })())
}

fn arm_action(ni: &Ni, trig_ct_handle: u32, threshold: u64, action: Action<'_>) -> Outcome {
    let counter = ni.counter(trig_ct_handle)?;
    if counter == NONE {
        return Err(Code::ArgInvalid);
    }
    let interface = ni.interface();
    let mut guard = interface.lock();
    guard.with_revocation(|nic| nic.triggered().arm(counter, threshold, action))?;
    let fired = guard.has_fired();
    drop(guard);
    interface.settle(fired);
    Ok(())
}

// ---- Immediate ---------------------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
pub extern "C" fn PtlPut(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    ack_req: u8,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    if put_by_route(md_handle, local_offset, length, &target, ack_req, hdr_data) {
        return Code::Ok as i32;
    }
    put_uncached(
        md_handle,
        local_offset,
        length,
        ack_req,
        process,
        pt_index,
        match_bits,
        remote_offset,
        user_ptr,
        hdr_data,
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlGet(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data: 0, ack: ack::NONE };
    start(get(md_handle, local_offset, length, &target), length, &target, &tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomic(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    ack_req: u8,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack_req };
    let what = Arithmetic { operation, datatype };
    start(atomic((md_handle, local_offset), length, &target, &tag, what), length, &target, &tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlFetchAtomic(
    get_md_handle: u32,
    local_get_offset: u64,
    put_md_handle: u32,
    local_put_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let pair = Pair { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let what = Arithmetic { operation, datatype };
    start(fetch(kind::FETCH_ATOMIC, &pair, length, &target, what), length, &target, &tag)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlSwap(
    get_md_handle: u32,
    local_get_offset: u64,
    put_md_handle: u32,
    local_put_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operand: *const c_void,
    operation: u8,
    datatype: u8,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let pair = Pair { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let what = Arithmetic { operation, datatype };
    start(swap(&pair, length, &target, operand, what), length, &target, &tag)
}

/// A core carries out an atomic, under the target's lock, so memory is coherent as soon as the atomic is complete. A fence orders the
/// program's own accesses after it.
#[unsafe(no_mangle)]
pub extern "C" fn PtlAtomicSync() -> i32 {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    code(initialised())
}

// ---- Triggered ---------------------------------------------------------------------------------------------------

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredPut(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    ack_req: u8,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack_req };
    let plan = put(md_handle, local_offset, length, &target, &tag);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredGet(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data: 0, ack: ack::NONE };
    arm(get(md_handle, local_offset, length, &target), length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredAtomic(
    md_handle: u32,
    local_offset: u64,
    length: u64,
    ack_req: u8,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack_req };
    let what = Arithmetic { operation, datatype };
    let plan = atomic((md_handle, local_offset), length, &target, &tag, what);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredFetchAtomic(
    get_md_handle: u32,
    local_get_offset: u64,
    put_md_handle: u32,
    local_put_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operation: u8,
    datatype: u8,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let pair = Pair { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let what = Arithmetic { operation, datatype };
    let plan = fetch(kind::FETCH_ATOMIC, &pair, length, &target, what);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredSwap(
    get_md_handle: u32,
    local_get_offset: u64,
    put_md_handle: u32,
    local_put_offset: u64,
    length: u64,
    process: Process,
    pt_index: u32,
    match_bits: u64,
    remote_offset: u64,
    user_ptr: u64,
    hdr_data: u64,
    operand: *const c_void,
    operation: u8,
    datatype: u8,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    let target = Target { process, pt_index, match_bits, remote_offset };
    let tag = Tag { user_ptr, hdr_data, ack: ack::NONE };
    let pair = Pair { get: (get_md_handle, local_get_offset), put: (put_md_handle, local_put_offset) };
    let what = Arithmetic { operation, datatype };
    let plan = swap(&pair, length, &target, operand, what);
    arm(plan, length, &target, &tag, trig_ct_handle, threshold)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTInc(ct_handle: u32, increment: CtEvent, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let (ni, counter) = live_counter(ct_handle)?;
        if increment.success != 0 && increment.failure != 0 {
            return Err(Code::ArgInvalid);
        }
        let CtEvent { success, failure } = increment;
        arm_action(ni, trig_ct_handle, threshold, Action::CounterIncrement { counter, success, failure })
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredCTSet(ct_handle: u32, new_ct: CtEvent, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let (ni, counter) = live_counter(ct_handle)?;
        let CtEvent { success, failure } = new_ct;
        arm_action(ni, trig_ct_handle, threshold, Action::CounterSet { counter, success, failure })
    })())
}

fn live_counter(ct_handle: u32) -> Outcome<(&'static Ni, u32)> {
    let (ni, counter) = find(ct_handle, Kind::Ct)?;
    ni.interface().signals().counter(counter).map(|_| (ni, counter)).ok_or(Code::ArgInvalid)
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredMEAppend(
    ni_handle: u32,
    pt_index: u32,
    me: *const Me,
    list: u8,
    user_ptr: u64,
    me_handle: *mut u32,
    trig_ct_handle: u32,
    threshold: u64,
) -> i32 {
    code((|| {
        let ni = find_ni(ni_handle)?;
        let handle = out(me_handle)?;
        let draft = Draft::of_me(ni, me, user_ptr)?;
        if list > 1 || ni.counter(trig_ct_handle)? == NONE {
            return Err(Code::ArgInvalid);
        }
        let spec = draft.into_spec(ni)?;
        let reserved = (|| {
            let mut guard = ni.interface().lock();
            guard.portal(pt_index)?;
            if !guard.triggered().has_free_record() {
                return Err(Code::NoSpace);
            }
            Ok(guard.lists().reserve(pt_index, &spec)?)
        })();
        match reserved {
            Ok(entry) => {
                *handle = ni.handle(Kind::Me, entry);
                arm_action(ni, trig_ct_handle, threshold, Action::Append { entry, list })
            }
            Err(error) => {
                ni.interface().lock().heap().free_iov(spec.iov);
                Err(error)
            }
        }
    })())
}

#[unsafe(no_mangle)]
pub extern "C" fn PtlTriggeredMEUnlink(me_handle: u32, trig_ct_handle: u32, threshold: u64) -> i32 {
    code((|| {
        let (ni, entry) = find(me_handle, Kind::Me)?;
        ni.interface().lock().entry_index(entry).ok_or(Code::ArgInvalid)?;
        arm_action(ni, trig_ct_handle, threshold, Action::Unlink { entry })
    })())
}
