// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The usual message, on the shortest way: one piece, the endpoint's own flags, a domain or a process of one thread.
//!
//! A program that sends or receives one waits for these instructions and for its line of memory, so they are few: no turn, no calls
//! but seldom, and nothing that is not needed by all of them. What is otherwise in any respect is left as it is, and done by
//! [`crate::message`] as every other message.

use std::ffi::c_void;

use crate::constants::SEND;
use crate::core::receives::Receive;
use crate::core::{Core, Kind};
use crate::endpoint::{Easy, Endpoint};
use crate::ffi::{fi_addr_t, fid_ep};

/// Leaves a message in its target's lane, if it fits into a line there: it is then over, with a completion if its endpoint makes any of
/// such. False: nothing has happened.
///
/// # Safety
/// An endpoint of the program's, and its buffer.
#[inline(always)]
pub unsafe fn left(
    ep: *mut fid_ep,
    easy: Easy,
    kind: Kind,
    from: (*const c_void, usize),
    dest: fi_addr_t,
    with: (u64, Option<u64>),
    context: *mut c_void,
) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let endpoint = Endpoint::of(ep);
        let Some(core) = endpoint.core_at_hand(easy, kind) else { return false };
        leave(core, endpoint, easy, kind, from, dest, with, context)
    }
}

/// The same in a turn, where others may have theirs.
///
/// # Safety
/// As of [`left`].
#[inline(always)]
pub unsafe fn left_in_turn(
    ep: *mut fid_ep,
    easy: Easy,
    kind: Kind,
    from: (*const c_void, usize),
    dest: fi_addr_t,
    with: (u64, Option<u64>),
    context: *mut c_void,
) -> bool {
    // SAFETY: the caller's.
    unsafe {
        let endpoint = Endpoint::of(ep);
        // Those at hand have been tried. The vector grows, and the queue is read, in other threads' turns.
        !endpoint.is_alone()
            && endpoint.is_easy(easy, kind)
            && leave(&mut (*endpoint.domain).core(), endpoint, easy, kind, from, dest, with, context)
    }
}

#[inline(always)]
unsafe fn leave(
    core: &mut Core,
    endpoint: &Endpoint,
    easy: Easy,
    kind: Kind,
    (buf, len): (*const c_void, usize),
    dest: fi_addr_t,
    (tag, data): (u64, Option<u64>),
    context: *mut c_void,
) -> bool {
    // SAFETY: the caller's; operations are easy where the endpoint is enabled, and has a queue if it tells of them.
    unsafe {
        let Some(brief) = endpoint.brief(dest) else { return false };
        let portal = brief.portal + kind as u8;
        let left = core.leave_small(brief.peer, portal, endpoint.index, tag, data, buf.cast(), len);
        if left && matches!(easy, Easy::Send) && endpoint.tx_told {
            // In the same turn: the queue is everybody's.
            (*endpoint.tx_queue).push_own(context, SEND | kind.flag());
        }
        left
    }
}

/// Keeps a receive, if messages for it will come through lanes and none waits. False: nothing has happened.
///
/// # Safety
/// As of [`left`].
#[inline(always)]
pub unsafe fn kept(
    ep: *mut fid_ep,
    kind: Kind,
    (buf, len): (*mut c_void, usize),
    src: fi_addr_t,
    bits: (u64, u64),
    context: *mut c_void,
) -> bool {
    // SAFETY: the caller's; operations are easy where the endpoint is enabled.
    unsafe {
        let endpoint = Endpoint::of(ep);
        let Some((core, front)) = endpoint.front_at_hand(kind) else { return false };
        let Some(source) = endpoint.source_of(src) else { return false };
        let receive = Receive::new(bits, source, buf as u64, len, context, endpoint.rx_told);
        core.keep_at_once(front, len, receive)
    }
}
