// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The tree in which agents start each other: the launcher is its root, and each host has a place, numbered from 0.
//!
//! Invariants
//! 1. A host and the hosts below it have consecutive numbers, the host first. So a message is routed by a subtraction.
//! 2. Beyond the hosts that only the launcher can reach, no process has more than `fanout` children.
//! 3. The parts below a process differ by one host at most, so the tree has no more levels than it must.

use std::ops::Range;

/// The largest number of agents that one process starts, by default.
const FANOUT: usize = 32;
pub(super) const FANOUT_MAX: usize = 1024;

/// The largest number of agents that one process starts.
pub(super) fn fanout() -> usize {
    let number = |text: &str| text.trim().parse().ok().filter(|fanout| (1..=FANOUT_MAX).contains(fanout));
    selvedge_settings::read("SELVEDGE_RUN_FANOUT", FANOUT, number)
}

/// Splits hosts evenly among at most `fanout` children. Each child is the first host of its part.
pub(super) fn parts(hosts: Range<usize>, fanout: usize) -> Vec<Range<usize>> {
    let children = hosts.len().min(fanout.max(1));
    let begin = |child: usize| hosts.start + child * hosts.len() / children;
    (0..children).map(|child| begin(child)..begin(child + 1)).collect()
}

/// The number of levels of a part: 1 for a host alone.
pub(super) fn levels(hosts: usize, fanout: usize) -> u32 {
    let (mut left, mut levels) = (hosts, 0);
    while left > 0 {
        levels += 1;
        left = (left - 1).div_ceil(fanout.max(1));
    }
    levels
}

/// The tree as the launcher sees it.
pub(super) struct Tree {
    /// The parts whose first hosts the launcher reaches itself.
    pub(super) parts: Vec<Range<usize>>,
    parents: Vec<Option<usize>>,
    /// The end of the part of each host.
    ends: Vec<usize>,
}

impl Tree {
    /// Places hosts. The first `own` of them are children of the launcher without children.
    pub(super) fn new(hosts: usize, own: usize, fanout: usize) -> Tree {
        let mut tree = Tree { parts: Vec::new(), parents: vec![None; hosts], ends: vec![0; hosts] };
        tree.parts = (0..own).map(|host| host..host + 1).chain(parts(own..hosts, fanout)).collect();
        let mut open: Vec<(Option<usize>, Range<usize>)> = tree.parts.iter().map(|part| (None, part.clone())).collect();
        while let Some((parent, part)) = open.pop() {
            let host = part.start;
            (tree.parents[host], tree.ends[host]) = (parent, part.end);
            open.extend(parts(host + 1..part.end, fanout).into_iter().map(|part| (Some(host), part)));
        }
        tree
    }

    pub(super) fn hosts(&self) -> Range<usize> {
        0..self.parents.len()
    }

    /// The host whose agent starts that of this one. `None`: the launcher.
    pub(super) fn parent(&self, host: usize) -> Option<usize> {
        self.parents[host]
    }

    /// The host and those below it.
    pub(super) fn part(&self, host: usize) -> Range<usize> {
        host..self.ends[host]
    }

    pub(super) fn below(&self, host: usize) -> Range<usize> {
        host + 1..self.ends[host]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn depth(tree: &Tree, host: usize) -> u32 {
        tree.parent(host).map_or(1, |parent| 1 + depth(tree, parent))
    }

    /// Returns the number of levels of a tree of this fan-out that has room for all hosts.
    fn levels_needed(hosts: usize, fanout: usize) -> u32 {
        let (mut reached, mut level, mut levels) = (0, 1, 0);
        while reached < hosts {
            level *= fanout;
            reached += level;
            levels += 1;
        }
        levels
    }

    #[test]
    fn every_host_has_one_place() {
        let counts = (0..=140).chain([1023, 1024, 1056, 1057, 5000]);
        for (hosts, fanout) in counts.flat_map(|hosts| [1, 2, 3, 32, 1024].map(|fanout| (hosts, fanout))) {
            let tree = Tree::new(hosts, 0, fanout);
            let mut children = vec![0; hosts + 1];
            for host in tree.hosts() {
                let parent = tree.parent(host);
                assert!(parent.is_none_or(|parent| parent < host && tree.below(parent).contains(&host)));
                children[parent.map_or(hosts, |parent| parent)] += 1;
                // The hosts below are those that a walk up from them finds.
                let is_above = |at: usize| {
                    std::iter::successors(tree.parent(at), |&above| tree.parent(above)).any(|above| above == host)
                };
                if hosts < 64 {
                    assert!(tree.hosts().all(|at| tree.below(host).contains(&at) == is_above(at)));
                }
            }
            assert!(children.iter().all(|&count| count <= fanout), "{hosts} hosts, fan-out {fanout}");
            assert_eq!(children.iter().sum::<usize>(), hosts, "every host has one parent");
            let deepest = if fanout == 1 { hosts as u32 } else { levels_needed(hosts, fanout) };
            let found = if fanout == 1 {
                levels(hosts, 1)
            } else {
                tree.hosts().map(|host| depth(&tree, host)).max().unwrap_or(0)
            };
            assert_eq!(found, deepest, "{hosts} hosts, fan-out {fanout}");
            let of_parts = tree.parts.iter().map(|part| levels(part.len(), fanout)).max().unwrap_or(0);
            assert_eq!(of_parts, deepest, "{hosts} hosts, fan-out {fanout}");
        }
    }

    #[test]
    fn up_to_the_fan_out_all_are_children_of_the_launcher() {
        for hosts in 0..=32 {
            let tree = Tree::new(hosts, 0, 32);
            assert_eq!(tree.parts, (0..hosts).map(|host| host..host + 1).collect::<Vec<_>>());
        }
        assert_eq!(Tree::new(7, 0, 2).parts, [0..3, 3..7]);
    }

    #[test]
    fn hosts_of_the_launcher_have_no_children() {
        let tree = Tree::new(7, 2, 2);
        assert_eq!(tree.parts, [0..1, 1..2, 2..4, 4..7]);
        let parents: Vec<_> = tree.hosts().map(|host| tree.parent(host)).collect();
        assert_eq!(parents, [None, None, None, Some(2), None, Some(4), Some(4)]);
        assert_eq!(tree.part(4), 4..7);
    }

    /// An agent numbers the hosts below it from 1, and splits them as the launcher does.
    #[test]
    fn agents_place_hosts_as_the_launcher_does() {
        let tree = Tree::new(200, 0, 3);
        for host in tree.hosts() {
            let of_agent = parts(1..tree.part(host).len(), 3).into_iter().map(|part| part.start + host);
            let of_launcher = tree.below(host).filter(|&below| tree.parent(below) == Some(host));
            assert!(of_agent.eq(of_launcher), "host {host}");
        }
    }
}
