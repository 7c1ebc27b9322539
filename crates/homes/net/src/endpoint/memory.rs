// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Memory that peers read: payloads of this process that it exposes, and reads of theirs.
//!
//! Invariants
//! 1. A payload is kept, unchanged, until it is withdrawn; the memory that a read writes to, until its completion.
//! 2. Keys are random where the provider lets us choose: a peer that knows one cannot guess the next.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;

use selvedge_libfabric::*;

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

/// The number of a payload that peers may read.
#[derive(Debug)]
pub struct Exposed(usize);

#[derive(Default)]
pub(super) struct ExposedPayloads {
    payloads: Vec<Option<Registered<Payload>>>,
    /// Refuses payloads, in tests.
    pub(super) refusals: Refusals,
}

impl ExposedPayloads {
    /// Lets peers read a payload until [`ExposedPayloads::withdraw`]. None: the provider refuses it.
    pub(super) fn expose(&mut self, objects: &Objects, payload: &Payload) -> Option<(Exposed, Readable)> {
        if self.refusals.next() {
            return None;
        }
        let bytes = payload.bytes();
        let region = match objects.register(bytes.as_ptr(), bytes.len(), FI_REMOTE_READ) {
            Ok(region) => region,
            Err(code) => {
                log::debug!("libfabric does not expose memory to peers: {}", objects.error_text(code));
                return None;
            }
        };
        // SAFETY: the region is open.
        let key = unsafe { (*region).key };
        let address = if objects.has_virtual_addresses() { bytes.as_ptr() as u64 } else { 0 };
        let exposed = Some(Registered::new(payload.clone(), region));
        let number = self.payloads.iter().position(Option::is_none).unwrap_or(self.payloads.len());
        match self.payloads.get_mut(number) {
            Some(place) => *place = exposed,
            None => self.payloads.push(exposed),
        }
        Some((Exposed(number), Readable { address, key }))
    }

    pub(super) fn withdraw(&mut self, Exposed(number): Exposed) {
        self.payloads[number] = None;
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
        self.reads.insert(context as usize, Reading { tag, _context: kept, _into: memory });
        Ok(())
    }

    /// Frees the context and buffer of the read with this context. Returns its tag; None if the context belongs to no
    /// read.
    pub(super) fn end(&mut self, context: *mut c_void) -> Option<u64> {
        self.reads.remove(&(context as usize)).map(|reading| reading.tag)
    }
}
