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
    pub fn reduction(&self) -> Reduction {
        let Operation { operation, datatype, index, bytes, .. } = *self;
        let target = Target { address: self.target, handle: self.target_handle };
        Reduction { operation, datatype, index, bytes, target: (self.has_target != 0).then_some(target) }
    }

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
        let record = self.tables.groups[index];
        if record.status() != group::READY {
            return Err(record.failure().unwrap_or(Failure::NoGroup).into());
        }
        let at = operand.child as usize;
        let child = self.children(index).get(at).filter(|child| child.address == sender.address);
        let child = *child.ok_or(Failure::NoGroup)?;
        let number = operand.number;
        if number < child.next {
            return Ok(());
        }
        let credits = u64::from(record.credits);
        // The second bound is for members that ignore the first: a record is not used again before all children have its result.
        let has_credit = number == child.next
            && number < record.resulted.saturating_add(credits)
            && number < record.distributed.saturating_add(2 * credits);
        if !has_credit || record.left != 0 {
            let failure = if has_credit { Failure::Left } else { Failure::Credit };
            self.fail_group(index, failure);
            return Err(failure.into());
        }
        let Some(place) = self.operation_at(index, number) else { return Err(Failure::NoGroup.into()) };
        let mut operation = self.tables.operations[place];
        if operation.number != number + 1 {
            operation = Operation::begin(number, &operand.reduction, &record);
        }
        let failure = match operand.failure {
            None if operation.reduction() != operand.reduction => Some(Failure::OperationMismatch),
            failure => failure,
        };
        if operation.failure == 0 {
            operation.failure = failure.map_or(0, |failure| failure as u32);
        }
        let is_ordered = record.options & options::ORDERED != 0;
        let lands_at = match is_ordered {
            true => at as u32,
            false => operation.arrived.min(1),
        };
        if operation.failure == 0 && operation.bytes != 0 {
            let range = self.operand_range(index, number, lands_at, operation.bytes).ok_or(Failure::NoGroup)?;
            bus.payload(0, &mut self.tables.operands[range]).map_err(Refusal::Payload)?;
        }
        operation.arrived = operation.arrived.saturating_add(1);
        self.children_mut(index)[at].next = number + 1;
        if is_ordered {
            self.reduce_in_order(index, number, &mut operation);
        } else if operation.arrived > 1 {
            self.reduce_from(index, number, 1, &operation);
        }
        self.tables.operations[place] = operation;
        if operation.arrived == record.joined {
            self.collect(index, number);
        }
        Ok(())
    }

    /// Reduces the operands that are next in the order of the children, as far as they are there.
    fn reduce_in_order(&mut self, index: usize, number: u64, operation: &mut Operation) {
        loop {
            let next = operation.reduced as usize;
            if self.children(index).get(next).is_none_or(|child| child.next <= number) {
                return;
            }
            // The first operand lies where the others are reduced to.
            if next != 0 {
                self.reduce_from(index, number, operation.reduced, operation);
            }
            operation.reduced += 1;
        }
    }

    /// Reduces the operand in a place of an operation into the first.
    fn reduce_from(&mut self, index: usize, number: u64, place: u32, operation: &Operation) {
        if operation.failure != 0 || operation.bytes == 0 {
            return;
        }
        let Ok(kernel) = Kernel::new(&operation.reduction()) else { return };
        let ranges = [0, place].map(|place| self.operand_range(index, number, place, operation.bytes));
        let [Some(into), Some(from)] = ranges else { return };
        let (before, after) = self.tables.operands.split_at_mut(from.start);
        if let (Some(into), Some(from)) = (before.get_mut(into), after.get(..from.len())) {
            kernel.reduce(into, from);
        }
    }

    /// All children have sent an operation.
    fn collect(&mut self, index: usize, number: u64) {
        let record = &mut self.tables.groups[index];
        record.collected = number + 1;
        if record.is_root != 0 {
            (record.sent, record.resulted) = (record.collected, record.collected);
        }
        self.enqueue(index);
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
        self.enqueue(index);
        Ok(())
    }

    /// Where an operand of an operation lies among all operands. None: the tables do not fit together.
    pub(super) fn operand_range(&self, index: usize, number: u64, place: u32, bytes: u32) -> Option<Range<usize>> {
        let record = &self.tables.groups[index];
        if record.operands == NONE || bytes > record.bytes || u64::from(place) >= places(record) {
            return None;
        }
        let of_operation = number.checked_rem(2 * u64::from(record.credits))?;
        let blocks = operand_blocks(record.bytes);
        // Counts that another process has spoiled may be of any size.
        let at = of_operation.checked_mul(places(record))?.checked_add(place.into())?.checked_mul(blocks)?;
        let at = at.checked_add(record.operands.into())?.checked_mul(OPERAND_ALIGN.into())?;
        let start = usize::try_from(at).ok()?;
        let range = start..start.checked_add(bytes as usize)?;
        (range.end <= self.tables.operands.len()).then_some(range)
    }
}
