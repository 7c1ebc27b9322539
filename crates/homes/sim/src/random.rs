// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pseudo-random numbers from a seed: SplitMix64, the same on every machine and in every release. A library's generator
//! may change between versions, and a simulation must not.

/// A generator. Each part of a simulation has its own, so that the draws of one part do not change those of another.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Makes the generator of part `part` for a seed.
    pub fn new(seed: u64, part: u64) -> Random {
        let mut random = Random { state: seed ^ part.wrapping_mul(0xd134_2543_de82_ef95) };
        random.next_u64();
        random
    }

    /// Makes the generator of the `count`-th decision of a source, such as a node or a channel, in part `part`. So a
    /// source's decisions do not depend on those of others, nor on their order.
    pub fn of_source(seed: u64, part: u64, source: u32, count: u32) -> Random {
        let Random { state } = Random::new(seed, part);
        Random { state: Random { state: state ^ (u64::from(source) << 32 | u64::from(count)) }.next_u64() }
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// Draws uniformly from 0..bound; 0 if bound is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws uniformly from 0..1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with a probability. Probability 0 draws no number, so disabled faults change nothing.
    #[inline]
    pub fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.unit() < probability
    }

    /// Draws from an exponential distribution with this mean, as the gaps between independent arrivals.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut random = Random::new(1, 2);
        let first: Vec<u64> = (0..3).map(|_| random.next_u64()).collect();
        let mut again = Random::new(1, 2);
        assert_eq!(first, (0..3).map(|_| again.next_u64()).collect::<Vec<_>>());
        let mut other = Random::new(1, 3);
        assert_ne!(first[0], other.next_u64());
    }

    #[test]
    fn numbers_are_evenly_spread() {
        let mut random = Random::new(7, 0);
        let mut seen = [0u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (9_500..10_500).contains(&count)), "{seen:?}");
        let mean = (0..100_000).map(|_| random.exponential(5.0)).sum::<f64>() / 100_000.0;
        assert!((4.9..5.1).contains(&mean), "{mean}");
    }
}
