// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Trees of channels, along which packets or messages travel to many nodes, as arrays of branches.
//!
//! A tree takes 20 bytes for each branch, and is never removed.

use selvedge_fabric::MulticastTree;

use super::slab::NONE;

#[derive(Clone, Copy, Debug)]
pub(super) struct Branch {
    /// The virtual channel.
    pub output: u32,
    /// The node at its end; `NONE`: a router.
    pub node: u32,
    /// Branches behind it.
    pub first: u32,
    pub count: u32,
    /// Nodes behind it, including its own.
    pub targets: u32,
}

/// Appends the branches of a tree to others; returns the place of the first.
pub(super) fn append(branches: &mut Vec<Branch>, tree: &MulticastTree, virtual_channels: u32) -> u32 {
    let start = branches.len() as u32;
    branches.extend(tree.branches().iter().map(|branch| Branch {
        output: branch.channel * virtual_channels + u32::from(branch.vc.0),
        node: branch.node.map_or(NONE, |node| node.0),
        first: start + branch.next().start,
        count: branch.next().len() as u32,
        targets: branch.node.is_some().into(),
    }));
    // Branches behind a branch come later.
    for place in (start as usize..branches.len()).rev() {
        let Branch { first, count, .. } = branches[place];
        let behind: u32 = branches[first as usize..][..count as usize].iter().map(|branch| branch.targets).sum();
        branches[place].targets += behind;
    }
    start
}
