// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many programs at one NIC, and mailboxes that become full (seed 002, chapter 6): the built-in programs `commands` and
//! `crossfire`.

use std::sync::Arc;

use super::super::lab::ValidateError;
use crate::machine::Machine;
use crate::node::{End, Options, Outcome, Simulation};
use crate::program::ready;

/// Results of contention for one NIC.
#[derive(Clone, Copy, Debug)]
pub struct Contention {
    /// Commands a second, of all programs.
    pub rate: f64,
    /// Jain's index of the programs' rates.
    pub fairness: f64,
    /// Refused attempts, and commands that waited for a place.
    pub refused: u64,
    pub waited: u64,
    /// Longest time from the first offer of a command until the queue had it.
    pub longest_ns: f64,
}

/// Sends 200 messages of 8 bytes from each of n programs of one node.
pub fn contention(machine: &Arc<Machine>, programs: u32) -> Result<Contention, ValidateError> {
    let placement = (0..2 * programs).map(|rank| u32::from(rank >= programs)).collect();
    let outcome = run(machine, "commands", 2 * programs, placement)?;
    if outcome.end != End::Completed || outcome.code() != 0 {
        return Err(ValidateError::Interrupted);
    }
    let senders = &outcome.commands[..programs as usize];
    let (s, longest) = (&outcome.statistics, senders.iter().map(|rank| rank.waited_longest).max());
    Ok(Contention {
        rate: senders.iter().filter_map(|rank| rank.rate()).sum(),
        fairness: outcome.fairness.unwrap_or(0.0),
        refused: s.commands_refused,
        waited: s.commands_waited,
        longest_ns: longest.unwrap_or_default().as_ns_f64(),
    })
}

/// Sends between two nodes more than their mailboxes hold; they receive when refused. True: they deadlock.
pub fn crossfire(machine: &Arc<Machine>) -> Result<bool, ValidateError> {
    let outcome = run(machine, "crossfire", 2, Vec::new())?;
    match outcome.end {
        End::Stuck(_) => Ok(true),
        End::Completed if outcome.code() == 0 => Ok(false),
        _ => Err(ValidateError::Interrupted),
    }
}

fn run(machine: &Arc<Machine>, name: &'static str, ranks: u32, placement: Vec<u32>) -> Result<Outcome, ValidateError> {
    let arguments = match name {
        "crossfire" => vec![("refused".to_owned(), "receive".to_owned())],
        _ => Vec::new(),
    };
    let prepared = ready::find(name).and_then(|ready| ready.prepare(ranks, machine, &arguments));
    let prepared = prepared.map_err(|error| ValidateError::Unfinished {
        what: name,
        machine: machine.name.clone(),
        ranks,
        how: error.to_string(),
    })?;
    let options = Options { placement, ..Options::default() };
    let simulation = Simulation::new(machine.clone(), prepared.tasks(ranks, machine), options);
    let mut simulation =
        simulation.map_err(|error| ValidateError::Simulation { what: name, machine: machine.name.clone(), error })?;
    Ok(simulation.run(&mut |_| true))
}
