// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An operation at a node: operands come from the children, are reduced, and go up; the result comes from above, and goes down (seed 001,
//! section III.D).
//!
//! Order of effects: the payload lies at the node, it is reduced, the child's number moves, the group's count moves. A payload that cannot be
//! read changes nothing.

use core::ops::Range;

use super::failure::Failure;
use super::groups::{operand_blocks, places};
use super::message::{Operand, Outcome, Reduction, Sender, Target};
use super::node::{Node, Refusal};
use super::records::{Group, OPERAND_ALIGN, Operation, group, options};
use super::reduction::Kernel;
use crate::bus::Bus;
use crate::handle::NONE;

impl Operation {
    /// What it does, as its first request said.
    #[inline]
    pub fn reduction(&self) -> Reduction {
        let Operation { operation, datatype, index, bytes, .. } = *self;
        let target = Target { address: self.target, handle: self.target_handle };
        Reduction { operation, datatype, index, bytes, target: (self.has_target != 0).then_some(target) }
    }

    #[inline]
    fn begin(number: u64, reduction: &Reduction, group: &Group) -> Operation {
        let Reduction { operation, datatype, index, bytes, target } = *reduction;
        let failure = match Kernel::new(reduction) {
            Err(failure) => failure as u32,
            Ok(_) if bytes > group.bytes => Failure::TooLong as u32,
            Ok(_) => 0,
        };
        Operation {
            number: number + 1,
            target: target.map_or(0, |target| target.address),
            target_handle: target.map_or(0, |target| target.handle),
            has_target: target.is_some().into(),
            bytes,
            operation,
            datatype,
            index,
            failure,
            ..Operation::default()
        }
    }
}

impl Node<'_> {
    /// An operand of a child.
    pub(super) fn request<B: Bus>(&mut self, bus: &mut B, sender: Sender, operand: &Operand) -> Result<(), Refusal> {
        let index = self.find_group(operand.group, sender.key)?;
        let record = &self.tables.groups[index];
        if record.status() != group::READY {
            return Err(record.failure().unwrap_or(Failure::NoGroup).into());
        }
        let at = operand.child as usize;
        let child = self.children(index).get(at).filter(|child| child.address == sender.address);
        let next = child.ok_or(Failure::NoGroup)?.next;
        let number = operand.number;
        if number < next {
            return Ok(());
        }
        let credits = u64::from(record.credits);
        // The second bound is for members that ignore the first: a record is not used again before all children have its result.
        let has_credit = number == next
            && number < record.resulted.saturating_add(credits)
            && number < record.distributed.saturating_add(2 * credits);
        if !has_credit || record.left != 0 {
            let failure = if has_credit { Failure::Left } else { Failure::Credit };
            self.fail_group(index, failure);
            return Err(failure.into());
        }
        let is_ordered = record.options & options::ORDERED != 0;
        let joined = record.joined;
        let Some(place) = self.operation_at(index, number) else { return Err(Failure::NoGroup.into()) };
        if self.tables.operations[place].number != number + 1 {
            self.tables.operations[place] = Operation::begin(number, &operand.reduction, record);
        }
        let operation = &self.tables.operations[place];
        let (arrived, bytes) = (operation.arrived, operation.bytes);
        let failure = match operand.failure {
            None if operation.reduction() != operand.reduction => Some(Failure::OperationMismatch),
            failure => failure,
        };
        let has_failed = operation.failure != 0 || failure.is_some();
        if !has_failed && bytes != 0 {
            let lands_at = if is_ordered { at as u32 } else { arrived.min(1) };
            let range = self.range_of(index, place, lands_at, bytes).ok_or(Failure::NoGroup)?;
            if let Err(fault) = bus.payload(0, &mut self.tables.operands[range]) {
                if arrived == 0 {
                    // Another child may say what the operation is.
                    self.tables.operations[place] = Operation::default();
                }
                return Err(Refusal::Payload(fault));
            }
        }
        let operation = &mut self.tables.operations[place];
        if let (0, Some(failure)) = (operation.failure, failure) {
            operation.failure = failure as u32;
        }
        operation.arrived = arrived.saturating_add(1);
        self.children_mut(index)[at].next = number + 1;
        if is_ordered {
            self.reduce_in_order(index, number, place);
        } else if arrived != 0 {
            self.reduce_from(index, 1, place);
        }
        if arrived.saturating_add(1) == joined {
            self.collect(index, number);
        }
        Ok(())
    }

    /// Reduces the operands that are next in the order of the children, as far as they are there. `at` is the operation's record.
    fn reduce_in_order(&mut self, index: usize, number: u64, at: usize) {
        loop {
            let next = self.tables.operations[at].reduced;
            if self.children(index).get(next as usize).is_none_or(|child| child.next <= number) {
                return;
            }
            // The first operand lies where the others are reduced to.
            if next != 0 {
                self.reduce_from(index, next, at);
            }
            self.tables.operations[at].reduced += 1;
        }
    }

    /// Reduces the operand in a place of an operation into the first. `at` is the operation's record.
    #[inline]
    fn reduce_from(&mut self, index: usize, place: u32, at: usize) {
        let operation = &self.tables.operations[at];
        if operation.failure != 0 || operation.bytes == 0 {
            return;
        }
        let Ok(kernel) = Kernel::new(&operation.reduction()) else { return };
        let bytes = operation.bytes as usize;
        let Some(from) = self.range_of(index, at, place, operation.bytes) else { return };
        // Places of an operation follow on each other.
        let Some(into) = from.start.checked_sub(self.tables.groups[index].place_bytes() * place as usize) else {
            return;
        };
        let (before, after) = self.tables.operands.split_at_mut(from.start);
        if let (Some(into), Some(from)) = (before.get_mut(into..into + bytes), after.get(..bytes)) {
            kernel.reduce(into, from);
        }
    }

    /// All children have sent an operation.
    #[inline]
    fn collect(&mut self, index: usize, number: u64) {
        let record = &mut self.tables.groups[index];
        record.collected = number + 1;
        if record.is_root != 0 {
            (record.sent, record.resulted) = (record.collected, record.collected);
        }
        self.distribute_shared(index);
        self.enqueue(index);
    }

    /// Children that read the results have each as soon as it is there. A target still has to be sent its own.
    #[inline]
    pub(super) fn distribute_shared(&mut self, index: usize) {
        let record = &self.tables.groups[index];
        if record.options & options::SHARED == 0 {
            return;
        }
        let (mut distributed, resulted, is_root) = (record.distributed, record.resulted, record.is_root != 0);
        // No more have records. Counts that another process has spoiled may be further apart.
        let records = 2 * u64::from(record.credits.min(self.tables.limits.credits));
        distributed = distributed.max(resulted.saturating_sub(records));
        while distributed < resulted {
            let record = self.operation_at(index, distributed).map(|at| &self.tables.operations[at]);
            if is_root && record.is_some_and(|operation| operation.has_target != 0) {
                break;
            }
            distributed += 1;
        }
        let record = &mut self.tables.groups[index];
        (record.distributed, record.told) = (distributed, record.joined);
    }

    /// The result of an operation, from the parent.
    pub(super) fn result<B: Bus>(&mut self, bus: &mut B, sender: Sender, outcome: &Outcome) -> Result<(), Refusal> {
        let index = self.find_group(outcome.group, sender.key)?;
        let record = self.tables.groups[index];
        if record.has_joined == 0 || record.parent != sender.address {
            return Err(Failure::NoGroup.into());
        }
        let number = outcome.number;
        if record.status() != group::READY || number < record.resulted {
            return Ok(());
        }
        let Some(operation) = self.operation_mut(index, number).map(|operation| *operation) else {
            return Err(Failure::NoGroup.into());
        };
        let expects_bytes = outcome.failure.is_none() && operation.has_target == 0;
        let bytes = if expects_bytes { operation.bytes } else { 0 };
        if number != record.resulted || number >= record.collected || outcome.bytes != bytes {
            self.fail_group(index, Failure::Credit);
            return Err(Failure::Credit.into());
        }
        if bytes != 0 {
            let range = self.operand_range(index, number, 0, bytes).ok_or(Failure::NoGroup)?;
            bus.payload(0, &mut self.tables.operands[range]).map_err(Refusal::Payload)?;
        }
        if let Some(operation) = self.operation_mut(index, number) {
            operation.failure = outcome.failure.map_or(0, |failure| failure as u32);
        }
        let record = &mut self.tables.groups[index];
        // The result may come before the send of the request was reported.
        (record.resulted, record.sent) = (number + 1, record.sent.max(number + 1));
        self.distribute_shared(index);
        self.enqueue(index);
        Ok(())
    }

    /// Where an operand of the operation in a record lies among all operands. None: the tables do not fit together.
    #[inline]
    fn range_of(&self, index: usize, at: usize, place: u32, bytes: u32) -> Option<Range<usize>> {
        let first = index * 2 * self.tables.limits.credits as usize;
        let range = self.tables.groups[index].place_of(at.checked_sub(first)? as u64, place, bytes)?;
        (range.end <= self.tables.operands.len()).then_some(range)
    }

    /// Where an operand of an operation lies among all operands. None: the tables do not fit together.
    #[inline]
    pub(super) fn operand_range(&self, index: usize, number: u64, place: u32, bytes: u32) -> Option<Range<usize>> {
        let range = self.tables.groups[index].place(number, place, bytes)?;
        (range.end <= self.tables.operands.len()).then_some(range)
    }
}

impl Group {
    /// Which of a group's records of operations is that of an operation. None: there are no credits.
    #[inline]
    pub fn record_of(number: u64, credits: u32) -> Option<u64> {
        let records = 2 * u64::from(credits);
        match records.is_power_of_two() {
            // A division takes longer than all else here.
            true => Some(number & (records - 1)),
            false => number.checked_rem(records),
        }
    }

    /// Bytes from one place of an operation to the next.
    fn place_bytes(&self) -> usize {
        (operand_blocks(self.bytes) * u64::from(OPERAND_ALIGN)) as usize
    }

    /// Where an operand of an operation lies among the operands of the node. In a group with an order, place `c` is that of child `c`, and
    /// place 0 is also where the operands are reduced to, and where the result comes. None: the record makes no sense.
    #[inline]
    pub fn place(&self, number: u64, place: u32, bytes: u32) -> Option<Range<usize>> {
        self.place_of(Self::record_of(number, self.credits)?, place, bytes)
    }

    /// As [`Group::place`], for the operation in one of the group's records.
    #[inline]
    fn place_of(&self, of_operation: u64, place: u32, bytes: u32) -> Option<Range<usize>> {
        if self.operands == NONE || bytes > self.bytes || u64::from(place) >= places(self) {
            return None;
        }
        let blocks = operand_blocks(self.bytes);
        // Counts that another process has spoiled may be of any size.
        let at = of_operation.checked_mul(places(self))?.checked_add(place.into())?.checked_mul(blocks)?;
        let at = at.checked_add(self.operands.into())?.checked_mul(OPERAND_ALIGN.into())?;
        let start = usize::try_from(at).ok()?;
        Some(start..start.checked_add(bytes as usize)?)
    }
}
