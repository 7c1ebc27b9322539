// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge sim -- PROGRAM`: runs unmodified programs as the ranks.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use selvedge_host::record;
use selvedge_launcher::simulated::{Launch, launch};
use selvedge_sim::jobs::Work;
use selvedge_sim::machine::{FullMailbox, Machine};
use selvedge_sim::node::{Aggregation, AggregationError, End};
use selvedge_sim::program::ready;
use selvedge_sim::report::Run;
use selvedge_sim::time::Time;
use selvedge_sim_protocol::{Costs, units};

use super::arguments::Percent;
use super::command_line::Args;
use super::jobs::{self, Alone};
use super::livelock::Warner;
use super::progress::Interrupt;
use super::runner;
use super::usage::Usage;

/// Large enough that alternating ranks terminate, and small enough that few steps differ by more than two percent.
const VARIATION_DEFAULT: Percent = Percent(1.0);

/// Communicators that the switches reduce for, by default.
const GROUPS_DEFAULT: u32 = 16;

/// The job's share of the switches' aggregation nodes. Without a number of groups, as many as there is room for.
fn share(machine: &Machine, placement: &[u32], groups: Option<u32>, lost: &[u32]) -> Result<Aggregation, Usage> {
    let mut wanted = groups.unwrap_or(GROUPS_DEFAULT);
    loop {
        match Aggregation::avoiding(machine, placement, wanted, lost) {
            Err(AggregationError::TooLarge { .. }) if groups.is_none() && wanted > 1 => wanted /= 2,
            made => return made.map_err(|error| Usage(error.to_string())),
        }
    }
}

/// Prepares a folder for traces; returns the settings for the ranks to write there.
fn record(folder: &Path, rank: Option<u32>, ranks: u32) -> Result<Vec<(String, String)>> {
    let wrong = |why: String| Usage(format!("--record {}: {why}", folder.display()));
    if let Some(rank) = rank.filter(|&rank| rank >= ranks) {
        return Err(wrong(format!("no rank {rank}; the ranks are 0 to {}", ranks.saturating_sub(1))).into());
    }
    std::fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
    let folder = folder.canonicalize().map_err(|error| wrong(error.to_string()))?;
    let is_trace = |file: &std::fs::DirEntry| file.path().extension().is_some_and(|extension| extension == "trace");
    if std::fs::read_dir(&folder).map_err(|error| wrong(error.to_string()))?.flatten().any(|file| is_trace(&file)) {
        return Err(wrong("it has traces already; name an empty folder".into()).into());
    }
    // The simulator runs the ranks' NICs, so it records too.
    record::record_to(&folder, rank);
    Ok(record::settings(&folder, rank))
}

/// The remedy where the name of a built-in program was given as that of a file.
fn builtin_hint(program: &str) -> String {
    match ready::find(program) {
        Ok(_) => format!("; --program {program} runs the built-in program of this name"),
        Err(_) => String::new(),
    }
}

/// A finished run, before its outputs are written.
pub struct Finished {
    pub run: Run,
    pub exit_code: u8,
}

pub fn run(args: &Args, machine: Arc<Machine>) -> Result<u8> {
    match finish(args, machine, None)? {
        Ok(Finished { run, exit_code }) => {
            args.output.write_with_links(&run.document(), run.heat.as_ref(), || run.json())?;
            Ok(exit_code)
        }
        Err(exit_code) => Ok(exit_code),
    }
}

/// Runs the ranks to their end. `output` takes what they print; `None`: standard output. The inner error is the exit
/// code for a program that could not be started, which a message has explained.
pub fn finish(args: &Args, machine: Arc<Machine>, output: Option<Arc<File>>) -> Result<Result<Finished, u8>> {
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let (program, arguments) =
        words.split_first().map_or((String::new(), &[][..]), |(first, rest)| (first.clone(), rest));
    let mut parameters: Vec<_> = arguments.iter().map(|word| (String::new(), word.clone())).collect();
    if args.compute.parts_per_million() > 0 {
        parameters.push(("compute".to_owned(), args.compute.0.to_string()));
    }
    let ranks = args.ranks.unwrap_or(1);
    let jobs = match args.job_options.described()? {
        others if others.is_empty() => Vec::new(),
        others => {
            let mut first = args.first_job(&program, Work::Command(words.clone()))?;
            first.ranks = Some(ranks);
            jobs::plan(&machine, std::iter::once(first).chain(others).collect(), args.seed)?
        }
    };
    let mut plan = args.plan(&machine, program, parameters, ranks, VARIATION_DEFAULT, jobs)?;
    if let Some(groups) = args.aggregation {
        args.refuse_beside_switches()?;
        plan.aggregation = Some(Arc::new(share(&machine, &runner::place(&plan)?, groups, &plan.lost_at_start())?));
    }
    crate::settings::check_assignments(&args.env);
    let mut env = args.env.clone();
    if let Some(folder) = &args.record {
        env.extend(record(folder, args.record_rank, plan.ranks)?);
    }
    let launched = launch(Launch {
        ranks: plan.ranks,
        command: args.command.clone(),
        env,
        tag_output: args.tag_output,
        keep_going: args.keep_going,
        output,
        grant: plan.aggregation.as_ref().map(|aggregation| aggregation.granted.save()),
        costs: Costs {
            call_ps: machine.local_command().0,
            poll_ps: machine.host.poll.0,
            clock_ps: machine.host.clock_read.0,
            compute_ppm: args.compute.parts_per_million(),
            copy_ps_per_kib: Time::of_bytes(1024, machine.host.copy_bytes_per_s).0,
            tlb_entries: machine.limits.tlb_entries.unwrap_or(0).into(),
            tlb_ways: machine.limits.tlb_ways.unwrap_or(1).into(),
            units: match machine.nic.full_mailbox {
                FullMailbox::Drop => 0,
                FullMailbox::Block | FullMailbox::Credits => units::MAILBOXES_REFUSE,
            } | if machine.graph.has_units() { units::HAS_PATHS } else { 0 },
            memory_ps: machine.host.memory_access.0,
            lock_waiters: machine.limits.lock_waiters.unwrap_or(0).into(),
        },
    });
    let processes = match launched {
        Ok(processes) => processes,
        Err(error) => {
            eprintln!("selvedge sim: {error}{}", builtin_hint(&plan.program));
            return Ok(Err(error.exit_code()));
        }
    };
    // The launcher handles signals here: Ctrl-C ends the job, and with it the run.
    let finished = runner::simulate(&plan, processes, &args.output, &Interrupt::default(), Some(Warner::default()))?;
    let (mut run, job) = (finished.run, finished.ranks.into_launcher());
    let overhead = job.overhead();
    if let Some(wall) = run.wall.as_mut().filter(|_| overhead.turns > 0) {
        wall.more.push(("us_per_turn_of_a_rank".to_owned(), overhead.wall_ns as f64 / overhead.turns as f64 / 1e3));
    }
    run.notes.extend(job.notes());
    let is_completed = run.outcome.end == End::Completed;
    let over = job.over();
    let ended = job.finish();
    if let Some(jobs) = run.jobs.as_mut().filter(|_| args.job_options.alone == Alone::Auto && is_completed) {
        jobs.add_alone(jobs::alone(&plan, &args.output, &Interrupt::listen()?)?);
    }
    let exit_code = match (over, finished.exit_code) {
        (Some(code), _) => code,
        (None, 0) => ended,
        (None, code) => code,
    };
    Ok(Ok(Finished { run, exit_code }))
}
