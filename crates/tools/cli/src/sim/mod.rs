// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim`: runs programs, traffic and studies on simulated machines, in virtual time.
//!
//! | file | contents |
//! |---|---|
//! | [`usage`] | errors of the user |
//! | [`arguments`], [`faults`], [`machines`], [`program_options`] | values of the command line |
//! | [`command_line`] | the command line, and its machine and plan |
//! | [`builtin`] | built-in programs |
//! | [`real`] | unmodified programs |
//! | [`jobs`] | several jobs in one run |
//! | [`runner`] | common to both: ranks on a machine, and their report |
//! | [`livelock`] | the warning about ranks that repeat themselves |
//! | [`describe`] | describes the machine itself |
//! | [`routes`] | routing strings between two nodes |
//! | [`traffic`] | traffic on the network alone; the study of seed 002 |
//! | [`observing`], [`statistics`] | observers of the network: samples, dumps, plug-ins |
//! | [`progress`], [`output`], [`text`] | progress; outputs; tables for a terminal |
//!
//! Exit code: the first exit code of a rank that is not 0 (137 for a rank that --kill killed); 1 when ranks are stuck
//! (a table shows the reason for each) or the command itself failed; 2 for an invalid command line or machine; 124 at
//! the limit of virtual time; 130 after Ctrl-C, with the report still written; 126 and 127 for a program that cannot be
//! started or found.
//!
//! Invariant: two runs write the same, except lines that begin with "wall" and JSON under "wall".

mod arguments;
mod builtin;
mod command_line;
mod describe;
mod faults;
mod jobs;
mod livelock;
pub mod machines;
mod observing;
mod output;
mod program_options;
mod progress;
mod real;
mod routes;
mod runner;
mod statistics;
pub mod text;
mod threads;
mod traffic;
mod usage;
mod watched;

use std::ffi::OsString;
use std::fs::File;
use std::iter;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Parser;
use selvedge_document::{Document, html};
use selvedge_launcher::KeptMask;

use command_line::FaultDetection;
use real::Finished;
use runner::NetworkModel;

pub use command_line::Args;
pub use output::check_file;
pub use progress::Interrupt;
pub use runner::{EXIT_INTERRUPTED, memory_peak_bytes};
pub use usage::Usage;

const EXIT_USAGE: u8 = 2;

pub fn main(args: Args) -> Result<ExitCode> {
    let done = args.output.check().map_err(Into::into).and_then(|()| dispatch(&args));
    match done {
        Err(error) if error.is::<Usage>() => {
            eprintln!("selvedge sim: {error:#}");
            Ok(ExitCode::from(EXIT_USAGE))
        }
        done => Ok(ExitCode::from(done?)),
    }
}

fn dispatch(args: &Args) -> Result<u8> {
    if args.list {
        return builtin::list(&args.output);
    }
    if args.program.is_none() && !args.program_options.is_empty() {
        return Err(Usage(
            "parameters of programs, such as --param, are for --program; add --program, or leave them out".to_owned(),
        )
        .into());
    }
    let is_alone = args.traffic.is_some() || args.study || args.describe || args.routes.is_some();
    if is_alone && !(args.job_options.is_empty() && args.nodes.is_none()) {
        return Err(Usage(
            "--job, --jobs, --background and --nodes are for programs; leave them out, or describe the traffic as a job: \
             --job 'NAME: traffic=PATTERN load=SHARE'"
                .to_owned(),
        )
        .into());
    }
    // Jobs of the options run ranks, too.
    let runs_ranks = args.program.is_some() || !args.command.is_empty() || !args.job_options.is_empty();
    if args.program.is_none() && args.command.is_empty() && (args.keep_going || !args.kill.is_empty()) {
        return Err(Usage(
            "--kill and --keep-going are for programs, because only programs have ranks; leave them out".to_owned(),
        )
        .into());
    }
    let fails = !(args.fail_link.is_empty() && args.fail_node.is_empty() && args.fail_router.is_empty());
    if (args.study || args.describe || args.routes.is_some()) && fails {
        return Err(Usage(
            "--fail-link, --fail-node and --fail-router are for programs and --traffic; leave them out".to_owned(),
        )
        .into());
    }
    let has_managers = !(args.fail_link.is_empty() && args.fail_router.is_empty());
    if !has_managers && (args.no_reroute || args.fault_detection != FaultDetection::Carrier) {
        return Err(Usage(
            "--no-reroute and --fault-detection are for runs in which a link or a router fails; add --fail-link or \
             --fail-router, or leave them out"
                .to_owned(),
        )
        .into());
    }
    if args.study && args.routes_from.is_some() {
        return Err(Usage("--routes-from: the study has its own machines; leave it out".to_owned()).into());
    }
    if args.network != NetworkModel::Packet && !runs_ranks {
        return Err(Usage(
            "--network message is for programs, because --traffic and --study simulate packets; leave it out"
                .to_owned(),
        )
        .into());
    }
    if args.output.watch.is_some() && (args.study || args.describe || args.routes.is_some()) {
        return Err(Usage("--watch is for programs and --traffic; leave it out".to_owned()).into());
    }
    if !args.command.is_empty() {
        threads::of_processes(args)?;
    }
    if args.variation.is_some() && !runs_ranks {
        return Err(Usage(
            "--variation is for programs, because --traffic and --study simulate no hosts; leave it out".to_owned(),
        )
        .into());
    }
    if args.aggregation.is_some() && args.command.is_empty() {
        return Err(
            Usage("--aggregation is for MPI programs; built-in programs have --algorithm switches".to_owned()).into()
        );
    }
    if args.record.is_some() && args.command.is_empty() {
        return Err(Usage(
            "--record is for real processes, because only their NICs are in files; leave it out".to_owned(),
        )
        .into());
    }
    args.observing.check(args)?;
    if args.study {
        return traffic::study(args);
    }
    let machine = args.load_machine()?;
    if args.describe {
        return describe::describe(&machine, &args.output);
    }
    if let Some(pair) = &args.routes {
        return routes::routes(&machine, pair, args.seed, &args.output);
    }
    if let Some(pattern) = &args.traffic {
        return traffic::run(args, &machine, pattern);
    }
    match &args.program {
        Some(name) => builtin::run(args, machine, name),
        None if args.command.is_empty() => builtin::run_described(args, machine),
        None => real::run(args, machine),
    }
}

/// The report of a run, for a page of another command.
pub struct Report {
    pub document: Document,
    /// The topology, with the heat of its links.
    pub drawn: Option<html::Drawn>,
    pub exit_code: u8,
}

#[derive(Parser)]
struct CommandLine {
    #[command(flatten)]
    args: Args,
}

/// Runs an unmodified program as `selvedge sim` does with these words, which end in `--` and the program. `output` takes
/// what the ranks print. The inner error is the exit code for a program that could not be started, after a message.
///
/// The process must have one thread, so that all signals come to the job.
pub fn report(words: &[OsString], output: File) -> Result<Result<Report, u8>> {
    let name = OsString::from("selvedge sim");
    let mut args = CommandLine::try_parse_from(iter::once(&name).chain(words))?.args;
    args.output.draws_links = true;
    args.output.quiet = true;
    let mask = KeptMask::keep()?;
    let finished = real::finish(&args, args.load_machine()?, Some(Arc::new(output)))?;
    drop(mask);
    Ok(finished.map(|Finished { run, exit_code }| {
        let document = run.document();
        let drawn = run.heat.as_ref().map(|heat| output::drawn(heat, &document.title));
        Report { document, drawn, exit_code }
    }))
}

#[cfg(test)]
#[path = "sim_tests.rs"]
mod tests;
