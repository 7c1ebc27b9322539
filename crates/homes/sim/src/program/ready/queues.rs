// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Long queues: of unexpected messages, and of posted receives that do not match.

use std::sync::Arc;

use super::parameter::{whole, wholes, word};
use super::payload::{is_payload_of, payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::OWN_TAGS;
use crate::program::{Needs, Process};

pub(super) const UNEXPECTED: BuiltIn = BuiltIn {
    name: "unexpected",
    about: "messages that arrive before their receives are posted (seed 000, section 5.2)",
    over: "messages",
    ranks_min: 2,
    parameters: &[
        wholes("messages", "16..1K", 1, "messages that rank 0 finds, from all others in turn"),
        whole("bytes", "8", 0, "bytes of each"),
        word(
            "order",
            &["reverse", "forward"],
            "reverse",
            "reverse: each receive matches the last message of the queue",
        ),
    ],
    make: make_unexpected,
};

pub(super) const POSTED: BuiltIn = BuiltIn {
    name: "posted",
    about: "ping-pong behind a list of posted receives that match nothing (seed 003, section VI-E)",
    over: "entries",
    ranks_min: 2,
    parameters: &[
        wholes("entries", "0,1,10,20,50,100,200,500", 0, "receives posted before the one that matches"),
        whole("bytes", "0", 0, "bytes of a message"),
        whole("iterations", "10", 1, "timed round trips"),
    ],
    make: make_posted,
};

const TAG_BARRIER: u32 = OWN_TAGS;
const TAG_SENT: u32 = TAG_BARRIER + 1;
const TAG_NOBODY: u32 = TAG_BARRIER + 2;
const TAG_PLAY: u32 = TAG_BARRIER + 3;
const QUEUE_MAX: u64 = 1 << 20;

fn make_unexpected(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let (counts, bytes) = (arguments.wholes("messages"), arguments.whole("bytes"));
    let longest = counts.iter().copied().max().unwrap_or(0);
    if longest > QUEUE_MAX {
        return Err(arguments.refuse("messages", format!("at most {QUEUE_MAX}")));
    }
    let reverse = arguments.word("order") == "reverse";
    let of_sender = Needs {
        memory_bytes: 0,
        receives: 8,
        unexpected: 16,
        windows: 0,
        eager_bytes_max: u64::MAX,
        ..Needs::default()
    };
    let needs = Needs { unexpected: longest as u32 + setting.ranks + 16, ..of_sender };
    let mut prepared = Prepared::new(needs, move |process| {
        let counts = counts.clone();
        async move {
            for count in counts {
                if !storm(&process, count, bytes, reverse).await {
                    return 1;
                }
            }
            0
        }
    });
    prepared.needs_of = Some(Arc::new(move |rank| if rank == 0 { needs } else { of_sender }));
    Ok(prepared)
}

async fn storm(process: &Process, count: u64, bytes: u64, reverse: bool) -> bool {
    let senders = u64::from(process.size() - 1);
    let sender_of = |number: u64| (1 + number % senders) as u32;
    let stamp = |number: u64| seed(&[number, count]);
    process.barrier(TAG_BARRIER).await;
    if process.rank() != 0 {
        for number in (0..count).filter(|number| sender_of(*number) == process.rank()) {
            process.send(0, number as u32, &payload_of(stamp(number), bytes)).await;
        }
        process.send(0, TAG_SENT, &[]).await;
        return true;
    }
    for sender in 1..=senders {
        process.recv(sender as u32, TAG_SENT, 0).await;
    }
    let start = process.now();
    for at in 0..count {
        let number = if reverse { count - 1 - at } else { at };
        let message = process.recv(sender_of(number), number as u32, bytes).await;
        if !is_payload_of(stamp(number), bytes, &message.bytes) {
            process.wrong(format!("message {number} of {count} has wrong bytes"));
            return false;
        }
    }
    let time = process.now() - start;
    process.record("receiving all, us", count as f64, time.as_us_f64());
    process.record("a receive, ns", count as f64, time.as_ns_f64() / count as f64);
    true
}

fn make_posted(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let mut lengths = arguments.wholes("entries");
    lengths.sort_unstable();
    let longest = lengths.last().copied().unwrap_or(0);
    if longest > QUEUE_MAX {
        return Err(arguments.refuse("entries", format!("at most {QUEUE_MAX}")));
    }
    let (bytes, iterations) = (arguments.whole("bytes"), arguments.whole("iterations"));
    let looks_on = Needs {
        memory_bytes: 0,
        receives: 8,
        unexpected: 8,
        windows: 0,
        eager_bytes_max: u64::MAX,
        ..Needs::default()
    };
    let needs = Needs { receives: longest as u32 + 8, ..looks_on };
    let last = setting.ranks - 1;
    let mut prepared = Prepared::new(needs, move |process| {
        let lengths = lengths.clone();
        async move {
            let partner = match process.rank() {
                0 => last,
                rank if rank == last => 0,
                _ => return 0,
            };
            let mut posted = 0;
            for length in lengths {
                while posted < length {
                    process.irecv(partner, TAG_NOBODY, 0);
                    posted += 1;
                }
                if !play(&process, partner, length, bytes, iterations).await {
                    return 1;
                }
            }
            0
        }
    });
    prepared.needs_of = Some(Arc::new(move |rank| if rank == 0 || rank == last { needs } else { looks_on }));
    Ok(prepared)
}

async fn play(process: &Process, partner: u32, length: u64, bytes: u64, iterations: u64) -> bool {
    // Both ranks have posted all their receives.
    process.exchange(partner, partner, TAG_SENT, &[]).await;
    let stamp = |round: u64, by: u32| seed(&[round, by.into(), length]);
    let mut next = Some(process.irecv(partner, TAG_PLAY, bytes));
    process.exchange(partner, partner, TAG_SENT, &[]).await;
    let start = process.now();
    for round in 0..iterations {
        let data = payload_of(stamp(round, process.rank()), bytes);
        if process.rank() == 0 {
            process.send(partner, TAG_PLAY, &data).await;
        }
        let Some(request) = next.take() else { return false };
        let last = round + 1 == iterations;
        if process.rank() == 0 && !last {
            next = Some(process.irecv(partner, TAG_PLAY, bytes));
        }
        let message = process.wait(request).await;
        if !message.is_some_and(|message| is_payload_of(stamp(round, partner), bytes, &message.bytes)) {
            process.wrong(format!("message {round} behind {length} entries has wrong bytes"));
            return false;
        }
        if process.rank() != 0 {
            process.send(partner, TAG_PLAY, &data).await;
            if !last {
                next = Some(process.irecv(partner, TAG_PLAY, bytes));
            }
        }
    }
    if process.rank() == 0 {
        let half = (process.now() - start) / (2 * iterations);
        process.record("half round trip, us", length as f64, half.as_us_f64());
    }
    true
}
