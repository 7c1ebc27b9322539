// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Collectives by messages: dissemination, recursive doubling, binomial trees, all-to-all.

use std::sync::Arc;

use super::super::lab::{Experiment, Notes, ValidateError};
use super::payload;
use crate::machine::Machine;
use crate::program::{Body, Message, Needs, Process};
use crate::time::Time;

/// Time at which a rank posts the receive of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posting {
    /// Before its send, as MPICH's `MPI_Sendrecv` does.
    Before,
    /// After its send, while messages are in flight.
    After,
}

/// A collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Collective {
    /// Dissemination, with empty messages.
    Barrier(Posting),
    /// Recursive doubling; the number of ranks is a power of two.
    Allreduce { bytes: usize, posting: Posting },
    /// A binomial tree to rank 0; a rank continues when it has sent its message.
    Reduce { bytes: usize },
    /// Recursive doubling: each step sends twice as much; the number of ranks is a power of two.
    Allgather { bytes: usize },
}

const BARRIER: u32 = 1 << 16;
const ALLREDUCE: u32 = 2 << 16;
const REDUCE: u32 = 3 << 16;
const ALLGATHER: u32 = 4 << 16;
const ALLTOALL: u32 = 5 << 16;
const TREE: u32 = 6 << 16;

/// Returns the mean time in microseconds of `rounds` collectives, one after another, until the last rank has finished.
pub fn collective(machine: &Arc<Machine>, ranks: u32, which: Collective, rounds: u32) -> Result<f64, ValidateError> {
    let unexpected = 64.max(rounds * 12 * u32::from(matches!(which, Collective::Reduce { .. })));
    let needs = Needs { memory_bytes: 0, receives: 32, unexpected, eager_bytes_max: u64::MAX, ..Needs::default() };
    measured("collective", machine, ranks, needs, rounds, move |process| {
        Box::pin(async move {
            match which {
                Collective::Barrier(posting) => disseminate(&process, posting).await,
                Collective::Allreduce { bytes, posting } => return i32::from(!sum_up(&process, bytes, posting).await),
                Collective::Reduce { bytes } => reduce(&process, bytes).await,
                Collective::Allgather { bytes } => allgather(&process, bytes).await,
            }
            0
        })
    })
}

/// Returns the mean microseconds of `rounds` rounds of a program, from a barrier until the last rank has finished.
pub fn measured(
    what: &'static str,
    machine: &Arc<Machine>,
    ranks: u32,
    needs: Needs,
    rounds: u32,
    turn: impl Fn(Process) -> Body + Clone + 'static,
) -> Result<f64, ValidateError> {
    let notes = Notes::sized(1);
    Experiment { what, machine, ranks, needs, nodes: &[] }.run(|process| {
        let (notes, turn) = (notes.clone(), turn.clone());
        Box::pin(async move {
            barrier(&process).await;
            // All ranks start at the same time, so the skew of the barrier is not measured.
            let start = Time::from_ns(process.now().as_ns() / START_NS * START_NS + 2 * START_NS);
            process.sleep(start - process.now()).await;
            for _ in 0..rounds {
                let code = turn(process.clone()).await;
                if code != 0 {
                    return code;
                }
            }
            notes.most(0, (process.now() - start).as_us_f64());
            0
        })
    })?;
    Ok(notes.take()[0] / f64::from(rounds))
}

/// Ranks start at a multiple of this time after the barrier.
const START_NS: u64 = 10_000_000;

async fn swap(process: &Process, to: u32, from: u32, tag: u32, data: &[u8], posting: Posting) -> Message {
    match posting {
        Posting::Before => process.exchange(to, from, tag, data).await,
        Posting::After => {
            let send = process.isend(to, tag, data).await;
            let message = process.recv(from, tag, data.len() as u64).await;
            process.wait(send).await;
            message
        }
    }
}

pub async fn barrier(process: &Process) {
    disseminate(process, Posting::Before).await;
}

async fn disseminate(process: &Process, posting: Posting) {
    let (rank, size) = (process.rank(), process.size());
    let mut distance = 1;
    let mut step = 0;
    while distance < size {
        let (to, from) = ((rank + distance) % size, (rank + size - distance) % size);
        swap(process, to, from, BARRIER + step, &[], posting).await;
        distance *= 2;
        step += 1;
    }
}

/// Sums a number of each rank. True: the sum is right.
pub async fn allreduce(process: &Process, bytes: usize) -> bool {
    sum_up(process, bytes, Posting::Before).await
}

async fn sum_up(process: &Process, bytes: usize, posting: Posting) -> bool {
    let (rank, size) = (process.rank(), process.size());
    let mut sum = u64::from(rank);
    let mut distance = 1;
    while distance < size {
        let partner = rank ^ distance;
        let mut data = vec![0; bytes.max(8)];
        data[..8].copy_from_slice(&sum.to_le_bytes());
        let message = swap(process, partner, partner, ALLREDUCE + distance, &data, posting).await;
        sum += message.bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        distance *= 2;
    }
    sum == u64::from(size) * u64::from(size - 1) / 2
}

async fn reduce(process: &Process, bytes: usize) {
    let (rank, size) = (process.rank(), process.size());
    let data = vec![0; bytes];
    let mut distance = 1;
    while distance < size {
        if rank & distance != 0 {
            process.send(rank - distance, REDUCE + distance, &data).await;
            return;
        }
        if rank + distance < size {
            process.recv(rank + distance, REDUCE + distance, bytes as u64).await;
        }
        distance *= 2;
    }
}

async fn allgather(process: &Process, bytes: usize) {
    let (rank, size) = (process.rank(), process.size());
    let mut distance = 1;
    while distance < size {
        let partner = rank ^ distance;
        let data = vec![0; bytes * distance as usize];
        process.exchange(partner, partner, ALLGATHER + distance, &data).await;
        distance *= 2;
    }
}

/// The first action of a rank in [`alltoall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstAction {
    /// It posts its receives, then sends its messages.
    Receives,
    /// It sends its messages, and all messages have arrived before it posts its receives.
    Sends,
}

/// Sends from every rank to every other, the next rank first, in pieces of the sizes `parts`. True: all is right.
pub async fn alltoall(process: &Process, parts: &[usize], first: FirstAction, pause: Time) -> bool {
    let (rank, size) = (process.rank(), process.size());
    let post = || -> Vec<_> {
        let sources = (1..size).map(|step| (rank + size - step) % size);
        let parts = |source| parts.iter().zip(0u32..).map(move |(bytes, part)| (source, part, *bytes));
        sources
            .flat_map(parts)
            .map(|(source, part, bytes)| (source, part, bytes, process.irecv(source, ALLTOALL + part, bytes as u64)))
            .collect()
    };
    let mut receives = Vec::new();
    if first == FirstAction::Receives {
        receives = post();
    }
    let mut sends = Vec::new();
    for step in 1..size {
        for (bytes, part) in parts.iter().zip(0u32..) {
            let data = payload(rank, part, *bytes);
            sends.push(process.isend((rank + step) % size, ALLTOALL + part, &data).await);
        }
    }
    if first == FirstAction::Sends {
        process.sleep(pause).await;
        receives = post();
    }
    let mut right = true;
    for (source, part, bytes, receive) in receives {
        let message = process.wait(receive).await;
        right &= message.is_some_and(|message| message.bytes[..] == payload(source, part, bytes)[..]);
    }
    process.wait_all(&sends).await;
    right
}

/// Runs a quad tree to rank 0: the children of rank r are 4r + 1 to 4r + 4.
pub async fn quad_tree(process: &Process, bytes: usize) {
    let (rank, size) = (process.rank(), process.size());
    for child in 4 * rank + 1..(4 * rank + 5).min(size) {
        process.recv(child, TREE, bytes as u64).await;
    }
    if rank > 0 {
        process.send((rank - 1) / 4, TREE, &vec![0; bytes]).await;
    }
}
