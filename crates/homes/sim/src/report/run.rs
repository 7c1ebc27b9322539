// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A finished run of ranks, as a document and as JSON.
//!
//! Invariants
//! 1. Without [`Run::wall`], document and JSON of two runs of the same simulation are equal byte by byte.
//! 2. Names and units of the JSON's fields do not change within one version of [`SCHEMA`]; fields may be added.

use std::path::Path;
use std::sync::Arc;

use hdrhistogram::Histogram;
use selvedge_document::plot::{Axis, Line, Matrix, Shape, file_name, shrunk, wide};
use selvedge_document::{Document, Plot, Section, Table, words};
use serde_json::{Map, Value, json};

use super::channels::{Fabric, HOT_CHANNELS};
use super::heat::Heat;
use super::jobs::Jobs;
use super::latency::{latency_json, latency_words};
use super::samples::Samples;
use super::sheet::Sheet;
use super::{Wall, commands, regions, rerouting};
use crate::machine::Machine;
use crate::node::trace::{Trace, Unit};
use crate::node::{End, Model, Outcome, Waiting};
use crate::program::Results;
use crate::time::Time;

/// Name and version of the JSON's schema.
pub const SCHEMA: &str = "selvedge.sim.run/1";
/// Name of the plot of latencies.
const LATENCY: &str = "latency";
/// Most stuck ranks that a terminal shows; the page and the JSON have all.
const STUCK_SHOWN: usize = 20;

/// A finished run.
#[derive(Clone)]
pub struct Run {
    pub machine: Arc<Machine>,
    /// Name of a built-in program, or of an executable.
    pub program: String,
    /// Its parameters or arguments, name and value; the name of an argument is empty.
    pub parameters: Vec<(String, String)>,
    pub ranks: u32,
    /// Nodes that have ranks.
    pub nodes_used: u32,
    /// Model of the fabric.
    pub network: Model,
    /// Further options of the run: seed, placement, faults, overrides.
    pub options: Vec<(String, String)>,
    /// The results of the program, and the quantity on the x axis of its series.
    pub results: Results,
    pub results_x: String,
    /// The jobs, if there are several.
    pub jobs: Option<Jobs>,
    pub outcome: Outcome,
    pub fabric: Fabric,
    pub samples: Samples,
    /// Heat of the links, if a page will show it.
    pub heat: Option<Heat>,
    /// Bytes that each pair of nodes exchanged: from, to, bytes. Empty if no spans were kept.
    pub pairs: Vec<(u32, u32, u64)>,
    /// Spans kept, and spans beyond the limit.
    pub spans: Option<(u64, u64)>,
    /// Notes for the reader.
    pub notes: Vec<String>,
    pub wall: Option<Wall>,
}

/// Returns bytes between pairs of nodes, from the spans of a run. The source of a message is the node of its first span
/// on a send engine, the target the node of its first span on a receive engine.
pub fn pairs_of(trace: &Trace) -> Vec<(u32, u32, u64)> {
    use std::collections::BTreeMap;
    let mut senders: BTreeMap<u64, u32> = BTreeMap::new();
    let mut pairs: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    // The sender's NIC has a message before the target's NIC. A message counts once, with the payload of its request.
    for span in trace.spans.iter().filter(|span| span.message != 0) {
        match span.unit {
            Unit::NicSend => {
                senders.entry(span.message).or_insert(span.node);
            }
            Unit::NicReceive if span.name == "header" => {
                if let Some(from) = senders.get_mut(&span.message).filter(|from| **from != COUNTED) {
                    *pairs.entry((*from, span.node)).or_default() += span.bytes;
                    *from = COUNTED;
                }
            }
            _ => {}
        }
    }
    pairs.into_iter().map(|((from, to), bytes)| (from, to, bytes)).collect()
}

const COUNTED: u32 = u32::MAX;

impl Run {
    /// Returns how the run ended: "completed", "stuck", "interrupted", "died".
    pub fn end(&self) -> &'static str {
        match self.outcome.end {
            End::Completed => "completed",
            End::Stuck(_) => "stuck",
            End::Interrupted => "interrupted",
            End::Died => "died",
        }
    }

    fn stuck(&self) -> &[Waiting] {
        match &self.outcome.end {
            End::Stuck(waiting) => waiting,
            _ => &[],
        }
    }

    // ---- As a document -------------------------------------------------------------------------------------------

    pub fn document(&self) -> Document {
        let mut sections = vec![Section::new("Run").in_summary().table(self.run_table())];
        if !self.stuck().is_empty() {
            sections.push(self.stuck_section());
        }
        sections.extend(regions::section(&self.outcome));
        sections.extend(self.jobs.iter().flat_map(Jobs::sections));
        if self.results.wrong_count > 0 {
            sections.push(self.mistake_section());
        }
        if !self.results.points.is_empty() {
            sections.push(self.result_section());
        }
        let plots = self.message_plots();
        let table = self.message_table().drawn_by(plots.iter().filter(|plot| plot.name == LATENCY));
        sections.push(Section::new("Messages").in_summary().table(table).plots(plots));
        if let Some(interface) = &self.machine.interface {
            sections.push(commands::section(interface, &self.outcome));
        }
        sections.push(self.register_section());
        let plots = self.fabric.plots();
        let busiest = self.fabric.channel_table().drawn_by(plots.iter().filter(|plot| plot.name == HOT_CHANNELS));
        let fabric = Section::new("Fabric").in_summary().table(self.fabric.table());
        sections.push(fabric.plots(plots).table(busiest));
        let rerouting_report = self.outcome.rerouting.as_ref().map(|report| (String::new(), report));
        sections.extend(rerouting::section(&rerouting_report.into_iter().collect::<Vec<_>>()));
        if let Some(wall) = &self.wall {
            sections.push(wall.section(self.outcome.statistics.events, self.fabric.statistics.hops));
        }
        if !self.notes.is_empty() {
            let notes = Section::new("Notes").in_summary();
            sections.push(self.notes.iter().fold(notes, |section, note| section.text(note.clone())));
        }
        sections.push(self.rank_section());
        let description = &self.machine.description;
        let sheet = Section::new("Machine").text(self.machine.about.clone());
        sections.push(sheet.table(Sheet::of(description).table()));
        Document {
            title: format!("{} on {}", self.short_name(), self.machine.name),
            about: format!("{} ranks on {} nodes of {}, simulated", self.ranks, self.nodes_used, self.machine.name),
            sections,
        }
    }

    fn run_table(&self) -> Table {
        let mut table = Table::of_values();
        table.value("machine", format!("{}: {}", self.machine.name, self.machine.about));
        table.value("topology", format!("{}, {}", self.machine.topology.kind(), self.machine.routing.algorithm()));
        table.value("program", self.program_words());
        table.value(
            "ranks",
            format!("{} on {} nodes", words::count(self.ranks.into()), words::count(self.nodes_used.into())),
        );
        table.value("network", self.network.words());
        for (name, value) in &self.options {
            table.value(name, value);
        }
        let ended = self.outcome.ended.iter().flatten().count();
        let end = match (self.end(), ended) {
            ("completed", _) => "completed".to_owned(),
            (end, ended) => format!("{end}, with {ended} of {} ranks at their end", self.ranks),
        };
        table.value("end", end);
        if self.outcome.code() != 0 {
            table.value("exit code", self.outcome.code());
        }
        table.value("virtual time", self.outcome.time);
        if let Some(observed) = &self.outcome.observed {
            let (name, time) = (&observed.name, observed.time);
            let stretches = match observed.stretches {
                1 => "one stretch".to_owned(),
                count => format!("{} stretches", words::count(count)),
            };
            table.value("region", format!("{name}, active for {time} in {stretches}; all counts are of these"));
        }
        table.value("events", words::count(self.outcome.statistics.events));
        table.value("hash", format!("{:016x}", self.outcome.statistics.hash));
        if let Some((kept, left_out)) = self.spans {
            table.value("spans", format!("{} kept, {} left out", words::count(kept), words::count(left_out)));
        }
        table
    }

    /// Returns the name of a built-in program, or of an executable's file.
    fn short_name(&self) -> &str {
        let file = Path::new(&self.program).file_name().and_then(|name| name.to_str());
        file.unwrap_or(&self.program)
    }

    fn program_words(&self) -> String {
        let mut text = self.program.clone();
        for (name, value) in &self.parameters {
            text.push(' ');
            if !name.is_empty() {
                text.push_str(name);
                text.push('=');
            }
            text.push_str(value);
        }
        text
    }

    fn stuck_section(&self) -> Section {
        let all = self.stuck();
        let mut table = Table::with_heads(&[">rank", "what it does", ">since", ">unanswered", "unmatched receives"]);
        for waiting in all.iter().take(STUCK_SHOWN) {
            table.row([
                self.jobs.as_ref().map_or_else(|| waiting.rank.to_string(), |jobs| jobs.rank_words(waiting.rank)),
                waiting.what.clone(),
                words::time_ns(waiting.since_ns as f64),
                waiting.unanswered.to_string(),
                waiting.receives.join("; "),
            ]);
        }
        let text = "No event is left, but these ranks wait:";
        let section = Section::new("Stuck").in_summary().text(text).table(table);
        match all.len().saturating_sub(STUCK_SHOWN) {
            0 => section,
            more => section.text(format!("... and {more} more")),
        }
    }

    fn mistake_section(&self) -> Section {
        let mut table = Table::with_heads(&[">rank", "what was wrong"]);
        for mistake in &self.results.wrong {
            table.row([mistake.rank.to_string(), mistake.what.clone()]);
        }
        let count = words::count(self.results.wrong_count);
        Section::new("Wrong")
            .in_summary()
            .text(format!("The program found {count} things wrong; the first:"))
            .table(table)
    }

    /// Returns the results of the program: a row for each x, a column for each series.
    fn result_section(&self) -> Section {
        let series = self.results.series();
        let mut xs: Vec<f64> = self.results.points.iter().map(|point| point.x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let x = if self.results_x.is_empty() { "x" } else { self.results_x.as_str() };
        let heads: Vec<String> =
            std::iter::once(x).chain(series.iter().copied()).map(|head| format!(">{head}")).collect();
        let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
        let mut table = Table::with_heads(&heads);
        for x in xs {
            let value = |name: &&'static str| {
                let found: Vec<String> =
                    self.results.of(name).filter(|point| point.0 == x).map(|point| words::plain(point.1)).collect();
                found.join(", ")
            };
            table.row(std::iter::once(words::plain(x)).chain(series.iter().map(value)));
        }
        let plots = series.iter().filter_map(|name| {
            let mut points: Vec<_> = self.results.of(name).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            let over = if self.results_x.is_empty() { "x" } else { &self.results_x };
            let (x, without) = match wide(points.iter().map(|point| point.0)) {
                true if points[0].0 == 0.0 => (Axis::logarithmic("", 2, words::plain), " (without 0)"),
                true => (Axis::logarithmic("", 2, words::plain), ""),
                false => (Axis::linear("", words::plain), ""),
            };
            let y = match points.iter().all(|point| point.1 > 0.0) && wide(points.iter().map(|point| point.1)) {
                true => Axis::logarithmic("", 10, words::plain),
                false => Axis::linear("", words::plain),
            };
            (points.len() > 1).then(|| Plot {
                name: format!("result-{}", file_name(name)),
                title: format!("{name}, by {over}{without}"),
                x: x.called(over.to_owned()),
                y: y.called(*name),
                shape: Shape::Lines(vec![Line { name: (*name).to_owned(), points }]),
            })
        });
        Section::new("Results of the program").in_summary().drawn(table, plots)
    }

    fn message_table(&self) -> Table {
        let s = &self.outcome.statistics;
        let mut table = Table::of_values();
        table.value("messages", words::count(s.messages));
        table.value("payload", words::bytes(s.payload_bytes as f64));
        let seconds = self.outcome.counted_time().as_seconds_f64();
        if seconds > 0.0 && s.messages > 0 {
            table.value("message rate", words::rate(s.messages as f64 / seconds));
            table.value("payload rate", words::bytes_per_s(s.payload_bytes as f64 / seconds));
        }
        table.value("answers", words::count(s.responses));
        table.value("triggered operations", words::count(s.triggered));
        table.value("entries searched", words::count(s.entries_searched));
        table.value("interrupts", words::count(s.interrupts));
        table.value("refused for lack of streams", words::count(s.refused));
        table.value("lost", words::count(s.lost));
        if s.velo_discarded > 0 {
            table.value("VELO messages discarded", words::count(s.velo_discarded));
        }
        if !s.latency.is_empty() {
            table.value("latency, min / median / p99 / max", latency_words(&s.latency));
        }
        table
    }

    fn register_section(&self) -> Section {
        let mut table = Table::of_values();
        self.outcome.registers.counted().for_each(|(name, sum)| table.value(name, words::count(sum)));
        Section::new("Registers of all NICs").folded().table(table)
    }

    fn message_plots(&self) -> Vec<Plot> {
        let mut plots: Vec<Plot> = latency_plot(&self.outcome.statistics.latency).into_iter().collect();
        plots.extend(self.samples.plots().into_iter().filter(|plot| plot.name == "message-rate"));
        plots.extend(self.pairs_plot());
        plots
    }

    fn pairs_plot(&self) -> Option<Plot> {
        if self.pairs.is_empty() {
            return None;
        }
        let size = self.pairs.iter().map(|(from, to, _)| 1 + *from.max(to) as usize).max().unwrap_or(0);
        let cells = self.pairs.iter().map(|(from, to, bytes)| (*from as usize, *to as usize, (*bytes).max(1) as f64));
        let (rows, block) = shrunk(cells, size);
        let mut of = if block == 1 { String::new() } else { format!(", {block} nodes to a cell") };
        if self.spans.is_some_and(|(_, left_out)| left_out > 0) {
            of.push_str(", of the messages whose spans were kept");
        }
        Some(Plot {
            name: "traffic-matrix".into(),
            title: format!("Payload from node (down) to node (across){of}"),
            x: Axis::linear("to node", words::plain),
            y: Axis::linear("from node", words::plain),
            shape: Shape::Matrix(Matrix { rows, block, words: words::bytes }),
        })
    }

    fn rank_section(&self) -> Section {
        let ended = self.outcome.ended.iter().enumerate();
        let points: Vec<_> = ended.filter_map(|(rank, end)| Some((rank as f64, (*end)?.as_ns_f64()))).collect();
        let section = Section::new("Ranks").folded();
        let section = match (points.first(), points.iter().map(|point| point.1).fold(0.0, f64::max)) {
            (Some(_), last) => section.text(format!("The last rank ended at {}.", words::time_ns(last))),
            (None, _) => section.text("No rank ended."),
        };
        if points.len() < 2 {
            return section;
        }
        section.plot(Plot {
            name: "ranks".into(),
            title: "When each rank ended".into(),
            x: Axis::whole("rank", words::plain),
            y: Axis::linear("virtual time", words::time_ns),
            shape: Shape::Lines(vec![Line { name: "end".into(), points }]),
        })
    }

    // ---- As JSON -------------------------------------------------------------------------------------------------

    fn results_json(&self) -> Value {
        let series = self.results.series().into_iter().map(|name| {
            let points: Vec<Value> = self.results.of(name).map(|(x, y)| json!([x, y])).collect();
            json!({ "name": name, "points": points })
        });
        json!({
            "x": self.results_x,
            "series": series.collect::<Vec<_>>(),
            "wrong_count": self.results.wrong_count,
            "wrong": self.results.wrong.iter().map(|m| json!({ "rank": m.rank, "what": m.what })).collect::<Vec<_>>(),
        })
    }

    pub fn json(&self) -> Value {
        let s = &self.outcome.statistics;
        let parameters: Vec<Value> =
            self.parameters.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        let options: Map<String, Value> =
            self.options.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        let mut all = json!({
            "schema": SCHEMA,
            "machine": machine_json(&self.machine),
            "program": { "name": self.program, "parameters": parameters },
            "ranks": self.ranks,
            "nodes_used": self.nodes_used,
            "network_model": self.network,
            "options": options,
            "end": self.end(),
            "exit_code": self.outcome.code(),
            "virtual_time_ps": self.outcome.time.0,
            "rank_ends_ps": self.outcome.ended.iter().map(|end| end.map(|end| end.0)).collect::<Vec<_>>(),
            "rank_codes": self.outcome.codes,
            "stuck": self.stuck(),
            "results": self.results_json(),
            "events": s.events,
            "turns": s.turns,
            "hash": format!("{:016x}", s.hash),
            "messages": {
                "delivered": s.messages,
                "payload_bytes": s.payload_bytes,
                "answers": s.responses,
                "triggered": s.triggered,
                "entries_searched": s.entries_searched,
                "interrupts": s.interrupts,
                "refused": s.refused,
                "lost": s.lost,
                "velo_discarded": s.velo_discarded,
                "latency": latency_json(&s.latency),
            },
            "registers": self.outcome.registers.counted().map(|(name, sum)| (name.to_owned(), json!(sum))).collect::<Map<_, _>>(),
            "network": self.fabric.json(),
            "samples": self.samples.json(),
            "notes": self.notes,
        });
        regions::add_json(&self.outcome, &mut all);
        if let Some(jobs) = &self.jobs {
            all["jobs"] = jobs.json();
        }
        if let Some(interface) = &self.machine.interface {
            all["commands"] = commands::json(interface, &self.outcome);
        }
        if let Some(report) = &self.outcome.rerouting {
            all["rerouting"] = json!(report);
        }
        if let Some((kept, left_out)) = self.spans {
            all["spans"] = json!({ "kept": kept, "left_out": left_out });
        }
        if let Some(wall) = &self.wall {
            all["wall"] = wall.json(s.events, self.fabric.statistics.hops);
        }
        all
    }
}

/// Returns a machine as JSON, with every number of its description.
pub fn machine_json(machine: &Machine) -> Value {
    let mut described = json!({
        "name": machine.name,
        "about": machine.about,
        "topology": machine.topology.kind().to_string(),
        "nodes": machine.topology.rails().nodes(),
        "routers": machine.topology.routers(),
        "routing": machine.routing.algorithm().to_string(),
        "figures": Sheet::of(&machine.description).json(),
    });
    if let rails @ 2.. = machine.topology.rails().count() {
        described["rails"] = rails.into();
    }
    described
}

/// Returns a histogram of picoseconds as a plot, with bars of a twentieth of a decade.
pub fn latency_plot(latency: &Histogram<u64>) -> Option<Plot> {
    const PER_DECADE: f64 = 20.0;
    let mut bars: std::collections::BTreeMap<i32, u64> = std::collections::BTreeMap::new();
    for step in latency.iter_recorded() {
        let ns = Time(step.value_iterated_to()).as_ns_f64();
        if ns > 0.0 {
            *bars.entry((ns.log10() * PER_DECADE).floor() as i32).or_default() += step.count_since_last_iteration();
        }
    }
    let edge = |at: i32| 10f64.powf(f64::from(at) / PER_DECADE);
    let bars: Vec<_> = bars.into_iter().map(|(at, count)| (edge(at), edge(at + 1), count as f64)).collect();
    (!bars.is_empty()).then(|| Plot {
        name: LATENCY.into(),
        title: "Latency of messages, from command to delivery".into(),
        x: Axis::logarithmic("latency", 10, words::time_ns),
        y: Axis::whole("messages", words::scaled),
        shape: Shape::Bars(bars),
    })
}
