// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge doctor`: finds what Selvedge needs on this machine, tries it, and says what to do about what is wrong.
//!
//! Each finding is a line: state, subject, what was found, what to do. It is printed as soon as it is there.
//!
//! Exit code: 0 if two processes of this machine send each other data over Selvedge, and no finding has stopped that;
//! else 1. Findings about MPIs, libfabric and several hosts change nothing about it.
//!
//! Invariants
//! 1. A trial is a child with a time limit ([`trial`]). Its library may crash or hang.
//! 2. Files are made only in a temporary folder, which is removed at the end, or by a later run after a signal.

mod finding;
mod libfabrics;
mod machine;
mod mpis;
mod pairs;
mod probe;
mod trial;

pub use probe::{ProbeArgs, main as probe_main};

use std::process::ExitCode;

use anyhow::Result;

use finding::Report;
use trial::Trials;

/// Find what is wrong on this machine: MPIs, libfabric, shared memory, limits.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// Print one JSON object with all findings
    #[arg(long)]
    json: bool,
}

const AFTER_HELP: &str = "\
Each line has a state (ok, note, problem), a subject, what was found and, after ->, what to do. A note is something \
that is missing or slow; a problem is something that does not work.

Whether libraries load and processes reach each other is tried with two real processes; each trial ends within 30 \
seconds. Nothing is installed or changed.

Exit code: 0 if two processes of this machine can send each other data over Selvedge, else 1. MPIs, libfabric and \
several hosts do not count for it.";

pub fn main(args: Args) -> Result<ExitCode> {
    let mut report = Report::new(args.json);
    report.add(machine::selvedge());
    report.add(machine::cores());
    report.add(machine::container());
    report.add(machine::shared_memory());
    let trials = match Trials::new() {
        Ok(trials) => Some(trials),
        Err(finding) => {
            report.add(finding);
            None
        }
    };
    if let Some(trials) = &trials {
        report.add(machine::attach(trials));
    }
    report.add(machine::yama());
    for finding in machine::limits() {
        report.add(finding);
    }
    report.add(machine::remote_shell());
    if let Some(trials) = &trials {
        let pair = pairs::shared_memory(trials);
        report.add(pair.clone());
        let (mpis, strangers) = mpis::find();
        let mut used = Vec::new();
        for mpi in &mpis {
            let (finding, libfabric) = mpi.examine(trials);
            report.add(finding.after(&pair));
            used.extend(libfabric);
        }
        for finding in strangers.into_iter().chain(mpis::other_launchers()) {
            report.add(finding);
        }
        let (findings, is_there) = libfabrics::examine(trials, &used);
        for finding in findings {
            report.add(finding);
        }
        if is_there {
            report.add(pairs::two_hosts(trials).after(&pair));
        }
    }
    report.end()
}
