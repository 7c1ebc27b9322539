// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --program` and `--list`: built-in programs.

use std::sync::Arc;

use anyhow::{Context, Result};
use selvedge_document::{Document, Section, Table};
use selvedge_sim::jobs::{JobDescription, Work};
use selvedge_sim::machine::Machine;
use selvedge_sim::node::{Aggregation, End};
use selvedge_sim::program::ready::{self, BuiltIn, Parameter};
use serde_json::{Value, json};

use super::arguments::Percent;
use super::command_line::Args;
use super::jobs::{self, Alone};
use super::machines::{self, Described};
use super::output::Output;
use super::program_options::RESERVED;
use super::progress::Interrupt;
use super::usage::Usage;
use super::{runner, threads, traffic};

/// Runs a built-in program.
pub fn run(args: &Args, machine: Arc<Machine>, name: &str) -> Result<u8> {
    ready::find(name).map_err(|error| Usage(format!("--program: {error}")))?;
    let parameters = args.program_options.given.clone();
    let mut job = args.first_job(name, Work::Program { name: name.to_owned(), parameters })?;
    // By default one rank on each node, up to a limit.
    let room = match &job.nodes {
        Some(nodes) => {
            nodes.resolve(&machine.topology).map_err(|error| Usage(format!("--nodes: {error}")))?.len() as u32
        }
        None => machine.topology.rails().nodes(),
    };
    job.ranks = job.ranks.or(Some(room.saturating_mul(args.ranks_per_node).min(RANKS_DEFAULT_MAX)));
    run_jobs(args, machine, job, args.job_options.described()?)
}

/// Runs the jobs of the options, without another program.
pub fn run_described(args: &Args, machine: Arc<Machine>) -> Result<u8> {
    let mut jobs = args.job_options.described()?;
    if jobs.is_empty() {
        return Err(Usage("there is no job; describe one with --job or --jobs".to_owned()).into());
    }
    let first = jobs.remove(0);
    run_jobs(args, machine, first, jobs)
}

/// Runs a job, and others beside it.
fn run_jobs(args: &Args, machine: Arc<Machine>, job: JobDescription, others: Vec<JobDescription>) -> Result<u8> {
    let is_one_program = others.is_empty() && args.job_options.is_empty();
    let (name, over) = (job.work_name(), job.results_over());
    let (prepared, ranks, jobs) = if is_one_program {
        let ranks = job.ranks.unwrap_or(1);
        // Places do not matter to a program.
        let prepared = job.prepare(&machine, &vec![0; ranks as usize], args.seed);
        (prepared.map_err(|error| Usage(error.to_string()))?, ranks, Vec::new())
    } else {
        let jobs = jobs::plan(&machine, std::iter::once(job).chain(others).collect(), args.seed)?;
        (jobs[0].prepared.clone(), jobs[0].nodes.len() as u32, jobs)
    };
    let prepared = prepared.context("a job of processes is not a built-in program")?;
    let settings = prepared.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let mut plan = args.plan(&machine, name, settings.collect(), ranks, VARIATION_DEFAULT, jobs)?;
    let interrupt = Interrupt::listen()?;
    if prepared.needs.groups > 0 {
        args.refuse_beside_switches()?;
        let made =
            Aggregation::avoiding(&machine, &runner::place(&plan)?, prepared.needs.groups, &plan.lost_at_start());
        let aggregation = Arc::new(made.map_err(|error| Usage(error.to_string()))?);
        plan.aggregation = Some(aggregation);
    }
    let threads = threads::of_program(args, &machine, &runner::options(&plan, &args.output, false)?, ranks)?;
    let (mut run, results, exit_code) = if threads > 1 {
        runner::simulate_in_parts(&plan, &prepared, threads, &args.output, &interrupt)?
    } else {
        let mut tasks = prepared.tasks(ranks, &machine);
        plan.aggregation.iter().for_each(|aggregation| tasks.grant(aggregation));
        let finished = runner::simulate(&plan, tasks, &args.output, &interrupt, None)?;
        (finished.run, finished.ranks.results(), finished.exit_code)
    };
    match &mut run.jobs {
        Some(jobs) => {
            jobs.jobs[0].run.results = results;
            if args.job_options.alone == Alone::Auto && run.outcome.end == End::Completed {
                jobs.add_alone(jobs::alone(&plan, &args.output, &interrupt)?);
            }
        }
        None => {
            run.results = results;
            run.results_x = over.to_owned();
        }
    }
    args.output.write_with_links(&run.document(), run.heat.as_ref(), || run.json())?;
    Ok(exit_code)
}

/// Most ranks without `-n`.
const RANKS_DEFAULT_MAX: u32 = 1024;

/// Built-in programs terminate without variation, and their measurements are then exact.
const VARIATION_DEFAULT: Percent = Percent(0.0);

/// Lists machines, programs with their parameters, and patterns.
pub fn list(output: &Output) -> Result<u8> {
    let known = machines::described();
    let mut machines_table = Table::with_heads(&["machine", "what it is", "file"]);
    for machine in &known {
        let file = machine.file.display().to_string();
        machines_table.row([machine.name.clone(), machine.about.clone().unwrap_or_else(|why| why), file]);
    }
    let mut programs = Table::with_heads(&["program", "what it does", "results over"]);
    let mut parameters = Table::with_heads(&["program", "option", "default", "what it is"]);
    for program in ready::all() {
        programs.row([program.name, program.about, program.over]);
        for parameter in program.parameters {
            let about = format!("{}: {}", parameter.about, parameter.kind);
            let default = if parameter.default.is_empty() { "(must be given)" } else { parameter.default };
            parameters.row([program.name, &option(parameter), default, &about]);
        }
    }
    let mut patterns = Table::with_heads(&["pattern", "what it is"]);
    traffic::PATTERNS.iter().for_each(|(name, about)| patterns.row([*name, *about]));
    let sections = vec![
        Section::new("Machines (--machine)").in_summary().table(machines_table),
        Section::new("Programs (--program)").in_summary().table(programs),
        Section::new("Parameters of programs").in_summary().table(parameters),
        Section::new("Patterns of traffic (--traffic)").in_summary().table(patterns),
    ];
    let document = Document { title: "Machines, programs and patterns".to_owned(), about: String::new(), sections };
    output.write(&document, || list_json(&known))?;
    Ok(0)
}

/// The option of a program's parameter.
fn option(parameter: &Parameter) -> String {
    format!("{}{}", if RESERVED.contains(&parameter.name) { "--param " } else { "--" }, parameter.name)
}

fn list_json(known: &[Described]) -> Value {
    let machine = |machine: &Described| {
        let (about, error) = (machine.about.as_ref().ok(), machine.about.as_ref().err());
        json!({ "name": machine.name, "about": about, "error": error, "file": machine.file })
    };
    let parameter = |parameter: &Parameter| {
        let default = Some(parameter.default).filter(|default| !default.is_empty());
        json!({ "name": parameter.name, "option": option(parameter), "default": default, "about": parameter.about,
                "kind": parameter.kind.to_string() })
    };
    let program = |program: &BuiltIn| {
        json!({ "name": program.name, "about": program.about, "results_over": program.over,
                "parameters": program.parameters.iter().map(parameter).collect::<Vec<_>>() })
    };
    let pattern = |(name, about): &(&str, &str)| json!({ "name": name, "about": about });
    json!({
        "machines": known.iter().map(machine).collect::<Vec<_>>(),
        "programs": ready::all().iter().map(program).collect::<Vec<_>>(),
        "patterns": traffic::PATTERNS.iter().map(pattern).collect::<Vec<_>>(),
    })
}
