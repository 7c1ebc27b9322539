// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Broadcast (OpenSHMEM, "Broadcast").
//!
//! Up to 504 bytes go through the *ring*: 8 slots at each member, used in turn. The root writes them and returns. Where
//! PEs share cores, the root writes to all members; else it uses a tree, in which each member writes to 7 members for
//! each digit of its distance from the root. Longer data stay in the source: an empty message in the ring announces
//! them, all others fetch them, and a sync tells the root that it may reuse the source.
//!
//! Invariants
//! 1. Message b of the ring overwrites message b - 8. There is a step between the two: after 8 messages without one, a
//!    sync is made first. A member that has left that step knows that all members have left broadcast b - 8.
//! 2. A slot is read before its reader makes another call on the team, so before that step.
//!
//! Costs: one message latency, and one step in nine calls; data above 504 bytes: one message latency, the copy, a step.

use std::ffi::c_int;

use selvedge_collectives::one_host::Pending;

use crate::check::{self, Call};
use crate::collective::arguments::{Buffers, DONE, REFUSED, bytes_of};
use crate::collective::members::{Members, Synchronise, TeamMembers};
use crate::collective::offload::{Kind, Offload, result_of};
use crate::collective::team_area::{RING_BYTES, RING_SLOTS};
use crate::collective::tree::children;
use crate::handles::Team;
use crate::types::Element;
use crate::world::address::SymAddress;

pub unsafe fn broadcast<T: Element>(
    call: Call,
    team: Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    root: c_int,
) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    bytes.map_or(REFUSED, |bytes| unsafe { broadcast_bytes(call, team, dest.cast(), source.cast(), bytes, root) })
}

unsafe fn broadcast_bytes(
    call: Call,
    team: Team,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
    root: c_int,
) -> c_int {
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    let Some(root) = checked_root(call, root, members.n) else { return REFUSED };
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    let done = unsafe { broadcast_among(call, &members, dest, source, bytes, root) };
    if done == DONE && members.me == root && dest.cast_const() != source && bytes > 0 {
        // SAFETY: `broadcast_among` found both ranges in this PE's symmetric memory. They may overlap, which
        // `copy_from` allows.
        unsafe { dest.copy_from(source, bytes) };
    }
    done
}

/// Broadcasts from the root to all others.
///
/// # Safety
/// As the C function: `source` and `dest` have `bytes`.
pub(crate) unsafe fn broadcast_among(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
    root: usize,
) -> c_int {
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, members.world, dest, bytes, source, bytes) else { return REFUSED };
    let memory = if members.me == root { source.cast_mut() } else { dest };
    // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped to the end of the
    // process. At the root the memory is only read.
    let operation = || unsafe { Pending::broadcast(root, memory, bytes) };
    if let Some(outcome) = Offload::of(members).complete(Kind::Broadcast, bytes, operation) {
        return result_of(call, outcome);
    }
    // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped.
    unsafe {
        if bytes <= RING_BYTES {
            let payload = send_from_root(members, root, source, bytes);
            if members.me != root {
                dest.copy_from_nonoverlapping(payload, bytes);
            }
        } else {
            send_from_root(members, root, source, 0);
            if members.me != root {
                members.world.get(members.pe(root), buffers.source, dest, bytes);
            }
            members.sync();
        }
    }
    DONE
}

/// The root's member number. `None`: it has been reported.
pub(crate) fn checked_root(call: Call, root: c_int, members: usize) -> Option<usize> {
    let found = usize::try_from(root).ok().filter(|root| *root < members);
    if found.is_none() {
        check::refuse(call, "PE_root", format_args!("{root}: there are {members} PEs"));
    }
    found
}

/// Fetches the root's data, between two syncs.
///
/// # Safety
/// `dest` was found to be symmetric memory of this PE, for `bytes`.
pub(crate) unsafe fn fetch_from_root<M: Synchronise>(
    members: &M,
    root: usize,
    source: SymAddress,
    dest: *mut u8,
    bytes: usize,
) {
    members.sync();
    if members.me() != root {
        members.world().get(members.pe(root), source, dest, bytes);
    }
    members.sync();
}

/// Sends a message from the root to all others. Returns the payload's address, which is valid until this member
/// makes its next call on the team.
///
/// # Safety
/// At the root, `bytes` can be read at `from`. They are at most [`RING_BYTES`].
unsafe fn send_from_root(members: &TeamMembers<'_>, root: usize, from: *const u8, bytes: usize) -> *const u8 {
    if members.step_numbers.since_step() == RING_SLOTS {
        members.sync();
    }
    let number = members.step_numbers.next_ring();
    let slot = members.area.ring(number);
    let distance = if members.me >= root { members.me - root } else { members.me + members.n - root };
    let payload = if distance == 0 {
        from
    } else {
        members.await_number(slot, number);
        members.payload(slot).cast_const()
    };
    // SAFETY: at the root, the contract of this function lets us read `bytes` at `from`; at others, the slot holds
    // them, and is not written again before this member's next call (invariant 2).
    unsafe {
        if !members.world.oversubscribed() {
            for (.., ahead) in children(distance, members.n).rev() {
                members.write_slot((root + ahead) % members.n, slot, payload, bytes, number);
            }
        } else if distance == 0 {
            for member in members.others() {
                members.write_slot(member, slot, payload, bytes, number);
            }
        }
    }
    payload
}
