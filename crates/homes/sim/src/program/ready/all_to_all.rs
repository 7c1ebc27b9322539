// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All-to-all: every rank sends to every other.
//!
//! | protocol | method |
//! |---|---|
//! | pairwise | messages; in step k with the ranks k before and after |
//! | eager | messages, all at once, without waiting for their receives |
//! | rendezvous | messages, all at once; each is announced, and the receiver's program fetches it (seed 000, section 5.5) |
//! | triggered | like rendezvous, but the announcement triggers a get on the receiver's NIC, and may carry the first bytes |
//! | counting | counting puts (seed 004, section 3.2) |
//! | flags | puts, fence, an addition to each target's flag (seed 004, listing 1.5) |
//! | barrier | puts, fence, barrier |
//!
//! One-sided protocols alternate between two buffers: a rank writes to a buffer again only when all ranks have read it.

use super::parameter::{whole, wholes, word};
use super::payload::{fill, is_payload_of, payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::node::Bytes;
use crate::program::{Needs, Process, Trigger};
use crate::time::Time;

pub(super) const ALL_TO_ALL: BuiltIn = BuiltIn {
    name: "all-to-all",
    about: "all-to-all, by messages, gets that trigger, counting puts, flags or a barrier",
    over: "bytes",
    ranks_min: 2,
    parameters: &[
        wholes("sizes", "8,512,8K", 1, "bytes from each rank to each"),
        whole("iterations", "4", 1, "timed repetitions"),
        whole("warm-up", "1", 0, "how often before"),
        word(
            "protocol",
            &["pairwise", "eager", "rendezvous", "triggered", "counting", "flags", "barrier"],
            "pairwise",
            "protocol of the payload",
        ),
        word("receives", &["before", "after"], "before", "of eager and rendezvous: posted before or after sending"),
        whole("eager-bytes", "8K", 0, "pairwise: messages sent at once; triggered: bytes in the announcement"),
    ],
    make,
};

#[derive(Clone)]
struct Exchange {
    protocol: &'static str,
    receives_after: bool,
    eager_bytes: u64,
    warm_up: u64,
    iterations: u64,
}

const MEMORY_MAX: u64 = 16 << 30;
const TAG_DATA: u32 = 0;
const TAG_BARRIER: u32 = 1;
/// Address of the buffers; a flag for each lies before them.
const BUFFERS_AT: u64 = 16;

fn make(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let exchange = Exchange {
        protocol: arguments.word("protocol"),
        receives_after: arguments.word("receives") == "after",
        eager_bytes: arguments.whole("eager-bytes"),
        warm_up: arguments.whole("warm-up"),
        iterations: arguments.whole("iterations"),
    };
    let (sizes, ranks) = (arguments.wholes("sizes"), u64::from(setting.ranks));
    let longest = sizes.iter().copied().max().unwrap_or(0);
    let buffers = match exchange.protocol {
        "counting" | "flags" | "barrier" => 2,
        "triggered" => 4,
        _ => 0,
    };
    let memory = BUFFERS_AT.saturating_add((buffers * ranks).saturating_mul(longest));
    if memory.saturating_mul(ranks) > MEMORY_MAX {
        return Err(arguments.refuse("sizes", "smaller sizes: all ranks' buffers together must fit into 16 GB"));
    }
    let at_once = if matches!(exchange.protocol, "eager" | "rendezvous") { setting.ranks } else { 4 };
    let needs = Needs {
        memory_bytes: memory as usize,
        receives: 2 * at_once + 8,
        unexpected: 2 * setting.ranks + 8,
        windows: if exchange.protocol == "triggered" { setting.ranks + 1 } else { 2 },
        triggered: if exchange.protocol == "triggered" { setting.ranks } else { 0 },
        eager_bytes_max: match exchange.protocol {
            "rendezvous" => 0,
            "eager" => u64::MAX,
            _ => exchange.eager_bytes,
        },
        units: false,
        groups: 0,
    };
    Ok(Prepared::new(needs, move |process| {
        let (exchange, sizes) = (exchange.clone(), sizes.clone());
        async move {
            let (mut rounds, mut fetched) = (0, 0);
            for bytes in sizes {
                process.barrier(TAG_BARRIER).await;
                let mut start = process.now();
                for round in 0..exchange.warm_up + exchange.iterations {
                    if round == exchange.warm_up {
                        start = process.now();
                    }
                    if !exchange.run(&process, bytes, rounds, &mut fetched).await {
                        return 1;
                    }
                    rounds += 1;
                }
                let (size, count) = (bytes as f64, exchange.iterations);
                let sent = bytes as f64 * f64::from(process.size() - 1);
                process.lap("all-to-all, us", size, start, count, Time::as_us_f64);
                process.lap("sent by each rank, MB/s", size, start, count, |time| sent / time.as_us_f64());
            }
            0
        }
    }))
}

impl Exchange {
    /// Runs one all-to-all. `round` and `fetched`, the number of triggered gets so far, grow over all sizes.
    async fn run(&self, process: &Process, bytes: u64, round: u64, fetched: &mut u64) -> bool {
        match self.protocol {
            "pairwise" => self.pairwise(process, bytes, round).await,
            "eager" | "rendezvous" => self.at_once(process, bytes, round).await,
            "triggered" => self.triggered(process, bytes, round, fetched).await,
            _ => self.puts(process, bytes, round).await,
        }
    }

    async fn pairwise(&self, process: &Process, bytes: u64, round: u64) -> bool {
        let (rank, size) = (process.rank(), process.size());
        for step in 1..size {
            let (to, from) = ((rank + step) % size, (rank + size - step) % size);
            let message = process.exchange(to, from, TAG_DATA, &payload_of(stamp(rank, to, round), bytes)).await;
            if !check(process, from, round, bytes, &message.bytes) {
                return false;
            }
        }
        true
    }

    async fn at_once(&self, process: &Process, bytes: u64, round: u64) -> bool {
        let post = || others(process).map(|from| (from, process.irecv(from, TAG_DATA, bytes))).collect::<Vec<_>>();
        let mut posted = if self.receives_after { Vec::new() } else { post() };
        let mut sent = Vec::new();
        for to in others(process) {
            sent.push(process.isend(to, TAG_DATA, &payload_of(stamp(process.rank(), to, round), bytes)).await);
        }
        if self.receives_after {
            posted = post();
        }
        for (from, request) in posted {
            let message = process.wait(request).await.map_or_else(Bytes::new, |message| message.bytes);
            if !check(process, from, round, bytes, &message) {
                return false;
            }
        }
        process.wait_all(&sent).await;
        true
    }

    /// Runs one all-to-all by triggered gets. An announcement's count, in its sender's window, triggers the get.
    async fn triggered(&self, process: &Process, bytes: u64, round: u64, fetched: &mut u64) -> bool {
        let (rank, size) = (process.rank(), process.size());
        let done = size;
        let word = bytes.min(self.eager_bytes);
        let rest = bytes - word;
        let share = u64::from(size) * bytes;
        let target = BUFFERS_AT + round % 2 * share;
        let source = BUFFERS_AT + (2 + round % 2) * share;
        let part = |of: u32| u64::from(of) * bytes;
        for from in others(process).filter(|_| rest > 0) {
            let trigger = Trigger { window: from, count: round + 1 };
            let (there, here) = (source + part(rank) + word, target + part(from) + word);
            if !process.get_triggered(trigger, from, there, here, rest, done) {
                process.wrong("no room for a triggered get");
                return false;
            }
        }
        for to in others(process) {
            let at = (source + part(to)) as usize;
            let mut memory = process.memory_mut();
            fill(stamp(rank, to, round), &mut memory[at..at + bytes as usize]);
        }
        for to in others(process) {
            let at = (source + part(to)) as usize;
            let beginning = process.memory()[at..at + word as usize].to_vec();
            process.put_counting(to, rank, target + part(rank), &beginning).await;
        }
        if rest > 0 {
            *fetched += u64::from(size - 1);
            process.wait_count(done, *fetched).await;
        } else {
            for from in others(process) {
                process.wait_count(from, round + 1).await;
            }
        }
        check_all(process, round, bytes, target)
    }

    async fn puts(&self, process: &Process, bytes: u64, round: u64) -> bool {
        let (rank, size) = (process.rank(), process.size());
        let target = BUFFERS_AT + round % 2 * u64::from(size) * bytes;
        let (here, there) = ((round % 2) as u32, target + u64::from(rank) * bytes);
        let expected = u64::from(size - 1) * (round / 2 + 1);
        for to in others(process) {
            let data = payload_of(stamp(rank, to, round), bytes);
            match self.protocol {
                "counting" => process.put_counting(to, here, there, &data).await,
                _ => process.put_acknowledged(to, there, &data).await,
            }
        }
        match self.protocol {
            "counting" => process.wait_count(here, expected).await,
            "flags" => {
                process.fence().await;
                let flag = 8 * u64::from(here);
                for to in others(process) {
                    process.add(to, flag, 1).await;
                }
                process.wait_word(flag, expected).await;
                if process.word(flag) != expected {
                    process.wrong(format!("the flag of round {round} is {}, not {expected}", process.word(flag)));
                    return false;
                }
            }
            _ => {
                process.fence().await;
                process.barrier(TAG_BARRIER).await;
            }
        }
        check_all(process, round, bytes, target)
    }
}

/// Returns the other ranks, from the next one on.
fn others(process: &Process) -> impl Iterator<Item = u32> + use<> {
    let (rank, size) = (process.rank(), process.size());
    (1..size).map(move |step| (rank + step) % size)
}

fn stamp(from: u32, to: u32, round: u64) -> u64 {
    seed(&[from.into(), to.into(), round])
}

fn check(process: &Process, from: u32, round: u64, bytes: u64, data: &[u8]) -> bool {
    let right = is_payload_of(stamp(from, process.rank(), round), bytes, data);
    if !right {
        process.wrong(format!("in round {round} rank {from} sent {bytes} wrong bytes"));
    }
    right
}

fn check_all(process: &Process, round: u64, bytes: u64, at: u64) -> bool {
    others(process).all(|from| {
        let start = (at + u64::from(from) * bytes) as usize;
        let data = process.memory()[start..start + bytes as usize].to_vec();
        check(process, from, round, bytes, &data)
    })
}
