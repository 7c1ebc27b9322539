// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Formats records as tables.

use selvedge_terminal::Table;

use super::record::Record;

/// Column heads, in the order of [`row`].
pub const COLUMNS: [&str; 9] = ["case", "size", "depth", "median", "p99", "rate", "bandwidth", "against", "ratio"];
pub const TEXT_COLUMNS: [usize; 2] = [0, 7];

pub fn table(records: &[Record]) -> String {
    aligned(&COLUMNS, &TEXT_COLUMNS, records.iter().map(row))
}

/// A table for a terminal. All columns except text are right-aligned.
pub fn aligned<const N: usize>(
    columns: &[&str; N],
    text_columns: &[usize],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let head = |(at, head)| format!("{}{head}", if text_columns.contains(&at) { "" } else { ">" });
    let heads: Vec<String> = columns.iter().enumerate().map(head).collect();
    let mut table = Table::new(&heads).ruled();
    rows.for_each(|row| table.row(row));
    table.text()
}

/// A table for a page.
pub fn markdown<const N: usize>(
    columns: &[&str; N],
    text_columns: &[usize],
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let rules = (0..N).map(|at| if text_columns.contains(&at) { "---" } else { "---:" });
    let mut out = format!("| {} |\n|{}|\n", columns.join(" | "), rules.collect::<Vec<_>>().join("|"));
    rows.for_each(|row| out += &format!("| {} |\n", row.join(" | ")));
    out
}

/// The cells of one record; empty where a figure does not apply.
pub fn row(r: &Record) -> [String; 9] {
    let or_empty = |value: Option<String>| value.unwrap_or_default();
    [
        r.case.clone(),
        or_empty(r.size_bytes.map(size)),
        or_empty(r.depth.map(|d| d.to_string())),
        or_empty(r.median_ns.map(time)),
        or_empty(r.p99_ns.map(time)),
        or_empty(r.rate_per_s.map(|v| scaled(v, "/s"))),
        or_empty(r.bandwidth_bytes_per_s.map(|v| scaled(v, "B/s"))),
        or_empty(r.against.clone()),
        or_empty(r.ratio.map(ratio)),
    ]
}

/// A size as text, such as "8 B" or "64 KiB".
pub fn size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit && bytes % unit == 0) {
        Some((unit, name)) => format!("{} {name}", bytes / unit),
        None => format!("{bytes} B"),
    }
}

/// A number with three significant digits.
pub fn digits(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

pub fn time(ns: f64) -> String {
    match ns {
        v if v < 1e3 => format!("{} ns", digits(v)),
        v if v < 1e6 => format!("{} us", digits(v / 1e3)),
        v if v < 1e9 => format!("{} ms", digits(v / 1e6)),
        v => format!("{} s", digits(v / 1e9)),
    }
}

/// A number with a decimal prefix and a unit.
pub fn scaled(value: f64, unit: &str) -> String {
    match value {
        v if v >= 1e9 => format!("{} G{unit}", digits(v / 1e9)),
        v if v >= 1e6 => format!("{} M{unit}", digits(v / 1e6)),
        v if v >= 1e3 => format!("{} k{unit}", digits(v / 1e3)),
        v => format!("{} {unit}", digits(v)),
    }
}

pub fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Record {
        Record {
            case: "counting_put".into(),
            size_bytes: Some(65536),
            depth: None,
            median_ns: Some(153.4),
            p99_ns: Some(2_345.0),
            rate_per_s: None,
            bandwidth_bytes_per_s: Some(12.34e9),
            against: Some("raw_flag".into()),
            ratio: Some(1.25),
        }
    }

    #[test]
    fn figures_are_readable() {
        let row = row(&sample());
        assert_eq!(row, ["counting_put", "64 KiB", "", "153 ns", "2.35 us", "", "12.3 GB/s", "raw_flag", "1.25"]);
        assert_eq!((size(8), size(1 << 20), size(1000)), ("8 B".into(), "1 MiB".into(), "1000 B".into()));
        assert_eq!(
            (time(1.5e9), scaled(5.2e6, "/s"), scaled(10.0, "/s")),
            ("1.50 s".into(), "5.20 M/s".into(), "10.0 /s".into())
        );
    }

    #[test]
    fn json_has_exactly_the_fields() {
        let text = serde_json::to_string(&[sample()]).unwrap();
        let parsed: Vec<serde_json::Map<String, serde_json::Value>> = serde_json::from_str(&text).unwrap();
        let mut keys: Vec<&str> = parsed[0].keys().map(String::as_str).collect();
        keys.sort_unstable();
        let mut wanted =
            ["case", "size_bytes", "depth", "median_ns", "p99_ns", "rate_per_s", "bandwidth_Bps", "against", "ratio"];
        wanted.sort_unstable();
        assert_eq!(keys, wanted);
        assert!(parsed[0]["depth"].is_null());
    }

    #[test]
    fn the_table_has_a_line_for_each_record() {
        let text = table(&[sample(), sample()]);
        assert_eq!(text.lines().filter(|l| l.contains("counting_put")).count(), 2);
    }
}
