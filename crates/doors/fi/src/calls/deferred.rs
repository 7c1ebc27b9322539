// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Deferred work (fi_trigger(3)): `FI_QUEUE_WORK`, `FI_CANCEL_WORK`, `FI_FLUSH_WORK`, and operations with `FI_TRIGGER`.
//! Each form becomes one operation that the NIC starts when a counter reaches a threshold ([`selvedge_messages::work`]).
//!
//! A queued work always counts at its own completion counter. It makes no completion and does not count at its
//! endpoint's counters, unless its flags have `FI_COMPLETION`. An operation with `FI_TRIGGER` completes and counts as
//! it does without that flag. These are refused with `-FI_ENOSYS`: `FI_INJECT` (the buffers are read when the work
//! starts), `FI_MULTI_RECV`, peeking and claiming.

use std::ffi::{c_int, c_void};

use selvedge_messages::message::{Message, SendEnd};
use selvedge_messages::pieces::{RemoteRange, total};
use selvedge_messages::posted::ReceiveRequest;
use selvedge_messages::protocols::MESSAGE_BYTES_MAX;
use selvedge_messages::ticket::Kind;
use selvedge_messages::transfer::{Atomic, Transfer};
use selvedge_messages::work::Work;
use selvedge_nic::handle::NONE;
use selvedge_nic::portals::triggered::Action;

use crate::calls::arguments::{self, ranges, tagged_form};
use crate::calls::atomic_types::{BYTES_MAX, Form, datatype, effect};
use crate::constants::*;
use crate::errors::errno_of_refusal;
use crate::ffi::*;
use crate::objects::counter::Counter;
use crate::objects::domain::Domain;
use crate::objects::domain_object::ObjectGuard;
use crate::objects::endpoint::Endpoint;
use crate::warn_line;

/// A result with a libfabric error.
type Outcome<T> = Result<T, c_int>;

/// Runs a domain's control command for deferred work.
///
/// # Safety
/// `arg` is what the command requires.
pub unsafe fn control(domain: &Domain, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: fi_trigger(3): endpoint and counters are open; the work's memory is the program's until it completes.
    unsafe {
        match command as u32 {
            FI_QUEUE_WORK => match arg.cast::<fi_deferred_work>().as_ref() {
                Some(work) => queue(domain, work).map_or_else(|error| -error, |()| 0),
                None => -EINVAL,
            },
            FI_CANCEL_WORK if arg.is_null() => -EINVAL,
            FI_CANCEL_WORK => {
                if domain.core().cancel_work(arg as usize) {
                    0
                } else {
                    -ENOENT
                }
            }
            FI_FLUSH_WORK => {
                // All works, or those that wait for one counter.
                let trigger = arg.cast::<Counter>().as_ref().map(|counter| counter.reference);
                domain.core().flush_works(trigger);
                0
            }
            _ => -ENOSYS,
        }
    }
}

unsafe fn queue(domain: &Domain, asked: &fi_deferred_work) -> Outcome<()> {
    // SAFETY: fi_trigger(3): the work is the program's until it completes. Its type selects the pointer in the union.
    unsafe {
        let trigger = reference(domain, asked.triggering_cntr)?.ok_or(EINVAL)?;
        let counter = reference(domain, asked.completion_cntr)?;
        let id = std::ptr::from_ref(asked) as usize;
        let work = Work { id, trigger, threshold: asked.threshold, counter: counter.unwrap_or(NONE) };
        domain.core().bypass_rings();
        let op = &asked.op;
        match asked.op_type {
            FI_OP_SEND => {
                let op = op.msg.as_ref().ok_or(EINVAL)?;
                send(domain, &work, op.ep, Kind::Plain, &tagged_form(&op.msg), op.flags)
            }
            FI_OP_TSEND => {
                let op = op.tagged.as_ref().ok_or(EINVAL)?;
                send(domain, &work, op.ep, Kind::Tagged, &op.msg, op.flags)
            }
            FI_OP_RECV => {
                let op = op.msg.as_ref().ok_or(EINVAL)?;
                receive(domain, &work, op.ep, Kind::Plain, &tagged_form(&op.msg), op.flags)
            }
            FI_OP_TRECV => {
                let op = op.tagged.as_ref().ok_or(EINVAL)?;
                receive(domain, &work, op.ep, Kind::Tagged, &op.msg, op.flags)
            }
            FI_OP_READ => transfer(domain, &work, op.rma.as_ref().ok_or(EINVAL)?, false),
            FI_OP_WRITE => transfer(domain, &work, op.rma.as_ref().ok_or(EINVAL)?, true),
            FI_OP_ATOMIC => {
                let op = op.atomic.as_ref().ok_or(EINVAL)?;
                atomic(domain, &work, op.ep, &op.msg, Form::Plain, op.flags, &[], &[])
            }
            FI_OP_FETCH_ATOMIC => {
                let op = op.fetch_atomic.as_ref().ok_or(EINVAL)?;
                let results = array(op.fetch.msg_iov.cast_const(), op.fetch.iov_count)?;
                atomic(domain, &work, op.ep, &op.msg, Form::Fetch, op.flags, &[], results)
            }
            FI_OP_COMPARE_ATOMIC => {
                let op = op.compare_atomic.as_ref().ok_or(EINVAL)?;
                let comparands = array(op.compare.msg_iov, op.compare.iov_count)?;
                let results = array(op.fetch.msg_iov.cast_const(), op.fetch.iov_count)?;
                atomic(domain, &work, op.ep, &op.msg, Form::Compare, op.flags, comparands, results)
            }
            FI_OP_CNTR_SET | FI_OP_CNTR_ADD => {
                let op = op.cntr.as_ref().ok_or(EINVAL)?;
                let counter = reference(domain, op.cntr)?.ok_or(EINVAL)?;
                if work.counter != NONE {
                    return Err(EINVAL);
                }
                let action = match asked.op_type {
                    FI_OP_CNTR_SET => Action::CounterSuccess { counter, success: op.value },
                    _ => Action::CounterIncrement { counter, success: op.value, failure: 0 },
                };
                domain.core().defer_count(&work, action).map_err(errno_of_refusal)
            }
            other => {
                warn_line!("deferred work has no operation of type {other}");
                Err(ENOSYS)
            }
        }
    }
}

/// The counter and threshold of an operation with `FI_TRIGGER`, from its context. `None` without that flag. `sort` is
/// the flag of its completion.
///
/// # Safety
/// With the flag, the context is a `fi_triggered_context` of the program.
#[inline(always)]
pub unsafe fn triggered(
    guard: &mut ObjectGuard<'_, Endpoint>,
    flags: u64,
    sort: u64,
    context: *mut c_void,
) -> Outcome<Option<Work>> {
    if flags & TRIGGER == 0 {
        return Ok(None);
    }
    // SAFETY: the flag is set, so the context is a `fi_triggered_context` by this function's contract.
    unsafe { waiting_for(guard, flags, sort, context).map(Some) }
}

#[cold]
unsafe fn waiting_for(
    guard: &mut ObjectGuard<'_, Endpoint>,
    flags: u64,
    sort: u64,
    context: *mut c_void,
) -> Outcome<Work> {
    check_flags(flags, !0)?;
    // SAFETY: fi_trigger(3): the context is a `fi_triggered_context`, whose type of event determines its contents. A
    // counter is open as long as an endpoint is bound to it.
    unsafe {
        let asked = context.cast::<fi_triggered_context>().as_ref().ok_or(EINVAL)?;
        if asked.event_type != FI_TRIGGER_THRESHOLD {
            warn_line!(
                "operations can be triggered by thresholds of counters only, not by events of type {}",
                asked.event_type
            );
            return Err(ENOSYS);
        }
        let awaited = &asked.trigger.threshold;
        let trigger = reference(guard.domain(), awaited.cntr)?.ok_or(EINVAL)?;
        guard.bypass_rings();
        let counter = guard.state().bindings.counter_for(sort);
        Ok(Work { id: context as usize, trigger, threshold: awaited.threshold as u64, counter })
    }
}

/// The NIC's counter of a domain's counter. `None` if null.
unsafe fn reference(domain: &Domain, counter: *mut fid_cntr) -> Outcome<Option<u32>> {
    // SAFETY: fi_trigger(3): the counter is open, or the pointer is null.
    let Some(counter) = (unsafe { counter.cast::<Counter>().as_ref() }) else { return Ok(None) };
    if std::ptr::eq(counter.domain(), domain) { Ok(Some(counter.reference)) } else { Err(EDOMAIN) }
}

/// The endpoint of a work, with its domain's lock. Checks that it is of this domain, enabled, and capable.
///
/// # Safety
/// `ep` is an open endpoint, or null.
unsafe fn endpoint<'a>(domain: &Domain, ep: *mut fid_ep, caps: u64) -> Outcome<ObjectGuard<'a, Endpoint>> {
    if ep.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: the endpoint is open, by this function's contract.
    let handle = unsafe { Endpoint::of(ep) };
    if !std::ptr::eq(handle.domain, domain) {
        return Err(EDOMAIN);
    }
    let mut guard = handle.lock();
    let Endpoint { enabled, caps: given, .. } = *guard.state();
    match enabled {
        false => Err(EOPBADSTATE),
        true if given & caps != caps => Err(EOPNOTSUPP),
        true => Ok(guard),
    }
}

/// Refuses flags that a work cannot have. Those of [`TRANSFER_FLAGS`] have no effect here, because the data of a work
/// has arrived when it completes.
fn check_flags(flags: u64, more: u64) -> Outcome<()> {
    if flags & (INJECT | MULTI_RECV | PEEK | CLAIM | DISCARD) != 0 {
        warn_line!("deferred work cannot have FI_INJECT, FI_MULTI_RECV, FI_PEEK, FI_CLAIM or FI_DISCARD");
        return Err(ENOSYS);
    }
    if flags & !(TRANSFER_FLAGS | more) != 0 { Err(EBADFLAGS) } else { Ok(()) }
}

unsafe fn array<'a, T>(start: *const T, count: usize) -> Outcome<&'a [T]> {
    // SAFETY: fi_trigger(3): the array has `count` elements and is the program's until the work completes.
    unsafe { arguments::array(start, count) }.ok_or(EINVAL)
}

unsafe fn send(
    domain: &Domain,
    work: &Work,
    ep: *mut fid_ep,
    kind: Kind,
    msg: &fi_msg_tagged,
    flags: u64,
) -> Outcome<()> {
    check_flags(flags, REMOTE_CQ_DATA)?;
    // SAFETY: fi_trigger(3): endpoint and counters are open; the work's memory is the program's until it completes.
    unsafe {
        let mut guard = endpoint(domain, ep, kind.flag() | SEND)?;
        let pieces = array(msg.msg_iov, msg.iov_count)?;
        if total(pieces) > MESSAGE_BYTES_MAX {
            return Err(EMSGSIZE);
        }
        let entry = *guard.state().entry(msg.addr).ok_or(EINVAL)?;
        let message = Message {
            kind,
            peer: entry.peer,
            endpoint: entry.address.endpoint,
            tag: msg.tag,
            data: (flags & REMOTE_CQ_DATA != 0).then_some(msg.data),
            pieces,
            ticket: guard.state().ticket(msg.context, SEND | kind.flag(), flags & COMPLETION != 0),
            inject: false,
            end: SendEnd::Sent,
        };
        guard.defer_send(work, &message).map_err(errno_of_refusal)
    }
}

unsafe fn receive(
    domain: &Domain,
    work: &Work,
    ep: *mut fid_ep,
    kind: Kind,
    msg: &fi_msg_tagged,
    flags: u64,
) -> Outcome<()> {
    check_flags(flags, 0)?;
    // SAFETY: fi_trigger(3): endpoint and counters are open; the work's memory is the program's until it completes.
    unsafe {
        let mut guard = endpoint(domain, ep, kind.flag() | RECV)?;
        let mut source = None;
        if msg.addr != ADDR_ANY && guard.state().caps & DIRECTED_RECV != 0 {
            let entry = *guard.state().entry(msg.addr).ok_or(EINVAL)?;
            source = Some(entry.source);
        }
        let wanted = ReceiveRequest {
            kind,
            source,
            tag: msg.tag,
            ignore: msg.ignore,
            pieces: array(msg.msg_iov, msg.iov_count)?,
            ticket: guard.state().ticket(msg.context, RECV | kind.flag(), flags & COMPLETION != 0),
            multi: None,
        };
        guard.defer_receive(work, &wanted).map_err(errno_of_refusal)
    }
}

unsafe fn transfer(domain: &Domain, work: &Work, op: &fi_op_rma, write: bool) -> Outcome<()> {
    check_flags(op.flags, if write { REMOTE_CQ_DATA } else { 0 })?;
    // SAFETY: fi_trigger(3): endpoint and counters are open; the work's memory is the program's until it completes.
    unsafe {
        let right = if write { WRITE } else { READ };
        let mut guard = endpoint(domain, op.ep, RMA | right)?;
        let entry = *guard.state().entry(op.msg.addr).ok_or(EINVAL)?;
        let transfer = Transfer {
            write,
            peer: entry.peer,
            endpoint: entry.address.endpoint,
            pieces: array(op.msg.msg_iov, op.msg.iov_count)?,
            remote: ranges(array(op.msg.rma_iov, op.msg.rma_iov_count)?),
            data: (op.flags & REMOTE_CQ_DATA != 0).then_some(op.msg.data),
            ticket: guard.state().ticket(op.msg.context, RMA | right, op.flags & COMPLETION != 0),
            inject: false,
        };
        guard.defer_transfer(work, &transfer).map_err(errno_of_refusal)
    }
}

unsafe fn atomic(
    domain: &Domain,
    work: &Work,
    ep: *mut fid_ep,
    msg: &fi_msg_atomic,
    form: Form,
    flags: u64,
    comparands: &[fi_ioc],
    results: &[fi_ioc],
) -> Outcome<()> {
    check_flags(flags, 0)?;
    // SAFETY: fi_trigger(3): endpoint and counters are open; the work's memory is the program's until it completes.
    unsafe {
        let right = if form == Form::Plain { WRITE } else { READ };
        let mut guard = endpoint(domain, ep, ATOMIC | right)?;
        let datatype = datatype(msg.datatype).ok_or(EOPNOTSUPP)?;
        let effect = effect(msg.op, datatype, form).ok_or(EOPNOTSUPP)?;
        let entry = *guard.state().entry(msg.addr).ok_or(EINVAL)?;
        let size = datatype.size_bytes();
        let local = |elements: &[fi_ioc]| -> Vec<iovec> {
            let piece = |ioc: &fi_ioc| iovec { iov_base: ioc.addr, iov_len: ioc.count.saturating_mul(size) };
            elements.iter().map(piece).collect()
        };
        let there =
            |ioc: &fi_rma_ioc| RemoteRange { offset: ioc.addr, length: ioc.count.saturating_mul(size), key: ioc.key };
        let remote: Vec<RemoteRange> = array(msg.rma_iov, msg.rma_iov_count)?.iter().map(there).collect();
        let bytes: usize = remote.iter().map(|piece| piece.length).fold(0, usize::saturating_add);
        if bytes > BYTES_MAX || (form != Form::Plain && results.is_empty()) {
            return Err(EINVAL);
        }
        let operands = local(array(msg.msg_iov, msg.iov_count)?);
        let ticket = guard.state().ticket(msg.context, ATOMIC | right, flags & COMPLETION != 0);
        let queued = guard.defer_atomic(
            work,
            &Atomic {
                effect,
                datatype,
                peer: entry.peer,
                operands: &operands,
                comparands: &local(comparands),
                results: &local(results),
                remote: &remote,
                ticket,
            },
        );
        queued.map_err(errno_of_refusal)
    }
}
