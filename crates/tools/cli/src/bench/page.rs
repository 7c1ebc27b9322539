// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages `benchmarks.md`, `benchmarks-shmem.md` for OpenSHMEM and `benchmarks-extoll.md` for EXTOLL: host, date,
//! method, tables by subject, plots. The run that measures writes them, so no figure is typed by hand.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::cases::Group;
use super::host::Host;
use super::record::{Measurement, Record};
use super::subject::{left_out, part};
use super::{extoll, portals, shmem};

pub struct Page<'a> {
    pub group: Group,
    pub host: &'a Host,
    pub peers: Vec<String>,
    pub measurements: &'a [Measurement],
    pub records: &'a [Record],
    pub notes: &'a [String],
    pub quick: bool,
}

impl Page<'_> {
    pub fn write(&self, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut parts = Vec::new();
        let (subjects, file) = match self.group {
            Group::Portals => (portals::SUBJECTS, "benchmarks.md"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::catalogue::records;

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
}
