// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Records as a table, for terminals and pages.

use selvedge_document::{Table, words};

use super::record::Record;

/// Heads of the columns of [`row`]; `>`: numbers.
const HEADS: [&str; 9] = ["case", ">size", ">depth", ">median", ">p99", ">rate", ">bandwidth", "against", ">ratio"];

pub fn table<'a>(records: impl IntoIterator<Item = &'a Record>) -> Table {
    let mut table = Table::with_heads(&HEADS);
    records.into_iter().for_each(|record| table.row(row(record)));
    table
}

/// The cells of one record; empty where a figure does not apply.
fn row(r: &Record) -> [String; 9] {
    let or_empty = |value: Option<String>| value.unwrap_or_default();
    [
        r.case.clone(),
        or_empty(r.size_bytes.map(size)),
        or_empty(r.depth.map(|d| d.to_string())),
        or_empty(r.median_ns.map(words::time_ns)),
        or_empty(r.p99_ns.map(words::time_ns)),
        or_empty(r.rate_per_s.map(words::rate)),
        or_empty(r.bandwidth_bytes_per_s.map(words::bytes_per_s)),
        or_empty(r.against.clone()),
        or_empty(r.ratio.map(ratio)),
    ]
}

/// A size as text, such as "8 B" or "64 KiB".
pub fn size(bytes: u64) -> String {
    words::bytes(bytes as f64)
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
    fn the_table_has_a_row_for_each_record() {
        let table = table(&[sample(), sample()]);
        assert_eq!(table.rows.iter().filter(|row| row[0] == "counting_put").count(), 2);
        assert_eq!(table.columns.len(), table.rows[0].len());
        let text: Vec<&str> = table.columns.iter().filter(|column| !column.right).map(|column| &*column.head).collect();
        assert_eq!(text, ["case", "against"]);
    }
}
