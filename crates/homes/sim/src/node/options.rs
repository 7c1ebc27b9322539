// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Options of a simulation: events beside its ranks, its end, and the reasons why it cannot be made.

use std::sync::Arc;

use serde::Serialize;

use crate::machine::{FullMailbox, Machine};
use crate::network::{ErrorRates, FlowControl, NetworkError, Switching};
use crate::rerouting::{RerouteConfig, RerouteError};
use crate::time::Time;

use super::aggregation::Aggregation;
use super::jobs::JobSpan;
use super::pace::Variation;

/// The model of the fabric.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Model {
    /// Packet by packet, with credits and virtual channels.
    #[default]
    Packet,
    /// Each message as a whole; a channel serves one message after the other.
    Message,
}

impl Model {
    /// Refuses a machine with features that this model lacks.
    pub fn check(self, machine: &Machine) -> Result<(), SimulationError> {
        let network = &machine.network;
        let refuse = |what, instead| Err(SimulationError::Model { what, instead });
        match self {
            Model::Packet => Ok(()),
            _ if network.errors != ErrorRates::NONE => refuse(
                "packets that are lost or corrupted (link.loss, link.corruption)",
                "set both rates to 0 (--loss 0 --corruption 0)",
            ),
            _ if network.switch.switching == Switching::Wormhole => {
                refuse("wormhole switching", "switch whole packets (--set switch.switching=cut-through)")
            }
            _ if network.flow_control != FlowControl::Credits => {
                refuse("STOP and CONTINUE (link.flow_control)", "use credits (--set link.flow_control=credits)")
            }
            _ if network.congestion.is_some() => {
                refuse("congestion control", "leave it out (--set congestion.control=none)")
            }
            _ if !machine.routing.deadlock_free() => refuse(
                "deadlocks, which this machine's routing allows",
                "use a deadlock-free routing (routing.algorithm)",
            ),
            _ if machine.nic.full_mailbox == FullMailbox::Block => {
                refuse("NICs that block (nic.full_mailbox)", "use credits, or let full mailboxes drop")
            }
            Model::Message => Ok(()),
        }
    }

    /// Returns the model as text for a report.
    pub fn words(self) -> &'static str {
        match self {
            Model::Packet => "packet by packet",
            Model::Message => "each message as a whole",
        }
    }
}

/// Failure or repair of a channel of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fault {
    pub at: Time,
    pub channel: u32,
    pub up: bool,
}

/// A rank that is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Death {
    pub at: Time,
    pub rank: u32,
}

/// Options of a simulation.
#[derive(Clone, Debug)]
pub struct Options {
    /// Model of the fabric.
    pub network: Model,
    /// The node of each rank; empty: rank r is on node r.
    pub placement: Vec<u32>,
    /// The jobs whose ranks these are, in order; empty: one job of all ranks.
    pub jobs: Vec<JobSpan>,
    /// Spans to keep at most; 0: none.
    pub trace_limit: usize,
    /// The region of the programs that counts and trace are about; `None`: the whole run.
    pub region: Option<String>,
    /// Failures and repairs of channels.
    pub faults: Vec<Fault>,
    /// Managers that reroute; `None`: routes stay as they are.
    pub rerouting: Option<RerouteConfig>,
    /// Ranks that are killed, before all other events of the same time.
    pub deaths: Vec<Death>,
    /// Whether the other ranks continue when a rank is killed.
    pub keep_going: bool,
    /// Virtual time at which the run is ended.
    pub time_limit: Time,
    /// Time for which all ranks may poll and find nothing before the run counts as stuck.
    pub stuck_after: Time,
    /// Events between two calls of the observer.
    pub observe_every: u64,
    /// Variation of the steps of hosts.
    pub variation: Variation,
    /// Whether [`super::View::repetition`] is available.
    pub watch: bool,
    /// The aggregation nodes in the switches, and the job's share of them. `None`: switches do not reduce.
    pub aggregation: Option<Arc<Aggregation>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            network: Model::Packet,
            placement: Vec::new(),
            jobs: Vec::new(),
            trace_limit: 0,
            region: None,
            faults: Vec::new(),
            rerouting: None,
            deaths: Vec::new(),
            keep_going: false,
            time_limit: Time::MAX,
            stuck_after: Time::from_ns(10_000_000_000),
            observe_every: 1 << 14,
            variation: Variation::default(),
            watch: false,
            aggregation: None,
        }
    }
}

/// Reason why a simulation cannot be made. Each message names the remedy.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    #[error(
        "{ranks} ranks do not fit on the {nodes} nodes of this machine: ask for fewer, put several on a node (--ranks-per-node), or take a larger machine"
    )]
    TooManyRanks { ranks: u32, nodes: u32 },
    #[error("rank {rank} is placed on node {node}, but the machine has nodes 0 to {last}")]
    NoSuchNode { rank: u32, node: u32, last: u32 },
    #[error("the jobs have {of_jobs} ranks, but there are {ranks}: give each rank to one job")]
    RanksOfJobs { ranks: u32, of_jobs: u32 },
    #[error(
        "every job is in the background, so the run has no end: give it one (--time-limit), or add a program, or give traffic a number of messages"
    )]
    NoEnd,
    #[error("rank {rank} is to be killed, but the job has ranks 0 to {last}")]
    NoSuchRank { rank: u32, last: u32 },
    #[error(
        "the model of whole messages (--network message) lacks {what}: simulate packets (--network packet), or {instead}"
    )]
    Model { what: &'static str, instead: &'static str },
    #[error(
        "credits for {ranks} ranks need mailboxes of {needed} slots, but limits.mailbox_slots is {slots}: raise it, or use fewer ranks"
    )]
    TooFewSlots { ranks: u32, needed: u64, slots: u32 },
    #[error("threads cannot be started: {why}; allow more processes, or give --threads 1")]
    Threads { why: String },
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Reroute(#[from] RerouteError),
}
