// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Two ranks on neighbouring nodes that send messages with tags.
//!
//! A receive of the ping-pong is posted while its message is in flight, as in any program that sends and then receives.

use std::sync::Arc;

use super::super::lab::{Experiment, Notes, ValidateError};
use crate::machine::Machine;
use crate::program::{Needs, Process};
use crate::time::Time;

const PING: u32 = 1;
const GO: u32 = 2;
const DONE: u32 = 3;
/// All messages have lower tags.
const NEVER: u32 = 1 << 20;

fn needs(receives: u32) -> Needs {
    Needs { memory_bytes: 0, receives: receives + 8, unexpected: 80, eager_bytes_max: u64::MAX, ..Needs::default() }
}

/// Returns half a round trip for each size, in microseconds, behind `ahead` posted receives that do not match.
pub fn ping_pong(machine: &Arc<Machine>, sizes: &[u64], ahead: u32) -> Result<Vec<f64>, ValidateError> {
    let notes = Notes::sized(sizes.len());
    let experiment = Experiment { what: "ping-pong", machine, ranks: 2, needs: needs(ahead), nodes: &[] };
    experiment.run(|process| {
        let (sizes, notes) = (sizes.to_vec(), notes.clone());
        Box::pin(async move {
            for n in 0..ahead {
                process.irecv(1 - process.rank(), NEVER + n, 8);
            }
            meet(&process).await;
            for (place, bytes) in sizes.iter().enumerate() {
                let rounds = if *bytes > 65_536 { 2 } else { 10 };
                round(&process, *bytes).await;
                let start = process.now();
                for _ in 0..rounds {
                    round(&process, *bytes).await;
                }
                if process.rank() == 0 {
                    notes.set(place, (process.now() - start).as_us_f64() / (2 * rounds) as f64);
                }
            }
            0
        })
    })?;
    Ok(notes.take())
}

async fn round(process: &Process, bytes: u64) {
    let other = 1 - process.rank();
    let data = vec![0; bytes as usize];
    if process.rank() == 0 {
        process.send(other, PING, &data).await;
        process.recv(other, PING, bytes).await;
    } else {
        process.recv(other, PING, bytes).await;
        process.send(other, PING, &data).await;
    }
}

/// Makes the two ranks wait for each other and a little longer, so that all receives are posted.
async fn meet(process: &Process) {
    let other = 1 - process.rank();
    process.exchange(other, other, GO, &[]).await;
    process.sleep(Time::from_ns(50_000)).await;
}

/// Returns messages per microsecond in one direction, in windows of `window` messages into posted receives.
pub fn stream(machine: &Arc<Machine>, sizes: &[u64], window: u32) -> Result<Vec<f64>, ValidateError> {
    let notes = Notes::sized(sizes.len());
    let experiment = Experiment { what: "stream", machine, ranks: 2, needs: needs(window), nodes: &[] };
    experiment.run(|process| {
        let (sizes, notes) = (sizes.to_vec(), notes.clone());
        Box::pin(async move {
            for (place, bytes) in sizes.iter().enumerate() {
                if process.rank() == 0 {
                    let done = process.irecv(1, DONE, 8);
                    meet(&process).await;
                    let data = vec![0; *bytes as usize];
                    for _ in 0..window {
                        process.send(1, PING, &data).await;
                    }
                    process.wait(done).await;
                } else {
                    let receives: Vec<_> = (0..window).map(|_| process.irecv(0, PING, *bytes)).collect();
                    meet(&process).await;
                    let start = process.now();
                    process.wait_all(&receives).await;
                    notes.set(place, f64::from(window) / (process.now() - start).as_us_f64());
                    process.send(0, DONE, &[]).await;
                }
            }
            0
        })
    })?;
    Ok(notes.take())
}

/// Returns MB/s of both directions together, while two ranks send to each other at the same time.
pub fn both_ways(machine: &Arc<Machine>, bytes: u64, rounds: u32) -> Result<f64, ValidateError> {
    let notes = Notes::sized(1);
    let experiment = Experiment { what: "both ways", machine, ranks: 2, needs: needs(rounds), nodes: &[] };
    experiment.run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            let other = 1 - process.rank();
            let receives: Vec<_> = (0..rounds).map(|_| process.irecv(other, PING, bytes)).collect();
            meet(&process).await;
            let start = process.now();
            let data = vec![0; bytes as usize];
            for _ in 0..rounds {
                process.isend(other, PING, &data).await;
            }
            process.wait_all(&receives).await;
            notes.most(0, (process.now() - start).as_us_f64());
            0
        })
    })?;
    Ok((2 * u64::from(rounds) * bytes) as f64 / notes.take()[0])
}
