// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs ranks on a machine and makes the report, for real processes and for built-in programs.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::ValueEnum;
use selvedge_fabric::NodeId;
use selvedge_sim::machine::Machine;
use selvedge_sim::node::{
    Aggregation, Death, End, Fault, Model, Options, Outcome, Ranks, Simulation, SimulationError, Variation,
};
use selvedge_sim::program::Results;
use selvedge_sim::random::Random;
use selvedge_sim::report::run::pairs_of;
use selvedge_sim::report::timeline::{self, Names};
use selvedge_sim::report::{Fabric, Heat, Run, Samples, Wall, channels};
use selvedge_sim::rerouting::RerouteConfig;
use selvedge_sim::time::Time;
use selvedge_terminal::Progress;

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
    /// Blocks of ranks on nodes drawn from the whole machine
    Random,
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
    /// Options that the report shows.
    pub options: Vec<(String, String)>,
}

impl RunPlan {
    /// The channels that have failed before the run begins.
    pub fn lost_at_start(&self) -> Vec<u32> {
        self.faults.iter().filter(|fault| !fault.up && fault.at == Time::ZERO).map(|fault| fault.channel).collect()
    }
}

/// The node of each rank.
pub fn place(plan: &RunPlan) -> Result<Vec<u32>, Usage> {
    let (ranks, each) = (plan.ranks, plan.ranks_per_node.max(1));
    let (used, nodes) = (ranks.div_ceil(each), plan.machine.topology.nodes());
    if used > nodes {
        let room = u64::from(nodes) * u64::from(each);
        let words = format!(
            "{ranks} ranks, {each} on a node, do not fit on the {nodes} nodes of {}, which have room for {room}: use fewer, \
             put more on a node (--ranks-per-node), or take a larger machine",
            plan.machine.name
        );
        return Err(Usage(words));
    }
    Ok(match plan.placement {
        Placement::Block => (0..ranks).map(|rank| rank / each).collect(),
        Placement::RoundRobin => (0..ranks).map(|rank| rank % used).collect(),
        Placement::Random => {
            let mut all: Vec<u32> = (0..nodes).collect();
            let mut random = Random::new(plan.seed, PLACEMENT_STREAM);
            // The first steps of a shuffle (Fisher and Yates).
            for at in 0..used as usize {
                let other = at + random.below(u64::from(nodes) - at as u64) as usize;
                all.swap(at, other);
            }
            (0..ranks).map(|rank| all[(rank / each) as usize]).collect()
        }
    })
}

/// Placement draws from its own random stream, so that changing it changes no other random number.
const PLACEMENT_STREAM: u64 = 0x706c_6163;

/// A finished run.
pub struct FinishedRun<R> {
    pub run: Run,
    pub ranks: R,
    pub exit_code: u8,
}

/// Runs the ranks, makes the report, and writes the timeline. `warner`: warns of a livelock.
pub fn simulate<R: Ranks>(
    plan: &RunPlan,
    ranks: R,
    output: &Output,
    interrupt: &Interrupt,
    mut warner: Option<Warner>,
) -> Result<FinishedRun<R>> {
    let placement = place(plan)?;
    let options = Options {
        network: plan.network,
        placement: placement.clone(),
        trace_limit: output.spans(),
        time_limit: plan.time_limit.unwrap_or(Time::MAX),
        observe_every: OBSERVE_EVERY,
        faults: plan.faults.clone(),
        rerouting: plan.rerouting.clone(),
        deaths: plan.deaths.clone(),
        keep_going: plan.keep_going,
        variation: plan.variation,
        watch: warner.is_some(),
        aggregation: plan.aggregation.clone(),
        ..Options::default()
    };
    let mut simulation = Simulation::new(plan.machine.clone(), ranks, options).map_err(|error| match error {
        SimulationError::Network(error) => Usage(format!("{}: {error}", plan.machine.name)),
        other => Usage(other.to_string()),
    })?;
    for observer in plan.observing.observers(simulation.network().topology(), &simulation.machine().network)? {
        simulation.observe(observer);
    }
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
    let outcome = simulation.run(&mut |view| {
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
    samples.add(&simulation.progress());
    if let Some(heat) = &mut heat {
        heat.end(simulation.network(), outcome.time);
    }
    watched.end(heat.as_ref(), &said(&simulation.progress()));
    let seconds = started.elapsed().as_secs_f64();
    drop(line);
    simulation.end_observation().context("an observer of the run has failed; give it a folder with room")?;
    let exit_code = exit_code(&outcome, interrupt);
    if output.quiet {
        print_reason(&outcome, plan.time_limit);
    }
    let mut run = Run {
        machine: plan.machine.clone(),
        program: plan.program.clone(),
        parameters: plan.parameters.clone(),
        ranks: plan.ranks,
        nodes_used: placement.iter().collect::<BTreeSet<_>>().len() as u32,
        network: plan.network,
        options: plan.options.clone(),
        results: Results::default(),
        results_x: String::new(),
        fabric: Fabric::of(simulation.network(), outcome.time),
        samples,
        heat,
        pairs: pairs_of(simulation.trace()),
        spans: None,
        notes: plan.deaths.iter().filter_map(|death| not_killed(death, &outcome)).chain(lost(&outcome)).collect(),
        wall: Some(Wall { seconds, memory_peak_bytes: memory_peak_bytes(), more: Vec::new() }),
        outcome,
    };
    if let Some(path) = &output.trace {
        // The topology also has the nodes inside switches.
        let topology = simulation.network().topology();
        let names = Names {
            title: &title,
            nodes: &placement,
            node: &|node| topology.node_name(NodeId(node)),
            channel: &|channel| channels::channel_name(topology, channel),
        };
        let written = stream(path, |out| timeline::write(simulation.trace(), &names, out))?;
        run.spans = Some((written.spans, written.left_out));
        if written.left_out > 0 {
            let left_out = selvedge_sim::report::words::count(written.left_out);
            run.notes
                .push(format!("{left_out} spans are not in {}; a larger --trace-limit keeps more", path.display()));
        }
    }
    Ok(FinishedRun { run, exit_code, ranks: simulation.into_ranks() })
}

/// Says what became of messages that the fabric has lost.
fn lost(outcome: &Outcome) -> Option<String> {
    let lost = outcome.statistics.lost;
    let count = selvedge_sim::report::words::count(lost);
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
