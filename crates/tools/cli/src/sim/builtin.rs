// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim --program` and `--list`: built-in programs.

use std::sync::Arc;

use anyhow::Result;
use selvedge_sim::machine::Machine;
use selvedge_sim::node::Aggregation;
use selvedge_sim::program::ready::{self, BuiltIn, Parameter};
use selvedge_sim::report::{Document, Section, Table};
use serde_json::{Value, json};

use super::arguments::Percent;
use super::command_line::Args;
use super::machines::{self, Described};
use super::output::Output;
use super::program_options::RESERVED;
use super::progress::Interrupt;
use super::usage::Usage;
use super::{runner, traffic};

/// Runs a built-in program.
pub fn run(args: &Args, machine: Arc<Machine>, name: &str) -> Result<u8> {
    let program: &BuiltIn = ready::find(name).map_err(|error| Usage(format!("--program: {error}")))?;
    // By default one rank on each node of the machine, up to a limit.
    let room = machine.topology.nodes().saturating_mul(args.ranks_per_node);
    let ranks = args.ranks.unwrap_or(room.min(RANKS_DEFAULT_MAX));
    let mut given = args.program_options.given.clone();
    // The command's seed is also the program's, unless the program gets its own.
    let has = |parameters: &[(String, String)], name| parameters.iter().any(|(given, _)| given == name);
    if program.parameters.iter().any(|parameter| parameter.name == "seed") && !has(&given, "seed") {
        given.push(("seed".to_owned(), args.seed.to_string()));
    }
    let prepared = program.prepare(ranks, &machine, &given);
    let prepared = prepared.map_err(|error| Usage(error.to_string()))?;
    let settings = prepared.settings.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let mut plan = args.plan(&machine, program.name.to_owned(), settings.collect(), ranks, VARIATION_DEFAULT)?;
    let interrupt = Interrupt::listen()?;
    let mut tasks = prepared.tasks(ranks, &machine);
    if prepared.needs.groups > 0 {
        args.refuse_beside_switches()?;
        let made =
            Aggregation::avoiding(&machine, &runner::place(&plan)?, prepared.needs.groups, &plan.lost_at_start());
        let aggregation = Arc::new(made.map_err(|error| Usage(error.to_string()))?);
        tasks.grant(&aggregation);
        plan.aggregation = Some(aggregation);
    }
    let finished = runner::simulate(&plan, tasks, &args.output, &interrupt, None)?;
    let mut run = finished.run;
    run.results = finished.ranks.results().clone();
    run.results_x = program.over.to_owned();
    args.output.write_with_links(&run.document(), run.heat.as_ref(), || run.json())?;
    Ok(finished.exit_code)
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
