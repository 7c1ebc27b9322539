// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans of a run for a viewer: which unit worked on which message, with start and end; and the ranks' operations.

use crate::time::Time;

/// A unit of the simulated machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// The program of a rank.
    Program,
    /// The node's processor, in the library or in an interrupt.
    Host,
    /// The NIC's send engine.
    NicSend,
    /// The NIC's receive engine.
    NicReceive,
    /// The fabric, from the message's first bit in to its last bit out.
    Wire,
    /// One channel of the fabric (its number) while the message occupies it.
    Channel(u32),
}

/// One piece of work of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The node; for [`Unit::Program`], the rank.
    pub node: u32,
    pub unit: Unit,
    pub name: &'static str,
    pub start: Time,
    pub end: Time,
    /// Number of the message; 0: the span belongs to no message.
    pub message: u64,
    pub bytes: u64,
}

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperationKind {
    Put,
    Get,
    Atomic,
    FetchAtomic,
    Swap,
}

/// An operation of one rank on another's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Ranks: the initiator, and the target.
    pub from: u32,
    pub to: u32,
    pub kind: OperationKind,
    /// Bytes of the payload that the target took or gave.
    pub bytes: u64,
    pub start: Time,
    /// When the target has the payload, or the initiator the reply.
    pub end: Time,
    /// Number of the message.
    pub message: u64,
}

/// Spans and operations in the order in which they were recorded, up to a limit.
#[derive(Debug, Default)]
pub struct Trace {
    pub spans: Vec<Span>,
    /// Operations that ended before the spans reached the limit.
    pub operations: Vec<Operation>,
    pub limit: usize,
    /// Whether nothing is kept at this time: a region is observed, and no rank is inside.
    pub paused: bool,
    /// Spans beyond the limit, which are not kept.
    pub left_out: u64,
}

impl Trace {
    pub fn new(limit: usize) -> Trace {
        Trace { spans: Vec::new(), operations: Vec::new(), limit, paused: false, left_out: 0 }
    }

    pub fn add(&mut self, span: Span) {
        if self.paused {
            return;
        }
        if self.spans.len() < self.limit {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }

    pub fn add_operation(&mut self, operation: Operation) {
        if !self.paused && self.spans.len() < self.limit {
            self.operations.push(operation);
        }
    }
}
