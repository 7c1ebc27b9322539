// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge bench`: measures this machine's live interface beside the bare hardware and its peers, in one run.
//!
//! The measuring programs are C programs that use the public interfaces (`bench/*.c`, `bench/shmem/*.c`,
//! `bench/extoll/*.c`). This module runs them pinned, one at a time, compares every case with its baseline
//! ([`catalogue::rules`]) and prints a table, JSON, or pages with plots.
//!
//! `selvedge bench` measures the Portals interface, `selvedge bench shmem` OpenSHMEM, `selvedge bench extoll` the
//! EXTOLL units, `selvedge bench mpi` ([`mpi`]) stock MPIs over our libfabric provider, `selvedge bench hosts`
//! ([`hosts`]) both between hosts, `selvedge bench sim` ([`sim`]) the simulator beside SimGrid's.
//!
//! Invariants: 1. figures go to standard output, everything else to standard error. 2. A case that could not be
//! measured is reported, with the reason. 3. A case of ours that fails makes the exit code 1; a peer's case only with
//! `--peers required`.

mod cases;
mod catalogue;
mod extoll;
mod host;
mod hosts;
mod instructions;
mod mpi;
mod oshmem;
mod page;
mod peers;
mod plots;
mod portals;
pub(crate) mod process;
mod record;
mod report;
mod session_results;
mod shmem;
mod sim;
mod subject;

use std::cell::OnceCell;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;
use selvedge_document::Document;
use selvedge_terminal::{Progress, Table, paragraph, print};

use cases::{Case, Group, HOST_SUFFIX, Library, Runner, Scale};
use catalogue::rules;
use host::Host;
use oshmem::{Oshmem, Vendor};
use peers::{Mpi, Ucx};
use process::Tree;
use record::Measurement;
use subject::{check_html, write_docs, write_html};

pub use record::Record;

use crate::json;
use crate::sim::text;

/// A program is ended after its planned time times the factor, plus the extra time.
const EXTRA_TIME: Duration = Duration::from_secs(60);
const EXTRA_FACTOR: u32 = 4;
/// Time that a case may take beyond the deadline of the whole run.
const OVERTIME: Duration = Duration::from_secs(3);

/// Measure the live interface beside the bare hardware and its peers.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    group: Option<Subcommands>,
    /// Cases to run, with their baselines; all of Portals if none is given. A family such as `ucx` stands for all its
    /// cases, `shmem` for all of OpenSHMEM, `extoll` for all of EXTOLL.
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Run everything in less than a minute: shorter runs, fewer sizes.
    #[arg(long)]
    quick: bool,
    /// Only check that everything runs; the figures mean nothing.
    #[arg(long, hide = true, conflicts_with = "quick")]
    smoke: bool,
    /// Print one JSON array of records instead of the table.
    #[arg(long)]
    json: bool,
    /// Whether to measure UCX, Open MPI (and its OpenSHMEM) and MPICH too.
    #[arg(long, value_enum, default_value_t = PeerChoice::Auto)]
    peers: PeerChoice,
    /// Also write DIR/benchmarks.md, DIR/benchmarks-shmem.md or DIR/benchmarks-extoll.md, and its plots.
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// Also write an HTML page with tables and plots, as one file for any browser.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// List the cases and stop.
    #[arg(long)]
    list: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Subcommands {
    Mpi(mpi::Args),
    Hosts(hosts::Args),
    Sim(sim::Args),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PeerChoice {
    /// Measure the installed ones.
    Auto,
    /// Measure none of them.
    None,
    /// Measure all of them, or fail.
    Required,
}

pub fn main(args: Args) -> Result<ExitCode> {
    match args.group {
        Some(Subcommands::Mpi(args)) => return mpi::main(args),
        Some(Subcommands::Hosts(args)) => return hosts::main(args),
        Some(Subcommands::Sim(args)) => return sim::main(args),
        None => {}
    }
    if args.list {
        return list(catalogue::all().map(|case| (case.name, case.about)), args.json);
    }
    check_html(args.html.as_deref())?;
    let scale = match (args.smoke, args.quick) {
        (true, _) => Scale::SMOKE,
        (_, true) => Scale::QUICK,
        _ => Scale::FULL,
    };
    let (session, chosen) = Session::of(&args.cases, args.peers, scale)?;
    let records = catalogue::records(&session.done);
    if args.json {
        json::print(&records)?;
    } else {
        let table = text::table(&report::table(&records), 0);
        print(&format!("{}\n{table}", paragraph(&session.host.describe(), 0)))?;
    }
    let groups = Group::ALL.into_iter().filter(|group| chosen.iter().any(|case| case.group() == *group));
    let pages: Vec<_> = groups.map(|group| session.page(group, &records, args.quick)).collect();
    if let Some(directory) = &args.docs {
        pages.iter().try_for_each(|page| write_docs(&page.document(), directory, page.file()))?;
    }
    if let Some(file) = &args.html {
        write_html(&page::joined(pages.iter().map(page::Page::document).collect()), file)?;
    }
    Ok(if !session.failures.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The results of some cases, for a page of another command.
pub struct Measured {
    /// The page of `selvedge bench`.
    pub document: Document,
    pub records: Vec<Record>,
    /// Failed measurements, each with its reason. A peer that is not installed is none.
    pub failures: Vec<String>,
}

/// Measures cases of the Portals group as `selvedge bench --quick` does; `smoke`: only to see that everything runs.
pub fn measure(cases: &[String], peers: PeerChoice, smoke: bool) -> Result<Measured> {
    let (session, _) = Session::of(cases, peers, if smoke { Scale::SMOKE } else { Scale::QUICK })?;
    let records = catalogue::records(&session.done);
    let document = session.page(Group::Portals, &records, true).document();
    Ok(Measured { document, records, failures: session.failures })
}

/// Describes this machine in a line.
pub fn host_words() -> String {
    Host::here().describe()
}

/// Lists cases, as text or as a JSON array of names and descriptions.
fn list<'a>(cases: impl Iterator<Item = (&'a str, &'a str)>, as_json: bool) -> Result<ExitCode> {
    if as_json {
        let record = |(name, about)| serde_json::json!({ "name": name, "about": about });
        json::print(&cases.map(record).collect::<Vec<_>>())?;
    } else {
        let mut table = Table::without_heads();
        cases.for_each(|(name, about)| table.row([name, about]));
        print(&table.text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The reason why this machine cannot measure a case at all.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
struct Unavailable(String);

impl From<anyhow::Error> for Unavailable {
    fn from(error: anyhow::Error) -> Unavailable {
        Unavailable(format!("{error:#}"))
    }
}

#[derive(Debug, thiserror::Error)]
enum NotMeasured {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Failed(anyhow::Error),
}

/// One run of the command: programs, host, and results so far.
struct Session {
    tree: Tree,
    host: Host,
    scale: Scale,
    deadline: Option<Instant>,
    peers_required: bool,
    ucx: OnceCell<Result<Ucx, Unavailable>>,
    openmpi: OnceCell<Result<Mpi, Unavailable>>,
    mpich: OnceCell<Result<Mpi, Unavailable>>,
    oshmem: OnceCell<Result<Oshmem, Unavailable>>,
    progress: Progress,
    group: Group,
    done: Vec<Measurement>,
    /// Runs of the hardware baseline, spread over the whole run; the quickest one counts.
    raw_runs: Vec<Measurement>,
    /// Notes of each group, in the order of [`Group::ALL`].
    notes: [Vec<String>; Group::ALL.len()],
    /// Failures that make the exit code 1.
    failures: Vec<String>,
}

impl Session {
    fn new(scale: Scale, peers_required: bool) -> Result<Session> {
        Ok(Session {
            tree: Tree::find()?,
            host: Host::here(),
            scale,
            deadline: None,
            peers_required,
            ucx: OnceCell::new(),
            openmpi: OnceCell::new(),
            mpich: OnceCell::new(),
            oshmem: OnceCell::new(),
            progress: Progress::hidden(),
            group: Group::Portals,
            done: Vec::new(),
            raw_runs: Vec::new(),
            notes: Default::default(),
            failures: Vec::new(),
        })
    }

    /// Measures the cases with these names, with their baselines; returns all that were chosen, too.
    fn of(names: &[String], peers: PeerChoice, scale: Scale) -> Result<(Session, Vec<&'static Case>)> {
        let mut chosen = catalogue::choose(names)?;
        chosen.retain(|case| peers != PeerChoice::None || !case.is_peer());
        let mut session = Session::new(scale, peers == PeerChoice::Required)?;
        session.run(&chosen);
        Ok((session, chosen))
    }

    fn run(&mut self, chosen: &[&'static Case]) {
        for group in Group::ALL {
            let mine: Vec<_> = chosen.iter().copied().filter(|case| case.group() == group).collect();
            if !mine.is_empty() {
                self.group = group;
                self.run_group(&mine);
            }
        }
        self.check_processors();
    }

    fn run_group(&mut self, chosen: &[&'static Case]) {
        let batches = cases::batches(chosen);
        let (turning, once): (Vec<_>, Vec<_>) = batches.into_iter().partition(|batch| batch[0].turns);
        self.progress = Progress::steps(turning.len() * self.scale.turns as usize + once.len());
        self.deadline = self.scale.total.map(|total| Instant::now() + total);
        if self.host.cores.len() < 2 {
            self.note("only one core: nothing can be pinned, and the figures are not reliable".into());
        }
        let mut failed = Vec::new(); // by number; they get no other turn
        for turn in 0..self.scale.turns {
            for (at, batch) in turning.iter().enumerate() {
                if !failed.contains(&at) && !self.run_batch(batch, turn) {
                    failed.push(at);
                }
                self.progress.step();
            }
        }
        for batch in &once {
            self.run_batch(batch, 0);
            self.progress.step();
        }
        self.progress = Progress::hidden();
        self.done.splice(0..0, record::quickest_run(std::mem::take(&mut self.raw_runs)));
        self.done = record::quickest_runs(std::mem::take(&mut self.done));
        let place =
            |m: &Measurement| catalogue::all().position(|case| case.name == m.case || case.yields.contains(&&*m.case));
        self.done.sort_by_key(place);
    }

    /// Measures a batch. Returns false if it failed; it then gets no other turn.
    fn run_batch(&mut self, batch: &[&'static Case], turn: u32) -> bool {
        let (case, names) = (batch[0], batch.iter().map(|case| case.name).collect::<Vec<_>>().join(", "));
        self.progress.say(case.name);
        if self.deadline.is_some_and(|deadline| Instant::now() + cases::estimate(batch, &self.scale) > deadline) {
            if turn == 0 {
                self.note(format!("{names}: left out, no time is left"));
            }
            return false;
        }
        let measured = self.measure(batch);
        let succeeded = measured.is_ok();
        match measured {
            Ok(measured) if case.runner == Runner::Raw => self.raw_runs.extend(measured),
            Ok(measured) => self.take(measured),
            Err(NotMeasured::Unavailable(reason)) => {
                let note = format!("{names}: left out, {reason}");
                if case.is_peer() && self.peers_required {
                    self.failures.push(note.clone());
                }
                self.note(note);
                return false;
            }
            Err(NotMeasured::Failed(error)) => {
                let note = format!("{names}: failed: {error:#}");
                if !case.is_peer() || self.peers_required {
                    self.failures.push(note.clone());
                }
                self.note(note);
            }
        }
        self.repeat_raw(case);
        succeeded
    }

    fn measure(&self, batch: &[&'static Case]) -> Result<Vec<Measurement>, NotMeasured> {
        let (case, limit) = (batch[0], self.limit(batch));
        let measured = match case.runner {
            Runner::Raw => self.raw(case),
            Runner::Ranks { program, processes, environment } => self.ranks(case, program, processes, environment),
            Runner::Ucx | Runner::Mpi { .. } => self.peer(case)?,
            Runner::Pes { library: Library::OpenMpi, program, counts } => {
                let found = self
                    .oshmem
                    .get_or_init(|| Oshmem::find(Vendor::OpenMpi, self.tree.prefix()).map_err(Unavailable::from));
                let oshmem = found.as_ref().map_err(Unavailable::clone)?;
                oshmem.measure(program, counts, batch, &self.scale, self.host.cores.len(), limit)
            }
            Runner::Pes { library, program, counts } => self.pes(batch, program, counts, library),
            Runner::Instructions => {
                instructions::valgrind().map_err(Unavailable::from)?;
                instructions::measure(&self.tree, limit)
            }
        };
        measured.map_err(NotMeasured::Failed)
    }

    /// Repeats the hardware baseline beside each case that is compared with it, because the machine's speed varies.
    fn repeat_raw(&mut self, case: &Case) {
        let raw = case.group().raw();
        if rules().any(|rule| rule.case == case.name && Some(rule.against) == raw) {
            self.raw_runs.extend(self.raw(case).into_iter().flatten());
        }
    }

    fn take(&mut self, measured: Vec<Measurement>) {
        for m in measured {
            if let Some(why) = &m.skipped {
                let depth = m.depth.map_or(String::new(), |depth| format!(" at depth {depth}"));
                self.note(format!("{}{depth}: left out, {why}", m.case));
            } else {
                self.done.push(m);
            }
        }
    }

    fn note(&mut self, note: String) {
        self.progress.note(&format!("bench: {note}"));
        let notes = &mut self.notes[self.group as usize];
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Returns the page of a group.
    fn page<'a>(&'a self, group: Group, records: &'a [Record], quick: bool) -> page::Page<'a> {
        page::Page {
            group,
            host: &self.host,
            peers: self.peer_versions(group),
            measurements: &self.done,
            records,
            notes: &self.notes[group as usize],
            quick,
        }
    }

    /// Time after which a program is ended.
    fn limit(&self, batch: &[&Case]) -> Duration {
        let case = batch[0];
        let depths = case.depths(&self.scale).len() as u32;
        let deep = Duration::from_secs_f64(case.limit_ms(&self.scale) / 1000.0) * depths;
        let limit = cases::estimate(batch, &self.scale) * EXTRA_FACTOR + deep + EXTRA_TIME;
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()) + OVERTIME);
        left.map_or(limit, |left| left.min(limit))
    }

    fn raw(&self, case: &Case) -> Result<Vec<Measurement>> {
        let mut command = Command::new(self.tree.program("raw")?);
        command.args(["--budget-ms", &self.scale.budget_ms.to_string()]);
        if let [first, second, ..] = self.host.cores[..] {
            command.args(["--cpus", &format!("{first},{second}")]);
        }
        let mut measured = process::measurements(&mut command, self.limit(&[case]))?;
        measured.iter_mut().for_each(|m| m.case = case.group().raw().unwrap_or(case.name).to_owned());
        Ok(measured)
    }

    fn ranks(
        &self,
        case: &Case,
        program: &str,
        processes: &[usize],
        environment: &[(&str, &str)],
    ) -> Result<Vec<Measurement>> {
        let mut all = Vec::new();
        for &count in processes {
            let mut command = self.tree.launch(program, count, count <= self.host.cores.len())?;
            command.args(["--what", case.name]).args(peers::program_arguments(&[case], &self.scale));
            command.envs(environment.iter().copied());
            if case.group() == Group::Extoll {
                command.env("LD_PRELOAD", self.tree.prefix().join("lib/libselvedge/libselvedge_mpi_preload.so"));
            }
            all.extend(process::measurements(&mut command, self.limit(&[case]))?);
        }
        Ok(all)
    }

    fn pes(&self, batch: &[&Case], program: &str, counts: &[usize], library: Library) -> Result<Vec<Measurement>> {
        let mut all = Vec::new();
        for &count in counts {
            let mut command = self.tree.launch(&format!("shmem/{program}"), count, count <= self.host.cores.len())?;
            command.args(peers::program_arguments(batch, &self.scale));
            if library == Library::OursHost {
                command.env("SELVEDGE_MODE", "host");
            }
            all.extend(process::measurements(&mut command, self.limit(batch))?);
        }
        if library == Library::OursHost {
            all.iter_mut().for_each(|m| m.case.push_str(HOST_SUFFIX));
        }
        Ok(all)
    }

    /// Measures a peer's case. The outer error: the peer cannot be measured at all.
    fn peer(&self, case: &Case) -> Result<Result<Vec<Measurement>>, Unavailable> {
        let pinned = self.host.cores.len() >= 2;
        let limit = self.limit(&[case]);
        match case.runner {
            Runner::Mpi { family, what } => {
                let mpi = self.mpi(family).as_ref().map_err(Unavailable::clone)?;
                Ok(mpi.measure(what, case, &self.scale, pinned, limit))
            }
            _ => {
                let ucx = self.ucx.get_or_init(|| Ucx::find(self.tree.prefix()).map_err(Unavailable::from));
                let ucx = ucx.as_ref().map_err(Unavailable::clone)?;
                Ok(ucx.measure(case, &self.scale, &self.host.cores, limit))
            }
        }
    }

    fn mpi(&self, family: &'static str) -> &Result<Mpi, Unavailable> {
        let cell = if family == "openmpi" { &self.openmpi } else { &self.mpich };
        cell.get_or_init(|| Mpi::find(family, self.tree.prefix()).map_err(Unavailable::from))
    }

    fn peer_versions(&self, group: Group) -> Vec<String> {
        let ucx = self.ucx.get().and_then(|found| found.as_ref().ok()).map(|ucx| ucx.version.clone());
        let mpis = [&self.openmpi, &self.mpich].map(|cell| cell.get()?.as_ref().ok().map(|mpi| mpi.version.clone()));
        let oshmem = self.oshmem.get().and_then(|found| found.as_ref().ok()).map(|oshmem| oshmem.version.clone());
        match group {
            Group::Portals => ucx.into_iter().chain(mpis.into_iter().flatten()).collect(),
            Group::Shmem => oshmem.into_iter().collect(),
            Group::Extoll => ucx.into_iter().collect(),
        }
    }

    /// Notes each case that ran on another core than the first, which makes its ratio less meaningful.
    fn check_processors(&mut self) {
        if self.host.cores.len() < 2 {
            return;
        }
        let (first, cores) = (self.host.cores[0] as i64, self.host.cores.len() as u64);
        let pinned = |m: &&Measurement| match Group::of(&m.case) {
            Group::Portals => m.depth.is_none_or(|depth| depth != 4),
            Group::Extoll => true,
            Group::Shmem => m.depth.is_none_or(|depth| depth <= cores), // mostly the number of PEs
        };
        let strangers = |m: &&Measurement| m.cpu.is_some_and(|cpu| cpu != first);
        if let Some(m) = self.done.iter().filter(pinned).find(strangers) {
            let cpu = m.cpu.unwrap_or(-1);
            self.note(format!("{} ran on processor {cpu}, not on {first}", m.case));
        }
    }
}
