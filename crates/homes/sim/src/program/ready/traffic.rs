// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Messages to random ranks, through hosts and NICs.
//!
//! Each rank sends at random times, at a given share of a link's bandwidth, and receives in between. The targets follow
//! from a seed, so each rank knows its number of messages. [`crate::traffic`] has traffic on the network alone.

use std::collections::VecDeque;
use std::sync::Arc;

use super::parameter::{Kind, Parameter, whole};
use super::payload::{fill, is_payload_of, seed};
use super::{BuiltIn, Prepared, ProgramError, Setting};
use crate::machine::Machine;
use crate::program::ANY;
use crate::program::{Message, Needs, Process};
use crate::random::Random;
use crate::time::Time;

const LOADS: Parameter = Parameter {
    name: "loads",
    kind: Kind::Numbers { least: 1e-6, most: 100.0 },
    default: "0.005,0.02,0.1,0.5",
    about: "payload that each rank offers, as shares of a link's bandwidth",
};
const MESSAGES: Parameter = whole("messages", "50", 1, "messages of each rank at each load");
const BYTES: Parameter = whole("bytes", "1K", 16, "bytes of a message");
const SEED: Parameter = whole("seed", "1", 0, "of times and targets");

pub(super) const UNIFORM: BuiltIn = BuiltIn {
    name: "uniform",
    about: "messages to all other ranks evenly",
    over: "offered, MB/s",
    ranks_min: 2,
    parameters: &[LOADS, MESSAGES, BYTES, SEED],
    make: |setting| make(setting, Pattern::Uniform),
};

pub(super) const HOTSPOT: BuiltIn = BuiltIn {
    name: "hotspot",
    about: "messages to rank 0 more than to others",
    over: "offered, MB/s",
    ranks_min: 2,
    parameters: &[LOADS, MESSAGES, BYTES, SEED, share("share", "0.2", "of messages that go to rank 0")],
    make: |setting| make(setting, Pattern::Hotspot(setting.arguments.number("share"))),
};

pub(super) const LOCALITY: BuiltIn = BuiltIn {
    name: "locality",
    about: "messages to the nearest nodes more than to others",
    over: "offered, MB/s",
    ranks_min: 2,
    parameters: &[LOADS, MESSAGES, BYTES, SEED, share("locality", "0.7", "of messages that go to the nearest nodes")],
    make: |setting| make(setting, Pattern::Locality(setting.arguments.number("locality"))),
};

const fn share(name: &'static str, default: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Number { least: 0.0, most: 1.0 }, default, about }
}

#[derive(Clone, Copy)]
enum Pattern {
    Uniform,
    Hotspot(f64),
    Locality(f64),
}

/// The messages of all ranks: targets and times.
struct Plan {
    pattern: Pattern,
    ranks: u32,
    seed: u64,
    messages: u64,
    bytes: u64,
    /// Mean time between two messages of a rank, for each load.
    gaps: Vec<Time>,
    /// Payload that a rank offers, for each load.
    offered_mbps: Vec<f64>,
    /// The nearest ranks of each rank; empty if the pattern does not use them.
    nearest: Vec<Vec<u32>>,
    /// Number of messages that a rank receives: by load, then by rank.
    expected: Vec<Vec<u32>>,
}

const POSTED: usize = 16;
/// Nearest ranks that are kept, and most ranks of a job for which they are computed.
const NEAREST_MAX: usize = 16;
const SEARCHED_MAX: u32 = 4096;
const PLAN_MAX: u64 = 1 << 28;
const TAG_BARRIER: u32 = 1;

fn make(setting: &Setting<'_>, pattern: Pattern) -> Result<Prepared, ProgramError> {
    let arguments = &setting.arguments;
    let loads = arguments.numbers("loads");
    let (bytes, messages) = (arguments.whole("bytes"), arguments.whole("messages"));
    let all = messages.saturating_mul(setting.ranks.into()).saturating_mul(loads.len() as u64);
    if all > PLAN_MAX {
        return Err(arguments.refuse("messages", format!("a number with at most {PLAN_MAX} messages in all")));
    }
    let network = &setting.machine.network;
    let link = network.node_link.unwrap_or(network.link.speed()).bandwidth_bytes_per_s as f64;
    let link = link * f64::from(setting.machine.topology.rails().count());
    let mut plan = Plan {
        pattern,
        ranks: setting.ranks,
        seed: arguments.whole("seed"),
        messages,
        bytes,
        gaps: loads.iter().map(|load| Time::from_seconds_f64(bytes as f64 / (load * link))).collect(),
        offered_mbps: loads.iter().map(|load| (load * link / 1e3).round() / 1e3).collect(),
        nearest: Vec::new(),
        expected: Vec::new(),
    };
    if let Pattern::Locality(_) = pattern {
        plan.nearest = (0..setting.ranks).map(|rank| nearest(setting.machine, setting.ranks, rank)).collect();
    }
    for load in 0..loads.len() {
        let mut expected = vec![0; setting.ranks as usize];
        for rank in 0..setting.ranks {
            let mut random = plan.random(load, rank);
            for _ in 0..messages {
                expected[plan.next(&mut random, rank, load).1 as usize] += 1;
            }
        }
        plan.expected.push(expected);
    }
    let plan = Arc::new(plan);
    let shared = Arc::clone(&plan);
    let needs_of = move |rank: u32| {
        let most = shared.expected.iter().map(|expected| expected[rank as usize]).max().unwrap_or(0);
        Needs {
            memory_bytes: 0,
            receives: POSTED as u32 + 8,
            unexpected: most + 16,
            windows: 0,
            eager_bytes_max: u64::MAX,
            ..Needs::default()
        }
    };
    let needs = (0..setting.ranks).map(&needs_of).max_by_key(|needs| needs.unexpected).unwrap_or_default();
    let mut prepared = Prepared::new(needs, move |process| {
        let plan = Arc::clone(&plan);
        async move {
            for load in 0..plan.gaps.len() {
                if !plan.run(&process, load).await {
                    return 1;
                }
            }
            0
        }
    });
    prepared.needs_of = Some(Arc::new(needs_of));
    Ok(prepared)
}

/// Returns the ranks on the nearest nodes, if each rank has its own node; otherwise the ranks before and after.
fn nearest(machine: &Machine, ranks: u32, rank: u32) -> Vec<u32> {
    let others = || (0..ranks).filter(|other| *other != rank);
    if ranks > SEARCHED_MAX || ranks > machine.topology.rails().nodes() {
        return vec![(rank + 1) % ranks, (rank + ranks - 1) % ranks];
    }
    let topology = &machine.topology;
    let hops = |other: u32| topology.plane().hops_min(topology.seat(rank), topology.seat(other));
    let least = others().map(hops).min().unwrap_or(0);
    others().filter(|other| hops(*other) == least).take(NEAREST_MAX).collect()
}

impl Plan {
    fn random(&self, load: usize, rank: u32) -> Random {
        Random::new(self.seed, (load as u64) << 32 | u64::from(rank))
    }

    /// Returns the next message of a rank: the gap since the last one, and the target.
    fn next(&self, random: &mut Random, rank: u32, load: usize) -> (Time, u32) {
        let gap = Time(random.exponential(self.gaps[load].0 as f64) as u64);
        let aimed = match self.pattern {
            Pattern::Uniform => None,
            Pattern::Hotspot(share) => (random.chance(share) && rank != 0).then_some(0),
            Pattern::Locality(share) => random.chance(share).then(|| {
                let near = &self.nearest[rank as usize];
                near[random.below(near.len() as u64) as usize]
            }),
        };
        let to = aimed.unwrap_or_else(|| (rank + 1 + random.below(u64::from(self.ranks) - 1) as u32) % self.ranks);
        (gap, to)
    }

    async fn run(&self, process: &Process, load: usize) -> bool {
        let rank = process.rank();
        let mut left = self.expected[load][rank as usize] as usize;
        let mut unposted = left;
        let mut posted = VecDeque::new();
        let post = |posted: &mut VecDeque<_>, unposted: &mut usize| {
            while posted.len() < POSTED && *unposted > 0 {
                posted.push_back(process.irecv(ANY, load_tag(load), self.bytes));
                *unposted -= 1;
            }
        };
        process.barrier(TAG_BARRIER).await;
        post(&mut posted, &mut unposted);
        let start = process.now();
        let mut due = start;
        let mut random = self.random(load, rank);
        let mut data = vec![0; self.bytes as usize];
        for number in 0..self.messages {
            let (gap, to) = self.next(&mut random, rank, load);
            due += gap;
            process.sleep(due - process.now()).await;
            while let Some(first) = posted.front() {
                let Some((_, message)) = process.done_of(&[*first]).await else { break };
                posted.pop_front();
                left -= 1;
                post(&mut posted, &mut unposted);
                if !self.check(process, message) {
                    return false;
                }
            }
            let (head, body) = data.split_at_mut(8);
            head.copy_from_slice(&number.to_le_bytes());
            fill(seed(&[rank.into(), to.into(), number]), body);
            process.send(to, load_tag(load), &data).await;
        }
        while left > 0 {
            post(&mut posted, &mut unposted);
            let Some(first) = posted.pop_front() else { break };
            left -= 1;
            if !self.check(process, process.wait(first).await) {
                return false;
            }
        }
        let sent = (self.messages * self.bytes) as f64;
        process.lap("delivered to each rank, MB/s", self.offered_mbps[load], start, 1, |time| sent / time.as_us_f64());
        true
    }

    fn check(&self, process: &Process, message: Option<Message>) -> bool {
        let right = message.as_ref().is_some_and(|message| {
            let number = message.bytes.first_chunk().map_or(0, |number| u64::from_le_bytes(*number));
            let stamp = seed(&[message.source.into(), process.rank().into(), number]);
            number < self.messages && is_payload_of(stamp, self.bytes - 8, message.bytes.get(8..).unwrap_or(&[]))
        });
        if !right {
            let from = message.map_or(ANY, |message| message.source);
            process.wrong(format!("a message from rank {from} has wrong bytes"));
        }
        right
    }
}

fn load_tag(load: usize) -> u32 {
    TAG_BARRIER + 1 + load as u32
}
