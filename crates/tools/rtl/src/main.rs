// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `selvedge-rtl`: the program behind `selvedge rtl`. It is separate because it contains Verilator's units.
//!
//! Exit codes: 1 when RTL and software differ, or the RTL is not built; 2 for an invalid command line, and for a file
//! that is no trace or cannot be read.

mod program;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use selvedge_rtl::replay::{self, Options, ReplayError};
use selvedge_terminal::Progress;
use selvedge_trace::Reader;

/// The engine in SystemVerilog, beside the software NIC.
#[derive(Parser)]
#[command(name = "selvedge rtl", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Replay(ReplayArgs),
    Report(program::report::Args),
}

/// Run a recorded program's NIC transitions through the RTL and through the software NIC, and compare them at each
/// command
///
/// Traces come from `selvedge sim --record FOLDER`, or from a live run with SELVEDGE_RECORD=FOLDER. The first
/// difference ends the replay and shows both states.
#[derive(clap::Args)]
struct ReplayArgs {
    /// The traces, one file for each NIC
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<PathBuf>,

    /// Replay only this unit; may be given several times
    #[arg(long = "unit", value_name = "UNIT", value_parser = clap::builder::PossibleValuesParser::new(replay::units()))]
    units: Vec<String>,

    /// Cycles between the end of a command and the next one; 0: back to back
    #[arg(long, value_name = "CYCLES", default_value_t = 0)]
    gap: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

const EXIT_INPUT: u8 = 2;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Replay(args) => replay_all(&args),
        Command::Report(args) => program::report::main(&args),
    }
}

fn replay_all(args: &ReplayArgs) -> ExitCode {
    let options = Options { units: args.units.clone(), gap: args.gap };
    let mut all = Vec::new();
    let progress = Progress::steps(args.traces.len());
    for path in &args.traces {
        progress.say(path.display().to_string());
        let done = Reader::open(path).map_err(ReplayError::from).and_then(|trace| replay::replay(trace, &options));
        match done {
            Ok(report) if args.json => {
                let mut one = report.json();
                one["trace"] = path.display().to_string().into();
                all.push(one);
            }
            Ok(report) => progress.aside(|| print(&format!("{}: {report}", path.display()))),
            Err(error) => {
                progress.note(&format!("selvedge rtl: {}: {error}", path.display()));
                return match error {
                    ReplayError::Trace(_) => ExitCode::from(EXIT_INPUT),
                    ReplayError::Missing(_) | ReplayError::Lockstep { .. } => ExitCode::FAILURE,
                };
            }
        }
        progress.step();
    }
    drop(progress);
    if args.json {
        print(&format!("{:#}\n", serde_json::Value::from(all)));
    }
    ExitCode::SUCCESS
}

/// Writes to standard output. Nothing can be said of an output that takes nothing.
fn print(text: &str) {
    let _ = selvedge_terminal::print(text);
}
