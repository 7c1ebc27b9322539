// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows as a table, and the page with its plots.

use selvedge_document::{Document, Section, Table, words};

use super::compare::{Row, figure_of, split};
use crate::bench::host::Host;
use crate::bench::page::written_by;
use crate::bench::plots::{BANDWIDTH_BY_SIZE, PlotOf, TIME_BY_SIZE};
use crate::bench::record::{Figure, Measurement};
use crate::bench::report::{ratio, size};
use crate::bench::subject::{Subject, left_out};

/// Name of the Markdown page.
pub const FILE: &str = "benchmarks-hosts.md";

/// Heads of the columns of [`cells`]; `>`: numbers.
const HEADS: [&str; 10] = ["case", ">size", ">depth", ">figure", ">p99", "against", ">ratio", "pairs", "bar", "met"];

pub fn table<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Table {
    let mut table = Table::with_heads(&HEADS);
    rows.into_iter().for_each(|row| table.row(cells(row)));
    table
}

/// A sentence on the number of bars that are met.
pub fn summary(rows: &[Row]) -> String {
    let verdicts: Vec<_> = rows.iter().filter_map(|row| row.verdict.as_ref()).collect();
    let met = verdicts.iter().filter(|verdict| verdict.is_met).count();
    format!("Of {} bars {met} are met.", verdicts.len())
}

fn figure(m: &Measurement) -> Option<String> {
    match figure_of(split(&m.case).1) {
        Figure::Time => m.median_ns.map(words::time_ns),
        Figure::Rate => m.rate_per_s.map(words::rate),
        Figure::Bandwidth => m.bandwidth_bytes_per_s.map(words::bytes_per_s),
        Figure::Value => m.value.map(|value| value_text(value, m.unit.as_deref().unwrap_or_default())),
    }
}

/// Formats a figure of another kind. Processor times are small, and numbers of messages whole.
fn value_text(value: f64, unit: &str) -> String {
    match unit {
        "messages" => format!("{value} {unit}"),
        "s" | "s/s" if value < 0.001 => format!("{} u{unit}", words::digits(value * 1e6)),
        "s" | "s/s" if value < 1.0 => format!("{} m{unit}", words::digits(value * 1e3)),
        _ => format!("{} {unit}", words::digits(value)),
    }
}

fn cells(row: &Row) -> [String; 10] {
    let (m, compared, verdict) = (&row.m, row.ratio.as_ref(), row.verdict.as_ref());
    let yes = |is_met| if is_met { "yes" } else { "no" };
    [
        m.case.clone(),
        m.size_bytes.map(size).unwrap_or_default(),
        m.depth.map(|depth| depth.to_string()).unwrap_or_default(),
        figure(m).unwrap_or_default(),
        m.p99_ns.map(words::time_ns).unwrap_or_default(),
        compared.map(|r| r.against.clone()).unwrap_or_default(),
        compared.map(|r| ratio(r.median)).unwrap_or_default(),
        compared.map(|r| format!("{} to {}", ratio(r.least), ratio(r.greatest))).unwrap_or_default(),
        verdict.map(|v| v.bar.text()).unwrap_or_default(),
        verdict.map(|v| format!("{}, {} of {}", yes(v.is_met), v.met, v.pairs)).unwrap_or_default(),
    ]
}

pub struct Page<'a> {
    pub host: &'a Host,
    /// The version of each peer.
    pub peers: Vec<String>,
    /// User variables that change the measurement.
    pub settings: Vec<String>,
    pub turns: usize,
    pub medians: &'a [Measurement],
    pub rows: &'a [Row],
    pub notes: &'a [String],
    pub quick: bool,
}

macro_rules! sides {
    ($what:literal) => {
        &[
            concat!("openmpi4:", $what),
            concat!("openmpi4_tcp:", $what),
            concat!("openmpi4_rxm:", $what),
            concat!("mpich:", $what),
            concat!("mpich_rxm:", $what),
        ]
    };
}

const SUBJECTS: &[Subject] = &[
    Subject {
        title: "MPI: latency",
        about: "Half a round trip of MPI_Send and MPI_Recv. `_calls`: without the progress thread \
                (SELVEDGE_NET_PROGRESS=calls).",
        has: |case| case.ends_with(":pingpong"),
        plots: &[PlotOf {
            name: "hosts-latency",
            title: "Half a round trip between hosts",
            cases: sides!("pingpong"),
            ..TIME_BY_SIZE
        }],
    },
    Subject {
        title: "MPI: message rate and bandwidth",
        about: "`rate`: 8-byte messages, 64 in flight. `stream`: 16 messages in flight, buffers taken in turn from a \
                ring.",
        has: |case| case.ends_with(":rate") || case.ends_with(":stream"),
        plots: &[PlotOf {
            name: "hosts-bandwidth",
            title: "Bandwidth between hosts, 16 messages in flight",
            cases: sides!("stream"),
            ..BANDWIDTH_BY_SIZE
        }],
    },
    Subject {
        title: "A target that computes",
        about: "One process does the work of a second and does not call the library, while 50 messages of 1 MiB come, \
                one each 16 ms: into receives posted before (`overlap_posted`), by shmem_putmem (`overlap_put`), or by \
                a thread of the program that reads a TCP connection into the same memory (`overlap_tcp`). The figure is \
                the share of its speed that it keeps; `:arrived` are the messages that its memory has when the work is \
                done, `:threads` the processor time of its other threads meanwhile. What `overlap_tcp` loses is what the \
                kernel's TCP takes.",
        has: |case| case.contains(":overlap_"),
        plots: &[],
    },
    Subject {
        title: "A process that sleeps",
        about: "Processor time, user and system, of an MPI rank that has links and sleeps for a second, all threads \
                together.",
        has: |case| case.ends_with(":idle"),
        plots: &[],
    },
    Subject {
        title: "Memory for a known process",
        about: "Depth is the number of processes of other hosts that a process knows and has not sent to: addresses \
                that a libfabric program inserts, as MPIs do when they start. `resident`: what the process grows by for \
                each. `allocated`: what it has asked malloc for; tables double, and their free half was never touched.",
        has: |case| case.starts_with("memory:"),
        plots: &[],
    },
    Subject {
        title: "OpenSHMEM",
        about: "8 bytes. `counting_put` and `put_signal` are half a round trip, the others whole operations on a target \
                that waits in a barrier. In `shmem_asleep` the target sleeps outside the library. Sandia OpenSHMEM has no \
                counting puts between hosts; ours are compared with its puts with signals.",
        has: |_| true,
        plots: &[],
    },
];

/// The description of the two hosts, for reports.
pub const HOSTS: &str =
    "two processes of one host that take each other for processes of another, over the loopback interface";

impl Page<'_> {
    pub fn document(&self) -> Document {
        let or_none = |list: &[String]| if list.is_empty() { "none".to_owned() } else { list.join(", ") };
        let mut facts = Table::of_values();
        facts.value("host", self.host.describe());
        facts.value("hosts", HOSTS);
        facts.value("date", &self.host.date);
        facts.value("peers", or_none(&self.peers));
        facts.value("settings", or_none(&self.settings));
        let mut sections = vec![Section::new("").table(facts).text(self.method())];
        let judged = table(self.rows.iter().filter(|row| row.verdict.is_some()));
        if !judged.rows.is_empty() {
            sections.push(Section::new("What is to be reached").text(summary(self.rows)).table(judged));
        }
        for (at, subject) in SUBJECTS.iter().enumerate() {
            let is_mine = |row: &&Row| SUBJECTS.iter().position(|s| (s.has)(&row.m.case)) == Some(at);
            let mine = table(self.rows.iter().filter(is_mine));
            if !mine.rows.is_empty() {
                sections.push(subject.section(self.medians, mine));
            }
        }
        sections.extend(left_out(self.notes));
        Document { title: "Benchmarks between hosts".to_owned(), about: written_by(" hosts", self.quick), sections }
    }

    fn method(&self) -> String {
        format!(
            "Each MPI over our provider (`openmpi4`), over its own TCP (`_tcp`), and over libfabric's `tcp;ofi_rxm` \
             (`_rxm`), which carries our links, too; OpenSHMEM beside Sandia's over the same (`sandia`). All use one \
             interface. One program runs on all sides. Two processes are pinned to a core each, with their threads. There are \
             {} turns, in each of which all sides run, in every other one in the opposite order. A figure is the median over the turns of \
             each turn's median, and p99 that of its 99th percentiles. A ratio is the median of the ratios of figures of \
             one turn; `pairs` has the least and the greatest, and `met` says how many of them meet the bar. The bar is for \
             the better of the peers.",
            self.turns,
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bench::hosts::compare::rows;
    use crate::bench::subject::write_docs;

    #[test]
    fn values_have_their_units() {
        assert_eq!(value_text(50.0, "messages"), "50 messages");
        assert_eq!(value_text(0.000_03, "s/s"), "30.0 us/s");
        assert_eq!(value_text(0.08, "s"), "80.0 ms");
        assert_eq!(value_text(0.91, "of its speed"), "0.91 of its speed");
        assert_eq!(value_text(962.56, "B"), "963 B");
    }

    #[test]
    fn the_page_has_every_row_with_its_bar() {
        let timed = |case: &str, bytes, ns| Measurement {
            case: case.into(),
            size_bytes: Some(bytes),
            median_ns: Some(ns),
            ..Measurement::default()
        };
        let turn: Vec<Measurement> = [("openmpi4:pingpong", 11.0), ("openmpi4_tcp:pingpong", 10.0), ("shmem:get", 3.0)]
            .into_iter()
            .flat_map(|(case, ns)| [timed(case, 8, ns), timed(case, 1024, 2.0 * ns)])
            .collect();
        let idle = Measurement { value: Some(0.002), unit: Some("s/s".into()), ..timed("openmpi4:idle", 0, 1.0) };
        let turns = [[turn, vec![idle]].concat()];
        let (rows, medians) = (rows(&turns), crate::bench::hosts::compare::medians(&turns));
        let directory = tempfile::tempdir().unwrap();
        let page = Page {
            host: &Host::here(),
            peers: vec!["Open MPI 4".into()],
            settings: Vec::new(),
            turns: 1,
            medians: &medians,
            rows: &rows,
            notes: &["sandia: left out, why".to_owned()],
            quick: false,
        };
        write_docs(&page.document(), directory.path(), FILE).unwrap();
        let text = fs::read_to_string(directory.path().join("benchmarks-hosts.md")).unwrap();
        let wanted = "openmpi4_tcp:pingpong | 1.10 | 1.10 to 1.10 | at most 1.1 | yes, 1 of 1 |";
        assert_eq!(text.matches(wanted).count(), 4, "at two sizes, each in the part and in the summary: {text}");
        assert!(text.contains("Of 2 bars 2 are met."), "{text}");
        assert!(
            text.contains("2.00 ms/s") && text.contains("## OpenSHMEM") && text.contains("left out, why"),
            "{text}"
        );
        assert!(directory.path().join("hosts-latency.svg").is_file() && !text.contains("## Memory"));
    }
}
