// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The page of the demonstration: examples, measurements, the simulated run, and where to go on.

use std::collections::BTreeSet;

use selvedge_document::{Document, Section, Table, html, words};

use super::examples::{Ran, Simulated};
use crate::bench::{Measured, Record};

pub struct Page<'a> {
    pub examples: &'a [Ran],
    pub measured: Measured,
    pub simulated: Simulated,
}

impl Page<'_> {
    /// All that has failed, a line each.
    pub fn failures(&self) -> Vec<String> {
        let examples = self.examples.iter().filter_map(|run| run.failure.clone());
        examples.chain(self.simulated.failure()).chain(self.measured.failures.iter().cloned()).collect()
    }

    /// Returns the page, and the drawing in it.
    pub fn document(self) -> (Document, Option<html::Drawn>) {
        let failures = self.failures();
        let mut sections = Vec::new();
        if !failures.is_empty() {
            sections.push(Section::new("Failed").list(failures));
        }
        let examples = Section::new("Examples").text(
            "Each ran as processes of this machine, and checked every byte that it received. A title unfolds the \
             command and what it printed.",
        );
        sections.push(self.examples.iter().fold(examples, |section, run| section.output(run.output.clone())));
        sections.extend(self.measured.document.sections.into_iter().map(|section| match &*section.title {
            "" => Section { title: "What communication costs here".to_owned(), ..section },
            _ => section,
        }));
        let Simulated { output, report } = self.simulated;
        let about = "A program does not notice that its machine is simulated: it is the binary of the examples, and its \
                     clocks show the machine's time. Each figure of the machine has its source, and two runs are equal \
                     to the byte. The drawing shows the links and for how much of the time each was busy.";
        sections.push(Section::new("On a simulated machine").text(about).output(output));
        let mut drawn = None;
        if let Ok(report) = report {
            drawn = report.drawn.map(|drawn| html::Drawn { section: sections.len(), ..drawn });
            let main = report.document.with_prefix("simulated-").sections.into_iter();
            sections.extend(
                main.filter(|section| section.summary && !section.wall)
                    .map(|section| Section { title: format!("Simulated: {}", section.title), ..section }),
            );
        }
        sections.push(Section::new("Where to go on").list(vec![
            "`selvedge bench --html FILE` measures everything, at more sizes and for longer; `make peers` installs UCX, \
             Open MPI and MPICH for comparison."
                .to_owned(),
            "`selvedge validate` compares the machines' models with published figures, claim by claim.".to_owned(),
            "`selvedge sim --list` shows machines and programs; `selvedge sim --html FILE` writes the whole report of a \
             run."
                .to_owned(),
            "`selvedge mpirun -n 2 PROGRAM` runs an MPI program over Selvedge, `selvedge doctor` says what this machine \
             has."
                .to_owned(),
        ]));
        let about =
            concat!("Written by `selvedge demo`, version ", env!("CARGO_PKG_VERSION"), ", from what it ran here.");
        (Document { title: "Selvedge, a demonstration".to_owned(), about: about.to_owned(), sections }, drawn)
    }
}

/// Returns the cases at 8 bytes, each once, for a terminal.
pub fn of_eight_bytes(records: &[Record]) -> Table {
    let mut table = Table::with_heads(&["case", ">median", ">p99", "against", ">ratio"]);
    let mut seen = BTreeSet::new();
    let timed = records.iter().filter(|record| record.size_bytes == Some(8) && record.depth.is_none());
    for record in timed.filter(|record| record.rate_per_s.is_none()) {
        let Some(median) = record.median_ns.filter(|_| seen.insert(record.case.as_str())) else { continue };
        table.row([
            record.case.clone(),
            words::time_ns(median),
            record.p99_ns.map(words::time_ns).unwrap_or_default(),
            record.against.clone().unwrap_or_default(),
            record.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use selvedge_document::Output;

    use super::*;
    use crate::sim;

    fn record(case: &str, against: Option<&str>) -> Record {
        Record {
            case: case.to_owned(),
            size_bytes: Some(8),
            median_ns: Some(50.0),
            against: against.map(str::to_owned),
            ratio: against.map(|_| 1.5),
            ..Record::default()
        }
    }

    fn page(examples: &[Ran], report: Result<sim::Report, String>) -> Page<'_> {
        let output = Output { title: "simulated".into(), command: "sim".into(), text: "cells".into() };
        let document = Document {
            sections: vec![Section::new("").text("method"), Section::new("Latency")],
            ..Document::default()
        };
        let measured = Measured { document, records: Vec::new(), failures: Vec::new() };
        Page { examples, measured, simulated: Simulated { output, report } }
    }

    fn ran(failure: Option<&str>) -> Ran {
        let output = Output { title: "hello".into(), command: "run hello".into(), text: "8 bytes".into() };
        Ran { output, failure: failure.map(str::to_owned) }
    }

    #[test]
    fn the_page_has_examples_figures_and_the_simulated_run() {
        let report = sim::Report {
            document: Document {
                sections: vec![
                    Section::new("Run").in_summary(),
                    Section::new("Wall clock").in_summary().of_wall(),
                    Section::new("Machine"),
                ],
                ..Document::default()
            },
            drawn: Some(html::Drawn { body: "<b>torus</b>".into(), ..html::Drawn::default() }),
            exit_code: 0,
        };
        let examples = [ran(None)];
        let page = page(&examples, Ok(report));
        assert!(page.failures().is_empty());
        let (document, drawn) = page.document();
        let titles: Vec<&str> = document.sections.iter().map(|section| &*section.title).collect();
        let wanted =
            ["Examples", "What communication costs here", "Latency", "On a simulated machine", "Simulated: Run"];
        assert_eq!(titles[..5], wanted);
        assert_eq!(titles[5..], ["Where to go on"], "nothing else of the report");
        let text = html::page(&document, drawn.as_ref());
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("{word}: {text}"));
        assert!(at("$ run hello\n8 bytes") < at("<h2>Latency</h2>") && at("$ sim\ncells") < at("<b>torus</b>"));
        assert!(at("<b>torus</b>") < at("<h2>Simulated: Run</h2>") && text.contains("<code>selvedge validate</code>"));
        assert!(!text.contains("Failed"));
    }

    #[test]
    fn failures_are_named_first() {
        let examples = [ran(None), ran(Some("byte 5 is 7"))];
        let page = page(&examples, Err("exit code 3".into()));
        assert_eq!(page.failures(), ["byte 5 is 7", "sim: exit code 3"]);
        let (document, drawn) = page.document();
        assert!(drawn.is_none() && document.sections[0].title == "Failed");
        assert!(html::page(&document, None).contains("<li>byte 5 is 7</li>"));
    }

    #[test]
    fn a_case_has_one_row() {
        let mut records = vec![record("raw_flag", None), record("put", Some("raw_flag")), record("put", Some("get"))];
        records.push(Record { size_bytes: Some(64), ..record("get", None) });
        records.push(Record { rate_per_s: Some(1e6), ..record("message_rate", None) });
        let table = of_eight_bytes(&records);
        let rows: Vec<[&str; 2]> = table.rows.iter().map(|row| [&*row[0], &*row[3]]).collect();
        assert_eq!(rows, [["raw_flag", ""], ["put", "raw_flag"]]);
    }
}
