// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A new map, and what follows from it: routes, leases, events. The end of announcements.
use super::{Effect, Manager};
use crate::config::Strategy;
use crate::event::Event;
use crate::id::HostId;
use crate::map::Map;
use crate::routes;
use crate::source::SourceRoutes;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;

/// The time between maps grows to this many times the first one while changes go on.
const PAUSE_FACTOR: u64 = 8;

impl Manager {
    /// The map is stale. `now`: it is made at once, for an own link has fallen.
    pub(super) fn stale(&mut self, now: bool) {
        let at_ns = match now {
            true => self.now_ns,
            false => self.now_ns + self.settle_pause_ns,
        };
        self.settle_at_ns = Some(self.settle_at_ns.map_or(at_ns, |before| before.min(at_ns)));
    }

    /// Drops announcements that have ended.
    pub(super) fn sweep(&mut self) {
        self.sweep_at_ns = self.now_ns + (self.timing.unreachable_ns / 5).max(self.timing.hello_ns);
        let over = self.table.sweep(self.now_ns, self.config.host, self.timing.unreachable_ns);
        for host in &over {
            self.noted_full = false;
            self.lines.iter_mut().for_each(|line| line.flood.settled(*host));
        }
        if over.iter().any(|&host| self.map.position(host).is_some()) || self.has_rival() {
            self.stale(false);
        }
    }

    pub(super) fn settle(&mut self) {
        self.settle_at_ns = None;
        let is_busy = self.now_ns - self.settled_ns < PAUSE_FACTOR * 2 * self.timing.settle_ns;
        self.settle_pause_ns = match is_busy {
            true => (2 * self.settle_pause_ns).min(PAUSE_FACTOR * self.timing.settle_ns),
            false => self.timing.settle_ns,
        };
        self.settled_ns = self.now_ns;
        let own = (self.config.host, self.config.boot, self.announcement());
        let others = self.table.decoded().map(|(edition, announcement)| (edition.host, edition.boot, announcement));
        let map = Map::new(own, others);
        // Others may have dropped what this table still has, and a neighbour's copy of it is not passed on.
        let absent_ns = self.timing.unreachable_ns / 8;
        let back = self.table.note_reachable(self.now_ns, absent_ns, |host| map.position(host).is_some());
        back.into_iter().for_each(|host| self.offer(host, None));
        let before = core::mem::replace(&mut self.map, map);
        self.settle_rival();
        if before == self.map && self.topology.is_some() {
            return;
        }
        self.generation += 1;
        self.source = None;
        self.topology = self.map.topology().ok();
        self.report_hosts(&before);
        self.renew_routes();
        self.renew_leases();
    }

    fn report_hosts(&mut self, before: &Map) {
        let now = &self.map;
        let mut events = Vec::new();
        for host in before.hosts().iter().filter(|host| now.position(host.host).is_none()) {
            events.push(Event::HostLost { host: host.host, name: host.name.clone() });
            if self.lost.len() < self.config.limits.hosts as usize {
                self.lost.insert(host.host, (host.name.clone(), host.address));
            }
        }
        let own = self.config.host;
        for host in now.hosts().iter().filter(|host| host.host != own) {
            let known = before.host(host.host);
            if known.is_some_and(|old| (&old.name, old.address) == (&host.name, host.address)) {
                continue;
            }
            let is_new = known.is_none();
            if is_new {
                events.push(Event::HostFound { host: host.host, name: host.name.clone() });
            }
            let former = known.map(|old| (old.name.clone(), old.address)).or_else(|| self.lost.remove(&host.host));
            let (mut is_renamed, mut is_renumbered) = (is_new, is_new);
            if let Some((name, address)) = former {
                let after = &host.name;
                if name != *after {
                    is_renamed = true;
                    events.push(Event::Renamed { host: host.host, before: name, after: after.clone() });
                }
                if address != host.address {
                    is_renumbered = true;
                    let (before, after, name) = (address, host.address, after.clone());
                    events.push(Event::Renumbered { host: host.host, name, before, after });
                }
            }
            let others = || now.hosts().iter().filter(|other| other.host != host.host);
            let twin = others().find(|other| is_renamed && !other.name.is_empty() && other.name == host.name);
            if let Some(other) = twin {
                events.push(Event::SameName { name: host.name.clone(), hosts: [other.host, host.host] });
            }
            let twin = others().find(|other| is_renumbered && other.address.is_some() && other.address == host.address);
            if let (Some(other), Some(address)) = (twin, host.address) {
                let mut hosts = [other.host, host.host];
                hosts.sort_unstable_by_key(|&host| (host != own, host));
                events.push(Event::SameAddress { address, hosts });
            }
        }
        events.into_iter().for_each(|event| self.event(event));
    }

    /// Withdraws and installs the routes that differ.
    fn renew_routes(&mut self) {
        let routes = match &self.topology {
            Some(topology) if self.makes_routes => routes::routes(&self.map, topology),
            _ => BTreeMap::new(),
        };
        let before = core::mem::replace(&mut self.routes, routes);
        for (to, old) in &before {
            let new = self.routes.get(to);
            if new.is_none_or(|new| new.address != old.address) {
                self.effects.push(Effect::Withdraw { to: *to, address: old.address });
            }
        }
        let changed = self.routes.values().filter(|route| before.get(&route.to) != Some(route));
        self.effects.extend(changed.cloned().map(Effect::Install));
    }

    fn renew_leases(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        if self.config.strategy != Strategy::Shortest {
            self.make_source_routes();
        }
        let (map, own) = (&self.map, self.config.host);
        let path = |to: HostId| match self.config.strategy {
            Strategy::Shortest => routes::shortest_path(map, self.topology.as_ref()?, own, to),
            _ => self.source.as_ref()?.path(map, own, to),
        };
        let withdrawn = self.leases.withdraw(path);
        let effects = withdrawn.into_iter().map(|(lease, cause)| Effect::WithdrawLease { lease, cause });
        self.effects.extend(effects);
    }

    pub(super) fn make_source_routes(&mut self) {
        if self.source.is_some() {
            return;
        }
        match SourceRoutes::new(&self.map, self.config.strategy, 1) {
            Ok(source) => {
                if let Some(why) = source.instead() {
                    let why = why.to_string();
                    self.event(Event::OtherRoutes { why });
                }
                self.source = Some(Box::new(source));
            }
            Err(error) => self.event(Event::OtherRoutes { why: error.to_string() }),
        }
    }
}
