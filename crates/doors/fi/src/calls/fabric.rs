// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of a fabric (fi_fabric(3)): domains and event queues are opened from it.

use std::ffi::{c_int, c_void};

use crate::calls::{domain, event_queue};
use crate::constants::{EBADFLAGS, EBUSY, EINVAL, ENODATA};
use crate::ffi::*;
use crate::objects::fabric::Fabric;
use crate::objects::object::{self, Ops, Uses};
use crate::refuse;

refuse! {
    no_passive_ep(*mut fid_fabric, *mut fi_info, *mut *mut fid_pep, *mut c_void) -> c_int;
    no_wait_open(*mut fid_fabric, *mut fi_wait_attr, *mut *mut fid_wait) -> c_int;
    no_trywait(*mut fid_fabric, *mut *mut fid, c_int) -> c_int;
}

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, object::no_bind, object::no_control));

static OPS: Ops<fi_ops_fabric> = Ops(fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(domain::open),
    passive_ep: Some(no_passive_ep),
    eq_open: Some(event_queue::open),
    wait_open: Some(no_wait_open),
    trywait: Some(no_trywait),
    domain2: Some(domain2),
});

/// fi_fabric.
pub unsafe extern "C" fn open(attr: *mut fi_fabric_attr, fabric: *mut *mut fid_fabric, context: *mut c_void) -> c_int {
    // SAFETY: fi_fabric(3): the attributes are libfabric's, the name a C string or null; there is room for the pointer.
    unsafe {
        let Some(attr) = attr.as_ref() else { return -EINVAL };
        if !attr.name.is_null() && std::ffi::CStr::from_ptr(attr.name) != crate::NAME {
            return -ENODATA;
        }
        let made = Box::new(Fabric {
            fabric: fid_fabric {
                fid: object::head(FI_CLASS_FABRIC, context, &FID_OPS.0),
                ops: (&raw const OPS.0).cast_mut(),
                api_version: attr.api_version,
            },
            uses: Uses::default(),
        });
        *fabric = Box::into_raw(made).cast();
    }
    0
}

unsafe extern "C" fn domain2(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    made: *mut *mut fid_domain,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -EBADFLAGS;
    }
    // SAFETY: fi_domain2(3): the fabric is open, the information is libfabric's, and there is room for the pointer.
    unsafe { domain::open(fabric, info, made, context) }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the fabric was made by `open`, no object depends on it, and no other thread uses it any more.
    unsafe {
        if (*fid.cast::<Fabric>()).uses.any() {
            return -EBUSY;
        }
        drop(Box::from_raw(fid.cast::<Fabric>()));
    }
    0
}
