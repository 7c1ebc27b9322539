// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A barrier in two calls, with an optional name: a dissemination barrier of control messages.
//!
//! In round r a node sends the node 2^r behind it one message: the 2^r nodes up to itself have arrived, and their
//! names, merged to one mark. After log2(n) rounds it has this of all nodes.
//!
//! Invariants
//! 1. A node has at most two barrier messages under way to another node: it starts the next barrier only after the
//!    other node has started this one, and so has read the message of the previous one. So one bit tells two phases
//!    apart.
//! 2. In one barrier, no two rounds go to the same node.

use super::wire::{Control, Mark};

/// Rounds of a barrier of 2^16 nodes.
const ROUNDS_MAX: usize = 16;

/// This node's barriers.
#[derive(Debug, Default)]
pub struct Barrier {
    phase: u32,
    /// The caller's name, while the barrier runs.
    named: Option<Mark>,
    known: Option<Mark>,
    round: usize,
    /// Whether this round's message was sent.
    is_sent: bool,
    received: [[Option<Mark>; ROUNDS_MAX]; 2],
}

/// Reason why a call of a barrier is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BarrierError {
    #[error("a barrier is under way: wait for it before the next notify")]
    Running,
    #[error("no barrier is under way: notify comes before wait")]
    NotRunning,
    #[error("not all nodes have reached the barrier yet")]
    NotReady,
    #[error("the nodes gave different names to the barrier")]
    Mismatch,
}

fn merge(one: Mark, other: Mark) -> Mark {
    match (one, other) {
        (Mark::Anonymous, mark) | (mark, Mark::Anonymous) => mark,
        (Mark::Named(a), Mark::Named(b)) if a == b => one,
        _ => Mark::Mismatch,
    }
}

impl Barrier {
    pub fn start(&mut self, mark: Mark) -> Result<(), BarrierError> {
        if self.named.is_some() {
            return Err(BarrierError::Running);
        }
        (self.named, self.known, self.round, self.is_sent) = (Some(mark), Some(mark), 0, false);
        Ok(())
    }

    /// Records a message of another node.
    pub fn receive(&mut self, phase: u32, round: u8, mark: Mark) {
        if let Some(place) = self.received[(phase & 1) as usize].get_mut(usize::from(round)) {
            *place = Some(mark);
        }
    }

    /// Advances as many rounds as possible. `send` sends a message to the node that distance behind this one.
    pub fn advance(&mut self, nodes: u16, mut send: impl FnMut(u16, Control)) {
        let Some(mut known) = self.known.filter(|_| self.named.is_some()) else { return };
        while !self.is_done(nodes) {
            if !self.is_sent {
                self.is_sent = true;
                send(1 << self.round, Control::Barrier { phase: self.phase, round: self.round as u8, mark: known });
            }
            let Some(mark) = self.received[(self.phase & 1) as usize][self.round].take() else { break };
            known = merge(known, mark);
            self.known = Some(known);
            (self.round, self.is_sent) = (self.round + 1, false);
        }
    }

    fn is_done(&self, nodes: u16) -> bool {
        self.round >= ROUNDS_MAX || 1u32 << self.round >= u32::from(nodes)
    }

    /// Ends a barrier that all nodes have reached. `mark` is the caller's name in this call.
    pub fn finish(&mut self, nodes: u16, mark: Mark) -> Result<(), BarrierError> {
        let named = self.named.ok_or(BarrierError::NotRunning)?;
        if !self.is_done(nodes) {
            return Err(BarrierError::NotReady);
        }
        self.named = None;
        self.phase = self.phase.wrapping_add(1);
        if self.known == Some(Mark::Mismatch) || named != mark {
            return Err(BarrierError::Mismatch);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    /// Runs `barriers` barriers on all nodes with the names of `mark`. Messages are delivered in a random order.
    fn run(nodes: u16, barriers: u32, mark: impl Fn(u16, u32) -> Mark) -> Vec<Result<(), BarrierError>> {
        let mut all: Vec<Barrier> = (0..nodes).map(|_| Barrier::default()).collect();
        let mut wires: Vec<VecDeque<(u16, Control)>> = vec![VecDeque::new(); nodes.into()];
        let (mut done, mut state) = (vec![0; nodes.into()], 7u64);
        let mut results = Vec::new();
        while done.iter().any(|done| *done < barriers) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let me = (state >> 33) as u16 % nodes;
            let at = usize::from(me);
            if state >> 62 == 0 {
                if let Some((_, Control::Barrier { phase, round, mark })) = wires[at].pop_front() {
                    all[at].receive(phase, round, mark);
                }
            }
            if done[at] < barriers {
                let _ = all[at].start(mark(me, done[at]));
            }
            all[at]
                .advance(nodes, |behind, control| wires[usize::from((me + behind) % nodes)].push_back((me, control)));
            for from in 0..nodes {
                assert!(wires[at].iter().filter(|(sender, _)| *sender == from).count() <= 2, "invariant 1");
            }
            match all[at].finish(nodes, mark(me, done[at])) {
                Err(BarrierError::NotReady | BarrierError::NotRunning) => {}
                result => {
                    let has_come = |other: usize| done[other] > done[at] || all[other].named.is_some() || other == at;
                    assert!(
                        (0..done.len()).all(|other| done[other] >= done[at] && has_come(other)),
                        "all have arrived before one leaves"
                    );
                    done[at] += 1;
                    results.push(result);
                }
            }
        }
        results
    }

    #[test]
    fn nodes_leave_together_and_know_of_all_names() {
        for nodes in 1..=9 {
            assert!(run(nodes, 20, |_, _| Mark::Anonymous).iter().all(Result::is_ok));
            assert!(run(nodes, 20, |_, number| Mark::Named(number as i32)).iter().all(Result::is_ok));
            let one_named = run(nodes, 20, |me, _| if me == 0 { Mark::Named(3) } else { Mark::Anonymous });
            assert!(one_named.iter().all(Result::is_ok));
            if nodes > 1 {
                let differ = run(nodes, 20, |me, _| Mark::Named(i32::from(me == 0)));
                assert!(differ.iter().all(|result| *result == Err(BarrierError::Mismatch)));
            }
        }
    }

    #[test]
    fn calls_in_the_wrong_order_are_refused() {
        let mut barrier = Barrier::default();
        assert_eq!(barrier.finish(2, Mark::Anonymous), Err(BarrierError::NotRunning));
        barrier.start(Mark::Named(1)).expect("the first");
        assert_eq!(barrier.start(Mark::Named(1)), Err(BarrierError::Running));
        assert_eq!(barrier.finish(2, Mark::Named(1)), Err(BarrierError::NotReady));
        assert_eq!(
            barrier.finish(1, Mark::Named(2)),
            Err(BarrierError::Mismatch),
            "wait names another barrier than notify"
        );
    }
}
