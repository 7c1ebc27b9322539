// SPDX-License-Identifier: Apache-2.0 OR MIT
//! libfabric's objects: their state, and its lock. libfabric calls nothing here ([`crate::calls`]).
//!
//! | file | object, lower ones first |
//! |---|---|
//! | [`object`] | the common part: head, use counts |
//! | [`fabric`], [`address`], [`events`] | the fabric; addresses; the events of an event queue |
//! | [`group_endpoint`], [`collective`] | groups of collective operations of a domain, and their messages |
//! | [`domain`], [`domain_object`] | the domain and its lock; the common part of its objects |
//! | [`event_queue`], [`counter`], [`completion_queue`], [`address_vector`], [`av_set`], [`region`] | objects of a domain |
//! | [`endpoint`], [`group`] | the endpoint, which is bound to those; a group as the program holds it |

pub mod address;
pub mod address_vector;
pub mod av_set;
pub mod collective;
pub mod completion_queue;
pub mod counter;
pub mod domain;
pub mod domain_object;
pub mod endpoint;
pub mod event_queue;
pub mod events;
pub mod fabric;
pub mod group;
pub mod group_endpoint;
#[macro_use]
pub mod object;
pub mod region;
