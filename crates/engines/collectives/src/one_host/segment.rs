// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The memory that the members of a live group share: a sealed memory file with the requests of all members.
//!
//! | part | size |
//! |---|---|
//! | header, state | a line of 64 bytes each |
//! | a place for each member: its identity, its memory files | 128 bytes each |
//! | request lines: for each operation that may be held, one of each member | 64 bytes each |
//! | operands too long for a line, in the same order | set by the shape |
//!
//! Invariants
//! 1. The founder makes the file and writes the header before another process has the handle. The header does not
//!    change then. A process that opens the file checks that its shape fits the file's length.
//! 2. Only a member writes its own place, lines and operands. All are atomics except operands, which are written before
//!    the line that publishes them.

use std::os::fd::{AsRawFd, OwnedFd};
use std::slice;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use selvedge_nic::aggregation::Failure;
use thiserror::Error;

use selvedge_host::peer_files::SharedFile;
use selvedge_os::mapping::{MapError, Mapping, sealed_inode};
use selvedge_os::shared::{RANGES_MAX, sealed};

/// "SLVDGAGG" in the file's first bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"SLVDGAGG");
const VERSION: u32 = 1;
const LINE: u64 = 64;
/// Words of a line besides its number and its codes.
pub const INLINE_WORDS: usize = 6;
/// The longest operand that travels in a line.
pub const INLINE_BYTES: usize = 8 * INLINE_WORDS;

/// Sizes of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of members: 1 to [`Shape::MEMBERS_MAX`].
    pub members: u32,
    /// Largest number of operations under way: 1 to [`Shape::CREDITS_MAX`].
    pub credits: u32,
    /// Bytes of the longest operand: a multiple of 64, at most [`Shape::BYTES_MAX`].
    pub bytes: u32,
}

impl Shape {
    pub const MEMBERS_MAX: u32 = 1024;
    pub const CREDITS_MAX: u32 = 64;
    pub const BYTES_MAX: u32 = 1 << 20;

    /// The number of operations whose requests may be held: a power of two, at least `2 * credits`.
    #[inline(always)]
    fn held(&self) -> u32 {
        (2 * self.credits).next_power_of_two()
    }

    fn is_possible(&self) -> bool {
        let Shape { members, credits, bytes } = *self;
        (1..=Self::MEMBERS_MAX).contains(&members)
            && (1..=Self::CREDITS_MAX).contains(&credits)
            && (64..=Self::BYTES_MAX).contains(&bytes)
            && bytes % 64 == 0
    }
}

/// A handle by which another process opens the file: the founder's process and descriptor, and the file's identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentHandle {
    pub pid: u32,
    pub descriptor: u32,
    pub inode: u64,
    pub bytes: u64,
}

/// The reason why a group's memory could not be made or opened, or why the group could not be joined.
#[derive(Debug, Error)]
pub enum OpenError {
    #[error("the group's shape is out of range: {0:?}")]
    Shape(Shape),
    #[error("no memory for the group: {0}")]
    Memory(#[from] rustix::io::Errno),
    #[error("no memory for the group: {0}")]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Map(#[from] MapError),
    #[error("the file is damaged, or is no group memory of this version")]
    NotAGroup,
    #[error("the node refused the group: {0}")]
    Refused(Failure),
}

#[repr(C, align(64))]
struct Header {
    magic: AtomicU64,
    version: AtomicU32,
    members: AtomicU32,
    credits: AtomicU32,
    bytes: AtomicU32,
}

#[repr(C, align(64))]
pub(super) struct StateLine {
    /// The reason why the group has ended ([`Failure`]). 0: it has not ended.
    pub failure: AtomicU32,
}

/// The identity of a member, and its memory that others can map.
#[repr(C, align(128))]
pub(super) struct MemberPlace {
    /// The member's word ([`Identity::to_word`](selvedge_os::process::Identity::to_word)); 0: it has not joined.
    pub word: AtomicU64,
    pub has_left: AtomicU32,
    /// 1: it is accessing the members' memory.
    pub is_at_work: AtomicU32,
    /// The address of the member's test byte for cross-memory attach.
    pub probe: AtomicU64,
    pub files: [SharedFile; RANGES_MAX],
}

#[repr(C, align(64))]
pub(super) struct Line {
    /// The operation's number + 1, stored last.
    pub number: AtomicU64,
    /// Operation, type, type of indices, and in the upper half the length in bytes.
    pub codes: AtomicU64,
    /// The operand if it is short, or words for the other members.
    pub words: [AtomicU64; INLINE_WORDS],
}

/// The starts of the parts of a file.
#[derive(Clone, Copy, Debug)]
struct Layout {
    places: u64,
    requests: u64,
    operands: u64,
    bytes: u64,
}

impl Layout {
    fn of(shape: &Shape) -> Layout {
        let (members, held) = (u64::from(shape.members), u64::from(shape.held()));
        let places = 2 * LINE;
        let requests = places + size_of::<MemberPlace>() as u64 * members;
        let operands = (requests + LINE * members * held).next_multiple_of(4096);
        let bytes = (operands + u64::from(shape.bytes) * members * held).next_multiple_of(4096);
        Layout { places, requests, operands, bytes }
    }
}

/// A group's memory, as this process maps it.
pub struct SharedGroup {
    mapping: Mapping,
    shape: Shape,
    layout: Layout,
    /// The founder's descriptor, through which others open the file.
    file: Option<OwnedFd>,
}

impl SharedGroup {
    /// Makes the memory of a group.
    pub fn found(shape: Shape) -> Result<(SharedGroup, SegmentHandle), OpenError> {
        if !shape.is_possible() {
            return Err(OpenError::Shape(shape));
        }
        let layout = Layout::of(&shape);
        let file = sealed(c"selvedge-aggregation", layout.bytes)?;
        let descriptor = file.as_raw_fd() as u32;
        let (pid, inode) = (std::process::id(), sealed_inode(file.as_raw_fd())?);
        let mapping = Mapping::open_sealed(pid, descriptor, inode, layout.bytes)?;
        let group = SharedGroup { mapping, shape, layout, file: Some(file) };
        let header = group.header();
        header.members.store(shape.members, Relaxed);
        header.credits.store(shape.credits, Relaxed);
        header.bytes.store(shape.bytes, Relaxed);
        header.version.store(VERSION, Relaxed);
        header.magic.store(MAGIC, Release);
        Ok((group, SegmentHandle { pid, descriptor, inode, bytes: layout.bytes }))
    }

    /// Opens the memory of a group. Another process of this user has made it and still has it open.
    pub fn open(handle: &SegmentHandle) -> Result<SharedGroup, OpenError> {
        let mapping = Mapping::open_sealed(handle.pid, handle.descriptor, handle.inode, handle.bytes)?;
        if handle.bytes < size_of::<Header>() as u64 {
            return Err(OpenError::NotAGroup);
        }
        // SAFETY: the file holds a header, the mapping is aligned to a page, and the header is made of atomics.
        let header = unsafe { &*mapping.base().cast::<Header>() };
        let is_group = header.magic.load(Acquire) == MAGIC && header.version.load(Relaxed) == VERSION;
        let (members, credits) = (header.members.load(Relaxed), header.credits.load(Relaxed));
        let shape = Shape { members, credits, bytes: header.bytes.load(Relaxed) };
        if !is_group || !shape.is_possible() || Layout::of(&shape).bytes != handle.bytes {
            return Err(OpenError::NotAGroup);
        }
        Ok(SharedGroup { mapping, shape, layout: Layout::of(&shape), file: None })
    }

    /// Closes the founder's descriptor once all members have opened the file.
    pub fn close_file(&mut self) {
        self.file = None;
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The part of the file at an offset.
    #[inline(always)]
    fn at<T>(&self, offset: u64) -> *mut T {
        self.mapping.base().wrapping_add(offset as usize).cast()
    }

    fn header(&self) -> &Header {
        // SAFETY: the layout has a header there, made of atomics, and the mapping lives as long as `self`.
        unsafe { &*self.at(0) }
    }

    #[inline(always)]
    pub(super) fn state(&self) -> &StateLine {
        // SAFETY: as in `header`.
        unsafe { &*self.at(LINE) }
    }

    pub(super) fn places(&self) -> &[MemberPlace] {
        // SAFETY: the layout has one for each member, made of atomics.
        unsafe { slice::from_raw_parts(self.at(self.layout.places), self.shape.members as usize) }
    }

    #[inline(always)]
    pub(super) fn requests(&self, number: u64) -> &[Line] {
        let members = u64::from(self.shape.members);
        let first = self.layout.requests + self.held(number) * members * LINE;
        // SAFETY: the layout has one for each member and each operation that may be held, made of atomics.
        unsafe { slice::from_raw_parts(self.at(first), self.shape.members as usize) }
    }

    /// The operation's place among those that may be held.
    #[inline(always)]
    fn held(&self, number: u64) -> u64 {
        number & u64::from(self.shape.held() - 1)
    }

    /// Memory for a member's operand of an operation: [`Shape::bytes`].
    #[inline(always)]
    pub(super) fn operand(&self, number: u64, member: usize) -> *mut u8 {
        let at = self.held(number) * u64::from(self.shape.members) + member as u64;
        self.at(self.layout.operands + at * u64::from(self.shape.bytes))
    }
}

impl Line {
    #[inline(always)]
    pub(super) fn put(&self, bytes: &[u8]) {
        for (word, part) in self.words.iter().zip(bytes.chunks(8)) {
            let mut whole = [0; 8];
            whole[..part.len()].copy_from_slice(part);
            word.store(u64::from_ne_bytes(whole), Relaxed);
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, into: &mut [u8]) {
        for (word, part) in self.words.iter().zip(into.chunks_mut(8)) {
            let whole = word.load(Relaxed).to_ne_bytes();
            part.copy_from_slice(&whole[..part.len()]);
        }
    }
}

const _: () = {
    assert!(size_of::<Header>() == LINE as usize);
    assert!(size_of::<StateLine>() == LINE as usize);
    assert!(size_of::<Line>() == LINE as usize);
    assert!(size_of::<MemberPlace>() == 128);
};
