// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge bench hosts`: measures MPI and OpenSHMEM between two hosts, beside the same MPI over its own TCP and over
//! libfabric's `tcp;ofi_rxm`, and beside Sandia OpenSHMEM, in one run.
//!
//! The two hosts are two processes of this host that treat each other as remote ([`super::mpi::side::SeparateHosts`]).
//! All packets, those of the peers too, travel over the loopback interface. No root and no second machine is needed.
//! The latency of a cable is not measured.
//!
//! All sides measure a part one after another before the next begins, and every other turn in the opposite order.
//! Figures are compared within a turn ([`compare`]), because the speed of the machine changes over seconds.
//!
//! Invariants: 1. figures go to standard output or a file, everything else to standard error. 2. A case that could not
//! be measured is reported. 3. A failure of our measurement makes the exit code 1; a missed bar does not.

mod catalogue;
mod compare;
mod page;
mod sides;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use selvedge_launcher::mpirun::Family;
use selvedge_terminal::{Progress, paragraph, print};

use self::catalogue::{PARTS, Part, PartKind};
use self::sides::{PeersProgram, PesRun, SANDIA, find_sandia};
use super::host::Host;
use super::mpi::batch::Batch;
use super::mpi::scale::MpiScale;
use super::mpi::side::{InstalledMpi, NetProgress, Provider, SeparateHosts, Transport};
use super::oshmem::Oshmem;
use super::process::Tree;
use super::record::Measurement;
use super::session_results::SessionResults;
use super::subject::{check_html, write_docs, write_html};
use crate::choice::{FAMILIES, one_of};
use crate::json::{self, STANDARD};
use crate::sim::text;

/// Measure MPI and OpenSHMEM between two hosts beside their peers.
///
/// The hosts are two processes of this host that treat each other as remote, over the loopback interface.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this MPI; may be given several times [default: all that are installed]
    #[arg(long, value_parser = one_of(FAMILIES), value_name = "MPI")]
    mpi: Vec<Family>,
    /// Only these measurements: latency, flow, overlap, progress, shmem, memory [default: all]
    #[arg(value_name = "WHAT", value_parser = catalogue::names())]
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
    /// Also write DIR/benchmarks-hosts.md and its plots
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// Also write an HTML page with tables and plots, as one file for any browser
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// List the measurements and stop
    #[arg(long)]
    list: bool,
}

const FULL: MpiScale = MpiScale { budget_ms: 1000.0, turns: 5, tiny: false };

/// User variables that change the measurement; the report names them.
const SETTINGS: [&str; 3] = ["SELVEDGE_NET_PROVIDER", "SELVEDGE_NET_CHECK", "SELVEDGE_NET_FAULTS"];

pub fn main(args: Args) -> Result<ExitCode> {
    if args.list {
        return super::list(PARTS.iter().map(|part| (part.name, part.about)), args.json.is_some());
    }
    check_html(args.html.as_deref())?;
    let scale = match (args.smoke, args.quick) {
        (true, _) => MpiScale::SMOKE,
        (_, true) => MpiScale::QUICK,
        _ => FULL,
    };
    let tree = Tree::find()?;
    let provider = Provider::find(None, tree.prefix())?;
    let host = Host::here();
    let parts: Vec<&Part> =
        PARTS.iter().filter(|part| args.what.is_empty() || args.what.iter().any(|what| what == part.name)).collect();
    let mut session = Session {
        pinned: host.cores.len() >= 2,
        tree: &tree,
        provider: &provider,
        separate_hosts: SeparateHosts::new()?,
        scale,
        stock: Vec::new(),
        sandia: None,
        peers: None,
        results: SessionResults::default(),
    };
    session.find(&parts, &args.mpi);
    let turns = session.run(&parts);

    let (rows, medians) = (compare::rows(&turns), compare::medians(&turns));
    if !json::replaces_tables(args.json.as_deref()) {
        let head = paragraph(&host.describe(), 0) + &paragraph(&format!("hosts: {}", page::HOSTS), 0);
        print(&format!("{head}\n{}{}", text::table(&page::table(&rows), 0), paragraph(&page::summary(&rows), 0)))?;
    }
    if let Some(file) = &args.json {
        json::write(file, &rows.iter().map(compare::Row::record).collect::<Vec<_>>())?;
    }
    if args.docs.is_some() || args.html.is_some() {
        let stock = session.stock.iter().map(|stock| stock.version.clone());
        let given = |name: &&str| Some(format!("{name}={}", std::env::var(name).ok()?));
        let page = page::Page {
            host: &host,
            peers: stock.chain(session.sandia.as_ref().map(|sandia| sandia.version.clone())).collect(),
            settings: SETTINGS.iter().filter_map(given).collect(),
            turns: turns.len(),
            medians: &medians,
            rows: &rows,
            notes: &session.results.notes,
            quick: args.quick,
        };
        if let Some(directory) = &args.docs {
            write_docs(&page.document(), directory, page::FILE)?;
        }
        if let Some(file) = &args.html {
            write_html(&page.document(), file)?;
        }
    }
    Ok(if session.results.failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Load average of the last minute above which figures are reported as disturbed.
const LOAD_MAX: f64 = 0.5;

fn load_of(loadavg: &str) -> Option<f64> {
    loadavg.split(' ').next()?.parse().ok()
}

struct Session<'a> {
    pinned: bool,
    tree: &'a Tree,
    provider: &'a Provider,
    separate_hosts: SeparateHosts,
    scale: MpiScale,
    stock: Vec<InstalledMpi>,
    sandia: Option<Oshmem>,
    peers: Option<PeersProgram>,
    results: SessionResults,
}

struct Step<'a> {
    name: String,
    is_ours: bool,
    measure: Box<dyn Fn() -> Result<Vec<Measurement>> + 'a>,
}

impl Session<'_> {
    /// Finds the programs that these parts need. Missing ones are reported.
    fn find(&mut self, parts: &[&Part], families: &[Family]) {
        if !self.pinned {
            self.results.note("only one core: nothing can be pinned, and the figures are not reliable".into());
        }
        let others = std::fs::read_to_string("/proc/loadavg").ok().and_then(|text| load_of(&text));
        if let Some(load) = others.filter(|load| *load > LOAD_MAX) {
            self.results
                .note(format!("other programs use this machine (load average {load}): figures are not reliable"));
        }
        if parts.iter().any(|part| matches!(part.kind, PartKind::Mpi { .. } | PartKind::Bare(_))) {
            self.stock = super::mpi::installed(&mut self.results, families, self.tree.prefix());
            if self.stock.is_empty() {
                self.results.note("MPI: left out, none is installed; make peers installs some".into());
            }
        }
        if parts.iter().any(|part| matches!(part.kind, PartKind::Pes { .. })) {
            match find_sandia(self.tree.prefix()) {
                Ok(sandia) => self.sandia = Some(sandia),
                Err(error) => self.results.note(format!("{SANDIA}: left out, {error:#}")),
            }
        }
        if parts.iter().any(|part| matches!(part.kind, PartKind::Memory(_))) {
            match PeersProgram::compile() {
                Ok(peers) => self.peers = Some(peers),
                Err(error) => self.results.note(format!("memory: left out, {error:#}")),
            }
        }
    }

    /// Measures in turns; returns the results of each turn.
    fn run(&mut self, parts: &[&Part]) -> Vec<Vec<Measurement>> {
        let mut results = std::mem::take(&mut self.results);
        let groups: Vec<Vec<Step>> = parts.iter().flat_map(|part| self.steps(part)).collect();
        let steps = groups.iter().map(Vec::len).sum::<usize>() * self.scale.turns as usize;
        let progress = Progress::steps(steps);
        let mut turns = Vec::new();
        for turn in 0..self.scale.turns {
            for group in &groups {
                let mut order: Vec<&Step> = group.iter().collect();
                if turn % 2 == 1 {
                    order.reverse();
                }
                for step in order {
                    results.measure(&progress, step.name.clone(), step.is_ours, &step.measure);
                }
            }
            turns.push(std::mem::take(&mut results.done));
        }
        drop(progress);
        drop(groups);
        self.results = results;
        turns
    }

    /// The steps of a part, grouped by those that take turns together.
    fn steps<'s>(&'s self, part: &'s Part) -> Vec<Vec<Step<'s>>> {
        match &part.kind {
            PartKind::Mpi { batch, with_calls, with_networks } => {
                let of = |stock: &'s InstalledMpi| {
                    let modes: &[NetProgress] =
                        if *with_calls { &[NetProgress::Thread, NetProgress::Calls] } else { &[NetProgress::Thread] };
                    let ours = modes.iter().map(|&progress| Transport::SeparateHosts {
                        provider: self.provider,
                        hosts: &self.separate_hosts,
                        progress,
                    });
                    let networks = if *with_networks { stock.networks() } else { Vec::new() };
                    let sides = ours.chain(networks.into_iter().map(Transport::Network));
                    sides.map(|side| self.mpi_step(stock, side, batch)).collect()
                };
                self.stock.iter().map(of).collect()
            }
            PartKind::Bare(batch) => {
                let first = self.stock.iter().find_map(|stock| Some((stock, *stock.networks().first()?)));
                let step = |(stock, network)| vec![self.mpi_step(stock, Transport::Bare(network), batch)];
                first.map(step).into_iter().collect()
            }
            PartKind::Pes { program, what, ours, arguments } => {
                let run = PesRun { program, what, arguments, scale: &self.scale, pinned: self.pinned };
                let mut steps: Vec<Step> = ours
                    .iter()
                    .map(|&pes| Step {
                        name: format!("{} {what}", pes.label()),
                        is_ours: true,
                        measure: Box::new(move || run.ours(self.tree, pes)),
                    })
                    .collect();
                if let Some((sandia, what)) = self.sandia.as_ref().zip(run.of_sandia()) {
                    let name = format!("{SANDIA} {what}");
                    let measure = move || PesRun { what: &what, ..run }.sandia(self.tree, sandia);
                    steps.push(Step { name, is_ours: false, measure: Box::new(measure) });
                }
                vec![steps]
            }
            PartKind::Memory(counts) => {
                let Some(peers) = &self.peers else { return Vec::new() };
                let step = |&count: &u64| Step {
                    name: format!("memory for {count} processes"),
                    is_ours: true,
                    measure: Box::new(move || peers.measure(self.provider, &self.separate_hosts, count)),
                };
                vec![counts.iter().map(step).collect()]
            }
        }
    }

    fn mpi_step<'s>(&'s self, stock: &'s InstalledMpi, side: Transport<'s>, batch: &'s Batch) -> Step<'s> {
        Step {
            name: format!("{} {}", side.prefix(stock), batch.what.join(", ")),
            is_ours: side.is_ours(),
            measure: Box::new(move || stock.measure(&side, batch, &self.scale, self.pinned)),
        }
    }
}
