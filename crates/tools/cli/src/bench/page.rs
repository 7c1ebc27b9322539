// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The pages of Portals, OpenSHMEM and EXTOLL: host, date, method, tables by subject, plots. The run that measures
//! writes them, so no figure is typed by hand.

use selvedge_document::{Document, Section, Table};

use super::cases::Group;
use super::host::Host;
use super::record::{Measurement, Record};
use super::subject::{Subject, left_out};
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
    /// Name of the Markdown page.
    pub fn file(&self) -> &'static str {
        match self.group {
            Group::Portals => "benchmarks.md",
            Group::Shmem => "benchmarks-shmem.md",
            Group::Extoll => "benchmarks-extoll.md",
        }
    }

    pub fn document(&self) -> Document {
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
        let method = format!(
            "Everything is measured side by side in one run, by processes pinned to a core each (unless there are more \
             of them than cores). A figure is the median, or the 99th percentile, of many batches after warming up. \
             A ratio is this case's figure divided by that of the case in the column `against`: for times, less than \
             one is faster; for rates and bandwidths, more than one is. A case that is compared with two others has \
             two lines.{turns}"
        );
        let mut sections = vec![Section::new("").table(self.facts()).text(method)];
        sections.extend(self.subjects());
        sections.extend(left_out(self.notes));
        Document { title: title.to_owned(), about: written_by(&asked, self.quick), sections }
    }

    /// Host, date and peers.
    fn facts(&self) -> Table {
        let mut facts = Table::of_values();
        facts.value("host", self.host.describe());
        facts.value("date", &self.host.date);
        facts.value("peers", if self.peers.is_empty() { "none installed".to_owned() } else { self.peers.join(", ") });
        facts
    }

    /// The subjects that have records, latency first.
    pub fn subjects(&self) -> Vec<Section> {
        let subjects = match self.group {
            Group::Portals => portals::SUBJECTS,
            Group::Shmem => shmem::SUBJECTS,
            Group::Extoll => extoll::SUBJECTS,
        };
        let subject_of = |r: &Record| subjects.iter().position(|s| (s.has)(&r.case));
        let section = |(at, subject): (usize, &Subject)| {
            let mine = |r: &&Record| Group::of(&r.case) == self.group && subject_of(r) == Some(at);
            let records: Vec<&Record> = self.records.iter().filter(mine).collect();
            (!records.is_empty()).then(|| subject.of_records(self.measurements, &records))
        };
        subjects.iter().enumerate().filter_map(section).rev().collect()
    }
}

/// Returns the line on the origin of a page. `asked`: the words after `selvedge bench`, each with a blank before it.
pub fn written_by(asked: &str, quick: bool) -> String {
    let quick = if quick { " --quick" } else { "" };
    format!("Written by `selvedge bench{asked}{quick}` with `--docs` or `--html`; not edited by hand.")
}

/// Joins the documents of several groups into one. Names of subjects then begin with the group's.
pub fn joined(mut documents: Vec<Document>) -> Document {
    if documents.len() == 1 {
        return documents.remove(0);
    }
    let mut sections = Vec::new();
    for document in documents {
        for section in document.sections {
            let title = match &*section.title {
                "" => document.title.clone(),
                title => format!("{}: {title}", document.title),
            };
            sections.push(Section { title, ..section });
        }
    }
    Document { title: "Benchmarks".to_owned(), about: "Written by `selvedge bench`.".to_owned(), sections }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use selvedge_document::html;

    use super::*;
    use crate::bench::catalogue::records;
    use crate::bench::subject::write_docs;

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
        write_docs(&page.document(), directory.path(), page.file()).unwrap();
        let text = fs::read_to_string(directory.path().join("benchmarks.md")).unwrap();
        assert_eq!(text.lines().filter(|l| l.starts_with("| counting_put ")).count(), 2);
        assert!(text.contains("raw_flag | 1.20 |") && text.contains("latency.svg") && text.contains("not installed"));
        assert!(directory.path().join("latency.svg").is_file());
        assert!(!text.contains("## Matching"));
        let page = html::page(&page.document(), None);
        for word in
            ["UCX 1", "not installed", "<h2>Latency</h2>", "<svg", "href=\"#plot-latency\"", "<td>raw_flag</td>"]
        {
            assert!(page.contains(word), "{word}: {page}");
        }
    }

    #[test]
    fn groups_share_a_page() {
        let document = |title: &str| Document {
            title: title.to_owned(),
            about: String::new(),
            sections: vec![Section::new("").text("Host"), Section::new("Latency")],
        };
        let titles = |document: Document| document.sections.into_iter().map(|s| s.title).collect::<Vec<_>>();
        assert_eq!(titles(joined(vec![document("A")])), ["", "Latency"]);
        assert_eq!(titles(joined(vec![document("A"), document("B")])), ["A", "A: Latency", "B", "B: Latency"]);
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
        write_docs(&page.document(), directory.path(), page.file()).unwrap();
        let text = fs::read_to_string(directory.path().join("benchmarks-shmem.md")).unwrap();
        assert!(text.contains("| shmem_get |") && !text.contains("| get |"), "{text}");
    }
}
