// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One reliable-datagram endpoint of libfabric, with its buffers: the only module of this crate that calls libfabric.
//!
//! | file | has |
//! |---|---|
//! | [`errors`], `call` | errors; calls of libfabric's tables of functions |
//! | [`provider`], [`objects`] | the choice of a provider; the objects of libfabric, opened and closed |
//! | [`slots`], [`memory`] | the buffers of frames; memory that peers read |
//! | this one | frames: sent, received, completed |
//!
//! The provider must have `FI_EP_RDM` and `FI_MSG` and keep the order of sends (`FI_ORDER_SAS`). Selvedge's own
//! provider is never chosen, whatever the environment says, so a link never runs over itself.
//!
//! Invariants
//! 1. libfabric owns a buffer from `send` or `post` until its completion. Then the holder of its [`ReceivedFrame`] or
//!    the caller of [`Endpoint::take_buffer`] owns it. `owners` records the owner, and only the owner touches the
//!    bytes. The tail of a frame and the memory of a read are kept until the completion too.
//! 2. Buffers never move: they are in one allocation that lives longer than the endpoint.
//! 3. One thread at a time calls an endpoint (`FI_THREAD_DOMAIN`).
//!
//! Cost: [`RECEIVE_BUFFERS`] buffers of [`LONG_FRAME_BYTES_MAX`] bytes, which occupy memory only where frames have
//! arrived, and [`SEND_BUFFERS`] of [`FRAME_BYTES_MAX`] bytes: 1.5 MiB while frames are short, 9 MiB after many long
//! ones.

mod call;
mod errors;
mod memory;
mod objects;
mod provider;
mod slots;

use std::ffi::{c_int, c_void};
use std::net::IpAddr;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::Arc;

use selvedge_libfabric::*;

use call::call;
use memory::{ExposedPayloads, ReadsInFlight, Registered};
use objects::Objects;
use slots::{LONG_FRAME_BYTES_MAX, RECEIVE_BUFFERS, SEND_BUFFERS, Slots};

use crate::faults::Refusals;
use crate::payload::{Payload, ReadBuffer, Readable, Tail};

pub use errors::{EndpointError, SubmitError};
pub use memory::Exposed;
pub use objects::Destination;
pub use slots::FRAME_BYTES_MAX;

/// Completions read by one call.
const COMPLETIONS: usize = 16;

/// An entry of the completion queue.
pub enum Completion {
    /// A frame has arrived. [`Endpoint::repost`] takes its buffer back.
    Received(ReceivedFrame),
    /// A frame with this tag has left. Its buffer is free.
    Sent { tag: u32 },
    /// A frame with this tag was not sent. Its buffer is free.
    NotSent { tag: u32, why: String },
    /// A read with this tag has ended: all of it was read, or the reason for the failure.
    Read { tag: u64, result: Result<(), String> },
}

/// A frame that has arrived.
pub struct ReceivedFrame {
    slots: Arc<Slots>,
    buffer: usize,
    bytes: usize,
}

impl std::ops::Deref for ReceivedFrame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: this value owns the slot, and only it: libfabric has completed the receive, and posts it again after `repost`.
        // The frame has this length.
        unsafe { std::slice::from_raw_parts(self.slots.frame(self.buffer), self.bytes) }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Owner {
    Us,
    Receives,
    /// libfabric sends it. The tag is the caller's.
    Sends(u32),
}

/// An open endpoint. Fields drop in this order: regions before the objects that they belong to, objects before the
/// buffers.
pub struct Endpoint {
    owners: Vec<Owner>,
    free: Vec<usize>,
    /// By buffer: the part of a frame that libfabric sends from other memory.
    tails: Vec<Option<Registered<Tail>>>,
    reads: ReadsInFlight,
    exposed: ExposedPayloads,
    /// The registration of all buffers, if the provider wants one.
    buffers: Registered<()>,
    objects: Objects,
    slots: Arc<Slots>,
}

// SAFETY: the pointers are to objects of libfabric, which belong to no thread. One thread at a time uses them (invariant 3).
unsafe impl Send for Endpoint {}

/// Whether frames over a provider of libfabric may be longer than their buffer.
pub(crate) fn has_long_frames(provider: &str) -> bool {
    !provider.ends_with("ofi_rxm")
}

impl Endpoint {
    /// Opens an endpoint at an address of this host. `wanted` names the provider; None takes libfabric's first.
    pub fn open(node: IpAddr, wanted: Option<&str>) -> Result<Endpoint, EndpointError> {
        let mut opened = Endpoint::open_for_reads(node, wanted)?;
        for buffer in 0..RECEIVE_BUFFERS {
            opened.post(buffer)?;
        }
        Ok(opened)
    }

    /// Opens an endpoint that reads the memory of peers and receives no frames.
    pub fn open_for_reads(node: IpAddr, wanted: Option<&str>) -> Result<Endpoint, EndpointError> {
        let buffers = RECEIVE_BUFFERS + SEND_BUFFERS;
        let objects = Objects::open(node, wanted, 2 * buffers)?;
        let slots = Arc::new(Slots::new());
        let region = objects.register_local(slots.context(0), Slots::BYTES, FI_SEND | FI_RECV);
        let region = region.map_err(|code| objects.error("register the frames", code))?;
        Ok(Endpoint {
            owners: vec![Owner::Us; buffers],
            free: (RECEIVE_BUFFERS..buffers).collect(),
            tails: (0..buffers).map(|_| None).collect(),
            reads: ReadsInFlight::default(),
            exposed: ExposedPayloads::default(),
            buffers: Registered::new((), region),
            objects,
            slots,
        })
    }

    pub(crate) fn set_refusals(&mut self, refusals: Refusals) {
        self.exposed.refusals = refusals;
    }

    /// Returns the provider's name, as libfabric writes it: `tcp;ofi_rxm`.
    pub fn provider(&self) -> &str {
        self.objects.provider()
    }

    /// Returns the length of the longest frame for this provider, in bytes. `ofi_rxm` sends a longer one by a handshake
    /// and reads it into the receive buffer later; the buffer is never returned if the sender dies meanwhile.
    pub fn frame_bytes_max(&self) -> usize {
        if self.has_long_frames() { LONG_FRAME_BYTES_MAX } else { FRAME_BYTES_MAX }
    }

    /// Whether a frame may be longer than its buffer.
    pub fn has_long_frames(&self) -> bool {
        has_long_frames(self.provider())
    }

    /// Returns the endpoint's own name, for peers to insert.
    pub fn name(&self) -> Result<Vec<u8>, EndpointError> {
        self.objects.name()
    }

    /// Adds a peer's endpoint, for good ([`Objects::insert`]).
    pub fn insert(&mut self, name: &[u8]) -> Result<Destination, EndpointError> {
        self.objects.insert(name)
    }

    /// Takes a free buffer to build a frame in. [`Endpoint::send`] or [`Endpoint::return_buffer`] takes it back.
    pub fn take_buffer(&mut self) -> Option<usize> {
        self.free.pop()
    }

    /// Returns a buffer of [`Endpoint::take_buffer`].
    pub fn return_buffer(&mut self, buffer: usize) {
        self.free.push(buffer);
    }

    /// Returns the bytes of a buffer that was taken.
    pub fn buffer_mut(&mut self, buffer: usize) -> &mut [u8] {
        let frame = self.own_buffer(buffer);
        assert!(buffer >= RECEIVE_BUFFERS, "the buffer is for sending");
        // SAFETY: the slot is ours, so no other code touches it (invariant 1), and `&mut self` lasts as long as the
        // result.
        unsafe { std::slice::from_raw_parts_mut(frame, FRAME_BYTES_MAX) }
    }

    fn own_buffer(&self, buffer: usize) -> *mut u8 {
        assert!(self.owners[buffer] == Owner::Us, "the buffer is libfabric's");
        self.slots.frame(buffer)
    }

    /// Sends the first `bytes` of a buffer that was taken, and the tail after them. The completion has the tag, and
    /// frees both. After an error the caller still owns the buffer.
    pub fn send(
        &mut self,
        buffer: usize,
        bytes: usize,
        tail: Option<&Tail>,
        to: Destination,
        tag: u32,
    ) -> Result<(), SubmitError> {
        assert!(bytes <= FRAME_BYTES_MAX, "a frame is not longer than its buffer");
        let descriptor = self.buffers.descriptor();
        let frame: *mut c_void = self.own_buffer(buffer).cast();
        let context: *mut c_void = self.slots.context(buffer).cast();
        let result = match tail {
            // SAFETY: buffer and context stay where they are and are not touched until the completion (invariants 1 and 2).
            None => unsafe {
                call!(
                    (*(*self.objects.endpoint).msg).send,
                    self.objects.endpoint,
                    frame,
                    bytes,
                    descriptor,
                    to.0,
                    context
                )
            },
            Some(tail) => {
                let payload = tail.bytes();
                assert!(
                    bytes + payload.len() <= LONG_FRAME_BYTES_MAX,
                    "a frame is not longer than its receiver's buffer"
                );
                let region = self.objects.register_local(payload.as_ptr(), payload.len(), FI_SEND);
                let region = region.map_err(|code| SubmitError::Broken(self.objects.error_text(code)))?;
                let sent = Registered::new(tail.clone(), region);
                let pieces = [
                    iovec { iov_base: frame, iov_len: bytes },
                    iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() },
                ];
                // SAFETY: as above; the tail is kept until the completion. The arrays are read within the call.
                let result = unsafe {
                    let mut descriptors = [descriptor, sent.descriptor()];
                    let (pieces, descriptors) = (pieces.as_ptr(), descriptors.as_mut_ptr());
                    let ops = (*self.objects.endpoint).msg;
                    call!((*ops).sendv, self.objects.endpoint, pieces, descriptors, 2, to.0, context)
                };
                if result == 0 {
                    self.tails[buffer] = Some(sent);
                }
                result
            }
        };
        match -result {
            0 => {
                self.owners[buffer] = Owner::Sends(tag);
                Ok(())
            }
            code => Err(self.objects.submit_error(code as c_int)),
        }
    }

    /// Returns the buffer of a frame that has arrived to libfabric.
    pub fn repost(&mut self, frame: ReceivedFrame) -> Result<(), EndpointError> {
        self.post(frame.buffer)
    }

    fn post(&mut self, buffer: usize) -> Result<(), EndpointError> {
        let descriptor = self.buffers.descriptor();
        let frame = self.own_buffer(buffer);
        let (context, frame) = (self.slots.context(buffer).cast(), frame.cast());
        // SAFETY: as in `send`. FI_ADDR_UNSPEC takes frames of every peer.
        let result = unsafe {
            let ops = (*self.objects.endpoint).msg;
            call!((*ops).recv, self.objects.endpoint, frame, LONG_FRAME_BYTES_MAX, descriptor, u64::MAX, context)
        };
        if result != 0 {
            return Err(self.objects.error("take a receive buffer", result as c_int));
        }
        self.owners[buffer] = Owner::Receives;
        Ok(())
    }

    /// Whether the provider may access memory of the program in a poll.
    pub fn uses_program_memory(&self) -> bool {
        !(self.exposed.program.is_empty() && self.reads.program.is_empty())
    }

    /// Returns the payloads that the program has unmapped. Peers read zeros instead.
    pub fn unmapped_payloads(&self) -> Vec<Exposed> {
        let mut unmapped = Vec::new();
        self.exposed.program.check(|number| unmapped.push(Exposed(number as usize)));
        unmapped
    }

    /// Returns the tags of reads to memory that the program has unmapped, one for each range of memory. They go on, to
    /// other memory there.
    pub fn unmapped_places(&self) -> Vec<u64> {
        let mut unmapped = Vec::new();
        self.reads.program.check(|tag| unmapped.push(tag));
        unmapped
    }

    /// Reads completions, and lets the provider make progress. Returns whether there may be more.
    pub fn poll(&mut self, events: &mut Vec<Completion>) -> bool {
        let mut entries = [fi_cq_msg_entry::default(); COMPLETIONS];
        // SAFETY: there is room for this number of entries of the format that the queue was opened with.
        let count = unsafe {
            let ops = (*self.objects.queue).ops;
            call!((*ops).read, self.objects.queue, entries.as_mut_ptr().cast(), COMPLETIONS)
        };
        if count == -(FI_EAVAIL as isize) {
            return self.read_error(events);
        }
        for entry in &entries[..usize::try_from(count).unwrap_or(0).min(COMPLETIONS)] {
            match self.take_back(entry.op_context) {
                Some((buffer, Owner::Receives)) => {
                    let bytes = entry.len.min(LONG_FRAME_BYTES_MAX);
                    events.push(Completion::Received(ReceivedFrame { slots: self.slots.clone(), buffer, bytes }));
                }
                Some((_, Owner::Sends(tag))) => events.push(Completion::Sent { tag }),
                Some((_, Owner::Us)) => {}
                None => {
                    let read = self.reads.end(entry.op_context);
                    events.extend(read.map(|tag| Completion::Read { tag, result: Ok(()) }));
                }
            }
        }
        count == COMPLETIONS as isize
    }

    #[cold]
    fn read_error(&mut self, events: &mut Vec<Completion>) -> bool {
        let mut entry = fi_cq_err_entry::default();
        // SAFETY: there is room for one entry.
        let count = unsafe {
            let ops = (*self.objects.queue).ops;
            call!((*ops).readerr, self.objects.queue, &mut entry, 0)
        };
        if count <= 0 {
            return false;
        }
        let why = self.objects.error_text(entry.err);
        match self.take_back(entry.op_context) {
            Some((buffer, Owner::Receives)) => {
                // For example, a frame of an unknown process that is too long. The caller gets an empty frame.
                log::warn!("a frame was not received: {why}");
                events.push(Completion::Received(ReceivedFrame { slots: self.slots.clone(), buffer, bytes: 0 }));
            }
            Some((_, Owner::Sends(tag))) => events.push(Completion::NotSent { tag, why }),
            Some((_, Owner::Us)) => {}
            None => {
                let read = self.reads.end(entry.op_context);
                events.extend(read.map(|tag| Completion::Read { tag, result: Err(why) }));
            }
        }
        true
    }

    /// Takes back the buffer of a context that libfabric returns. A send buffer becomes free.
    fn take_back(&mut self, context: *mut c_void) -> Option<(usize, Owner)> {
        let buffer = self.slots.buffer_of(context)?;
        let owner = std::mem::replace(&mut self.owners[buffer], Owner::Us);
        match owner {
            Owner::Us => return None,
            Owner::Sends(_) => {
                self.free.push(buffer);
                self.tails[buffer] = None;
            }
            Owner::Receives => {}
        }
        Some((buffer, owner))
    }

    /// Whether peers can read this endpoint's memory, and this endpoint theirs.
    pub fn can_read(&self) -> bool {
        self.objects.can_read()
    }

    /// Lets peers read a payload until [`Endpoint::withdraw`]. None: the provider refuses it.
    pub fn expose(&mut self, payload: &Payload) -> Option<(Exposed, Readable)> {
        self.exposed.expose(&self.objects, payload)
    }

    /// Stops peers from reading a payload.
    pub fn withdraw(&mut self, exposed: Exposed) {
        self.exposed.withdraw(exposed);
    }

    /// Reads memory of a peer into a part of a buffer. The endpoint keeps the buffer until [`Completion::Read`] has the
    /// tag.
    pub fn read(
        &mut self,
        into: (&ReadBuffer, Range<usize>),
        from: Destination,
        at: Readable,
        tag: u64,
    ) -> Result<(), SubmitError> {
        self.reads.start(&self.objects, into, from, at, tag)
    }

    /// Returns the descriptor that becomes readable when the endpoint must be polled; None if the provider has none.
    pub fn wait_descriptor(&self) -> Option<RawFd> {
        self.objects.wait_descriptor()
    }

    /// Whether a thread may sleep on the descriptor now. If not, the endpoint must be polled.
    pub fn may_sleep(&mut self) -> bool {
        self.objects.may_sleep()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Ends libfabric's use of buffers, tails and the memory of reads, before they are freed.
        self.objects.close_endpoint();
    }
}

#[cfg(test)]
#[path = "../endpoint_tests.rs"]
mod tests;
