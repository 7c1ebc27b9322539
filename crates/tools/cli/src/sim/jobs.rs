// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Several jobs in one run: the options that describe them, their places, and each of them alone.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Result;
use clap::ValueEnum;
use selvedge_sim::jobs::{self, JobDescription, JobProblem, Work};
use selvedge_sim::machine::Machine;
use selvedge_sim::network::Counted;
use selvedge_sim::node::{End, JobSpan, Options, Outcome, Simulation, Variation};
use selvedge_sim::observers::by_job::FabricByJob;
use selvedge_sim::program::ready::Prepared;
use selvedge_sim::program::{Results, Tasks};
use selvedge_sim::report::channels::channel_name;
use selvedge_sim::report::jobs::{JobReport, JobRun, Jobs, SharedChannel};
use selvedge_sim::time::Time;
use selvedge_terminal::Progress;

use super::output::Output;
use super::progress::{Interrupt, words_of};
use super::runner::RunPlan;
use super::usage::Usage;

const HEADING: &str = "Several jobs";

/// Options of further jobs.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct JobOptions {
    /// Run a further job on nodes of its own: 'noise: traffic=uniform load=0.3', 'other: program=halo ranks=64'; may be
    /// given several times
    #[arg(long, value_name = "NAME: KEY=VALUE ...", value_parser = described, help_heading = HEADING)]
    pub job: Vec<JobDescription>,

    /// Run the jobs of a TOML file
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub jobs: Option<PathBuf>,

    /// Send traffic between the nodes that no job uses until the jobs have ended: uniform:0.3; may be given several times
    #[arg(long, value_name = "PATTERN:LOAD", help_heading = HEADING)]
    pub background: Vec<String>,

    /// Several jobs: whether each runs alone, too, for its slowdown
    #[arg(long, value_enum, default_value_t, value_name = "WHETHER", help_heading = HEADING)]
    pub alone: Alone,
}

/// Whether jobs run alone, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Alone {
    /// Built-in programs, traces and traffic, since real processes may have effects that happen twice
    #[default]
    Auto,
    /// No job
    None,
}

fn described(text: &str) -> Result<JobDescription, String> {
    JobDescription::from_words(text).map_err(|error| error.to_string())
}

impl JobOptions {
    pub fn is_empty(&self) -> bool {
        self.job.is_empty() && self.jobs.is_none() && self.background.is_empty()
    }

    /// Returns the jobs of the options: those of the file, then those of the command line.
    pub fn described(&self) -> Result<Vec<JobDescription>, Usage> {
        let mut all = match &self.jobs {
            Some(file) => jobs::load(file).map_err(|error| Usage(format!("--jobs: {error}")))?,
            None => Vec::new(),
        };
        all.extend(self.job.iter().cloned());
        for (number, text) in self.background.iter().enumerate() {
            let name = if number == 0 { "background".to_owned() } else { format!("background-{}", number + 1) };
            let job = JobDescription::background(&name, text);
            all.push(job.map_err(|error| Usage(format!("--background {text}: {}", error.problem)))?);
        }
        Ok(all)
    }
}

/// A job of a run with several.
pub struct JobPlan {
    pub description: JobDescription,
    pub seed: u64,
    /// The node of each rank.
    pub nodes: Vec<u32>,
    /// `None`: the ranks are processes.
    pub prepared: Option<Prepared>,
}

/// Places and prepares the jobs of a run.
pub fn plan(machine: &Arc<Machine>, descriptions: Vec<JobDescription>, seed: u64) -> Result<Vec<JobPlan>, Usage> {
    let usage = |error: jobs::JobError| Usage(error.to_string());
    for (at, job) in descriptions.iter().enumerate() {
        if descriptions[..at].iter().any(|other| other.name == job.name) {
            return Err(usage(job.error(JobProblem::SameName)));
        }
    }
    let seeds: Vec<u64> = descriptions.iter().map(|job| job.seed(seed)).collect();
    let places = jobs::placing::place_jobs(&machine.topology, &descriptions, &seeds).map_err(usage)?;
    let mut plans = Vec::new();
    for ((description, seed), nodes) in descriptions.into_iter().zip(seeds).zip(places) {
        let prepared =
            description.prepare(machine, &nodes, seed).map_err(|problem| usage(description.error(problem)))?;
        if !plans.is_empty() && prepared.as_ref().is_some_and(|prepared| prepared.needs.groups > 0) {
            return Err(usage(description.error(JobProblem::Switches)));
        }
        plans.push(JobPlan { description, seed, nodes, prepared });
    }
    Ok(plans)
}

impl JobPlan {
    /// Makes its ranks. `None`: they are processes.
    pub fn tasks(&self, machine: &Arc<Machine>) -> Option<Tasks> {
        self.prepared.as_ref().map(|prepared| prepared.tasks(self.nodes.len() as u32, machine))
    }

    pub fn span(&self, variation: Variation) -> JobSpan {
        JobSpan {
            ranks: self.nodes.len() as u32,
            start: self.description.start,
            background: self.description.background,
            variation: Variation { seed: self.seed, ..variation },
        }
    }
}

/// Runs each job of the foreground alone on its nodes. `None`: it does not run alone, or did not end.
pub fn alone(plan: &RunPlan, output: &Output, interrupt: &Interrupt) -> Result<Vec<Option<JobRun>>> {
    let mut line = Progress::polled(output.quiet);
    let mut runs = Vec::new();
    for (number, job) in plan.jobs.iter().enumerate() {
        let runs_alone = plan.jobs.len() > 1 && !job.description.background && !interrupt.is_set();
        let Some(mut tasks) = job.tasks(&plan.machine).filter(|_| runs_alone) else {
            runs.push(None);
            continue;
        };
        let aggregation = plan.aggregation.clone().filter(|_| number == 0);
        if let Some(aggregation) = &aggregation {
            tasks.grant(aggregation);
        }
        let options = Options {
            placement: job.nodes.clone(),
            jobs: vec![job.span(plan.variation)],
            aggregation,
            deaths: if number == 0 { plan.deaths.clone() } else { Vec::new() },
            ..plan.options()
        };
        let simulation = Simulation::new(plan.machine.clone(), tasks, options);
        let mut simulation = simulation.map_err(|error| Usage(error.to_string()))?;
        let outcome = simulation.run(&mut |view| {
            line.update(|seconds| format!("{} alone: {}", job.description.name, words_of(&view.progress, seconds)));
            !interrupt.is_set()
        });
        let results = simulation.ranks().results();
        runs.push((outcome.end == End::Completed).then(|| job_run(job, &outcome, (0, 0), results)));
    }
    Ok(runs)
}

/// Returns a job's part of a run, in which it has this number and this first rank.
fn job_run(job: &JobPlan, outcome: &Outcome, (number, first): (usize, u32), results: Results) -> JobRun {
    let ends = &outcome.ended[first as usize..][..job.nodes.len()];
    let last = ends.iter().copied().collect::<Option<Vec<Time>>>().and_then(|ends| ends.into_iter().max());
    let time = last.map(|last| last.saturating_sub(job.description.start)).filter(|_| !job.description.background);
    JobRun { time, counts: outcome.statistics.jobs.get(number).cloned().unwrap_or_default(), results }
}

/// Makes the report on the jobs of a run, without the results of their programs.
pub fn report(
    plan: &RunPlan,
    outcome: &Outcome,
    network: &dyn Counted,
    by_job: Option<&Arc<Mutex<FabricByJob>>>,
) -> Jobs {
    let by_job = by_job.map(|by_job| by_job.lock().unwrap_or_else(PoisonError::into_inner).clone());
    let mut first = 0;
    let reports = plan.jobs.iter().enumerate().map(|(number, job)| {
        let JobPlan { description, seed, nodes, .. } = job;
        let run = job_run(job, outcome, (number, first), Results::default());
        let ranks = nodes.len() as u32;
        let load = match &description.work {
            Work::Traffic(traffic) => {
                let last = run.time.map_or(outcome.time, |time| description.start + time);
                let sources = f64::from(traffic.sources(&plan.machine, nodes));
                let time = last.saturating_sub(description.start).as_ns_f64() * sources;
                let busy = traffic.busy(&plan.machine).as_ns_f64() * run.counts.messages as f64;
                Some((traffic.load, if time > 0.0 { busy / time } else { 0.0 }))
            }
            Work::Program { .. } | Work::Command(_) => None,
        };
        let report = JobReport {
            name: description.name.clone(),
            what: description.work_words(),
            first_rank: first,
            ranks,
            nodes: nodes.iter().collect::<BTreeSet<_>>().len() as u32,
            start: description.start,
            seed: *seed,
            background: description.background,
            load,
            run,
            alone: None,
            packets: by_job.as_ref().and_then(|by_job| by_job.jobs.get(number).copied()),
            results_x: description.results_over().to_owned(),
        };
        first += ranks;
        report
    });
    let jobs = reports.collect();
    let shared = by_job.map(|by_job| {
        let all = by_job.shared();
        let share = |busy: &Time| busy.0 as f64 / outcome.time.0.max(1) as f64;
        let channel = |&channel: &u32| SharedChannel {
            name: channel_name(network.topology(), channel),
            busy: by_job.of_channel(channel).iter().map(share).collect(),
        };
        (all.iter().take(SHARED_SHOWN).map(channel).collect(), all.len() as u64)
    });
    Jobs { jobs, shared }
}

/// Shared channels that the report names.
const SHARED_SHOWN: usize = 8;
