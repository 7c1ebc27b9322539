// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Endpoints (fi_endpoint(3)): reliable and unconnected (`FI_EP_RDM`), each with its own tagged and untagged messages.
//!
//! An alias is a record of its own, with what its base is bound to and default flags of its own. What operations through it leave
//! behind ([`crate::core::Ticket`]) names the base: below this layer there are no aliases.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use selvedge_job::Service;
use selvedge_nic::handle::NONE;
use selvedge_shm::direct::lane_flags;

use crate::address::{self, Address, AddressVector, Brief, Known};
use crate::completion::CompletionQueue;
use crate::constants::*;
use crate::core::{Core, Kind, Side};
use crate::counter::Counter;
use crate::domain::Domain;
use crate::ffi::*;
use crate::object::{self, Ops};
use crate::queue::EventQueue;
use crate::{atomic, info, message, refuse, region, rma, warn_line};

/// What is left of a buffer for many messages before it is given back, where a program says nothing.
const MIN_MULTI_RECV_DEFAULT: usize = 64;

#[repr(C)]
pub struct Endpoint {
    ep: fid_ep,
    pub domain: *mut Domain,
    /// Itself, or the endpoint that it is an alias of.
    pub base: *mut Endpoint,
    /// Those of it that are open.
    aliases: Vec<*mut Endpoint>,
    /// Which of its domain's.
    pub index: u16,
    /// What its messages say of it in lanes.
    pub lane_flags: u8,
    pub caps: u64,
    /// Default flags of operations.
    pub tx_flags: u64,
    pub rx_flags: u64,
    pub tx_queue: *mut CompletionQueue,
    pub rx_queue: *mut CompletionQueue,
    /// Completions only where an operation's flags ask for them.
    tx_selective: bool,
    rx_selective: bool,
    /// For sends, receives, reads, writes, and others' reads and writes.
    counters: [*mut Counter; 6],
    pub vector: *mut AddressVector,
    events: *mut EventQueue,
    pub enabled: bool,
    pub min_multi_recv: usize,
    /// The service number that is its name.
    service: Option<Service>,
    /// Completions say who sent a message.
    pub names_sources: bool,
    /// Kinds of messages ([`Easy`]) whose sends and receives need no look at capabilities, counters or unusual flags.
    easy: u8,
    /// If it is not 0, these take no turn of the domain's, either ([`Domain::alone`]).
    alone: &'static AtomicU8,
    /// Sends and receives with the endpoint's own flags make completions.
    pub tx_told: bool,
    pub rx_told: bool,
}

/// Operations with the endpoint's own flags that are of the usual kind: nothing counts them, no completion waits for delivery,
/// a buffer is for one message.
#[derive(Clone, Copy)]
pub enum Easy {
    Send = 0,
    Receive = 2,
    /// A send that makes no completion, whatever the endpoint's flags are.
    Inject = 4,
}

impl Easy {
    #[inline(always)]
    const fn bit(self, kind: Kind) -> u8 {
        1 << (self as u8 + kind as u8)
    }
}

/// Others' accesses, as a domain counts them ([`crate::core::Core::remote_counters`]).
const REMOTE: [u64; 2] = [REMOTE_WRITE, REMOTE_READ];
/// The flags of binding a counter, in the order of [`Endpoint::counters`].
const COUNTED: [u64; 6] = [SEND, RECV, READ, WRITE, REMOTE_READ, REMOTE_WRITE];

refuse! {
    no_tx_ctx(*mut fid_ep, c_int, *mut fi_tx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_rx_ctx(*mut fid_ep, c_int, *mut fi_rx_attr, *mut *mut fid_ep, *mut c_void) -> c_int;
    no_getpeer(*mut fid_ep, *mut c_void, *mut usize) -> c_int;
    no_connect(*mut fid_ep, *const c_void, *const c_void, usize) -> c_int;
    no_listen(*mut fid_pep) -> c_int;
    no_accept(*mut fid_ep, *const c_void, usize) -> c_int;
    no_reject(*mut fid_pep, fid_t, *const c_void, usize) -> c_int;
    no_shutdown(*mut fid_ep, u64) -> c_int;
    no_join(*mut fid_ep, *const c_void, u64, *mut *mut fid_mc, *mut c_void) -> c_int;
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
    join: Some(no_join),
});

/// fi_endpoint.
pub unsafe extern "C" fn open(
    domain: *mut fid_domain,
    info: *mut fi_info,
    ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's pointers, as libfabric passes them.
    unsafe {
        let Some(info) = info.as_ref() else { return -EINVAL };
        if info.ep_attr.as_ref().is_some_and(|attr| attr.type_ != FI_EP_RDM) {
            return -EINVAL;
        }
        if info.ep_attr.as_ref().is_some_and(|attr| attr.tx_ctx_cnt > 1 || attr.rx_ctx_cnt > 1) {
            warn_line!("endpoints have one transmit and one receive context of their own; shared ones are not offered");
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
        if info.caps & !info::CAPS != 0 || info::primary(info.caps) == 0 {
            return -EINVAL;
        }
        let domain = domain.cast::<Domain>();
        let mut made = Box::new(Endpoint {
            ep: fid_ep {
                fid: object::head(FI_CLASS_EP, context, &FID_OPS.0),
                ops: (&raw const OPS.0).cast_mut(),
                cm: (&raw const CM_OPS.0).cast_mut(),
                msg: message::plain_ops((*domain).has_one_caller()),
                rma: rma::ops(),
                tagged: message::tagged_ops((*domain).has_one_caller()),
                atomic: atomic::ops(),
                collective: ptr::null_mut(),
            },
            domain,
            base: ptr::null_mut(),
            aliases: Vec::new(),
            index: 0,
            lane_flags: 0,
            caps: info.caps,
            tx_flags: info.tx_attr.as_ref().map_or(0, |attr| attr.op_flags),
            rx_flags: info.rx_attr.as_ref().map_or(0, |attr| attr.op_flags),
            tx_queue: ptr::null_mut(),
            rx_queue: ptr::null_mut(),
            tx_selective: false,
            rx_selective: false,
            counters: [ptr::null_mut(); 6],
            vector: ptr::null_mut(),
            events: ptr::null_mut(),
            enabled: false,
            min_multi_recv: MIN_MULTI_RECV_DEFAULT,
            service: None,
            names_sources: info.caps & SOURCE != 0,
            easy: 0,
            alone: (*domain).alone,
            tx_told: false,
            rx_told: false,
        });
        let Some(index) = (*domain).core().open_endpoint(&raw mut *made) else {
            warn_line!("a domain has at most {} endpoints", crate::core::ENDPOINTS_MAX);
            return -ENOSPC;
        };
        (made.index, made.lane_flags) = (index, lane_flags(index));
        made.base = &raw mut *made;
        if !info.src_addr.is_null() {
            let outcome = made.set_source(info.src_addr, info.src_addrlen);
            if outcome != 0 {
                (*domain).core().close_endpoint(index);
                return outcome;
            }
        }
        (*domain).uses.add();
        *ep = Box::into_raw(made).cast();
    }
    0
}

impl Endpoint {
    /// An endpoint that can transfer data.
    ///
    /// # Safety
    /// An object of [`open`] that its owner has not closed.
    #[inline(always)]
    pub unsafe fn of<'a>(ep: *mut fid_ep) -> &'a mut Endpoint {
        // SAFETY: the caller's.
        unsafe { &mut *ep.cast::<Endpoint>() }
    }

    /// The entry of the address vector behind a number.
    #[inline(always)]
    pub fn known(&self, number: u64) -> Option<&Known> {
        // SAFETY: the vector is closed after the endpoints bound to it.
        let vector = unsafe { self.vector.as_ref()? };
        vector.entries.get(number as usize)?.as_ref()
    }

    /// What a receive asks of a message's sender: `Some(None)`, nothing. None: there is no such sender.
    ///
    /// # Safety
    /// As of [`Endpoint::brief`].
    #[inline(always)]
    pub unsafe fn source_of(&self, number: u64) -> Option<Option<u64>> {
        if number == ADDR_ANY || self.caps & DIRECTED_RECV == 0 {
            return Some(None);
        }
        // SAFETY: the caller's.
        let brief = unsafe { self.brief(number) }.filter(|brief| !brief.is_nobody())?;
        Some(Some(brief.source))
    }

    /// What messages need of an entry, by an endpoint that is enabled and so has a vector.
    ///
    /// # Safety
    /// It is enabled.
    #[inline(always)]
    pub unsafe fn brief(&self, number: u64) -> Option<&Brief> {
        // SAFETY: the caller's; the vector is closed after the endpoints bound to it.
        let vector = unsafe { &*self.vector };
        vector.briefs.get(number as usize)
    }

    /// Whether operations of this kind are of the usual sort.
    #[inline(always)]
    pub fn is_easy(&self, what: Easy, kind: Kind) -> bool {
        self.easy & what.bit(kind) != 0
    }

    /// Whether nobody else can want the domain's turn now.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.alone.load(Relaxed) != 0
    }

    /// The domain's core, if operations of this kind are of the usual sort and take no turn.
    ///
    /// # Safety
    /// An endpoint that is open; of its domain nobody has a turn in this thread, and none is taken while the core is borrowed.
    #[inline(always)]
    pub unsafe fn core_at_hand<'a, const ALONE: bool>(&self, what: Easy, kind: Kind) -> Option<&'a mut Core> {
        // SAFETY: the caller's.
        (self.is_easy(what, kind) && (ALONE || self.is_alone())).then(|| unsafe { Domain::core_alone(self.domain) })
    }

    /// Where completions of this side go; null: nowhere.
    #[inline(always)]
    pub fn queue(&self, side: Side) -> *mut CompletionQueue {
        match side {
            Side::Transmit => self.tx_queue,
            Side::Receive => self.rx_queue,
        }
    }

    /// The counter of an operation with these completion flags.
    #[inline(always)]
    pub fn counter_for(&self, flags: u64) -> *mut Counter {
        let index = match flags & (SEND | RECV | READ | WRITE) {
            SEND => 0,
            RECV => 1,
            READ => 2,
            WRITE => 3,
            _ => return ptr::null_mut(),
        };
        self.counters[index]
    }

    /// The counter of others' accesses of a kind, if one is bound.
    unsafe fn remote_counter(&self, flag: u64) -> Option<u32> {
        let index = COUNTED.iter().position(|&counted| counted == flag)?;
        // SAFETY: a counter is closed after what it is bound to.
        unsafe { self.counters[index].as_ref() }.map(|counter| counter.reference)
    }

    /// Whether an operation with these flags makes a completion.
    #[inline(always)]
    pub fn wants_tx(&self, flags: u64) -> bool {
        !self.tx_selective || flags & COMPLETION != 0
    }

    #[inline(always)]
    pub fn wants_rx(&self, flags: u64) -> bool {
        !self.rx_selective || flags & COMPLETION != 0
    }
}

unsafe extern "C" fn bind(fid: *mut fid, bound: *mut fid, flags: u64) -> c_int {
    // SAFETY: objects of libfabric's: an endpoint of ours, and one that its class tells.
    unsafe {
        let endpoint = &mut *(*fid.cast::<Endpoint>()).base;
        if bound.is_null() {
            return -EINVAL;
        }
        let outcome = match (*bound).fclass as u32 {
            FI_CLASS_AV => {
                if endpoint.enabled || !endpoint.vector.is_null() {
                    return -EINVAL;
                }
                let vector = bound.cast::<AddressVector>();
                if (*vector).domain != endpoint.domain {
                    return -EDOMAIN;
                }
                endpoint.vector = vector;
                (*vector).uses.add();
                0
            }
            FI_CLASS_CQ => endpoint.bind_queue(bound.cast(), flags),
            FI_CLASS_CNTR => endpoint.bind_counter(bound.cast(), flags),
            FI_CLASS_EQ => {
                if endpoint.events.is_null() {
                    endpoint.events = bound.cast();
                    (*endpoint.events).uses.add();
                }
                0
            }
            FI_CLASS_MR => 0,
            _ => {
                warn_line!("an object of class {} cannot be bound to an endpoint", (*bound).fclass);
                -EINVAL
            }
        };
        endpoint.renew_aliases();
        outcome
    }
}

impl Endpoint {
    unsafe fn bind_queue(&mut self, queue: *mut CompletionQueue, flags: u64) -> c_int {
        if flags & !(TRANSMIT | SEND | RECV | SELECTIVE_COMPLETION) != 0 || flags & (TRANSMIT | SEND | RECV) == 0 {
            return -EBADFLAGS;
        }
        // SAFETY: a queue that is open.
        unsafe {
            if (*queue).domain() != self.domain {
                return -EDOMAIN;
            }
            if self.enabled {
                return -EOPBADSTATE;
            }
            let sends = flags & (TRANSMIT | SEND) != 0;
            if (sends && !self.tx_queue.is_null()) || (flags & RECV != 0 && !self.rx_queue.is_null()) {
                return -EINVAL;
            }
            if sends {
                (self.tx_queue, self.tx_selective) = (queue, flags & SELECTIVE_COMPLETION != 0);
                (*queue).uses.add();
            }
            if flags & RECV != 0 {
                (self.rx_queue, self.rx_selective) = (queue, flags & SELECTIVE_COMPLETION != 0);
                (*queue).uses.add();
            }
        }
        0
    }

    unsafe fn bind_counter(&mut self, counter: *mut Counter, flags: u64) -> c_int {
        if flags & !(SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE) != 0 || flags == 0 {
            return -EBADFLAGS;
        }
        // SAFETY: a counter that is open.
        unsafe {
            if (*counter).domain() != self.domain {
                return -EDOMAIN;
            }
            if self.enabled {
                return -EOPBADSTATE;
            }
            let reference = (*counter).reference;
            let mut core = (*self.domain).core();
            let taken = |index: usize| ![NONE, reference].contains(&core.remote_counters[index]);
            if (0..2).any(|index| flags & REMOTE[index] != 0 && taken(index)) {
                warn_line!(
                    "others' accesses to a domain's memory count in one counter of its endpoints: open a domain for each, or \
                     bind counters to regions"
                );
                return -ENOSYS;
            }
            if self.counters.iter().zip(COUNTED).any(|(slot, flag)| flags & flag != 0 && !slot.is_null()) {
                return -EINVAL;
            }
            for (slot, flag) in self.counters.iter_mut().zip(COUNTED) {
                if flags & flag != 0 {
                    *slot = counter;
                    (*counter).uses.add();
                }
            }
            if flags & RECV != 0 {
                core.wants_independence();
            }
            let mut is_new = false;
            for (index, flag) in REMOTE.into_iter().enumerate() {
                if flags & flag != 0 {
                    is_new |= std::mem::replace(&mut core.remote_counters[index], reference) != reference;
                }
            }
            if is_new { region::recount(&mut core) } else { 0 }
        }
    }

    fn enable(&mut self) -> c_int {
        if self.enabled {
            return 0;
        }
        if self.vector.is_null() {
            return -ENOAV;
        }
        let transmits = self.caps & (SEND | READ | WRITE) != 0;
        let receives = self.caps & RECV != 0;
        let counted = |range: std::ops::Range<usize>| self.counters[range].iter().any(|counter| !counter.is_null());
        let no_transmit = transmits && self.tx_queue.is_null() && !counted(0..1) && !counted(2..4);
        let no_receive = receives && self.rx_queue.is_null() && !counted(1..2);
        if no_transmit || no_receive {
            return -ENOCQ;
        }
        self.enabled = true;
        self.find_easy();
        self.renew_aliases();
        0
    }

    /// fi_ep_alias: the same endpoint with other default flags for sends or for receives.
    unsafe fn alias(&mut self, asked: &fi_alias) -> c_int {
        let fid = object::head(FI_CLASS_EP, self.ep.fid.context, &FID_OPS.0);
        let mut made =
            Box::new(Endpoint { ep: fid_ep { fid, ..self.ep }, aliases: Vec::new(), service: None, ..*self });
        let refused = made.set_flags(asked.flags);
        if refused == 0 {
            let made = Box::into_raw(made);
            // SAFETY: an endpoint that is open, and where the caller wants the alias.
            unsafe {
                (*self.base).aliases.push(made);
                asked.fid.write(made.cast());
            }
        }
        refused
    }

    /// FI_SETOPSFLAG: default flags for sends or for receives.
    fn set_flags(&mut self, flags: u64) -> c_int {
        match flags & (TRANSMIT | RECV) {
            TRANSMIT => self.tx_flags = flags & !TRANSMIT,
            RECV => self.rx_flags = flags & !RECV,
            _ => return -EINVAL,
        }
        self.find_easy();
        0
    }

    /// Aliases differ by their default flags only.
    fn renew_aliases(&mut self) {
        for &alias in &self.aliases {
            // SAFETY: an alias that is open: it takes itself off the list.
            let alias = unsafe { &mut *alias };
            (alias.tx_queue, alias.tx_selective) = (self.tx_queue, self.tx_selective);
            (alias.rx_queue, alias.rx_selective) = (self.rx_queue, self.rx_selective);
            (alias.counters, alias.vector, alias.events) = (self.counters, self.vector, self.events);
            (alias.enabled, alias.min_multi_recv) = (self.enabled, self.min_multi_recv);
            alias.find_easy();
        }
    }

    /// What holds for all operations with the endpoint's own flags is found once.
    fn find_easy(&mut self) {
        self.easy = 0;
        self.tx_told = self.wants_tx(self.tx_flags) && !self.tx_queue.is_null();
        self.rx_told = self.wants_rx(self.rx_flags) && !self.rx_queue.is_null();
        for kind in [Kind::Tagged, Kind::Plain] {
            let can = |right: u64| self.enabled && self.caps & kind.flag() != 0 && self.caps & right != 0;
            if can(SEND) && self.counters[0].is_null() {
                self.easy |= Easy::Inject.bit(kind);
                if self.tx_flags & (DELIVERY_COMPLETE | MATCH_COMPLETE | TRIGGER) == 0 {
                    self.easy |= Easy::Send.bit(kind);
                }
            }
            if can(RECV) && self.counters[1].is_null() && self.rx_flags & (MULTI_RECV | TRIGGER) == 0 {
                self.easy |= Easy::Receive.bit(kind);
            }
        }
    }
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    // SAFETY: an endpoint of ours; the argument is what the command asks for.
    unsafe {
        let endpoint = &mut *fid.cast::<Endpoint>();
        match command as u32 {
            FI_ENABLE => (*endpoint.base).enable(),
            FI_ALIAS => match arg.cast::<fi_alias>().as_ref() {
                Some(asked) => endpoint.alias(asked),
                None => -EINVAL,
            },
            FI_GETOPSFLAG => {
                let flags = &mut *arg.cast::<u64>();
                *flags = match *flags & (TRANSMIT | RECV) {
                    TRANSMIT => endpoint.tx_flags,
                    RECV => endpoint.rx_flags,
                    _ => return -EINVAL,
                };
                0
            }
            FI_SETOPSFLAG => endpoint.set_flags(*arg.cast::<u64>()),
            _ => -ENOSYS,
        }
    }
}

unsafe extern "C" fn cancel(fid: fid_t, context: *mut c_void) -> isize {
    // SAFETY: an endpoint of ours.
    unsafe {
        let endpoint = fid.cast::<Endpoint>();
        let mut core = (*(*endpoint).domain).core();
        if core.cancel((*endpoint).base, context) { 0 } else { -(ENOENT as isize) }
    }
}

unsafe extern "C" fn getopt(fid: fid_t, level: c_int, name: c_int, value: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: an endpoint of ours; room for `*length` bytes.
    unsafe {
        let endpoint = &*fid.cast::<Endpoint>();
        if level as u32 != FI_OPT_ENDPOINT {
            return -ENOPROTOOPT;
        }
        let answer = match name as u32 {
            FI_OPT_MIN_MULTI_RECV => endpoint.min_multi_recv,
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
    // SAFETY: an endpoint of ours; `length` bytes.
    unsafe {
        let endpoint = &mut *(*fid.cast::<Endpoint>()).base;
        if level as u32 != FI_OPT_ENDPOINT {
            return -ENOPROTOOPT;
        }
        match name as u32 {
            FI_OPT_MIN_MULTI_RECV if length == size_of::<usize>() => {
                endpoint.min_multi_recv = value.cast::<usize>().read_unaligned();
                endpoint.renew_aliases();
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
    // SAFETY: an endpoint of ours.
    let enabled = unsafe { Endpoint::of(ep).enabled };
    if enabled { info::QUEUE_SIZE as isize } else { -(EOPBADSTATE as isize) }
}

impl Endpoint {
    /// Binds the endpoint to a name of [`info`]'s.
    unsafe fn set_source(&mut self, address: *const c_void, length: usize) -> c_int {
        // SAFETY: the caller's pointer; a domain that is open.
        unsafe {
            let Some(name) = Address::read(address, length) else {
                warn_line!("an endpoint's source address has {} bytes, as fi_getinfo gives it", info::ADDRESS_BYTES);
                return -EINVAL;
            };
            self.service = None;
            match (*self.domain).core().bind(self.index, &name) {
                Ok(service) => self.service = service,
                Err(error) => return -error,
            }
        }
        0
    }
}

unsafe extern "C" fn setname(fid: fid_t, addr: *mut c_void, length: usize) -> c_int {
    // SAFETY: an endpoint of ours; `length` bytes.
    unsafe {
        let endpoint = &mut *(*fid.cast::<Endpoint>()).base;
        if endpoint.enabled {
            return -EOPBADSTATE;
        }
        endpoint.set_source(addr, length)
    }
}

unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: an endpoint of ours; room for `*length` bytes.
    unsafe {
        let endpoint = &*fid.cast::<Endpoint>();
        let name = (*endpoint.domain).core().address(endpoint.index);
        if address::give(&name, addr, length) { 0 } else { -ETOOSMALL }
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: an object of `open`, which its owner gives up.
    unsafe {
        let endpoint = fid.cast::<Endpoint>();
        let this = &mut *endpoint;
        if this.base != endpoint {
            (*this.base).aliases.retain(|&alias| alias != endpoint);
            drop(Box::from_raw(endpoint));
            return 0;
        }
        if !this.aliases.is_empty() {
            return -EBUSY;
        }
        {
            let mut core = (*this.domain).core();
            core.close_endpoint(this.index);
            let mut is_uncounted = false;
            for (index, flag) in REMOTE.into_iter().enumerate() {
                let left = core.endpoints.iter().filter_map(|other| other.as_ref()?.remote_counter(flag)).next();
                is_uncounted |= std::mem::replace(&mut core.remote_counters[index], left.unwrap_or(NONE)) != NONE;
            }
            if is_uncounted {
                region::recount(&mut core);
            }
        }
        for queue in [this.tx_queue, this.rx_queue] {
            if let Some(queue) = queue.as_mut() {
                queue.uses.drop_one();
            }
        }
        for counter in this.counters {
            if let Some(counter) = counter.as_mut() {
                counter.uses.drop_one();
            }
        }
        if let Some(vector) = this.vector.as_mut() {
            vector.uses.drop_one();
        }
        if let Some(events) = this.events.as_mut() {
            events.uses.drop_one();
        }
        (*this.domain).uses.drop_one();
        drop(Box::from_raw(endpoint));
    }
    0
}
