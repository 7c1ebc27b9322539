// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A faulty network for tests (`SELVEDGE_NET_FAULTS`). Between endpoint and links, it loses, damages, doubles, swaps
//! and delays frames that have arrived, and refuses to expose memory. The faults of a frame depend only on the seed and
//! on the number of earlier frames.
//!
//! A swapped frame comes after the next one, or after [`SWAPPED_MAX`] if none comes.

use std::collections::VecDeque;
use std::str::FromStr;
use std::time::{Duration, Instant};

use selvedge_settings::units::duration;

/// The longest wait of a swapped frame for the next one.
const SWAPPED_MAX: Duration = Duration::from_millis(2);
const DELAY_MAX: Duration = Duration::from_secs(10);

/// Frequencies of faults, as shares of 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    pub loss: f64,
    pub corrupt: f64,
    pub double: f64,
    pub reorder: f64,
    /// Payloads that are not exposed to peers.
    pub refuse: f64,
    /// The longest random delay of a frame. Delayed frames keep their order.
    pub delay: Duration,
    pub seed: u64,
}

/// A description of faults that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "SELVEDGE_NET_FAULTS: {part:?} is not understood; write loss=0.01,corrupt=0.01,double=0.01,reorder=0.01,refuse=0.01,delay=2ms,seed=7, or some of these: shares from 0 to 1, and at most 10s"
)]
pub struct FaultsError {
    part: String,
}

impl FromStr for Faults {
    type Err = FaultsError;

    fn from_str(text: &str) -> Result<Faults, FaultsError> {
        let mut faults = Faults::default();
        for part in text.split(',').map(str::trim) {
            let refused = || FaultsError { part: part.to_owned() };
            let (name, value) = part.split_once('=').ok_or_else(refused)?;
            let share = || value.parse().ok().filter(|share| (0.0..=1.0).contains(share)).ok_or_else(refused);
            match name {
                "loss" => faults.loss = share()?,
                "corrupt" => faults.corrupt = share()?,
                "double" => faults.double = share()?,
                "reorder" => faults.reorder = share()?,
                "refuse" => faults.refuse = share()?,
                "delay" => {
                    faults.delay = duration(value).ok().filter(|delay| *delay <= DELAY_MAX).ok_or_else(refused)?
                }
                "seed" => faults.seed = value.parse().map_err(|_| refused())?,
                _ => return Err(refused()),
            }
        }
        Ok(faults)
    }
}

struct Late {
    frame: Vec<u8>,
    due: Instant,
}

pub(crate) struct FaultyNetwork {
    faults: Faults,
    random: Random,
    delayed: VecDeque<Late>,
    swapped: Option<Late>,
}

impl FaultyNetwork {
    pub fn new(faults: Faults) -> FaultyNetwork {
        FaultyNetwork { random: Random(faults.seed), faults, delayed: VecDeque::new(), swapped: None }
    }

    /// Takes a frame that has arrived. `deliver` gets the frames that are due now.
    pub fn take(&mut self, frame: &[u8], now: Instant, mut deliver: impl FnMut(Vec<u8>)) {
        // Draws the same number of random numbers for each frame, whatever its faults.
        let [loss, corrupt, double, reorder, delay, at] = [(); 6].map(|()| self.random.next());
        let happens = |random, share| share_of(random) < share;
        if happens(loss, self.faults.loss) {
            return self.release(now, deliver);
        }
        let mut frame = frame.to_vec();
        if happens(corrupt, self.faults.corrupt) && !frame.is_empty() {
            let bit = at as usize % (frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
        let copies = 1 + usize::from(happens(double, self.faults.double));
        let swaps = self.swapped.is_none() && happens(reorder, self.faults.reorder);
        let late = self.faults.delay.mul_f64(share_of(delay));
        self.release(now, &mut deliver);
        if swaps {
            self.swapped = Some(Late { frame, due: now + SWAPPED_MAX });
            return;
        }
        if self.faults.delay.is_zero() {
            std::iter::repeat_n(frame, copies).for_each(&mut deliver);
            self.swapped.take().into_iter().for_each(|swapped| deliver(swapped.frame));
            return;
        }
        let due = self.delayed.back().map_or(now, |before| before.due).max(now + late);
        let swapped = self.swapped.take().map(|swapped| swapped.frame);
        let frames = std::iter::repeat_n(frame, copies).chain(swapped);
        self.delayed.extend(frames.map(|frame| Late { frame, due }));
    }

    /// Delivers the frames that are due.
    pub fn release(&mut self, now: Instant, mut deliver: impl FnMut(Vec<u8>)) {
        while self.delayed.front().is_some_and(|late| late.due <= now) {
            self.delayed.pop_front().into_iter().for_each(|late| deliver(late.frame));
        }
        if let Some(late) = self.swapped.take_if(|late| late.due <= now) {
            deliver(late.frame);
        }
    }

    /// Whether delayed or swapped frames wait.
    pub fn holds_frames(&self) -> bool {
        !self.delayed.is_empty() || self.swapped.is_some()
    }
}

/// Chooses the payloads that an endpoint does not expose. By default it exposes all.
#[derive(Default)]
pub(crate) struct Refusals {
    share: f64,
    random: Random,
}

impl Refusals {
    pub fn new(faults: Option<&Faults>) -> Refusals {
        let (share, seed) = faults.map_or((0.0, 0), |faults| (faults.refuse, faults.seed));
        Refusals { share, random: Random(seed) }
    }

    /// Whether the next one is refused.
    pub fn next(&mut self) -> bool {
        self.share > 0.0 && share_of(self.random.next()) < self.share
    }
}

#[derive(Default)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Converts a random number to a share of 1.
fn share_of(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read_or_refused_with_the_part_that_is_wrong() {
        let text = "loss=0.01, corrupt=1,double=0,reorder=0.5,refuse=0.1,delay=2ms,seed=7";
        let faults: Faults = text.parse().expect("right");
        let delay = Duration::from_millis(2);
        let wanted = Faults { loss: 0.01, corrupt: 1.0, double: 0.0, reorder: 0.5, refuse: 0.1, delay, seed: 7 };
        assert_eq!(faults, wanted);
        for bad in ["loss", "loss=2", "loss=-1", "loss=NaN", "delay=ms", "delay=11s", "seed=x", "jitter=1"] {
            let error = format!("seed=1,{bad}").parse::<Faults>().expect_err(bad).to_string();
            assert!(error.contains(bad) && error.contains("loss=0.01"), "{error}");
        }
        assert!("".parse::<Faults>().is_err());
    }

    fn run(faults: &str, count: u8) -> Vec<Vec<u8>> {
        let mut network = FaultyNetwork::new(faults.parse().expect("right"));
        let (mut came, now) = (Vec::new(), Instant::now());
        for number in 0..count {
            network.take(&[number; 40], now, |frame| came.push(frame));
        }
        network.release(now + DELAY_MAX, |frame| came.push(frame));
        assert!(!network.holds_frames());
        came
    }

    #[test]
    fn each_fault_does_what_it_says_and_the_same_each_time() {
        let whole: Vec<Vec<u8>> = (0..200).map(|number| vec![number; 40]).collect();
        assert_eq!(run("seed=1", 200), whole);
        assert_eq!(run("delay=5ms", 200), whole, "late, but in order");
        assert!(run("loss=1", 200).is_empty());
        let lossy = run("loss=0.2,seed=3", 200);
        assert!((120..190).contains(&lossy.len()), "{}", lossy.len());
        assert_eq!(run("loss=0.2,seed=3", 200), lossy);
        assert_ne!(run("loss=0.2,seed=4", 200), lossy);
        let doubled = run("double=1", 200);
        assert!(
            doubled.len() == 400 && doubled.chunks(2).zip(&whole).all(|(two, one)| two == [one.clone(), one.clone()])
        );
        let swapped = run("reorder=0.3,seed=2", 200);
        assert_ne!(swapped, whole);
        let sorted = |mut frames: Vec<Vec<u8>>| {
            frames.sort();
            frames
        };
        assert_eq!(sorted(swapped), whole);
        let damaged = run("corrupt=1", 200);
        let bits = |one: &[u8], two: &[u8]| one.iter().zip(two).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
        assert!(damaged.iter().zip(&whole).all(|(damaged, whole)| bits(damaged, whole) == 1));
    }
}
