// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Payloads that are sent after the call that sends them has returned, and memory for payloads that are read from a
//! peer.

use std::alloc::{Layout, alloc, dealloc};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use selvedge_os::cma::{self, CmaError};
use selvedge_os::memory;

/// The payload of a packet that waits.
#[derive(Clone, Debug)]
pub enum Payload {
    /// Memory of the links.
    Own(Arc<Vec<u8>>),
    /// Memory of the program.
    Lent(Lent),
}

impl Payload {
    /// Returns the address of the first byte.
    pub fn start(&self) -> *const u8 {
        match self {
            Payload::Own(bytes) => bytes.as_ptr(),
            Payload::Lent(lent) => lent.start,
        }
    }

    /// Returns the number of bytes.
    pub fn length(&self) -> usize {
        match self {
            Payload::Own(bytes) => bytes.len(),
            Payload::Lent(lent) => lent.bytes,
        }
    }

    /// Copies memory of the program, through the kernel. `Err`: the program has unmapped it.
    pub fn own(&mut self) -> Result<Arc<Vec<u8>>, NotMapped> {
        let bytes = match self {
            Payload::Own(bytes) => return Ok(bytes.clone()),
            Payload::Lent(lent) => Arc::new(lent.copy_later()?),
        };
        *self = Payload::Own(bytes.clone());
        Ok(bytes)
    }
}

/// Memory of the program that is no longer mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotMapped;

/// The end of a long frame: payload that stays in its own memory until the frame was sent.
#[derive(Clone)]
pub struct Tail {
    pub payload: Arc<Vec<u8>>,
    pub range: Range<usize>,
}

impl Tail {
    pub fn bytes(&self) -> &[u8] {
        &self.payload[self.range.clone()]
    }
}

/// Memory of a peer that this process may read, from an address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable {
    pub address: u64,
    pub key: u64,
}

/// Memory of the program, which leaves it unchanged until the peer has answered, or is lost.
#[derive(Clone, Copy)]
pub struct Lent {
    start: *const u8,
    bytes: usize,
}

// SAFETY: the memory belongs to no thread.
unsafe impl Send for Lent {}
// SAFETY: as above; it is only read.
unsafe impl Sync for Lent {}

impl Lent {
    /// # Safety
    /// The bytes stay readable and unchanged until the peer has answered the packet, or [`crate::Sink::lost`] was called
    /// for it. If the program unmaps them too early, [`crate::Sink::unreadable`] is called.
    pub unsafe fn new(start: *const u8, bytes: usize) -> Lent {
        Lent { start, bytes }
    }

    /// Returns the bytes, within the call that has lent them.
    fn bytes(&self) -> &[u8] {
        // SAFETY: by the contract of `new`.
        unsafe { std::slice::from_raw_parts(self.start, self.bytes) }
    }

    /// Copies the bytes after that call. The program may have unmapped them.
    fn copy_later(&self) -> Result<Vec<u8>, NotMapped> {
        let (own, from) = (std::process::id(), self.start as u64);
        let mut bytes = Vec::with_capacity(self.bytes);
        // SAFETY: the vector has room for the bytes, and nothing else uses it. The kernel checks the source.
        match unsafe { cma::read(own, from, bytes.as_mut_ptr(), self.bytes) } {
            // SAFETY: the kernel has written all of them.
            Ok(()) => unsafe { bytes.set_len(self.bytes) },
            Err(CmaError::BadAddress { .. }) => return Err(NotMapped),
            // Some containers forbid the call.
            Err(_) if memory::readable(from, self.bytes as u64) => bytes.extend_from_slice(self.bytes()),
            Err(_) => return Err(NotMapped),
        }
        Ok(bytes)
    }
}

impl fmt::Debug for Lent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lent({} bytes)", self.bytes)
    }
}

/// The payload of a packet, as its sender has it.
#[derive(Debug)]
pub enum Source<'a> {
    /// The links copy it, or take it if it is long.
    Taken(&'a mut Vec<u8>),
    Lent(Lent),
}

impl Source<'_> {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Source::Taken(bytes) => bytes,
            Source::Lent(lent) => lent.bytes(),
        }
    }

    /// Keeps the payload for later. `may_stay`: it need not be copied from the program's memory.
    pub(crate) fn take(self, may_stay: bool) -> Payload {
        match self {
            Source::Taken(bytes) => Payload::Own(Arc::new(std::mem::take(bytes))),
            Source::Lent(lent) if may_stay => Payload::Lent(lent),
            Source::Lent(lent) => Payload::Own(Arc::new(lent.bytes().to_vec())),
        }
    }
}

/// The memory that a payload is read into, in parts: a buffer of its own, which its reads keep alive, or memory of the
/// program.
#[derive(Clone)]
pub struct ReadBuffer(Arc<Memory>);

struct Memory {
    start: *mut u8,
    bytes: usize,
    /// None for memory of the program.
    layout: Option<Layout>,
}

// SAFETY: the memory belongs to no thread. Only reads write to it, each to its own part.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl ReadBuffer {
    /// Allocates a buffer of this length, at least one byte. Its bytes are unwritten, and occupy memory only as they
    /// are written. None if there is no room.
    pub fn new(bytes: usize) -> Option<ReadBuffer> {
        let layout = Layout::from_size_align(bytes.max(1), 64).ok()?;
        // SAFETY: the layout is not empty.
        let start = unsafe { alloc(layout) };
        (!start.is_null()).then(|| ReadBuffer(Arc::new(Memory { start, bytes: layout.size(), layout: Some(layout) })))
    }

    /// Wraps memory of the program, which leaves it alone until the packet is finished. The caller makes sure that
    /// nothing is read into it afterwards.
    pub fn of_program(start: *mut u8, bytes: usize) -> ReadBuffer {
        ReadBuffer(Arc::new(Memory { start, bytes, layout: None }))
    }

    pub fn bytes_max(&self) -> usize {
        self.0.bytes
    }

    /// Whether it is memory of the program.
    pub fn is_program(&self) -> bool {
        self.0.layout.is_none()
    }

    /// Whether all of it is mapped, and may be written.
    pub fn is_writable(&self) -> bool {
        memory::writable(self.0.start as u64, self.0.bytes as u64)
    }

    /// Returns the address of a part.
    pub fn part(&self, part: &Range<usize>) -> *mut u8 {
        assert!(part.start <= part.end && part.end <= self.0.bytes, "the part is within the buffer");
        self.0.start.wrapping_add(part.start)
    }

    /// Returns the first bytes.
    ///
    /// # Safety
    /// Reads have written all of them, and no read into them is in flight.
    pub unsafe fn bytes(&self, bytes: usize) -> &[u8] {
        let start = self.part(&(0..bytes));
        // SAFETY: the caller's; `part` has checked the length.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }
}

impl fmt::Debug for ReadBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadBuffer({} bytes)", self.0.bytes)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: `ReadBuffer::new` has allocated it with this layout.
            unsafe { dealloc(self.start, layout) };
        }
    }
}
