// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of a counter (fi_cntr(3)).

use std::ffi::{c_int, c_void};
use std::time::{Duration, Instant};

use crate::constants::*;
use crate::ffi::*;
use crate::objects::counter::Counter;
use crate::objects::domain::Domain;
use crate::objects::object::{self, Ops, Pause, Uses};
use crate::warn_line;

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, object::no_bind, object::no_control));

#[allow(clippy::needless_update)]
static OPS: Ops<fi_ops_cntr> = Ops(fi_ops_cntr {
    size: size_of::<fi_ops_cntr>(),
    read: Some(read),
    readerr: Some(readerr),
    add: Some(add),
    set: Some(set),
    wait: Some(wait),
    adderr: Some(adderr),
    seterr: Some(seterr),
    ..object::rest()
});

/// fi_cntr_open.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_cntr_open(3): the domain is open; the program gives attributes or null, and room for the pointer.
    unsafe {
        let attr = attr.as_ref().copied().unwrap_or_default();
        if attr.events != FI_CNTR_EVENTS_COMP {
            return -ENOSYS;
        }
        if !matches!(attr.wait_obj, FI_WAIT_NONE | FI_WAIT_UNSPEC | FI_WAIT_YIELD) {
            warn_line!("counters wait with FI_WAIT_UNSPEC or FI_WAIT_YIELD, not by descriptors or wait sets");
            return -ENOSYS;
        }
        if attr.flags != 0 {
            return -EBADFLAGS;
        }
        let domain = domain.cast::<Domain>();
        let Ok(reference) = (*domain).core().interface().lock().counters().alloc() else { return -ENOSPC };
        (*domain).uses.add();
        let made = Box::new(Counter {
            cntr: fid_cntr {
                fid: object::head(FI_CLASS_CNTR, context, &FID_OPS.0),
                ops: (&raw const OPS.0).cast_mut(),
            },
            domain,
            reference,
            uses: Uses::default(),
        });
        *cntr = Box::into_raw(made).cast();
    }
    0
}

unsafe fn of<'a>(cntr: *mut fid_cntr) -> &'a Counter {
    // SAFETY: by fi_cntr(3) the pointer is to an open counter. Only its atomics change.
    unsafe { &*cntr.cast::<Counter>() }
}

unsafe extern "C" fn read(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: fi_cntr(3): the program calls with a counter that is open.
    unsafe { of(cntr).now().0 }
}

unsafe extern "C" fn readerr(cntr: *mut fid_cntr) -> u64 {
    // SAFETY: fi_cntr(3): the program calls with a counter that is open.
    unsafe { of(cntr).now().1 }
}

unsafe extern "C" fn add(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: fi_cntr(3): the program calls with a counter that is open.
    unsafe { of(cntr).change(|success, failure| (success.wrapping_add(value), failure)) }
}

unsafe extern "C" fn set(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: fi_cntr(3): the program calls with a counter that is open.
    unsafe { of(cntr).change(|_, failure| (value, failure)) }
}

unsafe extern "C" fn adderr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: fi_cntr(3): the program calls with a counter that is open.
    unsafe { of(cntr).change(|success, failure| (success, failure.wrapping_add(value))) }
}

unsafe extern "C" fn seterr(cntr: *mut fid_cntr, value: u64) -> c_int {
    // SAFETY: fi_cntr(3): the program calls with a counter that is open.
    unsafe { of(cntr).change(|success, _| (success, value)) }
}

/// Also works for a counter opened with `FI_WAIT_NONE`: some programs do so, and other providers allow it.
unsafe extern "C" fn wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int {
    // SAFETY: fi_cntr(3): the program calls with a counter that is open.
    let counter = unsafe { of(cntr) };
    let end = Instant::now() + Duration::from_millis(timeout.max(0) as u64);
    let failed_before = counter.now().1;
    let mut pause = Pause::default();
    loop {
        let (success, failure) = counter.now();
        if success >= threshold {
            return 0;
        }
        if failure != failed_before {
            return -EAVAIL;
        }
        if timeout >= 0 && Instant::now() >= end {
            return -ETIMEDOUT;
        }
        pause.wait();
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the counter was made by `open`, nothing is bound to it, and no other thread uses it any more.
    unsafe {
        let counter = of(fid.cast());
        if counter.uses.any() {
            return -EBUSY;
        }
        let mut core = counter.domain().core();
        core.flush_works(Some(counter.reference));
        let _ = core.interface().lock().with_revocation(|nic| nic.counters().free(counter.reference));
        drop(core);
        counter.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Counter>()));
    }
    0
}
