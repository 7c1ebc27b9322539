// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of collective operations (fi_collective(3)): joining a group, the operations, their queries, leaving.
//!
//! Counts of elements are those of one member's part, as for `fi_scatter` of libfabric's own collective provider:
//! `fi_allgather` and `fi_gather` write `count` elements of each member. `fi_scatter` and `fi_reduce_scatter` read
//! `count` elements for each member and write `count`.

use std::ffi::{c_int, c_void};
use std::ptr;

use selvedge_collectives::one_host::{Buffer, Elements, Pending};
use selvedge_host::simulated::is_simulated;
use selvedge_messages::transfer::Effect;

use crate::calls::atomic_types::{Form, datatype, effect};
use crate::constants::*;
use crate::ffi::*;
use crate::info::MESSAGE_BYTES_MAX;
use crate::objects::address::Address;
use crate::objects::av_set;
use crate::objects::collective::{Groups, MEMBERS_MAX, NewMember, Roster};
use crate::objects::endpoint::Endpoint;
use crate::objects::group::Group;
use crate::objects::object::{self, Ops};
use crate::{refuse, warn_line};

refuse! {
    no_alltoall(*mut fid_ep, *const c_void, usize, *mut c_void, *mut c_void, *mut c_void, u64, fi_datatype, u64, *mut c_void) -> isize;
    no_msg(*mut fid_ep, *const fi_msg_collective, *mut fi_ioc, *mut *mut c_void, usize, u64) -> isize;
}

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, object::no_bind, object::no_control));

static OPS: Ops<fi_ops_collective> = Ops(fi_ops_collective {
    size: size_of::<fi_ops_collective>(),
    barrier: Some(barrier),
    broadcast: Some(broadcast),
    alltoall: Some(no_alltoall),
    allreduce: Some(allreduce),
    allgather: Some(allgather),
    reduce_scatter: Some(reduce_scatter),
    reduce: Some(reduce),
    scatter: Some(scatter),
    gather: Some(gather),
    msg: Some(no_msg),
    barrier2: Some(barrier2),
});

/// An operation is complete when its buffers are the program's again.
const FLAGS: u64 = COMPLETION | MORE | INJECT_COMPLETE | TRANSMIT_COMPLETE;

pub fn ops() -> *mut fi_ops_collective {
    (&raw const OPS.0).cast_mut()
}

// ---- groups ----

/// fi_join of a collective group. Other groups are not offered.
pub unsafe extern "C" fn join(
    ep: *mut fid_ep,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    if flags & COLLECTIVE == 0 {
        return -ENOSYS;
    }
    if flags & !(COLLECTIVE | SEND | RECV) != 0 {
        return -EBADFLAGS;
    }
    // SAFETY: fi_join(3), fi_collective(3): the endpoint and the set are open, and the program has room for the pointer.
    unsafe {
        let Some(asked) = addr.cast::<fi_collective_addr>().as_ref() else { return -EINVAL };
        if asked.set.is_null() || mc.is_null() {
            return -EINVAL;
        }
        let set = av_set::Handle::of(asked.set.cast_mut());
        let handle = Endpoint::of(ep);
        let mut guard = handle.lock();
        let base: *mut Endpoint = guard.base();
        let (caps, enabled, bound) = ((*base).caps, (*base).enabled, (*base).bound);
        match () {
            () if caps & COLLECTIVE == 0 => return -EOPNOTSUPP,
            () if !enabled => return -EOPBADSTATE,
            () if bound.events.is_null() => return -ENOEQ,
            () if set.fixed.vector != bound.vector => return -EINVAL,
            () => {}
        }
        let numbers = (*set.guarded()).clone();
        let own = Address::of(&guard, (*base).bindings.index);
        let mut invited = Vec::with_capacity(numbers.len());
        for number in numbers {
            let Some(entry) = guard.state().entry(number) else { return -EINVAL };
            let (address, peer) = (entry.address, entry.peer);
            if invited.iter().any(|one: &NewMember| one.address == address) {
                warn_line!("fi_join_collective: the set contains an endpoint twice");
                return -EINVAL;
            }
            invited.push(NewMember { number, address, peer });
        }
        let Some(rank) = invited.iter().position(|one| one.address == own) else {
            warn_line!("fi_join_collective: the set does not contain the endpoint itself");
            return -EINVAL;
        };
        if invited.len() > MEMBERS_MAX {
            warn_line!("fi_join_collective: a group has at most {MEMBERS_MAX} members");
            return -EINVAL;
        }
        let bindings = &raw mut (*base).bindings;
        let made = guard.domain_guard.with_groups(|groups, transport| {
            if !groups.has_address(asked.coll_addr) {
                return Err(EINVAL);
            }
            let events = &raw const (*bound.events).events;
            let number = groups.join(transport, &invited, rank, bindings, (events, context))?;
            let fid = object::head(FI_CLASS_MC, context, &FID_OPS.0);
            let mc_head = fid_mc { fid, fi_addr: Groups::address_of(number) };
            let group = Group { mc: mc_head, domain: handle.domain, endpoint: base, number };
            let group = Box::into_raw(Box::new(group));
            // The program gets the object before any event of it.
            mc.write(group.cast());
            groups.set_object(number, group.cast());
            groups.carry_on(transport);
            Ok(())
        });
        match made {
            Ok(()) => {
                guard.base().groups += 1;
                0
            }
            Err(error) => -error,
        }
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the group was made by `join`, and no other thread uses it any more. Its endpoint is open,
    // because it counts its groups.
    unsafe {
        let group = fid.cast::<Group>();
        let mut core = (*(*group).domain).core();
        if core.with_groups(|groups, _| groups.leave((*group).number)) {
            (*(*group).endpoint).groups -= 1;
        }
        drop(core);
        drop(Box::from_raw(group));
    }
    0
}

// ---- supported operations ----

/// The effect of a collective on the elements of its members.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Synchronizes,
    Moves,
    Reduces,
}

fn kind_of(collective: fi_collective_op) -> Option<Kind> {
    match collective {
        FI_BARRIER => Some(Kind::Synchronizes),
        FI_BROADCAST | FI_ALLGATHER | FI_SCATTER | FI_GATHER => Some(Kind::Moves),
        FI_ALLREDUCE | FI_REDUCE | FI_REDUCE_SCATTER => Some(Kind::Reduces),
        _ => None,
    }
}

/// Size in bytes of an element that is moved.
fn size_of_element(theirs: fi_datatype) -> Result<usize, c_int> {
    match theirs {
        FI_INT128 | FI_UINT128 => Ok(16),
        _ => datatype(theirs).map(|datatype| datatype.size_bytes()).ok_or(EOPNOTSUPP),
    }
}

fn elements(op: fi_op, theirs: fi_datatype) -> Result<Elements, c_int> {
    let datatype = datatype(theirs).ok_or(EOPNOTSUPP)?;
    match effect(op, datatype, Form::Plain) {
        Some(Effect::Compute(operation)) => Elements::of_values(operation, datatype).ok_or(EOPNOTSUPP),
        _ => Err(EOPNOTSUPP),
    }
}

/// fi_query_collective.
pub unsafe extern "C" fn query(
    _: *mut fid_domain,
    collective: fi_collective_op,
    attr: *mut fi_collective_attr,
    flags: u64,
) -> c_int {
    // SAFETY: fi_collective(3): the attributes are the program's, or null.
    let Some(attr) = (unsafe { attr.as_mut() }) else { return -EINVAL };
    if flags != 0 {
        return -EBADFLAGS;
    }
    if attr.mode != 0 {
        return -EINVAL;
    }
    let size = match kind_of(collective) {
        Some(Kind::Synchronizes) => (attr.datatype == FI_VOID).then_some(0),
        Some(Kind::Moves) => size_of_element(attr.datatype).ok(),
        Some(Kind::Reduces) => elements(attr.op, attr.datatype).ok().map(|elements| elements.size_bytes()),
        None => None,
    };
    let Some(size) = size.filter(|_| !is_simulated()) else { return -EOPNOTSUPP };
    attr.datatype_attr.size = size;
    attr.datatype_attr.count = MESSAGE_BYTES_MAX.checked_div(size).unwrap_or(0);
    attr.max_members = MEMBERS_MAX;
    0
}

// ---- operations ----

struct Call {
    ep: *mut fid_ep,
    group: fi_addr_t,
    flags: u64,
    context: *mut c_void,
}

impl Call {
    /// Starts an operation.
    ///
    /// # Safety
    /// fi_collective(3): the endpoint is open. The buffers of the operation stay until it is complete.
    unsafe fn start(&self, operation: impl FnOnce(&Roster<'_>) -> Result<Pending, c_int>) -> isize {
        // SAFETY: the endpoint is open, by this function's contract.
        let mut guard = unsafe { Endpoint::of(self.ep).lock() };
        let endpoint = guard.state();
        let outcome = match () {
            () if endpoint.caps & COLLECTIVE == 0 => Err(EOPNOTSUPP),
            () if !endpoint.enabled => Err(EOPBADSTATE),
            () if self.flags & !FLAGS != 0 => Err(EBADFLAGS),
            () => {
                let wanted = endpoint.wants_tx(self.flags | endpoint.tx_flags & COMPLETION);
                // Counters count it like atomics.
                let ticket = endpoint.ticket(self.context, COLLECTIVE | WRITE, wanted);
                guard
                    .domain_guard
                    .with_groups(|groups, transport| groups.start(transport, self.group, ticket, operation))
            }
        };
        outcome.map_or_else(|error| -(error as isize), |()| 0)
    }
}

fn bytes_of(count: usize, size: usize, members: usize) -> Result<usize, c_int> {
    let bytes = count.checked_mul(size).and_then(|bytes| bytes.checked_mul(members)).ok_or(EMSGSIZE)?;
    match bytes {
        0 => Err(EINVAL),
        1..=MESSAGE_BYTES_MAX => Ok(bytes),
        _ => Err(EMSGSIZE),
    }
}

/// Checks memory that the operation needs.
fn needed<T>(memory: *mut T) -> Result<*mut u8, c_int> {
    if memory.is_null() { Err(EINVAL) } else { Ok(memory.cast()) }
}

/// Checks memory that the operation needs only where `holds`.
fn needed_if<T>(holds: bool, memory: *mut T) -> Result<*mut u8, c_int> {
    if holds { needed(memory) } else { Ok(ptr::null_mut()) }
}

unsafe extern "C" fn barrier(ep: *mut fid_ep, group: fi_addr_t, context: *mut c_void) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open.
    unsafe { barrier2(ep, group, 0, context) }
}

unsafe extern "C" fn barrier2(ep: *mut fid_ep, group: fi_addr_t, flags: u64, context: *mut c_void) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open.
    unsafe { Call { ep, group, flags, context }.start(|_| Ok(Pending::barrier())) }
}

unsafe extern "C" fn broadcast(
    ep: *mut fid_ep,
    buf: *mut c_void,
    count: usize,
    _desc: *mut c_void,
    group: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open, and buffers stay until the operation is complete.
    unsafe {
        Call { ep, group, flags, context }.start(|roster| {
            let size = size_of_element(datatype)?;
            let bytes = bytes_of(count, size, 1)?;
            Ok(Pending::broadcast(roster.rank_of(root)?, needed(buf)?, bytes))
        })
    }
}

unsafe extern "C" fn allreduce(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    group: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open, and buffers stay until the operation is complete.
    unsafe {
        Call { ep, group, flags, context }.start(|_| {
            let elements = elements(op, datatype)?;
            let bytes = bytes_of(count, elements.size_bytes(), 1)?;
            let buffer = Buffer { from: needed(buf.cast_mut())?, to: needed(result)? };
            Ok(Pending::allreduce(&elements, buffer, bytes))
        })
    }
}

unsafe extern "C" fn reduce(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    group: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open, and buffers stay until the operation is complete.
    unsafe {
        Call { ep, group, flags, context }.start(|roster| {
            let elements = elements(op, datatype)?;
            let bytes = bytes_of(count, elements.size_bytes(), 1)?;
            let root = roster.rank_of(root)?;
            let to = needed_if(root == roster.rank(), result)?;
            Ok(Pending::reduce(&elements, root, Buffer { from: needed(buf.cast_mut())?, to }, bytes))
        })
    }
}

unsafe extern "C" fn reduce_scatter(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    group: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open, and buffers stay until the operation is complete.
    unsafe {
        Call { ep, group, flags, context }.start(|roster| {
            let elements = elements(op, datatype)?;
            let bytes = bytes_of(count, elements.size_bytes(), roster.size())?;
            let buffer = Buffer { from: needed(buf.cast_mut())?, to: needed(result)? };
            Ok(Pending::reduce_scatter(&elements, buffer, bytes, roster.own_part(bytes)))
        })
    }
}

unsafe extern "C" fn allgather(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    group: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open, and buffers stay until the operation is complete.
    unsafe {
        Call { ep, group, flags, context }.start(|roster| {
            let size = size_of_element(datatype)?;
            let each = bytes_of(count, size, roster.size())? / roster.size();
            let buffer = Buffer { from: needed(buf.cast_mut())?, to: needed(result)? };
            Ok(Pending::allgather(buffer, each))
        })
    }
}

unsafe extern "C" fn scatter(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    group: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open, and buffers stay until the operation is complete.
    unsafe {
        Call { ep, group, flags, context }.start(|roster| {
            let size = size_of_element(datatype)?;
            let bytes = bytes_of(count, size, roster.size())?;
            let root = roster.rank_of(root)?;
            let from = needed_if(root == roster.rank(), buf.cast_mut())?;
            Ok(Pending::scatter(root, Buffer { from, to: needed(result)? }, bytes, roster.own_part(bytes)))
        })
    }
}

unsafe extern "C" fn gather(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    group: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_collective(3): the endpoint is open, and buffers stay until the operation is complete.
    unsafe {
        Call { ep, group, flags, context }.start(|roster| {
            let size = size_of_element(datatype)?;
            let each = bytes_of(count, size, roster.size())? / roster.size();
            let root = roster.rank_of(root)?;
            let to = needed_if(root == roster.rank(), result)?;
            Ok(Pending::gather(root, Buffer { from: needed(buf.cast_mut())?, to }, each))
        })
    }
}
