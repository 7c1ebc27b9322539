// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The results of a study: its table as files, its plots, its page, and what a terminal shows.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use selvedge_document::{Document, Section, html, words};
use selvedge_sim::validate::{Claim, word};
use serde_json::{Value, json};

use super::cells::Cells;
use super::figures;
use super::plots::plots;
use super::scenario::Scenario;
use super::store::{Failure, State, Store};
use super::table::{self, SCHEMA, Table};

/// Longest and widest table that a terminal shows without `--verbose`.
const ROWS_SHOWN: usize = 40;
const COLUMNS_SHOWN: usize = 12;
/// Most different errors that are shown.
const ERRORS_SHOWN: usize = 20;

/// The cells that this run of the command ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ran {
    pub ran: usize,
    /// Finished before.
    pub kept: usize,
    pub wall: Duration,
}

/// The results so far.
pub struct Results<'a> {
    pub scenario: &'a Scenario,
    pub cells: &'a Cells,
    pub table: Table,
    pub claims: Vec<Claim>,
    /// Failed cells, by number.
    pub failed: Vec<(usize, Failure)>,
    /// Cells that have not run.
    pub missing: usize,
    pub notes: Vec<String>,
}

impl<'a> Results<'a> {
    /// Reads the results of all cells.
    pub fn collect(scenario: &'a Scenario, cells: &'a Cells, store: &Store) -> Results<'a> {
        let (mut failed, mut missing) = (Vec::new(), 0);
        let (mut reports, mut unfound) = (Vec::new(), BTreeMap::new());
        for (number, cell) in cells.cells.iter().enumerate() {
            match store.state(&cell.id) {
                State::Finished => match store.report(&cell.id) {
                    Some(mut report) => {
                        if !scenario.figures.is_empty() {
                            let absent = figures::add(&scenario.figures, &store.output(&cell.id), &mut report);
                            unfound.extend(absent.into_iter().map(|name| (name, number)));
                        }
                        reports.push((&cell.values[..], report));
                    }
                    None => missing += 1,
                },
                State::Failed(failure) => failed.push((number, failure)),
                State::Open => missing += 1,
            }
        }
        let names: Vec<String> = scenario.figures.iter().map(|figure| figure.name.clone()).collect();
        let asked = if scenario.columns.is_empty() { &names } else { &scenario.columns };
        let (table, unknown) = Table::of(&cells.axes, asked, reports.into_iter());
        let mut notes: Vec<String> = unknown.into_iter().map(|why| format!("[table] columns: {why}")).collect();
        for (name, number) in unfound {
            let log = store.log(&cells.cells[number].id);
            notes.push(format!("[figures] {name}: no line of the output has it, such as in {}", log.display()));
        }
        let claims = scenario.claims.iter().map(|claim| claim.judged(&table)).collect();
        Results { scenario, cells, table, claims, failed, missing, notes }
    }

    /// Writes table, plots and page, and returns the document for a terminal.
    pub fn write(&mut self, store: &Store, ran: Ran) -> Result<Document> {
        let (drawn, notes) = plots(&self.table, &self.scenario.plots);
        self.notes.extend(notes);
        let file = |name: &str| store.folder().join(name);
        store.write(&file("table.csv"), self.table.csv().as_bytes())?;
        let text = serde_json::to_string_pretty(&self.json())? + "\n";
        store.write(&file("table.json"), text.as_bytes())?;
        let folder = file("plots");
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
        }
        for plot in &drawn {
            store.write(&folder.join(format!("{}.svg", plot.name)), plot.svg().as_bytes())?;
        }
        let mut document = self.document(drawn);
        store.write(&file("page.html"), html::page(&document, None).as_bytes())?;
        document.sections.push(self.files(store));
        document.sections.push(wall(ran));
        Ok(document)
    }

    fn document(&self, drawn: Vec<selvedge_document::Plot>) -> Document {
        let mut what = selvedge_document::Table::of_values();
        what.value("scenario", self.scenario.file.file_name().unwrap_or_default().to_string_lossy());
        for (at, axis) in self.cells.axes.iter().enumerate() {
            what.value(axis, self.values(at));
        }
        what.value("cells", words::count(self.cells.cells.len() as u64));
        if !self.failed.is_empty() {
            what.value("failed", words::count(self.failed.len() as u64));
        }
        if self.missing > 0 {
            what.value("not finished", format!("{}; the same command goes on", words::count(self.missing as u64)));
        }
        let mut sections = vec![Section::new("Study").in_summary().table(what)];
        if !self.failed.is_empty() {
            sections.push(self.failures());
        }
        if !self.notes.is_empty() {
            sections
                .push(self.notes.iter().fold(Section::new("Notes").in_summary(), |section, note| section.text(note)));
        }
        if !self.claims.is_empty() {
            sections.push(verdicts(&self.claims));
        }
        sections.extend(self.drawn_and_table(drawn));
        Document { title: self.scenario.name.clone(), about: self.scenario.about.clone(), sections }
    }

    /// The plots and the table.
    fn drawn_and_table(&self, drawn: Vec<selvedge_document::Plot>) -> Vec<Section> {
        let mut sections = Vec::new();
        if !drawn.is_empty() {
            sections.push(Section::new("Plots").plots(drawn.iter().cloned()));
        }
        let heads: Vec<&str> = self.table.heads().map(String::as_str).collect();
        let mut results = selvedge_document::Table::with_heads(&heads);
        for (at, column) in results.columns.iter_mut().enumerate() {
            column.right = self.table.rows.iter().all(|row| row[at].is_number() || row[at].is_null());
        }
        self.table.rows.iter().for_each(|row| results.row(row.iter().map(shown)));
        let section = Section::new("Table").table(results.drawn_by(&drawn));
        let is_short = self.table.rows.len() <= ROWS_SHOWN && heads.len() <= COLUMNS_SHOWN;
        sections.push(if is_short && !self.table.rows.is_empty() { section.in_summary() } else { section });
        sections
    }

    /// The published figures, then the plots and the table. Names of plots begin with that of the scenario.
    pub fn published(&self) -> Vec<Section> {
        let (mut drawn, _) = plots(&self.table, &self.scenario.plots);
        // A page may have several studies.
        let name = self.scenario.file.file_stem().unwrap_or_default().to_string_lossy();
        drawn.iter_mut().for_each(|plot| plot.name = format!("{name}-{}", plot.name));
        std::iter::once(verdicts(&self.claims)).chain(self.drawn_and_table(drawn)).collect()
    }

    /// The values of an axis in words.
    fn values(&self, at: usize) -> String {
        let mut values: Vec<String> = Vec::new();
        for cell in &self.cells.cells {
            let word = table::words(&cell.values[at]);
            if !values.contains(&word) {
                values.push(word);
            }
        }
        const SHOWN: usize = 12;
        match values.len() {
            0..=SHOWN => values.join(", "),
            count => format!("{}, ... ({count} values)", values[..SHOWN].join(", ")),
        }
    }

    /// Failed cells by error, since a mistake fails many.
    fn failures(&self) -> Section {
        let mut by_error: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (number, failure) in &self.failed {
            by_error.entry(&failure.error).or_default().push(*number);
        }
        let mut all: Vec<_> = by_error.into_iter().collect();
        all.sort_by_key(|(_, cells)| cells[0]);
        let mut shown = selvedge_document::Table::with_heads(&[">cells", "the first", "error"]);
        for (error, cells) in all.iter().take(ERRORS_SHOWN) {
            shown.row([cells.len().to_string(), self.cells.words(&self.cells.cells[cells[0]]), (*error).to_owned()]);
        }
        let section = Section::new("Failed cells").in_summary().table(shown);
        match all.len().saturating_sub(ERRORS_SHOWN) {
            0 => section,
            more => section.text(format!("... and {more} other errors")),
        }
    }

    fn files(&self, store: &Store) -> Section {
        let mut files = selvedge_document::Table::of_values();
        let file = |name: &str| store.folder().join(name).display().to_string();
        files.value("table", format!("{}, {}", file("table.csv"), file("table.json")));
        files.value("page", file("page.html"));
        if let Some((number, _)) = self.failed.first() {
            let log: PathBuf = store.log(&self.cells.cells[*number].id);
            if log.is_file() {
                files.value("output of the first failed cell", log.display());
            }
        }
        Section::new("Files").in_summary().table(files)
    }

    /// The results as JSON. They are the same however the cells were run.
    pub fn json(&self) -> Value {
        let mut all = json!({
            "schema": SCHEMA,
            "name": self.scenario.name,
            "about": self.scenario.about,
            "cells": self.cells.cells.len(),
            "missing": self.missing,
            "failed": self.failed.iter().map(|(number, failure)| {
                let values = self.cells.axes.iter().cloned().zip(self.cells.cells[*number].values.iter().cloned());
                json!({
                    "values": values.collect::<serde_json::Map<_, _>>(),
                    "exit_code": failure.exit_code,
                    "error": failure.error,
                })
            }).collect::<Vec<_>>(),
        });
        if !self.claims.is_empty() {
            all["claims"] = json!(self.claims);
        }
        if let (Some(all), Value::Object(table)) = (all.as_object_mut(), self.table.json()) {
            all.extend(table);
        }
        all
    }
}

/// The published figures beside the predictions.
fn verdicts(claims: &[Claim]) -> Section {
    let mut shown = selvedge_document::Table::with_heads(&[
        "claim",
        "source",
        "subject",
        ">published",
        ">simulated",
        "unit",
        ">error",
        "verdict",
    ]);
    for claim in claims {
        shown.row([
            claim.id.to_string(),
            claim.source.to_string(),
            claim.text.clone(),
            claim.published.to_string(),
            claim.predicted.to_string(),
            claim.unit.to_string(),
            word(claim),
            claim.verdict.to_string(),
        ]);
    }
    let section = Section::new("Published figures").in_summary().table(shown);
    let notes = claims.iter().filter(|claim| !claim.note.is_empty());
    notes.fold(section, |section, claim| section.text(format!("{}: {}", claim.id, claim.note)))
}

/// A value for a reader: three digits of a fraction.
fn shown(value: &Value) -> String {
    match value.as_f64() {
        Some(number) if value.is_f64() => words::plain(number),
        _ => table::words(value),
    }
}

fn wall(ran: Ran) -> Section {
    let mut table = selvedge_document::Table::of_values();
    table.value("wall time", words::time_ns(ran.wall.as_secs_f64() * 1e9));
    table.value("wall cells run", words::count(ran.ran as u64));
    table.value("wall cells kept from before", words::count(ran.kept as u64));
    Section::new("Wall clock").in_summary().of_wall().table(table)
}
