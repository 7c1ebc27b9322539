// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes in virtual time: programs, hosts and NICs, connected by the fabric.
//!
//! The state is split into values with methods of their own; code that acts on several of them stands above.
//!
//! ```text
//! Simulation (run, turns) ── the event loop, turns of ranks
//!   └─ Transfers (transfers, departure, arrival, delivery, commands) ── messages between nodes
//!          ├─ Fabric, PairOrder, Switches
//!          └─ Nodes (nodes, mailboxes, autonomous) ── the steps that concern one node
//!                 └─ Events, RankStates, NodeHardware, Messages, Credits, Statistics, Trace, Watch, Slices, and the ranks
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `run` | [`Simulation`]: the event loop; how a run ends |
//! | `turns` | turns of ranks, and their requests |
//! | `transfers` | `Transfers`: messages from the command to the fabric |
//! | `departure` | a message that crosses the fabric as a whole departs |
//! | `arrival` | the steps at the target node, up to the delivery |
//! | `delivery` | the delivery of requests and responses |
//! | `commands` | commands on their way to the NIC, through the node's host interface |
//! | `switches` | `Switches`: aggregation nodes in switches and on hosts |
//! | `host_reduction` | the costs of reducing in a host's memory |
//! | `nodes` | `Nodes`: the state that steps share, and the steps that concern one node |
//! | `mailboxes` | messages whose mailbox is full: dropped, blocked, or limited by credits |
//! | `autonomous` | messages that a NIC sends without its program |
//! | `same_node` | messages in rings of ranks that share memory |
//! | `fabric` | `Fabric`: the network, in either of its models |
//! | `fetch` | the state of coming events, fetched into the cache |
//! | `rails` | the rails of nodes: which one a message takes |
//! | `order` | `PairOrder`: the order of messages between two ranks |
//! | `multicast` | `MulticastGroups`: receivers of results that are cast |
//! | `rank_states` | `RankStates`: activity and next turn of each rank |
//! | `hardware` | `NodeHardware`: resources that the messages of a node share |
//! | `credits` | `Credits`: shares of mailboxes |
//! | `message` | `Message`: a record for each message, and the table of all |
//! | `events` | `Events`: the event queue, and progress |
//! | `units` | the units of a node: until when each is busy, and its queue |
//! | `train` | times at which the packets of a message leave, in closed form |
//! | `list_search` | the cost of searching an ordered list |
//! | `livelock`, `slices` | ranks that repeat themselves; time slices of those that contend |
//! | `pace` | hosts that vary |
//! | `course` | `Course`: until when events are handled at once, and how a run ends |
//! | `changes` | faults and deaths, between two spells |
//! | [`parts`] | [`PartedSimulation`]: a machine in parts, each on a thread |
//! | `part` | `Part`: the nodes of a part, and its messages to other parts |
//! | `jobs`, `background` | the jobs of a run; when those in the background stop |
//! | [`ranks`] | the interface to the processes of a job: real processes, or futures |
//! | [`aggregation`] | trees and a job's share of the aggregation nodes, made before the run |
//! | [`tables`] | a NIC's tables in the simulator's memory |
//! | [`trace`] | spans: the work of units on messages, with start and end |
//! | `options`, [`outcome`], `rank_commands` | options and errors; how a run ended, and its statistics |
//!
//! Rules
//! 1. Events happen in order of virtual time; events of one time in the order in which they were scheduled.
//! 2. A transition of a NIC happens when its fixed costs are over. Its further cost (entries searched) keeps the engine
//!    busy afterwards, and delays the ranks that wait for its effect.
//! 3. Messages between two ranks are delivered in the order in which they were started, whatever the fabric does.
//! 4. A dead rank has no further turn, and its NIC fires no triggered operation. The NIC carries out the commands that
//!    it had already taken: the memory that it reads stays pinned until then. The node's NIC refuses messages that
//!    arrive afterwards; their initiator gets `PTL_NI_UNDELIVERABLE` when the refusal has travelled back.

pub mod aggregation;
mod arrival;
mod autonomous;
mod background;
mod changes;
mod commands;
mod course;
mod credits;
mod delivery;
mod departure;
mod events;
mod fabric;
mod fetch;
mod hardware;
mod host_reduction;
mod jobs;
mod list_search;
mod livelock;
mod mailboxes;
mod message;
mod multicast;
mod nodes;
mod options;
mod order;
pub mod outcome;
mod pace;
mod part;
pub mod parts;
mod rails;
mod rank_commands;
mod rank_states;
pub mod ranks;
mod regions;
mod run;
mod same_node;
mod slices;
mod switches;
pub mod tables;
pub mod trace;
mod train;
mod transfers;
mod turns;
mod units;

pub use aggregation::{Aggregation, AggregationError};
pub use jobs::{JobCounts, JobSpan};
pub(crate) use list_search::header_search;
pub use livelock::{Operation, Repeated, Repetition};
pub use options::{Death, Fault, Model, Options, SimulationError};
pub use outcome::{End, Outcome, Progress, Statistics, Waiting};
pub use pace::Variation;
pub use parts::{MakeRanks, PartedSimulation, Whole, whole};
pub use rank_commands::RankCommands;
pub use ranks::{Bytes, Incoming, KILLED, Meter, RankRequest, Ranks, RegisterSums, StartFlags, TimedRequest};
pub use regions::{RegionCounts, RegionReport, RegionReports};
pub use run::{Simulation, View};
