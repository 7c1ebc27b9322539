// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `PtlPut` (Portals 4.3, "Data Movement Operations").
//!
//! A put tries three paths in this order:
//! 1. over a cached route ([`crate::route_cache`]) that an earlier put with the same key has found;
//! 2. without a command, if the initiator gets at most counting events and the target's memory is directly mapped;
//! 3. by a command, like all other operations.
//!
//! Invariant: the paths have the same effects and events; they differ in cost only.

use selvedge_host::plain_put::{count_put, put_plain};
use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::{Put, ack, options};
use selvedge_process::nic::tables::{Side, kind};
use selvedge_process::{Counts, LockedRoute, PutOutcome};

use crate::abi::Process;
use crate::codes::Code;
use crate::plan::{DescriptorPart, Plan, Tag, Target, start};
use crate::route_cache::{Origin, PutRoute, RouteKey};
use crate::state::{Ni, REFERENCE, open_interface};

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

/// Puts over a cached route. Returns false, without effect, if there is none.
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
    let checked =
        DescriptorPart::of_put(md, offset, length, ack_req).and_then(|part| Ok((target.check(part.ni, length)?, part)));
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
    match put_plain(interface, physical, &put, source.start, &counts) {
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
                count_put(interface, physical, &put, &counts);
            }
            return code;
        }
    }
    Code::Ok as i32
}

#[inline(never)]
fn put_by_command(part: &DescriptorPart, physical: u64, length: u64, target: &Target, tag: &Tag) -> i32 {
    start(Ok(Plan { source: part.side, ..Plan::to(part.ni, kind::PUT, physical) }), length, target, tag)
}

/// The initiator's counting events for a put. `None`: it also gets full events, or its I/O vector needs a command.
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
