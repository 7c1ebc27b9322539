// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Barrier, allreduce, broadcast.
//!
//! The time runs from the start of the first rank to the end of the last, over all iterations.

use std::sync::Arc;

use super::parameter::{Parameter, whole, wholes, word};
use super::payload::{fill, is_payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::program::aggregation::{JoinedGroup, Reduce};
use crate::program::collectives::Sum;
use crate::program::offload::{NicBarrier, NicBroadcast, NicSum};
use crate::program::{Needs, Process};
use crate::time::Time;

const ITERATIONS: Parameter = whole("iterations", "20", 1, "timed repetitions");
const WARM_UP: Parameter = whole("warm-up", "2", 0, "how often before");
const AHEAD: Parameter = whole("ahead", "4", 1, "with nic: operations armed at a time, untimed");
const EAGER: Parameter = whole("eager-bytes", "8K", 0, "messages up to this length are sent at once");

pub(super) const BARRIER: BuiltIn = BuiltIn {
    name: "barrier",
    about: "barrier of all ranks",
    over: "ranks",
    ranks_min: 1,
    parameters: &[
        ITERATIONS,
        WARM_UP,
        word(
            "algorithm",
            &["dissemination", "tree", "nic", "switches"],
            "dissemination",
            "nic: triggered operations; switches: aggregation nodes",
        ),
        AHEAD,
    ],
    make: make_barrier,
};

pub(super) const ALLREDUCE: BuiltIn = BuiltIn {
    name: "allreduce",
    about: "sum of all ranks' 8-byte words, at all ranks",
    over: "bytes",
    ranks_min: 1,
    parameters: &[
        wholes("sizes", "8", 8, "bytes, whole words of 8"),
        ITERATIONS,
        WARM_UP,
        word(
            "algorithm",
            &["recursive-doubling", "ring", "binomial", "rabenseifner", "nic", "switches"],
            "recursive-doubling",
            "binomial: reduce and broadcast; nic: triggered operations; switches: aggregation nodes",
        ),
        AHEAD,
        EAGER,
    ],
    make: make_allreduce,
};

pub(super) const BROADCAST: BuiltIn = BuiltIn {
    name: "broadcast",
    about: "rank 0's bytes to all ranks; a barrier before each",
    over: "bytes",
    ranks_min: 1,
    parameters: &[
        wholes("sizes", "8,1K,64K", 1, "bytes"),
        ITERATIONS,
        WARM_UP,
        word(
            "algorithm",
            &["binomial", "nic", SWITCHES],
            "binomial",
            "nic: triggered operations; switches: aggregation nodes, which OR the bytes with zeros of the others",
        ),
        AHEAD,
        EAGER,
    ],
    make: make_broadcast,
};

#[derive(Clone)]
struct Repeat {
    sizes: Vec<u64>,
    iterations: u64,
    warm_up: u64,
    ahead: u64,
    algorithm: &'static str,
    /// All ranks, as members of a group. Shared, since a list for each would grow with the square of their number.
    members: Arc<[u32]>,
}

impl Repeat {
    fn of(setting: &Setting<'_>, sizes: Vec<u64>) -> Repeat {
        let arguments = &setting.arguments;
        Repeat {
            sizes,
            iterations: arguments.whole("iterations"),
            warm_up: arguments.whole("warm-up"),
            ahead: arguments.whole("ahead"),
            algorithm: arguments.word("algorithm"),
            members: (0..setting.ranks).collect(),
        }
    }

    fn longest(&self) -> u64 {
        self.sizes.iter().copied().max().unwrap_or(0)
    }

    /// Returns batches of iterations that are armed together: whether they are timed, and their number.
    fn batches(&self) -> impl Iterator<Item = (bool, u64)> {
        let ahead = if self.algorithm == "nic" { self.ahead } else { u64::MAX };
        let split = move |timed: bool, count: u64| {
            let most = ahead.min(count.max(1));
            (0..count.div_ceil(most)).map(move |batch| (timed, most.min(count - batch * most)))
        };
        split(false, self.warm_up).chain(split(true, self.iterations))
    }
}

fn make_barrier(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let repeat = Repeat::of(setting, vec![0]);
    let size = setting.ranks;
    let nic = repeat.algorithm == "nic";
    let needs = Needs {
        windows: if nic { NicBarrier::windows(size) } else { 0 },
        triggered: if nic { NicBarrier::triggered(size) * repeat.ahead as u32 } else { 0 },
        memory_bytes: 0,
        receives: RECEIVES,
        groups: u32::from(repeat.algorithm == SWITCHES),
        ..Needs::default()
    };
    Ok(Prepared::new(needs, move |process| {
        let repeat = repeat.clone();
        async move {
            let group = match group_of_all(&process, &repeat).await {
                Ok(group) => group,
                Err(code) => return code,
            };
            let size = u64::from(process.size());
            let mut barrier = NicBarrier::new(process.size(), 0);
            let mut entered = 0;
            for (timed, count) in repeat.batches() {
                if nic {
                    if !(0..count).all(|_| barrier.arm(&process)) {
                        return process.wrong(NO_ROOM);
                    }
                    process.barrier(1).await;
                }
                let start = process.now();
                for _ in 0..count {
                    entered += 1;
                    process.witness(1);
                    match repeat.algorithm {
                        "tree" => process.barrier_tree(0).await,
                        "nic" => barrier.wait(&process).await,
                        SWITCHES => {
                            if let Err(code) = in_switches(&process, group.as_ref(), Reduce::WORDS, &mut []).await {
                                return code;
                            }
                        }
                        _ => process.barrier(0).await,
                    }
                    if process.witness(0) < entered * size {
                        return process.wrong(format!("it left barrier {entered} before every rank had entered it"));
                    }
                }
                if timed {
                    process.lap("barrier, us", size as f64, start, count, Time::as_us_f64);
                }
            }
            0
        }
    }))
}

/// Receives and long sends that a rank needs at once.
const RECEIVES: u32 = 2;
const RECEIVES_OF_TREE: u32 = 32;
const NO_ROOM: &str = "no room for the operations armed ahead: lower the parameter ahead";

fn make_allreduce(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let sizes = setting.arguments.wholes("sizes");
    if sizes.iter().any(|bytes| bytes % 8 != 0) {
        return Err(setting.arguments.refuse("sizes", "multiples of 8"));
    }
    let repeat = Repeat::of(setting, sizes);
    let nic = repeat.algorithm == "nic";
    let count = repeat.sizes.len() as u32;
    let needs = Needs {
        // Each size has its own windows and memory.
        windows: if nic { NicSum::WINDOWS * count } else { 0 },
        triggered: if nic { NicSum::triggered(setting.ranks) * repeat.ahead as u32 } else { 0 },
        memory_bytes: if nic {
            repeat.sizes.iter().map(|bytes| NicSum::memory(*bytes)).sum::<u64>() as usize
        } else if repeat.algorithm == SWITCHES {
            repeat.longest() as usize
        } else {
            0
        },
        groups: u32::from(repeat.algorithm == SWITCHES),
        receives: if repeat.algorithm == "binomial" { RECEIVES_OF_TREE } else { RECEIVES },
        eager_bytes_max: setting.arguments.whole("eager-bytes"),
        ..Needs::default()
    };
    let algorithm = match repeat.algorithm {
        "ring" => Sum::Ring,
        "binomial" => Sum::Binomial,
        "rabenseifner" => Sum::Rabenseifner,
        _ => Sum::RecursiveDoubling,
    };
    Ok(Prepared::new(needs, move |process| {
        let repeat = repeat.clone();
        async move {
            let group = match group_of_all(&process, &repeat).await {
                Ok(group) => group,
                Err(code) => return code,
            };
            let (mut window, mut memory) = (0, 0);
            for &bytes in &repeat.sizes {
                let by_nic = NicSum::new(bytes, window, memory);
                let code = sums(&process, &repeat, (algorithm, group.as_ref()), by_nic, bytes).await;
                if code != 0 {
                    return code;
                }
                window += NicSum::WINDOWS;
                memory += NicSum::memory(bytes);
            }
            0
        }
    }))
}

pub(super) const SWITCHES: &str = "switches";

/// Joins the group of all ranks, if they reduce in the switches. The error is an exit code.
async fn group_of_all(process: &Process, repeat: &Repeat) -> Result<Option<JoinedGroup>, i32> {
    join_all(process, repeat.algorithm, &repeat.members).await
}

/// Like [`group_of_all`], for a program with other parameters. `members`: all ranks.
pub(super) async fn join_all(process: &Process, algorithm: &str, members: &[u32]) -> Result<Option<JoinedGroup>, i32> {
    if algorithm != SWITCHES {
        return Ok(None);
    }
    let joined = process.join_group(0, members).await;
    joined.map(Some).map_err(|failure| process.wrong(format!("the group did not form: {failure:?}")))
}

/// Replaces the bytes of all ranks by their reduction, in the switches. They pass through the rank's first bytes of
/// memory.
pub(super) async fn in_switches(
    process: &Process,
    group: Option<&JoinedGroup>,
    reduce: Reduce,
    words: &mut [u8],
) -> Result<(), i32> {
    let Some(group) = group else { return Err(process.wrong("it has no group")) };
    process.memory_mut()[..words.len()].copy_from_slice(words);
    let reduced = process.reduce_in_network(group, reduce, 0, words.len() as u64).await;
    reduced.map_err(|failure| process.wrong(format!("a reduction failed: {failure:?}")))?;
    words.copy_from_slice(&process.memory()[..words.len()]);
    Ok(())
}

async fn sums(
    process: &Process,
    repeat: &Repeat,
    (algorithm, group): (Sum, Option<&JoinedGroup>),
    mut by_nic: NicSum,
    bytes: u64,
) -> i32 {
    let nic = repeat.algorithm == "nic";
    let (rank, size) = (u64::from(process.rank()), u64::from(process.size()));
    let mut words = vec![0; bytes as usize];
    let mut round = 0;
    for (timed, count) in repeat.batches() {
        if nic {
            if !(0..count).all(|_| by_nic.arm(process)) {
                return process.wrong(NO_ROOM);
            }
            process.barrier(1).await;
        }
        let start = process.now();
        for _ in 0..count {
            // Word w of rank r is (r + 1) (w + round + 1), so the sum over all ranks is known.
            for (word, bytes) in words.chunks_exact_mut(8).enumerate() {
                bytes.copy_from_slice(&((rank + 1) * (word as u64 + round + 1)).to_le_bytes());
            }
            match repeat.algorithm {
                "nic" => by_nic.add(process, &mut words).await,
                SWITCHES => {
                    if let Err(code) = in_switches(process, group, Reduce::WORDS, &mut words).await {
                        return code;
                    }
                }
                _ => process.allreduce(algorithm, 0, &mut words).await,
            }
            let all = size * (size + 1) / 2;
            let wrong = words
                .chunks_exact(8)
                .enumerate()
                .position(|(word, bytes)| bytes != (all * (word as u64 + round + 1)).to_le_bytes());
            if let Some(word) = wrong {
                return process.wrong(format!("word {word} of allreduce {round} of {bytes} bytes is not the sum"));
            }
            round += 1;
        }
        if timed {
            process.lap("allreduce, us", bytes as f64, start, count, Time::as_us_f64);
        }
    }
    0
}

fn make_broadcast(setting: &Setting<'_>) -> Result<Prepared, ProgramError> {
    let repeat = Repeat::of(setting, setting.arguments.wholes("sizes"));
    let (nic, by_switches) = (repeat.algorithm == "nic", repeat.algorithm == SWITCHES);
    let needs = Needs {
        windows: if nic { NicBroadcast::WINDOWS * repeat.sizes.len() as u32 } else { 0 },
        triggered: if nic { NicBroadcast::triggered(setting.ranks) * repeat.ahead as u32 } else { 0 },
        memory_bytes: if nic || by_switches { repeat.longest() as usize } else { 0 },
        groups: by_switches.into(),
        receives: RECEIVES_OF_TREE,
        eager_bytes_max: setting.arguments.whole("eager-bytes"),
        ..Needs::default()
    };
    Ok(Prepared::new(needs, move |process| {
        let repeat = repeat.clone();
        async move {
            let group = match group_of_all(&process, &repeat).await {
                Ok(group) => group,
                Err(code) => return code,
            };
            for (number, bytes) in repeat.sizes.iter().enumerate() {
                let code = broadcasts(&process, &repeat, group.as_ref(), (number as u32, *bytes)).await;
                if code != 0 {
                    return code;
                }
            }
            0
        }
    }))
}

async fn broadcasts(
    process: &Process,
    repeat: &Repeat,
    group: Option<&JoinedGroup>,
    (number, bytes): (u32, u64),
) -> i32 {
    let nic = repeat.algorithm == "nic";
    let mut by_nic = NicBroadcast::new(bytes, number * NicBroadcast::WINDOWS, 0);
    let mut data = vec![0; bytes as usize];
    let mut round = 0;
    for (timed, count) in repeat.batches() {
        if nic && !(0..count).all(|_| by_nic.arm(process)) {
            return process.wrong(NO_ROOM);
        }
        for _ in 0..count {
            let stamp = seed(&[round, bytes]);
            match process.rank() {
                0 => fill(stamp, &mut data),
                _ if group.is_some() => data.fill(0),
                _ => {}
            }
            process.barrier(1).await;
            let start = process.now();
            match repeat.algorithm {
                "nic" => by_nic.broadcast(process, &mut data).await,
                SWITCHES => {
                    if let Err(code) = in_switches(process, group, Reduce::BITS, &mut data).await {
                        return code;
                    }
                }
                _ => process.broadcast(0, &mut data).await,
            }
            if timed {
                process.lap("barrier's end to last arrival, us", bytes as f64, start, 1, Time::as_us_f64);
            }
            if !is_payload_of(stamp, bytes, &data) {
                return process.wrong(format!("broadcast {round} of {bytes} bytes delivered wrong bytes"));
            }
            round += 1;
        }
    }
    0
}
