// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge validate`: compares claims of the source documents with predictions of the simulator.
//!
//! Documents are checked by built-in programs; experiments ([`experiments`]) by unmodified ones, as studies.
//!
//! The exit code is 0 even if predictions miss, since a miss is a result; it is 1 if an experiment does not run. The
//! output of documents contains no times of this computer, so two runs print the same.

mod experiments;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use selvedge_document::Block;
use selvedge_sim::validate::{
    Document, HOLDS_PERCENT, NEAR_PERCENT, Plan, Results, Sensitivity, TIE_PERCENT, Verdict, markdown, run, word,
};
use selvedge_terminal::{Cell, Progress, Table, Tone, paragraph, print};
use serde_json::json;

use crate::json::STANDARD;
use crate::sim::Usage;
use crate::study;

/// Compare the claims of the source documents with the simulator's predictions.
///
/// Machines are set from figures of components, never from the predicted curves. An experiment runs unmodified programs,
/// as `selvedge study` does, and keeps its results. The exit code is 0 even if predictions miss.
#[derive(clap::Args)]
pub struct Args {
    /// Check only the claims of these documents (seastar, pac, counting, extoll, sharp), or run these experiments
    #[arg(value_name = "DOCUMENT|EXPERIMENT")]
    names: Vec<String>,

    /// List the experiments that come with Selvedge
    #[arg(long, conflicts_with_all = ["names", "only", "json", "plots", "docs", "quick"])]
    list: bool,

    /// Write the experiments' published figures, predictions and plots as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Keep the results of experiments in this directory, and go on with those that are there [default: the current one]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,

    /// Check only the claims of these documents
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DOCUMENT")]
    only: Vec<Only>,

    /// Write claims, predictions, verdicts and curves as JSON to FILE; without FILE, to standard output in place of the
    /// tables
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD)]
    json: Option<PathBuf>,

    /// Write a plot of each curve into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Write the page validation.md into this directory, with its plots; of experiments, experiments.md
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,

    /// Fewer sizes and fewer nodes
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    /// Portals on the host and on the NIC of Red Storm (seed 003)
    Seastar,
    /// An engine for Portals against software (seed 000)
    Pac,
    /// Counting puts on QDR InfiniBand (seed 004)
    Counting,
    /// EXTOLL, its prototype and its successors, and ATOLL (seed 002)
    Extoll,
    /// Reduction in the switches, Switch-IB 2 (seed 001)
    Sharp,
}

const PLOTS: &str = "validation";

pub fn main(args: Args) -> Result<ExitCode> {
    match dispatch(&args) {
        Err(error) if error.is::<Usage>() => {
            eprintln!("selvedge validate: {error:#}");
            Ok(ExitCode::from(2))
        }
        done => done,
    }
}

fn dispatch(args: &Args) -> Result<ExitCode> {
    if args.list {
        return list();
    }
    let (only, files) = chosen(args)?;
    if !files.is_empty() {
        return run_experiments(args, &files);
    }
    let documents: Vec<Document> = Document::ALL.into_iter().filter(|document| wanted(&only, *document)).collect();
    let in_place = crate::json::replaces_tables(args.json.as_deref());
    let mut all = Vec::new();
    for document in documents {
        let progress = Progress::work();
        let results = run(document, Plan { quick: args.quick }, &mut |what| progress.say(what))?;
        drop(progress);
        if !in_place {
            print(&text(&results))?;
        }
        all.push(results);
    }
    if !in_place {
        print(&summary(&all, args.quick))?;
    }
    if let Some(file) = &args.json {
        let thresholds = json!({ "holds": HOLDS_PERCENT, "near": NEAR_PERCENT, "tie": TIE_PERCENT });
        let value = json!({ "quick": args.quick, "thresholds_percent": thresholds, "documents": all });
        crate::json::write(file, &value)?;
    }
    if let Some(folder) = &args.plots {
        draw(&all, folder)?;
    }
    if let Some(folder) = &args.docs {
        draw(&all, &folder.join(PLOTS))?;
        write(&folder.join("validation.md"), &markdown(&all, args.quick, PLOTS))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The documents and the scenarios that the command line names.
fn chosen(args: &Args) -> Result<(Vec<Only>, Vec<PathBuf>)> {
    let documents: Vec<String> = Only::value_variants()
        .iter()
        .filter_map(|only| Some(only.to_possible_value()?.get_name().to_owned()))
        .collect();
    let (mut only, mut files) = (args.only.clone(), Vec::new());
    for name in &args.names {
        match Only::from_str(name, false) {
            Ok(document) => only.push(document),
            Err(_) => files.push(experiments::find(name, &documents)?),
        }
    }
    if !files.is_empty() && (!only.is_empty() || args.plots.is_some() || args.quick) {
        let why =
            "experiments run without documents and without --plots and --quick; their folders have page and plots";
        return Err(Usage(why.to_owned()).into());
    }
    if args.html.is_some() && files.is_empty() {
        return Err(Usage("--html is for experiments; --docs writes the page of documents".to_owned()).into());
    }
    if args.json.is_some() && files.len() > 1 {
        return Err(Usage("--json takes one experiment; the folder of each has its table.json".to_owned()).into());
    }
    Ok((only, files))
}

/// Runs experiments, each to its end, and writes their page. Returns the greatest exit code.
fn run_experiments(args: &Args, files: &[PathBuf]) -> Result<ExitCode> {
    let mut all = Vec::new();
    for file in files {
        let folder = experiments::results(file, args.folder.as_deref());
        all.push(study::run_scenario(file, &folder, args.json.as_deref())?);
    }
    let document = experiments::page(&all);
    if let Some(folder) = &args.docs {
        draw_plots(&document, folder)?;
        write(&folder.join("experiments.md"), &selvedge_document::markdown::page(&document))?;
    }
    if let Some(file) = &args.html {
        write(file, &selvedge_document::html::page(&document, None))?;
    }
    Ok(ExitCode::from(all.iter().map(|experiment| experiment.exit_code).max().unwrap_or(0)))
}

fn draw_plots(document: &selvedge_document::Document, folder: &Path) -> Result<()> {
    let plots = document.sections.iter().flat_map(|section| &section.blocks).filter_map(|block| match block {
        Block::Plot(plot) => Some(plot),
        _ => None,
    });
    fs::create_dir_all(folder).with_context(|| format!("cannot make the directory {}", folder.display()))?;
    for plot in plots {
        write(&folder.join(format!("{}.svg", plot.name)), &plot.svg())?;
    }
    Ok(())
}

fn list() -> Result<ExitCode> {
    let mut table = Table::new(&["experiment", "file"]);
    for (name, file) in experiments::known() {
        table.row([name, file.display().to_string()]);
    }
    print(&table.text())?;
    Ok(ExitCode::SUCCESS)
}

fn wanted(only: &[Only], document: Document) -> bool {
    only.is_empty()
        || only.contains(&match document {
            Document::Seastar => Only::Seastar,
            Document::Pac => Only::Pac,
            Document::Counting => Only::Counting,
            Document::Extoll => Only::Extoll,
            Document::Sharp => Only::Sharp,
        })
}

fn text(results: &Results) -> String {
    let mut table = Table::new(&["", "claim", "published", "simulated", "unit", "error", "verdict"]);
    for claim in &results.claims {
        table.row([
            claim.id.as_ref().into(),
            format!("{} ({})", claim.text, claim.source).into(),
            claim.published.to_string().into(),
            claim.predicted.to_string().into(),
            claim.unit.as_ref().into(),
            word(claim).into(),
            shown(claim.verdict),
        ]);
    }
    let mut text = format!("{}\n\n{}\n", results.document.title(), table.text());
    for claim in results.claims.iter().filter(|claim| !claim.note.is_empty()) {
        text.push_str(&paragraph(&format!("{}: {}", claim.id, claim.note), 2));
    }
    for claim in results.claims.iter().filter(|claim| !claim.moved.is_empty()) {
        text.push_str(&paragraph(&format!("{} with one figure halved or doubled:", claim.id), 2));
        for Sensitivity { key, factor, predicted, holds } in &claim.moved {
            let verdict = if *holds { "holds" } else { "does not hold" };
            text.push_str(&paragraph(&format!("{key} x {factor}: {predicted}, {verdict}"), 4));
        }
    }
    for line in &results.left_out {
        text.push_str(&paragraph(&format!("not compared: {line}"), 2));
    }
    text.push('\n');
    text
}

fn summary(all: &[Results], quick: bool) -> String {
    let count =
        |verdict| all.iter().flat_map(|results| &results.claims).filter(|claim| claim.verdict == verdict).count();
    let counts = format!(
        "{} hold, {} near, {} miss, {} cannot be told, {} are inputs, {} are contradicted by their source, {} are only shown.{}",
        count(Verdict::Holds),
        count(Verdict::Near),
        count(Verdict::Misses),
        count(Verdict::CannotTell),
        count(Verdict::Input),
        count(Verdict::Contradicted),
        count(Verdict::NotComparable),
        if quick { " A quick run: fewer sizes and fewer nodes." } else { "" }
    );
    let rule = format!(
        "A number holds within {HOLDS_PERCENT} % of what was published, and is near within {NEAR_PERCENT} %; an order holds where it is \
         right everywhere, and is near where the only exceptions are ties (within {TIE_PERCENT} %)."
    );
    paragraph(&counts, 0) + &paragraph(&rule, 0)
}

/// The verdict with its colour.
fn shown(verdict: Verdict) -> Cell {
    let text = verdict.to_string();
    match verdict {
        Verdict::Holds => Cell::toned(text, Tone::Good),
        Verdict::Near => Cell::toned(text, Tone::Doubtful),
        Verdict::Misses => Cell::toned(text, Tone::Bad),
        Verdict::Input | Verdict::Contradicted | Verdict::CannotTell | Verdict::NotComparable => Cell::new(text),
    }
}

fn draw(all: &[Results], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the directory {}", folder.display()))?;
    for curve in all.iter().flat_map(|results| &results.curves) {
        write(&folder.join(format!("{}.svg", curve.name)), &curve.plot().svg())?;
    }
    Ok(())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}
