// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traffic as a job: a program whose ranks put messages into each other's memory, by a pattern and at a load.
//!
//! It is a program like any other, so its messages pass hosts, NICs and the fabric in both models of the network, and
//! share what a job's messages share. [`crate::traffic`] has traffic on the network alone, without hosts.
//!
//! Each rank draws the gaps between its messages and their targets from numbers of its own: a function of the job's
//! seed, the rank and the message. The load is the share of the time for which the injection channels of a rank's node,
//! one for each rail, are busy, at one rank on a node.
//!
//! Traffic without a number of messages has no end. Its ranks keep at most [`QUEUE`] messages before the network, and
//! leave out messages that are late by more than [`LATE_MAX`] gaps, so an overloaded network fills no memory. Traffic
//! with a number of messages leaves none out, asks for acknowledgements, and ends with the last of them.

use std::fmt;
use std::sync::Arc;

use super::error::JobProblem;
use crate::machine::Machine;
use crate::machine::graph::Class;
use crate::program::ready::Prepared;
use crate::program::{Needs, Process};
use crate::random::Random;
use crate::time::Time;
use crate::traffic::{Destinations, Pattern};

/// The traffic of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrafficJob {
    pub pattern: Pattern,
    /// Share of the injection bandwidth, above 0 and at most 1.
    pub load: f64,
    /// Payload of a message.
    pub message_bytes: u32,
    /// Messages of each rank; `None`: no end.
    pub messages: Option<u64>,
}

/// Messages of a rank that its NIC has and that have not left its node; with a number of messages, unacknowledged ones.
const QUEUE: u64 = 16;
/// Most mean gaps between two messages by which a message may be late.
const LATE_MAX: u64 = 256;
/// First of the random streams, one for each rank.
const STREAM: u64 = 0x7472_6166_0000_0000;
/// The counter of messages that have left.
const LEFT: u32 = 0;

impl TrafficJob {
    pub const MESSAGE_BYTES_MAX: u32 = 1 << 20;

    pub fn new(pattern: Pattern) -> TrafficJob {
        TrafficJob { pattern, load: 0.3, message_bytes: 4096, messages: None }
    }

    /// Returns the time for which a message keeps the injection channels of its node busy, as the mean over its rails.
    pub fn busy(&self, machine: &Machine) -> Time {
        let frame = machine.graph.path(Class::Request).frame_bytes;
        let one = machine.network.message_time(u64::from(self.message_bytes) + frame);
        one / u64::from(machine.topology.rails().count())
    }

    /// Returns the number of ranks on these nodes that send.
    pub fn sources(&self, machine: &Machine, nodes: &[u32]) -> u32 {
        let to = Destinations::among(self.pattern, &machine.topology, nodes);
        to.map_or(0, |to| (0..nodes.len() as u32).filter(|&rank| to.is_source(rank)).count() as u32)
    }

    /// Prepares the program of ranks on these nodes.
    pub fn prepare(&self, machine: &Arc<Machine>, nodes: &[u32], seed: u64) -> Result<Prepared, JobProblem> {
        let plan = Plan {
            destinations: Destinations::among(self.pattern, &machine.topology, nodes)?,
            traffic: *self,
            gap_mean: Time((self.busy(machine).0 as f64 / self.load).round() as u64),
            seed,
        };
        let needs = Needs {
            memory_bytes: self.message_bytes as usize,
            receives: 1,
            unexpected: 1,
            windows: LEFT + 1,
            ..Needs::default()
        };
        let plan = Arc::new(plan);
        let mut prepared = Prepared::new(needs, move |process| send(process, Arc::clone(&plan)));
        let messages = self.messages.map(|messages| ("messages", messages.to_string()));
        let of_all = [("load", self.load.to_string()), ("message-bytes", self.message_bytes.to_string())];
        prepared.settings = of_all.into_iter().chain(messages).collect();
        Ok(prepared)
    }
}

impl fmt::Display for TrafficJob {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TrafficJob { pattern, load, message_bytes, messages } = self;
        write!(out, "{pattern} traffic, load {load}, messages of {message_bytes} bytes")?;
        messages.map_or(Ok(()), |messages| write!(out, ", {messages} from each"))
    }
}

struct Plan {
    destinations: Destinations,
    traffic: TrafficJob,
    gap_mean: Time,
    seed: u64,
}

async fn send(process: Process, plan: Arc<Plan>) -> i32 {
    let rank = process.rank();
    if !plan.destinations.is_source(rank) {
        return 0;
    }
    let mut random = Random::new(plan.seed, STREAM + u64::from(rank));
    let data = vec![0; plan.traffic.message_bytes as usize];
    let (mut due, late_max) = (process.now(), plan.gap_mean * LATE_MAX);
    for number in 0..plan.traffic.messages.unwrap_or(u64::MAX) {
        due += Time(random.exponential(plan.gap_mean.0 as f64) as u64);
        let to = plan.destinations.target(rank, &mut random);
        if plan.traffic.messages.is_some() {
            process.sleep(due.saturating_sub(process.now())).await;
            process.put_acknowledged(to, 0, &data).await;
            process.limit_unacknowledged(QUEUE).await;
            continue;
        }
        due = due.max(process.now().saturating_sub(late_max));
        process.sleep(due.saturating_sub(process.now())).await;
        process.put_counting_departure(to, 0, &data, LEFT).await;
        process.wait_count(LEFT, (number + 1).saturating_sub(QUEUE)).await;
    }
    process.fence().await;
    i32::from(process.failed() > 0)
}
