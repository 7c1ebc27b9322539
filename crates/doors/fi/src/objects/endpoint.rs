// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Endpoints (fi_endpoint(3)): reliable and unconnected (`FI_EP_RDM`), each with its own tagged and untagged messages.
//!
//! An alias is a separate record, with the bindings of its base and its own default flags. The tickets of its
//! operations ([`Ticket`]) name the base, so the layers below do not see aliases.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use selvedge_host::direct::ring_flags;
use selvedge_messages::Transport;
use selvedge_messages::bindings::Bindings;
use selvedge_messages::regions::REMOTE_ACCESSES;
use selvedge_messages::ticket::{ENDPOINTS_MAX, Kind, Ticket};
use selvedge_nic::handle::NONE;

use crate::constants::*;
use crate::ffi::{fi_info, fid_ep};
use crate::objects::address::Address;
use crate::objects::address_vector::{self, AddressVector, PeerEntry, VectorEntry};
use crate::objects::completion_queue;
use crate::objects::counter::Counter;
use crate::objects::domain::Domain;
use crate::objects::domain_object::{Object, ObjectGuard};
use crate::objects::event_queue::EventQueue;
use crate::{info, name, warn_line};

/// An endpoint as the program holds it.
pub type Handle = Object<fid_ep, Fixed, Endpoint>;

/// The part that does not change while an endpoint is open.
pub struct Fixed {
    /// Not 0: no other thread can need the domain's lock ([`Domain::alone`]).
    pub(crate) alone: &'static AtomicU8,
}

/// The part that the domain's lock guards. The transport uses its pointer to the bindings only under the lock.
#[repr(C)]
pub struct Endpoint {
    pub vector: *mut AddressVector,
    pub bindings: Bindings,
    /// The kinds of messages ([`FastPath`]) whose calls need not check capabilities, counters or unusual flags.
    pub(crate) fast_path: u8,
    /// Sends and receives with the endpoint's own flags make completions.
    pub tx_completes: bool,
    pub rx_completes: bool,
    /// Sends and receives make completions only if their own flags ask for them.
    pub(crate) tx_selective: bool,
    pub(crate) rx_selective: bool,
    pub enabled: bool,
    pub caps: u64,
    /// Default flags of operations.
    pub tx_flags: u64,
    pub rx_flags: u64,
    pub min_multi_recv: usize,
    /// Itself, or the base of the alias.
    pub base: *mut Endpoint,
    /// Counters of sends, receives, reads, writes, and of others' reads and writes.
    pub(crate) counters: [*mut Counter; 6],
    pub(crate) bound: Bound,
    pub(crate) aliases: Vec<*mut Endpoint>,
    pub(crate) groups: u32,
    /// The service number of its name.
    pub(crate) service: Option<name::Bound>,
}

/// The objects that an endpoint is bound to, except its counters; null if not bound.
#[derive(Clone, Copy)]
pub(crate) struct Bound {
    pub(crate) tx_queue: *mut completion_queue::Handle,
    pub(crate) rx_queue: *mut completion_queue::Handle,
    pub(crate) vector: *mut address_vector::Handle,
    pub(crate) events: *mut EventQueue,
}

impl Bound {
    pub(crate) const NONE: Bound = Bound {
        tx_queue: ptr::null_mut(),
        rx_queue: ptr::null_mut(),
        vector: ptr::null_mut(),
        events: ptr::null_mut(),
    };
}

/// Common operations with the endpoint's own flags: no counter, no wait for delivery, one message for each buffer.
#[derive(Clone, Copy)]
pub enum FastPath {
    Send = 0,
    Receive = 2,
    /// A send without a completion, with any endpoint flags.
    Inject = 4,
}

impl FastPath {
    #[inline(always)]
    pub(crate) const fn bit(self, kind: Kind) -> u8 {
        1 << (self as u8 + kind as u8)
    }
}

/// The flags for binding a counter, in the order of [`Endpoint::counters`].
pub(crate) const COUNTED: [u64; 6] = [SEND, RECV, READ, WRITE, REMOTE_READ, REMOTE_WRITE];

impl ObjectGuard<'_, Endpoint> {
    /// The base of this alias, or the endpoint itself.
    pub(crate) fn base(&mut self) -> &mut Endpoint {
        let base = self.state().base;
        // SAFETY: an endpoint refuses to close while it has an open alias, and the lock of their domain is held. The
        // result borrows the guard, so no function of the transport and no other reference to a state is alive.
        unsafe { &mut *base }
    }

    /// Gives a new endpoint its number, and binds it to the name that the program asks for.
    ///
    /// # Safety
    /// `own` is the endpoint whose lock is held. `info` has a source address of the stated length, or none.
    pub(crate) unsafe fn open(&mut self, own: *mut Endpoint, info: &fi_info) -> c_int {
        // SAFETY: the endpoint is open by this function's contract; only its address is taken.
        let bindings = unsafe { &raw mut (*own).bindings };
        let Some(index) = self.open_endpoint(bindings) else {
            warn_line!("a domain has at most {} endpoints; close one, or open another domain", ENDPOINTS_MAX);
            return -ENOSPC;
        };
        let endpoint = self.state();
        (endpoint.bindings.index, endpoint.bindings.ring_flags, endpoint.base) = (index, ring_flags(index), own);
        if info.src_addr.is_null() {
            return 0;
        }
        // SAFETY: the address and its length are from one `fi_info`.
        let outcome = unsafe { self.set_source(info.src_addr, info.src_addrlen) };
        if outcome != 0 {
            self.close_endpoint(index);
        }
        outcome
    }

    /// Binds the endpoint to a name from [`info`].
    ///
    /// # Safety
    /// The address has `length` bytes.
    pub(crate) unsafe fn set_source(&mut self, address: *const c_void, length: usize) -> c_int {
        // SAFETY: the address has `length` bytes, by this function's contract.
        let Some(name) = (unsafe { Address::read(address, length) }) else {
            warn_line!("an endpoint's source address must have {} bytes; use one from fi_getinfo", info::ADDRESS_BYTES);
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
    /// Whether no other thread can need the domain's lock now.
    #[inline(always)]
    pub fn is_alone(&self) -> bool {
        self.fixed.alone.load(Relaxed) != 0
    }

    /// The domain's core and the endpoint, if no lock is needed.
    ///
    /// # Safety
    /// This thread does not hold the domain's lock, and does not take it while the transport is borrowed. If `ALONE`,
    /// the program promises that no other thread calls.
    #[inline(always)]
    pub unsafe fn directly<'a, const ALONE: bool>(&self) -> Option<(&'a mut Transport, &'a Endpoint)> {
        if !ALONE && !self.is_alone() {
            return None;
        }
        // SAFETY: the domain is open as long as this endpoint. No other thread calls: the program promises it, or there
        // is none. This thread does not hold the lock, by this function's contract, so there is no other reference to
        // the transport. There is no `&mut` to the endpoint either, because one is made only under the lock.
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
    pub fn entry(&self, number: u64) -> Option<&VectorEntry> {
        // SAFETY: a vector refuses to close while an endpoint is bound to it. It changes only under the lock, and this
        // endpoint is reached only under the lock.
        let vector = unsafe { self.vector.as_ref()? };
        vector.entries.get(number as usize)?.as_ref()
    }

    /// The sender that a receive asks for. `Some(None)`: any. `None`: there is no such sender.
    ///
    /// # Safety
    /// The endpoint is enabled.
    #[inline(always)]
    pub unsafe fn source_of(&self, number: u64) -> Option<Option<u64>> {
        if number == ADDR_ANY || self.caps & DIRECTED_RECV == 0 {
            return Some(None);
        }
        // SAFETY: the endpoint is enabled, by this function's contract.
        let peer_entry = unsafe { self.peer_entry(number) }.filter(|peer_entry| !peer_entry.is_missing())?;
        Some(Some(peer_entry.source))
    }

    /// The part of an address vector's entry that messages need.
    ///
    /// # Safety
    /// The endpoint is enabled, so it has a vector.
    #[inline(always)]
    pub unsafe fn peer_entry(&self, number: u64) -> Option<&PeerEntry> {
        // SAFETY: an enabled endpoint has a vector, which refuses to close while an endpoint is bound to it. It changes
        // only under the lock, and this endpoint is reached only under the lock.
        let vector = unsafe { &*self.vector };
        vector.peer_entries.get(number as usize)
    }

    /// Whether operations of this kind may take the fast path.
    #[inline(always)]
    pub fn allows_fast_path(&self, what: FastPath, kind: Kind) -> bool {
        self.fast_path & what.bit(kind) != 0
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

impl Endpoint {
    /// # Safety
    /// The vector is open.
    pub(crate) unsafe fn bind_vector(&mut self, vector: *mut address_vector::Handle, domain: *mut Domain) -> c_int {
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
    pub(crate) unsafe fn bind_queue(
        &mut self,
        queue: *mut completion_queue::Handle,
        flags: u64,
        domain: *mut Domain,
    ) -> c_int {
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

impl ObjectGuard<'_, Endpoint> {
    /// # Safety
    /// The counter is open.
    pub(crate) unsafe fn bind_counter(&mut self, counter: *mut Counter, flags: u64, domain: &Domain) -> c_int {
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
        let taken = |index: usize| ![NONE, reference].contains(&self.remote_counter(index));
        if (0..2).any(|index| flags & REMOTE_ACCESSES[index] != 0 && taken(index)) {
            warn_line!(
                "only one counter can count others' accesses to a domain's memory; open a domain for each counter, or \
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
            self.bypass_rings();
        }
        // An enabled endpoint may get a counter, too. Its operations count from now on.
        let base = self.base().base;
        // SAFETY: `base` is open, because it refuses to close while it has aliases.
        unsafe { self.find_fast_paths(base) };
        if self.find_remote_counters().is_err() { -ENOSPC } else { 0 }
    }

    pub(crate) fn enable(&mut self) -> c_int {
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
        unsafe { self.find_fast_paths(base) };
        self.renew_aliases();
        0
    }

    /// FI_SETOPSFLAG: default flags for sends or receives.
    ///
    /// # Safety
    /// `endpoint` is an open endpoint of this domain.
    pub(crate) unsafe fn set_flags(&mut self, endpoint: *mut Endpoint, flags: u64) -> c_int {
        // SAFETY: the endpoint is open, by this function's contract, and its domain's lock is held.
        unsafe {
            match flags & (TRANSMIT | RECV) {
                TRANSMIT => (*endpoint).tx_flags = flags & !TRANSMIT,
                RECV => (*endpoint).rx_flags = flags & !RECV,
                _ => return -EINVAL,
            }
            self.find_fast_paths(endpoint);
        }
        0
    }

    /// Copies the bindings of an endpoint to its aliases, which differ only in their default flags.
    pub(crate) fn renew_aliases(&mut self) {
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
                self.find_fast_paths(alias);
            }
        }
    }

    /// Determines which operations with the endpoint's own flags may take the fast path.
    ///
    /// # Safety
    /// `endpoint` is an open endpoint of this domain.
    pub(crate) unsafe fn find_fast_paths(&mut self, endpoint: *mut Endpoint) {
        // SAFETY: the endpoint is open by this function's contract, the lock is held, and the guard is borrowed.
        unsafe { &mut *endpoint }.find_fast_paths();
    }
}

impl Endpoint {
    pub(crate) fn find_counters(&mut self) {
        for (reference, counter) in self.bindings.counters.iter_mut().zip(self.counters) {
            // SAFETY: a counter refuses to close while an endpoint is bound to it.
            *reference = unsafe { counter.as_ref() }.map_or(NONE, |counter| counter.reference);
        }
    }

    pub(crate) fn find_fast_paths(&mut self) {
        self.fast_path = 0;
        self.tx_completes = self.wants_tx(self.tx_flags) && !self.bindings.tx_queue.is_null();
        self.rx_completes = self.wants_rx(self.rx_flags) && !self.bindings.rx_queue.is_null();
        for kind in [Kind::Tagged, Kind::Plain] {
            let can = |right: u64| self.enabled && self.caps & kind.flag() != 0 && self.caps & right != 0;
            if can(SEND) && self.counters[0].is_null() {
                self.fast_path |= FastPath::Inject.bit(kind);
                if self.tx_flags & (DELIVERY_COMPLETE | MATCH_COMPLETE | TRIGGER) == 0 {
                    self.fast_path |= FastPath::Send.bit(kind);
                }
            }
            if can(RECV) && self.counters[1].is_null() && self.rx_flags & (MULTI_RECV | TRIGGER) == 0 {
                self.fast_path |= FastPath::Receive.bit(kind);
            }
        }
    }
}
