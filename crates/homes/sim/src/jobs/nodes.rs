// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Sets of nodes, as a user names them: `0-63,80`, `0-127/4`, `group:2-3`.
//!
//! | part | nodes |
//! |---|---|
//! | `A` | node A |
//! | `A-B` | A to B, both included |
//! | `A-B/STEP` | every STEP-th of them, from A on |
//! | `group:G`, `group:G-H` | those of groups G to H: of a dragonfly; elsewhere the nodes of one router are a group |

use std::fmt;
use std::str::FromStr;

use selvedge_fabric::{Kind, Topology};

/// Nodes in the order in which they were named, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeSet {
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    is_group: bool,
    first: u32,
    last: u32,
    step: u32,
}

/// Reason why a set of nodes is invalid, or does not fit a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodesError {
    #[error("'{given}' names no nodes; write nodes, ranges and groups, as in 0-63,80 or 0-127/4 or group:2-3")]
    Form { given: String },
    #[error("{what} {given} is not among those of the machine, 0 to {last}")]
    None { what: &'static str, given: u32, last: u32 },
    #[error("node {node} is named twice; name it once, since ranks_per_node puts several ranks on a node")]
    Twice { node: u32 },
}

impl FromStr for NodeSet {
    type Err = NodesError;

    fn from_str(text: &str) -> Result<NodeSet, NodesError> {
        let part = |text: &str| Part::parse(text.trim()).ok_or_else(|| NodesError::Form { given: text.trim().into() });
        Ok(NodeSet { parts: text.split(',').map(part).collect::<Result<_, _>>()? })
    }
}

impl Part {
    fn parse(text: &str) -> Option<Part> {
        let (is_group, range) = text.strip_prefix("group:").map_or((false, text), |range| (true, range));
        let (range, step) = match range.split_once('/') {
            Some((range, step)) => (range, step.parse().ok().filter(|step| *step > 0)?),
            None => (range, 1),
        };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (first.parse().ok()?, last.parse().ok()?);
        (first <= last).then_some(Part { is_group, first, last, step })
    }
}

/// Prints the form that is parsed.
impl fmt::Display for NodeSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, part) in self.parts.iter().enumerate() {
            let (comma, group) = (if place > 0 { "," } else { "" }, if part.is_group { "group:" } else { "" });
            write!(out, "{comma}{group}{}", part.first)?;
            if part.last > part.first {
                write!(out, "-{}", part.last)?;
            }
            if part.step > 1 {
                write!(out, "/{}", part.step)?;
            }
        }
        Ok(())
    }
}

impl NodeSet {
    /// Returns the nodes of a machine that it names.
    pub fn resolve(&self, topology: &Topology) -> Result<Vec<u32>, NodesError> {
        let groups = if self.parts.iter().any(|part| part.is_group) { groups(topology) } else { Vec::new() };
        let mut nodes = Vec::new();
        for part in &self.parts {
            let (what, count) =
                if part.is_group { ("group", groups.len() as u32) } else { ("node", topology.rails().nodes()) };
            if part.last >= count {
                return Err(NodesError::None { what, given: part.last, last: count.saturating_sub(1) });
            }
            for number in (part.first..=part.last).step_by(part.step as usize) {
                match part.is_group {
                    true => nodes.extend(&groups[number as usize]),
                    false => nodes.push(number),
                }
            }
        }
        let mut sorted = nodes.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(NodesError::Twice { node: pair[0] }),
            None => Ok(nodes),
        }
    }
}

/// Returns the nodes of each group: of a dragonfly or dragonfly+; elsewhere of each router that has nodes.
pub fn groups(topology: &Topology) -> Vec<Vec<u32>> {
    let group_of = |node| {
        let router = topology.plane().attachment(topology.seat(node)).0;
        match topology.plane().kind() {
            Kind::Dragonfly(dragonfly) => dragonfly.group(router),
            Kind::DragonflyPlus(dragonfly) => dragonfly.group(router),
            _ => router.0,
        }
    };
    let mut groups = vec![Vec::new(); topology.routers() as usize];
    (0..topology.rails().nodes()).for_each(|node| groups[group_of(node) as usize].push(node));
    groups.retain(|group| !group.is_empty());
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str, topology: &Topology) -> Result<Vec<u32>, NodesError> {
        text.parse::<NodeSet>()?.resolve(topology)
    }

    #[test]
    fn nodes_are_named_by_number_range_step_and_group() {
        let fly = Topology::dragonfly(5, 2, 2, 2).unwrap();
        assert_eq!(nodes("3, 0-2", &fly), Ok(vec![3, 0, 1, 2]));
        assert_eq!(nodes("0-10/4,19", &fly), Ok(vec![0, 4, 8, 19]));
        assert_eq!(nodes("group:1", &fly), Ok(vec![4, 5, 6, 7]));
        assert_eq!(nodes("group:0-4/4", &fly), Ok(vec![0, 1, 2, 3, 16, 17, 18, 19]));
        let mesh = Topology::mesh(&[2, 2], 3).unwrap();
        assert_eq!(nodes("group:3", &mesh), Ok(vec![9, 10, 11]), "the nodes of a router");
        for text in ["3,0-2", "0-10/4,19", "group:1", "group:0-4/4"] {
            assert_eq!(text.parse::<NodeSet>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let mesh = Topology::mesh(&[2, 2], 3).unwrap();
        for text in ["", "a", "1,", "3-1", "0-3/0", "group:", "-1", "0-"] {
            assert!(matches!(nodes(text, &mesh), Err(NodesError::Form { .. })), "{text}");
        }
        assert_eq!(nodes("0-12", &mesh), Err(NodesError::None { what: "node", given: 12, last: 11 }));
        assert_eq!(nodes("group:4", &mesh), Err(NodesError::None { what: "group", given: 4, last: 3 }));
        assert_eq!(nodes("0-3,2", &mesh), Err(NodesError::Twice { node: 2 }));
    }
}
