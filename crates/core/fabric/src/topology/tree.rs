// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Fat trees of two and three levels, of switches with one radix.
//!
//! A leaf switch has `down` ports to nodes for each `up` ports to the level above: taper (1, 1) is a full tree, (2, 1)
//! has half the bandwidth above the leaves. The levels above the leaves are not tapered.
//!
//! * Two levels: each leaf has one link to each spine; a spine has `radix` ports to leaves.
//! * Three levels: `radix / 2` leaves and one middle switch for each uplink of a leaf make a pod. Middle switch `j` of
//!   every pod has one link to each of the `radix / 2` cores of its plane `j`; a core has a port to each of `radix`
//!   pods. (The k-ary tree of the literature at taper (1, 1): radix³ / 4 nodes.)
//!
//! With fewer nodes than fit, empty pods and leaves are left out; the switches above remain, with free ports. Node `n`
//! is attached to leaf `n / nodes_per_leaf`. Routers are numbered leaves first, then middle switches pod by pod, then
//! spines or cores (plane by plane). A switch has its ports downward first, by the index of the lower switch or node,
//! then its ports upward.
use super::{Draft, Kind, Topology, TopologyError};
use crate::id::{NodeId, RouterId};
use alloc::string::String;
use core::fmt;

/// The parameters of a fat tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatTree {
    pub levels: u32,
    pub radix: u32,
    /// The ratio of a leaf's ports to nodes and its ports to the level above, as given.
    pub taper: (u32, u32),
    pub nodes: u32,
    pub nodes_per_leaf: u32,
    /// Uplinks of a leaf: spines, or middle switches of a pod.
    pub uplinks: u32,
    pub leaves: u32,
    /// Three levels only; otherwise one pod holds all leaves.
    pub leaves_per_pod: u32,
    pub pods: u32,
}

impl Topology {
    /// A fat tree. `taper` is (down, up) at a leaf; without `nodes` it has as many nodes as fit.
    pub fn fat_tree(levels: u32, radix: u32, taper: (u32, u32), nodes: Option<u32>) -> Result<Topology, TopologyError> {
        let tree = FatTree::new(levels, radix, taper, nodes)?;
        let (half, leaves, middles) = (radix / 2, tree.leaves, tree.middles());
        let routers = u64::from(leaves) + u64::from(middles) + u64::from(tree.tops());
        let mut draft = Draft::new(routers, |_| radix, tree.nodes)?;
        for node in 0..tree.nodes {
            let leaf = RouterId(node / tree.nodes_per_leaf);
            draft.attach(NodeId(node), leaf, node % tree.nodes_per_leaf);
        }
        for leaf in 0..leaves {
            let (pod, within) = (leaf / tree.leaves_per_pod, leaf % tree.leaves_per_pod);
            for up in 0..tree.uplinks {
                let above = leaves + pod * tree.uplinks + up;
                draft.link(RouterId(leaf), tree.nodes_per_leaf + up, RouterId(above), within);
            }
        }
        for middle in 0..middles {
            let (pod, plane) = (middle / tree.uplinks, middle % tree.uplinks);
            for up in 0..half {
                let core = leaves + middles + plane * half + up;
                draft.link(RouterId(leaves + middle), half + up, RouterId(core), pod);
            }
        }
        draft.finish(Kind::FatTree(tree))
    }
}

impl FatTree {
    fn new(levels: u32, radix: u32, taper: (u32, u32), nodes: Option<u32>) -> Result<FatTree, TopologyError> {
        let of = "fat tree";
        if levels != 2 && levels != 3 {
            return Err(TopologyError::Levels { is: levels });
        }
        let (down, up) = taper;
        for (what, is) in [("radix", radix), ("ports down", down), ("ports up", up), ("nodes", nodes.unwrap_or(1))] {
            if is == 0 {
                return Err(TopologyError::Zero { what, of });
            }
        }
        if radix > u32::from(u16::MAX) {
            return Err(TopologyError::TooLarge {
                what: "ports of a router",
                is: radix.into(),
                limit: u16::MAX.into(),
            });
        }
        let parts = u64::from(down) + u64::from(up);
        if u64::from(radix) % parts != 0 {
            return Err(TopologyError::Taper { radix, down, up });
        }
        if levels == 3 && radix % 2 != 0 {
            return Err(TopologyError::RadixOdd { radix });
        }
        let share = (u64::from(radix) / parts) as u32;
        let (nodes_per_leaf, uplinks) = (share * down, share * up);
        let leaves_max = u64::from(radix) * if levels == 3 { u64::from(radix / 2) } else { 1 };
        let limit = leaves_max * u64::from(nodes_per_leaf);
        let nodes = match nodes {
            Some(nodes) if u64::from(nodes) > limit => {
                return Err(TopologyError::TreeTooSmall { levels, radix, limit, nodes });
            }
            Some(nodes) => nodes,
            None => u32::try_from(limit).ok().filter(|&n| n <= super::PORTS_MAX).ok_or(TopologyError::TooLarge {
                what: "nodes",
                is: limit,
                limit: super::PORTS_MAX,
            })?,
        };
        let leaves = nodes.div_ceil(nodes_per_leaf);
        let leaves_per_pod = if levels == 3 { radix / 2 } else { radix };
        let pods = leaves.div_ceil(leaves_per_pod);
        Ok(FatTree { levels, radix, taper, nodes, nodes_per_leaf, uplinks, leaves, leaves_per_pod, pods })
    }

    /// Middle switches of all pods.
    pub fn middles(&self) -> u32 {
        if self.levels == 3 { self.pods * self.uplinks } else { 0 }
    }

    /// Spines, or cores.
    pub fn tops(&self) -> u32 {
        if self.levels == 3 { self.uplinks * (self.radix / 2) } else { self.uplinks }
    }

    pub(super) fn distance(&self, from: RouterId, to: RouterId) -> Option<u32> {
        match (from.0, to.0) {
            (a, b) if a == b => Some(0),
            (a, b) if a >= self.leaves || b >= self.leaves => None,
            (a, b) if a / self.leaves_per_pod == b / self.leaves_per_pod => Some(2),
            _ => Some(4),
        }
    }

    pub(super) fn diameter(&self) -> u32 {
        match (self.pods, self.leaves) {
            (_, 1) => 0,
            (1, _) => 2,
            _ => 4,
        }
    }

    pub(super) fn bisection(&self) -> Option<u32> {
        let groups = if self.levels == 3 { self.pods } else { self.leaves };
        let full = self.nodes == self.pods * self.leaves_per_pod * self.nodes_per_leaf
            || self.levels == 2 && self.nodes % self.nodes_per_leaf == 0;
        (full && groups % 2 == 0).then(|| self.leaves / 2 * self.uplinks)
    }

    /// Capacity of a full leaf's uplinks over its upward traffic, as a fraction.
    pub(super) fn saturation(&self) -> (u128, u128) {
        let (nodes, at_leaf) = (u128::from(self.nodes), u128::from(self.nodes_per_leaf));
        match nodes.saturating_sub(at_leaf) {
            0 => (1, 1),
            elsewhere => (u128::from(self.uplinks) * (nodes - 1), at_leaf * elsewhere),
        }
    }

    pub(super) fn router_name(&self, router: RouterId) -> String {
        let above = router.0.checked_sub(self.leaves);
        match above.map(|n| (n, n.checked_sub(self.middles()))) {
            None => alloc::format!("leaf {}", router.0),
            Some((n, None)) => alloc::format!("middle {} of pod {}", n % self.uplinks, n / self.uplinks),
            Some((_, Some(n))) if self.levels == 2 => alloc::format!("spine {n}"),
            Some((_, Some(n))) => alloc::format!("core {n}"),
        }
    }
}

impl fmt::Display for FatTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (down, up) = self.taper;
        write!(f, "fat tree of {} levels, radix {}, taper {down}:{up}", self.levels, self.radix)
    }
}
