// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A member's own replica of the node of its group.
//!
//! The node is a value, so every member can run one: it takes the same requests in the same order, those of each
//! operation in the order of the members, and gets the same result. No locks, messages or recovery are needed.
//!
//! Cost: some 20 ns and the arithmetic for each request.

use selvedge_nic::aggregation::message::{Join, Message, Operand, Reduction, Sender};
use selvedge_nic::aggregation::records::{Group, LEVELS_MAX, Operation, group, options};
use selvedge_nic::aggregation::{Failure, Limits, OwnNode, Quota, Refusal};
use selvedge_nic::{Bus, NoMemory};

use super::segment::Shape;

/// The number and the key of the node's only job.
const JOB: u32 = 1;
const KEY: u64 = 1;

/// The node of one group, which is the root of its tree.
pub(super) struct Replica {
    own: OwnNode,
    handle: u64,
}

impl Replica {
    /// A node whose group has formed.
    pub(super) fn new(shape: &Shape) -> Result<Replica, Failure> {
        let Shape { members, credits, bytes } = *shape;
        // Requests come in the order of the members, so the node needs no own order. Operations have two operands at a
        // time.
        let operand_blocks = (4 * credits * bytes.div_ceil(64)).next_power_of_two();
        let limits = Limits { jobs: 1, trees: 1, groups: 1, children: members, credits, operand_blocks };
        let mut own = OwnNode::new(limits);
        let mut node = own.node();
        node.admit(JOB, KEY, Quota { groups: 1, credits, bytes }).map_err(|_| Failure::NoRoom)?;
        node.set_tree(0, None);
        let mut expected = [0; LEVELS_MAX];
        expected[0] = members as u16;
        for rank in 0..members {
            let join = Join {
                job: JOB,
                number: 0,
                tree: 0,
                options: options::SHARED,
                handle: 0,
                order: rank,
                members: 1,
                total: members,
                expected,
                credits: credits as u16,
                bytes,
            };
            node.take(&mut NoMemory, sender(rank), Message::Join(join)).map_err(failure_of)?;
        }
        let formed = node.tables.groups[0];
        let is_whole = formed.status() == group::READY && (formed.credits, formed.bytes) == (credits, bytes);
        let handle = node.handle(0).filter(|_| is_whole);
        let handle = handle.ok_or(formed.failure().unwrap_or(Failure::NoRoom))?;
        Ok(Replica { own, handle })
    }

    /// The number of operations that all members have sent.
    #[inline(always)]
    pub(super) fn collected(&self) -> u64 {
        self.own.groups[0].collected
    }

    /// Takes a member's request with the bytes `operand`. A failure is that of its operation.
    #[inline]
    pub(super) fn take<B: Bus>(
        &mut self,
        operand: &mut B,
        rank: u32,
        number: u64,
        reduction: Reduction,
        failure: Option<Failure>,
    ) -> Result<(), Failure> {
        let request = Operand { group: self.handle, child: rank, number, reduction, failure };
        self.own.node().take(operand, sender(rank), Message::Request(request)).map_err(failure_of)
    }

    /// The outcome of a recent operation that all members have sent.
    #[inline]
    pub(super) fn outcome(&self, number: u64) -> Result<(), Failure> {
        let record =
            Group::record_of(number, self.own.limits.credits).and_then(|at| self.own.operations.get(at as usize));
        record.and_then(Operation::failure).map_or(Ok(()), Err)
    }

    #[inline]
    pub(super) fn result(&self, number: u64, bytes: usize) -> Result<&[u8], Failure> {
        let range = self.own.groups[0].place(number, 0, bytes as u32).ok_or(Failure::TooLong)?;
        self.own.operands.get(range).ok_or(Failure::TooLong)
    }
}

fn sender(rank: u32) -> Sender {
    Sender { address: u64::from(rank) + 1, key: KEY }
}

fn failure_of(refusal: Refusal) -> Failure {
    match refusal {
        Refusal::Failed(failure) => failure,
        Refusal::Message(_) | Refusal::Payload(_) => Failure::NoGroup,
    }
}
