// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The functions that libfabric calls, one file for each of its man pages. They check arguments and translate them for
//! the objects ([`crate::objects`]) and the transport. Data transfer: [`message`], [`rma`], [`atomic`], [`collective`],
//! [`deferred`]. [`fast_path`] is the short path of common messages.

pub mod address_vector;
pub mod arguments;
pub mod atomic;
pub mod atomic_types;
pub mod av_set;
pub mod collective;
pub mod completion_queue;
pub mod counter;
pub mod deferred;
pub mod domain;
pub mod endpoint;
pub mod event_queue;
pub mod fabric;
pub mod fast_path;
pub mod message;
pub mod region;
pub mod rma;
