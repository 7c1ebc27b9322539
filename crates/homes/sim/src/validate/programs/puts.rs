// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One-sided communication of seed 004: counting puts, or puts with a fence and then flags or a barrier.

use std::sync::Arc;

use super::super::lab::{Experiment, Notes, ValidateError};
use crate::machine::Machine;
use crate::program::{Needs, Process};
use crate::time::Time;

/// Notification of the target that a put has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// The put increments a counter of the target.
    Counting,
    /// A fence, then puts of flags.
    Flags,
    /// A fence, then a barrier of ceil(log2 n) rounds.
    Dissemination,
    /// A fence, then a barrier through rank 0.
    Linear,
}

/// Size of the flags at address 0; the data follows them.
const FLAGS_BYTES: u64 = 8 * 256;
/// Counter of barriers; the counters before it are those of data.
const BARRIER: u32 = 2;

fn needs(bytes: u64) -> Needs {
    let memory_bytes = (FLAGS_BYTES + bytes) as usize;
    Needs { memory_bytes, receives: 1, unexpected: 1, windows: 4, ..Needs::default() }
}

/// Returns half a round trip for each size, in microseconds.
pub fn ping_pong(machine: &Arc<Machine>, sizes: &[u64], notification: Notification) -> Result<Vec<f64>, ValidateError> {
    let notes = Notes::sized(sizes.len());
    let most = sizes.iter().copied().max().unwrap_or(0);
    Experiment { what: "counting ping-pong", machine, ranks: 2, needs: needs(most), nodes: &[] }.run(|process| {
        let (sizes, notes) = (sizes.to_vec(), notes.clone());
        Box::pin(async move {
            let (rank, other) = (process.rank(), 1 - process.rank());
            let mut turn = 0;
            for (place, bytes) in sizes.iter().enumerate() {
                let data = vec![0; *bytes as usize];
                const ROUNDS: u32 = 10;
                let mut start = Time::ZERO;
                for round in 0..=ROUNDS {
                    if round == 1 {
                        start = process.now();
                    }
                    turn += 1;
                    if rank == 0 {
                        put_and_notify(&process, other, &data, notification, turn).await;
                        wait_for_put(&process, notification, turn).await;
                    } else {
                        wait_for_put(&process, notification, turn).await;
                        put_and_notify(&process, other, &data, notification, turn).await;
                    }
                }
                if rank == 0 {
                    notes.set(place, (process.now() - start).as_us_f64() / f64::from(2 * ROUNDS));
                }
            }
            0
        })
    })?;
    Ok(notes.take())
}

/// Puts data and notifies the target, for the `turn`-th time.
async fn put_and_notify(process: &Process, to: u32, data: &[u8], notification: Notification, turn: u64) {
    if notification == Notification::Counting {
        process.put_counting(to, 0, FLAGS_BYTES, data).await;
        return;
    }
    process.put_acknowledged(to, FLAGS_BYTES, data).await;
    process.fence().await;
    process.put(to, 0, &turn.to_le_bytes()).await;
}

/// Waits for the notification of the `turn`-th put.
async fn wait_for_put(process: &Process, notification: Notification, turn: u64) {
    if notification == Notification::Counting {
        process.wait_count(0, turn).await;
    } else {
        process.wait_word(0, turn).await;
    }
}

/// Returns microseconds of an all-to-all of `bytes` for each pair of ranks.
pub fn alltoall(
    machine: &Arc<Machine>,
    ranks: u32,
    bytes: u64,
    notification: Notification,
) -> Result<f64, ValidateError> {
    const ROUNDS: u64 = 4;
    let notes = Notes::sized(1);
    Experiment { what: "counting all-to-all", machine, ranks, needs: needs(bytes), nodes: &[] }.run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            let (rank, size) = (process.rank(), process.size());
            let others = || (1..size).map(move |step| (rank + step) % size);
            let data = vec![0; bytes as usize];
            let mut start = Time::ZERO;
            for round in 1..=ROUNDS {
                if round == 2 {
                    start = process.now();
                }
                // Two counters alternate, so that puts of the next round do not count for this one.
                let (window, so_far) = ((round % 2) as u32, round.div_ceil(2) * u64::from(size - 1));
                for to in others() {
                    if notification == Notification::Counting {
                        process.put_counting(to, window, FLAGS_BYTES, &data).await;
                    } else {
                        process.put_acknowledged(to, FLAGS_BYTES, &data).await;
                    }
                }
                match notification {
                    Notification::Counting => process.wait_count(window, so_far).await,
                    Notification::Flags => {
                        process.fence().await;
                        for to in others() {
                            process.put(to, 8 * u64::from(rank), &round.to_le_bytes()).await;
                        }
                        for from in others() {
                            process.wait_word(8 * u64::from(from), round).await;
                        }
                    }
                    Notification::Dissemination | Notification::Linear => {
                        process.fence().await;
                        barrier(&process, notification, round).await;
                    }
                }
            }
            notes.most(0, (process.now() - start).as_us_f64() / (ROUNDS - 1) as f64);
            0
        })
    })?;
    Ok(notes.take()[0])
}

/// Runs the `round`-th barrier: counting puts without data, or puts of flags.
async fn barrier(process: &Process, notification: Notification, round: u64) {
    let (rank, size) = (process.rank(), process.size());
    if notification == Notification::Linear {
        if rank == 0 {
            process.wait_count(BARRIER, round * u64::from(size - 1)).await;
            for to in 1..size {
                process.put_counting(to, BARRIER, 0, &[]).await;
            }
        } else {
            process.put_counting(0, BARRIER, 0, &[]).await;
            process.wait_count(BARRIER, round).await;
        }
        return;
    }
    // A flag for each step holds the number of the round, so a rank that is a barrier ahead is harmless.
    let mut distance = 1;
    let mut step = 0;
    while distance < size {
        process.put((rank + distance) % size, 8 * step, &round.to_le_bytes()).await;
        process.wait_word(8 * step, round).await;
        distance *= 2;
        step += 1;
    }
}

/// A pipelined stencil: each row goes from rank to rank.
#[derive(Clone, Copy, Debug)]
pub struct Stencil {
    pub columns: u32,
    pub rows: u32,
    /// Processor time of a point.
    pub point: Time,
    pub per_node: u32,
}

/// Returns GFLOP/s of the stencil of seed 004, section 3.3: two additions a point.
pub fn stencil(
    machine: &Arc<Machine>,
    ranks: u32,
    grid: Stencil,
    notification: Notification,
) -> Result<f64, ValidateError> {
    let rows = u64::from(grid.rows);
    let notes = Notes::sized(1);
    let needs = needs(8 * rows);
    let nodes: Vec<u32> = (0..ranks).map(|rank| rank / grid.per_node).collect();
    Experiment { what: "stencil", machine, ranks, needs, nodes: &nodes }.run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            let (rank, size) = (process.rank(), process.size());
            let own = grid.columns / size + u32::from(rank < grid.columns % size);
            let row_time = grid.point * u64::from(own);
            for row in 1..=rows {
                if rank > 0 {
                    wait_for_put(&process, notification, row).await;
                }
                process.compute(row_time).await;
                if rank + 1 < size {
                    let value = row.to_le_bytes();
                    let at = FLAGS_BYTES + 8 * (row - 1);
                    if notification == Notification::Counting {
                        process.put_counting(rank + 1, 0, at, &value).await;
                    } else {
                        process.put_acknowledged(rank + 1, at, &value).await;
                        process.fence().await;
                        process.put(rank + 1, 0, &value).await;
                    }
                }
            }
            notes.most(0, process.now().as_ns_f64());
            0
        })
    })?;
    Ok(2.0 * f64::from(grid.columns) * rows as f64 / notes.take()[0])
}
