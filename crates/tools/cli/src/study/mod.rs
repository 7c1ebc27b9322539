// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge study`: runs the cells of a scenario on all cores, or as a job array of Slurm, and keeps their results.
//!
//! | file | contents |
//! |---|---|
//! | [`scenario`], [`options`], [`sweep`] | the file of a scenario; its keys, which are options of `selvedge sim`; swept values |
//! | [`cells`], [`identity`] | the cells of a scenario, and the hash that names each |
//! | [`store`] | the folder with the results of finished cells |
//! | [`pool`], [`execute`] | runs cells on cores, each in a process of its own |
//! | [`slurm`] | runs cells as a job array |
//! | [`table`], [`plots`], [`report`] | results |
//! | [`figures`], [`claims`] | figures that programs print; published figures and the verdicts on them |
//! | [`blocking`] | the study of `selvedge sim --study` |
//!
//! Exit code: 0 when all cells finished; 1 when cells failed, or the command itself; 2 for an invalid scenario; 130 after
//! Ctrl-C, with finished cells kept.

pub mod blocking;
mod cells;
mod claims;
mod execute;
mod figures;
mod identity;
mod options;
mod plots;
mod pool;
mod report;
mod scenario;
mod slurm;
mod store;
mod sweep;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use selvedge_document::{Document, Section, Table, words};
use selvedge_os::process::cores_allowed;
use selvedge_sim::validate::Claim;
use selvedge_terminal::Progress;
use serde_json::json;

use crate::json::{STANDARD, replaces_tables};
use crate::sim::{Interrupt, Usage, text};
use cells::{Cell, Cells};
use options::Options;
use pool::Ended;
use report::{Ran, Results};
use scenario::Scenario;
use store::{Lock, State, Store};

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_INTERRUPTED: u8 = 130;
/// Ending of the folder of a study.
const ENDING: &str = "study";

/// Run a scenario: every combination of its machines, programs or traffic, faults and seeds
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// The scenario, a TOML file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Folder of the results [default: FILE with the ending .study]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Cells that run at once [default: one on each core of this process]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    jobs: Option<u32>,

    /// List the cells and whether each is finished, and run nothing; with --slurm also print the script
    #[arg(long, visible_alias = "list")]
    dry_run: bool,

    /// Run the cells as a job array of Slurm, wait for it, and collect the results. The folder must be on a file system
    /// that all nodes share
    #[arg(long)]
    slurm: bool,

    /// An option for sbatch, as in --sbatch=--partition=long; may be given several times
    #[arg(long, value_name = "OPTION", requires = "slurm", allow_hyphen_values = true)]
    sbatch: Vec<String>,

    /// Run the cells of one task of a job array; FILE is its plan
    #[arg(long, value_name = "TASK", hide = true, conflicts_with_all = ["slurm", "dry_run", "folder"])]
    task: Option<usize>,

    /// Write the table as JSON to FILE; without FILE, to standard output in place of the tables
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD)]
    json: Option<PathBuf>,

    /// Print no table and no progress
    #[arg(short, long)]
    quiet: bool,

    /// Print the whole table
    #[arg(short, long, conflicts_with = "quiet")]
    verbose: bool,
}

const AFTER_HELP: &str = "\
Finished cells are kept in the folder, with a table (CSV, JSON), plots and a page. After a stop the same command runs the cells that are \
missing, and those that failed. A cell runs anew when its settings, a file that they name, or this command has changed.

Exit code: 0 when all cells finished, 1 when some failed, 2 for an invalid scenario, 130 after Ctrl-C.";

pub fn main(args: Args) -> Result<ExitCode> {
    match dispatch(&args) {
        Err(error) if error.is::<Usage>() => {
            eprintln!("selvedge study: {error:#}");
            Ok(ExitCode::from(EXIT_USAGE))
        }
        done => Ok(ExitCode::from(done?)),
    }
}

/// A scenario that has run to its end.
pub struct Experiment {
    /// Of the command `selvedge study`.
    pub exit_code: u8,
    pub name: String,
    pub about: String,
    pub claims: Vec<Claim>,
    /// The published figures beside the predictions, then the table of results and its plots.
    pub sections: Vec<Section>,
}

/// Runs a scenario, as the command does with its file and folder.
pub fn run_scenario(file: &Path, folder: &Path, json: Option<&Path>) -> Result<Experiment> {
    let args = Args {
        file: file.to_owned(),
        folder: Some(folder.to_owned()),
        jobs: None,
        dry_run: false,
        slurm: false,
        sbatch: Vec::new(),
        task: None,
        json: json.map(Path::to_owned),
        quiet: false,
        verbose: false,
    };
    let options = Options::new();
    let scenario = Scenario::read(file, &options)?;
    let (cells, store) = cells_of(&args, &scenario, &options)?;
    let (exit_code, results) = perform(&args, &scenario, &cells, &store)?;
    let sections = results.published();
    Ok(Experiment {
        exit_code,
        name: scenario.name.clone(),
        about: scenario.about.clone(),
        claims: results.claims,
        sections,
    })
}

fn dispatch(args: &Args) -> Result<u8> {
    if let Some(task) = args.task {
        return slurm::run_task(&args.file, task, jobs_of(args));
    }
    let options = Options::new();
    let scenario = Scenario::read(&args.file, &options)?;
    let (cells, store) = cells_of(args, &scenario, &options)?;
    if args.dry_run {
        return list(args, &scenario, &cells, &store);
    }
    Ok(perform(args, &scenario, &cells, &store)?.0)
}

fn jobs_of(args: &Args) -> usize {
    args.jobs.map_or_else(cores_allowed, |jobs| jobs as usize)
}

/// The cells of a scenario, and where their results are.
fn cells_of(args: &Args, scenario: &Scenario, options: &Options) -> Result<(Cells, Store)> {
    let folder = args.folder.clone().unwrap_or_else(|| args.file.with_extension(ENDING));
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    Ok((Cells::of(scenario, &folder, options)?, Store::new(&folder)))
}

/// Runs the cells that have no result, writes the results and shows them. Returns also the exit code.
fn perform<'s>(args: &Args, scenario: &'s Scenario, cells: &'s Cells, store: &Store) -> Result<(u8, Results<'s>)> {
    let interrupt = Interrupt::listen()?;
    let jobs = jobs_of(args);
    let study = Study { folder: scenario.folder(), store, interrupt: &interrupt, jobs, quiet: args.quiet };
    let (began, before) = (Instant::now(), study.finished(&cells.cells));
    if args.slurm {
        slurm::run(&study, cells, &args.sbatch)?;
    } else {
        slurm::refuse_beside_array(store)?;
        let _lock = study.prepare(cells)?;
        study.run(&study.open(&cells.cells), &|cell| cells.words(cell))?;
    }
    let mut results = Results::collect(scenario, cells, store);
    let ran = study.finished(&cells.cells).saturating_sub(before);
    let document = results.write(store, Ran { ran, kept: before, wall: began.elapsed() })?;
    results.notes.iter().for_each(|note| eprintln!("selvedge study: {}: {note}", scenario.file.display()));
    if let Some(file) = &args.json {
        crate::json::write(file, &results.json())?;
    }
    show(args, &document)?;
    let exit_code = match (interrupt.is_set(), results.failed.len(), results.missing) {
        (true, ..) => EXIT_INTERRUPTED,
        (false, 0, 0) => 0,
        _ => EXIT_FAILED,
    };
    Ok((exit_code, results))
}

/// Runs cells and keeps them.
struct Study<'a> {
    /// Folder of the scenario, in which cells run.
    folder: PathBuf,
    store: &'a Store,
    interrupt: &'a Interrupt,
    jobs: usize,
    quiet: bool,
}

impl Study<'_> {
    /// Makes the folder ready for cells. No other process runs cells while the lock lives.
    fn prepare(&self, cells: &Cells) -> Result<Lock> {
        let lock = self.store.lock(false)?;
        self.store.clean();
        if let Some(text) = &cells.machine {
            self.store.write(&self.store.folder().join(store::MACHINE), text.as_bytes())?;
        }
        Ok(lock)
    }

    /// Cells without a result, each id once.
    fn open<'c>(&self, cells: &'c [Cell]) -> Vec<&'c Cell> {
        let mut seen = BTreeSet::new();
        let mut is_first = |cell: &'c Cell| seen.insert(&cell.id);
        let is_open = |cell: &Cell| self.store.state(&cell.id) != State::Finished;
        cells.iter().filter(|cell| is_first(cell) && is_open(cell)).collect()
    }

    /// Number of ids with a result.
    fn finished(&self, cells: &[Cell]) -> usize {
        let ids: BTreeSet<&String> = cells.iter().map(|cell| &cell.id).collect();
        ids.into_iter().filter(|id| self.store.state(id) == State::Finished).count()
    }

    /// Runs cells on cores. Returns the number of those that failed.
    fn run(&self, open: &[&Cell], words: &dyn Fn(&Cell) -> String) -> Result<usize> {
        let (mut line, mut errors) = (Progress::polled(self.quiet), BTreeSet::new());
        let (mut done, mut failed) = (0, 0);
        let run = |cell: &Cell| execute::run(cell, self.store, &self.folder, self.interrupt);
        pool::run_all(open, self.jobs, &run, &mut |ended| {
            done += usize::from(ended.is_some());
            if let Some((number, Ended::Failed(failure))) = ended {
                failed += 1;
                // A mistake fails many cells; the table has them all.
                if errors.insert(failure.error.clone()) {
                    line.note(&format!("selvedge study: {}: {}", words(open[number]), failure.error));
                }
            }
            line.update(|seconds| progress(done, failed, open.len(), seconds));
        })?;
        Ok(failed)
    }
}

/// Progress in words, with the time that is left if further cells take as long as those before.
fn progress(done: usize, failed: usize, all: usize, seconds: f64) -> String {
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let left = match done {
        0 => String::new(),
        done => format!("; about {} left", words::time_ns(seconds * 1e9 / done as f64 * (all - done) as f64)),
    };
    format!("{done} of {all} cells{failed}{left}")
}

/// Lists the cells.
fn list(args: &Args, scenario: &Scenario, cells: &Cells, store: &Store) -> Result<u8> {
    let heads = [">cell"].into_iter().chain(cells.axes.iter().map(String::as_str)).chain(["state", "id"]);
    let mut shown = Table::with_heads(&heads.collect::<Vec<_>>());
    let mut all = Vec::new();
    for (number, cell) in cells.cells.iter().enumerate() {
        let (state, error) = match store.state(&cell.id) {
            State::Finished => ("finished", None),
            State::Failed(failure) => ("failed", Some(failure.error)),
            State::Open => ("to run", None),
        };
        let values = cell.values.iter().map(table::words);
        let row = [number.to_string()].into_iter().chain(values).chain([state.to_owned(), cell.id.clone()]);
        shown.row(row);
        let values: serde_json::Map<_, _> = cells.axes.iter().cloned().zip(cell.values.iter().cloned()).collect();
        let command: Vec<&String> = cell.options.iter().chain(&cell.command).collect();
        all.push(json!({ "id": cell.id, "values": values, "state": state, "error": error, "sim": command }));
    }
    let sections = vec![Section::new("Cells").in_summary().table(shown)];
    let document = Document { title: scenario.name.clone(), about: scenario.about.clone(), sections };
    if let Some(file) = &args.json {
        crate::json::write(file, &json!({ "schema": "selvedge.study.cells/1", "cells": all }))?;
    }
    show(args, &document)?;
    if args.slurm {
        selvedge_terminal::print(&format!("\n{}", slurm::script_of(cells, store, &args.sbatch)?))?;
    }
    Ok(0)
}

/// Prints a document, unless the command line wants it elsewhere.
fn show(args: &Args, document: &Document) -> Result<()> {
    if args.quiet || replaces_tables(args.json.as_deref()) {
        return Ok(());
    }
    Ok(selvedge_terminal::print(&text::text(document, args.verbose))?)
}
