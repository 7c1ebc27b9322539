// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `--threads`: how many threads simulate a run, and why some runs have one.

use selvedge_sim::machine::Machine;
use selvedge_sim::node::{self, Options};
use selvedge_sim::traffic::undivided;

use super::command_line::Args;
use super::usage::Usage;

/// Nodes of traffic, and ranks of a program, for which another thread is worth its windows.
const NODES_A_THREAD: u32 = 512;
const RANKS_A_THREAD: u32 = 256;

/// Returns the number of threads for traffic.
pub fn of_traffic(args: &Args, machine: &Machine) -> Result<u32, Usage> {
    let fabric = undivided(&machine.topology, &machine.routing, &machine.network);
    let why = match fabric {
        Some(why) => Some((why.words(), "change it by --set")),
        None if args.rerouting(&machine.topology)?.is_some() => {
            Some(("managers that reroute look at the whole fabric", "add --no-reroute"))
        }
        None => observed(args),
    };
    chosen(args, why, machine.topology.nodes() / NODES_A_THREAD)
}

/// Returns the number of threads for a built-in program.
pub fn of_program(args: &Args, machine: &Machine, options: &Options, ranks: u32) -> Result<u32, Usage> {
    let why = node::whole(machine, options).map(|why| (why.words(), why.remedy()));
    chosen(args, why.or_else(|| observed(args)), ranks / RANKS_A_THREAD)
}

/// Real processes have one turn at a time.
pub fn of_processes(args: &Args) -> Result<(), Usage> {
    let why = ("one of the processes runs at a time", "leave it out");
    chosen(args, Some(why), 1).map(|_| ())
}

fn observed(args: &Args) -> Option<(&'static str, &'static str)> {
    let why = ("an observer of packets looks at the whole fabric", "leave its option out");
    args.observing.given().map(|_| why)
}

/// Returns the given number, or the cores, but at most `useful`; 1 where several are impossible. `why`: the reason for
/// that, and the remedy.
fn chosen(args: &Args, why: Option<(&str, &str)>, useful: u32) -> Result<u32, Usage> {
    match (args.threads, why) {
        (Some(threads @ 2..), Some((why, remedy))) => Err(Usage(format!(
            "--threads {threads}: this run is simulated by one thread: {why}; give --threads 1, or {remedy}"
        ))),
        (Some(threads), _) => Ok(threads),
        (None, Some(_)) => Ok(1),
        (None, None) => {
            let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
            Ok(u32::try_from(cores).unwrap_or(1).min(useful).max(1))
        }
    }
}
