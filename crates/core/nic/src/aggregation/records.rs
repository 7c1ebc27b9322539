// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tables of a node and of a member, and their limits. Records are plain integers: any bit pattern is a value, so a
//! table that a hostile process wrote is read and refused without undefined behaviour.
//!
//! A record's first word is its *slot*, as in [`crate::tables`]: generation and status. A handle of a group is
//! generation << 32 | index.

use super::failure::Failure;
pub use super::message::LEVELS_MAX;
use super::message::{Distribution, Reduction, Target};
use super::reduction::Kernel;
use crate::handle::NONE;
use crate::tables::slot;

/// Alignment of operands in bytes.
pub const OPERAND_ALIGN: u32 = 64;
/// The most trees of a node, jobs, groups, children of a group and credits of a group.
pub const TREES_MAX: u32 = 1023;
pub const JOBS_MAX: u32 = 1 << 12;
pub const GROUPS_MAX: u32 = 1 << 14;
pub const CHILDREN_MAX: u32 = 1 << 12;
pub const CREDITS_MAX: u32 = 1 << 9;

/// Capacities of a node's tables, set when it is made.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Limits {
    pub jobs: u32,
    /// Trees are numbered from 0 to one below this.
    pub trees: u32,
    pub groups: u32,
    /// Children of one group.
    pub children: u32,
    /// Operations of one group that may be under way.
    pub credits: u32,
    /// Memory for operands, in blocks of [`OPERAND_ALIGN`] bytes.
    pub operand_blocks: u32,
}

impl Limits {
    /// A node like SwitchIB-2 (seed 001, section III.F: 64 trees, a large number of groups, hundreds of operations),
    /// with the 36 ports of such a switch. Some 5 MB, 4 MB of them for operands.
    pub const DEFAULT: Limits =
        Limits { jobs: 64, trees: 64, groups: 256, children: 36, credits: 16, operand_blocks: 1 << 16 };

    /// Clamps each limit to the range that a table supports.
    pub fn clamped(self) -> Limits {
        Limits {
            jobs: self.jobs.min(JOBS_MAX),
            trees: self.trees.min(TREES_MAX),
            groups: self.groups.min(GROUPS_MAX),
            children: self.children.min(CHILDREN_MAX),
            credits: self.credits.min(CREDITS_MAX),
            operand_blocks: self.operand_blocks.min(crate::buddy::Buddy::BLOCKS_MAX),
        }
    }
}

impl Limits {
    /// A group's name of its record at index `at` of all operations: 1 + the index in the group, so that 0 names none.
    pub(super) fn record_name(&self, group: usize, at: usize) -> u32 {
        at.saturating_sub(group * 2 * self.credits as usize) as u32 + 1
    }

    /// The index among all operations of the record with this name in the group. None: no record has it.
    pub(super) fn named_record(&self, group: usize, name: u32) -> Option<usize> {
        let place = name.checked_sub(1).filter(|place| *place < 2 * self.credits)?;
        Some(group * 2 * self.credits as usize + place as usize)
    }
}

pub(super) fn handle(index: usize, slot: u32) -> u64 {
    u64::from(slot::generation(slot)) << 32 | index as u64
}

/// Status of jobs.
pub mod job {
    pub const OPEN: u32 = 1;
    /// The job's resources were revoked. The record stays, so that late messages are refused with the reason.
    pub const REVOKED: u32 = 2;
}

/// A job that may use the node.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Job {
    pub slot: u32,
    pub number: u32,
    pub key: u64,
    /// The quota: groups, credits of all groups together, bytes of one operation.
    pub groups_max: u32,
    pub credits_max: u32,
    pub bytes_max: u32,
    /// The part of the quota that is in use.
    pub groups: u32,
    pub credits: u32,
    pub failure: u32,
}

/// Status of trees.
pub mod tree {
    pub const OPEN: u32 = 1;
}

/// A tree that the node is in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tree {
    pub status: u32,
    /// 1: the node is its root.
    pub is_root: u32,
    /// The node above: nid << 32 | pid.
    pub parent: u64,
}

/// Options of a group.
pub mod options {
    /// The root is the lowest node that has all members beneath it.
    pub const TRIM: u8 = 1;
    /// Operands are reduced in the order of the children.
    pub const ORDERED: u8 = 2;
    /// The children of this node read the group's state and the results in its memory. Nothing is sent to them.
    pub const SHARED: u8 = 4;
    pub const ALL: u8 = TRIM | ORDERED | SHARED;
}

/// Status of groups.
pub mod group {
    /// Not all children have joined yet.
    pub const JOINING: u32 = 1;
    /// The node has joined its parent, and waits for the answer.
    pub const WAITING: u32 = 2;
    pub const READY: u32 = 3;
    pub const FAILED: u32 = 4;
}

/// A group at a node.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Group {
    pub slot: u32,
    /// Index of its job.
    pub job: u32,
    /// The job's number of the group.
    pub number: u32,
    pub tree: u16,
    pub options: u8,
    /// 1: a child may have re-requested a result ([`Child::wants`]).
    pub is_wanted: u8,
    /// Children of the group at this node, at the node above it, and so on to the root.
    pub expected: [u16; LEVELS_MAX],
    pub total: u32,
    /// Members beneath, and the lowest position of one.
    pub members: u32,
    pub order: u32,
    pub joined: u32,
    pub left: u32,
    /// Granted: at first the request of this node's children, at last the grant of the whole path to the root.
    pub credits: u32,
    pub bytes: u32,
    /// The credits charged to the job.
    pub credits_counted: u32,
    /// First block of its operands; [`NONE`]: it has none.
    pub operands: u32,
    /// 1: this node is the root.
    pub is_root: u32,
    /// Not 0: the parent was asked to join (`sends` has the values). 1: the parent knows of the failure.
    pub has_joined: u32,
    pub has_failed: u32,
    pub failure: u32,
    /// The node above, its handle, and this node's index among its children.
    pub parent: u64,
    pub parent_handle: u64,
    pub child: u32,
    /// Children that were informed of the group's state.
    pub informed: u32,
    /// Operations: sent by all children; sent up; with a result here; with a result at all children.
    pub collected: u64,
    pub sent: u64,
    pub resulted: u64,
    pub distributed: u64,
    /// Children that have the result of operation `distributed`.
    pub told: u32,
    /// 1: in the send queue. The next group there.
    pub is_due: u32,
    pub next_due: u32,
    /// 1 + the record of the operation whose result was re-requested from the parent; 0: none.
    pub asked: u32,
    /// The process that sends for the group, by the home's identifier, or 0.
    pub sender: u64,
}

impl Group {
    pub fn status(&self) -> u32 {
        slot::status(self.slot)
    }

    /// The reason for which the group has failed.
    pub fn failure(&self) -> Option<Failure> {
        Failure::from_u8(self.failure as u8)
    }
}

/// A child of a group at a node.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Child {
    /// nid << 32 | pid, and its handle of the group.
    pub address: u64,
    pub handle: u64,
    /// The number of the child's next request.
    pub next: u64,
    pub order: u32,
    pub members: u32,
    /// 1: it has left.
    pub has_left: u32,
    /// 1 + the record of the operation whose result the child re-requested; 0: none.
    pub wants: u32,
}

/// An operation of a group at a node.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Operation {
    /// Its number + 1; 0: the record was never used.
    pub number: u64,
    /// Where the root sends the result ([`super::message::Target`]).
    pub target: u64,
    pub target_handle: u64,
    pub bytes: u32,
    /// Children that have sent their operand; with an order, the number of these whose operand is reduced.
    pub arrived: u32,
    pub reduced: u32,
    pub operation: u8,
    pub datatype: u8,
    pub index: u8,
    /// Its [`super::message::Distribution`]; 0: down the tree alone.
    pub distribution: u8,
    pub failure: u32,
    /// 1: this node, the root, has cast the result.
    pub is_cast: u16,
    /// 1: the parent has repeated the result, which the end of the operation came without.
    pub is_repeated: u16,
}

impl Operation {
    /// Makes the record of an operation before its first operand.
    pub fn begin(number: u64, reduction: &Reduction, group: &Group) -> Operation {
        let Reduction { operation, datatype, index, bytes, target } = *reduction;
        let is_cast = target.is_some_and(|target| target.distribution != Distribution::Alone);
        let failure = match Kernel::new(reduction) {
            Err(failure) => failure as u32,
            Ok(_) if bytes > group.bytes => Failure::TooLong as u32,
            // Children that share memory read their results there.
            Ok(_) if is_cast && group.options & options::SHARED != 0 => Failure::NoSuchOperation as u32,
            Ok(_) => 0,
        };
        Operation {
            number: number + 1,
            target: target.map_or(0, |target| target.address),
            target_handle: target.map_or(0, |target| target.handle),
            distribution: target.map_or(0, |target| target.distribution as u8),
            bytes,
            operation,
            datatype,
            index,
            failure,
            ..Operation::default()
        }
    }

    /// The reduction, as its first request described it.
    #[inline]
    pub fn reduction(&self) -> Reduction {
        let Operation { operation, datatype, index, bytes, .. } = *self;
        let (address, handle) = (self.target, self.target_handle);
        let target = self.distribution().map(|distribution| Target { distribution, address, handle });
        Reduction { operation, datatype, index, bytes, target }
    }

    /// The receivers of the result besides the members down the tree. None: only those.
    #[inline]
    pub fn distribution(&self) -> Option<Distribution> {
        Distribution::from_u8(self.distribution)
    }

    /// Whether the result itself goes down the tree, not only the end of the operation.
    #[inline]
    pub fn goes_down(&self) -> bool {
        matches!(self.distribution(), None | Some(Distribution::Both))
    }

    /// The reason for which the operation has failed.
    pub fn failure(&self) -> Option<Failure> {
        Failure::from_u8(self.failure as u8)
    }
}

/// Fields that exist once.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Control {
    /// The send queue: groups with messages to send, in order.
    pub due_head: u32,
    pub due_tail: u32,
}

impl Default for Control {
    fn default() -> Control {
        Control { due_head: NONE, due_tail: NONE }
    }
}

/// The tables of a node, for the holder of its lock.
pub struct Tables<'a> {
    pub limits: Limits,
    pub control: &'a mut Control,
    pub jobs: &'a mut [Job],
    pub trees: &'a mut [Tree],
    pub groups: &'a mut [Group],
    /// [`Limits::children`] for each group.
    pub children: &'a mut [Child],
    /// Twice [`Limits::credits`] for each group.
    pub operations: &'a mut [Operation],
    /// State of the allocator of operands.
    pub operand_map: &'a mut [u64],
    pub operands: &'a mut [u8],
}

const _: () = {
    assert!(size_of::<Job>() == 40);
    assert!(size_of::<Tree>() == 16);
    assert!(size_of::<Group>() == 192);
    assert!(size_of::<Child>() == 40);
    assert!(size_of::<Operation>() == 48);
    assert!(size_of::<Control>() == 8);
    assert!(CREDITS_MAX <= u16::MAX as u32);
    assert!(CHILDREN_MAX <= u16::MAX as u32);
};
