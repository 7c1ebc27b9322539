// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations of a group that are under way at once, for front doors whose calls do not wait. [`Queue::complete`] is for those that also have
//! calls which do.
//!
//! What carries operations on ([`Carries`]) is this process's side of a group: a [`Member`] of a live one, or that of a group whose nodes are
//! elsewhere, which `between_hosts` has.
//!
//! Invariants
//! 1. Operations are carried on in the order in which they were added, and one only after the one before has started all its operations of the
//!    node. So all members start the same operations of the node in the same order.
//! 2. An operation that is over and taken is forgotten when all before it are.

use std::collections::VecDeque;

use selvedge_nic::aggregation::Failure;

use super::carrying_on::Idle;
use super::collectives::Pending;
use super::member::Member;

/// Turns between looks at the clock.
const CHECK_EVERY: u32 = 1024;

/// A process's side of a group.
pub trait Carries: Sized {
    /// An operation under way.
    type Running;

    /// Whether an operation is one that the group's nodes are good for. All members say the same.
    fn takes(&self, operation: &Pending) -> bool;

    /// An operation that is to be carried on. None of its operations of the node is started.
    fn begin(&mut self, operation: Pending) -> Self::Running;

    /// Carries on what can be, and writes down the outcomes of what is over. The operations are in the order of their beginning. If the group has
    /// ended, all are over.
    fn advance(&mut self, entries: &mut VecDeque<Entry<Self::Running>>);

    /// Looks now and then whether the other members, and the nodes, are there.
    fn look_after_members(&mut self);

    /// Calls `look` until it says something. Fails if the group has ended.
    fn wait(
        &mut self,
        idle: Idle<'_>,
        look: &mut dyn FnMut(&mut Self) -> Option<Result<(), Failure>>,
    ) -> Result<(), Failure>;

    /// Waits until an operation is over, which is the only one under way.
    #[inline]
    fn complete(&mut self, operation: Pending, idle: Idle<'_>) -> Result<(), Failure> {
        let mut entries = VecDeque::from([Entry::new(self.begin(operation))]);
        self.wait(idle, &mut |carrier| {
            carrier.advance(&mut entries);
            entries.front().and_then(|entry| entry.outcome)
        })
    }
}

/// An operation of a queue.
pub struct Entry<R> {
    pub running: R,
    /// None: it is not over.
    pub outcome: Option<Result<(), Failure>>,
    is_taken: bool,
}

impl<R> Entry<R> {
    fn new(running: R) -> Entry<R> {
        Entry { running, outcome: None, is_taken: false }
    }
}

/// A process's side of a group, and its operations under way.
pub struct Queue<C: Carries = Member> {
    carrier: C,
    entries: VecDeque<Entry<C::Running>>,
    /// The number of the first entry.
    first: u64,
    turns: u32,
}

impl<C: Carries> Queue<C> {
    pub fn new(carrier: C) -> Queue<C> {
        Queue { carrier, entries: VecDeque::new(), first: 0, turns: 0 }
    }

    #[inline]
    pub fn carrier(&self) -> &C {
        &self.carrier
    }

    /// Adds an operation. Returns its number.
    pub fn add(&mut self, operation: Pending) -> u64 {
        let running = self.carrier.begin(operation);
        self.entries.push_back(Entry::new(running));
        self.advance();
        self.first + self.entries.len() as u64 - 1
    }

    /// Carries on what can be, and checks now and then whether the other members are there. If the group has ended, all operations are over.
    pub fn advance(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns % CHECK_EVERY == 0 {
            self.carrier.look_after_members();
        }
        self.carrier.advance(&mut self.entries);
    }

    /// Waits until an operation is over, which begins after those under way. They go on meanwhile: `over` hears which of them end, with their
    /// outcomes, and they are forgotten.
    #[inline]
    pub fn complete(
        &mut self,
        operation: Pending,
        idle: Idle<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        match self.entries.is_empty() {
            true => self.carrier.complete(operation, idle),
            false => self.complete_last(operation, idle, over),
        }
    }

    #[cold]
    fn complete_last(
        &mut self,
        operation: Pending,
        idle: Idle<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        let number = self.add(operation);
        let Queue { carrier, entries, first, .. } = self;
        let outcome = carrier.wait(idle, &mut |carrier| {
            carrier.advance(entries);
            let before = entries.iter_mut().enumerate().take_while(|(at, _)| *first + *at as u64 != number);
            for (at, entry) in before.filter(|(_, entry)| !entry.is_taken) {
                if let Some(outcome) = entry.outcome {
                    entry.is_taken = true;
                    over(*first + at as u64, outcome);
                }
            }
            entries.back().and_then(|own| own.outcome)
        });
        // If the group has ended it may be there yet.
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

    /// The outcome of an operation, once it is over. None: it is not.
    pub fn outcome(&self, number: u64) -> Option<Result<(), Failure>> {
        self.entry(number).map_or(Some(Ok(())), |at| self.entries[at].outcome)
    }

    /// As [`Queue::outcome`], after all have been carried on if it was not over.
    pub fn test(&mut self, number: u64) -> Option<Result<(), Failure>> {
        if self.outcome(number).is_none() {
            self.advance();
        }
        self.outcome(number)
    }

    /// Forgets an operation that is over.
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
