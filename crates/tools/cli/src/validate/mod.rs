// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge validate`: compares claims of the source documents with predictions of the simulator.
//!
//! The exit code is 0 even if predictions miss, since a miss is a result; it is 1 if an experiment does not run. The
//! output contains no times of this computer, so two runs print the same.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::ValueEnum;
use selvedge_sim::validate::{
    Document, HOLDS_PERCENT, NEAR_PERCENT, Plan, Results, Sensitivity, TIE_PERCENT, Verdict, markdown, run, word,
};
use selvedge_terminal::{Cell, Progress, Table, Tone, paragraph, print};
use serde_json::json;

use crate::json::STANDARD;

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

    /// Write claims, predictions, verdicts and curves as JSON to FILE; without FILE, to standard output in place of the
    /// tables
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD)]
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

pub fn main(args: Args) -> Result<ExitCode> {
    let only: Vec<Only> = args.documents.iter().chain(&args.only).copied().collect();
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
            claim.id.into(),
            format!("{} ({})", claim.text, claim.source).into(),
            claim.published.to_string().into(),
            claim.predicted.to_string().into(),
            claim.unit.into(),
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
        "{} hold, {} near, {} miss, {} are inputs, {} are contradicted by their source, {} are only shown.{}",
        count(Verdict::Holds),
        count(Verdict::Near),
        count(Verdict::Misses),
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
        Verdict::Input | Verdict::Contradicted | Verdict::NotComparable => Cell::new(text),
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
