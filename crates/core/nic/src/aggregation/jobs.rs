// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The manager's settings of a node: the jobs that may use it, their quotas, and its trees (seed 001, section III.F).
//! The node has no time-outs, so the manager also reports losses (section III.E).
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
    /// The most groups of the job.
    pub groups: u32,
    /// The most operations of all groups that may be under way.
    pub credits: u32,
    /// Bytes of one operation.
    pub bytes: u32,
}

impl Quota {
    /// Credits of each group when shared equally, at least 1. With fewer credits than groups, only that number of
    /// groups can form.
    pub fn credits_each(&self) -> u32 {
        (self.credits / self.groups.max(1)).max(1)
    }
}

impl Node<'_> {
    /// Admits a job, or sets the quota of an admitted one, which keeps its resources. A revoked job may be admitted
    /// again; its old groups have failed.
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

    /// Revokes a job's resources. Its groups fail, and its later messages are refused with the reason.
    pub fn revoke(&mut self, number: u32, key: u64, failure: Failure) {
        let Ok(at) = self.find_job(number, key) else { return };
        let record = &mut self.tables.jobs[at];
        record.slot = slot::word(slot::generation(record.slot), job::REVOKED);
        record.failure = failure as u32;
        self.fail_groups(failure, |group| group.job as usize == at);
    }

    /// Forgets a job that has ended, and frees its groups, without a message to children. A group whose message is
    /// being sent is freed when the send is reported, because the sender reads its operands.
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
            // The group belongs to no job now, and is freed when the send is reported.
            record.slot = slot::word(slot::generation(record.slot), group::FAILED);
            (record.job, record.failure) = (NONE, Failure::Revoked as u32);
            (record.left, record.has_joined) = (record.joined, 0);
            self.children_mut(index).iter_mut().for_each(|child| child.has_left = 1);
        }
        let generation = slot::generation(self.tables.jobs[at].slot).wrapping_add(1);
        self.tables.jobs[at] = Job { slot: slot::word(generation, slot::FREE), ..Job::default() };
    }

    /// Puts the node into a tree: below `parent` (nid << 32 | pid), or as its root. False: the node has no such tree.
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

    /// A process or a node is lost: groups fail of which it is a child or the parent. Messages to it are dropped.
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
            // A lost parent sends no answer, and gets no message.
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
