// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes in virtual time: programs, hosts and NICs, connected by the fabric.
//!
//! | file | what |
//! |---|---|
//! | [`ranks`] | the interface to the processes of a job: real processes, or futures |
//! | `options` | options of a simulation, and its errors |
//! | `run` | the event loop: turns of ranks, waiting ranks, stuck ranks |
//! | `message` | one message from command to counter, step by step |
//! | `commands` | commands on their way to the NIC, by the node's host interface |
//! | `credits` | credits of mailboxes |
//! | [`aggregation`] | aggregation nodes in switches |
//! | `arrival` | the steps at the target node |
//! | `kept` | lock requests that a NIC keeps, and their answers |
//! | `mailboxes` | messages whose mailbox is full: dropped, blocked, or by credits |
//! | `fabric` | the fabric, in either of its models; a message that crosses it as a whole |
//! | `units` | the units of a node: until when each is busy, and what waits before it |
//! | `hardware` | what else the messages of a node share: who leaves next, order, streams |
//! | `same_node` | ranks of one node that share memory: messages in rings, and the price of a message in memory |
//! | `train` | when the packets of a message leave, in closed form |
//! | `list_search` | what a search of an ordered list would have cost |
//! | [`tables`] | a NIC's tables in the simulator's memory |
//! | [`trace`] | spans: which unit worked on which message, from when to when |
//! | [`outcome`] | how a run ended, and its statistics |
//!
//! Rules
//! 1. Events happen in order of virtual time; events of one time in the order in which they were scheduled.
//! 2. A transition of a NIC happens when its fixed costs are over. Its further cost (entries searched) keeps the engine
//!    busy afterwards, and delays the ranks that wait for its effect.
//! 3. Messages between two ranks are delivered in the order in which they were started, whatever the fabric does.
//! 4. A dead rank has no further turn, and its NIC fires no triggered operation. The NIC carries out the commands that
//!    it had taken before: the memory that it reads stays pinned until it has read it. A message that arrives at the
//!    node afterwards is refused by the node's NIC; its initiator gets `PTL_NI_UNDELIVERABLE` when the refusal has
//!    travelled back.

pub mod aggregation;
mod arrival;
mod commands;
mod credits;
mod fabric;
mod hardware;
mod kept;
mod list_search;
mod livelock;
mod mailboxes;
mod message;
mod multicast;
mod options;
pub mod outcome;
mod pace;
pub mod ranks;
mod run;
mod same_node;
pub mod tables;
pub mod trace;
mod train;
mod units;

pub use aggregation::{Aggregation, AggregationError};
pub use commands::{RankCommands, Wish};
pub use fabric::Model;
pub(crate) use list_search::header_search;
pub use livelock::{Operation, Repeated, Repetition};
pub use options::{Death, Fault, Options, SimulationError};
pub use outcome::{End, Outcome, Progress, Statistics, Waiting};
pub use pace::Variation;
pub use ranks::{Ask, Bytes, Incoming, KILLED, Meter, Ranks, RegisterSums, Turn};
pub use run::{Simulation, View};
