// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of registered memory (fi_mr(3)).

use std::ffi::{c_int, c_void};

use selvedge_messages::regions::REMOTE_ACCESSES;

use crate::constants::*;
use crate::ffi::*;
use crate::objects::counter::Counter;
use crate::objects::domain::Domain;
use crate::objects::object::{self, Ops};
use crate::objects::region::{Handle, Region};
use crate::warn_line;

const ACCESS: u64 = SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE;

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, bind, control));

pub unsafe extern "C" fn reg(
    fid: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is the program's until the region is closed.
    unsafe { register(fid, buf as u64, len as u64, access, offset, requested_key, flags, mr, context) }
}

pub unsafe extern "C" fn regv(
    fid: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    if count != 1 {
        warn_line!("a region cannot have {count} pieces; mr_iov_limit is 1");
        return -EINVAL;
    }
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is the program's until the region is closed.
    unsafe {
        let piece = &*iov;
        register(fid, piece.iov_base as u64, piece.iov_len as u64, access, offset, requested_key, flags, mr, context)
    }
}

pub unsafe extern "C" fn regattr(fid: *mut fid, attr: *const fi_mr_attr, flags: u64, mr: *mut *mut fid_mr) -> c_int {
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is the program's until the region is closed.
    unsafe {
        let Some(attr) = attr.as_ref() else { return -EINVAL };
        if attr.iface != FI_HMEM_SYSTEM {
            warn_line!("device memory cannot be registered; use FI_HMEM_SYSTEM");
            return -ENOSYS;
        }
        let (key, context) = (attr.requested_key, attr.context);
        // The first field; newer headers have it in a union with others.
        let pieces = std::ptr::from_ref(attr).cast::<*const iovec>().read();
        regv(fid, pieces, attr.iov_count, attr.access, attr.offset, key, flags, mr, context)
    }
}

unsafe fn register(
    fid: *mut fid,
    start: u64,
    length: u64,
    access: u64,
    offset: u64,
    requested_key: u64,
    flags: u64,
    mr: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_mr(3): the domain is open, the attributes are the program's, and it has room for the pointer. The
    // memory is the program's until the region is closed.
    unsafe {
        if (*fid).fclass != FI_CLASS_DOMAIN as usize || access & !ACCESS != 0 || offset != 0 {
            return -EINVAL;
        }
        if flags & !RMA_EVENT != 0 {
            return -EBADFLAGS;
        }
        let domain = fid.cast::<Domain>();
        let key = {
            // Under one lock, so that no other thread claims the key in between.
            let mut core = (*domain).core();
            let key = if (*domain).provider_keys { core.new_key() } else { requested_key };
            if !core.claim_key(key) {
                return -ENOKEY;
            }
            key
        };
        let head = fid_mr { fid: object::head(FI_CLASS_MR, context, &FID_OPS.0), mem_desc: std::ptr::null_mut(), key };
        let number = (*domain).core().add_region(start, length, access, key);
        let region = Region { number, counters: [std::ptr::null_mut(); 2] };
        let made = Box::into_raw(Handle::make(head, domain, (), region));
        let handle = Handle::of(made);
        let mut guard = handle.lock();
        if (flags & RMA_EVENT == 0 || !handle.domain().enables_regions) && guard.enable_region(number).is_err() {
            guard.remove_region(number);
            drop(guard);
            drop(Box::from_raw(made));
            return -ENOSPC;
        }
        handle.domain().uses.add();
        drop(guard);
        (*made).head.mem_desc = made.cast();
        *mr = made.cast();
    }
    0
}

unsafe extern "C" fn bind(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    // SAFETY: fi_mr_bind(3): both objects are open, and the class in the head of an object is its type.
    unsafe {
        match (*bound).fclass as u32 {
            FI_CLASS_EP => 0,
            FI_CLASS_CNTR => {
                if flags == 0 || flags & !(REMOTE_WRITE | REMOTE_READ) != 0 {
                    return -EBADFLAGS;
                }
                let counter = bound.cast::<Counter>();
                let mut guard = Handle::of(fid).lock();
                let number = guard.state().number;
                for (access, right) in REMOTE_ACCESSES.into_iter().enumerate() {
                    if flags & right != 0 && guard.set_region_counter(number, access, (*counter).reference) {
                        guard.state().counters[access] = counter;
                        (*counter).uses.add();
                    }
                }
                if guard.recount_region(number).is_err() { -ENOSPC } else { 0 }
            }
            _ => -EINVAL,
        }
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: fi_control(3): the region is open, and the argument matches the command.
    unsafe {
        let handle = Handle::of(fid);
        match command as u32 {
            FI_ENABLE => {
                let mut guard = handle.lock();
                let number = guard.state().number;
                if guard.enable_region(number).is_err() { -ENOSPC } else { 0 }
            }
            FI_REFRESH => 0,
            FI_GET_RAW_MR => {
                let raw = &mut *arg.cast::<fi_mr_raw_attr>();
                if raw.key_size.is_null() || raw.raw_key.is_null() {
                    return -EINVAL;
                }
                if *raw.key_size < 8 {
                    *raw.key_size = 8;
                    return -ETOOSMALL;
                }
                *raw.key_size = 8;
                raw.raw_key.cast::<u64>().write_unaligned(handle.head.key);
                if !raw.base_addr.is_null() {
                    *raw.base_addr = 0;
                }
                0
            }
            _ => -ENOSYS,
        }
    }
}

/// fi_mr_map_raw: the raw key is the key.
pub unsafe fn map_raw(raw: *mut fi_mr_map_raw) -> c_int {
    // SAFETY: fi_mr_map_raw(3): the structure is the program's, and its pointers have that many bytes, or are null.
    unsafe {
        let raw = &*raw;
        if raw.raw_key.is_null() || raw.key.is_null() || raw.key_size != 8 {
            return -EINVAL;
        }
        *raw.key = raw.raw_key.cast::<u64>().read_unaligned();
    }
    0
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the region was made by `register`, and no other thread uses it any more.
    unsafe {
        let handle = Handle::of(fid);
        let mut guard = handle.lock();
        let Region { number, counters } = *guard.state();
        guard.remove_region(number);
        for counter in counters.iter().filter(|counter| !counter.is_null()) {
            (**counter).uses.drop_one();
        }
        drop(guard);
        handle.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Handle>()));
    }
    0
}
