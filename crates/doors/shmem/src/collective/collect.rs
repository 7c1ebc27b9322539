// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collect and fcollect (OpenSHMEM, "Collect").
//!
//! Data that fit into the slots of an exchange or a tree are copied from there. Longer data are fetched from every
//! member's source, between two steps. PEs that do not map each other's memory use an aggregation node (`offload.rs`).
//! In a collect each member first announces its number of bytes: with its data in an exchange, through the tree, or in
//! large teams in a word of its own area, which the others read.
//!
//! Invariant: that word is written again only in its owner's next collect, so after the step that ends this one.
//!
//! Costs: one step (two for a collect through a tree); or two steps, and a fetch of each source by each other member.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::Relaxed;

use selvedge_collectives::one_host::{Buffer, Pending};

use crate::check::{self, Call};
use crate::collective::arguments::{Buffers, DONE, REFUSED, bytes_of};
use crate::collective::exchange::{Contributions, Exchange};
use crate::collective::members::{Members, Synchronise, TeamMembers};
use crate::collective::offload::{Kind, Offload, result_of};
use crate::collective::sync::sync_members;
use crate::collective::team_area::{AreaWord, HEAD_BYTES, MEMBERS_MAX};
use crate::collective::tree::{Tree, TreeBuffer};
use crate::handles::Team;
use crate::types::Element;
use crate::world::address::SymAddress;

pub unsafe fn fcollect<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    bytes.map_or(REFUSED, |bytes| unsafe { fcollect_bytes(call, team, dest.cast(), source.cast(), bytes) })
}

unsafe fn fcollect_bytes(call: Call, team: Team, dest: *mut u8, source: *const u8, bytes: usize) -> c_int {
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    unsafe { fcollect_among(call, &members, dest, source, bytes) }
}

/// # Safety
/// As the C function: `source` has `bytes`, and `dest` room for `bytes` of each member.
pub(crate) unsafe fn fcollect_among(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
) -> c_int {
    let Some(all) = bytes_of(call, bytes, members.n) else { return REFUSED };
    if bytes == 0 {
        return DONE;
    }
    let Some(buffers) = Buffers::checked(call, members.world, dest, all, source, bytes) else { return REFUSED };
    // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped.
    let operation = || unsafe { Pending::allgather(Buffer { from: source, to: dest }, bytes) };
    if let Some(outcome) = Offload::of(members).complete(Kind::Gather, bytes, operation) {
        return result_of(call, outcome);
    }
    // SAFETY: `Buffers::checked` found both ranges in this PE's symmetric memory, which stays mapped.
    unsafe {
        match Exchange::of(members).limit() {
            Some(limit) if bytes <= limit => {
                let contributions = Exchange::of(members).contribute(source, bytes);
                for member in 0..members.n {
                    dest.add(member * bytes).copy_from_nonoverlapping(contributions.of(member), bytes);
                }
            }
            None if all <= Tree::of(members).limit() => {
                let mut gathered = TreeBuffer::uninit();
                let gathered = gathered.as_mut_ptr().cast::<u8>();
                gathered.add(members.me * bytes).copy_from_nonoverlapping(source, bytes);
                Tree::of(members).gather(gathered, |member| member * bytes);
                dest.copy_from_nonoverlapping(gathered, all);
            }
            _ => fetch_all(members, buffers.source, dest, bytes),
        }
    }
    DONE
}

/// Fetches `bytes` from each member's source, between two syncs.
///
/// # Safety
/// `dest` was found to be symmetric memory of this PE, for `bytes` of each member.
pub(crate) unsafe fn fetch_all<M: Synchronise>(members: &M, source: SymAddress, dest: *mut u8, bytes: usize) {
    members.sync();
    let own = dest.wrapping_add(members.me() * bytes);
    // SAFETY: the source was checked for `bytes`, and the contract of this function gives room for them in `dest`. They
    // may be the same range, which `copy_from` allows.
    unsafe { own.copy_from(source.local(), bytes) };
    for member in members.others() {
        members.world().get(members.pe(member), source, dest.wrapping_add(member * bytes), bytes);
    }
    members.sync();
}

pub unsafe fn collect<T: Element>(call: Call, team: Team, dest: *mut T, source: *const T, nelems: usize) -> c_int {
    let bytes = bytes_of(call, nelems, size_of::<T>());
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    bytes.map_or(REFUSED, |bytes| unsafe { collect_bytes(call, team, dest.cast(), source.cast(), bytes) })
}

unsafe fn collect_bytes(call: Call, team: Team, dest: *mut u8, source: *const u8, bytes: usize) -> c_int {
    let Some(members) = TeamMembers::find(call, team) else { return REFUSED };
    // SAFETY: the contract of the C function: `source` has `nelems` elements, and `dest` room for the result.
    unsafe { collect_among(call, &members, dest, source, bytes) }
}

/// # Safety
/// As the C function: `source` has `bytes`, and `dest` room for the bytes of all members.
pub(crate) unsafe fn collect_among(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: *const u8,
    bytes: usize,
) -> c_int {
    let source = match checked_source(call, members, source, bytes) {
        Ok(source) => source,
        Err(()) => return REFUSED,
    };
    // SAFETY: `checked_source` found `bytes` of symmetric memory; `dest` is checked there once the sizes are known.
    if let Some(done) = unsafe { collect_by_node(call, members, dest, source, bytes) } {
        return done;
    }
    match Exchange::of(members).limit() {
        // SAFETY: `checked_source` found `bytes` of symmetric memory; `dest` is checked there once the sizes are known.
        Some(limit) => unsafe { collect_in_one_step(call, members, dest, source, bytes, limit) },
        // SAFETY: `checked_source` found `bytes` of symmetric memory; `dest` is checked there once the sizes are known.
        // The sizes fit into the tree.
        None if members.n * size_of::<u64>() <= Tree::of(members).limit() => unsafe {
            collect_in_tree(call, members, dest, source, bytes)
        },
        None => {
            members.world.word(members.area.word(AreaWord::Size)).store(bytes as u64, Relaxed);
            members.sync();
            let place = SymAddress::of(members.area.word(AreaWord::Size));
            let size = |member| size_at(members, member, place);
            // SAFETY: `checked_source` found `bytes` of symmetric memory, if there are any.
            let done = unsafe { collect_sized(call, members, dest, source, size) };
            members.sync();
            done
        }
    }
}

/// Members exchange their sizes through the node. If all sizes are equal, the data go through it, too; else all data
/// are fetched. `None`: the team's own algorithms do it.
///
/// # Safety
/// As for [`collect_sized`].
unsafe fn collect_by_node(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: Option<SymAddress>,
    bytes: usize,
) -> Option<c_int> {
    if members.n > MEMBERS_MAX {
        return None;
    }
    let (own, mut sizes) = (bytes as u64, [0u64; MEMBERS_MAX]);
    let words = Buffer { from: (&raw const own).cast(), to: sizes.as_mut_ptr().cast() };
    // SAFETY: both are on this stack. There are at most `MEMBERS_MAX` members.
    let said = Offload::of(members)
        .complete(Kind::Gather, size_of::<u64>(), || unsafe { Pending::allgather(words, size_of::<u64>()) })?;
    if said.is_err() {
        return Some(result_of(call, said));
    }
    let sizes = &sizes[..members.n];
    let all_alike = sizes.iter().all(|&size| size == own);
    if all_alike && bytes == 0 {
        return Some(DONE);
    }
    if let (Some(source), true) = (source, all_alike) {
        let all = bytes_of(call, bytes, members.n).and_then(|all| members.world.sym(call, "dest", dest, all));
        let Some(dest) = all else { return Some(REFUSED) };
        let data = Buffer { from: source.local(), to: dest.local() };
        // SAFETY: the source was checked for `bytes`, and `dest` for those of all members.
        let gathered =
            Offload::of(members).complete(Kind::Gather, bytes, || unsafe { Pending::allgather(data, bytes) });
        if let Some(outcome) = gathered {
            return Some(result_of(call, outcome));
        }
    }
    // SAFETY: the contract of this function. All members have said their sizes, so their sources are ready.
    let done = unsafe { collect_sized(call, members, dest, source, |member| sizes[member] as usize) };
    sync_members(members);
    Some(done)
}

/// Sends the sizes, and data that fit, through the tree. Longer data are fetched.
unsafe fn collect_in_tree(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: Option<SymAddress>,
    bytes: usize,
) -> c_int {
    let (mut sizes, mut gathered) = (TreeBuffer::uninit(), TreeBuffer::uninit());
    let (sizes, gathered) = (sizes.as_mut_ptr().cast::<u64>(), gathered.as_mut_ptr().cast::<u8>());
    // SAFETY: a buffer holds the tree's limit of bytes. The caller has found that the sizes fit, and the data go into one only
    // if all of them fit. The source was checked for `bytes`.
    unsafe {
        sizes.add(members.me).write_unaligned(bytes as u64);
        Tree::of(members).gather(sizes.cast(), |member| member * size_of::<u64>());
        let size = |member: usize| sizes.add(member).read_unaligned() as usize;
        let at = |member| (0..member).map(size).fold(0, usize::saturating_add);
        let all = at(members.n);
        if all > Tree::of(members).limit() {
            let done = collect_sized(call, members, dest, source, size);
            members.sync();
            return done;
        }
        if let Some(source) = source {
            gathered.add(at(members.me)).copy_from_nonoverlapping(source.local(), bytes);
        }
        if all > 0 {
            Tree::of(members).gather(gathered, at);
            let Some(dest) = members.world.sym(call, "dest", dest, all) else { return REFUSED };
            dest.local().copy_from_nonoverlapping(gathered, all);
        }
    }
    DONE
}

/// Checks a source of any length. An empty one may be any pointer; if symmetric, others may have bytes there.
pub(crate) fn checked_source<M: Members>(
    call: Call,
    members: &M,
    source: *const u8,
    bytes: usize,
) -> Result<Option<SymAddress>, ()> {
    if bytes == 0 {
        return Ok(members.world().find(source, 1));
    }
    members.world().sym(call, "source", source, bytes).map(Some).ok_or(())
}

/// The size that a member has written at an address of its own.
pub(crate) fn size_at<M: Members>(members: &M, member: usize, place: SymAddress) -> usize {
    let mut size = 0u64;
    members.world().get(members.pe(member), place, (&raw mut size).cast(), 8);
    size as usize
}

/// Fetches each member's bytes, which may differ in number. All members are between two syncs.
///
/// # Safety
/// `source` was checked for this PE's own bytes.
pub(crate) unsafe fn collect_sized<M: Members>(
    call: Call,
    members: &M,
    dest: *mut u8,
    source: Option<SymAddress>,
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
            // SAFETY: `dest` was checked for the bytes of all members, and the contract of this function says that the
            // source was. They may be the same range, which `copy_from` allows.
            Some(source) if member == members.me() => unsafe { into.copy_from(source.local(), bytes) },
            Some(source) => members.world().get(members.pe(member), source, into, bytes),
            None => {
                check::refuse(call, "source", format_args!("not a symmetric address, but other PEs collect from it"));
                return REFUSED;
            }
        }
    }
    DONE
}

/// Exchanges sizes, and data that fit, in one step. If some do not fit, all data are fetched.
unsafe fn collect_in_one_step(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    source: Option<SymAddress>,
    bytes: usize,
    limit: usize,
) -> c_int {
    let mut contribution = MaybeUninit::<[u8; EXCHANGE_DATA_BYTES + HEAD_BYTES]>::uninit();
    let contribution = contribution.as_mut_ptr().cast::<u8>();
    let limit = limit.min(EXCHANGE_DATA_BYTES + HEAD_BYTES) - HEAD_BYTES;
    let fits = |bytes: usize| bytes <= limit;
    // SAFETY: the buffer holds the size and `limit` bytes, and no more are copied into it. The source was checked for
    // `bytes`.
    let contributions = unsafe {
        contribution.cast::<u64>().write_unaligned(bytes as u64);
        let data_bytes = if fits(bytes) { bytes } else { 0 };
        if let Some(source) = source {
            contribution.add(HEAD_BYTES).copy_from_nonoverlapping(source.local(), data_bytes);
        }
        Exchange::of(members).contribute(contribution, HEAD_BYTES + data_bytes)
    };
    // SAFETY: each member's contribution starts with its size.
    let size = |member| unsafe { contributions.of(member).cast::<u64>().read_unaligned() } as usize;
    if (0..members.n).all(|member| fits(size(member))) {
        // SAFETY: all sizes fit, so each contribution is as long as its size says.
        return unsafe { collect_contributions(call, members, dest, contributions, size) };
    }
    // SAFETY: the source was checked for `bytes`. The exchange was a step, so the sources of all members are ready.
    let done = unsafe { collect_sized(call, members, dest, source, size) };
    members.sync();
    done
}

const EXCHANGE_DATA_BYTES: usize = 2032;

unsafe fn collect_contributions(
    call: Call,
    members: &TeamMembers<'_>,
    dest: *mut u8,
    contributions: Contributions,
    size: impl Fn(usize) -> usize,
) -> c_int {
    let all = (0..members.n).map(&size).sum::<usize>();
    if all == 0 {
        return DONE;
    }
    let Some(dest) = members.world.sym(call, "dest", dest, all) else { return REFUSED };
    let mut at = 0;
    for member in 0..members.n {
        let bytes = size(member);
        // SAFETY: `dest` was checked for the bytes of all members; a member's contribution is its size and its bytes.
        unsafe { dest.at(at).local().copy_from_nonoverlapping(contributions.of(member).add(HEAD_BYTES), bytes) };
        at += bytes;
    }
    DONE
}
