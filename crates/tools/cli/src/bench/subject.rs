// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The parts of a page of benchmarks: a subject with its text, its plots and its table; the list of cases that were left
//! out. The page itself is a document ([`selvedge_document`]), written as HTML, or as Markdown with pictures beside it.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use selvedge_document::{Document, Plot, Section, Table, html, markdown};

use super::plots::PlotOf;
use super::record::{Measurement, Record};
use super::report;
use crate::sim::check_file;

/// A part of the page. Parts are listed from last to first; the last in the list accepts all remaining cases.
pub struct Subject {
    pub title: &'static str,
    pub about: &'static str,
    /// Whether a case belongs here. The first subject that accepts a case gets it.
    pub has: fn(&str) -> bool,
    pub plots: &'static [PlotOf],
}

impl Subject {
    /// Returns the part: its text, its plots, and a table with their figures.
    pub fn section(&self, measurements: &[Measurement], table: Table) -> Section {
        let plots: Vec<Plot> = self.plots.iter().filter_map(|plot| plot.of(measurements)).collect();
        let table = table.without_empty_columns().drawn_by(&plots);
        Section::new(self.title).text(self.about).plots(plots).table(table)
    }

    /// Returns the part of these records.
    pub fn of_records(&self, measurements: &[Measurement], records: &[&Record]) -> Section {
        self.section(measurements, report::table(records.iter().copied()))
    }
}

/// The page's last part: cases without figures, and the reasons.
pub fn left_out(notes: &[String]) -> Option<Section> {
    let first_lines = notes.iter().filter_map(|note| note.lines().next());
    (!notes.is_empty()).then(|| Section::new("Left out").list(first_lines.map(str::to_owned).collect()))
}

/// Writes a document as the Markdown page `directory/file`, and its plots beside it.
pub fn write_docs(document: &Document, directory: &Path, file: &str) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    for plot in document.plots() {
        write_file(&directory.join(format!("{}.svg", plot.name)), &plot.svg())?;
    }
    write_file(&directory.join(file), &markdown::page(document))
}

/// Checks that a page can be written, before anything is measured for it.
pub fn check_html(file: Option<&Path>) -> Result<()> {
    Ok(file.map_or(Ok(()), |file| check_file("--html", file))?)
}

/// Writes a document as an HTML page.
pub fn write_html(document: &Document, file: &Path) -> Result<()> {
    write_file(file, &html::page(document, None))
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
