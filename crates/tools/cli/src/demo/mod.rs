// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge demo`: runs examples, measures what communication costs here beside the bare hardware and the installed
//! peers, runs an unmodified program on a simulated machine, and writes all of it as one HTML page.
//!
//! | file | contents |
//! |---|---|
//! | [`examples`] | the examples, and what they print |
//! | [`page`] | the page as a document, and the table for the terminal |
//!
//! It has no measurement, model or drawing of its own: figures are those of `selvedge bench` ([`bench::measure`]), the
//! simulation is that of `selvedge sim` ([`sim::report`]).
//!
//! Invariants: 1. the last line of standard output is the path of the page, also when something has failed. 2. A wrong
//! byte in an example, a failed measurement of ours and a failed simulation make the exit code 1, and the page names
//! them. 3. Everything that is needed is looked for before anything runs.

mod examples;
mod page;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use selvedge_document::html;
use selvedge_terminal::{paragraph, print};

use crate::bench::process::Tree;
use crate::bench::{self, PeerChoice};
use crate::sim::{self, text};

/// Run examples, measure, simulate, and write an HTML page about it.
///
/// Takes about a minute. The examples are in the tree that `make build` makes; an install leaves them out.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The page, one file for any browser.
    #[arg(long, value_name = "FILE", default_value = "selvedge-demo.html")]
    html: PathBuf,
    /// Whether to measure UCX, Open MPI and MPICH too.
    #[arg(long, value_enum, default_value_t = PeerChoice::Auto)]
    peers: PeerChoice,
    /// Only check that everything runs; the figures mean nothing.
    #[arg(long, hide = true)]
    smoke: bool,
}

/// The cases that are measured. Those of absent peers are left out, and listed on the page.
const CASES: [&str; 14] = [
    "raw_flag",
    "counting_put",
    "put_flag",
    "matched_put_event",
    "get",
    "fetch_atomic",
    "message_rate",
    "bandwidth_shared",
    "bandwidth_cma",
    "ucx",
    "openmpi:pingpong",
    "openmpi:bandwidth",
    "mpich:pingpong",
    "mpich:bandwidth",
];

pub fn main(args: Args) -> Result<ExitCode> {
    sim::check_file("--html", &args.html)?;
    let tree = Tree::find()?;
    let examples = examples::find(&tree)?;

    say(&format!("Selvedge {} on {}", env!("CARGO_PKG_VERSION"), bench::host_words()))?;
    // The first, because the programs that run later are read by threads, and this needs a process without.
    let simulated = examples::simulate(&tree)?;
    let mut ran = Vec::new();
    for example in &examples {
        let run = example.run(&tree, args.smoke);
        let end = if run.failure.is_none() { "right" } else { "FAILED" };
        say(&format!("  {end:6}  {}: {}", example.of.program, example.of.title))?;
        ran.push(run);
    }
    say(&simulated.words())?;
    let cases = CASES.map(str::to_owned);
    let measured = bench::measure(&cases, args.peers, args.smoke)?;
    say("8 bytes: half a round trip; get and fetch_atomic: the whole operation")?;
    print(&text::table(&page::of_eight_bytes(&measured.records), 2))?;

    let page = page::Page { examples: &ran, measured, simulated };
    let failures = page.failures();
    failures.iter().for_each(|failure| eprintln!("selvedge demo: {failure}"));
    let (document, drawn) = page.document();
    std::fs::write(&args.html, html::page(&document, drawn.as_ref()))
        .with_context(|| format!("cannot write {}", args.html.display()))?;
    say("The page has plots of latency and bandwidth, the outputs of the examples, and the simulated machine:")?;
    let path = args.html.canonicalize().unwrap_or(args.html);
    print(&format!("{}\n", path.display()))?;
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn say(line: &str) -> Result<()> {
    print(&paragraph(line, 0)).context("cannot write to standard output")
}
