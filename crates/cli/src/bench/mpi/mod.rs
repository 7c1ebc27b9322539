// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge bench mpi`: each installed MPI on its own path against the same MPI over our libfabric provider, in one run.
//!
//! One program (`bench/mpi`), compiled with each MPI's own `mpicc`, runs on both sides; only the environment differs, and ours is
//! what `selvedge env` prints. The sides take turns, batch by batch, and of several turns the quickest one counts
//! ([`super::record::quickest_runs`]). Two ranks are pinned to a core each. Beside them: Debian's `fi_pingpong` over our provider and
//! over `shm`, and the two ways a message can go through our provider, forced one after the other, whose curves cross at the
//! threshold that the provider should have.
//!
//! Names: `openmpi5:pingpong` is Open MPI 5 over our provider, `openmpi5_own:pingpong` Open MPI 5 as it comes.
//!
//! Invariants: 1. figures go to standard output or a file, everything else to standard error. 2. What could not be measured is
//! said. 3. A measurement of ours that fails makes the exit code 1, unless it fails on
//! the MPI's own path too.

mod batch;
mod compare;
mod fabric;
mod page;
mod side;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use self::batch::Batch;
use self::side::{Provider, Side, Stock};
use super::host::Host;
use super::process::Tree;
use super::record::{Measurement, quickest_runs};
use super::report;
use crate::mpirun::Family;

/// Measure the installed MPIs over Selvedge beside their own paths.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this MPI; may be given again [default: all that are installed]
    #[arg(long, value_enum, value_name = "MPI")]
    mpi: Vec<Family>,
    /// Only these: latency, flow, matching, one-sided, overlap, collectives, protocols, fabric [default: all]
    #[arg(value_name = "WHAT", value_parser = batch::names())]
    what: Vec<String>,
    /// Shorter runs, one turn each
    #[arg(long)]
    quick: bool,
    /// Only see that everything runs; the figures mean nothing
    #[arg(long, hide = true, conflicts_with = "quick")]
    smoke: bool,
    /// Also write the records to FILE, as one JSON array
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write DIR/benchmarks-mpi.md and its plots
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// Another libfabric provider in the place of ours, such as tcp
    #[arg(long, value_name = "NAME", conflicts_with = "docs")]
    provider: Option<String>,
}

/// How long.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    /// For one size or depth of one measurement, in all turns together.
    pub budget_ms: f64,
    pub turns: u32,
    /// Only the first of the sizes and depths, and few ranks.
    pub tiny: bool,
}

impl Scale {
    const FULL: Scale = Scale { budget_ms: 500.0, turns: 5, tiny: false };
    const QUICK: Scale = Scale { budget_ms: 80.0, turns: 1, tiny: false };
    const SMOKE: Scale = Scale { budget_ms: 2.0, turns: 1, tiny: true };
}

pub fn main(args: Args) -> Result<ExitCode> {
    let scale = match (args.smoke, args.quick) {
        (true, _) => Scale::SMOKE,
        (_, true) => Scale::QUICK,
        _ => Scale::FULL,
    };
    let tree = Tree::find()?;
    let provider = Provider::find(args.provider.as_deref(), tree.prefix())?;
    let mut session =
        Session { host: Host::here(), scale, wanted: args.what, done: Vec::new(), notes: Vec::new(), failed: false };
    let stock = session.installed(&args.mpi, tree.prefix());
    if stock.is_empty() {
        bail!("no MPI to measure: `make peers` installs some, SELVEDGE_OPENMPI and SELVEDGE_MPICH name prefixes");
    }
    session.run(&stock, &provider);

    let measurements = quickest_runs(std::mem::take(&mut session.done));
    let records = compare::records(&measurements);
    println!("{}\n{}", session.host.describe(), report::table(&records));
    let crossings = compare::crossings(&measurements);
    crossings.iter().for_each(|line| println!("{line}"));
    if let Some(path) = &args.json {
        std::fs::write(path, report::json(&records)? + "\n")
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    if let Some(directory) = &args.docs {
        let page = page::Page {
            host: &session.host,
            stock: stock.iter().map(|stock| stock.version.clone()).collect(),
            measurements: &measurements,
            records: &records,
            crossings: &crossings,
            notes: &session.notes,
            quick: args.quick,
        };
        page.write(directory)?;
    }
    Ok(if session.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

struct Session {
    host: Host,
    scale: Scale,
    wanted: Vec<String>,
    done: Vec<Measurement>,
    notes: Vec<String>,
    failed: bool,
}

impl Session {
    /// Those that are there and compile.
    fn installed(&mut self, wanted: &[Family], prefix: &std::path::Path) -> Vec<Stock> {
        let mut out = Vec::new();
        for family in [Family::Openmpi, Family::Mpich] {
            if !wanted.is_empty() && !wanted.contains(&family) {
                continue;
            }
            for found in Stock::find(family, prefix) {
                match found {
                    Ok(stock) => out.push(stock),
                    Err(error) => self.note(format!("{error:#}")),
                }
            }
        }
        out
    }

    fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name)
    }

    fn run(&mut self, stock: &[Stock], provider: &Provider) {
        let pinned = self.host.cores.len() >= 2;
        if !pinned {
            self.note("only one core: nothing can be pinned, and the figures say little".into());
        }
        let batches: Vec<Batch> = batch::ALL.iter().filter(|batch| self.wants(batch.name)).cloned().collect();
        let protocols = self.wants(batch::PROTOCOLS.name) && provider.is_ours();
        let fabric = self.wants(batch::FABRIC);
        let steps = (stock.len() * batches.len() * 2 + usize::from(protocols) * 2 + usize::from(fabric) * 2)
            * self.scale.turns as usize;
        let progress = super::progress_bar(steps);
        let mut given_up: Vec<String> = Vec::new();
        for _ in 0..self.scale.turns {
            for stock in stock {
                for batch in &batches {
                    for side in [Side::Own, Side::Over(provider)] {
                        self.turn(&progress, &mut given_up, stock, &side, batch, pinned);
                    }
                }
            }
            // What forces a protocol is the provider's; any MPI shows it.
            for side in Side::protocols(provider).into_iter().filter(|_| protocols) {
                self.turn(&progress, &mut given_up, &stock[0], &side, &batch::PROTOCOLS, pinned);
            }
            for provider in fabric::providers(provider).into_iter().filter(|_| fabric) {
                let name = format!("fi_pingpong:{}", provider.name());
                progress.set_message(name.clone());
                let (scale, cores) = (self.scale, self.host.cores.clone());
                let measured = || fabric::measure(provider, &scale, &cores);
                let ours = !provider.is_shm();
                self.take(&progress, &mut given_up, name, ours, measured);
            }
        }
        progress.finish_and_clear();
    }

    fn turn(
        &mut self,
        progress: &indicatif::ProgressBar,
        given_up: &mut Vec<String>,
        stock: &Stock,
        side: &Side,
        batch: &Batch,
        pinned: bool,
    ) {
        let name = format!("{} {}", side.prefix(stock), batch.what.join(", "));
        progress.set_message(name.clone());
        let scale = self.scale;
        // What the MPI cannot do on its own path either is no failure of ours.
        let own = format!("{} {}", Side::Own.prefix(stock), batch.what.join(", "));
        let ours = !matches!(side, Side::Own) && !given_up.contains(&own);
        self.take(progress, given_up, name, ours, || stock.measure(side, batch, &scale, pinned));
    }

    /// What failed once gets no other turn.
    fn take(
        &mut self,
        progress: &indicatif::ProgressBar,
        given_up: &mut Vec<String>,
        name: String,
        ours: bool,
        measure: impl FnOnce() -> Result<Vec<Measurement>>,
    ) {
        progress.inc(1);
        if given_up.contains(&name) {
            return;
        }
        match measure() {
            Ok(measured) => {
                let (figures, skipped): (Vec<_>, Vec<_>) = measured.into_iter().partition(|m| m.skipped.is_none());
                self.done.extend(figures);
                for m in skipped {
                    self.note(format!("{}: left out, {}", m.case, m.skipped.unwrap_or_default()));
                }
            }
            Err(error) => {
                self.failed |= ours;
                progress.suspend(|| self.note(format!("{name}: failed: {error:#}")));
                given_up.push(name);
            }
        }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            eprintln!("bench: {note}");
            self.notes.push(note);
        }
    }
}
