// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The true state of a fabric, and which managers know it.
//!
//! Costs: a change O(links); a new map of a manager O(1), or O(links) for the first one of each part of the fabric.

use selvedge_fabric::{Peer, Port, RouterId, Topology};
use selvedge_fabric_manager::{HostId, Map};

use super::wire::Wire;
use crate::network::{LinkPorts, host_of};

type Ends = [(HostId, Port); 2];

/// Returns the two ends of a channel between routers, its own first.
pub(super) fn ends_of(topology: &Topology, ports: &LinkPorts, channel: u32) -> Option<Ends> {
    let (router, port) = topology.channel_source(channel)?;
    let Peer::Router { router: there, port: back } = topology.peer(router, port) else { return None };
    let other = ports.number(topology.channel(there, back))?;
    Some([(host_of(router.0), ports.number(channel)?), (host_of(there.0), other)])
}

/// A connected part of the fabric.
#[derive(Debug, Default)]
struct Part {
    hosts: Vec<HostId>,
    links: Vec<Ends>,
    /// The digest of its maps.
    digest: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Truth {
    links: usize,
    routers: u32,
    /// The part of each live router.
    part_of: Vec<Option<u32>>,
    parts: Vec<Part>,
    agrees: Vec<bool>,
    live: usize,
    agreeing: usize,
    /// A router that was not at rest when `all` last looked.
    restless: usize,
}

impl Truth {
    pub fn new(links: usize, routers: u32) -> Truth {
        Truth {
            links,
            routers,
            part_of: vec![None; routers as usize],
            parts: Vec::new(),
            agrees: vec![false; routers as usize],
            live: 0,
            agreeing: 0,
            restless: 0,
        }
    }

    /// Takes the state of links and routers. No manager is known to agree.
    pub fn set(&mut self, topology: &Topology, ports: &LinkPorts, wire: &Wire, is_live: impl Fn(u32) -> bool) {
        self.parts.clear();
        self.part_of.fill(None);
        self.agrees.fill(false);
        (self.live, self.agreeing) = (0, 0);
        for start in (0..self.routers).filter(|&router| is_live(router)) {
            self.live += 1;
            if self.part_of[start as usize].is_some() {
                continue;
            }
            let number = self.parts.len() as u32;
            let mut part = Part::default();
            self.part_of[start as usize] = Some(number);
            let mut open = vec![start];
            while let Some(at) = open.pop() {
                part.hosts.push(host_of(at));
                for &port in ports.of(RouterId(at)) {
                    let channel = topology.channel(RouterId(at), port);
                    let Some(ends) = ends_of(topology, ports, channel) else { continue };
                    let Peer::Router { router: there, port: back } = topology.peer(RouterId(at), port) else {
                        continue;
                    };
                    if !(wire.is_up(channel) && wire.is_up(topology.channel(there, back)) && is_live(there.0)) {
                        continue;
                    }
                    if ends[0] < ends[1] {
                        part.links.push(ends);
                    }
                    if self.part_of[there.0 as usize].replace(number).is_none() {
                        open.push(there.0);
                    }
                }
            }
            part.hosts.sort_unstable();
            part.links.sort_unstable();
            self.parts.push(part);
        }
    }

    /// Takes a manager's map.
    pub fn note(&mut self, router: u32, map: &Map) {
        let Some(number) = self.part_of[router as usize] else { return };
        let part = &mut self.parts[number as usize];
        let is_true = part.digest == Some(map.digest())
            || map.hosts().len() == part.hosts.len()
                && map.links().len() == part.links.len()
                && map.hosts().iter().map(|host| host.host).eq(part.hosts.iter().copied())
                && map.links().iter().map(|link| link.ends).eq(part.links.iter().copied());
        if is_true {
            part.digest = Some(map.digest());
        }
        let before = std::mem::replace(&mut self.agrees[router as usize], is_true);
        self.agreeing = self.agreeing + usize::from(is_true) - usize::from(before);
    }

    /// Whether all managers have the true maps of their parts.
    pub fn is_agreed(&self) -> bool {
        self.agreeing == self.live
    }

    /// Whether a map is that of the fabric without faults.
    pub fn is_whole(&self, map: &Map) -> bool {
        map.hosts().len() == self.routers as usize && map.links().len() == self.links
    }

    /// Whether all routers are at rest. Looks first at the one that last was not.
    pub fn all(&mut self, is_at_rest: impl Fn(usize) -> bool) -> bool {
        let count = self.routers as usize;
        for step in 0..count {
            let at = (self.restless + step) % count;
            if !is_at_rest(at) {
                self.restless = at;
                return false;
            }
        }
        true
    }
}
