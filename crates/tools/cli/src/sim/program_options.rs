// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Parameters of built-in programs as options of this command, such as `--bytes 64`.
//!
//! The parser accepts the parameters of all programs. A later step checks them against the chosen program.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command};
use selvedge_sim::program::ready;

use super::arguments;

/// Given parameters, by name.
#[derive(Clone, Debug, Default)]
pub struct ProgramOptions {
    pub given: Vec<(String, String)>,
}

const PARAM: &str = "param";
const HEADING: &str = "Built-in programs";

/// Options of the command and the parser. A parameter with one of these names is set with --param.
pub const RESERVED: [&str; 60] = [
    "ranks",
    "command",
    "what",
    "machine",
    "program",
    "traffic",
    "study",
    "describe",
    "routes",
    "routes-from",
    "list",
    "np",
    "ranks-per-node",
    "placement",
    "nodes",
    "job",
    "jobs",
    "background",
    "alone",
    "seed",
    "threads",
    "variation",
    "time-limit",
    "region",
    "compute",
    "env",
    "tag-output",
    "fail-link",
    "fail-node",
    "fail-router",
    "no-reroute",
    "fault-detection",
    "kill",
    "keep-going",
    "loss",
    "corruption",
    "set",
    "load",
    "message-bytes",
    "skip",
    "measured",
    "drain",
    "source-packets",
    "stop-at-deadlock",
    "deadlock-delay",
    "sample",
    "dump-link",
    "statistics",
    "link-fault",
    "link-correction",
    "json",
    "html",
    "svg",
    "trace",
    "otf2",
    "trace-limit",
    "quiet",
    "verbose",
    "param",
    "help",
];

/// Each parameter's name, with the programs that have it.
fn parameters() -> BTreeMap<&'static str, Vec<&'static str>> {
    let mut all: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
    for program in ready::all() {
        for parameter in program.parameters.iter().filter(|parameter| !RESERVED.contains(&parameter.name)) {
            all.entry(parameter.name).or_default().push(program.name);
        }
    }
    all
}

impl clap::Args for ProgramOptions {
    fn augment_args(command: Command) -> Command {
        let own = Arg::new(PARAM)
            .long(PARAM)
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .value_parser(arguments::parameter)
            .help("Set a parameter of the program; --NAME VALUE does the same")
            .help_heading(HEADING);
        parameters().into_iter().fold(command.arg(own), |command, (name, programs)| {
            command.arg(
                Arg::new(name)
                    .long(name)
                    .value_name("VALUE")
                    .action(ArgAction::Append)
                    .help(format!("Of {}; see --list", programs.join(", ")))
                    .hide_short_help(true)
                    .help_heading(HEADING),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for ProgramOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<ProgramOptions, clap::Error> {
        let mut given: Vec<(String, String)> = matches.get_many(PARAM).unwrap_or_default().cloned().collect();
        for name in parameters().into_keys() {
            let values = matches.get_many::<String>(name).unwrap_or_default();
            given.extend(values.map(|value| (name.to_owned(), value.clone())));
        }
        Ok(ProgramOptions { given })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ProgramOptions {
    pub fn is_empty(&self) -> bool {
        self.given.is_empty()
    }
}
