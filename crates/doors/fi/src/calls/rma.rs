// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads and writes of registered memory (fi_rma(3)). Each form becomes one [`Transfer`].

use std::ffi::c_void;
use std::slice;

use selvedge_messages::pieces::{RemoteRange, total};
use selvedge_messages::protocols::INJECT_BYTES;
use selvedge_messages::transfer::Transfer;

use crate::calls::arguments::{array, piece, ranges};
use crate::calls::deferred::triggered;
use crate::constants::*;
use crate::errors::result_of;
use crate::ffi::*;
use crate::info::IOV_LIMIT;
use crate::objects::domain_object::ObjectGuard;
use crate::objects::endpoint::Endpoint;
use crate::objects::object::Ops;

static OPS: Ops<fi_ops_rma> = Ops(fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
});

pub fn ops() -> *mut fi_ops_rma {
    (&raw const OPS.0).cast_mut()
}

const FLAGS: u64 = TRANSFER_FLAGS | INJECT | REMOTE_CQ_DATA;

#[inline(always)]
unsafe fn start(
    guard: &mut ObjectGuard<'_, Endpoint>,
    write: bool,
    pieces: &[iovec],
    remote: &[RemoteRange],
    address: fi_addr_t,
    data: Option<u64>,
    context: *mut c_void,
    wanted: bool,
    flags: u64,
) -> isize {
    let endpoint = guard.state();
    let right = if write { WRITE } else { READ };
    if !endpoint.enabled {
        return -(EOPBADSTATE as isize);
    }
    if endpoint.caps & RMA == 0 || endpoint.caps & right == 0 {
        return -(EOPNOTSUPP as isize);
    }
    let Some(&entry) = endpoint.entry(address) else { return -(EINVAL as isize) };
    // SAFETY: with FI_TRIGGER the context is a `fi_triggered_context` (fi_trigger(3)).
    let work = match unsafe { triggered(guard, flags, right, context) } {
        Ok(work) => work,
        Err(error) => return -(error as isize),
    };
    let transfer = Transfer {
        write,
        peer: entry.peer,
        endpoint: entry.address.endpoint,
        pieces,
        remote,
        data,
        ticket: guard.state().ticket(context, RMA | right, wanted),
        inject: write && flags & INJECT != 0,
    };
    match work {
        None => result_of(guard.transfer(&transfer)),
        Some(work) => result_of(guard.defer_transfer(&work, &transfer)),
    }
}

unsafe fn default(
    ep: *mut fid_ep,
    write: bool,
    pieces: &[iovec],
    address: fi_addr_t,
    addr: u64,
    key: u64,
    data: Option<u64>,
    context: *mut c_void,
) -> isize {
    let remote = [RemoteRange { offset: addr, length: total(pieces), key }];
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe {
        let mut guard = Endpoint::of(ep).lock();
        let endpoint = guard.state();
        let flags = endpoint.tx_flags;
        if write && flags & INJECT != 0 && total(pieces) > INJECT_BYTES {
            return -(EMSGSIZE as isize);
        }
        let wanted = endpoint.wants_tx(flags);
        start(&mut guard, write, pieces, &remote, address, data, context, wanted, flags)
    }
}

unsafe fn flagged(ep: *mut fid_ep, write: bool, msg: &fi_msg_rma, flags: u64) -> isize {
    if flags & !FLAGS != 0 || (!write && flags & (INJECT | REMOTE_CQ_DATA) != 0) {
        return -(EBADFLAGS as isize);
    }
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe {
        let Some(pieces) = array(msg.msg_iov, msg.iov_count) else { return -(EINVAL as isize) };
        if msg.rma_iov.is_null() || !(1..=IOV_LIMIT).contains(&msg.rma_iov_count) {
            return -(EINVAL as isize);
        }
        if flags & INJECT != 0 && total(pieces) > INJECT_BYTES {
            return -(EMSGSIZE as isize);
        }
        let remote = ranges(slice::from_raw_parts(msg.rma_iov, msg.rma_iov_count));
        let mut guard = Endpoint::of(ep).lock();
        let wanted = guard.state().wants_tx(flags);
        let data = (flags & REMOTE_CQ_DATA != 0).then_some(msg.data);
        start(&mut guard, write, pieces, remote, msg.addr, data, msg.context, wanted, flags)
    }
}

unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    src: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe { default(ep, false, &piece(buf, len), src, addr, key, None, context) }
}

unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    src: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe {
        let Some(pieces) = array(iov, count) else { return -(EINVAL as isize) };
        default(ep, false, pieces, src, addr, key, None, context)
    }
}

unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe { flagged(ep, false, &*msg, flags) }
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe { default(ep, true, &piece(buf, len), dest, addr, key, None, context) }
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe {
        let Some(pieces) = array(iov, count) else { return -(EINVAL as isize) };
        default(ep, true, pieces, dest, addr, key, None, context)
    }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe { flagged(ep, true, &*msg, flags) }
}

/// A write without a completion. The program may reuse the buffer when the call returns.
unsafe fn injected(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: Option<u64>,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    if len > INJECT_BYTES {
        return -(EMSGSIZE as isize);
    }
    let remote = [RemoteRange { offset: addr, length: len, key }];
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe {
        let mut guard = Endpoint::of(ep).lock();
        start(&mut guard, true, &piece(buf, len), &remote, dest, data, std::ptr::null_mut(), false, INJECT)
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe { injected(ep, buf, len, None, dest, addr, key) }
}

unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe { default(ep, true, &piece(buf, len), dest, addr, key, Some(data), context) }
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: fi_rma(3): the endpoint is open, and the pieces and the context are the program's until the completion.
    unsafe { injected(ep, buf, len, Some(data), dest, addr, key) }
}
