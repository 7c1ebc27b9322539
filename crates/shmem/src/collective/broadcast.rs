// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Broadcast (OpenSHMEM, "Broadcast").
//!
//! Up to 504 bytes go one way, through the *ring*: 8 slots at each member, in turn. The root writes them and returns. Of a
//! team without a core for each PE the root writes to all; else along a tree in which each member writes to 7 for each
//! digit of its distance from the root. Longer data stay where they are: the ring carries the word that they are ready, all
//! others fetch them, and a sync tells the root that it may have them back.
//!
//! Invariants
//! 1. Step b of the ring overwrites what step b - 8 brought. Between the two lies a full step: after 8 steps of the ring
//!    without one, a sync is made first. Who has left that full step knows that everyone has left step b - 8.
//! 2. A slot is read before its reader makes another call on the team, so before that full step.
//!
//! Costs: one crossing, and one full step in nine calls; data above 504 bytes: one crossing, the copy, a full step.

use std::ffi::c_int;

use crate::collective::area::{RING_BYTES, RING_SLOTS};
use crate::collective::crew::{Crew, Members};
use crate::collective::tree::branches;
use crate::collective::{Buffers, DONE, REFUSED, bytes_of};
use crate::types::Element;
use crate::{Call, Place, Team, check, team};

pub unsafe fn broadcast<T: Element>(
    call: Call,
    team: Team,
    dest: *mut T,
    source: *const T,
    nelems: usize,
    root: c_int,
) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the caller's promise.
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
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    let Some(root) = checked_root(call, root, crew.n) else { return REFUSED };
    // SAFETY: the caller's promise.
    let done = unsafe { broadcast_among(call, &crew, dest, source, bytes, root) };
    if done == DONE && crew.me == root && dest.cast_const() != source && bytes > 0 {
        // SAFETY: both were found to be symmetric memory of this PE.
        unsafe { dest.copy_from(source, bytes) };
    }
    done
}

/// From the root to all others.
///
/// # Safety
/// As of the C function.
pub(crate) unsafe fn broadcast_among(
    call: Call,
    crew: &Crew<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
    root: usize,
) -> c_int {
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, crew.world, dest, bytes, source, bytes) else { return REFUSED };
    // SAFETY: both are symmetric memory of this PE.
    unsafe {
        if bytes <= RING_BYTES {
            let content = crew.cast(root, source, bytes);
            if crew.me != root {
                dest.copy_from_nonoverlapping(content, bytes);
            }
        } else {
            crew.cast(root, source, 0);
            if crew.me != root {
                crew.world.get(crew.pe(root), buffers.source, dest, bytes);
            }
            crew.sync();
        }
    }
    DONE
}

/// The root as a member's number.
pub(crate) fn checked_root(call: Call, root: c_int, members: usize) -> Option<usize> {
    let found = usize::try_from(root).ok().filter(|root| *root < members);
    if found.is_none() {
        check::refuse(call, "PE_root", format_args!("{root}: there are {members} PEs"));
    }
    found
}

/// Fetches what the root has, between two syncs.
///
/// # Safety
/// `dest` can be written.
pub(crate) unsafe fn fetch<M: Members>(members: &M, root: usize, source: Place, dest: *mut u8, bytes: usize) {
    members.sync();
    if members.me() != root {
        members.world().get(members.pe(root), source, dest, bytes);
    }
    members.sync();
}

impl Crew<'_> {
    /// One way from the root to all others, which find the content at the address returned, until they make the next call.
    ///
    /// # Safety
    /// At the root, `bytes` can be read at `from`; the ring has room for them.
    unsafe fn cast(&self, root: usize, from: *const u8, bytes: usize) -> *const u8 {
        if self.since_step() == RING_SLOTS {
            self.sync();
        }
        let number = self.next_ring();
        let slot = self.area.ring(number);
        let distance = if self.me >= root { self.me - root } else { self.me + self.n - root };
        let content = if distance == 0 {
            from
        } else {
            self.await_number(slot, number);
            self.content(slot).cast_const()
        };
        // SAFETY: the caller's promise, or what just came.
        unsafe {
            if !self.world.crowded() {
                for (.., ahead) in branches(distance, self.n).rev() {
                    self.post((root + ahead) % self.n, slot, content, bytes, number);
                }
            } else if distance == 0 {
                for member in self.others() {
                    self.post(member, slot, content, bytes, number);
                }
            }
        }
        content
    }
}
