// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Latency: rank 0 and the last rank send a message back and forth; the other ranks do nothing.
//!
//! The next receive is posted while the message is in flight, so that the time to post it does not count.

use super::parameter::{Parameter, whole, wholes, word};
use super::payload::{fill, is_payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::{Needs, Process};
use crate::time::Time;

const SIZES: Parameter = wholes("sizes", "0,8,16,32,64,256,1K,4K,16K,64K", 0, "bytes of a message");
const ITERATIONS: Parameter = whole("iterations", "20", 1, "timed round trips");
const WARM_UP: Parameter = whole("warm-up", "2", 0, "untimed round trips before them");

pub(super) const PING_PONG: BuiltIn = BuiltIn {
    name: "ping-pong",
    about: "latency: half of a round trip between rank 0 and the last rank",
    over: "bytes",
    ranks_min: 2,
    parameters: &[
        SIZES,
        ITERATIONS,
        WARM_UP,
        word("how", &["messages", "counting", "flag"], "messages", "messages; counting puts; put, fence and flag"),
        whole("eager-bytes", "8K", 0, "messages up to this length are sent at once"),
    ],
    make: make_ping_pong,
};

pub(super) const COUNTING: BuiltIn = BuiltIn {
    name: "counting",
    about: "ping-pong of counting puts against put, fence and flag (seed 004, section 3.1)",
    over: "bytes",
    ranks_min: 2,
    parameters: &[SIZES, ITERATIONS, WARM_UP],
    make: make_counting,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Messages,
    Counting,
    Flag,
}

impl How {
    fn series(self) -> &'static str {
        match self {
            How::Messages => "half round trip, us",
            How::Counting => "half round trip of counting puts, us",
            How::Flag => "half round trip of put, fence and flag, us",
        }
    }
}

#[derive(Clone)]
struct Play {
    sizes: Vec<u64>,
    iterations: u64,
    warm_up: u64,
}

impl Play {
    fn of(setting: &Setting<'_>) -> Play {
        let arguments = &setting.arguments;
        Play {
            sizes: arguments.wholes("sizes"),
            iterations: arguments.whole("iterations"),
            warm_up: arguments.whole("warm-up"),
        }
    }

    fn needs(&self, eager_bytes_max: u64) -> Needs {
        let longest = self.sizes.iter().copied().max().unwrap_or(0) as usize;
        Needs { memory_bytes: FLAG_BYTES + longest, receives: 8, unexpected: 8, eager_bytes_max, ..Needs::default() }
    }
}

/// Size of the flag at address 0; the payload follows it.
const FLAG_BYTES: usize = 8;

fn make_ping_pong(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let play = Play::of(setting);
    let how = match setting.arguments.word("how") {
        "counting" => How::Counting,
        "flag" => How::Flag,
        _ => How::Messages,
    };
    let needs = play.needs(setting.arguments.whole("eager-bytes"));
    Ok(Prepared::new(needs, move |process| {
        let play = play.clone();
        async move {
            let mut rally = Rally::default();
            for size in &play.sizes {
                let Some(half) = rally.play(&process, &play, how, *size).await else { return 1 };
                if process.rank() == 0 {
                    process.record(how.series(), *size as f64, half.as_us_f64());
                }
            }
            0
        }
    }))
}

fn make_counting(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let play = Play::of(setting);
    Ok(Prepared::new(play.needs(u64::MAX), move |process| {
        let play = play.clone();
        async move {
            let mut rally = Rally::default();
            for size in &play.sizes {
                let mut halves = [Time::ZERO; 2];
                for (half, how) in halves.iter_mut().zip([How::Counting, How::Flag]) {
                    let Some(time) = rally.play(&process, &play, how, *size).await else { return 1 };
                    *half = time;
                    if process.rank() == 0 {
                        process.record(how.series(), *size as f64, time.as_us_f64());
                    }
                }
                if process.rank() == 0 {
                    let ratio = halves[1].as_us_f64() / halves[0].as_us_f64();
                    process.record("flag over counting, ratio", *size as f64, ratio);
                }
            }
            0
        }
    }))
}

/// Counts that continue from one size to the next.
#[derive(Default)]
struct Rally {
    counted: u64,
    flagged: u64,
}

impl Rally {
    /// Returns the mean half round trip; zero on ranks that take no part. `None`: wrong bytes have arrived.
    async fn play(&mut self, process: &Process, play: &Play, how: How, bytes: u64) -> Option<Time> {
        let last = process.size() - 1;
        let (rank, partner) = match process.rank() {
            0 => (0, last),
            rank if rank == last => (last, 0),
            _ => return Some(Time::ZERO),
        };
        let mut data = vec![0; bytes as usize];
        let mut posted = (how == How::Messages).then(|| process.irecv(partner, 0, bytes));
        let rounds = play.warm_up + play.iterations;
        let mut start = process.now();
        for round in 0..rounds {
            if round == play.warm_up {
                start = process.now();
            }
            for sender in [0, last] {
                let stamp = seed(&[round, u64::from(sender), bytes]);
                if rank == sender {
                    fill(stamp, &mut data);
                    self.send(process, how, partner, &data).await;
                    continue;
                }
                let right = match how {
                    How::Messages => {
                        let request = posted.take()?;
                        if rank == 0 && round + 1 < rounds {
                            posted = Some(process.irecv(partner, 0, bytes));
                        }
                        let message = process.wait(request).await?;
                        is_payload_of(stamp, bytes, &message.bytes)
                    }
                    _ => {
                        self.wait(process, how).await
                            && is_payload_of(stamp, bytes, &process.memory()[FLAG_BYTES..][..bytes as usize])
                    }
                };
                if !right {
                    process.wrong(format!("message {round} of {bytes} bytes from rank {sender} has wrong bytes"));
                    return None;
                }
            }
            if rank != 0 && how == How::Messages && round + 1 < rounds {
                posted = Some(process.irecv(partner, 0, bytes));
            }
        }
        Some((process.now() - start) / (2 * play.iterations))
    }

    async fn send(&self, process: &Process, how: How, to: u32, data: &[u8]) {
        match how {
            How::Messages => process.send(to, 0, data).await,
            How::Counting => process.put_counting(to, 0, FLAG_BYTES as u64, data).await,
            How::Flag => {
                process.put_acknowledged(to, FLAG_BYTES as u64, data).await;
                process.fence().await;
                process.add(to, 0, 1).await;
            }
        }
    }

    /// Waits for the next message. False: the flag is wrong.
    async fn wait(&mut self, process: &Process, how: How) -> bool {
        match how {
            How::Counting => {
                self.counted += 1;
                process.wait_count(0, self.counted).await;
                true
            }
            _ => {
                self.flagged += 1;
                process.wait_word(0, self.flagged).await;
                process.word(0) == self.flagged
            }
        }
    }
}
