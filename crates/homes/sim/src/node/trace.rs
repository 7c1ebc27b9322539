// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Spans of a run for a viewer: which unit worked on which message, with start and end.

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

/// Spans in the order in which they were recorded, up to a limit.
#[derive(Debug, Default)]
pub struct Trace {
    pub spans: Vec<Span>,
    pub limit: usize,
    /// Spans beyond the limit, which are not kept.
    pub left_out: u64,
}

impl Trace {
    pub fn new(limit: usize) -> Trace {
        Trace { spans: Vec::new(), limit, left_out: 0 }
    }

    pub fn add(&mut self, span: Span) {
        if self.spans.len() < self.limit {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }
}
