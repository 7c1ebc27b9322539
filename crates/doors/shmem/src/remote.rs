// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Symmetric addresses at a PE: checks them, and moves bytes to and from them.
//!
//! If the peer's memory is directly mapped, a put is the stores themselves, followed by a wake-up if the peer sleeps.
//! In a job of several hosts this holds for puts and gets to PEs of this host; all else is commands. Commands are puts,
//! gets and atomics of the NIC to two entries that every PE has: one for the symmetric memory, one for the program's
//! static data (seed 004, section 2.1). The match bits of a counting put select its counter's entry.
//!
//! Invariants
//! 1. An address is used only after it was found inside of the heap or the static data. By commands, the target's NIC
//!    checks it against the entry's bounds again.
//! 2. Operations from one PE to another arrive in the order in which they were started: on mapped memory by the order
//!    of stores (and a fence where the machine needs it), by commands because Portals keeps the order.
//!
//! Budget of a put to mapped memory: no system call, lock or allocation; the peer's line, and its sleepers word.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::Release};

use selvedge_process::StartError;
use selvedge_process::nic::arithmetic::{Datatype, Operation};
use selvedge_process::nic::handle::NONE;
use selvedge_process::nic::portals::{ack, options};
use selvedge_process::nic::tables::{Command, Request, Side, kind};

use crate::check::{self, Call};
use crate::handles::Ctx;
use crate::mapped::within;
use crate::world::World;
use crate::world::address::{NicAddress, PORTAL_DATA, PORTAL_MEMORY, Reach, SymAddress, SymOffset};

/// The parts of a command that depend on its kind and its memory.
struct CommandSpec {
    kind: u8,
    operation: u8,
    datatype: u8,
    match_bits: u64,
    length: usize,
    operand: [u64; 4],
    source: *const u8,
    sink: *mut u8,
    /// Whether the caller waits for the reply next.
    is_awaited: bool,
}

impl CommandSpec {
    fn new(kind: u8, length: usize) -> CommandSpec {
        CommandSpec {
            kind,
            operation: 0,
            datatype: 0,
            match_bits: 0,
            length,
            operand: [0; 4],
            source: std::ptr::null(),
            sink: std::ptr::null_mut(),
            is_awaited: false,
        }
    }
}

impl World {
    // ---- Finding -------------------------------------------------------------------------------------------------

    /// The symmetric address of a range of this PE's memory; `None` if it is not symmetric.
    #[inline(always)]
    pub(crate) fn find(&self, address: *const u8, bytes: usize) -> Option<SymAddress> {
        let address = address as usize;
        if within(address.wrapping_sub(self.heap_start), bytes, self.heap_bytes.load(Relaxed)) {
            return Some(SymAddress { portal: PORTAL_MEMORY, address });
        }
        let inside = within(address.wrapping_sub(self.data.start), bytes, self.data.len());
        inside.then_some(SymAddress { portal: PORTAL_DATA, address })
    }

    /// Checks a symmetric range. `None`: it has been reported.
    #[inline(always)]
    pub fn sym(&self, call: Call, argument: &'static str, address: *const u8, bytes: usize) -> Option<SymAddress> {
        let found = self.find(address, bytes);
        if found.is_none() {
            self.refuse_address(call, argument, address, bytes);
        }
        found
    }

    #[cold]
    #[inline(never)]
    fn refuse_address(&self, call: Call, argument: &str, address: *const u8, bytes: usize) {
        match self.find(address, 0) {
            None => check::refuse(call, argument, format_args!("{address:p}: not a symmetric address")),
            Some(_) => {
                let why = "exceeds the symmetric memory";
                check::refuse(call, argument, format_args!("{address:p}: a range of {bytes} bytes {why}"));
            }
        }
    }

    /// The world rank of a PE number in a context's team. `None`: it has been reported.
    #[inline(always)]
    pub fn pe(&self, call: Call, ctx: Ctx, pe: c_int) -> Option<usize> {
        let rank = pe as usize;
        if ctx == Ctx::DEFAULT && rank < self.n_pes() {
            return Some(rank);
        }
        self.pe_of_context(call, ctx, pe)
    }

    #[inline(never)]
    fn pe_of_context(&self, call: Call, ctx: Ctx, pe: c_int) -> Option<usize> {
        let Some(team) = self.team_of(ctx) else {
            check::refuse(call, "ctx", format_args!("{:#x}: not a valid context", ctx.0));
            return None;
        };
        if pe < 0 || pe >= team.size {
            check::refuse(call, "pe", format_args!("{pe}: the context's team has {} PEs", team.size));
            return None;
        }
        Some(team.world_rank(pe))
    }

    /// Checks a symmetric range, and finds its access at a PE. `None`: it has been reported.
    pub fn reach(
        &self,
        call: Call,
        argument: &'static str,
        address: *const u8,
        bytes: usize,
        pe: usize,
    ) -> Option<Reach> {
        let place = self.sym(call, argument, address, bytes)?;
        if self.near_mapped && self.maps(pe) && self.nics[pe].window.get().is_none() {
            // Later puts and gets find the PE mapped.
            self.attach(pe);
        }
        Some(self.reach_address(place, pe))
    }

    /// The access to a checked address at a PE.
    #[inline(always)]
    pub(crate) fn reach_address(&self, place: SymAddress, pe: usize) -> Reach {
        if self.memory_mapped {
            if let Some(at) = self.mapped_at(place, pe) {
                return Reach::Mapped(at);
            }
        }
        let start = if place.portal == PORTAL_MEMORY { self.root } else { self.data.start };
        Reach::Nic(NicAddress { pe, portal: place.portal, offset: place.address.wrapping_sub(start) as u64 })
    }

    /// The address here of a checked address at a PE; `None` if it is not mapped.
    #[inline(always)]
    pub(crate) fn mapped_at(&self, place: SymAddress, pe: usize) -> Option<*mut u8> {
        let in_memory = place.portal == PORTAL_MEMORY;
        let here = self.maps(pe) && (in_memory || self.data_mapped);
        if !here || (self.nics[pe].window.get().is_none() && self.attach(pe).is_none()) {
            return None;
        }
        let shift = if in_memory { &self.peers[pe].heap_shift } else { &self.peers[pe].data_shift };
        Some(place.address.wrapping_add(shift.load(Relaxed)) as *mut u8)
    }

    /// The address here of a PE's object; null if it is not mapped here.
    pub(crate) fn pointer(&self, address: *const u8, pe: usize) -> *mut u8 {
        match self.find(address, 0) {
            // A PE's own memory is always mapped.
            Some(place) if pe == self.me() => place.local(),
            Some(place) => self.mapped_at(place, pe).unwrap_or(std::ptr::null_mut()),
            None => std::ptr::null_mut(),
        }
    }

    // ---- The library's own words ---------------------------------------------------------------------------------

    /// This PE's own copy of the memory at an offset.
    #[inline(always)]
    pub fn local(&self, at: SymOffset) -> *mut u8 {
        SymAddress::of(at).local()
    }

    /// This PE's own copy of a word, for polling.
    #[inline(always)]
    pub fn word(&self, word: SymOffset) -> &AtomicU64 {
        // SAFETY: an aligned word of the library's region, committed at the start and mapped to the end of the process.
        // All PEs access it by atomics only.
        unsafe { &*self.local(word).cast::<AtomicU64>() }
    }

    /// Copies to a PE. Returns when `from` may be reused.
    #[inline(always)]
    pub fn put(&self, pe: usize, to: SymAddress, from: *const u8, bytes: usize) {
        match self.reach_address(to, pe) {
            // SAFETY: `to` is checked for `bytes`, and the callers, all in this crate, give `bytes` readable bytes at
            // `from`.
            Reach::Mapped(at) => unsafe {
                std::ptr::copy(from, at, bytes);
                self.counts(pe).internal(bytes as u64);
            },
            // SAFETY: callers, all in this crate, give `bytes` readable bytes; the default context is always valid.
            Reach::Nic(remote) => unsafe { self.nic_put(Ctx::DEFAULT, remote, from, bytes) },
        }
    }

    /// Copies from a PE. Complete on return.
    #[inline(always)]
    pub fn get(&self, pe: usize, from: SymAddress, to: *mut u8, bytes: usize) {
        match self.reach_address(from, pe) {
            // SAFETY: `from` is checked for `bytes`, and the callers, all in this crate, give room for `bytes` at `to`.
            Reach::Mapped(at) => unsafe {
                std::ptr::copy(at, to, bytes);
                self.counts(pe).internal(bytes as u64);
            },
            // SAFETY: callers, all in this crate, give room for `bytes`; the default context is always valid.
            Reach::Nic(remote) => unsafe { self.nic_get(Ctx::DEFAULT, remote, to, bytes) },
        }
    }

    /// Stores a word at a PE, after all earlier puts of this PE to it, and wakes the PE.
    #[inline(always)]
    pub fn store(&self, pe: usize, word: SymOffset, value: u64) {
        match self.reach_address(SymAddress::of(word), pe) {
            Reach::Mapped(at) => {
                // SAFETY: an aligned word of the library's region, mapped since the start. All PEs use atomics only.
                unsafe { &*at.cast::<AtomicU64>() }.store(value, Release);
                self.wake(pe);
                self.counts(pe).internal(8);
            }
            // SAFETY: the value is on this stack and lives until the call returns; the default context is always valid.
            Reach::Nic(remote) => unsafe { self.nic_put(Ctx::DEFAULT, remote, (&raw const value).cast(), 8) },
        }
    }

    /// Adds to a word at a PE, after all earlier puts of this PE to it, and wakes the PE.
    #[inline(always)]
    pub fn add(&self, pe: usize, word: SymOffset, value: u64) {
        match self.reach_address(SymAddress::of(word), pe) {
            Reach::Mapped(at) => {
                // SAFETY: an aligned word of the library's region, mapped since the start. All PEs use atomics only.
                unsafe { &*at.cast::<AtomicU64>() }.fetch_add(value, std::sync::atomic::Ordering::AcqRel);
                self.wake(pe);
                self.counts(pe).internal(8);
            }
            Reach::Nic(remote) => {
                let operand = (&raw const value).cast();
                // SAFETY: the NIC has read the value when the call returns; the default context is always valid.
                unsafe { self.nic_atomic(Ctx::DEFAULT, remote, Operation::Sum, Datatype::Uint64, operand) }
            }
        }
    }

    /// Adds to a word at a PE and returns the old value.
    #[inline(always)]
    pub fn fetch_add(&self, pe: usize, word: SymOffset, value: u64) -> u64 {
        match self.reach_address(SymAddress::of(word), pe) {
            Reach::Mapped(at) => {
                // SAFETY: an aligned word of the library's region, mapped since the start. All PEs use atomics only.
                let before = unsafe { &*at.cast::<AtomicU64>() }.fetch_add(value, std::sync::atomic::Ordering::AcqRel);
                self.wake(pe);
                self.counts(pe).internal(8);
                before
            }
            Reach::Nic(remote) => {
                let mut before = 0u64;
                let (operand, into) = ((&raw const value).cast(), (&raw mut before).cast());
                // SAFETY: value and result are on this stack and live until the call returns, when the command is
                // complete; the default context is always valid.
                unsafe {
                    let (sum, word) = (Operation::Sum, Datatype::Uint64);
                    self.nic_fetch(Ctx::DEFAULT, remote, sum, word, operand, std::ptr::null(), into);
                }
                before
            }
        }
    }

    // ---- Commands ------------------------------------------------------------------------------------------------

    /// Puts by a command. `from` may be reused on return.
    ///
    /// # Safety
    /// `from` can be read for `bytes`. The context is valid.
    pub unsafe fn nic_put(&self, ctx: Ctx, remote: NicAddress, from: *const u8, bytes: usize) {
        self.issue(ctx, remote, &CommandSpec { source: from, ..CommandSpec::new(kind::PUT, bytes) });
    }

    /// Puts by a command that counts at the target.
    ///
    /// # Safety
    /// As [`World::nic_put`].
    pub(crate) unsafe fn nic_put_counting(
        &self,
        ctx: Ctx,
        remote: NicAddress,
        bits: u64,
        from: *const u8,
        bytes: usize,
    ) {
        self.issue(ctx, remote, &CommandSpec { source: from, match_bits: bits, ..CommandSpec::new(kind::PUT, bytes) });
    }

    /// Gets by a command. Complete on return.
    ///
    /// # Safety
    /// `into` can be written for `bytes`. The context is valid.
    pub unsafe fn nic_get(&self, ctx: Ctx, remote: NicAddress, into: *mut u8, bytes: usize) {
        // SAFETY: the contract of this function: `into` has room for `bytes`, and the context is valid.
        unsafe { self.nic_get_counting(ctx, remote, 0, into, bytes) };
    }

    /// Gets by a command that counts at the source. Complete on return.
    ///
    /// # Safety
    /// As [`World::nic_get`].
    pub(crate) unsafe fn nic_get_counting(&self, ctx: Ctx, remote: NicAddress, bits: u64, into: *mut u8, bytes: usize) {
        let get = CommandSpec::new(kind::GET, bytes);
        self.issue(ctx, remote, &CommandSpec { sink: into, match_bits: bits, is_awaited: true, ..get });
        self.quiet(ctx);
    }

    /// An atomic without a result.
    ///
    /// # Safety
    /// `operand` points to an element of the datatype. The context is valid.
    pub unsafe fn nic_atomic(
        &self,
        ctx: Ctx,
        remote: NicAddress,
        operation: Operation,
        datatype: Datatype,
        operand: *const u8,
    ) {
        let spec = CommandSpec {
            operation: operation as u8,
            datatype: datatype as u8,
            source: operand,
            ..CommandSpec::new(kind::ATOMIC, datatype.size_bytes())
        };
        self.issue(ctx, remote, &spec);
    }

    /// An atomic that returns the old value. `compare` is read for conditional swaps only. Complete on return.
    ///
    /// # Safety
    /// All three point to an element of the datatype, `compare` where it is read. The context is valid.
    pub unsafe fn nic_fetch(
        &self,
        ctx: Ctx,
        remote: NicAddress,
        operation: Operation,
        datatype: Datatype,
        operand: *const u8,
        compare: *const u8,
        into: *mut u8,
    ) {
        let bytes = datatype.size_bytes();
        let swaps = operation as u8 >= Operation::Swap as u8;
        let mut spec = CommandSpec {
            operation: operation as u8,
            datatype: datatype as u8,
            source: operand,
            sink: into,
            is_awaited: true,
            ..CommandSpec::new(if swaps { kind::SWAP } else { kind::FETCH_ATOMIC }, bytes)
        };
        if swaps && !compare.is_null() {
            // SAFETY: not null; the contract of this function: `compare` is an element of the datatype. The four words
            // hold the longest element.
            unsafe { std::ptr::copy_nonoverlapping(compare, spec.operand.as_mut_ptr().cast(), bytes.min(32)) };
        }
        self.issue(ctx, remote, &spec);
        self.quiet(ctx);
    }

    /// Starts a command. The context's counter counts its end.
    fn issue(&self, ctx: Ctx, remote: NicAddress, spec: &CommandSpec) {
        let counter = self.contexts.begin(ctx);
        let side = |start: u64, flag: u32| Side {
            start,
            iov: NONE,
            iov_count: 0,
            options: flag,
            queue: NONE,
            counter,
            reserved: 0,
        };
        let replies = !matches!(spec.kind, kind::PUT | kind::ATOMIC);
        let source = side(spec.source as u64, if replies { 0 } else { options::MD_EVENT_CT_ACK });
        let command = Command {
            request: Request {
                kind: spec.kind,
                operation: spec.operation,
                datatype: spec.datatype,
                ack: if replies { ack::NONE } else { ack::COUNTING },
                portal: remote.portal,
                uid: self.commands.uid,
                lookups: 0,
                initiator: self.interface.id(),
                match_bits: spec.match_bits,
                remote_offset: remote.offset,
                header_data: 0,
                length: spec.length as u64,
                operand: spec.operand,
            },
            target: self.nics[remote.pe].id,
            user_ptr: 0,
            source: if spec.kind == kind::GET { Side::NOWHERE } else { source },
            sink: if replies { side(spec.sink as u64, options::MD_EVENT_CT_REPLY) } else { Side::NOWHERE },
        };
        loop {
            // The caller waits for the reply next.
            let started = match spec.is_awaited {
                true => self.interface.start_awaited(&command),
                false => self.interface.start(&command),
            };
            match started {
                Ok(()) => return,
                Err(StartError::NoSpace) => {
                    self.interface.poll();
                    std::thread::yield_now();
                }
                Err(StartError::Shortage) => {
                    let pe = remote.pe;
                    self.process.abort(1, &format!("an operation on PE {pe} lacks a resource that was named above"))
                }
                Err(StartError::Memory) => {
                    self.contexts.undo(ctx);
                    check::report(format_args!("an operation on PE {} uses memory that is not mapped", remote.pe));
                    return;
                }
            }
        }
    }
}
