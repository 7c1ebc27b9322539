// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of a completion queue (fi_cq(3)).
//!
//! A read of an empty queue first polls the domain. While the queue holds an error, a read returns the completions that came
//! before the error, and then `-FI_EAVAIL`.

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use selvedge_messages::completion::{Completion, CompletionQueue, Empty, Failure, Reading};
use selvedge_messages::polling::AfterUnlock;
use selvedge_os::caller::callers;
use selvedge_os::library;

use crate::constants::*;
use crate::errors::errno_of_fault;
use crate::ffi::*;
use crate::objects::completion_queue::{Fixed, Handle};
use crate::objects::domain::Domain;
use crate::objects::object::{self, Ops, Pause};
use crate::warn_line;

const _: () = assert!(
    size_of::<fi_cq_tagged_entry>() == size_of::<Completion>()
        && offset_of!(fi_cq_tagged_entry, op_context) == offset_of!(Completion, context)
        && offset_of!(fi_cq_tagged_entry, flags) == offset_of!(Completion, flags)
        && offset_of!(fi_cq_tagged_entry, len) == offset_of!(Completion, length)
        && offset_of!(fi_cq_tagged_entry, buf) == offset_of!(Completion, buffer)
        && offset_of!(fi_cq_tagged_entry, data) == offset_of!(Completion, data)
        && offset_of!(fi_cq_tagged_entry, tag) == offset_of!(Completion, tag)
);

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, object::no_bind, control));

#[allow(clippy::needless_update)]
static OPS: Ops<fi_ops_cq> = Ops(fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: Some(sread),
    sreadfrom: Some(sreadfrom),
    signal: Some(signal),
    strerror: Some(strerror),
    ..object::rest()
});

/// fi_cq_open.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_cq_open(3): the domain is open; the program gives attributes or null, and room for the pointer.
    unsafe {
        let mut none = fi_cq_attr::default();
        let attr = attr.as_mut().unwrap_or(&mut none);
        let entry_bytes = match attr.format {
            FI_CQ_FORMAT_UNSPEC | FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
            FI_CQ_FORMAT_CONTEXT => size_of::<fi_cq_entry>(),
            FI_CQ_FORMAT_MSG => size_of::<fi_cq_msg_entry>(),
            FI_CQ_FORMAT_DATA => size_of::<fi_cq_data_entry>(),
            _ => return -EINVAL,
        };
        if !matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD) {
            warn_line!("completion queues wait with FI_WAIT_UNSPEC or FI_WAIT_YIELD, not by descriptors or wait sets");
            return -ENOSYS;
        }
        if attr.flags & !AFFINITY != 0 {
            return -EBADFLAGS;
        }
        if !matches!(attr.wait_cond, FI_CQ_COND_NONE | FI_CQ_COND_THRESHOLD) {
            return -EINVAL;
        }
        if attr.format == FI_CQ_FORMAT_UNSPEC {
            attr.format = FI_CQ_FORMAT_TAGGED;
        }
        let domain = domain.cast::<Domain>();
        (*domain).uses.add();
        let head = fid_cq { fid: object::head(FI_CLASS_CQ, context, &FID_OPS.0), ops: (&raw const OPS.0).cast_mut() };
        let may_wait = attr.wait_obj != FI_WAIT_NONE;
        let fixed = Fixed { entry_bytes, may_wait, signalled: AtomicBool::new(false) };
        let queue = CompletionQueue::new(attr.size.clamp(64, 4096));
        let made = Handle::make(head, domain, fixed, queue);
        *cq = Box::into_raw(made).cast();
    }
    0
}

#[inline(always)]
unsafe fn read_any(cq: *mut fid_cq, buf: *mut c_void, count: usize, sources: *mut fi_addr_t) -> isize {
    // SAFETY: fi_cq_read(3): the queue is open; there is room for `count` entries, and for `count` sources, or null.
    unsafe {
        let handle = Handle::of(cq);
        let (queue, entry_bytes) = (handle.guarded(), handle.fixed.entry_bytes);
        let mut guard = handle.lock();
        let mut reading = Reading::new(queue, buf.cast(), entry_bytes, count, sources);
        let state = guard.state();
        let reads_next = state.take_expectation();
        let mut waited = state.has_any();
        // Queued completions come first. New ones from the poll are written behind them, without queueing.
        let mut fails = waited && state.read_into(&mut reading) == Err(Empty::FailureNext);
        if reading.left() == count && !fails {
            guard.progress_into(&mut reading);
        } else if reading.left() != 0 && !reads_next {
            guard.progress_once_into(&mut reading);
        }
        guard.domain_guard.carry_on_groups();
        let state = guard.state();
        if state.has_any() {
            waited = true;
            fails = state.read_into(&mut reading) == Err(Empty::FailureNext);
        }
        if waited {
            guard.has_read_completions();
        }
        if guard.after_unlock == AfterUnlock::Poll && reading.left() != count {
            guard.after_unlock = AfterUnlock::Found;
        }
        match count - reading.left() {
            0 if count == 0 => 0,
            0 if fails => -(EAVAIL as isize),
            0 => -(EAGAIN as isize),
            got => got as isize,
        }
    }
}

unsafe extern "C" fn read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> isize {
    // SAFETY: fi_cq_read(3): the queue is open, and the program has room for `count` entries.
    unsafe { read_any(cq, buf, count, std::ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(cq: *mut fid_cq, buf: *mut c_void, count: usize, source: *mut fi_addr_t) -> isize {
    // SAFETY: fi_cq_readfrom(3): the queue is open, and the program has room for `count` entries and as many sources.
    unsafe { read_any(cq, buf, count, source) }
}

unsafe extern "C" fn readerr(cq: *mut fid_cq, to: *mut fi_cq_err_entry, _flags: u64) -> isize {
    // SAFETY: fi_cq_readerr(3): the queue is open, and the entry is the program's.
    unsafe {
        let mut guard = Handle::of(cq).lock();
        let Some(failure) = guard.state().take_failure() else { return -(EAGAIN as isize) };
        drop(guard);
        let Failure { completion, missing, error, .. } = failure;
        if completion.context.is_null() {
            tell_of_failure(errno_of_fault(error));
        }
        let to = &mut *to;
        to.op_context = completion.context;
        to.flags = completion.flags;
        to.len = completion.length;
        to.buf = completion.buffer;
        to.data = completion.data;
        to.tag = completion.tag;
        to.olen = missing;
        (to.err, to.prov_errno) = (errno_of_fault(error), errno_of_fault(error));
        to.err_data_size = 0;
    }
    1
}

/// Tells the library before Open MPI, if there is one, of a failure without a context: Open MPI cannot take it.
#[cold]
fn tell_of_failure(errno: c_int) {
    type Failed = unsafe extern "C" fn(c_int, *const c_char, usize);
    warn_line!("an operation without a context has failed with error {errno}");
    let [Some(caller), _] = callers() else { return };
    // SAFETY: a name of Selvedge's own, whose function has this type; the name of the file lives across the call.
    unsafe {
        if let Some(failed) = library::symbol::<Failed>(libc::RTLD_DEFAULT, c"selvedge_openmpi_failed") {
            failed(errno, caller.file().as_ptr().cast(), caller.file().len());
        }
    }
}

unsafe extern "C" fn sread(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: fi_cq_sread(3): the queue is open, and the program has room for `count` entries.
    unsafe { sreadfrom(cq, buf, count, std::ptr::null_mut(), cond, timeout) }
}

unsafe extern "C" fn sreadfrom(
    cq: *mut fid_cq,
    buf: *mut c_void,
    count: usize,
    source: *mut fi_addr_t,
    _cond: *const c_void,
    timeout: c_int,
) -> isize {
    // SAFETY: fi_cq_sread(3): the queue is open; there is room for `count` entries and `count` sources, or null.
    unsafe {
        let Fixed { may_wait, signalled, .. } = &Handle::of(cq).fixed;
        if !may_wait {
            return -(ENOSYS as isize);
        }
        let end = Instant::now() + Duration::from_millis(timeout.max(0) as u64);
        let mut pause = Pause::default();
        loop {
            let got = read_any(cq, buf, count, source);
            if got != -(EAGAIN as isize) {
                return got;
            }
            if signalled.swap(false, SeqCst) || (timeout >= 0 && Instant::now() >= end) {
                return got;
            }
            pause.wait();
        }
    }
}

unsafe extern "C" fn signal(cq: *mut fid_cq) -> c_int {
    // SAFETY: fi_cq_signal(3): the queue is open. The fixed part is atomic where it changes.
    let fixed = unsafe { &Handle::of(cq).fixed };
    if !fixed.may_wait {
        return -ENOSYS;
    }
    fixed.signalled.store(true, SeqCst);
    0
}

unsafe extern "C" fn strerror(
    _: *mut fid_cq,
    error: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = match error {
        ETRUNC => c"the message was longer than the buffer",
        ECANCELED => c"cancelled by fi_cancel",
        ENOMSG => c"no message matches",
        EHOSTDOWN => c"the peer's process has ended",
        ENOKEY => c"no memory is registered under this key",
        EACCES => c"outside of the registered memory, or an access without the right",
        EFAULT => c"the memory is not mapped",
        _ => c"the operation failed",
    };
    // SAFETY: fi_cq_strerror(3): the program has room for `len` characters, or gives null.
    unsafe { object::give_text(text, buf, len) }
}

unsafe extern "C" fn control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -ENOSYS
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the queue was made by `open`, no endpoint is bound to it, and no other thread uses it any more.
    unsafe {
        let handle = Handle::of(fid);
        if handle.uses.any() {
            return -EBUSY;
        }
        handle.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Handle>()));
    }
    0
}
