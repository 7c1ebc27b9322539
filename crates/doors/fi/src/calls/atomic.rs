// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Atomic operations on registered memory (fi_atomic(3)). Each form becomes one [`Atomic`].
//!
//! The NIC's table ([`selvedge_nic::portals::operation::allowed`]) lists the valid pairs of operations and datatypes.
//! Reads and overwrites are valid for all. Each element is atomic separately.

use std::ffi::{c_int, c_void};

use selvedge_messages::pieces::RemoteRange;
use selvedge_messages::transfer::Atomic;

use crate::calls::arguments::array;
use crate::calls::atomic_types::{BYTES_MAX, Form, datatype, effect};
use crate::calls::deferred::triggered;
use crate::constants::*;
use crate::errors::result_of;
use crate::ffi::*;
use crate::objects::endpoint::Endpoint;
use crate::objects::object::Ops;

static OPS: Ops<fi_ops_atomic> = Ops(fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    readwrite: Some(readwrite),
    readwritev: Some(readwritev),
    readwritemsg: Some(readwritemsg),
    compwrite: Some(compwrite),
    compwritev: Some(compwritev),
    compwritemsg: Some(compwritemsg),
    writevalid: Some(writevalid),
    readwritevalid: Some(readwritevalid),
    compwritevalid: Some(compwritevalid),
});

const FLAGS: u64 = TRANSFER_FLAGS | INJECT;

pub fn ops() -> *mut fi_ops_atomic {
    (&raw const OPS.0).cast_mut()
}

/// Largest number of elements in one call.
fn most(theirs: fi_datatype, op: fi_op, form: Form) -> Option<usize> {
    let datatype = datatype(theirs)?;
    effect(op, datatype, form)?;
    // A comparison is an operation of the NIC on one element.
    Some(if form == Form::Compare { 1 } else { BYTES_MAX / datatype.size_bytes() })
}

struct Call {
    ep: *mut fid_ep,
    address: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
    form: Form,
    /// `None`: the endpoint's own flags.
    flags: Option<u64>,
    quiet: bool,
}

impl Call {
    unsafe fn start(
        &self,
        operands: &[fi_ioc],
        comparands: &[fi_ioc],
        results: &[fi_ioc],
        remote: &[fi_rma_ioc],
    ) -> isize {
        // SAFETY: fi_atomic(3): the endpoint is open, and operands, results and the context are the program's until the
        // completion. With FI_TRIGGER the context is a `fi_triggered_context`.
        unsafe {
            let mut guard = Endpoint::of(self.ep).lock();
            let endpoint = guard.state();
            if !endpoint.enabled {
                return -(EOPBADSTATE as isize);
            }
            let right = if self.form == Form::Plain { WRITE } else { READ };
            if endpoint.caps & ATOMIC == 0 || endpoint.caps & right == 0 {
                return -(EOPNOTSUPP as isize);
            }
            // FI_INJECT changes nothing: all forms copy operands and comparands before the call returns.
            if self.flags.is_some_and(|flags| flags & !FLAGS != 0) {
                return -(EBADFLAGS as isize);
            }
            let Some(datatype) = datatype(self.datatype) else { return -(EOPNOTSUPP as isize) };
            let Some(effect) = effect(self.op, datatype, self.form) else { return -(EOPNOTSUPP as isize) };
            let Some(&entry) = endpoint.entry(self.address) else { return -(EINVAL as isize) };
            let size = datatype.size_bytes();
            let local = |elements: &[fi_ioc]| -> Vec<iovec> {
                let piece = |ioc: &fi_ioc| iovec { iov_base: ioc.addr, iov_len: ioc.count.saturating_mul(size) };
                elements.iter().map(piece).collect()
            };
            let there: Vec<RemoteRange> = remote
                .iter()
                .map(|ioc| RemoteRange { offset: ioc.addr, length: ioc.count.saturating_mul(size), key: ioc.key })
                .collect();
            let bytes: usize = there.iter().map(|piece| piece.length).fold(0, usize::saturating_add);
            if bytes == 0 {
                return -(EINVAL as isize);
            }
            if bytes > if self.form == Form::Compare { size } else { BYTES_MAX } {
                return -(EMSGSIZE as isize);
            }
            let flags = if self.quiet { 0 } else { self.flags.unwrap_or(endpoint.tx_flags) };
            let work = match triggered(&mut guard, flags, right, self.context) {
                Ok(work) => work,
                Err(error) => return -(error as isize),
            };
            let endpoint = guard.state();
            let wanted = !self.quiet && endpoint.wants_tx(flags);
            let ticket = endpoint.ticket(self.context, ATOMIC | right, wanted);
            let (operands, comparands, results) = (local(operands), local(comparands), local(results));
            let atomic = Atomic {
                effect,
                datatype,
                peer: entry.peer,
                operands: &operands,
                comparands: &comparands,
                results: &results,
                remote: &there,
                ticket,
            };
            match work {
                None => result_of(guard.atomic(&atomic)),
                Some(work) => result_of(guard.defer_atomic(&work, &atomic)),
            }
        }
    }
}

fn one(buf: *const c_void, count: usize) -> [fi_ioc; 1] {
    [fi_ioc { addr: buf.cast_mut(), count }]
}

fn elements(ioc: &[fi_ioc]) -> usize {
    ioc.iter().map(|ioc| ioc.count).fold(0, usize::saturating_add)
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    address: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call { ep, address, datatype, op, context, form: Form::Plain, flags: None, quiet: false };
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe { call.start(&one(buf, count), &[], &[], &[fi_rma_ioc { addr, count, key }]) }
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    address: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call { ep, address, datatype, op, context, form: Form::Plain, flags: None, quiet: false };
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe {
        let Some(operands) = array(iov, count) else { return -(EINVAL as isize) };
        call.start(operands, &[], &[], &[fi_rma_ioc { addr, count: elements(operands), key }])
    }
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> isize {
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe {
        let msg = &*msg;
        let (Some(operands), Some(remote)) = (array(msg.msg_iov, msg.iov_count), array(msg.rma_iov, msg.rma_iov_count))
        else {
            return -(EINVAL as isize);
        };
        message_call(ep, msg, Form::Plain, flags).start(operands, &[], &[], remote)
    }
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    address: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> isize {
    let context = std::ptr::null_mut();
    let call = Call { ep, address, datatype, op, context, form: Form::Plain, flags: None, quiet: true };
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe { call.start(&one(buf, count), &[], &[], &[fi_rma_ioc { addr, count, key }]) }
}

fn message_call(ep: *mut fid_ep, msg: &fi_msg_atomic, form: Form, flags: u64) -> Call {
    Call {
        ep,
        address: msg.addr,
        datatype: msg.datatype,
        op: msg.op,
        context: msg.context,
        form,
        flags: Some(flags),
        quiet: false,
    }
}

unsafe extern "C" fn readwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    address: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call { ep, address, datatype, op, context, form: Form::Fetch, flags: None, quiet: false };
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe { call.start(&one(buf, count), &[], &one(result, count), &[fi_rma_ioc { addr, count, key }]) }
}

unsafe extern "C" fn readwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    address: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call { ep, address, datatype, op, context, form: Form::Fetch, flags: None, quiet: false };
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe {
        let (Some(operands), Some(results)) = (array(iov, count), array(resultv.cast_const(), result_count)) else {
            return -(EINVAL as isize);
        };
        call.start(operands, &[], results, &[fi_rma_ioc { addr, count: elements(results), key }])
    }
}

unsafe extern "C" fn readwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe {
        let msg = &*msg;
        let (Some(operands), Some(results), Some(remote)) = (
            array(msg.msg_iov, msg.iov_count),
            array(resultv.cast_const(), result_count),
            array(msg.rma_iov, msg.rma_iov_count),
        ) else {
            return -(EINVAL as isize);
        };
        message_call(ep, msg, Form::Fetch, flags).start(operands, &[], results, remote)
    }
}

unsafe extern "C" fn compwrite(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    address: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call { ep, address, datatype, op, context, form: Form::Compare, flags: None, quiet: false };
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe {
        let remote = [fi_rma_ioc { addr, count, key }];
        call.start(&one(buf, count), &one(compare, count), &one(result, count), &remote)
    }
}

unsafe extern "C" fn compwritev(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    _desc: *mut *mut c_void,
    count: usize,
    comparev: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    address: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call { ep, address, datatype, op, context, form: Form::Compare, flags: None, quiet: false };
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe {
        let (Some(operands), Some(comparands), Some(results)) =
            (array(iov, count), array(comparev, compare_count), array(resultv.cast_const(), result_count))
        else {
            return -(EINVAL as isize);
        };
        call.start(operands, comparands, results, &[fi_rma_ioc { addr, count: elements(results), key }])
    }
}

unsafe extern "C" fn compwritemsg(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    comparev: *const fi_ioc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *mut fi_ioc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    // SAFETY: fi_atomic(3): the endpoint is open; operands, results and context are the program's until completion.
    unsafe {
        let msg = &*msg;
        let (Some(operands), Some(comparands), Some(results), Some(remote)) = (
            array(msg.msg_iov, msg.iov_count),
            array(comparev, compare_count),
            array(resultv.cast_const(), result_count),
            array(msg.rma_iov, msg.rma_iov_count),
        ) else {
            return -(EINVAL as isize);
        };
        message_call(ep, msg, Form::Compare, flags).start(operands, comparands, results, remote)
    }
}

fn valid(datatype: fi_datatype, op: fi_op, count: *mut usize, form: Form) -> c_int {
    match most(datatype, op, form) {
        Some(most) => {
            if !count.is_null() {
                // SAFETY: fi_atomicvalid(3): the pointer is to a number of the program, and it is not null.
                unsafe { *count = most };
            }
            0
        }
        None => -EOPNOTSUPP,
    }
}

unsafe extern "C" fn writevalid(_: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    valid(datatype, op, count, Form::Plain)
}

unsafe extern "C" fn readwritevalid(_: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    valid(datatype, op, count, Form::Fetch)
}

unsafe extern "C" fn compwritevalid(_: *mut fid_ep, datatype: fi_datatype, op: fi_op, count: *mut usize) -> c_int {
    valid(datatype, op, count, Form::Compare)
}

/// fi_query_atomic.
pub unsafe extern "C" fn query(
    _: *mut fid_domain,
    theirs: fi_datatype,
    op: fi_op,
    attr: *mut fi_atomic_attr,
    flags: u64,
) -> c_int {
    let form = match flags {
        0 => Form::Plain,
        FETCH_ATOMIC => Form::Fetch,
        COMPARE_ATOMIC => Form::Compare,
        _ if flags & TAGGED != 0 => return -EOPNOTSUPP,
        _ => return -EBADFLAGS,
    };
    let (Some(most), Some(kind)) = (most(theirs, op, form), datatype(theirs)) else { return -EOPNOTSUPP };
    if !attr.is_null() {
        // SAFETY: fi_query_atomic(3): the pointer is to a structure of the program, and it is not null.
        unsafe { *attr = fi_atomic_attr { count: most, size: kind.size_bytes() } };
    }
    0
}
