// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of collective operations at a member ([`super::collectives`]).
//!
//! ```text
//! short:  New ─> Short ─> Over
//! long:   New ─> Meeting ─> HasDone ─> Finishing ─> Over
//!                   └─> Pieces ─> Over                        memory that cannot be reached
//! ```

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering::SeqCst;

use selvedge_nic::aggregation::Failure;

use super::collectives::{
    Collective, NO_WORDS, Pending, Phase, SHARES_OPERANDS, SHARES_RESULTS, kind, without_operands,
};
use super::member::{Contribution, InlineWords, Member};
use super::progress_engine::{ProgressEngine, ProgressHook, QueueEntry};

impl Member {
    /// Advances an operation as far as possible. `None`: it has not ended. The group's operations advance in the order
    /// in which they began. Each advances only after the one before has started all ([`Pending::has_started_all`]).
    #[inline(always)]
    pub fn advance(&mut self, pending: &mut Pending) -> Option<Result<(), Failure>> {
        let outcome = match pending.phase {
            Phase::New if pending.is_short(self) => self.begin_short(pending)?,
            Phase::Short(number) => self.advance_short(pending, number)?,
            _ => self.advance_long(pending)?,
        };
        pending.phase = Phase::Over;
        Some(self.report(outcome))
    }

    #[inline(always)]
    fn begin_short(&mut self, pending: &mut Pending) -> Option<Result<(), Failure>> {
        if let Err(failure) = pending.check(self) {
            return Some(Err(failure));
        }
        let (reduction, contribution) = pending.request(self, 0..pending.bytes);
        match self.try_start(pending.tag(), &reduction, contribution)? {
            Ok(number) => {
                pending.phase = Phase::Short(number);
                self.advance_short(pending, number)
            }
            Err(failure) => Some(Err(failure)),
        }
    }

    #[inline(always)]
    fn advance_short(&mut self, pending: &mut Pending, number: u64) -> Option<Result<(), Failure>> {
        let outcome = match pending.collective {
            // The root of a broadcast does not wait, nor do the other members of a reduction. The others read a
            // broadcast once it is there.
            Collective::Broadcast { root, .. } if root == self.rank() => self.defer_outcome(number),
            Collective::Broadcast { root, .. } if !self.has_sent(number, root) => return None,
            Collective::Broadcast { root, .. } if self.agrees_with(number, root) => self.defer_outcome(number),
            Collective::Broadcast { .. } => Err(Failure::OperationMismatch),
            Collective::Reduce { root: Some(root), .. } | Collective::Allgather { root: Some(root), .. }
                if root != self.rank() =>
            {
                self.defer_outcome(number)
            }
            _ => self.outcome(number)?,
        };
        // SAFETY: the constructor's caller keeps its contract.
        Some(outcome.and_then(|()| unsafe { pending.take(self, number, 0..pending.bytes) }))
    }

    #[inline(never)]
    fn advance_long(&mut self, pending: &mut Pending) -> Option<Result<(), Failure>> {
        loop {
            let step = match pending.phase {
                Phase::New => {
                    if let Err(failure) = pending.check(self) {
                        return Some(Err(failure));
                    }
                    let descriptor = pending.descriptor(self);
                    let start = self.try_start(
                        pending.tag(),
                        &without_operands(kind::EXCHANGE),
                        Contribution::Words(&descriptor),
                    )?;
                    start.map(Phase::Meeting)
                }
                Phase::Meeting(number) => self.outcome(number)?.and_then(|()| self.meet(pending, number)),
                Phase::HasDone => {
                    let start =
                        self.try_start(pending.tag(), &without_operands(kind::DONE), Contribution::Words(&NO_WORDS))?;
                    start.map(Phase::Finishing)
                }
                Phase::Finishing(number) => {
                    let outcome = self.outcome(number)?;
                    if let (Ok(()), Collective::ReduceScatter { .. }) = (&outcome, &pending.collective) {
                        let part = mem::take(&mut pending.part);
                        // SAFETY: the buffer can be written for this member's part, by the contract of the operation's constructor.
                        unsafe { pending.buffer.to.copy_from_nonoverlapping(part.as_ptr(), part.len()) };
                    }
                    return Some(outcome);
                }
                Phase::Pieces { .. } => return self.advance_pieces(pending),
                Phase::Short(_) | Phase::Over => return Some(Ok(())),
            };
            match step {
                Ok(phase) => pending.phase = phase,
                // Others may still write to this member's memory.
                Err(_) if self.failure().is_some() && !self.others_are_idle() => return None,
                Err(failure) => return Some(Err(failure)),
            }
        }
    }

    /// Does this member's part after all members have given the addresses of their memory. If it cannot, the group
    /// ends, because the others' results are incomplete. Its result counts only when the others are idle
    /// ([`Member::others_are_idle`]).
    fn meet(&mut self, pending: &mut Pending, number: u64) -> Result<Phase, Failure> {
        // Another process may have changed this member's own line since, so the descriptor is made anew.
        let own = pending.descriptor(self);
        let of = |member| if member == self.rank() { own } else { self.words(number, member) };
        let all: Vec<InlineWords> = (0..self.size()).map(of).collect();
        let agreed = pending.agreed();
        if all.iter().any(|descriptor| descriptor[3..] != agreed) {
            return Err(Failure::OperationMismatch);
        }
        pending.check_elements()?;
        let all_share = all.iter().all(|descriptor| descriptor[2] == SHARES_OPERANDS | SHARES_RESULTS);
        let reaches_all = self.peer_memory.all_attach || (self.peer_memory.all_map && all_share);
        if !reaches_all {
            return Ok(Phase::Pieces { first: 0, started: 0, taken: 0 });
        }
        let (places, rank) = (self.shared.places(), self.rank());
        let reach = |which: usize| {
            let of = |(member, descriptor): (usize, &InlineWords)| {
                let bytes = match pending.collective {
                    Collective::Allgather { .. } => pending.gathered(self, member).len(),
                    _ => pending.bytes,
                };
                self.peer_memory.reach(places, member, rank, descriptor[which], bytes)
            };
            all.iter().enumerate().map(of).collect::<Vec<_>>()
        };
        let (operands, results) = (reach(0), reach(1));
        // A member that finds the group ended waits until no member is at work. So this mark comes before the check,
        // and none begins afterwards.
        self.shared.places()[rank].is_at_work.store(1, SeqCst);
        let outcome = match self.failure() {
            Some(failure) => Err(failure),
            // SAFETY: the members have just given these addresses.
            None => unsafe { pending.work(self, &operands, &results) },
        };
        self.shared.places()[rank].is_at_work.store(0, SeqCst);
        outcome.map(|()| Phase::HasDone).map_err(|failure| self.fail(failure))
    }

    /// Moves the data through the node in pieces. As many are under way as the group has credits.
    fn advance_pieces(&mut self, pending: &mut Pending) -> Option<Result<(), Failure>> {
        let (most, bytes, credits) = (self.bytes_max(), pending.bytes, self.credits());
        let range = |piece: usize| piece * most..bytes.min((piece + 1) * most);
        let pieces = bytes.div_ceil(most);
        loop {
            let Phase::Pieces { first, started, taken } = pending.phase else { return Some(Ok(())) };
            if taken == pieces {
                return Some(Ok(()));
            }
            let step = if started < pieces && started < taken + credits {
                let (reduction, contribution) = pending.request(self, range(started));
                let start = self.try_start(pending.tag(), &reduction, contribution)?;
                start.map(|number| (if started == 0 { number } else { first }, started + 1, taken))
            } else {
                let number = first + taken as u64;
                // SAFETY: the constructor's caller keeps its contract.
                let outcome = self.outcome(number)?.and_then(|()| unsafe { pending.take(self, number, range(taken)) });
                outcome.map(|()| (first, started, taken + 1))
            };
            match step {
                Ok((first, started, taken)) => pending.phase = Phase::Pieces { first, started, taken },
                Err(failure) => return Some(Err(failure)),
            }
        }
    }
}

impl ProgressEngine for Member {
    type Running = Pending;

    fn supports(&self, _: &Pending) -> bool {
        true
    }

    fn begin(&mut self, operation: Pending) -> Pending {
        operation
    }

    /// No operation starts operation `n + credits` of the node before all earlier ones have read `n`. It does not
    /// suffice that all requests of `n` have come: they may have come after an earlier operation last advanced, and
    /// others overwrite their lines of `n` when they have this member's request for `n + credits`.
    fn advance(&mut self, entries: &mut VecDeque<QueueEntry<Pending>>) {
        let (mut may_start, mut unread) = (true, None);
        for QueueEntry { running, outcome, .. } in entries.iter_mut() {
            if outcome.is_none() {
                // In a group that has ended no operation starts: members may have ended different ones, and would
                // disagree on the next number.
                if !may_start || (running.is_new() && self.failure().is_some()) {
                    break;
                }
                self.set_oldest_unread(unread);
                *outcome = Member::advance(self, running);
                unread = unread.or(running.unread().filter(|_| outcome.is_none()));
            }
            may_start = running.has_started_all(self);
        }
        // A member that waits advances its operation without a queue. The queue is empty then.
        self.set_oldest_unread(None);
        if let Some(failure) = self.failure().filter(|_| self.others_are_idle()) {
            let left = entries.iter_mut().filter(|entry| entry.outcome.is_none());
            left.for_each(|entry| entry.outcome = Some(Err(failure)));
        }
    }

    fn check_members_if_due(&mut self) {
        Member::check_members_if_due(self);
    }

    fn wait(
        &mut self,
        idle: ProgressHook<'_>,
        look: &mut dyn FnMut(&mut Member) -> Option<Result<(), Failure>>,
    ) -> Result<(), Failure> {
        Member::wait(self, idle, look)
    }

    #[inline]
    fn complete(&mut self, mut operation: Pending, idle: ProgressHook<'_>) -> Result<(), Failure> {
        Member::wait(self, idle, |member| Member::advance(member, &mut operation))
    }
}
