// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tagged messages and remote memory over the NICs of this process, for front doors that send messages (`fi`).
//!
//! | file | subject |
//! |---|---|
//! | [`transport`] | a NIC for messages, with everything in flight |
//! | [`protocols`] | the protocol table |
//! | [`peers`] | other processes' NICs: our rings there, their protocols, their names |
//! | [`completion`], [`bindings`], [`ticket`] | where operations end: queues, counters, and what they report |
//! | [`message`], [`posted`], [`transfer`], [`work`], [`operation`] | operations as programs ask for them, and records of those that have not ended |
//! | [`send`], [`receive`], [`claim`], [`accesses`], [`deferred`] | the operations |
//! | [`regions`], [`region`] | registered memory |
//! | [`transport::progress`], [`polling`] | rings and event queues; when to poll them |
//! | [`flow`], [`flow_control`] | messages that travel as packets, and messages that their target refused |
//! | [`units`] | messages over VELO and RMA |
//! | [`complete`], [`pool`] | completions and counts of ended operations; buffers for unexpected payload |
//! | [`flags`], [`pieces`] | flags and error numbers; memory in several pieces |

// The callers of completions and tickets pass raw pointers that their front door vouches for.
#![allow(clippy::too_many_arguments)]

pub mod accesses;
pub mod bindings;
pub mod claim;
pub mod complete;
pub mod completion;
pub mod deferred;
pub mod delivered;
pub mod flags;
pub mod flow;
pub mod flow_control;
pub mod message;
pub mod operation;
pub mod peers;
pub mod pieces;
pub mod polling;
pub mod pool;
pub mod posted;

pub mod protocols;
pub mod receive;
pub mod region;
pub mod regions;

pub mod send;
pub mod ticket;
pub mod transfer;
pub mod transport;
pub mod units;
pub mod work;

pub use transport::Transport;
