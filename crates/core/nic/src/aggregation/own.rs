// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A node with tables of its own, in vectors: for a home without shared memory. It allocates only when it is made.

use alloc::vec;
use alloc::vec::Vec;

use super::node::Node;
use super::records::{Child, Control, Group, Job, Limits, OPERAND_ALIGN, Operation, Tables, Tree};
use crate::buddy::Buddy;

/// The tables of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnNode {
    pub limits: Limits,
    pub control: Control,
    pub jobs: Vec<Job>,
    pub trees: Vec<Tree>,
    pub groups: Vec<Group>,
    pub children: Vec<Child>,
    pub operations: Vec<Operation>,
    pub operand_map: Vec<u64>,
    pub operands: Vec<u8>,
}

impl OwnNode {
    /// Makes a node without jobs and trees. The limits are clamped to the range that tables support.
    pub fn new(limits: Limits) -> OwnNode {
        let limits = limits.clamped();
        let Limits { jobs, trees, groups, children, credits, operand_blocks } = limits;
        let each = |count: u32| groups as usize * count as usize;
        let mut own = OwnNode {
            limits,
            control: Control::default(),
            jobs: vec![Job::default(); jobs as usize],
            trees: vec![Tree::default(); trees as usize],
            groups: vec![Group::default(); groups as usize],
            children: vec![Child::default(); each(children)],
            operations: vec![Operation::default(); each(2 * credits)],
            operand_map: vec![0; Buddy::words_needed(operand_blocks)],
            operands: vec![0; operand_blocks as usize * OPERAND_ALIGN as usize],
        };
        own.node().format();
        own
    }

    /// The node, as transitions take it.
    #[inline]
    pub fn node(&mut self) -> Node<'_> {
        Node {
            tables: Tables {
                limits: self.limits,
                control: &mut self.control,
                jobs: &mut self.jobs,
                trees: &mut self.trees,
                groups: &mut self.groups,
                children: &mut self.children,
                operations: &mut self.operations,
                operand_map: &mut self.operand_map,
                operands: &mut self.operands,
            },
        }
    }

    /// Whether there is no group and no reserved operand.
    pub fn is_empty(&self) -> bool {
        let blocks = self.limits.operand_blocks;
        let mut fresh = vec![0; self.operand_map.len()];
        Buddy::init(&mut fresh, blocks, blocks);
        self.operand_map == fresh && self.groups.iter().all(|group| group.status() == crate::tables::slot::FREE)
    }
}
