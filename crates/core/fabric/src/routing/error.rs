// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of making a routing or a route. Each message names values that would fit.
use super::Algorithm;
use crate::id::{NodeId, RouterId};
use alloc::string::String;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutingError {
    #[error("routing `{algorithm}` does not fit a {topology}: it is for {fits}; here take {instead}")]
    NotFor { algorithm: Algorithm, topology: String, fits: &'static str, instead: String },
    #[error(
        "routing `{algorithm}` on a {topology} needs virtual_channels = {needed}, not {given}: \
         give {needed}{instead}"
    )]
    TooFewChannels { algorithm: Algorithm, topology: String, needed: u8, given: u8, instead: String },
    #[error(
        "routing `{algorithm}` holds a table of all routers, and {routers} are more than {limit}: take {}",
        if instead.is_empty() { "a smaller network" } else { instead.as_str() }
    )]
    TooManyRouters { algorithm: Algorithm, routers: u32, limit: u32, instead: String },
    #[error("routing `{algorithm}` has no path from {from} to {to}, for links are missing: take {instead}")]
    NoPath { algorithm: Algorithm, from: NodeId, to: NodeId, instead: String },
    #[error("there is no routing `{name}`: give one of {known}")]
    UnknownAlgorithm { name: String, known: String },
    #[error("there is no {node} in a network of {nodes} nodes: give 0 to {}", nodes - 1)]
    NoSuchNode { node: NodeId, nodes: u32 },
    #[error("a message from {node} to itself does not enter the network")]
    SameNode { node: NodeId },
    #[error("routing `{algorithm}` has no next hop at {at}: use it with the topology that it was made for")]
    OtherTopology { algorithm: Algorithm, at: RouterId },
}
