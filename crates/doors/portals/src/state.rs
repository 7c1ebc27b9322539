// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The open interfaces of this process, and handles.
//!
//! A handle is 32 bits: kind (3), interface (2), reference to the NIC's record (27); the layout is Selvedge's own
//! (Portals 4.3, "Operations on Handles"). A process has at most one interface of each of four kinds. The number of an
//! interface is its kind: bit 0 is set for non-matching, bit 1 for physical.
//!
//! Invariants
//! 1. A slot is null, or points to an [`Ni`] that lives until its last `PtlNIFini`, which first ends threads' waits.
//! 2. No live handle equals a constant of the API (see `selvedge_nic::handle`).

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

use selvedge_os::sync::IgnorePoison;
use selvedge_process::nic::handle::NONE;
use selvedge_process::{Interface, Opened};

use crate::abi::{self, CT_NONE, EQ_NONE, NiLimits, Process};
use crate::codes::{Code, Outcome};
use crate::route_cache::RouteCache;

/// The kind of object that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    Ni = 0,
    Eq = 1,
    Ct = 2,
    Md = 3,
    Le = 4,
    Me = 5,
}

/// The part of a handle that is a reference to the NIC's record.
pub const REFERENCE: u32 = 0x07ff_ffff;

/// Interfaces that a process can have open at once.
pub const INTERFACES: usize = 4;

/// An open interface.
pub struct Ni {
    pub opened: Opened,
    pub number: u32,
    pub logical: bool,
    pub matching: bool,
    pub limits: NiLimits,
    pub uid: u32,
    /// Calls of `PtlNIInit` not yet matched by a `PtlNIFini`.
    pub openings: AtomicU32,
    /// The logical map, from rank to nid << 32 | pid.
    map: AtomicPtr<Vec<u64>>,
    /// Every map that was set. A replaced map is kept, because another thread may still read it.
    maps: Mutex<Vec<*mut Vec<u64>>>,
    rank: AtomicU32,
    pub routes: RouteCache,
}

static SLOTS: [AtomicPtr<Ni>; INTERFACES] = [const { AtomicPtr::new(std::ptr::null_mut()) }; INTERFACES];
static INITS: AtomicU32 = AtomicU32::new(0);
/// Held while an interface is opened or closed.
static OPENINGS: Mutex<()> = Mutex::new(());

/// Lets one thread at a time open and close interfaces.
pub fn lock_openings() -> MutexGuard<'static, ()> {
    OPENINGS.lock().ignore_poison()
}

/// Calls of `PtlInit` not yet matched by a `PtlFini`.
pub fn inits() -> &'static AtomicU32 {
    &INITS
}

/// Refuses calls before `PtlInit`.
#[inline(always)]
pub fn initialised() -> Outcome {
    if INITS.load(Relaxed) == 0 { Err(Code::NoInit) } else { Ok(()) }
}

/// The open interface with this number.
#[inline(always)]
pub fn open_interface(number: u32) -> Option<&'static Ni> {
    // SAFETY: null, or an interface from `publish`, which lives until `withdraw`. The API forbids a program to close an interface
    // while another thread uses it; waits are the exception, and `PtlNIFini` ends them before it withdraws the interface.
    unsafe { SLOTS[number as usize % INTERFACES].load(Acquire).as_ref() }
}

/// Stores an interface in its slot, where [`open_interface`] finds it.
pub fn publish(ni: Box<Ni>) -> &'static Ni {
    let number = ni.number as usize;
    let pointer = Box::into_raw(ni);
    SLOTS[number].store(pointer, SeqCst);
    // SAFETY: made from a box just above; it lives until `withdraw`.
    unsafe { &*pointer }
}

/// Takes an interface out of its slot.
pub fn withdraw(number: u32) -> Option<Box<Ni>> {
    let pointer = SLOTS[number as usize % INTERFACES].swap(std::ptr::null_mut(), SeqCst);
    // SAFETY: `publish` made the pointer from a box, and the swap lets one caller only have it back.
    (!pointer.is_null()).then(|| unsafe { Box::from_raw(pointer) })
}

/// The interface of a handle of this kind, and the reference in it.
#[inline(always)]
pub fn find(handle: u32, kind: Kind) -> Outcome<(&'static Ni, u32)> {
    initialised()?;
    if handle >> 29 != kind as u32 {
        return Err(Code::ArgInvalid);
    }
    let ni = open_interface(handle >> 27 & 3).ok_or(Code::ArgInvalid)?;
    Ok((ni, handle & REFERENCE))
}

/// The interface that an interface handle names.
#[inline]
pub fn find_ni(handle: u32) -> Outcome<&'static Ni> {
    let (ni, reference) = find(handle, Kind::Ni)?;
    if reference == 0 { Ok(ni) } else { Err(Code::ArgInvalid) }
}

impl Ni {
    pub fn new(opened: Opened, number: u32, logical: bool, matching: bool, limits: NiLimits, uid: u32) -> Ni {
        Ni {
            opened,
            number,
            logical,
            matching,
            limits,
            uid,
            openings: AtomicU32::new(1),
            map: AtomicPtr::default(),
            maps: Mutex::new(Vec::new()),
            rank: AtomicU32::new(abi::RANK_ANY),
            routes: RouteCache::default(),
        }
    }

    /// The NIC.
    #[inline(always)]
    pub fn interface(&self) -> &Interface {
        &self.opened.interface
    }

    /// A handle of this interface.
    pub fn handle(&self, kind: Kind, reference: u32) -> u32 {
        (kind as u32) << 29 | self.number << 27 | reference
    }

    /// The reference of a handle that must be of this interface; `none` is the constant that means no object.
    pub fn reference(&self, handle: u32, kind: Kind, none: Option<u32>) -> Outcome<u32> {
        if Some(handle) == none {
            return Ok(NONE);
        }
        let (ni, reference) = find(handle, kind)?;
        if ni.number == self.number { Ok(reference) } else { Err(Code::ArgInvalid) }
    }

    /// The reference of a live event queue of this interface, or NONE for no queue.
    pub fn queue(&self, handle: u32) -> Outcome<u32> {
        let reference = self.reference(handle, Kind::Eq, Some(EQ_NONE))?;
        let live = reference == NONE || self.interface().signals().queue(reference).is_some();
        if live { Ok(reference) } else { Err(Code::ArgInvalid) }
    }

    /// The reference of a live counter of this interface, or NONE for no counter.
    pub fn counter(&self, handle: u32) -> Outcome<u32> {
        let reference = self.reference(handle, Kind::Ct, Some(CT_NONE))?;
        let live = reference == NONE || self.interface().signals().counter(reference).is_some();
        if live { Ok(reference) } else { Err(Code::ArgInvalid) }
    }

    /// The address of a target: nid << 32 | pid.
    #[inline(always)]
    pub fn physical(&self, target: Process) -> Outcome<u64> {
        let id = match self.logical {
            false if target.pid > abi::PID_MAX => return Err(Code::ArgInvalid),
            false => u64::from(target.nid) << 32 | u64::from(target.pid),
            true => self.map().and_then(|map| map.get(target.nid as usize)).copied().ok_or(Code::ArgInvalid)?,
        };
        // The thread that carries a triggered operation out may not query the launcher.
        self.interface().resolve_remote(id);
        Ok(id)
    }

    /// The id of this process as an initiator: its rank, or nid << 32 | pid.
    #[inline(always)]
    pub fn initiator_id(&self) -> u64 {
        if self.logical { self.rank.load(Relaxed).into() } else { self.interface().id() }
    }

    /// A process as the C API names it.
    pub fn process(&self, id: u64) -> Process {
        if self.logical {
            Process { nid: id as u32, pid: 0 }
        } else {
            Process { nid: (id >> 32) as u32, pid: id as u32 }
        }
    }

    /// The logical map's address, which identifies it; null if none was set.
    #[inline(always)]
    pub fn map_pointer(&self) -> *const Vec<u64> {
        self.map.load(Acquire)
    }

    /// The logical map, if one was set.
    #[inline(always)]
    pub fn map(&self) -> Option<&Vec<u64>> {
        // SAFETY: null, or a map of `maps`, which keeps every map until the interface is dropped.
        unsafe { self.map.load(Acquire).as_ref() }
    }

    /// Sets the logical map; this process must be in it.
    pub fn set_map(&self, map: Vec<u64>) -> Outcome {
        let own = self.interface().id();
        let rank = map.iter().position(|&id| id == own).ok_or(Code::ArgInvalid)?;
        let pointer = Box::into_raw(Box::new(map));
        self.maps.lock().ignore_poison().push(pointer);
        self.map.store(pointer, SeqCst);
        self.rank.store(rank as u32, SeqCst);
        Ok(())
    }
}

impl Drop for Ni {
    fn drop(&mut self) {
        for map in self.maps.get_mut().ignore_poison().drain(..) {
            // SAFETY: `set_map` made the pointer from a box and put it into `maps` once; draining takes it out once.
            drop(unsafe { Box::from_raw(map) });
        }
    }
}

// SAFETY: the raw pointers are to maps on the heap, which belong to no thread.
unsafe impl Send for Ni {}
// SAFETY: a map is only read after `set_map` has stored its pointer with release; the list of maps is under its mutex.
unsafe impl Sync for Ni {}

/// The object that an out-parameter points to.
pub fn out<'a, T>(pointer: *mut T) -> Outcome<&'a mut T> {
    // SAFETY: null, or the C object that the call's clause says is written with the result. It outlives the call, and no other
    // thread uses it meanwhile: only such arguments of a running call come here.
    unsafe { pointer.as_mut() }.ok_or(Code::ArgInvalid)
}

/// Limits the length of a range to the end of the address space.
pub fn within_addresses(start: u64, length: u64) -> u64 {
    length.min(u64::MAX - start)
}

/// The object that an in-parameter points to.
pub fn input<'a, T>(pointer: *const T) -> Outcome<&'a T> {
    // SAFETY: null, or the C structure that the call's clause says is read. It outlives the call, and is not changed
    // meanwhile: only such arguments of a running call come here.
    unsafe { pointer.as_ref() }.ok_or(Code::ArgInvalid)
}
