// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The costs of the aggregation node of a host: the ranks of the host reduce in memory that they share.
//!
//! ```text
//! rank ─ copies its operand ─┐                                                       ┌─> rank copies the result
//! rank ─ copies its operand ─┴─ each rank adds its part of all ─ post ─> switch ─ poll ┴─> rank copies the result
//! ```
//!
//! | step | keys of `[host]` |
//! |---|---|
//! | a rank's copy | `software_send_ns`, its bytes at `copy_MBps` |
//! | the first operand | `memory_access_ns`: the line comes from another processor; those of the next are on their way |
//! | each operand | `poll_ns`, a part of its bytes at `copy_MBps`: the ranks divide its words, each adds its part of all |
//! | the result of several parts | `memory_access_ns`: the ranks see each other's parts |
//! | to the switch and back | those of a member: `issue` and `receive` of `aggregation_request` and `aggregation_result` |
//! | a result to the ranks | its bytes at `copy_MBps` into shared memory; `memory_access_ns` and `receive`; a copy of each rank |
//!
//! Invariant: what the node takes and what it sends keeps its order.

use crate::machine::graph::Class;
use crate::machine::{Host, Machine};
use crate::time::Time;

/// Bytes that one rank adds at least: a word.
const WORD: u64 = 8;

#[derive(Clone, Copy, Debug)]
pub(super) struct HostReduction {
    /// The ranks that reduce.
    ranks: u64,
    /// Earliest time at which it takes the next operand, and at which it sends the next message up or down.
    free: Time,
    posted: Time,
    spread: Time,
}

impl HostReduction {
    pub fn new(ranks: u32) -> HostReduction {
        HostReduction { ranks: ranks.max(1).into(), free: Time::ZERO, posted: Time::ZERO, spread: Time::ZERO }
    }

    fn part(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.ranks).next_multiple_of(WORD).min(bytes)
    }

    /// Takes an operand that is in memory at `at`. Returns the time at which it has been added.
    pub fn take(&mut self, host: &Host, at: Time, bytes: u64) -> Time {
        let begins = self.free.max(at + host.memory_access);
        self.free = begins + host.poll + host.copy(self.part(bytes));
        self.free
    }

    /// Posts a message to a switch. Returns the time at which the adapter has it.
    pub fn post(&mut self, machine: &Machine, at: Time, bytes: u64) -> Time {
        let is_in_parts = self.part(bytes) < bytes;
        let whole = if is_in_parts { at + machine.host.memory_access } else { at };
        self.posted = self.posted.max(whole + machine.issue_of(Class::AggregationRequest, bytes));
        self.posted
    }

    /// Writes a result for the ranks. Returns the time at which it is in memory.
    pub fn spread(&mut self, host: &Host, at: Time, bytes: u64) -> Time {
        self.spread = self.spread.max(at + host.copy(bytes));
        self.spread
    }

    /// Returns the time at which a rank has seen what the adapter has delivered at `at`.
    pub fn seen(machine: &Machine, at: Time) -> Time {
        at + machine.host.memory_access + machine.graph.path(Class::AggregationResult).receive
    }
}
