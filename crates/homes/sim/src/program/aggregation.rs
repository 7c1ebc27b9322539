// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A rank as a member of groups that reduce in the switches (seed 001, section III): it joins, and its vectors are
//! reduced in pieces of at most one request, as many at a time as the group has credits.
//!
//! Its NIC has the tables of its memberships, and receives the messages of aggregation nodes.

use std::collections::VecDeque;

use selvedge_nic::aggregation::member::{GroupState, Pieces};
use selvedge_nic::aggregation::message::{Message, Reduction, Sender, Target};
use selvedge_nic::aggregation::{Failure, StartError};
use selvedge_nic::arithmetic::{Datatype, Operation};
use selvedge_nic::tables::{Command, Side};

use crate::node::{Bytes, RankRequest};
use crate::time::Time;

use super::process::Process;

/// A group that a rank has joined.
#[derive(Clone, Debug)]
pub struct JoinedGroup {
    handle: u64,
    node: u64,
    key: u64,
    credits: u32,
    /// How results reach the rank. `None`: only down the tree.
    target: Option<Target>,
    /// Longest request, in bytes.
    pub bytes: u32,
}

/// A reduction: values of a type, by an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduce {
    pub operation: Operation,
    pub datatype: Datatype,
}

impl Reduce {
    /// Sums of 8-byte words, with wrapping addition.
    pub const WORDS: Reduce = Reduce { operation: Operation::Sum, datatype: Datatype::Uint64 };
    /// The OR of bytes: a broadcast is that of the root's bytes and zeros.
    pub const BITS: Reduce = Reduce { operation: Operation::Bor, datatype: Datatype::Uint8 };
}

impl Process {
    /// Joins group `number` of the ranks `members`, in one of the trees of the job. Returns when the group is formed.
    pub async fn join_group(&self, number: u32, members: &[u32]) -> Result<JoinedGroup, Failure> {
        let aggregation = self.core.borrow().aggregation.clone().ok_or(Failure::NoTree)?;
        let order = members.iter().position(|rank| *rank == self.rank()).ok_or(Failure::NoGroup)?;
        let (key, target) = (aggregation.granted.key, aggregation.target(number));
        let (node, join) = aggregation.join(number, order, members).ok_or(Failure::NoTree)?;
        let made = self.core.borrow_mut().tables.nic().member().join(node, key, &join);
        let (handle, message) = made.map_err(|_| Failure::NoRoom)?;
        self.send_to_node((node, key), message, Bytes::new()).await;
        loop {
            let state = self.core.borrow_mut().tables.nic().member().state(handle);
            match state {
                Some(GroupState::Ready { credits, bytes }) => {
                    return Ok(JoinedGroup { handle, node, key, credits, target, bytes });
                }
                Some(GroupState::Joining) => self.ask(RankRequest::Wait { until: Time::MAX }).await,
                Some(GroupState::Failed(failure)) => return Err(failure),
                None => return Err(Failure::NoGroup),
            }
        }
    }

    /// Leaves a group, after its leaf node has reported the end of all reductions: a cast result comes before that.
    pub async fn leave_group(&self, group: JoinedGroup) {
        while !self.core.borrow_mut().tables.nic().member().is_idle(group.handle) {
            self.ask(RankRequest::Wait { until: Time::MAX }).await;
        }
        let left = self.core.borrow_mut().tables.nic().member().leave(group.handle);
        if let Some((node, message)) = left {
            self.send_to_node((node, group.key), message, Bytes::new()).await;
        }
    }

    /// Replaces the values of all members by their reduction. The bytes lie at `at` of the rank's memory; pieces of a
    /// request's size are under way at once, one for each credit of the group. If a piece fails, the others are still
    /// reduced: so members agree on the operations of the group, and it remains usable. Returns the first failure.
    pub async fn reduce_in_network(
        &self,
        group: &JoinedGroup,
        reduce: Reduce,
        at: u64,
        bytes: u64,
    ) -> Result<(), Failure> {
        let pieces = Pieces::new(bytes as usize, reduce.datatype.size_bytes(), group.bytes as usize)?;
        let mut numbers = VecDeque::new();
        let (mut next, mut reduced) = (0, Ok(()));
        while next < pieces.count() || !numbers.is_empty() {
            if next < pieces.count() && numbers.len() < group.credits as usize {
                let piece = pieces.range(next);
                let (from, length) = (at + piece.start as u64, piece.len() as u64);
                match self.start_piece(group, reduce, from, length).await {
                    Ok(number) => {
                        numbers.push_back(number);
                        next += 1;
                        continue;
                    }
                    // Its credit comes down the tree, after the cast result.
                    Err(StartError::Credit) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            let taken = numbers.front().and_then(|oldest| self.take_piece(group, *oldest));
            if let Some(outcome) = taken {
                numbers.pop_front();
                reduced = reduced.and(outcome);
                continue;
            }
            let repeat = self.core.borrow_mut().tables.nic().member().repeat(group.handle);
            match repeat {
                Some(message) => self.send_to_node((group.node, group.key), message, Bytes::new()).await,
                None => self.ask(RankRequest::Wait { until: Time::MAX }).await,
            }
        }
        reduced
    }

    fn take_piece(&self, group: &JoinedGroup, number: u64) -> Option<Result<(), Failure>> {
        self.core.borrow_mut().tables.nic().member().take(group.handle, number)
    }

    async fn start_piece(&self, group: &JoinedGroup, reduce: Reduce, at: u64, bytes: u64) -> Result<u64, StartError> {
        let Reduce { operation, datatype } = reduce;
        let reduction = Reduction {
            operation: operation as u8,
            datatype: datatype as u8,
            index: 0,
            bytes: bytes as u32,
            target: group.target,
        };
        let mut payload = Bytes::from_elem(0, bytes as usize);
        let read = self.core.borrow().memory.read(at, &mut payload);
        read.map_err(|_| StartError::Failed(Failure::OperationMismatch))?;
        let started = self.core.borrow_mut().tables.nic().member().start(group.handle, &reduction, at);
        let (number, message) = started?;
        self.send_to_node((group.node, group.key), message, payload).await;
        Ok(number)
    }

    async fn send_to_node(&self, (node, key): (u64, u64), message: Message, payload: Bytes) {
        let mut command = {
            let core = self.core.borrow();
            core.spare.borrow_mut().pop().unwrap_or_default()
        };
        let sender = Sender { address: self.rank().into(), key };
        let request = message.encode(sender);
        *command = Command { request, target: node, user_ptr: 0, source: Side::NOWHERE, sink: Side::NOWHERE };
        self.start(command, payload).await;
    }
}
