// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Places of ranks: those of one job on its nodes, and those of several jobs on one machine.
//!
//! Jobs that name nodes get them. The others take theirs from the nodes that no job names, in the order of the jobs. No
//! two jobs share a node, since the engines of its NIC would then belong to neither.

use std::collections::BTreeMap;

use selvedge_fabric::Topology;

use super::description::JobDescription;
use super::error::{JobError, JobProblem};
use super::nodes;
use crate::random::Random;

/// Which ranks of a job share a node, and which of its nodes have ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Neighbours: ranks 0 and 1 on the first node, 2 and 3 on the second.
    #[default]
    Block,
    /// In turn: ranks 0 and 2 on the first node, 1 and 3 on the second.
    RoundRobin,
    /// Blocks of ranks on nodes drawn from all of the job's nodes.
    Random,
    /// Blocks of ranks on nodes of all groups in turn ([`nodes::groups`]).
    Spread,
}

impl Placement {
    pub const ALL: [(&str, Placement); 4] = [
        ("block", Placement::Block),
        ("round-robin", Placement::RoundRobin),
        ("random", Placement::Random),
        ("spread", Placement::Spread),
    ];
}

/// Placement draws from its own random stream, so that changing it changes no other random number.
const STREAM: u64 = 0x706c_6163;

/// Returns the node of each rank, with `each` ranks on a node. `None`: they do not fit on the nodes.
pub fn place(
    topology: &Topology,
    nodes: &[u32],
    (ranks, each): (u32, u32),
    placement: Placement,
    seed: u64,
) -> Option<Vec<u32>> {
    let each = each.max(1);
    let used = ranks.div_ceil(each);
    if used as usize > nodes.len() {
        return None;
    }
    Some(match placement {
        Placement::Block => (0..ranks).map(|rank| nodes[(rank / each) as usize]).collect(),
        Placement::RoundRobin => (0..ranks).map(|rank| nodes[(rank % used) as usize]).collect(),
        Placement::Random => {
            let mut all = nodes.to_vec();
            let mut random = Random::new(seed, STREAM);
            // The first steps of a shuffle (Fisher and Yates).
            for at in 0..used as usize {
                let other = at + random.below((all.len() - at) as u64) as usize;
                all.swap(at, other);
            }
            (0..ranks).map(|rank| all[(rank / each) as usize]).collect()
        }
        Placement::Spread => {
            let spread = spread(topology, nodes);
            (0..ranks).map(|rank| spread[(rank / each) as usize]).collect()
        }
    })
}

/// Returns nodes in the order in which groups take turns.
fn spread(topology: &Topology, nodes: &[u32]) -> Vec<u32> {
    let mut group_of = vec![0; topology.rails().nodes() as usize];
    for (number, group) in (0..).zip(nodes::groups(topology)) {
        group.iter().for_each(|node| group_of[*node as usize] = number);
    }
    let mut taken: BTreeMap<u32, u32> = BTreeMap::new();
    let mut turns: Vec<(u32, u32, u32)> = Vec::new();
    for &node in nodes {
        let group = group_of[node as usize];
        let turn = taken.entry(group).or_default();
        turns.push((*turn, group, node));
        *turn += 1;
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, _, node)| node).collect()
}

/// Returns the node of each rank of each job. `seeds`: the seed of each job.
pub fn place_jobs(topology: &Topology, jobs: &[JobDescription], seeds: &[u64]) -> Result<Vec<Vec<u32>>, JobError> {
    const FREE: usize = usize::MAX;
    let mut owner = vec![FREE; topology.rails().nodes() as usize];
    let mut named: Vec<Option<Vec<u32>>> = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        let Some(set) = &job.nodes else {
            named.push(None);
            continue;
        };
        let nodes = set.resolve(topology).map_err(|error| job.error(JobProblem::Nodes(error)))?;
        for &node in &nodes {
            let owner = &mut owner[node as usize];
            if *owner != FREE {
                return Err(job.error(JobProblem::Shared { node, other: jobs[*owner].name.clone() }));
            }
            *owner = number;
        }
        named.push(Some(nodes));
    }
    let mut placed = Vec::new();
    for (number, (job, named)) in jobs.iter().zip(named).enumerate() {
        let free = || (0..).zip(&owner).filter(|(_, owner)| **owner == FREE).map(|(node, _)| node).collect();
        let is_named = named.is_some();
        let nodes: Vec<u32> = named.unwrap_or_else(free);
        let each = job.ranks_per_node;
        let room = (nodes.len() as u32).saturating_mul(each);
        let ranks = match job.ranks {
            Some(ranks) => ranks,
            None if is_named || job.is_traffic() => room,
            None => return Err(job.error(JobProblem::NoSize)),
        };
        let no_room = || JobProblem::NoRoom { ranks, each, nodes: nodes.len() as u32, is_named };
        if ranks == 0 {
            return Err(job.error(no_room()));
        }
        let places = place(topology, &nodes, (ranks, each), job.placement, seeds[number]);
        let places = places.ok_or_else(|| job.error(no_room()))?;
        places.iter().for_each(|node| owner[*node as usize] = number);
        placed.push(places);
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jobs(lines: &[&str]) -> Vec<JobDescription> {
        lines.iter().map(|line| JobDescription::from_words(line).unwrap()).collect()
    }

    fn placed(topology: &Topology, lines: &[&str]) -> Result<Vec<Vec<u32>>, String> {
        place_jobs(topology, &jobs(lines), &vec![1; lines.len()]).map_err(|error| error.to_string())
    }

    #[test]
    fn jobs_take_what_they_name_and_then_what_is_left() {
        let mesh = Topology::mesh(&[4, 2], 1).unwrap();
        let places =
            placed(&mesh, &["a: program=barrier ranks=2", "b: program=barrier nodes=0-1", "c: traffic=uniform"]);
        assert_eq!(places, Ok(vec![vec![2, 3], vec![0, 1], vec![4, 5, 6, 7]]));
        let places = placed(&mesh, &["a: program=barrier ranks=6 nodes=3,1,0 ranks-per-node=2 placement=round-robin"]);
        assert_eq!(places, Ok(vec![vec![3, 1, 0, 3, 1, 0]]));
    }

    #[test]
    fn spread_takes_groups_in_turn() {
        let fly = Topology::dragonfly(5, 2, 2, 2).unwrap();
        let places = placed(&fly, &["a: program=barrier ranks=7 placement=spread"]);
        assert_eq!(places, Ok(vec![vec![0, 4, 8, 12, 16, 1, 5]]));
        let places = placed(&fly, &["a: program=barrier ranks=3 nodes=group:2-3 placement=spread"]);
        assert_eq!(places, Ok(vec![vec![8, 12, 9]]));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let mesh = Topology::mesh(&[4, 2], 1).unwrap();
        let refused = |lines: &[&str]| placed(&mesh, lines).unwrap_err();
        let words = refused(&["a: program=barrier nodes=0-3", "b: program=barrier nodes=3-5"]);
        assert!(words.contains("job b: node 3") && words.contains("job a"), "{words}");
        let words = refused(&["a: program=barrier ranks=7", "b: program=barrier ranks=2"]);
        assert!(words.contains("job b: 2 ranks") && words.contains("1 node"), "{words}");
        let words = refused(&["a: program=barrier ranks=8", "b: traffic=uniform"]);
        assert!(words.contains("job b: no node is left"), "{words}");
        let words = refused(&["a: program=barrier"]);
        assert!(words.contains("ranks=") && words.contains("nodes="), "{words}");
        let words = refused(&["a: program=barrier nodes=8"]);
        assert!(words.contains("job a: node 8") && words.contains("0 to 7"), "{words}");
    }
}
