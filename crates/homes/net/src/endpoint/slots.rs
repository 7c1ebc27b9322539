// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The buffers of an endpoint: one allocation, which never moves. A slot is libfabric's memory for an operation, then a
//! frame.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::c_void;

use selvedge_libfabric::fi_context2;

/// Bytes of the longest frame without its tail: the most that `ofi_rxm` sends without a handshake.
pub const FRAME_BYTES_MAX: usize = 16 << 10;
/// Bytes of the longest frame ([`Endpoint::frame_bytes_max`](super::Endpoint::frame_bytes_max)).
pub(super) const LONG_FRAME_BYTES_MAX: usize = (256 << 10) + FRAME_BYTES_MAX;
/// Frames that may arrive between two polls.
pub(super) const RECEIVE_BUFFERS: usize = 32;
/// Frames in flight.
pub(super) const SEND_BUFFERS: usize = 64;

/// Bytes of a slot before its frame: libfabric's memory for the operation. Its address is the slot's.
const CONTEXT_BYTES: usize = 64;
const RECEIVE_SLOT_BYTES: usize = CONTEXT_BYTES + LONG_FRAME_BYTES_MAX;
const SEND_SLOT_BYTES: usize = CONTEXT_BYTES + FRAME_BYTES_MAX;
const RECEIVE_SLOTS_BYTES: usize = RECEIVE_BUFFERS * RECEIVE_SLOT_BYTES;
const SLOTS_BYTES: usize = RECEIVE_SLOTS_BYTES + SEND_BUFFERS * SEND_SLOT_BYTES;
/// Bytes of a cache line. The first slot begins at one.
const LINE_BYTES: usize = 64;
/// Alignment of the allocation: `malloc`'s own. With a greater one `alloc_zeroed` writes all of it, and each endpoint
/// would occupy 10 MB.
const ALIGN: usize = 16;

const _: () = assert!(size_of::<fi_context2>() <= CONTEXT_BYTES && CONTEXT_BYTES % align_of::<fi_context2>() == 0);

/// The buffers: first those that receive, then those that send. They occupy memory only where they were used.
pub(super) struct Slots {
    allocation: *mut u8,
    first: *mut u8,
}

// SAFETY: a slot's bytes are touched by its owner only (invariant 1 of the endpoint), and owners change under the endpoint's `&mut`.
unsafe impl Sync for Slots {}
// SAFETY: as above; a slot belongs to no thread.
unsafe impl Send for Slots {}

impl Slots {
    /// Bytes of the allocation, from the context of the first buffer on.
    pub(super) const BYTES: usize = SLOTS_BYTES;

    pub(super) fn new() -> Slots {
        // SAFETY: the layout is not empty.
        let allocation = unsafe { alloc_zeroed(Slots::layout()) };
        if allocation.is_null() {
            handle_alloc_error(Slots::layout());
        }
        let before = (allocation as usize).next_multiple_of(LINE_BYTES) - allocation as usize;
        Slots { allocation, first: allocation.wrapping_add(before) }
    }

    const fn layout() -> Layout {
        match Layout::from_size_align(SLOTS_BYTES + LINE_BYTES, ALIGN) {
            Ok(layout) => layout,
            Err(_) => panic!("the layout is a constant"),
        }
    }

    pub(super) fn context(&self, buffer: usize) -> *mut u8 {
        let sends = buffer.checked_sub(RECEIVE_BUFFERS);
        let at = sends.map_or(buffer * RECEIVE_SLOT_BYTES, |number| RECEIVE_SLOTS_BYTES + number * SEND_SLOT_BYTES);
        assert!(at < SLOTS_BYTES, "there is no such buffer");
        self.first.wrapping_add(at)
    }

    pub(super) fn frame(&self, buffer: usize) -> *mut u8 {
        self.context(buffer).wrapping_add(CONTEXT_BYTES)
    }

    /// Returns the buffer of a context that libfabric hands back.
    pub(super) fn buffer_of(&self, context: *mut c_void) -> Option<usize> {
        let offset = (context as usize).wrapping_sub(self.first as usize);
        let (first, offset, bytes) = match offset.checked_sub(RECEIVE_SLOTS_BYTES) {
            None => (0, offset, RECEIVE_SLOT_BYTES),
            Some(offset) => (RECEIVE_BUFFERS, offset, SEND_SLOT_BYTES),
        };
        let buffer = first + offset / bytes;
        (offset % bytes == 0 && buffer < RECEIVE_BUFFERS + SEND_BUFFERS).then_some(buffer)
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated it with this layout.
        unsafe { dealloc(self.allocation, Slots::layout()) };
    }
}
