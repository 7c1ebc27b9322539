// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of measurements, as constants of the subjects: their cases, and what is drawn of a measurement. Lines have
//! logarithmic axes; bars begin at 0, unless they are so different that only the longest could be seen.

use selvedge_document::plot::{Axis, Line, Scale, Shape, wide};
use selvedge_document::{Plot, words};

use super::record::Measurement;

/// The form of a plot, and the value that it draws of a measurement. `None`: the measurement is not in the plot.
#[derive(Clone, Copy)]
pub enum Form {
    /// A line for each case that has at least two points.
    Lines(fn(&Measurement) -> Option<(f64, f64)>),
    /// A bar for each case, the shortest first.
    Bars(fn(&Measurement) -> Option<f64>),
}

/// A plot of some cases.
#[derive(Clone, Copy)]
pub struct PlotOf {
    /// Name of its file, without an extension; unique among all plots of benchmarks.
    pub name: &'static str,
    pub title: &'static str,
    pub cases: &'static [&'static str],
    pub form: Form,
    pub x: &'static Axis,
    pub y: &'static Axis,
}

static SIZE: Axis = Axis::logarithmic("message size", 4, words::bytes);
static DEPTH: Axis = Axis::logarithmic("Q", 4, words::plain);
static TIME: Axis = Axis::logarithmic("time", 10, words::time_ns);
static TIME_FROM_ZERO: Axis = Axis::linear("time", words::time_ns);
static BANDWIDTH: Axis = Axis::logarithmic("bandwidth", 10, words::bytes_per_s);

/// Median times by size.
pub const TIME_BY_SIZE: PlotOf = PlotOf {
    name: "",
    title: "",
    cases: &[],
    form: Form::Lines(|m| Some((m.size_bytes? as f64, m.median_ns?))),
    x: &SIZE,
    y: &TIME,
};

/// Bandwidths by size.
pub const BANDWIDTH_BY_SIZE: PlotOf = PlotOf { form: Form::Lines(bandwidth_by_size), y: &BANDWIDTH, ..TIME_BY_SIZE };

pub fn bandwidth_by_size(m: &Measurement) -> Option<(f64, f64)> {
    Some((m.size_bytes? as f64, m.bandwidth_bytes_per_s?))
}

/// Median times by depth.
pub const TIME_BY_DEPTH: PlotOf =
    PlotOf { form: Form::Lines(|m| Some((m.depth? as f64, m.median_ns?))), x: &DEPTH, ..TIME_BY_SIZE };

/// Median times of 8 bytes.
pub const TIME_OF_EIGHT_BYTES: PlotOf = PlotOf {
    form: Form::Bars(|m| m.median_ns.filter(|_| m.size_bytes == Some(8) && m.depth.is_none())),
    x: &TIME_FROM_ZERO,
    ..TIME_BY_SIZE
};

impl PlotOf {
    /// Returns the plot of these measurements. `None`: no case can be drawn.
    pub fn of(&self, all: &[Measurement]) -> Option<Plot> {
        let of_case = |name: &'static str| all.iter().filter(move |m| m.case == name);
        let mut x = self.x.clone();
        let shape = match self.form {
            Form::Lines(point) => {
                let line = |name: &&'static str| line(name, of_case(name).filter_map(point));
                Shape::Lines(self.cases.iter().filter_map(line).collect())
            }
            Form::Bars(value) => {
                let bar = |name: &&'static str| Some(((*name).to_owned(), of_case(name).find_map(value)?));
                let mut bars: Vec<_> = self.cases.iter().filter_map(bar).collect();
                bars.sort_by(|a, b| a.1.total_cmp(&b.1));
                if wide(bars.iter().map(|bar| bar.1)) {
                    x.scale = Scale::Logarithmic { base: 10 };
                }
                Shape::Ranked(bars)
            }
        };
        let plot = Plot { name: self.name.to_owned(), title: self.title.to_owned(), x, y: self.y.clone(), shape };
        (!plot.is_empty()).then_some(plot)
    }
}

fn line(name: &str, points: impl Iterator<Item = (f64, f64)>) -> Option<Line> {
    let mut points: Vec<_> = points.filter(|(x, y)| *x > 0.0 && *y > 0.0).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    (points.len() >= 2).then(|| Line { name: name.to_owned(), points })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(case: &str, size: u64, median_ns: f64) -> Measurement {
        Measurement { case: case.into(), size_bytes: Some(size), median_ns: Some(median_ns), ..Measurement::default() }
    }

    const PLOT: PlotOf = PlotOf { name: "plot", title: "Title", cases: &["one", "absent", "two"], ..TIME_BY_SIZE };

    #[test]
    fn lines_with_two_points_are_drawn() {
        let all = [measured("one", 64, 200.0), measured("one", 8, 100.0), measured("two", 8, 1.0)];
        let plot = PLOT.of(&all).unwrap();
        let Shape::Lines(lines) = &plot.shape else { panic!("{:?}", plot.shape) };
        assert_eq!(
            (lines.len(), &*lines[0].name, &lines[0].points[..]),
            (1, "one", &[(8.0, 100.0), (64.0, 200.0)][..])
        );
        let svg = plot.svg();
        for word in ["Title", "message size", "64 B", "100 ns", "prefers-color-scheme:dark"] {
            assert!(svg.contains(word), "{word}: {svg}");
        }
        assert!(PLOT.of(&all[1..]).is_none());
    }

    #[test]
    fn bars_are_in_order_of_their_length() {
        let all =
            [measured("one", 8, 100.0), measured("one", 64, 1.0), measured("two", 8, 20.0), measured("x", 8, 1.0)];
        let plot = PlotOf { name: "plot", title: "Title", cases: PLOT.cases, ..TIME_OF_EIGHT_BYTES }.of(&all).unwrap();
        let Shape::Ranked(bars) = &plot.shape else { panic!("{:?}", plot.shape) };
        assert_eq!(bars[..], [("two".to_owned(), 20.0), ("one".to_owned(), 100.0)]);
    }
}
