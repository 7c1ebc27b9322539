// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of a domain (fi_domain(3)): opening it, its objects, its control commands, closing it.

use std::cell::UnsafeCell;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32};

use selvedge_messages::Transport;
use selvedge_os::thread::one_thread;

use crate::calls::{address_vector, atomic, collective, completion_queue, counter, deferred, endpoint, region};
use crate::constants::*;
use crate::errors::errno_of_open;
use crate::ffi::*;
use crate::objects::collective::Groups;
use crate::objects::domain::{ALWAYS, Domain, NEVER};
use crate::objects::fabric::Fabric;
use crate::objects::object::{self, Ops, Uses};
use crate::{refuse, warn_line};

refuse! {
    no_scalable_ep(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_poll_open(*mut fid_domain, *mut fi_poll_attr, *mut *mut fid_poll) -> c_int;
    no_stx_ctx(*mut fid_domain, *mut fi_tx_attr, *mut *mut fid_stx, *mut c_void) -> c_int;
    no_srx_ctx(*mut fid_domain, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
}

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, bind, control));

#[allow(clippy::needless_update)]
static OPS: Ops<fi_ops_domain> = Ops(fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(address_vector::open),
    cq_open: Some(completion_queue::open),
    endpoint: Some(endpoint::open),
    scalable_ep: Some(no_scalable_ep),
    cntr_open: Some(counter::open),
    poll_open: Some(no_poll_open),
    stx_ctx: Some(no_stx_ctx),
    srx_ctx: Some(no_srx_ctx),
    query_atomic: Some(atomic::query),
    query_collective: Some(collective::query),
    endpoint2: Some(endpoint2),
    ..object::rest()
});

static MR_OPS: Ops<fi_ops_mr> = Ops(fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(region::reg),
    regv: Some(region::regv),
    regattr: Some(region::regattr),
});

unsafe extern "C" fn endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -EBADFLAGS;
    }
    // SAFETY: fi_endpoint2(3): the domain is open, the information is libfabric's with its attributes, and the program
    // has room for the pointer.
    unsafe { endpoint::open(domain, info, ep, context) }
}

/// fi_domain.
pub unsafe extern "C" fn open(
    fabric: *mut fid_fabric,
    info: *mut fi_info,
    domain: *mut *mut fid_domain,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_domain(3): the fabric is open, the information is complete, and there is room for the pointer.
    unsafe {
        let Some(info) = info.as_ref() else { return -EINVAL };
        let Some(attr) = info.domain_attr.as_ref() else { return -EINVAL };
        if !attr.name.is_null() && std::ffi::CStr::from_ptr(attr.name.cast::<c_char>()) != crate::NAME {
            return -EINVAL;
        }
        let mut core = match Transport::open() {
            Ok(core) => core,
            Err(error) => {
                // An MPI prints the number alone, and shows libfabric's log only if it is asked to.
                let text = format!("selvedge: this process cannot communicate: {error}\n");
                let _ = std::io::stderr().write_all(text.as_bytes());
                return -errno_of_open(&error);
            }
        };
        if crate::info::data_progress(attr) == FI_PROGRESS_AUTO {
            core.withdraw_units();
        }
        let shared = attr.threading != FI_THREAD_DOMAIN;
        core.set_several_callers(shared);
        let alone = match (core.interface().is_simulated(), shared) {
            (true, _) => &NEVER,
            (false, true) => one_thread(),
            (false, false) => &ALWAYS,
        };
        let fabric = fabric.cast::<Fabric>();
        (*fabric).uses.add();
        let made = Box::new(Domain {
            domain: fid_domain {
                fid: object::head(FI_CLASS_DOMAIN, context, &FID_OPS.0),
                ops: (&raw const OPS.0).cast_mut(),
                mr: (&raw const MR_OPS.0).cast_mut(),
            },
            fabric,
            shared,
            taken: AtomicU32::new(0),
            #[cfg(debug_assertions)]
            is_held: AtomicBool::new(false),
            sleeps: core.interface().is_simulated(),
            alone,
            interface: Arc::clone(core.interface()),
            core: UnsafeCell::new(core),
            groups: UnsafeCell::default(),
            collects: AtomicBool::new(false),
            uses: Uses::default(),
            caps: info.caps,
            provider_keys: attr.mr_mode & FI_MR_PROV_KEY as c_int != 0,
            enables_regions: attr.mr_mode & FI_MR_RMA_EVENT as c_int != 0,
        });
        *domain = Box::into_raw(made).cast();
    }
    0
}

unsafe extern "C" fn bind(_: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    // Event queues would report asynchronous events, but there are none here.
    // SAFETY: fi_domain_bind(3): the object is open, so its head is valid, or the pointer is null.
    let is_eq = unsafe { !bound.is_null() && (*bound).fclass == FI_CLASS_EQ as usize };
    match (is_eq, flags) {
        (true, 0) => 0,
        (true, FI_REG_MR_FLAG) => {
            warn_line!("memory is registered at once, so FI_REG_MR events are not offered");
            -EOPNOTSUPP
        }
        (true, _) => -EBADFLAGS,
        (false, _) => -EINVAL,
    }
}

/// `FI_REG_MR`, deprecated in libfabric 2.
const FI_REG_MR_FLAG: u64 = 1 << 59;

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: fi_control(3): the domain is open, and the argument matches the command.
    unsafe {
        if command as u32 == FI_MAP_RAW_MR {
            return region::map_raw(arg.cast());
        }
        if command as u32 == FI_UNMAP_KEY {
            return 0;
        }
        deferred::control(&*fid.cast::<Domain>(), command, arg)
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the domain was made by `open`, no object depends on it, and no other thread uses it any more.
    unsafe {
        let domain = fid.cast::<Domain>();
        if (*domain).uses.any() {
            return -EBUSY;
        }
        (*domain).core().with_groups(Groups::close);
        (*(*domain).fabric).uses.drop_one();
        drop(Box::from_raw(domain));
    }
    0
}
