// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Outstanding operations of a group, for front doors whose calls do not wait. [`Queue::complete`] is for front doors
//! that also have waiting calls.
//!
//! A [`ProgressEngine`] advances them: this process's side of a group.
//!
//! Invariants
//! 1. Operations advance in the order in which they were added. Each advances only after the one before has started all
//!    its operations of the node. So all members start the same operations of the node in the same order.
//! 2. An operation that has ended and was taken is removed when all before it are removed.

use std::collections::VecDeque;

use selvedge_nic::aggregation::Failure;

use super::collectives::Pending;
use super::member::Member;
use super::progress_engine::{ProgressEngine, ProgressHook, QueueEntry};

/// Turns between reads of the clock.
const CHECK_EVERY: u32 = 1024;

/// A process's side of a group, and its operations under way.
pub struct Queue<C: ProgressEngine = Member> {
    engine: C,
    entries: VecDeque<QueueEntry<C::Running>>,
    first: u64,
    turns: u32,
}

impl<C: ProgressEngine> Queue<C> {
    pub fn new(engine: C) -> Queue<C> {
        Queue { engine, entries: VecDeque::new(), first: 0, turns: 0 }
    }

    #[inline]
    pub fn engine(&self) -> &C {
        &self.engine
    }

    /// Adds an operation. Returns its number.
    pub fn add(&mut self, operation: Pending) -> u64 {
        let running = self.engine.begin(operation);
        self.entries.push_back(QueueEntry::new(running));
        self.advance();
        self.first + self.entries.len() as u64 - 1
    }

    /// Advances all operations, and checks at intervals that the others are alive. In an ended group all operations
    /// end.
    pub fn advance(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns % CHECK_EVERY == 0 {
            self.engine.check_members_if_due();
        }
        self.engine.advance(&mut self.entries);
    }

    /// Runs an operation to its end, after those under way. They advance meanwhile: `over` gets the outcomes of those
    /// that end, and they are removed.
    #[inline]
    pub fn complete(
        &mut self,
        operation: Pending,
        idle: ProgressHook<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        match self.entries.is_empty() {
            true => self.engine.complete(operation, idle),
            false => self.complete_last(operation, idle, over),
        }
    }

    #[cold]
    fn complete_last(
        &mut self,
        operation: Pending,
        idle: ProgressHook<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        let number = self.add(operation);
        let Queue { engine, entries, first, .. } = self;
        let outcome = engine.wait(idle, &mut |engine| {
            engine.advance(entries);
            let before = entries.iter_mut().enumerate().take_while(|(at, _)| *first + *at as u64 != number);
            for (at, entry) in before.filter(|(_, entry)| !entry.is_taken) {
                if let Some(outcome) = entry.outcome {
                    entry.is_taken = true;
                    over(*first + at as u64, outcome);
                }
            }
            entries.back().and_then(|own| own.outcome)
        });
        // If the group has ended, the operation may still be queued.
        if let Some(own) = self.entries.back_mut() {
            own.outcome = Some(outcome);
        }
        self.take(number);
        outcome
    }

    /// Whether no operation is under way.
    pub fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    /// The outcome of an operation. `None`: it has not ended.
    pub fn outcome(&self, number: u64) -> Option<Result<(), Failure>> {
        self.entry(number).map_or(Some(Ok(())), |at| self.entries[at].outcome)
    }

    /// Like [`Queue::outcome`], but first advances all operations if this one has not ended.
    pub fn test(&mut self, number: u64) -> Option<Result<(), Failure>> {
        if self.outcome(number).is_none() {
            self.advance();
        }
        self.outcome(number)
    }

    /// Removes an operation that has ended.
    pub fn take(&mut self, number: u64) {
        if let Some(at) = self.entry(number) {
            self.entries[at].is_taken = true;
        }
        while self.entries.front().is_some_and(|entry| entry.is_taken && entry.outcome.is_some()) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    fn entry(&self, number: u64) -> Option<usize> {
        let at = usize::try_from(number.checked_sub(self.first)?).ok()?;
        (at < self.entries.len()).then_some(at)
    }
}
