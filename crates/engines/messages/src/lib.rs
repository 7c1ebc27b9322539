// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tagged messages and remote memory over the NICs of this process, for front doors that send messages (`fi`).
//!
//! | records | subject |
//! |---|---|
//! | [`error`], [`flags`], [`pieces`] | errors; flags of completions; memory in several pieces |
//! | [`protocols`] | the protocol table |
//! | [`completion`], [`bindings`], [`ticket`] | queues, counters and reports at the ends of operations |
//! | [`message`], [`posted`], [`transfer`], [`work`], [`region`], [`operation`] | requests of programs, and records of unfinished operations |
//! | [`arriving`] | messages that this process takes itself |
//!
//! | parts | subject |
//! |---|---|
//! | [`own_nic`], [`complete`] | the NIC: event queues, entries, counters; ends of operations |
//! | [`tables`] | the sizes of the NIC's tables |
//! | [`operations`], [`peers`], [`polling`] | the table of operations; other processes' NICs; when to poll |
//! | [`in_flight`], [`pool`] | all of these; buffers for unexpected payload |
//! | [`send`], [`delivered`], [`flow`], [`flow_control`] | sends: rings and direct; those that end with their delivery; packets |
//! | [`receive`], [`receive_ends`], [`claim`], [`endpoints`] | receives, their ends, unexpected messages; the endpoints |
//! | [`accesses`], [`regions`] | others' registered memory, and this process's |
//! | [`units`] | messages and accesses over VELO and RMA |
//! | [`deferred`] | deferred work |
//!
//! [`transport`] combines the parts: a NIC for messages, with everything in flight.

mod accesses;
mod arriving;
pub mod bindings;
mod claim;
mod complete;
pub mod completion;
mod deferred;
mod delivered;
mod endpoints;
pub mod error;
pub mod flags;
mod flow;
mod flow_control;
mod in_flight;
pub mod message;
mod operation;
mod operations;
mod own_nic;
mod peers;
pub mod pieces;
pub mod polling;
mod pool;
pub mod posted;
pub mod protocols;
mod receive;
mod receive_ends;
pub mod region;
pub mod regions;
mod send;
pub mod tables;
pub mod ticket;
pub mod transfer;
pub mod transport;
mod units;
pub mod work;

pub use transport::Transport;
