// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that peers read: payloads of this process that it exposes, and reads of theirs.
//!
//! Invariants
//! 1. A payload is kept, unchanged, until it is withdrawn; the memory that a read writes to, until its completion.
//! 2. Keys are random where the provider lets us choose: a peer that knows one cannot guess the next.
//! 3. Before libfabric touches memory of the program, it is checked ([`ProgramMemory`]).

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;

use selvedge_libfabric::*;
use selvedge_os::memory;

use super::call::{call, close};
use super::errors::SubmitError;
use super::objects::{Destination, Objects};
use crate::faults::Refusals;
use crate::payload::{Payload, ReadBuffer, Readable};

/// Memory that libfabric uses, with its registration if it has one. The drop ends the registration, then frees the
/// memory.
pub(super) struct Registered<M> {
    _memory: M,
    region: *mut fid_mr,
}

impl<M> Registered<M> {
    /// `region` is null, or the registration of `memory`.
    pub(super) fn new(memory: M, region: *mut fid_mr) -> Registered<M> {
        Registered { _memory: memory, region }
    }

    /// Returns the descriptor that libfabric needs with this memory; null without a registration.
    pub(super) fn descriptor(&self) -> *mut c_void {
        // SAFETY: null, or open until the drop.
        unsafe { self.region.as_ref().map_or(ptr::null_mut(), |region| region.mem_desc) }
    }
}

impl<M> Drop for Registered<M> {
    fn drop(&mut self) {
        // SAFETY: null, or a region that was opened for this memory and is closed once.
        unsafe { close(self.region.cast()) };
    }
}

/// Memory of the program that a provider accesses later, in its calls. The program may unmap it meanwhile. Then a
/// provider over TCP would crash, or stop in the middle of a message: its connection has no next message then, or a wrong
/// one. So the memory is checked when it is given to libfabric, and before polls. Then holes are filled with zeros. A
/// provider that pins memory needs no check.
///
/// Cost of a check: a system call for each range.
#[derive(Default)]
pub(super) struct ProgramMemory {
    ranges: Vec<Range<u64>>,
    /// The uses of each range. One is enough to tell that it was unmapped.
    uses: Vec<Vec<u64>>,
}

impl ProgramMemory {
    fn add(&mut self, start: *const u8, bytes: usize, user: u64) {
        let range = start as u64..start as u64 + bytes as u64;
        match self.ranges.iter().position(|known| *known == range) {
            Some(at) => self.uses[at].push(user),
            None => {
                self.ranges.push(range);
                self.uses.push(vec![user]);
            }
        }
    }

    fn remove(&mut self, user: u64) {
        let used = |uses: &Vec<u64>| uses.iter().position(|known| *known == user);
        let Some((at, index)) = self.uses.iter().enumerate().find_map(|(at, uses)| Some((at, used(uses)?))) else {
            return;
        };
        self.uses[at].swap_remove(index);
        if self.uses[at].is_empty() {
            self.ranges.swap_remove(at);
            self.uses.swap_remove(at);
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Fills the holes that the program has made. `found` gets a use of each range that has one.
    #[inline]
    pub(super) fn check(&self, mut found: impl FnMut(u64)) {
        for (range, uses) in self.ranges.iter().zip(&self.uses) {
            let bytes = range.end - range.start;
            if !memory::mapped(range.start, bytes) {
                if !memory::fill_holes(range.start, bytes) {
                    log::error!("the kernel maps nothing where the program has unmapped memory of a message");
                }
                found(uses[0]);
            }
        }
    }
}

/// The number of a payload that peers may read.
#[derive(Debug, PartialEq, Eq)]
pub struct Exposed(pub(super) usize);

#[derive(Default)]
pub(super) struct ExposedPayloads {
    payloads: Vec<Option<Registered<Payload>>>,
    /// Payloads in memory of the program, by number.
    pub(super) program: ProgramMemory,
    /// Refuses payloads, in tests.
    pub(super) refusals: Refusals,
}

impl ExposedPayloads {
    /// Lets peers read a payload until [`ExposedPayloads::withdraw`]. None: the provider refuses it, or the program has
    /// unmapped it.
    pub(super) fn expose(&mut self, objects: &Objects, payload: &Payload) -> Option<(Exposed, Readable)> {
        if self.refusals.next() {
            return None;
        }
        let (start, bytes) = (payload.start(), payload.length());
        let is_checked = matches!(payload, Payload::Lent(_)) && !objects.pins_memory();
        if is_checked && !memory::mapped(start as u64, bytes as u64) {
            return None;
        }
        let region = match objects.register(start, bytes, FI_REMOTE_READ) {
            Ok(region) => region,
            Err(code) => {
                log::debug!("libfabric does not expose memory to peers: {}", objects.error_text(code));
                return None;
            }
        };
        // SAFETY: the region is open.
        let key = unsafe { (*region).key };
        let address = if objects.has_virtual_addresses() { start as u64 } else { 0 };
        let exposed = Some(Registered::new(payload.clone(), region));
        let number = self.payloads.iter().position(Option::is_none).unwrap_or(self.payloads.len());
        match self.payloads.get_mut(number) {
            Some(place) => *place = exposed,
            None => self.payloads.push(exposed),
        }
        if is_checked {
            self.program.add(start, bytes, number as u64);
        }
        Some((Exposed(number), Readable { address, key }))
    }

    pub(super) fn withdraw(&mut self, Exposed(number): Exposed) {
        self.payloads[number] = None;
        self.program.remove(number as u64);
    }
}

struct Reading {
    tag: u64,
    _context: Box<fi_context2>,
    _into: Registered<ReadBuffer>,
}

#[derive(Default)]
pub(super) struct ReadsInFlight {
    /// By the address of their context.
    reads: HashMap<usize, Reading>,
    /// Memory of the program that reads in flight write to, by their tags.
    pub(super) program: ProgramMemory,
}

impl ReadsInFlight {
    /// Reads memory of a peer into a part of a buffer, which is kept until [`ReadsInFlight::end`].
    pub(super) fn start(
        &mut self,
        objects: &Objects,
        (into, part): (&ReadBuffer, Range<usize>),
        from: Destination,
        at: Readable,
        tag: u64,
    ) -> Result<(), SubmitError> {
        let (start, bytes) = (into.part(&part), part.len());
        let is_checked = into.is_program() && !objects.pins_memory();
        if is_checked && !memory::mapped(into.part(&(0..0)) as u64, into.bytes_max() as u64) {
            return Err(SubmitError::Unmapped);
        }
        let region = objects.register_local(start, bytes, FI_READ);
        let region = region.map_err(|code| SubmitError::Broken(objects.error_text(code)))?;
        let memory = Registered::new(into.clone(), region);
        let mut kept = Box::<fi_context2>::default();
        let context: *mut c_void = ptr::from_mut(&mut *kept).cast();
        // SAFETY: the context stays, and the memory, which `reads` keeps, until the completion.
        let result = unsafe {
            let (endpoint, descriptor) = (objects.endpoint, memory.descriptor());
            let ops = (*endpoint).rma;
            call!((*ops).read, endpoint, start.cast(), bytes, descriptor, from.0, at.address, at.key, context)
        };
        if result != 0 {
            return Err(objects.submit_error(-result as c_int));
        }
        if is_checked {
            self.program.add(into.part(&(0..0)), into.bytes_max(), tag);
        }
        self.reads.insert(context as usize, Reading { tag, _context: kept, _into: memory });
        Ok(())
    }

    /// Frees the context and buffer of the read with this context. Returns its tag; None if the context belongs to no
    /// read.
    pub(super) fn end(&mut self, context: *mut c_void) -> Option<u64> {
        let tag = self.reads.remove(&(context as usize))?.tag;
        self.program.remove(tag);
        Some(tag)
    }
}
