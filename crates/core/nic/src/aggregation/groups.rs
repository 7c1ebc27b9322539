// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formation and end of a group (seed 001, section III.C; the trim of section IV).
//!
//! ```text
//! JOINING ─ all children ─> WAITING ─ the parent's answer ─> READY ─ all have left ─> free
//!    │         └─ it is the root ────────────────────────────^ │
//!    └───────────────────────> FAILED <────────────────────────┘ ─ all have left ─> free
//! ```
//!
//! Invariants
//! 1. The first join charges the job's quota, and the end of the group refunds it.
//! 2. When a group is READY its children are in the order of the lowest member beneath each, and its operands are
//!    reserved.
//! 3. A duplicate join has no effect. A failed group takes no more joins.

use super::failure::Failure;
use super::message::{self, Join, Joined, Sender};
use super::node::Node;
use super::records::{Child, Group, OPERAND_ALIGN, Operation, group, handle, options, tree};
use crate::buddy::Buddy;
use crate::handle::NONE;
use crate::tables::slot;

impl Node<'_> {
    /// Adds a child to a group. The answer is sent when the group is formed.
    pub(super) fn join(&mut self, sender: Sender, join: &Join) -> Result<(), Failure> {
        // A duplicate is accepted silently: a refusal would tell the child that it has not joined.
        if self.find_child(sender, message::Child { job: join.job, number: join.number, handle: join.handle }).is_ok() {
            return Ok(());
        }
        let job = self.open_job(join.job, sender.key)?;
        let index = match self.numbered_group(job, join.number) {
            Some(index) => index,
            None => self.begin_group(job, join)?,
        };
        let record = self.tables.groups[index];
        if record.status() == group::FAILED {
            return Err(record.failure().unwrap_or(Failure::NoGroup));
        }
        if record.status() != group::JOINING || !agrees(&record, join) {
            self.fail_group(index, Failure::GroupMismatch);
            return Err(Failure::GroupMismatch);
        }
        let Join { handle, order, members, .. } = *join;
        let child = Child { address: sender.address, handle, order, members, ..Child::default() };
        self.tables.groups[index].joined = record.joined.saturating_add(1);
        if let Some(place) = self.children_mut(index).last_mut() {
            *place = child;
        }
        let record = &mut self.tables.groups[index];
        // All children get the least credits that one asks for.
        record.credits = record.credits.min(join.credits.into());
        record.bytes = record.bytes.max(join.bytes);
        record.members = record.members.saturating_add(members);
        record.order = record.order.min(order);
        if record.joined == u32::from(record.expected[0]) {
            self.all_have_joined(index);
        }
        Ok(())
    }

    fn begin_group(&mut self, job: usize, join: &Join) -> Result<usize, Failure> {
        let children = join.expected[0];
        let is_whole = children != 0 && join.members != 0 && join.options & !options::ALL == 0;
        if !is_whole || join.credits == 0 {
            return Err(Failure::GroupMismatch);
        }
        let known_tree = self.tables.trees.get(usize::from(join.tree));
        known_tree.filter(|record| record.status == tree::OPEN).ok_or(Failure::NoTree)?;
        let record = &self.tables.jobs[job];
        let credits_left = record.credits_max.saturating_sub(record.credits);
        if record.groups >= record.groups_max || credits_left == 0 || join.bytes > record.bytes_max {
            return Err(Failure::Quota);
        }
        let free = self.tables.groups.iter().position(|record| record.status() == slot::FREE);
        let Some(index) = free.filter(|_| u32::from(children) <= self.tables.limits.children) else {
            return Err(Failure::NoRoom);
        };
        let credits = u32::from(join.credits).min(credits_left).min(self.tables.limits.credits);
        let Group { slot, is_due, next_due, .. } = self.tables.groups[index];
        let generation = slot::generation(slot);
        self.tables.groups[index] = Group {
            slot: slot::word(generation, group::JOINING),
            job: job as u32,
            number: join.number,
            tree: join.tree,
            options: join.options,
            expected: join.expected,
            total: join.total,
            order: u32::MAX,
            credits,
            credits_counted: credits,
            operands: NONE,
            // The record may still be in the send queue for an earlier group.
            is_due,
            next_due,
            ..Group::default()
        };
        let record = &mut self.tables.jobs[job];
        (record.groups, record.credits) = (record.groups + 1, record.credits + credits);
        Ok(index)
    }

    /// Forms the group if this node is its root, else joins the parent.
    fn all_have_joined(&mut self, index: usize) {
        // Insertion sort: there is no memory for another method, and a node has few children.
        let children = self.children_mut(index);
        for at in 1..children.len() {
            let mut at = at;
            while at > 0 && children[at].order < children[at - 1].order {
                children.swap(at, at - 1);
                at -= 1;
            }
        }
        let is_ordered = children.windows(2).all(|pair| pair[0].order < pair[1].order);
        let record = self.tables.groups[index];
        let at_tree = self.tables.trees.get(usize::from(record.tree)).copied().unwrap_or_default();
        let has_all = record.members == record.total;
        let is_root = at_tree.is_root != 0 || (has_all && record.options & options::TRIM != 0);
        if at_tree.status != tree::OPEN {
            return self.fail_group(index, Failure::NoTree);
        }
        if !is_ordered || record.members > record.total || (is_root && !has_all) {
            return self.fail_group(index, Failure::GroupMismatch);
        }
        if is_root {
            self.tables.groups[index].is_root = 1;
            return self.complete_group(index, record.credits, record.bytes);
        }
        if record.expected[1] == 0 {
            return self.fail_group(index, Failure::GroupMismatch);
        }
        let record = &mut self.tables.groups[index];
        record.parent = at_tree.parent;
        record.slot = slot::word(slot::generation(record.slot), group::WAITING);
        self.enqueue(index);
    }

    /// Completes the group with at most these credits and bytes. Reserves operands and informs the children.
    fn complete_group(&mut self, index: usize, credits: u32, bytes: u32) {
        let record = self.tables.groups[index];
        let (credits, bytes) = (credits.min(record.credits), bytes.max(record.bytes));
        let bytes_max = self.tables.jobs.get(record.job as usize).map_or(0, |job| job.bytes_max);
        if credits == 0 || bytes > bytes_max {
            return self.fail_group(index, Failure::Quota);
        }
        let Some((operands, credits)) = self.reserve(&record, credits, bytes) else {
            return self.fail_group(index, Failure::NoRoom);
        };
        let first = index * 2 * self.tables.limits.credits as usize;
        let records = first..first + 2 * credits as usize;
        self.tables.operations.get_mut(records).unwrap_or_default().fill(Operation::default());
        // Refunds the credits that were not granted.
        if let Some(job) = self.tables.jobs.get_mut(record.job as usize) {
            job.credits = job.credits.saturating_sub(record.credits_counted.saturating_sub(credits));
        }
        let record = &mut self.tables.groups[index];
        (record.operands, record.credits, record.bytes, record.informed) = (operands, credits, bytes, 0);
        record.credits_counted = credits;
        record.slot = slot::word(slot::generation(record.slot), group::READY);
        self.enqueue(index);
    }

    /// Reserves operands. Only the root may grant fewer credits for lack of room; the nodes below were promised theirs.
    fn reserve(&mut self, record: &Group, credits: u32, bytes: u32) -> Option<(u32, u32)> {
        if bytes == 0 {
            return Some((NONE, credits));
        }
        let mut map = Buddy::attach(self.tables.operand_map).ok()?;
        let mut credits = credits;
        loop {
            let operands = (2 * u64::from(credits)).checked_mul(places(record))?;
            let blocks = operands.checked_mul(operand_blocks(bytes))?;
            let first = u32::try_from(blocks).ok().and_then(|blocks| map.alloc(blocks));
            match first {
                Some(first) => return Some((first, credits)),
                None if record.is_root != 0 && credits > 1 => credits /= 2,
                None => return None,
            }
        }
    }

    /// The parent has accepted the group.
    pub(super) fn joined(&mut self, sender: Sender, joined: &Joined) -> Result<(), Failure> {
        let index = self.find_group(joined.group, sender.key)?;
        let record = &mut self.tables.groups[index];
        if record.has_joined == 0 || record.parent != sender.address {
            return Err(Failure::NoGroup);
        }
        if record.status() != group::WAITING {
            return Ok(());
        }
        (record.child, record.parent_handle) = (joined.child, joined.handle);
        self.complete_group(index, joined.credits, joined.bytes);
        Ok(())
    }

    pub(super) fn failed_above(&mut self, sender: Sender, failed: &message::Failed) -> Result<(), Failure> {
        let index = self.find_group(failed.group, sender.key)?;
        let record = &mut self.tables.groups[index];
        if record.has_joined == 0 || record.parent != sender.address {
            return Err(Failure::NoGroup);
        }
        // The parent knows of the failure.
        record.has_failed = 1;
        self.fail_group(index, failed.failure);
        Ok(())
    }

    /// A message of this node was refused by the parent.
    pub fn refused(&mut self, handle: u64, key: u64, failure: Failure) {
        if let Ok(index) = self.find_group(handle, key) {
            // The node still leaves the parent: if the join was sent twice, the parent may have accepted one.
            self.fail_group(index, failure);
        }
    }

    /// The group has failed at a child.
    pub(super) fn fail_beneath(
        &mut self,
        sender: Sender,
        child: message::Child,
        failure: Failure,
    ) -> Result<(), Failure> {
        let (index, _) = self.find_child(sender, child)?;
        self.fail_group(index, failure);
        Ok(())
    }

    /// A child leaves. When all have left, the node leaves its parent and frees the group.
    pub(super) fn leave(&mut self, sender: Sender, child: message::Child) -> Result<(), Failure> {
        let (index, at) = self.find_child(sender, child)?;
        let record = self.tables.groups[index];
        let children = self.children_mut(index);
        if children[at].has_left != 0 {
            return Ok(());
        }
        children[at].has_left = 1;
        // No other child waits for an operation that this child has not sent, and this child waits for no result.
        let is_done =
            children.iter().all(|child| child.next <= children[at].next) && children[at].next <= record.resulted;
        self.tables.groups[index].left = record.left.saturating_add(1);
        if record.status() != group::READY || !is_done {
            self.fail_group(index, Failure::Left);
        }
        self.enqueue(index);
        Ok(())
    }

    /// The group and the child of a message from below that names them by number.
    fn find_child(&self, sender: Sender, child: message::Child) -> Result<(usize, usize), Failure> {
        let job = self.find_job(child.job, sender.key)?;
        let index = self.numbered_group(job, child.number).ok_or(Failure::NoGroup)?;
        let is_it = |record: &Child| (record.address, record.handle) == (sender.address, child.handle);
        let at = self.children(index).iter().position(is_it).ok_or(Failure::NoGroup)?;
        Ok((index, at))
    }

    pub(super) fn free_group(&mut self, index: usize) {
        let record = self.tables.groups[index];
        if record.operands != NONE {
            if let Ok(mut map) = Buddy::attach(self.tables.operand_map) {
                // On an error another process has damaged the map: the blocks stay allocated.
                let _ = map.free(record.operands);
            }
        }
        if let Some(job) = self.tables.jobs.get_mut(record.job as usize) {
            job.groups = job.groups.saturating_sub(1);
            job.credits = job.credits.saturating_sub(record.credits_counted);
        }
        let generation = slot::generation(record.slot).wrapping_add(1);
        let record = &mut self.tables.groups[index];
        let (is_due, next_due) = (record.is_due, record.next_due);
        // A record in the send queue stays there, and is skipped.
        *record = Group { slot: slot::word(generation, slot::FREE), is_due, next_due, ..Group::default() };
    }

    /// The handle of a group that is formed or forms.
    pub fn handle(&self, index: usize) -> Option<u64> {
        let record = self.tables.groups.get(index).filter(|record| record.status() != slot::FREE)?;
        Some(handle(index, record.slot))
    }
}

fn agrees(record: &Group, join: &Join) -> bool {
    record.tree == join.tree
        && record.options == join.options
        && record.total == join.total
        && record.expected == join.expected
        && join.members != 0
        && join.credits != 0
}

/// Places for operands of one operation. ORDERED: one for each child; the first also takes the result. Else two: the
/// reduced operands, and the one that has just arrived.
#[inline]
pub(super) fn places(record: &Group) -> u64 {
    match record.options & options::ORDERED {
        0 => 2,
        _ => u64::from(record.joined.max(1)),
    }
}

#[inline]
pub(super) fn operand_blocks(bytes: u32) -> u64 {
    u64::from(bytes.div_ceil(OPERAND_ALIGN))
}
