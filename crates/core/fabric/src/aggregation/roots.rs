// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The roots of the trees: central sites, spread over the network.
//!
//! The reach of a site is the cost to the farthest router of an aggregation node with end nodes. A root's reach is at
//! most 4/3 of the least, rounded down: a fat tree takes its top switches only, a mesh routers about its centre, and a
//! torus all. Of these, each next root is the one least close to the roots before it, and no site is a root twice.
//!
//! Reach is bounded from below by searches from a few far routers, each of which refutes the best candidate so far (as
//! for the centre of a graph: Takes and Kosters, 2013). If `SEARCHES` are too few to prove the least reach, a bound
//! stands for it: then some roots may reach farther than they should, as on large irregular graphs.
use super::network::Network;
use crate::id::{AnId, RouterId};
use alloc::vec::Vec;

/// Rounds of two searches each.
const SEARCHES: u32 = 8;

pub(super) struct Roots {
    candidates: Vec<Candidate>,
}

struct Candidate {
    an: AnId,
    router: RouterId,
    reach: u64,
    /// Each earlier root adds a share that falls with its distance, to a quarter for each link.
    nearness: u64,
}

impl Roots {
    /// `used`: the sites with end nodes; `free`: the number of children that each may have.
    pub fn new(network: &Network, used: &[AnId], free: &[u32]) -> Roots {
        let single = used.len() == 1;
        let sites = if single { used } else { network.usable_sites() };
        let can = |an: &&AnId| single || free[an.0 as usize] > 0;
        let mut candidates: Vec<Candidate> = sites
            .iter()
            .filter(can)
            .map(|&an| Candidate { an, router: network.router(an), reach: 0, nearness: 0 })
            .collect();
        candidates.sort_unstable_by_key(|c| c.an);
        let targets: Vec<RouterId> = used.iter().map(|&an| network.router(an)).collect();
        let mut least = u64::MAX;
        let mut far = targets.first().copied();
        for _ in 0..SEARCHES {
            let Some(from) = far else { break };
            let costs = network.costs(&[from]);
            candidates.iter_mut().for_each(|c| c.reach = c.reach.max(costs[c.router.0 as usize]));
            let Some(best) = candidates.iter().min_by_key(|c| (c.reach, c.an)) else { break };
            let costs = network.costs(&[best.router]);
            far = targets.iter().copied().min_by_key(|r| (u64::MAX - costs[r.0 as usize], *r));
            let reach = far.map_or(0, |r| costs[r.0 as usize]);
            least = least.min(reach);
            if reach == best.reach {
                break;
            }
        }
        candidates.retain_mut(|c| {
            c.reach = c.reach.max(least);
            c.reach <= least + least / 3
        });
        Roots { candidates }
    }

    pub fn take(&mut self) -> Option<AnId> {
        let best = self.candidates.iter().enumerate().min_by_key(|(_, c)| (c.reach, c.nearness, c.an));
        best.map(|(at, _)| at).map(|at| self.candidates.remove(at).an)
    }

    /// Accounts for a root that has been taken, with the costs from it.
    pub fn taken(&mut self, costs: &[u64]) {
        for candidate in &mut self.candidates {
            candidate.nearness += (1 << 40) >> (2 * costs[candidate.router.0 as usize].min(20));
        }
    }
}
