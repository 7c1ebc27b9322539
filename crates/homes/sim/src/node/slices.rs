// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Time slices of ranks that contend and repeat themselves.
//!
//! Ranks that update the same words again and again, in steps of the same length, reach each word in the same order from
//! turn to turn. Of n ranks one overtakes the others only if all n - 1 are late by a turn, in the same turn. Small
//! variation never adds up to that, because a word's NIC serves requests in the order of their arrival: a rank that
//! catches up with another waits behind it. On a real machine something ends it that lasts longer than some turns: ranks
//! begin at different times, or the system takes their processors away.
//!
//! So contenders get slices of [`TURNS`] turns each, one after the other, in an order that is drawn: all but the first
//! are held in their next step, and each runs alone for its slice.
//!
//! Rules
//! 1. Only with variation, and only if all ranks of the job that neither wait nor have ended repeat themselves
//!    ([`Watch::contenders`]).
//! 2. Slices do not overlap: contenders get new ones only when all have had theirs. If ranks make no other progress, the
//!    next division comes after 4 times the time of the last one, the one after it after 16 times, and so on. So a
//!    program that contends for long, for a lock perhaps, takes little longer.
//! 3. The order depends only on the seed, so it is the same in every run.
//!
//! [`Watch::contenders`]: super::livelock::Watch::contenders

use crate::random::Random;
use crate::time::Time;

use super::livelock::Contender;
use super::nodes::Nodes;
use super::pace::Variation;
use super::rank_states::Activity;
use super::ranks::Ranks;

/// Turns of a slice, by the longest turn of the contenders. The first ones overlap with the others' last ones.
const TURNS: u64 = 4;
/// With more contenders the last one would be held for too long.
const CONTENDERS_MAX: usize = 64;
/// Limit on the doublings of the time between two divisions.
const DOUBLINGS_MAX: u32 = 20;

const STREAM: u64 = 0x736c_6963_6500_0000;

#[derive(Clone, Debug)]
pub(super) struct Slices {
    random: Random,
    is_on: bool,
    /// Last division, and the time before which there is no other.
    last: Time,
    next: Time,
    /// Doublings of the time until the next division.
    doublings: u32,
}

impl Slices {
    pub fn new(variation: Variation) -> Slices {
        Slices {
            random: Random::new(variation.seed, STREAM),
            is_on: variation.ppm_max > 0,
            last: Time::ZERO,
            next: Time::ZERO,
            doublings: 0,
        }
    }

    #[inline]
    fn may_divide(&self, now: Time) -> bool {
        self.is_on && now >= self.next
    }

    /// Returns the ranks that are held, and for how long. `other_since`: last progress of ranks other than an update.
    fn divide(&mut self, now: Time, other_since: Time, mut contenders: Vec<Contender>) -> Vec<(u32, Time)> {
        if !(2..=CONTENDERS_MAX).contains(&contenders.len()) {
            return Vec::new();
        }
        let slice = contenders.iter().map(|contender| contender.turn).max().unwrap_or_default() * TURNS;
        let all = slice * contenders.len() as u64;
        if other_since > self.last {
            self.doublings = 0;
        }
        (self.last, self.next) = (now, now + all * (1 << self.doublings));
        self.doublings = (self.doublings + 2).min(DOUBLINGS_MAX);
        for place in (1..contenders.len()).rev() {
            contenders.swap(place, self.random.below(place as u64 + 1) as usize);
        }
        (0..).zip(contenders).skip(1).map(|(place, contender)| (contender.rank, slice * place)).collect()
    }
}

impl<R: Ranks> Nodes<R> {
    /// Gives time slices to ranks that contend, if no rank makes progress.
    pub fn divide_time(&mut self, now: Time) {
        if !self.slices.may_divide(now) {
            return;
        }
        let Some(watch) = &self.watch else { return };
        let waits =
            |activity| matches!(activity, Activity::Waiting { .. } | Activity::Blocked { .. } | Activity::Ended);
        let mut ranks = (0..).zip(self.rank_states.of_ranks());
        if ranks.any(|(rank, state)| !state.background && !watch.repeats(rank) && !waits(state.activity)) {
            return;
        }
        for (rank, time) in self.slices.divide(now, watch.other_since(), watch.contenders(now)) {
            self.rank_states[rank].pace.hold(time);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Time = Time::from_ns(100);

    fn contenders(count: u32) -> Vec<Contender> {
        (0..count).map(|rank| Contender { rank, turn: TURN }).collect()
    }

    #[test]
    fn each_contender_but_one_is_held_for_another_number_of_slices() {
        let mut slices = Slices::new(Variation { ppm_max: 1, seed: 1 });
        let mut first = [false; 5];
        for _ in 0..200 {
            let mut held = slices.divide(Time::ZERO, Time::ZERO, contenders(5));
            held.sort_unstable_by_key(|(_, time)| *time);
            assert_eq!(
                held.iter().map(|(_, time)| *time).collect::<Vec<_>>(),
                [4, 8, 12, 16].map(|turns| TURN * turns)
            );
            let not_held = (0..5).find(|rank| held.iter().all(|(other, _)| other != rank));
            first[not_held.expect("one") as usize] = true;
        }
        assert_eq!(first, [true; 5]);
        assert!(slices.divide(Time::ZERO, Time::ZERO, contenders(1)).is_empty());
        assert!(slices.divide(Time::ZERO, Time::ZERO, contenders(65)).is_empty());
    }

    #[test]
    fn divisions_become_rare_without_other_progress() {
        let mut slices = Slices::new(Variation { ppm_max: 1, seed: 1 });
        let mut now = Time::ZERO;
        for times in [1, 4, 16, 64] {
            assert!(slices.may_divide(now));
            slices.divide(now, Time::ZERO, contenders(2));
            assert_eq!(slices.next, now + TURN * (8 * times));
            assert!(!slices.may_divide(now));
            now = slices.next;
        }
        slices.divide(now, now, contenders(2));
        assert_eq!(slices.next, now + TURN * 8, "a rank has done something else");
        assert!(!Slices::new(Variation { ppm_max: 0, seed: 1 }).may_divide(now), "no variation");
    }
}
