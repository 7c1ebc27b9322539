// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of a subset of an address vector (fi_av_set(3)). They are local.

use std::ffi::{c_int, c_void};

use crate::constants::*;
use crate::ffi::*;
use crate::objects::address_vector;
use crate::objects::av_set::{Fixed, Handle};
use crate::objects::collective::Groups;
use crate::objects::object::{self, Ops};
use crate::warn_line;

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, object::no_bind, object::no_control));

static OPS: Ops<fi_ops_av_set> = Ops(fi_ops_av_set {
    size: size_of::<fi_ops_av_set>(),
    set_union: Some(unite),
    intersect: Some(intersect),
    diff: Some(diff),
    insert: Some(insert),
    remove: Some(remove),
    addr: Some(addr),
});

/// The restrictions of a set, which have no effect here.
const RESTRICTIONS: u64 = BARRIER_SET
    | BROADCAST_SET
    | ALLREDUCE_SET
    | ALLGATHER_SET
    | REDUCE_SCATTER_SET
    | REDUCE_SET
    | SCATTER_SET
    | GATHER_SET;

/// fi_av_set.
pub unsafe extern "C" fn open(
    av: *mut fid_av,
    attr: *mut fi_av_set_attr,
    set: *mut *mut fid_av_set,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_av_set(3): the vector is open, the attributes are the program's, and it has room for the pointer.
    unsafe {
        let Some(attr) = attr.as_ref() else { return -EINVAL };
        if attr.flags & ALLTOALL_SET != 0 {
            return -EOPNOTSUPP;
        }
        if attr.flags & !(UNIVERSE | RESTRICTIONS) != 0 {
            return -EBADFLAGS;
        }
        if attr.comm_key_size != 0 {
            warn_line!("sets of addresses have no communication keys; leave comm_key empty");
            return -EOPNOTSUPP;
        }
        let vector = address_vector::Handle::of(av);
        let mut guard = vector.lock();
        let entries = &guard.state().entries;
        let is_there = |number: &usize| entries.get(*number).is_some_and(Option::is_some);
        let has_range = attr.start_addr != ADDR_ANY || attr.end_addr != ADDR_ANY;
        let members: Vec<u64> = match (attr.flags & UNIVERSE != 0, has_range) {
            (true, _) => (0..entries.len()).filter(is_there).map(|number| number as u64).collect(),
            (false, false) => Vec::new(),
            (false, true) => {
                let Some(stride) = usize::try_from(attr.stride).ok().filter(|&stride| stride != 0) else {
                    return -EINVAL;
                };
                if attr.start_addr > attr.end_addr {
                    return -EINVAL;
                }
                let end = entries.len().min(usize::try_from(attr.end_addr).unwrap_or(usize::MAX).saturating_add(1));
                let start = usize::try_from(attr.start_addr).unwrap_or(usize::MAX);
                (start..end).step_by(stride).filter(is_there).map(|number| number as u64).collect()
            }
        };
        if attr.count != 0 && members.len() > attr.count {
            return -EINVAL;
        }
        let address = guard.domain_guard.with_groups(|groups, _| groups.new_set());
        drop(guard);
        vector.uses.add();
        vector.domain().uses.add();
        let head =
            fid_av_set { fid: object::head(FI_CLASS_AV_SET, context, &FID_OPS.0), ops: (&raw const OPS.0).cast_mut() };
        let fixed = Fixed { vector: av.cast(), address };
        *set = Box::into_raw(Handle::make(head, vector.domain, fixed, members)).cast();
    }
    0
}

/// Combines a set with another one of the same vector.
unsafe fn change(dst: *mut fid_av_set, src: *const fid_av_set, change: impl FnOnce(&mut Vec<u64>, &[u64])) -> c_int {
    // SAFETY: fi_av_set(3): both sets are open. Sets of one vector have the same lock.
    unsafe {
        let Some(src) = src.cast_mut().as_mut() else { return -EINVAL };
        let (dst, src) = (Handle::of(dst), Handle::of(src));
        if dst.fixed.vector != src.fixed.vector {
            return -EINVAL;
        }
        let mut guard = dst.lock();
        // A copy, because both may be the same set.
        let others = (*src.guarded()).clone();
        change(guard.state(), &others);
    }
    0
}

unsafe extern "C" fn unite(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    let add = |own: &mut Vec<u64>, others: &[u64]| {
        let new: Vec<u64> = others.iter().copied().filter(|other| !own.contains(other)).collect();
        own.extend(new);
    };
    // SAFETY: fi_av_set(3): both sets are open.
    unsafe { change(dst, src, add) }
}

unsafe extern "C" fn intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: fi_av_set(3): both sets are open.
    unsafe { change(dst, src, |own, others| own.retain(|one| others.contains(one))) }
}

unsafe extern "C" fn diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: fi_av_set(3): both sets are open.
    unsafe { change(dst, src, |own, others| own.retain(|one| !others.contains(one))) }
}

unsafe extern "C" fn insert(set: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: fi_av_set(3): the set is open, and so is its vector, whose lock is the same.
    unsafe {
        let handle = Handle::of(set);
        let mut guard = handle.lock();
        let entries = &(*(*handle.fixed.vector).guarded()).entries;
        let is_there = usize::try_from(addr).ok().and_then(|at| entries.get(at)).is_some_and(Option::is_some);
        let members = guard.state();
        if !is_there || members.contains(&addr) {
            return -EINVAL;
        }
        members.push(addr);
    }
    0
}

unsafe extern "C" fn remove(set: *mut fid_av_set, addr: fi_addr_t) -> c_int {
    // SAFETY: fi_av_set(3): the set is open.
    unsafe {
        let mut guard = Handle::of(set).lock();
        let members = guard.state();
        let Some(at) = members.iter().position(|&member| member == addr) else { return -EINVAL };
        members.remove(at);
    }
    0
}

unsafe extern "C" fn addr(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int {
    // SAFETY: fi_av_set(3): the set is open, and the program has room for the address.
    unsafe { *coll_addr = Handle::of(set).fixed.address };
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the set was made by `open`, no other thread uses it. Its use count keeps its vector open.
    unsafe {
        let handle = Handle::of(fid);
        handle.domain().core().with_groups(|groups: &mut Groups, _| groups.forget_set(handle.fixed.address));
        (*handle.fixed.vector).uses.drop_one();
        handle.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Handle>()));
    }
    0
}
