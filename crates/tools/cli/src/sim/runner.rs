// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs ranks on a machine and makes the report, for real processes and for built-in programs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use selvedge_sim::jobs::{self, Jobs, NodeSet};
use selvedge_sim::machine::Machine;
use selvedge_sim::network::Counted;
use selvedge_sim::node::trace::Trace;
use selvedge_sim::node::{
    self, Aggregation, Death, End, Fault, MakeRanks, Model, Options, Outcome, PartedSimulation, Ranks, Simulation,
    SimulationError, Variation, View,
};
use selvedge_sim::observers::by_job::{ByJob, FabricByJob};
use selvedge_sim::program::ready::Prepared;
use selvedge_sim::program::{Results, Shared, Tasks};
use selvedge_sim::report::run::pairs_of;
use selvedge_sim::report::timeline::{self, Names};
use selvedge_sim::report::{Fabric, Heat, Run, Samples, Wall, channels, otf2, regions};
use selvedge_sim::rerouting::RerouteConfig;
use selvedge_sim::time::Time;
use selvedge_terminal::Progress;

use super::jobs::{self as several, JobPlan};
use super::livelock::Warner;
use super::observing::Observing;
use super::output::{Output, stream};
use super::progress::{Interrupt, words_of};
use super::usage::Usage;
use super::watched::{Watched, said};

/// Events between two checks of the clock and of signals; also the finest step of plots over virtual time.
const OBSERVE_EVERY: u64 = 1 << 10;
/// The exit code at the limit of virtual time, as of `selvedge run` at its time limit.
pub const EXIT_TIME_LIMIT: u8 = 124;
/// The exit code after Ctrl-C: 128 + SIGINT.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Placement of ranks on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Placement {
    /// Neighbours: ranks 0 and 1 on node 0, 2 and 3 on node 1
    #[default]
    Block,
    /// In turn: ranks 0 and 2 on node 0, 1 and 3 on node 1
    RoundRobin,
    /// Blocks of ranks on nodes drawn from the whole machine, or from --nodes
    Random,
    /// Blocks of ranks on nodes of all groups in turn: groups of a dragonfly; elsewhere the nodes of each router
    Spread,
}

impl From<Placement> for jobs::Placement {
    fn from(placement: Placement) -> jobs::Placement {
        match placement {
            Placement::Block => jobs::Placement::Block,
            Placement::RoundRobin => jobs::Placement::RoundRobin,
            Placement::Random => jobs::Placement::Random,
            Placement::Spread => jobs::Placement::Spread,
        }
    }
}

/// Model of the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum NetworkModel {
    /// Packet by packet, with credits and virtual channels
    #[default]
    Packet,
    /// Message by message: faster, and nearly as exact where channels are not full
    Message,
}

impl From<NetworkModel> for Model {
    fn from(network: NetworkModel) -> Model {
        match network {
            NetworkModel::Packet => Model::Packet,
            NetworkModel::Message => Model::Message,
        }
    }
}

/// Settings of a run, without the ranks.
pub struct RunPlan {
    pub machine: Arc<Machine>,
    pub program: String,
    pub parameters: Vec<(String, String)>,
    pub ranks: u32,
    pub ranks_per_node: u32,
    pub placement: Placement,
    /// Nodes that may have ranks; `None`: all.
    pub nodes: Option<NodeSet>,
    /// The jobs of a run with several, of which this program is the first.
    pub jobs: Vec<JobPlan>,
    pub network: Model,
    pub seed: u64,
    pub variation: Variation,
    pub time_limit: Option<Time>,
    pub faults: Vec<Fault>,
    pub rerouting: Option<RerouteConfig>,
    /// In order of time.
    pub deaths: Vec<Death>,
    pub keep_going: bool,
    /// The job's share of the aggregation nodes in the switches, if its program uses them.
    pub aggregation: Option<Arc<Aggregation>>,
    pub observing: Observing,
    /// The region that the report is about; `None`: the whole run.
    pub region: Option<String>,
    /// Options that the report shows.
    pub options: Vec<(String, String)>,
}

impl RunPlan {
    /// The channels that have failed before the run begins.
    pub fn lost_at_start(&self) -> Vec<u32> {
        self.faults.iter().filter(|fault| !fault.up && fault.at == Time::ZERO).map(|fault| fault.channel).collect()
    }
}

/// The nodes on which the ranks may be.
fn room(plan: &RunPlan) -> Result<Vec<u32>, Usage> {
    let topology = &plan.machine.topology;
    match &plan.nodes {
        Some(nodes) => nodes.resolve(topology).map_err(|error| Usage(format!("--nodes: {error}"))),
        None => Ok((0..topology.rails().nodes()).collect()),
    }
}

/// The node of each rank of the program.
pub fn place(plan: &RunPlan) -> Result<Vec<u32>, Usage> {
    if let Some(first) = plan.jobs.first() {
        return Ok(first.nodes.clone());
    }
    let (ranks, each, nodes) = (plan.ranks, plan.ranks_per_node.max(1), room(plan)?);
    let places = jobs::placing::place(&plan.machine.topology, &nodes, (ranks, each), plan.placement.into(), plan.seed);
    places.ok_or_else(|| {
        let (nodes, room) = (nodes.len(), nodes.len() as u64 * u64::from(each));
        let whose = if plan.nodes.is_some() { "of --nodes" } else { &format!("of {}", plan.machine.name) };
        Usage(format!(
            "{ranks} ranks, {each} on a node, do not fit on the {nodes} nodes {whose}, which have room for {room}: use fewer, \
             put more on a node (--ranks-per-node), or take a larger machine"
        ))
    })
}

impl RunPlan {
    /// The node of each rank of each job.
    fn places(&self) -> Result<Vec<u32>, Usage> {
        match self.jobs.is_empty() {
            true => place(self),
            false => Ok(self.jobs.iter().flat_map(|job| &job.nodes).copied().collect()),
        }
    }

    /// Options of a simulation that do not depend on its ranks.
    pub fn options(&self) -> Options {
        Options {
            network: self.network,
            time_limit: self.time_limit.unwrap_or(Time::MAX),
            observe_every: OBSERVE_EVERY,
            faults: self.faults.clone(),
            rerouting: self.rerouting.clone(),
            deaths: self.deaths.clone(),
            keep_going: self.keep_going,
            variation: self.variation,
            aggregation: self.aggregation.clone(),
            region: self.region.clone(),
            ..Options::default()
        }
    }
}

/// A finished run.
pub struct FinishedRun<R> {
    pub run: Run,
    pub ranks: R,
    pub exit_code: u8,
}

/// Runs the program's ranks, and those of the other jobs, makes the report, and writes the timeline. `warner`: warns of
/// a livelock.
pub fn simulate<R: Ranks>(
    plan: &RunPlan,
    mut ranks: R,
    output: &Output,
    interrupt: &Interrupt,
    warner: Option<Warner>,
) -> Result<FinishedRun<R>> {
    let Some((_, others)) = plan.jobs.split_first() else {
        return simulate_all(plan, ranks, output, interrupt, warner);
    };
    let tasks = others.iter().map(|job| job.tasks(&plan.machine));
    let mut tasks: Vec<Tasks> = tasks.collect::<Option<_>>().context("a job of processes is the first of its run")?;
    let mut all: Vec<&mut dyn Ranks> = vec![&mut ranks];
    all.extend(tasks.iter_mut().map(|tasks| tasks as &mut dyn Ranks));
    let FinishedRun { mut run, exit_code, .. } = simulate_all(plan, Jobs::new(all), output, interrupt, warner)?;
    let reports = run.jobs.iter_mut().flat_map(|jobs| jobs.jobs.iter_mut().skip(1));
    for (report, tasks) in reports.zip(&tasks) {
        report.run.results = tasks.results();
    }
    Ok(FinishedRun { run, ranks, exit_code })
}

/// Runs all ranks.
fn simulate_all<R: Ranks>(
    plan: &RunPlan,
    ranks: R,
    output: &Output,
    interrupt: &Interrupt,
    warner: Option<Warner>,
) -> Result<FinishedRun<R>> {
    let options = options(plan, output, warner.is_some())?;
    let simulation = Simulation::new(plan.machine.clone(), ranks, options);
    let mut simulation = simulation.map_err(|error| refusal(plan, error))?;
    for observer in plan.observing.observers(simulation.network().topology(), &simulation.machine().network)? {
        simulation.observe(observer);
    }
    let by_job = (plan.network == Model::Packet && !plan.jobs.is_empty()).then(|| {
        let topology = simulation.network().topology();
        let nodes: Vec<Vec<u32>> = plan.jobs.iter().map(|job| job.nodes.clone()).collect();
        ByJob::new(topology, &nodes)
    });
    let counted = by_job.as_ref().map(ByJob::result);
    by_job.into_iter().for_each(|by_job| simulation.observe(Box::new(by_job)));
    let (run, exit_code) = follow(plan, &mut simulation, output, interrupt, (warner, counted))?;
    Ok(FinishedRun { run, exit_code, ranks: simulation.into_ranks() })
}

/// Runs a built-in program without other jobs on several threads.
pub fn simulate_in_parts(
    plan: &RunPlan,
    prepared: &Prepared,
    threads: u32,
    output: &Output,
    interrupt: &Interrupt,
) -> Result<(Run, Results, u8)> {
    let options = options(plan, output, false)?;
    let shared = Shared::default();
    let make = |is_here: &dyn Fn(u32) -> bool| prepared.some_tasks(plan.ranks, &plan.machine, is_here, &shared);
    let simulation = PartedSimulation::new(plan.machine.clone(), plan.ranks, make, options, threads);
    let mut simulation = simulation.map_err(|error| refusal(plan, error))?;
    let (run, exit_code) = follow(plan, &mut simulation, output, interrupt, (None, None))?;
    Ok((run, shared.results(), exit_code))
}

/// Options of the simulation of all jobs.
pub fn options(plan: &RunPlan, output: &Output, watch: bool) -> Result<Options, Usage> {
    Ok(Options {
        placement: plan.places()?,
        jobs: plan.jobs.iter().map(|job| job.span(plan.variation)).collect(),
        trace_limit: output.spans(),
        watch,
        ..plan.options()
    })
}

fn refusal(plan: &RunPlan, error: SimulationError) -> Usage {
    match error {
        SimulationError::Network(error) => Usage(format!("{}: {error}", plan.machine.name)),
        other => Usage(other.to_string()),
    }
}

/// A simulation, whole or in parts.
trait Subject {
    fn progress(&self) -> node::Progress;
    fn network(&self) -> &dyn Counted;
    fn run(&mut self, observe: &mut dyn FnMut(&View<'_>) -> bool) -> Result<Outcome, SimulationError>;
    fn end_observation(&mut self) -> std::io::Result<()>;
    /// The spans of the run; none in parts.
    fn trace(&self) -> Option<&Trace>;
}

impl<R: Ranks> Subject for Simulation<R> {
    fn progress(&self) -> node::Progress {
        self.progress()
    }

    fn network(&self) -> &dyn Counted {
        self.network()
    }

    fn run(&mut self, observe: &mut dyn FnMut(&View<'_>) -> bool) -> Result<Outcome, SimulationError> {
        Ok(self.run(observe))
    }

    fn end_observation(&mut self) -> std::io::Result<()> {
        self.end_observation()
    }

    fn trace(&self) -> Option<&Trace> {
        Some(self.trace())
    }
}

impl<M: MakeRanks> Subject for PartedSimulation<M> {
    fn progress(&self) -> node::Progress {
        self.progress()
    }

    fn network(&self) -> &dyn Counted {
        self.network()
    }

    fn run(&mut self, observe: &mut dyn FnMut(&View<'_>) -> bool) -> Result<Outcome, SimulationError> {
        self.run(observe)
    }

    fn end_observation(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    fn trace(&self) -> Option<&Trace> {
        None
    }
}

/// Runs a simulation to its end, shows its progress, makes the report, and writes the timeline.
fn follow(
    plan: &RunPlan,
    simulation: &mut dyn Subject,
    output: &Output,
    interrupt: &Interrupt,
    (mut warner, counted): (Option<Warner>, Option<Arc<Mutex<FabricByJob>>>),
) -> Result<(Run, u8)> {
    let placement = plan.places()?;
    let (mut line, mut samples) = (Progress::polled(output.quiet), Samples::default());
    // Where switches reduce, the topology has nodes in them, and other numbers.
    let channel = |channel| plan.aggregation.as_ref().map_or(channel, |made| made.channel(channel));
    let faults: Vec<Fault> =
        plan.faults.iter().map(|fault| Fault { channel: channel(fault.channel), ..*fault }).collect();
    let mut heat = output.shows_links().then(|| Heat::new(simulation.network().topology(), &faults));
    let title = format!("{} on {}", plan.program, plan.machine.name);
    let mut watched = Watched::start(output, &title, heat.as_ref())?;
    let started = Instant::now();
    samples.add(&simulation.progress());
    let outcome = simulation.run(&mut |view: &View<'_>| {
        samples.add(&view.progress);
        if let Some(heat) = &mut heat {
            heat.look(view.network, view.progress.time);
        }
        watched.show(heat.as_ref(), || said(&view.progress));
        line.update(|seconds| words_of(&view.progress, seconds));
        if let Some(warner) = &mut warner {
            warner.look(view, plan.variation.ppm_max > 0);
        }
        !interrupt.is_set()
    });
    let outcome = outcome.map_err(|error| refusal(plan, error))?;
    samples.add(&simulation.progress());
    if let Some(heat) = &mut heat {
        heat.end(simulation.network(), outcome.time);
    }
    watched.end(heat.as_ref(), &said(&simulation.progress()));
    let seconds = started.elapsed().as_secs_f64();
    drop(line);
    simulation.end_observation().context("an observer of the run has failed; give it a folder with room")?;
    let never_entered = plan.region.as_ref().filter(|_| outcome.observed.is_none());
    let exit_code = exit_code(&outcome, interrupt).max(u8::from(never_entered.is_some()));
    let never_entered = never_entered.map(|name| never_entered_words(name, &outcome));
    if output.quiet {
        print_reason(&outcome, plan.time_limit);
        never_entered.iter().for_each(|words| eprintln!("selvedge sim: {words}"));
    }
    let fabric = match &outcome.observed {
        Some(observed) => Fabric::of(observed, observed.time),
        None => Fabric::of(simulation.network(), outcome.time),
    };
    let deaths = plan.deaths.iter().filter_map(|death| not_killed(death, &outcome));
    let notes = deaths.chain(lost(&outcome)).chain(never_entered).chain(regions::notes(&outcome)).collect();
    let mut run = Run {
        machine: plan.machine.clone(),
        program: plan.program.clone(),
        parameters: plan.parameters.clone(),
        ranks: placement.len() as u32,
        nodes_used: placement.iter().collect::<BTreeSet<_>>().len() as u32,
        network: plan.network,
        options: plan.options.clone(),
        results: Results::default(),
        results_x: String::new(),
        jobs: (!plan.jobs.is_empty()).then(|| several::report(plan, &outcome, simulation.network(), counted.as_ref())),
        fabric,
        samples,
        heat,
        pairs: simulation.trace().map_or_else(Default::default, pairs_of),
        spans: None,
        notes,
        wall: Some(Wall { seconds, memory_peak_bytes: memory_peak_bytes(), more: Vec::new() }),
        outcome,
    };
    if let Some(trace) = simulation.trace() {
        // The topology also has the nodes inside switches.
        let topology = simulation.network().topology();
        let names = Names {
            title: &title,
            nodes: &placement,
            node: &|node| topology.whole_node_name(node),
            channel: &|channel| channels::channel_name(topology, channel),
        };
        write_timelines(output, trace, &names, &mut run)?;
    }
    Ok((run, exit_code))
}

/// Writes the timeline in the formats that are asked for.
fn write_timelines(output: &Output, trace: &Trace, names: &Names<'_>, run: &mut Run) -> Result<()> {
    let mut written = Vec::new();
    if let Some(path) = &output.trace {
        written.push((path, stream(path, |out| timeline::write(trace, names, out))?));
    }
    if let Some(folder) = &output.otf2 {
        let facts = otf2::Facts { machine: &run.machine.name, end: run.outcome.time, ended: &run.outcome.ended };
        written.push((folder, otf2::write(trace, names, &facts, folder).context("--otf2")?));
    }
    for (path, written) in written {
        run.spans = Some((written.spans, written.left_out));
        if written.left_out > 0 {
            let left_out = selvedge_document::words::count(written.left_out);
            run.notes
                .push(format!("{left_out} spans are not in {}; a larger --trace-limit keeps more", path.display()));
        }
    }
    Ok(())
}

/// Says that no rank has entered the region that the report should be about.
fn never_entered_words(name: &str, outcome: &Outcome) -> String {
    let known: Vec<&str> = outcome.regions.regions.iter().map(|region| region.name.as_str()).collect();
    let known = match known[..] {
        [] => "the program has marked no region".to_owned(),
        _ => format!("the program has marked {}", known.join(", ")),
    };
    format!("--region {name}: no rank has entered it; {known}. The counts are of the whole run.")
}

/// Says what became of messages that the fabric has lost.
fn lost(outcome: &Outcome) -> Option<String> {
    let lost = outcome.statistics.lost;
    let count = selvedge_document::words::count(lost);
    (lost > 0).then(|| {
        format!(
            "Messages lost: {count}. NICs do not send again; each failed at its initiator with PTL_NI_UNDELIVERABLE, \
             which MPI reports as an error. A rank that waits for such a message may wait for ever."
        )
    })
}

/// Prints why a run has not completed, unless a table shows it.
fn print_reason(outcome: &Outcome, limit: Option<Time>) {
    match &outcome.end {
        End::Stuck(waiting) => {
            let ranks = outcome.ended.len();
            let first = waiting.first().map_or(String::new(), |first| format!(": rank {} {}", first.rank, first.what));
            eprintln!(
                "selvedge sim: stuck at {}: no event is left, and {} of {ranks} ranks wait{first}; without --quiet a \
                 table shows what each waits for",
                outcome.time,
                waiting.len()
            );
        }
        End::Interrupted if limit.is_some_and(|limit| outcome.time >= limit) => {
            eprintln!("selvedge sim: ended at the limit of virtual time, {}", outcome.time);
        }
        End::Interrupted | End::Completed | End::Died => {}
    }
}

/// The note on a rank that --kill names but that was not killed.
fn not_killed(death: &Death, outcome: &Outcome) -> Option<String> {
    let Death { at, rank } = death;
    match outcome.ended.get(*rank as usize).copied().flatten() {
        Some(ended) if ended == *at => None,
        Some(_) => Some(format!("rank {rank} was to be killed at {at}, and had ended by then")),
        None => Some(format!("rank {rank} was to be killed at {at}, and the run ended before that")),
    }
}

fn exit_code(outcome: &Outcome, interrupt: &Interrupt) -> u8 {
    match &outcome.end {
        End::Interrupted if interrupt.is_set() => EXIT_INTERRUPTED,
        End::Interrupted => EXIT_TIME_LIMIT,
        End::Completed | End::Died => byte(outcome.code()),
        // A failed rank explains more than the ranks that wait for it.
        End::Stuck(_) => byte(outcome.code()).max(1),
    }
}

/// Converts an exit code to the kernel's byte; a nonzero code stays nonzero.
fn byte(code: i32) -> u8 {
    if code == 0 { 0 } else { ((code & 0xff) as u8).max(1) }
}

/// Peak memory of this process, from the kernel.
pub fn memory_peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}
