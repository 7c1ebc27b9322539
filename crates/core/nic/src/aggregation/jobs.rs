// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the manager sets at a node: which jobs may use it, how much of it, and which trees it is in (seed 001, section III.F). And what it
//! takes back: the node has no time-outs, so the manager says what is lost (section III.E).
//!
//! Cost: O(jobs), and O(groups) where groups end.

use super::failure::Failure;
use super::node::Node;
use super::records::{Group, Job, Tree, group, job, tree};
use crate::errors::Full;
use crate::handle::NONE;
use crate::tables::slot;

/// A job's share of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Groups that it may have.
    pub groups: u32,
    /// Operations of all its groups together that may be under way.
    pub credits: u32,
    /// Bytes of one operation.
    pub bytes: u32,
}

impl Quota {
    /// Operations of each group that may be under way, if all have as many. With fewer credits than groups each has one, and only as many groups
    /// form as there are credits.
    pub fn credits_each(&self) -> u32 {
        (self.credits / self.groups.max(1)).max(1)
    }
}

impl Node<'_> {
    /// Lets a job use the node. A job that is there gets another quota; what it has stays. One that was revoked may use the node again; its
    /// groups of before have failed.
    pub fn admit(&mut self, number: u32, key: u64, quota: Quota) -> Result<(), Full> {
        let known = self.find_job(number, key).ok();
        let is_free = |record: &Job| slot::status(record.slot) == slot::FREE;
        let at = known.or_else(|| self.tables.jobs.iter().position(is_free)).ok_or(Full)?;
        let record = &mut self.tables.jobs[at];
        if is_free(record) {
            *record = Job { number, key, slot: record.slot, ..Job::default() };
        }
        (record.groups_max, record.credits_max, record.bytes_max) = (quota.groups, quota.credits, quota.bytes);
        (record.slot, record.failure) = (slot::word(slot::generation(record.slot), job::OPEN), 0);
        Ok(())
    }

    /// Takes a job's resources back. Its groups fail, and later messages of it hear why.
    pub fn revoke(&mut self, number: u32, key: u64, failure: Failure) {
        let Ok(at) = self.find_job(number, key) else { return };
        let record = &mut self.tables.jobs[at];
        record.slot = slot::word(slot::generation(record.slot), job::REVOKED);
        record.failure = failure as u32;
        self.fail_groups(failure, |group| group.job as usize == at);
    }

    /// Forgets a job that has ended, and frees its groups. The node tells no child. If a process is sending a group's message, the node frees the
    /// group when the process reports the send, because the process reads the group's operands.
    pub fn forget(&mut self, number: u32, key: u64) {
        let Ok(at) = self.find_job(number, key) else { return };
        for index in 0..self.tables.groups.len() {
            let record = &mut self.tables.groups[index];
            if record.status() == slot::FREE || record.job as usize != at {
                continue;
            }
            if record.sender == 0 {
                self.free_group(index);
                continue;
            }
            // It is nobody's, and over when the send is.
            record.slot = slot::word(slot::generation(record.slot), group::FAILED);
            (record.job, record.failure) = (NONE, Failure::Revoked as u32);
            (record.left, record.has_joined) = (record.joined, 0);
            self.children_mut(index).iter_mut().for_each(|child| child.has_left = 1);
        }
        let generation = slot::generation(self.tables.jobs[at].slot).wrapping_add(1);
        self.tables.jobs[at] = Job { slot: slot::word(generation, slot::FREE), ..Job::default() };
    }

    /// Puts the node into a tree: below `parent` (nid << 32 | pid), or, without one, as its root. False: there is no such tree here.
    pub fn set_tree(&mut self, number: u16, parent: Option<u64>) -> bool {
        let Some(record) = self.tables.trees.get_mut(usize::from(number)) else { return false };
        *record = Tree { status: tree::OPEN, is_root: parent.is_none().into(), parent: parent.unwrap_or_default() };
        true
    }

    /// Takes the node out of a tree. The tree's groups fail.
    pub fn clear_tree(&mut self, number: u16, failure: Failure) {
        let Some(record) = self.tables.trees.get_mut(usize::from(number)) else { return };
        *record = Tree::default();
        self.fail_groups(failure, |group| group.tree == number);
    }

    fn fail_groups(&mut self, failure: Failure, fails: impl Fn(&Group) -> bool) {
        for index in 0..self.tables.groups.len() {
            if fails(&self.tables.groups[index]) {
                self.fail_group(index, failure);
            }
        }
    }

    /// A process or a node is lost: the groups fail in which it is a child or the parent. What would be sent to it is dropped.
    pub fn lose(&mut self, address: u64) {
        for index in 0..self.tables.groups.len() {
            let record = self.tables.groups[index];
            if record.status() == slot::FREE {
                continue;
            }
            let is_child = self.children(index).iter().any(|child| child.address == address);
            let is_parent = record.has_joined != 0 && record.parent == address;
            if !is_child && !is_parent {
                continue;
            }
            self.fail_group(index, Failure::Lost);
            // It says nothing any more, and need not be told.
            if is_parent {
                self.tables.groups[index].has_joined = 0;
            }
            let children = self.children_mut(index).iter_mut();
            let ended = children.filter(|child| child.address == address && child.has_left == 0);
            let count = ended.map(|child| child.has_left = 1).count();
            let record = &mut self.tables.groups[index];
            record.left = record.left.saturating_add(count as u32);
            self.enqueue(index);
        }
    }
}
