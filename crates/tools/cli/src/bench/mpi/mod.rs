// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge bench mpi`: measures each installed MPI over its own transport and over our provider, in one run.
//!
//! One program (`bench/mpi`), compiled with each MPI's own `mpicc`, runs on both sides. Only the environment differs;
//! ours is the output of `selvedge env`. The sides alternate, batch by batch, and the quickest of several turns counts
//! ([`super::record::quickest_runs`]). Two ranks are pinned to a core each. In addition: Debian's `fi_pingpong` over
//! our provider and over `shm`, and the two protocols of our provider (through a ring, or directly), forced one after
//! the other. Their curves cross at the best threshold for the provider.
//!
//! Names: `openmpi5:pingpong` is Open MPI 5 over our provider, `openmpi5_own:pingpong` over its own transport.
//!
//! Invariants: 1. figures go to standard output or a file, everything else to standard error. 2. Unmeasured cases are
//! reported. 3. A failure of ours makes the exit code 1, unless the MPI's own transport fails too.

pub mod batch;
mod compare;
mod fabric;
mod page;
pub mod scale;
pub mod side;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use selvedge_launcher::mpirun::Family;
use selvedge_terminal::{Progress, paragraph, print};

use self::batch::Batch;
use self::scale::MpiScale;
use self::side::{InstalledMpi, Provider, Transport};
use super::host::Host;
use super::process::Tree;
use super::record::quickest_runs;
use super::report;
use super::session_results::SessionResults;
use super::subject::{check_html, write_docs, write_html};
use crate::choice::{FAMILIES, one_of};
use crate::json::{self, STANDARD};
use crate::sim::text;

/// Measure the installed MPIs over Selvedge beside their own transports.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this MPI; may be given several times [default: all that are installed]
    #[arg(long, value_parser = one_of(FAMILIES), value_name = "MPI")]
    mpi: Vec<Family>,
    /// Only these measurements: latency, flow, matching, one-sided, overlap, collectives, protocols, fabric [default: all]
    #[arg(value_name = "WHAT", value_parser = batch::names())]
    what: Vec<String>,
    /// Shorter runs, one turn each
    #[arg(long)]
    quick: bool,
    /// Only check that everything runs; the figures mean nothing
    #[arg(long, hide = true, conflicts_with = "quick")]
    smoke: bool,
    /// Write the records as one JSON array to FILE; without FILE, to standard output in place of the table
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = STANDARD)]
    json: Option<PathBuf>,
    /// Also write DIR/benchmarks-mpi.md and its plots
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// Also write an HTML page with tables and plots, as one file for any browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Use another libfabric provider instead of ours, such as tcp
    #[arg(long, value_name = "NAME", conflicts_with = "docs")]
    provider: Option<String>,
}

pub fn main(args: Args) -> Result<ExitCode> {
    check_html(args.html.as_deref())?;
    let scale = match (args.smoke, args.quick) {
        (true, _) => MpiScale::SMOKE,
        (_, true) => MpiScale::QUICK,
        _ => MpiScale::FULL,
    };
    let tree = Tree::find()?;
    let provider = Provider::find(args.provider.as_deref(), tree.prefix())?;
    let mut session = MpiSession { host: Host::here(), scale, wanted: args.what, results: SessionResults::default() };
    let stock = installed(&mut session.results, &args.mpi, tree.prefix());
    if stock.is_empty() {
        bail!(
            "no MPI to measure; run make peers to install some, or set SELVEDGE_OPENMPI or SELVEDGE_MPICH to a prefix"
        );
    }
    session.run(&stock, &provider);

    let measurements = quickest_runs(std::mem::take(&mut session.results.done));
    let records = compare::records(&measurements);
    let crossings = compare::crossings(&measurements);
    if !json::replaces_tables(args.json.as_deref()) {
        let crossings: String = crossings.iter().map(|line| paragraph(line, 0)).collect();
        let table = text::table(&report::table(&records), 0);
        print(&format!("{}\n{table}{crossings}", paragraph(&session.host.describe(), 0)))?;
    }
    if let Some(file) = &args.json {
        json::write(file, &records)?;
    }
    let page = page::Page {
        host: &session.host,
        stock: stock.iter().map(|stock| stock.version.clone()).collect(),
        measurements: &measurements,
        records: &records,
        crossings: &crossings,
        notes: &session.results.notes,
        quick: args.quick,
    };
    if let Some(directory) = &args.docs {
        write_docs(&page.document(), directory, page::FILE)?;
    }
    if let Some(file) = &args.html {
        write_html(&page.document(), file)?;
    }
    Ok(if session.results.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

struct MpiSession {
    host: Host,
    scale: MpiScale,
    wanted: Vec<String>,
    results: SessionResults,
}

/// Returns the installed MPIs for which the program compiles.
pub fn installed(results: &mut SessionResults, wanted: &[Family], prefix: &std::path::Path) -> Vec<InstalledMpi> {
    let mut out = Vec::new();
    for family in [Family::Openmpi, Family::Mpich] {
        if !wanted.is_empty() && !wanted.contains(&family) {
            continue;
        }
        for found in InstalledMpi::find(family, prefix) {
            match found {
                Ok(stock) => out.push(stock),
                Err(error) => results.note(format!("{error:#}")),
            }
        }
    }
    out
}

impl MpiSession {
    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name)
    }

    fn run(&mut self, stock: &[InstalledMpi], provider: &Provider) {
        let pinned = self.host.cores.len() >= 2;
        if !pinned {
            self.results.note("only one core: nothing can be pinned, and the figures are not reliable".into());
        }
        let batches: Vec<Batch> = batch::ALL.iter().filter(|batch| self.wants(batch.name)).cloned().collect();
        let protocols = self.wants(batch::PROTOCOLS.name) && provider.is_ours();
        let fabric = self.wants(batch::FABRIC);
        let steps = (stock.len() * batches.len() * 2 + usize::from(protocols) * 2 + usize::from(fabric) * 2)
            * self.scale.turns as usize;
        let progress = Progress::steps(steps);
        for _ in 0..self.scale.turns {
            for stock in stock {
                for batch in &batches {
                    for side in [Transport::Own, Transport::Over(provider)] {
                        self.turn(&progress, stock, &side, batch, pinned);
                    }
                }
            }
            // The provider's settings force a protocol, so any MPI can be used.
            for side in Transport::protocols(provider).into_iter().filter(|_| protocols) {
                self.turn(&progress, &stock[0], &side, &batch::PROTOCOLS, pinned);
            }
            for provider in fabric::providers(provider).into_iter().filter(|_| fabric) {
                let name = format!("fi_pingpong:{}", provider.name());
                let (scale, cores) = (self.scale, self.host.cores.clone());
                let measured = || fabric::measure(provider, &scale, &cores);
                let ours = !provider.is_shm();
                self.results.measure(&progress, name, ours, measured);
            }
        }
        drop(progress);
    }

    fn turn(&mut self, progress: &Progress, stock: &InstalledMpi, side: &Transport, batch: &Batch, pinned: bool) {
        let name = format!("{} {}", side.prefix(stock), batch.what.join(", "));
        let scale = self.scale;
        // A measurement that also fails over the MPI's own transport is no failure of ours.
        let own = format!("{} {}", Transport::Own.prefix(stock), batch.what.join(", "));
        let ours = !matches!(side, Transport::Own) && !self.results.has_failed(&own);
        self.results.measure(progress, name, ours, || stock.measure(side, batch, &scale, pinned));
    }
}
