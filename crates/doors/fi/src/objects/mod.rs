// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libfabric's objects: their state, and how it is locked. Nothing here is called by libfabric ([`crate::calls`]).
//!
//! | file | object |
//! |---|---|
//! | [`object`] | the common part: head, use counts |
//! | [`fabric`], [`event_queue`] | objects without a domain |
//! | [`domain`], [`held`] | the domain and its lock; an object of a domain |
//! | [`av_set`], [`collective`], [`meeting`] | subsets of address vectors, collective groups, how groups form |
//! | [`address`], [`address_vector`], [`completion_queue`], [`counter`], [`region`], [`endpoint`] | objects of a domain |

pub mod address;
pub mod address_vector;
pub mod av_set;
pub mod collective;
pub mod completion_queue;
pub mod counter;
pub mod domain;
pub mod endpoint;
pub mod event_queue;
pub mod fabric;
pub mod held;
pub mod meeting;
#[macro_use]
pub mod object;
pub mod region;
