// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An operation at a node: operands of the children are reduced and go up; the result goes down (seed 001, section
//! III.D).
//!
//! Order of effects: the payload is stored, it is reduced, the child's number advances, the group's count advances. A
//! payload that cannot be read changes nothing.

use core::ops::Range;

use super::failure::Failure;
use super::groups::{operand_blocks, places};
use super::message::{Distribution, Operand, Outcome, Repeat, Sender};
use super::node::{Node, Refusal};
use super::records::{Child, Group, OPERAND_ALIGN, Operation, group, options};
use super::reduction::Kernel;
use crate::bus::Bus;
use crate::handle::NONE;

impl Node<'_> {
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
        // The second bound stops members that ignore the first: a record is reused when all children have its result.
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
            self.forget_wishes(index, place);
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
                    // The next child may describe the operation.
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

    /// Reduces the operands that have arrived and are next in the children's order. `at`: the operation's record.
    fn reduce_in_order(&mut self, index: usize, number: u64, at: usize) {
        loop {
            let next = self.tables.operations[at].reduced;
            if self.children(index).get(next as usize).is_none_or(|child| child.next <= number) {
                return;
            }
            // The first operand already lies in the place of the result.
            if next != 0 {
                self.reduce_from(index, next, at);
            }
            self.tables.operations[at].reduced += 1;
        }
    }

    /// Reduces the operand in `place` of an operation into the first. `at`: the operation's record.
    #[inline]
    fn reduce_from(&mut self, index: usize, place: u32, at: usize) {
        let operation = &self.tables.operations[at];
        if operation.failure != 0 || operation.bytes == 0 {
            return;
        }
        let Ok(kernel) = Kernel::new(&operation.reduction()) else { return };
        let bytes = operation.bytes as usize;
        let Some(from) = self.range_of(index, at, place, operation.bytes) else { return };
        // Places of an operation are adjacent.
        let Some(into) = from.start.checked_sub(self.tables.groups[index].place_bytes() * place as usize) else {
            return;
        };
        let (before, after) = self.tables.operands.split_at_mut(from.start);
        if let (Some(into), Some(from)) = (before.get_mut(into..into + bytes), after.get(..bytes)) {
            kernel.reduce(into, from);
        }
    }

    /// All children have sent their operand of an operation.
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

    /// Distributes results to children that read the node's memory. A result for a target is still sent.
    #[inline]
    pub(super) fn distribute_shared(&mut self, index: usize) {
        let record = &self.tables.groups[index];
        if record.options & options::SHARED == 0 {
            return;
        }
        let (mut distributed, resulted, is_root) = (record.distributed, record.resulted, record.is_root != 0);
        // There are no more records than this. Counts damaged by another process may differ by more.
        let records = 2 * u64::from(record.credits.min(self.tables.limits.credits));
        distributed = distributed.max(resulted.saturating_sub(records));
        while distributed < resulted {
            let record = self.operation_at(index, distributed).map(|at| &self.tables.operations[at]);
            if is_root && record.is_some_and(|operation| operation.distribution() == Some(Distribution::Alone)) {
                break;
            }
            distributed += 1;
        }
        let record = &mut self.tables.groups[index];
        (record.distributed, record.told) = (distributed, record.joined);
    }

    pub(super) fn result<B: Bus>(&mut self, bus: &mut B, sender: Sender, outcome: &Outcome) -> Result<(), Refusal> {
        let index = self.find_group(outcome.group, sender.key)?;
        let record = self.tables.groups[index];
        if record.has_joined == 0 || record.parent != sender.address {
            return Err(Failure::NoGroup.into());
        }
        let number = outcome.number;
        if record.status() != group::READY {
            return Ok(());
        }
        if number < record.resulted {
            return self.repeated(bus, index, outcome);
        }
        let Some(operation) = self.operation_mut(index, number).map(|operation| *operation) else {
            return Err(Failure::NoGroup.into());
        };
        let expects_bytes = outcome.failure.is_none() && operation.goes_down();
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
        // The result may arrive before the send of the request is reported.
        (record.resulted, record.sent) = (number + 1, record.sent.max(number + 1));
        self.distribute_shared(index);
        self.enqueue(index);
        Ok(())
    }

    /// Handles a result that the parent sent on request, since the end of the operation came without it.
    fn repeated<B: Bus>(&mut self, bus: &mut B, index: usize, outcome: &Outcome) -> Result<(), Refusal> {
        let Some(at) = self.repeatable(index, outcome.number) else { return Ok(()) };
        let operation = self.tables.operations[at];
        if operation.is_repeated != 0 || outcome.failure.is_some() || outcome.bytes != operation.bytes {
            return Ok(());
        }
        let range = self.range_of(index, at, 0, operation.bytes).ok_or(Failure::NoGroup)?;
        bus.payload(0, &mut self.tables.operands[range]).map_err(Refusal::Payload)?;
        self.tables.operations[at].is_repeated = 1;
        self.forget_question(index, at);
        self.enqueue(index);
        Ok(())
    }

    /// Clears the pending request to the parent for the result in this record.
    fn forget_question(&mut self, index: usize, at: usize) {
        let name = self.tables.limits.record_name(index, at);
        let record = &mut self.tables.groups[index];
        if record.asked == name {
            record.asked = 0;
        }
    }

    /// Clears requests for the result of a record that is reused: a cast may have delivered that result after a child,
    /// or this node, had requested it. All children have it.
    fn forget_wishes(&mut self, index: usize, at: usize) {
        self.forget_question(index, at);
        if self.tables.groups[index].is_wanted == 0 {
            return;
        }
        let name = self.tables.limits.record_name(index, at);
        for child in self.children_mut(index) {
            if child.wants == name {
                child.wants = 0;
            }
        }
    }

    /// Handles a child's request for a cast result that it has not received. One request at a time.
    pub(super) fn repeat(&mut self, sender: Sender, repeat: &Repeat) -> Result<(), Failure> {
        let index = self.find_group(repeat.group, sender.key)?;
        if self.tables.groups[index].status() != group::READY {
            // The child is informed of the failure.
            return Ok(());
        }
        let child = repeat.child as usize;
        self.children(index).get(child).filter(|child| child.address == sender.address).ok_or(Failure::NoGroup)?;
        let at = self.repeatable(index, repeat.number).ok_or(Failure::Credit)?;
        self.children_mut(index)[child].wants = self.tables.limits.record_name(index, at);
        self.tables.groups[index].is_wanted = 1;
        self.enqueue(index);
        Ok(())
    }

    /// The record of an operation that has ended without its result, while its operands are still there. A child
    /// without the result has not used its credit, so no later operation is in the record.
    fn repeatable(&self, index: usize, number: u64) -> Option<usize> {
        let at = self.operation_at(index, number)?;
        let operation = &self.tables.operations[at];
        let has_ended = number < self.tables.groups[index].resulted && operation.number == number.wrapping_add(1);
        let came_without =
            operation.distribution() == Some(Distribution::Multicast) && operation.failure == 0 && operation.bytes != 0;
        (has_ended && came_without).then_some(at)
    }

    /// The next result that a child re-requested: child, operation, available here (else ask the parent).
    pub(super) fn wanted(&mut self, index: usize) -> Option<(u32, u64, bool)> {
        let record = self.tables.groups[index];
        if record.is_wanted == 0 {
            return None;
        }
        let mut is_wanted = 0;
        for child in 0..record.joined.min(self.tables.limits.children) {
            let Some(&Child { wants, has_left, .. }) = self.children(index).get(child as usize) else { break };
            let Some(at) = self.tables.limits.named_record(index, wants).filter(|_| has_left == 0) else { continue };
            let number = self.tables.operations.get(at).map_or(0, |operation| operation.number).wrapping_sub(1);
            if self.repeatable(index, number) != Some(at) {
                self.children_mut(index)[child as usize].wants = 0;
                continue;
            }
            is_wanted = 1;
            let is_here = record.is_root != 0 || self.tables.operations[at].is_repeated != 0;
            if is_here || record.asked == 0 {
                return Some((child, number, is_here));
            }
        }
        self.tables.groups[index].is_wanted = is_wanted;
        None
    }

    /// The name of an operation's record, if its result is not here.
    pub(super) fn missing(&self, index: usize, number: u64) -> Option<u32> {
        let at = self.repeatable(index, number)?;
        (self.tables.operations[at].is_repeated == 0).then(|| self.tables.limits.record_name(index, at))
    }

    /// The bytes of an operand, given the operation's record. None: the tables do not fit together.
    #[inline]
    fn range_of(&self, index: usize, at: usize, place: u32, bytes: u32) -> Option<Range<usize>> {
        let first = index * 2 * self.tables.limits.credits as usize;
        let range = self.tables.groups[index].place_of(at.checked_sub(first)? as u64, place, bytes)?;
        (range.end <= self.tables.operands.len()).then_some(range)
    }

    /// The bytes of an operand, given the operation's number. None: the tables do not fit together.
    #[inline]
    pub(super) fn operand_range(&self, index: usize, number: u64, place: u32, bytes: u32) -> Option<Range<usize>> {
        let range = self.tables.groups[index].place(number, place, bytes)?;
        (range.end <= self.tables.operands.len()).then_some(range)
    }
}

impl Group {
    /// The index of an operation's record among the group's. None: there are no credits.
    #[inline]
    pub fn record_of(number: u64, credits: u32) -> Option<u64> {
        let records = 2 * u64::from(credits);
        match records.is_power_of_two() {
            // A division would take longer than all else here.
            true => Some(number & (records - 1)),
            false => number.checked_rem(records),
        }
    }

    /// Bytes from one place of an operation to the next.
    fn place_bytes(&self) -> usize {
        (operand_blocks(self.bytes) * u64::from(OPERAND_ALIGN)) as usize
    }

    /// The bytes of an operand among the operands of the node. In a group with an order, place `c` is that of child
    /// `c`; place 0 also takes the reduction and the result. None: the record is damaged.
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
        // Counts damaged by another process may have any value.
        let at = of_operation.checked_mul(places(self))?.checked_add(place.into())?.checked_mul(blocks)?;
        let at = at.checked_add(self.operands.into())?.checked_mul(OPERAND_ALIGN.into())?;
        let start = usize::try_from(at).ok()?;
        Some(start..start.checked_add(bytes as usize)?)
    }
}
