// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge validate`: compares claims of the source documents with predictions of the simulator.
//!
//! The exit code is 0 even if predictions miss, since a miss is a result; it is 1 if an experiment does not run. The
//! output contains no times of this computer, so two runs print the same.

use std::fs;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressStyle};
use selvedge_sim::validate::{
    Document, HOLDS_PERCENT, NEAR_PERCENT, Plan, Results, Sensitivity, TIE_PERCENT, Verdict, markdown, run, word,
};
use serde_json::json;

/// Compare the claims of the source documents with the simulator's predictions.
///
/// Machines are set from figures of components, never from the predicted curves. The exit code is 0 even if predictions
/// miss.
#[derive(clap::Args)]
pub struct Args {
    /// Check only the claims of these documents
    #[arg(value_enum, value_name = "DOCUMENT")]
    documents: Vec<Only>,

    /// Check only the claims of these documents
    #[arg(long, value_enum, value_delimiter = ',', value_name = "DOCUMENT")]
    only: Vec<Only>,

    /// Write claims, predictions, verdicts and curves to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a plot of each curve into this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,

    /// Write the page validation.md into this directory, with its plots
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
/// Width of the text in columns without a terminal.
const WIDTH: u16 = 150;

pub fn main(args: Args) -> Result<ExitCode> {
    let only: Vec<Only> = args.documents.iter().chain(&args.only).copied().collect();
    let documents: Vec<Document> = Document::ALL.into_iter().filter(|document| wanted(&only, *document)).collect();
    let mut all = Vec::new();
    for document in documents {
        let bar = bar();
        let results = run(document, Plan { quick: args.quick }, &mut |what| bar.set_message(what.to_owned()))?;
        bar.finish_and_clear();
        print(&text(&results))?;
        all.push(results);
    }
    print(&summary(&all, args.quick))?;
    if let Some(file) = &args.json {
        let thresholds = json!({ "holds": HOLDS_PERCENT, "near": NEAR_PERCENT, "tie": TIE_PERCENT });
        let value = json!({ "quick": args.quick, "thresholds_percent": thresholds, "documents": all });
        write(file, &format!("{value:#}\n"))?;
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

fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn text(results: &Results) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
    if !io::stdout().is_terminal() {
        table.set_width(WIDTH);
    }
    table.set_header(["", "claim", "published", "simulated", "unit", "error", "verdict"]);
    for claim in &results.claims {
        table.add_row([
            claim.id.to_owned(),
            format!("{} ({})", claim.text, claim.source),
            claim.published.to_string(),
            claim.predicted.to_string(),
            claim.unit.to_owned(),
            word(claim),
            claim.verdict.to_string(),
        ]);
    }
    let mut text = format!("{}\n\n{}\n\n", results.document.title(), table.trim_fmt());
    for claim in results.claims.iter().filter(|claim| !claim.note.is_empty()) {
        text.push_str(&format!("  {}: {}\n", claim.id, claim.note));
    }
    for claim in results.claims.iter().filter(|claim| !claim.moved.is_empty()) {
        text.push_str(&format!("  {} with one figure halved or doubled:\n", claim.id));
        for Sensitivity { key, factor, predicted, holds } in &claim.moved {
            let verdict = if *holds { "holds" } else { "does not hold" };
            text.push_str(&format!("    {key} x {factor}: {predicted}, {verdict}\n"));
        }
    }
    for line in &results.left_out {
        text.push_str(&format!("  not compared: {line}\n"));
    }
    text.push('\n');
    text
}

fn summary(all: &[Results], quick: bool) -> String {
    let count =
        |verdict| all.iter().flat_map(|results| &results.claims).filter(|claim| claim.verdict == verdict).count();
    format!(
        "{} hold, {} near, {} miss, {} are inputs, {} are contradicted by their source, {} are only shown.{}\n\
         A number holds within {HOLDS_PERCENT} % of what was published, and is near within {NEAR_PERCENT} %; an order holds where it is \
         right everywhere, and is near where the only exceptions are ties (within {TIE_PERCENT} %).\n",
        count(Verdict::Holds),
        count(Verdict::Near),
        count(Verdict::Misses),
        count(Verdict::Input),
        count(Verdict::Contradicted),
        count(Verdict::NotComparable),
        if quick { " A quick run: fewer sizes and fewer nodes." } else { "" }
    )
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

/// Prints on standard output. A reader that closed it is no error.
fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("cannot write to standard output"),
        _ => Ok(()),
    }
}
