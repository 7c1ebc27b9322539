// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Nodes in virtual time: programs, hosts and NICs, joined by the fabric.
//!
//! | file | what |
//! |---|---|
//! | [`ranks`] | what the simulation needs of the processes that it runs |
//! | `run` | the event loop: whose turn it is, who waits, who is stuck |
//! | `message` | one message from command to counter, step by step |
//! | `arrival` | the steps at the node where it arrives |
//! | `fabric` | the fabric between them, in either of its models; a message that crosses it as a whole |
//! | `station` | what a node has once: processor, engines of its NIC, its bus, its streams |
//! | `train` | when the packets of a message leave, in closed form |
//! | `walk` | what a search of an ordered list would have cost |
//! | [`tables`] | a NIC's tables in the simulator's memory |
//! | [`trace`] | who worked on which message, from when to when |
//! | [`outcome`] | how a run ended, and what was counted |
//!
//! Rules
//! 1. Everything happens in order of virtual time, and at one time in the order in which it was scheduled.
//! 2. A transition of a NIC happens when its fixed costs are over. What it turns out to cost beyond (entries searched) keeps the
//!    engine busy afterwards, and delays whoever waits for its effect.
//! 3. Messages between two ranks are delivered in the order in which they were started, whatever the fabric does.
//! 4. A rank that is dead has no further turn, and nothing of its NIC is set off. Commands that the NIC had taken are carried out to
//!    their end: what a NIC reads is pinned until it has read it. What reaches its node, or was on the way there, is refused
//!    by that node's NIC, and its initiator is told `PTL_NI_UNDELIVERABLE` when word of that is back.

mod arrival;
mod fabric;
mod message;
pub mod outcome;
pub mod ranks;
mod run;
mod station;
pub mod tables;
pub mod trace;
mod train;
mod walk;

pub use fabric::Model;
pub use outcome::{End, Outcome, Progress, Statistics, Waiting};
pub use ranks::{Ask, Bytes, KILLED, Meter, Ranks, Turn};
pub use run::{Death, Fault, Options, Simulation, SimulationError};
pub(crate) use walk::of_headers as headers_walk;
