// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Many senders, one receiver: unexpected messages, and long messages that arrive at the same time.

use std::sync::Arc;

use super::super::lab::{Experiment, Notes, ValidateError};
use super::payload;
use crate::machine::Machine;
use crate::program::{ANY, Needs};
use crate::time::Time;

/// Ranks of the study of unexpected messages. Their number does not matter: rank 0 has one list.
const RANKS: u32 = 4;
/// Time between two messages, in which the previous one is stored.
const SLOT: Time = Time::from_ns(10_000);
const UNEXPECTED: u32 = 1 << 24;

fn waiting(most: u64) -> Needs {
    let unexpected = (most + 64) as u32;
    Needs { memory_bytes: 0, receives: 8, unexpected, eager_bytes_max: u64::MAX, ..Needs::default() }
}

/// Returns the time of a receive, in nanoseconds, that matches the last of n unexpected messages. `lengths` ascend.
pub fn last_of(machine: &Arc<Machine>, lengths: &[u64]) -> Result<Vec<f64>, ValidateError> {
    let notes = Notes::sized(lengths.len());
    let most = lengths.last().copied().unwrap_or(0) + lengths.len() as u64;
    // Each measurement takes one message, so the next one needs one message more.
    let lengths: Vec<u64> = lengths.iter().zip(0..).map(|(length, taken)| length + taken).collect();
    Experiment { what: "unexpected messages", machine, ranks: RANKS, needs: waiting(most), nodes: &[] }.run(
        |process| {
            let (lengths, notes) = (lengths.clone(), notes.clone());
            Box::pin(async move {
                let mut sent = 0;
                let mut begin = Time::ZERO;
                for (place, &length) in lengths.iter().enumerate() {
                    let end = begin + SLOT * (length - sent + 1);
                    if process.rank() == 0 {
                        process.sleep(end - process.now()).await;
                        let start = process.now();
                        process.recv(ANY, UNEXPECTED - (length - 1) as u32, 8).await;
                        notes.set(place, (process.now() - start).as_ns_f64());
                    } else {
                        let mine = (sent..length).filter(|n| n % u64::from(RANKS - 1) + 1 == u64::from(process.rank()));
                        for n in mine {
                            process.sleep(begin + SLOT * (n - sent) - process.now()).await;
                            process.send(0, UNEXPECTED - n as u32, &[]).await;
                        }
                    }
                    sent = length;
                    // Long enough for the slowest machine to search the longest list.
                    begin = end + Time::from_ns(20_000) * length;
                    if process.rank() > 0 {
                        process.sleep(begin - process.now()).await;
                    }
                }
                0
            })
        },
    )?;
    Ok(notes.take())
}

/// Returns the time to receive n unexpected messages, the last of them first, in nanoseconds a message.
pub fn drain(machine: &Arc<Machine>, length: u64) -> Result<f64, ValidateError> {
    let notes = Notes::sized(1);
    Experiment { what: "draining", machine, ranks: RANKS, needs: waiting(length), nodes: &[] }.run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            if process.rank() == 0 {
                process.sleep(SLOT * (length + 1)).await;
                let start = process.now();
                for n in (0..length).rev() {
                    process.recv(ANY, UNEXPECTED - n as u32, 8).await;
                }
                notes.set(0, (process.now() - start).as_ns_f64() / length as f64);
                return 0;
            }
            for n in (0..length).filter(|n| n % u64::from(RANKS - 1) + 1 == u64::from(process.rank())) {
                process.sleep(SLOT * n - process.now()).await;
                process.send(0, UNEXPECTED - n as u32, &[]).await;
            }
            0
        })
    })?;
    Ok(notes.take()[0])
}

/// Result of many long messages at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Incast {
    /// Time from the first send to the last receive.
    pub time_us: f64,
    /// Messages refused because no stream was free, and sent again.
    pub refused: u64,
}

/// Sends `messages` of `bytes` from each of `senders` ranks to rank 0, all at once, into posted receives; rank r is on
/// `nodes[r]`. Rank 0 checks that each arrives once, whole and in order; otherwise the run is an error.
pub fn incast(
    machine: &Arc<Machine>,
    nodes: &[u32],
    senders: u32,
    bytes: u64,
    messages: u32,
) -> Result<Incast, ValidateError> {
    const TAG: u32 = 3;
    let notes = Notes::sized(1);
    let start = Time::from_ns(5_000) * u64::from(senders * messages + 100);
    let needs = Needs {
        memory_bytes: 0,
        receives: senders * messages,
        unexpected: 8,
        eager_bytes_max: u64::MAX,
        ..Needs::default()
    };
    let outcome = Experiment { what: "incast", machine, ranks: senders + 1, needs, nodes }.run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            if process.rank() > 0 {
                process.sleep(start).await;
                for n in 0..messages {
                    process.isend(0, TAG, &payload(process.rank(), n, bytes as usize)).await;
                }
                return 0;
            }
            let receives: Vec<_> = (0..senders * messages).map(|_| process.irecv(ANY, TAG, bytes)).collect();
            let mut come = vec![0; senders as usize + 1];
            for receive in receives {
                let Some(message) = process.wait(receive).await else { return 1 };
                let number = &mut come[message.source as usize];
                if message.bytes[..] != payload(message.source, *number, bytes as usize)[..] {
                    return 2;
                }
                *number += 1;
            }
            notes.set(0, (process.now() - start).as_us_f64());
            i32::from(come[1..].iter().any(|come| *come != messages))
        })
    })?;
    Ok(Incast { time_us: notes.take()[0], refused: outcome.statistics.refused })
}
