// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations of a group that are under way at once, for front doors whose calls do not wait. [`Queue::complete`] is for those that also have
//! calls which do.
//!
//! Invariants
//! 1. Operations are carried on in the order in which they were added, and one only after the one before has started all its operations of the
//!    node ([`Pending::has_started_all`]). So all members start the same operations of the node in the same order.
//! 2. None starts operation `n + credits` of the node while one before it has yet to read `n`. That all requests of `n` have come does not
//!    suffice: they may have come after the one before was last carried on, and others write their lines of `n` again when they have this
//!    member's request for `n + credits`.

use std::collections::VecDeque;

use selvedge_nic::aggregation::Failure;

use super::carrying_on::Idle;
use super::collectives::Pending;
use super::member::Member;

/// Turns between looks at the clock.
const CHECK_EVERY: u32 = 1024;

/// A member and its operations under way.
pub struct Queue {
    member: Member,
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    first: u64,
    turns: u32,
}

struct Entry {
    pending: Pending,
    outcome: Option<Result<(), Failure>>,
    is_taken: bool,
}

impl Queue {
    pub fn new(member: Member) -> Queue {
        Queue { member, entries: VecDeque::new(), first: 0, turns: 0 }
    }

    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Adds an operation. Returns its number.
    pub fn add(&mut self, pending: Pending) -> u64 {
        self.entries.push_back(Entry { pending, outcome: None, is_taken: false });
        self.advance();
        self.first + self.entries.len() as u64 - 1
    }

    /// Carries on what can be, and checks now and then whether the other members are there. If the group has ended, all operations are over.
    pub fn advance(&mut self) {
        self.turns = self.turns.wrapping_add(1);
        if self.turns % CHECK_EVERY == 0 {
            self.member.look_after_members();
        }
        advance(&mut self.entries, &mut self.member);
    }

    /// Waits until an operation is over, which begins after those under way. They go on meanwhile: `over` hears which of them end, with their
    /// outcomes, and they are forgotten.
    #[inline]
    pub fn complete(
        &mut self,
        pending: Pending,
        idle: Idle<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        match self.entries.is_empty() {
            true => self.member.complete(pending, idle),
            false => self.complete_last(pending, idle, over),
        }
    }

    #[cold]
    fn complete_last(
        &mut self,
        pending: Pending,
        idle: Idle<'_>,
        over: &mut dyn FnMut(u64, Result<(), Failure>),
    ) -> Result<(), Failure> {
        let number = self.add(pending);
        let Queue { member, entries, first, .. } = self;
        let outcome = member.wait(idle, |member| {
            advance(entries, member);
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

/// Carries on what can be.
fn advance(entries: &mut VecDeque<Entry>, member: &mut Member) {
    let (mut may_start, mut unread) = (true, None);
    for entry in entries.iter_mut() {
        if entry.outcome.is_none() {
            // In a group that has ended none starts: members may have ended different ones, and would not agree on the number of the next.
            if !may_start || (entry.pending.is_new() && member.failure().is_some()) {
                break;
            }
            member.has_yet_to_read(unread);
            entry.outcome = member.advance(&mut entry.pending);
            unread = unread.or(entry.pending.unread().filter(|_| entry.outcome.is_none()));
        }
        may_start = entry.pending.has_started_all(member);
    }
    // Whoever waits carries its operation on without a queue, which is empty then.
    member.has_yet_to_read(None);
    if let Some(failure) = member.failure().filter(|_| member.others_are_out()) {
        let left = entries.iter_mut().filter(|entry| entry.outcome.is_none());
        left.for_each(|entry| entry.outcome = Some(Err(failure)));
    }
}
