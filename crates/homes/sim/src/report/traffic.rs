// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic on a network alone, at one load or at several, as a document and as JSON.
//!
//! Invariant, as for a run ([`super::run`]): everything except [`Traffic::wall`] is equal in two runs.

use std::sync::Arc;

use selvedge_document::plot::{Axis, Line, Shape, wide};
use selvedge_document::{Document, Plot, Section, Table, words};
use serde_json::{Value, json};

use super::channels::channel_name;
use super::run::machine_json;
use super::sheet::Sheet;
use super::{Heat, Wall, rerouting};
use crate::machine::Machine;
use crate::network::LossReason;
use crate::traffic::{Stop, TrafficConfig, TrafficResults};

/// Name and version of the JSON's schema.
pub const SCHEMA: &str = "selvedge.sim.traffic/1";

/// Traffic and its results.
#[derive(Clone)]
pub struct Traffic {
    pub machine: Arc<Machine>,
    /// The configuration; each of the results has its own load.
    pub config: TrafficConfig,
    pub options: Vec<(String, String)>,
    /// One result for each load, ascending.
    pub results: Vec<TrafficResults>,
    /// Links over time at the last load, for the page.
    pub heat: Option<Heat>,
    pub wall: Option<Wall>,
}

impl Traffic {
    fn events(&self) -> (u64, u64) {
        (self.results.iter().map(|run| run.events).sum(), self.results.iter().map(|run| run.packet_hops).sum())
    }

    pub fn document(&self) -> Document {
        let mut sections = vec![Section::new("Traffic").in_summary().table(self.what_table())];
        sections.push(Section::new("Results").in_summary().drawn(self.result_table(), self.curves()));
        let stopped: Vec<String> = self.results.iter().filter_map(|run| self.why(run)).collect();
        if !stopped.is_empty() {
            let section = Section::new("Ended before all packets had arrived").in_summary();
            sections.push(stopped.into_iter().fold(section, Section::text));
        }
        let failed = self.results.iter().any(|run| run.whole_run.link_changes > 0);
        if failed || self.results.iter().any(|run| run.lost > 0) {
            sections.push(self.loss_section());
        }
        let reports = self.results.iter().filter_map(|run| Some((words::percent(run.load), run.rerouting.as_ref()?)));
        sections.extend(rerouting::section(&reports.collect::<Vec<_>>()));
        if self.results.iter().any(|run| run.deadlocks > 0) {
            sections.push(Section::new("Deadlocks").in_summary().table(self.deadlock_table()));
        }
        if let Some(run) = self.results.last() {
            let mut table = Table::with_heads(&["channel", ">busy"]);
            for busy in &run.busiest_channels {
                table.row([channel_name(&self.machine.topology, busy.channel), words::percent(busy.utilisation)]);
            }
            let text = format!("Between routers, at a load of {}.", words::percent(run.load));
            sections.push(Section::new("Busiest channels").text(text).drawn(table, self.busiest(run)));
        }
        if let Some(wall) = &self.wall {
            let (events, hops) = self.events();
            sections.push(wall.section(events, hops));
        }
        let sheet = Section::new("Machine").text(self.machine.about.clone());
        sections.push(sheet.table(Sheet::of(&self.machine.description).table()));
        Document {
            title: format!("Traffic on {}: {}", self.machine.name, self.config.pattern),
            about: format!(
                "{} nodes, simulated; the network alone",
                words::count(self.machine.topology.rails().nodes().into())
            ),
            sections,
        }
    }

    fn what_table(&self) -> Table {
        let mut table = Table::of_values();
        table.value("machine", format!("{}: {}", self.machine.name, self.machine.about));
        table.value("topology", format!("{}, {}", self.machine.topology.kind(), self.machine.routing.algorithm()));
        table.value("nodes", words::count(self.machine.topology.rails().nodes().into()));
        if let Some(rails) = self.machine.rails_words() {
            table.value("rails", rails);
        }
        table.value("pattern", self.config.pattern);
        table.value("messages", words::bytes(f64::from(self.config.message_bytes)));
        table.value("measured", format!("{} after a warm-up of {}", self.config.measured, self.config.warm_up));
        if let Some((share, whole)) = self.machine.topology.saturation_uniform() {
            let share = words::percent(share as f64 / whole as f64);
            table.value("uniform traffic saturates at", format!("{share} of a link, at most"));
        }
        for (name, value) in &self.options {
            table.value(name, value);
        }
        table
    }

    fn result_table(&self) -> Table {
        let heads = [
            ">load",
            ">offered",
            ">accepted",
            ">per node",
            ">packets",
            ">lost",
            ">latency mean",
            ">median",
            ">p99",
            ">max",
            ">hops",
            ">blocked",
            ">links busy",
        ];
        let mut table = Table::with_heads(&heads);
        for run in &self.results {
            table.row([
                words::percent(run.load),
                words::percent(run.offered),
                words::percent(run.accepted),
                words::bytes_per_s(run.accepted_bytes_per_s_per_node),
                words::count(run.packets),
                words::count(run.lost),
                words::time_ns(run.latency.mean_ns),
                words::time_ns(run.latency.median_ns),
                words::time_ns(run.latency.p99_ns),
                words::time_ns(run.latency.max_ns),
                words::plain(run.hops_mean),
                words::percent(run.blocking_rate),
                words::percent(run.channel_utilisation_mean),
            ]);
        }
        table
    }

    /// Returns the packets of each run, delivered and lost, with the reasons of losses.
    fn loss_section(&self) -> Section {
        let mut heads = vec![">load", ">link changes", ">injected", ">delivered"];
        let reasons = self.results.first().map(|run| run.whole_run.lost.keys().copied()).into_iter().flatten();
        let reasons: Vec<String> = reasons.map(|reason: LossReason| format!(">{}", reason.words())).collect();
        heads.extend(reasons.iter().map(String::as_str));
        heads.push(">under way");
        let mut table = Table::with_heads(&heads);
        for run in &self.results {
            let all = &run.whole_run;
            let mut row = vec![words::percent(run.load)];
            row.extend([all.link_changes, all.injected, all.delivered].map(words::count));
            row.extend(all.lost.values().map(|lost| words::count(*lost)));
            row.push(words::count(all.under_way));
            table.row(row);
        }
        let text = "Packets of the whole run, from the warm-up to its end. A link that fails is two changes, one for each \
                    direction, and so is its repair.";
        Section::new("Losses").in_summary().text(text).table(table)
    }

    fn deadlock_table(&self) -> Table {
        let heads =
            [">load", ">deadlocks", ">packets in them", ">of those that arrived", ">cycle length", ">taken out"];
        let mut table = Table::with_heads(&heads);
        for run in &self.results {
            table.row([
                words::percent(run.load),
                words::count(run.deadlocks),
                words::count(run.deadlocked_packets),
                words::percent(run.deadlock_probability),
                words::plain(run.cycle_length_mean),
                words::count(run.recovered),
            ]);
        }
        table
    }

    fn why(&self, run: &TrafficResults) -> Option<String> {
        let why = match run.stopped? {
            Stop::Interrupted => "it was interrupted; the figures are those up to then".to_owned(),
            Stop::NotDrained => format!("{} were not enough for all packets to arrive", self.config.drain_max),
            Stop::Deadlock => {
                let name = |member: &crate::traffic::CycleMember| {
                    let channel = channel_name(&self.machine.topology, member.channel);
                    format!("{channel} (virtual channel {}, {} to {})", member.virtual_channel, member.from, member.to)
                };
                let cycle: Vec<String> = run.cycle.iter().map(name).collect();
                format!(
                    "a deadlock: each of these waits for the next, and the last for the first: {}",
                    cycle.join("; ")
                )
            }
        };
        Some(format!("At a load of {}: {why}.", words::percent(run.load)))
    }

    fn curves(&self) -> Vec<Plot> {
        let curve = |name: &str, of: fn(&TrafficResults) -> f64| Line {
            name: name.to_owned(),
            points: self.results.iter().map(|run| (run.load, of(run))).collect(),
        };
        if self.results.len() < 2 {
            return Vec::new();
        }
        let load = Axis::linear("load: share of the injection channels' time", words::percent);
        let plot = |name: &str, title: &str, y, lines| Plot {
            name: name.to_owned(),
            title: title.to_owned(),
            x: load.clone(),
            y,
            shape: Shape::Lines(lines),
        };
        let ends = self.results.iter().flat_map(|run| [run.latency.median_ns, run.latency.p99_ns]);
        let latency =
            if wide(ends) { Axis::logarithmic("", 10, words::time_ns) } else { Axis::linear("", words::time_ns) };
        vec![
            plot(
                "latency-by-load",
                "Latency of packets by load",
                latency.called("latency"),
                vec![
                    curve("mean", |run| run.latency.mean_ns),
                    curve("median", |run| run.latency.median_ns),
                    curve("99th percentile", |run| run.latency.p99_ns),
                ],
            ),
            plot(
                "throughput-by-load",
                "Offered and delivered traffic, by load",
                Axis::linear("share of the injection channels' time", words::percent),
                vec![curve("offered", |run| run.offered), curve("accepted", |run| run.accepted)],
            ),
            plot(
                "blocking-by-load",
                "Share of the blocked heads, by load",
                Axis::linear("blocked", words::percent),
                vec![curve("blocked", |run| run.blocking_rate)],
            ),
        ]
    }

    fn busiest(&self, run: &TrafficResults) -> Option<Plot> {
        let name = |channel| channel_name(&self.machine.topology, channel);
        let bars: Vec<_> = run.busiest_channels.iter().map(|busy| (name(busy.channel), busy.utilisation)).collect();
        (!bars.is_empty()).then(|| Plot {
            name: "hot-channels".into(),
            title: "Busiest channels".into(),
            x: Axis::linear("share of the time", words::percent),
            y: Axis::linear("", words::plain),
            shape: Shape::Ranked(bars),
        })
    }

    pub fn json(&self) -> Value {
        let options: serde_json::Map<String, Value> =
            self.options.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut all = json!({
            "schema": SCHEMA,
            "machine": machine_json(&self.machine),
            "pattern": self.config.pattern.to_string(),
            "message_bytes": self.config.message_bytes,
            "warm_up_ps": self.config.warm_up.0,
            "measured_ps": self.config.measured.0,
            "options": options,
            "results": self.results,
        });
        if let Some(wall) = &self.wall {
            let (events, hops) = self.events();
            all["wall"] = wall.json(events, hops);
        }
        all
    }
}
