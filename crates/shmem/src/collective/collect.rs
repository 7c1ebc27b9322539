// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collect and fcollect (OpenSHMEM, "Collect").
//!
//! What fits into an exchange, or a tree's slots, is copied from there. Longer data are fetched from every member's source,
//! between two full steps. In a collect each member first has to tell how much it has: with its data in an exchange, through
//! the tree, or in large teams in a word of its own area, where the others read it.
//!
//! Invariant: that word is written again only in its owner's next collect, so after the full step that ends this one.
//!
//! Costs: one full step (two for a collect through a tree); or two, and each source fetched once by each other member.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

use crate::collective::area::{HEAD_BYTES, Word};
use crate::collective::crew::{Crew, Members};
use crate::collective::exchange::View;
use crate::collective::tree::Load;
use crate::collective::{Buffers, DONE, REFUSED, bytes_of};
use crate::types::Element;
use crate::{Call, Place, Team, check, team};

pub unsafe fn fcollect<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the caller's promise.
    bytes.map_or(REFUSED, |bytes| unsafe { fcollect_bytes(call, team, dest.cast(), source.cast(), bytes) })
}

unsafe fn fcollect_bytes(call: Call, team: Team, dest: *mut u8, source: *const u8, bytes: usize) -> c_int {
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    // SAFETY: the caller's promise.
    unsafe { fcollect_among(call, &crew, dest, source, bytes) }
}

/// # Safety
/// As of the C function.
pub(crate) unsafe fn fcollect_among(
    call: Call,
    crew: &Crew<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
) -> c_int {
    let Some(all) = bytes_of(call, bytes, crew.n) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, crew.world, dest, all, source, bytes) else { return REFUSED };
    // SAFETY: both are symmetric memory of this PE.
    unsafe {
        match crew.room() {
            Some(room) if bytes <= room => {
                let view = crew.exchange(source, bytes);
                for member in 0..crew.n {
                    dest.add(member * bytes).copy_from_nonoverlapping(view.of(member), bytes);
                }
            }
            None if all <= crew.tree_room() => {
                let mut seen = Load::uninit();
                let seen = seen.as_mut_ptr().cast::<u8>();
                seen.add(crew.me * bytes).copy_from_nonoverlapping(source, bytes);
                crew.gather_in_tree(seen, |member| member * bytes);
                dest.copy_from_nonoverlapping(seen, all);
            }
            _ => gather(crew, buffers.source, dest, bytes),
        }
    }
    DONE
}

/// Fetches as many bytes from each member's source, between two syncs.
///
/// # Safety
/// `dest` can be written for all of them.
pub(crate) unsafe fn gather<M: Members>(members: &M, source: Place, dest: *mut u8, bytes: usize) {
    members.sync();
    let own = dest.wrapping_add(members.me() * bytes);
    // SAFETY: the caller's promise. They may be the same place.
    unsafe { own.copy_from(source.local(), bytes) };
    for member in members.others() {
        members.world().get(members.pe(member), source, dest.wrapping_add(member * bytes), bytes);
    }
    members.sync();
}

pub unsafe fn collect<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the caller's promise.
    bytes.map_or(REFUSED, |bytes| unsafe { collect_bytes(call, team, dest.cast(), source.cast(), bytes) })
}

unsafe fn collect_bytes(call: Call, team: Team, dest: *mut u8, source: *const u8, bytes: usize) -> c_int {
    let Some(crew) = team::crew(call, team) else { return REFUSED };
    // SAFETY: the caller's promise.
    unsafe { collect_among(call, &crew, dest, source, bytes) }
}

/// # Safety
/// As of the C function.
pub(crate) unsafe fn collect_among(
    call: Call,
    crew: &Crew<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
) -> c_int {
    let source = match checked_source(call, crew, source, bytes) {
        Ok(source) => source,
        Err(()) => return REFUSED,
    };
    match crew.room() {
        // SAFETY: source and dest were checked, dest up to its start.
        Some(room) => unsafe { collect_seen(call, crew, dest, source, bytes, room) },
        // SAFETY: as above.
        None if crew.n * size_of::<u64>() <= crew.tree_room() => unsafe {
            collect_in_tree(call, crew, dest, source, bytes)
        },
        None => {
            crew.world.word(crew.area.word(Word::Size)).store(bytes as u64, Relaxed);
            crew.sync();
            let place = crew.world.place(crew.area.word(Word::Size));
            let size = |member| size_at(crew, member, place);
            // SAFETY: as above.
            let done = unsafe { collect_sized(call, crew, dest, source, size) };
            crew.sync();
            done
        }
    }
}

/// Sizes go through the tree, and data that fit. Others are fetched.
unsafe fn collect_in_tree(call: Call, crew: &Crew<'_>, dest: *mut u8, source: Option<Place>, bytes: usize) -> c_int {
    let (mut sizes, mut seen) = (Load::uninit(), Load::uninit());
    let (sizes, seen) = (sizes.as_mut_ptr().cast::<u64>(), seen.as_mut_ptr().cast::<u8>());
    // SAFETY: a load has room for the sizes, the caller says, and for what is gathered in it.
    unsafe {
        sizes.add(crew.me).write_unaligned(bytes as u64);
        crew.gather_in_tree(sizes.cast(), |member| member * size_of::<u64>());
        let size = |member: usize| sizes.add(member).read_unaligned() as usize;
        let at = |member| (0..member).map(size).fold(0, usize::saturating_add);
        let all = at(crew.n);
        if all > crew.tree_room() {
            let done = collect_sized(call, crew, dest, source, size);
            crew.sync();
            return done;
        }
        if let Some(source) = source {
            seen.add(at(crew.me)).copy_from_nonoverlapping(source.local(), bytes);
        }
        if all > 0 {
            crew.gather_in_tree(seen, at);
            let Some(dest) = crew.world.sym(call, "dest", dest, all) else { return REFUSED };
            dest.local().copy_from_nonoverlapping(seen, all);
        }
    }
    DONE
}

/// A source of any number of bytes; of none, any pointer will do, but others may have some at the same place.
pub(crate) fn checked_source<M: Members>(
    call: Call,
    members: &M,
    source: *const u8,
    bytes: usize,
) -> Result<Option<Place>, ()> {
    if bytes == 0 {
        return Ok(members.world().find(source, 1));
    }
    members.world().sym(call, "source", source, bytes).map(Some).ok_or(())
}

/// The number that a member has written at a place of its own.
pub(crate) fn size_at<M: Members>(members: &M, member: usize, place: Place) -> usize {
    let mut size = 0u64;
    members.world().get(members.pe(member), place, (&raw mut size).cast(), 8);
    size as usize
}

/// Fetches from each member as many bytes as it has. All are between two syncs.
///
/// # Safety
/// `source` is this PE's, if it has any bytes.
pub(crate) unsafe fn collect_sized<M: Members>(
    call: Call,
    members: &M,
    dest: *mut u8,
    source: Option<Place>,
    size: impl Fn(usize) -> usize,
) -> c_int {
    let Some(all) = (0..members.n()).try_fold(0usize, |all, member| all.checked_add(size(member))) else {
        return REFUSED;
    };
    if all == 0 {
        return DONE;
    }
    let Some(dest) = members.world().sym(call, "dest", dest, all) else { return REFUSED };
    let mut at = 0;
    for member in 0..members.n() {
        let bytes = size(member);
        let into = dest.at(at).local();
        at += bytes;
        match source {
            _ if bytes == 0 => {}
            // SAFETY: checked; they may be the same place.
            Some(source) if member == members.me() => unsafe { into.copy_from(source.local(), bytes) },
            Some(source) => members.world().get(members.pe(member), source, into, bytes),
            None => {
                check::refuse(
                    call,
                    "source",
                    format_args!("not a symmetric address, though other PEs collect from it"),
                );
                return REFUSED;
            }
        }
    }
    DONE
}

/// By one exchange of sizes and of what fits; what does not is fetched.
unsafe fn collect_seen(
    call: Call,
    crew: &Crew<'_>,
    dest: *mut u8,
    source: Option<Place>,
    bytes: usize,
    room: usize,
) -> c_int {
    let mut brought = MaybeUninit::<[u8; SEEN_BYTES + HEAD_BYTES]>::uninit();
    let brought = brought.as_mut_ptr().cast::<u8>();
    let room = room.min(SEEN_BYTES + HEAD_BYTES) - HEAD_BYTES;
    let fits = |bytes: usize| bytes <= room;
    // SAFETY: `source` holds as many bytes; what is sent is what fits.
    let view = unsafe {
        brought.cast::<u64>().write_unaligned(bytes as u64);
        let along = if fits(bytes) { bytes } else { 0 };
        if let Some(source) = source {
            brought.add(HEAD_BYTES).copy_from_nonoverlapping(source.local(), along);
        }
        crew.exchange(brought, HEAD_BYTES + along)
    };
    // SAFETY: each brought its size first.
    let size = |member| unsafe { view.of(member).cast::<u64>().read_unaligned() } as usize;
    if (0..crew.n).all(|member| fits(size(member))) {
        // SAFETY: as above.
        return unsafe { collect_from_view(call, crew, dest, view, size) };
    }
    // SAFETY: all members' sources are ready since the exchange.
    let done = unsafe { collect_sized(call, crew, dest, source, size) };
    crew.sync();
    done
}

/// Data of a collect that travel in an exchange, at most.
const SEEN_BYTES: usize = 2032;

unsafe fn collect_from_view(
    call: Call,
    crew: &Crew<'_>,
    dest: *mut u8,
    view: View,
    size: impl Fn(usize) -> usize,
) -> c_int {
    let all = (0..crew.n).map(&size).sum::<usize>();
    if all == 0 {
        return DONE;
    }
    let Some(dest) = crew.world.sym(call, "dest", dest, all) else { return REFUSED };
    let mut at = 0;
    for member in 0..crew.n {
        let bytes = size(member);
        // SAFETY: checked for all of them; the view holds what each brought.
        unsafe { dest.at(at).local().copy_from_nonoverlapping(view.of(member).add(HEAD_BYTES), bytes) };
        at += bytes;
    }
    DONE
}
