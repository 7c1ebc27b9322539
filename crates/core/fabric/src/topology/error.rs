// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Errors of making a topology. Each message names the change that helps.
use crate::id::{Port, RouterId};
use alloc::string::String;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    #[error("a {of} with 0 {what}: give at least 1")]
    Zero { what: &'static str, of: &'static str },
    #[error("dimension {dimension} of the {of} has size 0: give at least 1, or leave the dimension out")]
    DimensionZero { dimension: usize, of: &'static str },
    #[error("a {of} of {is} dimensions: give 1 to {limit}")]
    Dimensions { is: usize, limit: usize, of: &'static str },
    #[error("dimension {dimension} has size {is}: give at most 65535")]
    DimensionSize { dimension: usize, is: u32 },
    #[error("`wrap` has {wrap} entries for {dimensions} dimensions: give one for each, or none to wrap all")]
    Wrap { wrap: usize, dimensions: usize },
    #[error("`trunks` has {trunks} entries for {dimensions} dimensions: give one for each, or none for single links")]
    Trunks { trunks: usize, dimensions: usize },
    #[error("a Slim Fly of q = {q}: q is a prime power from 3 to 199; give {below} or {above}")]
    SlimFly { q: u32, below: u32, above: u32 },
    #[error("{is} {what}: more than the limit of {limit}; make the network smaller")]
    TooLarge { what: &'static str, is: u64, limit: u32 },
    #[error("a hypercube of order {is}: give at most {limit}")]
    Order { is: u32, limit: u32 },
    #[error("a fat tree of {is} levels: give {least} to {limit}")]
    Levels { is: u32, least: u32, limit: usize },
    #[error(
        "`{what}` has {entries} entries for a fat tree of {levels} levels: give {}, one for each level below the top",
        levels - 1
    )]
    TreeEntries { what: &'static str, entries: usize, levels: usize },
    #[error(
        "radix {radix} cannot be divided {down} down to {up} up: give a radix that is a multiple of {}",
        u64::from(*down) + u64::from(*up)
    )]
    Taper { radix: u32, down: u32, up: u32 },
    #[error("radix {radix} is odd: switches between leaves and top have half their ports up; give an even radix")]
    RadixOdd { radix: u32 },
    #[error(
        "a fat tree of {levels} levels holds at most {limit} nodes, not {nodes}: give {}, or {} levels",
        if *is_uniform { "a larger radix" } else { "more children" },
        levels + 1
    )]
    TreeTooSmall { levels: usize, is_uniform: bool, limit: u64, nodes: u32 },
    #[error(
        "{groups} groups need {} global links from each, but {routers_per_group} routers with \
         {global_links_per_router} each have {links}: give at most {} groups, or more links",
        u64::from(*groups) - 1, links + 1
    )]
    TooManyGroups { groups: u32, routers_per_group: u32, global_links_per_router: u32, links: u64 },
    #[error("line {line}: `{word}` is not a statement: give `router NAME`, `link A B [WEIGHT]` or `node NAME ROUTER`")]
    Statement { line: usize, word: String },
    #[error("line {line}: {is} words after `{statement}`: write `{form}`")]
    Words { line: usize, statement: &'static str, is: usize, form: &'static str },
    #[error("line {line}: {what} `{name}` is already on line {first}: each is named once")]
    Twice { line: usize, what: &'static str, name: String, first: usize },
    #[error("line {line}: there is no router `{name}`: add a line `router {name}`")]
    UnknownRouter { line: usize, name: String },
    #[error("line {line}: `{a}` and `{b}` are already linked on line {first}: two routers have at most one link")]
    DuplicateLink { line: usize, a: String, b: String, first: usize },
    #[error("line {line}: router `{name}` is linked to itself: name two different routers")]
    SelfLink { line: usize, name: String },
    #[error("line {line}: weight `{word}`: give a whole number from 1 to 1000000")]
    Weight { line: usize, word: String },
    #[error("line {line}: `{word}`: give bandwidth_MBps=NUMBER above 0, or latency_ns=NUMBER")]
    EdgeKey { line: usize, word: String },
    #[error("line {line}: more than {limit} different speeds of links: give some of them the same")]
    EdgeSpeeds { line: usize, limit: u16 },
    #[error("the graph has no {what}: add a line `{form}`")]
    Empty { what: &'static str, form: &'static str },
    #[error(
        "cable {cable} names {router} {port}, which does not exist: give a port below the router's number of ports"
    )]
    CableEnd { cable: usize, router: RouterId, port: Port },
    #[error("cable {cable} names {router} {port}, which another end has: a port has one cable")]
    PortTwice { cable: usize, router: RouterId, port: Port },
    #[error("cable {cable} joins {router} to itself: name two different routers")]
    CableToItself { cable: usize, router: RouterId },
    #[error(
        "{endpoints} ports for {rails} rails of each node ({layout}): give a multiple of {multiple}{}",
        if *group > 1 { alloc::format!(", for groups of {group} nodes have {rails} rails each") } else { String::new() }
    )]
    RailsLeftOver { endpoints: u32, rails: u32, layout: &'static str, group: u32, multiple: u64 },
    #[error("routers have different numbers of nodes, so no leaf says how many nodes a group of rails has: give it")]
    NoLeaves,
    #[error("there is no path from router `{from}` to router `{to}`: add a cable that joins the parts")]
    Apart { from: String, to: String },
    #[error("there is no path from router `{from}` to router `{to}` (line {line}): add a link that joins the parts")]
    Disconnected { from: String, to: String, line: usize },
}
