// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The communication of five benchmarks, without their computing.
//!
//! Sizes are those of class S of the NAS Parallel Benchmarks, distributed over any number of ranks: IS sorts 2^16 keys,
//! FT transforms 64 x 64 x 64 complex numbers, EP sums its counts, DT runs a quad tree. MD is get, put and barrier, as
//! with Global Arrays.

use std::sync::Arc;

use super::super::lab::ValidateError;
use super::groups::{self, FirstAction, alltoall, measured};
use crate::machine::Machine;
use crate::program::{Needs, Process};
use crate::time::Time;

/// The communication of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    Is,
    Ft,
    Ep,
    Dt,
    Md,
}

pub const ALL: [Pattern; 5] = [Pattern::Is, Pattern::Ft, Pattern::Ep, Pattern::Dt, Pattern::Md];

pub const ABOUT: &str = "The messages of five benchmarks, without their computing. IS: an allreduce of 2,068 bytes \
                         (512 buckets and five words), an all-to-all of one word, and an all-to-all of the keys \
                         (2^16 keys of 4 bytes over all pairs). FT: an all-to-all of 64^3 complex numbers, and an \
                         allreduce of 16 bytes. EP: three allreduces of 8, 8 and 80 bytes. DT: a quad tree of \
                         messages of 4,096 bytes (assumed). MD: 16 gets of 512 bytes, 16 puts of 512 bytes, and a \
                         barrier (assumed). In an all-to-all a rank posts all receives, then sends, first to the \
                         next rank. The time is the mean of two iterations, at the slowest rank.";

impl Pattern {
    pub fn name(self) -> &'static str {
        match self {
            Pattern::Is => "IS",
            Pattern::Ft => "FT",
            Pattern::Ep => "EP",
            Pattern::Dt => "DT",
            Pattern::Md => "MD",
        }
    }
}

const KEYS_BYTES: usize = 4 << 16;
const GRID_BYTES: usize = 16 * 64 * 64 * 64;
const TREE_BYTES: usize = 4096;
const NEIGHBOURS: u32 = 16;
const ATOMS_BYTES: u64 = 512;

/// Returns the time of an iteration in microseconds.
pub fn time(machine: &Arc<Machine>, ranks: u32, pattern: Pattern) -> Result<f64, ValidateError> {
    let needs = Needs {
        memory_bytes: 2 * (NEIGHBOURS as usize + 1) * ATOMS_BYTES as usize,
        receives: 2 * ranks + 32,
        unexpected: 6 * ranks + 64,
        eager_bytes_max: u64::MAX,
        ..Needs::default()
    };
    measured("a benchmark's pattern", machine, ranks, needs, 2, move |process| {
        Box::pin(async move { i32::from(!iterate(&process, pattern).await) })
    })
}

/// Returns the time of an all-to-all of 8 bytes in microseconds, if receives are posted in the reverse order of
/// arrival, after all messages have arrived.
pub fn unexpected_alltoall(machine: &Arc<Machine>, ranks: u32) -> Result<f64, ValidateError> {
    const TAG: u32 = 9;
    let pause = Time::from_ns(20_000) * u64::from(ranks);
    let needs = Needs {
        memory_bytes: 0,
        receives: ranks,
        unexpected: 2 * ranks,
        eager_bytes_max: u64::MAX,
        ..Needs::default()
    };
    let time = measured("an unexpected all-to-all", machine, ranks, needs, 1, move |process| {
        Box::pin(async move {
            let (rank, size) = (process.rank(), process.size());
            for step in 1..size {
                process.send((rank + step) % size, TAG, &[0; 8]).await;
            }
            process.sleep(pause).await;
            for step in (1..size).rev() {
                process.recv((rank + size - step) % size, TAG, 8).await;
            }
            0
        })
    })?;
    Ok(time - pause.as_us_f64())
}

async fn iterate(process: &Process, pattern: Pattern) -> bool {
    let size = process.size() as usize;
    let all = |bytes: usize| [bytes];
    match pattern {
        Pattern::Is => {
            let mut right = groups::allreduce(process, 2068).await;
            right &= alltoall(process, &all(4), FirstAction::Receives, Time::ZERO).await;
            right & alltoall(process, &all(KEYS_BYTES / (size * size)), FirstAction::Receives, Time::ZERO).await
        }
        Pattern::Ft => {
            let right = alltoall(process, &all(GRID_BYTES / (size * size)), FirstAction::Receives, Time::ZERO).await;
            right & groups::allreduce(process, 16).await
        }
        Pattern::Ep => {
            let mut right = true;
            for bytes in [8, 8, 80] {
                right &= groups::allreduce(process, bytes).await;
            }
            right
        }
        Pattern::Dt => {
            groups::quad_tree(process, TREE_BYTES).await;
            true
        }
        Pattern::Md => {
            let (rank, size) = (process.rank(), process.size());
            let data = vec![0; ATOMS_BYTES as usize];
            for step in 1..=NEIGHBOURS.min(size - 1) {
                process.get((rank + step) % size, 0, ATOMS_BYTES * u64::from(step), ATOMS_BYTES).await;
            }
            for step in 1..=NEIGHBOURS.min(size - 1) {
                let at = ATOMS_BYTES * u64::from(NEIGHBOURS + step);
                process.put_acknowledged((rank + size - step) % size, at, &data).await;
            }
            process.fence().await;
            groups::barrier(process).await;
            true
        }
    }
}
