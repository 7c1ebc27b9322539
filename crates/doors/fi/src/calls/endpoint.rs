// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The calls of an endpoint (fi_endpoint(3)): opening, binding, enabling, aliases, options, cancelling, closing.

use std::ffi::{c_int, c_void};
use std::ptr;

use selvedge_messages::bindings::{Bindings, Orders};

use crate::calls::{atomic, collective, message, rma};
use crate::constants::*;
use crate::ffi::*;
use crate::objects::address::{self, Address};
use crate::objects::collective::Groups;
use crate::objects::domain::Domain;
use crate::objects::domain_object::ObjectGuard;
use crate::objects::endpoint::{Bound, Endpoint, Fixed, Handle};
use crate::objects::event_queue::EventQueue;
use crate::objects::object::{self, Ops};
use crate::{info, refuse, warn_line};

/// Default of the least room in a buffer for many messages. With less room the program gets the buffer back.
const MIN_MULTI_RECV_DEFAULT: usize = 64;

refuse! {
    no_tx_ctx(*mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_rx_ctx(*mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_getpeer(*mut fid_ep, *mut c_void, *mut usize) -> c_int;
    no_connect(*mut fid_ep, *const c_void, *const c_void, usize) -> c_int;
    no_listen(*mut fid_pep) -> c_int;
    no_accept(*mut fid_ep, *const c_void, usize) -> c_int;
    no_reject(*mut fid_pep, fid_t, *const c_void, usize) -> c_int;
    no_shutdown(*mut fid_ep, u64) -> c_int;
}

static FID_OPS: Ops<fi_ops> = Ops(object::ops(close, bind, control));

#[allow(clippy::needless_update)]
static OPS: Ops<fi_ops_ep> = Ops(fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(no_tx_ctx),
    rx_ctx: Some(no_rx_ctx),
    rx_size_left: Some(size_left),
    tx_size_left: Some(size_left),
    ..object::rest()
});

static CM_OPS: Ops<fi_ops_cm> = Ops(fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: Some(setname),
    getname: Some(getname),
    getpeer: Some(no_getpeer),
    connect: Some(no_connect),
    listen: Some(no_listen),
    accept: Some(no_accept),
    reject: Some(no_reject),
    shutdown: Some(no_shutdown),
    join: Some(collective::join),
});

/// fi_endpoint.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): the domain is open, the information is libfabric's with its attributes, and the program
    // has room for the pointer. The endpoint is made here, and the program gets it when it is complete.
    unsafe {
        let Some(info) = info.as_ref() else { return -EINVAL };
        if info.ep_attr.as_ref().is_some_and(|attr| attr.type_ != FI_EP_RDM) {
            return -EINVAL;
        }
        if info.ep_attr.as_ref().is_some_and(|attr| attr.tx_ctx_cnt > 1 || attr.rx_ctx_cnt > 1) {
            warn_line!("endpoints have their own transmit and receive context; shared contexts are not offered");
            return -ENOSYS;
        }
        let too_much = info.tx_attr.as_ref().is_some_and(|attr| {
            attr.inject_size > info::INJECT_BYTES || attr.iov_limit > info::IOV_LIMIT || attr.size > info::QUEUE_SIZE
        }) || info
            .rx_attr
            .as_ref()
            .is_some_and(|attr| attr.iov_limit > info::IOV_LIMIT || attr.size > info::QUEUE_SIZE);
        if too_much {
            return -EINVAL;
        }
        if info.caps & !info::caps() != 0 || info::primary(info.caps) == 0 {
            return -EINVAL;
        }
        let domain = domain.cast::<Domain>();
        let has_one_caller = (*domain).has_one_caller();
        let head = fid_ep {
            fid: object::head(FI_CLASS_EP, context, &FID_OPS.0),
            ops: (&raw const OPS.0).cast_mut(),
            cm: (&raw const CM_OPS.0).cast_mut(),
            msg: message::plain_ops(has_one_caller),
            rma: rma::ops(),
            tagged: message::tagged_ops(has_one_caller),
            atomic: atomic::ops(),
            collective: collective::ops(),
        };
        let endpoint = Endpoint {
            vector: ptr::null_mut(),
            bindings: Bindings {
                orders: info.tx_attr.as_ref().map_or(Orders::ALL, |attr| info::orders(attr.msg_order)),
                ..Bindings::new(info.caps & SOURCE != 0)
            },
            fast_path: 0,
            tx_completes: false,
            rx_completes: false,
            tx_selective: false,
            rx_selective: false,
            enabled: false,
            caps: info.caps,
            tx_flags: info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags),
            rx_flags: info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags),
            min_multi_recv: MIN_MULTI_RECV_DEFAULT,
            base: ptr::null_mut(),
            counters: [ptr::null_mut(); 6],
            bound: Bound::NONE,
            aliases: Vec::new(),
            groups: 0,
            service: None,
        };
        if info.caps & COLLECTIVE != 0 && !(*domain).core().with_groups(Groups::open) {
            return -ENOSPC;
        }
        let made = Box::into_raw(Handle::make(head, domain, Fixed { alone: (*domain).alone }, endpoint));
        let handle = Handle::of(made);
        let outcome = handle.lock().open(handle.guarded(), info);
        if outcome != 0 {
            drop(Box::from_raw(made));
            return outcome;
        }
        handle.domain().uses.add();
        *ep = made.cast();
    }
    0
}

impl ObjectGuard<'_, Endpoint> {
    /// fi_ep_alias: the same endpoint with other default flags for sends or receives.
    ///
    /// # Safety
    /// `handle` is the object whose lock is held, and `asked` has a place for the alias.
    unsafe fn alias(&mut self, handle: &Handle, asked: &fi_alias) -> c_int {
        let fid = object::head(FI_CLASS_EP, handle.head.fid.context, &FID_OPS.0);
        let head = fid_ep { fid, ..handle.head };
        let alias = Endpoint { aliases: Vec::new(), groups: 0, service: None, ..*self.state() };
        let made = Box::into_raw(Handle::make(head, handle.domain, Fixed { alone: handle.fixed.alone }, alias));
        // SAFETY: only this code has the new alias; `asked` has a place for it, by this function's contract.
        unsafe {
            let alias = (*made).guarded();
            let refused = self.set_flags(alias, asked.flags);
            if refused != 0 {
                drop(Box::from_raw(made));
                return refused;
            }
            self.base().aliases.push(alias);
            asked.fid.write(made.cast());
        }
        0
    }
}

unsafe extern "C" fn bind(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    // SAFETY: fi_ep_bind(3): both objects are open. The class in the head of an object is its type.
    unsafe {
        if bound.is_null() {
            return -EINVAL;
        }
        let handle = Handle::of(fid);
        let mut guard = handle.lock();
        let mut gets_joins = false;
        // An alias is bound through its base.
        let outcome = match (*bound).fclass as u32 {
            FI_CLASS_AV => guard.base().bind_vector(bound.cast(), handle.domain),
            FI_CLASS_CQ => guard.base().bind_queue(bound.cast(), flags, handle.domain),
            FI_CLASS_CNTR => guard.bind_counter(bound.cast(), flags, handle.domain()),
            FI_CLASS_EQ => {
                let endpoint = guard.base();
                if endpoint.bound.events.is_null() {
                    endpoint.bound.events = bound.cast();
                    (*endpoint.bound.events).uses.add();
                    gets_joins = endpoint.caps & COLLECTIVE != 0;
                }
                0
            }
            FI_CLASS_MR => 0,
            _ => {
                warn_line!("an object of class {} cannot be bound to an endpoint", (*bound).fclass);
                -EINVAL
            }
        };
        guard.renew_aliases();
        drop(guard);
        if gets_joins {
            (*bound.cast::<EventQueue>()).add_domain(handle.domain);
        }
        outcome
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: fi_control(3): the endpoint is open, and the argument matches the command.
    unsafe {
        let handle = Handle::of(fid);
        let mut guard = handle.lock();
        match command as u32 {
            FI_ENABLE => guard.enable(),
            FI_ALIAS => match arg.cast::<fi_alias>().as_ref() {
                Some(asked) => guard.alias(handle, asked),
                None => -EINVAL,
            },
            FI_GETOPSFLAG => {
                let flags = &mut *arg.cast::<u64>();
                *flags = match *flags & (TRANSMIT | RECV) {
                    TRANSMIT => guard.state().tx_flags,
                    RECV => guard.state().rx_flags,
                    _ => return -EINVAL,
                };
                0
            }
            FI_SETOPSFLAG => guard.set_flags(handle.guarded(), *arg.cast::<u64>()),
            _ => -ENOSYS,
        }
    }
}

unsafe extern "C" fn cancel(fid: fid_t, context: *mut c_void) -> isize {
    // SAFETY: fi_endpoint(3): the program calls with an endpoint that is open.
    unsafe {
        let mut guard = Handle::of(fid).lock();
        let base = guard.state().base;
        if guard.cancel(&raw mut (*base).bindings, context) { 0 } else { -(ENOENT as isize) }
    }
}

unsafe extern "C" fn getopt(fid: fid_t, level: c_int, name: c_int, value: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: fi_getopt(3), fi_getname(3): the endpoint is open, and the program has room for `*length` bytes.
    unsafe {
        if level as u32 != FI_OPT_ENDPOINT {
            return -ENOPROTOOPT;
        }
        let answer = match name as u32 {
            FI_OPT_MIN_MULTI_RECV => Handle::of(fid).lock().state().min_multi_recv,
            FI_OPT_CM_DATA_SIZE => 0,
            _ => return -ENOPROTOOPT,
        };
        if *length < size_of::<usize>() {
            *length = size_of::<usize>();
            return -ETOOSMALL;
        }
        *length = size_of::<usize>();
        value.cast::<usize>().write_unaligned(answer);
    }
    0
}

unsafe extern "C" fn setopt(fid: fid_t, level: c_int, name: c_int, value: *const c_void, length: usize) -> c_int {
    // SAFETY: fi_setopt(3), fi_setname(3): the endpoint is open, and the program gives `length` bytes.
    unsafe {
        if level as u32 != FI_OPT_ENDPOINT {
            return -ENOPROTOOPT;
        }
        match name as u32 {
            FI_OPT_MIN_MULTI_RECV if length == size_of::<usize>() => {
                let mut guard = Handle::of(fid).lock();
                guard.base().min_multi_recv = value.cast::<usize>().read_unaligned();
                guard.renew_aliases();
                0
            }
            FI_OPT_MIN_MULTI_RECV => -EINVAL,
            _ => {
                warn_line!("endpoints have no option {name}");
                -ENOPROTOOPT
            }
        }
    }
}

unsafe extern "C" fn size_left(ep: *mut fid_ep) -> isize {
    // SAFETY: fi_endpoint(3): the program calls with an endpoint that is open.
    let enabled = unsafe { Endpoint::of(ep).lock().state().enabled };
    if enabled { info::QUEUE_SIZE as isize } else { -(EOPBADSTATE as isize) }
}

unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, length: usize) -> c_int {
    // SAFETY: fi_setopt(3), fi_setname(3): the endpoint is open, and the program gives `length` bytes.
    unsafe {
        let mut guard = Handle::of(fid).lock();
        if guard.base().enabled {
            return -EOPBADSTATE;
        }
        guard.set_source(addr, length)
    }
}

unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: fi_getopt(3), fi_getname(3): the endpoint is open, and the program has room for `*length` bytes.
    unsafe {
        let mut guard = Handle::of(fid).lock();
        let index = guard.state().bindings.index;
        let name = Address::of(&guard, index);
        if address::give(&name, addr, length) { 0 } else { -ETOOSMALL }
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the endpoint was made by `open` or `alias`, and no other thread uses it any more. The objects
    // that it is bound to are open, because their use counts are not 0.
    unsafe {
        let handle = Handle::of(fid);
        let own = handle.guarded();
        let mut guard = handle.lock();
        if guard.state().base != own {
            guard.base().aliases.retain(|&alias| alias != own);
            drop(guard);
            drop(Box::from_raw(fid.cast::<Handle>()));
            return 0;
        }
        if !guard.state().aliases.is_empty() || guard.state().groups != 0 {
            return -EBUSY;
        }
        let index = guard.state().bindings.index;
        guard.close_endpoint(index);
        let _ = guard.find_remote_counters();
        let Endpoint { bound, counters, caps, .. } = *guard.state();
        drop(guard);
        for queue in [bound.tx_queue, bound.rx_queue] {
            if let Some(queue) = queue.as_ref() {
                queue.uses.drop_one();
            }
        }
        for counter in counters {
            if let Some(counter) = counter.as_ref() {
                counter.uses.drop_one();
            }
        }
        if let Some(vector) = bound.vector.as_ref() {
            vector.uses.drop_one();
        }
        if let Some(events) = bound.events.as_ref() {
            if caps & COLLECTIVE != 0 {
                events.remove_domain(handle.domain);
            }
            events.uses.drop_one();
        }
        handle.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Handle>()));
    }
    0
}
