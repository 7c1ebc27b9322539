// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All shortest paths from one router, by their first hops: the choices of equal cost of a routing by destination.
//!
//! # Invariants
//!
//! 1. A first hop leads to a router that is nearer to the destination. So hops that routers choose from sets of the
//!    same topology and costs never loop.
//! 2. The sets depend on topology and costs only.
//!
//! # Costs
//!
//! Making: O(links × log(routers) + links × ports / 64). 8 bytes for each router, 8 more for each 64 ports of `from`.
use crate::id::{Peer, Port, RouterId};
use crate::topology::Topology;
use alloc::vec::Vec;

/// The first hops of all shortest paths from one router to every other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextHops {
    costs: Vec<u64>,
    order: Vec<RouterId>,
    /// The set of ports for router `r` begins at `r * words`.
    words: usize,
    sets: Vec<u64>,
}

impl NextHops {
    /// `cost` returns a link's cost by its output channel, as for [`Topology::nearest_first`].
    pub fn new(topology: &Topology, from: RouterId, cost: impl Fn(RouterId, Port) -> Option<u32>) -> NextHops {
        let words = usize::from(topology.ports(from)).div_ceil(64).max(1);
        let routers = topology.routers() as usize;
        let mut hops = NextHops {
            costs: alloc::vec![u64::MAX; routers],
            order: Vec::with_capacity(routers),
            words,
            sets: alloc::vec![0; routers * words],
        };
        topology.nearest_first(&[from], &cost, |router, so_far| {
            hops.costs[router.0 as usize] = so_far;
            hops.order.push(router);
            for (port, before) in topology.neighbours(router) {
                let Some(link) = cost(router, port) else { continue };
                if hops.costs[before.0 as usize].checked_add(link.into()) != Some(so_far) {
                    continue;
                }
                match topology.peer(router, port) {
                    Peer::Router { port: first, .. } if before == from => {
                        hops.sets[router.0 as usize * words + usize::from(first.0 / 64)] |= 1 << (first.0 % 64);
                    }
                    _ => (0..words).for_each(|word| {
                        let set = hops.sets[before.0 as usize * words + word];
                        hops.sets[router.0 as usize * words + word] |= set;
                    }),
                }
            }
            true
        });
        hops
    }

    /// The cost of a shortest path. None: there is no path.
    pub fn cost(&self, to: RouterId) -> Option<u64> {
        self.costs.get(to.0 as usize).copied().filter(|&cost| cost != u64::MAX)
    }

    /// The routers that can be reached, nearest first.
    pub fn order(&self) -> &[RouterId] {
        &self.order
    }

    /// The ports by which shortest paths to a router begin, ascending.
    pub fn ports(&self, to: RouterId) -> impl Iterator<Item = Port> + Clone + '_ {
        let first = to.0 as usize * self.words;
        let words = self.sets.get(first..first + self.words).unwrap_or_default();
        let is_in = move |port: u16| words[usize::from(port / 64)] >> (port % 64) & 1 == 1;
        (0..64 * words.len() as u16).filter(move |&port| is_in(port)).map(Port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use std::vec::Vec;

    #[test]
    fn first_hops_are_exactly_the_ports_that_lead_nearer() {
        for (name, topology) in samples::all() {
            for from in (0..topology.routers()).map(RouterId) {
                let weight = |router, port| Some(topology.weight(router, port));
                let hops = NextHops::new(&topology, from, weight);
                assert_eq!(hops.order().len(), topology.routers() as usize);
                for to in (0..topology.routers()).map(RouterId) {
                    let costs = topology.costs(&[to], weight);
                    assert_eq!(hops.cost(to), Some(costs[from.0 as usize]), "{name} {from} {to}");
                    let nearer = |&(port, next): &(Port, RouterId)| {
                        costs[next.0 as usize] + u64::from(topology.weight(from, port)) == costs[from.0 as usize]
                    };
                    let expected: Vec<Port> = topology.neighbours(from).filter(nearer).map(|(port, _)| port).collect();
                    assert_eq!(hops.ports(to).collect::<Vec<_>>(), expected, "{name} {from} {to}");
                }
            }
        }
    }

    #[test]
    fn a_link_without_cost_is_not_used() {
        let ring = Topology::torus(&[5], &[], 1).unwrap();
        let cut = |router: RouterId, port: Port| {
            let joins =
                matches!(ring.peer(router, port), Peer::Router { router: other, .. } if other.0 + router.0 == 1);
            (!joins).then_some(1)
        };
        let hops = NextHops::new(&ring, RouterId(0), cut);
        assert_eq!(hops.cost(RouterId(1)), Some(4));
        let none = NextHops::new(&ring, RouterId(0), |_, _| None);
        assert_eq!((none.cost(RouterId(1)), none.ports(RouterId(1)).count()), (None, 0));
    }
}
