// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Seed 002, section 2.6: ATOLL. Without figures of components in the thesis, all figures are only shown.

use std::sync::Arc;

use super::Results;
use super::claim::{Claim, Figure};
use super::lab::{Experiment, Notes, ValidateError, machine};
use crate::machine::Machine;
use crate::program::Needs;

const ROUNDS: u64 = 10;
const STREAM: u64 = 16;
const STREAM_BYTES: u64 = 32_768;

pub(super) fn run(results: &mut Results) -> Result<(), ValidateError> {
    let machine = machine("atoll", &[])?;
    // On a torus of 8 x 8 node 27 is 3 + 3 links from node 0: seven routers.
    let rows = [
        ("atoll-1", "start-up latency, half a ping-pong of 8 bytes", 3.3, latency(&machine, 1)?, "us"),
        ("atoll-2", "the same over seven hops", 4.0, latency(&machine, 27)?, "us"),
        ("atoll-3", "bandwidth of a stream of 32 kB", 269.0, bandwidth(&machine)?, "MB/s"),
    ];
    for (id, what, published, simulated, unit) in rows {
        let figures = (Figure::Number(published), Figure::Number(simulated), unit);
        let claim = Claim::shown(id, "seed 002, section 2.6.1", what, figures);
        results.claims.push(claim.note("Only shown: nearly all figures of machines/atoll.toml are assumed."));
    }
    Ok(())
}

fn needs() -> Needs {
    Needs { memory_bytes: STREAM_BYTES as usize, receives: 1, unexpected: 1, windows: 2, ..Needs::default() }
}

/// Returns half a ping-pong of counting puts from node 0 to a node, in microseconds.
fn latency(machine: &Arc<Machine>, node: u32) -> Result<f64, ValidateError> {
    let notes = Notes::sized(1);
    Experiment { what: "ATOLL ping-pong", machine, ranks: 2, needs: needs(), nodes: &[0, node] }.run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            let (rank, other, start) = (process.rank(), 1 - process.rank(), process.now());
            for turn in 1..=ROUNDS {
                if rank == 0 {
                    process.put_counting(other, 0, 0, &[0; 8]).await;
                }
                process.wait_count(0, turn).await;
                if rank == 1 {
                    process.put_counting(other, 0, 0, &[0; 8]).await;
                }
            }
            if rank == 0 {
                notes.set(0, (process.now() - start).as_us_f64() / (2 * ROUNDS) as f64);
            }
            0
        })
    })?;
    Ok(notes.take()[0])
}

fn bandwidth(machine: &Arc<Machine>) -> Result<f64, ValidateError> {
    let notes = Notes::sized(1);
    Experiment { what: "ATOLL stream", machine, ranks: 2, needs: needs(), nodes: &[] }.run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            if process.rank() == 0 {
                let data = vec![0; STREAM_BYTES as usize];
                for _ in 0..STREAM {
                    process.put_counting(1, 0, 0, &data).await;
                }
                return 0;
            }
            process.wait_count(0, 1).await;
            let start = process.now();
            process.wait_count(0, STREAM).await;
            notes.set(0, (STREAM_BYTES * (STREAM - 1)) as f64 / (process.now() - start).as_us_f64());
            0
        })
    })?;
    Ok(notes.take()[0])
}
