// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's side of the daemon: its address, its rule, its table of routes, and the sysctls that forwarding needs.
//!
//! # Invariants
//!
//! 1. Routes are in table 7391 with protocol 83; the rule has priority 7391; the address has the label `lo:selvedge`.
//!    Nothing else is changed or removed.
//! 2. Routes of a daemon that was killed stay until they are replaced, or [`Kernel::drop_stale`].
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::neighbour::{NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
    RouteVia,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;

use crate::interfaces::loopback;
use crate::netlink::Requests;

/// Table of the routes, and priority of the rule.
pub const TABLE: u32 = 7391;
/// Marks the daemon's routes and its rule.
const PROTOCOL: RouteProtocol = RouteProtocol::Other(83);
/// Marks the daemon's address. Programs can name it as an interface.
pub const LABEL: &str = "lo:selvedge";
/// Bit of `CAP_NET_ADMIN`.
const CAP_NET_ADMIN: u32 = 12;

/// The next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    pub interface: u32,
    /// The neighbour's link-local address.
    pub via: Ipv6Addr,
}

/// Addresses of this host.
#[derive(Debug, Default)]
pub struct Addresses {
    /// With the lengths of their networks.
    pub networks: Vec<(Ipv4Addr, u8)>,
    /// Those with the daemon's label.
    pub labelled: Vec<Ipv4Addr>,
}

/// The daemon's part of the kernel's tables.
pub struct Kernel {
    requests: Requests,
    own: Ipv4Addr,
    /// Whether the own address is the daemon's, and not one that the host has in any case.
    is_own_added: bool,
    loopback: u32,
    /// Routes of an earlier daemon.
    stale: BTreeSet<Ipv4Addr>,
}

impl Kernel {
    /// Adds the address and the rule, or takes over those of a daemon that was killed.
    pub fn start(own: Ipv4Addr) -> io::Result<Kernel> {
        let mut requests = Requests::open()?;
        let loopback = loopback(&mut requests)?;
        let addresses = addresses(&mut requests)?;
        let is_there = addresses.networks.iter().any(|&(address, _)| address == own);
        let is_own_added = !is_there || addresses.labelled.contains(&own);
        let mut kernel = Kernel { requests, own, is_own_added, loopback, stale: BTreeSet::new() };
        for &old in addresses.labelled.iter().filter(|&&old| old != own) {
            kernel.forgive(Errno::ADDRNOTAVAIL, |kernel| kernel.remove_address(old))?;
        }
        if !is_there {
            let message = RouteNetlinkMessage::NewAddress(address_message(own, loopback));
            kernel.requests.change(message, NLM_F_CREATE | NLM_F_REPLACE)?;
        }
        let rule = RouteNetlinkMessage::NewRule(rule());
        kernel.forgive(Errno::EXIST, |kernel| kernel.requests.change(rule, NLM_F_CREATE | NLM_F_EXCL))?;
        kernel.stale = kernel.routes()?;
        Ok(kernel)
    }

    /// Sets the route to an address.
    pub fn install(&mut self, to: Ipv4Addr, hop: Hop, mtu: u16) -> io::Result<()> {
        let mut route = route_message(to);
        route.header.scope = RouteScope::Universe;
        route.header.kind = RouteType::Unicast;
        route.attributes.push(RouteAttribute::Via(RouteVia::Inet6(hop.via)));
        route.attributes.push(RouteAttribute::Oif(hop.interface));
        route.attributes.push(RouteAttribute::PrefSource(RouteAddress::Inet(self.own)));
        if (68..u16::MAX).contains(&mtu) {
            route.attributes.push(RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu.into())]));
        }
        self.requests.change(RouteNetlinkMessage::NewRoute(route), NLM_F_CREATE | NLM_F_REPLACE)?;
        self.stale.remove(&to);
        Ok(())
    }

    /// Removes the route to an address. The kernel has already removed it if its interface was shut down.
    pub fn withdraw(&mut self, to: Ipv4Addr) -> io::Result<()> {
        self.stale.remove(&to);
        let message = RouteNetlinkMessage::DelRoute(route_message(to));
        self.forgive(Errno::SRCH, |kernel| kernel.requests.change(message, 0))
    }

    /// Asks for the hardware address of a neighbour whose link has come up. A packet to a neighbour without one waits for
    /// it, and fails with the neighbour: a connection that begins while the cable dies would not be tried again.
    pub fn resolve_neighbour(&mut self, hop: Hop) -> io::Result<()> {
        let mut message = neighbour(hop);
        message.header.flags = NeighbourFlags::Use;
        self.requests.change(RouteNetlinkMessage::NewNeighbour(message), NLM_F_CREATE)
    }

    /// Forgets a neighbour whose cable is dead, and with it the packets that wait for its answer. TCP sends none of them
    /// again over another cable while they wait, for up to 3 s.
    pub fn forget_neighbour(&mut self, hop: Hop) -> io::Result<()> {
        let message = RouteNetlinkMessage::DelNeighbour(neighbour(hop));
        self.forgive(Errno::NOENT, |kernel| kernel.requests.change(message, 0))
    }

    /// Removes the routes of an earlier daemon that no route has replaced; returns their number.
    pub fn drop_stale(&mut self) -> io::Result<usize> {
        let stale = std::mem::take(&mut self.stale);
        stale.iter().try_for_each(|&to| self.withdraw(to))?;
        Ok(stale.len())
    }

    /// Removes all that the daemon has added.
    pub fn end(&mut self) -> io::Result<()> {
        self.stale = self.routes()?;
        self.drop_stale()?;
        let rule = RouteNetlinkMessage::DelRule(rule());
        self.forgive(Errno::NOENT, |kernel| kernel.requests.change(rule, 0))?;
        if self.is_own_added {
            self.forgive(Errno::ADDRNOTAVAIL, |kernel| kernel.remove_address(kernel.own))?;
        }
        Ok(())
    }

    fn remove_address(&mut self, address: Ipv4Addr) -> io::Result<()> {
        self.requests.change(RouteNetlinkMessage::DelAddress(address_message(address, self.loopback)), 0)
    }

    fn routes(&mut self) -> io::Result<BTreeSet<Ipv4Addr>> {
        let mut all = RouteMessage::default();
        all.header.address_family = AddressFamily::Inet;
        let found = self.requests.dump(RouteNetlinkMessage::GetRoute(all))?;
        Ok(found.iter().filter_map(own_route).collect())
    }

    fn forgive(&mut self, errno: Errno, act: impl FnOnce(&mut Kernel) -> io::Result<()>) -> io::Result<()> {
        act(self).or_else(|error| match error.raw_os_error() == Some(errno.raw_os_error()) {
            true => Ok(()),
            false => Err(error),
        })
    }
}

/// The destination of a route of the daemon's.
fn own_route(message: &RouteNetlinkMessage) -> Option<Ipv4Addr> {
    let RouteNetlinkMessage::NewRoute(route) = message else { return None };
    let is_ours = route.attributes.contains(&RouteAttribute::Table(TABLE)) && route.header.protocol == PROTOCOL;
    route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet(to)) if is_ours => Some(*to),
        _ => None,
    })
}

fn route_message(to: Ipv4Addr) -> RouteMessage {
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: 32,
        protocol: PROTOCOL,
        // Any scope and type, when it is to be removed.
        scope: RouteScope::NoWhere,
        ..RouteHeader::default()
    };
    route.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(to)), RouteAttribute::Table(TABLE)];
    route
}

fn neighbour(hop: Hop) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet6;
    message.header.ifindex = hop.interface;
    message.attributes = vec![NeighbourAttribute::Destination(NeighbourAddress::Inet6(hop.via))];
    message
}

fn rule() -> RuleMessage {
    let mut rule = RuleMessage::default();
    rule.header.family = AddressFamily::Inet;
    rule.header.action = RuleAction::ToTable;
    rule.attributes =
        vec![RuleAttribute::Priority(TABLE), RuleAttribute::Table(TABLE), RuleAttribute::Protocol(PROTOCOL)];
    rule
}

fn address_message(address: Ipv4Addr, loopback: u32) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = 32;
    message.header.scope = AddressScope::Universe;
    message.header.index = loopback;
    let address = IpAddr::V4(address);
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
        AddressAttribute::Label(LABEL.into()),
    ];
    message
}

/// This host's IPv4 addresses.
pub fn addresses(requests: &mut Requests) -> io::Result<Addresses> {
    let mut all = AddressMessage::default();
    all.header.family = AddressFamily::Inet;
    let mut found = Addresses::default();
    for message in requests.dump(RouteNetlinkMessage::GetAddress(all))? {
        let RouteNetlinkMessage::NewAddress(message) = message else { continue };
        let local = message.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(IpAddr::V4(address)) => Some(*address),
            _ => None,
        });
        let Some(local) = local else { continue };
        found.networks.push((local, message.header.prefix_len));
        if message.attributes.contains(&AddressAttribute::Label(LABEL.into())) {
            found.labelled.push(local);
        }
    }
    Ok(found)
}

/// Whether this process may change routes.
pub fn may_change_routes() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    has_capability(&status, CAP_NET_ADMIN)
}

fn has_capability(status: &str, bit: u32) -> bool {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    effective.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).is_some_and(|set| set >> bit & 1 == 1)
}

/// A sysctl that keeps the fabric from working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sysctl {
    /// Path below `/proc/sys`.
    pub path: String,
    pub is: String,
    pub wanted: &'static str,
    pub why: &'static str,
}

impl Sysctl {
    /// The name that the command `sysctl` takes, which has `/` for dots within names.
    pub fn name(&self) -> &str {
        &self.path
    }
}

/// The sysctls below `root` (`/proc/sys`) that have to change.
pub fn wrong_sysctls(root: &Path, interfaces: &[&str]) -> Vec<Sysctl> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok().map(|is| is.trim().to_owned());
    let mut wrong = Vec::new();
    let forward = "net/ipv4/ip_forward";
    if let Some(is) = read(forward).filter(|is| is == "0") {
        let why = "this host does not pass on messages between others";
        wrong.push(Sysctl { path: forward.into(), is, wanted: "1", why });
    }
    // The kernel takes the larger number of `all` and of the interface: 0 none, 1 strict, 2 loose.
    let number = |name: &str| read(&format!("net/ipv4/conf/{name}/rp_filter")).and_then(|is| is.parse::<u32>().ok());
    let all = number("all").unwrap_or(0);
    for name in interfaces {
        if number(name).is_some_and(|own| own.max(all) == 1) {
            let why = "messages that come back over another cable are dropped";
            wrong.push(Sysctl { path: format!("net/ipv4/conf/{name}/rp_filter"), is: "1".into(), wanted: "2", why });
        }
        let path = format!("net/ipv6/conf/{name}/disable_ipv6");
        if let Some(is) = read(&path).filter(|is| is == "1") {
            let why = "neighbours are found over IPv6";
            wrong.push(Sysctl { path, is, wanted: "0", why });
        }
    }
    wrong
}

pub fn set_sysctl(root: &Path, sysctl: &Sysctl) -> io::Result<()> {
    std::fs::write(root.join(&sysctl.path), sysctl.wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read() {
        assert!(has_capability("Name:\tx\nCapEff:\t0000000000001000\n", CAP_NET_ADMIN));
        assert!(!has_capability("CapPrm:\t0000000000001000\nCapEff:\t0000000000000fff\n", CAP_NET_ADMIN));
        assert!(!has_capability("", CAP_NET_ADMIN));
    }

    #[test]
    fn wrong_sysctls_are_named_and_set() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("net/ipv4/ip_forward", "0\n");
        write("net/ipv4/conf/all/rp_filter", "1\n");
        write("net/ipv4/conf/a/rp_filter", "0\n");
        write("net/ipv4/conf/b.1/rp_filter", "2\n");
        write("net/ipv6/conf/b.1/disable_ipv6", "1\n");
        let wrong = wrong_sysctls(root.path(), &["a", "b.1", "gone"]);
        let names: Vec<&str> = wrong.iter().map(Sysctl::name).collect();
        assert_eq!(names, ["net/ipv4/ip_forward", "net/ipv4/conf/a/rp_filter", "net/ipv6/conf/b.1/disable_ipv6"]);
        wrong.iter().for_each(|sysctl| set_sysctl(root.path(), sysctl).unwrap());
        assert_eq!(wrong_sysctls(root.path(), &["a", "b.1", "gone"]), []);
    }

    #[test]
    fn only_routes_of_the_own_table_and_protocol_are_taken_over() {
        let to = Ipv4Addr::new(10, 1, 2, 3);
        let ours = route_message(to);
        assert_eq!(own_route(&RouteNetlinkMessage::NewRoute(ours.clone())), Some(to));
        let mut other = ours.clone();
        other.header.protocol = RouteProtocol::Static;
        assert_eq!(own_route(&RouteNetlinkMessage::NewRoute(other)), None);
        let mut other = ours;
        other.attributes[1] = RouteAttribute::Table(254);
        assert_eq!(own_route(&RouteNetlinkMessage::NewRoute(other)), None);
    }
}
