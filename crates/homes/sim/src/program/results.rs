// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of programs: series of points, and mistakes.
//!
//! There is one list for all ranks, in the order in which they recorded.

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

/// Times of iterations that all ranks execute: from the start of the first rank to the end of the last.
#[derive(Debug)]
struct Lap {
    series: &'static str,
    x: f64,
    /// The current lap: ranks that have ended it, first start, last end.
    ranks: u32,
    first: Time,
    last: Time,
    /// Time and iterations of all earlier laps.
    total: Time,
    count: u64,
}

/// State that all ranks share outside the simulated machine: access to it takes no time.
#[derive(Debug, Default)]
pub(super) struct Observer {
    pub results: Results,
    pub witnessed: u64,
    laps: Vec<Lap>,
}

impl Observer {
    pub fn record(&mut self, series: &'static str, x: f64, y: f64) {
        self.results.points.push(Point { series, x, y });
    }

    pub fn wrong(&mut self, rank: u32, what: String) {
        self.results.wrong_count += 1;
        if self.results.wrong.len() < MISTAKES_MAX {
            self.results.wrong.push(Mistake { rank, what });
        }
    }

    /// Records that one of `size` ranks has executed `count` iterations. After the last rank, the series' point at `x`
    /// is `y` of the mean time of an iteration, over all laps.
    pub fn lap(
        &mut self,
        (series, x): (&'static str, f64),
        size: u32,
        (start, end): (Time, Time),
        count: u64,
        y: impl Fn(Time) -> f64,
    ) {
        let known = self.laps.iter().rposition(|lap| lap.series == series && lap.x == x);
        let at = known.unwrap_or_else(|| {
            let (first, last) = (Time::MAX, Time::ZERO);
            self.laps.push(Lap { series, x, ranks: 0, first, last, total: Time::ZERO, count: 0 });
            self.laps.len() - 1
        });
        let lap = &mut self.laps[at];
        lap.ranks += 1;
        (lap.first, lap.last) = (lap.first.min(start), lap.last.max(end));
        if lap.ranks < size {
            return;
        }
        lap.total += lap.last - lap.first;
        lap.count += count;
        (lap.ranks, lap.first, lap.last) = (0, Time::MAX, Time::ZERO);
        let value = y(lap.total / lap.count);
        match self.results.points.iter_mut().rfind(|point| point.series == series && point.x == x) {
            Some(point) => point.y = value,
            None => self.record(series, x, value),
        }
    }
}
