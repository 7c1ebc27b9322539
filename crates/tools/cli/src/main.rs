// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The `selvedge` command.
//!
//! Each subcommand is a module with `Args` and `main(Args) -> anyhow::Result<ExitCode>`; this file only lists them.
//! Exit codes: 2 for an invalid command line, 1 for an error of the command itself; `run` has more (see [`run`]).

mod aggregation;
mod bench;
mod choice;
mod daemon;
mod daemon_page;
mod demo;
mod doctor;
mod env;
mod fabric;
mod fabric_check;
mod info;
mod json;
mod manual;
mod mpirun;
mod np;
mod palms;
mod registers;
mod rtl;
mod run;
mod settings;
mod sim;
mod study;
mod top;
mod tree_files;
mod validate;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

/// A network interface for parallel programs, and the fabric behind it.
#[derive(Parser)]
#[command(name = "selvedge", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Run(run::Args),
    Sim(Box<sim::Args>),
    Study(study::Args),
    Validate(validate::Args),
    Mpirun(mpirun::Args),
    Env(env::Args),
    Top(top::Args),
    Registers(registers::Args),
    Rtl(rtl::Args),
    Info(info::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Demo(demo::Args),
    Manager(aggregation::ManagerArgs),
    Aggregator(aggregation::AggregatorArgs),
    Daemon(daemon::Args),
    Fabric(fabric::Args),
    Palms(palms::Args),
    Completions(manual::CompletionsArgs),
    #[command(hide = true)]
    ManualPages(manual::ManualPagesArgs),
    #[command(hide = true)]
    Agent(run::AgentArgs),
    #[command(hide = true)]
    Window(run::WindowArgs),
    #[command(hide = true)]
    Probe(doctor::ProbeArgs),
}

fn main() -> ExitCode {
    let command = Cli::parse_from(np::spelled_out(std::env::args_os(), &Cli::command())).command;
    if settings::check(&command).is_err() {
        return ExitCode::from(settings::EXIT);
    }
    let done = match command {
        Command::Run(args) => run::main(args),
        Command::Sim(args) => sim::main(*args),
        Command::Study(args) => study::main(args),
        Command::Validate(args) => validate::main(args),
        Command::Mpirun(args) => mpirun::main(args),
        Command::Env(args) => env::main(args),
        Command::Top(args) => top::main(args),
        Command::Registers(args) => registers::main(args),
        Command::Rtl(args) => rtl::main(args),
        Command::Info(args) => info::main(args),
        Command::Doctor(args) => doctor::main(args),
        Command::Bench(args) => bench::main(args),
        Command::Demo(args) => demo::main(args),
        Command::Manager(args) => aggregation::manager_main(args),
        Command::Aggregator(args) => aggregation::aggregator_main(args),
        Command::Daemon(args) => daemon::main(args),
        Command::Fabric(args) => fabric::main(args),
        Command::Palms(args) => palms::main(args),
        Command::Completions(args) => manual::completions_main(&args),
        Command::ManualPages(args) => manual::manual_pages_main(&args),
        Command::Agent(args) => run::agent_main(args),
        Command::Window(args) => run::window_main(args),
        Command::Probe(args) => doctor::probe_main(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("selvedge: {}", selvedge_launcher::with_causes(error.as_ref()));
        ExitCode::FAILURE
    })
}
