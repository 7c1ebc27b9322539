// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Comparisons between hosts, pair by pair: the figure of one side is divided by that of the other side in the same
//! turn. A row has the median, the least and the greatest ratio, and the number that meets the bar.
//!
//! Names: `openmpi4:` is an MPI over our provider with the progress thread, `openmpi4_calls:` without it,
//! `openmpi4_tcp:` over its own TCP, `openmpi4_rxm:` over libfabric's `tcp;ofi_rxm`; `shmem:` our OpenSHMEM, `sandia:`
//! Sandia's; `bare_tcp:` a program with TCP connections of its own.
//!
//! Invariants: 1. both figures of a ratio are of one turn. 2. Of several peers, the one with the better median is the
//! bar.

use serde::Serialize;

use super::super::record::{Figure, Measurement};
use super::sides::SANDIA;

/// The bar for a ratio or a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    fn is_met(self, value: f64) -> bool {
        match self {
            Bar::AtMost(bar) => value <= bar,
            Bar::AtLeast(bar) => value >= bar,
        }
    }

    pub fn text(self) -> String {
        match self {
            Bar::AtMost(bar) => format!("at most {bar}"),
            Bar::AtLeast(bar) => format!("at least {bar}"),
        }
    }
}

struct Goal {
    what: &'static str,
    bar: Bar,
    /// The bar is for the ratio. Otherwise for the figure itself.
    is_of_ratio: bool,
}

const fn goal(what: &'static str, bar: Bar) -> Goal {
    Goal { what, bar, is_of_ratio: true }
}

const fn goal_alone(what: &'static str, bar: Bar) -> Goal {
    Goal { what, bar, is_of_ratio: false }
}

const GOALS: &[Goal] = &[
    goal("pingpong", Bar::AtMost(1.1)),
    goal("stream", Bar::AtLeast(0.95)),
    goal("rate", Bar::AtLeast(1.5)),
    goal("counting_put", Bar::AtMost(1.0)),
    goal("get", Bar::AtMost(1.0)),
    goal("fetch_add", Bar::AtMost(1.0)),
    goal_alone("overlap_posted", Bar::AtLeast(0.8)),
    goal_alone("overlap_posted:arrived", Bar::AtLeast(50.0)),
    goal_alone("overlap_put", Bar::AtLeast(0.8)),
    goal_alone("overlap_put:arrived", Bar::AtLeast(50.0)),
    goal_alone("resident", Bar::AtMost(1024.0)),
];

/// A figure divided by that of another case.
#[derive(Debug, Clone, PartialEq)]
pub struct Ratio {
    pub against: String,
    pub median: f64,
    pub least: f64,
    pub greatest: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub bar: Bar,
    /// Whether the median meets the bar.
    pub is_met: bool,
    pub met: usize,
    pub pairs: usize,
}

/// One row of the report.
#[derive(Debug, Clone)]
pub struct Row {
    /// Medians of the figures over the turns.
    pub m: Measurement,
    pub ratio: Option<Ratio>,
    pub verdict: Option<Verdict>,
}

/// One element of the JSON array.
#[derive(Debug, Serialize)]
pub struct HostsRecord<'a> {
    case: &'a str,
    size_bytes: Option<u64>,
    depth: Option<u64>,
    median_ns: Option<f64>,
    p99_ns: Option<f64>,
    rate_per_s: Option<f64>,
    #[serde(rename = "bandwidth_Bps")]
    bandwidth_bytes_per_s: Option<f64>,
    value: Option<f64>,
    unit: Option<&'a str>,
    against: Option<&'a str>,
    ratio: Option<f64>,
    ratio_least: Option<f64>,
    ratio_greatest: Option<f64>,
    bar: Option<String>,
    met: Option<bool>,
    pairs_met: Option<usize>,
    pairs: Option<usize>,
}

impl Row {
    pub fn record(&self) -> HostsRecord<'_> {
        let (m, ratio, verdict) = (&self.m, self.ratio.as_ref(), self.verdict.as_ref());
        HostsRecord {
            case: &m.case,
            size_bytes: m.size_bytes,
            depth: m.depth,
            median_ns: m.median_ns,
            p99_ns: m.p99_ns,
            rate_per_s: m.rate_per_s,
            bandwidth_bytes_per_s: m.bandwidth_bytes_per_s,
            value: m.value,
            unit: m.unit.as_deref(),
            against: ratio.map(|r| &*r.against),
            ratio: ratio.map(|r| r.median),
            ratio_least: ratio.map(|r| r.least),
            ratio_greatest: ratio.map(|r| r.greatest),
            bar: verdict.map(|v| v.bar.text()),
            met: verdict.map(|v| v.is_met),
            pairs_met: verdict.map(|v| v.met),
            pairs: verdict.map(|v| v.pairs),
        }
    }
}

/// Splits a case into side and measurement: "openmpi4_tcp" and "pingpong" of "openmpi4_tcp:pingpong".
pub fn split(case: &str) -> (&str, &str) {
    case.split_once(':').unwrap_or(("", case))
}

/// Whether the bars apply to this side: ours with default settings.
fn is_ours_as_usual(side: &str) -> bool {
    !side.contains('_') && side != SANDIA
}

pub fn figure_of(what: &str) -> Figure {
    match what {
        "rate" => Figure::Rate,
        "stream" => Figure::Bandwidth,
        "pingpong" | "counting_put" | "put_signal" | "get" | "fetch_add" | "put_quiet" => Figure::Time,
        _ => Figure::Value,
    }
}

/// The cases to compare a case with, if they were measured.
fn against(case: &str) -> Vec<String> {
    let (side, what) = split(case);
    if let Some((usual, "calls" | "asleep")) = side.split_once('_') {
        return vec![format!("{usual}:{what}")];
    }
    if !is_ours_as_usual(side) || what == "idle" || what.ends_with(":arrived") {
        return Vec::new();
    }
    match (side, what) {
        (_, "overlap_posted" | "overlap_put") => vec!["bare_tcp:overlap_tcp".into()],
        (_, "overlap_posted:threads" | "overlap_put:threads") => vec!["bare_tcp:overlap_tcp:threads".into()],
        // A library without counting puts is measured with put-with-signal.
        ("shmem", "counting_put") => vec![format!("{SANDIA}:put_signal")],
        ("shmem", _) => vec![format!("{SANDIA}:{what}")],
        _ => ["tcp", "rxm"].map(|network| format!("{side}_{network}:{what}")).into(),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let last = *values.get(middle)?;
    Some(if values.len() % 2 == 1 { last } else { (values[middle - 1] + last) / 2.0 })
}

type Turns = [Vec<Measurement>];

fn is_same(a: &Measurement, b: &Measurement) -> bool {
    (&a.case, a.size_bytes, a.depth) == (&b.case, b.size_bytes, b.depth)
}

/// Returns one measurement of each case, size and depth, with the medians over the turns.
pub fn medians(turns: &Turns) -> Vec<Measurement> {
    let mut firsts: Vec<&Measurement> = Vec::new();
    for m in turns.iter().flatten() {
        if !firsts.iter().any(|first| is_same(first, m)) {
            firsts.push(m);
        }
    }
    let over_turns = |first: &Measurement| {
        let all: Vec<_> = turns.iter().flatten().filter(|m| is_same(m, first)).collect();
        let of = |figure: fn(&Measurement) -> Option<f64>| median(all.iter().filter_map(|m| figure(m)).collect());
        Measurement {
            median_ns: of(|m| m.median_ns),
            p99_ns: of(|m| m.p99_ns),
            rate_per_s: of(|m| m.rate_per_s),
            bandwidth_bytes_per_s: of(|m| m.bandwidth_bytes_per_s),
            value: of(|m| m.value),
            ..first.clone()
        }
    };
    firsts.into_iter().map(over_turns).collect()
}

/// The ratios of a measurement to that of another case, turn by turn.
fn ratios(m: &Measurement, other: &str, turns: &Turns) -> Vec<f64> {
    let figure = figure_of(split(&m.case).1);
    let wanted = Measurement { case: other.to_owned(), ..m.clone() };
    let of = |turn: &Vec<Measurement>| {
        let find = |wanted| turn.iter().find(|one| is_same(one, wanted)).and_then(|one| figure.of(one));
        Some(find(m)? / find(&wanted)?)
    };
    turns.iter().filter_map(of).collect()
}

fn verdict(bar: Bar, values: &[f64]) -> Option<Verdict> {
    let is_met = bar.is_met(median(values.to_vec())?);
    Some(Verdict { bar, is_met, met: values.iter().filter(|value| bar.is_met(**value)).count(), pairs: values.len() })
}

/// All rows, those of one measurement together.
pub fn rows(turns: &Turns) -> Vec<Row> {
    let mut all = medians(turns);
    let order: Vec<String> = all.iter().map(|m| split(&m.case).1.to_owned()).collect();
    all.sort_by_key(|m| {
        let (side, what) = split(&m.case);
        let place = order.iter().position(|other| other == what);
        let family = side.split('_').next().filter(|side| ![SANDIA, "bare"].contains(side)).unwrap_or("shmem");
        (place, family.to_owned(), m.size_bytes, m.depth, is_ours_as_usual(side), side.to_owned())
    });
    all.iter().flat_map(|m| rows_of(m, &all, turns)).collect()
}

fn rows_of(m: &Measurement, all: &[Measurement], turns: &Turns) -> Vec<Row> {
    let (side, what) = split(&m.case);
    let goal = GOALS.iter().find(|goal| goal.what == what && is_ours_as_usual(side));
    let compared: Vec<(String, Vec<f64>)> = against(&m.case)
        .into_iter()
        .map(|other| (ratios(m, &other, turns), other))
        .filter(|(ratios, _)| !ratios.is_empty())
        .map(|(ratios, other)| (other, ratios))
        .collect();
    let better = better_of(m, compared.iter().map(|(other, _)| other), all);
    let alone = goal.filter(|goal| !goal.is_of_ratio).and_then(|goal| {
        let values: Vec<f64> =
            turns.iter().flatten().filter(|one| is_same(one, m)).filter_map(|one| one.value).collect();
        verdict(goal.bar, &values)
    });
    let mut rows = Vec::new();
    for (at, (other, ratios)) in compared.into_iter().enumerate() {
        let of_ratio = goal.filter(|goal| goal.is_of_ratio && better.as_ref() == Some(&other));
        let verdict = match of_ratio {
            Some(goal) => verdict(goal.bar, &ratios),
            None => alone.clone().filter(|_| at == 0),
        };
        let (least, greatest) = (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max));
        let ratio = median(ratios).zip(least).zip(greatest);
        let ratio = ratio.map(|((median, least), greatest)| Ratio { against: other, median, least, greatest });
        rows.push(Row { m: m.clone(), ratio, verdict });
    }
    if rows.is_empty() {
        rows.push(Row { m: m.clone(), ratio: None, verdict: alone });
    }
    rows
}

/// The peer with the better figure.
fn better_of<'a>(m: &Measurement, peers: impl Iterator<Item = &'a String>, all: &[Measurement]) -> Option<String> {
    let figure = figure_of(split(&m.case).1);
    let value = |peer: &String| {
        let wanted = Measurement { case: peer.clone(), ..m.clone() };
        let value = all.iter().find(|one| is_same(one, &wanted)).and_then(|one| figure.of(one))?;
        Some(if figure == Figure::Time { -value } else { value })
    };
    let valued = peers.filter_map(|peer| Some((value(peer)?, peer)));
    valued.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, peer)| peer.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(case: &str, ns: f64) -> Measurement {
        Measurement { case: case.into(), size_bytes: Some(8), median_ns: Some(ns), ..Measurement::default() }
    }

    fn of<'a>(rows: &'a [Row], case: &str) -> Vec<&'a Row> {
        rows.iter().filter(|row| row.m.case == case).collect()
    }

    #[test]
    fn ratios_are_of_one_turn_and_the_better_peer_has_the_bar() {
        let turn = |ours, tcp, rxm| {
            vec![time("mpich:pingpong", ours), time("mpich_tcp:pingpong", tcp), time("mpich_rxm:pingpong", rxm)]
        };
        // The second turn is slow for all.
        let turns = [turn(10.0, 10.0, 20.0), turn(120.0, 100.0, 200.0), turn(10.0, 10.0, 20.0)];
        let rows = rows(&turns);
        let ours = of(&rows, "mpich:pingpong");
        let tcp = ours.iter().find(|row| row.ratio.as_ref().unwrap().against == "mpich_tcp:pingpong").unwrap();
        let ratio = tcp.ratio.clone().unwrap();
        assert_eq!((ratio.median, ratio.least, ratio.greatest), (1.0, 1.0, 1.2));
        let verdict = tcp.verdict.clone().unwrap();
        assert_eq!((verdict.is_met, verdict.met, verdict.pairs), (true, 2, 3));
        let rxm = ours.iter().find(|row| row.ratio.as_ref().unwrap().against == "mpich_rxm:pingpong").unwrap();
        assert_eq!((rxm.ratio.as_ref().unwrap().median, rxm.verdict.is_none()), (0.5, true));
        assert_eq!(of(&rows, "mpich_tcp:pingpong")[0].ratio, None);
    }

    #[test]
    fn a_rate_has_to_be_greater() {
        let rate = |case: &str, per_s| Measurement { rate_per_s: Some(per_s), ..time(case, 1.0) };
        let turns = [vec![rate("mpich:rate", 14.0), rate("mpich_tcp:rate", 5.0), rate("mpich_rxm:rate", 10.0)]];
        let rows = rows(&turns);
        let judged: Vec<_> = rows.iter().filter_map(|row| Some((row.ratio.clone()?, row.verdict.clone()?))).collect();
        assert_eq!(judged.len(), 1);
        assert_eq!((&*judged[0].0.against, judged[0].0.median, judged[0].1.is_met), ("mpich_rxm:rate", 1.4, false));
    }

    #[test]
    fn a_figure_alone_is_judged_by_itself() {
        let value = |case: &str, value| Measurement { value: Some(value), ..time(case, 1.0) };
        let turns = [
            vec![value("mpich:overlap_posted:arrived", 50.0), value("mpich_calls:overlap_posted:arrived", 0.0)],
            vec![value("mpich:overlap_posted:arrived", 49.0)],
            vec![value("mpich:overlap_posted:arrived", 50.0)],
        ];
        let rows = rows(&turns);
        let verdict = of(&rows, "mpich:overlap_posted:arrived")[0].verdict.clone().unwrap();
        assert_eq!((verdict.is_met, verdict.met, verdict.pairs), (true, 2, 3));
        let calls = of(&rows, "mpich_calls:overlap_posted:arrived")[0];
        assert_eq!((calls.m.value, calls.verdict.is_none()), (Some(0.0), true));
    }

    #[test]
    fn counting_puts_are_compared_with_puts_with_signals() {
        let rows = rows(&[vec![time("shmem:counting_put", 9.0), time("sandia:put_signal", 10.0)]]);
        let row = of(&rows, "shmem:counting_put")[0];
        assert_eq!(row.ratio.as_ref().map(|r| (&*r.against, r.median)), Some(("sandia:put_signal", 0.9)));
        assert!(row.verdict.as_ref().is_some_and(|verdict| verdict.is_met));
        assert_eq!(against("shmem_calls:counting_put"), ["shmem:counting_put"]);
        assert!(against("mpich:idle").is_empty() && against("memory:resident").len() == 2);
    }

    #[test]
    fn the_median_of_an_even_number_is_between() {
        assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
        assert_eq!(median(Vec::new()), None);
    }
}
