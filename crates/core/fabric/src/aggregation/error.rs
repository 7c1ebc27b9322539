// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of making a tree or a group. Each message names values that would fit.
use super::TREES_MAX;
use crate::id::NodeId;
use alloc::string::String;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    #[error("{is} trees: give 1 to {TREES_MAX}")]
    Trees { is: u32 },
    #[error("there is no {site} in a network of {routers} routers and {nodes} nodes: give numbers below these")]
    NoSuchSite { site: String, routers: u32, nodes: u32 },
    #[error("{site} is given twice: give each site of an aggregation node once")]
    SiteTwice { site: String },
    #[error("no node of the network is usable, so there is nothing to aggregate")]
    NoNodes,
    #[error("no aggregation node is reachable: give a site at a usable router or node")]
    NoSites,
    #[error("{node} cannot reach {from}: leave out the nodes of one part of the network, or bring a link back")]
    Unreachable { node: NodeId, from: NodeId },
    #[error(
        "{sites} aggregation nodes with at most {radix} children each do not span {nodes} nodes: \
         give radix_max = {least}, or more sites"
    )]
    Radix { radix: u32, sites: u32, nodes: u32, least: u32 },
    #[error(
        "a tree of aggregation nodes with at most {radix} children each is {least} deep, not {depth}: \
         give depth_max = {least}, or a larger radix_max"
    )]
    Depth { depth: u32, radix: u32, least: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    #[error("a group without members: give at least 1")]
    Empty,
    #[error("there is no {node} in a network of {nodes} nodes: give 0 to {}", nodes - 1)]
    NoSuchNode { node: NodeId, nodes: u32 },
    #[error("{node} is in the group twice, at {first} and at {second}: name each member once")]
    Twice { node: NodeId, first: u32, second: u32 },
    #[error("{node} is attached to no aggregation node, since it was not usable when the trees were made")]
    Unattached { node: NodeId },
}
