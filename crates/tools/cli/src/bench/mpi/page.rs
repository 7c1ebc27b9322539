// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of MPI over Selvedge, with its plots.

use selvedge_document::{Document, Section, Table};

use crate::bench::host::Host;
use crate::bench::page::written_by;
use crate::bench::plots::{BANDWIDTH_BY_SIZE, PlotOf, TIME_BY_DEPTH, TIME_BY_SIZE};
use crate::bench::record::{Measurement, Record};
use crate::bench::subject::{Subject, left_out};

/// Name of the Markdown page.
pub const FILE: &str = "benchmarks-mpi.md";

pub struct Page<'a> {
    pub host: &'a Host,
    /// The version of each MPI.
    pub stock: Vec<String>,
    pub measurements: &'a [Measurement],
    pub records: &'a [Record],
    pub crossings: &'a [String],
    pub notes: &'a [String],
    pub quick: bool,
}

macro_rules! sides {
    ($what:literal) => {
        &[
            concat!("openmpi5:", $what),
            concat!("openmpi5_own:", $what),
            concat!("openmpi4:", $what),
            concat!("openmpi4_own:", $what),
            concat!("mpich:", $what),
            concat!("mpich_own:", $what),
        ]
    };
}

const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Protocols",
        about: "Half a round trip with one protocol forced for every message (SELVEDGE_FI_LANE_MAX, \
                SELVEDGE_FI_SMALL_MAX). `lane`: through a ring, which the sender copies into and the receiver copies \
                out of. `direct`: copied once, from the sender's buffer into the receiver's.",
        has: |case| case.starts_with("lane:") || case.starts_with("direct:"),
        plots: &[PlotOf {
            name: "mpi-protocols",
            title: "Half a round trip, by protocol",
            cases: &["lane:pingpong", "direct:pingpong"],
            ..TIME_BY_SIZE
        }],
    },
    Subject {
        title: "fi_pingpong",
        about: "Debian's own program, tagged messages, our provider against libfabric's shared-memory provider. The \
                figures are means, as the program reports them.",
        has: |case| case.starts_with("fi_pingpong"),
        plots: &[],
    },
    Subject {
        title: "Latency",
        about: "Half a round trip of MPI_Send and MPI_Recv. In `pingpong` neither rank reads the data. In \
                `pingpong_used` one buffer goes back and forth, and each rank reads every word of it and writes it \
                again within the measured time, as programs do. `exchange`: each rank sends four messages, then \
                receives four, as in an exchange of halos; the time is that of all eight.",
        has: |case| [":pingpong", ":pingpong_used", ":exchange"].iter().any(|what| case.ends_with(what)),
        plots: &[
            PlotOf { name: "mpi-latency", title: "Half a round trip", cases: sides!("pingpong"), ..TIME_BY_SIZE },
            PlotOf {
                name: "mpi-latency-used",
                title: "Half a round trip of data that are used",
                cases: sides!("pingpong_used"),
                ..TIME_BY_SIZE
            },
        ],
    },
    Subject {
        title: "Message rate and bandwidth",
        about: "`rate`: 8-byte messages, 64 in flight. `stream`: 16 messages in flight, buffers taken in turn from a ring.",
        has: |case| case.ends_with(":rate") || case.ends_with(":stream"),
        plots: &[PlotOf {
            name: "mpi-bandwidth",
            title: "Bandwidth, 16 messages in flight",
            cases: sides!("stream"),
            ..BANDWIDTH_BY_SIZE
        }],
    },
    Subject {
        title: "Matching",
        about: "Depth is the number of messages, or receives, that are searched before the match and stay queued. \
                `last_unexpected`: one MPI_Recv of a message that has arrived after them. `last_posted`: half a round \
                trip whose answer matches a receive posted after them.",
        has: |case| case.contains(":last_"),
        plots: &[
            PlotOf {
                name: "mpi-unexpected",
                title: "MPI_Recv of the last of Q unexpected messages",
                cases: sides!("last_unexpected"),
                ..TIME_BY_DEPTH
            },
            PlotOf {
                name: "mpi-posted",
                title: "Half a round trip, last of Q posted receives",
                cases: sides!("last_posted"),
                ..TIME_BY_DEPTH
            },
        ],
    },
    Subject {
        title: "Overlap with computation",
        about: "1 MB. `overlap_recv`: MPI_Irecv is posted, the receiver computes for twice the time that the message \
                alone takes, without calling MPI, and waits. `overlap_window`: the owner of a window computes without \
                calling MPI while another rank puts into it at a fixed pace; in `overlap_created` the window is the \
                program's own memory. The rate is pieces of work a second; its ratio to `:alone` is the availability. The time is what \
                one MPI_Send, or MPI_Put with its flush, costs the active side; its ratio is to one memcpy of as many bytes.",
        has: |case| case.contains(":overlap_"),
        plots: &[],
    },
    Subject {
        title: "More ranks than cores",
        about: "Depth is the number of ranks; none is pinned.",
        has: |case| case.ends_with(":allreduce") || case.ends_with(":alltoall"),
        plots: &[],
    },
    Subject {
        title: "One-sided",
        about: "Each operation is flushed before the next, so the time is its whole cost. The target waits in \
                MPI_Recv. Memory is from MPI_Win_allocate, which an MPI may make shared between ranks of one host \
                without any network, as Open MPI does; in `_created` it is the program's own (MPI_Win_create).",
        has: |_| true,
        plots: &[],
    },
];

const ORDER: [&str; 8] = [
    "Latency",
    "Message rate and bandwidth",
    "Matching",
    "Overlap with computation",
    "One-sided",
    "More ranks than cores",
    "fi_pingpong",
    "Protocols",
];

impl Page<'_> {
    pub fn document(&self) -> Document {
        let mut facts = Table::of_values();
        facts.value("host", self.host.describe());
        facts.value("date", &self.host.date);
        facts.value("MPIs", self.stock.join(", "));
        let mut sections = vec![Section::new("").table(facts).text(METHOD)];
        for title in ORDER {
            let Some(at) = SUBJECTS.iter().position(|subject| subject.title == title) else { continue };
            let mine = |record: &&Record| SUBJECTS.iter().position(|s| (s.has)(&record.case)) == Some(at);
            let records: Vec<&Record> = self.records.iter().filter(mine).collect();
            if records.is_empty() {
                continue;
            }
            let section = SUBJECTS[at].of_records(self.measurements, &records);
            sections.push(match title {
                "Protocols" => self.crossings.iter().fold(section, |section, line| section.text(line.clone())),
                _ => section,
            });
        }
        sections.extend(left_out(self.notes));
        Document {
            title: "Benchmarks of MPI over Selvedge".to_owned(),
            about: written_by(" mpi", self.quick),
            sections,
        }
    }
}

const METHOD: &str = "Each installed MPI over its own transport (`_own`), and the same MPI over our libfabric provider, with \
    the environment that `selvedge env` prints. One program runs on both sides; they take turns, and of several turns the \
    quickest one counts, because the distance of a virtual machine's cores varies over seconds. Two ranks are pinned to a \
    core each. A figure is the median, or the 99th percentile, of many batches after warming up. A ratio is this case's \
    figure divided by that of the case in the column `against`: for times, less than one is faster; for rates and \
    bandwidths, more than one is.";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::bench::mpi::{batch, compare};
    use crate::bench::subject::write_docs;

    #[test]
    fn every_measurement_has_its_part() {
        let title = |case: &str| SUBJECTS.iter().find(|s| (s.has)(case)).map(|s| s.title);
        for what in batch::ALL.iter().flat_map(|batch| batch.what) {
            assert!(ORDER.contains(&title(&format!("mpich_own:{what}")).unwrap()), "{what}");
        }
        assert!(SUBJECTS.iter().all(|subject| ORDER.contains(&subject.title)));
        assert_eq!(title("mpich:put"), Some("One-sided"));
        assert_eq!(title("mpich:overlap_window:alone"), Some("Overlap with computation"));
        assert_eq!(title("direct:pingpong"), Some("Protocols"));
        assert_eq!(title("fi_pingpong:shm"), Some("fi_pingpong"));
    }

    #[test]
    fn the_page_has_tables_plots_and_the_crossing() {
        let timed = |case: &str, bytes: u64, ns: f64| Measurement {
            case: case.into(),
            size_bytes: Some(bytes),
            median_ns: Some(ns),
            ..Measurement::default()
        };
        let measurements: Vec<Measurement> =
            ["mpich:pingpong", "mpich_own:pingpong", "lane:pingpong", "direct:pingpong"]
                .iter()
                .flat_map(|case| [timed(case, 8, 100.0), timed(case, 4096, 900.0)])
                .collect();
        let (records, crossings) = (compare::records(&measurements), compare::crossings(&measurements));
        let directory = tempfile::tempdir().unwrap();
        let page = Page {
            host: &Host::here(),
            stock: vec!["MPICH 5".into()],
            measurements: &measurements,
            records: &records,
            crossings: &crossings,
            notes: &["openmpi5 latency: failed: why".to_owned()],
            quick: false,
        };
        write_docs(&page.document(), directory.path(), FILE).unwrap();
        let text = fs::read_to_string(directory.path().join("benchmarks-mpi.md")).unwrap();
        assert!(text.contains("mpich_own:pingpong | 1.00 |") && text.contains("From 8 B on"), "{text}");
        assert!(text.find("## Latency") < text.find("## Protocols") && text.contains("failed: why"));
        assert!(directory.path().join("mpi-latency.svg").is_file() && !text.contains("## Matching"));
    }
}
