// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Bandwidth with many messages in flight.
//!
//! The sender sends a window of messages. When the receiver has all of them, it posts the receives of the next window
//! and sends an empty message back.

use super::parameter::{Parameter, whole, wholes, word};
use super::payload::{fill, is_payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::{Needs, Process, RequestId};
use crate::time::Time;

const WINDOWS: Parameter = whole("iterations", "4", 1, "timed windows");
const EAGER: Parameter = whole("eager-bytes", "8K", 0, "messages up to this length are sent at once");

pub(super) const STREAM: BuiltIn = BuiltIn {
    name: "stream",
    about: "bandwidth from the first half of the ranks to the second, rank by rank",
    over: "bytes",
    ranks_min: 2,
    parameters: &[
        wholes("sizes", "8,64,512,4K,32K,256K", 1, "bytes of a message"),
        WINDOWS,
        whole("warm-up", "1", 0, "windows before them"),
        whole("window", "64", 1, "messages before an answer"),
        word("directions", &["one", "both"], "one", "both: the second half sends as well"),
        EAGER,
    ],
    make: make_stream,
};

pub(super) const INCAST: BuiltIn = BuiltIn {
    name: "incast",
    about: "long messages from all ranks to rank 0 at once: more streams than a NIC may tell apart",
    over: "senders",
    ranks_min: 2,
    parameters: &[
        whole("bytes", "64K", 1, "bytes of a message"),
        whole("messages", "2", 1, "messages of each sender"),
        whole("eager-bytes", "1M", 0, "messages up to this length are sent at once, without waiting for a receive"),
    ],
    make: make_incast,
};

#[derive(Clone)]
struct Stream {
    sizes: Vec<u64>,
    windows: u64,
    warm_up: u64,
    window: u64,
    both: bool,
}

fn make_stream(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    if setting.ranks % 2 != 0 {
        let needed = "an even number of ranks".to_owned();
        return Err(ProgramError::BadSize { program: arguments.program(), needed, ranks: setting.ranks });
    }
    let stream = Stream {
        sizes: arguments.wholes("sizes"),
        windows: arguments.whole("iterations"),
        warm_up: arguments.whole("warm-up"),
        window: arguments.whole("window"),
        both: arguments.word("directions") == "both",
    };
    let window = stream.window as u32;
    let needs = Needs {
        memory_bytes: 0,
        receives: 4 * window + 8,
        unexpected: 2 * window + 8,
        windows: 0,
        eager_bytes_max: arguments.whole("eager-bytes"),
        ..Needs::default()
    };
    Ok(Prepared::new(needs, move |process| {
        let stream = stream.clone();
        async move {
            for bytes in &stream.sizes {
                if !stream.run(&process, *bytes).await {
                    return 1;
                }
            }
            0
        }
    }))
}

const TAG_DATA: u32 = 0;
const TAG_ANSWER: u32 = 1;
const TAG_BARRIER: u32 = 2;

impl Stream {
    async fn run(&self, process: &Process, bytes: u64) -> bool {
        let half = process.size() / 2;
        let rank = process.rank();
        let (partner, is_first) = if rank < half { (rank + half, true) } else { (rank - half, false) };
        let (sends, receives) = (is_first || self.both, !is_first || self.both);
        let post = || (0..self.window).map(|_| process.irecv(partner, TAG_DATA, bytes)).collect::<Vec<RequestId>>();
        let mut data = vec![0; bytes as usize];
        let mut posted = if receives { post() } else { Vec::new() };
        process.barrier(TAG_BARRIER).await;
        let mut start = process.now();
        for window in 0..self.warm_up + self.windows {
            if window == self.warm_up {
                start = process.now();
            }
            let answer = sends.then(|| process.irecv(partner, TAG_ANSWER, 0));
            let mut sent = Vec::new();
            for number in 0..if sends { self.window } else { 0 } {
                fill(seed(&[rank.into(), window, number, bytes]), &mut data);
                sent.push(process.isend(partner, TAG_DATA, &data).await);
            }
            for (number, request) in std::mem::take(&mut posted).into_iter().enumerate() {
                let message = process.wait(request).await;
                let stamp = seed(&[partner.into(), window, number as u64, bytes]);
                if !message.is_some_and(|message| is_payload_of(stamp, bytes, &message.bytes)) {
                    process.wrong(format!("message {number} of window {window} with {bytes} bytes has wrong bytes"));
                    return false;
                }
            }
            if receives {
                if window + 1 < self.warm_up + self.windows {
                    posted = post();
                }
                process.send(partner, TAG_ANSWER, &[]).await;
            }
            process.wait_all(&sent).await;
            if let Some(answer) = answer {
                process.wait(answer).await;
            }
        }
        let each = self.window * u64::from(half) * if self.both { 2 } else { 1 };
        let (size, count) = (bytes as f64, self.windows);
        let per_us = |time: Time| each as f64 / time.as_us_f64().max(f64::MIN_POSITIVE);
        process.lap("bandwidth of all pairs, MB/s", size, start, count, |time| per_us(time) * size);
        process.lap("messages of all pairs, 1e6/s", size, start, count, per_us);
        true
    }
}

fn make_incast(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let (bytes, messages) = (arguments.whole("bytes"), arguments.whole("messages"));
    let all = (u64::from(setting.ranks - 1)).saturating_mul(messages);
    if all > 1 << 20 {
        return Err(
            arguments.refuse("messages", format!("at most {} with this many ranks", (1 << 20) / (setting.ranks - 1)))
        );
    }
    let eager_bytes_max = arguments.whole("eager-bytes");
    let of_sender = Needs {
        memory_bytes: 0,
        receives: messages as u32 + 16,
        unexpected: 16,
        windows: 0,
        eager_bytes_max,
        ..Needs::default()
    };
    let needs = Needs { receives: all as u32 + 16, unexpected: all as u32 + 16, ..of_sender };
    let mut prepared = Prepared::new(needs, move |process| incast(process, bytes, messages));
    prepared.needs_of = Some(std::sync::Arc::new(move |rank| if rank == 0 { needs } else { of_sender }));
    Ok(prepared)
}

async fn incast(process: Process, bytes: u64, messages: u64) -> i32 {
    let senders = process.size() - 1;
    let mut posted = Vec::new();
    if process.rank() == 0 {
        for number in 0..messages {
            for sender in 1..=senders {
                posted.push((sender, number, process.irecv(sender, TAG_DATA, bytes)));
            }
        }
    }
    process.barrier(TAG_BARRIER).await;
    let start = process.now();
    let mut data = vec![0; bytes as usize];
    let mut sent = Vec::new();
    for number in 0..if process.rank() == 0 { 0 } else { messages } {
        fill(seed(&[process.rank().into(), number]), &mut data);
        sent.push(process.isend(0, TAG_DATA, &data).await);
    }
    process.wait_all(&sent).await;
    for (sender, number, request) in posted {
        let message = process.wait(request).await;
        let stamp = seed(&[sender.into(), number]);
        if !message.is_some_and(|message| is_payload_of(stamp, bytes, &message.bytes)) {
            return process.wrong(format!("message {number} of rank {sender} has wrong bytes"));
        }
    }
    if process.rank() == 0 {
        let time = process.now() - start;
        let all = (u64::from(senders) * messages * bytes) as f64;
        process.record("bandwidth at the receiver, MB/s", senders.into(), all / time.as_us_f64());
        process.record("until the last message, us", senders.into(), time.as_us_f64());
    }
    0
}
