// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Endpoints (fi_endpoint(3)): reliable and unconnected (`FI_EP_RDM`), each with its own tagged and untagged messages.
//!
//! An alias is a record of its own, with the bindings of its base and its own default flags. The tickets of its
//! operations ([`Ticket`]) name the base, so the layers below know no aliases.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use selvedge_job::Service;
use selvedge_nic::handle::NONE;
use selvedge_shm::direct::ring_flags;

use crate::address::{self, Address, AddressVector, Brief, Known};
use crate::completion;
use crate::constants::*;
use crate::counter::Counter;
use crate::domain::Domain;
use crate::ffi::*;
use crate::object::{self, Held, Object, Ops};
use crate::queue::EventQueue;
use crate::{atomic, info, message, name, refuse, rma, warn_line};
use selvedge_transport::Transport;
use selvedge_transport::bindings::Bindings;
use selvedge_transport::regions::REMOTE_ACCESSES;
use selvedge_transport::ticket::{ENDPOINTS_MAX, Kind, Ticket};

/// The default for the least room in a buffer for many messages, below which the program gets it back.
const MIN_MULTI_RECV_DEFAULT: usize = 64;

/// An endpoint as the program holds it.
pub type Handle = Object<fid_ep, Fixed, Endpoint>;

/// What does not change while an endpoint is open.
pub struct Fixed {
    /// Not 0: no other thread can want the domain's lock ([`Domain::alone`]).
    alone: &'static AtomicU8,
}

/// The part that the domain's lock guards. The transport has a pointer to the bindings, which it uses only while the
/// lock is held.
#[repr(C)]
pub struct Endpoint {
    pub vector: *mut AddressVector,
    pub bindings: Bindings,
    /// The kinds of messages ([`Easy`]) for which sends and receives need not check capabilities, counters or unusual
    /// flags.
    easy: u8,
    /// Sends and receives with the endpoint's own flags make completions.
    pub tx_told: bool,
    pub rx_told: bool,
    /// Sends and receives make completions only if their own flags ask for them.
    tx_selective: bool,
    rx_selective: bool,
    pub enabled: bool,
    pub caps: u64,
    /// Default flags of operations.
    pub tx_flags: u64,
    pub rx_flags: u64,
    pub min_multi_recv: usize,
    /// Itself, or the endpoint that it is an alias of.
    pub base: *mut Endpoint,
    /// Counters of sends, receives, reads, writes, and of others' reads and writes.
    counters: [*mut Counter; 6],
    bound: Bound,
    /// Its open aliases.
    aliases: Vec<*mut Endpoint>,
    /// The service number that it is bound to.
    service: Option<Service>,
}

/// The objects that an endpoint is bound to, except its counters; null where there is none.
#[derive(Clone, Copy)]
struct Bound {
    tx_queue: *mut completion::Handle,
    rx_queue: *mut completion::Handle,
    vector: *mut address::Handle,
    events: *mut EventQueue,
}

impl Bound {
    const NONE: Bound = Bound {
        tx_queue: ptr::null_mut(),
        rx_queue: ptr::null_mut(),
        vector: ptr::null_mut(),
        events: ptr::null_mut(),
    };
}

/// Kinds of common operations with the endpoint's own flags: no counter, no completion that waits for delivery, one
/// message for each buffer.
#[derive(Clone, Copy)]
pub enum Easy {
    Send = 0,
    Receive = 2,
    /// A send without a completion, whatever the endpoint's flags are.
    Inject = 4,
}

impl Easy {
    #[inline(always)]
    const fn bit(self, kind: Kind) -> u8 {
        1 << (self as u8 + kind as u8)
    }
}

/// The flags for binding a counter, in the order of [`Endpoint::counters`].
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
    // SAFETY: fi_endpoint(3): the domain is open, the information is libfabric's with its attributes, and the program
    // has room for the pointer. The endpoint is made here, and the program gets it when it is complete.
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
        let has_one_caller = (*domain).has_one_caller();
        let head = fid_ep {
            fid: object::head(FI_CLASS_EP, context, &FID_OPS.0),
            ops: (&raw const OPS.0).cast_mut(),
            cm: (&raw const CM_OPS.0).cast_mut(),
            msg: message::plain_ops(has_one_caller),
            rma: rma::ops(),
            tagged: message::tagged_ops(has_one_caller),
            atomic: atomic::ops(),
            collective: ptr::null_mut(),
        };
        let endpoint = Endpoint {
            vector: ptr::null_mut(),
            bindings: Bindings::new(info.caps & SOURCE != 0),
            easy: 0,
            tx_told: false,
            rx_told: false,
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
            service: None,
        };
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

impl Held<'_, Endpoint> {
    /// The endpoint that this one is an alias of, or itself.
    fn base(&mut self) -> &mut Endpoint {
        let base = self.state().base;
        // SAFETY: an endpoint refuses to close while it has an open alias, and the lock of their domain is held. The
        // result borrows the guard, so no function of the core and no other reference to a state is alive.
        unsafe { &mut *base }
    }

    /// Gives a new endpoint its number, and binds it to the name that the program asks for.
    ///
    /// # Safety
    /// `own` is the endpoint whose lock is held. `info` has a source address of the stated length, or none.
    unsafe fn open(&mut self, own: *mut Endpoint, info: &fi_info) -> c_int {
        // SAFETY: the endpoint is open by this function's contract; only its address is taken.
        let bindings = unsafe { &raw mut (*own).bindings };
        let Some(index) = self.open_endpoint(bindings) else {
            warn_line!("a domain has at most {} endpoints", ENDPOINTS_MAX);
            return -ENOSPC;
        };
        let endpoint = self.state();
        (endpoint.bindings.index, endpoint.bindings.ring_flags, endpoint.base) = (index, ring_flags(index), own);
        if info.src_addr.is_null() {
            return 0;
        }
        // SAFETY: the address and its length are of one `fi_info`.
        let outcome = unsafe { self.set_source(info.src_addr, info.src_addrlen) };
        if outcome != 0 {
            self.close_endpoint(index);
        }
        outcome
    }

    /// Binds the endpoint to a name of [`info`]'s.
    ///
    /// # Safety
    /// The address has `length` bytes.
    unsafe fn set_source(&mut self, address: *const c_void, length: usize) -> c_int {
        // SAFETY: the address has `length` bytes, by this function's contract.
        let Some(name) = (unsafe { Address::read(address, length) }) else {
            warn_line!("an endpoint's source address has {} bytes, as fi_getinfo gives it", info::ADDRESS_BYTES);
            return -EINVAL;
        };
        let endpoint = self.base();
        endpoint.service = None;
        let index = endpoint.bindings.index;
        match name::bind(self, index, &name) {
            Ok(service) => self.base().service = service,
            Err(error) => return -error,
        }
        0
    }
}

impl Handle {
    /// Whether no other thread can want the domain's lock now.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.fixed.alone.load(Relaxed) != 0
    }

    /// The domain's core and the endpoint, if this needs no lock.
    ///
    /// # Safety
    /// This thread does not hold the domain's lock, and does not take it while the core is borrowed. If `ALONE`, the
    /// program promises that no other thread calls.
    #[inline(always)]
    pub unsafe fn directly<'a, const ALONE: bool>(&self) -> Option<(&'a mut Transport, &'a Endpoint)> {
        if !ALONE && !self.is_alone() {
            return None;
        }
        // SAFETY: the domain is open as long as this endpoint. No other thread calls: the program promises it, or there
        // is none. This thread does not hold the lock, by this function's contract, so there is no other reference to
        // the core. There is no `&mut` to the endpoint either, because one is made only under the lock.
        Some(unsafe { (Domain::core_alone(self.domain), &*self.guarded()) })
    }
}

impl Endpoint {
    /// The object behind the program's pointer.
    ///
    /// # Safety
    /// The pointer is to an open endpoint, which the program does not close before the call returns.
    #[inline(always)]
    pub unsafe fn of<'a>(ep: *mut fid_ep) -> &'a Handle {
        // SAFETY: the pointer is to an open endpoint, by this function's contract.
        unsafe { Handle::of(ep) }
    }

    /// The entry of the address vector with this number.
    #[inline(always)]
    pub fn known(&self, number: u64) -> Option<&Known> {
        // SAFETY: a vector refuses to close while an endpoint is bound to it. It changes only under the lock, and this
        // endpoint is reached only under the lock.
        let vector = unsafe { self.vector.as_ref()? };
        vector.entries.get(number as usize)?.as_ref()
    }

    /// The sender that a receive asks for: `Some(None)` is any. None: there is no such sender.
    ///
    /// # Safety
    /// The endpoint is enabled.
    #[inline(always)]
    pub unsafe fn source_of(&self, number: u64) -> Option<Option<u64>> {
        if number == ADDR_ANY || self.caps & DIRECTED_RECV == 0 {
            return Some(None);
        }
        // SAFETY: the endpoint is enabled, by this function's contract.
        let brief = unsafe { self.brief(number) }.filter(|brief| !brief.is_nobody())?;
        Some(Some(brief.source))
    }

    /// The part of an address vector's entry that messages need.
    ///
    /// # Safety
    /// The endpoint is enabled, so it has a vector.
    #[inline(always)]
    pub unsafe fn brief(&self, number: u64) -> Option<&Brief> {
        // SAFETY: an enabled endpoint has a vector, which refuses to close while an endpoint is bound to it. It changes
        // only under the lock, and this endpoint is reached only under the lock.
        let vector = unsafe { &*self.vector };
        vector.briefs.get(number as usize)
    }

    /// Whether operations of this kind may take the fast path.
    #[inline(always)]
    pub fn is_easy(&self, what: Easy, kind: Kind) -> bool {
        self.easy & what.bit(kind) != 0
    }

    /// The ticket for an operation of this endpoint.
    #[inline(always)]
    pub fn ticket(&self, context: *mut c_void, flags: u64, wanted: bool) -> Ticket {
        // SAFETY: the base of an open endpoint is open; only the address of its bindings is taken.
        let bindings = unsafe { &raw mut (*self.base).bindings };
        Ticket { bindings, context, flags, wanted }
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
    // SAFETY: fi_ep_bind(3): both objects are open. The class in the head of one says what it is.
    unsafe {
        if bound.is_null() {
            return -EINVAL;
        }
        let handle = Handle::of(fid);
        let mut held = handle.lock();
        // An alias is bound by its base.
        let outcome = match (*bound).fclass as u32 {
            FI_CLASS_AV => held.base().bind_vector(bound.cast(), handle.domain),
            FI_CLASS_CQ => held.base().bind_queue(bound.cast(), flags, handle.domain),
            FI_CLASS_CNTR => held.bind_counter(bound.cast(), flags, handle.domain()),
            FI_CLASS_EQ => {
                let events = &mut held.base().bound.events;
                if events.is_null() {
                    *events = bound.cast();
                    (**events).uses.add();
                }
                0
            }
            FI_CLASS_MR => 0,
            _ => {
                warn_line!("an object of class {} cannot be bound to an endpoint", (*bound).fclass);
                -EINVAL
            }
        };
        held.renew_aliases();
        outcome
    }
}

impl Endpoint {
    /// # Safety
    /// The vector is open.
    unsafe fn bind_vector(&mut self, vector: *mut address::Handle, domain: *mut Domain) -> c_int {
        if self.enabled || !self.vector.is_null() {
            return -EINVAL;
        }
        // SAFETY: the vector is open, by this function's contract.
        let handle = unsafe { &*vector };
        if handle.domain != domain {
            return -EDOMAIN;
        }
        (self.vector, self.bound.vector) = (handle.guarded(), vector);
        handle.uses.add();
        0
    }

    /// # Safety
    /// The queue is open.
    unsafe fn bind_queue(&mut self, queue: *mut completion::Handle, flags: u64, domain: *mut Domain) -> c_int {
        if flags & !(TRANSMIT | SEND | RECV | SELECTIVE_COMPLETION) != 0 || flags & (TRANSMIT | SEND | RECV) == 0 {
            return -EBADFLAGS;
        }
        // SAFETY: the queue is open, by this function's contract.
        let handle = unsafe { &*queue };
        if handle.domain != domain {
            return -EDOMAIN;
        }
        if self.enabled {
            return -EOPBADSTATE;
        }
        let sends = flags & (TRANSMIT | SEND) != 0;
        if (sends && !self.bindings.tx_queue.is_null()) || (flags & RECV != 0 && !self.bindings.rx_queue.is_null()) {
            return -EINVAL;
        }
        let is_selective = flags & SELECTIVE_COMPLETION != 0;
        if sends {
            (self.bindings.tx_queue, self.tx_selective) = (handle.guarded(), is_selective);
            self.bound.tx_queue = queue;
            handle.uses.add();
        }
        if flags & RECV != 0 {
            (self.bindings.rx_queue, self.rx_selective) = (handle.guarded(), is_selective);
            self.bound.rx_queue = queue;
            handle.uses.add();
        }
        0
    }
}

impl Held<'_, Endpoint> {
    /// # Safety
    /// The counter is open.
    unsafe fn bind_counter(&mut self, counter: *mut Counter, flags: u64, domain: &Domain) -> c_int {
        if flags & !(SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE) != 0 || flags == 0 {
            return -EBADFLAGS;
        }
        // SAFETY: the counter is open, by this function's contract.
        let (reference, uses) = unsafe {
            if !ptr::eq((*counter).domain(), domain) {
                return -EDOMAIN;
            }
            ((*counter).reference, &(*counter).uses)
        };
        if self.base().enabled {
            return -EOPBADSTATE;
        }
        let taken = |index: usize| ![NONE, reference].contains(&self.remote_counter(index));
        if (0..2).any(|index| flags & REMOTE_ACCESSES[index] != 0 && taken(index)) {
            warn_line!(
                "others' accesses to a domain's memory count in one counter of its endpoints: open a domain for each, or \
                 bind counters to regions"
            );
            return -ENOSYS;
        }
        let counters = &mut self.base().counters;
        if counters.iter().zip(COUNTED).any(|(slot, flag)| flags & flag != 0 && !slot.is_null()) {
            return -EINVAL;
        }
        for (slot, flag) in counters.iter_mut().zip(COUNTED) {
            if flags & flag != 0 {
                *slot = counter;
                uses.add();
            }
        }
        self.base().find_counters();
        if flags & RECV != 0 {
            self.wants_independence();
        }
        if self.find_remote_counters().is_err() { -ENOSPC } else { 0 }
    }

    fn enable(&mut self) -> c_int {
        let endpoint = self.base();
        if endpoint.enabled {
            return 0;
        }
        if endpoint.vector.is_null() {
            return -ENOAV;
        }
        let transmits = endpoint.caps & (SEND | READ | WRITE) != 0;
        let receives = endpoint.caps & RECV != 0;
        let counted = |range: std::ops::Range<usize>| endpoint.counters[range].iter().any(|counter| !counter.is_null());
        let no_transmit = transmits && endpoint.bindings.tx_queue.is_null() && !counted(0..1) && !counted(2..4);
        let no_receive = receives && endpoint.bindings.rx_queue.is_null() && !counted(1..2);
        if no_transmit || no_receive {
            return -ENOCQ;
        }
        endpoint.enabled = true;
        let base: *mut Endpoint = endpoint;
        // SAFETY: `base` is this endpoint's base. It is open, because it refuses to close while it has aliases.
        unsafe { self.find_easy(base) };
        self.renew_aliases();
        0
    }

    /// fi_ep_alias: the same endpoint with other default flags for sends or receives.
    ///
    /// # Safety
    /// `handle` is the object whose lock is held, and `asked` has a place for the alias.
    unsafe fn alias(&mut self, handle: &Handle, asked: &fi_alias) -> c_int {
        let fid = object::head(FI_CLASS_EP, handle.head.fid.context, &FID_OPS.0);
        let head = fid_ep { fid, ..handle.head };
        let alias = Endpoint { aliases: Vec::new(), service: None, ..*self.state() };
        let made = Box::into_raw(Handle::make(head, handle.domain, Fixed { alone: handle.fixed.alone }, alias));
        // SAFETY: the alias was made here and nobody else has it yet; `asked` holds a place for it, by this function's
        // contract.
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

    /// FI_SETOPSFLAG: default flags for sends or receives.
    ///
    /// # Safety
    /// `endpoint` is an open endpoint of this domain.
    unsafe fn set_flags(&mut self, endpoint: *mut Endpoint, flags: u64) -> c_int {
        // SAFETY: the endpoint is open, by this function's contract, and its domain's lock is held.
        unsafe {
            match flags & (TRANSMIT | RECV) {
                TRANSMIT => (*endpoint).tx_flags = flags & !TRANSMIT,
                RECV => (*endpoint).rx_flags = flags & !RECV,
                _ => return -EINVAL,
            }
            self.find_easy(endpoint);
        }
        0
    }

    /// Copies the bindings of an endpoint to its aliases, which differ only in their default flags.
    fn renew_aliases(&mut self) {
        let base = self.base();
        let aliases = base.aliases.clone();
        let (tx, rx) = ((base.bindings.tx_queue, base.tx_selective), (base.bindings.rx_queue, base.rx_selective));
        let (counters, vector, bound) = (base.counters, base.vector, base.bound);
        let (enabled, min_multi_recv) = (base.enabled, base.min_multi_recv);
        for alias in aliases {
            // SAFETY: an alias leaves the list under the lock, which is held here, before it is closed. No other
            // reference to its state exists, because the guard is borrowed.
            unsafe {
                let to = &mut *alias;
                (to.bindings.tx_queue, to.tx_selective) = tx;
                (to.bindings.rx_queue, to.rx_selective) = rx;
                (to.counters, to.vector, to.bound) = (counters, vector, bound);
                to.find_counters();
                (to.enabled, to.min_multi_recv) = (enabled, min_multi_recv);
                self.find_easy(alias);
            }
        }
    }

    /// Finds once which operations with the endpoint's own flags may take the fast path.
    ///
    /// # Safety
    /// `endpoint` is an open endpoint of this domain.
    unsafe fn find_easy(&mut self, endpoint: *mut Endpoint) {
        // SAFETY: the endpoint is open, by this function's contract; its domain's lock is held, and the guard is
        // borrowed.
        unsafe { &mut *endpoint }.find_easy();
    }
}

impl Endpoint {
    /// Tells the transport the NIC's counters.
    fn find_counters(&mut self) {
        for (reference, counter) in self.bindings.counters.iter_mut().zip(self.counters) {
            // SAFETY: a counter refuses to close while an endpoint is bound to it.
            *reference = unsafe { counter.as_ref() }.map_or(NONE, |counter| counter.reference);
        }
    }

    fn find_easy(&mut self) {
        self.easy = 0;
        self.tx_told = self.wants_tx(self.tx_flags) && !self.bindings.tx_queue.is_null();
        self.rx_told = self.wants_rx(self.rx_flags) && !self.bindings.rx_queue.is_null();
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
    // SAFETY: fi_control(3): the endpoint is open, and the argument is what the command asks for.
    unsafe {
        let handle = Handle::of(fid);
        let mut held = handle.lock();
        match command as u32 {
            FI_ENABLE => held.enable(),
            FI_ALIAS => match arg.cast::<fi_alias>().as_ref() {
                Some(asked) => held.alias(handle, asked),
                None => -EINVAL,
            },
            FI_GETOPSFLAG => {
                let flags = &mut *arg.cast::<u64>();
                *flags = match *flags & (TRANSMIT | RECV) {
                    TRANSMIT => held.state().tx_flags,
                    RECV => held.state().rx_flags,
                    _ => return -EINVAL,
                };
                0
            }
            FI_SETOPSFLAG => held.set_flags(handle.guarded(), *arg.cast::<u64>()),
            _ => -ENOSYS,
        }
    }
}

unsafe extern "C" fn cancel(fid: fid_t, context: *mut c_void) -> isize {
    // SAFETY: fi_endpoint(3): the program calls with an endpoint that is open.
    unsafe {
        let mut held = Handle::of(fid).lock();
        let base = held.state().base;
        if held.cancel(&raw mut (*base).bindings, context) { 0 } else { -(ENOENT as isize) }
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
                let mut held = Handle::of(fid).lock();
                held.base().min_multi_recv = value.cast::<usize>().read_unaligned();
                held.renew_aliases();
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
        let mut held = Handle::of(fid).lock();
        if held.base().enabled {
            return -EOPBADSTATE;
        }
        held.set_source(addr, length)
    }
}

unsafe extern "C" fn getname(fid: fid_t, addr: *mut c_void, length: *mut usize) -> c_int {
    // SAFETY: fi_getopt(3), fi_getname(3): the endpoint is open, and the program has room for `*length` bytes.
    unsafe {
        let mut held = Handle::of(fid).lock();
        let index = held.state().bindings.index;
        let name = Address::of(&held, index);
        if address::give(&name, addr, length) { 0 } else { -ETOOSMALL }
    }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: fi_close: the endpoint was made by `open` or `alias`, and no other thread uses it any more. The objects
    // that it is bound to are open, because their use counts are not 0.
    unsafe {
        let handle = Handle::of(fid);
        let own = handle.guarded();
        let mut held = handle.lock();
        if held.state().base != own {
            held.base().aliases.retain(|&alias| alias != own);
            drop(held);
            drop(Box::from_raw(fid.cast::<Handle>()));
            return 0;
        }
        if !held.state().aliases.is_empty() {
            return -EBUSY;
        }
        let index = held.state().bindings.index;
        held.close_endpoint(index);
        let _ = held.find_remote_counters();
        let Endpoint { bound, counters, .. } = *held.state();
        drop(held);
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
            events.uses.drop_one();
        }
        handle.domain().uses.drop_one();
        drop(Box::from_raw(fid.cast::<Handle>()));
    }
    0
}
