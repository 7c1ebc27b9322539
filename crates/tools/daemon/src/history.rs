// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Loads of all hosts and links over the last minutes, from the reports that reach this daemon: a sample a second.
//!
//! # Invariants
//!
//! 1. A series keeps five minutes, and less where there are many: all of them together [`SAMPLES_MAX`] samples, or ten
//!    each.
//! 2. A series is dropped once all of its samples would be older than it keeps.
use std::collections::{BTreeMap, VecDeque};

use selvedge_fabric_manager::{HostId, LoadReport, Map};

use crate::protocol::LoadSeries;
use crate::views;

/// Samples of all series: 2 MB in memory, and fewer than 4 MB of an answer.
const SAMPLES_MAX: usize = 250_000;
/// Samples of a series.
const SERIES_SAMPLES_MAX: usize = 300;
const SERIES_SAMPLES_MIN: usize = 10;

/// One second of a link's end (bytes each second, load in thousandths), or of a host (0, processor load).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sample {
    sent_bytes_s: f32,
    permille: u16,
}

/// Seconds without a new report after which a host is silent.
const LATE_MAX: u64 = 3;
/// Load of a link's end whose speed is not known.
const NO_LOAD: u16 = u16::MAX;

#[derive(Debug, Default)]
struct Series {
    samples: VecDeque<Sample>,
    /// The second of the last sample.
    end: u64,
}

/// The last minutes.
#[derive(Debug, Default)]
pub struct History {
    /// By host and port; no port: the host itself.
    series: BTreeMap<(HostId, Option<u16>), Series>,
    /// Counts the calls of [`History::note`].
    second: u64,
    wall_s: f64,
    /// Numbers of the last reports, and the seconds since then.
    reports: BTreeMap<HostId, (u64, u64)>,
}

impl History {
    /// Takes the last reports of all hosts, once a second.
    pub fn note<'a>(&mut self, wall_s: f64, reports: impl Iterator<Item = &'a LoadReport>) {
        self.second += 1;
        self.wall_s = wall_s;
        for report in reports {
            let (number, age) = self.reports.entry(report.host).or_insert((report.number, 0));
            *age = if *number == report.number { *age + 1 } else { 1 };
            *number = report.number;
            // The seconds of two hosts are not in step, so one that sends can seem to be late.
            if *age > LATE_MAX {
                continue;
            }
            self.push((report.host, None), 0, report.load.processor_permille);
            for port in &report.ports {
                let permille = port.load_permille.unwrap_or(NO_LOAD);
                self.push((report.host, Some(port.port.0)), port.sent_bytes_s, permille);
            }
        }
        let (second, keeps) = (self.second, self.keeps());
        self.series.retain(|_, series| series.end + keeps as u64 > second);
        for series in self.series.values_mut() {
            let excess = series.samples.len().saturating_sub(keeps);
            series.samples.drain(..excess);
        }
        let series = &self.series;
        self.reports.retain(|&host, _| series.contains_key(&(host, None)));
    }

    /// The samples that each series keeps.
    fn keeps(&self) -> usize {
        (SAMPLES_MAX / self.series.len().max(1)).clamp(SERIES_SAMPLES_MIN, SERIES_SAMPLES_MAX)
    }

    fn push(&mut self, of: (HostId, Option<u16>), sent_bytes_s: u64, permille: u16) {
        let series = self.series.entry(of).or_default();
        // A silent time cannot be shown: the series begins anew.
        if series.end + 1 != self.second {
            series.samples.clear();
        }
        series.samples.push_back(Sample { sent_bytes_s: sent_bytes_s as f32, permille });
        series.end = self.second;
    }

    /// All series, hosts before their ports.
    pub fn series(&self, map: &Map) -> Vec<LoadSeries> {
        let view = |(&(host, port), series): (&(HostId, Option<u16>), &Series)| {
            let percents = || series.samples.iter().map(|sample| f32::from(sample.permille) / 10.0);
            let has_load = series.samples.iter().all(|sample| sample.permille != NO_LOAD);
            LoadSeries {
                name: views::name(map, host),
                host: views::hex(host),
                port,
                end_s: self.wall_s - (self.second - series.end) as f64,
                sent_bytes_s: match port {
                    Some(_) => series.samples.iter().map(|sample| sample.sent_bytes_s as u64).collect(),
                    None => Vec::new(),
                },
                load_percent: if port.is_some() && has_load { percents().collect() } else { Vec::new() },
                processor_percent: if port.is_none() { percents().collect() } else { Vec::new() },
            }
        };
        self.series.iter().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use selvedge_fabric::Port;
    use selvedge_fabric_manager::PortLoad;

    fn report(host: u64, number: u64, ports: u16, sent_bytes_s: u64) -> LoadReport {
        let port = |port| PortLoad { port: Port(port), sent_bytes_s, ..PortLoad::default() };
        LoadReport { host: HostId(host), number, ports: (0..ports).map(port).collect(), ..LoadReport::default() }
    }

    #[test]
    fn a_series_has_a_sample_of_each_second() {
        let mut history = History::default();
        for second in 1..=400 {
            history.note(second as f64, [report(7, second, 1, second * 1000)].iter());
        }
        let series = history.series(&Map::default());
        assert_eq!((series.len(), series[0].port, series[1].port), (2, None, Some(0)));
        let sent = &series[1].sent_bytes_s;
        assert_eq!((sent.len(), sent[0], sent[299], series[1].end_s), (300, 101_000, 400_000, 400.0));
        assert!(series[1].load_percent.is_empty(), "the speed is not known");
        assert_eq!(series[0].processor_percent.len(), 300);
    }

    #[test]
    fn a_late_report_repeats_the_last_one_and_a_silent_host_begins_anew() {
        let mut history = History::default();
        let mut note = |number| {
            history.note(0.0, [report(7, number, 1, number)].iter());
            history.series(&Map::default())[1].sent_bytes_s.clone()
        };
        assert_eq!([note(1), note(1)].concat(), [1, 1, 1]);
        assert_eq!(note(2), [1, 1, 2]);
        (0..5).for_each(|_| _ = note(2));
        assert_eq!(note(3), [3]);
    }

    #[test]
    fn samples_are_bounded_and_hosts_that_are_gone_leave() {
        let mut history = History::default();
        for second in 1..=200 {
            let reports: Vec<LoadReport> = (0..1000).map(|host| report(host, second, 4, 1)).collect();
            history.note(second as f64, reports.iter());
        }
        let samples: usize = history.series.values().map(|series| series.samples.len()).sum();
        assert_eq!((history.series.len(), samples), (5000, SAMPLES_MAX));
        (0..SERIES_SAMPLES_MAX).for_each(|_| history.note(0.0, [].iter()));
        assert!(history.series.is_empty() && history.reports.is_empty());
    }
}
