// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages `benchmarks.md`, `benchmarks-shmem.md` for OpenSHMEM and `benchmarks-extoll.md` for EXTOLL: host, date, method, tables by subject, plots. The run that
//! measures writes them, so no figure is typed by hand.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::cases::Group;
use super::host::Host;
use super::plots::Plot;
use super::record::{Measurement, Record};
use super::report::{COLUMNS, TEXT_COLUMNS, markdown, row, size};
use super::{extoll, shmem};

pub struct Page<'a> {
    pub group: Group,
    pub host: &'a Host,
    pub peers: Vec<String>,
    pub measurements: &'a [Measurement],
    pub records: &'a [Record],
    pub notes: &'a [String],
    pub quick: bool,
}

/// A part of the page. The parts are listed from last to first, and the last of the list takes the remaining cases.
pub struct Subject {
    pub title: &'static str,
    pub about: &'static str,
    /// Whether a case belongs here. It goes to the first subject for which this holds.
    pub has: fn(&str) -> bool,
    pub plots: &'static [Plot],
}

const SUBJECTS: &[Subject] = &[
    Subject {
        title: "Matching",
        about: "Messages are sent with descending tags and received with ascending ones, so that an engine that \
                searches its list in order finds each message at the end. Depth is the number of entries or messages; the time is that of \
                one message.",
        has: |case| case.contains("match_posted") || case.contains("match_unexpected"),
        plots: &[
            Plot {
                file: "match_unexpected.svg",
                title: "Time per message, last of Q unexpected",
                cases: &["match_unexpected", "openmpi:match_unexpected", "mpich:match_unexpected"],
                ..MATCHING_PLOT
            },
            Plot {
                file: "match_posted.svg",
                title: "Time per message, last of Q posted",
                cases: &["match_posted", "openmpi:match_posted", "mpich:match_posted"],
                ..MATCHING_PLOT
            },
        ],
    },
    Subject {
        title: "Bandwidth",
        about: "Every method takes its buffers in turn from pools of equal length, and the methods take turns in one \
                loop. The `_hot` cases and `ucx:put_bw` use so few buffers that they stay in the caches.",
        has: |case| ["bandwidth", "memcpy_", "process_vm", "put_bw"].iter().any(|part| case.contains(part)),
        plots: &[Plot {
            file: "bandwidth.svg",
            title: "Bandwidth",
            x_label: "message size",
            y_label: "bandwidth",
            cases: &[
                "bandwidth_shared",
                "memcpy_shared",
                "bandwidth_cma",
                "memcpy_ordinary",
                "process_vm_writev",
                "openmpi:bandwidth",
                "mpich:bandwidth",
            ],
            point: |m| Some((m.size_bytes? as f64, m.bandwidth_bytes_per_s? / 1e9)),
            x_text: |x| size(x.round() as u64),
            y_text: |y| format!("{y} GB/s"),
            x_base: 4.0,
            y_base: 2.0,
        }],
    },
    Subject {
        title: "Computing targets",
        about: "One process computes while the other puts 1 MB buffers into its memory at a fixed pace. The rate is \
                pieces of work a second; its ratio is the share of the undisturbed rate. The time is the cost of one \
                put at its initiator.",
        has: |case| case.starts_with("overlap_target"),
        plots: &[],
    },
    Subject {
        title: "Collectives",
        about: "Depth is the number of processes. In the host-driven cases the program sends every message of the same \
                algorithms. With more processes than cores, processes share cores.",
        has: |case| case.contains("barrier") || case.contains("allreduce"),
        plots: &[],
    },
    Subject {
        title: "Message rate",
        about: "Depth is the number of messages in flight.",
        has: |case| case.contains("_rate"),
        plots: &[],
    },
    Subject {
        title: "Latency",
        about: "Half a round trip, except `get` and `fetch_atomic`, which are whole operations on a target that does \
                not call the library. Cases that are compared with `raw_flag` take turns with it in several runs, of \
                which the quickest one counts.",
        has: |_| true,
        plots: &[Plot {
            file: "latency.svg",
            title: "Half a round trip",
            x_label: "message size",
            y_label: "time",
            cases: &["counting_put", "counting_put_ordinary", "put_flag", "openmpi:pingpong", "mpich:pingpong"],
            point: |m| Some((m.size_bytes? as f64, m.median_ns?)),
            x_text: |x| size(x.round() as u64),
            y_text: time_text,
            x_base: 4.0,
            y_base: 10.0,
        }],
    },
];

const MATCHING_PLOT: Plot = Plot {
    file: "",
    title: "",
    x_label: "Q",
    y_label: "time per message",
    cases: &[],
    point: |m| Some((m.depth? as f64, m.median_ns?)),
    x_text: |x| format!("{x}"),
    y_text: time_text,
    x_base: 4.0,
    y_base: 10.0,
};

pub fn time_text(ns: f64) -> String {
    if ns < 1e3 { format!("{ns} ns") } else { format!("{} us", ns / 1e3) }
}

impl Page<'_> {
    pub fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut parts = Vec::new();
        let (subjects, file) = match self.group {
            Group::Portals => (SUBJECTS, "benchmarks.md"),
            Group::Shmem => (shmem::SUBJECTS, "benchmarks-shmem.md"),
            Group::Extoll => (extoll::SUBJECTS, "benchmarks-extoll.md"),
        };
        let subject_of = |r: &Record| subjects.iter().position(|s| (s.has)(&r.case));
        for (at, subject) in subjects.iter().enumerate() {
            let mine = |r: &&Record| Group::of(&r.case) == self.group && subject_of(r) == Some(at);
            let records: Vec<&Record> = self.records.iter().filter(mine).collect();
            if !records.is_empty() {
                parts.push(part(subject, &records, self.measurements, directory)?);
            }
        }
        let latency_first = parts.into_iter().rev().collect::<String>();
        let text = self.head() + &latency_first + &left_out(self.notes);
        let path = directory.join(file);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn head(&self) -> String {
        let (title, turns) = match self.group {
            Group::Portals => ("Benchmarks", ""),
            Group::Shmem => (
                "Benchmarks of OpenSHMEM",
                " Cases that Open MPI's OpenSHMEM has, too, take turns with it, in several runs of the same program, \
                of which the quickest one counts; methods for the same task take turns inside a run.",
            ),
            Group::Extoll => (
                "Benchmarks of EXTOLL",
                " Cases that are compared with the hardware or with UCX take turns with them, in several runs, of which \
                the quickest one counts.",
            ),
        };
        let asked = self.group.word().map_or(String::new(), |word| format!(" {word}"));
        let quick = if self.quick { " --quick" } else { "" };
        let peers = if self.peers.is_empty() { "none installed".to_owned() } else { self.peers.join(", ") };
        format!(
            "# {title}\n\nWritten by `selvedge bench{asked}{quick} --docs DIR`; not edited by hand.\n\n\
             | | |\n|---|---|\n| host | {} |\n| date | {} |\n| peers | {peers} |\n\n\
             Everything is measured side by side in one run, by processes pinned to a core each (unless there are more \
             of them than cores). A figure is the median, or the 99th percentile, of many batches after warming up. \
             A ratio is this case's figure divided by that of the case in the column `against`: for times, less than \
             one is faster; for rates and bandwidths, more than one is. A case that is compared with two others has \
             two lines.{turns}\n\n",
            self.host.describe(),
            self.host.date,
        )
    }
}

/// The page's last part: cases that could not be measured, and the reasons.
pub fn left_out(notes: &[String]) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let first_lines = notes.iter().filter_map(|note| note.lines().next());
    let list: String = first_lines.map(|note| format!("- {note}\n")).collect();
    format!("## Left out\n\n{list}")
}

/// Draws a subject's plots into `directory`, and returns the text with its table.
pub fn part(subject: &Subject, records: &[&Record], measurements: &[Measurement], directory: &Path) -> Result<String> {
    let table = markdown(&COLUMNS, &TEXT_COLUMNS, records.iter().map(|record| row(record)));
    Ok(head_of_part(subject, measurements, directory)? + &table + "\n")
}

/// Draws a subject's plots into `directory`, and returns the text before its table.
pub fn head_of_part(subject: &Subject, measurements: &[Measurement], directory: &Path) -> Result<String> {
    let mut out = format!("## {}\n\n{}\n\n", subject.title, subject.about);
    for plot in subject.plots {
        if plot.draw(measurements, directory)? {
            let _ = writeln!(out, "![{}]({})\n", plot.title, plot.file);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::record::records;

    #[test]
    fn the_page_has_every_record_and_its_plots() {
        let timed = |case: &str, size: u64, median_ns: f64| Measurement {
            case: case.into(),
            size_bytes: Some(size),
            median_ns: Some(median_ns),
            ..Measurement::default()
        };
        let measurements =
            [timed("raw_flag", 8, 100.0), timed("counting_put", 8, 120.0), timed("counting_put", 64, 130.0)];
        let records = records(&measurements);
        let directory = tempfile::tempdir().unwrap();
        let notes = ["mpich:pingpong: left out, not installed".to_owned()];
        let page = Page {
            group: Group::Portals,
            host: &Host::here(),
            peers: vec!["UCX 1".into()],
            measurements: &measurements,
            records: &records,
            notes: &notes,
            quick: true,
        };
        page.write(directory.path()).unwrap();
        let text = fs::read_to_string(directory.path().join("benchmarks.md")).unwrap();
        assert_eq!(text.lines().filter(|l| l.starts_with("| counting_put ")).count(), 2);
        assert!(text.contains("raw_flag | 1.20 |") && text.contains("latency.svg") && text.contains("not installed"));
        assert!(directory.path().join("latency.svg").is_file());
        assert!(!text.contains("## Matching"));
    }

    #[test]
    fn openshmem_has_a_page_of_its_own() {
        let timed = |case: &str| Measurement { case: case.into(), median_ns: Some(1.0), ..Measurement::default() };
        let measurements = [timed("get"), timed("shmem_get")];
        let directory = tempfile::tempdir().unwrap();
        let page = Page {
            group: Group::Shmem,
            host: &Host::here(),
            peers: Vec::new(),
            measurements: &measurements,
            records: &records(&measurements),
            notes: &[],
            quick: false,
        };
        page.write(directory.path()).unwrap();
        let text = fs::read_to_string(directory.path().join("benchmarks-shmem.md")).unwrap();
        assert!(text.contains("| shmem_get |") && !text.contains("| get |"), "{text}");
    }

    #[test]
    fn every_case_has_one_subject() {
        let title = |case: &str| SUBJECTS.iter().find(|s| (s.has)(case)).map(|s| s.title);
        assert_eq!(title("match_posted"), Some("Matching"));
        assert_eq!(title("overlap_target:memcpy"), Some("Computing targets"));
        assert_eq!(title("memcpy_shared"), Some("Bandwidth"));
        assert_eq!(title("message_rate"), Some("Message rate"));
        assert_eq!(title("matched_put_event"), Some("Latency"));
    }
}
