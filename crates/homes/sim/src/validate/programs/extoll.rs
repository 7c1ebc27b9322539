// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Operations of the EXTOLL units between two neighbours: latency, rate, bandwidth, protocols, overlap (seed 002,
//! chapter 9).
//!
//! Real commands pass through the simulated NICs; times are those of the ranks' clocks. Arriving bytes are compared.

use std::sync::Arc;

use selvedge_nic::rma::{Operation, code, spec};

use super::super::lab::{Experiment, Notes, ValidateError};
use crate::machine::Machine;
use crate::program::{Needs, Process};
use crate::time::Time;

/// Kind of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// VELO messages, one or several by length.
    Velo,
    NotificationPut,
    ImmediatePut,
    /// A put that its target finds by polling memory.
    PutPolled,
    ImmediatePutPolled,
    /// A put with a notification at its target.
    Put,
    Get,
    Lock,
}

/// Longest command of the prototype (section 7.5.1), in bytes; longer ones are cut.
const COMMAND_BYTES: u64 = 4096;
/// The lower half of the memory is sent, the upper half receives.
const HALF: u64 = 1 << 20;
const ROUNDS: u64 = 10;

fn needs() -> Needs {
    Needs { memory_bytes: 2 * HALF as usize, receives: 1, unexpected: 1, windows: 1, units: true, ..Needs::default() }
}

fn experiment<'a>(what: &'static str, machine: &'a Arc<Machine>) -> Experiment<'a> {
    Experiment { what, machine, ranks: 2, needs: needs(), nodes: &[] }
}

/// Returns the pieces of a transfer: offset and bytes.
fn pieces(bytes: u64, most: u64) -> impl Iterator<Item = (u64, u64)> {
    let count = bytes.div_ceil(most).max(1);
    (0..count).map(move |piece| (piece * most, (bytes - piece * most).min(most)))
}

fn velo_bytes(process: &Process) -> u64 {
    process.machine().limits.velo_bytes.unwrap_or(64).into()
}

/// Sends n bytes in messages.
async fn send(process: &Process, to: u32, bytes: u64) {
    let data: Vec<u8> = process.memory()[..bytes as usize].to_vec();
    for (at, length) in pieces(bytes, velo_bytes(process)) {
        process.velo_send(to, 0, 0, &data[at as usize..(at + length) as usize]).await;
    }
}

/// Receives n bytes in messages. False: they differ from the sent ones.
async fn receive(process: &Process, bytes: u64) -> bool {
    let mut all = Vec::new();
    for (_, length) in pieces(bytes, velo_bytes(process)) {
        let (_, _, got) = process.velo_receive().await;
        all.extend_from_slice(&got[..length as usize]);
    }
    all == process.memory()[..bytes as usize]
}

/// Puts bytes to the other's upper half. The last piece has the notification.
async fn put(process: &Process, to: u32, bytes: u64, asks: u8, is_physical: bool) {
    let last = bytes.div_ceil(COMMAND_BYTES).max(1) - 1;
    for (number, (at, length)) in pieces(bytes, COMMAND_BYTES).enumerate() {
        let operation = Operation::Put { read: at, write: HALF + at, bytes: length as u32 };
        let asks = if number as u64 == last { asks } else { 0 };
        process.rma_post(to, operation, code::BT_PUT, asks, is_physical).await;
    }
}

/// Gets bytes of the other's lower half. The last piece has the notifications.
async fn get(process: &Process, from: u32, bytes: u64, asks: u8) {
    let last = bytes.div_ceil(COMMAND_BYTES).max(1) - 1;
    for (number, (at, length)) in pieces(bytes, COMMAND_BYTES).enumerate() {
        let operation = Operation::Get { read: at, write: HALF + at, bytes: length as u32 };
        let asks = if number as u64 == last { asks } else { 0 };
        process.rma_post(from, operation, code::BT_GET, asks, false).await;
    }
}

/// Whether the upper half has the bytes of the other's lower half, which equals this one's.
fn has_arrived(process: &Process, bytes: u64) -> bool {
    let memory = process.memory();
    memory[HALF as usize..(HALF + bytes) as usize] == memory[..bytes as usize]
}

fn fill(process: &Process, bytes: u64) {
    let data = super::payload(0, 7, bytes as usize);
    process.memory_mut()[..bytes as usize].copy_from_slice(&data);
}

/// Returns nanoseconds of an operation for each size: half a round trip; of a get and a lock, the whole.
pub fn latency(
    machine: &Arc<Machine>,
    kind: Kind,
    sizes: &[u64],
    is_physical: bool,
) -> Result<Vec<f64>, ValidateError> {
    let notes = Notes::sized(sizes.len());
    experiment("extoll latency", machine).run(|process| {
        let (sizes, notes) = (sizes.to_vec(), notes.clone());
        Box::pin(async move {
            let (rank, other) = (process.rank(), 1 - process.rank());
            let mut turn = 0;
            for (place, &bytes) in sizes.iter().enumerate() {
                fill(&process, bytes);
                let mut start = Time::ZERO;
                for round in 0..=ROUNDS {
                    if round == 1 {
                        start = process.now();
                    }
                    if matches!(kind, Kind::Get | Kind::Lock) {
                        if rank == 0 {
                            turn += 1;
                            round_trip(&process, other, kind, bytes).await;
                            if kind == Kind::Get && !has_arrived(&process, bytes) {
                                return process.wrong("a get read wrong bytes");
                            }
                        }
                        continue;
                    }
                    turn += 1;
                    for sender in 0..2 {
                        if rank == sender {
                            one_way(&process, other, kind, (bytes, turn), is_physical).await;
                        } else if !arrival(&process, kind, bytes, turn).await {
                            return process.wrong("wrong bytes arrived");
                        }
                    }
                }
                if rank == 0 {
                    let ways = if matches!(kind, Kind::Get | Kind::Lock) { 1 } else { 2 };
                    notes.set(place, (process.now() - start).as_ns_f64() / (ways * ROUNDS) as f64);
                }
            }
            // The target of gets and locks stays until its initiator has finished.
            if matches!(kind, Kind::Get | Kind::Lock) {
                if rank == 0 {
                    process.velo_send(other, 0, 0, &[1]).await;
                } else {
                    process.velo_receive().await;
                }
            }
            0
        })
    })?;
    Ok(notes.take())
}

async fn round_trip(process: &Process, other: u32, kind: Kind, bytes: u64) {
    match kind {
        Kind::Lock => {
            let operation = Operation::Lock { number: 3, compare: i32::MAX, add: 1 };
            process.rma_post(other, operation, code::LOCK, spec::COMPLETER, false).await;
        }
        _ => get(process, other, bytes, spec::COMPLETER).await,
    }
    process.rma_notification().await;
}

async fn one_way(process: &Process, other: u32, kind: Kind, (bytes, turn): (u64, u64), is_physical: bool) {
    match kind {
        Kind::Velo => send(process, other, bytes).await,
        Kind::NotificationPut => {
            let operation = Operation::NotificationPut { value: turn, class: 1 };
            process.rma_post(other, operation, code::NOTIFICATION_PUT, spec::COMPLETER, false).await;
        }
        Kind::ImmediatePut | Kind::ImmediatePutPolled => {
            let operation = Operation::ImmediatePut { write: HALF, value: turn, bytes: 8 };
            let asks = if kind == Kind::ImmediatePut { spec::COMPLETER } else { 0 };
            process.rma_post(other, operation, code::IMMEDIATE_PUT, asks, false).await;
        }
        Kind::PutPolled => {
            process.memory_mut()[..8].copy_from_slice(&turn.to_le_bytes());
            put(process, other, bytes, 0, is_physical).await;
        }
        Kind::Put | Kind::Get | Kind::Lock => put(process, other, bytes, spec::COMPLETER, is_physical).await,
    }
}

async fn arrival(process: &Process, kind: Kind, bytes: u64, turn: u64) -> bool {
    match kind {
        Kind::Velo => receive(process, bytes).await,
        Kind::NotificationPut => process.rma_notification().await.word0 == turn,
        Kind::ImmediatePut => {
            process.rma_notification().await;
            process.word(HALF) == turn
        }
        Kind::ImmediatePutPolled | Kind::PutPolled => {
            process.wait_word(HALF, turn).await;
            true
        }
        Kind::Put | Kind::Get | Kind::Lock => {
            process.rma_notification().await;
            has_arrived(process, bytes)
        }
    }
}

/// Starts operations of one kind and size one after another; returns nanoseconds from the end of one to that of the
/// next.
pub fn stream(machine: &Arc<Machine>, kind: Kind, bytes: u64, count: u64) -> Result<f64, ValidateError> {
    let notes = Notes::sized(1);
    experiment("extoll stream", machine).run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            let (rank, other) = (process.rank(), 1 - process.rank());
            fill(&process, bytes);
            // Gets complete at the rank that asks for them; all else at the other.
            let asks = rank == 0;
            let takes = asks == (kind == Kind::Get);
            if asks {
                // Gets under way at once: their initiator also takes the bytes.
                let ahead = if kind == Kind::Get { count.min(GETS_AHEAD) } else { count };
                for turn in 1..=ahead {
                    match kind {
                        Kind::Get => get(&process, other, bytes, spec::COMPLETER).await,
                        _ => one_way(&process, other, kind, (bytes, turn), false).await,
                    }
                }
            }
            let mut first = Time::ZERO;
            for turn in 1..=count {
                if takes {
                    if kind == Kind::Get && turn + GETS_AHEAD <= count {
                        get(&process, other, bytes, spec::COMPLETER).await;
                    }
                    let right = match kind {
                        Kind::Get => {
                            process.rma_notification().await;
                            has_arrived(&process, bytes)
                        }
                        _ => arrival(&process, kind, bytes, turn).await,
                    };
                    if !right {
                        return process.wrong("wrong bytes arrived");
                    }
                    if turn == WARM_UP {
                        first = process.now();
                    }
                }
            }
            if takes {
                notes.set(0, (process.now() - first).as_ns_f64() / (count - WARM_UP) as f64);
                process.velo_send(other, 1, 0, &[1]).await;
            } else {
                process.velo_receive().await;
            }
            0
        })
    })?;
    Ok(notes.take()[0])
}

/// Gets of a stream that are under way at once.
const GETS_AHEAD: u64 = 32;
/// Operations of a stream before it is timed.
const WARM_UP: u64 = 20;

/// The protocols for MPI messages (seed 002, section 8.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// One VELO message with a header of 8 bytes.
    Tiny,
    /// Several VELO messages; the first has the header.
    Small,
    /// A copy, a put with a notification into a ring at the target, and a copy.
    Medium,
    /// A VELO message of 16 bytes, and gets by the target.
    Long,
}

/// Bytes of the header of an MPI message.
const HEADER_BYTES: u64 = 8;

/// Returns half a ping-pong by a protocol for each size, in nanoseconds.
pub fn protocol(machine: &Arc<Machine>, protocol: Protocol, sizes: &[u64]) -> Result<Vec<f64>, ValidateError> {
    let notes = Notes::sized(sizes.len());
    experiment("extoll protocols", machine).run(|process| {
        let (sizes, notes) = (sizes.to_vec(), notes.clone());
        Box::pin(async move {
            let (rank, other) = (process.rank(), 1 - process.rank());
            for (place, &bytes) in sizes.iter().enumerate() {
                fill(&process, bytes + HEADER_BYTES);
                let mut start = Time::ZERO;
                for round in 0..=ROUNDS {
                    if round == 1 {
                        start = process.now();
                    }
                    for sender in 0..2 {
                        if rank == sender {
                            send_by(&process, other, protocol, bytes).await;
                        } else if !receive_by(&process, other, protocol, bytes).await {
                            return process.wrong("wrong bytes arrived");
                        }
                    }
                }
                if rank == 0 {
                    notes.set(place, (process.now() - start).as_ns_f64() / (2 * ROUNDS) as f64);
                }
            }
            0
        })
    })?;
    Ok(notes.take())
}

async fn send_by(process: &Process, other: u32, protocol: Protocol, bytes: u64) {
    match protocol {
        Protocol::Tiny | Protocol::Small => send(process, other, bytes + HEADER_BYTES).await,
        Protocol::Medium => {
            process.copy(bytes).await;
            put(process, other, bytes, spec::COMPLETER, false).await;
        }
        Protocol::Long => {
            process.velo_send(other, 2, 0, &[0; 16]).await;
            // The responder notifies when the buffer has been read.
            process.rma_notification().await;
        }
    }
}

async fn receive_by(process: &Process, other: u32, protocol: Protocol, bytes: u64) -> bool {
    match protocol {
        Protocol::Tiny | Protocol::Small => receive(process, bytes + HEADER_BYTES).await,
        Protocol::Medium => {
            process.rma_notification().await;
            process.copy(bytes).await;
            has_arrived(process, bytes)
        }
        Protocol::Long => {
            process.velo_receive().await;
            get(process, other, bytes, spec::RESPONDER | spec::COMPLETER).await;
            process.rma_notification().await;
            has_arrived(process, bytes)
        }
    }
}

/// Runs a put between two fences, with computing of its initiator between the put and the second one (seed 002, section
/// 9.2: "performs synchronization, followed by a put operation and finishes with another synchronization operation"). A
/// fence is a mutual immediate put (section 8.6). Returns the nanoseconds of all three, and those from the put on.
pub fn overlapped(machine: &Arc<Machine>, bytes: u64, computing: Time) -> Result<[f64; 2], ValidateError> {
    let notes = Notes::sized(2);
    experiment("extoll overlap", machine).run(|process| {
        let notes = notes.clone();
        Box::pin(async move {
            let (rank, other) = (process.rank(), 1 - process.rank());
            fill(&process, bytes);
            for _ in 0..2 {
                let start = process.now();
                fence(&process, other).await;
                let fenced = process.now();
                if rank == 0 {
                    put(&process, other, bytes, spec::REQUESTER, false).await;
                    process.compute(computing).await;
                    // The put is complete here when its payload has been read, and there before the fence's put, which
                    // follows it.
                    process.rma_notification().await;
                }
                fence(&process, other).await;
                if rank == 0 {
                    notes.set(0, (process.now() - start).as_ns_f64());
                    notes.set(1, (process.now() - fenced).as_ns_f64());
                }
            }
            if rank == 1 && !has_arrived(&process, bytes) {
                return process.wrong("the fence arrived before the put");
            }
            0
        })
    })?;
    let times = notes.take();
    Ok([times[0], times[1]])
}

async fn fence(process: &Process, other: u32) {
    let operation = Operation::ImmediatePut { write: 2 * HALF - 8, value: 1, bytes: 8 };
    process.rma_post(other, operation, code::IMMEDIATE_PUT, spec::COMPLETER, false).await;
    process.rma_notification().await;
}
