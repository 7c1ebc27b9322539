// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The targets of a pattern's messages, on all nodes of a network or on those of a job.
//!
//! A pattern is prepared for members: nodes of the network, or ranks of a job, numbered from 0. Member m is on
//! `nodes[m]`. `locality` and `adversarial` look at the routers of the members; all other patterns count members. On
//! all nodes of a grid, `tornado` uses the coordinates of the routers; a job's ranks form a ring.

use selvedge_fabric::{NodeId, RouterId, Topology};

use super::pattern::{Pattern, PatternError};
use crate::random::Random;

/// A pattern, prepared for members.
#[derive(Debug)]
pub struct Destinations {
    members: u32,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Uniform,
    /// The members in the neighbourhood of router `r` are `near.of(r)`; also the router of each member.
    Locality {
        probability: f64,
        near: Lists,
        router: Vec<u32>,
    },
    Hotspot {
        member: u32,
        probability: f64,
    },
    /// The target of each member. A member that is its own target sends nothing.
    Fixed(Vec<u32>),
    /// From a member of group `g` to one of `members.of(next[g])`; also the group of each member.
    Groups {
        members: Lists,
        next: Vec<u32>,
        group: Vec<u32>,
    },
}

/// Lists of members, one after the other.
#[derive(Debug)]
struct Lists {
    all: Vec<u32>,
    first: Vec<u32>,
}

impl Lists {
    fn new(lists: impl Iterator<Item = Vec<u32>>) -> Lists {
        let mut made = Lists { all: Vec::new(), first: vec![0] };
        for list in lists {
            made.all.extend(list);
            made.first.push(made.all.len() as u32);
        }
        made
    }

    fn of(&self, list: u32) -> &[u32] {
        let list = list as usize;
        &self.all[self.first[list] as usize..self.first[list + 1] as usize]
    }
}

/// First of the random streams of permutations.
const PERMUTATION: u64 = u64::from_le_bytes(*b"permute\0");

impl Destinations {
    /// Prepares a pattern for all nodes of a network.
    pub fn new(pattern: Pattern, topology: &Topology) -> Result<Destinations, PatternError> {
        Destinations::among(pattern, topology, &(0..topology.rails().nodes()).collect::<Vec<_>>())
    }

    /// Prepares a pattern for members on these nodes.
    ///
    /// Nodes with several rails are where their first ones are, in a fabric of planes those of a plane.
    pub fn among(pattern: Pattern, topology: &Topology, nodes: &[u32]) -> Result<Destinations, PatternError> {
        let members = nodes.len() as u32;
        if members < 2 {
            return Err(PatternError::TooFew { nodes: members });
        }
        let check = |pattern, member| match member < members {
            true => Ok(member),
            false => Err(PatternError::NoSuchNode { pattern, node: member, nodes: members }),
        };
        let fixed = |to: &dyn Fn(u32) -> u32| Kind::Fixed((0..members).map(to).collect());
        let bits = || match members.is_power_of_two() {
            true => Ok(members.trailing_zeros()),
            false => Err(PatternError::NotPowerOfTwo { pattern, nodes: members }),
        };
        let kind = match pattern {
            Pattern::Uniform => Kind::Uniform,
            Pattern::Locality(probability) => neighbourhoods(topology, nodes, probability)?,
            Pattern::Hotspot { node, probability } => Kind::Hotspot { member: check("hotspot", node)?, probability },
            Pattern::Incast { sources, node } => incast(members, sources, check("incast", node)?)?,
            Pattern::Permutation { seed } => permutation(members, seed),
            Pattern::Transpose => {
                let side = members.isqrt();
                if side * side != members {
                    return Err(PatternError::NotSquare { nodes: members });
                }
                fixed(&|member| member % side * side + member / side)
            }
            Pattern::BitComplement => fixed(&|member| members - 1 - member),
            Pattern::BitReverse => {
                let bits = bits()?;
                fixed(&|member| member.reverse_bits() >> (32 - bits))
            }
            Pattern::Shuffle => {
                let bits = bits()?;
                fixed(&|member| (member << 1 | member >> (bits - 1)) & (members - 1))
            }
            Pattern::Neighbour => fixed(&|member| (member + 1) % members),
            Pattern::Shift { distance } if distance % members == 0 => {
                return Err(PatternError::NoShift { distance, nodes: members });
            }
            Pattern::Shift { distance } => fixed(&|member| (member + distance % members) % members),
            Pattern::Tornado if is_whole(topology, nodes) && topology.plane().dimensions() > 0 => {
                Kind::Fixed(tornado(topology.plane()))
            }
            Pattern::Tornado => fixed(&|member| (member + members.div_ceil(2) - 1) % members),
            Pattern::Adversarial => groups(topology, nodes)?,
        };
        Ok(Destinations { members, kind })
    }

    /// Whether a member sends messages.
    pub fn is_source(&self, from: u32) -> bool {
        match &self.kind {
            Kind::Fixed(to) => to[from as usize] != from,
            Kind::Groups { members, next, group } => {
                let there = members.of(next[group[from as usize] as usize]);
                there.iter().any(|&member| member != from)
            }
            Kind::Uniform | Kind::Locality { .. } | Kind::Hotspot { .. } => true,
        }
    }

    /// Returns the target of a member's next message; it is another member, if the member sends messages.
    pub fn target(&self, from: u32, random: &mut Random) -> u32 {
        let other = |random: &mut Random| {
            let step = 1 + random.below(u64::from(self.members) - 1);
            ((u64::from(from) + step) % u64::from(self.members)) as u32
        };
        match &self.kind {
            Kind::Uniform => other(random),
            Kind::Fixed(to) => to[from as usize],
            Kind::Groups { members, next, group } => {
                let there = members.of(next[group[from as usize] as usize]);
                there[random.below(there.len() as u64) as usize]
            }
            Kind::Hotspot { member, probability } if *member != from && random.chance(*probability) => *member,
            Kind::Hotspot { .. } => other(random),
            Kind::Locality { probability, near, router } => {
                let near = near.of(router[from as usize]);
                if near.len() > 1 && random.chance(*probability) {
                    // The list contains the member itself once; the last one of the list replaces it.
                    let chosen = near[random.below(near.len() as u64 - 1) as usize];
                    if chosen == from { near[near.len() - 1] } else { chosen }
                } else {
                    other(random)
                }
            }
        }
    }
}

/// Whether the members are all nodes, in order.
fn is_whole(topology: &Topology, nodes: &[u32]) -> bool {
    nodes.len() as u32 == topology.plane().nodes() && (0..).zip(nodes).all(|(member, node)| member == *node)
}

/// Returns the members on each router, in order.
fn on_routers(topology: &Topology, router: &[u32]) -> Vec<Vec<u32>> {
    let mut of_router = vec![Vec::new(); topology.routers() as usize];
    for (member, &router) in (0..).zip(router) {
        of_router[router as usize].push(member);
    }
    of_router
}

/// Returns the router of each node in a plane.
fn routers(topology: &Topology, nodes: &[u32]) -> Vec<u32> {
    nodes.iter().map(|node| topology.plane().attachment(topology.seat(*node)).0.0).collect()
}

fn neighbourhoods(topology: &Topology, nodes: &[u32], probability: f64) -> Result<Kind, PatternError> {
    let router = routers(topology, nodes);
    let topology = topology.plane();
    let of_router = on_routers(topology, &router);
    let near = Lists::new((0..topology.routers()).map(|here| {
        if of_router[here as usize].is_empty() {
            return Vec::new();
        }
        let mut routers: Vec<u32> = topology.neighbours(RouterId(here)).map(|(_, next)| next.0).collect();
        routers.push(here);
        routers.sort_unstable();
        routers.dedup();
        routers.iter().flat_map(|&router| &of_router[router as usize]).copied().collect()
    }));
    let any = (0..topology.routers()).any(|here| near.of(here).len() > 1);
    if any { Ok(Kind::Locality { probability, near, router }) } else { Err(PatternError::NoNeighbour) }
}

/// The sources are evenly spread over the other members, counted from the target on.
fn incast(members: u32, sources: u32, to: u32) -> Result<Kind, PatternError> {
    let others = members - 1;
    if sources > others {
        return Err(PatternError::TooManySources { sources, others });
    }
    let mut targets: Vec<u32> = (0..members).collect();
    for source in 0..u64::from(sources) {
        let place = 1 + source * u64::from(others) / u64::from(sources);
        targets[((u64::from(to) + place) % u64::from(members)) as usize] = to;
    }
    Ok(Kind::Fixed(targets))
}

/// Draws a permutation of a single cycle (Sattolo), so no member is its own target.
fn permutation(members: u32, seed: u64) -> Kind {
    let mut random = Random::new(seed, PERMUTATION);
    let mut to: Vec<u32> = (0..members).collect();
    for place in (1..to.len()).rev() {
        to.swap(place, random.below(place as u64) as usize);
    }
    Kind::Fixed(to)
}

fn groups(topology: &Topology, nodes: &[u32]) -> Result<Kind, PatternError> {
    let (each, next) = topology.plane().adversary().ok_or(PatternError::NoAdversary)?;
    let group: Vec<u32> = nodes.iter().map(|&node| topology.seat(node).0 / each).collect();
    let mut of_group = vec![Vec::new(); next.len()];
    for (member, &group) in (0..).zip(&group) {
        of_group[group as usize].push(member);
    }
    Ok(Kind::Groups { members: Lists::new(of_group.into_iter()), next, group })
}

fn tornado(topology: &Topology) -> Vec<u32> {
    let nodes = topology.nodes();
    let dimensions = topology.dimensions();
    let all: Vec<&[u16]> = (0..topology.routers()).map(|router| topology.coordinates(RouterId(router))).collect();
    let sizes: Vec<u16> = (0..dimensions).map(|d| all.iter().map(|at| at[d]).max().unwrap_or(0) + 1).collect();
    let mut by_coordinates: Vec<u32> = (0..topology.routers()).collect();
    by_coordinates.sort_by_key(|&router| all[router as usize]);
    let mut of_router = vec![Vec::new(); all.len()];
    for node in 0..nodes {
        of_router[topology.attachment(NodeId(node)).0.0 as usize].push(node);
    }
    let mut to = vec![0; nodes as usize];
    for (router, at) in all.iter().enumerate() {
        let there: Vec<u16> = at.iter().zip(&sizes).map(|(&at, &size)| (at + size.div_ceil(2) - 1) % size).collect();
        let found = by_coordinates.binary_search_by_key(&&there[..], |&router| all[router as usize]);
        let other = found.map_or(router, |index| by_coordinates[index] as usize);
        for (&from, &destination) in of_router[router].iter().zip(&of_router[other]) {
            to[from as usize] = destination;
        }
    }
    to
}

#[cfg(test)]
#[path = "pattern_tests.rs"]
mod tests;
