// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that peers read: payloads of this process that it exposes, and reads of theirs.
//!
//! Invariants
//! 1. A payload is kept, unchanged, until it is withdrawn; the memory that a read writes to, until its completion.
//! 2. Keys are random where the provider lets us choose: who knows one of a peer's cannot guess the next.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;

use selvedge_libfabric::*;

use super::{Destination, Endpoint, SendError, close};
use crate::payload::{Payload, ReadBuffer};

/// Memory of a peer that this process may read, from an address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable {
    pub address: u64,
    pub key: u64,
}

/// A payload that peers may read, by its number.
#[derive(Debug)]
pub struct Exposed(usize);

/// Memory that libfabric uses, with its registration where there is one.
pub(super) struct Registered<M> {
    pub(super) memory: M,
    pub(super) region: *mut fid_mr,
}

/// A read of a peer's memory that is under way.
pub(super) struct Reading {
    tag: u64,
    /// The memory that libfabric needs for the operation.
    _context: Box<fi_context2>,
    pub(super) into: Registered<ReadBuffer>,
}

impl Endpoint {
    /// Registers memory that the provider uses. It stays until the region is closed.
    pub(super) fn register(&self, start: *const u8, bytes: usize, access: u32) -> Result<*mut fid_mr, c_int> {
        let access = u64::from(access);
        let mut region = ptr::null_mut();
        // SAFETY: the structure is open until the drop.
        let key_bytes = unsafe { (*(*self.info).domain_attr).mr_key_size };
        // A provider that chooses keys itself ignores it. Otherwise who knows one key of a peer's must not guess the next.
        let mut key = [0; 8];
        crate::links::fill_random(&mut key[..key_bytes.clamp(1, 8)]).map_err(|_| -(FI_EAGAIN as c_int))?;
        let key = u64::from_le_bytes(key);
        // SAFETY: the domain is open, and there is room for the result.
        let made = unsafe {
            let ops = (*self.domain).mr;
            let domain = &raw mut (*self.domain).fid;
            call!((*ops).reg, domain, start.cast(), bytes, access, 0, key, 0, &mut region, ptr::null_mut())
        };
        if made == 0 { Ok(region) } else { Err(made) }
    }

    /// Registers memory of this process for its own operations, where the provider wants that; else null.
    pub(super) fn register_local(&self, start: *const u8, bytes: usize, access: u32) -> Result<*mut fid_mr, c_int> {
        // SAFETY: the structure is open until the drop.
        let is_wanted = unsafe { (*(*self.info).domain_attr).mr_mode } & FI_MR_LOCAL as c_int != 0;
        if is_wanted { self.register(start, bytes, access) } else { Ok(ptr::null_mut()) }
    }

    /// Whether peers can read memory that this endpoint exposes, and this one theirs.
    pub fn can_read(&self) -> bool {
        let needed = u64::from(FI_RMA) | u64::from(FI_READ) | u64::from(FI_REMOTE_READ);
        // SAFETY: the structure is open until the drop.
        let (caps, key_bytes) = unsafe { ((*self.info).caps, (*(*self.info).domain_attr).mr_key_size) };
        caps & needed == needed && key_bytes <= size_of::<u64>()
    }

    /// Lets peers read a payload until [`Endpoint::withdraw`]. None: the provider refuses it.
    pub fn expose(&mut self, payload: &Payload) -> Option<(Exposed, Readable)> {
        if self.refusals.next() {
            return None;
        }
        let bytes = payload.bytes();
        let region = match self.register(bytes.as_ptr(), bytes.len(), FI_REMOTE_READ) {
            Ok(region) => region,
            Err(code) => {
                log::debug!("libfabric does not expose memory to peers: {}", self.library.error_text(code));
                return None;
            }
        };
        // SAFETY: the region is open, and the structure, too.
        let (key, mode) = unsafe { ((*region).key, (*(*self.info).domain_attr).mr_mode) };
        let is_virtual = mode & FI_MR_VIRT_ADDR as c_int != 0;
        let address = if is_virtual { bytes.as_ptr() as u64 } else { 0 };
        let exposed = Some(Registered { memory: payload.clone(), region });
        let number = self.exposed.iter().position(Option::is_none).unwrap_or(self.exposed.len());
        match self.exposed.get_mut(number) {
            Some(place) => *place = exposed,
            None => self.exposed.push(exposed),
        }
        Some((Exposed(number), Readable { address, key }))
    }

    /// Ends that.
    pub fn withdraw(&mut self, Exposed(number): Exposed) {
        drop(self.exposed[number].take().map(Registered::close));
    }

    /// Reads memory of a peer into a part of a buffer, which it keeps until [`Event::Read`](super::Event::Read) has the tag.
    pub fn read(
        &mut self,
        (into, part): (&ReadBuffer, Range<usize>),
        from: Destination,
        at: Readable,
        tag: u64,
    ) -> Result<(), SendError> {
        let (start, bytes) = (into.part(&part), part.len());
        let region = self.register_local(start, bytes, FI_READ).map_err(|code| self.broken(-code))?;
        let mut kept = Box::<fi_context2>::default();
        let context: *mut c_void = ptr::from_mut(&mut *kept).cast();
        // SAFETY: the context stays, and the memory, which `reads` keeps, until the completion (invariants 1 and 2).
        let result = unsafe {
            let descriptor = descriptor_of(region);
            let ops = (*self.endpoint).rma;
            call!((*ops).read, self.endpoint, start.cast(), bytes, descriptor, from.0, at.address, at.key, context)
        };
        let into = Registered { memory: into.clone(), region };
        if result != 0 {
            drop(into.close());
            let is_full = result == -(FI_EAGAIN as isize);
            return Err(if is_full { SendError::Full } else { self.broken(-result as c_int) });
        }
        self.reads.insert(context as usize, Reading { tag, _context: kept, into });
        Ok(())
    }

    /// Frees what a read has used that has this context. Returns its tag; None: it is none of a read.
    pub(super) fn end_read(&mut self, context: *mut c_void) -> Option<u64> {
        let Reading { tag, into, .. } = self.reads.remove(&(context as usize))?;
        drop(into.close());
        Some(tag)
    }
}

impl<M> Registered<M> {
    /// Ends the registration, and returns the memory.
    pub(super) fn close(self) -> M {
        // SAFETY: null, or a region that was opened for this memory.
        unsafe { close(self.region.cast()) };
        self.memory
    }
}

/// What libfabric wants with memory of a region; null without one.
///
/// # Safety
/// `region` is null or open.
pub(super) unsafe fn descriptor_of(region: *mut fid_mr) -> *mut c_void {
    // SAFETY: the caller's.
    if region.is_null() { ptr::null_mut() } else { unsafe { (*region).mem_desc } }
}
