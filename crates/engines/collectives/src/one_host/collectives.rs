// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collective operations of a live group. All members call the same operations in the same order.
//!
//! | operation | short: an operation of the node | long: in the members' memory |
//! |---|---|---|
//! | barrier | without operands | |
//! | all-reduce, reduce | the node reduces | each member reduces its part for all |
//! | reduce-scatter | the node reduces, each takes its part | each member reduces its part |
//! | broadcast, scatter | all read the root's operand, or their part of it | all copy from the root |
//! | all-gather, gather | all read all operands, or the root does | all copy from all, or the root does |
//!
//! A long operation is two operations of the node: members exchange the addresses of their memory; members are done. If
//! members cannot reach each other's memory, the data goes through the node in pieces.
//!
//! An operation is a value ([`Pending`]). [`Member::advance`] advances it and never waits (`member_progress.rs`).
//! [`Queue::complete`](super::queue::Queue::complete) waits.
//!
//! Invariants
//! 1. Operands are reduced in the order of the members, `((a0 op a1) op a2) ..`, for every length, so each result has
//!    the same bits at all members.
//! 2. Members choose the way by common knowledge: the length, the shape, and the words of all members.
//! 3. All members start the same operations of the node in the same order. So an operation starts its first one after
//!    the operation before it has started its last ([`Pending::has_started_all`]).
//!
//! Errors: members that disagree on an operation ([`Failure::OperationMismatch`], at all of them; a member that did not
//! wait for the result gets it from a later call), and the end of the group.

use std::ops::Range;

use selvedge_nic::aggregation::Failure;
use selvedge_nic::aggregation::message::Reduction;
use selvedge_nic::aggregation::reduction::Kernel;
use selvedge_nic::arithmetic::{Datatype, Located, Operation};

use super::member::{Contribution, InlineWords, Member, codes_of};
use super::memory::{self, Reach};

/// Longest short operation, in bytes. Longer ones run in the members' memory.
const SHORT_BYTES: usize = 1 << 10;

/// The kinds of operations of the node that reduce nothing. Members must agree on them.
pub(super) mod kind {
    pub const BARRIER: u8 = 1;
    pub const BROADCAST: u8 = 2;
    pub const ALLGATHER: u8 = 3;
    pub const EXCHANGE: u8 = 4;
    pub const DONE: u8 = 5;
    pub const SCATTER: u8 = 6;
    pub const GATHER: u8 = 7;
}

/// The reduction of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements(Reduction);

impl Elements {
    /// A reduction of values. `None`: there is no such reduction.
    pub fn of_values(operation: Operation, datatype: Datatype) -> Option<Elements> {
        Elements::of(Reduction::of_values(operation, datatype, datatype.size_bytes() as u32))
    }

    /// A reduction of pairs of a value and an index.
    pub fn of_pairs(operation: Operation, pair: Located) -> Option<Elements> {
        Elements::of(Reduction::of_pairs(operation, pair, pair.size_bytes() as u32))
    }

    fn of(reduction: Reduction) -> Option<Elements> {
        Kernel::new(&reduction).ok().map(|_| Elements(reduction))
    }

    /// Bytes of an element.
    pub fn size_bytes(&self) -> usize {
        self.0.bytes as usize
    }

    /// The reduction of `bytes` bytes.
    pub fn reduction(&self, bytes: usize) -> Reduction {
        Reduction { bytes: bytes as u32, ..self.0 }
    }

    fn kernel(&self) -> Result<Kernel, Failure> {
        Kernel::new(&self.0)
    }

    /// The reduction as one word. The upper half is not 0.
    fn word(&self) -> u64 {
        codes_of(0, &self.0)
    }
}

/// Memory of this member: operands, and results. They are equal or do not overlap.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    pub from: *const u8,
    pub to: *mut u8,
}

/// A collective operation, without its buffers.
#[derive(Clone, Debug)]
pub enum Collective {
    Barrier,
    /// The root's data goes to all members. If they have parts, each gets its own.
    Broadcast {
        root: usize,
        own: Option<Range<usize>>,
    },
    /// The result is at the root, or at all members.
    Reduce {
        elements: Elements,
        root: Option<usize>,
    },
    /// Each member gets a part of the result; this member the part `own`.
    ReduceScatter {
        elements: Elements,
        own: Range<usize>,
    },
    /// All members' data in order, or a window of it, at all members or at the root.
    Allgather {
        window: Option<Range<usize>>,
        root: Option<usize>,
    },
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Phase {
    New,
    /// A short operation: this operation of the node.
    Short(u64),
    /// A long operation: members exchange the addresses of their memory.
    Meeting(u64),
    /// This member has done its part.
    HasDone,
    /// Members say that they have done their parts.
    Finishing(u64),
    /// Through the node: the number of its first operation, and the numbers of pieces started and taken.
    Pieces {
        first: u64,
        started: usize,
        taken: usize,
    },
    Over,
}

/// A collective operation under way.
#[derive(Debug)]
pub struct Pending {
    pub(super) collective: Collective,
    pub(super) buffer: Buffer,
    pub(super) bytes: usize,
    pub(super) phase: Phase,
    /// This member's part of a scattered result. Others may still read an operand at its destination.
    pub(super) part: Vec<u8>,
}

pub(super) fn without_operands(kind: u8) -> Reduction {
    Reduction { operation: kind, ..Reduction::default() }
}

pub(super) const NO_WORDS: InlineWords = [0; 6];
/// Bits of a descriptor: operands or results are in memory files.
pub(super) const SHARES_OPERANDS: u64 = 1;
pub(super) const SHARES_RESULTS: u64 = 2;

impl Pending {
    fn new(collective: Collective, buffer: Buffer, bytes: usize) -> Pending {
        Pending { collective, buffer, bytes, phase: Phase::New, part: Vec::new() }
    }

    /// A barrier. It ends when all members have begun it.
    pub fn barrier() -> Pending {
        let buffer = Buffer { from: std::ptr::null(), to: std::ptr::null_mut() };
        Pending::new(Collective::Barrier, buffer, 0)
    }

    /// Reduces `bytes` of each member's operand. All members get the result.
    ///
    /// # Safety
    /// Until the end, `buffer.from` can be read and `buffer.to` written for `bytes`, and no one else uses them.
    #[inline]
    pub unsafe fn allreduce(elements: &Elements, buffer: Buffer, bytes: usize) -> Pending {
        Pending::new(Collective::Reduce { elements: *elements, root: None }, buffer, bytes)
    }

    /// Like [`Pending::allreduce`], with the result only at `root`. Other members do not use `buffer.to`.
    ///
    /// # Safety
    /// As for [`Pending::allreduce`].
    #[inline]
    pub unsafe fn reduce(elements: &Elements, root: usize, buffer: Buffer, bytes: usize) -> Pending {
        Pending::new(Collective::Reduce { elements: *elements, root: Some(root) }, buffer, bytes)
    }

    /// Reduces `bytes` of each member's operand. Each member gets a part of the result; this member the part `own`.
    ///
    /// # Safety
    /// Until the end, `buffer.from` can be read for `bytes`, and `buffer.to` written for this member's part, and no one
    /// else uses them.
    pub unsafe fn reduce_scatter(elements: &Elements, buffer: Buffer, bytes: usize, own: Range<usize>) -> Pending {
        Pending::new(Collective::ReduceScatter { elements: *elements, own }, buffer, bytes)
    }

    /// Copies `bytes` of the root's memory to all members.
    ///
    /// # Safety
    /// Until the end, `memory` can be read at the root, and written elsewhere, for `bytes`, and no one else uses it.
    #[inline]
    pub unsafe fn broadcast(root: usize, memory: *mut u8, bytes: usize) -> Pending {
        Pending::new(Collective::Broadcast { root, own: None }, Buffer { from: memory, to: memory }, bytes)
    }

    /// Copies to each member its part of `bytes` of the root's memory; to this member the part `own`.
    ///
    /// # Safety
    /// Until the end, `buffer.from` can be read at the root for `bytes`, and `buffer.to` written for this member's
    /// part, and no one else uses them.
    pub unsafe fn scatter(root: usize, buffer: Buffer, bytes: usize, own: Range<usize>) -> Pending {
        Pending::new(Collective::Broadcast { root, own: Some(own) }, buffer, bytes)
    }

    /// Gathers `bytes` of each member, in order, at all members.
    ///
    /// # Safety
    /// Until the end, `buffer.from` can be read for `bytes`, and `buffer.to` written for `bytes` of each member, and no
    /// one else uses them. The operand may be this member's part of the result.
    pub unsafe fn allgather(buffer: Buffer, bytes: usize) -> Pending {
        Pending::new(Collective::Allgather { window: None, root: None }, buffer, bytes)
    }

    /// Like [`Pending::allgather`], with the result only at `root`. Other members do not use `buffer.to`.
    ///
    /// # Safety
    /// As for [`Pending::allgather`].
    pub unsafe fn gather(root: usize, buffer: Buffer, bytes: usize) -> Pending {
        Pending::new(Collective::Allgather { window: None, root: Some(root) }, buffer, bytes)
    }

    /// Like [`Pending::allgather`], of a window of the gathered data. Operand and result begin where the window does:
    /// `buffer.from` is the first byte of this member's part ([`part_of_window`]), and is not used if the part is
    /// empty.
    ///
    /// # Safety
    /// As for [`Pending::allgather`], for the parts and the window's length.
    pub unsafe fn allgather_window(buffer: Buffer, bytes: usize, window: Range<usize>) -> Pending {
        Pending::new(Collective::Allgather { window: Some(window), root: None }, buffer, bytes)
    }

    /// Whether it has not started any operation of the node.
    pub(super) fn is_new(&self) -> bool {
        matches!(self.phase, Phase::New)
    }

    pub fn collective(&self) -> &Collective {
        &self.collective
    }

    /// Operands and results.
    pub fn buffer(&self) -> Buffer {
        self.buffer
    }

    /// Bytes of an operand.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it has started all its operations of the node, so that the group's next operation may start.
    pub fn has_started_all(&self, member: &Member) -> bool {
        match self.phase {
            Phase::New | Phase::Meeting(_) | Phase::HasDone => false,
            Phase::Pieces { started, .. } => started == self.bytes.div_ceil(member.bytes_max()),
            Phase::Short(_) | Phase::Finishing(_) | Phase::Over => true,
        }
    }

    /// Its oldest operation of the node that this member must still read.
    pub(super) fn unread(&self) -> Option<u64> {
        match self.phase {
            Phase::Short(number) | Phase::Meeting(number) | Phase::Finishing(number) => Some(number),
            Phase::Pieces { first, started, taken } if taken < started => Some(first + taken as u64),
            Phase::New | Phase::HasDone | Phase::Pieces { .. } | Phase::Over => None,
        }
    }

    /// Whether it is one operation of the node.
    #[inline]
    pub(super) fn is_short(&self, member: &Member) -> bool {
        match self.collective {
            Collective::Barrier => true,
            Collective::Broadcast { .. } => self.bytes <= member.bytes_max(),
            _ => self.bytes <= SHORT_BYTES.min(member.bytes_max()),
        }
    }

    /// The operation of the node for a range of the data, and this member's contribution.
    #[inline]
    pub(super) fn request(&self, member: &Member, range: Range<usize>) -> (Reduction, Contribution<'static>) {
        let contribution = Contribution::Bytes(self.buffer.from.wrapping_add(range.start), range.len());
        match &self.collective {
            Collective::Barrier => (without_operands(kind::BARRIER), Contribution::Words(&NO_WORDS)),
            Collective::Broadcast { root, .. } if *root == member.rank() => {
                (without_operands(self.kind()), contribution)
            }
            Collective::Broadcast { .. } => (without_operands(self.kind()), Contribution::Words(&NO_WORDS)),
            Collective::Reduce { elements, .. } | Collective::ReduceScatter { elements, .. } => {
                (elements.reduction(range.len()), contribution)
            }
            Collective::Allgather { .. } => {
                let own = clip(&range, self.gathered(member, member.rank()).len());
                let contribution = match own.is_empty() {
                    true => Contribution::Words(&NO_WORDS),
                    false => Contribution::Bytes(self.buffer.from.wrapping_add(own.start), own.len()),
                };
                (without_operands(self.kind()), contribution)
            }
        }
    }

    /// The kind of the operation of the node if it reduces nothing.
    #[inline]
    fn kind(&self) -> u8 {
        match self.collective {
            Collective::Broadcast { own: None, .. } => kind::BROADCAST,
            Collective::Broadcast { .. } => kind::SCATTER,
            Collective::Allgather { root: None, .. } => kind::ALLGATHER,
            Collective::Allgather { .. } => kind::GATHER,
            _ => kind::BARRIER,
        }
    }

    /// The words that must be equal at all members before memory is accessed: the operation, its bytes, its root.
    pub(super) fn agreed(&self) -> [u64; 3] {
        let bytes = self.bytes as u64;
        match &self.collective {
            Collective::Barrier => [u64::from(self.kind()), 0, 0],
            Collective::Broadcast { root, .. } => [u64::from(self.kind()), bytes, *root as u64],
            Collective::Reduce { elements, root } => [elements.word(), bytes, root.map_or(0, |root| root as u64 + 1)],
            Collective::ReduceScatter { elements, .. } => [elements.word(), bytes, u64::MAX],
            Collective::Allgather { root: Some(root), .. } => [u64::from(self.kind()), bytes, *root as u64],
            Collective::Allgather { window, .. } => [u64::from(self.kind()), bytes, word_of(window)],
        }
    }

    /// A digest that must be equal at all members, which the node does not compare: root, and length of a broadcast.
    #[inline]
    pub(super) fn tag(&self) -> u8 {
        match self.collective {
            Collective::Broadcast { root, .. } | Collective::Allgather { root: Some(root), .. } => {
                (root as u64 ^ (self.bytes as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
            }
            Collective::Allgather { ref window, .. } => {
                ((self.bytes as u64 ^ word_of(window)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
            }
            Collective::Reduce { root: Some(root), .. } => root as u8 ^ 0xff,
            _ => 0,
        }
    }

    /// Checks the operation. All members get the same answer.
    #[inline]
    pub(super) fn check(&self, member: &Member) -> Result<(), Failure> {
        match &self.collective {
            Collective::Broadcast { root, .. }
            | Collective::Reduce { root: Some(root), .. }
            | Collective::Allgather { root: Some(root), .. }
                if *root >= member.size() =>
            {
                Err(Failure::GroupMismatch)
            }
            Collective::ReduceScatter { own, .. } | Collective::Broadcast { own: Some(own), .. }
                if own.start > own.end || own.end > self.bytes =>
            {
                Err(Failure::GroupMismatch)
            }
            Collective::Allgather { window: Some(window), .. } => {
                let fits = self.bytes.checked_mul(member.size()).is_some_and(|whole| window.end <= whole);
                if fits && window.start <= window.end { Ok(()) } else { Err(Failure::GroupMismatch) }
            }
            _ => Ok(()),
        }
    }

    #[inline]
    pub(super) fn gathered(&self, member: &Member, from: usize) -> Range<usize> {
        match &self.collective {
            Collective::Allgather { window: Some(window), .. } => part_of_window(window, self.bytes, from),
            _ => part_of_window(&(0..self.bytes * member.size()), self.bytes, from),
        }
    }

    /// Checks that a long operation has whole elements. The node checks short ones.
    pub(super) fn check_elements(&self) -> Result<(), Failure> {
        match &self.collective {
            Collective::Reduce { elements, .. } | Collective::ReduceScatter { elements, .. }
                if self.bytes % elements.size_bytes() != 0 =>
            {
                Err(Failure::NoSuchOperation)
            }
            _ => Ok(()),
        }
    }

    /// Bytes of this member's operand and of its result that others access.
    fn shown(&self, member: &Member, rank: usize) -> (usize, usize) {
        match &self.collective {
            Collective::Barrier => (0, 0),
            Collective::Broadcast { root, .. } => (if *root == rank { self.bytes } else { 0 }, 0),
            Collective::Reduce { root, .. } if root.is_none_or(|root| root == rank) => (self.bytes, self.bytes),
            Collective::Reduce { .. } | Collective::ReduceScatter { .. } => (self.bytes, 0),
            Collective::Allgather { .. } => (self.gathered(member, rank).len(), 0),
        }
    }

    /// The descriptor of this member's memory, which the others read.
    pub(super) fn descriptor(&self, member: &Member) -> InlineWords {
        let (from, to) = (self.buffer.from.expose_provenance() as u64, self.buffer.to.expose_provenance() as u64);
        let (operand, result) = self.shown(member, member.rank());
        let own = &member.shared.places()[member.rank()];
        let shares = |address, bytes| bytes == 0 || memory::is_shared(own, address, bytes);
        let mut flags = 0;
        if shares(from, operand) {
            flags |= SHARES_OPERANDS;
        }
        if shares(to, result) {
            flags |= SHARES_RESULTS;
        }
        let [collective, bytes, root] = self.agreed();
        [from, to, flags, collective, bytes, root]
    }

    /// This member's part of the data in a range: its destination, and its place in the range. `None`: it is empty.
    #[inline]
    fn share(&self, own: &Range<usize>, range: &Range<usize>) -> Option<(*mut u8, Range<usize>)> {
        let both = own.start.max(range.start)..own.end.min(range.end);
        let to = self.buffer.to.wrapping_add(both.start.wrapping_sub(own.start));
        (!both.is_empty()).then(|| (to, both.start - range.start..both.end - range.start))
    }

    /// Takes this member's share of the result of an operation of the node on a range of the data.
    ///
    /// # Safety
    /// The contract of the operation's constructor.
    #[inline]
    pub(super) unsafe fn take(&self, member: &Member, number: u64, range: Range<usize>) -> Result<(), Failure> {
        let (to, bytes) = (self.buffer.to.wrapping_add(range.start), range.len());
        // SAFETY: the range is within the operation's data, so `to` can be written for it, by the constructor's
        // contract. This holds for all copies.
        unsafe {
            match &self.collective {
                Collective::Barrier => Ok(()),
                Collective::Broadcast { root, own: None } if *root == member.rank() => Ok(()),
                Collective::Broadcast { root, own: None } => {
                    member.copy_contribution(number, *root, to, 0..bytes, bytes)
                }
                Collective::Broadcast { root, own: Some(own) } => match self.share(own, &range) {
                    Some((to, part)) => member.copy_contribution(number, *root, to, part, bytes),
                    None => Ok(()),
                },
                Collective::Reduce { root, .. } if root.is_some_and(|root| root != member.rank()) => Ok(()),
                Collective::Reduce { .. } => member.copy_result(number, to, 0..bytes, bytes),
                Collective::ReduceScatter { own, .. } => match self.share(own, &range) {
                    Some((to, part)) => member.copy_result(number, to, part, bytes),
                    None => Ok(()),
                },
                Collective::Allgather { root: Some(root), .. } if *root != member.rank() => Ok(()),
                Collective::Allgather { .. } => (0..member.size()).try_for_each(|from| {
                    let part = self.gathered(member, from);
                    let taken = clip(&range, part.len());
                    if taken.is_empty() {
                        return Ok(());
                    }
                    let to = self.buffer.to.wrapping_add(part.start + taken.start);
                    member.copy_contribution(number, from, to, 0..taken.len(), taken.len())
                }),
            }
        }
    }

    /// Does this member's part of a long operation in the members' memory: `operands` and `results` of each member.
    ///
    /// # Safety
    /// Each member has given these addresses of its own memory, and waits until all are done.
    pub(super) unsafe fn work(
        &mut self,
        member: &mut Member,
        operands: &[Reach],
        results: &[Reach],
    ) -> Result<(), Failure> {
        let (rank, size, bytes) = (member.rank(), member.size(), self.bytes);
        // SAFETY: by this function's contract; parts of different members do not overlap.
        unsafe {
            match &self.collective {
                Collective::Barrier => Ok(()),
                Collective::Broadcast { root, own: None } if *root == rank => Ok(()),
                Collective::Broadcast { root, own: None } => operands[*root].copy_to(0, self.buffer.to, bytes),
                Collective::Broadcast { root, own: Some(own) } => {
                    operands[*root].copy_to(own.start, self.buffer.to, own.len())
                }
                Collective::Reduce { elements, root } => {
                    let results = root.map_or(results, |root| &results[root..=root]);
                    member.peer_memory.reduce(&elements.kernel()?, operands, results, part_of(bytes, size, rank))
                }
                Collective::ReduceScatter { elements, own } => {
                    self.part.resize(own.len(), 0);
                    let result = Reach::Mapped(self.part.as_mut_ptr().wrapping_sub(own.start));
                    member.peer_memory.reduce(&elements.kernel()?, operands, &[result], own.clone())
                }
                Collective::Allgather { root: Some(root), .. } if *root != rank => Ok(()),
                // Each member begins with its own part, so that not all read the same memory at once.
                Collective::Allgather { .. } => (0..size).map(|step| (rank + step) % size).try_for_each(|from| {
                    let part = self.gathered(member, from);
                    match part.is_empty() {
                        true => Ok(()),
                        false => operands[from].copy_to(0, self.buffer.to.wrapping_add(part.start), part.len()),
                    }
                }),
            }
        }
    }
}

/// A member's part of a window, relative to the window's start. Each member has `each` bytes of the vector.
pub fn part_of_window(window: &Range<usize>, each: usize, member: usize) -> Range<usize> {
    let within = |at: usize| at.clamp(window.start, window.end.max(window.start)) - window.start;
    within(member.saturating_mul(each))..within((member + 1).saturating_mul(each))
}

fn clip(range: &Range<usize>, length: usize) -> Range<usize> {
    range.start.min(length)..range.end.min(length)
}

/// A word that differs for different windows.
fn word_of(window: &Option<Range<usize>>) -> u64 {
    window.as_ref().map_or(0, |window| window.start as u64 ^ (window.end as u64).rotate_left(32))
}

/// The part of a long vector that a member reduces: whole cache lines, so no two members write to the same line.
fn part_of(bytes: usize, members: usize, rank: usize) -> Range<usize> {
    let each = bytes.div_ceil(members).next_multiple_of(64);
    (rank * each).min(bytes)..((rank + 1) * each).min(bytes)
}
