// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages: `fi_send`, `fi_tsend`, `fi_recv`, `fi_trecv` and their many forms (fi_msg(3), fi_tagged(3)).
//!
//! Each form becomes one [`Message`] or one [`ReceiveRequest`]. This file only decides which flags are valid together.

use std::ffi::c_void;
use std::ptr::null_mut;

use selvedge_messages::message::{Message, SendEnd};
use selvedge_messages::pieces::total;
use selvedge_messages::posted::ReceiveRequest;
use selvedge_messages::protocols::{INJECT_BYTES, MESSAGE_BYTES_MAX, length_of};
use selvedge_messages::ticket::Kind;

use crate::calls::arguments::{array, piece, tagged_form};
use crate::calls::deferred::triggered;
use crate::calls::fast_path::{self, ReceiveCall, SendCall};
use crate::constants::*;
use crate::errors::result_of;
use crate::ffi::*;
use crate::objects::domain_object::ObjectGuard;
use crate::objects::endpoint::{Endpoint, FastPath};
use crate::objects::object::Ops;

/// `ALONE`: the program promises that calls into a domain never overlap.
const fn plain<const ALONE: bool>() -> Ops<fi_ops_msg> {
    Ops(fi_ops_msg {
        size: size_of::<fi_ops_msg>(),
        recv: Some(recv::<ALONE>),
        recvv: Some(recvv),
        recvmsg: Some(recvmsg),
        send: Some(send::<ALONE>),
        sendv: Some(sendv),
        sendmsg: Some(sendmsg),
        inject: Some(inject::<ALONE>),
        senddata: Some(senddata::<ALONE>),
        injectdata: Some(injectdata::<ALONE>),
    })
}

const fn tagged<const ALONE: bool>() -> Ops<fi_ops_tagged> {
    Ops(fi_ops_tagged {
        size: size_of::<fi_ops_tagged>(),
        recv: Some(trecv::<ALONE>),
        recvv: Some(trecvv),
        recvmsg: Some(trecvmsg),
        send: Some(tsend::<ALONE>),
        sendv: Some(tsendv),
        sendmsg: Some(tsendmsg),
        inject: Some(tinject::<ALONE>),
        senddata: Some(tsenddata::<ALONE>),
        injectdata: Some(tinjectdata::<ALONE>),
    })
}

static PLAIN: [Ops<fi_ops_msg>; 2] = [plain::<false>(), plain::<true>()];
static TAGGED_OPS: [Ops<fi_ops_tagged>; 2] = [tagged::<false>(), tagged::<true>()];

pub fn plain_ops(alone: bool) -> *mut fi_ops_msg {
    (&raw const PLAIN[usize::from(alone)].0).cast_mut()
}

pub fn tagged_ops(alone: bool) -> *mut fi_ops_tagged {
    (&raw const TAGGED_OPS[usize::from(alone)].0).cast_mut()
}

const SEND_FLAGS: u64 = TRANSFER_FLAGS | INJECT | REMOTE_CQ_DATA | MATCH_COMPLETE;
const RECV_FLAGS: u64 = COMPLETION | MORE | MULTI_RECV | PEEK | CLAIM | DISCARD | TRIGGER;

/// A send of any form. `flags` are those of the operation; it makes a completion if `wanted`.
#[inline(always)]
unsafe fn post_send(
    guard: &mut ObjectGuard<'_, Endpoint>,
    kind: Kind,
    pieces: &[iovec],
    dest: fi_addr_t,
    tag: u64,
    data: Option<u64>,
    context: *mut c_void,
    wanted: bool,
    flags: u64,
) -> isize {
    // SAFETY: with FI_TRIGGER the context is a `fi_triggered_context` (fi_trigger(3)).
    let work = match unsafe { triggered(guard, flags, SEND, context) } {
        Ok(work) => work,
        Err(error) => return -(error as isize),
    };
    let endpoint = guard.state();
    let Some(&entry) = endpoint.entry(dest) else { return refuse_address(endpoint, dest) };
    if !endpoint.enabled || endpoint.caps & kind.flag() == 0 || endpoint.caps & SEND == 0 {
        return refuse_state(endpoint);
    }
    let message = Message {
        kind,
        peer: entry.peer,
        endpoint: entry.address.endpoint,
        tag,
        data,
        pieces,
        ticket: endpoint.ticket(context, SEND | kind.flag(), wanted),
        inject: flags & INJECT != 0,
        end: send_end(flags),
    };
    match work {
        None => result_of(guard.send(&message)),
        Some(work) => result_of(guard.defer_send(&work, &message)),
    }
}

fn send_end(flags: u64) -> SendEnd {
    match flags {
        _ if flags & MATCH_COMPLETE != 0 => SendEnd::Matched,
        _ if flags & DELIVERY_COMPLETE != 0 => SendEnd::Delivered,
        _ => SendEnd::Sent,
    }
}

#[cold]
fn refuse_address(endpoint: &Endpoint, dest: fi_addr_t) -> isize {
    if endpoint.vector.is_null() {
        return -(ENOAV as isize);
    }
    crate::warn_line!("the address vector has no address {dest}");
    -(EINVAL as isize)
}

#[cold]
fn refuse_state(endpoint: &Endpoint) -> isize {
    if endpoint.enabled { -(EOPNOTSUPP as isize) } else { -(EOPBADSTATE as isize) }
}

/// A send of one piece with the endpoint's own flags, or one without a completion.
#[inline(always)]
unsafe fn send_one(ep: *mut fid_ep, fast_path: FastPath, sent: SendCall) -> isize {
    let injects = matches!(fast_path, FastPath::Inject);
    if injects && sent.len > INJECT_BYTES {
        return -(EMSGSIZE as isize);
    }
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let handle = Endpoint::of(ep);
        let mut guard = handle.lock();
        // With a single caller the lock-free fast path has already tried this.
        if !handle.is_alone() && fast_path::try_send_under_lock(&mut guard, fast_path, &sent) {
            return 0;
        }
        let SendCall { kind, buf, len, dest, tag, data, context } = sent;
        let pieces = &piece(buf, len);
        match injects {
            true => post_send(&mut guard, kind, pieces, dest, tag, data, context, false, INJECT),
            false => default_send(&mut guard, kind, pieces, dest, tag, data, context),
        }
    }
}

#[inline(never)]
unsafe fn default_send(
    guard: &mut ObjectGuard<'_, Endpoint>,
    kind: Kind,
    pieces: &[iovec],
    dest: fi_addr_t,
    tag: u64,
    data: Option<u64>,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let endpoint = guard.state();
        let flags = endpoint.tx_flags;
        if flags & INJECT != 0 && total(pieces) > INJECT_BYTES {
            return -(EMSGSIZE as isize);
        }
        let wanted = endpoint.wants_tx(flags);
        post_send(guard, kind, pieces, dest, tag, data, context, wanted, flags)
    }
}

unsafe fn flagged_send(ep: *mut fid_ep, kind: Kind, msg: &fi_msg_tagged, flags: u64) -> isize {
    if flags & !SEND_FLAGS != 0 {
        return -(EBADFLAGS as isize);
    }
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let Some(pieces) = array(msg.msg_iov, msg.iov_count) else { return -(EINVAL as isize) };
        if total(pieces) > if flags & INJECT != 0 { INJECT_BYTES } else { MESSAGE_BYTES_MAX } {
            return -(EMSGSIZE as isize);
        }
        let mut guard = Endpoint::of(ep).lock();
        let wanted = guard.state().wants_tx(flags);
        let data = (flags & REMOTE_CQ_DATA != 0).then_some(msg.data);
        post_send(&mut guard, kind, pieces, msg.addr, msg.tag, data, msg.context, wanted, flags)
    }
}

/// A receive of any form.
#[inline(always)]
unsafe fn post_receive(
    guard: &mut ObjectGuard<'_, Endpoint>,
    kind: Kind,
    pieces: &[iovec],
    src: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
    flags: u64,
) -> isize {
    let endpoint = guard.state();
    if !endpoint.enabled || endpoint.caps & kind.flag() == 0 || endpoint.caps & RECV == 0 {
        return refuse_state(endpoint);
    }
    // SAFETY: with FI_TRIGGER the context is a `fi_triggered_context` (fi_trigger(3)).
    let work = match unsafe { triggered(guard, flags, RECV, context) } {
        Ok(work) => work,
        Err(error) => return -(error as isize),
    };
    let endpoint = guard.state();
    let mut source = None;
    if src != ADDR_ANY && endpoint.caps & DIRECTED_RECV != 0 {
        let Some(entry) = endpoint.entry(src) else { return refuse_address(endpoint, src) };
        source = Some(entry.source);
    }
    let multi = (flags & MULTI_RECV != 0).then_some(endpoint.min_multi_recv);
    let wanted_completion = endpoint.wants_rx(flags);
    let ticket = endpoint.ticket(context, RECV | kind.flag(), wanted_completion);
    let wanted = ReceiveRequest { kind, source, tag, ignore, pieces, ticket, multi };
    if let Some(work) = work {
        return result_of(guard.defer_receive(&work, &wanted));
    }
    if flags & (PEEK | CLAIM | DISCARD) == 0 {
        return result_of(guard.receive(&wanted));
    }
    if flags & PEEK != 0 {
        guard.peek(&wanted, flags & CLAIM != 0, flags & DISCARD != 0);
        return 0;
    }
    match flags & CLAIM != 0 {
        true => result_of(guard.receive_claimed(&wanted, flags & DISCARD != 0)),
        false => -(EINVAL as isize),
    }
}

#[inline(always)]
unsafe fn receive_one(ep: *mut fid_ep, posted: ReceiveCall) -> isize {
    let ReceiveCall { kind, buf, len, src, tag, ignore, context } = posted;
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let mut guard = Endpoint::of(ep).lock();
        if fast_path::plain_receive(guard.state(), &posted).is_some_and(|plain| guard.receive_plainly(plain)) {
            return 0;
        }
        default_receive(&mut guard, kind, &piece(buf, len), src, tag, ignore, context)
    }
}

#[inline(never)]
unsafe fn default_receive(
    guard: &mut ObjectGuard<'_, Endpoint>,
    kind: Kind,
    pieces: &[iovec],
    src: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let flags = guard.state().rx_flags;
        post_receive(guard, kind, pieces, src, tag, ignore, context, flags)
    }
}

unsafe fn flagged_receive(ep: *mut fid_ep, kind: Kind, msg: &fi_msg_tagged, flags: u64) -> isize {
    let looks = flags & (PEEK | CLAIM | DISCARD) != 0;
    let wrong = flags & !RECV_FLAGS != 0
        || (looks && (kind != Kind::Tagged || flags & MULTI_RECV != 0))
        || flags & (CLAIM | DISCARD) == CLAIM | DISCARD && flags & PEEK != 0;
    if wrong {
        return -(EBADFLAGS as isize);
    }
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let Some(pieces) = array(msg.msg_iov, msg.iov_count) else { return -(EINVAL as isize) };
        post_receive(&mut Endpoint::of(ep).lock(), kind, pieces, msg.addr, msg.tag, msg.ignore, msg.context, flags)
    }
}

/// Entry points for messages of one piece. The fast path ([`super::fast_path`]) comes first, its most common case
/// before all others. The rest is a jump to a function with the same arguments, so that the fast path leaves all of
/// them in their registers. The address of that function is stored, so the compiler cannot change its signature.
macro_rules! sends {
    ($(fn $name:ident($ep:ident: *mut fid_ep, $($arg:ident: $type:ty,)*) { $fast_path:expr, $sent:expr })*) => {$(
        unsafe extern "C" fn $name<const ALONE: bool>($ep: *mut fid_ep, $($arg: $type),*) -> isize {
            #[inline(never)]
            unsafe extern "C" fn short($ep: *mut fid_ep, $($arg: $type),*) -> isize {
                // SAFETY: fi_msg(3), fi_tagged(3): endpoint open; pieces and context the program's until completion.
                unsafe {
                    match fast_path::try_send::<false, { length_of::A_SLOT }>($ep, $fast_path, $sent) {
                        true => 0,
                        false => longer($ep, $($arg),*),
                    }
                }
            }
            #[inline(never)]
            unsafe extern "C" fn longer($ep: *mut fid_ep, $($arg: $type),*) -> isize {
                // SAFETY: fi_msg(3), fi_tagged(3): endpoint open; pieces and context the program's until completion.
                unsafe {
                    match fast_path::try_send::<false, { length_of::MORE }>($ep, $fast_path, $sent) {
                        true => 0,
                        false => any($ep, $($arg),*),
                    }
                }
            }
            #[inline(never)]
            #[allow(unused_variables)]
            unsafe extern "C" fn any($ep: *mut fid_ep, $($arg: $type),*) -> isize {
                // SAFETY: fi_msg(3), fi_tagged(3): endpoint open; pieces and context the program's until completion.
                unsafe { send_one($ep, $fast_path, $sent) }
            }
            #[used]
            static FORMS: [unsafe extern "C" fn(*mut fid_ep, $($type),*) -> isize; 3] = [short, longer, any];
            // SAFETY: fi_msg(3), fi_tagged(3): endpoint open; pieces and context the program's until completion.
            unsafe {
                match fast_path::try_send::<ALONE, { length_of::A_WORD }>($ep, $fast_path, $sent) {
                    true => 0,
                    false => short($ep, $($arg),*),
                }
            }
        }
    )*};
}

/// The same for receives.
macro_rules! receives {
    ($(fn $name:ident($ep:ident: *mut fid_ep, $($arg:ident: $type:ty,)*) { $posted:expr })*) => {$(
        unsafe extern "C" fn $name<const ALONE: bool>($ep: *mut fid_ep, $($arg: $type),*) -> isize {
            #[inline(never)]
            #[allow(unused_variables)]
            unsafe extern "C" fn any($ep: *mut fid_ep, $($arg: $type),*) -> isize {
                // SAFETY: fi_msg(3), fi_tagged(3): endpoint open; pieces and context the program's until completion.
                unsafe { receive_one($ep, $posted) }
            }
            #[used]
            static FORM: unsafe extern "C" fn(*mut fid_ep, $($type),*) -> isize = any;
            // SAFETY: fi_msg(3), fi_tagged(3): endpoint open; pieces and context the program's until completion.
            unsafe {
                match fast_path::try_post::<ALONE>($ep, $posted) {
                    true => 0,
                    false => any($ep, $($arg),*),
                }
            }
        }
    )*};
}

// ---- fi_msg ------------------------------------------------------------------------------------------------------

receives! {
    fn recv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src: fi_addr_t,
        context: *mut c_void,
    ) {
        ReceiveCall::plain((buf, len), src, context)
    }
}

sends! {
    fn send(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest: fi_addr_t,
        context: *mut c_void,
    ) {
        FastPath::Send, SendCall::plain((buf, len), dest, context)
    }
    fn inject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest: fi_addr_t,
    ) {
        FastPath::Inject, SendCall::plain((buf, len), dest, null_mut())
    }
    fn senddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest: fi_addr_t,
        context: *mut c_void,
    ) {
        FastPath::Send, SendCall::plain((buf, len), dest, context).with(data)
    }
    fn injectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest: fi_addr_t,
    ) {
        FastPath::Inject, SendCall::plain((buf, len), dest, null_mut()).with(data)
    }
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    src: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let Some(pieces) = array(iov, count) else { return -(EINVAL as isize) };
        default_receive(&mut Endpoint::of(ep).lock(), Kind::Plain, pieces, src, 0, 0, context)
    }
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe { flagged_receive(ep, Kind::Plain, &tagged_form(&*msg), flags) }
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let Some(pieces) = array(iov, count) else { return -(EINVAL as isize) };
        default_send(&mut Endpoint::of(ep).lock(), Kind::Plain, pieces, dest, 0, None, context)
    }
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe { flagged_send(ep, Kind::Plain, &tagged_form(&*msg), flags) }
}

// ---- fi_tagged ---------------------------------------------------------------------------------------------------

receives! {
    fn trecv(
        ep: *mut fid_ep,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        src: fi_addr_t,
        tag: u64,
        ignore: u64,
        context: *mut c_void,
    ) {
        ReceiveCall::tagged((buf, len), src, (tag, ignore), context)
    }
}

sends! {
    fn tsend(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        dest: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) {
        FastPath::Send, SendCall::tagged((buf, len), dest, tag, context)
    }
    fn tinject(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        dest: fi_addr_t,
        tag: u64,
    ) {
        FastPath::Inject, SendCall::tagged((buf, len), dest, tag, null_mut())
    }
    fn tsenddata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        data: u64,
        dest: fi_addr_t,
        tag: u64,
        context: *mut c_void,
    ) {
        FastPath::Send, SendCall::tagged((buf, len), dest, tag, context).with(data)
    }
    fn tinjectdata(
        ep: *mut fid_ep,
        buf: *const c_void,
        len: usize,
        data: u64,
        dest: fi_addr_t,
        tag: u64,
    ) {
        FastPath::Inject, SendCall::tagged((buf, len), dest, tag, null_mut()).with(data)
    }
}

unsafe extern "C" fn trecvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    src: fi_addr_t,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let Some(pieces) = array(iov, count) else { return -(EINVAL as isize) };
        default_receive(&mut Endpoint::of(ep).lock(), Kind::Tagged, pieces, src, tag, ignore, context)
    }
}

unsafe extern "C" fn trecvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe { flagged_receive(ep, Kind::Tagged, &*msg, flags) }
}

unsafe extern "C" fn tsendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    tag: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe {
        let Some(pieces) = array(iov, count) else { return -(EINVAL as isize) };
        default_send(&mut Endpoint::of(ep).lock(), Kind::Tagged, pieces, dest, tag, None, context)
    }
}

unsafe extern "C" fn tsendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> isize {
    // SAFETY: fi_msg(3), fi_tagged(3): the endpoint is open; pieces and context are the program's until completion.
    unsafe { flagged_send(ep, Kind::Tagged, &*msg, flags) }
}
