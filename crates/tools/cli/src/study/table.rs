// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table of a study: a row for each cell, or for each point of its results; a column for each axis and each result.
//!
//! | report of a cell | rows | columns by default |
//! |---|---|---|
//! | traffic | one for each load | [`TRAFFIC`] |
//! | a program | one for each x of its results, such as each size; else one | its series, then [`PROGRAM`] |
//!
//! A column is a path in the report, such as `latency.mean_ns`: in that of a load, or in that of the whole run.
//!
//! Invariant: the table depends on the scenario and on the reports only. It is the same to the byte however cells were run.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_settings::nearest;
use serde_json::{Map, Value, json};

pub const SCHEMA: &str = "selvedge.study/1";
/// Results of traffic that the table has by default.
const TRAFFIC: [&str; 13] = [
    "stopped",
    "offered",
    "accepted",
    "latency.mean_ns",
    "latency.median_ns",
    "latency.p99_ns",
    "latency.max_ns",
    "hops_mean",
    "packets",
    "lost",
    "blocking_rate",
    "deadlocks",
    "channel_utilisation_mean",
];
/// Results of programs that the table has by default.
const PROGRAM: [&str; 9] = [
    "end",
    "virtual_time_ps",
    "messages.delivered",
    "messages.payload_bytes",
    "messages.lost",
    "messages.latency.mean_ps",
    "messages.latency.p99_ps",
    "network.packet_hops",
    "hash",
];
/// Parts of a report that are no results, or too long for a column each.
const NO_COLUMNS: [&str; 6] = ["schema", "machine", "options", "samples", "registers", "results"];

/// The table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub axes: Vec<String>,
    /// Columns behind the axes. The first is that of x, if rows are points.
    pub columns: Vec<String>,
    /// Whether the first column is the x of the results.
    pub has_x: bool,
    /// Rows, of axes and columns.
    pub rows: Vec<Vec<Value>>,
}

/// A row by the names of its columns.
type Row = BTreeMap<String, Value>;

/// Rows of one report, the column of x, and the columns by default.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    x: Option<String>,
    columns: Vec<String>,
}

impl Table {
    /// Makes the table of finished cells: the values of their axes, and their reports. `asked`: the columns, or none.
    /// Returns also the asked columns that no report has, each with its remedy.
    pub fn of<'a>(
        axes: &[String],
        asked: &[String],
        cells: impl Iterator<Item = (&'a [Value], Value)>,
    ) -> (Table, Vec<String>) {
        let (mut all, mut names) = (Vec::new(), BTreeSet::new());
        let (mut x, mut columns): (Vec<String>, Vec<String>) = Default::default();
        for (values, report) in cells {
            let of = rows_of(&report, axes);
            add_new(&mut x, of.x);
            add_new(&mut columns, of.columns);
            for row in of.rows {
                names.extend(row.keys().filter(|_| !asked.is_empty()).cloned());
                all.push((values, row));
            }
        }
        let mut missing = Vec::new();
        if !asked.is_empty() {
            columns = asked.to_vec();
            for name in asked.iter().filter(|name| !names.contains(*name) && !names.is_empty()) {
                let near = nearest(name, names.iter().cloned());
                let hint = near.map_or_else(
                    || "; `--json` of a cell has the names".to_owned(),
                    |near| format!("; did you mean {near}?"),
                );
                missing.push(format!("{name}: no report has it{hint}"));
            }
        }
        columns.retain(|name| !axes.contains(name) && !x.contains(name));
        let has_x = x.len() == 1;
        let columns: Vec<String> = x.into_iter().chain(columns).collect();
        let row = |(values, mut row): (&'a [Value], Row)| {
            let results = columns.iter().map(|name| row.remove(name).unwrap_or(Value::Null));
            values.iter().cloned().chain(results).collect()
        };
        let rows = all.into_iter().map(row).collect();
        (Table { axes: axes.to_vec(), columns, has_x, rows }, missing)
    }

    pub fn heads(&self) -> impl Iterator<Item = &String> {
        self.axes.iter().chain(&self.columns)
    }

    /// Index of a column or an axis.
    pub fn at(&self, name: &str) -> Option<usize> {
        self.heads().position(|head| head == name)
    }

    /// The table as CSV (RFC 4180, with line feeds).
    pub fn csv(&self) -> String {
        let line = |cells: Vec<String>| cells.join(",") + "\n";
        let mut text = line(self.heads().map(|head| quoted(head)).collect());
        for row in &self.rows {
            text.push_str(&line(row.iter().map(|value| quoted(&words(value))).collect()));
        }
        text
    }

    /// The table as JSON: a row is an object.
    pub fn json(&self) -> Value {
        let heads: Vec<&String> = self.heads().collect();
        let row = |row: &Vec<Value>| -> Value {
            heads.iter().zip(row).map(|(head, value)| ((*head).clone(), value.clone())).collect::<Map<_, _>>().into()
        };
        json!({ "axes": self.axes, "columns": self.columns, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

/// A value as text; nothing for none.
pub fn words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

fn add_new(all: &mut Vec<String>, names: impl IntoIterator<Item = String>) {
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
}

fn rows_of(report: &Value, axes: &[String]) -> Rows {
    let mut whole = Row::new();
    scalars("", report, &mut whole);
    let with = |more: Row| -> Row { whole.clone().into_iter().chain(more).collect() };
    let named = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    match &report["results"] {
        Value::Array(loads) => {
            let row = |load: &Value| {
                let mut row = Row::new();
                scalars("", load, &mut row);
                with(row)
            };
            let is_x = loads.len() > 1 && !axes.iter().any(|axis| axis == "load");
            Rows { rows: loads.iter().map(row).collect(), x: is_x.then(|| "load".to_owned()), columns: named(&TRAFFIC) }
        }
        Value::Object(results) => {
            let points = points(results);
            let x = results.get("x").and_then(Value::as_str).filter(|x| !x.is_empty() && !points.is_empty());
            let series = results.get("series").and_then(Value::as_array).into_iter().flatten();
            let series = series.filter_map(|series| series["name"].as_str().map(str::to_owned));
            let columns = series.chain(named(&PROGRAM)).collect();
            let rows = match x {
                None => vec![whole],
                Some(x) => points
                    .into_iter()
                    .map(|(at, mut row)| {
                        row.insert(x.to_owned(), at);
                        with(row)
                    })
                    .collect(),
            };
            Rows { rows, x: x.map(str::to_owned), columns }
        }
        _ => Rows { columns: whole.keys().cloned().collect(), rows: vec![whole], x: None },
    }
}

/// The results of a program by x: the mean of each series there.
fn points(results: &Map<String, Value>) -> Vec<(Value, Row)> {
    let mut found: Vec<(f64, BTreeMap<String, Vec<f64>>)> = Vec::new();
    for series in results.get("series").and_then(Value::as_array).into_iter().flatten() {
        let name = series["name"].as_str().unwrap_or_default();
        for point in series["points"].as_array().into_iter().flatten() {
            let (Some(x), Some(y)) = (point[0].as_f64(), point[1].as_f64()) else { continue };
            let at = match found.iter().position(|(other, _)| *other == x) {
                Some(at) => at,
                None => {
                    found.push((x, BTreeMap::new()));
                    found.len() - 1
                }
            };
            found[at].1.entry(name.to_owned()).or_default().push(y);
        }
    }
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = |values: Vec<f64>| json!(values.iter().sum::<f64>() / values.len() as f64);
    let row =
        |values: BTreeMap<String, Vec<f64>>| values.into_iter().map(|(name, values)| (name, mean(values))).collect();
    found.into_iter().map(|(x, values)| (number(x), row(values))).collect()
}

/// A whole number without a fraction, as users write sizes.
fn number(x: f64) -> Value {
    if x.fract() == 0.0 && x.abs() < 9e15 { json!(x as i64) } else { json!(x) }
}

/// Adds the single values of a report by their paths.
fn scalars(above: &str, value: &Value, row: &mut Row) {
    let Value::Object(fields) = value else { return };
    for (name, value) in fields.iter().filter(|(name, _)| !above.is_empty() || !NO_COLUMNS.contains(&name.as_str())) {
        let path = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            Value::Object(_) => scalars(&path, value, row),
            Value::Array(_) => {}
            value => _ = row.insert(path, value.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_a_row_for_each_size() {
        let report = json!({
            "schema": "selvedge.sim.run/1", "end": "completed", "hash": "ab", "messages": { "delivered": 3 },
            "results": { "x": "bytes", "series": [{ "name": "time, us", "points": [[64.0, 3.0], [8.0, 1.0], [8.0, 2.0]] }] },
        });
        let axes = ["seed".to_owned()];
        let values = [json!(1)];
        let (table, missing) = Table::of(&axes, &[], [(&values[..], report.clone())].into_iter());
        assert!(missing.is_empty() && table.has_x);
        let csv = table.csv();
        let mut lines = csv.lines();
        assert!(lines.next().unwrap().starts_with("seed,bytes,\"time, us\",end,virtual_time_ps,messages.delivered,"));
        assert!(lines.next().unwrap().starts_with("1,8,1.5,completed,,3,"), "{csv}");
        assert!(lines.next().unwrap().starts_with("1,64,3.0,completed,,3,"), "{csv}");
        let asked = ["hash".to_owned(), "messages.deliverd".to_owned()];
        let (table, missing) = Table::of(&axes, &asked, [(&values[..], report)].into_iter());
        assert_eq!(table.csv(), "seed,bytes,hash,messages.deliverd\n1,8,ab,\n1,64,ab,\n");
        assert_eq!(missing, ["messages.deliverd: no report has it; did you mean messages.delivered?"]);
    }

    #[test]
    fn traffic_has_a_row_for_each_load() {
        let report = |loads: &[f64]| {
            let load =
                |load: &f64| json!({ "load": load, "accepted": load, "latency": { "mean_ns": 7.0 }, "stopped": null });
            json!({ "results": loads.iter().map(load).collect::<Vec<_>>(), "pattern": "uniform" })
        };
        let none: [Value; 0] = [];
        let (table, _) = Table::of(&[], &["accepted".into()], [(&none[..], report(&[0.1, 0.2]))].into_iter());
        assert_eq!(table.csv(), "load,accepted\n0.1,0.1\n0.2,0.2\n");
        let values = [json!(0.1)];
        let (table, _) = Table::of(&["load".into()], &[], [(&values[..], report(&[0.1]))].into_iter());
        assert_eq!((table.has_x, table.columns.len(), table.rows.len()), (false, TRAFFIC.len(), 1));
        assert_eq!(table.json()["rows"][0]["latency.mean_ns"], 7.0);
    }

    #[test]
    fn texts_with_commas_and_quotes_are_quoted() {
        assert_eq!([quoted("a"), quoted("a,b"), quoted("a\"b")], ["a", "\"a,b\"", "\"a\"\"b\""]);
    }
}
