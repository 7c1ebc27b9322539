// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fast path of common messages: one piece, the endpoint's own flags, and a domain or a process with one thread.
//!
//! The latency of a message includes these instructions and the transfer of its cache line, so they are few. The path
//! takes no lock, makes few calls, and does nothing that some of its messages do not need. It leaves every other
//! message to [`super::message`].
//!
//! `ALONE`: the program promises that one thread calls, so this is not checked.

use std::ffi::c_void;

use selvedge_messages::Transport;
use selvedge_messages::message::envelope;
use selvedge_messages::posted::PlainReceive;
use selvedge_messages::protocols::length_of;
use selvedge_messages::ticket::Kind;

use crate::constants::SEND;
use crate::ffi::{fi_addr_t, fid_ep};
use crate::objects::domain_object::ObjectGuard;
use crate::objects::endpoint::{Endpoint, FastPath};

/// A message of one piece, with the endpoint's own flags.
#[derive(Clone, Copy)]
pub struct SendCall {
    pub kind: Kind,
    pub buf: *const c_void,
    pub len: usize,
    pub dest: fi_addr_t,
    pub tag: u64,
    pub data: Option<u64>,
    pub context: *mut c_void,
}

impl SendCall {
    #[inline(always)]
    pub fn plain((buf, len): (*const c_void, usize), dest: fi_addr_t, context: *mut c_void) -> SendCall {
        SendCall { kind: Kind::Plain, buf, len, dest, tag: 0, data: None, context }
    }

    #[inline(always)]
    pub fn tagged((buf, len): (*const c_void, usize), dest: fi_addr_t, tag: u64, context: *mut c_void) -> SendCall {
        SendCall { kind: Kind::Tagged, buf, len, dest, tag, data: None, context }
    }

    /// Adds data for the receiver's completion.
    #[inline(always)]
    pub fn with(self, data: u64) -> SendCall {
        SendCall { data: Some(data), ..self }
    }
}

/// A receive of one piece, with the endpoint's own flags.
#[derive(Clone, Copy)]
pub struct ReceiveCall {
    pub kind: Kind,
    pub buf: *mut c_void,
    pub len: usize,
    pub src: fi_addr_t,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
}

impl ReceiveCall {
    #[inline(always)]
    pub fn plain((buf, len): (*mut c_void, usize), src: fi_addr_t, context: *mut c_void) -> ReceiveCall {
        ReceiveCall { kind: Kind::Plain, buf, len, src, tag: 0, ignore: 0, context }
    }

    #[inline(always)]
    pub fn tagged(
        (buf, len): (*mut c_void, usize),
        src: fi_addr_t,
        (tag, ignore): (u64, u64),
        context: *mut c_void,
    ) -> ReceiveCall {
        ReceiveCall { kind: Kind::Tagged, buf, len, src, tag, ignore, context }
    }
}

/// Enqueues a message of the class `LENGTH` ([`length_of`]) in its target's ring. The send is then over, with a
/// completion if the endpoint makes them for such sends. Returns false if nothing has happened.
///
/// # Safety
/// `ep` is an open endpoint of the program, and the buffer is readable for its length.
#[inline(always)]
pub unsafe fn try_send<const ALONE: bool, const LENGTH: u8>(
    ep: *mut fid_ep,
    fast_path: FastPath,
    sent: SendCall,
) -> bool {
    // SAFETY: the endpoint is open and the buffer is the program's, by this function's contract. An entry point that
    // has not taken the lock holds no other reference to the transport.
    unsafe {
        // The length is checked first, as it most often rules this path out. For words that would cost registers.
        if LENGTH != length_of::A_WORD && !length_of::is::<LENGTH>(sent.len) {
            return false;
        }
        let Some((transport, endpoint)) = Endpoint::of(ep).directly::<ALONE>() else { return false };
        endpoint.allows_fast_path(fast_path, sent.kind) && enqueue::<LENGTH>(transport, endpoint, fast_path, &sent)
    }
}

/// Like `try_send`, but under the domain's lock and for any length, if other threads may call.
///
/// # Safety
/// The buffer is readable for its length.
#[inline(never)]
pub unsafe fn try_send_under_lock(guard: &mut ObjectGuard<'_, Endpoint>, fast_path: FastPath, sent: &SendCall) -> bool {
    if !guard.state().allows_fast_path(fast_path, sent.kind) {
        return false;
    }
    // SAFETY: the lock is held, so no other thread grows the vector or reads the queue. The transport finds a peer and its
    // ring by number; it reaches no endpoint. The buffer is readable by this function's contract.
    unsafe {
        let (transport, endpoint) = guard.both();
        enqueue::<{ length_of::MORE }>(transport, endpoint, fast_path, sent)
            || enqueue::<{ length_of::A_SLOT }>(transport, endpoint, fast_path, sent)
    }
}

#[inline(always)]
unsafe fn enqueue<const LENGTH: u8>(
    transport: &mut Transport,
    endpoint: &Endpoint,
    fast_path: FastPath,
    sent: &SendCall,
) -> bool {
    // SAFETY: the buffer is the program's, by this function's contract. An endpoint allows the fast path only while it
    // is enabled. So it has a vector, and a queue if `tx_completes`. No other thread uses either: the lock is held or
    // not needed.
    unsafe {
        let Some(peer_entry) = endpoint.peer_entry(sent.dest) else { return false };
        let left = transport.enqueue_one::<LENGTH>(peer_entry.peer, (sent.buf.cast(), sent.len), || {
            envelope(peer_entry.portal + sent.kind as u8, endpoint.bindings.ring_flags, sent.tag, sent.data)
        });
        if left && matches!(fast_path, FastPath::Send) && endpoint.tx_completes {
            // Under the same lock, because all threads share the queue.
            (*endpoint.bindings.tx_queue).push_own(sent.context, SEND | sent.kind.flag());
        }
        left
    }
}

/// Posts a receive, or fills it with an unexpected message that matches. Returns false if nothing has happened.
///
/// # Safety
/// `ep` is an open endpoint of the program, and the buffer is writable for its length.
#[inline(always)]
pub unsafe fn try_post<const ALONE: bool>(ep: *mut fid_ep, posted: ReceiveCall) -> bool {
    // SAFETY: the program passes an open endpoint; the reference to it ends before the transport runs.
    let direct = unsafe { Endpoint::of(ep).directly::<ALONE>() };
    let Some((transport, endpoint)) = direct else { return false };
    plain_receive(endpoint, &posted).is_some_and(|plain| transport.receive_plainly(plain))
}

/// A plain receive for the transport. `None`: receives of this endpoint are not plain, or there is no such source.
#[inline(always)]
pub fn plain_receive(endpoint: &Endpoint, posted: &ReceiveCall) -> Option<PlainReceive> {
    let ReceiveCall { kind, buf, len, src, tag, ignore, context } = *posted;
    if !endpoint.allows_fast_path(FastPath::Receive, kind) {
        return None;
    }
    // SAFETY: the fast path is allowed only for an enabled endpoint, so it has an address vector.
    let source = unsafe { endpoint.source_of(src) }?;
    Some(PlainReceive {
        portal: kind.portal(endpoint.bindings.index),
        source,
        tag,
        ignore,
        start: buf as u64,
        length: len as u64,
        context,
        wanted: endpoint.rx_completes,
    })
}
