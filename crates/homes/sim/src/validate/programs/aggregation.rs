// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reductions of all ranks: in the switches, and by the hosts.

use std::sync::Arc;

use super::super::lab::{Experiment, Notes, ValidateError};
use crate::machine::Machine;
use crate::program::aggregation::Reduce;
use crate::program::collectives::Sum;
use crate::program::{Needs, Process};
use crate::time::Time;

/// Reductions before the clock starts, and measured reductions.
const WARM_UP: u64 = 2;
const ROUNDS: u64 = 10;

/// Returns microseconds of an all-reduce of n bytes (whole words), for each size: from the start of the first rank to
/// the end of the last, the mean of several, one after the other. `library`: time that the MPI above adds to each call.
pub fn in_switches(
    machine: &Arc<Machine>,
    ranks: u32,
    sizes: &[u64],
    library: Time,
) -> Result<Vec<f64>, ValidateError> {
    let longest = sizes.iter().copied().max().unwrap_or(0);
    let needs = Needs { memory_bytes: longest.max(8) as usize, groups: 1, ..Needs::default() };
    let notes = Notes::sized(sizes.len());
    let experiment = Experiment { what: "a reduction in the switches", machine, ranks, needs, nodes: &[] };
    experiment.run(|process| {
        let (sizes, notes) = (sizes.to_vec(), notes.clone());
        Box::pin(async move {
            let members: Vec<u32> = (0..process.size()).collect();
            let group = match process.join_group(0, &members).await {
                Ok(group) => group,
                Err(failure) => return process.wrong(format!("no group: {failure:?}")),
            };
            for (place, &bytes) in sizes.iter().enumerate() {
                let mut start = Time::ZERO;
                for round in 0..WARM_UP + ROUNDS {
                    if round == WARM_UP {
                        start = process.now();
                    }
                    write_words(&process, bytes);
                    process.spend(library);
                    if let Err(failure) = process.reduce_in_network(&group, Reduce::WORDS, 0, bytes).await {
                        return process.wrong(format!("{bytes} bytes: {failure:?}"));
                    }
                    if !are_sums(&process, bytes) {
                        return process.wrong(format!("{bytes} bytes: a wrong sum"));
                    }
                }
                note(&notes, place, start, &process);
            }
            0
        })
    })?;
    Ok(mean(&notes.take()))
}

/// Like [`in_switches`], by the hosts.
pub fn by_hosts(
    machine: &Arc<Machine>,
    ranks: u32,
    sizes: &[u64],
    algorithm: Sum,
    library: Time,
) -> Result<Vec<f64>, ValidateError> {
    let needs = Needs { memory_bytes: 8, ..Needs::default() };
    let notes = Notes::sized(sizes.len());
    let experiment = Experiment { what: "a reduction by hosts", machine, ranks, needs, nodes: &[] };
    experiment.run(|process| {
        let (sizes, notes) = (sizes.to_vec(), notes.clone());
        Box::pin(async move {
            for (place, &bytes) in sizes.iter().enumerate() {
                let mut start = Time::ZERO;
                for round in 0..WARM_UP + ROUNDS {
                    if round == WARM_UP {
                        start = process.now();
                    }
                    let mut words = words_of(process.rank(), bytes);
                    process.spend(library);
                    process.allreduce(algorithm, 7, &mut words).await;
                    if words != sums(process.size(), bytes) {
                        return process.wrong(format!("{bytes} bytes: a wrong sum"));
                    }
                }
                note(&notes, place, start, &process);
            }
            0
        })
    })?;
    Ok(mean(&notes.take()))
}

/// Keeps the time of the slowest rank.
fn note(notes: &Notes, place: usize, start: Time, process: &Process) {
    notes.most(place, (process.now() - start).as_us_f64());
}

fn mean(notes: &[f64]) -> Vec<f64> {
    notes.iter().map(|all| all / ROUNDS as f64).collect()
}

fn word(rank: u32, at: u64) -> u64 {
    u64::from(rank) * 1_000_003 + at
}

fn words_of(rank: u32, bytes: u64) -> Vec<u8> {
    (0..bytes / 8).flat_map(|at| word(rank, at).to_le_bytes()).collect()
}

fn sums(size: u32, bytes: u64) -> Vec<u8> {
    let sum = |at| (0..size).map(|rank| word(rank, at)).fold(0u64, u64::wrapping_add);
    (0..bytes / 8).flat_map(|at| sum(at).to_le_bytes()).collect()
}

fn write_words(process: &Process, bytes: u64) {
    let words = words_of(process.rank(), bytes);
    process.memory_mut()[..bytes as usize].copy_from_slice(&words);
}

fn are_sums(process: &Process, bytes: u64) -> bool {
    let sums = sums(process.size(), bytes);
    process.memory()[..bytes as usize] == sums
}
