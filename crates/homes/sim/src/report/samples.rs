// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A run over virtual time: a few hundred samples of its progress, evenly spaced, for a run of any length.
//!
//! Invariant: at most [`SAMPLES_MAX`] are kept. If there are more, every second one is dropped, and from then on only
//! every second new one is kept. So their times depend only on the run's events.

use selvedge_document::plot::{Axis, Line, Shape};
use selvedge_document::{Plot, words};
use serde_json::{Value, json};

use crate::node::Progress;

pub const SAMPLES_MAX: usize = 512;

/// Samples of a run's progress.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    taken: Vec<Progress>,
    /// Samples skipped between two kept ones, and samples skipped since the last kept one.
    skip: u64,
    passed: u64,
}

impl Samples {
    /// Adds a sample. Called for every call of the run's observer.
    pub fn add(&mut self, progress: &Progress) {
        if self.passed < self.skip {
            self.passed += 1;
            return;
        }
        self.passed = 0;
        self.taken.push(*progress);
        if self.taken.len() == SAMPLES_MAX {
            let mut number = 0;
            self.taken.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.skip = self.skip * 2 + 1;
        }
    }

    pub fn len(&self) -> usize {
        self.taken.len()
    }

    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// Returns plots of messages, and of packet hops, per second of virtual time.
    pub fn plots(&self) -> Vec<Plot> {
        let plot = |name: &str, title: &str, label, of: fn(&Progress) -> u64| Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            x: Axis::linear("virtual time", words::time_ns),
            y: Axis::linear(label, words::rate),
            shape: Shape::Lines(vec![Line { name: label.to_owned(), points: self.rates(of) }]),
        };
        let all = [
            plot("message-rate", "Messages delivered over virtual time", "messages", |look| look.messages),
            plot("hop-rate", "Packet hops over virtual time", "packet hops", |look| look.hops),
        ];
        all.into_iter().filter(|plot| !plot.is_empty()).collect()
    }

    /// Returns the rate in each interval between two samples: its middle in nanoseconds, and the rate per second.
    fn rates(&self, of: fn(&Progress) -> u64) -> Vec<(f64, f64)> {
        let pairs = self.taken.windows(2).filter(|pair| pair[1].time > pair[0].time);
        let points = pairs.map(|pair| {
            let seconds = (pair[1].time - pair[0].time).as_seconds_f64();
            let middle = (pair[0].time.as_ns_f64() + pair[1].time.as_ns_f64()) / 2.0;
            (middle, of(&pair[1]).saturating_sub(of(&pair[0])) as f64 / seconds)
        });
        let points: Vec<_> = points.collect();
        if points.iter().all(|(_, rate)| *rate == 0.0) { Vec::new() } else { points }
    }

    pub fn json(&self) -> Value {
        let looks = self.taken.iter().map(|look| {
            json!({
                "time_ps": look.time.0,
                "events": look.events,
                "packet_hops": look.hops,
                "messages": look.messages,
                "ranks_ended": look.ranks_ended,
            })
        });
        looks.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Time;

    fn look(number: u64) -> Progress {
        Progress {
            time: Time::from_ns(number),
            events: number,
            hops: 3 * number,
            messages: number / 2,
            ranks_ended: 0,
            ranks: 1,
        }
    }

    #[test]
    fn few_samples_are_kept_and_they_lie_evenly() {
        let mut samples = Samples::default();
        (1..=100_000).for_each(|number| samples.add(&look(number)));
        assert!((SAMPLES_MAX / 4..SAMPLES_MAX).contains(&samples.len()), "{}", samples.len());
        let times: Vec<u64> = samples.taken.iter().map(|look| look.events).collect();
        let apart: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(apart.iter().all(|distance| *distance == apart[0]), "{apart:?}");
        assert!(times[times.len() - 1] > 100_000 - 2 * apart[0]);
    }

    #[test]
    fn rates_are_those_of_virtual_time() {
        let mut samples = Samples::default();
        (0..10).for_each(|number| samples.add(&look(number)));
        let rates = samples.rates(|look| look.hops);
        assert_eq!(rates.len(), 9);
        assert!(rates.iter().all(|(_, rate)| (rate - 3e9).abs() < 1.0), "{rates:?}");
        assert_eq!(samples.plots().len(), 2);
        assert!(Samples::default().plots().is_empty());
    }
}
