// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of an event queue (fi_eq(3)).

use std::ffi::{c_char, c_int, c_void};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::constants::*;
use crate::ffi::*;
use crate::objects::event_queue::EventQueue;
use crate::objects::events::{Event, Events};
use crate::objects::fabric::Fabric;
use crate::objects::object::{self, Ops, Uses};
use crate::warn_line;

/// Longest event, in bytes.
const EVENT_BYTES_MAX: usize = 4096;

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, object::no_bind, object::no_control));

static OPS: Ops<fi_ops_eq> = Ops(fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(read),
    readerr: Some(readerr),
    write: Some(write),
    sread: Some(sread),
    strerror: Some(strerror),
});

/// fi_eq_open.
pub unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    attr: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_eq_open(3): the fabric is open; the program gives attributes or null, and room for the pointer.
    unsafe {
        let attr = attr.as_ref().copied().unwrap_or_default();
        if !matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD) {
            warn_line!("event queues wait with FI_WAIT_UNSPEC or FI_WAIT_YIELD, not by descriptors or wait sets");
            return -ENOSYS;
        }
        if attr.flags & !(WRITE | AFFINITY) != 0 {
            return -EBADFLAGS;
        }
        let fabric = fabric.cast::<Fabric>();
        (*fabric).uses.add();
        let made = Box::new(EventQueue {
            eq: fid_eq { fid: object::head(FI_CLASS_EQ, context, &FID_OPS.0), ops: (&raw const OPS.0).cast_mut() },
            fabric,
            writable: attr.flags & WRITE != 0,
            events: Events::default(),
            domains: Mutex::default(),
            uses: Uses::default(),
        });
        *eq = Box::into_raw(made).cast();
    }
    0
}

unsafe fn of<'a>(eq: *mut fid_eq) -> &'a EventQueue {
    // SAFETY: by fi_eq(3) the pointer is to an open event queue. Its events and its domains are behind mutexes, and
    // everything else that changes is atomic.
    unsafe { &*eq.cast::<EventQueue>() }
}

unsafe extern "C" fn read(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, flags: u64) -> isize {
    // SAFETY: fi_eq_read(3): the queue is open, and the program has room for the event, or null, and for `len` bytes.
    unsafe {
        of(eq).progress();
        let mut events = of(eq).events.lock();
        let (kind, bytes) = match events.front() {
            Some(Event::Success(kind, bytes)) => (kind, bytes),
            Some(Event::Failure(_)) => return -(EAVAIL as isize),
            None => return -(EAGAIN as isize),
        };
        // A program without a buffer wants only the kind of the event (libfabric's own tests do so).
        let length = if buf.is_null() { 0 } else { bytes.len() };
        if length > len {
            return -(ETOOSMALL as isize);
        }
        if length != 0 {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast(), length);
        }
        if !event.is_null() {
            *event = *kind;
        }
        if flags & PEEK == 0 {
            events.pop_front();
        }
        length as isize
    }
}

unsafe extern "C" fn sread(
    eq: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> isize {
    let end = Instant::now() + Duration::from_millis(timeout.max(0) as u64);
    loop {
        // SAFETY: fi_eq_sread(3): the queue is open, and the program has room for the event and its bytes.
        let got = unsafe { read(eq, event, buf, len, flags) };
        if got != -(EAGAIN as isize) || (timeout >= 0 && Instant::now() >= end) {
            return got;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
}

unsafe extern "C" fn readerr(eq: *mut fid_eq, to: *mut fi_eq_err_entry, flags: u64) -> isize {
    // SAFETY: fi_eq_readerr(3): the queue is open, and the entry is the program's.
    unsafe {
        let mut events = of(eq).events.lock();
        let Some(Event::Failure(failure)) = events.front() else { return -(EAGAIN as isize) };
        *to = *failure;
        if flags & PEEK == 0 {
            events.pop_front();
        }
    }
    size_of::<fi_eq_err_entry>() as isize
}

unsafe extern "C" fn write(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize, flags: u64) -> isize {
    // SAFETY: fi_eq_write(3): the queue is open, and the program gives `len` bytes.
    unsafe {
        let eq = of(eq);
        if !eq.writable || flags != 0 || len > EVENT_BYTES_MAX {
            return -(EINVAL as isize);
        }
        let bytes = std::slice::from_raw_parts(buf.cast::<u8>(), len).to_vec();
        eq.events.push(Event::Success(event, bytes));
    }
    len as isize
}

unsafe extern "C" fn strerror(
    _: *mut fid_eq,
    error: c_int,
    _: *const c_void,
    buf: *mut c_char,
    len: usize,
) -> *const c_char {
    let text = match error {
        0 => c"no error",
        EHOSTDOWN => c"the process of a member has ended",
        EOPNOTSUPP => c"the members are on several hosts",
        EINVAL => c"the members disagree on their order",
        _ => c"the members could not form a group",
    };
    // SAFETY: fi_eq_strerror(3): the program has room for `len` characters, or gives null.
    unsafe { object::give_text(text, buf, len) }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the queue was made by `open`, nothing is bound to it, and no other thread uses it any more.
    unsafe {
        let eq = fid.cast::<EventQueue>();
        if (*eq).uses.any() {
            return -EBUSY;
        }
        (*(*eq).fabric).uses.drop_one();
        drop(Box::from_raw(eq));
    }
    0
}
