// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Measurements, the rules that compare them, and the resulting records.
//!
//! A measuring program prints a [`Measurement`] a line. A [`Rule`] names two cases, the figure to compare, and the size
//! or depth. Every rule with both sides gives a [`Record`]; a measurement without a rule, one without a ratio.
//!
//! Invariant: `ratio` is always this case's figure divided by the other's (times the rule's factor). So for times, less
//! than one means that this case is faster; for rates and bandwidths, more than one does.

use serde::{Deserialize, Serialize};

/// One line of a measuring program's output.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Measurement {
    pub case: String,
    pub size_bytes: Option<u64>,
    /// Queue length, messages in flight, or (collectives) processes.
    pub depth: Option<u64>,
    #[serde(default)]
    pub median_ns: Option<f64>,
    #[serde(default)]
    pub p99_ns: Option<f64>,
    #[serde(default)]
    pub rate_per_s: Option<f64>,
    #[serde(default, rename = "bandwidth_Bps")]
    pub bandwidth_bytes_per_s: Option<f64>,
    /// A figure of another kind, in `unit`.
    #[serde(default)]
    pub value: Option<f64>,
    #[serde(default)]
    pub unit: Option<String>,
    /// Instructions of one call. A record shows them as the ratio to one instruction.
    #[serde(default)]
    pub instructions: Option<f64>,
    /// Processor of rank 0.
    #[serde(default)]
    pub cpu: Option<i64>,
    /// Reason why there is no figure.
    #[serde(default)]
    pub skipped: Option<String>,
}

/// One row of the table, and one element of the JSON array: exactly these fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Record {
    pub case: String,
    pub size_bytes: Option<u64>,
    pub depth: Option<u64>,
    pub median_ns: Option<f64>,
    pub p99_ns: Option<f64>,
    pub rate_per_s: Option<f64>,
    #[serde(rename = "bandwidth_Bps")]
    pub bandwidth_bytes_per_s: Option<f64>,
    pub against: Option<String>,
    pub ratio: Option<f64>,
}

/// The figure that a rule compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    Time,
    Rate,
    Bandwidth,
    /// [`Measurement::value`].
    Value,
}

impl Figure {
    pub fn of(self, m: &Measurement) -> Option<f64> {
        let value = match self {
            Figure::Time => m.median_ns,
            Figure::Rate => m.rate_per_s,
            Figure::Bandwidth => m.bandwidth_bytes_per_s,
            Figure::Value => m.value,
        };
        value.filter(|v| v.is_finite() && *v > 0.0)
    }
}

/// Selects the measurement of the other case to compare with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counterpart {
    /// Its only measurement.
    Only,
    /// Its only measurement, and only for 8 bytes here.
    OnlyForEightBytes,
    SameSize,
    SameSizeOfEightBytes,
    SameDepth,
    SameSizeAndDepth,
    /// The same case at depth 16.
    DepthSixteen,
}

pub struct Rule {
    pub case: &'static str,
    pub against: &'static str,
    pub figure: Figure,
    pub counterpart: Counterpart,
    /// Factor for the other case's figure.
    pub factor: f64,
}

pub const fn rule(case: &'static str, against: &'static str, figure: Figure, counterpart: Counterpart) -> Rule {
    Rule { case, against, figure, counterpart, factor: 1.0 }
}

pub const fn two_crossings(case: &'static str, raw: &'static str) -> Rule {
    Rule { case, against: raw, figure: Figure::Time, counterpart: Counterpart::OnlyForEightBytes, factor: 2.0 }
}

const EIGHT_BYTES: Option<u64> = Some(8);

impl Rule {
    fn applies(&self, m: &Measurement) -> bool {
        let eight_only = matches!(self.counterpart, Counterpart::OnlyForEightBytes | Counterpart::SameSizeOfEightBytes);
        m.case == self.case && (!eight_only || m.size_bytes == EIGHT_BYTES)
    }

    fn is_counterpart(&self, m: &Measurement, other: &Measurement) -> bool {
        other.case == self.against
            && match self.counterpart {
                Counterpart::Only | Counterpart::OnlyForEightBytes => true,
                Counterpart::SameSize | Counterpart::SameSizeOfEightBytes => other.size_bytes == m.size_bytes,
                Counterpart::SameDepth => other.depth == m.depth,
                Counterpart::SameSizeAndDepth => (other.size_bytes, other.depth) == (m.size_bytes, m.depth),
                Counterpart::DepthSixteen => other.depth == Some(16),
            }
    }

    fn label(&self) -> String {
        let name = match self.counterpart {
            Counterpart::DepthSixteen => format!("{} Q=16", self.against),
            _ => self.against.to_owned(),
        };
        if self.factor == 1.0 { name } else { format!("{} x {name}", self.factor) }
    }

    /// The other case's name, and this figure divided by the other.
    fn compare(&self, m: &Measurement, all: &[Measurement]) -> Option<(String, f64)> {
        if !self.applies(m) {
            return None;
        }
        let other = all.iter().find(|other| self.is_counterpart(m, other))?;
        Some((self.label(), self.figure.of(m)? / (self.figure.of(other)? * self.factor)))
    }
}

/// One record for every possible comparison, in the order of the measurements.
pub fn records<'r>(all: &[Measurement], rules: impl Iterator<Item = &'r Rule> + Clone) -> Vec<Record> {
    let mut out = Vec::new();
    for m in all.iter().filter(|m| m.skipped.is_none()) {
        let mut compared: Vec<_> = rules.clone().filter_map(|rule| rule.compare(m, all)).collect();
        compared.extend(m.instructions.map(|count| ("1 instruction".to_owned(), count)));
        if compared.is_empty() {
            out.push(record(m, None));
        }
        out.extend(compared.into_iter().map(|c| record(m, Some(c))));
    }
    out
}

/// A measurement with one comparison: the other case and the ratio.
pub fn record(m: &Measurement, compared: Option<(String, f64)>) -> Record {
    let (against, ratio) = compared.unzip();
    Record {
        case: m.case.clone(),
        size_bytes: m.size_bytes,
        depth: m.depth,
        median_ns: m.median_ns,
        p99_ns: m.p99_ns,
        rate_per_s: m.rate_per_s,
        bandwidth_bytes_per_s: m.bandwidth_bytes_per_s,
        against,
        ratio,
    }
}

/// The run with the smallest median. The distance between a virtual machine's cores varies over seconds: a cache line
/// takes 40 or 200 ns, so medians of runs could compare near cores with far ones. `None` without runs.
pub fn quickest_run(runs: Vec<Measurement>) -> Option<Measurement> {
    let median = |m: &Measurement| m.median_ns.unwrap_or(f64::INFINITY);
    runs.into_iter().filter(|m| m.median_ns.is_some()).min_by(|a, b| median(a).total_cmp(&median(b)))
}

/// One measurement of each case, size and depth: its quickest run, in the order of their first runs.
pub fn quickest_runs(all: Vec<Measurement>) -> Vec<Measurement> {
    let mut groups: Vec<Vec<Measurement>> = Vec::new();
    for m in all {
        let same = |group: &&mut Vec<Measurement>| {
            (&group[0].case, group[0].size_bytes, group[0].depth) == (&m.case, m.size_bytes, m.depth)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(m),
            None => groups.push(vec![m]),
        }
    }
    let untimed = |group: &[Measurement]| group[0].median_ns.is_none().then(|| group[0].clone());
    groups.into_iter().filter_map(|group| untimed(&group).or_else(|| quickest_run(group))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::catalogue::records;

    fn time(case: &str, size: u64, depth: Option<u64>, median_ns: f64) -> Measurement {
        Measurement {
            case: case.into(),
            size_bytes: Some(size),
            depth,
            median_ns: Some(median_ns),
            ..Measurement::default()
        }
    }

    #[test]
    fn a_ratio_is_this_divided_by_the_other() {
        let all = [time("raw_flag", 8, None, 100.0), time("counting_put", 8, None, 150.0), time("get", 8, None, 400.0)];
        let out = records(&all);
        assert_eq!((out[0].against.as_deref(), out[0].ratio), (None, None));
        assert_eq!((out[1].against.as_deref(), out[1].ratio), (Some("raw_flag"), Some(1.5)));
        assert_eq!((out[2].against.as_deref(), out[2].ratio), (Some("2 x raw_flag"), Some(2.0)));
    }

    #[test]
    fn sizes_and_depths_are_matched() {
        let all = [
            time("counting_put", 8, None, 100.0),
            time("counting_put", 64, None, 200.0),
            time("put_flag", 64, None, 300.0),
            time("match_posted", 8, Some(16), 10.0),
            time("match_posted", 8, Some(1024), 30.0),
            time("mpich:match_posted", 8, Some(1024), 90.0),
        ];
        let out = records(&all);
        let ratio = |case: &str, depth: Option<u64>| -> Vec<f64> {
            out.iter().filter(|r| r.case == case && r.depth == depth).filter_map(|r| r.ratio).collect()
        };
        assert_eq!(ratio("put_flag", None), [1.5]);
        assert_eq!(ratio("match_posted", Some(1024)), [3.0]);
        assert_eq!(ratio("mpich:match_posted", Some(1024)), [3.0], "its own Q=16 is missing, ours at 1024 is not");
        assert!(ratio("counting_put", None).is_empty(), "64 bytes have no raw figure, and 8 no raw run");
    }

    #[test]
    fn two_comparisons_make_two_records() {
        let bandwidth =
            |case: &str, value: f64| Measurement { bandwidth_bytes_per_s: Some(value), ..time(case, 65536, None, 1.0) };
        let all =
            [bandwidth("bandwidth_cma", 8.0), bandwidth("memcpy_ordinary", 10.0), bandwidth("process_vm_writev", 4.0)];
        let found: Vec<_> = records(&all).into_iter().filter(|r| r.case == "bandwidth_cma").map(|r| r.ratio).collect();
        assert_eq!(found, [Some(0.8), Some(2.0)]);
    }

    #[test]
    fn zero_is_no_divisor() {
        let all = [time("raw_flag", 8, None, 0.0), time("counting_put", 8, None, 150.0)];
        assert_eq!(records(&all)[1].ratio, None);
        let skipped = Measurement { skipped: Some("why".into()), ..time("get", 8, None, 1.0) };
        assert!(records(&[skipped]).is_empty());
    }

    #[test]
    fn the_quickest_run_is_kept() {
        let runs =
            vec![time("raw_flag", 8, None, 300.0), time("raw_flag", 8, None, 100.0), time("raw_flag", 8, None, 200.0)];
        assert_eq!(quickest_run(runs).and_then(|m| m.median_ns), Some(100.0));
        assert_eq!(quickest_run(Vec::new()), None);
    }

    #[test]
    fn the_quickest_turn_is_kept() {
        let counted = Measurement { instructions: Some(9.0), ..time("shmem_p_instructions", 8, None, 0.0) };
        let counted = Measurement { median_ns: None, ..counted };
        let of = |ns| time("shmem_put", 8, None, ns);
        let all = vec![of(3.0), time("shmem_put", 64, None, 9.0), counted.clone(), of(1.0), of(2.0)];
        let found = quickest_runs(all);
        assert_eq!(found, [of(1.0), time("shmem_put", 64, None, 9.0), counted]);
        let record = &records(&found)[2];
        assert_eq!((record.against.as_deref(), record.ratio), (Some("1 instruction"), Some(9.0)));
    }

    #[test]
    fn exchanges_are_compared_at_the_same_number_of_pes() {
        let of = |way: &str, depth, ns| time(&format!("shmem_alltoall_{way}"), 64, Some(depth), ns);
        let all = [of("counting", 2, 10.0), of("counting", 4, 20.0), of("flags", 4, 30.0)];
        assert_eq!(records(&all)[2].ratio, Some(1.5));
    }

    #[test]
    fn a_line_of_a_measuring_program_is_parsed() {
        let line = r#"{"case":"get","size_bytes":8,"depth":null,"median_ns":1.5,"p99_ns":2.0,"rate_per_s":null,"bandwidth_Bps":null,"samples":3,"cpu":1}"#;
        let m: Measurement = serde_json::from_str(line).unwrap();
        assert_eq!((m.case.as_str(), m.size_bytes, m.depth, m.median_ns), ("get", Some(8), None, Some(1.5)));
        let line = r#"{"case":"match_posted","size_bytes":8,"depth":65536,"skipped":"too long"}"#;
        assert_eq!(serde_json::from_str::<Measurement>(line).unwrap().skipped.as_deref(), Some("too long"));
    }
}
