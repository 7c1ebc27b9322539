// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plots of a study's table: those of the scenario, or one for each main result.
//!
//! Without a choice of the scenario, x is the x of the results, else the swept number with the most values. Seeds are neither x
//! nor lines: a point is the mean over them. All other axes make the lines.

use std::collections::BTreeMap;

use selvedge_document::plot::{Axis, Line, Plot, Shape, file_name, wide};
use selvedge_document::words;
use serde_json::Value;

use super::scenario::PlotOf;
use super::table::{self, Table};

const SEED: &str = "seed";
/// Results of traffic and programs that are drawn by default.
const DRAWN: [&str; 4] = ["accepted", "latency.mean_ns", "lost", "virtual_time_ps"];
/// Columns behind those of a program's own results.
const BEHIND_SERIES: &str = "end";
/// Most lines of one plot.
const LINES_MAX: usize = 24;

/// The plots, and what to say about plots that are not drawn.
pub fn plots(table: &Table, asked: &[PlotOf]) -> (Vec<Plot>, Vec<String>) {
    let (mut drawn, mut notes) = (Vec::new(), Vec::new());
    let by_default = by_default(table);
    for of in if asked.is_empty() { &by_default[..] } else { asked } {
        match plot(table, of) {
            Ok(plot) if plot.is_empty() => {}
            Ok(mut plot) => {
                if let Shape::Lines(lines) = &mut plot.shape {
                    if lines.len() > LINES_MAX {
                        let more = lines.len() - LINES_MAX;
                        notes.push(format!(
                            "{}: {more} lines are not drawn; a [[plot]] of the scenario chooses",
                            plot.title
                        ));
                        lines.truncate(LINES_MAX);
                    }
                }
                drawn.push(plot);
            }
            Err(why) => notes.push(format!("[plot] {why}")),
        }
    }
    (drawn, notes)
}

fn by_default(table: &Table) -> Vec<PlotOf> {
    let values = |axis: &String| {
        let at = table.at(axis)?;
        let mut numbers: Vec<f64> = table.rows.iter().map(|row| place(&row[at])).collect::<Option<_>>()?;
        numbers.sort_by(f64::total_cmp);
        numbers.dedup();
        Some(numbers.len())
    };
    let swept = table.axes.iter().filter(|axis| *axis != SEED).filter_map(|axis| Some((axis, values(axis)?)));
    // Of equal ones the first.
    let longest = swept.filter(|(_, count)| *count > 1).reduce(|a, b| if b.1 > a.1 { b } else { a });
    let x = if table.has_x { table.columns.first() } else { longest.map(|(axis, _)| axis) };
    let Some(x) = x else { return Vec::new() };
    let behind = table.columns.iter().position(|name| name == BEHIND_SERIES).unwrap_or(0);
    let series = table.columns[..behind].iter().skip(usize::from(table.has_x));
    let mut drawn: Vec<&String> = series.collect();
    if drawn.is_empty() {
        let is_drawn = |name: &&String| DRAWN.contains(&name.as_str()) && has_values(table, name);
        drawn = table.columns.iter().filter(is_drawn).collect();
    }
    if drawn.is_empty() {
        drawn = table.columns.iter().filter(|name| *name != x && has_values(table, name)).take(DRAWN.len()).collect();
    }
    drawn.into_iter().map(|y| PlotOf { x: x.clone(), y: y.clone(), lines: None, title: None }).collect()
}

/// Whether a column has a number other than 0.
fn has_values(table: &Table, name: &str) -> bool {
    let at = table.at(name);
    at.is_some_and(|at| table.rows.iter().any(|row| row[at].as_f64().is_some_and(|value| value != 0.0)))
}

fn plot(table: &Table, of: &PlotOf) -> Result<Plot, String> {
    let find = |name: &str| table.at(name).ok_or_else(|| format!("{name}: the table has no such column"));
    let (x, y) = (find(&of.x)?, find(&of.y)?);
    let keys = match &of.lines {
        Some(keys) => keys.iter().map(|key| find(key)).collect::<Result<Vec<_>, _>>()?,
        None => (0..table.axes.len()).filter(|&axis| axis != x && table.axes[axis] != SEED).collect(),
    };
    // Lines in the order of the table, each with its points' values by the bits of x.
    let mut lines: Vec<(String, BTreeMap<u64, Vec<f64>>)> = Vec::new();
    for row in &table.rows {
        let (Some(at), Some(value)) = (place(&row[x]), row[y].as_f64()) else { continue };
        let name = name_of(row, &keys, table);
        let line = match lines.iter().position(|(other, _)| *other == name) {
            Some(line) => line,
            None => {
                lines.push((name, BTreeMap::new()));
                lines.len() - 1
            }
        };
        lines[line].1.entry(at.to_bits()).or_default().push(value);
    }
    let mean = |values: &Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
    let line = |(name, points): (String, BTreeMap<u64, Vec<f64>>)| {
        let mut points: Vec<(f64, f64)> =
            points.iter().map(|(at, values)| (f64::from_bits(*at), mean(values))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { name, points }
    };
    let lines: Vec<Line> = lines.into_iter().map(line).collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let axis = |name: &str, is_log: bool, base| {
        let words = words_of(name);
        if is_log { Axis::logarithmic("", base, words) } else { Axis::linear("", words) }.called(name.to_owned())
    };
    let is_log = |of: fn(&(f64, f64)) -> f64| points().all(|point| of(point) > 0.0) && wide(points().map(of));
    let (x, y) = (axis(&of.x, is_log(|point| point.0), 2), axis(&of.y, is_log(|point| point.1), 10));
    Ok(Plot {
        name: file_name(&format!("{} by {}", of.y, of.x)),
        title: of.title.clone().unwrap_or_else(|| format!("{}, by {}", of.y, of.x)),
        x,
        y,
        shape: Shape::Lines(lines),
    })
}

/// The place of a value on the x axis: a number, or the one at the end of a text such as `locality:0.7`.
fn place(value: &Value) -> Option<f64> {
    match value {
        Value::String(text) => text.rsplit(':').next()?.parse().ok(),
        value => value.as_f64(),
    }
}

/// The name of a row's line: the values of its keys, numbers with the last part of their key.
fn name_of(row: &[Value], keys: &[usize], table: &Table) -> String {
    let word = |&key: &usize| match &row[key] {
        Value::String(text) => text.clone(),
        value => {
            let name = table.heads().nth(key).map_or("", String::as_str);
            format!("{} {}", name.rsplit('.').next().unwrap_or(name), table::words(value))
        }
    };
    keys.iter().map(word).collect::<Vec<_>>().join(", ")
}

/// The format of a column's numbers, from the end of its name.
fn words_of(name: &str) -> fn(f64) -> String {
    let shares = ["offered", "accepted", "load", "blocking_rate", "probability", "utilisation_mean", "utilisation_max"];
    match name {
        _ if name.ends_with("_ns") => words::time_ns,
        _ if name.ends_with("_ps") => |ps| words::time_ns(ps / 1e3),
        _ if name.ends_with("bytes_per_s") || name.contains("bytes_per_s_") => words::bytes_per_s,
        _ if name.ends_with("bytes") => words::bytes,
        _ if shares.iter().any(|share| name.ends_with(share)) => words::percent,
        _ => words::plain,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table() -> Table {
        let mut rows = Vec::new();
        for routing in ["minimal", "valiant"] {
            for load in [0.1, 0.5, 0.9] {
                for seed in [1, 3] {
                    rows.push(vec![json!(routing), json!(load), json!(seed), json!(load * f64::from(seed)), json!(0)]);
                }
            }
        }
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Table {
            axes: names(&["set.routing.algorithm", "load", "seed"]),
            columns: names(&["accepted", "lost"]),
            has_x: false,
            rows,
        }
    }

    #[test]
    fn a_point_is_the_mean_over_seeds() {
        let (plots, notes) = plots(&table(), &[]);
        assert_eq!((plots.len(), notes.len()), (1, 0), "nothing was lost, so that is not drawn");
        assert_eq!(plots[0].name, "accepted-by-load");
        let Shape::Lines(lines) = &plots[0].shape else { panic!("{:?}", plots[0].shape) };
        let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["minimal", "valiant"]);
        assert_eq!(lines[0].points, [(0.1, 0.2), (0.5, 1.0), (0.9, 1.8)]);
    }

    #[test]
    fn a_scenario_chooses_its_plots() {
        let asked = |x: &str, y: &str, lines: &[&str]| PlotOf {
            x: x.into(),
            y: y.into(),
            lines: Some(lines.iter().map(|name| (*name).to_owned()).collect()),
            title: None,
        };
        let (plots, notes) = plots(&table(), &[asked("seed", "accepted", &[]), asked("load", "hops", &[])]);
        assert_eq!((plots.len(), &notes[..]), (1, &["[plot] hops: the table has no such column".to_owned()][..]));
        let Shape::Lines(lines) = &plots[0].shape else { panic!("{:?}", plots[0].shape) };
        assert_eq!((lines.len(), lines[0].points.len()), (1, 2));
    }
}
