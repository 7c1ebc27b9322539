// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A symmetric address at a PE: where it is, and how bytes get there.
//!
//! In place: the peer's memory is mapped here, so a put is the stores themselves, and then a look whether the peer sleeps.
//! By commands: the NIC's put, get and atomics to the two entries that every PE has, one for the symmetric memory and one
//! for the program's static data (seed 004, section 2.1). A counting put names its counter's entry by its match bits.
//!
//! Invariants
//! 1. Nothing is stored or loaded at an address that was not found inside of the heap or the static data. By commands, the
//!    target's NIC holds it against the entry's bounds once more.
//! 2. From one PE to another, everything arrives in the order in which it was started: in place by the order of stores
//!    (and a fence where the machine does not keep it), by commands as Portals promises.
//!
//! Budget of a put in place: no system call, no lock, no allocation; the peer's line of 64 bytes here, and its sleepers' word.

use std::ffi::c_int;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::Release};

use selvedge_transport::nic::NoMemory;
use selvedge_transport::nic::handle::NONE;
use selvedge_transport::nic::portals::operation::{Datatype, Operation};
use selvedge_transport::nic::portals::{EntrySpec, ack, list, options};
use selvedge_transport::nic::tables::{Command, Request, Side, kind};
use selvedge_transport::process::own_uid;
use selvedge_transport::{Interface, StartError, Symmetric};

use crate::hand::within;
use crate::{Call, Ctx, World, check};

/// Portal table entries.
const PORTAL_MEMORY: u32 = 0;
const PORTAL_DATA: u32 = 1;

/// Where something lies in the symmetric memory, by its offset: the static data's pages first, then the library's own
/// region, then the program's heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sym(pub u64);

/// Teams that there may be at once, and what each has of the library's region.
pub const TEAM_AREAS: usize = 64;
pub const TEAM_AREA_BYTES: u64 = 16384;
/// Where the words that tell each counter's reference lie in the library's region.
pub const COUNTER_TABLE: u64 = TEAM_AREAS as u64 * TEAM_AREA_BYTES;

/// Where the library's region starts: behind the pages of static data, of which there are as many at every PE.
static LIBRARY_AT: AtomicU64 = AtomicU64::new(0);

/// Where the symmetric memory begins in this process.
static ROOT: AtomicUsize = AtomicUsize::new(0);

/// Says where the library's region starts; once, before anything else.
pub(crate) fn place_library(at: u64) {
    LIBRARY_AT.store(at, Relaxed);
}

/// Says where the symmetric memory begins; once, before anything else.
pub(crate) fn place_root(at: usize) {
    ROOT.store(at, Relaxed);
}

/// A place in the library's own region.
#[inline(always)]
pub(crate) fn library(offset: u64) -> Sym {
    Sym(LIBRARY_AT.load(Relaxed) + offset)
}

/// The area of a team.
#[inline(always)]
pub fn team_area(id: usize) -> Sym {
    library(id as u64 * TEAM_AREA_BYTES)
}

/// Memory at a PE, as a command names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub pe: usize,
    pub portal: u32,
    pub offset: u64,
}

impl Spot {
    /// So many bytes further on.
    pub fn at(self, bytes: usize) -> Spot {
        Spot { offset: self.offset.wrapping_add(bytes as u64), ..self }
    }
}

/// How memory at a PE is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    InPlace(*mut u8),
    Nic(Spot),
}

/// A place in symmetric memory that was checked: the same at every PE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    portal: u32,
    /// This PE's own address of it.
    address: usize,
}

impl Place {
    /// A place of the library's own, which holds at least so many bytes.
    #[inline(always)]
    pub fn from(at: Sym, _bytes: usize) -> Place {
        Place { portal: PORTAL_MEMORY, address: ROOT.load(Relaxed).wrapping_add(at.0 as usize) }
    }

    /// So many bytes further on.
    #[inline(always)]
    pub fn at(self, bytes: usize) -> Place {
        Place { address: self.address.wrapping_add(bytes), ..self }
    }

    /// This PE's own copy.
    #[inline(always)]
    pub fn local(self) -> *mut u8 {
        self.address as *mut u8
    }
}

/// What this PE's NIC was given to serve and make commands.
pub(crate) struct Commands {
    memory: Range<u64>,
    data: Range<u64>,
    uid: u32,
}

impl Commands {
    /// Offers the symmetric memory and the static data.
    pub fn set_up(interface: &Interface, memory: &Symmetric, data: &Range<u64>) -> Result<Commands, &'static str> {
        let base = memory.base() as u64;
        let commands = Commands { memory: base..base + memory.range().reserved, data: data.clone(), uid: own_uid() };
        let mut guard = interface.lock();
        for portal in [PORTAL_MEMORY, PORTAL_DATA] {
            guard.portal_alloc(Some(portal), 0, NONE).map_err(|_| "the NIC has no portal table entry left")?;
        }
        drop(guard);
        commands.offer(interface, 0, NONE).ok_or("the NIC has no list entries left")?;
        Ok(commands)
    }

    /// Appends an entry for each kind of memory; `match_bits` 0 are those that do not count.
    pub fn offer(&self, interface: &Interface, match_bits: u64, counter: u32) -> Option<[u32; 2]> {
        let entry = |portal: u32, range: &Range<u64>| {
            let spec = EntrySpec {
                options: options::OP_PUT
                    | options::OP_GET
                    | options::NO_TRUNCATE
                    | options::EVENT_CT_COMM
                    | options::EVENT_LINK_DISABLE
                    | options::EVENT_UNLINK_DISABLE
                    | options::EVENT_COMM_DISABLE,
                start: range.start,
                length: range.end - range.start,
                iov: NONE,
                iov_count: 0,
                match_bits,
                ignore_bits: 0,
                source: 0,
                source_ignore: u64::MAX,
                min_free: 0,
                user_ptr: 0,
                counter,
                uid: self.uid,
            };
            interface.lock().append(&mut NoMemory, portal, list::PRIORITY, &spec).ok()
        };
        Some([entry(PORTAL_MEMORY, &self.memory)?, entry(PORTAL_DATA, &self.data)?])
    }
}

/// A command's remaining parts, beside who and where.
struct Order {
    kind: u8,
    operation: u8,
    datatype: u8,
    match_bits: u64,
    length: usize,
    operand: [u64; 4],
    source: *const u8,
    sink: *mut u8,
}

impl Order {
    fn new(kind: u8, length: usize) -> Order {
        Order {
            kind,
            operation: 0,
            datatype: 0,
            match_bits: 0,
            length,
            operand: [0; 4],
            source: std::ptr::null(),
            sink: std::ptr::null_mut(),
        }
    }
}

impl World {
    // ---- Finding -------------------------------------------------------------------------------------------------

    /// What a range of this PE's symmetric memory is.
    #[inline(always)]
    pub(crate) fn find(&self, address: *const u8, bytes: usize) -> Option<Place> {
        let address = address as usize;
        if within(address.wrapping_sub(self.heap_start), bytes, self.heap_bytes.load(Relaxed)) {
            return Some(Place { portal: PORTAL_MEMORY, address });
        }
        let inside = within(address.wrapping_sub(self.data.start), bytes, self.data.len());
        inside.then_some(Place { portal: PORTAL_DATA, address })
    }

    /// A range of symmetric memory, checked. None: it has been reported.
    #[inline(always)]
    pub fn sym(&self, call: Call, argument: &'static str, address: *const u8, bytes: usize) -> Option<Place> {
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
                let why = "reaches beyond the symmetric memory";
                check::refuse(call, argument, format_args!("{address:p}: a range of {bytes} bytes {why}"));
            }
        }
    }

    /// The world rank of a PE number of a context's team. None: it has been reported.
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
        let Some(team) = self.contexts.team(ctx) else {
            check::refuse(call, "ctx", format_args!("{:#x}: not a valid context", ctx.0));
            return None;
        };
        if pe < 0 || pe >= team.size {
            check::refuse(call, "pe", format_args!("{pe}: the context's team has {} PEs", team.size));
            return None;
        }
        Some(team.world_rank(pe))
    }

    /// How a range at a symmetric address is reached at a PE. None: it has been reported.
    pub fn reach(
        &self,
        call: Call,
        argument: &'static str,
        address: *const u8,
        bytes: usize,
        pe: usize,
    ) -> Option<Reach> {
        let place = self.sym(call, argument, address, bytes)?;
        Some(self.reach_place(place, pe))
    }

    /// How a checked place is reached at a PE.
    #[inline(always)]
    pub(crate) fn reach_place(&self, place: Place, pe: usize) -> Reach {
        let in_memory = place.portal == PORTAL_MEMORY;
        let here = self.in_place && (in_memory || self.data_in_place);
        if here && (self.routes[pe].window.get().is_some() || self.attach(pe).is_some()) {
            let shift = if in_memory { &self.peers[pe].heap_shift } else { &self.peers[pe].data_shift };
            return Reach::InPlace(place.address.wrapping_add(shift.load(Relaxed)) as *mut u8);
        }
        let start = if in_memory { self.root } else { self.data.start };
        Reach::Nic(Spot { pe, portal: place.portal, offset: place.address.wrapping_sub(start) as u64 })
    }

    /// A PE's object in this PE's address space, or null.
    pub(crate) fn pointer(&self, address: *const u8, pe: usize) -> *mut u8 {
        match self.find(address, 0).map(|place| (place, self.reach_place(place, pe))) {
            Some((_, Reach::InPlace(at))) => at,
            // One's own memory is always at hand.
            Some((place, _)) if pe == self.me() => place.local(),
            _ => std::ptr::null_mut(),
        }
    }

    // ---- The library's own words ---------------------------------------------------------------------------------

    /// A place of the library's own.
    #[inline(always)]
    pub fn place(&self, at: Sym) -> Place {
        Place::from(at, 0)
    }

    /// The library's own place at a PE as it is mapped here; only where memory is reached in place.
    pub fn mapped(&self, pe: usize, at: Sym) -> *mut u8 {
        match self.reach_place(Place::from(at, 0), pe) {
            Reach::InPlace(at) => at,
            Reach::Nic(_) => unreachable!("asked for in a job whose memory is not reached in place"),
        }
    }

    /// This PE's own copy.
    #[inline(always)]
    pub fn local(&self, at: Sym) -> *mut u8 {
        Place::from(at, 0).local()
    }

    /// This PE's own copy of a word, to be polled.
    #[inline(always)]
    pub fn word(&self, word: Sym) -> &AtomicU64 {
        // SAFETY: in the library's region, which is committed at the start, and aligned.
        unsafe { &*self.local(word).cast::<AtomicU64>() }
    }

    /// Copies to a PE. Returns when `from` may be reused.
    #[inline(always)]
    pub fn put(&self, pe: usize, to: Place, from: *const u8, bytes: usize) {
        match self.reach_place(to, pe) {
            // SAFETY: checked places on both sides; the caller vouches for `from`.
            Reach::InPlace(at) => unsafe { std::ptr::copy(from, at, bytes) },
            // SAFETY: as above.
            Reach::Nic(spot) => unsafe { self.nic_put(Ctx::DEFAULT, spot, from, bytes) },
        }
    }

    /// Copies from a PE. Complete on return.
    #[inline(always)]
    pub fn get(&self, pe: usize, from: Place, to: *mut u8, bytes: usize) {
        match self.reach_place(from, pe) {
            // SAFETY: checked places on both sides; the caller vouches for `to`.
            Reach::InPlace(at) => unsafe { std::ptr::copy(at, to, bytes) },
            // SAFETY: as above.
            Reach::Nic(spot) => unsafe { self.nic_get(Ctx::DEFAULT, spot, to, bytes) },
        }
    }

    /// Stores a word at a PE, after everything that this PE put there before, and wakes it.
    #[inline(always)]
    pub fn store(&self, pe: usize, word: Sym, value: u64) {
        match self.reach_place(Place::from(word, 8), pe) {
            Reach::InPlace(at) => {
                // SAFETY: a word of the library's region at a peer.
                unsafe { &*at.cast::<AtomicU64>() }.store(value, Release);
                self.ring(pe);
            }
            // SAFETY: the value lives until the call returns.
            Reach::Nic(spot) => unsafe { self.nic_put(Ctx::DEFAULT, spot, (&raw const value).cast(), 8) },
        }
    }

    /// Adds to a word at a PE, after everything that this PE put there before, and wakes it.
    #[inline(always)]
    pub fn add(&self, pe: usize, word: Sym, value: u64) {
        match self.reach_place(Place::from(word, 8), pe) {
            Reach::InPlace(at) => {
                // SAFETY: as for `store`.
                unsafe { &*at.cast::<AtomicU64>() }.fetch_add(value, std::sync::atomic::Ordering::AcqRel);
                self.ring(pe);
            }
            Reach::Nic(spot) => {
                let operand = (&raw const value).cast();
                // SAFETY: as for `store`.
                unsafe { self.nic_atomic(Ctx::DEFAULT, spot, Operation::Sum, Datatype::Uint64, operand) }
            }
        }
    }

    /// Adds to a word at a PE and gives what it was.
    #[inline(always)]
    pub fn fetch_add(&self, pe: usize, word: Sym, value: u64) -> u64 {
        match self.reach_place(Place::from(word, 8), pe) {
            Reach::InPlace(at) => {
                // SAFETY: as for `store`.
                let before = unsafe { &*at.cast::<AtomicU64>() }.fetch_add(value, std::sync::atomic::Ordering::AcqRel);
                self.ring(pe);
                before
            }
            Reach::Nic(spot) => {
                let mut before = 0u64;
                let (operand, into) = ((&raw const value).cast(), (&raw mut before).cast());
                // SAFETY: both live until the call returns.
                unsafe {
                    let (sum, word) = (Operation::Sum, Datatype::Uint64);
                    self.nic_fetch(Ctx::DEFAULT, spot, sum, word, operand, std::ptr::null(), into);
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
    pub unsafe fn nic_put(&self, ctx: Ctx, spot: Spot, from: *const u8, bytes: usize) {
        self.issue(ctx, spot, &Order { source: from, ..Order::new(kind::PUT, bytes) });
    }

    /// Puts by a command that counts at the target.
    ///
    /// # Safety
    /// As for [`World::nic_put`].
    pub(crate) unsafe fn nic_put_counting(&self, ctx: Ctx, spot: Spot, bits: u64, from: *const u8, bytes: usize) {
        self.issue(ctx, spot, &Order { source: from, match_bits: bits, ..Order::new(kind::PUT, bytes) });
    }

    /// Gets by a command. Complete on return.
    ///
    /// # Safety
    /// `into` can be written for `bytes`. The context is valid.
    pub unsafe fn nic_get(&self, ctx: Ctx, spot: Spot, into: *mut u8, bytes: usize) {
        // SAFETY: the caller's; `into` is not used after the quiet.
        unsafe { self.nic_get_counting(ctx, spot, 0, into, bytes) };
    }

    /// Gets by a command that counts at the source. Complete on return.
    ///
    /// # Safety
    /// As for [`World::nic_get`].
    pub(crate) unsafe fn nic_get_counting(&self, ctx: Ctx, spot: Spot, bits: u64, into: *mut u8, bytes: usize) {
        self.issue(ctx, spot, &Order { sink: into, match_bits: bits, ..Order::new(kind::GET, bytes) });
        self.contexts.quiet(self.interface, ctx);
    }

    /// An atomic without a result.
    ///
    /// # Safety
    /// `operand` points to an element of the datatype. The context is valid.
    pub unsafe fn nic_atomic(
        &self,
        ctx: Ctx,
        spot: Spot,
        operation: Operation,
        datatype: Datatype,
        operand: *const u8,
    ) {
        let order = Order {
            operation: operation as u8,
            datatype: datatype as u8,
            source: operand,
            ..Order::new(kind::ATOMIC, datatype.size_bytes())
        };
        self.issue(ctx, spot, &order);
    }

    /// An atomic that gives what was there. `compare` is read for conditional swaps only. Complete on return.
    ///
    /// # Safety
    /// All three point to an element of the datatype, `compare` where it is read. The context is valid.
    pub unsafe fn nic_fetch(
        &self,
        ctx: Ctx,
        spot: Spot,
        operation: Operation,
        datatype: Datatype,
        operand: *const u8,
        compare: *const u8,
        into: *mut u8,
    ) {
        let bytes = datatype.size_bytes();
        let swaps = operation as u8 >= Operation::Swap as u8;
        let mut order = Order {
            operation: operation as u8,
            datatype: datatype as u8,
            source: operand,
            sink: into,
            ..Order::new(if swaps { kind::SWAP } else { kind::FETCH_ATOMIC }, bytes)
        };
        if swaps && !compare.is_null() {
            // SAFETY: the caller's; no element is longer than the four words.
            unsafe { std::ptr::copy_nonoverlapping(compare, order.operand.as_mut_ptr().cast(), bytes.min(32)) };
        }
        self.issue(ctx, spot, &order);
        self.contexts.quiet(self.interface, ctx);
    }

    /// Starts a command; the context counts its end.
    fn issue(&self, ctx: Ctx, spot: Spot, order: &Order) {
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
        let replies = !matches!(order.kind, kind::PUT | kind::ATOMIC);
        let source = side(order.source as u64, if replies { 0 } else { options::MD_EVENT_CT_ACK });
        let command = Command {
            request: Request {
                kind: order.kind,
                operation: order.operation,
                datatype: order.datatype,
                ack: if replies { ack::NONE } else { ack::COUNTING },
                portal: spot.portal,
                uid: self.commands.uid,
                reserved: 0,
                initiator: self.interface.id(),
                match_bits: order.match_bits,
                remote_offset: spot.offset,
                header_data: 0,
                length: order.length as u64,
                operand: order.operand,
            },
            target: self.routes[spot.pe].id,
            user_ptr: 0,
            source: if order.kind == kind::GET { Side::NOWHERE } else { source },
            sink: if replies { side(order.sink as u64, options::MD_EVENT_CT_REPLY) } else { Side::NOWHERE },
        };
        loop {
            match self.interface.start(&command) {
                Ok(()) => return,
                Err(StartError::NoSpace) => {
                    self.interface.poll();
                    std::thread::yield_now();
                }
                Err(StartError::Memory) => {
                    self.contexts.undo(ctx);
                    check::report(format_args!("memory of an operation on PE {} is not mapped", spot.pe));
                    return;
                }
            }
        }
    }
}
