// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Completion queues (fi_cq(3)). They grow as needed and drop nothing.
//!
//! A read of an empty queue first polls the domain. Errors have their own queue. While it holds an error, a read
//! returns the completions that came before the error and then `-FI_EAVAIL`.

use std::collections::VecDeque;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use crate::constants::*;
use crate::core::Rest;
use crate::domain::Domain;
use crate::ffi::*;
use crate::object::{self, Object, Ops, Pause};
use crate::warn_line;

/// A completion with the fields of every format.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Completion {
    /// libfabric's largest entry; every other format is a prefix of it.
    pub entry: fi_cq_tagged_entry,
    /// The sender, if the program wants it.
    pub source: fi_addr_t,
}

/// A read in progress: the array for new completions.
#[derive(Clone, Copy)]
pub struct Reading {
    /// The queue that is read; null if none is.
    queue: *const CompletionQueue,
    to: *mut u8,
    entry_bytes: usize,
    /// Entries for which there is room.
    left: usize,
    /// The array for senders, or null.
    sources: *mut fi_addr_t,
}

impl Reading {
    /// No read is in progress, so all completions go to the queue.
    #[inline(always)]
    pub fn none() -> Reading {
        let (queue, to, sources) = (std::ptr::null(), std::ptr::null_mut(), std::ptr::null_mut());
        Reading { queue, to, entry_bytes: 0, left: 0, sources }
    }

    /// Entries for which there is room.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether the read wants entries of the largest format, and no senders.
    #[inline(always)]
    pub fn is_whole(&self) -> bool {
        self.entry_bytes == size_of::<fi_cq_tagged_entry>() && self.sources.is_null()
    }

    /// Advances over the entries that were written through [`CompletionQueue::writes_next`].
    #[inline(always)]
    pub fn has_written<const WHOLE: bool>(&mut self, written: Written<WHOLE>, entries: usize) {
        (self.to, self.left) = (written.to, self.left - entries);
    }

    /// # Safety
    /// There is room for one more entry.
    #[inline(always)]
    unsafe fn write(&mut self, completion: &Completion) {
        // SAFETY: there is room for one more entry, and for its source if those are asked for, by this function's
        // contract.
        unsafe {
            self.to = write_entry(self.to, &completion.entry, self.entry_bytes);
            if !self.sources.is_null() {
                *self.sources = completion.source;
                self.sources = self.sources.add(1);
            }
        }
        self.left -= 1;
    }
}

/// Where the completions of a read go, one after another, if it wants no senders. `WHOLE`: the read wants the largest
/// format, as MPI libraries do.
#[derive(Clone, Copy)]
pub struct Written<const WHOLE: bool> {
    to: *mut u8,
    entry_bytes: usize,
}

impl<const WHOLE: bool> Written<WHOLE> {
    /// # Safety
    /// There is room for one more entry.
    #[inline(always)]
    pub unsafe fn write(&mut self, entry: &fi_cq_tagged_entry) {
        let bytes = if WHOLE { size_of::<fi_cq_tagged_entry>() } else { self.entry_bytes };
        // SAFETY: there is room for one more entry, by this function's contract.
        self.to = unsafe { write_entry(self.to, entry, bytes) };
    }
}

/// Writes the first `bytes` bytes of an entry, because every format is a prefix of the largest. Returns the place of
/// the next entry.
///
/// # Safety
/// There is room for `bytes` bytes.
#[inline(always)]
unsafe fn write_entry(to: *mut u8, entry: &fi_cq_tagged_entry, bytes: usize) -> *mut u8 {
    // SAFETY: there is room for `bytes` bytes, by this function's contract. Only fields within that length are written,
    // by writes that need no alignment.
    unsafe {
        // Field by field, so that the values come from registers.
        let at = to.cast::<fi_cq_tagged_entry>();
        (&raw mut (*at).op_context).write_unaligned(entry.op_context);
        if bytes >= size_of::<fi_cq_msg_entry>() {
            (&raw mut (*at).flags).write_unaligned(entry.flags);
            (&raw mut (*at).len).write_unaligned(entry.len);
        }
        if bytes >= size_of::<fi_cq_data_entry>() {
            (&raw mut (*at).buf).write_unaligned(entry.buf);
            (&raw mut (*at).data).write_unaligned(entry.data);
        }
        if bytes >= size_of::<fi_cq_tagged_entry>() {
            (&raw mut (*at).tag).write_unaligned(entry.tag);
        }
        to.add(bytes)
    }
}

/// Completions in order, in a ring buffer that grows.
struct Ring {
    slots: Box<[Completion]>,
    /// The number of completions ever queued and ever read. Their slots are these numbers modulo the number of slots, a
    /// power of two.
    queued: u64,
    read: u64,
}

impl Ring {
    fn new(capacity: usize) -> Ring {
        let empty = Completion { entry: fi_cq_tagged_entry::default(), source: ADDR_ANY };
        Ring { slots: vec![empty; capacity.next_power_of_two()].into_boxed_slice(), queued: 0, read: 0 }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        (self.queued - self.read) as usize
    }

    #[inline(always)]
    fn slot(&self, number: u64) -> usize {
        number as usize & (self.slots.len() - 1)
    }

    #[inline(always)]
    fn push(&mut self, completion: Completion) {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let slot = self.slot(self.queued);
        self.slots[slot] = completion;
        self.queued += 1;
    }

    /// A completion in the queue.
    #[inline(always)]
    fn at(&self, index: usize) -> &Completion {
        &self.slots[self.slot(self.read + index as u64)]
    }

    #[cold]
    fn grow(&mut self) {
        let mut larger = Ring::new(2 * self.slots.len());
        (larger.queued, larger.read) = (self.queued, self.read);
        for number in self.read..self.queued {
            let slot = larger.slot(number);
            larger.slots[slot] = self.slots[self.slot(number)];
        }
        *self = larger;
    }
}

/// A failed operation.
#[derive(Clone, Copy)]
pub struct Failure {
    pub entry: fi_cq_tagged_entry,
    /// Bytes that did not fit.
    pub olen: usize,
    pub error: c_int,
    /// The number of completions that were queued before it.
    after: u64,
}

/// A completion queue as the program holds it.
pub type Handle = Object<fid_cq, Fixed, CompletionQueue>;

/// The part that does not change, or is set without the lock.
pub struct Fixed {
    entry_bytes: usize,
    may_wait: bool,
    /// Set by fi_cq_signal: a thread that waits returns.
    signalled: AtomicBool,
}

/// The part that the domain's lock guards.
#[repr(C)]
pub struct CompletionQueue {
    /// The number of completions and errors in the queue.
    waiting: usize,
    completions: Ring,
    failures: VecDeque<Failure>,
    /// The next read takes what is queued, and does not poll for more.
    is_met: bool,
}

impl CompletionQueue {
    #[inline(always)]
    pub fn push(&mut self, completion: Completion) {
        self.completions.push(completion);
        self.waiting += 1;
    }

    /// Where a queue's completions go, if a read of it is in progress that wants no senders.
    ///
    /// # Safety
    /// `queue` is null or an open queue. The reading is [whole](Reading::is_whole) if `WHOLE`.
    #[inline(always)]
    pub unsafe fn writes_next<const WHOLE: bool>(
        queue: *const CompletionQueue,
        reading: &Reading,
    ) -> Option<Written<WHOLE>> {
        // A read of whole entries always has a queue.
        let is_read = WHOLE || !queue.is_null() && reading.sources.is_null();
        // SAFETY: the queue is open. A read of whole entries has one, and otherwise the pointer is not null, as just
        // checked.
        let next = is_read && std::ptr::eq(queue, reading.queue) && unsafe { (*queue).waiting == 0 };
        next.then_some(Written { to: reading.to, entry_bytes: reading.entry_bytes })
    }

    /// Adds a completion. It goes to the array of the read in progress if nothing queued comes before it.
    #[inline(always)]
    pub fn give(&mut self, reading: &mut Reading, completion: Completion) {
        let next = reading.left != 0 && std::ptr::eq(self, reading.queue);
        if next && self.waiting == 0 {
            // SAFETY: `left` is not 0, so the program's room holds one more entry.
            unsafe { reading.write(&completion) };
        } else {
            self.push_later(completion);
        }
    }

    #[inline(never)]
    fn push_later(&mut self, completion: Completion) {
        self.push(completion);
    }

    /// A receive was posted for which there was an unexpected message. The program most likely reads its completion
    /// next.
    #[inline]
    pub fn expect_reading(&mut self) {
        self.is_met = true;
    }

    /// The completion of a send.
    #[inline(always)]
    pub fn push_own(&mut self, context: *mut c_void, flags: u64) {
        let entry = fi_cq_tagged_entry { op_context: context, flags, ..Default::default() };
        self.push(Completion { entry, source: ADDR_ANY });
    }

    pub fn push_failure(&mut self, entry: fi_cq_tagged_entry, olen: usize, error: c_int) {
        self.failures.push_back(Failure { entry, olen, error, after: self.completions.queued });
        self.waiting += 1;
    }
}

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
    // SAFETY: fi_cq_open(3): the domain is open; the attributes are the program's, or null, and it has room for the
    // pointer.
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
        let completions = Ring::new(attr.size.clamp(64, 4096));
        let queue = CompletionQueue { waiting: 0, completions, failures: VecDeque::new(), is_met: false };
        let made = Handle::make(head, domain, fixed, queue);
        *cq = Box::into_raw(made).cast();
    }
    0
}

/// Moves queued completions to the caller's array. Returns 0, or an error if there are none. The lock is held, so no
/// other thread uses the queue.
#[inline(never)]
fn take(cq: &mut CompletionQueue, reading: &mut Reading) -> isize {
    let mut most = reading.left.min(cq.completions.len());
    if let Some(failure) = cq.failures.front() {
        let before = (failure.after - cq.completions.read) as usize;
        if before == 0 {
            return -(EAVAIL as isize);
        }
        most = most.min(before);
    }
    for index in 0..most {
        // SAFETY: `most` is at most the room left in the program's array.
        unsafe { reading.write(cq.completions.at(index)) };
    }
    cq.completions.read += most as u64;
    cq.waiting -= most;
    0
}

#[inline(always)]
unsafe fn read_any(cq: *mut fid_cq, buf: *mut c_void, count: usize, sources: *mut fi_addr_t) -> isize {
    // SAFETY: fi_cq_read(3): the queue is open; the program has room for `count` entries, and for as many sources, or
    // null.
    unsafe {
        let handle = Handle::of(cq);
        let (queue, entry_bytes) = (handle.guarded(), handle.fixed.entry_bytes);
        let mut held = handle.lock();
        let mut reading = Reading { queue, to: buf.cast(), entry_bytes, left: count, sources };
        let state = held.state();
        let is_met = std::mem::take(&mut state.is_met);
        match state.completions.len() {
            0 => held.progress_into(&mut reading),
            there if is_met || there >= count && count != 0 => {}
            _ => held.glance_into(&mut reading),
        }
        let mut said = 0;
        let state = held.state();
        if state.waiting != 0 {
            said = take(state, &mut reading);
            held.has_given();
            // In virtual time every completion goes through the queue. If one was read, the poll has found something.
            if held.rest == Rest::Poll && reading.left != count {
                held.rest = Rest::Found;
            }
        }
        match count - reading.left {
            0 if count == 0 => 0,
            0 if said != 0 => said,
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
        let mut held = Handle::of(cq).lock();
        let cq = held.state();
        if cq.failures.front().is_none_or(|failure| failure.after > cq.completions.read) {
            return -(EAGAIN as isize);
        }
        let Some(failure) = cq.failures.pop_front() else { return -(EAGAIN as isize) };
        cq.waiting -= 1;
        let entry = failure.entry;
        let to = &mut *to;
        to.op_context = entry.op_context;
        to.flags = entry.flags;
        to.len = entry.len;
        to.buf = entry.buf;
        to.data = entry.data;
        to.tag = entry.tag;
        to.olen = failure.olen;
        to.err = failure.error;
        to.prov_errno = failure.error;
        to.err_data_size = 0;
    }
    1
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
    // SAFETY: fi_cq_sread(3): the queue is open; the program has room for `count` entries, and for as many sources, or
    // null.
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

/// Describes this provider's errors beyond their names.
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
        EACCES => c"outside of the registered memory, or an access that it was not registered for",
        EFAULT => c"the memory is not mapped",
        _ => c"the operation failed",
    };
    if !buf.is_null() && len != 0 {
        let bytes = text.to_bytes();
        let most = bytes.len().min(len - 1);
        // SAFETY: fi_cq_strerror(3): the program has room for `len` characters; no more is written.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), buf, most);
            *buf.add(most) = 0;
        }
    }
    text.as_ptr()
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
