// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of programs: series of points, and mistakes.
//!
//! There is one list for all ranks, in the order of their clocks, then of their numbers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::time::Time;

/// A point of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// The name of y with its unit: "half round trip, us". The name of x is [`super::ready::BuiltIn::over`].
    pub series: &'static str,
    pub x: f64,
    pub y: f64,
}

/// A failed check of a program, for instance of payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    pub rank: u32,
    pub what: String,
}

/// The results of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Results {
    pub points: Vec<Point>,
    /// The first mistakes, up to [`MISTAKES_MAX`].
    pub wrong: Vec<Mistake>,
    /// The number of all mistakes.
    pub wrong_count: u64,
}

const MISTAKES_MAX: usize = 64;

impl Results {
    /// Returns the names of the series, in the order in which they began.
    pub fn series(&self) -> Vec<&'static str> {
        let mut names = Vec::new();
        for point in &self.points {
            if !names.contains(&point.series) {
                names.push(point.series);
            }
        }
        names
    }

    /// Returns the points of a series.
    pub fn of<'r>(&'r self, series: &'r str) -> impl Iterator<Item = (f64, f64)> + 'r {
        self.points.iter().filter(move |point| point.series == series).map(|point| (point.x, point.y))
    }
}

/// A point or a mistake, with the clock and number of the rank that recorded it.
#[derive(Debug)]
struct Recorded<T> {
    at: (Time, u32),
    what: T,
}

/// Iterations of a series at one x, which all ranks execute.
#[derive(Debug)]
struct Laps {
    series: &'static str,
    x: f64,
    /// Laps that each rank has ended.
    ended: Vec<u32>,
    laps: Vec<Lap>,
    /// Time and iterations of all laps that every rank has ended.
    total: Time,
    count: u64,
}

/// A lap lasts from the start of the first rank to the end of the last.
#[derive(Clone, Copy, Debug)]
struct Lap {
    /// Ranks that have ended it.
    ranks: u32,
    first: Time,
    last: Time,
}

/// State that all ranks share outside the simulated machine: access to it takes no time. Ranks of several threads may
/// share it. So what is in it depends on the clocks of the ranks, and not on the order of their calls.
#[derive(Debug, Default)]
pub(super) struct Observer {
    points: Vec<Recorded<Point>>,
    wrong: Vec<Recorded<String>>,
    wrong_count: u64,
    witnessed: u64,
    laps: Vec<Laps>,
}

/// The observer that all ranks of a run share.
#[derive(Clone, Debug, Default)]
pub struct Shared(Arc<Mutex<Observer>>);

impl Shared {
    /// Locks the observer. A rank that panics has left it whole.
    pub(super) fn observer(&self) -> MutexGuard<'_, Observer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the results so far, in the order of the ranks' clocks.
    pub fn results(&self) -> Results {
        self.observer().results()
    }
}

impl Observer {
    pub fn record(&mut self, at: (Time, u32), series: &'static str, x: f64, y: f64) {
        self.points.push(Recorded { at, what: Point { series, x, y } });
    }

    pub fn wrong(&mut self, at: (Time, u32), what: String) {
        self.wrong_count += 1;
        self.wrong.push(Recorded { at, what });
        if self.wrong.len() >= 2 * MISTAKES_MAX {
            sort(&mut self.wrong);
            self.wrong.truncate(MISTAKES_MAX);
        }
    }

    /// Adds to a count that all ranks share; returns it.
    pub fn witness(&mut self, add: u64) -> u64 {
        self.witnessed += add;
        self.witnessed
    }

    /// Records that one of `size` ranks has executed `count` iterations of a lap. After the last rank, the series' point
    /// at `x` is `y` of the mean time of an iteration, over all laps.
    pub fn lap(
        &mut self,
        (series, x): (&'static str, f64),
        (rank, size): (u32, u32),
        (start, end): (Time, Time),
        count: u64,
        y: impl Fn(Time) -> f64,
    ) {
        let known = self.laps.iter().rposition(|laps| laps.series == series && laps.x == x);
        let at = known.unwrap_or_else(|| {
            let ended = vec![0; size as usize];
            self.laps.push(Laps { series, x, ended, laps: Vec::new(), total: Time::ZERO, count: 0 });
            self.laps.len() - 1
        });
        let laps = &mut self.laps[at];
        let number = laps.ended[rank as usize] as usize;
        laps.ended[rank as usize] += 1;
        if laps.laps.len() <= number {
            laps.laps.push(Lap { ranks: 0, first: Time::MAX, last: Time::ZERO });
        }
        let lap = &mut laps.laps[number];
        lap.ranks += 1;
        (lap.first, lap.last) = (lap.first.min(start), lap.last.max(end));
        let lap = *lap;
        if lap.ranks < size {
            return;
        }
        laps.total += lap.last - lap.first;
        laps.count += count;
        let value = y(laps.total / laps.count);
        // Its place among the points is that of the end of its first lap.
        match self.points.iter_mut().rfind(|point| point.what.series == series && point.what.x == x) {
            Some(point) => (point.what.y, point.at) = (value, point.at.min((lap.last, 0))),
            None => self.record((lap.last, 0), series, x, value),
        }
    }

    /// Returns the results so far, in the order of the ranks' clocks.
    pub fn results(&mut self) -> Results {
        sort(&mut self.points);
        sort(&mut self.wrong);
        let wrong = self.wrong.iter().take(MISTAKES_MAX);
        Results {
            points: self.points.iter().map(|point| point.what).collect(),
            wrong: wrong.map(|Recorded { at, what }| Mistake { rank: at.1, what: what.clone() }).collect(),
            wrong_count: self.wrong_count,
        }
    }
}

/// Sorts by clock, then by rank. What one rank has recorded stays in order.
fn sort<T>(recorded: &mut [Recorded<T>]) {
    recorded.sort_by_key(|recorded| recorded.at);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_calls_does_not_matter() {
        let lap = |observer: &mut Observer, rank, x, from, to| {
            let times = (Time::from_ns(from), Time::from_ns(to));
            observer.lap(("lap, ns", x), (rank, 2), times, 2, |mean| mean.as_ns() as f64);
        };
        type Call = Box<dyn Fn(&mut Observer)>;
        let mut calls: Vec<Call> = vec![
            // Rank 1 is a lap ahead.
            Box::new(move |observer| {
                lap(observer, 1, 8.0, 0, 10);
                lap(observer, 1, 8.0, 10, 20);
                lap(observer, 1, 16.0, 20, 25);
                observer.record((Time::from_ns(30), 1), "of one", 1.0, 2.0);
                observer.wrong((Time::from_ns(31), 1), "late".to_owned());
            }),
            Box::new(move |observer| {
                lap(observer, 0, 8.0, 2, 12);
                lap(observer, 0, 8.0, 12, 40);
                lap(observer, 0, 16.0, 40, 44);
                observer.wrong((Time::from_ns(5), 0), "early".to_owned());
            }),
        ];
        let mut run = || {
            let mut observer = Observer::default();
            calls.iter().for_each(|call| call(&mut observer));
            calls.reverse();
            observer.results()
        };
        let results = run();
        assert_eq!(results, run());
        // (12 - 0 + 40 - 10) / 4, and (44 - 20) / 2.
        assert_eq!(results.of("lap, ns").collect::<Vec<_>>(), [(8.0, 10.0), (16.0, 12.0)]);
        assert_eq!(results.series(), ["lap, ns", "of one"]);
        assert_eq!(
            results.wrong.iter().map(|wrong| (wrong.rank, wrong.what.as_str())).collect::<Vec<_>>(),
            [(0, "early"), (1, "late")]
        );
    }
}
