// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The jobs of a run: their times and slowdowns, their messages, and their shares of the fabric.

use selvedge_document::{Section, Table, words};
use serde_json::{Map, Value, json};

use super::latency::{latency_json, latency_words};
use crate::node::JobCounts;
use crate::observers::by_job::JobPackets;
use crate::program::Results;
use crate::time::Time;

/// A job, in a run beside others or alone.
#[derive(Clone, Debug, Default)]
pub struct JobRun {
    /// Time from its start to the end of its last rank. `None`: it has not ended.
    pub time: Option<Time>,
    pub counts: JobCounts,
    pub results: Results,
}

/// A job of a finished run.
#[derive(Clone, Debug)]
pub struct JobReport {
    pub name: String,
    /// Its program or traffic, with parameters.
    pub what: String,
    pub first_rank: u32,
    pub ranks: u32,
    pub nodes: u32,
    pub start: Time,
    pub seed: u64,
    pub background: bool,
    /// Traffic: the load that was asked for, and the load of delivered messages.
    pub load: Option<(f64, f64)>,
    pub run: JobRun,
    /// The same job on the same nodes without the others.
    pub alone: Option<JobRun>,
    /// Its packets, in the model of packets.
    pub packets: Option<JobPackets>,
    /// Quantity on the x axis of its results.
    pub results_x: String,
}

/// A channel that several jobs have used.
#[derive(Clone, Debug)]
pub struct SharedChannel {
    pub name: String,
    /// Share of the time for which each job kept it busy.
    pub busy: Vec<f64>,
}

/// The jobs of a finished run.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    pub jobs: Vec<JobReport>,
    /// The busiest channels that several jobs have used, and the number of all. `None`: not counted.
    pub shared: Option<(Vec<SharedChannel>, u64)>,
}

impl JobReport {
    /// Returns how many times as long as alone the job took.
    pub fn slowdown(&self) -> Option<f64> {
        ratio(self.run.time?, self.alone.as_ref()?.time?)
    }

    /// Returns the median latency of its messages over that alone.
    fn latency_ratio(&self) -> Option<f64> {
        let alone = &self.alone.as_ref()?.counts.latency;
        let median = |latency: &hdrhistogram::Histogram<u64>| Time(latency.value_at_quantile(0.5));
        ratio(median(&self.run.counts.latency), median(alone))
    }
}

fn ratio(time: Time, alone: Time) -> Option<f64> {
    (alone > Time::ZERO).then(|| time.0 as f64 / alone.0 as f64)
}

fn times(time: Option<Time>) -> String {
    time.map_or(String::new(), |time| words::time_ns(time.as_ns_f64()))
}

fn factor(factor: Option<f64>) -> String {
    factor.map_or(String::new(), |factor| format!("{factor:.3}"))
}

impl Jobs {
    /// Adds the runs of each job alone.
    pub fn add_alone(&mut self, runs: Vec<Option<JobRun>>) {
        for (job, run) in self.jobs.iter_mut().zip(runs) {
            job.alone = run;
        }
    }

    /// Returns the name of the job of a rank, and the rank's number in it.
    pub fn rank_words(&self, rank: u32) -> String {
        let job = self.jobs.iter().find(|job| (job.first_rank..job.first_rank + job.ranks).contains(&rank));
        job.map_or_else(|| rank.to_string(), |job| format!("{} {}", job.name, rank - job.first_rank))
    }

    pub fn sections(&self) -> Vec<Section> {
        let jobs = Section::new("Jobs").in_summary().table(self.table());
        let mut sections = vec![jobs, Section::new("Messages by job").in_summary().table(self.messages())];
        if self.jobs.iter().any(|job| job.packets.is_some()) {
            sections.push(Section::new("Fabric by job").in_summary().table(self.packets()));
        }
        if let Some((channels, count)) = &self.shared {
            let section = Section::new("Channels that several jobs used").in_summary();
            sections.push(match channels.is_empty() {
                true => section.text("None: no job could slow another one down."),
                false => section.text(format!("{}; the busiest:", words::count(*count))).table(self.channels(channels)),
            });
        }
        sections.extend(self.jobs.iter().filter_map(JobReport::result_section));
        sections
    }

    fn table(&self) -> Table {
        let heads = ["job", "work", ">ranks", ">nodes", ">start", ">time", ">alone", ">slowdown"];
        let mut table = Table::with_heads(&heads);
        for job in &self.jobs {
            let time = match (job.run.time, job.background) {
                (Some(time), _) => words::time_ns(time.as_ns_f64()),
                (None, true) => "background".to_owned(),
                (None, false) => "not ended".to_owned(),
            };
            table.row([
                job.name.clone(),
                job.what.clone(),
                words::count(job.ranks.into()),
                words::count(job.nodes.into()),
                words::time_ns(job.start.as_ns_f64()),
                time,
                times(job.alone.as_ref().and_then(|alone| alone.time)),
                factor(job.slowdown()),
            ]);
        }
        table
    }

    fn messages(&self) -> Table {
        let mut heads = vec!["job", ">messages", ">payload", "latency, min / median / p99 / max"];
        let has_alone = self.jobs.iter().any(|job| job.alone.is_some());
        let has_load = self.jobs.iter().any(|job| job.load.is_some());
        if has_alone {
            heads.push(">median, of alone");
        }
        if has_load {
            heads.extend([">load", ">delivered"]);
        }
        let mut table = Table::with_heads(&heads);
        for job in &self.jobs {
            let counts = &job.run.counts;
            let latency = if counts.latency.is_empty() { String::new() } else { latency_words(&counts.latency) };
            let mut row = vec![
                job.name.clone(),
                words::count(counts.messages),
                words::bytes(counts.payload_bytes as f64),
                latency,
            ];
            if has_alone {
                row.push(factor(job.latency_ratio()));
            }
            if has_load {
                let (asked, delivered) = job.load.map_or_else(Default::default, |(asked, delivered)| {
                    (words::percent(asked), words::percent(delivered))
                });
                row.extend([asked, delivered]);
            }
            table.row(row);
        }
        table
    }

    fn packets(&self) -> Table {
        let mut table = Table::with_heads(&["job", ">packets", ">hops", ">heads blocked", ">mean blocking", ">lost"]);
        for job in &self.jobs {
            let Some(packets) = &job.packets else { continue };
            let share = packets.blocked as f64 / packets.hops.max(1) as f64;
            let mean = packets.blocked_for.as_ns_f64() / packets.blocked.max(1) as f64;
            table.row([
                job.name.clone(),
                words::count(packets.delivered),
                words::count(packets.hops),
                format!("{} ({})", words::count(packets.blocked), words::percent(share)),
                if packets.blocked > 0 { words::time_ns(mean) } else { String::new() },
                words::count(packets.lost),
            ]);
        }
        table
    }

    fn channels(&self, channels: &[SharedChannel]) -> Table {
        let names = self.jobs.iter().map(|job| format!(">{}", job.name));
        let heads: Vec<String> = ["channel".to_owned(), ">busy".to_owned()].into_iter().chain(names).collect();
        let mut table = Table::with_heads(&heads.iter().map(String::as_str).collect::<Vec<_>>());
        for channel in channels {
            let shares = channel.busy.iter().map(|share| words::percent(*share));
            let all = words::percent(channel.busy.iter().sum());
            table.row([channel.name.clone(), all].into_iter().chain(shares));
        }
        table
    }

    pub fn json(&self) -> Value {
        let jobs: Vec<Value> = self.jobs.iter().map(JobReport::json).collect();
        let mut all = json!({ "jobs": jobs });
        if let Some((channels, count)) = &self.shared {
            let channel = |channel: &SharedChannel| {
                let busy = self.jobs.iter().zip(&channel.busy).map(|(job, busy)| (job.name.clone(), json!(busy)));
                json!({ "name": channel.name, "busy": busy.collect::<Map<_, _>>() })
            };
            all["shared_channels"] =
                json!({ "count": count, "busiest": channels.iter().map(channel).collect::<Vec<_>>() });
        }
        all
    }
}

fn run_json(run: &JobRun) -> Value {
    json!({
        "time_ps": run.time.map(|time| time.0),
        "messages": run.counts.messages,
        "payload_bytes": run.counts.payload_bytes,
        "latency": latency_json(&run.counts.latency),
    })
}

impl JobReport {
    /// Returns the results of its program beside those alone, point by point.
    fn result_section(&self) -> Option<Section> {
        let results = &self.run.results;
        if results.points.is_empty() && results.wrong_count == 0 {
            return None;
        }
        let mut section = Section::new(&format!("Results of {}", self.name)).in_summary();
        if let Some(mistake) = results.wrong.first() {
            let count = words::count(results.wrong_count);
            section =
                section.text(format!("Found {count} things wrong; the first: rank {}: {}", mistake.rank, mistake.what));
        }
        let x = if self.results_x.is_empty() { "x" } else { self.results_x.as_str() };
        let x = format!(">{x}");
        let has_alone = self.alone.is_some();
        let mut heads = vec!["result", &x, ">value"];
        if has_alone {
            heads.extend([">alone", ">ratio"]);
        }
        let mut table = Table::with_heads(&heads);
        for (place, point) in results.points.iter().enumerate() {
            let mut row = vec![point.series.to_owned(), words::plain(point.x), words::plain(point.y)];
            if let Some(alone) = &self.alone {
                // Both runs record the same points. Ranks may do so in another order.
                let repeats =
                    results.points[..place].iter().filter(|o| (o.series, o.x) == (point.series, point.x)).count();
                let same = alone.results.of(point.series).filter(|(x, _)| *x == point.x).nth(repeats);
                row.push(same.map_or(String::new(), |(_, y)| words::plain(y)));
                row.push(factor(same.filter(|(_, y)| *y > 0.0).map(|(_, y)| point.y / y)));
            }
            table.row(row);
        }
        Some(section.table(table))
    }

    fn json(&self) -> Value {
        let mut all = run_json(&self.run);
        let series = self.run.results.series().into_iter().map(|name| {
            let points: Vec<Value> = self.run.results.of(name).map(|(x, y)| json!([x, y])).collect();
            json!({ "name": name, "points": points })
        });
        all["name"] = json!(self.name);
        all["work"] = json!(self.what);
        all["first_rank"] = json!(self.first_rank);
        all["ranks"] = json!(self.ranks);
        all["nodes"] = json!(self.nodes);
        all["start_ps"] = json!(self.start.0);
        all["seed"] = json!(self.seed);
        all["background"] = json!(self.background);
        all["alone"] = self.alone.as_ref().map_or(Value::Null, run_json);
        all["slowdown"] = json!(self.slowdown());
        all["results"] = json!({ "x": self.results_x, "series": series.collect::<Vec<_>>() });
        if let Some((asked, delivered)) = self.load {
            all["load"] = json!({ "asked": asked, "delivered": delivered });
        }
        if let Some(packets) = &self.packets {
            all["packets"] = json!({
                "injected": packets.injected,
                "delivered": packets.delivered,
                "lost": packets.lost,
                "hops": packets.hops,
                "blocked": packets.blocked,
                "blocked_ps": packets.blocked_for.0,
            });
        }
        all
    }
}
