// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a run can leave for a viewer: who worked on which message, from when to when.

use crate::time::Time;

/// Who did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unit {
    /// The program of a rank.
    Program,
    /// The node's processor, for the library or for an interrupt.
    Host,
    /// The NIC's sending side.
    NicSend,
    /// The NIC's receiving side.
    NicReceive,
    /// The message on its way, first bit in to last bit out.
    Wire,
    /// One channel of the fabric (its number) while the message holds it.
    Channel(u32),
}

/// A piece of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The node; of a program, the rank.
    pub node: u32,
    pub unit: Unit,
    pub name: &'static str,
    pub start: Time,
    pub end: Time,
    /// Spans of one message have one number; 0: none.
    pub message: u64,
    pub bytes: u64,
}

/// Spans in the order in which they were found out, up to a limit.
#[derive(Debug, Default)]
pub struct Trace {
    pub spans: Vec<Span>,
    pub limit: usize,
    /// Spans beyond the limit.
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
