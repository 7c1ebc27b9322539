// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pace of a rank's host: its steps take a little more or less time than the machine's file says.
//!
//! Equal ranks whose steps take exactly the same time can repeat for ever, such as two ranks that take two locks in
//! opposite order and give up together. Real processors differ: they are a little faster or slower for a while, and are
//! sometimes interrupted for long.
//!
//! With the bound v every step is up to 2 v shorter, and one step in 7 / v is longer by 2, 4, 8, ... or 64 times
//! itself. The shorter steps move ranks apart slowly. A long step also separates ranks that hold each other back, for
//! instance if the one ahead waits for the other.
//!
//! Invariants
//! 1. The pace depends only on the seed and the rank, so it is the same in every run.
//! 2. The mean of a step is that of the machine's file: short steps save as much as long steps cost. The time for which
//!    a rank is held ([`Pace::hold`]) comes on top.
//! 3. Without variation nothing is drawn, and every step takes the time in the machine's file.
//!
//! One shortening holds for 1 to 256 steps: numbers drawn anew for each step would cancel out.

use crate::random::Random;
use crate::time::Time;

/// Variation of the steps of a host; none by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Variation {
    /// The bound v, in millionths; at most 500,000.
    pub ppm_max: u32,
    pub seed: u64,
}

/// First of the random streams, one for each rank.
const STREAM: u64 = 0x7061_6365_0000_0000;
/// Doublings, at most, of the number of steps for which one shortening holds: 1, 2, 4, ... or 256.
const DOUBLINGS_MAX: u64 = 8;
/// A long step is longer by at most 2 to this power times itself. Each power is half as likely as the one before, and
/// the last as likely as the one before it, so the mean is 7.
const LONG_POWER_MAX: u32 = 6;
const LONG_MEAN: u64 = 7;
const MILLION: u64 = 1_000_000;

#[derive(Clone, Debug)]
pub(super) struct Pace {
    random: Random,
    ppm_max: u64,
    /// Current shortening of a step, in millionths.
    shorter_ppm: u64,
    /// Steps for which it still holds.
    steps: u64,
    /// Time by which the next step is longer.
    held: Time,
}

impl Pace {
    pub fn new(variation: Variation, rank: u32) -> Pace {
        let random = Random::new(variation.seed, STREAM + u64::from(rank));
        Pace { random, ppm_max: u64::from(variation.ppm_max.min(500_000)), shorter_ppm: 0, steps: 0, held: Time::ZERO }
    }

    /// Returns the time of a step of the host that takes `time` by the machine's file.
    #[inline]
    pub fn step(&mut self, time: Time) -> Time {
        if self.ppm_max == 0 { time } else { self.varied(time) + std::mem::take(&mut self.held) }
    }

    /// Holds the rank in its next step for a time, as a system that takes its processor away. Not without variation.
    pub fn hold(&mut self, time: Time) {
        self.held = time;
    }

    fn varied(&mut self, time: Time) -> Time {
        if self.steps == 0 {
            self.shorter_ppm = self.random.below(2 * self.ppm_max + 1);
            self.steps = 1 << self.random.below(DOUBLINGS_MAX + 1);
        }
        self.steps -= 1;
        let shorter = u128::from(time.0) * u128::from(self.shorter_ppm) / u128::from(MILLION);
        let is_long = self.random.below(LONG_MEAN * MILLION) < self.ppm_max;
        let longer = if is_long { u128::from(time.0) << self.long_power() } else { 0 };
        Time(u64::try_from(u128::from(time.0) - shorter + longer).unwrap_or(u64::MAX))
    }

    fn long_power(&mut self) -> u32 {
        (1 + self.random.next_u64().trailing_zeros()).min(LONG_POWER_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Time = Time::from_ns(1000);

    fn steps(variation: Variation, rank: u32, count: usize) -> Vec<u64> {
        let mut pace = Pace::new(variation, rank);
        (0..count).map(|_| pace.step(STEP).0).collect()
    }

    #[test]
    fn without_variation_a_step_takes_what_the_machine_says() {
        assert!(steps(Variation { ppm_max: 0, seed: 3 }, 1, 1000).iter().all(|time| *time == STEP.0));
        assert_eq!(Pace::new(Variation { ppm_max: 10_000, seed: 3 }, 1).step(Time::ZERO), Time::ZERO);
        let most = Variation { ppm_max: u32::MAX, seed: 3 };
        assert!(steps(most, 1, 100_000).iter().all(|time| *time <= 65 * STEP.0));
    }

    #[test]
    fn a_seed_and_a_rank_give_the_same_steps_and_others_give_others() {
        let variation = Variation { ppm_max: 10_000, seed: 3 };
        let once = steps(variation, 1, 2000);
        assert_eq!(once, steps(variation, 1, 2000));
        assert_ne!(once, steps(variation, 2, 2000));
        assert_ne!(once, steps(Variation { seed: 4, ..variation }, 1, 2000));
    }

    #[test]
    fn the_mean_is_that_of_the_machine() {
        let count = 8_000_000;
        let all = steps(Variation { ppm_max: 10_000, seed: 1 }, 0, count);
        let mean = all.iter().sum::<u64>() as f64 / count as f64;
        // Lengths of long steps have a mean square of 190 steps, and one step in 700 is long: the standard error of the mean is
        // 190 ps for these, and 27 ps for the others.
        assert!((mean - 1e6).abs() < 800.0, "{mean}");
        let long: Vec<u64> = all.iter().copied().filter(|time| *time > STEP.0).collect();
        let share = count as f64 / long.len() as f64;
        assert!((680.0..720.0).contains(&share), "one in {share}");
        assert!(all.iter().filter(|time| **time <= STEP.0).all(|time| *time >= 980_000));
        assert!(long.iter().all(|time| (2_900_000..=65_000_000).contains(time)));
        for power in 1..=LONG_POWER_MAX {
            let of_power = long.iter().filter(|time| (**time).div_ceil(STEP.0) == (1 << power) + 1).count();
            let wanted = long.len() >> power.min(LONG_POWER_MAX - 1);
            assert!(of_power.abs_diff(wanted) < wanted / 4, "{power}: {of_power}, {wanted}");
        }
        let longest = all.chunk_by(|one, other| one == other).map(<[u64]>::len).max();
        assert!(longest >= Some(100), "{longest:?}");
    }
}
